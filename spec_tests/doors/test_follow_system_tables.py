"""`$audit_log` and `$binlog` are followed as the reference streams them: each change as the system table shows it."""

from __future__ import annotations

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import lakekit as lk
from lakekit.errors import InvalidOption


@pytest.fixture
def catalog(tmp_path):
    found = lk.connect(tmp_path)
    found.create_database("d")
    options = {"bucket": "1", "changelog-producer": "lookup"}
    table = found.create_table("d.t", {"k": "INT", "v": "STRING"}, primary_keys=["k"], options=options)
    table.upsert([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
    table.upsert([{"k": 1, "v": "A"}, {"k": 3, "v": "c"}])
    table.upsert([{"k": 2, "v": None, "op": "-D"}], row_kind="op")
    return found


def collected(stream) -> pl.DataFrame:
    return pl.concat([change.frame.collect() for change in stream])


def test_the_audit_log_of_a_stream_is_that_of_a_range(catalog):
    told = collected(catalog["d.t$audit_log"].follow(1, until="latest"))
    assert told.columns == ["rowkind", "k", "v"]
    assert told.rows() == [("+I", 1, "a"), ("+I", 2, "b"), ("-U", 1, "a"), ("+U", 1, "A"), ("+I", 3, "c"), ("-D", 2, "b")]
    newest = catalog["d.t"].snapshots()["snapshot_id"].max()
    between = catalog["d.t$audit_log"].scan(options={"incremental-between": f"1,{newest}", "incremental-between-scan-mode": "changelog"}).collect()
    assert_frame_equal(collected(catalog["d.t$audit_log"].follow(2, until="latest")), between, check_row_order=False)


def test_the_binlog_of_a_stream_has_an_update_a_row(catalog):
    told = collected(catalog["d.t$binlog"].follow(1, until="latest"))
    assert told.rows() == [("+I", [1], ["a"]), ("+I", [2], ["b"]), ("+U", [1, 1], ["a", "A"]), ("+I", [3], ["c"]), ("-D", [2], ["b"])]


def test_append_tables_are_followed_too(tmp_path):
    catalog = lk.connect(tmp_path)
    catalog.create_database("d")
    table = catalog.create_table("d.a", {"v": "INT"})
    table.append([{"v": 1}])
    table.append([{"v": 2}])
    assert collected(catalog["d.a$audit_log"].follow(1, until="latest")).rows() == [("+I", 1), ("+I", 2)]
    assert collected(catalog["d.a$binlog"].follow(1, until="latest")).rows() == [("+I", [1]), ("+I", [2])]


def test_a_consumer_of_the_audit_log_is_one_of_the_table(catalog):
    for change in catalog["d.t$audit_log"].follow(1, consumer="c", until="latest"):
        change.frame.collect()
        change.ack()
    assert catalog["d.t"].consumers().height == 1
    assert list(catalog["d.t$audit_log"].follow(1, consumer="c", until="latest")) == []


def test_other_system_tables_are_refused_by_name(catalog):
    for name in ("files", "snapshots", "ro"):
        with pytest.raises(InvalidOption, match="audit_log and binlog can"):
            catalog[f"d.t${name}"].follow()
