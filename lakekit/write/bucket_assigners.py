"""Where rows go whose bucket follows from the rows alone: hashed, unaware, postponed, or told.

    assigner.place(frame)   ->   Placed(frame, partitions, buckets)

An assigner may change the rows it places (cross-partition upserts do), which is why it gives them back. Source: ENGINE.md 7.1, 7.2; `BucketMode`,
`FixedBucketRowKeyExtractor`, `BucketFunction`.
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
    """Rows, the partition of each, and the bucket of each."""

    frame: pl.DataFrame
    partitions: Partitions
    buckets: NDArray[np.int32]


class BucketAssigner(Protocol):
    """Tells the rows of a table their buckets."""

    def place(self, frame: pl.DataFrame) -> RoutedRows:
        """The rows to write, with their places."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedBuckets:
    """As many buckets as the option `bucket` says: the bucket function over the bucket key."""

    ctx: TableContext

    def place(self, frame: pl.DataFrame) -> RoutedRows:
        """Every row in the bucket of its bucket key."""
        options, fields = self.ctx.options, bucket_fields(self.ctx)
        if options.bucket == 1 and options.bucket_function_type == "default":  # which leaves nothing to hash for; the others look at types too
            return RoutedRows(frame, partitions.encode_partitions(frame, self.ctx), np.zeros(frame.height, np.int32))
        columns, types = key_columns(frame, fields)
        found = hashing.buckets(options.bucket_function_type, columns, types, options.bucket)
        return RoutedRows(frame, partitions.encode_partitions(frame, self.ctx), found)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneBucket:
    """Every row in the same bucket: 0 of tables that know no buckets, -2 of postponed ones, or the one that a caller names."""

    ctx: TableContext
    bucket: int = 0

    def place(self, frame: pl.DataFrame) -> RoutedRows:
        """Every row in that bucket."""
        return RoutedRows(frame, partitions.encode_partitions(frame, self.ctx), np.full(frame.height, self.bucket, np.int32))


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponedFixedBuckets:
    """As many buckets as `count` says a partition has: the bucket function over the bucket key. Source: `PostponeFixBucketProcessor`."""

    ctx: TableContext
    count: Callable[[bytes], int]

    def place(self, frame: pl.DataFrame) -> RoutedRows:
        """Every row in the bucket that its key has among those of its partition."""
        columns, types = key_columns(frame, bucket_fields(self.ctx))
        found = partitions.encode_partitions(frame, self.ctx)
        totals = np.array([self.count(partition) for partition in found.rows], np.int64)[found.codes]
        placed = np.zeros(frame.height, np.int32)
        for total in np.unique(totals):
            placed = np.where(totals == total, hashing.buckets(self.ctx.options.bucket_function_type, columns, types, int(total)), placed)
        return RoutedRows(frame, found, placed)


def postponed_count(ctx: TableContext, standing: SnapshotBuckets, partition: bytes) -> int:
    """How many buckets a partition of postponed rows has: as many as its first compaction chose, else as the option says."""
    return standing.bucket(partition, 0).total_buckets or ctx.options.postpone_default_bucket_num


def bucket_fields(ctx: TableContext) -> tuple[Field, ...]:
    """The columns whose values choose the bucket: those of `bucket-key`, else the trimmed primary key, else all."""
    names = ctx.schema.bucket_keys or ctx.schema.names
    try:
        return ctx.schema.fields_of(names)
    except ColumnNotFound as missing:
        raise InvalidOption(f"bucket-key of {ctx.name} names a column that is not there: {missing.message}", key="bucket-key") from None


def key_columns(frame: pl.DataFrame, fields: Sequence[Field]) -> tuple[list[pa.Array], list[DataType]]:
    """Columns of a frame as Arrow arrays, and their types."""
    return [frame[field.name].to_arrow() for field in fields], [field.type for field in fields]
