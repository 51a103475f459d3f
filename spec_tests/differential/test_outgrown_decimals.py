"""Sums of DECIMAL that outgrow their type: after compaction the reference finds what lakekit finds, whoever wrote and compacted."""

from __future__ import annotations

from decimal import Decimal

import polars as pl
import pytest

import lakekit as lk

pytestmark = pytest.mark.reference
OPTIONS = {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}


@pytest.mark.parametrize("precision", [5, 18])
@pytest.mark.parametrize("format_name", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("who", ["lakekit", "reference", "both"])
def test_both_find_the_same(judge, tmp_path, who, format_name, precision):
    path = str(tmp_path / "t")
    t = lk.create(path, {"k": "INT", "v": f"DECIMAL({precision}, 2)"}, primary_keys=["k"], options={**OPTIONS, "file.format": format_name})
    most = Decimal(10**precision - 1).scaleb(-2)
    for _ in range(2):
        if who == "reference":
            judge.write(path, [("+I", (1, str(most))), ("+I", (2, "1.50"))])
        else:
            t.upsert([{"k": 1, "v": most}, {"k": 2, "v": Decimal("1.50")}])
    if who == "lakekit":
        t.compact(full=True)
    else:
        judge.compact(path, full=True)
    texts = t.scan().sort("k").select(pl.col("v").cast(pl.Decimal(38, 2), strict=False).cast(pl.String)).collect()["v"].to_list()
    assert texts == [str(most * 2) if format_name == "parquet" else None, "3.00"]
    assert sorted(values for _, values in judge.read(path).rows) == [(1, texts[0]), (2, texts[1])]
