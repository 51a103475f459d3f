"""Split of a big merge into key ranges, so that its memory has a bound: the option `lakekit.merge-memory`."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from lakekit.codec import binary_row
from lakekit.columns import col, cols
from lakekit.data_file.reader import scan_files, translate_polars_errors
from lakekit.format.polars_types import polars_schema
from lakekit.lsm import sorted_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakekit.bucket.merge_read import MergeTask
    from lakekit.lsm.sorted_runs import KeyRange
    from lakekit.metadata.table_context import TableContext
    from lakekit.types import DataType, Field

DECODED_RATIO = 6
"""About how many bytes of memory a byte of a compressed data file takes in a merge: measured on ten mixed columns."""


_BYTES = {
    "BOOLEAN": 1,
    "TINYINT": 1,
    "SMALLINT": 2,
    "INT": 4,
    "FLOAT": 4,
    "DATE": 4,
    "BIGINT": 8,
    "DOUBLE": 8,
    "TIME": 8,
    "TIMESTAMP": 8,
    "TIMESTAMP_LTZ": 8,
}
_TEXT_BYTES = 24
"""The bytes of a text's slot and of a short text; a decimal takes less."""
_MOST_PIECES = 1 << 16
"""The most pieces: wrong sizes and row counts in metadata, which reading detects, must not make a longer list."""
_PER_SLICE = 1000
"""How many keys are sampled for each slice."""


def decoded_bytes(task: MergeTask) -> int:
    """Return about how much memory all rows of the task's files take."""
    return sum(file.size_bytes for file in task.files) * DECODED_RATIO


def row_bytes(fields: Iterable[Field]) -> int:
    """Return about how much memory a row takes uncompressed; texts and lists are assumed to be short."""
    return sum(_width(field.type) for field in fields)


def _width(t: DataType) -> int:
    inner = sum(_width(u) for u in (t.element, t.key, t.value, *(f.type for f in t.fields)) if u is not None)
    return inner or _BYTES.get(t.root, _TEXT_BYTES)


def split_by_key_range(task: MergeTask, weight_bytes: int | None = None) -> list[MergeTask]:
    """Split the task into key ranges, each with the files that reach into it; a small task stays whole.

    `weight_bytes` is how much memory all its rows take; None: estimated from the sizes of its files.
    """
    weight = decoded_bytes(task) if weight_bytes is None else weight_bytes
    pieces = min(_MOST_PIECES, -(-weight // max(1, task.ctx.options.lakekit_merge_memory_bytes)))
    if pieces <= 1:
        return [task]
    low = keys(task.ctx, [file.min_key for file in task.files])
    high = keys(task.ctx, [file.max_key for file in task.files])
    rows = np.array([file.row_count for file in task.files])
    ranges = sorted_runs.split_key_ranges(low, high, rows, -(-int(rows.sum()) // pieces))
    if (
        2 * len(ranges) <= pieces
        and weight_bytes is not None
        and not any(field.type.nullable for field in task.ctx.schema.key_fields)
    ):
        return _split_by_sample(task, pieces)
    return (
        [task]
        if len(ranges) < 2
        else [piece for key_range in ranges if (piece := _restrict_to_range(task, key_range, low, high)).files]
    )


def _split_by_sample(task: MergeTask, pieces: int) -> list[MergeTask]:
    """Split the task by the whole key, at quantiles of a sample of the files' keys.

    Used where the first key column has too few values to split between them.
    """
    fields = task.ctx.schema.key_fields
    step = max(1, sum(file.row_count for file in task.files) // (pieces * _PER_SLICE))
    names = [field.name for field in fields]
    with translate_polars_errors(task.ctx, task.paths):
        scan = scan_files(
            task.ctx, task.files, task.paths, fields, deletions=task.deletions, snapshot_id=task.snapshot_id
        )
        sample = scan.filter(*task.bounds).gather_every(step).collect().sort(cols(names))
    positions = np.arange(1, pieces) * sample.height // pieces
    cuts = sample[np.unique(positions)].unique(maintain_order=True) if sample.height else sample
    bounds = [None, *(_key_at_least(cuts[at]) for at in range(cuts.height)), None]
    return [replace(task, bounds=(*task.bounds, *_range_bounds(low, high))) for low, high in pairwise(bounds)]


def _key_at_least(key: pl.DataFrame) -> pl.Expr:
    """Return the condition for keys that do not sort before `key`."""
    *others, last = key.columns
    condition = col(last) >= pl.lit(key[last])
    for name in reversed(others):
        condition = (col(name) > pl.lit(key[name])) | ((col(name) == pl.lit(key[name])) & condition)
    return condition


def _range_bounds(low: pl.Expr | None, high: pl.Expr | None) -> list[pl.Expr]:
    return [*([] if low is None else [low]), *([] if high is None else [~high])]


def keys(ctx: TableContext, rows: Sequence[bytes]) -> pl.DataFrame:
    """Decode serialized keys to columns with the table's names."""
    fields = ctx.schema.key_fields
    decoded = binary_row.decode_columns(pa.array(rows, pa.binary()), [field.type for field in fields])
    types = polars_schema(fields)
    return pl.DataFrame(
        [pl.Series(field.name, values).cast(types[field.name]) for field, values in zip(fields, decoded, strict=True)]
    )


def _restrict_to_range(task: MergeTask, key_range: KeyRange, low: pl.DataFrame, high: pl.DataFrame) -> MergeTask:
    """Return the task for one key range."""
    reach = pl.DataFrame([low[key_range.column].alias("low"), high[key_range.column].alias("high")])
    conditions = [pl.lit(True)]
    if key_range.low is not None:
        conditions.append(pl.col("high") >= key_range.low)
    if key_range.high is not None:
        conditions.append(pl.col("low") < key_range.high)
    inside = reach.select(pl.all_horizontal(conditions).fill_null(value=True)).to_series().to_numpy()
    indices = np.flatnonzero(inside)
    expr = key_range.expr()
    return replace(
        task,
        files=tuple(task.files[at] for at in indices),
        paths=tuple(task.paths[at] for at in indices),
        bounds=() if expr is None else (expr,),
    )
