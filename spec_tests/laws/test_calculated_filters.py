# ruff: noqa: DTZ001 - times of TIMESTAMP have no zone
"""A filter that calculates finds the rows that it finds in memory, near the ends of every type: Polars runs it over bounds of row groups, where sums wrap."""

from __future__ import annotations

import operator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from random import Random

import polars as pl
import pytest

import lakekit as lk
from spec_tests.longer import some

ENDS = {
    "TINYINT": [-128, -127, -1, 0, 1, 5, 126, 127],
    "SMALLINT": [-(2**15), -(2**15) + 1, -1, 0, 1, 100, 2**15 - 1],
    "INT": [-(2**31), -(2**31) + 1, -1, 0, 1, 100, 2**31 - 2, 2**31 - 1],
    "BIGINT": [-(2**63), -(2**63) + 1, -1, 0, 1, 100, 2**63 - 2, 2**63 - 1],
    "DECIMAL(9, 2)": [Decimal("-9999999.99"), Decimal("0.00"), Decimal("1.25"), Decimal("9999999.99")],
    "DECIMAL(18, 0)": [Decimal(-(10**18) + 1), Decimal(0), Decimal(3), Decimal(10**18 - 1)],
    "FLOAT": [float("-inf"), -3.4e38, -1.5, 0.0, 2.5, 3.4e38, float("inf"), float("nan")],
    "DOUBLE": [float("-inf"), -1.7e308, -1.5, 0.0, 2.5, 1.7e308, float("inf"), float("nan")],
    "DATE": [date(1, 1, 1), date(1970, 1, 1), date(2024, 1, 3), date(9999, 12, 31)],
    "TIMESTAMP(6)": [datetime(1, 1, 1), datetime(1970, 1, 1), datetime(2024, 1, 3, 12), datetime(9999, 12, 31, 23)],
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": [datetime(1, 1, 2, tzinfo=UTC), datetime(2024, 1, 3, 12, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)],
}
WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")
COMPARE = (operator.gt, operator.lt, operator.ge, operator.le, operator.eq, operator.ne)
KINDS = ("append", "vectors", "key", "partial-update", "by column")


def calculated(draw, c: pl.Expr, name: str) -> pl.Expr:
    """A value made of a column of some type, by what may wrap."""
    if name in WHOLE:
        n = draw.choice([1, 2, 3, 100, -1])
        ways = [c + n, n + c, c - n, n - c, c * n, -c, c // n, c % 3, (c + 1) * 2 - 1, c.abs(), c.cast(pl.Int64) + n, c & 3, c.cast(pl.Int8, strict=False)]
        ways += [
            c.cast(pl.UInt8, wrap_numerical=True),
            c.clip(-5, 5),
            c + c,
            c.pow(2),
            pl.sum_horizontal(c, pl.lit(n)),
            c.bitwise_count_ones(),
            c.cast(pl.UInt32, wrap_numerical=True) + 1,
        ]
    elif name.startswith(("DECIMAL", "FLOAT", "DOUBLE")):
        ways = [c + 1, c - 1, -c, c.abs(), c + c] + ([c * 2, c / 3, c // 2, c % 2] if name in ("FLOAT", "DOUBLE") else [])
    else:
        ways = [c + timedelta(days=1), c - timedelta(days=30), c.dt.year() + 1, -c.dt.day().cast(pl.Int8), c.dt.month() * 2, c.dt.epoch("d") + 1]
    return draw.choice(ways)


def bound(draw, made: pl.Expr, frame: pl.DataFrame) -> object:
    """A value to compare with: one that the frame gives, or a small number."""
    try:
        values = frame.select(made.alias("x")).to_series().drop_nulls()
    except pl.exceptions.PolarsError:
        return None
    try:
        return draw.choice(values.to_list()) if len(values) else None
    except (ValueError, OverflowError):  # beyond what Python has
        return None


def condition(draw, frame: pl.DataFrame, types: dict[str, str]) -> pl.Expr | None:
    parts = []
    for _ in range(draw.randint(1, 2)):
        column = draw.choice(list(types))
        made = calculated(draw, pl.col(column), types[column])
        value = bound(draw, made, frame)
        if value is None:
            return None
        part = draw.choice(COMPARE)(made, pl.lit(value, dtype=frame.select(made.alias("x")).dtypes[0]))
        shape = draw.choice(["plain", "plain", "not", "between", "in", "case", "any", "null"])
        if shape == "not":
            part = ~part
        elif shape == "between":
            part = made.is_between(value, value)
        elif shape == "in":
            part = made.is_in([value])
        elif shape == "case":
            part = pl.when(pl.col("k") >= 0).then(part).otherwise(False)
        elif shape == "any":
            part = pl.any_horizontal(part, pl.col("k") < -1)
        elif shape == "null":
            part = part.is_null() | part
        parts.append(part)
    plain = draw.choice([None, pl.col("k") > 1, pl.col("k").is_in([1, 3, 5]), ~(pl.col("k") == 2)])
    joined = reduce(draw.choice([operator.and_, operator.or_]), parts)
    return joined if plain is None else joined & plain


def made(folder, kind: str, name: str, rows: list[dict], file_format: str) -> lk.Table:
    schema = {"k": "INT", "c": name, "d": "INT"}
    options = {"file.format": file_format, "parquet.block.size": "1 kb"}
    if kind in ("key", "partial-update"):
        extra = {"merge-engine": "partial-update"} if kind == "partial-update" else {}
        t = lk.create(folder, schema, primary_keys=["k"], options={**options, "bucket": "1", **extra, "write-only": "true"})
        for at in range(0, len(rows), 3):
            t.upsert(rows[at : at + 3])
        t.upsert(rows[:2])
        return t
    if kind == "by column":
        t = lk.create(folder, schema, primary_keys=["d", "k"], options={**options, "bucket": "1", "write-only": "true"})
        t.upsert(rows)
        t.upsert(rows[:2])
        return t
    t = lk.create(folder, schema, options={**options, **({"deletion-vectors.enabled": "true"} if kind == "vectors" else {})})
    t.append(rows)
    return t


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", some(range(200), 20))
def test_rows_near_the_ends_are_found(tmp_path, kind, seed):
    draw = Random(f"{kind} {seed}")
    name = draw.choice(list(ENDS))
    values = draw.choices([*ENDS[name], *ENDS[name], None], k=draw.randint(3, 8))
    rows = [{"k": k, "c": value, "d": draw.choice(ENDS["INT"])} for k, value in enumerate(values)]
    t = made(str(tmp_path / "t"), kind, name, rows, draw.choice(["parquet", "parquet", "parquet", "orc"]))
    for _ in range(draw.randint(3, 6)):
        frame = t.scan().collect().sort("k")
        where = condition(draw, frame, {"c": name, "d": "INT", "k": "INT"})
        if where is None:
            continue
        try:
            right = frame.filter(where)
        except pl.exceptions.PolarsError:
            continue
        assert t.scan().filter(where).sort("k").collect().equals(right, null_equal=True), where
        assert t.scan().filter(where).select(pl.len()).collect().item() == right.height, where
        assert t.aggregate(pl.len(), where=where).item() == right.height, where
        if draw.randint(0, 4) == 0 and kind != "partial-update":
            t.delete(where)
            left = frame.join(right, on="k", how="anti")
            assert t.scan().sort("k").collect()["k"].to_list() == left["k"].to_list(), where
        elif draw.randint(0, 4) == 0 and kind != "by column":
            t.update({"d": 7}, where=where)
            assert t.scan().filter(pl.col("d") == 7).collect()["k"].sort().to_list() == sorted({*right["k"], *frame.filter(pl.col("d") == 7)["k"]}), where


@pytest.mark.filterwarnings("ignore::polars.exceptions.PolarsInefficientMapWarning")
def test_a_sentinel_at_the_end_of_its_type(tmp_path):
    for file_format in ("parquet", "orc", "avro"):
        t = lk.create(str(tmp_path / file_format), {"k": "INT", "until": "BIGINT"}, options={"file.format": file_format})
        t.append([{"k": 1, "until": 2**63 - 1}, {"k": 2, "until": 100}])
        where = pl.col("until") + 1 > 50
        assert t.scan().filter(where).collect()["k"].to_list() == [2]
        assert t.scan().filter(where & (pl.col("k") > 1)).collect()["k"].to_list() == [2]
        assert t.scan().filter(~((pl.col("until") + 1 <= 50) | pl.col("k").map_elements(lambda k: k > 5, return_dtype=pl.Boolean))).collect()[
            "k"
        ].to_list() == [2]
        assert t.scan().filter(pl.col("until").cast(pl.Int64).cast(pl.Int64) + 1 > 50).collect()["k"].to_list() == [2]
        assert t.aggregate(pl.len(), where=where).item() == 1
        t.delete(where)
        assert t.scan().collect()["k"].to_list() == [1]
