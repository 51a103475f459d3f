"""Compaction of append tables: packing of small files, and clustering by `clustering.columns`.

    bucket -1, any writer                     a bucket with its own order (`bucket-append-ordered`)
      files by size     s s m m m │ L L         files by sequence number    a b c d e f
      packed            [s s m] [m …]           packed                      [a b c d e] f: neighbours, their order stays

    clustered     level 0   new files, in the order of their rows     a run each
                  level 4   [1 3 4] [5 8 9]                           one run, sorted by one compaction
                  level 5   [1 2 2] [3 5 6] [6 7 9]                   one run

`group_files_to_rewrite` chooses files of bucket -1, `pick_adjacent_files` and `pick_for_full_compaction` files of other
buckets. `rewrite_files` reads the chosen files one after another, leaves out the rows that deletion vectors delete, and
numbers the rows on from the smallest sequence number of the first file. The deletion vectors of rewritten files are
removed with them. The sizes of clustered runs decide which are sorted again and into which level, as in key tables
(`lsm.compaction_picker`): a row is rewritten a few times, and most rows lie in a few runs. Files of one level may share
values: reads are slower then, but not wrong.

Source: ENGINE.md 8.2, 8.6; `AppendCompactCoordinator`, `AppendCompactTask`, `BaseAppendFileStoreWrite`,
`BucketedAppendCompactManager`, `BucketedAppendClusterManager`, `IncrementalClusterManager`,
`IncrementalClusterStrategy`, `IncrementalClusterCompact`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakekit.bucket import sort_order
from lakekit.bucket.compaction import CompactResult, is_small_file, with_strict_reads
from lakekit.bucket.deletion_vector_writer import BucketDeletionVectors
from lakekit.bucket.sort_order import SortInput
from lakekit.columns import collect_batches
from lakekit.data_file.paths import data_file_path, paths_with_extra_files
from lakekit.data_file.reader import scan_files, translate_polars_errors
from lakekit.data_file.rolling_writer import WriteTarget, write_run
from lakekit.errors import InvalidOption, Unsupported
from lakekit.lsm import compaction_picker
from lakekit.lsm.compaction_picker import LsmLevels
from lakekit.metadata import schemas
from lakekit.model.data_file import COMPACT_SOURCE, DataFileMeta
from lakekit.options.table_options import TableOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from lakekit.bucket.restore import RestoredBucket
    from lakekit.bucket.sort_order import SortOrder
    from lakekit.data_file.paths import FileNames
    from lakekit.lsm.compaction_picker import CompactionUnit
    from lakekit.metadata.table_context import TableContext


MIN_COMPACTION_FILES = 3
"""A full compaction rewrites a bucket only if it has at least this many files."""
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorSummary:
    """What a manifest says about the deletion vector of a data file.

    `index_file` is the name of the index file that holds it, `deleted_row_count` the number of rows it deletes; None if
    the manifest does not say.
    """

    index_file: str
    deleted_row_count: int | None


# ---- without buckets -------------------------------------------------------------------------------------------------


def is_worth_rewriting(file: DataFileMeta, options: TableOptions, vector: DeletionVectorSummary | None = None) -> bool:
    """Return whether a file is small, or has lost too many of its rows."""
    if is_small_file(file, options):
        return True
    return vector is not None and (
        vector.deleted_row_count is None
        or vector.deleted_row_count > file.row_count * options.compaction_delete_ratio_threshold
    )


GROUP_TARGET_FILES = 2
"""How many target files a group of files weighs at least, unless it is the last one."""


def group_files_to_rewrite(
    files: Iterable[DataFileMeta], options: TableOptions, vectors: Mapping[str, DeletionVectorSummary] | None = None
) -> list[tuple[DataFileMeta, ...]]:
    """Return files of one partition, all worth rewriting, in groups to be rewritten together.

    Files that fit no group are left out. Files whose deletion vectors lie in one index file stay together, and are
    compacted in any case. `vectors` is by file name; None for tables without deletion vectors.
    """
    if vectors is None:
        return _join_into_bins([(file,) for file in files], options, options.compaction_min_file_num)
    groups: dict[str, list[DataFileMeta]] = {}
    plain: list[DataFileMeta] = []
    for file in files:
        vector = vectors.get(file.name)
        (plain if vector is None else groups.setdefault(vector.index_file, [])).append(file)
    packed = _join_into_bins([tuple(sorted(group, key=_size_sort_key)) for group in groups.values()], options, 1)
    if len(plain) > 1:
        packed += _join_into_bins([(file,) for file in plain], options, options.compaction_min_file_num)
    return packed


def _join_into_bins(
    groups: Sequence[tuple[DataFileMeta, ...]], options: TableOptions, minimum: int
) -> list[tuple[DataFileMeta, ...]]:
    """Return the groups joined, smallest first, into bins that weigh at least two target files each.

    The last bin, which may weigh less, is kept if it has at least `minimum` files.
    """
    bins: list[tuple[DataFileMeta, ...]] = []
    bin_files: tuple[DataFileMeta, ...] = ()
    for group in sorted(groups, key=lambda group: (sum(file.size_bytes for file in group), _size_sort_key(group[0]))):
        bin_files += group
        weight = sum(file.size_bytes + options.source_split_open_file_cost_bytes for file in bin_files)
        if len(bin_files) > 1 and weight >= GROUP_TARGET_FILES * options.rolling_size_bytes:
            bins.append(bin_files)
            bin_files = ()
    return [*bins, bin_files] if len(bin_files) >= minimum else bins


def _size_sort_key(file: DataFileMeta) -> tuple[int, int, str]:
    return file.size_bytes, file.min_sequence_number, file.name


# ---- in buckets ------------------------------------------------------------------------------------------------------


def sort_by_sequence(files: Iterable[DataFileMeta]) -> list[DataFileMeta]:
    """Return the files in the order of their sequence numbers."""
    return sorted(files, key=lambda file: (file.min_sequence_number, file.max_sequence_number, file.name))


def pick_adjacent_files(
    files: Sequence[DataFileMeta], options: TableOptions
) -> tuple[tuple[DataFileMeta, ...], tuple[DataFileMeta, ...]]:
    """Return the neighbours to rewrite after a write, if there are enough, and the files to consider next time.

    `files` are in order. Files before a window that has grown to the size of two files are not considered again.
    """
    window: list[DataFileMeta] = []
    size = 0
    for at, file in enumerate(files):
        window.append(file)
        size += file.size_bytes
        if len(window) >= options.compaction_min_file_num:
            return tuple(window), tuple(files[at + 1 :])
        if size >= 2 * options.rolling_size_bytes:
            size -= window.pop(0).size_bytes
    return (), tuple(window)


def pick_for_full_compaction(
    files: Sequence[DataFileMeta], options: TableOptions, vectors: Mapping[str, DeletionVectorSummary] | None = None
) -> tuple[DataFileMeta, ...]:
    """Return the files that a full compaction of a bucket rewrites, in order; none if it is not worth it.

    `vectors` is None for a table without deletion vectors.
    """
    forced = options.compaction_force_rewrite_all_files
    first = 0
    while (
        not forced
        and first < len(files)
        and not is_small_file(files[first], options)
        and not (vectors and files[first].name in vectors)
    ):
        first += 1
    left = tuple(files[first:])
    if forced:
        return left
    if vectors is not None:
        return left if len(left) > 1 or (left and left[0].name in vectors) else ()
    small = sum(is_small_file(file, options) for file in left)
    return left if len(left) >= MIN_COMPACTION_FILES and small > len(left) - small else ()


# ---- rewriting -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTarget:
    """The bucket of an append table, or its bucket -1, whose files are rewritten.

    `deletions` are the positions of deleted rows by file name.
    """

    ctx: TableContext
    partition: bytes
    bucket: int
    file_names: FileNames
    deletions: Mapping[str, NDArray[np.unsignedinteger]] = field(default_factory=dict)
    snapshot_id: int | None = None

    def write_target(self, first_sequence_number: int) -> WriteTarget:
        """Return the target for the rows of compacted files, numbered from `first_sequence_number` on."""
        return WriteTarget(
            ctx=self.ctx,
            partition=self.partition,
            bucket=self.bucket,
            level=0,
            source=COMPACT_SOURCE,
            file_names=self.file_names,
            is_keyed=False,
            first_sequence_number=first_sequence_number,
        )


def rewrite_files(rewrite_target: RewriteTarget, files: Sequence[DataFileMeta]) -> CompactResult:
    """Write the rows of some files, in that order, to new files.

    Raises:
        Unsupported: the table tracks rows.
        LakekitError: reading or writing a file failed; then no new file is left.
    """
    if not files:
        return CompactResult()
    if rewrite_target.ctx.options.row_tracking_enabled:
        msg = (
            f"{rewrite_target.ctx.name} tracks rows (row-tracking.enabled); compacting it would give its rows new "
            "ids, which lakekit does not keep"
        )
        raise Unsupported(msg, feature="row-tracking.enabled")
    write_target = rewrite_target.write_target(files[0].min_sequence_number)
    after = write_run(write_target, _read_live_rows(rewrite_target, files))
    return CompactResult(
        before=tuple(files), after=tuple(after), rewritten_names=frozenset(file.name for file in files)
    )


def _read_live_rows(target: RewriteTarget, files: Sequence[DataFileMeta]) -> Iterator[pl.DataFrame]:
    """Yield the rows that are not deleted, in order, in batches."""
    ctx = with_strict_reads(target.ctx)
    paths = [data_file_path(ctx, target.partition, target.bucket, file) for file in files]
    deletions = {file.name: target.deletions[file.name] for file in files if file.name in target.deletions}
    with translate_polars_errors(ctx, paths):
        frame = scan_files(ctx, files, paths, ctx.schema.fields, deleted_rows=deletions, snapshot_id=target.snapshot_id)
        yield from collect_batches(frame, chunk_size=_BATCH_ROWS)


# ---- append bucket -------------------------------------------------------


class _UnmergedBucket:
    """What buckets of rows without keys say of their compactions."""

    __slots__ = ()

    @property
    def run_count(self) -> int:
        """Return 0: readers merge nothing, so that commits need not wait for a compaction."""
        return 0

    @property
    def is_compaction_due(self) -> bool:
        """Return False: files may wait."""
        return False


@dataclass(slots=True, kw_only=True, eq=False)
class AppendBucket(_UnmergedBucket):
    """The files of one bucket of an append table while it is written; small neighbours are packed, their rows in order.

    `pending_files` are the files that a compaction may consider, in order. `vectors` are read by the first compaction.
    """

    ctx: TableContext
    partition: bytes
    bucket: int
    file_names: FileNames
    restored_bucket: RestoredBucket
    pending_files: list[DataFileMeta]
    vectors: BucketDeletionVectors | None = None

    @staticmethod
    def restore(
        ctx: TableContext, bucket_id: tuple[bytes, int], restored: RestoredBucket, file_names: FileNames
    ) -> AppendBucket:
        """Return the (partition, bucket) as a snapshot has it."""
        partition, bucket_number = bucket_id
        return AppendBucket(
            ctx=ctx,
            partition=partition,
            bucket=bucket_number,
            file_names=file_names,
            restored_bucket=restored,
            pending_files=sort_by_sequence(restored.files),
        )

    def add_files(self, files: Iterable[DataFileMeta]) -> None:
        """Add files that were written."""
        self.pending_files = sort_by_sequence([*self.pending_files, *files])

    def compact(self, *, full: bool) -> CompactResult | None:
        """Rewrite neighbours where there are enough, or all files that are worth it; None if nothing was due.

        Raises what `rewrite_files` raises; then nothing changed.
        """
        options = self.ctx.options
        if self.vectors is None and options.deletion_vectors_enabled:
            self.vectors = BucketDeletionVectors.restore(
                self.ctx, self.partition, self.bucket, self.restored_bucket.vectors
            )
        remaining: tuple[DataFileMeta, ...] = ()
        if full:
            picked = pick_for_full_compaction(self.pending_files, options, self._vector_summaries())
        else:
            picked, remaining = pick_adjacent_files(self.pending_files, options)
        if not picked:
            self.pending_files = self.pending_files if full else list(remaining)
            return None
        result = rewrite_files(self._rewrite_target(), picked)
        small_files = [file for file in result.after[-1:] if is_small_file(file, options)]
        self.pending_files = sort_by_sequence([*small_files, *remaining])
        if self.vectors is not None:
            self.vectors.remove_files(result.rewritten_names)
        return result

    def _vector_summaries(self) -> dict[str, DeletionVectorSummary] | None:
        if self.vectors is None:
            return None
        return {
            name: DeletionVectorSummary(index_file="", deleted_row_count=len(positions))
            for name, positions in self.vectors.positions.items()
        }

    def _rewrite_target(self) -> RewriteTarget:
        return RewriteTarget(
            ctx=self.ctx,
            partition=self.partition,
            bucket=self.bucket,
            file_names=self.file_names,
            deletions={} if self.vectors is None else self.vectors.positions,
            snapshot_id=self.restored_bucket.snapshot_id,
        )


# ---- clustered bucket -----------------------------------------------------


LOCAL_SORT_MODE = "local-sort"


def uses_clustering(ctx: TableContext) -> bool:
    """Return whether the writers of buckets cluster files instead of packing small ones.

    Raises:
        InvalidOption: the options ask for it in a table that cannot be clustered.
    """
    options = ctx.options
    if not options.clustering_incremental:
        return False
    if ctx.kind == "key":
        raise InvalidOption(
            f"Cannot define primary-key for incremental clustering table: {ctx.name} has a primary key",
            key="clustering.incremental",
        )
    for key, is_on in (
        ("bucket-append-ordered", options.bucket_append_ordered),
        ("deletion-vectors.enabled", options.deletion_vectors_enabled),
    ):
        if is_on:
            raise InvalidOption(
                f"{key} must be false for incremental clustering in buckets, and {ctx.name} has {key}=true",
                key=key,
                value="true",
            )
    return True


def pick_clustering_unit(ctx: TableContext, files: Sequence[DataFileMeta], *, full: bool) -> CompactionUnit | None:
    """Return the files to sort now; None if none are due.

    With `full` these are all files, unless all lie in the last level, sorted by the same columns.
    """
    options = ctx.options
    levels = LsmLevels.from_append_files(files, options)
    if not full:
        return compaction_picker.pick_by_size(levels, options)
    if not levels.runs or (
        len(levels.runs) == 1
        and levels.highest_used_level == levels.max_level
        and _has_same_columns(ctx, levels.files[0])
    ):
        return None
    return compaction_picker.pick_all_runs(levels, "full")


def _has_same_columns(ctx: TableContext, file: DataFileMeta) -> bool:
    """Return whether a file was written under a schema with the clustering columns of today."""
    before = TableOptions.parse(schemas.read_schema(ctx, file.schema_id).options)
    return before.clustering_columns == ctx.options.clustering_columns


def rewrite_clustered(
    target: RewriteTarget, unit: CompactionUnit, order: SortOrder, *, as_one: bool = True
) -> CompactResult:
    """Write the rows of a unit's files, sorted, to the output level of the unit.

    If not `as_one`, as many files as fit into memory are sorted at a time, each group by itself. Raises what reading
    and writing files raise; then no new file is left.
    """
    ctx = with_strict_reads(target.ctx)
    target = replace(target, ctx=ctx)
    if ctx.options.row_tracking_enabled:
        msg = (
            f"{ctx.name} tracks rows (row-tracking.enabled); clustering it would give its rows new ids, which lakekit "
            "does not keep"
        )
        raise Unsupported(msg, feature="row-tracking.enabled")
    first = min(file.min_sequence_number for file in unit.files)
    after: list[DataFileMeta] = []
    try:
        for rows in (
            [_make_sort_input(target, unit.files, order)] if as_one else _group_by_memory(target, unit.files, order)
        ):
            write_target = target.write_target(after[-1].max_sequence_number + 1 if after else first)
            after += write_run(write_target, rows.iter_sorted())
    except BaseException:
        ctx.storage.delete(paths_with_extra_files(ctx, target.partition, target.bucket, after))
        raise
    raised = tuple(replace(file, level=unit.output_level) for file in after)
    return CompactResult(before=unit.files, after=raised, rewritten_names=frozenset(file.name for file in unit.files))


def _group_by_memory(target: RewriteTarget, files: Sequence[DataFileMeta], order: SortOrder) -> Iterator[SortInput]:
    """Yield groups of neighbouring files that fit into memory; a file that is too big is a group of its own."""
    group: list[DataFileMeta] = []
    row_count = size_bytes = 0
    for file in files:
        row_count, size_bytes = row_count + file.row_count, size_bytes + file.size_bytes
        if group and sort_order.count_sort_pieces(target.ctx, row_count, size_bytes) > 1:
            yield _make_sort_input(target, group, order)
            group, row_count, size_bytes = [], file.row_count, file.size_bytes
        group.append(file)
    if group:
        yield _make_sort_input(target, group, order)


def _make_sort_input(target: RewriteTarget, files: Sequence[DataFileMeta], order: SortOrder) -> SortInput:
    ctx, scanned = with_strict_reads(target.ctx), tuple(files)
    paths = [data_file_path(ctx, target.partition, target.bucket, file) for file in scanned]
    deletions = {file.name: target.deletions[file.name] for file in scanned if file.name in target.deletions}
    return SortInput(
        ctx=ctx,
        order=order,
        scan=lambda fields: scan_files(
            ctx, scanned, paths, fields, deleted_rows=deletions, snapshot_id=target.snapshot_id
        ),
        row_count=sum(file.row_count for file in scanned),
        size_bytes=sum(file.size_bytes for file in scanned),
        paths=paths,
    )


@dataclass(slots=True, kw_only=True, eq=False)
class ClusteredBucket(_UnmergedBucket):
    """A bucket of rows without keys whose writer clusters it.

    It has no deletion vectors: tables with both are refused when they are created.
    """

    target: RewriteTarget
    order: SortOrder
    files: tuple[DataFileMeta, ...]
    vectors: BucketDeletionVectors | None = None

    @staticmethod
    def restore(
        ctx: TableContext, bucket_id: tuple[bytes, int], restored: RestoredBucket, file_names: FileNames
    ) -> ClusteredBucket:
        """Return the (partition, bucket) as a snapshot has it.

        Raises:
            InvalidOption: a clustering column has a type without an order.
        """
        partition, bucket_number = bucket_id
        target = RewriteTarget(
            ctx=ctx, partition=partition, bucket=bucket_number, file_names=file_names, snapshot_id=restored.snapshot_id
        )
        return ClusteredBucket(target=target, order=sort_order.clustering_order(ctx), files=restored.files)

    def add_files(self, files: Iterable[DataFileMeta]) -> None:
        """Add files that were written."""
        self.files = (*self.files, *files)

    def compact(self, *, full: bool) -> CompactResult | None:
        """Sort what is due, or everything, and return what was compacted; None if nothing was due.

        Raises what `rewrite_clustered` raises; the bucket is unchanged then.
        """
        unit = pick_clustering_unit(self.target.ctx, self.files, full=full)
        if unit is None:
            return None
        result = rewrite_clustered(self.target, unit, self.order)
        before_names = {file.name for file in result.before}
        self.files = (*(file for file in self.files if file.name not in before_names), *result.after)
        return result
