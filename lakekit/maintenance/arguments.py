"""Parsers of the durations, times and counts that callers of maintenance tasks pass."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from operator import index
from typing import Any

from lakekit.errors import InvalidOption
from lakekit.options.option import read_duration

_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def duration_ms(value: str | timedelta, key: str) -> int:
    """Return a duration in milliseconds.

    `value` is a `timedelta`, or a text as options have it: "7 d", "36 h", "PT1H".

    Raises: `InvalidOption`.
    """
    if isinstance(value, timedelta):
        if value < timedelta():
            raise InvalidOption(
                f"{key}= takes a duration, which is not below 0; found {value}", key=key, value=str(value)
            )
        return value // _MILLISECOND
    if not isinstance(value, str):
        msg = f"{key}= takes a timedelta or a text such as '7 d', not {type(value).__name__}"
        raise TypeError(msg)
    try:
        return read_duration(value)
    except ValueError:
        raise InvalidOption(
            f"{key}= takes a duration such as 7 d, 36 h, 5 min, PT1H; found {value[:100]!r}", key=key, value=value
        ) from None


def time_ms(value: str | datetime, key: str, *, or_age: str = "") -> int:
    """Return a time in milliseconds since 1970.

    `value` is a datetime or an ISO text; one without time zone is local. `or_age`: added to the error message where an
    age is accepted too.

    Raises: `InvalidOption`.
    """
    if not isinstance(value, (str, datetime)):
        msg = f"{key}= takes a datetime or an ISO time, not {type(value).__name__}"
        raise TypeError(msg)
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        return (
            (time.astimezone(UTC) if time.tzinfo is None else time) - _EPOCH
        ) // _MILLISECOND  # a float of seconds loses thousandths
    except (ValueError, OverflowError):
        raise InvalidOption(
            f"{key}= takes a time such as 2024-03-31 12:00:00{or_age}; found {str(value)[:100]!r}",
            key=key,
            value=str(value),
        ) from None


def before_ms(value: str | datetime | timedelta | None, key: str, now_ms: int) -> int | None:
    """Return the time before which something is old, in milliseconds since 1970; None for None.

    `value` is a time as `time_ms` takes it, or an age before now: a `timedelta`, or a text such as "2 d" or "PT36H". An
    age has a unit, so that no number is taken for milliseconds.

    Raises: `InvalidOption`.
    """
    if value is None:
        return None
    if isinstance(value, str) and any(char.isalpha() for char in value):
        with suppress(ValueError):
            return now_ms - read_duration(value)
    return (
        now_ms - duration_ms(value, key)
        if isinstance(value, timedelta)
        else time_ms(value, key, or_age=", or an age such as 7 d")
    )


def parse_count(value: Any, key: str, *, minimum: int = 0) -> int:
    """Return a count, also of a numpy integer.

    Raises: `InvalidOption` for a value that is no whole number, or below `minimum`.
    """
    try:
        count = None if isinstance(value, bool) else index(value)
    except TypeError:
        count = None
    if count is None or count < minimum:
        raise InvalidOption(
            f"{key}= takes a whole number, {minimum} or more; found {ascii(value)[:100]}", key=key, value=str(value)
        )
    return count
