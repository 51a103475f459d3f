"""System tables by name: the catalog's own, `cat["sys.tables"]`, and a table's, `cat["db.t$files"]`.

A table of `sys` is a function of a catalog, with Paimon's columns; its name stands in `SYS_TABLES`. Tables that cannot
be opened are left out; `cat.tables(details=True)` says why. Counts of `sys.tables`, owners and times come from catalogs
that know accounts; lakekit's leave them null, as the reference does.

Source: ENGINE.md 10.2; `AllTablesTable`, `AllPartitionsTable`, `AllTableOptionsTable`, `CatalogOptionsTable`.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit import parallel
from lakekit.catalog.identifier import SYSTEM
from lakekit.columns import cols
from lakekit.errors import InvalidOption, LakekitError, TableNotFound
from lakekit.options.option import hide_secrets, read_long
from lakekit.options.redaction import redact_uri
from lakekit.read.table_scan import context_of
from lakekit.system_tables import metadata_tables, registry, snapshot_tables
from lakekit.table.format_tables import context_of_any_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime, timedelta

    from lakekit.catalog.metastore import TableCatalog
    from lakekit.metadata.table_context import TableContext
    from lakekit.read.stream import Change
    from lakekit.table import Table

    Catalog = Any
    """A `lakekit.catalog.catalog.Catalog`, whose module imports this one."""


_SIZE_COLUMNS = ("record_count", "file_size_in_bytes", "file_count", "last_file_creation_time")
_TABLES_SCHEMA = {
    "database_name": pl.String,
    "table_name": pl.String,
    "table_type": pl.String,
    "partitioned": pl.Boolean,
    "primary_key": pl.Boolean,
    "owner": pl.String,
    "created_at": pl.Int64,
    "created_by": pl.String,
    "updated_at": pl.Int64,
    "updated_by": pl.String,
    **dict.fromkeys(_SIZE_COLUMNS, pl.Int64),
}
_PARTITIONS_SCHEMA = {
    "database_name": pl.String,
    "table_name": pl.String,
    "partition_name": pl.String,
    **dict.fromkeys(_SIZE_COLUMNS, pl.Int64),
    "done": pl.Boolean,
}
_OPTIONS_SCHEMA = {"database_name": pl.String, "table_name": pl.String, "key": pl.String, "value": pl.String}


def check_table_name(name: str) -> str:
    """Return the canonical name of a table of `sys`. Raises `TableNotFound`."""
    wanted = name.lower()
    if wanted not in SYS_TABLES:
        close = difflib.get_close_matches(wanted, SYS_TABLES, 1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise TableNotFound(
            f"the database {SYSTEM} has no table {name[:200]!a}{hint} There are {', '.join(SYS_TABLES)}",
            name=f"{SYSTEM}.{name}",
        )
    return wanted


def list_tables(catalog: TableCatalog) -> pl.DataFrame:
    """Return a row for each table."""
    rows = []
    for database, table, ctx in _open_tables(catalog):
        options = ctx.schema.options
        ownership = (
            options.get("owner"),
            _parse_int(options.get("createdAt")),
            options.get("createdBy"),
            _parse_int(options.get("updatedAt")),
            options.get("updatedBy"),
        )
        kind = options.get("type", "table")
        rows.append(
            (
                database,
                table,
                kind,
                bool(ctx.schema.partition_keys),
                bool(ctx.schema.primary_keys),
                *ownership,
                *[None] * len(_SIZE_COLUMNS),
            )
        )
    return pl.DataFrame(rows, schema=_TABLES_SCHEMA, orient="row")


def list_partitions(catalog: TableCatalog) -> pl.DataFrame:
    """Return a row for each partition of partitioned tables.

    Rows are counted unmerged, and files of every level.
    """
    frames = [pl.DataFrame(schema=_PARTITIONS_SCHEMA)]
    for database, table, ctx in _open_tables(catalog):
        if not ctx.schema.partition_keys:
            continue
        try:
            sums = snapshot_tables.catalog_partitions(ctx)
        except LakekitError:
            continue
        frames.append(
            sums.select(
                pl.lit(database).alias("database_name"),
                pl.lit(table).alias("table_name"),
                *cols(list(_PARTITIONS_SCHEMA)[2:]),
            )
        )
    return pl.concat(frames)


def all_table_options(catalog: TableCatalog) -> pl.DataFrame:
    """Return a row for each option of each table, its location among them as `path`."""
    rows = [
        (database, table, key, value)
        for database, table, ctx in _open_tables(catalog)
        for key, value in sorted({**ctx.schema.options, "path": ctx.root}.items())
    ]
    return pl.DataFrame(rows, schema=_OPTIONS_SCHEMA, orient="row")


def catalog_options(catalog: TableCatalog) -> pl.DataFrame:
    """Return a row for each option of the catalog; secrets are hidden (the reference shows them)."""
    uri = {} if catalog.uri is None else {"uri": redact_uri(catalog.uri)}
    options = {
        **catalog.options,
        "metastore": catalog.metastore,
        **({"warehouse": catalog.warehouse} if catalog.warehouse else {}),
        **uri,
    }
    return pl.DataFrame(
        sorted(hide_secrets(options).items()), schema={"key": pl.String, "value": pl.String}, orient="row"
    )


SYS_TABLES: dict[str, Callable[[TableCatalog], pl.DataFrame]] = {
    "all_table_options": all_table_options,
    "catalog_options": catalog_options,
    "partitions": list_partitions,
    "tables": list_tables,
}


def _open_tables(catalog: TableCatalog) -> list[tuple[str, str, TableContext]]:
    names = catalog.tables().select("database", "table").rows()

    def open_table(pair: tuple[str, str]) -> TableContext | None:
        try:
            return context_of_any_kind(catalog.table(".".join(pair)))
        except LakekitError:
            return None

    opened = parallel.parallel_map(open_table, names)
    return [(*pair, ctx) for pair, ctx in zip(names, opened, strict=True) if ctx is not None]


def _parse_int(text: str | None) -> int | None:
    try:
        return None if text is None else read_long(text)
    except ValueError:
        return None


# ---- system table ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalTable:
    """One of the tables of the database `sys`: a name to scan."""

    catalog: Catalog
    name: str

    def scan(self) -> pl.LazyFrame:
        """Return its rows as of now."""
        return SYS_TABLES[self.name](self.catalog).lazy()

    def __repr__(self) -> str:
        return f"GlobalTable {SYSTEM}.{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTable:
    """One of Paimon's system tables of `table`: a name to scan."""

    table: Table
    name: str

    def scan(self, at: int | str | datetime | None = None, *, options: Mapping[str, Any] | None = None) -> pl.LazyFrame:
        """Return its rows, with Paimon's own columns: the same as `table.system(name)`."""
        return self.table.system(self.name, at=at, options=options)

    def follow(
        self,
        start: str | int | datetime | None = None,
        *,
        consumer: str | None = None,
        until: str | int | datetime | None = None,
        poll: float | timedelta | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Iterator[Change]:
        """Yield the changes of the table as `$audit_log` or `$binlog` shows them.

        The arguments are those of `Table.follow`.

        Raises: `InvalidOption` for any other system table, none of which the reference streams, and what `Table.follow`
        raises.
        """
        if self.name not in metadata_tables.CHANGE_TABLES:
            msg = (
                f"{self.table.name}${self.name} cannot be followed; {' and '.join(metadata_tables.CHANGE_TABLES)} can, "
                "and so can the table itself. Scan it instead"
            )
            raise InvalidOption(msg, key="name", value=self.name)
        ctx = context_of(self.table)
        changes = self.table.follow(start, consumer=consumer, until=until, poll=poll, options=options)
        return (
            replace(change, frame=metadata_tables.as_changelog_table(self.name, change.frame, ctx))
            for change in changes
        )

    def __repr__(self) -> str:
        return f"SystemTable {self.table.name}${self.name}"


def open_global_table(catalog: Catalog, name: str) -> GlobalTable:
    """Return a table of the database `sys`. Raises `TableNotFound`."""
    return GlobalTable(catalog=catalog, name=check_table_name(name))


def open_system_table(table: Table, name: str) -> SystemTable:
    """Return a system table of a table. Raises `TableNotFound`."""
    return SystemTable(table=table, name=registry.normalize_name(name, table.name))
