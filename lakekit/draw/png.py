"""Drawings as PNG, for notebooks that are not run and hosts without widgets.

Needs Pillow (the extra `notebook`).
"""

from __future__ import annotations

import io
from functools import lru_cache
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont

from lakekit.draw.humanize import escape_controls
from lakekit.draw.shapes import BACKGROUND, Marker, Rect, Stroke, TextShape, hex_color, marker_vertices

if TYPE_CHECKING:
    from lakekit.draw.shapes import Drawing

PNG_SCALE = 2
"""Pixels of the PNG for one of the drawing: sharp on fine screens."""
_FAINT_OPACITY = 0.35
_FONT_FILES = (
    "",
    "DejaVuSans.ttf",
    "NotoSans-Regular.ttf",
    "NotoSansCJK-Regular.ttc",
    "NotoSansCJKsc-Regular.otf",
    "wqy-microhei.ttc",
    "Arial Unicode.ttf",
    "Hiragino Sans GB.ttc",
    "PingFang.ttc",
)
"""Fonts to try: Pillow's own font, the same everywhere but of English letters only; then common ones, for other
letters.
"""
_PROBE_SIZE, _NO_LETTER = 16, "\uffff"
_FONT_SCALE = 0.9
"""The scale of those fonts, which are wider than Pillow's."""
_PILLOW_ANCHORS = {"start": "lm", "middle": "mm", "end": "rm"}


def to_png(drawing: Drawing, *, scale: int = PNG_SCALE) -> bytes:
    """Return the drawing as PNG bytes, `scale` times its size, on white background."""
    image = Image.new("RGB", (max(1, round(drawing.width * scale)), max(1, round(drawing.height * scale))), BACKGROUND)
    brush = ImageDraw.Draw(image)
    for shape in drawing.shapes:
        match shape:
            case Rect():
                _draw_rect(brush, shape, scale)
            case Stroke():
                ends = [shape.x * scale, shape.y * scale, shape.to_x * scale, shape.to_y * scale]
                brush.line(ends, hex_color(shape.color), max(1, round(shape.thickness * scale)))
            case Marker():
                _draw_marker(brush, shape, scale)
            case TextShape():
                _draw_text(brush, shape, scale)
    out = io.BytesIO()
    # an octree keeps the colour of a rare mark, which a median cut gives away; it is smaller and twice as fast too
    # (measured)
    image.quantize(64, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()


def _draw_rect(brush: ImageDraw.ImageDraw, shape: Rect, scale: int) -> None:
    x, y = shape.x * scale, shape.y * scale
    bounds = (x, y, max(x, x + shape.width * scale - 1), max(y, y + shape.height * scale - 1))
    color = _fade_color(hex_color(shape.color)) if shape.is_faint else hex_color(shape.color)
    if shape.is_outline:
        brush.rounded_rectangle(bounds, shape.corner_radius * scale, outline=color, width=2 * scale)
    else:
        brush.rounded_rectangle(bounds, shape.corner_radius * scale, fill=color)


def _draw_marker(brush: ImageDraw.ImageDraw, shape: Marker, scale: int) -> None:
    color = _fade_color(hex_color(shape.color)) if shape.is_faint else hex_color(shape.color)
    half = shape.size / 2
    if points := marker_vertices(shape):
        brush.polygon([(x * scale, y * scale) for x, y in points], fill=color)
    else:
        brush.ellipse(
            [(shape.x - half) * scale, (shape.y - half) * scale, (shape.x + half) * scale, (shape.y + half) * scale],
            fill=color,
        )


def _draw_text(brush: ImageDraw.ImageDraw, shape: TextShape, scale: int) -> None:
    """Draw text on one line; bold is the same text once more, a little to the right."""
    letters, font = _choose_font(escape_controls(shape.text), max(1, round(shape.size * scale)))
    for aside in (0, scale / 3) if shape.is_bold else (0,):
        brush.text(
            (shape.x * scale + aside, shape.y * scale),
            letters,
            hex_color(shape.color),
            font,
            anchor=_PILLOW_ANCHORS[shape.anchor],
        )


def _fade_color(color: str) -> str:
    """Return the colour faded towards the white background."""
    parts = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(255 - (255 - part) * _FAINT_OPACITY):02x}" for part in parts)


def _choose_font(text: str, size: int) -> tuple[str, ImageFont.FreeTypeFont | ImageFont.ImageFont | None]:
    """Return a text and the first font that has its letters.

    A letter that no font has becomes its code, instead of the same box for all such letters.
    """
    odd = {letter for letter in text if not letter.isascii()}
    at = next((at for at in range(len(_FONT_FILES)) if all(_has_glyph(letter, at) for letter in odd)), None)
    if at is None:
        at = min(range(len(_FONT_FILES)), key=lambda at: sum(not _has_glyph(letter, at) for letter in odd))
    return "".join(
        f"\\u{ord(letter):04x}" if letter in odd and not _has_glyph(letter, at) else letter for letter in text
    ), _load_font(at, size)


@lru_cache(maxsize=4096)
def _has_glyph(letter: str, at: int) -> bool:
    """Return whether a font draws that letter, and not the box of a missing one."""
    font = _load_font(at, _PROBE_SIZE)
    return font is not None and bytes(font.getmask(letter)) != bytes(font.getmask(_NO_LETTER))


@lru_cache(maxsize=64)
def _load_font(at: int, size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont | None:
    """Return the font of that name; None where this machine has none."""
    try:
        return (
            ImageFont.truetype(_FONT_FILES[at], round(size * _FONT_SCALE))
            if _FONT_FILES[at]
            else ImageFont.load_default(size)
        )
    except OSError:
        return None
