"""All open bucket writers of one table writer: rows are sent to their buckets, the buckets share the memory, and a commit's messages come from all of them.

    write(frame)   ->  assigner  ->  (partition, bucket, rows)  ->  a `BucketWriter` each, restored from the newest snapshot when first met
                                                                    beyond `write-buffer-size` the biggest gives its memory back first
    prepare        ->  every bucket flushes and compacts, side by side; hash indexes are written; then messages, which cannot fail any more

Source: ENGINE.md 1.2, 2.6, 7; `AbstractFileStoreWrite`, `MemoryPoolFactory`, `TableWriteImpl`, `LocalMergeOperator`, `GlobalFullCompactionSinkWrite`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from lakekit.bucket import flush as flushing
from lakekit.bucket.bucket_writer import BucketWriter, spill_of
from lakekit.bucket.expired import expiry
from lakekit.bucket.merge_read import KIND, SEQUENCE
from lakekit.bucket.restore import EMPTY_BUCKET, SnapshotBuckets
from lakekit.columns import cols
from lakekit.data_file.file_names import FileNames, file_names
from lakekit.data_file.paths import partition_spec, partition_values
from lakekit.errors import Unsupported
from lakekit.lsm import rule as rules
from lakekit.metadata import feature_check, snapshots
from lakekit.model.table_paths import POSTPONE_BUCKET
from lakekit.options.frozendict import EMPTY
from lakekit.progress import work
from lakekit.world import parallel_map
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
    from lakekit.write.bucket_assigners import BucketAssigner
    from lakekit.write.shares import WriteShard

T = TypeVar("T")
BucketId = tuple[bytes, int]
_WRITE_IDS = 2**31 - 1
_SHARED_FACTOR = 2
"""Frames that buckets share may take this many times `write-buffer-size` before all of them are given back."""


class BucketWriters:
    """The bucket writers of one table writer, of one thread. `replaces`: an overwrite, which takes no notice of what is there. `batch`: of one commit.

    `share`: of a write that is cut into tasks, what is met here. `standing`: what stands in a snapshot, as far as the caller has read it.
    `sequences`: the greatest sequence numbers of an earlier writer whose messages may not be committed yet.

    In postponed tables that say `postpone.batch-write-fixed-bucket` the rows of a batch go into buckets at once, and wait there for a compaction.
    Raises what assigners and `BucketWriter` raise. After an error in `write`, `compact` or `prepare` only `drop` is left to do.
    """

    def __init__(
        self,
        ctx: TableContext,
        *,
        commit_user: str,
        replaces: bool = False,
        batch: bool = False,
        share: WriteShard | None = None,
        standing: SnapshotBuckets | None = None,
        sequences: Mapping[BucketId, int] = EMPTY,
    ) -> None:
        feature_check.check_writable(ctx)
        if ctx.kind == "key":
            expiry(ctx, ctx.world.now_ms())  # rows that no compaction could judge are not taken
        places = batch and router.places_postponed(ctx)
        self._share = share
        self.ctx, self.commit_user, self.replaces = ctx.with_options({"write-only": "true"}) if places else ctx, commit_user, replaces
        self._assigner: BucketAssigner = (
            PostponedFixedBuckets(ctx=ctx, count=self._bucket_count) if places else router.assigner(ctx, overwrite=replaces, share=share)
        )
        self._counts: dict[bytes, int] = {}
        self._dynamic = self._assigner if isinstance(self._assigner, DynamicBuckets) else None
        self._moving = self._assigner if isinstance(self._assigner, CrossPartition) else None
        self._spill = spill_of(ctx)
        self._open: dict[BucketId, BucketWriter] = {}
        self._standing = SnapshotBuckets.of(ctx, None) if standing is None else standing
        self._sequences = dict(sequences)
        self._written: set[BucketId] = set()
        self._uncommitted: dict[BucketId, str | None] = {}
        self._local: list[pl.DataFrame] = []
        self._local_bytes = self._shared_bytes = 0
        self._prepared = 0
        self._is_compacted = False
        """Whether `_compact_fully` has run once."""
        self._write_id = int(ctx.world.new_id().replace("-", "")[:8], 16) % _WRITE_IDS

    @property
    def memory_bytes(self) -> int:
        """What rows that are not in files take of memory."""
        return sum(writer.memory_bytes for writer in self._open.values()) + self._local_bytes

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be prepared."""
        return not self._local and all(writer.is_idle for writer in self._open.values())

    @property
    def sequences(self) -> dict[BucketId, int]:
        """The greatest sequence number that each bucket was given, where a snapshot may not know it yet."""
        return self._sequences | {place: writer.next_sequence - 1 for place, writer in self._open.items()}

    @property
    def open_places(self) -> list[BucketId]:
        """The buckets this has writers of."""
        return list(self._open)

    # ---- rows

    def write(self, frame: pl.DataFrame, *, bucket: int | None = None) -> None:
        """Takes rows as `conform.batches` gives them. `bucket`: the caller's word where they belong."""
        if not frame.height:
            return
        merges = self.ctx.options.local_merge_buffer_size_bytes if self.ctx.kind == "key" else None
        if merges is None or bucket is not None:
            self._merge_locally()
            self._send(frame, bucket)
            return
        self._local.append(frame)
        self._local_bytes += int(frame.estimated_size())
        if self._local_bytes >= merges:
            self._merge_locally()

    def _merge_locally(self) -> None:
        """One row a key of those that wait, before any is sent to its bucket (ENGINE 1.2, local merge)."""
        if not self._local:
            return
        ctx, rows = self.ctx, pl.concat(self._local)
        self._local, self._local_bytes = [], 0
        rule = replace(rules.merge_spec_from_options(ctx.schema, ctx.all_options, table=ctx.name), key=ctx.schema.primary_keys)
        numbered = rows.with_columns(pl.int_range(rows.height, dtype=pl.Int64).alias(SEQUENCE)).select(*cols(ctx.schema.names), SEQUENCE, KIND)
        self._send(flushing.flush(numbered, rule).drop(SEQUENCE), None)

    def _send(self, frame: pl.DataFrame, bucket: int | None) -> None:
        assigner = self._assigner if bucket is None else router.assigner(self.ctx, bucket=bucket)
        parts = list(router.split(frame, self.ctx, assigner))
        self._restore([(partition, number) for partition, number, _ in parts])
        for partition, number, rows in parts:
            self._open[partition, number].write(rows)
            self._written.add((partition, number))
        if len(parts) > 1:
            self._shared_bytes += int(frame.estimated_size())
        self._relieve()

    def _relieve(self) -> None:
        """While the buckets hold more than `write-buffer-size`, the biggest gives its memory back.

        Buckets hold slices of the same frames: a small one may keep alive what bigger ones gave back, so now and then all give.
        """
        limit, held = self.ctx.options.write_buffer_size_bytes, sum(writer.memory_bytes for writer in self._open.values())
        while held > limit:
            biggest = max(self._open.values(), key=lambda writer: writer.memory_bytes)
            held -= biggest.memory_bytes
            biggest.relieve()
        if self._shared_bytes > limit * _SHARED_FACTOR:
            self._shared_bytes = 0
            for writer in self._open.values():
                writer.relieve()

    def _restore(self, places: list[BucketId]) -> None:
        """Opens the buckets that are not open yet."""
        missing = [place for place in places if place not in self._open]
        if not missing:
            return
        standing: dict[BucketId, RestoredBucket] = {} if self._starts_anew(missing) else self._looked(lambda standing: self._found(standing, missing))
        for place in missing:
            if self._share is not None and not self._share.meets(*place):
                msg = f"a row of bucket {place[1]} came to task {self._share.task}, and belongs to another: nothing is written, as a key could lie twice"
                raise Unsupported(msg, feature="spark.write")
            self._open[place] = self._opened(place, EMPTY_BUCKET if self._starts_anew([place]) else standing[place])

    def _found(self, standing: SnapshotBuckets, places: list[BucketId]) -> dict[BucketId, RestoredBucket]:
        only_adds = self.ctx.kind == "key" and self.ctx.options.write_only
        (standing.prepare if only_adds else standing.load)(partition for partition, _ in places)
        return {place: standing.bucket(*place) for place in places}

    def _looked(self, look: Callable[[SnapshotBuckets], T]) -> T:
        """What `look` finds in the newest snapshot, by which this goes from now on; it may expire meanwhile."""

        def at(newest: Snapshot | None) -> T:
            if newest is not None and self._standing.snapshot != newest:
                self._standing = SnapshotBuckets.of(self.ctx, newest)
            return look(self._standing)

        return snapshots.with_latest(self.ctx, at)

    def _starts_anew(self, places: list[BucketId]) -> bool:
        """Whether writers of those buckets need not know what is there: overwrites, postponed rows, and rows that no bucket holds together."""
        return self.replaces or not self.ctx.has_buckets or all(bucket == POSTPONE_BUCKET for _, bucket in places)

    def _opened(self, place: BucketId, restored: RestoredBucket) -> BucketWriter:
        partition, bucket = place
        names = file_names(self.ctx)
        if bucket == POSTPONE_BUCKET:  # one prefix a writer: its files are replayed in the order they were made (ENGINE 7.6)
            names = FileNames(f"{names.prefix}-u-{self.commit_user}-s-{self._write_id}-w-", names.uuid)
        total = self.ctx.options.bucket
        if total == POSTPONE_BUCKET and bucket >= 0:
            total = self._counts.get(partition) or restored.total_buckets or self.ctx.options.postpone_default_bucket_num
        writer = BucketWriter(self.ctx, partition, bucket, total, restored, names, spill=self._spill, replaces=self.replaces)
        writer.next_sequence = max(writer.next_sequence, self._sequences.get(place, -1) + 1)
        return writer

    def _bucket_count(self, partition: bytes) -> int:
        """How many buckets a partition of postponed rows has: as many as its first compaction chose, else the option's number. The same for all its rows."""
        if partition not in self._counts:
            self._counts[partition] = self._looked(lambda standing: postponed_count(self.ctx, standing, partition))
        return self._counts[partition]

    # ---- compaction

    def compact(self, *, partition: Mapping[str, Any] | None = None, bucket: int | None = None, full: bool = False) -> None:
        """Compacts the open buckets, or those of the newest snapshot in matching partitions, of that number. Raises `ColumnNotFound`."""
        self._merge_locally()
        places = list(self._open)
        if partition is not None or bucket is not None:
            wanted = partition_spec(self.ctx, partition or {})
            there = self._looked(lambda standing: standing.places())
            places = [place for place in {*there, *places} if bucket in (None, place[1]) and self._matches(place[0], wanted)]
        self.compact_places(places, full=full)

    def compact_places(self, places: list[BucketId], *, full: bool = False) -> None:
        """Compacts those buckets, one after another."""
        self._restore(places)
        with work(self.ctx.world, "compacting", "buckets", len(places)) as under_way:
            for place in sorted(places):
                self._open[place].compact(full=full)
                under_way.advance()

    def _matches(self, partition: bytes, wanted: Mapping[int, Any]) -> bool:
        values = partition_values(self.ctx, partition) if wanted else ()
        return all(values[at] == value for at, value in wanted.items())

    def _compact_fully(self, *, wait: bool, identifier: int | None) -> None:
        """Compact fully the buckets written since the last time, every `full-compaction.delta-commits` commits (ENGINE 2.6).

        A commit with an `identifier` is one where that number is a multiple of n, as in the reference engine, whose readers (`scan.mode`=compacted-full)
        look for such snapshots. The first one of a writer takes along buckets that an earlier writer left with new files.
        """
        interval = self.ctx.options.full_compaction_interval
        is_due = wait or self._prepared % max(interval, 1) == 0 if identifier is None else identifier % max(interval, 1) == 0
        if interval < 1 or self.ctx.options.write_only or not is_due:
            return
        if identifier is not None and interval > 1 and not self._is_compacted:
            places = self._looked(_places_with_new_files)
            self._written |= {place for place in places if self._share is None or self._share.meets(*place)}
        self._is_compacted = True
        self.compact_places(list(self._written), full=True)
        self._written.clear()

    # ---- messages

    def prepare(self, *, wait_compaction: bool = True, identifier: int | None = None) -> list[CommitMessage]:
        """What was written and compacted since the last time. Nothing is the messages' unless all of them could be made.

        `identifier`: the number of the commit that takes the messages, where it is known.
        """
        self._merge_locally()
        self._prepared += 1
        self._compact_fully(wait=wait_compaction, identifier=identifier)
        with work(self.ctx.world, "writing", "buckets", len(self._open)) as under_way:
            parallel_map(lambda writer: writer.ready(wait=wait_compaction), self._open.values(), after=lambda _: under_way.advance())
        index = PreparedIndexes({}, {}) if self._dynamic is None else self._dynamic.prepare(lambda: f"index-{self.ctx.world.new_id()}-0")
        self._shared_bytes = 0
        found = {place: writer.message() for place, writer in self._open.items()}
        self._close_resting([place for place, message in found.items() if message.is_empty and self._open[place].is_settled])
        self._uncommitted |= {place: _witness(message) for place, message in found.items() if not message.is_empty}
        known_at = None if self._moving is None else self._moving.known_at
        return [replace(_add_hash_index(message, index), keys_known_at=known_at) for message in found.values() if not message.is_empty]

    def _close_resting(self, places: list[BucketId]) -> None:
        """Closes buckets that nothing happens in once their messages are committed: the next row finds what others made of them.

        Nobody tells this writer of a commit by `t.commit`, in another process perhaps. It is seen by a file of the last message that is live.
        """
        untold = [place for place in places if self._uncommitted.get(place)]
        if untold:
            self._looked(lambda standing: standing.load(partition for partition, _ in untold))
        for place in places:
            witness = self._uncommitted.get(place)
            if witness is not None and any(file.name == witness for file in self._standing.bucket(*place).files):
                del self._uncommitted[place]
            if place not in self._uncommitted:
                del self._open[place]
        if self._dynamic is not None:
            self._dynamic.keep({partition for partition, _ in (*self._open, *self._uncommitted)})

    def committed(self, identifier: int, snapshot_id: int | None = None) -> None:
        """Told when all messages so far are committed: buckets that rest are closed the next time, and their indexes forgotten."""
        self._uncommitted.clear()
        if self._dynamic is not None:
            self._dynamic.settle(identifier, identifier)
        if self._moving is not None and self._moving.known_at is not None and snapshot_id is not None:
            self._moving.known_at = snapshot_id

    def reopen(self) -> None:
        """Told when all messages so far are committed but for their compactions: the next rows find their buckets as they are."""
        writers, self._open = list(self._open.values()), {}
        parallel_map(lambda writer: writer.drop(), writers)

    def drop(self) -> None:
        """Forgets what was not prepared, and deletes its files."""
        writers, self._open = list(self._open.values()), {}
        self._local, self._local_bytes = [], 0
        try:
            parallel_map(lambda writer: writer.drop(), writers)
        finally:
            self._spill.close()


def _places_with_new_files(standing: SnapshotBuckets) -> list[BucketId]:
    return [place for place in standing.places() if any(file.level == 0 for file in standing.files(*place))]


def _witness(message: CommitMessage) -> str | None:
    """The name of a file that is live once the message is committed, until somebody replaces it; None: there is none."""
    gone = {file.name for file in message.compact_before}
    return next((file.name for file in (*message.compact_after, *message.new_files) if file.name not in gone), None)


def _add_hash_index(message: CommitMessage, index: PreparedIndexes) -> CommitMessage:
    """The message with its bucket's new hash index, and with what buckets of its partition were chosen by."""
    own = index.files.get((message.partition, message.bucket))
    if own is None and message.partition not in index.bases:
        return message
    return replace(message, new_index_files=(own,) if own is not None else (), hash_index_base=index.bases.get(message.partition))
