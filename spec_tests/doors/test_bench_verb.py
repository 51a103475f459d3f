"""`lakekit bench`: every line gives the rows that there are, beside Polars where Polars reads the files."""

from __future__ import annotations

import json

import pytest

import lakekit as lk
from lakekit.cli import main
from lakekit.testing.bench import LINE_COLUMNS, bench, create_tables
from lakekit.testing.fixtures import fixtures


def shown(arguments, capsys):
    code = main.main(["bench", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_tables_that_are_made_have_every_line(capsys):
    code, out, err = shown(["--size", "400", "--turns", "1", "--format", "json"], capsys)
    assert (code, err) == (0, "")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [(one["table"], one["line"]) for one in lines] == [(table, line) for table in ("append", "keyed") for line in ("plan", "scan", "columns", "filter")]
    assert tuple(lines[0]) == LINE_COLUMNS
    assert [one["rows"] for one in lines] == [400, 400, 400, 4, 440, 400, 400, 4]
    assert all((one["ratio"] is None) == (one["line"] == "plan") for one in lines)


def test_a_key_is_read_once_however_often_it_was_written(tmp_path):
    _, keyed = create_tables(str(tmp_path), row_count=200)
    assert keyed.snapshots().height == 6
    assert keyed.scan().collect()["amount"].sum() == sum(range(200)) * 0.5 + 20


@pytest.mark.parametrize("name", ["dedup_orc", "dedup_string_key", "evolve_keyed_parquet", "empty_keyed", "partition_types_modern"])
def test_any_table_is_measured(name):
    table = lk.open(fixtures() / "tables" / name)
    lines = {one.line: one for one in bench(table, turns=1)}
    assert lines["scan"].rows == table.scan().collect().height
    assert (lines["scan"].ratio is None) == (name in ("dedup_orc", "empty_keyed"))


@pytest.mark.parametrize("arguments", [[], ["somewhere", "--size", "5"]])
def test_wrong_usage_is_told(arguments, capsys):
    code, _, err = shown(arguments, capsys)
    assert (code, "one of the two" in err) == (2, True)


def test_no_table_is_told(tmp_path, capsys):
    assert shown([str(tmp_path / "none")], capsys)[0] == 3
