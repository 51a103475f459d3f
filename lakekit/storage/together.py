"""Write several small files that are needed together, in parallel; all are durable when this returns.

    write_together(storage, [(".../manifest-1", data), (".../manifest-list-1", data)])

On a disk they are synced together, and their directory once: a commit's metadata files cost about as much as one. On
failure unreferenced files may be left: their writer deletes them.

    storage = defer_sync(storage)       for one writer: small files, its data files too, are synced when a snapshot is
                                        created, and all at once
    sync_all(storage)                   now all are durable
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
    """Return the storage with syncs deferred until `put_if_absent` creates a file, or until `sync_all`.

    A storage where that saves nothing is returned unchanged.
    """
    return DeferredSync(storage.roots) if type(storage) is LocalStorage else storage


def sync_all(storage: Storage) -> None:
    """Return when everything written through `defer_sync` is durable. Raises `StorageFailed`."""
    if isinstance(storage, DeferredSync):
        storage.settle()


def write_together(storage: Storage, files: Sequence[tuple[str, bytes]]) -> None:
    """Write whole files; through `defer_sync` they become durable later. Raises `StorageFailed`."""

    def write(path_and_data: tuple[str, bytes]) -> None:
        path, data = path_and_data
        with storage.open_write(path) as file:
            file.write(data)

    if isinstance(storage, LocalStorage) and len(files) > 1:
        storage.write_together(files)
    else:
        map_io(write, files, is_remote=storage.is_remote)
