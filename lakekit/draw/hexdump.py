"""Bytes with their fields beside them: lines of 16 in characters, a table, or cells for a widget.

    00000000  4f 62 6a 01 04 14 61 76 72 6f 2e 63 6f 64 65 63  magic 4f626a01 · metadata count 2 · …
    00000010  12 7a 73 74 61 6e 64 61 72 64                    avro.codec length 9 · avro.codec zstandard

Fields of one kind have one colour: a line under their bytes, since text on a coloured background is hard to read.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING
from zlib import crc32

from lakekit.codec.cursor import PADDING_LABEL, UNREAD_LABEL
from lakekit.draw.humanize import escape_controls, format_cell, format_count, pad, plural, truncate
from lakekit.draw.shapes import DEFAULT_WIDTH as WIDE, Drawing, Rect, TextShape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.codec.cursor import FieldSpan
    from lakekit.draw.shapes import Shape

BYTES_PER_LINE = 16
"""Bytes of a line."""
DEFAULT_LINES = 48
"""Lines of a repr."""
DEFAULT_WIDTH = 160
MAX_HTML_BYTES = 60_000
"""A table for a page grows no longer than about this."""
_HTML_LINES = 24
SPAN_COLORS = ("#3b82c4", "#d95f02", "#1b9e77", "#7570b3", "#b58900", "#c2407f", "#5c9a1b", "#a6761d")
"""Colours with a contrast of 3 to white and to black background, for lines under bytes, never for text."""
QUIET_COLOR = "#8c8c8c"
NAME_PREFIX = "name of "
"""The prefix of the field of a JSON member's name; its value is in the field after it."""
_QUIET_KINDS = frozenset({UNREAD_LABEL, PADDING_LABEL, "punctuation"})
_MAX_VALUE_CHARS, _MAX_LIST_ITEMS = 40, 12


def field_color(field: str) -> str:
    """Return the colour of a field's kind: the same for every record's `_FILE_NAME`.

    It is grey for fields without meaning.
    """
    kind = field.rpartition(".")[2]
    if kind in _QUIET_KINDS or field.startswith(NAME_PREFIX):
        return QUIET_COLOR
    kind = kind.partition(" ")[0].rstrip("0123456789[]")
    return SPAN_COLORS[crc32(kind.encode("utf-8", "replace")) % len(SPAN_COLORS)]


def format_value(value: object) -> str | None:
    """Return a value as text, unabbreviated; None for None."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.hex()
    return format_cell(value)


def abbreviate_value(value: object) -> str:
    """Return a value in a few characters, "" for None."""
    if value is None:
        return ""
    if isinstance(value, bytes) and len(value) > _MAX_VALUE_CHARS // 2:
        return f"{value[: _MAX_VALUE_CHARS // 2].hex()}… {format_count(len(value))} bytes"
    if isinstance(value, (list, tuple)) and len(value) > _MAX_LIST_ITEMS:
        return (
            f"[{', '.join(format_cell(element) for element in value[:_MAX_LIST_ITEMS])}, … "
            f"{format_count(len(value) - _MAX_LIST_ITEMS)} "
            "more]"
        )
    return truncate(format_value(value) or "", _MAX_VALUE_CHARS)


def hexdump_title(name: str, format_name: str, size_bytes: int, fields: int) -> str:
    """Return the heading: name, format, and how many bytes and fields, in one line."""
    return f"{escape_controls(name)} · {format_name} · {plural(size_bytes, 'byte')} · {plural(fields, 'field')}"


def format_span(span: FieldSpan, previous_name: str = "") -> str:
    """Return a field and its value as text.

    The leading part of its name that it shares with the preceding field's name, `previous_name`, is left out.
    """
    parts, before = span.field.split("."), previous_name.split(".")[:-1]
    same = 0
    while same < min(len(parts) - 1, len(before)) and parts[same] == before[same]:
        same += 1
    name = escape_controls("." * (same > 0) + ".".join(parts[same:]))
    value = abbreviate_value(span.value)
    return f"{name} {value}" if value else name


def first_span_ending_after(spans: Sequence[FieldSpan], offset: int) -> int:
    """Return the index of the first span that ends after byte `offset`; spans are sorted and disjoint."""
    low, high = 0, len(spans)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if spans[middle].end <= offset else (low, middle)
    return low


def find_overlapping(spans: Sequence[FieldSpan], start: int, end: int) -> list[FieldSpan]:
    """Return the spans over the bytes from `start` to `end`; `spans` are sorted and disjoint."""
    first = last = first_span_ending_after(spans, start)
    while last < len(spans) and spans[last].offset < end:
        last += 1
    return list(spans[first:last])


def line_ranges(data: bytes, spans: Sequence[FieldSpan], limit: int, start: int = 0) -> list[tuple[int, int]]:
    """Return (start, end) of at most `limit` lines, from the one of byte `start` on.

    A range of more than 16 bytes stands for lines in the middle of a long field, which are left out.
    """
    lines: list[tuple[int, int]] = []
    at = first = max(0, start) // BYTES_PER_LINE * BYTES_PER_LINE
    while at < len(data) and len(lines) < limit:
        end = min(at + BYTES_PER_LINE, len(data))
        inside = find_overlapping(spans, at, at + 1)
        if inside and max(inside[0].offset, first) <= at - BYTES_PER_LINE:
            last = inside[0].end // BYTES_PER_LINE * BYTES_PER_LINE - BYTES_PER_LINE
            end = max(end, last) if last - at > BYTES_PER_LINE else end
        lines.append((at, end))
        at = end
    return lines


def hexdump_text(
    heading: str,
    data: bytes,
    spans: Sequence[FieldSpan],
    *,
    error_text: str = "",
    start: int = 0,
    lines: int = DEFAULT_LINES,
    width: int = DEFAULT_WIDTH,
) -> str:
    """Return the bytes in characters: lines of 16, with the fields that begin in each at its right.

    There are at most `lines` lines; a last line then says how many bytes are left out.
    """
    drawn = [truncate(escape_controls(heading), width)]
    visible, previous_name = line_ranges(data, spans, lines, start), ""
    for at, end in visible:
        if end - at > BYTES_PER_LINE:
            drawn.append(
                truncate(
                    f"{at:08x}  … {plural(end - at, 'more byte')} of "
                    f"{escape_controls(find_overlapping(spans, at, end)[0].field)}",
                    width,
                )
            )
            continue
        names = []
        for span in find_overlapping(spans, at, end):
            if span.offset >= at and field_color(span.field) != QUIET_COLOR:
                names.append(format_span(span, previous_name))
                previous_name = span.field
        drawn.append(
            truncate(
                f"{at:08x}  {pad(data[at:end].hex(' '), 3 * BYTES_PER_LINE - 1)}  {' · '.join(names)}".rstrip(), width
            )
        )
    left = len(data) - visible[-1][1] if visible else 0
    if left:
        drawn.append(f"… {plural(left, 'more byte')}")
    if error_text:
        drawn.append(truncate(f"! {escape_controls(error_text)}", width))
    return "\n".join(drawn)


def hexdump_html(
    heading: str, data: bytes, spans: Sequence[FieldSpan], *, error_text: str = "", lines: int = _HTML_LINES
) -> str:
    """Return the bytes as a table for a page, with a coloured line under each byte that says its field.

    It has no style block, no class and no script.
    """
    parts = [f"<table><caption style='text-align:left'><b>{escape(escape_controls(heading))}</b></caption><tbody>"]
    size, at = len(parts[0]), 0
    for start, end in line_ranges(data, spans, lines):
        row = _html_row(data, spans, start, end)
        if size + len(row) > MAX_HTML_BYTES:
            break
        parts.append(row)
        size, at = size + len(row), end
    parts.append("</tbody></table>")
    if at < len(data):
        parts.append(f"<p>… {plural(len(data) - at, 'more byte')}</p>")
    if error_text:
        parts.append(f"<p><b>{escape(escape_controls(error_text))}</b></p>")
    return "".join(parts)


_MONOSPACE_STYLE = "font-family:ui-monospace,monospace;white-space:pre;text-align:left;padding:1px 8px"


def _html_row(data: bytes, spans: Sequence[FieldSpan], start: int, end: int) -> str:
    inside = find_overlapping(spans, start, end)
    if end - start > BYTES_PER_LINE:
        more = f"… {plural(end - start, 'more byte')} of {escape_controls(inside[0].field)}"
        return (
            f"<tr><td style='{_MONOSPACE_STYLE}'>{start:08x}</td><td style='text-align:left' "
            f"colspan='2'>{escape(more)}</td></tr>"
        )
    cells, names, previous_name = [], [], ""
    for span in inside:
        piece = data[max(start, span.offset) : min(end, span.offset + span.length)]
        cells.append(
            f"<span title='{escape(escape_controls(span.field))}' style='border-bottom:3px solid "
            f"{field_color(span.field)}'>{piece.hex(' ')}</span>"
        )
        if span.offset >= start and field_color(span.field) != QUIET_COLOR:
            names.append(
                f"<span style='border-bottom:3px solid "
                f"{field_color(span.field)}'>{escape(format_span(span, previous_name))}</span>"
            )
            previous_name = span.field
    return (
        f"<tr><td style='{_MONOSPACE_STYLE}'>{start:08x}</td><td style='{_MONOSPACE_STYLE}'>{' '.join(cells)}</td><td "
        f"style='text-align:left'>{' · '.join(names)}</td></tr>"
    )


_DRAWING_LINES = 16
_LINE_HEIGHT, _TOP_MARGIN, _CODES_X, _NAMES_X, _CODE_WIDTH = 20, 28, 76, 470, 24


def hexdump_drawing(
    heading: str, data: bytes, spans: Sequence[FieldSpan], *, start: int = 0, lines: int = _DRAWING_LINES
) -> Drawing:
    """Return the bytes from `start` on as a picture: codes over lines in the colours of their fields.

    The names of fields stand at the right.
    """
    shapes: list[Shape] = [TextShape(x=0, y=10, text=truncate(escape_controls(heading), 110), is_bold=True)]
    y = _TOP_MARGIN
    for at, after in line_ranges(data, spans, lines, start):
        shapes.append(TextShape(x=0, y=y, text=f"{at:08x}", color="muted"))
        inside = find_overlapping(spans, at, after)
        if after - at > BYTES_PER_LINE:
            shapes.append(
                TextShape(
                    x=_CODES_X,
                    y=y,
                    text=truncate(f"… {plural(after - at, 'more byte')} of {escape_controls(inside[0].field)}", 100),
                )
            )
            y += _LINE_HEIGHT
            continue
        names, previous_name = [], ""
        for span in inside:
            low, high = max(at, span.offset) - at, min(after, span.offset + span.length) - at
            shapes.append(
                Rect(
                    x=_CODES_X + low * _CODE_WIDTH,
                    y=y + 7,
                    width=(high - low) * _CODE_WIDTH - 5,
                    height=3,
                    color=field_color(span.field),
                    hint=escape_controls(span.field),
                )
            )
            if span.offset >= at and field_color(span.field) != QUIET_COLOR:
                names.append(format_span(span, previous_name))
                previous_name = span.field
        shapes += [
            TextShape(x=_CODES_X + number * _CODE_WIDTH, y=y, text=f"{byte:02x}")
            for number, byte in enumerate(data[at:after])
        ]
        shapes.append(TextShape(x=_NAMES_X, y=y, text=truncate(" · ".join(names), 66)))
        y += _LINE_HEIGHT
    return Drawing(width=WIDE, height=y, shapes=tuple(shapes), description=heading)


def span_facts(span: FieldSpan) -> list[tuple[str, object]]:
    """Return all facts of one field."""
    length = plural(span.length, "byte")
    value = (
        abbreviate_value(span.value) if not isinstance(span.value, str) else truncate(escape_controls(span.value), 200)
    )
    where = (
        f"bytes {format_count(span.offset)} to {format_count(span.offset + span.length - 1)}"
        if span.length > 1
        else f"byte {format_count(span.offset)}"
    )
    return [
        ("field", escape_controls(span.field)),
        ("value", value or None),
        ("where", f"{where} (0x{span.offset:x}), {length}"),
        ("format", span.section or None),
    ]
