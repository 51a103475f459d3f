"""A run: tables are written, systems take turns at each line, results are checked and judged."""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from spec_tests.bench import environment, rows as data, systems, tables
from spec_tests.bench.turns import SYSTEMS, Measured, Process, Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from spec_tests.bench.lines import Line

RIVALS = ("rival", "rival sql")
WARMTH: tuple[str, dict[str, Any]] = ("plan", {"table": "ten_files", "where": [("id", ">=", 0)]})
READ_WARMTH: tuple[str, dict[str, Any]] = ("read", {"table": "ten_files"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A line and what came of it. `value` is what is judged where no ratio to limit or rival is."""

    line: Line
    measured: dict[str, Measured] = field(default_factory=dict)
    value: float | None = None
    note: str = ""
    left_out: str = ""

    def ratio(self, other: str, *, least: bool = False) -> float | None:
        """lakekit's time over another's."""
        one, two = self.measured.get("lakekit"), self.best(other)
        if one is None or two is None or one.error or two.error or not one.seconds or not two.seconds:
            return None
        return one.least_s / two.least_s if least else one.median_s / two.median_s

    def processor_ratio(self, other: str) -> float | None:
        """lakekit's least processor time over another's: what a busy machine changes least."""
        one, two = self.measured.get("lakekit"), self.best(other)
        if one is None or two is None or one.error or two.error or not one.cpu_s or not two.cpu_s:
            return None
        return one.least_cpu_s / two.least_cpu_s

    def best(self, other: str) -> Measured | None:
        """The limit, or the faster of the rival's interfaces."""
        if other == "limit":
            return self.measured.get("limit")
        able = [one for name in RIVALS if (one := self.measured.get(name)) is not None and one.seconds and one.error is None]
        return min(able, key=lambda one: one.median_s) if able else None

    def wrong(self) -> dict[str, str]:
        """What went wrong, by system."""
        return {name: one.error for name, one in self.measured.items() if one.error}

    def verdict(self, *, least: bool = False) -> str:
        """pass, MISS, or why there is none. With `least` the best rounds of each are compared in place of the medians."""
        if self.left_out:
            return "left out"
        one = self.measured.get("lakekit")
        if one is not None and one.error:
            return "MISS"
        held = []
        if self.line.most is not None:
            held.append(self.value is not None and self.value <= self.line.most)
        for other, most in (("limit", self.line.limit), ("rival", self.line.rival)):
            if most is not None and (other == "limit" or self.best(other) is not None):
                ratio = self.ratio(other, least=least)
                held.append(ratio is not None and ratio <= most)
        return "pass" if all(held) else "MISS"


class Bench:
    """A warehouse, its tables, and the systems over them. `say` is told what is done."""

    def __init__(self, home: Path, rows: int, *, rounds: int = 7, say: Callable[[str], None] = print) -> None:
        self.home, self.rows, self.say = home, rows, say
        self.warehouse = home / f"rows-{rows}"
        self.warehouse.mkdir(parents=True, exist_ok=True)
        self.turns = Turns(str(self.warehouse), rounds)

    def close(self) -> None:
        self.turns.close()

    # ---- tables

    def make(self, name: str) -> None:
        """The table, written by the rival, unless an earlier run left it; one that such a run left half made is thrown away.

        Raises `RuntimeError` where that fails.
        """
        table, mark = tables.ALL[name], self.warehouse / f"{name}.expected.parquet"
        if mark.exists():
            return
        if (left := systems.table_path(str(self.warehouse), name)).exists():
            shutil.rmtree(left)
        started = time.perf_counter()
        writer = Process("rival", str(self.warehouse))
        try:
            self._done(writer.ask("create", table=name, rows=self.rows, commit=0))
            for commit in range(table.commits):
                self._done(writer.ask("write", table=name, rows=self.rows, commit=commit))
                if commit in table.after:
                    self._by_reference(name, table.after[commit])
        finally:
            writer.close()
        if table.after:
            self._remember_live(name)
        expected = pl.DataFrame() if name == "huge" else table.expected(self.rows)
        unfinished = mark.with_suffix(".unfinished")
        expected.write_parquet(unfinished)
        unfinished.rename(mark)  # the last step: with it the table counts as made
        self.say(f"{name}: {table.row_count(self.rows):,} rows in {table.commits} commits, {time.perf_counter() - started:.1f} s")

    @staticmethod
    def _done(answer: dict[str, Any]) -> None:
        if "error" in answer:
            raise RuntimeError(f"{answer['error']}\n{answer.get('trace', '')}")

    def _by_reference(self, name: str, what: str) -> None:
        if what != "delete":
            environment.reference("compact", str(self.warehouse), systems.DATABASE, name, what)
            return
        files = sorted(systems.table_path(str(self.warehouse), name).glob("**/bucket-*/data-*.parquet"))
        found = [pl.scan_parquet(path).with_row_index("at").filter(tables.DELETED).select(pl.lit(path.name), "at").collect() for path in files]
        with tempfile.NamedTemporaryFile("w", suffix=".tsv") as lines:
            pl.concat(found).write_csv(lines.name, separator="\t", include_header=False)
            environment.reference("delete", str(self.warehouse), systems.DATABASE, name, lines.name)

    def _remember_live(self, name: str) -> None:
        """Compactions leave dead files; the limit reads the live ones."""
        path = systems.table_path(str(self.warehouse), name)
        live = environment.reference("files", str(self.warehouse), systems.DATABASE, name)
        (path / "live-files.json").write_text(json.dumps(live))

    def expected(self, line: Line) -> list[int]:
        """The checksum that a right answer has."""
        arguments = line.arguments(self.rows)
        frame = pl.read_parquet(self.warehouse / f"{line.table}.expected.parquet")
        wanted = systems.condition(arguments.get("where", ()))
        frame = frame if wanted is None else frame.filter(wanted)
        if line.op != "read":
            return [frame.height, 0]
        return data.checksum(frame.select(arguments["columns"]) if "columns" in arguments else frame)

    # ---- lines

    def run(self, line: Line) -> Result:
        """One line, measured and checked."""
        if line.needs_reference and not environment.has_reference():
            return Result(line=line, left_out="its table needs the reference engine: Java 17 and Maven")
        for name in {line.table, "ten_files", *([f"{line.table}_few"] if line.how == "slope" else [])}:
            self.make(name)
        result = getattr(self, f"_{line.how}")(line)
        self.say(f"{line.name:<58} {self.told(result)}")
        return result

    def told(self, result: Result) -> str:
        """One line about a result."""
        parts = [f"{name} {one.median_s * 1e3:.1f} ms" if one.seconds else f"{name}: {one.error}" for name, one in result.measured.items()]
        ratios = [f"× {other} {ratio:.2f}" for other in ("limit", "rival") if (ratio := result.ratio(other)) is not None]
        least = [f"{ratio:.2f}" for other in ("limit", "rival") if (ratio := result.ratio(other, least=True)) is not None]
        value = [] if result.value is None else [f"{result.value:.2f}"]
        return " · ".join([*parts, *ratios, f"least {' '.join(least)}", *value, result.note, result.verdict()])

    def checked(self, line: Line, measured: dict[str, Measured], expected: list[int]) -> None:
        """A wrong answer is no measurement."""
        for name, one in measured.items():
            if name == "limit" and (tables.ALL[line.table].keyed or line.needs_reference):
                continue  # it decodes all versions
            if one.error is None and one.checksum is not None and one.checksum != expected:
                one.error = f"WRONG: {one.checksum}, expected {expected}"

    def _turns(self, line: Line) -> Result:
        asked = [name for name in SYSTEMS if line.rival is not None or name not in RIVALS]
        measured = self.turns.measure(asked, line.op, **line.arguments(self.rows))
        self.checked(line, measured, self.expected(line))
        return Result(line=line, measured=measured)

    def _cold(self, line: Line) -> Result:
        measured = self.turns.fresh(("lakekit", "rival"), WARMTH, line.op, max(3, self.turns.rounds), **line.arguments(self.rows))
        expected = self.expected(line)
        return self._planned(line, measured, expected[0])

    def _warm(self, line: Line) -> Result:
        measured = self.turns.measure(("lakekit", "rival"), line.op, **line.arguments(self.rows))
        return self._planned(line, measured, self.expected(line)[0])

    def _again(self, line: Line) -> Result:
        """Each round a new snapshot with a file in every partition, then each system plans; it may remember what it knew before."""
        writer = Process("rival", str(self.warehouse))

        def commit() -> None:
            self._done(writer.ask("write", table=line.table, rows=self.rows, commit=0))

        measured = self.turns.measure(("lakekit", "rival"), line.op, before=commit, **line.arguments(self.rows))
        writer.close()
        return self._planned(line, measured, self.expected(line)[0])

    def _planned(self, line: Line, measured: dict[str, Measured], expected: int) -> Result:
        """Plans of a table that earlier runs may have added whole commits to."""
        share = tables.PARTITIONS if line.where is not None else 1
        each = tables.ALL[line.table].row_count(self.rows) // tables.ALL[line.table].commits // share
        for one in measured.values():
            if one.error is None and one.checksum is not None and (one.checksum[0] < expected or (one.checksum[0] - expected) % each):
                one.error = f"WRONG: {one.checksum[0]} rows, expected {expected}"
        return Result(line=line, measured=measured)

    def _memory(self, line: Line) -> Result:
        """Whole processes are compared; what the call alone added is said beside it."""
        measured = self.turns.fresh(("limit", "lakekit", "rival"), READ_WARMTH, line.op, 3, **line.arguments(self.rows))
        self.checked(line, measured, self.expected(line))
        mine, limit = measured["lakekit"], measured["limit"]
        if mine.error or limit.error:
            return Result(line=line, measured=measured)
        peaks = [statistics.median(one.peaks_mb) for one in (mine, limit, measured["rival"])]
        added = [statistics.median(one.peaks_mb) - statistics.median(one.before_mb) for one in (mine, limit)]
        note = f"{peaks[0]:.0f} MB, limit {peaks[1]:.0f} MB, rival {peaks[2]:.0f} MB; the read alone {added[0]:.0f} and {added[1]:.0f} MB"
        return Result(line=line, measured=measured, value=peaks[0] / peaks[1], note=note)

    def _sink(self, line: Line) -> Result:
        to = self.warehouse / "sunk.parquet"
        process = Process("lakekit", str(self.warehouse))
        process.ask(READ_WARMTH[0], **READ_WARMTH[1])
        one = Measured(system="lakekit")
        one.add(process.ask(line.op, table=line.table, to=str(to)))
        process.close()
        if one.error:
            return Result(line=line, measured={"lakekit": one})
        rows, total = self._newest_of_huge(line.table)
        sunk = pl.scan_parquet(to).select(pl.len(), pl.col("qty").sum()).collect().row(0)
        to.unlink()
        if sunk != (rows, total):
            one.error = f"WRONG: {sunk}, expected {(rows, total)}"
        return Result(line=line, measured={"lakekit": one}, value=one.peaks_mb[0], note=f"{rows:,} rows in {one.seconds[0]:.1f} s")

    def _newest_of_huge(self, name: str) -> tuple[int, int]:
        """Rows and the sum of one column after the merge, from the ids alone: `qty` is drawn second for each commit."""
        table = tables.ALL[name]
        frames = [table.frame(self.rows, commit).select("id", "qty") for commit in range(table.commits)]
        newest = pl.concat(frames).unique("id", keep="last", maintain_order=True)
        return newest.height, int(newest["qty"].sum())

    def _slope(self, line: Line) -> Result:
        """Processor time of the whole read less that of decoding, over the rows that the big table has more."""
        asked = ("limit", "lakekit")
        many = self.turns.measure(asked, line.op, **line.arguments(self.rows))
        few = self.turns.measure(asked, line.op, **(line.arguments(self.rows) | {"table": f"{line.table}_few"}))
        self.checked(line, many, self.expected(line))
        if many["lakekit"].error or few["lakekit"].error:
            return Result(line=line, measured=many)
        more = tables.ALL[line.table].row_count(self.rows) - tables.FEW
        mine, limit = (min(many[name].cpu_s) - min(few[name].cpu_s) for name in ("lakekit", "limit"))
        note = f"the whole read {mine / more * 1e9:.0f} ns, decoding {limit / more * 1e9:.0f} ns"
        return Result(line=line, measured=many, value=(mine - limit) / more * 1e9, note=note)


def run(bench: Bench, lines: Sequence[Line]) -> list[Result]:
    """All lines; one that breaks is said and does not end the run."""
    found = []
    for line in lines:
        try:
            found.append(bench.run(line))
        except (RuntimeError, OSError, pl.exceptions.PolarsError) as wrong:
            bench.say(f"{line.name}: {wrong}")
            found.append(Result(line=line, left_out=str(wrong).splitlines()[0][:200]))
    return found
