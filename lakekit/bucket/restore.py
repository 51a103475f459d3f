"""What a writer restores of its bucket: live files, sequence number, deletion vectors, hash index.

    snapshot 7, all files of a partition read         bucket 0: 41, bucket 1: 17
    snapshot 8 adds a file 42–49 to bucket 0          bucket 0: 49, bucket 1: 17

The greatest sequence numbers are cached, so that a writer that only adds files need not read every live file. Each
commit of this process updates them; compactions leave them as they are. After an overwrite, or a snapshot of another
process, the next writer reads the files again.

Source: ENGINE.md 1.1, 1.2; `FileSystemWriteRestore`, `WriteRestore`, `AbstractFileStoreWrite`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.data_file.paths import partition_path
from lakekit.errors import Corrupt, InvalidOption
from lakekit.metadata import manifest_reader
from lakekit.model.index_manifest import DELETION_VECTORS, HASH_INDEX
from lakekit.model.manifest_entries import ADD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.model.index_manifest import IndexManifestEntry
    from lakekit.model.manifest_entries import ManifestEntries, Row
    from lakekit.model.snapshot import Snapshot


_BUCKET_BYTES = 120


class PartitionSequences(NamedTuple):
    """The greatest sequence number of each bucket that has files, and the number of buckets."""

    max_sequences: Mapping[int, int]
    total_buckets: int | None


class _CachedSequences(NamedTuple):
    """The numbers as of one snapshot, by partition: of all buckets of a partition, or of none."""

    last_snapshot: Snapshot
    partitions: Mapping[bytes, PartitionSequences]


def cached_sequences(ctx: TableContext, snapshot: Snapshot, partition: bytes) -> PartitionSequences | None:
    """Return the cached numbers of a partition as of a snapshot; None if there are none."""
    cached: _CachedSequences | None = ctx.runtime.metadata_cache.get(_cache_key(ctx))
    return cached.partitions.get(partition) if cached is not None and cached.last_snapshot == snapshot else None


def cache_sequences(ctx: TableContext, snapshot: Snapshot, partitions: Mapping[bytes, PartitionSequences]) -> None:
    """Cache the numbers of some partitions as of a snapshot."""
    cached: _CachedSequences | None = ctx.runtime.metadata_cache.get(_cache_key(ctx))
    before = cached.partitions if cached is not None and cached.last_snapshot == snapshot else {}
    _cache_partitions(ctx, snapshot, {**before, **partitions})


def advance_cached_sequences(
    ctx: TableContext, previous_snapshot: Snapshot, next_snapshot: Snapshot, rows: Iterable[Row]
) -> None:
    """Update the cached numbers to `next_snapshot`, which follows `previous_snapshot` directly and added these rows."""
    cached: _CachedSequences | None = ctx.runtime.metadata_cache.get(_cache_key(ctx))
    if cached is None or cached.last_snapshot != previous_snapshot or next_snapshot.commit_kind == "OVERWRITE":
        return
    added: dict[bytes, list[tuple[int, int, int]]] = {}
    for kind, partition, bucket, total, file in rows:
        if kind == ADD and partition in cached.partitions:
            added.setdefault(partition, []).append((bucket, total, file.max_sequence_number))
    changed = {partition: _add_files(cached.partitions[partition], files) for partition, files in added.items()}
    _cache_partitions(
        ctx,
        next_snapshot,
        {name: numbers for name, numbers in {**cached.partitions, **changed}.items() if numbers is not None}
        if changed
        else cached.partitions,
    )


def _add_files(numbers: PartitionSequences, files: Iterable[tuple[int, int, int]]) -> PartitionSequences | None:
    """Return the numbers with files (bucket, total, sequence number) added; None if they contradict."""
    greatest, total_buckets = dict(numbers.max_sequences), numbers.total_buckets
    for bucket, total, number in files:
        if bucket >= 0:
            if total_buckets not in (None, total):
                return None
            total_buckets = total
        greatest[bucket] = max(number, greatest.get(bucket, -1))
    return PartitionSequences(greatest, total_buckets)


def _cache_partitions(
    ctx: TableContext, last_snapshot: Snapshot, partitions: Mapping[bytes, PartitionSequences]
) -> None:
    size = sum(len(numbers.max_sequences) + 1 for numbers in partitions.values())
    ctx.runtime.metadata_cache.put(
        {_cache_key(ctx): _CachedSequences(last_snapshot, partitions)}, _BUCKET_BYTES * (size + 1)
    )


def _cache_key(ctx: TableContext) -> tuple[object, ...]:
    return "sequences", ctx.storage, ctx.paths.snapshot_dir


# ---- restore ------------------------------------------------------------


NO_SEQUENCE = -1
"""The greatest sequence number of a bucket without files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredBucket:
    """The live files of one bucket, and what belongs to them.

    `live_files` reads the files when they are first needed: a writer that only adds files never needs them.
    `max_sequence` is -1 without files. `total_buckets` is what the partition's files say; None if there are none.
    `vectors` are the index files that hold deletion vectors, `hash_index` is that of a dynamic bucket. `snapshot_id` is
    None if the table has no snapshot.
    """

    live_files: Callable[[], tuple[DataFileMeta, ...]] = field(default=tuple, compare=False, repr=False)
    max_sequence: int = NO_SEQUENCE
    total_buckets: int | None = None
    vectors: tuple[IndexManifestEntry, ...] = ()
    hash_index: IndexManifestEntry | None = None
    snapshot_id: int | None = None

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """Return the live files. Raises `Corrupt`, `FileMissing`."""
        return self.live_files()


EMPTY_BUCKET = RestoredBucket()
"""A bucket of a table without snapshots, and the start of a writer that replaces everything (INSERT OVERWRITE)."""


@dataclass(slots=True, kw_only=True, eq=False)
class SnapshotBuckets:
    """The buckets of one snapshot, read partition by partition when they are needed."""

    ctx: TableContext
    snapshot: Snapshot | None
    _buckets: dict[tuple[bytes, int], tuple[ManifestEntries, NDArray[np.intp] | None]]
    """The entries of a bucket: some entries, and the positions of the bucket's among them, or None if all are.

    They are gathered when the files are needed.
    """
    _totals: dict[bytes, int | None]
    _greatest: dict[bytes, dict[int, int]]
    _index: dict[tuple[bytes, int], list[IndexManifestEntry]] | None = None
    _is_fully_loaded: bool = False
    """Whether the files of every partition were read."""

    @staticmethod
    def at_snapshot(ctx: TableContext, snapshot: Snapshot | None) -> SnapshotBuckets:
        """Return the buckets of a snapshot; None is a table without snapshots."""
        return SnapshotBuckets(ctx=ctx, snapshot=snapshot, _buckets={}, _totals={}, _greatest={})

    def load_partitions(self, partitions: Iterable[bytes]) -> None:
        """Read the files of partitions that are not loaded yet, all at once. Raises `Corrupt`, `FileMissing`."""
        missing = [partition for partition in dict.fromkeys(partitions) if partition not in self._totals]
        if self.snapshot is None or not missing:
            return
        if self._is_fully_loaded:
            self._add_live_files(missing, None)
            return
        wanted = pa.array(missing, pa.binary())

        def inside(column: pa.Array) -> NDArray[np.bool_]:
            return np.asarray(pc.is_in(column, value_set=wanted).to_numpy(zero_copy_only=False), bool)

        partitioned = bool(self.ctx.schema.partition_keys)
        self._add_live_files(
            missing,
            manifest_reader.read_live_entries(self.ctx, self.snapshot, keep_partitions=inside if partitioned else None),
        )

    def load_sequences(self, partitions: Iterable[bytes]) -> None:
        """Load the partitions whose greatest sequence numbers are not cached. Raises as `load_partitions` does."""
        if self.snapshot is not None:
            self.load_partitions(
                [
                    partition
                    for partition in dict.fromkeys(partitions)
                    if cached_sequences(self.ctx, self.snapshot, partition) is None
                ]
            )

    def bucket_ids(self) -> list[tuple[bytes, int]]:
        """Return every (partition, bucket) that has files. Raises as `load_partitions` does."""
        if self.snapshot is None:
            return []
        if not self._is_fully_loaded:
            live = manifest_reader.read_live_entries(self.ctx, self.snapshot)
            partitions = live.column("partition").unique().to_pylist()  # scalar: one a partition
            if self._totals.keys().isdisjoint(partitions):
                self._add_live_files(partitions, live)
            else:
                self.load_partitions(partitions)
            self._is_fully_loaded = True
        return list(self._buckets)

    def restore_bucket(self, partition: bytes, bucket: int) -> RestoredBucket:
        """Return one bucket. Raises as `load_partitions` does."""
        if self.snapshot is None:
            return EMPTY_BUCKET
        bounds = self._loaded_sequences(partition)
        index = self._index_entries().get((partition, bucket), [])
        return RestoredBucket(
            live_files=partial(self.live_files, partition, bucket),
            max_sequence=bounds.max_sequences.get(bucket, NO_SEQUENCE),
            total_buckets=bounds.total_buckets,
            vectors=tuple(entry for entry in index if entry.index_type == DELETION_VECTORS),
            hash_index=next((entry for entry in index if entry.index_type == HASH_INDEX), None),
            snapshot_id=self.snapshot.id,
        )

    def live_files(self, partition: bytes, bucket: int) -> tuple[DataFileMeta, ...]:
        """Return the live files of one bucket. Raises as `load_partitions` does."""
        self.load_partitions([partition])
        entries, places = self._buckets.get((partition, bucket), (None, None))
        return () if entries is None else tuple(entries.files(places))

    def size_bytes(self, partition: bytes, bucket: int, *, file_cost: int = 0) -> int:
        """Return the bytes of the live files of one bucket, with `file_cost` for each. Raises as `load_partitions`."""
        self.load_partitions([partition])
        entries, places = self._buckets.get((partition, bucket), (None, None))
        if entries is None:
            return 0
        sizes = entries.integers("file_size")
        chosen = sizes if places is None else sizes[places]
        return int(chosen.sum()) + file_cost * len(chosen)

    def _loaded_sequences(self, partition: bytes) -> PartitionSequences:
        cached = (
            None
            if self.snapshot is None or partition in self._totals
            else cached_sequences(self.ctx, self.snapshot, partition)
        )
        if cached is not None:
            return cached
        self.load_partitions([partition])
        return PartitionSequences(self._greatest[partition], self._totals[partition])

    def _index_entries(self) -> Mapping[tuple[bytes, int], Sequence[IndexManifestEntry]]:
        """Return the index files by (partition, bucket), in their order."""
        if self._index is None:
            by_bucket: dict[tuple[bytes, int], list[IndexManifestEntry]] = {}
            for entry in [] if self.snapshot is None else manifest_reader.index_entries(self.ctx, self.snapshot):
                by_bucket.setdefault((entry.partition, entry.bucket), []).append(entry)
            self._index = by_bucket
        return self._index

    def _add_live_files(self, partitions: Sequence[bytes], live_entries: ManifestEntries | None) -> None:
        """Add the live files of some partitions; if files contradict each other, add nothing and raise `Corrupt`."""
        assert self.snapshot is not None
        self._totals |= dict.fromkeys(partitions)
        self._greatest |= {partition: {} for partition in partitions}
        try:
            if live_entries is not None:
                self._group_by_bucket(live_entries)
        except Corrupt:
            dropped = set(partitions)
            self._buckets = {
                bucket_id: entries for bucket_id, entries in self._buckets.items() if bucket_id[0] not in dropped
            }
            for partition in dropped:
                del self._totals[partition], self._greatest[partition]
            raise
        learned = {
            partition: PartitionSequences(self._greatest[partition], self._totals[partition])
            for partition in partitions
        }
        cache_sequences(self.ctx, self.snapshot, learned)

    def _group_by_bucket(self, live_entries: ManifestEntries) -> None:
        """Group entries by bucket; record greatest sequence numbers and the number of buckets of each partition."""
        if not len(live_entries):
            return
        partition = live_entries.column("partition").dictionary_encode()
        names = partition.dictionary.to_pylist()  # scalar: one a partition
        codes, buckets, totals = (
            partition.indices.to_numpy(),
            live_entries.integers("bucket"),
            live_entries.integers("total_buckets"),
        )
        order = np.lexsort((buckets, codes))
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1) | np.diff(buckets[order], prepend=buckets[order[:1]]))
        greatest = np.maximum.reduceat(live_entries.integers("max_sequence_number")[order], starts)
        for rows, number in zip(np.split(order, starts[1:]), greatest, strict=True):
            first = rows[0]
            bucket_id = names[codes[first]], int(buckets[first])
            self._greatest.setdefault(bucket_id[0], {})[bucket_id[1]] = int(number)
            self._buckets[bucket_id] = live_entries, None if len(starts) == 1 else np.sort(rows)
            self._check_bucket_count(bucket_id[0], np.unique(totals[rows]), int(buckets[first]))

    def _check_bucket_count(self, partition: bytes, totals: NDArray[np.int32], bucket: int) -> None:
        total = self._totals[partition]
        if bucket < 0:
            return
        if len(totals) > 1 or (total is not None and total != totals[0]):
            raise Corrupt(
                f"partition {partition_path(self.ctx, partition) or '()'} of {self.ctx.name} has files that say it "
                f"has {total or totals[0]} buckets, "
                f"and files that say {totals[-1]}: a key could be in two of them. lk.open(…).rescale puts it in order",
                field="_TOTAL_BUCKETS",
            )
        self._totals[partition] = int(totals[0])


def check_buckets(ctx: TableContext, partition: bytes, restored: RestoredBucket, total_buckets: int) -> None:
    """Raise `InvalidOption` if the partition was written with another number of buckets."""
    before = restored.total_buckets
    if before is not None and before != total_buckets:
        where = partition_path(ctx, partition)
        raise InvalidOption(
            f"Try to write {'partition ' + where if where else ctx.name} with a new bucket num {total_buckets}, but "
            f"the previous bucket num is {before}. "
            "Rewrite it with t.rescale(…) or t.overwrite(…), or set 'bucket' back",
            key="bucket",
            value=str(total_buckets),
        )
