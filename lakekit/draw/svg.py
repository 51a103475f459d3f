"""Drawings as SVG, for lakekit's own pages.

Notebooks strip it where they are not trusted, so they get `draw.png`.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from lakekit.draw.color import css
from lakekit.draw.humanize import escape_controls
from lakekit.draw.shapes import Marker, Rect, Stroke, TextShape, corners

if TYPE_CHECKING:
    from lakekit.draw.shapes import Drawing, Shape


def svg(drawing: Drawing) -> str:
    """Return the drawing as one `<svg>` element without style block, script or address.

    Names in it are escaped. Boxes and signs with a key are buttons: Tab reaches them, `data-key` says which is which,
    and the page that holds the drawing listens.
    """
    body = "".join(_element(shape) for shape in drawing.shapes)
    box = f"0 0 {drawing.width:g} {drawing.height:g}"
    role = "group" if any(isinstance(shape, (Rect, Marker)) and shape.key for shape in drawing.shapes) else "img"
    return (
        f'<svg role="{role}" aria-label="{_escape(drawing.told)}" viewBox="{box}" width="100%" '
        f'xmlns="http://www.w3.org/2000/svg">{body}</svg>'
    )


def _element(shape: Shape) -> str:
    match shape:
        case Rect():
            paint = (
                f'fill="none" stroke="{css(shape.color)}" stroke-width="2"'
                if shape.outline
                else f'fill="{css(shape.color)}"'
            )
            if shape.outline and shape.key:
                paint += ' pointer-events="all"'  # a click inside the border is meant for the box too
            geometry = (
                f'x="{shape.x:.2f}" y="{shape.y:.2f}" width="{max(shape.width, 1):.2f}" '
                f'height="{max(shape.height, 1):.2f}" rx="{shape.round:g}"'
            )
            return f"<rect {geometry} {paint}{_hint_markup(shape)}</rect>"
        case Stroke():
            ends = f'x1="{shape.x:.2f}" y1="{shape.y:.2f}" x2="{shape.to_x:.2f}" y2="{shape.to_y:.2f}"'
            return f'<line {ends} stroke="{css(shape.color)}" stroke-width="{shape.thickness:g}"/>'
        case Marker():
            geometry = " ".join(f"{x:.2f},{y:.2f}" for x, y in corners(shape))
            form = (
                f'polygon points="{geometry}"'
                if geometry
                else f'circle cx="{shape.x:.2f}" cy="{shape.y:.2f}" r="{shape.size / 2:.2f}"'
            )
            return f'<{form} fill="{css(shape.color)}"{_hint_markup(shape)}</{"polygon" if geometry else "circle"}>'
        case TextShape():
            geometry = f'x="{shape.x:.2f}" y="{shape.y:.2f}" text-anchor="{shape.anchor}" dominant-baseline="middle"'
            bold = ' font-weight="600"' if shape.bold else ""
            return (
                f'<text {geometry} font-size="{shape.size:g}" font-family="ui-monospace,monospace" '
                f'fill="{css(shape.color)}"{bold}>{_escape(shape.text)}</text>'
            )


def _hint_markup(shape: Rect | Marker) -> str:
    """Return the end of a box's start tag, and the hint inside the element."""
    faint = ' opacity="0.35"' if shape.faint else ""
    button = (
        f' data-key="{_escape(shape.key)}" role="button" tabindex="0" aria-label="{_escape(shape.hint or shape.key)}"'
        if shape.key
        else ""
    )
    hint = f"<title>{_escape(shape.hint)}</title>" if shape.hint else ""
    return f"{faint}{button}>{hint}"


def _escape(text: str) -> str:
    return escape(escape_controls(text))
