"""Dedicated compaction: every bucket of a table, or of some partitions, in one commit.

    request -> (partition, bucket) of one snapshot -> messages of some of them, here or in other processes -> one commit

`write-only` writers leave compaction to this; it may run beside them, since it only replaces existing files, and a
writer that only adds files conflicts with nothing (ENGINE 2.11, 5.5). Two concurrent compactions of one bucket
conflict: the second raises `Conflict` and changes nothing.

Source: ENGINE.md 2.4, 2.11, 8.2 and 8.6; `CompactProcedure`, `CompactAction`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakekit.bucket import clustered
from lakekit.bucket.restore import SnapshotBuckets
from lakekit.commit import expired
from lakekit.commit.committer import commit_changes_once
from lakekit.data_file.entry_damage import add_manifest_path
from lakekit.errors import Conflict, InvalidOption
from lakekit.maintenance import append_files, chosen, cluster, postpone, rewrite, sort_compact
from lakekit.metadata import feature_check, snapshots
from lakekit.model.snapshot import BATCH_IDENTIFIER
from lakekit.model.table_paths import POSTPONE_BUCKET
from lakekit.write.table_writers import BucketWriters

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from lakekit.bucket.sort_order import SortOrder, Strategy
    from lakekit.commit.result import Commit
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.commit_message import CommitMessage
    from lakekit.write.table_writers import BucketId

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactRequest:
    """A compaction to run. `order`: all rows are sorted; `is_chosen`: the caller named partitions."""

    ctx: TableContext
    commit_user: str
    full: bool
    order: SortOrder | None
    is_chosen: bool

    @property
    def goes_by_partition(self) -> bool:
        """Whether what is done to a partition is done to all of it at once, and not bucket by bucket."""
        return self.order is not None or not self.ctx.has_buckets or self.ctx.options.bucket == POSTPONE_BUCKET


def compact(
    ctx: TableContext,
    *,
    full: bool = False,
    where: pl.Expr | str | None = None,
    order_by: str | Sequence[str] | None = None,
    strategy: Strategy = "order",
    idle_ms: int | None = None,
) -> Commit:
    """Compact each bucket as its levels need, and commit.

    `full`: compact each bucket to its highest level. `where` chooses partitions, `idle_ms` those of them that got no
    file for so long. `order_by` sorts all their rows. Append tables that are clustered (`clustering.incremental`) have
    the runs sorted that are due.

    Raises: `InvalidOption` for `where`, `order_by` and `strategy`, `Conflict` where another compaction was faster, and
    what compacting raises; then nothing changed.
    """
    if order_by is not None and idle_ms is not None:
        raise InvalidOption(
            "order_by sorts whole partitions, new files or not: leave idle out, or choose them by where",
            key="idle",
            value=str(idle_ms),
        )
    job = compact_request(ctx, full=full, where=where, order_by=order_by, strategy=strategy)
    if job.order is not None and ctx.kind == "key":
        if rewrite.waits_for_compaction(job.ctx):
            compact(ctx, full=True, where=where)
        return sort_compact.sort_keys(job.ctx, job.order, where)
    snapshot_buckets = SnapshotBuckets.of(job.ctx, snapshots.latest(job.ctx))
    with add_manifest_path(job.ctx, lambda: snapshot_buckets.snapshot):
        made = messages(job, snapshot_buckets, due_buckets(job, snapshot_buckets, where, idle_ms=idle_ms))
    return commit_changes_once(job.ctx, made, commit_user=job.commit_user)


def compact_request(
    ctx: TableContext,
    *,
    full: bool,
    where: pl.Expr | str | None,
    order_by: str | Sequence[str] | None,
    strategy: Strategy,
) -> CompactRequest:
    """Check the arguments of a compaction, and return the request.

    Raises: `InvalidOption` and `Unsupported` as `compact` does, but for `where`.
    """
    feature_check.check_writable(ctx)
    if order_by is None and strategy != "order":
        raise InvalidOption(f"strategy {strategy!r} sorts by columns, and order_by names none", key="order_by")
    ctx = ctx.with_options({"write-only": "false"})
    if ctx.has_buckets:
        clustered.clusters_buckets(ctx)
    order = None if order_by is None else sort_compact.ordering(ctx, order_by, strategy)
    return CompactRequest(
        ctx=ctx, commit_user=ctx.new_commit_user(), full=full, order=order, is_chosen=where is not None
    )


def due_buckets(
    job: CompactRequest, snapshot_buckets: SnapshotBuckets, where: pl.Expr | str | None, *, idle_ms: int | None = None
) -> list[BucketId]:
    """Return the buckets of a snapshot that a compaction looks at.

    Raises: `InvalidOption` for `where`.
    """
    ctx, bucket_ids = job.ctx, snapshot_buckets.places()
    wanted = chosen.partitions(ctx, (partition for partition, _ in bucket_ids), where)
    if idle_ms is not None:
        wanted = chosen.idle_partitions(ctx, snapshot_buckets.snapshot, wanted, idle_ms)
    if job.order is None and ctx.options.compaction_skip_expired_partitions:
        wanted = {partition for partition in wanted if not expired.is_expired(ctx, partition)}
    return [bucket_id for bucket_id in bucket_ids if bucket_id[0] in wanted]


def messages(
    job: CompactRequest,
    snapshot_buckets: SnapshotBuckets,
    bucket_ids: Sequence[BucketId],
    *,
    shard: tuple[int, int] = (0, 1),
) -> list[CommitMessage]:
    """Compact some buckets and return the commit messages; all of a partition where that is the unit.

    `shard`: the i-th of n parts of the file groups to compact, in append tables without buckets. Raises what compacting
    raises; then no new file of these buckets is left.
    """
    ctx, partitions = job.ctx, sorted({partition for partition, _ in bucket_ids})
    if job.order is not None:
        return sort_compact.sort(ctx, snapshot_buckets, job.order, partitions)
    if ctx.options.bucket == POSTPONE_BUCKET:
        return postpone.move_to_buckets(ctx, snapshot_buckets, partitions, job.commit_user, full=job.full)
    if not ctx.has_buckets and ctx.options.clustering_incremental:
        return cluster.cluster(ctx, snapshot_buckets, partitions, full=job.full, is_chosen=job.is_chosen)
    if not ctx.has_buckets:
        return append_files.pack(ctx, snapshot_buckets, partitions, full=job.full, shard=shard)
    writers = BucketWriters(ctx, commit_user=job.commit_user, snapshot_buckets=snapshot_buckets)
    try:
        writers.compact_places(list(bucket_ids), full=job.full)
        return writers.prepare()
    finally:
        writers.drop()


# ---- after writers that only add files -----------------------------------------------------------


def hides_new_files(ctx: TableContext) -> bool:
    """Return whether readers see new files, or their changelog, only after the table's own compaction.

    The table's own writers run that compaction (ENGINE 2.6, 2.7).
    """
    options = ctx.options
    if ctx.kind != "key" or not ctx.has_buckets or options.bucket == POSTPONE_BUCKET or options.write_only:
        return False
    return options.needs_lookup or options.full_compaction_interval > 0


def compact_written(ctx: TableContext, committed: Sequence[CommitMessage], *, identifier: int) -> None:
    """Compact the buckets of committed messages as the table's own writers would have.

    Nothing is done unless `hides_new_files`. `identifier`: the number of the commit. Every n commits
    (`full-compaction.delta-commits`) all buckets that have new files are compacted fully.

    Raises: `Conflict` where another compaction was faster several times, and what compacting raises; the rows stay
    committed.
    """
    if not hides_new_files(ctx):
        return
    interval = ctx.options.full_compaction_interval
    full = interval > 0 and (identifier == BATCH_IDENTIFIER or identifier % interval == 0)
    if not full and not ctx.options.needs_lookup:
        return
    written = {(message.partition, message.bucket) for message in committed}
    for attempt in range(_ATTEMPTS):
        job = compact_request(ctx, full=full, where=None, order_by=None, strategy="order")
        snapshot_buckets = SnapshotBuckets.of(job.ctx, snapshots.latest(job.ctx))
        if full and interval > 1:
            written |= {
                bucket_id
                for bucket_id in snapshot_buckets.places()
                if any(file.level == 0 for file in snapshot_buckets.files(*bucket_id))
            }
        try:
            commit_changes_once(job.ctx, messages(job, snapshot_buckets, sorted(written)), commit_user=job.commit_user)
        except Conflict:
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return
