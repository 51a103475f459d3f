"""Statistics that lakekit collected, read and carried on by the reference."""

from __future__ import annotations

import pytest

import lakekit as lk
from spec_tests.doors.test_analyze import filled, found

pytestmark = pytest.mark.reference


def test_the_reference_reads_them_and_carries_them_on(judge, tmp_path):
    path = tmp_path / "t"
    table = filled(path)
    table.analyze()
    before = found(table)
    (row,) = judge.read(path, system="statistics").rows
    told = table.system("statistics").collect().row(0)
    assert [str(value) for value in row[1][:4]] == [str(value) for value in told[:4]]
    assert all(name in row[1][4] for name in before.columns)
    judge.compact(path, full=True)
    assert found(lk.open(path)) == before
    assert judge.snapshots(path)[-2].kind == "ANALYZE"
    assert [one.kind for one in judge.snapshots(path)] == ["APPEND", "APPEND", "ANALYZE", "COMPACT"]


def test_columns_that_are_newer_than_the_snapshot(judge, tmp_path):
    path = tmp_path / "t"
    judge.create(path, {"k": "INT NOT NULL", "s": "STRING"}, primary_keys=["k"], options={"bucket": "1"})
    judge.write(path, [("+I", (1, "a")), ("+I", (2, None))])
    judge.alter(path, ("add_column", "more", "BIGINT"))
    judge.alter(path, ("rename_column", "s", "text"))
    lk.open(path).analyze()
    (row,) = judge.read(path, system="statistics").rows
    assert (row[1][:3], sorted(found(lk.open(path)).columns)) == ((1, 2, 2), ["k", "more", "text"])
    judge.write(path, [("+I", (3, "b", 5))])
    assert len(judge.read(path, system="statistics").rows) == 1
