"""Several small files that are needed together, or not at all: written side by side, and all safe from power loss when this returns.

    write_together(storage, [(".../manifest-1", data), (".../manifest-list-1", data)])

On a disk they wait for it once, and their directory is synced once: a commit's metadata files cost about as much as one. Whatever fails, files may be left that
nothing refers to: whoever wrote deletes them.

    storage = gathering(storage)        for one writer: small files, its data files too, wait for the disk when a snapshot is claimed, and all at once
    settle(storage)                     now all are safe from power loss
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.storage.gathering import DeferredSync
from lakekit.storage.local import LocalStorage
from lakekit.world import map_io

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.storage.protocol import Storage


def defer_sync(storage: Storage) -> Storage:
    """The same files, synced when one is claimed (`put_if_absent`) or with `sync_all`; a storage where that saves nothing is answered as it is."""
    return DeferredSync(storage.roots) if type(storage) is LocalStorage else storage


def sync_all(storage: Storage) -> None:
    """Returns when what was written through `defer_sync` is safe from power loss. Raises `StorageFailed`."""
    if isinstance(storage, DeferredSync):
        storage.settle()


def write_together(storage: Storage, files: Sequence[tuple[str, bytes]]) -> None:
    """Writes whole files; through `defer_sync` they are safe when all else is. Raises `StorageFailed`."""

    def write(one: tuple[str, bytes]) -> None:
        path, data = one
        with storage.open_write(path) as file:
            file.write(data)

    if isinstance(storage, LocalStorage) and len(files) > 1:
        storage.write_together(files)
    else:
        map_io(write, files, is_remote=storage.is_remote)
