"""Wall clocks of ORC writers, by the rules of `java.util.TimeZone`.

An ORC TIMESTAMP is a wall clock. Its file stores the instant at which a clock in the zone of the writer showed it, as
whole seconds since 2015-01-01 in that zone, cut toward zero, and nanoseconds. A reader subtracts the second that was
cut by the sign of the *instant*, and then looks up the offset of the zone:

    stored (seconds s, nanos n)     s = s + base;  s = s - 1 where s < 0 and n > 999 999;  wall clock = s + offset(s), n

`java.util.TimeZone` has no offset before 1900: it returns today's standard time. Its names are those of the tz
database, three letters for some of them, and `GMT+08:00`.

Source: ORC's `TimestampTreeReader`, `SerializationUtils.convertBetweenTimezones`; `sun.util.calendar.ZoneInfo`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lakekit.errors import Unsupported

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Seconds = NDArray[np.int64]

EPOCH_2015 = 1_420_070_400
_FIRST_SECOND = -2_208_988_800
"""1900-01-01T00:00Z: `java.util.TimeZone` has no transitions before it."""
_RULE_SECOND = 4_102_444_800
"""2100-01-01T00:00Z: Polars' tz database has no transitions after it."""
_RULE_YEARS = range(2072, 2100)
"""Years of every kind (leap or not, by the weekday of its first day), under the last rules of each zone."""
_YEAR_2036 = (2_082_758_400, 2_114_380_800)
_UTC = frozenset(
    {
        "",
        "UTC",
        "GMT",
        "Z",
        "UCT",
        "Zulu",
        "Universal",
        "Greenwich",
        "GMT0",
        "Etc/UTC",
        "Etc/GMT",
        "Etc/UCT",
        "Etc/Zulu",
        "Etc/Universal",
    }
)
_GMT_OFFSET = re.compile(r"GMT([+-])(\d{1,2})(?::?(\d{2}))?", re.ASCII)
_SHORT_IDS = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
"""Names that `java.util.TimeZone` has for some zones."""
_FIXED_OFFSETS = {"EST": -18_000, "MST": -25_200, "HST": -36_000}


def is_utc(zone: str) -> bool:
    """Return whether wall clocks of a zone are instants; a file that names no zone counts as UTC."""
    return zone in _UTC or zone in {"Etc/GMT+0", "Etc/GMT-0", "Etc/GMT0", "Etc/Greenwich"}


def base_seconds(zone: str) -> int:
    """Return the instant of 2015-01-01T00:00 on a clock of the zone.

    Raises `Unsupported` for a zone without rules.
    """
    wall = np.array([EPOCH_2015], np.int64)
    return int(EPOCH_2015 - utc_offsets(wall - utc_offsets(wall, zone), zone)[0])


def utc_offsets(seconds: Seconds, zone: str) -> Seconds:
    """Return the offset of a zone from UTC, in seconds, at each instant (int64[n], epoch seconds).

    Raises `Unsupported` for a zone that has no rules here.
    """
    fixed, name = _resolve(zone)
    if name is None:
        return np.full(len(seconds), fixed, np.int64)
    known_seconds = _into_known_years(np.maximum(seconds, _FIRST_SECOND))
    offsets = _offsets(known_seconds, name)
    return np.where(seconds < _FIRST_SECOND, _standard_offset(name), offsets)


@lru_cache(maxsize=64)
def _resolve(zone: str) -> tuple[int, str | None]:
    """Return a fixed offset in seconds, or the name of a zone of the tz database."""
    if is_utc(zone) or zone in _FIXED_OFFSETS:
        return _FIXED_OFFSETS.get(zone, 0), None
    custom = _GMT_OFFSET.fullmatch(zone)
    if custom is not None and int(custom.group(2)) < 24 and int(custom.group(3) or 0) < 60:
        seconds = int(custom.group(2)) * 3600 + int(custom.group(3) or 0) * 60
        return -seconds if custom.group(1) == "-" else seconds, None
    name = _SHORT_IDS.get(zone, zone)
    try:
        _offsets(np.zeros(1, np.int64), name)
    except pl.exceptions.PolarsError:
        raise Unsupported(
            f"the writer of an ORC file names its time zone {zone[:60]!r}, which the tz database does not have; "
            "its TIMESTAMP columns are wall clocks there. "
            "Read other columns, or have the engine that wrote it rewrite it in UTC",
            feature="file.format.orc",
        ) from None
    return 0, name


def _offsets(seconds: Seconds, name: str) -> Seconds:
    clock = pl.Series(seconds * 1000).cast(pl.Datetime("ms", "UTC")).dt.convert_time_zone(name)
    return (clock.dt.base_utc_offset() + clock.dt.dst_offset()).cast(pl.Int64).to_numpy() // 1000


@lru_cache(maxsize=64)
def _standard_offset(name: str) -> int:
    """Return the standard offset of a zone under its last rules.

    It is the least offset of a year, whatever the database calls summer time.
    """
    return int(_offsets(np.arange(*_YEAR_2036, 86_400, dtype=np.int64), name).min())


def _into_known_years(seconds: Seconds) -> Seconds:
    """Move instants after 2099 into years of the same calendar, for which zones have the same rules."""
    late = seconds >= _RULE_SECOND
    if not late.any():
        return seconds
    moved = seconds.copy()
    years = seconds[late].astype("datetime64[s]").astype("datetime64[Y]")
    distinct, indexes = np.unique(years, return_inverse=True)
    shifts = np.array([_shift(int(year)) for year in distinct.astype(np.int64) + 1970], np.int64)
    moved[late] -= shifts[indexes]
    return moved


@lru_cache(maxsize=512)
def _shift(year: int) -> int:
    """Return the seconds between the start of `year` and of the `_RULE_YEARS` year with its calendar."""
    first = _first_second(year)
    kind = _kind(year)
    same = next(candidate for candidate in reversed(_RULE_YEARS) if _kind(candidate) == kind)
    return first - _first_second(same)


def _first_second(year: int) -> int:
    return _days_before(year) * 86_400


def _days_before(year: int) -> int:
    """Return the days from 1970-01-01 to the first day of a year."""
    years_before = year - 1
    return years_before * 365 + years_before // 4 - years_before // 100 + years_before // 400 - 719_162


def _kind(year: int) -> tuple[bool, int]:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0), _days_before(year) % 7
