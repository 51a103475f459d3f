"""New values of columns in UPDATE and MERGE, as Spark stores what an expression gives in a column of another type."""

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
    """The value of a tree for a column of a type, as Spark stores it: a moment of the column's kind, a DECIMAL rounded half up, a number as text."""
    plain = node.this if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and expressions.type_of(node) in ("DATE", "TIMESTAMP") else None
    if plain is not None and plain.is_string and isinstance(dtype, pl.Datetime):
        return pl.lit(expressions.moment(str(plain.this), dtype, scope), dtype)
    found, have = expressions.expression(node, scope), expressions.dtype_of(node, scope)
    if isinstance(dtype, pl.Decimal) and (isinstance(have, pl.Decimal) or have.is_integer()):
        return found.cast(pl.Decimal(numeric_promotion.MOST_DIGITS, dtype.scale))  # digits before the point are looked at when it is written
    if dtype.is_float() and isinstance(have, pl.Decimal):
        return found.cast(pl.Float64).cast(dtype)
    return found.cast(pl.String) if isinstance(dtype, pl.String) and have.is_integer() else found


def resolve_column_path(node: Node, target: Side) -> tuple[str, Path]:
    """The column that is named, and the field within it. Raises `ColumnNotFound`."""
    try:
        return Scope(sides=(target,)).column(node), ()
    except ColumnNotFound:
        names = [one.name for one in node.parts]
        own = next((count for count in (2, 1) if ".".join(names[:count]).lower() in target.called and len(names) > count), 0)
        path, dtype = _path(names[own:], pl.Struct(target.columns))
        if dtype is None or len(path) < 2:
            raise
        return path[0], path[1:]


def _path(names: Iterable[str], dtype: pl.DataType | None) -> tuple[Path, pl.DataType | None]:
    """The names as they are written in the types, and the type of the last one; None: there is none."""
    found: list[str] = []
    for name in names:
        fields = {one.name: one.dtype for one in dtype.fields} if isinstance(dtype, pl.Struct) else {}
        own = name if name in fields else next((one for one in fields if one.lower() == name.lower()), None)
        dtype = None if own is None else instance(fields[own])
        found.append(own or name)
    return tuple(found), dtype


def field_type(dtype: pl.DataType, path: Path) -> pl.DataType:
    """The type of a field within a column."""
    found = _path(path, dtype)[1]
    assert found is not None
    return found


def new_value(name: str, dtype: pl.DataType, values: Mapping[Path, pl.Expr]) -> pl.Expr:
    """A column with new values of some fields, or of itself, whose path is empty."""
    return _with_fields(col(name), dtype, values)


def _with_fields(column: pl.Expr, dtype: pl.DataType, values: Mapping[Path, pl.Expr]) -> pl.Expr:
    """A column with new values of some fields. Where it is null the others are: Spark makes a row of it (`AssignmentUtils`)."""
    if () in values:
        return values[()]
    assert isinstance(dtype, pl.Struct)
    fields = []
    for field in dtype.fields:
        own, inside = struct_field(column, field.name), {path[1:]: value for path, value in values.items() if path[0] == field.name}
        fields.append((_with_fields(own, instance(field.dtype), inside) if inside else own).alias(field.name))
    return pl.struct(fields)
