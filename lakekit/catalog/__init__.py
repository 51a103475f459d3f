"""Catalogs: tables by name, `lk.connect(warehouse)["shop.orders"]`; a table opened by its path is the same."""

from typing import TYPE_CHECKING

from lakekit import plugins

if TYPE_CHECKING:
    from lakekit.catalog import due_maintenance, migrate, operations, session, sys_tables, views

__all__ = ["due_maintenance", "migrate", "operations", "session", "sys_tables", "views"]
__getattr__ = plugins.late(__name__, __all__)
