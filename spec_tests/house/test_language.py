"""The language of the package keeps what it has reached; `python -m spec_tests.house.language` prints what is left."""

from __future__ import annotations

import ast

import pytest

from spec_tests.house import language
from spec_tests.house.source import PACKAGE, functions, modules, name, tree


def test_a_class_name_stands_in_one_file():
    assert language.repeated_classes() == {}


def test_no_module_class_function_or_parameter_is_a_riddle():
    assert list(language.riddles()) == []


def test_no_field_or_constant_is_a_riddle():
    assert [(title, path) for title, path in language.riddle_fields() if title not in language.PUBLIC_FIELDS] == []


def test_fields_are_those_of_the_body_and_those_assigned_to_self():
    [node] = ast.parse("class A:\n x: int\n y, z = 1, 2\n def f(self):\n  self.u.v = self.w = 0\n  other.t = 0").body
    assert isinstance(node, ast.ClassDef)
    assert list(language._fields(node)) == ["x", "y", "z", "w"]


def test_locals_say_what_they_are():
    assert language.count_locals().total() <= 150


def test_docstrings_name_what_there_is():
    assert sorted(language.stale_names()) == []


def test_docstrings_quote_options_that_exist():
    assert sorted(language.stale_options()) == []


def test_code_without_docstrings_keeps_its_texts(tmp_path):
    path = tmp_path / "code.py"
    path.write_text('"""Doc of `gone`."""\nX = "kept"\n"""Of X."""\ndef f():\n    """Of f."""\n    return "kept too"\n')
    assert language._without_docstrings(path).split() == ["X", "=", '"kept"', "def", "f():", "return", '"kept', 'too"']


def test_lines_fit():
    wide = [line for path in modules() for line in path.read_text(encoding="utf-8").splitlines() if language.is_wide(line)]
    assert wide == []
    assert language.is_wide("x" * 121)
    assert not language.is_wide("x" * 120 + "  # noqa: E501 - a remark is not counted")


def test_docstrings_are_in_the_imperative():
    assert language.count_moods() == 0


def test_files_are_full():
    counts = {measure.what: measure for measure in language.measure_files()}
    assert [name for name, measure in counts.items() if not measure.holds and name != "lines"] == []


def test_no_function_takes_more_than_ten_parameters():
    assert language.most_parameters() <= 10


DECODING = {"codec", "model", "metadata", "format", "file_index", "lsm", "data_file", "bucket", "read"}
RECORDING = {"lakekit/codec/cursor.py", "lakekit/codec/binary_value.py"}
"""The cursor, and the cursor of one row: what they read they record where a hex view gives them a recorder."""


def test_decoders_do_not_know_of_spans():
    """A decoder takes bytes or a cursor; who is to see which bytes it read gives it a cursor that records them."""
    decoders = [path for path in modules() if path.is_relative_to(PACKAGE) and path.relative_to(PACKAGE).parts[0] in DECODING]
    takers = {name(path) for path in decoders for function in functions(tree(path)) if "SpanRecorder" in ast.unparse(function.args)}
    assert decoders
    assert takers == RECORDING


@pytest.mark.long
def test_modules_do_not_import_each_other_in_a_circle():
    assert language.cycles(with_types=False) == []


@pytest.mark.long
def test_annotations_do_not_close_a_circle_of_imports():
    assert language.cycles(with_types=True) == []


def test_groups_of_a_graph_are_those_that_reach_each_other():
    graph = {"a": "b", "b": "c", "c": "ad", "d": "e", "e": "", "f": "f"}
    assert set(language._components(graph)) == {frozenset("abc"), frozenset("d"), frozenset("e"), frozenset("f")}


def test_a_measure_holds_at_its_bound():
    assert language.Measure("most", 3, 3).holds
    assert not language.Measure("most", 4, 3).holds
    assert language.Measure("least", 3, 3, is_least=True).holds
    assert not language.Measure("least", 2, 3, is_least=True).holds
