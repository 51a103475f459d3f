"""New values of columns in UPDATE and MERGE, converted as Spark stores an expression in a column of another type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit.columns import col, struct_field
from lakekit.errors import ColumnNotFound
from lakekit.sql import expressions, numeric_promotion
from lakekit.sql.expressions import Scope, exp
from lakekit.write.widening import instance

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakekit.sql.expressions import Side

    Path = tuple[str, ...]
    """The names of a field from its column on."""

    Node = Any
    """A node of sqlglot's tree."""


def build_assigned_value(node: Node, scope: Scope, dtype: pl.DataType) -> pl.Expr:
    """Return the value of a tree for a column of a type, as Spark stores it.

    A moment becomes of the column's kind, a DECIMAL is rounded half up, a number becomes text.
    """
    plain = (
        node.this
        if isinstance(node, exp.Cast)
        and isinstance(node.this, exp.Literal)
        and expressions.type_of(node) in ("DATE", "TIMESTAMP")
        else None
    )
    if plain is not None and plain.is_string and isinstance(dtype, pl.Datetime):
        return pl.lit(expressions.moment(str(plain.this), dtype, scope), dtype)
    expr, have = expressions.expression(node, scope), expressions.dtype_of(node, scope)
    if isinstance(dtype, pl.Decimal) and (isinstance(have, pl.Decimal) or have.is_integer()):
        return expr.cast(
            pl.Decimal(numeric_promotion.MOST_DIGITS, dtype.scale)
        )  # digits before the point are looked at when it is written
    if dtype.is_float() and isinstance(have, pl.Decimal):
        return expr.cast(pl.Float64).cast(dtype)
    return expr.cast(pl.String) if isinstance(dtype, pl.String) and have.is_integer() else expr


def resolve_column_path(node: Node, target: Side) -> tuple[str, Path]:
    """Return the column that is named, and the path of the field within it. Raises `ColumnNotFound`."""
    try:
        return Scope(sides=(target,)).column(node), ()
    except ColumnNotFound:
        names = [part.name for part in node.parts]
        own = next(
            (count for count in (2, 1) if ".".join(names[:count]).lower() in target.called and len(names) > count), 0
        )
        path, dtype = _path(names[own:], pl.Struct(target.columns))
        if dtype is None or len(path) < 2:
            raise
        return path[0], path[1:]


def _path(names: Iterable[str], dtype: pl.DataType | None) -> tuple[Path, pl.DataType | None]:
    """Return the names as the types spell them, and the type of the last one; None if there is none."""
    path: list[str] = []
    for name in names:
        fields = {field.name: field.dtype for field in dtype.fields} if isinstance(dtype, pl.Struct) else {}
        own = name if name in fields else next((field for field in fields if field.lower() == name.lower()), None)
        dtype = None if own is None else instance(fields[own])
        path.append(own or name)
    return tuple(path), dtype


def field_type(dtype: pl.DataType, path: Path) -> pl.DataType:
    """Return the type of a field within a column."""
    inner = _path(path, dtype)[1]
    assert inner is not None
    return inner


def new_value(name: str, dtype: pl.DataType, values: Mapping[Path, pl.Expr]) -> pl.Expr:
    """Return a column with new values of some fields, or of itself, whose path is empty."""
    return _with_fields(col(name), dtype, values)


def _with_fields(column: pl.Expr, dtype: pl.DataType, values: Mapping[Path, pl.Expr]) -> pl.Expr:
    """Return a column with new values of some fields.

    Where the column is null the other fields are null: Spark makes a row of it (`AssignmentUtils`).
    """
    if () in values:
        return values[()]
    assert isinstance(dtype, pl.Struct)
    fields = []
    for field in dtype.fields:
        own, inside = (
            struct_field(column, field.name),
            {path[1:]: value for path, value in values.items() if path[0] == field.name},
        )
        fields.append((_with_fields(own, instance(field.dtype), inside) if inside else own).alias(field.name))
    return pl.struct(fields)
