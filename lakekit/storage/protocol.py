"""The storage protocol. Paths are whole paths or keys as text, with `/` between their parts.

A storage fails with `StorageFailed`, and with `FileMissing` if a file does not exist. There is no rename and no
check-then-act call: a file is created exclusively by `put_if_absent`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, runtime_checkable

from lakekit.errors import StorageFailed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager


class FileMissing(StorageFailed, FileNotFoundError):
    """There is no file at `path`."""


class ClaimRefused(StorageFailed):
    """A store did not create a file, and no earlier attempt was lost: no file of ours exists."""


class OutsideRoot(StorageFailed):
    """`path` leads out of the folders that its storage is confined to; nothing was done there.

    It does so by a link, by ".." or from the start.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """A file or directory in a listing.

    `tag` changes whenever its content may have changed, None if the storage cannot tell.
    """

    path: str
    size_bytes: int
    modified_ms: int
    is_dir: bool = False
    tag: str | None = None

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


@runtime_checkable
class SupportsConfinement(Protocol):
    """A storage that can be confined to folders: see `storage.confine`."""

    def confined(self, roots: Iterable[str]) -> Storage:
        """Return the same storage confined to these roots, instead of its present ones."""
        ...

    def confined_too(self, roots: Iterable[str]) -> Storage:
        """Return the same storage for files below these roots too; an unconfined one is returned unchanged."""
        ...


@runtime_checkable
class Storage(Protocol):
    """Reads and writes files by path."""

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return the bytes of a file from `offset` on, at most `length`, fewer at its end.

        Raises `FileMissing`.
        """
        ...

    def stat(self, path: str) -> Stat | None:
        """Return the stat of a file or directory; None if there is none."""
        ...

    def size(self, path: str) -> int:
        """Return the size of a file in bytes. Raises `FileMissing`."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether there is a file or directory. Says nothing about the next moment."""
        ...

    def list(self, directory: str) -> list[Stat]:
        """Return the entries directly in a directory, by name; empty if there is none."""
        ...

    def put(self, path: str, data: bytes) -> None:
        """Write a whole file in one step, replacing an existing one."""
        ...

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a whole file in one step only if none exists, durably.

        True: it exists with this content. False: another one exists. Raises `CommitStateUnknown` if it cannot be
        determined.
        """
        ...

    def open_write(self, path: str) -> AbstractContextManager[BinaryIO]:
        """Open a file for writing; it appears, complete, when the block ends, and never after an exception."""
        ...

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; missing ones are ignored."""
        ...

    def remove_directories(self, paths: Iterable[str]) -> None:
        """Delete those directories that are empty, in this order; the others stay.

        Does nothing if directories are only parts of names.
        """
        ...

    def polars(self, path: str) -> str | None:
        """Return the path by which Polars may open the file itself.

        None: it must be read through this storage.
        """
        ...

    def polars_options(self) -> dict[str, Any]:
        """Return the arguments of Polars' scans: `storage_options` and `credential_provider`.

        None if a path is enough.
        """
        ...

    @property
    def is_remote(self) -> bool:
        """Return whether each call is a network request, so that few and concurrent calls are best."""
        ...
