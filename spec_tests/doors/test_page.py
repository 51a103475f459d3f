"""A table as one page: nothing outside it is asked for, only its own script runs, and it says how much of the table it holds."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

import lakekit as lk
from lakekit.cli.main import EXIT_OK, EXIT_PROBLEM, EXIT_USAGE, main
from lakekit.draw.html_page import HtmlPage, PagePane, SnapshotView, render_page
from lakekit.draw.shapes import Drawing
from lakekit.inspection.html_page import MAX_BUCKETS, MAX_SNAPSHOTS, build_page
from lakekit.inspection.timeline import read_snapshot_history
from spec_tests.browser import tables
from spec_tests.doors.views import CASES, TABLES, table

SPREAD = CASES[:: max(1, len(CASES) // 12)]


class Parts(HTMLParser):
    """The elements of a page with their attributes, and what stands in its style and scripts."""

    def __init__(self, text):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, str] = {}
        self.tag = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.tag = f"{tag} {dict(attributes).get('type', '')}".strip()

    def handle_data(self, data):
        if self.tag.startswith(("style", "script")):
            self.raw[self.tag] = data
        self.tag = ""

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    root = tmp_path_factory.mktemp("page") / "story"
    tables.story(root)
    return lk.open(root)


@pytest.mark.long
def test_nothing_is_loaded_and_only_its_own_script_runs(story):
    parts = Parts(build_page(story))
    [policy] = [one["content"] for one in parts.all("meta") if one.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    for rule, tag in (("script-src", "script"), ("style-src-elem", "style")):
        digest = base64.b64encode(hashlib.sha256(parts.raw[tag].encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert not [name for tag, attributes in parts.elements for name in attributes if name in ("src", "href") or name.startswith("on")]
    assert {tag for tag, _ in parts.elements}.isdisjoint({"link", "iframe", "object", "img", "form", "base"})
    assert "http://" not in re.sub(r"http://www\.w3\.org/2000/svg", "", build_page(story))


def test_every_snapshot_is_a_section_and_every_file_a_button(story):
    parts = Parts(build_page(story))
    assert [one["data-snapshot"] for one in parts.all("section")] == [str(number) for number in range(8, 0, -1)]
    keys = {attributes["data-key"] for _, attributes in parts.elements if attributes.get("data-key")}
    assert {f"file/{name}" for name in story.files()["file_name"]} <= keys
    assert {f"manifest/{name}" for name in story.manifests()["file_name"]} <= keys
    assert {str(number) for number in range(1, 9)} <= keys
    assert "removed/data-01.parquet" in keys
    assert all(attributes["tabindex"] == "0" and attributes["aria-label"] for _, attributes in parts.elements if attributes.get("data-key"))


def test_its_data_is_json(story):
    told = json.loads(Parts(build_page(story)).raw["script application/json"])
    assert told["opening"] == f"lk.open({story.location!r})"
    assert all(f"file/{name}" in told["details"] for name in story.files()["file_name"])


@pytest.mark.long
def test_what_is_left_out_is_said(story):
    assert "8 snapshots, all in this page." in build_page(story)
    assert "Only the newest 3 snapshots of 8 can be opened in this page: more would make it too large." in build_page(story, snapshots=3)
    assert len(Parts(build_page(story, snapshots=3)).all("section")) == 3
    assert "Only the newest snapshot of 8" in build_page(story, letters=1)
    assert "The table has no snapshot: nothing was written yet." in build_page(table("empty_keyed"))


def test_many_buckets_are_counted_in_words(tmp_path):
    written = tables.Written(tmp_path / "days")
    days = MAX_BUCKETS + 3
    written.commit("APPEND", [tables.Made(number=at, level=0, low=1, high=9, size_bytes=1000 + at, day=f"day {at:02}") for at in range(days)])
    text = build_page(lk.open(tmp_path / "days"))
    assert f"The {MAX_BUCKETS} largest buckets are drawn; 3 smaller ones are not in this page." in text
    assert len(Parts(text).all("details")) == MAX_BUCKETS
    assert "day=day 00 · bucket 0" not in text
    assert "day=day 03 · bucket 0" in text


@pytest.mark.long
def test_a_table_of_many_files_is_a_page_of_a_few_hundred_kilobytes(tmp_path):
    tables.many(tmp_path / "many", 4_000)
    text = build_page(lk.open(tmp_path / "many"))
    assert len(text) < 900_000
    assert "neighbours share a box" in text


@pytest.mark.long
@pytest.mark.parametrize("case", SPREAD)
def test_any_table_is_a_page(case):
    try:
        opened = table(case)
        text = build_page(opened)
    except lk.Unsupported:
        return
    assert len(Parts(text).all("section")) == min(MAX_SNAPSHOTS, len(read_snapshot_history(opened).marks))


def test_a_snapshot_that_cannot_be_read_says_why(tmp_path):
    tables.story(tmp_path / "story")
    (tmp_path / "story" / "manifest" / "manifest-list-05-1").write_bytes(b"nothing")
    text = build_page(lk.open(tmp_path / "story"))
    assert len(Parts(text).all("section")) == 8
    assert "manifest-list-05-1" in text.partition('data-snapshot="5"')[2].partition("</section>")[0]


def test_a_page_of_nothing_but_names():
    bare = PagePane(heading="manifests", note="gone")
    moment = SnapshotView(snapshot_id=1, heading="1 APPEND", reading_code="t.scan(at=1)", at_argument="1", manifests=bare, buckets=(bare,), note="two more")
    drawing = Drawing(width=1, height=1, shapes=(), description="nothing")
    text = render_page(HtmlPage(name="t", table_facts=[("location", "x")], open_code="lk.open('x')", timeline=drawing, snapshots=(moment,), snapshot_count=1))
    assert Parts(text).all("svg") == [{"role": "img", "aria-label": "nothing", "viewbox": "0 0 1 1", "width": "100%", "xmlns": "http://www.w3.org/2000/svg"}]
    assert text.count("gone") == 2
    assert "1 snapshot, all in this page." in text


# ---- doors ----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_shell_writes_a_page(story, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["browse", story.location, "-o", "page.html", "--snapshots", "2"]) == EXIT_OK
    said = capsys.readouterr()
    assert re.fullmatch(r"page\.html: [0-9.]+ KiB, one file, opens in any browser\n", said.out)
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == build_page(story, snapshots=2)
    assert main(["browse", story.location]) == EXIT_OK
    assert (tmp_path / "story.html").exists()
    assert main(["browse", story.location, "-o", str(tmp_path / "nowhere" / "page.html")]) == EXIT_PROBLEM
    assert "could not be written" in capsys.readouterr().err
    with pytest.raises(SystemExit) as raised:
        main(["browse", story.location, "--snapshots", "0"])
    assert raised.value.code == EXIT_USAGE


@pytest.mark.long
def test_the_browser_saves_the_same_page(tmp_path):
    opened = lk.open(TABLES / "dedup_levels")
    opened.browse().save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == build_page(opened)
    with pytest.raises(lk.StorageFailed):
        opened.browse().save(tmp_path)
