"""A system table found by its name in a catalog: `cat["shop.orders$files"]`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakekit.errors import InvalidOption
from lakekit.system_tables import data

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime, timedelta

    import polars as pl

    from lakekit.read.stream import Change
    from lakekit.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTable:
    """One of Paimon's system tables of `table`: a name to scan."""

    table: Table
    name: str

    def scan(self, at: int | str | datetime | None = None, *, options: Mapping[str, Any] | None = None) -> pl.LazyFrame:
        """Its rows, with Paimon's own columns: the same as `table.system(name)`."""
        return self.table.system(self.name, at=at, options=options)

    def follow(
        self,
        start: str | int | datetime | None = None,
        *,
        consumer: str | None = None,
        until: str | int | datetime | None = None,
        poll: float | timedelta | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Iterator[Change]:
        """Yield the changes of the table as `$audit_log` or `$binlog` shows them.

        The arguments are those of `Table.follow`.

        Raises: `InvalidOption` for any other system table, none of which the reference streams, and what `Table.follow`
        raises.
        """
        if self.name not in data.STREAMS:
            msg = (
                f"{self.table.name}${self.name} cannot be followed; {' and '.join(data.STREAMS)} can, and so can the "
                "table itself. Scan it instead"
            )
            raise InvalidOption(msg, key="name", value=self.name)
        ctx = self.table.handle()
        changes = self.table.follow(start, consumer=consumer, until=until, poll=poll, options=options)
        return (replace(change, frame=data.show_changes(self.name, change.frame, ctx)) for change in changes)

    def __repr__(self) -> str:
        return f"SystemTable {self.table.name}${self.name}"
