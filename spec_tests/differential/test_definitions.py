"""The reference still answers what `spec_tests/golden/definitions_1_4_2.json` says it answered about making and changing tables, and takes ours.

After a new case: `python -m spec_tests.differential.test_definitions` writes the file anew.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

import lakekit as lk
from lakekit.testing.expectations import describe_difference
from spec_tests.differential.judge import Judge
from spec_tests.golden.definition_answers import RECORDED, facts, packed, wire
from spec_tests.golden.definitions import CASES, matrices

pytestmark = pytest.mark.reference


def asked(judge, directory):
    """Every answer, and the signs of the matrices."""
    answers = {
        name: [facts(one) for one in judge.ask("define", directory / f"{at}" / "t", **wire(case))["answers"]] for at, (name, case) in enumerate(CASES.items())
    }
    taken = {}
    for at, case in enumerate(matrices()):
        _, *steps = judge.ask("define", directory / f"m{at}" / "t", **wire(case))["answers"]
        taken[case.name] = "".join("-" if "error" in one else "+" for one in steps)
    return packed(answers, taken)


def test_answers(judge, tmp_path):
    assert asked(judge, tmp_path) == RECORDED.read_text(encoding="utf-8")


def test_the_reference_takes_tables_that_lakekit_changes(judge, tmp_path):
    """Both read the same rows of a table that lakekit made and changed, and the reference wrote before and between; then it changes the table itself."""
    path = tmp_path / "shop.db" / "t"
    columns = {"k": "INT", "v": "INT", "r": "ROW<x INT, y STRING>", "a": "ARRAY<ROW<x INT>>", "m": "MAP<STRING, INT>", "d": "DECIMAL(5, 2)"}
    t = lk.create(path, columns, primary_keys=["k"], options={"bucket": 2, "sequence.field": "v"})
    judge.write(path, [("+I", (1, 10, [1, "a"], [[1], [2]], [["x", 1]], "1.50")), ("+I", (2, 20, None, None, None, None))])
    steps = [
        [lk.add_column("n", "STRING", after="k", default="none"), lk.update_type("v", "BIGINT"), lk.rename_column("v", "w")],
        [lk.update_type("r", "ROW<y STRING, z INT>"), lk.add_column("a.element.y", "STRING", first=True), lk.update_type("m.value", "BIGINT")],
        [lk.drop_column("d"), lk.move_column("n", last=True), lk.update_type("r.z", "STRING")],
        [lk.add_column("d", "DECIMAL(9, 1)"), lk.rename_column("k", "key"), lk.set_comment("changed")],
    ]
    rows = [
        ("+I", (3, "n", 30, [3, "c"], [[3]], [["y", 3]], "3.50")),
        ("+I", (4, "n", 40, ["d", 4], [["e", 4]], [["z", 4]], "4.50")),
        ("+I", (5, 50, ["e", "5"], [["f", 5]], [["z", 5]], "n")),
        ("+I", (6, 60, ["f", "6"], [["g", 6]], [["z", 6]], "n", "6.5")),
    ]
    for step, row in zip(steps, rows, strict=True):
        t.alter(*step)
        judge.write(path, [row])
        assert describe_difference(t.scan().collect(), judge.read(path)) is None
    assert t.schema.id == judge.alter(path, ("add_column", "last", "INT")) - 1 == 4
    assert t.schema.fields[-1].id == t.schema.highest_field_id
    assert describe_difference(t.scan().collect(), judge.read(path)) is None
    assert t.options["sequence.field"] == "w"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        engine = Judge(Path(scratch))
        RECORDED.write_text(asked(engine, Path(scratch)), encoding="utf-8")
        engine.close()
