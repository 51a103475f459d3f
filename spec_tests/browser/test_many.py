"""Tables with many files: drawn in hardly more time than a table with one, and clicked without waiting."""

from __future__ import annotations

import time
from functools import partial

import pytest
from playwright.sync_api import expect

from spec_tests.browser import tables
from spec_tests.browser.notebook import eventually, fastest

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
    for name, count in (("one", 1), ("thousand", 998), ("many", 10_000)):
        tables.many(desk.lab.root / name, count)
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
    timed = [partial(notebook.seconds, cell, "[class*=lakekit-stage] button", count) for cell, count in ((ONE, 3), (THOUSAND, 1000))]
    one, thousand = fastest(10, timed, lambda one, thousand: thousand <= 1.3 * one + 0.3)
    print(f"\nlevels of 3 files {one:.3f} s, of 1,000 files {thousand:.3f} s")
    assert thousand <= 1.3 * one + 0.3


def test_ten_thousand_files_are_at_most_so_many_boxes_and_say_so(notebook):
    expect(notebook.output(MANY).get_by_text("10 002 files are more than can be drawn")).to_be_visible()
    assert 500 < boxes(notebook, MANY).count() <= 1500 + 8
    assert notebook.ask("len(browser.levels._stage._spots)") <= 1500
    assert "files" in boxes(notebook, MANY).nth(700).inner_text()


def test_ten_thousand_files_are_opened_without_a_freeze(notebook, patience):
    (taken,) = fastest(3, [partial(notebook.seconds, MANY, "[class*=lakekit-stage] button", 500)], lambda taken: taken < patience)
    print(f"\nbrowser of 10,002 files {taken:.3f} s, longest pause of the page {notebook.page.evaluate('window.lakekitPause') / 1000:.3f} s")
    assert taken < patience
    assert notebook.page.evaluate("window.lakekitPause") < patience * 1000


@pytest.mark.parametrize("what", ["a file", "a key", "a snapshot"])
def test_ten_thousand_files_answer(notebook, what, patience):
    view = notebook.output(MANY)
    start = time.monotonic()
    if what == "a file":
        view.get_by_role("button", name="data-10001.parquet", exact=True).click()
        notebook.until("browser.selected", "data-10001.parquet")
        expect(view.locator("button.mod-active[title^='data-10001.parquet']")).to_be_visible()
    elif what == "a key":
        typed = view.get_by_role("textbox", name="probe key")
        typed.fill("4711")
        typed.press("Enter")
        notebook.until("browser.levels.probe", "4711")
        lit = notebook.ask("len(browser.levels.lit)")
        assert 5 < lit < 200
        expect(view.get_by_text(f"probe key 4711: {lit} of 10 002 files to be read")).to_be_visible()
    else:
        view.get_by_role("button", name="snapshot 1 APPEND").click()
        notebook.until("browser.levels.at", 1)
        expect(view.get_by_text("10 000 files ·").first).to_be_visible()
    print(f"\n{what}: {time.monotonic() - start:.3f} s")
    assert time.monotonic() - start < patience


def test_nothing_was_raised_or_dropped(notebook, desk):
    eventually(lambda: notebook.raised() == [])
    assert "rate exceeded" not in desk.lab.log.read_text(encoding="utf-8")
