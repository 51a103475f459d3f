"""Keys that may move between partitions: where each lies, and what a row with the key in another partition does (ENGINE 7.5).

    the key lies    engine                          what is written
    nowhere         any                             the row, in a bucket of its partition with room
    same            any                             the row, in the bucket of the key
    elsewhere       deduplicate                     -D with the row's values in the old partition and bucket, then the row in the new one
                    partial-update, aggregation     the row in the old partition and bucket, its partition columns changed to the old ones
                    first-row                       nothing

Rows of one frame are taken in their order: a key may move more than once. The map is columns: the keys, a number for the partition of each, its bucket. A key
is all of the primary key. Buckets are filled from the lowest; keys that left make room from the next frame on. Source: `GlobalIndexAssigner`, `IndexBootstrap`,
`ExistingProcessor`, `DeleteExistingProcessor`, `UseOldExistingProcessor`, `SkipNewExistingProcessor`, `crosspartition.BucketAssigner`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from lakekit import world
from lakekit.bucket import merge_read as bucket_rows
from lakekit.bucket.merge_read import KIND, MergeTask
from lakekit.codec import binary_row
from lakekit.columns import KEY, PLACE, cols
from lakekit.data_file import deletion_vector_reader
from lakekit.data_file.paths import bucket_id_at, data_file_paths
from lakekit.errors import ValueOutOfRange
from lakekit.format.polars_types import polars_schema
from lakekit.lsm import rule as rules
from lakekit.metadata import manifest_reader, snapshots
from lakekit.model.index_file import DELETION_VECTORS
from lakekit.model.row_kind import RowKind
from lakekit.write import partitions
from lakekit.write.bucket_assigners import RoutedRows
from lakekit.write.dynamic_bucket import MOST_BUCKETS, AssignmentRule
from lakekit.write.partitions import Partitions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.index_file import IndexManifestEntry
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.snapshot import Snapshot

    Ints = NDArray[np.int64]

NOT_FOUND = -1

_MOST_CHUNKS = 64


@dataclass(slots=True, kw_only=True)
class KeyLocationIndex:
    """Where keys lie. The i-th of `keys` is in the partition numbered `partition[i]`, in `bucket[i]`, since `since_ms[i]`; `columns` are partitions' values.

    `counts`: keys by partition number and bucket.
    """

    keys: pl.DataFrame
    columns: pl.DataFrame
    rows: list[bytes] = field(default_factory=list)
    numbers: dict[bytes, int] = field(default_factory=dict)
    partition: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    bucket: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    since_ms: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    counts: dict[int, dict[int, int]] = field(default_factory=dict)

    def numbered(self, found: Partitions, columns: pl.DataFrame) -> Ints:
        """The number of each row's partition; `columns` are the partition columns of those rows."""
        first = np.unique(found.codes, return_index=True)[1]
        new = [i for i, row in enumerate(found.rows) if row not in self.numbers]
        for i in new:
            self.numbers[found.rows[i]] = len(self.rows)
            self.rows.append(found.rows[i])
        if new:
            self.columns = self.columns.vstack(columns[first[new]])
        return np.array([self.numbers[row] for row in found.rows], np.int64)[found.codes]

    def find(self, keys: pl.DataFrame) -> Ints:
        """Where each of some distinct keys stands in this map, -1 where it does not."""
        found = np.full(keys.height, NOT_FOUND, np.int64)
        if len(self.partition) and keys.height:
            mine, asked = self.keys.with_row_index(PLACE), keys.with_row_index(KEY)
            both = mine.join(asked, on=cols(keys.columns), how="inner", nulls_equal=True)
            found[both[KEY].to_numpy()] = both[PLACE].to_numpy()
        return found

    def put(self, at: Ints, keys: pl.DataFrame, partition: Ints, bucket: Ints, now_ms: int) -> None:
        """Keys to their places: those with a position in `at` are moved, the others added."""
        known = at >= 0
        self.partition[at[known]], self.bucket[at[known]], self.since_ms[at[known]] = partition[known], bucket[known], now_ms
        if known.all():
            return
        self.keys = self.keys.vstack(keys.filter(pl.Series(~known)))
        if self.keys.n_chunks() > _MOST_CHUNKS:
            self.keys = self.keys.rechunk()
        self.partition = np.append(self.partition, partition[~known])
        self.bucket = np.append(self.bucket, bucket[~known])
        self.since_ms = np.append(self.since_ms, np.full(int((~known).sum()), now_ms))

    def enter(self, numbers: Ints, target: int) -> Ints:
        """A bucket for each key that enters the partition of that number: the lowest with room."""
        found = np.empty(len(numbers), np.int64)
        for number in np.unique(numbers):
            rows = np.flatnonzero(numbers == number)
            at = 0
            for bucket, count in _allocate_buckets(self.counts.setdefault(int(number), {}), len(rows), target):
                found[rows[at : at + count]] = bucket
                at += count
        return found

    def leave(self, numbers: Ints, buckets: Ints) -> None:
        """Keys that leave their bucket."""
        for place, count in zip(*np.unique(numbers << 16 | buckets, return_counts=True), strict=True):  # scalar: one a bucket
            self.counts[int(place) >> 16][int(place) & 0xFFFF] -= int(count)


def _allocate_buckets(counts: dict[int, int], wanted: int, target: int) -> Iterator[tuple[int, int]]:
    """Buckets from the lowest on, and how many keys go into each."""
    for bucket in range(MOST_BUCKETS):
        if not wanted:
            return
        count = min(wanted, target - counts.get(bucket, 0))
        if count > 0:
            counts[bucket] = counts.get(bucket, 0) + count
            wanted -= count
            yield bucket, count
    if wanted:
        raise ValueOutOfRange(f"a partition has {MOST_BUCKETS} buckets of {target} keys each, and no more are possible: raise dynamic-bucket.target-row-num")


@dataclass(slots=True, kw_only=True)
class CrossPartition:
    """An assigner for tables whose primary key lacks a partition column and that have dynamic buckets. The map is read when the first rows come."""

    ctx: TableContext
    engine: str
    target: int
    places: KeyLocationIndex | None = None
    loads: bool = True
    known_at: int | None = None
    """The newest snapshot whose keys are in the map, 0 where there was none; None: there is no map, or it begins with nothing."""

    @staticmethod
    def of(ctx: TableContext, *, overwrite: bool = False) -> CrossPartition:
        """For a table; an overwrite starts without a map."""
        return CrossPartition(ctx=ctx, engine=ctx.options.merge_engine, target=AssignmentRule.of(ctx).target, loads=not overwrite)

    def place(self, frame: pl.DataFrame) -> RoutedRows:
        """The rows to write instead, and their places."""
        if self.places is None:
            newest = snapshots.latest(self.ctx) if self.loads else None
            self.places = bootstrap_index(self.ctx, newest)
            self.known_at = (0 if newest is None else newest.id) if self.loads else None
        schema = self.ctx.schema
        number = self.places.numbered(partitions.encode_partitions(frame, self.ctx), frame.select(cols(schema.partition_keys)))
        distinct, codes = partitions.number_distinct_rows(frame.select(cols(schema.primary_keys)))
        keys = partitions.to_comparable_columns(distinct)
        at = self.places.find(keys)
        now_ms = self.ctx.world.now_ms()
        if self.engine == "deduplicate":
            return self._moving(frame, number, codes, keys, at, now_ms)
        return self._staying(frame, number, codes, keys, at, now_ms)

    def _before(self, at: Ints, now_ms: int) -> tuple[Ints, Ints]:
        """Partition and bucket of keys before these rows; nowhere when they are new, or were last seen too long ago."""
        assert self.places is not None
        partition, bucket = np.full(len(at), NOT_FOUND, np.int64), np.full(len(at), NOT_FOUND, np.int64)
        ttl_ms = self.ctx.options.cross_partition_upsert_index_ttl_ms
        there = np.flatnonzero(at >= 0)
        if ttl_ms is not None:
            there = there[self.places.since_ms[at[there]] + ttl_ms >= now_ms]
        partition[there], bucket[there] = self.places.partition[at[there]], self.places.bucket[at[there]]
        return partition, bucket

    def _moving(self, frame: pl.DataFrame, number: Ints, codes: Ints, keys: pl.DataFrame, at: Ints, now_ms: int) -> RoutedRows:
        """Deduplicate: a key goes where its newest row is, and leaves a -D behind."""
        assert self.places is not None
        partition, bucket = self._before(at, now_ms)
        order = np.argsort(codes, kind="stable")  # the rows of a key, one after the other
        code, target = codes[order], number[order]
        opens = np.append(True, code[1:] != code[:-1])
        came_from = np.where(opens, partition[code], np.append(NOT_FOUND, target[:-1]))
        enters = came_from != target
        moves = enters & (came_from != NOT_FOUND)
        chosen = np.full(len(order), NOT_FOUND, np.int64)
        arriving = np.flatnonzero(enters)[np.argsort(order[enters], kind="stable")]
        chosen[arriving] = self.places.enter(target[arriving], self.target)
        # a row that stays is where the last one that entered went, or where the key was
        entered = np.maximum.accumulate(np.where(enters, np.arange(len(order)), -1))
        start = np.maximum.accumulate(np.where(opens, np.arange(len(order)), 0))
        chosen = np.where(entered >= start, chosen[np.maximum(entered, 0)], bucket[code])
        left = np.where(opens, bucket[code], np.append(NOT_FOUND, chosen[:-1]))
        self.places.leave(came_from[moves], left[moves])
        last = np.append(opens[1:], True)
        self.places.put(at, keys, target[last], chosen[last], now_ms)
        buckets = np.empty(len(order), np.int64)
        buckets[order] = chosen
        if not moves.any():
            return self._placed(frame, number, buckets)
        rows = order[moves]
        gone = self._in_partition(frame[pl.Series(rows)], came_from[moves]).with_columns(pl.lit(int(RowKind.DELETE), pl.Int8).alias(KIND))
        turn = np.argsort(np.append(2 * rows, 2 * np.arange(frame.height) + 1), kind="stable")  # a delete comes before the row that makes it
        both = gone.select(cols(frame.columns)).vstack(frame)[pl.Series(turn)]
        return self._placed(both, np.append(came_from[moves], number)[turn], np.append(left[moves], buckets)[turn])

    def _staying(self, frame: pl.DataFrame, number: Ints, codes: Ints, keys: pl.DataFrame, at: Ints, now_ms: int) -> RoutedRows:
        """The other engines: a key stays where its first row went. First-row drops what comes from elsewhere, the others bring it home.

        Java's rows come home as +I (`ProjectToRowFunction` forgets their kind), a -D too, which then brings back what it was to take: that lakekit does not do.
        """
        assert self.places is not None
        partition, bucket = self._before(at, now_ms)
        new = np.flatnonzero(partition == NOT_FOUND)
        first = np.unique(codes, return_index=True)[1]
        partition[new] = number[first[new]]
        bucket[new] = self.places.enter(partition[new], self.target)
        self.places.put(at[new], keys[pl.Series(new)], partition[new], bucket[new], now_ms)
        home, buckets = partition[codes], bucket[codes]
        away = home != number
        if not away.any():
            return self._placed(frame, number, buckets)
        if self.engine == "first-row":
            stays = ~away
            return self._placed(frame.filter(pl.Series(stays)), number[stays], buckets[stays])
        inserted = pl.when(pl.Series(away) & (pl.col(KIND) == int(RowKind.UPDATE_AFTER))).then(pl.lit(int(RowKind.INSERT), pl.Int8)).otherwise(pl.col(KIND))
        return self._placed(self._in_partition(frame.with_columns(inserted.alias(KIND)), home), home, buckets)

    def _in_partition(self, frame: pl.DataFrame, number: Ints) -> pl.DataFrame:
        """The rows with the partition columns of those partitions."""
        assert self.places is not None
        return frame.with_columns(self.places.columns[pl.Series(number)].get_columns())

    def _placed(self, frame: pl.DataFrame, number: Ints, buckets: Ints) -> RoutedRows:
        assert self.places is not None
        used, codes = np.unique(number, return_inverse=True)
        return RoutedRows(frame, Partitions(tuple(self.places.rows[one] for one in used), codes), buckets.astype(np.int32))


# ---- the keys that are there -----------------------------------------------------------------------------------------------------------------


def _empty_index(ctx: TableContext) -> KeyLocationIndex:
    frame = pl.DataFrame(schema=polars_schema(ctx.schema.fields))
    keys, columns = frame.select(cols(ctx.schema.primary_keys)), frame.select(cols(ctx.schema.partition_keys))
    return KeyLocationIndex(keys=partitions.to_comparable_columns(keys), columns=columns)


def bootstrap_index(ctx: TableContext, snapshot: Snapshot | None) -> KeyLocationIndex:
    """Where the keys of a snapshot lie; buckets whose files are all older than `cross-partition-upsert.index-ttl` are left out."""
    places, now_ms = _empty_index(ctx), ctx.world.now_ms()
    if snapshot is None:
        return places
    fields = ctx.schema.fields_of(ctx.schema.primary_keys)
    parallelism = min(max(1, ctx.options.cross_partition_upsert_bootstrap_parallelism), world.core_count())

    def keys_of(one: tuple[bytes, int, MergeTask]) -> tuple[bytes, int, pl.DataFrame]:
        return one[0], one[1], bucket_rows.merge_lazily([one[2]], fields).collect()

    for partition, bucket, frame in world.map_prefetch(keys_of, _buckets(ctx, snapshot, now_ms), parallelism):
        number = places.numbers.get(partition)
        if number is None:
            number = int(places.numbered(Partitions((partition,), np.zeros(1, np.int64)), _values(ctx, partition, places.columns))[0])
        count = frame.height
        nowhere = np.full(count, NOT_FOUND, np.int64)
        places.put(
            nowhere,
            partitions.to_comparable_columns(frame.cast(polars_schema(fields))),
            np.full(count, number, np.int64),
            np.full(count, bucket, np.int64),
            now_ms,
        )
        places.counts.setdefault(number, {})[bucket] = count
    return places


def _buckets(ctx: TableContext, snapshot: Snapshot, now_ms: int) -> Iterator[tuple[bytes, int, MergeTask]]:
    """The merge of every bucket that may hold keys worth knowing."""
    entries = manifest_reader.read_live_entries(ctx, snapshot, keep_entries=lambda found: found.numbers("bucket") >= 0)
    vectors: dict[str, IndexManifestEntry] = {}
    for entry in manifest_reader.index_entries(ctx, snapshot):
        if entry.index_type == DELETION_VECTORS:
            vectors |= {part.file_name: entry for part in entry.ranges}
    rule = rules.merge_spec_from_options(ctx.schema, ctx.all_options, table=ctx.name)
    ttl_ms = ctx.options.cross_partition_upsert_index_ttl_ms
    oldest_ms = None if ttl_ms is None else world.wall_clock_ms(now_ms) - ttl_ms
    paths = data_file_paths(ctx, entries)
    for (partition, bucket), rows in _group_by_bucket(entries).items():
        files = entries.files(rows)
        if oldest_ms is not None and all(file.creation_time_ms is not None and file.creation_time_ms < oldest_ms for file in files):
            continue
        wanted = {file.name: vectors[file.name] for file in files if file.name in vectors}
        yield (
            partition,
            bucket,
            MergeTask(
                ctx=ctx,
                files=tuple(files),
                paths=tuple(paths[i] for i in rows),
                rule=rule,
                in_order=False,
                deletions=deletion_vector_reader.load(ctx, wanted) if wanted else None,
                snapshot_id=snapshot.id,
            ),
        )


def _group_by_bucket(entries: ManifestEntries) -> dict[tuple[bytes, int], list[int]]:
    found: dict[tuple[bytes, int], list[int]] = {}
    for i in range(len(entries)):
        found.setdefault(bucket_id_at(entries, i), []).append(i)
    return found


def _values(ctx: TableContext, partition: bytes, like: pl.DataFrame) -> pl.DataFrame:
    """The values of a partition as one row of its columns."""
    fields = ctx.schema.partition_fields
    columns = binary_row.decode_columns(pa.array([partition], pa.binary()), [field.type for field in fields])
    return pl.DataFrame({field.name: pl.Series(column) for field, column in zip(fields, columns, strict=True)}).cast(like.schema)
