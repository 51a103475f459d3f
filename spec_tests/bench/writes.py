"""What writing costs: `python -m spec_tests.bench.writes [--rows N] [--rounds N] [--out FILE]` measures it and writes a table of ratios.

Each line pits lakekit against a limit in the same process, turn by turn, and tells the ratio of medians; in brackets that of the best rounds, and that of
processor times, which other work on the machine changes least. The limit is Polars, or plain Python, doing the least that the same bytes need, into new files
as lakekit's are. Every table is read back and counted.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

import lakekit as lk
from spec_tests.bench import write_memory
from spec_tests.bench.rows import columns, mixed
from spec_tests.differential.judge import Judge, missing

if TYPE_CHECKING:
    from collections.abc import Callable

WARM_UP = 6
"""Compactions of the reference engine before its time counts."""
HEAD = """\
# What writing costs

{day}; {cores} cores; Python {python}; Polars {polars}, lakekit {lakekit}. {rows} rows of ten columns, {rounds} rounds.

Written by `python -m spec_tests.bench.writes`: lakekit and its limit take turns in one process, and only ratios inside the run mean anything. Ratios are of
medians; in brackets those of the best rounds, and of processor time.

| workload | limit | | lakekit × limit | at most | |
|---|---|---:|---:|---:|---|
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One ratio: what was done, against what, how often that, and how much at most."""

    name: str
    against: str
    limit_ms: float
    ratio: float
    least: float
    most: float
    processor: float

    def __str__(self) -> str:
        verdict = "pass" if self.ratio <= self.most else "**MISS**"
        return (
            f"| {self.name} | {self.against} | {self.limit_ms:.1f} ms | {self.ratio:.2f} ({self.least:.2f}, {self.processor:.2f}) | {self.most} | {verdict} |"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The memory of one process, and how much at most."""

    name: str
    peak_mb: float
    most_mb: float

    def __str__(self) -> str:
        verdict = "pass" if self.peak_mb <= self.most_mb else "**MISS**"
        return f"| {self.name} | peak of the process | | {self.peak_mb:.0f} MB | {self.most_mb:.0f} MB | {verdict} |"


class Spent(NamedTuple):
    """What some work took: by the clock, and of all threads' processor time."""

    wall_ms: float
    processor_ms: float


def spent(work: Callable[[], object], processor: Callable[[], float] = time.process_time) -> Spent:
    """`processor` tells how many seconds whoever works has been busy so far."""
    began, before = time.perf_counter(), processor()
    work()
    return Spent((time.perf_counter() - began) * 1000, (processor() - before) * 1000)


def busy(process: int) -> float:
    """Seconds that another process has been busy."""
    user, system = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def line(name: str, against: str, most: float, own: list[Spent], other: list[Spent]) -> Line:
    limit = statistics.median(one.wall_ms for one in other)
    return Line(
        name=name,
        against=against,
        limit_ms=limit,
        ratio=statistics.median(one.wall_ms for one in own) / limit,
        least=min(one.wall_ms for one in own) / min(one.wall_ms for one in other),
        most=most,
        processor=statistics.median(one.processor_ms for one in own) / statistics.median(one.processor_ms for one in other),
    )


class Bench:
    """The lines, over a scratch folder."""

    def __init__(self, folder: Path, rows: int, rounds: int) -> None:
        self.folder, self.rows, self.rounds, self.made = folder, rows, rounds, 0
        self.frame = mixed(np.arange(rows), 1)
        self.schema = columns()

    def table(self, *, key: bool = True, **options: str) -> lk.Table:
        self.made += 1
        given = {name.replace("_", "-"): value for name, value in options.items()} | ({} if key else {"bucket": "-1"})
        return lk.create(self.folder / f"t{self.made}", self.schema, primary_keys=["id"] if key else (), options=given)

    def parquet(self, frame: pl.DataFrame) -> None:
        self.made += 1
        frame.write_parquet(self.folder / f"limit-{self.made}.parquet", compression="zstd", compression_level=1)

    def part(self, count: int, seed: int) -> pl.DataFrame:
        return mixed(np.random.default_rng(seed).choice(self.rows, count, replace=False), seed)

    def turns(
        self,
        name: str,
        against: str,
        most: float,
        own: Callable[[int], object],
        other: Callable[[int], object],
        *,
        processor: Callable[[], float] = time.process_time,
        rounds: int | None = None,
    ) -> Line:
        """`processor` is the clock of whoever does the other; `rounds`: more of them than of other lines."""
        times = [(spent(lambda: own(turn)), spent(lambda: other(turn), processor)) for turn in range(rounds or self.rounds)]  # noqa: B023 - called at once
        return line(name, against, most, [one for one, _ in times], [two for _, two in times])

    def append(self) -> Line:
        table = self.table(key=False)
        found = self.turns("append", "Polars writes one Parquet file", 1.25, lambda _: table.append(self.frame), lambda _: self.parquet(self.frame))
        assert counted(table) == self.rows * self.rounds
        return found

    def upsert(self) -> Line:
        table, parts = self.table(bucket="4"), [self.part(self.rows // 5, seed) for seed in range(self.rounds)]
        table.upsert(self.frame)
        most = 2.5 * 1.25
        found = self.turns(
            "upsert of a fifth into 4 buckets", "Polars writes those rows", most, lambda turn: table.upsert(parts[turn]), lambda turn: self.parquet(parts[turn])
        )
        assert counted(table) == self.rows
        return found

    def runs(self, options: dict[str, str]) -> lk.Table:
        """A bucket of five runs that overlap."""
        table = self.table(bucket="1", write_only="true", **options)
        for seed in range(5):
            table.upsert(self.part(self.rows // 5, seed))
        return table

    def compaction(self) -> Line:
        tables = []
        for _ in range(self.rounds):
            table = self.runs({})
            tables.append((table, table.files()["file_path"].to_list(), counted(table)))
        found = self.turns(
            "full compaction of 5 runs",
            "Polars decodes and encodes their bytes",
            2.5,
            lambda turn: tables[turn][0].compact(full=True),
            lambda turn: self.parquet(pl.scan_parquet(tables[turn][1]).collect()),
        )
        assert all(counted(table) == count for table, _, count in tables)
        return found

    def reference(self) -> list[Line]:
        """The same compaction by the reference engine, which has compacted such tables before; nothing where it cannot run."""
        if missing() is not None:
            print(f"full compaction by the reference: {missing()}")
            return []
        (self.folder / "judge").mkdir()
        engine = Judge(self.folder / "judge", ("-Xmx4g",))
        try:
            ours = [self.runs({}) for _ in range(self.rounds)]
            theirs = [str(shutil.copytree(table.location, f"{table.location}-reference")) for table in ours]
            for turn in range(WARM_UP):
                engine.compact(shutil.copytree(theirs[0], self.folder / f"warm-{turn}"), full=True)
            found = self.turns(
                "full compaction of 5 runs",
                "the reference, warm",
                0.33,
                lambda turn: ours[turn].compact(full=True),
                lambda turn: engine.compact(theirs[turn], full=True),
                processor=lambda: busy(engine.process),
            )
            assert [counted(table) for table in ours] == [counted(lk.open(path)) for path in theirs]
        finally:
            engine.close()
        return [found]

    def memory(self) -> list[Peak]:
        """Peaks of processes that write a hundred keys for each row of the other lines, and twenty rows."""
        keys, rows = 100 * self.rows, 20 * self.rows
        steps = (
            ("keys", keys, f"dynamic buckets for {keys:,} new keys of one partition"),
            ("upsert", keys, f"upsert of 1,000,000 rows into dynamic buckets of {keys:,} keys"),
            ("compaction", rows, f"full compaction of {rows:,} rows in one bucket"),
        )
        write_memory.measured("runs", self.folder, rows)
        return [Peak(name=name, peak_mb=write_memory.measured(step, self.folder, count), most_mb=1024) for step, count, name in steps]

    def vectors(self) -> Line:
        """Five upserts are a turn: without vectors a table compacts when five files lie in level 0, and puts off the same work until then.

        Nine turns at least: how much falls due in one is different from turn to turn.
        """
        found: dict[str, lk.Table] = {}
        rounds = max(9, self.rounds)

        def five(enabled: str, turn: int) -> None:
            for part in parts[5 * turn : 5 * turn + 5]:
                found[enabled].upsert(part)

        for enabled in ("true", "false"):
            table = self.table(bucket="4", **{"deletion_vectors.enabled": enabled})
            table.upsert(self.frame)
            table.compact(full=True)
            found[enabled] = table
        parts = [self.part(self.rows // 100, seed) for seed in range(5 * rounds)]
        name = "5 upserts of 1 % each with lookup vectors"
        return self.turns(name, "the same without", 1.5, partial(five, "true"), partial(five, "false"), rounds=rounds)

    def dynamic(self) -> Line:
        """Beside an index of five times as many keys; half of those upserted are in it."""
        kept = {bucket: self.table(bucket=bucket, write_only="true") for bucket in ("1", "-1")}
        for start in range(0, 5 * self.rows, self.rows):
            for table in kept.values():
                table.upsert(mixed(np.arange(start, start + self.rows), start))
        parts = [mixed(np.arange(self.rows) + self.rows * (9 + turn) // 2, turn) for turn in range(self.rounds)]
        return self.turns(
            "upsert into dynamic buckets of 5 times as many keys",
            "into one fixed bucket",
            3,
            lambda turn: kept["-1"].upsert(parts[turn]),
            lambda turn: kept["1"].upsert(parts[turn]),
        )

    def commits(self) -> list[Line]:
        """A young table and an old one take turns of five: how busy the disk is changes within a minute. Plain Python writes again what each of them wrote."""
        tables, row = [self.table(bucket="1", write_only="true") for _ in range(2)], self.frame.head(1)
        for table, count in zip(tables, (100, 2_000 if self.rows >= 1_000_000 else 400), strict=True):
            for _ in range(count):
                table.upsert(row)
        names = [f"small commit at {table.snapshots().height:,}" for table in tables]
        found: list[tuple[list[Spent], list[Spent]]] = [([], []) for _ in tables]
        for turn in range(4 * self.rounds):
            for table, (own, plain) in zip(tables, found, strict=True):
                before = set(Path(table.location).rglob("*"))
                own += [spent(lambda: table.upsert(row)) for _ in range(5)]  # noqa: B023 - called at once
                new = sorted(set(Path(table.location).rglob("*")) - before, key=lambda path: path.stat().st_mtime_ns)
                again = Path(f"{table.location}-plain")
                files = [(again / path.relative_to(table.location), path.read_bytes()) for path in new]
                hint = again / "snapshot" / "LATEST", (Path(table.location) / "snapshot" / "LATEST").read_bytes()
                for path, _ in files if turn == 0 else ():
                    path.parent.mkdir(parents=True, exist_ok=True)
                plain += [spent(lambda: written(files[at::5], *hint)) for at in range(5)]  # noqa: B023
        plainly = "its files written, synced and linked by plain Python"
        young, old = (own for own, _ in found)
        return [*(line(name, plainly, 2.5, *each) for name, each in zip(names, found, strict=True)), line(names[1], "at 100", 1.3, old, young)]


def written(files: list[tuple[Path, bytes]], hint: Path, advice: bytes) -> None:
    """Each file as a durable claim needs it: written, synced, linked to its name, its directory synced. The hint, which may be lost, is only put in place."""
    for path, data in files:
        temporary = path.with_name(f".{path.name}")
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
        temporary.unlink()
        handle = os.open(path.parent, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
    temporary = hint.with_name(".hint")
    temporary.write_bytes(advice)
    temporary.replace(hint)


def counted(table: lk.Table) -> int:
    return int(table.scan().select(pl.len()).collect().item())


def main() -> None:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=(), help="lines to measure, as the methods of Bench are called; writes no table")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    lines: list[Line | Peak] = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), asked.rows, asked.rounds)
        every = (bench.append, bench.upsert, bench.compaction, bench.reference, bench.vectors, bench.dynamic, bench.commits, bench.memory)
        for measure in [one for one in every if not asked.only or one.__name__ in asked.only]:
            made = measure()
            for line in made if isinstance(made, list) else [made]:
                lines.append(line)
                print(line, flush=True)
    text = HEAD.format(
        day=datetime.now(UTC).date(),
        cores=os.cpu_count(),
        python=platform.python_version(),
        polars=pl.__version__,
        lakekit=lk.__version__,
        rows=f"{asked.rows:,}",
        rounds=asked.rounds,
    )
    out = asked.out or (Path(__file__).with_name("WRITES.md") if asked.rows >= 1_000_000 and not asked.only else None)
    if out is not None:
        out.write_text(text + "\n".join(map(str, lines)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
