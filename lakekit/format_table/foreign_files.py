"""Files that other engines wrote to a folder, and one schema for all of them.

    <root>/part-0.parquet                     <root>/dt=2024-01-01/hr=__HIVE_DEFAULT_PARTITION__/000000_0

    a.parquet  k INT, v FLOAT          b.parquet  k BIGINT, w STRING
    the table  k BIGINT, v FLOAT, w STRING             columns in the order of their first file, partition columns last

Files lie flat, or in folders that name the values of partition columns. Names that begin with a dot, or with `_` and
are no `k=v`, are skipped, as Spark and Hive skip them; so are empty files, which Hive leaves for buckets without rows.
Folders that are no `k=v` are searched. A folder of another table format is refused: its files alone do not show which
of them are rows. A column that a file lacks is null there. Where types differ, the table has the wider one, and the
others become older schemas of the table, so that each file is read by the schema that it was written with: no reader
takes one number for another. The partition values in folder names are texts: the column is a whole number (INT, BIGINT)
or day (DATE) only where every text is exactly what its value prints as, else it stays STRING: `01` is not 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lakekit.errors import Corrupt, NotFound, SchemaMismatch, Unsupported
from lakekit.format import foreign_file
from lakekit.format.foreign_file import BYTES_TYPE, STRING_TYPE, ForeignFileSchema
from lakekit.format_table.scan import is_hidden
from lakekit.model import partition as partitions
from lakekit.parallel import parallel_map
from lakekit.types import INTEGERS, NESTED_TYPES, STRINGS, TIMESTAMPS, DataType, Field

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakekit.storage.protocol import Stat, Storage


HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_HEAD_BYTES = 4
_OTHER_FORMATS = {"_delta_log": "Delta Lake", ".hoodie": "Hudi"}
_HIVE_TRANSACTION_FOLDER = re.compile(r"(base|delta|delete_delta)_\d+(_\d+)*")
_MARKER_NAMES = ("_SUCCESS", "_metadata", "_common_metadata")
"""What writers leave beside files, which says something of these files only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignFile:
    """A file of rows, its format, and the texts of its partition values in the order of the keys."""

    path: str
    size_bytes: int
    format_name: str
    partition_texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignSource:
    """The files of a folder.

    `metadata_files` are files that hold no rows and only describe the others; `folders` are listed before the folders
    that contain them.
    """

    storage: Storage
    root: str
    keys: tuple[str, ...]
    files: tuple[ForeignFile, ...]
    metadata_files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


def list_source(storage: Storage, root: str) -> ForeignSource:
    """Return the files in a folder, or a single file.

    Raises: `NotFound` if nothing is, or no file of rows; `Unsupported` for a folder of another table format,
    `SchemaMismatch` where folders disagree on the partition columns, `Corrupt` for a file that is no Parquet, ORC or
    Avro.
    """
    inside = storage.list(root)
    stat = None if inside else storage.stat(root)
    if stat is not None and not stat.is_dir:
        inside = [stat]
    elif not inside:
        what = "an empty folder" if stat is not None else "nothing"
        raise NotFound(
            f'there is {what} at "{root}", where Parquet, ORC or Avro files were to be taken over', name=root
        )
    _refuse_tables(storage, root, inside)
    folders: list[str] = []
    seen = list(_walk_files(storage, root, inside, folders))
    files = [entry for entry in seen if entry.size_bytes and not _is_hidden(entry.name)]
    if not files:
        raise NotFound(
            f'"{root}" holds no files of rows: hidden and empty ones are passed over. Name the folder that they lie in',
            name=root,
        )
    keys, texts = _parse_partitions(root, files)
    heads = parallel_map(lambda entry: storage.read(entry.path, 0, _HEAD_BYTES), files, waiting=storage.is_remote)
    row_files = [
        ForeignFile(
            path=entry.path, size_bytes=entry.size_bytes, format_name=_detect_format(entry, head), partition_texts=own
        )
        for entry, head, own in zip(files, heads, texts, strict=True)
    ]
    return ForeignSource(
        storage=storage,
        root=root,
        keys=keys,
        files=tuple(row_files),
        metadata_files=_side_files(seen, files),
        folders=tuple(folders),
    )


def _is_hidden(name: str) -> bool:
    """Return whether readers of format tables skip a name.

    A partition of a column whose name begins with `_` is not skipped.
    """
    return is_hidden(name) and not (name.startswith("_") and "=" in name)


def _walk_files(storage: Storage, folder: str, entries: Sequence[Stat], folders: list[str]) -> Iterator[Stat]:
    """Yield the files below a folder, hidden ones too; its folders are added to `folders`, deepest first."""
    for entry in entries:
        if not entry.is_dir:
            yield entry
        elif _HIVE_TRANSACTION_FOLDER.fullmatch(entry.name):
            raise Unsupported(
                f"{entry.path} is of a transactional table of Hive, whose rows are not to be seen from its files. "
                "Have Hive write them out plainly",
                feature="procedure.migrate_table",
            )
        elif not _is_hidden(entry.name):
            yield from _walk_files(storage, entry.path, storage.list(entry.path), folders)
    folders.append(folder)


def _refuse_tables(storage: Storage, root: str, entries: Sequence[Stat]) -> None:
    names = {entry.name for entry in entries if entry.is_dir}
    kind = next((what for name, what in _OTHER_FORMATS.items() if name in names), None)
    if (
        kind is None
        and "metadata" in names
        and any(entry.name.endswith(".metadata.json") for entry in storage.list(f"{root}/metadata"))
    ):
        kind = "Iceberg"
    if kind is not None:
        msg = (
            f'"{root}" is a table of {kind}: which of its files are rows says its own log. Read it with its own '
            "library and append the rows"
        )
        raise Unsupported(msg, feature="procedure.migrate_table", path=root)
    if any(
        entry.name.startswith("schema-")
        for name in ("schema", "_schema")
        if name in names
        for entry in storage.list(f"{root}/{name}")
    ):
        msg = (
            f'"{root}" is a table of Paimon already: open it with lk.open, or copy it with cat.clone. Of a format '
            "table, name the table and not its folder"
        )
        raise Unsupported(msg, feature="procedure.migrate_table", path=root)


def _detect_format(entry: Stat, head: bytes) -> str:
    format_name = foreign_file.detect_format(head)
    if format_name is None:
        raise Corrupt(
            f"{entry.path} is no Parquet, ORC or Avro file: it begins with {head!r}. Move it away, or name a folder "
            "without it",
            path=entry.path,
            offset=0,
        )
    return format_name


def _side_files(stats: Sequence[Stat], files: Sequence[Stat]) -> tuple[str, ...]:
    """Return empty files, and those that only say that the others are complete, or their checksums."""
    taken = {entry.path for entry in files}
    places = [path.rpartition("/") for path in taken]
    sums = {f"{folder}/.{name}.crc" for folder, _, name in places}
    marks = {name for mark in _MARKER_NAMES for name in (mark, f".{mark}.crc")}
    return tuple(
        entry.path
        for entry in stats
        if entry.path not in taken
        and (entry.path in sums or entry.name in marks or not (entry.size_bytes or _is_hidden(entry.name)))
    )


# ---- partitions ----------------------------------------------------------------------------------


def _parse_partitions(root: str, files: Sequence[Stat]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the partition columns, and each file's texts for them."""
    specs = [_parse_directory(entry.path[len(root.rstrip("/")) :]) for entry in files]
    keys = tuple(name for name, _ in specs[0])
    for entry, spec in zip(files, specs, strict=True):
        own = tuple(name for name, _ in spec)
        if own != keys:
            msg = (
                f"{entry.path} lies in partitions by {', '.join(own) or 'nothing'}, {files[0].path} by "
                f"{', '.join(keys) or 'nothing'}; a table has one kind"
            )
            raise SchemaMismatch(msg, column=next(iter(own or keys)))
        if len(set(own)) < len(own):
            raise SchemaMismatch(f"{entry.path} lies in two partitions of one column", column=own[0])
    return keys, [tuple(text for _, text in spec) for spec in specs]


def _parse_directory(relative_path: str) -> list[tuple[str, str]]:
    pairs = [part.partition("=") for part in relative_path.split("/")[:-1] if "=" in part]
    return [(_unescape_name(name), _unescape_name(text)) for name, _, text in pairs]


def _unescape_name(text: str) -> str:
    """Return the text of a folder's name, escaped by characters (Hive, Spark) or bytes (Polars, Arrow)."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return partitions.unescape_name(text)


# ---- one schema --------------------------------------------------------


_NUMBER_TEXT = re.compile(r"0|-?[1-9][0-9]{0,18}")
_DATE_TEXT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_FLOAT_TYPES = ("FLOAT", "DOUBLE")
_MAX_DIGITS = 38


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedSchema:
    """The columns of a table to make, without ids; and for each file its deviating types, by column."""

    fields: tuple[Field, ...]
    file_types: tuple[Mapping[str, DataType], ...]


def merge_schemas(paths: Sequence[str], file_schemas: Sequence[ForeignFileSchema], keys: Sequence[str]) -> MergedSchema:
    """Return the columns of some files that are no partition columns.

    Raises: `SchemaMismatch` naming the column and both files where no type holds the values of both.
    """
    types: dict[str, DataType] = {}
    first: dict[str, str] = {}
    for path, file_schema in zip(paths, file_schemas, strict=True):
        for field in file_schema.fields:
            if field.name in keys:
                continue
            have = types.get(field.name)
            wide = field.type if have is None else wider_type(have, field.type)
            if wide is None:
                raise SchemaMismatch(
                    f"column {field.name} is {field.type} in {path} and {have} in {first[field.name]}, and no type "
                    "holds both. Write one of them anew",
                    column=field.name,
                )
            types[field.name] = wide
            first.setdefault(field.name, path)
    _check_names([*types, *keys])
    if not types:
        raise SchemaMismatch(
            f"{paths[0]} has no column beside those of its partition ({', '.join(keys)}), and a table needs one"
        )
    older = [
        {field.name: field.type for field in file_schema.fields if types.get(field.name, field.type) != field.type}
        for file_schema in file_schemas
    ]
    return MergedSchema(fields=tuple(Field(name, t) for name, t in types.items()), file_types=tuple(older))


def merge_with_declared(
    paths: Sequence[str], file_schemas: Sequence[ForeignFileSchema], fields: Sequence[Field], keys: Sequence[str]
) -> MergedSchema:
    """Return the merged schema where a format table declares its columns.

    Raises: `SchemaMismatch` for a file that holds what its column cannot.
    """
    declared = {field.name: field.type for field in fields if field.name not in keys}
    older: list[dict[str, DataType]] = []
    for path, file_schema in zip(paths, file_schemas, strict=True):
        own: dict[str, DataType] = {}
        for field in file_schema.fields:
            want = declared.get(field.name)
            if (
                want is None
                or _is_as(field.type, want)
                or (field.name in file_schema.int96_columns and want.root in TIMESTAMPS)
            ):
                continue
            if wider_type(field.type, want) != want.as_nullable():
                raise SchemaMismatch(
                    f"{path}: column {field.name} holds {field.type}, and the format table says {want}",
                    column=field.name,
                )
            own[field.name] = field.type
        older.append(own)
    return MergedSchema(fields=tuple(fields), file_types=tuple(older))


def _is_as(stored_type: DataType, target: DataType) -> bool:
    """Return whether a stored type is read as the column's type, whatever its length, by one schema."""
    if stored_type.root in ("VARCHAR", "VARBINARY"):
        return target.root in (STRINGS if stored_type.root == "VARCHAR" else ("BINARY", "VARBINARY"))
    return _bare_type(stored_type) == _bare_type(target)


def wider_type(a: DataType, b: DataType) -> DataType | None:
    """Return the type that holds the values of both; None if there is none.

    Nested types must be equal but for nullability.
    """
    a, b = _bare_type(a), _bare_type(b)
    if a == b:
        return a
    if a.root in NESTED_TYPES or b.root in NESTED_TYPES:
        return None
    if a.root in INTEGERS and b.root in INTEGERS:
        return max(a, b, key=lambda t: INTEGERS.index(t.root))
    if a.root in _FLOAT_TYPES and b.root in _FLOAT_TYPES:
        return DataType(root="DOUBLE")
    if a.root == b.root and a.root in (*TIMESTAMPS, "TIME"):
        return max(a, b, key=lambda t: t.precision or 0)
    if a.root == b.root == "DECIMAL":
        scale = max(a.scale or 0, b.scale or 0)
        integer_digits = max((t.precision or 10) - (t.scale or 0) for t in (a, b))
        return (
            replace(a, precision=integer_digits + scale, scale=scale) if integer_digits + scale <= _MAX_DIGITS else None
        )
    if a.root in STRINGS and b.root in STRINGS:
        return STRING_TYPE
    return BYTES_TYPE if {a.root, b.root} <= {"BINARY", "VARBINARY"} else None


def _bare_type(t: DataType) -> DataType:
    """Return a type with all its parts nullable, without ids and comments."""
    element, key, value = (None if inner is None else _bare_type(inner) for inner in (t.element, t.key, t.value))
    fields = tuple(Field(field.name, _bare_type(field.type)) for field in t.fields)
    return replace(t, nullable=True, element=element, key=key, value=value, fields=fields)


def _check_names(names: Sequence[str]) -> None:
    """Raise `SchemaMismatch` for names that differ in case alone, which most engines take for one column."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise SchemaMismatch(
                f"columns {other} and {name} differ in nothing but capitals, and columns are found by name. Rename one",
                column=name,
            )


# ---- partition columns ---------------------------------------------------------------------------


def partition_fields(
    keys: Sequence[str],
    texts: Sequence[Sequence[str]],
    paths: Sequence[str],
    file_schemas: Sequence[ForeignFileSchema],
    types: Mapping[str, DataType],
) -> tuple[Field, ...]:
    """Return the partition columns, with their types.

    The type is that of `types`, else that of files that hold the column too, else one that fits all texts.

    Raises: `SchemaMismatch` for a type that is given for no partition column, and where files disagree.
    """
    if unknown := next((name for name in types if name not in keys), None):
        raise SchemaMismatch(
            f"{unknown} is no partition column of the folders; they are {', '.join(keys) or 'none'}", column=unknown
        )
    fields = []
    for at, name in enumerate(keys):
        inside = [
            (path, field)
            for path, file_schema in zip(paths, file_schemas, strict=True)
            for field in file_schema.fields
            if field.name == name
        ]
        t = types.get(name) or (_common_type(name, inside) if inside else _infer_type({row[at] for row in texts}))
        fields.append(Field(name, t))
    return tuple(fields)


def _common_type(name: str, inside: Sequence[tuple[str, Field]]) -> DataType:
    path, first = inside[0]
    t = first.type
    for other, field in inside:
        wide = wider_type(t, field.type)
        if wide is None or t.root in NESTED_TYPES:
            raise SchemaMismatch(f"partition column {name} is {field.type} in {other} and {t} in {path}", column=name)
        t = wide
    return t


def _infer_type(texts: set[str]) -> DataType:
    present = texts - {HIVE_NULL, partitions.DEFAULT_NAME}
    for root, form in (("INT", _NUMBER_TEXT), ("BIGINT", _NUMBER_TEXT), ("DATE", _DATE_TEXT)):
        t = DataType(root=root)
        if present and all(form.fullmatch(text) and _is_value(text, t) for text in present):
            return t
    return STRING_TYPE


def _is_value(text: str, t: DataType) -> bool:
    try:
        partitions.parse_value(text, t)
    except Corrupt:
        return False
    return True


def parse_partition_values(path: str, texts: Sequence[str], fields: Sequence[Field]) -> tuple[object, ...]:
    """Return the partition values of a file, as rows hold them.

    Raises: `SchemaMismatch` for a text that is no value of its column, and a blank one.
    """
    parsed = []
    for text, field in zip(texts, fields, strict=True):
        if partitions.is_blank(text):
            msg = (
                f"{path} lies in a partition whose {field.name} is blank, which in a table of Paimon is the folder of "
                f"nulls. Name the folder {HIVE_NULL}"
            )
            raise SchemaMismatch(msg, column=field.name)
        try:
            parsed.append(
                None if text in (HIVE_NULL, partitions.DEFAULT_NAME) else partitions.parse_value(text, field.type)
            )
        except Corrupt as wrong:
            msg = (
                f"{path}: partition column {field.name} is {field.type}, and {wrong.message}. Name another type in "
                "partition_types"
            )
            raise SchemaMismatch(msg, column=field.name) from None
    return tuple(parsed)
