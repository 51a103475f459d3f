"""Which snapshot a read means: `at=`, the `scan.*` options, or the newest (ENGINE 6.1, 6.2).

    at=3 · at="v1" (a tag of that name, else digits are a snapshot, else an ISO time) · at=datetime(2024, 3, 1)
    {"scan.mode": "compacted-full"} · {"scan.timestamp-millis": "1700000000000"} · {"scan.watermark": "…"} · …

Going back in time also goes back to the schema of that time; the newest snapshot is read with the newest schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakekit.errors import InvalidOption, SnapshotNotFound
from lakekit.metadata import schemas, snapshots, tags
from lakekit.model.snapshot import BATCH_IDENTIFIER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot

_MOST_DIGITS = 19
_WATERMARK = "watermark-"
POSITIONS = ("scan.snapshot-id", "scan.tag-name", "scan.watermark", "scan.timestamp", "scan.timestamp-millis")
"""Options that each name one position: only one of them may be set."""
FILES_SINCE = "scan.file-creation-time-millis"
"""The option that asks for the rows of files made since a time."""
_OTHER_SCAN_KEYS = ("scan.mode", "scan.version", "scan.creation-time-millis", FILES_SINCE)
LATEST_MODES = ("latest", "latest-full", "compacted-full")
SCAN_KEYS = (*POSITIONS, *_OTHER_SCAN_KEYS)
INCREMENTAL_KEYS = ("incremental-between", "incremental-between-timestamp", "incremental-to-auto-tag")
"""Options that each name a range of changes."""
INCREMENTAL_MODES = ("incremental", "latest-delta")
"""Scan modes that read changes and not a state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a read stands. No snapshot: the table is empty. `schema_id` None: the newest schema. `created_since_ms`: only files made since."""

    snapshot: Snapshot | None
    schema_id: int | None = None
    created_since_ms: int | None = None


def means_changes(ctx: TableContext) -> bool:
    """Whether the table's options ask for what changed and not for a state (ENGINE 6.1)."""
    return ctx.options.scan_mode in INCREMENTAL_MODES or any(ctx.all_options.get(key) is not None for key in INCREMENTAL_KEYS)


EMPTY_TABLE = Position(snapshot=None)
"""Where a table without snapshots is read: with the newest schema."""


def means_newest(ctx: TableContext) -> bool:
    """Whether the table's options ask for the newest snapshot, whichever that is: which one need not be known to know its columns. Raises `InvalidOption`."""
    return scan_mode_of(ctx)[0] in ("latest", "latest-full")


def names_a_snapshot(ctx: TableContext, at: int | str | datetime | None) -> bool:
    """Whether `at`, or else the table's options, name a snapshot by its number or a tag: names that another branch gives to others."""
    if at is None:
        found = ctx.all_options
        version = found.get("scan.version")
        return "scan.snapshot-id" in found or "scan.tag-name" in found or (version is not None and not version.startswith(_WATERMARK))
    if isinstance(at, str):
        return tags.find(ctx, at) is not None or digits(at) is not None
    return isinstance(at, int)


def locate(ctx: TableContext, at: int | str | datetime | None = None) -> Position:
    """The position that `at`, or else the table's options, mean. Raises `SnapshotNotFound`, `TagNotFound` or `InvalidOption`."""
    if at is not None:
        return at_snapshot(_resolve_at(ctx, at))
    return _by_mode(ctx, *scan_mode_of(ctx))


def scan_mode_of(ctx: TableContext) -> tuple[str, dict[str, str]]:
    """The scan mode that the table's options mean, and those options. Raises `InvalidOption` where they contradict each other."""
    found = {key: value for key in SCAN_KEYS if (value := ctx.all_options.get(key)) is not None}
    named = [key for key in (*POSITIONS, "scan.version") if key in found]
    if len(named) > 1 and named != ["scan.snapshot-id", "scan.version"]:  # which the reference takes for one
        msg = f"{' and '.join(named)} each name a snapshot: set only one of them"
        raise InvalidOption(msg, key=named[1], value=found[named[1]])
    mode = _mode(ctx.options.scan_mode, found)
    other = named[0] if named else None
    if other is not None and mode in LATEST_MODES:
        msg = f"scan.mode {mode!r} reads the newest snapshot and {other} names another: set one of them"
        raise InvalidOption(msg, key=other, value=found[other])
    if other is not None and mode == "from-creation-timestamp":
        msg = f"scan.mode {mode!r} begins at a time and {other} names a snapshot: set one of them"
        raise InvalidOption(msg, key=other, value=found[other])
    if FILES_SINCE in found and (other is not None or mode != "from-file-creation-time"):
        msg = f"{FILES_SINCE} asks for the rows of files made since, and {other or f'scan.mode {mode!r}'} for others: set one of them"
        raise InvalidOption(msg, key=FILES_SINCE, value=found[FILES_SINCE])
    return mode, found


def _mode(mode: str, found: dict[str, str]) -> str:
    if mode == "full":
        return "latest-full"
    if mode != "default":
        return mode
    if "scan.timestamp" in found or "scan.timestamp-millis" in found:
        return "from-timestamp"
    if found.keys() & {"scan.snapshot-id", "scan.tag-name", "scan.watermark", "scan.version"}:
        return "from-snapshot"
    if FILES_SINCE in found:
        return "from-file-creation-time"
    return "from-creation-timestamp" if "scan.creation-time-millis" in found else "latest-full"


def _by_mode(ctx: TableContext, mode: str, found: dict[str, str]) -> Position:
    match mode:
        case "latest-full" | "latest":
            return Position(snapshot=snapshots.latest(ctx))
        case "compacted-full":
            return Position(snapshot=find_latest_compacted(ctx))
        case "from-timestamp":
            return at_snapshot(_read_at_time(ctx, millis(found)))
        case "from-snapshot" | "from-snapshot-full":
            return at_snapshot(_read_from_options(ctx, found, mode))
        case "from-file-creation-time":
            return Position(snapshot=snapshots.latest(ctx), created_since_ms=whole_number(found, FILES_SINCE))
        case "from-creation-timestamp":
            return position_since_creation(ctx, whole_number(found, "scan.creation-time-millis"))
    msg = f"scan.mode {mode!r} is not one a batch read knows: latest-full, latest, compacted-full, from-timestamp, from-snapshot, from-snapshot-full, \
from-file-creation-time, from-creation-timestamp; changes are what t.scan() and t.changes() read"
    raise InvalidOption(msg, key="scan.mode", value=mode)


def at_snapshot(snapshot: Snapshot) -> Position:
    """A position at a snapshot, with the schema of its time."""
    return Position(snapshot=snapshot, schema_id=snapshot.schema_id)


def _resolve_at(ctx: TableContext, at: int | str | datetime) -> Snapshot:
    if isinstance(at, bool) or not isinstance(at, (int, str, datetime)):
        msg = f"at= takes a snapshot id, a tag, an ISO time or a datetime, not {type(at).__name__}"
        raise TypeError(msg)
    if isinstance(at, int):
        return snapshots.read(ctx, at)
    if isinstance(at, datetime):
        return _read_at_time(ctx, time_ms(ctx, at))
    if (tag := tags.find(ctx, at)) is not None:
        return tag.snapshot
    if (number := digits(at)) is not None:
        return snapshots.read(ctx, number)
    return _read_at_time(ctx, time_ms(ctx, at))


def digits(text: str) -> int | None:
    """The number that a text of digits alone writes, where 64 bits can hold it."""
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= _MOST_DIGITS else None


def time_ms(ctx: TableContext, at: str | datetime) -> int:
    """A time in milliseconds since 1970; a naive one is local. Raises `TagNotFound` for a text that is neither a tag nor a time."""
    try:
        return _millis(at if isinstance(at, datetime) else datetime.fromisoformat(at))
    except ValueError:
        raise tags.tag_not_found(ctx, str(at)) from None


def _millis(time: datetime) -> int:
    """A time in milliseconds since 1970, a naive one is local; at the ends of the calendar, where no zone is known, UTC."""
    try:
        return int(time.timestamp() * 1000)
    except (ValueError, OverflowError):
        return int(time.replace(tzinfo=UTC).timestamp() * 1000)


def _read_at_time(ctx: TableContext, time_ms: int) -> Snapshot:
    """The newest snapshot at or before a time."""
    found = snapshots.at_time(ctx, time_ms)
    if found is None:
        msg = f"{ctx.name} has no snapshot at or before {snapshots.moment(time_ms)}; {snapshots.describe_times(ctx)}"
        raise SnapshotNotFound(msg, name=str(time_ms))
    return found


def _read_from_options(ctx: TableContext, found: dict[str, str], mode: str) -> Snapshot:
    if "scan.version" in found:
        return _version(ctx, found["scan.version"])
    if "scan.snapshot-id" in found:
        return snapshots.read(ctx, whole_number(found, "scan.snapshot-id"))
    if "scan.tag-name" in found:
        return tags.read(ctx, found["scan.tag-name"]).snapshot
    if "scan.watermark" in found:
        return snapshots.at_watermark(ctx, whole_number(found, "scan.watermark"))
    msg = f"scan.mode {mode!r} needs scan.snapshot-id, scan.tag-name or scan.watermark"
    raise InvalidOption(msg, key="scan.mode", value=mode)


def _version(ctx: TableContext, version: str) -> Snapshot:
    """`scan.version`: a tag of that name, `watermark-N`, or a snapshot id."""
    if (tag := tags.find(ctx, version)) is not None:
        return tag.snapshot
    if version.startswith(_WATERMARK) and (watermark := digits(version.removeprefix(_WATERMARK))) is not None:
        return snapshots.at_watermark(ctx, watermark)
    if (snapshot_id := digits(version)) is not None:
        return snapshots.read(ctx, snapshot_id)
    raise tags.tag_not_found(ctx, version)


def find_latest_compacted(ctx: TableContext) -> Snapshot | None:
    """The newest COMPACT snapshot, of a full compaction where those come at regular commits; else the newest snapshot."""
    every = ctx.options.full_compaction_delta_commits
    if every is None and ctx.options.changelog_producer == "full-compaction":
        every = 1
    for number in sorted(snapshots.ids(ctx), reverse=True):
        snapshot = snapshots.read(ctx, number)
        if snapshot.commit_kind == "COMPACT" and (every is None or snapshot.commit_identifier == BATCH_IDENTIFIER or snapshot.commit_identifier % every == 0):
            return snapshot
    return snapshots.latest(ctx)


def position_since_creation(ctx: TableContext, time_ms: int) -> Position:
    """The first snapshot after the last one before a time, else the newest with only the files made since; both with the newest schema, as the reference.

    The last one may have expired, where a long-lived changelog tells of it. Raises `SnapshotNotFound` where only changelogs tell of the first one too.
    """
    earlier = snapshots.change_at_time(ctx, time_ms - 1)
    if earlier is not None and earlier.id + 1 in (*snapshots.ids(ctx), *snapshots.changelog_ids(ctx)):
        return Position(snapshot=snapshots.read(ctx, earlier.id + 1))
    return Position(snapshot=snapshots.latest(ctx), created_since_ms=time_ms)


def millis(found: Mapping[str, str]) -> int:
    """The time that `scan.timestamp` or `scan.timestamp-millis` names."""
    if "scan.timestamp-millis" in found:
        return whole_number(found, "scan.timestamp-millis")
    text = found.get("scan.timestamp", "")
    try:
        return _millis(datetime.fromisoformat(text))
    except ValueError:
        msg = f"scan.timestamp is a time such as 2024-03-01 12:00:00, not {text!r}"
        raise InvalidOption(msg, key="scan.timestamp", value=text) from None


def whole_number(found: Mapping[str, str], key: str) -> int:
    """A whole number of 64 bits among options. Raises `InvalidOption`."""
    text = found.get(key, "").strip()
    number = digits(text.removeprefix("-"))
    if number is None or number >= 2**63:
        msg = f"{key} is a whole number of 64 bits, not {text[:200]!a}"
        raise InvalidOption(msg, key=key, value=text)
    return -number if text.startswith("-") else number


def schema_of(ctx: TableContext, position: Position) -> TableContext:
    """The handle as of a position: with the schema of that time, or the newest."""
    if position.schema_id is None:
        return ctx if schemas.newest_id(ctx) == ctx.schema.id else ctx.with_schema(schemas.latest(ctx))
    return ctx if ctx.schema.id == position.schema_id else ctx.with_schema(schemas.read(ctx, position.schema_id))
