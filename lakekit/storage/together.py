"""Several small files that are needed together, or not at all: written side by side, and all safe from power loss when this returns.

    write_together(storage, [(".../manifest-1", data), (".../manifest-list-1", data)])

On a disk they wait for it once, and their directory is synced once: a commit's metadata files cost about as much as one. Whatever fails, files may be left that
nothing refers to: whoever wrote deletes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.storage.local import LocalStorage
from lakekit.world import each, one_by_one

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.storage.protocol import Storage


def write_together(storage: Storage, files: Sequence[tuple[str, bytes]]) -> None:
    """Writes whole files. Raises `StorageFailed`."""

    def write(one: tuple[str, bytes]) -> None:
        path, data = one
        with storage.open_write(path) as file:
            file.write(data)

    if isinstance(storage, LocalStorage) and len(files) > 1:
        storage.write_together(files)
    elif storage.is_remote:
        each(write, files, waiting=True)
    else:
        one_by_one(write, files)
