"""What writing and compacting on Spark cost: `python -m spec_tests.bench.spark_writes [--rows N] [--rounds N] [--out FILE]`, as `bench.spark` measures reads.

`ls.write` into a key table of fixed buckets takes turns with Spark's own Parquet write of the same rows after the same shuffle and a sort by key, both with
zstd; `ls.compact` takes turns with `t.compact` in this process, on copies of one table, with as many cores. Only ratios inside the run mean anything: by the
clock, in brackets that of the best rounds, and of the processor time of the driver's Python, which is none of the tasks'.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as sql

import lakekit as lk
import lakekit.spark as ls
from spec_tests.bench.spark import Bench, session
from spec_tests.bench.writes import Line, Spent, line, spent

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 2_000_000
BUCKETS = 4


def write(bench: Bench) -> list[Line]:
    """Rows that lie in Parquet files, into buckets."""
    source = str(bench.folder / "source")
    os.makedirs(source)  # noqa: PTH103 - text in, text out
    schema = bench.frame(np.arange(1), 0).schema
    drawn = np.random.default_rng(3).permutation(bench.rows)
    for number, part in enumerate(np.array_split(drawn, BUCKETS)):
        bench.frame(part, number).write_parquet(f"{source}/{number}.parquet")
    rows = bench.spark.read.parquet(source)

    def own(place: str) -> None:
        ls.write(rows, lk.create(place, schema, primary_keys=["k"], options={"bucket": str(BUCKETS)}))

    def by_spark(place: str) -> None:
        rows.repartitionById(BUCKETS, sql.pmod(sql.hash("k"), sql.lit(BUCKETS))).sortWithinPartitions("k").write.option("compression", "zstd").parquet(place)

    name = f"write of {bench.rows:,} rows into {BUCKETS} buckets"
    return [pitted(bench, name, ("Spark's Parquet after the same shuffle and sort", 1.1), own, by_spark)]


def compact(bench: Bench) -> list[Line]:
    """Five runs in each of some buckets, to one; of four times as many keys too, as a job begins and ends whatever it does."""
    return [_compacted(bench, bench.rows), _compacted(bench, 4 * bench.rows)]


def _compacted(bench: Bench, rows: int) -> Line:
    table = lk.create(
        bench.folder / f"runs-{rows}", bench.frame(np.arange(1), 0).schema, primary_keys=["k"], options={"bucket": str(2 * BUCKETS), "write-only": "true"}
    )
    table.upsert(bench.frame(np.arange(rows), 0))
    drawn = np.random.default_rng(7)
    for run in range(1, 5):
        table.upsert(bench.frame(np.sort(drawn.choice(rows, rows // 10, replace=False)), run))

    def copied(place: str) -> None:
        shutil.copytree(table.location, place)

    def own(place: str) -> None:
        ls.compact(bench.spark, place, full=True)

    def here(place: str) -> None:
        lk.open(place).compact(full=True)

    name = f"compaction of 5 runs in {2 * BUCKETS} buckets, {rows:,} keys"
    return pitted(bench, name, ("t.compact with as many cores", 1.2), own, here, before=copied)


def pitted(
    bench: Bench,
    name: str,
    against: tuple[str, float],
    own: Callable[[str], None],
    limit: Callable[[str], None],
    *,
    before: Callable[[str], None] = lambda _: None,
) -> Line:
    """Turn by turn, each in a new place, after a turn that warms both up."""
    limited, most = against
    spents: tuple[list[Spent], list[Spent]] = ([], [])
    for turn in range(bench.rounds + 1):
        for found, work in zip(spents, (own, limit), strict=True):
            place = str(bench.folder / "place")
            before(place)
            took = spent(lambda: work(place))  # noqa: B023 - called at once
            shutil.rmtree(place)
            if turn:
                found.append(took)
    return line(name, limited, most, *spents)


def main() -> None:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(session(), Path(folder), asked.rows, asked.rounds)
        for measure in (write, compact):
            for found in measure(bench):
                lines.append(found)
                print(found, flush=True)
        bench.spark.stop()
    if asked.out is not None:
        asked.out.write_text("\n".join(map(str, lines)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
