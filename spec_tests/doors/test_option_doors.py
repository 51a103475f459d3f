"""An option that says which rows are read means the same at every door: each gives the rows that `lk.open(options=…)` gives, or refuses the option."""

from __future__ import annotations

from datetime import datetime

import polars as pl
import pytest

import lakekit as lk
from lakekit.metadata import snapshots

CHANGES = (
    {"incremental-between": "1,3"},
    {"incremental-between": "one,3"},
    {"incremental-between": "1,3", "incremental-between-scan-mode": "diff"},
    {"scan.mode": "latest-delta"},
)
"""Options by which a scan gives changes."""
POSITIONS = (
    {},
    {"scan.snapshot-id": "1"},
    {"scan.tag-name": "one"},
    {"scan.version": "2"},
    {"scan.version": "one"},
    {"scan.timestamp-millis": "{time}"},
    {"scan.timestamp": "{text}"},
    {"scan.watermark": "5"},
    {"scan.mode": "latest-full"},
    {"scan.mode": "full"},
    {"scan.mode": "compacted-full"},
    {"scan.mode": "from-snapshot", "scan.snapshot-id": "2"},
    {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"},
    {"scan.mode": "from-timestamp", "scan.timestamp-millis": "{time}"},
    {"scan.mode": "from-file-creation-time", "scan.file-creation-time-millis": "{time}"},
    {"scan.mode": "from-creation-timestamp", "scan.creation-time-millis": "{time}"},
    {"scan.bucket": "0"},
    {"scan.fallback-branch": "dev"},
    {"scan.primary-branch": "dev"},
    {"consumer-id": "c"},
    {"file-index.read.enabled": "false"},
)
BRANCHES = ({}, {"branch": "dev"}, {"branch": "main"}, {"branch": "nowhere"})
STARTS = (
    {},
    {"scan.mode": "from-snapshot", "scan.snapshot-id": "2"},
    {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "1"},
    {"scan.mode": "latest"},
)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A catalog with a table of three snapshots; its branch dev has rows of its own, and a column more."""
    cat = lk.connect(tmp_path_factory.mktemp("doors") / "house")
    cat.create_database("d")
    table = cat.create_table("d.t", {"k": "INT", "v": "INT"}, primary_keys=["k"], options={"bucket": "2", "changelog-producer": "input"})
    for v in (1, 2, 3):
        table.upsert([{"k": k, "v": v} for k in range(v, v + 3)])
        if v == 1:
            table.create_tag("one")
            table.create_branch("dev", tag="one")
    dev = table.branch("dev")
    dev.alter(lk.add_column("w", "INT"))
    dev.upsert([{"k": 50, "v": 50, "w": 5}])
    dev.create_tag("two")
    return cat


def asked():
    for branch in BRANCHES:
        for position in (*POSITIONS, *CHANGES):
            yield {**branch, **position}


def spelled(home, options):
    """Options with the time of the second snapshot in its place."""
    millis = snapshots.read_snapshot(home["d.t"]._context(), 2).time_millis
    text = datetime.fromtimestamp(millis / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    return {key: value.format(time=millis, text=text) for key, value in options.items()}


def told(ask):
    """The rows of an answer, or the class of its refusal."""
    try:
        found = ask()
        found = found.collect() if isinstance(found, pl.LazyFrame) else found
    except lk.LakekitError as refused:
        return type(refused).__name__
    return found.columns, sorted(found.rows(), key=repr)


@pytest.mark.parametrize("options", list(asked()), ids=str)
def test_each_door_reads_what_an_option_says(home, options):
    options = spelled(home, options)
    table, root = home["d.t"], home["d.t"].location
    means = told(lambda: lk.open(root, options=options).scan())
    doors = {
        "scan": lambda: table.scan(options=options),
        "with_options": lambda: table.with_options(options).scan(),
        "one by one": lambda: one_by_one(table, options).scan(),
        "catalog": lambda: home.table("d.t", options=options).scan(),
        "hint": lambda: (
            home.sql(f"SELECT * FROM d.t /*+ OPTIONS({', '.join(f'{key!r} = {value!r}' for key, value in options.items())}) */")
            if options
            else home.sql("SELECT * FROM d.t")
        ),
    }
    for door, ask in doors.items():
        assert told(ask) == means, door


def one_by_one(table, options):
    for key, value in options.items():
        table = table.with_options({key: value})
    return table


@pytest.mark.parametrize("options", list(asked()), ids=str)
def test_what_is_made_of_a_scan_is_made_of_its_rows(home, options):
    options = spelled(home, options)
    table = home["d.t"]
    rows = told(lambda: table.scan(options=options).select(pl.len(), pl.sum("v")))
    assert told(lambda: table.with_options(options).aggregate(pl.len(), pl.sum("v"))) == rows
    if not isinstance(rows, str) and not any(position.items() <= options.items() for position in CHANGES):
        assert table.with_options(options).explain() == lk.open(table.location, options=options).explain()


@pytest.mark.parametrize("branch", BRANCHES, ids=str)
@pytest.mark.parametrize("mode", ["delta", "changelog", "diff", "auto"])
def test_changes_and_streams_are_those_of_the_branch(home, branch, mode):
    table, root = home["d.t"], home["d.t"].location
    means = told(lambda: lk.open(root, options=branch).changes(0, mode=mode))
    assert told(lambda: table.changes(0, mode=mode, options=branch)) == means
    assert told(lambda: table.with_options(branch).changes(0, mode=mode)) == means
    if branch == {"branch": "dev"}:
        assert "w" in means[0]


@pytest.mark.parametrize("branch", BRANCHES, ids=str)
@pytest.mark.parametrize("start", STARTS, ids=str)
def test_streams_begin_where_options_say(home, branch, start):
    table, root, options = home["d.t"], home["d.t"].location, {**branch, **start}

    def rows(stream):
        found = [change.frame.collect() for change in stream]
        return pl.concat(found) if found else pl.DataFrame()

    means = told(lambda: rows(lk.open(root, options=options).follow(until="latest")))
    assert told(lambda: rows(table.follow(until="latest", options=options))) == means
    assert told(lambda: rows(table.with_options(options).follow(until="latest"))) == means


@pytest.mark.parametrize("branch", BRANCHES, ids=str)
@pytest.mark.parametrize("name", ["audit_log", "snapshots", "schemas", "tags", "files", "manifests", "partitions", "buckets", "ro", "options"])
def test_system_tables_are_those_of_the_branch(home, branch, name):
    table, root = home["d.t"], home["d.t"].location
    means = told(lambda: lk.open(root, options=branch).system(name))
    assert told(lambda: table.system(name, options=branch)) == means
    assert told(lambda: home.table("d.t", options=branch).system(name)) == means
