"""Cards, tables, funnels and LSM levels in characters, and as HTML that survives everywhere.

    orders · key table                            snapshot  kind    rows
      columns    day DATE, id BIGINT              7         APPEND   640
      key        id                               … 412 more

Functions of text take facts or a few rows and a width in terminal columns, and return lines joined by line feeds, none
wider than that. The HTML has no style block, no class and no picture, every name is escaped, and it reads well without
the inline styles that some hosts take away.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape as escape
from math import ceil
from typing import TYPE_CHECKING, Any

from lakekit.draw.humanize import (
    WIDTH as WIDTH,
    display_width,
    escape_controls,
    format_cell,
    format_count,
    format_size,
    is_number,
    pad,
    plural,
    truncate,
)
from lakekit.draw.level_layout import build_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lakekit.draw.level_layout import Key, KeyAxis


_COLUMN_GAP = "  "
_MIN_CUT_WIDTH = 24
"""Values are cut to this many columns before a column is left out: a time of day still fits."""


def card_text(title: str, facts: Sequence[tuple[str, object]], *, width: int = WIDTH) -> str:
    """Return a title and named facts below it, one line each."""
    lines_of_facts = [(escape_controls(name), format_cell(value)) for name, value in facts]
    names = max((display_width(name) for name, _ in lines_of_facts), default=0)
    lines = [escape_controls(title), *(f"  {pad(name, names)}  {value}" for name, value in lines_of_facts)]
    return "\n".join(truncate(line, width) for line in lines)


def arrow_rows(table: pa.Table) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return names and rows of a small Arrow table."""
    columns = [column.to_pylist() for column in table.columns]
    return list(table.column_names), [tuple(column[at] for column in columns) for at in range(table.num_rows)]


def table_text(
    names: Sequence[str], rows: Sequence[Sequence[object]], *, width: int = WIDTH, max_rows: int = 50
) -> str:
    """Return rows under their names: numbers aligned right, at most `max_rows` rows and `width` columns.

    Omitted rows and columns are noted at the end.
    """
    visible = rows[:max_rows]
    right = [any(is_number(row[at]) for row in visible) for at in range(len(names))]
    cells = [[format_cell(value) for value in row] for row in visible]
    heads = [escape_controls(name) for name in names]
    wide = [max([display_width(head), *(display_width(line[at]) for line in cells)]) for at, head in enumerate(heads)]
    wide = _fit_widths(wide, [display_width(head) for head in heads], width)
    count = len(wide)
    lines = [
        _COLUMN_GAP.join(
            pad(truncate(line[at], wide[at]), wide[at], align_right=right[at]) for at in range(count)
        ).rstrip()
        for line in [heads, *cells]
    ]
    lines = [truncate(line, width) for line in lines]
    if count < len(names):
        lines.append(truncate(f"… {plural(len(names) - count, 'more column')}: {', '.join(heads[count:])}", width))
    if len(rows) > max_rows:
        lines.append(f"… {format_count(len(rows) - max_rows)} more")
    return "\n".join(lines)


def _fit_widths(widths: list[int], heads: list[int], width: int) -> list[int]:
    """Return column widths that fit: the widest shrink first, to their heads, then the last are dropped."""
    widths = list(widths)
    floors = [min(column_width, max(head, _MIN_CUT_WIDTH)) for column_width, head in zip(widths, heads, strict=True)]
    while (over := sum(widths) + len(_COLUMN_GAP) * (len(widths) - 1) - width) > 0:
        spare = sorted(
            (at for at, column_width in enumerate(widths) if column_width > floors[at]),
            key=lambda at: widths[at],
            reverse=True,
        )
        if spare:
            next_widest = widths[spare[1]] if len(spare) > 1 else 0
            widths[spare[0]] = min(widths[spare[0]] - 1, max(floors[spare[0]], widths[spare[0]] - over, next_widest))
        elif len(widths) > 1:
            widths.pop()
            floors.pop()
        else:
            return [width]
    return widths


def funnel_text(title: str, steps: Sequence[tuple[str, int, int, str]], *, width: int = WIDTH) -> str:
    """Return the steps (what, before, after, why) by which a scan left out files: one line a step."""
    names = max((display_width(escape_controls(what)) for what, *_ in steps), default=0)
    before = max((len(format_count(step[1])) for step in steps), default=0)
    after = max((len(format_count(step[2])) for step in steps), default=0)
    last, lines = "", [escape_controls(title)]
    for step, were, are, why in steps:
        what = escape_controls(step)
        lines.append(
            (
                f"  {pad('' if what == last else what, names)}  {format_count(were):>{before}} → "
                f"{format_count(are):>{after}}   {format_cell(why)}"
            ).rstrip()
        )
        last = what
    return "\n".join(truncate(line, width) for line in lines)


# ---- levels ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCard:
    """A data file in the levels picture: the bounds of its keys, and its size.

    A bound is a tuple of values, or a value; None where unknown.
    """

    level: int
    min_key: Any
    max_key: Any
    size_bytes: int
    row_count: int
    deleted_row_count: int = 0


_DEPTH_CHARACTERS = "█▓▒░"
_MAX_LANES = 16
_ROUNDING_ERROR = 1e-9
"""The rounding error of positions on the axis."""


def levels_text(
    title: str, boxes: Sequence[FileCard], *, width: int = WIDTH, probe: Key | None = None, is_append: bool = False
) -> str:
    """Return the sorted runs of one bucket on one key axis, with totals on the right.

    Level 0 has a lane for each file, newest first; deeper levels one line each. Files must come newest first within
    level 0. A vertical line through the picture crosses the files that may hold a key; a mark shows that of `probe`.
    Files of an append table stand on one line, by the numbers of their rows.
    """
    if not boxes:
        return escape_controls(title) + "\n  no files"
    by_level: dict[int, list[FileCard]] = {}
    for box in boxes:
        by_level.setdefault(box.level, []).append(box)
    totals = {
        level: f"{format_size(sum(box.size_bytes for box in level_boxes))} · {plural(len(level_boxes), 'file')}"
        for level, level_boxes in sorted(by_level.items())
    }
    right = max(len(total) for total in totals.values())
    wide = max(20, width - right - 9)
    axis = build_axis(key for box in boxes for key in (_to_key(box.min_key), _to_key(box.max_key)) if key)
    lines = [escape_controls(title)]
    for depth, (level, level_boxes) in enumerate(sorted(by_level.items())):
        spans = [_column_span(box, axis, wide) for box in level_boxes]
        lanes = [[span] for span in spans] if level == 0 and not is_append else [sorted(spans)]
        ink = _DEPTH_CHARACTERS[min(depth, len(_DEPTH_CHARACTERS) - 1)]
        for number, lane in enumerate(lanes[:_MAX_LANES]):
            name, total = ("" if is_append else f"L{level}", totals[level]) if number == 0 else ("", "")
            lines.append(f" {name:<4} {_lane_text(lane, wide, ink)}  {total:>{right}}".rstrip())
        if len(lanes) > _MAX_LANES:
            lines.append(f"      … {format_count(len(lanes) - _MAX_LANES)} more")
    if axis.keys:
        first, last = (
            truncate(", ".join(format_cell(value) for value in key), wide // 2 - 4)
            for key in (axis.keys[0], axis.keys[-1])
        )
        middle = wide - display_width(first) - display_width(last)
        if probe is not None:
            lines.append(f"      {' ' * min(wide - 1, int(axis.middle(probe) * wide))}▲")
        lines.append(f"      {first}{pad(('rows' if is_append else 'keys').center(middle), middle)}{last}")
    return "\n".join(truncate(line, width) for line in lines)


def _to_key(bound: Any) -> Key:
    """Return a bound as a key; empty if it is unknown."""
    return () if bound is None else tuple(bound) if isinstance(bound, (list, tuple)) else (bound,)


def _column_span(box: FileCard, axis: KeyAxis, line_width: int) -> tuple[int, int]:
    """Return the first and last column of a file; one with unknown keys takes the whole width."""
    low, high = _to_key(box.min_key), _to_key(box.max_key)
    start = int(axis.start(low) * line_width + _ROUNDING_ERROR) if low else 0
    end = ceil(axis.end(high) * line_width - _ROUNDING_ERROR) - 1 if high else line_width - 1
    return min(start, line_width - 1), min(max(start, end), line_width - 1)


def _lane_text(column_spans: Sequence[tuple[int, int]], line_width: int, character: str) -> str:
    """Return one line of boxes; neighbours keep a gap where there is enough width for one."""
    drawn = [" "] * line_width
    taken = -1
    for low, end in column_spans:
        start = low
        if start <= taken + 1 <= end and taken >= 0:
            start = taken + 2 if taken + 2 <= end else taken + 1
        for at in range(max(start, 0), end + 1):
            drawn[at] = character
        taken = max(taken, end)
    return "".join(drawn)


# ---- html ------------------------------------------------------------


MAX_HTML_ROWS = 20
_CELL_STYLE = "padding:1px 8px;line-height:1.5"
"""The style of cells: inside a widget JupyterLab gives them no padding and lines of 28 pixels."""
_ALIGN_RIGHT = f' style="text-align:right;{_CELL_STYLE};font-variant-numeric:tabular-nums"'
_ALIGN_LEFT = f' style="text-align:left;{_CELL_STYLE}"'


def html_card(title: str, facts: Sequence[tuple[str, object]]) -> str:
    """Return a title and named facts below it, at most twenty."""
    lines = [
        f"<tr><th{_ALIGN_LEFT}>{escape(name)}</th><td{_ALIGN_LEFT}>{escape(format_cell(value))}</td></tr>"
        for name, value in facts[:MAX_HTML_ROWS]
    ]
    note = _omitted_note(len(facts) - MAX_HTML_ROWS)
    return f"<table>{_html_caption(title)}<tbody>{''.join(lines)}</tbody></table>{note}"


def html_table(
    names: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = "", max_rows: int = MAX_HTML_ROWS
) -> str:
    """Return rows under their names, at most `max_rows`, and a note on how many more there are."""
    visible = rows[:max_rows]
    looks = [_ALIGN_RIGHT if any(is_number(row[at]) for row in visible) else _ALIGN_LEFT for at in range(len(names))]
    head = "".join(f"<th{look}>{escape(format_cell(name))}</th>" for name, look in zip(names, looks, strict=True))
    body = "".join(_html_row(row, looks) for row in visible)
    note = _omitted_note(len(rows) - max_rows)
    return f"<table>{_html_caption(title)}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def html_funnel(title: str, steps: Sequence[tuple[str, int, int, str]]) -> str:
    """Return the steps (what, before, after, why) by which a scan left out files: one row a step."""
    rows = [(what, format_count(before), "→", format_count(after), why) for what, before, after, why in steps]
    looks = (_ALIGN_LEFT, _ALIGN_RIGHT, _ALIGN_LEFT, _ALIGN_RIGHT, _ALIGN_LEFT)
    body = "".join(_html_row(row, looks) for row in rows)
    return f"<table>{_html_caption(title)}<tbody>{body}</tbody></table>"


def _html_row(values: Sequence[object], cell_styles: Sequence[str]) -> str:
    cells = [f"<td{look}>{escape(format_cell(value))}</td>" for value, look in zip(values, cell_styles, strict=True)]
    return f"<tr>{''.join(cells)}</tr>"


def _html_caption(title: str) -> str:
    return (
        f'<caption style="text-align:left;white-space:nowrap"><b>{escape(format_cell(title))}</b></caption>'
        if title
        else ""
    )


def _omitted_note(left_out: int) -> str:
    return f"<p>… {format_count(left_out)} more</p>" if left_out > 0 else ""
