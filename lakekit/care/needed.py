"""Which files only some roots need: what may go together with snapshots, tags or long-lived changelogs.

    only_needed_by(handle, gone, kept)     files that a root of `gone` refers to and no root of `kept` does; nothing is changed

What a root needs:

    snapshot    both manifest lists, their manifests and live files; changelog list, its manifests and files; index manifest and index files; statistics
    tag         the same without the changelog
    changelog   the changelog list and what is in it; where the table has no changelog producer, base and delta list, and the files of the delta that a
                flush made: they are the changelog

A row of snapshots without gaps is looked at in steps: a file that went is named by a DELETE of the next snapshot, and what the later ones hold is live at the
first or added since. Each manifest is read once. A root of `kept` that cannot be read raises; of one that goes, files that are gone already are passed over.
Source: FORMAT.md 3.8, 3.9, ENGINE.md 5.9, 5.10; RELIABILITY.md D4, D5; `SnapshotDeletion`, `TagDeletion`, `ChangelogDeletion`, `FileDeletionBase`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakekit.commit import ranges
from lakekit.files import deletions, places
from lakekit.meta import manifests
from lakekit.model import entries as columns_of
from lakekit.model.entries import ADD, DELETE, Entries
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Literal

    import numpy as np
    from numpy.typing import NDArray

    from lakekit.care.roots import Root
    from lakekit.meta.handle import Handle
    from lakekit.model.manifest import ManifestFile

    Which = Literal["base", "delta", "changelog"]

_FLUSH = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unneeded:
    """Paths of files, each with its size in bytes. `data`: data and changelog files and what lies beside them; `metadata`: lists, manifests, statistics."""

    data: dict[str, int] = field(default_factory=dict)
    index: dict[str, int] = field(default_factory=dict)
    metadata: dict[str, int] = field(default_factory=dict)

    @property
    def paths(self) -> list[str]:
        """All of them, data first."""
        return [*self.data, *self.index, *self.metadata]

    @property
    def size_bytes(self) -> int:
        """What they take together."""
        return sum(sum(part.values()) for part in (self.data, self.index, self.metadata))


def only_needed_by(handle: Handle, gone: Sequence[Root], kept: Sequence[Root]) -> Unneeded:
    """The files that may go with the roots `gone` while those of `kept` stay.

    Raises `FileMissing`, `Corrupt`, `Unsupported` where what a root needs cannot be told: nothing may be deleted then.
    """
    if not gone:
        return Unneeded()
    lists, files = _lists(handle, gone, missing_ok=True), _Files(handle)
    for path in _lists(handle, kept, missing_ok=False):
        lists.pop(path, None)
    data = {**_data(handle, gone, kept, files), **_changelogs(handle, gone, kept)}
    index, index_manifests = _index(handle, gone, kept)
    return Unneeded(
        data=_sized(handle, data),
        index=_sized(handle, index),
        metadata=_sized(handle, {**lists, **index_manifests, **_statistics(handle, gone, kept)}),
    )


def _sized(handle: Handle, paths: dict[str, int | None]) -> dict[str, int]:
    """The paths with their sizes; where nobody said one, files that are not there are left out."""
    found: dict[str, int] = {}
    for path, size_bytes in paths.items():
        if size_bytes is not None:
            found[path] = size_bytes
        elif (seen := handle.storage.stat(path)) is not None and not seen.is_dir:
            found[path] = seen.size_bytes
    return found


# ---- rows of snapshots ---------------------------------------------------------------------------------------------------------------------------------


def _by_place(some: Iterable[Root]) -> dict[tuple[str, int], Root]:
    """Snapshots by branch and number."""
    return {(root.branch, root.snapshot.id): root for root in some if root.kind == "snapshot"}


def _starts(kept: Sequence[Root]) -> tuple[list[Root], list[Root]]:
    """The roots of which everything is looked at, and the snapshots that follow another one, of which only what they added."""
    places_of = _by_place(kept)
    starts, steps = [], []
    for root in kept:
        same = places_of.get((root.branch, root.snapshot.id))
        if root.kind == "snapshot" and (root.branch, root.snapshot.id - 1) in places_of:
            steps.append(root)
        elif root.kind == "snapshot" or (root.kind == "tag" and (same is None or same.snapshot != root.snapshot)):
            starts.append(root)
    return starts, steps


# ---- data files ----------------------------------------------------------------------------------------------------------------------------------------


class _Files:
    """Entries of manifests about some files only. Each manifest is read once; those of other partitions are not read."""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self._found: dict[str, Entries] = {}
        self._names = pa.array([], pa.string())
        self._partitions: list[ranges.Values] = []

    def about(self, wanted: Entries) -> None:
        """From now on only entries of these files count."""
        self._names = wanted.column("file_name").unique()
        fields = self.handle.schema.partition_fields
        self._partitions = ranges.values_of(wanted.column("partition").unique().to_pylist(), fields) if fields else []

    def of(self, listed: Iterable[ManifestFile]) -> Entries:
        """The entries of some manifests."""
        fields = self.handle.schema.partition_fields
        files = [file for file in listed if not fields or ranges.may_hold(file, self._partitions, fields)]
        fresh = [file for file in files if file.name not in self._found]
        if len(fresh) > 1:
            manifests.read_entries(self.handle, fresh)  # all at once, which is faster; kept for what follows
        for file in fresh:
            part = manifests.read_entries(self.handle, [file])
            mask = pc.is_in(part.column("file_name"), value_set=self._names).to_numpy(zero_copy_only=False)
            self._found[file.name] = part.filter(mask)
        return columns_of.concat([columns_of.empty(), *(self._found[file.name] for file in files)])


def _data(handle: Handle, gone: Sequence[Root], kept: Sequence[Root], files: _Files) -> dict[str, int | None]:
    """Data files, and what lies beside them, that went with a root or before it."""
    leaving = _leaving(handle, gone, kept)
    if not len(leaving):
        return {}
    found: dict[str, int | None] = {}
    names: dict[str, str] = {}
    columns = (leaving.column(name).to_pylist() for name in ("file_name", "file_size", "extra_files"))  # scalar: one a file
    for path, name, size, extra in zip(places.data_file_paths(handle, leaving), *columns, strict=True):
        found[path], names[path] = size, name
        for beside in extra:
            at = handle.layout.extra_file(path, beside)
            found[at], names[at] = None, beside
    files.about(leaving)
    needed = _needed(handle, kept, files)
    return {path: size for path, size in found.items() if names[path] not in needed}


def _leaving(handle: Handle, gone: Sequence[Root], kept: Sequence[Root]) -> Entries:
    """The entries of files that may not be needed any more: what the next snapshot deleted; all, where there is no next one."""
    after = _by_place([*gone, *kept])
    changelogs = {(root.branch, root.snapshot.id) for root in kept if root.kind == "changelog" and _is_changelog(handle, root)}
    parts: list[Entries] = [columns_of.empty()]
    for root in gone:
        following = after.get((root.branch, root.snapshot.id + 1))
        same = after.get((root.branch, root.snapshot.id))
        with suppress(FileMissing):
            if root.kind == "snapshot" and following is not None:
                part = _entries(handle, following, "delta")
                part = part.filter(part.numbers("kind") == DELETE)
                parts.append(part.filter(~_flushed(part)) if (root.branch, root.snapshot.id) in changelogs else part)
            elif root.kind == "snapshot" or (root.kind == "tag" and (same is None or same.snapshot != root.snapshot)):
                parts.append(manifests.live(handle, root.snapshot))
            elif root.kind == "changelog" and _is_changelog(handle, root):
                part = _entries(handle, root, "delta")
                parts.append(part.filter(part.numbers("kind") == DELETE))
    return columns_of.concat(parts)


def _needed(handle: Handle, kept: Sequence[Root], files: _Files) -> set[str]:
    """The names of those files that a kept root needs, and of what lies beside them."""
    starts, steps = _starts(kept)
    parts = [columns_of.fold([files.of(manifests.manifest_files(handle, root.snapshot))]) for root in starts]
    for root in steps:
        part = files.of(manifests.manifest_files(handle, root.snapshot, "delta"))
        parts.append(part.filter(part.numbers("kind") == ADD))
    for root in kept:
        if root.kind == "changelog" and _is_changelog(handle, root):
            with suppress(FileMissing):  # of the time when another producer was set, only the changelog list stayed
                part = files.of(manifests.manifest_files(handle, root.snapshot, "delta"))
                parts.append(part.filter(_flushed(part)))
    found = columns_of.concat([columns_of.empty(), *parts])
    return {*found.column("file_name").to_pylist(), *(name for beside in found.column("extra_files").to_pylist() for name in beside)}  # scalar: one a file


def _flushed(part: Entries) -> NDArray[np.bool_]:
    """Which files a flush made, or nobody knows."""
    found = pc.fill_null(pc.equal(part.column("file_source"), _FLUSH), fill_value=True)
    mask: NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
    return mask


def _is_changelog(handle: Handle, root: Root) -> bool:
    """Whether the delta of a long-lived changelog is all that there is of it."""
    return root.snapshot.changelog_manifest_list is None and handle.options.changelog_producer == "none"


def _entries(handle: Handle, root: Root, which: Which) -> Entries:
    listed = manifests.manifest_files(handle, root.snapshot, which)
    return manifests.read_entries(handle, listed) if listed else columns_of.empty()


# ---- changelog files -----------------------------------------------------------------------------------------------------------------------------------


def _changelogs(handle: Handle, gone: Sequence[Root], kept: Sequence[Root]) -> dict[str, int | None]:
    """The files of changelogs that nobody can read any more; each is in one list only."""
    held = {root.snapshot.changelog_manifest_list for root in kept if root.kind != "tag"}
    found: dict[str, int | None] = {}
    for root in gone:
        if root.kind == "tag" or root.snapshot.changelog_manifest_list is None or root.snapshot.changelog_manifest_list in held:
            continue
        with suppress(FileMissing):
            part = _entries(handle, root, "changelog")
            part = part.filter(part.numbers("kind") == ADD)
            columns = (part.column(name).to_pylist() for name in ("file_size", "extra_files"))  # scalar: one a file
            for path, size, extra in zip(places.data_file_paths(handle, part), *columns, strict=True):
                found |= {path: size} | {handle.layout.extra_file(path, beside): None for beside in extra}
    return found


# ---- metadata ------------------------------------------------------------------------------------------------------------------------------------------


def _lists(handle: Handle, some: Sequence[Root], *, missing_ok: bool) -> dict[str, int | None]:
    """Manifest lists and manifests that roots need, by path."""
    found: dict[str, int | None] = {}
    steps = set() if missing_ok else {root.path for root in _starts(some)[1]}
    for root in some:
        snapshot = root.snapshot
        own: tuple[tuple[Which, str | None, int | None], ...] = (
            ("base", snapshot.base_manifest_list, snapshot.base_manifest_list_size),
            ("delta", snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
            ("changelog", snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size),
        )
        for which, name, size_bytes in own:
            holds = root.kind == "snapshot" or (which == "changelog") == (root.kind == "changelog") or _is_changelog(handle, root)
            if name is None or not holds:
                continue
            found[handle.layout.manifest(name)] = size_bytes
            if root.path in steps and which == "base":
                continue  # its manifests are those of the snapshot before, or new
            try:
                found |= {handle.layout.manifest(file.name): file.size_bytes for file in manifests.manifest_files(handle, snapshot, which)}
            except FileMissing:
                if not missing_ok and root.kind != "changelog":
                    raise
    return found


def _index(handle: Handle, gone: Sequence[Root], kept: Sequence[Root]) -> tuple[dict[str, int | None], dict[str, int | None]]:
    """Index files, and index manifests."""
    named, held = _by_index_manifest(gone), _by_index_manifest(kept)
    found: dict[str, int | None] = {}
    names: dict[str, str] = {}
    fresh = {name: root for name, root in named.items() if name not in held}
    for root in fresh.values():
        with suppress(FileMissing):
            for entry in manifests.index_entries(handle, root.snapshot):
                path = deletions.index_path(handle, entry)
                found[path], names[path] = entry.file_size_bytes, entry.file_name
    if found:
        needed = {entry.file_name for root in held.values() for entry in manifests.index_entries(handle, root.snapshot)}
        found = {path: size for path, size in found.items() if names[path] not in needed}
    return found, {handle.layout.manifest(name): None for name in fresh}


def _by_index_manifest(some: Iterable[Root]) -> dict[str, Root]:
    return {name: root for root in some if root.kind != "changelog" and (name := root.snapshot.index_manifest) is not None}


def _statistics(handle: Handle, gone: Sequence[Root], kept: Sequence[Root]) -> dict[str, int | None]:
    held = {root.snapshot.statistics for root in kept if root.kind != "changelog"}
    named = {root.snapshot.statistics for root in gone if root.kind != "changelog"} - held - {None}
    return {handle.layout.statistics(name): None for name in named if name is not None}
