"""Postponed rows find their buckets: what waits in bucket -2 is replayed, in the order it was written, into as many buckets as its partition has.

    bucket -2   w1-0, w1-1, w2-0      ->      bucket 0: data-…-0, data-…-1      bucket 1: data-…-0
                └ compacted away, in the commit that adds these

Source: ENGINE.md 7.6, ENGINE_1.4.2.md B (`postpone.default-bucket-num` is 1; the options `postpone.target-…` are of later engines); `CompactAction`,
`RewritePostponeBucketCommittableOperator`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from lakekit.bucket.merge_read import KIND
from lakekit.commit import abort
from lakekit.data_file import paths as places
from lakekit.data_file.reader import scan_files, translate_polars_errors
from lakekit.model.commit_message import CommitMessage
from lakekit.model.table_paths import POSTPONE_BUCKET
from lakekit.write.table_writers import BucketWriters

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import polars as pl

    from lakekit.bucket.restore import SnapshotBuckets
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta

_WRITER_FILE_NAME = re.compile(r"(.*-w-.*)-(\d+)\.[^.]+")


def move_to_buckets(ctx: TableContext, standing: SnapshotBuckets, partitions: Iterable[bytes], commit_user: str, *, full: bool) -> list[CommitMessage]:
    """Messages that move the postponed rows of some partitions into buckets, and compact these. Raises what writing raises; then no file is left."""
    found: list[CommitMessage] = []
    try:
        for partition in sorted(partitions):
            found += _move_partition(ctx, standing, partition, commit_user, full=full)
    except BaseException:
        abort.abort(ctx, found)
        raise
    return found


def _move_partition(ctx: TableContext, standing: SnapshotBuckets, partition: bytes, commit_user: str, *, full: bool) -> Iterator[CommitMessage]:
    files = sorted(standing.bucket(partition, POSTPONE_BUCKET).files, key=_write_order)
    total = standing.bucket(partition, 0).total_buckets or _bucket_count(ctx, files)
    writers = BucketWriters(ctx.with_options({"bucket": str(total)}), commit_user=commit_user)
    try:
        for frame in _rows(ctx, partition, files):
            writers.write(frame)
        there = {place for place in standing.places() if place[0] == partition and place[1] != POSTPONE_BUCKET}
        writers.compact_places(sorted(there | set(writers.open_places)), full=full)
        messages = writers.prepare()
    finally:
        writers.drop()
    if files:
        yield CommitMessage(partition=partition, bucket=POSTPONE_BUCKET, total_buckets=POSTPONE_BUCKET, compact_before=tuple(files))
    for message in messages:
        yield _as_compaction(ctx, message)


def _bucket_count(ctx: TableContext, files: list[DataFileMeta]) -> int:
    """How many buckets a new partition gets: the option's number, else as many as the rows or sizes that other options give a bucket ask for."""
    options = ctx.options
    if "postpone.default-bucket-num" not in options.given:
        if options.postpone_target_row_num_per_bucket:
            return max(1, -(-sum(file.row_count for file in files) // options.postpone_target_row_num_per_bucket))
        if "postpone.target-size-per-bucket" in options.given:
            return max(1, -(-sum(file.size_bytes for file in files) // options.postpone_target_size_per_bucket_bytes))
    return options.postpone_default_bucket_num


def _rows(ctx: TableContext, partition: bytes, files: list[DataFileMeta]) -> Iterator[pl.DataFrame]:
    """Every row with its kind, as it came, a file at a time."""
    for file in files:
        paths = [places.data_file_path(ctx, partition, POSTPONE_BUCKET, file)]
        with translate_polars_errors(ctx, paths):
            yield from scan_files(ctx, [file], paths, ctx.schema.fields, system=[KIND]).collect_batches(maintain_order=True)


def _as_compaction(ctx: TableContext, message: CommitMessage) -> CommitMessage:
    """The same files as the outcome of one compaction: those that were written and compacted at once are nobody's, and deleted."""
    new, before, after = ({file.name for file in files} for files in (message.new_files, message.compact_before, message.compact_after))
    nobodys = [file for file in message.new_files if file.name in before and file.name not in after]
    ctx.storage.delete(places.every_path(ctx, message.partition, message.bucket, nobodys))
    return replace(
        message,
        new_files=(),
        changelog_files=(),
        compact_before=tuple(file for file in message.compact_before if file.name not in new),
        compact_after=(*(file for file in message.new_files if file.name not in before), *message.compact_after),
        compact_changelog=(*message.changelog_files, *message.compact_changelog),
    )


def _write_order(file: DataFileMeta) -> tuple[int, str, int]:
    """When a file was written: by the clock, and the files of one writer by their numbers."""
    counted = _WRITER_FILE_NAME.fullmatch(file.name)
    writer, number = (counted[1], int(counted[2])) if counted else (file.name, 0)
    return file.creation_time_ms or 0, writer, number
