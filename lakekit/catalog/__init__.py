"""Catalogs give tables names: `lk.connect(warehouse)["shop.orders"]`. They shape nothing of what a table is: a path is a table too."""

from __future__ import annotations

from lakekit.catalog.catalog import Catalog
from lakekit.catalog.connection import connect
from lakekit.catalog.sys_tables import GlobalTable
from lakekit.catalog.system_table import SystemTable

__all__ = ["Catalog", "GlobalTable", "SystemTable", "connect"]
