"""Conditions with functions of Python that do not pickle, and with elements of lists: Polars names neither by a column of the table."""

from __future__ import annotations

from threading import Lock

import polars as pl
import polars.selectors as cs
import pytest

import lakekit as lk

pytestmark = pytest.mark.filterwarnings("ignore::polars.exceptions.PolarsInefficientMapWarning")

SCHEMA = {"k": "INT", "p": "INT", "v": "BIGINT", "l": "ARRAY<INT>"}
ROWS = [{"k": k, "p": k % 3, "v": 10 * k, "l": [k, None] if k % 2 else [k]} for k in range(8)]
LATER = [{**row, "v": 10 * row["k"] + 1} for row in ROWS[:4]]
LOCK = Lock()
KINDS = {
    "append": {},
    "orc": {"options": {"file.format": "orc"}},
    "avro": {"options": {"file.format": "avro"}},
    "vectors": {"options": {"deletion-vectors.enabled": "true"}},
    "partitioned": {"partition_keys": ["p"]},
    "key": {"primary_keys": ["k"], "options": {"bucket": "1", "write-only": "true"}},
    "key and partition": {"primary_keys": ["k", "p"], "partition_keys": ["p"], "options": {"bucket": "1", "write-only": "true"}},
    "partial-update": {"primary_keys": ["k"], "options": {"bucket": "1", "write-only": "true", "merge-engine": "partial-update"}},
}
SOURCE = pl.DataFrame({"k": [1, 2, 5], "p": [1, 2, 2], "q": [7, 7, 7]}, schema={"k": pl.Int32, "p": pl.Int32, "q": pl.Int64})


def table(tmp_path, kind):
    t = lk.create(str(tmp_path / "t"), SCHEMA, **KINDS[kind])
    t.append(ROWS)
    if "primary_keys" in KINDS[kind]:
        t.upsert(LATER)
    return t


def frame(t):
    return t.scan().collect().sort("k")


def is_more(limit, lock=LOCK):
    """A function that holds a lock, as one does that counts or looks something up."""

    def compare(value):
        with lock:
            return value > limit

    return compare


FUNCTIONS = [
    pl.col("v").map_elements(is_more(25), return_dtype=pl.Boolean),
    pl.col("k").map_elements(is_more(2), return_dtype=pl.Boolean),
    pl.col("p").map_batches(is_more(1), return_dtype=pl.Boolean, is_elementwise=True),
    pl.struct("k", "v").struct.field("k").map_elements(is_more(3), return_dtype=pl.Boolean) & (pl.col("v") < 65),
    cs.by_index(2).map_batches(is_more(25), return_dtype=pl.Boolean, is_elementwise=True) | (pl.col("k") == 0),
    pl.col("v").map_batches(is_more(25), return_dtype=pl.Boolean),
    pl.col("v").map_batches(lambda values: values >= values.mean(), return_dtype=pl.Boolean),  # which fails of no values
]
ELEMENTS = [
    pl.col("l").list.filter(pl.element() > 2).list.len() > 0,
    pl.col("l").list.filter(pl.element().is_null()).list.len() > 0,
    pl.concat_list("p").list.filter(pl.element() > 1).list.len() > 0,
    pl.concat_list("k", "p").list.eval(pl.element().filter(pl.element() > 2)).list.len() == 1,
]
CHANGED = ("append", "vectors", "key and partition", "partial-update")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", [*FUNCTIONS, *ELEMENTS], ids=str)
def test_reads(tmp_path, kind, where):
    t = table(tmp_path, kind)
    found = frame(t).filter(where)
    assert 0 < found.height < 8
    assert t.scan().filter(where).sort("k").collect().equals(found)
    assert t.scan().filter(where).collect(engine="streaming").sort("k").equals(found)
    assert t.scan().filter(where, pl.col("k") < 7).sort("k").collect().equals(found.filter(pl.col("k") < 7))
    assert t.scan().filter(where).select(pl.len()).collect().item() == found.height
    assert t.scan().filter(where).select("p").collect().sort("p").equals(found.select("p").sort("p"))
    assert t.aggregate(pl.col("k").sum(), where=where).item() == found["k"].sum()
    assert t.explain(where).files_read <= t.explain().files_read


@pytest.mark.parametrize("kind", CHANGED)
@pytest.mark.parametrize("where", [FUNCTIONS[0], FUNCTIONS[2], *FUNCTIONS[-2:], ELEMENTS[0]], ids=str)
def test_changes(tmp_path, kind, where):
    t = table(tmp_path, kind)
    before = frame(t)
    t.update({"v": -1}, where=where)
    assert frame(t).equals(before.with_columns(v=pl.when(where).then(pl.lit(-1, pl.Int64)).otherwise("v")))
    t.append(before) if "primary_keys" not in KINDS[kind] else t.upsert(before)
    if kind != "partial-update":
        rows = frame(t)
        t.delete(where)
        assert frame(t).select("k", "v").sort("k", "v").equals(rows.filter(~where).select("k", "v").sort("k", "v"))


@pytest.mark.parametrize("kind", CHANGED)
@pytest.mark.parametrize("where", [*FUNCTIONS[2:5], ELEMENTS[0]], ids=str)
def test_merges(tmp_path, kind, where):
    t = table(tmp_path, kind)
    before, both = frame(t), (pl.col("k") == lk.source("k")) & (pl.col("p") == lk.source("p"))
    chosen = before.filter(where)["k"].to_list()
    t.merge(SOURCE, lk.when_matched(update={"v": lk.source("q")}, where=where), on=["k", "p"])
    matched = before.with_columns(v=pl.when(pl.col("k").is_in([k for k in chosen if k in (1, 2, 5)])).then(pl.lit(7, pl.Int64)).otherwise("v"))
    assert frame(t).equals(matched)
    t.overwrite(before) if "primary_keys" not in KINDS[kind] else t.upsert(before)
    if where.meta.has_multiple_outputs():
        with pytest.raises(lk.SchemaMismatch, match="does not pickle: write the names"):
            t.merge(SOURCE, lk.when_matched(update={"v": lk.source("q")}), on=both & where)
        assert frame(t).equals(before)
        return
    t.merge(SOURCE, lk.when_matched(update={"v": lk.source("q")}), on=both & where)
    assert frame(t).equals(matched)
    t.overwrite(before) if "primary_keys" not in KINDS[kind] else t.upsert(before)
    t.merge(SOURCE, lk.when_matched(update={"v": where.cast(pl.Int64) + lk.source("q")}), on=["k", "p"])
    assert frame(t)["v"].to_list() == [7 + (k in chosen) if k in (1, 2, 5) else v for k, v in before.select("k", "v").rows()]


@pytest.mark.parametrize("where", [FUNCTIONS[2], ELEMENTS[2]], ids=str)
def test_partitions(tmp_path, where):
    t = table(tmp_path, "partitioned")
    before = frame(t)
    t.append(ROWS[:3])
    t.compact(where=where)
    t.rewrite_file_index(where=where)
    kept = set(t.files()["file_name"])
    commit = t.delete(where)
    assert commit.kinds == ("OVERWRITE",)
    assert commit.added_file_count == 0  # whole partitions
    assert set(t.files()["file_name"]) < kept
    assert frame(t)["k"].unique().to_list() == before.filter(~where)["k"].to_list()
