"""Arithmetic and comparison of numbers as in Spark SQL: the common type of two operands, and the result.

    INT + SMALLINT             BIGINT (Spark: INT, which may overflow); so is every result of two integers but `/`
    INT * DECIMAL(2, 1)        DECIMAL of all digits: 3 * 0.1 is 0.3, and not 0.30000000000000004
    FLOAT = DECIMAL            both as DOUBLE: a FLOAT of 0.1 is not 0.1
    INT / INT                  DOUBLE; if one side is DECIMAL: DECIMAL, rounded half up
    INT % INT, INT DIV INT     % has the sign of the left side, DIV cuts towards zero

Where Spark would drop digits to stay within DECIMAL(38), `compute_arithmetic` returns None.
Source: "Decimal arithmetic" and "ANSI Compliance" of Spark's documentation; tests compare each rule with Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

MAX_PRECISION = 38
"""The greatest precision of a DECIMAL."""
_LEAST_FRACTION = 6
"""The least scale of a quotient of decimals."""
_DIGITS: Mapping[type[pl.DataType], int] = {pl.Int8: 3, pl.Int16: 5, pl.Int32: 10, pl.Int64: 20}


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedNumber:
    """A numeric expression with its type."""

    expr: pl.Expr
    dtype: pl.DataType

    @property
    def is_float(self) -> bool:
        """Whether the type is FLOAT or DOUBLE."""
        return self.dtype.is_float()

    @property
    def is_decimal(self) -> bool:
        """Whether the type is DECIMAL."""
        return isinstance(self.dtype, pl.Decimal)

    @property
    def digits(self) -> tuple[int, int]:
        """The precision and scale of an integer or DECIMAL: all digits, and the digits after the point."""
        if isinstance(self.dtype, pl.Decimal):
            return self.dtype.precision or MAX_PRECISION, self.dtype.scale
        return _DIGITS.get(type(self.dtype), 20), 0

    def to(self, dtype: pl.DataType) -> TypedNumber:
        """Return the number cast to a type."""
        return self if self.dtype == dtype else TypedNumber(expr=self.expr.cast(dtype), dtype=dtype)


def decimal_literal(value: Decimal) -> TypedNumber:
    """Return the DECIMAL literal of a value, with the precision and scale that it is written with."""
    _, written, exponent = value.as_tuple()
    scale = -int(exponent)
    dtype = pl.Decimal(max(len(written), scale, 1), scale)
    return TypedNumber(expr=pl.lit(value, dtype), dtype=dtype)


def promote_for_comparison(left: TypedNumber, right: TypedNumber) -> tuple[TypedNumber, TypedNumber]:
    """Return the two sides of a comparison, cast to the type in which Spark compares them."""
    if left.is_float or right.is_float:
        return (left, right) if left.dtype == right.dtype else (left.to(pl.Float64()), right.to(pl.Float64()))
    if left.is_decimal or right.is_decimal:
        return _as_decimal(left), _as_decimal(right)
    return left, right


def compute_arithmetic(sign: str, left: TypedNumber, right: TypedNumber) -> TypedNumber | None:
    """Return `left sign right`, where `sign` is one of + - * / % DIV.

    Return None where lakekit does not reproduce Spark's result: % and DIV of DECIMAL or floats, and DECIMAL results of
    more than 38 digits. For /, % and DIV the caller must make sure that `right` is not zero.
    """
    if sign in ("+", "-", "*", "/") and (
        left.is_float or right.is_float or (sign == "/" and not left.is_decimal and not right.is_decimal)
    ):
        first, second = (
            (side.to(pl.Float64()) for side in (left, right)) if sign == "/" else promote_for_comparison(left, right)
        )
        return TypedNumber(expr=_apply_operator(sign, first.expr, second.expr), dtype=first.dtype)
    if left.is_decimal or right.is_decimal:
        return _decimals(sign, _as_decimal(left), _as_decimal(right))
    if left.is_float or right.is_float:
        return None
    first, second = left.to(pl.Int64()), right.to(pl.Int64())
    if sign in ("%", "DIV"):
        remainder = first.expr % second.expr.abs()  # of the sign of the right side, to Polars
        remainder = (
            pl.when((remainder != 0) & (first.expr < 0)).then(remainder - second.expr.abs()).otherwise(remainder)
        )
        return TypedNumber(
            expr=remainder if sign == "%" else (first.expr - remainder).floordiv(second.expr), dtype=pl.Int64()
        )
    return TypedNumber(expr=_apply_operator(sign, first.expr, second.expr), dtype=pl.Int64())


def _decimals(sign: str, left: TypedNumber, right: TypedNumber) -> TypedNumber | None:
    (digits, scale), (other_digits, other_scale) = left.digits, right.digits
    if sign in ("+", "-"):
        after = max(scale, other_scale)
        total = max(digits - scale, other_digits - other_scale) + after + 1
    elif sign == "*":
        after, total = scale + other_scale, digits + other_digits + 1
    elif sign == "/":
        after = max(_LEAST_FRACTION, scale + other_digits + 1)
        total = digits - scale + other_scale + after
    else:
        return None
    if total > MAX_PRECISION:
        return None
    # Polars gives a product and a quotient as many digits after the point as the side that has more of them
    widened = left.expr.cast(pl.Decimal(MAX_PRECISION, after))
    dtype = pl.Decimal(total, after)
    return TypedNumber(expr=_apply_operator(sign, widened, right.expr).cast(dtype), dtype=dtype)


def _apply_operator(sign: str, left: pl.Expr, right: pl.Expr) -> pl.Expr:
    match sign:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    return left / right


def _as_decimal(number: TypedNumber) -> TypedNumber:
    return number if number.is_decimal else number.to(pl.Decimal(number.digits[0], 0))


def cast_agrees_with_spark(dtype: pl.DataType, wanted: pl.DataType) -> bool:
    """Return whether CAST from `dtype` to `wanted` gives the same in Spark and in Polars.

    That is: for each value both engines return the same result, or both raise an error.
    """
    if isinstance(wanted, pl.String):
        return dtype.is_integer()
    if isinstance(wanted, pl.Decimal):
        return dtype.is_integer() or isinstance(dtype, pl.Decimal)
    return dtype.is_numeric() and not (isinstance(wanted, pl.Float32) and isinstance(dtype, pl.Decimal))
