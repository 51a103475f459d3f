"""The hex view, by hand: bytes are clicked and reached by keys, fields are listed, a block is opened, and it can be read by day and by night."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from spec_tests.browser import look

CELLS = [
    """import lakekit as lk
from lakekit.notebook.hexdump import Bytes
from lakekit.testing.fixtures import fixtures
folder = fixtures() / "flights" / "table" / "manifest"
h = lk.hex(min(path for path in folder.iterdir() if path.name.startswith("manifest-") and "list" not in path.name))
w = Bytes(h)""",
    "w",
    "h",
]


@pytest.fixture(scope="module")
def notebook(desk, page_of):
    yield page_of(*CELLS)
    assert desk.watch.complaints == []


@pytest.fixture
def view(notebook):
    notebook.tell("w.close_block(); w.offset = -1; w.page = 0")
    found = notebook.output(1)
    expect(found.locator("[class*=lakekit-stage] button")).to_have_count(512)
    expect(found.locator("[class*=lakekit-stage] button.mod-active")).to_have_count(0)
    return found


def byte(view, number):
    return view.locator("[class*=lakekit-stage] button").nth(number)


def test_a_click_on_a_byte_tells_its_field(notebook, view):
    byte(view, 5).click()
    notebook.until("w.selected", "metadata key length")
    expect(view.get_by_role("cell", name="metadata key length", exact=True)).to_be_visible()
    expect(byte(view, 5)).to_have_attribute("title", "byte 5: metadata key length 11")
    byte(view, 2).click()
    notebook.until("w.selected", "magic")
    assert notebook.ask("eval(w.code).value") == b"Obj\x01"


def test_bytes_stand_in_lines_of_32(notebook, view):
    places = [byte(view, number).bounding_box() for number in (0, 1, 31, 32, 511)]
    assert places[0]["y"] == places[1]["y"] == places[2]["y"] < places[3]["y"] < places[4]["y"]
    assert places[0]["x"] == pytest.approx(places[3]["x"], abs=1)
    assert places[2]["x"] == pytest.approx(places[4]["x"], abs=1)
    assert places[1]["x"] >= places[0]["x"] + places[0]["width"] - 1
    assert places[2]["x"] + places[2]["width"] <= view.bounding_box()["x"] + view.bounding_box()["width"] + 1


def test_keys_alone_reach_bytes_and_fields(notebook, view):
    byte(view, 4).focus()
    notebook.page.keyboard.press("Enter")
    notebook.until("w.offset", 4)
    notebook.page.keyboard.press("Tab")
    expect(byte(view, 5)).to_be_focused()
    notebook.page.keyboard.press("Enter")
    notebook.until("w.offset", 5)
    view.get_by_role("button", name="field ▶").focus()
    notebook.page.keyboard.press("Enter")
    notebook.until("w.selected", "metadata key")


def test_a_block_is_opened_and_closed(notebook, view):
    notebook.tell("w.page = h.opens[0] // 512 * 512; w.offset = h.opens[0]")
    view.get_by_role("button", name="open", exact=True).click()
    notebook.until("w.code.endswith(f'.open({h.opens[0]})')", True)
    expect(byte(view, 0)).to_have_attribute("title", "byte 0: [0]._VERSION 2")
    byte(view, 0).click()
    notebook.until("w.selected", "[0]._VERSION")
    view.get_by_role("button", name="close", exact=True).click()
    notebook.until("w.selected", "block")


def test_it_is_what_hex_shows(notebook):
    expect(notebook.output(2).locator("[class*=lakekit-stage] button")).to_have_count(512)


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_it_can_be_read_by_day_and_by_night(desk, notebook, view, theme):
    desk.theme(theme)
    try:
        byte(view, 20).click()
        notebook.until("w.selected", "avro.schema")
        assert look.pale(view) == []
        assert look.covered(view) == []
        assert look.crossed(view) == []
    finally:
        desk.theme("Light")
