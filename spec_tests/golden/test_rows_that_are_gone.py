"""A condition that fails of a value fails of rows of the table alone: older versions of a key and deleted rows lie in files, and are none of its rows."""

from __future__ import annotations

from decimal import Decimal

import polars as pl
import pytest

import lakekit as lk

pytestmark = pytest.mark.filterwarnings("ignore::polars.exceptions.PolarsInefficientMapWarning")

SCHEMA = {"k": "INT", "s": "STRING", "d": "DECIMAL(38, 2)", "l": "ARRAY<INT>", "v": "INT"}
KEYED = {"primary_keys": ["k"], "options": {"bucket": "1", "write-only": "true"}}
KINDS = {
    "key": KEYED,
    "orc": {**KEYED, "options": {**KEYED["options"], "file.format": "orc"}},
    "deleted": KEYED,
    "partial-update": {**KEYED, "options": {**KEYED["options"], "merge-engine": "partial-update"}},
    "key with vectors": {"primary_keys": ["k"], "options": {"bucket": "1", "deletion-vectors.enabled": "true"}},
    "vectors": {"options": {"deletion-vectors.enabled": "true"}},
    "avro with vectors": {"options": {"deletion-vectors.enabled": "true", "file.format": "avro"}},
}
GONE = [{"k": k, "s": "x", "d": Decimal("9" * 36 + ".99"), "l": [], "v": 0} for k in range(3)]
STAY = [{"k": k, "s": str(k + 4), "d": Decimal(k), "l": [k], "v": k + 1} for k in range(6)]
S = pl.col("s")


def is_great(text):
    if not text.isdigit():
        raise ValueError(text)
    return int(text) > 5


def is_small(value):
    if value == 0:
        raise ZeroDivisionError
    return value < 3


CONDITIONS = [
    (S.cast(pl.Int32) > 5, [2, 3, 4, 5]),
    (S.str.to_integer() > 5, [2, 3, 4, 5]),
    (S.map_elements(is_great, return_dtype=pl.Boolean), [2, 3, 4, 5]),
    (S.map_batches(lambda texts: texts.cast(pl.Int32) > 5, return_dtype=pl.Boolean, is_elementwise=True), [2, 3, 4, 5]),
    (pl.struct("s").map_elements(lambda row: is_great(row["s"]), return_dtype=pl.Boolean) & (pl.col("k") < 5), [2, 3, 4]),
    (pl.col("v").map_elements(is_small, return_dtype=pl.Boolean), [0, 1]),
    (pl.col("d") + 1 > 3, [3, 4, 5]),
    (pl.col("d") * pl.col("d") > 3, [2, 3, 4, 5]),
    (pl.col("d").cast(pl.Decimal(5, 2)) > 3, [4, 5]),
    (pl.col("l").list.get(0) > 2, [3, 4, 5]),
    (S.replace_strict({str(number): number for number in range(4, 10)}) > 5, [2, 3, 4, 5]),
    (S.str.slice(0, 1).cast(pl.Enum([str(number) for number in range(4, 10)])) > "5", [2, 3, 4, 5]),
]


def table(tmp_path, kind):
    t = lk.create(str(tmp_path / "t"), SCHEMA, **KINDS[kind])
    if kind in ("key", "orc", "partial-update", "key with vectors"):
        t.upsert(GONE)
        t.upsert(STAY)
        return t
    t.append([{**row, "k": row["k"] + 100} for row in GONE] + STAY)
    t.delete(pl.col("k") >= 100)
    return t


def keys(frame):
    return sorted(frame["k"].to_list())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("where", "found"), CONDITIONS, ids=str)
def test_reads(tmp_path, kind, where, found):
    t = table(tmp_path, kind)
    assert keys(t.scan().collect().filter(where)) == found
    assert keys(t.scan().filter(where).collect()) == found
    assert keys(t.scan().filter(where).collect(engine="streaming")) == found
    assert keys(t.scan().filter(where, pl.col("k") > 2).collect()) == [k for k in found if k > 2]
    assert t.scan().filter(where).select(pl.len()).collect().item() == len(found)
    assert t.aggregate(pl.col("k").sum(), where=where).item() == sum(found)
    t.explain(where)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("where", "found"), [CONDITIONS[at] for at in (0, 2, 6, 9)], ids=str)
def test_changes(tmp_path, kind, where, found):
    t = table(tmp_path, kind)
    source = pl.DataFrame({"k": [1, 3, 5]}, schema={"k": pl.Int32})
    t.merge(source, lk.when_matched(update={"v": 70}), on=(pl.col("k") == lk.source("k")) & where)
    assert keys(t.scan().filter(pl.col("v") == 70).collect()) == [k for k in found if k in (1, 3, 5)]
    t.update({"v": 77}, where=where)
    assert keys(t.scan().filter(pl.col("v") == 77).collect()) == found
    if kind != "partial-update":
        t.delete(where)
        assert keys(t.scan().collect()) == [k for k in range(6) if k not in found]


# ---- values that a changed type of their column has no place for


ENGINES = {
    "deduplicate": {},
    "first-row": {"merge-engine": "first-row"},
    "sequence": {"sequence.field": "q"},
    "ignore-delete": {"ignore-delete": "true"},
}


def retyped(tmp_path, engine, file_format):
    options = {"bucket": "1", "write-only": "true", "file.format": file_format, **ENGINES[engine]}
    if engine == "first-row":
        options |= {"write-only": "false", "num-sorted-run.compaction-trigger": "9"}
    t = lk.create(str(tmp_path / "t"), {"k": "INT", "v": "STRING", "q": "INT"}, primary_keys=["k"], options=options)
    gone, stay = {"v": "x y", "q": 1}, {"v": "7", "q": 2}
    first, then = (stay, gone) if engine == "first-row" else (gone, stay)
    for part in (first, then):
        t.upsert([{"k": k, **part} for k in range(4)])
    if engine == "deduplicate":
        t.delete(pl.col("k") == 3)
    t.alter(lk.update_type("v", "INT"))
    return lk.open(str(tmp_path / "t")), [(k, 7) for k in range(3 if engine == "deduplicate" else 4)]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("engine", ENGINES)
def test_values_of_rows_that_do_not_stand_need_no_place_in_a_changed_type(tmp_path, engine, file_format):
    t, rows = retyped(tmp_path, engine, file_format)
    if engine == "first-row":  # level 0 waits for compaction, which reads what comes first
        t.compact(full=True)
    frame = t.scan().select("k", "v")
    assert sorted(frame.collect().rows()) == rows
    assert sorted(frame.filter(pl.col("v") == 7).collect().rows()) == rows
    assert frame.filter(pl.col("k") == 1).collect().rows() == [(1, 7)]
    assert frame.filter(pl.col("v") > 7).collect().rows() == []
    assert t.aggregate(pl.col("v").sum()).item() == 7 * len(rows)
    t.compact(full=True)
    assert sorted(t.scan().select("k", "v").collect().rows()) == rows
    if engine != "ignore-delete":  # which refuses to delete
        t.delete(pl.col("v") == 7)
        assert t.scan().collect().height == 0


def test_a_row_that_stands_is_refused_as_before(tmp_path):
    t = lk.create(str(tmp_path / "t"), {"k": "INT", "v": "STRING"}, primary_keys=["k"], options={"bucket": "1", "write-only": "true"})
    t.upsert([{"k": 1, "v": "7"}])
    t.upsert([{"k": 1, "v": "x y"}])
    t.alter(lk.update_type("v", "INT"))
    for call in (t.scan().collect, lambda: t.compact(full=True)):
        with pytest.raises(lk.ValueOutOfRange, match="'x y', which says no INT"):
            call()
