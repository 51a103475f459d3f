"""The shell: a person gets tables, a pipe gets full values, errors go to stderr, exit codes mean what they say."""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import pty
import re
import subprocess
import sys

import polars as pl
import pytest

from lakekit.cli.inspection import demo_query
from lakekit.cli.main import main
from lakekit.cli.output import EXIT_NO_TABLE, EXIT_OK, EXIT_PROBLEM, EXIT_USAGE, INSPECT_NOUNS, TIME_TRAVEL_NOUNS, Output
from lakekit.table.open_create import open as open_table


@pytest.fixture(scope="module")
def flights(fixtures_path):
    return str(fixtures_path / "flights" / "table")


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.long
@pytest.mark.parametrize("noun", INSPECT_NOUNS)
def test_every_noun_in_every_format(capsys, flights, noun):
    for shape in ("table", "tsv", "json", "csv"):
        code, out, err = run(capsys, "inspect", flights, noun, "--format", shape)
        assert (code, err) == (EXIT_OK, "")
        if shape == "json":
            assert all(isinstance(json.loads(line), dict) for line in out.splitlines())
        if shape == "tsv":
            assert len({line.count("\t") for line in out.splitlines()}) <= 1
        if shape == "csv":
            assert len({len(row) for row in csv.reader(io.StringIO(out))}) <= 1


@pytest.mark.parametrize("noun", [noun for noun in TIME_TRAVEL_NOUNS if noun != "levels"])
def test_nouns_are_the_metadata_frames(capsys, flights, noun):
    code, out, _ = run(capsys, "inspect", flights, noun, "--at", "3", "--format", "json")
    assert code == EXIT_OK
    frame = getattr(open_table(flights), noun)(at=3)
    assert [list(json.loads(line)) for line in out.splitlines()] == [frame.columns] * frame.height


def test_a_pipe_gets_tsv_and_all_rows(capsys, flights):
    code, out, _ = run(capsys, "inspect", flights, "snapshots")
    lines = out.splitlines()
    assert code == EXIT_OK
    assert lines[0].split("\t")[:2] == ["snapshot_id", "kind"]
    assert [line.split("\t")[0] for line in lines[1:]] == [str(number) for number in range(1, 11)]


def test_a_limit_is_said_in_words_to_a_person(capsys, flights):
    _, out, _ = run(capsys, "inspect", flights, "snapshots", "--format", "table", "--limit", "4")
    assert out.splitlines()[-1] == "… 6 more"
    _, out, _ = run(capsys, "inspect", flights, "snapshots", "--limit", "4")
    assert len(out.splitlines()) == 5


def test_a_card_has_the_reader_s_questions(capsys, flights):
    _, out, _ = run(capsys, "inspect", flights, "--format", "table")
    for word in ("location", "columns", "primary key", "snapshots", "files", "level 0", "level 5", "health"):
        assert f"\n  {word}" in out
    _, out, _ = run(capsys, "inspect", flights)
    assert out.startswith("fact\tvalue\nname\t")


def test_levels_are_drawn_for_each_bucket(capsys, flights):
    _, out, _ = run(capsys, "inspect", flights, "levels", "--format", "table")
    assert out.count("bucket ") == 2
    assert out.count(" L0 ") == out.count(" L4 ") == out.count(" L5 ") == 2


def test_files_of_an_append_table_are_drawn_by_their_rows(capsys, tables_path):
    _, out, _ = run(capsys, "inspect", str(tables_path / "append_bucketed"), "levels", "--format", "table")
    assert out.count("bucket ") == 4
    assert "rows" in out
    assert "keys" not in out
    assert "L0" not in out


def test_a_plan_is_the_funnel(capsys, flights):
    code, out, _ = run(capsys, "plan", flights, "--where", "carrier = '9E' AND flight = 3314", "--format", "table")
    assert code == EXIT_OK
    assert "snapshot 10" in out
    code, out, _ = run(capsys, "plan", flights, "--format", "json")
    assert code == EXIT_OK
    assert all(set(json.loads(line)) == {"what", "before", "after", "why"} for line in out.splitlines())
    of_all = open_table(flights).explain()
    wanted = {"files": of_all.files_read, "rows": of_all.rows_read, "bytes": of_all.bytes_read}
    assert {line["what"]: line["after"] for line in map(json.loads, out.splitlines())} == {f"read {what}": count for what, count in wanted.items()}


def test_json_has_no_number_that_is_none(capsys):
    """`NaN` and `Infinity` are no JSON: a reader of it would stop there."""
    out = Output(argparse.Namespace(format="json", limit=None, color="never"))
    rows = [(float("nan"), [1.5, float("inf")], {"a": {"b": float("-inf")}}, b"\x01")]
    out.print_rows(("x", "y", "z", "w"), rows)
    (line,) = capsys.readouterr().out.splitlines()

    def refuse(word: str) -> None:
        raise AssertionError(word)

    assert json.loads(line, parse_constant=refuse) == {"x": "NaN", "y": [1.5, "Infinity"], "z": {"a": {"b": "-Infinity"}}, "w": "01"}
    out.format = "tsv"
    out.print_rows(("y",), [([float("nan")],)])
    assert capsys.readouterr().out == 'y\n["NaN"]\n'


def test_features_are_listed(capsys):
    code, out, _ = run(capsys, "features", "bloom", "--format", "json")
    assert code == EXIT_OK
    assert "file-index.bloom-filter" in [json.loads(line)["feature"] for line in out.splitlines()]
    assert run(capsys, "versions")[0] == EXIT_OK


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("inspect", "{}/nothing"), EXIT_NO_TABLE, "no Paimon table at"),
        (("inspect", "{}", "files", "--at", "99"), EXIT_PROBLEM, "snapshot 99"),
        (("inspect", "{}", "files", "--at", "no-such-tag"), EXIT_PROBLEM, "no-such-tag"),
        (("inspect", "{}", "tags", "--at", "3"), EXIT_USAGE, "--at goes with manifests"),
        (("plan", "{}", "--where", "carrier =="), EXIT_USAGE, "line 1, column 9: an operand of = is missing"),
        (("plan", "{}", "--where", "no_such_column = 1"), EXIT_PROBLEM, "no_such_column"),
    ],
)
def test_errors_go_to_stderr_with_their_code(capsys, flights, arguments, code, said):
    found, out, err = run(capsys, *(argument.format(flights) for argument in arguments))
    assert (found, out) == (code, "")
    assert err.startswith("lakekit: ")
    assert said in err
    assert err.count("\n") == (3 if "line 1, column" in err else 1)  # an error in a text shows its line, and a caret below it


@pytest.mark.parametrize("arguments", [("frobnicate",), ("inspect",), ("inspect", "x", "nothing"), ("inspect", "x", "--limit", "0")])
def test_wrong_usage_is_2(capsys, arguments):
    with pytest.raises(SystemExit) as raised:
        main(list(arguments))
    assert raised.value.code == EXIT_USAGE
    assert capsys.readouterr().out == ""


def test_without_a_verb_help_is_shown(capsys):
    code, out, _ = run(capsys)
    assert code == EXIT_USAGE
    assert "demo" in out


def shell(*arguments, **settings):
    return subprocess.run([sys.executable, "-m", "lakekit.cli.main", *arguments], capture_output=True, text=True, check=False, env={**os.environ, **settings})


@pytest.mark.long
def test_a_reader_that_has_seen_enough_is_no_error(flights):
    command = f"{sys.executable} -m lakekit.cli.main features | head -1"
    ran = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("feature\t")


@pytest.mark.long
@pytest.mark.parametrize(("settings", "bold"), [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False)])
def test_a_terminal_gets_a_table_of_its_width(flights, settings, bold):
    ours, theirs = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")} | {"COLUMNS": "60"} | settings
    ran = subprocess.Popen([sys.executable, "-m", "lakekit.cli.main", "inspect", flights, "snapshots"], stdout=theirs, env=environment)
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # Linux says that the other end was closed
            break
        if not part:
            break
        said += part
    os.close(ours)
    assert ran.wait() == 0
    assert (b"\x1b[1m" in said) == bold
    lines = said.decode().replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
    assert max(len(line) for line in lines) <= 60


def test_the_demo_answers_what_the_reference_engine_read(capsys, fixtures_path):
    code, out, _ = run(capsys, "demo")
    assert code == EXIT_OK
    reads = {read["name"]: read for read in json.loads((fixtures_path / "flights" / "flights.json").read_text(encoding="utf-8"))["reads"]}
    table = open_table(str(fixtures_path / "flights" / "table"))
    for name, at in (("latest", None), ("snapshot-3", 3)):
        counted = {key: number for key, number in reads[name]["aggregates"]["day_status_count"].items() if key.endswith(("arrived", "cancelled"))}
        answer = demo_query(table.scan(at=at)).collect()
        assert {f"{day} {status}": number for day, status, number in answer.iter_rows()} == counted
        for key, number in counted.items():
            assert re.search(rf"^{key.replace(' ', ' +')} +{number}$", out, re.MULTILINE)
    headings = (
        'lk.open("',
        "t.snapshots()",
        "the sorted runs of each bucket",
        "t.scan()",
        "the same as it stood at snapshot 3",
        "t.explain(",
        "what to open next",
    )
    for heading in headings:
        assert f"\n{heading}" in out or f"\nt = {heading}" in out


@pytest.mark.parametrize("found", ["assertion failed: start + length <= self.bytes.len()", "\x1b[31mred"])
def test_a_panic_of_polars_is_a_line_and_an_exit_code(capsys, monkeypatch, flights, found):
    """Over a damaged page Polars panics: `bench` and queries ended in a traceback."""

    def panic(*asked: object, **options: object) -> None:
        raise pl.exceptions.PanicException(found)

    monkeypatch.setattr("lakekit.open", panic)
    code, out, err = run(capsys, "inspect", flights)
    assert (code, out) == (EXIT_PROBLEM, "")
    assert err.startswith("lakekit: ")
    assert err.count("\n") == 1
    assert err.strip().isprintable()
