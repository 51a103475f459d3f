"""Route rows to their buckets: one frame in, one frame out for each (partition, bucket).

Rows stay in order.

    assigner(ctx, …)                        the bucket assigner of a table (ENGINE 7.1)
    split(frame, ctx, assigner)   ->   (partition, bucket, rows), (partition, bucket, rows), …

Source: ENGINE.md 1.1 step 5 and 7; `RowKeyExtractor`, `TableWriteImpl`.
"""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lakekit.columns import KIND
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


def assigner(
    ctx: TableContext, *, bucket: int | None = None, overwrite: bool = False, shard: WriteShard | None = None
) -> BucketAssigner:
    """Return the bucket assigner of a table.

    `bucket`: the caller's choice; an `overwrite` ignores where keys are now. `shard`: in a write divided into tasks,
    the buckets that this task handles.

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
        return DynamicBuckets.of(ctx, overwrite=overwrite, shard=shard)
    raise InvalidOption(
        f"{ctx.name} has the option bucket={count}; there are numbers above 0, -1 and, with a primary key, -2 "
        "(postponed)",
        key="bucket",
    )


def places_postponed(ctx: TableContext) -> bool:
    """Return whether a batch puts postponed rows into buckets at once.

    The default of the engines is true; their core, whose writers get no option, postpones, as here.
    """
    options = ctx.options
    is_enabled = "postpone.batch-write-fixed-bucket" in options.given and options.postpone_batch_write_fixed_bucket
    return is_enabled and options.bucket == POSTPONE_BUCKET and ctx.kind == "key"


def _check_bucket(ctx: TableContext, bucket: int) -> int:
    count = ctx.options.bucket
    if count == -1 and ctx.kind == "key":
        raise InvalidOption(
            f"the buckets of {ctx.name} follow from where its keys lie (option bucket is -1); leave bucket={bucket} "
            "out",
            key="bucket",
        )
    is_number = isinstance(bucket, Integral) and not isinstance(bucket, bool)
    exists = is_number and (
        0 <= bucket < count
        if count > 0
        else bucket == 0
        if count == -1
        else bucket == POSTPONE_BUCKET or 0 <= bucket < MOST_BUCKETS
    )
    if not exists:
        raise InvalidOption(
            f"there is no bucket {bucket!r} in {ctx.name}, whose option bucket is {count}",
            key="bucket",
            value=str(bucket),
        )
    return bucket


def split(
    frame: pl.DataFrame, ctx: TableContext, assigner: BucketAssigner
) -> Iterator[tuple[bytes, int, pl.DataFrame]]:
    """Yield the rows of each (partition, bucket) in order; the partition serialized with its arity.

    One stable sort of bucket codes, one gather of the rows, then slices. Raises `ValueOutOfRange` for a -U or -D row in
    an append table.
    """
    if ctx.kind == "append" and KIND in frame.columns:
        frame = _drop_kinds(frame, ctx)
    if not frame.height:
        return
    routed = assigner.place(frame)
    rows, (partitions, codes), buckets = routed
    check_times(ctx, partitions)
    if not rows.height:
        return
    low, high = int(buckets.min()), int(buckets.max())
    if low == high and len(partitions) == 1:
        yield partitions[0], low, rows
        return
    bucket_codes = codes * (high - low + 1) + (buckets - low)
    numbers, order = _sort_places(bucket_codes, len(partitions) * (high - low + 1))
    if order is not None:
        rows = rows[pl.Series(order)]
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    ends = np.append(starts[1:], len(numbers))
    for start, end, number in zip(starts, ends, numbers[starts], strict=True):
        code, offset = divmod(int(number), high - low + 1)
        yield partitions[code], low + offset, rows.slice(int(start), int(end - start))


def _sort_places(codes: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Return the codes sorted, and the row order; None if they are sorted already.

    Few codes are sorted as two-byte numbers, for which numpy uses a radix sort.
    """
    if len(codes) < 2 or bool((codes[1:] >= codes[:-1]).all()):
        return codes, None
    order = np.argsort(codes.astype(np.uint16) if count <= 1 << 16 else codes, kind="stable")
    return codes[order], order


def _drop_kinds(frame: pl.DataFrame, ctx: TableContext) -> pl.DataFrame:
    kinds = frame[KIND]
    retracts = kinds.is_in([1, 3])
    if retracts.any():
        at = int(retracts.alias("").arg_true()[0])
        raise ValueOutOfRange(
            f"row {at}: {ctx.name} is an append table, which takes +I and +U rows and not {KIND_TEXTS[kinds[at]]}",
            column=KIND,
        )
    return frame.drop(KIND)
