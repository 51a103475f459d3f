"""What an error advises works: remedies are tried, and name the argument, the column and the table that they are about."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys

import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import lakekit as lk
from lakekit.errors import SchemaMismatch, ValueOutOfRange

DTYPES = (
    pl.Int8(), pl.Int64(), pl.UInt64(), pl.Float32(), pl.Float64(), pl.Boolean(), pl.String(), pl.Binary(), pl.Date(), pl.Time(), pl.Datetime("ms"),
    pl.Datetime("ns", "Asia/Tokyo"), pl.Duration("ms"), pl.Decimal(20, 4), pl.Categorical(), pl.Enum(["1"]), pl.List(pl.Int32()), pl.Struct({"a": pl.Int32()}),
)  # fmt: skip
TYPES = (
    "TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "BOOLEAN", "STRING", "VARCHAR(3)", "BYTES", "BINARY(2)", "DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP(6)",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE", "DECIMAL(10, 2)", "ARRAY<INT>", "ROW<a INT>", "MAP<STRING, INT>",
)  # fmt: skip
VALUES = {
    pl.Boolean: True,
    pl.String: "1",
    pl.Binary: b"1",
    pl.Date: dt.date(2024, 1, 1),
    pl.Time: dt.time(1),
    pl.Datetime: dt.datetime(2024, 1, 1),  # noqa: DTZ001 - a wall clock
    pl.Duration: dt.timedelta(1),
    pl.Categorical: "1",
    pl.Enum: "1",
    pl.List: [1],
    pl.Struct: {"a": 1},
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    return {text: lk.create(folder / str(at), {"c": text}) for at, text in enumerate(TYPES)}


@given(dtype=st.sampled_from(DTYPES), text=st.sampled_from(TYPES))
@settings(max_examples=len(DTYPES) * len(TYPES) * 2, deadline=None)
def test_cast_is_advised_where_it_casts(tables, dtype, text):
    value = VALUES.get(type(dtype), 1)
    frame = pl.DataFrame(
        {
            "c": pl.Series([value]).cast(dtype)
            if not isinstance(dtype, pl.Datetime)
            else pl.Series([value]).cast(pl.Datetime(dtype.time_unit)).dt.replace_time_zone(dtype.time_zone)
        }
    )
    try:
        tables[text].append(frame)
    except (SchemaMismatch, ValueOutOfRange) as refused:
        message = str(refused)
        assert "column c of" in message
        if "cast=True" not in message:
            return
        try:
            tables[text].append(frame, cast=True)
        except ValueOutOfRange:  # of that type, and no value of it
            return


@pytest.mark.parametrize(
    ("text", "value", "parsed"),
    [
        ("DATE", "2024-03-31", dt.date(2024, 3, 31)),
        ("TIME(3)", "01:02:03", dt.time(1, 2, 3)),
        ("TIMESTAMP(3)", "2024-03-31 01:02:03", dt.datetime(2024, 3, 31, 1, 2, 3)),  # noqa: DTZ001 - a wall clock
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "2024-03-31 01:02:03", dt.datetime(2024, 3, 31, 1, 2, 3, tzinfo=dt.UTC)),
        ("BOOLEAN", "true", True),
    ],
)
@pytest.mark.parametrize("cast", [True, False])
def test_texts_are_parsed_as_the_error_says(tmp_path, text, value, parsed, cast):
    table = lk.create(tmp_path / "t", {"c": text})
    frame = pl.DataFrame({"c": [value]})
    with pytest.raises(SchemaMismatch, match="Parse the text first") as refused:
        table.append(frame, cast=cast)
    advised = str(refused.value).partition(" by ")[2]
    table.append(frame.with_columns(eval(advised).alias("c")), cast=True)
    assert table.scan().collect()["c"].item() == parsed


def test_a_statement_is_advised_in_its_own_words(tmp_path):
    catalog = lk.connect(tmp_path)
    catalog.create_database("d")
    catalog.create_table("d.t", {"a": "INT"})
    with pytest.raises((SchemaMismatch, ValueOutOfRange), match="CAST") as refused:
        catalog.sql("INSERT INTO d.t VALUES (1.005)")
    assert "cast=True" not in str(refused.value)
    catalog.sql("INSERT INTO d.t SELECT CAST(1.005 AS INT)")
    assert catalog["d.t"].scan().collect().height == 1


@pytest.mark.parametrize("value", ["2024-13-01", "31.03.2024", "", "x", "2024-02-30"])
def test_a_partition_value_that_is_none_names_its_column(tmp_path, value):
    table = lk.create(tmp_path / "t", {"id": "BIGINT", "day": "DATE"}, partition_keys=["day"], options={"partition.mark-done-action": "success-file"})
    frame = pl.DataFrame({"id": [1], "day": [dt.date(2024, 3, 31)]})
    table.append(frame)
    for call in (
        lambda: table.drop_partitions([{"day": value}]),
        lambda: table.overwrite(frame, partition={"day": value}),
        lambda: table.mark_partition_done([{"day": value}]),
    ):
        with pytest.raises(SchemaMismatch, match="partition column day of t, which is DATE") as refused:
            call()
        assert refused.value.column == "day"
    assert table.scan().collect().height == 1


def test_a_catalog_is_a_collection_of_names(tmp_path):
    catalog = lk.connect(tmp_path)
    for database in ("b", "a"):
        catalog.create_database(database)
        catalog.create_table(f"{database}.t", {"c": "INT"})
    assert sorted(catalog) == ["a.t", "b.t"]
    assert all(name in catalog and catalog[name].scan().collect_schema().names() == ["c"] for name in catalog)
    for wrong in (("a", "t"), 3, None, b"a.t"):
        with pytest.raises(TypeError, match="one text"):
            catalog[wrong]


def test_rows_that_cannot_be_read_are_called_what_they_are(tmp_path):
    table = lk.create(tmp_path / "t", {"id": "BIGINT"})
    cases = [
        (pd.DataFrame({"id": [1, "x"]}), "column id of the pandas DataFrame for t holds values of more than one type"),
        (pd.DataFrame([[1, 2]], columns=["id", "id"]), "two columns of the pandas DataFrame for t are called id"),
        ([(1, 2)], "rows for t come as tuples, which do not name their columns"),
        ([[1, 2]], "rows for t come as lists"),
    ]
    for rows, message in cases:
        with pytest.raises(SchemaMismatch, match=message):
            table.append(rows)
    for rows in (pl.DataFrame({"a": [1]}), pl.LazyFrame({"a": [1]}), pd.DataFrame({"a": [1]})):
        with pytest.raises(TypeError, match="found rows"):
            lk.create(tmp_path / "x", rows)


SILENT = """
import polars as pl, lakekit as lk, sys
columns, options = {"id": "BIGINT", "m": "MAP<STRING, INT>", "d": "DECIMAL(10, 2)"}, {"bucket": "1", "file.format": sys.argv[2]}
t = lk.create(sys.argv[1], columns, primary_keys=["id"], options=options)
t.upsert([{"id": 1, "d": 1}]); t.upsert([{"id": 2, "m": {"a": 1}}]); t.scan().filter(pl.col("id") == 1).collect(); t.compact(full=True)
t.delete("id = 1"); t.update({"d": 2}, where="id = 2"); t.aggregate(pl.len()); t.check(deep=True); t.analyze(); t.changes(1, 2).collect(); t.files()
a = lk.create(sys.argv[1] + "a", {"id": "BIGINT"}, options={"deletion-vectors.enabled": "true", "file.format": sys.argv[2]})
a.append([{"id": 1}, {"id": 2}]); a.delete("id = 1"); a.scan().collect(); a.update({"id": "id + 1"}, where="id = 2")
"""


@pytest.mark.parametrize("name", ["parquet", "orc", "avro"])
def test_lines_of_lakekit_warn_of_nothing_unstable(tmp_path, name):
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", SILENT, str(tmp_path / "t"), name],
        env={**os.environ, "POLARS_WARN_UNSTABLE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
