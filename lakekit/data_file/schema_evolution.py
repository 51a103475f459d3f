"""Conversion of a file's columns to today's schema, and partition values that files lack.

    file's schema   a INT (0), b STRING (1), r ROW<x INT (3), y STRING (4)> (2)
    wanted          bb STRING (1), a BIGINT (0), r ROW<y STRING (4), z DOUBLE (9)> (2), c INT (5)

    bb = b          renamed: found by its id                 r = {y: r.y, z: null}     parts of a ROW by their ids too
    a  = cast(a)    a type change, by Java's rules           c = null                  added later

A column that was dropped and added again under its name has another id: the old values stay invisible.

    dt=2024-01-01/bucket-0/data-….parquet      k, v and no dt: the directory has its value

Files that another engine laid into directories, and a migration adopted as they were, may lack partition columns; files
that Paimon writes hold every column. The statistics of a file that may lack one show it: they count nothing of it, or
nulls where its directory means a value. Then a null is replaced by the directory's value; no file is opened to find
out. Files of key tables always hold all columns, with the values of their directories, except where keys move between
partitions under aggregation: there the partition column is aggregated as any other, and once retracted, added up or
listed it differs from the partition of its row. Then the directory counts.

Source: FORMAT.md 1.4, 2.6, ENGINE.md 6.8; `PartitionInfo`, by which the reference never reads a partition column from a
file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from lakekit.codec import binary_row
from lakekit.columns import col, struct_field
from lakekit.errors import Unsupported
from lakekit.format import casts
from lakekit.format.polars_types import polars_type
from lakekit.metadata import schemas
from lakekit.model import partition as partitions
from lakekit.types import DataType, part

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lakekit.errors import ValueOutOfRange
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.types import Field

    Told = Callable[[ValueOutOfRange], ValueOutOfRange]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaEvolution:
    """How to read one schema's files for some wanted columns.

    `file_fields` are the columns to read, under the names and types the files were written with (a wanted column that
    the files cannot have is listed too, and comes as nulls). `columns` computes the wanted columns from them, in order.
    Files of different schemas whose `signature` is equal are read alike. `columns_with_errors` makes `columns` whose
    errors say more than the column: None if no type has changed. `variants` are those of `file_fields` that a file
    may hold in columns of their own: a VARIANT at any depth, and a MAP.
    """

    file_fields: tuple[Field, ...]
    columns: tuple[pl.Expr, ...]
    signature: tuple[tuple[str, DataType], ...]
    is_plain: bool
    columns_with_errors: Callable[[Told], tuple[pl.Expr, ...]] | None = None
    variants: tuple[Field, ...] = ()


def build_evolution(
    target_fields: Sequence[Field], schema: Sequence[Field], *, timestamp_unit: str | None = None, zone: str = "UTC"
) -> SchemaEvolution:
    """Return the evolution from a file's columns `schema` to the columns `target_fields`.

    `zone` is that of casts between TIMESTAMP and LTZ.

    Raises:
        Unsupported: a type was changed in a way that Paimon forbids.
    """
    return _build_evolution(tuple(target_fields), tuple(schema), timestamp_unit, zone)


@lru_cache(maxsize=1024)
def _build_evolution(
    target_fields: tuple[Field, ...], schema: tuple[Field, ...], timestamp_unit: str | None, zone: str
) -> SchemaEvolution:
    by_id, names = {f.id: f for f in schema}, {f.name for f in schema}
    # a column no file of this schema has is read all the same, and comes as nulls, unless its name is that of another,
    # older column
    candidates = ((want, by_id.get(want.id) or (None if want.name in names else want)) for want in target_fields)
    pairs = tuple(
        (want, None if have is None or is_dropped_part(have.type, want.type) else have) for want, have in candidates
    )
    file_columns = {have.name: have for _, have in pairs if have is not None}
    casts_some = any(have is not None and not is_same_type(have.type, want.type) for want, have in pairs)
    make = partial(_evolve_columns, pairs, timestamp_unit, zone)
    return SchemaEvolution(
        file_fields=tuple(file_columns.values()),
        columns=make(None),
        signature=tuple((f.name, _without_nullability(f.type)) for f in file_columns.values()),
        is_plain=not casts_some and all(have is not None and have.name == want.name for want, have in pairs),
        columns_with_errors=make if casts_some else None,
        variants=tuple(f for f in file_columns.values() if f.type.root == "MAP" or f.type.holds(("VARIANT",))),
    )


def _evolve_columns(
    pairs: Sequence[tuple[Field, Field | None]], timestamp_unit: str | None, zone: str, add_file: Told | None
) -> tuple[pl.Expr, ...]:
    """Return the wanted column of each pair, computed from the one that the files have."""
    columns = []
    for want, have in pairs:
        if have is None:
            column = pl.lit(None, polars_type(want.type, timestamp_unit=timestamp_unit))
        else:
            target = casts.CastTarget(
                column=want.name, timestamp_unit=timestamp_unit, zone=zone, convert_error=add_file
            )
            column = evolve_column(col(have.name), have.type, want.type, target)
        columns.append(column.alias(want.name))
    return tuple(columns)


def evolve_column(column: pl.Expr, file_type: DataType, result_type: DataType, target: casts.CastTarget) -> pl.Expr:
    """Convert `column` of type `file_type` to `result_type`."""
    if is_same_type(file_type, result_type):
        return column
    if is_dropped_part(file_type, result_type):
        dtype = polars_type(result_type, timestamp_unit=target.timestamp_unit)
        return column.map_batches(partial(_null_series, dtype=dtype), return_dtype=dtype, is_elementwise=True)
    match file_type.root, result_type.root:
        case "ROW", "ROW":
            by_id, parts = {f.id: f for f in file_type.fields}, []
            for f in result_type.fields:
                have = by_id.get(f.id)
                if have is None or is_dropped_part(have.type, f.type):
                    value = pl.lit(None, polars_type(f.type, timestamp_unit=target.timestamp_unit))
                else:
                    value = evolve_column(struct_field(column, have.name), have.type, f.type, target)
                parts.append(value.alias(f.name))
            return pl.when(column.is_not_null()).then(pl.struct(parts))
        case "ARRAY", "ARRAY":
            return column.list.eval(
                evolve_column(pl.element(), part(file_type.element), part(result_type.element), target)
            )
        case "MAP", "MAP":
            if not is_same_type(part(file_type.key), part(result_type.key)):
                raise Unsupported(
                    f"the keys of map column {target.column} changed from {file_type.key} to {result_type.key}",
                    feature="schema.map-key-change",
                )
            value = evolve_column(
                pl.element().struct.field("value"), part(file_type.value), part(result_type.value), target
            )
            return column.list.eval(pl.struct(pl.element().struct.field("key").alias("key"), value.alias("value")))
    return casts.cast(column, file_type, result_type, target)


def is_dropped_part(file_type: DataType, result_type: DataType) -> bool:
    """Return whether no part of what a file holds is wanted, so that the column is null.

    So it is where none of the parts of a ROW, or of the ROWs in a list or a map, is still a part of it. The engine
    leaves such a column, or such a part of a ROW, out of what it reads. Source: `FormatReaderMapping.pruneDataType`.
    """
    match file_type.root, result_type.root:
        case "ROW", "ROW":
            by_id = {f.id: f for f in file_type.fields}
            return bool(file_type.fields) and not any(
                f.id in by_id and not is_dropped_part(by_id[f.id].type, f.type) for f in result_type.fields
            )
        case "ARRAY", "ARRAY":
            return is_dropped_part(part(file_type.element), part(result_type.element))
        case "MAP", "MAP":
            return is_dropped_part(part(file_type.value), part(result_type.value))
    return False


def _null_series(rows: pl.Series, *, dtype: pl.DataType) -> pl.Series:
    return pl.Series(rows.name, [None], dtype=dtype).new_from_index(0, len(rows))


def is_same_type(a: DataType, b: DataType) -> bool:
    """Return whether values of type `a` are values of type `b`, part by part.

    Nullability does not count, names and ids of a ROW's parts do.
    """
    if (a.root, a.length, a.precision, a.scale, len(a.fields)) != (
        b.root,
        b.length,
        b.precision,
        b.scale,
        len(b.fields),
    ):
        return False
    sides = ((a.element, b.element), (a.key, b.key), (a.value, b.value))
    if any(x is not None and y is not None and not is_same_type(x, y) for x, y in sides):
        return False
    return all(
        x.name == y.name and x.id == y.id and is_same_type(x.type, y.type)
        for x, y in zip(a.fields, b.fields, strict=True)
    )


def _without_nullability(t: DataType) -> DataType:
    """Return the type without nullability, which does not change how a file is read."""
    return t.as_nullable()


# ---- partition columns that files lack ---------------------------------


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
    """Return which of the files at `paths` may lack one of these partition columns or hold other values in it."""
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
        null_counts.get(name) == 0
        or (null_counts.get(name) is not None and _path_value_text(ctx, path, name) == default_name)
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
        fill, return_dtype=_polars_type_of(ctx, field), is_elementwise=True
    )


def _polars_type_of(ctx: TableContext, field: Field) -> pl.DataType:
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
    texts = [_path_value_text(ctx, path, field.name) for path in paths]
    default_name = ctx.options.partition_default_name
    values = [partitions.parse_partition([text], [field.type], default_name=default_name) for text in texts]
    rows = pa.array(
        [binary_row.with_arity(binary_row.encode_row(value, [field.type.as_nullable()]), 1) for value in values],
        pa.binary(),
    )
    [column] = binary_row.decode_columns(rows, [field.type.as_nullable()])
    return pl.Series(field.name, column).cast(_polars_type_of(ctx, field))


def _path_value_text(ctx: TableContext, path: str, name: str) -> str:
    """Return the value of a partition column in the directory of a file, as text."""
    keys = ctx.schema.partition_keys
    return partitions.unescape_name(path.split("/")[-2 - len(keys) + keys.index(name)].partition("=")[2])
