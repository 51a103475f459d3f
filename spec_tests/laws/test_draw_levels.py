"""Levels as a picture: boxes stay inside, keys keep their order, runs never overlap, nothing is lost where neighbours merge."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from lakekit.draw import levels
from lakekit.draw.humanize import format_size
from lakekit.draw.level_layout import BucketState, LevelFile, LevelQuery, build_axis, key_sort_key, with_row_number_bounds
from lakekit.draw.levels import LEFT_SHARE, RIGHT_SHARE, build_picture
from lakekit.draw.shapes import TextShape, to_svg

FEW = settings(max_examples=settings.default.max_examples // 2, suppress_health_check=[HealthCheck.too_slow])

KINDS = {
    "int": st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
    "text": st.text("ab<&é\U0001f600", max_size=3),
    "bytes": st.binary(max_size=2),
    "float": st.floats(),
    "decimal": st.decimals(allow_nan=False, allow_infinity=False, places=4),
    "bool": st.booleans(),
    "date": st.dates(),
    "time": st.times(),
    "wall": st.datetimes(),
    "instant": st.datetimes(timezones=st.just(UTC)),
}


@st.composite
def key_lists(draw, *, most=30):
    """Keys of one table: the same kinds in every key, any part may be null."""
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))
    nulls = draw(st.booleans())
    parts = [st.none() | KINDS[kind] if nulls else KINDS[kind] for kind in kinds]
    return draw(st.lists(st.tuples(*parts), min_size=1, max_size=most))


# ---- the axis -------------------------------------------------------------------------------------------------------------------------------


@given(key_lists())
def test_order_on_the_axis_is_the_order_of_keys(keys):
    axis = build_axis(keys)
    cells = [(axis.start(key), axis.end(key)) for key in sorted(keys, key=key_sort_key)]
    assert all(0 <= start <= end <= 1 for start, end in cells)
    for (start, end), (after, _) in pairwise(sorted(set(cells))):
        assert start <= end <= after
    for one, two in pairwise(sorted(keys, key=key_sort_key)):
        assert key_sort_key(one) == key_sort_key(two) or axis.end(one) <= axis.start(two)
        assert axis.start(one) <= axis.start(two)
    assert (axis.start(axis.keys[0]), axis.end(axis.keys[-1])) == (0, 1)


@given(key_lists(), st.data())
def test_a_probe_stands_between_its_neighbours(keys, data):
    bounds = data.draw(st.lists(st.sampled_from(keys), min_size=1))
    axis = build_axis(bounds)
    places = [axis.middle(key) for key in sorted(keys, key=key_sort_key)]
    assert places == sorted(places)
    for key in keys:
        assert axis.is_in_range(key) == (key_sort_key(axis.keys[0]) <= key_sort_key(key) <= key_sort_key(axis.keys[-1]))
        for low, high in zip(bounds, reversed(bounds), strict=True):
            inside = key_sort_key(low) <= key_sort_key(key) <= key_sort_key(high)
            assert not inside or axis.start(low) <= axis.middle(key) <= axis.end(high)
        assert 0 <= axis.middle(key[:1]) <= 1


def test_places_by_value_and_by_rank():
    by_value = build_axis([(0,), (10,), (99,)])
    assert by_value.column == 0
    assert (by_value.start((10,)), by_value.end((10,))) == (0.1, 0.11)
    assert 0.45 < by_value.middle((50,)) < 0.55
    by_day = build_axis([("x", date(2024, 1, 1)), ("x", date(2024, 1, 2)), ("x", date(2024, 1, 5))])
    assert (by_day.column, by_day.starts) == (1, (0.0, 0.2, 0.8))
    assert build_axis([("a",), ("b",), ("zzz",)]).starts == (0, 1 / 3, 2 / 3)
    assert build_axis([("a",), ("b",)]).column is None
    together = build_axis([(1, "a"), (1, "b"), (2, "a")])
    assert together.starts == (0, 0.25, 0.5)
    assert build_axis([(1.5,), (math.inf,)]).column is None
    assert build_axis([(Decimal("0.10"),), (Decimal("0.20"),), (Decimal("0.50"),)]).starts == (0, 0.25, 1)
    assert build_axis([(time(0),), (time(6),), (time(12),)]).starts == (0, 0.5, 1)
    start = datetime(2024, 1, 1, tzinfo=UTC)
    assert build_axis([(start,), (start + timedelta(hours=1),), (start + timedelta(hours=4),)]).starts == (0, 0.25, 1)
    assert build_axis([(b"\x00",), (None,), (b"\xff",)]).keys[0] == (None,)
    assert build_axis([]).middle((1,)) == 0


# ---- pictures -------------------------------------------------------------------------------------------------------------------------------


@st.composite
def buckets(draw, *, deepest=5):
    """Files of a bucket: anything in level 0, runs of disjoint keys below."""
    found = []
    chance = draw(st.randoms(use_true_random=False))
    for number in range(draw(st.integers(0, 6))):
        low, high = sorted((chance.randint(0, 500), chance.randint(0, 500)))
        found.append((0, low, high, number))
    for level in draw(st.sets(st.integers(1, deepest), max_size=3)):
        edges = sorted(chance.sample(range(500), draw(st.integers(0, 12))))
        found += [(level, low, high - 1, number) for number, (low, high) in enumerate(pairwise(edges))]
    return tuple(
        LevelFile(
            name=f"data-{level}-{number}.parquet",
            level=level,
            min_key=(low,),
            max_key=(max(low, high),),
            size_bytes=chance.randint(0, 2 ** chance.randint(0, 40)),
            row_count=chance.randint(0, 1000),
            deleted_row_count=chance.randint(0, 1000),
        )
        for level, low, high, number in found
    )


@st.composite
def states(draw):
    files = draw(buckets())
    names = st.randoms(use_true_random=False).map(lambda chance: frozenset(file.name for file in files if chance.random() < 0.4))
    gone = tuple(replace(file, name=f"gone-{file.name}") for file in draw(buckets()))
    return BucketState(snapshot_id=draw(st.integers(1, 9)), files=files, added_names=draw(names), removed_files=gone, opened_names=draw(st.none() | names))


def overlaps(one, two):
    tiny = 1e-9
    across = one.left + tiny < two.left + two.width and two.left + tiny < one.left + one.width
    return across and one.top + tiny < two.top + two.height and two.top + tiny < one.top + one.height


@FEW
@given(st.lists(states(), min_size=1, max_size=2), st.none() | st.integers(-10, 510))
def test_boxes_stay_inside_and_never_overlap(some, probe):
    found = build_picture("a <bucket>", some, query=LevelQuery(probe=None if probe is None else (probe,)))
    for box in found.boxes:
        assert LEFT_SHARE - 1e-9 <= box.left <= box.left + box.width <= 1 - RIGHT_SHARE + 1e-9
        assert 0 <= box.top < box.top + box.height <= found.height
        assert 0 <= box.deleted_fraction <= 1
    for at, one in enumerate(found.boxes):
        assert not any(overlaps(one, two) for two in found.boxes[at + 1 :])
    assert len({box.key for box in found.boxes}) == len(found.boxes)
    for mark in found.shapes:
        assert 0 <= mark.x <= 1
        assert 0 <= mark.y <= found.height


@FEW
@given(st.lists(states(), min_size=1, max_size=2))
def test_boxes_stand_in_the_order_of_keys_and_of_age(some):
    found = build_picture("bucket", some)
    for at, state in enumerate(some):
        boxes = {box.files[0].name: box for box in found.boxes if box.key == (f"{at}/" if at else "") + box.files[0].name}
        assert set(boxes) == {file.name for file in state.files}
        for one in state.files:
            for two in state.files:
                if one.max_key < two.min_key and one.level == two.level > 0:
                    assert boxes[one.name].left + boxes[one.name].width <= boxes[two.name].left + 1e-9
                if one.level < two.level:
                    assert boxes[one.name].top < boxes[two.name].top
        shallow = [boxes[file.name] for file in state.files if file.level == 0]
        assert all(one.top + one.height <= two.top for one, two in pairwise(shallow))
        deep = [{box.top + box.height for box in boxes.values() if box.level == level} for level in range(1, 6)]
        assert all(max(bottoms) - min(bottoms) < 1e-9 for bottoms in deep if bottoms)


@FEW
@given(states())
def test_totals_add_up(state):
    found = build_picture("bucket", [state])
    said = [mark.text for mark in found.shapes if isinstance(mark, TextShape)]
    for level in {file.level for file in state.files}:
        here = [file.size_bytes for file in state.files if file.level == level]
        assert f"{format_size(sum(here))} · {len(here)} file{'' if len(here) == 1 else 's'}" in said
    lost = sum(file.deleted_row_count for file in state.files)
    assert any("lighter: " in text for text in said) == (lost > 0)
    shown = [box for box in found.boxes if not box.key.startswith("removed/")]
    assert sum(file.size_bytes for box in shown for file in box.files) == sum(file.size_bytes for file in state.files)


@FEW
@given(states())
def test_higher_boxes_are_larger_files(state):
    boxes = [box for box in build_picture("bucket", [state]).boxes if not box.key.startswith("removed/")]
    for one in boxes:
        for two in boxes:
            if one.files[0].size_bytes < two.files[0].size_bytes:
                assert one.height <= two.height


@FEW
@given(states())
def test_looks_say_what_is_read_added_and_removed(state):
    for box in build_picture("bucket", [state]).boxes:
        name = box.files[0].name
        if box.key.startswith("removed/"):
            assert (box.state, name in {file.name for file in state.removed_files}) == ("removed", True)
        elif state.opened_names is not None:
            assert box.state == ("lit" if name in state.opened_names else "dim")
            assert ("to be read" in box.hint) == (name in state.opened_names)
        else:
            assert box.state == ("added" if name in state.added_names else "")


@FEW
@given(st.lists(states(), min_size=1, max_size=2), st.integers(16, 30))
def test_merging_keeps_every_file(some, limit):
    found = build_picture("bucket", some, limit=limit)
    every = [file for state in some for file in (*state.files, *state.removed_files)]
    assert sorted(file.name for box in found.boxes for file in box.files) == sorted(file.name for file in every)
    assert (len(every) > limit) == bool(found.grouping_note)
    if len(every) > limit:
        assert len(found.boxes) <= max(limit, sum(len({file.level for file in files}) for state in some for files in (state.files, state.removed_files)))
        assert str(len(every)) in found.grouping_note
        assert any(isinstance(mark, TextShape) and "neighbours" in mark.text for mark in found.shapes)
    else:
        assert all(len(box.files) == 1 for box in found.boxes)
    for box in found.boxes:
        assert len({file.level for file in box.files}) == 1
        assert box.name == (box.files[0].name if len(box.files) == 1 else f"{len(box.files)} files")


@pytest.mark.long
def test_many_files_stay_few_boxes_and_the_read_ones_alone():
    files = tuple(
        LevelFile(name=f"data-{number}", level=5, min_key=(number * 10,), max_key=(number * 10 + 9,), size_bytes=100, row_count=10) for number in range(10_000)
    )
    found = build_picture("bucket", [BucketState(snapshot_id=1, files=files, opened_names=frozenset({"data-5000", "data-77"}))])
    assert len(found.boxes) <= levels.MAX_BOXES
    assert [box.name for box in found.boxes if box.state == "lit"] == ["data-77", "data-5000"]
    assert "10 000 files" in found.grouping_note


@FEW
@given(states(), st.booleans())
def test_every_door_escapes_names_and_says_everything(state, is_append):
    hostile = tuple(replace(file, name=f"<script>alert({at})</script>") for at, file in enumerate(state.files))
    state = replace(state, files=hostile)
    title = "<b>bucket</b>"
    found = build_picture(title, [state], is_append=is_append)
    for page in (to_svg(levels.to_drawing(found)), levels.levels_tables_html(title, [state], is_append=is_append)):
        assert "<script" not in page
        assert "<b>bucket" not in page
    drawn = levels.to_drawing(found)
    assert (drawn.width, drawn.height) == (880, found.height)
    assert "script" in levels.levels_text(title, [replace(state, added_names=frozenset(file.name for file in hostile))]) or not hostile


def test_unknown_keys_take_the_whole_axis():
    known = LevelFile(name="known", level=0, min_key=(5,), max_key=(6,), size_bytes=1, row_count=1)
    unknown = LevelFile(name="unknown", level=0, min_key=None, max_key=None, size_bytes=1, row_count=1)
    boxes = {box.name: box for box in build_picture("bucket", [BucketState(snapshot_id=1, files=(known, unknown))]).boxes}
    assert math.isclose(boxes["unknown"].width, 1 - LEFT_SHARE - RIGHT_SHARE)
    assert "keys unknown" in boxes["unknown"].hint
    assert build_picture("nothing", [BucketState(snapshot_id=None, files=())]).boxes == ()
    assert "no files" in build_picture("nothing", [BucketState(snapshot_id=None, files=())]).description


def test_files_of_an_append_table_stand_in_the_order_of_writing():
    made = [LevelFile(name=f"{number}", level=0, min_key=None, max_key=None, size_bytes=1, row_count=rows) for number, rows in enumerate((10, 0, 30))]
    ordered = with_row_number_bounds(made)
    assert [(file.min_key, file.max_key) for file in ordered] == [((0,), (9,)), ((10,), (10,)), ((10,), (39,))]
    boxes = build_picture("bucket", [BucketState(snapshot_id=1, files=ordered)], is_append=True).boxes
    drawn = levels.levels_text("bucket", [BucketState(snapshot_id=1, files=ordered)], is_append=True).split("\n")
    assert len(drawn) == 3
    assert drawn[1].endswith("3 B · 3 files")
    assert drawn[2].split() == ["0", "rows", "39"]
    first, last = boxes[0], next(box for box in boxes if box.name == "2")
    assert math.isclose(last.width, first.width * 3)
    assert not any(overlaps(one, two) for at, one in enumerate(boxes) for two in boxes[at + 1 :])
