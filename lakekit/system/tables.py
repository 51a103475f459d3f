"""Paimon's system tables under their own names: `t.system("files")`, `db.t$files` (ENGINE 10.1; columns as engine 1.4.2 has them, new tables as later ones).

A table is a function of a handle; `@table` gives it its name. What a snapshot decides asks `position`.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from lakekit.errors import TableNotFound
from lakekit.files.entry_damage import manifest_named
from lakekit.options.features import refuse
from lakekit.read import travel
from lakekit.system import data, inside, listings
from lakekit.system.file_indexes import file_indexes

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    import polars as pl

    from lakekit.meta.handle import Handle

    Function = Callable[[Handle, int | str | datetime | None], pl.LazyFrame | pl.DataFrame]

TABLES: dict[str, Function] = {
    "aggregation_fields": listings.aggregation_fields,
    "audit_log": data.audit_log,
    "binlog": data.binlog,
    "branches": listings.branches,
    "buckets": inside.buckets,
    "consumers": listings.consumers,
    "file_indexes": file_indexes,
    "file_key_ranges": inside.file_key_ranges,
    "files": inside.files,
    "manifests": inside.manifests,
    "options": listings.options,
    "partitions": inside.partitions,
    "ro": data.ro,
    "schemas": listings.schemas,
    "snapshots": listings.snapshots,
    "statistics": listings.statistics,
    "table_indexes": inside.table_indexes,
    "tags": listings.tags,
}
REFUSED = ("row_tracking",)


def system(handle: Handle, name: str, at: int | str | datetime | None = None) -> pl.LazyFrame:
    """A system table of a table. Raises `TableNotFound` for a name that Paimon does not have, `Unsupported` for one lakekit refuses."""
    table = TABLES[check(name, handle.name)]
    with manifest_named(handle, lambda: travel.locate(handle, at).snapshot):
        return table(handle, at).lazy()


def check(name: str, table: str) -> str:
    """The name of a system table as it is kept; raises what `system` raises. `table` is for the message."""
    wanted = str(name).lower()
    if wanted in REFUSED:
        raise refuse(f"system.{wanted}", table)
    if wanted not in TABLES:
        close = difflib.get_close_matches(wanted, TABLES, 1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise TableNotFound(f"{table} has no system table {str(name)[:200]!r}{hint} There are {', '.join(TABLES)}", name=name)
    return wanted
