"""A big merge cut into key ranges, so that its memory has a bound: the option `lakekit.merge-memory`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from lakekit.codec import binary_row
from lakekit.format.dtypes import polars_schema
from lakekit.lsm import runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.bucket.read import Merge
    from lakekit.lsm.runs import KeyRange
    from lakekit.meta.handle import Handle

DECODED = 6
"""About how many bytes of memory a byte of a compressed data file becomes while it is merged: measured on ten mixed columns."""


def decoded_bytes(task: Merge) -> int:
    """About how much memory all rows of its files take."""
    return sum(file.size_bytes for file in task.files) * DECODED


def cut(task: Merge) -> list[Merge]:
    """The task in slices of its key, each over the files that reach into it; the task itself where it is small enough."""
    pieces = -(-decoded_bytes(task) // max(1, task.handle.options.lakekit_merge_memory_bytes))
    if pieces <= 1:
        return [task]
    low = keys(task.handle, [file.min_key for file in task.files])
    high = keys(task.handle, [file.max_key for file in task.files])
    rows = np.array([file.row_count for file in task.files])
    ranges = runs.slices(low, high, rows, -(-int(rows.sum()) // pieces))
    return [task] if len(ranges) < 2 else [part for one in ranges if (part := _within(task, one, low, high)).files]


def keys(handle: Handle, rows: Sequence[bytes]) -> pl.DataFrame:
    """Serialized keys as columns under the table's names."""
    fields = handle.schema.key_fields
    decoded = binary_row.decode_columns(pa.array(rows, pa.binary()), [field.type for field in fields])
    types = polars_schema(fields)
    return pl.DataFrame([pl.Series(field.name, values).cast(types[field.name]) for field, values in zip(fields, decoded, strict=True)])


def _within(task: Merge, one: KeyRange, low: pl.DataFrame, high: pl.DataFrame) -> Merge:
    """The task for one key range."""
    reach = pl.DataFrame([low[one.column].alias("low"), high[one.column].alias("high")])
    conditions = [pl.lit(True)]
    if one.low is not None:
        conditions.append(pl.col("high") >= pl.lit(one.low, one.dtype))
    if one.high is not None:
        conditions.append(pl.col("low") < pl.lit(one.high, one.dtype))
    inside = reach.select(pl.all_horizontal(conditions).fill_null(value=True)).to_series().to_numpy()
    kept = np.flatnonzero(inside)
    expr = one.expr()
    return replace(
        task,
        files=tuple(task.files[at] for at in kept),
        paths=tuple(task.paths[at] for at in kept),
        bounds=() if expr is None else (expr,),
    )
