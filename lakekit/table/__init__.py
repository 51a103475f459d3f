"""The public table classes: thin methods over the layers below, which read the metadata on each call."""

from __future__ import annotations

from lakekit.table.table import Table

__all__ = ["Table"]
