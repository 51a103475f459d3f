"""Maintenance that is due in the tables of a catalog, one table after another: what `cat.maintain` does.

    maintain(cat, None, dry_run=False)      shop.daily   refresh            done   snapshot 8, 31 rows
                                            shop.orders  expire snapshots   done   12 snapshots, 40 data files, 3.1 MB

A materialized table whose rows are older than they may be is refreshed. In every table the tasks run that each commit
runs after itself (`maintenance.after_commit`), which writers of tables with `write-only` leave to such a job: automatic
tags; the expiration of tags, partitions, consumers, snapshots and changelogs, each as the options of the table say.
Files are merged by `cat.compact`, not here.

Source: ENGINE.md 5.7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from lakekit import maintenance
from lakekit.catalog import identifier
from lakekit.catalog.views import MaterializedTable
from lakekit.draw.humanize import format_size, plural
from lakekit.errors import LakekitError
from lakekit.options.features import FORMAT_TABLE, OBJECT_TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lakekit.catalog.metastore import TableCatalog
    from lakekit.maintenance.result import DeletionResult
    from lakekit.table import Table

    Task = Callable[[], str | None]
    """Runs what is due, or in a dry run only describes it; returns the description, None if nothing is due."""

_SCHEMA = {
    "database": pl.String,
    "table": pl.String,
    "task": pl.String,
    "done": pl.String,
    "details": pl.String,
    "error": pl.String,
}
_SKIPPED_KINDS = (FORMAT_TABLE, OBJECT_TABLE)


def maintain(cat: TableCatalog, name: str | None, *, dry_run: bool) -> pl.DataFrame:
    """Do what is due in all tables, in those of a database or in "db.t", and return a row for each task.

    `done` is done, due (of a dry run) or failed; a table in which nothing is due has no row.

    Raises: `DatabaseNotFound`, `TableNotFound`, `InvalidOption` for an invalid name.
    """
    rows = [
        (database, table, *outcome)
        for database, table, kind in _select_tables(cat, name)
        if kind not in _SKIPPED_KINDS
        for outcome in _maintain_table(cat, f"{database}.{table}", dry_run)
    ]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _select_tables(cat: TableCatalog, name: str | None) -> list[tuple[str, str, str]]:
    """Return the database, the name and the kind of each table."""
    if name is not None and "." in name:
        parsed = identifier.data_table(name, "maintain")
        kind = str(cat.table(parsed.full).options.get("type", "table"))
        return [(parsed.database, parsed.table, kind)]
    frame = cat.tables(None if name is None else identifier.database(name))
    return frame.select("database", "table", "kind").rows()  # scalar: one a table


def _maintain_table(cat: TableCatalog, name: str, dry_run: bool) -> Iterator[tuple[str, str, str | None, str | None]]:
    """Yield the task, the outcome, its details and the error of each task that is due in a table, or fails."""
    try:
        tasks = _tasks_of(cat.table(name), dry_run)
    except LakekitError as wrong:
        yield "open", "failed", None, wrong.message
        return
    for task, run in tasks:
        try:
            details = run()
        except LakekitError as wrong:
            yield task, "failed", None, wrong.message
        else:
            if details is not None:
                yield task, ("due" if dry_run else "done"), details, None


def _tasks_of(table: Table, dry_run: bool) -> Sequence[tuple[str, Task]]:
    """Return the tasks that the options of a table ask for, in the order in which a commit runs them."""
    options = table._context().options  # noqa: SLF001 - the parsed options, which the table keeps to itself
    tasks: list[tuple[str, Task]] = []
    if isinstance(table, MaterializedTable):
        tasks.append(("refresh", lambda: _refresh(table, dry_run)))
    if options.tag_automatic_creation not in {"none", "batch"}:
        tasks.append(("create tags", lambda: _create_tags(table, dry_run)))
    if options.tag_time_expire_enabled:
        tasks.append(("expire tags", lambda: _describe_deletion(table.expire_tags(dry_run=dry_run))))
    if options.partition_expiration_time_ms is not None and table.partition_keys:
        tasks.append(("expire partitions", lambda: _describe_deletion(table.expire_partitions(dry_run=dry_run))))
    if options.consumer_expiration_time_ms is not None:
        tasks.append(("expire consumers", lambda: _describe_deletion(table.expire_consumers(dry_run=dry_run))))
    tasks.append(("expire snapshots", lambda: _describe_deletion(table.expire_snapshots(dry_run=dry_run))))
    if options.changelog_outlives_snapshots:
        tasks.append(("expire changelogs", lambda: _describe_deletion(table.expire_changelogs(dry_run=dry_run))))
    return tasks


def _refresh(table: MaterializedTable, dry_run: bool) -> str | None:
    if table.is_suspended or not table.is_stale:
        return None
    if dry_run:
        return f"older than {plural(table.freshness_ms // 1000, 'second')}"
    commit = table.refresh()
    return f"snapshot {commit.snapshot_id}, {plural(commit.row_count, 'row')}"


def _create_tags(table: Table, dry_run: bool) -> str | None:
    return ", ".join(maintenance.tags.create_automatic_tags(table._context(), dry_run=dry_run)) or None  # noqa: SLF001 - as above


def _describe_deletion(deleted: DeletionResult) -> str | None:
    """Return a text on the snapshots, tags, consumers and files that were or would be deleted; None if none."""
    counted = (
        (len(deleted.snapshot_ids), "snapshot"),
        (len(deleted.tags), "tag"),
        (len(deleted.consumers), "consumer"),
        (len(deleted.partitions), "partition"),
        (deleted.data_file_count, "data file"),
    )
    parts = [plural(count, noun) for count, noun in counted if count]
    return ", ".join([*parts, *([format_size(deleted.size_bytes)] if deleted.size_bytes else [])]) or None
