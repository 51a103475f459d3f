"""The bucket writers of one table writer: route rows, share memory, collect a commit's messages.

    write(frame)   ->  assigner  ->  (partition, bucket, rows)  ->  a `BucketWriter` each, restored from the newest
                                                                    snapshot when first met; beyond
                                                                    `write-buffer-size` the biggest is flushed first
    prepare        ->  every bucket flushes and compacts, in parallel; hash indexes are written; then the messages,
                       which cannot fail any more

Source: ENGINE.md 1.2, 2.6, 7; `AbstractFileStoreWrite`, `MemoryPoolFactory`, `TableWriteImpl`, `LocalMergeOperator`,
`GlobalFullCompactionSinkWrite`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from lakekit.bucket import write_buffer as flushing
from lakekit.bucket.bucket_writer import BucketWriter, make_spill_file
from lakekit.bucket.merge_read import record_expiration
from lakekit.bucket.restore import EMPTY_BUCKET, SnapshotBuckets
from lakekit.columns import KIND, SEQUENCE, cols
from lakekit.data_file.paths import FileNames, make_file_names, partition_spec, partition_values
from lakekit.errors import Unsupported
from lakekit.lsm import merge
from lakekit.metadata import snapshots, table_context
from lakekit.model.table_paths import POSTPONE_BUCKET
from lakekit.options.option import EMPTY
from lakekit.parallel import parallel_map
from lakekit.progress import begin_work
from lakekit.write import router
from lakekit.write.bucket_assigners import PostponedFixedBuckets, postponed_count
from lakekit.write.cross_partition import CrossPartition
from lakekit.write.dynamic_bucket import DynamicBuckets, PreparedIndexes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakekit.bucket.restore import RestoredBucket
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.commit_message import CommitMessage
    from lakekit.model.snapshot import Snapshot
    from lakekit.write.bucket_assigners import BucketAssigner, WriteShard

T = TypeVar("T")
BucketId = tuple[bytes, int]
_WRITE_IDS = 2**31 - 1
_SHARED_FACTOR = 2
"""Frames that buckets share may take this many times `write-buffer-size` before all of them are given back."""


class BucketWriters:
    """The bucket writers of one table writer; used by one thread.

    `replaces`: an overwrite, which ignores existing rows. `batch`: all messages go into one commit. `shard`: the part
    of a divided write that is handled here. `snapshot_buckets`: bucket state that the caller has read already.
    `max_sequences`: the greatest sequence numbers of an earlier writer whose messages may not be committed yet.

    In postponed tables with `postpone.batch-write-fixed-bucket` the rows of a batch go into buckets at once, and wait
    there for a compaction.

    Raises what assigners and `BucketWriter` raise. After an error in `write`, `compact` or `prepare` only `abort` may
    be called.
    """

    def __init__(
        self,
        ctx: TableContext,
        *,
        commit_user: str,
        replaces: bool = False,
        batch: bool = False,
        shard: WriteShard | None = None,
        snapshot_buckets: SnapshotBuckets | None = None,
        sequences: Mapping[BucketId, int] = EMPTY,
    ) -> None:
        table_context.check_writable(ctx)
        if ctx.kind == "key":
            record_expiration(ctx, ctx.runtime.now_ms())  # rows that no compaction could judge are not taken
        fixes_buckets = batch and router.assigns_postponed_rows(ctx)
        self._shard = shard
        self.ctx, self.commit_user, self.replaces = (
            ctx.with_options({"write-only": "true"}) if fixes_buckets else ctx,
            commit_user,
            replaces,
        )
        self._assigner: BucketAssigner = (
            PostponedFixedBuckets(ctx=ctx, bucket_count=self._bucket_count)
            if fixes_buckets
            else router.make_assigner(ctx, overwrite=replaces, shard=shard)
        )
        self._counts: dict[bytes, int] = {}
        self._dynamic = self._assigner if isinstance(self._assigner, DynamicBuckets) else None
        self._moving = self._assigner if isinstance(self._assigner, CrossPartition) else None
        self._spill = make_spill_file(ctx)
        self._open: dict[BucketId, BucketWriter] = {}
        self._snapshot_buckets = (
            SnapshotBuckets.at_snapshot(ctx, None) if snapshot_buckets is None else snapshot_buckets
        )
        self._sequences = dict(sequences)
        self._written_buckets: set[BucketId] = set()
        self._uncommitted: dict[BucketId, str | None] = {}
        self._local: list[pl.DataFrame] = []
        self._local_bytes = self._shared_bytes = 0
        self._prepared = 0
        self._is_compacted = False
        """Whether `_compact_fully` has run once."""
        self._write_id = int(ctx.runtime.new_id().replace("-", "")[:8], 16) % _WRITE_IDS

    @property
    def memory_bytes(self) -> int:
        """The memory of rows that are not in files yet."""
        return sum(writer.memory_bytes for writer in self._open.values()) + self._local_bytes

    @property
    def is_idle(self) -> bool:
        """Return whether nothing waits to be prepared."""
        return not self._local and all(writer.is_idle for writer in self._open.values())

    @property
    def max_sequences(self) -> dict[BucketId, int]:
        """Return the greatest sequence number of each bucket that a snapshot may not contain yet."""
        return self._sequences | {bucket_id: writer.next_sequence - 1 for bucket_id, writer in self._open.items()}

    @property
    def open_bucket_ids(self) -> list[BucketId]:
        """The buckets with open writers."""
        return list(self._open)

    # ---- rows

    def write(self, frame: pl.DataFrame, *, bucket: int | None = None) -> None:
        """Write rows as `row_conversion.batches` yields them. `bucket`: the caller's choice of their bucket."""
        if not frame.height:
            return
        merges = self.ctx.options.local_merge_buffer_size_bytes if self.ctx.kind == "key" else None
        if merges is None or bucket is not None:
            self._merge_locally()
            self._route(frame, bucket)
            return
        self._local.append(frame)
        self._local_bytes += int(frame.estimated_size())
        if self._local_bytes >= merges:
            self._merge_locally()

    def _merge_locally(self) -> None:
        """Merge the waiting rows to one row a key before any is sent to its bucket (ENGINE 1.2, local merge)."""
        if not self._local:
            return
        ctx, rows = self.ctx, pl.concat(self._local)
        self._local, self._local_bytes = [], 0
        rule = replace(
            merge.merge_spec_from_options(ctx.schema, ctx.all_options, table=ctx.name),
            key_columns=ctx.schema.primary_keys,
        )
        numbered = rows.with_columns(pl.int_range(rows.height, dtype=pl.Int64).alias(SEQUENCE)).select(
            *cols(ctx.schema.names), SEQUENCE, KIND
        )
        self._route(flushing.merge_for_flush(numbered, rule).drop(SEQUENCE), None)

    def _route(self, frame: pl.DataFrame, bucket: int | None) -> None:
        assigner = self._assigner if bucket is None else router.make_assigner(self.ctx, bucket=bucket)
        parts = list(router.split_by_bucket(frame, self.ctx, assigner))
        self._restore([(partition, number) for partition, number, _ in parts])
        for partition, number, rows in parts:
            self._open[partition, number].write(rows)
            self._written_buckets.add((partition, number))
        if len(parts) > 1:
            self._shared_bytes += int(frame.estimated_size())
        self._release_memory()

    def _release_memory(self) -> None:
        """Flush the biggest bucket while the buckets hold more than `write-buffer-size`.

        Buckets hold slices of the same frames: a small one may keep alive what bigger ones released, so now and then
        all are flushed.
        """
        limit, memory_bytes = (
            self.ctx.options.write_buffer_size_bytes,
            sum(writer.memory_bytes for writer in self._open.values()),
        )
        while memory_bytes > limit:
            biggest = max(self._open.values(), key=lambda writer: writer.memory_bytes)
            memory_bytes -= biggest.memory_bytes
            biggest.release_memory()
        if self._shared_bytes > limit * _SHARED_FACTOR:
            self._shared_bytes = 0
            for writer in self._open.values():
                writer.release_memory()

    def _restore(self, bucket_ids: list[BucketId]) -> None:
        """Open the buckets that are not open yet."""
        missing = [bucket_id for bucket_id in bucket_ids if bucket_id not in self._open]
        if not missing:
            return
        snapshot_buckets: dict[BucketId, RestoredBucket] = (
            {}
            if self._ignores_existing(missing)
            else self._with_snapshot_buckets(lambda snapshot_buckets: self._restore_buckets(snapshot_buckets, missing))
        )
        for bucket_id in missing:
            if self._shard is not None and not self._shard.contains(*bucket_id):
                msg = (
                    f"a row of bucket {bucket_id[1]} came to task {self._shard.task}, and belongs to another: nothing "
                    "is written, as a key could lie twice"
                )
                raise Unsupported(msg, feature="spark.write")
            self._open[bucket_id] = self._open_writer(
                bucket_id, EMPTY_BUCKET if self._ignores_existing([bucket_id]) else snapshot_buckets[bucket_id]
            )

    def _restore_buckets(
        self, snapshot_buckets: SnapshotBuckets, bucket_ids: list[BucketId]
    ) -> dict[BucketId, RestoredBucket]:
        only_adds = self.ctx.kind == "key" and self.ctx.options.write_only
        (snapshot_buckets.load_sequences if only_adds else snapshot_buckets.load_partitions)(
            partition for partition, _ in bucket_ids
        )
        return {bucket_id: snapshot_buckets.restore_bucket(*bucket_id) for bucket_id in bucket_ids}

    def _with_snapshot_buckets(self, read: Callable[[SnapshotBuckets], T]) -> T:
        """Return `read` of the newest snapshot, which becomes this writer's; retry if it expires."""

        def at(newest: Snapshot | None) -> T:
            if newest is not None and self._snapshot_buckets.snapshot != newest:
                self._snapshot_buckets = SnapshotBuckets.at_snapshot(self.ctx, newest)
            return read(self._snapshot_buckets)

        return snapshots.with_latest(self.ctx, at)

    def _ignores_existing(self, bucket_ids: list[BucketId]) -> bool:
        """Return True for overwrites, postponed rows, tables without buckets: existing files are ignored."""
        return self.replaces or not self.ctx.has_buckets or all(bucket == POSTPONE_BUCKET for _, bucket in bucket_ids)

    def _open_writer(self, bucket_id: BucketId, restored: RestoredBucket) -> BucketWriter:
        partition, bucket = bucket_id
        names = make_file_names(self.ctx)
        # one prefix a writer: its files are replayed in the order they were made (ENGINE 7.6)
        if bucket == POSTPONE_BUCKET:
            names = FileNames(f"{names.prefix}-u-{self.commit_user}-s-{self._write_id}-w-", names.uuid)
        total = self.ctx.options.bucket
        if total == POSTPONE_BUCKET and bucket >= 0:
            total = (
                self._counts.get(partition) or restored.total_buckets or self.ctx.options.postpone_default_bucket_num
            )
        writer = BucketWriter(
            self.ctx, partition, bucket, total, restored, names, spill=self._spill, replaces=self.replaces
        )
        writer.next_sequence = max(writer.next_sequence, self._sequences.get(bucket_id, -1) + 1)
        return writer

    def _bucket_count(self, partition: bytes) -> int:
        """Return the bucket count of a partition of postponed rows; the same for all rows of this writer.

        That is the number its first compaction chose, else the option's default.
        """
        if partition not in self._counts:
            self._counts[partition] = self._with_snapshot_buckets(
                lambda snapshot_buckets: postponed_count(self.ctx, snapshot_buckets, partition)
            )
        return self._counts[partition]

    # ---- compaction

    def compact(
        self, *, partition: Mapping[str, Any] | None = None, bucket: int | None = None, full: bool = False
    ) -> None:
        """Compact the open buckets, or the snapshot's buckets in matching partitions and of that number.

        Raises `ColumnNotFound`.
        """
        self._merge_locally()
        bucket_ids = list(self._open)
        if partition is not None or bucket is not None:
            spec = partition_spec(self.ctx, partition or {})
            existing = self._with_snapshot_buckets(lambda snapshot_buckets: snapshot_buckets.bucket_ids())
            bucket_ids = [
                bucket_id
                for bucket_id in {*existing, *bucket_ids}
                if bucket in (None, bucket_id[1]) and self._matches(bucket_id[0], spec)
            ]
        self.compact_buckets(bucket_ids, full=full)

    def compact_buckets(self, bucket_ids: list[BucketId], *, full: bool = False) -> None:
        """Compact the buckets, one after another."""
        self._restore(bucket_ids)
        with begin_work(self.ctx.runtime, "compacting", "buckets", len(bucket_ids)) as under_way:
            for bucket_id in sorted(bucket_ids):
                self._open[bucket_id].compact(full=full)
                under_way.advance()

    def _matches(self, partition: bytes, spec: Mapping[int, Any]) -> bool:
        values = partition_values(self.ctx, partition) if spec else ()
        return all(values[position] == value for position, value in spec.items())

    def _compact_fully(self, *, wait: bool, identifier: int | None) -> None:
        """Compact fully the buckets written since the last full compaction, if one is due (ENGINE 2.6).

        It is due every `full-compaction.delta-commits` commits. A commit with an `identifier` is one where that number
        is a multiple of n, as in the reference engine, whose readers (`scan.mode`=compacted-full) look for such
        snapshots. The first one of a writer takes along buckets that an earlier writer left with new files.
        """
        interval = self.ctx.options.full_compaction_interval
        is_due = (
            wait or self._prepared % max(interval, 1) == 0 if identifier is None else identifier % max(interval, 1) == 0
        )
        if interval < 1 or self.ctx.options.write_only or not is_due:
            return
        if identifier is not None and interval > 1 and not self._is_compacted:
            bucket_ids = self._with_snapshot_buckets(_places_with_new_files)
            self._written_buckets |= {
                bucket_id for bucket_id in bucket_ids if self._shard is None or self._shard.contains(*bucket_id)
            }
        self._is_compacted = True
        self.compact_buckets(list(self._written_buckets), full=True)
        self._written_buckets.clear()

    # ---- messages

    def prepare(self, *, wait_compaction: bool = True, identifier: int | None = None) -> list[CommitMessage]:
        """Return the messages of all writes and compactions since the last call.

        If one bucket fails, no messages are returned. `identifier`: that of the commit that takes the messages, if
        known.
        """
        self._merge_locally()
        self._prepared += 1
        self._compact_fully(wait=wait_compaction, identifier=identifier)
        with begin_work(self.ctx.runtime, "writing", "buckets", len(self._open)) as under_way:
            parallel_map(
                lambda writer: writer.flush_and_compact(wait=wait_compaction),
                self._open.values(),
                on_done=lambda _: under_way.advance(),
            )
        index = (
            PreparedIndexes({}, {})
            if self._dynamic is None
            else self._dynamic.prepare(lambda: f"index-{self.ctx.runtime.new_id()}-0")
        )
        self._shared_bytes = 0
        messages = {bucket_id: writer.take_message() for bucket_id, writer in self._open.items()}
        self._close_resting(
            [
                bucket_id
                for bucket_id, message in messages.items()
                if message.is_empty and self._open[bucket_id].is_idle_and_compacted
            ]
        )
        self._uncommitted |= {
            bucket_id: _find_live_file(message) for bucket_id, message in messages.items() if not message.is_empty
        }
        known_at = None if self._moving is None else self._moving.snapshot_id
        return [
            replace(_add_hash_index(message, index), keys_known_at=known_at)
            for message in messages.values()
            if not message.is_empty
        ]

    def _close_resting(self, bucket_ids: list[BucketId]) -> None:
        """Close idle buckets whose messages are committed.

        The next row restores them from the newest snapshot. A commit by `t.commit`, perhaps in another process, is not
        announced here. It is detected by a live file of the last message.
        """
        untold = [bucket_id for bucket_id in bucket_ids if self._uncommitted.get(bucket_id)]
        if untold:
            self._with_snapshot_buckets(
                lambda snapshot_buckets: snapshot_buckets.load_partitions(partition for partition, _ in untold)
            )
        for bucket_id in bucket_ids:
            witness = self._uncommitted.get(bucket_id)
            if witness is not None and any(
                file.name == witness for file in self._snapshot_buckets.restore_bucket(*bucket_id).files
            ):
                del self._uncommitted[bucket_id]
            if bucket_id not in self._uncommitted:
                del self._open[bucket_id]
        if self._dynamic is not None:
            self._dynamic.retain_partitions({partition for partition, _ in (*self._open, *self._uncommitted)})

    def mark_committed(self, identifier: int, snapshot_id: int | None = None) -> None:
        """Note that all messages so far are committed.

        Idle buckets are closed at the next `prepare`, their indexes evicted.
        """
        self._uncommitted.clear()
        if self._dynamic is not None:
            self._dynamic.evict_committed(identifier, identifier)
        if self._moving is not None and self._moving.snapshot_id is not None and snapshot_id is not None:
            self._moving.snapshot_id = snapshot_id

    def mark_compactions_lost(self) -> None:
        """Note that all messages so far are committed except their compactions.

        The next rows restore their buckets.
        """
        writers, self._open = list(self._open.values()), {}
        parallel_map(lambda writer: writer.abort(), writers)

    def abort(self) -> None:
        """Forgets what was not prepared, and deletes its files."""
        writers, self._open = list(self._open.values()), {}
        self._local, self._local_bytes = [], 0
        try:
            parallel_map(lambda writer: writer.abort(), writers)
        finally:
            self._spill.close()


def _places_with_new_files(snapshot_buckets: SnapshotBuckets) -> list[BucketId]:
    return [
        bucket_id
        for bucket_id in snapshot_buckets.bucket_ids()
        if any(file.level == 0 for file in snapshot_buckets.live_files(*bucket_id))
    ]


def _find_live_file(message: CommitMessage) -> str | None:
    """Return a file that is live from the message's commit until it is replaced; None without one."""
    removed = {file.name for file in message.compact_before}
    return next((file.name for file in (*message.compact_after, *message.new_files) if file.name not in removed), None)


def _add_hash_index(message: CommitMessage, index: PreparedIndexes) -> CommitMessage:
    """Return the message with its bucket's new hash index and the index files its partition started from."""
    own = index.files.get((message.partition, message.bucket))
    if own is None and message.partition not in index.bases:
        return message
    return replace(
        message, new_index_files=(own,) if own is not None else (), hash_index_base=index.bases.get(message.partition)
    )
