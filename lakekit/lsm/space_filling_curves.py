"""Keys that put rows with near values near each other, for several columns at once.

    z-order     a  1 0 1 …        bits of the columns in turn             hilbert    the place of the point (a, b) on a curve that fills the space
                b  0 1 1 …  ─▶  1 0 0 1 1 1 …                                        and never jumps, from 63 bits of each column

Both are compared as unsigned bytes. The bytes are those of the reference, with what is odd in them: decimals stand left-aligned in z-order keys, negative
numbers follow positive ones on the Hilbert curve. Only from eight columns on Hilbert keys are longer than there, where they are cut to 63 bytes.

Source: ENGINE.md 8.6; `ZIndexer`, `ZOrderByteUtils`, `HilbertIndexer`, `ConvertBinaryUtil`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.lsm.numpy_columns import Bools, Ints, bools, values

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Words = NDArray[np.uint64]

PRIMITIVE_BYTES = 8
"""What a number takes in a z-order key."""
HILBERT_BITS = 63
_HILBERT_BYTES = 63
_LARGEST = 2**63 - 1
_BLOCK = 1 << 16
"""Rows whose bits are spread out at once."""


def z_order(columns: pl.DataFrame, text_bytes: int = 8) -> pl.Series:
    """The z-order key of each row, Binary: 8 bytes of every column, of texts and binaries the first `text_bytes`; a null is all zero."""
    return _map_blocks(columns, lambda block: _interleave_bits([_z_bytes(column, text_bytes) for column in block.get_columns()]))


def hilbert(columns: pl.DataFrame) -> pl.Series:
    """The place of each row on the Hilbert curve through two or more columns, Binary; a null is the largest number."""
    return _map_blocks(columns, lambda block: _hilbert_distances([_coordinate(column) for column in block.get_columns()]))


def _map_blocks(columns: pl.DataFrame, of: Callable[[pl.DataFrame], Bytes]) -> pl.Series:
    if not columns.height:
        return pl.Series("key", [], pl.Binary)
    found = [of(columns.slice(start, _BLOCK)) for start in range(0, columns.height, _BLOCK)]
    whole = np.ascontiguousarray(np.concatenate(found))
    count, width = whole.shape
    offsets = np.arange(count + 1, dtype=np.int64) * width
    held = pa.LargeBinaryArray.from_buffers(pa.large_binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(whole)])
    return pl.Series("key", held, pl.Binary)


# ---- z-order ---------------------------------------------------------------------------------------------------------------------------------------------


def _z_bytes(column: pl.Series, text_bytes: int) -> Bytes:
    """Bytes of each value, a row each."""
    if column.dtype in (pl.String, pl.Binary):
        return _first_bytes(column, text_bytes)
    if isinstance(column.dtype, pl.Decimal):
        found = _align_left(_unscaled_bytes(column))
    elif column.dtype == pl.Boolean:
        found = np.zeros((len(column), PRIMITIVE_BYTES), np.uint8)
        found[:, 0] = np.where(bools(column.fill_null(value=False)), 129, 0)  # -127 in the reference
    elif column.dtype.is_float():
        bits = _double_bits(column)
        found = _big_endian(bits ^ (bits >> 31 | np.int64(-(2**63))))  # 31, not 63: as the reference shifts
    else:
        found = _big_endian(_to_int64(column) ^ np.int64(-(2**63)))
    found[_null_mask(column)] = 0
    return found


def _interleave_bits(parts: list[Bytes]) -> Bytes:
    """The highest bits of all columns, then the next ones; a column that has no more bytes is passed over."""
    found = []
    for at in range(max(part.shape[1] for part in parts)):
        having = np.stack([part[:, at] for part in parts if part.shape[1] > at], axis=1)
        bits = np.unpackbits(having[:, :, None], axis=2)
        found.append(np.packbits(bits.transpose(0, 2, 1).reshape(len(having), -1), axis=1))
    return np.concatenate(found, axis=1)


def _align_left(numbers: Bytes) -> Bytes:
    """The first 8 of the fewest bytes that hold each number; what is missing behind them is zero."""
    negative = numbers[:, :1] >> 7
    fill = negative * np.uint8(255)
    # a leading byte says nothing where it repeats the sign and the next one has that sign
    idle = np.logical_and.accumulate((numbers[:, :-1] == fill) & (numbers[:, 1:] >> 7 == negative), axis=1)
    start = idle.sum(axis=1)
    padded = np.concatenate([numbers, np.zeros((len(numbers), PRIMITIVE_BYTES), np.uint8)], axis=1)
    found: Bytes = np.take_along_axis(padded, start[:, None] + np.arange(PRIMITIVE_BYTES), axis=1)
    return found


# ---- hilbert ---------------------------------------------------------------------------------------------------------------------------------------------


def _coordinate(column: pl.Series) -> Words:
    """A number of 63 bits for each value."""
    if column.dtype in (pl.String, pl.Binary):
        found = _align_right(column)
    elif isinstance(column.dtype, pl.Decimal):
        whole = pa.array(pc.trunc(column.to_arrow()).cast(pa.decimal128(38, 0)))
        found = _sixteens(whole)[:, 8:].copy().view(">i8")[:, 0].astype(np.int64)
    elif column.dtype == pl.Boolean:
        found = np.where(bools(column.fill_null(value=False)), np.int64(_LARGEST), np.int64(0))
    elif column.dtype.is_float():
        found = _double_bits(column)
    else:
        found = _to_int64(column)
        if column.dtype == pl.Int8:
            found &= 255
    found[_null_mask(column)] = _LARGEST
    return found.view(np.uint64) & np.uint64(_LARGEST)


def _hilbert_distances(point: list[Words]) -> Bytes:
    """How far along the curve points lie, as big-endian numbers (J. Skilling, "Programming the Hilbert curve", 2004)."""
    first, last, one = point[0], point[-1], np.uint64(1)
    for shift in range(HILBERT_BITS - 1, 0, -1):
        bit, below = np.uint64(shift), (one << np.uint64(shift)) - one
        for axis in point:
            inverts = np.uint64(0) - (axis >> bit & one)
            swapped = (first ^ axis) & below & ~inverts
            first ^= inverts & below | swapped
            if axis is not first:
                axis ^= swapped  # noqa: PLW2901 # in place
    for before, axis in pairwise(point):
        axis ^= before  # noqa: PLW2901 # in place
    flips = np.zeros_like(last)
    for shift in range(HILBERT_BITS - 1, 0, -1):
        flips ^= (np.uint64(0) - (last >> np.uint64(shift) & one)) & ((one << np.uint64(shift)) - one)
    count, size = len(first), HILBERT_BITS * len(point)
    bytes_ = np.stack([(axis ^ flips).astype(">u8").view(np.uint8).reshape(count, 8) for axis in point], axis=1)
    bits = np.unpackbits(bytes_, axis=2)[:, :, 1:].transpose(0, 2, 1).reshape(count, size)
    width = max(_HILBERT_BYTES, -(-size // 8))
    return np.packbits(np.concatenate([np.zeros((count, width * 8 - size), np.uint8), bits], axis=1), axis=1)


def _align_right(column: pl.Series) -> Ints:
    """The first 8 bytes of each value as a number."""
    left, sizes = _first_bytes(column, 8), _sizes(column)
    found = left.view(">u8")[:, 0].astype(np.uint64)
    return np.where(sizes == 0, np.uint64(0), found >> (np.uint64(8) * (8 - np.clip(sizes, 1, 8)).astype(np.uint64))).view(np.int64)


# ---- values ----------------------------------------------------------------------------------------------------------------------------------------------


def _to_int64(column: pl.Series) -> Ints:
    """Whole numbers, days, milliseconds of the day or since 1970."""
    found = values(column).astype(np.int64)
    if isinstance(column.dtype, pl.Datetime):
        return found // {"ms": 1, "us": 1000, "ns": 1_000_000}[column.dtype.time_unit]
    return found // 1_000_000 if column.dtype == pl.Time else found


def _double_bits(column: pl.Series) -> Ints:
    """What `Double.doubleToLongBits` says: every NaN is one."""
    wide = values(column).astype(np.float64)
    wide[np.isnan(wide)] = np.nan
    return wide.view(np.int64)


def _big_endian(numbers: Ints) -> Bytes:
    return numbers.astype(">i8").view(np.uint8).reshape(len(numbers), PRIMITIVE_BYTES).copy()


def _unscaled_bytes(column: pl.Series) -> Bytes:
    """Decimals without their point, 16 bytes each, big-endian."""
    return _sixteens(column.to_arrow())


def _sixteens(held: pa.Array[Any]) -> Bytes:
    slots = np.frombuffer(held.buffers()[1], np.uint8, 16 * len(held), 16 * held.offset)
    return slots.reshape(len(held), 16)[:, ::-1]


def _sizes(column: pl.Series) -> Ints:
    counted = column.str.len_bytes() if column.dtype == pl.String else column.bin.size()
    return counted.fill_null(0).to_numpy().astype(np.int64)


def _first_bytes(column: pl.Series, width: int) -> Bytes:
    """The first bytes of texts, UTF-8, and binaries; zero behind shorter ones."""
    held = column.cast(pl.Binary).bin.head(width).fill_null(b"").to_arrow(compat_level=pl.CompatLevel.oldest())
    found = np.zeros((len(held), width), np.uint8)
    _, offsets, data = held.buffers()
    starts = np.frombuffer(offsets, np.int64)[held.offset : held.offset + len(held) + 1]
    sizes = np.diff(starts)
    bytes_ = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    for at in range(width):
        rows = np.flatnonzero(sizes > at)
        found[rows, at] = bytes_[starts[rows] + at]
    return found


def _null_mask(column: pl.Series) -> Bools:
    return bools(column.is_null())
