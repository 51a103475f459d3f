"""Resolve the arguments of a Spark read: the table with its options, the columns, the rows.

Spark holds microseconds, so tables are opened with `lakekit.timestamp-unit=us`: finer timestamps are cut as they are
read, and conditions see the cut values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakekit.catalog.system_table import SystemTable
from lakekit.errors import SchemaMismatch
from lakekit.format.polars_types import polars_schema
from lakekit.read import lazy, user_expressions
from lakekit.read.condition import ScanFilter, parse_exact
from lakekit.read.planner import NO_FILTER
from lakekit.read.spelled import pyarrow_text
from lakekit.table.open_create import open as open_table
from lakekit.table.read_methods import check_one_position
from lakekit.table.table import Table
from lakekit.types import first_duplicate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from os import PathLike

    import polars as pl

    from lakekit.metadata.table_context import TableContext
    from lakekit.predicate import Predicate
    from lakekit.types import Field

MICROSECONDS = {"lakekit.timestamp-unit": "us"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """The rows of a read: the condition, what planning understands of it, and its remaining predicates.

    `said` holds a predicate for each conjunct that partitions do not decide; None where a conjunct is not understood.
    """

    where: pl.Expr | None = None
    condition: ScanFilter = NO_FILTER
    said: tuple[Predicate | None, ...] = ()


def table_of(table_or_path: Table | SystemTable | str | PathLike[str]) -> Table | SystemTable:
    """Return the table passed in, or open the one at a path.

    Raises: what opening raises, and `TypeError` for neither.
    """
    if isinstance(table_or_path, (Table, SystemTable)):
        return table_or_path
    if not isinstance(table_or_path, str) and not hasattr(table_or_path, "__fspath__"):
        msg = f"lakekit.spark takes a table, one of its system tables or a path, not {type(table_or_path).__name__}"
        raise TypeError(msg)
    return open_table(table_or_path)


def handle_of(table: Table, at: int | str | datetime | None, options: Mapping[str, Any] | None) -> TableContext:
    """Return the context of a table with a caller's options, as tasks need it.

    It has no catalog, which may hold connections.
    """
    check_one_position(at, options)
    return replace(table.handle().with_options({**(options or {}), **MICROSECONDS}), keeper=None)


def columns_of(fields: Sequence[Field], names: Sequence[str] | None, table: str) -> tuple[Field, ...]:
    """Return the columns of those names, in that order; all of them without names.

    Raises: `ColumnNotFound`, `SchemaMismatch`.
    """
    if names is None:
        return tuple(fields)
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise SchemaMismatch(f"columns= of a read of {table} takes a list of names, not {names!r}")
    if not names:
        raise SchemaMismatch(f"columns= of a read of {table} names none; to count rows read any one column")
    by_name = {field.name: field for field in fields}
    for name in names:
        if name not in by_name:
            raise user_expressions.make_column_not_found(name, list(by_name), table, "columns=")
    if (twice := first_duplicate(names)) is not None:
        raise SchemaMismatch(f"columns= of a read of {table} names {twice} twice", column=twice)
    return tuple(by_name[name] for name in names)


def rows_of(ctx: TableContext, where: pl.Expr | str | None) -> RowFilter:
    """Return the filter of a condition.

    Raises: `ColumnNotFound`, `SchemaMismatch` for what is no condition of single rows, `TypeError`.
    """
    if where is None:
        return RowFilter()
    expr = user_expressions.condition(where, ctx)
    schema = polars_schema(ctx.schema.fields, timestamp_unit="us")
    if (beyond := user_expressions.non_elementwise_reason(expr, schema)) is not None:
        each = (
            ", and tasks see some each: let Spark compute it over what read() gives"
            if beyond == user_expressions.MANY_ROWS
            else ""
        )
        raise SchemaMismatch(f"where={expr} of {ctx.name} {beyond}{each}")
    filters, is_complete = lazy.all_filters_of(expr, schema)
    condition, decided = lazy.condition_of(filters, ctx.schema)
    predicates = [parse_exact(pyarrow_text(text_filter)) for at, text_filter in enumerate(filters) if at not in decided]
    return RowFilter(where=expr, condition=condition, said=tuple(predicates) if is_complete else (None,))


def columns_to_read(ctx: TableContext, out: Sequence[Field], rows: RowFilter) -> tuple[Field, ...]:
    """Return the columns to read: the output columns, then those that only the condition uses."""
    used = [] if rows.where is None else rows.where.meta.root_names()
    names = {field.name for field in out}
    return (*out, *(field for field in ctx.schema.fields if field.name in used and field.name not in names))
