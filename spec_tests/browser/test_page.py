"""The page that `lakekit browse PATH -o page.html` writes, opened from a disk: nothing is fetched, everything answers."""

from __future__ import annotations

import subprocess
import sys

import pytest
from playwright.sync_api import expect

from spec_tests.browser import chromium, look, tables


@pytest.fixture(scope="module")
def opened(chrome, tmp_path_factory):
    """Opens the page of a table in a page of its own, and asserts in the end that it asked for nothing and complained of nothing."""
    contexts, watches = [], []

    def open_one(root, **how):
        target = root.with_suffix(".html")
        done = subprocess.run([sys.executable, "-m", "lakekit.cli.main", "browse", str(root), "-o", str(target)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        contexts.append(chrome.new_context(viewport=chromium.VIEWPORT, offline=True, **how))
        watches.append(chromium.Watch(contexts[-1]))
        page = contexts[-1].new_page()
        page.goto(target.as_uri())
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert [watch.complaints for watch in watches] == [[]] * len(watches)
    assert [len(set(watch.asked)) for watch in watches] == [1] * len(watches), "the page itself and nothing more"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    found = tmp_path_factory.mktemp("page") / "story"
    tables.story(found)
    return found


@pytest.fixture(scope="module")
def page(opened, root):
    return opened(root)


@pytest.fixture(autouse=True)
def newest(page):
    page.reload()


def shown(page):
    return page.locator("section[data-snapshot]:visible")


def test_the_newest_snapshot_is_shown(page):
    expect(shown(page)).to_have_count(1)
    expect(shown(page)).to_have_attribute("data-snapshot", "8")


def test_a_click_on_a_snapshot_shows_what_it_is_made_of(page):
    page.locator("#timeline [data-key='3']").click()
    expect(shown(page)).to_have_attribute("data-snapshot", "3")
    expect(page.locator("#timeline [aria-pressed=true]")).to_have_attribute("data-key", "3")
    expect(page.locator("#code")).to_contain_text("at=3")


def test_a_click_on_a_file_tells_it_and_the_python_that_reads_it(page):
    shown(page).locator("[data-view=levels] [data-key$='data-14.parquet']").click()
    expect(page.locator("#said")).to_contain_text("29311 .. 50207")
    expect(page.locator("#code")).to_contain_text('files(at=8).filter(pl.col("file_name") == "data-14.parquet")')


def test_a_click_on_a_manifest_tells_it(page):
    shown(page).locator("[data-view=manifests] [data-key$='manifest-06']").click()
    expect(page.locator("#code")).to_contain_text("manifest-06")


def test_keys_alone_are_enough(page):
    marks = page.locator("#timeline [data-key]")
    for _ in range(40):
        page.keyboard.press("Tab")
        if marks.evaluate_all("marks => marks.includes(document.activeElement)"):
            break
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(shown(page)).to_have_attribute("data-snapshot", "3")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#timeline [aria-pressed=true]")).to_have_attribute("data-key", "4")


def test_every_box_has_a_role_and_a_name(page):
    boxes = page.locator("[data-key]")
    assert boxes.count() > 30
    assert all(boxes.evaluate_all("boxes => boxes.map(box => box.getAttribute('role') === 'button' && box.ariaLabel.length > 0 && box.tabIndex === 0)"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read(page, scheme):
    page.emulate_media(color_scheme=scheme)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
    assert len(look.words(page.locator("main"))) > 30
    assert look.pale(page.locator("main")) == []
    assert look.crossed(page.locator("main")) == []
    page.emulate_media(color_scheme="light")


def test_without_scripts_every_snapshot_is_shown(opened, root):
    expect(shown(opened(root, java_script_enabled=False))).to_have_count(8)


def test_names_are_text_whatever_they_hold(opened, tmp_path):
    table = tmp_path / "hostile"
    tables.hostile(table)
    page = opened(table)
    assert page.title() != "broken"
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    expect(page.get_by_text("onerror").first).to_be_visible()


def test_ten_thousand_files_are_one_page_that_answers(opened, tmp_path):
    table = tmp_path / "many"
    tables.many(table, 10_000)
    page = opened(table)
    boxes = shown(page).locator("[data-view=levels] [data-key]")
    assert 100 < boxes.count() <= 1500
    boxes.first.click()
    expect(page.locator("#code")).to_contain_text("files(at=2)")
