"""What an import loads, and where imports hide."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

from spec_tests.house.source import ROOT, functions, modules, name, tree

GUESTS = "IPython PIL cloudpickle datasketches fastavro hypothesis importlib.metadata ipywidgets numpy obstore pandas polars psycopg pyarrow pyroaring pyspark"


def test_importing_lakekit_loads_no_guest():
    asked = f"import sys, json, lakekit; print(json.dumps([g for g in {GUESTS.split()!r} if g in sys.modules]))"
    found = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, cwd=ROOT)
    assert json.loads(found.stdout) == []


def test_no_import_hides_in_a_function():
    hidden = []
    for path in modules():
        for function in functions(tree(path)):
            hidden += [f"{name(path)}:{node.lineno}" for node in ast.walk(function) if isinstance(node, (ast.Import, ast.ImportFrom))]
    assert sorted(set(hidden)) == []


def test_modules_loaded_by_name_are_counted():
    """By name, on first use: the public names, and what the registry lists. Nothing else."""
    found = set()
    for path in modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if called in ("import_module", "__import__"):
                    found.add(name(path))
    assert found <= {"lakekit/__init__.py", "lakekit/registry.py"}
