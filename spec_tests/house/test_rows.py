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
    lines, statements = text.splitlines(), lines_of_statements(module)
    wrong = []
    for node in ast.walk(module):
        if not isinstance(node, ast.Call):
            continue
        starred = isinstance(node.func, ast.Name) and node.func.id == "zip" and any(isinstance(argument, ast.Starred) for argument in node.args)
        if not starred and not (isinstance(node.func, ast.Attribute) and node.func.attr in ROW_BY_ROW):
            continue
        first, last = statements[node]
        about = lines[first - 1 : last]
        if first > 1 and lines[first - 2].lstrip().startswith("#"):
            about.append(lines[first - 2])
        if not any("# scalar: " in line for line in about):
            wrong.append(f"line {node.lineno}: {lines[node.lineno - 1].strip()}")
    return wrong


def lines_of_statements(module: ast.Module) -> dict[ast.AST, tuple[int, int]]:
    """The first and last line of the innermost statement around each node; of one with a body, its head alone."""
    found: dict[ast.AST, tuple[int, int]] = {}
    waiting: list[tuple[ast.AST, tuple[int, int]]] = [(module, (1, 1))]
    while waiting:
        node, around = waiting.pop()
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            around = (node.lineno, body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno or node.lineno)
            around = (around[0], max(around))
        found[node] = around
        waiting += [(child, around) for child in ast.iter_child_nodes(node)]
    return found


@pytest.mark.parametrize("path", modules(*DATA_PLANE), ids=name)
def test_no_loop_over_rows(path):
    assert not row_by_row(path.read_text(encoding="utf-8"), tree(path))


@pytest.mark.parametrize("line", ["x = column.to_pylist()", "for row in frame.iter_rows():\n    pass", "a, b = zip(*pairs)", "f = np.vectorize(g)"])
def test_the_rule_bites(line):
    assert row_by_row(line, ast.parse(line))
    assert not row_by_row(line.replace("\n", "  # scalar: one\n", 1) if "\n" in line else line + "  # scalar: one", ast.parse(line))
