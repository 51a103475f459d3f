"""Catalogs: tables by name, `lk.connect(warehouse)["shop.orders"]`.

A catalog does not change what a table is: a table opened by its path is the same.
"""

from __future__ import annotations

from lakekit.catalog.catalog import Catalog
from lakekit.catalog.connection import connect
from lakekit.catalog.sys_tables import GlobalTable, SystemTable

__all__ = ["Catalog", "GlobalTable", "SystemTable", "connect"]
