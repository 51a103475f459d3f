"""Drawings as SVG, for pages of our own: notebooks strip it where they are not trusted, so they get `draw.png`."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from lakekit.draw.color import css
from lakekit.draw.shapes import Rect, Sign, Stroke, Word, corners

if TYPE_CHECKING:
    from lakekit.draw.shapes import Drawing, Shape


def svg(drawing: Drawing) -> str:
    """The drawing as one `<svg>` element without style block, script or address; names in it are escaped."""
    body = "".join(_element(shape) for shape in drawing.shapes)
    box = f"0 0 {drawing.width:g} {drawing.height:g}"
    return f'<svg role="img" viewBox="{box}" width="100%" xmlns="http://www.w3.org/2000/svg"><title>{escape(drawing.told)}</title>{body}</svg>'


def _element(shape: Shape) -> str:
    match shape:
        case Rect():
            paint = f'fill="none" stroke="{css(shape.color)}" stroke-width="2"' if shape.outline else f'fill="{css(shape.color)}"'
            faint = ' opacity="0.35"' if shape.faint else ""
            place = f'x="{shape.x:.2f}" y="{shape.y:.2f}" width="{max(shape.width, 1):.2f}" height="{max(shape.height, 1):.2f}" rx="{shape.round:g}"'
            hint = f"<title>{escape(shape.hint)}</title>" if shape.hint else ""
            return f"<rect {place} {paint}{faint}>{hint}</rect>"
        case Stroke():
            ends = f'x1="{shape.x:.2f}" y1="{shape.y:.2f}" x2="{shape.to_x:.2f}" y2="{shape.to_y:.2f}"'
            return f'<line {ends} stroke="{css(shape.color)}" stroke-width="{shape.thickness:g}"/>'
        case Sign():
            place = " ".join(f"{x:.2f},{y:.2f}" for x, y in corners(shape))
            form = f'polygon points="{place}"' if place else f'circle cx="{shape.x:.2f}" cy="{shape.y:.2f}" r="{shape.size / 2:.2f}"'
            name = "polygon" if place else "circle"
            faint = ' opacity="0.35"' if shape.faint else ""
            hint = f"<title>{escape(shape.hint)}</title>" if shape.hint else ""
            return f'<{form} fill="{css(shape.color)}"{faint}>{hint}</{name}>'
        case Word():
            place = f'x="{shape.x:.2f}" y="{shape.y:.2f}" text-anchor="{shape.anchor}" dominant-baseline="middle"'
            bold = ' font-weight="600"' if shape.bold else ""
            return f'<text {place} font-size="{shape.size:g}" font-family="ui-monospace,monospace" fill="{css(shape.color)}"{bold}>{escape(shape.text)}</text>'
