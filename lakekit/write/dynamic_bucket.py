"""Dynamic buckets: a key stays in the bucket where its hash was first put, and a bucket takes new keys until it has enough.

    key hash     -1878194585 known: bucket 1      77 new: the first bucket of its assigner with room, else a new one
    assigner     (|partition hash % channels| + |key hash % assigners|) % channels; it makes only buckets b with b % assigners equal to its own number's
    index        one file of all hashes for each bucket (`codec.hash_index`); a bucket with new keys gets a new file

`DynamicBuckets` goes by the index of the newest snapshot, read when a partition is first met; that of an overwrite begins with nothing. One
process stands for all assigners of the reference, or, of a write that is cut into tasks, for the one of its `WriteShard`. Where no bucket is left,
the reference
picks one by chance and lakekit by the key's hash. An assigner of the reference makes no more buckets in any partition once it has used the last number that
`dynamic-bucket.max-buckets` allows; lakekit goes by each partition.
Source: ENGINE.md 7.3; `HashBucketAssigner`, `SimpleHashBucketAssigner`, `PartitionIndex`, `DynamicBucketIndexMaintainer`, `BucketAssigner`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from lakekit.codec import binary_row, hash_index, hashing
from lakekit.data_file.deletion_vector_reader import index_path
from lakekit.data_file.paths import partition_path
from lakekit.errors import Corrupt, ValueOutOfRange
from lakekit.metadata import manifest_reader, snapshots
from lakekit.model.index_file import HASH, IndexFileMeta
from lakekit.write import partitions
from lakekit.write.bucket_assigners import RoutedRows, key_columns
from lakekit.write.key_hashes import UNKNOWN_BUCKET, KeyHashes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.index_file import IndexManifestEntry
    from lakekit.model.snapshot import Snapshot
    from lakekit.write.partitions import Partitions
    from lakekit.write.shares import WriteShard

    Ints = NDArray[np.int32]

MOST_BUCKETS = 32767
"""No bucket has this number or a greater one: an index holds buckets as two bytes."""
NO_IDENTIFIER = -(2**63)
_HASH_BYTES = 4


class PreparedIndexes(NamedTuple):
    """New index files by partition and bucket, and for each partition written to the index files that its buckets were chosen by."""

    files: dict[tuple[bytes, int], IndexFileMeta]
    bases: dict[bytes, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentRule:
    """The options: keys a bucket, buckets a partition at most, and how many assigners share the keys of a partition."""

    target: int
    most: int
    bounded: bool
    channels: int
    assigners: int

    @staticmethod
    def of(ctx: TableContext) -> AssignmentRule:
        """What a table says. `dynamic-bucket.max-buckets` 0 means what -1 means: no limit."""
        options = ctx.options
        bounded = options.dynamic_bucket_max_buckets > 0
        most = min(options.dynamic_bucket_max_buckets, MOST_BUCKETS) if bounded else MOST_BUCKETS
        initial = options.dynamic_bucket_initial_buckets
        channels = min(max(1, options.dynamic_bucket_assigner_parallelism or initial or 1), most)
        return AssignmentRule(
            target=max(1, options.dynamic_bucket_target_row_num),
            most=most,
            bounded=bounded,
            channels=channels,
            assigners=min(max(1, initial or channels), channels),
        )

    def owners(self, partition: bytes, hashes: Ints) -> Ints:
        """The assigner of each key."""
        if self.channels == 1:
            return np.zeros(len(hashes), np.int32)
        start = abs(_remainder(hashing.hash_bytes(binary_row.strip_arity(partition)[1]), self.channels))
        return (start + hashing.default_bucket(hashes, self.assigners)) % self.channels


def _remainder(number: int, by: int) -> int:
    """Java's %: the sign is the number's."""
    return -(-number % by) if number < 0 else number % by


@dataclass(slots=True, kw_only=True)
class AssignerBuckets:
    """The buckets that one assigner may put new keys into: how many keys each has; `open` are those that may have room, by number."""

    number: int
    counts: dict[int, int]
    open: list[int]

    def take(self, wanted: int, rule: AssignmentRule) -> Iterator[tuple[int, int]]:
        """Buckets, and how many keys go into each, until `wanted` are placed or no bucket is left."""
        while wanted and self.open:
            room = rule.target - self.counts[self.open[0]]
            if room <= 0:
                self.open.pop(0)
                continue
            yield self.open[0], min(room, wanted)
            self.counts[self.open[0]] += min(room, wanted)
            wanted -= min(room, wanted)
        fresh = self.number % rule.assigners
        while wanted and fresh < rule.most:
            if fresh not in self.counts:
                count = min(rule.target, wanted)
                yield fresh, count
                self.counts[fresh] = count
                self.open.append(fresh)
                wanted -= count
            fresh += rule.assigners


@dataclass(slots=True, kw_only=True)
class PartitionHashIndex:
    """The hash index of one partition. `names`: the index file of each bucket. `changed`: buckets with new keys. `touched`: since the last commit.

    `owner`: the one assigner that all keys here belong to; None: they are shared as the rule says.
    """

    partition: bytes
    known: KeyHashes = field(default_factory=KeyHashes)
    names: dict[int, str] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    assigners: dict[int, AssignerBuckets] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)
    touched: bool = True
    last_identifier: int = NO_IDENTIFIER
    owner: int | None = None

    def assign(self, hashes: Ints, rule: AssignmentRule) -> Ints:
        """The bucket of each key, in order; new keys are put somewhere."""
        self.touched = True
        order, starts = _group_by_hash(hashes)
        distinct = hashes[order[starts]]
        found = self.known.find(distinct)
        new = np.flatnonzero(found == UNKNOWN_BUCKET)
        if len(new):
            arriving = new[np.argsort(order[starts[new]])]
            found[arriving] = self._place(distinct[arriving], rule)
            self.known.add(distinct[new], found[new])
            self.changed.update(map(int, np.unique(found[new])))
        buckets = np.empty(len(hashes), np.int32)
        buckets[order] = np.repeat(found, np.diff(starts, append=len(hashes)))
        return buckets

    def _place(self, hashes: Ints, rule: AssignmentRule) -> NDArray[np.int16]:
        """Buckets of new keys, in the order they arrive."""
        owners = rule.owners(self.partition, hashes) if self.owner is None else np.full(len(hashes), self.owner, np.int32)
        found = np.full(len(hashes), UNKNOWN_BUCKET, np.int16)
        for number in np.unique(owners):
            rows = np.flatnonzero(owners == number)
            assigner = self._assigner(int(number), rule)
            at = 0
            for bucket, count in assigner.take(len(rows), rule):
                found[rows[at : at + count]] = bucket
                at += count
            if at < len(rows):
                found[rows[at:]] = self._beyond(hashes[rows[at:]], assigner, rule)
        return found

    def _assigner(self, number: int, rule: AssignmentRule) -> AssignerBuckets:
        found = self.assigners.get(number)
        if found is None:
            own = {bucket: count for bucket, count in sorted(self.rows.items()) if bucket % rule.assigners == number % rule.assigners}
            found = self.assigners[number] = AssignerBuckets(number=number, counts=own, open=list(own))
        return found

    def _beyond(self, hashes: Ints, assigner: AssignerBuckets, rule: AssignmentRule) -> NDArray[np.int16]:
        """Where keys go when every bucket is full: anywhere, if there is a limit of buckets."""
        if not rule.bounded:
            raise ValueOutOfRange(
                f"a partition has {len(assigner.counts)} buckets of {rule.target} keys each, and no more than {rule.most} are possible: "
                "raise dynamic-bucket.target-row-num"
            )
        there = np.array(sorted(assigner.counts) or sorted(self.rows), np.int16)
        return there[(hashes.view(np.uint32) >> np.uint32(7)) % np.uint32(len(there))]


@dataclass(slots=True, kw_only=True)
class DynamicBuckets:
    """Buckets by the hash index of the newest snapshot: an assigner for `route.split`, and the keeper of the index.

    `prepare` writes the index files of buckets with new keys; `settle` forgets partitions that were not touched lately.
    """

    ctx: TableContext
    rule: AssignmentRule
    indexes: dict[bytes, PartitionHashIndex] = field(default_factory=dict)
    loads: bool = True
    share: WriteShard | None = None

    @staticmethod
    def of(ctx: TableContext, *, overwrite: bool = False, share: WriteShard | None = None) -> DynamicBuckets:
        """For a table; an overwrite starts without the index. `share`: of a write that is cut into tasks, which of its buckets are met here."""
        rule = AssignmentRule.of(ctx)
        if share is not None:
            rule = replace(rule, channels=share.cut.assigners, assigners=share.cut.assigners)
        return DynamicBuckets(ctx=ctx, rule=rule, loads=not overwrite, share=share)

    def place(self, frame: pl.DataFrame) -> RoutedRows:
        """Every row in the bucket of its key."""
        found, hashes = self._hashed(frame)
        buckets = np.empty(len(hashes), np.int32)
        for partition, rows in _by_partition(found):
            buckets[rows] = self.indexes[partition].assign(hashes[rows], self.rule)
        return RoutedRows(frame, found, buckets)

    def find(self, frame: pl.DataFrame) -> tuple[Partitions, Ints, Ints]:
        """The partition of every row, the hash of its key, and the bucket that the key lies in, -1 for a new one, which stays new."""
        found, hashes = self._hashed(frame)
        buckets = np.empty(len(hashes), np.int32)
        for partition, rows in _by_partition(found):
            distinct, inverse = np.unique(hashes[rows], return_inverse=True)
            buckets[rows] = self.indexes[partition].known.find(distinct)[inverse]
        return found, hashes, buckets

    def _hashed(self, frame: pl.DataFrame) -> tuple[Partitions, Ints]:
        """The partition and the key's hash of every row; the indexes of those partitions are loaded."""
        columns, types = key_columns(frame, self.ctx.schema.key_fields)
        found = partitions.encode_partitions(frame, self.ctx)
        self._load([partition for partition in found.rows if partition not in self.indexes])
        return found, hashing.hash_columns(columns, types)

    def _load(self, wanted: list[bytes]) -> None:
        """The indexes of partitions that are met for the first time, by the snapshot that is gone by."""
        if not wanted or not self.loads:
            self._take(wanted, None)
        elif self.share is None:
            snapshots.with_latest(self.ctx, lambda newest: self._take(wanted, newest))
        else:
            number = self.share.cut.snapshot_id
            self._take(wanted, None if number is None else snapshots.read(self.ctx, number))

    def _take(self, wanted: list[bytes], snapshot: Snapshot | None) -> None:
        """The indexes of some partitions in a snapshot: of a share its own buckets, and the names of all."""
        entries: dict[bytes, list[IndexManifestEntry]] = {partition: [] for partition in wanted}
        for entry in () if snapshot is None else manifest_reader.index_entries(self.ctx, snapshot):
            if entry.index_type == HASH and entry.partition in entries:
                entries[entry.partition].append(entry)
        for partition, found in entries.items():
            own = found if self.share is None else [entry for entry in found if self.share.meets(partition, entry.bucket)]
            rows: dict[int, int] = {}
            for entry in own:
                rows[entry.bucket] = rows.get(entry.bucket, 0) + entry.row_count
            known = KeyHashes.of_files((entry.bucket, read(self.ctx, entry)) for entry in own) if own else KeyHashes()
            owner = None if self.share is None else self.share.residue(partition)
            names = {entry.bucket: entry.file_name for entry in found}
            self.indexes[partition] = PartitionHashIndex(partition=partition, known=known, rows=rows, names=names, owner=owner)

    def prepare(self, new_name: Callable[[], str]) -> PreparedIndexes:
        """Writes an index file for every bucket with new keys. On failure those it wrote are deleted; the writer is then of no use any more."""
        files: dict[tuple[bytes, int], IndexFileMeta] = {}
        bases: dict[bytes, tuple[str, ...]] = {}
        written: list[str] = []
        try:
            for partition, index in self.indexes.items():
                if index.touched and self.loads:
                    bases[partition] = tuple(sorted(index.names.values()))
                for bucket, hashes in index.known.of_buckets(index.changed):
                    name = new_name()
                    written.append(path(self.ctx, partition, bucket, name))
                    files[partition, bucket] = write(self.ctx, partition, bucket, name, hashes)
        except BaseException:
            self.ctx.storage.delete(written)
            raise
        for (partition, bucket), file in files.items():
            self.indexes[partition].names[bucket] = file.file_name
        for index in self.indexes.values():
            index.changed.clear()
        return PreparedIndexes(files, bases)

    def keep(self, partitions: Collection[bytes]) -> None:
        """Forgets the indexes of all other partitions: what they held is committed, and read again when it is needed."""
        self.indexes = {partition: index for partition, index in self.indexes.items() if partition in partitions}

    def settle(self, identifier: int, committed: int | None) -> None:
        """Called with each commit's identifier and the last one that is known to be committed: what was not touched since may go."""
        for partition, index in list(self.indexes.items()):
            if index.touched:
                index.last_identifier = identifier
            elif committed is not None and index.last_identifier <= committed:
                del self.indexes[partition]
            index.touched = False


def _group_by_hash(hashes: Ints) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """The rows by hash, those of one hash in the order they came, and where each hash begins. Numbers that hold both are sorted in a fraction of an argsort."""
    both = hashes.astype(np.int64) << 32
    both |= np.arange(len(hashes), dtype=np.uint32)
    both = pl.Series(both).sort().to_numpy()  # on all cores
    order = both.astype(np.uint32)
    both = both >> 32
    begins = np.ones(len(both), np.bool_)
    np.not_equal(both[1:], both[:-1], out=begins[1:])
    return order, np.flatnonzero(begins)


def _by_partition(found: Partitions) -> Iterator[tuple[bytes, NDArray[np.int64] | slice]]:
    """Each partition, and which rows are its own."""
    if len(found.rows) == 1:
        yield found.rows[0], slice(None)
        return
    order = np.argsort(found.codes, kind="stable")
    cuts = np.searchsorted(found.codes[order], np.arange(len(found.rows) + 1))
    for partition, start, end in zip(found.rows, cuts[:-1], cuts[1:], strict=True):
        yield partition, order[start:end]


# ---- files -----------------------------------------------------------------------------------------------------------------------------------


def read(ctx: TableContext, entry: IndexManifestEntry) -> Ints:
    """The hashes of an index file. Raises `Corrupt` where it is not as long as the index manifest says, `FileMissing`."""
    if not 0 <= entry.bucket < MOST_BUCKETS:
        raise Corrupt(f"the index manifest of {ctx.name} lists a hash index of bucket {entry.bucket}: there are 0 to {MOST_BUCKETS - 1}", field="_BUCKET")
    where = index_path(ctx, entry)
    data = ctx.storage.read(where)
    if len(data) != entry.row_count * _HASH_BYTES:
        raise Corrupt(f"{where} is {len(data)} bytes, the index manifest says {entry.row_count} hashes of {_HASH_BYTES} bytes", path=where, field="_ROW_COUNT")
    return hash_index.decode(data, path=where)


def path(ctx: TableContext, partition: bytes, bucket: int, name: str) -> str:
    """Where the index file of a bucket lies."""
    return ctx.layout.index(name, partition_path=partition_path(ctx, partition), bucket=bucket)


def write(ctx: TableContext, partition: bytes, bucket: int, name: str, hashes: Ints) -> IndexFileMeta:
    """Writes the hashes of a bucket as its index file; below the table, wherever its data files go."""
    data = hash_index.encode(hashes)
    with ctx.storage.open_write(path(ctx, partition, bucket, name)) as file:  # synced, as what a snapshot refers to must be
        file.write(data)
    return IndexFileMeta(index_type=HASH, file_name=name, file_size_bytes=len(data), row_count=len(hashes))
