"""What a catalog does for a table beside its files: a lock while a schema or a snapshot is claimed, and a copy of the options kept up to date.

    with locked(handle) as claim:
        claim.check()                            the lock is still ours
        storage.put_if_absent(path, data)        the claim itself is what makes a commit safe; the lock keeps other engines out that have nothing better
    altered(handle, schema)

A table that was opened by its path has no keeper. Source: ENGINE.md 9.3; `CatalogLock`, `RenamingSnapshotCommit`.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Protocol

from lakekit.model.table_paths import MAIN

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from lakekit.model.table_paths import TablePaths
    from lakekit.model.table_schema import TableSchema

    class CatalogedTable(Protocol):
        """A table's ground or handle."""

        @property
        def keeper(self) -> CatalogEnvironment | None: ...
        @property
        def layout(self) -> TablePaths: ...


class HeldLock(Protocol):
    """A lock that is held."""

    def check(self) -> None:
        """Raises `LockLost` where others may hold the lock by now."""
        ...


class CatalogEnvironment(Protocol):
    """The catalog of one table; hashable, picklable, shared by threads."""

    def locked(self, branch: str) -> AbstractContextManager[HeldLock]:
        """Holds the lock of the table's branch. Raises `RetriesExhausted` when it cannot be had in time."""
        ...

    def altered(self, schema: TableSchema) -> None:
        """Takes over the newest schema of branch main."""
        ...


class NoLock:
    """A claim that nobody contests."""

    def check(self) -> None:
        """There is nothing to lose."""


_NO_LOCK = NoLock()


def catalog_lock(place: CatalogedTable) -> AbstractContextManager[HeldLock]:
    """The lock of a table, where its catalog has one."""
    return nullcontext(_NO_LOCK) if place.keeper is None else place.keeper.locked(place.layout.branch)


def lock_check(claim: HeldLock) -> Callable[[], None] | None:
    """What asks whether the lock is still ours; None where none is held."""
    return None if isinstance(claim, NoLock) else claim.check


def schema_changed(place: CatalogedTable, schema: TableSchema) -> None:
    """Tells the catalog of a new schema."""
    if place.keeper is not None and place.layout.branch == MAIN:
        place.keeper.altered(schema)
