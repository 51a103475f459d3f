"""New values of columns in UPDATE and MERGE, as Spark stores what an expression gives in a column of another type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit.sql import arithmetic, expressions
from lakekit.sql.expressions import exp

if TYPE_CHECKING:
    from lakekit.sql.expressions import Scope

    Node = Any
    """A node of sqlglot's tree."""


def assigned(node: Node, scope: Scope, dtype: pl.DataType) -> pl.Expr:
    """The value of a tree for a column of a type, as Spark stores it: a moment of the column's kind, a DECIMAL rounded half up, a number as text."""
    plain = node.this if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and expressions.type_of(node) in ("DATE", "TIMESTAMP") else None
    if plain is not None and plain.is_string and isinstance(dtype, pl.Datetime):
        return pl.lit(expressions.moment(str(plain.this), dtype, scope), dtype)
    found, have = expressions.expression(node, scope), expressions.dtype_of(node, scope)
    if isinstance(dtype, pl.Decimal) and (isinstance(have, pl.Decimal) or have.is_integer()):
        return found.cast(pl.Decimal(arithmetic.MOST_DIGITS, dtype.scale))  # digits before the point are looked at when it is written
    if dtype.is_float() and isinstance(have, pl.Decimal):
        return found.cast(pl.Float64).cast(dtype)
    return found.cast(pl.String) if isinstance(dtype, pl.String) and have.is_integer() else found
