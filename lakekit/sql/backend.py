"""A statement being read, and the backend that executes it.

    Statement(backend=…, catalog=cat, tokens=TokenStream.of("DELETE FROM shop.orders"))

A `SqlBackend` has what differs between execution in this process and by Spark's tasks; all other code is shared.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol
from zoneinfo import ZoneInfo

from lakekit import catalog, table
from lakekit.catalog.session import DEFAULT_DATABASE
from lakekit.errors import DatabaseNotFound, InvalidOption, SchemaMismatch, TableNotFound, Unsupported
from lakekit.model.table_paths import check_not_in_hint
from lakekit.sql.parameters import NamedFrame, bind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from lakekit.catalog.catalog import Catalog
    from lakekit.commit.changes import Commit
    from lakekit.dml.merge_plan import Clause
    from lakekit.maintenance.result import Expired
    from lakekit.sql.tokenizer import TokenStream
    from lakekit.table import Table
    from lakekit.table.format_tables import ObjectTable
    from lakekit.types import DataType, Field

    Row = tuple[Any, ...]

    Rows = Any
    """The rows of a query in a backend: a LazyFrame, or a DataFrame of Spark."""


_ANY = "*"
_MOST_PARTS = 3
"""The parts of a table's name: catalog, database, table."""


@dataclass(frozen=True, slots=True)
class StatementResult:
    """The few rows that a statement returns.

    `columns`: "name kind", separated by commas; kinds are "string", "long", "int" and "boolean".
    """

    columns: str = ""
    rows: Sequence[Row] = ()

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each column."""
        return dict(column.split() for column in self.columns.split(",")) if self.columns else {}


def single_column(rows: pl.DataFrame, text: str, most: int) -> pl.Series:
    """Return the only column of a query's rows.

    Raises: `SchemaMismatch` for several, `Unsupported` for more rows than `most`.
    """
    if rows.width != 1:
        raise SchemaMismatch(f"{text} gives {rows.width} columns, where one is wanted")
    if rows.height > most:
        raise Unsupported(f"{text} gives more than {most} values: make it the source of a MERGE", feature="catalog.sql")
    return rows.to_series()


class SqlBackend(Protocol):
    """Computes rows and changes tables for a statement.

    Methods raise what the methods of tables raise that they stand for.
    """

    @property
    def tables(self) -> dict[str, Table]:
        """Tables that lie outside of the catalog, by the names that statements gave them."""
        ...

    @property
    def catalogs(self) -> Mapping[str, Catalog]:
        """The catalogs that a name of three parts may begin with."""
        ...

    @property
    def database(self) -> str | None:
        """Where a name of one part is looked for; None: nowhere."""
        ...

    @property
    def zone(self) -> str | None:
        """The time zone in which texts are moments; None: that of this process."""
        ...

    def named(self, name: str) -> Catalog:
        """Return the catalog of a name. Raises `InvalidOption`."""
        ...

    def query(self, statement: Statement, text: str) -> Rows:
        """Return the rows of a query."""
        ...

    def literal_rows(self, statement: Statement) -> Rows | None:
        """Return the rows of a long VALUES that comes, if all are literals; None if they are read as a query."""
        ...

    def explain(self, statement: Statement) -> StatementResult:
        """Return the plan of the query that follows EXPLAIN in a statement."""
        ...

    def summarize(self, statement: Statement) -> Rows:
        """Return a row for each column of the table or query that follows SUMMARIZE."""
        ...

    def copy(self, statement: Statement) -> StatementResult:
        """Write the rows of the query that follows COPY to a file."""
        ...

    def values(self, statement: Statement, text: str, most: int) -> pl.Series:
        """Return the values of a query's only column.

        Raises: `SchemaMismatch` for several, `Unsupported` for more values than `most`.
        """
        ...

    def names(self, rows: Rows) -> list[str]:
        """Their columns' names."""
        ...

    def fields(self, rows: Rows) -> tuple[Field, ...]:
        """Their columns. Raises `SchemaMismatch` for a type that no Paimon type holds."""
        ...

    def renamed(self, rows: Rows, names: Sequence[str]) -> Rows:
        """Return the rows with other names for their columns, in order."""
        ...

    def stored(self, rows: Rows, wanted: Sequence[Field | None], constants: Mapping[Field, Any]) -> Rows:
        """Return the rows as a table takes them: the column of each field, in order, and constant columns.

        Columns are cast as SQL casts what it stores; with None in place of a field a column stays as it is.
        """
        ...

    def type(self, text: str) -> DataType:
        """Return the type that a statement names."""
        ...

    def type_text(self, t: DataType) -> str:
        """Return a type as DESCRIBE prints it."""
        ...

    def write(self, rows: Rows, table: Table, *, mode: str, partition: Mapping[str, Any] | None) -> Commit:
        """Rows appended, or put in the place of others: `mode` is "append" or "overwrite"."""
        ...

    def change_rows(self, statement: Statement) -> StatementResult | None:
        """Execute an UPDATE, DELETE or MERGE, read as far as its first word, whose expressions the backend computes.

        None where they are translated instead; then no token was taken.
        """
        ...

    def delete(self, table: Table, where: pl.Expr | str) -> Commit: ...
    def update(self, table: Table, values: Mapping[str, Any], *, where: pl.Expr | str) -> Commit: ...
    def merge(self, table: Table, source: Rows, *clauses: Clause, on: pl.Expr) -> Commit: ...
    def analyze(self, table: Table, *, columns: Sequence[str] | None) -> Commit: ...
    def compact(self, table: Table, **how: Any) -> Commit: ...
    def rewrite_file_index(self, table: Table, *, where: pl.Expr | None) -> Commit: ...
    def remove_orphans(self, table: Table, *, older_than: datetime | None, dry_run: bool) -> pl.DataFrame: ...
    def refresh(self, table: ObjectTable) -> Commit: ...
    def expire_snapshots(self, table: Table, **how: Any) -> Expired: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement, its backend and catalog, and the tokens of it that are still to be read."""

    backend: SqlBackend
    catalog: Catalog
    tokens: TokenStream
    is_foreign: bool = False
    """Whether the catalog is that of a name with three parts, and not the session's."""
    frames: Mapping[str, Any] = field(default_factory=dict)
    """What the caller gave names of one part: a `NamedFrame`, or the table `self`."""

    settings: Mapping[str, str] = field(default_factory=dict)
    """The values of SET in the session."""

    def bind(self, tree: Any) -> Any:
        """Return a tree of sqlglot with literals in place of parameters. Raises `InvalidOption`."""
        return bind(tree, self.tokens.parameters)

    def take_name(self) -> tuple[Statement, str]:
        """Take the name of a table; return the statement in the catalog that it names, and "db.t".

        Raises: `InvalidOption`.
        """
        return self.locate(self.tokens.names("a table, as database.table"))

    def locate(self, parts: Sequence[str]) -> tuple[Statement, str]:
        """Return the statement in the catalog that the parts of a table's name begin with, and "db.t".

        Raises: `InvalidOption` for a catalog that the session does not know, and for more than three parts.
        """
        if len(parts) > _MOST_PARTS:
            raise InvalidOption(
                f"{'.'.join(parts)} has {len(parts)} parts; a table is called database.table or catalog.database.table",
                key="sql",
                value=".".join(parts),
            )
        if len(parts) < _MOST_PARTS:
            return self, self.full(parts)
        return self.in_catalog(parts[0]), ".".join(parts[1:])

    def in_catalog(self, name: str) -> Statement:
        """Return the statement in a catalog of the session. Raises `InvalidOption`."""
        catalog = self.backend.named(name)
        return replace(self, catalog=catalog, is_foreign=catalog is not self.catalog)

    def take_database(self) -> tuple[Statement, str]:
        """Take the name of a database; return the statement in the catalog that it names, and the name."""
        parts = self.tokens.names("a database")
        if len(parts) == 1:
            return self, parts[0]
        if len(parts) > 2:
            raise InvalidOption(f"{'.'.join(parts)}: a database is called database, or catalog.database", key="sql")
        return self.in_catalog(parts[0]), parts[1]

    def target(self) -> tuple[str, Table]:
        """Take the name of the table whose rows a statement changes, and the hint behind it.

        Return the name, "db.t", and the table with the hint's options. A later hint is refused, but for those of a
        query within the statement.

        Raises what the catalog raises, `SqlError` for a hint at another place, `InvalidOption` for its options,
        `Unsupported` for a materialized table.
        """
        own, name = self.take_name()
        options = self.take_hint()
        self.tokens.refuse_hints(self.tokens.find_query())
        target = own.table(name, options)
        if isinstance(target, catalog.views.MaterializedTable):
            raise Unsupported(
                f"{name} is a materialized table: its rows come from its query, and the next refresh would lose the "
                "change; change the tables that the query reads",
                feature="catalog.sql",
            )
        return name, target

    def take_hint(self) -> dict[str, str] | None:
        """Take the hint that stands here, `/*+ OPTIONS('k' = 'v') */`, and return its options; None without a hint."""
        hint = self.tokens.take_hint()
        return None if hint is None else parse_hint(hint)

    def create_default_database(self, name: str) -> None:
        """Create the database `default` where it is that of a new table's name, and missing."""
        if name.partition(".")[0] == DEFAULT_DATABASE:
            self.catalog.create_database(DEFAULT_DATABASE, if_not_exists=True)

    def full(self, parts: Sequence[str]) -> str:
        """Return a name with its database. Raises `InvalidOption` where no database is known."""
        if len(parts) > 1 or parts[0] in self.frames:
            return ".".join(parts)
        if self.backend.database is None:
            raise InvalidOption(
                f"{parts[0]}: a table is called database.table, or USE names the database before",
                key="sql",
                value=parts[0],
            )
        return f"{self.backend.database}.{parts[0]}"

    def resolve_name(self, name: str, options: Mapping[str, str] | None = None) -> Any:
        """Return the table, view, system table or frame of a name. Raises what the catalog raises."""
        if name in self.frames:
            named = self.frames[name]
            if options and isinstance(named, NamedFrame):
                raise InvalidOption(f"{name} is a frame, which takes no hint", key=next(iter(options)), value=None)
            return named.with_options(options) if options else named
        options = {**self._settings_of(name), **(options or {})} if self.settings else options
        if not self.is_foreign and name in self.backend.tables:
            return self.backend.tables[name].with_options(options) if options else self.backend.tables[name]
        try:
            return self.catalog.table(name, options=options)
        except DatabaseNotFound:
            database, _, table = name.partition(".")
            if database != DEFAULT_DATABASE:
                raise
        raise TableNotFound(
            f"no table {table!r}: names of one part are tables of the database {DEFAULT_DATABASE}, until USE names "
            "another; write database.table",
            name=name,
        )

    def _settings_of(self, name: str) -> dict[str, str]:
        """Return the options that SET gave a table, those for one table over those for many."""
        catalog = next((key for key, known in self.backend.catalogs.items() if known is self.catalog), _ANY)
        parts = (catalog, *name.partition("$")[0].split(".", 1))
        fitting = [key for key in self.settings if _fits(key, parts)]
        by_rank = sorted(fitting, key=lambda key: -key.split(".", 4)[1:4].count(_ANY))
        return {key.split(".", 4)[4]: self.settings[key] for key in by_rank}

    def table(self, name: str, options: Mapping[str, str] | None = None) -> Table:
        """Return a table with rows of its own.

        Raises what the catalog raises, `InvalidOption` for a system table.
        """
        named = self.resolve_name(name, options)
        if not isinstance(named, table.Table):
            raise InvalidOption(
                f"{name} is made of what a table holds, as views and system tables are; a statement that changes "
                "something names that table",
                key="sql",
                value=name,
            )
        return named

    @property
    def zone(self) -> str:
        """The zone of texts that are compared with moments that have one."""
        return self.backend.zone or "UTC"

    def moment(self, text: str, *, is_text: bool = True) -> datetime:
        """Return a time, given as a text in the backend's zone or as seconds since 1970.

        Without a zone it is in this process's.

        Raises: `InvalidOption`.
        """
        try:
            time = datetime.fromisoformat(text) if is_text else datetime.fromtimestamp(int(text), ZoneInfo("UTC"))
        except (ValueError, OverflowError, OSError):
            raise InvalidOption(
                f"{text!r} is no time; write '2024-03-31 12:00:00', or seconds since 1970", key="sql", value=text
            ) from None
        return time if time.tzinfo or self.backend.zone is None else time.replace(tzinfo=ZoneInfo(self.backend.zone))


# ---- properties ----------------------------------------------------------------------------------


def is_setting(key: str) -> bool:
    """Return whether a key of SET is one of an option of tables."""
    prefix, *names = key.split(".", 4)
    return prefix == "paimon" and len(names) == len(("catalog", "database", "table", "option"))


def _fits(key: str, parts: Sequence[str]) -> bool:
    return all(pattern in (_ANY, part) for pattern, part in zip(key.split(".", 4)[1:4], parts, strict=True))


def parse_hint(hint: TokenStream) -> dict[str, str]:
    """Return the options of a hint, OPTIONS('k' = 'v'). Raises `SqlError`, `InvalidOption` for a location."""
    hint.expect("OPTIONS")
    options = parse_properties(hint)
    hint.end()
    check_not_in_hint(options, "the hint OPTIONS")
    return options


def parse_properties(tokens: TokenStream) -> dict[str, str]:
    """Parse keys and values, as in ('key' = 'value', …)."""
    result: dict[str, str] = {}
    tokens.expect("(")
    while not tokens.accept(")"):
        if result:
            tokens.expect(",")
        key = parse_key(tokens)
        tokens.accept("=")
        result[key] = tokens.take(
            "a value: a text in single quotes, a number or a word", "text", "number", "word"
        ).value
    return result


def parse_key(tokens: TokenStream) -> str:
    """Parse a key: a text, or names with points between them."""
    word = tokens.next
    return tokens.string() if word is not None and word.kind == "text" else ".".join(tokens.names("a key"))
