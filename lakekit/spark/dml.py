"""Rows deleted, updated and merged by Spark tasks, some buckets each; the driver commits once.

    ls.delete(spark, table, "v IS NULL")          ls.update(spark, table, {"v": "v + 1"}, where="k < 7")
    ls.merge(spark, table, df, lk.when_matched(update="all"), lk.when_not_matched(), on=["k"])

    driver    checks the statement; whole partitions, and everything, go without a task; plans which buckets have rows
    tasks     some buckets of that snapshot: rows are found and written by the code of `t.delete` and `t.update`,
              in full precision, in their buckets; of a merge, a group of buckets by `dml.merge`
    driver    `commit.committer`, once: where another commit changed the same files nothing changes, and the new
              files are deleted

The unit of work is a bucket; of append tables without buckets, whose deletion vectors lie together, a partition; of a
merge some of their files, or partitions with deletion vectors. A condition that compares a row with others, and keys
that may move between partitions, take one task.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql import functions, types as spark_types

from lakekit.codec import hashing
from lakekit.columns import GROUP, col, cols, select_by_name
from lakekit.commit import committer as publishing
from lakekit.dml import delete_update, merge as merging, merge_plan as plans
from lakekit.dml.matching_rows import TargetRows
from lakekit.dml.merge_plan import SOURCE_ROW
from lakekit.dml.row_change import RowChange
from lakekit.errors import MergeConflict, SchemaMismatch, ValueOutOfRange
from lakekit.maintenance import after_commit
from lakekit.metadata import table_context
from lakekit.read.user_expressions import MERGE_SOURCE_PREFIX, translate_compute_errors
from lakekit.spark import session, types, write_task
from lakekit.spark.batch_write import collect_messages, handle_of
from lakekit.types import MAX_LENGTH, parse
from lakekit.write import bucket_assigners, input_frames, row_conversion
from lakekit.write.bucket_assigners import WriteParallelism, WriteShard
from lakekit.write.router import TaskRouter, divide_write

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from os import PathLike

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from lakekit.commit.changes import Commit
    from lakekit.dml.merge_plan import Clause, MergePlan
    from lakekit.dml.row_change import RowChangeSpec
    from lakekit.metadata.table_context import TableContext
    from lakekit.table.table import Table
    from lakekit.write.table_writers import BucketId


_TASKS_A_SLOT = 4


def delete(spark: SparkSession, table_or_path: Table | str | PathLike[str], where: pl.Expr | str) -> Commit:
    """Delete rows by Spark tasks, in one commit, as `t.delete` does.

    `where` is read as `t.delete` reads it, whatever the session's zone: a timestamp without one is of UTC.

    Raises: as `t.delete`, and what Spark raises where a task failed too often.
    """
    session.check(spark)
    return _run_change(spark, delete_update.delete_spec(handle_of(table_or_path), where))


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
    return _run_change(spark, delete_update.update_spec(handle_of(table_or_path), set, where))


def _run_change(spark: SparkSession, change: RowChangeSpec) -> Commit:
    ctx = change.ctx
    is_still = (
        change.replaces is not None or change.target.snapshot is None or change.target.always(change.where) is False
    )
    due_buckets = [] if is_still else change.target.candidate_buckets(change.where)
    if not due_buckets:
        changed = change.commit()
        return after_commit.maintain_after_commit(ctx, changed.commit, changed.messages)
    tasks = [
        json.dumps([(partition.hex(), bucket) for partition, bucket in bucket_ids]).encode()
        for bucket_ids in _split_buckets(change, due_buckets, session.slots(spark))
    ]
    target = replace(change.target, ctx=replace(change.target.ctx, catalog_env=None))
    # a catalog may hold connections, and tasks commit nothing
    sent = replace(change, ctx=replace(ctx, catalog_env=None), target=target)
    return commit_answers(ctx, session.run(spark, tasks, partial(_run_change_task, sent), write_task.CHANGE_SCHEMA))


def commit_answers(ctx: TableContext, answers: DataFrame) -> Commit:
    """Run the tasks of a change, and commit what they answer, with the number of rows that they affected.

    Raises: the error that a task reported, `Conflict` where another commit changed the same files.
    """
    rows = answers.collect()
    messages = collect_messages(ctx, rows)
    commit = publishing.commit_changes_once(ctx, messages, commit_user=ctx.new_commit_user())
    commit = replace(
        commit, affected_row_count=sum(row[write_task.AFFECTED_COLUMN] or 0 for row in rows)
    )  # scalar: one a bucket
    return after_commit.maintain_after_commit(ctx, commit, messages)


def _split_buckets(change: RowChangeSpec, bucket_ids: Sequence[BucketId], slots: int) -> list[list[BucketId]]:
    """Return the buckets of each task: a few tasks a slot, each of which plans the table again."""
    if not change.by_bucket or change.ctx.schema.cross_partition:
        return [list(bucket_ids)]
    groups: dict[object, list[BucketId]] = {}
    for bucket_id in bucket_ids:
        groups.setdefault(bucket_id if change.ctx.has_buckets else bucket_id[0], []).append(bucket_id)
    wanted = min(len(groups), max(1, slots) * _TASKS_A_SLOT)
    return [[bucket_id for group in list(groups.values())[at::wanted] for bucket_id in group] for at in range(wanted)]


def _run_change_task(spec: RowChangeSpec, task: bytes) -> Iterator[pa.RecordBatch]:
    """Run one task, and yield its answers. If the statement raises, no file of it is left."""
    bucket_ids = frozenset((bytes.fromhex(partition), bucket) for partition, bucket in json.loads(task))
    try:
        with RowChange.of(spec.ctx, only_adds=spec.only_adds) as change:
            spec.fill(change, replace(spec.target, bucket_ids=bucket_ids))
            answers = write_task.encode_change(change)
    except write_task.REPORTED_ERRORS as wrong:
        answers = write_task.encode_error(wrong)
    yield from write_task.yield_answers(spec.ctx, answers)


# ---- merge task ------------------------------------------------------------


REPORTED_ERRORS = (*write_task.REPORTED_ERRORS, MergeConflict)
_HASHED_TYPE_OF_KIND = {"Int64": "BIGINT", "String": "STRING", "Date": "DATE", "Boolean": "BOOLEAN"}
"""Kinds of values that rows are addressed by, and the type they are hashed as."""


@dataclass(frozen=True, kw_only=True)
class BucketGroups:
    """The buckets of a table in groups, each of one task.

    `parallelism`: as a write is divided; without it by partition, or, with `by_file`, files in any order. Rows that are
    inserted have a group too: the one that has, or may make, their bucket.
    """

    group_count: int
    parallelism: WriteParallelism | None = None
    by_file: bool = False

    @staticmethod
    def of(ctx: TableContext, *, slots: int, parallelism: int, most: int) -> BucketGroups:
        """Return the groups of a table: those of a write with `slots` tasks at once, else about `parallelism`.

        Raises: what `WriteParallelism.of` raises.
        """
        cut = divide_write(ctx, parallelism=slots, max_tasks=most, batch=False)
        if cut is not None:
            return BucketGroups(group_count=cut.tasks, parallelism=cut)
        by_file = not ctx.has_buckets and not ctx.options.deletion_vectors_enabled
        return BucketGroups(
            group_count=max(1, parallelism) if by_file or ctx.schema.partition_keys else 1, by_file=by_file
        )

    def group_of_bucket(self, partition: bytes, bucket: int) -> int:
        """Return the group of a bucket. Not for groups of files."""
        if self.parallelism is not None:
            return (self.parallelism.first(partition) + bucket % self.parallelism.assigners) % self.parallelism.tasks
        return crc32(partition) % self.group_count

    def rows_of(self, target: TargetRows, bucket_ids: Sequence[frozenset[BucketId]], number: int) -> TargetRows:
        """Return the target rows of a group; `bucket_ids`: the buckets of each group."""
        if self.by_file:
            return replace(target, file_share=(number, self.group_count))
        return replace(target, bucket_ids=bucket_ids[number])


@dataclass(frozen=True, kw_only=True)
class MergeJob:
    """What all tasks of a merge have in common.

        sent      rows of the source  ->  letters, to their groups if the match names the columns that decide a bucket,
                                          else addressed by the values they are matched by
        told      rows of the target  ->  letters to the same addresses: only the columns that the match looks at, once
        met       both of an address  ->  letters to the groups where a row of the source matches,
                                          or, if nowhere, where it would be inserted
        merged    letters of a group  ->  `dml.merge` on its buckets of the table, with these rows as the source

    A letter is a frame in the bytes of Arrow, so that no value passes through Spark's types: a timestamp of nanoseconds
    is compared as one. Two rows match by the same expression in `send_matches` and in `merge_groups`, and the rows of a
    group match no target row elsewhere, or `merge_groups` gets that row in every group of it. Each task holds the rows
    of the source that are for its groups, and the match's columns of what it joins: as much as a share of a hash join.
    A match without an equality of whole numbers, texts, dates or booleans is joined by one task.

    `plan` has a source without rows; `places` are the buckets of each group; `columns` and `arrow` describe the source.
    `addressed`: the number of addresses where rows of both sides meet. `direct`: the source column for each column that
    decides the group of a row; None where rows of the source look for their groups.
    """

    ctx: TableContext
    plan: MergePlan
    target: TargetRows
    groups: BucketGroups
    bucket_groups: tuple[frozenset[tuple[bytes, int]], ...]
    columns: tuple[str, ...]
    arrow: pa.Schema
    address_count: int
    group_columns: tuple[tuple[str, str], ...] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # without cached properties: each process computes its own
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def tasks(self) -> TaskRouter:
        """The router of rows to groups. Only for groups of a `cut`."""
        assert self.groups.parallelism is not None
        return TaskRouter.of(self.ctx, self.groups.parallelism, replaces=False, batch=False)

    @cached_property
    def deciding(self) -> tuple[str, ...]:
        """The columns of the table that decide the group of a row."""
        if self.groups.parallelism is not None:
            return self.tasks.column_names if self.groups.group_count > 1 else ()
        return () if self.groups.by_file else tuple(self.ctx.schema.partition_keys)

    @cached_property
    def addresses(self) -> tuple[tuple[str, str], ...]:
        """Columns of both sides that are equal where rows match, and that are hashed alike."""
        equal = plans.equi_join_columns(self.plan, self.ctx)
        theirs = self.plan.source.schema
        return tuple(
            (mine, other)
            for mine, other in equal.items()
            if _kind(self.target.schema[mine]) == _kind(theirs[other]) in _HASHED_TYPE_OF_KIND
        )

    @cached_property
    def compared(self) -> list[str]:
        """The columns of the target that the match looks at."""
        used = set(self.plan.match.meta.root_names())
        return [name for name in self.ctx.schema.names if name in used] or [self.ctx.schema.names[0]]

    def rows(self, batch: pa.RecordBatch) -> pl.DataFrame:
        """Return rows of the source, as Spark has them, under their long names."""
        arrays = [
            array if array.type == field.type else array.cast(field.type)
            for array, field in zip(batch.columns, self.arrow, strict=True)
        ]
        named = write_task.convert_times(pa.RecordBatch.from_arrays(arrays, names=list(self.columns)), self.ctx)
        frame = pl.concat(list(input_frames.open_input(named, self.ctx).iter_frames(self.ctx)))
        return frame.rename(lambda name: f"{MERGE_SOURCE_PREFIX}{name}")

    def group(self, number: int) -> TargetRows:
        """Return the target rows of a group."""
        return self.groups.rows_of(self.target, self.bucket_groups, number)

    @property
    def busy_groups(self) -> list[bytes]:
        """The numbers of the groups that may have rows, as tasks."""
        numbers = range(self.groups.group_count) if self.target.snapshot is not None else ()
        return [str(number).encode() for number in numbers if self.groups.by_file or self.bucket_groups[number]]

    def destination(self, frame: pl.DataFrame) -> NDArray[np.int32]:
        """Return the group of each row of a frame that has the deciding columns, as the table has them."""
        if self.groups.by_file:
            return np.arange(frame.height, dtype=np.int32) % self.groups.group_count
        if not self.deciding:
            return np.zeros(frame.height, np.int32)
        deciding = row_conversion.convert_columns(frame, self.ctx, self.deciding)
        if self.groups.parallelism is not None:
            return self.tasks.task_numbers(deciding)
        codes = bucket_assigners.encode_partitions(deciding, self.ctx)
        return np.array([self.groups.group_of_bucket(row, 0) for row in codes.partition_rows], np.int32)[
            codes.codes
        ]  # scalar: one a partition


def _kind(dtype: pl.DataType) -> str:
    return "Int64" if dtype.is_signed_integer() else str(dtype)


# ---- letters ---------------------------------------------------------------------------------------------------------


def read_letters(
    job: MergeJob, batches: Iterable[pa.RecordBatch]
) -> Iterator[tuple[int, pl.DataFrame, list[tuple[int, pl.DataFrame]]]]:
    """Yield the letters of a task by address: all rows of the source, and the target rows of groups."""
    letters: dict[int, list[tuple[int, bytes | None]]] = {}
    for batch in batches:
        for to, sender, data in zip(
            *(column.to_pylist() for column in batch.columns), strict=True
        ):  # scalar: one a letter
            letters.setdefault(to, []).append((sender, data))
    for to in sorted(letters):
        frames = [(sender, pl.read_ipc_stream(data)) for sender, data in letters.pop(to) if data is not None]
        theirs = [frame for sender, frame in frames if sender == write_task.FROM_SOURCE]
        yield (
            to,
            pl.concat([job.plan.source.drop(SOURCE_ROW), *theirs]),
            [(sender, frame) for sender, frame in frames if sender != write_task.FROM_SOURCE],
        )


def _hash_addresses(job: MergeJob, frame: pl.DataFrame, names: Sequence[str]) -> NDArray[np.int32]:
    """Return the address of each row by the values that it is matched by."""
    if not names:
        return np.zeros(frame.height, np.int32)
    columns = [frame[name].cast(pl.Int64) if frame.schema[name].is_signed_integer() else frame[name] for name in names]
    types = [parse(_HASHED_TYPE_OF_KIND[str(column.dtype)]) for column in columns]
    hashes = hashing.hash_columns([column.to_arrow() for column in columns], types)
    return hashing.default_bucket(hashes, job.address_count)


# ---- what each stage does --------------------------------------------------------------------------------------------


def send_source_rows(job: MergeJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows of the source as letters: to their groups if known, else to where they meet target rows."""
    for batch in batches:
        if not batch.num_rows:
            continue
        frame = job.rows(batch)
        numbers = (
            _hash_addresses(job, frame, [other for _, other in job.addresses])
            if job.group_columns is None
            else _destination_groups(job, frame, dict(job.group_columns))
        )
        yield write_task.pack_messages(frame, numbers, write_task.FROM_SOURCE)


def _destination_groups(job: MergeJob, frame: pl.DataFrame, columns: dict[str, str]) -> NDArray[np.int32]:
    """Return the group of each source row, by the columns that decide it.

    A row with a null where the table takes none matches nothing, and goes to group 0.
    """
    numbers = np.zeros(frame.height, np.int32)
    if not columns:
        return numbers
    own = frame.select(col(other).alias(name) for name, other in columns.items()).with_row_index(SOURCE_ROW)
    schema = job.ctx.schema
    own = own.drop_nulls(
        select_by_name(name for name in columns if name in schema.primary_keys or not schema.field(name).nullable)
    )
    numbers[own[SOURCE_ROW].to_numpy()] = job.destination(own.drop(SOURCE_ROW))
    return numbers


def send_target_rows(job: MergeJob, task: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the target rows of a group as letters.

    Raises: what reading raises.
    """
    number, names = int(task), [mine for mine, _ in job.addresses]
    near = plans.target_only_condition(job.plan, job.ctx)
    for batch in job.group(number).batches(near, lambda rows: rows.select(cols(job.compared))):
        frame = batch.unique(maintain_order=True)
        if frame.height:
            yield write_task.pack_messages(frame, _hash_addresses(job, frame, names), number)


def send_matches(job: MergeJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield source rows as letters to the groups they match, or else to where they are inserted."""
    for _, rows, targets in read_letters(job, batches):
        if not rows.height:
            continue
        source = rows.with_row_index(SOURCE_ROW)
        groups = [frame.with_columns(pl.lit(sender, pl.Int32).alias(GROUP)) for sender, frame in targets]
        matched = pl.Series(SOURCE_ROW, [], source.schema[SOURCE_ROW])
        if groups:
            with translate_compute_errors(job.ctx.name):
                pairs = (
                    pl.concat(groups)
                    .lazy()
                    .join_where(source.lazy(), job.plan.match)
                    .select(GROUP, SOURCE_ROW)
                    .unique()
                    .collect()
                )
            matched = pairs[SOURCE_ROW].unique()
            matches = pairs.join(source, on=SOURCE_ROW, maintain_order="right")
            yield write_task.pack_messages(
                matches.select(cols(rows.columns)), matches[GROUP].to_numpy(), write_task.FROM_SOURCE
            )
        yield from send_inserts(job, source.filter(~pl.col(SOURCE_ROW).is_in(matched.implode())))


def send_inserts(job: MergeJob, unmatched: pl.DataFrame) -> Iterator[pa.RecordBatch]:
    """Yield letters of rows that match nothing, to the groups of the rows that they become."""
    if not unmatched.height or not job.plan.not_matched:
        return
    with translate_compute_errors(job.ctx.name):
        by_action = merging.split_by_action(unmatched, job.plan.not_matched)
        inserted = [rows.select(action.columns) for action, rows in by_action]
    for (_, rows), new in zip(by_action, inserted, strict=True):
        try:
            numbers = job.destination(new)
        except (SchemaMismatch, ValueOutOfRange):  # what takes these rows says what is wrong with one of them
            numbers = np.zeros(rows.height, np.int32)
        yield write_task.pack_messages(
            rows.select(col(name) for name in job.plan.source.columns if name != SOURCE_ROW),
            numbers,
            write_task.FROM_SOURCE,
        )


def merge_groups(job: MergeJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge the groups of a task, and yield messages for one commit.

    Raises: what merging raises; then no file of it is left.
    """
    for number, rows, _ in read_letters(job, batches):
        shard = None if job.groups.parallelism is None else WriteShard(parallelism=job.groups.parallelism, task=number)
        try:
            with RowChange.of(job.ctx, only_adds=job.ctx.kind == "append", shard=shard) as change:
                merging.write_changes(change, plans.source_frame(job.plan, job.ctx, rows), job.group(number))
                answers = write_task.encode_change(change)
        except REPORTED_ERRORS as wrong:
            answers = write_task.encode_error(wrong)
        yield from write_task.yield_answers(job.ctx, answers)


# ---- merging ------------------------------------------------------------


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
    table_context.check_writable(ctx)
    arrow, nothing = empty_source(ctx, source.schema)
    plan, target = merging.plan_merge(ctx, nothing, clauses, on), TargetRows.at_newest(ctx)
    return run_merge(spark, build_job(spark, target, plan, source.columns, arrow), ctx, source)


def run_merge(spark: SparkSession, job: MergeJob, ctx: TableContext, source: DataFrame) -> Commit:
    """Run the tasks of a merge, and commit what they did."""
    return commit_answers(ctx, _run_job(spark, job, source))


def empty_source(ctx: TableContext, schema: spark_types.StructType) -> tuple[pa.Schema, pa.RecordBatch]:
    """Return the Arrow schema of a source, and no rows of it as the table has them."""
    arrow = pa.schema([pa.field(field.name, _arrow_field(field)) for field in schema])
    nothing = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in arrow], schema=arrow)
    return arrow, write_task.convert_times(nothing, ctx)


def _arrow_field(field: spark_types.StructField) -> pa.DataType:
    is_null = isinstance(field.dataType, spark_types.NullType)
    return pa.null() if is_null else types.arrow_type(types.paimon_type(field.dataType, field.name))


def build_job(
    spark: SparkSession, target: TargetRows, plan: MergePlan, columns: Sequence[str], arrow: pa.Schema
) -> MergeJob:
    """Return the job of the tasks that merge into a snapshot, its buckets in groups."""
    near = None if plan.not_matched_by_source else plans.target_only_condition(plan, target.ctx)
    groups, bucket_groups = group_target(spark, target, near)
    job = MergeJob(
        ctx=replace(target.ctx, catalog_env=None),  # a catalog may hold connections, and tasks commit nothing
        plan=plan,
        target=replace(target, ctx=replace(target.ctx, catalog_env=None)),
        groups=groups,
        bucket_groups=bucket_groups,
        columns=tuple(columns),
        arrow=arrow,
        address_count=1,
    )
    job = replace(job, address_count=max(1, session.slots(spark)) * _TASKS_A_SLOT if job.addresses else 1)
    return replace(job, group_columns=_direct_columns(job))


def group_target(
    spark: SparkSession, target: TargetRows, near: pl.Expr | None
) -> tuple[BucketGroups, tuple[frozenset[BucketId], ...]]:
    """Return groups of a table's buckets, and those of each group that may have rows which satisfy a condition."""
    slots = session.slots(spark)
    wanted, most = max(1, slots) * _TASKS_A_SLOT, max(1, int(spark.conf.get("spark.sql.shuffle.partitions") or 1))
    groups = BucketGroups.of(target.ctx, slots=slots, parallelism=wanted, most=most)
    places: list[set[BucketId]] = [set() for _ in range(groups.group_count)]
    if target.snapshot is not None and not groups.by_file:
        for bucket_id in target.candidate_buckets(near):
            places[groups.group_of_bucket(*bucket_id)].add(bucket_id)
    return groups, tuple(frozenset(bucket_ids) for bucket_ids in places)


def _direct_columns(job: MergeJob) -> tuple[tuple[str, str], ...] | None:
    """Return the source column for each column that decides a row's group; None where there is none.

    Matching rows must agree in it, and inserted rows take their value from it. Only types whose every value the table
    takes as it is: a value that a column does not take matches nothing, and could not be sent anywhere.
    """
    equal = plans.equi_join_columns(job.plan, job.ctx)
    theirs = job.plan.source.schema
    pairs = []
    for name in job.deciding:
        other, t = equal.get(name), job.ctx.schema.field(name).type
        if (
            other is None
            or theirs[other] != job.target.schema[name]
            or t.root not in _DIRECT_TYPES
            or t.length not in (None, MAX_LENGTH)
        ):
            return None
        for clause in job.plan.not_matched:
            inserted = next((expr for expr in clause.columns if expr.meta.output_name() == name), None)
            if inserted is None or not inserted.meta.undo_aliases().meta.eq(col(other)):
                return None
        pairs.append((name, other))
    return tuple(pairs) if pairs or job.groups.group_count == 1 else None


def _run_job(spark: SparkSession, job: MergeJob, source: DataFrame) -> DataFrame:
    """Return the answers of the tasks that merge."""
    count = job.groups.group_count
    letters = source.toDF(*write_task.positional_names(len(job.columns))).mapInArrow(
        partial(send_source_rows, job), write_task.MESSAGE_SCHEMA
    )
    if job.group_columns is None:
        if job.target.snapshot is not None:
            letters = letters.unionAll(
                session.run(spark, job.busy_groups, partial(send_target_rows, job), write_task.MESSAGE_SCHEMA)
            )
        letters = write_task.repartition_letters(letters, job.address_count).mapInArrow(
            partial(send_matches, job), write_task.MESSAGE_SCHEMA
        )
    if job.plan.not_matched_by_source:  # groups that no row of the source is for have work, too
        each = (
            functions.col("id").cast("int").alias(write_task.RECEIVER_COLUMN),
            functions.lit(write_task.FROM_SOURCE).alias(write_task.SENDER_COLUMN),
            functions.lit(None).cast("binary").alias(write_task.DATA_COLUMN),
        )
        letters = letters.unionAll(spark.range(0, count, 1, 1).select(*each))
    return write_task.repartition_letters(letters, count).mapInArrow(
        partial(merge_groups, job), write_task.CHANGE_SCHEMA
    )
