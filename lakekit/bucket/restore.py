"""What a writer finds in its bucket: the live files of the newest snapshot, the highest sequence number, deletion vectors and hash index.

Source: ENGINE.md 1.1; `FileSystemWriteRestore`, `AbstractFileStoreWrite`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.bucket import sequences
from lakekit.data_file.paths import partition_path
from lakekit.errors import Corrupt, InvalidOption
from lakekit.metadata import manifest_reader
from lakekit.model.index_file import DELETION_VECTORS, HASH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.model.index_file import IndexManifestEntry
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.snapshot import Snapshot

NO_SEQUENCE = -1
"""The highest sequence number of a bucket without files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredBucket:
    """The live files of one bucket and what goes with them. `live` gives the files to who asks for them: who only adds files does not.

    `max_sequence` is -1 without files; `total_buckets` is what the partition's files say, None where there are none; `vectors` are the index files that hold
    deletion vectors, `hash_index` is that of a dynamic bucket. `snapshot_id` None: the table has no snapshot.
    """

    live: Callable[[], tuple[DataFileMeta, ...]] = field(default=tuple, compare=False, repr=False)
    max_sequence: int = NO_SEQUENCE
    total_buckets: int | None = None
    vectors: tuple[IndexManifestEntry, ...] = ()
    hash_index: IndexManifestEntry | None = None
    snapshot_id: int | None = None

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """The live files. Raises `Corrupt`, `FileMissing`."""
        return self.live()


EMPTY_BUCKET = RestoredBucket()
"""A bucket of a table without snapshots, and what a writer starts from that replaces everything (INSERT OVERWRITE)."""


@dataclass(slots=True, kw_only=True, eq=False)
class SnapshotBuckets:
    """The buckets of one snapshot, read partition by partition as they are asked for."""

    ctx: TableContext
    snapshot: Snapshot | None
    _buckets: dict[tuple[bytes, int], tuple[ManifestEntries, NDArray[np.intp] | None]]
    """The entries of a bucket: all of some, or those at some places, which nobody gathers before their files are asked for."""
    _totals: dict[bytes, int | None]
    _greatest: dict[bytes, dict[int, int]]
    _index: dict[tuple[bytes, int], list[IndexManifestEntry]] | None = None
    _is_whole: bool = False
    """Whether the files of every partition were read."""

    @staticmethod
    def of(ctx: TableContext, snapshot: Snapshot | None) -> SnapshotBuckets:
        """What stands in a snapshot; None: the table has none."""
        return SnapshotBuckets(ctx=ctx, snapshot=snapshot, _buckets={}, _totals={}, _greatest={})

    def load(self, partitions: Iterable[bytes]) -> None:
        """Reads the files of partitions that are not known yet, all at once. Raises `Corrupt`, `FileMissing`."""
        missing = [partition for partition in dict.fromkeys(partitions) if partition not in self._totals]
        if self.snapshot is None or not missing:
            return
        if self._is_whole:
            self._learn(missing, None)
            return
        wanted = pa.array(missing, pa.binary())

        def inside(column: pa.Array) -> NDArray[np.bool_]:
            return np.asarray(pc.is_in(column, value_set=wanted).to_numpy(zero_copy_only=False), bool)

        partitioned = bool(self.ctx.schema.partition_keys)
        self._learn(missing, manifest_reader.read_live_entries(self.ctx, self.snapshot, keep_partitions=inside if partitioned else None))

    def prepare(self, partitions: Iterable[bytes]) -> None:
        """Learns how far sequence numbers go, at once for all partitions of which that is not known yet. Raises as `load` does."""
        if self.snapshot is not None:
            self.load([partition for partition in dict.fromkeys(partitions) if sequences.find(self.ctx, self.snapshot, partition) is None])

    def places(self) -> list[tuple[bytes, int]]:
        """Every (partition, bucket) that has files. Raises as `load` does."""
        if self.snapshot is None:
            return []
        if not self._is_whole:
            live = manifest_reader.read_live_entries(self.ctx, self.snapshot)
            partitions = live.column("partition").unique().to_pylist()  # scalar: one a partition
            if self._totals.keys().isdisjoint(partitions):
                self._learn(partitions, live)
            else:
                self.load(partitions)
            self._is_whole = True
        return list(self._buckets)

    def bucket(self, partition: bytes, bucket: int) -> RestoredBucket:
        """One bucket. Raises as `load` does."""
        if self.snapshot is None:
            return EMPTY_BUCKET
        known = self._known(partition)
        index = self._index_entries().get((partition, bucket), [])
        return RestoredBucket(
            live=partial(self.files, partition, bucket),
            max_sequence=known.greatest.get(bucket, NO_SEQUENCE),
            total_buckets=known.total_buckets,
            vectors=tuple(entry for entry in index if entry.index_type == DELETION_VECTORS),
            hash_index=next((entry for entry in index if entry.index_type == HASH), None),
            snapshot_id=self.snapshot.id,
        )

    def files(self, partition: bytes, bucket: int) -> tuple[DataFileMeta, ...]:
        """The live files of one bucket. Raises as `load` does."""
        self.load([partition])
        entries, places = self._buckets.get((partition, bucket), (None, None))
        return () if entries is None else tuple(entries.files(places))

    def size_bytes(self, partition: bytes, bucket: int) -> int:
        """The bytes of the live files of one bucket. Raises as `load` does."""
        self.load([partition])
        entries, places = self._buckets.get((partition, bucket), (None, None))
        if entries is None:
            return 0
        sizes = entries.numbers("file_size")
        return int(sizes.sum() if places is None else sizes[places].sum())

    def _known(self, partition: bytes) -> sequences.PartitionSequences:
        known = None if self.snapshot is None or partition in self._totals else sequences.find(self.ctx, self.snapshot, partition)
        if known is not None:
            return known
        self.load([partition])
        return sequences.PartitionSequences(self._greatest[partition], self._totals[partition])

    def _index_entries(self) -> Mapping[tuple[bytes, int], Sequence[IndexManifestEntry]]:
        """The index files by place, in their order."""
        if self._index is None:
            found: dict[tuple[bytes, int], list[IndexManifestEntry]] = {}
            for entry in [] if self.snapshot is None else manifest_reader.index_entries(self.ctx, self.snapshot):
                found.setdefault((entry.partition, entry.bucket), []).append(entry)
            self._index = found
        return self._index

    def _learn(self, partitions: Sequence[bytes], live: ManifestEntries | None) -> None:
        """Takes over the live files of some partitions: all of them, or, where files contradict each other, nothing."""
        assert self.snapshot is not None
        self._totals |= dict.fromkeys(partitions)
        self._greatest |= {partition: {} for partition in partitions}
        try:
            if live is not None:
                self._keep(live)
        except Corrupt:
            gone = set(partitions)
            self._buckets = {place: entries for place, entries in self._buckets.items() if place[0] not in gone}
            for partition in gone:
                del self._totals[partition], self._greatest[partition]
            raise
        found = {partition: sequences.PartitionSequences(self._greatest[partition], self._totals[partition]) for partition in partitions}
        sequences.cache_sequences(self.ctx, self.snapshot, found)

    def _keep(self, live: ManifestEntries) -> None:
        """Entries by place, how far their sequence numbers go, and how many buckets each partition has."""
        if not len(live):
            return
        partition = live.column("partition").dictionary_encode()
        names = partition.dictionary.to_pylist()  # scalar: one a partition
        codes, buckets, totals = partition.indices.to_numpy(), live.numbers("bucket"), live.numbers("total_buckets")
        order = np.lexsort((buckets, codes))
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1) | np.diff(buckets[order], prepend=buckets[order[:1]]))
        greatest = np.maximum.reduceat(live.numbers("max_sequence_number")[order], starts)
        for rows, number in zip(np.split(order, starts[1:]), greatest, strict=True):
            first = rows[0]
            place = names[codes[first]], int(buckets[first])
            self._greatest.setdefault(place[0], {})[place[1]] = int(number)
            self._buckets[place] = live, None if len(starts) == 1 else np.sort(rows)
            self._count(place[0], np.unique(totals[rows]), int(buckets[first]))

    def _count(self, partition: bytes, totals: NDArray[np.int32], bucket: int) -> None:
        known = self._totals[partition]
        if bucket < 0:
            return
        if len(totals) > 1 or (known is not None and known != totals[0]):
            raise Corrupt(
                f"partition {partition_path(self.ctx, partition) or '()'} of {self.ctx.name} has files that say it has {known or totals[0]} buckets, "
                f"and files that say {totals[-1]}: a key could be in two of them. lk.open(…).rescale puts it in order",
                field="_TOTAL_BUCKETS",
            )
        self._totals[partition] = int(totals[0])


def check_buckets(ctx: TableContext, partition: bytes, restored: RestoredBucket, total_buckets: int) -> None:
    """Raises `InvalidOption` where the partition was written with another number of buckets than rows are to be written with."""
    before = restored.total_buckets
    if before is not None and before != total_buckets:
        where = partition_path(ctx, partition)
        raise InvalidOption(
            f"Try to write {'partition ' + where if where else ctx.name} with a new bucket num {total_buckets}, but the previous bucket num is {before}. "
            "Rewrite it with t.rescale(…) or t.overwrite(…), or set 'bucket' back",
            key="bucket",
            value=str(total_buckets),
        )
