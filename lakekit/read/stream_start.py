"""Where a stream begins: the state it reads first, if any, and the snapshot after it (ENGINE 6.2, the streaming column).

    scan.mode                 first                                   then
    latest-full               the newest snapshot's rows              what follows it
    latest                    –                                       what is committed from now on
    compacted-full            the newest compacted snapshot's rows    what follows it
    from-timestamp            –                                       the first snapshot at that time or later
    from-snapshot             –                                       that snapshot, or the oldest there is
    from-snapshot-full        that snapshot's rows                    what follows it
    from-creation-timestamp   –                                       the first snapshot at that time or later; where none is older, as below
    from-file-creation-time   rows of files made since                what follows it

A consumer that has a place begins there, whatever the mode says.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lakekit.errors import InvalidOption
from lakekit.metadata import consumers, snapshots
from lakekit.options.definitions import SCAN_MODES
from lakekit.read import time_travel
from lakekit.read.time_travel import Position
from lakekit.world import warn_user

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A state to read first, None: none; and the snapshot that comes next."""

    state: Position | None = None
    next_id: int


def with_start(ctx: TableContext, start: str | int | datetime | None) -> TableContext:
    """The handle with options that say where to begin; `start` is a mode, a snapshot id or a time, None: as the options say.

    Raises `InvalidOption` for a mode that streams do not know, and where options contradict each other.
    """
    if isinstance(start, bool) or not (start is None or isinstance(start, (str, int, datetime))):
        msg = f"start is a scan.mode, a snapshot id or a datetime, not {type(start).__name__}"
        raise TypeError(msg)
    cleared: dict[str, str | None] = dict.fromkeys(time_travel.SCAN_KEYS) if isinstance(start, (int, datetime)) else {}
    if isinstance(start, int):
        ctx = ctx.with_options({**cleared, "scan.mode": "from-snapshot", "scan.snapshot-id": str(start)})
    elif isinstance(start, datetime):
        ctx = ctx.with_options({**cleared, "scan.mode": "from-timestamp", "scan.timestamp-millis": str(time_travel.time_ms(ctx, start))})
    elif start is not None:
        if start not in SCAN_MODES.split():
            msg = f"start is one of {', '.join(STREAM_MODES)}, a snapshot id or a datetime, not {start!r}"
            raise InvalidOption(msg, key="scan.mode", value=start)
        ctx = ctx.with_options({"scan.mode": start})
    _check(ctx)
    return ctx


def _check(ctx: TableContext) -> None:
    mode, found = time_travel.scan_mode_of(ctx)
    if time_travel.means_changes(ctx) or mode not in STREAM_MODES:
        also = next((key for key in time_travel.INCREMENTAL_KEYS if ctx.all_options.get(key) is not None), "scan.mode")
        msg = f"{also} {ctx.all_options.get(also)!r} is not something a stream begins with; those are {', '.join(STREAM_MODES)}. t.changes() reads ranges"
        raise InvalidOption(msg, key=also, value=str(ctx.all_options.get(also)))
    if mode.startswith("from-snapshot"):
        other = next((key for key in ("scan.tag-name", "scan.watermark", "scan.version") if key in found), None)
        if other is not None or "scan.snapshot-id" not in found:
            msg = f"a stream with scan.mode {mode!r} begins at a scan.snapshot-id, and not at {other or 'nothing'}: Cannot scan from tag in streaming mode."
            raise InvalidOption(msg, key=other or "scan.snapshot-id", value=found.get(other or ""))
    needed = _REQUIRED_OPTIONS.get(mode, ())
    if needed and not found.keys() & set(needed):
        msg = f"a stream with scan.mode {mode!r} begins at a time: set {' or '.join(needed)}, or give start= a datetime"
        raise InvalidOption(msg, key=needed[0])
    for key in ("scan.snapshot-id", "scan.creation-time-millis", "scan.file-creation-time-millis"):
        if key in found:
            time_travel.whole_number(found, key)
    if mode == "from-timestamp":
        time_travel.millis(found)


def start_of_consumer(ctx: TableContext, consumer: str) -> Start | None:
    """Where a consumer goes on; None for one that has no place yet. Snapshots that expired before it came to them are passed over, with a warning."""
    found = consumers.find(ctx, consumer)
    return None if found is None else Start(next_id=_clamp_to_oldest(ctx, found.next_snapshot, f"consumer {consumer!r}"))


def begin(ctx: TableContext, *, newest_at_call: int | None) -> Start | None:
    """Where a stream begins; None while the table has nothing to begin with. `newest_at_call`: the newest snapshot when the stream was asked for."""
    mode, found = time_travel.scan_mode_of(ctx)
    if mode == "latest":
        return Start(next_id=(newest_at_call or 0) + 1)
    newest = snapshots.latest(ctx)
    if newest is None:
        return None
    match mode:
        case "from-snapshot":
            return Start(next_id=_clamp_to_oldest(ctx, time_travel.whole_number(found, "scan.snapshot-id"), "the stream"))
        case "from-timestamp":
            return Start(next_id=_first_change_since(ctx, time_travel.millis(found), newest.id))
        case "from-creation-timestamp":
            return _start_since_creation(ctx, time_travel.whole_number(found, "scan.creation-time-millis"), newest)
    return _start_after(_state(ctx, mode, found))


def _state(ctx: TableContext, mode: str, found: Mapping[str, str]) -> Position:
    """The state that is read first. Its columns are today's: a stream goes on with them."""
    match mode:
        case "compacted-full":
            return Position(snapshot=time_travel.find_latest_compacted(ctx))
        case "from-snapshot-full":
            oldest = snapshots.earliest_id(ctx) or 1
            return Position(snapshot=snapshots.read(ctx, max(oldest, time_travel.whole_number(found, "scan.snapshot-id"))))
        case "from-file-creation-time":
            return Position(snapshot=snapshots.latest(ctx), created_since_ms=time_travel.whole_number(found, "scan.file-creation-time-millis"))
    return Position(snapshot=snapshots.latest(ctx))


def _start_after(position: Position) -> Start | None:
    return None if position.snapshot is None else Start(state=position, next_id=position.snapshot.id + 1)


def _start_since_creation(ctx: TableContext, time_ms: int, newest: Snapshot) -> Start:
    """What comes after the last snapshot, or long-lived changelog, before a time; without one the files made since, and what follows the newest snapshot."""
    earlier = snapshots.change_at_time(ctx, time_ms - 1)
    if earlier is not None and earlier.id < newest.id:
        return Start(next_id=earlier.id + 1)
    return Start(state=Position(snapshot=newest, created_since_ms=time_ms), next_id=newest.id + 1)


def _first_change_since(ctx: TableContext, time_ms: int, newest_id: int) -> int:
    """The first snapshot, or long-lived changelog, at a time or later; the one that comes next where all are older."""
    for number in snapshots.changelog_ids(ctx):
        kept = snapshots.find_changelog(ctx, number)
        if kept is not None and kept.time_millis >= time_ms:
            return number
    found = snapshots.first_since(ctx, time_ms)
    return newest_id + 1 if found is None else found.id


def _clamp_to_oldest(ctx: TableContext, wanted: int, who: str) -> int:
    """That snapshot, or the oldest whose changes are still there."""
    oldest = oldest_change(ctx)
    if oldest is None or wanted >= oldest:
        return wanted
    if wanted > 0:
        warn_user(f"{who} wanted snapshot {wanted} of {ctx.name}; those before {oldest} are gone, and it begins there")
    return oldest


def oldest_change(ctx: TableContext) -> int | None:
    """The oldest snapshot whose changes can be read: there is one, or a long-lived changelog of it."""
    known = [number for number in (snapshots.earliest_id(ctx), *snapshots.changelog_ids(ctx)[:1]) if number is not None]
    return min(known) if known else None
