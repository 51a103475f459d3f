"""The one widget that every view is made of: its boxes are clicked, reached by keys, and as many as a bucket has files."""

from __future__ import annotations

from functools import partial

import pytest
from playwright.sync_api import expect

from spec_tests.browser.notebook import fastest
from spec_tests.crowd import times_alone

STAGE = """
import ipywidgets
from lakekit.notebook.panels import Canvas, CanvasBox
stage = Canvas()
def spots(count):
    placed = {"width": 1 / count, "top": 8, "height": 20, "color": "#1b9e77"}
    return [CanvasBox(key=f"f{n}", name=f"file {n}", hint=f"hint of {n}", left=n / count, **placed) for n in range(count)]
"""
HOSTILE = """<img src=x onerror="document.body.dataset.broken=1"> & "'"""
EMPTY, HUNDRED, THOUSAND = 2, 3, 4
"""Cells that only show something, to be timed."""


@pytest.fixture(scope="module")
def notebook(page_of):
    many = "many = Canvas(); many.show(spots({}), height=40); many".format
    return page_of(STAGE, "stage", "ipywidgets.VBox([ipywidgets.ToggleButtons(options=[])])", many(100), many(1000))


@pytest.fixture(autouse=True)
def nine_boxes(notebook):
    notebook.tell("stage.show(spots(9), height=40); stage.selected_key = ''")
    expect(notebook.output(1).get_by_role("button")).to_have_count(9)
    expect(notebook.output(1).locator("button.mod-active")).to_have_count(0)


def box(notebook, name):
    return notebook.output(1).get_by_role("button", name=name, exact=True)


def test_a_click_reaches_python(notebook):
    expect(box(notebook, "file 3")).to_have_attribute("title", "hint of 3")
    box(notebook, "file 3").click()
    notebook.until("stage.selected_key", "f3")
    box(notebook, "file 8").click()
    notebook.until("stage.selected_key", "f8")
    expect(notebook.output(1).locator("button.mod-active")).to_have_count(1)


def test_python_chooses_a_box(notebook):
    notebook.tell("stage.selected_key = 'f5'")
    expect(notebook.output(1).locator("button.mod-active")).to_have_attribute("title", "hint of 5")
    notebook.tell("stage.selected_key = ''")
    expect(notebook.output(1).locator("button.mod-active")).to_have_count(0)


def test_tab_reaches_each_box_and_enter_chooses_it(notebook):
    box(notebook, "file 0").focus()
    for number in range(9):
        expect(box(notebook, f"file {number}")).to_be_focused()
        notebook.page.keyboard.press("Enter")
        notebook.until("stage.selected_key", f"f{number}")
        notebook.page.keyboard.press("Tab")


def test_boxes_stand_where_they_were_put(notebook):
    stage = notebook.output(1).locator(".lakekit-stage-0").bounding_box()
    for number in range(9):
        found = box(notebook, f"file {number}").bounding_box()
        assert abs(found["x"] - stage["x"] - stage["width"] * number / 9) < 1
        assert abs(found["width"] - (stage["width"] / 9 - 1)) < 1
        assert (found["y"] - stage["y"], found["height"]) == (8, 20)


def test_what_was_chosen_stays_while_boxes_come_and_go(notebook):
    box(notebook, "file 3").click()
    notebook.until("stage.selected_key", "f3")
    notebook.tell("stage.show(spots(5), height=40)")
    expect(notebook.output(1).get_by_role("button")).to_have_count(5)
    expect(notebook.output(1).locator("button.mod-active")).to_have_attribute("title", "hint of 3")
    notebook.tell("stage.show(spots(2), height=40)")
    expect(notebook.output(1).locator("button.mod-active")).to_have_count(0)
    assert not notebook.ask("stage.selected_key")


def test_names_and_hints_are_text_whatever_they_hold(notebook):
    notebook.tell(f"from dataclasses import replace; stage.show([replace(spots(1)[0], name={HOSTILE!r}, hint={HOSTILE!r})], height=40)")
    expect(box(notebook, HOSTILE)).to_have_attribute("title", HOSTILE)
    assert notebook.output(1).locator("img, script").count() == 0
    assert notebook.page.evaluate("document.body.dataset.broken") is None


def test_a_thousand_boxes_are_drawn_nearly_as_fast_as_none(notebook):
    asked = ((EMPTY, ".widget-toggle-buttons", 1), (HUNDRED, "button", 100), (THOUSAND, "button", 1000))
    timed = [partial(notebook.seconds, *one) for one in asked]
    more = 0.3 * times_alone()
    empty, hundred, thousand = fastest(10, timed, lambda empty, hundred, thousand: max(hundred, thousand) <= 1.3 * empty + more)
    print(f"\nempty {empty:.3f} s, 100 boxes {hundred:.3f} s, 1,000 boxes {thousand:.3f} s")
    assert max(hundred, thousand) <= 1.3 * empty + more


def test_the_server_dropped_nothing(desk):
    assert "rate exceeded" not in desk.lab.log.read_text(encoding="utf-8")
