"""`cat.maintain` and `lakekit maintain`: what is due in a warehouse, in a database or in one table, is done once."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings, strategies as st

import lakekit as lk
from lakekit.catalog import due_maintenance
from lakekit.cli.main import EXIT_NO_TABLE, EXIT_OK, EXIT_PROBLEM, main
from lakekit.errors import DatabaseNotFound, InvalidOption, TableNotFound


@pytest.fixture
def cat(tmp_path):
    made = lk.connect(tmp_path / "house")
    made.create_database("d")
    options = {"write-only": "true", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}
    table = made.create_table("d.t", {"k": "INT"}, options=options)
    for k in range(4):
        table.append([{"k": k}])
    made.sql("USE d; CREATE MATERIALIZED TABLE m FRESHNESS = INTERVAL '1' SECOND AS SELECT count(*) AS n FROM t")
    made.sql("CREATE MATERIALIZED TABLE young FRESHNESS = INTERVAL '1' DAY AS SELECT count(*) AS n FROM t")
    return made


@pytest.fixture
def run(cat, tmp_path, capsys):
    """The verb on the warehouse: exit code, the rows as JSON, stderr."""

    def ran(*arguments):
        code = main(["maintain", str(tmp_path / "house"), *arguments, "--format", "json"])
        captured = capsys.readouterr()
        return code, [json.loads(line) for line in captured.out.splitlines()], captured.err

    return ran


def tasks(frame):
    return frame.select("table", "task", "done").rows()


def test_what_is_due_is_done_once(cat):
    cat.sql("INSERT INTO t VALUES (7)")
    time.sleep(1.05)
    due = cat.maintain(dry_run=True)
    assert tasks(due) == [("m", "refresh", "due"), ("t", "expire snapshots", "due")]
    assert due["details"][0] == "older than 1 second"
    assert due["details"][1].startswith("3 snapshots, ")
    assert cat["d.t"].snapshots().height == 5
    assert cat["d.m"].scan().collect()["n"].to_list() == [4]
    done = cat.maintain()
    assert tasks(done) == [("m", "refresh", "done"), ("t", "expire snapshots", "done")]
    assert done["details"].to_list() == ["snapshot 2, 1 row", due["details"][1]]
    assert cat["d.t"].snapshots().height == 2
    assert cat["d.m"].scan().collect()["n"].to_list() == [5]
    assert cat.maintain("d.t").height == cat.maintain("d.young").height == 0


def test_a_suspended_table_is_left_alone(cat):
    cat["d.m"].suspend()
    time.sleep(1.05)
    assert tasks(cat.maintain("d.m")) == []


def test_tags_consumers_and_partitions(cat):
    options = {
        "tag.automatic-creation": "process-time",
        "consumer.expiration-time": "1 ms",
        "partition.expiration-time": "7 d",
        "partition.timestamp-pattern": "$dt",
        "write-only": "true",
    }
    table = cat.create_table("d.p", {"k": "INT", "dt": "STRING"}, partition_keys=["dt"], options=options)
    table.append([{"k": 1, "dt": "2020-01-01"}])
    table.create_tag("short", retain="1 ms")
    table.reset_consumer("c", next_snapshot=1)
    time.sleep(0.01)
    due = cat.maintain("d.p", dry_run=True)
    assert tasks(due) == [("p", task, "due") for task in ("create tags", "expire tags", "expire partitions", "expire consumers")]
    assert table.tags()["tag"].to_list() == ["short"]
    done = cat.maintain("d.p")
    assert done["details"].to_list() == due["details"].to_list()
    assert done["task"].to_list() == due["task"].to_list()
    assert table.scan().collect().height == table.consumers().height == 0
    assert "short" not in table.tags()["tag"].to_list()
    assert cat.maintain("d.p").height == 0


def test_a_failure_is_in_its_row_and_the_others_go_on(cat, run):
    cat.sql("DROP TABLE t")
    time.sleep(1.05)
    (cat_row, *others) = cat.maintain().rows(named=True)
    assert (cat_row["task"], cat_row["done"], others) == ("refresh", "failed", [])
    assert "no table 't' in database d" in cat_row["error"]
    code, rows, err = run()
    assert (code, err) == (EXIT_PROBLEM, "")
    assert rows == [cat_row]


def test_the_verb(cat, run):
    cat["d.t"].append([{"k": 5}])
    code, rows, err = run("d.t", "--dry-run")
    assert (code, err) == (EXIT_OK, "")
    (row,) = rows
    assert row.pop("details").startswith("3 snapshots, ")
    assert row == {"database": "d", "table": "t", "task": "expire snapshots", "done": "due", "error": None}
    assert run("d")[0] == EXIT_OK
    assert run("d.t") == (EXIT_OK, [], "")
    assert run("d.none")[0] == EXIT_NO_TABLE
    assert run("none")[0] == EXIT_PROBLEM


def test_names(cat):
    for name, wrong in {"d.none": TableNotFound, "none": DatabaseNotFound}.items():
        with pytest.raises(wrong):
            cat.maintain(name)


def tables_in_turn(cat):
    return [table for table, task, done in tasks(cat.maintain()) if task == "refresh" and done == "done"]


def test_materialized_tables_are_refreshed_behind_those_that_they_read(cat):
    cat.sql("DROP TABLE m; DROP TABLE young")
    hour = "FRESHNESS = INTERVAL '1' SECOND AS"
    cat.sql(f"CREATE MATERIALIZED TABLE z {hour} SELECT k FROM t; CREATE TEMPORARY VIEW v AS SELECT k + 1 AS k FROM z")
    cat.sql(f"CREATE MATERIALIZED TABLE y {hour} SELECT k FROM v; CREATE MATERIALIZED TABLE a {hour} SELECT max(k) AS k FROM d.y")
    cat.sql("INSERT INTO t VALUES (70)")
    time.sleep(1.05)
    assert tables_in_turn(cat) == ["z", "y", "a"]
    assert cat["d.a"].scan().collect()["k"].to_list() == [71]
    cat.sql("INSERT INTO t VALUES (90)")
    time.sleep(1.05)
    assert [row[0] for row in cat.sql("CALL sys.refresh_due()").rows()] == ["d.z", "d.y", "d.a"]
    assert cat["d.a"].scan().collect()["k"].to_list() == [91]


def test_tables_that_read_each_other_are_named(cat):
    hour = "FRESHNESS = INTERVAL '1' SECOND AS"
    cat.sql(f"CREATE MATERIALIZED TABLE x {hour} SELECT k FROM t; CREATE MATERIALIZED TABLE y {hour} SELECT k FROM x")
    cat.sql(f"CREATE MATERIALIZED TABLE b {hour} SELECT k FROM y; DROP TABLE x; CREATE MATERIALIZED TABLE x {hour} SELECT k FROM y")
    time.sleep(1.05)
    for dry_run in (True, False):
        rows = {row["table"]: row for row in cat.maintain(dry_run=dry_run).rows(named=True) if row["task"] == "refresh"}
        assert {name for name, row in rows.items() if row["done"] == "failed"} == {"x", "y"}
        assert {name for name, row in rows.items() if row["done"] != "failed"} == {"b", "m"}
        assert {rows["x"]["error"]} == {rows["y"]["error"]}
        assert any(f"d.{one} reads d.{other}, d.{other} reads d.{one}" in rows["x"]["error"] for one, other in ("xy", "yx"))
    with pytest.raises(InvalidOption, match="none can be computed before the others"):
        cat.sql("CALL sys.refresh_due()")


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from("abcdef"), min_size=2, max_size=6, unique=True), st.data())
def test_drawn_graphs_are_refreshed_in_order(tmp_path_factory, names, data):
    """Each table of a drawn graph without circles comes behind all that it reads, whatever the names sort to."""
    cat = lk.connect(tmp_path_factory.mktemp("graph"))
    cat.sql("CREATE DATABASE d; USE d; CREATE TABLE t (k INT); INSERT INTO t VALUES (1)")
    reads = {}
    for at, name in enumerate(names):
        reads[name] = data.draw(st.lists(st.sampled_from(names[:at]), unique=True)) if at else []
        sources = " UNION ALL ".join(f"SELECT k FROM {source}" for source in ["t", *reads[name]])
        cat.sql(f"CREATE MATERIALIZED TABLE {name} FRESHNESS = INTERVAL '1' SECOND AS {sources}")
    ordered, wrong = due_maintenance.refresh_order([cat[f"d.{name}"] for name in sorted(names)])
    turns = [table.name[2:] for table in ordered]
    assert wrong == {}
    assert sorted(turns) == sorted(names)
    assert all(turns.index(other) < turns.index(name) for name in names for other in reads[name])
