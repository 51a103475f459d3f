"""`t.follow` of tables whose keys move between partitions: a copy kept by key alone is what the table holds, whatever order its partitions have."""

from __future__ import annotations

from random import Random

import polars as pl
import pytest

import lakekit as lk
from spec_tests.doors.test_follow import replayed

SCHEMA = {"k": "INT NOT NULL", "p": "STRING", "v": "INT"}


def grown(path, seed: int, **options: str) -> lk.Table:
    """Keys that go to and fro, some twice in a commit, some deleted."""
    table = lk.create(path, SCHEMA, primary_keys=["k"], partition_keys=["p"], options={"bucket": "-1", "dynamic-bucket.target-row-num": "3", **options})
    chance = Random(seed)
    for turn in range(5):
        rows = [{"k": chance.randint(0, 6), "p": chance.choice("abc"), "v": turn, "op": chance.choice(["+I", "+I", "+U", "-D"])} for _ in range(6)]
        table.upsert(rows, row_kind="op")
        if turn == 2:
            table.compact(full=True)
    table.compact(full=True)
    return table


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
@pytest.mark.parametrize("seed", range(3))
def test_a_copy_by_key_alone(tmp_path, producer, seed):
    """What left partition b came after what came into a: the copy had lost the key, and nobody said so."""
    table = grown(tmp_path, seed, **{"changelog-producer": producer})
    copy: dict[int, str] = {}
    for change in table.follow(1, until="latest"):
        replayed(copy, change.frame.select("_row_kind", "k", "p").collect())
    assert copy == dict(table.scan().select("k", "p").collect().rows())


def test_rows_of_one_key_and_partition_stay_in_order(tmp_path):
    table = lk.create(tmp_path, SCHEMA, primary_keys=["k"], partition_keys=["p"], options={"bucket": "-1", "changelog-producer": "input"})
    table.upsert([{"k": 1, "p": p, "v": v} for p, v in (("a", 1), ("b", 2), ("a", 3))])
    [change] = table.follow(1, until="latest")
    assert change.frame.collect().rows() == [("+I", 1, "b", 2), ("-D", 1, "b", 3), ("+I", 1, "a", 1), ("-D", 1, "a", 2), ("+I", 1, "a", 3)]
    assert change.frame.filter(pl.col("p") == "b").select("v").collect()["v"].to_list() == [2, 3]


def test_keys_may_be_renamed_under_a_stream(tmp_path):
    table = grown(tmp_path, 1)
    stream = table.follow("latest", until="latest")
    table.alter(lk.rename_column("k", "key"), lk.rename_column("v", "w"))
    table.upsert([{"key": 9, "p": "a", "w": 1}])
    [change] = stream
    assert change.frame.collect().columns == ["_row_kind", "k", "p", "v"]
