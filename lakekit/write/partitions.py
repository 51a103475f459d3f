"""The partition of each row: serialized as manifests hold it, once a distinct value, and a number for each row.

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
    """The distinct partitions of some rows, in the order they come, and for each row which of them is its own."""

    rows: tuple[bytes, ...]
    codes: NDArray[np.int64]


def encode_partitions(frame: pl.DataFrame, ctx: TableContext) -> Partitions:
    """The partitions of a frame's rows."""
    fields = ctx.schema.partition_fields
    if not fields:
        return Partitions((binary_row.EMPTY_WITH_ARITY,), np.zeros(frame.height, np.int64))
    distinct, codes = number_distinct_rows(frame.select(col(field.name) for field in fields))
    return Partitions(serialize_rows(distinct, fields), codes)


def number_distinct_rows(columns: pl.DataFrame) -> tuple[pl.DataFrame, NDArray[np.int64]]:
    """The distinct rows in the order they come, and which of them each row is. Zeros of either sign are two values, as their bytes are."""
    alike = to_comparable_columns(columns)
    names = cols(columns.columns)
    places = alike.with_row_index(ROW).unique(names, keep="first", maintain_order=True)
    found = columns[places[ROW]]
    if found.height == 1:
        return found, np.zeros(columns.height, np.int64)
    numbers = places.select(names).with_row_index(CODE)
    codes = alike.join(numbers, on=names, how="left", nulls_equal=True, maintain_order="left")[CODE]
    return found, codes.to_numpy().astype(np.int64)


def to_comparable_columns(columns: pl.DataFrame) -> pl.DataFrame:
    """The columns as they are told apart: floats by their bits."""
    return columns if not any(dtype.is_float() for dtype in columns.dtypes) else columns.select(_to_comparable(column) for column in columns)


def _to_comparable(column: pl.Series) -> pl.Series:
    if not column.dtype.is_float():
        return column
    bits = column.fill_null(0).to_numpy().view(np.int32 if column.dtype == pl.Float32 else np.int64)
    made = pl.Series(column.name, bits)
    return made if not column.null_count() else made.to_frame().select(pl.when(column.is_not_null()).then(made).alias(column.name)).to_series()


def check_times(ctx: TableContext, rows: Iterable[bytes]) -> None:
    """Raises `ValueOutOfRange` for a partition that says no time, where `partition.timestamp-format.strict` wants one."""
    options = ctx.options
    pattern, formatter = options.partition_timestamp_pattern, options.partition_timestamp_formatter
    if not options.partition_timestamp_format_strict or (pattern is None and formatter is None) or not ctx.schema.partition_keys:
        return
    names, types = ctx.schema.partition_keys, [field.type for field in ctx.schema.partition_fields]
    for row in rows:
        texts = text(partition_values(ctx, row), types, default_name=options.partition_default_name)
        if time_ms(names, texts, pattern=pattern, formatter=formatter) is None:
            shown = ", ".join(f"{name}={value}" for name, value in zip(names, texts, strict=True))
            raise ValueOutOfRange(
                f"partition {shown} of {ctx.name} says no time by partition.timestamp-pattern={pattern!r} and partition.timestamp-formatter={formatter!r}, "
                "and partition.timestamp-format.strict wants one. Correct the values, or switch that option off",
                column=names[0],
            )


def serialize_rows(distinct: pl.DataFrame, fields: Sequence[Field]) -> tuple[bytes, ...]:
    """Rows as manifests hold them."""
    rows = binary_row.encode_columns([distinct[field.name].to_arrow() for field in fields], [field.type for field in fields])
    return tuple(binary_row.with_arity(row, len(fields)) for row in rows.to_pylist())  # scalar: one a partition
