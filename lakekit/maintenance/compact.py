"""Dedicated compaction of all buckets, or of some partitions, in one commit; merge of manifests.

    request -> (partition, bucket) of one snapshot -> messages of some of them, here or in other processes -> one commit

    append tables without buckets   small files are packed by partition and rewritten, without the deleted rows and
                                    their deletion vectors; or clustered: the due runs of a partition are sorted
    postponed rows of bucket -2     w1-0, w1-1, w2-0 are replayed in write order into as many buckets as their partition
                                    has, and compacted away in the commit that adds the new files
    manifests                       m1 m2 … m40 -> m41, in a COMPACT snapshot of the same rows

`write-only` writers leave compaction to this; it may run beside them, since it only replaces existing files, and a
writer that only adds files conflicts with nothing (ENGINE 2.11, 5.5). Rows appended while files are clustered stay in
level 0. Two concurrent compactions of one bucket conflict: the second raises `Conflict` and changes nothing.

Where the caller chooses partitions to cluster, `clustering.history-partition.idle-to-full-sort` adds others that were
not written to for so long, the longest idle first, up to `clustering.history-partition.limit`: all their rows are
sorted. Every commit merges small manifests once there are many; `compact_manifests` does it now, and drops the entries
of deleted files.

Source: ENGINE.md 2.4, 2.11, 5.3, 7.6, 8.2, 8.6, ENGINE_1.4.2.md B (`postpone.default-bucket-num` is 1; the options
`postpone.target-…` are of later engines); `CompactProcedure`, `CompactAction`, `AppendCompactCoordinator`,
`AppendCompactTask`, `AppendDeleteFileMaintainer`, `IncrementalClusterManager`, `HistoryPartitionCluster`,
`RewritePostponeBucketCommittableOperator`, `FileStoreCommitImpl.compactManifest`, `ManifestFileMerger`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakekit.bucket import append_compaction, sort_order
from lakekit.bucket.append_compaction import DeletionVectorSummary, RewriteTarget
from lakekit.bucket.deletion_vector_writer import BucketDeletionVectors
from lakekit.bucket.restore import SnapshotBuckets
from lakekit.columns import KIND, collect_batches
from lakekit.commit import abort, committer, manifest_writer, try_commit
from lakekit.commit.changes import EMPTY_DELTA, CommitChanges
from lakekit.commit.committer import commit_changes_once
from lakekit.commit.manifest_writer import UncommittedFiles
from lakekit.commit.try_commit import CommitStep, MergedManifests
from lakekit.data_file import paths as places
from lakekit.data_file.corrupt_manifest_path import add_manifest_path
from lakekit.data_file.paths import make_file_names
from lakekit.data_file.reader import scan_files, translate_polars_errors
from lakekit.errors import Conflict, InvalidOption
from lakekit.maintenance import expire_partitions, rewrite
from lakekit.metadata import manifest_reader as meta, snapshots, table_context
from lakekit.model.commit_message import CommitMessage
from lakekit.model.snapshot import BATCH_IDENTIFIER
from lakekit.model.table_paths import POSTPONE_BUCKET, UNAWARE_BUCKET
from lakekit.progress import begin_work
from lakekit.runtime import wall_clock_ms
from lakekit.write.table_writers import BucketWriters

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    import polars as pl

    from lakekit.bucket.compaction import CompactResult
    from lakekit.bucket.restore import RestoredBucket
    from lakekit.bucket.sort_order import SortOrder, Strategy
    from lakekit.commit.changes import Commit
    from lakekit.lsm.compaction_picker import CompactionUnit
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.write.table_writers import BucketId


def pack_small_files(
    ctx: TableContext,
    snapshot_buckets: SnapshotBuckets,
    partitions: Iterable[bytes],
    *,
    full: bool,
    shard: tuple[int, int] = (0, 1),
) -> list[CommitMessage]:
    """Rewrite groups of small files and return the commit messages.

    `full`: any two small files of a partition are enough for a group. `shard`: rewrite the i-th of n parts of each
    partition's groups.
    Raises what reading and writing raise; then no new file is left.
    """
    number, count = shard
    messages: list[CommitMessage] = []
    try:
        for partition in sorted(partitions):
            messages += _rewrite_partition(
                ctx,
                snapshot_buckets,
                partition,
                plan_groups(ctx, snapshot_buckets.restore_bucket(partition, UNAWARE_BUCKET), full=full)[number::count],
            )
    except BaseException:
        abort.abort(ctx, messages)
        raise
    return messages


def plan_groups(ctx: TableContext, restored: RestoredBucket, *, full: bool) -> list[tuple[DataFileMeta, ...]]:
    """Return the files of a partition to rewrite, in groups that become one file each."""
    options = ctx.with_options({"compaction.min.file-num": "2"}).options if full else ctx.options
    summaries = {
        part.file_name: DeletionVectorSummary(index_file=entry.file_name, deleted_row_count=part.cardinality)
        for entry in restored.vectors
        for part in entry.ranges
    }
    worth = [
        file for file in restored.files if append_compaction.is_worth_rewriting(file, options, summaries.get(file.name))
    ]
    return list(
        append_compaction.group_files_to_rewrite(
            worth, options, summaries if ctx.options.deletion_vectors_enabled else None
        )
    )


def max_parts(ctx: TableContext, restored: RestoredBucket, *, full: bool) -> int:
    """Return into how many parts the groups of a partition may be divided.

    At most 1 where the partition has deletion vectors: one index file holds those of many data files, and must be
    rewritten by one task.
    """
    count = len(plan_groups(ctx, restored, full=full))
    return min(count, 1) if restored.vectors else count


def _rewrite_partition(
    ctx: TableContext, snapshot_buckets: SnapshotBuckets, partition: bytes, groups: Sequence[Sequence[DataFileMeta]]
) -> Iterator[CommitMessage]:
    removed = {file.name for group in groups for file in group}
    target, vectors = _open_partition(ctx, snapshot_buckets, partition, removed)
    with begin_work(ctx.runtime, "compacting", "files", len(removed)) as under_way:
        for group in groups:
            yield compaction_message(ctx, partition, append_compaction.rewrite_files(target, group))
            under_way.advance(len(group))
    yield from remove_vectors(vectors, removed)


def _open_partition(
    ctx: TableContext, snapshot_buckets: SnapshotBuckets, partition: bytes, removed_names: set[str]
) -> tuple[RewriteTarget, BucketDeletionVectors]:
    """Return where files of a partition are rewritten, and the deletion vectors of the files that are removed."""
    restored = snapshot_buckets.restore_bucket(partition, UNAWARE_BUCKET)
    vectors = restore_vectors(ctx, partition, restored, removed_names)
    target = RewriteTarget(
        ctx=ctx,
        partition=partition,
        bucket=UNAWARE_BUCKET,
        file_names=make_file_names(ctx),
        deletions=vectors.positions,
        snapshot_id=restored.snapshot_id,
    )
    return target, vectors


def restore_vectors(
    ctx: TableContext, partition: bytes, restored: RestoredBucket, removed_names: Collection[str]
) -> BucketDeletionVectors:
    """Return the deletion vectors of all index files that hold one of the removed data files."""
    touched = [entry for entry in restored.vectors if any(part.file_name in removed_names for part in entry.ranges)]
    return BucketDeletionVectors.restore(ctx, partition, UNAWARE_BUCKET, touched)


def compaction_message(ctx: TableContext, partition: bytes, compact_result: CompactResult) -> CommitMessage:
    """Return the commit message of a compaction."""
    return CommitMessage(
        partition=partition,
        bucket=UNAWARE_BUCKET,
        total_buckets=ctx.options.bucket,
        compact_before=compact_result.before,
        compact_after=compact_result.after,
    )


def remove_vectors(vectors: BucketDeletionVectors, removed_names: Iterable[str]) -> Iterator[CommitMessage]:
    """Rewrite the index files without the vectors of removed files, and yield the message if any changed.

    Raises: `StorageFailed`.
    """
    vectors.remove_files(removed_names)
    if vectors.is_changed:
        new, old = vectors.write_rolling()
        yield CommitMessage(
            partition=vectors.partition,
            bucket=UNAWARE_BUCKET,
            total_buckets=vectors.ctx.options.bucket,
            compact_new_index_files=new,
            compact_deleted_index_files=old,
        )


# ---- cluster ------------------------------------------------------------


def cluster_partitions(
    ctx: TableContext, snapshot_buckets: SnapshotBuckets, partitions: Collection[bytes], *, full: bool, is_chosen: bool
) -> list[CommitMessage]:
    """Sort the due runs of some partitions, and return the commit messages.

    `is_chosen`: the caller named the partitions, so that idle ones may be added.

    Raises: `InvalidOption` if the columns cannot be sorted by, and what reading and writing raise; then no new file
    is left.
    """
    order = _clustering_order(ctx)
    units = {
        partition: append_compaction.pick_clustering_unit(
            ctx, snapshot_buckets.restore_bucket(partition, UNAWARE_BUCKET).files, full=full
        )
        for partition in sorted(partitions)
    }
    if is_chosen:
        units |= {
            partition: append_compaction.pick_clustering_unit(
                ctx, snapshot_buckets.restore_bucket(partition, UNAWARE_BUCKET).files, full=True
            )
            for partition in _idle_partitions(ctx, snapshot_buckets, partitions)
        }
    todo = {partition: unit for partition, unit in units.items() if unit is not None}
    messages: list[CommitMessage] = []
    try:
        with begin_work(
            ctx.runtime, "clustering", "files", sum(len(unit.files) for unit in todo.values())
        ) as under_way:
            for partition, unit in todo.items():
                messages += _cluster_unit(ctx, snapshot_buckets, partition, unit, order)
                under_way.advance(len(unit.files))
    except BaseException:
        abort.abort(ctx, messages)
        raise
    return messages


def _clustering_order(ctx: TableContext) -> SortOrder:
    """Return the sort order that the options ask for.

    Sorted group by group (`IncrementalClusterCompact.localSort`), it is the order of the columns one after another.
    """
    if ctx.options.clustering_incremental_mode == append_compaction.LOCAL_SORT_MODE:
        return sort_order.clustering_order(ctx.with_options({"clustering.strategy": "order"}))
    return sort_order.clustering_order(ctx)


def _cluster_unit(
    ctx: TableContext, snapshot_buckets: SnapshotBuckets, partition: bytes, unit: CompactionUnit, order: SortOrder
) -> Iterator[CommitMessage]:
    removed = {file.name for file in unit.files}
    target, vectors = _open_partition(ctx, snapshot_buckets, partition, removed)
    as_one = ctx.options.clustering_incremental_mode != append_compaction.LOCAL_SORT_MODE
    yield compaction_message(ctx, partition, append_compaction.rewrite_clustered(target, unit, order, as_one=as_one))
    yield from remove_vectors(vectors, removed)


def _idle_partitions(ctx: TableContext, snapshot_buckets: SnapshotBuckets, selected: Collection[bytes]) -> list[bytes]:
    """Return the partitions that are old enough to be sorted as a whole, and are not yet."""
    options = ctx.options
    idle_ms = options.clustering_history_partition_idle_to_full_sort_ms
    if idle_ms is None or not ctx.schema.partition_keys:
        return []
    before = wall_clock_ms(ctx.runtime.now_ms()) - idle_ms
    last = options.level_count - 1
    ages: list[tuple[int, bytes]] = []
    for partition in {bucket_id[0] for bucket_id in snapshot_buckets.bucket_ids()} - set(selected):
        times = [
            file.creation_time_ms or 0
            for file in snapshot_buckets.restore_bucket(partition, UNAWARE_BUCKET).files
            if file.level < last
        ]
        if times and max(times) < before:
            ages.append((max(times), partition))
    return [partition for _, partition in sorted(ages)[: options.clustering_history_partition_limit]]


# ---- postpone ------------------------------------------------------------


_WRITER_FILE_NAME = re.compile(r"(.*-w-.*)-(\d+)\.[^.]+")


def move_to_buckets(
    ctx: TableContext, snapshot_buckets: SnapshotBuckets, partitions: Iterable[bytes], commit_user: str, *, full: bool
) -> list[CommitMessage]:
    """Move the postponed rows of some partitions into buckets, compact these, and return the messages.

    Raises what writing raises; then no new file is left.
    """
    messages: list[CommitMessage] = []
    try:
        for partition in sorted(partitions):
            messages += _move_partition(ctx, snapshot_buckets, partition, commit_user, full=full)
    except BaseException:
        abort.abort(ctx, messages)
        raise
    return messages


def _move_partition(
    ctx: TableContext, snapshot_buckets: SnapshotBuckets, partition: bytes, commit_user: str, *, full: bool
) -> Iterator[CommitMessage]:
    files = sorted(snapshot_buckets.restore_bucket(partition, POSTPONE_BUCKET).files, key=_write_order_key)
    total = snapshot_buckets.restore_bucket(partition, 0).total_buckets or _bucket_count(ctx, files)
    writers = BucketWriters(ctx.with_options({"bucket": str(total)}), commit_user=commit_user)
    try:
        for frame in _read_postponed_rows(ctx, partition, files):
            writers.write(frame)
        existing = {
            bucket_id
            for bucket_id in snapshot_buckets.bucket_ids()
            if bucket_id[0] == partition and bucket_id[1] != POSTPONE_BUCKET
        }
        writers.compact_buckets(sorted(existing | set(writers.open_bucket_ids)), full=full)
        messages = writers.prepare()
    finally:
        writers.abort()
    if files:
        yield CommitMessage(
            partition=partition, bucket=POSTPONE_BUCKET, total_buckets=POSTPONE_BUCKET, compact_before=tuple(files)
        )
    for message in messages:
        yield _as_compaction(ctx, message)


def _bucket_count(ctx: TableContext, files: list[DataFileMeta]) -> int:
    """Return how many buckets a new partition gets.

    That is the option's number, else as many as the target rows or size of a bucket ask for.
    """
    options = ctx.options
    if "postpone.default-bucket-num" not in options.texts:
        if options.postpone_target_row_num_per_bucket:
            return max(1, -(-sum(file.row_count for file in files) // options.postpone_target_row_num_per_bucket))
        if "postpone.target-size-per-bucket" in options.texts:
            return max(1, -(-sum(file.size_bytes for file in files) // options.postpone_target_size_per_bucket_bytes))
    return options.postpone_default_bucket_num


def _read_postponed_rows(ctx: TableContext, partition: bytes, files: list[DataFileMeta]) -> Iterator[pl.DataFrame]:
    """Yield every row with its kind, in the order of writing, a file at a time."""
    for file in files:
        paths = [places.data_file_path(ctx, partition, POSTPONE_BUCKET, file)]
        with translate_polars_errors(ctx, paths):
            yield from collect_batches(scan_files(ctx, [file], paths, ctx.schema.fields, system=[KIND]))


def _as_compaction(ctx: TableContext, message: CommitMessage) -> CommitMessage:
    """Return a message with the same files as the result of one compaction.

    Files that were written and compacted away at once are deleted: no snapshot will name them.
    """
    new, before, after = (
        {file.name for file in files} for files in (message.new_files, message.compact_before, message.compact_after)
    )
    nobodys = [file for file in message.new_files if file.name in before and file.name not in after]
    ctx.storage.delete(places.paths_with_extra_files(ctx, message.partition, message.bucket, nobodys))
    return replace(
        message,
        new_files=(),
        changelog_files=(),
        compact_before=tuple(file for file in message.compact_before if file.name not in new),
        compact_after=(*(file for file in message.new_files if file.name not in before), *message.compact_after),
        compact_changelog=(*message.changelog_files, *message.compact_changelog),
    )


def _write_order_key(file: DataFileMeta) -> tuple[int, str, int]:
    """Return the sort key of a file by its time of writing; files of one writer are sorted by their numbers."""
    counted = _WRITER_FILE_NAME.fullmatch(file.name)
    writer, number = (counted[1], int(counted[2])) if counted else (file.name, 0)
    return file.creation_time_ms or 0, writer, number


# ---- compact ------------------------------------------------------------


_MAX_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactRequest:
    """A compaction to run. `order`: all rows are sorted; `is_chosen`: the caller named partitions."""

    ctx: TableContext
    commit_user: str
    is_full: bool
    order: SortOrder | None
    is_chosen: bool

    @property
    def compacts_whole_partitions(self) -> bool:
        """Whether what is done to a partition is done to all of it at once, and not bucket by bucket."""
        return self.order is not None or not self.ctx.has_buckets or self.ctx.options.bucket == POSTPONE_BUCKET


def compact_table(
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

    Raises: `InvalidOption` for `where`, `order_by` and `strategy`, `Conflict` if another compaction was faster, and
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
        if rewrite.needs_full_compaction(job.ctx):
            compact_table(ctx, full=True, where=where)
        return rewrite.sort_key_table(job.ctx, job.order, where)
    snapshot_buckets = SnapshotBuckets.at_snapshot(job.ctx, snapshots.latest(job.ctx))
    with add_manifest_path(job.ctx, lambda: snapshot_buckets.snapshot):
        made = compact_buckets(job, snapshot_buckets, due_buckets(job, snapshot_buckets, where, idle_ms=idle_ms))
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

    Raises: `InvalidOption` and `Unsupported` as `compact_table` does, but for `where`.
    """
    table_context.check_writable(ctx)
    if order_by is None and strategy != "order":
        raise InvalidOption(f"strategy {strategy!r} sorts by columns, and order_by names none", key="order_by")
    ctx = ctx.with_options({"write-only": "false"})
    if ctx.has_buckets:
        append_compaction.uses_clustering(ctx)
    order = None if order_by is None else rewrite.parse_sort_order(ctx, order_by, strategy)
    return CompactRequest(
        ctx=ctx, commit_user=ctx.new_commit_user(), is_full=full, order=order, is_chosen=where is not None
    )


def due_buckets(
    request: CompactRequest,
    snapshot_buckets: SnapshotBuckets,
    where: pl.Expr | str | None,
    *,
    idle_ms: int | None = None,
) -> list[BucketId]:
    """Return the buckets of a snapshot that a compaction looks at.

    Raises: `InvalidOption` for `where`.
    """
    ctx, bucket_ids = request.ctx, snapshot_buckets.bucket_ids()
    wanted = expire_partitions.matching_partitions(ctx, (partition for partition, _ in bucket_ids), where)
    if idle_ms is not None:
        wanted = expire_partitions.idle_partitions(ctx, snapshot_buckets.snapshot, wanted, idle_ms)
    if request.order is None and ctx.options.compaction_skip_expired_partitions:
        wanted = {partition for partition in wanted if not manifest_writer.is_partition_expired(ctx, partition)}
    return [bucket_id for bucket_id in bucket_ids if bucket_id[0] in wanted]


def compact_buckets(
    request: CompactRequest,
    snapshot_buckets: SnapshotBuckets,
    bucket_ids: Sequence[BucketId],
    *,
    shard: tuple[int, int] = (0, 1),
) -> list[CommitMessage]:
    """Compact some buckets and return the commit messages; all of a partition where that is the unit.

    `shard`: the i-th of n parts of the file groups to compact, in append tables without buckets. Raises what compacting
    raises; then no new file of these buckets is left.
    """
    ctx, partitions = request.ctx, sorted({partition for partition, _ in bucket_ids})
    if request.order is not None:
        return rewrite.sort_append_table(ctx, snapshot_buckets, request.order, partitions)
    if ctx.options.bucket == POSTPONE_BUCKET:
        return move_to_buckets(ctx, snapshot_buckets, partitions, request.commit_user, full=request.is_full)
    if not ctx.has_buckets and ctx.options.clustering_incremental:
        return cluster_partitions(ctx, snapshot_buckets, partitions, full=request.is_full, is_chosen=request.is_chosen)
    if not ctx.has_buckets:
        return pack_small_files(ctx, snapshot_buckets, partitions, full=request.is_full, shard=shard)
    writers = BucketWriters(ctx, commit_user=request.commit_user, snapshot_buckets=snapshot_buckets)
    try:
        writers.compact_buckets(list(bucket_ids), full=request.is_full)
        return writers.prepare()
    finally:
        writers.abort()


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

    Raises: `Conflict` if another compaction was faster several times, and what compacting raises; the rows stay
    committed.
    """
    if not hides_new_files(ctx):
        return
    interval = ctx.options.full_compaction_interval
    full = interval > 0 and (identifier == BATCH_IDENTIFIER or identifier % interval == 0)
    if not full and not ctx.options.needs_lookup:
        return
    written = {(message.partition, message.bucket) for message in committed}
    for attempt in range(_MAX_ATTEMPTS):
        job = compact_request(ctx, full=full, where=None, order_by=None, strategy="order")
        snapshot_buckets = SnapshotBuckets.at_snapshot(job.ctx, snapshots.latest(job.ctx))
        if full and interval > 1:
            written |= {
                bucket_id
                for bucket_id in snapshot_buckets.bucket_ids()
                if any(file.level == 0 for file in snapshot_buckets.live_files(*bucket_id))
            }
        try:
            commit_changes_once(
                job.ctx, compact_buckets(job, snapshot_buckets, sorted(written)), commit_user=job.commit_user
            )
        except Conflict:
            if attempt == _MAX_ATTEMPTS - 1:
                raise
        else:
            return


# ---- manifests ------------------------------------------------------------


_FULL_MERGE_OPTIONS = {"manifest.full-compaction-threshold-size": "1 b", "manifest.merge-min-count": "1"}
"""Options under which every small manifest, and every one with a deletion, is merged."""


def compact_manifests(ctx: TableContext) -> Commit:
    """Merge the manifests of the newest snapshot, and commit; no snapshot is made where nothing changes.

    Raises: `RetriesExhausted` if other commits are always faster, `CommitStateUnknown` if the outcome cannot be
    determined, and what reading manifests raises.
    """
    table_context.check_writable(ctx)
    ctx = ctx.with_options(_FULL_MERGE_OPTIONS)
    latest = snapshots.latest(ctx)
    job = try_commit.request_with_new_user(ctx, latest)
    if latest is None:
        return committer.build_result(job, [])
    draft, before = UncommittedFiles(ctx), meta.manifest_files(ctx, latest)
    try:
        after = manifest_writer.merge_manifests(draft, before)
    except BaseException:
        draft.discard()
        raise
    if after == before:
        draft.discard()
        return committer.build_result(job, [])
    step = CommitStep(changes=CommitChanges(kind="COMPACT", delta=EMPTY_DELTA, changelog=EMPTY_DELTA))
    return committer.build_result(
        job, [try_commit.try_commit(job, step, draft, latest, MergedManifests(before, after))]
    )
