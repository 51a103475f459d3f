"""`current_date`, `today()` and `now()` mean a day and a moment, at every door that takes SQL."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest

import lakekit as lk

MIDNIGHT = dt.time()


def utc_today():
    return dt.datetime.now(dt.UTC).date()


@pytest.fixture
def cat(tmp_path):
    made = lk.connect(tmp_path / "lake")
    made.sql("CREATE DATABASE db; USE db; CREATE TABLE t (id INT, d DATE, ts TIMESTAMP(6))")
    while True:
        today = utc_today()
        days = [today + dt.timedelta(days=by) for by in (-1, 0, 1)]
        rows = [(at, day, dt.datetime.combine(day, MIDNIGHT)) for at, day in enumerate(days)]
        made["db.t"].overwrite(pl.DataFrame(rows, schema=made["db.t"].schema.to_polars(), orient="row"))
        if dt.datetime.now(dt.UTC).time() < dt.time(23, 59):
            return made


CONDITIONS = {
    "d = {now}": [1],
    "d <> {now}": [0, 2],
    "d >= {now}": [1, 2],
    "d > {now}": [2],
    "d < {now}": [0],
    "d <= {now}": [0, 1],
    "{now} = d": [1],
    "d IN ({now})": [1],
    "d NOT IN ({now}, DATE '2000-01-01')": [0, 2],
    "d BETWEEN {now} AND {now}": [1],
    "d = {now} - 1": [0],
    "d = {now} + INTERVAL 1 DAY": [2],
    "ts = {now}": [1],
    "ts >= {now}": [1, 2],
    "ts IN ({now})": [1],
    "CAST({now} AS TIMESTAMP) = ts": [1],
    "d = coalesce(NULL, {now})": [1],
    "d = CASE WHEN id >= 0 THEN {now} END": [1],
    "d IS NOT DISTINCT FROM {now}": [1],
    "d = greatest({now}, DATE '2000-01-01')": [1],
    "date_diff('day', d, {now}) = 0": [1],
    "year(d) * 400 + dayofyear(d) = year({now}) * 400 + dayofyear({now})": [1],
}


@pytest.mark.parametrize("now", ["current_date", "today()"])
def test_a_condition_meets_today_as_a_day(cat, now):
    table, wrong = cat["db.t"], {}
    before = table.scan().collect()
    for condition, found in CONDITIONS.items():
        written = condition.format(now=now)
        selected = sorted(cat.sql(f"SELECT id FROM t WHERE {written}").collect()["id"].to_list())
        counted = table.aggregate(pl.len(), where=written).item()
        cat.sql(f"DELETE FROM t WHERE {written}")
        left = sorted(table.scan().collect()["id"].to_list())
        if (selected, counted, left) != (found, len(found), [at for at in range(3) if at not in found]):
            wrong[written] = (selected, counted, left)
        table.overwrite(before)
    assert wrong == {}


@pytest.mark.parametrize("now", ["current_date", "today()"])
def test_a_new_value_is_midnight_of_today(cat, now):
    table = cat["db.t"]
    cat.sql(f"UPDATE t SET ts = {now}, d = {now} WHERE id = 0")
    table.update({"ts": now, "d": now}, where="id = 1")
    cat.sql(f"MERGE INTO t USING (SELECT 2 AS id) AS n ON t.id = n.id AND t.d > {now} WHEN MATCHED THEN UPDATE SET ts = {now}, d = {now}")
    rows = table.scan().collect()
    assert set(rows["d"]) == {utc_today()}
    assert set(rows["ts"]) == {dt.datetime.combine(utc_today(), MIDNIGHT)}
