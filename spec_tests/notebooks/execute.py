"""Runs the notebooks; `python -m spec_tests.notebooks.execute` runs them all and keeps what they show.

What is kept is what a reader sees unrun: outputs without widget state, and without the path of the checkout they were run in.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SECONDS = 120


def run(path: Path) -> Any:
    """The notebook after a run from top to bottom. Raises `CellExecutionError` with the cell that failed."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": str(ROOT / "notebooks")}}).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata = {}
            cell.outputs = [_portable(output) for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def _portable(value: Any) -> Any:
    """The same output wherever the checkout is."""
    if isinstance(value, str):
        return value.replace(str(ROOT), "…")
    if isinstance(value, list):
        return [_portable(part) for part in value]
    if isinstance(value, dict):
        for key in value:
            value[key] = _portable(value[key])
    return value


def main() -> None:
    """Runs every notebook and writes it back."""
    for path in NOTEBOOKS:
        nbformat.write(run(path), path)


if __name__ == "__main__":
    main()
