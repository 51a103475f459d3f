"""Read Avro data files: blocks are inflated here, the rows are decoded by Polars.

A file's inflated blocks are given to Polars in a new container, under a plainer schema that fits the very same bytes:

    map<V>                                array<record{key: string, value: V}>    an Avro map is blocks of key and value
    ["null", record] at the top           record{row: ["null", record]}           a record is its fields in order
    {"type": "long", "logicalType": …}    "long"                                  the Paimon type gives the meaning

Paimon writes timestamps under each other's logical types (TIMESTAMP as `timestamp-millis`, which Avro means for
instants; LTZ as `local-timestamp-…`), so only their unit is taken from there. Decimals are big-endian two's complement
of any length.

Source: FORMAT.md 7.6, `AvroSchemaConverter`, `FieldWriterFactory`; the Avro specification 1.11.
"""

from __future__ import annotations

import json
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

from lakekit.codec import avro_container as container, avro_schema
from lakekit.columns import col
from lakekit.errors import Corrupt
from lakekit.format import avro_writer, external_reader, text_casts
from lakekit.format.polars_types import polars_schema, polars_type, unit_of
from lakekit.types import DataType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lakekit.codec.avro_schema import AvroNode
    from lakekit.types import Field

open_writer, check_types = avro_writer.open_writer, avro_writer.check_types
BATCH_BYTES = 8 << 20
_SYNC_MARKER = bytes(16)
_ROOT_FIELD = "row"


def scan(
    paths: Sequence[str],
    fields: Sequence[Field],
    *,
    read: Callable[[str], bytes],
    counts: Mapping[str, int] | None = None,
    timestamp_unit: str | None = None,
) -> pl.LazyFrame:
    """Return the columns `fields` of the files `paths`, in order; a column that a file lacks is null.

    `read` returns a file's bytes, `counts` are its rows.
    """

    def open_file(path: str) -> external_reader.OpenFile:
        return _open_file(read(path), fields, path, timestamp_unit)

    return external_reader.scan(
        paths, open_file, polars_schema(fields, timestamp_unit=timestamp_unit), name="avro", counts=counts
    )


def _open_file(data: bytes, fields: Sequence[Field], path: str, timestamp_unit: str | None) -> external_reader.OpenFile:
    packed = container.open_blocks(data, path=path)
    schema = packed.schema
    record = avro_schema.unwrap_record(schema)
    columns_in_file = {f.name: (f, node) for f in fields if (node := record.find_field(f.name)) is not None}
    expressions = {name: _logical_expr(f, node, path, timestamp_unit) for name, (f, node) in columns_in_file.items()}
    nulls = {f.name: pl.lit(None, polars_type(f.type, timestamp_unit=timestamp_unit)).alias(f.name) for f in fields}
    text = _schema_for_polars(schema, record)

    def batches(columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        inside = [name for name in columns if name in columns_in_file]
        for counts, bodies in _batch_blocks(packed):
            height = sum(counts)
            if not inside:
                yield pl.DataFrame(height=height).with_columns(nulls[name] for name in columns)
                continue
            wrapped = BytesIO(_build_container(text, bodies, counts))
            frame = (
                pl.read_avro(wrapped, columns=inside)
                if record is schema
                else pl.read_avro(wrapped)[_ROOT_FIELD].struct.unnest()
            )
            if frame.height != height:
                raise Corrupt(f"{frame.height} rows decoded where the blocks say {height}", field="block count")
            yield frame.select(expressions.get(name, nulls[name]) for name in columns)

    return external_reader.OpenFile(row_count=packed.count, batches=batches)


def _batch_blocks(packed: container.PackedBlocks) -> Iterator[tuple[list[int], list[bytes]]]:
    """Yield row counts and inflated bytes of neighbouring blocks, `BATCH_BYTES` or one block at a time."""
    counts: list[int] = []
    bodies: list[bytes] = []
    size_bytes = 0
    for _, block in packed.inflate():
        counts.append(block.count)
        bodies.append(block.data)
        size_bytes += len(block.data)
        if size_bytes >= BATCH_BYTES:
            yield counts, bodies
            counts, bodies, size_bytes = [], [], 0
    if bodies:
        yield counts, bodies


def _build_container(schema: bytes, bodies: Sequence[bytes], counts: Sequence[int]) -> bytes:
    """Return an uncompressed container: header, then each block's count, size, bytes and sync marker."""
    out = bytearray(container.MAGIC)
    for part in (None, b"avro.codec", b"null", b"avro.schema", schema):
        container.append_long(out, 2 if part is None else len(part))
        out += part or b""
    out += b"\0" + _SYNC_MARKER
    for body, count in zip(bodies, counts, strict=True):
        container.append_long(out, count)
        container.append_long(out, len(body))
        out += body
        out += _SYNC_MARKER
    return bytes(out)


def _schema_for_polars(schema: AvroNode, record: AvroNode) -> bytes:
    """Return the schema text that Polars gets for the same bytes."""
    if record is not schema:
        return json.dumps(
            {"type": "record", "name": "file", "fields": [{"name": _ROOT_FIELD, "type": _type_for_polars(schema)}]}
        ).encode()
    return json.dumps(_type_for_polars(schema)).encode()


def _type_for_polars(node: AvroNode) -> Any:
    match node.kind:
        case "record":
            parts = [
                {"name": name, "type": _type_for_polars(inner)}
                for name, inner in zip(node.names, node.children, strict=True)
            ]
            return {"type": "record", "name": "r", "fields": parts}
        case "array":
            return {"type": "array", "items": _type_for_polars(node.children[0])}
        case "map":
            entry = [{"name": "key", "type": "string"}, {"name": "value", "type": _type_for_polars(node.children[0])}]
            return {"type": "array", "items": {"type": "record", "name": "e", "fields": entry}}
        case "union" if len(node.children) == 2 and node.is_nullable:
            return [_type_for_polars(inner) for inner in node.children]
        case "null" | "boolean" | "int" | "long" | "float" | "double" | "bytes" | "string":
            return node.kind
    raise Corrupt(f"avro.schema: data files of Paimon hold no {node.kind} {node.name}".rstrip(), field="avro.schema")


# ---- what the plain values mean --------------------------------------------------------------------------------------

_AVRO_TYPES_OF_ROOT = {
    "BOOLEAN": ("boolean",), "TINYINT": ("int",), "SMALLINT": ("int",), "INT": ("int",), "BIGINT": ("long", "int"),
    "FLOAT": ("float",), "DOUBLE": ("double", "float"), "CHAR": ("string",), "VARCHAR": ("string",),
    "BINARY": ("bytes",), "VARBINARY": ("bytes",), "BLOB": ("bytes",), "DECIMAL": ("bytes",), "DATE": ("int",),
    "TIME": ("int",), "TIMESTAMP": ("long",), "TIMESTAMP_LTZ": ("long",), "ARRAY": ("array",),
    "MAP": ("map", "array"), "MULTISET": ("map", "array"), "ROW": ("record",), "VARIANT": ("record",),
}  # fmt: skip
"""The Avro types that may hold a Paimon type."""


def _logical_expr(field: Field, node: AvroNode, path: str, timestamp_unit: str | None) -> pl.Expr:
    def leaf(column: pl.Expr, t: DataType) -> pl.Expr | None:
        return _convert_leaf(column, t, micros, timestamp_unit)

    micros = _check_column(field.type, node, field.name, path)
    changed = external_reader.map_leaves(col(field.name), field.type, leaf)
    return (col(field.name) if changed is None else changed).alias(field.name)


def _check_column(t: DataType, node: AvroNode, column_path: str, path: str) -> dict[DataType, bool]:
    """Check that a column's type fits (else `Corrupt`); return which timestamp types are microseconds."""
    node = node.non_null_type
    if node.kind not in _AVRO_TYPES_OF_ROOT[t.root]:
        raise Corrupt(
            f"{path}: column {column_path} is {t}, the file holds Avro {node.kind}", path=path, field=column_path
        )
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return {t: node.logical_type.endswith("-micros") if node.logical_type else (t.precision or 0) > 3}
    micros: dict[DataType, bool] = {}
    for inner_type, inner, name in _child_types(t, node, column_path, path):
        micros |= _check_column(inner_type, inner, name, path)
    return micros


def _child_types(t: DataType, node: AvroNode, column_path: str, path: str) -> Iterator[tuple[DataType, AvroNode, str]]:
    if t.root == "ARRAY" and t.element is not None:
        yield t.element, node.children[0], column_path + ".element"
    elif t.root in ("MAP", "MULTISET"):
        key, value = (t.key, t.value) if t.root == "MAP" else (t.element, DataType(root="INT"))
        entry = node.children[0].non_null_type if node.kind == "array" else node
        sides = (
            (entry.find_field("key"), entry.find_field("value"))
            if node.kind == "array"
            else (_STRING_NODE, node.children[0])
        )
        if None in sides or key is None or value is None:
            raise Corrupt(
                f"{path}: column {column_path} is {t}, the file's array has no key and value",
                path=path,
                field=column_path,
            )
        yield key, sides[0], column_path + ".key"  # type: ignore[misc]
        yield value, sides[1], column_path + ".value"  # type: ignore[misc]
    elif t.root == "ROW":
        for f in t.fields:
            inner = node.find_field(f.name)
            if inner is None:
                raise Corrupt(
                    f"{path}: column {column_path} is {t}, the file's record has no {f.name}",
                    path=path,
                    field=column_path,
                )
            yield f.type, inner, f"{column_path}.{f.name}"


_STRING_NODE = avro_schema.parse_schema(b'"string"')
_PER_DAY_MS = 86_400_000


def _convert_leaf(
    column: pl.Expr, t: DataType, micros: dict[DataType, bool], timestamp_unit: str | None
) -> pl.Expr | None:
    match t.root:
        case "TINYINT" | "SMALLINT" | "BIGINT" | "DOUBLE" | "DATE":
            return column.cast(polars_type(t))
        case "TIME":
            return (column.cast(pl.Int64) * 1_000_000).cast(pl.Time)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            zone = "UTC" if t.root == "TIMESTAMP_LTZ" else None
            timestamps = column.cast(pl.Datetime("us" if micros.get(t, True) else "ms", zone))
            return timestamps.dt.cast_time_unit(unit_of(t, timestamp_unit))
        case "DECIMAL":
            dtype = polars_type(t)
            return column.map_batches(
                partial(_decode_decimals, precision=t.precision or 10, scale=t.scale or 0),
                return_dtype=dtype,
                is_elementwise=True,
            )
    return None


def _decode_decimals(column: pl.Series, *, precision: int, scale: int) -> pl.Series:
    """Convert big-endian two's complement of any length to DECIMAL(precision, scale).

    A value of more digits, as sums may have, is null, as for the reference; one of more than 16 bytes is damage.
    """
    array = column.to_arrow(compat_level=pl.CompatLevel.oldest())
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    offsets = np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, array.offset * 8)
    data_buffer = array.buffers()[2]
    data = (
        np.frombuffer(data_buffer, np.uint8) if data_buffer is not None and data_buffer.size else np.zeros(1, np.uint8)
    )
    begin, end = offsets[:-1], offsets[1:]
    if ((end - begin) > 16).any():
        raise Corrupt(f"a DECIMAL({precision}, {scale}) of more than 16 bytes", field="decimal")
    fill = np.where((end > begin) & (data[np.minimum(begin, len(data) - 1)] > 127), 255, 0).astype(np.uint8)
    little = np.empty((len(array), 16), np.uint8)
    for i in range(16):
        at = end - 1 - i
        little[:, i] = np.where(at >= begin, data[np.clip(at, 0, len(data) - 1)], fill)
    valid = array.is_valid()
    unscaled = pa.Array.from_buffers(
        pa.decimal128(38, scale), len(array), [valid.buffers()[1] if array.null_count else None, pa.py_buffer(little)]
    )
    return text_casts.from_unscaled(pl.Series(column.name, unscaled).to_physical(), precision=precision, scale=scale)
