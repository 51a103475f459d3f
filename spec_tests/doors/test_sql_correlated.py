"""A subquery of a change that names columns of the changed row is refused with the statement to write instead, which does what was meant."""

from __future__ import annotations

import re

import duckdb
import pytest
from hypothesis import given, settings, strategies as st

import lakekit as lk
from lakekit.errors import ColumnNotFound, SqlError

SETUP = [
    "CREATE TABLE {}t (id INT, v INT)",
    "CREATE TABLE {}s (id INT, w INT)",
    "INSERT INTO {}t VALUES (1, 1), (2, 2), (3, 3), (NULL, 4)",
    "INSERT INTO {}s VALUES (1, 7), (3, 2), (NULL, 1)",
]


def lake(folder):
    cat = lk.connect(folder)
    cat.sql("CREATE DATABASE d")
    for text in SETUP:
        cat.sql(text.format("d."))
    return cat


@pytest.fixture
def cat(tmp_path):
    return lake(tmp_path)


WRONG = [
    ("DELETE FROM d.t WHERE EXISTS (SELECT 1 FROM d.s WHERE s.id = t.id)", "DELETE FROM d.t USING d.s WHERE s.id = t.id"),
    ("DELETE FROM d.t x WHERE EXISTS (SELECT 1 FROM d.s y WHERE y.id = x.id)", "DELETE FROM x USING d.s AS y WHERE y.id = x.id"),
    ("DELETE FROM d.t WHERE NOT EXISTS (SELECT 1 FROM d.s WHERE s.id = t.id)", "USING d.s ON s.id = t.id WHEN NOT MATCHED BY SOURCE THEN DELETE"),
    ("UPDATE d.t SET v = 0 WHERE EXISTS (SELECT 1 FROM d.s WHERE s.id = t.id)", "UPDATE d.t SET … FROM d.s WHERE s.id = t.id"),
    ("UPDATE d.t SET v = (SELECT w FROM d.s WHERE s.id = t.id)", "UPDATE d.t SET … FROM d.s WHERE …"),
    ("DELETE FROM d.t WHERE id IN (SELECT id FROM d.s WHERE s.w > t.v)", "DELETE FROM d.t USING d.s WHERE …"),
    ("DELETE FROM d.t WHERE id IN (SELECT id FROM d.s WHERE v = 1)", "DELETE FROM d.t USING d.s WHERE …"),
    ("DELETE FROM d.t WHERE v > (SELECT max(w) FROM d.s WHERE s.id = t.id)", "GROUP BY key"),
    ("UPDATE d.t SET v = 1 + (SELECT max(w) FROM d.s WHERE s.id = t.id)", "GROUP BY key"),
    ("MERGE INTO d.t t USING d.s s ON t.id = s.id WHEN MATCHED AND EXISTS (SELECT 1 FROM d.s q WHERE q.id = t.id) THEN DELETE", "Write it as the source"),
]


@pytest.mark.parametrize(("text", "instead"), WRONG)
def test_the_message_says_what_to_write(cat, text, instead):
    before = cat["d.t"].scan().collect()
    with pytest.raises(SqlError) as caught:
        cat.sql(text)
    message = str(caught.value)
    assert instead in message
    assert re.search(r"line 1, column \d+: the subquery names columns of", message)
    assert cat["d.t"].scan().collect().equals(before)


def test_other_errors_of_subqueries_stay(cat):
    with pytest.raises(ColumnNotFound, match="nope"):
        cat.sql("DELETE FROM d.t WHERE id = (SELECT nope FROM d.s)")
    with pytest.raises(ColumnNotFound, match="nope"):
        cat.sql("DELETE FROM d.t WHERE id IN (SELECT id FROM d.s WHERE nope = 1)")
    cat.sql("DELETE FROM d.t WHERE id IN (SELECT id FROM d.s WHERE w = 7)")
    assert cat["d.t"].scan().collect().height == 3


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(["", "NOT "]), st.sampled_from(["s.id = t.id", "s.id = t.id AND s.w > t.v", "t.id = s.id AND t.v < 3"]))
def test_the_advised_statement_does_what_was_meant(tmp_path_factory, sign, condition):
    cat, base = lake(tmp_path_factory.mktemp("lake")), duckdb.connect()
    for text in SETUP:
        base.execute(text.format(""))
    meant = f"DELETE FROM {{}}t WHERE {sign}EXISTS (SELECT 1 FROM {{}}s WHERE {condition})"
    with pytest.raises(SqlError) as caught:
        cat.sql(meant.format("d.", "d."))
    advice = str(caught.value).partition("Write it as the source: ")[2].splitlines()[0]
    cat.sql(re.split(r"; |, or ", advice)[0])
    base.execute(meant.format("", ""))
    assert sorted(cat["d.t"].scan().collect().rows(), key=repr) == sorted(base.execute("SELECT * FROM t").fetchall(), key=repr)
