"""A drawing: boxes, lines and text on a plane, which becomes a PNG (`draw.png`), an SVG or buttons.

    (0, 0) ──────────────── width ───► x
      │    ┌──────┐
      │    │ Rect │  TextShape
    height └──────┘
      ▼ y                       all in CSS pixels; colours by name, for their meaning (`hex_color`, `css_color`)

The plane is transparent: a drawing has to read well on light and on dark background. Boxes keep a contrast of 3 to
white and to black background, text one of 4.5. Text and axes take the colours of the page they stand on (`css_color`):
JupyterLab's variables, or the system's where there are none. `draw.png` draws the same on white background. `to_svg` is
for lakekit's own pages: notebooks strip it where they are not trusted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape

from lakekit.draw.humanize import escape_controls

DEFAULT_WIDTH = 880
"""The default width of pictures in CSS pixels: the width of a notebook's output on a laptop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rect:
    """A filled box, or with `is_outline` only its border.

    `is_faint` lets the background shine through; `corner_radius` is the radius of the corners. `key` is what the box
    stands for if a page makes it clickable: the name of a file, the id of a snapshot. `hint` is the tooltip.
    """

    x: float
    y: float
    width: float
    height: float
    color: str
    is_outline: bool = False
    is_faint: bool = False
    corner_radius: float = 0
    hint: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stroke:
    """A straight line."""

    x: float
    y: float
    to_x: float
    to_y: float
    color: str = "axis"
    thickness: float = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TextShape:
    """Text on one line.

    `anchor` says which of its points stands at (x, y): "start", "middle" or "end" of its middle line.
    """

    x: float
    y: float
    text: str
    color: str = "text"
    anchor: str = "start"
    size: float = 11
    is_bold: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """A small filled sign with its middle at (x, y), as large as a square of `size` a side.

    `symbol` is "circle", "square", "diamond" or "triangle".
    """

    x: float
    y: float
    size: float
    color: str
    symbol: str = "circle"
    is_faint: bool = False
    hint: str = ""
    key: str = ""


Shape = Rect | Stroke | TextShape | Marker


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Shapes in the order of painting; `description` is one sentence about the picture for screen readers."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    description: str


def marker_vertices(sign: Marker) -> tuple[tuple[float, float], ...]:
    """Return the corners of a marker; a circle has none."""
    x, y, half = sign.x, sign.y, sign.size / 2
    match sign.symbol:
        case "square":
            return (x - half, y - half), (x + half, y - half), (x + half, y + half), (x - half, y + half)
        case "diamond":
            return (x, y - half), (x + half, y), (x, y + half), (x - half, y)
        case "triangle":
            return (x, y - half), (x + half, y + half), (x - half, y + half)
    return ()


def stack_vertically(first: Drawing, second: Drawing, *, gap: float = 10) -> Drawing:
    """Return both drawings as one, the second below the first."""
    down = first.height + gap
    moved = tuple(_move_down(shape, down) for shape in second.shapes)
    description = " ".join(filter(None, (first.description, second.description)))
    return Drawing(
        width=max(first.width, second.width),
        height=down + second.height,
        shapes=(*first.shapes, *moved),
        description=description,
    )


def _move_down(shape: Shape, down: float) -> Shape:
    if isinstance(shape, Stroke):
        return replace(shape, y=shape.y + down, to_y=shape.to_y + down)
    return replace(shape, y=shape.y + down)


# ---- color ------------------------------------------------------------


LEVEL_COLORS = ("#d95f02", "#7570b3", "#1b9e77", "#b58900", "#5c9a1b", "#a6761d", "#6b7f8c")
"""The colours of level 0, 1, … and all deeper ones."""

COLOR_OF_NAME = {
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
"""Colours by name: parts of pictures, probes, changes of files, and kinds of commits."""
BACKGROUND = "#ffffff"
"""The background of a PNG."""

_CSS_COLOR_OF_NAME = {
    "text": "var(--jp-ui-font-color1,CanvasText)",
    "muted": "var(--jp-ui-font-color1,CanvasText)",
    "axis": "var(--jp-border-color1,GrayText)",
}


def level_color(level: int) -> str:
    """Return the colour of a level's boxes."""
    return LEVEL_COLORS[min(max(level, 0), len(LEVEL_COLORS) - 1)]


def hex_color(name: str) -> str:
    """Return the colour of a name in `COLOR_OF_NAME` as `#rrggbb`; a name that is `#rrggbb` is returned as it is."""
    return name if name.startswith("#") else COLOR_OF_NAME[name]


def css_color(name: str) -> str:
    """Return the colour of a name as CSS; the colours of text and axes follow the theme of the page."""
    return _CSS_COLOR_OF_NAME.get(name) or hex_color(name)


# ---- svg ------------------------------------------------------------


def to_svg(drawing: Drawing) -> str:
    """Return the drawing as one `<svg>` element without style block, script or address.

    Names in it are escaped. Boxes and signs with a key are buttons: Tab reaches them, `data-key` says which is which,
    and the page that holds the drawing listens.
    """
    body = "".join(_svg_element(shape) for shape in drawing.shapes)
    box = f"0 0 {drawing.width:g} {drawing.height:g}"
    role = "group" if any(isinstance(shape, (Rect, Marker)) and shape.key for shape in drawing.shapes) else "img"
    return (
        f'<svg role="{role}" aria-label="{_escape_xml(drawing.description)}" viewBox="{box}" width="100%" '
        f'xmlns="http://www.w3.org/2000/svg">{body}</svg>'
    )


def _svg_element(shape: Shape) -> str:
    match shape:
        case Rect():
            paint = (
                f'fill="none" stroke="{css_color(shape.color)}" stroke-width="2"'
                if shape.is_outline
                else f'fill="{css_color(shape.color)}"'
            )
            if shape.is_outline and shape.key:
                paint += ' pointer-events="all"'  # a click inside the border is meant for the box too
            geometry = (
                f'x="{shape.x:.2f}" y="{shape.y:.2f}" width="{max(shape.width, 1):.2f}" '
                f'height="{max(shape.height, 1):.2f}" rx="{shape.corner_radius:g}"'
            )
            return f"<rect {geometry} {paint}{_hint_markup(shape)}</rect>"
        case Stroke():
            ends = f'x1="{shape.x:.2f}" y1="{shape.y:.2f}" x2="{shape.to_x:.2f}" y2="{shape.to_y:.2f}"'
            return f'<line {ends} stroke="{css_color(shape.color)}" stroke-width="{shape.thickness:g}"/>'
        case Marker():
            geometry = " ".join(f"{x:.2f},{y:.2f}" for x, y in marker_vertices(shape))
            form = (
                f'polygon points="{geometry}"'
                if geometry
                else f'circle cx="{shape.x:.2f}" cy="{shape.y:.2f}" r="{shape.size / 2:.2f}"'
            )
            return (
                f'<{form} fill="{css_color(shape.color)}"{_hint_markup(shape)}</{"polygon" if geometry else "circle"}>'
            )
        case TextShape():
            geometry = f'x="{shape.x:.2f}" y="{shape.y:.2f}" text-anchor="{shape.anchor}" dominant-baseline="middle"'
            bold = ' font-weight="600"' if shape.is_bold else ""
            return (
                f'<text {geometry} font-size="{shape.size:g}" font-family="ui-monospace,monospace" '
                f'fill="{css_color(shape.color)}"{bold}>{_escape_xml(shape.text)}</text>'
            )


def _hint_markup(shape: Rect | Marker) -> str:
    """Return the end of a box's start tag, and the hint inside the element."""
    faint = ' opacity="0.35"' if shape.is_faint else ""
    button = (
        f' data-key="{_escape_xml(shape.key)}" role="button" tabindex="0"'
        f' aria-label="{_escape_xml(shape.hint or shape.key)}"'
        if shape.key
        else ""
    )
    hint = f"<title>{_escape_xml(shape.hint)}</title>" if shape.hint else ""
    return f"{faint}{button}>{hint}"


def _escape_xml(text: str) -> str:
    return escape(escape_controls(text))
