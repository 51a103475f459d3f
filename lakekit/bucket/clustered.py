"""Incremental clustering of append tables: rows are sorted by `clustering.columns` step by step, new files first.

    level 0   new files, in the order of their rows     a run each
    level 4   [1 3 4] [5 8 9]                           one run, sorted by one compaction
    level 5   [1 2 2] [3 5 6] [6 7 9]                   one run

The sizes of the runs decide which of them are sorted again and into which level, as in key tables
(`lsm.compaction_picker`): a row is rewritten a few times, and most rows lie in a few runs. Files of one level may share
values, which makes reads slower but not wrong.

Source: ENGINE.md 8.6; `IncrementalClusterManager`, `IncrementalClusterStrategy`, `BucketedAppendClusterManager`,
`IncrementalClusterCompact`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakekit.bucket import sort_order
from lakekit.bucket.append_compaction import RewriteTarget
from lakekit.bucket.compaction import CompactResult, with_strict_reads
from lakekit.bucket.sort_order import SortInput
from lakekit.data_file.paths import data_file_path, every_path
from lakekit.data_file.reader import scan_files
from lakekit.data_file.rolling_writer import write_run
from lakekit.errors import InvalidOption, Unsupported
from lakekit.lsm import compaction_picker
from lakekit.lsm.levels import LsmLevels
from lakekit.metadata import schemas
from lakekit.options.table_options import TableOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakekit.bucket.deletion_vector_writer import BucketDeletionVectors
    from lakekit.bucket.restore import RestoredBucket
    from lakekit.bucket.sort_order import SortOrder
    from lakekit.data_file.file_names import FileNames
    from lakekit.lsm.compaction_picker import CompactionUnit
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta

LOCAL_SORT = "local-sort"


def clusters_buckets(ctx: TableContext) -> bool:
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


def pick_unit(ctx: TableContext, files: Sequence[DataFileMeta], *, full: bool) -> CompactionUnit | None:
    """Return the files to sort now; None if none are due.

    With `full` these are all files, unless all lie in the last level, sorted by the same columns.
    """
    options = ctx.options
    levels = LsmLevels.of_appended(files, options)
    if not full:
        return compaction_picker.by_size(levels, options)
    if not levels.runs or (
        len(levels.runs) == 1 and levels.highest == levels.max_level and _has_same_columns(ctx, levels.files[0])
    ):
        return None
    return compaction_picker.pick_all_runs(levels, "full")


def _has_same_columns(ctx: TableContext, file: DataFileMeta) -> bool:
    """Return whether a file was written under a schema with the clustering columns of today."""
    before = TableOptions.parse(schemas.read(ctx, file.schema_id).options)
    return before.clustering_columns == ctx.options.clustering_columns


def rewrite(target: RewriteTarget, unit: CompactionUnit, order: SortOrder, *, as_one: bool = True) -> CompactResult:
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
        for rows in [_rows(target, unit.files, order)] if as_one else _groups(target, unit.files, order):
            write_target = target.target(after[-1].max_sequence_number + 1 if after else first)
            after += write_run(write_target, rows.in_order())
    except BaseException:
        ctx.storage.delete(every_path(ctx, target.partition, target.bucket, after))
        raise
    raised = tuple(replace(file, level=unit.output_level) for file in after)
    return CompactResult(before=unit.files, after=raised, rewritten=frozenset(file.name for file in unit.files))


def _groups(target: RewriteTarget, files: Sequence[DataFileMeta], order: SortOrder) -> Iterator[SortInput]:
    """Yield groups of neighbouring files that fit into memory; a file that is too big is a group of its own."""
    group: list[DataFileMeta] = []
    row_count = size_bytes = 0
    for file in files:
        row_count, size_bytes = row_count + file.row_count, size_bytes + file.size_bytes
        if group and sort_order.pieces_of(target.ctx, row_count, size_bytes) > 1:
            yield _rows(target, group, order)
            group, row_count, size_bytes = [], file.row_count, file.size_bytes
        group.append(file)
    if group:
        yield _rows(target, group, order)


def _rows(target: RewriteTarget, files: Sequence[DataFileMeta], order: SortOrder) -> SortInput:
    ctx, scanned = with_strict_reads(target.ctx), tuple(files)
    paths = [data_file_path(ctx, target.partition, target.bucket, file) for file in scanned]
    deletions = {file.name: target.deletions[file.name] for file in scanned if file.name in target.deletions}
    return SortInput(
        ctx=ctx,
        order=order,
        scan=lambda fields: scan_files(
            ctx, scanned, paths, fields, deletions=deletions, snapshot_id=target.snapshot_id
        ),
        row_count=sum(file.row_count for file in scanned),
        size_bytes=sum(file.size_bytes for file in scanned),
        paths=paths,
    )


@dataclass(slots=True, kw_only=True, eq=False)
class ClusteredBucket:
    """A bucket of rows without keys whose writer clusters it.

    It has no deletion vectors: tables with both are refused when they are created.
    """

    place: RewriteTarget
    order: SortOrder
    files: tuple[DataFileMeta, ...]
    vectors: BucketDeletionVectors | None = None

    @staticmethod
    def of(
        ctx: TableContext, bucket_id: tuple[bytes, int], restored: RestoredBucket, names: FileNames
    ) -> ClusteredBucket:
        """Return the (partition, bucket) as a snapshot has it.

        Raises:
            InvalidOption: a clustering column has a type without an order.
        """
        partition, bucket_number = bucket_id
        target = RewriteTarget(
            ctx=ctx, partition=partition, bucket=bucket_number, names=names, snapshot_id=restored.snapshot_id
        )
        return ClusteredBucket(place=target, order=sort_order.clustering_order(ctx), files=restored.files)

    @property
    def run_count(self) -> int:
        """Return 0: readers merge nothing, so that commits need not wait for a compaction."""
        return 0

    @property
    def is_due(self) -> bool:
        """Return False: files may wait."""
        return False

    def add(self, files: Iterable[DataFileMeta]) -> None:
        """Add files that were written."""
        self.files = (*self.files, *files)

    def compact(self, *, full: bool) -> CompactResult | None:
        """Sort what is due, or everything, and return what was compacted; None if nothing was due.

        Raises what `rewrite` raises; the bucket is unchanged then.
        """
        unit = pick_unit(self.place.ctx, self.files, full=full)
        if unit is None:
            return None
        result = rewrite(self.place, unit, self.order)
        before_names = {file.name for file in result.before}
        self.files = (*(file for file in self.files if file.name not in before_names), *result.after)
        return result
