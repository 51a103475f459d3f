"""Cross-partition upserts: keys located, rows handled whose key is in another partition (ENGINE 7.5).

    key is in       engine                          what is written
    no partition    any                             the row, in a bucket of its partition with room
    the same        any                             the row, in the bucket of the key
    another         deduplicate                     -D with the row's values in the old partition and bucket, then
                                                    the row in the new one
                    partial-update, aggregation     the row in the old partition and bucket, its partition columns set
                                                    to the old ones
                    first-row                       nothing

Rows of one frame are processed in order: a key may move more than once. The index is columnar: the keys, a number for
the partition of each, its bucket. A key is the whole primary key. Buckets are filled from the lowest; keys that left
make room from the next frame on.

Source: `GlobalIndexAssigner`, `IndexBootstrap`, `ExistingProcessor`, `DeleteExistingProcessor`,
`UseOldExistingProcessor`, `SkipNewExistingProcessor`, `crosspartition.BucketAssigner`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from lakekit import parallel, runtime
from lakekit.bucket import merge_read as bucket_rows
from lakekit.bucket.merge_read import MergeTask
from lakekit.codec import binary_row
from lakekit.columns import KEY, KIND, POSITION, cols
from lakekit.data_file import deletion_vector_reader
from lakekit.data_file.paths import bucket_id_at, data_file_paths
from lakekit.errors import ValueOutOfRange
from lakekit.format.polars_types import polars_schema
from lakekit.lsm import merge
from lakekit.metadata import manifest_reader, snapshots
from lakekit.model.data_file import RowKind
from lakekit.model.index_manifest import DELETION_VECTORS
from lakekit.write import bucket_assigners
from lakekit.write.bucket_assigners import Partitions, RoutedRows
from lakekit.write.dynamic_bucket import MAX_BUCKET_COUNT, AssignmentRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.index_manifest import IndexManifestEntry
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.snapshot import Snapshot

    Ints = NDArray[np.int64]

NOT_FOUND = -1

_MAX_CHUNKS = 64


@dataclass(slots=True, kw_only=True)
class KeyLocationIndex:
    """The location of each key: key i of `keys` is in partition number `partition[i]`, bucket `bucket[i]`.

    Attributes:
        partition_columns: the values of the partitions, by number.
        partition_rows: the serialized partitions, by number.
        partition_numbers: the number of each serialized partition.
        since_ms: when each key was last written.
        counts: number of keys by partition number and bucket.
    """

    keys: pl.DataFrame
    partition_columns: pl.DataFrame
    partition_rows: list[bytes] = field(default_factory=list)
    partition_numbers: dict[bytes, int] = field(default_factory=dict)
    partition: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    bucket: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    since_ms: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    counts: dict[int, dict[int, int]] = field(default_factory=dict)

    def number_partitions(self, row_partitions: Partitions, columns: pl.DataFrame) -> Ints:
        """Return the number of each row's partition; `partition_columns` are the partition columns of those rows."""
        first = np.unique(row_partitions.codes, return_index=True)[1]
        new = [i for i, row in enumerate(row_partitions.partition_rows) if row not in self.partition_numbers]
        for i in new:
            self.partition_numbers[row_partitions.partition_rows[i]] = len(self.partition_rows)
            self.partition_rows.append(row_partitions.partition_rows[i])
        if new:
            self.partition_columns = self.partition_columns.vstack(columns[first[new]])
        return np.array([self.partition_numbers[row] for row in row_partitions.partition_rows], np.int64)[
            row_partitions.codes
        ]

    def find(self, keys: pl.DataFrame) -> Ints:
        """Return the position of each of some distinct keys in this index, -1 if it is missing."""
        positions = np.full(keys.height, NOT_FOUND, np.int64)
        if len(self.partition) and keys.height:
            indexed, requested = self.keys.with_row_index(POSITION), keys.with_row_index(KEY)
            joined = indexed.join(requested, on=cols(keys.columns), how="inner", nulls_equal=True)
            positions[joined[KEY].to_numpy()] = joined[POSITION].to_numpy()
        return positions

    def store(self, positions: Ints, keys: pl.DataFrame, partition: Ints, bucket: Ints, now_ms: int) -> None:
        """Store locations: keys with a position >= 0 are moved, the others added."""
        is_indexed = positions >= 0
        (
            self.partition[positions[is_indexed]],
            self.bucket[positions[is_indexed]],
            self.since_ms[positions[is_indexed]],
        ) = (
            partition[is_indexed],
            bucket[is_indexed],
            now_ms,
        )
        if is_indexed.all():
            return
        self.keys = self.keys.vstack(keys.filter(pl.Series(~is_indexed)))
        if self.keys.n_chunks() > _MAX_CHUNKS:
            self.keys = self.keys.rechunk()
        self.partition = np.append(self.partition, partition[~is_indexed])
        self.bucket = np.append(self.bucket, bucket[~is_indexed])
        self.since_ms = np.append(self.since_ms, np.full(int((~is_indexed).sum()), now_ms))

    def assign_buckets(self, key_numbers: Ints, target: int) -> Ints:
        """Assign to each key that enters its partition the lowest bucket with room."""
        buckets = np.empty(len(key_numbers), np.int64)
        for number in np.unique(key_numbers):
            rows = np.flatnonzero(key_numbers == number)
            start = 0
            for bucket, count in _allocate_buckets(self.counts.setdefault(int(number), {}), len(rows), target):
                buckets[rows[start : start + count]] = bucket
                start += count
        return buckets

    def remove_keys(self, key_numbers: Ints, buckets: Ints) -> None:
        """Count keys out of the buckets they leave."""
        for code, count in zip(
            *np.unique(key_numbers << 16 | buckets, return_counts=True), strict=True
        ):  # scalar: one a bucket
            self.counts[int(code) >> 16][int(code) & 0xFFFF] -= int(count)


def _allocate_buckets(counts: dict[int, int], key_count: int, target: int) -> Iterator[tuple[int, int]]:
    """Yield buckets from the lowest on, with how many keys go into each."""
    for bucket in range(MAX_BUCKET_COUNT):
        if not key_count:
            return
        count = min(key_count, target - counts.get(bucket, 0))
        if count > 0:
            counts[bucket] = counts.get(bucket, 0) + count
            key_count -= count
            yield bucket, count
    if key_count:
        raise ValueOutOfRange(
            f"a partition has {MAX_BUCKET_COUNT} buckets of {target} keys each, and no more are possible: raise "
            "dynamic-bucket.target-row-num"
        )


@dataclass(slots=True, kw_only=True)
class CrossPartition:
    """An assigner for dynamic buckets of tables whose primary key lacks a partition column.

    The index is read when the first rows come.
    """

    ctx: TableContext
    engine: str
    target: int
    key_locations: KeyLocationIndex | None = None
    loads_existing: bool = True
    snapshot_id: int | None = None
    """The newest snapshot whose keys are in the map, 0 if there was none; None: there is no map, or it begins with
    nothing.
    """

    @staticmethod
    def for_table(ctx: TableContext, *, overwrite: bool = False) -> CrossPartition:
        """Return the assigner of a table; an overwrite starts without a map of keys."""
        return CrossPartition(
            ctx=ctx,
            engine=ctx.options.merge_engine,
            target=AssignmentRule.from_options(ctx).target_rows,
            loads_existing=not overwrite,
        )

    def assign(self, frame: pl.DataFrame) -> RoutedRows:
        """Return the rows to write instead, with their partitions and buckets."""
        if self.key_locations is None:
            newest = snapshots.latest(self.ctx) if self.loads_existing else None
            self.key_locations = bootstrap_index(self.ctx, newest)
            self.snapshot_id = (0 if newest is None else newest.id) if self.loads_existing else None
        schema = self.ctx.schema
        number = self.key_locations.number_partitions(
            bucket_assigners.encode_partitions(frame, self.ctx), frame.select(cols(schema.partition_keys))
        )
        distinct, codes = bucket_assigners.number_distinct_rows(frame.select(cols(schema.primary_keys)))
        keys = bucket_assigners.to_comparable_columns(distinct)
        positions = self.key_locations.find(keys)
        now_ms = self.ctx.runtime.now_ms()
        if self.engine == "deduplicate":
            return self._move_keys(frame, number, codes, keys, positions, now_ms)
        return self._keep_keys(frame, number, codes, keys, positions, now_ms)

    def _previous_locations(self, positions: Ints, now_ms: int) -> tuple[Ints, Ints]:
        """Return partition number and bucket of keys before these rows.

        `NOT_FOUND` for new keys, and for those last written longer ago than `cross-partition-upsert.index-ttl`.
        """
        assert self.key_locations is not None
        partition, bucket = np.full(len(positions), NOT_FOUND, np.int64), np.full(len(positions), NOT_FOUND, np.int64)
        ttl_ms = self.ctx.options.cross_partition_upsert_index_ttl_ms
        present = np.flatnonzero(positions >= 0)
        if ttl_ms is not None:
            present = present[self.key_locations.since_ms[positions[present]] + ttl_ms >= now_ms]
        partition[present], bucket[present] = (
            self.key_locations.partition[positions[present]],
            self.key_locations.bucket[positions[present]],
        )
        return partition, bucket

    def _move_keys(
        self, frame: pl.DataFrame, key_numbers: Ints, codes: Ints, keys: pl.DataFrame, positions: Ints, now_ms: int
    ) -> RoutedRows:
        """Move each key to the partition of its newest row, with a -D in the old one (deduplicate)."""
        assert self.key_locations is not None
        partition, bucket = self._previous_locations(positions, now_ms)
        order = np.argsort(codes, kind="stable")  # the rows of a key, one after the other
        code, target = codes[order], key_numbers[order]
        opens = np.append(True, code[1:] != code[:-1])
        came_from = np.where(opens, partition[code], np.append(NOT_FOUND, target[:-1]))
        enters = came_from != target
        moves = enters & (came_from != NOT_FOUND)
        new_bucket = np.full(len(order), NOT_FOUND, np.int64)
        arriving = np.flatnonzero(enters)[np.argsort(order[enters], kind="stable")]
        new_bucket[arriving] = self.key_locations.assign_buckets(target[arriving], self.target)
        # a row that stays is where the last one that entered went, or where the key was
        entered = np.maximum.accumulate(np.where(enters, np.arange(len(order)), -1))
        start = np.maximum.accumulate(np.where(opens, np.arange(len(order)), 0))
        new_bucket = np.where(entered >= start, new_bucket[np.maximum(entered, 0)], bucket[code])
        left = np.where(opens, bucket[code], np.append(NOT_FOUND, new_bucket[:-1]))
        self.key_locations.remove_keys(came_from[moves], left[moves])
        last = np.append(opens[1:], True)
        self.key_locations.store(positions, keys, target[last], new_bucket[last], now_ms)
        buckets = np.empty(len(order), np.int64)
        buckets[order] = new_bucket
        if not moves.any():
            return self._route(frame, key_numbers, buckets)
        rows = order[moves]
        deletes = self._in_partition(frame[pl.Series(rows)], came_from[moves]).with_columns(
            pl.lit(int(RowKind.DELETE), pl.Int8).alias(KIND)
        )
        # a delete comes before the row that makes it
        row_order = np.argsort(np.append(2 * rows, 2 * np.arange(frame.height) + 1), kind="stable")
        rows_and_deletes = deletes.select(cols(frame.columns)).vstack(frame)[pl.Series(row_order)]
        return self._route(
            rows_and_deletes,
            np.append(came_from[moves], key_numbers)[row_order],
            np.append(left[moves], buckets)[row_order],
        )

    def _keep_keys(
        self, frame: pl.DataFrame, key_numbers: Ints, codes: Ints, keys: pl.DataFrame, positions: Ints, now_ms: int
    ) -> RoutedRows:
        """Keep each key where its first row went: first-row drops rows of other partitions.

        The other engines move such rows there. The reference writes moved rows as +I (`ProjectToRowFunction` forgets
        their kind), a -D too, which then brings back what it was to delete; lakekit keeps the -D.
        """
        assert self.key_locations is not None
        partition, bucket = self._previous_locations(positions, now_ms)
        new = np.flatnonzero(partition == NOT_FOUND)
        first = np.unique(codes, return_index=True)[1]
        partition[new] = key_numbers[first[new]]
        bucket[new] = self.key_locations.assign_buckets(partition[new], self.target)
        self.key_locations.store(positions[new], keys[pl.Series(new)], partition[new], bucket[new], now_ms)
        home, buckets = partition[codes], bucket[codes]
        away = home != key_numbers
        if not away.any():
            return self._route(frame, key_numbers, buckets)
        if self.engine == "first-row":
            stays = ~away
            return self._route(frame.filter(pl.Series(stays)), key_numbers[stays], buckets[stays])
        inserted = (
            pl.when(pl.Series(away) & (pl.col(KIND) == int(RowKind.UPDATE_AFTER)))
            .then(pl.lit(int(RowKind.INSERT), pl.Int8))
            .otherwise(pl.col(KIND))
        )
        return self._route(self._in_partition(frame.with_columns(inserted.alias(KIND)), home), home, buckets)

    def _in_partition(self, frame: pl.DataFrame, key_numbers: Ints) -> pl.DataFrame:
        """Return the rows with the partition columns of the numbered partitions."""
        assert self.key_locations is not None
        return frame.with_columns(self.key_locations.partition_columns[pl.Series(key_numbers)].get_columns())

    def _route(self, frame: pl.DataFrame, key_numbers: Ints, buckets: Ints) -> RoutedRows:
        assert self.key_locations is not None
        used, codes = np.unique(key_numbers, return_inverse=True)
        return RoutedRows(
            frame,
            Partitions(tuple(self.key_locations.partition_rows[partition_number] for partition_number in used), codes),
            buckets.astype(np.int32),
        )


# ---- the keys that are there -----------------------------------------------------------------------------------------


def _empty_index(ctx: TableContext) -> KeyLocationIndex:
    frame = pl.DataFrame(schema=polars_schema(ctx.schema.fields))
    keys, columns = frame.select(cols(ctx.schema.primary_keys)), frame.select(cols(ctx.schema.partition_keys))
    return KeyLocationIndex(keys=bucket_assigners.to_comparable_columns(keys), partition_columns=columns)


def bootstrap_index(ctx: TableContext, snapshot: Snapshot | None) -> KeyLocationIndex:
    """Return the locations of all keys of a snapshot.

    Buckets whose files are all older than `cross-partition-upsert.index-ttl` are left out.
    """
    index, now_ms = _empty_index(ctx), ctx.runtime.now_ms()
    if snapshot is None:
        return index
    fields = ctx.schema.fields_of(ctx.schema.primary_keys)
    parallelism = min(max(1, ctx.options.cross_partition_upsert_bootstrap_parallelism), parallel.core_count())

    def keys_of(bucket_task: tuple[bytes, int, MergeTask]) -> tuple[bytes, int, pl.DataFrame]:
        return bucket_task[0], bucket_task[1], bucket_rows.merge_lazily([bucket_task[2]], fields).collect()

    for partition, bucket, frame in parallel.map_prefetch(
        keys_of, _bucket_merge_tasks(ctx, snapshot, now_ms), parallelism
    ):
        number = index.partition_numbers.get(partition)
        if number is None:
            number = int(
                index.number_partitions(
                    Partitions((partition,), np.zeros(1, np.int64)),
                    _partition_columns(ctx, partition, index.partition_columns),
                )[0]
            )
        count = frame.height
        positions = np.full(count, NOT_FOUND, np.int64)
        index.store(
            positions,
            bucket_assigners.to_comparable_columns(frame.cast(polars_schema(fields))),
            np.full(count, number, np.int64),
            np.full(count, bucket, np.int64),
            now_ms,
        )
        index.counts.setdefault(number, {})[bucket] = count
    return index


def _bucket_merge_tasks(ctx: TableContext, snapshot: Snapshot, now_ms: int) -> Iterator[tuple[bytes, int, MergeTask]]:
    """Yield the merge task of every bucket that may hold keys young enough for the index."""
    entries = manifest_reader.read_live_entries(
        ctx, snapshot, keep_entries=lambda candidates: candidates.integers("bucket") >= 0
    )
    vectors: dict[str, IndexManifestEntry] = {}
    for entry in manifest_reader.index_entries(ctx, snapshot):
        if entry.index_type == DELETION_VECTORS:
            vectors |= {part.file_name: entry for part in entry.ranges}
    rule = merge.merge_spec_from_options(ctx.schema, ctx.all_options, table=ctx.name)
    ttl_ms = ctx.options.cross_partition_upsert_index_ttl_ms
    oldest_ms = None if ttl_ms is None else runtime.wall_clock_ms(now_ms) - ttl_ms
    paths = data_file_paths(ctx, entries)
    for (partition, bucket), rows in _group_by_bucket(entries).items():
        files = entries.files(rows)
        if oldest_ms is not None and all(
            file.creation_time_ms is not None and file.creation_time_ms < oldest_ms for file in files
        ):
            continue
        file_vectors = {file.name: vectors[file.name] for file in files if file.name in vectors}
        yield (
            partition,
            bucket,
            MergeTask(
                ctx=ctx,
                files=tuple(files),
                paths=tuple(paths[i] for i in rows),
                spec=rule,
                is_in_sequence=False,
                deletions=deletion_vector_reader.load_positions(ctx, file_vectors) if file_vectors else None,
                snapshot_id=snapshot.id,
            ),
        )


def _group_by_bucket(entries: ManifestEntries) -> dict[tuple[bytes, int], list[int]]:
    groups: dict[tuple[bytes, int], list[int]] = {}
    for i in range(len(entries)):
        groups.setdefault(bucket_id_at(entries, i), []).append(i)
    return groups


def _partition_columns(ctx: TableContext, partition: bytes, template: pl.DataFrame) -> pl.DataFrame:
    """Return the values of a partition as one row of its columns."""
    fields = ctx.schema.partition_fields
    columns = binary_row.decode_columns(pa.array([partition], pa.binary()), [field.type for field in fields])
    return pl.DataFrame({field.name: pl.Series(column) for field, column in zip(fields, columns, strict=True)}).cast(
        template.schema
    )
