"""Key tables with dynamic buckets, sorted by other columns: rows stay, move to other buckets, and each key stays in one."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from polars.testing import assert_frame_equal

import lakekit as lk
from lakekit.bucket.restore import SnapshotBuckets
from lakekit.data_file.paths import data_file_path
from lakekit.maintenance import rewrite
from lakekit.metadata import snapshots
from spec_tests.conftest import DEEP
from spec_tests.longer import some

COLUMNS = {"p": "INT NOT NULL", "k": "BIGINT NOT NULL", "a": "INT", "b": "STRING"}
KEYS = {"primary_keys": ["p", "k"], "partition_keys": ["p"]}
TARGET = {"dynamic-bucket.target-row-num": "20"}


def some_rows(seed: int, count: int = 100) -> pl.DataFrame:
    k = pl.int_range(count, eager=True)
    return pl.select(
        p=(k % 2).cast(pl.Int32),
        k=k,
        a=pl.when(k % 11 == 0).then(None).otherwise((k.hash(seed) % 40).cast(pl.Int32)),
        b=(k.hash(seed + 1) % 7).cast(pl.String),
    )


def filled(path, **options: str) -> lk.Table:
    t = lk.create(str(path / "t"), COLUMNS, **KEYS, options=TARGET | options)
    t.upsert(some_rows(0))
    t.upsert(some_rows(1).filter(pl.col("k") % 3 == 0))
    return t


def rows(t: lk.Table) -> pl.DataFrame:
    return t.scan().sort("p", "k").collect()


def by_bucket(t: lk.Table) -> dict[tuple[bytes, int], pl.DataFrame]:
    """What the live files of each bucket hold."""
    handle = t._context()
    standing = SnapshotBuckets.at_snapshot(handle, snapshots.latest(handle))
    return {
        place: pl.concat([pl.read_parquet(data_file_path(handle, *place, file).removeprefix("file:")) for file in standing.restore_bucket(*place).files])
        for place in sorted(standing.bucket_ids())
    }


@pytest.mark.long
@pytest.mark.parametrize("strategy, memory", some([pytest.param(how, size) for size in ("8 kb", "256 mb") for how in ("order", "zorder", "hilbert")], 6))
def test_rows_stay_and_buckets_follow_the_order(tmp_path, strategy, memory):
    t = filled(tmp_path)
    before = rows(t)
    done = lk.open(t.location, options={"lakekit.merge-memory": memory}).compact(order_by=["a", "b"], strategy=strategy)
    assert done.kinds == ("OVERWRITE",)
    assert_frame_equal(rows(t), before)
    assert t.check(deep=True).ok
    buckets = by_bucket(t)
    assert [number for _, number in buckets] == [0, 1, 2] * 2
    if strategy == "order":
        for (partition, number), held in buckets.items():
            after = buckets.get((partition, number + 1))
            if after is not None:
                assert held["a"].max() <= after["a"].min()
                assert after["a"].null_count() == 0


@pytest.mark.long
def test_keys_stay_in_their_new_bucket_when_they_are_written_again(tmp_path):
    t = filled(tmp_path)
    t.compact(order_by="a")
    where = {(row["p"], row["k"]): number for (_, number), held in by_bucket(t).items() for row in held.select(p=pl.col("p"), k=pl.col("k")).to_dicts()}
    t.upsert(some_rows(2, 120))
    t.delete("k = 7")
    t.compact(full=True)
    again = {(row["p"], row["k"]): number for (_, number), held in by_bucket(t).items() for row in held.select(p=pl.col("p"), k=pl.col("k")).to_dicts()}
    assert len(again) == 119
    assert {key: again[key] for key in where if key in again} == {key: where[key] for key in where if key in again}
    assert_frame_equal(rows(t), some_rows(2, 120).filter(pl.col("k") != 7).sort("p", "k"))
    assert t.check(deep=True).ok


@pytest.mark.long
def test_where_leaves_other_partitions_alone(tmp_path):
    t = filled(tmp_path)
    before = rows(t)
    kept = t.files().filter(pl.col("partition") == "p=0")
    t.compact(order_by="a", where="p = 1")
    assert_frame_equal(rows(t), before)
    assert t.files().filter(pl.col("partition") == "p=0").height == kept.height
    assert t.check(deep=True).ok


@pytest.mark.long
@pytest.mark.parametrize(
    "more",
    some(
        [
            {"deletion-vectors.enabled": "true"},
            {"merge-engine": "first-row"},
            {"merge-engine": "partial-update"},
            {"changelog-producer": "input"},
            {"changelog-producer": "lookup", "write-buffer-spillable": "false"},
        ],
        3,
    ),
    ids=lambda more: next(iter(more.values())),
)
def test_whatever_the_table_merges_and_hides(tmp_path, more):
    t = filled(tmp_path, **more, **{"write-only": "true", "write-buffer-size": "1 kb"})
    if more.keys() & {"deletion-vectors.enabled", "merge-engine"}:
        lk.open(t.location, options={"write-only": "false"}).compact(full=True)
    before = rows(t)
    assert before.height == 100
    t.compact(order_by="a")
    assert_frame_equal(rows(t), before)
    assert t.check(deep=True).ok


@pytest.mark.long
def test_rows_that_come_in_between_are_not_lost(tmp_path, monkeypatch):
    t = filled(tmp_path)
    before, real = rows(t), rewrite.BucketWriters.prepare

    def late(self, **how):
        monkeypatch.setattr(rewrite.BucketWriters, "prepare", real)
        lk.open(t.location).upsert([{"p": 0, "k": 500, "a": 1, "b": "late"}])
        return real(self, **how)

    monkeypatch.setattr(rewrite.BucketWriters, "prepare", late)
    there = len(list(tmp_path.rglob("*.parquet")))
    with pytest.raises(lk.Conflict):
        t.compact(order_by="a")
    assert len(list(tmp_path.rglob("*.parquet"))) == there + 1
    t.compact(order_by="a")
    assert rows(t).height == before.height + 1
    assert t.check(deep=True).ok


@pytest.mark.long
def test_a_writer_that_chose_its_buckets_before_is_refused(tmp_path):
    t = filled(tmp_path)
    with t.writer(commit_user="job") as writer:
        writer.write(some_rows(3))
        messages = writer.prepare()
        t.compact(order_by="a")
        with pytest.raises(lk.Conflict):
            t.commit(messages, commit_user="job", identifier=1)
        t.abort(messages)
    assert t.check(deep=True).ok


def test_nothing_is_sorted_where_nothing_is(tmp_path):
    t = lk.create(str(tmp_path / "t"), COLUMNS, **KEYS)
    assert t.compact(order_by="a").snapshot_ids == ()


@pytest.mark.long
@settings(max_examples=100 if DEEP else 2, deadline=None)
@given(
    batches=st.lists(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 9), st.none() | st.integers(-2, 2)), min_size=1, max_size=8), min_size=1, max_size=4),
    target=st.sampled_from(["1", "2", "5"]),
)
def test_a_table_is_a_dict_whatever_is_sorted_between(tmp_path_factory, batches, target):
    path = str(tmp_path_factory.mktemp("sorted") / "t")
    t = lk.create(path, COLUMNS, **KEYS, options={"dynamic-bucket.target-row-num": target})
    want = {}
    for batch in batches:
        t.upsert([{"p": p, "k": k, "a": a, "b": None} for p, k, a in batch])
        want |= {(p, k): a for p, k, a in batch}
        t.compact(order_by="a")
        assert {(p, k): a for p, k, a, _ in t.scan().collect().rows()} == want
    assert t.check(deep=True).ok
