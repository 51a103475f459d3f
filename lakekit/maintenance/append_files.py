"""Small files of append tables without buckets, packed by partition and rewritten: rows stay, deleted ones go with their vectors.

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
from lakekit.progress import work

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from lakekit.bucket.compaction import CompactResult
    from lakekit.bucket.restore import RestoredBucket, SnapshotBuckets
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta

BUCKET = 0
"""Where files without a bucket lie."""


def pack(ctx: TableContext, standing: SnapshotBuckets, partitions: Iterable[bytes], *, full: bool, share: tuple[int, int] = (0, 1)) -> list[CommitMessage]:
    """Messages of what was rewritten: groups of small files as `append_compact.pack` makes them; `full`: any two small files of a partition are enough.

    `share`: the i-th of n parts of each partition's groups. Raises what reading and writing raise; then no new file is left.
    """
    number, count = share
    found: list[CommitMessage] = []
    try:
        for partition in sorted(partitions):
            found += _rewrite_partition(ctx, standing, partition, groups(ctx, standing.bucket(partition, BUCKET), full=full)[number::count])
    except BaseException:
        abort.abort(ctx, found)
        raise
    return found


def groups(ctx: TableContext, restored: RestoredBucket, *, full: bool) -> list[tuple[DataFileMeta, ...]]:
    """The files of a partition that are rewritten, those together that become one."""
    options = ctx.with_options({"compaction.min.file-num": "2"}).options if full else ctx.options
    held = {part.file_name: DeletionVectorSummary(index_file=entry.file_name, deleted=part.cardinality) for entry in restored.vectors for part in entry.ranges}
    worth = [file for file in restored.files if append_compaction.is_worth_rewriting(file, options, held.get(file.name))]
    return list(append_compaction.pack(worth, options, held if ctx.options.deletion_vectors_enabled else None))


def part_count(ctx: TableContext, restored: RestoredBucket, *, full: bool) -> int:
    """Into how many parts the groups of a partition may be shared: index files of deletion vectors hold those of many files, and are written anew by one."""
    count = len(groups(ctx, restored, full=full))
    return min(count, 1) if restored.vectors else count


def _rewrite_partition(ctx: TableContext, standing: SnapshotBuckets, partition: bytes, groups: Sequence[Sequence[DataFileMeta]]) -> Iterator[CommitMessage]:
    restored = standing.bucket(partition, BUCKET)
    gone = {file.name for group in groups for file in group}
    vectors = vectors_of(ctx, partition, restored, gone)
    place = RewriteTarget(ctx=ctx, partition=partition, bucket=BUCKET, names=file_names(ctx), deletions=vectors.positions, snapshot_id=restored.snapshot_id)
    with work(ctx.world, "compacting", "files", len(gone)) as under_way:
        for group in groups:
            yield message(ctx, partition, append_compaction.rewrite(place, group))
            under_way.advance(len(group))
    yield from remove_vectors(vectors, gone)


def vectors_of(ctx: TableContext, partition: bytes, restored: RestoredBucket, gone: Collection[str]) -> BucketDeletionVectors:
    """The deletion vectors of the index files that hold those of some data files."""
    touched = [entry for entry in restored.vectors if any(part.file_name in gone for part in entry.ranges)]
    return BucketDeletionVectors.restored(ctx, partition, BUCKET, touched)


def message(ctx: TableContext, partition: bytes, done: CompactResult) -> CommitMessage:
    """What was compacted, for a commit."""
    return CommitMessage(partition=partition, bucket=BUCKET, total_buckets=ctx.options.bucket, compact_before=done.before, compact_after=done.after)


def remove_vectors(vectors: BucketDeletionVectors, gone: Iterable[str]) -> Iterator[CommitMessage]:
    """The index files anew without the vectors of files that are gone, if there were any. Raises `StorageFailed`."""
    vectors.forget(gone)
    if vectors.changed:
        new, old = vectors.write_rolled()
        yield CommitMessage(
            partition=vectors.partition,
            bucket=BUCKET,
            total_buckets=vectors.ctx.options.bucket,
            compact_new_index_files=new,
            compact_deleted_index_files=old,
        )
