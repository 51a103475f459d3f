"""Moving postponed rows to their buckets.

The rows of bucket -2 are replayed in write order into as many buckets as their partition has.

    bucket -2   w1-0, w1-1, w2-0      ->      bucket 0: data-…-0, data-…-1      bucket 1: data-…-0
                └ compacted away, in the commit that adds these

Source: ENGINE.md 7.6, ENGINE_1.4.2.md B (`postpone.default-bucket-num` is 1; the options `postpone.target-…` are of
later engines); `CompactAction`, `RewritePostponeBucketCommittableOperator`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from lakekit.columns import KIND
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


def move_to_buckets(
    ctx: TableContext, snapshot_buckets: SnapshotBuckets, partitions: Iterable[bytes], commit_user: str, *, full: bool
) -> list[CommitMessage]:
    """Move the postponed rows of some partitions into buckets, compact these, and return the messages.

    Raises what writing raises; then no new file is left.
    """
    messages: list[CommitMessage] = []
    try:
        for partition in sorted(partitions):
            messages += _move_partition(ctx, snapshot_buckets, partition, commit_user, full=full)
    except BaseException:
        abort.abort(ctx, messages)
        raise
    return messages


def _move_partition(
    ctx: TableContext, snapshot_buckets: SnapshotBuckets, partition: bytes, commit_user: str, *, full: bool
) -> Iterator[CommitMessage]:
    files = sorted(snapshot_buckets.bucket(partition, POSTPONE_BUCKET).files, key=_write_order)
    total = snapshot_buckets.bucket(partition, 0).total_buckets or _bucket_count(ctx, files)
    writers = BucketWriters(ctx.with_options({"bucket": str(total)}), commit_user=commit_user)
    try:
        for frame in _rows(ctx, partition, files):
            writers.write(frame)
        existing = {
            bucket_id
            for bucket_id in snapshot_buckets.places()
            if bucket_id[0] == partition and bucket_id[1] != POSTPONE_BUCKET
        }
        writers.compact_places(sorted(existing | set(writers.open_places)), full=full)
        messages = writers.prepare()
    finally:
        writers.drop()
    if files:
        yield CommitMessage(
            partition=partition, bucket=POSTPONE_BUCKET, total_buckets=POSTPONE_BUCKET, compact_before=tuple(files)
        )
    for message in messages:
        yield _as_compaction(ctx, message)


def _bucket_count(ctx: TableContext, files: list[DataFileMeta]) -> int:
    """Return how many buckets a new partition gets.

    That is the option's number, else as many as the target rows or size of a bucket ask for.
    """
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
            yield from scan_files(ctx, [file], paths, ctx.schema.fields, system=[KIND]).collect_batches(
                maintain_order=True
            )


def _as_compaction(ctx: TableContext, message: CommitMessage) -> CommitMessage:
    """Return a message with the same files as the result of one compaction.

    Files that were written and compacted away at once are deleted: no snapshot will name them.
    """
    new, before, after = (
        {file.name for file in files} for files in (message.new_files, message.compact_before, message.compact_after)
    )
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
