"""Find the snapshots of a commit user, and whether a commit with an identifier exists already.

Identifiers of one user never fall, so the user's newest snapshot decides most cases. The scan is cached: a user's next
commit reads only the snapshots made since. Source: ENGINE.md 5.7, `SnapshotManager.latestSnapshotOfUser`,
`FileStoreCommitImpl.filterCommitted`.
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

_KNOWN_BYTES = 2_000


class _CachedHistory(NamedTuple):
    """The newest snapshot of a user among all up to `end`."""

    own: Snapshot | None
    end: Snapshot


def latest_of_user(ctx: TableContext, user: str, latest: Snapshot) -> Snapshot | None:
    """Return the newest snapshot of a user, or None."""
    key = ("commits", ctx.storage, ctx.layout.snapshot_dir, user)
    cached: _CachedHistory | None = ctx.runtime.metadata_cache.get(key)
    if cached is not None and not _is_still_valid(ctx, cached.end, latest):
        cached = None
    newest = None if cached is None else cached.own
    for snapshot in iter_backwards(ctx, latest, 0 if cached is None else cached.end.id):
        if snapshot.commit_user == user:
            newest = snapshot
            break
    remember(ctx, user, newest, latest)
    return newest


def remember(ctx: TableContext, user: str, own: Snapshot | None, latest: Snapshot) -> None:
    """Cache the newest snapshot of a user up to `latest`."""
    key = ("commits", ctx.storage, ctx.layout.snapshot_dir, user)
    ctx.runtime.metadata_cache.put({key: _CachedHistory(own, latest)}, _KNOWN_BYTES)


def _is_still_valid(ctx: TableContext, end: Snapshot, latest: Snapshot) -> bool:
    """Return whether the history up to `end` is unchanged, that is, no rollback happened."""
    return end == latest if end.id >= latest.id else snapshots.find(ctx, end.id) in (end, None)


def iter_backwards(ctx: TableContext, latest: Snapshot, stop: int) -> Iterator[Snapshot]:
    """Yield the snapshots from `latest` down to above `stop`, until one is missing."""
    yield latest
    for snapshot_id in range(latest.id - 1, max(stop, 0), -1):
        snapshot = snapshots.find(ctx, snapshot_id)
        if snapshot is None:
            return
        yield snapshot


def iter_since(ctx: TableContext, after: int, latest: Snapshot) -> Iterator[tuple[int, Snapshot | None]]:
    """Yield the snapshots above `after` up to `latest` in ascending order, each with its id.

    Of a run of missing snapshots only the first is yielded, with None: a stray file may leave a gap of any width.
    """
    snapshot_id = after + 1
    existing: list[int] | None = None
    prefetched: dict[int, Snapshot | None] = {}
    while snapshot_id <= latest.id:
        if snapshot_id == latest.id:
            prefetched = {snapshot_id: latest}
        elif snapshot_id not in prefetched:
            batch_ids = range(
                snapshot_id, min(snapshot_id + (snapshots.MAX_CONCURRENT if ctx.storage.is_remote else 1), latest.id)
            )
            prefetched = dict(zip(batch_ids, snapshots.find_all(ctx, batch_ids), strict=True))
        snapshot = prefetched[snapshot_id]
        yield snapshot_id, snapshot
        snapshot_id += 1
        if snapshot is None:
            existing = snapshots.ids(ctx) if existing is None else existing
            position = bisect_left(existing, snapshot_id)
            snapshot_id = existing[position] if position < len(existing) else latest.id


def find_commit_snapshots(
    ctx: TableContext, user: str, identifier: int, latest: Snapshot | None
) -> list[Snapshot] | None:
    """Return the snapshots of a commit that exists already, oldest first; None if it does not exist.

    Partitions that expire after a commit are dropped under its user and identifier: the commit is what lies before
    that. Where that snapshot has expired, the later ones stand for it. Empty: the user has gone on to greater
    identifiers, and the snapshots where the commit would be have expired.

    Raises:
        Conflict: the user has gone on to greater identifiers, and no snapshot of the commit was found although none has
            expired.
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
    return matching[: 2 if [later.commit_kind for later in matching[1:2]] == ["COMPACT"] else 1]
