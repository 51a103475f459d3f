"""Columns called like patterns work for the first call of a process too, whichever it is: nothing before it has made Polars name series exactly."""

from __future__ import annotations

import shutil

import polars as pl
import pytest
from polars.series import series, string, utils

import lakekit as lk
from lakekit import columns
from lakekit.format import polars_types
from lakekit.write import row_conversion
from spec_tests.longer import some

ENGINES = {
    "append": ({}, []),
    "append dv": ({"deletion-vectors.enabled": "true"}, []),
    "key": ({"bucket": "1"}, ["k"]),
    "first-row": ({"bucket": "1", "merge-engine": "first-row", "changelog-producer": "lookup"}, ["k"]),
    "partial-update": ({"bucket": "1", "merge-engine": "partial-update"}, ["k"]),
    "aggregation": ({"bucket": "1", "merge-engine": "aggregation", "fields.default-aggregate-function": "last_value"}, ["k"]),
    "lookup": ({"bucket": "1", "changelog-producer": "lookup"}, ["k"]),
    "vectors": ({"bucket": "1", "deletion-vectors.enabled": "true"}, ["k"]),
}
COLUMNS = {"k": "INT", "^k$": "BOOLEAN", "*": "ARRAY<INT>", "^.*$": "ROW<x BYTES, y INT>", "^a$": "STRING", "m": "MAP<STRING, INT>"}
ROWS = [
    {"k": k, "^k$": k > 1, "*": [k], "^.*$": {"x": b"x", "y": k} if k < 3 else None, "^a$": None if k == 2 else "v", "m": [{"key": "a", "value": k}]}
    for k in (1, 2, 3)
]


def compacted(t):
    t.compact(full=True)
    return t.scan().collect()


def written(t):
    (t.upsert if t.primary_keys else t.append)(pl.DataFrame([*ROWS, *ROWS], schema=frame_schema()))
    return t.scan().collect()


def deleted(t):
    t.delete(pl.col("k") == 2)
    return t.scan().collect()


DOORS = {
    "write": written,
    "compact": compacted,
    "delete": deleted,
    "scan": lambda t: t.scan().collect(),
    "filter": lambda t: t.scan().filter(pl.col("k") > 1).collect(),
    "audit_log": lambda t: t.system("audit_log").collect(),
    "changes": lambda t: t.changes(0).collect(),
    "aggregate": lambda t: t.aggregate(pl.len(), where="k > 1"),
    "check": lambda t: t.check(deep=True).ok,
}

UNDELETED = ("partial-update", "aggregation", "first-row")
CASES = [("aggregation", "write"), *((engine, door) for engine in ENGINES for door in DOORS if door != "delete" or engine not in UNDELETED)]


def frame_schema():
    part = pl.Struct({"x": pl.Binary, "y": pl.Int32})
    entries = pl.List(pl.Struct({"key": pl.String, "value": pl.Int32}))
    return {"k": pl.Int32, "^k$": pl.Boolean, "*": pl.List(pl.Int32), "^.*$": part, "^a$": pl.String, "m": entries}


@pytest.fixture
def forget(monkeypatch):
    """Make this process one that has met no such column."""

    def made():
        columns._name_own_column_exactly.cache_clear()
        polars_types.cached_schema.cache_clear()
        row_conversion._target_columns.cache_clear()
        for module in (series, string, utils):
            monkeypatch.setattr(module, "F", pl.functions)

    yield made
    monkeypatch.undo()
    columns._name_own_column_exactly.cache_clear()
    columns.prepare_series(["*"])


def told(answer):
    return answer if not isinstance(answer, pl.DataFrame) else sorted(map(repr, answer.rows()))


@pytest.mark.parametrize("case", some(CASES, 8), ids=" ".join)
def test_the_first_call_answers_what_later_ones_do(tmp_path, forget, case):
    engine, door = case
    options, keys = ENGINES[engine]
    t = lk.create(tmp_path / "t", COLUMNS, primary_keys=keys, options=options)
    columns.prepare_series(["*"])
    for _ in range(2):
        written(t)
    shutil.copytree(tmp_path / "t", tmp_path / "first")
    later = told(DOORS[door](t))
    forget()
    assert told(DOORS[door](lk.open(tmp_path / "first"))) == later
