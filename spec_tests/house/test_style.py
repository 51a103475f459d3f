"""Style is a test: ruff, mypy and the import contract run here, so that a review can talk about design."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
LINTER = str(Path(sys.executable).with_name("lint-imports"))


def run(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize("arguments", [("check",), ("format", "--check")], ids=["check", "format"])
def test_ruff(arguments):
    found = run(sys.executable, "-m", "ruff", *arguments, "lakekit", "spec_tests")
    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-2000:]


def test_mypy_strict(type_checked):
    assert [line for line in type_checked if line.startswith("lakekit/")] == []


def test_imports_point_down():
    found = run(LINTER, "--no-cache")
    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-2000:]


def test_the_import_contract_bites(tmp_path):
    """A stray module, an upward import, the machine, Polars and a guest where none may be: each breaks the contract that forbids it."""
    shutil.copytree(ROOT / "lakekit", tmp_path / "lakekit", ignore=shutil.ignore_patterns("__pycache__", "_fixtures"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "lakekit" / "utils.py").write_text("")
    errors = tmp_path / "lakekit" / "errors.py"
    errors.write_text(errors.read_text() + "\nimport os\nimport polars\nimport sqlglot\nimport lakekit.types\n")
    found = run(LINTER, "--no-cache", cwd=tmp_path)
    assert found.returncode == 1, found.stdout[-3000:] + found.stderr[-3000:]
    assert found.stdout.count("BROKEN") == 4, found.stdout[-6000:]
    assert "lakekit.utils" in found.stdout
