"""Records of manifest lists, manifests and index manifests, in Avro, ORC or Parquet.

    4f 62 6a 01 …      Avro      every table by default
    4f 52 43 …         ORC       "ORC", footer at the end: engines up to 1.4 with `manifest.format` = `orc`
    50 41 52 31 …      Parquet   "PAR1" … "PAR1", footer at the end: the same with `parquet`

The first bytes of a file identify its format. Fields are looked up by name. A missing field reads as null: files of
older engines lack the last ones. `Records.rewritable_unknown_fields` returns unknown fields, and a rewrite keeps them:
their declarations follow the last field that the reference knows.

Avro schemas are those of the reference: the root record is `record` in `org.apache.paimon.avro.generated`; a nested
record is named after its parent and its field, `record__FILE__KEY_STATS`. A nullable field is `["null", X]` in this
order with default null. `schema_text(MANIFEST_LIST_FIELDS)` returns the bytes in a file's header,
`arrow_schema(MANIFEST_LIST_FIELDS)` the columns of the same records in ORC or Parquet.

ORC and Parquet are decoded by Arrow, which checks pages of Parquet files against the CRC-32 that Java writes before
each; this module limits what a file may allocate and turns Arrow's errors into `Corrupt`.

Source: FORMAT 4.1, ENGINE_1.4.2.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyarrow import orc, parquet

from lakekit.codec import avro_columns, avro_container, avro_schema, avro_values, orc_bounds
from lakekit.codec.avro_columns import arrow_type
from lakekit.codec.avro_schema import parse_schema, unwrap_record
from lakekit.errors import Corrupt, LimitExceeded, Unsupported
from lakekit.options.option import FrozenDict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from lakekit.codec.avro_container import Limits
    from lakekit.codec.avro_schema import AvroNode
    from lakekit.codec.avro_values import Write

    T = TypeVar("T")


ORC_MAGIC = b"ORC"
PARQUET_MAGIC = b"PAR1"
_MAX_SHOWN = 200


def read_table(data: bytes, *, limits: Limits, path: str | None = None) -> pa.Table:
    """Return the rows of an ORC or Parquet file.

    Raises `Corrupt`, or `LimitExceeded` for more rows or bytes than `limits` allows a file of that size.
    """
    prefix = "" if path is None else f"{path}: "
    try:
        if data.startswith(ORC_MAGIC):
            return _read_orc(data, limits, prefix, path)
        return _read_parquet(data, limits, prefix, path)
    except Corrupt:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
        kind = "ORC" if data.startswith(ORC_MAGIC) else "Parquet"
        raise Corrupt(
            f"{prefix}not a readable {kind} file of {len(data)} bytes: {str(error)[:_MAX_SHOWN]}",
            path=path,
            offset=0,
            field="footer",
        ) from None


def _read_orc(data: bytes, limits: Limits, prefix: str, path: str | None) -> pa.Table:
    orc_bounds.check_tail_and_streams(path or "an ORC file", data)  # Arrow allocates by what its streams say
    file = orc.ORCFile(pa.BufferReader(data))
    _check_limits(file.nrows, 0, len(data), limits, prefix, path)
    return _validate_table(file.read())


def _read_parquet(data: bytes, limits: Limits, prefix: str, path: str | None) -> pa.Table:
    file = parquet.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    _check_limits(
        file.metadata.num_rows, sum(group.total_byte_size for group in groups), len(data), limits, prefix, path
    )
    return _validate_table(file.read(use_threads=False))


def _validate_table(table: pa.Table) -> pa.Table:
    """Return the table after a check of offsets and texts: both readers take any bytes for UTF-8."""
    table.validate(full=True)
    return table


def _check_limits(rows: int, inflated: int, size: int, limits: Limits, prefix: str, path: str | None) -> None:
    if rows > limits.max_values(size) or inflated > limits.max_inflated_bytes(size):
        raise LimitExceeded(
            f"{prefix}{rows} rows in {inflated} bytes from a file of {size} bytes, more than lakekit reads from one "
            "so small",
            path=path,
            field="footer",
        )


def write_table(table: pa.Table, kind: str, compression: str = "zstd") -> bytes:
    """Return a table as the bytes of an `orc` or `parquet` file.

    Raises `Unsupported` for a compression that the format lacks.
    """
    sink = pa.BufferOutputStream()
    try:
        if kind == "orc":
            orc.write_table(table, sink, compression="uncompressed" if compression == "none" else compression)
        else:
            parquet.write_table(table, sink, compression=compression, store_schema=False, write_page_checksum=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Unsupported(
            f"{kind} files cannot be compressed by {compression!r}: {str(error)[:_MAX_SHOWN]}",
            feature=f"{kind}.codec.{compression}",
        ) from None
    return sink.getvalue().to_pybytes()


# ---- record schemas ------------------------------------------------------------


NAMESPACE = "org.apache.paimon.avro.generated"
Fields = tuple[tuple[str, Any], ...]
"""Names and types. A type is an Avro primitive's name, ("null", X), ("array", X), fields of a record, or an object
given as it is.
"""

TIMESTAMP_TYPE = FrozenDict({"type": "long", "logicalType": "timestamp-millis"})
STATS_FIELDS: Fields = (
    ("_MIN_VALUES", "bytes"),
    ("_MAX_VALUES", "bytes"),
    ("_NULL_COUNTS", ("null", ("array", ("null", "long")))),
)
MANIFEST_LIST_FIELDS: Fields = (
    ("_VERSION", "int"),
    ("_FILE_NAME", "string"),
    ("_FILE_SIZE", "long"),
    ("_NUM_ADDED_FILES", "long"),
    ("_NUM_DELETED_FILES", "long"),
    ("_PARTITION_STATS", STATS_FIELDS),
    ("_SCHEMA_ID", "long"),
    ("_MIN_BUCKET", ("null", "int")),
    ("_MAX_BUCKET", ("null", "int")),
    ("_MIN_LEVEL", ("null", "int")),
    ("_MAX_LEVEL", ("null", "int")),
    ("_MIN_ROW_ID", ("null", "long")),
    ("_MAX_ROW_ID", ("null", "long")),
)
FILE_FIELDS: Fields = (
    ("_FILE_NAME", "string"),
    ("_FILE_SIZE", "long"),
    ("_ROW_COUNT", "long"),
    ("_MIN_KEY", "bytes"),
    ("_MAX_KEY", "bytes"),
    ("_KEY_STATS", STATS_FIELDS),
    ("_VALUE_STATS", STATS_FIELDS),
    ("_MIN_SEQUENCE_NUMBER", "long"),
    ("_MAX_SEQUENCE_NUMBER", "long"),
    ("_SCHEMA_ID", "long"),
    ("_LEVEL", "int"),
    ("_EXTRA_FILES", ("array", "string")),
    ("_CREATION_TIME", ("null", TIMESTAMP_TYPE)),
    ("_DELETE_ROW_COUNT", ("null", "long")),
    ("_EMBEDDED_FILE_INDEX", ("null", "bytes")),
    ("_FILE_SOURCE", ("null", "int")),
    ("_VALUE_STATS_COLS", ("null", ("array", "string"))),
    ("_EXTERNAL_PATH", ("null", "string")),
    ("_FIRST_ROW_ID", ("null", "long")),
    ("_WRITE_COLS", ("null", ("array", "string"))),
)
ENTRY_HEAD_FIELDS: Fields = (
    ("_VERSION", "int"),
    ("_KIND", "int"),
    ("_PARTITION", "bytes"),
    ("_BUCKET", "int"),
    ("_TOTAL_BUCKETS", "int"),
)
"""The reference decodes these and `_FILE` by position: nothing may be added among them."""
DELETION_RANGE_FIELDS: Fields = (("f0", "string"), ("f1", "int"), ("f2", "int"), ("_CARDINALITY", ("null", "long")))
GLOBAL_INDEX_FIELDS: Fields = (
    ("_ROW_RANGE_START", "long"),
    ("_ROW_RANGE_END", "long"),
    ("_INDEX_FIELD_ID", "int"),
    ("_EXTRA_FIELD_IDS", ("null", ("array", "int"))),
    ("_INDEX_META", ("null", "bytes")),
)
SOURCE_META_FIELDS: Fields = (("_SOURCE_META", ("null", "bytes")),)
"""What engine 2.0 adds to `_GLOBAL_INDEX`."""


def entry_fields(extra: Fields = ()) -> Fields:
    """Return the fields of a manifest's record; `extra` are declarations after the last field of `_FILE`."""
    return (*ENTRY_HEAD_FIELDS, ("_FILE", FILE_FIELDS + extra))


def index_entry_fields(extra: Fields = (), *, source_meta: bool = False) -> Fields:
    """Return the fields of an index manifest's record; `extra` are declarations after its last field."""
    return (
        ("_VERSION", "int"),
        ("_KIND", "int"),
        ("_PARTITION", "bytes"),
        ("_BUCKET", "int"),
        ("_INDEX_TYPE", "string"),
        ("_FILE_NAME", "string"),
        ("_FILE_SIZE", "long"),
        ("_ROW_COUNT", "long"),
        ("_DELETIONS_VECTORS_RANGES", ("null", ("array", ("null", DELETION_RANGE_FIELDS)))),
        ("_EXTERNAL_PATH", ("null", "string")),
        ("_GLOBAL_INDEX", ("null", GLOBAL_INDEX_FIELDS + (SOURCE_META_FIELDS if source_meta else ()))),
        *extra,
    )


def schema_text(fields: Fields) -> bytes:
    """Return the schema text of a record with those fields."""
    root = {"type": "record", "name": "record", "namespace": NAMESPACE, "fields": _avro_fields(fields, "record")}
    return json.dumps(root, separators=(",", ":"), ensure_ascii=False).encode()


def arrow_schema(fields: Fields) -> pa.Schema:
    """Return the same record as columns of an ORC or Parquet file."""
    return pa.schema([_arrow_field(name, t) for name, t in fields])


_ARROW_TYPES = {"int": pa.int32(), "long": pa.int64(), "bytes": pa.binary(), "string": pa.string()}
_TINYINT_FIELDS = frozenset({"_KIND", "_FILE_SOURCE"})
"""TINYINT: a type of their own in ORC and Parquet, an int in Avro."""


def _arrow_field(name: str, t: Any) -> pa.Field:
    nullable = isinstance(t, (tuple, list)) and t[0] == "null"
    inner = t[1] if nullable and isinstance(t, tuple) else t
    return pa.field(name, pa.int8() if name in _TINYINT_FIELDS else _arrow_type(inner), nullable)


def _arrow_type(t: Any) -> pa.DataType:
    match t:
        case str():
            return _ARROW_TYPES[t]
        case {"logicalType": _}:
            return pa.timestamp("ms")
        case dict() | list():  # declared by a newer writer
            return arrow_type(parse_schema(json.dumps(t).encode()))
        case ("array", inner):
            return pa.list_(_arrow_field("element", inner))
    return pa.struct([_arrow_field(name, inner) for name, inner in t])


def _avro_fields(fields: Fields, parent: str) -> list[dict[str, Any]]:
    declared: list[dict[str, Any]] = []
    for name, t in fields:
        resolved = _avro_type(t, f"{parent}_{name}")
        optional = isinstance(resolved, list) and resolved[0] == "null"
        declared.append({"name": name, "type": resolved} | ({"default": None} if optional else {}))
    return declared


def _avro_type(t: Any, name: str) -> Any:
    match t:
        case str() | dict() | list():
            return t
        case ("null", inner):
            return ["null", _avro_type(inner, name)]
        case ("array", inner):
            return {"type": "array", "items": _avro_type(inner, name)}
    return {"type": "record", "name": name, "fields": _avro_fields(t, name)}


# ---- metadata records ------------------------------------------------------------


_NO_DEFAULT = object()


@dataclass(frozen=True, slots=True)
class ExtraField:
    """A field that lakekit does not know: its name, Avro type as JSON, and value, to be written back."""

    name: str
    declaration: str
    value: Any


@dataclass(frozen=True, slots=True)
class Records:
    """The records of one file as dicts, their schema (None if not Avro), and the offset of the first."""

    rows: list[dict[str, Any]]
    schema: AvroNode | None
    offset: int

    def convert(self, decode: Callable[[dict[str, Any]], T]) -> list[T]:
        """Convert each record by `decode`; errors get the index of the record and the offset of the records."""
        decoded = []
        for i, row in enumerate(self.rows):
            try:
                decoded.append(decode(row))
            except Corrupt as error:
                raise type(error)(
                    f"{error.message}, in record {i}", path=error.path, offset=self.offset, field=error.field
                ) from None
        return decoded

    def rewritable_unknown_fields(self, row: dict[str, Any], known_fields: Collection[str]) -> tuple[ExtraField, ...]:
        """Return the fields of a record that are not in `known_fields`, are set and `can_redeclare`."""
        if self.schema is None:
            return ()
        return tuple(
            ExtraField(name, json.dumps(part.declaration), row[name])
            for name, part in zip(self.schema.names, self.schema.children, strict=True)
            if name not in known_fields and row[name] is not None and can_redeclare(part)
        )


def can_redeclare(node: AvroNode) -> bool:
    """Return whether an unknown field can be written again.

    It must be nullable, so that records without it can be written, and its type must not refer to a named type that is
    declared elsewhere in the schema.
    """
    if not node.is_nullable or node.non_null_type is node:
        return False
    try:
        return avro_schema.parse_schema(json.dumps(node.declaration).encode()) == node
    except (Corrupt, Unsupported):
        return False


def is_columnar(data: bytes) -> bool:
    """Return whether a metadata file is ORC or Parquet."""
    return data.startswith((ORC_MAGIC, PARQUET_MAGIC))


def read_columnar(data: bytes, path: str | None) -> pa.Table:
    """Return an ORC or Parquet metadata file as an Arrow table, under the limits of metadata files."""
    return read_table(data, limits=avro_container.METADATA_LIMITS, path=path)


def read_records(data: bytes, path: str | None = None, *, max_records: int | None = None) -> Records:
    """Return every record of a metadata file.

    Raises `Corrupt`, `LimitExceeded` (for more than `max_records` too), `Unsupported`.
    """
    if is_columnar(data):
        columns = read_columnar(data, path)
        check_count(columns.num_rows, max_records, path)
        return Records(columns.to_pylist(), None, 0)
    container = avro_container.open_container(data, path=path)
    check_count(container.count, max_records, path)
    offset = container.blocks[0].offset if container.blocks else 0
    return Records(avro_columns.read_records(container), unwrap_record(container.schema), offset)


def check_count(record_count: int, max_records: int | None, path: str | None) -> None:
    """Raise `LimitExceeded` for more than `max_records` records: more than any writer puts into a file of that size."""
    if max_records is not None and record_count > max_records:
        prefix = "" if path is None else f"{path}: "
        raise LimitExceeded(
            f"{prefix}{record_count} records, and a file of this size holds {max_records} at most. It was not written "
            "by a Paimon engine; put it back from a copy, or roll back to a snapshot that does not name it",
            path=path,
            field="record count",
        )


_COMPRESSIONS_OF_CODEC = {"zstandard": ("zstd", "zstd"), "null": ("none", "none"), "deflate": ("zlib", "gzip")}
"""What ORC and Parquet call an Avro codec; other names they share."""


def write_records(
    fields: Fields,
    rows: Iterable[dict[str, Any]],
    *,
    kind: str = "avro",
    codec: str = "zstandard",
    level: int = avro_container.ZSTD_LEVEL,
    sync: bytes | None = None,
) -> bytes:
    """Encode records as a file of kind `avro`, `orc` or `parquet`.

    `codec` is Avro's name of a compression, `sync` an Avro file's sync marker.
    """
    if kind != "avro":
        compression = _COMPRESSIONS_OF_CODEC.get(codec, (codec, codec))[kind == "parquet"]
        return write_table(pa.Table.from_pylist(list(rows), arrow_schema(fields)), kind, compression)
    text, put = _record_writer(fields)
    return avro_container.write_container(
        text, (_encode_row(put, row) for row in rows), codec=codec, level=level, sync=sync
    )


def encode_record(fields: Fields, row: dict[str, Any]) -> bytes:
    """Return one record as an Avro file holds it."""
    return _encode_row(_record_writer(fields)[1], row)


def write_encoded(fields: Fields, rows: Iterable[bytes], *, codec: str, level: int) -> bytes:
    """Return encoded records as an Avro file."""
    return avro_container.write_container(_record_writer(fields)[0], rows, codec=codec, level=level)


def _record_writer(fields: Fields) -> tuple[bytes, Write]:
    """Return the text and the encoder of a schema; cached unless newer writers' fields make it unhashable."""
    try:
        return _cached_writer(fields)
    except TypeError:  # declarations of newer writers are dicts
        return _cached_writer.__wrapped__(fields)


@lru_cache(maxsize=16)
def _cached_writer(fields: Fields) -> tuple[bytes, Write]:
    text = schema_text(fields)
    return text, avro_values.build_writer(avro_schema.parse_schema(text))


def _encode_row(put: Write, row: dict[str, Any]) -> bytes:
    out = bytearray()
    put(out, row)
    return bytes(out)


# ---- one field of one record -----------------------------------------------------------------------------------------


def read_value(row: dict[str, Any], name: str, kind: type, path: str | None, *, default: Any = _NO_DEFAULT) -> Any:
    """Return a field's value, of the given type; `default`, if given, if it is null or missing."""
    field_value = row.get(name)
    if field_value is None:
        if default is _NO_DEFAULT:
            raise invalid_field(f"{name} is {'null' if name in row else 'not there'}", name, path)
        return default
    if not isinstance(field_value, kind) or (isinstance(field_value, bool) and kind is int):
        raise invalid_field(f"{name} is of type {type(field_value).__name__}, {kind.__name__} wanted", name, path)
    return field_value


def read_count(row: dict[str, Any], name: str, path: str | None) -> int:
    """Return a non-negative number. Raises `Corrupt`."""
    number: int = read_value(row, name, int, path)
    if number < 0:
        raise invalid_field(f"{name} is {number}", name, path)
    return number


def invalid_field(reason: str, field: str, path: str | None) -> Corrupt:
    """Return the error for an invalid field."""
    error = Corrupt(reason, field=field)
    return error if path is None else error.at(path)


def check_version(versions: Sequence[int], expected: int, subject: str, path: str | None) -> None:
    """Raise `Unsupported` for records of another `_VERSION`."""
    for version in versions:
        if version != expected:
            prefix = "" if path is None else f"{path}: "
            raise Unsupported(
                f"{prefix}{subject} of version {version}; lakekit knows {expected}. "
                f"{'A newer' if version > expected else 'An older'} engine wrote it",
                feature=f"{subject.replace(' ', '-')}.version-{version}",
                path=path,
            )
