"""Rows to their buckets: one frame in, one frame out for every (partition, bucket) in it, rows in the order they came.

    assigner(handle, …)                        how this table's rows find their buckets (ENGINE 7.1)
    split(frame, handle, assigner)   ->   (partition, bucket, rows), (partition, bucket, rows), …

Source: ENGINE.md 1.1 step 5 and 7; `RowKeyExtractor`, `TableWriteImpl`.
"""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lakekit.bucket.merge_read import KIND
from lakekit.errors import InvalidOption, ValueOutOfRange
from lakekit.model.row_kind import KIND_TEXTS
from lakekit.model.table_paths import POSTPONE_BUCKET
from lakekit.write.bucket_assigners import FixedBuckets, OneBucket
from lakekit.write.cross_partition import CrossPartition
from lakekit.write.dynamic_bucket import MOST_BUCKETS, DynamicBuckets
from lakekit.write.partitions import check_times

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.write.bucket_assigners import BucketAssigner
    from lakekit.write.shares import WriteShard


def assigner(ctx: TableContext, *, bucket: int | None = None, overwrite: bool = False, share: WriteShard | None = None) -> BucketAssigner:
    """How the rows of a table find their buckets. `bucket`: the caller's word; an `overwrite` does not look at where keys lie now.

    `share`: of a write that is cut into tasks, which of its buckets are met here.

    Raises `InvalidOption` for a `bucket` option that the table cannot have.
    """
    count = ctx.options.bucket
    if bucket is not None:
        return OneBucket(ctx=ctx, bucket=_check_bucket(ctx, bucket))
    if count == POSTPONE_BUCKET and ctx.kind == "key":
        return OneBucket(ctx=ctx, bucket=POSTPONE_BUCKET)
    if count > 0:
        return FixedBuckets(ctx=ctx)
    if count == -1 and ctx.kind == "append":
        return OneBucket(ctx=ctx)
    if count == -1 and ctx.schema.cross_partition:
        return CrossPartition.of(ctx, overwrite=overwrite)
    if count == -1:
        return DynamicBuckets.of(ctx, overwrite=overwrite, share=share)
    raise InvalidOption(f"{ctx.name} has the option bucket={count}; there are numbers above 0, -1 and, with a primary key, -2 (postponed)", key="bucket")


def places_postponed(ctx: TableContext) -> bool:
    """Whether a batch does not postpone its rows. The engines' own default is true; their core, whose writers are asked for nothing, postpones, as here."""
    options = ctx.options
    said = "postpone.batch-write-fixed-bucket" in options.given and options.postpone_batch_write_fixed_bucket
    return said and options.bucket == POSTPONE_BUCKET and ctx.kind == "key"


def _check_bucket(ctx: TableContext, bucket: int) -> int:
    count = ctx.options.bucket
    if count == -1 and ctx.kind == "key":
        raise InvalidOption(f"the buckets of {ctx.name} follow from where its keys lie (option bucket is -1); leave bucket={bucket} out", key="bucket")
    is_number = isinstance(bucket, Integral) and not isinstance(bucket, bool)
    there = is_number and (0 <= bucket < count if count > 0 else bucket == 0 if count == -1 else bucket == POSTPONE_BUCKET or 0 <= bucket < MOST_BUCKETS)
    if not there:
        raise InvalidOption(f"there is no bucket {bucket!r} in {ctx.name}, whose option bucket is {count}", key="bucket", value=str(bucket))
    return bucket


def split(frame: pl.DataFrame, ctx: TableContext, assigner: BucketAssigner) -> Iterator[tuple[bytes, int, pl.DataFrame]]:
    """The rows of each (partition, bucket), in the order they came; the partition as manifests serialize it, with its arity.

    One stable sort of the places, one gather of the rows, and slices of that. Raises `ValueOutOfRange` for a row that takes away from an append table.
    """
    if ctx.kind == "append" and KIND in frame.columns:
        frame = _drop_kinds(frame, ctx)
    if not frame.height:
        return
    placed = assigner.place(frame)
    rows, (partitions, codes), buckets = placed
    check_times(ctx, partitions)
    if not rows.height:
        return
    low, high = int(buckets.min()), int(buckets.max())
    if low == high and len(partitions) == 1:
        yield partitions[0], low, rows
        return
    place = codes * (high - low + 1) + (buckets - low)
    numbers, order = _sort_places(place, len(partitions) * (high - low + 1))
    if order is not None:
        rows = rows[pl.Series(order)]
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    ends = np.append(starts[1:], len(numbers))
    for start, end, number in zip(starts, ends, numbers[starts], strict=True):
        code, offset = divmod(int(number), high - low + 1)
        yield partitions[code], low + offset, rows.slice(int(start), int(end - start))


def _sort_places(place: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Places in order and the rows in that order; None where they are so already. Few places sort as two byte numbers, which numpy does by their digits."""
    if len(place) < 2 or bool((place[1:] >= place[:-1]).all()):
        return place, None
    order = np.argsort(place.astype(np.uint16) if count <= 1 << 16 else place, kind="stable")
    return place[order], order


def _drop_kinds(frame: pl.DataFrame, ctx: TableContext) -> pl.DataFrame:
    kinds = frame[KIND]
    retracts = kinds.is_in([1, 3])
    if retracts.any():
        at = int(retracts.alias("").arg_true()[0])
        raise ValueOutOfRange(f"row {at}: {ctx.name} is an append table, which takes +I and +U rows and not {KIND_TEXTS[kinds[at]]}", column=KIND)
    return frame.drop(KIND)
