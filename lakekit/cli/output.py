"""The output of the verbs: tables, TSV, JSON and CSV, to a terminal or a pipe. Start from `Output`."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

from lakekit import draw
from lakekit.draw import humanize

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    import polars as pl

INSPECT_NOUNS = (
    "snapshots",
    "manifests",
    "files",
    "levels",
    "partitions",
    "buckets",
    "schemas",
    "tags",
    "branches",
    "consumers",
    "indexes",
    "options",
)
"""What `lakekit inspect PATH NOUN` prints."""
TIME_TRAVEL_NOUNS = ("manifests", "files", "levels", "partitions", "buckets", "indexes")
"""The nouns of `inspect` that take `--at`, an older snapshot."""
EXIT_OK, EXIT_PROBLEM, EXIT_USAGE, EXIT_NO_TABLE, EXIT_INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes: success, a problem was found, wrong usage, no such table, interrupted by the user."""


class Output:
    """The output of a command: to a terminal or a pipe."""

    def __init__(self, args: argparse.Namespace) -> None:
        person = sys.stdout.isatty()
        self.format = args.format or ("table" if person else "tsv")
        self.width = shutil.get_terminal_size((humanize.WIDTH, 24)).columns if person else humanize.WIDTH
        self.limit = args.limit
        self.bold = (
            person and args.color == "auto" and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        )

    def print_title(self, text: str) -> None:
        """Print a heading; to a terminal only."""
        if self.format == "table":
            print(f"\n\x1b[1m{text}\x1b[0m" if self.bold else f"\n{text}")

    def print_text(self, text: str) -> None:
        """Print a drawing or a sentence, whatever the format."""
        print(text)

    def print_frame(self, frame: pl.DataFrame) -> None:
        """Print a small frame in the chosen format."""
        self.print_rows(frame.columns, frame.rows())

    def print_rows(self, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Print rows under their names in the chosen format."""
        if self.format == "table":
            drawn = draw.cards.table_text(names, rows, width=self.width, max_rows=self.limit or 50)
            head, feed, body = drawn.partition("\n")
            print(f"\x1b[1m{head}\x1b[0m{feed}{body}" if self.bold else drawn)
            return
        visible = rows[: self.limit]
        if self.format == "json":
            for row in visible:
                print(_to_json(dict(zip(names, row, strict=True))))
            return
        if self.format == "csv":
            print(_to_csv([names, *([_full_text(value) for value in row] for row in visible)]), end="")
            return
        print("\t".join(_escape_tsv(name) for name in names))
        for row in visible:
            print("\t".join(_escape_tsv(_full_text(value)) for value in row))


def _json_default(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else str(value)


def _full_text(value: object) -> str:
    """Return the whole value as text: null is empty, nested values are JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.hex()
    return _to_json(value) if isinstance(value, (list, dict, tuple)) else str(value)


def _to_json(value: object) -> str:
    """Return a value as JSON that every reader takes: NaN and infinities are texts, as in the reference."""
    try:
        text = json.dumps(value, default=_json_default, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_replace_non_finite(value), default=_json_default, ensure_ascii=False)
    return (
        text
        if text.isprintable()
        else "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)
    )


def _replace_non_finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _replace_non_finite(element) for key, element in value.items()}
    return [_replace_non_finite(element) for element in value] if isinstance(value, (list, tuple)) else value


def _escape_tsv(value: str) -> str:
    """Return a field of TSV with escapes for tabs, ends of lines, control characters and the backslash."""
    escaped = value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return humanize.escape_controls(escaped)


def _to_csv(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as CSV: line feeds and tabs within quotes, all other control characters by their codes.

    A terminal obeys control characters, and a carriage return ends a row for most readers.
    """
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([_escape_cell(cell) for cell in row] for row in rows)
    return buffer.getvalue()


def _escape_cell(cell: str) -> str:
    return (
        cell
        if cell.isprintable()
        else "".join(letter if letter in "\t\n" else humanize.escape_controls(letter) for letter in cell)
    )
