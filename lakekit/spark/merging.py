"""Merge rows of a DataFrame into a table by Spark tasks, with one commit in the driver.

    ls.merge(spark, table, df, lk.when_matched(update="all"), lk.when_not_matched(), on=["k"])

    driver    checks clauses, conditions and columns as `t.merge` does; the table's buckets, or files, become groups
    tasks     rows of the source go to the groups whose rows they can match: where the match names the columns that
              decide a row's bucket these give the group; else they are first joined with the target's columns
    tasks     a group each: `dml.merge` with the rows that came
    driver    `commit.committer`, once

Each task holds the rows of the source that are for its groups, and the match's columns of what it joins: as much as a
share of a hash join. A match without an equality of whole numbers, texts, dates or booleans is joined by one task. Of
append tables without buckets a group is some of the files, with deletion vectors partitions; keys that may move between
partitions take one task.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions, types as spark_types

from lakekit.columns import col
from lakekit.commit import committer as publishing
from lakekit.dml import merge as merging, merge_plan as plans
from lakekit.dml.matching_rows import TargetRows
from lakekit.maintenance import after_commit
from lakekit.metadata import feature_check
from lakekit.spark import merge_task, session, types, write_task
from lakekit.spark.batch_write import collected, handle_of
from lakekit.spark.merge_task import FROM_SOURCE, LETTER, OF, TO, BucketGroups, MergeJob
from lakekit.types import MAX_LENGTH

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    import polars as pl
    from pyspark.sql import DataFrame, SparkSession

    from lakekit.commit.result import Commit
    from lakekit.dml.merge_clauses import Clause
    from lakekit.dml.merge_plan import MergePlan
    from lakekit.metadata.table_context import TableContext
    from lakekit.table.table import Table

_TASKS_A_SLOT = 4
_DIRECT_TYPES = {"TINYINT", "SMALLINT", "INT", "BIGINT", "VARCHAR", "DATE", "BOOLEAN"}


def merge(
    spark: SparkSession,
    table_or_path: Table | str | PathLike[str],
    source: DataFrame,
    *clauses: Clause,
    on: Sequence[str] | pl.Expr | str,
) -> Commit:
    """Merge rows by Spark tasks, in one commit: the clauses of `t.merge`, with a Spark DataFrame.

    The source is computed once. Among its rows that are inserted with one key only a sequence field says which is the
    newer one. A TIME of the source may be a number of milliseconds, as `ls.read` returns it.

    Raises: what `t.merge` raises, `MergeConflict` among it; `TypeError` for a source that is no DataFrame of Spark; and
    what Spark raises where a task failed too often. After an error nothing was changed.
    """
    session.check(spark)
    if not hasattr(source, "mapInArrow"):
        msg = (
            f"ls.merge takes a DataFrame of Spark as its source, not {type(source).__name__}: t.merge takes rows that "
            "are in memory"
        )
        raise TypeError(msg)
    ctx = handle_of(table_or_path)
    feature_check.check_writable(ctx)
    arrow = pa.schema([pa.field(field.name, _arrow(field)) for field in source.schema])
    nothing = write_task.convert_times(
        pa.RecordBatch.from_arrays([pa.array([], field.type) for field in arrow], schema=arrow), ctx
    )
    job = _job(spark, ctx, merging.plan_merge(ctx, nothing, clauses, on), source.columns, arrow)
    messages = collected(ctx, _answers(spark, job, source).collect())
    return after_commit.maintain_after_commit(
        ctx, publishing.commit_changes_once(ctx, messages, commit_user=ctx.new_commit_user()), messages
    )


def _arrow(field: spark_types.StructField) -> pa.DataType:
    is_null = isinstance(field.dataType, spark_types.NullType)
    return pa.null() if is_null else types.arrow_type(types.paimon_type(field.dataType, field.name))


def _job(spark: SparkSession, ctx: TableContext, plan: MergePlan, columns: Sequence[str], arrow: pa.Schema) -> MergeJob:
    """Return the job of the tasks: the newest snapshot, its buckets in groups."""
    target = TargetRows.at_newest(ctx)
    slots = session.slots(spark)
    wanted, most = max(1, slots) * _TASKS_A_SLOT, max(1, int(spark.conf.get("spark.sql.shuffle.partitions") or 1))
    groups = BucketGroups.of(ctx, slots=slots, parallelism=wanted, most=most)
    places: list[set[tuple[bytes, int]]] = [set() for _ in range(groups.count)]
    if target.snapshot is not None and not groups.by_file:
        for bucket_id in target.places(None if plan.not_matched_by_source else plans.target_columns_used(plan, ctx)):
            places[groups.of_place(*bucket_id)].add(bucket_id)
    job = MergeJob(
        ctx=replace(ctx, keeper=None),  # a catalog may hold connections, and tasks commit nothing
        plan=plan,
        found=replace(target, ctx=replace(target.ctx, keeper=None)),
        groups=groups,
        places=tuple(frozenset(bucket_ids) for bucket_ids in places),
        columns=tuple(columns),
        arrow=arrow,
        addressed=1,
    )
    job = replace(job, addressed=wanted if job.addresses else 1)
    return replace(job, direct=_direct_columns(job))


def _direct_columns(job: MergeJob) -> tuple[tuple[str, str], ...] | None:
    """Return the source column for each column that decides a row's group; None where there is none.

    Matching rows must agree in it, and inserted rows take their value from it. Only types whose every value the table
    takes as it is: a value that a column does not take matches nothing, and could not be sent anywhere.
    """
    equal = plans.equal_columns(job.plan, job.ctx)
    theirs = job.plan.source.schema
    pairs = []
    for name in job.deciding:
        other, t = equal.get(name), job.ctx.schema.field(name).type
        if (
            other is None
            or theirs[other] != job.found.schema[name]
            or t.root not in _DIRECT_TYPES
            or t.length not in (None, MAX_LENGTH)
        ):
            return None
        for clause in job.plan.not_matched:
            inserted = next((expr for expr in clause.columns if expr.meta.output_name() == name), None)
            if inserted is None or not inserted.meta.undo_aliases().meta.eq(col(other)):
                return None
        pairs.append((name, other))
    return tuple(pairs) if pairs or job.groups.count == 1 else None


def _answers(spark: SparkSession, job: MergeJob, source: DataFrame) -> DataFrame:
    """Return the answers of the tasks that merge."""
    count = job.groups.count
    letters = source.toDF(*write_task.positional_names(len(job.columns))).mapInArrow(
        partial(merge_task.send_source_rows, job), LETTER
    )
    if job.direct is None:
        if job.found.snapshot is not None:
            tasks = [str(number).encode() for number in range(count) if job.groups.by_file or job.places[number]]
            letters = letters.unionAll(session.run(spark, tasks, partial(merge_task.send_target_rows, job), LETTER))
        letters = _repartition_letters(letters, job.addressed).mapInArrow(partial(merge_task.send_matches, job), LETTER)
    if job.plan.not_matched_by_source:  # groups that no row of the source is for have work, too
        each = (
            functions.col("id").cast("int").alias(TO),
            functions.lit(FROM_SOURCE).alias(OF),
            functions.lit(None).cast("binary").alias(merge_task.DATA),
        )
        letters = letters.unionAll(spark.range(0, count, 1, 1).select(*each))
    return _repartition_letters(letters, count).mapInArrow(partial(merge_task.merge_groups, job), write_task.ANSWER)


def _repartition_letters(letters: DataFrame, count: int) -> DataFrame:
    """Return the letters with those of one address in one task.

    A task may have several addresses where Spark cannot be told the partition of a row, which it can from 4.1 on.
    """
    if count == 1:
        return letters.repartition(1)
    return letters.repartitionById(count, TO) if hasattr(letters, "repartitionById") else letters.repartition(count, TO)
