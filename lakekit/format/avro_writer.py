"""Write Avro data files: containers of blocks, whose rows are encoded by column.

    "Obj" 01 | metadata: avro.schema, avro.codec | sync marker | blocks: row count, length, bytes, sync marker

    int 1, -1, 300          02   01   d804                  zig-zag varints
    string "ab", null       02 04 6162   00                 union ["null", string]: branch, length, bytes
    array [1, null], []     04 02 02 00 00   00             count, items, 0
    record {x: 1, y: "a"}   02 0261                         its fields, one after the other

The sync marker is derived from the schema and the first block, so that equal rows make equal files. Each part of a
value is a binary array with one cell for each row; Arrow joins the cells of a row, without a Python step per row. The
items of a list are contiguous already, so that their bytes are a slice.

Source: FORMAT.md 7.6 and 7.8; `AvroFileFormat`, `AvroSchemaConverter`, `FieldWriterFactory`; the Apache Avro
specification 1.11, "Binary encoding".
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.codec import avro_container as container
from lakekit.codec.binary_row import fixed_values, null_mask
from lakekit.format.encoder import (
    ArrowTarget,
    copy_array,
    map_types,
    packed_bits,
    refuse_name,
    refuse_type,
    series_to_arrow,
)
from lakekit.options.option import EMPTY
from lakekit.parallel import core_count, map_prefetch
from lakekit.types import BINARIES, STRINGS, part, timestamp_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl
    from numpy.typing import NDArray

    from lakekit.format.encoder import Encoding
    from lakekit.types import DataType, Field


_CELL_TYPE = pa.large_binary()
_INTEGER_DTYPES = {
    "TINYINT": "<i1",
    "SMALLINT": "<i2",
    "INT": "<i4",
    "DATE": "<i4",
    "TIME": "<i4",
    "BIGINT": "<i8",
    "TIMESTAMP": "<i8",
    "TIMESTAMP_LTZ": "<i8",
}
_FLOAT_WIDTHS = {"FLOAT": 4, "DOUBLE": 8}
_EMPTY_CELL = pa.scalar(b"", _CELL_TYPE)
_ARRAY_ORDER = np.arange(10)


def encode_rows(columns: Sequence[pa.Array], fields: Sequence[Field]) -> pa.Array:
    """Return the Avro bytes of each row of some columns, which `series_to_arrow` converted.

    NOT NULL columns must hold no nulls. Raises `Unsupported`.
    """
    cells = [
        cell for column, field in zip(columns, fields, strict=True) for cell in _nullable_cells(column, field.type)
    ]
    return _join_cells(cells)


def _join_cells(cells: Sequence[pa.Array]) -> pa.Array:
    """Concatenate the cells of each row; a null cell adds no bytes."""
    if len(cells) == 1:
        return cells[0] if not cells[0].null_count else cells[0].fill_null(_EMPTY_CELL)
    return pc.binary_join_element_wise(*cells, _EMPTY_CELL, null_handling="replace", null_replacement=b"")


def _nullable_cells(array: pa.Array, t: DataType) -> list[pa.Array]:
    """Return the cells of a value that may be null."""
    cells = _value_cells(array, t)
    if not t.nullable:
        return cells
    is_present = ~null_mask(array)
    return [_fixed_cells(np.where(is_present, 2, 0).astype(np.uint8), 1), *(_mask_nulls(cell, array) for cell in cells)]


def _mask_nulls(cell: pa.Array, array: pa.Array) -> pa.Array:
    if not array.null_count:
        return cell
    is_present = array.is_valid()
    if cell.null_count:
        is_present = pc.and_(is_present, cell.is_valid())
    return pa.Array.from_buffers(_CELL_TYPE, len(cell), [packed_bits(is_present), *cell.buffers()[1:]])


def _value_cells(array: pa.Array, t: DataType) -> list[pa.Array]:
    """Return the cells of the non-null values; the cells of null values are arbitrary."""
    if t.root in _INTEGER_DTYPES:
        return [varint_cells(fixed_values(array, _INTEGER_DTYPES[t.root]).astype(np.int64))]
    if t.root in _FLOAT_WIDTHS:
        return [_fixed_cells(fixed_values(array, "u1", _FLOAT_WIDTHS[t.root]), _FLOAT_WIDTHS[t.root])]
    if t.root in STRINGS or t.root in BINARIES:
        text = array.cast(pa.large_binary() if t.root in BINARIES else pa.large_string()).cast(_CELL_TYPE)
        return _text_cells(text)
    match t.root:
        case "BOOLEAN":
            return [_fixed_cells(array.fill_null(False).cast(pa.uint8()).to_numpy(zero_copy_only=False), 1)]
        case "DECIMAL":
            return _decimal_cells(array)
        case "ARRAY":
            return _list_cells(array, _join_cells(_nullable_cells(array.values, part(t.element))))
        case "MAP" | "MULTISET":
            return _map_cells(array, t)
        case "ROW":
            parts = [array.field(i) for i in range(len(t.fields))]
            return [
                cell
                for inner, field in zip(parts, t.fields, strict=True)
                for cell in _nullable_cells(inner, field.type)
            ]
        case "VARIANT":
            return [cell for i in range(2) for cell in _text_cells(array.field(i).cast(_CELL_TYPE))]
    raise refuse_type(t, "avro")


def _text_cells(text: pa.Array) -> list[pa.Array]:
    """Return the cells of texts or bytes: length and content."""
    if text.offset:
        text = copy_array(text)
    lengths = pc.binary_length(text).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return [varint_cells(lengths), text]


def _map_cells(array: pa.Array, t: DataType) -> list[pa.Array]:
    key, value = map_types(t)
    if t.root == "MULTISET":
        value = value.as_nullable()  # as the reference writes counts
    text_keys = key.root in STRINGS
    keys, values = array.values.field(0), array.values.field(1)
    cells = _value_cells(keys, key) if text_keys else _nullable_cells(keys, key)
    return _list_cells(array, _join_cells([*cells, *_nullable_cells(values, value)]))


def _list_cells(array: pa.Array, items: pa.Array) -> list[pa.Array]:
    """Return the cells of a list: its count, unless it is empty, its items, and the 0 that ends it."""
    ends = offsets_of(items)
    item_offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    counts = np.diff(item_offsets)
    body = pa.Array.from_buffers(
        _CELL_TYPE, len(array), [None, pa.py_buffer(ends[item_offsets]), items.buffers()[2] or pa.py_buffer(b"")]
    )
    zero = _fixed_cells(np.zeros(len(array), np.uint8), 1)
    return [varint_cells(counts, is_empty=counts == 0), body, zero]


def offsets_of(cells: pa.Array) -> NDArray[np.int64]:
    """Return the offset of each cell in the data, and the end of the last cell."""
    return np.frombuffer(cells.buffers()[1], np.int64, len(cells) + 1, cells.offset * 8)


def _fixed_cells(values: NDArray[np.uint8], width: int) -> pa.Array:
    count = len(values) // width
    return pa.Array.from_buffers(
        _CELL_TYPE, count, [None, pa.py_buffer(np.arange(count + 1, dtype=np.int64) * width), pa.py_buffer(values)]
    )


def _ragged_cells(table: NDArray[np.uint8], lengths: NDArray[np.int64]) -> pa.Array:
    """Return the first `lengths[i]` bytes of each row of a table as cells."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    data = (
        table[_ARRAY_ORDER[: table.shape[1]] < lengths[:, None]]
        if table.shape[1] <= len(_ARRAY_ORDER)
        else table[np.arange(table.shape[1]) < lengths[:, None]]
    )
    return pa.Array.from_buffers(_CELL_TYPE, len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def varint_cells(numbers: NDArray[np.int64], *, is_empty: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return the zig-zag varints of numbers as cells; the cell has no bytes where `is_empty` is true."""
    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    most = int(zigzag.max()) if len(zigzag) else 0
    width = max(1, -(-most.bit_length() // 7))
    if width == 1 and is_empty is None:
        return _fixed_cells(zigzag.astype(np.uint8), 1)
    table = np.empty((len(zigzag), width), np.uint8)
    lengths = np.ones(len(zigzag), np.int64)
    remaining = zigzag
    for i in range(width):
        next_remaining = remaining >> np.uint64(7)
        table[:, i] = (remaining & np.uint64(0x7F)).astype(np.uint8) | ((next_remaining > 0).astype(np.uint8) << 7)
        if i:
            lengths += remaining > 0
        remaining = next_remaining
    if is_empty is not None:
        lengths[is_empty] = 0
    return _ragged_cells(table, lengths)


def _decimal_cells(array: pa.Array) -> list[pa.Array]:
    """Return the cells of decimals: length, and shortest big endian two's complement."""
    little: NDArray[Any] = fixed_values(array, "<u8", 2).view(np.uint8).reshape(-1, 16)
    big = little[:, ::-1]
    sign = np.where(big[:, :1] > 127, 255, 0)
    needless = (big[:, :-1] == sign) & ((big[:, 1:] ^ sign) < 128)
    lengths = 16 - np.logical_and.accumulate(needless, axis=1).sum(axis=1)
    at = np.minimum(np.arange(16) + 16 - lengths[:, None], 15)
    return [varint_cells(lengths), _ragged_cells(np.take_along_axis(big, at, axis=1), lengths)]


def is_stored_as_micros(t: DataType) -> bool:
    """Return whether a timestamp type is stored in microseconds. Raises `Unsupported` for a finer one."""
    unit = timestamp_unit(t.precision)
    if unit == "ns":
        raise refuse_type(t, "avro")
    return unit == "us"


# ---- avro writer ------------------------------------------------------------


NAMESPACE = "org.apache.paimon.avro.generated"
"""The namespace of the record in a file's schema."""
BLOCK_BYTES = 1 << 20
"""The encoded bytes of a block if no option gives another size."""
ROWS_AT_ONCE = 65536
"""The most rows that are encoded in one piece."""
_MAX_BLOCK_BYTES = 1 << 30
_LAST_BMP_CHARACTER = "\uffff"
"""The last character that is one unit of UTF-16."""
_ARROW_TARGET = ArrowTarget(format_name="avro", maps_as_lists=True, count_times=True)
_PLAIN_TYPES = {
    "BOOLEAN": "boolean", "TINYINT": "int", "SMALLINT": "int", "INT": "int", "BIGINT": "long", "FLOAT": "float",
    "DOUBLE": "double",
    **dict.fromkeys(STRINGS, "string"), **dict.fromkeys(BINARIES, "bytes"),
}  # fmt: skip


def open_writer(sink: BinaryIO, fields: Sequence[Field], encoding: Encoding) -> AvroEncoder:
    """Return a writer of one Avro file. Raises `Unsupported`."""
    return AvroEncoder(sink, fields, encoding)


def check_types(fields: Sequence[Field]) -> None:
    """Raise `Unsupported` for a column that Avro files do not hold."""
    schema_json(fields)


class AvroEncoder:
    """One Avro file that is being written; see `encoder.Encoder`."""

    column_stats = EMPTY
    """Empty: Avro computes no statistics of columns, they are collected elsewhere."""

    def __init__(self, sink: BinaryIO, fields: Sequence[Field], encoding: Encoding) -> None:
        self._sink, self._fields, self._level = sink, tuple(fields), encoding.compression_level
        self._codec = container.to_avro_codec(encoding.compression)
        self._schema = schema_json(fields)
        self._block_bytes = min(encoding.block_bytes or BLOCK_BYTES, _MAX_BLOCK_BYTES)
        self._sync: bytes | None = None
        self._body = bytearray()
        self._rows = self._written_bytes = self._raw_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Bytes written to the sink, and an estimate for the open block from the compression of earlier blocks."""
        ratio = self._written_bytes / self._raw_bytes if self._raw_bytes else 0.5
        return self._written_bytes + int(len(self._body) * ratio)

    def can_add(self, frame: pl.DataFrame) -> bool:  # noqa: ARG002 - any rows fit beside any others
        """Return True: an Avro file may hold any rows."""
        return True

    def write(self, frame: pl.DataFrame) -> None:
        """Add rows; full blocks go to the sink at once."""
        parts = (frame.slice(start, ROWS_AT_ONCE) for start in range(0, frame.height, ROWS_AT_ONCE))
        for rows in map_prefetch(self._encode_frame, parts, core_count() if frame.height > ROWS_AT_ONCE else 1):
            self._add_rows(rows)

    def flush(self) -> None:
        """Write the open block with all rows added so far to the sink."""
        if self._rows:
            self._write_block(self._rows, bytes(self._body))
            self._raw_bytes += len(self._body)
            self._body, self._rows = bytearray(), 0

    def close(self) -> None:
        """Write the last block; a file without rows has only the header."""
        self.flush()
        if self._sync is None:
            self._write_header(b"")

    def _encode_frame(self, frame: pl.DataFrame) -> pa.Array:
        return encode_rows(
            [series_to_arrow(frame.get_column(field.name), field, _ARROW_TARGET) for field in self._fields],
            self._fields,
        )

    def _add_rows(self, rows: pa.Array) -> None:
        offsets = offsets_of(rows)
        data = memoryview(rows.buffers()[2]) if rows.buffers()[2] is not None else memoryview(b"")
        row = 0
        while row < len(rows):  # scalar: a block of many rows a step
            limit = int(offsets[row]) + self._block_bytes - len(self._body)
            end = min(len(rows), max(row + 1, int(np.searchsorted(offsets, limit, side="left"))))
            self._body += data[int(offsets[row]) : int(offsets[end])]
            self._rows += end - row
            row = end
            if len(self._body) >= self._block_bytes:
                self.flush()

    # ---- the container

    def _write_header(self, first: bytes) -> None:
        digest = hashlib.blake2b(self._schema, digest_size=container.SYNC_BYTES)
        digest.update(first)
        self._sync = digest.digest()
        out = bytearray(container.MAGIC)
        metadata = {b"avro.schema": self._schema, b"avro.codec": self._codec.encode()}
        container.append_long(out, len(metadata))
        for key, text in metadata.items():
            for piece in (key, text):
                container.append_long(out, len(piece))
                out += piece
        self._put(bytes(out) + b"\0" + self._sync)

    def _write_block(self, row_count: int, body: bytes) -> None:
        if self._sync is None:
            self._write_header(body)
        assert self._sync is not None
        packed = container.compress_block(body, self._codec, self._level)
        head = bytearray()
        container.append_long(head, row_count)
        container.append_long(head, len(packed))
        self._put(bytes(head) + packed + self._sync)

    def _put(self, data: bytes) -> None:
        self._sink.write(data)
        self._written_bytes += len(data)


# ---- the schema ------------------------------------------------------------------------------------------------------


def schema_json(fields: Sequence[Field]) -> bytes:
    """Return the schema of a file as its JSON text.

    Raises:
        Unsupported: Avro files of Paimon do not hold the type or the name of a column.
    """
    record = {
        "type": "record",
        "name": "record",
        "namespace": NAMESPACE,
        "fields": [_field_schema(field.name, field.type, "record") for field in fields],
    }
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()


def name_problem(name: str) -> str | None:
    """Return what is wrong with the name of a field; None for a valid name (`Schema.validateName`).

    A name consists of letters that are one unit of UTF-16, digits and _, and does not begin with a digit.
    """
    if not _is_letter(name[:1]):
        return f"Illegal initial character: {name}"
    return (
        None
        if all(
            _is_letter(character) or (character.isdecimal() and character <= _LAST_BMP_CHARACTER) for character in name
        )
        else f"Illegal character in: {name}"
    )


def _is_letter(character: str) -> bool:
    return character == "_" or (character.isalpha() and character <= _LAST_BMP_CHARACTER)


def _field_schema(name: str, t: DataType, parent: str) -> dict[str, Any]:
    if name_problem(name) is not None:
        raise refuse_name(name, "avro", "whose names are letters, digits and _, and begin with no digit")
    member = {"name": name, "type": _type_schema(t, f"{parent}_{name}")}
    return member | {"default": None} if t.nullable else member


def _type_schema(t: DataType, name: str) -> Any:
    """Return the Avro schema of a type; if the type needs a record, the record is called `name`."""
    non_null = _non_null_type(t, name)
    return ["null", non_null] if t.nullable else non_null


def _non_null_type(t: DataType, name: str) -> Any:
    if t.root in _PLAIN_TYPES:
        return _PLAIN_TYPES[t.root]
    match t.root:
        case "DATE":
            return {"type": "int", "logicalType": "date"}
        case "TIME":
            return {"type": "int", "logicalType": "time-millis"}
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            unit = "micros" if is_stored_as_micros(t) else "millis"
            return {
                "type": "long",
                "logicalType": f"timestamp-{unit}" if t.root == "TIMESTAMP" else f"local-timestamp-{unit}",
            }
        case "DECIMAL":
            return {"type": "bytes", "logicalType": "decimal", "precision": t.precision or 10, "scale": t.scale or 0}
        case "ARRAY":
            return {"type": "array", "items": _type_schema(part(t.element), name)}
        case "MAP" | "MULTISET":
            key, value = map_types(t)
            value = value.as_nullable() if t.root == "MULTISET" else value
            if key.root in STRINGS:
                return {"type": "map", "values": _type_schema(value, name)}
            if t.root == "MULTISET":  # the reference neither writes nor reads one
                raise refuse_type(t, "avro")
            entry = [{"name": "key", "type": _type_schema(key, f"{name}_key")}, _field_schema("value", value, name)]
            return {"type": "array", "items": {"type": "record", "name": name, "fields": entry}, "logicalType": "map"}
        case "ROW":
            return {
                "type": "record",
                "name": name,
                "fields": [_field_schema(field.name, field.type, name) for field in t.fields],
            }
        case "VARIANT":
            return {
                "type": "record",
                "name": name,
                "fields": [{"name": "value", "type": "bytes"}, {"name": "metadata", "type": "bytes"}],
            }
    raise refuse_type(t, "avro")
