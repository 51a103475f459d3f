"""The progress of long work under a notebook's cell: an IntProgress and a line.

Both are removed when the work is done.
"""

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

    def show(self, completed: int, total: int, line: str) -> None:
        """Move the bar; without a total it is full and striped."""
        self._bar.max = max(total, completed, 1)
        self._bar.value = completed if total else self._bar.max
        self._bar.bar_style = "" if total else "info"
        self._line.value = escape(line)

    def close(self) -> None:
        """Close the widgets, and empty their output: a notebook saved now has no trace of them."""
        try:
            if self._shown is not None:
                self._shown.update({}, raw=True)
        finally:
            for widget in (self._box, self._bar, self._line):
                widget.close()
                widget.layout.close()
            self._bar.style.close()
            self._line.style.close()
