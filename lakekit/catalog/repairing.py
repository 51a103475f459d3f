"""Registration of tables that exist in the warehouse and are unknown to the metastore, as after its loss or a copy.

    repair(metastore, None)      warehouse/shop.db/orders/schema/schema-0     ->   shop and shop.orders are known

Files define the tables, and stay as they are. Source: ENGINE.md 9.3; `RepairProcedure`, `JdbcCatalog.repairCatalog`,
`HiveCatalog.repairCatalog`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from lakekit.catalog import identifier
from lakekit.catalog.metastore import missing_database, missing_table
from lakekit.errors import DatabaseAlreadyExists, LakekitError
from lakekit.metadata import schemas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.catalog.metastore import Metastore

_SCHEMA = {"database": pl.String, "table": pl.String, "done": pl.String, "error": pl.String}


def repair(metastore: Metastore, name: str | None) -> pl.DataFrame:
    """Register everything, a database or a table "db.t"; return a row for each existing table.

    `done` is registered, or there where it was known, or failed.

    Raises: `DatabaseNotFound`, `TableNotFound`, `InvalidOption` for an invalid name.
    """
    rows: list[tuple[str, str, str, str | None]] = []
    for database, tables in _select_tables(metastore, name):
        if not metastore.has_database(database):
            try:
                metastore.create_database(identifier.database(database), {})
            except DatabaseAlreadyExists:  # another process did the same
                pass
            except LakekitError as wrong:
                rows += [(database, table, "failed", wrong.message) for table in tables]
                continue
        rows += [(database, table, *_register_table(metastore, database, table)) for table in tables]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _select_tables(metastore: Metastore, name: str | None) -> list[tuple[str, Sequence[str]]]:
    """Return databases with the tables that exist in each."""
    if name is None:
        return [(database, metastore.lying(database)) for database in metastore.lying()]
    if "." in name:
        parsed = identifier.data_table(name, "repairTable")
        tables = metastore.lying(parsed.database)
        if parsed.table not in tables:
            raise missing_table(parsed.database, parsed.table, tables)
        return [(parsed.database, [parsed.table])]
    database = identifier.database(name)
    lying = metastore.lying()
    if database not in lying and not metastore.has_database(database):
        raise missing_database(metastore.where, database, lying)
    return [(database, metastore.lying(database))]


def _register_table(metastore: Metastore, database: str, table: str) -> tuple[str, str | None]:
    try:
        name = identifier.new_table(f"{database}.{table}", "repairTable")
        was_known = not metastore.register(name, schemas.latest(metastore.ground(name)))
    except LakekitError as wrong:
        return "failed", wrong.message
    return ("there" if was_known else "registered"), None
