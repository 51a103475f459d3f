"""Every notebook runs top to bottom, and is committed as it ran: with what it shows, without state of widgets or of a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import nbformat
import pytest

from spec_tests.notebooks.execute import NOTEBOOKS, run

if TYPE_CHECKING:
    from pathlib import Path


def shown(notebook: Any) -> list[list[str]]:
    """What each cell shows, as text."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [[output["text"] if "text" in output else output["data"]["text/plain"] for output in cell.outputs] for cell in cells]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_runs_and_shows_what_is_committed(path: Path) -> None:
    assert shown(run(path)) == shown(nbformat.read(path, as_version=4))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_is_committed_executed_and_clean(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert "widgets" not in notebook.metadata
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert all(output.output_type != "error" for cell in cells for output in cell.outputs)
    assert sum(bool(cell.outputs) for cell in cells) >= len(cells) // 2
