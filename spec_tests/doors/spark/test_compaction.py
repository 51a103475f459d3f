"""A table compacted by Spark tasks is the table compacted here."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import Conflict, Corrupt, InvalidOption, Unsupported

ls = pytest.importorskip("lakekit.spark", exc_type=Unsupported)
pytestmark = pytest.mark.spark

COLUMNS = {"k": "BIGINT NOT NULL", "p": "STRING NOT NULL", "v": "BIGINT"}
ADDS = {"write-only": "true"}
KINDS = {
    "fixed": {"primary_keys": ["k", "p"], "partition_keys": ["p"], "options": {"bucket": "2", **ADDS}},
    "vectors and changelog": {"primary_keys": ["k"], "options": {"bucket": "2", "deletion-vectors.enabled": "true", "changelog-producer": "lookup", **ADDS}},
    "dynamic": {"primary_keys": ["k"], "options": {"dynamic-bucket.target-row-num": "30", **ADDS}},
    "postponed": {"primary_keys": ["k", "p"], "partition_keys": ["p"], "options": {"bucket": "-2"}},
    "append in buckets": {"options": {"bucket": "2", "bucket-key": "k", **ADDS}},
    "append": {"partition_keys": ["p"], "options": {"compaction.min.file-num": "2", "target-file-size": "4 kb", **ADDS}},
    "append with vectors": {"options": {"deletion-vectors.enabled": "true", "compaction.min.file-num": "2", **ADDS}},
    "clustered": {"options": {"clustering.incremental": "true", "clustering.columns": "v", **ADDS}},
}


def rows(first: int, last: int, v: int = 0) -> pl.DataFrame:
    k = pl.int_range(first, last)
    return pl.select(k=k, p=pl.format("p{}", k % 2), v=(k * 7919) % 101 + v)


def two_alike(tmp_path, **how):
    """The same table twice, written to a few times."""
    t = lk.create(tmp_path / "one" / "t", COLUMNS, **how)
    for step in range(4):
        t.append(rows(step * 20, step * 20 + 60, step))
    if "deletion-vectors.enabled" in t.options and not t.primary_keys:
        t.delete("k % 10 = 3")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    return t, lk.open(tmp_path / "two" / "t")


def shape(t):
    return t.files().group_by("partition", "bucket", "level").agg(pl.len(), pl.col("row_count").sum(), pl.col("deleted_row_count").sum()).sort(pl.all())


def read(t):
    return t.scan().collect().sort(pl.all())


@pytest.mark.parametrize("kind", KINDS)
def test_tables_compacted_by_spark_are_those_compacted_here(spark, tmp_path, kind):
    mine, theirs = two_alike(tmp_path, **KINDS[kind])
    done, wanted = ls.compact(spark, mine, full=True), theirs.compact(full=True)
    assert (done.kinds, done.added_file_count, done.removed_file_count) == (wanted.kinds, wanted.added_file_count, wanted.removed_file_count)
    assert done.kinds == ("COMPACT",)
    assert shape(mine).equals(shape(theirs))
    assert read(mine).equals(read(theirs))
    assert mine.check(deep=True).ok
    assert len(mine.snapshots()) == len(theirs.snapshots())


def test_some_partitions_and_sorted(spark, tmp_path):
    mine, theirs = two_alike(tmp_path, partition_keys=["p"], options=ADDS)
    for one in (ls.compact(spark, mine, where="p = 'p1'", order_by="v"), theirs.compact(where="p = 'p1'", order_by="v")):
        assert one.removed_file_count == 4
    assert shape(mine).equals(shape(theirs))
    assert mine.scan().filter(pl.col("p") == "p1").collect()["v"].is_sorted()
    assert read(mine).equals(read(theirs))


SORTED = {"primary_keys": ["k", "p"], "partition_keys": ["p"], "options": {"dynamic-bucket.target-row-num": "20", **ADDS}}


@pytest.mark.parametrize("strategy", ["order", "zorder"])
def test_keys_sorted_by_spark_are_those_sorted_here(spark, tmp_path, strategy):
    how = SORTED | {"options": SORTED["options"] | ({"deletion-vectors.enabled": "true"} if strategy == "zorder" else {})}
    mine, theirs = two_alike(tmp_path, **how)
    asked = {"order_by": ["v", "k"][: 1 + (strategy == "zorder")], "strategy": strategy}
    done, wanted = ls.compact(spark, mine, **asked), theirs.compact(**asked)
    assert (done.kinds, done.added_file_count, done.removed_file_count) == (wanted.kinds, wanted.added_file_count, wanted.removed_file_count)
    assert shape(mine).equals(shape(theirs))
    assert shape(mine).height > 4
    assert read(mine).equals(read(theirs))
    ranges = [t.files().select("partition", "bucket", "min_key", "max_key").sort(pl.all().exclude("min_key", "max_key")) for t in (mine, theirs)]
    assert ranges[0].equals(ranges[1])
    mine.upsert(rows(50, 60, 7))
    assert mine.check(deep=True).ok
    assert mine.scan().collect()["k"].is_unique().all()


def test_keys_that_cannot_be_sorted(spark, tmp_path, monkeypatch):
    from lakekit.spark import maintenance

    mine, theirs = two_alike(tmp_path, **SORTED)
    real = maintenance.run_in_tasks

    def slower(spark, some, work):
        found = real(spark, some, work)
        mine.upsert(rows(0, 3, 99))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(maintenance, "run_in_tasks", slower)
        with pytest.raises(Conflict):
            ls.compact(spark, mine, order_by="v")
    theirs.upsert(rows(0, 3, 99))
    assert read(mine).equals(read(theirs))
    there = {path.name for path in Path(mine.location).rglob("data-*")}
    assert there == set(mine.files()["file_name"])
    broken = max(Path(mine.location).rglob("data-*"))
    broken.write_bytes(broken.read_bytes()[:-40])
    with pytest.raises(lk.LakekitError, match=broken.name):
        ls.compact(spark, mine, order_by="v")
    assert {path.name for path in Path(mine.location).rglob("data-*")} == there


def test_nothing_to_do_and_what_is_refused(spark, tmp_path):
    t = lk.create(tmp_path / "t", COLUMNS, primary_keys=["k"], options={"bucket": "1"})
    assert ls.compact(spark, t).snapshot_ids == ()
    dynamic = lk.create(tmp_path / "d", COLUMNS, primary_keys=["k"])
    assert ls.compact(spark, dynamic, order_by="v").snapshot_ids == ()
    with pytest.raises(InvalidOption, match="only supports bucket=-1"):
        ls.compact(spark, t, order_by="v")
    t.append(rows(0, 1))
    with pytest.raises(InvalidOption, match="no partition column"):
        ls.compact(spark, t, where="v = 1")


def test_another_compaction_was_faster(spark, tmp_path, monkeypatch):
    from lakekit.spark import maintenance

    mine, _ = two_alike(tmp_path, **KINDS["fixed"])
    real = maintenance.run_in_tasks

    def slower(spark, some, work):
        found = real(spark, some, work)
        mine.compact(full=True)
        return found

    monkeypatch.setattr(maintenance, "run_in_tasks", slower)
    with pytest.raises(Conflict):
        ls.compact(spark, mine, full=True)
    there = {path.name for path in Path(mine.location).rglob("data-*")}
    assert set(mine.files()["file_name"]) <= there
    assert mine.check(deep=True).ok
    assert len(there) == len(set(mine.files()["file_name"])) + 16, "the four files of each bucket that were there, and none of the slower compaction"


@pytest.mark.parametrize("kind", ["fixed", "append in buckets"])
def test_what_a_task_meets_is_raised_as_it_is(spark, tmp_path, kind):
    mine, _ = two_alike(tmp_path, **KINDS[kind])
    there = {path.name for path in Path(mine.location).rglob("data-*")}
    broken = max(Path(mine.location).rglob("data-*"))
    broken.write_bytes(broken.read_bytes()[:-40])
    with pytest.raises(lk.LakekitError, match=broken.name):
        ls.compact(spark, mine, full=True)
    assert {path.name for path in Path(mine.location).rglob("data-*")} == there, "files of the other tasks"
    assert mine.snapshots().height == 4


def test_buckets_are_shared_by_as_many_tasks_as_run_at_once():
    """The biggest first; more tasks where one would have much to do again; never one without a bucket."""
    from lakekit.spark.maintenance import TASK_BYTES, balance_tasks

    some = {(b"", bucket): size for bucket, size in enumerate([5, 1, 1, 9, 1, 1])}
    assert balance_tasks(some, 2)[0] == [(b"", 3)]
    assert [sum(some[place] for place in task) for task in balance_tasks(some, 2)] == [9, 9]
    assert balance_tasks(some, 100) == [[(b"", 3)], [(b"", 0)], *([(b"", bucket)] for bucket in (1, 2, 4, 5))]
    assert balance_tasks({}, 2) == []
    big = {(b"", bucket): TASK_BYTES // 2 for bucket in range(9)}
    assert sorted(len(task) for task in balance_tasks(big, 2)) == [1, 2, 2, 2, 2]
    assert sorted(place for task in balance_tasks(big, 2) for place in task) == sorted(big)


def test_a_bucket_of_a_task_that_fails_takes_the_others_with_it(spark, tmp_path):
    """Four buckets in one task, the last one corrupt: nothing changes, and no file of the first three is left."""
    t = lk.create(tmp_path / "t", COLUMNS, primary_keys=["k"], options={"bucket": "8", **ADDS})
    for step in range(3):
        t.append(rows(0, 400, step))
    last = t.files().filter(pl.col("bucket") == 7)["file_path"][0]
    Path(last).write_bytes(b"PAR1")
    before, snapshots = set(tmp_path.rglob("data-*")), len(t.snapshots())
    with pytest.raises(Corrupt):
        ls.compact(spark, t, full=True)
    assert set(tmp_path.rglob("data-*")) == before
    assert len(t.snapshots()) == snapshots
