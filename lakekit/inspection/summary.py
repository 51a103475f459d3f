"""Summaries of a frame of data files in one line: how many there are, how much a read has to merge."""

from __future__ import annotations

import polars as pl

from lakekit.draw import humanize

_MANY_RUNS = 5
"""The number of sorted runs in a bucket above which compaction is mentioned: Paimon's own compaction starts there by
default.
"""


def totals(files: pl.DataFrame) -> str:
    """Return how many files there are, their size, and how many rows are stored in them."""
    size_bytes, row_count = (int(files[name].sum()) for name in ("size_bytes", "row_count"))
    return (
        f"{humanize.plural(files.height, 'file')}, {humanize.format_size(size_bytes)}, "
        f"{humanize.plural(row_count, 'stored row')}"
    )


def health(files: pl.DataFrame) -> str:
    """Return how many sorted runs a read has to merge: level 0 counts by file, deeper levels once."""
    if files.is_empty():
        return "no files"
    of_bucket = files.group_by("partition", "bucket").agg(
        (pl.col("level") == 0).sum().alias("files"), pl.col("level").filter(pl.col("level") > 0).n_unique()
    )
    many = max(of_bucket["files"] + of_bucket["level"])
    advice = "compaction would make reads faster" if many > _MANY_RUNS else "reads have little to merge"
    return f"{humanize.plural(many, 'sorted run')} in the fullest bucket: {advice}"
