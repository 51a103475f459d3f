"""Compact a table by Spark tasks: each takes some buckets, the driver commits once.

ls.compact(spark, table, full=True)

driver    `maintenance.compact` says which buckets of the newest snapshot are looked at
tasks     some buckets a task, one after the other: as many tasks as run at once, more where a task would have much
          to do again after a failure; where rows are sorted, or compaction goes by partition, a partition; of append
          tables without buckets the files that become one
driver    `commit.committer`, once: where another compaction was faster nothing changes, and the new files are deleted
"""

from __future__ import annotations

import heapq
import json
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lakekit.bucket.restore import SnapshotBuckets
from lakekit.commit import abort
from lakekit.commit.committer import commit_changes_once
from lakekit.errors import LakekitError
from lakekit.maintenance import after_commit, append_files, compact as caring, rewrite, sort_compact
from lakekit.metadata import snapshots
from lakekit.model.commit_message import CommitMessage
from lakekit.spark import pieces, session
from lakekit.spark.batch_write import handle_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from os import PathLike

    import polars as pl
    from pyspark.sql import SparkSession

    from lakekit.bucket.sort_order import Strategy
    from lakekit.commit.result import Commit
    from lakekit.maintenance.compact import CompactRequest
    from lakekit.maintenance.sort_compact import SortedPartitions
    from lakekit.metadata.table_context import TableContext
    from lakekit.spark.pieces import Work
    from lakekit.table.table import Table
    from lakekit.write.table_writers import BucketId


TASK_BYTES = 128 << 20
"""The size of a task's buckets, if there are more than the tasks that run at once would finish in one go."""


def compact(
    spark: SparkSession,
    table_or_path: Table | str | PathLike[str],
    *,
    full: bool = False,
    where: pl.Expr | str | None = None,
    order_by: str | Sequence[str] | None = None,
    strategy: Strategy = "order",
) -> Commit:
    """Compact a table by Spark tasks, in one commit, as `t.compact` does.

    Each bucket gets what its levels ask for, or, with `full`, every bucket goes to its highest level. `where`,
    `order_by`, `strategy` are as in `t.compact`; of tables that are sorted or clustered a partition is one task.
    Writers that only add files (`write-only`) may run meanwhile, but not where keys are sorted.

    Raises: `InvalidOption`; `Conflict` where another compaction, or such a writer, was faster; what compacting raised
    in a task, as `Corrupt`: nothing changed, and no file of any task is left; and what Spark raises where a task died
    too often.
    """
    session.check(spark)
    ctx = handle_of(table_or_path)
    job = caring.compact_request(ctx, full=full, where=where, order_by=order_by, strategy=strategy)
    if job.order is not None and ctx.kind == "key":
        if rewrite.waits_for_compaction(job.ctx):
            compact(spark, table_or_path, full=True, where=where)
        return after_commit.maintain_after_commit(
            job.ctx, _sort_keys(spark, sort_compact.keys(job.ctx, job.order, where))
        )
    newest = snapshots.latest(job.ctx)
    current = SnapshotBuckets.of(job.ctx, newest)
    tasks = (
        []
        if newest is None
        else list(_tasks(job, current, caring.due_buckets(job, current, where), session.slots(spark)))
    )
    sent = replace(job, ctx=replace(job.ctx, keeper=None))  # a catalog may hold connections, and tasks commit nothing
    messages = _run_tasks(spark, job.ctx, tasks, partial(_compact_task, sent))
    return after_commit.maintain_after_commit(
        job.ctx, commit_changes_once(job.ctx, messages, commit_user=job.commit_user)
    )


def _sort_keys(spark: SparkSession, job: SortedPartitions) -> Commit:
    """Sort the partitions of a key table, one a task: its buckets fill in order, as in one process."""
    sent = replace(job, ctx=replace(job.ctx, keeper=None), partitions=())
    return job.commit(_run_tasks(spark, job.ctx, job.partitions, partial(_sort_partition, sent)))


def _run_tasks(spark: SparkSession, ctx: TableContext, tasks: Sequence[bytes], work: Work) -> list[CommitMessage]:
    """Return the messages of all tasks.

    Raises: what one of them raised; then the files of the others are deleted.
    """
    answers, wrong = pieces.answers(spark, tasks, work)
    messages = [CommitMessage.from_bytes(data) for data in answers]
    if wrong is not None:
        with suppress(LakekitError):  # what cannot be deleted is left to the cleaning of orphans
            abort.abort(ctx, messages)
        raise wrong
    return messages


def _sort_partition(job: SortedPartitions, partition: bytes) -> Iterator[bytes]:
    return _yield_messages(job.ctx, sort_compact.write_sorted_partitions(job, [partition]))


def _yield_messages(ctx: TableContext, messages: Sequence[CommitMessage]) -> Iterator[bytes]:
    """Yield messages as bytes; where they are not taken, their files are deleted."""
    try:
        yield from (message.to_bytes() for message in messages)
    except BaseException:
        with suppress(LakekitError):
            abort.abort(ctx, messages)
        raise


def _tasks(
    job: CompactRequest, current: SnapshotBuckets, bucket_ids: Sequence[BucketId], slots: int
) -> Iterator[bytes]:
    """Yield the input of each task: buckets of that snapshot, and of append tables which part of how many."""
    assert current.snapshot is not None
    snapshot_id = current.snapshot.id
    if not job.goes_by_partition:
        yield from (
            _encode_task(snapshot_id, task_buckets)
            for task_buckets in balance_tasks(
                {bucket_id: current.size_bytes(*bucket_id) for bucket_id in bucket_ids}, slots
            )
        )
        return
    if job.order is None and not job.ctx.has_buckets:
        if job.ctx.options.clustering_incremental:  # looks at partitions that nobody named, too
            yield _encode_task(snapshot_id, bucket_ids)
            return
        for bucket_id in sorted(bucket_ids):
            count = append_files.part_count(job.ctx, current.bucket(*bucket_id), full=job.full)
            yield from (_encode_task(snapshot_id, [bucket_id], (number, count)) for number in range(count))
        return
    for partition in sorted({partition for partition, _ in bucket_ids}):
        yield _encode_task(snapshot_id, [bucket_id for bucket_id in bucket_ids if bucket_id[0] == partition])


def balance_tasks(sizes: Mapping[BucketId, int], slots: int) -> list[list[BucketId]]:
    """Return the buckets grouped into tasks of about the same size in bytes, the biggest task first.

    The biggest bucket goes first, each to the task that has least.
    """
    count = min(len(sizes), max(1, slots, -(-sum(sizes.values()) // TASK_BYTES)))
    tasks: list[tuple[int, int, list[BucketId]]] = [(0, number, []) for number in range(count)]
    for bucket_id in sorted(sizes, key=lambda bucket_id: (-sizes[bucket_id], bucket_id)):
        size_bytes, number, bucket_ids = tasks[0]
        bucket_ids.append(bucket_id)
        heapq.heapreplace(tasks, (size_bytes + sizes[bucket_id], number, bucket_ids))
    return [sorted(bucket_ids) for _, _, bucket_ids in sorted(tasks, key=lambda task: (-task[0], task[1]))]


def _encode_task(snapshot_id: int, bucket_ids: Sequence[BucketId], part: tuple[int, int] = (0, 1)) -> bytes:
    return json.dumps(
        {
            "snapshot": snapshot_id,
            "places": [(partition.hex(), bucket) for partition, bucket in bucket_ids],
            "share": part,
        }
    ).encode()


def _compact_task(job: CompactRequest, task: bytes) -> Iterator[bytes]:
    """Yield the messages of a task.

    Raises: what compacting raises; then no file of it is left.
    """
    decoded = json.loads(task)
    current = SnapshotBuckets.of(job.ctx, snapshots.read(job.ctx, decoded["snapshot"]))
    bucket_ids = [(bytes.fromhex(partition), bucket) for partition, bucket in decoded["places"]]
    number, count = decoded["share"]
    return _yield_messages(job.ctx, caring.messages(job, current, bucket_ids, shard=(number, count)))
