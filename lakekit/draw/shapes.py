"""A drawing: boxes, lines and words on a plane, before anybody decides whether it becomes a PNG, an SVG or buttons.

    (0, 0) ──────────────── width ───► x
      │    ┌──────┐
      │    │ Rect │  Word
    height └──────┘
      ▼ y                       all in CSS pixels; colours are the names of `draw.color`

The plane is transparent: a drawing has to read well on light and on dark ground.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

WIDTH = 880
"""How wide pictures are drawn where nobody says otherwise: the width of a notebook's output on a laptop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rect:
    """A filled box, or with `outline` only its border; `faint` lets the ground shine through; `round` is the radius of its corners.

    `key` is what the box stands for, where a page lets it be chosen: the name of a file, the number of a snapshot; `hint` says it in words.
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
    """Text on one line; `anchor` says which of its points stands at (x, y): "start", "middle" or "end" of its middle line."""

    x: float
    y: float
    text: str
    color: str = "text"
    anchor: str = "start"
    size: float = 11
    bold: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """A small filled sign whose middle stands at (x, y), so large as a square of `size` a side: `sign` is "circle", "square", "diamond" or "triangle"."""

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
    """Shapes in the order they are painted, and `told`: what the picture shows, in one sentence, for who cannot see it."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    told: str


def corners(sign: Marker) -> tuple[tuple[float, float], ...]:
    """The corners of a sign that has some; none of a circle."""
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
    """One drawing below another."""
    down = first.height + gap
    moved = tuple(_move_down(shape, down) for shape in second.shapes)
    told = " ".join(filter(None, (first.told, second.told)))
    return Drawing(width=max(first.width, second.width), height=down + second.height, shapes=(*first.shapes, *moved), told=told)


def _move_down(shape: Shape, down: float) -> Shape:
    if isinstance(shape, Stroke):
        return replace(shape, y=shape.y + down, to_y=shape.to_y + down)
    return replace(shape, y=shape.y + down)
