"""The files of snapshots, long-lived changelogs, consumers, hints, statistics and tags.

    snapshot/snapshot-<id>, changelog/changelog-<id>: one committed state of the table
    {
      "version" : 3,
      "id" : 1,
      "schemaId" : 0,
      "baseManifestList" : "manifest-list-…-0",          every manifest of the snapshot before
      "deltaManifestList" : "manifest-list-…-1",         what this commit added and deleted
      "changelogManifestList" : "manifest-list-…-2",     its changelog files, if any
      "indexManifest" : "index-manifest-…-0",            hash indexes and deletion vectors, if any
      "commitUser" : "…", "commitIdentifier" : 9223372036854775807, "commitKind" : "APPEND",
      "timeMillis" : 1795282714096,
      "totalRecordCount" : 4, "deltaRecordCount" : 4, …
    }
    consumer/consumer-<id>: the snapshot that a streaming reader reads next
    { "nextSnapshot" : 5 }
    snapshot/LATEST, EARLIEST: a snapshot id in ASCII digits, and nothing else; advice that needs proof
    33 31                 "31"
    statistics/stat-<uuid>-<n>: what ANALYZE writes; `min` and `max` are texts
    { "snapshotId" : 1, "schemaId" : 0, "mergedRecordCount" : 1, "mergedRecordSize" : 100,
      "colStats" : { "dec" : { "colId" : 4, "distinctCount" : 1, "min" : "1.50", "max" : "1.50",
                               "nullCount" : 0, "avgLen" : 8, "maxLen" : 8 } } }
    tag/tag-<name>: the JSON of the tagged snapshot, and the tag's lifetime
    { …every member of the snapshot…,
      "tagCreateTime" : [ 2026, 11, 21, 9, 25, 49, 880283283 ],     local time; trailing zero seconds and nanoseconds
                                                                    are left out; ISO text is read too
      "tagTimeRetained" : 129600.000000000                          seconds; ISO text such as PT36H is read too
    }

Members that are not set are left out by today's writers and were `null` in old ones; both are read, and written back as
they were.

Source: FORMAT.md 1.6, 3.1, 3.4, 3.6, 3.7, ENGINE.md 5.10, ENGINE_1.4.2.md B; `Snapshot`, `Changelog`, `Consumer`,
`HintFileUtils`, `Statistics`, `ColStats`, `Tag`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lakekit.errors import Corrupt, Unsupported
from lakekit.model import json_codec
from lakekit.model.json_codec import (
    invalid_member,
    json_member,
    read_any,
    read_count,
    read_int32,
    read_integer,
    read_text,
    read_text_map,
)
from lakekit.model.partition import civil_date, epoch_day
from lakekit.model.table_paths import checked_name
from lakekit.options.option import EMPTY, FrozenDict, read_iso_duration_ns
from lakekit.types import Instant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakekit.types import DataType


CURRENT_VERSION = 3
COMMIT_KINDS = ("APPEND", "COMPACT", "OVERWRITE", "ANALYZE")
BATCH_IDENTIFIER = 2**63 - 1
"""The commit identifier of writers that do not count their commits."""
NO_WATERMARK = -(2**63)
"""What old writers put where there is no watermark."""


def check_file_name(name: str, value: Any) -> str:
    """Return a plain file name in the directory that the member implies. Raises `Corrupt`."""
    return checked_name(read_text(name, value), field=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One committed state of a table. Counts are physical rows: several versions of a key count each."""

    version: int = json_member("version", read_int32, default=1)
    uuid: str | None = json_member("uuid", read_text, default=None)
    id: int = json_member("id", read_count)
    schema_id: int = json_member("schemaId", read_count)
    base_manifest_list: str = json_member("baseManifestList", check_file_name)
    base_manifest_list_size: int | None = json_member("baseManifestListSize", read_count, default=None)
    delta_manifest_list: str = json_member("deltaManifestList", check_file_name)
    delta_manifest_list_size: int | None = json_member("deltaManifestListSize", read_count, default=None)
    changelog_manifest_list: str | None = json_member("changelogManifestList", check_file_name, default=None)
    changelog_manifest_list_size: int | None = json_member("changelogManifestListSize", read_count, default=None)
    index_manifest: str | None = json_member("indexManifest", check_file_name, default=None)
    commit_user: str = json_member("commitUser", read_text)
    writer_version: str | None = json_member("writerVersion", read_text, default=None)
    commit_identifier: int = json_member("commitIdentifier", read_integer)
    commit_kind: str = json_member("commitKind", read_text)
    time_millis: int = json_member("timeMillis", read_integer)
    log_offsets: Mapping[str, int] | None = json_member("logOffsets", read_any, default=None)
    total_record_count: int | None = json_member("totalRecordCount", read_integer, default=None)
    delta_record_count: int | None = json_member("deltaRecordCount", read_integer, default=None)
    changelog_record_count: int | None = json_member("changelogRecordCount", read_integer, default=None)
    watermark: int | None = json_member("watermark", read_integer, default=None)
    statistics: str | None = json_member("statistics", check_file_name, default=None)
    properties: Mapping[str, str] | None = json_member("properties", read_text_map, default=None)
    next_row_id: int | None = json_member("nextRowId", read_integer, default=None)
    operation: str | None = json_member("operation", read_text, default=None)
    extra: Mapping[str, Any] = json_codec.extra_members_field()
    nulls: tuple[str, ...] = json_codec.null_member_names_field()

    @staticmethod
    def from_json(data: bytes, path: str | None = None) -> Snapshot:
        """Decode a snapshot file.

        Raises `Corrupt`, or `Unsupported` for a version or commit kind that lakekit does not know.
        """
        return _from_json_cached(data, path) if len(data) <= _KEPT_BYTES else _from_json(data, path)

    def to_json(self) -> bytes:
        """Return the file's bytes, as the reference prints them."""
        return json_codec.format_object(json_codec.to_members(self))

    @property
    def watermark_or_none(self) -> int | None:
        """The watermark; None also if an old writer wrote the smallest number for none."""
        return None if self.watermark == NO_WATERMARK else self.watermark

    def without_extra(self) -> Snapshot:
        """Return the same snapshot without unknown members, as a new file holds it."""
        return replace(self, extra=EMPTY, nulls=())


_KEPT_BYTES = 8192
"""Snapshots are mostly smaller, and the newest is read by every question: what such bytes say is kept for a while."""


def _from_json(data: bytes, path: str | None) -> Snapshot:
    return from_members(json_codec.loads(data, path), path)


_from_json_cached = lru_cache(32)(_from_json)


def from_members(members: Mapping[str, Any], path: str | None = None) -> Snapshot:
    """Return the snapshot from the members of a JSON object; also used for a tag's file."""
    snapshot = json_codec.from_members(Snapshot, members, path)
    subject = path or "the snapshot"
    if not 1 <= snapshot.version <= CURRENT_VERSION:
        raise Unsupported(
            f"{subject} has version {snapshot.version}; lakekit knows 1 to {CURRENT_VERSION}. A newer engine wrote it",
            feature=f"snapshot.version-{snapshot.version}",
            path=path,
        )
    if snapshot.commit_kind not in COMMIT_KINDS:
        kind = snapshot.commit_kind[:40]
        raise Unsupported(
            f"{subject} is of commit kind {kind!r}; lakekit knows {', '.join(COMMIT_KINDS)}",
            feature=f"commit-kind.{kind}",
            path=path,
        )
    return snapshot


# ---- consumer ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """The progress of a named reader; snapshots from `next_snapshot` on are kept for it."""

    next_snapshot: int = json_member("nextSnapshot", read_count)
    extra: Mapping[str, Any] = json_codec.extra_members_field()

    @staticmethod
    def from_json(data: bytes, path: str | None = None) -> Consumer:
        """Decode a consumer file. Raises `Corrupt`."""
        return json_codec.from_members(Consumer, json_codec.loads(data, path), path)

    def to_json(self) -> bytes:
        """Return the file's bytes, as the reference prints them."""
        return json_codec.format_object(json_codec.to_members(self))


# ---- hint ------------------------------------------------------------


MAX_ID = 2**63 - 1
_MAX_ID_DIGITS = len(str(MAX_ID))


def decode_hint(data: bytes) -> int | None:
    """Return the id in a hint; None if it is invalid, as every reader then lists the directory."""
    if not 0 < len(data) <= _MAX_ID_DIGITS or not data.isdigit():
        return None
    snapshot_id = int(data)
    return snapshot_id if snapshot_id <= MAX_ID else None


def encode_hint(snapshot_id: int) -> bytes:
    """Return the bytes of a hint."""
    return str(snapshot_id).encode()


# ---- statistics ------------------------------------------------------------


_FIXED_WIDTHS = {
    "BOOLEAN": 1,
    "TINYINT": 1,
    "SMALLINT": 2,
    "INT": 4,
    "BIGINT": 8,
    "FLOAT": 4,
    "DOUBLE": 8,
    "DATE": 4,
    "TIME": 4,
    "TIMESTAMP": 8,
    "TIMESTAMP_LTZ": 8,
}
_LONG_DECIMAL = 18
"""Digits that eight bytes hold."""


def fixed_length_bytes(t: DataType) -> int:
    """Return the bytes of a value of a type, as statistics count them; 0 for a type whose values differ."""
    if t.root == "DECIMAL":
        return 8 if (t.precision or 0) <= _LONG_DECIMAL else 16
    return _FIXED_WIDTHS.get(t.root, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """Statistics of one column; lengths are in bytes."""

    column_id: int = json_member("colId", read_int32)
    distinct_count: int | None = json_member("distinctCount", read_integer, default=None)
    min: str | None = json_member("min", read_text, default=None)
    max: str | None = json_member("max", read_text, default=None)
    null_count: int | None = json_member("nullCount", read_integer, default=None)
    avg_length_bytes: int | None = json_member("avgLen", read_integer, default=None)
    max_length_bytes: int | None = json_member("maxLen", read_integer, default=None)
    extra: Mapping[str, Any] = json_codec.extra_members_field()
    nulls: tuple[str, ...] = json_codec.null_member_names_field()


def _read_columns(name: str, value: Any) -> FrozenDict[str, ColumnStatistics]:
    if not isinstance(value, dict):
        raise json_codec.invalid_member(name, "an object of columns", value)
    columns = {}
    for column, members in value.items():
        if not isinstance(members, dict):
            raise json_codec.invalid_member(f"{name}.{column}", "an object", members)
        columns[column] = json_codec.from_members(ColumnStatistics, members)
    return FrozenDict(columns)


def _columns_to_json(columns: Mapping[str, ColumnStatistics]) -> dict[str, Any]:
    return {name: json_codec.to_members(statistics) for name, statistics in columns.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Statistics of a snapshot; sizes are in bytes."""

    snapshot_id: int = json_member("snapshotId", read_integer)
    schema_id: int = json_member("schemaId", read_integer)
    merged_record_count: int | None = json_member("mergedRecordCount", read_integer, default=None)
    merged_record_size_bytes: int | None = json_member("mergedRecordSize", read_integer, default=None)
    columns: Mapping[str, ColumnStatistics] = json_member(
        "colStats", _read_columns, default=EMPTY, encode=_columns_to_json
    )
    extra: Mapping[str, Any] = json_codec.extra_members_field()
    nulls: tuple[str, ...] = json_codec.null_member_names_field()

    @staticmethod
    def from_json(data: bytes, path: str | None = None) -> Statistics:
        """Decode a statistics file. Raises `Corrupt`."""
        return json_codec.from_members(Statistics, json_codec.loads(data, path), path)

    def to_json(self) -> bytes:
        """Return the file's bytes, as the reference prints them."""
        return json_codec.format_object(json_codec.to_members(self))


# ---- tag ------------------------------------------------------------


TAG_CREATE_TIME = "tagCreateTime"
TAG_TIME_RETAINED = "tagTimeRetained"
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
    nulls: tuple[str, ...] = json_codec.null_member_names_field()

    @staticmethod
    def from_json(data: bytes, name: str, path: str | None = None) -> Tag:
        """Decode a tag file. Raises `Corrupt` or `Unsupported`."""
        members = json_codec.loads(data, path)
        nulls = tuple(
            member for member in (TAG_CREATE_TIME, TAG_TIME_RETAINED) if member in members and members[member] is None
        )
        try:
            created = _take_member(members, TAG_CREATE_TIME, _parse_time)
            retained = _take_member(members, TAG_TIME_RETAINED, _duration_ns)
        except Corrupt as damaged:
            raise (damaged.at(path) if path else damaged) from None
        return Tag(
            name=name, snapshot=from_members(members, path), create_time=created, time_retained_ns=retained, nulls=nulls
        )

    def to_json(self) -> bytes:
        """Return the file's bytes, as the reference prints them."""
        members = json_codec.to_members(self.snapshot)
        if self.create_time is not None:
            members[TAG_CREATE_TIME] = _time_parts(self.create_time)
        if self.time_retained_ns is not None:
            members[TAG_TIME_RETAINED] = Decimal(_seconds_text(self.time_retained_ns))
        return json_codec.format_object(members | {name: None for name in self.nulls if name not in members})


def _take_member(members: dict[str, Any], name: str, read: Callable[[str, Any], Any]) -> Any:
    value = members.pop(name, None)
    return None if value is None else read(name, value)


def _parse_time(name: str, value: Any) -> Instant:
    if isinstance(value, str):
        matched = _ISO_TIME.fullmatch(value)
        if matched is None:
            raise Corrupt(f"member {name!r} is {value[:60]!r}, which is no ISO date and time", field=name)
        parts = [int(part or 0) for part in matched.groups()[:6]] + [int((matched.group(7) or "").ljust(9, "0"))]
    elif isinstance(value, list) and 5 <= len(value) <= 7:
        parts = [json_codec.read_integer(name, part, low=-999_999_999, high=999_999_999) for part in value]
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
    if civil_date(since) != (year, month, day):
        raise Corrupt(f"member {name!r} is no date: {parts[:3]}", field=name)
    return Instant(since * _DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000 + nano // 1_000_000, nano % 1_000_000)


def _time_parts(value: Instant) -> list[int]:
    day, of_day = divmod(value.millis, _DAY_MS)
    seconds, millis = divmod(of_day, 1000)
    nano = millis * 1_000_000 + value.nanos
    parts = [*civil_date(day), seconds // 3600, seconds // 60 % 60]
    return [*parts, seconds % 60, nano] if nano else [*parts, seconds % 60] if seconds % 60 else parts


def _seconds_text(duration_ns: int) -> str:
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
