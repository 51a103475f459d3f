"""Comparisons of typed expressions, in SQL's three values.

    col INT   > 1.5                      ->   col("a") > 1
    col DATE  < TIMESTAMP '… 12:00'      ->   col("d") <= date(…)
    col ts    = '2024-03-31'             ->   col("ts") == datetime(2024, 3, 31)
    col INT   = col BIGINT               ->   both as BIGINT

A column is compared with a literal as `col("a") <op> literal of the column's own type` wherever that is exact: so the
bounds of files are compared with it. A literal between two values of that type, or beyond them, becomes the value
below it, and the operator changes. NaN is the greatest number and equals itself; -0.0 equals 0.0.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from operator import eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit.errors import ValueOutOfRange
from lakekit.expressions.numeric_promotion import (
    as_decimal,
    as_float,
    make_numeric_literal,
    promote,
    promoted_float_type,
)
from lakekit.expressions.time_literals import (
    DAY_NS,
    NS_OF_UNIT,
    as_timestamp,
    local_to_utc,
    moment_literal,
    text_as_moment,
    utc_to_local,
)
from lakekit.expressions.typed_expression import (
    MAX_PRECISION,
    TranslationRefusal,
    TypedExpression,
    boolean_literal,
    decimal_literal,
    failure_of,
    integer_bounds,
    mismatch,
    null_literal,
    text_literal,
    typed_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Grid = tuple[Fraction, int, int]
    """The distance of two values of a type, and its least and greatest value counted by it."""

COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": eq,
    "<>": ne,
    ">": gt,
    ">=": ge,
    "<": lt,
    "<=": le,
    "IS DISTINCT FROM": pl.Expr.ne_missing,
    "IS NOT DISTINCT FROM": pl.Expr.eq_missing,
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_MAX_NUMBER_CHARS = 1000
_EXACT_FLOAT = 1 << 53
"""Below it a whole number and a DOUBLE are compared as they are written."""


def compare(sign: str, left: TypedExpression, right: TypedExpression, zone: str) -> TypedExpression:
    """Return `left sign right`, a truth value or NULL; `sign` is one of `COMPARISONS`.

    Raises: `TranslationRefusal` for types that do not meet.
    """
    left, right = read_text_literal(left, right, zone), read_text_literal(right, left, zone)
    left, right = fold(left), fold(right)
    if left.is_null or right.is_null or left.literal is None or right.literal is None:
        return _compare_with_null(sign, left, right)
    if left.is_literal and not right.is_literal:
        return compare(_MIRRORED.get(sign, sign), right, left, zone)
    if right.is_literal and not left.is_literal:
        result = _compare_with_literal(sign, left, right, zone)
        if result is not None:
            return typed_value(result, pl.Boolean(), left, right)
    first, second = _comparable(left, right, zone)
    return typed_value(COMPARISONS[sign](first, second), pl.Boolean(), left, right)


def compare_rows(left: Sequence[TypedExpression], right: Sequence[TypedExpression], zone: str) -> TypedExpression:
    """Return whether two rows that are written out are equal, value by value; NULL equals NULL, and nothing is unknown.

    Raises: `TranslationRefusal` for rows of different lengths, and types that do not meet.
    """
    if len(left) != len(right):
        raise mismatch(f"a row of {len(left)} values is compared with one of {len(right)}")
    pairs = [compare("IS NOT DISTINCT FROM", one, other, zone) for one, other in zip(left, right, strict=True)]
    result = pairs[0].expr
    for pair in pairs[1:]:
        result = result & pair.expr
    return typed_value(result, pl.Boolean(), *pairs)


def read_text_literal(value: TypedExpression, other: TypedExpression, zone: str) -> TypedExpression:
    """Return a text literal as the type of what it meets, if that is a time; another value as it is.

    Raises: `TranslationRefusal` for a text that is no such time.
    """
    if isinstance(value.literal, str) and (other.is_moment or isinstance(other.dtype, pl.Time)):
        return text_as_moment(value.literal, other.dtype, zone)
    return value


def fold(value: TypedExpression) -> TypedExpression:
    """Return a value without columns as a literal; any other value as it is.

    Raises: `TranslationRefusal` where it cannot be computed; it becomes `ValueOutOfRange`.
    """
    if not value.is_constant or value.is_literal:
        return value
    try:
        series = pl.select(value.expr).to_series()
    except pl.exceptions.PolarsError as wrong:
        what = failure_of(str(wrong)) or str(wrong).split("\n", 1)[0]
        raise TranslationRefusal(f"a constant cannot be computed: {what}", ValueOutOfRange) from None
    if series.null_count():
        return null_literal(value.dtype)
    dtype = value.dtype
    if isinstance(dtype, pl.Date):
        return moment_literal(int(series.to_physical()[0]) * DAY_NS, dtype)
    if isinstance(dtype, pl.Datetime):
        return moment_literal(int(series.to_physical()[0]) * NS_OF_UNIT[dtype.time_unit], dtype)
    if isinstance(dtype, pl.String):
        return text_literal(series[0])
    if isinstance(dtype, pl.Boolean):
        return boolean_literal(series[0])
    if dtype.is_integer() or isinstance(dtype, (pl.Decimal, pl.Float64)):
        return make_numeric_literal(series[0])
    return value


def _compare_with_null(sign: str, left: TypedExpression, right: TypedExpression) -> TypedExpression:
    if sign not in ("IS DISTINCT FROM", "IS NOT DISTINCT FROM"):
        return null_literal(pl.Boolean())
    side = right if left.is_null or left.literal is None else left
    is_null = side.expr.is_null() if not side.is_null else pl.lit(value=True)
    return typed_value(is_null if "NOT" in sign else ~is_null, pl.Boolean(), left, right)


# ---- a column and a literal ----


def _compare_with_literal(sign: str, left: TypedExpression, right: TypedExpression, zone: str) -> pl.Expr | None:
    """Return the comparison with a literal of the left side's own type; None where none is exact."""
    if left.is_float and right.is_number:
        is_exact = isinstance(left.dtype, pl.Float64) or not isinstance(right.literal, float)
        if not is_exact and not _is_single(right.literal):
            return None
        return COMPARISONS[sign](left.expr, as_float(right, left.dtype).expr)
    grid, value = _grid(left.dtype), _position(left, right, zone)
    if grid is None or value is None:
        return None
    step, least, greatest = grid
    count = math.floor(value / step)
    if count * step == value and least <= count <= greatest:
        return COMPARISONS[sign](left.expr, _grid_literal(left.dtype, count, step))
    return _compare_between(
        sign, left, _grid_literal(left.dtype, min(max(count, least), greatest), step), count < least
    )


def _compare_between(sign: str, left: TypedExpression, below: pl.Expr, is_under: bool) -> pl.Expr:
    """Return the comparison with a literal that lies above `below` and under the next value of the type.

    `is_under`: the literal lies under `below`, which is the least value.
    """
    if sign in (">", ">="):
        return left.expr >= below if is_under else left.expr > below
    if sign in ("<", "<="):
        return left.expr < below if is_under else left.expr <= below
    if sign in ("=", "<>"):
        return pl.when(left.expr.is_not_null()).then(pl.lit(sign == "<>"))
    return pl.lit("NOT" not in sign)


def _is_single(value: float) -> bool:
    return math.isnan(value) or math.isinf(value) or pl.Series([value], dtype=pl.Float32())[0] == value


def _grid(dtype: pl.DataType) -> Grid | None:
    if dtype.is_integer():
        return Fraction(1), *integer_bounds(dtype)
    if isinstance(dtype, pl.Decimal):
        most = 10 ** (dtype.precision or MAX_PRECISION) - 1
        return Fraction(1, 10**dtype.scale), -most, most
    if isinstance(dtype, pl.Date):
        return Fraction(DAY_NS), *integer_bounds(pl.Int32())
    if isinstance(dtype, pl.Datetime):
        return Fraction(NS_OF_UNIT[dtype.time_unit]), *integer_bounds(pl.Int64())
    return (Fraction(1), 0, DAY_NS - 1) if isinstance(dtype, pl.Time) else None


def _position(left: TypedExpression, right: TypedExpression, zone: str) -> Fraction | None:
    """Return the value of a literal, comparable with values of the left side's type; None where it is not."""
    value = right.literal
    if isinstance(left.dtype, pl.Time) or isinstance(right.dtype, pl.Time):
        return Fraction(value) if left.dtype == right.dtype else None
    if left.is_moment and right.is_moment:
        zones = [getattr(side.dtype, "time_zone", None) for side in (left, right)]
        if zones[0] is None and zones[1] is not None:
            value = utc_to_local(value, zone)
        elif zones[0] is not None and zones[1] is None:
            value = local_to_utc(value, zone)
        return Fraction(value)
    if not (left.is_integer or left.is_decimal) or not right.is_number:
        return None
    if isinstance(value, float):
        is_exact = left.is_integer and math.isfinite(value) and abs(value) < _EXACT_FLOAT
        return Fraction(value) if is_exact else None
    return Fraction(value)


def _grid_literal(dtype: pl.DataType, count: int, step: Fraction) -> pl.Expr:
    if dtype.is_integer():
        return pl.lit(count, dtype)
    if isinstance(dtype, pl.Decimal):
        return pl.lit(Decimal((0 if count >= 0 else 1, tuple(map(int, str(abs(count)))), -dtype.scale)), dtype)
    return moment_literal(int(count * step), dtype).expr


# ---- two values ----


def _comparable(left: TypedExpression, right: TypedExpression, zone: str) -> tuple[pl.Expr, pl.Expr]:
    """Return two values in one type.

    Raises: `TranslationRefusal` where there is none.
    """
    if left.is_number and right.is_number:
        return _comparable_numbers(left, right)
    if left.is_moment and right.is_moment:
        return _comparable_moments(left, right, zone)
    if left.dtype == right.dtype and not left.dtype.is_nested():
        return left.expr, right.expr
    raise mismatch(_reason(left, right))


def _reason(left: TypedExpression, right: TypedExpression) -> str:
    kinds = f"{left.description}, and {right.description}"
    if left.dtype.is_nested() or right.dtype.is_nested():
        return f"{kinds}: name a field, or an element, of it to compare"
    for one, other in ((left, right), (right, left)):
        if one.is_number and (other.is_moment or isinstance(other.dtype, pl.Time)):
            return f"{kinds}: a number is no day and no time of one; write DATE '2024-01-03', quotes and all"
        if one.is_number and other.is_text:
            return f"it compares a number with a text ({kinds}). Write numbers without quotes, or CAST one"
    return f"{kinds}: CAST one of them"


def _comparable_numbers(left: TypedExpression, right: TypedExpression) -> tuple[pl.Expr, pl.Expr]:
    if left.is_float or right.is_float:
        dtype = promoted_float_type(left, right)
        return as_float(left, dtype).expr, as_float(right, dtype).expr
    if left.is_decimal or right.is_decimal:
        first, second = as_decimal(left), as_decimal(right)
        both = pl.Decimal(MAX_PRECISION, max(first.digits[1], second.digits[1]))
        return first.to(both).expr, second.to(both).expr
    if left.dtype == right.dtype:
        return left.expr, right.expr
    numbers, _ = promote([left, right])
    return numbers[0].expr, numbers[1].expr


def _comparable_moments(left: TypedExpression, right: TypedExpression, zone: str) -> tuple[pl.Expr, pl.Expr]:
    if left.dtype == right.dtype:
        return left.expr, right.expr
    dtypes = [side.dtype for side in (left, right) if isinstance(side.dtype, pl.Datetime)]
    target_zone = next((dtype.time_zone for dtype in dtypes if dtype.time_zone is not None), None)
    sides = []
    for side in (left, right):
        unit = side.dtype.time_unit if isinstance(side.dtype, pl.Datetime) else "us"
        sides.append(as_timestamp(side, pl.Datetime(unit, target_zone), zone))
    units = {side.dtype.time_unit for side in sides if isinstance(side.dtype, pl.Datetime)}
    if units == {"ms", "us"}:  # nanoseconds reach less far than the others
        first, second = (side.expr.cast(pl.Datetime("us", target_zone)) for side in sides)
    elif len(units) > 1:
        first, second = (
            side.expr.to_physical().cast(pl.Int128()) * NS_OF_UNIT[side.dtype.time_unit]  # type: ignore[attr-defined]
            for side in sides
        )
    else:
        first, second = (side.expr for side in sides)
    return first, second


# ---- one type for several values ----


def unify(values: Sequence[TypedExpression], zone: str) -> tuple[list[TypedExpression], pl.DataType]:
    """Return values in the one type that holds all of them, and that type: branches of CASE, arguments of COALESCE.

    Raises: `TranslationRefusal` where there is none.
    """
    typed = [value for value in values if not value.is_null]
    if not typed:
        return list(values), pl.Null()
    times = [value for value in typed if value.is_moment or isinstance(value.dtype, pl.Time)]
    if times:
        typed = [read_text_literal(value, times[0], zone) for value in typed]
        values = [read_text_literal(value, times[0], zone) for value in values]
    if all(value.is_number for value in typed):
        numbers, dtype = promote(typed)
    elif all(value.is_moment for value in typed):
        numbers, dtype = _unify_moments(typed, zone)
    else:
        numbers, dtype = typed, typed[0].dtype
        if other := next((value for value in typed if value.dtype != dtype), None):
            raise mismatch(
                f"{typed[0].description}, and {other.description}: values of one type are wanted, CAST one of them"
            )
    known = iter(numbers)
    return [null_literal(dtype) if value.is_null else next(known) for value in values], dtype


def _unify_moments(values: Sequence[TypedExpression], zone: str) -> tuple[list[TypedExpression], pl.DataType]:
    dtypes = [value.dtype for value in values if isinstance(value.dtype, pl.Datetime)]
    if not dtypes:
        return list(values), pl.Date()
    unit = max((dtype.time_unit for dtype in dtypes), key=("ms", "us", "ns").index)
    target_zone = next((dtype.time_zone for dtype in dtypes if dtype.time_zone is not None), None)
    both = pl.Datetime(unit, target_zone)
    moments = [as_timestamp(value, both, zone) for value in values]
    if any(moment.dtype != both for moment in moments):
        raise TranslationRefusal("a time beyond the years 1677 to 2262 is no TIMESTAMP(9)", ValueOutOfRange)
    return moments, both


# ---- IN ----


def compare_with_list(value: TypedExpression, items: Sequence[TypedExpression], zone: str) -> TypedExpression:
    """Return whether a value equals one of a list; NULL where it equals none and one of them is NULL.

    Raises: `TranslationRefusal` for types that do not meet.
    """
    literals: list[Any] = []
    others: list[TypedExpression] = []
    has_null = False
    for item in (fold(read_text_literal(item, value, zone)) for item in items):
        if item.is_null or item.literal is None:
            has_null = True
        elif item.is_literal and not value.is_constant and (exact := _own_literal(value, item, zone)) is not None:
            literals.append(exact)
        else:
            others.append(compare("=", value, item, zone))
    conditions = [other.expr for other in others]
    if literals:
        conditions.append(_is_in(value, literals))
    if not conditions:
        return null_literal(pl.Boolean())
    while len(conditions) > 1:
        conditions = [
            pair[0] if len(pair) == 1 else pair[0] | pair[1]
            for pair in (conditions[at : at + 2] for at in range(0, len(conditions), 2))
        ]
    result = pl.when(conditions[0]).then(pl.lit(value=True)) if has_null else conditions[0]
    return typed_value(result, pl.Boolean(), value, *items)


def _own_literal(value: TypedExpression, item: TypedExpression, zone: str) -> Any | None:
    """Return a literal as Python's value for a column's `is_in`; None where it is not exactly of the column's type."""
    if value.is_text and item.is_text:
        return item.literal
    grid, position = _grid(value.dtype), _position(value, item, zone)
    if grid is None or position is None or not (value.is_integer or isinstance(value.dtype, pl.Date)):
        return None
    count = math.floor(position / grid[0])
    if count * grid[0] != position or not grid[1] <= count <= grid[2]:
        return None
    return count if value.is_integer else pl.Series([count], dtype=pl.Int32()).cast(pl.Date())[0]


def _is_in(value: TypedExpression, literals: Sequence[Any]) -> pl.Expr:
    if len(literals) == 1:
        return value.expr == pl.lit(literals[0], value.dtype)
    return value.expr.is_in(pl.Series(literals, dtype=value.dtype).implode())


def text_number(text: str) -> TypedExpression:
    """Return a written number as a literal: with a point DECIMAL, with an exponent DOUBLE."""
    if len(text) > _MAX_NUMBER_CHARS:
        raise mismatch(f"a number of {len(text):,} characters is beyond every type")
    if text.isdecimal():
        return make_numeric_literal(int(text))
    try:
        return make_numeric_literal(float(text)) if "e" in text.lower() else decimal_literal(Decimal(text))
    except (ValueError, ArithmeticError):
        raise mismatch(f"{text[:40]!r} is no number") from None


def list_literal(element: TypedExpression, value: TypedExpression, zone: str) -> pl.Expr:
    """Return a value as the type of a list's elements, in which it is looked for.

    Raises: `TranslationRefusal` for a value of another type, and a literal that no element equals exactly.
    """
    value = fold(read_text_literal(value, element, zone))
    if value.dtype == element.dtype:
        return value.expr
    if value.is_literal:
        if element.is_float and value.is_number:
            return as_float(value, element.dtype).expr
        grid, place = _grid(element.dtype), _position(element, value, zone)
        if grid is not None and place is not None:
            count = math.floor(place / grid[0])
            if count * grid[0] == place and grid[1] <= count <= grid[2]:
                return _grid_literal(element.dtype, count, grid[0])
    raise mismatch(f"{value.description}, and the elements are {element.type_name}: CAST it")
