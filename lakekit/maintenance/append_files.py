"""Compaction of append tables without buckets: small files are packed by partition and rewritten.

Rows stay; deleted rows go together with their deletion vectors.

Source: ENGINE.md 8.2; `AppendCompactCoordinator`, `AppendCompactTask`, `AppendDeleteFileMaintainer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.bucket import append_compaction
from lakekit.bucket.append_compaction import DeletionVectorSummary, RewriteTarget
from lakekit.bucket.deletion_vector_writer import BucketDeletionVectors
from lakekit.commit import abort
from lakekit.data_file.file_names import file_names
from lakekit.model.commit_message import CommitMessage
from lakekit.model.table_paths import UNAWARE_BUCKET
from lakekit.progress import work

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from lakekit.bucket.compaction import CompactResult
    from lakekit.bucket.restore import RestoredBucket, SnapshotBuckets
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta


def pack(
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
                groups(ctx, snapshot_buckets.bucket(partition, UNAWARE_BUCKET), full=full)[number::count],
            )
    except BaseException:
        abort.abort(ctx, messages)
        raise
    return messages


def groups(ctx: TableContext, restored: RestoredBucket, *, full: bool) -> list[tuple[DataFileMeta, ...]]:
    """Return the files of a partition to rewrite, in groups that become one file each."""
    options = ctx.with_options({"compaction.min.file-num": "2"}).options if full else ctx.options
    summaries = {
        part.file_name: DeletionVectorSummary(index_file=entry.file_name, deleted=part.cardinality)
        for entry in restored.vectors
        for part in entry.ranges
    }
    worth = [
        file for file in restored.files if append_compaction.is_worth_rewriting(file, options, summaries.get(file.name))
    ]
    return list(append_compaction.pack(worth, options, summaries if ctx.options.deletion_vectors_enabled else None))


def part_count(ctx: TableContext, restored: RestoredBucket, *, full: bool) -> int:
    """Return into how many parts the groups of a partition may be divided.

    At most 1 where the partition has deletion vectors: one index file holds those of many data files, and must be
    rewritten by one task.
    """
    count = len(groups(ctx, restored, full=full))
    return min(count, 1) if restored.vectors else count


def _rewrite_partition(
    ctx: TableContext, snapshot_buckets: SnapshotBuckets, partition: bytes, groups: Sequence[Sequence[DataFileMeta]]
) -> Iterator[CommitMessage]:
    restored = snapshot_buckets.bucket(partition, UNAWARE_BUCKET)
    removed = {file.name for group in groups for file in group}
    vectors = vectors_of(ctx, partition, restored, removed)
    target = RewriteTarget(
        ctx=ctx,
        partition=partition,
        bucket=UNAWARE_BUCKET,
        names=file_names(ctx),
        deletions=vectors.positions,
        snapshot_id=restored.snapshot_id,
    )
    with work(ctx.world, "compacting", "files", len(removed)) as under_way:
        for group in groups:
            yield message(ctx, partition, append_compaction.rewrite(target, group))
            under_way.advance(len(group))
    yield from remove_vectors(vectors, removed)


def vectors_of(
    ctx: TableContext, partition: bytes, restored: RestoredBucket, removed: Collection[str]
) -> BucketDeletionVectors:
    """Return the deletion vectors of all index files that hold one of the removed data files."""
    touched = [entry for entry in restored.vectors if any(part.file_name in removed for part in entry.ranges)]
    return BucketDeletionVectors.restored(ctx, partition, UNAWARE_BUCKET, touched)


def message(ctx: TableContext, partition: bytes, result: CompactResult) -> CommitMessage:
    """Return the commit message of a compaction."""
    return CommitMessage(
        partition=partition,
        bucket=UNAWARE_BUCKET,
        total_buckets=ctx.options.bucket,
        compact_before=result.before,
        compact_after=result.after,
    )


def remove_vectors(vectors: BucketDeletionVectors, removed: Iterable[str]) -> Iterator[CommitMessage]:
    """Rewrite the index files without the vectors of removed files, and yield the message if any changed.

    Raises: `StorageFailed`.
    """
    vectors.forget(removed)
    if vectors.changed:
        new, old = vectors.write_rolled()
        yield CommitMessage(
            partition=vectors.partition,
            bucket=UNAWARE_BUCKET,
            total_buckets=vectors.ctx.options.bucket,
            compact_new_index_files=new,
            compact_deleted_index_files=old,
        )
