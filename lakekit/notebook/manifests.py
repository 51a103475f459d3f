"""The manifests of a snapshot as a tree to click: `Manifests`."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets
import polars as pl
import traitlets

from lakekit.draw import manifests
from lakekit.inspection import manifest_tree, timeline
from lakekit.notebook.panels import Canvas, CanvasBox, PictureWidget
from lakekit.read import time_travel
from lakekit.read.table_scan import context_of
from lakekit.system_tables import frames

if TYPE_CHECKING:
    from datetime import datetime

    from lakekit.draw.manifests import EntryFact, ManifestTree
    from lakekit.draw.shapes import Drawing
    from lakekit.inspection.manifest_tree import TreeFilter
    from lakekit.read.table_scan import TableCore

_TRANSPARENT = "#00000000"
_LEFT_INSET = 0.027


class Manifests(PictureWidget):
    """The manifest lists, manifests and index files of a snapshot.

    Selecting a manifest shows its entries, selecting an index file its vectors. `at` is the snapshot's id (0: there is
    none), `selected` the name of the selected manifest or index file, `filter` a condition in SQL: each manifest then
    says whether a scan opens it, each entry whether its file is read, as the planner decides it. `code` is the Python
    that gives `frame()`. Reads the lists of one snapshot, and the selected manifest.

    The constructor raises `SnapshotNotFound` and `TagNotFound`. Later, the widget shows the errors of invalid texts and
    missing snapshots.
    """

    at = traitlets.Int(0)
    selected = traitlets.Unicode("")
    filter = traitlets.Unicode("")
    code = traitlets.Unicode("")

    def __init__(self, table: TableCore, *, at: int | str | datetime | None = None) -> None:
        self.table = table
        self.tree: ManifestTree = manifest_tree.build_tree(table, timeline.to_snapshot_id(table, at))
        self._where: TreeFilter | None = None
        self._entries: tuple[EntryFact, ...] = ()
        self._total = 0
        self._limits: dict[str, int] = {}
        self._heading, self._message, self._detail, self._canvas = (
            ipywidgets.HTML(),
            ipywidgets.HTML(),
            ipywidgets.HTML(),
            Canvas(),
        )
        self._box = ipywidgets.Text(
            description="filter", placeholder="a condition in SQL, such as id > 100", continuous_update=False
        )
        self._box.layout.width = "38em"
        self._box.tooltip = "a condition in SQL: which manifests and files would a scan open?"
        super().__init__(
            [self._heading, self._box, self._message, self._canvas, self._detail], at=self.tree.snapshot_id
        )
        ipywidgets.link((self, "filter"), (self._box, "value"))
        self._draw()
        self._canvas.observe(self._on_select, "selected_key")
        self.observe(lambda _: self._read(), ["at", "filter"])
        self.observe(lambda _: self._draw(), "selected")

    def frame(self) -> pl.DataFrame:
        """Return the entries of the selected manifest, or the row of the selected index file.

        Without a selection it is `t.manifests(at=)`.
        """
        at = timeline.to_at_argument(self.table, self.at) if self.at else None
        if self.tree.manifest(self.selected) is not None:
            return manifest_tree.list_entries(self.table, self.selected, self.at)
        if self.tree.index(self.selected) is not None:
            indexes = frames.list_at_position(frames.indexes, context_of(self.table), at)
            return indexes.filter(pl.col("file_name") == self.selected)
        return frames.manifests(*time_travel.context_at(context_of(self.table), at))

    def drawing(self) -> Drawing:
        """Return the picture of the tree, the selected manifest in a frame."""
        return manifests.tree_drawing(self.tree, self._tree_layout, selected=self.selected)

    def as_html(self) -> str:
        """Return the tree as a table, and the entries of the selected manifest as another."""
        return manifests.tree_html(self.tree) + self._chosen_html(limit=20)

    def as_text(self) -> str:
        """Return the tree in characters."""
        return manifests.tree_text(self.tree)

    def _read(self) -> None:
        """Read the snapshot of `at`, under the filter; errors are shown below the box."""
        message, self._where = "", None
        try:
            if self.at:
                self._where = manifest_tree.parse_tree_filter(self.table, self.at, self.filter)
        except timeline.QUERY_ERRORS as error:
            message = timeline.first_line(error)
        try:
            self.tree = manifest_tree.build_tree(self.table, self.at, self._where)
        except timeline.QUERY_ERRORS as error:
            message, self.tree = (
                timeline.first_line(error),
                manifests.ManifestTree(table=timeline.display_name(self.table), snapshot_id=0, lists=()),
            )
        self._message.value = f'<p role="alert">{escape(message)}</p>' if message else ""
        if self.selected and self.tree.manifest(self.selected) is None and self.tree.index(self.selected) is None:
            self.selected = ""
        else:
            self._draw()

    def _draw(self) -> None:
        """Show the tree, and the selection below it."""
        self._tree_layout = manifests.layout_tree(self.tree, limits=self._limits, selected=self.selected)
        description = manifests.describe_filter(self.tree)
        self._heading.value = f"<b>{escape(manifests.tree_title(self.tree))}</b>" + (
            f"<div>{escape(description)}</div>" if description else ""
        )
        boxes = [
            CanvasBox(
                key=row.key,
                name=row.cells[0][1],
                hint=row.hint,
                left=_LEFT_INSET,
                width=1 - _LEFT_INSET,
                top=row.top + 1,
                height=manifests.ROW_HEIGHT - 2,
                color=_TRANSPARENT,
            )
            for row in self._tree_layout.rows
            if row.key
        ]
        self._canvas.show(boxes, height=self._tree_layout.height, behind=manifests.tree_shapes(self._tree_layout))
        self._canvas.selected_key = self.selected
        self._show_selection()

    def _show_selection(self) -> None:
        """Show the selected manifest's entries and the code that reads them."""
        opened = timeline.format_open_call(self.table)
        at = timeline.to_at_argument(self.table, self.at) if self.at else 0
        self._entries, self._total, alert = (), 0, ""
        if self.tree.manifest(self.selected) is not None:
            self.code = (
                "from lakekit.inspection import manifest_tree; "
                f"manifest_tree.list_entries({opened}, {self.selected!r}, {self.at})"
            )
            try:
                self._entries, self._total = manifest_tree.entry_facts(self.table, self.selected, self.at, self._where)
            except timeline.QUERY_ERRORS as error:
                alert = f'<p role="alert">{escape(timeline.first_line(error))}</p>'
        elif self.tree.index(self.selected) is not None:
            self.code = f'{opened}.indexes(at={at!r}).filter(pl.col("file_name") == {self.selected!r})'
        else:
            self.code = f"{opened}.manifests(at={at!r})" if self.at else f"{opened}.manifests()"
        self._detail.value = f"{alert}{self._chosen_html()}<pre>{escape(self.code)}</pre>"

    def _chosen_html(self, *, limit: int = 50) -> str:
        if (index := self.tree.index(self.selected)) is not None:
            return manifests.index_html(index, max_rows=limit)
        if (fact := self.tree.manifest(self.selected)) is None:
            return ""
        return manifests.entries_html(
            self.selected, fact, self._entries, self._total, has_filter=self._where is not None, max_rows=limit
        )

    def _on_select(self, change: dict[str, Any]) -> None:
        key = str(change["new"])
        if not key.startswith(manifests.MORE_PREFIX):
            self.selected = key
            return
        which = key.removeprefix(manifests.MORE_PREFIX)
        self._limits[which] = self._limits.get(which, manifests.FIRST_ROWS) * 4
        self._draw()
