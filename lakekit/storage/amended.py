"""A small file that counts: its last digit is written in its place, where that is all that changes.

    amend(storage, ".../LATEST", b"1234", b"1235")     True: it was 1234 and is 1235          False: it may be another, and a whole file is to be put

One byte changes at once, for every reader and where power is lost, and other digits never change in a file that stands: whoever reads meets a number that
somebody wrote, also where several count at the same time. On a disk that spares a new file, its name and its blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.storage.local import LocalStorage

if TYPE_CHECKING:
    from lakekit.storage.protocol import Storage


def amend(storage: Storage, path: str, before: bytes, after: bytes) -> bool:
    """Whether a file of exactly that content got its last byte changed. Never fails."""
    return isinstance(storage, LocalStorage) and storage.amend(path, before, after)
