"""Columns as numpy arrays and back: the values, which of them are there, and numbers that compare as the values do."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Array = NDArray[Any]

RETRACT_BIT = 1
"""Kinds -U (1) and -D (3) have it, +I (0) and +U (2) do not."""
_LOWEST = np.iinfo(np.int64).min


def not_null_mask(column: pl.Series) -> Bools | None:
    """Which values are not null; None when all are there."""
    return None if column.null_count() == 0 else bools(column.is_not_null())


def bools(column: pl.Series) -> Bools:
    """Truth values without nulls, a byte each; `to_numpy` takes ten times as long."""
    held = column.to_arrow()
    if not len(held):
        return np.zeros(0, bool)
    bits = np.frombuffer(held.buffers()[1], np.uint8)[held.offset // 8 :]
    first = held.offset % 8
    return np.unpackbits(bits, count=first + len(held), bitorder="little")[first:].view(bool)


def values(column: pl.Series) -> Array:
    """The numbers behind a column (days, micros, …), zero where null."""
    if not column.dtype.is_numeric():
        column = column.to_physical() if column.dtype != pl.Boolean else column.cast(pl.UInt8)
    return column.fill_null(0).to_numpy() if column.null_count() else column.to_numpy()


def is_whole(dtype: pl.DataType) -> bool:
    """Whether a column of that type has whole numbers of at most 64 bits behind it."""
    return dtype.is_integer() or dtype in (pl.Boolean, pl.Date, pl.Time) or isinstance(dtype, (pl.Datetime, pl.Duration))


def literals(values: pl.Series) -> list[pl.Expr]:
    """Some values as literals of their type; few, as bounds are.

    Times go by their counts: Python's values end at microseconds, so that a greatest one would come out below itself, and at the year 9999.
    """
    counts = values.to_physical() if values.dtype.is_temporal() else values
    return [pl.lit(count, counts.dtype).cast(values.dtype) for count in counts.to_list()]  # scalar: bounds


def min_max_literals(values: pl.Series) -> tuple[pl.Expr, pl.Expr]:
    """The least and the greatest of some values, as literals."""
    counts = values.to_physical() if values.dtype.is_temporal() else values
    low, high = literals(pl.Series([counts.min(), counts.max()], dtype=counts.dtype).cast(values.dtype))
    return low, high


def float_order(numbers: Array) -> Ints:
    """Integers that compare as Java's `Double.compare` does: -0.0 below 0.0, every NaN equal and above all."""
    wide = numbers.astype(np.float64)
    wide[np.isnan(wide)] = np.nan
    bits = wide.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def float_bits(column: pl.Series, *, one_zero: bool = False) -> pl.Series:
    """Floats as integers that are equal where Java's boxed ones are: -0.0 is not 0.0 (but with `one_zero`), NaN is NaN, null is null."""
    # in numpy: Polars takes adding 0.0 for nothing
    numbers = values(column) + 0.0 if one_zero else values(column)
    found = pl.Series(column.name, float_order(numbers))
    return found if column.null_count() == 0 else pl.select(pl.when(column.is_not_null()).then(found).alias(column.name)).to_series()


def to_comparable(column: pl.Series, *, descending: bool = False, as_sequence: bool = False) -> Ints:
    """Integers that compare as the values do; a null is below every value, also when `descending` turns the values round.

    Floats compare as Java's `Double.compare` does; `as_sequence`, as its operators do: -0.0 equals 0.0. (To those NaN equals everything, which is no
    order: here it is above all.)
    """
    there = not_null_mask(column)
    if is_whole(column.dtype):
        found = values(column).astype(np.int64)
    elif column.dtype.is_float():
        found = float_order(values(column) + 0.0 if as_sequence else values(column))
    else:
        dense = column.rank("dense").fill_null(0)
        found = dense.to_numpy().astype(np.int64)
    if descending:
        found = ~found
    if there is None:
        return found
    if (found[there] == _LOWEST).any():
        found = pl.Series(found).rank("dense").to_numpy().astype(np.int64)
    found[~there] = _LOWEST
    return found


NAN = int(float_order(np.array([np.nan]))[0])
"""What `to_comparable` makes of NaN."""


def put(held: Array, new: Array, where: Bools) -> None:
    """`held[where] = new[where]` for numbers of one type, without a branch a number.

    The masks of merges are scattered, and that costs a tenth of the time on them.
    """
    bits = np.dtype(f"i{held.itemsize}")
    change = held.view(bits) ^ new.view(bits)
    change &= -where.view(np.int8).astype(bits)
    held.view(bits)[:] ^= change


def take(column: pl.Series, rows: Ints) -> pl.Series:
    """The values at those rows; null where a row number is negative."""
    missing = rows < 0
    return gather_with_nulls(column, rows, not_null_mask(column), missing if missing.any() else None)


def gather_with_nulls(column: pl.Series, rows: Ints, there: Bools | None, gone: Bools | None = None) -> pl.Series:
    """The values at those rows, but null where `gone`; `there` is what is `not_null_mask` in the column."""
    held = column.to_arrow(compat_level=pl.CompatLevel.newest())
    width = _width(held.type)
    if width and len(column) and len(rows):
        return _take_slots(column, held, width, rows, there, gone)
    if gone is None:
        return column.gather(pl.Series(rows))
    return column.gather(pl.select(pl.when(pl.Series(~gone)).then(pl.Series(rows))).to_series())


def _width(kind: pa.DataType) -> int:
    """How many bytes a value takes in an array of that type; 0 where values are no such slots."""
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return 16
    slots = pa.types.is_primitive(kind) or pa.types.is_decimal128(kind)
    return kind.bit_width // 8 if slots and not pa.types.is_boolean(kind) else 0


def _take_slots(column: pl.Series, held: pa.Array, width: int, rows: Ints, there: Bools | None, gone: Bools | None) -> pl.Series:
    """A gather of slots and a gather of what is there: with scattered nulls a third of the time of Polars' own."""
    _, slots, *texts = held.buffers()
    kind = np.dtype(f"u{width}" if width <= 8 else "V16")
    found = np.frombuffer(slots, kind, len(held), held.offset * width).take(rows, mode="wrap")
    kept = None if there is None else there.take(rows, mode="wrap")
    if gone is not None:
        kept = ~gone if kept is None else kept & ~gone
    buffers = [None if kept is None else pa.py_buffer(np.packbits(kept, bitorder="little")), pa.py_buffer(found), *texts]
    taken = pl.Series(column.name, pa.Array.from_buffers(held.type, len(rows), buffers))
    return taken if taken.dtype == column.dtype else taken.cast(column.dtype)


def series(column: pl.Series, numbers: Array, there: Bools | None) -> pl.Series:
    """A column like `column` from the numbers behind it."""
    found = pl.Series(column.name, numbers)
    if column.dtype == pl.Boolean:
        found = found.cast(pl.Boolean)
    elif found.dtype != column.dtype:
        found = found.cast(column.to_physical().dtype).cast(column.dtype)
    if there is None or there.all():
        return found
    return pl.select(pl.when(pl.Series(there)).then(found).alias(column.name)).to_series()
