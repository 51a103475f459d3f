"""Sum and product of DECIMAL, as the reference's two representations of a decimal make them.

Up to 18 digits a decimal is one long: sums are not checked against the precision (DECIMAL(5,2) 1.50 + 999.99 is
1001.49) and only a sum that exceeds the long is null. Above, a sum that needs more digits than the column has is null.
Products are rounded half up to the column's scale and are null when they need more digits. After a null the next value
starts a new sum or product.

Source: ENGINE_1.4.2 A 2; `DecimalUtils.add`, `Decimal.fromBigDecimal`, `FieldProductAgg`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from lakekit.errors import ValueOutOfRange
from lakekit.lsm.aggregates import function as by_key
from lakekit.lsm.numpy_columns import not_null_mask
from lakekit.lsm.row_versions import ADD, RETRACT, REVERSE, SET, SET_RETRACT

if TYPE_CHECKING:
    from lakekit.lsm.merge_spec import FieldFunction
    from lakekit.lsm.numpy_columns import Array, Bools
    from lakekit.lsm.row_versions import Versions

SHORT_DIGITS = 18
Limbs = tuple["Array", "Array"]
"""128-bit numbers: low halves (uint64) and high halves (int64)."""


def to_limbs(column: pl.Series) -> Limbs:
    """Return the unscaled values of a decimal column, zero where null."""
    array = column.to_arrow()
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    raw = np.frombuffer(array.buffers()[1], np.uint64)[2 * array.offset : 2 * (array.offset + len(array))].reshape(
        -1, 2
    )
    low, high = raw[:, 0].copy(), raw[:, 1].copy().view(np.int64)
    not_null = not_null_mask(column)
    if not_null is not None:
        low[~not_null] = 0
        high[~not_null] = 0
    return low, high


def from_limbs(column: pl.Series, low: Array, high: Array, not_null: Bools) -> pl.Series:
    """Return a decimal column like `column` from unscaled values, not checked against its precision."""
    dtype = column.dtype
    assert isinstance(dtype, pl.Decimal)
    data = np.empty((len(low), 2), np.uint64)
    data[:, 0], data[:, 1] = low, high.view(np.uint64)
    bits = pa.py_buffer(np.packbits(not_null, bitorder="little").tobytes())
    array = pa.Array.from_buffers(
        pa.decimal128(dtype.precision, dtype.scale), len(low), [bits, pa.py_buffer(data.tobytes())]
    )
    result = pl.from_arrow(array)
    assert isinstance(result, pl.Series)
    return result.alias(column.name)


def sum_decimals(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """Return `sum` of a DECIMAL column."""
    digits = function.type.precision or 10
    short = digits <= SHORT_DIGITS
    values = column.gather(versions.row_numbers)
    low, high = to_limbs(values)
    not_null = not_null_mask(values)
    sum_low, sum_high = np.zeros(versions.count, np.uint64), np.zeros(versions.count, np.int64)
    seen = np.zeros(versions.count, bool)
    with np.errstate(over="ignore"):
        for step in versions.iter_steps():
            height = step.stop - step.start
            mine, met = (sum_low[:height], sum_high[:height]), seen[:height]
            is_present = np.ones(height, bool) if not_null is None else not_null[step]
            op = np.full(height, ADD, np.int8) if ops is None else ops[step]
            addends = (low[step], high[step])
            added = is_present & ((op == ADD) | (op == REVERSE))
            taken = is_present & (op == RETRACT)
            minus = _negate_limbs(addends)
            signed = _select_limbs(taken, minus, addends)
            result, wrapped = _add_limbs(mine, signed)
            fits = ~wrapped & (_fits_long(result) if short else _fits_digits(result, digits))
            fresh = (added | taken) & ~met
            # the negated first value passes through the check that sums of short decimals skip
            fresh_fits = ~taken | _fits_digits(minus, digits)
            grown = (added | taken) & met
            _assign_limbs(mine, result, grown & fits)
            _assign_limbs(mine, signed, fresh)
            met[grown & ~fits] = False
            met[fresh] = fresh_fits[fresh]
            replaced = (op == SET) | (op == SET_RETRACT)
            _assign_limbs(mine, addends, replaced)
            np.copyto(met, is_present, where=replaced)
            _assign_limbs(mine, (np.zeros(height, np.uint64), np.zeros(height, np.int64)), op == SET_RETRACT)
    return from_limbs(column, sum_low, sum_high, seen)


def _add_limbs(left: Limbs, right: Limbs) -> tuple[Limbs, Bools]:
    """Return the sum, and where it does not fit 128 bits."""
    low = left[0] + right[0]
    high = left[1] + right[1] + (low < left[0]).astype(np.int64)
    return (low, high), ((left[1] ^ high) & (right[1] ^ high)) < 0


def _negate_limbs(number: Limbs) -> Limbs:
    low = ~number[0] + np.uint64(1)
    return low, ~number[1] + (low == 0).astype(np.int64)


def _select_limbs(mask: Bools, left: Limbs, right: Limbs) -> Limbs:
    return np.where(mask, left[0], right[0]), np.where(mask, left[1], right[1])


def _assign_limbs(target: Limbs, source: Limbs, mask: Bools) -> None:
    np.copyto(target[0], source[0], where=mask)
    np.copyto(target[1], source[1], where=mask)


def _fits_long(number: Limbs) -> Bools:
    return number[1] == (number[0].view(np.int64) >> np.int64(63))


def _fits_digits(number: Limbs, digits: int) -> Bools:
    """Return where a number has at most that many digits."""
    low, high = _select_limbs(number[1] < 0, _negate_limbs(number), number)
    bound_high, bound_low = divmod(10**digits, 2**64)
    return (high >= 0) & ((high < bound_high) | ((high == bound_high) & (low < np.uint64(bound_low))))


# ---- product: up to 76 digits between two roundings ------------------------------------------------------------------


def multiply_decimals(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """Return `product` of a DECIMAL column, in Python integers: two 38-digit factors need more than 128 bits."""
    scale, digits = function.type.scale or 0, function.type.precision or 10
    values = column.gather(versions.row_numbers)
    low, high = to_limbs(values)
    numbers = high.astype(object) * 2**64 + low.astype(object)
    not_null = not_null_mask(values)
    accumulators: list[int | None] = [None] * versions.count
    for step in versions.iter_steps():
        is_present = [True] * (step.stop - step.start) if not_null is None else by_key.to_python_values(not_null[step])
        op_list = [ADD] * len(is_present) if ops is None else by_key.to_python_values(ops[step])
        for key, (op_code, has_value, number) in enumerate(
            zip(op_list, is_present, by_key.to_python_values(numbers[step]), strict=True)
        ):  # scalar: exact integers of 256 bits
            accumulators[key] = _multiply_decimal(
                function, accumulators[key], number if has_value else None, op_code, (digits, scale)
            )
    result_not_null = np.array([number is not None for number in accumulators], bool)
    filled = [number or 0 for number in accumulators]
    low_now = np.array([number & (2**64 - 1) for number in filled], np.uint64)
    high_now = np.array([number >> 64 for number in filled], np.int64)
    return from_limbs(column, low_now, high_now, result_not_null)


def _multiply_decimal(
    function: FieldFunction, accumulator: int | None, number: int | None, op: int, shape: tuple[int, int]
) -> int | None:
    if op == SET:
        return number
    if op == SET_RETRACT:
        return _divide_decimal(function, number, number, shape)
    if op == RETRACT:
        return _divide_decimal(function, accumulator, number, shape)
    if op not in (ADD, REVERSE):
        return accumulator
    if accumulator is None or number is None:
        return number if accumulator is None else accumulator
    return _round_half_up(Fraction(accumulator * number, 10 ** (2 * shape[1])), shape)


def _divide_decimal(
    function: FieldFunction, accumulator: int | None, number: int | None, shape: tuple[int, int]
) -> int | None:
    if accumulator is None or number is None:
        return accumulator
    if number == 0:
        raise ValueOutOfRange(
            f"Division by zero: aggregate function 'product' of column {function.column} retracts a 0",
            column=function.column,
        )
    exact = Fraction(accumulator, number)
    denominator = exact.denominator
    for prime in (2, 5):
        while denominator % prime == 0:
            denominator //= prime
    if denominator != 1:
        raise ValueOutOfRange(
            "Non-terminating decimal expansion; no exact representable decimal result: aggregate function 'product' "
            f"of column {function.column} "
            "retracts a value that does not divide it",
            column=function.column,
        )
    return _round_half_up(exact, shape)


def _round_half_up(exact: Fraction, shape: tuple[int, int]) -> int | None:
    """Round half up, away from zero, at the column's scale; None if it needs more digits than the column has."""
    digits, scale = shape
    scaled = abs(exact) * 10**scale
    rounded = (2 * scaled.numerator + scaled.denominator) // (2 * scaled.denominator)
    if rounded >= 10**digits:
        return None
    return -rounded if exact < 0 else rounded
