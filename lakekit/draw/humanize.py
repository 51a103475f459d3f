"""Values as readable text: sizes with a unit, counts in groups of three, no control characters."""

from __future__ import annotations

import unicodedata
from datetime import datetime
from decimal import Decimal

WIDTH = 100
"""The width of an unknown terminal, in columns."""
NAME_WIDTH = 40
"""The default width in terminal columns of a name in the heading of a picture."""
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def format_size(size_bytes: int) -> str:
    """Return a number of bytes with a unit: `61.2 MiB`."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    value, unit = float(size_bytes), 0
    while value >= 1023.95 and unit < len(_BYTE_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f} {_BYTE_UNITS[unit]}"


def format_count(count: int) -> str:
    """Return a whole number with blanks between groups of three digits: `1 204 000`."""
    return f"{count:,}".replace(",", " ")


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Return a count with its noun: `1 file`, `12 files`."""
    return f"{format_count(count)} {noun if count == 1 else nouns or noun + 's'}"


def format_cell(value: object) -> str:
    """Return a value of a small table on one line.

    Nulls and empty lists are a dash, control characters are shown as their codes.
    """
    if value is None or (isinstance(value, (list, tuple)) and not value):
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds" if value.microsecond else "seconds").replace(
            "+00:00", "Z"
        )
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{format_cell(key)}={format_cell(part)}" for key, part in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(format_cell(part) for part in value) + "]"
    return escape_controls(str(value))


def escape_controls(text: str) -> str:
    """Return the text with escape codes (`\\x1b`) in place of unprintable characters.

    Unprintable characters could move a terminal's cursor, change its colours or hide text.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else f"\\x{ord(letter):02x}" if ord(letter) < 256 else f"\\u{ord(letter):04x}"
        for letter in text
    )


def is_number(value: object) -> bool:
    """Return whether a value is a number, whose column is aligned right; booleans are not."""
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def display_width(text: str) -> int:
    """Return the text's width in terminal columns: wide letters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def truncate(text: str, width: int) -> str:
    """Return the text, or its beginning and `…` if it is wider than `width` terminal columns."""
    if display_width(text) <= width:
        return text
    beginning, taken = "", 0
    for letter in text:
        taken += display_width(letter)
        if taken > width - 1:
            break
        beginning += letter
    return beginning + "…" if width > 0 else ""


def truncate_heading(text: str, width: int = NAME_WIDTH) -> str:
    """Return a name for the heading of a picture: control characters escaped, truncated to `width`."""
    return truncate(escape_controls(text), width)


def pad(text: str, width: int, *, align_right: bool = False) -> str:
    """Return the text padded with blanks to `width` terminal columns; `align_right` aligns the text right."""
    blanks = " " * max(0, width - display_width(text))
    return blanks + text if align_right else text + blanks
