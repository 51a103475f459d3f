"""Notebooks that nobody runs or trusts, as after a clone: every widget in them is a picture."""

from __future__ import annotations

import shutil

import nbformat
import pytest

import lakekit as lk
from lakekit.notebook.hexdump import Bytes
from lakekit.notebook.levels import Levels
from lakekit.notebook.manifests import Manifests
from lakekit.notebook.panels import Timeline
from spec_tests.notebooks.execute import NOTEBOOKS

VIEW = "application/vnd.jupyter.widget-view+json"
_LOADED = """shown => shown.map(output => [...output.querySelectorAll('img')].map(image => image.complete && image.naturalWidth > 99))"""

_TRUSTED = """[...window.jupyterapp.shell.currentWidget.context.model.cells].filter(cell => cell.outputs && cell.outputs.length).map(cell => cell.trusted)"""


def widgets(notebook):
    """How many outputs are widgets: they are, or were before the notebook was cleaned, views beside their pictures."""
    return sum(bool({VIEW, "image/png"} & set(output.get("data", {}))) for cell in notebook.cells for output in cell.get("outputs", []))


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


def test_every_view_that_was_saved_is_a_picture(desk, tmp_path, tables_path):
    """As above, of every view that there is, whether or not a notebook shows it."""
    table = lk.open(tables_path / "lookup_deduplicate_deletes")
    manifest = next(path for path in (tables_path / "lookup_deduplicate_deletes" / "manifest").iterdir() if "list" not in path.name)
    views = [Timeline(table), Manifests(table), Levels(table), table.browse(), Bytes(lk.hex(manifest))]
    cells = [nbformat.v4.new_code_cell(type(view).__name__, execution_count=at) for at, view in enumerate(views, 1)]
    for cell, view in zip(cells, views, strict=True):
        cell.outputs = [nbformat.v4.new_output("execute_result", view._repr_mimebundle_(), execution_count=cell.execution_count)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "saved.ipynb")
    assert pictures(desk, tmp_path / "saved.ipynb") == [[True]] * len(views)
