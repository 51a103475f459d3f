# ruff: noqa: DTZ001 - times of TIMESTAMP have no zone
"""Expressions of callers mean the columns of the table, whatever lakekit puts beside them: row numbers, kinds, the source of a merge."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import polars as pl
import polars.selectors as cs
import pytest

import lakekit as lk
from lakekit.columns import col

KINDS = {
    "append": {},
    "vectors": {"options": {"deletion-vectors.enabled": "true"}},
    "partitioned": {"partition_keys": ["g"]},
    "key": {"primary_keys": ["k"], "options": {"bucket": "1"}},
    "partial-update": {"primary_keys": ["k"], "options": {"bucket": "2", "merge-engine": "partial-update"}},
}
SCHEMA = {"k": "INT", "g": "INT", "v": "INT", "s": "STRING"}
ROWS = [{"k": k, "g": k % 2, "v": 100 - k, "s": f"{k}"} for k in range(10)]
CONDITIONS = [
    pl.first() > 6,
    pl.nth(0) > 6,
    pl.nth(2) < 93,
    pl.last() > "6",
    pl.nth(-2) < 95,
    cs.by_index(0) > 6,
    pl.exclude("g", "v", "s") > 3,
    pl.col("^k.*$") > 3,
    cs.string() > "4",
    cs.starts_with("k") < 4,
    pl.any_horizontal(cs.numeric() == 0),
    pl.all_horizontal(cs.integer() > 0),
    pl.sum_horizontal(cs.numeric()) > 100,
    pl.max_horizontal(pl.exclude("v", "s")) == 7,
    pl.struct(pl.all()).struct.field("k") > 7,
    pl.concat_str(pl.all(), separator=",").str.starts_with("7,"),
    pl.coalesce(cs.integer()) == 5,
    pl.when(pl.first() > 5).then(pl.nth(1) == 1).otherwise(cs.last() == "2"),
    pl.fold(pl.lit(0), lambda one, other: one + other, cs.integer()) > 100,
    (pl.nth(2) < pl.nth(2).mean()) & (pl.first() > 7),
    pl.first().map_elements(lambda k: k > 6, return_dtype=pl.Boolean),
]


def table(tmp_path, kind, schema=SCHEMA, rows=ROWS):
    t = lk.create(str(tmp_path / kind), schema, **KINDS[kind])
    t.append(rows) if not kind.startswith(("key", "partial")) else t.upsert(rows)
    return t


def frame(t):
    return t.scan().collect().sort("k")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", CONDITIONS, ids=str)
@pytest.mark.filterwarnings("ignore::polars.exceptions.PolarsInefficientMapWarning")
def test_conditions(tmp_path, kind, where):
    t = table(tmp_path, kind)
    before = frame(t)
    found = before.filter(where)
    assert 0 < found.height < 10
    assert t.scan().filter(where).collect().sort("k").equals(found)
    assert t.aggregate(pl.col("k").sum(), where=where).item() == found["k"].sum()
    t.explain(where)
    t.update({"v": -1}, where=where)
    updated = before.with_columns(pl.when(where).then(pl.lit(-1, pl.Int32)).otherwise("v").alias("v"))
    assert frame(t).equals(updated)
    t.overwrite(before) if kind not in ("key", "partial-update") else t.upsert(before)
    if kind != "partial-update":
        t.delete(where)
        assert frame(t).equals(before.filter(~where))


VALUES = [
    pl.first(),
    pl.nth(1),
    cs.first() + cs.by_index(2),
    pl.sum_horizontal(cs.integer()),
    pl.exclude("g", "v", "s") * 2,
    pl.col("^g$"),
    pl.last().cast(pl.Int32),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", VALUES, ids=str)
def test_values(tmp_path, kind, value):
    t = table(tmp_path, kind)
    before = frame(t)
    t.update({"v": value}, where="k > 3")
    assert frame(t).equals(before.with_columns(pl.when(pl.col("k") > 3).then(value).otherwise("v").cast(pl.Int32).alias("v")))
    before = frame(t)
    source = pl.DataFrame({"k": [2, 5, 77], "v": [1, 2, 3]}, schema={"k": pl.Int32, "v": pl.Int32})
    t.merge(
        source, lk.when_matched(update={"v": value}, where=pl.first() < 4), lk.when_not_matched_by_source(update={"v": value}, where=pl.first() > 8), on=["k"]
    )
    here = ((pl.col("k").is_in([2, 5])) & (pl.col("k") < 4)) | (pl.col("k") > 8)
    assert frame(t).equals(before.with_columns(pl.when(here).then(value).otherwise("v").cast(pl.Int32).alias("v")))


@pytest.mark.parametrize("kind", KINDS)
def test_a_merge_computes_with_both_sides(tmp_path, kind):
    t = table(tmp_path, kind)
    before = frame(t)
    source = pl.DataFrame({"k": [2, 5, 77], "v": [1, 2, 3], "*": [7, 8, 9]}, schema={"k": pl.Int32, "v": pl.Int32, "*": pl.Int32})
    new = pl.sum_horizontal(cs.integer()) + lk.source("v") + lk.source("*") + pl.last().cast(pl.Int32)
    t.merge(
        source,
        lk.when_matched(update={"v": new}, where=pl.nth(1) < lk.source("k")),
        lk.when_not_matched(insert={"k": lk.source("k"), "g": lk.source("*")}),
        on=["k"],
    )
    sums = {2: 2 + 0 + 98 + 1 + 7 + 2, 5: 5 + 1 + 95 + 2 + 8 + 5}
    found = frame(t)
    assert found.filter(pl.col("k") < 77).equals(before.with_columns(pl.col("k").replace_strict(sums, default=pl.col("v"), return_dtype=pl.Int32).alias("v")))
    assert found.filter(pl.col("k") == 77).rows() == [(77, 9, None, None)]


def test_of_rows_that_are_not_there(tmp_path):
    t = table(tmp_path, "append")
    source = pl.DataFrame({"k": [77]}, schema={"k": pl.Int32})
    with pytest.raises(lk.ColumnNotFound, match="target column 'k'"):
        t.merge(source, lk.when_not_matched(insert={"k": pl.first()}), on=["k"])
    for where in (pl.all() == 3, cs.temporal() == 3):
        with pytest.raises(lk.SchemaMismatch, match="columns, and one is wanted"):
            t.delete(where)
    with pytest.raises(lk.SchemaMismatch) as told:
        t.merge(source, lk.when_matched(delete=True, where=lk.source("k") == "x"), on=["k"])
    assert "s.k" in str(told.value)
    assert "\x1f" not in str(told.value)


def test_names_that_are_patterns_in_text(tmp_path):
    schema = {"k": "INT", "g": "INT", "a": "STRING", "^a$": "STRING", "*": "STRING"}
    t = table(tmp_path, "append", schema, [{"k": 1, "g": 1, "a": "A", "^a$": "x", "*": "y"}, {"k": 2, "g": 2, "a": "x", "^a$": "A", "*": "z"}])
    for where in ("\"^a$\" = 'x' AND \"*\" = 'y'", "\"*\" = 'y'", "\"^a$\" > 'A'"):
        assert t.aggregate(pl.col("k").sum(), where=where).item() == 1
    assert t.aggregate(pl.col("k").sum(), where="a = 'x'").item() == 2


PATTERNS = {"*": "INT", "k": "INT", "^a$": "STRING", "a": "STRING", "v": "INT"}
PATTERN_ROWS = [(1, 1, "x", "A", 7), (2, 2, "y", "x", 8), (3, 3, "z", "C", 9)]


@pytest.mark.parametrize("fmt", ["parquet", "orc"])
@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"options": {"deletion-vectors.enabled": "true"}},
        {"partition_keys": ["*"]},
        {"partition_keys": ["^a$"]},
        {"primary_keys": ["*"], "options": {"bucket": "1"}},
        {"primary_keys": ["*", "^a$"], "partition_keys": ["^a$"], "options": {"bucket": "1"}},
    ],
    ids=str,
)
def test_names_that_are_patterns_in_changes(tmp_path, keys, fmt):
    """Rows are deleted and updated by columns called `*` and `^a$`, whatever else the columns are for."""
    t = lk.create(str(tmp_path / "t"), PATTERNS, **keys | {"options": {**keys.get("options", {}), "file.format": fmt}})
    t.append(pl.DataFrame(PATTERN_ROWS, schema={"*": pl.Int32, "k": pl.Int32, "^a$": pl.String, "a": pl.String, "v": pl.Int32}, orient="row"))
    t.update({"v": pl.nth(0) + 100}, where='"*" = 2')
    t.update({"v": '"*" + 200'}, where=col("^a$") == "z")
    if "^a$" not in keys.get("primary_keys", ()):
        t.update({"^a$": pl.lit("q")}, where=col("*") == 1)
    t.update({"a": col("^a$")}, where=col("*") == 2)
    t.delete("\"^a$\" = 'z'")
    first = "x" if "^a$" in keys.get("primary_keys", ()) else "q"
    assert t.scan().sort("k").collect().rows() == [(1, 1, first, "A", 7), (2, 2, "y", "y", 102)]
    t.delete(col("*") == 1)
    assert t.scan().collect().rows() == [(2, 2, "y", "y", 102)]


def test_partitions_are_chosen_by_columns_of_any_name(tmp_path):
    t = lk.create(str(tmp_path / "t"), {"v": "INT", "lakekit.at": "INT", "p": "INT"}, partition_keys=["lakekit.at", "p"])
    for v in (1, 2):
        t.append([{"v": v, "lakekit.at": at, "p": at} for at in (5, 6)])
    for where in (pl.col("lakekit.at") == 5, pl.nth(1) == 5):
        t.compact(where=where, full=True)
        assert t.files().height == 3, "those of 5 became one file, those of 6 are two"


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (pl.col("s").cast(pl.Int32) > 5, "could not compute the condition where="),
        (pl.when(pl.col("k") > 5).then(pl.col("k") > 3).otherwise(pl.struct(pl.all()).struct.field("*").is_null()), "does not fit"),
    ],
    ids=str,
)
def test_conditions_that_cannot_be_computed_are_refused(tmp_path, where, said):
    t = table(tmp_path, "append", rows=[*ROWS, {"k": 11, "g": 1, "v": 1, "s": "x"}])
    with pytest.raises(lk.SchemaMismatch, match=said):
        t.aggregate(pl.len(), where=where)
    with pytest.raises(lk.SchemaMismatch):
        t.delete(where)
    assert t.aggregate(pl.len()).item() == 11


def test_moments_of_two_zones(tmp_path):
    t = lk.create(str(tmp_path / "t"), {"id": "INT", "ts": "TIMESTAMP(6) WITH LOCAL TIME ZONE"}, primary_keys=["id"], options={"bucket": "1"})
    t.upsert([{"id": 1, "ts": datetime(2024, 1, 1, tzinfo=UTC)}, {"id": 2, "ts": datetime(2024, 1, 2, tzinfo=UTC)}])
    there = datetime(2024, 1, 1, 9, tzinfo=ZoneInfo("Asia/Tokyo"))
    with pytest.raises(lk.SchemaMismatch, match=r"Asia/Tokyo and UTC.*astimezone\(UTC\)"):
        t.delete(pl.col("ts") == there)
    source = pl.DataFrame({"ts": [there], "id": [7]}, schema={"ts": pl.Datetime("us", "Asia/Tokyo"), "id": pl.Int32})
    t.merge(source, lk.when_matched(delete=True), lk.when_not_matched(), on=["ts"])
    assert t.scan().collect()["id"].to_list() == [2]
    t.merge(source, lk.when_not_matched(), on=["ts"])
    assert t.scan().sort("id").collect().rows() == [(2, datetime(2024, 1, 2, tzinfo=UTC)), (7, datetime(2024, 1, 1, tzinfo=UTC))]


@pytest.mark.parametrize(
    ("where", "left"),
    [
        (pl.col("day").dt.month() == 3, 1),
        (pl.col("day").dt.day() > 5, 0),
        (pl.col("p").str.contains("a"), 2),
        (pl.col("p").str.len_chars() + 1 == 2, 2),
        (pl.col("day") == datetime(2024, 3, 1), 1),
        (pl.col("day").cast(pl.String, strict=False) == "2024-03-01", 1),
        (pl.col("day").cast(pl.String) == "2024-03-01", 4),  # a cast that may fail Polars hands to no source
        (pl.col("p").str.to_uppercase().is_in(["AB", "B"]), 2),
    ],
    ids=str,
)
def test_what_partition_columns_decide_row_by_row_prunes(tmp_path, where, left):
    t = lk.create(str(tmp_path / "t"), {"day": "DATE", "p": "STRING", "v": "INT"}, partition_keys=["day", "p"])
    rows = [{"day": datetime(2024, month, 1).date(), "p": p, "v": month} for month, p in ((1, "ab"), (2, "a"), (3, "b"), (4, "cde"))]
    t.append(rows)
    assert t.explain(where).files_read == left
    assert t.scan().filter(where).collect().sort("v").equals(t.scan().collect().sort("v").filter(where))
