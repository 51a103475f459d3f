"""Partition columns that data files do not hold: files that another engine laid into folders, and a migration took over as they were.

    dt=2024-01-01/bucket-0/data-….parquet      k, v and no dt: the folder says it

Files that Paimon writes hold every column. Of one that may lack a partition column the statistics say so: they count nothing of it, or nulls where its folder
means a value. Then a null is what the folder says; no file is opened to find out. Files of key tables are always whole, and say what their folders say, except
where keys move between partitions under aggregation: there the partition column is aggregated as any other, and retracted, added up or listed it is no more
where its row lies. Then the folder counts.

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
    """Those of some columns that files may lack: partition columns of an append table, and those that an aggregation may have made into something else."""
    keys = ctx.schema.partition_keys
    return tuple(field for field in fields if field.name in keys) if keys and (not ctx.schema.primary_keys or _is_aggregated(ctx)) else ()


def _is_aggregated(ctx: TableContext) -> bool:
    """Whether partition columns are values that files aggregate."""
    return ctx.schema.cross_partition and ctx.options.merge_engine == "aggregation"


def may_lack_columns(ctx: TableContext, files: Sequence[DataFileMeta], paths: Sequence[str], fields: Sequence[Field]) -> list[bool]:
    """Which files may lack one of these partition columns, or hold it otherwise: `paths` are where they lie."""
    if _is_aggregated(ctx):
        return [True] * len(files)
    names_of: dict[int, tuple[str, ...]] = {}
    wanted = {field.id for field in fields}
    found = []
    for file, path in zip(files, paths, strict=True):  # scalar: one a file
        if file.schema_id not in names_of:
            written = schemas.schema_of_file(ctx, file.schema_id)
            names_of[file.schema_id] = tuple(field.name if field.id in wanted else "" for field in written.fields)
        found.append(not _has_complete_values(ctx, file, path, names_of[file.schema_id]))
    return found


def _has_complete_values(ctx: TableContext, file: DataFileMeta, path: str, names: Sequence[str]) -> bool:
    """Whether a file's statistics tell of all these columns, and count no null where the folder means a value; names of others are empty."""
    counts = file.value_stats.null_counts or ()
    of_columns = names if file.value_stats_cols is None else file.value_stats_cols
    if len(counts) != len(of_columns):
        return False
    known = dict(zip(of_columns, counts, strict=True))
    nothing = ctx.options.partition_default_name
    return all(known.get(name) == 0 or (known.get(name) is not None and _text(ctx, path, name) == nothing) for name in names if name)


def fill_from_path(ctx: TableContext, field: Field, column: pl.Expr, sources: Mapping[str, str], source_column: str | None) -> pl.Expr:
    """A partition column with what folders say in place of nulls, or, of aggregated ones, in place of everything.

    `sources`: whole paths of files by what `source_column` holds of them; None: the files are all of one folder.
    """
    if source_column is None:
        [value] = _parse_path_values(ctx, field, list(sources.values())[:1])
        said = pl.lit(value, polars_type(field.type))
        return said if _is_aggregated(ctx) else pl.coalesce(column, said)
    fill = partial(_fill_rows, ctx=ctx, field=field, sources=sources)
    return pl.struct(column.alias("value"), col(source_column).alias("source")).map_batches(fill, return_dtype=_dtype(ctx, field), is_elementwise=True)


def _dtype(ctx: TableContext, field: Field) -> pl.DataType:
    return polars_type(field.type, timestamp_unit=ctx.options.lakekit_timestamp_unit)


def _fill_rows(rows: pl.Series, *, ctx: TableContext, field: Field, sources: Mapping[str, str]) -> pl.Series:
    column = rows.struct.field("value")
    if not column.null_count() and not _is_aggregated(ctx):
        return column.alias(field.name)
    source = rows.struct.field("source")
    known = source.unique(maintain_order=True)
    said = source.replace_strict(
        known, _parse_path_values(ctx, field, [sources[one] for one in known.to_list()]), return_dtype=column.dtype
    )  # scalar: one a file
    return (said if _is_aggregated(ctx) else column.zip_with(column.is_not_null(), said)).alias(field.name)


def _parse_path_values(ctx: TableContext, field: Field, paths: Sequence[str]) -> pl.Series:
    """What the folders of some files say of a partition column."""
    texts = [_text(ctx, path, field.name) for path in paths]
    nothing = ctx.options.partition_default_name
    values = [partitions.parse([text], [field.type], default_name=nothing) for text in texts]
    rows = pa.array([binary_row.with_arity(binary_row.encode(value, [field.type.as_nullable()]), 1) for value in values], pa.binary())
    [column] = binary_row.decode_columns(rows, [field.type.as_nullable()])
    return pl.Series(field.name, column).cast(_dtype(ctx, field))


def _text(ctx: TableContext, path: str, name: str) -> str:
    """What the folder of a file says of a partition column, as text."""
    keys = ctx.schema.partition_keys
    return partitions.unescape(path.split("/")[-2 - len(keys) + keys.index(name)].partition("=")[2])
