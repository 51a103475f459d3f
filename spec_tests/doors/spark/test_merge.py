"""A table after `ls.merge` is the table after `t.merge` with the same clauses and rows."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import ColumnNotFound, Conflict, InvalidOption, MergeConflict, SchemaMismatch, Unsupported, ValueOutOfRange
from lakekit.format.polars_types import paimon_type
from lakekit.types import Field
from spec_tests.doors.spark.alike import COLUMNS, KINDS, read, rows, two_alike

ls = pytest.importorskip("lakekit.spark", exc_type=Unsupported)
types = pytest.importorskip("lakekit.spark.types", exc_type=Unsupported)
pytestmark = pytest.mark.spark

ALL = (
    lk.when_matched(delete=True, where=lk.source("v") == 3),
    lk.when_matched(update={"v": pl.col("v") + lk.source("v") * 100}),
    lk.when_not_matched(where="s.v <> 4"),
    lk.when_not_matched_by_source(update={"v": -1}, where="k % 10 = 5"),
    lk.when_not_matched_by_source(delete=True, where="k % 10 = 6"),
)

LOOKED_FOR = ["fixed"]


@pytest.fixture(autouse=True)
def _few_tasks(monkeypatch):
    """Two a stage: rows of one table still go to several."""
    from lakekit.spark import dml

    monkeypatch.setattr(dml, "_TASKS_A_SLOT", 1)


def as_spark(spark, frame: pl.DataFrame):
    """The rows as Spark has them, and the same rows as it gives them back."""
    cut = frame.with_columns(pl.col(pl.Datetime("ns")).dt.cast_time_unit("us"))
    schema = types.spark_schema([Field(name, paimon_type(dtype)) for name, dtype in cut.schema.items()])
    return spark.createDataFrame(cut.to_arrow(compat_level=pl.CompatLevel.oldest()), schema), cut


def both(spark, mine, theirs, frame, *clauses, on):
    """Merges by Spark and here, and holds one against the other."""
    df, source = as_spark(spark, frame)
    done, wanted = ls.merge(spark, mine, df, *clauses, on=on), theirs.merge(source, *clauses, on=on)
    assert done.kinds == wanted.kinds
    assert read(mine).equals(read(theirs))
    assert mine.check(deep=True).ok
    return done


@pytest.mark.parametrize("kind", KINDS)
def test_a_merge_of_spark_is_the_one_made_here(spark, tmp_path, kind):
    mine, theirs = two_alike(tmp_path, **KINDS[kind])
    by_key = ["k", "p"] if kind != "cross" else ["k"]
    done = both(spark, mine, theirs, rows(50, 130, 3), *ALL, on=by_key)
    assert done.row_count
    assert (read(mine)["at"].cast(pl.Int64) % 1000).n_unique() > 40, "digits that Spark has not are kept"
    if kind not in LOOKED_FOR:
        return
    # by a column that tells no bucket: rows look for their targets, and none is matched twice
    picked = rows(0, 200, 23).with_columns(k=pl.col("k") + 1000, v=pl.int_range(1000, 1009).cast(pl.Int32), p=pl.lit("new"))
    both(spark, mine, theirs, picked, lk.when_matched(update={"at": lk.source("at")}), lk.when_not_matched(), on=["v"])


@pytest.mark.parametrize("kind", ["append", "vectors"])
def test_a_match_that_is_no_equality_of_columns(spark, tmp_path, kind):
    mine, theirs = two_alike(tmp_path, **KINDS[kind])
    # one row of each three lies between two of the source; some are new, and one has a null where the table takes none, and no clause inserts it
    few = pl.DataFrame({"low": [3, 30, 500, None], "v": [7, 8, 9, 10], "name": ["x", "y", "new", "none"]}, schema_overrides={"low": pl.Int32, "v": pl.Int32})
    clauses = (
        lk.when_matched(update={"v": "s.v", "at": "t.at"}),
        lk.when_not_matched(insert={"k": "s.low", "p": "s.name", "v": "s.v"}, where="s.low IS NOT NULL"),
    )
    both(spark, mine, theirs, few, *clauses, on="t.k >= s.low AND t.k < s.low + 5 AND t.k < 80")
    assert 500 in read(mine)["k"]


def test_a_table_without_rows_and_a_merge_that_does_nothing(spark, tmp_path):
    mine, theirs = (lk.create(tmp_path / where / "t", COLUMNS, **KINDS["fixed"]) for where in ("one", "two"))
    assert both(spark, mine, theirs, rows(0, 0), lk.when_matched(delete=True), lk.when_not_matched(), on=["v"]).snapshot_ids == ()
    both(spark, mine, theirs, rows(0, 9), lk.when_matched(delete=True), lk.when_not_matched(), on=["k", "p"])
    both(spark, mine, theirs, rows(0, 9).with_columns(v=pl.lit(0, pl.Int32)), lk.when_matched(update="all", where="s.k < 4"), on="t.k = s.k AND t.p = s.p")
    assert read(mine)["v"].to_list().count(0) == 4


def test_what_is_refused_changes_nothing(spark, tmp_path):
    t, _ = two_alike(tmp_path, **KINDS["append"])
    keyed, _ = two_alike(tmp_path / "keyed", **KINDS["fixed"])
    files = {path.name for one in (t, keyed) for path in Path(one.location).rglob("data-*")}
    df, _ = as_spark(spark, rows(0, 5))
    update = lk.when_matched(update={"v": 1})
    twice = df.unionAll(df)
    for table, on in ((t, ["k"]), (keyed, ["k", "p"])):
        with pytest.raises(MergeConflict, match="has such a row"):
            ls.merge(spark, table, twice, update, lk.when_not_matched(), on=on)
    with pytest.raises(ColumnNotFound, match="nope"):
        ls.merge(spark, t, df, update, on=["nope"])
    with pytest.raises(ColumnNotFound, match="nope"):
        ls.merge(spark, t, df, lk.when_matched(update={"nope": 1}), on=["k"])
    with pytest.raises(SchemaMismatch, match="primary key"):
        ls.merge(spark, keyed, df, lk.when_matched(update={"k": "s.k + 1"}), on=["k", "p"])
    with pytest.raises(ValueOutOfRange, match="column k"):
        ls.merge(spark, keyed, df, lk.when_not_matched(insert={"k": pl.lit(None, pl.Int64), "p": "s.p"}), on="t.k = s.k + 1000")
    with pytest.raises(TypeError, match=r"t\.merge"):
        ls.merge(spark, t, rows(0, 5), update, on=["k"])
    with pytest.raises(TypeError, match="one clause"):
        ls.merge(spark, t, df, on=["k"])
    engine = lk.create(tmp_path / "e", COLUMNS, primary_keys=["k"], options={"bucket": "1", "merge-engine": "first-row"})
    with pytest.raises(InvalidOption, match="first-row"):
        ls.merge(spark, engine, df, update, on=["k"])
    assert {path.name for one in (t, keyed) for path in Path(one.location).rglob("data-*")} == files


def test_another_change_was_faster(spark, tmp_path, monkeypatch):
    from lakekit.spark import dml

    t, _ = two_alike(tmp_path, **KINDS["append"])
    collected = dml.collect_messages

    def slower(handle, answers):
        found = collected(handle, answers)
        t.delete("k = 4")
        return found

    monkeypatch.setattr(dml, "collect_messages", slower)
    df, _ = as_spark(spark, rows(0, 6))
    with pytest.raises(Conflict):
        ls.merge(spark, t, df, lk.when_matched(delete=True), on=["k"])
    assert read(t)["k"].to_list() == [k for k in range(90) if k != 4]
