"""Maintenance of a table, one module an action: compaction, expiry, tags, branches, checks, orphans.

An action reads the table, works through `write` and `commit`, and returns what it did. A module is loaded when its name
is first used here, as in `maintenance.compact.compact_table(…)`, so that a table that is only read loads none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit import plugins

if TYPE_CHECKING:
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
__getattr__ = plugins.late(__name__, __all__)
