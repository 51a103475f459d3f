"""Dynamic buckets that lakekit and the reference write in turns: the same rows, partitions, and where nothing is left to chance the same buckets."""

from __future__ import annotations

import random

import polars as pl
import pytest

import lakekit as lk

pytestmark = pytest.mark.reference

COLUMNS = {"k": pl.Int32, "pt": pl.String, "v": pl.Int32, "w": pl.Int32}
INSIDE, ACROSS = ("k", "pt"), ("k",)
CASES = {
    "target 3": (INSIDE, {"dynamic-bucket.target-row-num": "3"}),
    "at most 3 buckets": (INSIDE, {"dynamic-bucket.target-row-num": "2", "dynamic-bucket.max-buckets": "3"}),
    "deduplicate": (ACROSS, {"dynamic-bucket.target-row-num": "3"}),
    "partial-update": (ACROSS, {"merge-engine": "partial-update"}),
    "aggregation": (ACROSS, {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}),
    "first-row": (ACROSS, {"merge-engine": "first-row", "changelog-producer": "lookup"}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("every", [1, 2], ids=["lakekit alone", "in turns"])
def test_turns(judge, tmp_path, case, every):
    keys, options = CASES[case]
    theirs, ours = str(tmp_path / "theirs"), str(tmp_path / "ours")
    for path in (theirs, ours):
        schema = {"k": "INT NOT NULL", "pt": "STRING", "v": "INT", "w": "INT"}
        lk.create(path, schema, primary_keys=keys, partition_keys=["pt"], options={"bucket": "-1", **options})
    chance = random.Random(f"{case} {every}")
    kinds_of = ("+I", "+I", "+U", "-D") if "merge-engine" not in options else ("+I",)
    for turn in range(6):
        rows = [(chance.randint(0, 15), chance.choice("ab"), *(chance.choice([None, chance.randint(0, 9)]) for _ in "vw")) for _ in range(chance.randint(1, 8))]
        kinds = [chance.choice(kinds_of) for _ in rows]
        judge.write(theirs, list(zip(kinds, rows, strict=True)))
        if turn % every:
            judge.write(ours, list(zip(kinds, rows, strict=True)))
        else:
            frame = pl.DataFrame(rows, schema=COLUMNS, orient="row").with_columns(pl.Series("op", kinds))
            lk.open(ours).upsert(frame, row_kind="op")
        said = sorted((values for _, values in judge.read(theirs).rows), key=repr)
        assert sorted((values for _, values in judge.read(ours).rows), key=repr) == said
        assert sorted(lk.open(ours).scan().collect().rows(), key=repr) == said
        at, told = judge.placed(ours), judge.placed(theirs)
        exactly = case == "target 3"
        assert {(partition, values, exactly and bucket) for partition, bucket, values in at} == {
            (partition, values, exactly and bucket) for partition, bucket, values in told
        }


@pytest.mark.parametrize("function", ["last_non_null_value", "listagg"])
@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
def test_partitions_that_are_aggregated(judge, tmp_path, function, producer):
    """A row lies in one partition and was made of rows of others: each file is read with its folder's value, and what is merged then merges these."""
    options = {"bucket": "-1", "merge-engine": "aggregation", "fields.pt.aggregate-function": function, "changelog-producer": producer}
    table = lk.create(tmp_path / "t", {"k": "INT NOT NULL", "pt": "STRING", "v": "INT", "w": "INT"}, primary_keys=["k"], partition_keys=["pt"], options=options)
    kinds = ["-U", "+I", "+I", "+U"] if function != "listagg" else ["+I"] * 4
    for turn in range(4):
        frame = pl.DataFrame([(turn % 2, "a", turn, 1), (2, "ab"[turn % 2], 1, 1), (2, "b", 1, 2), (turn, "b", 0, 0)], schema=COLUMNS, orient="row")
        table.upsert(frame.with_columns(pl.Series("op", kinds)), row_kind="op")
        if turn == 2:
            table.compact(full=True)
        said = sorted((values for _, values in judge.read(tmp_path / "t").rows), key=repr)
        assert sorted(table.scan().collect().rows(), key=repr) == said
