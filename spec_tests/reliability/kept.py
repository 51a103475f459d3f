"""Which files of a table on the local disk something needs, worked out the plain way: every root by itself, nothing skipped.

What lakekit deletes by is `maintenance.reachability`, which takes short cuts; here are none, so that one can be held against the other.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import lakekit as lk
from lakekit.data_file import paths
from lakekit.maintenance import reachability
from lakekit.metadata import manifest_reader
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakekit.maintenance.reachability import GcRoot
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import ManifestEntries

_COMPACTION = 1
METADATA = re.compile(r"(branch/branch-[^/]*/)?(snapshot|tag|changelog|schema|consumer)/.*")


def needed(path: str | Path) -> set[str]:
    """The files that snapshots, tags and long-lived changelogs of all branches need, relative to the table."""
    handle = lk.open(path)._context()
    return {str(Path(one).relative_to(handle.root)) for one in needed_of(handle)}


def needed_of(handle: TableContext) -> set[str]:
    """The same of a table anywhere, as whole paths."""
    return {file for root in reachability.read_all_roots(handle) for file in of_root(handle, root)}


def on_disk(path: str | Path) -> set[str]:
    """The files that are there, but for the roots themselves, schemas, hints and consumers."""
    root = Path(path)
    names = {str(one.relative_to(root)) for one in root.rglob("*") if one.is_file()}
    return {name for name in names if not METADATA.fullmatch(name)}


def of_root(handle: TableContext, root: GcRoot) -> Iterator[str]:
    """The files that one root needs."""
    snapshot, layout = root.snapshot, handle.paths
    kept_delta = root.kind == "changelog" and snapshot.changelog_manifest_list is None and handle.options.changelog_producer == "none"
    if root.kind != "changelog":
        yield from _paths(handle, manifest_reader.read_live_entries(handle, snapshot))
        if snapshot.statistics is not None:
            yield layout.statistics(snapshot.statistics)
        if snapshot.index_manifest is not None:
            yield layout.manifest(snapshot.index_manifest)
        for entry in manifest_reader.index_entries(handle, snapshot):
            where = paths.partition_path(handle, entry.partition)
            yield layout.index(entry.file_name, partition_path=where, bucket=entry.bucket, external_path=entry.external_path)
    if root.kind != "changelog" or kept_delta:
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
            yield layout.manifest(name)
        for file in manifest_reader.manifest_files(handle, snapshot):
            yield layout.manifest(file.name)
    if kept_delta:
        part = manifest_reader.read_entries(handle, manifest_reader.manifest_files(handle, snapshot, "delta"))
        sources = part.column("file_source").to_pylist()
        yield from _paths(handle, part.filter(np.array([source != _COMPACTION for source in sources], np.bool_)))
    if root.kind != "tag" and snapshot.changelog_manifest_list is not None and not _came_back(handle, root):
        yield layout.manifest(snapshot.changelog_manifest_list)
        files = manifest_reader.manifest_files(handle, snapshot, "changelog")
        for file in files:
            yield layout.manifest(file.name)
        if files:
            yield from _paths(handle, manifest_reader.read_entries(handle, files))


def _came_back(handle: TableContext, root: GcRoot) -> bool:
    """Whether it is a tag's snapshot that a rollback or a branch begins with, and its changelog went when it expired."""
    layout = reachability.on_branch(handle, root.branch).paths
    lists = layout.manifest(root.snapshot.changelog_manifest_list or "")
    return root.kind == "snapshot" and not handle.storage.exists(layout.snapshot(root.snapshot.id - 1)) and not handle.storage.exists(lists)


def named(handle: TableContext, root: GcRoot) -> Iterator[str]:
    """The names of the files that a root names, whether it needs them or not: lists, manifests, and what those add or delete. Orphans are none of them."""
    snapshot = root.snapshot
    for which in (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list):
        if which is not None:
            yield which
    for kind in ("all", "changelog"):
        with suppress(FileMissing):  # of an expired snapshot, whose changelog is kept
            for file in manifest_reader.manifest_files(handle, snapshot, kind):
                yield file.name
                yield from manifest_reader.read_entries(handle, [file]).column("file_name").to_pylist()


def _paths(handle: TableContext, entries: ManifestEntries) -> Iterator[str]:
    for at, extra in zip(paths.data_file_paths(handle, entries), entries.column("extra_files").to_pylist(), strict=True):
        yield at
        yield from (handle.paths.extra_file(at, name) for name in extra)
