"""What the machines found, each in as few steps as show it."""

from __future__ import annotations

from datetime import timedelta

import polars as pl
import pytest

import lakekit as lk
from spec_tests.doors.test_orphans import forget
from spec_tests.reliability.kept import needed, on_disk

SCHEMA = {"k": "INT NOT NULL", "a": "INT", "b": "STRING"}


def made(path: object, **options: str) -> lk.Table:
    return lk.create(f"{path}/t", SCHEMA, primary_keys=["k"], options={"bucket": "1"} | options)


def rows_of(table: lk.Table) -> list[dict]:
    return table.scan().sort("k").collect().to_dicts()


def test_a_table_is_rescaled_after_its_columns_changed(tmp_path):
    table = made(tmp_path)
    table.upsert([{"k": 1, "a": 1, "b": "x"}, {"k": 2, "a": 2, "b": "y"}])
    table.alter(lk.drop_column("a"), lk.rename_column("b", "c"), lk.add_column("d", "BIGINT"))
    table.rescale(3)
    assert rows_of(table) == [{"k": 1, "c": "x", "d": None}, {"k": 2, "c": "y", "d": None}]
    assert table.check(deep=True).ok


def test_an_overwrite_that_is_compacted_tells_no_changelog(tmp_path):
    table = made(tmp_path, **{"changelog-producer": "full-compaction"})
    table.upsert([{"k": 1, "a": 1}])
    done = table.overwrite([{"k": 1, "a": 2}])
    assert done.kinds == ("OVERWRITE", "COMPACT")
    assert table.changes(done.snapshot_ids[0] - 1, done.snapshot_id, mode="changelog").collect().is_empty()
    newest = table.upsert([{"k": 1, "a": 3}]).snapshot_id
    told = table.changes(done.snapshot_id, newest, mode="changelog").select("_row_kind", "a").collect()
    assert told.rows() == [("-U", 2), ("+U", 3)]


def test_a_file_with_deleted_rows_moves_to_another_level(tmp_path):
    table = made(tmp_path, **{"merge-engine": "aggregation", "deletion-vectors.enabled": "true", "num-levels": "3"})
    table.upsert([{"k": 1, "a": 1}, {"k": 2, "a": 2}])
    table.compact(full=True)
    table.delete("k = 1")
    table.with_options({"num-levels": "5"}).compact(full=True)
    assert table.files()["level"].to_list() == [4]
    assert rows_of(table) == [{"k": 2, "a": 2, "b": None}]
    assert table.check(deep=True).ok


def test_whether_a_first_value_was_seen_outlives_a_delete(tmp_path):
    """A -D puts its values in; whether a first value was seen is remembered apart, so only a null before lets the next in. `FieldFirstNonNullValueAgg`."""
    options = {"merge-engine": "aggregation", "aggregation.remove-record-on-delete": "true", "fields.b.aggregate-function": "first_non_null_value"}
    table = made(tmp_path, **options, **{"write-only": "true"})
    for key, first in ((1, None), (2, "seen")):
        table.upsert([{"k": key, "a": 1, "b": first}])
        table.upsert(pl.DataFrame({"k": [key], "a": [2], "b": ["deleted"], "kind": ["-D"]}), row_kind="kind")
        table.upsert([{"k": key, "a": 3, "b": "after"}])
    assert [row["b"] for row in rows_of(table)] == ["after", "deleted"]


def test_where_a_key_lies_is_known_before_anybody_reads_it(tmp_path):
    """A first row of level 0 keeps its key in its partition: what comes for another partition is not written, and gone with it when that is dropped."""
    options = {"bucket": "-1", "merge-engine": "first-row", "write-only": "true"}
    schema = {"k": "INT NOT NULL", "p": "INT NOT NULL"}
    table = lk.create(f"{tmp_path}/t", schema, primary_keys=["k"], partition_keys=["p"], options=options)
    for partition in (0, 2):
        table.upsert([{"k": 5, "p": partition}, {"k": partition, "p": partition}])
    table.compact(full=True)
    assert table.scan().sort("k").collect().rows() == [(0, 0), (2, 2), (5, 0)]
    table.drop_partitions([{"p": 0}])
    assert table.scan().collect().rows() == [(2, 2)]


def test_levels_that_options_no_longer_count_hold_their_keys(tmp_path):
    """Engine 1.4.2 moves level 0 to what it takes for the last level, and reads a key from both; here the last level is the one that files need."""
    table = made(tmp_path, **{"merge-engine": "first-row"})
    table.upsert([{"k": key, "a": key**4, "b": "first"} for key in range(200)])
    table.compact(full=True)
    assert table.files()["level"].to_list() == [5]
    table.alter(lk.set_option("num-sorted-run.compaction-trigger", "4"))
    table.upsert([{"k": key, "a": 2, "b": "second"} for key in range(198, 202)])
    assert set(table.files()["level"]) == {4, 5}
    assert [row["b"] for row in rows_of(table)] == ["first"] * 200 + ["second"] * 2
    assert table.check(deep=True).ok


def test_a_key_that_moves_leaves_a_delete_whatever_its_column_of_kinds_says(tmp_path):
    """Engine 1.4.2 takes the kind of what is left behind from the column too, which says +I, and has the key in both partitions."""
    schema = {"k": "INT NOT NULL", "p": "INT NOT NULL", "kind": "STRING"}
    table = lk.create(f"{tmp_path}/t", schema, primary_keys=["k"], partition_keys=["p"], options={"bucket": "-1", "rowkind.field": "kind"})
    table.upsert([{"k": 1, "p": 0, "kind": "+I"}, {"k": 2, "p": 0, "kind": "+I"}])
    table.upsert([{"k": 1, "p": 1, "kind": "+I"}])
    assert table.scan().sort("k").collect().rows() == [(1, 1, "+I"), (2, 0, "+I")]
    table.compact(full=True)
    assert table.scan().sort("k").collect().rows() == [(1, 1, "+I"), (2, 0, "+I")]


@pytest.mark.long
@pytest.mark.parametrize("way", ["rollback", "branch"])
def test_a_snapshot_that_came_back_from_a_tag_without_its_changelog_stops_no_deletion(tmp_path, way):
    table = made(tmp_path, **{"changelog-producer": "input", "write-only": "true"})
    for key in range(3):
        table.upsert([{"k": key, "a": 1}])
    table.create_tag("old", at=2)
    table.expire_snapshots(retain_max=1, retain_min=1)
    if way == "rollback":
        table.rollback("old")
    else:
        table.create_branch("b", tag="old")
    table.upsert([{"k": 7, "a": 1}])
    table.upsert([{"k": 8, "a": 1}])
    there = table if way == "rollback" else table.branch("b")
    forget()
    assert there.check(deep=True).ok
    assert rows_of(there)[:2] == [{"k": 0, "a": 1, "b": None}, {"k": 1, "a": 1, "b": None}]
    table.remove_orphans(dry_run=False, older_than=timedelta(0))
    forget()
    first = table.snapshots()["snapshot_id"][0]
    if way == "branch":
        assert table.expire_snapshots(retain_max=2, retain_min=1).snapshot_ids == (first,)
    table.create_tag("new")
    forget()
    table.delete_tag("old")
    assert needed(tmp_path / "t") <= on_disk(tmp_path / "t")
    forget()
    assert table.expire_snapshots(retain_max=1, retain_min=1).snapshot_ids
    assert there.check(deep=True).ok


def test_a_stream_begins_with_the_files_of_levels_that_the_table_no_longer_has(tmp_path):
    table = made(tmp_path, **{"changelog-producer": "lookup", "num-levels": "5"})
    table.upsert([{"k": 1, "a": 1}, {"k": 2, "a": 2}])
    table.compact(full=True)
    assert table.files()["level"].to_list() == [4]
    table.alter(lk.set_option("num-levels", "2"))
    (first,) = table.follow("latest-full", until="latest")
    assert first.frame.sort("k").select("k", "a").collect().rows() == [(1, 1), (2, 2)]


def test_a_tag_that_goes_leaves_the_manifests_that_its_snapshot_merged(tmp_path):
    table = made(tmp_path, **{"manifest.merge-min-count": "2", "write-only": "true"})
    for key in range(5):
        table.upsert([{"k": key, "a": 1}])
    for at in range(1, 6):
        table.create_tag("t", at=at)
        assert table.delete_tag("t").manifest_file_count == 0
    assert needed(tmp_path / "t") == on_disk(tmp_path / "t")


def test_a_branch_keeps_the_manifests_that_it_shares_with_snapshots_that_expire(tmp_path):
    table = made(tmp_path, **{"manifest.merge-min-count": "2", "write-only": "true"})
    table.upsert([{"k": 0, "a": 1}])
    table.create_tag("base")
    table.create_branch("b", tag="base")
    for key in range(1, 5):
        table.branch("b").upsert([{"k": key, "a": 1}])
    table.fast_forward("b")
    table.upsert([{"k": 7, "a": 1}])
    table.expire_snapshots(retain_max=1, retain_min=1)
    forget()
    assert needed(tmp_path / "t") == on_disk(tmp_path / "t")
    assert [table.branch("b").scan(at).collect().height for at in range(1, 6)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("name", ["a", "d"])
def test_rows_are_sorted_under_the_names_that_columns_have_now(tmp_path, name):
    """Two columns that exchange names before anything else is committed keep their values."""
    table = lk.create(f"{tmp_path}/t", {"k": "INT NOT NULL", "a": "INT", "b": "INT"}, primary_keys=["k"])
    table.upsert([{"k": 1, "a": 5, "b": 7}, {"k": 2, "a": 4, "b": 8}])
    table.alter(lk.rename_column("a", "c"), lk.rename_column("b", "a"), lk.rename_column("c", "b"), lk.add_column("d", "INT"))
    before = rows_of(table)
    table.compact(order_by=name)
    assert rows_of(table) == before == [{"k": 1, "b": 5, "a": 7, "d": None}, {"k": 2, "b": 4, "a": 8, "d": None}]


def test_a_stream_begins_with_the_last_level_of_each_bucket(tmp_path):
    """A bucket whose last level is higher than the options say tells its changes from there; engine 1.4.2 begins without its rows."""
    keys = {"primary_keys": ["k", "p"], "partition_keys": ["p"]}
    options = {"bucket": "1", "num-levels": "4", "changelog-producer": "full-compaction", "write-only": "true"}
    table = lk.create(f"{tmp_path}/t", {"k": "INT NOT NULL", "p": "INT NOT NULL", "a": "INT"}, options=options, **keys)
    table.upsert([{"k": 1, "p": 0, "a": 1}])
    table.with_options({"num-levels": "5"}).compact(full=True)
    table.upsert([{"k": 1, "p": 1, "a": 1}])
    table.compact(full=True)
    assert sorted(table.files()["level"]) == [3, 4]
    (first,) = table.follow("latest-full", until="latest")
    assert first.frame.sort("p").select("p", "a").collect().rows() == [(0, 1), (1, 1)]
