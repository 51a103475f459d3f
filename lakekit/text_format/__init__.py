"""Text files whose lines are rows: CSV, JSON and plain text, as format tables hold them. Each module is one format, named as `file.format` names it.

    names()                    ("csv", "json", "text")
    load("csv").texts …        see `contract`

Lines become rows by column: a block of lines is one Polars column of text, and every cell of a block is parsed at once.
"""

from __future__ import annotations

NOT_PARTS = frozenset({"compression", "options", "quoting", "split", "values"})
