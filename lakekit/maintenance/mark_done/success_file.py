"""A file `_SUCCESS` in the partition's directory. Source: `SuccessFileMarkDoneAction`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.maintenance import success_file

if TYPE_CHECKING:
    from lakekit.metadata.table_context import TableContext


def check(handle: TableContext) -> None:
    """Nothing is wrong with it."""


def mark(handle: TableContext, directory: str) -> None:
    """Writes the file, or tells an old one the time."""
    success_file.write(handle.storage, f"{handle.root}/{directory}/_SUCCESS", handle.world.now_ms())
