"""The verbs that inspect a table or a file.

`cli.main` loads this module when one of them is run: its imports take long, and `--help` needs none.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import polars as pl

import lakekit
from lakekit.cli.output import EXIT_OK, EXIT_PROBLEM, TIME_TRAVEL_NOUNS
from lakekit.draw import cards, humanize, levels, manifests, timeline
from lakekit.draw.hexdump import DEFAULT_LINES, hexdump_text as bytes_drawn
from lakekit.errors import InvalidOption
from lakekit.inspection import html_page, levels as picture, manifest_tree, timeline as history
from lakekit.inspection.hexdump import hex as hex_of
from lakekit.maintenance.check.findings import REPORT_COLUMNS
from lakekit.model.table_paths import allowed_locations_option
from lakekit.system_tables.frames import file_totals, merge_health
from lakekit.system_tables.registry import features, versions
from lakekit.testing.fixtures import fixtures

if TYPE_CHECKING:
    import argparse

    from lakekit.cli.output import Output
    from lakekit.table import Table


def _open_table(args: argparse.Namespace) -> Table:
    return lakekit.open(
        args.path,
        branch=args.branch,
        options=allowed_locations_option(args.allow),
        storage_options=dict(args.storage) or None,
    )


def _requested_position(args: argparse.Namespace) -> int | str | None:
    return args.at


def inspect(args: argparse.Namespace, out: Output) -> None:
    """Run `lakekit inspect PATH [NOUN]`."""
    table = _open_table(args)
    if args.at is not None and args.noun not in (None, *TIME_TRAVEL_NOUNS):
        raise InvalidOption(
            f"{args.noun} are the same at every snapshot; --at goes with {', '.join(TIME_TRAVEL_NOUNS)}",
            key="--at",
            value=args.at,
        )
    if args.noun is None:
        show_card(table, out, _requested_position(args))
    elif args.noun == "levels":
        show_levels(table, out, _requested_position(args))
    elif args.noun == "options":
        out.print_rows(("key", "value"), sorted(table.options.items()))
    elif args.noun == "snapshots":
        show_snapshots(table, out)
    elif args.noun == "manifests":
        show_manifests(table, out, _requested_position(args))
    elif args.noun in TIME_TRAVEL_NOUNS:
        out.print_frame(getattr(table, args.noun)(at=_requested_position(args)))
    else:
        out.print_frame(getattr(table, args.noun)())


def show_card(table: Table, out: Output, at: int | str | None = None) -> None:
    """Print schema, keys, snapshot, files per level and health of a table."""
    facts = card_facts(table, at)
    if out.format == "table":
        out.print_text(cards.card_text(table.name, facts, width=out.width))
    else:
        out.print_rows(("fact", "value"), [("name", table.name), *facts])


def card_facts(table: Table, at: int | str | None) -> list[tuple[str, object]]:
    """Return the facts of a table's card, in the order of a reader's questions."""
    fields = ", ".join(f"{field.name} {field.type}" for field in table.schema.fields)
    facts: list[tuple[str, object]] = [
        ("location", table.location),
        ("columns", f"{len(table.schema.fields)}: {fields}"),
    ]
    facts.append(("primary key", ", ".join(table.primary_keys) or "none: an append table"))
    if table.partition_keys:
        facts.append(("partitions", ", ".join(table.partition_keys)))
    if table.comment:
        facts.append(("comment", table.comment))
    snapshots = table.snapshots()
    if snapshots.is_empty():
        return [*facts, ("snapshot", "none: nothing was written yet")]
    last = snapshots.row(-1, named=True)
    facts.append(
        (
            "snapshots",
            (
                f"{snapshots.height}, the newest is {last['snapshot_id']}: {last['kind']} at "
                f"{humanize.format_cell(last['time'])}"
            ),
        )
    )
    files = table.files(at=at)
    facts.append(("files" if at is None else f"files at {at}", file_totals(files)))
    if table.primary_keys:
        for (level,), part in sorted(files.group_by("level")):
            facts.append((f"level {level}", file_totals(part)))
        facts.append(("health", merge_health(files)))
    return facts


def show_snapshots(table: Table, out: Output) -> None:
    """Print the snapshots as a line of marks (to a terminal), and as rows."""
    if out.format == "table":
        out.print_text(timeline.timeline_text(history.read_snapshot_history(table), width=out.width) + "\n")
    out.print_frame(table.snapshots())


def show_manifests(table: Table, out: Output, at: int | str | None = None) -> None:
    """Print the manifests of a snapshot as a tree to a terminal, as rows to a pipe."""
    if out.format == "table":
        out.print_text(
            manifests.tree_text(
                manifest_tree.build_tree(table, history.to_snapshot_id(table, at)),
                width=out.width,
                first=out.limit or manifests.FIRST_ROWS,
            )
        )
    else:
        out.print_frame(table.manifests(at=at))


def show_levels(table: Table, out: Output, at: int | str | None = None, buckets: int | None = None) -> None:
    """Print the sorted runs of every bucket, drawn on one key axis a bucket; rows for a pipe.

    The files of an append table stand in their order.
    """
    files = table.files(at=at)
    if out.format != "table":
        out.print_frame(
            files.group_by("partition", "bucket", "level")
            .agg(pl.len().alias("file_count"), pl.col("size_bytes", "row_count").sum())
            .sort("partition", "bucket", "level")
        )
        return
    is_append = not table.primary_keys
    every = picture.list_buckets(files)
    limit = buckets or out.limit or 20
    for location in every[:limit]:
        state = picture.bucket_state(None, files, None, location, is_append=is_append)
        named = f"{humanize.format_cell(location.partition)} · " if table.partition_keys else ""
        part = files.filter((pl.col("partition") == location.partition) & (pl.col("bucket") == location.bucket))
        out.print_text(
            levels.levels_text(
                f"{named}bucket {location.bucket} · {file_totals(part)}", [state], width=out.width, is_append=is_append
            )
        )
    if len(every) > limit:
        out.print_text(f"… {humanize.plural(len(every) - limit, 'more bucket')}")


def plan(args: argparse.Namespace, out: Output) -> None:
    """Run `lakekit plan PATH --where …`."""
    table = _open_table(args)
    explained = table.explain(history.parse_condition_text(table, args.where or ""), at=_requested_position(args))
    if out.format == "table":
        out.print_text(str(explained))
    else:
        steps = [(step.what, step.before, step.after, step.why) for step in explained.steps]
        read = [
            ("read " + what, *(getattr(explained, f"{what}_{which}") for which in ("total", "read")), explained.merge)
            for what in ("files", "rows", "bytes")
        ]
        expected = (
            []
            if explained.rows_expected is None
            else [("expect rows", explained.rows_read, explained.rows_expected, "statistics")]
        )
        out.print_rows(("what", "before", "after", "why"), [*steps, *read, *expected])


def check(args: argparse.Namespace, out: Output) -> int:
    """Run `lakekit check PATH [--deep]`: print the verdict and the problems; return the exit code.

    The code says whether there are problems, which come before advice.
    """
    report = _open_table(args).check(deep=args.deep)
    rows = report.to_rows()
    if out.format == "table":
        out.print_text(f"{report.table}: {report.summary}")
    if rows or out.format != "table":
        out.print_rows(REPORT_COLUMNS, rows)
    return EXIT_OK if report.ok else EXIT_PROBLEM


def browse(args: argparse.Namespace, _: Output) -> None:
    """Run `lakekit browse PATH -o page.html`."""
    table = _open_table(args)
    target = args.output or f"{table.name.rpartition('/')[2]}.html"
    size_bytes = html_page.save_page(table, target, snapshots=args.snapshots or html_page.MAX_SNAPSHOTS)
    print(f"{humanize.escape_controls(target)}: {humanize.format_size(size_bytes)}, one file, opens in any browser")


def show_hex(args: argparse.Namespace, out: Output) -> None:
    """Run `lakekit hex PATH [--offset N] [--limit N]`: print lines to a terminal, fields to a pipe.

    A damaged file is shown, then its error is raised.
    """
    view = hex_of(args.path, format=args.what, storage_options=dict(args.storage) or None)
    if args.open is not None:
        view = view.open(args.open)
    if out.format == "table":
        out.print_text(
            bytes_drawn(
                view.title, view.data, view.spans, start=args.offset, lines=out.limit or DEFAULT_LINES, width=out.width
            )
        )
    else:
        marks = view.marks
        out.print_frame(
            marks.filter((pl.col("offset") + pl.col("length") > args.offset) | (pl.col("field") == "error"))
        )
    if view.error is not None:
        raise view.error


def show_features(args: argparse.Namespace, out: Output) -> None:
    """Run `lakekit features [WORD]`."""
    frame = features()
    if args.word:
        spoken = args.word.lower()
        near = [
            pl.col(name).str.to_lowercase().str.contains(spoken, literal=True)
            for name in ("feature", "area", "read", "write")
        ]
        frame = frame.filter(pl.any_horizontal(near))
    if out.format == "table" and out.limit is None:
        out.limit = max(1, frame.height)
    out.print_frame(frame)


def show_versions(_: argparse.Namespace, out: Output) -> None:
    """Run `lakekit versions`."""
    out.print_frame(versions())


def demo(_: argparse.Namespace, out: Output) -> None:
    """Run `lakekit demo`: the main features, on two days of flights that the Java engine wrote."""
    out.format = "table"
    path = fixtures("flights") / "flights" / "table"
    table = lakekit.open(str(path))
    out.print_text(
        "Two days of flights from New York in a blizzard (8 and 9 February 2013). Each flight is one key; schedule,"
    )
    out.print_text(
        "departure, arrival and cancellation are updates of it, written by the Java engine of Apache Paimon."
    )
    out.print_title(f't = lk.open("{path}")')
    show_card(table, out)
    out.print_title("t.snapshots()")
    out.print_frame(table.snapshots().select("snapshot_id", "kind", "time", "delta_record_count", "tags"))
    out.print_title("the sorted runs of each bucket")
    show_levels(table, out)
    out.print_title(
        't.scan().filter(pl.col("status").is_in(["arrived", "cancelled"])).group_by("day", '
        '"status").agg(pl.len().alias("flights"))'
    )
    out.print_frame(demo_query(table.scan()).collect())
    out.print_title("the same as it stood at snapshot 3: t.scan(at=3)")
    out.print_frame(demo_query(table.scan(at=3)).collect())
    out.print_title(
        't.explain((pl.col("day") == date(2013, 2, 8)) & (pl.col("carrier") == "9E") & (pl.col("flight") == 3314) & '
        '(pl.col("origin") == "JFK"))'
    )
    is_flight = (
        (pl.col("day") == date(2013, 2, 8))
        & (pl.col("carrier") == "9E")
        & (pl.col("flight") == 3314)
        & (pl.col("origin") == "JFK")
    )
    out.print_text(str(table.explain(is_flight)))
    out.print_title("what to open next")
    out.print_text(f"  lakekit inspect {path} files")
    out.print_text(f"  lakekit plan {path} --where \"day = DATE '2013-02-08' AND carrier = 'AA'\"")
    out.print_text("  lakekit features")


def demo_query(flights: pl.LazyFrame) -> pl.LazyFrame:
    """Return how the flights of each day ended: arrived or cancelled."""
    ended = flights.filter(pl.col("status").is_in(["arrived", "cancelled"]))
    return ended.group_by("day", "status").agg(pl.len().alias("flights")).sort("day", "status")
