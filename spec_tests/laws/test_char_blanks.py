"""Texts with blanks at their ends in CHAR columns: rows of ORC files come without them, indexes and buckets were made with them, and filters lose no row."""

from __future__ import annotations

import polars as pl
import pytest

import lakekit as lk

VALUES = ["x", "x  ", "   ", "", "abc", "a  ", None]
FILTERS = [
    *(pl.col("c") == text for text in ("x", "x  ", "", "   ", "abc", "a")),
    pl.col("c") != "x ",
    pl.col("c").is_in(["x", "a"]),
    ~pl.col("c").is_in(["x  ", ""]),
    pl.col("c") < "x ",
    pl.col("c") <= "a",
    pl.col("c") > "a",
    pl.col("c") >= "x",
    pl.col("c").str.starts_with("x"),
    pl.col("c").is_null(),
]


@pytest.mark.parametrize("at_once", [True, False], ids=["one file", "a file each"])
@pytest.mark.parametrize("index", ["bitmap", "bloom-filter", "range-bitmap"])
@pytest.mark.parametrize("file_format", ["orc", "parquet"])
@pytest.mark.parametrize("wide", ["CHAR(3)", "CHAR(90)"])
def test_filters_lose_no_row(tmp_path, wide, file_format, index, at_once):
    table = lk.create(
        tmp_path, {"k": "INT", "c": wide}, options={"file.format": file_format, f"file-index.{index}.columns": "c", "metadata.stats-mode": "none"}
    )
    rows = [{"k": k, "c": text} for k, text in enumerate(VALUES)]
    for part in [rows] if at_once else [[row] for row in rows]:
        table.append(part)
    every = table.scan().collect()
    for where in FILTERS:
        wanted = sorted(every.filter(where)["k"])
        assert sorted(table.scan().filter(where).collect()["k"]) == wanted, where
        assert table.aggregate(pl.len(), where=where).item() == len(wanted), where


def test_an_index_still_leaves_files_out(tmp_path):
    table = lk.create(tmp_path, {"c": "CHAR(3)"}, options={"file.format": "orc", "file-index.bitmap.columns": "c", "metadata.stats-mode": "none"})
    for text in VALUES:
        table.append([{"c": text}])
    assert table.explain(pl.col("c") == "x").files_read == 2


@pytest.mark.parametrize("file_format", ["orc", "parquet"])
@pytest.mark.parametrize("options", [{"bucket": "4"}, {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("wide", ["CHAR(3)", "CHAR(300)"])
def test_filters_by_key_look_in_the_bucket_of_the_key_that_was_written(tmp_path, wide, options, file_format):
    table = lk.create(tmp_path, {"c": f"{wide} NOT NULL", "v": "INT"}, primary_keys=["c"], options={**options, "file.format": file_format})
    table.upsert([{"c": text, "v": v} for v, text in enumerate(("x  ", "y  ", "abc", "z", "q  ", "r", "a  ", "b  "))])
    every = table.scan().collect()
    for text in ("x", "x  ", "y", "abc", "z", "q", "r", "a", "b"):
        assert table.scan().filter(pl.col("c") == text).collect().rows() == every.filter(pl.col("c") == text).rows(), text
