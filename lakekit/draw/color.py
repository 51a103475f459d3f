"""The colours of every picture, by their meaning.

Boxes keep a contrast of 3 to white and to black background, text one of 4.5. Text and axes take the colours of the page
they stand on (`css`): JupyterLab's variables, or the system's where there are none. A PNG has white background.
"""

from __future__ import annotations

LEVELS = ("#d95f02", "#7570b3", "#1b9e77", "#b58900", "#5c9a1b", "#a6761d", "#6b7f8c")
"""The colours of level 0, 1, … and all deeper ones."""

INK = {
    "text": "#333333",
    "muted": "#595959",
    "axis": "#8c8c8c",
    "probe": "#c2407f",
    "added": "#2e8b57",
    "removed": "#b84a3a",
    "deleted": "#b84a3a",
    "APPEND": "#3b82c4",
    "COMPACT": "#7570b3",
    "OVERWRITE": "#b84a3a",
    "ANALYZE": "#2e8b57",
}
BACKGROUND = "#ffffff"

_PAGE = {
    "text": "var(--jp-ui-font-color1,CanvasText)",
    "muted": "var(--jp-ui-font-color1,CanvasText)",
    "axis": "var(--jp-border-color1,GrayText)",
}


def level(number: int) -> str:
    """Return the colour of a level's boxes."""
    return LEVELS[min(max(number, 0), len(LEVELS) - 1)]


def ink(name: str) -> str:
    """Return the colour of that meaning as `#rrggbb`; such a colour itself as it is."""
    return name if name.startswith("#") else INK[name]


def css(name: str) -> str:
    """Return the colour of that meaning on a page: text and axes follow its theme."""
    return _PAGE.get(name) or ink(name)
