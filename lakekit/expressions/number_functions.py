"""Functions of numbers as Polars expressions: rounding is half up, away from zero.

round(2.345, 2)      2.35, DECIMAL      round(2.675::DOUBLE, 2)     2.67: the product 267.49… is rounded
round(15, -1)        20                 floor(-1.5)                 -2, DECIMAL
sqrt(-1), ln(-1)     NaN                ln(0)                       -Infinity
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from lakekit.expressions.numeric_promotion import as_float, compute_arithmetic, negate, repeat_float_constant
from lakekit.expressions.type_casts import round_half_up
from lakekit.expressions.typed_expression import (
    MAX_PRECISION,
    TypedExpression,
    bounded_integer,
    integer_literal,
    integer_type,
    mismatch,
    typed_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MAX_PLACES = 300


def absolute(values: Sequence[TypedExpression], zone: str) -> TypedExpression:  # noqa: ARG001 - as all of the table
    """Return a number without its sign."""
    number = values[0]
    if not number.is_integer:
        return typed_value(number.expr.abs(), number.dtype, number)
    high = max(abs(number.low), abs(number.high))
    dtype = integer_type(-high, high)
    assert dtype is not None
    return bounded_integer(number.expr.cast(dtype).abs(), dtype, 0, high, number)


def sign(number: pl.Expr) -> pl.Expr:
    """Return -1, 0 or 1; 0 of NaN."""
    sign = pl.when(number < 0).then(-1).when(number > 0).then(1).otherwise(0)
    return pl.when(number.is_not_null()).then(sign).cast(pl.Int8())


def sign_of(values: Sequence[TypedExpression], zone: str) -> TypedExpression:  # noqa: ARG001
    """Return the sign of a number: -1, 0 or 1; 0 of NaN."""
    number = values[0]
    result = sign(number.expr)
    if number.is_float:
        result = pl.when(number.expr.is_nan()).then(pl.lit(0, pl.Int8())).otherwise(result)
    return bounded_integer(result, pl.Int8(), -1, 1, number)


def _to_whole(number: TypedExpression, change: Callable[[pl.Expr], pl.Expr]) -> TypedExpression:
    if number.is_integer:
        return number
    if not isinstance(number.dtype, pl.Decimal):
        return typed_value(change(number.expr), number.dtype, number)
    digits, scale = number.digits
    dtype = pl.Decimal(min(digits - scale + 1, MAX_PRECISION), 0)
    return typed_value(change(number.expr).cast(dtype), dtype, number)


def ceiling(values: Sequence[TypedExpression], zone: str) -> TypedExpression:  # noqa: ARG001
    """Return the least whole number that is not less."""
    return _to_whole(values[0], pl.Expr.ceil)


def floor(values: Sequence[TypedExpression], zone: str) -> TypedExpression:  # noqa: ARG001
    """Return the greatest whole number that is not greater."""
    return _to_whole(values[0], pl.Expr.floor)


def truncate(values: Sequence[TypedExpression], zone: str) -> TypedExpression:  # noqa: ARG001
    """Return a number without the digits after the point."""
    return _to_whole(values[0], lambda number: number.truncate(0))


def round_number(values: Sequence[TypedExpression], zone: str) -> TypedExpression:  # noqa: ARG001
    """Return a number rounded half up, away from zero, to some digits after the point, before it where negative."""
    number = values[0]
    places = values[1].literal if len(values) > 1 else 0
    if not isinstance(places, int) or abs(places) > _MAX_PLACES:
        raise mismatch("the digits that a number is rounded to are a literal")
    if number.is_integer:
        return number if places >= 0 else _round_integer(number, 10**-places)
    if isinstance(number.dtype, pl.Decimal):
        digits, scale = number.digits
        if places >= scale:
            return number
        if places < 0:
            raise mismatch("a DECIMAL is rounded to digits after the point; CAST it to BIGINT for others")
        dtype = pl.Decimal(min(digits - scale + places + 1, MAX_PRECISION), places)
        return typed_value(round_half_up(number.expr, places).cast(dtype), dtype, number)
    if places == 0:
        return typed_value(number.expr.round(0, mode="half_away_from_zero"), number.dtype, number)
    factor = float(10 ** abs(places))
    plain = number.expr.cast(pl.Float64())
    divisor = repeat_float_constant(pl.lit(factor), plain, pl.Float64())
    scaled = plain * factor if places > 0 else plain / divisor
    rounded = scaled.round(0, mode="half_away_from_zero")
    result = rounded / divisor if places > 0 else rounded * factor
    kept = pl.when(scaled.is_finite()).then(result.cast(number.dtype)).otherwise(number.expr)
    return typed_value(kept, number.dtype, number)


def _round_integer(number: TypedExpression, unit: int) -> TypedExpression:
    if unit > 10**19:
        return integer_literal(0)
    half = compute_arithmetic("+", absolute([number], ""), integer_literal(unit // 2))
    size = compute_arithmetic("*", compute_arithmetic("//", half, integer_literal(unit)), integer_literal(unit))
    other = negate(size)
    result = pl.when(number.expr < 0).then(other.expr).otherwise(size.expr)
    return bounded_integer(result, size.dtype, -size.high, size.high, number)


def power(values: Sequence[TypedExpression], zone: str) -> TypedExpression:  # noqa: ARG001
    """Return a number raised to another, as DOUBLE."""
    base, exponent = values
    raised = repeat_float_constant(exponent.expr, base.expr, pl.Float64()) if exponent.is_constant else exponent.expr
    return typed_value(base.expr.pow(raised), pl.Float64(), base, exponent)


def logarithm(base: float, number: pl.Expr) -> pl.Expr:
    """Return the logarithm to a base; of its powers a whole number."""
    plain = number.log(base)
    whole = plain.round(0)
    return pl.when(pl.lit(base).pow(whole) == number).then(whole).otherwise(plain)


def log_to_base(values: Sequence[TypedExpression], zone: str) -> TypedExpression:  # noqa: ARG001
    """Return log(b, x), or the logarithm to base 10 of one number."""
    if len(values) == 1:
        return typed_value(logarithm(10.0, as_float(values[0], pl.Float64()).expr), pl.Float64(), *values)
    base, number = (as_float(value, pl.Float64()) for value in values)
    if isinstance(base.literal, float) and base.literal > 1:
        return typed_value(logarithm(base.literal, number.expr), pl.Float64(), number)
    return typed_value(number.expr.log() / base.expr.log(), pl.Float64(), *values)


def count_bits(values: Sequence[TypedExpression], zone: str) -> TypedExpression:  # noqa: ARG001
    """Return how many bits of a whole number are 1, in the width of its type."""
    number = values[0]
    return bounded_integer(
        number.expr.cast(number.dtype).bitwise_count_ones().cast(pl.Int8()), pl.Int8(), 0, 127, number
    )
