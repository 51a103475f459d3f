"""Cards, tables and funnels as HTML that survives everywhere.

There is no style block, no class and no picture, every name is escaped, and it reads well without the inline styles
that some hosts take away.
"""

from __future__ import annotations

from html import escape as escape
from typing import TYPE_CHECKING

from lakekit.draw.humanize import format_cell, format_count, is_number

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT = 20
_CELL_STYLE = "padding:1px 8px;line-height:1.5"
"""The style of cells: inside a widget JupyterLab gives them no padding and lines of 28 pixels."""
_ALIGN_RIGHT = f' style="text-align:right;{_CELL_STYLE};font-variant-numeric:tabular-nums"'
_ALIGN_LEFT = f' style="text-align:left;{_CELL_STYLE}"'


def card(title: str, facts: Sequence[tuple[str, object]]) -> str:
    """Return a title and named facts below it, at most twenty."""
    lines = [
        f"<tr><th{_ALIGN_LEFT}>{escape(name)}</th><td{_ALIGN_LEFT}>{escape(format_cell(value))}</td></tr>"
        for name, value in facts[:LIMIT]
    ]
    return f"<table>{_caption(title)}<tbody>{''.join(lines)}</tbody></table>{_omitted_note(len(facts) - LIMIT)}"


def table(names: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = "", limit: int = LIMIT) -> str:
    """Return rows under their names, at most `limit`, and a note on how many more there are."""
    visible = rows[:limit]
    looks = [_ALIGN_RIGHT if any(is_number(row[at]) for row in visible) else _ALIGN_LEFT for at in range(len(names))]
    head = "".join(f"<th{look}>{escape(format_cell(name))}</th>" for name, look in zip(names, looks, strict=True))
    body = "".join(_row(row, looks) for row in visible)
    note = _omitted_note(len(rows) - limit)
    return f"<table>{_caption(title)}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def funnel(title: str, steps: Sequence[tuple[str, int, int, str]]) -> str:
    """Return what a scan need not read: one row a step, (what, before, after, why)."""
    rows = [(what, format_count(before), "→", format_count(after), why) for what, before, after, why in steps]
    looks = (_ALIGN_LEFT, _ALIGN_RIGHT, _ALIGN_LEFT, _ALIGN_RIGHT, _ALIGN_LEFT)
    body = "".join(_row(row, looks) for row in rows)
    return f"<table>{_caption(title)}<tbody>{body}</tbody></table>"


def _row(values: Sequence[object], looks: Sequence[str]) -> str:
    cells = [f"<td{look}>{escape(format_cell(value))}</td>" for value, look in zip(values, looks, strict=True)]
    return f"<tr>{''.join(cells)}</tr>"


def _caption(title: str) -> str:
    return (
        f'<caption style="text-align:left;white-space:nowrap"><b>{escape(format_cell(title))}</b></caption>'
        if title
        else ""
    )


def _omitted_note(left_out: int) -> str:
    return f"<p>… {format_count(left_out)} more</p>" if left_out > 0 else ""
