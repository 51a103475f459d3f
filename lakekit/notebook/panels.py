"""The snapshots of a table as a line of marks to click: `Timeline`."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets
import traitlets

from lakekit.draw import html, timeline
from lakekit.inspection import timeline as history
from lakekit.notebook.canvas import Canvas, CanvasBox, PictureWidget

if TYPE_CHECKING:
    import polars as pl

    from lakekit.draw.shapes import Drawing
    from lakekit.draw.timeline import FileCounts, SnapshotMark
    from lakekit.read.table_core import TableCore

_LEGEND = 22.0


class Timeline(PictureWidget):
    """The snapshots of a table as marks: click one, step by the arrow keys, place them evenly or by time.

    `selected` is the selected snapshot's id (0: there is none), `code` the Python that reads the table as it was then,
    `by_time` how marks are placed. Reads all snapshot, tag and changelog files once, when it is made or refreshed, and
    the lists of the selected snapshot.

    Raises: what opening the table raises.
    """

    selected = traitlets.Int(0)
    by_time = traitlets.Bool(default_value=False)
    code = traitlets.Unicode("")

    def __init__(self, table: TableCore, *, by_time: bool = False) -> None:
        self.table = table
        self._files: dict[int, FileCounts | str] = {}
        self._quiet = False
        self._heading, self._detail, self._stage = ipywidgets.HTML(), ipywidgets.HTML(), Canvas()
        self._slider = ipywidgets.SelectionSlider(options=[("–", 0)], description="snapshot", continuous_update=False)
        self._slider.tooltip = "arrow keys step from snapshot to snapshot"
        self._switch = ipywidgets.ToggleButtons(
            options=[("evenly", False), ("by time", True)],
            value=by_time,
            tooltips=["a mark beside a mark", "by commit time"],
        )
        super().__init__(
            [self._heading, ipywidgets.HBox([self._slider, self._switch]), self._stage, self._detail], by_time=by_time
        )
        self.refresh()
        self._stage.observe(self._on_click, "chosen")
        ipywidgets.link((self._switch, "value"), (self, "by_time"))
        self._slider.observe(self._slid, "value")
        self.observe(lambda _: self._show(), "selected")
        self.observe(lambda _: self._redraw_marks(), "by_time")

    def refresh(self) -> None:
        """Read the snapshots again; the selected one stays selected while it exists, else the newest is."""
        self.history = history.history(self.table)
        self._files.clear()
        marks = self.history.marks
        newest = next((mark.id for mark in reversed(marks) if not mark.life), marks[-1].id if marks else 0)
        notes = "".join(f"<div>{escape(note)}</div>" for note in timeline.notes(self.history))
        self._heading.value = f"<b>{escape(timeline.title(self.history))}</b>{notes}"
        if self.history.find(self.selected) is None:
            self.selected = newest
        self._quiet = True  # a slider with other options jumps to the first
        try:
            with self._slider.hold_sync():
                self._slider.options = [(str(mark.id), mark.id) for mark in marks] or [("–", 0)]
                self._slider.value = self.selected
        finally:
            self._quiet = False
        self._redraw_marks()

    def frame(self) -> pl.DataFrame | pl.LazyFrame:
        """Return what `code` gives: the rows as of the selected snapshot, or the changes that were kept of it.

        It is `t.snapshots()` where none is selected.
        """
        return history.rows_of(self.table, self._mark)

    def drawing(self) -> Drawing:
        """Return the picture of the timeline, the selected snapshot in a frame."""
        return timeline.drawing(self.history, self._placed, selected=self.selected)

    def as_html(self) -> str:
        """Return the snapshots as a table, the newest first."""
        rows = [timeline.detail(mark, self._files.get(mark.id)) for mark in reversed(self.history.marks)]
        return html.table(timeline.DETAIL, rows, title=timeline.title(self.history))

    def as_text(self) -> str:
        """Return the timeline in characters."""
        return timeline.text(self.history, selected=self.selected)

    @property
    def _mark(self) -> SnapshotMark | None:
        return self.history.find(self.selected)

    def _redraw_marks(self) -> None:
        """Draw the marks at their current positions."""
        self._placed = timeline.lay_out(self.history, by_time=self.by_time)
        behind = [
            *timeline.scale_to_shares(timeline.legend(self.history, y=8)),
            *timeline.move_down(timeline.background_shapes(self.history, self._placed), _LEGEND),
        ]
        signs = timeline.signs(self.history, self._placed)
        spots = [
            CanvasBox(
                key=sign.key,
                name=f"snapshot {sign.key} {sign.color}",
                hint=sign.hint,
                left=sign.x,
                width=0,
                top=sign.y - sign.size / 2 + _LEGEND,
                height=sign.size,
                color=sign.color,
                sign=sign.sign,
                look="dim" if sign.faint else "",
            )
            for sign in signs
        ]
        self._stage.show(spots, height=_LEGEND + self._placed.height, behind=behind)
        self._show()

    def _show(self) -> None:
        """Show the selected snapshot: on the canvas, on the slider, below them."""
        mark = self._mark
        at = next((at for at, other in enumerate(self.history.marks) if other.id == self.selected), None)
        group = None if at is None else self._placed.group_of(at)
        self._stage.chosen = "" if group is None else str(self.history.marks[group.members[-1]].id)
        self.code = history.format_read_call(self.table, mark)
        if mark is None:
            alert = f"<p>There is no snapshot {self.selected}.</p>" if self.selected else ""
            self._detail.value = f"{alert}<p>{escape(self._placed.said)}</p>"
            return
        self._slider.value = mark.id
        if mark.id not in self._files:
            self._files[mark.id] = self._counted(mark)
        row = timeline.detail_html(mark, self._files[mark.id])
        merged = f"<p>{escape(self._placed.said)}</p>" if self._placed.said else ""
        self._detail.value = f"{merged}{row}<pre>{escape(self.code)}</pre>"

    def _counted(self, mark: SnapshotMark) -> FileCounts | str:
        try:
            return history.file_counts(self.table, mark)
        except history.REFUSED as error:
            return history.first_line(error)

    def _on_click(self, change: dict[str, Any]) -> None:
        """Handle a click on a mark; one that stands for several snapshots keeps a selection among them."""
        key = str(change["new"])
        if not key:
            return
        at = next(at for at, mark in enumerate(self.history.marks) if str(mark.id) == key)
        group = self._placed.group_of(at)
        if group is None or self.selected not in {self.history.marks[member].id for member in group.members}:
            self.selected = int(key)

    def _slid(self, change: dict[str, Any]) -> None:
        if not self._quiet and self.history.find(int(change["new"])) is not None:
            self.selected = int(change["new"])
