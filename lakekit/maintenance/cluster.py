"""Incremental clustering of append tables without buckets.

The due runs of each partition are sorted, in one COMPACT snapshot. Rows appended meanwhile stay in level 0. Where the
caller chooses partitions, `clustering.history-partition.idle-to-full-sort` adds others that were not written to for so
long, the longest idle first, up to `clustering.history-partition.limit`: all their rows are sorted.

Source: ENGINE.md 8.6; `IncrementalClusterManager`, `HistoryPartitionCluster`, `CompactProcedure`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.bucket import clustered, sort_order
from lakekit.bucket.append_compaction import RewriteTarget
from lakekit.commit import abort
from lakekit.data_file.file_names import file_names
from lakekit.maintenance import append_files
from lakekit.model.table_paths import UNAWARE_BUCKET
from lakekit.progress import work
from lakekit.world import wall_clock_ms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from lakekit.bucket.restore import SnapshotBuckets
    from lakekit.bucket.sort_order import SortOrder
    from lakekit.lsm.compaction_picker import CompactionUnit
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.commit_message import CommitMessage


def cluster(
    ctx: TableContext, snapshot_buckets: SnapshotBuckets, partitions: Collection[bytes], *, full: bool, is_chosen: bool
) -> list[CommitMessage]:
    """Sort the due runs of some partitions, and return the commit messages.

    `is_chosen`: the caller named the partitions, so that idle ones may be added.

    Raises: `InvalidOption` where the columns cannot be sorted by, and what reading and writing raise; then no new file
    is left.
    """
    order = _ordering(ctx)
    units = {
        partition: clustered.pick_unit(ctx, snapshot_buckets.bucket(partition, UNAWARE_BUCKET).files, full=full)
        for partition in sorted(partitions)
    }
    if is_chosen:
        units |= {
            partition: clustered.pick_unit(ctx, snapshot_buckets.bucket(partition, UNAWARE_BUCKET).files, full=True)
            for partition in _idle_partitions(ctx, snapshot_buckets, partitions)
        }
    todo = {partition: unit for partition, unit in units.items() if unit is not None}
    messages: list[CommitMessage] = []
    try:
        with work(ctx.world, "clustering", "files", sum(len(unit.files) for unit in todo.values())) as under_way:
            for partition, unit in todo.items():
                messages += _cluster_unit(ctx, snapshot_buckets, partition, unit, order)
                under_way.advance(len(unit.files))
    except BaseException:
        abort.abort(ctx, messages)
        raise
    return messages


def _ordering(ctx: TableContext) -> SortOrder:
    """Return the sort order that the options ask for.

    Sorted group by group (`IncrementalClusterCompact.localSort`), it is the order of the columns one after another.
    """
    if ctx.options.clustering_incremental_mode == clustered.LOCAL_SORT:
        return sort_order.clustering_order(ctx.with_options({"clustering.strategy": "order"}))
    return sort_order.clustering_order(ctx)


def _cluster_unit(
    ctx: TableContext, snapshot_buckets: SnapshotBuckets, partition: bytes, unit: CompactionUnit, order: SortOrder
) -> Iterator[CommitMessage]:
    restored = snapshot_buckets.bucket(partition, UNAWARE_BUCKET)
    removed = {file.name for file in unit.files}
    vectors = append_files.vectors_of(ctx, partition, restored, removed)
    target = RewriteTarget(
        ctx=ctx,
        partition=partition,
        bucket=UNAWARE_BUCKET,
        names=file_names(ctx),
        deletions=vectors.positions,
        snapshot_id=restored.snapshot_id,
    )
    as_one = ctx.options.clustering_incremental_mode != clustered.LOCAL_SORT
    yield append_files.message(ctx, partition, clustered.rewrite(target, unit, order, as_one=as_one))
    yield from append_files.remove_vectors(vectors, removed)


def _idle_partitions(ctx: TableContext, snapshot_buckets: SnapshotBuckets, selected: Collection[bytes]) -> list[bytes]:
    """Return the partitions that are old enough to be sorted as a whole, and are not yet."""
    options = ctx.options
    idle_ms = options.clustering_history_partition_idle_to_full_sort_ms
    if idle_ms is None or not ctx.schema.partition_keys:
        return []
    before = wall_clock_ms(ctx.world.now_ms()) - idle_ms
    last = options.level_count - 1
    ages: list[tuple[int, bytes]] = []
    for partition in {bucket_id[0] for bucket_id in snapshot_buckets.places()} - set(selected):
        times = [
            file.creation_time_ms or 0
            for file in snapshot_buckets.bucket(partition, UNAWARE_BUCKET).files
            if file.level < last
        ]
        if times and max(times) < before:
            ages.append((max(times), partition))
    return [partition for _, partition in sorted(ages)[: options.clustering_history_partition_limit]]
