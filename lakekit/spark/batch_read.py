"""A table, or what changed in it, as a Spark DataFrame, planned in the driver.

    ls.read(spark, table, columns=["id", "total"], where="day = '2024-03-31'")
    ls.changes(spark, table, 3, 7)        the rows of (3, 7], their kind first

    driver    snapshot, columns and condition become a plan, from metadata alone; the frame stays on that snapshot
    Spark     Parquet files whose rows need no change: `native_parquet`
    tasks     buckets to merge, files with deletion vectors, other formats, old types: `tasks` makes and reads them

`unionAll` combines both. What a query filters and selects later reaches Spark's own reader; lakekit's tasks read what
`read` was called with. Spark knows the sizes of files and gets an estimate of the rows of tasks (`read.explain`): big
tables are joined by shuffling, small ones sent to every executor. It holds microseconds, so tables are opened with
`lakekit.timestamp-unit=us`: finer timestamps are cut as they are read, and conditions see the cut values.

Of changes, written rows and changelogs are read file by file. The difference of two states is computed bucket by
bucket, a task each: a key never leaves its bucket, or the difference says where it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakekit.catalog.sys_tables import SystemTable
from lakekit.columns import ROW_KIND, SEQUENCE, col, collect_batches
from lakekit.errors import SchemaMismatch, Unsupported
from lakekit.format.polars_types import paimon_type, polars_schema
from lakekit.read import (
    explain,
    incremental as changing,
    lazy_frames,
    polars_pushdown,
    table_scan,
    time_travel,
    user_expressions,
)
from lakekit.read.filter_pushdown import filter_to_pyarrow_text
from lakekit.read.planner import NO_FILTER
from lakekit.read.polars_pushdown import ScanFilter, parse_exact
from lakekit.read.table_scan import context_of
from lakekit.spark import native_parquet, session, tasks as spark_tasks
from lakekit.spark.types import arrow_schema, read_fields, spark_schema, to_batch
from lakekit.system_tables import metadata_tables, registry
from lakekit.table.format_tables import FormatTable
from lakekit.table.open_create import open as open_table
from lakekit.table.read_methods import check_one_position
from lakekit.table.table import Table
from lakekit.types import Field, first_duplicate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from os import PathLike

    import polars as pl
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from lakekit.metadata.table_context import TableContext
    from lakekit.predicate import Predicate
    from lakekit.read.incremental import IncrementalScan
    from lakekit.read.planner import Plan
    from lakekit.read.table_scan import TableScan
    from lakekit.spark.tasks import ReadJob


MICROSECOND_OPTIONS = {"lakekit.timestamp-unit": "us"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """The rows of a read: the condition, what planning understands of it, and its remaining predicates.

    `predicates` holds a predicate for each conjunct that partitions do not decide; None where a conjunct is not
    understood.
    """

    condition: pl.Expr | None = None
    scan_filter: ScanFilter = NO_FILTER
    predicates: tuple[Predicate | None, ...] = ()


def table_of(table_or_path: Table | SystemTable | str | PathLike[str]) -> Table | SystemTable:
    """Return the table passed in, or open the one at a path.

    Raises: what opening raises, and `TypeError` for neither.
    """
    if isinstance(table_or_path, (Table, SystemTable)):
        return table_or_path
    if not isinstance(table_or_path, str) and not hasattr(table_or_path, "__fspath__"):
        msg = f"lakekit.spark takes a table, one of its system tables or a path, not {type(table_or_path).__name__}"
        raise TypeError(msg)
    return open_table(table_or_path)


def context_for_tasks(table: Table, at: int | str | datetime | None, options: Mapping[str, Any] | None) -> TableContext:
    """Return the context of a table with a caller's options, as tasks need it.

    It has no catalog, which may hold connections.
    """
    check_one_position(at, options)
    return replace(context_of(table).with_options({**(options or {}), **MICROSECOND_OPTIONS}), catalog_env=None)


def select_columns(fields: Sequence[Field], names: Sequence[str] | None, table: str) -> tuple[Field, ...]:
    """Return the columns of those names, in that order; all of them without names.

    Raises: `ColumnNotFound`, `SchemaMismatch`.
    """
    if names is None:
        return tuple(fields)
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise SchemaMismatch(f"columns= of a read of {table} takes a list of names, not {names!r}")
    if not names:
        raise SchemaMismatch(f"columns= of a read of {table} names none; to count rows read any one column")
    by_name = {field.name: field for field in fields}
    for name in names:
        if name not in by_name:
            raise user_expressions.make_column_not_found(name, list(by_name), table, "columns=")
    if (twice := first_duplicate(names)) is not None:
        raise SchemaMismatch(f"columns= of a read of {table} names {twice} twice", column=twice)
    return tuple(by_name[name] for name in names)


def select_schema_columns(
    fields: Sequence[Field], schema: StructType, table: str, kind_column: str | None = None
) -> tuple[Field, ...]:
    """Return the columns that a schema names after that of kinds, which is first.

    Raises: `ColumnNotFound`, and `SchemaMismatch` for another type than the table's: Spark casts what was read.
    """
    wanted = [field for field in schema if field.name != kind_column]
    if len(wanted) != len(schema) - (kind_column is not None) or (
        kind_column is not None and schema.fieldNames()[0] != kind_column
    ):
        raise SchemaMismatch(f"the schema of a read of {table} with row_kind={kind_column!r} begins with that column")
    out = select_columns(fields, [field.name for field in wanted], table)
    for field, want in zip(spark_schema(read_fields(out)), wanted, strict=True):
        if field.dataType.simpleString() != want.dataType.simpleString():
            actual = field.dataType.simpleString()
            msg = (
                f"column {field.name} of {table} is {actual} in Spark, and the schema says "
                f"{want.dataType.simpleString()}: cast it after load()"
            )
            raise SchemaMismatch(msg, column=field.name)
    return out


def parse_filter(ctx: TableContext, where: pl.Expr | str | None) -> RowFilter:
    """Return the filter of a condition.

    Raises: `ColumnNotFound`, `SchemaMismatch` for what is no condition of single rows, `TypeError`.
    """
    if where is None:
        return RowFilter()
    expr = user_expressions.condition_on_table(where, ctx)
    schema = polars_schema(ctx.schema.fields, timestamp_unit="us")
    if (beyond := user_expressions.non_elementwise_reason(expr, schema)) is not None:
        each = (
            ", and tasks see some each: let Spark compute it over what read() gives"
            if beyond == user_expressions.NOT_ROW_WISE_MESSAGE
            else ""
        )
        raise SchemaMismatch(f"where={expr} of {ctx.name} {beyond}{each}")
    filters, is_complete = polars_pushdown.all_filters_of(expr, schema)
    scan_filter, decided = polars_pushdown.build_scan_filter(filters, ctx.schema)
    predicates = [
        parse_exact(filter_to_pyarrow_text(text_filter)) for at, text_filter in enumerate(filters) if at not in decided
    ]
    return RowFilter(condition=expr, scan_filter=scan_filter, predicates=tuple(predicates) if is_complete else (None,))


def columns_to_read(ctx: TableContext, out: Sequence[Field], rows: RowFilter) -> tuple[Field, ...]:
    """Return the columns to read: the output columns, then those that only the condition uses."""
    used = [] if rows.condition is None else rows.condition.meta.root_names()
    names = {field.name for field in out}
    return (*out, *(field for field in ctx.schema.fields if field.name in used and field.name not in names))


# ---- batch read ------------------------------------------------------------


def read(
    spark: SparkSession,
    table_or_path: Table | SystemTable | str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    where: pl.Expr | str | None = None,
    at: int | str | datetime | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Return the rows of a table as a DataFrame that stays on the snapshot it was planned on.

    Without `at` that is the newest snapshot. `columns` and `where` (a Polars expression or SQL text, of single rows)
    are used before anything is planned: partitions, buckets, key ranges, statistics and file indexes leave out files,
    and lakekit's tasks read those columns and rows only. `where` means what it means to `t.scan` and `t.delete`,
    whatever the session says: a timestamp without a zone is one of UTC. Filters added afterwards, and those of
    `ls.sql`, are Spark's, in the session's zone.
    `at` and `options` are those of `Table.scan`, changes included.
    The option `spark.read.native` says whether Spark reads Parquet files itself that need no merge: "auto" (the
    default) on disks, "on" in object stores too, which the session must be able to open, "off" never.

    Columns may hold nulls whatever the table says, as in every DataFrame that Spark reads from files. TIME is
    milliseconds of the day; timestamps are cut to microseconds. Executors need lakekit, and reach the table as the
    driver does: by the same path, or URL and storage options, which travel with the job.

    Of a catalog's system tables `audit_log` and `ro` are read in tasks, the others in the driver, at once; `binlog` is
    refused. A format table is one task.

    Raises: what `Table.scan` raises, `ColumnNotFound`, `SchemaMismatch`, and `Unsupported` for a Spark that is too old.
    """
    session.check(spark)
    table = table_of(table_or_path)
    if isinstance(table, SystemTable):
        return _read_system_table(spark, table, columns, where, at=at, options=options)
    if isinstance(table, FormatTable):
        frame = table.scan(at, options={**(options or {}), **MICROSECOND_OPTIONS})
        return _scan_in_one_task(spark, frame, table, columns, where)
    ctx = context_for_tasks(table, at, options)
    if at is None and time_travel.means_changes(ctx):
        return read_changes(spark, changing.changes_from_options(ctx, kind_column=None), columns, where)
    return _read_state(spark, table_scan.scan(ctx, at), columns, where)


def _read_state(
    spark: SparkSession, scan: TableScan, columns: Sequence[str] | None, where: pl.Expr | str | None
) -> DataFrame:
    """Return the rows of a scan, with their kinds where it has them."""
    rows = parse_filter(scan.ctx, where)
    out = select_columns(scan.fields, columns, scan.ctx.name)
    frames = [
        frame for plan, what in plan_state_jobs(scan, out, rows) for frame in _plan_frames(spark, plan, what, rows)
    ]
    return union_frames(spark, frames, with_kind(scan.kind_column, out, numbered=scan.with_sequence_number))


def plan_state_jobs(scan: TableScan, out: Sequence[Field], rows: RowFilter) -> Iterator[tuple[Plan, ReadJob]]:
    """Yield the plans of a scan, each with the job that its tasks share."""
    what = spark_tasks.ReadJob(
        ctx=scan.ctx,
        fields=columns_to_read(scan.ctx, out, rows),
        output_fields=with_kind(scan.kind_column, out, numbered=scan.with_sequence_number),
        condition=rows.condition,
        key_conditions=rows.scan_filter.key_conditions,
        kind_column=scan.kind_column,
        numbers_rows=scan.with_sequence_number,
        keeps_deletes=scan.keeps_deletes,
    )
    for plan in scan.plans(rows.scan_filter):
        yield plan, replace(what, ctx=plan.ctx)


def _plan_frames(spark: SparkSession, plan: Plan, job: ReadJob, rows: RowFilter) -> list[DataFrame]:
    """Return the frames of a plan: those that Spark reads itself, and one of tasks."""
    frames, own = [], lazy_frames.fields_of_branch(plan, job.fields)
    mask = (
        np.zeros(len(plan.raw_indices), bool)
        if job.kind_column is not None
        else native_parquet.native_read_mask(plan, own)
    )
    condition = (
        native_parquet.to_spark_condition(rows.predicates, {field.name: field.type for field in job.fields})
        if rows.predicates and mask.any()
        else None
    )
    if rows.predicates and condition is None:
        mask[:] = False  # Spark cannot say it
    if mask.any():
        frames += native_parquet.native_frames(spark, plan, mask, own, job.output_fields, condition)
    task_plan = replace(plan, raw_indices=plan.raw_indices[~mask])
    return [
        *frames,
        *run_read_tasks(
            spark, spark_tasks.plan_tasks(plan, task_plan.raw_indices, session.slots(spark)), job, [task_plan]
        ),
    ]


def read_changes(
    spark: SparkSession,
    source: IncrementalScan,
    columns: Sequence[str] | None = None,
    where: pl.Expr | str | None = None,
) -> DataFrame:
    """Return the rows of changes, with their kinds where the source has them."""
    rows = parse_filter(source.ctx, where)
    out = select_columns(source.fields, columns, source.ctx.name)
    plans = source.plans(rows.scan_filter)
    works = plan_change_jobs(source, plans, out, rows, session.slots(spark))
    frames = [frame for what, tasks, parts in works for frame in run_read_tasks(spark, tasks, what, parts)]
    return union_frames(spark, frames, with_kind(source.kind_column, out, numbered=source.with_sequence_number))


def plan_change_jobs(
    source: IncrementalScan, plans: Sequence[Plan], out: Sequence[Field], rows: RowFilter, slots: int
) -> list[tuple[ReadJob, list[bytes], Sequence[Plan]]]:
    """Return the jobs that read the plans of changes, each with its tasks and its plans.

    There is one job for each branch, or one that compares two states.
    """
    compares = source.mode == "diff" and len(plans) > 1
    # comparing two states compares all their columns
    fields = source.fields if compares else columns_to_read(source.ctx, out, rows)
    output_fields = with_kind(source.kind_column, out, numbered=source.with_sequence_number)
    what = spark_tasks.ReadJob(
        ctx=source.ctx,
        fields=tuple(fields),
        output_fields=output_fields,
        condition=rows.condition,
        kind_column=source.kind_column,
        numbers_rows=source.with_sequence_number,
    )
    if compares:
        return [(replace(what, mode="difference"), spark_tasks.plan_difference_tasks(*plans), plans)]
    if source.mode != "diff":
        what = replace(what, mode="written")
    return [
        (replace(what, ctx=plan.ctx), spark_tasks.plan_tasks(plan, plan.raw_indices, slots), [plan]) for plan in plans
    ]


def with_kind(kind_column: str | None, out: Sequence[Field], *, numbered: bool) -> tuple[Field, ...]:
    """Return the columns of the output frame: the kind of each row first, where there is one."""
    before = (
        []
        if kind_column is None
        else [Field(kind_column, "STRING"), *([Field(SEQUENCE, "BIGINT")] if numbered else [])]
    )
    return read_fields([*before, *out])


def run_read_tasks(spark: SparkSession, tasks: Sequence[bytes], job: ReadJob, plans: Sequence[Plan]) -> list[DataFrame]:
    """Return the frame of the tasks of some plans, with its estimated size; no frame without tasks."""
    if not tasks:
        return []
    size_bytes = sum(explain.estimate_plan(plan, job.output_fields).size_bytes for plan in plans)
    return [
        session.run(
            spark,
            tasks,
            partial(spark_tasks.read_task_batches, job),
            spark_schema(job.output_fields),
            size_bytes=size_bytes,
        )
    ]


def union_frames(spark: SparkSession, frames: Sequence[DataFrame], out: Sequence[Field]) -> DataFrame:
    """Return the union of the frames; an empty frame without any."""
    return (
        reduce(lambda left, right: left.unionAll(right), frames)
        if frames
        else session.empty_frame(spark, spark_schema(out))
    )


# ---- what has no splits ----------------------------------------------------------------------------------------------


def _read_system_table(
    spark: SparkSession,
    system: SystemTable,
    columns: Sequence[str] | None,
    where: pl.Expr | str | None,
    *,
    at: int | str | datetime | None,
    options: Mapping[str, Any] | None,
) -> DataFrame:
    """Return a system table: read by tasks where its rows are the table's own, else by the driver."""
    name, ctx = registry.normalize_name(system.name, system.table.name), context_for_tasks(system.table, at, options)
    if name == "binlog":
        msg = f"{system.table.name}$binlog is not read on Spark; $audit_log tells the same rows, one each"
        raise Unsupported(msg, feature="spark.read")
    if name in ("audit_log", "ro"):
        source = (metadata_tables.audit_log_scan if name == "audit_log" else metadata_tables.read_optimized_scan)(
            ctx, at
        )
        return (
            read_changes(spark, source, columns, where)
            if isinstance(source, changing.IncrementalScan)
            else _read_state(spark, source, columns, where)
        )
    rows = registry.system_table(ctx, name, at).collect()
    fields = read_fields([Field(column, paimon_type(dtype, column)) for column, dtype in rows.schema.items()])
    out = select_columns(fields, columns, f"{system.table.name}${name}")
    selected = _filter_and_select(rows.lazy(), out, where, f"{system.table.name}${name}").collect()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, arrow_schema(out)) as writer:
        writer.write_batch(to_batch(selected, out))
    sent = sink.getvalue().to_pybytes()
    return session.run(spark, [sent], _stream_batches, spark_schema(out), size_bytes=len(sent))


def _stream_batches(data: bytes) -> Iterator[pa.RecordBatch]:
    """Yield rows that were collected in the driver."""
    yield from pa.ipc.open_stream(data)


def _scan_in_one_task(
    spark: SparkSession,
    frame: pl.LazyFrame,
    table: FormatTable,
    columns: Sequence[str] | None,
    where: pl.Expr | str | None,
) -> DataFrame:
    """Return the rows of a format table, which one task collects."""
    out = read_fields(select_columns(table.schema.fields, columns, table.name))
    size_bytes = int(table.files()["size_bytes"].sum())
    return session.run(
        spark,
        [b""],
        partial(_collect_batches, _filter_and_select(frame, out, where, table.name), out),
        spark_schema(out),
        size_bytes=size_bytes,
    )


def _filter_and_select(
    frame: pl.LazyFrame, out: Sequence[Field], where: pl.Expr | str | None, table: str
) -> pl.LazyFrame:
    if where is not None:
        schema = frame.collect_schema()
        frame = frame.filter(user_expressions.parse_condition(where, schema, table, "where"))
    return frame.select(col(field.name) for field in out)


def _collect_batches(rows: pl.LazyFrame, out: Sequence[Field], task: bytes) -> Iterator[pa.RecordBatch]:  # noqa: ARG001 - there is one task
    for frame in collect_batches(rows, chunk_size=spark_tasks.BATCH_ROWS):
        yield to_batch(frame, out)


# ---- changed ------------------------------------------------------------


def changes(
    spark: SparkSession,
    table_or_path: Table | str | PathLike[str],
    since: int | str | datetime,
    until: int | str | datetime | None = None,
    *,
    mode: str = "auto",
) -> DataFrame:
    """Return the rows that changed after `since` up to and including `until`, with `_row_kind` first.

    `until=None` is the newest snapshot. `Table.changes` says what `mode` means. The frame stays on the snapshots that
    were there when it was made.

    Raises: as `Table.changes`, and `Unsupported` for a Spark that is too old.
    """
    session.check(spark)
    table = table_of(table_or_path)
    if not isinstance(table, Table):
        msg = f"{table!r} has no changes of its own: ask its table"
        raise Unsupported(msg, feature="spark.read")
    return read_changes(
        spark,
        changing.plan_changes(context_for_tasks(table, None, None), since, until, mode=mode, kind_column=ROW_KIND),
    )
