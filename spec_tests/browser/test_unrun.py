"""Notebooks that nobody runs or trusts, as after a clone: every widget in them is a picture."""

from __future__ import annotations

import shutil

import nbformat
import pytest

from spec_tests.notebooks.execute import NOTEBOOKS

VIEW = "application/vnd.jupyter.widget-view+json"
_LOADED = """shown => shown.map(output => [...output.querySelectorAll('img')].map(image => image.complete && image.naturalWidth > 99))"""

_TRUSTED = """[...window.jupyterapp.shell.currentWidget.context.model.cells].filter(cell => cell.outputs && cell.outputs.length).map(cell => cell.trusted)"""


def widgets(notebook):
    return sum(VIEW in output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", []))


def pictures(desk, path):
    """For each output that is a widget, whether its pictures are there; opened without trust and without a kernel."""
    shutil.copy(path, desk.lab.root)
    panel = desk.look_at(path.name)
    try:
        panel.locator(".jp-Notebook").wait_for()
        assert not any(desk.page.evaluate(_TRUSTED))
        desk.page.wait_for_load_state("networkidle")
        outputs = panel.locator(".jp-OutputArea-output:has(img), .jp-OutputArea-output:has(.jupyter-widgets)")
        return outputs.evaluate_all(_LOADED)
    finally:
        desk.close()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_every_widget_of_a_committed_notebook_is_a_picture(desk, path):
    expected = widgets(nbformat.read(path, as_version=4))
    assert pictures(desk, path) == [[True]] * expected


def test_a_widget_that_was_saved_is_a_picture(desk, tmp_path):
    """As above, of every view that there is, whether or not a notebook shows it."""
    from lakekit.draw.shapes import Drawing, Rect, Word
    from lakekit.notebook.pictured import Pictured

    class One(Pictured):
        def drawing(self):
            shapes = (Rect(x=5, y=5, width=300, height=20, color="added"), Word(x=5, y=40, text="one box"))
            return Drawing(width=400, height=60, shapes=shapes, told="one box")

        def as_html(self):
            return "<table><tr><td>one</td></tr></table>"

        def as_text(self):
            return "[one]"

    saved = nbformat.v4.new_code_cell("One()", execution_count=1)
    saved.outputs = [nbformat.v4.new_output("execute_result", One()._repr_mimebundle_(), execution_count=1)]
    nbformat.write(nbformat.v4.new_notebook(cells=[saved]), tmp_path / "saved.ipynb")
    assert widgets(nbformat.read(tmp_path / "saved.ipynb", as_version=4)) == 1
    assert pictures(desk, tmp_path / "saved.ipynb") == [[True]]
