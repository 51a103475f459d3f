"""A drawing: boxes, lines and text on a plane, which becomes a PNG, an SVG or buttons.

    (0, 0) ──────────────── width ───► x
      │    ┌──────┐
      │    │ Rect │  Word
    height └──────┘
      ▼ y                       all in CSS pixels; colours are the names of `draw.color`

The plane is transparent: a drawing has to read well on light and on dark background.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

WIDTH = 880
"""The default width of pictures: that of a notebook's output on a laptop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rect:
    """A filled box, or with `outline` only its border.

    `faint` lets the background shine through; `round` is the radius of its corners. `key` is what the box stands for,
    where a page lets it be clicked: the name of a file, the id of a snapshot; `hint` describes it.
    """

    x: float
    y: float
    width: float
    height: float
    color: str
    outline: bool = False
    faint: bool = False
    round: float = 0
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
    bold: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """A small filled sign with its middle at (x, y), as large as a square of `size` a side.

    `sign` is "circle", "square", "diamond" or "triangle".
    """

    x: float
    y: float
    size: float
    color: str
    sign: str = "circle"
    faint: bool = False
    hint: str = ""
    key: str = ""


Shape = Rect | Stroke | TextShape | Marker


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Shapes in the order they are painted, and `told`: one sentence that describes the picture.

    It is for readers who cannot see the picture.
    """

    width: float
    height: float
    shapes: tuple[Shape, ...]
    told: str


def corners(sign: Marker) -> tuple[tuple[float, float], ...]:
    """Return the corners of a sign; none of a circle."""
    x, y, half = sign.x, sign.y, sign.size / 2
    match sign.sign:
        case "square":
            return (x - half, y - half), (x + half, y - half), (x + half, y + half), (x - half, y + half)
        case "diamond":
            return (x, y - half), (x + half, y), (x, y + half), (x - half, y)
        case "triangle":
            return (x, y - half), (x + half, y + half), (x - half, y + half)
    return ()


def stack_vertically(first: Drawing, second: Drawing, *, gap: float = 10) -> Drawing:
    """Return one drawing below another."""
    down = first.height + gap
    moved = tuple(_move_down(shape, down) for shape in second.shapes)
    description = " ".join(filter(None, (first.told, second.told)))
    return Drawing(
        width=max(first.width, second.width),
        height=down + second.height,
        shapes=(*first.shapes, *moved),
        told=description,
    )


def _move_down(shape: Shape, down: float) -> Shape:
    if isinstance(shape, Stroke):
        return replace(shape, y=shape.y + down, to_y=shape.to_y + down)
    return replace(shape, y=shape.y + down)
