"""Level 0 is read by the kinds of its rows: a writer that counts no deletes there, as pypaimon 2.1.0 does, makes no table that reads otherwise."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import lakekit as lk
from lakekit.bucket import merge_read
from lakekit.data_file import rolling_writer as writing, row_kinds
from lakekit.format import parquet
from lakekit.metadata import manifest_reader, snapshots
from lakekit.model.data_file import DataFileMeta
from spec_tests.conftest import DEEP

OPTIONS = {
    "deduplicate": {},
    "deduplicate input": {"changelog-producer": "input"},
    "deduplicate write-only": {"write-only": "true"},
    "deduplicate lookup": {"changelog-producer": "lookup"},
    "deduplicate vectors": {"deletion-vectors.enabled": "true"},
    "partial-update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "aggregation": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "fields.s.ignore-retract": "true"},
    "aggregation removes": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "aggregation.remove-record-on-delete": "true"},
}
SCHEMA = {"k": "INT", "v": "BIGINT", "s": "STRING"}
ROWS = {"k": pl.Int32, "v": pl.Int64, "s": pl.String, "_row_kind": pl.String}


def miscount(monkeypatch):
    """Makes lakekit a writer that counts no deletes at level 0."""

    def counted(**facts):
        made = DataFileMeta(**facts)
        return replace(made, delete_row_count=0) if made.level == 0 else made

    monkeypatch.setattr(writing, "DataFileMeta", counted)


def flush(rng):
    """Rows of some keys, each once."""
    keys = rng.sample(range(8), rng.randint(1, 5))
    low = rng.choice([0, 0, 10, 20])  # ranges that overlap nothing need no merge
    rows = [(low + k, rng.randint(0, 9), rng.choice([None, "a", "b"]), rng.choice(["+I", "+U", "-D"])) for k in keys]
    return pl.DataFrame(rows, schema=ROWS, orient="row")


def answers(table):
    """What each way of reading says."""
    frame = table.scan()
    condition = pl.col("v") > 4
    since = table.snapshots()["snapshot_id"].min()
    return {
        "scan": sorted(frame.collect().rows(), key=repr),
        "filtered": sorted(frame.filter(condition).collect().rows(), key=repr),
        "column": sorted(frame.select("v").collect().rows(), key=repr),
        "totals": table.aggregate(pl.len(), pl.sum("v"), pl.max("k")).rows(),
        "count": table.aggregate(pl.len(), where=condition).rows(),
        "audit log": sorted(table.system("audit_log").collect().rows(), key=repr),
        "changes": sorted(table.changes(since, None).collect().rows(), key=repr),
        "difference": sorted(table.changes(since, None, mode="diff").collect().rows(), key=repr),
    }


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("name", OPTIONS)
def test_counts_of_level_zero_change_nothing(tmp_path, monkeypatch, name, file_format):
    for seed in range(40 if DEEP else 2):
        rng = random.Random(f"{name} {file_format} {seed}")
        options = {
            "bucket": rng.choice(["1", "2", "-1"]),
            "file.format": file_format,
            "num-sorted-run.compaction-trigger": rng.choice(["2", "3", "9"]),
            **OPTIONS[name],
        }
        steps = [rng.choice(["flush", "flush", "flush", "compact", "full"]) for _ in range(rng.randint(2, 7))]
        frames = [flush(rng) for _ in steps]
        found = []
        for is_honest in (True, False):
            with monkeypatch.context() as patch:
                if not is_honest:
                    miscount(patch)
                table = lk.create(tmp_path / f"{seed}-{is_honest}", SCHEMA, primary_keys=["k"], options=options)
                for step, frame in zip(steps, frames, strict=True):
                    if step == "flush":
                        table.upsert(frame, row_kind="_row_kind")
                    else:
                        table.compact(full=step == "full")
            if table.snapshots().height:
                found.append(answers(lk.open(tmp_path / f"{seed}-{is_honest}")))
        assert found[:1] == found[1:], (name, seed, steps)


def test_a_file_that_rises_has_its_deletes_counted(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        miscount(patch)
        table = lk.create(tmp_path / "t", SCHEMA, primary_keys=["k"], options={"bucket": "1"})
        table.upsert([{"k": 1, "v": 1}, {"k": 2, "v": 2}])
        table.upsert(pl.DataFrame([(8, 1, None, "-D"), (9, 1, None, "+I")], schema=ROWS, orient="row"), row_kind="_row_kind")
    assert table.files()["delete_row_count"].sum() == 0
    assert sorted(table.scan().collect()["k"]) == [1, 2, 9]
    table.compact(full=True)
    assert sorted(table.scan().collect()["k"]) == [1, 2, 9]
    assert set(table.files()["level"]) == {5}
    assert table.check(deep=True).ok


def test_conditions_on_rows_are_refused_where_level_zero_holds_deletes(tmp_path, monkeypatch):
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.default-aggregate-function": "last_value", "write-only": "true"}
    with monkeypatch.context() as patch:
        miscount(patch)
        table = lk.create(tmp_path / "t", SCHEMA, primary_keys=["k"], options=options)
        table.upsert(pl.DataFrame([(1, 1, None, "+I"), (2, 1, None, "-D")], schema=ROWS, orient="row"), row_kind="_row_kind")
    with pytest.raises(lk.InvalidOption, match="compact"):
        table.delete("v = 1")


def test_bounds_of_kinds_spare_their_column(tmp_path, monkeypatch):
    table = lk.create(tmp_path / "t", SCHEMA, primary_keys=["k"], options={"bucket": "1"})
    table.upsert([{"k": 1, "v": 1}])
    looks = []
    bounds = parquet.integer_bounds
    monkeypatch.setattr(parquet, "integer_bounds", lambda *asked: looks.append(asked) or bounds(*asked))
    handle = lk.open(tmp_path / "t")._context()
    entries = manifest_reader.read_live_entries(handle, snapshots.latest(handle))
    assert not row_kinds.may_retract(handle, entries, np.arange(len(entries))).any()
    assert not row_kinds.may_retract(handle, entries, np.arange(len(entries))).any()
    assert len(looks) <= 1, "what a footer says is remembered"


@pytest.mark.parametrize("kind", ["+I", "+U", "-D"])
def test_kinds_of_level_zero_are_read_once_where_all_rows_are_insertions(tmp_path, monkeypatch, kind):
    """A writer that counts no deletes: what a merge saw of all kinds of its files is cached, unless one may retract."""
    options = {"bucket": "1", "write-only": "true"}
    with monkeypatch.context() as patch:
        miscount(patch)
        table = lk.create(tmp_path / "t", SCHEMA, primary_keys=["k"], options=options)
        for number, own in enumerate(["+I", kind]):
            table.upsert(pl.DataFrame([(1, number, "a", own), (2, number, "b", "+I")], schema=ROWS, orient="row"), row_kind="_row_kind")
    table = lk.open(tmp_path / "t")
    checks = []
    check = merge_read.check_row_kinds
    monkeypatch.setattr(merge_read, "check_row_kinds", lambda *args: checks.append(args) or check(*args))
    rows = [{"k": 1, "v": 1, "s": "a"}] * (kind != "-D") + [{"k": 2, "v": 1, "s": "b"}]
    assert table.scan().filter(pl.col("k") > 0).collect().to_dicts() == rows
    filtered = len(checks)
    assert all(table.scan().collect().to_dicts() == rows for _ in range(3))
    assert table.scan().filter(pl.col("v") == 1).collect().to_dicts() == rows
    assert (filtered, len(checks)) == ((1, 2) if kind == "+I" else (1, 5))  # a condition on keys shows some rows alone
