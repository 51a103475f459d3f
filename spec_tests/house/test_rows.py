"""Rows live in Polars and Arrow: no loop over rows where data flows. What is scalar on purpose says why on its line."""

from __future__ import annotations

import ast

import pytest

from spec_tests.house.source import modules, name, tree

DATA_PLANE = ("bucket", "files", "folder", "format", "lines", "lsm", "read", "write")
ROW_BY_ROW = {
    "as_py",
    "apply",
    "fromiter",
    "frompyfunc",
    "iter_rows",
    "itertuples",
    "iterrows",
    "map_elements",
    "map_rows",
    "rows",
    "rows_by_key",
    "to_dicts",
    "to_list",
    "to_pydict",
    "to_pylist",
    "tolist",
    "vectorize",
}


def row_by_row(text: str, module: ast.Module) -> list[str]:
    lines = text.splitlines()
    wrong = []
    for node in ast.walk(module):
        if not isinstance(node, ast.Call):
            continue
        starred = isinstance(node.func, ast.Name) and node.func.id == "zip" and any(isinstance(argument, ast.Starred) for argument in node.args)
        if not starred and not (isinstance(node.func, ast.Attribute) and node.func.attr in ROW_BY_ROW):
            continue
        about = lines[node.lineno - 1 : node.end_lineno]
        if not any("# scalar: " in line for line in about):
            wrong.append(f"line {node.lineno}: {about[0].strip()}")
    return wrong


@pytest.mark.parametrize("path", modules(*DATA_PLANE), ids=name)
def test_no_loop_over_rows(path):
    assert not row_by_row(path.read_text(encoding="utf-8"), tree(path))


@pytest.mark.parametrize("line", ["x = column.to_pylist()", "for row in frame.iter_rows():\n    pass", "a, b = zip(*pairs)", "f = np.vectorize(g)"])
def test_the_rule_bites(line):
    assert row_by_row(line, ast.parse(line))
    assert not row_by_row(line.replace("\n", "  # scalar: one\n", 1) if "\n" in line else line + "  # scalar: one", ast.parse(line))
