"""A query through DuckDB takes about as long as the same by `t.scan()`: ratios of best rounds inside one run, printed with `-s`."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import polars as pl
import pytest

import lakekit as lk

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]
ROWS, ROUNDS, AGAIN = 1_000_000, 7, 3
ROOM = 1.5
"""How many times its bound a line may take on a busy machine."""
LINES: dict[str, tuple[str, Callable[[pl.LazyFrame], pl.LazyFrame], float]] = {
    "filter on a value": ("SELECT * FROM b.k WHERE g = 7", lambda rows: rows.filter(pl.col("g") == 7), 1.2),
    "filter on the key": ("SELECT k, v FROM b.k WHERE k < 500000", lambda rows: rows.filter(pl.col("k") < 500_000).select("k", "v"), 1.2),
    "group by": ("SELECT g, sum(v), count(*) FROM b.k GROUP BY g", lambda rows: rows.group_by("g").agg(pl.col("v").sum(), pl.len()), 1.8),
    "group by a text": ("SELECT s, sum(v), count(*) FROM b.k GROUP BY s", lambda rows: rows.group_by("s").agg(pl.col("v").sum(), pl.len()), 1.8),
    "count": ("SELECT count(*) FROM b.k", lambda rows: rows.select(pl.len()), 1.2),
    "all columns": ("SELECT * FROM b.k", lambda rows: rows, 1.2),
}
"""A query, the same on the scan, and the bound of their ratio."""


@pytest.fixture(scope="module")
def cat(tmp_path_factory):
    made = lk.connect(tmp_path_factory.mktemp("bench"))
    made.create_database("b")
    columns = {"k": "BIGINT", "g": "INT", "v": "DOUBLE", "s": "STRING"}
    table = made.create_table("b.k", columns, primary_keys=["k"], options={"bucket": "2", "write-only": "true"})
    for first, count in ((0, ROWS), (ROWS // 4, ROWS // 5), (ROWS // 2, ROWS // 5)):
        k = pl.int_range(first, first + count, eager=True)
        table.upsert(pl.DataFrame({"k": k, "g": (k % 1000).cast(pl.Int32), "v": k * 0.5, "s": (k % 5000).cast(pl.String)}))
    return made


@pytest.mark.parametrize("name", LINES)
def test_ratio(cat, name):
    text, on_scan, bound = LINES[name]
    ratio = 0.0
    for _ in range(AGAIN):
        scanned, queried = [], []
        for _ in range(ROUNDS):
            scanned.append(timed(lambda: on_scan(cat["b.k"].scan()).collect()))
            queried.append(timed(lambda: cat.sql(text).collect()))
        ratio = min(queried) / min(scanned)
        print(f"{name}: {min(queried) * 1000:.1f} ms, {ratio:.2f} of t.scan()'s {min(scanned) * 1000:.1f} ms")
        if ratio <= bound * ROOM:
            return
    pytest.fail(f"{name}: {ratio:.2f}, more than {ROOM} × {bound}")


def timed(run: Callable[[], object]) -> float:
    """Return how many seconds a call takes."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


COLD_ROUNDS, COLD_BOUND = 41, 1.5
IMPORTS = ("-c", "import polars, duckdb")


def test_a_cold_query_of_the_command_line(tmp_path):
    """Processor time of whole processes, in turns; the bytecode of lakekit was written before, as pip does."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", lk.__path__[0]], check=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""})
    query = ("-m", "lakekit", "sql", str(tmp_path), "-e", "SELECT 1")
    for arguments in (IMPORTS, query):
        processor_time(arguments)
    rounds = [(processor_time(IMPORTS), processor_time(query)) for _ in range(COLD_ROUNDS)]
    imports, whole = (statistics.median(times) for times in zip(*rounds, strict=True))
    print(f"cold query: {whole * 1000:.0f} ms, {whole / imports:.2f} of the imports' {imports * 1000:.0f} ms")
    assert whole / imports <= COLD_BOUND


def processor_time(arguments: tuple[str, ...]) -> float:
    """Return the seconds of a processor that a process of Python takes."""
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime
