"""The table of results as Markdown."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

from spec_tests.bench.environment import RIVAL_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spec_tests.bench.bench import Result

HEAD = """# What reading costs

{when}; {cores} cores; Python {python}; Polars {polars}, pyarrow {pyarrow}; pypaimon-rust {rival}. {rows:,} rows of ten columns, {rounds} rounds.

Written by `python -m spec_tests.bench`. Systems take turns in one run, each in a process of its own; only ratios inside the run mean anything. The limit is
Polars decoding the same data files on all cores, without manifests and without a merge. The rival is the faster of pypaimon-rust's two interfaces. Every
answer was checked by a checksum over all its rows. Ratios are of medians; in brackets those of the best rounds, which other work on the machine disturbs less.
A line passes when every bound holds by the medians. Processor time is that of the best round, of all threads; the rival's interfaces run on one core or on all.
[PROFILES.md](PROFILES.md) says where the time of each line goes.

| workload | | limit | lakekit × limit | at most | lakekit × rival | at most | rival × limit | processor time × limit; × rival | |
|---|---|---:|---:|---:|---:|---:|---:|---:|---|
"""
VALUES = """
| bound | | measured | at most | | |
|---|---|---:|---:|---|---|
"""


def text(results: Sequence[Result], *, rows: int, rounds: int) -> str:
    """The whole page."""
    head = HEAD.format(
        when=datetime.now(UTC).date(),
        cores=os.cpu_count(),
        python=platform.python_version(),
        polars=version("polars"),
        pyarrow=version("pyarrow"),
        rival=RIVAL_VERSION,
        rows=rows,
        rounds=rounds,
    )
    timed = [result for result in results if result.line.most is None]
    valued = [result for result in results if result.line.most is not None]
    found = head + "\n".join(_timed(result) for result in timed) + "\n"
    return found + (VALUES + "\n".join(_valued(result) for result in valued) + "\n" if valued else "")


def _timed(result: Result) -> str:
    line, limit, rival = result.line, result.measured.get("limit"), result.best("rival")
    base = f"{limit.median_s * 1e3:.1f} ms" if limit is not None and limit.seconds else ""
    beside = f"{rival.median_s / limit.median_s:.2f}" if base and rival is not None and limit is not None else ""
    if rival is not None and not base:
        base = f"rival {rival.median_s * 1e3:.1f} ms"
    bounds = ["–" if bound is None else f"{bound:g}" for bound in (line.limit, line.rival)]
    spent = ["–" if (ratio := result.processor_ratio(other)) is None else f"{ratio:.2f}" for other in ("limit", "rival")]
    ratios = [_ratio(result, "limit"), bounds[0], _ratio(result, "rival"), bounds[1]]
    cells = [line.group, line.what, base, *ratios, beside, "; ".join(spent), _verdict(result)]
    return f"| {' | '.join(cells)} |"


def _valued(result: Result) -> str:
    line = result.line
    value = "" if result.value is None else f"{result.value:.2f}" if line.most is not None and line.most < 10 else f"{result.value:.0f}"
    return f"| {line.group} | {line.what} | {value} | {line.most:g} | {result.note} | {_verdict(result)} |"


def _ratio(result: Result, other: str) -> str:
    middle, least = result.ratio(other), result.ratio(other, least=True)
    return "" if middle is None or least is None else f"{middle:.2f} ({least:.2f})"


def _verdict(result: Result) -> str:
    """The verdict, and what went wrong with any system."""
    wrong = [f"{name}: {error}" for name, error in result.wrong().items()]
    verdict = result.verdict()
    said = f"**{verdict}**" if verdict == "MISS" else verdict
    return "; ".join([said, *([result.left_out] if result.left_out else []), *wrong]).replace("|", "/").replace("\n", " ")
