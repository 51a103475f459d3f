"""Search for the commits of a user among the snapshots of a table.

The identifiers of one user never decrease, so in most cases the user's newest snapshot decides whether a commit exists
already. The result of the search is cached: the user's next commit reads only the snapshots made since.

Source: ENGINE.md 5.7, `FileStoreCommitImpl.filterCommitted`, `SnapshotManager.latestSnapshotOfUser`.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from lakekit.errors import Conflict
from lakekit.metadata import snapshots

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot


_CACHE_ENTRY_BYTES = 2_000


class _CachedHistory(NamedTuple):
    """The newest snapshot of a user among all snapshots up to `last_snapshot`; None if the user has none."""

    latest_of_user: Snapshot | None
    last_snapshot: Snapshot


def latest_of_user(ctx: TableContext, user: str, latest: Snapshot) -> Snapshot | None:
    """Return the newest snapshot of a user up to `latest`; None if there is none."""
    key = ("commits", ctx.storage, ctx.paths.snapshot_dir, user)
    cached: _CachedHistory | None = ctx.runtime.metadata_cache.get(key)
    if cached is not None and not _is_still_valid(ctx, cached.last_snapshot, latest):
        cached = None
    newest = None if cached is None else cached.latest_of_user
    for snapshot in iter_backwards(ctx, latest, 0 if cached is None else cached.last_snapshot.id):
        if snapshot.commit_user == user:
            newest = snapshot
            break
    cache_latest(ctx, user, newest, latest)
    return newest


def cache_latest(ctx: TableContext, user: str, own_snapshot: Snapshot | None, latest: Snapshot) -> None:
    """Cache the newest snapshot of a user up to `latest`."""
    key = ("commits", ctx.storage, ctx.paths.snapshot_dir, user)
    ctx.runtime.metadata_cache.put({key: _CachedHistory(own_snapshot, latest)}, _CACHE_ENTRY_BYTES)


def _is_still_valid(ctx: TableContext, last_snapshot: Snapshot, latest: Snapshot) -> bool:
    """Return whether the history up to `last_snapshot` is unchanged, that is, no rollback happened."""
    return (
        last_snapshot == latest
        if last_snapshot.id >= latest.id
        else snapshots.find(ctx, last_snapshot.id) in (last_snapshot, None)
    )


def iter_backwards(ctx: TableContext, latest: Snapshot, stop: int) -> Iterator[Snapshot]:
    """Yield the snapshots from `latest` down to id `stop` + 1; end at the first missing snapshot."""
    yield latest
    for snapshot_id in range(latest.id - 1, max(stop, 0), -1):
        snapshot = snapshots.find(ctx, snapshot_id)
        if snapshot is None:
            return
        yield snapshot


def iter_since(ctx: TableContext, after_id: int, latest: Snapshot) -> Iterator[tuple[int, Snapshot | None]]:
    """Yield (id, snapshot) for the snapshots with ids above `after_id` up to `latest`, in ascending order.

    A run of missing snapshots is yielded as one pair: its first id, and None. A stray file may leave a gap of any
    width.
    """
    snapshot_id = after_id + 1
    existing: list[int] | None = None
    prefetched: dict[int, Snapshot | None] = {}
    while snapshot_id <= latest.id:
        if snapshot_id == latest.id:
            prefetched = {snapshot_id: latest}
        elif snapshot_id not in prefetched:
            batch_ids = range(
                snapshot_id, min(snapshot_id + (snapshots.MAX_CONCURRENT if ctx.storage.is_remote else 1), latest.id)
            )
            prefetched = dict(zip(batch_ids, snapshots.find_many(ctx, batch_ids), strict=True))
        snapshot = prefetched[snapshot_id]
        yield snapshot_id, snapshot
        snapshot_id += 1
        if snapshot is None:
            existing = snapshots.ids(ctx) if existing is None else existing
            position = bisect_left(existing, snapshot_id)
            snapshot_id = existing[position] if position < len(existing) else latest.id


def find_snapshot(
    ctx: TableContext, commit: tuple[str, int, str], after_id: int, latest: Snapshot | None
) -> Snapshot | None:
    """Return the snapshot above `after_id` of a commit (user, identifier, kind); None if there is none."""
    for _, snapshot in () if latest is None else iter_since(ctx, after_id, latest):
        if snapshot is not None and (snapshot.commit_user, snapshot.commit_identifier, snapshot.commit_kind) == commit:
            return snapshot
    return None


class EarlierCommit(NamedTuple):
    """A commit that was made already: the snapshots of it that still exist, oldest first.

    There are none if the user has committed greater identifiers and the snapshots of this one have expired.
    """

    snapshots: tuple[Snapshot, ...]


def find_earlier_commit(ctx: TableContext, user: str, identifier: int, latest: Snapshot | None) -> EarlierCommit | None:
    """Return the commit of a user and identifier; None if it was not made yet.

    Its snapshots are the oldest one with the user and identifier, and the next one if that is the COMPACT snapshot of
    the same commit. A later OVERWRITE with the same user and identifier is not part of the commit: it drops partitions
    that expired after the commit. If the commit's first snapshot has expired, the oldest existing snapshot with the
    identifier takes its place.

    Raises:
        Conflict: the user has committed greater identifiers, no snapshot of the commit was found, and no snapshot of
            the search has expired: the commit was never made.
    """
    own = None if latest is None else latest_of_user(ctx, user, latest)
    if own is None or own.commit_identifier < identifier:
        return None
    matching: list[Snapshot] = []
    reached_id = own.id
    for snapshot in iter_backwards(ctx, own, 0):
        reached_id = snapshot.id
        if snapshot.commit_user != user:
            continue
        if snapshot.commit_identifier < identifier:
            reached_id = 1
            break
        if snapshot.commit_identifier == identifier:
            matching.append(snapshot)
            if snapshot.commit_kind not in {"COMPACT", "OVERWRITE"}:
                break
    if not matching and reached_id == 1:
        raise Conflict(
            f"{user} has committed identifier {own.commit_identifier} in snapshot {own.id} of {ctx.name}, and never "
            f"{identifier}: identifiers of one commit user must not fall. Nothing was committed. Give greater "
            "identifiers, or another commit user",
            snapshot_id=own.id,
        )
    matching.reverse()
    return EarlierCommit(tuple(matching[: 2 if [later.commit_kind for later in matching[1:2]] == ["COMPACT"] else 1]))
