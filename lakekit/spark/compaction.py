"""A table compacted by Spark tasks: each takes some buckets, the driver commits once.

ls.compact(spark, table, full=True)

driver    `care.compact` says which places of the newest snapshot are looked at
tasks     a bucket a task; where rows are sorted, or compaction goes by partition, a partition; of append tables without buckets the files that become one
driver    `commit.publish`, once: where another compaction was faster nothing changes, and the new files go
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lakekit.bucket.restore import Standing
from lakekit.care import append_files, compact as caring, maintain, rescale, sort_compact
from lakekit.commit import abandoned
from lakekit.commit.publish import publish_once
from lakekit.errors import LakekitError
from lakekit.meta import snapshots
from lakekit.model.commit_message import CommitMessage
from lakekit.spark import pieces, session
from lakekit.spark.writes import handle_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike

    import polars as pl
    from pyspark.sql import SparkSession

    from lakekit.bucket.ordered import Strategy
    from lakekit.care.compact import Asked
    from lakekit.care.sort_compact import Keys
    from lakekit.commit.outcome import Commit
    from lakekit.meta.handle import Handle
    from lakekit.spark.pieces import Work
    from lakekit.table.table import Table
    from lakekit.write.writers import Place


def compact(
    spark: SparkSession,
    table_or_path: Table | str | PathLike[str],
    *,
    full: bool = False,
    where: pl.Expr | str | None = None,
    order_by: str | Sequence[str] | None = None,
    strategy: Strategy = "order",
) -> Commit:
    """`t.compact` by Spark tasks, in one commit: what the levels of each bucket ask for, or, `full`, every bucket to its highest level.

    `where`, `order_by`, `strategy` as `t.compact` has them; of tables that are sorted or clustered a partition is one task. Writers that only add files
    (`write-only`) may run meanwhile, but not where keys are sorted. Raises `InvalidOption`; `Conflict` where another compaction, or such a writer, was faster,
    what compacting raised in a task, as `Corrupt`: nothing changed, and no file of any task is left; and what Spark raises where a task died too often.
    """
    session.check(spark)
    handle = handle_of(table_or_path)
    job = caring.asked(handle, full=full, where=where, order_by=order_by, strategy=strategy)
    if job.order is not None and handle.kind == "key":
        if rescale.waits_for_compaction(job.handle):
            compact(spark, table_or_path, full=True, where=where)
        return maintain.after(job.handle, _sort_keys(spark, sort_compact.keys(job.handle, job.order, where)))
    newest = snapshots.latest(job.handle)
    standing = Standing.of(job.handle, newest)
    tasks = [] if newest is None else list(_tasks(job, standing, caring.places(job, standing, where), newest.id))
    sent = replace(job, handle=replace(job.handle, keeper=None))  # a catalog may hold connections, and tasks commit nothing
    messages = _made(spark, job.handle, tasks, partial(_compacted, sent))
    return maintain.after(job.handle, publish_once(job.handle, messages, commit_user=job.commit_user))


def _sort_keys(spark: SparkSession, job: Keys) -> Commit:
    """Sorts a partition of a key table a task: its buckets fill one after the other, as they do in one process."""
    sent = replace(job, handle=replace(job.handle, keeper=None), partitions=())
    return job.commit(_made(spark, job.handle, job.partitions, partial(_sorted, sent)))


def _made(spark: SparkSession, handle: Handle, tasks: Sequence[bytes], work: Work) -> list[CommitMessage]:
    """The messages of all tasks. Raises what one of them met; then the files of the others are deleted."""
    answers, wrong = pieces.answers(spark, tasks, work)
    messages = [CommitMessage.from_bytes(data) for data in answers]
    if wrong is not None:
        with suppress(LakekitError):  # what cannot be deleted is left to the cleaning of orphans
            abandoned.abort(handle, messages)
        raise wrong
    return messages


def _sorted(job: Keys, partition: bytes) -> Iterator[bytes]:
    """The messages of a task."""
    return _given(job.handle, sort_compact.sorted_keys(job, [partition]))


def _given(handle: Handle, messages: Sequence[CommitMessage]) -> Iterator[bytes]:
    """Messages as bytes. Where nobody takes them their files are deleted."""
    try:
        yield from (message.to_bytes() for message in messages)
    except BaseException:
        with suppress(LakekitError):
            abandoned.abort(handle, messages)
        raise


def _tasks(job: Asked, standing: Standing, places: Sequence[Place], snapshot_id: int) -> Iterator[bytes]:
    """What each task is told: places of that snapshot, and of append tables which part of how many."""
    if not job.goes_by_partition:
        yield from (_told(snapshot_id, [place]) for place in sorted(places))
        return
    if job.order is None and not job.handle.has_buckets:
        if job.handle.options.clustering_incremental:  # looks at partitions that nobody named, too
            yield _told(snapshot_id, places)
            return
        for place in sorted(places):
            count = append_files.part_count(job.handle, standing.bucket(*place), full=job.full)
            yield from (_told(snapshot_id, [place], (number, count)) for number in range(count))
        return
    for partition in sorted({partition for partition, _ in places}):
        yield _told(snapshot_id, [place for place in places if place[0] == partition])


def _told(snapshot_id: int, places: Sequence[Place], share: tuple[int, int] = (0, 1)) -> bytes:
    return json.dumps({"snapshot": snapshot_id, "places": [(partition.hex(), bucket) for partition, bucket in places], "share": share}).encode()


def _compacted(job: Asked, task: bytes) -> Iterator[bytes]:
    """The messages of a task. Raises what compacting raises; then no file of it is left."""
    told = json.loads(task)
    standing = Standing.of(job.handle, snapshots.read(job.handle, told["snapshot"]))
    places = [(bytes.fromhex(partition), bucket) for partition, bucket in told["places"]]
    number, count = told["share"]
    return _given(job.handle, caring.messages(job, standing, places, share=(number, count)))
