"""View model of the timeline: facts of a table for `draw.timeline`, and functions that other history views share.

    read_snapshot_history(table)    every snapshot, also those that only a tag or a changelog keeps
    file_counts(table, mark)        files of one snapshot: reads its two lists
    format_read_call(table, mark)   the Python that reads the table as of a mark
    parse_condition_text(table, "amount > 3")
                                    a filter as it is typed
    locate_file(…)                  the manifest that added a data file, its partition and its bucket

Only metadata is read, and of one snapshot at a time. `inspection.manifest_tree` has the manifests of a snapshot.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl
import pyarrow.compute as pc

from lakekit.draw.humanize import escape_controls
from lakekit.draw.timeline import FileCounts, History, SnapshotMark
from lakekit.errors import LakekitError, SnapshotNotFound
from lakekit.format.polars_types import polars_schema
from lakekit.metadata import manifest_reader as manifest_files, refs as tag_files, snapshots as snapshot_files
from lakekit.model.manifest_entries import ADD
from lakekit.read import incremental, polars_pushdown, table_scan, time_travel, user_expressions
from lakekit.read.table_scan import context_of
from lakekit.storage.protocol import FileMissing
from lakekit.system_tables import frames

if TYPE_CHECKING:
    from datetime import datetime

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot
    from lakekit.read.table_scan import TableCore


# ---- snapshots -------------------------------------------------------------------------------------------------------


def read_snapshot_history(table: TableCore) -> History:
    """Return every snapshot as a mark, by id.

    These are the existing snapshots, those that only a tag keeps, and those of which only the changelog is left.
    """
    ctx = context_of(table)
    named: dict[int, list[str]] = {}
    marks_by_id: dict[int, SnapshotMark] = {}
    for number in snapshot_files.changelog_ids(ctx):
        if (changelog := snapshot_files.find_changelog(ctx, number)) is not None:
            marks_by_id[number] = _snapshot_mark(changelog, (), "changelog")
    for tag in tag_files.list_tags(ctx):
        named.setdefault(tag.snapshot.id, []).append(tag.name)
        marks_by_id[tag.snapshot.id] = _snapshot_mark(tag.snapshot, tuple(named[tag.snapshot.id]), "tag")
    for snapshot in snapshot_files.read_all(ctx):
        marks_by_id[snapshot.id] = _snapshot_mark(snapshot, tuple(named.get(snapshot.id, ())), "")
    marks = tuple(marks_by_id[number] for number in sorted(marks_by_id))
    return History(table=display_name(table), marks=marks, newest_schema_id=ctx.newest_schema_id)


def _snapshot_mark(snapshot: Snapshot, tags: tuple[str, ...], retained_by: str) -> SnapshotMark:
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
        retained_by=retained_by,
    )


def display_name(table: TableCore) -> str:
    """Return the name of a table in pictures: its name, and its branch."""
    return table.name if table.branch_name is None else f"{table.name} on branch {table.branch_name}"


def format_open_call(table: TableCore) -> str:
    """Return the Python that opens the table again, without its storage options."""
    arguments = [repr(table.location)]
    if table.branch_name is not None:
        arguments.append(f"branch={table.branch_name!r}")
    if table.dynamic:
        arguments.append(f"options={dict(table.dynamic)!r}")
    return f"lk.open({', '.join(arguments)})"


def format_read_call(table: TableCore, mark: SnapshotMark | None) -> str:
    """Return the Python that reads the table as of a mark; without one, that lists its snapshots.

    An expired snapshot is read through its tag. If it has no tag, only its changelog can be read.
    """
    if mark is None:
        return f"{format_open_call(table)}.snapshots()"
    if mark.retained_by == "changelog":
        return f"{format_open_call(table)}.changes(since={mark.id - 1}, until={mark.id})"
    return f"{format_open_call(table)}.scan(at={(mark.tags[0] if mark.retained_by else mark.id)!r})"


def read_mark(table: TableCore, mark: SnapshotMark | None) -> pl.DataFrame | pl.LazyFrame:
    """Return the frame of `format_read_call`: the rows as of a mark, or the changelog that was kept of it.

    Without a mark it is the frame of `t.snapshots()`.
    """
    ctx = context_of(table)
    if mark is None:
        return frames.snapshots(ctx)
    if mark.retained_by == "changelog":
        return polars_pushdown.scan_lazily(
            incremental.plan_changes(ctx, mark.id - 1, mark.id, mode="auto", kind_column="_row_kind")
        )
    return polars_pushdown.scan_lazily(table_scan.scan(ctx, mark.tags[0] if mark.retained_by else mark.id))


def file_counts(table: TableCore, mark: SnapshotMark) -> FileCounts | str:
    """Return how many files a snapshot has, and how many its commit changed.

    Returns a message if its manifest lists were deleted.
    """
    ctx = context_of(table)
    try:
        snapshot = find_snapshot(ctx, mark.id)
        base, delta = (manifest_files.manifest_files(ctx, snapshot, which) for which in ("base", "delta"))
    except (FileMissing, SnapshotNotFound):
        return "gone with the snapshot"
    added, removed = (sum(getattr(m, f"num_{what}_files") for m in delta) for what in ("added", "deleted"))
    before = sum(m.num_added_files - m.num_deleted_files for m in base)
    return FileCounts(live_count=before + added - removed, added_count=added, removed_count=removed)


def find_snapshot(ctx: TableContext, snapshot_id: int) -> Snapshot:
    """Return a snapshot by its id; if it has expired, from a tag or a changelog.

    Raises: `SnapshotNotFound`.
    """
    if (snapshot := snapshot_files.find(ctx, snapshot_id)) is not None:
        return snapshot
    for tag in tag_files.list_tags(ctx):
        if tag.snapshot.id == snapshot_id:
            return tag.snapshot
    changelog = snapshot_files.find_changelog(ctx, snapshot_id)
    return snapshot_files.read_snapshot(ctx, snapshot_id) if changelog is None else changelog


def to_at_argument(table: TableCore, snapshot_id: int) -> int | str:
    """Return the argument `at=` that reads a snapshot: its id, or the name of a tag if it has expired."""
    ctx = context_of(table)
    if snapshot_files.find(ctx, snapshot_id) is None:
        for tag in tag_files.list_tags(ctx):
            if tag.snapshot.id == snapshot_id:
                return tag.name
    return snapshot_id


def to_snapshot_id(table: TableCore, at: int | str | datetime | None) -> int:
    """Return the id of the snapshot that `at` means, 0 if there is none.

    Raises: `SnapshotNotFound`, `TagNotFound`.
    """
    if isinstance(at, int) and not isinstance(at, bool):
        return find_snapshot(context_of(table), at).id
    snapshot = time_travel.resolve_position(context_of(table), at).snapshot
    return 0 if snapshot is None else snapshot.id


# ---- what is typed ---------------------------------------------------------------------------------------------------


def parse_condition_text(table: TableCore, text: str) -> pl.Expr | None:
    """Return the condition of an SQL text on a table's rows; None for an empty text.

    Raises: `InvalidOption`, `SchemaMismatch`.
    """
    if not text.strip():
        return None
    ctx = context_of(table)
    schema = polars_schema(ctx.schema.fields)
    return user_expressions.translate_condition(text, schema, ctx.name, "filter")


def first_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    text = str(error).strip()
    return escape_controls(text.splitlines()[0]) if text else type(error).__name__


QUERY_ERRORS = (LakekitError, pl.exceptions.PolarsError)
"""Errors of bad text, an expired snapshot or a table that is refused: front ends show them."""


# ---- standing ------------------------------------------------------------


_NEWEST_FIRST: tuple[Literal["delta", "base"], ...] = ("delta", "base")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLocation:
    """The location of a data file in the metadata.

    `manifest` is the name of the snapshot's newest manifest that adds the file. `partition` is the directory of the
    file's partition, "" in a table without partitions.
    """

    manifest: str
    partition: str
    bucket: int


def locate_file(table: TableCore, snapshot_id: int, name: str) -> FileLocation | None:
    """Return the location of the file of that name; None if the snapshot has no such file.

    Reads manifests, the newest first, until one adds the file.

    Raises: `SnapshotNotFound`.
    """
    if not snapshot_id or not name:
        return None
    ctx = context_of(table)
    snapshot = find_snapshot(ctx, snapshot_id)
    ctx = time_travel.schema_of(ctx, time_travel.position_of(snapshot))
    for which in _NEWEST_FIRST:
        with suppress(FileMissing):  # of an expired snapshot, which a tag keeps, only the base list is there
            for listed in reversed(manifest_files.manifest_files(ctx, snapshot, which)):
                entries = manifest_files.read_entries(ctx, [listed])
                indices = np.flatnonzero(
                    np.asarray(pc.equal(entries.column("file_name"), name)) & (entries.integers("kind") == ADD)
                )
                if len(indices):
                    added = entries.take(indices[-1:])
                    partition = frames.partition_directories(ctx, added)[0]
                    return FileLocation(
                        manifest=listed.name, partition=partition, bucket=int(added.integers("bucket")[0])
                    )
    return None
