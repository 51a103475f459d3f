"""List and read the snapshots of a table: the newest, the oldest, and the one of a time.

The hint files are advice. LATEST is believed only with proof: the snapshot it names can be read and the next one does
not exist; else the directory is listed. Snapshots may vanish between two calls, by expiry or rollback, so what was just
listed is looked up again before anything is called missing.

Source: FORMAT.md 1.6 and 3, ENGINE.md 6.2, `SnapshotManager`.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from lakekit.errors import Corrupt, LakekitError, SnapshotNotFound, StorageFailed
from lakekit.metadata import metadata_io, refs
from lakekit.model import snapshot
from lakekit.model.snapshot import Snapshot
from lakekit.parallel import parallel_map
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakekit.metadata.metadata_io import MetadataLocation
    from lakekit.storage.protocol import Stat

T = TypeVar("T")
_MAX_ATTEMPTS = 5
_MAX_SHOWN = 8
_MAX_HINT_STEPS = 256
_CACHE_ENTRY_BYTES = 2_000
MAX_CONCURRENT = 16
"""Snapshots that are asked for at once over a network, at most."""


# ---- which there are -------------------------------------------------------------------------------------------------


def ids(location: MetadataLocation) -> list[int]:
    """Return the ids of all snapshots, ascending."""
    return metadata_io.list_ids(location, location.paths.snapshot_dir, "snapshot-")


def changelog_ids(location: MetadataLocation) -> list[int]:
    """Return the ids of the long-lived changelogs, ascending: those of expired snapshots whose changes remain."""
    return metadata_io.list_ids(location, location.paths.changelog_dir, "changelog-")


def latest_id(location: MetadataLocation) -> int | None:
    """Return the newest snapshot's id; None if there is none."""
    hinted_id = _read_latest_hint(location)
    if hinted_id and not _exists(location, hinted_id + 1) and _exists(location, hinted_id):
        return hinted_id
    snapshot_ids = ids(location)
    return snapshot_ids[-1] if snapshot_ids else None


def earliest_id(location: MetadataLocation) -> int | None:
    """Return the oldest snapshot's id; None if there is none.

    Its hint is not read: proof would cost as much as the listing.
    """
    snapshot_ids = ids(location)
    return snapshot_ids[0] if snapshot_ids else None


def _exists(location: MetadataLocation, snapshot_id: int) -> bool:
    return location.storage.exists(location.paths.snapshot(snapshot_id))


def _read_latest_hint(location: MetadataLocation) -> int | None:
    """Return the id in the hint LATEST.

    Returns None if it is missing or invalid, or on a remote storage, where checking it would take more requests than a
    listing.
    """
    if location.storage.is_remote:
        return None
    try:
        return snapshot.decode_hint(location.storage.read(location.paths.latest_hint, 0, 32))
    except StorageFailed:
        return None


# ---- one of them -----------------------------------------------------------------------------------------------------


def find(location: MetadataLocation, snapshot_id: int, *, stat: Stat | None = None) -> Snapshot | None:
    """Return the snapshot of an id, `stat` if it was just listed; None if it does not exist."""
    path = location.paths.snapshot(snapshot_id)
    try:
        snapshot = (
            metadata_io.read_json_file(location, path, Snapshot.from_json)
            if stat is None
            else metadata_io.read_listed_json_file(location, stat, Snapshot.from_json)
        )
    except FileMissing:
        return None
    if snapshot.id != snapshot_id:
        raise Corrupt(f"{path} says it is snapshot {snapshot.id}", path=path, field="id")
    return snapshot


def read_snapshot(location: MetadataLocation, snapshot_id: int) -> Snapshot:
    """Return the snapshot of an id.

    Raises `SnapshotNotFound` with the snapshots that remain and the tags that keep one.
    """
    snapshot = find(location, snapshot_id) if 0 <= snapshot_id < 2**63 else None
    if snapshot is None:
        raise snapshot_not_found(location, snapshot_id)
    return snapshot


def find_changelog(location: MetadataLocation, snapshot_id: int) -> Snapshot | None:
    """Return the long-lived changelog of an expired snapshot; None if there is none."""
    return metadata_io.find_json_file(location, location.paths.changelog(snapshot_id), Snapshot.from_json)


def find_change(location: MetadataLocation, snapshot_id: int) -> Snapshot | None:
    """Return the snapshot of an id, or its long-lived changelog, for a stream to read.

    Returns None if neither exists.
    """
    return find(location, snapshot_id) or find_changelog(location, snapshot_id)


def latest(location: MetadataLocation) -> Snapshot | None:
    """Return the newest snapshot; None if there is none.

    On a local disk neither hint nor snapshot is read again while both files are unchanged.
    """
    hint_tag = _hint_tag(location)
    cached: _HintedSnapshot | None = (
        None if hint_tag is None else location.runtime.metadata_cache.get(_hinted_key(location))
    )
    if (
        cached is not None
        and cached.hint_tag == hint_tag
        and _is_still(location, cached.snapshot, cached.tag)
        and not _exists(location, cached.snapshot.id + 1)
    ):
        return cached.snapshot
    hinted_id = _read_latest_hint(location)
    if hinted_id and not _exists(location, hinted_id + 1):
        stat = None if hint_tag is None else location.storage.stat(location.paths.snapshot(hinted_id))
        snapshot = find(location, hinted_id)
        if snapshot is not None:
            if hint_tag is not None and stat is not None and stat.tag is not None:
                location.runtime.metadata_cache.put(
                    {_hinted_key(location): _HintedSnapshot(snapshot, stat.tag, hint_tag)}, _CACHE_ENTRY_BYTES
                )
            return snapshot
    return _read_first_or_last(location, -1)


class _HintedSnapshot(NamedTuple):
    """A snapshot that the hint named, with the tags of both files before they were read."""

    snapshot: Snapshot
    tag: str
    hint_tag: str


def _hinted_key(location: MetadataLocation) -> tuple[object, ...]:
    return "hinted", location.storage, location.paths.snapshot_dir


def _hint_tag(location: MetadataLocation) -> str | None:
    """Return the tag of the hint file LATEST; None if it is missing or not used."""
    if location.storage.is_remote:
        return None
    with suppress(StorageFailed):
        stat = location.storage.stat(location.paths.latest_hint)
        return None if stat is None else stat.tag
    return None


def search_latest(location: MetadataLocation, known_id: int = 0) -> Snapshot | None:
    """Return the newest snapshot, searching forward from this process's last one or from `known_id`.

    Snapshot `known_id` exists. On a remote storage more and more ids are looked up at once, because each snapshot that
    exists makes a further one more likely.
    """
    newest = _later_of_known(location, known_id)
    if newest is None:
        return latest(location)
    width = 1
    for _ in range(_MAX_HINT_STEPS):
        later = _next_snapshots(location, newest.id, width)
        newest = later[-1] if later else newest
        if len(later) < width:
            return newest
        width = min(2 * width, MAX_CONCURRENT) if location.storage.is_remote else 1
    return latest(location)


def _later_of_known(location: MetadataLocation, known_id: int) -> Snapshot | None:
    """Return the later of the last snapshot of this process and snapshot `known_id`."""
    cached: tuple[Snapshot, str] | None = location.runtime.metadata_cache.get(_newest_key(location))
    snapshot = find(location, known_id) if known_id > (0 if cached is None else cached[0].id) else None
    return _cached_newest(location) if snapshot is None else snapshot


def _next_snapshots(location: MetadataLocation, snapshot_id: int, width: int) -> list[Snapshot]:
    """Return up to `width` snapshots that follow an id, until one is missing."""
    if not location.storage.is_remote and not _exists(location, snapshot_id + 1):
        return []  # on a disk a look is cheaper than an error
    candidates = find_many(location, range(snapshot_id + 1, snapshot_id + 1 + width))
    return list(takewhile(lambda snapshot: snapshot is not None, candidates))  # type: ignore[arg-type] # None ends it


def find_many(location: MetadataLocation, snapshot_ids: Sequence[int]) -> list[Snapshot | None]:
    """Return the snapshots of the ids, None for each that is missing.

    A remote storage is asked for all at once.
    """
    return parallel_map(
        lambda snapshot_id: find(location, snapshot_id),
        snapshot_ids,
        waiting=location.storage.is_remote and len(snapshot_ids) > 1,
    )


def with_latest(location: MetadataLocation, read: Callable[[Snapshot | None], T]) -> T:
    """Return the result of `read` on the newest snapshot; retry if that expired meanwhile.

    Raises what `read` raises.
    """
    snapshot = search_latest(location)
    for _ in range(_MAX_ATTEMPTS):
        try:
            return read(snapshot)
        except FileMissing:
            if not has_expired(location, snapshot):
                raise
            snapshot = search_latest(location)
    return read(snapshot)


def has_expired(location: MetadataLocation, snapshot: Snapshot | None) -> bool:
    """Return whether a snapshot that existed is gone, so its missing files are not lost data.

    Snapshots are deleted before their files.
    """
    return snapshot is not None and find(location, snapshot.id) != snapshot


def _cached_newest(location: MetadataLocation) -> Snapshot | None:
    """Return the last snapshot that this process made, if its file is unchanged."""
    cached: tuple[Snapshot, str] | None = location.runtime.metadata_cache.get(_newest_key(location))
    return cached[0] if cached is not None and _is_still(location, *cached) else None


def _is_still(location: MetadataLocation, snapshot: Snapshot, tag: str) -> bool:
    """Return whether the file of a snapshot still has the tag."""
    stat = location.storage.stat(location.paths.snapshot(snapshot.id))
    return stat is not None and stat.tag == tag


def cache_newest(location: MetadataLocation, snapshot: Snapshot) -> bool:
    """Cache a snapshot that was just made, with its file's tag; return False if the file is gone."""
    stat = location.storage.stat(location.paths.snapshot(snapshot.id))
    if stat is not None and stat.tag is not None:
        location.runtime.metadata_cache.put({_newest_key(location): (snapshot, stat.tag)}, _CACHE_ENTRY_BYTES)
    return stat is not None


def _newest_key(location: MetadataLocation) -> tuple[object, ...]:
    return "newest", location.storage, location.paths.snapshot_dir


def read_earliest(location: MetadataLocation) -> Snapshot | None:
    """Return the oldest snapshot; None if there is none."""
    return _read_first_or_last(location, 0)


def _read_first_or_last(location: MetadataLocation, end: int) -> Snapshot | None:
    snapshot_id = 0
    for _ in range(_MAX_ATTEMPTS):
        listed = metadata_io.list_ids_with_stat(location, location.paths.snapshot_dir, "snapshot-")
        if not listed:
            return None
        snapshot_id, stat = listed[end]
        snapshot = find(location, snapshot_id, stat=stat)
        if snapshot is not None:
            return snapshot
    raise SnapshotNotFound(
        f"the snapshots of {location.name} vanish as they are listed, {snapshot_id} last; is the table being dropped?",
        name=str(snapshot_id),
    )


def read_all(location: MetadataLocation) -> list[Snapshot]:
    """Return every snapshot, by id, without those that expire meanwhile."""
    listed = metadata_io.list_ids_with_stat(location, location.paths.snapshot_dir, "snapshot-")
    return [
        snapshot
        for snapshot in parallel_map(
            lambda pair: find(location, pair[0], stat=pair[1]), listed, waiting=location.storage.is_remote
        )
        if snapshot is not None
    ]


# ---- by time ---------------------------------------------------------------------------------------------------------


def latest_at_or_before(location: MetadataLocation, time_ms: int) -> Snapshot | None:
    """Return the newest snapshot made at or before a time; None if there is none."""
    return _bisect_newest(location, lambda snapshot: snapshot.time_millis <= time_ms)


def latest_change_at_or_before(location: MetadataLocation, time_ms: int) -> Snapshot | None:
    """Return the newest snapshot at or before a time; if there is none, the newest such long-lived changelog."""
    return latest_at_or_before(location, time_ms) or _bisect_newest(
        location, lambda snapshot: snapshot.time_millis <= time_ms, changelog_ids, find_changelog
    )


def first_at_or_after(location: MetadataLocation, time_ms: int) -> Snapshot | None:
    """Return the oldest snapshot made at or after a time; None if there is none."""
    before = _bisect_newest(location, lambda snapshot: snapshot.time_millis < time_ms)
    later = [snapshot_id for snapshot_id in ids(location) if before is None or snapshot_id > before.id]
    return find(location, later[0]) if later else None


def first_at_watermark(location: MetadataLocation, watermark: int) -> Snapshot:
    """Return the oldest snapshot whose watermark is at least `watermark`.

    A snapshot without one has that of the nearest older one. Raises `SnapshotNotFound`.
    """
    snapshot_ids = ids(location)
    low, high, found_id = 0, len(snapshot_ids) - 1, None
    while low <= high:
        middle = (low + high) // 2
        position, reached_watermark = _nearest_watermark(location, snapshot_ids, middle, low)
        if reached_watermark is None or reached_watermark < watermark:
            low = middle + 1
        else:
            found_id, high = snapshot_ids[position], position - 1
    if found_id is None:
        newest = latest(location)
        has = "none" if newest is None or newest.watermark_or_none is None else str(newest.watermark_or_none)
        raise SnapshotNotFound(
            f"{location.name} has no snapshot with a watermark of {watermark} or later; its newest watermark is {has}",
            name=str(watermark),
        )
    return read_snapshot(location, found_id)


def last_before_watermark(location: MetadataLocation, watermark: int) -> Snapshot:
    """Return the newest snapshot whose watermark is at most `watermark`.

    A snapshot without one has that of the nearest older one. Raises `SnapshotNotFound`.
    """
    snapshot_ids = ids(location)
    low, high, found_id = 0, len(snapshot_ids) - 1, None
    while low <= high:
        middle = (low + high) // 2
        position, reached_watermark = _nearest_watermark(location, snapshot_ids, middle, low)
        if reached_watermark is not None and reached_watermark > watermark:
            high = position - 1
        else:
            found_id, low = (found_id if reached_watermark is None else snapshot_ids[position]), middle + 1
    if found_id is None:
        marks = [
            older_watermark
            for snapshot_id in snapshot_ids[:_MAX_SHOWN]
            if (snapshot := find(location, snapshot_id)) is not None
            and (older_watermark := snapshot.watermark_or_none) is not None
        ]
        has = f"its first watermark is {marks[0]}" if marks else "its first snapshots have none"
        raise SnapshotNotFound(
            f"{location.name} has no snapshot with a watermark of {watermark} or earlier; {has}", name=str(watermark)
        )
    return read_snapshot(location, found_id)


def _nearest_watermark(
    location: MetadataLocation, snapshot_ids: list[int], position: int, low: int
) -> tuple[int, int | None]:
    """Return the nearest position at or below `position` that has a watermark, and the watermark.

    Positions below `low` are not read; without a watermark, `position` and None.
    """
    for earlier in range(position, low - 1, -1):
        snapshot = find(location, snapshot_ids[earlier])
        if snapshot is not None and snapshot.watermark_or_none is not None:
            return earlier, snapshot.watermark_or_none
    return position, None


def _bisect_newest(
    location: MetadataLocation,
    holds: Callable[[Snapshot], bool],
    list_ids: Callable[[MetadataLocation], list[int]] = ids,
    find_snapshot: Callable[[MetadataLocation, int], Snapshot | None] = find,
) -> Snapshot | None:
    """Return the newest snapshot for which `holds` is true; once false, it is false for all newer ones."""
    for _ in range(_MAX_ATTEMPTS):
        snapshot_ids = list_ids(location)
        low, high, newest = 0, len(snapshot_ids) - 1, None
        while low <= high:
            middle = (low + high) // 2
            snapshot = find_snapshot(location, snapshot_ids[middle])
            if snapshot is None:
                break  # expired since the listing
            if holds(snapshot):
                newest, low = snapshot, middle + 1
            else:
                high = middle - 1
        else:
            return newest
    raise SnapshotNotFound(f"the snapshots of {location.name} vanish as they are searched; is the table being dropped?")


# ---- what to say when there is none ----------------------------------------------------------------------------------


def format_time(time_ms: int) -> str:
    """Return a time as text in UTC, because readers may take a local time for another one."""
    try:
        return f"{datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=time_ms):%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC"
    except OverflowError:
        return f"{time_ms} ms since 1970"


def describe_times(location: MetadataLocation) -> str:
    """Describe the existing snapshots as `describe_range` does, with the times of the first and the last."""
    snapshot_ids = ids(location)
    ends = [
        format_time(snapshot.time_millis)
        for snapshot_id in dict.fromkeys(snapshot_ids[:1] + snapshot_ids[-1:])
        if (snapshot := find(location, snapshot_id)) is not None
    ]
    return f"{describe_range(location)}{', made at ' if ends else ''}{' to '.join(ends)}"


def describe_range(location: MetadataLocation) -> str:
    """Describe which snapshots exist."""
    snapshot_ids = ids(location)
    if not snapshot_ids:
        return "it has no snapshots yet"
    return (
        f"snapshot {snapshot_ids[0]} remains"
        if len(snapshot_ids) == 1
        else f"snapshots {snapshot_ids[0]} to {snapshot_ids[-1]} remain"
    )


def snapshot_not_found(location: MetadataLocation, snapshot_id: int) -> SnapshotNotFound:
    """Return the error for a missing snapshot: which remain, and which tags keep one."""
    snapshot_ids = ids(location)
    if not snapshot_ids:
        return SnapshotNotFound(
            f"{location.name} has no snapshot {snapshot_id}: it has no snapshots yet", name=str(snapshot_id)
        )
    description = (
        f"is gone: {describe_range(location)}"
        if snapshot_id < snapshot_ids[-1]
        else f"does not exist: {describe_range(location)}"
    )
    if snapshot_id < 1:
        description = f"does not exist: ids begin at 1 and {describe_range(location)}"
    return SnapshotNotFound(
        f"snapshot {snapshot_id} of {location.name} {description}.{_describe_tags(location)}", name=str(snapshot_id)
    )


def _describe_tags(location: MetadataLocation) -> str:
    try:
        tag_texts = [f"{tag.name} ({tag.snapshot.id})" for tag in refs.list_tags(location)]
    except LakekitError:
        tag_texts = refs.list_tag_names(location)
    if not tag_texts:
        return ""
    more = f" and {len(tag_texts) - _MAX_SHOWN} more" if len(tag_texts) > _MAX_SHOWN else ""
    return f" A tag keeps one: tags are {', '.join(tag_texts[:_MAX_SHOWN])}{more}"
