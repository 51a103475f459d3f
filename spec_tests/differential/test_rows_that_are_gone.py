"""Values of rows that do not stand, which have no place in a changed type: the engine casts the rows that stand alone, and so does lakekit."""

from __future__ import annotations

import pytest

import lakekit as lk
from lakekit.testing.expectations import describe_difference
from spec_tests.differential.judge import Refused
from spec_tests.golden.test_rows_that_are_gone import ENGINES, retyped

pytestmark = pytest.mark.reference


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "first-row"])
def test_the_engine_reads_the_rows_that_stand(judge, tmp_path, engine):
    t, _ = retyped(tmp_path, engine, "parquet")
    assert describe_difference(t.scan().collect(), judge.read(tmp_path / "t")) is None


def test_rows_that_are_made_of_such_values_are_refused_by_both(judge, tmp_path):
    options = {"bucket": "1", "write-only": "true", "merge-engine": "partial-update"}
    t = lk.create(str(tmp_path / "t"), {"k": "INT", "v": "STRING"}, primary_keys=["k"], options=options)
    t.upsert([{"k": 1, "v": "x y"}])
    t.upsert([{"k": 1, "v": "7"}])
    t.alter(lk.update_type("v", "INT"))
    with pytest.raises(Refused, match="For input string: 'x y'"):
        judge.read(tmp_path / "t")
    with pytest.raises(lk.ValueOutOfRange, match="'x y', which says no INT"):
        lk.open(tmp_path / "t").scan().collect()
