"""A cache of the greatest sequence numbers of buckets, for writers that only add files.

    snapshot 7, all files of a partition read         bucket 0: 41, bucket 1: 17
    snapshot 8 adds a file 42–49 to bucket 0          bucket 0: 49, bucket 1: 17

Such a writer need not read every live file: each commit of this process updates the numbers. Compactions leave them as
they are. After an overwrite, or a snapshot of another process, the next writer reads the files again.

Source: ENGINE.md 1.2; `WriteRestore`, `AbstractFileStoreWrite`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lakekit.model.manifest_entries import ADD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import Row
    from lakekit.model.snapshot import Snapshot

_BUCKET_BYTES = 120


class PartitionSequences(NamedTuple):
    """The greatest sequence number of each bucket that has files, and the number of buckets."""

    greatest: Mapping[int, int]
    total_buckets: int | None


class _CachedSequences(NamedTuple):
    """The numbers as of one snapshot, by partition: of all buckets of a partition, or of none."""

    end: Snapshot
    partitions: Mapping[bytes, PartitionSequences]


def find(ctx: TableContext, snapshot: Snapshot, partition: bytes) -> PartitionSequences | None:
    """Return the cached numbers of a partition as of a snapshot; None if there are none."""
    cached: _CachedSequences | None = ctx.world.decoded.get(_key(ctx))
    return cached.partitions.get(partition) if cached is not None and cached.end == snapshot else None


def cache_sequences(ctx: TableContext, snapshot: Snapshot, partitions: Mapping[bytes, PartitionSequences]) -> None:
    """Cache the numbers of some partitions as of a snapshot."""
    cached: _CachedSequences | None = ctx.world.decoded.get(_key(ctx))
    before = cached.partitions if cached is not None and cached.end == snapshot else {}
    _put(ctx, snapshot, {**before, **partitions})


def remember(ctx: TableContext, before: Snapshot, after: Snapshot, rows: Iterable[Row]) -> None:
    """Update the cached numbers to the snapshot `after`, which follows `before` directly and adds `rows`."""
    cached: _CachedSequences | None = ctx.world.decoded.get(_key(ctx))
    if cached is None or cached.end != before or after.commit_kind == "OVERWRITE":
        return
    added: dict[bytes, list[tuple[int, int, int]]] = {}
    for kind, partition, bucket, total, file in rows:
        if kind == ADD and partition in cached.partitions:
            added.setdefault(partition, []).append((bucket, total, file.max_sequence_number))
    changed = {partition: _add_files(cached.partitions[partition], files) for partition, files in added.items()}
    _put(
        ctx,
        after,
        {name: numbers for name, numbers in {**cached.partitions, **changed}.items() if numbers is not None}
        if changed
        else cached.partitions,
    )


def _add_files(numbers: PartitionSequences, files: Iterable[tuple[int, int, int]]) -> PartitionSequences | None:
    """Return the numbers of a partition with files added; None if the files contradict them.

    A file is its bucket, its total number of buckets and its greatest sequence number.
    """
    greatest, total_buckets = dict(numbers.greatest), numbers.total_buckets
    for bucket, total, number in files:
        if bucket >= 0:
            if total_buckets not in (None, total):
                return None
            total_buckets = total
        greatest[bucket] = max(number, greatest.get(bucket, -1))
    return PartitionSequences(greatest, total_buckets)


def _put(ctx: TableContext, end: Snapshot, partitions: Mapping[bytes, PartitionSequences]) -> None:
    size = sum(len(numbers.greatest) + 1 for numbers in partitions.values())
    ctx.world.decoded.put({_key(ctx): _CachedSequences(end, partitions)}, _BUCKET_BYTES * (size + 1))


def _key(ctx: TableContext) -> tuple[object, ...]:
    return "sequences", ctx.storage, ctx.layout.snapshot_dir
