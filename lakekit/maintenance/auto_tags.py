"""Tags made by the clock or by a batch job, and the expiry of tags.

    process-time, watermark     each snapshot since the last automatic tag has a time;
                                the first one of a new period is named after the period before
    batch                       a batch commit names its snapshot batch-write-2024-03-31, or as the option says,
                                and moves the tag if it exists

    daily, snapshot 7 at 2024-03-31 00:05     ->   tag 2024-03-30 = snapshot 7

Source: ENGINE.md 5.10; `TagAutoCreation`, `TagBatchCreation`, `TagTimeExpire`, `TriggerTagAutomaticCreationProcedure`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lakekit.commit import committer
from lakekit.errors import InvalidOption, TagAlreadyExists, TagNotFound
from lakekit.maintenance import tags as tagging
from lakekit.maintenance.result import Expired
from lakekit.metadata import snapshots, tags
from lakekit.model.snapshot import BATCH_IDENTIFIER
from lakekit.read import auto_tags
from lakekit.world import wall_clock_ms

if TYPE_CHECKING:
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot
    from lakekit.model.tag import Tag

_MILLI = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS, _END_MS = ((datetime(year, 1, 1, tzinfo=UTC) - _EPOCH) // _MILLI for year in (1001, 9999))
"""Between these times, in milliseconds since 1970, years have four digits in every zone."""
_LOOKED_AT_BYTES = 2_000
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<hours>[0-9]{2}|[0-9](?!.))(?:(?P<colon>:?)(?P<minutes>[0-9]{2})(?:(?P=colon)(?P<seconds>[0-9]{2}))?)?"
)
_MAX_OFFSET = timedelta(hours=18)
_MAX_PERIOD = timedelta(days=36_500)
BATCH_PREFIX = "batch-write-"


class _TagProgress(NamedTuple):
    """The last snapshot that was examined for automatic tags, while the last automatic tag was `last`."""

    last: str | None
    end: Snapshot


def create(ctx: TableContext) -> list[str]:
    """Create the automatic tags that are due and return their names, oldest first.

    The oldest automatic tags beyond `tag.num-retained-max` are removed.

    Raises: `InvalidOption` for options that contradict each other, and what making and deleting tags raises.
    """
    if ctx.options.tag_automatic_creation not in auto_tags.BY_CLOCK:
        return []
    length, delay = auto_tags.length(ctx), timedelta(milliseconds=ctx.options.tag_creation_delay_ms)
    if delay >= length:
        raise InvalidOption(
            f"tag.creation-delay is {delay}, and a period is {length}: the delay must be shorter",
            key="tag.creation-delay",
        )
    if not _MILLI <= length <= _MAX_PERIOD:
        msg = (
            f"tag.creation-period-duration is {length}: a period of automatic tags takes a millisecond to "
            f"{_MAX_PERIOD.days} days"
        )
        raise InvalidOption(msg, key="tag.creation-period-duration")
    last = _latest_automatic_tag(ctx)
    period = None if last is None else auto_tags.period_of(ctx, last.name)
    due = None if period is None else period + length
    key = ("auto-tags", ctx.storage, ctx.layout.snapshot_dir)
    seen: _TagProgress | None = ctx.world.decoded.get(key)
    number = 0 if last is None else last.snapshot.id + 1
    if (
        seen is not None
        and seen.last == (None if last is None else last.name)
        and snapshots.find(ctx, seen.end.id) == seen.end
    ):
        number = max(number, seen.end.id + 1)  # nobody rolled back since
    made: list[str] = []
    end: Snapshot | None = None
    for snapshot in _snapshots_from(ctx, number):
        end, time = snapshot, _time(ctx, snapshot)
        if time is None or (due is not None and time - delay < due + length):
            continue
        this = due if due is not None and ctx.options.tag_automatic_completion else _floor(time, length) - length
        name = auto_tags.name_of(ctx, this)
        tagging.create(ctx, name, at=snapshot.id, if_not_exists=True)
        made.append(name)
        due = this + length
        _retain(ctx)
    after = made[-1] if made else last.name if last is not None else None
    if end is not None:
        ctx.world.decoded.put({key: _TagProgress(after, end)}, _LOOKED_AT_BYTES)
    return made


def create_forced(ctx: TableContext) -> list[str]:
    """Create the automatic tags that are due, with an empty commit where a tag is due and no snapshot is.

    Returns the names of the new tags, oldest first. Raises what `create` and a commit raise.
    """
    made = create(ctx)
    if not _is_overdue(ctx):
        return made
    committer.commit_changes(
        ctx, [], commit_user=ctx.new_commit_user(), identifier=BATCH_IDENTIFIER, ignore_empty=False, is_new_user=True
    )
    return [*made, *create(ctx)]


def _is_overdue(ctx: TableContext) -> bool:
    """Whether a snapshot of this moment would be tagged; watermarks do not move by the clock."""
    if ctx.options.tag_automatic_creation != "process-time":
        return False
    last = _latest_automatic_tag(ctx)
    period = None if last is None else auto_tags.period_of(ctx, last.name)
    if period is None:
        return True
    now = wall_clock(ctx.world.now_ms(), ctx.options.sink_process_time_zone, "sink.process-time-zone")
    return now - timedelta(milliseconds=ctx.options.tag_creation_delay_ms) >= period + 2 * auto_tags.length(ctx)


def _automatic_tags(ctx: TableContext) -> list[Tag]:
    """Return the automatic tags, by snapshot."""
    return [tag for tag in tags.all(ctx) if auto_tags.period_of(ctx, tag.name) is not None]


def _latest_automatic_tag(ctx: TableContext) -> Tag | None:
    automatic = _automatic_tags(ctx)
    if len(automatic) > 1 and automatic[-1].snapshot.id == automatic[-2].snapshot.id:
        names = ", ".join(tag.name for tag in automatic if tag.snapshot.id == automatic[-1].snapshot.id)
        msg = (
            f"snapshot {automatic[-1].snapshot.id} of {ctx.name} has several automatic tags: {names}. Delete all but "
            "one of them"
        )
        raise InvalidOption(msg, key="tag.automatic-creation")
    return automatic[-1] if automatic else None


def _snapshots_from(ctx: TableContext, first_id: int) -> list[Snapshot]:
    """Return the snapshots from an id on."""
    return [
        snapshot
        for snapshot_id in snapshots.ids(ctx)
        if snapshot_id >= first_id and (snapshot := snapshots.find(ctx, snapshot_id)) is not None
    ]


def _time(ctx: TableContext, snapshot: Snapshot) -> datetime | None:
    """Return the time of a snapshot on the wall clock of the option's time zone, without one.

    None where it has no watermark, or one that lies in no period: a stream that ends says so by the greatest possible
    watermark, whose year has no period name.
    """
    by_clock = ctx.options.tag_automatic_creation != "watermark"
    millis = snapshot.time_millis if by_clock else snapshot.watermark_or_none
    if millis is None or not _FIRST_MS <= millis < _END_MS:
        return None
    if by_clock:
        return wall_clock(millis, ctx.options.sink_process_time_zone, "sink.process-time-zone")
    return wall_clock(millis, ctx.options.sink_watermark_time_zone, "sink.watermark-time-zone")


def wall_clock(millis: int, zone: str | None, key: str) -> datetime:
    """Return a time as the clock of a zone shows it, with UTC as its tzinfo.

    `zone`: None for the zone of this process.

    Raises: `InvalidOption` for an unknown zone.
    """
    where = None if zone is None else _zone(zone, key)
    return (_EPOCH + timedelta(milliseconds=millis)).astimezone(where).replace(tzinfo=UTC)


def _zone(name: str, key: str) -> tzinfo:
    """Return a zone of the database, or one given by its offset from UTC: GMT-08:00, +0530, Z."""
    if name in ("Z", "UT"):
        return UTC
    if (offset := _OFFSET.fullmatch(name)) is not None:
        hours, minutes, seconds = (int(part or 0) for part in offset.group("hours", "minutes", "seconds"))
        away = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if minutes < 60 and seconds < 60 and away <= _MAX_OFFSET:
            return timezone(-away if offset["sign"] == "-" else away)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        msg = f"{name!r} is no time zone that this machine knows, such as Europe/Berlin, UTC, GMT-08:00 or +05:30"
        raise InvalidOption(msg, key=key) from None


def _floor(time: datetime, length: timedelta) -> datetime:
    """Return the begin of the period that a time lies in; periods are counted from 1970."""
    return _EPOCH + int((time - _EPOCH) / _MILLI) // (length // _MILLI) * length


def _retain(ctx: TableContext) -> None:
    most = ctx.options.tag_num_retained_max
    automatic = _automatic_tags(ctx)
    if most is not None and len(automatic) > most:
        tagging.delete(ctx, [tag.name for tag in automatic[: len(automatic) - most]])


# ---- of a batch ----------------------------------------------------------------------------------


def create_of_batch(ctx: TableContext) -> str | None:
    """Tag the newest snapshot as the one of a batch job, and return the tag's name; None: nothing to tag.

    Then the oldest tags, of any kind, beyond `tag.num-retained-max` are removed.
    """
    snapshot = snapshots.latest(ctx)
    if snapshot is None or ctx.options.tag_automatic_creation != "batch":
        return None
    day = wall_clock(snapshot.time_millis, ctx.options.sink_process_time_zone, "sink.process-time-zone")
    name = ctx.options.tag_batch_customized_name or f"{BATCH_PREFIX}{day:%Y-%m-%d}"
    try:
        tagging.create(ctx, name, at=snapshot.id)
    except TagAlreadyExists:
        tagging.replace(ctx, name, at=snapshot.id, retain_ms=ctx.options.tag_default_time_retained_ms)
    most = ctx.options.tag_num_retained_max
    if most is not None:
        all_tags = tags.all(ctx)
        listed = {entry.path: entry.modified_ms for entry in ctx.storage.list(ctx.layout.tag_dir)}
        all_tags.sort(key=lambda tag: (tag.snapshot.id, listed.get(ctx.layout.tag(tag.name), 0)))
        if len(all_tags) > most:
            tagging.delete(ctx, [tag.name for tag in all_tags[: len(all_tags) - most]])
    return name


# ---- over ----------------------------------------------------------------------------------------


def expire(ctx: TableContext, *, older_than_ms: int | None = None, dry_run: bool = False) -> Expired:
    """Remove the tags whose time is over, and the files that only they needed.

    `older_than_ms`: also the tags made before that time. A tag without a creation time counts as made when its file was
    last written. Raises what deleting tags raises.
    """
    now = wall_clock_ms(ctx.world.now_ms())
    before = None if older_than_ms is None else wall_clock_ms(older_than_ms)
    listed = (
        {}
        if before is None
        else {entry.path: wall_clock_ms(entry.modified_ms) for entry in ctx.storage.list(ctx.layout.tag_dir)}
    )
    over: list[str] = []
    for tag in tags.all(ctx):
        made = tag.create_time.millis if tag.create_time is not None else None
        if made is None or tag.time_retained_ns is None:
            made = listed.get(ctx.layout.tag(tag.name))
        if made is None:
            continue
        is_over = tag.time_retained_ns is not None and now > made + tag.time_retained_ns // 1_000_000
        if is_over or (before is not None and before > made):
            over.append(tag.name)
    if not over:
        return Expired(table=ctx.name, dry_run=dry_run)
    try:
        return tagging.delete(ctx, over, dry_run=dry_run)
    except TagNotFound:  # another process did the same
        return expire(ctx, older_than_ms=older_than_ms, dry_run=dry_run)
