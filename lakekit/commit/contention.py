"""Waiting times of commits that compete on a storage without a commit queue.

No commit is to wait much longer than the others.

    races lost, one after the other                            1    2    3    4     5    6    7    8
    waits up to, ms, for commit.min-retry-wait = 10 ms        10   20   40   80   160   80   40   20

Waits grow to spread competing commits, and shrink again: a commit that has lost many races retries soonest. A process
whose last commits lost races waits before the next one, on average as long as those races took, and so leaves room for
older commits of others. Each wait is drawn between 0 and the limit above.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lakekit.storage import protocol

if TYPE_CHECKING:
    from collections.abc import Hashable

    from lakekit.metadata.table_context import TableContext

_DOUBLINGS = 4
_WEIGHT = 0.3
"""How much the newest commit counts in what is remembered of all."""
_FEWEST_RACES = 0.1
"""Fewer lost races a commit than this need no room for others."""
_LONGEST_ROOM_MS = 2000
_MARK_BYTES = 200


class Contention(NamedTuple):
    """Averages over the last commits of a process to a table: lost races and duration of the last attempt."""

    races: float
    attempt_ms: float

    def after(self, races: int, attempt_ms: float) -> Contention:
        """Return the averages after a further commit."""
        return Contention((1 - _WEIGHT) * self.races + _WEIGHT * races, attempt_ms)


NO_CONTENTION = Contention(0, 0)


def longest_retry_wait_ms(lost: int, shortest_ms: float, longest_ms: float) -> float:
    """Return how long to wait at most after a lost race, before which `lost` were lost."""
    grown = min(shortest_ms * 2 ** min(lost, _DOUBLINGS), longest_ms)
    return grown / 2 ** max(lost - _DOUBLINGS, 0)


def longest_room_ms(history: Contention, longest_ms: float) -> float:
    """Return how long to wait at most before the first attempt of a commit."""
    return (
        0
        if history.races < _FEWEST_RACES
        else min(2 * history.races * history.attempt_ms, longest_ms, _LONGEST_ROOM_MS)
    )


def wait_after_race(ctx: TableContext, lost: int) -> None:
    """Wait after a lost race; `lost` is the number of races lost before it."""
    options = ctx.options
    _wait_within(ctx, longest_retry_wait_ms(lost, options.commit_min_retry_wait_ms, options.commit_max_retry_wait_ms))


def leave_room(ctx: TableContext) -> None:
    """Wait before a commit's first attempt if the last commits of this process to the table lost races."""
    if not isinstance(ctx.storage, protocol.SupportsCommitQueue):
        history = ctx.runtime.metadata_cache.get(_key(ctx)) or NO_CONTENTION
        longest_ms = longest_room_ms(history, ctx.options.commit_max_retry_wait_ms)
        if longest_ms:
            _wait_within(ctx, longest_ms)


def remember(ctx: TableContext, races: int, attempt_ms: float) -> None:
    """Record how many races a commit lost, and how long its last attempt took."""
    key = _key(ctx)
    history = ctx.runtime.metadata_cache.get(key)
    if races or history is not None:
        ctx.runtime.metadata_cache.put({key: (history or NO_CONTENTION).after(races, attempt_ms)}, _MARK_BYTES)


def _wait_within(ctx: TableContext, longest_ms: float) -> None:
    ctx.runtime.wait(longest_ms * int(ctx.runtime.new_id()[:6], 16) / 0xFFFFFF)


def _key(ctx: TableContext) -> Hashable:
    return "contention", ctx.storage, ctx.layout.snapshot_dir
