"""What a storage can do. Paths are whole paths or keys as text, with `/` between their parts.

A storage says no with `StorageFailed`, and with `FileMissing` where there is no such file. There is no rename and nothing that invites looking before
leaping: a file is claimed by `put_if_absent`.
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
    """A store answered that it did not create a file, and no earlier try of that was lost: nothing is there that is ours."""


class OutsideRoot(StorageFailed):
    """`path` leads out of the folders that its storage is confined to, by a link, by ".." or from the start; nothing was done there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """What a listing says of one file or directory; `tag` changes whenever its content may have changed, None where the storage cannot tell."""

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
    """A storage that can be confined to folders: `lakekit.storage.confine`."""

    def confined(self, roots: Iterable[str]) -> Storage:
        """Return the same storage for what lies below these roots alone, in place of those that it is confined to."""
        ...

    def confined_too(self, roots: Iterable[str]) -> Storage:
        """Return the same storage for what lies below these roots too; one that is not confined stays as it is."""
        ...


@runtime_checkable
class Storage(Protocol):
    """Reads and writes files by path."""

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file from `offset` on, `length` at most; fewer where the file ends. Raises `FileMissing`."""
        ...

    def stat(self, path: str) -> Stat | None:
        """What the storage knows of a file or directory; None: there is none."""
        ...

    def size(self, path: str) -> int:
        """The size of a file in bytes. Raises `FileMissing`."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory. Says nothing about the next moment."""
        ...

    def list(self, directory: str) -> list[Stat]:
        """What lies directly in a directory, by name; empty when there is none."""
        ...

    def put(self, path: str, data: bytes) -> None:
        """Writes a whole file, replacing what was there, in one step."""
        ...

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Writes a whole file only if there is none, in one step and safe from power loss.

        True: it is there with this content. False: somebody else's is. Raises `CommitStateUnknown` when nobody can tell.
        """
        ...

    def open_write(self, path: str) -> AbstractContextManager[BinaryIO]:
        """A file to write to; it appears, whole, when the block is left, and never after an exception."""
        ...

    def delete(self, paths: Iterable[str]) -> None:
        """Removes files; one that is not there is none to remove."""
        ...

    def remove_directories(self, paths: Iterable[str]) -> None:
        """Removes those directories that are empty, in this order; the others stay. Where directories are but parts of names there is nothing to do."""
        ...

    def polars(self, path: str) -> str | None:
        """What Polars may open itself to read the file; None: it must go through this storage."""
        ...

    def polars_options(self) -> dict[str, Any]:
        """What Polars must be told to open it: `storage_options` and `credential_provider` of its scans; nothing where a path is enough."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether each call is a request over a network, so that few and many at once are better than many in turn."""
        ...
