"""What widgets are made of: clickable boxes, output without widgets, `Timeline`, a progress bar.

    Canvas ── HTML (style sheet, text, lines)
           └─ ToggleButtons: button k is box k         one model for a thousand boxes; Tab and Enter reach each,
                                                       hints and names come with the buttons

    widget view   JupyterLab, Notebook, VS Code, Colab while a kernel runs
    text/html     <img data:image/png> and the table below it: unrun, untrusted, exported, on a code host; marimo
    image/png     the picture alone, for hosts that know no HTML
    text/plain    the picture in characters

A button each of its own would be three models a box, which a notebook server drops beyond some hundreds (measured).

JupyterLab ranks text/html (50) above image/png (90), and so does nbconvert: a table alone would hide the picture from
readers who do not run the notebook. Hence the HTML begins with the same picture. Counted in JupyterLab 4.6, untrusted,
and in nbconvert 7.17: beside the view, "table, image/png" shows no picture but a table, "image/png" a picture but no
table, "picture and table, image/png" both. Both hosts keep an image whose address is `data:`; only nbconvert's
`sanitize_html`, off by default, does not.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from html import escape
from itertools import count
from typing import TYPE_CHECKING, Any

import ipywidgets
import traitlets
from IPython.display import display

from lakekit.draw import cards, timeline
from lakekit.draw.humanize import escape_controls
from lakekit.draw.png import to_png
from lakekit.draw.shapes import Marker, Rect, TextShape, css_color
from lakekit.inspection import timeline as history

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl

    from lakekit.draw.shapes import Drawing, Shape
    from lakekit.draw.timeline import FileCounts, SnapshotMark
    from lakekit.read.table_scan import TableCore


_CSS_CLASS_NUMBERS = count()
_FAINT_OPACITY = 0.35
_MIN_WIDTH_PX = 815
"""The width in pixels below which texts would overlap: a narrower page gets a scroll bar instead."""
_LIGHT_ALPHA = "66"
"""The opacity of what is deleted, as CSS writes it behind a colour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanvasBox:
    """A box that can be selected.

    `key` is its value, `name` the text of a screen reader, `hint` the text on hovering. `left` and `width` are
    fractions of the canvas' width (0 to 1), `top` and `height` pixels. `state`: "" | "added" | "removed" | "lit" |
    "dim". With `sign` ("circle", "square", "diamond", "triangle") it is such a sign of `height` pixels a side in the
    middle of its width, however wide the canvas is. `deleted_fraction` is the fraction of the box that is drawn
    lighter, from its top: what is deleted in it.
    """

    key: str
    name: str
    hint: str
    left: float
    width: float
    top: float
    height: float
    color: str
    state: str = ""
    round: float = 3
    sign: str = ""
    deleted_fraction: float = 0.0


class Canvas(ipywidgets.Box):
    """`.chosen` is the key of the chosen box, "" without one; set it from Python or click."""

    selected_key = traitlets.Unicode("")

    def __init__(self) -> None:
        self.css_class = f"lakekit-stage-{next(_CSS_CLASS_NUMBERS)}"
        self._background = ipywidgets.HTML()
        self._buttons = ipywidgets.ToggleButtons(options=[], value=None)
        self._boxes: tuple[CanvasBox, ...] = ()
        self._is_updating = False
        super().__init__([self._background, self._buttons])
        self.add_class(self.css_class)
        self._buttons.observe(self._on_pick, "value")
        self.observe(self._on_key, "selected_key")

    def show(self, boxes: Sequence[CanvasBox], *, height: float, behind: Sequence[Shape] = ()) -> None:
        """Draw these boxes, and text and lines behind them; an existing selection stays.

        The x of what is behind is a fraction of the width.
        """
        same = [(box.key, box.name, box.hint) for box in boxes] == [
            (box.key, box.name, box.hint) for box in self._boxes
        ]
        self._boxes = tuple(boxes)
        wanted = self.selected_key if any(box.key == self.selected_key for box in boxes) else ""
        self._background.value = f"<style>{self._style(height)}</style>{''.join(map(_shape_html, behind))}"
        if not same:
            self._is_updating = True
            try:
                with self._buttons.hold_sync():  # one message, whatever the front end knew before
                    self._buttons.options = [(escape_controls(box.name), box.key) for box in boxes]
                    self._buttons.tooltips = [escape_controls(box.hint) for box in boxes]
                    self._buttons.value = wanted or None
            finally:
                self._is_updating = False
        self.selected_key = wanted

    def _on_pick(self, change: dict[str, object]) -> None:
        if not self._is_updating:
            self.selected_key = str(change["new"] or "")

    def _on_key(self, change: dict[str, object]) -> None:
        key = str(change["new"])
        self._buttons.value = key if any(box.key == key for box in self._boxes) else None

    def _style(self, height: float) -> str:
        c = f".{self.css_class}"
        rules = [
            (
                f"{c}{{position:relative;width:100%;min-width:{_MIN_WIDTH_PX}px;height:{height:.0f}px;"
                f"margin:0;overflow:visible}}"
            ),
            f"{c}{{font:12px ui-monospace,monospace;color:{css_color('text')}}}",
            f"{c}>*,{c} .widget-html-content{{position:static!important;width:100%;margin:0;overflow:visible}}",
            f"{c} .widget-label{{display:none}}",
            f"{c} i{{position:absolute;font-style:normal;white-space:pre;line-height:14px;pointer-events:none}}",
            (
                f"{c} "
                f"button{{position:absolute;min-width:0;margin:0!important;padding:0;border:0;font-size:0;"
                f"cursor:pointer;box-shadow:none}}"
            ),
            f"{c} button:hover{{filter:brightness(1.15)}}",
            (
                f"{c} button:focus-visible{{outline:2.5px dashed "
                f"{css_color('text')}!important;outline-offset:1px;z-index:3}}"
            ),
            f"{c} button.mod-active{{outline:2.5px solid {css_color('text')}!important;z-index:2}}",
        ]
        rules += [
            f"{c} button:nth-of-type({number}){{{_geometry_style(box)}}}" for number, box in enumerate(self._boxes, 1)
        ]
        return "".join(rules)


def _geometry_style(box: CanvasBox) -> str:
    if box.sign:
        return _marker_style(box)
    geometry = (
        f"left:{box.left * 100:.3f}%;width:max(3px,calc({box.width * 100:.3f}% - "
        f"1px));top:{box.top:.1f}px;height:{box.height:.1f}px"
    )
    color = css_color(box.color)
    if box.deleted_fraction > 0 and color.startswith("#"):
        color = f"linear-gradient({color}{_LIGHT_ALPHA} max(2px,{min(box.deleted_fraction, 1) * 100:.1f}%),{color} 0)"
    looks = {
        "": f"background:{color}",
        "added": f"background:{color};box-shadow:0 0 0 2px {css_color('added')}!important",
        "removed": f"background:transparent;border:1.5px dashed {css_color('removed')}!important",
        "lit": f"background:{color};box-shadow:0 0 0 3px {css_color('probe')}!important;z-index:1",
        "dim": f"background:{color};opacity:{_FAINT_OPACITY}",
    }
    return f"{geometry};border-radius:{box.round:g}px;{looks[box.state]}"


def _marker_style(box: CanvasBox) -> str:
    """Return the position and colour of a sign.

    Nothing is clipped: the outline of the selected one goes around it.
    """
    side = box.height
    geometry = (
        f"left:calc({(box.left + box.width / 2) * 100:.3f}% - "
        f"{side / 2:.1f}px);width:{side:.1f}px;top:{box.top:.1f}px;height:{side:.1f}px"
    )
    looks = {
        "dim": f";opacity:{_FAINT_OPACITY}",
        "lit": f";box-shadow:0 0 0 3px {css_color('probe')}!important;z-index:1",
    }
    return f"{geometry};{_paint(box.sign, css_color(box.color), side)}{looks.get(box.state, '')}"


def _paint(sign: str, color: str, side: float) -> str:
    if sign == "triangle":
        halves = ", ".join(f"linear-gradient(to bottom {to},transparent 50%,{color} 50%)" for to in ("right", "left"))
        places = "background-position:left,right;background-size:50% 100%;background-repeat:no-repeat"
        return f"background-color:transparent!important;background-image:{halves};{places}"
    looks = {
        "circle": f"border-radius:{side / 2:g}px",
        "diamond": "transform:rotate(45deg) scale(0.72);border-radius:1px",
    }
    return f"background:{color};{looks.get(sign, 'border-radius:1px')}"


def _shape_html(shape: Shape) -> str:
    """Return text, signs and lines of the canvas as HTML; x and widths are fractions of its width."""
    if isinstance(shape, Marker):
        geometry = f"left:calc({shape.x * 100:.3f}% - {shape.size / 2:.1f}px);top:{shape.y - shape.size / 2:.1f}px"
        paint = _paint(shape.symbol, css_color(shape.color), shape.size)
        look = f"{geometry};width:{shape.size:.1f}px;height:{shape.size:.1f}px;{paint}"
        return f"<i style='{look};opacity:{_FAINT_OPACITY if shape.is_faint else 1}'></i>"
    if isinstance(shape, TextShape):
        shift = {"start": "0", "middle": "-50%", "end": "-100%"}[shape.anchor]
        font = f"color:{css_color(shape.color)};font-size:{shape.size:g}px"
        look = f"left:{shape.x * 100:.3f}%;top:{shape.y - 7:.1f}px;transform:translateX({shift});{font}"
        return (
            f"<i style='{look}{';font-weight:600' if shape.is_bold else ''}'>{escape(escape_controls(shape.text))}</i>"
        )
    if isinstance(shape, Rect):
        look = (
            f"left:{shape.x * 100:.3f}%;top:{shape.y:.1f}px;width:{shape.width * 100:.3f}%;height:{shape.height:.1f}px"
        )
        paint = (
            f"border:1px solid {css_color(shape.color)}" if shape.is_outline else f"background:{css_color(shape.color)}"
        )
        return f"<i style='{look};{paint};opacity:{_FAINT_OPACITY if shape.is_faint else 1}'></i>"
    width = f"calc({abs(shape.to_x - shape.x) * 100:.3f}% + {shape.thickness:g}px)"
    height = f"{abs(shape.to_y - shape.y) + shape.thickness:.1f}px"
    look = (
        f"left:{min(shape.x, shape.to_x) * 100:.3f}%;top:{min(shape.y, shape.to_y):.1f}px;width:{width};height:{height}"
    )
    return f"<i style='{look};background:{css_color(shape.color)}'></i>"


# ---- pictured ------------------------------------------------------------


WIDGET_VIEW_MIME = "application/vnd.jupyter.widget-view+json"


class PictureWidget(ipywidgets.VBox):
    """A widget that can tell what it shows now.

    Every view has `drawing`, the picture; `as_html`, a table without style blocks; and `as_text`, the same in
    characters. (The metaclass of widgets takes no abstract methods, so they are annotated.)
    """

    drawing: Callable[[], Drawing]
    as_html: Callable[[], str]
    as_text: Callable[[], str]

    def picture(self) -> bytes:
        """Return the PNG of the current view."""
        return to_png(self.drawing())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        view = super()._repr_mimebundle_()
        bundle = {WIDGET_VIEW_MIME: view[WIDGET_VIEW_MIME]} if view and WIDGET_VIEW_MIME in view else {}
        code, page = self._pictured()
        return bundle | {"image/png": code, "text/html": page, "text/plain": self.as_text()}

    def _mime_(self) -> tuple[str, str]:
        """Return the output for marimo, which does not show Jupyter's widgets."""
        return "text/html", self._pictured()[1]

    def _pictured(self) -> tuple[str, str]:
        """Return the PNG in base64, and the HTML that begins with it; both of one drawing."""
        drawing = self.drawing()
        code = base64.b64encode(to_png(drawing)).decode()
        alt = escape(escape_controls(drawing.description))
        return code, f'<img alt="{alt}" width="{drawing.width:.0f}" src="data:image/png;base64,{code}">{self.as_html()}'


# ---- panels ------------------------------------------------------------


_LEGEND_HEIGHT = 22.0


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
        self._is_updating = False
        self._heading, self._detail, self._canvas = ipywidgets.HTML(), ipywidgets.HTML(), Canvas()
        self._slider = ipywidgets.SelectionSlider(options=[("–", 0)], description="snapshot", continuous_update=False)
        self._slider.tooltip = "arrow keys step from snapshot to snapshot"
        self._switch = ipywidgets.ToggleButtons(
            options=[("evenly", False), ("by time", True)],
            value=by_time,
            tooltips=["a mark beside a mark", "by commit time"],
        )
        super().__init__(
            [self._heading, ipywidgets.HBox([self._slider, self._switch]), self._canvas, self._detail], by_time=by_time
        )
        self.refresh()
        self._canvas.observe(self._on_click, "selected_key")
        ipywidgets.link((self._switch, "value"), (self, "by_time"))
        self._slider.observe(self._on_slide, "value")
        self.observe(lambda _: self._show(), "selected")
        self.observe(lambda _: self._redraw_marks(), "by_time")

    def refresh(self) -> None:
        """Read the snapshots again, and select the newest one if the selected one is gone."""
        self.history = history.read_snapshot_history(self.table)
        self._files.clear()
        marks = self.history.marks
        newest = next((mark.id for mark in reversed(marks) if not mark.retained_by), marks[-1].id if marks else 0)
        notes = "".join(f"<div>{escape(note)}</div>" for note in timeline.history_notes(self.history))
        self._heading.value = f"<b>{escape(timeline.timeline_title(self.history))}</b>{notes}"
        if self.history.find(self.selected) is None:
            self.selected = newest
        self._is_updating = True  # a slider with other options jumps to the first
        try:
            with self._slider.hold_sync():
                self._slider.options = [(str(mark.id), mark.id) for mark in marks] or [("–", 0)]
                self._slider.value = self.selected
        finally:
            self._is_updating = False
        self._redraw_marks()

    def frame(self) -> pl.DataFrame | pl.LazyFrame:
        """Return the result of `code`: the rows as of the selected snapshot, or the changelog that was kept of it.

        It is `t.snapshots()` where none is selected.
        """
        return history.read_mark(self.table, self._selected_mark)

    def drawing(self) -> Drawing:
        """Return the picture of the timeline, the selected snapshot in a frame."""
        return timeline.timeline_drawing(self.history, self._timeline_layout, selected=self.selected)

    def as_html(self) -> str:
        """Return the snapshots as a table, the newest first."""
        rows = [timeline.detail_row(mark, self._files.get(mark.id)) for mark in reversed(self.history.marks)]
        return cards.html_table(timeline.DETAIL_COLUMNS, rows, title=timeline.timeline_title(self.history))

    def as_text(self) -> str:
        """Return the timeline in characters."""
        return timeline.timeline_text(self.history, selected=self.selected)

    @property
    def _selected_mark(self) -> SnapshotMark | None:
        return self.history.find(self.selected)

    def _redraw_marks(self) -> None:
        """Draw the marks at their current positions."""
        self._timeline_layout = timeline.lay_out_marks(self.history, by_time=self.by_time)
        behind = [
            *timeline.scale_to_shares(timeline.legend_shapes(self.history, y=8)),
            *timeline.move_down(timeline.background_shapes(self.history, self._timeline_layout), _LEGEND_HEIGHT),
        ]
        signs = timeline.marker_shapes(self.history, self._timeline_layout)
        spots = [
            CanvasBox(
                key=sign.key,
                name=f"snapshot {sign.key} {sign.color}",
                hint=sign.hint,
                left=sign.x,
                width=0,
                top=sign.y - sign.size / 2 + _LEGEND_HEIGHT,
                height=sign.size,
                color=sign.color,
                sign=sign.symbol,
                state="dim" if sign.is_faint else "",
            )
            for sign in signs
        ]
        self._canvas.show(spots, height=_LEGEND_HEIGHT + self._timeline_layout.height, behind=behind)
        self._show()

    def _show(self) -> None:
        """Show the selected snapshot: on the canvas, on the slider, below them."""
        mark = self._selected_mark
        at = next((at for at, other in enumerate(self.history.marks) if other.id == self.selected), None)
        group = None if at is None else self._timeline_layout.group_at(at)
        self._canvas.selected_key = "" if group is None else str(self.history.marks[group.members[-1]].id)
        self.code = history.format_read_call(self.table, mark)
        if mark is None:
            alert = f"<p>There is no snapshot {self.selected}.</p>" if self.selected else ""
            self._detail.value = f"{alert}<p>{escape(self._timeline_layout.note)}</p>"
            return
        self._slider.value = mark.id
        if mark.id not in self._files:
            self._files[mark.id] = self._file_counts(mark)
        row = timeline.detail_html(mark, self._files[mark.id])
        merged = f"<p>{escape(self._timeline_layout.note)}</p>" if self._timeline_layout.note else ""
        self._detail.value = f"{merged}{row}<pre>{escape(self.code)}</pre>"

    def _file_counts(self, mark: SnapshotMark) -> FileCounts | str:
        try:
            return history.file_counts(self.table, mark)
        except history.QUERY_ERRORS as error:
            return history.first_line(error)

    def _on_click(self, change: dict[str, Any]) -> None:
        """Handle a click on a mark; one that stands for several snapshots keeps a selection among them."""
        key = str(change["new"])
        if not key:
            return
        at = next(at for at, mark in enumerate(self.history.marks) if str(mark.id) == key)
        group = self._timeline_layout.group_at(at)
        if group is None or self.selected not in {self.history.marks[member].id for member in group.members}:
            self.selected = int(key)

    def _on_slide(self, change: dict[str, Any]) -> None:
        if not self._is_updating and self.history.find(int(change["new"])) is not None:
            self.selected = int(change["new"])


# ---- progress ------------------------------------------------------------


class ProgressBar:
    """One bar under the running cell; see `lakekit.progress`."""

    def __init__(self) -> None:
        self._bar = ipywidgets.IntProgress(min=0, layout=ipywidgets.Layout(width="160px"))
        self._bar.add_class("lakekit-progress")
        self._line = ipywidgets.HTML()
        self._box = ipywidgets.HBox([self._bar, self._line])
        self._display = display(self._box, display_id=True)  # type: ignore[no-untyped-call]

    def show(self, completed: int, total: int, line: str) -> None:
        """Move the bar; without a total it is full and striped."""
        self._bar.max = max(total, completed, 1)
        self._bar.value = completed if total else self._bar.max
        self._bar.bar_style = "" if total else "info"
        self._line.value = escape(line)

    def close(self) -> None:
        """Close the widgets, and empty their output: a notebook saved now has no trace of them."""
        try:
            if self._display is not None:
                self._display.update({}, raw=True)
        finally:
            for widget in (self._box, self._bar, self._line):
                widget.close()
                widget.layout.close()
            self._bar.style.close()
            self._line.style.close()
