"""Check what manifests say of files for consistency; the files themselves are not read.

    key range    min ≤ max                 level     at least 0; of append tables 0
    sequences    min ≤ max                 overlap   none in a level above 0 of a bucket: a key is in one file at most
    counts       0 ≤ deletes ≤ rows        buckets   one total for a partition; each bucket below it

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
    """Check the entries of live files, which lie at the paths `at`."""
    if not len(live):
        return
    _numbers(live, at, notes)
    _totals(ctx, live, notes)
    if ctx.schema.primary_keys:
        with notes.reading("key range", ctx.layout.manifest_dir):
            _key_ranges(ctx, live, at, notes)
        notes.paths.discard(ctx.layout.manifest_dir)


def bucket_codes(entries: ManifestEntries) -> Ints:
    """Return a number for each entry's (partition, bucket)."""
    partition = entries.column("partition").dictionary_encode().indices.to_numpy().astype(np.int64)
    buckets = np.unique(entries.numbers("bucket"), return_inverse=True)[1].reshape(-1)
    codes: Ints = (
        np.unique(partition * (int(buckets.max(initial=0)) + 1) + buckets, return_inverse=True)[1]
        .reshape(-1)
        .astype(np.int64)
    )
    return codes


def ranks(frame: pl.DataFrame) -> Ints:
    """Return a number for each key that compares as the keys do."""
    order = key_codes.order(frame, frame.columns)
    placed = frame[order]
    changed = placed.select(pl.any_horizontal(pl.all().ne_missing(pl.all().shift(1)))).to_series().to_numpy().copy()
    changed[:1] = False
    dense_ranks = np.empty(frame.height, np.int64)
    dense_ranks[order] = np.cumsum(changed)
    return dense_ranks


def _numbers(live: ManifestEntries, at: list[str], notes: Findings) -> None:
    rows, sizes, levels = (live.numbers(name) for name in ("row_count", "file_size", "level"))
    low, high = live.numbers("min_sequence_number"), live.numbers("max_sequence_number")
    deletes = pc.fill_null(live.column("delete_row_count"), 0).to_numpy()
    checks: list[tuple[str, str, Mask, str, tuple[Any, ...]]] = [
        ("row count is below 0", "_ROW_COUNT", rows < 0, "{} rows", (rows,)),
        ("size is below 0", "_FILE_SIZE", sizes < 0, "{} bytes", (sizes,)),
        ("level is below 0", "_LEVEL", levels < 0, "level {}", (levels,)),
        ("sequence numbers are swapped", "_MIN_SEQUENCE_NUMBER", low > high, "from {} to {}", (low, high)),
        (
            "delete count does not fit",
            "_DELETE_ROW_COUNT",
            (deletes < 0) | (deletes > rows),
            "{} deletes among {} rows",
            (deletes, rows),
        ),
    ]
    for what, field, wrong, template, numbers in checks:
        for i in np.flatnonzero(wrong):
            notes.wrong(
                what,
                f"the manifest says {template.format(*(int(values[i]) for values in numbers))}",
                path=at[i],
                field=field,
                remedy=RESTORE,
            )


def _totals(ctx: TableContext, live: ManifestEntries, notes: Findings) -> None:
    """Check that each partition has one total of buckets: two totals put a key into two buckets."""
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
        distinct_totals = np.unique(totals[mine])
        where = partition_path(ctx, row) or "the table"
        directory = ctx.layout.bucket_dir(partition_path(ctx, row), 0).rpartition("/")[0]
        remedy = "overwrite the partition (t.overwrite), which writes it with one number of buckets"
        if len(distinct_totals) > 1:
            message = (
                f"files of {where} say {', '.join(map(str, distinct_totals))} buckets: a key could be in two of them"
            )
            notes.wrong(
                "total buckets differ in a partition", message, path=directory, field="_TOTAL_BUCKETS", remedy=remedy
            )
        beyond = mine & (totals > 0) & (buckets >= totals)
        for bucket in np.unique(buckets[beyond]):
            message = f"{where} has files in bucket {bucket} of {totals[beyond][0]}"
            notes.wrong("bucket is beyond the total", message, path=directory, field="_BUCKET", remedy=remedy)


def _key_ranges(ctx: TableContext, live: ManifestEntries, at: list[str], notes: Findings) -> None:
    indices = np.flatnonzero(live.numbers("bucket") != POSTPONE_BUCKET)
    if not len(indices):
        return
    entries = live.take(indices)
    ends = [slices.keys(ctx, entries.column(name).to_pylist()) for name in ("min_key", "max_key")]  # scalar: one a file
    key_ranks = ranks(pl.concat(ends))
    low, high = key_ranks[: len(indices)], key_ranks[len(indices) :]
    shown = [_Shown(frame) for frame in ends]
    for i in np.flatnonzero(low > high):
        message = (
            f"the smallest key {shown[0](i)} is above the largest {shown[1](i)}: reads by key may pass the file over"
        )
        notes.wrong("key range is swapped", message, path=at[indices[i]], field="_MIN_KEY", remedy=REWRITE)
    levels = entries.numbers("level").astype(np.int64)
    run = bucket_codes(entries) * (int(levels.max(initial=0)) + 2) + levels
    order = np.lexsort((low, run))
    order = order[levels[order] > 0]
    if len(order) < 2:
        return
    # the largest key so far of the same run: runs are numbered upward, so that a running maximum starts anew with each
    width = int(key_ranks.max()) + 1
    reached = np.maximum.accumulate(high[order] + run[order] * width)[:-1] - run[order][1:] * width
    for i in np.flatnonzero((run[order][1:] == run[order][:-1]) & (low[order][1:] <= reached)):
        previous, current = order[i], order[i + 1]
        partition, bucket = bucket_id_at(entries, int(current))
        named = partition_path(ctx, partition)
        message = (
            f"level {levels[current]} of bucket {bucket}{f' of {named}' if named else ''}: its keys "
            f"{shown[0](current)} … {shown[1](current)} overlap those of files before it, as "
            f"{at[indices[previous]].rpartition('/')[2]} with {shown[0](previous)} … {shown[1](previous)}; "
            f"old versions of a key may be read"
        )
        notes.wrong("files of a level overlap", message, path=at[indices[current]], field="_MIN_KEY", remedy=REWRITE)


class _Shown:
    """The keys of a frame as text, one at a time."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.frame = frame

    def __call__(self, i: SupportsIndex) -> str:
        return ", ".join(_part(column, int(i)) for column in self.frame.get_columns())  # scalar: one key in a message


def _part(column: pl.Series, at: int) -> str:
    value = column[at] if column.dtype.is_integer() else None
    return format_value(column, at) if value is None else format_count(int(value))
