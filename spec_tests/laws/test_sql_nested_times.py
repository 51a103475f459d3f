"""Days and moments that Polars cannot print are refused by their column at any depth of a query's answer; all others are answered as DuckDB has them."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given, settings, strategies as st

import lakekit as lk
from lakekit.errors import ValueOutOfRange

FAR = ["DATE '300000-01-01'", "DATE '5874897-12-31'", "DATE '290000-01-01'", "TIMESTAMP '290000-01-01 00:00:00'", "TIMESTAMPTZ '290000-01-01 00:00:00+00'"]
FAR += ["DATE 'infinity'", "TIMESTAMP '-infinity'", "TIME '24:00:00'"]
NEAR = ["DATE '2024-01-03'", "DATE '9999-12-31'", "TIMESTAMP '2024-01-03 10:00:00'", "TIME '23:59:59'", "NULL::DATE", "NULL::TIMESTAMP", "NULL::TIME"]
FORMS = ["{}", "[{}]", "[NULL, {}]", "{{'a': {}}}", "{{'a': 1, 'b': {{'c': {}}}}}", "MAP {{'k': {}}}", "[[{}], []]", "[{{'a': {}}}]", "array_value({})"]
FORMS += ["MAP {{'k': [{}]}}", "[NULL, [{{'a': [{}]}}]]"]


@pytest.fixture(scope="module")
def cat(tmp_path_factory):
    made = lk.connect(tmp_path_factory.mktemp("far") / "lake")
    made.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT); INSERT INTO d.t VALUES (1), (2)")
    return made


@pytest.mark.parametrize("form", FORMS)
def test_a_far_time_is_refused_at_any_depth(cat, form):
    for value in FAR:
        for source in ("", " FROM d.t"):
            with pytest.raises(ValueOutOfRange, match=r"column 'c' of the query has .*CAST it to VARCHAR"):
                cat.sql(f"SELECT 1 AS a, {form.format(value)} AS c{source}").collect()
    assert cat.sql(f"SELECT CAST({form.format(FAR[0])} AS VARCHAR) AS c FROM d.t").collect().height == 2


def test_insert_of_a_far_time_writes_no_row(cat):
    cat.sql("CREATE TABLE d.nested (a ARRAY<DATE>, r ROW<x TIMESTAMP(6)>, m MAP<STRING, DATE>)")
    for values in ("[DATE '300000-01-01'], NULL, NULL", "NULL, ROW(TIMESTAMP '290000-01-01 00:00:00'), NULL", "NULL, NULL, MAP {'k': DATE '300000-01-01'}"):
        with pytest.raises(ValueOutOfRange, match="beyond the years"):
            cat.sql(f"INSERT INTO d.nested VALUES ({values})")
    assert cat["d.nested"].scan().collect().height == 0


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(FORMS), st.sampled_from(NEAR + FAR), st.sampled_from(["", " FROM d.t WHERE id = 1"]))
def test_drawn_times_are_duckdbs_or_refused(cat, form, value, source):
    text = f"SELECT {form.format(value)} AS c"
    try:
        mine = cat.sql(text + source).collect()
    except ValueOutOfRange:
        assert value in FAR
        return
    assert value in NEAR
    theirs = duckdb.connect().execute(f"SELECT {form.format(value)} AS c").fetchone()[0]
    ours = mine["c"].to_list()[0]
    if form.startswith("MAP"):
        ours = {entry["key"]: entry["value"] for entry in ours}
    assert ours == (list(theirs) if isinstance(theirs, tuple) else theirs)
