"""A table that Spark tasks looked after is the table looked after here."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import StorageFailed, Unsupported

ls = pytest.importorskip("lakekit.spark", exc_type=Unsupported)
pytestmark = pytest.mark.spark

COLUMNS = {"p": "STRING NOT NULL", "k": "BIGINT NOT NULL", "v": "BIGINT", "s": "STRING"}
SMALL = {"write-only": "true", "source.split.open-file-cost": "1 b"}
"""So that files of some rows are worth tasks."""
BITMAP, BLOOM, THRESHOLD = "file-index.bitmap.columns", "file-index.bloom-filter.columns", "file-index.in-manifest-threshold"


def rows(first: int, last: int) -> pl.DataFrame:
    k = pl.int_range(first, last)
    return pl.select(p=pl.format("p{}", k % 3), k=k, v=(k * 7919) % 101, s=pl.when(k % 5 > 0).then(pl.format("s{}", k % 11)))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A key table with changelogs, an expired tag and a branch, and an append table, each written to a few times."""
    root = tmp_path_factory.mktemp("care")
    keys = {"bucket": "2", "changelog-producer": "input", **SMALL}
    key = lk.create(root / "key" / "t", COLUMNS, primary_keys=["p", "k"], partition_keys=["p"], options=keys)
    for step in range(5):
        key.upsert(rows(step * 10, step * 10 + 40))
        if step == 1:
            key.create_tag("kept")
            key.create_branch("dev", tag="kept")
            key.branch("dev").upsert(rows(0, 9))
    key.compact(full=True)
    key.delete("k % 4 = 1")
    append = lk.create(root / "append" / "t", COLUMNS, partition_keys=["p"], options=SMALL)
    for step in range(3):
        append.append(rows(step * 30, step * 30 + 30))
    return root


@pytest.fixture
def copies(made, tmp_path):
    """A table twice."""

    def of(name: str) -> tuple[lk.Table, lk.Table]:
        for side in ("one", "two"):
            shutil.copytree(made / name, tmp_path / side)
        return lk.open(tmp_path / "one" / "t"), lk.open(tmp_path / "two" / "t")

    return of


@pytest.fixture
def counted(monkeypatch):
    """How many tasks each job had, with tasks for however little: one for each of the two slots."""
    from lakekit.spark import maintenance

    found: list[int] = []
    real = maintenance.run_in_tasks

    def answers(spark, some, work):
        found.append(len(some))
        return real(spark, some, work)

    monkeypatch.setattr(maintenance, "run_in_tasks", answers)
    monkeypatch.setattr(maintenance, "TASKS_PER_SLOT", 1)
    monkeypatch.setattr(maintenance, "MIN_DISTRIBUTED_DIRECTORIES", 0)
    monkeypatch.setattr(maintenance, "MIN_DISTRIBUTED_FILES", 0)
    return found


def read(t):
    return t.scan().collect().sort(pl.all())


def on_disk(t) -> list[str]:
    """The files of a table, those that have names of their own without them."""
    root = Path(t.location)
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def indexes(t):
    """The indexes of every file."""
    found = t.system("file_indexes").collect().with_columns(pl.col("file_path").str.split("/").list.last())
    return found.select(pl.exclude("index_file_path", "external_path")).sort(pl.all())


def aged(t) -> None:
    for path in Path(t.location).rglob("*"):
        os.utime(path, (1e9, 1e9))


# ---- indexes of files ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "threshold"), [("append", "1 b"), ("key", "1 mb")])
def test_indexes_made_by_spark_are_those_made_here(spark, copies, counted, kind, threshold):
    mine, theirs = copies(kind)
    for options in ({BITMAP: "s", THRESHOLD: threshold}, {BITMAP: "s,v", BLOOM: "k"}, {BITMAP: "s", BLOOM: None}):
        for t in (mine, theirs):
            t.alter(*(lk.reset_option(key) if value is None else lk.set_option(key, value) for key, value in options.items()))
        done, wanted = ls.rewrite_file_index(spark, mine, where="p <> 'p2'"), theirs.rewrite_file_index(where="p <> 'p2'")
        assert (done.kinds, done.row_count, done.added_file_count) == (wanted.kinds, wanted.row_count, wanted.added_file_count)
        assert done.kinds == ("COMPACT",)
        assert indexes(mine).equals(indexes(theirs))
        assert counted.pop() == 2
    assert indexes(mine).height
    assert mine.check(deep=True).ok
    assert read(mine).equals(read(theirs))
    assert ls.rewrite_file_index(spark, mine, where="p <> 'p2'").snapshot_ids == ()
    assert ls.rewrite_file_index(spark, mine, where="p <> 'p2'", rebuild=True).added_file_count == done.added_file_count


def test_a_file_that_cannot_be_read_leaves_no_index(spark, copies, counted):
    mine, _ = copies("append")
    mine.alter(lk.set_option(BITMAP, "s"), lk.set_option(THRESHOLD, "1 b"))
    broken = min(Path(mine.location).rglob("data-*"))
    broken.write_bytes(broken.read_bytes()[:-40])
    before = on_disk(mine)
    with pytest.raises(lk.LakekitError, match=broken.name):
        ls.rewrite_file_index(spark, mine)
    assert counted == [2]
    assert on_disk(mine) == before


def test_a_task_that_dies_deletes_what_it_made(spark, copies, monkeypatch):
    from pyspark.errors import PySparkException

    from lakekit.spark import maintenance

    mine, _ = copies("append")
    mine.alter(lk.set_option(BITMAP, "s"), lk.set_option(THRESHOLD, "1 b"))
    before, real = on_disk(mine), maintenance._rewrite_indexes

    def dies(handle, piece, *, rebuild):
        for message in real(handle, piece, rebuild=rebuild):
            if not list(Path(mine.location).rglob("*.index")):
                raise AssertionError
            yield message
            raise OSError(5, "lost")

    monkeypatch.setattr(maintenance, "_rewrite_indexes", dies)
    with pytest.raises(PySparkException, match="lost"):
        ls.rewrite_file_index(spark, mine)
    assert on_disk(mine) == before


# ---- statistics ----------------------------------------------------------------------------------------------------------------------------


def statistics(t):
    found = t.system("statistics").collect()
    return found.drop("snapshot_id"), json.loads(found["colstat"].item())


@pytest.mark.parametrize("kind", ["append", "key"])
def test_statistics_by_spark_are_those_made_here(spark, copies, counted, kind):
    mine, theirs = copies(kind)
    done, wanted = ls.analyze(spark, mine), theirs.analyze()
    assert (done.kinds, done.snapshot_ids) == (("ANALYZE",), wanted.snapshot_ids)
    assert counted.pop() > 1
    (told, columns), (expected, _) = statistics(mine), statistics(theirs)
    assert told.equals(expected)
    assert abs(columns["k"]["distinctCount"] - mine.scan().collect().height) <= 2
    assert columns["s"]["nullCount"] == mine.scan().collect()["s"].null_count()
    ls.analyze(spark, mine, columns=["v"])
    assert list(statistics(mine)[1]) == ["v"]


def test_statistics_that_cannot_be_made(spark, copies, counted):
    mine, _ = copies("append")
    broken = min(Path(mine.location).rglob("data-*"))
    broken.write_bytes(broken.read_bytes()[:-40])
    before = on_disk(mine)
    with pytest.raises(lk.LakekitError, match=broken.name):
        ls.analyze(spark, mine, columns=["v"])
    with pytest.raises(lk.ColumnNotFound):
        ls.analyze(spark, mine, columns=["nope"])
    assert len(counted) == 1
    assert on_disk(mine) == before


# ---- files that go -------------------------------------------------------------------------------------------------------------------------


def planted(t) -> None:
    """Files that nothing refers to, among the others."""
    root = Path(t.location)
    for directory in sorted({path.parent for path in root.rglob("bucket-*/*")}):
        (directory / "data-00000000-0000-0000-0000-000000000000-1.parquet").write_bytes(b"lost")
    (root / "manifest" / "manifest-00000000-0000-0000-0000-000000000000-0").write_bytes(b"lost")
    (root / "p=gone" / "bucket-0").mkdir(parents=True)


@pytest.mark.parametrize("kind", ["append", "key"])
def test_orphans_removed_by_spark_are_those_removed_here(spark, copies, counted, kind):
    mine, theirs = copies(kind)
    for t in (mine, theirs):
        planted(t)
    assert ls.remove_orphans(spark, mine).is_empty()  # a day has not passed
    assert counted == [1, 2, 2], "the table, its partitions, their buckets"
    for t in (mine, theirs):
        aged(t)
    before = on_disk(mine)
    told = ls.remove_orphans(spark, mine)
    assert told.equals(mine.remove_orphans())
    assert told.height > 3
    assert on_disk(mine) == before
    gone = ls.remove_orphans(spark, mine, dry_run=False)
    assert gone.equals(told)
    theirs.remove_orphans(dry_run=False)
    assert on_disk(mine) == on_disk(theirs)
    assert len(on_disk(mine)) == len(before) - told.height - 2
    assert mine.check(deep=True).ok


def test_orphans_are_refused_as_they_are_here(spark, copies, counted, monkeypatch):
    from lakekit.spark import maintenance

    mine, _ = copies("append")
    planted(mine)
    aged(mine)
    before = on_disk(mine)
    with pytest.raises(lk.InvalidOption, match="in the future"):
        ls.remove_orphans(spark, mine, older_than="2999-01-01", dry_run=False)

    def refused(storage, piece):
        raise StorageFailed("the listing broke off", path="x")
        yield

    with monkeypatch.context() as patch:
        patch.setattr(maintenance, "_list_directories", refused)
        with pytest.raises(StorageFailed, match="broke off"):
            ls.remove_orphans(spark, mine, dry_run=False)
    assert on_disk(mine) == before
    shutil.rmtree(Path(mine.location, "snapshot"))
    left = on_disk(mine)
    with pytest.raises(lk.Conflict, match="metadata is lost"):
        ls.remove_orphans(spark, mine, dry_run=False)
    assert on_disk(mine) == left
    assert counted


def test_snapshots_expired_by_spark_are_those_expired_here(spark, copies, counted, monkeypatch):
    from lakekit.spark import maintenance

    mine, theirs = copies("key")
    asked = {"retain_max": 2, "retain_min": 1}
    before = on_disk(mine)
    assert ls.expire_snapshots(spark, mine, **asked, dry_run=True) == theirs.expire_snapshots(**asked, dry_run=True)
    assert on_disk(mine) == before
    assert not counted
    real, seen = maintenance.run_in_tasks, []

    def looking(spark, some, work):
        seen.append(set(before) - set(on_disk(mine)))
        return real(spark, some, work)

    monkeypatch.setattr(maintenance, "run_in_tasks", looking)
    done = ls.expire_snapshots(spark, mine, **asked)
    assert done == theirs.expire_snapshots(**asked)
    assert done.data_file_count
    assert done.manifest_file_count
    assert counted == [2]
    assert seen == [{f"snapshot/snapshot-{number}" for number in done.snapshot_ids}], "snapshots went first, and alone"
    assert on_disk(mine) == on_disk(theirs)
    assert mine.check(deep=True).ok
    assert mine.scan("kept").collect().height == 50
    assert mine.branch("dev").check().ok


def test_files_that_a_task_could_not_delete_are_orphans(spark, copies, counted, monkeypatch):
    from lakekit.spark import maintenance

    mine, theirs = copies("key")
    wanted = read(mine)
    real = maintenance._delete_paths

    def refused(storage, piece):
        if b"/manifest-" in piece:
            raise StorageFailed("no way to delete", path="x")
        return real(storage, piece)

    monkeypatch.setattr(maintenance, "_delete_paths", refused)
    with pytest.raises(StorageFailed, match="no way"):
        ls.expire_snapshots(spark, mine, retain_max=1, retain_min=1)
    assert read(mine).equals(wanted)
    assert mine.check(deep=True).ok
    monkeypatch.undo()
    theirs.expire_snapshots(retain_max=1, retain_min=1)
    aged(mine)
    assert mine.remove_orphans(dry_run=False).height
    assert on_disk(mine) == on_disk(theirs)


# ---- listings ------------------------------------------------------------------------------------------------------------------------------


def test_an_object_table_listed_by_spark(spark, tmp_path, counted):
    for name in ("b", "a/c/d", "a/b", "a.txt", "a/c.e"):
        path = tmp_path / "objects" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    cat = lk.connect(tmp_path / "lake")
    cat.create_database("db")
    table = cat.create_object_table("db.o", location=str(tmp_path / "objects"))
    done = ls.refresh(spark, table)
    assert counted == [1, 1, 1]
    mine = table.scan().collect()
    assert done.row_count == mine.height == 5
    table.refresh()
    assert mine.equals(table.scan().collect())
    assert sorted(mine["name"]) == ["a.txt", "b", "b", "c.e", "d"]


def test_what_is_refused(spark, copies):
    mine, _ = copies("append")
    with pytest.raises(lk.InvalidOption, match="no object table"):
        ls.refresh(spark, mine)
    with pytest.raises(lk.InvalidOption, match="no partition column"):
        ls.rewrite_file_index(spark, mine, where="k = 1")
    with pytest.raises(lk.InvalidOption, match="nope"):
        ls.rewrite_file_index(spark, mine.with_options({BITMAP: "nope"}))
    with pytest.raises(lk.InvalidOption, match="neither 0"):
        ls.expire_snapshots(spark, mine, retain_max=0)
    with pytest.raises(TypeError, match="SparkSession"):
        ls.remove_orphans(None, mine)
