"""What a user holds: thin methods over the floors below. A table opens its facts anew for every question."""

from __future__ import annotations

from lakekit.table.table import Table

__all__ = ["Table"]
