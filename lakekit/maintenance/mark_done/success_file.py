"""A file `_SUCCESS` in the partition's directory. Source: `SuccessFileMarkDoneAction`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.maintenance import success_file

if TYPE_CHECKING:
    from lakekit.metadata.table_context import TableContext


def check(ctx: TableContext) -> None:
    """Nothing is wrong with it."""


def mark(ctx: TableContext, directory: str) -> None:
    """Write the file, or update the modification time in an existing one."""
    success_file.write(ctx.storage, f"{ctx.root}/{directory}/_SUCCESS", ctx.world.now_ms())
