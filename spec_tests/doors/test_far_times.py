"""Times beyond the years that Polars can print: refused as constants of conditions and values, where Polars would panic, and kept as what rows hold."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import polars as pl
import pytest

import lakekit as lk

if TYPE_CHECKING:
    from pathlib import Path

DAY, MS, US = 2**31 - 1, 2**63 - 1, 2**63 - 1
NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
COLUMNS = {"k": "INT", "d": "DATE", "t": "TIMESTAMP(3)", "u": "TIMESTAMP(6)", "z": "TIMESTAMP_LTZ(3)"}


def constant(value: int, dtype: pl.DataType | type[pl.DataType]) -> pl.Expr:
    return pl.lit(value, pl.Int64).cast(dtype)


FAR = {
    "a date": (constant(DAY, pl.Date), "2147483647 days since 1970"),
    "an early date": (constant(-DAY, pl.Date), "-2147483647 days since 1970"),
    "ms": (constant(MS, pl.Datetime("ms")), "9223372036854775807 ms since 1970"),
    "us": (constant(US, pl.Datetime("us")), "9223372036854775807 us since 1970"),
    "with a zone": (constant(-MS, pl.Datetime("ms", "UTC")), "-9223372036854775807 ms since 1970"),
    "of a list": (pl.concat_list(constant(DAY, pl.Date)).list.first(), "2147483647 days since 1970"),
    "of a struct": (pl.struct(d=constant(DAY, pl.Date)).struct.field("d"), "2147483647 days since 1970"),
}
NEAR = [
    constant(95_026_236, pl.Date),
    constant(-96_465_292, pl.Date),
    constant(8_210_266_876_799_999, pl.Datetime("ms")),
    constant(-8_334_601_228_800_000_000, pl.Datetime("us")),
    constant(2**63 - 1, pl.Datetime("ns")),
    pl.lit(date(9999, 12, 31)),
]


def table(path: Path, *, keyed: bool = True) -> lk.Table:
    made = lk.create(path, COLUMNS, primary_keys=["k"] if keyed else [], options={"bucket": "1"} if keyed else {})
    row = {"k": 1, "d": date(2024, 3, 1), "t": NOON.replace(tzinfo=None), "u": NOON.replace(tzinfo=None), "z": NOON}
    (made.upsert if keyed else made.append)([row])
    return made


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("column", ["d", "t"])
@pytest.mark.parametrize("keyed", [True, False])
def test_constants_that_polars_cannot_print_are_refused(tmp_path: Path, far: str, column: str, keyed: bool) -> None:
    made, (value, told) = table(tmp_path / "t", keyed=keyed), FAR[far]
    where = pl.col("k").is_not_null() & (pl.col(column) < value)
    asked = {
        "where": [lambda: made.delete(where), lambda: made.update({"k": "k"}, where=where), lambda: made.aggregate(pl.len(), where=where)],
        "expr": [lambda: made.explain(where)],
        "an aggregate": [lambda: made.aggregate((pl.col(column) < value).sum())],
        "set": [lambda: made.update({column: value}, where="k = 1")],
    }
    for said, calls in asked.items():
        for call in calls:
            with pytest.raises(lk.ValueOutOfRange, match=rf"{said}.* for t has a time beyond the years -262143 to 262142, {told}: give one within them"):
                call()
    assert made.snapshots().height == 1


@pytest.mark.parametrize("value", NEAR)
def test_the_last_ones_within_are_taken(tmp_path: Path, value: pl.Expr) -> None:
    made = table(tmp_path / "t")
    for column in ("d", "t", "u"):
        where = (pl.col(column) == value) & (pl.col("k") == 1)
        made.delete(where)
        assert made.aggregate(pl.len(), where=where).item() == 0
        assert made.explain(where).files_read in (0, 1)
    assert made.scan().collect().height == 1


@pytest.mark.parametrize("key", ["k", "d", "t", "z"])
def test_rows_may_hold_them(tmp_path: Path, key: str) -> None:
    """They are found by their keys, and counted by `analyze`, whose texts hold no bound of them."""
    made = lk.create(tmp_path / "t", COLUMNS, primary_keys=[key], options={"bucket": "3"})
    values = {"d": ([DAY, 5], pl.Date), "t": ([MS, 7], pl.Datetime("ms")), "u": ([-US, 7], pl.Datetime("us")), "z": ([MS, 7], pl.Datetime("ms", "UTC"))}
    rows = pl.DataFrame([pl.Series("k", [1, 2], pl.Int32), *(pl.Series(name, of).cast(dtype) for name, (of, dtype) in values.items())])
    made.upsert(rows)
    made.upsert(rows)
    made.compact(full=True)
    for name in rows.columns:
        assert made.scan().filter(pl.col(name).is_in(rows[name].head(1).implode())).select("k").collect().rows() == [(1,)], name
    made.analyze()
    told = {field.id: field.name for field in made._context().schema.fields}
    (statistics,) = made.system("statistics").collect().rows(named=True)
    columns = {one["colId"]: one for one in json.loads(statistics["colstat"]).values()}
    bounds = {told[one]: (columns[one].get("min"), columns[one].get("max")) for one in columns}
    assert bounds["d"] == ("5", str(DAY))
