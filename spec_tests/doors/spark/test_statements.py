"""A table after `ls.delete` and `ls.update` is the table after `t.delete` and `t.update`."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import ColumnNotFound, Conflict, Corrupt, InvalidOption, StorageFailed, Unsupported, ValueOutOfRange
from spec_tests.doors.spark.alike import COLUMNS, KINDS, read, rows, two_alike

ls = pytest.importorskip("lakekit.spark", exc_type=Unsupported)
pytestmark = pytest.mark.spark


@pytest.mark.parametrize("kind", KINDS)
def test_statements_of_spark_are_those_made_here(spark, tmp_path, kind):
    mine, theirs = two_alike(tmp_path, **KINDS[kind])
    steps = [
        (ls.delete, "delete", ["v = 3 OR k > 85"], {}),
        (ls.update, "update", [{"v": pl.col("v") + 100}], {"where": (pl.col("k") % 7 == 1) & (pl.col("k") < 70)}),
        (ls.delete, "delete", ["k = 1000"], {}),  # no such row
        (ls.delete, "delete", [pl.col("v") == pl.col("v").max()], {}),  # a row among others
    ]
    for ours, name, given, how in steps:
        done, wanted = ours(spark, mine, *given, **how), getattr(theirs, name)(*given, **how)
        assert done.kinds == wanted.kinds
        assert done.row_count == wanted.row_count
        assert read(mine).equals(read(theirs))
        assert mine.check(deep=True).ok
    assert (read(mine)["at"].cast(pl.Int64) % 1000).n_unique() > 40, "digits that Spark has not are kept"


def test_what_needs_no_task(spark, tmp_path, monkeypatch):
    from lakekit.spark import session

    mine, theirs = two_alike(tmp_path, **KINDS["fixed"])
    monkeypatch.setattr(session, "run", None)
    assert ls.delete(spark, mine, "p = 'p1'").kinds == theirs.delete("p = 'p1'").kinds == ("OVERWRITE",)
    assert read(mine).equals(read(theirs))
    assert ls.delete(spark, mine, "false").snapshot_ids == ()
    ls.delete(spark, mine, "true")
    assert not read(mine).height


def test_what_is_refused_leaves_nothing(spark, tmp_path):
    t, _ = two_alike(tmp_path, **KINDS["append"])
    files = {path.name for path in Path(t.location).rglob("data-*")}
    with pytest.raises(ColumnNotFound, match="nope"):
        ls.delete(spark, t, "nope = 1")
    with pytest.raises(ValueOutOfRange, match="column v"):
        ls.update(spark, t, {"v": pl.col("k") + 2**40}, where="k < 5")
    engine = lk.create(tmp_path / "e", COLUMNS, primary_keys=["k"], options={"bucket": "1", "merge-engine": "first-row"})
    engine.append(rows(0, 9))
    engine.append(rows(0, 12))
    with pytest.raises(InvalidOption, match="first-row"):
        ls.update(spark, engine, {"v": 1}, where="k = 1")
    assert {path.name for path in Path(t.location).rglob("data-*")} == files


@pytest.mark.parametrize(("damage", "error"), [("cut", Corrupt), ("lost", StorageFailed)])
def test_a_damaged_file_is_told_as_here(spark, tmp_path, damage, error):
    """In lakekit's words, not as Spark's account of a task that failed twice."""
    t, _ = two_alike(tmp_path, **KINDS["fixed"])
    broken = min(Path(t.location).rglob("data-*"))
    data = broken.read_bytes()
    broken.unlink()
    if damage == "cut":
        broken.write_bytes(data[:-20])
    files = {path.name for path in Path(t.location).rglob("data-*")}
    for does in (
        lambda: ls.delete(spark, t, "v >= 0"),
        lambda: ls.update(spark, t, {"v": "v + 1"}, where="v >= 0"),
        lambda: ls.merge(spark, t, ls.read(spark, rows_of(tmp_path)), lk.when_matched(update="all"), on=["k", "p"]),
    ):
        with pytest.raises(error, match=broken.name):
            does()
    assert {path.name for path in Path(t.location).rglob("data-*")} == files


def rows_of(tmp_path):
    other = lk.create(tmp_path / "others", COLUMNS, if_not_exists=True)
    if not other.snapshots().height:
        other.append(rows(0, 60))
    return other


def test_another_statement_was_faster(spark, tmp_path, monkeypatch):
    from lakekit.spark import dml

    t, _ = two_alike(tmp_path, **KINDS["append"])
    collected = dml.collect_messages

    def slower(handle, answers):
        found = collected(handle, answers)
        t.delete("k = 4")
        return found

    monkeypatch.setattr(dml, "collect_messages", slower)
    with pytest.raises(Conflict):
        ls.delete(spark, t, "k < 6")
    assert read(t)["k"].to_list() == [k for k in range(90) if k != 4]
