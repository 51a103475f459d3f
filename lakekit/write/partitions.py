"""The partition of each row: the distinct partitions as manifests serialize them, and a code a row.

    dt 19723, 19724, 19723   ->   partitions (00000001 00…, 00000001 00…) · codes [0, 1, 0]

Source: ENGINE.md 1.1 step 5; `InternalRowPartitionComputer`, `BinaryRow`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from lakekit.codec import binary_row
from lakekit.columns import CODE, ROW, col, cols
from lakekit.data_file.paths import partition_values
from lakekit.errors import ValueOutOfRange
from lakekit.model.partition import text
from lakekit.model.partition_time import time_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.types import Field


class Partitions(NamedTuple):
    """The distinct partitions of rows, in order of appearance, and the index of each row's partition."""

    rows: tuple[bytes, ...]
    codes: NDArray[np.int64]


def encode_partitions(frame: pl.DataFrame, ctx: TableContext) -> Partitions:
    """Return the partitions of a frame's rows."""
    fields = ctx.schema.partition_fields
    if not fields:
        return Partitions((binary_row.EMPTY_WITH_ARITY,), np.zeros(frame.height, np.int64))
    distinct, codes = number_distinct_rows(frame.select(col(field.name) for field in fields))
    return Partitions(serialize_rows(distinct, fields), codes)


def number_distinct_rows(columns: pl.DataFrame) -> tuple[pl.DataFrame, NDArray[np.int64]]:
    """Return the distinct rows in order of appearance, and the index of each row among them.

    Zeros of either sign are two values, as their bytes are.
    """
    comparable = to_comparable_columns(columns)
    names = cols(columns.columns)
    first_rows = comparable.with_row_index(ROW).unique(names, keep="first", maintain_order=True)
    distinct = columns[first_rows[ROW]]
    if distinct.height == 1:
        return distinct, np.zeros(columns.height, np.int64)
    numbers = first_rows.select(names).with_row_index(CODE)
    codes = comparable.join(numbers, on=names, how="left", nulls_equal=True, maintain_order="left")[CODE]
    return distinct, codes.to_numpy().astype(np.int64)


def to_comparable_columns(columns: pl.DataFrame) -> pl.DataFrame:
    """Return the columns with floats as their bits, so that equal bytes compare equal."""
    return (
        columns
        if not any(dtype.is_float() for dtype in columns.dtypes)
        else columns.select(_to_comparable(column) for column in columns)
    )


def _to_comparable(column: pl.Series) -> pl.Series:
    if not column.dtype.is_float():
        return column
    bits = column.fill_null(0).to_numpy().view(np.int32 if column.dtype == pl.Float32 else np.int64)
    comparable = pl.Series(column.name, bits)
    return (
        comparable
        if not column.null_count()
        else comparable.to_frame().select(pl.when(column.is_not_null()).then(comparable).alias(column.name)).to_series()
    )


def check_times(ctx: TableContext, rows: Iterable[bytes]) -> None:
    """Raise `ValueOutOfRange` for a partition without a time, under `partition.timestamp-format.strict`."""
    options = ctx.options
    pattern, formatter = options.partition_timestamp_pattern, options.partition_timestamp_formatter
    if (
        not options.partition_timestamp_format_strict
        or (pattern is None and formatter is None)
        or not ctx.schema.partition_keys
    ):
        return
    names, types = ctx.schema.partition_keys, [field.type for field in ctx.schema.partition_fields]
    for row in rows:
        texts = text(partition_values(ctx, row), types, default_name=options.partition_default_name)
        if time_ms(names, texts, pattern=pattern, formatter=formatter) is None:
            partition_text = ", ".join(f"{name}={value}" for name, value in zip(names, texts, strict=True))
            raise ValueOutOfRange(
                f"partition {partition_text} of {ctx.name} says no time by partition.timestamp-pattern={pattern!r} "
                f"and partition.timestamp-formatter={formatter!r}, and partition.timestamp-format.strict wants one. "
                "Correct the values, or switch that option off",
                column=names[0],
            )


def serialize_rows(distinct: pl.DataFrame, fields: Sequence[Field]) -> tuple[bytes, ...]:
    """Rows as manifests hold them."""
    rows = binary_row.encode_columns(
        [distinct[field.name].to_arrow() for field in fields], [field.type for field in fields]
    )
    return tuple(binary_row.with_arity(row, len(fields)) for row in rows.to_pylist())  # scalar: one a partition
