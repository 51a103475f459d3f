"""Check the statistics of a data file against its rows: no value outside the bounds, null counts exact.

Bytes and nested columns have no bounds, only null counts, and a NaN bounds nothing; ORC pads CHAR with blanks in its
bounds, rows come trimmed.
Source: FORMAT.md 7.7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from lakekit.codec import binary_row
from lakekit.draw.humanize import format_count
from lakekit.errors import LakekitError
from lakekit.format.polars_types import polars_type
from lakekit.format.told import has_bounds
from lakekit.maintenance.check.findings import format_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta, Stats
    from lakekit.types import Field

Discrepancy = tuple[str, str]
"""The field of the manifest entry, and what is wrong with it."""


def false_of_values(ctx: TableContext, file: DataFileMeta, frame: pl.DataFrame) -> Iterator[Discrepancy]:
    """Yield what is false in the key and value statistics of a file.

    `ctx` has the file's own schema.
    """
    schema = ctx.schema
    if schema.primary_keys:
        yield from _find_false_stats(file.key_stats, schema.key_fields, frame, "_KEY_STATS")
    by_name = {field.name: field for field in schema.fields}
    names = (
        file.value_stats_cols
        if file.value_stats_cols is not None
        else file.write_cols
        if file.write_cols is not None
        else tuple(by_name)
    )
    if all(name in by_name for name in names):
        yield from _find_false_stats(file.value_stats, [by_name[name] for name in names], frame, "_VALUE_STATS")


def _find_false_stats(stats: Stats, fields: Sequence[Field], frame: pl.DataFrame, where: str) -> Iterator[Discrepancy]:
    bounded = [i for i, field in enumerate(fields) if has_bounds(field.type)]
    types = [field.type for field in fields]
    ends: list[list[pa.Array]] = []
    try:
        if all(binary_row.strip_arity(row)[0] == len(fields) for row in (stats.min_values, stats.max_values)):
            ends = [
                binary_row.decode_columns(pa.array([row], pa.binary()), types, only=bounded)
                for row in (stats.min_values, stats.max_values)
            ]
    except LakekitError as damaged:  # of the manifest's entry: the file may be whole
        yield where, f"the bounds in the manifest cannot be read: {damaged.message}"
    for i, low, high in zip(bounded, *ends, strict=True) if ends else ():
        yield from _find_passed_bounds(fields[i], frame[fields[i].name], low, high, where)
    for field, nulls in zip(fields, stats.null_counts or (), strict=False):
        if (
            nulls is not None
            and nulls >= 0
            and field.type.root != "VARIANT"
            and (null_count := frame[field.name].null_count()) != nulls
        ):
            yield (
                f"{where}.{field.name}",
                f"{format_count(null_count)} values are null, the manifest says {format_count(nulls)}",
            )


def _find_passed_bounds(
    field: Field, column: pl.Series, low: pa.Array, high: pa.Array, where: str
) -> Iterator[Discrepancy]:
    dtype = polars_type(field.type)
    least, most = (pl.Series(bound).cast(dtype) for bound in (low, high))
    values = column.cast(dtype) if column.dtype != dtype else column
    if dtype.is_float():
        least, most, values = (series.fill_nan(None) for series in (least, most, values))
    if field.type.root == "CHAR":
        least, most, values = (series.str.strip_chars_end(" ") for series in (least, most, values))
    if not least.null_count() and (values < least).any():
        yield (
            f"{where}.{field.name}",
            (
                f"the smallest value is {format_value(values, values.arg_min() or 0)}, the manifest says "
                f"{format_value(least, 0)}"
            ),
        )
    if not most.null_count() and (values > most).any():
        yield (
            f"{where}.{field.name}",
            (
                f"the greatest value is {format_value(values, values.arg_max() or 0)}, the manifest says "
                f"{format_value(most, 0)}"
            ),
        )
