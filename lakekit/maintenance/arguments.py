"""Durations, times and counts as a caller gives them."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from operator import index
from typing import Any

from lakekit.errors import InvalidOption
from lakekit.options.option import read_duration

_MILLI = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def duration_ms(given: str | timedelta, key: str) -> int:
    """A duration in milliseconds: a `timedelta`, or a text as options have it, "7 d", "36 h", "PT1H". Raises `InvalidOption`."""
    if isinstance(given, timedelta):
        if given < timedelta():
            raise InvalidOption(f"{key}= takes a duration, which is not below 0; found {given}", key=key, value=str(given))
        return given // _MILLI
    if not isinstance(given, str):
        msg = f"{key}= takes a timedelta or a text such as '7 d', not {type(given).__name__}"
        raise TypeError(msg)
    try:
        return read_duration(given)
    except ValueError:
        raise InvalidOption(f"{key}= takes a duration such as 7 d, 36 h, 5 min, PT1H; found {given[:100]!r}", key=key, value=given) from None


def time_ms(given: str | datetime, key: str, *, or_age: str = "") -> int:
    """A time in milliseconds since 1970: a datetime or an ISO text; a naive one is local. `or_age`: what else would do. Raises `InvalidOption`."""
    if not isinstance(given, (str, datetime)):
        msg = f"{key}= takes a datetime or an ISO time, not {type(given).__name__}"
        raise TypeError(msg)
    try:
        found = given if isinstance(given, datetime) else datetime.fromisoformat(given)
        return ((found.astimezone(UTC) if found.tzinfo is None else found) - _EPOCH) // _MILLI  # a float of seconds loses thousandths
    except (ValueError, OverflowError):
        raise InvalidOption(f"{key}= takes a time such as 2024-03-31 12:00:00{or_age}; found {str(given)[:100]!r}", key=key, value=str(given)) from None


def before_ms(given: str | datetime | timedelta | None, key: str, now_ms: int) -> int | None:
    """A time as `time_ms` takes it, or an age before now: a `timedelta`, or a text such as "2 d" or "PT36H"; None of none. Raises `InvalidOption`.

    An age has a unit, so that no number is taken for milliseconds.
    """
    if given is None:
        return None
    if isinstance(given, str) and any(one.isalpha() for one in given):
        with suppress(ValueError):
            return now_ms - read_duration(given)
    return now_ms - duration_ms(given, key) if isinstance(given, timedelta) else time_ms(given, key, or_age=", or an age such as 7 d")


def parse_count(given: Any, key: str, *, least: int = 0) -> int:
    """A count, also one of numpy. Raises `InvalidOption` for what is none, or fewer than `least`."""
    try:
        found = None if isinstance(given, bool) else index(given)
    except TypeError:
        found = None
    if found is None or found < least:
        raise InvalidOption(f"{key}= takes a whole number, {least} or more; found {ascii(given)[:100]}", key=key, value=str(given))
    return found
