"""TPC-H's queries through `cat.sql` on Paimon tables, against DuckDB on the Parquet files that the tables were made from.

`python -m spec_tests.tpch FILES QUERIES [ROUNDS]`: FILES holds `lineitem.parquet` and the seven others, as `tpchgen-cli parquet -s 0.02` of PyPI writes them;
QUERIES holds `q01.sql` to `q22.sql`, whose texts are the TPC's. Half of the tables have keys and two runs, `lineitem` has deletion vectors.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

import lakekit as lk
from spec_tests.drawn_queries import comparable

if TYPE_CHECKING:
    from collections.abc import Callable

KEYS = {"customer": ["c_custkey"], "orders": ["o_orderkey"], "part": ["p_partkey"], "partsupp": ["ps_partkey", "ps_suppkey"]}
APPENDED = ("nation", "region", "supplier", "lineitem")


def filled(cat: lk.Catalog, files: Path) -> None:
    """Write the eight tables into the database `default`."""
    cat.create_database("default", if_not_exists=True)
    for name in (*KEYS, *APPENDED):
        frame = pl.read_parquet(files / f"{name}.parquet")
        if name in KEYS:
            table = cat.create_table(f"default.{name}", frame.schema, primary_keys=KEYS[name], options={"bucket": "2"})
            table.upsert(frame.head(frame.height * 2 // 3))
            table.upsert(frame.tail(frame.height - frame.height // 3))
        else:
            options = {"deletion-vectors.enabled": "true"} if name == "lineitem" else {}
            table = cat.create_table(f"default.{name}", frame.schema, options=options)
            table.append(frame)
            if name == "lineitem":
                table.append(frame.head(100).with_columns(l_comment=pl.lit("to be deleted")))
                table.delete(pl.col("l_comment") == "to be deleted")


def _timed(run: Callable[[], list[tuple[Any, ...]]], rounds: int) -> tuple[list[tuple[Any, ...]], float]:
    best = float("inf")
    rows: list[tuple[Any, ...]] = []
    for _ in range(rounds):
        began = time.perf_counter()
        rows = run()
        best = min(best, time.perf_counter() - began)
    return rows, best


def main() -> None:
    """Print a line for each query: equal or not, the seconds of lakekit and of DuckDB."""
    import duckdb

    files, queries = Path(sys.argv[1]), Path(sys.argv[2])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    con = duckdb.connect()
    for name in (*KEYS, *APPENDED):
        con.execute(f"CREATE VIEW {name} AS FROM '{files / name}.parquet'")
    equal = 0
    sums = [0.0, 0.0]
    with tempfile.TemporaryDirectory() as folder:
        cat = lk.connect(folder)
        filled(cat, files)
        for path in sorted(queries.glob("q*.sql")):
            text = path.read_text().strip().rstrip(";")
            right, theirs = _timed(lambda text=text: con.execute(text).fetchall(), rounds)
            try:
                found, ours = _timed(lambda text=text: cat.sql(text).lazy().collect().rows(), rounds)
            except Exception as wrong:  # noqa: BLE001 - whatever it is, it is shown
                print(f"{path.stem}  {type(wrong).__name__}: {str(wrong)[:160]}")
                continue
            same = comparable(found, ordered=True) == comparable(right, ordered=True)
            same = same or comparable(found, ordered=False) == comparable(right, ordered=False)
            equal += same
            sums[0] += ours
            sums[1] += theirs
            print(f"{path.stem}  {'equal' if same else 'DIFFERENT'}  {len(right)} rows  {ours * 1000:.0f} ms  {theirs * 1000:.0f} ms  {ours / theirs:.2f}")
    print(f"{equal} of 22 equal; {sums[0]:.2f} s by lakekit, {sums[1]:.2f} s by DuckDB on Parquet")


if __name__ == "__main__":
    main()
