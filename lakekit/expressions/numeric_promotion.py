"""Arithmetic of SQL's numbers: the common type of two operands, and the result.

    INT + INT                BIGINT, or 128 bits where the bounds of the operands ask for it: nothing wraps
    INT / INT                DOUBLE; a division by zero is infinite, or NaN
    INT % INT, INT // INT    the sign of the left side; cut towards zero; fails where the right side is zero
    DECIMAL + INT            DECIMAL of all digits; a product has the digits after the point of both
    DECIMAL / DECIMAL        DOUBLE
    FLOAT + INT, + DECIMAL   FLOAT; FLOAT + DOUBLE is DOUBLE

The rules are DuckDB's with one difference: where a sum is beyond the type of its operands, DuckDB fails and the sum
here gets a wider type. A sum of DECIMAL beyond 38 digits fails here too.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING

import polars as pl

from lakekit.errors import ValueOutOfRange
from lakekit.expressions.typed_expression import (
    MAX_PRECISION,
    TranslationRefusal,
    TypedExpression,
    bounded_integer,
    decimal_literal,
    double_literal,
    fails_where,
    integer_bounds,
    integer_literal,
    integer_type,
    mismatch,
    null_literal,
    typed_value,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_NEGATIVE_SHIFT = "is shifted by a literal from 0 to 62"
_MAX_SHIFT = 62
_EXACT_FLOAT = 1 << 53
"""Below it each whole number is a DOUBLE."""


def compute_arithmetic(operator: str, left: TypedExpression, right: TypedExpression) -> TypedExpression:
    """Return `left operator right`, where `operator` is one of + - * / % //.

    Raises: `TranslationRefusal` for operands that are no numbers.
    """
    for side in (left, right):
        if not side.is_number and not side.is_null:
            raise mismatch(f"{operator} computes with numbers, and {side.description}")
    if left.is_null or right.is_null:
        other = right if left.is_null else left
        return null_literal(pl.Int64() if other.is_null or other.is_integer else other.dtype)
    if operator == "//" and not (left.is_integer and right.is_integer):
        wrong = right if left.is_integer else left
        raise mismatch(f"// divides whole numbers, and {wrong.description}")
    if left.is_float or right.is_float or operator == "/":
        return _compute_floats(operator, left, right)
    if left.is_decimal or right.is_decimal:
        return _compute_decimals(operator, left, right)
    return _compute_integers(operator, left, right)


def promoted_float_type(*operands: TypedExpression) -> pl.DataType:
    """Return the type of a result of floats: FLOAT where an operand is FLOAT and none is DOUBLE, else DOUBLE."""
    if any(isinstance(side.dtype, pl.Float64) for side in operands):
        return pl.Float64()
    return pl.Float32() if any(side.is_float for side in operands) else pl.Float64()


def as_float(number: TypedExpression, dtype: pl.DataType) -> TypedExpression:
    """Return a number as FLOAT or DOUBLE; a literal is the nearest one."""
    if number.dtype == dtype:
        return number
    if number.is_literal and number.literal is not None:
        value = float(number.literal)
        return TypedExpression(pl.lit(value, dtype), dtype, value, is_constant=True, name=number.name)
    return number.to(dtype)


def as_decimal(number: TypedExpression) -> TypedExpression:
    """Return a whole number as DECIMAL, a DECIMAL as it is."""
    return number if number.is_decimal else number.to(pl.Decimal(number.digits[0], 0))


def _compute_floats(operator: str, left: TypedExpression, right: TypedExpression) -> TypedExpression:
    dtype = promoted_float_type(left, right)
    first, second = (as_float(side, dtype).expr for side in (left, right))
    if operator == "%":
        return _float_remainder(as_float(left, dtype), right)
    if operator == "/" and right.is_constant:
        second = repeat_float_constant(second, first, dtype)
    return typed_value(_apply_operator(operator, first, second), dtype, left, right)


def repeat_float_constant(constant: pl.Expr, length_of: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return a float constant as a column, one for each row of `length_of`.

    Polars divides a column by a scalar as it multiplies by the scalar's reciprocal, and 3 / 10 is 0.30000000000000004
    then;
    a column is divided value by value.
    """
    return length_of.is_nan().cast(dtype) * pl.lit(0.0, dtype) + constant


def _float_remainder(left: TypedExpression, right: TypedExpression) -> TypedExpression:
    """Return the remainder of a float by a whole literal, with the sign of the left side, exactly.

    Raises: `TranslationRefusal` for another divisor: Polars' remainder of floats is not exact.
    """
    divisor = right.literal
    is_number = isinstance(divisor, (int, float, Decimal)) and not isinstance(divisor, bool)
    if not is_number or not math.isfinite(divisor) or int(divisor) != divisor:
        raise mismatch("a FLOAT or DOUBLE is divided with a rest by a whole literal alone: CAST it to DECIMAL")
    unit = abs(int(divisor))
    number = left.expr.cast(pl.Float64())
    if not unit:
        return typed_value(number * math.nan, left.dtype, left)
    if unit >= _EXACT_FLOAT:
        raise mismatch(f"{unit} is no divisor of a FLOAT or DOUBLE")
    size = number.abs()
    is_small = size < _EXACT_FLOAT
    whole = pl.when(size.is_finite() & ~is_small).then(size).cast(pl.Int128()) % pl.lit(unit, pl.Int128())
    small = pl.when(is_small).then(size)
    rest = (
        pl.when(is_small)
        .then(small % repeat_float_constant(pl.lit(float(unit)), small, pl.Float64()))
        .otherwise(whole.cast(pl.Float64()))
    )
    rest = pl.when(size.is_finite()).then(rest).otherwise(number * math.nan)
    return typed_value(pl.when(number < 0).then(-rest).otherwise(rest).cast(left.dtype), left.dtype, left)


def _compute_decimals(operator: str, left: TypedExpression, right: TypedExpression) -> TypedExpression:
    left, right = as_decimal(left), as_decimal(right)
    (digits, scale), (other_digits, other_scale) = left.digits, right.digits
    before = max(digits - scale, other_digits - other_scale)
    if operator == "%":
        after = max(scale, other_scale)
        dtype = pl.Decimal(min(before + after, MAX_PRECISION), after)
        first, second = (side.expr.cast(pl.Decimal(MAX_PRECISION, after)) for side in (left, right))
        is_failing = fails_where(
            first.is_not_null() & (second == 0), "a division by zero; write nullif(divisor, 0) for NULL"
        )
        size = first.abs() % pl.when(is_failing).then(None).otherwise(second.abs())
        return typed_value(pl.when(first < 0).then(-size).otherwise(size).cast(dtype), dtype, left, right)
    if operator in ("+", "-"):
        after, total = max(scale, other_scale), before + max(scale, other_scale) + 1
        first, second = (side.expr.cast(pl.Decimal(MAX_PRECISION, after)) for side in (left, right))
    else:
        after, total = scale + other_scale, digits + other_digits
        if after > MAX_PRECISION:
            raise mismatch(f"a product with {after} digits after the point is no DECIMAL: CAST one side to DOUBLE")
        # Polars gives a product as many digits after the point as the side that has more of them
        first, second = left.expr.cast(pl.Decimal(MAX_PRECISION, after)), right.expr
    dtype = pl.Decimal(min(total, MAX_PRECISION), after)
    return typed_value(_apply_operator(operator, first, second).cast(dtype), dtype, left, right)


def _divides_by_zero(number: pl.Expr, divisor: pl.Expr) -> pl.Expr:
    """Return an expression that is true nowhere; computing it fails where a number is divided by zero."""
    is_wrong = number.is_not_null() & (divisor == 0)
    return fails_where(is_wrong, "a division by zero; write nullif(divisor, 0) for NULL")


def _compute_integers(operator: str, left: TypedExpression, right: TypedExpression) -> TypedExpression:
    if operator in ("%", "//"):
        return _divide_integers(operator, left, right)
    low, high = _integer_bounds(operator, left, right)
    dtype = _type_of_sum(low, high, left, right)
    if dtype is None:  # beyond 128 bits: the operands themselves must be BIGINT
        left, right = cast_to_bigint(left), cast_to_bigint(right)
        low, high = _integer_bounds(operator, left, right)
        dtype = _type_of_sum(low, high, left, right)
        assert dtype is not None
    result = _apply_operator(operator, left.to(dtype).expr, right.to(dtype).expr)
    return bounded_integer(result, dtype, low, high, left, right)


def _type_of_sum(low: int, high: int, *operands: TypedExpression) -> pl.DataType | None:
    """Return the type that holds a result and its operands: -(-x) of a BIGINT is one, and -x needs 128 bits."""
    return integer_type(min(low, *(side.low for side in operands)), max(high, *(side.high for side in operands)))


def cast_to_bigint(number: TypedExpression) -> TypedExpression:
    """Return a whole number as BIGINT; a value beyond it fails when it is computed.

    Raises: `TranslationRefusal` for a literal beyond it, which Polars would compute, and refuse, in its plan.
    """
    if integer_type(number.low, number.high) != pl.Int128():
        return number
    if isinstance(number.literal, int):
        problem = f"{number.literal} does not fit the type BIGINT"
        raise TranslationRefusal(problem, ValueOutOfRange)
    return bounded_integer(number.expr.cast(pl.Int64()), pl.Int64(), -(1 << 63), (1 << 63) - 1, number)


def _integer_bounds(operator: str, left: TypedExpression, right: TypedExpression) -> tuple[int, int]:
    if operator == "+":
        return left.low + right.low, left.high + right.high
    if operator == "-":
        return left.low - right.high, left.high - right.low
    products = [one * other for one in (left.low, left.high) for other in (right.low, right.high)]
    return min(products), max(products)


def _divide_integers(operator: str, left: TypedExpression, right: TypedExpression) -> TypedExpression:
    widest = max(abs(side.low) for side in (left, right)), max(abs(side.high) for side in (left, right))
    if integer_type(-max(widest), max(widest)) is None:
        left, right = cast_to_bigint(left), cast_to_bigint(right)
        widest = (1 << 63), (1 << 63)
    dtype = integer_type(-max(widest), max(widest))
    assert dtype is not None
    first, second = left.to(dtype).expr, right.to(dtype).expr
    if right.low <= 0 <= right.high:
        is_failing = fails_where(
            first.is_not_null() & (second == 0), "a division by zero; write nullif(divisor, 0) for NULL"
        )
        second = pl.when(is_failing).then(None).otherwise(second)
    remainder = first % second.abs()  # of the sign of the right side, to Polars
    remainder = pl.when((remainder != 0) & (first < 0)).then(remainder - second.abs()).otherwise(remainder)
    if operator == "%":
        bound = max(abs(right.low), abs(right.high), 1) - 1
        return bounded_integer(remainder, dtype, min(-bound, 0), bound, left, right)
    bound = max(abs(left.low), abs(left.high))
    return bounded_integer((first - remainder) // second, dtype, -bound, bound, left, right)


def _apply_operator(operator: str, left: pl.Expr, right: pl.Expr) -> pl.Expr:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    return left / right


def negate(number: TypedExpression) -> TypedExpression:
    """Return the number with the other sign; a literal stays one.

    Raises: `TranslationRefusal` for what is no number.
    """
    if number.is_null:
        return null_literal(pl.Int64())
    if number.literal is None and number.is_number:
        return null_literal(number.dtype)
    if not number.is_number:
        raise mismatch(f"- is the sign of a number, and {number.description}")
    if number.is_literal:
        return make_numeric_literal(-number.literal)
    if number.is_integer:
        return compute_arithmetic("-", integer_literal(0), number)
    return typed_value(-number.expr, number.dtype, number)


def make_numeric_literal(value: object) -> TypedExpression:
    """Return a number as a literal."""
    if isinstance(value, Decimal):
        return decimal_literal(value)
    return double_literal(value) if isinstance(value, float) else integer_literal(int(str(value)))


def promote(numbers: Sequence[TypedExpression]) -> tuple[list[TypedExpression], pl.DataType]:
    """Return numbers cast to the type that holds all of them, as CASE and COALESCE need, and that type."""
    if any(number.is_float for number in numbers):
        dtype = promoted_float_type(*numbers)
        return [as_float(number, dtype) for number in numbers], dtype
    if any(number.is_decimal for number in numbers):
        digits = [number.digits for number in numbers]
        after = max(scale for _, scale in digits)
        before = max(precision - scale for precision, scale in digits)
        decimal = pl.Decimal(min(before + after, MAX_PRECISION), after)
        return [number.to(decimal) for number in numbers], decimal
    typed = [number for number in numbers if not number.is_literal] or list(numbers)
    least = max(typed, key=lambda number: (number.high - number.low, str(number.dtype))).dtype
    low, high = min(number.low for number in numbers), max(number.high for number in numbers)
    widest = integer_type(low, high, least=pl.Int32())
    fits = all(_can_hold(least, number) for number in numbers)
    dtype = least if fits or widest is None else widest
    return [number.to(dtype) for number in numbers], dtype


def _can_hold(dtype: pl.DataType, number: TypedExpression) -> bool:
    low, high = integer_bounds(dtype)
    return low <= number.low and number.high <= high


def apply_bitwise_operator(operator: str, left: TypedExpression, right: TypedExpression) -> TypedExpression:
    """Return `left operator right` of the bits of two whole numbers, where `operator` is one of & | xor."""
    if left.is_null or right.is_null:
        return null_literal(pl.Int64())
    both, dtype = promote([left, right])
    first, second = (side.expr for side in both)
    result = first & second if operator == "&" else first | second if operator == "|" else first ^ second
    return typed_value(result, dtype, left, right)


def invert_bits(number: TypedExpression) -> TypedExpression:
    """Return the whole number with all bits turned, which is -1 minus it."""
    return compute_arithmetic("-", integer_literal(-1), number)


def shift_bits(operator: str, number: TypedExpression, bit_count: TypedExpression) -> TypedExpression:
    """Return the whole number shifted by a literal, where `operator` is << or >>: times 2 ** n, or divided and floored.

    Raises: `TranslationRefusal` for another number of bits than 0 to 62.
    """
    count = bit_count.literal
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _MAX_SHIFT:
        raise mismatch(f"a whole number {_NEGATIVE_SHIFT}")
    if operator == "<<":
        return compute_arithmetic("*", number, integer_literal(1 << count))
    dtype = integer_type(number.low, number.high)
    assert dtype is not None
    result = number.to(dtype).expr // pl.lit(1 << count, dtype)
    return bounded_integer(result, dtype, number.low >> count, number.high >> count, number)
