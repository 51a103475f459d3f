"""The snapshots of a table: which there are, the newest and oldest, and the one of a time.

The hint files are advice. LATEST is believed only with proof: the snapshot it names can be read and the next one is not there; else the directory is
listed. Snapshots may vanish between two calls, by expiry or rollback, so that what was just listed is looked up again before anything is called missing.
Source: FORMAT.md 1.6 and 3, ENGINE.md 6.2, `SnapshotManager`.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from lakekit.errors import Corrupt, LakekitError, SnapshotNotFound, StorageFailed
from lakekit.metadata import metadata_io, tags
from lakekit.model import hint
from lakekit.model.snapshot import Snapshot
from lakekit.storage.protocol import FileMissing
from lakekit.world import parallel_map

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakekit.metadata.metadata_io import MetadataLocation
    from lakekit.storage.protocol import Stat

T = TypeVar("T")
_ATTEMPTS = 5
_MAX_SHOWN = 8
_STEPS = 256
_KNOWN_BYTES = 2_000
MAX_CONCURRENT = 16
"""Snapshots that are asked for at once over a network, at most."""


# ---- which there are -------------------------------------------------------------------------------------------------------------------------


def ids(place: MetadataLocation) -> list[int]:
    """The numbers of all snapshots, ascending."""
    return metadata_io.numbers(place, place.layout.snapshot_dir, "snapshot-")


def changelog_ids(place: MetadataLocation) -> list[int]:
    """The numbers of the long-lived changelogs: snapshots that expired and whose changes were kept; ascending."""
    return metadata_io.numbers(place, place.layout.changelog_dir, "changelog-")


def latest_id(place: MetadataLocation) -> int | None:
    """The newest snapshot's number; None while there is none."""
    advice = _advice(place)
    if advice and not _exists(place, advice + 1) and _exists(place, advice):
        return advice
    found = ids(place)
    return found[-1] if found else None


def earliest_id(place: MetadataLocation) -> int | None:
    """The oldest snapshot's number; None while there is none. Its hint is not asked: proof would cost as much as the listing."""
    found = ids(place)
    return found[0] if found else None


def _exists(place: MetadataLocation, snapshot_id: int) -> bool:
    return place.storage.exists(place.layout.snapshot(snapshot_id))


def _advice(place: MetadataLocation) -> int | None:
    """What the hint LATEST says; None where it is missing or makes no sense, or where proof of it would cost more requests than a listing."""
    if place.storage.is_remote:
        return None
    try:
        return hint.decode(place.storage.read(place.layout.latest_hint, 0, 32))
    except StorageFailed:
        return None


# ---- one of them -----------------------------------------------------------------------------------------------------------------------------


def find(place: MetadataLocation, snapshot_id: int, *, seen: Stat | None = None) -> Snapshot | None:
    """The snapshot of that number, `seen` where it was just listed; None when it is not there."""
    path = place.layout.snapshot(snapshot_id)
    try:
        found = metadata_io.read(place, path, Snapshot.from_json) if seen is None else metadata_io.read_listed(place, seen, Snapshot.from_json)
    except FileMissing:
        return None
    if found.id != snapshot_id:
        raise Corrupt(f"{path} says it is snapshot {found.id}", path=path, field="id")
    return found


def read(place: MetadataLocation, snapshot_id: int) -> Snapshot:
    """The snapshot of that number. Raises `SnapshotNotFound` naming those that remain and the tags that keep one."""
    found = find(place, snapshot_id) if 0 <= snapshot_id < 2**63 else None
    if found is None:
        raise snapshot_not_found(place, snapshot_id)
    return found


def find_changelog(place: MetadataLocation, snapshot_id: int) -> Snapshot | None:
    """The long-lived changelog of an expired snapshot; None when there is none."""
    return metadata_io.find(place, place.layout.changelog(snapshot_id), Snapshot.from_json)


def find_change(place: MetadataLocation, snapshot_id: int) -> Snapshot | None:
    """The snapshot of that number, or its long-lived changelog: what a stream reads."""
    return find(place, snapshot_id) or find_changelog(place, snapshot_id)


def latest(place: MetadataLocation) -> Snapshot | None:
    """The newest snapshot; None while there is none. On a disk neither hint nor snapshot is read again while both files are those that were read last."""
    hint_tag = _hint_tag(place)
    known: _HintedSnapshot | None = None if hint_tag is None else place.world.decoded.get(_hinted_key(place))
    if known is not None and known.hint_tag == hint_tag and _is_still(place, known.snapshot, known.tag) and not _exists(place, known.snapshot.id + 1):
        return known.snapshot
    advice = _advice(place)
    if advice and not _exists(place, advice + 1):
        seen = None if hint_tag is None else place.storage.stat(place.layout.snapshot(advice))
        found = find(place, advice)
        if found is not None:
            if hint_tag is not None and seen is not None and seen.tag is not None:
                place.world.decoded.put({_hinted_key(place): _HintedSnapshot(found, seen.tag, hint_tag)}, _KNOWN_BYTES)
            return found
    return _read_first_or_last(place, -1)


class _HintedSnapshot(NamedTuple):
    """A snapshot that the hint named, and what its file and the hint's were before they were read."""

    snapshot: Snapshot
    tag: str
    hint_tag: str


def _hinted_key(place: MetadataLocation) -> tuple[object, ...]:
    return "hinted", place.storage, place.layout.snapshot_dir


def _hint_tag(place: MetadataLocation) -> str | None:
    """What tells the hint LATEST from any other; None where it is missing, or is not asked for advice."""
    if place.storage.is_remote:
        return None
    with suppress(StorageFailed):
        seen = place.storage.stat(place.layout.latest_hint)
        return None if seen is None else seen.tag
    return None


def latest_from_known(place: MetadataLocation, known: int = 0) -> Snapshot | None:
    """What `latest` finds, from the last snapshot that this process made, or from `known`, which was there: looking forward costs least.

    Over a network more and more are asked for at once, because each one that is there makes a further one more likely.
    """
    found = _later_of_known(place, known)
    if found is None:
        return latest(place)
    width = 1
    for _ in range(_STEPS):
        later = _next_snapshots(place, found.id, width)
        found = later[-1] if later else found
        if len(later) < width:
            return found
        width = min(2 * width, MAX_CONCURRENT) if place.storage.is_remote else 1
    return latest(place)


def _later_of_known(place: MetadataLocation, known: int) -> Snapshot | None:
    """The last snapshot that this process made, or that of the number `known`, where it is the later one."""
    kept: tuple[Snapshot, str] | None = place.world.decoded.get(_newest_key(place))
    found = find(place, known) if known > (0 if kept is None else kept[0].id) else None
    return _cached_newest(place) if found is None else found


def _next_snapshots(place: MetadataLocation, snapshot_id: int, width: int) -> list[Snapshot]:
    """The snapshots that follow a number, as many as `width`, until one is not there."""
    if not place.storage.is_remote and not _exists(place, snapshot_id + 1):
        return []  # on a disk a look is cheaper than an error
    found = find_all(place, range(snapshot_id + 1, snapshot_id + 1 + width))
    return list(takewhile(lambda one: one is not None, found))  # type: ignore[arg-type] # what is None is left out


def find_all(place: MetadataLocation, numbers: Sequence[int]) -> list[Snapshot | None]:
    """The snapshots of some numbers, None for each that is not there; over a network all are asked for at once."""
    return parallel_map(lambda number: find(place, number), numbers, waiting=place.storage.is_remote and len(numbers) > 1)


def with_latest(place: MetadataLocation, look: Callable[[Snapshot | None], T]) -> T:
    """What `look` finds in the newest snapshot; in the one after it, where that one expired while it was looked at. Raises what `look` raises."""
    snapshot = latest_from_known(place)
    for _ in range(_ATTEMPTS):
        try:
            return look(snapshot)
        except FileMissing:
            if not has_expired(place, snapshot):
                raise
            snapshot = latest_from_known(place)
    return look(snapshot)


def has_expired(place: MetadataLocation, snapshot: Snapshot | None) -> bool:
    """Whether a snapshot that was there is no more: what is missing of it is not lost. Snapshots go before their files."""
    return snapshot is not None and find(place, snapshot.id) != snapshot


def _cached_newest(place: MetadataLocation) -> Snapshot | None:
    """The last snapshot that this process made, if its file is still the one it made."""
    kept: tuple[Snapshot, str] | None = place.world.decoded.get(_newest_key(place))
    return kept[0] if kept is not None and _is_still(place, *kept) else None


def _is_still(place: MetadataLocation, snapshot: Snapshot, tag: str) -> bool:
    """Whether the file of a snapshot is the one that had that tag."""
    seen = place.storage.stat(place.layout.snapshot(snapshot.id))
    return seen is not None and seen.tag == tag


def remember_newest(place: MetadataLocation, snapshot: Snapshot) -> bool:
    """Keeps a snapshot that was just made, as its file is now. False: there is none any more."""
    seen = place.storage.stat(place.layout.snapshot(snapshot.id))
    if seen is not None and seen.tag is not None:
        place.world.decoded.put({_newest_key(place): (snapshot, seen.tag)}, _KNOWN_BYTES)
    return seen is not None


def _newest_key(place: MetadataLocation) -> tuple[object, ...]:
    return "newest", place.storage, place.layout.snapshot_dir


def earliest(place: MetadataLocation) -> Snapshot | None:
    """The oldest snapshot; None while there is none."""
    return _read_first_or_last(place, 0)


def _read_first_or_last(place: MetadataLocation, end: int) -> Snapshot | None:
    number = 0
    for _ in range(_ATTEMPTS):
        known = metadata_io.list_numbered(place, place.layout.snapshot_dir, "snapshot-")
        if not known:
            return None
        number, seen = known[end]
        found = find(place, number, seen=seen)
        if found is not None:
            return found
    raise SnapshotNotFound(f"the snapshots of {place.name} vanish as they are listed, {number} last; is the table being dropped?", name=str(number))


def all(place: MetadataLocation) -> list[Snapshot]:  # noqa: A001 - snapshots.all(handle) reads as meant
    """Every snapshot, by number; those that expire meanwhile are left out."""
    known = metadata_io.list_numbered(place, place.layout.snapshot_dir, "snapshot-")
    return [found for found in parallel_map(lambda pair: find(place, pair[0], seen=pair[1]), known, waiting=place.storage.is_remote) if found is not None]


# ---- by time ---------------------------------------------------------------------------------------------------------------------------------


def at_time(place: MetadataLocation, time_ms: int) -> Snapshot | None:
    """The newest snapshot made at or before that time; None when all are younger or there is none."""
    return _bisect_newest(place, lambda snapshot: snapshot.time_millis <= time_ms)


def change_at_time(place: MetadataLocation, time_ms: int) -> Snapshot | None:
    """The same, or where no snapshot is as old, the newest expired one of which a long-lived changelog tells."""
    return at_time(place, time_ms) or _bisect_newest(place, lambda snapshot: snapshot.time_millis <= time_ms, changelog_ids, find_changelog)


def first_since(place: MetadataLocation, time_ms: int) -> Snapshot | None:
    """The oldest snapshot made at or after that time; None when all are older or there is none."""
    before = _bisect_newest(place, lambda snapshot: snapshot.time_millis < time_ms)
    later = [number for number in ids(place) if before is None or number > before.id]
    return find(place, later[0]) if later else None


def at_watermark(place: MetadataLocation, watermark: int) -> Snapshot:
    """The oldest snapshot whose watermark is at least that; one without takes the nearest older one's. Raises `SnapshotNotFound`."""
    known = ids(place)
    low, high, found = 0, len(known) - 1, None
    while low <= high:
        middle = (low + high) // 2
        at, reached = _watermark(place, known, middle, low)
        if reached is None or reached < watermark:
            low = middle + 1
        else:
            found, high = known[at], at - 1
    if found is None:
        newest = latest(place)
        has = "none" if newest is None or newest.watermark_or_none is None else str(newest.watermark_or_none)
        raise SnapshotNotFound(f"{place.name} has no snapshot with a watermark of {watermark} or later; its newest watermark is {has}", name=str(watermark))
    return read(place, found)


def before_watermark(place: MetadataLocation, watermark: int) -> Snapshot:
    """The newest snapshot whose watermark is at most that; one without takes the nearest older one's. Raises `SnapshotNotFound`."""
    known = ids(place)
    low, high, found = 0, len(known) - 1, None
    while low <= high:
        middle = (low + high) // 2
        at, reached = _watermark(place, known, middle, low)
        if reached is not None and reached > watermark:
            high = at - 1
        else:
            found, low = (found if reached is None else known[at]), middle + 1
    if found is None:
        marks = [mark for number in known[:_MAX_SHOWN] if (one := find(place, number)) is not None and (mark := one.watermark_or_none) is not None]
        has = f"its first watermark is {marks[0]}" if marks else "its first snapshots have none"
        raise SnapshotNotFound(f"{place.name} has no snapshot with a watermark of {watermark} or earlier; {has}", name=str(watermark))
    return read(place, found)


def _watermark(place: MetadataLocation, known: list[int], at: int, low: int) -> tuple[int, int | None]:
    """The watermark at a place of the list, or the nearest one before it and where that is; nothing below `low` is looked at."""
    for earlier in range(at, low - 1, -1):
        snapshot = find(place, known[earlier])
        if snapshot is not None and snapshot.watermark_or_none is not None:
            return earlier, snapshot.watermark_or_none
    return at, None


def _bisect_newest(
    place: MetadataLocation,
    holds: Callable[[Snapshot], bool],
    numbers: Callable[[MetadataLocation], list[int]] = ids,
    at: Callable[[MetadataLocation, int], Snapshot | None] = find,
) -> Snapshot | None:
    """The newest snapshot that satisfies a condition which, once it fails, fails for all newer ones."""
    for _ in range(_ATTEMPTS):
        known = numbers(place)
        low, high, found = 0, len(known) - 1, None
        while low <= high:
            middle = (low + high) // 2
            snapshot = at(place, known[middle])
            if snapshot is None:
                break  # expired since the listing
            if holds(snapshot):
                found, low = snapshot, middle + 1
            else:
                high = middle - 1
        else:
            return found
    raise SnapshotNotFound(f"the snapshots of {place.name} vanish as they are searched; is the table being dropped?")


# ---- what to say when there is none ----------------------------------------------------------------------------------------------------------


def moment(time_ms: int) -> str:
    """A time in words, by the clock of UTC: what was asked for as a local time may be meant otherwise."""
    try:
        return f"{datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=time_ms):%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC"
    except OverflowError:
        return f"{time_ms} ms since 1970"


def describe_times(place: MetadataLocation) -> str:
    """As `describe_range`, with the times of the first and the last."""
    known = ids(place)
    ends = [moment(found.time_millis) for number in dict.fromkeys(known[:1] + known[-1:]) if (found := find(place, number)) is not None]
    return f"{describe_range(place)}{', made at ' if ends else ''}{' to '.join(ends)}"


def describe_range(place: MetadataLocation) -> str:
    """Which snapshots there are, in words."""
    known = ids(place)
    if not known:
        return "it has no snapshots yet"
    return f"snapshot {known[0]} remains" if len(known) == 1 else f"snapshots {known[0]} to {known[-1]} remain"


def snapshot_not_found(place: MetadataLocation, snapshot_id: int) -> SnapshotNotFound:
    """The error of a snapshot that is not there: which remain, and which tags keep one."""
    known = ids(place)
    if not known:
        return SnapshotNotFound(f"{place.name} has no snapshot {snapshot_id}: it has no snapshots yet", name=str(snapshot_id))
    gone = f"is gone: {describe_range(place)}" if snapshot_id < known[-1] else f"does not exist: {describe_range(place)}"
    if snapshot_id < 1:
        gone = f"does not exist: ids begin at 1 and {describe_range(place)}"
    return SnapshotNotFound(f"snapshot {snapshot_id} of {place.name} {gone}.{_describe_tags(place)}", name=str(snapshot_id))


def _describe_tags(place: MetadataLocation) -> str:
    try:
        shown = [f"{tag.name} ({tag.snapshot.id})" for tag in tags.all(place)]
    except LakekitError:
        shown = tags.names(place)
    if not shown:
        return ""
    more = f" and {len(shown) - _MAX_SHOWN} more" if len(shown) > _MAX_SHOWN else ""
    return f" A tag keeps one: tags are {', '.join(shown[:_MAX_SHOWN])}{more}"
