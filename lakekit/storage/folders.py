"""Whole folders: made, moved and removed. Only catalogs do that; tables never do.

A storage that has real folders is a `Folders`. Elsewhere a folder is the beginning of names: one that should be there though nothing lies in it gets a
marker, and none is moved, since that would be a copy that others see half done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from lakekit.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakekit.storage.protocol import Stat, Storage

MARKER = ".folder"


@runtime_checkable
class Folders(Protocol):
    """A storage with folders that exist by themselves."""

    def make_directory(self, path: str) -> None:
        """Makes a folder and those above it, safe from power loss; one that is there is left alone."""
        ...

    def move_directory(self, source: str, target: str) -> None:
        """Moves a folder to a place where nothing is, in one step."""
        ...


def make(storage: Storage, path: str) -> None:
    """Makes a folder."""
    if isinstance(storage, Folders):
        storage.make_directory(path)
    else:
        storage.put_if_absent(f"{path}/{MARKER}", b"")


def move(storage: Storage, source: str, target: str) -> None:
    """Moves a folder to a place where nothing is. Raises `Unsupported` where folders are only the beginnings of names."""
    if not isinstance(storage, Folders):
        raise Unsupported(
            f'"{source}" cannot be renamed: its storage has no folders, and a copy would be seen half done', feature="storage.rename", path=source
        )
    storage.move_directory(source, target)


def remove(storage: Storage, path: str, *, first: Sequence[str] = (), last: Sequence[str] = ()) -> None:
    """Deletes a folder with everything in it; folders `first` within it before all others, `last` after them, in their order. Links are not followed."""
    for part in (*first, "", *last):
        top = part or path
        if part and not _is_folder(storage, part):
            continue
        for folder, inside in _deepest_first(storage, top, () if part else last):
            storage.delete([one.path for one in inside if not one.is_dir])
            storage.remove_directories([folder])
    storage.remove_directories([path])


def _is_folder(storage: Storage, path: str) -> bool:
    """Whether that is a folder, and no link to one elsewhere: a listing tells them apart."""
    above, _, name = path.rpartition("/")
    return any(one.is_dir and one.name == name for one in storage.list(above))


def _deepest_first(storage: Storage, folder: str, without: Sequence[str]) -> Iterator[tuple[str, list[Stat]]]:
    inside = storage.list(folder)
    for one in inside:
        if one.is_dir and one.path not in without:
            yield from _deepest_first(storage, one.path, without)
    yield folder, inside
