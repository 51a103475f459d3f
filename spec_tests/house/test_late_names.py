"""Names of modules that are imported late exist: `plugins.load("sql", "session").query_table` is seen neither by mypy nor by a test that does not get there."""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING

import pytest

from spec_tests.house.source import PACKAGE, modules, name, tree

if TYPE_CHECKING:
    from pathlib import Path


@cache
def names_of(path: Path) -> frozenset[str]:
    """What a module binds at its top, in branches and attempts too."""
    found: set[str] = set()
    nodes: list[ast.AST] = [tree(path)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        else:
            nodes += ast.iter_child_nodes(node)
    return frozenset(found)


def text_of(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def loaded(call: ast.AST) -> list[Path] | None:
    """The modules that a call may load: one by a literal name, all plugins of a folder by another; None for any other call."""
    if not isinstance(call, ast.Call) or not call.args:
        return None
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    texts = [text_of(argument) for argument in call.args]
    if called == "load" and len(texts) == 2 and texts[0] is not None:
        stem = "*" if texts[1] is None else texts[1].replace("-", "_")
        return sorted(path for path in (PACKAGE / texts[0]).glob(f"{stem}.py") if path.name != "__init__.py")
    if called == "import_module" and texts[0] is not None and texts[0].partition(".")[0] == "lakekit":
        place = PACKAGE.joinpath(*texts[0].split(".")[1:])
        return [place / "__init__.py" if place.is_dir() else place.with_suffix(".py")]
    return None


def scopes(module: ast.Module) -> list[ast.AST]:
    """The functions that are in no other one, methods among them, and the module for what is in none."""
    outer: list[ast.AST] = []
    nodes: list[ast.AST] = [module]
    while nodes:
        node = nodes.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            outer.append(node)
        else:
            nodes += ast.iter_child_nodes(node)
    rest = ast.Module(body=[node for node in module.body if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))], type_ignores=[])
    return [*outer, rest]


def returned(module: ast.Module) -> dict[str, list[Path]]:
    """The modules that functions of this one return, by the functions' names."""
    found = {}
    for function in ast.walk(module):
        if isinstance(function, ast.FunctionDef):
            for part in ast.walk(function):
                if isinstance(part, ast.Return) and part.value is not None and (paths := loaded(part.value)) is not None:
                    found[function.name] = paths
    return found


def late_names(module: ast.Module) -> list[tuple[int, str, list[Path]]]:
    """Line, name and possible modules of each attribute that is taken from a module loaded late."""
    functions = returned(module)
    names: list[tuple[int, str, list[Path]]] = []
    for scope in scopes(module):
        variables: dict[str, list[Path]] = {}

        def of(node: ast.AST, variables: dict[str, list[Path]] = variables) -> list[Path] | None:
            if isinstance(node, ast.Name):
                return variables.get(node.id)
            is_function = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            return functions[node.func.id] if is_function and node.func.id in functions else loaded(node)

        for node in ast.walk(scope):
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None and (found := of(node.value)) is not None:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Name):
                    variables[target.id] = [*variables.get(target.id, []), *found]
        for node in ast.walk(scope):
            if isinstance(node, ast.Attribute) and (found := of(node.value)) is not None:
                names.append((node.lineno, node.attr, found))
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr" and (found := of(node.args[0])) is not None:
                names += [(line, told, found) for line, told in getattr_names(module, scope, node)]
    return names


def getattr_names(module: ast.Module, scope: ast.AST, call: ast.Call) -> list[tuple[int, str]]:
    """Line and name of what getattr asks for: a literal, or an argument of the function around it, as its calls have it; none with a default."""
    given = call.args[1]
    if len(call.args) == 2 and (told := text_of(given)) is not None:
        return [(call.lineno, told)]
    parameters = [argument.arg for argument in scope.args.args] if isinstance(scope, ast.FunctionDef) else []
    if not isinstance(given, ast.Name) or given.id not in parameters:
        return []
    at = parameters.index(given.id)
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == scope.name and len(node.args) > at]
    return [(node.lineno, told) for node in calls if (told := text_of(node.args[at])) is not None]


def stale(module: ast.Module) -> list[tuple[int, str]]:
    asked_for = [(line, attribute, paths) for line, attribute, paths in late_names(module) if not attribute.startswith("__")]
    return [(line, attribute) for line, attribute, paths in asked_for if not any(attribute in names_of(path) for path in paths)]


@pytest.mark.parametrize("path", modules(), ids=name)
def test_names_of_modules_that_are_loaded_late_exist(path):
    assert stale(tree(path)) == []


def test_the_law_sees_them():
    seen = {(name(path), attribute) for path in modules() for _, attribute, _ in late_names(tree(path))}
    wanted = {"table/read_methods.py": "query_table", "cli/main.py": "show_hex", "lsm/merge.py": "fold", "__init__.py": "load_ipython_extension"}
    assert {(f"lakekit/{where}", attribute) for where, attribute in wanted.items()} <= seen
    assert any(where == "lakekit/spark/data_source.py" for where, _ in seen)
    assert len(seen) >= 25


@pytest.mark.parametrize(
    "text",
    [
        'plugins.load("sql", "session").query_tabel(1)',
        'run = plugins.load("sql", "session").runn',
        'def f():\n    verbs: Any = plugins.load("cli", "inspection")\n    return verbs.show_hexx()',
        'def _streaming():\n    return plugins.load("spark", "streaming")\n\ndef f():\n    return _streaming().LakekitStreamReadr(1)',
        'def f():\n    if (found := plugins.load("spark", "streaming")):\n        found.nothing_such()',
        'def f():\n    return getattr(plugins.load("sql", "session"), "runn")',
        'def outer(verb):\n    def run():\n        return getattr(plugins.load("cli", "inspection"), verb)\n    return run\n\nouter("show_hexx")',
        'import_module("lakekit.cli.magics").load_ipython_extensionn',
        'plugins.load("file_index", kind).walkk(1)',
    ],
)
def test_a_stale_name_is_seen(text):
    assert len(stale(ast.parse(text))) == 1
    assert stale(ast.parse("plugins.load('sql', 'session').query_table(1)")) == []
