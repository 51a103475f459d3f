"""Incremental clustering: rows of append tables are sorted by `clustering.columns` bit by bit, new files first.

    level 0   new files, in the order of their rows     a run each
    level 4   [1 3 4] [5 8 9]                           one run: sorted together at some time
    level 5   [1 2 2] [3 5 6] [6 7 9]                   one run

Which runs are sorted anew, and into which level, is decided by their sizes, as of key tables (`lsm.compaction_picker`): a row is rewritten a few
times, and most
rows lie in a few runs. Files of one level may share values, which costs reads of them and nothing else.

Source: ENGINE.md 8.6; `IncrementalClusterManager`, `IncrementalClusterStrategy`, `BucketedAppendClusterManager`, `IncrementalClusterCompact`.
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
    """Whether writers of buckets cluster instead of packing small files. Raises `InvalidOption` where the options say so of a table that cannot."""
    options = ctx.options
    if not options.clustering_incremental:
        return False
    if ctx.kind == "key":
        raise InvalidOption(f"Cannot define primary-key for incremental clustering table: {ctx.name} has a primary key", key="clustering.incremental")
    for key, is_on in (("bucket-append-ordered", options.bucket_append_ordered), ("deletion-vectors.enabled", options.deletion_vectors_enabled)):
        if is_on:
            raise InvalidOption(f"{key} must be false for incremental clustering in buckets, and {ctx.name} has {key}=true", key=key, value="true")
    return True


def pick_unit(ctx: TableContext, files: Sequence[DataFileMeta], *, full: bool) -> CompactionUnit | None:
    """What is to be sorted now, if anything; `full`: all, unless it lies in the last level, sorted by the same columns."""
    options = ctx.options
    levels = LsmLevels.of_appended(files, options)
    if not full:
        return compaction_picker.by_size(levels, options)
    if not levels.runs or (len(levels.runs) == 1 and levels.highest == levels.max_level and _has_same_columns(ctx, levels.files[0])):
        return None
    return compaction_picker.pick_all_runs(levels, "full")


def _has_same_columns(ctx: TableContext, file: DataFileMeta) -> bool:
    """Whether a file was written under a schema that sorts by the columns of today."""
    before = TableOptions.parse(schemas.read(ctx, file.schema_id).options)
    return before.clustering_columns == ctx.options.clustering_columns


def rewrite(place: RewriteTarget, unit: CompactionUnit, order: SortOrder, *, together: bool = True) -> CompactResult:
    """The rows of a unit's files in order, in the level of the unit. Not `together`: as many files at once as fit into memory, each group for itself.

    Raises what reading and writing files raise; then no new file is left.
    """
    ctx = with_strict_reads(place.ctx)
    place = replace(place, ctx=ctx)
    if ctx.options.row_tracking_enabled:
        msg = f"{ctx.name} tracks rows (row-tracking.enabled); clustering it would give its rows new ids, which lakekit does not keep"
        raise Unsupported(msg, feature="row-tracking.enabled")
    first = min(file.min_sequence_number for file in unit.files)
    after: list[DataFileMeta] = []
    try:
        for rows in [_rows(place, unit.files, order)] if together else _groups(place, unit.files, order):
            target = place.target(after[-1].max_sequence_number + 1 if after else first)
            after += write_run(target, rows.in_order())
    except BaseException:
        ctx.storage.delete(every_path(ctx, place.partition, place.bucket, after))
        raise
    raised = tuple(replace(file, level=unit.output_level) for file in after)
    return CompactResult(before=unit.files, after=raised, rewritten=frozenset(file.name for file in unit.files))


def _groups(place: RewriteTarget, files: Sequence[DataFileMeta], order: SortOrder) -> Iterator[SortInput]:
    """Neighbours that memory holds together; a file that is too big stands alone."""
    group: list[DataFileMeta] = []
    row_count = size_bytes = 0
    for file in files:
        row_count, size_bytes = row_count + file.row_count, size_bytes + file.size_bytes
        if group and sort_order.pieces_of(place.ctx, row_count, size_bytes) > 1:
            yield _rows(place, group, order)
            group, row_count, size_bytes = [], file.row_count, file.size_bytes
        group.append(file)
    if group:
        yield _rows(place, group, order)


def _rows(place: RewriteTarget, files: Sequence[DataFileMeta], order: SortOrder) -> SortInput:
    ctx, held = with_strict_reads(place.ctx), tuple(files)
    paths = [data_file_path(ctx, place.partition, place.bucket, file) for file in held]
    deletions = {file.name: place.deletions[file.name] for file in held if file.name in place.deletions}
    return SortInput(
        ctx=ctx,
        order=order,
        scan=lambda fields: scan_files(ctx, held, paths, fields, deletions=deletions, snapshot_id=place.snapshot_id),
        row_count=sum(file.row_count for file in held),
        size_bytes=sum(file.size_bytes for file in held),
        paths=paths,
    )


@dataclass(slots=True, kw_only=True, eq=False)
class ClusteredBucket:
    """A bucket of rows without keys whose writer clusters it. It has no deletion vectors: such tables are refused when they are made."""

    place: RewriteTarget
    order: SortOrder
    files: tuple[DataFileMeta, ...]
    vectors: BucketDeletionVectors | None = None

    @staticmethod
    def of(ctx: TableContext, place: tuple[bytes, int], restored: RestoredBucket, names: FileNames) -> ClusteredBucket:
        """What a snapshot holds in a (partition, bucket). Raises `InvalidOption` where the columns to sort by cannot be sorted by."""
        partition, bucket = place
        at = RewriteTarget(ctx=ctx, partition=partition, bucket=bucket, names=names, snapshot_id=restored.snapshot_id)
        return ClusteredBucket(place=at, order=sort_order.clustering_order(ctx), files=restored.files)

    @property
    def run_count(self) -> int:
        """Nothing is merged when it is read: commits need not wait."""
        return 0

    @property
    def is_due(self) -> bool:
        """Files may wait."""
        return False

    def add(self, files: Iterable[DataFileMeta]) -> None:
        """Takes files that were written."""
        self.files = (*self.files, *files)

    def compact(self, *, full: bool) -> CompactResult | None:
        """Sorts what is due, or everything. Raises what `rewrite` raises; then nothing changed."""
        unit = pick_unit(self.place.ctx, self.files, full=full)
        if unit is None:
            return None
        done = rewrite(self.place, unit, self.order)
        gone = {file.name for file in done.before}
        self.files = (*(file for file in self.files if file.name not in gone), *done.after)
        return done
