"""Advice on what would make a table faster or smaller: bucket and file sizes, sorted runs, partitions.

Nothing reported here is wrong. Source: the sizes of ENGINE.md 7.1 and Paimon's own advice on buckets, 200 MB to 1 GB
each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lakekit.data_file.paths import bucket_id_at, partition_path
from lakekit.draw.humanize import format_size, plural
from lakekit.maintenance.check.levels import bucket_codes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lakekit.maintenance.check.findings import Findings
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import ManifestEntries

SMALL_BUCKET_BYTES, LARGE_BUCKET_BYTES = 200 << 20, 1 << 30
MANY_FILES, SMALL_SHARE = 10, 4
"""More files than this in a bucket, each smaller than a quarter of `target-file-size`, are many small ones."""
MANY_PARTITIONS, SMALL_PARTITION_ROWS = 100, 10_000


def check(ctx: TableContext, live: ManifestEntries, notes: Findings) -> None:
    """Advise about the live files."""
    if not len(live):
        return
    codes = bucket_codes(live)
    sizes = live.numbers("file_size")
    total = np.bincount(codes, sizes)
    first = np.unique(codes, return_index=True)[1]
    if ctx.options.bucket > 0:
        _buckets(ctx, live.take(first), total, notes)
    _files(ctx, live, codes, first, notes)
    _partitions(ctx, live, notes)


def _describe_bucket(ctx: TableContext, live: ManifestEntries, i: int) -> str:
    partition, bucket = bucket_id_at(live, int(i))
    path = partition_path(ctx, partition)
    return f"bucket {bucket}{f' of {path}' if path else ''}"


def _buckets(ctx: TableContext, buckets: ManifestEntries, total: NDArray[Any], notes: Findings) -> None:
    """`buckets` holds one entry a bucket, `total` its bytes."""
    large = np.flatnonzero(total > LARGE_BUCKET_BYTES)
    if len(large):
        worst = int(np.argmax(total))
        many_hold = f"{plural(len(large), 'bucket')} of {len(total)} hold more than {format_size(LARGE_BUCKET_BYTES)}"
        message = f"{many_hold}; {_describe_bucket(ctx, buckets, worst)} holds {format_size(int(total[worst]))}"
        more = ctx.options.bucket * -(-int(total[worst]) // LARGE_BUCKET_BYTES)
        notes.better(
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
        notes.better("buckets are small", message, field="bucket", remedy=remedy)


def _files(
    ctx: TableContext, live: ManifestEntries, codes: NDArray[np.int64], first: NDArray[np.int64], notes: Findings
) -> None:
    """Small files and sorted runs."""
    levels, sizes = live.numbers("level"), live.numbers("file_size")
    keyed = bool(ctx.schema.primary_keys)
    target = ctx.options.rolling_size_bytes
    small = np.bincount(codes, (sizes * SMALL_SHARE < target) & ((levels > 0) | (not keyed)), minlength=len(first))
    if (many := small > MANY_FILES).any():
        worst = int(np.argmax(small))
        have = (
            f"{plural(int(many.sum()), 'bucket')} of {len(first)} have more than {MANY_FILES} files below "
            f"{format_size(target // SMALL_SHARE)}"
        )
        message = f"{have}; {_describe_bucket(ctx, live, first[worst])} has {int(small[worst])}"
        notes.better(
            "many small files", message, field="target-file-size", remedy="t.compact(full=True) makes few of them"
        )
    runs = np.bincount(codes, levels == 0, minlength=len(first))
    trigger = ctx.options.num_sorted_run_compaction_trigger
    if keyed and (crowded := runs > trigger).any():
        worst = int(np.argmax(runs))
        have = f"{plural(int(crowded.sum()), 'bucket')} of {len(first)} have more than {trigger} files at level 0"
        message = f"{have}; {_describe_bucket(ctx, live, first[worst])} has {int(runs[worst])}"
        remedy = "t.compact() merges them: every read does so until then"
        notes.better("many runs at level 0", message, field="num-sorted-run.compaction-trigger", remedy=remedy)


def _partitions(ctx: TableContext, live: ManifestEntries, notes: Findings) -> None:
    if not ctx.schema.partition_keys:
        return
    partitions = len(live.column("partition").unique())
    rows = int(live.numbers("row_count").sum())
    if partitions > MANY_PARTITIONS and rows < partitions * SMALL_PARTITION_ROWS:
        message = f"{plural(partitions, 'partition')} hold {plural(rows // partitions, 'row')} each on average"
        remedy = (
            f"a coarser partition column than {', '.join(ctx.schema.partition_keys)}: files never hold rows of two "
            "partitions"
        )
        notes.better("partitions are small", message, field="partitionKeys", remedy=remedy)
