"""System tables that show a table's rows: audit_log, binlog, ro (ENGINE 10.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import polars.selectors as cs
import pyarrow as pa

from lakekit.read import changes, lazy, scan, travel

if TYPE_CHECKING:
    from datetime import datetime

    from lakekit.meta.handle import Handle
    from lakekit.read.changes import Changes
    from lakekit.read.scan import Scan

KIND = "rowkind"
SEQUENCE = "_SEQUENCE_NUMBER"


def audit_log(handle: Handle, at: int | str | datetime | None = None) -> pl.LazyFrame:
    """Every row with its kind first, deletes that still stand included; where options ask for changes, those.

    With `table-read.sequence-number.enabled` the sequence number of a key table's row follows its kind.
    """
    return lazy.lazy(audit_source(handle, at))


def audit_source(handle: Handle, at: int | str | datetime | None = None) -> Scan | Changes:
    """What the audit log reads."""
    numbered = bool(handle.schema.primary_keys) and handle.options.table_read_sequence_number_enabled
    if at is None and travel.means_changes(handle):
        return replace(changes.between(handle, kind_column=KIND), numbered=numbered)
    return replace(scan.scan(handle, at), kind_column=KIND, numbered=numbered, keeps_deletes=True)


def binlog(handle: Handle, at: int | str | datetime | None = None) -> pl.LazyFrame:
    """The audit log with every column as a list: `[value]`. Only streams pack an update as `[before, after]`."""
    found = audit_log(handle, at)
    columns = [(name, dtype) for name, dtype in found.collect_schema().items() if name not in (KIND, SEQUENCE)]
    return found.select(
        cs.by_name(KIND, SEQUENCE, require_all=False),
        *(pl.col(name).map_batches(_wrapped, return_dtype=pl.List(dtype), is_elementwise=True) for name, dtype in columns),
    )


def _wrapped(column: pl.Series) -> pl.Series:
    """Each value as a list of itself."""
    values = column.rechunk().to_arrow()
    return pl.Series(column.name, pa.LargeListArray.from_arrays(pa.array(np.arange(len(values) + 1)), values), dtype=pl.List(column.dtype))


def ro(handle: Handle, at: int | str | datetime | None = None) -> pl.LazyFrame:
    """What the highest level holds: fast, and as old as the last full compaction. An append table is read whole."""
    return lazy.lazy(ro_source(handle, at))


def ro_source(handle: Handle, at: int | str | datetime | None = None) -> Scan:
    """What `ro` reads."""
    found = scan.scan(handle, at)
    return replace(found, levels=range(handle.options.level_count - 1, handle.options.level_count)) if handle.schema.primary_keys else found
