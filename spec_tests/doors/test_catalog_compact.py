"""Many tables compacted: those that patterns choose, each told in a row, and no failure stops the others."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import polars as pl
import pytest

import lakekit as lk
from lakekit.runtime import Runtime

COLUMNS = {"k": "INT NOT NULL", "p": "INT NOT NULL", "v": "STRING"}


@pytest.fixture
def cat(tmp_path):
    found = lk.connect(tmp_path / "house")
    for name in ("shop", "web"):
        found.create_database(name)
    for name in ("shop.orders", "shop.items", "shop.tmp_x", "web.clicks"):
        table = found.create_table(name, COLUMNS, primary_keys=["k", "p"], partition_keys=["p"], options={"bucket": "1", "write-only": "true"})
        for turn in range(2):
            table.upsert([{"k": k, "p": k % 2, "v": f"{turn}"} for k in range(4)])
    return found


def named(frame):
    return {f"{row[0]}.{row[1]}": row[2] for row in frame.select("database", "table", "done").rows()}


@pytest.mark.long
def test_all_of_them(cat):
    before = {name: cat[name].scan().collect().sort("k") for name in ("shop.orders", "web.clicks")}
    told = cat.compact(full=True)
    assert told.schema == {"database": pl.String, "table": pl.String, "done": pl.String, "snapshot_id": pl.Int64, "error": pl.String}
    assert named(told) == dict.fromkeys(("shop.items", "shop.orders", "shop.tmp_x", "web.clicks"), "compacted")
    assert set(told["snapshot_id"]) == {3}
    assert {*cat["shop.orders"].files()["level"], *cat["web.clicks"].files()["level"]} == {5}
    assert all(cat[name].scan().collect().sort("k").equals(rows) for name, rows in before.items())
    again = cat.compact(full=True)
    assert set(again["done"]) == {"nothing to do"}
    assert again["snapshot_id"].null_count() == 4


@pytest.mark.long
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"databases": "web"}, {"web.clicks"}),
        ({"databases": "web|shop", "tables": r"shop\..*s"}, {"shop.orders", "shop.items"}),
        ({"excluding": r".*\.tmp_.*|web\..*"}, {"shop.orders", "shop.items"}),
        ({"tables": r"[^.]*\.items", "excluding": "items"}, {"shop.items"}),
    ],
)
def test_patterns_are_of_whole_names(cat, given, expected):
    assert named(cat.compact(full=True, **given)).keys() == expected
    changed = {name for name in ("shop.orders", "shop.items", "shop.tmp_x", "web.clicks") if cat[name].snapshots().height > 2}
    assert changed == expected


def test_patterns_that_fit_nothing_are_told(cat):
    with pytest.raises(lk.InvalidOption, match=r"fit no table, .*: databases are shop, web"):
        cat.compact(databases="none")
    with pytest.raises(lk.InvalidOption, match=r"fit no table, .*: tables are shop\.items, shop\.orders, shop\.tmp_x, web\.clicks"):
        cat.compact(tables="orders")
    with pytest.raises(lk.InvalidOption, match=r"excluding='\(' is no regular expression"):
        cat.compact(excluding="(")


def test_no_tables_are_nothing_to_do(tmp_path):
    (tmp_path / "house").mkdir()
    assert lk.connect(tmp_path / "house").compact().height == 0


@pytest.mark.long
def test_what_fails_is_told_and_the_others_go_on(cat, tmp_path):
    for path in (tmp_path / "house" / "shop.db" / "items").rglob("data-*"):
        path.unlink()
    (tmp_path / "house" / "shop.db" / "orders" / "schema" / "schema-0").write_text("{")
    (tmp_path / "things").mkdir()
    cat.create_object_table("web.things", location=str(tmp_path / "things"))
    cat.create_format_table("web.lines", {"a": "STRING"}, format="csv")
    told = cat.compact(full=True)
    assert named(told) == {
        "shop.items": "failed",
        "shop.orders": "failed",
        "shop.tmp_x": "compacted",
        "web.clicks": "compacted",
        "web.lines": "skipped",
        "web.things": "skipped",
    }
    errors = {row[0]: row[1] for row in told.select("table", "error").rows()}
    assert "data-" in errors["items"]
    assert "schema-0" in errors["orders"]
    assert "is of type format-table: it is a folder of files" in errors["lines"]
    assert "is of type object-table" in errors["things"]


def test_options_are_put_over_each_tables_own(cat):
    told = cat.compact(tables=r"shop\.orders", full=True, options={"target-file-size": "nonsense"})
    assert named(told) == {"shop.orders": "failed"}
    assert "target-file-size" in told["error"][0]


class Clocked(lk.Table):
    """A table at a time that the test says."""

    now_ms = 1_800_000_000_000

    def _context(self):
        found = lk.Table._context(self)
        return replace(found, runtime=Runtime(now_ms=lambda: self.now_ms))


def test_only_partitions_that_rest(tmp_path):
    """A partition rests as long as its newest file is old; compacting it gives it a new one."""
    made = lk.create(tmp_path / "t", COLUMNS, primary_keys=["k", "p"], partition_keys=["p"], options={"bucket": "1", "write-only": "true"})

    def at(ms):
        return type("At", (Clocked,), {"now_ms": Clocked.now_ms + ms})(location=made.location, name="t")

    def levels():
        return dict(made.files().group_by("partition").agg(pl.col("level").max()).rows())

    at(0).upsert([{"k": 1, "p": 0, "v": "a"}, {"k": 1, "p": 1, "v": "a"}])
    at(5_000).upsert([{"k": 1, "p": 1, "v": "b"}])
    assert at(9_999).compact(full=True, idle="10 s").kinds == ()
    assert at(10_000).compact(full=True, idle=timedelta(seconds=10)).kinds == ("COMPACT",)
    assert levels() == {"p=0": 5, "p=1": 0}
    assert at(14_999).compact(full=True, idle="10 s").kinds == ()
    assert at(15_000).compact(full=True, idle="10 s", where="p = 0").kinds == ()
    assert at(15_000).compact(full=True, idle="10 s").kinds == ("COMPACT",)
    assert levels() == {"p=0": 5, "p=1": 5}
    with pytest.raises(lk.InvalidOption, match="order_by sorts whole partitions"):
        made.compact(order_by="v", idle="1 h")
    with pytest.raises(lk.InvalidOption, match="idle= takes a duration"):
        made.compact(idle="long")


def test_a_table_without_partitions_rests_as_one(tmp_path):
    made = lk.create(tmp_path / "t", {"k": "INT"}, options={"compaction.min.file-num": "2"})
    early, late = Clocked(location=made.location, name="t"), type("Late", (Clocked,), {"now_ms": Clocked.now_ms + 60_000})(location=made.location, name="t")
    for number in range(3):
        early.append([{"k": number}])
    assert late.compact(full=True, idle="61 s").kinds == ()
    assert late.compact(full=True, idle="60 s").kinds == ("COMPACT",)
    assert made.files().height == 1


@pytest.mark.long
def test_many_tables_that_rest(cat):
    assert set(cat.compact(full=True, idle="1 h")["done"]) == {"nothing to do"}
    assert set(cat.compact(full=True, idle="0 s")["done"]) == {"compacted"}
