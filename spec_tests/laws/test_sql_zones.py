"""Law: what SQL says of moments is the same through every door, in whatever zone the machine is: UTC's.

The conditions run in a process of its own, since a zone is the whole process's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime

import polars as pl
import pytest

import lakekit as lk

ZONES = ["America/New_York", "Asia/Tokyo", pytest.param("Pacific/Kiritimati", marks=pytest.mark.long)]
MOMENTS = [
    (1, "2023-12-31 23:30:00"),
    (2, "2024-01-01 02:00:00"),
    (3, "2024-01-01 05:00:00"),
    (4, "2024-06-01 12:00:00"),
    (5, "2024-03-31 01:30:00"),
    (6, "2024-03-10 07:30:00"),
    (7, "2024-11-03 05:30:00"),
]
CONDITIONS = [
    "lz = '2024-01-01 02:00:00'",
    "lz <> '2024-01-01 02:00:00'",
    "lz > '2024-01-01'",
    "lz IN ('2024-01-01 02:00:00', '2024-06-01 12:00:00')",
    "lz BETWEEN '2024-01-01 00:00:00' AND '2024-01-01 04:00:00'",
    "lz = ts",
    "lz < ts",
    "lz = TIMESTAMP '2024-06-01 12:00:00'",
    "lz = TIMESTAMPTZ '2024-06-01 12:00:00'",
    "lz = TIMESTAMPTZ '2024-06-01 12:00:00+02:00'",
    "lz::DATE = DATE '2024-01-01'",
    "CAST(lz AS DATE) = d",
    "lz >= d",
    "CAST(lz AS TIMESTAMP) = ts",
    "CAST(ts AS TIMESTAMPTZ) = lz",
    "year(lz) = 2023",
    "extract(hour FROM lz) = 2",
    "hour(lz) < 6",
    "day(lz) = 1",
    "date_trunc('day', lz) = TIMESTAMP '2024-01-01 00:00:00'",
    "date_trunc('month', lz) = '2024-01-01 00:00:00'",
    "date_diff('day', lz, ts) = 0",
    "lz + INTERVAL 1 DAY > '2024-06-02 00:00:00'",
    "last_day(CAST(lz AS DATE)) = DATE '2023-12-31'",
    "strftime(lz, '%H:%M') = '02:00'",
    "CAST(lz AS VARCHAR) LIKE '2024-01-01 02%'",
    "coalesce(lz, now()) < '2024-01-01 00:00:00'",
    "d < current_date",
    "lz < current_date",
    "ts < now()",
]


def table_of(cat):
    """Return a table with the moments as LTZ and as clocks, and their days."""
    cat.sql("CREATE TABLE db.t (k INT, lz TIMESTAMP_LTZ(6), ts TIMESTAMP(6), d DATE, bit INT)")
    table = cat["db.t"]
    clocks = [(k, datetime.fromisoformat(text)) for k, text in MOMENTS]
    rows = [(k, clock.replace(tzinfo=UTC), clock, clock.date(), 1 << k) for k, clock in clocks]
    table.append(pl.DataFrame(rows, schema=table.schema.to_polars(), orient="row"))
    return table


def outcomes(root):
    """Return what each condition finds through SELECT, where= and DELETE."""
    cat = lk.connect(root)
    cat.sql("CREATE DATABASE db")
    table = table_of(cat)
    every = {k for k, _ in MOMENTS}
    found = {}
    before = table.scan().collect()
    for condition in CONDITIONS:
        selected = cat.sql(f"SELECT k FROM db.t WHERE {condition}").collect()["k"].to_list()
        bits = table.aggregate(pl.col("bit").sum(), where=condition).item()
        cat.sql(f"DELETE FROM db.t WHERE {condition}")
        left = table.scan().collect()["k"].to_list()
        table.overwrite(before)
        found[condition] = [sorted(selected), [k for k in sorted(every) if bits >> k & 1], sorted(every - set(left))]
    cat.sql("CREATE TABLE db.made (k INT, lz TIMESTAMP_LTZ(6))")
    made = cat["db.made"]
    cat.sql("INSERT INTO db.made VALUES (1, TIMESTAMPTZ '2024-06-01 12:00:00'), (2, NULL), (3, NULL), (5, '2024-06-01 12:00:00')")
    cat.sql("INSERT INTO db.made SELECT 4, CAST(TIMESTAMP '2024-06-01 12:00:00' AS TIMESTAMPTZ)")
    cat.sql("UPDATE db.made SET lz = TIMESTAMPTZ '2024-06-01 12:00:00' WHERE k = 2")
    cat.sql("UPDATE db.made SET lz = '2024-06-01 12:00:00' WHERE k = 3")
    found["stored"] = [sorted({str(value) for value in made.scan().collect()["lz"]})]
    return found


@pytest.mark.parametrize("zone", ZONES)
def test_every_door_reads_moments_in_utc(tmp_path, zone):
    done = subprocess.run([sys.executable, "-m", __spec__.name, str(tmp_path)], env={**os.environ, "TZ": zone}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found.pop("stored") == [["2024-06-01 12:00:00+00:00"]]
    assert {condition: doors for condition, doors in found.items() if not doors[0] == doors[1] == doors[2]} == {}
    assert found["lz = '2024-01-01 02:00:00'"][0] == [2]
    assert found["lz = ts"][0] == [k for k, _ in MOMENTS]
    assert found["year(lz) = 2023"][0] == [1]


if __name__ == "__main__":
    print(json.dumps(outcomes(sys.argv[1])))
