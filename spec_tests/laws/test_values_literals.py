"""Long lists of literals behind VALUES: columns of texts that DuckDB casts are the rows that it parses."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import example, given, settings, strategies as st

import lakekit as lk
from lakekit.sql import values_literal
from lakekit.sql.backend import Statement
from lakekit.sql.duckdb_backend import DuckDBBackend
from lakekit.sql.tokenizer import TokenStream

EDGES = [edge + step for edge in (0, 2**7, 2**15, 2**31, 2**32, 2**63, 2**64) for step in (-1, 0, 1)]
INTEGERS = st.one_of(st.sampled_from(EDGES), st.integers(-(10**20), 10**20), st.integers(-100, 100)).map(str)
DECIMALS = st.decimals(-(10**12), 10**12, places=4, allow_nan=False).map(lambda value: format(value, "f"))
NUMBERS = st.one_of(INTEGERS, DECIMALS, st.sampled_from(["007", "0.5", "00.50", "1e3", ".5", "5.", "-0", "1_000", "12345678901234567890123.25"]))
TEXTS = st.one_of(st.text(max_size=5), st.sampled_from(["it's", "a, (b)", "-- c", "null", "\\'"])).map(lambda text: "'" + text.replace("'", "''") + "'")
MOMENTS = st.sampled_from(["DATE '2024-02-29'", "DATE '1-1-1'", "DATE 'infinity'", "date '2024-1-05'"])
TIMESTAMPS = st.sampled_from(["TIMESTAMP '2024-02-29 10:00:00'", "TIMESTAMP '2024-02-29 10:00:00.123456'", "TIMESTAMP '2024-02-29'"])
BOOLEANS = st.sampled_from(["TRUE", "false"])
KINDS = [NUMBERS, INTEGERS, DECIMALS, TEXTS, MOMENTS, TIMESTAMPS, BOOLEANS, st.one_of(INTEGERS, TEXTS)]


@st.composite
def lists_of_values(draw):
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    rows = draw(st.lists(st.tuples(*(st.one_of(kind, kind, kind, st.just("NULL")) for kind in kinds)), min_size=1, max_size=12))
    return "VALUES " + ", ".join(f"({', '.join(row)})" for row in rows)


def answer(read, text):
    """The names, types and rows that a way to read a text gives, or the kind of its error."""
    try:
        rows = read(Statement(backend=DuckDBBackend(), catalog=lk.connect("/nowhere"), tokens=TokenStream.of(text)))
        return rows if rows is None else rows.collect()
    except lk.LakekitError as error:
        return type(error)


@settings(max_examples=150, deadline=None)
@example("VALUES (-2147483648), (-2147483649), (2147483648)")
@example("VALUES (1, 'a'), (2.50, NULL)")
@given(lists_of_values())
def test_literals_read_as_columns_are_those_of_the_query(text):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(values_literal, "_MIN_TOKENS", 0)
        found = answer(lambda statement: statement.backend.literal_rows(statement), text)
    if found is None:
        return
    expected = answer(lambda statement: statement.backend.query(statement, text), text)
    if isinstance(expected, pl.DataFrame):
        assert isinstance(found, pl.DataFrame)
        assert found.schema == expected.schema
        assert found.equals(expected)
    else:
        assert found == expected


def test_a_long_list_of_values_is_not_parsed(tmp_path, monkeypatch):
    catalog = lk.connect(tmp_path)
    catalog.sql("CREATE TABLE t (id INT, name STRING, price DECIMAL(9, 2), day DATE, flag BOOLEAN)")
    rows = [f"({i}, 'it''s {i}', {'NULL' if i % 7 == 0 else f'-{i}.5'}, DATE '2024-01-{i % 28 + 1:02}', {'TRUE' if i % 2 else 'DEFAULT'})" for i in range(3000)]
    read = []
    monkeypatch.setattr(DuckDBBackend, "query", lambda *_: read.append("query"))
    catalog.sql(f"INSERT INTO t VALUES {', '.join(rows)} -- the end")
    assert read == []
    found = catalog["default.t"].scan().sort("id").collect()
    assert found.height == 3000
    assert found.row(1, named=True) == {"id": 1, "name": "it's 1", "price": pytest.approx(-1.5), "day": found["day"][1], "flag": True}
    assert found["price"].null_count() == 429 and str(found["day"][27]) == "2024-01-28" and found["flag"][2] is None


@pytest.mark.parametrize("last", ["(1 + 1, 'a')", "(3)", "(4, 'a') LIMIT 1", "(5, 'a',)", "(6 'a')", "(DATE, 'a')", "(X'AB', 'a')", "(7, 'a'), "])
def test_what_is_more_than_literals_is_read_as_a_query(last):
    text = "VALUES " + ", ".join(f"({i}, 'x')" for i in range(1000)) + ", " + last
    assert values_literal.read(TokenStream.of(text)) is None
