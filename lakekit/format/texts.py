"""Casts to and from text and times: lengths, Java's text forms of times, and units without overflow."""

from __future__ import annotations

import polars as pl

from lakekit.errors import ValueOutOfRange
from lakekit.types import MAX_LENGTH, DataType

ANY_LENGTH = MAX_LENGTH
TICKS = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_MS = 86_400_000
_I64 = 2**63
_CALENDAR_SECONDS = 260_000 * 31_556_952


def fit(text: pl.Expr, result_type: DataType) -> pl.Expr:
    """Cut text to the length of a CHAR or VARCHAR, counted in code points; pad CHAR with blanks."""
    if result_type.length is None or result_type.length == ANY_LENGTH:
        return text
    cut = text.str.slice(0, result_type.length)
    return cut.str.pad_end(result_type.length, " ") if result_type.root == "CHAR" else cut


def fit_bytes(values: pl.Series, *, result_type: DataType) -> pl.Series:
    """Cut bytes to the length of a BINARY or VARBINARY; pad BINARY with zeros."""
    if result_type.length is None or result_type.length == ANY_LENGTH:
        return values
    cut = values.bin.slice(0, result_type.length)
    if result_type.root == "BINARY":
        return cut.bin.encode("hex").str.pad_end(result_type.length * 2, "0").str.decode("hex")
    return cut


_UTF8_CHARACTERS = (
    r"[0-7].",
    r"(?:c[2-9a-f]|d.)[89ab].",
    r"(?:e0[ab]|e[1-9a-cef][89ab]|ed[89]).[89ab].",
    r"(?:f0[9ab]|f[123][89ab]|f48).[89ab].[89ab].",
)
_UTF8 = f"^(?:{'|'.join(_UTF8_CHARACTERS)})*$"
"""A pattern of the hexadecimal digits of valid UTF-8."""


def decode_utf8(values: pl.Series) -> pl.Series:
    """Decode bytes as UTF-8; invalid ones become U+FFFD."""
    is_text = values.bin.encode("hex").str.contains(_UTF8).fill_null(value=True)
    decoded = values.zip_with(is_text, pl.Series([b""])).cast(pl.String)
    if is_text.all():
        return decoded
    # no vectorized decoder replaces, so that only what is no text goes one by one
    broken = values.filter(~is_text).to_list()  # scalar: broken text alone
    replaced = [value.decode("utf-8", "replace") for value in broken]
    return decoded.scatter((~is_text).alias("").arg_true(), replaced)


def time_of_day(column: pl.Expr, precision: int) -> pl.Expr:
    """Print HH:MM:SS and, beyond precision 0, as many digits of the milliseconds as needed, one at least.

    Where a value has more digits than its type, all of the type's are printed, zeros too: Java stops at the last
    significant digit.
    """
    millis = column.to_physical() // 1_000_000 % 1000
    base = column.dt.strftime("%H:%M:%S")
    if precision == 0:
        return base
    needed = millis.cast(pl.String).str.zfill(3).str.strip_chars_end("0")
    digits = needed.str.slice(0, precision)
    return pl.concat_str(base, pl.lit("."), pl.when(needed == "").then(pl.lit("0")).otherwise(digits))


def wall_clock(column: pl.Expr, precision: int) -> pl.Expr:
    """Print yyyy-MM-dd HH:mm:ss and exactly `precision` digits."""
    base = column.dt.strftime("%Y-%m-%d %H:%M:%S")
    if precision == 0:
        return base
    nanos = column.dt.nanosecond().cast(pl.Int64).cast(pl.String).str.zfill(9)
    return pl.concat_str(base, pl.lit("."), nanos.str.slice(0, precision))


def instant(wall: pl.Series, zone: str) -> pl.Series:
    """Return the instant at which clocks in `zone` show `wall`, as Java does.

    It is the earlier of two, and the one an hour later where clocks were put forward.
    """
    if zone == "UTC":
        return wall.dt.replace_time_zone("UTC")
    _check_calendar(wall)
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


def clock(instants: pl.Series, zone: str) -> pl.Series:
    """Return what clocks in `zone` show at those instants."""
    if zone != "UTC":
        _check_calendar(instants)
    return instants.dt.convert_time_zone(zone).dt.replace_time_zone(None)


def _check_calendar(times: pl.Series) -> None:
    """Raise `ValueOutOfRange` for years beyond Polars' calendar, for which zones have no rules."""
    assert isinstance(times.dtype, pl.Datetime)
    seconds = times.to_physical() // TICKS[times.dtype.time_unit]
    if (seconds.abs() > _CALENDAR_SECONDS).any():
        raise ValueOutOfRange(
            f"column {times.name}: a cast makes a time beyond the year 260,000, for which zones have no rules",
            column=times.name,
        )


def from_millis(millis: pl.Series, dtype: pl.Datetime, column: str) -> pl.Series:
    """Return milliseconds since 1970 as timestamps of `dtype`.

    Raises `ValueOutOfRange` where they do not fit.
    """
    return to_unit(millis.cast(pl.Datetime("ms")), pl.Datetime(dtype.time_unit), column).dt.replace_time_zone(
        dtype.time_zone
    )


def to_unit(values: pl.Series, dtype: pl.Datetime, column: str) -> pl.Series:
    """Return the same times in another unit. Raises `ValueOutOfRange` where a finer one cannot hold them."""
    assert isinstance(values.dtype, pl.Datetime)
    old_ticks, new_ticks = TICKS[values.dtype.time_unit], TICKS[dtype.time_unit]
    if new_ticks > old_ticks:
        ticks, limit = values.to_physical(), _I64 // (new_ticks // old_ticks)
        _refuse((ticks > limit - 1) | (ticks < -limit), dtype, column)
    return values.dt.cast_time_unit(dtype.time_unit)


def check_seconds(seconds: pl.Series, dtype: pl.Datetime, column: str) -> None:
    """Raise `ValueOutOfRange` for seconds since 1970 that a timestamp of `dtype` cannot hold."""
    limit = _I64 // TICKS[dtype.time_unit]
    _refuse((seconds >= limit) | (seconds < -limit), dtype, column)


def _refuse(outside: pl.Series, dtype: pl.Datetime, column: str) -> None:
    if outside.any():
        raise ValueOutOfRange(
            f"column {column}: a cast makes a time that {dtype.time_unit} cannot hold. Read it in microseconds: "
            "with_options({'lakekit.timestamp-unit': 'us'})",
            column=column,
        )


def from_time_millis(millis: pl.Series, column: str) -> pl.Series:
    """Return milliseconds of a day as TIME.

    Raises `ValueOutOfRange` outside of the day, which Java allows.
    """
    if ((millis < 0) | (millis >= _DAY_MS)).any():
        msg = f"column {column}: a cast makes a time of day outside of the day"
        raise ValueOutOfRange(f"{msg} (as the reference does, from times before 1970)", column=column)
    return (millis * 1_000_000).cast(pl.Time)
