"""INSERT takes a text into a DATE, TIME, TIMESTAMP or DECIMAL column as DuckDB does, or refuses it before a row is written; no digit is dropped."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import lakekit as lk
from lakekit.errors import LakekitError, SchemaMismatch, ValueOutOfRange
from lakekit.sql.store_assignment import store_column
from lakekit.types import Field, parse

TYPES = {
    "DATE": "DATE",
    "TIME(3)": "TIME",
    "TIMESTAMP(3)": "TIMESTAMP",
    "TIMESTAMP(6)": "TIMESTAMP",
    "TIMESTAMP(9)": "TIMESTAMP_NS",
    "DECIMAL(5, 2)": "DECIMAL(5, 2)",
    "DECIMAL(38, 10)": "DECIMAL(38, 10)",
}
LTZ = "TIMESTAMP(6) WITH LOCAL TIME ZONE"

days = st.dates(dt.date(1, 1, 1)).map(dt.date.isoformat)
clocks = st.times().map(lambda time: time.isoformat(timespec="auto")) | st.sampled_from(["10:00", "00:00:00", "23:59:59.999", "24:00:00", "7:05", "12:60"])
moments = st.builds(lambda day, sign, clock: f"{day}{sign}{clock}", days, st.sampled_from([" ", "T"]), clocks)
numbers = st.decimals(-(10**6), 10**6, places=4).map(str) | st.integers(-(10**30), 10**30).map(str)
odd = st.sampled_from(
    [
        "",
        " ",
        "x",
        ".",
        "+",
        "-.5",
        "1.",
        ".50",
        "+7",
        "1e2",
        "2024-13-01",
        "2024-02-30",
        "2024-1-5",
        " 2024-01-05 ",
        "2024-01-05 00:00:00.000",
        "2024-01-05 10:00:00+02",
        "NaN",
        "١",
        "1_0",
        "0x1",
    ]
)
texts = st.one_of(days, clocks, moments, numbers, odd, st.text(alphabet="0123456789-:. T+", max_size=12))


def duck(text, kind):
    """What DuckDB's INSERT stores, as a text of that value; None where it refuses the text."""
    base = duckdb.connect()
    base.execute(f"CREATE TABLE t (c {kind})")
    try:
        base.execute("INSERT INTO t VALUES (CAST(? AS VARCHAR))", [text.strip()])  # blanks around a text are left out, as Spark does
    except duckdb.Error:
        return None
    return base.execute("SELECT c FROM t").fetchone()[0]


def stored(text, kind):
    """What is stored of a text; None where it is refused."""
    field = Field("c", parse(kind))
    rows = pl.LazyFrame({"c": [text]}, schema={"c": pl.String})
    try:
        value = rows.select(store_column("c", pl.String(), field, "UTC")).collect().item()
    except ValueOutOfRange as wrong:
        assert wrong.column == "c"
        return None
    is_wide = isinstance(value, Decimal) and abs(value) >= 10 ** (field.type.precision - field.type.scale)
    return None if is_wide else value  # the width is held against the column when it is written


@settings(max_examples=400, deadline=None)
@given(texts, st.sampled_from(sorted(TYPES)))
def test_a_text_is_stored_as_duckdb_stores_it_or_refused(text, kind):
    ours, theirs = stored(text, kind), duck(text, TYPES[kind])
    if ours is not None:
        assert theirs is not None, (text, ours)
        assert ours == theirs
        assert not isinstance(ours, Decimal) or Decimal(text.strip()) == ours


@settings(max_examples=100, deadline=None)
@given(st.dates(dt.date(1, 1, 1)), st.datetimes(), st.times(), st.decimals(-999, 999, places=2))
def test_texts_of_values_go_in(day, moment, time, number):
    assert stored(day.isoformat(), "DATE") == day
    assert stored(moment.isoformat(sep=" "), "TIMESTAMP(6)") == moment
    assert stored(moment.isoformat(), "TIMESTAMP(6)") == moment
    assert stored(time.isoformat(), "TIME(3)") == time
    assert stored(str(number), "DECIMAL(5, 2)") == number


@pytest.fixture(scope="module")
def cat(tmp_path_factory):
    made = lk.connect(tmp_path_factory.mktemp("house"))
    made.create_database("d")
    made.sql("USE d")
    made.create_table(
        "d.t", {"k": "INT", "d": "DATE", "t": "TIMESTAMP(3)", "l": LTZ, "n": "DECIMAL(5, 2)", "h": "TIME(3)", "i": "INT", "b": "BOOLEAN", "f": "DOUBLE"}
    )
    made.create_table("d.s", {"k": "INT", "x": "STRING"})
    return made


@pytest.mark.parametrize("form", ["VALUES (1, {})", "SELECT 1, {}", "SELECT 1, CAST({} AS VARCHAR)"])
def test_insert(cat, form):
    for column, text, value in (
        ("d", "2024-01-05", dt.date(2024, 1, 5)),
        ("t", "2024-01-05 10:00:00.123", dt.datetime.fromisoformat("2024-01-05 10:00:00.123")),
        ("t", "2024-01-05", dt.datetime.fromisoformat("2024-01-05")),
        ("l", "2024-01-05 10:00:00+02", dt.datetime(2024, 1, 5, 8, tzinfo=dt.UTC)),
        ("l", "2024-01-05T10:00:00Z", dt.datetime(2024, 1, 5, 10, tzinfo=dt.UTC)),
        ("n", "2.5", Decimal("2.50")),
        ("h", "10:00", dt.time(10)),
    ):
        cat.sql("TRUNCATE TABLE t")
        literal = f"'{text}'"
        assert cat.sql(f"INSERT INTO t (k, {column}) {form.format(literal)}")["row_count"].item() == 1
        assert cat.sql(f"SELECT {column} FROM t").collect().item() == value


@pytest.mark.parametrize(
    ("column", "text", "kind"),
    [
        ("d", "x", ValueOutOfRange),
        ("d", "2024-13-05", ValueOutOfRange),
        ("d", "2024-01-05 10:00", ValueOutOfRange),
        ("t", "2024-01-05 10:00:00.1234", ValueOutOfRange),
        ("t", "2024-01-05 10:00:00+02", ValueOutOfRange),
        ("n", "2.555", ValueOutOfRange),
        ("n", "1234.5", ValueOutOfRange),
        ("h", "25:00", ValueOutOfRange),
        ("i", "7", SchemaMismatch),
        ("f", "7", SchemaMismatch),
        ("b", "true", SchemaMismatch),
    ],
)
def test_another_text_is_refused_before_a_row_is_written(cat, column, text, kind):
    cat.sql("INSERT INTO s SELECT range, '2024-01-05' FROM range(5)")
    before = cat["d.t"].snapshots().height
    for source in (f"VALUES (1, NULL), (2, '{text}')", f"SELECT 1, '{text}'", f"SELECT k, CASE WHEN k = 4 THEN '{text}' ELSE NULL END FROM s"):
        with pytest.raises(LakekitError) as caught:
            cat.sql(f"INSERT INTO t (k, {column}) {source}")
        assert isinstance(caught.value, kind)
        assert f"column {column}" in str(caught.value)
    assert cat["d.t"].snapshots().height == before


def test_overwrite_of_a_partition_and_a_table_of_another_catalog_take_texts_too(cat):
    cat.create_table("d.p", {"k": "INT", "d": "DATE"}, partition_keys=["d"])
    cat.sql("INSERT INTO p BY NAME SELECT '2024-01-05' AS d, 1 AS k; INSERT OVERWRITE p SELECT 2, '2024-01-05'")
    assert cat.sql("SELECT k, d FROM p").collect().rows() == [(2, dt.date(2024, 1, 5))]
