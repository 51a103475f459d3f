"""What the verbs of the shell print: tables, TSV, JSON and CSV, to a person's terminal or a pipe. Start from `Output`."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

from lakekit.draw import cards, humanize

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    import polars as pl

NOUNS = ("snapshots", "manifests", "files", "levels", "partitions", "buckets", "schemas", "tags", "branches", "consumers", "indexes", "options")
TIME_TRAVEL_NOUNS = ("manifests", "files", "levels", "partitions", "buckets", "indexes")
"""Nouns that can be asked of an older snapshot."""
FINE, PROBLEM, USAGE, NO_TABLE, INTERRUPTED = 0, 1, 2, 3, 130


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
