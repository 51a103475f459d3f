"""Drawings: nothing wider than asked, nothing unescaped, nothing left out in silence."""

from __future__ import annotations

import re
from datetime import datetime
from html.parser import HTMLParser

from hypothesis import given, strategies as st

from lakekit.draw import cards, humanize

values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=30), st.binary(max_size=8), st.lists(st.integers(), max_size=3))
names = st.text(max_size=20)


@given(st.data(), st.integers(20, 120), st.integers(1, 5))
def test_a_table_is_never_wider_than_asked(data, width, limit):
    heads = data.draw(st.lists(names, min_size=1, max_size=6))
    rows = data.draw(st.lists(st.tuples(*[values for _ in heads]), max_size=8))
    drawn = cards.table_text(heads, rows, width=width, max_rows=limit)
    assert all(humanize.display_width(line) <= width for line in drawn.split("\n"))
    assert drawn.replace("\n", "").isprintable()
    assert (f"… {len(rows) - limit} more" in drawn) == (len(rows) > limit)


@given(st.lists(st.tuples(names, values), max_size=6), names, st.integers(20, 120))
def test_a_card_is_never_wider_than_asked(facts, title, width):
    drawn = cards.card_text(title, facts, width=width).split("\n")
    assert len(drawn) == len(facts) + 1
    assert all(humanize.display_width(line) <= width for line in drawn)


def test_a_table_as_it_looks():
    rows = [(1, "APPEND", None, 12.5), (20, "COMPACT", "é", 3.0)]
    assert cards.table_text(["id", "kind", "user", "mean"], rows).split("\n") == [
        "id  kind     user  mean",
        " 1  APPEND   –     12.5",
        "20  COMPACT  é        3",
    ]


def test_columns_that_do_not_fit_are_named():
    drawn = cards.table_text([f"column_{number}" for number in range(9)], [tuple(range(9))], width=40)
    assert "more columns: column_" in drawn


def test_values_as_they_are_written():
    assert humanize.format_size(1023) == "1023 B"
    assert humanize.format_size(1024) == "1.0 KiB"
    assert humanize.format_size(64_172_851) == "61.2 MiB"
    assert humanize.format_size(2**60) == "1024.0 PiB"
    assert humanize.format_count(1204000) == "1 204 000"
    assert humanize.plural(1, "file") == "1 file"
    assert humanize.plural(0, "branch", "branches") == "0 branches"
    assert humanize.format_cell(datetime.fromisoformat("2024-03-31T09:12")) == "2024-03-31 09:12:00"
    assert humanize.format_cell(datetime.fromisoformat("2024-03-31T09:12:00.5+00:00")) == "2024-03-31 09:12:00.500Z"
    assert humanize.format_cell({"a": [1, None]}) == "{a=[1, –]}"
    assert humanize.format_cell("two\nlines\x1b[31m") == "two\\x0alines\\x1b[31m"
    assert humanize.truncate("日本語", 5) == "日本…"


def test_a_funnel_as_it_looks():
    steps = [("manifests", 41, 2, "partition ranges"), ("files", 430, 15, "partition"), ("files", 15, 4, "keys id")]
    assert cards.funnel_text("orders at snapshot 7", steps).split("\n") == [
        "orders at snapshot 7",
        "  manifests   41 →  2   partition ranges",
        "  files      430 → 15   partition",
        "              15 →  4   keys id",
    ]


def box(level, low, high):
    return cards.FileCard(level=level, min_key=low, max_key=high, size_bytes=1024, row_count=1)


def test_levels_stand_on_one_key_axis():
    drawn = cards.levels_text("bucket 0", [box(0, 60, 100), box(0, 0, 49), box(5, 0, 24), box(5, 25, 100)], width=60).split("\n")
    assert drawn[0] == "bucket 0"
    upper, lower, deep, axis = drawn[1:]
    assert upper.startswith(" L0 ")
    assert upper.endswith("2.0 KiB · 2 files")
    assert upper.index("█") > lower.rindex("█")
    assert deep.startswith(" L5 ")
    assert deep.count("▓") == 33
    assert len(re.findall("▓+", deep)) == 2
    assert axis.split() == ["0", "keys", "100"]
    assert "no files" in cards.levels_text("bucket 0", [])


keys = st.lists(st.tuples(st.integers(0, 3), st.text("abc", max_size=2)), min_size=2, max_size=2)


@given(st.lists(st.tuples(st.integers(0, 5), keys), min_size=1, max_size=40), st.integers(40, 120))
def test_levels_of_any_keys_fit(files, width):
    boxes = [box(level, *sorted(bounds)) for level, bounds in files]
    drawn = cards.levels_text("bucket 0", boxes, width=width).split("\n")
    assert all(humanize.display_width(line) <= width for line in drawn)
    shallow = [box for box in boxes if box.level == 0]
    assert ("more" in "".join(drawn)) == (len(shallow) > 16)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.said = ""

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        assert {name for name, _ in attributes} <= {"style"}

    def handle_data(self, data):
        self.said += data


@given(st.lists(names, min_size=1, max_size=4), st.integers(0, 30))
def test_html_escapes_and_uses_plain_tables_only(heads, number):
    rows = [tuple(f"<script>{at}&" for _ in heads) for at in range(number)]
    drawn = cards.html_table(heads, rows, title="<b>bold</b>") + cards.html_card("<i>", [("<u>", "<s>")]) + cards.html_funnel("<x>", [("<a>", 3, 1, "<c>")])
    tags = Tags()
    tags.feed(drawn)
    assert tags.seen <= {"table", "caption", "b", "thead", "tbody", "tr", "th", "td", "p"}
    assert "<b>bold</b>" in tags.said
    assert ("… " in tags.said and " more" in tags.said) == (number > 20)
