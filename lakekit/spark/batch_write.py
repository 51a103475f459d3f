"""Writes of a Spark DataFrame to a table: tasks write, the driver commits once.

    ls.write(df, table)                                   append, or upsert in a key table
    ls.write(df, table, mode="overwrite")                 whole, or by partition, as `t.overwrite`

    driver    checks columns and types; returns a commit that exists already; makes the `WriteParallelism` of the write
    tasks     the key columns of a row give its task, and rows are shuffled by it: one task for each bucket
    tasks     `spark.write_task`: `write.table_writers` on the rows of a task, messages back; append tables without
              buckets, and postponed ones, need no shuffle
    driver    `commit.committer`, once

An attempt of a task that fails deletes what it wrote, and of a job that fails the driver deletes what tasks wrote that
were through; what a duplicate attempt writes whose answer is not used, or one whose process dies, is an orphan for
`t.remove_orphans`. Rows come into one bucket from many tasks, in no defined order:
which of two rows of a key in one frame is the newer one only a sequence field says.

Source: FORMAT.md 2.2 (binary row); `Murmur3_x86_32`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column, functions, functions as sql, types as spark_types

from lakekit.codec import binary_row, hashing
from lakekit.commit import abort, committer as publishing
from lakekit.data_file import rolling_writer
from lakekit.errors import InvalidOption, LakekitError, Unsupported
from lakekit.maintenance import after_commit, compact
from lakekit.metadata import table_context
from lakekit.model.snapshot import BATCH_IDENTIFIER
from lakekit.read.table_scan import context_of
from lakekit.runtime import new_mark
from lakekit.spark import batch_read, session, types, write_task
from lakekit.spark.types import spark_type
from lakekit.spark.write_task import TASK_COLUMN, WriteJob
from lakekit.table.table import Table
from lakekit.table.table_writer import resolve_overwrite
from lakekit.write import row_conversion
from lakekit.write.bucket_assigners import bucket_fields
from lakekit.write.router import divide_write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from os import PathLike

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType as SparkType, StructType

    from lakekit.commit.changes import Commit
    from lakekit.commit.overwrite import Overwrite
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.commit_message import CommitMessage
    from lakekit.types import DataType, Field
    from lakekit.write.bucket_assigners import WriteParallelism

    Typed = Mapping[str, tuple[Column, SparkType]]
    """Columns of a frame by the table's names for them, with their types in Spark."""


_MAX_FIELDS = 55
"""The most null bits that fit behind the row kind in the first 8 bytes, without the sign bit of the number."""
_HASHED_WIDTHS = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "DATE": 4, "BIGINT": 8}
_INLINE_BYTES = 7
"""The most bytes of a text that stands in its field."""
_INLINE_FLAG = 0x80
_ZERO_WORD = "0" * 16


def spark_task_number(ctx: TableContext, parallelism: WriteParallelism, columns: Typed) -> Column | None:
    """Return the number of a row's task, computed by Spark itself; None where it cannot.

        task      (|hash of the partition| + bucket) % tasks                     as `write.router` has it
        bucket    |hash of the bucket key % buckets|, or of the function mod the number itself
        hash      Spark's `hash` of bytes, Murmur3 by words of four bytes from the seed 42: Paimon's, of its binary row
        bytes     row kind and null bits (8) | each field (8): a number little-endian, a short text and its length,
                  or offset and length of a long text | long texts; made as hexadecimal digits

    It covers tables of fixed buckets whose partitions and bucket keys are whole numbers, dates and texts; all else goes
    to `write_task.compute_task_numbers`, in Python. Every task checks that its rows belong to its own buckets, so a
    Spark with another hash function would cause an error, and no key in two buckets.
    """
    options, keys, partitions = ctx.options, bucket_fields(ctx), ctx.schema.partition_fields
    if (
        options.bucket <= 0
        or max(len(keys), len(partitions)) > _MAX_FIELDS
        or not all(_is_hashable(field, columns) for field in (*keys, *partitions))
    ):
        return None
    match options.bucket_function_type:
        case "default":
            bucket = sql.abs(row_hash(keys, columns) % options.bucket)
        case "mod":
            bucket = sql.pmod(
                sql.coalesce(_cast_to_bigint(keys[0].type, columns[keys[0].name][0]), sql.lit(0)),
                sql.lit(options.bucket),
            )
        case _:
            return None
    first = (
        sql.abs(row_hash(partitions, columns).cast("bigint"))
        if partitions
        else sql.lit(abs(hashing.row_hash_code(binary_row.EMPTY_ROW)))
    )
    return ((first + bucket) % parallelism.tasks).cast("int")


def _is_hashable(field: Field, columns: Typed) -> bool:
    """Return whether a column's values are written as they come, and their bytes made here."""
    is_alike = field.name in columns and columns[field.name][1] == spark_type(field.type)
    return is_alike and field.default is None and (field.type.root == "VARCHAR" or field.type.root in _HASHED_WIDTHS)


def row_hash(fields: Sequence[Field], columns: Typed) -> Column:
    """Return the hash of the binary row of some columns."""
    heads: list[Column] = []
    tails: list[Column] = []
    end: Column = _bigint_literal(8 + 8 * len(fields))
    nulls: list[Column] = []
    for at, field in enumerate(fields):
        column = columns[field.name][0]
        if field.type.nullable:  # a null where none may be is refused by the task that meets it
            nulls.append(sql.when(column.isNull(), _bigint_literal(1 << (8 + at))).otherwise(_bigint_literal(0)))
        if field.type.root == "VARCHAR":
            head, tail, end = _text_words(column, end)
            tails.append(tail)
        else:
            head = _number_word(field.type, column)
        heads.append(sql.coalesce(head, sql.lit(_ZERO_WORD)))
    first = _little_endian_hex(reduce(Column.bitwiseOR, nulls)) if nulls else sql.lit(_ZERO_WORD)
    return sql.hash(sql.unhex(sql.concat(first, *heads, *tails)))


def _bigint_literal(value: int) -> Column:
    return sql.lit(value).cast("bigint")


def _number_word(t: DataType, column: Column) -> Column:
    """Return the 16 hexadecimal digits of a number's field."""
    width, number = _HASHED_WIDTHS[t.root], _cast_to_bigint(t, column)
    return _little_endian_hex(number if width == 8 else number.bitwiseAND((1 << 8 * width) - 1))


def _cast_to_bigint(t: DataType, column: Column) -> Column:
    return (sql.unix_date(column) if t.root == "DATE" else column.cast("int") if t.root == "BOOLEAN" else column).cast(
        "bigint"
    )


def _text_words(column: Column, end: Column) -> tuple[Column, Column, Column]:
    """Return the 16 digits of a text's field, the digits behind all fields, and the end of those.

    The end is where the digits of the next text begin. A null has no digits.
    """
    digits, size = sql.hex(column), sql.octet_length(column).cast("bigint")
    is_inline = column.isNull() | (size <= _INLINE_BYTES)
    inline = sql.concat(sql.rpad(digits, 2 * _INLINE_BYTES, "0"), sql.lpad(sql.hex(size + _INLINE_FLAG), 2, "0"))
    padded = sql.when(is_inline, _bigint_literal(0)).otherwise(sql.shiftleft(sql.shiftright(size + 7, 3), 3))
    head = sql.when(is_inline, inline).otherwise(_little_endian_hex(sql.shiftleft(end, 32) + size))
    tail = sql.when(is_inline, sql.lit("")).otherwise(sql.rpad(digits, (padded * 2).cast("int"), sql.lit("0")))
    return head, tail, end + padded


def _little_endian_hex(number: Column) -> Column:
    """Return the 8 bytes of a BIGINT, the lowest first, as digits."""
    parts = [sql.shiftleft(sql.shiftright(number, 8 * at).bitwiseAND(0xFF), 56 - 8 * at) for at in range(8)]
    return sql.lpad(sql.hex(reduce(Column.bitwiseOR, parts)), 16, "0")


# ---- batch write ------------------------------------------------------------


WRITE_MODES = ("append", "upsert", "overwrite")
OVERWRITE_MODE, DYNAMIC_OVERWRITE_OPTION = "spark.sql.sources.partitionOverwriteMode", "dynamic-partition-overwrite"
"""The options that say what an overwrite without a partition replaces: Spark's, and the table's."""


def write(
    df: DataFrame,
    table_or_path: Table | str | PathLike[str],
    *,
    mode: str = "append",
    row_kind: str | None = None,
    partition: Mapping[str, Any] | None = None,
    commit_user: str | None = None,
    identifier: int | None = None,
) -> Commit:
    """Write the rows of a Spark DataFrame in Spark tasks, and commit them once, in this process.

    `mode`: "append" adds rows, which a key table merges; "upsert" the same of key tables alone; "overwrite" replaces
    what `t.overwrite` replaces, `partition={"dt": "2024-03-31"}` that partition. `row_kind`: a column of "+I", "-U",
    "+U", "-D" that says what each row does; it is not written. Columns match by name, values are cast only where none
    changes, as `t.append` has it; a TIME may be a number of milliseconds, as `ls.read` returns it.

    `commit_user` and `identifier`: exactly once for each pair. A pair that was committed before returns that commit,
    and nothing is read or written. Among rows of one key in one frame only a sequence field says which is the newer
    one. Keys that may move between partitions are written by one task.

    Raises: `SchemaMismatch` and `ValueOutOfRange` naming column and value, `InvalidOption` (for a stream, too),
    `TypeError` for what is no DataFrame of Spark, `Conflict`, `RetriesExhausted`, `CommitStateUnknown` (the same call
    again finds out), and what Spark raises where a task failed too often. After an error nothing was committed (but see
    `CommitStateUnknown`).
    """
    return _write_frame(
        df,
        table_or_path,
        mode=mode,
        row_kind=row_kind,
        partition=partition,
        commit_user=commit_user,
        identifier=identifier,
    )


def insert(df: DataFrame, table: Table, *, mode: str, partition: Mapping[str, Any] | None, zone: str) -> Commit:
    """Write the rows of INSERT, as `write`; texts become dates, times, timestamps of a zone and decimals.

    Raises: as `write`, and `ValueOutOfRange` for a text that is no value of its column.
    """
    return _write_frame(df, table, mode=mode, partition=partition, text_zone=zone)


def _write_frame(
    df: DataFrame,
    table_or_path: Table | str | PathLike[str],
    *,
    mode: str,
    row_kind: str | None = None,
    partition: Mapping[str, Any] | None = None,
    commit_user: str | None = None,
    identifier: int | None = None,
    text_zone: str | None = None,
) -> Commit:
    spark = _session_of(df)
    ctx = handle_of(table_or_path)
    if identifier is not None and commit_user is None:
        raise InvalidOption(
            f"identifier={identifier} counts the commits of a user, and commit_user names none", key="commit_user"
        )
    overwrite = check_write(ctx, df.schema, mode=mode, partition=partition, row_kind=row_kind, text_zone=text_zone)
    number = BATCH_IDENTIFIER if identifier is None else identifier
    if commit_user is not None:
        committed = publishing.find_commit(ctx, commit_user=commit_user, identifier=number)
        if committed is not None:
            return committed
    is_batch = identifier is None
    job = WriteJob(
        ctx=replace(ctx, catalog_env=None),
        commit_user=commit_user or ctx.new_commit_user(),
        ignores_existing=overwrite is not None,
        is_batch=is_batch,
        identifier=identifier,
        row_kind=row_kind,
        columns=tuple(df.columns),
        parallelism=_divide_tasks(spark, ctx, is_batch=is_batch),
        text_zone=text_zone,
    )
    with write_task.marked_job(job.ctx) as marked:
        sent = df.toDF(*write_task.positional_names(len(df.columns)))
        answers = _write_in_tasks(sent, replace(job, ctx=marked)).collect()
    messages = collect_messages(ctx, answers)
    committed = commit_messages(
        ctx, messages, job.commit_user, identifier=number, overwrite=overwrite, is_new_user=commit_user is None
    )
    if identifier is not None:
        _compact_if_due(job, messages, identifier)
    return committed


def _divide_tasks(spark: SparkSession, ctx: TableContext, *, is_batch: bool) -> WriteParallelism | None:
    """Return how a write is divided among the tasks that the session can run."""
    return divide_write(ctx, parallelism=session.slots(spark), max_tasks=_shuffle_partitions(spark), batch=is_batch)


def _compact_if_due(job: WriteJob, messages: Sequence[CommitMessage], identifier: int) -> None:
    """Compact the buckets of earlier commits, of which no task had rows, where a full compaction is due."""
    interval = job.ctx.options.full_compaction_interval
    if interval > 1 and identifier % interval == 0:
        compact_job(job, messages, identifier=identifier)


def _session_of(df: DataFrame) -> SparkSession:
    """Return the session of a DataFrame that can be written.

    Raises: `TypeError` for what is none of Spark's, `InvalidOption` for a stream.
    """
    if not hasattr(df, "mapInArrow") or not hasattr(df, "sparkSession"):
        msg = f"ls.write takes a DataFrame of Spark, not {type(df).__name__}: t.append takes rows that are in memory"
        raise TypeError(msg)
    session.check(df.sparkSession)
    if df.isStreaming:
        msg = (
            "ls.write writes once, and this DataFrame is a stream: df.writeStream.foreachBatch("
            "lambda rows, number: ls.write(rows, table, commit_user='…', identifier=number)) "
            "writes each of its batches, or df.writeStream.format('lakekit')"
        )
        raise InvalidOption(msg, key="df")
    return df.sparkSession


def collect_messages(ctx: TableContext, answers: Iterable[Any]) -> list[CommitMessage]:
    """Return the commit messages in the answers of a job's tasks.

    Raises: the error that a task reported; then the files of all other tasks are deleted.
    """
    messages, wrong = write_task.decode_answers(answers)
    if wrong is not None:
        with suppress(LakekitError):  # what cannot be deleted is left to the cleaning of orphans
            abort.abort(ctx, messages)
        raise wrong
    return messages


def commit_messages(
    ctx: TableContext,
    messages: Sequence[CommitMessage],
    commit_user: str,
    *,
    identifier: int,
    overwrite: Overwrite | None = None,
    is_new_user: bool,
) -> Commit:
    """Commit the messages of a job. If that fails, their files are deleted unless a commit may hold them.

    No other process may hold these messages.
    """
    return after_commit.maintain_after_commit(
        ctx,
        _commit_or_abort(
            ctx, messages, commit_user, identifier=identifier, overwrite=overwrite, is_new_user=is_new_user
        ),
        messages,
    )


def _commit_or_abort(
    ctx: TableContext,
    messages: Sequence[CommitMessage],
    commit_user: str,
    *,
    identifier: int,
    overwrite: Overwrite | None,
    is_new_user: bool,
) -> Commit:
    try:
        return publishing.commit_changes(
            ctx, messages, commit_user=commit_user, identifier=identifier, overwrite=overwrite, is_new_user=is_new_user
        )
    except BaseException:
        with suppress(LakekitError):
            abort.abort(ctx, messages)
        raise


def commit_job(
    job: WriteJob,
    messages: Sequence[CommitMessage],
    *,
    identifier: int,
    overwrite: Overwrite | None = None,
    is_new_user: bool,
) -> Commit:
    """Commit the messages of a job whose tasks only added files; then compact and maintain the table.

    Compaction and maintenance go by the table's own options.

    Raises: as `commit_messages`, and as `compact_job`.
    """
    committed = _commit_or_abort(
        job.ctx, messages, job.commit_user, identifier=identifier, overwrite=overwrite, is_new_user=is_new_user
    )
    compact_job(job, messages, identifier=identifier)
    return after_commit.maintain_after_commit(job.table or job.ctx, committed, messages)


def compact_job(job: WriteJob, messages: Sequence[CommitMessage], *, identifier: int) -> None:
    """Compact the buckets that a job committed files to, in this process.

    It does so where readers see the job's rows or changelog only then.

    Raises: what compacting raises, with a note that the rows are committed.
    """
    table = job.table or job.ctx
    try:
        compact.compact_written(table, messages, identifier=identifier)
    except LakekitError as error:
        error.add_note(
            f"The rows are committed to {table.name}: do not write them again. Readers see them after a compaction: "
            "ls.compact(spark, table), or t.compact()"
        )
        raise


def handle_of(table_or_path: Table | str | PathLike[str]) -> TableContext:
    """Return the context of a table that is written to.

    Raises: `InvalidOption` for a system table, and what opening raises.
    """
    table = batch_read.table_of(table_or_path)
    if not isinstance(table, Table):
        raise InvalidOption(
            f"{table.name} is a system table, which is made of what a table holds: write to that table",
            key="table",
            value=table.name,
        )
    return context_of(table)


def is_dynamic(mode: str | None) -> bool:
    """Return whether Spark's overwrite mode `mode` replaces only the partitions that it has rows of.

    It counts for an overwrite that names no partition. Spark's own default is static, whatever the table's options say:
    it replaces the whole table (ENGINE.md 5.6).

    Raises: `InvalidOption` for an unknown mode.
    """
    lowered = (mode or "static").lower()
    if lowered not in ("static", "dynamic"):
        raise InvalidOption(
            f"partitionOverwriteMode is {mode!r}; there are static and dynamic",
            key="partitionOverwriteMode",
            value=mode,
        )
    return lowered == "dynamic"


# ---- before any task -------------------------------------------------------------------------------------------------


def check_write(
    ctx: TableContext,
    schema: StructType,
    *,
    mode: str,
    partition: Mapping[str, Any] | None = None,
    row_kind: str | None = None,
    text_zone: str | None = None,
) -> Overwrite | None:
    """Check the arguments and columns of a write, and return what it replaces.

    Raises: `InvalidOption`, `Unsupported`, and what `t.append` raises for columns.
    """
    if mode not in WRITE_MODES:
        raise InvalidOption(
            f"mode={mode!r}; there are {', '.join(map(repr, WRITE_MODES))}", key="mode", value=str(mode)
        )
    if partition is not None and mode != "overwrite":
        raise InvalidOption(
            f"partition={dict(partition)} says what mode='overwrite' replaces; the mode is {mode!r}", key="partition"
        )
    if mode == "upsert" and ctx.kind == "append":
        raise InvalidOption(
            f"{ctx.name} has no primary key, so there is nothing to upsert by: mode='append' adds rows",
            key="primary-key",
        )
    if row_kind is not None and ctx.kind == "append":
        raise InvalidOption(
            f"{ctx.name} has no primary key: its rows have no kinds, leave row_kind={row_kind!r} out",
            key="row_kind",
            value=row_kind,
        )
    overwrite = resolve_overwrite(ctx, None if mode != "overwrite" else True if partition is None else partition)
    table_context.check_writable(ctx)
    rolling_writer.checked_external_roots(ctx)
    _check_columns(schema, ctx, row_kind, text_zone)
    return overwrite


def _check_columns(schema: StructType, ctx: TableContext, row_kind: str | None, text_zone: str | None) -> None:
    """Raise what `t.append` raises for columns and types that do not fit."""
    arrow = [
        pa.field(
            field.name,
            pa.null()
            if isinstance(field.dataType, spark_types.NullType)
            else types.arrow_type(types.paimon_type(field.dataType, field.name)),
        )
        for field in schema
    ]
    nothing = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in arrow], schema=pa.schema(arrow))
    nothing = write_task.convert_texts(write_task.convert_times(nothing, ctx), ctx, text_zone)
    for _ in row_conversion.convert_batches(nothing, ctx, row_kind=row_kind, error_hints=write_task.SPARK_HINTS):
        pass  # no row, only checks


def _shuffle_partitions(spark: SparkSession) -> int:
    return max(1, int(spark.conf.get("spark.sql.shuffle.partitions") or 1))


def write_job(
    ctx: TableContext,
    schema: StructType,
    *,
    mode: str,
    partition: Mapping[str, str] | None = None,
    row_kind: str | None = None,
    commit_user: str | None = None,
) -> tuple[WriteJob, Overwrite | None]:
    """Return the job of a write whose rows are not shuffled, and what it replaces.

    Raises: `Unsupported`, and what `ls.write` raises before any task.
    """
    if ctx.kind == "key" and ctx.options.bucket == -1:
        what = (
            "keys move between partitions"
            if ctx.schema.cross_partition
            else "buckets of keys follow from what is there"
        )
        msg = (
            f"{ctx.name}: its {what}, and this way of writing does not bring the rows of a key together: ls.write(df, "
            "table) does"
        )
        raise Unsupported(msg, feature="spark.source")
    overwrite = check_write(ctx, schema, mode=mode, partition=partition, row_kind=row_kind)
    table = ctx = replace(ctx, catalog_env=None)
    if ctx.has_buckets:
        # tasks share buckets: two compactions of one would exclude each other
        ctx = ctx.with_options({"write-only": "true"})
    user, replaces, mark = commit_user or ctx.new_commit_user(), overwrite is not None, new_mark()
    job = WriteJob(
        ctx=write_task.mark_files(ctx, mark),
        commit_user=user,
        ignores_existing=replaces,
        is_batch=commit_user is None,
        row_kind=row_kind,
        parallelism=None,
        table=table,
        mark=mark,
    )
    return job, overwrite


# ---- rows to their tasks ---------------------------------------------------------------------------------------------


def _write_in_tasks(df: DataFrame, job: WriteJob, *, is_exact: bool | None = None) -> DataFrame:
    """Return the answers of the tasks of a write; the rows of one bucket go to one task.

    `is_exact`: whether Spark can be told the partition of a row, as from 4.1 on.
    """
    cut = job.parallelism
    if cut is None:
        sent = df
    elif cut.tasks == 1:
        sent = df.repartition(1).withColumn(TASK_COLUMN, functions.lit(0))
    elif is_exact or (is_exact is None and hasattr(df, "repartitionById")):
        sent = _add_task_column(df, job).repartitionById(cut.tasks, TASK_COLUMN)
    else:
        job = replace(job, task_signs=write_task.partition_signs(cut.tasks))
        sent = _add_task_column(df, job).repartition(cut.tasks, TASK_COLUMN)
    return sent.mapInArrow(partial(write_task.write_rows, job), write_task.RESULT_SCHEMA)


def _add_task_column(df: DataFrame, job: WriteJob) -> DataFrame:
    """Return the rows with the column of their task.

    Spark computes it where it can; else only the deciding columns go to Python, as from 4.1 on.
    """
    assert job.parallelism is not None
    types_of = {field.name: field.dataType for field in df.schema}
    columns = {
        own: (functions.col(name), types_of[name])
        for name, own in zip(df.columns, job.columns or df.columns, strict=True)
    }
    number = spark_task_number(job.ctx, job.parallelism, columns)
    if number is not None:
        return df.withColumn(
            TASK_COLUMN,
            number if job.task_signs is None else functions.get(functions.lit(list(job.task_signs)), number),
        )
    names = [
        name for name, own in zip(df.columns, job.columns or df.columns, strict=True) if own in job.tasks.column_names
    ]
    if names and hasattr(functions, "arrow_udf"):
        return df.withColumn(
            TASK_COLUMN,
            functions.arrow_udf(_make_task_function(job), spark_types.IntegerType())(functions.struct(*names)),
        )
    schema = spark_types.StructType(
        [*df.schema.fields, spark_types.StructField(TASK_COLUMN, spark_types.IntegerType())]
    )
    return df.mapInArrow(partial(write_task.add_task_column, job), schema)


def _make_task_function(job: WriteJob) -> Callable[[pa.Array], pa.Array]:
    def numbers(rows: pa.Array) -> pa.Array:
        return write_task.compute_task_numbers(job, pa.RecordBatch.from_struct_array(rows))

    return numbers
