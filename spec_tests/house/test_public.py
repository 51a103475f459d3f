"""The public names: one list, loaded late, typed, documented, and under version control."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import lakekit
from spec_tests.house.public import listing
from spec_tests.house.source import PACKAGE, ROOT, tree


def test_signatures_are_those_under_version_control():
    kept = Path(__file__).with_name("public_api.txt").read_text(encoding="utf-8")
    assert listing() == kept, "if the change is meant: python -m spec_tests.house.public > spec_tests/house/public_api.txt, and a line in CHANGELOG.md"


def test_typed_names_are_the_loaded_ones():
    typed = {
        alias.asname
        for block in tree(PACKAGE / "__init__.py").body
        if isinstance(block, ast.If)
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }
    assert typed == set(dir(lakekit)) - {"__version__"}


def test_every_public_name_loads_and_says_what_it_is():
    for name in dir(lakekit):
        found = getattr(lakekit, name)
        if name == "__version__":
            continue
        text = inspect.getdoc(found)
        assert text, f"lakekit.{name} has no docstring"
        assert text.splitlines()[0].rstrip().endswith((".", ":")), f"lakekit.{name}: its first line is a sentence"
        if inspect.isclass(found):
            own = [value for key, value in vars(found).items() if not key.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))]
            assert all(inspect.getdoc(value) for value in own), f"a member of lakekit.{name} has no docstring"


def test_a_star_import_shadows_nothing():
    space: dict[str, object] = {}
    exec("from lakekit import *", space)
    assert "open" not in space
    assert "hex" not in space
    assert "Corrupt" in space


@pytest.mark.long
def test_options_stays_a_function_when_the_package_of_that_name_is_loaded():
    code = "import lakekit.options.features, lakekit as lk; assert callable(lk.options) and callable(lk.features); lk.nothing"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert "AttributeError: module 'lakekit' has no attribute 'nothing'" in found.stderr
