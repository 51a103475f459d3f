"""A system table found by its name in a catalog: `cat["shop.orders$files"]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import polars as pl

    from lakekit.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTable:
    """One of Paimon's system tables of `table`: a name to scan."""

    table: Table
    name: str

    def scan(self, at: int | str | datetime | None = None, *, options: Mapping[str, Any] | None = None) -> pl.LazyFrame:
        """Its rows, with Paimon's own columns: the same as `table.system(name)`."""
        return self.table.system(self.name, at=at, options=options)

    def __repr__(self) -> str:
        return f"SystemTable {self.table.name}${self.name}"
