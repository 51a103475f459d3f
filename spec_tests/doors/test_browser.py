"""`t.browse()`: three views that follow each other, and one line of Python for whatever was chosen."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

import lakekit as lk
from lakekit.inspection.timeline import locate_file
from lakekit.notebook.browser import Browser
from spec_tests.browser import tables
from spec_tests.doors.views import TABLES, copied, in_memory, table
from spec_tests.house.source import ROOT
from spec_tests.longer import some

CASES = (
    "dedup_levels",
    "dedup_partitioned",
    "dedup_composite_key",
    "append_plain",
    "append_partitioned",
    "bucket_dynamic",
    "bucket_postpone_waiting",
    "history_branches",
    "empty_keyed",
    "empty_after_overwrite",
)


@pytest.fixture
def story(tmp_path):
    tables.story(tmp_path / "story")
    return lk.open(tmp_path / "story")


@pytest.mark.parametrize("case", some(CASES, 3))
def test_every_kind_of_table_can_be_browsed(case):
    found = table(case).browse()
    assert isinstance(found, Browser)
    newest = table(case).snapshots()["snapshot_id"].max() or 0
    assert (found.at, found.selected, found.timeline.selected, found.manifests.at, found.levels.at) == (newest,) * 5
    bundle = found._repr_mimebundle_()
    assert bundle["text/html"].count("<img ") == 1
    assert found.as_text().count("\n\n") >= 2
    assert found.drawing().height > found.timeline.drawing().height


@pytest.mark.long
def test_a_snapshot_chosen_anywhere_is_shown_everywhere(story):
    found = story.browse()
    for choose in (
        lambda at: setattr(found, "at", at),
        lambda at: setattr(found, "selected", at),
        lambda at: setattr(found.timeline, "selected", at),
        lambda at: setattr(found.manifests, "at", at),
        lambda at: setattr(found.levels, "at", at),
        lambda at: setattr(found.timeline._canvas, "selected_key", str(at)),
    ):
        for at in (3, 6):
            choose(at)
            assert (found.at, found.selected, found.timeline.selected, found.manifests.at, found.levels.at) == (at,) * 5
            assert found.manifests.tree.snapshot_id == at
            assert found.code == f"lk.open({story.location!r}).scan(at={at})"
            assert found.frame().collect_schema() == story.scan(at=at).collect_schema()


def test_a_file_chosen_is_found_in_its_manifest(story):
    found = story.browse()
    for name, manifest in (("data-19.parquet", "manifest-08"), ("data-14.parquet", "manifest-06"), ("data-03.parquet", "manifest-03")):
        found.levels.selected = name
        assert (found.selected, found.manifests.selected, found._entries.value) == (name, manifest, name)
        assert found.code == f'lk.open({story.location!r}).scan(at=8, raw=True).filter(pl.col("_file") == {name!r})'


def test_an_entry_chosen_is_the_file_among_the_levels(story):
    found = story.browse()
    found.manifests.selected = "manifest-03"
    assert (found.selected, found.levels.selected) == ("manifest-03", "")
    assert found.frame().height == 10
    assert [value for _, value in found._entries.options][1:] == found.frame()["file_name"].to_list()
    found._entries.value = "data-05.parquet"
    assert (found.selected, found.levels.selected, found.manifests.selected) == ("data-05.parquet",) * 2 + ("manifest-03",)
    found.manifests.selected = "manifest-07"
    found._entries.value = "data-16.parquet"
    assert (found.levels.partition, found.levels.selected) == ("day=2026-04-01", "data-16.parquet")
    found.manifests.selected = ""
    assert found._entries.layout.display == "none"
    assert found.selected == found.at


def test_selected_is_set_from_python_too(story):
    found = story.browse()
    found.selected = "data-16.parquet"
    assert (found.levels.selected, found.manifests.selected) == ("data-16.parquet", "manifest-07")
    found.selected = "manifest-05"
    assert (found.manifests.selected, found._view) == ("manifest-05", found.manifests)
    found.selected = "nothing of that name"
    assert (found.selected, found.levels.selected) == (8, "")


def test_what_is_chosen_again_is_chosen(story):
    found = story.browse()
    found.manifests.selected = "manifest-05"
    found.levels.selected = "data-14.parquet"
    found.manifests.selected = "manifest-05"
    found.levels.selected = "data-16.parquet"
    found.selected = "manifest-07"
    assert (found.selected, found._view) == ("manifest-07", found.manifests)
    found.selected = 8
    assert (found.selected, found._view) == (8, found.timeline)


def test_damage_is_told_and_not_raised(tmp_path):
    tables.story(tmp_path / "story")
    (tmp_path / "story" / "manifest" / "manifest-05").write_bytes(b"nothing")
    (tmp_path / "story" / "manifest" / "manifest-list-03-1").unlink()
    found = lk.open(tmp_path / "story").browse()
    found.manifests.selected = "manifest-05"
    assert found.selected == "manifest-05"
    assert len(found._entries.options) == 1
    assert "manifest-05" in found.manifests._detail.value
    found.selected = "data-03.parquet"
    found.selected = "data-12.parquet"
    for at in (3, 2, 99, 1):
        found.at = at
        assert found.as_text()
    assert found.manifests.tree.snapshot_id == 1


def test_a_chosen_file_stays_so_where_the_snapshot_has_it(story):
    found = story.browse()
    found.levels.selected = "data-14.parquet"
    found.at = 6
    assert (found.levels.selected, found.manifests.selected) == ("data-14.parquet", "manifest-06")
    found.at = 2
    assert (found.levels.selected, found.selected) == ("", 2)


def test_a_filter_typed_once_reaches_all():
    found = table("dedup_levels").browse()
    key = found.table.primary_keys[0]
    found._box.value = f"{key} = 3"
    assert (found.filter, found.manifests.filter, found.levels.filter) == (f"{key} = 3",) * 3
    assert found.levels.lit
    found.levels.filter = f"{key} = 4"
    assert (found.filter, found._box.value, found.manifests.filter) == (f"{key} = 4",) * 3
    for wrong in ("no_such_column = 1", "a = = b", "'"):
        found.filter = wrong
        assert found.levels.lit == ()
    found.filter = ""
    assert found.manifests.tree.filter_text == ""


def test_one_box_asks_for_all():
    found = table("dedup_levels").browse()

    def boxes(widget):
        shown = getattr(widget, "description", "") == "filter" and widget.layout.display != "none"
        return shown + sum(boxes(child) for child in getattr(widget, "children", ()))

    assert boxes(found) == 1


def test_code_can_be_watched(story):
    found = story.browse()
    seen = []
    found.observe(lambda change: seen.append(change["new"]), "code")
    found.at = 5
    found.manifests.selected = "manifest-05"
    assert seen[-1] == found.manifests.code
    assert any(line.endswith(".scan(at=5)") for line in seen)


def test_new_snapshots_are_seen_when_asked(tmp_path):
    tables.story(tmp_path / "story")
    hidden = tmp_path / "story" / "snapshot" / "snapshot-8"
    hidden.rename(tmp_path / "hidden")
    found = lk.open(tmp_path / "story").browse()
    assert found.at == 7
    (tmp_path / "hidden").rename(hidden)
    found.refresh()
    found.selected = 8
    assert found.manifests.tree.snapshot_id == 8


def test_a_file_stands_where_its_manifest_says(story):
    for snapshot_id in range(1, 9):
        frame = story.files(at=snapshot_id)
        for name, partition, bucket in frame.select("file_name", "partition", "bucket").rows():
            found = locate_file(story, snapshot_id, name)
            assert (found.partition, found.bucket) == (partition, bucket)
    assert locate_file(story, 8, "data-99.parquet") is None
    assert locate_file(story, 0, "data-01.parquet") is None


def test_browsing_reads_one_snapshot_s_manifests(tmp_path):
    tables.story(tmp_path / "story")
    storage = copied(tmp_path / "story")
    lk.Table(location="memory", name="story", storage=storage).browse()
    read = [str(part) for call in storage.trace for part in (call if isinstance(call, tuple) else (call,))]
    assert not any("parquet" in part for part in read)
    lists = {part for part in read if "manifest-list-" in part}
    assert {part.rpartition("/")[2] for part in lists} == {"manifest-list-08-0", "manifest-list-08-1"}


@pytest.mark.long
def test_ten_thousand_files_do_not_freeze_it(tmp_path):
    tables.many(tmp_path / "many", 10_000)
    opened = lk.open(tmp_path / "many")
    opened.browse()
    start = time.process_time()
    found = opened.browse()
    drawn = time.process_time() - start
    assert len(found.levels._canvas._boxes) <= 1500
    start = time.process_time()
    found.levels.selected = "data-9000.parquet"
    clicked = time.process_time() - start
    assert found.manifests.selected == "manifest-01"
    assert (drawn < 10, clicked < 5) == (True, True)


# ---- cards ----------------------------------------------------------------------------------------------------------------------------------


def test_no_card_reads_anything():
    opened = in_memory("evolve_keyed_parquet")
    difference, explained, schema = opened.diff_schemas(0), opened.explain(), opened.schema
    opened.files()
    catalog = lk.Catalog(warehouse="memory", storage=copied(TABLES / "dedup_levels", "memory/shop.db/orders"))
    assert catalog.databases() == ["shop"]
    fresh = in_memory("dedup_levels")
    views = opened.browse()
    storages = [opened.storage, fresh.storage, catalog.storage]
    for each in storages:
        each.trace.clear()
    for shown in (opened, difference, explained, schema, catalog, fresh, lk.Catalog(warehouse="memory", storage=catalog.storage)):
        assert repr(shown)
        assert shown._repr_html_().startswith("<table>")
    assert repr(views)
    assert views.as_html()
    assert views.timeline.as_text()
    assert [each.trace for each in storages] == [[], [], []]


def test_cards_say_what_was_seen():
    opened = table("dedup_levels")
    assert repr(opened).count("\n") <= 5
    before = opened._repr_html_()
    opened.files()
    after = opened._repr_html_()
    assert "health" not in before
    assert "sorted run" in after
    assert "<style" not in after
    assert "class=" not in after
    assert opened.schema._repr_html_().count("<tr>") == 1 + len(opened.schema.fields)


def test_long_cards_end_with_how_much_more():
    fields = tuple(lk.Field(f"c{at}", "INT", at) for at in range(50))
    assert "… 30 more" in lk.Schema(id=0, fields=fields, highest_field_id=49)._repr_html_()


def test_what_is_no_card_says_itself_in_a_line(tmp_path):
    made = lk.create(tmp_path / "orders", {"k": "BIGINT NOT NULL", "m": "MAP<STRING, INT>"}, primary_keys=["k"], options={"bucket": "1"})
    types = [repr(field.type) for field in made.schema.fields]
    assert types == ["DataType('BIGINT NOT NULL')", "DataType('MAP<STRING, INT>')"]
    with made.writer(commit_user="job") as writer:
        writer.write([{"k": 1, "m": None}])
        messages = writer.prepare()
        assert repr(writer).startswith("Writer of orders, commit_user='job', ")
    assert [repr(message) for message in messages] == ["CommitMessage(bucket 0, 1 added)"]
    assert "closed" in repr(writer)
    assert "root=" not in repr(lk.add_column("n", "ARRAY<INT>"))
    made.commit(messages, commit_user="job", identifier=1)


# ---- without the extra ----------------------------------------------------------------------------------------------------------------------


WITHOUT = """
import sys
sys.modules[{guest!r}] = None
import lakekit as lk
try:
    lk.open({path!r}).browse()
except lk.Unsupported as error:
    print(error)
"""
READ = """
import sys
import lakekit as lk
t = lk.open({path!r})
t.scan().collect(), repr(t)
print({{'ipywidgets', 'PIL'}} & set(sys.modules))
"""


def run(code, **names):
    said = code.format(path=str(TABLES / "dedup_levels"), **names)
    return subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True, cwd=ROOT).stdout


@pytest.mark.long
@pytest.mark.parametrize("guest", ["ipywidgets", "PIL"])
def test_a_missing_extra_is_named_with_its_pip_line(guest):
    assert run(WITHOUT, guest=guest) == f"'browser' of notebook needs {guest}: pip install 'lakekit[notebook]'\n"


@pytest.mark.long
def test_opening_and_reading_loads_no_widgets():
    assert run(READ) == "set()\n"
