"""The suite for other readers and writers: lakekit passes it, each mistake fails it by name, and what a program does wrong is told."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import lakekit as lk
from lakekit.cli import main
from lakekit.codec import hashing
from lakekit.data_file.file_metadata import StatsCollector
from lakekit.errors import InvalidOption
from lakekit.testing import conformance, scripts
from lakekit.testing.adapters import KIND_COLUMN, ImplementationFailure, encode_answer
from lakekit.testing.conformance import damages
from lakekit.testing.expectations import load_golden_table
from lakekit.testing.scripts import EVERY_TYPE
from lakekit.types import parse

SYSTEM = ("_SEQUENCE_NUMBER", KIND_COLUMN, "_level", "_file")


def failed(found):
    return {f"{one.area}: {one.case}" for one in found.outcomes if one.outcome == "failed"}


def shown(arguments, capsys):
    code = main.main(["conformance", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


# ---- lakekit itself ----------------------------------------------------------------------------------------------------------------------------


def test_lakekit_follows_scripts_and_refuses_every_damage():
    found = conformance.run(areas=["formats/hint", "broken/manifest", "tables/first", "damaged", "scripts/first-row", "writes/first-row"])
    assert found.ok, found
    assert {one.outcome for one in found.outcomes} == {"passed"}
    assert found.counts()["area"].to_list() == ["formats", "broken", "tables", "damaged", "scripts", "writes"]
    assert len(damages()) > 10


@pytest.mark.long
def test_lakekit_passes_all_of_it():
    found = conformance.run()
    assert found.ok, found
    assert found.counts()["area"].to_list() == [kind for kind in conformance.KINDS if kind != "drawn"]
    assert found.counts()["passed"].sum() > 2900


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_lakekit_reads_and_writes_what_is_drawn(seed):
    found = conformance.run(areas=["drawn"], drawn=40, seed=seed)
    assert found.ok, found


def test_another_reader_is_held_against_the_same_tables():
    areas = ["tables/first", "travel/first", "changes/changelog", "damaged/manifest"]

    def read(path, options):
        options = dict(options)
        table = lk.open(path, branch=options.pop("branch", None))
        changes = any("incremental" in key for key in options) and not conformance.is_difference(table, options)
        return table.system("audit_log", options=options) if changes else table.scan(options=options)

    found = conformance.run(reader=read, areas=areas)
    assert found.ok, found
    assert {one.area for one in found.outcomes} == set(areas)
    assert found.about == "read"


def test_values_are_told_in_one_encoding_by_arrow_and_by_dicts():
    fields = [pl.Series(name, [None]) for name in EVERY_TYPE]
    assert len(fields) == len(EVERY_TYPE)
    for name, (text, values) in EVERY_TYPE.items():
        t = parse(text)
        series = scripts.decode_series(values, t, name)
        found, tells = encode_answer(series.to_frame().to_arrow(), [name], [t])
        again, _ = encode_answer([{name: value} for value in values], [name], [t])
        assert not tells
        assert json.dumps(found, default=str) == json.dumps(again, default=str) or t.root in ("FLOAT", "DOUBLE")


def test_kinds_are_told_beside_the_columns():
    table = pa.table({KIND_COLUMN: ["-D", "+I"], "k": [1, 2]})
    assert encode_answer(table, ["k"], [parse("INT")]) == ([("-D", (1,)), ("+I", (2,))], True)
    assert encode_answer([{KIND_COLUMN: "-D", "k": 1}], ["k"], [parse("INT")]) == ([("-D", (1,))], True)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (pa.table({"x": [1]}), "rows without k: they have x"),
        (pa.table({"k": ["1"]}), "column 'k' holds string"),
        ([{"x": 1}], "rows without k: they have x"),
        ([{KIND_COLUMN: "insert", "k": 1}], "none of +I"),
        ([[1]], "anything Arrow, a Polars frame, or dicts"),
        (7, "int is no rows"),
    ],
)
def test_what_is_no_rows_is_told(answer, words):
    with pytest.raises(ImplementationFailure, match=words.replace("+", r"\+")):
        encode_answer(answer, ["k"], [parse("INT")])


# ---- readers that make a mistake -------------------------------------------------------------------------------------------------------------------


def versions(table):
    """Every stored version of a key table, oldest first."""
    return table.scan(raw=True).collect().sort("_SEQUENCE_NUMBER")


def forgets_deletes(path, options):
    table = lk.open(path)
    if not table.primary_keys:
        return table.scan()
    return versions(table).unique(table.primary_keys, keep="last").drop(SYSTEM, strict=False)


def misorders(path, options):
    table = lk.open(path)
    if not table.primary_keys:
        return table.scan()
    newest = versions(table).unique(table.primary_keys, keep="last")
    return newest.filter(~pl.col(KIND_COLUMN).is_in(["-U", "-D"])).drop(SYSTEM, strict=False)


def drops_nulls(path, options):
    return lk.open(path).scan().drop_nulls()


def ignores_vectors(path, options):
    table = lk.open(path)
    files = table.files()
    if table.primary_keys or not files.height:
        return table.scan()
    return pl.concat([pl.read_parquet(Path(path, file)) for file in files["file_path"].to_list()])


MISTAKES = {
    forgets_deletes: (
        {"scripts/deduplicate: deleted", "scripts/deduplicate: deleted by key", "scripts/deduplicate: updates"},
        {"scripts/deduplicate: written again", "scripts/append: partitions"},
    ),
    misorders: (
        {"scripts/deduplicate: late rows", "scripts/deduplicate: late rows, descending"},
        {"scripts/deduplicate: deleted", "scripts/deduplicate: many runs"},
    ),
    drops_nulls: (
        {"scripts/append: nulls alone", "scripts/deduplicate: null over a value", "scripts/append: every type, orc"},
        {"scripts/append: buckets of a text", "scripts/deduplicate: many runs"},
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("mistaken", MISTAKES, ids=lambda one: one.__name__)
def test_a_mistaken_reader_fails_by_name(mistaken):
    wrong, right = MISTAKES[mistaken]
    found = failed(conformance.run(reader=mistaken, areas=["scripts/append", "scripts/deduplicate"]))
    assert wrong <= found
    assert not right & found


@pytest.mark.long
def test_a_reader_that_ignores_deletion_vectors_fails_by_name():
    found = failed(conformance.run(reader=ignores_vectors, areas=["scripts/append", "tables/vectors"]))
    assert {"scripts/append: deleted, with vectors", "tables/vectors: vectors_append_32_parquet: latest"} <= found
    assert not {"scripts/append: the same row twice", "scripts/append: buckets of numbers"} & found


def test_a_reader_that_reads_whatever_is_left_fails_at_damage():
    def careless(path, options):
        try:
            return lk.open(path).scan().collect()
        except Exception:  # noqa: BLE001 - whatever it is
            return pa.table({})

    found = conformance.run(reader=careless, areas=["damaged"])
    assert {one.outcome for one in found.outcomes} == {"failed"}


@pytest.mark.long
def test_a_drawn_mistake_shrinks_to_few_steps():
    [found] = conformance.run(reader=forgets_deletes, areas=["drawn/deduplicate"], drawn=60, seed=3).outcomes
    assert found.outcome == "failed"
    script = json.loads(found.expected.partition(": ")[2])
    assert len(script["steps"]) <= 2
    assert sum(len(step.get("rows", ())) for step in script["steps"]) <= 2
    assert "too many" in found.found or "not recorded" in found.found


# ---- writers that make a mistake ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_writer_that_puts_keys_in_wrong_buckets_fails_by_name():
    right = hashing.assign_buckets

    def turned(name, columns, types, count):
        return (right(name, columns, types, count) + 1) % count

    def write(path, script):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(hashing, "assign_buckets", turned)
            scripts.play_script(path, script)

    found = conformance.run(writer=write, areas=["writes"])
    assert failed(found) == {
        *("writes/append: buckets of a text", "writes/append: buckets of numbers"),
        *("writes/deduplicate: buckets of texts", "writes/deduplicate: buckets of numbers", "writes/deduplicate: keys of two columns"),
    }
    assert all("bucket" in one.found for one in found.outcomes if one.outcome == "failed")


def test_a_writer_that_tells_false_bounds_fails_by_name():
    right = StatsCollector.to_stats

    def lying(self, *asked):
        found = right(self, *asked)
        return replace(found, max_values=found.min_values)

    def write(path, script):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(StatsCollector, "to_stats", lying)
            scripts.play_script(path, script)

    found = failed(conformance.run(writer=write, areas=["writes/append"]))
    assert "writes/append: buckets of numbers" in found
    assert "writes/append: nulls alone" not in found


def test_a_writer_that_loses_a_step_fails_by_name():
    def write(path, script):
        scripts.play_script(path, {**script, "steps": script["steps"][:1]})

    found = failed(conformance.run(writer=write, areas=["writes/deduplicate"]))
    assert "writes/deduplicate: written again" in found
    assert "writes/deduplicate: every type, avro" not in found


def test_a_writer_that_makes_no_table_or_another_one_fails():
    def nothing(path, script):
        return None

    def keyless(path, script):
        scripts.play_script(path, {**script, "primary_keys": [], "options": {}, "steps": []})

    for write, words in ((nothing, "TableNotFound"), (keyless, "()")):
        [one, *_] = conformance.run(writer=write, areas=["writes/first-row"]).outcomes
        assert one.outcome == "failed"
        assert words in one.found


def test_what_is_not_supported_is_no_failure():
    def write(path, script):
        if "delete" in {step["do"] for step in script["steps"]}:
            raise NotImplementedError("no deletes yet")
        scripts.play_script(path, script)

    found = conformance.run(writer=write, areas=["writes/append"])
    assert found.ok
    assert found.frame("unsupported").select("case", "found").rows() == [("deleted", "no deletes yet"), ("deleted, with vectors", "no deletes yet")]


# ---- programs ----------------------------------------------------------------------------------------------------------------------------------------

READS = """
import json, sys
import lakekit as lk
from lakekit.testing.expectations import encode_rows
table = lk.open(sys.argv[1])
frame = table.scan().collect()
for _, values in encode_rows(frame, [field.type for field in table.schema.fields]):
    print(json.dumps(dict(zip(frame.columns, values))))
"""
WRITES = "import json, sys; from lakekit.testing import scripts; scripts.play_script(sys.argv[1], json.load(open(sys.argv[2], encoding='utf-8')))"


def program(tmp_path, text):
    script = tmp_path / "program.py"
    script.write_text(text, encoding="utf-8")
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}"


def test_a_program_reads_and_another_writes(tmp_path, capsys):
    reads, writes = program(tmp_path, READS), f"{shlex.quote(sys.executable)} -c {shlex.quote(WRITES)}"
    code, out, _ = shown(["--reader-command", f"{reads} {{path}}", "--area", "scripts/first-row"], capsys)
    assert code == 0, out
    assert {row.split("\t")[2] for row in out.splitlines()[1:]} == {"passed"}
    code, out, _ = shown(["--writer-command", f"{writes} {{path}} {{script}}", "--area", "writes/first-row"], capsys)
    assert (code, out.splitlines()[1].split("\t")[:3]) == (0, ["writes/first-row", "the first stays", "passed"])


PROGRAMS = {
    "crashes": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "failed", "killed by SIGSEGV"),
    "hangs": ("import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)']); time.sleep(99)", "failed", "within 1 s"),
    "prints rubbish": ("print('hello')", "failed", "line 1 is no row but 'hello'"),
    "prints a list": ("print([1, 2])", "failed", "line 1 is no row but '[1, 2]'"),
    "prints bytes": ("import sys; sys.stdout.buffer.write(bytes(range(128, 256)))", "failed", "line 1 is no row"),
    "fails": ("raise SystemExit('no such thing')", "failed", "exit code 1: no such thing"),
    "says that it does not": ("import sys; print('no first-row', file=sys.stderr); sys.exit(3)", "unsupported", "no first-row"),
    "says other columns": ("print('{\"x\": 1}')", "failed", "rows without k, a, b, c: they have x"),
    "says nothing": ("", "failed", "0 rows, recorded 3"),
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_what_a_program_does_wrong_is_told(what, tmp_path, capsys):
    text, outcome, words = PROGRAMS[what]
    command = program(tmp_path, text)
    code, out, err = shown(["--reader-command", f"{command} {{path}}", "--area", "scripts/first-row", "--timeout", "1" if what == "hangs" else "60"], capsys)
    assert (code, err) == (int(outcome == "failed"), "")
    _, case, found, _, told_of = out.splitlines()[1].split("\t")
    assert (case, found) == ("the first stays", outcome)
    assert words in told_of


def test_a_crash_is_no_refusal(tmp_path):
    reader = conformance.adapters.reader_command(f"{program(tmp_path, PROGRAMS['crashes'][0])} {{path}}")
    found = conformance.run(reader=reader, areas=["damaged/manifest"])
    assert {one.outcome for one in found.outcomes} == {"failed"}


def test_a_program_without_options_is_not_asked_what_needs_them(tmp_path):
    reader = conformance.adapters.reader_command(f"{program(tmp_path, READS)} {{path}}")
    found = conformance.run(reader=reader, areas=["travel/first"])
    assert {one.outcome for one in found.outcomes} == {"unsupported"}
    assert "{options}" in found.outcomes[0].found


def test_rows_may_come_in_a_file(tmp_path):
    text = "import sys; open(sys.argv[2], 'w').write('{\"k\": 1, \"v\": \"a\"}\\n'); assert sys.argv[3] == '{}'"
    reader = conformance.adapters.reader_command(f"{program(tmp_path, text)} {{path}} {{output}} {{options}}")
    assert reader.answer("somewhere", {}) == [{"k": 1, "v": "a"}]
    silent = conformance.adapters.reader_command(f"{program(tmp_path, '')} {{path}} {{output}}")
    with pytest.raises(ImplementationFailure, match="wrote no"):
        silent.answer("somewhere", {})


# ---- the shell ---------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--area", "cheese"], "no area 'cheese' here: there are formats, broken, tables"),
        (["--area", "tables/cheese"], "nothing is asked in tables/cheese"),
        (["--area", "drawn"], "nothing is asked in drawn"),
        (["--reader", "no_such_module:read"], "No module named 'no_such_module'"),
        (["--reader", "json:no_such_function"], "the module json has no no_such_function"),
        (["--reader", "json"], "package.module:function"),
        (["--reader", "json:loads", "--area", "formats"], "no area 'formats' here: there are tables"),
        (["--reader-command", "no-such-program {path}"], "there is no program 'no-such-program'"),
        (["--reader-command", "cat"], "says nowhere where {path} goes"),
        (["--reader-command", "cat '{path}"], "No closing quotation"),
        (["--writer-command", "cat {path}"], "says nowhere where {script} goes"),
        (["--reader", "json:loads", "--reader-command", "cat {path}"], "two ways to say the same"),
    ],
)
def test_wrong_usage_is_told(arguments, words, capsys):
    code, out, err = shown(arguments, capsys)
    assert (code, out) == (2, "")
    assert words in err


def test_a_person_sees_failures_and_counts(capsys):
    code, out, _ = shown(["--area", "scripts/first-row", "--area", "formats/blob_file", "--format", "table"], capsys)
    assert code == 0
    assert "worked_example" in out
    assert "the first stays" not in out
    assert out.rstrip().endswith("lakekit: 1 passed, 0 failed, 1 unsupported")
    code, out, _ = shown(["--area", "scripts/first-row", "--format", "table", "--all"], capsys)
    assert "the first stays" in out


def test_areas_are_listed(capsys):
    code, out, _ = shown(["--list", "--area", "formats"], capsys)
    assert code == 0
    assert {line.partition("\t")[0] for line in out.splitlines()[1:]} == {f"formats/{name}" for name in conformance.golden.golden_formats()}


def test_drawing_needs_hypothesis_and_nothing_else_does():
    code = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "from lakekit.cli.main import main\n"
        "print(main(['conformance', '--area', 'scripts/first-row']))\n"
        "print(main(['conformance', '--area', 'drawn', '--drawn', '5']))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines()[-2:] == ["0", "1"]
    assert ran.stderr == "lakekit: 'strategies' of testing needs hypothesis: pip install 'lakekit[conformance]'\n"


def test_what_is_found_is_shown():
    found = conformance.run(reader=drops_nulls, areas=["scripts/append"])
    assert repr(found).startswith("drops_nulls: ")
    assert "failed      scripts/append · nulls alone" in repr(found)
    assert found._repr_html_().count("<table>") == 2
    assert found.frame().columns == list(conformance.RESULT_COLUMNS)
    with pytest.raises(InvalidOption, match="neither a function nor its name"):
        conformance.run(reader=7)


def test_every_golden_table_has_its_area():
    found = {case.area for case in conformance.list_cases(areas=["tables"])}
    assert "tables/vectors" in found
    assert load_golden_table("vectors_keyed_64_avro").reads
    assert np.all([area.startswith("tables/") for area in found])
