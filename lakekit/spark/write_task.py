"""Run a task of a write: take Arrow batches, write them with `lakekit.write`, return commit messages.

    rows of the task  ->  conform  ->  Writers  ->  one row for each commit message: (message, null)
                                                    or one row where a value does not fit: (null, the error as JSON)

A bad value, or a damaged file, is returned and not raised: Spark would run the task again, four times, and fail again.
All else is raised, and what the attempt wrote is deleted before; every attempt draws new file names, so that no two
attempts write the same file. All names of a job's files end with the job's mark (data-…-9c41-5f6e7d8a9b0c-0.parquet):
where a job fails, the driver deletes by it what tasks had written that were through, or that Spark ended.
"""

from __future__ import annotations

import io
import json
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from lakekit import errors, sql
from lakekit.codec import hashing
from lakekit.columns import internal
from lakekit.commit import abort
from lakekit.errors import Corrupt, InvalidOption, LakekitError, NotFound, SchemaMismatch, Unsupported, ValueOutOfRange
from lakekit.maintenance import orphan_files
from lakekit.model import partition as partitions
from lakekit.model.commit_message import CommitMessage
from lakekit.runtime import new_mark, new_marked_id
from lakekit.spark import session
from lakekit.storage.protocol import FileMissing
from lakekit.write import row_conversion
from lakekit.write.bucket_assigners import WriteParallelism, WriteShard
from lakekit.write.router import TaskRouter
from lakekit.write.table_writers import BucketWriters
from lakekit.write.value_casting import ErrorHints

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from lakekit.dml.row_change import RowChange
    from lakekit.metadata.table_context import TableContext

TASK_COLUMN: Final = internal("task")
"""The column that says which task a row belongs to."""
COMBINED_BATCH_BYTES = 32 << 20
"""The bytes up to which batches are combined."""
RESULT_SCHEMA = spark.StructType(
    [spark.StructField("message", spark.BinaryType()), spark.StructField("wrong", spark.StringType())]
)
AFFECTED_COLUMN = "affected"
CHANGE_SCHEMA = spark.StructType([*RESULT_SCHEMA.fields, spark.StructField(AFFECTED_COLUMN, spark.LongType())])
"""The answers of a task of a change: those of a write, and how many rows were removed, changed and inserted."""
RECEIVER_COLUMN, SENDER_COLUMN, DATA_COLUMN = "to", "of", "data"
MESSAGE_SCHEMA = spark.StructType(
    [
        spark.StructField(RECEIVER_COLUMN, spark.IntegerType()),
        spark.StructField(SENDER_COLUMN, spark.IntegerType()),
        spark.StructField(DATA_COLUMN, spark.BinaryType()),
    ]
)
FROM_SOURCE = -1
"""The sender of letters with rows of the source; other letters have the group of their target rows."""
_MESSAGE_SCHEMA = pa.schema(
    [pa.field(RECEIVER_COLUMN, pa.int32()), pa.field(SENDER_COLUMN, pa.int32()), pa.field(DATA_COLUMN, pa.binary())]
)
REPORTED_ERRORS = (Corrupt, FileMissing, InvalidOption, NotFound, SchemaMismatch, Unsupported, ValueOutOfRange)
"""Errors that are returned and not raised: the next attempt would fail again. Another `StorageFailed` may not."""
SPARK_HINTS = ErrorHints(
    cast=" in Spark", cut="date_trunc('MILLISECOND', …)", grow=", or add it to the table with t.alter"
)
"""Writes of Spark have no `cast=` and no `merge_schema=`, and its times are finer than milliseconds only."""
_RESULT_SCHEMA = pa.schema([pa.field("message", pa.binary()), pa.field("wrong", pa.string())])


@dataclass(frozen=True, kw_only=True)
class WriteJob:
    """What all tasks of a write have in common.

    `task_signs`: the value that stands for each task in the column; None: its number.

    `table`: the table with its own options, where those of `ctx` keep tasks from compacting. `identifier`: the number
    of the commit among its user's, where it is known before the tasks. `text_zone`: the zone of INSERT, whose texts
    become dates, times and decimals; None: texts are texts.

    `mark`: what the names of all files of the job hold, if the context's ids have it.

    `columns`: the names of the frame's columns, where Spark has them under those of `positional_names`; it finds no
    column of a function whose name has a dot.
    """

    ctx: TableContext
    commit_user: str
    ignores_existing: bool
    is_batch: bool
    row_kind: str | None
    parallelism: WriteParallelism | None
    task_signs: tuple[int, ...] | None = None
    columns: tuple[str, ...] | None = None
    table: TableContext | None = None
    identifier: int | None = None
    text_zone: str | None = None
    mark: str = ""

    @cached_property
    def tasks(self) -> TaskRouter:
        """The router of rows to tasks. Only for a write with a `parallelism`."""
        assert self.parallelism is not None
        return TaskRouter.of(self.ctx, self.parallelism, replaces=self.ignores_existing, batch=self.is_batch)

    def __getstate__(self) -> dict[str, Any]:
        # without cached properties: each process computes its own
        return {field.name: getattr(self, field.name) for field in fields(self)}


def positional_names(count: int) -> list[str]:
    """Return names of columns by their position, which Spark finds whatever the columns are called."""
    return [internal(str(at)) for at in range(count)]


def partition_signs(count: int) -> tuple[int, ...]:
    """Return a number for each partition 0, 1, 2, … that Spark's `repartition` sends to it.

    Spark goes by the Murmur hash of the number, which is Paimon's too.
    """
    by_partition: dict[int, int] = {}
    number = 0
    while len(by_partition) < count:
        by_partition.setdefault(hashing.row_hash_code(number.to_bytes(4, "little")) % count, number)
        number += 1
    return tuple(by_partition[at] for at in range(count))


def parse_partition(text: str) -> dict[str, str]:
    """Return the partition of a text such as `dt=2024-03-31/hour=7`.

    Raises: `InvalidOption`.
    """
    try:
        pairs = partitions.parse_partition_path(text)
    except Corrupt:
        pairs = ()
    if not pairs:
        raise InvalidOption(
            f"partition={text!r}; write it as the partition's folder is called, dt=2024-03-31/hour=7",
            key="partition",
            value=text,
        )
    return dict(pairs)


# ---- files of a job --------------------------------------------------------------------------------------------------


_KILL_WAIT_S, _MAX_DELETIONS = 2.5, 4
"""How long a task that Spark ended may run on (`spark.python.task.killTimeout`), and how often files are looked for."""


def mark_files(ctx: TableContext, mark: str) -> TableContext:
    """Return a context whose tasks give all files names that hold the mark."""
    return replace(ctx, runtime=replace(ctx.runtime, new_id=partial(new_marked_id, mark)))


@contextmanager
def marked_job(ctx: TableContext) -> Iterator[TableContext]:
    """Give the context that the tasks of a job get. Where the job raises, no file that its tasks wrote is left.

    Spark does not return the answers of tasks that were through when another one failed, and ends those that still run
    some time later.
    """
    mark = new_mark()
    try:
        yield mark_files(ctx, mark)
    except BaseException as error:
        with suppress(LakekitError):  # what cannot be deleted is left to the cleaning of orphans
            delete_marked_files(ctx, mark, waits=not isinstance(error, LakekitError))
        raise


def delete_marked_files(ctx: TableContext, mark: str, *, waits: bool) -> None:
    """Delete the files of a job that failed. `waits`: tasks of it may still be running, and are waited for."""
    orphan_files.remove_marked_files(ctx, mark)
    for _ in range(_MAX_DELETIONS if waits else 0):
        time.sleep(_KILL_WAIT_S)
        if not orphan_files.remove_marked_files(ctx, mark):
            return


# ---- which task ------------------------------------------------------------------------------------------------------


def compute_task_numbers(job: WriteJob, batch: pa.RecordBatch) -> pa.Array:
    """Return the task of each row, computed from some of its columns: its number, or its sign.

    A row whose values do not fit may go anywhere: the task that reads it reports what is wrong with it.
    """
    ctx = job.ctx
    try:
        pieces = row_conversion.open_input(_to_table_columns(job, batch), ctx).iter_frames(ctx)
        frames = [row_conversion.convert_columns(frame, ctx, job.tasks.column_names) for frame in pieces]
        numbers = [job.tasks.task_numbers(frame) for frame in frames]
    except (ValueOutOfRange, SchemaMismatch):
        return pa.array(
            [0] * batch.num_rows if job.task_signs is None else [job.task_signs[0]] * batch.num_rows, pa.int32()
        )
    tasks = pa.concat_arrays([pa.array(part, pa.int32()) for part in numbers])
    return tasks if job.task_signs is None else pa.array(job.task_signs, pa.int32()).take(tasks)


def add_task_column(job: WriteJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches with the column that says which task their rows belong to."""
    for batch in batches:
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, compute_task_numbers(job, batch)], [*batch.schema.names, TASK_COLUMN]
        )


def _to_table_columns(job: WriteJob, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns as the table has them, under their own names."""
    if job.columns is not None:
        own = dict(zip(positional_names(len(job.columns)), job.columns, strict=True))
        batch = batch.rename_columns([own[name] for name in batch.schema.names])
    return convert_texts(convert_times(batch, job.ctx), job.ctx, job.text_zone)


def convert_texts(batch: pa.RecordBatch, ctx: TableContext, zone: str | None) -> pa.RecordBatch:
    """Return texts as the values of their columns, as INSERT stores them; all as they are without a zone.

    Raises: `ValueOutOfRange` for a text that is no value of its column.
    """
    names = [field.name for field in batch.schema if _is_text(field.type) and ctx.schema.has(field.name)]
    if zone is None or not names:
        return batch
    frame = pl.DataFrame(pl.from_arrow(batch.select(names)))
    stored = sql.store_assignment.store_texts(frame, ctx.schema.fields, zone)
    for name in names:  # scalar: one a column
        if stored.schema[name] != frame.schema[name]:
            batch = batch.set_column(batch.schema.get_field_index(name), name, stored[name].to_arrow())
    return batch


def convert_times(batch: pa.RecordBatch, ctx: TableContext) -> pa.RecordBatch:
    """Return Spark's columns as the table has them: a TIME is a number of milliseconds in Spark."""
    for at, field in enumerate(batch.schema):
        if (
            pa.types.is_int32(field.type)
            and ctx.schema.has(field.name)
            and ctx.schema.field(field.name).type.root == "TIME"
        ):
            batch = batch.set_column(at, field.name, batch.column(at).cast(pa.time32("ms")))
    return batch


def _is_text(t: pa.DataType) -> bool:
    return pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t)


# ---- its rows --------------------------------------------------------------------------------------------------------


def write_rows(job: WriteJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the rows of a task, and yield its answers as the module describes them.

    Raises: what writing raises; then no file of this attempt is left.
    """
    session.freeze_imports()
    waiting = (batch for batch in batches if batch.num_rows)
    first = next(waiting, None)
    if first is None:
        return
    writers = BucketWriters(
        job.ctx,
        commit_user=job.commit_user,
        replaces=job.ignores_existing,
        batch=job.is_batch,
        shard=_find_shard(job, first),
    )
    try:
        for frame in _to_frames(job, chain([first], waiting)):
            writers.write(frame)
        messages = writers.prepare(identifier=job.identifier)
    except REPORTED_ERRORS as wrong:
        answer = encode_failure(wrong)
    else:
        answer = [_encode_answer(message) for message in messages]
    finally:
        writers.abort()
    yield from yield_answers(job.ctx, answer)


def yield_answers(ctx: TableContext, answers: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield answers. Where they are not taken, the files of their messages are deleted."""
    try:
        yield from answers
    except BaseException:
        with suppress(LakekitError):
            abort.abort(ctx, [message for batch in answers for message in _decode_messages(batch)])
        raise


def _find_shard(job: WriteJob, first: pa.RecordBatch) -> WriteShard | None:
    if job.parallelism is None:
        return None
    sign = first.column(TASK_COLUMN)[0].as_py()  # scalar: one a task
    return WriteShard(parallelism=job.parallelism, task=sign if job.task_signs is None else job.task_signs.index(sign))


def _to_frames(job: WriteJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
    rows = (
        _to_table_columns(job, batch)
        for batch in _combine_batches(batches if job.parallelism is None else _check_one_task(batches))
    )
    return row_conversion.convert_batches(rows, job.ctx, row_kind=job.row_kind, error_hints=SPARK_HINTS)


def _combine_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in fewer batches.

    Looking at every column of a batch takes its time, and Spark's batches are small.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        waiting.append(batch)
        rows, size_bytes = rows + batch.num_rows, size_bytes + batch.nbytes
        if rows >= row_conversion.BATCH_ROWS or size_bytes >= COMBINED_BATCH_BYTES:
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
            waiting, rows, size_bytes = [], 0, 0
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


def _check_one_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches without the column of their task.

    Raises: `Unsupported` where Spark brought rows of two tasks together: a key could come to lie in two buckets.
    """
    own: int | None = None
    for batch in batches:
        bounds = pc.min_max(batch.column(TASK_COLUMN))
        least, greatest = bounds["min"].as_py(), bounds["max"].as_py()  # scalar: one a batch
        own = least if own is None else own
        if not own == least == greatest:
            raise Unsupported(
                f"this Spark brought the rows of tasks {own} and {greatest} together, and each needs one of its own",
                feature="spark.write",
            )
        yield batch.drop_columns([TASK_COLUMN])


# ---- answers ---------------------------------------------------------------------------------------------------------


def _encode_answer(message: CommitMessage | None = None, *, error: LakekitError | None = None) -> pa.RecordBatch:
    data = None if message is None else message.to_bytes()
    return pa.record_batch(
        [pa.array([data], pa.binary()), pa.array([None if error is None else _failure_to_json(error)], pa.string())],
        schema=_RESULT_SCHEMA,
    )


def encode_messages(messages: Iterable[CommitMessage]) -> list[pa.RecordBatch]:
    """Return messages as answers of a task."""
    return [_encode_answer(message) for message in messages]


def encode_failure(error: LakekitError) -> list[pa.RecordBatch]:
    """Return an error as the answer of a task."""
    return [_encode_answer(error=error)]


def _decode_messages(batch: pa.RecordBatch) -> list[CommitMessage]:
    return [
        CommitMessage.from_bytes(data) for data in batch.column("message").to_pylist() if data is not None
    ]  # scalar: one a bucket


def _failure_to_json(error: LakekitError) -> str:
    name = next(base.__name__ for base in type(error).__mro__ if hasattr(errors, base.__name__))
    return json.dumps(
        {"error": name, "message": error.message, "fields": {name: getattr(error, name) for name in error.names}},
        default=str,
    )


def decode_answers(rows: Iterable[Any]) -> tuple[list[CommitMessage], LakekitError | None]:
    """Return the messages of all tasks, and the first error that one of them reported."""
    messages: list[CommitMessage] = []
    wrong: LakekitError | None = None
    for row in rows:  # scalar: one a bucket
        if row["message"] is not None:
            messages.append(CommitMessage.from_bytes(bytes(row["message"])))
        else:
            wrong = wrong or decode_failure(row["wrong"])
    return messages, wrong


def decode_failure(text: str) -> LakekitError:
    """Return the error that a task reported."""
    decoded = json.loads(text)
    failure: LakekitError = getattr(errors, decoded["error"])(decoded["message"], **decoded["fields"])
    return failure


def encode_change(change: RowChange) -> list[pa.RecordBatch]:
    """Return what a task did as its answers, the first of which has the number of affected rows."""
    answers = encode_messages(change.prepare())
    return [_with_count(answer, 0 if at else change.affected_row_count) for at, answer in enumerate(answers)]


def encode_error(wrong: LakekitError) -> list[pa.RecordBatch]:
    """Return an error as the answer of a task."""
    return [_with_count(answer, 0) for answer in encode_failure(wrong)]


def _with_count(answer: pa.RecordBatch, count: int) -> pa.RecordBatch:
    return answer.append_column(AFFECTED_COLUMN, pa.array([count], pa.int64()))


# ---- letters between tasks -------------------------------------------------------------------------------------------


def pack_messages(frame: pl.DataFrame, group_ids: NDArray[np.int32], sender: int) -> pa.RecordBatch:
    """Return the rows for each address as a letter."""
    addresses = np.unique(group_ids).tolist()
    data = [_to_ipc_bytes(frame.filter(pl.Series(group_ids == number))) for number in addresses]  # scalar: one a letter
    return pa.RecordBatch.from_arrays(
        [pa.array(addresses, pa.int32()), pa.array([sender] * len(addresses), pa.int32()), pa.array(data, pa.binary())],
        schema=_MESSAGE_SCHEMA,
    )


def _to_ipc_bytes(frame: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.write_ipc_stream(out)
    return out.getvalue()


def repartition_letters(letters: DataFrame, count: int) -> DataFrame:
    """Return the letters with those of one address in one task.

    A task may have several addresses where Spark cannot be told the partition of a row, which it can from 4.1 on.
    """
    if count == 1:
        return letters.repartition(1)
    return (
        letters.repartitionById(count, RECEIVER_COLUMN)
        if hasattr(letters, "repartitionById")
        else letters.repartition(count, RECEIVER_COLUMN)
    )
