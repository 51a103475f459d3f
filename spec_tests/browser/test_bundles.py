"""Why the HTML of our widgets begins with the picture: what JupyterLab shows of an output that nobody trusts or runs, and what nbconvert makes of it."""

from __future__ import annotations

import re

import nbconvert
import nbformat
import pytest

from lakekit.draw.png import to_png
from lakekit.draw.shapes import Drawing, Rect
from lakekit.notebook.panels import WIDGET_VIEW_MIME, PictureWidget


class One(PictureWidget):
    """A widget of ours."""

    def drawing(self):
        return Drawing(width=300, height=40, shapes=(Rect(x=5, y=5, width=290, height=30, color="added"),), description="one box")

    def as_html(self):
        return "<table><tbody><tr><td>one cell</td></tr></tbody></table>"

    def as_text(self):
        return "[one]"


OURS = {WIDGET_VIEW_MIME, "image/png", "text/html", "text/plain"}
KEPT = {
    "ours": (OURS, True, True),
    "picture and text": (OURS - {"text/html"}, True, False),
    "table without picture": (OURS, False, True),
}
"""Which parts of the bundle are left, and whether a picture and a table are seen; the last with a table that does not begin with the picture."""


def notebook(name):
    one = One()
    bundle = {kind: data for kind, data in one._repr_mimebundle_().items() if kind in KEPT[name][0]}
    if name == "table without picture":
        bundle["text/html"] = one.as_html()
    cell = nbformat.v4.new_code_cell("One()", execution_count=1)
    cell.outputs = [nbformat.v4.new_output("execute_result", bundle, execution_count=1)]
    return nbformat.v4.new_notebook(cells=[cell])


@pytest.mark.parametrize("name", KEPT)
def test_what_is_seen_of_a_notebook_that_nobody_trusts(desk, name):
    path = f"{re.sub(' ', '-', name)}.ipynb"
    nbformat.write(notebook(name), desk.lab.root / path)
    panel = desk.look_at(path)
    try:
        panel.locator(".jp-OutputArea-output").first.wait_for()
        desk.page.wait_for_load_state("networkidle")
        loaded = panel.locator(".jp-OutputArea-output img").evaluate_all("all => all.map(one => one.complete && one.naturalWidth === 600)")
        tables = panel.locator(".jp-OutputArea-output table").count()
    finally:
        desk.close()
    assert (loaded, tables) == ([True] * KEPT[name][1], int(KEPT[name][2]))


@pytest.mark.parametrize("name", KEPT)
def test_what_nbconvert_makes_of_it(name):
    page, _ = nbconvert.HTMLExporter(template_name="basic").from_notebook_node(notebook(name))
    assert (len(re.findall(r'<img[^>]* src="data:image/png;base64,', page)), page.count("<table")) == (int(KEPT[name][1]), int(KEPT[name][2]))


def test_a_widget_s_picture_is_its_drawing():
    assert One().picture() == to_png(One().drawing())
