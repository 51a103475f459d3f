"""Options that say what or how to read, and the steps by which planning spares files: each seen at work on a table of the reference engine."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import lakekit as lk
from lakekit.codec import hashing
from lakekit.errors import Corrupt, InvalidOption, SchemaMismatch, SnapshotNotFound
from lakekit.storage.protocol import FileMissing
from lakekit.types import parse


@pytest.fixture
def opened(tables_path):
    return lambda name, **options: lk.open(str(tables_path / name), options={key.replace("__", "-"): value for key, value in options.items()})


@pytest.fixture
def flights(fixtures_path):
    return lk.open(str(fixtures_path / "flights" / "table"))


def rows(frame, *by):
    found = frame.collect() if isinstance(frame, pl.LazyFrame) else frame
    return (found.sort(*by) if by else found).rows()


# ---- what is read ----------------------------------------------------------------------------------------------------------------------------------


def test_raw_shows_every_stored_version(opened):
    found = opened("dedup_levels").scan(raw=True).select("k", "v", "_SEQUENCE_NUMBER", "_row_kind", "_level").collect()
    assert rows(found, "_SEQUENCE_NUMBER") == [
        (1, "a", 0, "+I", 5),
        (3, "c", 2, "+I", 5),
        (5, "e", 3, "+I", 5),
        (4, "d", 5, "+I", 5),
        (3, "cc", 6, "+I", 0),
        (5, None, 7, "-D", 0),
        (6, "f", 8, "+I", 0),
        (1, "aa", 9, "+I", 0),
    ]


@pytest.mark.parametrize("mode", ["latest", "latest-full", "full", "compacted-full"])
@pytest.mark.parametrize("named", [{"scan.snapshot-id": "2"}, {"scan.tag-name": "two"}, {"scan.version": "2"}, {"scan.version": "two"}], ids=str)
def test_the_newest_snapshot_and_another_are_not_asked_for_at_once(opened, mode, named):
    [key] = named
    with pytest.raises(InvalidOption, match=f"reads the newest snapshot and {key} names another"):
        opened("scan_keyed").scan(options={"scan.mode": mode, **named})


def test_one_bucket_alone(flights):
    whole = flights.scan().collect()
    keys = whole.select("day", "carrier", "flight", "origin")
    columns = [keys[name].to_arrow().cast("string") if keys[name].dtype == pl.String else keys[name].to_arrow() for name in keys.columns]
    types = [parse(text) for text in ("DATE NOT NULL", "STRING NOT NULL", "INT NOT NULL", "STRING NOT NULL")]
    bucket = pl.Series(hashing.default_bucket(hashing.hash_columns(columns, types), 2))
    for number in (0, 1):
        alone = flights.scan(options={"scan.bucket": number})
        assert_frame_equal(alone.collect(), whole.filter(bucket == number), check_row_order=False)
        assert flights.with_options({"scan.bucket": number}).explain().files_read == 4
        raw = flights.scan(raw=True, options={"scan.bucket": number}).select("_file").unique().collect()["_file"]
        assert set(raw) == set(flights.files().filter(pl.col("bucket") == number)["file_name"])
    assert flights.scan(options={"scan.bucket": 2}).collect().height == 0


def test_changes_of_one_bucket(opened):
    table = opened("bucket_rescaled")
    assert rows(table.changes(3, 4, options={"scan.bucket": 2})) == [("+I", "z", 9, "z")]
    assert rows(table.changes(1, 2, mode="diff", options={"scan.bucket": 1})) == []


def test_a_fallback_branch_of_other_types_is_refused_wherever_both_are_listed(tables_path, tmp_path):
    copy = tmp_path / "fallback"
    shutil.copytree(tables_path / "history_fallback_append", copy)
    [branch] = (copy / "branch").iterdir()
    newest = max((branch / "schema").iterdir())
    said = json.loads(newest.read_bytes())
    said["fields"][-1]["type"] = "DOUBLE"
    newest.write_text(json.dumps(said), encoding="utf-8")
    table = lk.open(str(copy))
    for ask in (table.scan, lambda: table.system("partitions")):
        with pytest.raises(SchemaMismatch, match="make them alike"):
            ask().collect()
    assert table.system("buckets").collect().height


def test_changes_that_have_all_expired_are_not_told_as_none(opened):
    table = opened("scan_after_expiry")
    assert table.changes(0, 3).collect().height  # what is left of them
    for until in (1, 2):
        with pytest.raises(SnapshotNotFound, match="reach from snapshot 3 to 4"):
            table.changes(0, until)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("overwrite_keyed", [(3, "cc")]),  # the newest snapshot is an APPEND
        ("history_tags", [(3, "c")]),  # and what it deletes is no row
        ("dedup_write_only_then_compacted", []),  # a COMPACT adds nothing, and nobody looks for an earlier APPEND
        ("empty_keyed", []),
    ],
)
def test_latest_delta_is_what_the_newest_snapshot_added(opened, case, expected):
    table = opened(case)
    assert rows(table.scan(options={"scan.mode": "latest-delta"})) == expected


def test_latest_delta_shows_level_0_of_tables_that_hide_it(opened, tmp_path, tables_path):
    root = shutil.copytree(tables_path / "first_row_lookup", tmp_path / "t")
    for newer in ("snapshot-4", "snapshot-5", "snapshot-6"):
        (root / "snapshot" / newer).unlink()
    (root / "snapshot" / "LATEST").write_text("3")
    table = lk.open(str(root), options={"scan.mode": "latest-delta"})
    assert rows(table.scan(), "k") == [(1, "z"), (3, "d"), (4, "u")]
    assert rows(table.system("audit_log"), "k") == [("+I", 1, "z"), ("+I", 3, "d"), ("+U", 4, "u")]


def test_options_that_mean_changes_give_the_rows_that_were_added(opened):
    table = opened("changelog_input")
    between = {"incremental-between": "2,3"}
    assert rows(table.scan(options=between)) == [(1, "aa", 11), (3, "c4", 34)]
    assert rows(table.scan(options={**between, "scan.mode": "incremental", "incremental-between-scan-mode": "diff"}), "k") == [(1, "aa", 11), (3, "c4", 34)]
    assert rows(table.with_options(between).scan(at=1), "k") == rows(table.scan(at=1), "k")
    assert table.scan(options=between).collect_schema() == table.scan().collect_schema()


@pytest.mark.parametrize(
    "options",
    [
        {"incremental-between": "1,2", "scan.snapshot-id": 1},
        {"incremental-between": "1,2", "incremental-to-auto-tag": "2024-01-01"},
        {"incremental-between": "1,2", "scan.mode": "latest"},
        {"scan.mode": "incremental"},
        {"scan.mode": "latest-delta", "scan.tag-name": "t1"},
        {"scan.mode": "latest-delta", "incremental-between": "1,2"},
    ],
    ids=str,
)
def test_contradictions_are_refused(opened, options):
    with pytest.raises(InvalidOption):
        opened("changelog_input").scan(options=options)


FILES_SINCE = {"scan.file-creation-time-millis": "5"}
CREATED = {"scan.mode": "from-creation-timestamp", "scan.creation-time-millis": "5"}


@pytest.mark.parametrize(
    "options",
    [
        *({**FILES_SINCE, "scan.mode": mode} for mode in ("latest", "latest-full", "full", "compacted-full", "from-creation-timestamp")),
        *({**FILES_SINCE, key: "2"} for key in ("scan.snapshot-id", "scan.version", "scan.watermark", "scan.timestamp-millis")),
        *({**CREATED, key: "2"} for key in ("scan.snapshot-id", "scan.tag-name", "scan.version", "scan.timestamp-millis")),
        {"scan.version": "2", "scan.tag-name": "two"},
        {"scan.version": "2", "scan.timestamp-millis": "5"},
        {**FILES_SINCE, "incremental-between": "1,2"},
    ],
    ids=str,
)
def test_what_names_two_things_is_refused_of_states_and_streams(opened, options):
    table = opened("changelog_input")
    with pytest.raises(InvalidOption, match=r"set (one of them|only one of them)|not something a stream begins with"):
        table.scan(options=options)
    with pytest.raises(InvalidOption):
        table.follow(options=options)


def test_a_place_given_to_a_stream_is_instead_of_the_options(opened):
    table = opened("changelog_input").with_options(FILES_SINCE)
    assert next(table.follow(1, until="latest")).snapshot_id == 1
    assert next(table.follow(datetime(2020, 1, 1, tzinfo=UTC), until="latest")).snapshot_id == 1


@pytest.mark.parametrize("ask", [lambda t: t.explain(), lambda t: t.scan(raw=True), lambda t: t.system("ro")])
def test_changes_are_no_state(opened, ask):
    with pytest.raises(InvalidOption, match="asks for what changed"):
        ask(opened("changelog_input").with_options({"incremental-between": "1,2"}))


def test_vectors_merged_on_read_show_what_waits_for_compaction(opened):
    table = opened("vectors_keyed_level_0")
    assert rows(table.scan(at=3).filter(pl.col("k").is_in([1, 2, 99])), "k") == [(1, "v1"), (2, "v2")]
    merged = table.with_options({"deletion-vectors.merge-on-read": "true"})
    assert_frame_equal(merged.scan(at=3).collect(), table.scan(at=4).collect(), check_row_order=False)
    assert_frame_equal(merged.scan(at=4).collect(), table.scan(at=4).collect(), check_row_order=False)


def test_the_level_of_ro_follows_the_number_of_levels(opened):
    table = opened("dedup_levels")
    assert table.options == {"bucket": "1"}
    assert table.system("ro").collect().height == 4  # five runs before compaction make six levels
    assert table.system("ro", options={"num-levels": 4}).collect().height == 0
    assert table.system("ro", options={"num-sorted-run.compaction-trigger": 3}).collect().height == 0


def test_a_branch_by_option(opened):
    assert_frame_equal(opened("history_branches", branch="from_tag").scan().collect(), opened("history_branches").branch("from_tag").scan().collect())


def test_a_primary_branch_is_read_first(opened):
    """Rows as engine 1.4.2 gave them, asked with these options."""
    options = {"scan.fallback-branch": "", "scan.primary-branch": "stream"}
    table = opened("history_fallback_branch").with_options(options)
    stream = [("x", 1, "stream"), ("y", 1, "stream"), ("z", 1, "stream"), ("z", 2, "stream")]
    assert rows(table.scan(), "p", "k") == [("w", 1, "main"), *stream]
    assert rows(table.scan(at=1), "p", "k") == stream
    assert table.system("partitions").collect()["partition"].to_list() == ["p=w", "p=x", "p=y", "p=z"]
    missing = table.with_options({"scan.primary-branch": "nothing"})
    assert rows(missing.scan(), "p", "k") == [("w", 1, "main"), ("x", 1, "main"), ("x", 2, "main")]


def test_a_fallback_branch_that_nobody_wrote_to_adds_nothing_to_any_state(tables_path, tmp_path):
    copy = shutil.copytree(tables_path / "history_tags", tmp_path / "t")
    alone = lk.open(str(copy))
    alone.create_branch("empty")
    both = alone.with_options({"scan.fallback-branch": "empty"})
    for at in (None, *alone.snapshots()["snapshot_id"], *alone.tags()["tag"]):
        assert_frame_equal(both.scan(at=at).collect(), alone.scan(at=at).collect())


# ---- how it is read --------------------------------------------------------------------------------------------------------------------------------


def test_lost_and_torn_files_may_be_left_out(tables_path, tmp_path):
    root = shutil.copytree(tables_path / "append_plain", tmp_path / "t")
    table = lk.open(str(root))
    files = [Path(path) for path in table.files()["file_path"]]
    counts = dict(zip(files, table.files()["row_count"], strict=True))
    files[0].unlink()
    with pytest.raises(FileMissing):
        table.scan().collect()
    ignoring = {"scan.ignore-lost-files": "true"}
    assert table.scan(options=ignoring).collect().height == sum(counts.values()) - counts[files[0]]
    files[1].write_bytes(files[1].read_bytes()[:-5])
    with pytest.raises(Corrupt):
        table.scan(options=ignoring).collect()
    left = sum(counts.values()) - counts[files[0]] - counts[files[1]]
    assert table.scan(options={**ignoring, "scan.ignore-corrupt-files": "true"}).collect().height == left


def test_merging_in_slices_changes_nothing(flights):
    sliced = flights.scan(options={"lakekit.merge-memory": "1 b"}).collect()
    assert_frame_equal(sliced, flights.scan().collect(), check_row_order=False)


def test_nanoseconds_can_be_left_out(opened):
    plain = opened("types_timestamps_parquet").scan()
    coarse = opened("types_timestamps_parquet", **{"lakekit.timestamp-unit": "us"}).scan()
    assert plain.collect_schema()["ts9"] == pl.Datetime("ns")
    assert coarse.collect_schema()["ts9"] == pl.Datetime("us")
    assert_frame_equal(coarse.collect(), plain.collect().cast(dict(coarse.collect_schema())))


# ---- what planning spares ------------------------------------------------------------------------------------------------------------------------


def spared(explained):
    return {step.why for step in explained.steps if step.after < step.before}


@pytest.mark.long
@pytest.mark.parametrize(
    ("case", "expr", "why"),
    [
        ("append_partitioned", pl.col("hour") == 23, "partition"),
        ("files_manifest_merged", pl.col("k") == -1, "keys k"),
        ("bucket_default_i32", pl.col("i32") == 7, "bucket"),
        ("bucket_dynamic", pl.col("k") == "g", "hash index"),
        ("append_plain", pl.col("id") == 10**6, "values id"),
        ("files_stats_modes", pl.col("id") == 10**6, "values id"),
    ],
)
def test_a_filter_spares_files(opened, case, expr, why):
    table = opened(case)
    assert why in spared(table.explain(expr))
    assert_frame_equal(table.scan().filter(expr).collect(), table.scan().collect().filter(expr), check_row_order=False)


def test_file_indexes_spare_files_and_rows_unless_told_otherwise(opened):
    table, odd = opened("index_bitmap_v2"), pl.col("s") == "certainly not there"
    assert "file index" in spared(table.explain(odd))
    assert "file index" not in spared(table.with_options({"file-index.read.enabled": "false"}).explain(odd))
    for value in table.scan().select(pl.col("i32").unique()).collect()["i32"]:
        here = pl.col("i32").eq_missing(value)
        assert_frame_equal(table.scan().filter(here).collect(), table.scan().collect().filter(here))


# ---- a system table newer than the recording engine -----------------------------------------------------------------------------------------------


def test_file_indexes_lists_the_heads_of_containers(opened):
    found = opened("index_map_keys").system("file_indexes").collect()
    assert found.columns == [
        "partition",
        "bucket",
        "file_path",
        "file_size_in_bytes",
        "record_count",
        "schema_id",
        "column_name",
        "index_type",
        "storage_type",
        "index_file_path",
        "index_size_in_bytes",
        "index_container_size_in_bytes",
        "is_empty",
    ]
    kinds = [("m[a]", "bitmap"), ("m[a]", "bloom-filter"), ("m[b]", "bloom-filter"), ("n[x]", "bloom-filter"), ("n[y]", "bitmap")]
    for (kept, path), group in found.group_by("storage_type", "index_file_path"):
        assert rows(group.select("column_name", "index_type"), "column_name", "index_type") == kinds
        [size] = group["index_container_size_in_bytes"].unique()
        assert group["index_size_in_bytes"].sum() < size
        assert (kept == "EMBEDDED") == (path is None)
        assert path is None or Path(path).stat().st_size == size
    assert set(found["storage_type"]) == {"EMBEDDED", "FILE"}
    assert not found["is_empty"].any()


def test_file_indexes_of_partitions_at_a_snapshot(opened):
    table = opened("index_keyed")
    newest, first = table.system("file_indexes").collect(), table.system("file_indexes", at=1).collect()
    assert set(newest["partition"]) == {"{0}", "{1}"}
    assert first.height != newest.height
    assert opened("append_plain").system("file_indexes").collect().height == 0
