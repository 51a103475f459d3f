"""Compaction of append tables: small files become bigger ones.

    one bucket -1, any writer                 a bucket with its own order (`bucket-append-ordered`)
      files by size     s s m m m │ L L         files by sequence number    a b c d e f
      packed            [s s m] [m …]           packed                      [a b c d e] f: neighbours, their order stays

`pack` chooses files of bucket -1, `pick` and `pick_full` choose files of other buckets. `rewrite` reads the chosen
files one after another, leaves out the rows that deletion vectors delete, and numbers the rows on from the smallest
sequence number of the first file. The deletion vectors of rewritten files are removed with them.

Source: ENGINE.md 8.2; `AppendCompactCoordinator`, `AppendCompactTask`, `BucketedAppendCompactManager`,
`BaseAppendFileStoreWrite`.
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
"""A full compaction rewrites a bucket only if it has at least this many files."""
_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorSummary:
    """What a manifest says about the deletion vector of a data file.

    `index_file` is the name of the index file that holds it, `deleted` the number of rows it deletes; None if the
    manifest does not say.
    """

    index_file: str
    deleted: int | None


# ---- without buckets -------------------------------------------------------------------------------------------------


def is_worth_rewriting(file: DataFileMeta, options: TableOptions, vector: DeletionVectorSummary | None = None) -> bool:
    """Return whether a file is small, or has lost too many of its rows."""
    if is_small(file, options):
        return True
    return vector is not None and (
        vector.deleted is None or vector.deleted > file.row_count * options.compaction_delete_ratio_threshold
    )


def pack(
    files: Iterable[DataFileMeta], options: TableOptions, vectors: Mapping[str, DeletionVectorSummary] | None = None
) -> list[tuple[DataFileMeta, ...]]:
    """Return files of one partition, all worth rewriting, in groups to be rewritten together.

    Files that fit no group are left out. Files whose deletion vectors lie in one index file stay together, and are
    compacted in any case. `vectors` is by file name; None for tables without deletion vectors.
    """
    if vectors is None:
        return _bins([(file,) for file in files], options, options.compaction_min_file_num)
    groups: dict[str, list[DataFileMeta]] = {}
    plain: list[DataFileMeta] = []
    for file in files:
        vector = vectors.get(file.name)
        (plain if vector is None else groups.setdefault(vector.index_file, [])).append(file)
    packed = _bins([tuple(sorted(group, key=_by_size)) for group in groups.values()], options, 1)
    if len(plain) > 1:
        packed += _bins([(file,) for file in plain], options, options.compaction_min_file_num)
    return packed


def _bins(
    groups: Sequence[tuple[DataFileMeta, ...]], options: TableOptions, least: int
) -> list[tuple[DataFileMeta, ...]]:
    """Return the groups joined, smallest first, into bins that weigh at least two target files each.

    The last bin, which may weigh less, is kept if it has at least `least` files.
    """
    bins: list[tuple[DataFileMeta, ...]] = []
    bin_files: tuple[DataFileMeta, ...] = ()
    for group in sorted(groups, key=lambda group: (sum(file.size_bytes for file in group), _by_size(group[0]))):
        bin_files += group
        weight = sum(file.size_bytes + options.source_split_open_file_cost_bytes for file in bin_files)
        if len(bin_files) > 1 and weight >= 2 * options.rolling_size_bytes:
            bins.append(bin_files)
            bin_files = ()
    return [*bins, bin_files] if len(bin_files) >= least else bins


def _by_size(file: DataFileMeta) -> tuple[int, int, str]:
    return file.size_bytes, file.min_sequence_number, file.name


# ---- in buckets ------------------------------------------------------------------------------------------------------


def sort_by_sequence(files: Iterable[DataFileMeta]) -> list[DataFileMeta]:
    """Return the files in the order of their sequence numbers."""
    return sorted(files, key=lambda file: (file.min_sequence_number, file.max_sequence_number, file.name))


def pick(
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


def pick_full(
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
        and not is_small(files[first], options)
        and not (vectors and files[first].name in vectors)
    ):
        first += 1
    left = tuple(files[first:])
    if forced:
        return left
    if vectors is not None:
        return left if len(left) > 1 or (left and left[0].name in vectors) else ()
    small = sum(is_small(file, options) for file in left)
    return left if len(left) >= LEAST_FILES and small > len(left) - small else ()


# ---- rewriting -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTarget:
    """The bucket of an append table, or its bucket -1, whose files are rewritten.

    `deletions` are the positions of deleted rows by file name.
    """

    ctx: TableContext
    partition: bytes
    bucket: int
    names: FileNames
    deletions: Mapping[str, NDArray[np.unsignedinteger]] = field(default_factory=dict)
    snapshot_id: int | None = None

    def target(self, first_sequence_number: int) -> WriteTarget:
        """Return the target for the rows of compacted files, numbered from `first_sequence_number` on."""
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


def rewrite(rewrite_target: RewriteTarget, files: Sequence[DataFileMeta]) -> CompactResult:
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
    write_target = rewrite_target.target(files[0].min_sequence_number)
    after = write_run(write_target, _rows(rewrite_target, files))
    return CompactResult(before=tuple(files), after=tuple(after), rewritten=frozenset(file.name for file in files))


def _rows(target: RewriteTarget, files: Sequence[DataFileMeta]) -> Iterator[pl.DataFrame]:
    """Yield the rows that are not deleted, in order, in batches."""
    ctx = with_strict_reads(target.ctx)
    paths = [data_file_path(ctx, target.partition, target.bucket, file) for file in files]
    deletions = {file.name: target.deletions[file.name] for file in files if file.name in target.deletions}
    with translate_polars_errors(ctx, paths):
        frame = scan_files(ctx, files, paths, ctx.schema.fields, deletions=deletions, snapshot_id=target.snapshot_id)
        yield from frame.collect_batches(chunk_size=_ROWS, maintain_order=True)
