"""A big merge cut into key ranges, so that its memory has a bound: the option `lakekit.merge-memory`."""

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
"""About how many bytes of memory a byte of a compressed data file becomes while it is merged: measured on ten mixed columns."""


_BYTES = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "FLOAT": 4, "DATE": 4, "BIGINT": 8, "DOUBLE": 8, "TIME": 8, "TIMESTAMP": 8, "TIMESTAMP_LTZ": 8}
_TEXT_BYTES = 24
"""A text's slot and a few bytes; a decimal is less."""
_MOST_PIECES = 1 << 16
"""More pieces than any bucket is cut into: of wrong sizes and row counts, which reading finds out, no list is made as long as they say."""
_PER_SLICE = 1000
"""How many keys are looked at to cut one slice."""


def decoded_bytes(task: MergeTask) -> int:
    """About how much memory all rows of its files take."""
    return sum(file.size_bytes for file in task.files) * DECODED_RATIO


def row_bytes(fields: Iterable[Field]) -> int:
    """About how much memory a row takes, however well it is compressed: texts and lists are taken for short ones."""
    return sum(_width(field.type) for field in fields)


def _width(t: DataType) -> int:
    inner = sum(_width(u) for u in (t.element, t.key, t.value, *(f.type for f in t.fields)) if u is not None)
    return inner or _BYTES.get(t.root, _TEXT_BYTES)


def split_by_key_range(task: MergeTask, weight_bytes: int | None = None) -> list[MergeTask]:
    """The task in slices of its key, each over the files that reach into it; the task itself where it is small enough.

    `weight_bytes` says how much memory all its rows take; None: what its files' sizes tell.
    """
    weight = decoded_bytes(task) if weight_bytes is None else weight_bytes
    pieces = min(_MOST_PIECES, -(-weight // max(1, task.ctx.options.lakekit_merge_memory_bytes)))
    if pieces <= 1:
        return [task]
    low = keys(task.ctx, [file.min_key for file in task.files])
    high = keys(task.ctx, [file.max_key for file in task.files])
    rows = np.array([file.row_count for file in task.files])
    ranges = sorted_runs.split_key_ranges(low, high, rows, -(-int(rows.sum()) // pieces))
    if 2 * len(ranges) <= pieces and weight_bytes is not None and not any(field.type.nullable for field in task.ctx.schema.key_fields):
        return _split_by_sample(task, pieces)
    return [task] if len(ranges) < 2 else [part for one in ranges if (part := _restrict_to_range(task, one, low, high)).files]


def _split_by_sample(task: MergeTask, pieces: int) -> list[MergeTask]:
    """Slices by the whole key, where its first column has too few values to cut between: every so many keys of the files tell where."""
    fields = task.ctx.schema.key_fields
    every = max(1, sum(file.row_count for file in task.files) // (pieces * _PER_SLICE))
    names = [field.name for field in fields]
    with translate_polars_errors(task.ctx, task.paths):
        scan = scan_files(task.ctx, task.files, task.paths, fields, deletions=task.deletions, snapshot_id=task.snapshot_id)
        found = scan.filter(*task.bounds).gather_every(every).collect().sort(cols(names))
    places = np.arange(1, pieces) * found.height // pieces
    cuts = found[np.unique(places)].unique(maintain_order=True) if found.height else found
    bounds = [None, *(_key_at_least(cuts[at]) for at in range(cuts.height)), None]
    return [replace(task, bounds=(*task.bounds, *_range_bounds(low, high))) for low, high in pairwise(bounds)]


def _key_at_least(key: pl.DataFrame) -> pl.Expr:
    """Keys that do not come before one."""
    *others, last = key.columns
    found = col(last) >= pl.lit(key[last])
    for name in reversed(others):
        found = (col(name) > pl.lit(key[name])) | ((col(name) == pl.lit(key[name])) & found)
    return found


def _range_bounds(low: pl.Expr | None, high: pl.Expr | None) -> list[pl.Expr]:
    return [*([] if low is None else [low]), *([] if high is None else [~high])]


def keys(ctx: TableContext, rows: Sequence[bytes]) -> pl.DataFrame:
    """Serialized keys as columns under the table's names."""
    fields = ctx.schema.key_fields
    decoded = binary_row.decode_columns(pa.array(rows, pa.binary()), [field.type for field in fields])
    types = polars_schema(fields)
    return pl.DataFrame([pl.Series(field.name, values).cast(types[field.name]) for field, values in zip(fields, decoded, strict=True)])


def _restrict_to_range(task: MergeTask, one: KeyRange, low: pl.DataFrame, high: pl.DataFrame) -> MergeTask:
    """The task for one key range."""
    reach = pl.DataFrame([low[one.column].alias("low"), high[one.column].alias("high")])
    conditions = [pl.lit(True)]
    if one.low is not None:
        conditions.append(pl.col("high") >= one.low)
    if one.high is not None:
        conditions.append(pl.col("low") < one.high)
    inside = reach.select(pl.all_horizontal(conditions).fill_null(value=True)).to_series().to_numpy()
    kept = np.flatnonzero(inside)
    expr = one.expr()
    return replace(
        task,
        files=tuple(task.files[at] for at in kept),
        paths=tuple(task.paths[at] for at in kept),
        bounds=() if expr is None else (expr,),
    )
