"""Tables with many files: drawn in hardly more time than a table with one, and clicked without waiting."""

from __future__ import annotations

import time
from functools import partial
from itertools import count

import pytest
from playwright.sync_api import expect

from spec_tests.browser import look, tables
from spec_tests.browser.notebook import eventually, fastest
from spec_tests.crowd import times_alone

CELLS = [
    "import lakekit as lk\nfrom lakekit.notebook.levels import Levels\none, thousand, many = (lk.open(name) for name in ('one', 'thousand', 'many'))",
    "Levels(one)",
    "Levels(thousand)",
    "browser = many.browse(); browser",
]
ONE, THOUSAND, MANY = 1, 2, 3
A_FEW_SECONDS = 6
"""Longer than this is a freeze; on a machine with much else to do, longer than ten times what a view of three files takes."""
_LONGEST_PAUSE = """() => {
  window.lakekitPause = 0;
  let last = performance.now();
  const look = now => { window.lakekitPause = Math.max(window.lakekitPause, now - last); last = now; requestAnimationFrame(look); };
  requestAnimationFrame(look);
}"""


@pytest.fixture(scope="module")
def notebook(desk, page_of):
    for name, files in (("one", 1), ("thousand", 998), ("many", 10_000)):
        tables.many(desk.lab.root / name, files)
    found = page_of(*CELLS)
    desk.page.evaluate(_LONGEST_PAUSE)
    return found


def boxes(notebook, cell):
    return notebook.output(cell).locator("[class*=lakekit-stage] button")


@pytest.fixture
def patience(notebook):
    """How many seconds are no freeze yet."""
    return max(A_FEW_SECONDS, 10 * notebook.seconds(ONE, "[class*=lakekit-stage] button", 3))


def test_a_thousand_files_are_drawn_nearly_as_fast_as_one(notebook):
    expect(boxes(notebook, THOUSAND)).to_have_count(1000)
    timed = [partial(notebook.seconds, cell, "[class*=lakekit-stage] button", many) for cell, many in ((ONE, 3), (THOUSAND, 1000))]
    more = 0.3 * times_alone()
    one, thousand = fastest(10, timed, lambda one, thousand: thousand <= 1.3 * one + more)
    print(f"\nlevels of 3 files {one:.3f} s, of 1,000 files {thousand:.3f} s")
    assert thousand <= 1.3 * one + more


def test_ten_thousand_files_are_at_most_so_many_boxes_and_say_so(notebook):
    expect(notebook.output(MANY).get_by_text("10 002 files are more than can be drawn")).to_be_visible()
    assert 500 < boxes(notebook, MANY).count() <= 1500 + 8
    assert notebook.ask("len(browser.levels._canvas._boxes)") <= 1500
    assert "files" in boxes(notebook, MANY).nth(700).inner_text()
    assert look.outside(notebook.output(MANY)) == []


def test_ten_thousand_files_are_opened_without_a_freeze(notebook, patience):
    (taken,) = fastest(6, [partial(notebook.seconds, MANY, "[class*=lakekit-stage] button", 500)], lambda taken: taken < patience)
    print(f"\nbrowser of 10,002 files {taken:.3f} s, longest pause of the page {notebook.page.evaluate('window.lakekitPause') / 1000:.3f} s")
    assert taken < patience
    assert notebook.page.evaluate("window.lakekitPause") < patience * 1000


def choose_a_file(notebook, view, turn):
    name = f"data-{10_001 + turn % 2}.parquet"
    view.get_by_role("button", name=name, exact=True).click()
    notebook.until("browser.selected", name)
    expect(view.locator(f"button.mod-active[title^='{name}']")).to_be_visible()


def ask_for_a_key(notebook, view, turn):
    typed, key = view.get_by_role("textbox", name="probe key"), str(4711 + turn)
    typed.fill(key)
    typed.press("Enter")
    notebook.until("browser.levels.probe", key)
    lit = notebook.ask("len(browser.levels.lit)")
    assert 5 < lit < 200
    expect(view.get_by_text(f"probe key {key}: {lit} of 10 002 files to be read")).to_be_visible()


def go_to_a_snapshot(notebook, view, turn):
    at = 1 + turn % 2
    view.get_by_role("button", name=f"snapshot {at} APPEND").click()
    notebook.until("browser.levels.at", at)
    expect(view.get_by_text(f"10 00{0 if at == 1 else 2} files ·").first).to_be_visible()


@pytest.mark.parametrize("asked", [choose_a_file, ask_for_a_key, go_to_a_snapshot], ids=lambda asked: asked.__name__)
def test_ten_thousand_files_answer(notebook, asked, patience):
    turns = count()

    def taken():
        start = time.monotonic()
        asked(notebook, notebook.output(MANY), next(turns))
        return time.monotonic() - start

    notebook.tell("browser.levels.probe = ''; browser.at = 2")
    (seconds,) = fastest(10, [taken], lambda seconds: seconds < patience)
    print(f"\n{asked.__name__}: {seconds:.3f} s")
    assert seconds < patience


def test_nothing_was_raised_or_dropped(notebook, desk):
    eventually(lambda: notebook.raised() == [])
    assert "rate exceeded" not in desk.lab.log.read_text(encoding="utf-8")
