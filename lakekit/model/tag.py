"""The tag file `tag/tag-<name>`: the JSON of the tagged snapshot, and the tag's lifetime.

    { …every member of the snapshot…,
      "tagCreateTime" : [ 2026, 11, 21, 9, 25, 49, 880283283 ],     local time; trailing zero seconds and nanoseconds
                                                                    are left out; ISO text is read too
      "tagTimeRetained" : 129600.000000000                          seconds; ISO text such as PT36H is read too
    }

Source: FORMAT.md 3.4, ENGINE.md 5.10, `Tag`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lakekit.errors import Corrupt
from lakekit.model import json_codec
from lakekit.model.json_codec import invalid_member
from lakekit.model.partition import civil, epoch_day
from lakekit.model.snapshot import Snapshot, from_members
from lakekit.options.option import read_iso_duration_ns
from lakekit.types import Instant

if TYPE_CHECKING:
    from collections.abc import Callable

CREATE_TIME = "tagCreateTime"
TIME_RETAINED = "tagTimeRetained"
_DAY_MS = 86_400_000
_SECOND_NS = 1_000_000_000
_ISO_TIME = re.compile(r"([+-]?\d{4,9})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A named snapshot. `create_time` is local time without zone; `time_retained_ns` None: without limit."""

    name: str
    snapshot: Snapshot
    create_time: Instant | None = None
    time_retained_ns: int | None = None
    nulls: tuple[str, ...] = json_codec.nulls_member()

    @staticmethod
    def from_json(data: bytes, name: str, path: str | None = None) -> Tag:
        """Decode a tag file. Raises `Corrupt` or `Unsupported`."""
        members = json_codec.loads(data, path)
        nulls = tuple(
            member for member in (CREATE_TIME, TIME_RETAINED) if member in members and members[member] is None
        )
        try:
            created = _take(members, CREATE_TIME, _time)
            retained = _take(members, TIME_RETAINED, _duration_ns)
        except Corrupt as damaged:
            raise (damaged.at(path) if path else damaged) from None
        return Tag(
            name=name, snapshot=from_members(members, path), create_time=created, time_retained_ns=retained, nulls=nulls
        )

    def to_json(self) -> bytes:
        """Return the file's bytes, as the reference prints them."""
        members = json_codec.encode(self.snapshot)
        if self.create_time is not None:
            members[CREATE_TIME] = _time_parts(self.create_time)
        if self.time_retained_ns is not None:
            members[TIME_RETAINED] = Decimal(_seconds(self.time_retained_ns))
        return json_codec.dumps(members | {name: None for name in self.nulls if name not in members})


def _take(members: dict[str, Any], name: str, read: Callable[[str, Any], Any]) -> Any:
    value = members.pop(name, None)
    return None if value is None else read(name, value)


def _time(name: str, value: Any) -> Instant:
    if isinstance(value, str):
        matched = _ISO_TIME.fullmatch(value)
        if matched is None:
            raise Corrupt(f"member {name!r} is {value[:60]!r}, which is no ISO date and time", field=name)
        parts = [int(part or 0) for part in matched.groups()[:6]] + [int((matched.group(7) or "").ljust(9, "0"))]
    elif isinstance(value, list) and 5 <= len(value) <= 7:
        parts = [json_codec.integer(name, part, low=-999_999_999, high=999_999_999) for part in value]
        parts += [0] * (7 - len(parts))
    else:
        raise invalid_member(name, "a date and time as a list of 5 to 7 numbers or as text", value)
    year, month, day, hour, minute, second, nano = parts
    if not (
        1 <= month <= 12
        and 1 <= day <= 31
        and 0 <= hour <= 23
        and 0 <= minute <= 59
        and 0 <= second <= 59
        and nano >= 0
    ):
        raise Corrupt(f"member {name!r} is no date and time: {parts}", field=name)
    since = epoch_day(year, month, day)
    if civil(since) != (year, month, day):
        raise Corrupt(f"member {name!r} is no date: {parts[:3]}", field=name)
    return Instant(since * _DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000 + nano // 1_000_000, nano % 1_000_000)


def _time_parts(value: Instant) -> list[int]:
    day, of_day = divmod(value.millis, _DAY_MS)
    seconds, millis = divmod(of_day, 1000)
    nano = millis * 1_000_000 + value.nanos
    parts = [*civil(day), seconds // 3600, seconds // 60 % 60]
    return [*parts, seconds % 60, nano] if nano else [*parts, seconds % 60] if seconds % 60 else parts


def _seconds(duration_ns: int) -> str:
    """Format a duration with nine decimals, but one for zero, as the reference does."""
    if duration_ns == 0:
        return "0.0"
    seconds, nanoseconds = divmod(abs(duration_ns), _SECOND_NS)
    return f"{'-' if duration_ns < 0 else ''}{seconds}.{nanoseconds:09d}"


def _duration_ns(name: str, value: Any) -> int:
    if isinstance(value, str):
        try:
            duration_ns = read_iso_duration_ns(value)
        except ValueError:
            raise Corrupt(f"member {name!r} is {value[:60]!r}, which is no ISO duration", field=name) from None
    elif isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        if isinstance(value, Decimal) and not -20 <= value.adjusted() <= 20 and value:
            raise Corrupt(f"member {name!r} is beyond 64 bits", field=name)
        duration_ns = int(value * _SECOND_NS)
    else:
        raise invalid_member(name, "seconds or an ISO duration", value)
    if not -(2**63) <= duration_ns // _SECOND_NS < 2**63:
        raise Corrupt(f"member {name!r} is beyond 64 bits", field=name)
    return duration_ns
