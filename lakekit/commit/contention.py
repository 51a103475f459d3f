"""Waits of commits that compete on a storage without a commit queue; detection of lost commits.

    races lost, one after the other                            1    2    3    4     5    6    7    8
    waits up to, ms, for commit.min-retry-wait = 10 ms        10   20   40   80   160   80   40   20

No commit is to wait much longer than the others. Waits grow to spread competing commits, and shrink again: a commit
that has lost many races retries soonest. A process whose last commits lost races waits before the next one, on average
as long as those races took, and so leaves room for older commits of others. Each wait is drawn between 0 and the limit.

    5 ─┬─ ours is prepared on 5 ─────────────────────────────▶ put_if_absent(snapshot-6): true
       └─ theirs: 6 ── 7 ── all up to 6 expire ──────┘         snapshot 7 does not contain it, and 7 is what is read

A commit is lost (`is_superseded`) if another writer had committed and expired its snapshot N before this one created N:
two commits and an expiry between two calls of this one. The files of newer snapshots are compared with ours: a snapshot
built on ours contains our changes.

Source: RELIABILITY.md I1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lakekit.metadata import manifest_reader, snapshots
from lakekit.model.index_manifest import DELETE as INDEX_DELETE
from lakekit.model.manifest_entries import ADD, DELETE
from lakekit.storage import protocol

if TYPE_CHECKING:
    from collections.abc import Hashable

    from lakekit.commit.changes import CommitChanges
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.snapshot import Snapshot


_MAX_DOUBLINGS = 4
_NEWEST_COMMIT_WEIGHT = 0.3
"""How much the newest commit counts in what is remembered of all."""
_MIN_LOST_RACES = 0.1
"""Fewer lost races a commit than this need no room for others."""
_MAX_WAIT_BEFORE_MS = 2000
_CACHE_ENTRY_BYTES = 200


class Contention(NamedTuple):
    """Averages over the last commits of a process to a table: lost races and duration of the last attempt."""

    lost_races: float
    attempt_ms: float

    def with_commit(self, races: int, attempt_ms: float) -> Contention:
        """Return the averages after a further commit."""
        return Contention((1 - _NEWEST_COMMIT_WEIGHT) * self.lost_races + _NEWEST_COMMIT_WEIGHT * races, attempt_ms)


NO_CONTENTION = Contention(0, 0)


def max_retry_wait_ms(lost: int, shortest_ms: float, longest_ms: float) -> float:
    """Return how long to wait at most after a lost race, before which `lost` were lost."""
    grown = min(shortest_ms * 2 ** min(lost, _MAX_DOUBLINGS), longest_ms)
    return grown / 2 ** max(lost - _MAX_DOUBLINGS, 0)


def max_wait_before_commit_ms(history: Contention, longest_ms: float) -> float:
    """Return how long to wait at most before the first attempt of a commit."""
    return (
        0
        if history.lost_races < _MIN_LOST_RACES
        else min(2 * history.lost_races * history.attempt_ms, longest_ms, _MAX_WAIT_BEFORE_MS)
    )


def wait_after_race(ctx: TableContext, lost: int) -> None:
    """Wait after a lost race; `lost` is the number of races lost before it."""
    options = ctx.options
    _wait_within(ctx, max_retry_wait_ms(lost, options.commit_min_retry_wait_ms, options.commit_max_retry_wait_ms))


def wait_before_commit(ctx: TableContext) -> None:
    """Wait before a commit's first attempt if the last commits of this process to the table lost races."""
    if not isinstance(ctx.storage, protocol.SupportsCommitQueue):
        history = ctx.runtime.metadata_cache.get(_cache_key(ctx)) or NO_CONTENTION
        longest_ms = max_wait_before_commit_ms(history, ctx.options.commit_max_retry_wait_ms)
        if longest_ms:
            _wait_within(ctx, longest_ms)


def record_commit(ctx: TableContext, races: int, attempt_ms: float) -> None:
    """Record how many races a commit lost, and how long its last attempt took."""
    key = _cache_key(ctx)
    history = ctx.runtime.metadata_cache.get(key)
    if races or history is not None:
        ctx.runtime.metadata_cache.put(
            {key: (history or NO_CONTENTION).with_commit(races, attempt_ms)}, _CACHE_ENTRY_BYTES
        )


def _wait_within(ctx: TableContext, longest_ms: float) -> None:
    ctx.runtime.wait_ms(longest_ms * int(ctx.runtime.new_id()[:6], 16) / 0xFFFFFF)


def _cache_key(ctx: TableContext) -> Hashable:
    return "contention", ctx.storage, ctx.paths.snapshot_dir


# ---- lost commit ------------------------------------------------------------


def is_superseded(ctx: TableContext, own_snapshot: Snapshot, changes: CommitChanges) -> bool | None:
    """Return True if newer snapshots do not contain `own_snapshot`, which was just created with `changes`.

    Returns None if it cannot be decided. Raises what reading manifests raises.
    """
    # snapshots expire oldest first: while the one before exists, none of our number has
    if own_snapshot.id > 1 and ctx.storage.exists(ctx.paths.snapshot(own_snapshot.id - 1)):
        return False
    later_ids = [number for number in snapshots.ids(ctx) if number > own_snapshot.id]
    if not later_ids:
        return False
    after = snapshots.find(ctx, later_ids[0])
    if later_ids[0] > own_snapshot.id + 1 or after is None:  # the ids between have expired, and all older ones
        return ctx.storage.exists(ctx.paths.snapshot(own_snapshot.id))
    return _is_unknown_to(ctx, after, own_snapshot, changes)


def _is_unknown_to(
    ctx: TableContext, next_snapshot: Snapshot, own_snapshot: Snapshot, changes: CommitChanges
) -> bool | None:
    """Return whether `next_snapshot` was made without knowing of `own_snapshot`; None if it cannot be decided."""
    manifests = manifest_reader.manifest_files(ctx, next_snapshot)
    if {file.name for file in manifest_reader.manifest_files(ctx, own_snapshot, "delta")} & {
        file.name for file in manifests
    }:
        return False
    delta = changes.delta.entries
    added, deleted = (
        set(delta.filter(delta.integers("kind") == kind).column("file_name").to_pylist()) for kind in (ADD, DELETE)
    )
    if added:  # deleted again, they are named all the same
        return not added & _file_names(manifest_reader.read_entries(ctx, manifests))
    if deleted:  # what is deleted never lives again
        return bool(deleted & _file_names(manifest_reader.read_live_entries(ctx, next_snapshot)))
    index_names = {entry.file_name for entry in manifest_reader.index_entries(ctx, next_snapshot)}
    if index_names & {entry.file_name for entry in changes.index if entry.kind == INDEX_DELETE}:
        return True
    return False if index_names & {entry.file_name for entry in changes.index} else None


def _file_names(entries: ManifestEntries) -> set[str]:
    return set(entries.column("file_name").to_pylist())
