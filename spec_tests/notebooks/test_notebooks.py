"""Every notebook runs top to bottom, and is committed as it ran: with what it shows, without state of widgets or of a machine."""

from __future__ import annotations

import base64
import copy
import re
import time
from io import BytesIO
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from PIL import Image

from spec_tests.crowd import times_alone
from spec_tests.longer import some
from spec_tests.notebooks.execute import NOTEBOOKS, VIEW, kept, run
from spec_tests.notebooks.rules import NEXT, wrong

if TYPE_CHECKING:
    from pathlib import Path

PICTURE = re.compile(r"data:image/png;base64,([A-Za-z0-9+/=]+)")
TIMES = re.compile(r"\b\d+([.,]\d+)? ?(ms|s|µs|us)\b")
CHANCE = re.compile(
    r"\b[0-9a-f]{8}(-[0-9a-f]{1,12}){1,4}\b|\b20(2[5-9]|[3-9]\d)-\d\d-\d\d[ T]\d\d:\d\d(:\d\d([.]\d+)?)?(Z \.\. \d\d:\d\d:\d\d(?=Z))?|\b\d\d:\d\d:\d\dZ"
)
"""Ids that a writer draws, cut short ones too, and the time it is."""


def pixels(code: str) -> str:
    """A picture as far as another font or compressor would draw the same."""
    return "picture {} x {}".format(*Image.open(BytesIO(base64.b64decode(code))).size)


def _alike(text: str) -> str:
    return TIMES.sub("a while", CHANCE.sub("by chance", text))


def comparable(output: Any) -> Any:
    """What an output says, but for how long something took, what was drawn by chance, and how a picture was compressed."""
    data = {"text/plain": output["text"]} if "text" in output else dict(output["data"])
    shown = {}
    for kind, value in data.items():
        shown[kind] = pixels(value) if kind == "image/png" else _alike(PICTURE.sub(lambda found: pixels(found.group(1)), value))
    return shown


def shown(notebook: Any) -> list[Any]:
    """What each cell shows."""
    return [[comparable(output) for output in cell.outputs] for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.long
@pytest.mark.parametrize("path", some(NOTEBOOKS, len(NOTEBOOKS)), ids=[path.stem for path in NOTEBOOKS])
def test_runs_in_a_minute_and_shows_what_is_committed(path: Path) -> None:
    began = time.monotonic()
    fresh = run(path)
    assert time.monotonic() - began < 60 * times_alone()
    widgets = [output.data for cell in fresh.cells for output in cell.get("outputs", []) if VIEW in output.get("data", {})]
    assert all("image/png" in data and "text/plain" in data for data in widgets), "a widget without a picture"
    assert shown(kept(fresh)) == shown(nbformat.read(path, as_version=4)), "python -m spec_tests.notebooks.execute renews it"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_follows_the_rules(path: Path) -> None:
    assert wrong(path.name, path.stat().st_size, nbformat.read(path, as_version=4)) == []


# ---- the rules can be broken ----------------------------------------------------------------------------------------------------------------------


def right() -> Any:
    """A small notebook that follows them."""
    text = nbformat.v4.new_output("stream", text="some text")
    picture = nbformat.v4.new_output("display_data", data={"image/png": "00"})
    cells = [
        nbformat.v4.new_markdown_cell("# A title\n\nWhat it shows. `pip install 'lakekit[tutorials]'`"),
        nbformat.v4.new_code_cell("import polars\nimport lakekit", execution_count=1, outputs=[picture, text]),
        nbformat.v4.new_markdown_cell(f"{NEXT}\n\n[more](02_more.ipynb)"),
    ]
    return kept(nbformat.v4.new_notebook(cells=cells))


def said(change: Any, name: str = "01_right.ipynb", size_bytes: int = 1000) -> str:
    notebook = copy.deepcopy(right())
    change(notebook)
    return " | ".join(wrong(name, size_bytes, notebook))


def outputs(*found: Any) -> Any:
    return lambda notebook: notebook.cells[1].outputs.extend(nbformat.from_dict(output) for output in found)


def data(**kinds: str) -> dict[str, Any]:
    return {"output_type": "display_data", "metadata": {}, "data": {kind.replace("_", "/"): value for kind, value in kinds.items()}}


def set_source(number: int, source: str) -> Any:
    return lambda notebook: notebook.cells[number].__setitem__("source", source)


def test_a_notebook_that_follows_the_rules_is_right() -> None:
    assert said(lambda _: None) == ""


@pytest.mark.parametrize(
    "change, expected",
    [
        (set_source(0, "# A title"), "does not begin with a title and what it shows"),
        (set_source(0, "# A title\n\nWhat it shows."), "does not say `pip install"),
        (set_source(2, "The end"), "does not end"),
        (lambda notebook: notebook.cells[1].outputs.pop(0), "shows no picture"),
        (set_source(2, f"{NEXT}\n\nHome."), "names nothing"),
        (set_source(1, "import obstore"), "imports obstore"),
        (set_source(1, "from pyspark.sql import Row"), "imports pyspark.sql"),
        (set_source(1, "!pip list"), "no Python"),
        (set_source(1, "%time 1"), "no Python"),
        (set_source(1, "open('/home/me/x')"), "names a path"),
        (lambda n: n.metadata.update(widgets={}), "metadata is"),
        (lambda n: n.cells[1].update(execution_count=7), "not executed"),
        (lambda n: n.cells[1].update(outputs=[]), "most cells show nothing"),
        (outputs({"output_type": "error", "ename": "KeyError", "evalue": "", "traceback": []}), "ends in KeyError"),
        (outputs({"output_type": "stream", "name": "stderr", "text": "!"}), "stderr"),
        (outputs({"output_type": "display_data", "metadata": {}, "data": {VIEW: {"model_id": "1"}}}), "a widget without a picture"),
        (outputs(data(text_html="<script>1</script>")), "HTML with '<script'"),
        (outputs(data(text_html="<b onclick='x'>")), "HTML with 'onclick='"),
        (outputs(data(text_html="<style>b{}</style>")), "HTML with '<style'"),
        (outputs(data(text_plain="at /tmp/x")), "shows a path"),
        (outputs(data(text_html="C:\\Users")), "shows a path"),
    ],
)
def test_what_breaks_a_rule_is_said(change: Any, expected: str) -> None:
    assert expected in said(change)


def test_names_and_sizes_have_bounds() -> None:
    assert "NN_words" in said(lambda _: None, name="first table.ipynb")
    assert "bytes are more" in said(lambda _: None, size_bytes=10 << 20)


def test_a_run_is_kept_without_the_checkout_and_the_widgets_of_its_kernel() -> None:
    notebook = right()
    output = {"output_type": "display_data", "metadata": {}, "data": {VIEW: {"model_id": "1"}, "image/png": "00", "text/plain": str(NOTEBOOKS[0])}}
    outputs(output, {"output_type": "stream", "name": "stderr", "text": "!"})(notebook)
    notebook.metadata["widgets"] = {"state": {}}
    found = kept(notebook)
    assert "widgets" not in found.metadata
    assert found.cells[1].outputs[2:] == [
        {"output_type": "display_data", "metadata": {}, "data": {"image/png": "00", "text/plain": f"…/notebooks/{NOTEBOOKS[0].name}"}}
    ]


def test_what_a_cell_prints_is_one_output() -> None:
    notebook = right()
    outputs(*({"output_type": "stream", "name": "stdout", "text": text} for text in ("a\n", "b\n")))(notebook)
    assert [output.text for output in kept(notebook).cells[1].outputs[1:]] == ["some texta\nb\n"]


def test_other_extras_bring_other_imports() -> None:
    def change(notebook: Any) -> None:
        notebook.cells[0].source = "# A title\n\nWhat it shows. `pip install 'lakekit[tutorials,spark]'`"
        notebook.cells[1].source = "import pyspark, ipywidgets"

    assert said(change) == ""
