"""Pieces of casts to and from text and times: fitting to a length, Java's forms of times, units that must not overflow."""

from __future__ import annotations

import polars as pl

from lakekit.errors import ValueOutOfRange
from lakekit.types import MAX_LENGTH, DataType

ANY_LENGTH = MAX_LENGTH
TICKS = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_MS = 86_400_000
_I64 = 2**63
_CALENDAR_SECONDS = 260_000 * 31_556_952


def fit(text: pl.Expr, want: DataType) -> pl.Expr:
    """Cut to the length of a CHAR or VARCHAR, counted in code points; CHAR is padded with blanks."""
    if want.length is None or want.length == ANY_LENGTH:
        return text
    cut = text.str.slice(0, want.length)
    return cut.str.pad_end(want.length, " ") if want.root == "CHAR" else cut


def fit_bytes(values: pl.Series, *, want: DataType) -> pl.Series:
    """Cut to the length of a BINARY or VARBINARY; BINARY is padded with zeros."""
    if want.length is None or want.length == ANY_LENGTH:
        return values
    cut = values.bin.slice(0, want.length)
    if want.root == "BINARY":
        return cut.bin.encode("hex").str.pad_end(want.length * 2, "0").str.decode("hex")
    return cut


_UTF8 = r"^(?:[0-7].|(?:c[2-9a-f]|d.)[89ab].|(?:e0[ab]|e[1-9a-cef][89ab]|ed[89]).[89ab].|(?:f0[9ab]|f[123][89ab]|f48).[89ab].[89ab].)*$"
"""Hexadecimal digits of bytes that are UTF-8."""


def decode_utf8(values: pl.Series) -> pl.Series:
    """Bytes as UTF-8 text; what is none becomes U+FFFD."""
    is_text = values.bin.encode("hex").str.contains(_UTF8).fill_null(value=True)
    good = values.zip_with(is_text, pl.Series([b""])).cast(pl.String)
    if is_text.all():
        return good
    # no vectorized decoder replaces, so that only what is no text goes one by one
    replaced = [value.decode("utf-8", "replace") for value in values.filter(~is_text).to_list()]  # scalar: broken text alone
    return good.scatter((~is_text).alias("").arg_true(), replaced)


def time_of_day(column: pl.Expr, precision: int) -> pl.Expr:
    """HH:MM:SS and, beyond precision 0, as many digits of the milliseconds as they need, one at least.

    Where a value has more digits than its type, all of the type's are shown, zeros too: Java stops at the last digit that says something.
    """
    millis = column.to_physical() // 1_000_000 % 1000
    base = column.dt.strftime("%H:%M:%S")
    if precision == 0:
        return base
    needed = millis.cast(pl.String).str.zfill(3).str.strip_chars_end("0")
    kept = needed.str.slice(0, precision)
    return pl.concat_str(base, pl.lit("."), pl.when(needed == "").then(pl.lit("0")).otherwise(kept))


def wall_clock(column: pl.Expr, precision: int) -> pl.Expr:
    """yyyy-MM-dd HH:mm:ss and exactly `precision` digits."""
    base = column.dt.strftime("%Y-%m-%d %H:%M:%S")
    if precision == 0:
        return base
    nanos = column.dt.nanosecond().cast(pl.Int64).cast(pl.String).str.zfill(9)
    return pl.concat_str(base, pl.lit("."), nanos.str.slice(0, precision))


def instant(wall: pl.Series, zone: str) -> pl.Series:
    """The instant at which clocks in `zone` show `wall`: the earlier of two, and the one an hour later where clocks were put forward, as Java says."""
    if zone == "UTC":
        return wall.dt.replace_time_zone("UTC")
    _check_calendar(wall)
    found = wall.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    if found.null_count() != wall.null_count():
        hour = pl.duration(hours=1)
        later = wall.to_frame("w").select((pl.col("w") - hour).dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null") + hour).to_series()
        found = found.fill_null(later)
    return found.dt.convert_time_zone("UTC")


def clock(instants: pl.Series, zone: str) -> pl.Series:
    """What clocks in `zone` show at those instants."""
    if zone != "UTC":
        _check_calendar(instants)
    return instants.dt.convert_time_zone(zone).dt.replace_time_zone(None)


def _check_calendar(times: pl.Series) -> None:
    """Zones have no rules for the years that Polars has no calendar for."""
    assert isinstance(times.dtype, pl.Datetime)
    seconds = times.to_physical() // TICKS[times.dtype.time_unit]
    if (seconds.abs() > _CALENDAR_SECONDS).any():
        raise ValueOutOfRange(f"column {times.name}: a cast makes a time beyond the year 260,000, for which zones have no rules", column=times.name)


def from_millis(millis: pl.Series, dtype: pl.Datetime, column: str) -> pl.Series:
    """Milliseconds since 1970 as timestamps of `dtype`; raises where they do not fit."""
    return to_unit(millis.cast(pl.Datetime("ms")), pl.Datetime(dtype.time_unit), column).dt.replace_time_zone(dtype.time_zone)


def to_unit(values: pl.Series, dtype: pl.Datetime, column: str) -> pl.Series:
    """The same times in another unit; raises `ValueOutOfRange` where a finer one cannot hold them."""
    assert isinstance(values.dtype, pl.Datetime)
    have, want = TICKS[values.dtype.time_unit], TICKS[dtype.time_unit]
    if want > have:
        ticks, limit = values.to_physical(), _I64 // (want // have)
        _refuse((ticks > limit - 1) | (ticks < -limit), dtype, column)
    return values.dt.cast_time_unit(dtype.time_unit)


def check_seconds(seconds: pl.Series, dtype: pl.Datetime, column: str) -> None:
    """Raises `ValueOutOfRange` for seconds since 1970 that a timestamp of `dtype` cannot hold."""
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
    """Milliseconds of a day as TIME; Java lets them be negative or beyond the day, Polars does not."""
    if ((millis < 0) | (millis >= _DAY_MS)).any():
        raise ValueOutOfRange(f"column {column}: a cast makes a time of day outside of the day (as the reference does, from times before 1970)", column=column)
    return (millis * 1_000_000).cast(pl.Time)
