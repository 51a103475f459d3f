"""What the timeline shows, taken from a table: facts for `draw.timeline`; and what every view of a table's history needs.

    history(table)                  every snapshot, those that only a tag or a changelog keeps too
    file_counts(table, mark)        files of one snapshot: reads its two lists
    reading(table, mark)            the Python that reads the table as of a mark
    condition(table, "amount > 3")  a filter as it is typed

Nothing but metadata is read, and of one snapshot at a time. What a snapshot is made of: `inspection.manifest_tree`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from lakekit.draw.humanize import escape_controls
from lakekit.draw.timeline import FileCounts, History, SnapshotMark
from lakekit.errors import LakekitError, SnapshotNotFound
from lakekit.format.polars_types import polars_schema
from lakekit.maintenance import chosen
from lakekit.metadata import manifest_reader as manifest_files, snapshots as snapshot_files, tags as tag_files
from lakekit.read import time_travel, user_expressions
from lakekit.read.expand import name_exactly
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from datetime import datetime

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot
    from lakekit.table.table import Table


# ---- snapshots ------------------------------------------------------------------------------------------------------------------------------


def history(table: Table) -> History:
    """Every snapshot as a mark, by id: those that are there, those that only a tag keeps, those whose changelog outlived them."""
    ctx = table.handle()
    named: dict[int, list[str]] = {}
    found: dict[int, SnapshotMark] = {}
    for number in snapshot_files.changelog_ids(ctx):
        if (kept := snapshot_files.find_changelog(ctx, number)) is not None:
            found[number] = _mark(kept, (), "changelog")
    for tag in tag_files.all(ctx):
        named.setdefault(tag.snapshot.id, []).append(tag.name)
        found[tag.snapshot.id] = _mark(tag.snapshot, tuple(named[tag.snapshot.id]), "tag")
    for snapshot in snapshot_files.all(ctx):
        found[snapshot.id] = _mark(snapshot, tuple(named.get(snapshot.id, ())), "")
    marks = tuple(found[number] for number in sorted(found))
    return History(table=display_name(table), marks=marks, newest_schema_id=ctx.newest_schema_id)


def _mark(snapshot: Snapshot, tags: tuple[str, ...], life: str) -> SnapshotMark:
    return SnapshotMark(
        id=snapshot.id,
        kind=snapshot.commit_kind,
        time_ms=snapshot.time_millis,
        schema_id=snapshot.schema_id,
        row_count=snapshot.total_record_count,
        delta_row_count=snapshot.delta_record_count,
        changelog_row_count=snapshot.changelog_record_count,
        watermark=snapshot.watermark_or_none,
        user=snapshot.commit_user,
        tags=tags,
        life=life,
    )


def display_name(table: Table) -> str:
    """What pictures call a table: its name, and its branch."""
    return table.name if table.branch_name is None else f"{table.name} on branch {table.branch_name}"


def format_open_call(table: Table) -> str:
    """The Python that opens the table again; what the storage was given stays unsaid."""
    said = [repr(table.location)]
    if table.branch_name is not None:
        said.append(f"branch={table.branch_name!r}")
    if table.dynamic:
        said.append(f"options={dict(table.dynamic)!r}")
    return f"lk.open({', '.join(said)})"


def format_read_call(table: Table, mark: SnapshotMark | None) -> str:
    """The Python that reads the table as of a mark: an expired snapshot by its tag, or only the changes that were kept of it. Without one, its snapshots."""
    if mark is None:
        return f"{format_open_call(table)}.snapshots()"
    if mark.life == "changelog":
        return f"{format_open_call(table)}.changes(since={mark.id - 1}, until={mark.id})"
    return f"{format_open_call(table)}.scan(at={(mark.tags[0] if mark.life else mark.id)!r})"


def rows_of(table: Table, mark: SnapshotMark | None) -> pl.DataFrame | pl.LazyFrame:
    """What `format_read_call` says, as a frame: the rows as of a mark, or the changes that were kept of it; without one what `t.snapshots()` says."""
    if mark is None:
        return table.snapshots()
    if mark.life == "changelog":
        return table.changes(mark.id - 1, mark.id)
    return table.scan(at=mark.tags[0] if mark.life else mark.id)


def file_counts(table: Table, mark: SnapshotMark) -> FileCounts | str:
    """How many files a snapshot has, and what its commit changed; why that is not known, where its lists are gone."""
    ctx = table.handle()
    try:
        snapshot = snapshot_of(ctx, mark.id)
        base, delta = (manifest_files.manifest_files(ctx, snapshot, which) for which in ("base", "delta"))
    except (FileMissing, SnapshotNotFound):
        return "gone with the snapshot"
    added, removed = (sum(getattr(m, f"num_{what}_files") for m in delta) for what in ("added", "deleted"))
    before = sum(m.num_added_files - m.num_deleted_files for m in base)
    return FileCounts(live=before + added - removed, added=added, removed=removed)


def snapshot_of(ctx: TableContext, snapshot_id: int) -> Snapshot:
    """A snapshot by its id, from a tag or a changelog where it expired. Raises `SnapshotNotFound`."""
    if (found := snapshot_files.find(ctx, snapshot_id)) is not None:
        return found
    for tag in tag_files.all(ctx):
        if tag.snapshot.id == snapshot_id:
            return tag.snapshot
    kept = snapshot_files.find_changelog(ctx, snapshot_id)
    return snapshot_files.read(ctx, snapshot_id) if kept is None else kept


def at_of(table: Table, snapshot_id: int) -> int | str:
    """What `at=` takes for a snapshot: its id, or the name of a tag that outlived it."""
    ctx = table.handle()
    if snapshot_files.find(ctx, snapshot_id) is None:
        for tag in tag_files.all(ctx):
            if tag.snapshot.id == snapshot_id:
                return tag.name
    return snapshot_id


def id_of(table: Table, at: int | str | datetime | None) -> int:
    """The number of the snapshot that `at` means, 0 where there is none. Raises `SnapshotNotFound`, `TagNotFound`."""
    if isinstance(at, int) and not isinstance(at, bool):
        return snapshot_of(table.handle(), at).id
    found = time_travel.locate(table.handle(), at).snapshot
    return 0 if found is None else found.id


# ---- what is typed --------------------------------------------------------------------------------------------------------------------------------


def condition(table: Table, text: str) -> pl.Expr | None:
    """The condition on a table's rows that a text in SQL says; None for nothing. Raises `InvalidOption`, `SchemaMismatch`."""
    if not text.strip():
        return None
    ctx = table.handle()
    schema = polars_schema(ctx.schema.fields)
    found = user_expressions.fit_condition(name_exactly(chosen.condition(text, key="filter"), schema), text, schema)
    user_expressions.check_times(found, schema, f"the filter {text.strip()!r} of {ctx.name}")
    return found


def first_line(error: Exception) -> str:
    """What a front end says of an error, on one line."""
    said = str(error).strip()
    return escape_controls(said.splitlines()[0]) if said else type(error).__name__


REFUSED = (LakekitError, pl.exceptions.PolarsError)
"""What bad text, an expired snapshot or a table that is refused raise: shown, never raised into a front end."""
