"""Routes of rows: to their buckets in order, and in a divided write to the task of each bucket.

    make_assigner(ctx, …)                   the bucket assigner of a table (ENGINE 7.1)
    split_by_bucket(frame, ctx, assigner)   ->   (partition, bucket, rows), (partition, bucket, rows), …

    task     (|partition hash| + residue) % tasks
    residue  fixed buckets       bucket % assigners
             dynamic, known key  the bucket in the hash index % assigners; new buckets of a task have its residue
             dynamic, new key    |key hash % assigners|

A `WriteParallelism` is made once, before any task runs, and names the snapshot whose hash index counts: every process
reads the same, however late it starts, and the commit refuses what another writer changed since. The reference chooses
buckets in one stage and writes them in the next. Here a task does both: if it runs again, it chooses again and writes
what it chose, so a lost attempt in between can never leave a key in two buckets. Keys that may move between partitions
are handled by one task, which knows the location of each.

Source: ENGINE.md 1.1 step 5 and 7; `RowKeyExtractor`, `TableWriteImpl`, `BucketAssigner`, `HashBucketAssigner`,
`PaimonSparkWriter`.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lakekit.bucket.restore import SnapshotBuckets
from lakekit.codec import hashing
from lakekit.columns import KIND
from lakekit.errors import InvalidOption, ValueOutOfRange
from lakekit.metadata import snapshots
from lakekit.model.data_file import KIND_TEXTS
from lakekit.model.table_paths import POSTPONE_BUCKET
from lakekit.write import bucket_assigners
from lakekit.write.bucket_assigners import (
    UNKNOWN_BUCKET,
    FixedBuckets,
    OneBucket,
    PostponedFixedBuckets,
    WriteParallelism,
    WriteShard,
    bucket_fields,
    check_partition_times,
    postponed_count,
)
from lakekit.write.cross_partition import CrossPartition
from lakekit.write.dynamic_bucket import MAX_BUCKET_COUNT, DynamicBuckets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.write.bucket_assigners import BucketAssigner


def make_assigner(
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
        return CrossPartition.for_table(ctx, overwrite=overwrite)
    if count == -1:
        return DynamicBuckets.for_table(ctx, overwrite=overwrite, shard=shard)
    raise InvalidOption(
        f"{ctx.name} has the option bucket={count}; there are numbers above 0, -1 and, with a primary key, -2 "
        "(postponed)",
        key="bucket",
    )


def assigns_postponed_rows(ctx: TableContext) -> bool:
    """Return whether a batch puts postponed rows into buckets at once.

    The default of the engines is true; their core, whose writers get no option, postpones, as here.
    """
    options = ctx.options
    is_enabled = "postpone.batch-write-fixed-bucket" in options.texts and options.postpone_batch_write_fixed_bucket
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
        else bucket == POSTPONE_BUCKET or 0 <= bucket < MAX_BUCKET_COUNT
    )
    if not exists:
        raise InvalidOption(
            f"there is no bucket {bucket!r} in {ctx.name}, whose option bucket is {count}",
            key="bucket",
            value=str(bucket),
        )
    return bucket


def split_by_bucket(
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
    routed = assigner.assign(frame)
    rows, (partitions, codes), buckets = routed
    check_partition_times(ctx, partitions)
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


# ---- shares ------------------------------------------------------------


def divide_write(ctx: TableContext, *, parallelism: int, max_tasks: int, batch: bool) -> WriteParallelism | None:
    """Return how to divide a write.

    About `parallelism` tasks keep all cores busy, and `max_tasks` are possible. None: any task may take any row.
    `batch`: the write is one commit. Raises `InvalidOption` for a `bucket` option that the table cannot have.
    """
    count, newest = ctx.options.bucket, snapshots.latest(ctx)
    snapshot_id = None if newest is None else newest.id
    if batch and assigns_postponed_rows(ctx):
        return WriteParallelism(tasks=parallelism, assigners=parallelism, snapshot_id=snapshot_id)
    match make_assigner(ctx):
        case CrossPartition():
            return WriteParallelism(tasks=1, assigners=1, snapshot_id=snapshot_id)
        case DynamicBuckets(rule=rule):
            task_count = ctx.options.dynamic_bucket_assigner_parallelism or max(
                parallelism, ctx.options.dynamic_bucket_initial_buckets or 1
            )
            tasks = min(max(1, task_count), rule.max_buckets)
            return WriteParallelism(
                tasks=tasks,
                assigners=min(ctx.options.dynamic_bucket_initial_buckets or tasks, tasks),
                snapshot_id=snapshot_id,
            )
        case FixedBuckets():
            tasks = max(1, min(max_tasks, max(count, parallelism) if ctx.schema.partition_keys else count))
            return WriteParallelism(tasks=tasks, assigners=tasks, snapshot_id=snapshot_id)
    return None


@dataclass(slots=True, kw_only=True)
class TaskRouter:
    """Assigns rows to tasks by the columns in `column_names`. `replaces`: an overwrite ignores existing keys."""

    ctx: TableContext
    parallelism: WriteParallelism
    column_names: tuple[str, ...]
    _buckets: FixedBuckets | PostponedFixedBuckets | DynamicBuckets | None

    @staticmethod
    def of(ctx: TableContext, parallelism: WriteParallelism, *, replaces: bool, batch: bool) -> TaskRouter:
        """Return the router for the writers of a divided write."""
        assigner: FixedBuckets | PostponedFixedBuckets | DynamicBuckets | None = None
        fields = ctx.schema.key_fields
        if batch and assigns_postponed_rows(ctx):
            snapshot = (
                None if parallelism.snapshot_id is None else snapshots.read_snapshot(ctx, parallelism.snapshot_id)
            )
            snapshot_buckets = SnapshotBuckets.at_snapshot(ctx, snapshot)
            assigner = PostponedFixedBuckets(
                ctx=ctx, bucket_count=lambda partition: postponed_count(ctx, snapshot_buckets, partition)
            )
            fields = bucket_fields(ctx)
        elif parallelism.tasks > 1 and ctx.options.bucket > 0:
            assigner, fields = FixedBuckets(ctx=ctx), bucket_fields(ctx)
        elif parallelism.tasks > 1:
            assigner = DynamicBuckets.for_table(ctx, overwrite=replaces, shard=WriteShard(parallelism=parallelism))
        column_names = {field.name for field in (*fields, *ctx.schema.partition_fields)}
        return TaskRouter(
            ctx=ctx,
            parallelism=parallelism,
            column_names=tuple(name for name in ctx.schema.names if name in column_names),
            _buckets=assigner,
        )

    def task_numbers(self, frame: pl.DataFrame) -> NDArray[np.int32]:
        """Return the number of each row's task; `frame` has at least the columns `column_names`, converted."""
        if self._buckets is None:
            return np.zeros(frame.height, np.int32)
        if isinstance(self._buckets, DynamicBuckets):
            row_partitions, hashes, known_buckets = self._buckets.look_up(frame)
            residues = np.where(
                known_buckets == UNKNOWN_BUCKET,
                hashing.default_bucket(hashes, self.parallelism.assigners),
                known_buckets % self.parallelism.assigners,
            )
        else:
            row_partitions = bucket_assigners.encode_partitions(frame, self.ctx)
            residues = self._buckets.assign(frame).buckets % self.parallelism.assigners
        firsts = np.array(
            [self.parallelism.first(row) for row in row_partitions.partition_rows], np.int64
        )  # scalar: one a partition
        return ((firsts[row_partitions.codes] + residues) % self.parallelism.tasks).astype(np.int32)
