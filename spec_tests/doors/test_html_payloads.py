"""Whatever a name holds, HTML of ours has the elements and attributes that it has for a plain name, and the name is text (RELIABILITY 37)."""

from __future__ import annotations

import json
from functools import cache
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import ipywidgets
import polars as pl
import pytest

import lakekit as lk
from lakekit.catalog import identifier as catalog_names
from lakekit.draw import cards, level_layout, levels, manifests, timeline
from lakekit.draw.shapes import Drawing, Marker, Rect, TextShape, to_svg
from lakekit.inspection.html_page import build_page
from lakekit.notebook.hexdump import Bytes
from spec_tests.doors import hostile
from spec_tests.doors.hostile import MARK, PAYLOADS
from spec_tests.longer import some

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH = 10
BATCHES = range(0, len(PAYLOADS), BATCH)
SPOKEN = {"title", "alt", "aria-label", "data-key", "data-at"}
"""Attributes that hold names."""
RAW = {"style", "script"}
SILENT = {"widgets, asked", "hex of manifest", "hex widget of manifest"}
"""What may not show a name: a filter that is none is answered by what is wrong with it, of a long file the first bytes are shown."""


class Read(HTMLParser):
    """What an HTML text is made of: its elements with their attributes, and where names stand."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.made: set[tuple[str, ...]] = set()
        self.named: set[str] = set()
        self.said = ""
        self.data: list[str] = []
        self.sources: list[str] = []
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.made |= {(tag,), *((tag, name) for name, _ in attributes)}
        self.named |= {name for name, value in attributes if value and MARK in value}
        self.sources += [value or "" for name, value in attributes if name in ("src", "href", "action", "srcdoc", "xlink:href")]
        self.open.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_comment(self, data):
        self.made.add(("comment",))

    def unknown_decl(self, data):
        self.made.add(("cdata",))

    def handle_data(self, data):
        tag, attributes = self.open[-1] if self.open else ("", {})
        if tag in RAW and attributes.get("type") == "application/json":
            self.data.append(data)
        elif tag in RAW:
            assert MARK not in data, f"a name stands in a {tag}"
        else:
            self.said += data


def names(start, *, plain=False):
    return [hostile.plain(at) for at in range(BATCH)] if plain else list(PAYLOADS[start : start + BATCH])


def values(widget: ipywidgets.Widget) -> Iterator[str]:
    """Everything that a widget and those inside it show as HTML."""
    if isinstance(widget, ipywidgets.HTML):
        yield widget.value
    for child in getattr(widget, "children", ()):
        yield from values(child)


@cache
def page(place):
    """The page of a table that nothing writes to, drawn once."""
    return build_page(lk.open(place))


def of_table(place, warehouse, asked):
    """Every HTML that a table gives, by what gives it; `asked` is typed where something can be typed."""
    table = lk.open(place)
    table.files()
    catalog = lk.connect(warehouse)
    catalog.databases()
    browser = table.browse()
    yield "table", table._repr_html_()
    yield "catalog", catalog._repr_html_()
    yield "schema", table.schema._repr_html_()
    yield "schema difference", table.diff_schemas(0)._repr_html_()
    yield "explain", table.explain(pl.col("day") == asked)._repr_html_()
    yield "page", page(place)
    yield "browser", browser.as_html()
    yield "widgets", "".join(values(browser))
    for snapshot_id in table.snapshots()["snapshot_id"].to_list():
        browser.at = snapshot_id
        browser.levels.partition = browser.levels._bucket_locations()[snapshot_id - 1].partition
        browser.levels.selected = table.files(at=snapshot_id)["file_name"][-1]
        browser.filter = f"day = '{asked}'" if "'" not in asked else f'day = "{asked}"'
        yield "widgets, chosen", "".join(values(browser))
    browser.filter, browser.levels.probe = asked, asked
    yield "widgets, asked", "".join(values(browser))
    yield "picture", browser._repr_mimebundle_()["text/html"]
    for path in (place / "snapshot" / "snapshot-1", place / "schema" / "schema-1", place / "manifest" / "manifest-01"):
        told = lk.hex(path)
        yield f"hex of {path.parent.name}", told._repr_html_()
        shown = Bytes(told)
        yield f"hex widget of {path.parent.name}", shown._repr_mimebundle_()["text/html"] + "".join(values(shown))


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """The elements and attributes that plain names give, by what gives them."""
    root = tmp_path_factory.mktemp("plain")
    found: dict[str, set[tuple[str, ...]]] = {}
    for what, text in of_table(hostile.table(root, names(0, plain=True)), root, hostile.plain(0)):
        found.setdefault(what, set()).update(Read(text).made)
    return found


@pytest.fixture(scope="module")
def called(tmp_path_factory):
    """Tables of hostile names, each made once: nothing writes to them. With where their warehouse is."""

    @cache
    def made(start):
        root = tmp_path_factory.mktemp("called")
        return hostile.table(root, names(start)), root

    return made


@pytest.mark.long
@pytest.mark.parametrize("start", some(BATCHES, 3))
def test_a_table_of_hostile_names(called, known, start):
    for what, text in of_table(*called(start), PAYLOADS[start]):
        read = Read(text)
        assert read.made <= known[what], what
        assert read.named <= SPOKEN, what
        assert all(source.startswith("data:image/png;base64,") for source in read.sources), what
        listed = what != "catalog" or catalog_names.is_database_name(hostile._of_file(PAYLOADS[start]))
        assert MARK in read.said or what in SILENT or not listed, what


def of_facts(name):
    """Every HTML that drawing makes of facts that hold a name."""
    marks = (timeline.SnapshotMark(id=1, kind="APPEND", time_ms=0, schema_id=0, user=name, tags=(name,)),)
    told = timeline.History(table=name, marks=marks)
    manifest = manifests.ManifestFact(name=name, size_bytes=1, added_count=1, removed_count=1, partitions=name, skip_columns=name)
    listed = manifests.ListFact(kind="base", name=name, manifests=(manifest,))
    gone = manifests.ListFact(kind="delta", name=name, manifests=(), error=name)
    index = manifests.IndexFact(name=name, type=name, partition=name, bucket=0, size_bytes=1, row_count=1)
    vectors = manifests.IndexFact(name=name, type="DELETION_VECTORS", partition=name, bucket=0, size_bytes=1, row_count=1, vectors=((name, 3),))
    tree = manifests.ManifestTree(table=name, snapshot_id=1, kind=name, lists=(listed, gone), index_manifest=name, indexes=(index, vectors), filter_text=name)
    entry = manifests.EntryFact(
        kind=name, partition=name, bucket=0, level=0, name=name, size_bytes=1, row_count=1, min_key=name, max_key=name, read_outcome=name
    )
    file = level_layout.LevelFile(name=name, level=0, min_key=(name,), max_key=(name,), size_bytes=1, row_count=1, source=name, creation_time=name)
    state = level_layout.BucketState(snapshot_id=1, files=(file,), removed_files=(file,))
    asked = level_layout.LevelQuery(notes=(name,))
    shapes = (
        Rect(x=0, y=0, width=9, height=9, color="text", hint=name, key=name),
        Marker(x=0, y=0, size=9, color="text", hint=name, key=name),
        TextShape(x=0, y=0, text=name),
    )
    yield cards.html_card(name, [(name, name)]) + cards.html_table([name], [[name]], title=name) + cards.html_funnel(name, [(name, 3, 1, name)])
    yield to_svg(timeline.timeline_drawing(told, timeline.lay_out_marks(told), selected=1))
    yield to_svg(manifests.tree_drawing(tree, manifests.layout_tree(tree), selected=name))
    yield (
        manifests.tree_html(tree)
        + manifests.entries_html(name, manifest, [entry], 1, has_filter=True)
        + manifests.index_html(index)
        + manifests.index_html(vectors)
    )
    yield to_svg(levels.to_drawing(levels.build_picture(name, [state], key_names=[name], query=asked)))
    yield levels.levels_tables_html(name, [state], query=asked)
    yield to_svg(Drawing(width=9, height=9, shapes=shapes, description=name))


@cache
def known_of_facts():
    """The elements and attributes that a plain name gives, drawing by drawing."""
    return [Read(text).made for text in of_facts(hostile.plain(0))]


@pytest.mark.parametrize("name", PAYLOADS)
def test_facts_of_hostile_names(name):
    for text, made in zip(of_facts(name), known_of_facts(), strict=True):
        read = Read(text)
        assert read.made <= made
        assert read.named <= SPOKEN
        assert not read.sources
        assert MARK in read.said


@pytest.mark.long
def test_the_data_of_a_page_is_json_and_nothing_else(called):
    for start in BATCHES:
        text = page(called(start)[0])
        [data] = Read(text).data
        assert not set("<>&\u2028\u2029") & set(data)
        assert any(MARK in said for said in json.loads(data)["details"].values())
        assert text.count("<script") == 2


@pytest.mark.long
def test_text_sends_no_control_characters(called):
    for start in BATCHES:
        table = lk.open(called(start)[0])
        table.files()
        said = [repr(table), repr(table.schema), repr(table.diff_schemas(0)), str(table.explain()), table.browse().as_text()]
        assert [line for text in said for line in text.split("\n") if not line.isprintable()] == []
