"""The configuration of a pipeline: a TOML file as values that are checked before anything starts.

    [pipeline]
    user = "orders"                      the commit user: what it has committed tells how far the pipeline is
    warehouse = "lake"
    database = "shop"
    checkpoint = "checkpoints/orders"
    [source]
    kind = "files"                       files, paimon or stream
    path = "landing"
    format = "debezium"                  plain, a change format, or csv, parquet, avro
    [[table]]
    name = "orders"
    primary_keys = ["id"]

`read_configuration` reads a file, `parse_configuration` a text. A name that nothing is called is refused with the line
that it stands in and the nearest name. `${NAME}` in a value is that variable of the environment, so that no password
need stand in the file; no password is ever shown.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lakekit.ddl.table_definition import to_paimon_type
from lakekit.errors import InvalidOption, SchemaMismatch, Unsupported
from lakekit.options.option import SecretOptions
from lakekit.spark.pipeline.computed_column import METADATA_TYPES, ComputedColumn, parse_computed_column

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

SOURCE_KINDS = ("files", "paimon", "stream")
ROW_FORMATS = ("csv", "parquet", "avro")
"""Formats of files whose columns have names and types of their own."""
CHANGE_FORMATS = ("plain", "debezium", "canal", "maxwell", "ogg", "dms")
"""Formats of messages: one JSON text for each."""
PROBLEM_ACTIONS = ("dead-letter", "stop")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_USER = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_NO_OPTIONS: Mapping[str, str] = SecretOptions({})

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogConfiguration:
    """The catalog of the tables: what `lk.connect` takes beside the warehouse."""

    metastore: str = "filesystem"
    uri: str | None = field(default=None, repr=False)
    options: Mapping[str, str] = _NO_OPTIONS
    storage: Mapping[str, str] = _NO_OPTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfiguration:
    """The source: where messages or rows come from, and in which format.

    `row_kind`: the column of "+I", "-U", "+U", "-D" of plain rows. `order`: the columns that order the rows of a
    stream. `interval`: how long between two batches, as "10 seconds".
    """

    kind: str = "files"
    path: str | None = None
    format: str = "plain"
    row_kind: str | None = None
    order: tuple[str, ...] = ()
    options: Mapping[str, str] = _NO_OPTIONS
    files_per_batch: int = 1000
    interval: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingConfiguration:
    """The way from a source table to a table of the warehouse.

    `table`: all rows go to one. `by`: the column whose value names it. `include` and `exclude` are regular expressions
    that match the whole name, "database.table" where the message tells a database.
    """

    table: str | None = None
    by: str | None = None
    include: str = ".*"
    exclude: str | None = None
    prefix: str = ""
    suffix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConfiguration:
    """A table that the pipeline fills: its keys, its columns and its options where it has to be made.

    `source`: regular expressions for the source tables that go to it; without them the one of its name. `columns`:
    Paimon types by column, which count more than what messages tell. `metadata`: columns from the message itself.
    """

    name: str = ""
    source: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    columns: Mapping[str, str] = _NO_OPTIONS
    rename: Mapping[str, str] = _NO_OPTIONS
    exclude: tuple[str, ...] = ()
    computed: Mapping[str, str] = _NO_OPTIONS
    metadata: Mapping[str, str] = _NO_OPTIONS
    options: Mapping[str, str] = _NO_OPTIONS

    def computed_columns(self) -> tuple[ComputedColumn, ...]:
        """Return the computed columns, parsed."""
        return tuple(parse_computed_column(name, text) for name, text in self.computed.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthConfiguration:
    """What tables do with columns and types that they lack, and with rows that do not fit.

    `on_problem`: "dead-letter" writes them to the table `dead_letters`, "stop" ends the pipeline before the batch is
    written.
    """

    create_tables: bool = True
    add_columns: bool = True
    widen_types: bool = True
    type_mapping: tuple[str, ...] = ()
    on_problem: str = "dead-letter"
    dead_letters: str = "dead_letters"


@dataclass(frozen=True, slots=True, kw_only=True)
class CareConfiguration:
    """How often tables are looked after: every so many batches of theirs; 0 is never."""

    compact_every: int = 0
    expire_every: int = 0
    retain_snapshots: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineConfiguration:
    """A whole configuration; `tables` by name, `defaults` for tables that have none."""

    user: str
    warehouse: str
    checkpoint: str
    database: str = "default"
    catalog: CatalogConfiguration = field(default_factory=CatalogConfiguration)
    source: SourceConfiguration = field(default_factory=SourceConfiguration)
    routing: RoutingConfiguration = field(default_factory=RoutingConfiguration)
    defaults: TableConfiguration = field(default_factory=TableConfiguration)
    tables: Mapping[str, TableConfiguration] = field(default_factory=dict)
    growth: GrowthConfiguration = field(default_factory=GrowthConfiguration)
    care: CareConfiguration = field(default_factory=CareConfiguration)

    def table(self, name: str) -> TableConfiguration:
        """Return the configuration of a table: its own words, and the defaults for what it does not say."""
        return self.tables.get(name) or replace(self.defaults, name=name)


_SECTIONS: dict[str, type] = {
    "catalog": CatalogConfiguration,
    "source": SourceConfiguration,
    "routing": RoutingConfiguration,
    "growth": GrowthConfiguration,
    "care": CareConfiguration,
}
_PIPELINE_KEYS = ("user", "warehouse", "checkpoint", "database")
_REQUIRED_KEYS = ("user", "warehouse", "checkpoint")


def read_configuration(path: str | PathLike[str]) -> PipelineConfiguration:
    """Return the configuration in a TOML file; relative paths in it start from its folder.

    Raises: `InvalidOption` with the line and what to write instead, `Unsupported` for a source that is not there.
    """
    where = Path(path)
    try:
        text = where.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOption(f"the configuration {where} cannot be read: {error}", key="config") from error
    configuration = parse_configuration(text, name=str(where))
    folder = where.resolve().parent
    source = configuration.source
    return replace(
        configuration,
        warehouse=_from_folder(folder, configuration.warehouse),
        checkpoint=_from_folder(folder, configuration.checkpoint),
        source=source if source.path is None else replace(source, path=_from_folder(folder, source.path)),
    )


def _from_folder(folder: Path, path: str) -> str:
    return path if "://" in path or path.startswith("file:") else str(folder / path)


def parse_configuration(
    text: str, *, name: str = "the configuration", environment: Mapping[str, str] | None = None
) -> PipelineConfiguration:
    """Return the configuration in a TOML text.

    Raises: as `read_configuration`.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidOption(f"{name} is no TOML: {error}", key="config") from error
    reader = ConfigurationParser(text=text, name=name, environment=os.environ if environment is None else environment)
    return reader.parse(document)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationParser:
    """A parser of the sections of one text; it knows the lines of names, for errors."""

    text: str
    name: str
    environment: Mapping[str, str] = field(repr=False)

    def parse(self, document: Mapping[str, Any]) -> PipelineConfiguration:
        """Return the checked configuration."""
        self._check_names(document, ("pipeline", "table", "defaults", *_SECTIONS), ())
        head = self._section(document, "pipeline")
        self._check_names(head, _PIPELINE_KEYS, ("pipeline",))
        for key in _REQUIRED_KEYS:
            if key not in head:
                raise self._error(f"[pipeline] lacks {key}: {_REQUIRED_MEANING[key]}", ("pipeline",), key)
        texts: dict[str, Any] = {key: self._text(value, ("pipeline",), key) for key, value in head.items()}
        sections: dict[str, Any] = {
            key: self._build(kind, self._section(document, key), (key,)) for key, kind in _SECTIONS.items()
        }
        defaults = self._build(TableConfiguration, self._section(document, "defaults"), ("defaults",))
        made = PipelineConfiguration(**texts, **sections, defaults=defaults, tables=self._tables(document, defaults))
        self._check(made)
        return made

    def _tables(self, document: Mapping[str, Any], defaults: TableConfiguration) -> dict[str, TableConfiguration]:
        entries = document.get("table", [])
        if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
            raise self._error("tables are written as [[table]], one after another", (), "table")
        tables: dict[str, TableConfiguration] = {}
        for entry in entries:
            table = self._build(TableConfiguration, entry, ("table",), defaults)
            if not table.name:
                raise self._error("a [[table]] lacks name: the table that it is about", ("table",), "table")
            if table.name in tables:
                raise self._error(f"table {table.name!r} is there twice", ("table",), "name")
            tables[table.name] = table
        return tables

    def _section(self, document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        section = document.get(key, {})
        if not isinstance(section, Mapping):
            raise self._error(f"{key} is a section, [{key}], and not a {_kind_name(section)}", (), key)
        return section

    def _build(self, kind: type[T], section: Mapping[str, Any], path: tuple[str, ...], defaults: T | None = None) -> T:
        """Return a section as its dataclass; `defaults` fill in what it does not say."""
        members = {member.name: member for member in fields(kind)}  # type: ignore[arg-type]
        self._check_names(section, tuple(members), path)
        values = {key: self._convert(value, str(members[key].type), path, key) for key, value in section.items()}
        if defaults is not None:
            return replace(defaults, **values)  # type: ignore[type-var]
        assert all(member.default is not MISSING for member in members.values())
        return kind(**values)

    def _convert(self, value: Any, hint: str, path: tuple[str, ...], key: str) -> Any:
        """Return a value as the type of its field, which is written as `hint`."""
        if hint.startswith("str"):
            return self._text(value, path, key)
        if hint == "bool" and isinstance(value, bool):
            return value
        if hint == "int" and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        if hint.startswith("tuple") and isinstance(value, (list, str)):
            return tuple(self._text(item, path, key) for item in ([value] if isinstance(value, str) else value))
        if hint.startswith("Mapping") and isinstance(value, Mapping):
            return SecretOptions({name: self._option(item, path, name) for name, item in value.items()})
        wanted = next(words for start, words in _HINT_NAMES if hint.startswith(start))
        raise self._error(f"{key} takes {wanted}, and is a {_kind_name(value)}", path, key)

    def _option(self, value: Any, path: tuple[str, ...], key: str) -> str:
        """Return an option as the text that Spark and tables take."""
        if isinstance(value, bool):
            return str(value).lower()
        return str(value) if isinstance(value, (int, float)) else self._text(value, path, key)

    def _text(self, value: Any, path: tuple[str, ...], key: str) -> str:
        if not isinstance(value, str):
            raise self._error(f"{key} takes a text, and is a {_kind_name(value)}", path, key)

        def variable(matched: re.Match[str]) -> str:
            if matched[1] not in self.environment:
                raise self._error(f"{key} asks for the environment's {matched[1]}, which is not set", path, key)
            return self.environment[matched[1]]

        return _VARIABLE.sub(variable, value)

    def _check_names(self, section: Mapping[str, Any], known: Sequence[str], path: tuple[str, ...]) -> None:
        for key in section:
            if key not in known:
                near = difflib.get_close_matches(key.lower(), known, 1, 0.5)
                hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
                where = f"[{'.'.join(path)}] has no" if path else "there is no section"
                raise self._error(f"{where} {key!r}; {hint}", path, key)

    def _error(self, problem: str, path: tuple[str, ...], key: str) -> InvalidOption:
        line = find_line(self.text, path, key)
        where = self.name if line is None else f"{self.name}, line {line}"
        return InvalidOption(f"{where}: {problem}", key=".".join((*path, key)))

    # ---- values that do not go together

    def _check(self, configuration: PipelineConfiguration) -> None:
        self._check_source(configuration.source)
        if _USER.fullmatch(configuration.user) is None:
            raise self._error(
                f"user is {configuration.user!r}: letters, digits, _ . - and no more", ("pipeline",), "user"
            )
        routing = configuration.routing
        if routing.table is not None and routing.by is not None:
            raise self._error("table sends all rows to one, and by asks a column; give one", ("routing",), "by")
        for key, pattern in (("include", routing.include), ("exclude", routing.exclude)):
            self._check_pattern(pattern, ("routing",), key)
        self._check_choice(configuration.growth.on_problem, PROBLEM_ACTIONS, ("growth",), "on_problem")
        retained = configuration.care.retain_snapshots
        if retained < _MIN_RETAINED:
            problem = (
                f"retain_snapshots is {retained}: {_MIN_RETAINED} is the least, as the newest ones tell the progress"
            )
            raise self._error(problem, ("care",), "retain_snapshots")
        self._check_table(configuration.defaults, ("defaults",))
        for table in configuration.tables.values():
            self._check_table(table, ("table",))

    def _check_source(self, source: SourceConfiguration) -> None:
        path = ("source",)
        if source.kind == "kafka":
            raise Unsupported(
                f"{self.name}: a pipeline reads no topics of Kafka yet. Give a frame that Spark's connector reads, "
                'spark.readStream.format("kafka")…, to run(…, stream=frame) under kind = "stream"',
                feature="spark.pipeline.kafka",
            )
        self._check_choice(source.kind, SOURCE_KINDS, path, "kind")
        self._check_choice(source.format, (*CHANGE_FORMATS, *ROW_FORMATS), path, "format")
        if source.kind != "stream" and source.path is None:
            raise self._error(f"kind {source.kind!r} needs path: where its files are", path, "kind")
        if source.kind == "paimon" and source.format != "plain":
            raise self._error("a Paimon table has rows, and no format", path, "format")
        if source.kind == "stream" and source.format in ROW_FORMATS:
            raise self._error(f"format {source.format!r} is of files; the rows of a stream are plain", path, "format")
        if source.row_kind is not None and source.format in CHANGE_FORMATS[1:]:
            raise self._error(f"row_kind is of plain rows; {source.format} tells kinds itself", path, "row_kind")
        if source.files_per_batch < 1:
            raise self._error("files_per_batch is 0; one is the least", path, "files_per_batch")

    def _check_table(self, table: TableConfiguration, path: tuple[str, ...]) -> None:
        for pattern in table.source:
            self._check_pattern(pattern, path, "source")
        for column, text in table.columns.items():
            try:
                to_paimon_type(text, column)
            except SchemaMismatch as error:
                raise self._error(f"column {column}: {error}", path, column) from error
        for column, value in table.metadata.items():
            self._check_choice(value, tuple(METADATA_TYPES), path, column)
        for column, text in table.computed.items():
            try:
                parse_computed_column(column, text)
            except InvalidOption as error:
                raise self._error(str(error), path, column) from error
        made = [*table.computed, *table.metadata]
        twice = {name for name in made if made.count(name) > 1 or name in table.columns}
        if twice:
            raise self._error(f"column {min(twice)!r} is made twice", path, min(twice))
        renamed = list(table.rename.values())
        if len({*renamed}) < len(renamed):
            raise self._error("two columns are renamed to one name", path, "rename")

    def _check_choice(self, value: str, known: Sequence[str], path: tuple[str, ...], key: str) -> None:
        if value not in known:
            near = difflib.get_close_matches(value.lower(), known, 1, 0.5)
            hint = f"did you mean {near[0]!r}?" if near else ""
            there = f"there are {', '.join(known)}"
            raise self._error(f"{key} is {value!r}; {hint or there}", path, key)

    def _check_pattern(self, pattern: str | None, path: tuple[str, ...], key: str) -> None:
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise self._error(f"{key} is {pattern!r}, which is no regular expression: {error}", path, key) from error


_MIN_RETAINED = 10
_REQUIRED_MEANING = {
    "user": "the commit user, by which the pipeline finds what it has committed",
    "warehouse": "where the tables are, or shall be",
    "checkpoint": "the folder where Spark keeps what the pipeline has taken from its source",
}
_HINT_NAMES = (
    ("bool", "true or false"),
    ("int", "a whole number from 0 on"),
    ("tuple", "texts in a list"),
    ("Mapping", "names and values, { name = value }"),
)


def _kind_name(value: object) -> str:
    names = {bool: "boolean", int: "number", float: "number", str: "text", list: "list", dict: "section"}
    return names.get(type(value), type(value).__name__)


def find_line(text: str, path: Sequence[str], key: str) -> int | None:
    """Return the line, from 1, where a name stands in a section of a TOML text; None where it is not found."""
    word = re.compile(rf"""(?<![\w-])["']?{re.escape(key)}["']?(?![\w-])""")
    section: tuple[str, ...] = ()
    elsewhere: int | None = None
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[\[?\s*([^\]]+?)\s*\]", line)
        if header is not None:
            section = tuple(part.strip(" \"'") for part in header[1].split("."))
        if word.search(line.partition("#")[0]) is None:
            continue
        if section[: len(path)] == tuple(path) or (header is not None and section[: len(path)] == tuple(path)):
            return number
        elsewhere = elsewhere or number
    return elsewhere
