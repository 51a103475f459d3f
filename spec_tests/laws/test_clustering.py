"""Clustering of append tables (ENGINE.md 8.6): rows stay, runs that are due are sorted into higher levels, and rows are sorted before they are written."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from polars.testing import assert_frame_equal

import lakekit as lk
from lakekit.bucket import sort_order
from lakekit.bucket.restore import SnapshotBuckets
from lakekit.data_file.paths import data_file_path
from lakekit.maintenance import compact
from lakekit.metadata import snapshots
from spec_tests.conftest import DEEP
from spec_tests.longer import some

COLUMNS = {"p": "INT", "a": "INT", "b": "DOUBLE", "s": "STRING"}
CLUSTERED = {"clustering.incremental": "true", "clustering.columns": "a", "target-file-row-num": "100"}
BUCKETED = {**CLUSTERED, "bucket": "2", "bucket-key": "p", "bucket-append-ordered": "false"}


def some_rows(seed: int, count: int = 300) -> pl.DataFrame:
    n = pl.int_range(count, eager=True)
    return pl.select(
        p=(n % 2).cast(pl.Int32),
        a=pl.when(n % 17 == 0).then(None).otherwise((n.hash(seed) % 90).cast(pl.Int32) - 45),
        b=(n.hash(seed + 1) % 400).cast(pl.Float64) / 7,
        s=(n.hash(seed + 2) % 50).cast(pl.String),
    )


def made(path, options, partition_keys=()) -> lk.Table:
    return lk.create(str(path / "t"), COLUMNS, partition_keys=partition_keys, options=options)


def rows(t: lk.Table) -> pl.DataFrame:
    return t.scan().sort(pl.all()).collect()


def runs(t: lk.Table, partition: bytes | None = None) -> dict[int, list[pl.DataFrame]]:
    """What the live files hold, by level, in the order they were written."""
    handle = t._context()
    standing = SnapshotBuckets.at_snapshot(handle, snapshots.latest(handle))
    live = [(place, file) for place in standing.bucket_ids() if partition in (None, place[0]) for file in standing.restore_bucket(*place).files]
    live.sort(key=lambda found: found[1].min_sequence_number)
    found: dict[int, list[pl.DataFrame]] = {}
    for place, file in live:
        found.setdefault(file.level, []).append(pl.read_parquet(data_file_path(handle, *place, file).removeprefix("file:")))
    return found


def levels(t: lk.Table) -> list[int]:
    return sorted(t.files()["level"].unique())


def ascends(files: list[pl.DataFrame], *columns: str) -> bool:
    keys = pl.concat(files).select(columns)
    return keys.equals(keys.sort(columns))


# ---- incremental -----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("more", some([pytest.param({"lakekit.merge-memory": "16 kb"}, id="range by range"), pytest.param({}, id="at once")], 2))
def test_runs_that_are_due_are_sorted_into_a_higher_level(tmp_path, more):
    t = made(tmp_path, {**CLUSTERED, "target-file-row-num": "500"})
    for seed in range(4):
        t.append(some_rows(seed, 400))
    assert t.compact().snapshot_ids == ()
    t.append(some_rows(4, 400))
    before = rows(t)
    done = lk.open(t.location, options=more).compact()
    assert done.kinds == ("COMPACT",)
    assert_frame_equal(rows(t), before)
    found = runs(t)
    assert list(found) == [5]
    assert ascends(found[5], "a")
    assert t.check(deep=True).ok
    for seed in range(5, 10):
        t.append(some_rows(seed, 10))
    before = rows(t)
    t.compact()
    assert_frame_equal(rows(t), before)
    found = runs(t)
    assert sorted(found) == [4, 5]
    assert all(ascends(files, "a") for files in found.values())
    assert t.check(deep=True).ok


def test_a_full_clustering_sorts_everything_once(tmp_path):
    t = made(tmp_path, CLUSTERED)
    for seed in range(2):
        t.append(some_rows(seed))
    before = rows(t)
    assert t.compact(full=True).kinds == ("COMPACT",)
    assert_frame_equal(rows(t), before)
    found = runs(t)
    assert list(found) == [5]
    assert len(found[5]) > 1
    assert ascends(found[5], "a")
    assert t.compact(full=True).snapshot_ids == ()
    t.alter(lk.set_option("clustering.columns", "b"))
    t = lk.open(t.location)
    t.compact(full=True)
    assert ascends(runs(t)[5], "b")
    assert t.compact(full=True).snapshot_ids == ()


@pytest.mark.parametrize(
    "options, key",
    [
        ({"clustering.columns": "a"}, lambda frame: frame["a"]),
        ({"clustering.columns": "s,b", "clustering.strategy": "order"}, lambda frame: frame.select(pl.struct("s", "b")).to_series()),
        ({"clustering.columns": "a,b"}, lambda frame: sort_order.z_order_keys(frame.select("a", "b"))),
        ({"clustering.columns": "a,b", "clustering.strategy": "hilbert"}, lambda frame: sort_order.hilbert_keys(frame.select("a", "b"))),
    ],
    ids=["one column", "order", "auto of two", "hilbert"],
)
def test_strategies(tmp_path, options, key):
    t = made(tmp_path, {**CLUSTERED, **options})
    t.append(some_rows(0))
    t.compact(full=True)
    assert key(pl.concat(runs(t)[5])).is_sorted(nulls_last=False)


def test_local_sort_sorts_each_file_as_memory_allows(tmp_path):
    t = made(tmp_path, {**CLUSTERED, "clustering.incremental.mode": "local-sort", "clustering.columns": "a,b", "target-file-size": "1 mb"})
    for seed in range(4):
        t.append(some_rows(seed))
    before = rows(t)
    lk.open(t.location, options={"lakekit.merge-memory": "64 kb"}).compact(full=True)
    assert_frame_equal(rows(t), before)
    files = runs(t)[5]
    assert len(files) > 1
    assert all(ascends([file], "a", "b") for file in files)
    assert not ascends(files, "a", "b")


def test_deleted_rows_go_with_their_vectors(tmp_path):
    t = made(tmp_path, {**CLUSTERED, "deletion-vectors.enabled": "true"}, ["p"])
    for seed in range(2):
        t.append(some_rows(seed))
    t.delete("a > 10")
    t.append(some_rows(3, 20))
    before = rows(t)
    t.compact(full=True, where="p = 0")
    assert_frame_equal(rows(t), before)
    assert t.files().filter(pl.col("level") == 5)["row_count"].sum() == before.filter(p=0).height
    t.compact(full=True)
    assert_frame_equal(rows(t), before)
    assert t.indexes().height == 0
    assert t.check(deep=True).ok


def test_rows_appended_meanwhile_stay(tmp_path, monkeypatch):
    t = made(tmp_path, CLUSTERED)
    t.append(some_rows(0))
    real = compact.compaction_message

    def late(*given):
        monkeypatch.setattr(compact, "compaction_message", real)
        t.append(some_rows(9, 10))
        return real(*given)

    monkeypatch.setattr(compact, "compaction_message", late)
    t.compact(full=True)
    assert rows(t).height == 310
    assert levels(t) == [0, 5]


def test_partitions_that_rest_are_sorted_as_a_whole(tmp_path):
    t = made(tmp_path, CLUSTERED, ["p"])
    t.append(some_rows(0))
    assert t.compact(where="p = 0").snapshot_ids == ()
    rested = lk.open(t.location, options={"clustering.history-partition.idle-to-full-sort": "0 s"})
    assert lk.open(t.location, options={"clustering.history-partition.idle-to-full-sort": "1 d"}).compact(where="p = 0").snapshot_ids == ()
    assert rested.with_options({"clustering.history-partition.limit": "0"}).compact(where="p = 0").snapshot_ids == ()
    assert rested.compact().snapshot_ids == ()
    rested.compact(where="p = 0")
    assert dict(t.files().group_by("partition").agg(pl.col("level").max()).sort("partition").rows()) == {"p=0": 0, "p=1": 5}


@pytest.mark.parametrize(
    "options, key",
    [
        ({"clustering.columns": None}, "clustering.columns"),
        ({"clustering.columns": "nope"}, "clustering.columns"),
        ({"clustering.columns": "a", "clustering.strategy": "peano"}, "clustering.strategy"),
        ({"clustering.columns": "a", "clustering.strategy": "hilbert"}, "clustering.columns"),
    ],
)
def test_what_cannot_be_sorted_by(tmp_path, options, key):
    t = made(tmp_path, {name: value for name, value in (CLUSTERED | options).items() if value})
    t.append(some_rows(0, 5))
    with pytest.raises(lk.InvalidOption) as refused:
        t.compact(full=True)
    assert refused.value.key == key


@pytest.mark.parametrize(
    "options, keys, key",
    [
        ({"bucket": "2", "bucket-key": "p"}, [], "bucket-append-ordered"),
        ({"bucket": "2", "bucket-key": "p", "bucket-append-ordered": "false", "deletion-vectors.enabled": "true"}, [], "deletion-vectors.enabled"),
        ({"bucket": "2"}, ["p"], "clustering.incremental"),
    ],
)
def test_tables_that_cannot_be_clustered(tmp_path, options, keys, key):
    t = lk.create(str(tmp_path / "t"), COLUMNS, primary_keys=keys, options=options)
    t.append(some_rows(0, 5))
    with pytest.raises(lk.InvalidOption) as refused:
        lk.open(t.location, options={"clustering.incremental": "true", "clustering.columns": "a"}).compact()
    assert refused.value.key == key


# ---- in buckets ------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_writers_of_buckets_cluster_as_they_write(tmp_path):
    t = made(tmp_path, BUCKETED)
    for seed in range(7):
        t.append(some_rows(seed, 60))
    assert rows(t).height == 420
    assert levels(t) == [0, 5]
    assert t.check(deep=True).ok
    before = rows(t)
    t.compact(full=True)
    assert_frame_equal(rows(t), before)
    handle = t._context()
    standing = SnapshotBuckets.at_snapshot(handle, snapshots.latest(handle))
    for place in standing.bucket_ids():
        files = sorted(standing.restore_bucket(*place).files, key=lambda file: file.min_sequence_number)
        assert {file.level for file in files} == {5}
        assert ascends([pl.read_parquet(data_file_path(handle, *place, file).removeprefix("file:")) for file in files], "a")
    assert t.compact(full=True).snapshot_ids == ()


# ---- before they are written -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("options", some([pytest.param({"write-buffer-size": "4 kb"}, id="spilled"), pytest.param({}, id="in memory")], 2))
@pytest.mark.parametrize("strategy", ["order", "zorder"])
def test_rows_are_sorted_before_they_are_written(tmp_path, options, strategy):
    t = made(tmp_path, {"clustering.columns": "a,b", "clustering.strategy": strategy, "target-file-row-num": "150", **options}, ["p"])
    with t.writer() as writer:
        for seed in range(4):
            writer.write(some_rows(seed))
    assert_frame_equal(rows(t), pl.concat(some_rows(seed) for seed in range(4)).sort(pl.all()))
    for partition in SnapshotBuckets.at_snapshot(t._context(), snapshots.latest(t._context())).bucket_ids():
        files = runs(t, partition[0])[0]
        keys = [file.select("a", "b") if strategy == "order" else sort_order.z_order_keys(file.select("a", "b")).to_frame() for file in files]
        assert len(files) > 1
        assert ascends(keys, *keys[0].columns)
        assert all(file.columns == ["a", "b", "s"] or file.columns == list(COLUMNS) for file in files)


def test_incremental_tables_are_sorted_at_once_where_asked(tmp_path):
    t = made(tmp_path, CLUSTERED)
    t.append(some_rows(0))
    assert not ascends(runs(t)[0], "a")
    t = lk.open(t.location, options={"clustering.incremental.optimize-write": "true"})
    t.truncate()
    t.append(some_rows(0))
    assert ascends(runs(t)[0], "a")


@pytest.mark.long
@settings(max_examples=100 if DEEP else 4, deadline=None)
@given(
    batches=st.lists(st.lists(st.none() | st.integers(-3, 3), min_size=1, max_size=10), min_size=1, max_size=8),
    full=st.lists(st.booleans() | st.none(), min_size=8, max_size=8),
    options=st.sampled_from([CLUSTERED, BUCKETED, {"clustering.columns": "a"}]),
)
def test_rows_are_a_bag_whatever_is_clustered_between(tmp_path_factory, batches, full, options):
    t = made(tmp_path_factory.mktemp("clustered"), {**options, "num-sorted-run.compaction-trigger": "2"})
    want: list[int | None] = []
    for batch, how in zip(batches, full, strict=False):
        t.append([{"p": 1, "a": a} for a in batch])
        want += batch
        if how is not None:
            t.compact(full=how)
        assert sorted(t.scan().collect()["a"].to_list(), key=str) == sorted(want, key=str)
    for one, other in pairwise(sorted(runs(t))):
        assert one < other
    assert t.check(deep=True).ok
