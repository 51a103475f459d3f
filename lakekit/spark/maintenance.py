"""Maintenance of a table by Spark tasks: the driver plans, decides and commits; tasks do the bulk.

    ls.rewrite_file_index(spark, table)     files are read, and their indexes built, by tasks; one commit
    ls.analyze(spark, table)                tasks compute statistics of rows, which are combined; one commit
    ls.remove_orphans(spark, table)         partitions and buckets are listed, and files deleted, by tasks
    ls.expire_snapshots(spark, table)       the driver removes the snapshots and looks at all that is left;
                                            then tasks delete the files
    ls.refresh(spark, table)                of an object table the location is listed by tasks; one commit
    ls.compact(spark, table, full=True)     some buckets a task, one after the other: as many tasks as run at once, more
                                            where a task would have much to do again after a failure; where rows are
                                            sorted, or compaction goes by partition, some partitions; a big partition
                                            of an append table without buckets is divided by the files that become
                                            one; one commit

The code of `t.…` decides in the driver what may be deleted, and which buckets of the newest snapshot are looked at
(`maintenance.expire`, `maintenance.orphan_files`, `maintenance.compact`): a task only deletes what is no longer needed,
and one that fails leaves orphans. Where another compaction was faster nothing changes, and the new files are deleted.

Pieces of work and results are bytes (`run_in_tasks`). A `LakekitError` is returned and not raised: storages have tried
again by then, and the driver, which gets the results of the other tasks, can delete their files and raise the error as
it is. All else is raised, and Spark runs the task again.
"""

from __future__ import annotations

import heapq
import json
from base64 import b64decode, b64encode
from contextlib import suppress
from dataclasses import replace
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, TypeVar

import polars as pl
import pyarrow as pa

from lakekit.bucket import append_compaction
from lakekit.bucket.restore import SnapshotBuckets
from lakekit.commit import abort
from lakekit.commit.committer import commit_changes_once
from lakekit.errors import InvalidOption, LakekitError
from lakekit.format_table import object_table
from lakekit.maintenance import (
    after_commit,
    analyze as analyzing,
    compact as dedicated_compaction,
    expire,
    orphan_files,
    rewrite,
    rewrite_file_index as file_indexes,
)
from lakekit.maintenance.arguments import before_ms
from lakekit.maintenance.rewrite_file_index import FileBatch
from lakekit.metadata import snapshots
from lakekit.model.commit_message import CommitMessage
from lakekit.read.table_scan import context_of
from lakekit.spark import batch_read, session, tasks as spark_tasks, write_task
from lakekit.spark.batch_read import RowFilter
from lakekit.spark.batch_write import handle_of
from lakekit.storage.protocol import Stat
from lakekit.table.format_tables import ObjectTable, commit_listing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta
    from os import PathLike

    from pyspark.sql import SparkSession

    from lakekit.bucket.sort_order import Strategy
    from lakekit.commit.changes import Commit
    from lakekit.maintenance.compact import CompactRequest
    from lakekit.maintenance.result import DeletionResult
    from lakekit.maintenance.rewrite import SortedPartitions
    from lakekit.metadata.table_context import TableContext
    from lakekit.read.table_scan import TableScan
    from lakekit.spark.tasks import ReadJob
    from lakekit.storage.protocol import Storage
    from lakekit.table.table import Table
    from lakekit.types import Field
    from lakekit.write.table_writers import BucketId

    Work = Callable[[bytes], Iterator[bytes]]
    CompactionPiece = tuple[tuple[BucketId, ...], tuple[int, int]]
    """Buckets that are compacted together, and which part of how many of their file groups."""


A = TypeVar("A")
P = TypeVar("P", bytes, "CompactionPiece", "BucketId")

MIN_DISTRIBUTED_DIRECTORIES, MIN_DISTRIBUTED_FILES = 8, 500
"""Up to so many are listed or deleted in this process, before Spark would have started tasks."""
TASKS_PER_SLOT = 4
"""Tasks that one slot does in turn: few enough to start, enough that no slot waits long for the slowest."""
_RESULT_SCHEMA = pa.schema([pa.field("message", pa.binary()), pa.field("wrong", pa.string())])


def run_in_tasks(spark: SparkSession, pieces: Sequence[bytes], work: Work) -> tuple[list[bytes], LakekitError | None]:
    """Return what `work` yields for all pieces, in no order, and the first error, if there was one.

    `work` is closed where what it yields is not taken, and then undoes what it did.

    Raises: what Spark raises where a task dies too often.
    """
    results: list[bytes] = []
    wrong: LakekitError | None = None
    for row in (
        session.run(spark, pieces, partial(_run_piece, work), write_task.RESULT_SCHEMA).collect() if pieces else []
    ):  # scalar: some a task
        if row["wrong"] is None:
            results.append(bytes(row["message"]))
        else:
            wrong = wrong or write_task.decode_failure(row["wrong"])
    return results, wrong


def _run_piece(work: Work, task_data: bytes) -> Iterator[pa.RecordBatch]:
    try:
        for data in work(task_data):
            yield pa.record_batch([pa.array([data], pa.binary()), pa.array([None], pa.string())], schema=_RESULT_SCHEMA)
    except LakekitError as wrong:
        yield from write_task.encode_failure(wrong)


def split_evenly(items: Sequence[A], count: int) -> Iterator[Sequence[A]]:
    """Yield neighbours together, in `count` parts of one size, or fewer."""
    size = max(1, -(-len(items) // max(1, count)))
    return (items[at : at + size] for at in range(0, len(items), size))


# ---- directories and files -------------------------------------------------------------------------------------------


def make_lister(spark: SparkSession, storage: Storage) -> Callable[[Sequence[str]], list[list[Stat]]]:
    """Return a function that lists directories: in tasks, or in this process where they are few."""

    def listed(directories: Sequence[str]) -> list[list[Stat]]:
        if len(directories) <= MIN_DISTRIBUTED_DIRECTORIES:
            return [storage.list(requested) for requested in directories]
        pieces = [
            json.dumps(part).encode() for part in split_evenly(directories, TASKS_PER_SLOT * session.slots(spark))
        ]
        results, wrong = run_in_tasks(spark, pieces, partial(_list_directories, storage))
        if wrong is not None:
            raise wrong
        by_directory = {directory: stats for data in results for directory, stats in json.loads(data).items()}
        return [
            [
                Stat(path=path, size_bytes=size, modified_ms=time, is_dir=is_dir)
                for path, size, time, is_dir in by_directory[requested]
            ]
            for requested in directories
        ]

    return listed


def _list_directories(storage: Storage, task_data: bytes) -> Iterator[bytes]:
    for directory in json.loads(task_data):
        yield json.dumps(
            {
                directory: [
                    (stat.path, stat.size_bytes, stat.modified_ms, stat.is_dir) for stat in storage.list(directory)
                ]
            }
        ).encode()


def make_deleter(spark: SparkSession, storage: Storage) -> Callable[[Sequence[str]], None]:
    """Return a function that deletes files: in tasks, or in this process where they are few.

    It raises `StorageFailed` where some could not be deleted; the others are deleted.
    """

    def deleted(paths: Sequence[str]) -> None:
        if len(paths) <= MIN_DISTRIBUTED_FILES:
            storage.delete(paths)
            return
        pieces = [json.dumps(part).encode() for part in split_evenly(paths, TASKS_PER_SLOT * session.slots(spark))]
        _, wrong = run_in_tasks(spark, pieces, partial(_delete_paths, storage))
        if wrong is not None:
            raise wrong

    return deleted


def _delete_paths(storage: Storage, task_data: bytes) -> Iterator[bytes]:
    storage.delete(json.loads(task_data))
    yield b""


# ---- maintenance ------------------------------------------------------------


# ---- indexes of files ------------------------------------------------------------------------------------------------


def rewrite_file_index(
    spark: SparkSession,
    table_or_path: Table | str | PathLike[str],
    *,
    where: pl.Expr | str | None = None,
    rebuild: bool = False,
) -> Commit:
    """Rewrite file indexes by Spark tasks, some files each, in one commit, as `t.rewrite_file_index` does.

    Raises: as `t.rewrite_file_index`, and what Spark raises where a task failed too often. After an error nothing was
    committed, and files that were made are deleted.
    """
    session.check(spark)
    ctx = handle_of(table_or_path)
    count = TASKS_PER_SLOT * session.slots(spark)
    tasks = [_encode_batches(batches) for batches in split_evenly(file_indexes.plan_batches(ctx, where, count), count)]
    with write_task.marked_job(replace(ctx, catalog_env=None)) as marked:
        answers, wrong = run_in_tasks(spark, tasks, partial(_rewrite_indexes, marked, rebuild=rebuild))
    messages = [CommitMessage.from_bytes(data) for data in answers]
    if wrong is not None:
        file_indexes.delete_index_files(ctx, messages)
        raise wrong
    return file_indexes.commit_indexes(ctx, messages)


def _encode_batches(batches: Sequence[FileBatch]) -> bytes:
    """Return batches as the bytes of a task: a message with their files, and the files' earlier indexes."""
    encoded = []
    for batch in batches:
        message = CommitMessage(
            partition=batch.partition,
            bucket=batch.bucket,
            total_buckets=batch.total_buckets,
            compact_before=batch.files,
        )
        before = [
            (name, None if data is None else b64encode(data).decode(), extra)
            for name, data, extra in batch.earlier_entries
        ]
        encoded.append((b64encode(message.to_bytes()).decode(), before))
    return json.dumps(encoded).encode()


def _decode_batches(task_data: bytes) -> Iterator[FileBatch]:
    for data, before in json.loads(task_data):
        message = CommitMessage.from_bytes(b64decode(data))
        yield FileBatch(
            partition=message.partition,
            bucket=message.bucket,
            total_buckets=message.total_buckets or 0,
            files=message.compact_before,
            earlier_entries=frozenset(
                (name, None if index is None else b64decode(index), tuple(extra)) for name, index, extra in before
            ),
        )


def _rewrite_indexes(ctx: TableContext, task_data: bytes, *, rebuild: bool) -> Iterator[bytes]:
    """Yield the messages of a task. Its files are deleted if it fails or its messages are not taken."""
    messages: list[CommitMessage] = []
    try:
        for batch in _decode_batches(task_data):
            messages += file_indexes.rewrite_batch(ctx, batch, rebuild=rebuild)
        for message in messages:
            yield message.to_bytes()
    except BaseException:
        file_indexes.delete_index_files(ctx, messages)
        raise


# ---- statistics ------------------------------------------------------------------------------------------------------


def analyze(
    spark: SparkSession, table_or_path: Table | str | PathLike[str], *, columns: Sequence[str] | None = None
) -> Commit:
    """Compute the statistics of `t.analyze` by Spark tasks, in a snapshot of their own.

    Raises: as `t.analyze`, and what Spark raises where a task failed too often: then there is no such snapshot.
    """
    session.check(spark)
    return analyzing.analyze_table(handle_of(table_or_path), columns, partial(_run_analyze_tasks, spark))


def _run_analyze_tasks(spark: SparkSession, source: TableScan, fields: Sequence[Field]) -> list[pl.DataFrame]:
    """Return the column statistics of each task's rows."""
    names, parts = analyzing.read_names(source, fields), []
    out = [field for field in source.fields if field.name in names]
    for plan, what in batch_read.plan_state_jobs(source, out, RowFilter()):
        sent = replace(what, ctx=replace(what.ctx, catalog_env=None))
        tasks = spark_tasks.plan_tasks(plan, plan.raw_indices, session.slots(spark))
        answers, wrong = run_in_tasks(spark, tasks, partial(_analyze_task, sent, tuple(fields)))
        if wrong is not None:
            raise wrong
        parts += [pl.read_ipc_stream(data) for data in answers]
    return parts


def _analyze_task(job: ReadJob, fields: Sequence[Field], task: bytes) -> Iterator[bytes]:
    data = BytesIO()
    analyzing.summarize_frames(job.ctx, fields, spark_tasks.read_frames(job, task)).write_ipc_stream(
        data, compression="zstd"
    )
    yield data.getvalue()


# ---- files that go ---------------------------------------------------------------------------------------------------


def remove_orphans(
    spark: SparkSession,
    table_or_path: Table | str | PathLike[str],
    *,
    older_than: str | datetime | timedelta | None = None,
    dry_run: bool = True,
    force: bool = False,
    external: bool = False,
) -> pl.DataFrame:
    """Remove orphan files as `t.remove_orphans`, by Spark tasks that list and delete; return its frame.

    The driver reads which files are needed, after all is listed.

    Raises: what `t.remove_orphans` raises, and what Spark raises where a task failed too often.
    """
    session.check(spark)
    ctx = handle_of(table_or_path)
    lists, deletes = make_lister(spark, ctx.storage), make_deleter(spark, ctx.storage)
    return orphan_files.remove_orphans(
        ctx, older_than=older_than, dry_run=dry_run, force=force, external=external, lists=lists, deletes=deletes
    )


def expire_snapshots(
    spark: SparkSession,
    table_or_path: Table | str | PathLike[str],
    *,
    retain_max: int | None = None,
    retain_min: int | None = None,
    older_than: str | datetime | timedelta | None = None,
    max_deletes: int | None = None,
    dry_run: bool = False,
) -> DeletionResult:
    """Expire snapshots as `t.expire_snapshots`; Spark tasks delete the files of the removed snapshots.

    The driver decides and removes the snapshots, which are invisible before a task begins.

    Raises: as `t.expire_snapshots`, and what Spark raises where a task failed too often: files that are left then are
    orphans.
    """
    session.check(spark)
    ctx = handle_of(table_or_path)
    since = before_ms(older_than, "older_than", ctx.runtime.now_ms())
    how = expire.override_limits(
        expire.snapshot_limits(ctx),
        retain_max=retain_max,
        retain_min=retain_min,
        older_than_ms=since,
        max_deletes=max_deletes,
    )
    return expire.expire_snapshots(ctx, how, dry_run=dry_run, deletes=make_deleter(spark, ctx.storage))


# ---- listings --------------------------------------------------------------------------------------------------------


def refresh(spark: SparkSession, table_or_path: Table | str | PathLike[str]) -> Commit:
    """Refresh an object table as `t.refresh`: Spark tasks list its location, level by level.

    Names that `ls.attach` put into the session show the new listing at once.

    Raises: `InvalidOption` for a table of another kind, `StorageFailed`, and what a commit raises.
    """
    session.check(spark)
    table = batch_read.table_of(table_or_path)
    if not isinstance(table, ObjectTable):
        raise InvalidOption(
            f"{table.name} is no object table: there is no listing to refresh, and what is read of it is new with "
            "each read",
            key="table",
        )
    ctx = context_of(table)
    storage, _, _ = object_table.objects_location(ctx)
    return commit_listing(table, object_table.list_objects(ctx, make_lister(spark, storage)))


# ---- compaction ------------------------------------------------------------


TASK_BYTES = 128 << 20
"""The weight of a task, if there is more work than the tasks that run at once would finish in one go."""
FILE_COST_BYTES = 64 << 10
"""What a file weighs beside its bytes: opening and writing one takes as long as this much of a big one."""


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
    `order_by`, `strategy` are as in `t.compact`; of tables that are sorted a partition is never divided among tasks.
    Writers that only add files (`write-only`) may run meanwhile, but not where keys are sorted.

    Raises: `InvalidOption`; `Conflict` where another compaction, or such a writer, was faster; what compacting raised
    in a task, as `Corrupt`: nothing changed, and no file of any task is left; and what Spark raises where a task died
    too often.
    """
    session.check(spark)
    ctx = handle_of(table_or_path)
    job = dedicated_compaction.compact_request(ctx, full=full, where=where, order_by=order_by, strategy=strategy)
    if job.order is not None and ctx.kind == "key":
        if rewrite.needs_full_compaction(job.ctx):
            compact(spark, table_or_path, full=True, where=where)
        return after_commit.maintain_after_commit(
            job.ctx, _sort_keys(spark, rewrite.plan_key_table_sort(job.ctx, job.order, where))
        )
    newest = snapshots.latest(job.ctx)
    current = SnapshotBuckets.at_snapshot(job.ctx, newest)
    tasks = (
        []
        if newest is None
        else _encode_compaction_tasks(
            job, current, dedicated_compaction.due_buckets(job, current, where), session.slots(spark)
        )
    )
    messages = _run_tasks(spark, job.ctx, tasks, lambda marked: partial(_compact_task, replace(job, ctx=marked)))
    return after_commit.maintain_after_commit(
        job.ctx, commit_changes_once(job.ctx, messages, commit_user=job.commit_user)
    )


def _sort_keys(spark: SparkSession, job: SortedPartitions) -> Commit:
    """Sort the partitions of a key table, each in one task: its buckets fill in order, as in one process."""
    current = SnapshotBuckets.at_snapshot(job.ctx, job.snapshot)
    weights = dict.fromkeys(job.partitions, 0)
    for partition, bucket in current.bucket_ids():
        if partition in weights:
            weights[partition] += current.size_bytes(partition, bucket, file_cost=FILE_COST_BYTES)
    tasks = [
        json.dumps([partition.hex() for partition in partitions]).encode()
        for partitions in balance_tasks(weights, session.slots(spark))
    ]
    return job.commit(
        _run_tasks(
            spark,
            job.ctx,
            tasks,
            lambda marked: partial(_sort_partitions, replace(job, ctx=marked, partitions=())),
        )
    )


def _run_tasks(
    spark: SparkSession, ctx: TableContext, tasks: Sequence[bytes], work_of: Callable[[TableContext], Work]
) -> list[CommitMessage]:
    """Return the messages of all tasks. `work_of` makes their work of the context that they get.

    Raises: what one of them raised; then the files of the others are deleted.
    """
    # a catalog may hold connections, and tasks commit nothing
    with write_task.marked_job(replace(ctx, catalog_env=None)) as marked:
        answers, wrong = run_in_tasks(spark, tasks, work_of(marked))
    messages = [CommitMessage.from_bytes(data) for data in answers]
    if wrong is not None:
        with suppress(LakekitError):  # what cannot be deleted is left to the cleaning of orphans
            abort.abort(ctx, messages)
        raise wrong
    return messages


def _sort_partitions(job: SortedPartitions, task: bytes) -> Iterator[bytes]:
    partitions = [bytes.fromhex(partition) for partition in json.loads(task)]
    return _yield_messages(job.ctx, rewrite.write_sorted_partitions(job, partitions))


def _yield_messages(ctx: TableContext, messages: Sequence[CommitMessage]) -> Iterator[bytes]:
    """Yield messages as bytes; where they are not taken, their files are deleted."""
    try:
        yield from (message.to_bytes() for message in messages)
    except BaseException:
        with suppress(LakekitError):
            abort.abort(ctx, messages)
        raise


def _encode_compaction_tasks(
    job: CompactRequest, current: SnapshotBuckets, bucket_ids: Sequence[BucketId], slots: int
) -> list[bytes]:
    """Return the input of each task: units of that snapshot that are about as much work as those of any other task."""
    assert current.snapshot is not None
    if job.order is None and not job.ctx.has_buckets and job.ctx.options.clustering_incremental:
        # looks at partitions that nobody named, too
        return [_encode_task(current.snapshot.id, [(bucket_id, (0, 1)) for bucket_id in bucket_ids])]
    weights: dict[CompactionPiece, int] = {}
    for together in _compaction_units(job, bucket_ids):
        weight = sum(current.size_bytes(*bucket_id, file_cost=FILE_COST_BYTES) for bucket_id in together)
        count = _part_count(job, current, together[0])
        weights |= {(together, (number, count)): weight // count for number in range(count)}
    return [
        _encode_task(current.snapshot.id, [(bucket_id, part) for together, part in pieces for bucket_id in together])
        for pieces in balance_tasks(weights, slots)
    ]


def _part_count(job: CompactRequest, current: SnapshotBuckets, bucket_id: BucketId) -> int:
    """Return among how many tasks the file groups of a partition may be divided; of most there is one group."""
    options = job.ctx.options
    if job.order is not None or job.ctx.has_buckets:
        return 1
    if (
        current.size_bytes(*bucket_id, file_cost=options.source_split_open_file_cost_bytes)
        < append_compaction.GROUP_TARGET_FILES * options.rolling_size_bytes
    ):
        return 1
    return max(1, dedicated_compaction.max_parts(job.ctx, current.restore_bucket(*bucket_id), full=job.is_full))


def _compaction_units(job: CompactRequest, bucket_ids: Sequence[BucketId]) -> list[tuple[BucketId, ...]]:
    """Return the buckets that one task compacts together: those of a partition where that is the unit, else each."""
    if not job.compacts_whole_partitions:
        return [(bucket_id,) for bucket_id in bucket_ids]
    by_partition: dict[bytes, list[BucketId]] = {}
    for bucket_id in sorted(bucket_ids):
        by_partition.setdefault(bucket_id[0], []).append(bucket_id)
    return [tuple(together) for together in by_partition.values()]


def balance_tasks(weights: Mapping[P, int], slots: int) -> list[list[P]]:
    """Return pieces of work grouped into tasks of about the same weight in bytes, the heaviest task first.

    The heaviest piece goes first, each to the task that has least.
    """
    count = min(len(weights), max(1, slots, -(-sum(weights.values()) // TASK_BYTES)))
    tasks: list[tuple[int, int, list[P]]] = [(0, number, []) for number in range(count)]
    for piece in sorted(weights, key=lambda piece: (-weights[piece], piece)):
        weight, number, pieces = tasks[0]
        pieces.append(piece)
        heapq.heapreplace(tasks, (weight + weights[piece], number, pieces))
    return [sorted(pieces) for _, _, pieces in sorted(tasks, key=lambda task: (-task[0], task[1]))]


def _encode_task(snapshot_id: int, places: Sequence[tuple[BucketId, tuple[int, int]]]) -> bytes:
    return json.dumps(
        {
            "snapshot": snapshot_id,
            "places": [(partition.hex(), bucket, *part) for (partition, bucket), part in places],
        }
    ).encode()


def _compact_task(request: CompactRequest, task: bytes) -> Iterator[bytes]:
    """Yield the messages of a task. If compacting raises, no file of it is left."""
    decoded = json.loads(task)
    current = SnapshotBuckets.at_snapshot(request.ctx, snapshots.read_snapshot(request.ctx, decoded["snapshot"]))
    by_part: dict[tuple[int, int], list[BucketId]] = {}
    for partition, bucket, number, count in decoded["places"]:
        by_part.setdefault((number, count), []).append((bytes.fromhex(partition), bucket))
    # manifests are read once for all
    current.load_partitions(partition for places in by_part.values() for partition, _ in places)
    messages: list[CommitMessage] = []
    try:
        for part, bucket_ids in by_part.items():
            messages += dedicated_compaction.compact_buckets(request, current, bucket_ids, shard=part)
    except BaseException:
        with suppress(LakekitError):
            abort.abort(request.ctx, messages)
        raise
    return _yield_messages(request.ctx, messages)
