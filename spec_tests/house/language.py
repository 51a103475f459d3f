"""Measure the language of the package: how long its files are, which words its names use, how wide its lines are.

    python -m spec_tests.house.language

prints one line for each measure, with what it is to be. `test_language.py` fails for those that hold already.
"""

from __future__ import annotations

import ast
import builtins
import json
import re
import statistics
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import grimp

from spec_tests.house.source import PACKAGE, ROOT, functions, modules, name, tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

MARKER_LINES = 12
"""A package marker has no more lines than this."""
SHORT_LINES = 100
WIDTH = 120
LOCALS = ("found", "asked", "said", "told")
RIDDLES = frozenset({
    "told", "said", "asked", "found", "made", "kept", "held", "given", "chosen", "shown", "spelled", "anew",
    "again", "past", "far", "beside", "together", "apart", "here", "there", "gone", "whole", "rest", "some",
    "few", "lot", "spot", "place", "share", "way", "keeper", "world", "door", "ground", "standing", "of",
    "done", "now",
})  # fmt: skip
"""Words that say nothing about what carries them: no module, class, function or parameter is to be called so."""
FIELD_RIDDLES = RIDDLES | {
    "how", "what", "why", "which", "who", "own", "ours", "theirs", "wanted", "seen", "known", "taken", "written", "places", "spots",
    "look", "looks", "ways", "layout", "inside", "outside", "alone", "telling", "tells", "does", "reached", "touched",
}  # fmt: skip
"""The words that no field, attribute or constant is to be called."""

PUBLIC_FIELDS = {"Finding.what", "Finding.found", "SchemaChange.what", "Step.what", "Step.why", "Outcome.found"}
"""Riddles that users know: fields of results, and columns of the frames made of them."""


class Measure(NamedTuple):
    """One line of the report: what is counted, how many there are, and how many there are to be.

    That is the most, or with `is_least` the least.
    """

    what: str
    count: float
    bound: float
    is_least: bool = False

    @property
    def holds(self) -> bool:
        """Whether the bound is kept."""
        return self.count >= self.bound if self.is_least else self.count <= self.bound


PIPELINE_FILES = 9
"""The files of the pipeline for one's own data: configuration, formats, growth, sources, runs and their state, and its verb."""
SQL_FILES = 40
"""As many files as SQL may add to those of the day on which the bound was set: dialect, parser, translator, cage, session, …."""


SPARK_FILES = 1
"""`spark.found_rows`: UPDATE, DELETE and MERGE whose expressions Spark computes; `spark.dml` is full."""


def measure_files() -> Iterator[Measure]:
    """Measure the files of the package: how many have content, how long they are."""
    files = [path.read_text(encoding="utf-8").splitlines() for path in modules()]
    lengths = [len(lines) for lines in files]
    filled = [length for length in lengths if length > MARKER_LINES]
    yield Measure("files with content", len(filled), 295 + SQL_FILES + PIPELINE_FILES + SPARK_FILES)
    yield Measure("lines", sum(lengths), 75_500)
    yield Measure("median lines of files with content", statistics.median(filled), 220, is_least=True)
    yield Measure(f"files under {SHORT_LINES} lines", sum(length < SHORT_LINES for length in filled), 40)
    yield Measure(f"lines over {WIDTH} columns", sum(is_wide(line) for lines in files for line in lines), 0)


def is_wide(line: str) -> bool:
    """Return True for a line over 120 columns, not counting a remark to ruff or mypy at its end, as ruff counts it."""
    return len(re.sub(r"\s*# (?:noqa|type: ignore)\b.*$", "", line)) > WIDTH


def repeated_classes() -> dict[str, list[str]]:
    """Return the class names that stand in more than one file of the package, with those files."""
    files: dict[str, list[str]] = {}
    for path in modules():
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef):
                files.setdefault(node.name, []).append(name(path))
    return {class_name: paths for class_name, paths in files.items() if len(paths) > 1}


def riddles() -> Iterator[tuple[str, str, str]]:
    """Yield each module, class, function and parameter whose whole name is a riddle: its kind, its name, its file."""
    for path in modules():
        if path.stem in RIDDLES:
            yield "module", path.stem, name(path)
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef) and node.name.strip("_").lower() in RIDDLES:
                yield "class", node.name, name(path)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                riddle_words = RIDDLES if node in tree(path).body else RIDDLES - {"of"}  # `Class.of(…)` is a constructor
                words = [pair for pair in _function_names(node) if pair[1].strip("_") in riddle_words]
                yield from ((kind, word, name(path)) for kind, word in words)


def riddle_fields() -> Iterator[tuple[str, str]]:
    """Yield each field and attribute of a class, as "Class.field", and each constant whose name is a riddle; with its file."""
    for path in modules():
        constants = [(word, word) for statement in tree(path).body for word in _assigned(statement)]
        classes = [node for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)]
        fields = [(word, f"{node.name}.{word}") for node in classes for word in _fields(node)]
        yield from ((title, name(path)) for word, title in dict.fromkeys(constants + fields) if word.strip("_").lower() in FIELD_RIDDLES)


def _fields(class_node: ast.ClassDef) -> Iterator[str]:
    """Yield the names of a class's fields: those declared in its body, and those its methods assign to `self`."""
    for statement in class_node.body:
        yield from _assigned(statement)
    attributes = [node for node in ast.walk(class_node) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
    yield from (node.attr for node in attributes if isinstance(node.value, ast.Name) and node.value.id == "self")


def _assigned(statement: ast.stmt) -> Iterator[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target] if isinstance(statement, ast.AnnAssign) else []
    names = [node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    yield from (node.id for node in names if isinstance(node.ctx, ast.Store))


def _function_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, str]]:
    yield "function", function.name
    arguments = function.args
    parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from (("parameter", argument.arg) for argument in parameters)


def count_locals() -> Counter[str]:
    """Count the assignments to local variables of those names."""
    names = [node for path in modules() for node in ast.walk(tree(path)) if isinstance(node, ast.Name)]
    return Counter(node.id for node in names if isinstance(node.ctx, ast.Store) and node.id in LOCALS)


FOREIGN_NAMES = frozenset({
    "partition_by", "set_union",  # Polars
    "sanitize_html",  # nbconvert
    "Murmur3_x86_32", "named_struct",  # Spark
    "strpos",  # DuckDB
    "record__FILE__KEY_STATS",  # Paimon's names of Avro records
})  # fmt: skip
"""Names of other projects that docstrings quote."""


def stale_names() -> Iterator[tuple[str, str]]:
    """Yield each name that a docstring quotes and that nothing has, with its file.

    Those are `name_with_underscore` and `name(…)` between back-quotes, which must be an identifier or a part of a text
    anywhere in the package, or a case of the fixtures; constants of the module as arguments, `name(CONSTANT)`; and the first call of
    an example line of a module's docstring, `name(…)` or `@name(…)` behind at least four blanks, which must stand in the
    code of that folder.
    """
    calls: dict[Path, set[str]] = {}
    known = FOREIGN_NAMES | set(dir(builtins))
    for path in modules():
        code = _without_docstrings(path)
        known |= set(re.findall(r"\w+", code))
        calls.setdefault(path.parent, set()).update(re.findall(r"\w+(?=\()", code))
    known |= {part for path in modules() for part in (*path.parts, path.stem)} | {path.stem for path in (ROOT / "fixtures").glob("*/*")}
    for path in modules():
        constants = {node.id for node in ast.walk(tree(path)) if isinstance(node, ast.Name)}
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                for word in re.findall(r"`(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*(?:\(|(?=`)))", node.value.value):
                    if word.strip("(") not in known and ("_" in word.strip("_(") or word.endswith("(")):
                        yield word.strip("("), name(path)
                for constant in re.findall(r"`[a-z_.]+\(([A-Z][A-Z_]+)\)`", node.value.value):
                    if constant not in constants:
                        yield constant, name(path)
        for receiver, called in re.findall(r"^ {4,}@?((?:\w+\.)*)([a-z_]\w*)\(", ast.get_docstring(tree(path)) or "", re.MULTILINE):
            if called not in FOREIGN_NAMES | (known if receiver or path.name == "__init__.py" else calls[path.parent]):
                yield called, name(path)


def stale_options() -> Iterator[tuple[str, str]]:
    """Yield each option that a docstring quotes, `key.with-dashes`, and that stands in no code, with its file.

    What follows a placeholder, `fields.<column>.…` or `key.*`, is not looked at, nor is a column's name in an example.
    """
    code = "\n".join(map(_without_docstrings, modules()))
    for path in modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                for key in re.findall(r"`([a-z0-9_-]+(?:\.[a-z0-9_<>*…-]+)+)`", node.value.value):
                    if "-" in key and re.split(r"[<*…]", key)[0] not in code:
                        yield key, name(path)


def _without_docstrings(path: Path) -> str:
    """Return the code without the texts that stand as statements: docstrings of modules, functions, fields and constants."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    return "\n".join(lines)


def most_parameters() -> int:
    """Return how many parameters the function with most of them has."""
    return max(
        len([word for kind, word in _function_names(one) if kind == "parameter" and word not in ("self", "cls")])
        for path in modules()
        for one in functions(tree(path))
    )


def cycles(*, with_types: bool) -> list[frozenset[str]]:
    """Return the groups of modules that import each other in a circle; `with_types` counts imports for annotations."""
    graph = grimp.build_graph("lakekit", exclude_type_checking_imports=not with_types, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    return [group for group in _components(imports) if len(group) > 1]


def _components(edges: Mapping[str, Iterable[str]]) -> Iterator[frozenset[str]]:
    """Yield the strongly connected components of a graph.

    Kosaraju's way: by the order in which a search leaves nodes, then along the edges backwards.
    """
    left, seen = list[str](), set[str]()
    for root in edges:
        if root in seen:
            continue
        seen.add(root)
        path = [(root, iter(edges[root]))]
        while path:
            node, targets = path[-1]
            target = next((target for target in targets if target not in seen), None)
            if target is None:
                left.append(node)
                path.pop()
            else:
                seen.add(target)
                path.append((target, iter(edges[target])))
    backwards: dict[str, list[str]] = {node: [] for node in edges}
    for node, targets in edges.items():
        for target in targets:
            backwards[target].append(node)
    for root in reversed(left):
        if root in seen:
            group, waiting = {root}, [root]
            seen.discard(root)
            while waiting:
                more = [node for node in backwards[waiting.pop()] if node in seen]
                seen.difference_update(more)
                group.update(more)
                waiting += more
            yield frozenset(group)


def count_moods(folder: Path = PACKAGE) -> int:
    """Count the docstrings whose first line is not in the imperative, as ruff sees it."""
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "D401", "--output-format", "json"]
    command += ["--config", "lint.pydocstyle.convention='pep257'", str(folder)]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    return len(json.loads(found.stdout))


def measure_names() -> Iterator[Measure]:
    """Measure the names of the package."""
    yield Measure("class names in several files", len(repeated_classes()), 0)
    kinds = Counter(kind for kind, _, _ in riddles())
    for kind in ("module", "class", "function", "parameter"):
        yield Measure(f"riddle words as a {kind}", kinds[kind], 0)
    yield Measure("riddle words as a field or constant", len(list(riddle_fields())), len(PUBLIC_FIELDS))
    yield Measure(f"locals called {', '.join(LOCALS)}", count_locals().total(), 150)
    yield Measure("parameters of one function", most_parameters(), 10)


def report() -> list[Measure]:
    """Return all measures."""
    found = [*measure_files(), *measure_names()]
    found.append(Measure("cycles of imports", len(cycles(with_types=False)), 0))
    found.append(Measure("cycles of imports, types included", len(cycles(with_types=True)), 0))
    found.append(Measure("docstrings that are not in the imperative", count_moods(), 0))
    return found


if __name__ == "__main__":
    for measure in report():
        sign = "≥" if measure.is_least else "≤"
        state = "" if measure.holds else "not yet"
        print(f"{measure.what:45} {measure.count:>8,.0f}   {sign} {measure.bound:,.0f}   {state}")
