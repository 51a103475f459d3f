"""Maintenance of a table, one module an action: compaction, expiry, tags, branches, checks, orphans.

An action reads the table, works through `write` and `commit`, and returns what it did. A module is loaded when its name
is first used here, as in `maintenance.compact.compact_table(…)`, so that a table that is only read loads none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from lakekit.maintenance import (
        after_commit,
        analyze,
        arguments,
        atomic_create,
        branches,
        compact,
        consumers,
        expire,
        expire_partitions,
        migrate,
        orphan_files,
        rewrite,
        rewrite_file_index,
        tags,
    )

__all__ = [
    "after_commit",
    "analyze",
    "arguments",
    "atomic_create",
    "branches",
    "compact",
    "consumers",
    "expire",
    "expire_partitions",
    "migrate",
    "orphan_files",
    "rewrite",
    "rewrite_file_index",
    "tags",
]


def __getattr__(name: str) -> ModuleType:
    """Return the module of an action, loaded now."""
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
