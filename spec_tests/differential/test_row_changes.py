"""The reference reads what row-level changes leave, file by file and vector by vector, and goes on writing and compacting such tables."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest

import lakekit as lk
from spec_tests.laws.row_changes import TABLES, made

pytestmark = pytest.mark.reference
SOURCE = [{"p": at % 3, "k": at, "v": at * 100, "s": "new", "op": "DU"[at % 2]} for at in range(20, 80, 3)]


def rows(first, last):
    return [{"p": at % 3, "k": at, "v": None if at % 7 == 0 else at, "s": f"s{at % 5}"} for at in range(first, last)]


def same(judge, table):
    """What both read; how many rows there are."""
    theirs = Counter(values for _, values in judge.read(table.location).rows)
    ours = table.scan().collect()
    assert theirs == Counter(ours.rows())
    assert judge.snapshots(table.location)[-1].kind == table.snapshots()["kind"][-1]
    return ours.height


@pytest.mark.parametrize("name", TABLES)
def test_the_reference_reads_and_goes_on(judge, tmp_path, name):
    table = made(tmp_path / "db.db" / "t", name)
    table.append(rows(0, 40))
    table.append(rows(40, 60))
    table.delete((pl.col("v") % 4 == 1) & (pl.col("p") != 2))
    first = same(judge, table)
    assert first == 60 - sum(1 for row in rows(0, 60) if row["v"] is not None and row["v"] % 4 == 1 and row["p"] != 2)
    table.update({"v": pl.col("v") + 1000, "s": "upper(s)"}, where="s = 's3' OR v IS NULL")
    assert same(judge, table) == first
    table.merge(
        SOURCE,
        lk.when_matched(delete=True, where="s.op = 'D'"),
        lk.when_matched(update={"v": "t.v + s.v"}, where=pl.col("v").is_not_null()),
        lk.when_not_matched(where="s.k > 50"),
        lk.when_not_matched_by_source(delete=True, where="t.k < 5"),
        on=["p", "k"],
    )
    left = same(judge, table)
    inside = sum(values[0] == 1 for _, values in judge.read(table.location).rows)
    table.delete("p = 1")
    assert same(judge, table) == left - inside

    judge.write(table.location, [("+I", (0, 3 * at, 5, "java")) for at in range(5)])
    same(judge, table)
    judge.compact(table.location, full=True)
    left = same(judge, table)
    table.delete("s = 'java' AND k > 3")
    assert same(judge, table) == left - 3
    judge.write(table.location, [("+I", (2, 200, None, None))])
    judge.compact(table.location, full=True)
    assert same(judge, table) == left - 2


SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
BY_FILES = {
    "aggregation": SUM,
    "aggregation vectors": SUM | {"deletion-vectors.enabled": "true"},
    "partial-update": {"merge-engine": "partial-update"},
    "first-row": {"merge-engine": "first-row"},
}


@pytest.mark.parametrize("name", BY_FILES)
def test_engines_that_take_no_deletes_as_rows(judge, tmp_path, name):
    schema, options = {"k": "INT NOT NULL", "v": "BIGINT"}, {"bucket": "2", "num-levels": "3", **BY_FILES[name]}
    table = lk.create(tmp_path / "db.db" / "t", schema, primary_keys=["k"], options=options)
    table.append([{"k": at, "v": at} for at in range(50)])
    table.compact(full=True)
    assert table.delete("v % 3 = 0").kinds == ("OVERWRITE",)
    assert same(judge, table) == 33
    judge.write(table.location, [("+I", (3, 1)), ("+I", (4, 1))])
    judge.compact(table.location, full=True)
    assert same(judge, table) == 34
    table.delete("k = 5")
    judge.write(table.location, [("+I", (5, 7))])
    judge.compact(table.location, full=True)
    after = dict(values for _, values in judge.read(table.location).rows)
    assert (after[3], after[4], after[5]) == (1, {"aggregation": 5, "partial-update": 1, "first-row": 4}[name.removesuffix(" vectors")], 7)
    assert same(judge, table) == 34


def test_vectors_of_both_sides(judge, tmp_path):
    table = lk.create(tmp_path / "db.db" / "t", {"p": "INT", "v": "BIGINT"}, partition_keys=["p"], options={"deletion-vectors.enabled": "true"})
    table.append([{"p": at % 2, "v": at} for at in range(20)])
    judge.delete(table.location, [(0, 0), (1, 3)])
    before = same(judge, table)
    table.delete("v IN (2, 3)")
    assert same(judge, table) == before - 2
    judge.delete(table.location, [(1, 9)])
    assert same(judge, table) == before - 3


@pytest.mark.parametrize("bits", ["true", "false"])
def test_vectors_roll_where_those_of_the_engine_roll(judge, tmp_path, bits):
    for limit in (1, 29, 30, 31, 44, 60, 61, 62, 90, 91, 120, 121, 1000):
        counts = []
        for name in ("engine", "ours"):
            options = {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": bits, "deletion-vector.index-file.target-size": f"{limit} b"}
            table = lk.create(tmp_path / f"{name}{limit}", {"k": "INT"}, options=options)
            for first in range(0, 50, 10):
                table.append([{"k": first + at} for at in range(10)])
            if name == "engine":
                judge.delete(table.location, [(at, 3) for at in range(5)])
            else:
                table.delete("k % 10 = 3")
            counts.append(sorted(lk.open(table.location).indexes()["row_count"]))
        assert counts[0] == counts[1], limit
