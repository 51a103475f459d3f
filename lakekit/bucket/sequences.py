"""How far the sequence numbers of buckets go, known without looking at every live file: what a writer needs who only adds files.

    snapshot 7, all files of a partition read         bucket 0: 41, bucket 1: 17
    snapshot 8 adds a file 42–49 to bucket 0          bucket 0: 49, bucket 1: 17

What was read once is carried on by each commit of this process. Compactions leave numbers as they are; an overwrite, or a snapshot that somebody else made,
and the next writer reads again. Source: ENGINE.md 1.2; `WriteRestore`, `AbstractFileStoreWrite`.
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
    """The greatest number of each bucket that has files, and how many buckets there are."""

    greatest: Mapping[int, int]
    total_buckets: int | None


class _CachedSequences(NamedTuple):
    """What is known as of a snapshot, by partition: all of its buckets, or nothing."""

    end: Snapshot
    partitions: Mapping[bytes, PartitionSequences]


def find(ctx: TableContext, snapshot: Snapshot, partition: bytes) -> PartitionSequences | None:
    """What is known of a partition as of a snapshot; None: nothing."""
    known: _CachedSequences | None = ctx.world.decoded.get(_key(ctx))
    return known.partitions.get(partition) if known is not None and known.end == snapshot else None


def cache_sequences(ctx: TableContext, snapshot: Snapshot, found: Mapping[bytes, PartitionSequences]) -> None:
    """Keeps what was read of some partitions."""
    known: _CachedSequences | None = ctx.world.decoded.get(_key(ctx))
    before = known.partitions if known is not None and known.end == snapshot else {}
    _put(ctx, snapshot, {**before, **found})


def remember(ctx: TableContext, before: Snapshot, made: Snapshot, rows: Iterable[Row]) -> None:
    """Carries what is known on to a snapshot that was made right after `before` and added `rows`."""
    known: _CachedSequences | None = ctx.world.decoded.get(_key(ctx))
    if known is None or known.end != before or made.commit_kind == "OVERWRITE":
        return
    added: dict[bytes, list[tuple[int, int, int]]] = {}
    for kind, partition, bucket, total, file in rows:
        if kind == ADD and partition in known.partitions:
            added.setdefault(partition, []).append((bucket, total, file.max_sequence_number))
    changed = {partition: _add_files(known.partitions[partition], files) for partition, files in added.items()}
    _put(ctx, made, {name: found for name, found in {**known.partitions, **changed}.items() if found is not None} if changed else known.partitions)


def _add_files(known: PartitionSequences, files: Iterable[tuple[int, int, int]]) -> PartitionSequences | None:
    """What is known of a partition once files came: a bucket, how many there are and the greatest number of each. None where they contradict it."""
    greatest, total_buckets = dict(known.greatest), known.total_buckets
    for bucket, total, number in files:
        if bucket >= 0:
            if total_buckets not in (None, total):
                return None
            total_buckets = total
        greatest[bucket] = max(number, greatest.get(bucket, -1))
    return PartitionSequences(greatest, total_buckets)


def _put(ctx: TableContext, end: Snapshot, partitions: Mapping[bytes, PartitionSequences]) -> None:
    size = sum(len(found.greatest) + 1 for found in partitions.values())
    ctx.world.decoded.put({_key(ctx): _CachedSequences(end, partitions)}, _BUCKET_BYTES * (size + 1))


def _key(ctx: TableContext) -> tuple[object, ...]:
    return "sequences", ctx.storage, ctx.layout.snapshot_dir
