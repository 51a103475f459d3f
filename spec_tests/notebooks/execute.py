"""Runs notebooks. `python -m spec_tests.notebooks.execute [NAME …]` runs them, or those whose names begin so, and keeps what they show.

What is kept is what a reader sees unrun: outputs without widgets' state or views (their pictures and tables stay), without what warnings say to a terminal,
without the path of the checkout they were run in.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SECONDS = 120
VIEW = "application/vnd.jupyter.widget-view+json"


def run(path: Path) -> Any:
    """The notebook after a run from top to bottom, with all it showed. Raises `CellExecutionError` with the cell that failed."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=SECONDS, kernel_name="python3", store_widget_state=False, record_timing=False, resources={"metadata": {"path": str(FOLDER)}}
    ).execute()
    return notebook


def kept(notebook: Any) -> Any:
    """What of a run is committed."""
    for number, cell in enumerate(notebook.cells):
        cell.metadata, cell.id = {}, f"cell-{number:02}"
        if cell.cell_type == "code":
            shown = [output for output in cell.outputs if output.get("name") != "stderr" and output.get("data") != {}]  # a bar of progress leaves an empty one
            cell.outputs = _joined([_portable(output) for output in shown])
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def _joined(outputs: list[Any]) -> list[Any]:
    """What a cell printed in one piece: into how many it falls is chance."""
    found: list[Any] = []
    for output in outputs:
        if found and output.output_type == found[-1].output_type == "stream":
            found[-1].text += output.text
        else:
            found.append(output)
    return found


def _portable(value: Any) -> Any:
    """The same output wherever the checkout is, and whoever made the widget."""
    if isinstance(value, str):
        return value.replace(str(ROOT), "…")
    if isinstance(value, list):
        return [_portable(part) for part in value]
    if isinstance(value, dict):
        if VIEW in value and "image/png" in value:
            del value[VIEW]  # the model is gone with its kernel: what is left is the picture
        for key in value:
            value[key] = _portable(value[key])
    return value


def main(beginnings: list[str]) -> None:
    """Runs notebooks and writes them back."""
    for path in NOTEBOOKS:
        if not beginnings or path.name.startswith(tuple(beginnings)):
            nbformat.write(kept(run(path)), path)
            print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main(sys.argv[1:])
