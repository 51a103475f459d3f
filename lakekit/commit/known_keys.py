"""Refuse a cross-partition upsert whose writer does not know rows that other users wrote meanwhile.

    writer knows all keys up to snapshot 7
    snapshot 8 APPEND of another user: may have put the same key into another partition  ->  Conflict
    snapshot 8 COMPACT: keys stay in their partitions

Unlike dynamic buckets there is no index to compare: the writer's map comes from the rows. The reference leaves it to
users not to start two writers.
Source: ENGINE.md 7.5; RELIABILITY.md section 1 (several writers).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.commit import commit_history
from lakekit.errors import Conflict

if TYPE_CHECKING:
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot


def check(ctx: TableContext, user: str, known_snapshot_id: int | None, latest: Snapshot) -> None:
    """Raise `Conflict` if another user wrote after snapshot `known_snapshot_id`.

    So too if a snapshot is missing, since it may be of another user. 0: before the first snapshot. None: nothing to
    check.
    """
    if known_snapshot_id is None:
        return
    own = commit_history.latest_of_user(ctx, user, latest)
    for snapshot_id, other in commit_history.iter_since(
        ctx, max(known_snapshot_id, 0 if own is None else own.id), latest
    ):
        if other is None or (other.commit_user != user and other.commit_kind in {"APPEND", "OVERWRITE"}):
            origin = "is gone" if other is None else f"is of {other.commit_user}"
            raise Conflict(
                f"Another writer wrote to {ctx.name} since this one read which partition each key lies in (at "
                f"snapshot {known_snapshot_id}; {snapshot_id} {origin}): a key could come to lie in two partitions. "
                "Nothing was committed. Open a new writer and write the rows again; one job at a time writes such "
                "tables",
                snapshot_id=snapshot_id,
            )
