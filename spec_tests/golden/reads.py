"""A recorded read, asked of lakekit through its public names, and what is different."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import polars as pl

import lakekit as lk
from lakekit.errors import LakekitError
from lakekit.testing.expectations import Case, Read, difference

BETWEEN = "incremental-between"
MODE = "incremental-between-scan-mode"


def answer(case: Case, read: Read) -> str | None:
    """None when lakekit answers a recorded read as the engine did, else what is different."""
    try:
        frame, kind_column = asked(case, read)
    except LakekitError as refused:
        return None if read.error is not None else f"{type(refused).__name__}: {refused}"
    if read.error is not None:
        return f"{frame.height} rows, where the engine refuses: {read.error}"
    if kind_column is None:
        read = replace(read, rows=tuple(("+I", values) for _, values in read.rows))
    return difference(frame, read, kind_column=kind_column)


def asked(case: Case, read: Read) -> tuple[pl.DataFrame, str | None]:
    """The frame of a recorded read, and its column of row kinds."""
    table = lk.open(case.path, branch=read.branch)
    options: dict[str, Any] = dict(read.options)
    if read.system is not None:
        found = table.system(read.system, options=options).select(read.columns or [pl.all()]).collect()
        if "file_path" in found.columns:
            found = found.with_columns(pl.col("file_path").str.replace(case.path, "{table}", literal=True))
        return found, None
    if any(key.startswith("incremental-") for key in options):
        return changes(table, options).select("_row_kind", *(read.columns or [pl.all()])).collect(), "_row_kind"
    return table.scan(options=options).select(read.columns or [pl.all()]).collect(), None


def changes(table: lk.Table, options: dict[str, Any]) -> pl.LazyFrame:
    """The changes that `incremental-*` options mean."""
    mode = options.pop(MODE, "auto")
    ends: list[Any]
    if (text := options.pop(BETWEEN, None)) is not None:
        names = table.tags()["tag"].to_list()
        ends = text.split(",")
        if all(end in names for end in ends) and options.pop("incremental-between-tag-to-snapshot", "false") != "true":
            mode = "diff"
        ends = [end if end in names else int(end) for end in ends]
    else:
        ends = [datetime.fromtimestamp(int(end) / 1000, UTC) for end in options.pop(f"{BETWEEN}-timestamp").split(",")]
    found = table.changes(ends[0], ends[1], mode=mode, options=options)
    # a batch read of a difference leaves out keys that are gone
    return found.filter(pl.col("_row_kind").is_in(["+I", "+U"])) if mode == "diff" else found
