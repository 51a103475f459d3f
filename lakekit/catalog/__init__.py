"""Catalogs: tables by name, `lk.connect(warehouse)["shop.orders"]`.

A catalog does not change what a table is: a table opened by its path is the same. Modules are loaded when they are
first used, as in `catalog.operations.compact(…)`: a statement without tables needs few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit import plugins

if TYPE_CHECKING:
    from lakekit.catalog import due_maintenance, migrate, operations, session, sys_tables, views

__all__ = ["due_maintenance", "migrate", "operations", "session", "sys_tables", "views"]
__getattr__ = plugins.late(__name__, __all__)
