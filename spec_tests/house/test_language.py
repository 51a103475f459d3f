"""The language of the package keeps what it has reached; `python -m spec_tests.house.language` prints what is left."""

from __future__ import annotations

import pytest

from spec_tests.house import language


def test_a_class_name_stands_in_one_file():
    assert language.repeated_classes() == {}


def test_no_class_is_a_riddle():
    assert [(word, path) for kind, word, path in language.riddles() if kind == "class"] == []


@pytest.mark.long
def test_modules_do_not_import_each_other_in_a_circle():
    assert language.cycles(with_types=False) == []


def test_groups_of_a_graph_are_those_that_reach_each_other():
    graph = {"a": "b", "b": "c", "c": "ad", "d": "e", "e": "", "f": "f"}
    assert set(language._components(graph)) == {frozenset("abc"), frozenset("d"), frozenset("e"), frozenset("f")}


def test_a_measure_holds_at_its_bound():
    assert language.Measure("most", 3, 3).holds
    assert not language.Measure("most", 4, 3).holds
    assert language.Measure("least", 3, 3, is_least=True).holds
    assert not language.Measure("least", 2, 3, is_least=True).holds
