"""Exclusive creation of a file, looked up if the storage fails; small files synced together.

    create_exclusive(storage, "…/snapshot-7", data)   True: it exists with this content     False: another one exists
                                                      StorageFailed: nothing exists         CommitStateUnknown: unknown

    storage = defer_sync(storage)       the local disk for one writer: small files, its data files too, are synced when
                                        a snapshot is created, and all at once
    put_all(storage, [(".../manifest-1", data), (".../manifest-list-1", data)])             in parallel
    sync_all(storage)                   now all are durable

Only certain outcomes are reported. On a store without conditional PUT a held lock replaces it: look the file up, check
that the lock is still ours, write.

Files that are needed together are synced together, and their directory once: a commit's metadata files cost about as
much as one. All are durable when `put_all` returns, unless the storage defers syncs. On failure unreferenced files may
be left: their writer deletes them.

Source: RELIABILITY D2.
"""

from __future__ import annotations

import io
from contextlib import ExitStack
from typing import TYPE_CHECKING

from lakekit.errors import CommitStateUnknown, LakekitError, StorageFailed, Unsupported
from lakekit.parallel import map_io
from lakekit.storage import confinement
from lakekit.storage.local import LocalStorage, create_file
from lakekit.storage.local_files import make_storage_failure, write_all
from lakekit.storage.protocol import ClaimRefused, FileMissing, OutsideRoot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lakekit.storage.local_files import TemporaryFile
    from lakekit.storage.protocol import Storage


def create_exclusive(storage: Storage, path: str, data: bytes, *, check_lock: Callable[[], None] | None = None) -> bool:
    """Create a file as `storage.put_if_absent` does, and look it up if the answer was lost.

    `check_lock` raises if the lock is no longer ours; None: there is no lock. Raises `CommitStateUnknown`; the
    storage's error if nothing exists; `Unsupported` for a store without conditional PUT and no lock.
    """
    try:
        return storage.put_if_absent(path, data)
    except (ClaimRefused, OutsideRoot):
        raise
    except LakekitError as failed:
        if check_lock is not None and isinstance(failed, Unsupported) and failed.feature == "storage.conditional-put":
            return _put_under_lock(storage, path, data, check_lock)
        try:
            return storage.read(path) == data
        except FileMissing:
            raise failed from None
        except StorageFailed as unreadable:
            raise _unknown_outcome(path, failed, unreadable) from failed


def _put_under_lock(storage: Storage, path: str, data: bytes, check_lock: Callable[[], None]) -> bool:
    """Write the file under the lock; return whether its content is ours."""
    try:
        return storage.read(path) == data
    except FileMissing:
        check_lock()
    failed: LakekitError | None = None
    try:
        storage.put(path, data)
    except StorageFailed as wrong:
        failed = wrong
    try:
        return storage.read(path) == data
    except StorageFailed as unreadable:
        raise _unknown_outcome(path, failed or unreadable, unreadable) from failed


def _unknown_outcome(path: str, error: LakekitError, unreadable: StorageFailed) -> CommitStateUnknown:
    why = (
        f"{path} could not be created ({error.message}) and cannot be read ({unreadable.message}). Look whether it "
        "is there before trying again"
    )
    return CommitStateUnknown(why)


# ---- gathering ------------------------------------------------------------


_GATHERED_BYTES = 1 << 20
"""Bigger files are synced at once: nobody waits for them with a snapshot to claim."""
_SYNCED_AT_ONCE = 64
"""Files that are open for it."""


class DeferredSync(LocalStorage):
    """The local disk for one writer's commits: small files are synced together when a commit is created.

    A file appears under its name at once. It is durable when `put_if_absent` has created a file, or `sync_pending`
    returned:
    both sync all pending files and their directories first. Until then nothing durable may refer to it. A file that
    could not be synced is never taken for durable again: its writer deletes it.
    """

    __slots__ = ("_lost_paths", "_pending_paths")
    _lost_paths: set[str]
    _pending_paths: dict[str, None]

    def __init__(self, roots: tuple[str, ...] = ()) -> None:
        object.__setattr__(self, "roots", roots)
        object.__setattr__(self, "_checked_paths", None)
        object.__setattr__(self, "_lost_paths", set())
        object.__setattr__(self, "_pending_paths", {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalStorage) and self.roots == other.roots

    __hash__ = LocalStorage.__hash__  # the same files, so that what was remembered of them is found

    def __reduce__(self) -> tuple[type[LocalStorage], tuple[tuple[str, ...]]]:
        return LocalStorage, (self.roots,)

    def _copy_with_roots(self, roots: tuple[str, ...]) -> LocalStorage:
        other = DeferredSync(roots)
        for name in ("_lost", "_waiting"):  # what waits is one and the same
            object.__setattr__(other, name, getattr(self, name))
        return other

    def sync_pending(self) -> None:
        """Return when every file written so far is durable. Raises `StorageFailed`."""
        self._sync_before_create(None)

    def put_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        for path, data in files:
            self._pending_paths[path] = None
            try:
                directory, _, file = self._create_new(path, create_file, is_temporary=False)
                directory.close()
                with file:
                    write_all(file, data)
            except (OSError, ValueError) as wrong:
                raise make_storage_failure(path, wrong) from wrong

    def delete(self, paths: Iterable[str]) -> None:
        deleted = list(paths)
        LocalStorage.delete(self, deleted)
        for path in deleted:
            self._pending_paths.pop(path, None)
            self._lost_paths.discard(path)

    def _defers_sync(self, size_bytes: int) -> bool:
        return size_bytes <= _GATHERED_BYTES

    def _register_for_sync(self, path: str) -> None:
        self._pending_paths[path] = None

    def _sync_before_create(self, claimed: TemporaryFile | None) -> None:
        if self._lost_paths:
            raise StorageFailed(
                f"{min(self._lost_paths)} could not be synced: its rows must be written again",
                path=min(self._lost_paths),
            )
        waiting, own = list(self._pending_paths), [] if claimed is None else [claimed.file]
        for start in range(0, max(1, len(waiting)), _SYNCED_AT_ONCE):
            self._sync(waiting[start : start + _SYNCED_AT_ONCE], own if start == 0 else ())
        for directory in {f"{path.rpartition('/')[0]}/": None for path in waiting}:
            self._sync_names(directory)
        for path in waiting:
            self._pending_paths.pop(path, None)

    def _sync(self, paths: Sequence[str], claimed: Sequence[io.FileIO]) -> None:
        """Wait until the bytes of these files are durable."""
        with ExitStack() as stack:
            try:
                files = [*(stack.enter_context(io.FileIO(path)) for path in paths), *claimed]
                try:
                    confinement.sync_files(files)
                except OSError:
                    self._lost_paths.update(paths)  # the system may take their pages for written from here on
                    raise
            except OSError as wrong:
                if wrong.filename not in paths:
                    raise
                raise make_storage_failure(wrong.filename, wrong) from wrong

    def _sync_names(self, directory: str) -> None:
        try:
            confinement.sync_directory(directory)
        except OSError as wrong:
            self._lost_paths.update(path for path in self._pending_paths if path.startswith(directory))
            raise make_storage_failure(directory, wrong) from wrong


# ---- together ------------------------------------------------------------


def defer_sync(storage: Storage) -> Storage:
    """Return the storage with syncs deferred until `put_if_absent` creates a file, or until `sync_all`.

    A storage where that saves nothing is returned unchanged.
    """
    return DeferredSync(storage.roots) if type(storage) is LocalStorage else storage


def sync_all(storage: Storage) -> None:
    """Return when everything written through `defer_sync` is durable. Raises `StorageFailed`."""
    if isinstance(storage, DeferredSync):
        storage.sync_pending()


def put_all(storage: Storage, files: Sequence[tuple[str, bytes]]) -> None:
    """Write whole files; through `defer_sync` they become durable later. Raises `StorageFailed`."""

    def write(path_and_data: tuple[str, bytes]) -> None:
        path, data = path_and_data
        with storage.open_write(path) as file:
            file.write(data)

    if isinstance(storage, LocalStorage) and len(files) > 1:
        storage.put_all(files)
    else:
        map_io(write, files, is_remote=storage.is_remote)
