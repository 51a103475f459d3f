"""The writer of one bucket: it buffers rows, flushes and compacts files, and prepares commit messages.

    write, write …  ->  buffer  ->  flush: level 0  ->  compact  ->  prepare: CommitMessage
                          └ scratch file                               new files | compacted before, after | index files

Key tables number their rows and merge them when they flush; their LSM tree is `MergeTree`. Append tables keep rows as
they are, or in the order of `clustering.columns`. Postponed buckets (bucket -2) keep rows in order of arrival,
unnumbered; a later compaction assigns their buckets. Compactions run in the flush that they follow, one at most. Older
rows are looked up in the levels above a compaction's output, and marked in the bucket's deletion vectors, if it has
any. Nothing is visible before a commit. `drop` deletes the files that were not prepared; files that were prepared
belong to their message.

Source: ENGINE.md 1.1, 1.2, 2 to 2.8, 7.6 and 8.1; `MergeTreeWriter`, `AppendOnlyWriter`, `PostponeBucketWriter`,
`MergeTreeCompactManager`, `LookupMergeTreeCompactRewriter`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from lakekit.bucket import sort_order, write_buffer as flushing
from lakekit.bucket.append_compaction import AppendBucket, ClusteredBucket, uses_clustering
from lakekit.bucket.compaction import CompactionJob, compact_unit
from lakekit.bucket.deletion_vector_writer import BucketDeletionVectors
from lakekit.bucket.lookup import LookupLevels, look_up_rows
from lakekit.bucket.merge_read import record_expiration
from lakekit.bucket.restore import check_buckets
from lakekit.bucket.write_buffer import SpillFile, WriteBuffer
from lakekit.columns import KIND, LEVEL, SEQUENCE, cols
from lakekit.data_file.paths import paths_with_extra_files
from lakekit.data_file.rolling_writer import WriteTarget, write_run
from lakekit.lsm import compaction_picker, merge
from lakekit.lsm.compaction_picker import LsmLevels
from lakekit.model.commit_message import CommitMessage
from lakekit.model.data_file import APPEND_SOURCE
from lakekit.model.table_paths import POSTPONE_BUCKET
from lakekit.runtime import wall_clock_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from lakekit.bucket.compaction import CompactResult
    from lakekit.bucket.restore import RestoredBucket
    from lakekit.bucket.sort_order import SortOrder
    from lakekit.data_file.paths import FileNames
    from lakekit.lsm.compaction_picker import CompactionUnit
    from lakekit.lsm.merge_spec import MergeSpec
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.model.index_manifest import IndexFileMeta


@dataclass(slots=True, kw_only=True)
class RecordingLookup:
    """The older rows as a compaction looks them up (`look_up_rows.PreviousRows`).

    `deleted_positions` collects the positions of the rows found by file name, for deletion vectors.
    """

    lookup_levels: LookupLevels
    columns: tuple[str, ...]
    deleted_positions: dict[str, list[NDArray[np.int64]]] = field(default_factory=dict)

    def __call__(self, keys: pl.DataFrame) -> pl.DataFrame:
        result = look_up_rows(self.lookup_levels, keys, self.columns)
        for name, positions in result.positions.items():
            self.deleted_positions.setdefault(name, []).append(positions)
        return result.rows.drop(LEVEL) if self.columns else keys.clear()


@dataclass(slots=True, kw_only=True, eq=False)
class MergeTree:
    """The LSM tree of one bucket while it is written: flushed files are added to level 0, compactions move them up.

    `ignores_existing`: the writer ignores existing rows, and so writes no changelog against them. `vectors` are read by
    the first compaction. `last_full_compaction_ms` is when the whole bucket was last compacted. `idle_triggers`: see
    `compaction_picker.pick_or_force_level0`.
    """

    ctx: TableContext
    partition: bytes
    bucket: int
    file_names: FileNames
    spec: MergeSpec
    restored_bucket: RestoredBucket
    vectors: BucketDeletionVectors | None = None
    ignores_existing: bool = False
    last_full_compaction_ms: int | None = None
    idle_triggers: int = 0
    _levels: LsmLevels | None = None
    _flushed_files: list[DataFileMeta] = field(default_factory=list)
    _flushed_keys: dict[str, pl.DataFrame] = field(default_factory=dict)

    @staticmethod
    def restore(
        ctx: TableContext,
        bucket_id: tuple[bytes, int],
        restored: RestoredBucket,
        file_names: FileNames,
        spec: MergeSpec,
        *,
        replaces: bool,
    ) -> MergeTree:
        """Return the tree of a (partition, bucket) as a snapshot has it."""
        partition, bucket_number = bucket_id
        return MergeTree(
            ctx=ctx,
            partition=partition,
            bucket=bucket_number,
            file_names=file_names,
            spec=spec,
            restored_bucket=restored,
            ignores_existing=replaces,
        )

    @property
    def levels(self) -> LsmLevels:
        """Return the files by level and run.

        A writer that only adds files never calls this: flushed files then wait beside those restored.
        """
        levels = self._levels
        if levels is None:
            levels = LsmLevels.from_files(self.restored_bucket.files, self.ctx.options)
            last, now_ms = compaction_picker.last_full_compaction_ms(levels), self.ctx.runtime.now_ms()
            # files keep the time of the wall clock
            self.last_full_compaction_ms = None if last is None else last - (wall_clock_ms(now_ms) - now_ms)
        if self._flushed_files:
            levels, self._flushed_files = levels.with_changes((), self._flushed_files), []
        self._levels = levels
        return levels

    @property
    def run_count(self) -> int:
        """Return the number of sorted runs: how many a reader merges at most."""
        return len(self.levels.runs)

    @property
    def is_compaction_due(self) -> bool:
        """Return whether level 0 must be emptied and is not empty."""
        return self.ctx.options.needs_lookup and bool(self.levels.level_0)

    @property
    def needs_flushed_keys(self) -> bool:
        """Return whether the compaction after a flush may need only the keys of its files, for deletion vectors."""
        options = self.ctx.options
        return options.deletion_vectors_enabled and not options.write_only and not self._lookup_columns()

    def add_files(self, files: Sequence[DataFileMeta], keys: pl.DataFrame | None = None) -> None:
        """Add flushed files.

        `keys` are those of the first rows, in file order. They are kept for the next compaction if they are all the
        keys.
        """
        self._flushed_files += files
        if keys is not None and len(files) == 1 and keys.height == files[0].row_count:
            self._flushed_keys[files[0].name] = keys

    def compact(self, *, full: bool) -> CompactResult | None:
        """Compact what is due, or everything; None if nothing was due.

        Raises what `compaction.compact` and reading deletion vectors raise; then the tree is unchanged.
        """
        if self.vectors is None and self.ctx.options.deletion_vectors_enabled:
            self.vectors = BucketDeletionVectors.restore(
                self.ctx, self.partition, self.bucket, self.restored_bucket.vectors
            )
        unit = self._full_compaction_unit() if full else self._pick_due_unit()
        flushed, self._flushed_keys = self._flushed_keys, {}
        if unit is None:
            return None
        recorder = RecordingLookup(lookup_levels=self._lookup_levels(unit), columns=self._lookup_columns())
        result = compact_unit(self._compaction_job(recorder, flushed), unit)
        self._levels = self.levels.with_changes(result.before, result.after)
        if unit.is_full:
            self.last_full_compaction_ms = self.ctx.runtime.now_ms()
        if self.vectors is not None:
            self.vectors.add_positions(
                {name: np.concatenate(parts) for name, parts in recorder.deleted_positions.items()}
            )
            self.vectors.remove_files(result.rewritten_names)
        return result

    def _pick_due_unit(self) -> CompactionUnit | None:
        unit, self.idle_triggers = compaction_picker.pick_or_force_level0(
            self.levels,
            self.ctx.options,
            now_ms=self.ctx.runtime.now_ms(),
            last_full_ms=self.last_full_compaction_ms,
            idle_triggers=self.idle_triggers,
        )
        return unit

    def _full_compaction_unit(self) -> CompactionUnit | None:
        due = record_expiration(self.ctx, self.ctx.runtime.now_ms())
        positions = {} if self.vectors is None else self.vectors.positions
        return compaction_picker.pick_full_compaction(
            self.levels,
            self.ctx.options,
            has_vector=lambda file: file.name in positions,
            is_expired=None if due is None else due.may_have_expired_rows,
        )

    def _compaction_job(
        self, recording_lookup: RecordingLookup, flushed_keys: Mapping[str, pl.DataFrame]
    ) -> CompactionJob:
        return CompactionJob(
            ctx=self.ctx,
            partition=self.partition,
            bucket=self.bucket,
            levels=self.levels,
            file_names=self.file_names,
            spec=self.spec,
            deletions={} if self.vectors is None else self.vectors.positions,
            find_previous_rows=recording_lookup,
            deletion_vectors_only=not recording_lookup.columns and not self.spec.ignores_deletes,
            flushed_keys=flushed_keys,
            writes_changelog=not self.ignores_existing,
            snapshot_id=self.restored_bucket.snapshot_id,
        )

    def _lookup_levels(self, unit: CompactionUnit) -> LookupLevels:
        return LookupLevels(
            ctx=self.ctx,
            partition=self.partition,
            bucket=self.bucket,
            runs=self.levels.runs_above(unit.output_level),
            deleted_positions={} if self.vectors is None else self.vectors.positions,
        )

    def _lookup_columns(self) -> tuple[str, ...]:
        """Return the columns that a compaction needs of older rows; none if positions are enough (ENGINE 2.7)."""
        rule, tells = self.spec, self.ctx.options.changelog_producer == "lookup" and not self.ignores_existing
        if rule.engine == "first-row":
            return rule.key_columns
        if (
            self.ctx.options.deletion_vectors_enabled
            and rule.engine == "deduplicate"
            and not rule.sequence_fields
            and not tells
        ):
            return ()
        return (*self.ctx.schema.names, SEQUENCE, KIND)


# ---- bucket writer ------------------------------------------------------------


BucketKind = Literal["key", "append", "postpone"]
_NO_SEQUENCE = -1
"""The sequence number of postponed rows."""


@dataclass(slots=True, kw_only=True)
class _Increment:
    """What was written and compacted since the last message."""

    new_files: list[DataFileMeta] = field(default_factory=list)
    changelog: list[DataFileMeta] = field(default_factory=list)
    compact_before: dict[str, DataFileMeta] = field(default_factory=dict)
    compact_after: list[DataFileMeta] = field(default_factory=list)
    compact_changelog: list[DataFileMeta] = field(default_factory=list)
    index: tuple[IndexFileMeta, ...] = ()
    replaced_indexes: tuple[IndexFileMeta, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (
            self.new_files
            or self.changelog
            or self.compact_before
            or self.compact_after
            or self.compact_changelog
            or self.index
        )

    def apply_compaction(self, compact_result: CompactResult) -> list[DataFileMeta]:
        """Add the files of a compaction; return the files of earlier ones that it replaced: in no snapshot."""
        unused = []
        after_names = {file.name for file in compact_result.after}
        for file in compact_result.before:
            if file in self.compact_after:
                self.compact_after.remove(file)
                # a file that only moved belongs to a snapshot, or to the new files
                if file.name not in self.compact_before and file.name not in after_names:
                    unused.append(file)
            else:
                self.compact_before[file.name] = file
        self.compact_after += compact_result.after
        self.compact_changelog += compact_result.changelog
        return unused

    def uncommitted_files(self) -> list[DataFileMeta]:
        """Return the files that exist for this increment alone."""
        moved = self.compact_before.keys()
        return [
            *self.new_files,
            *self.changelog,
            *(file for file in self.compact_after if file.name not in moved),
            *self.compact_changelog,
        ]


class BucketWriter:
    """The writer of one bucket; see the module.

    `restored` is the state of the bucket: `EMPTY_BUCKET` for a writer that replaces the existing rows (`replaces`).
    `spill` is shared by the buckets of a table writer.

    Raises:
        InvalidOption: the partition has another number of buckets, or options contradict each other.
        Unsupported: the merge engine does not exist.
    """

    def __init__(
        self,
        ctx: TableContext,
        partition: bytes,
        bucket: int,
        total_buckets: int,
        restored: RestoredBucket,
        file_names: FileNames,
        *,
        spill: SpillFile | None = None,
        replaces: bool = False,
    ) -> None:
        check_buckets(ctx, partition, restored, total_buckets)
        self.ctx, self.partition, self.bucket, self.total_buckets, self.names = (
            ctx,
            partition,
            bucket,
            total_buckets,
            file_names,
        )
        self.kind: BucketKind = "append" if ctx.kind == "append" else "postpone" if bucket == POSTPONE_BUCKET else "key"
        self.spec = (
            merge.merge_spec_from_options(ctx.schema, ctx.all_options, table=ctx.name) if self.kind == "key" else None
        )
        self.next_sequence = restored.max_sequence + 1
        self._order = sort_order.write_sort_order(ctx)
        key = (
            self.spec.key_columns
            if self.spec is not None
            else self._order.sort_column_names
            if self._order is not None
            else ()
        )
        self._buffer = WriteBuffer(key_columns=key, spill_file=spill or make_spill_file(ctx))
        self._own_spill = spill is None
        self._increment = _Increment()
        self._keeps_input = self.kind == "key" and ctx.options.changelog_producer == "input" and not replaces
        self._postponed = False
        self._tree: MergeTree | AppendBucket | ClusteredBucket | None = None
        if self.kind == "append" and total_buckets > 0:
            kind = ClusteredBucket if uses_clustering(ctx) else AppendBucket
            self._tree = kind.restore(ctx, (partition, bucket), restored, file_names)
        elif self.spec is not None:
            self._tree = MergeTree.restore(ctx, (partition, bucket), restored, file_names, self.spec, replaces=replaces)

    @property
    def memory_bytes(self) -> int:
        """Return how much memory the buffered rows take."""
        return self._buffer.memory_bytes

    @property
    def is_idle(self) -> bool:
        """Return whether there is nothing to prepare."""
        return not self._buffer.row_count and self._increment.is_empty

    @property
    def is_idle_and_compacted(self) -> bool:
        """Return whether the writer is idle and no compaction is due."""
        return self.is_idle and not self._postponed and not (self._tree is not None and self._tree.is_compaction_due)

    # ---- rows

    def write(self, frame: pl.DataFrame) -> None:
        """Add rows that are newer than all before: the table's columns, and in key tables `_VALUE_KIND`."""
        if not frame.height:
            return
        # by columns, as a query of Polars would wait for the threads of other queries
        names = [*self.ctx.schema.names, *(() if self.kind == "append" else (KIND,))]
        frame = frame.clone() if frame.columns == names else pl.DataFrame([frame.get_column(name) for name in names])
        if self.kind == "key":
            numbers = np.arange(self.next_sequence, self.next_sequence + frame.height)
            self.next_sequence += frame.height
            frame.insert_column(len(names) - 1, pl.Series(SEQUENCE, numbers, pl.Int64))
        elif self.kind == "postpone":
            frame.insert_column(len(names) - 1, pl.Series(SEQUENCE, np.full(frame.height, _NO_SEQUENCE), pl.Int64))
        self._buffer.add(frame if self._order is None else self._order.with_curve_position(frame))

    def release_memory(self) -> None:
        """Free the memory of the buffer: spill its rows to the scratch file, or else flush them.

        They are flushed if the table does not allow spilling, or the scratch file is full.
        """
        if not (self.ctx.options.write_buffer_spillable and self._buffer.spill_to_disk()):
            self.flush()

    def flush(self) -> None:
        """Write the buffered rows to files of level 0, and run the compaction that is due then.

        If writing fails, the rows are still in the buffer and no file is left.
        """
        self._run_pending_compaction()
        self._flush()
        if not self.ctx.options.write_only:
            self._compact(full=False)

    def compact(self, *, full: bool = False) -> None:
        """Flush, and compact what is due, or everything: also in tables with `write-only`."""
        self._run_pending_compaction()
        self._flush()
        self._compact(full=full)

    def _run_pending_compaction(self) -> None:
        """Run the compaction that a message did not wait for."""
        if self._postponed:
            self._postponed = False
            self._compact(full=False)

    def _compact(self, *, full: bool) -> None:
        result = None if self._tree is None else self._tree.compact(full=full)
        if result is not None:
            self._delete_files(self._increment.apply_compaction(result))

    def _flush(self) -> None:
        if not self._buffer.row_count:
            return
        tree = self._tree if isinstance(self._tree, MergeTree) else None
        first_keys: list[pl.DataFrame] | None = [] if tree is not None and tree.needs_flushed_keys else None
        new = self._write_files(APPEND_SOURCE, "data", first_keys)
        try:
            changelog = self._write_files(APPEND_SOURCE, "changelog") if self._keeps_input else []
        except BaseException:
            self._delete_files(new)
            raise
        self._buffer.clear()
        self._increment.new_files += new
        self._increment.changelog += changelog
        if tree is not None and first_keys:
            tree.add_files(new, first_keys[0])
        elif self._tree is not None:
            self._tree.add_files(new)
        if self.kind == "append":
            self.next_sequence = new[-1].max_sequence_number + 1

    def _write_files(
        self, source: int, kind: Literal["data", "changelog"], first_keys: list[pl.DataFrame] | None = None
    ) -> list[DataFileMeta]:
        """Write the buffered rows to files; add the key columns of the first section to `first_keys`, in file order."""
        target = WriteTarget(
            ctx=self.ctx,
            partition=self.partition,
            bucket=self.bucket,
            level=0,
            source=source,
            file_names=self.names,
            is_keyed=self.kind != "append",
            kind=kind,
            first_sequence_number=self.next_sequence,
        )
        rows = self._frames_to_write(kind)
        return write_run(
            target,
            rows
            if first_keys is None or self.spec is None
            else _capture_first_keys(rows, self.spec.key_columns, first_keys),
        )

    def _frames_to_write(self, kind: Literal["data", "changelog"]) -> Iterable[pl.DataFrame]:
        """Return the rows for data or changelog files, one section of the buffer after another."""
        rule, sections = self.spec, self._buffer.iter_sections(self.ctx.options.write_buffer_size_bytes)
        if rule is None:
            return sections if self._order is None else self._sort_sections(sections, self._order)
        order = flushing.merge_for_flush if kind == "data" else flushing.sort_versions
        return (order(section, rule) for section in sections)

    def _sort_sections(self, sections: Iterable[pl.DataFrame], order: SortOrder) -> Iterable[pl.DataFrame]:
        return (
            flushing.sort_by_key(section, order.sort_column_names).select(cols(self.ctx.schema.names))
            for section in sections
        )

    # ---- messages

    def prepare(self, *, wait: bool = True) -> CommitMessage:
        """Run `flush_and_compact`, and return the `take_message`."""
        self.flush_and_compact(wait=wait)
        return self.take_message()

    def flush_and_compact(self, *, wait: bool = True) -> None:
        """Flush, and compact what is due: everything about a message that can fail.

        The files stay this writer's until `take_message` is called. Without `wait` the compaction is left to the next
        message, unless there are too many runs, or options say that commits wait for it.
        """
        if wait or self._must_wait_for_compaction():
            self.flush()
        else:
            self._run_pending_compaction()
            self._flush()
            self._postponed = not self.ctx.options.write_only
        vectors = None if self._tree is None else self._tree.vectors
        if vectors is not None:
            new, old = vectors.write_if_changed()
            if new:
                vectors.delete_files(self._increment.index)
                self._increment.replaced_indexes = self._increment.replaced_indexes or old
                self._increment.index = new

    def take_message(self) -> CommitMessage:
        """Return the files written since the last message; from now on they belong to the message."""
        increment, self._increment = self._increment, _Increment()
        return CommitMessage(
            partition=self.partition,
            bucket=self.bucket,
            total_buckets=self.total_buckets,
            new_files=tuple(increment.new_files),
            changelog_files=tuple(increment.changelog),
            compact_before=tuple(increment.compact_before.values()),
            compact_after=tuple(increment.compact_after),
            compact_changelog=tuple(increment.compact_changelog),
            compact_new_index_files=increment.index,
            compact_deleted_index_files=increment.replaced_indexes,
        )

    def _must_wait_for_compaction(self) -> bool:
        """Return whether the message must wait for the compaction that is due (ENGINE 1.2)."""
        options = self.ctx.options
        if options.commit_force_compact or (options.needs_lookup and options.lookup_wait):
            return True
        return self._tree is not None and self._tree.run_count > options.stop_trigger

    def abort(self) -> None:
        """Discard what was not prepared, and delete its files. The writer cannot be used afterwards."""
        self._buffer.clear()
        if self._own_spill:
            self._buffer.spill_file.close()
        increment, self._increment = self._increment, _Increment()
        self._delete_files(increment.uncommitted_files())
        if self._tree is not None and self._tree.vectors is not None:
            self._tree.vectors.delete_files(increment.index)

    def _delete_files(self, files: Iterable[DataFileMeta]) -> None:
        self.ctx.storage.delete(paths_with_extra_files(self.ctx, self.partition, self.bucket, files))


def _capture_first_keys(
    frames: Iterable[pl.DataFrame], key_columns: Sequence[str], first_keys: list[pl.DataFrame]
) -> Iterator[pl.DataFrame]:
    for frame in frames:
        if not first_keys:
            first_keys.append(pl.DataFrame([frame.get_column(name) for name in key_columns]))
        yield frame


def make_spill_file(ctx: TableContext) -> SpillFile:
    """Return the scratch file of one table writer, as the table's options define it."""
    options = ctx.options
    return SpillFile(
        runtime=ctx.runtime,
        compression=options.spill_compression,
        max_bytes=options.write_buffer_spill_max_disk_size_bytes,
    )
