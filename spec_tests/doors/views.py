"""Ways to look at a golden table that must all show the same rows, and views that show others."""

from __future__ import annotations

import asyncio
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import lakekit as lk
from lakekit.read import polars_pushdown, table_scan
from lakekit.storage.memory import MemoryStorage
from lakekit.testing.expectations import load_golden_table
from spec_tests.places import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Coroutine

    import polars as pl

    from lakekit.testing.expectations import Case

T = TypeVar("T")
TABLES = Path(FIXTURES, "tables")
CASES = sorted(path.stem for path in TABLES.glob("*.json"))


def table(case: str, **how) -> lk.Table:
    return lk.open(TABLES / case, **how)


def _read(source: Path) -> dict[str, bytes]:
    return {path.relative_to(source).as_posix(): path.read_bytes() for path in sorted(source.rglob("*")) if path.is_file()}


_read_once = cache(_read)
"""Golden tables do not change: their bytes are read once and shared."""


def copied(source: Path, root: str = "memory") -> MemoryStorage:
    """The files of a directory, in a memory that Polars cannot open."""
    storage = MemoryStorage()
    for name, data in (_read_once if source.parent == TABLES else _read)(source).items():
        storage.put(f"{root}/{name}", data)
    storage.trace.clear()
    return storage


def in_memory(case: str, source: Path | None = None) -> lk.Table:
    """The table read through a storage alone, without native scans."""
    return lk.Table(location="memory", name=case, storage=copied(source or TABLES / case))


def in_slices(case: str) -> lk.Table:
    """The table whose merges are cut into the smallest key ranges there are."""
    return table(case, options={"lakekit.merge-memory": "1 b"})


def awaited(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine, in a loop and a thread of its own: whoever drives a browser in this process has a loop in the first one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def planned_names(table: lk.Table, condition: pl.Expr, at: int | None = None) -> set[str]:
    """The files that the planner reads under a condition."""
    made = table_scan.scan(table._context(), at)
    asked, _ = polars_pushdown.build_scan_filter(polars_pushdown.filters_of(condition, made.schema()), made.ctx.schema)
    return {plan.entries.column("file_name")[int(at)].as_py() for plan in made.plans(asked) for at in plan.selected_indices}


@cache
def facts(case: str) -> Case:
    """What is recorded of a golden table."""
    return load_golden_table(case)


@cache
def collected(case: str) -> pl.DataFrame | None:
    """All rows of the newest state; None where it is refused."""
    try:
        return table(case).scan().collect()
    except lk.LakekitError:
        return None


class Growing:
    """A copy of a golden table that can be seen as it was: files of later snapshots and schemas are put aside, and put back as if they were committed."""

    def __init__(self, case: str, place: Path) -> None:
        self.path, self.aside = place / case, place / "aside"
        shutil.copytree(TABLES / case, self.path)
        shutil.copytree(TABLES / case, self.aside)

    def show(self, snapshot: int, schema: int | None = None) -> None:
        """Snapshots up to that one, and schemas up to that one (all of them without)."""
        self._only("snapshot", snapshot)
        (self.path / "snapshot" / "LATEST").write_text(str(snapshot))
        if schema is not None:
            self._only("schema", schema)

    def _only(self, kind: str, last: int) -> None:
        for kept in (self.aside / kind).glob(f"{kind}-*"):
            shown = self.path / kind / kept.name
            if int(kept.name.removeprefix(f"{kind}-")) > last:
                shown.unlink(missing_ok=True)
            elif not shown.exists():
                shutil.copy(kept, shown)

    def open(self, **how) -> lk.Table:
        return lk.open(self.path, **how)
