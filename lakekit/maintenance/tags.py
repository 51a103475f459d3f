"""Tags created, moved, renamed and deleted; those made by the clock or by a batch job; their expiry.

    create_tag(ctx, "v1", at=3, retain_ms=…)       tag/tag-v1 = snapshot 3
    create_tag(ctx, "v1", since_ms=1711843200000)  the first snapshot made then or later;
                                                   watermark=… is the first that is as far
    delete_tags(ctx, ["v1"])                       its file, and the files that only it needed
    process-time, watermark     each snapshot since the last automatic tag has a time; the first one of a new period is
                                named after the period before: daily, 7 at 2024-03-31 00:05 -> tag 2024-03-30 = snapshot
                                    7
    batch                       a batch commit names its snapshot batch-write-2024-03-31, or as the option says,
                                and moves the tag if it exists

A tag keeps its snapshot readable after that expired.

Source: ENGINE.md 5.10 and 11, FORMAT.md 3.4; `TagManager`, `TagDeletion`, `SuccessFileTagCallback`,
`CreateTagFromTimestampProcedure`, `CreateTagFromWatermarkProcedure`, `TagAutoCreation`, `TagBatchCreation`,
`TagTimeExpire`, `TriggerTagAutomaticCreationProcedure`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lakekit.commit import committer
from lakekit.errors import Conflict, Corrupt, InvalidOption, SnapshotNotFound, TagAlreadyExists, TagNotFound
from lakekit.maintenance import expire, reachability
from lakekit.maintenance.mark_done import success_file
from lakekit.maintenance.reachability import UnreachableFiles
from lakekit.maintenance.result import DeletionResult, make_deletion_result
from lakekit.metadata import refs, snapshots
from lakekit.model.snapshot import BATCH_IDENTIFIER, Tag
from lakekit.model.table_paths import name_problem
from lakekit.read import time_travel
from lakekit.runtime import wall_clock_ms
from lakekit.types import Instant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot


_NANOS_PER_MILLI = 1_000_000
_MAX_ATTEMPTS = 5
"""The newest snapshot may expire while it gets a name: then the one after it gets that."""


def create_tag(
    ctx: TableContext,
    name: str,
    *,
    at: int | str | datetime | None = None,
    since_ms: int | None = None,
    watermark: int | None = None,
    retain_ms: int | None = None,
    if_not_exists: bool = False,
) -> Tag:
    """Create a tag of the newest snapshot, that of `at`, or the first since a time or with a watermark.

    The snapshot may have expired, if another tag keeps it. Without `retain_ms` the tag lives as long as
    `tag.default-time-retained` says, else for ever.

    Raises: `TagAlreadyExists`, `SnapshotNotFound`, `TagNotFound`, `InvalidOption` for an invalid name.
    """
    check_tag_name(name)
    arguments = [key for key, value in (("at", at), ("since", since_ms), ("watermark", watermark)) if value is not None]
    if len(arguments) > 1:
        raise InvalidOption(
            f"tag {name!r} of {ctx.name} names one snapshot: give {arguments[0]} or {arguments[1]}, not both",
            key=arguments[1],
            value=None,
        )
    existing = refs.find_tag(ctx, name)
    if existing is not None:
        if if_not_exists:
            return existing
        raise _make_exists_error(ctx, name)
    tries = 1 if arguments else _MAX_ATTEMPTS
    while True:
        tries -= 1
        lives_ms = ctx.options.tag_default_time_retained_ms if retain_ms is None else retain_ms
        tag = _make_tag(ctx, name, _find_snapshot(ctx, at, since_ms, watermark), lives_ms)
        _refuse_second(ctx, tag)
        try:
            return write_new_tag(ctx, tag, if_not_exists=if_not_exists)
        except SnapshotNotFound:
            if not tries:
                raise


def write_new_tag(ctx: TableContext, tag: Tag, *, if_not_exists: bool = False) -> Tag:
    """Write a new tag; where its snapshot expires at this moment, delete it again.

    Raises: `TagAlreadyExists`, `SnapshotNotFound`.
    """
    keep, path = referencing_paths(ctx, tag.snapshot), ctx.paths.tag(tag.name)
    if not ctx.storage.put_if_absent(path, tag.to_json()):
        if if_not_exists:
            return refs.read_tag(ctx, tag.name)
        raise _make_exists_error(ctx, tag.name)
    if not any(map(ctx.storage.exists, keep)):
        ctx.storage.delete([path])
        raise _make_expired_error(ctx, tag)
    if ctx.options.tag_create_success_file:
        success_file.write_success_file(ctx.storage, success_path(ctx, tag.name), ctx.runtime.now_ms())
    return tag


def replace_tag(
    ctx: TableContext,
    name: str,
    *,
    at: int | str | datetime | None = None,
    retain_ms: int | None = None,
    dry_run: bool = False,
) -> DeletionResult:
    """Move a tag to another snapshot, and delete the files that only the old one needed.

    Without `retain_ms` it lives for ever: as in the reference, `tag.default-time-retained` is for new tags.

    Raises: `TagNotFound`, `SnapshotNotFound`.
    """
    reachability.check_removable(ctx)
    check_tag_name(name)
    old = refs.read_tag(ctx, name)
    tag = _make_tag(ctx, name, resolve_tag_snapshot(ctx, at), retain_ms)
    keep, path = referencing_paths(ctx, tag.snapshot), ctx.paths.tag(name)
    everything = reachability.read_all_roots(ctx)
    replaced = [root for root in everything if root.path == path and root.snapshot != tag.snapshot]
    new = reachability.GcRoot(kind="tag", branch=ctx.paths.branch, name=name, path=path, snapshot=tag.snapshot)

    def drop() -> None:
        reachability.write_root_file(ctx, path, tag.to_json())
        if not any(map(ctx.storage.exists, keep)):
            reachability.write_root_file(ctx, path, old.to_json())
            raise _make_expired_error(ctx, tag)

    unreachable = expire.delete_roots(ctx, replaced, everything, None if dry_run else drop, new_roots=[new])
    return make_deletion_result(ctx.name, unreachable, dry_run=dry_run)


def rename_tag(ctx: TableContext, name: str, new: str) -> None:
    """Rename a tag. Raises `TagNotFound`, `TagAlreadyExists`, `InvalidOption`."""
    tag = refs.read_tag(ctx, name)
    check_tag_name(new)
    path = ctx.paths.tag(new)
    if refs.find_tag(ctx, new) is not None or not ctx.storage.put_if_absent(
        path, ctx.storage.read(ctx.paths.tag(tag.name))
    ):
        raise _make_exists_error(ctx, new)
    ctx.storage.delete([ctx.paths.tag(name)])


def delete_tags(ctx: TableContext, names: Sequence[str], *, dry_run: bool = False) -> DeletionResult:
    """Delete tags, and the files that nothing else needs.

    Of a tag that cannot be read only its own file is deleted, as the files that it needs are unknown.

    Raises: `TagNotFound`; an error while roots are read leaves all as it was (see `removal`), but for tags that cannot
    be read.
    """
    reachability.check_removable(ctx)
    readable = [name for name in names if _is_readable(ctx, name)]
    if not dry_run:
        _delete_tag_files(ctx, [name for name in names if name not in readable])
    unreachable = UnreachableFiles()
    if readable:
        everything = reachability.read_all_roots(ctx)
        paths = {ctx.paths.tag(name) for name in readable}
        removed = [root for root in everything if root.path in paths]
        unreachable = expire.delete_roots(
            ctx, removed, everything, None if dry_run else partial(_delete_tag_files, ctx, readable)
        )
    return make_deletion_result(ctx.name, unreachable, dry_run=dry_run, tags=tuple(names))


def _is_readable(ctx: TableContext, name: str) -> bool:
    """Return whether a tag's file can be decoded. Raises `TagNotFound`."""
    try:
        refs.read_tag(ctx, name)
    except Corrupt:
        return False
    return True


def _delete_tag_files(ctx: TableContext, names: Sequence[str]) -> None:
    if not names:
        return
    ctx.storage.delete([ctx.paths.tag(name) for name in names])
    if ctx.options.tag_create_success_file:
        ctx.storage.delete([success_path(ctx, name) for name in names])


# ---- names and sources ---------------------------------------------------------------------------


def check_tag_name(name: str) -> None:
    """Raise `InvalidOption` for a name that no tag can have."""
    if not isinstance(name, str):
        msg = f"a tag's name is a text, not {type(name).__name__}"
        raise TypeError(msg)
    if not name.strip():
        raise InvalidOption("a tag's name must not be blank", key="name", value=name)
    why = name_problem(name, "tag-")
    if why is not None:
        raise InvalidOption(f"{name[:80]!a} cannot be a tag's name: {why}", key="name", value=name)


def resolve_tag_snapshot(ctx: TableContext, at: int | str | datetime | None) -> Snapshot:
    """Return the snapshot that `at` means, also one that only a tag keeps.

    Raises: `SnapshotNotFound`, `TagNotFound`.
    """
    number = at if isinstance(at, int) and not isinstance(at, bool) else None
    if isinstance(at, str) and refs.find_tag(ctx, at) is None:
        number = time_travel.parse_digits(at)
    if number is not None and 0 <= number < 2**63 and snapshots.find(ctx, number) is None:
        tagged = [tag.snapshot for tag in refs.list_tags(ctx) if tag.snapshot.id == number]
        if tagged:
            return tagged[0]
    snapshot = snapshots.latest(ctx) if at is None else time_travel.resolve_position(ctx, at).snapshot
    if snapshot is None:
        raise SnapshotNotFound(f"{ctx.name} has no snapshots yet, so there is nothing to name")
    return snapshot


def _find_snapshot(
    ctx: TableContext, at: int | str | datetime | None, since_ms: int | None, watermark: int | None
) -> Snapshot:
    if since_ms is not None:
        return _first_snapshot_since(ctx, since_ms)
    return resolve_tag_snapshot(ctx, at) if watermark is None else _first_snapshot_at_watermark(ctx, watermark)


def _first_snapshot_since(ctx: TableContext, time_ms: int) -> Snapshot:
    """Return the first snapshot made at or after a time. Raises `SnapshotNotFound`."""
    snapshot = snapshots.first_at_or_after(ctx, time_ms)
    tagged = next((tag.snapshot for tag in refs.list_tags(ctx) if tag.snapshot.time_millis >= time_ms), None)
    if tagged is not None and (snapshot is None or tagged.time_millis < snapshot.time_millis):
        return tagged
    if snapshot is None:
        msg = (
            f"{ctx.name} has no snapshot at or after {snapshots.format_time(time_ms)}; {snapshots.describe_times(ctx)}"
        )
        raise SnapshotNotFound(msg, name=str(time_ms))
    return snapshot


def _first_snapshot_at_watermark(ctx: TableContext, watermark: int) -> Snapshot:
    """Return the first snapshot whose watermark is at least that. Raises `SnapshotNotFound`."""
    marks = ((tag.snapshot, tag.snapshot.watermark_or_none) for tag in refs.list_tags(ctx))
    tagged = next(((snapshot, mark) for snapshot, mark in marks if mark is not None and mark >= watermark), None)
    try:
        untagged = snapshots.first_at_watermark(ctx, watermark)
    except SnapshotNotFound:
        if tagged is None:
            raise
        return tagged[0]
    mark = untagged.watermark_or_none
    return tagged[0] if tagged is not None and (mark is None or tagged[1] < mark) else untagged


def _make_tag(ctx: TableContext, name: str, snapshot: Snapshot, retain_ms: int | None) -> Tag:
    if retain_ms is None:
        return Tag(name=name, snapshot=snapshot)  # readers of 0.7 and older know no more
    return Tag(
        name=name,
        snapshot=snapshot,
        create_time=Instant(wall_clock_ms(ctx.runtime.now_ms()), 0),
        time_retained_ns=retain_ms * _NANOS_PER_MILLI,
    )


def _make_exists_error(ctx: TableContext, name: str) -> TagAlreadyExists:
    return TagAlreadyExists(
        f"{ctx.name} has a tag {name!r}; t.replace_tag({name!r}) lets it name another snapshot", name=name
    )


def _refuse_second(ctx: TableContext, tag: Tag) -> None:
    """Raise `Conflict` if the snapshot has another automatic tag already.

    The period of the last automatic tag is read from its name, so there must be one at most.
    """
    if (
        ctx.options.tag_automatic_creation not in time_travel.CLOCK_TAG_MODES
        or time_travel.parse_tag_period(ctx, tag.name) is None
    ):
        return
    same = [
        other.name
        for other in refs.list_tags(ctx)
        if other.snapshot.id == tag.snapshot.id and time_travel.parse_tag_period(ctx, other.name) is not None
    ]
    if same:
        raise Conflict(
            f"snapshot {tag.snapshot.id} of {ctx.name} has the automatic tag {same[0]!r}, and {tag.name!r} is the "
            "name of another one. Give another name"
        )


def referencing_paths(ctx: TableContext, snapshot: Snapshot) -> list[str]:
    """Return the files that keep a snapshot: its own, and those of its tags."""
    own = [ctx.paths.snapshot(snapshot.id)] if snapshots.find(ctx, snapshot.id) == snapshot else []
    return [*own, *(ctx.paths.tag(tag.name) for tag in refs.list_tags(ctx) if tag.snapshot == snapshot)]


def _make_expired_error(ctx: TableContext, tag: Tag) -> SnapshotNotFound:
    return SnapshotNotFound(
        f"snapshot {tag.snapshot.id} of {ctx.name} expired while tag {tag.name!r} was made. Nothing was changed. "
        f"{snapshots.describe_range(ctx)}",
        name=str(tag.snapshot.id),
    )


def success_path(ctx: TableContext, name: str) -> str:
    """Return the file that says a tag exists, used with the option `tag.create-success-file`."""
    return f"{ctx.paths.tag_dir}/tag-success-file/{name}_SUCCESS"


# ---- auto tags ------------------------------------------------------------


_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS, _END_MS = ((datetime(year, 1, 1, tzinfo=UTC) - _EPOCH) // _MILLISECOND for year in (1001, 9999))
"""Between these times, in milliseconds since 1970, years have four digits in every zone."""
_LOOKED_AT_BYTES = 2_000
_ZONE_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<hours>[0-9]{2}|[0-9](?!.))"
    r"(?:(?P<colon>:?)(?P<minutes>[0-9]{2})(?:(?P=colon)(?P<seconds>[0-9]{2}))?)?"
)
_MAX_OFFSET = timedelta(hours=18)
_MAX_PERIOD = timedelta(days=36_500)
BATCH_PREFIX = "batch-write-"


class _TagProgress(NamedTuple):
    """The last snapshot that was examined for automatic tags, while the last automatic tag was `last_tag`."""

    last_tag: str | None
    last_snapshot: Snapshot


def create_automatic_tags(ctx: TableContext, *, dry_run: bool = False) -> list[str]:
    """Create the automatic tags that are due, unless `dry_run`, and return their names, oldest first.

    The oldest automatic tags beyond `tag.num-retained-max` are removed.

    Raises: `InvalidOption` for options that contradict each other, and what making and deleting tags raises.
    """
    if ctx.options.tag_automatic_creation not in time_travel.CLOCK_TAG_MODES:
        return []
    length, delay = time_travel.period_length(ctx), timedelta(milliseconds=ctx.options.tag_creation_delay_ms)
    if delay >= length:
        raise InvalidOption(
            f"tag.creation-delay is {delay}, and a period is {length}: the delay must be shorter",
            key="tag.creation-delay",
        )
    if not _MILLISECOND <= length <= _MAX_PERIOD:
        msg = (
            f"tag.creation-period-duration is {length}: a period of automatic tags takes a millisecond to "
            f"{_MAX_PERIOD.days} days"
        )
        raise InvalidOption(msg, key="tag.creation-period-duration")
    last = _latest_automatic_tag(ctx)
    period = None if last is None else time_travel.parse_tag_period(ctx, last.name)
    due = None if period is None else period + length
    key = ("auto-tags", ctx.storage, ctx.paths.snapshot_dir)
    seen: _TagProgress | None = ctx.runtime.metadata_cache.get(key)
    number = 0 if last is None else last.snapshot.id + 1
    if (
        seen is not None
        and seen.last_tag == (None if last is None else last.name)
        and snapshots.find(ctx, seen.last_snapshot.id) == seen.last_snapshot
    ):
        number = max(number, seen.last_snapshot.id + 1)  # nobody rolled back since
    made: list[str] = []
    end: Snapshot | None = None
    for snapshot in _snapshots_from(ctx, number):
        end, time = snapshot, _snapshot_time(ctx, snapshot)
        if time is None or (due is not None and time - delay < due + length):
            continue
        this = due if due is not None and ctx.options.tag_automatic_completion else _period_start(time, length) - length
        name = time_travel.tag_name_of(ctx, this)
        made.append(name)
        due = this + length
        if not dry_run:
            create_tag(ctx, name, at=snapshot.id, if_not_exists=True)
            _delete_excess_tags(ctx)
    after = made[-1] if made else last.name if last is not None else None
    if end is not None and not dry_run:
        ctx.runtime.metadata_cache.put({key: _TagProgress(after, end)}, _LOOKED_AT_BYTES)
    return made


def create_forced_tags(ctx: TableContext) -> list[str]:
    """Create the automatic tags that are due, with an empty commit where a tag is due and no snapshot is.

    Returns the names of the new tags, oldest first. Raises what `create_automatic_tags` and a commit raise.
    """
    made = create_automatic_tags(ctx)
    if not _is_overdue(ctx):
        return made
    committer.commit_changes(
        ctx, [], commit_user=ctx.new_commit_user(), identifier=BATCH_IDENTIFIER, ignore_empty=False, is_new_user=True
    )
    return [*made, *create_automatic_tags(ctx)]


def _is_overdue(ctx: TableContext) -> bool:
    """Return whether a snapshot made now would get a tag; False for tags by watermark, which no clock moves."""
    if ctx.options.tag_automatic_creation != "process-time":
        return False
    last = _latest_automatic_tag(ctx)
    period = None if last is None else time_travel.parse_tag_period(ctx, last.name)
    if period is None:
        return True
    now = wall_clock(ctx.runtime.now_ms(), ctx.options.sink_process_time_zone, "sink.process-time-zone")
    return now - timedelta(milliseconds=ctx.options.tag_creation_delay_ms) >= period + 2 * time_travel.period_length(
        ctx
    )


def _automatic_tags(ctx: TableContext) -> list[Tag]:
    """Return the automatic tags, by snapshot."""
    return [tag for tag in refs.list_tags(ctx) if time_travel.parse_tag_period(ctx, tag.name) is not None]


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
    return [
        snapshot
        for snapshot_id in snapshots.ids(ctx)
        if snapshot_id >= first_id and (snapshot := snapshots.find(ctx, snapshot_id)) is not None
    ]


def _snapshot_time(ctx: TableContext, snapshot: Snapshot) -> datetime | None:
    """Return the time of a snapshot on the wall clock of the option's time zone, without one.

    Returns None if it has no watermark, or one that lies in no period: a stream that ends writes the greatest possible
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
    where = None if zone is None else _parse_zone(zone, key)
    return (_EPOCH + timedelta(milliseconds=millis)).astimezone(where).replace(tzinfo=UTC)


def _parse_zone(name: str, key: str) -> tzinfo:
    """Return a zone of the database, or one given by its offset from UTC: GMT-08:00, +0530, Z."""
    if name in ("Z", "UT"):
        return UTC
    if (offset := _ZONE_OFFSET.fullmatch(name)) is not None:
        hours, minutes, seconds = (int(part or 0) for part in offset.group("hours", "minutes", "seconds"))
        away = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if minutes < 60 and seconds < 60 and away <= _MAX_OFFSET:
            return timezone(-away if offset["sign"] == "-" else away)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        msg = f"{name!r} is no time zone that this machine knows, such as Europe/Berlin, UTC, GMT-08:00 or +05:30"
        raise InvalidOption(msg, key=key) from None


def _period_start(time: datetime, length: timedelta) -> datetime:
    """Return the begin of the period that a time lies in; periods are counted from 1970."""
    return _EPOCH + int((time - _EPOCH) / _MILLISECOND) // (length // _MILLISECOND) * length


def _delete_excess_tags(ctx: TableContext) -> None:
    most = ctx.options.tag_num_retained_max
    automatic = _automatic_tags(ctx)
    if most is not None and len(automatic) > most:
        delete_tags(ctx, [tag.name for tag in automatic[: len(automatic) - most]])


# ---- of a batch ----------------------------------------------------------------------------------


def create_batch_tag(ctx: TableContext) -> str | None:
    """Tag the newest snapshot as the one of a batch job, and return the tag's name; None if there is none to tag.

    Then the oldest tags, of any kind, beyond `tag.num-retained-max` are removed.
    """
    snapshot = snapshots.latest(ctx)
    if snapshot is None or ctx.options.tag_automatic_creation != "batch":
        return None
    day = wall_clock(snapshot.time_millis, ctx.options.sink_process_time_zone, "sink.process-time-zone")
    name = ctx.options.tag_batch_customized_name or f"{BATCH_PREFIX}{day:%Y-%m-%d}"
    try:
        create_tag(ctx, name, at=snapshot.id)
    except TagAlreadyExists:
        replace_tag(ctx, name, at=snapshot.id, retain_ms=ctx.options.tag_default_time_retained_ms)
    most = ctx.options.tag_num_retained_max
    if most is not None:
        all_tags = refs.list_tags(ctx)
        listed = {entry.path: entry.modified_ms for entry in ctx.storage.list(ctx.paths.tag_dir)}
        all_tags.sort(key=lambda tag: (tag.snapshot.id, listed.get(ctx.paths.tag(tag.name), 0)))
        if len(all_tags) > most:
            delete_tags(ctx, [tag.name for tag in all_tags[: len(all_tags) - most]])
    return name


# ---- over ----------------------------------------------------------------------------------------


def expire_tags(ctx: TableContext, *, older_than_ms: int | None = None, dry_run: bool = False) -> DeletionResult:
    """Remove the tags whose time is over, and the files that only they needed.

    `older_than_ms`: also the tags made before that time. A tag without a creation time counts as made when its file was
    last written. Raises what deleting tags raises.
    """
    now = wall_clock_ms(ctx.runtime.now_ms())
    before = None if older_than_ms is None else wall_clock_ms(older_than_ms)
    listed = (
        {}
        if before is None
        else {entry.path: wall_clock_ms(entry.modified_ms) for entry in ctx.storage.list(ctx.paths.tag_dir)}
    )
    over: list[str] = []
    for tag in refs.list_tags(ctx):
        made = tag.create_time.millis if tag.create_time is not None else None
        if made is None or tag.time_retained_ns is None:
            made = listed.get(ctx.paths.tag(tag.name))
        if made is None:
            continue
        is_over = tag.time_retained_ns is not None and now > made + tag.time_retained_ns // 1_000_000
        if is_over or (before is not None and before > made):
            over.append(tag.name)
    if not over:
        return DeletionResult(table=ctx.name, dry_run=dry_run)
    try:
        return delete_tags(ctx, over, dry_run=dry_run)
    except TagNotFound:  # another process did the same
        return expire_tags(ctx, older_than_ms=older_than_ms, dry_run=dry_run)
