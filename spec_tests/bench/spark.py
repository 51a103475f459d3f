"""What reading on Spark costs: `python -m spec_tests.bench.spark [--rows N] [--rounds N] [--out FILE]` measures it and writes a table of ratios.

Each line pits `ls.read` against what Spark does by itself with the same files, in one session of two cores, turn by turn, planning included, and tells the
ratio of medians; in brackets that of the best rounds, and that of the driver's processor times. The limits are `spark.read.parquet` of the files that the
table's snapshot names, and for a merge the window function that SQL has for it: the last version of each key by sequence number, deletes left out.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyspark
from pyspark.sql import Window, functions as sql

import lakekit as lk
import lakekit.spark as ls
from lakekit.data_file.paths import data_file_paths
from lakekit.metadata import manifest_reader, snapshots
from spec_tests.bench.worker import WithoutPandas
from spec_tests.bench.writes import Line, Spent, line, spent

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession

sys.meta_path.remove(WithoutPandas)  # PySpark does need it
ROWS = 5_000_000
FILES = 8
RUNS = 5
HEAD = """\
# What reading on Spark costs

{day}; {cores} cores; Python {python}; PySpark {pyspark}, Polars {polars}, lakekit {lakekit}. {rounds} rounds.

Written by `python -m spec_tests.bench.spark`: `ls.read` and its limit take turns in one session, and only ratios inside the run mean anything. Ratios are of
medians; in brackets those of the best rounds, and of processor time of the driver's Python.

| workload | limit | | lakekit × limit | at most | |
|---|---|---:|---:|---:|---|
"""


def session() -> SparkSession:
    """Two cores, warm Python processes, batches of some size."""
    found = ls.start("local[2]", config={"spark.ui.enabled": "false", "spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "2"})
    found.sparkContext.setLogLevel("OFF")
    return found


class Bench:
    """The lines, over a scratch folder: tables of so many rows."""

    def __init__(self, spark: SparkSession, folder: Path, rows: int, rounds: int) -> None:
        self.spark, self.folder, self.rows, self.rounds = spark, folder, rows, rounds

    def frame(self, keys: np.ndarray, seed: int) -> pl.DataFrame:
        """Nine columns of those keys."""
        drawn = np.random.default_rng(seed)
        count = len(keys)
        return pl.DataFrame(
            {
                "k": pl.Series(keys, dtype=pl.Int64),
                "a": pl.Series(drawn.integers(0, 1000, count), dtype=pl.Int32),
                "b": drawn.integers(0, 2**40, count),
                "x": drawn.random(count),
                "y": drawn.normal(size=count),
                "day": pl.Series(drawn.integers(19000, 19400, count), dtype=pl.Int32).cast(pl.Date),
                "at": pl.Series(drawn.integers(0, 2**50, count), dtype=pl.Int64).cast(pl.Datetime("us")),
                "s": pl.Series(drawn.integers(0, 100_000, count)).cast(pl.String),
                "t": pl.Series(drawn.integers(0, 50, count)).cast(pl.String),
            }
        )

    def scan(self) -> list[Line]:
        """Files that Spark reads itself: what planning and going through lakekit adds."""
        table = lk.create(self.folder / "raw", self.frame(np.arange(1), 0).schema)
        each = self.rows // FILES
        for number in range(FILES):
            table.append(self.frame(np.arange(number * each, (number + 1) * each), number))
        paths = files(table)
        whole, one = hashed(table.schema.to_polars().names()), sql.sum("x")
        asked: dict[str, tuple[Column, list[str] | None]] = {"all columns": (whole, None), "one column": (one, ["x"]), "count": (sql.count("*"), None)}
        return [
            self.pitted(
                f"{name} of {self.rows:,} rows in {FILES} files",
                ("spark.read.parquet", 1.15),
                lambda what=what, columns=columns: ls.read(self.spark, table, columns=columns).agg(what),
                lambda what=what: self.spark.read.parquet(*paths).agg(what),
            )
            for name, (what, columns) in asked.items()
        ]

    def merge(self) -> list[Line]:
        """A table of five runs: one of all keys, four of a tenth of them."""
        rows = self.rows * 2 // 5
        options = {"bucket": "4", "write-only": "true"}
        table = lk.create(self.folder / "merged", self.frame(np.arange(1), 0).schema, primary_keys=["k"], options=options)
        table.upsert(self.frame(np.arange(rows), 0))
        drawn = np.random.default_rng(7)
        for run in range(1, RUNS):
            table.upsert(self.frame(np.sort(drawn.choice(rows, rows // 10, replace=False)), run))
        names, paths = table.schema.to_polars().names(), files(table)
        newest = Window.partitionBy("k").orderBy(sql.desc("_SEQUENCE_NUMBER"))

        def by_window() -> DataFrame:
            found = self.spark.read.parquet(*paths).withColumn("_place", sql.row_number().over(newest))
            return found.where("_place = 1 AND _VALUE_KIND IN (0, 2)").agg(hashed(names))

        name = f"merge of {RUNS} runs, {rows:,} keys"
        return [self.pitted(name, ("a window function over the files", 0.5), lambda: ls.read(self.spark, table).agg(hashed(names)), by_window)]

    def tiny(self) -> list[Line]:
        """What a read costs before there is anything to read."""
        table = lk.create(self.folder / "tiny", self.frame(np.arange(1), 0).schema)
        table.append(self.frame(np.arange(10), 0))
        paths = files(table)
        total = sql.sum("b")
        return [
            self.pitted(
                "ten rows",
                ("spark.read.parquet", 1.5),
                lambda: ls.read(self.spark, table).agg(total),
                lambda: self.spark.read.parquet(*paths).agg(total),
                rounds=5 * self.rounds,
            )
        ]

    def pitted(self, name: str, against: tuple[str, float], own: Callable[[], DataFrame], limit: Callable[[], DataFrame], *, rounds: int | None = None) -> Line:
        """Turn by turn, after two turns that warm both up; both give the same."""
        limited, most = against
        for _ in range(2):
            assert own().collect() == limit().collect()
        spents: tuple[list[Spent], list[Spent]] = ([], [])
        for _ in range(rounds or self.rounds):
            for found, ask in zip(spents, (own, limit), strict=True):
                found.append(spent(lambda: ask().collect()))  # noqa: B023 - called at once
        return line(name, limited, most, *spents)


def hashed(names: list[str]) -> Column:
    """A number that every value of every row has a part in, whatever their order."""
    return sql.sum(sql.xxhash64(*names).cast("decimal(38, 0)"))


def files(table: lk.Table) -> list[str]:
    """The paths of the newest snapshot's data files."""
    handle = table._context()
    snapshot = snapshots.latest(handle)
    assert snapshot is not None
    return data_file_paths(handle, manifest_reader.read_live_entries(handle, snapshot))


def main() -> None:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=(), help="lines to measure, as the methods of Bench are called; writes no table")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(session(), Path(folder), asked.rows, asked.rounds)
        every = {one.__name__: one for one in (bench.scan, bench.merge, bench.tiny)}
        for measure in [one for name, one in every.items() if not asked.only or name in asked.only]:
            for found in measure():
                lines.append(found)
                print(found, flush=True)
        bench.spark.stop()
    text = HEAD.format(
        day=datetime.now(UTC).date(),
        cores=os.cpu_count(),
        python=platform.python_version(),
        pyspark=pyspark.__version__,
        polars=pl.__version__,
        lakekit=lk.__version__,
        rounds=asked.rounds,
    )
    out = asked.out or (Path(__file__).with_name("SPARK.md") if asked.rows >= ROWS and not asked.only else None)
    if out is not None:
        out.write_text(text + "\n".join(map(str, lines)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
