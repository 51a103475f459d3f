"""Polars columns as numpy arrays and back: values, null masks, and integers that compare as the values do."""

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
"""The bit that the kinds -U (1) and -D (3) have, and +I (0) and +U (2) do not."""
_LOWEST = np.iinfo(np.int64).min


def not_null_mask(column: pl.Series) -> Bools | None:
    """Return which values are not null; None if none is null."""
    return None if column.null_count() == 0 else bools(column.is_not_null())


def bools(column: pl.Series) -> Bools:
    """Return booleans without nulls as an array of a byte each; `to_numpy` takes ten times as long."""
    array = column.to_arrow()
    if not len(array):
        return np.zeros(0, bool)
    bits = np.frombuffer(array.buffers()[1], np.uint8)[array.offset // 8 :]
    first = array.offset % 8
    return np.unpackbits(bits, count=first + len(array), bitorder="little")[first:].view(bool)


def values(column: pl.Series) -> Array:
    """Return the physical numbers of a column (days, micros, …), zero where null."""
    if not column.dtype.is_numeric():
        column = column.to_physical() if column.dtype != pl.Boolean else column.cast(pl.UInt8)
    return column.fill_null(0).to_numpy() if column.null_count() else column.to_numpy()


def is_whole(dtype: pl.DataType) -> bool:
    """Return whether a column of that type has integers of at most 64 bits as its physical values."""
    return (
        dtype.is_integer() or dtype in (pl.Boolean, pl.Date, pl.Time) or isinstance(dtype, (pl.Datetime, pl.Duration))
    )


def literals(values: pl.Series) -> list[pl.Expr]:
    """Return a few values, such as bounds, as literals of their type.

    Times are converted from their integers: Python's datetime ends at microseconds, so that a greatest value would
    become less, and at the year 9999.
    """
    counts = values.to_physical() if values.dtype.is_temporal() else values
    return [pl.lit(count, counts.dtype).cast(values.dtype) for count in counts.to_list()]  # scalar: bounds


def min_max_literals(values: pl.Series) -> tuple[pl.Expr, pl.Expr]:
    """Return the least and the greatest of some values as literals."""
    counts = values.to_physical() if values.dtype.is_temporal() else values
    low, high = literals(pl.Series([counts.min(), counts.max()], dtype=counts.dtype).cast(values.dtype))
    return low, high


def float_order(numbers: Array) -> Ints:
    """Return integers that compare as Java's `Double.compare`: -0.0 below 0.0, every NaN equal and greatest."""
    wide = numbers.astype(np.float64)
    wide[np.isnan(wide)] = np.nan
    bits = wide.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def float_bits(column: pl.Series, *, one_zero: bool = False) -> pl.Series:
    """Return floats as integers that are equal where Java's boxed floats are.

    -0.0 is not 0.0 (except with `one_zero`), NaN equals NaN, null stays null.
    """
    # in numpy, as Polars optimizes the addition of 0.0 away
    numbers = values(column) + 0.0 if one_zero else values(column)
    bits = pl.Series(column.name, float_order(numbers))
    return (
        bits
        if column.null_count() == 0
        else pl.select(pl.when(column.is_not_null()).then(bits).alias(column.name)).to_series()
    )


def to_comparable(column: pl.Series, *, descending: bool = False, as_sequence: bool = False) -> Ints:
    """Return integers that compare as the values do; null is least, also if `descending` reverses the values.

    Floats compare as Java's `Double.compare` does; `as_sequence`, as its operators do: -0.0 equals 0.0. (To those NaN
    equals everything, which is no order: here it is the greatest.)
    """
    not_null = not_null_mask(column)
    if is_whole(column.dtype):
        comparable = values(column).astype(np.int64)
    elif column.dtype.is_float():
        comparable = float_order(values(column) + 0.0 if as_sequence else values(column))
    else:
        dense = column.rank("dense").fill_null(0)
        comparable = dense.to_numpy().astype(np.int64)
    if descending:
        comparable = ~comparable
    if not_null is None:
        return comparable
    if (comparable[not_null] == _LOWEST).any():
        comparable = pl.Series(comparable).rank("dense").to_numpy().astype(np.int64)
    comparable[~not_null] = _LOWEST
    return comparable


NAN = int(float_order(np.array([np.nan]))[0])
"""The integer of `to_comparable` for NaN."""


def put(target: Array, new: Array, mask: Bools) -> None:
    """Do `target[mask] = new[mask]` for numbers of one type, without a branch for each number.

    The masks of merges are scattered, and on those this takes a tenth of the time.
    """
    bits = np.dtype(f"i{target.itemsize}")
    change = target.view(bits) ^ new.view(bits)
    change &= -mask.view(np.int8).astype(bits)
    target.view(bits)[:] ^= change


def take(column: pl.Series, rows: Ints) -> pl.Series:
    """Return the values at those rows; null where a row number is negative."""
    missing = rows < 0
    return gather_with_nulls(column, rows, not_null_mask(column), missing if missing.any() else None)


def gather_with_nulls(column: pl.Series, rows: Ints, not_null: Bools | None, missing: Bools | None = None) -> pl.Series:
    """Return the values at those rows, null where `missing`; `not_null` is the column's `not_null_mask`."""
    array = column.to_arrow(compat_level=pl.CompatLevel.newest())
    width = _width(array.type)
    if width and len(column) and len(rows):
        return _take_slots(column, array, width, rows, not_null, missing)
    if missing is None:
        return column.gather(pl.Series(rows))
    return column.gather(pl.select(pl.when(pl.Series(~missing)).then(pl.Series(rows))).to_series())


def _width(kind: pa.DataType) -> int:
    """Return how many bytes a value takes in an array of that type; 0 if values have no fixed size."""
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return 16
    slots = pa.types.is_primitive(kind) or pa.types.is_decimal128(kind)
    return kind.bit_width // 8 if slots and not pa.types.is_boolean(kind) else 0


def _take_slots(
    column: pl.Series, array: pa.Array, width: int, rows: Ints, not_null: Bools | None, missing: Bools | None
) -> pl.Series:
    """Gather slots and validity separately: with scattered nulls a third of the time of Polars' gather."""
    _, slots, *texts = array.buffers()
    kind = np.dtype(f"u{width}" if width <= 8 else "V16")
    taken_slots = np.frombuffer(slots, kind, len(array), array.offset * width).take(rows, mode="wrap")
    validity = None if not_null is None else not_null.take(rows, mode="wrap")
    if missing is not None:
        validity = ~missing if validity is None else validity & ~missing
    buffers = [
        None if validity is None else pa.py_buffer(np.packbits(validity, bitorder="little")),
        pa.py_buffer(taken_slots),
        *texts,
    ]
    taken = pl.Series(column.name, pa.Array.from_buffers(array.type, len(rows), buffers))
    return taken if taken.dtype == column.dtype else taken.cast(column.dtype)


def series(column: pl.Series, numbers: Array, not_null: Bools | None) -> pl.Series:
    """Return a column like `column` from physical numbers."""
    result = pl.Series(column.name, numbers)
    if column.dtype == pl.Boolean:
        result = result.cast(pl.Boolean)
    elif result.dtype != column.dtype:
        result = result.cast(column.to_physical().dtype).cast(column.dtype)
    if not_null is None or not_null.all():
        return result
    return pl.select(pl.when(pl.Series(not_null)).then(result).alias(column.name)).to_series()
