"""Every table the reference engine wrote, read as the engine itself read it.

Plain pytest holds the newest state of each table; `pytest -m reference` holds every recorded read and says how many of how many are equal.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import polars as pl
import pytest

import lakekit as lk
from lakekit.testing.expectations import beyond_polars, encode_rows, load_golden_table
from lakekit.testing.recorded_reads import DIFFERENT_ANSWERS, KIND_COLUMN, describe_mismatch
from lakekit.types import parse
from spec_tests.longer import some
from spec_tests.places import FIXTURES

CASES = sorted(path.stem for path in Path(FIXTURES, "tables").glob("*.json"))
FLIGHTS = json.loads(Path(FIXTURES, "flights", "flights.json").read_bytes())
DAY_STATUS = "day_status_count"


@pytest.mark.parametrize("name", some(CASES, 2))
def test_the_newest_state(name: str) -> None:
    case = load_golden_table(name)
    wrong = {read.name: found for read in case.reads if read.name == "latest" and (found := describe_mismatch(case, read)) is not None}
    assert not wrong


@pytest.mark.reference
@pytest.mark.parametrize("name", CASES)
def test_every_recorded_read(name: str, record_property: pytest.RecordProperty) -> None:
    case = load_golden_table(name)
    wrong = {read.name: found for read in case.reads if (found := describe_mismatch(case, read)) is not None}
    record_property("reads", len(case.reads))
    record_property("equal", len(case.reads) - len(wrong))
    record_property("otherwise", sum((case.name, read.name) in DIFFERENT_ANSWERS for read in case.reads))
    record_property("beyond", sum((case.name, read.name) not in DIFFERENT_ANSWERS and bool(beyond_polars(read)) for read in case.reads))
    assert not wrong


def test_what_is_answered_otherwise_was_recorded() -> None:
    recorded = {(name, read.name) for name in sorted({case for case, _ in DIFFERENT_ANSWERS}) for read in load_golden_table(name).reads}
    assert set(DIFFERENT_ANSWERS) <= recorded


@pytest.mark.parametrize("read", FLIGHTS["reads"], ids=lambda read: read["name"])
def test_flights(read: dict) -> None:
    table = lk.open(str(Path(FIXTURES, FLIGHTS["location"])))
    if read["system"] == "files":
        found = table.system("files").group_by("bucket", "level").agg(pl.len(), pl.col("record_count").sum()).collect()
        told = {f"bucket {bucket} level {level}": [files, rows] for bucket, level, files, rows in found.rows()}
        assert told == read["aggregates"]["bucket_level_files_rows"]
        return
    changes = "incremental-between" in read["options"]
    # a batch read of an increment shows each row's kind; of a state, how the row was last written, which a frame does not know
    frame = (table.system("audit_log", options=read["options"]) if changes else table.scan(options=read["options"])).collect()
    types = [parse(text) for text in read["types"]]
    rows = encode_rows(frame, types, kind_column=KIND_COLUMN if changes else None)
    lines = sorted(json.dumps([kind, list(values)], ensure_ascii=False, separators=(",", ":")).encode() for kind, values in rows)
    assert frame.height == read["row_count"]
    assert hashlib.sha256(b"".join(line + b"\n" for line in lines)).hexdigest() == read["sha256"]
    counted = frame.group_by(pl.format("{} {}", pl.col("day").cast(pl.String), "status").alias("group")).len().rows()
    assert dict(counted) == read["aggregates"][DAY_STATUS]
    assert frame["dep_delay"].sum() == read["aggregates"]["dep_delay_sum"]
