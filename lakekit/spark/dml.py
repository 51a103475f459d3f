"""Rows deleted and updated by Spark tasks: each looks through some buckets, the driver commits once.

    ls.delete(spark, table, "v IS NULL")          ls.update(spark, table, {"v": "v + 1"}, where="k < 7")

    driver    the statement is looked at; whole partitions, and everything, go without a task; where rows may be is asked of the planner
    tasks     some places of that snapshot: rows are found and written by the code of `t.delete` and `t.update`, in full precision, and stay where they lie
    driver    `commit.committer`, once: where another commit changed the same files nothing changes, and the new files go

A place is a bucket; of append tables without buckets, whose deletion vectors lie together, a partition. A condition that compares a row with others, and keys
that may move between partitions, take one task.
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
    """`t.delete` by Spark tasks, in one commit. Raises what it raises, and what Spark raises where a task failed too often.

    `where` is read as `t.delete` reads it, whatever the session's zone: a moment without one is of UTC.
    """
    session.check(spark)
    return _run_change(spark, deleting.statement(handle_of(table_or_path), where))


def update(spark: SparkSession, table_or_path: Table | str | PathLike[str], set: Mapping[str, Any], /, *, where: pl.Expr | str) -> Commit:  # noqa: A002 - as in SQL
    """`t.update` by Spark tasks, in one commit. Raises what it raises, and what Spark raises where a task failed too often."""
    session.check(spark)
    return _run_change(spark, updating.statement(handle_of(table_or_path), set, where))


def _run_change(spark: SparkSession, said: RowChangeSpec) -> Commit:
    ctx = said.ctx
    is_still = said.replaces is not None or said.found.snapshot is None or said.found.always(said.where) is False
    places = [] if is_still else said.found.places(said.where)
    if not places:
        changed = said.commit()
        return after_commit.maintain_after_commit(ctx, changed.commit, changed.messages)
    tasks = [json.dumps([(partition.hex(), bucket) for partition, bucket in some]).encode() for some in _parts(said, places, session.slots(spark))]
    found = replace(said.found, ctx=replace(said.found.ctx, keeper=None))
    sent = replace(said, ctx=replace(ctx, keeper=None), found=found)  # a catalog may hold connections, and tasks commit nothing
    messages = collected(ctx, session.run(spark, tasks, partial(_run_change_task, sent), write_task.ANSWER).collect())
    return after_commit.maintain_after_commit(ctx, commit_changes_once(ctx, messages, commit_user=ctx.new_commit_user()), messages)


def _parts(said: RowChangeSpec, places: Sequence[BucketId], slots: int) -> list[list[BucketId]]:
    """The places of each task: a few tasks a slot, each of which plans the table anew."""
    if not said.by_place or said.ctx.schema.cross_partition:
        return [list(places)]
    together: dict[object, list[BucketId]] = {}
    for place in places:
        together.setdefault(place if said.ctx.has_buckets else place[0], []).append(place)
    wanted = min(len(together), max(1, slots) * _TASKS_A_SLOT)
    return [[place for some in list(together.values())[at::wanted] for place in some] for at in range(wanted)]


def _run_change_task(said: RowChangeSpec, task: bytes) -> Iterator[pa.RecordBatch]:
    """One task. Raises what the statement raises in these places; then no file of it is left."""
    some = frozenset((bytes.fromhex(partition), bucket) for partition, bucket in json.loads(task))
    try:
        with RowChange.of(said.ctx, only_adds=said.only_adds) as change:
            said.fill(change, replace(said.found, some=some))
            answers = write_task.encode_messages(change.prepare())
    except write_task.REPORTED_ERRORS as wrong:
        answers = write_task.encode_failure(wrong)
    yield from write_task.yield_answers(said.ctx, answers)
