"""The scenarios of ENGINE 14 that reading decides, on tables that the reference engine wrote; the others come with the writers they test."""

from __future__ import annotations

import ast
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import InvalidOption, SnapshotNotFound
from lakekit.options.features import FEATURES

LATER = {
    "scenario.1": "WRITE",
    "scenario.2": "WRITE",
    "scenario.4": "WRITE",
    "scenario.6": "WRITE",
    "scenario.7": "WRITE",
    "scenario.8": "WRITE",
    "scenario.15": "WRITE",
    "scenario.16": "WRITE",
    "scenario.17": "WRITE",
    "scenario.18": "WRITE",
    "scenario.19": "WRITE",
    "scenario.20": "CARE",
    "scenario.21": "CARE",
    "scenario.28": "WRITE",
    "scenario.30": "WRITE",
    "scenario.31": "WRITE",
    "scenario.32": "WRITE",
    "scenario.36": "CARE",
}
"""Scenarios about what a writer or a cleaner does, and the issue that brought it: their tests are in `differential`, `laws` and `doors`."""


@pytest.fixture
def opened(tables_path):
    return lambda name: lk.open(str(tables_path / name))


def rows(frame, *by):
    found = frame.collect() if isinstance(frame, pl.LazyFrame) else frame
    return (found.sort(*by) if by else found).rows()


def test_every_scenario_is_here_or_comes_later():
    tests = [node.name for node in ast.parse(Path(__file__).read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)]
    here = {f"scenario.{name.split('_')[2]}" for name in tests if name.startswith("test_scenario_")}
    assert {name for name in FEATURES if name.startswith("scenario.")} == here | set(LATER)
    assert {name for name in here if FEATURES[name].read != "yes"} == set()
    assert {name for name in LATER if FEATURES[name].write != "yes"} == set()
    assert all(FEATURES[name].read == "-" for name in LATER)


def test_scenario_3_deletes_are_ignored_those_of_older_files_too(opened):
    table = opened("dedup_ignore_delete")
    assert (1, None, "-D") in rows(table.scan(raw=True).filter(pl.col("k") == 1, pl.col("_row_kind") == "-D").select("k", pl.lit(None), "_row_kind"))
    assert rows(table.scan(), "k") == [(1, "a"), (2, "b"), (4, "d"), (5, "ee"), (6, "f")]


def test_scenario_5_an_older_sequence_arrives_later(opened):
    table = opened("sequence_ascending_deduplicate")
    one = pl.col("k") == 1
    assert rows(table.scan(at=2, raw=True).filter(one).select("v", "ts", "_SEQUENCE_NUMBER"), "_SEQUENCE_NUMBER") == [("a", 10, 0), ("b", 5, 4)]
    assert rows(table.scan(at=2).filter(one)) == [(1, "a", 10)]


def test_scenario_9_a_lone_delete_is_absent_and_refused_once_it_meets_a_row(opened):
    table = opened("partial_delete_refused")
    assert rows(table.scan(at=1)) == [(1, 1, "a")]
    with pytest.raises(InvalidOption, match="delete"):
        table.scan().collect()


def test_scenario_10_a_lone_row_without_its_sequence_keeps_its_group(opened):
    table = opened("partial_lone_null_group")
    assert rows(table.scan(at=1), "k") == [(1, None, "kept while alone", 1), (2, None, "gone", 2)]
    assert rows(table.scan(at=2), "k") == [(1, None, "kept while alone", 1), (2, None, None, 2)]


def test_scenario_11_a_delete_comes_first(opened):
    table, key = opened("aggregate_retract_rules"), pl.col("k") == 99
    assert rows(table.scan(at=1, raw=True).filter(key).select("sum", "_row_kind")) == [(4, "-D")]
    assert rows(table.scan(at=1).filter(key)) == []
    assert rows(table.system("audit_log").filter(key).select("rowkind", "sum")) == [("+I", -4 + 6)]


def test_scenario_12_first_row_drops_a_second_insert(opened):
    table = opened("first_row_lookup")
    assert rows(table.scan(at=3, raw=True).filter(pl.col("k") == 1).select("v"), "v") == [("a",), ("z",)]
    assert rows(table.scan().filter(pl.col("k") == 1)) == [(1, "a")]
    assert rows(table.changes(2, 4, mode="changelog").filter(pl.col("k") == 1)) == []


def test_scenario_13_input_changelogs_keep_every_row_of_a_flush(opened):
    table, key = opened("changelog_input"), pl.col("k") == 3
    for since, told, stored in ((0, [("+I", "c"), ("+I", "c3")], "c3"), (2, [("-U", "c3"), ("+U", "c4")], "c4")):
        assert rows(table.changes(since, since + 1, mode="changelog").filter(key).select("_row_kind", "v")) == told
        assert rows(table.changes(since, since + 1, mode="delta").filter(key).select("v")) == [(stored,)]


def test_scenario_14_equal_values_leave_no_changelog(opened):
    table = opened("changelog_row_deduplicate")
    assert rows(table.scan(at=3, raw=True).filter(pl.col("k") == 1).select("v"), "v") == [("a",), ("a",)]
    assert rows(table.changes(2, 4, mode="changelog").select("_row_kind", "k", "v"), "_row_kind") == [("+U", 2, "c"), ("-U", 2, "b")]


def test_scenario_22_a_tag_of_an_expired_snapshot_is_read(opened):
    table = opened("history_expired_compactions")
    assert table.snapshots()["snapshot_id"].to_list() == [5]
    assert rows(table.scan(at="early"), "k") == [(1, "a"), (2, "bb")]


def test_scenario_23_there_is_nothing_before_the_first_snapshot(opened):
    with pytest.raises(SnapshotNotFound, match="no snapshot at or before"):
        opened("scan_after_expiry").scan(at=datetime(1970, 1, 2, tzinfo=UTC))


def test_scenario_24_deltas_are_what_appends_added(opened):
    overwritten = opened("overwrite_keyed")
    assert overwritten.snapshots()["kind"].to_list() == ["APPEND", "APPEND", "OVERWRITE", "APPEND"]
    assert rows(overwritten.changes(1, 4, mode="delta")) == [("+I", 2, "bb"), ("+I", 3, "cc")]
    compacted = opened("dedup_levels")
    added = compacted.snapshots().filter(pl.col("kind") == "APPEND")["delta_record_count"].sum()
    assert "COMPACT" in compacted.snapshots()["kind"].to_list()
    assert compacted.changes(0, 5, mode="delta").collect().height == added


def test_scenario_25_filters_on_values_reach_only_files_whose_keys_do_not_recur(opened):
    stale = opened("index_keyed_merge_on_read")
    assert stale.explain(pl.col("v") == "old").files_read == 2
    assert rows(stale.scan().filter(pl.col("v") == "old")) == []
    single = opened("bucket_rescaled")
    spared = single.explain((pl.col("p") == "x") & (pl.col("v") == "bb"))
    assert [(step.why, step.before > step.after) for step in spared.steps if step.why.startswith("values")] == [("values v", True)]
    assert rows(single.scan().filter(pl.col("v") == "bb")) == [("x", 2, "bb")]


def test_scenario_26_old_files_lack_the_column(opened):
    table = opened("evolve_append_parquet")
    given, absent = table.explain(pl.col("first") == "f", at=2), table.explain(pl.col("first").is_null(), at=2)
    assert (given.files_read, given.files_total) == (1, 2)
    assert absent.files_read == 2
    assert table.scan(at=2).filter(pl.col("first").is_null()).collect().height == 4


def test_scenario_27_an_update_shows_after_compaction_as_a_vector(opened):
    table, key = opened("vectors_keyed_level_0"), pl.col("k") == 1
    assert rows(table.scan(at=3).filter(key)) == [(1, "v1")]
    assert rows(table.scan(at=4).filter(key)) == [(1, "hidden")]
    [vectors] = table.indexes(at=4)["vectors"].to_list()
    assert [one["deleted_row_count"] for one in vectors] == [2]  # key 1 was updated, key 2 deleted


def test_scenario_29_a_key_moves_to_another_partition(opened):
    table, key = opened("bucket_cross_deduplicate"), pl.col("k") == 1
    assert rows(table.scan(at=1).filter(key).select("pt")) == [("p1",)]
    moved = rows(table.scan(at=2, raw=True).filter(key).select("pt", "_row_kind"), "pt", "_row_kind")
    assert moved == [("p1", "+I"), ("p1", "-D"), ("p2", "+I")]
    assert rows(table.scan(at=2).filter(key).select("pt")) == [("p2",)]


def test_scenario_33_the_files_table_names_partitions_and_has_all_levels(opened):
    found = opened("bucket_rescaled").system("files").collect()
    assert set(found["partition"]) == {"{x}", "{y}", "{z}"}
    assert set(found["level"]) == {0, 5}


def test_scenario_34_the_ro_table_waits_for_a_full_compaction(opened):
    table = opened("dedup_write_only_then_compacted")
    assert rows(table.system("ro", at=5)) == []
    assert rows(table.system("ro"), "k") == rows(table.scan(), "k") != []


def test_scenario_35_main_shows_the_branch_it_was_forwarded_to(opened):
    table = opened("history_fast_forward")
    assert rows(table.scan(), "k") == rows(table.branch("b").scan(), "k") == [(1, "a"), (2, "kept"), (3, "c")]
