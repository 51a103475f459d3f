"""Verbs of the command line that test implementations of the format, and that measure reads.

    lakekit conformance                                      lakekit itself, against golden files and tables
    lakekit conformance --reader mypackage.paimon:read       a Python function that reads tables
    lakekit conformance --reader-command 'myreader {path} {options}'
                                                             any program that prints rows as JSON lines
    lakekit conformance --writer mypackage.paimon:write      a function that follows scripts of steps
    lakekit conformance --writer-command 'mywriter {path} {script}'
                                                             any program that does
        --area tables/vectors    --drawn 100 --seed 7    --timeout 60    --all    --list
    lakekit bench PATH [--turns 5]                           the time of reads, against plain Polars over the same files
    lakekit bench --size 1000000                             the same of tables that are made for it

`lakekit.testing.adapters` and `lakekit.testing.scripts` describe the input and output. A terminal shows what failed and
a count of each area, a pipe gets every case. The exit code is 1 where something failed; what an implementation says
that it does not support is no failure.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import lakekit
from lakekit import plugins
from lakekit.errors import InvalidOption
from lakekit.model.table_paths import allowed_locations_option

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from lakekit.cli.output import Output
    from lakekit.testing.adapters import ReaderAdapter, WriterAdapter
    from lakekit.testing.conformance import ConformanceResult, Outcome

_PROBLEM_EXIT_CODE = 1


def add_verbs(
    verbs: Any,
    store_parent: argparse.ArgumentParser,
    output_parent: argparse.ArgumentParser,
    positive: Callable[[str], int],
) -> None:
    """Add the verbs to the parser."""
    verb = verbs.add_parser(
        "conformance",
        parents=[output_parent],
        help="a reader or writer of Paimon tables against golden files, tables and an oracle",
    )
    verb.add_argument("--reader", metavar="MODULE:FUNCTION", help="read(path, options) gives Arrow, Polars or dicts")
    verb.add_argument(
        "--reader-command",
        metavar="COMMAND",
        help="a program: {path} {options} {output}; prints a line of JSON for each row",
    )
    verb.add_argument("--writer", metavar="MODULE:FUNCTION", help="write(path, script) makes the table of a script")
    verb.add_argument(
        "--writer-command", metavar="COMMAND", help="a program: {path} {script}, where {script} is a file of JSON"
    )
    verb.add_argument(
        "--area",
        metavar="AREA",
        action="append",
        default=[],
        help="only this area, such as tables or formats/manifest; may be said again",
    )
    verb.add_argument(
        "--drawn",
        metavar="N",
        type=positive,
        default=0,
        help="draw so many tables for each engine; a failing one is shrunk",
    )
    verb.add_argument("--seed", metavar="SEED", type=int, default=0, help="which tables are drawn")
    verb.add_argument(
        "--timeout", metavar="SECONDS", type=float, default=60.0, help="how long a program may take for a case"
    )
    verb.add_argument("--all", action="store_true", help="show what passed too; to a pipe it always is")
    verb.add_argument("--list", action="store_true", help="only tell the areas and how many cases they have")
    verb.set_defaults(run=conformance)
    verb = verbs.add_parser(
        "bench",
        parents=[store_parent, output_parent],
        help="what reading a table costs, against plain Polars over the same files",
    )
    verb.add_argument("path", metavar="PATH", nargs="?", help="the folder of a table")
    verb.add_argument(
        "--size",
        metavar="ROWS",
        type=positive,
        help="instead of a table of yours: make one of so many rows, with keys and without",
    )
    verb.add_argument(
        "--turns", metavar="N", type=positive, default=5, help="how often each line is measured; the median is shown"
    )
    verb.set_defaults(run=bench)


def conformance(args: argparse.Namespace, out: Output) -> int:
    """Run `lakekit conformance`: print the outcomes; return the exit code, which says whether one failed."""
    # what checks the golden files takes long to load, and no other verb needs it
    suite: Any = plugins.load("testing", "conformance")
    reader, writer = _load_adapters(args)
    if args.list:
        counted = Counter(
            case.area
            for case in suite.list_cases(
                reader=reader, writer=writer, areas=args.area, drawn=args.drawn, seed=args.seed
            )
        )
        out.print_rows(("area", "cases"), sorted(counted.items()))
        return 0
    show = _Progress()
    result = suite.run(
        reader=reader, writer=writer, areas=args.area, drawn=args.drawn, seed=args.seed, report=show.report
    )
    show.end()
    _print_result(out, result, show_all=args.all)
    return 0 if result.ok else _PROBLEM_EXIT_CODE


def bench(args: argparse.Namespace, out: Output) -> None:
    """Run `lakekit bench PATH | --size ROWS`: print a line for each measurement."""
    measured: Any = plugins.load("testing", "bench")
    if (args.path is None) == (args.size is None):
        raise InvalidOption(
            "bench takes the path of a table, or --size for one that is made: one of the two",
            key="PATH",
            value=str(args.path),
        )
    if args.path is not None:
        lines = measured.bench(
            lakekit.open(
                args.path, options=allowed_locations_option(args.allow), storage_options=dict(args.storage) or None
            ),
            turns=args.turns,
        )
    else:
        lines = measured.bench_of_size(args.size, turns=args.turns)
    out.print_rows(measured.LINE_COLUMNS, [line.row() for line in lines])


def _load_adapters(args: argparse.Namespace) -> tuple[ReaderAdapter | None, WriterAdapter | None]:
    plugged: Any = plugins.load("testing", "adapters")
    for option, other in (("reader", "reader_command"), ("writer", "writer_command")):
        if getattr(args, option) and getattr(args, other):
            flag = f"--{other.replace('_', '-')}"
            raise InvalidOption(
                f"--{option} and {flag} are two ways to say the same: give one", key=flag, value=getattr(args, other)
            )
    reader = plugged.reader_of(args.reader) if args.reader else None
    writer = plugged.writer_of(args.writer) if args.writer else None
    if args.reader_command:
        reader = plugged.reader_command(args.reader_command, timeout_s=args.timeout)
    if args.writer_command:
        writer = plugged.writer_command(args.writer_command, timeout_s=args.timeout)
    return reader, writer


def _print_result(out: Output, result: ConformanceResult, *, show_all: bool) -> None:
    if out.format != "table":
        out.print_frame(result.frame())
        return
    frame = result.frame() if show_all else result.frame("failed", "unsupported")
    if out.limit is None and show_all:
        out.limit = max(1, frame.height)
    if frame.height:
        out.print_frame(frame)
        out.print_text("")
    out.print_frame(result.counts())
    out.print_text(result.line)


class _Progress:
    """A counter of cases, on a terminal's stderr."""

    def __init__(self) -> None:
        self.count = self.failed = 0
        self.is_seen = sys.stderr.isatty()

    def report(self, outcome: Outcome) -> None:
        self.count += 1
        self.failed += outcome.outcome == "failed"
        if self.is_seen:
            sys.stderr.write(f"\r{self.count} cases, {self.failed} failed: {outcome.area:<40.40}")

    def end(self) -> None:
        if self.is_seen:
            sys.stderr.write(f"\r{'':<80}\r")
