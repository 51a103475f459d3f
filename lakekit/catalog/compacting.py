"""Compaction of many tables of a catalog, one after another: a failure of one is in its row, and the others go on.

    compact(cat, databases="shop|web", tables=r"shop\\..*", excluding=r".*\\.tmp_.*", idle="1 d")

Patterns are regular expressions of whole names: of a database, and of a table with its database before it. Source:
ENGINE.md 11; `CompactDatabaseProcedure`, `CompactDatabaseAction`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from lakekit.catalog.metastore import join_names
from lakekit.errors import InvalidOption, LakekitError
from lakekit.format_table.kinds import FORMAT_TABLE
from lakekit.options.features import OBJECTS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from lakekit.catalog.catalog import Catalog

_SCHEMA = {"database": pl.String, "table": pl.String, "done": pl.String, "snapshot_id": pl.Int64, "error": pl.String}
_SKIP_REASONS = {
    FORMAT_TABLE: "it is a folder of files, without levels",
    OBJECTS: "its rows are what its location holds",
}


class TableSelection(NamedTuple):
    """Patterns of whole names that select tables; None: all databases, all tables, none excluded."""

    databases: str | None
    tables: str | None
    excluding: str | None


def compact(
    cat: Catalog, wanted: TableSelection, *, full: bool, idle: str | timedelta | None, options: Mapping[str, Any] | None
) -> pl.DataFrame:
    """Compact the selected tables, and return a row for each.

    `done` is compacted, nothing to do, skipped or failed.

    Raises: `InvalidOption` for an invalid pattern, or one that fits no table.
    """
    rows = [
        (database, table, *_compact_table(cat, f"{database}.{table}", full, idle, options))
        for database, table in _select_tables(cat, wanted)
    ]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _select_tables(cat: Catalog, wanted: TableSelection) -> list[tuple[str, str]]:
    databases, tables, excluding = (
        _pattern(key, text) for key, text in zip(("databases", "tables", "excluding"), wanted, strict=True)
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
    if not selected and any(text is not None for text in wanted):
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
            value=wanted.tables,
        )
    return selected


def _pattern(key: str, text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as wrong:
        raise InvalidOption(f"{key}={text!r} is no regular expression: {wrong}", key=key, value=text) from None


def _compact_table(
    cat: Catalog, name: str, full: bool, idle: str | timedelta | None, options: Mapping[str, Any] | None
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
