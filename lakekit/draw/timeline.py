"""The snapshots of a table on a line: one mark a snapshot, its sign by kind.

    v1               schema 1                                         tags and schema changes
    ●─────●─────◆─────●─────■        circle APPEND · diamond COMPACT · square OVERWRITE · triangle ANALYZE
    1     2     3     4     5        faint: expired, but a tag or its changelog is kept
    ▂▂▂▂▂▂▄▄▄▄▄▄▃▃▃▃▃▃▆▆▆▆▆▆▁▁▁▁▁                                     stored rows

Marks stand evenly, in lines, or by time; neighbours without enough room become one mark, and a note says so. Positions
are fractions of the width (0 to 1) and pixels of the height, so that buttons and pictures come from the same geometry.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakekit.draw import cards
from lakekit.draw.humanize import escape_controls, format_count, plural, truncate, truncate_heading
from lakekit.draw.shapes import DEFAULT_WIDTH, Drawing, Marker, Rect, Shape, Stroke, TextShape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_MARKS = 1500
"""The most marks that are drawn."""
MARKER_SIGNS = {"APPEND": "circle", "COMPACT": "diamond", "OVERWRITE": "square", "ANALYZE": "triangle"}
_PER_LINE, _MAX_LANES = 60, 8
_MAX_MARK_DISTANCE = 1 / 12
"""The largest distance of evenly placed marks: a fraction of the width."""
_MARKER_SIZE, _STEPS_HEIGHT, _LABEL_HEIGHT, _LETTER_WIDTH = 12.0, 22.0, 14.0, 6.6
_TIE_TOLERANCE = 1e-6
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# ---- facts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotMark:
    """A snapshot on the timeline; counts are stored rows.

    `retained_by`: "" while the snapshot exists, "tag" or "changelog" where only that of it is kept.
    """

    id: int
    kind: str
    time_ms: int
    schema_id: int
    row_count: int | None = None
    delta_row_count: int | None = None
    changelog_row_count: int | None = None
    watermark: int | None = None
    user: str = ""
    tags: tuple[str, ...] = ()
    retained_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The marks of a table in the order of their ids; `newest_schema_id` may be newer than any snapshot."""

    table: str
    marks: tuple[SnapshotMark, ...]
    newest_schema_id: int = 0

    def find(self, snapshot_id: int) -> SnapshotMark | None:
        """Return the mark of that snapshot, None without one."""
        return next((mark for mark in self.marks if mark.id == snapshot_id), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCounts:
    """The number of data files of a snapshot, and how many its commit added and removed."""

    live_count: int
    added_count: int
    removed_count: int

    def __str__(self) -> str:
        changes = " ".join(
            [f"+{format_count(self.added_count)}"] * (self.added_count > 0)
            + [f"-{format_count(self.removed_count)}"] * (self.removed_count > 0)
        )
        return format_count(self.live_count) + (f" ({changes})" if changes else "")


def format_time(time_ms: int | None) -> str:
    """Return a time as text, to the second, UTC.

    A number that is no time stays a number, None is a dash.
    """
    if time_ms is None:
        return "–"
    try:
        return (_EPOCH + timedelta(milliseconds=time_ms)).strftime("%Y-%m-%d %H:%M:%SZ")
    except OverflowError:
        return format_count(time_ms)


def timeline_title(history: History) -> str:
    """Return the title: `orders · 7 snapshots · 2024-11-14 09:12:00Z .. 15:40:02Z`."""
    marks = history.marks
    if not marks:
        return f"{truncate_heading(history.table)} · no snapshot: nothing was written yet"
    first, last = format_time(min(mark.time_ms for mark in marks)), format_time(max(mark.time_ms for mark in marks))
    day, _, hour = last.partition(" ")
    span = first if first == last else f"{first} .. {hour if hour and first.startswith(day) else last}"
    live_count = sum(not mark.retained_by for mark in marks)
    expired = f" and {format_count(len(marks) - live_count)} expired" if live_count < len(marks) else ""
    return f"{truncate_heading(history.table)} · {plural(live_count, 'snapshot')}{expired} · {span}"


def history_notes(history: History, *, limit: int = 8) -> list[str]:
    """Return sentences on tags, schema changes and what is kept of expired snapshots."""
    lines = []
    named = [f"{escape_controls(name)} at {mark.id}" for mark in history.marks for name in mark.tags]
    if named:
        lines.append(f"tags: {_join_first(named, limit)}")
    changed = [f"schema {mark.schema_id} from snapshot {mark.id}" for mark in schema_changes(history)]
    if history.marks and history.newest_schema_id > max(mark.schema_id for mark in history.marks):
        changed.append(f"schema {history.newest_schema_id} waits for its first snapshot")
    if changed:
        lines.append(_join_first(changed, limit))
    tagged, logged = (sum(mark.retained_by == life for mark in history.marks) for life in ("tag", "changelog"))
    if tagged:
        lines.append(f"{plural(tagged, 'expired snapshot')} kept by tags")
    if logged:
        lines.append(f"{plural(logged, 'expired snapshot')} of which the changelog is kept")
    return lines


def schema_changes(history: History) -> list[SnapshotMark]:
    """Return the marks whose schema is another than that of the mark before."""
    return [
        mark
        for before, mark in zip(history.marks, history.marks[1:], strict=False)
        if mark.schema_id != before.schema_id
    ]


def snapshot_tooltip(mark: SnapshotMark) -> str:
    """Return a snapshot in one line."""
    parts = [f"{mark.id} {mark.kind}", format_time(mark.time_ms)]
    if mark.row_count is not None:
        parts.append(
            f"{plural(mark.row_count, 'row')}"
            + ("" if mark.delta_row_count is None else f" ({mark.delta_row_count:+d})")
        )
    parts += [f"schema {mark.schema_id}", *(f"tag {escape_controls(name)}" for name in mark.tags[:4])]
    if mark.retained_by:
        parts.append("expired: a tag keeps it" if mark.retained_by == "tag" else "expired: its changelog is kept")
    return " · ".join(parts)


DETAIL_COLUMNS = ("id", "kind", "when", "rows", "delta", "changelog", "files", "schema", "watermark", "user", "tags")


def detail_row(mark: SnapshotMark, files: FileCounts | str | None = None) -> tuple[object, ...]:
    """Return the row of a snapshot under the names `DETAIL_COLUMNS`; `files` may say why they are not known."""
    return (
        mark.id,
        mark.kind + (f" (expired, {mark.retained_by} kept)" if mark.retained_by else ""),
        format_time(mark.time_ms),
        _format_optional_count(mark.row_count),
        None if mark.delta_row_count is None else f"{mark.delta_row_count:+,}".replace(",", " "),
        _format_optional_count(mark.changelog_row_count),
        None if files is None else str(files),
        mark.schema_id,
        format_time(mark.watermark) if mark.watermark is not None else None,
        mark.user,
        ", ".join(mark.tags) or None,
    )


def detail_html(mark: SnapshotMark, files: FileCounts | str | None = None) -> str:
    """Return a snapshot as a table of one row; its changelog and its tags only where it has some."""
    cells = [
        (name, value)
        for name, value in zip(DETAIL_COLUMNS, detail_row(mark, files), strict=True)
        if value is not None or name not in ("changelog", "tags")
    ]
    return cards.html_table([name for name, _ in cells], [[value for _, value in cells]])


def _format_optional_count(count: int | None) -> str | None:
    return None if count is None else format_count(count)


def _join_first(items: Sequence[str], limit: int) -> str:
    return ", ".join([*items[:limit], *([f"… {format_count(len(items) - limit)} more"] if len(items) > limit else [])])


# ---- geometry --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkGroup:
    """One drawn mark, of one snapshot or of neighbours.

    `members` are indices of `History.marks`; (x, y) its middle; `line_number` the line it stands on.
    """

    members: tuple[int, ...]
    x: float
    y: float
    line_number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineLayout:
    """The groups, the lines they stand on, the whole height, and a note on merged marks.

    A line is its middle and the bottom of its steps.
    """

    groups: tuple[MarkGroup, ...]
    lines: tuple[tuple[float, float], ...]
    height: float
    note: str
    by_time: bool = False

    def group_at(self, at: int) -> MarkGroup | None:
        """Return the group of a mark, by its index."""
        return next((group for group in self.groups if at in group.members), None)


def lay_out_marks(history: History, *, by_time: bool = False) -> TimelineLayout:
    """Return the positions of marks: evenly in lines of sixty, or by time.

    By time, marks of the same moment stand above each other.
    """
    return (
        _lay_out_by_time(history.marks) if by_time and len(history.marks) > 1 else _lay_out_evenly(len(history.marks))
    )


def _lay_out_evenly(many: int) -> TimelineLayout:
    each = max(1, -(-many // MAX_MARKS))
    members = [tuple(range(start, min(start + each, many))) for start in range(0, many, each)]
    lines = max(1, -(-len(members) // _PER_LINE))
    per_line = max(1, -(-len(members) // lines))
    pitch = min(1 / per_line, _MAX_MARK_DISTANCE)
    tall = _LABEL_HEIGHT + _MARKER_SIZE + _LABEL_HEIGHT + _STEPS_HEIGHT + 8
    groups = tuple(
        MarkGroup(
            members=indices,
            x=(at % per_line + 0.5) * pitch,
            y=at // per_line * tall + _LABEL_HEIGHT + _MARKER_SIZE / 2,
            line_number=at // per_line,
        )
        for at, indices in enumerate(members)
    )
    places = tuple((line * tall + _LABEL_HEIGHT + _MARKER_SIZE / 2, (line + 1) * tall - 8) for line in range(lines))
    return TimelineLayout(
        groups=groups,
        lines=places,
        height=lines * tall,
        note=_grouping_note(many, len(groups), "neighbours stand together"),
    )


def _lay_out_by_time(marks: Sequence[SnapshotMark]) -> TimelineLayout:
    order = sorted(range(len(marks)), key=lambda at: (marks[at].time_ms, marks[at].id))
    low, high = marks[order[0]].time_ms, marks[order[-1]].time_ms
    half, margin = (_MARKER_SIZE / 2 + 1) / DEFAULT_WIDTH, (_MARKER_SIZE + 2) / DEFAULT_WIDTH
    scale = (1 - 2 * margin) / ((high - low) or 1)
    free = [-1.0] * _MAX_LANES
    members_at: list[tuple[list[int], float, int]] = []
    for at in order:
        x = margin + (marks[at].time_ms - low) * scale
        lane = next((lane for lane, end in enumerate(free) if end <= x - half), None)
        if lane is None:
            members_at[-1][0].append(at)
        else:
            free[lane] = x + half
            members_at.append(([at], x, lane))
    lanes = max(lane for *_, lane in members_at) + 1
    floor = _LABEL_HEIGHT + lanes * (_MARKER_SIZE + 2)
    groups = tuple(
        MarkGroup(members=tuple(members), x=x, y=floor - (lane + 0.5) * (_MARKER_SIZE + 2))
        for members, x, lane in members_at
    )
    height = floor + _LABEL_HEIGHT + _STEPS_HEIGHT + 8
    note = _grouping_note(len(marks), len(groups), "those of the same moment stand together")
    return TimelineLayout(
        groups=groups, lines=((floor - (_MARKER_SIZE + 2) / 2, height - 8),), height=height, note=note, by_time=True
    )


def _grouping_note(mark_count: int, group_count: int, reason: str) -> str:
    return (
        ""
        if group_count == mark_count
        else (
            f"{plural(mark_count, 'snapshot')} drawn as {plural(group_count, 'mark')}: {reason}, drawn as the rarest "
            "kind among them"
        )
    )


def group_kinds(history: History, layout: TimelineLayout) -> list[str]:
    """Return the kind that each group is drawn as: of its snapshots' kinds the rarest in the table.

    So a few compactions are not lost among appends.
    """
    many = Counter(mark.kind for mark in history.marks)
    return [
        min((history.marks[at].kind for at in group.members), key=lambda kind: many[kind]) for group in layout.groups
    ]


def group_tooltip(history: History, group: MarkGroup) -> str:
    """Return a drawn mark in one line: its snapshot, or how many of which kind."""
    members = [history.marks[at] for at in group.members]
    if len(members) == 1:
        return snapshot_tooltip(members[0])
    kinds = {kind: sum(mark.kind == kind for mark in members) for kind in MARKER_SIGNS}
    counts = ", ".join(f"{format_count(many)} {kind}" for kind, many in kinds.items() if many)
    low, high = min(mark.id for mark in members), max(mark.id for mark in members)
    return (
        f"{plural(len(members), 'snapshot')}, {low} to {high}: {counts} · {format_time(members[0].time_ms)} .. "
        f"{format_time(members[-1].time_ms)}"
    )


# ---- shapes ----------------------------------------------------------------------------------------------------------


def background_shapes(history: History, layout: TimelineLayout) -> tuple[Shape, ...]:
    """Return all shapes but the marks: lines, steps of rows, ids, tags and schema changes.

    x and widths are fractions.
    """
    shapes: list[Shape] = [Stroke(x=0, y=y, to_x=1, to_y=y) for y, _ in layout.lines]
    shapes += _row_count_shapes(history, layout)
    shapes += _label_shapes(history, layout)
    return tuple(shapes)


def marker_shapes(history: History, layout: TimelineLayout) -> tuple[Marker, ...]:
    """Return the marks themselves, group by group."""
    return tuple(
        Marker(
            x=group.x,
            y=group.y,
            size=_MARKER_SIZE,
            color=kind,
            symbol=MARKER_SIGNS[kind],
            is_faint=all(history.marks[at].retained_by for at in group.members),
            hint=group_tooltip(history, group),
            key=str(history.marks[group.members[-1]].id),
        )
        for group, kind in zip(layout.groups, group_kinds(history, layout), strict=True)
    )


def timeline_drawing(
    history: History, layout: TimelineLayout, *, selected: int = 0, width: float = DEFAULT_WIDTH
) -> Drawing:
    """Return the picture: title and legend, the marks, the selected one in a frame."""
    heading = [timeline_title(history), *history_notes(history), *filter(None, (layout.note,))]
    head: list[Shape] = [TextShape(x=0, y=8, text=truncate(heading[0], 90), is_bold=True)]
    head += legend_shapes(history, y=24, width=width)
    head += [
        TextShape(x=0, y=40 + 15 * at, text=truncate(note, 130), color="muted") for at, note in enumerate(heading[1:])
    ]
    top = 40.0 + 15 * (len(heading) - 1)
    body: list[Shape] = []
    if history.marks:
        body += [
            _transform_shape(shape, width, top)
            for shape in (*background_shapes(history, layout), *marker_shapes(history, layout))
        ]
        index = next((at for at, mark in enumerate(history.marks) if mark.id == selected), None)
        if index is not None and (group := layout.group_at(index)) is not None:
            side = _MARKER_SIZE + 8
            left = min(max(0.0, group.x * width - side / 2), width - side)
            body.append(
                Rect(
                    x=left,
                    y=top + group.y - side / 2,
                    width=side,
                    height=side,
                    color="text",
                    is_outline=True,
                    corner_radius=3,
                )
            )
    description = ". ".join(heading) + "."
    return Drawing(
        width=width,
        height=top + (layout.height if history.marks else 0) + 4,
        shapes=(*head, *body),
        description=description,
    )


def legend_shapes(history: History, *, y: float, width: float = DEFAULT_WIDTH) -> list[Shape]:
    """Return the signs that occur, with how many snapshots have each; x in pixels of `width`."""
    shapes: list[Shape] = []
    x = 6.0
    for kind, sign in MARKER_SIGNS.items():
        many = sum(mark.kind == kind for mark in history.marks)
        if many:
            text = f"{kind} {format_count(many)}"
            shapes += [
                Marker(x=x, y=y, size=_MARKER_SIZE - 2, color=kind, symbol=sign),
                TextShape(x=x + 10, y=y, text=text, color="muted"),
            ]
            x += 10 + _LETTER_WIDTH * (len(text) + 3)
    rows = [mark.row_count for mark in history.marks if mark.row_count is not None]
    if rows:
        shapes.append(
            TextShape(x=width, y=y, text=f"stored rows, {format_count(max(rows))} at most", color="muted", anchor="end")
        )
    return shapes


def scale_to_shares(shapes: Iterable[Shape], width: float = DEFAULT_WIDTH) -> list[Shape]:
    """Return shapes whose x are pixels of `width`, with fractions of it instead."""
    return [_transform_shape(shape, 1 / width, 0) for shape in shapes]


def move_down(shapes: Iterable[Shape], down: float) -> list[Shape]:
    """Return the same shapes, lower by so many pixels."""
    return [_transform_shape(shape, 1, down) for shape in shapes]


def _transform_shape(shape: Shape, width: float, down: float) -> Shape:
    match shape:
        case Stroke():
            return replace(shape, x=shape.x * width, to_x=shape.to_x * width, y=shape.y + down, to_y=shape.to_y + down)
        case Rect():
            return replace(shape, x=shape.x * width, width=shape.width * width, y=shape.y + down)
    return replace(shape, x=shape.x * width, y=shape.y + down)


def _row_count_shapes(history: History, layout: TimelineLayout) -> list[Shape]:
    """Return the stored rows from each mark to the next, as high as their fraction of the most rows."""
    most = max((mark.row_count or 0 for mark in history.marks), default=0)
    if most <= 0:
        return []
    shapes: list[Rect] = []
    for line, (_, floor) in enumerate(layout.lines):
        groups = [group for group in layout.groups if group.line_number == line]
        widest = _MAX_MARK_DISTANCE if layout.by_time else layout.groups[0].x * 2
        for at, group in enumerate(groups):
            rows = history.marks[group.members[-1]].row_count
            end = groups[at + 1].x if at + 1 < len(groups) else min(1.0, group.x + widest / 2)
            start, end = (group.x, end) if layout.by_time else (max(0.0, group.x - widest / 2), group.x + widest / 2)
            if rows is None or rows <= 0 or end <= start:
                continue
            tall = max(1.0, float(round(_STEPS_HEIGHT * rows / most)))
            last = shapes[-1] if shapes else None
            if (
                last is not None
                and (last.y, last.height) == (floor - tall, tall)
                and abs(last.x + last.width - start) < _TIE_TOLERANCE
            ):
                shapes[-1] = replace(last, width=end - last.x)
            else:
                shapes.append(
                    Rect(x=start, y=floor - tall, width=end - start, height=tall, color="muted", is_faint=True)
                )
    return list(shapes)


def _label_shapes(history: History, layout: TimelineLayout) -> list[Shape]:
    """Return ids below the marks where there is enough width, tags and schema changes above."""
    changed = {mark.id for mark in schema_changes(history)}
    shapes: list[Shape] = []
    above, below = [0.0] * len(layout.lines), [0.0] * len(layout.lines)
    tops = [y for y, _ in layout.lines]
    for group in layout.groups:
        tops[group.line_number] = min(tops[group.line_number], group.y)
    for group in layout.groups:
        members = [history.marks[at] for at in group.members]
        line, last = group.line_number, members[-1]
        y, _ = layout.lines[line]
        number = str(last.id)
        half = len(number) * _LETTER_WIDTH / 2 / DEFAULT_WIDTH
        if group.x - half >= below[line]:
            shapes.append(TextShape(x=group.x, y=y + _MARKER_SIZE / 2 + 8, text=number, color="muted", anchor="middle"))
            below[line] = group.x + half + 6 / DEFAULT_WIDTH
        labels = [escape_controls(name) for mark in members for name in mark.tags]
        labels += [f"schema {mark.schema_id}" for mark in members if mark.id in changed]
        if labels:
            text, start = truncate(", ".join(labels), 24), max(0.0, group.x - 4 / DEFAULT_WIDTH)
            color = "probe" if any(mark.tags for mark in members) else "axis"
            shapes.append(
                Stroke(
                    x=group.x,
                    y=group.y - _MARKER_SIZE / 2 - 4,
                    to_x=group.x,
                    to_y=group.y - _MARKER_SIZE / 2,
                    color=color,
                    thickness=2,
                )
            )
            if start >= above[line] and start + len(text) * _LETTER_WIDTH / DEFAULT_WIDTH <= 1:
                shapes.append(TextShape(x=start, y=tops[line] - _MARKER_SIZE / 2 - 9, text=text, color="text"))
                above[line] = start + (len(text) + 2) * _LETTER_WIDTH / DEFAULT_WIDTH
    return shapes


# ---- text ------------------------------------------------------------------------------------------------------------

_SOLID_SIGNS = {"APPEND": "●", "COMPACT": "◆", "OVERWRITE": "■", "ANALYZE": "▲"}
_HOLLOW_SIGNS = {"APPEND": "○", "COMPACT": "◇", "OVERWRITE": "□", "ANALYZE": "△"}
_BAR_CHARACTERS = "▁▂▃▄▅▆▇█"
_MAX_TEXT_LINES = 4


def timeline_text(history: History, *, width: int = 100, selected: int = 0) -> str:
    """Return the timeline in characters, the newest lines of it; `selected` stands in brackets."""
    lines = [timeline_title(history)]
    kinds = [
        f"{_SOLID_SIGNS[kind]} {kind}" for kind in MARKER_SIGNS if any(mark.kind == kind for mark in history.marks)
    ]
    most = max((mark.row_count or 0 for mark in history.marks), default=0)
    if history.marks:
        lines.append(
            "  ".join([*kinds, *([f"{_BAR_CHARACTERS[-1]} {format_count(most)} stored rows"] if most else [])])
        )
        lines += _draw_lines(history.marks, most, width, selected)
    return "\n".join(truncate(line, width) for line in [*lines, *history_notes(history)])


def _draw_lines(marks: Sequence[SnapshotMark], maximum: int, width: int, selected: int) -> list[str]:
    cell = max(len(str(mark.id)) for mark in marks) + 3
    per_line = max(1, (width - 1) // cell)
    visible = marks[-per_line * _MAX_TEXT_LINES :]
    lines = [f"… {format_count(len(marks) - len(visible))} older"] if len(visible) < len(marks) else []
    for start in range(0, len(visible), per_line):
        line_marks = visible[start : start + per_line]
        marked = [(_HOLLOW_SIGNS if mark.retained_by else _SOLID_SIGNS).get(mark.kind, "?") for mark in line_marks]
        lines.append(" " + "".join(sign.ljust(cell, "─") for sign in marked[:-1]) + marked[-1])
        lines.append(
            " "
            + "".join(
                (f"[{mark.id}]" if mark.id == selected else str(mark.id)).ljust(cell) for mark in line_marks
            ).rstrip()
        )
        if maximum > 0:
            lines.append(
                " "
                + "".join(_bar_character(mark.row_count, maximum) * (cell - 1) + " " for mark in line_marks).rstrip()
            )
    return lines


def _bar_character(rows: int | None, maximum: int) -> str:
    return (
        " "
        if rows is None or rows <= 0
        else _BAR_CHARACTERS[min(len(_BAR_CHARACTERS) - 1, rows * len(_BAR_CHARACTERS) // (maximum + 1))]
    )
