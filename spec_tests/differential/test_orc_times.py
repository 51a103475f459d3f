"""Times that the reference's ORC gives back as others: file indexes and statistics know them as they were written, and rule out no row that reads otherwise."""

from __future__ import annotations

import operator

import polars as pl
import pytest

import lakekit as lk

pytestmark = pytest.mark.reference

TIMES = (
    [-1, 0],
    [-500, 0],
    [-999, 1000],
    [-1000, 0],
    [-1001, 0],
    [-12_219_292_800_001, 0],
    [-13_000_000_000_000, 0],
    [-40_000_000_000_000, 0],
    [0, 0],
    [999, 0],
    [1000, 0],
    [9, 0],
)


@pytest.mark.parametrize(("kind", "stats"), [("bitmap", "none"), ("bsi", "none"), ("range-bitmap", "none"), ("bloom-filter", "none"), ("bitmap", "full")])
@pytest.mark.parametrize("t", ["TIMESTAMP(3)", "TIMESTAMP(6) WITH LOCAL TIME ZONE"])
def test_indexes_rule_out_no_time_that_reads_otherwise(judge, tmp_path, kind, stats, t):
    path = tmp_path / "t"
    options = {"bucket": "-1", "file.format": "orc", "metadata.stats-mode": stats, f"file-index.{kind}.columns": "t"}
    judge.create(path, {"k": "INT", "t": t}, options=options)
    for k, time in enumerate(TIMES):
        judge.write(path, [("+I", (k, time))])
    table = lk.open(path)
    rows = table.with_options({"file-index.read.enabled": "false"}).scan().collect()
    for asked in rows["t"].unique().cast(pl.Int64).sort().to_list():
        for compare in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
            wanted = compare(pl.col("t"), pl.lit(asked).cast(rows.schema["t"]))
            assert table.scan().filter(wanted).collect().sort("k").equals(rows.filter(wanted).sort("k")), (asked, compare)


def test_other_times_and_formats_still_leave_files_out(tmp_path):
    for file_format, seconds, read in (("orc", (1000, 2000), 1), ("parquet", (0, 1), 1), ("orc", (0, 1), 2)):
        options = {"file.format": file_format, "metadata.stats-mode": "none", "file-index.bitmap.columns": "t"}
        table = lk.create(tmp_path / f"{file_format}{seconds[0]}", {"t": "TIMESTAMP(3)"}, options=options)
        for second in seconds:
            table.append(pl.DataFrame({"t": pl.Series([second * 1000]).cast(pl.Datetime("ms"))}))
        assert table.explain(pl.col("t") == pl.lit(seconds[0] * 1000).cast(pl.Datetime("ms"))).files_read == read
