"""Operations on the tables of a catalog: create, clone, compact, list and register them.

    compact(cat, databases="shop|web", tables=r"shop\\..*", excluding=r".*\\.tmp_.*", idle="1 d")
    repair(metastore, None)      warehouse/shop.db/orders/schema/schema-0     ->   shop and shop.orders are known

Tables are created and cloned in one step (`maintenance.atomic_create`): the files first, then the name; where the name
cannot be registered, the files are removed. A clone may be in another catalog. `compact` works on one table after
another: a failure of one is in its row, and the others go on. Patterns are regular expressions of whole names: of a
database, and of a table with its database before it. `list_tables` makes the rows of `cat.tables()`. `repair` registers
tables that exist in the warehouse and are unknown to the metastore, as after its loss or a copy; files define the
tables, and stay as they are.

Source: ENGINE.md 9.3, 11; `CompactDatabaseProcedure`, `CompactDatabaseAction`, `RepairProcedure`,
`JdbcCatalog.repairCatalog`, `HiveCatalog.repairCatalog`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from lakekit import maintenance
from lakekit.catalog import identifier
from lakekit.catalog.identifier import SYSTEM, Identifier
from lakekit.catalog.metastore import join_names, missing_database, missing_table
from lakekit.errors import (
    CommitStateUnknown,
    DatabaseAlreadyExists,
    InvalidOption,
    LakekitError,
    TableAlreadyExists,
    TableNotFound,
)
from lakekit.metadata import manifest_reader, schemas, snapshots
from lakekit.options.features import FORMAT_TABLE, OBJECT_TABLE
from lakekit.parallel import parallel_map
from lakekit.read.table_scan import context_of
from lakekit.runtime import REAL_RUNTIME
from lakekit.table.format_tables import FormatTable, to_table_of_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime, timedelta

    from lakekit.catalog.catalog_core import CatalogOptions
    from lakekit.catalog.metastore import Define, Metastore, TableCatalog
    from lakekit.metadata.table_context import TableContext, TableLocation
    from lakekit.model.table_schema import TableSchema
    from lakekit.table import Table


_PATIENCE_MS = 20_000
"""How long after its first file a table may become known."""
_MAX_VANISHED = 5
"""How often the files of others may go again before the name itself is taken to be in the way."""
_FIRST_PAUSE_MS, _MAX_PAUSE_MS = 10, 250


def create_or_wait(metastore: Metastore, name: Identifier, define: Define) -> None:
    """Create a table, or return when a concurrent creator has done so; where that one fails, try again.

    Raises:
        TableAlreadyExists: files of a table exist there that the catalog does not know, and no other process is
            registering it.
    """
    pause_ms, most_vanished = _FIRST_PAUSE_MS, _MAX_VANISHED
    while True:
        try:
            metastore.create_table(name, define)
        except TableAlreadyExists:
            if metastore.has_table(name.database, name.table):
                return
            age_ms = _age_ms(metastore.locate(name))
            most_vanished -= age_ms is None
            if not most_vanished or (age_ms is not None and age_ms >= _PATIENCE_MS):
                raise
        else:
            return
        REAL_RUNTIME.wait_ms(pause_ms)
        pause_ms = min(2 * pause_ms, _MAX_PAUSE_MS)


def create_database_once(metastore: Metastore, database: str, properties: Mapping[str, str]) -> None:
    """Create a database, or return where another process created it at the same moment.

    Raises: `DatabaseAlreadyExists` if a database whose name differs only in spelling exists.
    """
    try:
        metastore.create_database(database, properties)
    except DatabaseAlreadyExists:
        if not metastore.has_database(database):
            raise


def _age_ms(target: TableLocation) -> int | None:
    """Return how long ago the first file of a table was written; None if it does not exist any more."""
    stat = target.storage.stat(target.paths.schema(0))
    return None if stat is None else REAL_RUNTIME.now_ms() - stat.modified_ms


def check_name_is_free(metastore: Metastore, name: Identifier, otherwise: str) -> None:
    """Raise `TableAlreadyExists` for a name that its database has; `otherwise` says what was not done."""
    if metastore.has_table(name.database, name.table):
        raise TableAlreadyExists(
            f'{name.full} is in "{metastore.address}" already, and {otherwise}; choose another name',
            name=name.full,
        )


def create_and_register(metastore: Metastore, name: Identifier, create_files: Define, meanwhile: str) -> None:
    """Make a table and register its name.

    `meanwhile`: the work during which another process may have made one, for the error message.

    Raises: `TableAlreadyExists`, and what `create_files` raises.
    """
    made: list[TableLocation] = []

    def define(target: TableLocation) -> TableSchema:
        schema = create_files(target)
        made.append(target)
        return schema

    try:
        metastore.create_table(name, define)
    except BaseException as wrong:
        if made:
            # if it is unknown whether the name exists, the files stay: they are a complete table
            with suppress(LakekitError):
                if not metastore.has_table(name.database, name.table):
                    maintenance.atomic_create.drop_created(made[0])
        elif (
            isinstance(wrong, LakekitError)
            and not isinstance(wrong, CommitStateUnknown)
            and metastore.has_table(name.database, name.table)
        ):
            raise TableAlreadyExists(
                f"{name.full} was made by somebody else while {meanwhile}; theirs stands", name=name.full
            ) from wrong
        raise


# ---- cloning ------------------------------------------------------------


def check_source(text: str) -> None:
    """Raise `InvalidOption` for the name of a table without files of its own."""
    parsed = identifier.parse(text)
    if parsed.system is not None or parsed.database == identifier.SYSTEM:
        raise InvalidOption(
            f"{text[:200]!a} is a system table, which has no files: clone the table it tells of", key="name", value=text
        )


def clone(source: TableContext, metastore: Metastore, to: str, at: int | str | datetime | None) -> None:
    """Copy a table to a name that its database does not have yet.

    Raises: `TableAlreadyExists`, and what `maintenance.atomic_create` raises; then there is no such table.
    """
    name = identifier.new_table(to, "createTable")
    check_name_is_free(metastore, name, f"{source.name} was not copied")
    create_and_register(
        metastore,
        name,
        lambda target: maintenance.atomic_create.clone_table_files(source, target, at),
        f"{source.name} was copied",
    )


# ---- compacting ------------------------------------------------------------


_COMPACT_SCHEMA = {
    "database": pl.String,
    "table": pl.String,
    "done": pl.String,
    "snapshot_id": pl.Int64,
    "error": pl.String,
}
_SKIP_REASONS = {
    FORMAT_TABLE: "it is a folder of files, without levels",
    OBJECT_TABLE: "its rows are what its location holds",
}


class TableSelection(NamedTuple):
    """Patterns of whole names that select tables; None: all databases, all tables, none excluded."""

    databases: str | None
    tables: str | None
    excluding: str | None


def compact(
    cat: TableCatalog,
    selection: TableSelection,
    *,
    full: bool,
    idle: str | timedelta | None,
    options: Mapping[str, Any] | None,
) -> pl.DataFrame:
    """Compact the selected tables, and return a row for each.

    `done` is compacted, nothing to do, skipped or failed.

    Raises: `InvalidOption` for an invalid pattern, or one that fits no table.
    """
    rows = [
        (database, table, *_compact_table(cat, f"{database}.{table}", full, idle, options))
        for database, table in _select_tables(cat, selection)
    ]
    return pl.DataFrame(rows, schema=_COMPACT_SCHEMA, orient="row")


def _select_tables(cat: TableCatalog, selection: TableSelection) -> list[tuple[str, str]]:
    databases, tables, excluding = (
        _compile_pattern(key, text) for key, text in zip(("databases", "tables", "excluding"), selection, strict=True)
    )
    all_databases = cat.databases()
    inside = [name for name in all_databases if databases is None or databases.fullmatch(name)]
    pairs = [
        (database, table) for database in inside for table in cat.tables(database)["table"].to_list()
    ]  # scalar: one a table
    names = [f"{database}.{table}" for database, table in pairs]
    fits = [
        (tables is None or tables.fullmatch(name)) and not (excluding is not None and excluding.fullmatch(name))
        for name in names
    ]
    selected = [pair for pair, is_in in zip(pairs, fits, strict=True) if is_in]
    if not selected and any(text is not None for text in selection):
        has = (
            f"tables are {join_names(names)}"
            if names
            else f"databases are {join_names(all_databases)}"
            if all_databases
            else "there are no databases"
        )
        raise InvalidOption(
            f"these patterns of whole names fit no table, such as 'shop|web' and r'shop\\..*': {has}",
            key="tables",
            value=selection.tables,
        )
    return selected


def _compile_pattern(key: str, text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as wrong:
        raise InvalidOption(f"{key}={text!r} is no regular expression: {wrong}", key=key, value=text) from None


def _compact_table(
    cat: TableCatalog, name: str, full: bool, idle: str | timedelta | None, options: Mapping[str, Any] | None
) -> tuple[str, int | None, str | None]:
    """Compact one table, and return the outcome, the new snapshot, and why it failed or was skipped."""
    try:
        table = cat.table(name, options=options)
        kind = str(table.options.get("type", "table"))
        if kind in _SKIP_REASONS:
            return "skipped", None, f"{name} is of type {kind}: {_SKIP_REASONS[kind]}"
        done = table.compact(full=full, idle=idle)
    except LakekitError as wrong:
        return "failed", None, wrong.message
    return ("nothing to do" if done.snapshot_id is None else "compacted"), done.snapshot_id, None


# ---- listing ------------------------------------------------------------


NAME_COLUMNS = {"database": pl.String, "table": pl.String, "kind": pl.String}
_FORMAT_TABLES_OPTION = "format-table.enabled"
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
        lambda pair: table_row(table_of(Identifier(database=pair[0], table=pair[1])), *pair, details=details), pairs
    )
    listing = pl.DataFrame(rows, schema=_listing_schema(details=details), orient="row")
    return listing if settings.of(_FORMAT_TABLES_OPTION) else listing.filter(pl.col("kind").ne_missing(FORMAT_TABLE))


def check_shown(table: Table, settings: Callable[[], CatalogOptions]) -> Table:
    """Return the table, unless it is a format table and the catalog's options hide those.

    Raises: `TableNotFound`.
    """
    if isinstance(table, FormatTable) and not settings().of(_FORMAT_TABLES_OPTION):
        message = (
            f"{table.name} is a format table, and this catalog was connected with {_FORMAT_TABLES_OPTION}=false, "
            "which hides them. "
            "Connect without it"
        )
        raise TableNotFound(message, name=table.name)
    return table


def list_system_tables(tables: Iterable[str], *, details: bool) -> pl.DataFrame:
    """Return a row for each of the catalog's own tables, without details."""
    schema = _listing_schema(details=details)
    return pl.DataFrame(
        [(SYSTEM, name, "table", *[None] * (len(schema) - 3)) for name in tables], schema=schema, orient="row"
    )


def _listing_schema(*, details: bool) -> dict[str, Any]:
    return {**NAME_COLUMNS, **(DETAIL_COLUMNS if details else {})}


def table_row(table: Table, database: str, name: str, *, details: bool) -> tuple[Any, ...]:
    """Return the row of a table: `NAME_COLUMNS`, and with `details` `DETAIL_COLUMNS`.

    What cannot be read is described in its `error`.
    """
    try:
        ctx = context_of(table)
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
    size_bytes = int(live.integers("file_size").sum())
    return database, name, kind, snapshot.id, snapshot.total_record_count, len(live), size_bytes, None


# ---- repairing ------------------------------------------------------------


_REPAIR_SCHEMA = {"database": pl.String, "table": pl.String, "done": pl.String, "error": pl.String}


def repair(metastore: Metastore, name: str | None) -> pl.DataFrame:
    """Register everything, a database or a table "db.t"; return a row for each existing table.

    `done` is registered, or there where it was known, or failed.

    Raises: `DatabaseNotFound`, `TableNotFound`, `InvalidOption` for an invalid name.
    """
    rows: list[tuple[str, str, str, str | None]] = []
    for database, tables in _select_unregistered(metastore, name):
        if not metastore.has_database(database):
            try:
                metastore.create_database(identifier.database(database), {})
            except DatabaseAlreadyExists:  # another process did the same
                pass
            except LakekitError as wrong:
                rows += [(database, table, "failed", wrong.message) for table in tables]
                continue
        rows += [(database, table, *_register_table(metastore, database, table)) for table in tables]
    return pl.DataFrame(rows, schema=_REPAIR_SCHEMA, orient="row")


def _select_unregistered(metastore: Metastore, name: str | None) -> list[tuple[str, Sequence[str]]]:
    """Return databases with the tables that exist in each."""
    if name is None:
        return [(database, metastore.list_in_warehouse(database)) for database in metastore.list_in_warehouse()]
    if "." in name:
        parsed = identifier.data_table(name, "repairTable")
        tables = metastore.list_in_warehouse(parsed.database)
        if parsed.table not in tables:
            raise missing_table(parsed.database, parsed.table, tables)
        return [(parsed.database, [parsed.table])]
    database = identifier.database(name)
    lying = metastore.list_in_warehouse()
    if database not in lying and not metastore.has_database(database):
        raise missing_database(metastore.address, database, lying)
    return [(database, metastore.list_in_warehouse(database))]


def _register_table(metastore: Metastore, database: str, table: str) -> tuple[str, str | None]:
    try:
        name = identifier.new_table(f"{database}.{table}", "repairTable")
        was_known = not metastore.register(name, schemas.read_latest(metastore.locate(name)))
    except LakekitError as wrong:
        return "failed", wrong.message
    return ("there" if was_known else "registered"), None
