"""Typed expressions: a Polars expression with its type, and what is known of its values.

    column a INT      ->   TypedExpression(col("a"), Int32, low=-2147483648, high=2147483647)
    2.50              ->   TypedExpression(lit(…), Decimal(3, 2), literal=Decimal("2.50"))
    a * 3             ->   TypedExpression(…, Int64, low=-6442450944, high=6442450941)

The translator asks Polars for no type: each function of the table computes the type of its result. `low` and `high`
bound the values of a whole number; by them sums are computed in BIGINT or, where they need it, in 128 bits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from lakekit.errors import InvalidOption, SchemaMismatch
from lakekit.format.polars_types import VARIANT_DTYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from decimal import Decimal

    from lakekit.errors import LakekitError
    from lakekit.expressions.parser import SqlText

MAX_PRECISION: Final = 38
"""The greatest precision of a DECIMAL."""
_INTEGER_BITS: dict[type[pl.DataType], int] = {pl.Int8: 8, pl.Int16: 16, pl.Int32: 32, pl.Int64: 64, pl.Int128: 128}
_UNSIGNED_BITS: dict[type[pl.DataType], int] = {pl.UInt8: 8, pl.UInt16: 16, pl.UInt32: 32, pl.UInt64: 64}
_NAMES: dict[type[pl.DataType], str] = {
    pl.Boolean: "BOOLEAN",
    pl.Int8: "TINYINT",
    pl.Int16: "SMALLINT",
    pl.Int32: "INT",
    pl.Int64: "BIGINT",
    pl.Int128: "HUGEINT",
    pl.Float32: "FLOAT",
    pl.Float64: "DOUBLE",
    pl.String: "STRING",
    pl.Binary: "BYTES",
    pl.Date: "DATE",
    pl.Time: "TIME",
    pl.Duration: "INTERVAL",
    pl.List: "ARRAY",
    pl.Struct: "ROW",
    pl.Null: "NULL",
}


_NOT_COMPUTED = re.compile(r'"not computed: ([^"\]]{0,120})')
_UNFIT_VALUE = re.compile(
    r'(?:"not castable: |conversion from `(?:[iuf]\d+|decimal[^`]*)` to `[^`]*` failed[^\[]* values: \[)([^"\],]{0,60})'
)
"""What Polars says where `type_casts` made a cast fail, or a number is beyond the type that it is cast to."""


class _NoLiteral:
    """The type of `NO_LITERAL`."""


NO_LITERAL: Final = _NoLiteral()
"""The literal of what is no literal; None is that of NULL."""


class TranslationRefusal(Exception):
    """What cannot be translated, before its place in the text is known.

    `kind`: the error that it becomes, `SqlError` by default. `position`: an offset of the text.
    """

    def __init__(self, problem: str, kind: type[LakekitError] = InvalidOption) -> None:
        super().__init__(problem)
        self.problem, self.kind = problem, kind
        self.position: int | None = None


def mismatch(problem: str) -> TranslationRefusal:
    """Return the refusal of values whose types do not meet; it becomes `SchemaMismatch`."""
    return TranslationRefusal(problem, SchemaMismatch)


@dataclass(frozen=True, slots=True)
class TypedExpression:
    """A Polars expression, its type and what is known of its values.

    `literal`: the value of a literal; times are counts of nanoseconds. `is_constant`: no column is in it. `name`: how
    errors call it.
    """

    expr: pl.Expr
    dtype: pl.DataType
    literal: Any = NO_LITERAL
    is_constant: bool = False
    low: int = 0
    high: int = 0
    name: str = field(default="", compare=False)

    @property
    def is_literal(self) -> bool:
        """Whether it is a literal, NULL among them."""
        return self.literal is not NO_LITERAL

    @property
    def is_null(self) -> bool:
        """Whether it is NULL of no type."""
        return isinstance(self.dtype, pl.Null)

    @property
    def is_integer(self) -> bool:
        """Whether the type is that of whole numbers."""
        return self.dtype.is_integer()

    @property
    def is_decimal(self) -> bool:
        """Whether the type is DECIMAL."""
        return isinstance(self.dtype, pl.Decimal)

    @property
    def is_float(self) -> bool:
        """Whether the type is FLOAT or DOUBLE."""
        return self.dtype.is_float()

    @property
    def is_number(self) -> bool:
        """Whether the type is that of a number."""
        return self.dtype.is_numeric()

    @property
    def is_text(self) -> bool:
        """Whether the type is that of texts."""
        return isinstance(self.dtype, pl.String)

    @property
    def is_moment(self) -> bool:
        """Whether the type is DATE or TIMESTAMP, with a zone or without."""
        return isinstance(self.dtype, (pl.Date, pl.Datetime))

    @property
    def type_name(self) -> str:
        """The SQL name of the type."""
        return sql_name(self.dtype)

    @property
    def description(self) -> str:
        """How an error calls the value: its text and its type."""
        return f"{self.name or 'a value'} is {self.type_name}"

    @property
    def digits(self) -> tuple[int, int]:
        """The precision and the scale of a whole number or a DECIMAL."""
        if isinstance(self.dtype, pl.Decimal):
            return self.dtype.precision or MAX_PRECISION, self.dtype.scale
        return min(max(len(str(abs(self.low))), len(str(abs(self.high)))), MAX_PRECISION), 0

    def to(self, dtype: pl.DataType) -> TypedExpression:
        """Return the value cast to a type that holds it."""
        if self.dtype == dtype:
            return self
        if self.is_null:
            return TypedExpression(pl.lit(None, dtype), dtype, None, is_constant=True, name=self.name)
        is_held = self.is_integer and not isinstance(dtype, pl.Decimal)  # Polars need not look at the values
        if isinstance(self.literal, int) and dtype.is_integer():
            return TypedExpression(
                pl.lit(self.literal, dtype), dtype, self.literal, is_constant=True, low=self.low, high=self.high
            )
        kept = self.literal if self.is_literal and not isinstance(self.literal, (str, bool)) else NO_LITERAL
        return TypedExpression(
            self.expr.cast(dtype, strict=not is_held),
            dtype,
            kept,
            is_constant=self.is_constant,
            low=self.low,
            high=self.high,
            name=self.name,
        )


def typed_value(expr: pl.Expr, dtype: pl.DataType, *sources: TypedExpression) -> TypedExpression:
    """Return a value of a type, computed from others."""
    low, high = integer_bounds(dtype)
    return TypedExpression(expr, dtype, is_constant=all(source.is_constant for source in sources), low=low, high=high)


def bounded_integer(
    expr: pl.Expr, dtype: pl.DataType, low: int, high: int, *sources: TypedExpression
) -> TypedExpression:
    """Return a whole number between two bounds, computed from others."""
    return TypedExpression(expr, dtype, is_constant=all(source.is_constant for source in sources), low=low, high=high)


def failure_of(text: str) -> str | None:
    """Return what failed, by Polars' error about `fails_where`, a CAST or 128 bits; None for another error."""
    if (what := _NOT_COMPUTED.search(text)) is not None:
        return what[1]
    if "overflow in decimal" in text:
        return "a DECIMAL has more than 38 digits"
    value = _UNFIT_VALUE.search(text)
    return None if value is None else f"{value[1]} does not fit the type that it is cast to"


def fails_where(is_wrong: pl.Expr, what: str) -> pl.Expr:
    """Return an expression that is true nowhere; computing it fails where `is_wrong` is true, with `what` in the error.

    Polars has no expression that fails but a strict cast of a text that is no number.
    """
    return pl.when(is_wrong).then(pl.lit(f"not computed: {what}")).cast(pl.Int8()).is_not_null()


def integer_literal(value: int) -> TypedExpression:
    """Return the literal of a whole number: INT, BIGINT or 128 bits, by its value.

    Raises: `TranslationRefusal` for more digits than 128 bits hold.
    """
    dtype = integer_type(value, value, least=pl.Int32())
    if dtype is None:
        raise mismatch(f"{value} is beyond the whole numbers of 128 bits")
    return TypedExpression(pl.lit(value, dtype), dtype, value, is_constant=True, low=value, high=value)


def decimal_literal(value: Decimal) -> TypedExpression:
    """Return the DECIMAL literal of a value, with the precision and scale that it is written with.

    Raises: `TranslationRefusal` for more digits than a DECIMAL has.
    """
    _, written, exponent = value.as_tuple()
    scale = -int(exponent)
    precision = max(len(written), scale, 1)
    if precision > MAX_PRECISION:
        raise mismatch(f"{value} has more digits than a DECIMAL holds")
    dtype = pl.Decimal(precision, scale)
    return TypedExpression(pl.lit(value, dtype), dtype, value, is_constant=True)


def double_literal(value: float) -> TypedExpression:
    """Return the DOUBLE literal of a value."""
    return TypedExpression(pl.lit(value, pl.Float64()), pl.Float64(), value, is_constant=True)


def text_literal(value: str) -> TypedExpression:
    """Return the literal of a text."""
    return TypedExpression(pl.lit(value, pl.String()), pl.String(), value, is_constant=True)


def boolean_literal(value: bool) -> TypedExpression:
    """Return the literal of a truth value."""
    return TypedExpression(pl.lit(value), pl.Boolean(), value, is_constant=True)


def null_literal(dtype: pl.DataType | None = None) -> TypedExpression:
    """Return NULL, of a type or of none."""
    own = pl.Null() if dtype is None else dtype
    return TypedExpression(pl.lit(None, own), own, None, is_constant=True)


def integer_type(low: int, high: int, *, least: pl.DataType | None = None) -> pl.DataType | None:
    """Return the smallest type of whole numbers, from `least` or BIGINT on, that holds both bounds; None if none."""
    for dtype in (pl.Int32(), pl.Int64(), pl.Int128()):
        bits = _INTEGER_BITS[type(dtype)]
        if bits < _INTEGER_BITS[type(least or pl.Int64())]:
            continue
        if -(1 << bits - 1) <= low and high < 1 << bits - 1:
            return dtype
    return None


def integer_bounds(dtype: pl.DataType) -> tuple[int, int]:
    """Return the least and the greatest value of a type of whole numbers; zeros for another type."""
    if (bits := _INTEGER_BITS.get(type(dtype))) is not None:
        return -(1 << bits - 1), (1 << bits - 1) - 1
    if (bits := _UNSIGNED_BITS.get(type(dtype))) is not None:
        return 0, (1 << bits) - 1
    return 0, 0


def sql_name(dtype: pl.DataType) -> str:
    """Return the SQL name of a type."""
    if isinstance(dtype, pl.Decimal):
        return f"DECIMAL({dtype.precision}, {dtype.scale})"
    if isinstance(dtype, pl.Datetime):
        digits = {"ms": 3, "us": 6, "ns": 9}[dtype.time_unit]
        return f"TIMESTAMP{'' if dtype.time_zone is None else '_LTZ'}({digits})"
    return "VARIANT" if dtype == VARIANT_DTYPE else _NAMES.get(type(dtype), str(dtype))


def with_name(value: TypedExpression, name: str) -> TypedExpression:
    """Return a value under another name, which is no constant."""
    return TypedExpression(value.expr, value.dtype, low=value.low, high=value.high, name=name)


def join_in_pairs(exprs: Sequence[pl.Expr], combine: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> pl.Expr:
    """Return conditions joined in pairs."""
    joined = list(exprs)
    while len(joined) > 1:
        pairs = (joined[at : at + 2] for at in range(0, len(joined), 2))
        joined = [pair[0] if len(pair) == 1 else combine(pair[0], pair[1]) for pair in pairs]
    return joined[0]


def located_error(source: SqlText, position: int, refusal: TranslationRefusal) -> Exception:
    """Return the error of a refusal, with line, column and caret."""
    error = source.error(position if refusal.position is None else refusal.position, refusal.problem)
    if refusal.kind is InvalidOption:
        return error
    return refusal.kind(str(error))
