"""What an import loads, and where imports hide."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from shutil import copytree

import pytest

from lakekit import maintenance
from spec_tests.house.source import PACKAGE, ROOT, functions, modules, name, tree

GUESTS = "IPython PIL cloudpickle datasketches fastavro hypothesis importlib.metadata ipywidgets numpy obstore pandas polars psycopg pyarrow pyroaring pyspark"


def test_importing_lakekit_loads_no_guest():
    asked = f"import sys, json, lakekit; print(json.dumps([g for g in {GUESTS.split()!r} if g in sys.modules]))"
    found = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, cwd=ROOT)
    assert json.loads(found.stdout) == []


WITHOUT_EXTRAS = """
import importlib, json, pkgutil, sys
class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {extras!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, NotInstalled())
import lakekit
failures = []
for module in pkgutil.walk_packages(lakekit.__path__, "lakekit.", onerror=lambda name: None):
    try:
        importlib.import_module(module.name)
    except (ModuleNotFoundError, lakekit.Unsupported):
        failures.append(module.name)
print(json.dumps(failures))
"""
EXTRAS = tuple("IPython PIL datasketches duckdb fastavro hypothesis ipywidgets obstore pandas psycopg pymysql pyspark thrift traitlets".split())  # noqa: SIM905 - a line is read faster than a list
NEED_EXTRAS = {
    *("lakekit.catalog.dialects.mysql", "lakekit.catalog.dialects.postgresql", "lakekit.catalog.hive_client", "lakekit.catalog.metastores.hive"),
    *("lakekit.draw.png", "lakekit.lsm.aggregates.sketches", "lakekit.spark", "lakekit.storage.object_store", "lakekit.testing.strategies"),
}
"""The modules that an extra brings to life; those of `lakekit.notebook` too."""


def test_a_module_that_needs_an_extra_is_imported_by_no_other():
    code = WITHOUT_EXTRAS.format(extras=EXTRAS)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    failures = {module for module in json.loads(ran.stdout) if not module.startswith("lakekit.notebook.")}
    assert failures == NEED_EXTRAS


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["compact", "--help"], ["conformance", "--help"], []], ids=" ".join)
def test_the_shell_says_what_it_is_without_the_libraries_of_its_verbs(words):
    """The verbs load them, and all of lakekit that reads and writes."""
    code = f"import sys\nfrom lakekit.cli.main import main\ntry:\n    main({words!r})\nexcept SystemExit:\n    pass\nprint(*sys.modules, sep='|')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(ran.stdout.splitlines()[-1].split("|"))
    assert (
        loaded & {"numpy", "pandas", "polars", "pyarrow", "lakekit.catalog", "lakekit.cli.inspection", "lakekit.format", "lakekit.read", "lakekit.table"}
        == set()
    )


LOADED = "import sys\nfrom lakekit.cli.main import main\nsys.argv[1:] = {words!r}\nmain()\nprint(*sys.modules, sep='|')"
CATALOG = "catalog.catalog catalog.catalog_core catalog.connection catalog.identifier catalog.metastore catalog.session"
QUERY = """
expressions.dialect expressions.parser expressions.scope expressions.typed_expression
sql.backend sql.cage sql.dispatch sql.duckdb_backend sql.parameters sql.query_expression sql.query_frame sql.query_refusal sql.query_scan sql.query_tree
sql.duckdb_tree sql.query_text sql.session sql.session_statement sql.tokenizer
"""
EMPTY = "data_file file_index lsm bucket commit ddl dml maintenance.compact inspection notebook format_table text_format codec"
"""Rooms of lakekit that a query without tables does not enter."""


def test_a_query_without_tables_loads_no_reader_and_no_arrow(tmp_path):
    """pyarrow, numpy and pandas each take longer to load than the query and all of lakekit that it needs."""
    ran = subprocess.run(
        [sys.executable, "-c", LOADED.format(words=["sql", str(tmp_path), "-e", "SELECT 1"])], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = set(ran.stdout.splitlines()[-1].split("|"))
    assert loaded & {*GUESTS.split(), "fractions", "configparser", "asyncio", "ssl"} <= {"polars", "importlib.metadata"}
    assert {f"lakekit.{module}" for module in EMPTY.split()} & loaded == set()
    for room, expected in (("catalog", CATALOG), ("expressions", QUERY), ("sql", QUERY)):
        wanted = {f"lakekit.{module}" for module in expected.split() if module.startswith(f"{room}.")}
        assert {module for module in loaded if module.startswith(f"lakekit.{room}.")} == wanted


def test_a_query_of_a_table_loads_no_pandas(tmp_path):
    copytree(ROOT / "fixtures" / "tables" / "append_compacted", tmp_path / "shop.db" / "read")
    words = ["sql", str(tmp_path), "-e", "SELECT * FROM shop.read LIMIT 5"]
    ran = subprocess.run([sys.executable, "-c", LOADED.format(words=words)], capture_output=True, text=True, check=True, cwd=ROOT)
    assert set(ran.stdout.splitlines()[-1].split("|")) & {"pandas", "pyarrow.dataset", "fastavro", "pyspark", "ipywidgets"} == set()


READS = """
import json, sys, lakekit
for table in (lakekit.open({path!r}), lakekit.connect({warehouse!r})["shop.read"]):
    table.scan().collect()
    table.explain()
print(json.dumps(sorted(name for name in sys.modules if name.startswith("lakekit.maintenance."))))
"""


def test_reading_a_table_loads_no_maintenance(tmp_path):
    path = tmp_path / "shop.db" / "read"
    copytree(ROOT / "fixtures" / "tables" / "append_compacted", path)
    ran = subprocess.run([sys.executable, "-c", READS.format(path=str(path), warehouse=str(tmp_path))], capture_output=True, text=True, check=True, cwd=ROOT)
    assert json.loads(ran.stdout) == []


def test_each_action_of_maintenance_is_there_at_first_use():
    assert all(getattr(maintenance, action).__name__ == f"lakekit.maintenance.{action}" for action in maintenance.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'tidy'"):
        _ = maintenance.tidy


@pytest.mark.long
def test_no_import_hides_in_a_function():
    hidden = []
    for path in modules():
        for function in functions(tree(path)):
            hidden += [f"{name(path)}:{node.lineno}" for node in ast.walk(function) if isinstance(node, (ast.Import, ast.ImportFrom))]
    texts = "lakekit/read/user_expressions.py"  # a condition that is no text needs no sqlglot
    assert sorted({place for place in hidden if not place.startswith(texts)}) == []


@pytest.mark.long
def test_modules_loaded_by_name_are_counted():
    """By name, on first use: public names, actions of maintenance, what the registry lists, the function that the author of another reader names, boto3."""
    found = set()
    for path in modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if called in ("import_module", "__import__"):
                    found.add(name(path))
    assert found <= {
        "lakekit/__init__.py",
        "lakekit/sql/cage.py",
        "lakekit/plugins.py",
        "lakekit/spark/__init__.py",
        "lakekit/storage/environment.py",
        "lakekit/testing/adapters.py",
    }


CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
UPWARD = {
    "lakekit/catalog/session.py": "sql",
    "lakekit/table/read_methods.py": "sql",
    "lakekit/catalog/views.py": "sql",
    "lakekit/progress.py": "notebook",
    "lakekit/inspection/hexdump.py": "notebook",
}
"""Rooms that load a part of a room above them, by name on first call: `lk.progress`, `lk.hex`, `cat.sql`, the query of a view."""


def test_steps_upwards_are_by_name_and_counted():
    [layers] = [contract["layers"] for contract in CONTRACTS if contract["type"] == "layers"]
    floor = {room.strip("() "): at for at, layer in enumerate(layers) for room in layer.split("|")}
    found = {}
    for path in modules():
        own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for node in ast.walk(tree(path)):
            called = node.func if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
            if called is None or called.attr != "load" or getattr(called.value, "id", "") != "plugins":
                continue
            folder = node.args[0]
            above = not isinstance(folder, ast.Constant) or floor[folder.value.partition("/")[0]] < floor.get(own, -1)
            if above:
                found[name(path)] = getattr(folder, "value", "any")
    assert found == UPWARD
