"""The local disk for one writer's commits: small files are synced together."""

from __future__ import annotations

import io
from contextlib import ExitStack
from typing import TYPE_CHECKING

from lakekit.errors import StorageFailed
from lakekit.storage import sync
from lakekit.storage.local import LocalStorage, create_file
from lakekit.storage.local_files import storage_failure, write_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakekit.storage.local_files import Temporary

_GATHERED_BYTES = 1 << 20
"""Bigger files are synced at once: nobody waits for them with a snapshot to claim."""
_SYNCED_AT_ONCE = 64
"""Files that are open for it."""


class DeferredSync(LocalStorage):
    """The local disk for one writer's commits: small files are synced together when a commit is created.

    A file appears under its name at once. It is durable when `put_if_absent` has created a file, or `settle` returned:
    both sync all pending files and their directories first. Until then nothing durable may refer to it. A file that
    could not be synced is never taken for durable again: its writer deletes it.
    """

    __slots__ = ("_lost", "_waiting")
    _lost: set[str]
    _waiting: dict[str, None]

    def __init__(self, roots: tuple[str, ...] = ()) -> None:
        object.__setattr__(self, "roots", roots)
        object.__setattr__(self, "_seen", None)
        object.__setattr__(self, "_lost", set())
        object.__setattr__(self, "_waiting", {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalStorage) and self.roots == other.roots

    __hash__ = LocalStorage.__hash__  # the same files, so that what was remembered of them is found

    def __reduce__(self) -> tuple[type[LocalStorage], tuple[tuple[str, ...]]]:
        return LocalStorage, (self.roots,)

    def _with_roots(self, roots: tuple[str, ...]) -> LocalStorage:
        other = DeferredSync(roots)
        for name in ("_lost", "_waiting"):  # what waits is one and the same
            object.__setattr__(other, name, getattr(self, name))
        return other

    def settle(self) -> None:
        """Return when every file written so far is durable. Raises `StorageFailed`."""
        self._settle(None)

    def write_together(self, files: Sequence[tuple[str, bytes]]) -> None:
        for path, data in files:
            self._waiting[path] = None
            try:
                directory, _, file = self._new(path, create_file, is_temporary=False)
                directory.close()
                with file:
                    write_all(file, data)
            except (OSError, ValueError) as wrong:
                raise storage_failure(path, wrong) from wrong

    def delete(self, paths: Iterable[str]) -> None:
        deleted = list(paths)
        LocalStorage.delete(self, deleted)
        for path in deleted:
            self._waiting.pop(path, None)
            self._lost.discard(path)

    def _gathers(self, size_bytes: int) -> bool:
        return size_bytes <= _GATHERED_BYTES

    def _gathered(self, path: str) -> None:
        self._waiting[path] = None

    def _settle(self, claimed: Temporary | None) -> None:
        if self._lost:
            raise StorageFailed(
                f"{min(self._lost)} could not be synced: its rows must be written again", path=min(self._lost)
            )
        waiting, own = list(self._waiting), [] if claimed is None else [claimed.file]
        for start in range(0, max(1, len(waiting)), _SYNCED_AT_ONCE):
            self._sync(waiting[start : start + _SYNCED_AT_ONCE], own if start == 0 else ())
        for directory in {f"{path.rpartition('/')[0]}/": None for path in waiting}:
            self._sync_names(directory)
        for path in waiting:
            self._waiting.pop(path, None)

    def _sync(self, paths: Sequence[str], claimed: Sequence[io.FileIO]) -> None:
        """Wait until the bytes of these files are durable."""
        with ExitStack() as stack:
            try:
                files = [*(stack.enter_context(io.FileIO(path)) for path in paths), *claimed]
                try:
                    sync.files(files)
                except OSError:
                    self._lost.update(paths)  # the system may take their pages for written from here on
                    raise
            except OSError as wrong:
                if wrong.filename not in paths:
                    raise
                raise storage_failure(wrong.filename, wrong) from wrong

    def _sync_names(self, directory: str) -> None:
        try:
            sync.directory_of(directory)
        except OSError as wrong:
            self._lost.update(path for path in self._waiting if path.startswith(directory))
            raise storage_failure(directory, wrong) from wrong
