"""Paimon's system tables under their own names: `t.system("files")`, `db.t$files`.

Source: ENGINE 10.1; columns as engine 1.4.2 has them, new tables as later ones. A table is a function of a table
context; `@table` gives it its name. Tables of one snapshot locate it by `at`.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from lakekit.data_file.entry_damage import add_manifest_path
from lakekit.errors import TableNotFound
from lakekit.options.features import refuse
from lakekit.read import time_travel
from lakekit.system_tables import data, metadata_tables, snapshot_tables
from lakekit.system_tables.file_indexes import file_indexes

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    import polars as pl

    from lakekit.metadata.table_context import TableContext

    Function = Callable[[TableContext, int | str | datetime | None], pl.LazyFrame | pl.DataFrame]

TABLES: dict[str, Function] = {
    "aggregation_fields": metadata_tables.aggregation_fields,
    "audit_log": data.audit_log,
    "binlog": data.binlog,
    "branches": metadata_tables.branches,
    "buckets": snapshot_tables.buckets,
    "consumers": metadata_tables.consumers,
    "file_indexes": file_indexes,
    "file_key_ranges": snapshot_tables.file_key_ranges,
    "files": snapshot_tables.files,
    "manifests": snapshot_tables.manifests,
    "options": metadata_tables.options,
    "partitions": snapshot_tables.partitions,
    "ro": data.ro,
    "schemas": metadata_tables.schemas,
    "snapshots": metadata_tables.snapshots,
    "statistics": metadata_tables.statistics,
    "table_indexes": snapshot_tables.table_indexes,
    "tags": metadata_tables.tags,
}
REFUSED_TABLES = ("row_tracking",)


def system(ctx: TableContext, name: str, at: int | str | datetime | None = None) -> pl.LazyFrame:
    """Return a system table of a table.

    Raises: `TableNotFound` for a name that Paimon does not have, `Unsupported` for one lakekit refuses.
    """
    table = TABLES[check(name, ctx.name)]
    with add_manifest_path(ctx, lambda: time_travel.locate(ctx, at).snapshot):
        return table(ctx, at).lazy()


def check(name: str, table: str) -> str:
    """Return the name of a system table in lower case. `table` is for the message.

    Raises: as `system`.
    """
    wanted = str(name).lower()
    if wanted in REFUSED_TABLES:
        raise refuse(f"system.{wanted}", table)
    if wanted not in TABLES:
        close = difflib.get_close_matches(wanted, TABLES, 1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise TableNotFound(
            f"{table} has no system table {str(name)[:200]!r}{hint} There are {', '.join(TABLES)}", name=name
        )
    return wanted
