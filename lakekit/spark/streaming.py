"""Tables as streams of Spark: what snapshots bring is read, each micro-batch is committed once.

    spark.readStream.format("lakekit").option("row_kind", "_row_kind").load(path)
    df.writeStream.format("lakekit").option("checkpointLocation", …).start(path)

An offset is `{"snapshot": 7, "first": 5, "state": 0, "made": "…"}`: all that snapshots up to 7 brought; the batch that
ends there, were it the first one, begins with snapshot 5, or with the whole state of 7. `made` tells that snapshot from
another of its id, as after a rollback, which ends the stream. Snapshots bring the same rows as in `t.follow()`,
`read.stream`; a batch ends between two snapshots. The option `row_kind` names the column of kinds that each row gets;
without it rows that take something away are left out.

A batch of many snapshots has rows of a key from several of them, and tasks run in parallel. So what a bucket of a key
table brought is one task of a batch, in the order of its snapshots: a sink that is reached without a shuffle writes
rows of a key as they came. Of append tables, whose rows have no keys, files are read in any task: a key table that is
filled from them knows the newer row by its `sequence.field`.

The commit user of a sink follows from its checkpoint, the identifier is the number of the batch: a batch that is
replayed is there already, and nothing happens. A checkpoint that is begun again has another user where it lies on a
disk; in a store give it another path, else its batches are taken for those of the first one.

Needs PySpark 4.2 or newer.

Source: ENGINE.md 6.9; `StreamingReadMode`, `PaimonSparkSourceOffset`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceStreamArrowWriter, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from lakekit import storage
from lakekit.columns import ROW_KIND, col, collect_batches
from lakekit.commit import abort as abandoned, committer as publishing
from lakekit.errors import Corrupt, InvalidOption, SnapshotNotFound
from lakekit.metadata import snapshots
from lakekit.model.manifest_entries import ADD
from lakekit.read import stream as following, table_scan
from lakekit.read.planner import NO_FILTER
from lakekit.read.time_travel import Position
from lakekit.spark import batch_read, batch_write, data_source, session, tasks as spark_tasks, types
from lakekit.spark.data_source import sentence_first
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

    from lakekit.commit.overwrite import Overwrite
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot
    from lakekit.read.planner import Plan
    from lakekit.read.stream import StreamBatch, StreamCursor
    from lakekit.spark.data_source import TaskResults
    from lakekit.spark.write_task import WriteJob
    from lakekit.table.table import Table
    from lakekit.types import Field

    Offset = dict[str, Any]

READ_LIMITS = {"maxfilespertrigger": ReadMaxFiles, "maxrowspertrigger": ReadMaxRows, "maxbytespertrigger": ReadMaxBytes}
"""Options that end a batch early, in lower case as Spark hands options over; `read.stream.` may stand before them."""
_NO_SNAPSHOT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPartition:
    """What a task of a stream reads: a task's bytes with the columns of a snapshot's schema.

    Where `task` is None, it reads all that the snapshot brought. `only_retractions`: only rows that take away, or only
    those that add.
    """

    snapshot_id: int
    schema_id: int
    is_state: bool
    task: bytes | None
    only_retractions: bool | None = None


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a stream of snapshots: the offsets of its batches, and their tasks."""

    def __init__(self, table: Table, schema: StructType, options: Mapping[str, str]) -> None:
        self.kind_column = options.get("row_kind")
        self.limit = parse_read_limit(options)
        ctx = batch_read.context_for_tasks(table, None, None)
        self.stream = following.open_stream(ctx)
        self.output_fields = batch_read.select_schema_columns(self.stream.fields, schema, ctx.name, self.kind_column)
        self.where = batch_read.parse_filter(ctx, options.get("filter")).condition
        self.newest_id: int | None = None

    # ---- offsets

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return the offset before everything."""
        return {"snapshot": _NO_SNAPSHOT, "first": 0, "state": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of a batch that the options set."""
        return self.limit

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read nothing from here on that is newer than the newest snapshot now."""
        self.newest_id = snapshots.latest_id(self.stream.ctx) or 0

    @sentence_first
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return the end of the next batch: as far as snapshots exist and the limit allows; at least one."""
        if start["snapshot"] == _NO_SNAPSHOT:
            begun = self.stream.find_start()
            if begun is None:
                return start
            if begun.initial_state is not None and begun.initial_state.snapshot is not None:
                return self._offset(begun.initial_state.snapshot.id, first=begun.next_id, state=1)
            last = self._last_id_within_limit(begun.next_id, limit)
            return self._offset(last, first=begun.next_id, state=0)
        self._check_offset(start)
        last = self._last_id_within_limit(start["snapshot"] + 1, limit)
        return start if last == start["snapshot"] else self._offset(last, first=0, state=0)

    def _offset(self, snapshot_id: int, *, first: int, state: int) -> Offset:
        snapshot = snapshots.find_change(self.stream.ctx, snapshot_id) if snapshot_id > 0 else None
        return {"snapshot": snapshot_id, "first": first, "state": state} | (
            {} if snapshot is None else {"made": _snapshot_fingerprint(snapshot)}
        )

    def _check_offset(self, offset: Offset) -> None:
        """Raise `SnapshotNotFound` where the snapshot in an offset was taken back, or another one has its id now.

        Otherwise rows of the removed snapshot would stay for ever.
        """
        if "made" not in offset:
            return
        current = snapshots.find_change(self.stream.ctx, offset["snapshot"])
        newest = snapshots.latest_id(self.stream.ctx) or 0
        if current is None and newest < offset["snapshot"]:
            msg = (
                f"the stream of {self.stream.ctx.name} told snapshot {offset['snapshot']}, and {newest} is the newest "
                "one now: the table was rolled back or made anew. Begin anew with another checkpoint"
            )
            raise SnapshotNotFound(msg, name=str(offset["snapshot"]))
        if current is not None and _snapshot_fingerprint(current) != offset["made"]:
            msg = (
                f"the stream of {self.stream.ctx.name} told snapshot {current.id}, and another one has its number now: "
                "the table was rolled back, made anew, or moved forward to a branch. Begin anew with another checkpoint"
            )
            raise SnapshotNotFound(msg, name=str(current.id))

    def _last_id_within_limit(self, first: int, limit: ReadLimit) -> int:
        """Return the last snapshot of a batch that begins with `first`; `first - 1` where there is none yet."""
        room = None if isinstance(limit, ReadAllAvailable) else _limit_value(limit)
        number = first
        while self.newest_id is None or number <= self.newest_id:
            snapshot = self.stream.find_snapshot(number)
            if snapshot is None or self.stream.ends_before(snapshot) or self.stream.delay_ms(snapshot) > 0:
                break
            if room is not None:
                batch = self.stream.read_batch(snapshot)
                room -= 0 if batch is None else _measure_batch(batch, limit)
                if room < 0 and number > first:
                    break
            number += 1
        return number - 1

    # ---- batches

    @sentence_first
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the tasks of a batch."""
        if start["snapshot"] == end["snapshot"]:
            return []
        self._check_offset(end)  # of a batch that is done again
        begins = start["snapshot"] == _NO_SNAPSHOT
        state_parts = [(part,) for part in self._plan_state(end["snapshot"])] if begins and end["state"] else []
        batches: list[tuple[StreamBatch, Plan | None]] = []
        for number in range(end["first"] if begins else start["snapshot"] + 1, end["snapshot"] + 1):
            snapshot = self.stream.find_snapshot(number)
            brought = None if snapshot is None else self.stream.read_batch(snapshot)
            if brought is not None:
                batches.append((brought, brought.plan(NO_FILTER)))
        return [InputPartition(parts) for parts in (*state_parts, *self._plan_batches(batches))]

    def _plan_state(self, number: int) -> list[StreamPartition]:
        ctx = self.stream.ctx
        snapshot = snapshots.read_snapshot(ctx, number)
        created = (
            ctx.options.scan_file_creation_time_millis if ctx.options.scan_mode == "from-file-creation-time" else None
        )
        state = self.stream.read_state(Position(snapshot=snapshot, created_since_ms=created), snapshot)
        merged, lying = state.plans(NO_FILTER)
        parts = [
            StreamPartition(snapshot_id=number, schema_id=snapshot.schema_id, is_state=True, task=task)
            for task in spark_tasks.plan_tasks(merged, merged.raw_indices, session.DEFAULT_SLOTS)
        ]
        if lying is not None:
            parts += [
                StreamPartition(snapshot_id=number, schema_id=snapshot.schema_id, is_state=False, task=task)
                for task in spark_tasks.plan_tasks(lying, lying.raw_indices, session.DEFAULT_SLOTS)
            ]
        return parts

    def _plan_batches(self, batches: Sequence[tuple[StreamBatch, Plan | None]]) -> list[tuple[StreamPartition, ...]]:
        """Return the tasks of what snapshots brought.

        All rows that may be of one key are one task; an overwrite is of all keys, and so are keys that move between
        partitions.
        """
        if not self.stream.ctx.schema.primary_keys:
            return [
                (part,)
                for batch, plan in batches
                if plan is not None
                for part in _make_partitions(
                    batch, spark_tasks.plan_tasks(plan, plan.raw_indices, session.DEFAULT_SLOTS)
                )
            ]
        moves = self.stream.ctx.schema.cross_partition
        is_one = moves or any(plan is None for _, plan in batches)
        by_bucket: dict[object, list[StreamPartition]] = {}
        for batch, plan in batches:
            tasks: list[tuple[object, bytes | None]] = (
                [((), None)] if plan is None else [*spark_tasks.tasks_by_bucket(plan).items()]
            )
            parts = _make_partitions(batch, [task for _, task in tasks])
            if moves:  # a key leaves one partition before it comes into another
                parts = [replace(part, only_retractions=takes) for takes in (True, False) for part in parts]
            own = [()] * len(parts) if is_one else [bucket_id for bucket_id, _ in tasks]
            for bucket_id, part in zip(own, parts, strict=True):
                by_bucket.setdefault(bucket_id, []).append(part)
        return [tuple(parts) for parts in by_bucket.values()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task, in an executor."""
        parts: tuple[StreamPartition, ...] | None = partition.value
        for part in parts or ():
            for batch in self._read_partition(part):
                yield batch if part.only_retractions is None else self._select_kinds(batch, takes=part.only_retractions)

    def _select_kinds(self, batch: pa.RecordBatch, *, takes: bool) -> pa.RecordBatch:
        """Return the rows that take away, or those that add; without kinds all of them add."""
        if self.kind_column is None:
            return batch.slice(0, 0) if takes else batch
        taken = pc.is_in(batch.column(self.kind_column), pa.array(["-U", "-D"]))
        return batch.filter(taken if takes else pc.invert(taken))

    def _read_partition(self, part: StreamPartition) -> Iterator[pa.RecordBatch]:
        ctx = self.stream.ctx
        if part.schema_id > ctx.newest_schema_id:
            ctx = table_scan.refresh_options(ctx, self.stream.fields, "follow()")
        output_fields = batch_read.with_kind(self.kind_column, self.output_fields, numbered=False)
        if part.task is None:
            yield from self._overwrite_task(ctx, part, output_fields)
            return
        fields = batch_read.columns_to_read(ctx, self.output_fields, batch_read.RowFilter(condition=self.where))
        plain = types.read_fields(self.output_fields)
        if part.is_state:
            what = spark_tasks.ReadJob(ctx=ctx, fields=fields, output_fields=plain, condition=self.where)
            yield from (
                batch if self.kind_column is None else _add_kind_column(batch, output_fields)
                for batch in spark_tasks.read_task_batches(what, part.task)
            )
        else:
            yield from spark_tasks.read_task_batches(
                spark_tasks.ReadJob(
                    ctx=ctx,
                    fields=fields,
                    output_fields=output_fields,
                    condition=self.where,
                    mode="written",
                    kind_column=self.kind_column,
                ),
                part.task,
            )

    def _overwrite_task(
        self, ctx: TableContext, part: StreamPartition, output_fields: Sequence[Field]
    ) -> Iterator[pa.RecordBatch]:
        """Yield what an overwrite removed and added, which is one task."""
        stream: StreamCursor = replace(self.stream, ctx=ctx)
        batch = stream.read_batch(snapshots.read_snapshot(ctx, part.snapshot_id))
        if batch is None:
            return
        kind = pl.col(ROW_KIND)
        rows = batch.resolve().frame(NO_FILTER, None)
        rows = (
            rows.filter(kind.is_in(["+I", "+U"]))
            if self.kind_column is None
            else rows.rename({ROW_KIND: self.kind_column})
        )
        if self.where is not None:
            rows = rows.filter(self.where)
        selected = rows.select(col(field.name) for field in output_fields)
        for frame in collect_batches(selected, chunk_size=spark_tasks.BATCH_ROWS):
            yield types.to_batch(frame, output_fields)

    def commit(self, end: Offset) -> None:
        """Move a consumer's position behind a batch that is through."""
        self.stream.offset.reach(end["snapshot"] + 1)


def _snapshot_fingerprint(snapshot: Snapshot) -> str:
    """Return a short text that tells a snapshot from another of its id."""
    return sha256(repr(following.snapshot_identity(snapshot)).encode()).hexdigest()[:16]


def _make_partitions(batch: StreamBatch, tasks: Sequence[bytes | None]) -> list[StreamPartition]:
    snapshot = batch.snapshot
    return [
        StreamPartition(snapshot_id=snapshot.id, schema_id=snapshot.schema_id, is_state=False, task=task)
        for task in tasks
    ]


def parse_read_limit(options: Mapping[str, str]) -> ReadLimit:
    """Return the limit of a batch among the options of a source.

    Raises: `InvalidOption`.
    """
    settings = {
        key.lower().removeprefix(data_source.STREAM_PREFIX): (key, value)
        for key, value in options.items()
        if key.lower().startswith(data_source.STREAM_PREFIX) or key.lower() in READ_LIMITS
    }
    if unknown := [key for word, (key, _) in settings.items() if word not in READ_LIMITS]:
        raise InvalidOption(
            f"no option is called {unknown[0]!r}; there are {', '.join(data_source.LIMIT_OPTIONS.values())}",
            key=unknown[0],
        )
    if len(settings) > 1:
        names = ", ".join(key for key, _ in settings.values())
        raise InvalidOption(
            f"{names} all say how big a batch is: give one of them", key=next(iter(settings.values()))[0]
        )
    for word, (key, value) in settings.items():
        if not value.isdecimal() or int(value) == 0:
            raise InvalidOption(f"{key}={value!r} is no whole number above 0", key=key, value=value)
        return READ_LIMITS[word](int(value))
    return ReadAllAvailable()


def _limit_value(limit: ReadLimit) -> int:
    match limit:
        case ReadMaxFiles():
            return int(limit.max_files)
        case ReadMaxRows():
            return int(limit.max_rows)
        case ReadMaxBytes():
            return int(limit.max_bytes)
    return 1 << 62


def _measure_batch(batch: StreamBatch, limit: ReadLimit) -> int:
    """Return how much a snapshot brings, in the unit of the limit."""
    entries = batch.entries.filter(batch.entries.integers("kind") == ADD)
    match limit:
        case ReadMaxRows():
            return int(entries.integers("row_count").sum())
        case ReadMaxBytes():
            return int(entries.integers("file_size").sum())
    return len(entries)


def _add_kind_column(batch: pa.RecordBatch, output_fields: Sequence[Field]) -> pa.RecordBatch:
    """Return rows of a state with their kind: all are new to a stream."""
    kinds = pa.repeat(pa.scalar("+I"), batch.num_rows)
    return pa.RecordBatch.from_arrays([kinds, *batch.columns], schema=types.arrow_schema(output_fields))


# ---- sink ------------------------------------------------------------------------------------------------------------


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of micro-batches; with an `overwrite` each replaces the table (output mode complete)."""

    def __init__(self, job: WriteJob, overwrite: Overwrite | None) -> None:
        self.job, self.overwrite = job, overwrite

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResults:
        """Write the rows of a task."""
        return data_source.write_task_rows(self.job, iterator)

    @sentence_first
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit a batch, and compact where readers need it.

        If the batch was committed before, what was written again is deleted.
        """
        ctx = self.job.ctx
        collected = batch_write.collect_messages(ctx, data_source.collect_answers(messages))
        if publishing.find_commit(ctx, commit_user=self.job.commit_user, identifier=batchId) is not None:
            abandoned.abort(ctx, collected)
            # its process may have ended between the commit and the compaction
            batch_write.compact_job(self.job, collected, identifier=batchId)
            return
        batch_write.commit_job(self.job, collected, identifier=batchId, overwrite=self.overwrite, is_new_user=False)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002
        """Delete what tasks wrote that will not be committed."""
        data_source.delete_task_files(self.job, messages)


def commit_user_of(checkpoint: str | None) -> str:
    """Return the commit user of a query: the same one whenever it goes on from its checkpoint.

    A checkpoint on a disk holds the id of the query that began it: a query that is begun again at its path counts its
    batches from 0 again. In a store the path itself is the identity.

    Raises: `InvalidOption`, `Corrupt`.
    """
    if not checkpoint:
        msg = (
            "a stream into a table commits each batch once, which it knows by its checkpoint: "
            ".option('checkpointLocation', …)"
        )
        raise InvalidOption(msg, key="checkpointLocation")
    query = _read_query_id(checkpoint) or checkpoint.rstrip("/")
    return f"spark-{sha256(query.encode()).hexdigest()[:32]}"


def _read_query_id(checkpoint: str) -> str | None:
    """Return the id that Spark gave the query of a checkpoint; None where it is on no local disk.

    Spark draws it before the first batch.
    """
    if not checkpoint.startswith("file:") and ":/" in checkpoint:
        return None
    store, path = storage.open(checkpoint)
    try:
        return str(json.loads(store.read(f"{path}/metadata"))["id"])
    except FileMissing:
        return None
    except (ValueError, KeyError, TypeError) as wrong:
        raise Corrupt(
            f"{path}/metadata is no file of a checkpoint of Spark: {wrong}", path=f"{path}/metadata"
        ) from None
