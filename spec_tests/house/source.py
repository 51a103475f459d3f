"""The sources, as house tests look at them."""

from __future__ import annotations

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "lakekit"


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def modules(*folders: str) -> list[Path]:
    """The Python files of the package, or of some of its folders."""
    places = [PACKAGE / folder for folder in folders] or [PACKAGE]
    return sorted(path for place in places for path in place.rglob("*.py") if "_fixtures" not in path.parts)


def functions(module: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a module, methods and inner ones too."""
    return [node for node in ast.walk(module) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def tracked() -> list[Path]:
    """Every file under version control; in a tree without one, every file that is not a product."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode == 0:
        return sorted(path for name in listed.stdout.decode().split("\0") if name and (path := ROOT / name).is_file())
    products = {".git", ".venv", ".venvs", "__pycache__", "target", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".import_linter_cache"}
    return sorted(path for path in ROOT.rglob("*") if path.is_file() and not products & set(path.relative_to(ROOT).parts))


def name(path: Path) -> str:
    """The path within the checkout."""
    return path.relative_to(ROOT).as_posix()
