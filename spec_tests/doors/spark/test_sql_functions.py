"""The table of functions says of each name, and of each form, where Spark differs: held against this Spark, on drawn values."""

from __future__ import annotations

import pytest

from lakekit.errors import Unsupported
from lakekit.expressions.functions import FORMS, all_functions
from lakekit.expressions.sql_function import DIFFERENCES, spark_difference

pytest.importorskip("lakekit.spark", exc_type=Unsupported)
pytestmark = pytest.mark.spark

NAMES = [*(name for function in all_functions() for name in function.names), *FORMS]


@pytest.fixture(scope="module")
def verdicts(spark):
    from spec_tests.sql_spark import SparkJudge, texts_of

    texts = {text: None for name in NAMES for text in texts_of(name)}
    found = SparkJudge(spark, seed=1).verdicts(list(texts))
    return {name: {text: found[text] for text in texts_of(name)} for name in NAMES}


def test_each_name_where_spark_has_other_values_or_nothing_says_so(verdicts):
    silent = {
        name: {text: verdict.shown for text, verdict in of.items() if verdict.kind in ("other", "absent")}
        for name, of in verdicts.items()
        if not spark_difference(name)
    }
    assert {name: of for name, of in silent.items() if of} == {}


def test_each_note_is_of_a_name_that_spark_has_not_or_with_other_values(verdicts):
    notes: dict[str, set[str]] = {}
    for name, note in DIFFERENCES.items():
        notes.setdefault(note, set()).update(verdict.kind for verdict in verdicts[name].values())
    assert [note for note, kinds in notes.items() if kinds <= {"same"}] == []
    absent = {note: kinds for note, kinds in notes.items() if note.startswith("none")}
    assert [note for note, kinds in absent.items() if "absent" not in kinds] == []


def test_where_the_table_is_silent_spark_has_the_same_values(verdicts):
    same = [name for name, of in verdicts.items() if all(verdict.kind in ("same", "fails") for verdict in of.values())]
    assert len(same) > 60
    for name in ("locate", "nvl", "now", "to_date", "array_size", "cardinality", "size", "map_keys", "map_values"):
        assert {verdict.kind for verdict in verdicts[name].values()} == {"same"}, name


def test_no_note_names_what_is_not_in_the_table():
    assert set(DIFFERENCES) <= set(NAMES)
