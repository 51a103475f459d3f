"""Ways to look at a golden table that must all show the same rows, and views that show others."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import lakekit as lk
from lakekit.storage.memory import MemoryStorage
from lakekit.testing.expectations import FIXTURES

if TYPE_CHECKING:
    import polars as pl

TABLES = Path(FIXTURES, "tables")
CASES = sorted(path.stem for path in TABLES.glob("*.json"))


def table(case: str, **how) -> lk.Table:
    return lk.open(TABLES / case, **how)


def copied(source: Path, root: str = "memory") -> MemoryStorage:
    """The files of a directory, in a memory that Polars cannot open."""
    storage = MemoryStorage()
    for path in sorted(source.rglob("*")):
        if path.is_file():
            storage.put(f"{root}/{path.relative_to(source).as_posix()}", path.read_bytes())
    storage.trace.clear()
    return storage


def in_memory(case: str, source: Path | None = None) -> lk.Table:
    """The table read through a storage alone, without native scans."""
    return lk.Table(location="memory", name=case, storage=copied(source or TABLES / case))


def in_slices(case: str) -> lk.Table:
    """The table whose merges are cut into the smallest key ranges there are."""
    return table(case, options={"lakekit.merge-memory": "1 b"})


@cache
def collected(case: str) -> pl.DataFrame | None:
    """All rows of the newest state; None where it is refused."""
    try:
        return table(case).scan().collect()
    except lk.LakekitError:
        return None
