"""The bytes of a file to click through: `Bytes`, the widget of `lk.hex(...)`."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import ipywidgets
import traitlets

from lakekit.draw import cards, hexdump as draw
from lakekit.draw.humanize import escape_controls, format_count, truncate
from lakekit.draw.shapes import TextShape, css_color
from lakekit.notebook.panels import Canvas, CanvasBox, PictureWidget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.codec.cursor import FieldSpan
    from lakekit.draw.shapes import Drawing
    from lakekit.inspection.hexdump import Hex

PAGE_BYTES = 512
"""Bytes that are shown at once."""
LINE_BYTES = 32
_OFFSET_WIDTH, _LINE_HEIGHT = 0.09, 24
_OPTION_WIDTH = 120


class Cells(Canvas):
    """Bytes as buttons in lines of 32: codes in the page's colour, a line in their field's colour below.

    The selected field has another line above it.
    """

    def fill(self, data: bytes, spans: Sequence[FieldSpan], start: int, selected: FieldSpan | None) -> None:
        """Show the page that begins at `start`."""
        page = data[start : start + PAGE_BYTES]
        self.start, self.frame = start, selected
        self.spans = draw.find_overlapping(spans, start, start + len(page))
        hints = [
            escape_controls(draw.format_span(mark))
            for mark in self.spans
            for _ in range(max(start, mark.offset), min(start + len(page), mark.end))
        ]
        boxes = [
            CanvasBox(
                key=str(start + at),
                name=f"{byte:02x}",
                hint=f"byte {format_count(start + at)}: {hint}",
                left=0,
                width=0,
                top=0,
                height=0,
                color="text",
            )
            for at, (byte, hint) in enumerate(zip(page, hints, strict=True))
        ]
        lines = range(0, len(page), LINE_BYTES)
        behind = [
            TextShape(x=0, y=at // LINE_BYTES * _LINE_HEIGHT + 11, text=f"{start + at:08x}", color="muted")
            for at in lines
        ]
        self.show(boxes, height=len(lines) * _LINE_HEIGHT, behind=behind)

    def _style(self, height: float) -> str:
        c = f".{self.css_class}"
        cell_width = (1 - _OFFSET_WIDTH) / LINE_BYTES * 100
        look = (
            f"width:{cell_width - 0.2:.2f}%;height:21px;font:12px/17px "
            f"ui-monospace,monospace;color:{css_color('text')};background:transparent"
        )
        rules = [
            super()._style(height).partition(f"{c} button:nth-of-type(")[0],
            f"{c} button{{{look};border-bottom:3px solid {draw.QUIET_COLOR};border-radius:0}}",
        ]
        rules += [
            f"{c} button:nth-of-type({LINE_BYTES}n+{at + 1}){{left:{_OFFSET_WIDTH * 100 + at * cell_width:.2f}%}}"
            for at in range(LINE_BYTES)
        ]
        rules += [
            f"{_button_selector(c, at, at + LINE_BYTES)}{{top:{at // LINE_BYTES * _LINE_HEIGHT}px}}"
            for at in range(0, len(self._boxes), LINE_BYTES)
        ]
        for mark in self.spans:
            low, high = max(mark.offset - self.start, 0), min(mark.end - self.start, len(self._boxes))
            rules.append(f"{_button_selector(c, low, high)}{{border-color:{draw.field_color(mark.field)}}}")
            if mark == self.frame:
                rules.append(
                    f"{_button_selector(c, low, high)}{{font-weight:700;box-shadow:0 -2px 0 0 "
                    f"{css_color('text')}!important}}"
                )
        return "".join(rules)


def _button_selector(css_class: str, low: int, high: int) -> str:
    """Return the CSS selector of the buttons number `low` to `high` - 1, counted from 0."""
    return f"{css_class} button:nth-of-type(n+{low + 1}):nth-of-type(-n+{high})"


class Bytes(PictureWidget):
    """The bytes of a file, 512 at a time.

    Click a byte or a field to see its name, its value and its section in the format. `offset` is the selected byte (-1:
    none), `selected` its field, `page` the first byte shown, `code` the Python that gives the field. A compressed block
    opens into its inflated bytes, and closes again.
    """

    offset = traitlets.Int(-1)
    page = traitlets.Int(0)
    selected = traitlets.Unicode("")
    code = traitlets.Unicode("")

    def __init__(self, view: Hex) -> None:
        self.view, self._is_updating = view, False
        self._outer: list[tuple[Hex, int]] = []
        self._heading, self._detail, self._page_label = ipywidgets.HTML(), ipywidgets.HTML(), ipywidgets.Label()
        self._cells = Cells()
        self._list = ipywidgets.Select(options=[], rows=8, layout=ipywidgets.Layout(width="100%"))
        self._list.tooltip = "the fields on this page"
        self._previous_page, self._next_page = (
            _button("◀ page", "the 512 bytes before"),
            _button("page ▶", "the next 512 bytes"),
        )
        self._previous_field, self._next_field = (
            _button("◀ field", "the field before"),
            _button("field ▶", "the next field"),
        )
        self._open, self._close = (
            _button("open", "the inflated bytes of this block"),
            _button("close", "back to the file"),
        )
        buttons = [
            self._previous_page,
            self._page_label,
            self._next_page,
            self._previous_field,
            self._next_field,
            self._open,
            self._close,
        ]
        super().__init__([self._heading, ipywidgets.HBox(buttons), self._cells, self._list, self._detail])
        self._previous_page.on_click(lambda _: self._turn_page(-PAGE_BYTES))
        self._next_page.on_click(lambda _: self._turn_page(PAGE_BYTES))
        self._previous_field.on_click(lambda _: self._step_field(-1))
        self._next_field.on_click(lambda _: self._step_field(1))
        self._open.on_click(lambda _: self.open_block())
        self._close.on_click(lambda _: self.close_block())
        self._cells.observe(self._on_click, "selected_key")
        self._list.observe(self._on_list_choice, "value")
        self.observe(lambda _: self._show(), "offset")
        self.observe(lambda _: self._show(), "page")
        self._show()

    @property
    def mark(self) -> FieldSpan | None:
        """The selected field: its bytes, name, value and section."""
        return self.view.at(self.offset) if 0 <= self.offset < len(self.view.data) else None

    def open_block(self) -> None:
        """Show the inflated bytes of the selected block."""
        if self.mark is not None and self.mark.offset in self.view.opens:
            self._outer.append((self.view, self.mark.offset))
            self._open_view(self.view.open(self.mark.offset), -1)

    def close_block(self) -> None:
        """Return to the file of an opened block."""
        if self._outer:
            self._open_view(*self._outer.pop())

    def _open_view(self, view: Hex, offset: int) -> None:
        self.view = view
        with self.hold_trait_notifications():
            self.offset, self.page = offset, max(offset, 0) // PAGE_BYTES * PAGE_BYTES
        self._show()

    def drawing(self) -> Drawing:
        """Return the page as a picture."""
        return draw.hexdump_drawing(self.view.title, self.view.data, self.view.spans, start=self.page)

    def as_html(self) -> str:
        """Return the first bytes as a table."""
        return self.view._repr_html_()

    def as_text(self) -> str:
        """Return the first bytes in characters."""
        return repr(self.view)

    def _on_click(self, change: dict[str, str]) -> None:
        if change["new"] and not self._is_updating:
            self.offset = int(change["new"])

    def _on_list_choice(self, change: dict[str, int | None]) -> None:
        if change["new"] is not None and not self._is_updating:
            self.offset = change["new"]

    def _turn_page(self, delta: int) -> None:
        self.page = min(max(0, self.page + delta), max(0, len(self.view.data) - 1) // PAGE_BYTES * PAGE_BYTES)

    def _step_field(self, steps: int) -> None:
        marks, mark = self.view.spans, self.mark
        if not marks:
            return
        at = (
            draw.first_span_ending_after(marks, mark.offset) + steps
            if mark is not None
            else draw.first_span_ending_after(marks, self.page)
        )
        offset = marks[min(max(at, 0), len(marks) - 1)].offset
        with self.hold_trait_notifications():
            self.offset, self.page = offset, offset // PAGE_BYTES * PAGE_BYTES

    def _show(self) -> None:
        """Draw the page and show the selected field."""
        view, mark = self.view, self.mark
        self._is_updating = True
        try:
            error_html = f"<div><b>{escape(escape_controls(view.error_line))}</b></div>" if view.error_line else ""
            self._heading.value = f"<b>{escape(view.title)}</b>{error_html}"
            self._cells.fill(view.data, view.spans, self.page, mark)
            chosen_key = str(self.offset) if mark is not None else ""
            self._cells.selected_key = chosen_key if self.page <= self.offset < self.page + PAGE_BYTES else ""
            options = [
                (truncate(f"{span.offset:08x}  {draw.format_span(span)}", _OPTION_WIDTH), span.offset)
                for span in self._cells.spans
            ]
            with self._list.hold_sync():
                self._list.options = options
                self._list.value = mark.offset if mark is not None and mark in self._cells.spans else None
        finally:
            self._is_updating = False
        last = min(self.page + PAGE_BYTES, len(view.data))
        self._page_label.value = (
            f"bytes {format_count(self.page)} to {format_count(max(last - 1, 0))} of {format_count(len(view.data))}"
        )
        self._previous_page.disabled, self._next_page.disabled = self.page == 0, last >= len(view.data)
        self._open.disabled, self._close.disabled = mark is None or mark.offset not in view.opens, not self._outer
        self.selected = "" if mark is None else mark.field
        self._detail.value = "" if mark is None else cards.html_card("", draw.span_facts(mark))
        opened = "".join(f".open({offset})" for _, offset in self._outer)
        source = self._outer[0][0] if self._outer else view
        self.code = f"lk.hex({source.path!r}){opened}" if source.path else f"lk.hex(data){opened}"
        if mark is not None:
            self.code += f".at({self.offset})"


def _button(name: str, hint: str) -> ipywidgets.Button:
    return ipywidgets.Button(description=name, tooltip=hint, layout=ipywidgets.Layout(width="auto"))
