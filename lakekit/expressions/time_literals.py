"""Texts as dates, times of day and timestamps; literals of those types; time zones.

    '2024-03-31'                    DATE, TIMESTAMP      midnight
    '2024-03-31 12:00:00.5'         TIMESTAMP; DATE: refused, as a time of day is in it
    '2024-03-31T12:00:00+02:00'     TIMESTAMP_LTZ; TIMESTAMP: refused, as a zone is in it
    '12:30', '12:30:15.25'          TIME

A literal holds the count of nanoseconds since 1970, or since midnight: Python's times have no nanoseconds.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import polars as pl

from lakekit.expressions.typed_expression import TypedExpression, fails_where, mismatch, sql_name, typed_value

NS_OF_UNIT = {"ms": 1_000_000, "us": 1_000, "ns": 1}
DAY_NS = 86_400_000_000_000
_MICRO_NS = 1_000
_MAX_NS_MICROS = ((1 << 63) - 1) // _MICRO_NS
"""So many microseconds after 1970 reach nanoseconds of 64 bits."""
_DAY = r"(?P<year>\d{4,6})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?)?"
_ZONE = r"(?P<zone>[zZ]|[+-]\d{2}(?::?\d{2})?)"
_MOMENT = re.compile(rf"\s*{_DAY}(?:(?:[ T]|\s+){_CLOCK}\s*{_ZONE}?)?\s*", re.ASCII)
_TIME = re.compile(rf"\s*{_CLOCK}\s*", re.ASCII)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a clock without a zone
_MAX_QUOTED = 60


def text_as_moment(text: str, dtype: pl.DataType, zone: str) -> TypedExpression:
    """Return a text as a literal of a DATE, TIME or TIMESTAMP type.

    Raises: `TranslationRefusal` where it is none.
    """
    if isinstance(dtype, pl.Time):
        return moment_literal(_parse_time(text), dtype)
    match = _MOMENT.fullmatch(text)
    quoted = repr(text[:_MAX_QUOTED])
    if match is None:
        raise mismatch(f"{quoted} is no {sql_name(dtype)}; write '2024-03-31' or '2024-03-31 12:00:00'")
    try:
        day = date(*(int(match[name]) for name in ("year", "month", "day")))
    except ValueError:
        raise mismatch(f"{quoted} is no day of the years 1 to 9999") from None
    count = (day - date(1970, 1, 1)).days * DAY_NS + _clock_ns(match, quoted)
    if isinstance(dtype, pl.Date):
        if count % DAY_NS:
            raise mismatch(f"{quoted} is compared with a day, and is a moment")
        return moment_literal(count, dtype)
    assert isinstance(dtype, pl.Datetime)
    if dtype.time_zone is None:
        if match["zone"] is not None:
            raise mismatch(f"{quoted} is a TIMESTAMP without a zone, and names one: leave the zone out")
        return moment_literal(count, dtype)
    if match["zone"] is None:
        return moment_literal(local_to_utc(count, zone), dtype)
    return moment_literal(count - _offset_ns(match["zone"], quoted), dtype)


def _parse_time(text: str) -> int:
    match = _TIME.fullmatch(text)
    quoted = repr(text[:_MAX_QUOTED])
    if match is None:
        raise mismatch(f"{quoted} is no TIME; write '12:30:00'")
    return _clock_ns(match, quoted)


def _clock_ns(match: re.Match[str], quoted: str) -> int:
    if match["hour"] is None:
        return 0
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise mismatch(f"{quoted} has no time of day: 00:00:00 to 23:59:59")
    return ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + int((match["fraction"] or "").ljust(9, "0"))


def _offset_ns(zone: str, quoted: str) -> int:
    if zone in "zZ":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 18 or minutes > 59:
        raise mismatch(f"{quoted} has no time zone: -18:00 to +18:00")
    return (hours * 60 + minutes) * (-60 if zone[0] == "-" else 60) * 1_000_000_000


def local_to_utc(count: int, zone: str) -> int:
    """Return the nanoseconds in UTC of a clock in a zone; of two the earlier."""
    return count if zone == "UTC" else count - _zone_ns(count, zone, is_local=True)


def utc_to_local(count: int, zone: str) -> int:
    """Return the nanoseconds that a clock in a zone shows."""
    return count if zone == "UTC" else count + _zone_ns(count, zone, is_local=False)


def _zone_ns(count: int, zone: str, *, is_local: bool) -> int:
    try:
        moment = _EPOCH + timedelta(microseconds=count // _MICRO_NS)
        aware = (
            moment.replace(tzinfo=ZoneInfo(zone)) if is_local else moment.replace(tzinfo=UTC).astimezone(ZoneInfo(zone))
        )
        offset = aware.utcoffset() or timedelta()
    except OverflowError:
        raise mismatch(f"a moment beyond the years 1 to 9999 has no clock in {zone}") from None
    return (offset.days * 86_400 + offset.seconds) * 1_000_000_000


def moment_literal(count: int, dtype: pl.DataType) -> TypedExpression:
    """Return the literal of a count of nanoseconds as DATE, TIME or TIMESTAMP; digits beyond the unit are cut.

    A TIME or a TIMESTAMP keeps them in its count, which a value of the type then does not equal; a DATE is a day.
    """
    if isinstance(dtype, pl.Time):
        micros = count // _MICRO_NS
        clock = time(micros // 3_600_000_000, micros // 60_000_000 % 60, micros // 1_000_000 % 60, micros % 1_000_000)
        return TypedExpression(pl.lit(clock, dtype), dtype, count, is_constant=True)
    if isinstance(dtype, pl.Date):
        days = count // DAY_NS
        try:
            expr = pl.lit(date(1970, 1, 1) + timedelta(days=days), dtype)
        except OverflowError:
            expr = pl.lit(days, pl.Int32()).cast(pl.Date())
        return TypedExpression(expr, dtype, days * DAY_NS, is_constant=True)
    assert isinstance(dtype, pl.Datetime)
    unit = NS_OF_UNIT[dtype.time_unit]
    if (
        dtype.time_unit == "ns" and not -(1 << 63) <= count < 1 << 63
    ):  # beyond 1677 to 2262: it is compared by its count
        return moment_literal(count, pl.Datetime("us", dtype.time_zone))
    exact = count // unit * unit
    try:
        moment = _EPOCH + timedelta(microseconds=exact // _MICRO_NS)
    except OverflowError:
        moment = None
    if moment is None or exact % _MICRO_NS:
        expr = pl.lit(exact // unit, pl.Int64()).cast(dtype)
    else:
        expr = pl.lit(moment if dtype.time_zone is None else moment.replace(tzinfo=UTC), dtype)
    return TypedExpression(expr, dtype, count, is_constant=True)


def as_timestamp(value: TypedExpression, dtype: pl.Datetime, zone: str) -> TypedExpression:
    """Return a DATE or TIMESTAMP as a TIMESTAMP of a unit, with a zone or without; a clock is one of `zone`."""
    if value.dtype == dtype:
        return value
    own_zone = getattr(value.dtype, "time_zone", None)
    if isinstance(value.literal, int):
        count = value.literal
        if own_zone is None and dtype.time_zone is not None:
            count = local_to_utc(count, zone)
        elif own_zone is not None and dtype.time_zone is None:
            count = utc_to_local(count, zone)
        return moment_literal(count, dtype)
    expr = value.expr.cast(pl.Datetime(dtype.time_unit, own_zone))
    if dtype.time_unit == "ns" and getattr(value.dtype, "time_unit", None) != "ns":
        micros = value.expr.cast(pl.Datetime("us", own_zone)).to_physical()
        is_beyond = (micros < -_MAX_NS_MICROS) | (micros > _MAX_NS_MICROS)
        expr = value.expr.cast(pl.Datetime("ns", own_zone), strict=False)
        expr = pl.when(fails_where(is_beyond, "a time beyond the years 1677 to 2262")).then(None).otherwise(expr)
    if own_zone is None and dtype.time_zone is not None:
        expr = expr.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null").dt.convert_time_zone(
            dtype.time_zone
        )
    elif own_zone is not None and dtype.time_zone is None:
        expr = expr.dt.convert_time_zone(zone).dt.replace_time_zone(None)
    return TypedExpression(expr, dtype, is_constant=value.is_constant, name=value.name)


def round_time(value: TypedExpression, step: int) -> TypedExpression:
    """Return a TIMESTAMP rounded to so many nanoseconds, half away from 1970; one of coarser digits as it is."""
    if not isinstance(value.dtype, pl.Datetime) or (count := step // NS_OF_UNIT[value.dtype.time_unit]) <= 1:
        return value
    own = value.expr.to_physical()
    size = (own.abs() + count // 2) // count * count
    return typed_value(pl.when(own < 0).then(-size).otherwise(size).cast(value.dtype), value.dtype, value)
