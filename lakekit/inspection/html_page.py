"""A table as one HTML page: `lakekit browse PATH -o page.html`, `t.browse().save("page.html")`.

Reads metadata only, of the snapshots that are in the page.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from lakekit.draw import level_layout, levels, manifests, timeline
from lakekit.draw.html_page import HtmlPage, PagePane, SnapshotView, add_click_targets, render_page, snapshot_section
from lakekit.draw.humanize import format_size, plural
from lakekit.draw.shapes import DEFAULT_WIDTH, Rect
from lakekit.errors import StorageFailed
from lakekit.inspection import levels as picture, manifest_tree, timeline as history
from lakekit.read.table_scan import context_of
from lakekit.system_tables import frames
from lakekit.system_tables.frames import file_totals, merge_health

if TYPE_CHECKING:
    from os import PathLike

    from lakekit.draw.timeline import SnapshotMark
    from lakekit.inspection.levels import BucketLocation, SnapshotChanges
    from lakekit.read.table_scan import TableCore

MAX_SNAPSHOTS = 30
"""The most snapshots in a page."""
MAX_CHARS = 8_000_000
"""The size of a page to which no further snapshot is added."""
MAX_BUCKETS = 24
"""The most buckets of a snapshot that are drawn."""
MAX_BOXES = 400
"""The most boxes of a bucket; above it neighbours merge."""
_LEFT_INSET = 0.027


def build_page(table: TableCore, *, snapshots: int = MAX_SNAPSHOTS, letters: int = MAX_CHARS) -> str:
    """Return the page as text: table facts, timeline, and manifests and levels of the newest snapshots.

    There are as many snapshots as fit; the page says how many.

    Raises: what reading the table raises.
    """
    snapshot_history = history.read_snapshot_history(table)
    moments: list[SnapshotView] = []
    spent = 0
    for mark in reversed(snapshot_history.marks):
        if len(moments) == snapshots or (moments and spent > letters):
            break
        moments.append(_snapshot_view(table, mark))
        spent += len(snapshot_section(moments[-1]))
    return render_page(
        HtmlPage(
            name=history.display_name(table),
            table_facts=_head_facts(table),
            open_code=history.format_open_call(table),
            timeline=timeline.timeline_drawing(snapshot_history, timeline.lay_out_marks(snapshot_history)),
            snapshots=tuple(moments),
            snapshot_count=len(snapshot_history.marks),
        )
    )


def save_page(table: TableCore, path: str | PathLike[str], *, snapshots: int = MAX_SNAPSHOTS) -> int:
    """Write the page to a file of this machine, replacing an existing one; return its size in bytes.

    Raises: `StorageFailed` if that fails.
    """
    data = build_page(table, snapshots=snapshots).encode()
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        msg = f"the page could not be written to {path}: {error.strerror or error}"
        raise StorageFailed(msg, path=str(path)) from error
    return len(data)


def _head_facts(table: TableCore) -> list[tuple[str, object]]:
    """Return the facts at the head of the page."""
    ctx = context_of(table)
    schema = ctx.schema
    fields = ", ".join(f"{field.name} {field.type}" for field in schema.fields)
    facts: list[tuple[str, object]] = [
        ("columns", fields),
        ("primary key", ", ".join(schema.primary_keys) or "none: rows are only appended"),
    ]
    if schema.partition_keys:
        facts.append(("partitioned by", ", ".join(schema.partition_keys)))
    if schema.comment:
        facts.append(("comment", schema.comment))
    files = frames.list_at_position(frames.files, ctx, None)
    facts.append(("files", file_totals(files)))
    if schema.primary_keys:
        facts.append(("health", merge_health(files)))
    return [*facts, ("location", table.location)]


def _snapshot_view(table: TableCore, mark: SnapshotMark) -> SnapshotView:
    """Return the view of one snapshot; where it cannot be read any more, a view with the reason."""
    details: dict[str, str] = {}
    note = ""
    buckets: tuple[PagePane, ...] = ()
    try:
        tree = _manifest_pane(table, mark.id)
    except history.QUERY_ERRORS as error:
        tree = PagePane(heading="manifests", note=history.first_line(error))
    try:
        buckets, note = _bucket_panes(table, mark.id, details)
    except history.QUERY_ERRORS as error:
        note = history.first_line(error)
    return SnapshotView(
        snapshot_id=mark.id,
        heading=timeline.snapshot_tooltip(mark),
        reading_code=history.format_read_call(table, mark),
        at_argument=repr(mark.tags[0] if mark.retained_by == "tag" else mark.id),
        manifests=tree,
        buckets=buckets,
        note=note,
        details=details,
    )


def _manifest_pane(table: TableCore, snapshot_id: int) -> PagePane:
    """Return the manifests of a snapshot, each row a button."""
    tree = manifest_tree.build_tree(table, snapshot_id)
    placed = manifests.layout_tree(tree)
    drawing = manifests.tree_drawing(tree, placed)
    top = drawing.height - placed.height - 4
    rows = [
        Rect(
            key=f"{'index' if tree.index(row.key) else 'manifest'}/{row.key}",
            hint=row.hint,
            x=_LEFT_INSET * DEFAULT_WIDTH,
            y=top + row.top + 1,
            width=(1 - _LEFT_INSET) * DEFAULT_WIDTH,
            height=manifests.ROW_HEIGHT - 2,
            color="text",
            corner_radius=3,
        )
        for row in placed.rows
        if row.key and not row.key.startswith(manifests.MORE_PREFIX)
    ]
    return PagePane(heading="manifests", drawing=add_click_targets(drawing, rows))


def _bucket_panes(table: TableCore, snapshot_id: int, details: dict[str, str]) -> tuple[tuple[PagePane, ...], str]:
    """Return the levels of each bucket, the largest where there are too many, and a note on the others."""
    files, changes = picture.read_live_files(table, snapshot_id), picture.read_snapshot_changes(table, snapshot_id)
    every = picture.list_buckets(files)
    largest = (
        files.group_by("partition", "bucket")
        .agg(pl.col("size_bytes").sum())
        .sort("size_bytes", "partition", "bucket", descending=True)
    )
    drawn = {*largest.head(MAX_BUCKETS).select("partition", "bucket").rows()}
    panes = tuple(
        _bucket_pane(table, snapshot_id, files, changes, bucket, details)
        for bucket in every
        if (bucket.partition, bucket.bucket) in drawn
    )
    left = len(every) - len(panes)
    return (
        panes,
        f"The {MAX_BUCKETS} largest buckets are drawn; {plural(left, 'smaller one is', 'smaller ones are')} not in "
        "this page."
        if left
        else "",
    )


def _bucket_pane(
    table: TableCore,
    snapshot_id: int,
    files: pl.DataFrame,
    changes: SnapshotChanges,
    location: BucketLocation,
    details: dict[str, str],
) -> PagePane:
    """Return one bucket on its key axis, each box a button."""
    schema = context_of(table).schema
    is_append = not schema.primary_keys
    state = picture.bucket_state(snapshot_id, files, changes, location, is_append=is_append)
    heading = " · ".join(filter(None, (location.partition, f"bucket {location.bucket}")))
    title = f"{plural(len(state.files), 'file')} · {format_size(sum(file.size_bytes for file in state.files))}"
    query = level_layout.LevelQuery(notes=picture.bucket_notes(table, location, state))
    view = levels.build_picture(
        title, [state], key_names=schema.trimmed_primary_keys, is_append=is_append, query=query, limit=MAX_BOXES
    )
    details |= {
        f"file/{box.files[0].name}": level_layout.file_facts_line(box.files[0], is_append=is_append)
        for box in view.boxes
        if len(box.files) == 1
    }
    boxes = [
        Rect(
            key=f"{_box_kind(box)}/{box.files[0].name}",
            hint=box.hint,
            x=box.left * DEFAULT_WIDTH,
            y=box.top,
            width=box.width * DEFAULT_WIDTH,
            height=box.height,
            color="text",
            corner_radius=2,
        )
        for box in view.boxes
    ]
    return PagePane(heading=heading, drawing=add_click_targets(levels.to_drawing(view), boxes))


def _box_kind(box: levels.LevelBox) -> str:
    return "removed" if box.state == "removed" else "file" if len(box.files) == 1 else "files"
