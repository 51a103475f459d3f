"""What a catalog provides for a table: a lock for new schemas and snapshots, schema notifications.

    with catalog_lock(ctx) as lock:
        lock.check()                             the lock is still ours
        storage.put_if_absent(path, data)        makes a commit safe; the lock keeps out engines that need one
    schema_changed(ctx, schema)

A table opened by its path has no catalog environment. Source: ENGINE.md 9.3; `CatalogLock`, `RenamingSnapshotCommit`.
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
        """A table's location or context."""

        @property
        def keeper(self) -> CatalogEnvironment | None: ...
        @property
        def layout(self) -> TablePaths: ...


class HeldLock(Protocol):
    """A lock that is held."""

    def check(self) -> None:
        """Raise `LockLost` if another process may hold the lock by now."""
        ...


class CatalogEnvironment(Protocol):
    """The catalog of one table; hashable, picklable, thread-safe."""

    def locked(self, branch: str) -> AbstractContextManager[HeldLock]:
        """Hold the lock of the table's branch. Raises `RetriesExhausted` if it is not granted in time."""
        ...

    def altered(self, schema: TableSchema) -> None:
        """Store the newest schema of branch main in the catalog."""
        ...


class NoLock:
    """The lock of a table without a catalog lock: always held."""

    def check(self) -> None:
        """There is nothing to lose."""


_NO_LOCK = NoLock()


def catalog_lock(table: CatalogedTable) -> AbstractContextManager[HeldLock]:
    """Return the catalog's lock of a table, or a `NoLock`."""
    return nullcontext(_NO_LOCK) if table.keeper is None else table.keeper.locked(table.layout.branch)


def lock_check(lock: HeldLock) -> Callable[[], None] | None:
    """Return a function that checks that the lock is still ours; None without a lock."""
    return None if isinstance(lock, NoLock) else lock.check


def schema_changed(table: CatalogedTable, schema: TableSchema) -> None:
    """Notify the catalog of a new schema of branch main."""
    if table.keeper is not None and table.layout.branch == MAIN:
        table.keeper.altered(schema)
