"""The public table classes: thin methods over the layers below, which read the metadata on each call.

Modules are loaded when they are first used: a catalog needs none of them before it opens a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit import plugins

if TYPE_CHECKING:
    from lakekit.table import format_tables, open_create
    from lakekit.table.table import Table

__all__ = ["Table", "format_tables", "open_create"]
__getattr__ = plugins.late(__name__, ("format_tables", "open_create"), {"Table": "table"})
