"""Columns of a query as a table stores them: the assignment of SQL's INSERT, which changes no value.

    DATE '2024-01-05'      into STRING          its text
    '2024-01-05'           into DATE            the day; 'x', '2024-13-05' and '2024-01-05 10:00' are refused
    '2024-01-05 10:00:00'  into TIMESTAMP(3)    the moment; one with digits that the column has not is refused
    '2.50'                 into DECIMAL(5, 1)   2.5; '2.55' is refused
    1.5                    into DOUBLE          the nearest one

What is left in another type is converted when it is written, by value, or refused there. Texts do not become whole
numbers, DOUBLE and BOOLEAN: CAST says so in the statement.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from lakekit.columns import col, instance, struct_field
from lakekit.errors import ValueOutOfRange
from lakekit.format.polars_types import polars_type
from lakekit.options.redaction import excerpt
from lakekit.sql.query_frame import UNNAMED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakekit.types import Field

_MAX_PRECISION = 38
_MAX_QUOTED = 60
_DAY = r"(?P<day>\d{4}-\d{1,2}-\d{1,2})"
_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?)?"
_ZONE = r"(?P<zone>[zZ]|[+-]\d{2}(?::?\d{2})?)"
_DATE = rf"^\s*{_DAY}(?:(?:[ T]|\s+)0{{1,2}}:00(?::00(?:\.0+)?)?)?\s*$"
_TIME = rf"^\s*{_CLOCK}\s*$"
_MOMENT = rf"^\s*{_DAY}(?:(?:[ T]|\s+){_CLOCK}\s*{_ZONE}?)?\s*$"
_DECIMAL = r"^\s*(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))\s*$"
_MOMENT_FORMAT = "%Y-%m-%d %H:%M:%S%.f"
_MICRO_DIGITS = 6
_MAX_NS_MICROS = (1 << 63) // 1000 - 86_400_000_000
"""The microseconds from 1970 within which nanoseconds hold a moment of any zone."""


def store_column(name: str, dtype: pl.DataType, field: Field | None, zone: str) -> pl.Expr:
    """Return a column of a query as the table stores it, under the table's name; None: as it is.

    Texts without a zone are moments of `zone`. Computing raises `ValueOutOfRange` for a text that the type cannot hold.
    """
    column = col(name)
    if field is None:
        return column
    to = polars_type(field.type)
    if isinstance(dtype, pl.String) and (text_format := _text_format(to)) is not None:
        parse = partial(_parse_texts, field=field, text_format=text_format, zone=zone)
        return column.map_batches(parse, return_dtype=text_format.stored_type, is_elementwise=True).alias(field.name)
    is_fraction = isinstance(dtype, pl.Decimal) and to.is_float()
    is_moment = isinstance(to, pl.Datetime) and isinstance(dtype, pl.Date)
    is_text = isinstance(to, pl.String) and (dtype.is_numeric() or dtype.is_temporal() or isinstance(dtype, pl.Boolean))
    column = _with_field_names(column, dtype, to)
    return (column.cast(to) if is_fraction or is_moment or is_text else column).alias(field.name)


# ---- texts ---------------------------------------------------------------------------------------


def store_texts(frame: pl.DataFrame, fields: Iterable[Field], zone: str) -> pl.DataFrame:
    """Return rows with values in place of the texts in columns of DATE, TIME, TIMESTAMP and DECIMAL.

    Texts without a zone are moments of `zone`.

    Raises: `ValueOutOfRange` for a text that is no value of its column.
    """
    return frame.with_columns(
        store_column(field.name, frame.schema[field.name], field, zone)
        for field in fields
        if isinstance(frame.schema.get(field.name), pl.String) and _text_format(polars_type(field.type)) is not None
    )


class _TextFormat(NamedTuple):
    """The texts of a type: the pattern that they have, an example, and the type of the parsed values."""

    pattern: str
    example: str
    stored_type: pl.DataType


def _text_format(dtype: pl.DataType) -> _TextFormat | None:
    """Return the format of the texts that become values of a type; None for a type into which no text goes."""
    if isinstance(dtype, pl.Date):
        return _TextFormat(_DATE, "'2024-03-31'", dtype)
    if isinstance(dtype, pl.Time):
        return _TextFormat(_TIME, "'12:30:00'", dtype)
    if isinstance(dtype, pl.Datetime):  # a finer text is held against the column when it is written
        stored = dtype if dtype.time_unit == "ns" else pl.Datetime("us", dtype.time_zone)
        return _TextFormat(_MOMENT, "'2024-03-31 12:00:00'", stored)
    if isinstance(dtype, pl.Decimal):
        return _TextFormat(_DECIMAL, "'2.50'", pl.Decimal(_MAX_PRECISION, dtype.scale))
    return None


def _parse_texts(texts: pl.Series, *, field: Field, text_format: _TextFormat, zone: str) -> pl.Series:
    """Return the values of a column of texts. Raises `ValueOutOfRange` for a text that is no value of the type."""
    parts = texts.str.extract_groups(text_format.pattern).struct.unnest()
    parsed = parts.select(_value_of_parts(text_format.stored_type, zone)).to_series()
    wrong = texts.filter(parsed.is_null() & texts.is_not_null())
    if len(wrong):
        quoted = excerpt(repr(wrong[0][:_MAX_QUOTED]))
        raise ValueOutOfRange(
            f"column {field.name}: {quoted} is no {field.type.as_nullable()}, which takes texts such as "
            f"{text_format.example}; no digit is dropped",
            column=field.name,
        )
    return parsed


def _value_of_parts(dtype: pl.DataType, zone: str) -> pl.Expr:
    """Return the value of a text's parts, of which those that are not there are null."""
    if isinstance(dtype, pl.Date):
        return col("day").str.to_date("%Y-%m-%d", strict=False)
    if isinstance(dtype, pl.Decimal):
        return _decimal_of_parts(dtype)
    clock = pl.concat_str(
        [
            col("hour").fill_null("0").str.zfill(2),
            pl.lit(":"),
            col("minute").fill_null("00"),
            pl.lit(":"),
            col("second").fill_null("00"),
            pl.lit("."),
            col("fraction").fill_null("0").str.pad_end(9, "0"),
        ]
    )
    if isinstance(dtype, pl.Time):
        return pl.when(col("hour").is_not_null()).then(clock).str.to_time("%H:%M:%S%.f", strict=False)
    assert isinstance(dtype, pl.Datetime)
    text = pl.concat_str([col("day"), pl.lit(" "), clock])
    plain = text.str.to_datetime(_MOMENT_FORMAT, strict=False, time_unit=dtype.time_unit)
    if dtype.time_unit == "us":
        digits = col("fraction").str.strip_chars_end("0").str.len_chars().fill_null(0)
        plain = pl.when(digits <= _MICRO_DIGITS).then(plain)
    else:  # Polars wraps what nanoseconds do not hold
        micros = text.str.to_datetime(_MOMENT_FORMAT, strict=False, time_unit="us").to_physical()
        plain = pl.when(micros.is_between(-_MAX_NS_MICROS, _MAX_NS_MICROS)).then(plain)
    if dtype.time_zone is None:
        return pl.when(col("zone").is_null()).then(plain)
    local = plain.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null").dt.convert_time_zone("UTC")
    return pl.when(col("zone").is_null()).then(local).otherwise(plain.dt.replace_time_zone("UTC") - _offset())


def _offset() -> pl.Expr:
    """Return the offset of a zone such as +02, +02:30 or Z; null for none between -18:00 and +18:00."""
    digits = col("zone").str.replace_all(r"[^0-9]", "").str.pad_end(4, "0")
    hours, minutes = digits.str.slice(0, 2).cast(pl.Int64()), digits.str.slice(2, 2).cast(pl.Int64())
    total = (hours * 60 + minutes) * pl.when(col("zone").str.starts_with("-")).then(-1).otherwise(1)
    return pl.duration(minutes=pl.when((hours <= 18) & (minutes < 60)).then(total))


def _decimal_of_parts(dtype: pl.Decimal) -> pl.Expr:
    number = col("number")
    part = number.str.extract(r"\.(\d*?)0*$").fill_null("")
    text = pl.concat_str([number.str.extract(r"^[+]?(-?\d*)"), pl.lit("."), part.str.pad_end(1, "0")])
    return pl.when(part.str.len_chars() <= dtype.scale).then(text).cast(dtype, strict=False)


# ---- rows ----------------------------------------------------------------------------------------


def _with_field_names(column: pl.Expr, dtype: pl.DataType, to: pl.DataType) -> pl.Expr:
    """Return a column with the table's names for fields to which a query gave none."""
    match dtype, to:
        case pl.List(), pl.List() if _has_unnamed(dtype):
            inner_column = _with_field_names(pl.element(), instance(dtype.inner), instance(to.inner))
            return column.list.eval(inner_column)
        case pl.Struct(), pl.Struct() if _has_unnamed(dtype) and len(dtype.fields) == len(to.fields):
            targets = dict(zip(dtype.fields, to.fields, strict=True))
            if not _is_unnamed(dtype):
                by_name = {other.name: other for other in to.fields}
                targets = {own: by_name.get(own.name, own) for own in dtype.fields}
            fields = [
                _with_field_names(struct_field(column, own.name), instance(own.dtype), instance(other.dtype)).alias(
                    other.name
                )
                for own, other in targets.items()
            ]
            return pl.when(column.is_not_null()).then(pl.struct(fields))
    return column


def _is_unnamed(dtype: pl.Struct) -> bool:
    return all(own.name == f"{UNNAMED}{at}" for at, own in enumerate(dtype.fields, 1))


def _has_unnamed(dtype: pl.DataType) -> bool:
    """Return whether a ROW without names is in a type, at any depth."""
    if isinstance(dtype, pl.List):
        return _has_unnamed(instance(dtype.inner))
    if not isinstance(dtype, pl.Struct):
        return False
    return _is_unnamed(dtype) or any(_has_unnamed(instance(own.dtype)) for own in dtype.fields)
