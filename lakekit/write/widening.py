"""Schema changes that a table needs for some columns (`merge_schema=True`), as values.

    data {"k": Int64, "v": Int64, "note": String}, table {k BIGINT (key), v INT}
        ->   WidenedColumn(("v",), INT, BIGINT), AddedColumn(("note",), STRING)

Added columns are nullable and come last. A type grows only to one that holds every value of the old: integers, FLOAT to
DOUBLE, decimals whose digits on both sides grow, finer timestamps. Texts keep their length (a frame does not say how
long its texts are). Columns of keys and partitions never change. What cannot grow is left for `batches` to convert by
value, or to refuse. Source: ENGINE.md 1.5; `SchemaMergingUtils`, `SchemaManager`.
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
    """A column, or a part of one, whose type must grow from `held` to `type`.

    `element`, `key` and `value` in a path are parts of ARRAY and MAP.
    """

    path: tuple[str, ...]
    held: DataType
    type: DataType


ColumnChange = AddedColumn | WidenedColumn


def schema_changes(
    data_schema: Mapping[str, pl.DataType], ctx: TableContext, *, row_kind: str | None = None
) -> list[ColumnChange]:
    """Return the schema changes, in the order of the data's columns.

    Raises `SchemaMismatch` for an added column whose type Paimon lacks.
    """
    fixed = {*ctx.schema.primary_keys, *ctx.schema.partition_keys}
    fields = {field.name: field for field in ctx.schema.fields}
    changes: list[ColumnChange] = []
    for name, dtype in data_schema.items():
        if name in fields:
            changes += [] if name in fixed else _find_changes((name,), fields[name].type, dtype, ctx)
        elif name != row_kind:
            changes.append(AddedColumn(path=(name,), type=polars_types.paimon_type(dtype, name)))
    return changes


def _find_changes(
    path: tuple[str, ...], current: DataType, dtype: pl.DataType, ctx: TableContext
) -> Iterator[ColumnChange]:
    if current.root == "ROW" and isinstance(dtype, pl.Struct):
        fields = {field.name: field for field in current.fields}
        for field in dtype.fields:
            inner = (*path, field.name)
            if field.name in fields:
                yield from _find_changes(inner, fields[field.name].type, instance(field.dtype), ctx)
            else:
                yield AddedColumn(path=inner, type=polars_types.paimon_type(field.dtype, ".".join(inner)))
    elif current.root == "ARRAY" and isinstance(dtype, (pl.List, pl.Array)):
        yield from _find_changes((*path, "element"), part(current.element), instance(dtype.inner), ctx)
    elif current.root == "MAP" and isinstance(dtype, pl.Map):
        yield from _find_changes((*path, "value"), part(current.value), instance(dtype.value), ctx)
    elif not current.is_nested:
        wide = _widened_type(current, dtype)
        if wide is not None:
            yield WidenedColumn(path=path, held=current, type=wide)


def _widened_type(current: DataType, dtype: pl.DataType) -> DataType | None:
    """Return the type that holds the values of `current` and `dtype`.

    None if that is `current`, or none does.
    """
    if dtype.is_nested() or isinstance(dtype, (pl.Null, pl.Object)):
        return None
    own = polars_types.paimon_type(dtype)
    if current.root in INTEGERS and own.root in INTEGERS:
        return replace(current, root=own.root) if INTEGERS.index(own.root) > INTEGERS.index(current.root) else None
    if (current.root, own.root) == ("FLOAT", "DOUBLE"):
        return replace(current, root="DOUBLE")
    if current.root == own.root and current.root in TIMESTAMPS:
        precision = own.precision or 0
        return (
            replace(current, precision=precision)
            if precision > (6 if current.precision is None else current.precision)
            else None
        )
    if current.root == own.root == "DECIMAL":
        scale = max(current.scale or 0, own.scale or 0)
        integer_digits = max((current.precision or 10) - (current.scale or 0), (own.precision or 10) - (own.scale or 0))
        grown = replace(current, precision=integer_digits + scale, scale=scale)
        return grown if grown != current and integer_digits + scale <= 38 else None
    return None


def instance(dtype: object) -> pl.DataType:
    """Return the Polars type of an inner type, which may be given as its class."""
    polars_dtype = dtype() if isinstance(dtype, type) else dtype
    assert isinstance(polars_dtype, pl.DataType)
    return polars_dtype
