"""Maintain a table by Spark tasks: the driver plans, decides and commits; tasks do the bulk.

    ls.rewrite_file_index(spark, table)     files are read, and their indexes built, by tasks; one commit
    ls.analyze(spark, table)                tasks compute statistics of rows, which are combined; one commit
    ls.remove_orphans(spark, table)         partitions and buckets are listed, and files deleted, by tasks
    ls.expire_snapshots(spark, table)       the driver removes the snapshots and looks at all that is left;
                                            then tasks delete the files
    ls.refresh(spark, table)                of an object table the location is listed by tasks; one commit

The code of `t.…` decides in the driver what may be deleted (`maintenance.removal`, `maintenance.orphan_files`): a task
only deletes what is no longer needed, and one that fails leaves orphans.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import replace
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING

import polars as pl

from lakekit.errors import InvalidOption
from lakekit.format_table import object_table
from lakekit.maintenance import analyze as analyzing, expire, orphan_files, rewrite_file_index as file_indexes
from lakekit.maintenance.arguments import before_ms
from lakekit.maintenance.rewrite_file_index import FileBatch
from lakekit.model.commit_message import CommitMessage
from lakekit.spark import asked, batch_read, job, pieces, session, tasks as cut
from lakekit.spark.asked import RowFilter
from lakekit.spark.batch_write import handle_of
from lakekit.table.format_tables import ObjectTable, commit_listing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime, timedelta
    from os import PathLike

    from pyspark.sql import SparkSession

    from lakekit.commit.result import Commit
    from lakekit.maintenance.result import Expired
    from lakekit.metadata.table_context import TableContext
    from lakekit.read.table_scan import TableScan
    from lakekit.spark.job import ReadJob
    from lakekit.table.table import Table
    from lakekit.types import Field


# ---- indexes of files ------------------------------------------------------------------------------------------------


def rewrite_file_index(
    spark: SparkSession,
    table_or_path: Table | str | PathLike[str],
    *,
    where: pl.Expr | str | None = None,
    anew: bool = False,
) -> Commit:
    """Rewrite file indexes by Spark tasks, some files each, in one commit, as `t.rewrite_file_index` does.

    Raises: as `t.rewrite_file_index`, and what Spark raises where a task failed too often. After an error nothing was
    committed, and files that were made are deleted.
    """
    session.check(spark)
    ctx = handle_of(table_or_path)
    count = pieces.TASKS_A_SLOT * session.slots(spark)
    tasks = [_encode_batches(batches) for batches in pieces.parts(file_indexes.plan_batches(ctx, where, count), count)]
    answers, wrong = pieces.answers(spark, tasks, partial(_rewrite_indexes, replace(ctx, keeper=None), rebuild=anew))
    messages = [CommitMessage.from_bytes(data) for data in answers]
    if wrong is not None:
        file_indexes.discard(ctx, messages)
        raise wrong
    return file_indexes.commit(ctx, messages)


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
            (name, None if data is None else b64encode(data).decode(), extra) for name, data, extra in batch.before
        ]
        encoded.append((b64encode(message.to_bytes()).decode(), before))
    return json.dumps(encoded).encode()


def _decode_batches(piece: bytes) -> Iterator[FileBatch]:
    for data, before in json.loads(piece):
        message = CommitMessage.from_bytes(b64decode(data))
        yield FileBatch(
            partition=message.partition,
            bucket=message.bucket,
            total_buckets=message.total_buckets or 0,
            files=message.compact_before,
            before=frozenset(
                (name, None if index is None else b64decode(index), tuple(extra)) for name, index, extra in before
            ),
        )


def _rewrite_indexes(ctx: TableContext, piece: bytes, *, rebuild: bool) -> Iterator[bytes]:
    """Yield the messages of a task. Its files are deleted if it fails or its messages are not taken."""
    messages: list[CommitMessage] = []
    try:
        for batch in _decode_batches(piece):
            messages += file_indexes.rewrite_batch(ctx, batch, rebuild=rebuild)
        for message in messages:
            yield message.to_bytes()
    except BaseException:
        file_indexes.discard(ctx, messages)
        raise


# ---- statistics ------------------------------------------------------------------------------------------------------


def analyze(
    spark: SparkSession, table_or_path: Table | str | PathLike[str], *, columns: Sequence[str] | None = None
) -> Commit:
    """Compute the statistics of `t.analyze` by Spark tasks, in a snapshot of their own.

    Raises: as `t.analyze`, and what Spark raises where a task failed too often: then there is no such snapshot.
    """
    session.check(spark)
    return analyzing.analyze(handle_of(table_or_path), columns, partial(_run_analyze_tasks, spark))


def _run_analyze_tasks(spark: SparkSession, source: TableScan, fields: Sequence[Field]) -> list[pl.DataFrame]:
    """Return the column statistics of each task's rows."""
    names, parts = analyzing.read_names(source, fields), []
    out = [field for field in source.fields if field.name in names]
    for plan, what in batch_read.work_of_state(source, out, RowFilter()):
        sent = replace(what, ctx=replace(what.ctx, keeper=None))
        tasks = cut.plan_tasks(plan, plan.raw, session.slots(spark))
        answers, wrong = pieces.answers(spark, tasks, partial(_analyze_task, sent, tuple(fields)))
        if wrong is not None:
            raise wrong
        parts += [pl.read_ipc_stream(data) for data in answers]
    return parts


def _analyze_task(what: ReadJob, fields: Sequence[Field], task: bytes) -> Iterator[bytes]:
    data = BytesIO()
    analyzing.summarize_frames(what.ctx, fields, job.read_frames(what, task)).write_ipc_stream(data, compression="zstd")
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
    lists, deletes = pieces.lists(spark, ctx.storage), pieces.deletes(spark, ctx.storage)
    return orphan_files.remove(
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
) -> Expired:
    """Expire snapshots as `t.expire_snapshots`; Spark tasks delete the files of the removed snapshots.

    The driver decides and removes the snapshots, which are invisible before a task begins.

    Raises: as `t.expire_snapshots`, and what Spark raises where a task failed too often: files that are left then are
    orphans.
    """
    session.check(spark)
    ctx = handle_of(table_or_path)
    since = before_ms(older_than, "older_than", ctx.world.now_ms())
    how = expire.override_limits(
        expire.snapshot_limits(ctx),
        retain_max=retain_max,
        retain_min=retain_min,
        older_than_ms=since,
        max_deletes=max_deletes,
    )
    return expire.expire_snapshots(ctx, how, dry_run=dry_run, deletes=pieces.deletes(spark, ctx.storage))


# ---- listings --------------------------------------------------------------------------------------------------------


def refresh(spark: SparkSession, table_or_path: Table | str | PathLike[str]) -> Commit:
    """Refresh an object table as `t.refresh`: Spark tasks list its location, level by level.

    Names that `ls.attach` put into the session show the new listing at once.

    Raises: `InvalidOption` for a table of another kind, `StorageFailed`, and what a commit raises.
    """
    session.check(spark)
    table = asked.table_of(table_or_path)
    if not isinstance(table, ObjectTable):
        raise InvalidOption(
            f"{table.name} is no object table: there is no listing to refresh, and what is read of it is new with "
            "each read",
            key="table",
        )
    ctx = table.handle()
    storage, _, _ = object_table.objects_location(ctx)
    return commit_listing(table, object_table.list_objects(ctx, pieces.lists(spark, storage)))
