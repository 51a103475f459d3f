"""Fill partition columns that data files lack from their directory names.

    dt=2024-01-01/bucket-0/data-….parquet      k, v and no dt: the directory has its value

Such files were laid into directories by another engine, and a migration adopted them as they were. Files that Paimon
writes hold every column. The statistics of a file that may lack a partition column show it: they count nothing of it,
or nulls where its directory means a value. Then a null is replaced by the directory's value; no file is opened to find
out. Files of key tables always hold all columns, with the values of their directories, except where keys move between
partitions under aggregation: there the partition column is aggregated as any other, and once retracted, added up or
listed it differs from the partition of its row. Then the directory counts.

Source: FORMAT.md 1.4; `PartitionInfo`, by which the reference never reads a partition column from a file.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from lakekit.codec import binary_row
from lakekit.columns import col
from lakekit.format.polars_types import polars_type
from lakekit.metadata import schemas
from lakekit.model import partition as partitions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.types import Field


def select_possibly_missing(ctx: TableContext, fields: Sequence[Field]) -> tuple[Field, ...]:
    """Return the columns that files may lack, or hold with other values than their partition.

    These are partition columns of append tables, and partition columns that an aggregation may have changed.
    """
    keys = ctx.schema.partition_keys
    return (
        tuple(field for field in fields if field.name in keys)
        if keys and (not ctx.schema.primary_keys or _is_aggregated(ctx))
        else ()
    )


def _is_aggregated(ctx: TableContext) -> bool:
    """Return whether partition columns are values that files aggregate."""
    return ctx.schema.cross_partition and ctx.options.merge_engine == "aggregation"


def may_lack_columns(
    ctx: TableContext, files: Sequence[DataFileMeta], paths: Sequence[str], fields: Sequence[Field]
) -> list[bool]:
    """Return which of the files at `paths` may lack one of these partition columns, or hold it otherwise."""
    if _is_aggregated(ctx):
        return [True] * len(files)
    names_of: dict[int, tuple[str, ...]] = {}
    field_ids = {field.id for field in fields}
    may_lack = []
    for file, path in zip(files, paths, strict=True):  # scalar: one a file
        if file.schema_id not in names_of:
            written = schemas.schema_of_file(ctx, file.schema_id)
            names_of[file.schema_id] = tuple(field.name if field.id in field_ids else "" for field in written.fields)
        may_lack.append(not _has_complete_values(ctx, file, path, names_of[file.schema_id]))
    return may_lack


def _has_complete_values(ctx: TableContext, file: DataFileMeta, path: str, names: Sequence[str]) -> bool:
    """Return whether a file's statistics cover all these columns, without nulls for directory values.

    An empty name stands for a column that is not requested.
    """
    counts = file.value_stats.null_counts or ()
    of_columns = names if file.value_stats_cols is None else file.value_stats_cols
    if len(counts) != len(of_columns):
        return False
    null_counts = dict(zip(of_columns, counts, strict=True))
    default_name = ctx.options.partition_default_name
    return all(
        null_counts.get(name) == 0 or (null_counts.get(name) is not None and _text(ctx, path, name) == default_name)
        for name in names
        if name
    )


def fill_from_path(
    ctx: TableContext, field: Field, column: pl.Expr, sources: Mapping[str, str], source_column: str | None
) -> pl.Expr:
    """Return a partition column with directory values in place of nulls or, if aggregated, of all values.

    `sources`: full paths of files by their value of `source_column`; without that column all files are in one
    directory.
    """
    if source_column is None:
        [value] = _parse_path_values(ctx, field, list(sources.values())[:1])
        path_value = pl.lit(value, polars_type(field.type))
        return path_value if _is_aggregated(ctx) else pl.coalesce(column, path_value)
    fill = partial(_fill_rows, ctx=ctx, field=field, sources=sources)
    return pl.struct(column.alias("value"), col(source_column).alias("source")).map_batches(
        fill, return_dtype=_dtype(ctx, field), is_elementwise=True
    )


def _dtype(ctx: TableContext, field: Field) -> pl.DataType:
    return polars_type(field.type, timestamp_unit=ctx.options.lakekit_timestamp_unit)


def _fill_rows(rows: pl.Series, *, ctx: TableContext, field: Field, sources: Mapping[str, str]) -> pl.Series:
    column = rows.struct.field("value")
    if not column.null_count() and not _is_aggregated(ctx):
        return column.alias(field.name)
    source = rows.struct.field("source")
    distinct = source.unique(maintain_order=True)
    path_values = source.replace_strict(
        distinct,
        _parse_path_values(ctx, field, [sources[name] for name in distinct.to_list()]),
        return_dtype=column.dtype,
    )  # scalar: one a file
    return (path_values if _is_aggregated(ctx) else column.zip_with(column.is_not_null(), path_values)).alias(
        field.name
    )


def _parse_path_values(ctx: TableContext, field: Field, paths: Sequence[str]) -> pl.Series:
    """Return the values of a partition column in the directories of some files."""
    texts = [_text(ctx, path, field.name) for path in paths]
    default_name = ctx.options.partition_default_name
    values = [partitions.parse([text], [field.type], default_name=default_name) for text in texts]
    rows = pa.array(
        [binary_row.with_arity(binary_row.encode(value, [field.type.as_nullable()]), 1) for value in values],
        pa.binary(),
    )
    [column] = binary_row.decode_columns(rows, [field.type.as_nullable()])
    return pl.Series(field.name, column).cast(_dtype(ctx, field))


def _text(ctx: TableContext, path: str, name: str) -> str:
    """Return the value of a partition column in the directory of a file, as text."""
    keys = ctx.schema.partition_keys
    return partitions.unescape(path.split("/")[-2 - len(keys) + keys.index(name)].partition("=")[2])
