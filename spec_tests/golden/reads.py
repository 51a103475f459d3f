"""A recorded read, asked of lakekit through its public names, and what is different."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

import lakekit as lk
from lakekit.errors import LakekitError, ValueOutOfRange
from lakekit.testing.expectations import Case, Read, beyond_polars, difference, without

KIND = "rowkind"
INCREMENTAL = "incremental-"


def answer(case: Case, read: Read) -> str | None:
    """None when lakekit answers a recorded read as the engine did, else what is different; columns that Polars cannot hold must be refused by name."""
    beyond = beyond_polars(read)
    for name in beyond:
        try:
            asked(case, without(read, [other for other in read.columns if other != name]))
        except ValueOutOfRange as refused:
            if refused.column == name:
                continue
        return f"{name} holds values that Polars has no place for, and was not refused"
    read = without(read, beyond)
    try:
        frame = asked(case, read)
    except LakekitError as refused:
        return None if read.error is not None else f"{type(refused).__name__}: {refused}"
    if read.error is not None:
        return f"{frame.height} rows, where the engine refuses: {read.error}"
    kinds = read.system is None and KIND in frame.columns
    if not kinds:
        read = replace(read, rows=tuple(("+I", values) for _, values in read.rows))
    return difference(frame, read, kind_column=KIND if kinds else None)


def asked(case: Case, read: Read) -> pl.DataFrame:
    """The frame of a recorded read; of increments with their kinds."""
    table = lk.open(case.path, branch=read.branch)
    options: dict[str, Any] = dict(read.options)
    columns: list[Any] = list(read.columns) or [pl.all()]
    if read.system is not None:
        found = table.system(read.system, options=options).select(columns).collect()
        return found.with_columns(pl.col("file_path").str.replace(case.path, "{table}", literal=True)) if "file_path" in found.columns else found
    if any(key.startswith(INCREMENTAL) for key in options):
        changed = table.system("audit_log", options=options)
        # a batch read of a difference of states leaves out keys that are gone, the audit log keeps them
        if is_difference(table, options):
            changed = changed.filter(pl.col(KIND).is_in(["+I", "+U"]))
        return changed.select(KIND, *columns).collect() if read.columns else changed.collect()
    return table.scan(options=options).select(columns).collect()


def is_difference(table: lk.Table, options: dict[str, Any]) -> bool:
    """Whether options ask for the difference of two states."""
    if "incremental-to-auto-tag" in options or options.get("incremental-between-scan-mode") == "diff":
        return True
    names = set(table.tags()["tag"])
    return set(options.get("incremental-between", "").split(",")) <= names and options.get("incremental-between-tag-to-snapshot") != "true"
