"""Queries of every shape on a scan answer what they answer on the collected rows, though most of them read few of its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import lakekit as lk
from lakekit.read.polars_pushdown import PaimonScan
from spec_tests.query_strategies import ENGINES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spec_tests.query_strategies import Engine

    Shape = Callable[[pl.LazyFrame], pl.LazyFrame]

ROWS = pl.DataFrame(
    {"k": [1, 2, 3, 4], "z": [9, 9, 8, 8], "g": [1, 1, 2, 2], "v": [5, 6, 7, 8], "s": ["a", "b", "c", "d"], "l": [[1], [2, 3], [], [4]]},
)
V, G, K = pl.col("v"), pl.col("g"), pl.col("k")
SHAPES: Mapping[str, Shape] = {
    "a window": lambda rows: rows.select(V.max().over("g")),
    "a window beside the rows": lambda rows: rows.with_columns(m=V.max().over("g")).select("m", "k"),
    "a window alone": lambda rows: rows.with_columns(m=V.max().over("g")).select("m"),
    "rows that a window chooses": lambda rows: rows.filter(V.max().over("g") == V).select("v"),
    "rows that a window and a value choose": lambda rows: rows.filter((V.max().over("g") == V) & (K > 1)).select("s"),
    "windows that roll": lambda rows: rows.select(V.rolling_mean(2).over("g", order_by="k")),
    "sums so far": lambda rows: rows.sort("k").select(V.cum_sum().over("g", order_by="k")),
    "how many": lambda rows: rows.select(pl.len().over("g")),
    "numbered rows": lambda rows: rows.sort("k").with_row_index().select("index", "v"),
    "the scan numbered": lambda rows: rows.with_row_index().select("index").sort("index"),
    "a window of SQL": lambda rows: rows.sql(
        "SELECT s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY v DESC) AS n FROM self) WHERE n = 1 ORDER BY s"
    ),
    "a query inside one": lambda rows: rows.sql("SELECT s FROM self WHERE v > (SELECT avg(v) FROM self) ORDER BY s"),
    "ranks": lambda rows: rows.select(V.rank()),
    "differences": lambda rows: rows.sort("k").with_columns(d=V.diff()).select("d"),
    "beside the mean": lambda rows: rows.select(V - V.mean()),
    "rows above the mean": lambda rows: rows.filter(V.mean() < V).select("v"),
    "sorted by another": lambda rows: rows.select(V.sort_by("k")),
    "groups": lambda rows: rows.group_by("g").agg(V.filter(K > 1).sum()).sort("g"),
    "groups in time": lambda rows: rows.sort("k").group_by_dynamic("k", every="2i").agg(V.sum()),
    "groups that roll": lambda rows: rows.sort("k").rolling("k", period="2i").agg(V.sum()),
    "one of each": lambda rows: rows.select("g").unique().sort("g"),
    "joined with itself": lambda rows: rows.join(rows, on="k").select("v", "v_right").sort("v"),
    "rows that others have": lambda rows: rows.join(rows.filter(V > 6), on="k", how="semi").select("s").sort("s"),
    "the nearest": lambda rows: rows.sort("k").join_asof(rows.sort("k"), on="k").select("v", "v_right"),
    "longer": lambda rows: rows.select("k", "v", "g").unpivot(index="k").sort("k", "variable"),
    "exploded": lambda rows: rows.sort("k").select("k", "l").explode("l"),
    "beside each other": lambda rows: pl.concat([rows.select("v").sort("v"), rows.select("k").sort("k")], how="horizontal"),
    "below each other": lambda rows: pl.concat([rows.select("v"), rows.select("k")], how="diagonal").sort("v", "k"),
    "none after a cut": lambda rows: rows.head(2).filter(pl.lit(value=False)).select("v"),
    "no value after a cut": lambda rows: rows.head(2).filter(V.is_in([])).select("v", "k"),
    "counted": lambda rows: rows.filter(V > 5).select(pl.len()),
}


@pytest.fixture(scope="module", params=["append", "key"])
def table(request, tmp_path_factory) -> lk.Table:
    """A table of several files; one with keys has versions to be merged."""
    keys = ["k"] if request.param == "key" else []
    made = lk.create(tmp_path_factory.mktemp("shapes") / "t", ROWS.schema, primary_keys=keys, options={"bucket": "1" if keys else "-1", "write-only": "true"})
    if keys:
        made.upsert(ROWS.with_columns(v=pl.lit(0, pl.Int64)))
        made.upsert(ROWS)
    else:
        made.append(ROWS[:2])
        made.append(ROWS[2:])
    return made


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape(table: lk.Table, shape: str, engine: Engine) -> None:
    wanted = SHAPES[shape](ROWS.lazy()).collect(engine="in-memory")
    found = SHAPES[shape](table.scan()).collect(engine=engine)
    assert (found.schema, found.rows()) == (wanted.schema, wanted.rows())


def test_what_a_query_needs_is_asked_of_the_table(table: lk.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The part without rows that stands before those of the table hides nothing from it."""
    asked, resolve = [], PaimonScan.resolve

    def told(self: PaimonScan, **question: Any) -> Any:
        asked.append((question["projection"], question["limit"], [one.pyarrow_str for one in question["filters"]]))
        return resolve(self, **question)

    monkeypatch.setattr(PaimonScan, "resolve", told)
    assert table.scan().filter(K == 3).select("s").collect().rows() == [("c",)]
    assert table.scan().select("v").head(1).collect().height == 1
    assert asked == [(["s", "k"], None, ["(pa.compute.field('k') == 3)"]), (["v"], 1, [])]
    assert table.scan().collect_schema() == ROWS.schema
