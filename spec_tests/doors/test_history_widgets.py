"""Timeline and manifest tree on golden tables, without a browser: what is chosen, what it says, what planning would do with it."""

from __future__ import annotations

import json
import shutil
from html.parser import HTMLParser

import polars as pl
import pytest
import traitlets
from hypothesis import given, settings, strategies as st

import lakekit as lk
from lakekit.cli.main import main
from lakekit.draw import timeline
from lakekit.draw.manifests import MORE_PREFIX
from lakekit.inspection import timeline as history
from lakekit.notebook.levels import Levels
from lakekit.notebook.manifests import Manifests
from lakekit.notebook.panels import WIDGET_VIEW_MIME, Timeline
from lakekit.read.explain import explain_scan
from lakekit.read.table_scan import scan
from spec_tests.doors.views import CASES, TABLES, collected, table
from spec_tests.longer import some

SOME = sorted({*CASES[::30], "history_tags", "scan_after_expiry", "vectors_keyed_buckets", "bucket_dynamic", "bucket_postpone", "empty_append"})
HOSTILE = "<img src=x onerror=alert(1)>'\"&"


class Page(HTMLParser):
    """The tags of a page, and that nothing in it could run."""

    def __init__(self, page):
        super().__init__()
        self.tags = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "iframe", "object", "svg")
        assert all(not name.startswith("on") for name, _ in attrs)
        assert tag != "img" or dict(attrs)["src"].startswith("data:image/png")
        self.tags.append(tag)


def html_of(widget):
    """Every piece of HTML that a widget shows."""
    found = [widget.as_html(), widget._repr_mimebundle_()["text/html"]]
    stack = [widget]
    while stack:
        one = stack.pop()
        stack += getattr(one, "children", ())
        if type(one).__name__ == "HTML":
            found.append(one.value)
    return found


def again(code):
    """What the code of a widget gives, run as a user would."""
    *before, last = code.split("; ")
    names = {"lk": lk, "pl": pl}
    for line in before:
        exec(line, names)
    return eval(last, names)


@pytest.fixture
def flights(fixtures_path):
    return lk.open(fixtures_path / "flights" / "table")


def copied(case, place):
    shutil.copytree(TABLES / case if case in CASES else case, place)
    return place


def change(path, **members):
    found = json.loads(path.read_text())
    path.write_text(json.dumps(found | members))


# ---- both on every kind of table --------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("case", some(SOME, 3))
def test_both_show_what_the_frames_say(case):
    opened = table(case)
    line, tree = Timeline(opened), Manifests(opened)
    snapshots = opened.snapshots()
    there = [mark.id for mark in line.history.marks if not mark.retained_by]
    assert there == snapshots["snapshot_id"].to_list()
    assert line.selected == tree.at == (there[-1] if there else 0)
    assert [m.name for listed in tree.tree.lists for m in listed.manifests] == opened.manifests()["file_name"].to_list()
    assert [one.name for one in tree.tree.indexes] == opened.indexes()["file_name"].to_list()
    for widget in (line, tree):
        bundle = widget._repr_mimebundle_()
        assert set(bundle) == {WIDGET_VIEW_MIME, "image/png", "text/html", "text/plain"}
        for page in html_of(widget):
            Page(page)
    if there:
        files = history.file_counts(opened, line.history.find(line.selected))
        assert files.live_count == opened.files().height


def test_a_table_without_snapshots(tables_path):
    opened = lk.open(tables_path / "empty_keyed")
    line, tree = Timeline(opened), Manifests(opened)
    assert (line.selected, line.frame().height, tree.at, tree.frame().height) == (0, 0, 0, 0)
    assert "no snapshot: nothing was written yet" in line.as_text()
    assert "no snapshot: nothing was written yet" in tree.as_text()
    assert line.code.endswith(".snapshots()")
    assert tree.code.endswith(".manifests()")
    line.by_time = True
    line.selected = 7
    assert "There is no snapshot 7" in line.children[-1].value
    tree.filter = "k = 1"
    tree.at = 7
    assert "has no snapshot 7" in tree.children[2].value


# ---- timeline --------------------------------------------------------------------------------------------------------------------------------


def test_choosing_a_snapshot(flights):
    line = Timeline(flights)
    seen = []
    line.observe(lambda change: seen.append(change["new"]), "selected")
    line._canvas._buttons.value = "5"
    assert (line.selected, line._slider.value, seen) == (5, 5, [5])
    assert again(line.code).collect().equals(flights.scan(at=5).collect())
    assert line.frame().collect().equals(flights.scan(at=5).collect())
    assert "COMPACT" in line.children[-1].value
    assert ">2 (+2 -8)<" in line.children[-1].value
    assert ">tags<" in line.children[-1].value
    line._slider.value = 4
    assert ">tags<" not in line.children[-1].value
    assert (line.selected, line._canvas.selected_key) == (4, "4")
    line.selected = 2
    assert (line._slider.value, line._canvas._buttons.value) == (2, "2")
    assert ">APPEND<" in line.children[-1].value
    assert line.code.endswith(".scan(at=2)")


def test_marks_have_a_sign_a_name_and_a_hint(flights):
    line = Timeline(flights)
    spots = line._canvas._boxes
    assert [spot.sign for spot in spots] == ["circle"] * 4 + ["diamond"] + ["circle"] * 2 + ["diamond"] + ["circle"] * 2
    assert spots[4].name == "snapshot 5 COMPACT"
    assert spots[4].hint.startswith("5 COMPACT · 2026-")
    assert "tag end_of_feb_8" in spots[4].hint
    evenly = [spot.left for spot in spots]
    line._switch.value = True
    assert line.by_time
    assert [spot.left for spot in line._canvas._boxes] != evenly
    assert line._canvas.selected_key == "10"


def test_an_expired_snapshot_is_read_by_its_tag(tables_path):
    opened = lk.open(tables_path / "scan_after_expiry")
    line = Timeline(opened)
    kept = [mark for mark in line.history.marks if mark.retained_by == "tag"]
    assert [mark.tags for mark in kept] == [("kept",)]
    line.selected = kept[0].id
    assert line.code.endswith(".scan(at='kept')")
    assert again(line.code).collect().equals(opened.scan(at="kept").collect())
    assert line.frame().collect().equals(opened.scan(at="kept").collect())
    assert next(spot for spot in line._canvas._boxes if spot.key == str(kept[0].id)).state == "dim"
    assert "expired, tag kept" in line.children[-1].value
    tree = Manifests(opened, at="kept")
    assert tree.at == kept[0].id
    assert again(tree.code).equals(opened.manifests(at="kept"))


@pytest.mark.long
@pytest.mark.parametrize("case", ["history_long_lived_changelog_none", "history_long_lived_changelog_input"])
def test_a_changelog_outlives_its_snapshot(case):
    opened = table(case)
    line, tree = Timeline(opened), Manifests(opened)
    assert [mark.retained_by for mark in line.history.marks] == ["changelog"] * 3 + [""] * 2
    traitlets.link((line, "selected"), (tree, "at"))
    for number in (1, 2, 3):
        line.selected = number
        assert tree.at == number
        assert line.frame().collect().height == again(line.code).collect().height == opened.changes(number - 1, number).collect().height > 0
        assert tree.tree.snapshot_id == number
        gone = [listed for listed in tree.tree.lists if listed.error]
        assert len(gone) == (2 if case.endswith("input") else 0)
        for page in html_of(tree):
            Page(page)
    assert "3 expired snapshots of which the changelog is kept" in line.as_text()


def test_tags_schemas_and_branches(tables_path):
    line = Timeline(lk.open(tables_path / "history_tags"))
    assert "tags: " in line.as_text()
    evolved = Timeline(table("evolve_keyed_parquet"))
    changed = timeline.schema_changes(evolved.history)
    assert changed
    assert f"schema {changed[0].schema_id} from snapshot {changed[0].id}" in evolved.as_text()
    branch = Timeline(table("history_branches").branch("from_tag"))
    assert "branch='from_tag'" in branch.code
    assert "on branch from_tag" in branch.as_text()
    assert again(branch.code).collect().height > 0


def test_what_is_committed_is_seen_after_a_refresh(tmp_path, flights):
    place = copied(flights.location, tmp_path / "t")
    last = (place / "snapshot" / "snapshot-10").read_text()
    (place / "snapshot" / "snapshot-10").unlink()
    (place / "snapshot" / "LATEST").write_text("9")
    line = Timeline(lk.open(place))
    assert line.selected == 9
    (place / "snapshot" / "snapshot-10").write_text(last)
    line.refresh()
    assert (len(line.history.marks), line.selected) == (10, 9)
    for number in range(1, 10):
        (place / "snapshot" / f"snapshot-{number}").unlink()
    line.refresh()
    assert [mark.id for mark in line.history.marks] == [5, 10]
    assert line.selected == 10


def test_a_snapshot_that_vanishes_is_told_and_not_raised(tmp_path, flights):
    place = copied(flights.location, tmp_path / "t")
    line, tree = Timeline(lk.open(place)), Manifests(lk.open(place))
    (place / "snapshot" / "snapshot-3").unlink()
    line.selected = 3
    assert "gone with the snapshot" in line.children[-1].value
    tree.at = 3
    assert "snapshot 3 of t is gone" in tree.children[2].value
    assert tree.tree.lists == ()


@pytest.mark.long
def test_two_thousand_snapshots(tmp_path, flights):
    place = copied(flights.location, tmp_path / "t")
    last = json.loads((place / "snapshot" / "snapshot-10").read_text())
    for number in range(11, 2001):
        (place / "snapshot" / f"snapshot-{number}").write_text(json.dumps(last | {"id": number, "timeMillis": last["timeMillis"] + number * 60_000}))
    (place / "snapshot" / "LATEST").write_text("2000")
    line = Timeline(lk.open(place))
    assert len(line._canvas._boxes) == 1000
    said = "2 000 snapshots drawn as 1 000 marks: neighbours stand together"
    assert said in line.children[-1].value
    assert said in line.drawing().description
    line.selected = 999
    assert (line._canvas.selected_key, line.selected) == ("1000", 999)
    line._canvas._buttons.value = "1200"
    assert line.selected == 1200
    line.by_time = True
    assert len(line._canvas._boxes) <= timeline.MAX_MARKS
    assert line.selected == 1200
    assert line.as_html().endswith("<p>… 1 980 more</p>")


# ---- manifests -------------------------------------------------------------------------------------------------------------------------------


def test_choosing_a_manifest(flights):
    tree = Manifests(flights, at=5)
    assert again(tree.code).equals(flights.manifests(at=5))
    name = tree.tree.lists[1].manifests[0].name
    tree._canvas._buttons.value = name
    assert tree.selected == name
    found = tree.frame()
    assert found["kind"].to_list().count("DELETE") == 8
    assert found.filter(pl.col("kind") == "ADD")["file_name"].to_list() == flights.files(at=5)["file_name"].to_list()
    assert again(tree.code).equals(found)
    page = tree.children[-1].value
    assert "2 files added, 8 files removed" in page
    assert page.count("<tr>") == 11
    assert "2013-02-08, 9E, " in page
    tree.at = 6
    assert name in [m.name for m in tree.tree.lists[0].manifests]
    assert tree.selected == name
    tree.at = 1
    assert tree.selected == ""


def test_at_is_checked_when_the_widget_is_made(flights):
    with pytest.raises(lk.SnapshotNotFound):
        Manifests(flights, at=99)
    with pytest.raises(lk.TagNotFound):
        Manifests(flights, at="no such tag")
    assert Manifests(flights, at="end_of_feb_8").at == 5


def test_choosing_an_index_file():
    opened = table("vectors_append_bucketed")
    tree = Manifests(opened)
    index = next(one for one in tree.tree.indexes if one.vectors)
    tree.selected = index.name
    assert tree.frame()["file_name"].to_list() == [index.name]
    assert again(tree.code).equals(tree.frame())
    deleted = sum(rows for one in tree.tree.indexes for _, rows in one.vectors)
    assert deleted == opened.files()["deleted_row_count"].sum()
    assert all(name in tree.children[-1].value for name, _ in index.vectors)
    hashed = Manifests(table("bucket_dynamic"))
    hashed.selected = hashed.tree.indexes[0].name
    assert "hash" in hashed.children[-1].value


FILTERS = [
    ("dedup_partitioned", "day = 'd1'"),
    ("dedup_partitioned", "day > 'd1' AND id = 1"),
    ("vectors_keyed_buckets", "p = 'x'"),
    ("vectors_keyed_buckets", "p = 'x' AND k < 3 AND v IS NOT NULL"),
    ("vectors_keyed_level_0", "k >= 0"),
    ("vectors_append_partitioned", "p = 'a' OR p = 'zz'"),
    ("overwrite_partitions", "true"),
    ("overwrite_partitions", "p = 'x' OR q = 9"),
    ("dedup_levels", "k > 3 AND v = 'x'"),
    ("bucket_postpone_waiting", "k = 1"),
    ("files_manifest_merged", "k < 0"),
    ("history_fallback_branch", "p = 'x'"),
    ("dedup_overlapping_runs", "k = 2"),
    ("changelog_partitioned", "k = 1"),
    ("first_row_partitioned", "p = 1"),
]


@pytest.mark.long
@pytest.mark.parametrize(("case", "text"), FILTERS)
def test_the_tree_says_what_planning_does(case, text):
    agrees_with_planning(table(case), text)


RANDOM = ("overwrite_partitions", "dedup_partitioned", "vectors_keyed_buckets", "files_manifest_orc", "dedup_levels")


@pytest.mark.long
@settings(max_examples=25)
@given(st.sampled_from(RANDOM), st.data())
def test_the_tree_says_what_planning_does_with_any_filter(case, data):
    opened = table(case)
    rows = collected(case)
    parts = []
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from([name for name, dtype in rows.schema.items() if dtype in (pl.String, pl.Int32, pl.Int64)]))
        value = data.draw(st.sampled_from([one for one in rows[name].unique().sort() if one is not None]))
        op = data.draw(st.sampled_from(("=", "<", ">=", "<>")))
        parts.append(f"{name} {op} '{value}'" if isinstance(value, str) else f"{name} {op} {value}")
    agrees_with_planning(opened, data.draw(st.sampled_from((" AND ", " OR "))).join(parts))


def agrees_with_planning(opened, text):
    """Manifests that are said to be opened, and files that are said to be read, are as many as `explain_scan` counts; and each once."""
    tree = Manifests(opened)
    tree.filter = text
    told = explain_scan(scan(opened._context(), tree.at), pl.sql_expr(text))
    assert tree.children[2].value == ""
    opens = [m for listed in tree.tree.lists if listed.kind != "changelog" for m in listed.manifests if not m.skip_columns]
    step = next((one for one in told.steps if one.what == "manifests"), None)
    listed_in_all = sum(len(listed.manifests) for listed in tree.tree.lists if listed.kind != "changelog")
    assert told.branches or len(opens) == (listed_in_all if step is None else step.after)
    read, changes = [], []
    for listed in tree.tree.lists:
        for fact in listed.manifests:
            tree.selected = fact.name
            if listed.kind == "changelog":
                changes += [entry.read_outcome for entry in tree._entries]
                continue
            assert all((entry.read_outcome == "removes a file") == (entry.kind == "DELETE") for entry in tree._entries)
            found = [(entry.name, entry.level) for entry in tree._entries if entry.read_outcome == "read"]
            assert not (found and fact.skip_columns)
            read += found
    assert len(read) == len(set(read)) == tree.tree.selected_file_count
    assert told.branches or len(read) == told.files_read
    assert set(changes) <= {"read by changes only"}
    assert f"{len(opens)} of " in tree.as_text()


def test_a_filter_that_skips_manifests_names_the_columns():
    tree = Manifests(table("overwrite_partitions"))
    tree.filter = "p = 'w' AND q = 3"
    skipped = [m for listed in tree.tree.lists for m in listed.manifests if m.skip_columns]
    assert skipped
    assert {m.skip_columns for m in skipped} == {"p", "p, q", "q"}
    tree.selected = skipped[0].name
    assert {entry.read_outcome for entry in tree._entries} <= {"skipped: p", "skipped: q", "skipped: p, q", "removes a file", "removed since"}
    assert f"skipped: {skipped[0].skip_columns}" in str(tree.drawing())
    assert "manifests opened, " in tree.as_text()
    tree.filter = ""
    assert not any(m.skip_columns for listed in tree.tree.lists for m in listed.manifests)


@pytest.mark.parametrize("text", ["this is no sql", "no_such_column = 1", "day = 1", "<script>alert(1)</script>", "k = '", "SELECT 1"])
def test_bad_text_is_answered_in_words(text):
    tree = Manifests(table("dedup_partitioned"))
    tree.filter = text
    said = tree.children[2].value
    assert said.startswith('<p role="alert">')
    Page(said)
    assert said.count("\n") == 0
    assert tree.tree.lists[0].manifests


def test_long_lists_are_cut_in_words_and_open_by_a_click(monkeypatch, flights):
    monkeypatch.setattr("lakekit.draw.manifests.FIRST_ROWS", 2)
    tree = Manifests(flights)
    keys = [spot.key for spot in tree._canvas._boxes]
    assert keys[2] == f"{MORE_PREFIX}base"
    assert tree._canvas._boxes[2].name == "… 7 more manifests, 26 entries"
    tree._canvas._buttons.value = f"{MORE_PREFIX}base"
    assert (tree.selected, tree._canvas.selected_key) == ("", "")
    assert len(tree._canvas._boxes) == 10
    hidden = tree.tree.lists[0].manifests[-1].name
    other = Manifests(flights)
    other.selected = hidden
    assert hidden in [spot.key for spot in other._canvas._boxes]


def test_hostile_names_are_only_text(tmp_path):
    name = HOSTILE.replace("/", "")
    place = copied("history_tags", tmp_path / name)
    newest = max((place / "snapshot").glob("snapshot-*"), key=lambda path: int(path.name[9:]))
    change(newest, commitUser=HOSTILE + "\x1b[31m</td></table><script>alert(2)</script>")
    (place / "tag" / f"tag-{name}").write_text(newest.read_text())
    opened = lk.open(place)
    line, tree = Timeline(opened), Manifests(opened)
    tree.selected = tree.tree.lists[1].manifests[0].name
    tree.filter = HOSTILE
    for widget in (line, tree):
        for page in html_of(widget):
            Page(page)
            assert "\x1b" not in page
        assert widget.as_text().replace("\n", "").isprintable()
    assert again(line.code).collect().height >= 0


def test_the_shell_draws_them_for_a_person_only(capsys, flights):
    assert main(["inspect", flights.location, "snapshots", "--format", "table"]) == 0
    shown = capsys.readouterr().out
    assert " ●────●────●────●────◆────●────●────◆────●────●\n" in shown
    assert "tags: end_of_feb_8 at 5" in shown
    assert "snapshot_id" in shown
    assert main(["inspect", flights.location, "manifests", "--at", "end_of_feb_8", "--format", "table"]) == 0
    shown = capsys.readouterr().out
    assert "table at snapshot 5 (COMPACT) · 5 manifests" in shown
    assert shown.count("─ manifest-") == 5
    for noun in ("snapshots", "manifests"):
        assert main(["inspect", flights.location, noun]) == 0
        assert "\t" in capsys.readouterr().out.splitlines()[0]


def test_a_watermark_is_a_time():
    line = Timeline(table("history_properties"))
    mark = line.history.find(line.selected)
    assert f">{timeline.format_time(mark.watermark)}<" in line.children[-1].value
    assert timeline.format_time(2**63 - 1) == "9 223 372 036 854 775 807"


def test_opening_reads_one_snapshot_s_manifests(tmp_path, monkeypatch, flights):
    opened = lk.open(copied(flights.location, tmp_path / "t"))
    read = []
    storage = type(opened._context().storage)
    real = storage.read
    monkeypatch.setattr(storage, "read", lambda self, path, *how: read.append(path) or real(self, path, *how))
    Timeline(opened)
    Manifests(opened)
    assert sum("/manifest/manifest-list" in path for path in read) == 2
    assert not any("/manifest/manifest-" in path and "list" not in path for path in read)
    assert not any("/bucket-" in path for path in read)


@pytest.mark.parametrize("wrong", [{"at": "9"}, {"at": True}, {"partition": 5}, {"bucket": "0"}], ids=str)
def test_levels_of_what_is_no_place(wrong):
    """They ended in a TraitError, which says nothing of what is wanted."""
    with pytest.raises(TypeError, match=f"{next(iter(wrong))}= of Levels is the"):
        Levels(table("history_tags"), **wrong)
