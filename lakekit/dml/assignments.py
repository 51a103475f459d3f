"""New values of columns, as expressions over the old row.

Such as `{"v": pl.col("v") + 1, "s": "upper(s)", "d": date(2024, 1, 1)}`. A text is SQL, as it is in conditions: a text
as value is written `"'closed'"` or `pl.lit("closed")`. Every other value is a literal, read with its column's type:
lists for ARRAY, dicts for MAP and ROW.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from lakekit.errors import SchemaMismatch
from lakekit.read.expand import name_exactly
from lakekit.read.user_expressions import (
    format_expression,
    make_column_not_found,
    non_elementwise_reason,
    parse_expression,
    resolve_expression,
)
from lakekit.write import dicts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.metadata.table_context import TableContext


def assignments(
    values: Mapping[str, object], ctx: TableContext, schema: Mapping[str, pl.DataType], *, argument: str
) -> dict[str, pl.Expr]:
    """Return an expression over columns `schema` for each column of the table that gets a value.

    `argument`: the name of the argument, for error messages.

    Raises: `ColumnNotFound`, `SchemaMismatch`, `TypeError` for no mapping.
    """
    if not hasattr(values, "items") or not values or not all(isinstance(name, str) for name in values):
        msg = f"{argument} takes the new values by column, such as {{'v': pl.col('v') + 1}}, not {values!r}"
        raise TypeError(msg)
    expressions = {}
    for name, value in values.items():
        if not ctx.schema.has(name):
            raise make_column_not_found(name, list(ctx.schema.names), ctx.name, argument)
        expressions[name] = _value(name, value, ctx, schema, argument=f"{argument}[{name!r}]").alias(name)
    return expressions


def _value(name: str, value: object, ctx: TableContext, schema: Mapping[str, pl.DataType], *, argument: str) -> pl.Expr:
    if not isinstance(value, (pl.Expr, str)):
        return pl.lit(dicts.frame([{name: value}], ctx).get_column(name)).first()
    expr = name_exactly(parse_expression(value, ctx.name, argument), schema) if isinstance(value, str) else value
    expr, _ = resolve_expression(expr, schema, ctx.name, argument)
    if (beyond := non_elementwise_reason(expr, schema)) is not None:
        raise SchemaMismatch(
            f"{argument}={format_expression(expr)} for {ctx.name} {beyond}. A new value is made of its own row alone",
            column=name,
        )
    return expr
