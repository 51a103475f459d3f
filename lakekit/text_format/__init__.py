"""Plugins for text files whose lines are rows: CSV, JSON and plain text, as format tables hold them.

    names("text_format")        ("csv", "json", "text")
    load("text_format", "csv")  see `options`

Each module is one format, named as `file.format` names it. Lines become rows by column: a block of lines is one Polars
column of text, and all cells of a column are parsed at once.
"""

from __future__ import annotations

NOT_PLUGINS = frozenset({"compression", "options"})
