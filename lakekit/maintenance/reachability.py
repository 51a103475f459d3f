"""The roots of garbage collection, and the files that only some of them need.

    reachable_only_from(ctx, removed, retained)     files that a root of `removed` refers to and no root of `retained`

    snapshot    needs both manifest lists, their manifests and live files; changelog list, its manifests and files;
                index manifest and index files; statistics
    tag         the same without the changelog
    changelog   the changelog list and what is in it; where the table has no changelog producer, base and delta list,
                and the files of the delta that a flush made, which are the changelog

The roots are every snapshot, tag and long-lived changelog of every branch; a branch is any directory that could be one,
complete or not. Code that deletes reads all roots first: a root of `retained` that cannot be read, or that vanished
since it was listed, stops the deletion (RELIABILITY D5). Files of a removed root that are already deleted are ignored.

A chain of snapshots, each built on the one before, is examined in steps: a file that was removed is named by a DELETE
of the next snapshot, and the files of later ones are live at the first or added since. A snapshot is built on another
if its base list names exactly the manifests of that one; ids prove nothing: main may have been fast-forwarded to a
branch whose first snapshots had expired. Each list and each manifest is read once, many concurrently.

Source: FORMAT.md 3, ENGINE.md 5.9, 5.10; RELIABILITY.md D4, D5; `SnapshotDeletion`, `TagDeletion`, `ChangelogDeletion`,
`FileDeletionBase`, `OrphanFilesClean.validBranches`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.commit import manifest_writer
from lakekit.data_file import deletion_vector_reader, paths
from lakekit.errors import Conflict, Corrupt
from lakekit.metadata import manifest_reader, metadata_io, schemas, table_context
from lakekit.model import manifest_entries as columns_of
from lakekit.model.manifest_entries import ADD, DELETE, ManifestEntries
from lakekit.model.snapshot import Snapshot, Tag
from lakekit.model.table_paths import MAIN_BRANCH
from lakekit.parallel import map_io
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifests import ManifestFileMeta
    from lakekit.storage.protocol import Stat

    Kind = Literal["snapshot", "tag", "changelog"]
    Which = Literal["base", "delta", "changelog"]


BRANCH_PREFIX = "branch-"
_TAG_PREFIX = "tag-"
MAX_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class GcRoot:
    """One root. `name` is the tag's, else the snapshot's id; `path` is its file."""

    kind: Kind
    branch: str
    name: str
    path: str
    snapshot: Snapshot


def list_branch_names(ctx: TableContext) -> list[str]:
    """Return the names of all branches, main first, also those that are incomplete."""
    listed = ctx.storage.list(ctx.paths.branches_dir)
    return [
        MAIN_BRANCH,
        *(
            entry.name.removeprefix(BRANCH_PREFIX)
            for entry in listed
            if entry.is_dir and entry.name.startswith(BRANCH_PREFIX) and entry.name != BRANCH_PREFIX
        ),
    ]


def check_removable(ctx: TableContext) -> None:
    """Raise `Unsupported` for the first feature of any branch that may hide files of the table.

    The error names the feature: lakekit may not know all files then.
    """
    table_context.check_removable(ctx)
    for branch in list_branch_names(ctx):
        branch_ctx = on_branch(ctx, branch)
        if branch != ctx.paths.branch and schemas.list_ids(branch_ctx):
            table_context.check_removable(replace(branch_ctx, schema=schemas.read_latest(branch_ctx)))


def read_all_roots(ctx: TableContext) -> list[GcRoot]:
    """Return the roots of all branches.

    Raises what reading them raises, and `Conflict` if one vanished meanwhile, again and again.
    """
    for attempt in range(MAX_ATTEMPTS):
        try:
            return [root for branch in list_branch_names(ctx) for root in read_branch_roots(on_branch(ctx, branch))]
        except Conflict:
            if attempt == MAX_ATTEMPTS - 1:
                raise
    raise AssertionError


def on_branch(ctx: TableContext, branch: str) -> TableContext:
    """Return the context with the paths of another branch: enough for its metadata."""
    return ctx if ctx.paths.branch == branch else replace(ctx, paths=ctx.paths.on_branch(branch))


def read_branch_roots(ctx: TableContext) -> list[GcRoot]:
    """Return the roots of the context's own branch: snapshots, tags, changelogs, each by number or name."""
    return map_io(lambda listed: _read_root(ctx, *listed), list_roots(ctx), is_remote=ctx.storage.is_remote)


def list_roots(ctx: TableContext) -> list[tuple[Kind, str, Stat]]:
    """Return the files of the branch's roots: kind, number or name, and what the listing says of each."""
    layout = ctx.paths
    return [
        *(
            ("snapshot", str(number), seen)
            for number, seen in metadata_io.list_ids_with_stat(ctx, layout.snapshot_dir, "snapshot-")
        ),
        *(
            ("tag", entry.name.removeprefix(_TAG_PREFIX), entry)
            for entry in ctx.storage.list(layout.tag_dir)
            if entry.name.startswith(_TAG_PREFIX) and not entry.is_dir
        ),
        *(
            ("changelog", str(number), seen)
            for number, seen in metadata_io.list_ids_with_stat(ctx, layout.changelog_dir, "changelog-")
        ),
    ]


def _read_root(ctx: TableContext, kind: Kind, name: str, stat: Stat) -> GcRoot:
    try:
        return read_listed_root(ctx, kind, name, stat)
    except Corrupt as damaged:
        raise unreadable_root(
            damaged,
            f"a {kind}",
            stat.path,
            "put it back from a copy, or delete it: the files that only it needed are orphans then",
        ) from damaged
    except FileMissing:
        msg = (
            f"{stat.path} vanished while it was looked at: another process deletes in {ctx.name} too. Do it again "
            "when that is done"
        )
        raise Conflict(msg) from None


def read_listed_root(ctx: TableContext, kind: Kind, name: str, stat: Stat) -> GcRoot:
    """Return the root of one of the files that `list_roots` gives.

    Raises: `Corrupt`, `Unsupported`, and `FileMissing` where it vanished since.
    """
    if kind == "tag":
        snapshot = metadata_io.read_listed_json_file(
            ctx, stat, lambda data, path: Tag.from_json(data, name, path)
        ).snapshot
    else:
        snapshot = metadata_io.read_listed_json_file(ctx, stat, Snapshot.from_json)
    if kind != "tag" and snapshot.id != int(name):
        raise Corrupt(f"{stat.path} says it is snapshot {snapshot.id}", path=stat.path, field="id")
    return GcRoot(kind=kind, branch=ctx.paths.branch, name=name, path=stat.path, snapshot=snapshot)


def unreadable_root(error: Corrupt, subject: str, path: str, remedy: str) -> Corrupt:
    """Return the error for an unreadable root: which files it needs is unknown, so none may be deleted."""
    text = (
        f"{error.message}. It is {subject}: which files it needs cannot be told, so none is deleted. Remedy: {remedy}"
    )
    return Corrupt(text, path=error.path or path, offset=error.offset, field=error.field)


def oldest_snapshot_paths(gc_roots: Iterable[GcRoot]) -> set[str]:
    """Return the paths of the oldest snapshots, one for each branch.

    Such a snapshot may be restored from a tag by a rollback or a branch: its changelog is deleted.
    """
    oldest: dict[str, GcRoot] = {}
    for root in gc_roots:
        if root.kind == "snapshot" and (
            root.branch not in oldest or root.snapshot.id < oldest[root.branch].snapshot.id
        ):
            oldest[root.branch] = root
    return {root.path for root in oldest.values()}


def write_root_file(ctx: TableContext, path: str, data: bytes) -> None:
    """Write the file of a root, replacing an existing one, safe from power loss.

    What it replaces may be deleted next.
    """
    with ctx.storage.open_write(path) as file:
        file.write(data)


# ---- reachability ------------------------------------------------------------


_FLUSH_SOURCE = 0
_BATCH_ENTRIES = 200_000
"""So many entries are decoded before those that do not matter are dropped."""
_REMOVED_FILE_COLUMNS = ("partition", "bucket", "file_name", "file_size", "extra_files", "external_path")
"""What is asked of a file that goes: where it and what lies beside it are, and how large it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreachableFiles:
    """Paths of files that no root needs, each with its size in bytes.

    `data`: data and changelog files and their extra files; `metadata`: lists, manifests, statistics.
    """

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


def reachable_only_from(
    ctx: TableContext, removed_roots: Sequence[GcRoot], retained: Sequence[GcRoot]
) -> UnreachableFiles:
    """Return the files that may be deleted with the roots `removed_roots` while those of `retained` stay.

    Raises: `FileMissing`, `Corrupt`, `Unsupported` if the needs of a root cannot be determined: nothing may be
    deleted then.
    """
    if not removed_roots:
        return UnreachableFiles()
    _read_lists(ctx, [*removed_roots, *retained])
    lists, files = _manifest_paths(ctx, removed_roots, missing_ok=True), _FileEntries(ctx)
    for path in _manifest_paths(
        ctx, retained, missing_ok=False, oldest=oldest_snapshot_paths([*removed_roots, *retained])
    ):
        lists.pop(path, None)
    data = {
        **_unneeded_data_files(ctx, removed_roots, retained, files),
        **_unneeded_changelog_files(ctx, removed_roots, retained),
    }
    index, index_manifests = _unneeded_index_files(ctx, removed_roots, retained)
    return UnreachableFiles(
        data=_measure_files(ctx, data),
        index=_measure_files(ctx, index),
        metadata=_measure_files(
            ctx, {**lists, **index_manifests, **_unneeded_statistics(ctx, removed_roots, retained)}
        ),
    )


def _measure_files(ctx: TableContext, paths: dict[str, int | None]) -> dict[str, int]:
    """Return the paths with their sizes; without a known size, files that do not exist are left out."""
    sizes: dict[str, int] = {}
    for path, size_bytes in paths.items():
        if size_bytes is not None:
            sizes[path] = size_bytes
        elif (seen := ctx.storage.stat(path)) is not None and not seen.is_dir:
            sizes[path] = seen.size_bytes
    return sizes


# ---- rows of snapshots ---------------------------------------------------------------------------


def _snapshots_by_id(gc_roots: Iterable[GcRoot]) -> dict[tuple[str, int], GcRoot]:
    """Return snapshots by branch and id."""
    return {(root.branch, root.snapshot.id): root for root in gc_roots if root.kind == "snapshot"}


def _roots_to_examine(ctx: TableContext, retained: Sequence[GcRoot]) -> tuple[list[GcRoot], list[GcRoot]]:
    """Return the roots to examine in full, and the snapshots of which only the added files count.

    The latter are built on another retained snapshot. A snapshot that merged manifests is examined in full too: its
    manifest names do not show what it is built on.
    """
    places_of = _snapshots_by_id(retained)
    starts: list[GcRoot] = []
    steps: list[GcRoot] = []
    for root in retained:
        same = places_of.get((root.branch, root.snapshot.id))
        if root.kind == "tag" and (same is None or same.snapshot != root.snapshot):
            starts.append(root)
    before: tuple[tuple[str, int], set[str]] | None = None
    for (branch, number), root in sorted(places_of.items()):
        base, delta = (
            {file.name for file in manifest_reader.manifest_files(ctx, root.snapshot, which)}
            for which in ("base", "delta")
        )
        (steps if before == ((branch, number - 1), base) else starts).append(root)
        before = (branch, number), base | delta
    return starts, steps


# ---- data files ----------------------------------------------------------------------------------


class _FileEntries:
    """Manifest entries of some files only.

    Each manifest is read once, many together; those of other partitions are not read.
    """

    def __init__(self, ctx: TableContext) -> None:
        self.ctx = ctx
        self._entries: dict[str, ManifestEntries] = {}
        self._names = pa.array([], pa.string())
        self._partitions: list[manifest_writer.Values] = []

    def restrict_to(self, selected_entries: ManifestEntries) -> None:
        """Read only entries of these files from now on."""
        self._names = pa.concat_arrays(
            [selected_entries.column("file_name"), selected_entries.column("extra_files").flatten()]
        ).unique()
        fields = self.ctx.schema.partition_fields
        self._partitions = (
            manifest_writer.partition_values_of(selected_entries.column("partition").unique().to_pylist(), fields)
            if fields
            else []
        )

    def read_entries(self, manifests: Iterable[ManifestFileMeta]) -> ManifestEntries:
        """Return the entries of some manifests, in their order."""
        files = self._manifests_to_read(manifests)
        for batch in _batch_manifests([file for file in files if file.name not in self._entries]):
            parts = manifest_reader.read_entries_by_manifest(self.ctx, batch)
            self._entries |= {
                file.name: part.filter(self._mask_wanted(part)) for file, part in zip(batch, parts, strict=True)
            }
        return columns_of.concat_entries([columns_of.empty_entries(), *(self._entries[file.name] for file in files)])

    def iter_entries(self, manifests: Iterable[ManifestFileMeta]) -> Iterator[ManifestEntries]:
        """Yield the entries of manifests whose order does not matter, in batches."""
        for batch in _batch_manifests(self._manifests_to_read(manifests)):
            part = manifest_reader.read_entries(self.ctx, batch)
            yield part.filter(self._mask_wanted(part))

    def _manifests_to_read(self, manifests: Iterable[ManifestFileMeta]) -> list[ManifestFileMeta]:
        return manifest_writer.filter_manifests(manifests, self._partitions, self.ctx.schema.partition_fields)

    def _mask_wanted(self, part: ManifestEntries) -> NDArray[np.bool_]:
        """Return which entries are of one of the files, or have one as their extra file."""
        mask: NDArray[np.bool_] = np.array(pc.is_in(part.column("file_name"), value_set=self._names))
        beside = part.column("extra_files")
        if len(beside.flatten()):
            mask[
                pc.list_parent_indices(beside).filter(pc.is_in(beside.flatten(), value_set=self._names)).to_numpy()
            ] = True
        return mask


def _batch_manifests(manifests: Iterable[ManifestFileMeta]) -> Iterator[list[ManifestFileMeta]]:
    """Yield distinct manifests in batches with a bounded number of entries."""
    some: list[ManifestFileMeta] = []
    count = 0
    for file in {file.name: file for file in manifests}.values():
        some.append(file)
        count += file.num_added_files + file.num_deleted_files
        if count >= _BATCH_ENTRIES:
            yield some
            some, count = [], 0
    if some:
        yield some


def _read_entry_batches(ctx: TableContext, manifests: Iterable[ManifestFileMeta]) -> Iterator[ManifestEntries]:
    """Yield the entries of manifests of removed roots, in batches; deleted manifests are skipped."""
    for batch in _batch_manifests(manifests):
        try:
            yield manifest_reader.read_entries(ctx, batch)
        except FileMissing:
            for file in batch:
                with suppress(FileMissing):
                    yield manifest_reader.read_entries(ctx, [file])


def _unneeded_data_files(
    ctx: TableContext, removed_roots: Sequence[GcRoot], retained: Sequence[GcRoot], files: _FileEntries
) -> dict[str, int | None]:
    """Return data files and their extra files that a removed root, or one before it, needed last."""
    leaving = _possibly_unneeded_entries(ctx, removed_roots, retained)
    if not len(leaving):
        return {}
    sizes: dict[str, int | None] = {}
    names: dict[str, str] = {}
    columns = (
        leaving.column(name).to_pylist() for name in ("file_name", "file_size", "extra_files")
    )  # scalar: one a file
    for path, name, size, extra in zip(paths.data_file_paths(ctx, leaving), *columns, strict=True):
        sizes[path], names[path] = size, name
        for beside in extra:
            at = ctx.paths.extra_file(path, beside)
            sizes[at], names[at] = None, beside
    files.restrict_to(leaving)
    needed = _needed_names(ctx, retained, files)
    return {path: size for path, size in sizes.items() if names[path] not in needed}


def _possibly_unneeded_entries(
    ctx: TableContext, removed_roots: Sequence[GcRoot], retained: Sequence[GcRoot]
) -> ManifestEntries:
    """Return the entries of files that may be unneeded after the removal.

    These are what the next snapshot deleted; all live files, where there is no next one.
    """
    after = _snapshots_by_id([*removed_roots, *retained])
    changelogs = {
        (root.branch, root.snapshot.id) for root in retained if root.kind == "changelog" and is_changelog(ctx, root)
    }
    deltas: list[ManifestFileMeta] = []
    merged: list[ManifestFileMeta] = []  # where the files of a flush are a changelog that stays
    parts: list[ManifestEntries] = [columns_of.empty_entries()]
    for root in removed_roots:
        following = after.get((root.branch, root.snapshot.id + 1))
        same = after.get((root.branch, root.snapshot.id))
        with suppress(FileMissing):
            if root.kind == "snapshot" and following is not None:
                into = merged if (root.branch, root.snapshot.id) in changelogs else deltas
                into += manifest_reader.manifest_files(ctx, following.snapshot, "delta")
            elif root.kind == "snapshot" or (root.kind == "tag" and (same is None or same.snapshot != root.snapshot)):
                parts.append(manifest_reader.read_live_entries(ctx, root.snapshot))
            elif root.kind == "changelog" and is_changelog(ctx, root):
                deltas += manifest_reader.manifest_files(ctx, root.snapshot, "delta")
    parts += [part.filter(part.integers("kind") == DELETE) for part in _read_entry_batches(ctx, deltas)]
    parts += [
        part.filter((part.integers("kind") == DELETE) & ~_flush_mask(part)) for part in _read_entry_batches(ctx, merged)
    ]
    return columns_of.concat_entries([part.select(_REMOVED_FILE_COLUMNS) for part in parts])


def _needed_names(ctx: TableContext, retained: Sequence[GcRoot], files: _FileEntries) -> set[str]:
    """Return the names of those files that a retained root needs, and of their extra files."""
    starts, steps = _roots_to_examine(ctx, retained)
    listings = [manifest_reader.manifest_files(ctx, root.snapshot) for root in starts]
    files.read_entries([file for listed in listings for file in listed])  # all at once, which is faster
    parts = [columns_of.live_entries([files.read_entries(listed)]) for listed in listings]
    since = files.iter_entries(
        [file for root in steps for file in manifest_reader.manifest_files(ctx, root.snapshot, "delta")]
    )
    parts += [part.filter(part.integers("kind") == ADD) for part in since]
    for root in retained:
        if root.kind == "changelog" and is_changelog(ctx, root):
            with suppress(FileMissing):  # of the time when another producer was set, only the changelog list stayed
                part = files.read_entries(manifest_reader.manifest_files(ctx, root.snapshot, "delta"))
                parts.append(part.filter(_flush_mask(part)))
    entries = columns_of.concat_entries([columns_of.empty_entries(), *parts])
    return {
        *entries.column("file_name").to_pylist(),
        *entries.column("extra_files").flatten().to_pylist(),
    }  # scalar: one a file


def _flush_mask(part: ManifestEntries) -> NDArray[np.bool_]:
    """Return which files a flush made, or have no known source."""
    is_flush = pc.fill_null(pc.equal(part.column("file_source"), _FLUSH_SOURCE), fill_value=True)
    mask: NDArray[np.bool_] = is_flush.to_numpy(zero_copy_only=False)
    return mask


def is_changelog(ctx: TableContext, root: GcRoot) -> bool:
    """Return whether only the delta of a long-lived changelog is left."""
    return root.snapshot.changelog_manifest_list is None and ctx.options.changelog_producer == "none"


# ---- changelog files -----------------------------------------------------------------------------


def _unneeded_changelog_files(
    ctx: TableContext, removed_roots: Sequence[GcRoot], retained: Sequence[GcRoot]
) -> dict[str, int | None]:
    """Return the files of changelogs that no retained root reads; each is in one list only."""
    retained_lists = {root.snapshot.changelog_manifest_list for root in retained if root.kind != "tag"}
    sizes: dict[str, int | None] = {}
    listed: list[ManifestFileMeta] = []
    for root in removed_roots:
        if root.kind != "tag" and root.snapshot.changelog_manifest_list not in retained_lists:
            with suppress(FileMissing):
                listed += manifest_reader.manifest_files(ctx, root.snapshot, "changelog")
    for part in _read_entry_batches(ctx, listed):
        added = part.filter(part.integers("kind") == ADD)
        columns = (added.column(name).to_pylist() for name in ("file_size", "extra_files"))  # scalar: one a file
        for path, size, extra in zip(paths.data_file_paths(ctx, added), *columns, strict=True):
            sizes[path] = size
            for beside in extra:
                sizes[ctx.paths.extra_file(path, beside)] = None
    return sizes


# ---- metadata ------------------------------------------------------------------------------------


def _read_lists(ctx: TableContext, gc_roots: Sequence[GcRoot]) -> None:
    """Read all manifest lists that are needed below, concurrently."""
    manifest_reader.prefetch_manifest_lists(
        ctx, [(root.snapshot, which) for root in gc_roots for which, _, _ in _retained_lists(ctx, root)]
    )


def _retained_lists(ctx: TableContext, root: GcRoot) -> list[tuple[Which, str, int | None]]:
    """Return the manifest lists that a root keeps, each with its name and its size if known."""
    snapshot = root.snapshot
    own: tuple[tuple[Which, str | None, int | None], ...] = (
        ("base", snapshot.base_manifest_list, snapshot.base_manifest_list_size),
        ("delta", snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        ("changelog", snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size),
    )
    lists: list[tuple[Which, str, int | None]] = []
    for which, name, size_bytes in own:
        if name is not None and (
            root.kind == "snapshot" or (which == "changelog") == (root.kind == "changelog") or is_changelog(ctx, root)
        ):
            lists.append((which, name, size_bytes))
    return lists


def _manifest_paths(
    ctx: TableContext, gc_roots: Sequence[GcRoot], *, missing_ok: bool, oldest: Collection[str] = ()
) -> dict[str, int | None]:
    """Return the manifest lists and manifests that roots need, by path.

    The `oldest` snapshots may have lost their changelogs.
    """
    sizes: dict[str, int | None] = {}
    for root in gc_roots:
        for which, name, size_bytes in _retained_lists(ctx, root):
            sizes[name] = size_bytes
            try:
                for file in manifest_reader.manifest_files(ctx, root.snapshot, which):
                    sizes[file.name] = file.size_bytes
                    sizes.update(dict.fromkeys(file.extra_files))
            except FileMissing:
                if not (missing_ok or root.kind == "changelog" or (which == "changelog" and root.path in oldest)):
                    raise
    return {ctx.paths.manifest(name): size_bytes for name, size_bytes in sizes.items()}


def _unneeded_index_files(
    ctx: TableContext, removed_roots: Sequence[GcRoot], retained: Sequence[GcRoot]
) -> tuple[dict[str, int | None], dict[str, int | None]]:
    """Return the index files, and the index manifests, that only removed roots need."""
    named, retained_manifests = _by_index_manifest(removed_roots), _by_index_manifest(retained)
    sizes: dict[str, int | None] = {}
    names: dict[str, str] = {}
    fresh = {name: root for name, root in named.items() if name not in retained_manifests}
    for root in fresh.values():
        with suppress(FileMissing):
            for entry in manifest_reader.index_entries(ctx, root.snapshot):
                path = deletion_vector_reader.index_path(ctx, entry)
                sizes[path], names[path] = entry.file_size_bytes, entry.file_name
    if sizes:
        needed = {
            entry.file_name
            for root in retained_manifests.values()
            for entry in manifest_reader.index_entries(ctx, root.snapshot)
        }
        sizes = {path: size for path, size in sizes.items() if names[path] not in needed}
    return sizes, {ctx.paths.manifest(name): None for name in fresh}


def _by_index_manifest(gc_roots: Iterable[GcRoot]) -> dict[str, GcRoot]:
    return {
        name: root
        for root in gc_roots
        if root.kind != "changelog" and (name := root.snapshot.index_manifest) is not None
    }


def _unneeded_statistics(
    ctx: TableContext, removed_roots: Sequence[GcRoot], retained: Sequence[GcRoot]
) -> dict[str, int | None]:
    retained_names = {root.snapshot.statistics for root in retained if root.kind != "changelog"}
    named = {root.snapshot.statistics for root in removed_roots if root.kind != "changelog"} - retained_names - {None}
    return {ctx.paths.statistics(name): None for name in named if name is not None}
