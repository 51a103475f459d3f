"""The views and the browser of all of them, by hand: clicked, typed into, reached by keys alone, looked at by day and by night."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from spec_tests.browser import chromium, look, tables
from spec_tests.browser.notebook import eventually

VIEWS = ("timeline", "manifests", "levels", "browser")
"""What the notebook calls them; the cell of each is the one after those of the views before it."""
CELLS = [
    """import lakekit as lk
from lakekit.notebook.levels import Levels
from lakekit.notebook.manifests import Manifests
from lakekit.notebook.panels import Timeline
from lakekit.inspection.levels import planned_file_names
t = lk.open('story')""",
    "timeline = Timeline(t); timeline",
    "manifests = Manifests(t); manifests",
    "levels = Levels(t, partition='day=2026-03-31'); levels",
    "browser = t.browse(); browser",
]
CHOICES = {
    "timeline": "timeline.selected = 6",
    "manifests": "manifests.selected = 'manifest-06'",
    "levels": "levels.probe = '47000'; levels.selected = 'data-14.parquet'",
    "browser": "browser.at = 6; browser.levels.selected = 'data-14.parquet'",
}
"""What is chosen in each while it is looked at."""
CHOSEN = "[class*=lakekit-stage] button.mod-active"


@pytest.fixture(scope="module")
def notebook(desk, page_of):
    tables.story(desk.lab.root / "story")
    yield page_of(*CELLS)
    assert desk.watch.complaints == []


@pytest.fixture(scope="module")
def views(notebook):
    return {name: notebook.output(1 + at) for at, name in enumerate(VIEWS)}


def box(view, name):
    return view.locator("[class*=lakekit-stage]").get_by_role("button", name=name, exact=True)


@pytest.fixture
def timeline(notebook, views):
    notebook.tell("timeline.by_time = False; timeline.selected = 8")
    expect(views["timeline"].locator(CHOSEN)).to_have_attribute("data-value", re.compile("snapshot%208"))
    return views["timeline"]


@pytest.fixture
def manifests(notebook, views):
    notebook.tell("manifests.filter = ''; manifests.at = 8; manifests.selected = ''")
    expect(box(views["manifests"], "manifest-08")).to_be_visible()
    expect(views["manifests"].locator(CHOSEN)).to_have_count(0)
    return views["manifests"]


# ---- snapshots -----------------------------------------------------------------------------------------------------------------------------


def test_a_click_on_a_snapshot_reaches_python(notebook, timeline):
    box(timeline, "snapshot 3 COMPACT").click()
    notebook.until("timeline.selected", 3)
    assert notebook.ask("timeline.code").endswith(".scan(at=3)")
    assert notebook.ask("timeline.frame().collect_schema() == timeline.table.scan(at=3).collect_schema()") is True
    expect(timeline.get_by_role("cell", name="COMPACT", exact=True)).to_be_visible()


def test_python_chooses_a_snapshot(notebook, timeline):
    notebook.tell("timeline.selected = 6")
    expect(timeline.locator(CHOSEN)).to_have_attribute("data-value", re.compile("snapshot%206"))
    expect(timeline.locator(".widget-readout")).to_have_text("6")


def test_the_slider_steps_from_snapshot_to_snapshot(notebook, timeline):
    timeline.get_by_role("slider").focus()
    for number in (7, 6, 5):
        notebook.page.keyboard.press("ArrowLeft")
        notebook.until("timeline.selected", number)
    notebook.page.keyboard.press("ArrowRight")
    notebook.until("timeline.selected", 6)


def test_keys_alone_choose_a_snapshot(notebook, timeline):
    box(timeline, "snapshot 1 APPEND").focus()
    for _ in range(3):
        notebook.page.keyboard.press("Tab")
    notebook.page.keyboard.press("Enter")
    notebook.until("timeline.selected", 4)


def test_snapshots_stand_where_their_time_was(notebook, timeline):
    before = box(timeline, "snapshot 4 APPEND").bounding_box()["x"]
    timeline.get_by_role("button", name="by time").click()
    notebook.until("timeline.by_time", value=True)
    eventually(lambda: box(timeline, "snapshot 4 APPEND").bounding_box()["x"] > before)


# ---- manifests -----------------------------------------------------------------------------------------------------------------------------


def test_a_click_on_a_manifest_reaches_python(notebook, manifests):
    box(manifests, "manifest-06").click()
    notebook.until("manifests.selected", "manifest-06")
    assert notebook.ask("manifests.frame().height") == 5
    assert "manifest-06" in notebook.ask("manifests.code")
    expect(manifests.get_by_text("data-14.parquet")).to_be_visible()


def test_keys_alone_choose_a_manifest(notebook, manifests):
    box(manifests, "manifest-01").focus()
    notebook.page.keyboard.press("Tab")
    notebook.page.keyboard.press("Enter")
    notebook.until("manifests.selected", "manifest-02")


def test_a_filter_that_is_typed_says_which_manifests_are_opened(notebook, manifests):
    typed = manifests.get_by_role("textbox")
    typed.fill("day = '2026-04-01'")
    typed.press("Enter")
    notebook.until("manifests.filter", "day = '2026-04-01'")
    expect(box(manifests, "manifest-03")).to_have_attribute("title", re.compile("skipped"))
    expect(box(manifests, "manifest-07")).not_to_have_attribute("title", re.compile("skipped"))


def test_a_filter_that_means_nothing_is_answered_in_words(notebook, manifests):
    typed = manifests.get_by_role("textbox")
    typed.fill("colour = 'red'")
    typed.press("Enter")
    expect(manifests.get_by_text("colour").first).to_be_visible()
    expect(box(manifests, "manifest-03")).to_be_visible()


# ---- levels --------------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def levels(notebook, views):
    notebook.tell("levels.filter = levels.probe = levels.selected = ''; levels.compare_to = 0; levels.partition = 'day=2026-03-31'; levels.at = 8")
    expect(box(views["levels"], "data-19.parquet")).to_be_visible()
    expect(views["levels"].locator(CHOSEN)).to_have_count(0)
    return views["levels"]


def hints(view):
    """What hovering over each box says."""
    return view.locator("[class*=lakekit-stage] button").evaluate_all("boxes => boxes.map(box => box.title)")


def test_a_click_on_a_file_reaches_python(notebook, levels):
    box(levels, "data-14.parquet").click()
    notebook.until("levels.selected", "data-14.parquet")
    assert "data-14.parquet" in notebook.ask("levels.code")
    expect(levels.get_by_text("29311 .. 50207")).to_be_visible()


def test_keys_alone_choose_a_file(notebook, levels):
    box(levels, "data-13.parquet").focus()
    notebook.page.keyboard.press("Tab")
    notebook.page.keyboard.press("Enter")
    notebook.until("levels.selected", "data-14.parquet")


@pytest.mark.parametrize("key", ["4711", "70000", "99999999"])
def test_a_key_that_is_typed_lights_the_files_that_the_planner_reads(notebook, levels, key):
    typed = levels.get_by_role("textbox", name="probe key")
    typed.fill(key)
    typed.press("Enter")
    notebook.until("levels.probe", key)
    planned = notebook.ask(f"sorted(planned_file_names(t, __import__('polars').col('id') == {key}, 8))")
    assert notebook.ask("sorted(levels.lit)") == planned
    lit = levels.locator("[class*=lakekit-stage] button[title$='to be read']")
    expect(lit).to_have_count(len(planned))
    assert sorted(name.strip() for name in lit.all_text_contents()) == planned
    expect(levels.get_by_text(f"probe key {key}: {len(planned)} of 14 files to be read")).to_be_visible()
    shadows = set(lit.evaluate_all("boxes => boxes.map(box => getComputedStyle(box).boxShadow)"))
    assert all("3px" in shadow for shadow in shadows)


def test_a_filter_that_is_typed_lights_files_and_tells_the_funnel(notebook, levels):
    typed = levels.get_by_role("textbox", name="filter")
    typed.fill("id > 90000")
    typed.press("Enter")
    notebook.until("sorted(levels.lit)", ["data-10.parquet", "data-19.parquet"])
    expect(levels.get_by_role("table").filter(has_text="id > 90000")).to_contain_text("keys id")


@pytest.mark.parametrize(
    ("name", "text"), [("probe key", "yesterday"), ("probe key", "1, 2, 3"), ("filter", "id >"), ("filter", "colour = 1"), ("filter", "<b>")]
)
def test_what_cannot_be_asked_is_answered_in_words(notebook, levels, name, text):
    typed = levels.get_by_role("textbox", name=name)
    typed.fill(text)
    typed.press("Enter")
    expect(levels.get_by_role("alert")).to_be_visible()
    expect(box(levels, "data-19.parquet")).to_be_visible()


def test_the_slider_goes_back_in_time(notebook, levels):
    levels.get_by_role("slider").focus()
    notebook.page.keyboard.press("ArrowLeft")
    notebook.until("levels.at", 7)
    levels.get_by_role("button", name="earlier").click()
    notebook.until("levels.at", 6)
    expect(box(levels, "data-13.parquet")).to_have_css("box-shadow", re.compile("2px"))
    eventually(lambda: sum(hint.endswith("removed") for hint in hints(levels)) == 2)
    expect(levels.get_by_text("2 files removed", exact=True)).to_be_visible()
    box(levels, "data-11.parquet").click()
    notebook.until("levels.selected", "data-11.parquet")
    assert ".scan(at=5, raw=True)" in notebook.ask("levels.code")


def test_two_snapshots_stand_on_one_axis(notebook, levels):
    levels.get_by_role("combobox", name="compare to").select_option("snapshot 5")
    notebook.until("levels.compare_to", 5)
    same = levels.locator("[class*=lakekit-stage]").get_by_role("button", name="data-07.parquet", exact=True)
    expect(same).to_have_count(2)
    one, two = same.first.bounding_box(), same.last.bounding_box()
    assert (one["x"], one["width"]) == (two["x"], two["width"])
    assert one["y"] < two["y"]


def test_a_compaction_is_played_step_by_step(notebook, levels):
    notebook.tell("seen = []; levels.observe(lambda change: seen.append(change['new']), 'at')")
    assert notebook.ask("levels.play(interval_ms=900)") == (3, 4, 5, 6)
    notebook.until("(seen, levels._play.playing)", ([3, 4, 5, 6], False))


def test_a_button_plays_all_snapshots_and_ends(notebook, levels):
    notebook.tell("levels._play.min, levels._play.max, levels._play.value, levels._play.interval = 0, 7, 7, 400")
    levels.get_by_role("button", name="play").click()
    notebook.until("levels._play.playing", value=True)
    notebook.until("(levels.at, levels._play.playing)", (8, False))
    expect(levels.get_by_role("button", name="play")).not_to_have_class(re.compile("mod-active"))


# ---- all views, linked -------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def browser(notebook, views):
    notebook.tell("browser.filter = ''; browser.levels.selected = browser.manifests.selected = ''; browser.at = 8")
    expect(box(views["browser"], "data-19.parquet")).to_be_visible()
    expect(box(views["browser"], "manifest-08")).to_be_visible()
    return views["browser"]


def test_a_snapshot_is_chosen_for_all_views(notebook, browser):
    box(browser, "snapshot 3 COMPACT").click()
    notebook.until("(browser.at, browser.timeline.selected, browser.manifests.at, browser.levels.at)", (3, 3, 3, 3))
    notebook.until("browser.selected", 3)
    expect(box(browser, "data-03.parquet")).to_be_visible()
    expect(box(browser, "manifest-08")).to_have_count(0)


def test_a_file_is_chosen_with_the_manifest_that_added_it(notebook, browser):
    box(browser, "data-14.parquet").click()
    notebook.until("(browser.selected, browser.manifests.selected)", ("data-14.parquet", "manifest-06"))
    expect(box(browser, "manifest-06")).to_have_class(re.compile("mod-active"))
    assert "data-14.parquet" in notebook.ask("browser.code")


def test_a_manifest_is_chosen_and_one_of_its_files(notebook, browser):
    box(browser, "manifest-03").click()
    notebook.until("browser.selected", "manifest-03")
    browser.get_by_role("combobox", name="file").select_option(label="ADD L5 data-05.parquet")
    notebook.until("browser.levels.selected", "data-05.parquet")
    expect(box(browser, "data-05.parquet")).to_have_class(re.compile("mod-active"))


def test_one_filter_asks_all_views(notebook, browser):
    typed = browser.get_by_role("textbox", name="filter").and_(browser.locator(":visible"))
    expect(typed).to_have_count(1)
    typed.fill("day = '2026-04-01'")
    typed.press("Enter")
    notebook.until("(browser.manifests.filter, browser.levels.filter)", ("day = '2026-04-01'",) * 2)
    notebook.until("browser.levels.lit", ())
    expect(box(browser, "manifest-03")).to_have_attribute("title", re.compile("skipped"))


# ---- all of them ---------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["Light", "Dark"])
def theme(request, desk):
    desk.theme(request.param)
    yield request.param.lower()
    desk.theme("Light")


@pytest.fixture(params=VIEWS)
def view(request, notebook):
    """The name of a view, with something chosen in it."""
    request.getfixturevalue(request.param)
    notebook.tell(CHOICES[request.param])
    expect(notebook.output(1 + VIEWS.index(request.param)).locator(CHOSEN).first).to_be_visible()
    return request.param


def test_words_can_be_read(views, view, theme):
    assert look.words(views[view])
    assert look.pale(views[view]) == []


def test_no_word_stands_on_a_box_or_on_another_word_or_outside(views, view):
    assert look.covered(views[view]) == []
    assert look.crossed(views[view]) == []
    assert look.outside(views[view]) == []


def test_a_narrow_page_gets_a_scroll_bar_and_no_word_on_another(desk, views, view):
    desk.page.set_viewport_size({"width": 560, "height": chromium.VIEWPORT["height"]})
    try:
        assert look.covered(views[view]) == []
        assert look.crossed(views[view]) == []
        assert views[view].evaluate("it => Math.max(...[...it.querySelectorAll('*')].map(one => one.scrollWidth - one.clientWidth))") > 0
    finally:
        desk.page.set_viewport_size(chromium.VIEWPORT)


def test_looks_as_committed(desk, views, view, theme):
    desk.page.mouse.move(0, 0)
    desk.page.evaluate("document.activeElement.blur()")
    look.as_committed(views[view], f"{view}-{theme}", desk.lab.root)


def test_every_box_has_a_name_and_a_hint(views, view):
    found = views[view].locator("[class*=lakekit-stage] button")
    assert found.count() > 5
    assert all(found.evaluate_all("boxes => boxes.map(box => box.title.length > 0 && box.textContent.trim().length > 0)"))


def test_every_control_has_a_name(views, view):
    named = views[view].locator("button:visible, input:visible, select:visible")
    assert named.count() > 5 or view == "manifests"
    said = named.evaluate_all("all => all.map(one => (one.textContent + one.title + (one.labels && one.labels[0] ? one.labels[0].textContent : '')).trim())")
    assert all(said)


def test_nothing_was_raised_in_python(notebook):
    assert notebook.raised() == []
