"""Create, move and remove whole folders; used by catalogs, never by tables.

A storage with real folders is a `SupportsDirectories`. Elsewhere a folder is a prefix of names: an empty folder gets a
marker file, and none is moved, since that would be a copy visible half done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from lakekit.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakekit.storage.protocol import Stat, Storage

MARKER = ".folder"


@runtime_checkable
class SupportsDirectories(Protocol):
    """A storage with folders that exist without files."""

    def make_directory(self, path: str) -> None:
        """Create a folder and its parents, synced; an existing one is left alone."""
        ...

    def move_directory(self, source: str, target: str) -> None:
        """Move a folder to a free path, in one step; a link to a folder stays a link."""
        ...

    def links(self, directory: str) -> Sequence[tuple[str, bool]]:
        """Return the names of the links in a folder, and whether each leads to a folder.

        `Storage.list` skips them.
        """
        ...

    def entry_kind(self, path: str) -> Literal["folder", "link", "file"] | None:
        """Return the kind of the entry at a path; None: nothing is there, or a link is on the way."""
        ...

    def link_target(self, path: str) -> str | None:
        """Return the target of a link, as written; None: it is no link, or another link is on the way."""
        ...


def make(storage: Storage, path: str) -> None:
    """Create a folder."""
    if isinstance(storage, SupportsDirectories):
        storage.make_directory(path)
    else:
        storage.put_if_absent(f"{path}/{MARKER}", b"")


def move(storage: Storage, source: str, target: str) -> None:
    """Move a folder to a free path. Raises `Unsupported` if folders are only prefixes of names."""
    if not isinstance(storage, SupportsDirectories):
        raise Unsupported(
            f'"{source}" cannot be renamed: its storage has no folders, and a copy would be seen half done',
            feature="storage.rename",
            path=source,
        )
    storage.move_directory(source, target)


def remove(storage: Storage, path: str, *, first: Sequence[str] = (), last: Sequence[str] = ()) -> None:
    """Delete a folder with its contents.

    Folders `first` inside it before all others, `last` after them, in order. Links are deleted, their targets stay; the
    folder itself may be a link.
    """
    if link_target(storage, path) is not None:
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
                    *(f"{folder}/{name}" for name, _ in _links(storage, folder)),
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
            *(name for name, is_dir in _links(storage, directory) if is_dir),
        ]
    )


def link_names(storage: Storage, folder: str) -> Sequence[str]:
    """Return the names of the links in a folder that `Storage.list` skips: to folders, and broken ones."""
    listed = {entry.name for entry in storage.list(folder)}
    return [name for name, _ in _links(storage, folder) if name not in listed]


def is_there(storage: Storage, path: str) -> bool:
    """Return whether something has that name, even a link to nothing."""
    return (
        storage.entry_kind(path) is not None
        if isinstance(storage, SupportsDirectories)
        else storage.stat(path) is not None
    )


def link_target(storage: Storage, path: str) -> str | None:
    """Return the target of a link, as written; None: it is no link, or another link is on the way."""
    return storage.link_target(path) if isinstance(storage, SupportsDirectories) else None


def _links(storage: Storage, folder: str) -> Sequence[tuple[str, bool]]:
    return storage.links(folder) if isinstance(storage, SupportsDirectories) else ()


def _deepest_first(storage: Storage, folder: str, without: Sequence[str]) -> Iterator[tuple[str, list[Stat]]]:
    inside = storage.list(folder)
    for entry in inside:
        if entry.is_dir and entry.path not in without:
            yield from _deepest_first(storage, entry.path, without)
    yield folder, inside
