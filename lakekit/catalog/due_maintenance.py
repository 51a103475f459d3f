"""Maintenance that is due in the tables of a catalog, one table after another: what `cat.maintain` does.

    maintain(cat, None, dry_run=False)      shop.daily   refresh            done   snapshot 8, 31 rows
                                            shop.orders  expire snapshots   done   12 snapshots, 40 data files, 3.1 MB

A materialized table whose rows are older than they may be is refreshed, behind those that its query reads; tables that
read each other are named. In every table the tasks run that each commit
runs after itself (`maintenance.after_commit`), which writers of tables with `write-only` leave to such a job: automatic
tags; the expiration of tags, partitions, consumers, snapshots and changelogs, each as the options of the table say.
Files are merged by `cat.compact`, not here.

Source: ENGINE.md 5.7.
"""

from __future__ import annotations

from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit import maintenance
from lakekit.catalog import identifier
from lakekit.catalog.views import MATERIALIZED_TABLE, MaterializedTable, View
from lakekit.draw.humanize import format_size, plural
from lakekit.errors import LakekitError
from lakekit.expressions.parser import SqlText, table_names
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
    selected = [(database, table, kind) for database, table, kind in _select_tables(cat, name)]
    ordered, wrong = _in_refresh_order(cat, selected)
    rows = [
        (database, table, *outcome)
        for database, table in ordered
        for outcome in _maintain_table(cat, f"{database}.{table}", dry_run, wrong.get(f"{database}.{table}"))
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


def _in_refresh_order(
    cat: TableCatalog, selected: Sequence[tuple[str, str, str]]
) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Return the names of tables, materialized ones behind those that they read, and what keeps some from a refresh."""
    opened: list[MaterializedTable] = []
    for database, name, kind in selected:  # scalar: one a table
        if kind == MATERIALIZED_TABLE:
            with suppress(LakekitError):
                table = cat.table(f"{database}.{name}")
                opened += [table] if isinstance(table, MaterializedTable) else []
    sorted_tables, wrong = refresh_order(opened) if len(opened) > 1 else (opened, {})
    following = iter([table.name for table in sorted_tables])
    moved = {table.name for table in sorted_tables}
    names = [f"{database}.{name}" for database, name, kind in selected if kind not in _SKIPPED_KINDS]
    ordered = [next(following) if name in moved else name for name in names]
    return [(name.partition(".")[0], name.partition(".")[2]) for name in ordered], wrong


def refresh_order(tables: Sequence[MaterializedTable]) -> tuple[list[MaterializedTable], dict[str, str]]:
    """Return materialized tables, each behind those that its query reads, and what is wrong with others by name.

    Wrong are tables that read each other, none of which can be computed before the others. Tables that do not depend on
    each other stay in the given order.
    """
    by_name = {table.name: table for table in tables}
    read = {name: _tables_read(table) for name, table in by_name.items()}
    needed = {name: [other for other in by_name if other in names] for name, names in read.items()}
    wrong: dict[str, str] = {}
    while True:
        known = {name: needed[name] for name in by_name if name not in wrong}
        sorter = TopologicalSorter({name: [other for other in known[name] if other in known] for name in known})
        try:
            return [by_name[name] for name in sorter.static_order()], wrong
        except CycleError as found:
            cycle = list(reversed(found.args[1]))
        steps = ", ".join(f"{name} reads {other}" for name, other in pairwise(cycle))
        problem = f"{steps}: none can be computed before the others. Create one of them anew with a query that does not"
        wrong |= dict.fromkeys(cycle, problem)


def _tables_read(table: MaterializedTable) -> set[str]:
    """Return the tables that a query names, "db.t", also through views; none of a query that cannot be read."""
    found: set[str] = set()
    with suppress(LakekitError):
        waiting = [(table.query, table.name.partition(".")[0])]
        while waiting:
            text, database = waiting.pop()
            for own_database, own_name in table_names(SqlText(text, f"query of {table.name}")):
                name = f"{own_database or database}.{own_name}"
                if name not in found:
                    found.add(name)
                    waiting += _query_of_view(table.catalog, name)
    return found


def _query_of_view(catalog: TableCatalog, name: str) -> list[tuple[str, str]]:
    """Return the query of a view and the database of names in it; nothing where there is no view of the name."""
    with suppress(LakekitError):
        view: Any = catalog.table(name)
        if isinstance(view, View):
            return [(view.query, name.partition(".")[0])]
    return []


def _maintain_table(
    cat: TableCatalog, name: str, dry_run: bool, wrong_query: str | None
) -> Iterator[tuple[str, str, str | None, str | None]]:
    """Yield the task, the outcome, its details and the error of each task that is due in a table, or fails.

    `wrong_query`: what keeps a materialized table from a refresh.
    """
    if wrong_query is not None:
        yield "refresh", "failed", None, wrong_query
        return
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


def _describe_deletion(deletion_result: DeletionResult) -> str | None:
    """Return a text on the snapshots, tags, consumers and files that were or would be deleted; None if none."""
    counted = (
        (len(deletion_result.snapshot_ids), "snapshot"),
        (len(deletion_result.tags), "tag"),
        (len(deletion_result.consumers), "consumer"),
        (len(deletion_result.partitions), "partition"),
        (deletion_result.data_file_count, "data file"),
    )
    parts = [plural(count, noun) for count, noun in counted if count]
    return (
        ", ".join([*parts, *([format_size(deletion_result.size_bytes)] if deletion_result.size_bytes else [])]) or None
    )
