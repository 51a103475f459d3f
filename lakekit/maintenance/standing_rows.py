"""The rows of a snapshot under the table's current schema, for tasks that rewrite them.

    schema then   k  a  b          rows rewritten   k  b  c          c is null, a is dropped
    schema now    k  b  c

A plain read of that snapshot would return its columns of then, and substitute rows of a fallback branch; neither
belongs in new files.
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
    """Return the merged rows of a snapshot in the columns of the current schema.

    `where`: only those of which it is true. Raises what planning a read raises.
    """
    check_readable(ctx.all_options, f"table {ctx.name}")
    overrides = {key: None for key in _LOSSY_READ_OPTIONS if key in ctx.all_options}
    ctx = ctx.with_options(overrides) if overrides else ctx
    schema = ctx.schema
    scan_filter = ScanFilter()
    if where is not None:
        filters = lazy.filters_of(where, polars_schema(schema.fields))
        scan_filter = lazy.condition_of(filters, schema)[0]
    frame = lazy_frames.scan_merged([planner.plan_read(ctx, Position(snapshot=snapshot), scan_filter)], schema.fields)
    return frame if where is None else lazy.filter_rows(frame, where, polars_schema(schema.fields))
