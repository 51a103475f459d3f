"""What manifests say of files, held against each other: nothing of the files themselves is read.

    key range    min ≤ max                          level     at least 0; of append tables 0
    sequences    min ≤ max                          overlap   none in a level above 0 of a bucket: there a key is in one file at most
    counts       0 ≤ deletes ≤ rows                 buckets   one total for a partition; each bucket below it

Source: ENGINE.md 2.1, 5.5; RELIABILITY I9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import polars as pl
import pyarrow.compute as pc

from lakekit.bucket import slices
from lakekit.data_file.paths import bucket_id_at, partition_path
from lakekit.draw.humanize import format_count
from lakekit.lsm import key_codes
from lakekit.maintenance.check.findings import RESTORE, REWRITE, format_value
from lakekit.model.table_paths import POSTPONE_BUCKET

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lakekit.maintenance.check.findings import Findings
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import ManifestEntries

    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]


def check(ctx: TableContext, live: ManifestEntries, at: list[str], notes: Findings) -> None:
    """Looks at what the entries of live files say; `at` is where the files lie."""
    if not len(live):
        return
    _numbers(live, at, notes)
    _totals(ctx, live, notes)
    if ctx.schema.primary_keys:
        with notes.reading("key range", ctx.layout.manifest_dir):
            _key_ranges(ctx, live, at, notes)
        notes.paths.discard(ctx.layout.manifest_dir)


def bucket_codes(entries: ManifestEntries) -> Ints:
    """A number for each (partition, bucket)."""
    partition = entries.column("partition").dictionary_encode().indices.to_numpy().astype(np.int64)
    buckets = np.unique(entries.numbers("bucket"), return_inverse=True)[1].reshape(-1)
    found: Ints = np.unique(partition * (int(buckets.max(initial=0)) + 1) + buckets, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return found


def ranks(frame: pl.DataFrame) -> Ints:
    """A number for each key that compares as the keys do."""
    order = key_codes.order(frame, frame.columns)
    placed = frame[order]
    changed = placed.select(pl.any_horizontal(pl.all().ne_missing(pl.all().shift(1)))).to_series().to_numpy().copy()
    changed[:1] = False
    found = np.empty(frame.height, np.int64)
    found[order] = np.cumsum(changed)
    return found


def _numbers(live: ManifestEntries, at: list[str], notes: Findings) -> None:
    rows, sizes, levels = (live.numbers(name) for name in ("row_count", "file_size", "level"))
    low, high = live.numbers("min_sequence_number"), live.numbers("max_sequence_number")
    deletes = pc.fill_null(live.column("delete_row_count"), 0).to_numpy()
    told: list[tuple[str, str, Mask, str, tuple[Any, ...]]] = [
        ("row count is below 0", "_ROW_COUNT", rows < 0, "{} rows", (rows,)),
        ("size is below 0", "_FILE_SIZE", sizes < 0, "{} bytes", (sizes,)),
        ("level is below 0", "_LEVEL", levels < 0, "level {}", (levels,)),
        ("sequence numbers are swapped", "_MIN_SEQUENCE_NUMBER", low > high, "from {} to {}", (low, high)),
        ("delete count does not fit", "_DELETE_ROW_COUNT", (deletes < 0) | (deletes > rows), "{} deletes among {} rows", (deletes, rows)),
    ]
    for what, field, wrong, words, numbers in told:
        for i in np.flatnonzero(wrong):
            notes.wrong(what, f"the manifest says {words.format(*(int(one[i]) for one in numbers))}", path=at[i], field=field, remedy=RESTORE)


def _totals(ctx: TableContext, live: ManifestEntries, notes: Findings) -> None:
    """Rows go to buckets by the total of their partition: two totals put a key into two buckets."""
    buckets, totals = live.numbers("bucket"), live.numbers("total_buckets")
    partition = live.column("partition").dictionary_encode()
    codes = partition.indices.to_numpy()
    low, high = np.full(len(partition.dictionary), 2**31 - 1), np.full(len(partition.dictionary), -(2**31))
    fixed = buckets >= 0
    np.minimum.at(low, codes[fixed], totals[fixed])
    np.maximum.at(high, codes[fixed], totals[fixed])
    outside = np.unique(codes[fixed & (totals > 0) & (buckets >= totals)])
    for code in np.union1d(np.flatnonzero(low < high), outside):
        row = partition.dictionary[int(code)].as_py()  # scalar: one a wrong partition
        mine = (codes == code) & fixed
        found = np.unique(totals[mine])
        where = partition_path(ctx, row) or "the table"
        directory = ctx.layout.bucket_dir(partition_path(ctx, row), 0).rpartition("/")[0]
        remedy = "overwrite the partition (t.overwrite), which writes it with one number of buckets"
        if len(found) > 1:
            message = f"files of {where} say {', '.join(map(str, found))} buckets: a key could be in two of them"
            notes.wrong("total buckets differ in a partition", message, path=directory, field="_TOTAL_BUCKETS", remedy=remedy)
        beyond = mine & (totals > 0) & (buckets >= totals)
        for bucket in np.unique(buckets[beyond]):
            message = f"{where} has files in bucket {bucket} of {totals[beyond][0]}"
            notes.wrong("bucket is beyond the total", message, path=directory, field="_BUCKET", remedy=remedy)


def _key_ranges(ctx: TableContext, live: ManifestEntries, at: list[str], notes: Findings) -> None:
    there = np.flatnonzero(live.numbers("bucket") != POSTPONE_BUCKET)
    if not len(there):
        return
    some = live.take(there)
    ends = [slices.keys(ctx, some.column(name).to_pylist()) for name in ("min_key", "max_key")]  # scalar: one a file
    found = ranks(pl.concat(ends))
    low, high = found[: len(there)], found[len(there) :]
    shown = [_Shown(frame) for frame in ends]
    for i in np.flatnonzero(low > high):
        message = f"the smallest key {shown[0](i)} is above the largest {shown[1](i)}: reads by key may pass the file over"
        notes.wrong("key range is swapped", message, path=at[there[i]], field="_MIN_KEY", remedy=REWRITE)
    levels = some.numbers("level").astype(np.int64)
    run = bucket_codes(some) * (int(levels.max(initial=0)) + 2) + levels
    order = np.lexsort((low, run))
    order = order[levels[order] > 0]
    if len(order) < 2:
        return
    # the largest key so far of the same run: runs are numbered upward, so that a running maximum starts anew with each
    width = int(found.max()) + 1
    reached = np.maximum.accumulate(high[order] + run[order] * width)[:-1] - run[order][1:] * width
    for i in np.flatnonzero((run[order][1:] == run[order][:-1]) & (low[order][1:] <= reached)):
        one, other = order[i], order[i + 1]
        partition, bucket = bucket_id_at(some, int(other))
        named = partition_path(ctx, partition)
        message = (
            f"level {levels[other]} of bucket {bucket}{f' of {named}' if named else ''}: its keys {shown[0](other)} … {shown[1](other)} overlap those of files "
            f"before it, as {at[there[one]].rpartition('/')[2]} with {shown[0](one)} … {shown[1](one)}; old versions of a key may be read"
        )
        notes.wrong("files of a level overlap", message, path=at[there[other]], field="_MIN_KEY", remedy=REWRITE)


class _Shown:
    """Keys in words, one at a time."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.frame = frame

    def __call__(self, i: SupportsIndex) -> str:
        return ", ".join(_part(column, int(i)) for column in self.frame.get_columns())  # scalar: one key in a message


def _part(column: pl.Series, at: int) -> str:
    value = column[at] if column.dtype.is_integer() else None
    return format_value(column, at) if value is None else format_count(int(value))
