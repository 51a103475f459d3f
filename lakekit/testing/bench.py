"""Times of reads against plain Polars over the same files, measured in one run.

    lines = bench(lk.open("warehouse/shop.db/orders"), turns=5)      [Line(what="scan", …)]
    create_tables(folder, rows=1_000_000)                            an append and a key table to try it on, by path

    line       lakekit                                                 Polars
    plan       what the newest snapshot reads, from its metadata       –
    scan       all rows, merged where there are keys                   `pl.read_parquet` of the same files,
                                                                       every version of every key
    columns    one column, merged where there are keys                 that column of the same files
    filter     a hundredth of the rows by a key or number,             the same filter on a scan of the same files
               with pruning and indexes

Results are ratios, as milliseconds say little of another machine. Both take turns, and the median counts. Processor
time is of all threads of this process: it says what a machine with other work would lose. Files that are not Parquet
have no counterpart in Polars: their ratio is null.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import polars as pl

from lakekit.columns import col, cols
from lakekit.table.open_create import create

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.table import Table

LINE_COLUMNS = ("table", "line", "rows", "ms", "polars_ms", "ratio", "cpu_ratio")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One measurement.

    `rows`: how many it returned; times are medians in milliseconds; ratios are lakekit's time over that of Polars, None
    without one.
    """

    table: str
    line: str
    rows: int
    ms: float
    polars_ms: float | None = None
    ratio: float | None = None
    cpu_ratio: float | None = None

    def row(self) -> tuple[object, ...]:
        """Return the facts under `LINE_COLUMNS`, rounded to meaningful digits."""
        return tuple(
            round(value, 2) if isinstance(value := getattr(self, name), float) else value for name in LINE_COLUMNS
        )


def bench(table: Table, *, turns: int = 5) -> list[Line]:
    """Return every line of the newest snapshot of a table.

    Raises: what its reads raise.
    """
    names = table.schema.to_polars().names()
    column = next((name for name in table.primary_keys if name not in table.partition_keys), names[0])
    plain = _scan_plain_files(table.files()["file_path"].to_list())
    common = [] if plain is None else [name for name in names if name in plain.collect_schema().names()]
    queries: list[tuple[str, Callable[[pl.LazyFrame], pl.LazyFrame]]] = [
        ("scan", lambda frame: frame.select(cols(common)) if common else frame),
        ("columns", lambda frame: frame.select(col(column))),
    ]
    wanted = _selective_condition(table, column)
    if wanted is not None:
        queries.append(("filter", lambda frame: frame.filter(wanted)))
    lines = [_line(table.name, "plan", turns, lambda: _planned_row_count(table), None)]
    for line, ask in queries:
        theirs = None if plain is None or column not in common else _row_counter(ask, plain)
        lines.append(_line(table.name, line, turns, _row_counter(ask, table), theirs))
    return lines


def bench_of_size(row_count: int, *, turns: int = 5) -> list[Line]:
    """Return the same measurements of temporary tables."""
    with tempfile.TemporaryDirectory(prefix="lakekit-bench-") as folder:
        return [line for table in create_tables(folder, row_count=row_count) for line in bench(table, turns=turns)]


def _scan_plain_files(paths: list[str]) -> pl.LazyFrame | None:
    """Return the files as Polars reads them by itself; None if they are remote, or not Parquet."""
    if not paths or any("://" in path or not path.endswith(".parquet") for path in paths):
        return None
    return pl.scan_parquet(paths, missing_columns="insert", extra_columns="ignore")


def _row_counter(ask: Callable[[pl.LazyFrame], pl.LazyFrame], source: Table | pl.LazyFrame) -> Callable[[], int]:
    def run() -> int:
        return ask(source if isinstance(source, pl.LazyFrame) else source.scan()).collect().height

    return run


def _planned_row_count(table: Table) -> int:
    return table.explain().rows_read


def _selective_condition(table: Table, column: str) -> pl.Expr | None:
    """Return a condition on about a hundredth of the values of a column, around its middle.

    Returns None if the column has no order or no values.
    """
    if not table.schema.to_polars()[column].is_numeric():
        return None
    low, high = (
        table.scan()
        .select(col(column).quantile(0.5).alias("low"), col(column).quantile(0.51).alias("high"))
        .collect()
        .row(0)
    )
    return None if low is None else col(column).is_between(low, high)


def _line(table: str, line: str, turns: int, ours: Callable[[], int], theirs: Callable[[], int] | None) -> Line:
    rows = ours()
    if theirs is not None:
        theirs()
    mine, other = [], []
    for _ in range(turns):
        mine.append(_measure_run(ours))
        if theirs is not None:
            other.append(_measure_run(theirs))
    ms = median(wall for wall, _ in mine) * 1000
    if not other:
        return Line(table=table, line=line, rows=rows, ms=ms)
    polars_ms = median(wall for wall, _ in other) * 1000
    ratio = median(a[0] / b[0] for a, b in zip(mine, other, strict=True))
    cpu = median(a[1] / max(b[1], 1e-4) for a, b in zip(mine, other, strict=True))
    return Line(table=table, line=line, rows=rows, ms=ms, polars_ms=polars_ms, ratio=ratio, cpu_ratio=cpu)


def _measure_run(run: Callable[[], int]) -> tuple[float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - processor


def create_tables(folder: str, *, row_count: int) -> list[Table]:
    """Create an append table and a key table of so many rows in a folder.

    Each has four commits; two more write a tenth of the keys again, and nothing is compacted.
    """
    columns = {"k": "BIGINT NOT NULL", "day": "INT", "text": "STRING", "amount": "DOUBLE"}
    k = pl.int_range(row_count, eager=True)
    frame = pl.DataFrame(
        {
            "k": k,
            "day": (k % 365).cast(pl.Int32),
            "text": pl.Series([f"text {n % 1000}" for n in range(1000)])[k % 1000],
            "amount": k * 0.5,
        }
    )
    append = create(f"{folder}/append", columns)
    keyed = create(f"{folder}/keyed", columns, primary_keys=["k"], options={"bucket": "2", "write-only": "true"})
    for part in (frame.gather_every(4, offset) for offset in range(4)):
        append.append(part)
        keyed.upsert(part)
    for offset in (3, 7):
        keyed.upsert(frame.gather_every(20, offset).with_columns(pl.col("amount") + 1))
    return [append, keyed]
