"""Find the files of a key table that may hold retracting rows: rows of the kinds -U and -D.

    level   _DELETE_ROW_COUNT                  file
    > 0     0                                  holds none: a compaction counted them
    0       0                                  is checked: the bounds of `_VALUE_KIND` in its footer
    any     more than 0, or not known          may hold some

The reference merges every file of level 0 by the kinds of its rows, and looks at the count of a file only above level
0. Writers differ: pypaimon 2.1.0 writes 0 for every file. So the count of level 0 proves nothing, and the bounds that
Parquet keeps of a column do. ORC and Avro files keep none that are cheap to reach: their rows are read with their
kinds. What a footer says of a file is cached, because files do not change.

Source: ENGINE.md 6.5; `MergeTreeSplitGenerator`, `DataFileMeta.deleteRowCount`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.columns import KIND
from lakekit.data_file.paths import data_file_paths
from lakekit.data_file.reader import footer_source, scan_files, translate_polars_errors
from lakekit.data_file.verification import FILES_PER_TASK
from lakekit.errors import LakekitError
from lakekit.format import parquet
from lakekit.model.data_file import RowKind
from lakekit.parallel import parallel_map

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.model.manifest_entries import ManifestEntries

    Mask = NDArray[np.bool_]

_PATH_COLUMNS = ("partition", "bucket", "file_name", "external_path")
_CACHE_ENTRY_BYTES = 200
"""Approximate memory of one cached answer, its path included."""
_ADD_ONLY_RANGES = frozenset(
    {(int(RowKind.INSERT), int(RowKind.INSERT)), (int(RowKind.UPDATE_AFTER), int(RowKind.UPDATE_AFTER))}
)
"""Bounds of `_VALUE_KIND` between which no retracting kind lies."""


def is_proved_add_only(file: DataFileMeta) -> bool:
    """Return whether the manifest proves that no row of a file retracts."""
    return file.delete_row_count == 0 and file.level > 0


def is_known_add_only(ctx: TableContext, file: DataFileMeta, path: str) -> bool:
    """Return whether the manifest proves that no row of a file retracts, or what is cached of the file does."""
    if file.delete_row_count != 0:
        return False
    return file.level > 0 or ctx.runtime.metadata_cache.get(_cache_key(ctx, path)) is False


def cache_add_only(ctx: TableContext, paths: Sequence[str]) -> None:
    """Cache that no row of the files retracts, as every kind of theirs was read."""
    known: dict[Hashable, bool] = {_cache_key(ctx, path): False for path in paths}
    ctx.runtime.metadata_cache.put(known, _CACHE_ENTRY_BYTES * len(known))


def may_retract(
    ctx: TableContext, entries: ManifestEntries, row_numbers: NDArray[np.int64], *, reads_remote: bool = False
) -> Mask:
    """Return a mask over `row_numbers`, indexes of entries: which files may hold rows that retract.

    `reads_remote`: read footers over a network too; else uncached files of level 0 there count as holding some.
    """
    mask: Mask = pc.fill_null(entries.column("delete_row_count"), -1).to_numpy()[row_numbers] != 0
    doubts = np.flatnonzero(~mask & (entries.integers("level")[row_numbers] == 0))
    if len(doubts):
        doubtful = entries.select(_PATH_COLUMNS).take(row_numbers[doubts])
        paths = data_file_paths(ctx, doubtful)
        answers = [ctx.runtime.metadata_cache.get(_cache_key(ctx, path)) for path in paths]
        if None in answers:
            answers = _may_retract_by_footers(
                ctx, entries.take(row_numbers[doubts]).files_to_read(), paths, reads_remote=reads_remote
            )
        mask[doubts] = answers
    return mask


def has_retractions(ctx: TableContext, file: DataFileMeta, path: str) -> bool:
    """Return whether a row of a file retracts, or the manifest says so.

    Where no bounds tell, the kinds are read. Raises what reading a file raises.
    """
    if file.delete_row_count != 0 or is_proved_add_only(file):
        return file.delete_row_count != 0
    [doubt] = _may_retract_by_footers(ctx, [file], [path], reads_remote=True)
    if not doubt:
        return False
    with translate_polars_errors(ctx, [path]):
        kinds = scan_files(ctx, [file], [path], (), system=(KIND,)).collect()[KIND]
    return bool((kinds & 1 == 1).any())


def _cache_key(ctx: TableContext, path: str) -> Hashable:
    return "kinds", ctx.storage, path


def _may_retract_by_footers(
    ctx: TableContext, files: Sequence[DataFileMeta], paths: Sequence[str], *, reads_remote: bool
) -> list[bool]:
    """Return which files may hold rows that retract, of files of level 0 whose count is 0."""
    cache, storage = ctx.runtime.metadata_cache, ctx.storage
    keys = [_cache_key(ctx, path) for path in paths]
    answers: list[bool | None] = [cache.get(key) for key in keys]
    unknown = [i for i, cached_answer in enumerate(answers) if cached_answer is None]
    if unknown and (reads_remote or not storage.is_remote):
        step = 1 if storage.is_remote else FILES_PER_TASK
        tasks = [unknown[first : first + step] for first in range(0, len(unknown), step)]
        footer_answers = parallel_map(
            lambda task: [_retracts_by_footer(ctx, files[i], paths[i]) for i in task], tasks, waiting=storage.is_remote
        )
        for i, answer in zip(
            unknown, (answer for task_answers in footer_answers for answer in task_answers), strict=True
        ):
            answers[i] = answer
        new_answers: dict[Hashable, bool | None] = {keys[i]: answers[i] for i in unknown if answers[i] is not None}
        if new_answers:
            cache.put(new_answers, _CACHE_ENTRY_BYTES * len(new_answers))
    return [answer is not False for answer in answers]


def _retracts_by_footer(ctx: TableContext, file: DataFileMeta, path: str) -> bool | None:
    """Return whether the bounds of a file's kinds allow one that retracts.

    Returns None if it has no bounds, or cannot be read; reading its rows then reports why.
    """
    if file.format_name != "parquet":
        return True
    try:
        bounds = parquet.integer_bounds(footer_source(ctx, file, path), KIND)
    except (LakekitError, pa.ArrowException, OSError, ValueError):
        return None
    return bounds is None or bounds not in _ADD_ONLY_RANGES
