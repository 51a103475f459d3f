"""Dynamic buckets: a key stays in the bucket where its hash was first put.

    key hash     -1878194585 known: bucket 1      77 new: the first bucket of its assigner with room, else a new one
    assigner     (|partition hash % channels| + |key hash % assigners|) % channels
                 assigner a creates only buckets b with b % assigners = a % assigners
    index        one file of all hashes for each bucket (`codec.index_files`); a bucket with new keys gets a new file

`DynamicBuckets` uses the index of the newest snapshot, read when a partition is first met; that of an overwrite starts
empty. One process stands for all assigners of the reference, or, in a write divided into tasks, for the one of its
`WriteShard`. If no bucket is left, the reference picks one at random and lakekit by the key's hash. In the reference,
an assigner that has used the highest bucket number that `dynamic-bucket.max-buckets` allows in one partition creates no
buckets in any other partition either; lakekit limits each partition on its own.

Source: ENGINE.md 7.3; `HashBucketAssigner`, `SimpleHashBucketAssigner`, `PartitionIndex`,
`DynamicBucketIndexMaintainer`, `BucketAssigner`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from lakekit.codec import binary_row, hashing, index_files
from lakekit.data_file.deletion_vector_reader import index_path
from lakekit.data_file.paths import partition_path
from lakekit.errors import Corrupt, ValueOutOfRange
from lakekit.metadata import manifest_reader, snapshots
from lakekit.model.index_manifest import HASH_INDEX, IndexFileMeta
from lakekit.write import bucket_assigners
from lakekit.write.bucket_assigners import UNKNOWN_BUCKET, KeyHashes, RoutedRows, columns_to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.index_manifest import IndexManifestEntry
    from lakekit.model.snapshot import Snapshot
    from lakekit.write.bucket_assigners import Partitions, WriteShard

    Ints = NDArray[np.int32]

MAX_BUCKET_COUNT = 32767
"""No bucket has this number or a greater one: an index holds buckets as two bytes."""
NO_IDENTIFIER = -(2**63)
_HASH_BYTES = 4


class PreparedIndexes(NamedTuple):
    """New index files by partition and bucket, and the index files each written partition started from."""

    files: dict[tuple[bytes, int], IndexFileMeta]
    bases: dict[bytes, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentRule:
    """Options of bucket assignment.

    Attributes:
        target_rows: rows of a full bucket.
        max_buckets: the largest number of buckets of a partition.
        is_limited: whether `dynamic-bucket.max-buckets` limits them.
        channel_count: number of write channels.
        assigner_count: how many assigners share the keys of a partition.
    """

    target_rows: int
    max_buckets: int
    is_limited: bool
    channel_count: int
    assigner_count: int

    @staticmethod
    def from_options(ctx: TableContext) -> AssignmentRule:
        """Return the rule of a table. A value of 0 or -1 of `dynamic-bucket.max-buckets` means no limit."""
        options = ctx.options
        bounded = options.dynamic_bucket_max_buckets > 0
        most = min(options.dynamic_bucket_max_buckets, MAX_BUCKET_COUNT) if bounded else MAX_BUCKET_COUNT
        initial = options.dynamic_bucket_initial_buckets
        channels = min(max(1, options.dynamic_bucket_assigner_parallelism or initial or 1), most)
        return AssignmentRule(
            target_rows=max(1, options.dynamic_bucket_target_row_num),
            max_buckets=most,
            is_limited=bounded,
            channel_count=channels,
            assigner_count=min(max(1, initial or channels), channels),
        )

    def assigners_of(self, partition: bytes, hashes: Ints) -> Ints:
        """Return the assigner of each key."""
        if self.channel_count == 1:
            return np.zeros(len(hashes), np.int32)
        start = abs(_java_remainder(hashing.row_hash_code(binary_row.strip_arity(partition)[1]), self.channel_count))
        return (start + hashing.default_bucket(hashes, self.assigner_count)) % self.channel_count


def _java_remainder(number: int, divisor: int) -> int:
    """Return Java's remainder, which has the sign of the number."""
    return -(-number % divisor) if number < 0 else number % divisor


@dataclass(slots=True, kw_only=True)
class AssignerBuckets:
    """The buckets into which one assigner may put new keys.

    `counts`: keys of each bucket. `open_buckets`: the buckets that may have room, ascending.
    """

    assigner: int
    counts: dict[int, int]
    open_buckets: list[int]

    def fill_buckets(self, key_count: int, rule: AssignmentRule) -> Iterator[tuple[int, int]]:
        """Yield buckets and how many keys go into each, until all are placed or no bucket is left."""
        while key_count and self.open_buckets:
            room = rule.target_rows - self.counts[self.open_buckets[0]]
            if room <= 0:
                self.open_buckets.pop(0)
                continue
            yield self.open_buckets[0], min(room, key_count)
            self.counts[self.open_buckets[0]] += min(room, key_count)
            key_count -= min(room, key_count)
        fresh = self.assigner % rule.assigner_count
        while key_count and fresh < rule.max_buckets:
            if fresh not in self.counts:
                count = min(rule.target_rows, key_count)
                yield fresh, count
                self.counts[fresh] = count
                self.open_buckets.append(fresh)
                key_count -= count
            fresh += rule.assigner_count


@dataclass(slots=True, kw_only=True)
class PartitionHashIndex:
    """The hash index of one partition.

    Attributes:
        key_hashes: the bucket of each hash.
        file_names: the index file of each bucket.
        row_counts: rows in the index file of each bucket.
        changed_buckets: buckets with new keys.
        is_used: whether rows were assigned since the last commit.
        owner: the one assigner that all keys here belong to; None: the rule decides.
    """

    partition: bytes
    key_hashes: KeyHashes = field(default_factory=KeyHashes)
    file_names: dict[int, str] = field(default_factory=dict)
    row_counts: dict[int, int] = field(default_factory=dict)
    assigners: dict[int, AssignerBuckets] = field(default_factory=dict)
    changed_buckets: set[int] = field(default_factory=set)
    is_used: bool = True
    last_commit_identifier: int = NO_IDENTIFIER
    owner: int | None = None

    def assign(self, hashes: Ints, rule: AssignmentRule) -> Ints:
        """Return the bucket of each key, in order; new keys are assigned one."""
        self.is_used = True
        order, starts = _group_by_hash(hashes)
        distinct = hashes[order[starts]]
        distinct_buckets = self.key_hashes.find(distinct)
        new = np.flatnonzero(distinct_buckets == UNKNOWN_BUCKET)
        if len(new):
            arriving = new[np.argsort(order[starts[new]])]
            distinct_buckets[arriving] = self._assign_new_keys(distinct[arriving], rule)
            self.key_hashes.add(distinct[new], distinct_buckets[new])
            self.changed_buckets.update(map(int, np.unique(distinct_buckets[new])))
        buckets = np.empty(len(hashes), np.int32)
        buckets[order] = np.repeat(distinct_buckets, np.diff(starts, append=len(hashes)))
        return buckets

    def _assign_new_keys(self, hashes: Ints, rule: AssignmentRule) -> NDArray[np.int16]:
        """Return buckets for new keys, given in order of arrival."""
        owners = (
            rule.assigners_of(self.partition, hashes)
            if self.owner is None
            else np.full(len(hashes), self.owner, np.int32)
        )
        buckets = np.full(len(hashes), UNKNOWN_BUCKET, np.int16)
        for number in np.unique(owners):
            rows = np.flatnonzero(owners == number)
            assigner = self._assigner(int(number), rule)
            start = 0
            for bucket, count in assigner.fill_buckets(len(rows), rule):
                buckets[rows[start : start + count]] = bucket
                start += count
            if start < len(rows):
                buckets[rows[start:]] = self._assign_beyond_limit(hashes[rows[start:]], assigner, rule)
        return buckets

    def _assigner(self, assigner_number: int, rule: AssignmentRule) -> AssignerBuckets:
        assigner = self.assigners.get(assigner_number)
        if assigner is None:
            own = {
                bucket: count
                for bucket, count in sorted(self.row_counts.items())
                if bucket % rule.assigner_count == assigner_number % rule.assigner_count
            }
            assigner = self.assigners[assigner_number] = AssignerBuckets(
                assigner=assigner_number, counts=own, open_buckets=list(own)
            )
        return assigner

    def _assign_beyond_limit(self, hashes: Ints, assigner: AssignerBuckets, rule: AssignmentRule) -> NDArray[np.int16]:
        """Return buckets for keys when every bucket is full: by hash, if the number of buckets is limited.

        Raises `ValueOutOfRange` if it is not.
        """
        if not rule.is_limited:
            raise ValueOutOfRange(
                f"a partition has {len(assigner.counts)} buckets of {rule.target_rows} keys each, and no more than "
                f"{rule.max_buckets} are possible: raise dynamic-bucket.target-row-num"
            )
        full_buckets = np.array(sorted(assigner.counts) or sorted(self.row_counts), np.int16)
        return full_buckets[(hashes.view(np.uint32) >> np.uint32(7)) % np.uint32(len(full_buckets))]


@dataclass(slots=True, kw_only=True)
class DynamicBuckets:
    """Assigner by the hash index of the newest snapshot, and owner of that index.

    `prepare` writes the index files of buckets with new keys; `evict_committed` evicts partitions that were not
    touched lately.
    """

    ctx: TableContext
    rule: AssignmentRule
    indexes: dict[bytes, PartitionHashIndex] = field(default_factory=dict)
    loads_existing: bool = True
    shard: WriteShard | None = None

    @staticmethod
    def for_table(ctx: TableContext, *, overwrite: bool = False, shard: WriteShard | None = None) -> DynamicBuckets:
        """Return the assigner of a table; an overwrite starts without the index.

        `shard`: in a write divided into tasks, the buckets that this task handles.
        """
        rule = AssignmentRule.from_options(ctx)
        if shard is not None:
            rule = replace(rule, channel_count=shard.parallelism.assigners, assigner_count=shard.parallelism.assigners)
        return DynamicBuckets(ctx=ctx, rule=rule, loads_existing=not overwrite, shard=shard)

    def assign(self, frame: pl.DataFrame) -> RoutedRows:
        """Put each row into the bucket of its key."""
        row_partitions, hashes = self._hash_keys(frame)
        buckets = np.empty(len(hashes), np.int32)
        for partition, rows in _by_partition(row_partitions):
            buckets[rows] = self.indexes[partition].assign(hashes[rows], self.rule)
        return RoutedRows(frame, row_partitions, buckets)

    def look_up(self, frame: pl.DataFrame) -> tuple[Partitions, Ints, Ints]:
        """Return the partition, key hash and bucket of each row; -1 for a new key, which is not assigned."""
        row_partitions, hashes = self._hash_keys(frame)
        buckets = np.empty(len(hashes), np.int32)
        for partition, rows in _by_partition(row_partitions):
            distinct, inverse = np.unique(hashes[rows], return_inverse=True)
            buckets[rows] = self.indexes[partition].key_hashes.find(distinct)[inverse]
        return row_partitions, hashes, buckets

    def _hash_keys(self, frame: pl.DataFrame) -> tuple[Partitions, Ints]:
        """Return the partition and key hash of each row, and load the indexes of those partitions."""
        columns, types = columns_to_arrow(frame, self.ctx.schema.key_fields)
        row_partitions = bucket_assigners.encode_partitions(frame, self.ctx)
        self._load_indexes([partition for partition in row_partitions.partition_rows if partition not in self.indexes])
        return row_partitions, hashing.hash_columns(columns, types)

    def _load_indexes(self, missing: list[bytes]) -> None:
        """Load the indexes of partitions met for the first time.

        They are read from the newest snapshot; with a shard, from the snapshot of the whole write.
        """
        if not missing or not self.loads_existing:
            self._load_from_snapshot(missing, None)
        elif self.shard is None:
            snapshots.with_latest(self.ctx, lambda newest: self._load_from_snapshot(missing, newest))
        else:
            snapshot_id = self.shard.parallelism.snapshot_id
            self._load_from_snapshot(
                missing, None if snapshot_id is None else snapshots.read_snapshot(self.ctx, snapshot_id)
            )

    def _load_from_snapshot(self, partitions_to_load: list[bytes], snapshot: Snapshot | None) -> None:
        """Load the indexes of partitions from a snapshot: with a shard its own buckets, and the names of all."""
        entries: dict[bytes, list[IndexManifestEntry]] = {partition: [] for partition in partitions_to_load}
        for entry in () if snapshot is None else manifest_reader.index_entries(self.ctx, snapshot):
            if entry.index_type == HASH_INDEX and entry.partition in entries:
                entries[entry.partition].append(entry)
        for partition, index_entries in entries.items():
            own_entries = (
                index_entries
                if self.shard is None
                else [entry for entry in index_entries if self.shard.contains(partition, entry.bucket)]
            )
            rows: dict[int, int] = {}
            for entry in own_entries:
                rows[entry.bucket] = rows.get(entry.bucket, 0) + entry.row_count
            key_hashes = (
                KeyHashes.of_files((entry.bucket, read_hash_index(self.ctx, entry)) for entry in own_entries)
                if own_entries
                else KeyHashes()
            )
            owner = None if self.shard is None else self.shard.residue(partition)
            names = {entry.bucket: entry.file_name for entry in index_entries}
            self.indexes[partition] = PartitionHashIndex(
                partition=partition, key_hashes=key_hashes, row_counts=rows, file_names=names, owner=owner
            )

    def prepare(self, new_name: Callable[[], str]) -> PreparedIndexes:
        """Write an index file for every bucket with new keys.

        On failure the files written are deleted, and the writer cannot be used any more.
        """
        files: dict[tuple[bytes, int], IndexFileMeta] = {}
        bases: dict[bytes, tuple[str, ...]] = {}
        written: list[str] = []
        try:
            for partition, index in self.indexes.items():
                if index.is_used and self.loads_existing:
                    bases[partition] = tuple(sorted(index.file_names.values()))
                for bucket, hashes in index.key_hashes.of_buckets(index.changed_buckets):
                    name = new_name()
                    written.append(hash_index_path(self.ctx, partition, bucket, name))
                    files[partition, bucket] = write_hash_index(self.ctx, partition, bucket, name, hashes)
        except BaseException:
            self.ctx.storage.delete(written)
            raise
        for (partition, bucket), file in files.items():
            self.indexes[partition].file_names[bucket] = file.file_name
        for index in self.indexes.values():
            index.changed_buckets.clear()
        return PreparedIndexes(files, bases)

    def retain_partitions(self, partitions: Collection[bytes]) -> None:
        """Evict the indexes of all other partitions: their changes are committed, so that they can be read again."""
        self.indexes = {partition: index for partition, index in self.indexes.items() if partition in partitions}

    def evict_committed(self, identifier: int, committed: int | None) -> None:
        """Evict the indexes that are unused since a commit that has landed.

        It is called with each commit: `identifier` is that of this commit, `committed` the newest one known to have
        landed, or None. An index is evicted if its last commit is `committed` or older.
        """
        for partition, index in list(self.indexes.items()):
            if index.is_used:
                index.last_commit_identifier = identifier
            elif committed is not None and index.last_commit_identifier <= committed:
                del self.indexes[partition]
            index.is_used = False


def _group_by_hash(hashes: Ints) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the rows sorted by hash (stable), and where each hash begins.

    Sorting numbers that hold both hash and row takes a fraction of an argsort.
    """
    combined = hashes.astype(np.int64) << 32
    combined |= np.arange(len(hashes), dtype=np.uint32)
    combined = pl.Series(combined).sort().to_numpy()  # on all cores
    order = combined.astype(np.uint32)
    combined = combined >> 32
    begins = np.ones(len(combined), np.bool_)
    np.not_equal(combined[1:], combined[:-1], out=begins[1:])
    return order, np.flatnonzero(begins)


def _by_partition(row_partitions: Partitions) -> Iterator[tuple[bytes, NDArray[np.int64] | slice]]:
    if len(row_partitions.partition_rows) == 1:
        yield row_partitions.partition_rows[0], slice(None)
        return
    order = np.argsort(row_partitions.codes, kind="stable")
    cuts = np.searchsorted(row_partitions.codes[order], np.arange(len(row_partitions.partition_rows) + 1))
    for partition, start, end in zip(row_partitions.partition_rows, cuts[:-1], cuts[1:], strict=True):
        yield partition, order[start:end]


# ---- files -----------------------------------------------------------------------------------------------------------


def read_hash_index(ctx: TableContext, entry: IndexManifestEntry) -> Ints:
    """Return the hashes of an index file.

    Raises `Corrupt` if its length is not as the index manifest says, `FileMissing`.
    """
    if not 0 <= entry.bucket < MAX_BUCKET_COUNT:
        raise Corrupt(
            f"the index manifest of {ctx.name} lists a hash index of bucket {entry.bucket}: there are 0 to "
            f"{MAX_BUCKET_COUNT - 1}",
            field="_BUCKET",
        )
    file_path = index_path(ctx, entry)
    data = ctx.storage.read(file_path)
    if len(data) != entry.row_count * _HASH_BYTES:
        raise Corrupt(
            f"{file_path} is {len(data)} bytes, the index manifest says {entry.row_count} hashes of {_HASH_BYTES} "
            "bytes",
            path=file_path,
            field="_ROW_COUNT",
        )
    return index_files.decode_hash_index(data, path=file_path)


def hash_index_path(ctx: TableContext, partition: bytes, bucket: int, name: str) -> str:
    """Return the path of a bucket's index file."""
    return ctx.paths.index(name, partition_path=partition_path(ctx, partition), bucket=bucket)


def write_hash_index(ctx: TableContext, partition: bytes, bucket: int, name: str, hashes: Ints) -> IndexFileMeta:
    """Write the hashes of a bucket as its index file, below the table even if data files are elsewhere."""
    data = index_files.encode_hash_index(hashes)
    # synced, as what a snapshot refers to must be
    with ctx.storage.open_write(hash_index_path(ctx, partition, bucket, name)) as file:
        file.write(data)
    return IndexFileMeta(index_type=HASH_INDEX, file_name=name, file_size_bytes=len(data), row_count=len(hashes))
