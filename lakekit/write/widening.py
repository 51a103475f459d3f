"""What a table would have to change to take some columns: `merge_schema=True` as plain facts, for whoever alters the schema.

    data {"k": Int64, "v": Int64, "note": String}, table {k BIGINT (key), v INT}   ->   WidenedColumn(("v",), INT, BIGINT), AddedColumn(("note",), STRING)

Added columns are nullable and come last. A type grows only to one that holds every value it held: integers, FLOAT to DOUBLE, decimals whose digits on both
sides grow, finer timestamps. Texts keep their length (a frame does not say how long its texts are). Columns of keys and partitions never change. What cannot
grow is left for `batches` to take by value, or to refuse. Source: ENGINE.md 1.5; `SchemaMergingUtils`, `SchemaManager`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from lakekit.format import polars_types
from lakekit.types import INTEGERS, TIMESTAMPS, DataType, part

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakekit.metadata.table_context import TableContext


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedColumn:
    """A column, or with a longer path a field of a ROW, that the table lacks."""

    path: tuple[str, ...]
    type: DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class WidenedColumn:
    """A column, or a part of one, whose type must grow from `held` to `type`; `element`, `key`, `value` in a path are parts of ARRAY and MAP."""

    path: tuple[str, ...]
    held: DataType
    type: DataType


ColumnChange = AddedColumn | WidenedColumn


def schema_changes(data_schema: Mapping[str, pl.DataType], ctx: TableContext, *, row_kind: str | None = None) -> list[ColumnChange]:
    """What to change, in the order of the data's columns. Raises `SchemaMismatch` for an added column of a type that Paimon has not."""
    fixed = {*ctx.schema.primary_keys, *ctx.schema.partition_keys}
    known = {field.name: field for field in ctx.schema.fields}
    found: list[ColumnChange] = []
    for name, dtype in data_schema.items():
        if name in known:
            found += [] if name in fixed else _find_changes((name,), known[name].type, dtype, ctx)
        elif name != row_kind:
            found.append(AddedColumn(path=(name,), type=polars_types.paimon_type(dtype, name)))
    return found


def _find_changes(path: tuple[str, ...], held: DataType, dtype: pl.DataType, ctx: TableContext) -> Iterator[ColumnChange]:
    if held.root == "ROW" and isinstance(dtype, pl.Struct):
        known = {field.name: field for field in held.fields}
        for field in dtype.fields:
            inner = (*path, field.name)
            if field.name in known:
                yield from _find_changes(inner, known[field.name].type, instance(field.dtype), ctx)
            else:
                yield AddedColumn(path=inner, type=polars_types.paimon_type(field.dtype, ".".join(inner)))
    elif held.root == "ARRAY" and isinstance(dtype, (pl.List, pl.Array)):
        yield from _find_changes((*path, "element"), part(held.element), instance(dtype.inner), ctx)
    elif held.root == "MAP" and isinstance(dtype, pl.Map):
        yield from _find_changes((*path, "value"), part(held.value), instance(dtype.value), ctx)
    elif not held.is_nested:
        wide = _widened_type(held, dtype)
        if wide is not None:
            yield WidenedColumn(path=path, held=held, type=wide)


def _widened_type(held: DataType, dtype: pl.DataType) -> DataType | None:
    """The type that holds the values of `held` and of `dtype`; None where that is `held` itself, or none."""
    if dtype.is_nested() or isinstance(dtype, (pl.Null, pl.Object)):
        return None
    own = polars_types.paimon_type(dtype)
    if held.root in INTEGERS and own.root in INTEGERS:
        return replace(held, root=own.root) if INTEGERS.index(own.root) > INTEGERS.index(held.root) else None
    if (held.root, own.root) == ("FLOAT", "DOUBLE"):
        return replace(held, root="DOUBLE")
    if held.root == own.root and held.root in TIMESTAMPS:
        precision = own.precision or 0
        return replace(held, precision=precision) if precision > (6 if held.precision is None else held.precision) else None
    if held.root == own.root == "DECIMAL":
        scale = max(held.scale or 0, own.scale or 0)
        whole = max((held.precision or 10) - (held.scale or 0), (own.precision or 10) - (own.scale or 0))
        grown = replace(held, precision=whole + scale, scale=scale)
        return grown if grown != held and whole + scale <= 38 else None
    return None


def instance(dtype: object) -> pl.DataType:
    """The Polars type of an inner type, which may be written as its class."""
    found = dtype() if isinstance(dtype, type) else dtype
    assert isinstance(found, pl.DataType)
    return found
