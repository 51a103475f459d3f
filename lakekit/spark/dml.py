"""Delete and update rows by Spark tasks: each looks through some buckets, the driver commits once.

    ls.delete(spark, table, "v IS NULL")          ls.update(spark, table, {"v": "v + 1"}, where="k < 7")

    driver    checks the statement; whole partitions, and everything, go without a task; plans which buckets have rows
    tasks     some buckets of that snapshot: rows are found and written by the code of `t.delete` and `t.update`,
              in full precision, in their buckets
    driver    `commit.committer`, once: where another commit changed the same files nothing changes, and the new
              files are deleted

The unit of work is a bucket; of append tables without buckets, whose deletion vectors lie together, a partition. A
condition that compares a row with others, and keys that may move between partitions, take one task.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lakekit.commit.committer import commit_changes_once
from lakekit.dml import delete_update as deleting, update as updating
from lakekit.dml.row_change import RowChange
from lakekit.maintenance import after_commit
from lakekit.spark import session, write_task
from lakekit.spark.batch_write import collected, handle_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from os import PathLike

    import polars as pl
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakekit.commit.result import Commit
    from lakekit.dml.row_change import RowChangeSpec
    from lakekit.table.table import Table
    from lakekit.write.table_writers import BucketId

_TASKS_A_SLOT = 4


def delete(spark: SparkSession, table_or_path: Table | str | PathLike[str], where: pl.Expr | str) -> Commit:
    """Delete rows by Spark tasks, in one commit, as `t.delete` does.

    `where` is read as `t.delete` reads it, whatever the session's zone: a timestamp without one is of UTC.

    Raises: as `t.delete`, and what Spark raises where a task failed too often.
    """
    session.check(spark)
    return _run_change(spark, deleting.statement(handle_of(table_or_path), where))


def update(
    spark: SparkSession,
    table_or_path: Table | str | PathLike[str],
    set: Mapping[str, Any],  # noqa: A002 - as in SQL
    /,
    *,
    where: pl.Expr | str,
) -> Commit:
    """Update rows by Spark tasks, in one commit, as `t.update` does.

    Raises: as `t.update`, and what Spark raises where a task failed too often.
    """
    session.check(spark)
    return _run_change(spark, updating.statement(handle_of(table_or_path), set, where))


def _run_change(spark: SparkSession, change: RowChangeSpec) -> Commit:
    ctx = change.ctx
    is_still = (
        change.replaces is not None or change.found.snapshot is None or change.found.always(change.where) is False
    )
    due_buckets = [] if is_still else change.found.places(change.where)
    if not due_buckets:
        changed = change.commit()
        return after_commit.maintain_after_commit(ctx, changed.commit, changed.messages)
    tasks = [
        json.dumps([(partition.hex(), bucket) for partition, bucket in bucket_ids]).encode()
        for bucket_ids in _parts(change, due_buckets, session.slots(spark))
    ]
    target = replace(change.found, ctx=replace(change.found.ctx, keeper=None))
    # a catalog may hold connections, and tasks commit nothing
    sent = replace(change, ctx=replace(ctx, keeper=None), found=target)
    messages = collected(ctx, session.run(spark, tasks, partial(_run_change_task, sent), write_task.ANSWER).collect())
    return after_commit.maintain_after_commit(
        ctx, commit_changes_once(ctx, messages, commit_user=ctx.new_commit_user()), messages
    )


def _parts(change: RowChangeSpec, bucket_ids: Sequence[BucketId], slots: int) -> list[list[BucketId]]:
    """Return the buckets of each task: a few tasks a slot, each of which plans the table again."""
    if not change.by_place or change.ctx.schema.cross_partition:
        return [list(bucket_ids)]
    groups: dict[object, list[BucketId]] = {}
    for bucket_id in bucket_ids:
        groups.setdefault(bucket_id if change.ctx.has_buckets else bucket_id[0], []).append(bucket_id)
    wanted = min(len(groups), max(1, slots) * _TASKS_A_SLOT)
    return [[bucket_id for group in list(groups.values())[at::wanted] for bucket_id in group] for at in range(wanted)]


def _run_change_task(spec: RowChangeSpec, task: bytes) -> Iterator[pa.RecordBatch]:
    """Run one task, and yield its answers.

    Raises: what the statement raises in these buckets; then no file of it is left.
    """
    bucket_ids = frozenset((bytes.fromhex(partition), bucket) for partition, bucket in json.loads(task))
    try:
        with RowChange.of(spec.ctx, only_adds=spec.only_adds) as change:
            spec.fill(change, replace(spec.found, some=bucket_ids))
            answers = write_task.encode_messages(change.prepare())
    except write_task.REPORTED_ERRORS as wrong:
        answers = write_task.encode_failure(wrong)
    yield from write_task.yield_answers(spec.ctx, answers)
