"""The writer of one bucket: rows come in, files are flushed and compacted, and a commit message tells what to make visible.

    write, write …  ->  buffer  ->  flush: level 0  ->  compact  ->  prepare: CommitMessage(new files | compacted before, after | index files)
                          └ scratch file

Key tables number their rows and merge them when they flush; append tables keep them as they are, or in the order of `clustering.columns`; postponed ones
(bucket -2) keep them in order of arrival, unnumbered, for a later compaction to place. Compactions run in the flush that they follow, one at most. Nothing is
visible before a commit; what was not prepared is deleted by `drop`, what was prepared belongs to its message.

Source: ENGINE.md 1.1, 1.2, 2, 7.6 and 8.1; `MergeTreeWriter`, `AppendOnlyWriter`, `PostponeBucketWriter`, `MergeTreeCompactManager`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from lakekit.bucket import flush as flushing, sort_order
from lakekit.bucket.appended import AppendBucket
from lakekit.bucket.clustered import ClusteredBucket, clusters_buckets
from lakekit.bucket.merge_read import KIND, SEQUENCE
from lakekit.bucket.restore import check_buckets
from lakekit.bucket.tree import MergeTree
from lakekit.bucket.write_buffer import SpillFile, WriteBuffer
from lakekit.columns import cols
from lakekit.data_file.paths import every_path
from lakekit.data_file.rolling_writer import WriteTarget, write_run
from lakekit.lsm import rule as rules
from lakekit.model.commit_message import CommitMessage
from lakekit.model.data_file import APPEND_SOURCE
from lakekit.model.table_paths import POSTPONE_BUCKET

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakekit.bucket.compaction import CompactResult
    from lakekit.bucket.restore import RestoredBucket
    from lakekit.bucket.sort_order import SortOrder
    from lakekit.data_file.file_names import FileNames
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.model.index_file import IndexFileMeta

Kind = Literal["key", "append", "postpone"]
_NO_SEQUENCE = -1
"""The sequence number of postponed rows."""


@dataclass(slots=True, kw_only=True)
class _Increment:
    """What was written and compacted since the last message."""

    new: list[DataFileMeta] = field(default_factory=list)
    changelog: list[DataFileMeta] = field(default_factory=list)
    before: dict[str, DataFileMeta] = field(default_factory=dict)
    after: list[DataFileMeta] = field(default_factory=list)
    compact_changelog: list[DataFileMeta] = field(default_factory=list)
    index: tuple[IndexFileMeta, ...] = ()
    replaced: tuple[IndexFileMeta, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed."""
        return not (self.new or self.changelog or self.before or self.after or self.compact_changelog or self.index)

    def take(self, done: CompactResult) -> list[DataFileMeta]:
        """Takes a compaction's files; answers those of an earlier one that nobody needs any more, as it consumed them."""
        gone = []
        stays = {file.name for file in done.after}
        for file in done.before:
            if file in self.after:
                self.after.remove(file)
                if file.name not in self.before and file.name not in stays:  # one that only moved belongs to a snapshot, or to the new files
                    gone.append(file)
            else:
                self.before[file.name] = file
        self.after += done.after
        self.compact_changelog += done.changelog
        return gone

    def made(self) -> list[DataFileMeta]:
        """Files that exist for this increment alone."""
        moved = self.before.keys()
        return [*self.new, *self.changelog, *(file for file in self.after if file.name not in moved), *self.compact_changelog]


class BucketWriter:
    """Writes one bucket; see above. `restored` is what stands in it: `NOTHING` for a writer that replaces what was there (`replaces`).

    `spill` is shared by the buckets of a table writer. Raises `InvalidOption` where the partition has another number of buckets, and for options that
    contradict each other; `Unsupported` for a merge engine nobody knows.
    """

    def __init__(
        self,
        ctx: TableContext,
        partition: bytes,
        bucket: int,
        total_buckets: int,
        restored: RestoredBucket,
        names: FileNames,
        *,
        spill: SpillFile | None = None,
        replaces: bool = False,
    ) -> None:
        check_buckets(ctx, partition, restored, total_buckets)
        self.ctx, self.partition, self.bucket, self.total_buckets, self.names = ctx, partition, bucket, total_buckets, names
        self.kind: Kind = "append" if ctx.kind == "append" else "postpone" if bucket == POSTPONE_BUCKET else "key"
        self.rule = rules.merge_spec_from_options(ctx.schema, ctx.all_options, table=ctx.name) if self.kind == "key" else None
        self.next_sequence = restored.max_sequence + 1
        self._order = sort_order.write_order(ctx)
        key = self.rule.key if self.rule is not None else self._order.names if self._order is not None else ()
        self._buffer = WriteBuffer(key=key, spill=spill or spill_of(ctx))
        self._own_spill = spill is None
        self._increment = _Increment()
        self._keeps_input = self.kind == "key" and ctx.options.changelog_producer == "input" and not replaces
        self._postponed = False
        self._tree: MergeTree | AppendBucket | ClusteredBucket | None = None
        if self.kind == "append" and total_buckets > 0:
            kind = ClusteredBucket if clusters_buckets(ctx) else AppendBucket
            self._tree = kind.of(ctx, (partition, bucket), restored, names)
        elif self.rule is not None:
            self._tree = MergeTree.of(ctx, (partition, bucket), restored, names, self.rule, replaces=replaces)

    @property
    def memory_bytes(self) -> int:
        """What the rows that are not in a file take of memory."""
        return self._buffer.memory_bytes

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be prepared."""
        return not self._buffer.row_count and self._increment.is_empty

    @property
    def is_settled(self) -> bool:
        """Whether it is idle, and no compaction is due."""
        return self.is_idle and not self._postponed and not (self._tree is not None and self._tree.is_due)

    # ---- rows

    def write(self, frame: pl.DataFrame) -> None:
        """Takes rows: the table's columns, and in key tables `_VALUE_KIND`. They are newer than all before."""
        if not frame.height:
            return
        # made of columns: an expression would wait for the threads of other queries
        names = [*self.ctx.schema.names, *(() if self.kind == "append" else (KIND,))]
        frame = frame.clone() if frame.columns == names else pl.DataFrame([frame.get_column(name) for name in names])
        if self.kind == "key":
            numbers = np.arange(self.next_sequence, self.next_sequence + frame.height)
            self.next_sequence += frame.height
            frame.insert_column(len(names) - 1, pl.Series(SEQUENCE, numbers, pl.Int64))
        elif self.kind == "postpone":
            frame.insert_column(len(names) - 1, pl.Series(SEQUENCE, np.full(frame.height, _NO_SEQUENCE), pl.Int64))
        self._buffer.add(frame if self._order is None else self._order.placed(frame))

    def relieve(self) -> None:
        """Gives the buffer's memory back: its rows go to a scratch file, or, where that may not be or is full, into files."""
        if not (self.ctx.options.write_buffer_spillable and self._buffer.to_disk()):
            self.flush()

    def flush(self) -> None:
        """Writes the buffer's rows into files of level 0, and compacts what is due then. Where writing fails, the rows are still there and no file is."""
        self._settle()
        self._flush()
        if not self.ctx.options.write_only:
            self._compact(full=False)

    def compact(self, *, full: bool = False) -> None:
        """Flushes, and compacts what is due, or everything: also in tables whose writers do not compact by themselves (`write-only`)."""
        self._settle()
        self._flush()
        self._compact(full=full)

    def _settle(self) -> None:
        """A compaction that a message did not wait for."""
        if self._postponed:
            self._postponed = False
            self._compact(full=False)

    def _compact(self, *, full: bool) -> None:
        done = None if self._tree is None else self._tree.compact(full=full)
        if done is not None:
            self._delete(self._increment.take(done))

    def _flush(self) -> None:
        if not self._buffer.row_count:
            return
        tree = self._tree if isinstance(self._tree, MergeTree) else None
        first_keys: list[pl.DataFrame] | None = [] if tree is not None and tree.asks_for_keys else None
        new = self._written(APPEND_SOURCE, "data", first_keys)
        try:
            changelog = self._written(APPEND_SOURCE, "changelog") if self._keeps_input else []
        except BaseException:
            self._delete(new)
            raise
        self._buffer.clear()
        self._increment.new += new
        self._increment.changelog += changelog
        if tree is not None and first_keys:
            tree.add(new, first_keys[0])
        elif self._tree is not None:
            self._tree.add(new)
        if self.kind == "append":
            self.next_sequence = new[-1].max_sequence_number + 1

    def _written(self, source: int, kind: Literal["data", "changelog"], first_keys: list[pl.DataFrame] | None = None) -> list[DataFileMeta]:
        """Writes what waits. `first_keys` takes the keys of the first section, as they lie in the file."""
        target = WriteTarget(
            ctx=self.ctx,
            partition=self.partition,
            bucket=self.bucket,
            level=0,
            source=source,
            names=self.names,
            keyed=self.kind != "append",
            kind=kind,
            first_sequence_number=self.next_sequence,
        )
        rows = self._rows(kind)
        return write_run(target, rows if first_keys is None or self.rule is None else _capture_first_keys(rows, self.rule.key, first_keys))

    def _rows(self, kind: Literal["data", "changelog"]) -> Iterable[pl.DataFrame]:
        """What goes into files, section by section of the buffer."""
        rule, sections = self.rule, self._buffer.sections(self.ctx.options.write_buffer_size_bytes)
        if rule is None:
            return sections if self._order is None else self._sorted(sections, self._order)
        order = flushing.flush if kind == "data" else flushing.sort_versions
        return (order(section, rule) for section in sections)

    def _sorted(self, sections: Iterable[pl.DataFrame], order: SortOrder) -> Iterable[pl.DataFrame]:
        """Append rows as `clustering.columns` wants them."""
        return (flushing.by_key(section, order.names).select(cols(self.ctx.schema.names)) for section in sections)

    # ---- messages

    def prepare(self, *, wait: bool = True) -> CommitMessage:
        """`ready`, then `message`."""
        self.ready(wait=wait)
        return self.message()

    def ready(self, *, wait: bool = True) -> None:
        """Flushes, and compacts what is due: all that can fail of a message. What is done stays this writer's.

        Without `wait` what is due is compacted for the next message, unless too many runs have gathered, or options say that commits wait for it.
        """
        if wait or self._must_wait():
            self.flush()
        else:
            self._settle()
            self._flush()
            self._postponed = not self.ctx.options.write_only
        vectors = None if self._tree is None else self._tree.vectors
        if vectors is not None:
            new, old = vectors.write()
            if new:
                vectors.discard(self._increment.index)
                self._increment.replaced = self._increment.replaced or old
                self._increment.index = new

    def message(self) -> CommitMessage:
        """All that is in files since the last message: from now on they are the message's."""
        done, self._increment = self._increment, _Increment()
        return CommitMessage(
            partition=self.partition,
            bucket=self.bucket,
            total_buckets=self.total_buckets,
            new_files=tuple(done.new),
            changelog_files=tuple(done.changelog),
            compact_before=tuple(done.before.values()),
            compact_after=tuple(done.after),
            compact_changelog=tuple(done.compact_changelog),
            compact_new_index_files=done.index,
            compact_deleted_index_files=done.replaced,
        )

    def _must_wait(self) -> bool:
        """Whether a message may not go out before the compaction that is due (ENGINE 1.2)."""
        options = self.ctx.options
        if options.commit_force_compact or (options.needs_lookup and options.lookup_wait):
            return True
        return self._tree is not None and self._tree.run_count > options.stop_trigger

    def drop(self) -> None:
        """Forgets what was not prepared, and deletes its files. The writer is done."""
        self._buffer.clear()
        if self._own_spill:
            self._buffer.spill.close()
        gone, self._increment = self._increment, _Increment()
        self._delete(gone.made())
        if self._tree is not None and self._tree.vectors is not None:
            self._tree.vectors.discard(gone.index)

    def _delete(self, files: Iterable[DataFileMeta]) -> None:
        self.ctx.storage.delete(every_path(self.ctx, self.partition, self.bucket, files))


def _capture_first_keys(frames: Iterable[pl.DataFrame], key: Sequence[str], first_keys: list[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """The frames; the keys of the first are put down on the way."""
    for frame in frames:
        if not first_keys:
            first_keys.append(pl.DataFrame([frame.get_column(name) for name in key]))
        yield frame


def spill_of(ctx: TableContext) -> SpillFile:
    """The scratch file of one table writer, as the table's options want it."""
    options = ctx.options
    return SpillFile(world=ctx.world, compression=options.spill_compression, max_bytes=options.write_buffer_spill_max_disk_size_bytes)
