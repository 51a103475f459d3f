"""Small files of append tables become bigger ones.

    one bucket -1, any writer                       a bucket with its own order (`bucket-append-ordered`)
      files by size     s s m m m │ L L               files by sequence number    a b c d e f
      packed            [s s m] [m …]                 packed                      [a b c d e] f: neighbours only, their order stays

Which files: `pack` (bucket -1), `pick` and `pick_full` (buckets). How: `rewrite`, which reads the files one after another, leaves out rows that deletion
vectors took away, and numbers the rows on from the first file's smallest number. Deletion vectors of rewritten files go with them.

Source: ENGINE.md 8.2; `AppendCompactCoordinator`, `AppendCompactTask`, `BucketedAppendCompactManager`, `BaseAppendFileStoreWrite`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakekit.bucket.compaction import CompactResult, is_small, with_strict_reads
from lakekit.data_file.paths import data_file_path
from lakekit.data_file.reader import scan_files, translate_polars_errors
from lakekit.data_file.rolling_writer import WriteTarget, write_run
from lakekit.errors import Unsupported
from lakekit.model.data_file import COMPACT_SOURCE, DataFileMeta

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from lakekit.data_file.file_names import FileNames
    from lakekit.metadata.table_context import TableContext
    from lakekit.options.table_options import TableOptions

LEAST_FILES = 3
"""A full compaction of a bucket leaves fewer files alone."""
_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorSummary:
    """What a manifest says of a file's deletion vector: the index file it is in, and how many rows it takes away; None: it does not say."""

    index_file: str
    deleted: int | None


# ---- without buckets -------------------------------------------------------------------------------------------------------------------------------


def is_worth_rewriting(file: DataFileMeta, options: TableOptions, vector: DeletionVectorSummary | None = None) -> bool:
    """Whether a file is small, or has lost too many of its rows."""
    if is_small(file, options):
        return True
    return vector is not None and (vector.deleted is None or vector.deleted > file.row_count * options.compaction_delete_ratio_threshold)


def pack(files: Iterable[DataFileMeta], options: TableOptions, vectors: Mapping[str, DeletionVectorSummary] | None = None) -> list[tuple[DataFileMeta, ...]]:
    """Files of one partition, all worth it, in groups to be rewritten together; what fits no group is left for another day.

    Files whose deletion vectors lie in one index file stay together, and are compacted in any case: `vectors`, by file name, None for tables without them.
    """
    if vectors is None:
        return _bins([(file,) for file in files], options, options.compaction_min_file_num)
    groups: dict[str, list[DataFileMeta]] = {}
    plain: list[DataFileMeta] = []
    for file in files:
        found = vectors.get(file.name)
        (plain if found is None else groups.setdefault(found.index_file, [])).append(file)
    packed = _bins([tuple(sorted(group, key=_by_size)) for group in groups.values()], options, 1)
    if len(plain) > 1:
        packed += _bins([(file,) for file in plain], options, options.compaction_min_file_num)
    return packed


def _bins(groups: Sequence[tuple[DataFileMeta, ...]], options: TableOptions, least: int) -> list[tuple[DataFileMeta, ...]]:
    """Groups from the smallest on, put together until they weigh two files; the last ones if there are at least so many files."""
    found: list[tuple[DataFileMeta, ...]] = []
    bin_: tuple[DataFileMeta, ...] = ()
    for group in sorted(groups, key=lambda group: (sum(file.size_bytes for file in group), _by_size(group[0]))):
        bin_ += group
        weight = sum(file.size_bytes + options.source_split_open_file_cost_bytes for file in bin_)
        if len(bin_) > 1 and weight >= 2 * options.rolling_size_bytes:
            found.append(bin_)
            bin_ = ()
    return [*found, bin_] if len(bin_) >= least else found


def _by_size(file: DataFileMeta) -> tuple[int, int, str]:
    return file.size_bytes, file.min_sequence_number, file.name


# ---- in buckets ------------------------------------------------------------------------------------------------------------------------------------


def sort_by_sequence(files: Iterable[DataFileMeta]) -> list[DataFileMeta]:
    """Files by the numbers of their rows."""
    return sorted(files, key=lambda file: (file.min_sequence_number, file.max_sequence_number, file.name))


def pick(files: Sequence[DataFileMeta], options: TableOptions) -> tuple[tuple[DataFileMeta, ...], tuple[DataFileMeta, ...]]:
    """Neighbours to be rewritten after a write, if there are enough, and the files to look at the next time; `files` in order.

    Files in front of a window that has grown to two files' size are not looked at again.
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


def pick_full(files: Sequence[DataFileMeta], options: TableOptions, vectors: Mapping[str, DeletionVectorSummary] | None = None) -> tuple[DataFileMeta, ...]:
    """The files that a full compaction of a bucket rewrites, in order; none where it is not worth it. `vectors` None: a table without them."""
    forced = options.compaction_force_rewrite_all_files
    first = 0
    while not forced and first < len(files) and not is_small(files[first], options) and not (vectors and files[first].name in vectors):
        first += 1
    left = tuple(files[first:])
    if forced:
        return left
    if vectors is not None:
        return left if len(left) > 1 or (left and left[0].name in vectors) else ()
    small = sum(is_small(file, options) for file in left)
    return left if len(left) >= LEAST_FILES and small > len(left) - small else ()


# ---- rewriting -------------------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTarget:
    """Where files are rewritten: a bucket of an append table, or its bucket -1. `deletions`: the positions of deleted rows by file name."""

    ctx: TableContext
    partition: bytes
    bucket: int
    names: FileNames
    deletions: Mapping[str, NDArray[np.unsignedinteger]] = field(default_factory=dict)
    snapshot_id: int | None = None

    def target(self, first_sequence_number: int) -> WriteTarget:
        """Where the rows of compacted files go, numbered from there on."""
        return WriteTarget(
            ctx=self.ctx,
            partition=self.partition,
            bucket=self.bucket,
            level=0,
            source=COMPACT_SOURCE,
            names=self.names,
            keyed=False,
            first_sequence_number=first_sequence_number,
        )


def rewrite(place: RewriteTarget, files: Sequence[DataFileMeta]) -> CompactResult:
    """The rows of some files, in that order, in new ones. Raises what reading and writing files raise; then no new file is left."""
    if not files:
        return CompactResult()
    if place.ctx.options.row_tracking_enabled:
        msg = f"{place.ctx.name} tracks rows (row-tracking.enabled); compacting it would give its rows new ids, which lakekit does not keep"
        raise Unsupported(msg, feature="row-tracking.enabled")
    target = place.target(files[0].min_sequence_number)
    after = write_run(target, _rows(place, files))
    return CompactResult(before=tuple(files), after=tuple(after), rewritten=frozenset(file.name for file in files))


def _rows(place: RewriteTarget, files: Sequence[DataFileMeta]) -> Iterator[pl.DataFrame]:
    """All rows that are left, in order, some at a time."""
    ctx = with_strict_reads(place.ctx)
    paths = [data_file_path(ctx, place.partition, place.bucket, file) for file in files]
    deletions = {file.name: place.deletions[file.name] for file in files if file.name in place.deletions}
    with translate_polars_errors(ctx, paths):
        frame = scan_files(ctx, files, paths, ctx.schema.fields, deletions=deletions, snapshot_id=place.snapshot_id)
        yield from frame.collect_batches(chunk_size=_ROWS, maintain_order=True)
