"""CAST and TRY_CAST between the types of SQL, and the storing of a value in a column of another type.

    DECIMAL, DOUBLE -> DECIMAL       half up, away from zero: 1.005 is 1.01
    DECIMAL -> INT                   half up: 2.5 is 3
    DOUBLE -> INT                    half to even, as in DuckDB: 2.5 is 2; NaN and what is beyond the type fails
    STRING -> INT                    '12', '1.5' (2), '1e2'; another text fails
    DOUBLE -> STRING                 '0.1', '1e-05', '1e+16', 'nan', 'inf'
    STRING -> DATE, TIMESTAMP        '2024-03-31', '2024-03-31 12:00:00.5'
    TIMESTAMP -> TIMESTAMP(3)        half away from 1970: 12:00:00.0005 is 12:00:00.001
    DATE -> TIMESTAMP, TIMESTAMP -> DATE, TIME -> STRING, …

What fails is NULL to TRY_CAST. Pairs of types that are not named here are refused by name.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

import polars as pl

from lakekit.expressions.numeric_promotion import as_float
from lakekit.expressions.time_literals import NS_OF_UNIT, as_timestamp, round_time, text_as_moment
from lakekit.expressions.typed_expression import (
    MAX_PRECISION,
    TranslationRefusal,
    TypedExpression,
    mismatch,
    null_literal,
    sql_name,
    typed_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_BOOLEAN_TEXTS = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}
_INTEGER_TEXT = r"^[+-]?[0-9]+$"
_DAY_FORMAT = "%Y-%m-%d"
_CLOCK_FORMATS = ("%H:%M:%S%.f", "%H:%M")
_BLANKS = " \t\n\r\f\v"


def cast(value: TypedExpression, dtype: pl.DataType, zone: str, *, is_strict: bool = True) -> TypedExpression:
    """Return a value cast to a type; where not `is_strict`, NULL for what does not fit.

    Raises: `TranslationRefusal` for a pair of types that is not cast.
    """
    if value.is_null or value.literal is None:
        return null_literal(dtype)
    if value.dtype == dtype:
        return value
    if value.is_text and isinstance(dtype, pl.Datetime) and dtype.time_unit == "ms":  # rounded, and no digits cut off
        value = cast(value, pl.Datetime("us", dtype.time_zone), zone, is_strict=is_strict)
    if isinstance(value.literal, str) and is_strict and isinstance(dtype, (pl.Date, pl.Datetime, pl.Time)):
        return text_as_moment(value.literal, dtype, zone)
    if isinstance(dtype, pl.Binary) and isinstance(value.literal, str):
        return _text_as_bytes(value.literal)
    result = _cast(value, dtype, zone, is_strict)
    if result is None:
        raise TranslationRefusal(f"CAST from {value.type_name} to {sql_name(dtype)} is not supported")
    return typed_value(result, dtype, value)


def _text_as_bytes(text: str) -> TypedExpression:
    r"""Return a text literal as bytes: letters of ASCII, others as \xAA."""
    if not text.isascii():
        raise mismatch("a text is cast to bytes if its letters are ASCII; others are written \\xAA")
    pieces = re.split(r"\\x([0-9A-Fa-f]{2})", text)
    if any("\\" in piece for piece in pieces[::2]):
        raise mismatch("a backslash in a text that is cast to bytes begins \\xAA")
    value = b"".join(bytes.fromhex(piece) if at % 2 else piece.encode() for at, piece in enumerate(pieces))
    return typed_value(pl.lit(value, pl.Binary()), pl.Binary())


def _cast(value: TypedExpression, dtype: pl.DataType, zone: str, is_strict: bool) -> pl.Expr | None:
    if isinstance(dtype, pl.String):
        return _to_text(value, zone)
    if value.is_text:
        return _from_text(value.expr, dtype, zone, is_strict)
    if isinstance(dtype, pl.Boolean):
        return value.expr != 0 if value.is_number else None
    if value.dtype == pl.Boolean():
        bit = typed_value(value.expr.cast(pl.Int8()), pl.Int8(), value)
        return _number_to_number(bit, dtype, is_strict) if dtype.is_numeric() else None
    if value.is_number and dtype.is_numeric():
        return _number_to_number(value, dtype, is_strict)
    if value.is_moment and isinstance(dtype, pl.Datetime):
        return as_timestamp(round_time(value, NS_OF_UNIT[dtype.time_unit]), dtype, zone).expr
    if value.is_moment and isinstance(dtype, (pl.Date, pl.Time)):
        if isinstance(dtype, pl.Time) and (isinstance(value.dtype, pl.Date) or value.dtype.time_zone is not None):  # type: ignore[attr-defined]
            return None
        value = round_time(value, NS_OF_UNIT["us"])
        local = value if isinstance(value.dtype, pl.Date) else as_timestamp(value, _local(value.dtype), zone)
        return local.expr.dt.date() if isinstance(dtype, pl.Date) else local.expr.dt.time()
    return None


def cast_to_seconds(value: TypedExpression, dtype: pl.Datetime, zone: str, *, is_strict: bool) -> TypedExpression:
    """Return a value cast to TIMESTAMP(0), whose dtype has milliseconds."""
    moment = value if value.is_moment else cast(value, pl.Datetime("us", dtype.time_zone), zone, is_strict=is_strict)
    return cast(round_time(moment, 1_000_000_000), dtype, zone, is_strict=is_strict)


def _local(dtype: pl.DataType) -> pl.Datetime:
    assert isinstance(dtype, pl.Datetime)
    return pl.Datetime(dtype.time_unit)


def _to_text(value: TypedExpression, zone: str) -> pl.Expr | None:
    if value.is_integer or value.is_decimal or value.dtype in (pl.Boolean(), pl.Date()):
        return value.expr.cast(pl.String())
    if value.is_float:
        return _float_to_text(value)
    if isinstance(value.dtype, pl.Datetime):
        is_local = value.dtype.time_zone is None
        moment = value.expr if is_local else value.expr.dt.convert_time_zone(zone)
        text = _without_zeros(moment.dt.to_string("%Y-%m-%d %H:%M:%S%.f"))
        return text if is_local else text + moment.dt.to_string("%:z").str.strip_suffix(":00")
    if isinstance(value.dtype, pl.Time):
        return _without_zeros(value.expr.dt.to_string("%H:%M:%S%.f"))
    return None


def _float_to_text(value: TypedExpression) -> pl.Expr:
    """Return the shortest texts that are read as the same numbers: 0.1, 1e-05 and below, 1e+16 and above, nan, inf."""
    text = value.expr.cast(pl.String())
    if isinstance(value.dtype, pl.Float32):  # Polars begins to write exponents elsewhere for FLOAT
        text = text.cast(pl.Float64()).cast(pl.String())
    text = text.str.replace(r"^(-?)0\.0000([1-9])$", "${1}${2}e-5").str.replace(
        r"^(-?)0\.0000([1-9])(\d+)$", "${1}${2}.${3}e-5"
    )
    return text.str.replace(r"e-(\d)$", "e-0${1}").str.replace("NaN", "nan", literal=True)


def _without_zeros(text: pl.Expr) -> pl.Expr:
    """Return the texts of times without zeros at the end of their fractions."""
    return text.str.replace(r"(\.\d*?)0+$", "${1}").str.strip_suffix(".")


# ---- numbers ----


def _number_to_number(value: TypedExpression, dtype: pl.DataType, is_strict: bool) -> pl.Expr:
    if isinstance(dtype, pl.Decimal):
        return to_decimal(value, dtype, is_strict=is_strict)
    if dtype.is_float():
        number = as_float(value, pl.Float64()).expr if value.is_decimal else value.expr
        return _to_single(number, is_strict) if isinstance(dtype, pl.Float32) else number.cast(dtype)
    if value.is_decimal:
        return round_half_up(value.expr, 0).cast(pl.Int128(), strict=is_strict).cast(dtype, strict=is_strict)
    if value.is_float:
        return value.expr.round(0, mode="half_to_even").cast(dtype, strict=is_strict)
    return value.expr.cast(dtype, strict=is_strict)


def _to_single(number: pl.Expr, is_strict: bool) -> pl.Expr:
    """Return numbers as FLOAT; one that is finite and beyond FLOAT fails."""
    single = number.cast(pl.Float32())
    is_beyond = single.is_infinite() & ~number.cast(pl.Float64()).is_infinite()
    kept = pl.when(~is_beyond).then(single)
    return _or_fail(kept, pl.when(is_beyond).then(number.cast(pl.String())), pl.Float32()) if is_strict else kept


def round_half_up(number: pl.Expr, scale: int) -> pl.Expr:
    """Return DECIMALs with so many digits after the point, half away from zero."""
    return number.round(scale, mode="half_away_from_zero")


def to_decimal(value: TypedExpression, dtype: pl.Decimal, *, is_strict: bool = True) -> pl.Expr:
    """Return numbers as a DECIMAL, half away from zero; where not `is_strict`, NULL for what has too many digits."""
    scale = dtype.scale
    if value.is_float:
        scaled = (value.expr.cast(pl.Float64()) * float(10**scale)).round(0, mode="half_away_from_zero")
        whole = scaled.cast(pl.Int128(), strict=is_strict).cast(pl.Decimal(MAX_PRECISION, 0), strict=is_strict)
        if scale:  # the product has the digits after the point of the side that has more
            step = Decimal((0, (1,), -scale))
            return (whole * pl.lit(step, pl.Decimal(MAX_PRECISION, scale))).cast(dtype, strict=is_strict)
        return whole.cast(dtype, strict=is_strict)
    if value.is_decimal and value.digits[1] > scale:
        return round_half_up(value.expr, scale).cast(dtype, strict=is_strict)
    return value.expr.cast(dtype, strict=is_strict)


# ---- texts ----


def _or_fail(result: pl.Expr, wrong: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return the result; computing fails where `wrong`, a text, is not null, with the text in the error.

    Polars has no expression that fails but a strict cast of a text that is no number.
    """
    return pl.coalesce(result, pl.concat_str([pl.lit("not castable: "), wrong]).cast(pl.Int8()).cast(dtype))


def _from_text(text: pl.Expr, dtype: pl.DataType, zone: str, is_strict: bool) -> pl.Expr | None:
    plain = text.str.strip_chars(_BLANKS)
    parse = _text_parser(dtype, zone)
    if parse is None:
        return None
    result = parse(plain)
    if not is_strict:
        return result
    wrong = pl.when(result.is_null() & text.is_not_null()).then(text)
    if isinstance(dtype, pl.Datetime | pl.Date | pl.Time | pl.Boolean | pl.Decimal):
        return pl.when(_fails(wrong)).then(None).otherwise(result)
    return _or_fail(result, wrong, dtype)


def _fails(wrong: pl.Expr) -> pl.Expr:
    """Return false; computing fails where `wrong`, a text, is not null."""
    return pl.concat_str([pl.lit("not castable: "), wrong]).cast(pl.Int8()).is_not_null()


def _text_parser(dtype: pl.DataType, zone: str) -> Callable[[pl.Expr], pl.Expr] | None:
    """Return what makes values of stripped texts, NULL where a text is none; None for a type without."""
    if isinstance(dtype, pl.Boolean):
        return lambda text: text.str.to_lowercase().replace_strict(
            _BOOLEAN_TEXTS, default=None, return_dtype=pl.Boolean()
        )
    if dtype.is_integer():
        return lambda text: _text_to_integer(text, dtype)
    if isinstance(dtype, pl.Decimal):
        return lambda text: text.cast(dtype, strict=False)
    if isinstance(dtype, pl.Float64):
        return lambda text: text.cast(pl.Float64(), strict=False)
    if isinstance(dtype, pl.Float32):
        return lambda text: _to_single(text.cast(pl.Float64(), strict=False), is_strict=False)
    if isinstance(dtype, pl.Date):
        return lambda text: text.str.extract(r"^(\d+-\d+-\d+)(?:[ T].*)?$").str.to_date(_DAY_FORMAT, strict=False)
    if isinstance(dtype, pl.Time):
        return _text_to_time
    if isinstance(dtype, pl.Datetime):
        return lambda text: _text_to_timestamp(text, dtype, zone)
    return None


def _text_to_integer(text: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return whole numbers of texts; one with a point is rounded half up, one with an exponent computed."""
    is_whole = text.str.contains(_INTEGER_TEXT)
    whole = pl.when(is_whole).then(text).cast(dtype, strict=False)
    decimal = pl.when(~is_whole).then(text).cast(pl.Decimal(MAX_PRECISION, 10), strict=False)
    rounded = round_half_up(decimal, 0).cast(pl.Int128(), strict=False).cast(dtype, strict=False)
    return pl.coalesce(whole, rounded)


def _text_to_time(text: pl.Expr) -> pl.Expr:
    """Return times of day of texts; a day before it is left out, and alone is midnight."""
    clock = text.str.replace(r"^\d+-\d+-\d+$", "00:00").str.replace(r"^\d+-\d+-\d+[ T]", "")
    return pl.coalesce(clock.str.to_time(form, strict=False) for form in _CLOCK_FORMATS)


def _text_to_timestamp(text: pl.Expr, dtype: pl.Datetime, zone: str) -> pl.Expr:
    unit = dtype.time_unit
    plain = text.str.replace("T", " ")
    forms = [f"{_DAY_FORMAT} {clock}" for clock in _CLOCK_FORMATS]
    parsed = pl.coalesce(
        *(plain.str.to_datetime(form, strict=False, time_unit=unit) for form in forms),
        plain.str.to_date(_DAY_FORMAT, strict=False).cast(pl.Datetime(unit)),
    )
    if dtype.time_zone is None:
        return parsed
    return parsed.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null").dt.convert_time_zone("UTC")


# ---- storing ----


def assigned_value(value: TypedExpression, dtype: pl.DataType, zone: str) -> TypedExpression:
    """Return a value for a column of a type, as UPDATE, MERGE and INSERT store it.

        DECIMAL into DECIMAL      half up; digits before the point are looked at when it is written
        DECIMAL, INT into DOUBLE  the nearest one                     INT into STRING      its digits
        a time text               as the column's type                TIMESTAMP into DATE  its day

    What is left in another type is converted when it is written, by value, or refused there.

    Raises: `TranslationRefusal` for a text that is no time of the column's type.
    """
    if value.is_null or value.literal is None:
        return null_literal(dtype)
    if value.dtype == dtype:
        return value
    if isinstance(value.literal, str) and isinstance(dtype, (pl.Date, pl.Datetime, pl.Time)):
        return text_as_moment(value.literal, dtype, zone)
    if isinstance(dtype, pl.Decimal) and value.is_number:
        wide = pl.Decimal(MAX_PRECISION, dtype.scale)
        return typed_value(to_decimal(value, wide), wide, value)
    if dtype.is_float() and value.is_number:
        is_single = isinstance(dtype, pl.Float32)
        if is_single and isinstance(value.dtype, pl.Float64) and not value.is_literal:
            return value  # written where it is exact
        return cast(value, dtype, zone)
    if isinstance(dtype, pl.String) and value.is_integer:
        return cast(value, dtype, zone)
    if value.is_moment and isinstance(dtype, (pl.Date, pl.Datetime)):
        if isinstance(dtype, pl.Date) or value.is_constant:
            return cast(value, dtype, zone)
        own = value.dtype.time_unit if isinstance(value.dtype, pl.Datetime) else "us"
        target = pl.Datetime(own, dtype.time_zone)  # a finer time is held against the column when it is written
        return as_timestamp(value, target, zone)
    if value.is_literal and value.is_integer and dtype.is_integer():
        return value
    if value.is_text and isinstance(dtype, (pl.Date, pl.Datetime, pl.Time)):
        raise mismatch(f"{value.description}, and the column is {sql_name(dtype)}: CAST it")
    return value
