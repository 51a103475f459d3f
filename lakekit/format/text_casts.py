"""Numbers, booleans, bytes, dates and times from text, and numbers as text, as Java does, by column.

    "1.9" -> INT 1     " 12 " -> DOUBLE 12.0     "1e3" -> DECIMAL 1000     "yes" -> BOOLEAN true
    "2024-2-9" -> DATE     "7" -> DATE 1970-01-08
    10000000000.0 -> "1.0E10"     0.001 -> "0.001"     1e-4 -> "1.0E-4"     1e7 -> "1.0E7"
    -0.0 -> "-0.0"     NaN, Infinity, -Infinity

Text that is not a value of the type raises `ValueOutOfRange` with the column and the first such text. Not read, though
Java does: hexadecimal floats, and a time of day with a zone. Decimals are computed on unscaled integers, as in Java's
BigDecimal. Numbers are printed as by Float.toString and Double.toString of Java 8 to 18: with the shortest digits that
identify the value, except in three cases. Whole numbers too large for the mantissa get more digits (2^25 as a float is
3.3554432E7). Powers of two get more digits too (Float.MIN_NORMAL is 1.17549435E-38). With an exponent there are at
least two digits (4.9E-324). Not followed: a decimal exactly between two values, such as 1e23, which Java prints as
9.999999999999999E22 up to version 18 and as 1.0E23 since.

Source: `BinaryStringUtils`, `DateTimeUtils`; the Java language's description of `Double.toString`; casts recorded from
the reference (fixtures/formats/cast).
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lakekit.errors import ValueOutOfRange
from lakekit.format.polars_types import polars_type, unit_of
from lakekit.types import BINARIES, INTEGERS, MAX_LENGTH, TIMESTAMPS, DataType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from lakekit.types import Field


MAX_DIGITS = 38
TICKS_PER_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_MS = 86_400_000
_INT64_BOUND = 2**63
_CALENDAR_SECONDS = 260_000 * 31_556_952


def rescale_decimals(column: pl.Series, *, precision: int, scale: int) -> pl.Series:
    """Change precision and scale: round half up (away from zero); a value that does not fit becomes null."""
    assert isinstance(column.dtype, pl.Decimal)
    unscaled, shift = column.to_physical(), scale - column.dtype.scale
    frame = unscaled.alias("v").to_frame()
    if shift >= 0:
        room = _int128_literal(10 ** (precision - shift) if shift <= precision else 1)
        value = pl.when(pl.col("v").abs() < room).then(pl.col("v")) * _int128_literal(10 ** min(shift, MAX_DIGITS))
        value = value if shift <= precision else pl.when(pl.col("v") == 0).then(pl.col("v"))
    else:
        step = 10 ** min(-shift, MAX_DIGITS)
        value = (pl.col("v").abs() + _int128_literal(step // 2)) // _int128_literal(step) * pl.col("v").sign()
    return from_unscaled(frame.select(value).to_series(), precision=precision, scale=scale).alias(column.name)


def from_unscaled(values: pl.Series, *, precision: int, scale: int) -> pl.Series:
    """Return unscaled Int128 values as DECIMAL(precision, scale); null if they have more digits."""
    fits = (
        values.alias("v")
        .to_frame()
        .select(pl.when(pl.col("v").abs() < _int128_literal(10**precision)).then(pl.col("v")))
    )
    return fits.to_series().reinterpret(dtype=pl.Decimal(precision, scale)).alias(values.name)


def null_overflows(frame: pl.DataFrame, fields: Sequence[Field]) -> pl.DataFrame:
    """Replace values of DECIMAL columns of `fields` that have more digits than their type by null.

    Sums may have more; the reference reads null for them in ORC and Avro files.
    """
    changed = []
    for field in fields:
        column, precision, scale = frame.get_column(field.name), field.type.precision or 10, field.type.scale or 0
        if (column.to_physical().abs() >= 10**precision).any():
            changed.append(from_unscaled(column.to_physical(), precision=precision, scale=scale))
    return frame.with_columns(changed) if changed else frame


def truncate_to_integer(column: pl.Series, scale: int) -> pl.Series:
    """Return the integer part, cut off toward zero, as Int128."""
    frame = column.to_physical().alias("v").to_frame()
    return (
        frame.select(pl.col("v").abs() // _int128_literal(10**scale) * pl.col("v").sign())
        .to_series()
        .alias(column.name)
    )


def _int128_literal(value: int) -> pl.Expr:
    return pl.lit(value, pl.Int128)


# ---- text casts ------------------------------------------------------------


_TRUE_TEXTS, _FALSE_TEXTS = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_NUMBER_PATTERN = r"^([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,10}))?$"
_JAVA_BLANKS = "".join(map(chr, range(33)))
"""The characters that Java's trim removes."""
_INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


def make_parser(
    result_type: DataType, *, column: str, timestamp_unit: str | None = None, zone: str = "UTC"
) -> Callable[[pl.Series], pl.Series] | None:
    """Return a function from text to values of `result_type`; None for a type that text is not cast to."""
    if result_type.root in BINARIES:
        return lambda text: fit_bytes_length(text.cast(pl.Binary), result_type=result_type)
    if result_type.root in TIMESTAMPS:
        return partial(_parse_timestamps, result_type=result_type, column=column, unit=timestamp_unit, zone=zone)
    match result_type.root:
        case "DECIMAL":
            return partial(parse_decimals, result_type=result_type, column=column)
        case "TIME":
            return partial(_parse_times, column=column)
        case "BOOLEAN":
            return lambda text: _check_all_read(text, _parse_booleans(text), result_type, column)
        case "DATE":
            return lambda text: _check_all_read(text, _parse_dates(text), result_type, column)
        case "FLOAT" | "DOUBLE":
            return lambda text: _check_all_read(text, parse_floats(text, result_type=result_type), result_type, column)
        case root if root in INTEGERS:
            return lambda text: _check_all_read(
                text, _parse_integers(text, result_type=result_type), result_type, column
            )
    return None


def make_tolerant_parser(
    result_type: DataType, *, column: str, timestamp_unit: str | None = None, zone: str = "UTC"
) -> Callable[[pl.Series], pl.Series]:
    """Return a parser of DATE, TIME, TIMESTAMP or DECIMAL that returns null for text it cannot parse."""
    match result_type.root:
        case "DECIMAL":
            return partial(parse_decimals, result_type=result_type, column=column, strict=False)
        case "TIME":
            return partial(_parse_times, column=column, strict=False)
        case "DATE":
            return _parse_dates
    return partial(
        _parse_timestamps, result_type=result_type, column=column, unit=timestamp_unit, zone=zone, strict=False
    )


def is_number_text(text: pl.Series) -> pl.Series:
    """Return which texts are numbers, whether or not they fit a type."""
    return text.str.contains(_NUMBER_PATTERN) & text.str.contains(r"^[+-]?\.?[0-9]")


def _check_all_read(text: pl.Series, values: pl.Series, result_type: DataType, column: str) -> pl.Series:
    is_unread = values.is_null() & text.is_not_null()
    if is_unread.any():
        raise unreadable_text(text.filter(is_unread)[0], result_type, column)
    return values


def unreadable_text(text: str, result_type: DataType, column: str) -> ValueOutOfRange:
    """Return the error for text that cannot be cast."""
    excerpt = text if len(text) <= 60 else text[:60] + "…"
    msg = f"column {column} became {result_type}, but an old file holds the text {excerpt!r}"
    return ValueOutOfRange(f"{msg}, which says no {result_type.root}", column=column)


def _evaluate(text: pl.Series, expr: pl.Expr) -> pl.Series:
    return text.alias("text").to_frame().select(expr).to_series().alias(text.name)


def _parse_booleans(text: pl.Series) -> pl.Series:
    lower = pl.col("text").str.to_lowercase()
    return _evaluate(
        text,
        pl.when(lower.is_in(_TRUE_TEXTS))
        .then(pl.lit(value=True))
        .when(lower.is_in(_FALSE_TEXTS))
        .then(pl.lit(value=False)),
    )


def _parse_integers(text: pl.Series, *, result_type: DataType) -> pl.Series:
    """Parse a sign, digits, and digits behind a point, which are ignored; no blanks, no exponent."""
    integer_part = pl.col("text").str.extract(r"^([+-]?\d*)(?:\.\d*)?$", 1)
    at_least = pl.when(integer_part.is_in(["", "+", "-"]) & pl.col("text").str.contains(".", literal=True)).then(
        pl.lit("0")
    )
    value = pl.coalesce(at_least, integer_part).str.strip_prefix("+").cast(pl.Int64, strict=False)
    limit = 1 << (_INTEGER_BITS[result_type.root] - 1)
    return _evaluate(text, pl.when((value >= -limit) & (value <= limit - 1)).then(value).cast(polars_type(result_type)))


def parse_floats(text: pl.Series, *, result_type: DataType) -> pl.Series:
    """Parse numbers as Java's parseFloat does, with blanks around them; null for other text."""
    trimmed = pl.col("text").str.strip_chars(_JAVA_BLANKS)
    number = trimmed.str.extract(r"^([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?$", 1)
    named = trimmed.str.extract(r"^([+-]?(?:NaN|Infinity))$", 1).str.replace("^[+-]NaN$", "NaN")
    return _evaluate(text, pl.coalesce(number, named).cast(polars_type(result_type), strict=False))


def parse_decimals(text: pl.Series, *, result_type: DataType, column: str, strict: bool = True) -> pl.Series:
    """Parse BigDecimal's text form and round half up to the scale; null if it does not fit.

    Text that is no number is null too, or an error if `strict`.
    """
    precision, scale = result_type.precision or 10, result_type.scale or 0
    parts = text.str.extract_groups(_NUMBER_PATTERN).struct.unnest()
    parts.columns = ["sign", "whole", "fraction", "exponent"]
    digits = pl.concat_str("whole", pl.col("fraction").fill_null(""))
    frame = parts.select(
        "sign",
        digits=digits,
        point=pl.col("whole").str.len_bytes().cast(pl.Int64) + pl.col("exponent").cast(pl.Int64).fill_null(0),
    )
    is_unread = (frame["digits"].is_null() | (frame["digits"] == "")) & text.is_not_null()
    if is_unread.any():
        if strict:
            raise unreadable_text(text.filter(is_unread)[0], result_type, column)
        frame = frame.with_columns(pl.when(pl.Series(~is_unread)).then(pl.col("digits")).alias("digits"))
    digit_count = (pl.col("point") + scale).clip(-1, 1000)
    head = (
        pl.when(digit_count >= 0)
        .then(pl.col("digits").str.slice(0, digit_count.clip(0)))
        .otherwise(pl.lit(""))
        .str.strip_chars_start("0")
    )
    missing = (digit_count - pl.col("digits").str.len_bytes().cast(pl.Int64)).clip(0)
    significant = head.str.len_bytes().cast(pl.Int64)
    fits = (significant == 0) | (significant + missing <= MAX_DIGITS)
    padded = pl.when(fits).then(
        pl.when(significant == 0)
        .then(pl.lit("0"))
        .otherwise(head.str.pad_end((significant + missing).clip(0, 38), "0"))
    )
    next_digit = (
        pl.when(digit_count >= 0).then(pl.col("digits").str.slice(digit_count.clip(0), 1)).otherwise(pl.lit(""))
    )
    unscaled = padded.cast(pl.Int128) + next_digit.is_in(list("56789")).cast(pl.Int128)
    signed = unscaled * pl.when(pl.col("sign") == "-").then(pl.lit(-1, pl.Int128)).otherwise(pl.lit(1, pl.Int128))
    values = frame.select(pl.when(pl.col("digits").is_not_null()).then(signed)).to_series()
    return from_unscaled(values, precision=precision, scale=scale).alias(text.name)


def _make_dates(year: pl.Expr, month: pl.Expr, day: pl.Expr) -> pl.Expr:
    """Return dates; null for one that does not exist."""
    shifted = pl.datetime(year.clip(0, 9999), month.clip(1, 12), 1).dt.date()
    days = shifted.dt.month_end().dt.day()
    exists = year.is_between(0, 9999) & month.is_between(1, 12) & (day >= 1) & (day <= days)
    return pl.when(exists).then((shifted.to_physical() + day.cast(pl.Int32) - 1).cast(pl.Date))


def _to_int(text: pl.Expr) -> pl.Expr:
    return text.cast(pl.Int32, strict=False)


def _parse_dates(text: pl.Series) -> pl.Series:
    """Parse dates: days since 1970, or year, year-month, year-month-day; what follows a blank is ignored."""
    number = pl.col("text").str.extract(r"^(-?\d+)$", 1)
    cut = pl.col("text").str.extract(r"^([^ ]+) ", 1).fill_null(pl.col("text"))
    pattern = r"^\s*(\d+)\s*(?:-\s*(\d+)\s*(?:-\s*(\d+)\s*)?)?$"
    year, month, day = (_to_int(cut.str.extract(pattern, i)) for i in (1, 2, 3))
    date = _make_dates(year, month.fill_null(1), day.fill_null(1))
    return _evaluate(text, pl.when(number.is_not_null()).then(_to_int(number).cast(pl.Date)).otherwise(date))


def _parse_times(text: pl.Series, *, column: str, strict: bool = True) -> pl.Series:
    """Parse times: milliseconds of the day, or hour, hour:minute, hour:minute:second with a fraction."""
    number = pl.col("text").str.extract(r"^(-?\d+)$", 1)
    pattern = r"^\s*(\d+)\s*(?::\s*(\d+)\s*(?::\s*(\d+)\s*(?:\.(\d+))?\s*)?)?$"
    hour, minute, second = (_to_int(pl.col("text").str.extract(pattern, i)).cast(pl.Int64) for i in (1, 2, 3))
    millis = pl.col("text").str.extract(pattern, 4).fill_null("0").str.pad_end(3, "0").str.slice(0, 3).cast(pl.Int64)
    clock = ((hour * 60 + minute.fill_null(0)) * 60 + second.fill_null(0)) * 1000 + millis
    millis_of_day = _evaluate(
        text, pl.when(number.is_not_null()).then(number.cast(pl.Int64, strict=False)).otherwise(clock)
    )
    return times_from_millis(
        _check_all_read(text, millis_of_day, DataType(root="TIME"), column) if strict else millis_of_day, column
    )


def _parse_timestamps(
    text: pl.Series, *, result_type: DataType, column: str, unit: str | None, zone: str, strict: bool = True
) -> pl.Series:
    """Parse yyyy-M-d, or with H:m:s and up to nine digits.

    TIMESTAMP also takes integers: seconds, milli-, micro- or nanoseconds, by its precision.
    """
    digits = 6 if result_type.precision is None else result_type.precision
    dtype = pl.Datetime(unit_of(result_type, unit))
    number = (
        pl.col("text")
        .str.extract(r"^(-?\d+)$" if result_type.root == "TIMESTAMP" else r"^()$", 1)
        .cast(pl.Int64, strict=False)
    )
    pattern = r"^(-?\d{1,10})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{0,9}))?)?$"
    year, month, day, hour, minute, second = (_to_int(pl.col("text").str.extract(pattern, i)) for i in range(1, 7))
    first = pl.datetime(year.clip(0, 9999), month.clip(1, 12), 1).dt.date()
    exists = year.is_between(1, 9999) & month.is_between(1, 12) & day.is_between(1, 31)
    midnight = (hour == 24) & (minute == 0) & (second == 0)  # the end of the day
    exists &= hour.fill_null(0).is_between(0, 23) | midnight
    exists &= minute.fill_null(0).is_between(0, 59) & second.fill_null(0).is_between(0, 59)
    last = first.dt.month_end().dt.day().cast(pl.Int32)
    # 30 February is its last day, as Java resolves it
    days = pl.when(exists).then(first.to_physical() + pl.min_horizontal(day, last) - 1)
    seconds = (
        days.cast(pl.Int64) * 86400
        + (hour.fill_null(0) * 60 + minute.fill_null(0)).cast(pl.Int64) * 60
        + second.fill_null(0)
    )
    ticks, unit_digits = TICKS_PER_SECOND[dtype.time_unit], {"ms": 3, "us": 6, "ns": 9}[dtype.time_unit]
    fraction = (
        pl.col("text")
        .str.extract(pattern, 7)
        .fill_null("")
        .str.slice(0, min(digits, unit_digits))
        .str.pad_end(unit_digits, "0")
        .cast(pl.Int64)
    )
    counted = number * 1000 if digits == 0 else number // 1000 if digits > 6 and dtype.time_unit == "us" else number
    read = text.alias("text").to_frame().select(counted=counted, seconds=seconds, fraction=fraction)
    if strict:
        _check_all_read(text, read.select(pl.coalesce("counted", "seconds")).to_series(), result_type, column)
    check_seconds(read["seconds"], dtype, column)
    timestamps = (
        read.select(pl.coalesce("counted", pl.col("seconds") * ticks + pl.col("fraction")))
        .to_series()
        .cast(dtype)
        .alias(text.name)
    )
    return to_instant(timestamps, zone) if result_type.root == "TIMESTAMP_LTZ" else timestamps


# ---- lengths and times ------------------------------------------------------------


def fit_bytes_length(values: pl.Series, *, result_type: DataType) -> pl.Series:
    """Cut bytes to the length of a BINARY or VARBINARY; pad BINARY with zeros."""
    if result_type.length is None or result_type.length == MAX_LENGTH:
        return values
    cut = values.bin.slice(0, result_type.length)
    if result_type.root == "BINARY":
        return cut.bin.encode("hex").str.pad_end(result_type.length * 2, "0").str.decode("hex")
    return cut


def to_instant(wall: pl.Series, zone: str) -> pl.Series:
    """Return the instant at which clocks in `zone` show `wall`, as Java does.

    If clocks show `wall` twice, it is the earlier instant. If clocks skip `wall`, because they are put forward, it is
    the instant at which they show one hour later.
    """
    if zone == "UTC":
        return wall.dt.replace_time_zone("UTC")
    check_calendar(wall)
    instants = wall.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    if instants.null_count() != wall.null_count():
        hour = pl.duration(hours=1)
        later = (
            wall.to_frame("w")
            .select((pl.col("w") - hour).dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null") + hour)
            .to_series()
        )
        instants = instants.fill_null(later)
    return instants.dt.convert_time_zone("UTC")


def check_calendar(timestamps: pl.Series) -> None:
    """Raise `ValueOutOfRange` for years beyond Polars' calendar, for which zones have no rules."""
    assert isinstance(timestamps.dtype, pl.Datetime)
    seconds = timestamps.to_physical() // TICKS_PER_SECOND[timestamps.dtype.time_unit]
    if (seconds.abs() > _CALENDAR_SECONDS).any():
        raise ValueOutOfRange(
            f"column {timestamps.name}: a cast makes a time beyond the year 260,000, for which zones have no rules",
            column=timestamps.name,
        )


def check_seconds(seconds: pl.Series, dtype: pl.Datetime, column: str) -> None:
    """Raise `ValueOutOfRange` for seconds since 1970 that a timestamp of `dtype` cannot hold."""
    limit = _INT64_BOUND // TICKS_PER_SECOND[dtype.time_unit]
    refuse_outside((seconds >= limit) | (seconds < -limit), dtype, column)


def refuse_outside(is_outside: pl.Series, dtype: pl.Datetime, column: str) -> None:
    """Raise `ValueOutOfRange` if a time is outside the range of `dtype`."""
    if is_outside.any():
        raise ValueOutOfRange(
            f"column {column}: a cast makes a time that {dtype.time_unit} cannot hold. Read it in microseconds: "
            "with_options({'lakekit.timestamp-unit': 'us'})",
            column=column,
        )


def times_from_millis(millis: pl.Series, column: str) -> pl.Series:
    """Return milliseconds of a day as TIME.

    Raises `ValueOutOfRange` outside of the day, which Java allows.
    """
    if ((millis < 0) | (millis >= _DAY_MS)).any():
        msg = f"column {column}: a cast makes a time of day outside of the day"
        raise ValueOutOfRange(f"{msg} (as the reference does, from times before 1970)", column=column)
    return (millis * 1_000_000).cast(pl.Time)


# ---- java text ------------------------------------------------------------


_MANTISSA_BITS: dict[type[pl.DataType], int] = {pl.Float32: 24, pl.Float64: 53}
_MIN_EXPONENT: dict[type[pl.DataType], int] = {pl.Float32: -149, pl.Float64: -1074}
"""The exponent of the smallest positive value."""
_MAX_EXPONENT: dict[type[pl.DataType], int] = {pl.Float32: 127, pl.Float64: 1023}
_SUBNORMAL_STEPS = 256
"""Subnormal values up to so many times the smallest are printed by digits of their own."""


def format_floats(column: pl.Series) -> pl.Series:
    """Return FLOAT or DOUBLE values as Java's text."""
    kind = type(column.dtype)
    parts = column.cast(pl.String).str.extract_groups(r"^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$").struct.unnest()
    parts.columns = ["sign", "whole", "fraction", "exponent"]
    digits = pl.concat_str("whole", pl.col("fraction").fill_null(""))
    significant = digits.str.strip_chars_start("0")
    exponent = pl.col("whole").str.len_bytes().cast(pl.Int64) - 1 + pl.col("exponent").cast(pl.Int64).fill_null(0)
    shortest = parts.select(
        "sign",
        digits=significant.str.strip_chars_end("0"),
        exponent=exponent - (digits.str.len_bytes().cast(pl.Int64) - significant.str.len_bytes().cast(pl.Int64)),
    )
    frame = _as_java(shortest, column, kind).with_columns(value=column)
    text = (
        pl.when(pl.col("digits") == "")
        .then(pl.lit("0.0"))
        .when(pl.col("exponent").is_between(-3, 6))
        .then(_plain_notation())
        .otherwise(_scientific_notation())
    )
    special = (
        pl.when(pl.col("value").is_nan())
        .then(pl.lit("NaN"))
        .when(pl.col("value") > 0)
        .then(pl.lit("Infinity"))
        .otherwise(pl.lit("-Infinity"))
    )
    finite = pl.when(pl.col("value").is_finite()).then(pl.concat_str("sign", text)).otherwise(special)
    return frame.select(pl.when(pl.col("value").is_not_null()).then(finite).alias(column.name)).to_series()


def _plain_notation() -> pl.Expr:
    digits, exponent = pl.col("digits"), pl.col("exponent")
    head = digits.str.slice(0, exponent + 1).str.pad_end(exponent.clip(0, 6) + 1, "0")
    tail = digits.str.slice(exponent + 1)
    small = pl.concat_str(pl.lit("0."), pl.lit("000").str.slice(0, -exponent - 1), digits)
    return pl.when(exponent >= 0).then(pl.concat_str(head, pl.lit("."), _or_zero(tail))).otherwise(small)


def _scientific_notation() -> pl.Expr:
    digits = pl.col("digits")
    return pl.concat_str(
        digits.str.slice(0, 1),
        pl.lit("."),
        _or_zero(digits.str.slice(1)),
        pl.lit("E"),
        pl.col("exponent").cast(pl.String),
    )


def _or_zero(text: pl.Expr) -> pl.Expr:
    return pl.when(text == "").then(pl.lit("0")).otherwise(text)


# ---- where Java prints other digits ----------------------------------------------------------------------------------


def _as_java(frame: pl.DataFrame, column: pl.Series, kind: type[pl.DataType]) -> pl.DataFrame:
    values = np.abs(column.fill_null(0).fill_nan(0).to_numpy())
    bits = _MANTISSA_BITS[kind]
    is_whole = (values >= 2.0**bits) & (values < 2.0**63)
    if is_whole.any():
        frame = frame.with_columns(_whole_numbers(values, is_whole, bits))
    mantissa, _ = np.frexp(values)
    odd = (
        (((mantissa == 0.5) & ~is_whole) | (values < _SUBNORMAL_STEPS * 2.0 ** _MIN_EXPONENT[kind]))
        & (values > 0)
        & np.isfinite(values)
    )
    if not odd.any():
        return frame
    table = _powers_of_two(kind).lazy()
    keyed = frame.lazy().with_columns(key=pl.Series(np.where(odd, values.astype(np.float64), 0.0)))
    joined = keyed.join(table, on="key", how="left", maintain_order="left")
    return joined.select(
        "sign", digits=pl.coalesce("java_digits", "digits"), exponent=pl.coalesce("java_exponent", "exponent")
    ).collect()


def _whole_numbers(values: NDArray[np.floating], mask: NDArray[np.bool_], bits: int) -> list[pl.Expr]:
    """Return the digits and exponents of whole numbers that need more bits than the mantissa has.

    Digits beyond its precision are rounded off.
    """
    integers = np.where(mask, values, 1).astype(np.int64)
    beyond = np.frexp(values)[1] - 1 - bits - 1
    cut = np.where(beyond > 1, np.floor(beyond * np.log10(2.0)), 0).clip(0, 18).astype(np.int64)
    power = 10**cut
    rounded = integers // power + (integers % power >= power // 2) * (cut > 0)
    text = pl.Series(rounded).cast(pl.String)
    last = text.str.len_bytes().cast(pl.Int64) - 1 + pl.Series(cut)
    is_selected = pl.lit(pl.Series(mask))
    return [
        pl.when(is_selected).then(pl.lit(text.str.strip_chars_end("0"))).otherwise(pl.col("digits")).alias("digits"),
        pl.when(is_selected).then(pl.lit(last)).otherwise(pl.col("exponent")).alias("exponent"),
    ]


@lru_cache(maxsize=2)
def _powers_of_two(kind: type[pl.DataType]) -> pl.DataFrame:
    """Return digits and exponents of powers of two and of the smallest values."""
    least, bits = _MIN_EXPONENT[kind], _MANTISSA_BITS[kind]
    digits_by_value: dict[float, tuple[str, int]] = {}
    for count in range(1, _SUBNORMAL_STEPS):
        digits_by_value[count * 2.0**least] = _shortest_digits(count, least, count.bit_length())
    for power in range(least, _MAX_EXPONENT[kind] + 1):
        digits_by_value[2.0**power] = _shortest_digits(1, power, min(bits, power - least + 1))
    rows = [(key, digits, exponent) for key, (digits, exponent) in digits_by_value.items()]
    return pl.DataFrame(
        rows, schema={"key": pl.Float64, "java_digits": pl.String, "java_exponent": pl.Int64}, orient="row"
    )


def _shortest_digits(mantissa: int, power: int, significant: int) -> tuple[str, int]:
    """Return the digits and the exponent that Java prints for `mantissa * 2**power`.

    `significant` bits of it count; digits are generated one after the other until the remainder is below half a step.
    """
    top = mantissa.bit_length() - 1 + power
    lone = mantissa & (mantissa - 1) == 0
    below = max(0, -(top - significant - lone), -power) + 1
    value, margin = mantissa << (power + below), 1 << (top - significant - lone + below)
    exponent = _estimate_exponent(mantissa, top)
    unit = (10 ** max(exponent, 0)) << below
    value, margin = value * 10 ** max(-exponent, 0), margin * 10 ** max(-exponent, 0)
    if value < unit and value + margin <= unit:  # estimated one too high, and the value does not round up to it
        value, margin, exponent = value * 10, margin * 10, exponent - 1
    digits = ""
    while True:
        digit, remainder = divmod(value, unit)
        digits += str(digit)
        low, high = remainder < margin, remainder + margin > unit
        if (low or high) and (len(digits) > 1 or -3 <= exponent < 8):
            break
        value, margin = remainder * 10, margin * 10
    if high and (not low or remainder * 2 > unit or (remainder * 2 == unit and digit & 1)):
        rounded = str(int(digits) + 1).zfill(len(digits))
        exponent += len(rounded) - len(digits)
        digits = rounded
    return digits.rstrip("0") or "0", exponent


def _estimate_exponent(mantissa: int, top: int) -> int:
    """Return Java's estimate of the decimal exponent: right, or one too high."""
    leading = mantissa / 2 ** (mantissa.bit_length() - 1)
    return int(np.floor((leading - 1.5) * 0.289529654 + 0.176091259 + top * 0.301029995663981))
