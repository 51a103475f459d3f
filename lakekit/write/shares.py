"""A write cut into tasks of several processes: every bucket, and every key, is met by exactly one of them.

    task     (|partition hash| + residue) % tasks
    residue  fixed buckets       bucket % assigners
             dynamic, known key  the bucket that the hash index names % assigners; the new buckets of a task have its residue
             dynamic, new key    |key hash % assigners|

A `WriteParallelism` is made once, before any task runs, and names the snapshot whose hash index counts: every process reads the same, however late
it starts, and the commit
refuses what another writer changed since. The reference chooses buckets in one stage and writes them in the next. Here a task does both: run again, it chooses
anew and writes what it chose, so that an attempt that was lost in between can never leave a key in two buckets.

Keys that may move between partitions are met by one task, which knows where each lies.
Source: ENGINE.md 7.3; `BucketAssigner`, `HashBucketAssigner`, `PaimonSparkWriter`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lakekit.bucket.restore import SnapshotBuckets
from lakekit.codec import binary_row, hashing
from lakekit.metadata import snapshots
from lakekit.write import partitions, router
from lakekit.write.bucket_assigners import FixedBuckets, PostponedFixedBuckets, bucket_fields, postponed_count
from lakekit.write.cross_partition import CrossPartition
from lakekit.write.dynamic_bucket import DynamicBuckets
from lakekit.write.key_hashes import UNKNOWN_BUCKET

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteParallelism:
    """Into how many `tasks`; `assigners`, at most as many, share the keys of a partition. `snapshot_id`: what all of them go by; None: there was none."""

    tasks: int
    assigners: int
    snapshot_id: int | None = None

    @staticmethod
    def of(ctx: TableContext, *, parallelism: int, most: int, batch: bool) -> WriteParallelism | None:
        """How a write is cut where about `parallelism` tasks keep all cores busy and there may be `most`. None: any task may take any row.

        `batch`: of one commit, as `Writers` has it. Raises `InvalidOption` for a `bucket` option that the table cannot have.
        """
        count, newest = ctx.options.bucket, snapshots.latest(ctx)
        known = None if newest is None else newest.id
        if batch and router.places_postponed(ctx):
            return WriteParallelism(tasks=parallelism, assigners=parallelism, snapshot_id=known)
        match router.assigner(ctx):
            case CrossPartition():
                return WriteParallelism(tasks=1, assigners=1, snapshot_id=known)
            case DynamicBuckets(rule=rule):
                wanted = ctx.options.dynamic_bucket_assigner_parallelism or max(parallelism, ctx.options.dynamic_bucket_initial_buckets or 1)
                tasks = min(max(1, wanted), rule.most)
                return WriteParallelism(tasks=tasks, assigners=min(ctx.options.dynamic_bucket_initial_buckets or tasks, tasks), snapshot_id=known)
            case FixedBuckets():
                tasks = max(1, min(most, max(count, parallelism) if ctx.schema.partition_keys else count))
                return WriteParallelism(tasks=tasks, assigners=tasks, snapshot_id=known)
        return None

    def first(self, partition: bytes) -> int:
        """The task that the residue 0 of a partition belongs to: partitions with few buckets are spread over the tasks."""
        return abs(hashing.hash_bytes(binary_row.strip_arity(partition)[1])) % self.tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteShard:
    """What one task of a cut meets; `task` None: everything."""

    cut: WriteParallelism
    task: int | None = None

    def residue(self, partition: bytes) -> int | None:
        """The residue of this task's buckets in a partition, None for all. Where the task meets no row of the partition, no bucket has it."""
        return None if self.task is None else (self.task - self.cut.first(partition)) % self.cut.tasks

    def meets(self, partition: bytes, bucket: int) -> bool:
        """Whether a bucket is one of this task's."""
        wanted = self.residue(partition)
        return wanted is None or bucket % self.cut.assigners == wanted


@dataclass(slots=True, kw_only=True)
class TaskRouter:
    """Tells rows the task that meets them, by those columns of theirs that `names` lists. `replaces`: an overwrite takes no notice of what is there."""

    ctx: TableContext
    cut: WriteParallelism
    names: tuple[str, ...]
    _buckets: FixedBuckets | PostponedFixedBuckets | DynamicBuckets | None

    @staticmethod
    def of(ctx: TableContext, cut: WriteParallelism, *, replaces: bool, batch: bool) -> TaskRouter:
        """For the writers of a cut."""
        found: FixedBuckets | PostponedFixedBuckets | DynamicBuckets | None = None
        fields = ctx.schema.key_fields
        if batch and router.places_postponed(ctx):
            snapshot = None if cut.snapshot_id is None else snapshots.read(ctx, cut.snapshot_id)
            standing = SnapshotBuckets.of(ctx, snapshot)
            found = PostponedFixedBuckets(ctx=ctx, count=lambda partition: postponed_count(ctx, standing, partition))
            fields = bucket_fields(ctx)
        elif cut.tasks > 1 and ctx.options.bucket > 0:
            found, fields = FixedBuckets(ctx=ctx), bucket_fields(ctx)
        elif cut.tasks > 1:
            found = DynamicBuckets.of(ctx, overwrite=replaces, share=WriteShard(cut=cut))
        wanted = {field.name for field in (*fields, *ctx.schema.partition_fields)}
        return TaskRouter(ctx=ctx, cut=cut, names=tuple(name for name in ctx.schema.names if name in wanted), _buckets=found)

    def place(self, frame: pl.DataFrame) -> NDArray[np.int32]:
        """The number of each row's task; `frame` has at least those columns, as `conform` gives them."""
        if self._buckets is None:
            return np.zeros(frame.height, np.int32)
        if isinstance(self._buckets, DynamicBuckets):
            found, hashes, known = self._buckets.find(frame)
            residues = np.where(known == UNKNOWN_BUCKET, hashing.default_bucket(hashes, self.cut.assigners), known % self.cut.assigners)
        else:
            found = partitions.encode_partitions(frame, self.ctx)
            residues = self._buckets.place(frame).buckets % self.cut.assigners
        firsts = np.array([self.cut.first(row) for row in found.rows], np.int64)  # scalar: one a partition
        return ((firsts[found.codes] + residues) % self.cut.tasks).astype(np.int32)
