"""Divide a write among tasks of several processes; each bucket and key is handled by exactly one.

    task     (|partition hash| + residue) % tasks
    residue  fixed buckets       bucket % assigners
             dynamic, known key  the bucket in the hash index % assigners; new buckets of a task have its residue
             dynamic, new key    |key hash % assigners|

A `WriteParallelism` is made once, before any task runs, and names the snapshot whose hash index counts: every process
reads the same, however late it starts, and the commit refuses what another writer changed since. The reference chooses
buckets in one stage and writes them in the next. Here a task does both: if it runs again, it chooses again and writes
what it chose, so a lost attempt in between can never leave a key in two buckets.

Keys that may move between partitions are handled by one task, which knows the location of each.
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
    """How one write is divided among tasks.

    Attributes:
        tasks: number of tasks.
        assigners: how many assigners share the keys of a partition; at most `tasks`.
        snapshot_id: the snapshot from which every task restores bucket state; None if there is none.
    """

    tasks: int
    assigners: int
    snapshot_id: int | None = None

    @staticmethod
    def of(ctx: TableContext, *, parallelism: int, max_tasks: int, batch: bool) -> WriteParallelism | None:
        """Return how to divide a write.

        About `parallelism` tasks keep all cores busy, and `max_tasks` are possible. None: any task may take any row.
        `batch`: the write is one commit. Raises `InvalidOption` for a `bucket` option that the table cannot have.
        """
        count, newest = ctx.options.bucket, snapshots.latest(ctx)
        snapshot_id = None if newest is None else newest.id
        if batch and router.places_postponed(ctx):
            return WriteParallelism(tasks=parallelism, assigners=parallelism, snapshot_id=snapshot_id)
        match router.assigner(ctx):
            case CrossPartition():
                return WriteParallelism(tasks=1, assigners=1, snapshot_id=snapshot_id)
            case DynamicBuckets(rule=rule):
                task_count = ctx.options.dynamic_bucket_assigner_parallelism or max(
                    parallelism, ctx.options.dynamic_bucket_initial_buckets or 1
                )
                tasks = min(max(1, task_count), rule.most)
                return WriteParallelism(
                    tasks=tasks,
                    assigners=min(ctx.options.dynamic_bucket_initial_buckets or tasks, tasks),
                    snapshot_id=snapshot_id,
                )
            case FixedBuckets():
                tasks = max(1, min(max_tasks, max(count, parallelism) if ctx.schema.partition_keys else count))
                return WriteParallelism(tasks=tasks, assigners=tasks, snapshot_id=snapshot_id)
        return None

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


@dataclass(slots=True, kw_only=True)
class TaskRouter:
    """Assigns rows to tasks by the columns in `names`. `replaces`: an overwrite ignores existing keys."""

    ctx: TableContext
    cut: WriteParallelism
    names: tuple[str, ...]
    _buckets: FixedBuckets | PostponedFixedBuckets | DynamicBuckets | None

    @staticmethod
    def of(ctx: TableContext, cut: WriteParallelism, *, replaces: bool, batch: bool) -> TaskRouter:
        """Return the router for the writers of a divided write."""
        assigner: FixedBuckets | PostponedFixedBuckets | DynamicBuckets | None = None
        fields = ctx.schema.key_fields
        if batch and router.places_postponed(ctx):
            snapshot = None if cut.snapshot_id is None else snapshots.read(ctx, cut.snapshot_id)
            snapshot_buckets = SnapshotBuckets.of(ctx, snapshot)
            assigner = PostponedFixedBuckets(
                ctx=ctx, count=lambda partition: postponed_count(ctx, snapshot_buckets, partition)
            )
            fields = bucket_fields(ctx)
        elif cut.tasks > 1 and ctx.options.bucket > 0:
            assigner, fields = FixedBuckets(ctx=ctx), bucket_fields(ctx)
        elif cut.tasks > 1:
            assigner = DynamicBuckets.of(ctx, overwrite=replaces, shard=WriteShard(cut=cut))
        column_names = {field.name for field in (*fields, *ctx.schema.partition_fields)}
        return TaskRouter(
            ctx=ctx, cut=cut, names=tuple(name for name in ctx.schema.names if name in column_names), _buckets=assigner
        )

    def place(self, frame: pl.DataFrame) -> NDArray[np.int32]:
        """Return the number of each row's task; `frame` has at least the columns `names`, converted."""
        if self._buckets is None:
            return np.zeros(frame.height, np.int32)
        if isinstance(self._buckets, DynamicBuckets):
            row_partitions, hashes, known_buckets = self._buckets.find(frame)
            residues = np.where(
                known_buckets == UNKNOWN_BUCKET,
                hashing.default_bucket(hashes, self.cut.assigners),
                known_buckets % self.cut.assigners,
            )
        else:
            row_partitions = partitions.encode_partitions(frame, self.ctx)
            residues = self._buckets.place(frame).buckets % self.cut.assigners
        firsts = np.array([self.cut.first(row) for row in row_partitions.rows], np.int64)  # scalar: one a partition
        return ((firsts[row_partitions.codes] + residues) % self.cut.tasks).astype(np.int32)
