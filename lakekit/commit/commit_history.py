"""Who committed what: whether a commit of this user and identifier is there already.

Identifiers of one user never fall, so the user's newest snapshot tells most of it. What was scanned is kept: a user's next commit looks only at what
came since. Source: ENGINE.md 5.7, `SnapshotManager.latestSnapshotOfUser`, `FileStoreCommitImpl.filterCommitted`.
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
    """The newest snapshot that a user made."""
    key = ("commits", ctx.storage, ctx.layout.snapshot_dir, user)
    known: _CachedHistory | None = ctx.world.decoded.get(key)
    if known is not None and not _is_still_valid(ctx, known.end, latest):
        known = None
    found = None if known is None else known.own
    for snapshot in iter_backwards(ctx, latest, 0 if known is None else known.end.id):
        if snapshot.commit_user == user:
            found = snapshot
            break
    remember(ctx, user, found, latest)
    return found


def remember(ctx: TableContext, user: str, own: Snapshot | None, latest: Snapshot) -> None:
    """Keeps what is the newest snapshot of a user up to `latest`."""
    key = ("commits", ctx.storage, ctx.layout.snapshot_dir, user)
    ctx.world.decoded.put({key: _CachedHistory(own, latest)}, _KNOWN_BYTES)


def _is_still_valid(ctx: TableContext, end: Snapshot, latest: Snapshot) -> bool:
    """Whether history up to `end` is what it was: nobody rolled back."""
    return end == latest if end.id >= latest.id else snapshots.find(ctx, end.id) in (end, None)


def iter_backwards(ctx: TableContext, latest: Snapshot, stop: int) -> Iterator[Snapshot]:
    """The snapshots from `latest` down, above `stop`, as far as they are there."""
    yield latest
    for number in range(latest.id - 1, max(stop, 0), -1):
        found = snapshots.find(ctx, number)
        if found is None:
            return
        yield found


def iter_since(ctx: TableContext, after: int, latest: Snapshot) -> Iterator[tuple[int, Snapshot | None]]:
    """Yield the snapshots above `after` up to `latest`, in order, each with its number.

    Of neighbours that are missing only the first comes, with None: a stray file may leave a gap of any width.
    """
    number = after + 1
    existing: list[int] | None = None
    ahead: dict[int, Snapshot | None] = {}
    while number <= latest.id:
        if number == latest.id:
            ahead = {number: latest}
        elif number not in ahead:
            numbers = range(number, min(number + (snapshots.MAX_CONCURRENT if ctx.storage.is_remote else 1), latest.id))
            ahead = dict(zip(numbers, snapshots.find_all(ctx, numbers), strict=True))
        snapshot = ahead[number]
        yield number, snapshot
        number += 1
        if snapshot is None:
            existing = snapshots.ids(ctx) if existing is None else existing
            position = bisect_left(existing, number)
            number = existing[position] if position < len(existing) else latest.id


def find_commit_snapshots(ctx: TableContext, user: str, identifier: int, latest: Snapshot | None) -> list[Snapshot] | None:
    """The snapshots of a commit that is there already, oldest first; None: it is not there.

    Partitions that expire after a commit are dropped by its user and identifier: the commit is what lies before that. Where that is gone, they stand for it.
    Empty: the user has gone on to greater identifiers, and the snapshots where it would be have expired. Raises `Conflict` where they have not.
    """
    own = None if latest is None else latest_of_user(ctx, user, latest)
    if own is None or own.commit_identifier < identifier:
        return None
    found: list[Snapshot] = []
    reached = own.id
    for snapshot in iter_backwards(ctx, own, 0):
        reached = snapshot.id
        if snapshot.commit_user != user:
            continue
        if snapshot.commit_identifier < identifier:
            reached = 1
            break
        if snapshot.commit_identifier == identifier:
            found.append(snapshot)
            if snapshot.commit_kind not in {"COMPACT", "OVERWRITE"}:
                break
    if not found and reached == 1:
        raise Conflict(
            f"{user} has committed identifier {own.commit_identifier} in snapshot {own.id} of {ctx.name}, and never {identifier}: identifiers of one "
            "commit user must not fall. Nothing was committed. Give greater identifiers, or another commit user",
            snapshot_id=own.id,
        )
    found.reverse()
    return found[: 2 if [one.commit_kind for one in found[1:2]] == ["COMPACT"] else 1]
