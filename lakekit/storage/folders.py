"""Whole folders: made, moved and removed. Only catalogs do that; tables never do.

A storage that has real folders is a `SupportsDirectories`. Elsewhere a folder is the beginning of names: one that should be there though nothing
lies in it gets a
marker, and none is moved, since that would be a copy that others see half done.
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
    """A storage with folders that exist by themselves."""

    def make_directory(self, path: str) -> None:
        """Makes a folder and those above it, safe from power loss; one that is there is left alone."""
        ...

    def move_directory(self, source: str, target: str) -> None:
        """Moves a folder to a place where nothing is, in one step; a link to one stays a link."""
        ...

    def links(self, directory: str) -> Sequence[tuple[str, bool]]:
        """The names of the links in a folder, which `Storage.list` passes over, and whether each leads to a folder."""
        ...

    def entry_kind(self, path: str) -> Literal["folder", "link", "file"] | None:
        """What has that name; None: nothing, or a link stands on the way."""
        ...

    def link_target(self, path: str) -> str | None:
        """Where a link leads to, as it says; None: that is none, or another link stands on the way."""
        ...


def make(storage: Storage, path: str) -> None:
    """Makes a folder."""
    if isinstance(storage, SupportsDirectories):
        storage.make_directory(path)
    else:
        storage.put_if_absent(f"{path}/{MARKER}", b"")


def move(storage: Storage, source: str, target: str) -> None:
    """Moves a folder to a place where nothing is. Raises `Unsupported` where folders are only the beginnings of names."""
    if not isinstance(storage, SupportsDirectories):
        raise Unsupported(
            f'"{source}" cannot be renamed: its storage has no folders, and a copy would be seen half done', feature="storage.rename", path=source
        )
    storage.move_directory(source, target)


def remove(storage: Storage, path: str, *, first: Sequence[str] = (), last: Sequence[str] = ()) -> None:
    """Deletes a folder with everything in it; folders `first` within it before all others, `last` after them, in their order.

    Links go, and what they lead to stays; the folder itself may be one.
    """
    if link_target(storage, path) is not None:
        storage.delete([path])
        return
    for part in (*first, "", *last):
        top = part or path
        if part and not is_folder(storage, part):
            continue
        for folder, inside in _deepest_first(storage, top, () if part else last):
            storage.delete([*(one.path for one in inside if not one.is_dir), *(f"{folder}/{name}" for name, _ in _links(storage, folder))])
            storage.remove_directories([folder])
    storage.remove_directories([path])


def is_folder(storage: Storage, path: str) -> bool:
    """Return whether that is a folder, and neither a link to one nor below a link."""
    if isinstance(storage, SupportsDirectories):
        return storage.entry_kind(path) == "folder"
    above, _, name = path.rpartition("/")
    return any(one.is_dir and one.name == name for one in storage.list(above))


def list_folders(storage: Storage, directory: str) -> Sequence[str]:
    """Return the names of the folders in a folder, and of the links to folders, which may be roots of their own; by name."""
    return sorted([*(one.name for one in storage.list(directory) if one.is_dir), *(name for name, is_dir in _links(storage, directory) if is_dir)])


def link_names(storage: Storage, folder: str) -> Sequence[str]:
    """Return the names of the links in a folder that `Storage.list` passes over: to folders, and to nothing."""
    listed = {one.name for one in storage.list(folder)}
    return [name for name, _ in _links(storage, folder) if name not in listed]


def is_there(storage: Storage, path: str) -> bool:
    """Return whether something has that name, even a link to nothing."""
    return storage.entry_kind(path) is not None if isinstance(storage, SupportsDirectories) else storage.stat(path) is not None


def link_target(storage: Storage, path: str) -> str | None:
    """Return where a link leads to, as it says; None for what is no link."""
    return storage.link_target(path) if isinstance(storage, SupportsDirectories) else None


def _links(storage: Storage, folder: str) -> Sequence[tuple[str, bool]]:
    return storage.links(folder) if isinstance(storage, SupportsDirectories) else ()


def _deepest_first(storage: Storage, folder: str, without: Sequence[str]) -> Iterator[tuple[str, list[Stat]]]:
    inside = storage.list(folder)
    for one in inside:
        if one.is_dir and one.path not in without:
            yield from _deepest_first(storage, one.path, without)
    yield folder, inside
