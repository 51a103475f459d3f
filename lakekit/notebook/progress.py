"""How far long work has come, under a notebook's cell: an IntProgress and a line, and nothing of them when the work is done."""

from __future__ import annotations

from html import escape

import ipywidgets
from IPython.display import display


class Bar:
    """One bar under the running cell; see `lakekit.progress`."""

    def __init__(self) -> None:
        self._bar = ipywidgets.IntProgress(min=0, layout=ipywidgets.Layout(width="160px"))
        self._bar.add_class("lakekit-progress")
        self._line = ipywidgets.HTML()
        self._box = ipywidgets.HBox([self._bar, self._line])
        self._shown = display(self._box, display_id=True)  # type: ignore[no-untyped-call]

    def show(self, done: int, total: int, line: str) -> None:
        """Moves the bar; without a total it stands full and striped."""
        self._bar.max = max(total, done, 1)
        self._bar.value = done if total else self._bar.max
        self._bar.bar_style = "" if total else "info"
        self._line.value = escape(line)

    def close(self) -> None:
        """Closes the widgets, and empties the output they stood in: a notebook saved now has no trace of them."""
        try:
            if self._shown is not None:
                self._shown.update({}, raw=True)
        finally:
            for widget in (self._box, self._bar, self._line):
                widget.close()
                widget.layout.close()
            self._bar.style.close()
            self._line.style.close()
