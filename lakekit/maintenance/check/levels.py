"""Checks of what manifests say of files, and advice; the files themselves are not read.

    key range    min ≤ max                 level     at least 0; of append tables 0
    sequences    min ≤ max                 overlap   none in a level above 0 of a bucket: a key is in one file at most
    counts       0 ≤ deletes ≤ rows        buckets   one total for a partition; each bucket below it

Advice on what would make a table faster or smaller (bucket and file sizes, sorted runs, partitions) reports nothing
that is wrong.

Source: ENGINE.md 2.1, 5.5, 7.1; RELIABILITY I9; Paimon's own advice on buckets, 200 MB to 1 GB each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import polars as pl
import pyarrow.compute as pc

from lakekit.bucket import merge_read
from lakekit.data_file.paths import bucket_id_at, partition_path
from lakekit.draw.humanize import format_count, format_size, plural
from lakekit.lsm import numpy_columns
from lakekit.maintenance.check.findings import RESTORE_REMEDY, REWRITE_REMEDY, format_value
from lakekit.model.table_paths import POSTPONE_BUCKET

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lakekit.maintenance.check.findings import Findings
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import ManifestEntries

    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]


def check_entries(ctx: TableContext, live_entries: ManifestEntries, paths: list[str], findings: Findings) -> None:
    """Check the entries of live files, which lie at the paths `paths`."""
    if not len(live_entries):
        return
    _check_sequence_numbers(live_entries, paths, findings)
    _check_bucket_totals(ctx, live_entries, findings)
    if ctx.schema.primary_keys:
        with findings.reading_file("key range", ctx.paths.manifest_dir):
            _check_key_ranges(ctx, live_entries, paths, findings)
        findings.paths.discard(ctx.paths.manifest_dir)


def bucket_codes(entries: ManifestEntries) -> Ints:
    """Return a number for each entry's (partition, bucket)."""
    partition = entries.column("partition").dictionary_encode().indices.to_numpy().astype(np.int64)
    buckets = np.unique(entries.integers("bucket"), return_inverse=True)[1].reshape(-1)
    codes: Ints = (
        np.unique(partition * (int(buckets.max(initial=0)) + 1) + buckets, return_inverse=True)[1]
        .reshape(-1)
        .astype(np.int64)
    )
    return codes


def rank_keys(frame: pl.DataFrame) -> Ints:
    """Return a number for each key that compares as the keys do."""
    order = numpy_columns.key_order(frame, frame.columns)
    placed = frame[order]
    changed = placed.select(pl.any_horizontal(pl.all().ne_missing(pl.all().shift(1)))).to_series().to_numpy().copy()
    changed[:1] = False
    dense_ranks = np.empty(frame.height, np.int64)
    dense_ranks[order] = np.cumsum(changed)
    return dense_ranks


def _check_sequence_numbers(live_entries: ManifestEntries, paths: list[str], findings: Findings) -> None:
    rows, sizes, levels = (live_entries.integers(name) for name in ("row_count", "file_size", "level"))
    low, high = live_entries.integers("min_sequence_number"), live_entries.integers("max_sequence_number")
    deletes = pc.fill_null(live_entries.column("delete_row_count"), 0).to_numpy()
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
            findings.add_problem(
                what,
                f"the manifest says {template.format(*(int(values[i]) for values in numbers))}",
                path=paths[i],
                field=field,
                remedy=RESTORE_REMEDY,
            )


def _check_bucket_totals(ctx: TableContext, live_entries: ManifestEntries, findings: Findings) -> None:
    """Check that each partition has one total of buckets: two totals put a key into two buckets."""
    buckets, totals = live_entries.integers("bucket"), live_entries.integers("total_buckets")
    partition = live_entries.column("partition").dictionary_encode()
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
        directory = ctx.paths.bucket_dir(partition_path(ctx, row), 0).rpartition("/")[0]
        remedy = "overwrite the partition (t.overwrite), which writes it with one number of buckets"
        if len(distinct_totals) > 1:
            message = (
                f"files of {where} say {', '.join(map(str, distinct_totals))} buckets: a key could be in two of them"
            )
            findings.add_problem(
                "total buckets differ in a partition", message, path=directory, field="_TOTAL_BUCKETS", remedy=remedy
            )
        beyond = mine & (totals > 0) & (buckets >= totals)
        for bucket in np.unique(buckets[beyond]):
            message = f"{where} has files in bucket {bucket} of {totals[beyond][0]}"
            findings.add_problem("bucket is beyond the total", message, path=directory, field="_BUCKET", remedy=remedy)


def _check_key_ranges(ctx: TableContext, live_entries: ManifestEntries, paths: list[str], findings: Findings) -> None:
    indices = np.flatnonzero(live_entries.integers("bucket") != POSTPONE_BUCKET)
    if not len(indices):
        return
    entries = live_entries.take(indices)
    ends = [
        merge_read.decode_keys(ctx, entries.column(name).to_pylist()) for name in ("min_key", "max_key")
    ]  # scalar: one a file
    key_ranks = rank_keys(pl.concat(ends))
    low, high = key_ranks[: len(indices)], key_ranks[len(indices) :]
    shown = [_KeyTexts(frame) for frame in ends]
    for i in np.flatnonzero(low > high):
        message = (
            f"the smallest key {shown[0](i)} is above the largest {shown[1](i)}: reads by key may pass the file over"
        )
        findings.add_problem(
            "key range is swapped", message, path=paths[indices[i]], field="_MIN_KEY", remedy=REWRITE_REMEDY
        )
    levels = entries.integers("level").astype(np.int64)
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
            f"{paths[indices[previous]].rpartition('/')[2]} with {shown[0](previous)} … {shown[1](previous)}; "
            f"old versions of a key may be read"
        )
        findings.add_problem(
            "files of a level overlap", message, path=paths[indices[current]], field="_MIN_KEY", remedy=REWRITE_REMEDY
        )


class _KeyTexts:
    """The keys of a frame as text, one at a time."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.frame = frame

    def __call__(self, i: SupportsIndex) -> str:
        return ", ".join(
            _key_part_text(column, int(i)) for column in self.frame.get_columns()
        )  # scalar: one key in a message


def _key_part_text(column: pl.Series, at: int) -> str:
    value = column[at] if column.dtype.is_integer() else None
    return format_value(column, at) if value is None else format_count(int(value))


# ---- advice ------------------------------------------------------------


SMALL_BUCKET_BYTES, LARGE_BUCKET_BYTES = 200 << 20, 1 << 30
MANY_FILES, SMALL_SHARE = 10, 4
"""More files than this in a bucket, each smaller than a quarter of `target-file-size`, are many small ones."""
MANY_PARTITIONS, SMALL_PARTITION_ROWS = 100, 10_000


def add_advice_on_files(ctx: TableContext, live_entries: ManifestEntries, findings: Findings) -> None:
    """Add advice about the live files."""
    if not len(live_entries):
        return
    codes = bucket_codes(live_entries)
    sizes = live_entries.integers("file_size")
    total = np.bincount(codes, sizes)
    first = np.unique(codes, return_index=True)[1]
    if ctx.options.bucket > 0:
        _advise_on_buckets(ctx, live_entries.take(first), total, findings)
    _advise_on_files(ctx, live_entries, codes, first, findings)
    _advise_on_partitions(ctx, live_entries, findings)


def _describe_bucket(ctx: TableContext, live_entries: ManifestEntries, i: int) -> str:
    partition, bucket = bucket_id_at(live_entries, int(i))
    path = partition_path(ctx, partition)
    return f"bucket {bucket}{f' of {path}' if path else ''}"


def _advise_on_buckets(ctx: TableContext, buckets: ManifestEntries, total: NDArray[Any], findings: Findings) -> None:
    """Add advice about the sizes of buckets: `buckets` holds one entry of each bucket, `total` its bytes."""
    large = np.flatnonzero(total > LARGE_BUCKET_BYTES)
    if len(large):
        worst = int(np.argmax(total))
        many_hold = f"{plural(len(large), 'bucket')} of {len(total)} hold more than {format_size(LARGE_BUCKET_BYTES)}"
        message = f"{many_hold}; {_describe_bucket(ctx, buckets, worst)} holds {format_size(int(total[worst]))}"
        more = ctx.options.bucket * -(-int(total[worst]) // LARGE_BUCKET_BYTES)
        findings.add_advice(
            "buckets are large",
            message,
            field="bucket",
            remedy=f"t.rescale({more}) writes the rows into more of them, where=… those of some partitions",
        )
    codes = buckets.column("partition").dictionary_encode().indices.to_numpy()
    count, partition_bytes = np.bincount(codes), np.bincount(codes, total)
    enough = np.maximum(1, np.ceil(partition_bytes / SMALL_BUCKET_BYTES))
    many = np.flatnonzero(count > enough)
    if len(many):
        fewer = int(enough[many].max())
        held_by_each = format_size(int(partition_bytes[many].sum() / count[many].sum()))
        message = (
            f"{format_size(int(partition_bytes[many].mean()))} a partition lie in "
            f"{plural(int(count[many].max()), 'bucket')} of {held_by_each}, "
            f"where {plural(fewer, 'bucket')} would do; "
            f"{format_size(SMALL_BUCKET_BYTES)} to {format_size(LARGE_BUCKET_BYTES)} a bucket are read and compacted "
            "best"
        )
        remedy = (
            f"unless the table is to grow: t.rescale({fewer}) writes the rows into fewer of them; a new table may "
            "have 'bucket' = '-1'"
        )
        findings.add_advice("buckets are small", message, field="bucket", remedy=remedy)


def _advise_on_files(
    ctx: TableContext,
    live_entries: ManifestEntries,
    codes: NDArray[np.int64],
    first: NDArray[np.int64],
    findings: Findings,
) -> None:
    """Add advice about small files and about the number of sorted runs."""
    levels, sizes = live_entries.integers("level"), live_entries.integers("file_size")
    keyed = bool(ctx.schema.primary_keys)
    target = ctx.options.rolling_size_bytes
    small = np.bincount(codes, (sizes * SMALL_SHARE < target) & ((levels > 0) | (not keyed)), minlength=len(first))
    if (many := small > MANY_FILES).any():
        worst = int(np.argmax(small))
        have = (
            f"{plural(int(many.sum()), 'bucket')} of {len(first)} have more than {MANY_FILES} files below "
            f"{format_size(target // SMALL_SHARE)}"
        )
        message = f"{have}; {_describe_bucket(ctx, live_entries, first[worst])} has {int(small[worst])}"
        findings.add_advice(
            "many small files", message, field="target-file-size", remedy="t.compact(full=True) makes few of them"
        )
    runs = np.bincount(codes, levels == 0, minlength=len(first))
    trigger = ctx.options.num_sorted_run_compaction_trigger
    if keyed and (crowded := runs > trigger).any():
        worst = int(np.argmax(runs))
        have = f"{plural(int(crowded.sum()), 'bucket')} of {len(first)} have more than {trigger} files at level 0"
        message = f"{have}; {_describe_bucket(ctx, live_entries, first[worst])} has {int(runs[worst])}"
        remedy = "t.compact() merges them: every read does so until then"
        findings.add_advice("many runs at level 0", message, field="num-sorted-run.compaction-trigger", remedy=remedy)


def _advise_on_partitions(ctx: TableContext, live_entries: ManifestEntries, findings: Findings) -> None:
    if not ctx.schema.partition_keys:
        return
    partitions = len(live_entries.column("partition").unique())
    rows = int(live_entries.integers("row_count").sum())
    if partitions > MANY_PARTITIONS and rows < partitions * SMALL_PARTITION_ROWS:
        message = f"{plural(partitions, 'partition')} hold {plural(rows // partitions, 'row')} each on average"
        remedy = (
            f"a coarser partition column than {', '.join(ctx.schema.partition_keys)}: files never hold rows of two "
            "partitions"
        )
        findings.add_advice("partitions are small", message, field="partitionKeys", remedy=remedy)
