"""The rows of a snapshot as the table is now, for chores that write them anew.

    schema then   k  a  b          rows written anew   k  b  c          c is null, a is gone
    schema now    k  b  c

A read of that snapshot would have its columns of then, and stand-in rows of a fallback branch; neither belongs into files of today.
Source: ENGINE.md 6.8, 7.7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.format.polars_types import polars_schema
from lakekit.options.features import check_readable
from lakekit.read import lazy, lazy_frames, planner
from lakekit.read.condition import ScanFilter
from lakekit.read.time_travel import Position

if TYPE_CHECKING:
    import polars as pl

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot

_LOSSY_READ_OPTIONS = ("scan.ignore-lost-files", "scan.ignore-corrupt-files", "lakekit.timestamp-unit", "scan.bucket")
"""Options of readers that would lose rows, or parts of them, for good."""


def current_rows(ctx: TableContext, snapshot: Snapshot | None, where: pl.Expr | None = None) -> pl.LazyFrame:
    """The merged rows of a snapshot in the columns of the handle's schema, those of which `where` is true. Raises what planning a read raises."""
    check_readable(ctx.all_options, f"table {ctx.name}")
    given = {key: None for key in _LOSSY_READ_OPTIONS if key in ctx.all_options}
    ctx = ctx.with_options(given) if given else ctx
    schema = ctx.schema
    asked = ScanFilter()
    if where is not None:
        filters = lazy.filters_of(where, polars_schema(schema.fields))
        asked = lazy.condition_of(filters, schema)[0]
    found = lazy_frames.scan_merged([planner.plan_read(ctx, Position(snapshot=snapshot), asked)], schema.fields)
    return found if where is None else lazy.filter_rows(found, where, polars_schema(schema.fields))
