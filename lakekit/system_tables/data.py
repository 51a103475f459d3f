"""System tables that show a table's rows: audit_log, binlog, ro (ENGINE 10.1)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
import polars.selectors as cs
import pyarrow as pa

from lakekit.columns import SEQUENCE, col, cols
from lakekit.read import incremental, lazy, table_scan, time_travel
from lakekit.read.stream import KIND_COLUMN

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.read.incremental import IncrementalScan
    from lakekit.read.table_scan import TableScan

KIND: Final = "rowkind"
UPDATE_BEFORE = "-U"


def audit_log(ctx: TableContext, at: int | str | datetime | None = None) -> pl.LazyFrame:
    """Return every row with its kind first, including deletes that are the newest version of a key.

    Where options ask for changes it returns those. With `table-read.sequence-number.enabled` the sequence number of a
    key table's row follows its kind.
    """
    return lazy.scan_lazily(audit_source(ctx, at))


def audit_source(ctx: TableContext, at: int | str | datetime | None = None) -> TableScan | IncrementalScan:
    """Return the scan of the audit log."""
    numbered = bool(ctx.schema.primary_keys) and ctx.options.table_read_sequence_number_enabled
    if at is None and time_travel.means_changes(ctx):
        return replace(incremental.changes_from_options(ctx, kind_column=KIND), numbered=numbered)
    return replace(table_scan.scan(ctx, at), kind_column=KIND, numbered=numbered, keeps_deletes=True)


def binlog(ctx: TableContext, at: int | str | datetime | None = None) -> pl.LazyFrame:
    """Return the audit log with every column as a list: `[value]`.

    Among the changes that options ask for an update is one row: `[before, after]`, the kind of the latter and the
    sequence number of the former.
    """
    source = audit_source(ctx, at)
    audit = lazy.scan_lazily(source)
    columns = [(name, dtype) for name, dtype in audit.collect_schema().items() if name not in (KIND, SEQUENCE)]
    if isinstance(source, incremental.IncrementalScan) and source.mode != "diff" and ctx.schema.primary_keys:
        listed = dict(columns)
        schema = {name: pl.List(dtype) if name in listed else dtype for name, dtype in audit.collect_schema().items()}
        packed = partial(_pack_updates, keys=ctx.schema.primary_keys)
        return audit.map_batches(
            packed, predicate_pushdown=False, projection_pushdown=False, slice_pushdown=False, schema=schema
        )
    return audit.select(
        cs.by_name(KIND, SEQUENCE, require_all=False),
        *(
            col(name).map_batches(_wrap_in_lists, return_dtype=pl.List(dtype), is_elementwise=True)
            for name, dtype in columns
        ),
    )


STREAMS = ("audit_log", "binlog")
"""System tables that can be followed."""


def show_changes(name: str, frame: pl.LazyFrame, ctx: TableContext) -> pl.LazyFrame:
    """Return the rows of one change of a stream, `_row_kind` first, as a system table of `STREAMS`."""
    renamed = frame.rename({KIND_COLUMN: KIND})
    if name == "audit_log":
        return renamed
    columns = [(column, dtype) for column, dtype in renamed.collect_schema().items() if column != KIND]
    if ctx.schema.primary_keys:
        schema = {KIND: pl.String(), **{column: pl.List(dtype) for column, dtype in columns}}
        packed = partial(_pack_updates, keys=ctx.schema.primary_keys)
        return renamed.map_batches(
            packed, predicate_pushdown=False, projection_pushdown=False, slice_pushdown=False, schema=schema
        )
    lists = (
        col(column).map_batches(_wrap_in_lists, return_dtype=pl.List(dtype), is_elementwise=True)
        for column, dtype in columns
    )
    return renamed.select(col(KIND), *lists)


def _wrap_in_lists(column: pl.Series) -> pl.Series:
    """Return each value as a list of itself."""
    return _to_lists(column, np.arange(len(column) + 1))


def _to_lists(column: pl.Series, offsets: NDArray[np.int64]) -> pl.Series:
    """Return neighbours as lists, which begin and end at these offsets."""
    return pl.Series(
        column.name,
        pa.LargeListArray.from_arrays(pa.array(offsets), column.rechunk().to_arrow()),
        dtype=pl.List(column.dtype),
    )


def _pack_updates(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Pack each -U in one row with what comes next, where that is of the same key.

    The reference packs it with what comes next of any key (`PackChangelogReader`): of a -U that stands alone it makes
    an update of one key to another.
    """
    places = np.arange(rows.height)
    alike = rows.select(pl.all_horizontal(key.eq_missing(key.shift(-1)) for key in cols(keys))).to_series().to_numpy()
    may = (rows.get_column(KIND) == UPDATE_BEFORE).to_numpy() & alike & (places < rows.height - 1)
    first = may & ~np.concatenate([[False], may[:-1]])[: rows.height]
    # of several in a row every second is the other half
    begins = may & ((places - np.maximum.accumulate(np.where(first, places, 0))) % 2 == 0)
    starts = places[~np.concatenate([[False], begins[:-1]])[: rows.height]]
    offsets = np.append(starts, rows.height)
    row_indices = {KIND: offsets[1:] - 1, SEQUENCE: starts}
    return pl.DataFrame(
        [
            column[row_indices[column.name]] if column.name in row_indices else _to_lists(column, offsets)
            for column in rows
        ]
    )


def ro(ctx: TableContext, at: int | str | datetime | None = None) -> pl.LazyFrame:
    """Return the rows of the highest level: fast, and as old as the last full compaction.

    All of an append table is read.
    """
    return lazy.scan_lazily(ro_source(ctx, at))


def ro_source(ctx: TableContext, at: int | str | datetime | None = None) -> TableScan:
    """Return the scan of `ro`."""
    scan = table_scan.scan(ctx, at)
    return (
        replace(scan, levels=range(ctx.options.level_count - 1, ctx.options.level_count))
        if ctx.schema.primary_keys
        else scan
    )
