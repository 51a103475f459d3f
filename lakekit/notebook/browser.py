"""A browser of a table: timeline, manifests and levels in one widget, with linked selections.

filter  [ amount > 3                    ]      typed once: manifests say which are opened,
                                               levels highlight the files that are read
timeline    ●──●──◆──[●]                       a snapshot selected here is the one that manifests and levels show
manifests   base └ manifest-31                 an entry selected here is the file that is selected below
levels      L0 ██  ████                        a file selected here selects the manifest that added it
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import ipywidgets
import traitlets

from lakekit.draw.humanize import escape_controls
from lakekit.draw.shapes import stack_vertically
from lakekit.inspection import html_page, manifest_tree, timeline
from lakekit.inspection.timeline import locate_file
from lakekit.notebook.levels import Levels
from lakekit.notebook.manifests import Manifests
from lakekit.notebook.panels import PictureWidget, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

    import polars as pl

    from lakekit.draw.shapes import Drawing
    from lakekit.inspection.timeline import FileLocation
    from lakekit.read.table_scan import TableCore

_MAX_ENTRY_OPTIONS = 1000
"""The most entries of a manifest that are offered."""
_NO_FILE_OPTION = ("–", "")


class Browser(PictureWidget):
    """Timeline, manifests and levels of a table, linked.

    `at` is the snapshot that all show, `filter` a condition in SQL for all, `selected` what was chosen last: a
    snapshot's id, or the name of a manifest, an index file or a data file. `code` is the Python that gives the rows of
    `frame()`. `timeline`, `manifests` and `levels` are the three views, each with traits of its own. Reads the
    snapshots, and the manifests of the one shown. Raises what opening the table raises; bad filters are answered in
    words.
    """

    at = traitlets.Int(0)
    filter = traitlets.Unicode("")
    selected = traitlets.Union([traitlets.Int(), traitlets.Unicode()], default_value=0)
    code = traitlets.Unicode("")

    def __init__(self, table: TableCore) -> None:
        self.table = table
        self.timeline = Timeline(table)
        at = self.timeline.selected
        self.manifests = Manifests(table, at=at or None)
        self.levels = Levels(table, at=at or None)
        self._view: Timeline | Manifests | Levels = self.timeline
        self._is_syncing = False
        self._bucket_ids: dict[str, tuple[str, int]] = {}
        wide = ipywidgets.Layout(width="auto", max_width="60em")
        self._box = ipywidgets.Text(
            description="filter",
            placeholder="a condition in SQL, such as id > 100",
            continuous_update=False,
            layout=wide,
        )
        self._box.tooltip = "which manifests and which files would a scan with this condition read?"
        self._entries = ipywidgets.Dropdown(
            options=[_NO_FILE_OPTION],
            description="file",
            layout=ipywidgets.Layout(width="auto", max_width="60em", display="none"),
        )
        self._entries.tooltip = "the data files of the chosen manifest; choose one to see it among the levels"
        for view in (self.manifests, self.levels):
            _hide_filter(view)
        super().__init__([self._box, self.timeline, self.manifests, self._entries, self.levels], at=at)
        self._link_views()
        self._set_active_view(self.timeline)

    def frame(self) -> pl.DataFrame | pl.LazyFrame:
        """Return the rows of the last selection.

        A snapshot has the table's rows at that time, a data file those that it stores (LazyFrames both), a manifest its
        entries.
        """
        return self._view.frame()

    def save(self, path: str | PathLike[str]) -> None:
        """Write the table as one self-contained HTML page with the newest snapshots; the page says how many.

        It needs neither network nor notebook.

        Raises: `StorageFailed`.
        """
        html_page.save_page(self.table, path)

    def drawing(self) -> Drawing:
        """Return the three pictures, one below another."""
        return stack_vertically(
            stack_vertically(self.timeline.drawing(), self.manifests.drawing()), self.levels.drawing()
        )

    def as_html(self) -> str:
        """Return the tables of the three views."""
        return "".join(view.as_html() for view in (self.timeline, self.manifests, self.levels))

    def as_text(self) -> str:
        """Return the three views in characters."""
        return "\n\n".join(view.as_text() for view in (self.timeline, self.manifests, self.levels))

    def refresh(self) -> None:
        """Look for new snapshots."""
        self.timeline.refresh()

    # ---- links -------------------------------------------------------------------------------------------------------

    def _link_views(self) -> None:
        """Link the selections of the views, and register the handlers of their changes."""
        ipywidgets.link((self, "filter"), (self._box, "value"))
        for view in (self.manifests, self.levels):
            ipywidgets.link((self, "filter"), (view, "filter"))
        self.observe(lambda change: self._show_snapshot(int(change["new"])), "at")
        self.timeline.observe(lambda change: self._show_snapshot(int(change["new"])), "selected")
        self.levels.observe(lambda change: self._show_snapshot(int(change["new"])), "at")
        self.manifests.observe(lambda change: self._show_snapshot(int(change["new"])), "at")
        self.manifests.observe(self._on_manifest, "selected")
        self.levels.observe(self._on_file, "selected")
        self.levels.observe(lambda _: self._on_bucket(), ["partition", "bucket"])
        self._entries.observe(self._on_manifest_entry, "value")
        self.observe(self._on_selected_trait, "selected")
        for each in (self.timeline, self.manifests, self.levels):
            each.observe(lambda _: self._update_code(), "code")

    @contextmanager
    def _reentrancy_guard(self) -> Iterator[bool]:
        """Yield whether this is the first change of a chain; the changes that follow it are not handled."""
        first, self._is_syncing = not self._is_syncing, True
        try:
            yield first
        finally:
            if first:
                self._is_syncing = False

    def _show_snapshot(self, snapshot_id: int) -> None:
        """Show that snapshot in all three views; a selected file stays selected where the snapshot has it."""
        with self._reentrancy_guard() as first:
            if not first:
                return
            self.at = self.timeline.selected = snapshot_id
            self.manifests.at = self.levels.at = snapshot_id
            if self.levels.selected:
                self._show_file(self.levels.selected)
            self._update_entry_options()
            self._set_active_view(self.timeline)

    def _on_manifest(self, change: dict[str, Any]) -> None:
        with self._reentrancy_guard() as first:
            self._update_entry_options()
            if first:
                self._set_active_view(self.manifests if change["new"] else self.timeline)

    def _on_file(self, change: dict[str, Any]) -> None:
        with self._reentrancy_guard() as first:
            if not first:
                return
            if change["new"]:
                self._show_manifest(self._locate_file(str(change["new"])))
            self._set_active_view(self.levels if change["new"] else self.timeline)

    def _on_bucket(self) -> None:
        with self._reentrancy_guard() as first:
            if first:
                self._set_active_view(self.levels)

    def _on_manifest_entry(self, change: dict[str, Any]) -> None:
        """Show the data file selected among a manifest's entries in its bucket.

        A removed one is drawn as removed where this snapshot removed it.
        """
        with self._reentrancy_guard() as first:
            if first and change["new"]:
                self.levels.partition, self.levels.bucket = self._bucket_ids[change["new"]]
                self.levels.selected = change["new"]
                self._set_active_view(self.levels)

    def _on_selected_trait(self, change: dict[str, Any]) -> None:
        """Follow `selected` set from Python: a snapshot, a manifest, an index file or a data file.

        Any other value selects nothing.
        """
        with self._reentrancy_guard() as first:
            if not first:
                return
        wanted = change["new"]
        if isinstance(wanted, int):
            self.at = wanted
            self._set_active_view(self.timeline)
        elif self.manifests.tree.manifest(wanted) or self.manifests.tree.index(wanted):
            self.manifests.selected = wanted
            self._set_active_view(self.manifests)
        else:
            with self._reentrancy_guard():
                self._show_file(wanted)
                self._set_active_view(self.levels if self.levels.selected else self.timeline)

    # ---- parts -------------------------------------------------------------------------------------------------------

    def _locate_file(self, name: str) -> FileLocation | None:
        try:
            return locate_file(self.table, self.at, name)
        except timeline.QUERY_ERRORS:  # the views say why this snapshot cannot be read
            return None

    def _show_manifest(self, location: FileLocation | None) -> None:
        """Select the manifest of a file, and there its entry."""
        if location is not None:
            self.manifests.selected = location.manifest
            self._update_entry_options()

    def _show_file(self, name: str) -> None:
        """Select a data file and the manifest that added it; none if the snapshot has no such file."""
        location = self._locate_file(name)
        if location is not None:
            self.levels.partition, self.levels.bucket = location.partition, location.bucket
        self.levels.selected = "" if location is None else name
        self._show_manifest(location)

    def _update_entry_options(self) -> None:
        """Offer the data files of the selected manifest as options; the selected file is among them."""
        self._bucket_ids.clear()
        names: list[tuple[str, str]] = []
        for kind, partition, bucket, level, name in self._manifest_files():
            names.append((escape_controls(f"{kind} L{level} {name}"), name))
            self._bucket_ids[name] = (partition, bucket)
        with self._entries.hold_sync():
            self._entries.options = [_NO_FILE_OPTION, *names]
            self._entries.value = self.levels.selected if self.levels.selected in self._bucket_ids else ""
            self._entries.layout.display = "" if names else "none"

    def _manifest_files(self) -> list[tuple[Any, ...]]:
        """Return kind, partition, bucket, level and name of the data files of the selected manifest."""
        if self.manifests.tree.manifest(self.manifests.selected) is None:
            return []
        try:
            frame = manifest_tree.list_entries(self.table, self.manifests.selected, self.at).head(_MAX_ENTRY_OPTIONS)
        except timeline.QUERY_ERRORS:  # the manifests say why
            return []
        return frame.select("kind", "partition", "bucket", "level", "file_name").rows()

    def _set_active_view(self, view: Timeline | Manifests | Levels) -> None:
        """Make a view the one whose selection `selected` and `code` show."""
        self._view = view
        with self._reentrancy_guard():
            self.selected = view.selected or self.at
        self._update_code()

    def _update_code(self) -> None:
        self.code = self._view.code


def _hide_filter(view: ipywidgets.Widget) -> None:
    """Hide the filter box of a view: the browser's box sets all of them."""
    for child in getattr(view, "children", ()):
        if isinstance(child, ipywidgets.Text) and child.description == "filter":
            child.layout.display = "none"
        _hide_filter(child)
