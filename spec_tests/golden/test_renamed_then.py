"""A state from before a column was renamed is merged by the options that the column has today, under the name that it had then.

The reference refuses such states: it looks for the columns of today's options among those of then.
"""

from __future__ import annotations

import pytest

import lakekit as lk

LEVEL_0 = {"bucket": "1", "write-only": "true"}


@pytest.fixture
def written(tmp_path):
    def write(options, *commits):
        t = lk.create(str(tmp_path / "t"), {"k": "INT NOT NULL", "a": "INT", "b": "INT", "s": "INT"}, primary_keys=["k"], options={**LEVEL_0, **options})
        for row in commits:
            t.upsert([dict(zip("kabs", row, strict=True))])
        return t

    return write


def then(t, *changes):
    """The rows of the newest snapshot before and after columns change."""
    newest = t.snapshots()["snapshot_id"].max()
    before = t.scan().collect()
    for change in changes:
        t.alter(change)
    return before, t.scan(at=newest).collect()


def test_aggregates(written):
    t = written({"merge-engine": "aggregation", "fields.a.aggregate-function": "sum", "fields.b.aggregate-function": "max"}, (1, 1, 9, 0), (1, 2, 3, 0))
    before, after = then(t, lk.rename_column("a", "total"))
    assert before.rows() == after.rows() == [(1, 3, 9, 0)]
    assert after.columns == ["k", "a", "b", "s"]


def test_aggregates_of_columns_that_exchanged_their_names(written):
    t = written({"merge-engine": "aggregation", "fields.a.aggregate-function": "sum", "fields.b.aggregate-function": "max"}, (1, 1, 9, 0), (1, 2, 3, 0))
    before, after = then(t, lk.rename_column("a", "c"), lk.rename_column("b", "a"), lk.rename_column("c", "b"))
    assert before.rows() == after.rows() == [(1, 3, 9, 0)]


def test_sequence_fields(written):
    t = written({"sequence.field": "s"}, (1, 1, 1, 5), (1, 2, 2, 4))
    before, after = then(t, lk.rename_column("s", "version"))
    assert before.rows() == after.rows() == [(1, 1, 1, 5)]


def test_sequence_groups(written):
    options = {"merge-engine": "partial-update", "fields.s.sequence-group": "a,b", "fields.a.aggregate-function": "sum"}
    t = written(options, (1, 1, 1, 5), (1, 2, 2, 4))
    before, after = then(t, lk.rename_column("s", "version"), lk.rename_column("b", "bb"), lk.rename_column("a", "aa"))
    assert before.rows() == after.rows() == [(1, 3, 1, 5)]
