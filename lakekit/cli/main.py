"""The shell: `lakekit VERB PATH [NOUN] …`. Each verb calls public methods and prints what they give.

    lakekit demo                                         a table of real flights: card, snapshots, levels, a query, what it need not read
    lakekit inspect PATH                                 schema, keys, snapshot, files per level, health
    lakekit inspect PATH snapshots | files | levels | …  the metadata as tables
    lakekit plan PATH --where "day = '2024-03-31'"       what a query would not have to read
    lakekit check PATH [--deep]                          whether everything is there, whole and as it is said to be
    lakekit browse PATH -o page.html                     snapshots, manifests and levels as one page to click
    lakekit hex FILE                                     every byte of a snapshot, manifest, index … with its field
    lakekit features [WORD]                              what lakekit does, and what it refuses
    lakekit conformance [--reader …] [--writer …]        another reader or writer against golden tables: see `cli_testing`
    lakekit bench PATH | --size ROWS                     what reading costs, against plain Polars over the same files
    lakekit compact | expire | tag | branch | rollback | orphans | analyze | rewrite-index PATH …      chores: see `cli_chores`
    lakekit clone | migrate | compact-database | repair WAREHOUSE …                                    the same of a catalog's tables

A person gets tables cut to the terminal, a pipe gets TSV with a header and full values; `--format` chooses. Errors go to stderr.
Exit codes: 0 fine, 1 a problem was found, 2 wrong usage, 3 no such table.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import os
import shutil
import sys
from datetime import date
from typing import TYPE_CHECKING, Any

import polars as pl

import lakekit
from lakekit.cli import conformance, maintenance
from lakekit.draw import cards, humanize, levels, manifests, timeline
from lakekit.draw.hexdump import LINES, text as bytes_drawn
from lakekit.errors import InvalidOption, LakekitError, TableNotFound
from lakekit.format import external_reader
from lakekit.inspection import html_page, levels as picture, manifest_tree, timeline as history
from lakekit.inspection.hexdump import hex as hex_of
from lakekit.inspection.summary import health, totals
from lakekit.maintenance.check.report import NAMES
from lakekit.model.locations import options_of
from lakekit.system_tables.itself import features, versions
from lakekit.table.open_create import open as open_table
from lakekit.testing.fixtures import fixtures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.table import Table

NOUNS = ("snapshots", "manifests", "files", "levels", "partitions", "buckets", "schemas", "tags", "branches", "consumers", "indexes", "options")
TIME_TRAVEL_NOUNS = ("manifests", "files", "levels", "partitions", "buckets", "indexes")
"""Nouns that can be asked of an older snapshot."""
FINE, PROBLEM, USAGE, NO_TABLE, INTERRUPTED = 0, 1, 2, 3, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. Never raises but for what is a bug in lakekit."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal of another encoding gets question marks, not a traceback
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.run is None:
        parser.print_help()
        return USAGE
    try:
        code: int = asked.run(asked, Output(asked)) or FINE
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except KeyboardInterrupt:
        return INTERRUPTED
    except TableNotFound as error:
        return _say(error, NO_TABLE)
    except InvalidOption as error:
        return _say(error, USAGE)
    except (LakekitError, pl.exceptions.PolarsError) as error:
        return _say(error, PROBLEM)
    except pl.exceptions.PanicException as error:  # of a damaged page, where Polars' own error is an error of the program
        external_reader.pass_interrupt(error)
        return _say(error, PROBLEM)
    return code


def _say(error: BaseException, code: int) -> int:
    print(f"lakekit: {humanize.escape_controls(str(error).splitlines()[0] if str(error) else type(error).__name__)}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lakekit", description="Apache Paimon tables, without a JVM.")
    parser.add_argument("--version", action="version", version=f"lakekit {lakekit.__version__}")
    parser.set_defaults(run=None)
    verbs = parser.add_subparsers(title="verbs", metavar="VERB")
    shape = argparse.ArgumentParser(add_help=False)
    shape.add_argument("--format", choices=("table", "tsv", "json", "csv"), help="table to a person, tsv to a pipe, unless chosen here")
    shape.add_argument("--limit", type=_parse_positive, help="rows of a table; 50 to a person, all to a pipe")
    shape.add_argument("--color", choices=("auto", "never"), default="auto", help="NO_COLOR is honoured too")
    store = argparse.ArgumentParser(add_help=False)
    told = "an option of an object store, such as s3.endpoint=http://localhost:9000; secrets are better set in the environment, as AWS_SECRET_ACCESS_KEY"
    store.add_argument("--storage", metavar="KEY=VALUE", type=_option, action="append", default=[], help=told)
    told = "a folder or URL outside its own folder that a table may use; a table's own word for it is not enough. May be given again"
    store.add_argument("--allow", metavar="LOCATION", action="append", default=[], help=told)
    place = argparse.ArgumentParser(add_help=False, parents=[store])
    place.add_argument("path", metavar="PATH", help="the folder of a table")
    place.add_argument("--at", help="a snapshot's number, a tag, or a time")
    place.add_argument("--branch", help="another branch than main")

    verb = verbs.add_parser("demo", parents=[shape], help="the main job on a table of real flights")
    verb.set_defaults(run=demo)
    verb = verbs.add_parser("inspect", parents=[place, shape], help="a table's card, or its metadata as a table")
    verb.add_argument("noun", metavar="NOUN", nargs="?", choices=NOUNS, help=", ".join(NOUNS))
    verb.set_defaults(run=inspect)
    verb = verbs.add_parser("plan", parents=[place, shape], help="what a query would not have to read")
    verb.add_argument("--where", help="a condition in SQL")
    verb.set_defaults(run=plan)
    verb = verbs.add_parser("check", parents=[store, shape], help="whether everything is there, whole and as it is said to be")
    verb.add_argument("path", metavar="PATH", help="the folder of a table")
    verb.add_argument("--branch", help="another branch than main")
    verb.add_argument("--deep", action="store_true", help="read the rows too")
    verb.set_defaults(run=check)
    verb = verbs.add_parser("browse", parents=[store, shape], help="a page to click: snapshots, manifests, levels")
    verb.add_argument("path", metavar="PATH", help="the folder of a table")
    verb.add_argument("--branch", help="another branch than main")
    verb.add_argument("-o", "--output", metavar="FILE", help="where the page goes; the table's name and .html unless given")
    verb.add_argument("--snapshots", type=_parse_positive, default=html_page.SNAPSHOTS, help="how many of the newest snapshots are in the page at most")
    verb.set_defaults(run=browse)
    verb = verbs.add_parser("hex", parents=[store, shape], help="every byte of a file with its field")
    verb.add_argument("path", metavar="PATH", help="a file of a table, or any file in one of its formats")
    verb.add_argument("--as", dest="what", help="the format, where name and bytes do not tell it, such as 'binary_row: ROW<id BIGINT>'")
    verb.add_argument("--offset", type=_parse_non_negative, default=0, help="the first byte to show")
    verb.add_argument("--open", type=_parse_non_negative, help="show the inflated bytes of the compressed block over this byte")
    verb.set_defaults(run=show_hex)
    maintenance.add(verbs, store, shape, _parse_positive)
    conformance.add(verbs, store, shape, _parse_positive)
    verb = verbs.add_parser("features", parents=[shape], help="what lakekit reads and writes, and what it refuses")
    verb.add_argument("word", metavar="WORD", nargs="?", help="only features whose name, area or state holds this word")
    verb.set_defaults(run=show_features)
    verb = verbs.add_parser("versions", parents=[shape], help="what lakekit runs on")
    verb.set_defaults(run=lambda _, out: out.frame(versions()))
    return parser


def _parse_non_negative(said: str) -> int:
    number = _number(said, 0)
    if number < 0:
        raise argparse.ArgumentTypeError("at least 0")
    return number


def _number(said: str, base: int = 10) -> int:
    try:
        return int(said, base)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a whole number, not {said[:40]!r}") from None


def _option(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError("a storage option is KEY=VALUE")
    return key, value


def _parse_positive(said: str) -> int:
    number = _number(said)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


# ---- what is printed ------------------------------------------------------------------------------------------------------------------------


class Output:
    """Where a command prints: a person's terminal or a pipe."""

    def __init__(self, asked: argparse.Namespace) -> None:
        person = sys.stdout.isatty()
        self.format = asked.format or ("table" if person else "tsv")
        self.width = shutil.get_terminal_size((cards.WIDTH, 24)).columns if person else cards.WIDTH
        self.limit = asked.limit
        self.bold = person and asked.color == "auto" and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def title(self, said: str) -> None:
        """A heading; to a person only."""
        if self.format == "table":
            print(f"\n\x1b[1m{said}\x1b[0m" if self.bold else f"\n{said}")

    def lines(self, said: str) -> None:
        """A drawing or a sentence, whatever the format."""
        print(said)

    def frame(self, frame: pl.DataFrame) -> None:
        """A small frame in the chosen format."""
        self.rows(frame.columns, frame.rows())

    def rows(self, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Rows under their names in the chosen format."""
        if self.format == "table":
            drawn = cards.table(names, rows, width=self.width, limit=self.limit or 50)
            head, feed, rest = drawn.partition("\n")
            print(f"\x1b[1m{head}\x1b[0m{feed}{rest}" if self.bold else drawn)
            return
        shown = rows[: self.limit]
        if self.format == "json":
            for row in shown:
                print(_json(dict(zip(names, row, strict=True))))
            return
        if self.format == "csv":
            print(_csv([names, *([_full_text(value) for value in row] for row in shown)]), end="")
            return
        print("\t".join(_escape_tsv(name) for name in names))
        for row in shown:
            print("\t".join(_escape_tsv(_full_text(value)) for value in row))


def _json_default(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else str(value)


def _full_text(value: object) -> str:
    """The whole value as text: null is empty, nested values are JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.hex()
    return _json(value) if isinstance(value, (list, dict, tuple)) else str(value)


def _json(value: object) -> str:
    """JSON that every reader takes: it has no number for NaN and the infinities, which are texts, as the reference prints them."""
    try:
        found = json.dumps(value, default=_json_default, ensure_ascii=False, allow_nan=False)
    except ValueError:
        found = json.dumps(_replace_non_finite(value), default=_json_default, ensure_ascii=False)
    return found if found.isprintable() else "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in found)


def _replace_non_finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _replace_non_finite(one) for key, one in value.items()}
    return [_replace_non_finite(one) for one in value] if isinstance(value, (list, tuple)) else value


def _escape_tsv(value: str) -> str:
    """Return a field of TSV: tabs, ends of lines and all other control characters are escapes, and so is the backslash."""
    escaped = value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return humanize.escape_controls(escaped)


def _csv(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as CSV: line feeds and tabs within quotes, all other control characters by their codes.

    A terminal obeys control characters, and a carriage return ends a row for most readers.
    """
    made = io.StringIO()
    csv.writer(made, lineterminator="\n").writerows([_escape_cell(cell) for cell in row] for row in rows)
    return made.getvalue()


def _escape_cell(cell: str) -> str:
    return cell if cell.isprintable() else "".join(letter if letter in "\t\n" else humanize.escape_controls(letter) for letter in cell)


# ---- verbs ----------------------------------------------------------------------------------------------------------------------------------


def _open(asked: argparse.Namespace) -> Table:
    return open_table(asked.path, branch=asked.branch, options=options_of(asked.allow), storage_options=dict(asked.storage) or None)


def _requested_position(asked: argparse.Namespace) -> int | str | None:
    return asked.at


def inspect(asked: argparse.Namespace, out: Output) -> None:
    """`lakekit inspect PATH [NOUN]`."""
    table = _open(asked)
    if asked.at is not None and asked.noun not in (None, *TIME_TRAVEL_NOUNS):
        raise InvalidOption(f"{asked.noun} are the same at every snapshot; --at goes with {', '.join(TIME_TRAVEL_NOUNS)}", key="--at", value=asked.at)
    if asked.noun is None:
        show_card(table, out, _requested_position(asked))
    elif asked.noun == "levels":
        show_levels(table, out, _requested_position(asked))
    elif asked.noun == "options":
        out.rows(("key", "value"), sorted(table.options.items()))
    elif asked.noun == "snapshots":
        show_snapshots(table, out)
    elif asked.noun == "manifests":
        show_manifests(table, out, _requested_position(asked))
    elif asked.noun in TIME_TRAVEL_NOUNS:
        out.frame(getattr(table, asked.noun)(at=_requested_position(asked)))
    else:
        out.frame(getattr(table, asked.noun)())


def show_card(table: Table, out: Output, at: int | str | None = None) -> None:
    """Schema, keys, snapshot, files per level and health of a table."""
    facts = card_facts(table, at)
    if out.format == "table":
        out.lines(cards.card(table.name, facts, width=out.width))
    else:
        out.rows(("fact", "value"), [("name", table.name), *facts])


def card_facts(table: Table, at: int | str | None) -> list[tuple[str, object]]:
    """What the card says, in the order of a reader's questions."""
    fields = ", ".join(f"{field.name} {field.type}" for field in table.schema.fields)
    facts: list[tuple[str, object]] = [("location", table.location), ("columns", f"{len(table.schema.fields)}: {fields}")]
    facts.append(("primary key", ", ".join(table.primary_keys) or "none: an append table"))
    if table.partition_keys:
        facts.append(("partitions", ", ".join(table.partition_keys)))
    if table.comment:
        facts.append(("comment", table.comment))
    snapshots = table.snapshots()
    if snapshots.is_empty():
        return [*facts, ("snapshot", "none: nothing was written yet")]
    last = snapshots.row(-1, named=True)
    facts.append(("snapshots", f"{snapshots.height}, the newest is {last['snapshot_id']}: {last['kind']} at {humanize.format_cell(last['time'])}"))
    files = table.files(at=at)
    facts.append(("files" if at is None else f"files at {at}", totals(files)))
    if table.primary_keys:
        for (level,), part in sorted(files.group_by("level")):
            facts.append((f"level {level}", totals(part)))
        facts.append(("health", health(files)))
    return facts


def show_snapshots(table: Table, out: Output) -> None:
    """The snapshots as a line of marks to a person, and as rows."""
    if out.format == "table":
        out.lines(timeline.text(history.history(table), width=out.width) + "\n")
    out.frame(table.snapshots())


def show_manifests(table: Table, out: Output, at: int | str | None = None) -> None:
    """The manifests of a snapshot as a tree to a person, as rows to a pipe."""
    if out.format == "table":
        out.lines(manifests.text(manifest_tree.tree(table, history.id_of(table, at)), width=out.width, first=out.limit or manifests.FIRST))
    else:
        out.frame(table.manifests(at=at))


def show_levels(table: Table, out: Output, at: int | str | None = None, buckets: int | None = None) -> None:
    """The sorted runs of every bucket, drawn on one key axis a bucket, or the files of an append table in their order; rows for a pipe."""
    files = table.files(at=at)
    if out.format != "table":
        out.frame(
            files.group_by("partition", "bucket", "level")
            .agg(pl.len().alias("file_count"), pl.col("size_bytes", "row_count").sum())
            .sort("partition", "bucket", "level")
        )
        return
    is_append = not table.primary_keys
    every = picture.list_buckets(files)
    limit = buckets or out.limit or 20
    for place in every[:limit]:
        state = picture.state_of(None, files, None, place, is_append=is_append)
        named = f"{humanize.format_cell(place.partition)} · " if table.partition_keys else ""
        part = files.filter((pl.col("partition") == place.partition) & (pl.col("bucket") == place.bucket))
        out.lines(levels.as_text(f"{named}bucket {place.bucket} · {totals(part)}", [state], width=out.width, is_append=is_append))
    if len(every) > limit:
        out.lines(f"… {humanize.plural(len(every) - limit, 'more bucket')}")


def plan(asked: argparse.Namespace, out: Output) -> None:
    """`lakekit plan PATH --where …`."""
    table = _open(asked)
    explained = table.explain(history.condition(table, asked.where or ""), at=_requested_position(asked))
    if out.format == "table":
        out.lines(str(explained))
    else:
        steps = [(step.what, step.before, step.after, step.why) for step in explained.steps]
        read = [
            ("read " + what, *(getattr(explained, f"{what}_{which}") for which in ("total", "read")), explained.merge) for what in ("files", "rows", "bytes")
        ]
        expected = [] if explained.rows_expected is None else [("expect rows", explained.rows_read, explained.rows_expected, "statistics")]
        out.rows(("what", "before", "after", "why"), [*steps, *read, *expected])


def check(asked: argparse.Namespace, out: Output) -> int:
    """`lakekit check PATH [--deep]`: the verdict and what was found, problems first; the exit code says whether there are problems."""
    report = _open(asked).check(deep=asked.deep)
    rows = report.rows()
    if out.format == "table":
        out.lines(f"{report.table}: {report.line}")
    if rows or out.format != "table":
        out.rows(NAMES, rows)
    return FINE if report.ok else PROBLEM


def browse(asked: argparse.Namespace, _: Output) -> None:
    """`lakekit browse PATH -o page.html`."""
    table = _open(asked)
    target = asked.output or f"{table.name.rpartition('/')[2]}.html"
    size_bytes = html_page.save(table, target, snapshots=asked.snapshots)
    print(f"{humanize.escape_controls(target)}: {humanize.format_size(size_bytes)}, one file, opens in any browser")


def show_hex(asked: argparse.Namespace, out: Output) -> None:
    """`lakekit hex PATH [--offset N] [--limit N]`: lines to a person, fields to a pipe; a damaged file is shown, then its error is told."""
    shown = hex_of(asked.path, format=asked.what, storage_options=dict(asked.storage) or None)
    if asked.open is not None:
        shown = shown.open(asked.open)
    if out.format == "table":
        out.lines(bytes_drawn(shown.title, shown.data, shown.found, start=asked.offset, lines=out.limit or LINES, width=out.width))
    else:
        marks = shown.marks
        out.frame(marks.filter((pl.col("offset") + pl.col("length") > asked.offset) | (pl.col("field") == "error")))
    if shown.error is not None:
        raise shown.error


def show_features(asked: argparse.Namespace, out: Output) -> None:
    """`lakekit features [WORD]`."""
    frame = features()
    if asked.word:
        spoken = asked.word.lower()
        near = [pl.col(name).str.to_lowercase().str.contains(spoken, literal=True) for name in ("feature", "area", "read", "write")]
        frame = frame.filter(pl.any_horizontal(near))
    if out.format == "table" and out.limit is None:
        out.limit = max(1, frame.height)
    out.frame(frame)


def demo(_: argparse.Namespace, out: Output) -> None:
    """`lakekit demo`: the main job, on two days of flights that the Java engine wrote."""
    out.format = "table"
    path = fixtures("flights") / "flights" / "table"
    table = open_table(str(path))
    out.lines("Two days of flights from New York in a blizzard (8 and 9 February 2013). Each flight is one key; schedule,")
    out.lines("departure, arrival and cancellation are updates of it, written by the Java engine of Apache Paimon.")
    out.title(f't = lk.open("{path}")')
    show_card(table, out)
    out.title("t.snapshots()")
    out.frame(table.snapshots().select("snapshot_id", "kind", "time", "delta_record_count", "tags"))
    out.title("the sorted runs of each bucket")
    show_levels(table, out)
    out.title('t.scan().filter(pl.col("status").is_in(["arrived", "cancelled"])).group_by("day", "status").agg(pl.len().alias("flights"))')
    out.frame(demo_query(table.scan()).collect())
    out.title("the same as it stood at snapshot 3: t.scan(at=3)")
    out.frame(demo_query(table.scan(at=3)).collect())
    out.title('t.explain((pl.col("day") == date(2013, 2, 8)) & (pl.col("carrier") == "9E") & (pl.col("flight") == 3314) & (pl.col("origin") == "JFK"))')
    one = (pl.col("day") == date(2013, 2, 8)) & (pl.col("carrier") == "9E") & (pl.col("flight") == 3314) & (pl.col("origin") == "JFK")
    out.lines(str(table.explain(one)))
    out.title("what to open next")
    out.lines(f"  lakekit inspect {path} files")
    out.lines(f"  lakekit plan {path} --where \"day = DATE '2013-02-08' AND carrier = 'AA'\"")
    out.lines("  lakekit features")


def demo_query(flights: pl.LazyFrame) -> pl.LazyFrame:
    """How the flights of each day ended: arrived or cancelled."""
    ended = flights.filter(pl.col("status").is_in(["arrived", "cancelled"]))
    return ended.group_by("day", "status").agg(pl.len().alias("flights")).sort("day", "status")


if __name__ == "__main__":
    sys.exit(main())
