"""Reads: snapshot → plan → LazyFrame. Planning reads metadata only; rows are decoded when Polars runs the frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit import plugins

if TYPE_CHECKING:
    from lakekit.read import table_scan as table_scan

__getattr__ = plugins.late(__name__, ("table_scan",))
