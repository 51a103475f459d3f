"""The rows of `cat.tables()`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit.catalog.identifier import SYSTEM, Identifier
from lakekit.errors import LakekitError, TableNotFound
from lakekit.format_table.kinds import FORMAT_TABLE
from lakekit.metadata import manifest_reader, snapshots
from lakekit.table.format_tables import FormatTable, to_table_of_kind
from lakekit.world import parallel_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lakekit.catalog.options import CatalogOptions
    from lakekit.table import Table

NAME_COLUMNS = {"database": pl.String, "table": pl.String, "kind": pl.String}
_ENABLED = "format-table.enabled"
DETAIL_COLUMNS = {
    "snapshot_id": pl.Int64,
    "row_count": pl.Int64,
    "file_count": pl.Int64,
    "size_bytes": pl.Int64,
    "error": pl.String,
}


def list_tables(
    pairs: Sequence[tuple[str, str]],
    table_of: Callable[[Identifier], Table],
    settings: CatalogOptions,
    *,
    details: bool,
) -> pl.DataFrame:
    """Return a row for each (database, table), without the format tables that the catalog's options hide."""
    rows = parallel_map(
        lambda pair: row(table_of(Identifier(database=pair[0], table=pair[1])), *pair, details=details), pairs
    )
    listing = pl.DataFrame(rows, schema=_schema(details=details), orient="row")
    return listing if settings.of(_ENABLED) else listing.filter(pl.col("kind").ne_missing(FORMAT_TABLE))


def check_shown(table: Table, settings: Callable[[], CatalogOptions]) -> Table:
    """Return the table, unless it is a format table and the catalog's options hide those.

    Raises: `TableNotFound`.
    """
    if isinstance(table, FormatTable) and not settings().of(_ENABLED):
        message = (
            f"{table.name} is a format table, and this catalog was connected with {_ENABLED}=false, which hides them. "
            "Connect without it"
        )
        raise TableNotFound(message, name=table.name)
    return table


def list_system_tables(tables: Iterable[str], *, details: bool) -> pl.DataFrame:
    """Return a row for each of the catalog's own tables, without details."""
    schema = _schema(details=details)
    return pl.DataFrame(
        [(SYSTEM, name, "table", *[None] * (len(schema) - 3)) for name in tables], schema=schema, orient="row"
    )


def _schema(*, details: bool) -> dict[str, Any]:
    return {**NAME_COLUMNS, **(DETAIL_COLUMNS if details else {})}


def row(table: Table, database: str, name: str, *, details: bool) -> tuple[Any, ...]:
    """Return the row of a table: `NAME_COLUMNS`, and with `details` `DETAIL_COLUMNS`.

    What cannot be read is described in its `error`.
    """
    try:
        ctx = table.handle()
        kind = ctx.all_options.get("type", "table")
    except LakekitError as broken:
        return (database, name, None, *((None, None, None, None, broken.message) if details else ()))
    if not details:
        return database, name, kind
    try:
        if kind == FORMAT_TABLE:
            partitions = to_table_of_kind(table).partitions()
            return (
                database,
                name,
                kind,
                None,
                None,
                partitions["file_count"].sum(),
                partitions["size_bytes"].sum(),
                None,
            )
        snapshot = snapshots.latest(ctx)
        if snapshot is None:
            return database, name, kind, None, 0, 0, 0, None
        live = manifest_reader.read_live_entries(ctx, snapshot)
    except LakekitError as broken:
        return database, name, kind, None, None, None, None, broken.message
    size_bytes = int(live.numbers("file_size").sum())
    return database, name, kind, snapshot.id, snapshot.total_record_count, len(live), size_bytes, None
