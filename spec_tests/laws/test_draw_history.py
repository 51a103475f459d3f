"""The timeline and the manifest tree: every mark and row has a place of its own, nothing is left out in silence, nothing leaves the picture."""

from __future__ import annotations

import io
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image

from lakekit.draw import humanize, manifests, timeline
from lakekit.draw.manifests import EntryFact, IndexFact, ListFact, ManifestFact, ManifestTree
from lakekit.draw.png import to_png
from lakekit.draw.shapes import DEFAULT_WIDTH, Marker, Rect, Stroke, to_svg
from lakekit.draw.timeline import FileCounts, History, SnapshotMark

SIDE = 12
names = st.text(max_size=12)
counts = st.none() | st.integers(0, 2**63 - 1)
kinds = st.sampled_from(tuple(timeline.MARKER_SIGNS))
marks = st.builds(
    SnapshotMark,
    id=st.just(0),
    kind=kinds,
    time_ms=st.integers(0, 10**6) | st.integers(-(2**63), 2**63 - 1),
    schema_id=st.integers(0, 3),
    row_count=counts,
    delta_row_count=st.none() | st.integers(-(2**63), 2**63 - 1),
    changelog_row_count=counts,
    watermark=st.none() | st.integers(-(2**63), 2**63 - 1),
    user=names,
    tags=st.lists(names, max_size=2).map(tuple),
    retained_by=st.sampled_from(("", "", "tag", "changelog")),
)


def numbered(found, gaps):
    number, made = 0, []
    for mark, gap in zip(found, gaps, strict=False):
        number += gap
        made.append(timeline.replace(mark, id=number))
    return tuple(made)


histories = st.builds(
    lambda table, found, gaps, newest: History(table=table, marks=numbered(found, gaps), newest_schema_id=newest),
    names,
    st.lists(marks, max_size=64),
    st.lists(st.integers(1, 9), min_size=64, max_size=64),
    st.integers(0, 5),
)


def plain(many, *, every_ms=60_000):
    kind = ("APPEND", "APPEND", "COMPACT", "APPEND")
    return History(
        table="t", marks=tuple(SnapshotMark(id=n + 1, kind=kind[n % 4], time_ms=n * every_ms, schema_id=n // 700, row_count=n, tags=()) for n in range(many))
    )


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = Counter()
        self.attributes = set()

    def handle_starttag(self, tag, attrs):
        self.found[tag] += 1
        self.attributes |= {name for name, _ in attrs}


def tags_of(page):
    parser = Tags()
    parser.feed(page)
    parser.close()
    return parser


# ---- timeline -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@given(histories, st.booleans())
def test_every_snapshot_is_in_one_mark_and_merging_is_said(history, by_time):
    placed = timeline.lay_out_marks(history, by_time=by_time)
    members = sorted(at for group in placed.groups for at in group.members)
    assert members == list(range(len(history.marks)))
    assert (placed.note != "") == (len(placed.groups) < len(history.marks))
    assert all(placed.group_at(at) is not None for at in members)


@given(histories, st.booleans())
def test_marks_stand_inside_the_picture_and_apart(history, by_time):
    placed = timeline.lay_out_marks(history, by_time=by_time)
    for group in placed.groups:
        assert SIDE / 2 <= group.x * DEFAULT_WIDTH <= DEFAULT_WIDTH - SIDE / 2
        assert SIDE / 2 <= group.y <= placed.height - SIDE / 2
    by_height = {}
    for group in placed.groups:
        by_height.setdefault(round(group.y, 3), []).append(group.x * DEFAULT_WIDTH)
    for places in by_height.values():
        ordered = sorted(places)
        assert all(after - before >= SIDE for before, after in pairwise(ordered))


@given(histories)
def test_by_time_later_is_never_further_left(history):
    placed = timeline.lay_out_marks(history, by_time=True)
    if placed.by_time:
        place = {at: group.x for group in placed.groups for at in group.members}
        alone = [at for group in placed.groups if len(group.members) == 1 for at in group.members]
        ordered = sorted(alone, key=lambda at: history.marks[at].time_ms)
        assert all(place[one] <= place[two] for one, two in pairwise(ordered))


@settings(max_examples=30)
@given(histories, st.booleans(), st.integers(0, 40))
def test_nothing_leaves_the_drawing(history, by_time, selected):
    drawing = timeline.timeline_drawing(history, timeline.lay_out_marks(history, by_time=by_time), selected=selected)
    for shape in drawing.shapes:
        match shape:
            case Rect():
                assert shape.x >= 0
                assert shape.x + shape.width <= DEFAULT_WIDTH + 0.01
                assert shape.y >= 0
                assert shape.y + shape.height <= drawing.height
            case Marker():
                assert shape.size / 2 <= shape.x <= DEFAULT_WIDTH - shape.size / 2 + 0.01
                assert shape.size / 2 <= shape.y <= drawing.height - shape.size / 2
            case Stroke():
                assert 0 <= min(shape.x, shape.to_x) <= max(shape.x, shape.to_x) <= DEFAULT_WIDTH
                assert 0 <= min(shape.y, shape.to_y) <= max(shape.y, shape.to_y) <= drawing.height
    framed = [shape for shape in drawing.shapes if isinstance(shape, Rect) and shape.is_outline]
    assert len(framed) == (history.find(selected) is not None)
    found = ET.fromstring(to_svg(drawing))
    buttons = [one for one in found.iter() if one.get("role") == "button"]
    assert len(buttons) == len(timeline.lay_out_marks(history, by_time=by_time).groups)


def test_a_picture_has_the_colours_of_its_kinds():
    found = Image.open(io.BytesIO(to_png(timeline.timeline_drawing(plain(40), timeline.lay_out_marks(plain(40)), selected=3)))).convert("RGB")
    colors = {color for _, color in found.getcolors(1 << 24)}
    assert {(0x3B, 0x82, 0xC4), (0x75, 0x70, 0xB3)} <= colors


@pytest.mark.parametrize("by_time", [False, True])
def test_two_thousand_snapshots_are_at_most_1500_marks(by_time):
    history = plain(2000)
    placed = timeline.lay_out_marks(history, by_time=by_time)
    assert len(placed.groups) <= timeline.MAX_MARKS
    assert placed.note.startswith(f"2 000 snapshots drawn as {humanize.format_count(len(placed.groups))} marks")
    # of four snapshots one compacts: the marks that stand for several say so
    drawn = timeline.group_kinds(history, placed)
    for group, kind in zip(placed.groups, drawn, strict=True):
        assert kind == ("COMPACT" if any(at % 4 == 2 for at in group.members) else "APPEND")
        if len(group.members) > 1:
            assert timeline.group_tooltip(history, group).startswith(f"{len(group.members)} snapshots, ")
    drawing = timeline.timeline_drawing(history, placed, selected=2000)
    assert placed.note in drawing.description


@given(histories)
def test_steps_are_as_high_as_their_share_of_rows(history):
    placed = timeline.lay_out_marks(history)
    steps = [shape for shape in timeline.background_shapes(history, placed) if isinstance(shape, Rect)]
    most = max((mark.row_count or 0 for mark in history.marks), default=0)
    for at, group in enumerate(placed.groups):
        rows = history.marks[at].row_count or 0
        floor = placed.lines[group.line_number][1]
        over = [step for step in steps if step.x <= group.x < step.x + step.width and abs(step.y + step.height - floor) < 0.01]
        assert len(over) == (rows > 0)
        assert all(abs(step.height - max(1, 22 * rows / most)) <= 0.5 for step in over)


def test_1500_snapshots_are_a_mark_each():
    placed = timeline.lay_out_marks(plain(1500))
    assert len(placed.groups) == 1500
    assert placed.note == ""


@given(histories, st.integers(12, 140), st.integers(0, 40))
def test_the_timeline_in_characters(history, width, selected):
    drawn = timeline.timeline_text(history, width=width, selected=selected).split("\n")
    assert all(humanize.display_width(line) <= width for line in drawn)
    assert all(line.isprintable() for line in drawn)
    signs = sum(line.count(sign) for line in drawn[2:] for sign in "●◆■▲○◇□△" if line.startswith(" "))
    if history.marks and width > 40 and not any(set("●◆■▲○◇□△") & set(name) for mark in history.marks for name in (history.table, *mark.tags)):
        older = next((line for line in drawn if line.startswith("… ") and line.endswith(" older")), "… 0 older")
        assert signs + int(older[2:-6].replace(" ", "")) == len(history.marks)


def test_the_timeline_as_it_looks():
    history = History(
        table="orders",
        marks=(
            SnapshotMark(id=2, kind="APPEND", time_ms=1_700_000_000_000, schema_id=0, row_count=10, tags=("v1",), retained_by="tag"),
            SnapshotMark(id=3, kind="APPEND", time_ms=1_700_000_060_000, schema_id=0, row_count=20),
            SnapshotMark(id=4, kind="COMPACT", time_ms=1_700_000_120_000, schema_id=1, row_count=15),
        ),
        newest_schema_id=2,
    )
    assert timeline.timeline_text(history, selected=4).split("\n") == [
        "orders · 2 snapshots and 1 expired · 2023-11-14 22:13:20Z .. 22:15:20Z",
        "● APPEND  ◆ COMPACT  █ 20 stored rows",
        " ○───●───◆",
        " 2   3   [4]",
        " ▄▄▄ ███ ▆▆▆",
        "tags: v1 at 2",
        "schema 1 from snapshot 4, schema 2 waits for its first snapshot",
        "1 expired snapshot kept by tags",
    ]
    assert timeline.snapshot_tooltip(history.marks[0]) == "2 APPEND · 2023-11-14 22:13:20Z · 10 rows · schema 0 · tag v1 · expired: a tag keeps it"
    assert timeline.detail_row(history.marks[2], FileCounts(live_count=12, added_count=3, removed_count=1204))[6] == "12 (+3 -1 204)"


@given(histories)
def test_tags_and_schemas_are_told_or_counted(history):
    said = timeline.history_notes(history, limit=3)
    tags = sum(len(mark.tags) for mark in history.marks)
    line = next((line for line in said if line.startswith("tags: ")), "")
    assert (line != "") == (tags > 0)
    assert line.endswith(f"… {humanize.format_count(tags - 3)} more") or tags <= 3
    assert all(line.isprintable() for line in said)


@given(
    marks, st.none() | st.text(max_size=9) | st.builds(FileCounts, live_count=st.integers(0, 9), added_count=st.integers(0, 9), removed_count=st.integers(0, 9))
)
def test_any_snapshot_can_be_told(mark, files):
    assert len(timeline.detail_row(mark, files)) == len(timeline.DETAIL_COLUMNS)
    assert timeline.snapshot_tooltip(mark).isprintable()


# ---- manifests ------------------------------------------------------------------------------------------------------------------------------

facts = st.builds(
    ManifestFact,
    name=names,
    size_bytes=st.integers(0, 2**50),
    added_count=st.integers(0, 2**40),
    removed_count=st.integers(0, 2**40),
    partitions=names,
    buckets=st.none() | st.tuples(st.integers(-2, 5), st.integers(-2, 5)),
    levels=st.none() | st.tuples(st.integers(0, 5), st.integers(0, 5)),
    skip_columns=st.sampled_from(("", "dt", "a, b")),
)
vectors = st.lists(st.tuples(names, st.none() | st.integers(0, 99)), max_size=4).map(tuple)
indexes = st.builds(
    IndexFact,
    name=names,
    type=st.sampled_from(("HASH", "DELETION_VECTORS", "<b>")),
    partition=names,
    bucket=st.integers(-2, 9),
    size_bytes=st.integers(0, 2**40),
    row_count=st.integers(0, 2**40),
    vectors=vectors,
)


@st.composite
def trees(draw, most=30):
    lists = []
    for which in ("base", "delta", "changelog"):
        found = draw(st.lists(facts, max_size=4 if which == "delta" else most))
        named = tuple(timeline.replace(one, name=f"{which}-{at}-{one.name}") for at, one in enumerate(found))
        lists.append(ListFact(kind=which, name=draw(names), manifests=named, error=draw(st.sampled_from(("", "", "gone"))) if not found else ""))
    found = tuple(timeline.replace(one, name=f"index-{at}-{one.name}") for at, one in enumerate(draw(st.lists(indexes, max_size=28))))
    manifest = draw(names.filter(bool)) if found else ""
    return ManifestTree(table=draw(names), snapshot_id=7, kind="APPEND", lists=tuple(lists), index_manifest=manifest, indexes=found, filter_text=draw(names))


def every(tree):
    return [m.name for listed in tree.lists for m in listed.manifests] + [one.name for one in tree.indexes]


@pytest.mark.long
@given(trees(), st.data())
def test_a_row_for_each_manifest_or_a_count_of_the_rest(tree, data):
    known = every(tree)
    selected = data.draw(st.sampled_from(["", *known]))
    placed = manifests.layout_tree(tree, selected=selected)
    keys = [row.key for row in placed.rows if row.key and not row.key.startswith(manifests.MORE_PREFIX)]
    assert len(keys) == len(set(keys))
    assert set(keys) <= set(known)
    assert not selected or selected in keys
    said = [row.cells[0][1] for row in placed.rows if row.key.startswith(manifests.MORE_PREFIX)]
    left = sum(int("".join(letter for letter in line.partition("more")[0] if letter.isdigit())) for line in said)
    assert len(keys) + left == len(known)
    assert [row.top for row in placed.rows] == [at * manifests.ROW_HEIGHT for at in range(len(placed.rows))]
    assert placed.height == len(placed.rows) * manifests.ROW_HEIGHT


@given(trees())
def test_everything_is_shown_where_it_is_asked_for(tree):
    placed = manifests.layout_tree(tree, limits=dict.fromkeys(("base", "delta", "changelog", "index"), 1000))
    assert [row.key for row in placed.rows if row.key] == every(tree)


@given(trees())
def test_bars_are_shares_of_the_longest(tree):
    rows = {row.key: row for row in manifests.layout_tree(tree).rows if row.key}
    for listed in tree.lists:
        for fact in listed.manifests:
            if (row := rows.get(fact.name)) is not None:
                assert 0 <= row.added_fraction + row.removed_fraction <= 1.000001
                assert (row.added_fraction > 0) == (fact.added_count > 0)
                assert (row.removed_fraction > 0) == (fact.removed_count > 0)


@pytest.mark.long
@settings(max_examples=25)
@given(trees(most=30), st.data())
def test_nothing_leaves_the_picture_of_the_tree(tree, data):
    selected = data.draw(st.sampled_from(["", *every(tree)]))
    drawing = manifests.tree_drawing(tree, manifests.layout_tree(tree, selected=selected), selected=selected)
    for shape in drawing.shapes:
        if isinstance(shape, (Rect, Marker)):
            left, width = (shape.x, shape.width) if isinstance(shape, Rect) else (shape.x - shape.size / 2, shape.size)
            assert left >= 0
            assert left + width <= DEFAULT_WIDTH + 0.01
    assert sum(isinstance(shape, Rect) and shape.is_outline for shape in drawing.shapes) == (selected != "")
    ET.fromstring(to_svg(drawing))


@given(trees(), st.integers(20, 140), st.integers(1, 9))
def test_the_tree_in_characters(tree, width, first):
    drawn = manifests.tree_text(tree, width=width, first=first).split("\n")
    assert all(humanize.display_width(line) <= width for line in drawn)
    assert all(line.isprintable() for line in drawn)
    for listed in tree.lists:
        if len(listed.manifests) > first + 1:
            assert any(f"… {humanize.format_count(len(listed.manifests) - first)} more manifests" in line or width < 60 for line in drawn)


HOSTILE = '<b onmouseover=alert(1)>"&\x1b[31m</td><script>'
entries = st.builds(
    EntryFact,
    kind=st.sampled_from(("ADD", "DELETE")),
    partition=names,
    bucket=st.integers(-2, 9),
    level=st.integers(0, 9),
    name=names,
    size_bytes=st.integers(0, 2**40),
    row_count=st.integers(0, 2**40),
    min_key=names | st.just(HOSTILE),
    max_key=names,
    read_outcome=names,
)


@given(trees(most=8), st.lists(entries, max_size=9), st.integers(0, 99))
def test_tables_are_tables_and_nothing_else(tree, found, more):
    hostile = timeline.replace(tree, table=HOSTILE, filter_text=tree.filter_text and HOSTILE)
    pages = [manifests.tree_html(hostile), *(manifests.index_html(one) for one in tree.indexes)]
    pages.append(manifests.entries_html(HOSTILE, None, found, len(found) + more, has_filter=bool(tree.filter_text), max_rows=5))
    for page in pages:
        parser = tags_of(page)
        assert set(parser.found) <= {"table", "caption", "b", "thead", "tbody", "tr", "th", "td", "p"}
        assert parser.attributes <= {"style"}
        assert "\x1b" not in page
    left = len(found) + more - min(len(found), 5)
    assert (f"… {humanize.format_count(left)} more</p>" in pages[-1]) == (left > 0)


LONG = "manifest-34cab9d6-cbfd-4ebc-ab1c-2bb6b8d00000-0"


def test_the_tree_as_it_looks():
    fact = ManifestFact(
        name="manifest-34cab9d6-cbfd-4ebc-ab1c-2bb6b8d00000-0", size_bytes=86_000, added_count=412, removed_count=0, partitions="dt 2024-01-01 .. 2024-03-31"
    )
    changed = ManifestFact(name="manifest-44", size_bytes=2253, added_count=3, removed_count=12, partitions="dt 2024-03-31", skip_columns="dt", levels=(0, 5))
    index = IndexFact(name="index-7", type="DELETION_VECTORS", partition="", bucket=0, size_bytes=90, row_count=2, vectors=(("a", 1200), ("b", 3)))
    tree = ManifestTree(
        table="orders",
        snapshot_id=7,
        kind="APPEND",
        lists=(ListFact(kind="base", name="manifest-list-a1", manifests=(fact,)), ListFact(kind="delta", name="manifest-list-b7", manifests=(changed,))),
        index_manifest="index-manifest-2",
        indexes=(index,),
        filter_text="dt < 'x'",
        selected_file_count=3,
    )
    assert manifests.tree_text(tree).split("\n") == [
        "orders at snapshot 7 (APPEND) · 2 manifests · 427 entries · 86.2 KiB",
        "filter dt < 'x': 1 of 2 manifests opened, 3 files read",
        " base      manifest-list-a1 · 1 manifest, 412 entries",
        "   └─ manifest-34cab9d6…-0  412 entries      dt 2024-01-01 .. 2024-03-31  84.0 KiB  opened",
        " delta     manifest-list-b7 · 1 manifest, 15 entries",
        "   └─ manifest-44           +3 -12           dt 2024-03-31, L0..5  2.2 KiB  skipped: dt",
        " index     index-manifest-2 · 1 index file",
        "   └─ index-7               2 deletion vectors, 1 203 rows  bucket 0  90 B",
    ]
    assert manifests.manifest_tooltip(changed) == "manifest-44 · +3 -12 · dt 2024-03-31, L0..5 · 2.2 KiB · schema 0 · skipped: dt"
    assert manifests.entries_title("manifest-44", changed, 15) == "entries of manifest-44: 3 files added, 12 files removed"


def test_a_long_name_leaves_room_for_what_is_said_after_it():
    long = "orders_" + "x" * 200
    tree = ManifestTree(table=long, snapshot_id=7, lists=(), kind="APPEND")
    for said in (timeline.timeline_title(History(table=long, marks=plain(7).marks)), manifests.tree_title(tree)):
        assert said.startswith("orders_xxx")
        assert "…" in said
        assert len(said) < 110


@pytest.mark.parametrize(
    ("kind", "vectors", "said"),
    [
        ("HASH", (), ["index-1", "50 hashes", "bucket 3, day=2024-03-31", "200 B"]),
        ("DELETION_VECTORS", (("data-1", 1203),) * 4, ["index-1", "4 deletion vectors, 4 812 rows", "bucket 3, day=2…", "200 B"]),
    ],
)
def test_an_index_file_says_its_bucket(kind, vectors, said):
    index = IndexFact(name="index-1", type=kind, partition="day=2024-03-31", bucket=3, size_bytes=200, row_count=50, vectors=vectors)
    tree = ManifestTree(table="t", snapshot_id=1, lists=(), index_manifest="index-manifest-1", indexes=(index,))
    found = manifests.layout_tree(tree).rows[-1]
    assert [text for _, text in found.cells] == said
    assert all(start + 0.0088 * len(text) < 0.77 for start, text in found.cells if start > 0)
