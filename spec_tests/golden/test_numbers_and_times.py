# ruff: noqa: DTZ001 - times of TIMESTAMP have no zone
"""Dates, times and timestamps are compared with numbers nowhere: refused, with the quotes to write, and nothing is changed."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta

import polars as pl
import pytest

import lakekit as lk

SCHEMA = {"k": "INT", "n": "INT", "day": "DATE", "at": "TIME(3)", "ts": "TIMESTAMP(6)", "tz": "TIMESTAMP(6) WITH LOCAL TIME ZONE", "days": "ARRAY<DATE>"}
SCHEMA |= {"r": "ROW<d DATE>", "flag": "BOOLEAN"}
DAY = date(2024, 1, 3)
ROWS = [
    {"k": k, "n": k, "day": DAY + timedelta(days=k), "at": time(12, k), "ts": datetime(2024, 1, 3, k), "days": [DAY], "r": {"d": DAY}, "flag": None}
    for k in range(4)
]
D = pl.col("day")
KINDS = {
    "append": {},
    "vectors": {"options": {"deletion-vectors.enabled": "true"}},
    "key": {"primary_keys": ["k"], "options": {"bucket": "1"}},
    "partitioned": {"partition_keys": ["day"]},
}
TEXTS = [
    "day > 2024-01-03",
    "day = 20240103",
    "2020 < day",
    "day <> 5",
    "day BETWEEN 1 AND 99999",
    "NOT (day < 5)",
    "k = 1 OR (n = 2 AND day >= 3.5)",
    "ts > 2024-01-03",
    "tz > 5",
    "at > 12",
    "n > DATE '2024-01-03'",
    "day = n",
    "CASE WHEN day > 5 THEN TRUE ELSE FALSE END",
    "CASE day WHEN 5 THEN TRUE ELSE FALSE END",
    "day IN (1, 2)",
]
EXPRESSIONS = [
    D > 2020,
    D != 2.5,
    pl.lit(5) <= D,
    pl.col("n") < D,
    pl.col("n") * 2 + 1 < D,
    D.is_between(1, 99_999),
    D.is_between(date(2020, 1, 1), 99_999),
    D.is_in([19_725, 19_726]),
    D.is_in(pl.col("n").implode()),
    ~(D < 5),
    (pl.col("k") == 1) | ((pl.col("n") == 2) & (D > 5)),
    pl.when(D > 5).then(True).otherwise(False),
    pl.when(pl.col("k") > 0).then(D).otherwise(pl.col("n")) > 3,
    pl.coalesce(D, pl.col("n")) > 3,
    D.fill_null(pl.col("n")) > 3,
    D.clip(5, 6) > DAY,
    D.replace(5, 6) > DAY,
    D.eq_missing(5),
    D - date(2020, 1, 1) > 5,
    pl.col("ts") > 5,
    pl.col("tz") > 5,
    pl.col("at") > 5,
    pl.col("days").list.get(0) > 5,
    pl.col("days").list.eval(pl.element() > 5).list.any(),
    pl.col("r").struct.field("d") > 5,
    pl.struct(d="day") == pl.struct(d="n"),
    pl.any_horizontal(pl.col("k") == 9, D > 5),
    pl.first().cast(pl.Date) > 5,
    D.replace_strict({19_725: True}, default=False),
    D.replace_strict([19_725, 19_726], [True, True], default=False, return_dtype=pl.Boolean),
    D.shift(1, fill_value=19_725) > DAY,
    pl.concat_list(D, pl.lit(19_725)).list.max() > 19_725,
    pl.sum_horizontal(D, pl.col("n"), pl.col("k")) > 19_725,
    pl.col("days").list.count_matches(19_725) > 0,
    pl.col("days").list.set_intersection(pl.concat_list(pl.col("n"))).list.len() > 0,
    pl.coalesce(D, pl.col("day"), pl.col("n")) > 3,
    pl.max_horizontal(D, pl.col("n"), pl.col("k")) > 3,
]
ALLOWED = [
    (D.cast(pl.Int32) > 19_726, [2, 3]),
    (D.dt.year() > 2020, [0, 1, 2, 3]),
    (D > DAY, [1, 2, 3]),
    (D.is_in([DAY]), [0]),
    (D.replace_strict({DAY: 1}, default=0) == 1, [0]),
    (pl.col("k").replace_strict({0: DAY}, default=date(2025, 1, 1)) == DAY, [0]),
    (pl.struct(D, "n").struct.field("n") > 2, [3]),
    (D.dt.epoch("d") > 19_726, [2, 3]),
    ("day > DATE '2024-01-03'", [1, 2, 3]),
    ("day > '2024-01-03'", [1, 2, 3]),
    ("day IN ('2024-01-03', '2024-01-04')", [0, 1]),
    ("day - DATE '2024-01-03' >= 1", [1, 2, 3]),  # a count of days, as in DuckDB
]


def table(tmp_path, kind):
    t = lk.create(str(tmp_path / "t"), SCHEMA, **KINDS[kind])
    t.append(ROWS) if kind != "key" else t.upsert(ROWS)
    return t


def keys(t):
    return sorted(t.scan().select("k").collect().to_series().to_list())


def doors(t, where):
    source = pl.DataFrame({"k": [1], "n": [5]}, schema={"k": pl.Int32, "n": pl.Int32})
    yield lambda: t.delete(where)
    yield lambda: t.update({"n": 9}, where=where)
    yield lambda: t.aggregate(pl.len(), where=where)
    yield lambda: t.explain(where)
    yield lambda: t.merge(source, lk.when_matched(delete=True, where=where), on=["k"])
    yield lambda: t.merge(source, lk.when_not_matched_by_source(delete=True, where=where), on=["k"])
    yield lambda: t.update({"flag": where}, where="TRUE")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", [*TEXTS, *EXPRESSIONS], ids=str)
def test_a_number_is_no_day(tmp_path, kind, where):
    t = table(tmp_path, kind)
    for door in doors(t, where):
        with pytest.raises(lk.SchemaMismatch) as told:
            door()
        assert "'" in str(told.value)
        assert any(word in str(told.value) for word in ("DATE '2024-01-03'", "TIME '12", "TIMESTAMP '2024", "INTERVAL '5", "timedelta")), told.value
    assert keys(t) == [0, 1, 2, 3]
    assert t.snapshots().height == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("where", "found"), ALLOWED, ids=str)
def test_times_and_casts_may_be_compared(tmp_path, kind, where, found):
    t = table(tmp_path, kind)
    assert t.aggregate(pl.len(), where=where).item() == len(found)
    t.explain(where)
    t.delete(where)
    assert keys(t) == sorted({0, 1, 2, 3} - set(found))


def test_filters_of_a_scan_are_refused_too(tmp_path):
    t = table(tmp_path, "append")
    for where in (
        D > 2020,
        ~(D < 5),
        D.is_between(1, 5),
        (D > 5) | (pl.col("n") > 3),
        pl.lit(5) < D,
        D - date(2020, 1, 1) > 5,
        pl.col("days").list.eval(pl.element() > 5).list.any(),
    ):
        with pytest.raises(lk.SchemaMismatch, match=r"'|timedelta"):
            t.scan().filter(where).collect()
    for where, found in ALLOWED:
        if isinstance(where, pl.Expr):
            assert t.scan().filter(where).collect().height == len(found)


@pytest.mark.parametrize("one", [(D > 5).sum(), D.filter(D > 5).count(), pl.len().filter(D == 5)], ids=str)
def test_aggregates_compare_no_numbers_with_days(tmp_path, one):
    t = table(tmp_path, "append")
    with pytest.raises(lk.SchemaMismatch, match="DATE '2024-01-03'"):
        t.aggregate(one)
    with pytest.raises(lk.SchemaMismatch, match="DATE '2024-01-03'"):
        t.explain(aggregates=[one])


def test_partitions_are_not_chosen_by_numbers(tmp_path):
    t = table(tmp_path, "partitioned")
    for where in ("day > 2024-01-03", D > 2020):
        with pytest.raises(lk.SchemaMismatch, match="DATE '2024-01-03'"):
            t.compact(where=where)


def test_statements_and_queries_in_sql(tmp_path):
    cat = lk.connect(str(tmp_path / "w"))
    cat.create_database("s")
    t = cat.create_table("s.t", SCHEMA)
    t.append(ROWS)
    for text in ("DELETE FROM s.t WHERE day > 2024-01-03", "UPDATE s.t SET n = 1 WHERE day = 5", "SELECT k FROM s.t WHERE day > 2024-01-03"):
        with pytest.raises(lk.LakekitError):
            cat.sql(text).collect()
    assert keys(t) == [0, 1, 2, 3]
