"""`SELECT … FROM t WHERE …` that compares columns with constants is the scan itself: DuckDB gives the same rows."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import lakekit as lk
from lakekit.sql import query_frame

ROWS = pl.DataFrame(
    {
        "id": pl.Series([1, 2, 3, 4, 5, 6], dtype=pl.Int64),
        "b": pl.Series([-128, 127, 0, None, 5, -1], dtype=pl.Int8),
        "i": pl.Series([2**31 - 1, -(2**31), 0, 7, None, -7], dtype=pl.Int32),
        "s": ["", "a", "A", "it's", None, "é"],
        "f": [1.0, float("nan"), None, -0.0, 0.0, 2.5],
    }
)
EDGES = ["127", "128", "-128", "-129", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808"]
NUMBERS = st.sampled_from(["0", "7", "-7", *EDGES, "007", "1.5", "1e1", "'7'", "NULL"])
TEXTS = st.sampled_from(["''", "'a'", "'A'", "'it''s'", "'é'", "NULL", "7"])
SIGNS = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
COLUMNS = st.sampled_from(["id", "b", "i", "f", "ID", "o.i", "`b`", '"i"'])
COMPARISONS = st.one_of(
    st.tuples(COLUMNS, SIGNS, NUMBERS).map(" ".join),
    st.tuples(NUMBERS, SIGNS, COLUMNS).map(" ".join),
    st.tuples(st.sampled_from(["s", "o.s"]), SIGNS, TEXTS).map(" ".join),
    st.sampled_from(["id IN (1, 3)", "i BETWEEN -7 AND 7", "s IS NULL", "NOT i = 7", "id + 1 > 3"]),
)
CONDITIONS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(st.tuples(inner, st.sampled_from(["AND", "AND", "OR"]), inner).map(" ".join), inner.map("({})".format)),
    max_leaves=4,
)
OUTPUTS = st.sampled_from(["*", "id, s", "o.*", "s AS id, b", "ID", "id + 1 AS n"])


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    made = lk.connect(tmp_path_factory.mktemp("lake"))
    made.sql("CREATE TABLE t (id BIGINT, b TINYINT, i INT, s STRING, f DOUBLE)")
    made["default.t"].append(ROWS)
    return made


def rows_of(catalog, text):
    try:
        return catalog.sql(text).collect()
    except lk.LakekitError as error:
        return type(error)


@settings(max_examples=150, deadline=None)
@given(outputs=OUTPUTS, condition=CONDITIONS)
def test_a_filter_that_is_the_scan_gives_the_rows_of_duckdb(catalog, outputs, condition):
    text = f"SELECT {outputs} FROM t AS o WHERE {condition}"
    found = rows_of(catalog, text)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(query_frame, "plain_frame", lambda _: None)
        expected = rows_of(catalog, text)
    if isinstance(expected, pl.DataFrame):
        assert isinstance(found, pl.DataFrame)
        assert found.schema == expected.schema
        assert found.equals(expected)
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("condition", "is_plain"),
    [
        ("id > 3", True),
        ("(id > 3 AND s = 'a') AND b <> -5", True),
        ("b = 128", False),
        ("f > 1", False),
        ("s > 'a'", False),
        ("id > 1.5", False),
        ("id = '3'", False),
        ("id > 1 OR id < 0", False),
        ("id + 1 > 3", False),
    ],
)
def test_integers_and_equal_texts_need_no_duckdb(catalog, condition, is_plain, monkeypatch):
    bound, bind = [], query_frame.bind
    monkeypatch.setattr(query_frame, "bind", lambda *given: bound.append(1) or bind(*given))
    catalog.sql(f"SELECT id FROM t WHERE {condition} LIMIT 2").collect()
    assert bool(bound) != is_plain
