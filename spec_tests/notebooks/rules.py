"""What holds for every notebook in `notebooks/`, as one function that says what is wrong with one.

name       NN_words.ipynb
begins     with a Markdown cell: a title, what it shows, the `pip install 'lakekit[…]'` that brings what it imports
ends       with a Markdown cell `## Where to go next` that links or names something
cells      Python alone, no magics and no shell; imports of the standard library, lakekit and the extras that the first cell names
run        every code cell once, from the top; no errors, nothing on stderr
outputs    one picture at least; a widget's beside a PNG; HTML without scripts, handlers and style blocks; no path of a machine
metadata   the kernel and the language: no widgets' state
size       at most SIZE_BYTES
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from typing import TYPE_CHECKING, Any

from spec_tests.notebooks.execute import ROOT, VIEW

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE_BYTES = 1 << 20
NAME = re.compile(r"\d\d_[a-z0-9]+(_[a-z0-9]+)*\.ipynb")
NEXT = "## Where to go next"
EXTRAS = re.compile(r"pip install '?lakekit\[([a-z,]+)\]")
PATHS = re.compile(r"(?<![\w.…/])(/(?:home|root|tmp|private|Users|work|opt|var|mnt)/|[A-Z]:\\)|file://")
LIVE = re.compile(r"<(script|style|iframe|object|embed)\b|\son[a-z]+\s*=|javascript:", re.IGNORECASE)
POLARS_STYLE = re.compile(r"<style>\s*\.dataframe [^<]*</style>")
"""What Polars puts before each of its tables; hosts that strip it lose nothing."""
METADATA = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": {"name": "python"}}
MODULES = {"pillow": "PIL", "jupyterlab": "jupyterlab", "pymysql": "pymysql"}
"""Distributions whose module has another name."""


def wrong(name: str, size_bytes: int, notebook: Any) -> list[str]:
    """What is wrong with a notebook, a line each; empty when nothing is."""
    found = [] if NAME.fullmatch(name) else [f"{name} is no NN_words.ipynb"]
    if size_bytes > SIZE_BYTES:
        found.append(f"{size_bytes} bytes are more than {SIZE_BYTES}: show less, or smaller")
    if dict(notebook.metadata) != METADATA:
        found.append(f"metadata is {dict(notebook.metadata)}")
    return [*found, *_frame(notebook.cells), *_run(notebook.cells), *_code(notebook.cells), *_outputs(notebook.cells)]


def _frame(cells: list[Any]) -> Iterator[str]:
    first, last = (cells[0], cells[-1]) if cells else (None, None)
    if first is None or first.cell_type != "markdown" or not re.match(r"# .+\n\n\S", first.source):
        yield "does not begin with a title and what it shows"
    elif not EXTRAS.search(first.source):
        yield "its first cell does not say `pip install 'lakekit[tutorials]'`"
    if last is None or last.cell_type != "markdown" or not last.source.startswith(NEXT):
        yield f"does not end with a cell `{NEXT}`"
    elif not re.search(r"\[.+\]\(.+\)|`.+`", last.source):
        yield "its last cell names nothing to go to"


def _run(cells: list[Any]) -> Iterator[str]:
    code = [cell for cell in cells if cell.cell_type == "code"]
    if [cell.execution_count for cell in code] != list(range(1, len(code) + 1)):
        yield "not executed from top to bottom"
    if sum(bool(cell.outputs) for cell in code) < len(code) / 2:
        yield "most cells show nothing"
    for output in _all(code):
        if output.output_type == "error" or output.get("name") == "stderr":
            yield f"a cell ends in {output.get('ename', 'words on stderr')}"


def _code(cells: list[Any]) -> Iterator[str]:
    asked = EXTRAS.search(cells[0].source) if cells else None
    allowed = {*sys.stdlib_module_names, "lakekit", *_modules(asked.group(1).split(",") if asked else [])}
    for cell in cells:
        if cell.cell_type == "code":
            try:
                tree = ast.parse(cell.source)
            except SyntaxError as error:
                yield f"no Python: {error.text!r}"
                continue
            named = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
            named |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
            yield from (f"imports {name}, which its extras do not bring" for name in sorted(named) if name.partition(".")[0] not in allowed)
        if PATHS.search(cell.source):
            yield f"names a path of a machine: {PATHS.search(cell.source)}"


def _outputs(cells: list[Any]) -> Iterator[str]:
    if not any("image/png" in output.get("data", {}) for output in _all(cells)):
        yield "shows no picture"
    for output in _all(cells):
        data = output.get("data", {})
        if VIEW in data and "image/png" not in data:
            yield "a widget without a picture"
        if live := LIVE.search(POLARS_STYLE.sub("", data.get("text/html", ""))):
            yield f"HTML with {live.group().strip()!r}"
        for text in (output.get("text", ""), *(value for kind, value in data.items() if kind.startswith("text/"))):
            if found := PATHS.search(re.sub(r"base64,[A-Za-z0-9+/=]+", "", text)):
                yield f"shows a path of a machine: {text[found.start() : found.end() + 40]!r}"


def _all(cells: list[Any]) -> Iterator[Any]:
    for cell in cells:
        yield from cell.get("outputs", [])


def _modules(extras: list[str]) -> set[str]:
    """The modules that a plain installation and some extras bring."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found, asked = list(project["dependencies"]), list(extras)
    while asked:
        for line in project["optional-dependencies"].get(asked.pop(), []):
            inner = re.match(r"lakekit\[([a-z,]+)\]", line)
            asked += inner.group(1).split(",") if inner else []
            found += [] if inner else [line]
    names = [re.split(r"[\[<>=!~ ]", line, maxsplit=1)[0].lower() for line in found]
    return {MODULES.get(name, name.replace("-", "_")) for name in names}
