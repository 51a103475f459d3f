"""The storage protocol, and what some storages can do besides: folders, second names, a commit queue.

    Storage                 paths are whole paths or keys as text, with `/` between their parts
    SupportsDirectories     has real folders; elsewhere a folder is a prefix of names: an empty folder gets a marker
                            file, and none is moved, since that would be a copy visible half done
    SupportsHardLinks       gives a file a second name without reading it
    SupportsCommitQueue     of the commits that lost a race for a file, one at a time retries

A storage fails with `StorageFailed`, and with `FileMissing` if a file does not exist. There is no rename and no
check-then-act call: a file is created exclusively by `put_if_absent`. Whole folders are created, moved and removed by
catalogs, never by tables.

A linked file exists at both paths, and a change of its bytes is seen at both; for callers that delete the first name
soon. `hard_link(path, target_storage, target)` returns True if the link exists, durably; False if the file has to be
copied, as to another disk.

A turn in the queue is advice, and no commit relies on it: it only keeps many processes on one machine from disturbing
each other until one of them gives up. `enter_commit_queue(directory, timeout_ms)` is a context manager that yields
whether the turn was granted, until it ends.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Protocol, runtime_checkable

from lakekit.errors import StorageFailed, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

SCHEMES = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "oss": "s3",
    "gs": "gs",
    "gcs": "gs",
    "az": "azure",
    "azure": "azure",
    "adl": "azure",
    "abfs": "azure",
    "abfss": "azure",
}
"""Scheme of a URL -> the protocol of its store. OSS is spoken to by its S3-compatible endpoint."""
SCHEME_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
"""Schemes that are another name of one."""


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

    def with_roots(self, roots: Iterable[str]) -> Storage:
        """Return the same storage confined to these roots, instead of its present ones."""
        ...

    def with_added_roots(self, roots: Iterable[str]) -> Storage:
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

    def polars_path(self, path: str) -> str | None:
        """Return the path by which Polars may open the file itself.

        Returns None if it must be read through this storage.
        """
        ...

    def polars_scan_options(self) -> dict[str, Any]:
        """Return the arguments of Polars' scans: `storage_options` and `credential_provider`.

        Returns None if a path is enough.
        """
        ...

    @property
    def is_remote(self) -> bool:
        """Return whether each call is a network request, so that few and concurrent calls are best."""
        ...


# ---- folders ------------------------------------------------------------


FOLDER_MARKER = ".folder"


@runtime_checkable
class SupportsDirectories(Protocol):
    """A storage with folders that exist without files."""

    def make_directory(self, path: str) -> None:
        """Create a folder and its parents, synced; an existing one is left alone."""
        ...

    def move_directory(self, source: str, target: str) -> None:
        """Move a folder to a free path, in one step; a link to a folder stays a link."""
        ...

    def symlinks(self, directory: str) -> Sequence[tuple[str, bool]]:
        """Return the names of the links in a folder, and whether each leads to a folder.

        `Storage.list` skips them.
        """
        ...

    def entry_kind(self, path: str) -> Literal["folder", "link", "file"] | None:
        """Return the kind of the entry at a path; None if there is none, or if a link is on the way."""
        ...

    def symlink_target(self, path: str) -> str | None:
        """Return the target of a link, as written; None if it is no link, or if another link is on the way."""
        ...


def make_folder(storage: Storage, path: str) -> None:
    """Create a folder."""
    if isinstance(storage, SupportsDirectories):
        storage.make_directory(path)
    else:
        storage.put_if_absent(f"{path}/{FOLDER_MARKER}", b"")


def move_folder(storage: Storage, source: str, target: str) -> None:
    """Move a folder to a free path. Raises `Unsupported` if folders are only prefixes of names."""
    if not isinstance(storage, SupportsDirectories):
        raise Unsupported(
            f'"{source}" cannot be renamed: its storage has no folders, and a copy would be seen half done',
            feature="storage.rename",
            path=source,
        )
    storage.move_directory(source, target)


def remove_folder(storage: Storage, path: str, *, first: Sequence[str] = (), last: Sequence[str] = ()) -> None:
    """Delete a folder with its contents.

    Folders `first` inside it before all others, `last` after them, in order. Links are deleted, their targets stay; the
    folder itself may be a link.
    """
    if symlink_target(storage, path) is not None:
        storage.delete([path])
        return
    for part in (*first, "", *last):
        top = part or path
        if part and not is_folder(storage, part):
            continue
        for folder, inside in _deepest_first(storage, top, () if part else last):
            storage.delete(
                [
                    *(entry.path for entry in inside if not entry.is_dir),
                    *(f"{folder}/{name}" for name, _ in _list_symlinks(storage, folder)),
                ]
            )
            storage.remove_directories([folder])
    storage.remove_directories([path])


def is_folder(storage: Storage, path: str) -> bool:
    """Return whether that is a folder, and neither a link to one nor below a link."""
    if isinstance(storage, SupportsDirectories):
        return storage.entry_kind(path) == "folder"
    above, _, name = path.rpartition("/")
    return any(entry.is_dir and entry.name == name for entry in storage.list(above))


def list_folders(storage: Storage, directory: str) -> Sequence[str]:
    """Return the names of the folders in a folder, and of links to folders, sorted.

    Such links may be roots of their own.
    """
    return sorted(
        [
            *(entry.name for entry in storage.list(directory) if entry.is_dir),
            *(name for name, is_dir in _list_symlinks(storage, directory) if is_dir),
        ]
    )


def link_names(storage: Storage, folder: str) -> Sequence[str]:
    """Return the names of the links in a folder that `Storage.list` skips: to folders, and broken ones."""
    listed = {entry.name for entry in storage.list(folder)}
    return [name for name, _ in _list_symlinks(storage, folder) if name not in listed]


def entry_exists(storage: Storage, path: str) -> bool:
    """Return whether something has that name, even a link to nothing."""
    return (
        storage.entry_kind(path) is not None
        if isinstance(storage, SupportsDirectories)
        else storage.stat(path) is not None
    )


def symlink_target(storage: Storage, path: str) -> str | None:
    """Return the target of a link, as written; None if it is no link, or if another link is on the way."""
    return storage.symlink_target(path) if isinstance(storage, SupportsDirectories) else None


def _list_symlinks(storage: Storage, folder: str) -> Sequence[tuple[str, bool]]:
    return storage.symlinks(folder) if isinstance(storage, SupportsDirectories) else ()


def _deepest_first(storage: Storage, folder: str, excluded_folders: Sequence[str]) -> Iterator[tuple[str, list[Stat]]]:
    inside = storage.list(folder)
    for entry in inside:
        if entry.is_dir and entry.path not in excluded_folders:
            yield from _deepest_first(storage, entry.path, excluded_folders)
    yield folder, inside


# ---- linked ------------------------------------------------------------


@runtime_checkable
class SupportsHardLinks(Protocol):
    """A storage whose files may have several names."""

    def hard_link(self, path: str, target_storage: Any, target: str) -> bool:
        """Give a file another name, at a free path in a storage of the same kind.

        Raises `FileMissing`, `StorageFailed`.
        """
        ...


def hard_link(storage: Storage, path: str, target_storage: Storage, target: str) -> bool:
    """Link a file to another path; return False if nothing was done.

    Raises `FileMissing`, `StorageFailed`.
    """
    return (
        isinstance(storage, SupportsHardLinks)
        and type(storage) is type(target_storage)
        and storage.hard_link(path, target_storage, target)
    )


# ---- turns ------------------------------------------------------------


@runtime_checkable
class SupportsCommitQueue(Protocol):
    """A storage with a commit queue."""

    def enter_commit_queue(self, directory: str, timeout_ms: float) -> AbstractContextManager[bool]:
        """Wait for a turn, at most that long; yield whether it was granted. Never fails."""
        ...


def commit_queue(storage: Storage, directory: str, timeout_ms: float) -> AbstractContextManager[bool]:
    """Wait for a turn among the writers of a directory; yield False at once without a queue."""
    # every commit asks, and `isinstance` is slow to tell
    enter: Callable[[str, float], AbstractContextManager[bool]] | None = getattr(storage, "enter_commit_queue", None)
    return nullcontext(enter_result=False) if enter is None else enter(directory, timeout_ms)
