"""Chores from the shell: they do what the method of that name does, tell what went, and delete nothing with --dry-run."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from datetime import timedelta

import pytest

import lakekit as lk
from lakekit.cli.main import EXIT_NO_TABLE, EXIT_OK, EXIT_PROBLEM, EXIT_USAGE, main
from lakekit.metadata import snapshots

COLUMNS = {"p": "INT NOT NULL", "k": "INT NOT NULL", "v": "STRING"}


@pytest.fixture
def table(tmp_path):
    made = lk.create(tmp_path / "t", COLUMNS, primary_keys=["p", "k"], partition_keys=["p"], options={"bucket": "1", "write-only": "true"})
    for turn in range(4):
        made.upsert([{"p": turn % 2, "k": k, "v": f"{turn}"} for k in range(5)])
    return made


@pytest.fixture
def run(capsys, table):
    """A verb on that table: exit code, what a pipe gets as JSON, stderr."""

    def ran(verb, *arguments, shape="json"):
        code = main([verb, table.location, *arguments, "--format", shape])
        captured = capsys.readouterr()
        return code, [json.loads(line) for line in captured.out.splitlines()] if shape == "json" else captured.out, captured.err

    return ran


def test_compact(run, table):
    code, (told,), err = run("compact", "--full", "--where", "p = 1")
    assert (code, told["kinds"], told["removed_file_count"], err) == (EXIT_OK, ["COMPACT"], 2, "")
    assert set(table.files().filter(partition="p=1")["level"]) == {5}
    assert "COMPACT" in run("compact", "--full", shape="table")[1]
    assert run("compact", "--where", "v = 'x'")[0] == EXIT_USAGE
    assert run("compact", "--order-by", "v, k")[0] == EXIT_USAGE


def test_expire(run, table, capsys):
    code, (told,), _ = run("expire", "snapshots", "--retain-max", "2", "--retain-min", "1", "--dry-run")
    assert (code, told["snapshot_ids"], told["dry_run"]) == (EXIT_OK, [1, 2], True)
    assert table.snapshots().height == 4
    assert run("expire", "snapshots", "--retain-max", "2", "--retain-min", "1")[1][0]["dry_run"] is False
    assert table.snapshots()["snapshot_id"].sort().to_list() == [3, 4]
    assert run("expire", "tags", "--older-than", "2020-01-01")[0] == EXIT_OK
    assert run("expire", "consumers", "--expiration", "1 d")[0] == EXIT_OK
    code, _, err = run("expire", "consumers", "--retain-max", "1")
    assert (code, err) == (EXIT_USAGE, "lakekit: --retain-max does not go with consumers, which take --expiration, --including, --excluding\n")
    for wrong, said in (("two", "a whole number, not 'two'"), ("0", "at least 1")):
        with pytest.raises(SystemExit):
            run("expire", "snapshots", "--retain-max", wrong)
        assert capsys.readouterr().err.endswith(f"argument --retain-max: {said}\n")
    assert run("expire", "snapshots", "--older-than", "long ago")[0] == EXIT_USAGE


def test_expire_by_age(run, table):
    assert run("expire", "snapshots", "--older-than", "1 d", "--dry-run")[1][0]["snapshot_ids"] == []
    assert run("expire", "snapshots", "--older-than", "0 s", "--retain-min", "1", "--dry-run")[1][0]["snapshot_ids"] == [1, 2, 3]
    for age in (timedelta(0), "PT0S", "0 ms"):
        assert table.expire_snapshots(older_than=age, retain_min=1, dry_run=True).snapshot_ids == (1, 2, 3)
    for age in (timedelta(hours=1), "1 h", "PT1H"):
        assert table.expire_snapshots(older_than=age, retain_min=1).snapshot_ids == ()
    table.create_tag("v1")
    assert table.expire_tags(older_than="1 h").tags == ()
    assert run("expire", "tags", "--older-than", "0 s")[1][0]["tags"] == ["v1"]
    code, _, err = run("expire", "snapshots", "--older-than", "1 moon")
    assert (code, "or an age such as 7 d; found '1 moon'" in err) == (EXIT_USAGE, True)


def test_consumers_by_name(run, table):
    for name in ("daily", "hourly", "dash"):
        table.reset_consumer(name, next_snapshot=2)
    code, _, err = run("expire", "consumers")
    assert (code, "including='.*' for all" in err) == (EXIT_USAGE, True)
    code, (told,), _ = run("expire", "consumers", "--including", ".*", "--excluding", "da.*", "--dry-run")
    assert (code, told["consumers"]) == (EXIT_OK, ["hourly"])
    assert run("expire", "consumers", "--including", "d.*", "--excluding", "dash")[1][0]["consumers"] == ["daily"]
    assert sorted(table.consumers()["consumer"]) == ["dash", "hourly"]
    assert run("expire", "tags", "--including", ".*")[0] == EXIT_USAGE
    assert run("expire", "consumers", "--including", "(")[0] == EXIT_USAGE


def test_tags(run, table):
    assert run("tag", "create", "v1", "--at", "2", "--retain", "30 d", shape="table") == (EXIT_OK, f"{table.name} · tag v1: created\n", "")
    assert table.tags().select("tag", "snapshot_id").rows() == [("v1", 2)]
    assert run("tag", "replace", "v1", "--dry-run")[1][0]["dry_run"] is True
    assert table.tags()["snapshot_id"].to_list() == [2]
    assert run("tag", "replace", "v1", shape="table")[1].startswith(f"{table.name} · tag v1: replaced\n{table.name} · gone: nothing")
    assert run("tag", "rename", "v1", "v2")[0] == EXIT_OK
    assert table.tags().select("tag", "snapshot_id").rows() == [("v2", 4)]
    assert run("tag", "delete", "v2", "--dry-run")[1][0]["dry_run"] is True
    assert run("tag", "delete", "v2")[0] == EXIT_OK
    assert table.tags().is_empty()
    assert run("tag", "delete", "v2")[0] == EXIT_PROBLEM
    assert "needs a new name" in run("tag", "rename", "v2")[2]
    assert "takes one name" in run("tag", "create", "v2", "v3")[2]


def test_tags_and_branches_are_listed(run, table):
    assert run("tag", "list") == run("branch", "list") == (EXIT_OK, [], "")
    table.create_tag("v1", at=2)
    table.create_branch("dev", tag="v1")
    assert [(one["tag"], one["snapshot_id"]) for one in run("tag", "list")[1]] == [("v1", 2)]
    assert [one["branch"] for one in run("branch", "list")[1]] == ["dev"]
    assert "dev" in run("branch", "list", shape="table")[1]
    for verb in ("tag", "branch"):
        assert run(verb, "list", "v1")[::2] == (EXIT_USAGE, "lakekit: list takes no name such as 'v1'\n")
        assert run(verb, "create")[::2] == (EXIT_USAGE, f"lakekit: create needs the name of a {verb}\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("tag", "create", "v2", "--dry-run"), "--dry-run goes with delete and replace, not with create"),
        (("tag", "rename", "v1", "v2", "--dry-run"), "--dry-run goes with"),
        (("tag", "automatic", "--dry-run"), "--dry-run goes with"),
        (("tag", "delete", "v1", "--at", "2"), "--at goes with create and replace, not with delete"),
        (("tag", "rename", "v1", "v2", "--retain", "1 d"), "--retain goes with"),
        (("tag", "replace", "v1", "--since", "2020-01-01"), "--since goes with create"),
        (("branch", "create", "b", "--dry-run"), "--dry-run goes with delete and forward, not with create"),
        (("branch", "rename", "dev", "b", "--dry-run"), "--dry-run goes with"),
        (("branch", "delete", "dev", "--tag", "v1"), "--tag goes with create"),
    ],
)
def test_flags_that_an_action_does_not_heed_are_refused(run, table, arguments, said):
    """What says `--dry-run` would else have been done."""
    table.create_tag("v1", at=2)
    table.create_branch("dev")
    code, _, err = run(*arguments)
    assert code == EXIT_USAGE
    assert said in err
    assert table.tags()["tag"].to_list() == ["v1"]
    assert table.branches()["branch"].to_list() == ["dev"]


def test_files_that_go_with_a_replaced_tag(run, table):
    table.create_tag("v1", at=2)
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1)
    would, done = (run("tag", "replace", "v1", *dry)[1][0] for dry in (["--dry-run"], []))
    assert would.pop("dry_run") and not done.pop("dry_run")
    assert would == done
    assert would["data_file_count"] == 2


def test_branches_and_rollback(run, table):
    table.create_tag("v1", at=2)
    assert run("branch", "create", "dev", "--tag", "v1")[0] == EXIT_OK
    assert run("branch", "rename", "dev", "next")[0] == EXIT_OK
    assert table.branches()["branch"].to_list() == ["next"]
    assert run("branch", "forward", "next", "--dry-run")[1][0]["snapshot_ids"] == [3, 4]
    assert table.snapshots()["snapshot_id"].max() == 4
    said = run("branch", "fast-forward", "next", shape="table")[1]
    assert said.startswith(f"{table.name} · branch next: main follows it\n{table.name} · gone: 2 snapshots")
    assert table.snapshots()["snapshot_id"].max() == 2
    table.upsert([{"p": 0, "k": 9, "v": "late"}])
    assert run("rollback", "2", "--dry-run")[1][0]["snapshot_ids"] == [3]
    assert table.snapshots()["snapshot_id"].max() == 3
    assert run("rollback", "v1")[0] == EXIT_OK
    assert table.snapshots()["snapshot_id"].max() == 2
    assert run("branch", "delete", "next")[0] == EXIT_OK
    table.upsert([{"p": 0, "k": 8, "v": "more"}])
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert run("tag", "create", "again", "--at", "2")[0] == EXIT_OK  # only a tag keeps it
    assert run("rollback", "2")[0] == EXIT_OK
    assert table.snapshots()["snapshot_id"].to_list() == [2]
    assert run("rollback", "77")[0] == EXIT_PROBLEM


def test_orphans(run, table, tmp_path):
    lost = tmp_path / "t" / "manifest" / "manifest-lost"
    lost.write_bytes(b"lost")
    os.utime(lost, (time.time() - 5 * 86400,) * 2)
    assert [one["path"] for one in run("orphans")[1]] == [str(lost)]
    assert run("orphans", "--older-than", "9 d")[1] == []
    run("orphans", "--delete", "--dry-run")
    assert lost.exists()
    assert run("orphans", shape="table")[1].endswith(f"{table.name} · would go: 1 file, 4 B; --delete removes them\n")
    assert run("orphans", "--older-than", "9 d", shape="table")[1] == f"{table.name} · would go: nothing\n"
    assert len(run("orphans", "--delete")[1]) == 1
    assert not lost.exists()
    assert run("orphans", "--older-than", "some")[0] == EXIT_USAGE


def test_states_by_time_and_watermark(run, table):
    with table.writer() as writer:
        writer.write([{"p": 0, "k": 9, "v": "far"}])
        messages = writer.prepare()
    table.commit(messages, commit_user="job", identifier=1, watermark=500)
    assert run("tag", "create", "first", "--since", "2001-01-01")[0] == EXIT_OK
    assert run("tag", "create", "far", "--watermark", "400")[0] == EXIT_OK
    assert dict(table.tags().select("tag", "snapshot_id").rows()) == {"first": 1, "far": 5}
    for wrong in (("replace", "first", "--since", "2001-01-01"), ("create", "x", "--at", "1", "--watermark", "4"), ("create", "x", "--force"), ("create",)):
        assert run("tag", *wrong)[0] == EXIT_USAGE
    table.upsert([{"p": 0, "k": 8, "v": "more"}])
    stamped = snapshots.latest(table._context())
    table._context().storage.put(table._context().paths.snapshot(6), replace(stamped, watermark=600).to_json())
    assert run("rollback", "--watermark", "599", "--dry-run")[1][0]["snapshot_ids"] == [6]
    assert run("rollback", "--watermark", "599")[0] == EXIT_OK
    assert table.snapshots()["snapshot_id"].max() == 5
    assert run("rollback")[0] == EXIT_USAGE
    assert run("rollback", "2", "--watermark", "599")[0] == EXIT_USAGE


def test_automatic_tags(run, table):
    assert run("tag", "automatic") == (EXIT_OK, [], "")
    table.alter(lk.set_option("tag.automatic-creation", "process-time"))
    assert len(run("tag", "automatic")[1]) == 1
    assert run("tag", "automatic", "--force")[1] == []
    assert run("tag", "automatic", "name")[0] == EXIT_USAGE
    assert table.tags().height == 1


@pytest.fixture
def house(capsys, table, tmp_path):
    """A verb on the warehouse `house`, which has the table as shop.t."""
    cat = lk.connect(tmp_path / "house")
    cat.create_database("shop")
    (tmp_path / "t").rename(tmp_path / "house" / "shop.db" / "t")

    def ran(verb, *arguments, shape="json"):
        code = main([verb, str(tmp_path / "house"), *arguments, "--format", shape])
        captured = capsys.readouterr()
        return code, [json.loads(line) for line in captured.out.splitlines()] if shape == "json" else captured.out, captured.err

    return ran


def test_clone(house, tmp_path):
    assert house("clone", "shop.t", "shop.u", "--at", "2", shape="table") == (EXIT_OK, f"shop.u · a copy of shop.t, at {tmp_path}/house/shop.db/u\n", "")
    there = lk.connect(tmp_path / "house")
    assert there["shop.u"].scan().collect().height == there["shop.t"].scan(at=2).collect().height == 10
    assert house("clone", "shop.t", "shop.u")[0] == EXIT_PROBLEM
    assert house("clone", "shop.none", "shop.w")[0] == EXIT_NO_TABLE


@pytest.mark.long
def test_compact_database(house, tmp_path):
    code, told, _ = house("compact-database", "--tables", r"shop\..*", "--full")
    assert (code, told) == (EXIT_OK, [{"database": "shop", "table": "t", "done": "compacted", "snapshot_id": 5, "error": None}])
    assert house("compact-database", "--excluding", "shop.t")[0] == EXIT_USAGE
    (tmp_path / "house" / "shop.db" / "t" / "schema" / "schema-0").write_text("{")
    code, told, _ = house("compact-database", "--idle", "1 d")
    assert (code, told[0]["done"]) == (EXIT_PROBLEM, "failed")


def test_repair(house, tmp_path):
    names = ("--metastore", "jdbc", "--uri", f"sqlite:///{tmp_path}/names.db")
    assert house("repair", *names) == (EXIT_OK, [{"database": "shop", "table": "t", "done": "registered", "error": None}], "")
    assert house("repair", "shop.t", *names)[1][0]["done"] == "there"
    assert house("repair", "shop.none", *names)[0] == EXIT_NO_TABLE
    code, _, err = house("repair")
    assert code == EXIT_PROBLEM
    assert "nothing to register" in err


def test_analyze_and_rewrite_index(run, table):
    assert run("analyze", "--columns", "k, v")[1][0]["kinds"] == ["ANALYZE"]
    assert run("analyze", "--columns", "x")[0] == EXIT_PROBLEM
    table.alter(lk.set_option("file-index.bloom-filter.columns", "v"))
    told = run("rewrite-index", "--where", "p = 0", "--dry-run")[1]
    assert [(row["made"], row["dropped"]) for row in told] == [(["bloom-filter(v)"], [])] * 2
    assert run("rewrite-index", "--where", "p = 0")[1][0]["added_file_count"] == 2
    assert run("rewrite-index", "--where", "p = 0", "--dry-run")[1] == []


@pytest.mark.parametrize("verb", [("compact",), ("expire", "snapshots"), ("tag", "create", "a"), ("orphans",), ("rollback", "1"), ("analyze",)])
def test_where_there_is_no_table(capsys, tmp_path, verb):
    name, *rest = verb
    assert main([name, str(tmp_path), *rest]) == EXIT_NO_TABLE
    assert "no Paimon table" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [("expire", "partitions", "--expiration", "7"), ("orphans", "--older-than", "3"), ("tag", "create", "a", "--retain", "30"), ("compact", "--idle", " 1 ")],
)
def test_an_age_has_a_unit(run, table, capsys, arguments):
    with pytest.raises(SystemExit):
        run(*arguments)
    assert "has no unit: write" in capsys.readouterr().err
    assert table.scan().collect().height == 10
