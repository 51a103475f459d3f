"""A state from before a column was renamed is merged by the options that the column has today, under the name that it had then.

The reference refuses such states: it looks for the columns of today's options among those of then.
"""

from __future__ import annotations

import polars as pl
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


def then(t, *changes, at_once=False):
    """The rows of the newest snapshot before and after columns change."""
    newest = t.snapshots()["snapshot_id"].max()
    before = t.scan().collect()
    for change in [changes] if at_once else [[one] for one in changes]:
        t.alter(*change)
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


def test_aggregates_of_a_column_whose_name_another_had_then(written):
    t = written({"merge-engine": "aggregation", "fields.a.aggregate-function": "sum", "fields.default-aggregate-function": "max"}, (1, 1, 9, 0), (1, 2, 3, 0))
    changes = (lk.rename_column("b", "c"), lk.add_column("b", "INT"), lk.set_option("fields.b.aggregate-function", "sum"))
    before, after = then(t, *changes)
    assert before.rows() == after.rows() == [(1, 3, 9, 0)]


def in_buckets(path):
    t = lk.create(str(path / "t"), {"a": "INT", "b": "INT"}, options={"bucket": "7", "bucket-key": "a"})
    t.append([{"a": number, "b": 100 - number} for number in range(20)])
    return t


def found_by(t, column):
    """Rows of the first snapshot that a filter of each value finds, and as many as there are."""
    every = t.scan(at=1).collect()
    hits = [t.scan(at=1).filter(pl.col(column) == value).collect().height for value in every[column]]
    return sum(hits), t.aggregate(pl.len(), where=pl.col(column) > -1, at=1)["len"][0]


def test_buckets(tmp_path):
    t = in_buckets(tmp_path)
    t.alter(lk.rename_column("a", "c"))
    assert (found_by(t, "a"), found_by(t, "b")) == ((20, 20), (20, 20))
    assert t.explain(pl.col("a") == 3, at=1).files_read == 1


def test_buckets_of_columns_that_exchanged_their_names(tmp_path):
    t = in_buckets(tmp_path)
    t.alter(lk.rename_column("a", "c"), lk.rename_column("b", "a"), lk.rename_column("c", "b"))
    assert (found_by(t, "a"), found_by(t, "b")) == ((20, 20), (20, 20))
    assert t.explain(pl.col("a") == 3, at=1).files_read == 1


def test_buckets_of_a_column_that_was_dropped_and_added_again(tmp_path):
    t = in_buckets(tmp_path)
    t.alter(lk.drop_column("a"), lk.add_column("a", "INT"))
    assert (found_by(t, "a"), found_by(t, "b")) == ((20, 20), (20, 20))
    t.alter(lk.rename_column("a", "x"))
    assert (found_by(t, "a"), found_by(t, "b")) == ((20, 20), (20, 20))


def test_columns_of_a_frame_that_was_made_before_their_names_were_exchanged(tmp_path):
    t = in_buckets(tmp_path)
    asked = t.scan()
    t.alter(lk.rename_column("a", "c"), lk.rename_column("b", "a"), lk.rename_column("c", "b"))
    assert [asked.filter(a=number, b=100 - number).collect().height for number in range(20)] == [1] * 20


def test_rows_expire_by_the_column_of_then(tmp_path):
    options = {"bucket": "1", "record-level.expire-time": "1 d", "record-level.time-field": "s"}
    t = lk.create(str(tmp_path / "t"), {"k": "INT NOT NULL", "a": "INT", "s": "INT"}, primary_keys=["k"], options=options)
    t.upsert([{"k": 1, "a": 5, "s": 2_000_000_000}])
    before, after = then(t, lk.rename_column("s", "c"), lk.rename_column("a", "s"), lk.rename_column("c", "a"))
    assert before.rows() == after.rows() == [(1, 5, 2_000_000_000)]


def test_sequence_groups_of_a_column_that_was_dropped_and_added_again(written):
    """The engine finds the column of then by its name too: it is the one that the group named then."""
    t = written({"merge-engine": "partial-update", "fields.s.sequence-group": "a,b"}, (1, 1, 1, 5), (1, 2, 2, 4))
    before, after = then(t, lk.drop_column("b"), lk.add_column("b", "INT"), at_once=True)
    assert before.rows() == after.rows() == [(1, 1, 1, 5)]


def test_sequence_groups_of_a_column_that_came_later(written):
    t = written({"merge-engine": "partial-update", "fields.s.sequence-group": "a,b"}, (1, 1, 1, 5), (1, 2, 2, 4))
    before, after = then(t, lk.add_column("c", "INT"), lk.set_option("fields.s.sequence-group", "a,b,c"))
    assert before.rows() == after.rows() == [(1, 1, 1, 5)]


def test_a_sequence_group_of_columns_that_came_later(written):
    t = written({"merge-engine": "partial-update"}, (1, 1, None, 5), (1, None, 2, 4))
    group = lk.set_option("fields.g.sequence-group", "c")
    before, after = then(t, lk.add_column("c", "INT"), lk.add_column("g", "INT"), group)
    assert before.rows() == after.rows() == [(1, 1, 2, 4)]


def test_a_sequence_field_that_came_later(written):
    t = written({}, (1, 1, 1, 5), (1, 2, 2, 4))
    before, after = then(t, lk.add_column("version", "INT"), lk.set_option("sequence.field", "version"))
    assert before.rows() == after.rows() == [(1, 2, 2, 4)]
