"""What care costs: `python -m spec_tests.bench.care [--files N] [--rounds N] [--out FILE]` measures it and writes a table of ratios.

Each line pits lakekit against a limit in the same process, turn by turn, and tells the ratio of medians; in brackets that of the best rounds, and that of
processor times. The limit is plain Python doing the least: unlinking the very files that an expiry removed, in a second copy of the table; a walk by
`os.scandir` that looks how old each file is; for lookups and sums the same table without its file indexes (`indexed`). What can be counted is counted.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import tempfile
import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

import lakekit as lk
from lakekit.data_file import paths
from lakekit.maintenance import orphan_files
from lakekit.read import stream as following
from lakekit.runtime import Runtime
from spec_tests.bench import indexed
from spec_tests.bench.writes import Line, Spent, line, spent

if TYPE_CHECKING:
    from lakekit import CommitMessage
    from lakekit.metadata.table_context import TableContext

BUCKETS = 10
"""Files that each commit of the table that expires replaces."""
FILES = 10_000
"""Files of the table that expires; the one of orphans has ten times as many."""
HEAD = """\
# What care costs

{day}; {cores} cores; Python {python}; Polars {polars}, lakekit {lakekit}. {rounds} rounds, of lookups and sums {lookups}.

Written by `python -m spec_tests.bench.care`: lakekit and its limit take turns in one process, and only ratios inside the run mean anything. Ratios are of
medians; in brackets those of the best rounds, and of processor time.

| workload | limit | | lakekit × limit | at most | |
|---|---|---:|---:|---:|---|
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """What was counted, and how much at most."""

    name: str
    against: str
    found: int
    most: int

    def __str__(self) -> str:
        verdict = "pass" if self.found <= self.most else "**MISS**"
        return f"| {self.name} | {self.against} | | {self.found} | {self.most} | {verdict} |"


class Bench:
    """The lines, over a scratch folder: a table of `files` files, and one of ten times as many."""

    def __init__(self, folder: Path, files: int, rounds: int) -> None:
        self.folder, self.files, self.rounds = folder, files, rounds
        self.schema = pl.Schema({"part": pl.Int32(), "k": pl.Int64(), "v": pl.Float64()})

    def table(self, name: str, **options: str) -> lk.Table:
        given = {key.replace("_", "-"): value for key, value in options.items()} | {"write-only": "true"}
        return lk.create(self.folder / name, self.schema, partition_keys=["part"], options=given)

    def rewritten(self, name: str) -> lk.Table:
        """A table of so many files whose every partition, a tenth as many, was overwritten once by a commit of its own."""
        table = self.table(name, bucket=str(BUCKETS), bucket_key="k")
        parts = self.files // BUCKETS
        rows = pl.DataFrame({"part": range(parts)}, schema={"part": pl.Int32()}).join(pl.DataFrame({"k": range(8 * BUCKETS)}), how="cross")
        rows = rows.with_columns(v=pl.col("k") / 3)
        table.append(rows)
        for part, frame in rows.partition_by("part", as_dict=True).items():
            table.overwrite(frame, partition={"part": part[0]})
        return table

    def expiry(self) -> list[Line]:
        """Each round on copies of one table, so that both remove files that were made the same way, and that are on the disk as those of an old table are."""
        made = self.rewritten("rewritten")
        own, plain = [], []
        for turn in range(self.rounds):
            table = lk.open(str(shutil.copytree(made.location, self.folder / f"expires-{turn}")))
            other = Path(shutil.copytree(made.location, self.folder / f"limit-{turn}"))
            before = {path.relative_to(table.location) for path in Path(table.location).rglob("*")}
            os.sync()  # or who goes first waits for what copying left to write
            own.append(spent(lambda: table.expire_snapshots(retain_max=1, retain_min=1, max_deletes=2 * self.files)))  # noqa: B023 - called at once
            gone = [str(other / path) for path in before - {path.relative_to(table.location) for path in Path(table.location).rglob("*")}]
            os.sync()
            plain.append(spent(lambda: unlinked(gone)))  # noqa: B023 - called at once
            assert table.snapshots().height == 1
            assert table.scan().select(pl.len()).collect().item() == 8 * self.files
            for path in (table.location, other):
                shutil.rmtree(path)
        expired = self.files // BUCKETS
        return [line(f"expire {expired:,} snapshots of a table of {self.files:,} files", f"plain Python deletes the {len(gone):,} files", 3, own, plain)]

    def orphans(self) -> list[Line]:
        """Of a table whose files are a byte each, for nobody reads them; one in a hundred is an orphan."""
        table, count = self.table("orphans", bucket="-1"), 10 * self.files
        strewn = self.strewn(table, count, parts=100)
        own: list[Spent] = []
        limit: list[Spent] = []
        for _ in range(self.rounds):
            found: list[pl.DataFrame] = []
            handle = replace(table._context(), runtime=Runtime())
            own.append(spent(lambda: found.append(dry(handle))))  # noqa: B023 - called at once
            limit.append(spent(lambda: walked(table.location)))
            assert found[0].height == strewn, found
        return [line(f"orphans among {count:,} files", "a walk by os.scandir that looks how old each file is", 2, own, limit)]

    def strewn(self, table: lk.Table, count: int, parts: int) -> int:
        """Fills a table with so many files in ten commits, each into a tenth of the partitions; one file in a hundred is named by none."""
        handle, left = table._context(), 0
        named: list[CommitMessage] = []
        with table.writer() as writer:
            writer.write(pl.DataFrame({"part": range(parts)}, schema={"part": pl.Int32()}).with_columns(k=pl.lit(0, pl.Int64()), v=pl.lit(0.0)))
            for number, message in enumerate(writer.prepare(), 1):
                folder, (file,) = Path(handle.paths.bucket_dir(paths.partition_path(handle, message.partition), 0)), message.new_files
                names = [file.name, *(f"data-{uuid.uuid4()}-0.parquet" for _ in range(count // parts - 1))]
                for name in names[1:]:
                    (folder / name).write_bytes(b".")
                kept = [name for at, name in enumerate(names) if at % 100 != 99]
                named.append(replace(message, new_files=tuple(replace(file, name=name) for name in kept)))
                left += len(names) - len(kept)
                if not number * 10 % parts:
                    table.commit(named, commit_user="bench", identifier=number)
                    named = []
        return left

    def follower(self) -> list[Count]:
        """What a stream waits for is a commit that falls into the wait: how often it waited before it tells of the commit."""
        table = self.table("followed", bucket="-1")
        row = pl.DataFrame({"part": [0], "k": [0], "v": [0.0]}, schema=self.schema)
        table.append(row)
        told, most = 0, 0
        waits: list[float] = []

        def wait(duration_ms: float) -> None:
            waits.append(duration_ms)
            if len(waits) == 1:
                table.append(row)

        handle = replace(table._context(), runtime=Runtime(wait_ms=wait))
        stream = following.follow_table(handle, start="latest", consumer=None, until=None, poll=None)
        for _ in range(100):
            waits.clear()
            assert next(stream).frame.collect().height == 1
            told, most = told + 1, max(most, len(waits))
        stream.close()
        return [Count(name=f"a follower sees each of {told} commits", against="polls until it does", found=most, most=1)]


def unlinked(paths: list[str]) -> None:
    for path in paths:
        os.unlink(path)  # noqa: PTH108 - the least that plain Python does


def dry(handle: TableContext) -> pl.DataFrame:
    return orphan_files.remove_orphans(handle, older_than=timedelta(0), dry_run=True, force=False)


def walked(directory: str) -> float:
    """How old the oldest file below a directory is."""
    oldest = 0.0
    with os.scandir(directory) as entries:
        for entry in entries:
            oldest = min(oldest, walked(entry.path) if entry.is_dir() else entry.stat().st_mtime)
    return oldest


def main() -> None:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--only", nargs="*", default=(), help="lines to measure, as the methods of Bench and the functions of indexed are called; writes no table"
    )
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    lines: list[Line | Count] = []
    with tempfile.TemporaryDirectory() as folder:
        lookups = max(asked.rounds, indexed.ROUNDS)
        bench = Bench(Path(folder), asked.files, asked.rounds)
        every = {one.__name__: one for one in (bench.expiry, bench.orphans, bench.follower)}
        every |= {one.__name__: partial(one, Path(folder), indexed.FILES, lookups) for one in indexed.WORKLOADS}
        for measure in [one for name, one in every.items() if not asked.only or name in asked.only]:
            for found in measure():
                lines.append(found)
                print(found, flush=True)
    text = HEAD.format(
        day=datetime.now(UTC).date(),
        cores=os.cpu_count(),
        python=platform.python_version(),
        polars=pl.__version__,
        lakekit=lk.__version__,
        rounds=asked.rounds,
        lookups=lookups,
    )
    out = asked.out or (Path(__file__).with_name("CARE.md") if asked.files >= FILES and not asked.only else None)
    if out is not None:
        out.write_text(text + "\n".join(map(str, lines)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
