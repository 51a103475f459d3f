"""Where a stream begins: the state it reads first, if any, and the snapshot after it (ENGINE 6.2).

    scan.mode                 first                                   then
    latest-full               the newest snapshot's rows              the snapshots after it
    latest                    –                                       what is committed from now on
    compacted-full            the newest compacted snapshot's rows    the snapshots after it
    from-timestamp            –                                       the first snapshot at that time or later
    from-snapshot             –                                       that snapshot, or the oldest one
    from-snapshot-full        that snapshot's rows                    the snapshots after it
    from-creation-timestamp   –                                       the first snapshot at that time or later;
                                                                      if none is older, as below
    from-file-creation-time   rows of files created since             the snapshots after it

A consumer with progress begins there, whatever the mode is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from lakekit.errors import InvalidOption
from lakekit.metadata import refs, snapshots
from lakekit.options.definitions import SCAN_MODES
from lakekit.read import time_travel
from lakekit.read.time_travel import Position
from lakekit.runtime import warn_user

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot

STREAM_MODES = (
    "latest-full",
    "latest",
    "compacted-full",
    "from-timestamp",
    "from-snapshot",
    "from-snapshot-full",
    "from-creation-timestamp",
    "from-file-creation-time",
)

_REQUIRED_OPTIONS = {
    "from-timestamp": ("scan.timestamp-millis", "scan.timestamp"),
    "from-creation-timestamp": ("scan.creation-time-millis",),
    "from-file-creation-time": ("scan.file-creation-time-millis",),
}
"""Options of which a mode needs one."""

_ENGINE_TITLES = {"partial-update": "Partial update", "aggregation": "Pre-aggregate", "first-row": "First row"}
_CHANGELOG_HINTS = (
    (
        "its rows are parts of rows until they are merged",
        "'lookup' or 'full-compaction', or to 'input' to be told the rows as they came",
    ),
    ("rows that an earlier one hides would be told too", "'lookup', the only one that first-row goes with"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStart:
    """A state to read first, or None; and the snapshot that comes next."""

    initial_state: Position | None = None
    next_id: int


def with_start_option(ctx: TableContext, start: str | int | datetime | None) -> TableContext:
    """Return the context with options that say where to begin.

    `start` is a mode, a snapshot id or a time; None: as the options say.

    Raises:
        InvalidOption: streams do not have the mode, or options contradict each other.
    """
    if isinstance(start, bool) or not (start is None or isinstance(start, (str, int, datetime))):
        msg = f"start is a scan.mode, a snapshot id or a datetime, not {type(start).__name__}"
        raise TypeError(msg)
    cleared: dict[str, str | None] = dict.fromkeys(time_travel.SCAN_KEYS) if isinstance(start, (int, datetime)) else {}
    if isinstance(start, int):
        ctx = ctx.with_options({**cleared, "scan.mode": "from-snapshot", "scan.snapshot-id": str(start)})
    elif isinstance(start, datetime):
        ctx = ctx.with_options(
            {
                **cleared,
                "scan.mode": "from-timestamp",
                "scan.timestamp-millis": str(time_travel.to_epoch_millis(ctx, start)),
            }
        )
    elif start is not None:
        if start not in SCAN_MODES.split():
            msg = f"start is one of {', '.join(STREAM_MODES)}, a snapshot id or a datetime, not {start!r}"
            raise InvalidOption(msg, key="scan.mode", value=start)
        ctx = ctx.with_options({"scan.mode": start})
    _check_start_options(ctx)
    return ctx


def _check_start_options(ctx: TableContext) -> None:
    mode, scan_options = time_travel.scan_mode_of(ctx)
    if time_travel.means_changes(ctx) or mode not in STREAM_MODES:
        also = next((key for key in time_travel.INCREMENTAL_KEYS if ctx.all_options.get(key) is not None), "scan.mode")
        msg = (
            f"{also} {ctx.all_options.get(also)!r} is not something a stream begins with; those are "
            f"{', '.join(STREAM_MODES)}. t.changes() reads ranges"
        )
        raise InvalidOption(msg, key=also, value=str(ctx.all_options.get(also)))
    if mode.startswith("from-snapshot"):
        other = next((key for key in ("scan.tag-name", "scan.watermark", "scan.version") if key in scan_options), None)
        if other is not None or "scan.snapshot-id" not in scan_options:
            msg = (
                f"a stream with scan.mode {mode!r} begins at a scan.snapshot-id, and not at {other or 'nothing'}: "
                "Cannot scan from tag in streaming mode."
            )
            raise InvalidOption(msg, key=other or "scan.snapshot-id", value=scan_options.get(other or ""))
    needed = _REQUIRED_OPTIONS.get(mode, ())
    if needed and not scan_options.keys() & set(needed):
        msg = f"a stream with scan.mode {mode!r} begins at a time: set {' or '.join(needed)}, or give start= a datetime"
        raise InvalidOption(msg, key=needed[0])
    for key in ("scan.snapshot-id", "scan.creation-time-millis", "scan.file-creation-time-millis"):
        if key in scan_options:
            time_travel.read_int64_option(scan_options, key)
    if mode == "from-timestamp":
        time_travel.read_timestamp_option(scan_options)


def start_of_consumer(ctx: TableContext, consumer: str) -> StreamStart | None:
    """Return where a consumer continues; None for one without progress.

    Snapshots that expired before it came to them are skipped, with a warning.
    """
    progress = refs.find_consumer(ctx, consumer)
    return (
        None
        if progress is None
        else StreamStart(next_id=_clamp_to_oldest(ctx, progress.next_snapshot, f"consumer {consumer!r}"))
    )


def find_stream_start(ctx: TableContext, *, newest_at_call: int | None) -> StreamStart | None:
    """Return where a stream begins; None while the table has nothing to begin with.

    `newest_at_call` is the newest snapshot when the stream was requested.
    """
    mode, scan_options = time_travel.scan_mode_of(ctx)
    if mode == "latest":
        return StreamStart(next_id=(newest_at_call or 0) + 1)
    newest = snapshots.latest(ctx)
    if newest is None:
        return None
    match mode:
        case "from-snapshot":
            return StreamStart(
                next_id=_clamp_to_oldest(
                    ctx, time_travel.read_int64_option(scan_options, "scan.snapshot-id"), "the stream"
                )
            )
        case "from-timestamp":
            return StreamStart(
                next_id=_first_change_since(ctx, time_travel.read_timestamp_option(scan_options), newest.id)
            )
        case "from-creation-timestamp":
            return _start_since_creation(
                ctx, time_travel.read_int64_option(scan_options, "scan.creation-time-millis"), newest
            )
    return _start_after(_state_position(ctx, mode, scan_options))


def _state_position(ctx: TableContext, mode: str, scan_options: Mapping[str, str]) -> Position:
    """Return the state that is read first, with the columns of today, with which the stream continues."""
    match mode:
        case "compacted-full":
            return Position(snapshot=time_travel.find_latest_compacted(ctx))
        case "from-snapshot-full":
            oldest = snapshots.earliest_id(ctx) or 1
            return Position(
                snapshot=snapshots.read_snapshot(
                    ctx, max(oldest, time_travel.read_int64_option(scan_options, "scan.snapshot-id"))
                )
            )
        case "from-file-creation-time":
            return Position(
                snapshot=snapshots.latest(ctx),
                created_since_ms=time_travel.read_int64_option(scan_options, "scan.file-creation-time-millis"),
            )
    return Position(snapshot=snapshots.latest(ctx))


def _start_after(position: Position) -> StreamStart | None:
    return None if position.snapshot is None else StreamStart(initial_state=position, next_id=position.snapshot.id + 1)


def _start_since_creation(ctx: TableContext, time_ms: int, newest: Snapshot) -> StreamStart:
    """Return the start after the last snapshot, or long-lived changelog, before a time.

    Without one it is the files created since, and the snapshots after the newest.
    """
    earlier = snapshots.latest_change_at_or_before(ctx, time_ms - 1)
    if earlier is not None and earlier.id < newest.id:
        return StreamStart(next_id=earlier.id + 1)
    return StreamStart(initial_state=Position(snapshot=newest, created_since_ms=time_ms), next_id=newest.id + 1)


def _first_change_since(ctx: TableContext, time_ms: int, newest_id: int) -> int:
    """Return the first snapshot, or long-lived changelog, at a time or later; the next one if all are older."""
    for number in snapshots.changelog_ids(ctx):
        changelog = snapshots.find_changelog(ctx, number)
        if changelog is not None and changelog.time_millis >= time_ms:
            return number
    snapshot = snapshots.first_at_or_after(ctx, time_ms)
    return newest_id + 1 if snapshot is None else snapshot.id


def _clamp_to_oldest(ctx: TableContext, snapshot_id: int, subject: str) -> int:
    """Return that snapshot, or the oldest whose changes still exist."""
    oldest = oldest_change(ctx)
    if oldest is None or snapshot_id >= oldest:
        return snapshot_id
    if snapshot_id > 0:
        warn_user(
            f"{subject} wanted snapshot {snapshot_id} of {ctx.name}; those before {oldest} are gone, and it begins "
            "there"
        )
    return oldest


def oldest_change(ctx: TableContext) -> int | None:
    """Return the oldest snapshot whose changes can be read, from itself or from its long-lived changelog."""
    snapshot_ids = [
        number for number in (snapshots.earliest_id(ctx), *snapshots.changelog_ids(ctx)[:1]) if number is not None
    ]
    return min(snapshot_ids) if snapshot_ids else None


def check_stream_engine(ctx: TableContext) -> None:
    """Raise `InvalidOption` if the stream would return rows as they were written as if they were merged.

    Source: `TableScanUtils`.
    """
    engine = ctx.options.merge_engine
    if ctx.schema.primary_keys and engine in _ENGINE_TITLES and ctx.options.changelog_producer == "none":
        why, producers = _CHANGELOG_HINTS[engine == "first-row"]
        msg = (
            f"{_ENGINE_TITLES[engine]} continuous reading is not supported: {ctx.name} keeps no changelog, and {why}. "
            f"Set changelog-producer to {producers}; t.scan() and t.changes(mode='diff') read states"
        )
        raise InvalidOption(msg, key="changelog-producer", value="none")
    if ctx.options.streaming_read_overwrite:
        _check_overwrites(ctx)


def _check_overwrites(ctx: TableContext) -> None:
    """Raise `InvalidOption` if a stream's options ask for overwrites that no table of its kind can return.

    Source: `SchemaValidation`.
    """
    producer, why = ctx.options.changelog_producer, ""
    if not ctx.schema.primary_keys:
        why = "is for key tables: set streaming-read-append-overwrite for an append table"
    elif producer in ("full-compaction", "lookup"):
        why = (
            f"does not go with the changelog producer {producer}, whose later changelogs may tell the rows of "
            "overwrites too: they would be told twice. t.changes(mode='diff') tells what they changed"
        )
    if why:
        raise InvalidOption(
            f"streaming-read-overwrite {why}; found it set for {ctx.name}", key="streaming-read-overwrite", value="true"
        )


def poll_ms(ctx: TableContext, poll: float | timedelta | None) -> float:
    """Return the time between two looks for a new snapshot, in milliseconds; for None, that of the table's options."""
    if poll is None:
        return ctx.options.continuous_discovery_interval_ms
    seconds: object = poll.total_seconds() if isinstance(poll, timedelta) else poll
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < float("inf"):
        raise InvalidOption(
            f"poll is a time in seconds, 0 or more, or a timedelta, not {poll!r}", key="poll", value=str(poll)
        )
    return seconds * 1000
