"""Assign buckets that follow from the rows alone: hashed, unaware, postponed, or given by the caller.

    assigner.place(frame)   ->   RoutedRows(frame, partitions, buckets)

An assigner may change the rows (cross-partition upserts do), so it returns them. Source: ENGINE.md 7.1, 7.2;
`BucketMode`, `FixedBucketRowKeyExtractor`, `BucketFunction`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from lakekit.codec import hashing
from lakekit.errors import ColumnNotFound, InvalidOption
from lakekit.write import partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl
    import pyarrow as pa
    from numpy.typing import NDArray

    from lakekit.bucket.restore import SnapshotBuckets
    from lakekit.metadata.table_context import TableContext
    from lakekit.types import DataType, Field
    from lakekit.write.partitions import Partitions


class RoutedRows(NamedTuple):
    """Rows, with the partition and the bucket of each."""

    frame: pl.DataFrame
    partitions: Partitions
    buckets: NDArray[np.int32]


class BucketAssigner(Protocol):
    """Assigns buckets to the rows of a table."""

    def place(self, frame: pl.DataFrame) -> RoutedRows:
        """Return the rows to write, with their partitions and buckets."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedBuckets:
    """Assigner for a fixed number of buckets (option `bucket`): the bucket function of the bucket key."""

    ctx: TableContext

    def place(self, frame: pl.DataFrame) -> RoutedRows:
        """Put each row into the bucket of its bucket key."""
        options, fields = self.ctx.options, bucket_fields(self.ctx)
        # which leaves nothing to hash for; the others look at types too
        if options.bucket == 1 and options.bucket_function_type == "default":
            return RoutedRows(frame, partitions.encode_partitions(frame, self.ctx), np.zeros(frame.height, np.int32))
        columns, types = key_columns(frame, fields)
        buckets = hashing.buckets(options.bucket_function_type, columns, types, options.bucket)
        return RoutedRows(frame, partitions.encode_partitions(frame, self.ctx), buckets)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneBucket:
    """Assigner of one bucket: 0 in tables without buckets, -2 for postponed rows, or the caller's."""

    ctx: TableContext
    bucket: int = 0

    def place(self, frame: pl.DataFrame) -> RoutedRows:
        """Put every row into that bucket."""
        return RoutedRows(
            frame, partitions.encode_partitions(frame, self.ctx), np.full(frame.height, self.bucket, np.int32)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponedFixedBuckets:
    """Assigner by the bucket function, with `count(partition)` buckets.

    Source: `PostponeFixBucketProcessor`.
    """

    ctx: TableContext
    count: Callable[[bytes], int]

    def place(self, frame: pl.DataFrame) -> RoutedRows:
        """Put each row into the bucket of its key among those of its partition."""
        columns, types = key_columns(frame, bucket_fields(self.ctx))
        row_partitions = partitions.encode_partitions(frame, self.ctx)
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
