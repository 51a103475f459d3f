"""Dedicated compaction: every bucket of a table, or of some partitions, in one commit.

Writers that are told `write-only` leave their files to this; it may run beside them, since it only replaces files that are there, and a writer that only adds
files conflicts with nothing (ENGINE 2.11, 5.5). Two compactions of one bucket at a time conflict: the second raises `Conflict` and changes nothing.

Source: ENGINE.md 2.4, 2.11, 8.2 and 8.6; `CompactProcedure`, `CompactAction`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.bucket import clustered
from lakekit.bucket.restore import Standing
from lakekit.care import append_files, chosen, cluster, postpone, rescale, sort_compact
from lakekit.commit import expired
from lakekit.commit.publish import publish_once
from lakekit.errors import InvalidOption
from lakekit.meta import snapshots
from lakekit.model.layout import POSTPONE_BUCKET
from lakekit.write.writers import Writers

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from lakekit.bucket.ordered import Strategy
    from lakekit.commit.outcome import Commit
    from lakekit.meta.handle import Handle


def compact(
    handle: Handle,
    *,
    full: bool = False,
    where: pl.Expr | str | None = None,
    order_by: str | Sequence[str] | None = None,
    strategy: Strategy = "order",
    idle_ms: int | None = None,
) -> Commit:
    """Compacts what the levels of each bucket ask for; `full`: each bucket to its highest level. `where` chooses partitions. `order_by` sorts all their rows.

    `idle_ms`: only the partitions that got no file for so long.

    Append tables that are clustered (`clustering.incremental`) have the runs sorted that are due.

    Raises `InvalidOption` for `where`, `order_by` and `strategy`, `Conflict` where another compaction was faster, and what compacting raises; then nothing
    changed.
    """
    if order_by is None and strategy != "order":
        raise InvalidOption(f"strategy {strategy!r} sorts by columns, and order_by names none", key="order_by")
    if order_by is not None and idle_ms is not None:
        raise InvalidOption("order_by sorts whole partitions, new files or not: leave idle out, or choose them by where", key="idle", value=str(idle_ms))
    handle = handle.with_options({"write-only": "false"})
    if handle.has_buckets:
        clustered.clusters_buckets(handle)
    user = handle.new_commit_user()
    order = None if order_by is None else sort_compact.ordering(handle, order_by, strategy)
    if order is not None and handle.kind == "key":
        if rescale.waits_for_compaction(handle):
            compact(handle, full=True, where=where)
        return sort_compact.sort_keys(handle, order, where)
    standing = Standing.of(handle, snapshots.latest(handle))
    if order is not None:
        return publish_once(handle, sort_compact.sort(handle, standing, order, where), commit_user=user)
    places = standing.places()
    wanted = chosen.partitions(handle, (partition for partition, _ in places), where)
    if idle_ms is not None:
        wanted = chosen.rested(handle, standing.snapshot, wanted, idle_ms)
    if handle.options.compaction_skip_expired_partitions:
        wanted = {partition for partition in wanted if not expired.is_expired(handle, partition)}
    if handle.options.bucket == POSTPONE_BUCKET:
        return publish_once(handle, postpone.place(handle, standing, wanted, user, full=full), commit_user=user)
    if not handle.has_buckets and handle.options.clustering_incremental:
        done = cluster.cluster(handle, standing, wanted, full=full, is_chosen=where is not None)
        return publish_once(handle, done, commit_user=user)
    if not handle.has_buckets:
        return publish_once(handle, append_files.pack(handle, standing, wanted, full=full), commit_user=user)
    writers = Writers(handle, commit_user=user)
    try:
        writers.compact_places([place for place in places if place[0] in wanted], full=full)
        return publish_once(handle, writers.prepare(), commit_user=user)
    finally:
        writers.drop()
