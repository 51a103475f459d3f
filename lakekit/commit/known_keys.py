"""Keys that may move between partitions have one writer at a time: who did not know of the rows that came since is refused.

    the writer knows all keys up to snapshot 7         snapshot 8 APPEND of another user: it may have put the same key into another partition  ->  Conflict
                                                       snapshot 8 COMPACT: keys stay where they are

There is no index to compare, as there is of dynamic buckets: the writer's map comes from the rows. The reference leaves it to users not to start two writers.
Source: ENGINE.md 7.5; RELIABILITY.md section 1 (several writers).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.commit import commit_history
from lakekit.errors import Conflict

if TYPE_CHECKING:
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot


def check(ctx: TableContext, user: str, known_at: int | None, latest: Snapshot) -> None:
    """Raises `Conflict` where another user wrote after snapshot `known_at` (0: before the first), or may have, as that one is gone. None: nothing to do."""
    if known_at is None:
        return
    own = commit_history.latest_of_user(ctx, user, latest)
    for number, other in commit_history.iter_since(ctx, max(known_at, 0 if own is None else own.id), latest):
        if other is None or (other.commit_user != user and other.commit_kind in {"APPEND", "OVERWRITE"}):
            who = "is gone" if other is None else f"is of {other.commit_user}"
            raise Conflict(
                f"Another writer wrote to {ctx.name} since this one read which partition each key lies in (at snapshot {known_at}; {number} {who}): a key "
                "could come to lie in two partitions. Nothing was committed. Open a new writer and write the rows again; one job at a time writes such tables",
                snapshot_id=number,
            )
