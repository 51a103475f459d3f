"""The system table `binlog`: what changed, each update as one row."""

from __future__ import annotations

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import InvalidOption, SnapshotNotFound

SINCE_ALL = {"incremental-between": "0,1"}


@pytest.fixture
def told(tmp_path):
    """A table that was told of updates, one of them twice, and of an old row without a new one."""
    table = lk.create(tmp_path / "t", {"k": "INT", "v": "STRING"}, primary_keys=["k"], options={"bucket": "1", "changelog-producer": "input"})
    rows = [("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, "b"), ("-U", 1, "b"), ("+U", 1, None), ("-U", 2, "x"), ("-D", 3, "y"), ("-U", 4, "p"), ("+U", 4, "q")]
    table.upsert(pl.DataFrame(rows, schema={"kind": pl.String, "k": pl.Int32, "v": pl.String}, orient="row"), row_kind="kind")
    return table


def test_an_update_is_one_row(told):
    found = told.system("binlog", options=SINCE_ALL)
    assert found.collect().rows() == [
        ("+I", [1], ["a"]),
        ("+U", [1, 1], ["a", "b"]),
        ("+U", [1, 1], ["b", None]),
        ("-U", [2], ["x"]),
        ("-D", [3], ["y"]),
        ("+U", [4, 4], ["p", "q"]),
    ]
    assert found.select(pl.len()).collect().item() == 6
    assert found.select("v").head(2).collect().rows() == [(["a"],), (["a", "b"],)]
    assert found.filter(pl.col("rowkind") == "+U").select("k").collect().rows() == [([1, 1],), ([1, 1],), ([4, 4],)]
    assert found.filter(pl.col("k").list.first() == 4).collect().rows() == [("+U", [4, 4], ["p", "q"])]


def test_sequence_numbers_are_those_of_the_former_half(told):
    options = SINCE_ALL | {"table-read.sequence-number.enabled": "true"}
    audited = told.system("audit_log", options=options).collect()
    assert audited.columns[:2] == ["rowkind", "_SEQUENCE_NUMBER"]
    numbers = audited["_SEQUENCE_NUMBER"].to_list()
    assert told.system("binlog", options=options).collect()["_SEQUENCE_NUMBER"].to_list() == [numbers[at] for at in (0, 1, 3, 5, 6, 7)]


def test_a_state_has_one_value_a_list(told):
    assert told.system("binlog").collect().sort("k").rows() == [("+U", [1], [None]), ("-U", [2], ["x"]), ("-D", [3], ["y"]), ("+U", [4], ["q"])]


def test_nothing_changed(told):
    assert told.system("binlog", options={"incremental-between": "1,1"}).collect().rows() == []


@pytest.mark.parametrize("mode", ["auto", "diff"])
@pytest.mark.parametrize(("since", "until"), [(1, 0), ("2024-03-02", "2024-03-01")])
def test_changes_do_not_go_backwards(told, mode, since, until):
    with pytest.raises(InvalidOption, match="before they begin"):
        told.changes(since, until, mode=mode)


@pytest.mark.parametrize("producer", ["none", "input"])
def test_long_lived_changelogs_tell_what_they_keep(tmp_path, producer):
    """With a producer they keep the changelog alone: rows as they were written are there from the oldest snapshot on."""
    kept = {"snapshot.num-retained.min": "1", "changelog.num-retained.min": "3", "changelog.num-retained.max": "9"}
    options = {"bucket": "1", "write-only": "true", "changelog-producer": producer, **kept}
    table = lk.create(tmp_path / "t", {"k": "INT"}, primary_keys=["k"], options=options)
    for number in range(5):
        table.upsert([{"k": number}])
    table.expire_snapshots(retain_max=2, retain_min=1)
    every = list(range(5))
    assert table.changes(0).collect()["k"].to_list() == every
    assert table.changes(0, mode="delta").collect()["k"].to_list() == (every if producer == "none" else [3, 4])
    assert table.changes("2024-01-01", mode="delta").collect()["k"].to_list() == (every if producer == "none" else [3, 4])
    if producer == "input":
        with pytest.raises(SnapshotNotFound, match="reach from snapshot 4 to 5; 1 is snapshot 1"):
            table.changes(1, mode="delta")
