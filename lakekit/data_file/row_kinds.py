"""Which files of a key table may hold rows that retract: rows of the kinds -U and -D.

    level   _DELETE_ROW_COUNT                  file
    > 0     0                                  holds none: a compaction counted them
    0       0                                  is asked: the bounds of `_VALUE_KIND` in its footer
    any     more than 0, or not known          may hold some

The reference merges every file of level 0 by the kinds of its rows, and looks at the count of a file only above level 0. Writers differ: pypaimon 2.1.0 writes
0 for every file. So the count of level 0 proves nothing, and the bounds that Parquet keeps of a column do. ORC and Avro files keep none that are cheap to
reach: their rows are read with their kinds. What a footer says of a file is remembered, because files do not change.

Source: ENGINE.md 6.5; `MergeTreeSplitGenerator`, `DataFileMeta.deleteRowCount`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.data_file.paths import data_file_paths
from lakekit.data_file.reader import VALUE_KIND, footer_source, scan_files, translate_polars_errors
from lakekit.data_file.verification import FILES_PER_TASK
from lakekit.errors import LakekitError
from lakekit.format import parquet
from lakekit.model.row_kind import RowKind
from lakekit.world import parallel_map

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.model.manifest_entries import ManifestEntries

    Mask = NDArray[np.bool_]

_PATH_COLUMNS = ("partition", "bucket", "file_name", "external_path")
_MARK_BYTES = 200
"""About what a remembered answer takes, its path included."""
_ADD_ONLY_RANGES = frozenset({(int(RowKind.INSERT), int(RowKind.INSERT)), (int(RowKind.UPDATE_AFTER), int(RowKind.UPDATE_AFTER))})
"""Bounds between which lies no kind that retracts."""


def is_counted(file: DataFileMeta) -> bool:
    """Whether the manifest proves that no row of a file retracts."""
    return file.delete_row_count == 0 and file.level > 0


def may_retract(ctx: TableContext, entries: ManifestEntries, rows: NDArray[np.int64], *, looks_far: bool = False) -> Mask:
    """Which files of some rows of the entries may hold rows that retract.

    `looks_far`: footers are read over a network too; else files of level 0 there may hold some as long as nobody knows better.
    """
    found: Mask = pc.fill_null(entries.column("delete_row_count"), -1).to_numpy()[rows] != 0
    doubts = np.flatnonzero(~found & (entries.numbers("level")[rows] == 0))
    if len(doubts):
        some = entries.select(_PATH_COLUMNS).take(rows[doubts])
        paths = data_file_paths(ctx, some)
        known = [ctx.world.decoded.get(_key(ctx, path)) for path in paths]
        if None in known:
            known = _by_footers(ctx, entries.take(rows[doubts]).files_to_read(), paths, looks_far=looks_far)
        found[doubts] = known
    return found


def retracts(ctx: TableContext, file: DataFileMeta, path: str) -> bool:
    """Whether rows of a file retract, or the manifest says so: where no bounds tell, the kinds are read. Raises what reading a file raises."""
    if file.delete_row_count != 0 or is_counted(file):
        return file.delete_row_count != 0
    [doubt] = _by_footers(ctx, [file], [path], looks_far=True)
    if not doubt:
        return False
    with translate_polars_errors(ctx, [path]):
        kinds = scan_files(ctx, [file], [path], (), system=(VALUE_KIND,)).collect()[VALUE_KIND]
    return bool((kinds & 1 == 1).any())


def _key(ctx: TableContext, path: str) -> Hashable:
    return "kinds", ctx.storage, path


def _by_footers(ctx: TableContext, files: Sequence[DataFileMeta], paths: Sequence[str], *, looks_far: bool) -> list[bool]:
    """Of files of level 0 whose count is 0, which may hold rows that retract all the same."""
    shelf, storage = ctx.world.decoded, ctx.storage
    keys = [_key(ctx, path) for path in paths]
    found: list[bool | None] = [shelf.get(key) for key in keys]
    fresh = [at for at, known in enumerate(found) if known is None]
    if fresh and (looks_far or not storage.is_remote):
        step = 1 if storage.is_remote else FILES_PER_TASK
        lots = [fresh[first : first + step] for first in range(0, len(fresh), step)]
        answers = parallel_map(lambda lot: [_by_footer(ctx, files[at], paths[at]) for at in lot], lots, waiting=storage.is_remote)
        for at, answer in zip(fresh, (one for some in answers for one in some), strict=True):
            found[at] = answer
        told: dict[Hashable, bool | None] = {keys[at]: found[at] for at in fresh if found[at] is not None}
        if told:
            shelf.put(told, _MARK_BYTES * len(told))
    return [one is not False for one in found]


def _by_footer(ctx: TableContext, file: DataFileMeta, path: str) -> bool | None:
    """Whether the bounds of a file's kinds leave room for one that retracts; None where it has no bounds, or cannot be read: reading says why."""
    if file.format_name != "parquet":
        return True
    try:
        bounds = parquet.bounds(footer_source(ctx, file, path), VALUE_KIND)
    except (LakekitError, pa.ArrowException, OSError, ValueError):
        return None
    return bounds is None or bounds not in _ADD_ONLY_RANGES
