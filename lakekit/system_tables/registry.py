"""Paimon's system tables by name, `t.system("files")`, `db.t$files`; frames about lakekit.

Each system table has the columns that it has in engine 1.4.2, or in a later engine if 1.4.2 has no such table. A system
table is a function of a table context and `at`, and `SYSTEM_TABLES` gives it its name; tables about one snapshot read
the snapshot at `at`. The frames about lakekit are its features, its options, and the packages it runs on.

Source: ENGINE 10.1.
"""

from __future__ import annotations

import difflib
import platform
from importlib import metadata
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit.data_file.corrupt_manifest_path import add_manifest_path
from lakekit.errors import TableNotFound
from lakekit.options.features import FEATURES, make_refusal
from lakekit.options.table_options import list_options
from lakekit.read import time_travel
from lakekit.system_tables import metadata_tables, snapshot_tables
from lakekit.system_tables.snapshot_tables import file_indexes

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lakekit.metadata.table_context import TableContext

    Function = Callable[[TableContext, int | str | datetime | None], pl.LazyFrame | pl.DataFrame]


SYSTEM_TABLES: dict[str, Function] = {
    "aggregation_fields": metadata_tables.aggregation_fields,
    "audit_log": metadata_tables.audit_log,
    "binlog": metadata_tables.binlog,
    "branches": metadata_tables.branches,
    "buckets": snapshot_tables.buckets,
    "consumers": metadata_tables.consumers,
    "file_indexes": file_indexes,
    "file_key_ranges": snapshot_tables.file_key_ranges,
    "files": snapshot_tables.files,
    "manifests": snapshot_tables.manifests,
    "options": metadata_tables.options,
    "partitions": snapshot_tables.partitions,
    "ro": metadata_tables.read_optimized,
    "schemas": metadata_tables.schemas,
    "snapshots": metadata_tables.snapshots,
    "statistics": metadata_tables.statistics,
    "table_indexes": snapshot_tables.table_indexes,
    "tags": metadata_tables.tags,
}
"""Name -> function that returns the system table."""
REFUSED_TABLES = ("row_tracking",)
"""System tables of Paimon that lakekit refuses with `Unsupported`."""


def system_table(ctx: TableContext, name: str, at: int | str | datetime | None = None) -> pl.LazyFrame:
    """Return a system table of a table.

    Raises: `TableNotFound` for a name that Paimon does not have, `Unsupported` for a system table that lakekit refuses.
    """
    table = SYSTEM_TABLES[normalize_name(name, ctx.name)]
    with add_manifest_path(ctx, lambda: time_travel.resolve_position(ctx, at).snapshot):
        return table(ctx, at).lazy()


def normalize_name(name: str, table: str) -> str:
    """Return the name of a system table in lower case. `table` is for the message.

    Raises: as `system_table`.
    """
    wanted = str(name).lower()
    if wanted in REFUSED_TABLES:
        raise make_refusal(f"system.{wanted}", table)
    if wanted not in SYSTEM_TABLES:
        close = difflib.get_close_matches(wanted, SYSTEM_TABLES, 1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise TableNotFound(
            f"{table} has no system table {str(name)[:200]!r}{hint} There are {', '.join(SYSTEM_TABLES)}", name=name
        )
    return wanted


# ---- itself ------------------------------------------------------------


def features() -> pl.DataFrame:
    """Return every feature that Paimon's documents name, with lakekit's support for it, one row each.

    Columns: feature, area, read, write, words, specified. `read` and `write` are "yes", "refused" (reading or writing
    raises `Unsupported` with this name) or "-" (the feature does not concern reading or writing).
    """
    descriptions = {f"option.{option['key']}": option["words"] for option in list_options()}
    rows = [
        (f.name, f.area, f.read, f.write, f.description or descriptions.get(f.name, ""), f.section)
        for f in FEATURES.values()
    ]
    return pl.DataFrame(
        rows, schema=dict.fromkeys(("feature", "area", "read", "write", "words", "specified"), pl.String), orient="row"
    )


def options() -> pl.DataFrame:
    """Return every option of a table that lakekit knows, one row each.

    Columns: key, type, default (as text, null without one), fixed (true: the option cannot change once the table has a
    snapshot), choices, older_keys (names of the option in older releases), words.
    """
    texts = pl.List(pl.String)
    columns: dict[str, Any] = {
        "key": pl.String,
        "type": pl.String,
        "default": pl.String,
        "fixed": pl.Boolean,
        "choices": texts,
        "older_keys": texts,
        "words": pl.String,
    }
    return pl.DataFrame(list(list_options()), schema=columns)


def versions() -> pl.DataFrame:
    """Return the packages that lakekit runs on, one row each.

    Columns are name, installed version (null: not installed) and what needs it.
    """
    rows: list[tuple[str, str | None, str]] = [
        ("python", platform.python_version(), "always"),
        ("lakekit", _installed_version("lakekit"), "always"),
    ]
    for requirement in _read_requirements():
        name, _, condition = requirement.partition(";")
        package = name.split("[")[0].split(">")[0].split("<")[0].split("=")[0].split("!")[0].strip()
        extra = condition.partition("extra ==")[2].strip().strip("'\"")
        if package != "lakekit":
            rows.append((package, _installed_version(package), extra or "always"))
    return pl.DataFrame(rows, schema={"package": pl.String, "version": pl.String, "needed_by": pl.String}, orient="row")


def _installed_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _read_requirements() -> list[str]:
    try:
        return metadata.requires("lakekit") or []
    except metadata.PackageNotFoundError:  # run from its sources, not installed
        return []
