"""Removal of orphan files: old files that nothing refers to, left by writers that died.

    list the files ─▶ read all roots ─▶ all roots again ─▶ old files that no root names
                                        changed: new ones are read too

Files are listed before the roots are read, so that no file of a concurrent commit is a candidate; roots are read until
they stay the same; a root that cannot be read stops everything (RELIABILITY D5, D6). Ages are measured by the clock of
the storage, not of this machine. Names decide: a file that any snapshot, tag or long-lived changelog of any branch
names, added or deleted, stays.

External roots are left out: two tables that share one cannot be told apart by its paths, and a file that one of them
does not name may be a live file of the other. `external` includes them for a caller who knows that they belong to this
table alone; a root inside the folder of another table is refused all the same.

Source: ENGINE.md 5.14, `OrphanFilesClean`, `LocalOrphanFilesClean`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from lakekit.errors import Conflict, Corrupt, InvalidOption
from lakekit.maintenance import branches, reachability
from lakekit.maintenance.arguments import before_ms
from lakekit.maintenance.check import metadata
from lakekit.maintenance.check.findings import Findings
from lakekit.maintenance.reachability import is_changelog
from lakekit.metadata import manifest_reader, schemas
from lakekit.model.table_paths import EXTERNAL_PATHS, TablePaths, is_at_or_below, without_scheme
from lakekit.parallel import map_io
from lakekit.runtime import warn_user
from lakekit.storage import confine
from lakekit.storage.local import LocalStorage
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime, timedelta
    from typing import Literal

    from lakekit.maintenance.reachability import GcRoot
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifests import ManifestFileMeta
    from lakekit.model.snapshot import Snapshot
    from lakekit.storage.protocol import Stat

    Which = Literal["all", "base", "delta", "changelog"]
    Lists = Callable[[Sequence[str]], list[list[Stat]]]
    Deletes = Callable[[Sequence[str]], None]

AGE_MS = 24 * 3_600_000
"""Younger files may belong to a commit that is under way."""
_CLOCK_FILE_PREFIX = ".clock-"
_HINT_NAMES = frozenset({"LATEST", "EARLIEST"})
_BLOB_SUFFIXES = (".managed.blob", ".blobref", ".blob")
"""Suffixes of files that data files refer to, not manifests: packs of values, references to them, and single values.

None of them is an orphan.
"""
_SUSPICIOUS_COUNT = 100
"""With fewer orphan files than this, their share of all files is not suspicious.

In a small table the files of one writer that died may be more than half. That snapshots were lost shows in the gaps
between their ids, whatever the size of the table.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _DirectoryListing:
    """The files of one kind in a directory, by name.

    `file_stats`: what the listing says of each; None: only the names are known.
    """

    kind: str
    directory: str
    names: Sequence[str]
    file_stats: Mapping[str, Stat] | None

    def filter(self, is_candidate: Callable[[str], bool]) -> _DirectoryListing:
        return replace(self, names=[name for name in self.names if is_candidate(name)])


def remove_orphans(
    ctx: TableContext,
    *,
    older_than: str | datetime | timedelta | None,
    dry_run: bool,
    force: bool,
    external: bool = False,
    lists: Lists | None = None,
    deletes: Deletes | None = None,
) -> pl.DataFrame:
    """Remove the orphan files that are old enough, unless `dry_run`, and return them as a frame.

    See `Table.remove_orphans`. `external`: look at external roots too; they must be allowed, and no other table may
    have files there. `lists` and `deletes`: list the directories of partitions and buckets, and delete files; None: the
    storage does, in this process.
    """
    reachability.check_removable(ctx)
    outside = _external_roots(ctx, external=external)
    limit_ms = _age_limit_ms(older_than, ctx.runtime.now_ms() if dry_run else _storage_time_ms(ctx))
    unfinished = _unfinished_branches(ctx, limit_ms)
    listed, directories = _list_candidates(ctx, outside, lists)
    needed = _collect_referenced_names(ctx)
    orphans = [
        (listing.kind, file)
        for listing in listed
        for file in _stat_files(
            ctx,
            listing
            if listing.kind == "temporary"
            else listing.filter(lambda name: name not in needed and not name.endswith(_BLOB_SUFFIXES)),
        )
        if file.modified_ms < limit_ms
    ]
    if not force:
        _check_suspicious(ctx, len(orphans), sum(len(listing.names) for listing in listed), needed)
    if not dry_run and orphans:
        (deletes or ctx.storage.delete)([file.path for _, file in orphans])
    temporary = {file.path for _, file in orphans}
    orphans += [("branch", file) for files in unfinished.values() for file in files if file.path not in temporary]
    if not dry_run:
        for branch in unfinished:
            branches.delete_branch_files(ctx, branch)
        old = [directory.path for directory in directories if directory.modified_ms < limit_ms]
        ctx.storage.remove_directories(sorted(old, key=lambda path: (-path.count("/"), path)))
    return _orphans_frame(orphans)


def remove_marked_files(ctx: TableContext, mark: str) -> int:
    """Delete the data and index files whose names hold a mark and that no root names; return how many there were.

    The mark is that of a piece of work that failed (`runtime.new_mark`), so that their age does not matter.
    """
    listed, _ = _list_data_directories(ctx, ctx.paths.external_roots, None)
    index = _list_directory_files(ctx, "index", ctx.paths.index_dir)
    paths = {
        f"{listing.directory}/{name}": name for listing in (*listed, index) for name in listing.names if mark in name
    }
    if not paths:
        return 0
    needed = ctx.runtime.uncertain_files | _collect_referenced_names(ctx)
    unneeded = [path for path, name in paths.items() if name not in needed]
    ctx.storage.delete(unneeded)
    return len(unneeded)


def _unfinished_branches(ctx: TableContext, limit_ms: int) -> dict[str, list[Stat]]:
    """Return the branches that were begun and never finished, with their files.

    Raises: `Corrupt` for another branch without schema.
    """
    unfinished = {}
    for branch in reachability.list_branch_names(ctx):
        if schemas.list_ids(reachability.on_branch(ctx, branch)):
            continue
        files = branches.find_unfinished(ctx, branch, limit_ms)
        if files is None:
            msg = (
                f"branch {branch!r} of {ctx.name} has no schema: what it needs cannot be told, and nothing is "
                "removed. Delete or repair it first"
            )
            raise Corrupt(msg, path=reachability.on_branch(ctx, branch).paths.schema_dir)
        unfinished[branch] = files
    return unfinished


def _stat_files(ctx: TableContext, listing: _DirectoryListing) -> list[Stat]:
    """Return the size and age of files, without those that were deleted meanwhile.

    A file never looks older here than it was when it was listed.
    """
    if listing.file_stats is not None:
        return [listing.file_stats[name] for name in listing.names]
    looked_at = [ctx.storage.stat(f"{listing.directory}/{name}") for name in listing.names]
    return [stat for stat in looked_at if stat is not None and not stat.is_dir]


def _orphans_frame(orphans: Sequence[tuple[str, Stat]]) -> pl.DataFrame:
    files = [file for _, file in orphans]
    frame = pl.DataFrame(
        {
            "path": pl.Series([file.path for file in files], dtype=pl.String),
            "kind": pl.Series([kind for kind, _ in orphans], dtype=pl.String),
            "size_bytes": pl.Series([file.size_bytes for file in files], dtype=pl.Int64),
            "modified": pl.Series([file.modified_ms for file in files], dtype=pl.Int64).cast(pl.Datetime("ms", "UTC")),
        }
    )
    return frame.sort("path")


def _check_suspicious(ctx: TableContext, count: int, total: int, needed: set[str]) -> None:
    """Raise `Conflict` where suspiciously many files would be removed, or snapshots are missing.

    The files may belong to snapshots that were lost.
    """
    if not count:
        return
    _check_history(ctx)
    if needed and (count <= _SUSPICIOUS_COUNT or 2 * count <= total):
        return
    why = (
        f"{count} of {total} files of {ctx.name} would go"
        if needed
        else f"no snapshot, tag or changelog of {ctx.name} refers to any file"
    )
    msg = (
        f"{why}, which looks like a table whose metadata is lost: nothing was removed. Look at t.snapshots(); "
        "force=True removes them all the same"
    )
    raise Conflict(msg)


def _check_history(ctx: TableContext) -> None:
    for branch in reachability.list_branch_names(ctx):
        findings = Findings()
        metadata.check_history(reachability.on_branch(ctx, branch), findings)
        for finding in findings.problems:
            raise Conflict(
                f"{finding.check} in branch {branch} of {ctx.name}: {finding.problem}. Files of snapshots that are "
                f"lost would go: nothing was removed. {finding.remedy}; force=True removes them all the same"
            )


# ---- how old -------------------------------------------------------------------------------------


def _age_limit_ms(older_than: str | datetime | timedelta | None, now_ms: int) -> int:
    """Return the time before which a file must have been made to be removed, in milliseconds since 1970.

    Raises: `InvalidOption` for a time that is not past.
    """
    limit_ms = before_ms(older_than, "older_than", now_ms)
    if limit_ms is None:
        return now_ms - AGE_MS
    if limit_ms > now_ms:
        msg = (
            f"older_than= is in the future ({older_than}): files of commits under way would go. Give a time in the "
            "past; without one it is a day ago"
        )
        raise InvalidOption(msg, key="older_than", value=str(older_than))
    return limit_ms


def _storage_time_ms(ctx: TableContext) -> int:
    """Return the time of the storage's clock: that of a file written now."""
    path = f"{ctx.root.rstrip('/')}/{_CLOCK_FILE_PREFIX}{ctx.runtime.new_id()}"
    try:
        ctx.storage.put(path, b"")
        seen = ctx.storage.stat(path)
    finally:
        ctx.storage.delete([path])
    return ctx.runtime.now_ms() if seen is None else seen.modified_ms


# ---- what there is -------------------------------------------------------------------------------


def _list_candidates(
    ctx: TableContext, external_roots: Sequence[str], lists: Lists | None
) -> tuple[list[_DirectoryListing], list[Stat]]:
    """Return every file that could be an orphan, and the directories of buckets and partitions."""
    layout = ctx.paths
    listings = [
        _list_directory_files(ctx, kind, directory)
        for kind, directory in (
            ("manifest", layout.manifest_dir),
            ("index", layout.index_dir),
            ("statistics", layout.statistics_dir),
        )
    ]
    for branch in reachability.list_branch_names(ctx):
        branch_layout = reachability.on_branch(ctx, branch).paths
        listings += [
            _list_temporary_files(ctx, branch_layout.snapshot_dir, "snapshot-"),
            _list_temporary_files(ctx, branch_layout.changelog_dir, "changelog-"),
        ]
        listings += [
            _list_unfinished_writes(ctx, directory, prefix)
            for directory, prefix in (
                (branch_layout.tag_dir, ".tag-"),
                (branch_layout.schema_dir, ".schema-"),
                (branch_layout.consumer_dir, ".consumer-"),
            )
        ]
    listings += [
        _list_unfinished_writes(ctx, layout.root, _CLOCK_FILE_PREFIX, ""),
        _list_unfinished_writes(ctx, layout.root, f".{_CLOCK_FILE_PREFIX}"),
    ]
    files, directories = _list_data_directories(ctx, external_roots, lists)
    return [*listings, *files], directories


def _list_directory_files(ctx: TableContext, kind: str, directory: str) -> _DirectoryListing:
    """Return the files of a directory.

    On a local disk only names are read: ages matter only for files that no root names.
    """
    storage = ctx.storage
    if isinstance(storage, LocalStorage):
        return _DirectoryListing(
            kind=kind, directory=directory.rstrip("/"), names=storage.file_names(directory), file_stats=None
        )
    return _directory_listing(kind, directory, storage.list(directory))


def _directory_listing(kind: str, directory: str, stats: Sequence[Stat]) -> _DirectoryListing:
    seen = {stat.name: stat for stat in stats if not stat.is_dir}
    return _DirectoryListing(kind=kind, directory=directory.rstrip("/"), names=list(seen), file_stats=seen)


def _list_temporary_files(ctx: TableContext, directory: str, prefix: str) -> _DirectoryListing:
    """Return the files among snapshots that are neither a snapshot nor a hint."""
    return _list_directory_files(ctx, "temporary", directory).filter(
        lambda name: name not in _HINT_NAMES and not name.removeprefix(prefix).isdecimal()
    )


def _list_unfinished_writes(ctx: TableContext, directory: str, prefix: str, suffix: str = ".tmp") -> _DirectoryListing:
    """Return the files that a process was writing when it died, in directories that others use too."""
    return _list_directory_files(ctx, "temporary", directory).filter(
        lambda name: name.startswith(prefix) and name.endswith(suffix)
    )


def _external_roots(ctx: TableContext, *, external: bool) -> list[str]:
    """Return the external roots whose files are looked at.

    Raises: `LocationNotAllowed`, and `Conflict` for a root in the folder of another table.
    """
    named = ctx.paths.external_roots
    if not external:
        if named:
            shown = ", ".join(named)[:200]
            warn_user(
                f"{shown} of {ctx.name} was not looked at: other tables may keep files there, too. Where none does, "
                "external=True looks there"
            )
        return []
    external_roots = []
    for location in named:
        ctx.check_location(location, EXTERNAL_PATHS)
        root = without_scheme(location).rstrip("/")
        own = is_at_or_below(root, ctx.root.rstrip("/"))
        above = [] if own else [root.rsplit("/", count)[0] for count in range(root.count("/") - 2 * ("://" in root))]
        other = next((folder for folder in above if _has_schema(ctx, folder)), None)
        if other is not None:
            raise Conflict(
                f"the external root {location} of {ctx.name} lies in {other}, the folder of another table, whose "
                "files would be taken for orphans: "
                f"nothing was removed. Take it out of {EXTERNAL_PATHS}, or leave external out"
            )
        external_roots.append(root)
    return external_roots


def _has_schema(ctx: TableContext, directory: str) -> bool:
    layouts = (TablePaths(root=directory), TablePaths(root=directory, is_hidden=True))
    storage = confine(ctx.storage, directory)
    return any(
        storage.stat(layout.schema(0)) is not None or storage.stat(layout.schema_dir) is not None for layout in layouts
    )


def _list_data_directories(
    ctx: TableContext, external_roots: Sequence[str], lists: Lists | None
) -> tuple[list[_DirectoryListing], list[Stat]]:
    """Return the files of all bucket directories, and the directories of partitions and buckets.

    Bucket directories lie at the depth of the table's partitions.
    """
    layout, storage = ctx.paths, ctx.storage
    side_by_side = partial(map_io, is_remote=storage.is_remote)
    below = partial(side_by_side, storage.list) if lists is None else lists
    tops = [
        f"{layout.root.rstrip('/')}/{layout.directory}",
        *external_roots,
        *(f"{root}/{layout.directory}" for root in external_roots),
    ]  # the reference writes there
    directories: list[str] = list(dict.fromkeys(top.rstrip("/") for top in tops))
    seen: list[Stat] = []
    for _ in ctx.schema.partition_keys:
        partitions = [stat for listing in below(directories) for stat in listing if stat.is_dir and "=" in stat.name]
        seen += partitions
        directories = [stat.path for stat in partitions]
    buckets = [
        stat for listing in below(directories) for stat in listing if stat.is_dir and stat.name.startswith("bucket-")
    ]
    paths = [bucket.path for bucket in buckets]
    if lists is None:
        return side_by_side(partial(_list_directory_files, ctx, "data"), paths), [*seen, *buckets]
    return [_directory_listing("data", path, listing) for path, listing in zip(paths, lists(paths), strict=True)], [
        *seen,
        *buckets,
    ]


# ---- what is needed ------------------------------------------------------------------------------


def _collect_referenced_names(ctx: TableContext) -> set[str]:
    """Return the names of all files that any root names.

    Raises: `Conflict` where roots change faster than they can be read, and what reading raises.
    """
    names: set[str] = set()
    roots_read: dict[str, Snapshot] = {}
    for _ in range(reachability.MAX_ATTEMPTS + 2):
        now = reachability.read_all_roots(ctx)
        fresh = [root for root in now if roots_read.get(root.path) != root.snapshot]
        if roots_read and not fresh:
            return names
        try:
            names |= _referenced_names(ctx, fresh, reachability.oldest_snapshot_paths(now))
        except FileMissing as missing:
            if any(ctx.storage.stat(root.path) is None for root in fresh):
                continue  # expired while it was read: it is looked at again which roots there are
            msg = (
                f"{missing.path} is missing, which a snapshot, tag or changelog of {ctx.name} needs: what else is "
                "lost cannot be told, and nothing is removed. t.check() says more"
            )
            raise Corrupt(msg, path=missing.path) from missing
        roots_read |= {root.path: root.snapshot for root in now}
        if not now:
            return names
    raise Conflict(
        f"snapshots of {ctx.name} come and go faster than they can be read; nothing was removed. Try again when fewer "
        "commit"
    )


def _referenced_names(ctx: TableContext, gc_roots: Sequence[GcRoot], oldest: Collection[str]) -> set[str]:
    """Return the names of all files that some roots need.

    These are lists, manifests, data files with their extra files, index manifests, index files and statistics.
    """
    names: set[str] = set()
    index: dict[str, Snapshot] = {}
    for root in gc_roots:
        snapshot = root.snapshot
        lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list)
        names |= {name for name in (*lists, snapshot.statistics, snapshot.index_manifest) if name is not None}
        if snapshot.index_manifest is not None and root.kind != "changelog":
            index[snapshot.index_manifest] = snapshot
    deltas = [root.snapshot for root in gc_roots if root.kind == "changelog" and is_changelog(ctx, root)]
    pairs: list[tuple[Snapshot, Which]] = [
        (root.snapshot, which) for root in gc_roots for which in _retained_list_kinds(ctx, root)
    ]
    manifest_reader.prefetch_manifest_lists(ctx, [*pairs, *((snapshot, "base") for snapshot in deltas)])
    for snapshot in deltas:  # the base stays as expiry lets it stay, manifests without their files
        with suppress(FileMissing):
            names |= {
                name
                for file in manifest_reader.manifest_files(ctx, snapshot, "base")
                for name in (file.name, *file.extra_files)
            }
    listed = {file.name: file for root in gc_roots for file in _kept_manifests(ctx, root, oldest)}
    entries = manifest_reader.read_entries(ctx, list(listed.values()), columns=("file_name", "extra_files"))
    names.update(name for file in listed.values() for name in file.extra_files)
    names.update(
        listed, entries.column("file_name").to_pylist(), entries.column("extra_files").flatten().to_pylist()
    )  # scalar: one a file
    for snapshot in index.values():
        names |= {entry.file_name for entry in manifest_reader.index_entries(ctx, snapshot)}
    return names


def _kept_manifests(ctx: TableContext, root: GcRoot, oldest: Collection[str]) -> list[ManifestFileMeta]:
    """Return the manifests of the lists that a root keeps.

    The `oldest` snapshots may have lost their changelogs.
    """
    manifests: list[ManifestFileMeta] = []
    for which in _retained_list_kinds(ctx, root):
        try:
            manifests += manifest_reader.manifest_files(ctx, root.snapshot, which)
        except FileMissing:
            if which != "delta" and not (which == "changelog" and root.path in oldest):
                raise
    return manifests


def _retained_list_kinds(ctx: TableContext, root: GcRoot) -> tuple[Which, ...]:
    """Return the lists that a root keeps with all they name.

    A long-lived changelog without a list of its own is its delta, where that still exists; in tables that have a
    changelog producer it is nothing, and what is left of its delta is the remainder of an expiry that died.
    """
    if root.kind == "changelog":
        return (
            ("delta",)
            if is_changelog(ctx, root)
            else ()
            if root.snapshot.changelog_manifest_list is None
            else ("changelog",)
        )
    return ("all", "changelog") if root.kind == "snapshot" else ("all",)
