"""The core of every table object: its location, and how to open it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakekit import runtime
from lakekit.metadata.table_context import open_context
from lakekit.model.locations import Locations
from lakekit.options.option import EMPTY

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from lakekit.metadata.table_context import CatalogEnvironment, TableContext
    from lakekit.storage.protocol import Storage


_CARRIED_FIELDS = (
    "location",
    "name",
    "branch_name",
    "dynamic",
    "storage_options",
    "storage",
    "catalog_env",
    "locations",
)
"""What a pickled table takes along."""
_MOST_SCANS = 64
"""So many scans share a frame: Polars may keep something of every question it is asked."""


@dataclass(slots=True)
class SharedScan:
    """A frame of the newest snapshot that several scans may share, and the context it reads.

    Each time it runs it looks for the newest snapshot again.
    """

    ctx: TableContext
    frame: pl.LazyFrame
    scans_left: int = _MOST_SCANS


@dataclass(slots=True)
class LastSeen:
    """The context a table was last opened with, and what is shown of it without opening it again.

    `files`, `health` and `checked` are texts; `shared` is a frame to reuse.
    """

    ctx: TableContext | None = None
    snapshot_id: int | None = None
    files: str | None = None
    health: str | None = None
    checked: str | None = None
    shared: SharedScan | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TableCore:
    """A location, a branch and dynamic options.

    Nothing here becomes outdated: each call opens the newest schema and snapshot.
    """

    location: str
    name: str
    branch_name: str | None = None
    dynamic: Mapping[str, Any] = EMPTY
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    storage: Storage | None = field(default=None, repr=False)
    catalog_env: CatalogEnvironment | None = field(default=None, repr=False, compare=False)
    locations: Locations = field(default=Locations(), repr=False, compare=False)
    _seen: LastSeen = field(default_factory=LastSeen, repr=False, compare=False)

    def handle(self) -> TableContext:
        """Open the table and return its context as of now.

        Raises `TableNotFound` and what opening raises, and `ForkedProcess` in a forked child.
        """
        runtime.refuse_fork()
        ctx = open_context(
            self.location,
            branch=self.branch_name,
            options=self.dynamic,
            storage_options=self.storage_options,
            storage=self.storage,
            name=self.name,
            catalog_env=self.catalog_env,
            locations=self.locations,
        )
        self._seen.ctx = ctx
        return ctx

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _CARRIED_FIELDS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_seen", LastSeen())
