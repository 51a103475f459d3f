"""Avro's encoding by column: Arrow arrays to the bytes of each row, without a Python step per row.

    int 1, -1, 300          02   01   d804                  zig-zag varints
    string "ab", null       02 04 6162   00                 union ["null", string]: branch, length, bytes
    array [1, null], []     04 02 02 00 00   00             count, items, 0
    record {x: 1, y: "a"}   02 0261                         its fields, one after the other

Each part of a value is a binary array with one cell for each row; Arrow joins the cells of a row. The items of a list
are contiguous already, so that their bytes are a slice. Source: the Apache Avro specification 1.11, "Binary encoding";
FORMAT.md 7.6, `FieldWriterFactory`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.codec.binary_columns import fixed_values, nulls_of
from lakekit.format.arrange import bits, copy_array
from lakekit.format.encoder import map_types, refuse_type
from lakekit.types import BINARIES, STRINGS, part
from lakekit.types.arrow import timestamp_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lakekit.types import DataType, Field

_CELL = pa.large_binary()
_INTEGERS = {
    "TINYINT": "<i1",
    "SMALLINT": "<i2",
    "INT": "<i4",
    "DATE": "<i4",
    "TIME": "<i4",
    "BIGINT": "<i8",
    "TIMESTAMP": "<i8",
    "TIMESTAMP_LTZ": "<i8",
}
_FLOATS = {"FLOAT": 4, "DOUBLE": 8}
_NOTHING = pa.scalar(b"", _CELL)
_ORDER = np.arange(10)


def record(columns: Sequence[pa.Array], fields: Sequence[Field]) -> pa.Array:
    """Return the bytes of each row of some columns, which `arrange` has converted. Raises `Unsupported`.

    NOT NULL columns hold no nulls.
    """
    cells = [cell for column, field in zip(columns, fields, strict=True) for cell in _value(column, field.type)]
    return _join_cells(cells)


def _join_cells(cells: Sequence[pa.Array]) -> pa.Array:
    """Concatenate the cells of each row; a null cell is no bytes."""
    if len(cells) == 1:
        return cells[0] if not cells[0].null_count else cells[0].fill_null(_NOTHING)
    return pc.binary_join_element_wise(*cells, _NOTHING, null_handling="replace", null_replacement=b"")


def _value(array: pa.Array, t: DataType) -> list[pa.Array]:
    """Return the cells of a value that may be null."""
    cells = _cells(array, t)
    if not t.nullable:
        return cells
    is_present = ~nulls_of(array)
    return [_fixed_cells(np.where(is_present, 2, 0).astype(np.uint8), 1), *(_mask_nulls(cell, array) for cell in cells)]


def _mask_nulls(cell: pa.Array, array: pa.Array) -> pa.Array:
    """Return a cell that is null where the value is null."""
    if not array.null_count:
        return cell
    is_present = array.is_valid()
    if cell.null_count:
        is_present = pc.and_(is_present, cell.is_valid())
    return pa.Array.from_buffers(_CELL, len(cell), [bits(is_present), *cell.buffers()[1:]])


def _cells(array: pa.Array, t: DataType) -> list[pa.Array]:
    """Return the cells of the non-null values; those at nulls are arbitrary."""
    if t.root in _INTEGERS:
        return [varints(fixed_values(array, _INTEGERS[t.root]).astype(np.int64))]
    if t.root in _FLOATS:
        return [_fixed_cells(fixed_values(array, "u1", _FLOATS[t.root]), _FLOATS[t.root])]
    if t.root in STRINGS or t.root in BINARIES:
        text = array.cast(pa.large_binary() if t.root in BINARIES else pa.large_string()).cast(_CELL)
        return _texts(text)
    match t.root:
        case "BOOLEAN":
            return [_fixed_cells(array.fill_null(False).cast(pa.uint8()).to_numpy(zero_copy_only=False), 1)]
        case "DECIMAL":
            return _decimals(array)
        case "ARRAY":
            return _runs(array, _join_cells(_value(array.values, part(t.element))))
        case "MAP" | "MULTISET":
            return _map(array, t)
        case "ROW":
            parts = [array.field(i) for i in range(len(t.fields))]
            return [cell for inner, field in zip(parts, t.fields, strict=True) for cell in _value(inner, field.type)]
        case "VARIANT":
            return [cell for i in range(2) for cell in _texts(array.field(i).cast(_CELL))]
    raise refuse_type(t, "avro")


def _texts(text: pa.Array) -> list[pa.Array]:
    """Return the cells of texts or bytes: length and content."""
    if text.offset:
        text = copy_array(text)
    lengths = pc.binary_length(text).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return [varints(lengths), text]


def _map(array: pa.Array, t: DataType) -> list[pa.Array]:
    key, value = map_types(t)
    if t.root == "MULTISET":
        value = value.as_nullable()  # as the reference writes counts
    text_keys = key.root in STRINGS
    keys, values = array.values.field(0), array.values.field(1)
    cells = _cells(keys, key) if text_keys else _value(keys, key)
    return _runs(array, _join_cells([*cells, *_value(values, value)]))


def _runs(array: pa.Array, items: pa.Array) -> list[pa.Array]:
    """Return the cells of a list: its count, unless it is empty, its items, and the 0 that ends it."""
    ends = offsets_of(items)
    item_offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    counts = np.diff(item_offsets)
    body = pa.Array.from_buffers(
        _CELL, len(array), [None, pa.py_buffer(ends[item_offsets]), items.buffers()[2] or pa.py_buffer(b"")]
    )
    zero = _fixed_cells(np.zeros(len(array), np.uint8), 1)
    return [varints(counts, empty=counts == 0), body, zero]


def offsets_of(cells: pa.Array) -> NDArray[np.int64]:
    """Return where each cell begins in the data, and where the last one ends."""
    return np.frombuffer(cells.buffers()[1], np.int64, len(cells) + 1, cells.offset * 8)


def _fixed_cells(values: NDArray[np.uint8], width: int) -> pa.Array:
    """Return cells of one length."""
    count = len(values) // width
    return pa.Array.from_buffers(
        _CELL, count, [None, pa.py_buffer(np.arange(count + 1, dtype=np.int64) * width), pa.py_buffer(values)]
    )


def _ragged_cells(table: NDArray[np.uint8], lengths: NDArray[np.int64]) -> pa.Array:
    """Return the first `lengths[i]` bytes of each row of a table as cells."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    data = (
        table[_ORDER[: table.shape[1]] < lengths[:, None]]
        if table.shape[1] <= len(_ORDER)
        else table[np.arange(table.shape[1]) < lengths[:, None]]
    )
    return pa.Array.from_buffers(_CELL, len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def varints(numbers: NDArray[np.int64], *, empty: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return zig-zag varints as cells; no bytes where `empty`."""
    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    most = int(zigzag.max()) if len(zigzag) else 0
    width = max(1, -(-most.bit_length() // 7))
    if width == 1 and empty is None:
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
    if empty is not None:
        lengths[empty] = 0
    return _ragged_cells(table, lengths)


def _decimals(array: pa.Array) -> list[pa.Array]:
    """Return the cells of decimals: length, and shortest big endian two's complement."""
    little: NDArray[Any] = fixed_values(array, "<u8", 2).view(np.uint8).reshape(-1, 16)
    big = little[:, ::-1]
    sign = np.where(big[:, :1] > 127, 255, 0)
    needless = (big[:, :-1] == sign) & ((big[:, 1:] ^ sign) < 128)
    lengths = 16 - np.logical_and.accumulate(needless, axis=1).sum(axis=1)
    at = np.minimum(np.arange(16) + 16 - lengths[:, None], 15)
    return [varints(lengths), _ragged_cells(np.take_along_axis(big, at, axis=1), lengths)]


def micros(t: DataType) -> bool:
    """Return whether a timestamp type is stored in microseconds. Raises `Unsupported` for a finer one."""
    unit = timestamp_unit(t.precision)
    if unit == "ns":
        raise refuse_type(t, "avro")
    return unit == "us"
