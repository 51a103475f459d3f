"""Times in an answer of DuckDB that Polars has not: refused when they are collected, never NULL and no panic."""

from __future__ import annotations

import datetime as dt

import pytest

import lakekit as lk
from lakekit.errors import ValueOutOfRange


@pytest.fixture(scope="module")
def cat(tmp_path_factory):
    made = lk.connect(tmp_path_factory.mktemp("lake"))
    made.sql("CREATE DATABASE db; USE db; CREATE TABLE t (id INT, d DATE); INSERT INTO t VALUES (1, '2024-01-01'), (2, NULL)")
    return made


@pytest.mark.parametrize(
    "value",
    [
        "TIME '24:00:00'",
        "DATE '999999-01-01'",
        "'infinity'::DATE",
        "'-infinity'::DATE",
        "DATE '262143-01-01'",
        "TIMESTAMP '290000-01-01'",
        "'infinity'::TIMESTAMP",
        "'infinity'::TIMESTAMPTZ",
    ],
)
@pytest.mark.parametrize(
    "query", ["SELECT {} AS x", "SELECT id, {} AS x FROM t", "SELECT max({}) AS x FROM t", "SELECT d, x FROM (SELECT d, {} AS x FROM t) ORDER BY d"]
)
def test_a_time_that_polars_has_not_is_refused(cat, query, value):
    rows = cat.sql(query.format(value))
    with pytest.raises(ValueOutOfRange, match="column 'x'"):
        rows.collect()


@pytest.mark.parametrize(
    "value", ["TIME '23:59:59.999999'", "NULL::TIME", "DATE '262142-12-31'", "'262143-01-01 (BC)'::DATE", "NULL::DATE", "TIMESTAMP '9999-12-31 23:59:59'"]
)
def test_a_time_that_polars_has_is_collected(cat, value):
    for query in ("SELECT {} AS x", "SELECT id, {} AS x FROM t"):
        assert cat.sql(query.format(value)).collect().height
    assert cat.sql("SELECT TIME '12:00:00' AS x, d FROM t ORDER BY d").collect()["x"].to_list() == [dt.time(12)] * 2
