"""Assigners of buckets that follow from the rows alone; partitions of rows; buckets of key hashes.

    assigner.assign(frame)   ->   RoutedRows(frame, partitions, buckets)
    dt 19723, 19724, 19723   ->   partitions (00000001 00…, 00000001 00…) · codes [0, 1, 0]

    pieces    hashes -9 -4 2 | 7 30 41 | …        ascending; each piece two arrays, int32 hashes and int16 buckets
              buckets 0  1 0 | 1  0  2 | …        (`KeyHashes`: six bytes a key of one partition)
    recent    hashes 3 8                          later additions, ascending; merged into the pieces when they reach
                                                  a sixteenth of them, in small maps before the next addition

An assigner may change the rows (cross-partition upserts do), so it returns them. Partitions are the distinct ones as
manifests serialize them, and a code a row. Pieces of hashes are replaced one at a time, so growing needs no second copy
of everything: 100 million keys take 600 MB, and little more while they are loaded.

Source: ENGINE.md 1.1 step 5, 7.1-7.3; `BucketMode`, `FixedBucketRowKeyExtractor`, `BucketFunction`,
`InternalRowPartitionComputer`, `BinaryRow`, `PartitionIndex`, `Int2ShortHashMap`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import polars as pl

from lakekit.codec import binary_row, hashing
from lakekit.columns import CODE, ROW, col, cols
from lakekit.data_file.paths import partition_values
from lakekit.errors import ColumnNotFound, InvalidOption, ValueOutOfRange
from lakekit.model.partition import partition_texts, partition_time_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from lakekit.bucket.restore import SnapshotBuckets
    from lakekit.metadata.table_context import TableContext
    from lakekit.types import DataType, Field

    Hashes = NDArray[np.int32]
    Buckets = NDArray[np.int16]


class Partitions(NamedTuple):
    """The distinct partitions of rows, in order of appearance, and the index of each row's partition."""

    partition_rows: tuple[bytes, ...]
    codes: NDArray[np.int64]


def encode_partitions(frame: pl.DataFrame, ctx: TableContext) -> Partitions:
    """Return the partitions of a frame's rows."""
    fields = ctx.schema.partition_fields
    if not fields:
        return Partitions((binary_row.EMPTY_ROW_WITH_ARITY,), np.zeros(frame.height, np.int64))
    distinct, codes = number_distinct_rows(frame.select(col(field.name) for field in fields))
    return Partitions(serialize_rows(distinct, fields), codes)


def number_distinct_rows(columns: pl.DataFrame) -> tuple[pl.DataFrame, NDArray[np.int64]]:
    """Return the distinct rows in order of appearance, and the index of each row among them.

    Zeros of either sign are two values, as their bytes are.
    """
    comparable = to_comparable_columns(columns)
    names = cols(columns.columns)
    first_rows = comparable.with_row_index(ROW).unique(names, keep="first", maintain_order=True)
    distinct = columns[first_rows[ROW]]
    if distinct.height == 1:
        return distinct, np.zeros(columns.height, np.int64)
    numbers = first_rows.select(names).with_row_index(CODE)
    codes = comparable.join(numbers, on=names, how="left", nulls_equal=True, maintain_order="left")[CODE]
    return distinct, codes.to_numpy().astype(np.int64)


def to_comparable_columns(columns: pl.DataFrame) -> pl.DataFrame:
    """Return the columns with floats as their bits, so that equal bytes compare equal."""
    return (
        columns
        if not any(dtype.is_float() for dtype in columns.dtypes)
        else columns.select(_to_comparable(column) for column in columns)
    )


def _to_comparable(column: pl.Series) -> pl.Series:
    if not column.dtype.is_float():
        return column
    bits = column.fill_null(0).to_numpy().view(np.int32 if column.dtype == pl.Float32 else np.int64)
    comparable = pl.Series(column.name, bits)
    return (
        comparable
        if not column.null_count()
        else comparable.to_frame().select(pl.when(column.is_not_null()).then(comparable).alias(column.name)).to_series()
    )


def check_partition_times(ctx: TableContext, rows: Iterable[bytes]) -> None:
    """Raise `ValueOutOfRange` for a partition without a time, under `partition.timestamp-format.strict`."""
    options = ctx.options
    pattern, formatter = options.partition_timestamp_pattern, options.partition_timestamp_formatter
    if (
        not options.partition_timestamp_format_strict
        or (pattern is None and formatter is None)
        or not ctx.schema.partition_keys
    ):
        return
    names, types = ctx.schema.partition_keys, [field.type for field in ctx.schema.partition_fields]
    for row in rows:
        texts = partition_texts(partition_values(ctx, row), types, default_name=options.partition_default_name)
        if partition_time_ms(names, texts, pattern=pattern, formatter=formatter) is None:
            partition_text = ", ".join(f"{name}={value}" for name, value in zip(names, texts, strict=True))
            raise ValueOutOfRange(
                f"partition {partition_text} of {ctx.name} says no time by partition.timestamp-pattern={pattern!r} "
                f"and partition.timestamp-formatter={formatter!r}, and partition.timestamp-format.strict wants one. "
                "Correct the values, or switch that option off",
                column=names[0],
            )


def serialize_rows(distinct: pl.DataFrame, fields: Sequence[Field]) -> tuple[bytes, ...]:
    """Return rows as the bytes that manifests hold."""
    rows = binary_row.encode_columns(
        [distinct[field.name].to_arrow() for field in fields], [field.type for field in fields]
    )
    return tuple(binary_row.with_arity(row, len(fields)) for row in rows.to_pylist())  # scalar: one a partition


# ---- bucket assigners ------------------------------------------------------------


class RoutedRows(NamedTuple):
    """Rows, with the partition and the bucket of each."""

    frame: pl.DataFrame
    partitions: Partitions
    buckets: NDArray[np.int32]


class BucketAssigner(Protocol):
    """Assigns buckets to the rows of a table."""

    def assign(self, frame: pl.DataFrame) -> RoutedRows:
        """Return the rows to write, with their partitions and buckets."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedBuckets:
    """Assigner for a fixed number of buckets (option `bucket`): the bucket function of the bucket key."""

    ctx: TableContext

    def assign(self, frame: pl.DataFrame) -> RoutedRows:
        """Put each row into the bucket of its bucket key."""
        options, fields = self.ctx.options, bucket_fields(self.ctx)
        # one bucket needs no hash; the other functions also check types, so they run
        if options.bucket == 1 and options.bucket_function_type == "default":
            return RoutedRows(frame, encode_partitions(frame, self.ctx), np.zeros(frame.height, np.int32))
        columns, types = columns_to_arrow(frame, fields)
        buckets = hashing.assign_buckets(options.bucket_function_type, columns, types, options.bucket)
        return RoutedRows(frame, encode_partitions(frame, self.ctx), buckets)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneBucket:
    """Assigner of one bucket: 0 in tables without buckets, -2 for postponed rows, or the caller's."""

    ctx: TableContext
    bucket: int = 0

    def assign(self, frame: pl.DataFrame) -> RoutedRows:
        """Put every row into that bucket."""
        return RoutedRows(frame, encode_partitions(frame, self.ctx), np.full(frame.height, self.bucket, np.int32))


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponedFixedBuckets:
    """Assigner by the bucket function, with `bucket_count(partition)` buckets.

    Source: `PostponeFixBucketProcessor`.
    """

    ctx: TableContext
    bucket_count: Callable[[bytes], int]

    def assign(self, frame: pl.DataFrame) -> RoutedRows:
        """Put each row into the bucket of its key among those of its partition."""
        columns, types = columns_to_arrow(frame, bucket_fields(self.ctx))
        row_partitions = encode_partitions(frame, self.ctx)
        totals = np.array([self.bucket_count(partition) for partition in row_partitions.partition_rows], np.int64)[
            row_partitions.codes
        ]
        buckets = np.zeros(frame.height, np.int32)
        for total in np.unique(totals):
            buckets = np.where(
                totals == total,
                hashing.assign_buckets(self.ctx.options.bucket_function_type, columns, types, int(total)),
                buckets,
            )
        return RoutedRows(frame, row_partitions, buckets)


def postponed_count(ctx: TableContext, snapshot_buckets: SnapshotBuckets, partition: bytes) -> int:
    """Return the bucket count of a partition of postponed rows.

    That is the number its first compaction chose, else the option's default.
    """
    return snapshot_buckets.restore_bucket(partition, 0).total_buckets or ctx.options.postpone_default_bucket_num


def bucket_fields(ctx: TableContext) -> tuple[Field, ...]:
    """Return the bucket key columns, by default the trimmed primary key, or all columns without one."""
    names = ctx.schema.bucket_keys or ctx.schema.names
    try:
        return ctx.schema.fields_of(names)
    except ColumnNotFound as missing:
        raise InvalidOption(
            f"bucket-key of {ctx.name} names a column that is not there: {missing.message}", key="bucket-key"
        ) from None


def columns_to_arrow(frame: pl.DataFrame, fields: Sequence[Field]) -> tuple[list[pa.Array], list[DataType]]:
    """Return columns of a frame as Arrow arrays, and their types."""
    return [frame[field.name].to_arrow() for field in fields], [field.type for field in fields]


# ---- writes divided among tasks --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteParallelism:
    """How one write is divided among tasks.

    Attributes:
        tasks: number of tasks.
        assigners: how many assigners share the keys of a partition; at most `tasks`.
        snapshot_id: the snapshot from which every task restores bucket state; None if there is none.
    """

    tasks: int
    assigners: int
    snapshot_id: int | None = None

    def first(self, partition: bytes) -> int:
        """Return the task with residue 0 of a partition.

        Partitions with few buckets are spread over the tasks.
        """
        return abs(hashing.row_hash_code(binary_row.strip_arity(partition)[1])) % self.tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteShard:
    """The part of a write that one task handles; `task` None: everything."""

    parallelism: WriteParallelism
    task: int | None = None

    def residue(self, partition: bytes) -> int | None:
        """Return the residue of this task's buckets in a partition; None for all.

        If the task handles no row of the partition, no bucket has that residue.
        """
        return None if self.task is None else (self.task - self.parallelism.first(partition)) % self.parallelism.tasks

    def contains(self, partition: bytes, bucket: int) -> bool:
        """Return whether the bucket is one of this task's."""
        residue = self.residue(partition)
        return residue is None or bucket % self.parallelism.assigners == residue


# ---- key hashes ------------------------------------------------------------


RUN_HASHES = 1 << 18
"""Hashes of one piece."""
_MIN_RECENT_HASHES = 1 << 16
_HASH_RANGE = 1 << 22
_LARGE_HASH_COUNT = 1 << 23
_MAX_BUCKETS = 1 << 15
_MAX_DIRECT_BUCKETS = 4
"""Up to so many buckets are looked for one after the other."""
_MAX_MERGE_RUNS = 16
"""Up to so many ascending runs are put in order by merging them: where numpy sorts by the widest instructions that
takes as long as sorting, else a quarter.
"""
UNKNOWN_BUCKET = -1


class HashRun(NamedTuple):
    """Ascending hashes and the bucket of each."""

    hashes: Hashes
    buckets: Buckets


_EMPTY_RUN = HashRun(np.zeros(0, np.int32), np.zeros(0, np.int16))


class KeyHashes:
    """The map from hash to bucket. Lookups and additions take arrays of ascending, distinct hashes."""

    def __init__(self) -> None:
        self._pieces: list[HashRun] = []
        self._recent = _EMPTY_RUN
        self.counts: dict[int, int] = {}
        """How many hashes each bucket has."""

    def __len__(self) -> int:
        return sum(len(piece.hashes) for piece in self._pieces) + len(self._recent.hashes)

    @property
    def memory_bytes(self) -> int:
        """The memory of the arrays, in bytes."""
        return sum(array.nbytes for piece in (*self._pieces, self._recent) for array in piece)

    @staticmethod
    def of_files(files: Iterable[tuple[int, Hashes]]) -> KeyHashes:
        """Build the map from index files, given as bucket and hashes.

        For a hash in two files the later one counts. Files are cut into ranges of hashes as they come, and released;
        ranges are sorted one after the other.
        """
        key_hashes = KeyHashes()
        buckets: list[int] = []
        ranges: list[list[tuple[int, Hashes]]] = [[] for _ in range(64)]
        bounds = np.linspace(-(2.0**31), 2.0**31, len(ranges) + 1).astype(np.int64)[1:-1]
        for number, (bucket, file_hashes) in enumerate(files):
            buckets.append(bucket)
            hashes = _sort_hashes(file_hashes)
            cuts = [0, *np.searchsorted(hashes, bounds).tolist(), len(hashes)]  # scalar: one a range
            for i, part in enumerate(ranges):
                if cuts[i] < cuts[i + 1]:
                    part.append((number, hashes[cuts[i] : cuts[i + 1]].copy()))
        of_file = np.array(buckets, np.int16)
        for part in ranges:
            if part:
                key_hashes._pieces += _split_run(_merge_files(part, of_file))
                part.clear()
        for piece in key_hashes._pieces:
            key_hashes._count_buckets(piece.buckets)
        return key_hashes

    def find(self, hashes: Hashes) -> Buckets:
        """Return the bucket of each hash, -1 if there is none."""
        buckets = np.full(len(hashes), UNKNOWN_BUCKET, np.int16)
        for (start, end), piece in zip(self._piece_ranges(hashes), self._pieces, strict=True):
            _look_up(piece, hashes[start:end], buckets[start:end])
        _look_up(self._recent, hashes, buckets)
        return buckets

    def add(self, hashes: Hashes, buckets: Buckets) -> None:
        """Add hashes that the map does not have yet."""
        self._count_buckets(buckets)
        settled = sum(len(piece.hashes) for piece in self._pieces)
        most = max(_MIN_RECENT_HASHES, settled >> 4)
        if len(self._recent.hashes) > most:
            self._merge_recent()
        self._recent = _merge_runs(self._recent, HashRun(hashes, buckets))
        # a big map merges at once: by the next addition more hashes would be held twice
        if settled > _LARGE_HASH_COUNT and len(self._recent.hashes) > most:
            self._merge_recent()

    def of_buckets(self, buckets: Iterable[int]) -> Iterator[tuple[int, Hashes]]:
        """Yield all hashes of the buckets, bucket by bucket, collected a few million at a time."""
        group: list[int] = []
        hash_count = 0
        for bucket in sorted(buckets):
            group.append(bucket)
            hash_count += self.counts.get(bucket, 0)
            if hash_count >= _LARGE_HASH_COUNT:
                yield from self._gather_hashes(group).items()
                group, hash_count = [], 0
        if group:
            yield from self._gather_hashes(group).items()

    def _gather_hashes(self, bucket_ids: list[int]) -> Mapping[int, Hashes]:
        pieces = (*self._pieces, self._recent)
        if len(bucket_ids) <= _MAX_DIRECT_BUCKETS:
            return {
                bucket: np.concatenate([piece.hashes[piece.buckets == bucket] for piece in pieces])
                for bucket in bucket_ids
            }
        is_wanted = np.zeros(_MAX_BUCKETS, np.bool_)
        is_wanted[bucket_ids] = True
        parts: dict[int, list[Hashes]] = {bucket: [] for bucket in bucket_ids}
        for piece in pieces:
            mask = is_wanted[piece.buckets]
            buckets, hashes = piece.buckets[mask], piece.hashes[mask]
            order = np.argsort(buckets, kind="stable")
            cuts = np.searchsorted(buckets[order], np.array([*bucket_ids, _MAX_BUCKETS], np.int32))
            for bucket, start, end in zip(bucket_ids, cuts[:-1], cuts[1:], strict=True):
                if start < end:
                    parts[bucket].append(hashes[order[start:end]])
        return {bucket: np.concatenate(arrays) if arrays else _EMPTY_RUN.hashes for bucket, arrays in parts.items()}

    def _count_buckets(self, buckets: Buckets) -> None:
        for bucket, count in zip(*np.unique(buckets, return_counts=True), strict=True):  # scalar: one a bucket
            self.counts[int(bucket)] = self.counts.get(int(bucket), 0) + int(count)

    def _piece_ranges(self, hashes: Hashes) -> list[tuple[int, int]]:
        """Return the range of the ascending hashes that belongs to each piece.

        A piece covers its first hash up to the next piece's; the first piece also everything below.
        """
        if not self._pieces:
            return []
        firsts = np.array([piece.hashes[0] for piece in self._pieces[1:]], np.int32)
        cuts = [0, *np.searchsorted(hashes, firsts).tolist(), len(hashes)]  # scalar: one a piece
        return list(pairwise(cuts))

    def _merge_recent(self) -> None:
        """Merge the recent hashes into the pieces."""
        recent, self._recent = self._recent, _EMPTY_RUN
        if not self._pieces:
            self._pieces = _split_run(recent)
            return
        merged: list[HashRun] = []
        for position, (start, end) in enumerate(self._piece_ranges(recent.hashes)):
            piece = self._pieces[position]
            self._pieces[position] = _EMPTY_RUN  # let go as soon as its successor is there
            if start < end:
                merged += _split_run(_merge_runs(piece, HashRun(recent.hashes[start:end], recent.buckets[start:end])))
            else:
                merged.append(piece)
        self._pieces = merged


def _look_up(hash_run: HashRun, hashes: Hashes, buckets: Buckets) -> None:
    """Write into `buckets` the buckets of those hashes that the piece has."""
    if not len(hashes) or not len(hash_run.hashes):
        return
    positions = np.searchsorted(hash_run.hashes, hashes)
    positions[positions == len(hash_run.hashes)] = 0
    matching = np.flatnonzero(hash_run.hashes[positions] == hashes)
    buckets[matching] = hash_run.buckets[positions[matching]]


def _merge_runs(hash_run: HashRun, new: HashRun) -> HashRun:
    """Return two ascending runs as one; `new` has no hash of `hash_run`."""
    if not len(hash_run.hashes):
        return new
    at = np.searchsorted(hash_run.hashes, new.hashes) + np.arange(len(new.hashes))
    old = np.ones(len(hash_run.hashes) + len(new.hashes), np.bool_)
    old[at] = False
    hashes, buckets = np.empty(len(old), np.int32), np.empty(len(old), np.int16)
    hashes[at], buckets[at] = new
    hashes[old], buckets[old] = hash_run
    return HashRun(hashes, buckets)


def _sort_hashes(hashes: Hashes) -> Hashes:
    """Sort hashes. Few ascending runs, as in files of lakekit, are merged by a stable sort.

    Otherwise numpy's default sort is faster.
    """
    falls = int(np.count_nonzero(hashes[1:] < hashes[:-1]))
    return np.sort(hashes, kind="stable" if falls < _MAX_MERGE_RUNS else None) if falls else hashes


def _merge_files(parts: list[tuple[int, Hashes]], of_file: Buckets) -> HashRun:
    """Return the hashes of several files as one piece, each hash with its file's number."""
    both = np.concatenate([(hashes.astype(np.int64) << 32) | number for number, hashes in parts])
    both.sort(kind="stable" if len(parts) <= _MAX_MERGE_RUNS else None)  # a stable sort merges runs, each file is one
    hashes = (both >> 32).astype(np.int32)
    last = np.append(hashes[1:] != hashes[:-1], True)
    return HashRun(hashes[last], of_file[(both[last] & 0xFFFFFFFF)])


def _split_run(hash_run: HashRun) -> list[HashRun]:
    """Split a piece into pieces of `RUN_HASHES` hashes, each with its own memory."""
    size = len(hash_run.hashes)
    if size <= 2 * RUN_HASHES:
        return [hash_run] if size else []
    return [
        HashRun(hash_run.hashes[at : at + RUN_HASHES].copy(), hash_run.buckets[at : at + RUN_HASHES].copy())
        for at in range(0, size, RUN_HASHES)
    ]
