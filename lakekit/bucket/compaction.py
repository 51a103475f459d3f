"""A compaction of one bucket of a key table: files of several runs become files of one level.

    sections of the unit's files, by key          what becomes of them
     |--a--|                                     one big file: only its level changes, its bytes stay
              |--b--|                            small files, and
                       |--c--|                   overlapping ones:
                    |----d----|                  b, c and d are read, merged and written together
                                 |--e--|          one big file: as a

Rows are merged by the functions that reads use. The option `lakekit.merge-memory` limits how much is read at once:
bigger rewrites go key range by key range. Nothing is visible before a commit; if anything fails, no file of the
compaction is left.

Source: ENGINE.md 2.5, 2.7, 2.9 and 4.1; `MergeTreeCompactTask`, `FileRewriteCompactTask`, `ChangelogMergeTreeRewriter`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from lakekit.bucket import lookup, merge_read
from lakekit.bucket.lookup import no_previous_rows
from lakekit.bucket.merge_read import (
    MergeTask,
    add_paths_to_errors,
    check_row_kinds,
    delete_losing_rows,
    record_expiration,
)
from lakekit.bucket.write_buffer import sort_by_key
from lakekit.columns import KIND, LEVEL, SEQUENCE
from lakekit.data_file import row_kinds
from lakekit.data_file.paths import data_file_path, paths_with_extra_files
from lakekit.data_file.reader import scan_files, translate_polars_errors
from lakekit.data_file.rolling_writer import WriteTarget, write_run
from lakekit.errors import ValueOutOfRange
from lakekit.lsm import merge, numpy_columns as keyed, sorted_runs
from lakekit.model.data_file import APPEND_SOURCE, COMPACT_SOURCE, DataFileMeta

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from lakekit.bucket.lookup import PreviousRows
    from lakekit.bucket.merge_read import RecordExpiration
    from lakekit.data_file.paths import FileNames
    from lakekit.lsm.compaction_picker import CompactionUnit, LsmLevels
    from lakekit.lsm.merge_spec import MergeSpec
    from lakekit.metadata.table_context import TableContext
    from lakekit.options.table_options import TableOptions

ChangelogMode = Literal["plain", "full", "lookup", "first-row"]
"""How rows are merged, and where the previous rows come from: nowhere, the last level, or a lookup."""
_SYSTEM_BYTES = 16
"""The bytes of memory that the system columns of a row take."""
_IGNORED_OPTIONS = ("scan.ignore-lost-files", "scan.ignore-corrupt-files", "lakekit.timestamp-unit")
"""Options of reads that would make a compaction lose rows, or parts of values, permanently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionJob:
    """Input of one compaction of one bucket.

    Attributes:
        levels: all data files of the bucket.
        deletions: positions of deleted rows by file name; empty without deletion vectors.
        find_previous_rows: finds the rows of keys above the output level. Called only in tables that need lookups.
        deletion_vectors_only: call `find_previous_rows` only because it records deleted positions; no older row takes
            part in the merge.
        flushed_keys: keys of files this writer has just flushed, by file name, of those files whose keys are still in
            memory.
        writes_changelog: write changelog files if the table's producer makes them in compactions. False for a writer
            that ignores existing rows.
    """

    ctx: TableContext
    partition: bytes
    bucket: int
    levels: LsmLevels
    file_names: FileNames
    spec: MergeSpec
    deletions: Mapping[str, NDArray[np.unsignedinteger]] = field(default_factory=dict)
    find_previous_rows: PreviousRows = no_previous_rows
    deletion_vectors_only: bool = False
    flushed_keys: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    writes_changelog: bool = True
    snapshot_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactResult:
    """What a compaction changes: `before` is removed, `after` is added; a file in both moved to another level.

    `rewritten_names` are the names of the files whose rows were written again: their deletion vectors are removed with
    them.
    """

    before: tuple[DataFileMeta, ...] = ()
    after: tuple[DataFileMeta, ...] = ()
    changelog: tuple[DataFileMeta, ...] = ()
    rewritten_names: frozenset[str] = frozenset()


def compact_unit(compaction_job: CompactionJob, unit: CompactionUnit) -> CompactResult:
    """Compact the files of a unit.

    Raises what reading and writing files raise, `Corrupt`, and what the merge engine refuses; then nothing has changed.
    """
    work = _CompactionRun(compaction_job=replace(compaction_job, ctx=with_strict_reads(compaction_job.ctx)), unit=unit)
    try:
        if unit.is_per_file:
            for file in unit.files:
                work.rewrite([_KeyRange(files=(file,), is_in_sequence=True)], drops_deletes=work.drops_deletes)
        else:
            _compact_sections(work)
    except BaseException:
        work.delete_outputs()
        raise
    return CompactResult(
        before=tuple(work.removed_files),
        after=tuple(work.added_files),
        changelog=tuple(work.changelog_files),
        rewritten_names=frozenset(work.rewritten_names),
    )


def is_small_file(file: DataFileMeta, options: TableOptions) -> bool:
    """Return whether a file is worth rewriting to make a bigger one."""
    return file.size_bytes < int(options.rolling_size_bytes // 10 * (options.compaction_small_file_ratio * 10))


def drops_deletes(compaction_job: CompactionJob, unit: CompactionUnit) -> bool:
    """Return whether the output drops deletes: nothing older lies below, or vectors have deleted the older rows."""
    return unit.output_level != 0 and (
        unit.output_level >= compaction_job.levels.highest_used_level
        or compaction_job.ctx.options.deletion_vectors_enabled
    )


def with_strict_reads(ctx: TableContext) -> TableContext:
    """Return the context without the options that let reads lose rows, or parts of values."""
    overrides = {key: None for key in _IGNORED_OPTIONS if key in ctx.all_options}
    return ctx.with_options(overrides) if overrides else ctx


def _compact_sections(run: _CompactionRun) -> None:
    """Compact the sections in key order: move big files that overlap no other, rewrite the ones between them.

    Neighbouring sections that are rewritten are written together.
    """
    options = run.compaction_job.ctx.options
    pending: list[_KeyRange] = []
    for section in _split_by_key_range(run.compaction_job, run.unit.files):
        if len(section.files) > 1 or is_small_file(section.files[0], options):
            pending.append(section)
            continue
        run.finish(pending)
        pending = []
        run.upgrade(section)
    run.finish(pending)


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeyRange:
    """Files whose key ranges overlap no others, oldest first; `is_in_sequence`: sequence numbers rise by file."""

    files: tuple[DataFileMeta, ...]
    is_in_sequence: bool


def _split_by_key_range(compaction_job: CompactionJob, files: Sequence[DataFileMeta]) -> Iterator[_KeyRange]:
    if len(files) == 1:
        yield _KeyRange(files=tuple(files), is_in_sequence=True)
        return
    bounds = merge_read.decode_keys(
        compaction_job.ctx, [*(file.min_key for file in files), *(file.max_key for file in files)]
    )
    low, high = bounds.head(len(files)), bounds.tail(len(files))
    sections = sorted_runs.build_sections(
        low.get_columns(),
        high.get_columns(),
        levels=np.array([file.level for file in files]),
        min_sequence=np.array([file.min_sequence_number for file in files]),
        max_sequence=np.array([file.max_sequence_number for file in files]),
    )
    for numbers, in_order in zip(sections, sections.is_in_sequence, strict=True):
        yield _KeyRange(files=tuple(files[at] for at in numbers), is_in_sequence=bool(in_order))


@dataclass(slots=True, kw_only=True)
class _CompactionRun:
    """A compaction that is running, and the files it has made so far."""

    compaction_job: CompactionJob
    unit: CompactionUnit
    removed_files: list[DataFileMeta] = field(default_factory=list)
    added_files: list[DataFileMeta] = field(default_factory=list)
    changelog_files: list[DataFileMeta] = field(default_factory=list)
    rewritten_names: set[str] = field(default_factory=set)
    output_files: list[DataFileMeta] = field(default_factory=list)
    drops_deletes: bool = field(init=False)
    expiration: RecordExpiration | None = field(init=False)

    def __post_init__(self) -> None:
        self.drops_deletes = drops_deletes(self.compaction_job, self.unit)
        self.expiration = record_expiration(self.compaction_job.ctx, self.compaction_job.ctx.runtime.now_ms())

    # ---- files

    def finish(self, pending: Sequence[_KeyRange]) -> None:
        """Rewrite the pending sections together; a single file is moved instead."""
        if len(pending) == 1 and len(pending[0].files) == 1:
            self.upgrade(pending[0])
        elif pending:
            self.rewrite(pending, drops_deletes=self.drops_deletes)

    def upgrade(self, section: _KeyRange) -> None:
        """Move a file to the output level; rewrite it if it cannot be moved unchanged (ENGINE 2.5, 2.7)."""
        [file] = section.files
        options, output = self.compaction_job.ctx.options, self.unit.output_level
        last = output == self.compaction_job.levels.max_level
        path = data_file_path(self.compaction_job.ctx, self.compaction_job.partition, self.compaction_job.bucket, file)
        retracts = row_kinds.has_retractions(self.compaction_job.ctx, file, path)
        # above level 0 the delete count is trusted: a file with a wrong count must be rewritten
        if (
            (retracts and (last or file.delete_row_count == 0))
            or options.compaction_force_rewrite_all_files
            or self._is_due(file)
        ):
            self.rewrite([section], drops_deletes=self.drops_deletes)
        elif file.level != output:
            mode = self._changelog_mode([file])
            if mode in ("lookup", "first-row") and self._needs_rewrite_to_upgrade(
                is_last_level=last, may_retract=retracts
            ):
                self.rewrite([section], drops_deletes=options.deletion_vectors_enabled)
                return
            if mode == "lookup" and self.compaction_job.deletion_vectors_only:
                self._look_up_keys_of_moved([section])
            elif mode != "plain":
                for _ in self._merge_slices([section], mode, drops_deletes=False):
                    pass  # only the changelog is needed, and, with deletion vectors, the rows that lookups mark
            self.removed_files.append(file)
            self.added_files.append(replace(file, level=output))

    def rewrite(self, sections: Sequence[_KeyRange], *, drops_deletes: bool) -> None:
        """Read and merge the files of some sections, and write the rows to new files."""
        frames = self._merge_slices(
            sections,
            self._changelog_mode([file for section in sections for file in section.files]),
            drops_deletes=drops_deletes,
        )
        keys: list[pl.DataFrame] = []
        written = self._write_files(
            self.unit.output_level,
            "data",
            _capture_keys(frames, self.compaction_job.spec.key_columns, keys)
            if self.compaction_job.deletion_vectors_only
            else frames,
        )
        if len(written) == 1:
            self._cache_keys_of(written[0], keys)
        self.added_files += written
        files = [file for section in sections for file in section.files]
        self.removed_files += files
        self.rewritten_names.update(file.name for file in files)

    def _cache_keys_of(self, file: DataFileMeta, keys: Sequence[pl.DataFrame]) -> None:
        """Cache the keys of a file that was just written, for the next lookup."""
        if keys and sum(part.height for part in keys) == file.row_count:
            lookup.cache_keys(
                self.compaction_job.ctx,
                data_file_path(
                    self.compaction_job.ctx, self.compaction_job.partition, self.compaction_job.bucket, file
                ),
                pl.concat(keys),
            )

    def delete_outputs(self) -> None:
        self.compaction_job.ctx.storage.delete(
            paths_with_extra_files(
                self.compaction_job.ctx, self.compaction_job.partition, self.compaction_job.bucket, self.output_files
            )
        )

    def _is_due(self, file: DataFileMeta) -> bool:
        return self.expiration is not None and self.expiration.may_have_expired_rows(file)

    def _needs_rewrite_to_upgrade(self, *, is_last_level: bool, may_retract: bool) -> bool:
        """Return whether a level 0 file must be rewritten: for its format, its deletes, or older rows."""
        options = self.compaction_job.ctx.options
        formats = options.file_format_per_level
        if formats.get(0, options.file_format) != formats.get(self.unit.output_level, options.file_format):
            return True
        if options.deletion_vectors_enabled and may_retract:
            return True
        return not is_last_level and (
            self.compaction_job.spec.engine != "deduplicate" or bool(self.compaction_job.spec.sequence_fields)
        )

    def _changelog_mode(self, files: Sequence[DataFileMeta]) -> ChangelogMode:
        options, output = self.compaction_job.ctx.options, self.unit.output_level
        if options.changelog_producer == "full-compaction":
            return (
                "full"
                if self.compaction_job.writes_changelog and output == self.compaction_job.levels.max_level
                else "plain"
            )
        if not options.needs_lookup or output == 0 or all(file.level != 0 for file in files):
            return "plain"
        return "first-row" if self.compaction_job.spec.engine == "first-row" else "lookup"

    # ---- rows

    def _merge_slices(
        self, sections: Sequence[_KeyRange], mode: ChangelogMode, *, drops_deletes: bool
    ) -> Iterator[pl.DataFrame]:
        """Yield the merged rows of some sections in key order, slice by slice, and write their changelog."""
        waiting: list[pl.DataFrame] = []
        overlaps = any(len(section.files) > 1 for section in sections)
        task = self._merge_task(sections)
        for piece in merge_read.split_by_key_range(
            task,
            max(merge_read.estimate_decoded_bytes(task), self._row_bytes * sum(file.row_count for file in task.files)),
        ):
            # the versions of a slice are released before its merged rows are written
            if mode == "lookup" and self.compaction_job.deletion_vectors_only:
                yield self._merge_in_key_order(piece, self._read_and_look_up(piece), drops_deletes=drops_deletes)
            elif mode != "plain":
                yield self._merge_with_changelog(piece, mode, waiting, drops_deletes=drops_deletes)
            elif overlaps:
                yield self._merge_in_key_order(piece, self._merge_candidates(piece), drops_deletes=drops_deletes)
            else:
                yield _drop_deletes(self._read_versions(piece, with_level=False), drops_deletes=drops_deletes)
        self._write_changelog(waiting)

    def _read_and_look_up(self, task: MergeTask) -> pl.DataFrame:
        """Return all rows of a slice, after looking up the keys of level 0.

        The keys of files that were just written are in memory; with them the levels of the rows need not be read.
        """
        level0_keys = [self.compaction_job.flushed_keys.get(file.name) for file in task.files if file.level == 0]
        cached_keys = [keys for keys in level0_keys if keys is not None]
        if len(cached_keys) == len(level0_keys) and not task.range_conditions and self.expiration is None:
            versions = self._read_versions(task, with_level=False)
            for keys in cached_keys:
                self.compaction_job.find_previous_rows(keys)
            return versions
        versions = self._read_versions(task, with_level=True)
        # by gather, as a filter is a query, which would wait for the threads of other queries
        level0_rows = np.flatnonzero(versions.get_column(LEVEL).to_numpy() == 0)
        self.compaction_job.find_previous_rows(
            pl.DataFrame(
                [versions.get_column(name).gather(level0_rows) for name in self.compaction_job.spec.key_columns]
            )
        )
        return versions

    def _look_up_keys_of_moved(self, sections: Sequence[_KeyRange]) -> None:
        """Look up the keys of files that are moved unchanged.

        Only the keys of the files are read, or not even those if the files were just written.
        """
        if (
            len(sections) == 1
            and len(sections[0].files) == 1
            and (flushed_keys := self.compaction_job.flushed_keys.get(sections[0].files[0].name)) is not None
        ):
            self.compaction_job.find_previous_rows(flushed_keys)
            self._cache_keys_of(sections[0].files[0], [flushed_keys])
            return
        task = self._merge_task(sections)
        with translate_polars_errors(task.ctx, task.paths):
            keys = scan_files(
                task.ctx, task.files, task.paths, task.ctx.schema.key_fields, snapshot_id=task.snapshot_id
            ).collect()
        self.compaction_job.find_previous_rows(keys)

    def _merge_with_changelog(
        self, task: MergeTask, mode: ChangelogMode, waiting: list[pl.DataFrame], *, drops_deletes: bool
    ) -> pl.DataFrame:
        """Return the merged rows of a slice in key order; add its changelog to `waiting`, or write what waits."""
        key = self.compaction_job.spec.key_columns
        result, changes = self._merge_section(self._read_versions(task, with_level=True), mode)
        if changes is not None and changes.height:
            waiting.append(sort_by_key(changes, key))
            del changes
        if (
            sum(frame.estimated_size() for frame in waiting)
            > self.compaction_job.ctx.options.lakekit_merge_memory_bytes // 4
        ):
            self._write_changelog(waiting)
        merged = result.filter(pl.col(KIND) & 1 == 0) if drops_deletes else result
        return sort_by_key(merged, key)

    def _merge_section(self, section: pl.DataFrame, mode: ChangelogMode) -> tuple[pl.DataFrame, pl.DataFrame | None]:
        """Return the merged rows of a section, and its changelog."""
        options, rule = self.compaction_job.ctx.options, self.compaction_job.spec
        tells = self.compaction_job.writes_changelog and options.changelog_producer in ("lookup", "full-compaction")
        ignored = options.changelog_producer_row_deduplicate_ignore_fields
        compared = merge.select_compared_fields(
            rule.fields, deduplicated=options.changelog_producer_row_deduplicate, ignored_columns=ignored
        )
        if mode == "first-row":
            return lookup.merge_first_rows(
                section, rule, self.compaction_job.find_previous_rows, writes_changelog=tells
            )
        if mode == "lookup":
            return lookup.merge_with_lookup(
                section, rule, self.compaction_job.find_previous_rows, compared_fields=compared, writes_changelog=tells
            )
        return lookup.merge_for_full_compaction(section, rule, self.compaction_job.levels.max_level, compared)

    @property
    def _row_bytes(self) -> int:
        """Return about how much memory a row takes during a merge: it is held twice, as read and as sorted."""
        return 2 * (merge_read.estimate_row_bytes(self.compaction_job.ctx.schema.fields) + _SYSTEM_BYTES)

    def _merge_task(self, sections: Sequence[_KeyRange]) -> MergeTask:
        job = self.compaction_job
        files = tuple(file for section in sections for file in section.files)
        return MergeTask(
            ctx=job.ctx,
            files=files,
            paths=tuple(data_file_path(job.ctx, job.partition, job.bucket, file) for file in files),
            spec=job.spec,
            is_in_sequence=all(section.is_in_sequence for section in sections),
            deletions={file.name: job.deletions[file.name] for file in files if file.name in job.deletions},
            snapshot_id=job.snapshot_id,
        )

    def _merge_in_key_order(self, task: MergeTask, section: pl.DataFrame, *, drops_deletes: bool) -> pl.DataFrame:
        """Return the merged rows of a slice in key order."""
        with add_paths_to_errors(task.paths):
            return _merge_by_key(section, self.compaction_job.spec, drops_deletes=drops_deletes)

    def _merge_candidates(self, task: MergeTask) -> pl.DataFrame:
        """Return the rows from which the merged rows of a slice are made.

        These are all versions; or the winners alone, if a value of another version does not fit the column's type of
        today.
        """
        try:
            return self._read_versions(task, with_level=task.spec.needs_lookup)
        except ValueOutOfRange:
            if (
                not merge.selects_rows(task.spec)
                or self.expiration is not None
                or task.ctx.options.sequence_snapshot_ordering
            ):
                raise
            return self._read_versions(delete_losing_rows(task), with_level=task.spec.needs_lookup)

    def _read_versions(self, task: MergeTask, *, with_level: bool) -> pl.DataFrame:
        """Return all rows of a slice, oldest run first, without deleted and expired ones.

        If `with_level`, with the level that each came from.
        """
        system = [SEQUENCE, KIND, LEVEL] if with_level else [SEQUENCE, KIND]
        with translate_polars_errors(task.ctx, task.paths):
            if task.ctx.options.sequence_snapshot_ordering:
                versions = pl.concat(
                    pl.collect_all(
                        [
                            _apply_commit_sequence(self._scan_task(part, system), part.files[0])
                            for part in _split_by_file(task)
                        ]
                    )
                )
            else:
                versions = self._scan_task(task, system).collect()
        check_row_kinds(versions[KIND], task.paths)
        return versions

    def _scan_task(self, task: MergeTask, system: Sequence[str]) -> pl.LazyFrame:
        alive = [] if self.expiration is None else [self.expiration.unexpired_condition()]
        return scan_files(
            task.ctx,
            task.files,
            task.paths,
            task.ctx.schema.fields,
            system=system,
            deleted_rows=task.deletions,
            filters=[*task.range_conditions, *alive],
            snapshot_id=task.snapshot_id,
        )

    def _write_changelog(self, waiting: list[pl.DataFrame]) -> None:
        """Write the changelog rows that wait."""
        if waiting:
            self.changelog_files += self._write_files(self.unit.output_level, "changelog", waiting)
            waiting.clear()

    def _write_files(
        self, level: int, kind: Literal["data", "changelog"], frames: Iterator[pl.DataFrame] | Sequence[pl.DataFrame]
    ) -> list[DataFileMeta]:
        job = self.compaction_job
        target = WriteTarget(
            ctx=job.ctx,
            partition=job.partition,
            bucket=job.bucket,
            level=level,
            source=COMPACT_SOURCE if kind == "data" else APPEND_SOURCE,
            file_names=job.file_names,
            kind=kind,
            is_keyed=True,
        )
        written = write_run(target, (frame for frame in frames if frame.height))
        self.output_files += written
        return written


def _capture_keys(
    frames: Iterable[pl.DataFrame], key_columns: Sequence[str], captured: list[pl.DataFrame]
) -> Iterator[pl.DataFrame]:
    """Yield the frames; add their keys to `captured`, as long as those are few enough to be cached."""
    rows = 0
    for frame in frames:
        rows += frame.height
        if rows <= lookup.MAX_CACHED_FILE_ROWS:
            captured.append(pl.DataFrame([frame.get_column(name) for name in key_columns]))
        yield frame


def _merge_by_key(section: pl.DataFrame, spec: MergeSpec, *, drops_deletes: bool) -> pl.DataFrame:
    """Return the merged rows in key order; a row that is the only one of its key stays as it is."""
    if merge.selects_rows(spec):
        # in one chunk first, as in `sort_by_key`; the frame read is released, so that rows are held twice at most
        section = section.rechunk()
        rows = np.flatnonzero(merge.winner_mask(section, spec, keep_deletes=not drops_deletes))
        # by columns, as a query of Polars would wait for the threads of other queries
        keys = pl.DataFrame([section.get_column(name) for name in spec.key_columns])
        return _drop_level_column(section)[rows[keyed.key_order(keys[rows], spec.key_columns)]]
    merged = merge.merge_section(section, spec, keep_deletes=not drops_deletes)
    return sort_by_key(merged, spec.key_columns)


def _drop_deletes(section: pl.DataFrame, *, drops_deletes: bool) -> pl.DataFrame:
    """Return the rows of files that overlap no other, in key order, without deletes if `drops_deletes`."""
    return section.filter(pl.col(KIND) & 1 == 0) if drops_deletes else section


def _drop_level_column(section: pl.DataFrame) -> pl.DataFrame:
    return (
        pl.DataFrame([column for column in section.get_columns() if column.name != LEVEL])
        if LEVEL in section.columns
        else section
    )


def _split_by_file(task: MergeTask) -> Iterator[MergeTask]:
    for file, path in zip(task.files, task.paths, strict=True):
        yield replace(task, files=(file,), paths=(path,))


def _apply_commit_sequence(frame: pl.LazyFrame, file: DataFileMeta) -> pl.LazyFrame:
    """Return the rows with the sequence number that the commit gave to all rows of the file.

    So it is with `sequence.snapshot-ordering`: the rows inside the file have other numbers.
    """
    if file.min_sequence_number != file.max_sequence_number:
        return frame
    return frame.with_columns(pl.lit(file.max_sequence_number, pl.Int64).alias(SEQUENCE))
