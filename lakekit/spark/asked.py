"""What a read of Spark asks for, brought to one: which table with which options, which columns, which rows.

Spark holds microseconds: tables are opened with `lakekit.timestamp-unit=us`, so that finer timestamps are cut as they are read, and conditions see them so.
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
    """Which rows: the condition itself, what planning understands of it, and what each conjunct says that partitions do not decide; None: not understood."""

    where: pl.Expr | None = None
    condition: ScanFilter = NO_FILTER
    said: tuple[Predicate | None, ...] = ()


def table_of(given: Table | SystemTable | str | PathLike[str]) -> Table | SystemTable:
    """The table that was given, or the one at a path. Raises what opening raises, and `TypeError` for neither."""
    if isinstance(given, (Table, SystemTable)):
        return given
    if not isinstance(given, str) and not hasattr(given, "__fspath__"):
        msg = f"lakekit.spark takes a table, one of its system tables or a path, not {type(given).__name__}"
        raise TypeError(msg)
    return open_table(given)


def handle_of(table: Table, at: int | str | datetime | None, options: Mapping[str, Any] | None) -> TableContext:
    """The table's facts with a caller's options, as tasks need them: without the catalog that named it, which may hold connections."""
    check_one_position(at, options)
    return replace(table.handle().with_options({**(options or {}), **MICROSECONDS}), keeper=None)


def columns_of(fields: Sequence[Field], names: Sequence[str] | None, table: str) -> tuple[Field, ...]:
    """The columns of those names, in that order; all without names. Raises `ColumnNotFound`, `SchemaMismatch`."""
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
    """The rows that a condition means. Raises `ColumnNotFound`, `SchemaMismatch` for what is no condition of one row, `TypeError`."""
    if where is None:
        return RowFilter()
    expr = user_expressions.condition(where, ctx)
    schema = polars_schema(ctx.schema.fields, timestamp_unit="us")
    if (beyond := user_expressions.non_elementwise_reason(expr, schema)) is not None:
        each = ", and tasks see some each: let Spark compute it over what read() gives" if beyond == user_expressions.MANY_ROWS else ""
        raise SchemaMismatch(f"where={expr} of {ctx.name} {beyond}{each}")
    filters, whole = lazy.all_filters_of(expr, schema)
    condition, decided = lazy.condition_of(filters, ctx.schema)
    said = [parse_exact(pyarrow_text(one)) for at, one in enumerate(filters) if at not in decided]
    return RowFilter(where=expr, condition=condition, said=tuple(said) if whole else (None,))


def columns_to_read(ctx: TableContext, out: Sequence[Field], rows: RowFilter) -> tuple[Field, ...]:
    """The columns to read: those that are given out, and those that the condition uses."""
    used = [] if rows.where is None else rows.where.meta.root_names()
    names = {field.name for field in out}
    return (*out, *(field for field in ctx.schema.fields if field.name in used and field.name not in names))
