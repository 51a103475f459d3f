"""Tables that the reference engine wrote, opened and clicked: key tables and append tables, empty ones, odd keys, odd partitions, many buckets."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from spec_tests.browser import look, tables

TABLES = [
    "lookup_deduplicate_deletes",
    "files_formats_per_level",
    "bucket_cross_deduplicate",
    "bucket_postpone_waiting",
    "dedup_composite_key",
    "dedup_string_key",
    "types_key_times_parquet",
    "partition_special_values",
    "partition_default_name",
    "vectors_keyed_level_0",
    "scan_append",
    "history_tags",
    "empty_keyed",
    "empty_after_deletes",
    "old_0_8_2_key",
]


@pytest.fixture(scope="module")
def notebook(desk, page_of, tables_path):
    (desk.lab.root / "tables").symlink_to(tables_path)
    yield page_of("import lakekit as lk\nname = 'scan_append'", "t = lk.open('tables/' + name); browser = t.browse(); browser", "t")
    assert desk.watch.complaints == []


@pytest.mark.parametrize("name", TABLES)
def test_is_shown_and_its_files_are_clicked(notebook, name):
    notebook.tell(f"name = {name!r}")
    notebook.run(1)
    view = notebook.output(1)
    expect(view.get_by_text(name).first).to_be_visible()
    boxes = view.locator("[class*=lakekit-stage]").last.get_by_role("button")
    files = notebook.ask(
        "t.files().filter((pl.col('partition') == browser.levels.partition) & (pl.col('bucket') == browser.levels.bucket)).height", "import polars as pl"
    )
    expect(boxes.locator(":scope:not([title$=removed])")).to_have_count(files)
    if files:
        boxes.last.focus()
        notebook.page.keyboard.press("Enter")
        notebook.until("bool(browser.levels.selected) and browser.selected == browser.levels.selected", value=True)
        stored = notebook.ask("browser.frame().collect().height")
        assert stored == notebook.ask("t.files().filter(pl.col('file_name') == browser.selected)['row_count'].sum()")
    assert look.pale(view) == []
    assert look.covered(view) == []
    assert look.crossed(view) == []
    assert notebook.raised() == []


def test_names_are_text_whatever_they_hold(notebook, desk):
    """Not of the reference engine: a table whose names are markup, in the widgets and in the cards."""
    tables.hostile(desk.lab.root / "hostile")
    title = notebook.page.title()
    notebook.tell("name = '../hostile'")
    notebook.run(1, 2)
    view = notebook.output(1)
    boxes = view.locator("[class*=lakekit-stage]").last.get_by_role("button")
    expect(boxes).to_have_count(4)
    boxes.first.click()
    notebook.until("bool(browser.levels.selected)", value=True)
    notebook.tell("browser.manifests.selected = 'manifest-02'; browser.filter = name")
    expect(view.get_by_text("onerror").first).to_be_visible()
    for shown in (view, notebook.output(2)):
        expect(shown.get_by_text("onerror").first).to_be_visible()
        assert shown.locator("img, script").count() == 0
    assert notebook.page.title() == title
    assert notebook.raised() == []
