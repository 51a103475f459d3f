"""Bytes with their fields beside them: 16 a line in characters, a table for a page, cells for a widget.

    00000000  4f 62 6a 01 04 14 61 76 72 6f 2e 63 6f 64 65 63  magic · metadata count 2 · metadata key length 10 · metadata key avro.codec
    00000010  12 7a 73 74 61 6e 64 61 72 64                    avro.codec length 9 · avro.codec 7a7374616e64617264

Fields of one kind have one colour, as a line under their bytes: words stand on no coloured ground.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING
from zlib import crc32

from lakekit.codec.marks import UNREAD, UNUSED
from lakekit.draw.words import cell, count, cut, pad, plural, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.codec.marks import Mark

LINE = 16
"""Bytes of a line."""
LINES = 48
"""Lines of a repr."""
WIDTH = 160
HTML_BYTES = 60_000
"""A table for a page grows no longer than about this."""
_HTML_LINES = 24
COLORS = ("#3b82c4", "#d95f02", "#1b9e77", "#7570b3", "#b58900", "#c2407f", "#5c9a1b", "#a6761d")
"""A contrast of 3 to white and to black ground: lines under bytes, never words."""
QUIET = "#8c8c8c"
_SHOWN, _LIST = 40, 12


def color(field: str) -> str:
    """The colour of a field's kind: the same for every record's `_FILE_NAME`, grey for what means nothing."""
    if field in (UNREAD, UNUSED) or field.endswith(f".{UNUSED}"):
        return QUIET
    kind = field.rpartition(".")[2].partition(" ")[0].rstrip("0123456789[]")
    return COLORS[crc32(kind.encode("utf-8", "replace")) % len(COLORS)]


def told(value: object) -> str | None:
    """A value as text, whole; None for one that says nothing."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.hex()
    return cell(value)


def short(value: object) -> str:
    """A value in a few characters, "" for one that says nothing."""
    if value is None:
        return ""
    if isinstance(value, bytes) and len(value) > _SHOWN // 2:
        return f"{value[: _SHOWN // 2].hex()}… {count(len(value))} bytes"
    if isinstance(value, (list, tuple)) and len(value) > _LIST:
        return f"[{', '.join(cell(one) for one in value[:_LIST])}, … {count(len(value) - _LIST)} more]"
    return cut(told(value) or "", _SHOWN)


def title(name: str, form: str, size: int, fields: int) -> str:
    """What is shown, in one line."""
    return f"{printable(name)} · {form} · {plural(size, 'byte')} · {plural(fields, 'field')}"


def said(mark: Mark) -> str:
    """A field and its value."""
    value = short(mark.value)
    return f"{printable(mark.field)} {value}" if value else printable(mark.field)


def overlapping(marks: Sequence[Mark], start: int, end: int) -> list[Mark]:
    """The marks over the bytes from `start` to `end`; marks are disjoint and in order."""
    low, high = 0, len(marks)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if marks[middle].offset + marks[middle].length <= start else (low, middle)
    found = []
    while low < len(marks) and marks[low].offset < end:
        found.append(marks[low])
        low += 1
    return found


def text(heading: str, data: bytes, marks: Sequence[Mark], *, told: str = "", lines: int = LINES, width: int = WIDTH) -> str:
    """The bytes in characters: lines of 16, the fields that begin in each at its right, at most `lines` of them; what is left out is said."""
    drawn = [cut(heading, width)]
    for start in range(0, min(len(data), lines * LINE), LINE):
        codes = data[start : start + LINE].hex(" ")
        names = [said(mark) for mark in overlapping(marks, start, start + LINE) if mark.offset >= start]
        drawn.append(cut(f"{start:08x}  {pad(codes, 3 * LINE - 1)}  {' · '.join(names)}".rstrip(), width))
    if len(data) > lines * LINE:
        drawn.append(f"… {plural(len(data) - lines * LINE, 'more byte')}")
    if told:
        drawn.append(cut(f"! {printable(told)}", width))
    return "\n".join(drawn)


def html(heading: str, data: bytes, marks: Sequence[Mark], *, told: str = "", lines: int = _HTML_LINES) -> str:
    """The bytes as a table for a page: no style block, no class, no script; a coloured line under each byte says its field."""
    parts = [f"<table><caption style='text-align:left'><b>{escape(heading)}</b></caption><tbody>"]
    size, at = len(parts[0]), 0
    while at < min(len(data), lines * LINE):
        row = _row(data, marks, at)
        if size + len(row) > HTML_BYTES:
            break
        parts.append(row)
        size, at = size + len(row), at + LINE
    parts.append("</tbody></table>")
    if at < len(data):
        parts.append(f"<p>… {plural(len(data) - at, 'more byte')}</p>")
    if told:
        parts.append(f"<p><b>{escape(printable(told))}</b></p>")
    return "".join(parts)


_MONO = "font-family:ui-monospace,monospace;white-space:pre;text-align:left;padding:1px 8px"


def _row(data: bytes, marks: Sequence[Mark], start: int) -> str:
    inside = overlapping(marks, start, start + LINE)
    spans = []
    for mark in inside:
        piece = data[max(start, mark.offset) : min(start + LINE, mark.offset + mark.length)]
        spans.append(f"<span title='{escape(printable(mark.field))}' style='border-bottom:3px solid {color(mark.field)}'>{piece.hex(' ')}</span>")
    names = [_name(mark) for mark in inside if mark.offset >= start]
    return f"<tr><td style='{_MONO}'>{start:08x}</td><td style='{_MONO}'>{' '.join(spans)}</td><td style='text-align:left'>{' · '.join(names)}</td></tr>"


def _name(mark: Mark) -> str:
    return f"<span style='border-bottom:3px solid {color(mark.field)}'>{escape(printable(mark.field))}</span> {escape(short(mark.value))}".rstrip()


def detail(mark: Mark) -> list[tuple[str, object]]:
    """All there is to say of one field."""
    length = plural(mark.length, "byte")
    value = short(mark.value) if not isinstance(mark.value, str) else cut(printable(mark.value), 200)
    where = f"bytes {count(mark.offset)} to {count(mark.offset + mark.length - 1)}" if mark.length > 1 else f"byte {count(mark.offset)}"
    return [("field", printable(mark.field)), ("value", value or None), ("where", f"{where} (0x{mark.offset:x}), {length}"), ("format", mark.section or None)]
