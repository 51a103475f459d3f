"""The files of a bucket by level and key: facts → geometry → drawing, table.

    dt=2024-03-31 · bucket 0 · 16 files · 405.6 MiB
    L0        ██████████████████████                     1.4 MiB · 3 files
         ████████████████
    L5   ▒▒▒▒▒▒▒▒ ▒▒▒▒▒▒▒▒▒▒ ▒▒▒▒▒ ▒▒▒▒ ▒▒▒▒▒▒▒ ▒▒▒▒▒   385.2 MiB · 10 files
         1                      keys              99 871

L0: every file of level 0 has a lane, newest first: the height of the stack is how much a read must merge. L5: a deeper
level is one sorted run: its files never overlap. All levels have one key axis (`draw.level_layout`).

A box is as high as the square root of the file's size; its lighter upper part shows which share of its rows is deleted
or consists of delete records. Files that the snapshot added are outlined, those it removed are empty boxes in lanes of
their own. If there would be more than `MAX_BOXES` boxes, neighbours share one, and a note in the picture says so. Pure:
no table, no clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from lakekit.draw import cards, shapes as color
from lakekit.draw.humanize import (
    display_width,
    escape_controls,
    format_cell,
    format_count,
    format_size,
    plural,
    truncate,
)
from lakekit.draw.level_layout import EMPTY_QUERY, LevelFile, build_axis, file_tooltip, key_range_text
from lakekit.draw.shapes import DEFAULT_WIDTH, Drawing, Rect, Stroke, TextShape

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakekit.draw.level_layout import BucketState, KeyAxis, LevelQuery
    from lakekit.draw.shapes import Shape

MAX_BOXES = 1500
"""The most boxes of a picture: a browser still answers quickly (measured)."""
LEFT_SHARE, RIGHT_SHARE = 0.05, 0.21
"""Fractions of the width beside the axis: names of levels, totals."""
LANE_HEIGHT, LANE_GAP, FLAT_HEIGHT = 22.0, 3.0, 7.0
"""Pixels: a lane, between lanes, the box of an empty file."""
MAX_STACK_HEIGHT = 900.0
"""The most pixels of level 0 before its lanes become flatter."""
_MIN_PITCH = 3.0
_MIN_BOX_WIDTH = 0.003
_LINE_HEIGHT = 16.0
_GHOST_HEIGHT = 0.6
"""The height of the lane of removed files, relative to that of live ones."""
_MAX_NAMES = 6


# ---- geometry --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelBox:
    """The box of a file, or of neighbours that share one.

    `key` identifies the box in a picture, and `hint` is the text of a tooltip. `left` and `width` are fractions of the
    whole width, `top` and `height` pixels. `state` is "lit" or "dim" for a file that the query's read opens or does not
    open, "added" or "removed" by the snapshot, or "".
    """

    key: str
    files: tuple[LevelFile, ...]
    level: int
    left: float
    width: float
    top: float
    height: float
    state: str = ""
    deleted_fraction: float = 0.0
    hint: str = ""

    @property
    def name(self) -> str:
        """The file's name, or how many files there are."""
        return self.files[0].name if len(self.files) == 1 else plural(len(self.files), "file")


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelPicture:
    """Boxes, and lines and text whose x is a fraction of the width; `description` describes them in sentences."""

    boxes: tuple[LevelBox, ...]
    shapes: tuple[Shape, ...]
    height: float
    description: str
    grouping_note: str = ""


AxisRanges = dict[int, tuple[float, float]]
"""Where the files of a picture begin and end on the axis, by identity."""


@dataclass(slots=True)
class _LevelsDrawing:
    """A picture under construction."""

    axis: KeyAxis
    ranges: AxisRanges
    query: LevelQuery
    largest_file_bytes: int
    is_append: bool
    boxes: list[LevelBox] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    top: float = 0.0

    def add_text(self, x: float, text: str, **look: Any) -> None:
        """Add text at the current height of the sheet."""
        self.shapes.append(TextShape(x=x, y=self.top + _LINE_HEIGHT / 2, text=text, **look))


def build_picture(
    title: str,
    states: Sequence[BucketState],
    *,
    key_names: Sequence[str] = (),
    is_append: bool = False,
    query: LevelQuery = EMPTY_QUERY,
    limit: int = MAX_BOXES,
) -> LevelPicture:
    """Return the successive states of one bucket, below each other on one key axis.

    Files of append tables have no keys: `low` and `high` are then row numbers in the order of writing.
    """
    every = [file for state in states for file in (*state.files, *state.removed_files)]
    axis = build_axis(key for file in every for key in (file.min_key, file.max_key) if key is not None)
    places = {id(file): _position_on_axis(file, axis) for file in every}
    sheet = _LevelsDrawing(
        axis=axis,
        ranges=places,
        query=query,
        largest_file_bytes=max((file.size_bytes for file in every), default=0),
        is_append=is_append,
    )
    sheet.add_text(0.0, escape_controls(title), is_bold=True)
    sheet.top += _LINE_HEIGHT + 2
    for line in filter(None, (*query.notes, *map(_change_legend, states), _merge_note(len(every), limit))):
        sheet.add_text(0.0, escape_controls(line))
        sheet.top += _LINE_HEIGHT
    begin = sheet.top
    rooms = _group_files(states, places, limit)
    for at, state in enumerate(states):
        if len(states) > 1:
            sheet.add_text(0.0, f"snapshot {state.snapshot_id}", color="muted")
            sheet.top += _LINE_HEIGHT
        _draw_state(sheet, state, rooms[at], f"{at}/" if at else "")
        sheet.top += LANE_GAP * 2
    if every:
        _draw_axis(sheet, begin, key_names)
    return LevelPicture(
        boxes=tuple(sheet.boxes),
        shapes=tuple(sheet.shapes),
        height=sheet.top + 2,
        description=" ".join(
            filter(
                None,
                (f"{title}.", *(_describe_state(state, has_several=len(states) > 1) for state in states), *query.notes),
            )
        ),
        grouping_note=_merge_note(len(every), limit),
    )


def _change_legend(bucket_state: BucketState) -> str:
    """Return a text on the meaning of the frames around boxes and of their lighter parts."""
    lost = sum(file.deleted_row_count + file.delete_row_count for file in bucket_state.files)
    parts = [f"lighter: {plural(lost, 'deleted row')}"] if lost else []
    if bucket_state.opened_names is None:
        frames = (
            (len(bucket_state.added_names), "added: outlined"),
            (len(bucket_state.removed_files), "removed: empty boxes"),
            (len(bucket_state.leaving_names), "not in the other: empty boxes"),
        )
        parts = [*(f"{plural(number, 'file')} {what}" for number, what in frames if number), *parts]
    return " · ".join(parts)


def _merge_note(file_count: int, limit: int) -> str:
    return (
        f"{format_count(file_count)} files are more than can be drawn: neighbours share a box that says how many"
        if file_count > limit
        else ""
    )


def _describe_state(bucket_state: BucketState, *, has_several: bool) -> str:
    levels = "; ".join(
        f"level {level} {_totals_text(tuple(level_files))}"
        for level, level_files in _group_by_level(bucket_state.files)
    )
    at = f"Snapshot {bucket_state.snapshot_id}: " if has_several else ""
    return f"{at}{levels or 'no files'}."


def _group_by_level(files: Iterable[LevelFile]) -> list[tuple[int, list[LevelFile]]]:
    return [
        (level, list(level_files))
        for level, level_files in groupby(sorted(files, key=lambda file: file.level), lambda file: file.level)
    ]


def _totals_text(files: Sequence[LevelFile]) -> str:
    return f"{format_size(sum(file.size_bytes for file in files))} · {plural(len(files), 'file')}"


# ---- neighbours ------------------------------------------------------------------------------------------------------


Groups = list[tuple[LevelFile, ...]]


def _group_files(
    states: Sequence[BucketState], axis_ranges: AxisRanges, limit: int
) -> list[dict[tuple[int, bool], Groups]]:
    """Return the files that share a box, for each state by level and whether they were removed.

    Every file has a box of its own, or runs of neighbours share one where there are too many. Files that differ from
    their neighbours (read, added) stay alone while they are few.
    """
    rooms: list[dict[tuple[int, bool], list[LevelFile]]] = []
    for state in states:
        room = {
            (level, False): _sort_files(level, level_files, axis_ranges)
            for level, level_files in _group_by_level(state.files)
        }
        rooms.append(
            room
            | {
                (level, True): _sort_files(level, level_files, axis_ranges)
                for level, level_files in _group_by_level(state.removed_files)
            }
        )
    total = sum(len(level_files) for room in rooms for level_files in room.values())
    if total <= limit:
        return [
            {room_key: [(file,) for file in level_files] for room_key, level_files in room.items()} for room in rooms
        ]
    marked = [state.highlighted_names for state in states]
    special = sum(file.name in names for state, names in zip(states, marked, strict=True) for file in state.files)
    alone = special * 2 + sum(map(len, rooms)) < limit // 2
    spare = limit - sum(map(len, rooms)) - (special * 2 if alone else 0)
    per_box = math.ceil(total / max(1, spare))
    return [
        {
            room_key: _group_neighbours(level_files, per_box, marked[at] if alone and not room_key[1] else frozenset())
            for room_key, level_files in room.items()
        }
        for at, room in enumerate(rooms)
    ]


def _sort_files(level: int, files: list[LevelFile], axis_ranges: AxisRanges) -> list[LevelFile]:
    """Return the files of a level so that neighbours are adjacent: level 0 by age, other levels by key."""
    return files if level == 0 else sorted(files, key=lambda file: (axis_ranges[id(file)], file.name))


def _group_neighbours(files: list[LevelFile], per_box: int, special_names: frozenset[str]) -> Groups:
    """Return neighbours together, at most `per_box` of them; special ones alone."""
    groups: Groups = []
    for is_special, run in groupby(files, lambda file: file.name in special_names):
        many = list(run)
        step = 1 if is_special else per_box
        groups += [tuple(many[at : at + step]) for at in range(0, len(many), step)]
    return groups


def _position_on_axis(file: LevelFile, axis: KeyAxis) -> tuple[float, float]:
    """Return where a file begins and ends on the axis; one with unknown keys takes all of it."""
    return 0.0 if file.min_key is None else axis.start(file.min_key), 1.0 if file.max_key is None else axis.end(
        file.max_key
    )


# ---- lanes -----------------------------------------------------------------------------------------------------------


def _draw_state(
    drawing: _LevelsDrawing, bucket_state: BucketState, groups_by_level: Mapping[tuple[int, bool], Groups], prefix: str
) -> None:
    """Draw the levels of one state, from the top."""
    if not groups_by_level:
        drawing.add_text(LEFT_SHARE, "no files")
        drawing.top += _LINE_HEIGHT
    totals = {level: _totals_text(level_files) for level, level_files in _group_by_level(bucket_state.files)}
    for level in sorted({level for level, _ in groups_by_level}):
        top = drawing.top
        ghosts, living = groups_by_level.get((level, True), []), groups_by_level.get((level, False), [])
        stacked = level == 0 and not drawing.is_append
        lanes = [(True, lane) for lane in _assign_lanes(drawing.ranges, ghosts, is_stacked=stacked)] + [
            (False, lane) for lane in _assign_lanes(drawing.ranges, living, is_stacked=stacked)
        ]
        pitch = max(_MIN_PITCH, min(LANE_HEIGHT + LANE_GAP, MAX_STACK_HEIGHT / len(lanes)))
        for is_ghost, lane in lanes:
            high = pitch * (_GHOST_HEIGHT if is_ghost else 1.0) if pitch > FLAT_HEIGHT * 2 else pitch
            _draw_lane(
                drawing, lane, high, bucket_state=bucket_state, prefix=f"{prefix}removed/" if is_ghost else prefix
            )
            drawing.top += high
        middle = (top + drawing.top) / 2 - 1
        text = totals.get(level) or f"{plural(sum(map(len, ghosts)), 'file')} removed"
        drawing.shapes.append(TextShape(x=0.0, y=middle, text="files" if drawing.is_append else f"L{level}"))
        drawing.shapes.append(TextShape(x=1, y=middle, text=text, color="muted", anchor="end"))
        drawing.top += LANE_GAP + 2


def _assign_lanes(axis_ranges: AxisRanges, groups: Groups, *, is_stacked: bool) -> list[Groups]:
    """Return the boxes by lane.

    On level 0 each box has a lane; other levels have one lane, and more where files overlap.
    """
    if is_stacked:
        return [[group] for group in groups]
    lanes: list[Groups] = []
    ends: list[float] = []
    for group in sorted(groups, key=lambda group: min(axis_ranges[id(file)] for file in group)):
        low, high = min(axis_ranges[id(file)][0] for file in group), max(axis_ranges[id(file)][1] for file in group)
        at = next((at for at, end in enumerate(ends) if end <= low), None)
        if at is None:
            lanes.append([group])
            ends.append(high)
        else:
            lanes[at].append(group)
            ends[at] = high
    return lanes


def _draw_lane(drawing: _LevelsDrawing, lane: Groups, pitch: float, *, bucket_state: BucketState, prefix: str) -> None:
    """Draw one lane of boxes, from left to right.

    A box is wide enough to be seen where its neighbour leaves room.
    """
    span = 1 - LEFT_SHARE - RIGHT_SHARE
    places = [[drawing.ranges[id(file)] for file in group] for group in lane]
    lows = [min(low for low, _ in group_places) for group_places in places]
    room = pitch - (LANE_GAP if pitch > FLAT_HEIGHT else 1.0)
    flat = min(FLAT_HEIGHT, room / 2)
    for at, group in enumerate(lane):
        low, high = lows[at], max(high for _, high in places[at])
        after = lows[at + 1] if at + 1 < len(lane) else 1.0
        high = max(high, min(low + _MIN_BOX_WIDTH, after))
        low = min(low, max(high - _MIN_BOX_WIDTH, max(end for _, end in places[at - 1]) if at else 0.0))
        mean = sum(file.size_bytes for file in group) / len(group)
        height = (
            flat + (room - flat) * math.sqrt(max(mean, 0) / drawing.largest_file_bytes)
            if drawing.largest_file_bytes > 0
            else flat
        )
        rows = sum(file.row_count for file in group)
        drawing.boxes.append(
            LevelBox(
                key=prefix + group[0].name,
                files=group,
                level=group[0].level,
                left=LEFT_SHARE + low * span,
                width=(high - low) * span,
                top=drawing.top + room - height,
                height=height,
                state=_box_state(bucket_state, group, is_removed=prefix.endswith("removed/")),
                deleted_fraction=sum(file.deleted_fraction * file.row_count for file in group) / rows
                if rows > 0
                else 0.0,
                hint=file_tooltip(
                    group, None if prefix.endswith("removed/") else bucket_state, is_append=drawing.is_append
                ),
            )
        )


def _box_state(bucket_state: BucketState, group: tuple[LevelFile, ...], *, is_removed: bool) -> str:
    names = {file.name for file in group}
    if is_removed or names <= bucket_state.leaving_names:
        return "removed"
    if bucket_state.opened_names is not None:
        return "lit" if names & bucket_state.opened_names else "dim"
    return "added" if names & bucket_state.added_names else ""


def _draw_axis(drawing: _LevelsDrawing, begin: float, key_names: Sequence[str]) -> None:
    """Draw the axis under all levels, and a line at the probed key (`LevelQuery.probe`) across them."""
    span = 1 - LEFT_SHARE - RIGHT_SHARE
    drawing.shapes.append(Stroke(x=LEFT_SHARE, y=drawing.top, to_x=LEFT_SHARE + span, to_y=drawing.top))
    probe = drawing.query.probe
    if probe is not None and drawing.axis.keys:
        x = LEFT_SHARE + span * drawing.axis.middle(probe)
        drawing.shapes.append(Stroke(x=x, y=begin, to_x=x, to_y=drawing.top, color="probe", thickness=2))
    drawing.top += 2
    if drawing.axis.keys:
        ends = [", ".join(format_cell(part) for part in key) for key in (drawing.axis.keys[0], drawing.axis.keys[-1])]
        middle = "rows in the order of writing" if drawing.is_append else drawing.axis.scale_text(key_names)
        letters = max(8, (int(span * DEFAULT_WIDTH / 7) - display_width(middle)) // 2 - 2)
        drawing.add_text(LEFT_SHARE, truncate(ends[0], letters))
        drawing.add_text(LEFT_SHARE + span / 2, middle, anchor="middle", color="muted")
        drawing.add_text(LEFT_SHARE + span, truncate(ends[1], letters), anchor="end")
        drawing.top += _LINE_HEIGHT


# ---- drawing, HTML and text ------------------------------------------------------------------------------------------


def to_drawing(view: LevelPicture, *, width: float = DEFAULT_WIDTH) -> Drawing:
    """Return the picture as shapes."""
    shapes: list[Shape] = []
    for box in view.boxes:
        shapes += _box_shapes(box, width)
    return Drawing(
        width=width,
        height=view.height,
        shapes=(*shapes, *(_scale_shape(mark, width) for mark in view.shapes)),
        description=view.description,
    )


def _box_shapes(box: LevelBox, width: float) -> list[Shape]:
    fill, wide = color.level_color(box.level), max(1.0, box.width * width - 1)
    box_shape = Rect(
        x=box.left * width,
        y=box.top,
        width=wide,
        height=box.height,
        color=fill,
        corner_radius=2,
        hint=box.hint,
        key=box.key,
    )
    if box.state == "removed":
        return [replace(box_shape, color="removed", is_outline=True)]
    band = 0.0 if box.deleted_fraction <= 0 else min(box.height, max(2.0, box.height * box.deleted_fraction))
    shapes: list[Shape] = [replace(box_shape, y=box.top + band, height=box.height - band, is_faint=box.state == "dim")]
    if band:
        shapes.append(replace(box_shape, height=band, is_faint=True))
    if box.state in ("added", "lit"):
        shapes.append(replace(box_shape, color="probe" if box.state == "lit" else "added", is_outline=True))
    return shapes


def _scale_shape(mark: Shape, width: float) -> Shape:
    match mark:
        case Stroke():
            return replace(mark, x=mark.x * width, to_x=mark.to_x * width)
        case Rect():
            return replace(mark, x=mark.x * width, width=mark.width * width)
    return replace(mark, x=mark.x * width)


def levels_tables_html(
    title: str, states: Sequence[BucketState], *, is_append: bool = False, query: LevelQuery = EMPTY_QUERY
) -> str:
    """Return levels and files as two HTML tables: files of the query come first, omitted ones are noted."""
    sums: list[tuple[object, ...]] = []
    rows: list[tuple[object, ...]] = []
    for state in states:
        sums += [
            (
                state.snapshot_id,
                level,
                len(level_files),
                format_size(sum(f.size_bytes for f in level_files)),
                sum(f.row_count for f in level_files),
            )
            for level, level_files in _group_by_level(state.files)
        ]
        word = "added" if state.opened_names is None else "to be read"
        marked = [
            (word if file.name not in state.leaving_names else "removed later", file)
            for file in state.files
            if file.name in state.highlighted_names
        ]
        unmarked = [("", file) for file in state.files if file.name not in state.highlighted_names]
        rows += [
            _table_row(state, file, mark)
            for mark, file in (*marked, *(("removed", file) for file in state.removed_files), *unmarked)
        ]
    files = cards.html_table(
        ("snapshot", "level", "file", "size", "rows", "deleted", "rows" if is_append else "keys", ""),
        rows,
        title=" · ".join(query.notes) or "files",
    )
    return cards.html_table(("snapshot", "level", "files", "size", "rows"), sums, title=title) + files


def levels_text(
    title: str,
    states: Sequence[BucketState],
    *,
    width: int = cards.WIDTH,
    is_append: bool = False,
    query: LevelQuery = EMPTY_QUERY,
) -> str:
    """Return the states in characters, with lists of the files that are read, added or removed."""
    parts = [*query.notes, *([] if states else [escape_controls(title)])]
    for state in states:
        boxes = [
            cards.FileCard(
                level=f.level, min_key=f.min_key, max_key=f.max_key, size_bytes=f.size_bytes, row_count=f.row_count
            )
            for f in state.files
        ]
        head = title if len(states) == 1 else f"{title} · snapshot {state.snapshot_id}"
        parts.append(cards.levels_text(head, boxes, width=width, probe=query.probe, is_append=is_append))
        for what, names in (
            ("read", state.opened_names or ()),
            ("added", state.added_names),
            ("removed", [file.name for file in state.removed_files]),
        ):
            if names:
                more = f" … {format_count(len(names) - _MAX_NAMES)} more" if len(names) > _MAX_NAMES else ""
                parts.append(
                    truncate(f"  {what}: {escape_controls(', '.join(sorted(names)[:_MAX_NAMES]))}{more}", width)
                )
    return "\n".join(parts)


def _table_row(bucket_state: BucketState, file: LevelFile, mark: str) -> tuple[object, ...]:
    keys = key_range_text(file).removeprefix("keys ")
    return (
        bucket_state.snapshot_id,
        file.level,
        file.name,
        format_size(file.size_bytes),
        file.row_count,
        file.deleted_row_count + file.delete_row_count,
        keys,
        mark,
    )
