"""Every room is small enough to read in one sitting."""

from __future__ import annotations

import pytest

from spec_tests.house.source import ROOT, functions, modules, name, tracked, tree

LINES, FUNCTION_LINES, POSITIONAL = 600, 60, 6


def test_size_of_tests():
    tests = [path for path in tracked() if path.is_relative_to(ROOT / "spec_tests") and path.suffix == ".py"]
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in tests}
    assert lines
    assert {path: count for path, count in lines.items() if count > LINES} == {}


@pytest.mark.parametrize("path", modules(), ids=name)
def test_size(path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LINES, f"{lines} lines"
    wrong = []
    for function in functions(tree(path)):
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        positional = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args) if argument.arg not in ("self", "cls")]
        if length > FUNCTION_LINES:
            wrong.append(f"{function.name}: {length} lines")
        if len(positional) > POSITIONAL:
            wrong.append(f"{function.name}: {len(positional)} positional parameters")
    assert not wrong
