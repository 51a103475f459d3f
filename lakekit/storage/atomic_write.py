"""A file claimed, with a look where the storage fails: only what is sure is told (RELIABILITY D2).

put_once(storage, "…/snapshot-7", data)   True: it is there with this content      False: somebody else's is
                                          StorageFailed: nothing is there          CommitStateUnknown: nobody can tell

On a store that creates nothing exclusively, a lock that is held does instead: looked at, asked whether it is still ours, and written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.errors import CommitStateUnknown, LakekitError, StorageFailed, Unsupported
from lakekit.storage.protocol import ClaimRefused, FileMissing, OutsideRoot

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.storage.protocol import Storage


def create_exclusive(storage: Storage, path: str, data: bytes, *, held: Callable[[], None] | None = None) -> bool:
    """`storage.put_if_absent`, but that an answer which was lost is looked up. `held` raises when the lock is no longer ours; None: there is no lock.

    Raises `CommitStateUnknown`, and what the storage said where nothing is there; `Unsupported` for a store without conditional PUT and no lock.
    """
    try:
        return storage.put_if_absent(path, data)
    except (ClaimRefused, OutsideRoot):
        raise
    except LakekitError as failed:
        if held is not None and isinstance(failed, Unsupported) and failed.feature == "storage.conditional-put":
            return _put_under_lock(storage, path, data, held)
        try:
            return storage.read(path) == data
        except FileMissing:
            raise failed from None
        except StorageFailed as unreadable:
            raise _unknown_outcome(path, failed, unreadable) from failed


def _put_under_lock(storage: Storage, path: str, data: bytes, held: Callable[[], None]) -> bool:
    """Whether the file is ours, where nobody else writes it as long as the lock is held."""
    try:
        return storage.read(path) == data
    except FileMissing:
        held()
    failed: LakekitError | None = None
    try:
        storage.put(path, data)
    except StorageFailed as wrong:
        failed = wrong
    try:
        return storage.read(path) == data
    except StorageFailed as unreadable:
        raise _unknown_outcome(path, failed or unreadable, unreadable) from failed


def _unknown_outcome(path: str, failed: LakekitError, unreadable: StorageFailed) -> CommitStateUnknown:
    why = f"{path} could not be created ({failed.message}) and cannot be read ({unreadable.message}). Look whether it is there before trying again"
    return CommitStateUnknown(why)
