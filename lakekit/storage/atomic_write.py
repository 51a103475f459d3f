"""Create a file exclusively, and look it up if the storage fails (RELIABILITY D2).

Only certain outcomes are reported.

create_exclusive(storage, "…/snapshot-7", data)   True: it exists with this content     False: another one exists
                                                  StorageFailed: nothing exists         CommitStateUnknown: unknown

On a store without conditional PUT a held lock replaces it: look the file up, check that the lock is still ours, write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.errors import CommitStateUnknown, LakekitError, StorageFailed, Unsupported
from lakekit.storage.protocol import ClaimRefused, FileMissing, OutsideRoot

if TYPE_CHECKING:
    from collections.abc import Callable

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


def _unknown_outcome(path: str, failed: LakekitError, unreadable: StorageFailed) -> CommitStateUnknown:
    why = (
        f"{path} could not be created ({failed.message}) and cannot be read ({unreadable.message}). Look whether it "
        "is there before trying again"
    )
    return CommitStateUnknown(why)
