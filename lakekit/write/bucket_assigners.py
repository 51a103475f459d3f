"""Assign buckets that follow from the rows alone: hashed, unaware, postponed, or given by the caller.

    assigner.place(frame)   ->   RoutedRows(frame, partitions, buckets)

An assigner may change the rows (cross-partition upserts do), so it returns them. Source: ENGINE.md 7.1, 7.2;
`BucketMode`, `FixedBucketRowKeyExtractor`, `BucketFunction`.

The partition of each row: the distinct partitions as manifests serialize them, and a code a row.

    dt 19723, 19724, 19723   ->   partitions (00000001 00…, 00000001 00…) · codes [0, 1, 0]

Source: ENGINE.md 1.1 step 5; `InternalRowPartitionComputer`, `BinaryRow`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import polars as pl

from lakekit.codec import binary_row, hashing
from lakekit.columns import CODE, ROW, col, cols
from lakekit.data_file.paths import partition_values
from lakekit.errors import ColumnNotFound, InvalidOption, ValueOutOfRange
from lakekit.model.partition import text, time_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from lakekit.bucket.restore import SnapshotBuckets
    from lakekit.metadata.table_context import TableContext
    from lakekit.types import DataType, Field


class Partitions(NamedTuple):
    """The distinct partitions of rows, in order of appearance, and the index of each row's partition."""

    rows: tuple[bytes, ...]
    codes: NDArray[np.int64]


def encode_partitions(frame: pl.DataFrame, ctx: TableContext) -> Partitions:
    """Return the partitions of a frame's rows."""
    fields = ctx.schema.partition_fields
    if not fields:
        return Partitions((binary_row.EMPTY_WITH_ARITY,), np.zeros(frame.height, np.int64))
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


def check_times(ctx: TableContext, rows: Iterable[bytes]) -> None:
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
        texts = text(partition_values(ctx, row), types, default_name=options.partition_default_name)
        if time_ms(names, texts, pattern=pattern, formatter=formatter) is None:
            partition_text = ", ".join(f"{name}={value}" for name, value in zip(names, texts, strict=True))
            raise ValueOutOfRange(
                f"partition {partition_text} of {ctx.name} says no time by partition.timestamp-pattern={pattern!r} "
                f"and partition.timestamp-formatter={formatter!r}, and partition.timestamp-format.strict wants one. "
                "Correct the values, or switch that option off",
                column=names[0],
            )


def serialize_rows(distinct: pl.DataFrame, fields: Sequence[Field]) -> tuple[bytes, ...]:
    """Rows as manifests hold them."""
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
        # which leaves nothing to hash for; the others look at types too
        if options.bucket == 1 and options.bucket_function_type == "default":
            return RoutedRows(frame, encode_partitions(frame, self.ctx), np.zeros(frame.height, np.int32))
        columns, types = key_columns(frame, fields)
        buckets = hashing.buckets(options.bucket_function_type, columns, types, options.bucket)
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
    """Assigner by the bucket function, with `count(partition)` buckets.

    Source: `PostponeFixBucketProcessor`.
    """

    ctx: TableContext
    count: Callable[[bytes], int]

    def assign(self, frame: pl.DataFrame) -> RoutedRows:
        """Put each row into the bucket of its key among those of its partition."""
        columns, types = key_columns(frame, bucket_fields(self.ctx))
        row_partitions = encode_partitions(frame, self.ctx)
        totals = np.array([self.count(partition) for partition in row_partitions.rows], np.int64)[row_partitions.codes]
        buckets = np.zeros(frame.height, np.int32)
        for total in np.unique(totals):
            buckets = np.where(
                totals == total,
                hashing.buckets(self.ctx.options.bucket_function_type, columns, types, int(total)),
                buckets,
            )
        return RoutedRows(frame, row_partitions, buckets)


def postponed_count(ctx: TableContext, snapshot_buckets: SnapshotBuckets, partition: bytes) -> int:
    """Return the bucket count of a partition of postponed rows.

    That is the number its first compaction chose, else the option's default.
    """
    return snapshot_buckets.bucket(partition, 0).total_buckets or ctx.options.postpone_default_bucket_num


def bucket_fields(ctx: TableContext) -> tuple[Field, ...]:
    """Return the bucket key columns: `bucket-key`, else the trimmed primary key, else all columns."""
    names = ctx.schema.bucket_keys or ctx.schema.names
    try:
        return ctx.schema.fields_of(names)
    except ColumnNotFound as missing:
        raise InvalidOption(
            f"bucket-key of {ctx.name} names a column that is not there: {missing.message}", key="bucket-key"
        ) from None


def key_columns(frame: pl.DataFrame, fields: Sequence[Field]) -> tuple[list[pa.Array], list[DataType]]:
    """Columns of a frame as Arrow arrays, and their types."""
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
        return abs(hashing.hash_bytes(binary_row.strip_arity(partition)[1])) % self.tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteShard:
    """The part of a write that one task handles; `task` None: everything."""

    cut: WriteParallelism
    task: int | None = None

    def residue(self, partition: bytes) -> int | None:
        """Return the residue of this task's buckets in a partition; None for all.

        If the task handles no row of the partition, no bucket has that residue.
        """
        return None if self.task is None else (self.task - self.cut.first(partition)) % self.cut.tasks

    def meets(self, partition: bytes, bucket: int) -> bool:
        """Return whether the bucket is one of this task's."""
        residue = self.residue(partition)
        return residue is None or bucket % self.cut.assigners == residue
