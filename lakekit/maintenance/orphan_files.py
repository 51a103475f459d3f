"""Files that nothing refers to, left by writers that died: found by name, and removed when they are old.

    list the files ─▶ read all roots ─▶ all roots again ─▶ old files that no root names
                                        changed: what came is read too

Files are listed before the roots are read, so that whatever a commit adds meanwhile is no candidate; roots are read until they stay the same; a root that
cannot be read stops everything (RELIABILITY D5, D6). Ages are told by the clock of the storage, not by this machine's. What counts is the name: a file
that any snapshot, tag or long-lived changelog of any branch names, added or deleted, stays.

An external root is left out: nothing in its paths tells the files of two tables apart that share it, and what one of them does not name may be a live file of
the other. The caller who knows that a root is this table's alone says so (`external`); one that lies in the folder of another table is refused all the same.

Source: ENGINE.md 5.14, `OrphanFilesClean`, `LocalOrphanFilesClean`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from lakekit.errors import Conflict, Corrupt, InvalidOption
from lakekit.maintenance import branches, roots
from lakekit.maintenance.arguments import before_ms
from lakekit.maintenance.check import history
from lakekit.maintenance.check.findings import Findings
from lakekit.maintenance.reachability import is_changelog
from lakekit.metadata import manifest_reader, schemas
from lakekit.model.locations import EXTERNAL_PATHS, is_at_or_below
from lakekit.model.table_paths import TablePaths, without_scheme
from lakekit.storage import confine
from lakekit.storage.local import LocalStorage
from lakekit.storage.protocol import FileMissing
from lakekit.world import map_io, warn_user

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime, timedelta
    from typing import Literal

    from lakekit.maintenance.roots import GcRoot
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifests import ManifestFileMeta
    from lakekit.model.snapshot import Snapshot
    from lakekit.storage.protocol import Stat

    Which = Literal["all", "base", "delta", "changelog"]
    Lists = Callable[[Sequence[str]], list[list[Stat]]]
    Deletes = Callable[[Sequence[str]], None]

AGE_MS = 24 * 3_600_000
"""Younger files may belong to a commit that is under way."""
_CLOCK = ".clock-"
_HINTS = frozenset({"LATEST", "EARLIEST"})
_BLOB_SUFFIXES = (".managed.blob", ".blobref", ".blob")
"""Ends of names of files that other files refer to, not manifests: packs of values, references to them, and values of their own. None of them is an orphan."""
_SUSPICIOUS_COUNT = 100
"""So many files have to be in question before their share of all is suspicious: beside the few files of a small table, those of one writer that died are more
than half. That its snapshots were lost is told by their row, whatever its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _DirectoryListing:
    """The files of a directory that are of a kind, by name. `seen`: what the listing said of each; None: nothing but that they are there."""

    kind: str
    directory: str
    names: Sequence[str]
    seen: Mapping[str, Stat] | None

    def only(self, wanted: Callable[[str], bool]) -> _DirectoryListing:
        """Those of them whose names are wanted."""
        return replace(self, names=[name for name in self.names if wanted(name)])


def remove(
    ctx: TableContext,
    *,
    older_than: str | datetime | timedelta | None,
    dry_run: bool,
    force: bool,
    external: bool = False,
    lists: Lists | None = None,
    deletes: Deletes | None = None,
) -> pl.DataFrame:
    """The orphans that are older than that, removed unless `dry_run`; see `Table.remove_orphans`.

    `external`: whether external roots are looked at too; they must be allowed, and no other table may have files there. `lists` and `deletes`: who lists
    the directories of partitions and buckets, and deletes files; None: the storage, from here.
    """
    roots.check_removable(ctx)
    outside = _external_roots(ctx, external=external)
    limit_ms = _limit_ms(older_than, ctx.world.now_ms() if dry_run else _storage_time_ms(ctx))
    unfinished = _unfinished_branches(ctx, limit_ms)
    listed, directories = _list_candidates(ctx, outside, lists)
    needed = _collect_referenced_names(ctx)
    gone = [
        (one.kind, file)
        for one in listed
        for file in _stat_files(ctx, one if one.kind == "temporary" else one.only(lambda name: name not in needed and not name.endswith(_BLOB_SUFFIXES)))
        if file.modified_ms < limit_ms
    ]
    if not force:
        _check_suspicious(ctx, len(gone), sum(len(one.names) for one in listed), needed)
    if not dry_run and gone:
        (deletes or ctx.storage.delete)([file.path for _, file in gone])
    temporary = {file.path for _, file in gone}
    gone += [("branch", file) for files in unfinished.values() for file in files if file.path not in temporary]
    if not dry_run:
        for branch in unfinished:
            branches.drop(ctx, branch)
        old = [one.path for one in directories if one.modified_ms < limit_ms]
        ctx.storage.remove_directories(sorted(old, key=lambda path: (-path.count("/"), path)))
    return _orphans_frame(gone)


def _unfinished_branches(ctx: TableContext, limit_ms: int) -> dict[str, list[Stat]]:
    """Return the branches that were begun and never finished, with their files. Raises `Corrupt` for another one without schema."""
    found = {}
    for branch in roots.branches(ctx):
        if schemas.ids(roots.on_branch(ctx, branch)):
            continue
        files = branches.find_unfinished(ctx, branch, limit_ms)
        if files is None:
            msg = f"branch {branch!r} of {ctx.name} has no schema: what it needs cannot be told, and nothing is removed. Delete or repair it first"
            raise Corrupt(msg, path=roots.on_branch(ctx, branch).layout.schema_dir)
        found[branch] = files
    return found


def _stat_files(ctx: TableContext, listed: _DirectoryListing) -> list[Stat]:
    """How large and how old files are; those that went meanwhile are left out. Who looks late sees no file older than it was when it was listed."""
    if listed.seen is not None:
        return [listed.seen[name] for name in listed.names]
    looked_at = [ctx.storage.stat(f"{listed.directory}/{name}") for name in listed.names]
    return [one for one in looked_at if one is not None and not one.is_dir]


def _orphans_frame(gone: Sequence[tuple[str, Stat]]) -> pl.DataFrame:
    files = [file for _, file in gone]
    found = pl.DataFrame(
        {
            "path": pl.Series([file.path for file in files], dtype=pl.String),
            "kind": pl.Series([kind for kind, _ in gone], dtype=pl.String),
            "size_bytes": pl.Series([file.size_bytes for file in files], dtype=pl.Int64),
            "modified": pl.Series([file.modified_ms for file in files], dtype=pl.Int64).cast(pl.Datetime("ms", "UTC")),
        }
    )
    return found.sort("path")


def _check_suspicious(ctx: TableContext, gone: int, total: int, needed: set[str]) -> None:
    """Raises `Conflict` where so much would go that something else must be wrong, and where snapshots are lost, whose files they may be."""
    if not gone:
        return
    _check_history(ctx)
    if needed and (gone <= _SUSPICIOUS_COUNT or 2 * gone <= total):
        return
    why = f"{gone} of {total} files of {ctx.name} would go" if needed else f"no snapshot, tag or changelog of {ctx.name} refers to any file"
    msg = f"{why}, which looks like a table whose metadata is lost: nothing was removed. Look at t.snapshots(); force=True removes them all the same"
    raise Conflict(msg)


def _check_history(ctx: TableContext) -> None:
    for branch in roots.branches(ctx):
        notes = Findings()
        history.check(roots.on_branch(ctx, branch), notes)
        for one in notes.problems:
            msg = f"{one.what} in branch {branch} of {ctx.name}: {one.found}. Files of snapshots that are lost would go: nothing was removed. {one.remedy}; \
force=True removes them all the same"
            raise Conflict(msg)


# ---- how old ---------------------------------------------------------------------------------------------------------------------------------------------


def _limit_ms(older_than: str | datetime | timedelta | None, now_ms: int) -> int:
    """Files made before go. Raises `InvalidOption` for a time that is not past."""
    limit_ms = before_ms(older_than, "older_than", now_ms)
    if limit_ms is None:
        return now_ms - AGE_MS
    if limit_ms > now_ms:
        msg = f"older_than= is in the future ({older_than}): files of commits under way would go. Give a time in the past; without one it is a day ago"
        raise InvalidOption(msg, key="older_than", value=str(older_than))
    return limit_ms


def _storage_time_ms(ctx: TableContext) -> int:
    """What time it is where files get theirs: that of a file made now."""
    path = f"{ctx.root.rstrip('/')}/{_CLOCK}{ctx.world.new_id()}"
    try:
        ctx.storage.put(path, b"")
        seen = ctx.storage.stat(path)
    finally:
        ctx.storage.delete([path])
    return ctx.world.now_ms() if seen is None else seen.modified_ms


# ---- what there is ---------------------------------------------------------------------------------------------------------------------------------------


def _list_candidates(ctx: TableContext, outside: Sequence[str], lists: Lists | None) -> tuple[list[_DirectoryListing], list[Stat]]:
    """Every file that could be one, and the directories of buckets and partitions."""
    layout = ctx.layout
    found = [
        _files(ctx, kind, directory)
        for kind, directory in (("manifest", layout.manifest_dir), ("index", layout.index_dir), ("statistics", layout.statistics_dir))
    ]
    for branch in roots.branches(ctx):
        of = roots.on_branch(ctx, branch).layout
        found += [_list_temporary_files(ctx, of.snapshot_dir, "snapshot-"), _list_temporary_files(ctx, of.changelog_dir, "changelog-")]
        found += [
            _list_unfinished_writes(ctx, directory, prefix)
            for directory, prefix in ((of.tag_dir, ".tag-"), (of.schema_dir, ".schema-"), (of.consumer_dir, ".consumer-"))
        ]
    found += [_list_unfinished_writes(ctx, layout.root, _CLOCK, ""), _list_unfinished_writes(ctx, layout.root, f".{_CLOCK}")]
    files, directories = _data(ctx, outside, lists)
    return [*found, *files], directories


def _files(ctx: TableContext, kind: str, directory: str) -> _DirectoryListing:
    """The files of a directory. On a disk nothing is asked of each of them: only of those that no root names will it matter how old they are."""
    storage = ctx.storage
    if isinstance(storage, LocalStorage):
        return _DirectoryListing(kind=kind, directory=directory.rstrip("/"), names=storage.file_names(directory), seen=None)
    return _directory_listing(kind, directory, storage.list(directory))


def _directory_listing(kind: str, directory: str, listed: Sequence[Stat]) -> _DirectoryListing:
    seen = {one.name: one for one in listed if not one.is_dir}
    return _DirectoryListing(kind=kind, directory=directory.rstrip("/"), names=list(seen), seen=seen)


def _list_temporary_files(ctx: TableContext, directory: str, prefix: str) -> _DirectoryListing:
    """Files among snapshots that are neither one nor a hint."""
    return _files(ctx, "temporary", directory).only(lambda name: name not in _HINTS and not name.removeprefix(prefix).isdecimal())


def _list_unfinished_writes(ctx: TableContext, directory: str, prefix: str, suffix: str = ".tmp") -> _DirectoryListing:
    """Files that a process was writing when it died, where others keep files of their own."""
    return _files(ctx, "temporary", directory).only(lambda name: name.startswith(prefix) and name.endswith(suffix))


def _external_roots(ctx: TableContext, *, external: bool) -> list[str]:
    """Return the external roots whose files are looked at. Raises `LocationNotAllowed`, and `Conflict` for a root in the folder of another table."""
    named = ctx.layout.external_roots
    if not external:
        if named:
            shown = ", ".join(named)[:200]
            warn_user(f"{shown} of {ctx.name} was not looked at: other tables may keep files there, too. Where none does, external=True looks there")
        return []
    found = []
    for location in named:
        ctx.check_location(location, EXTERNAL_PATHS)
        root = without_scheme(location).rstrip("/")
        own = is_at_or_below(root, ctx.root.rstrip("/"))
        above = [] if own else [root.rsplit("/", count)[0] for count in range(root.count("/") - 2 * ("://" in root))]
        other = next((one for one in above if _has_schema(ctx, one)), None)
        if other is not None:
            raise Conflict(
                f"the external root {location} of {ctx.name} lies in {other}, the folder of another table, whose files would be taken for orphans: "
                f"nothing was removed. Take it out of {EXTERNAL_PATHS}, or leave external out"
            )
        found.append(root)
    return found


def _has_schema(ctx: TableContext, directory: str) -> bool:
    layouts = (TablePaths(root=directory), TablePaths(root=directory, hidden=True))
    storage = confine(ctx.storage, directory)
    return any(storage.stat(layout.schema(0)) is not None or storage.stat(layout.schema_dir) is not None for layout in layouts)


def _data(ctx: TableContext, outside: Sequence[str], lists: Lists | None) -> tuple[list[_DirectoryListing], list[Stat]]:
    """The files of all bucket directories at the depth of the table's partitions, and the directories on the way."""
    layout, storage = ctx.layout, ctx.storage
    side_by_side = partial(map_io, is_remote=storage.is_remote)
    below = partial(side_by_side, storage.list) if lists is None else lists
    tops = [f"{layout.root.rstrip('/')}/{layout.directory}", *outside, *(f"{root}/{layout.directory}" for root in outside)]  # the reference writes there
    places: list[str] = list(dict.fromkeys(top.rstrip("/") for top in tops))
    seen: list[Stat] = []
    for _ in ctx.schema.partition_keys:
        partitions = [one for some in below(places) for one in some if one.is_dir and "=" in one.name]
        seen += partitions
        places = [one.path for one in partitions]
    buckets = [one for some in below(places) for one in some if one.is_dir and one.name.startswith("bucket-")]
    paths = [bucket.path for bucket in buckets]
    if lists is None:
        return side_by_side(partial(_files, ctx, "data"), paths), [*seen, *buckets]
    return [_directory_listing("data", path, some) for path, some in zip(paths, lists(paths), strict=True)], [*seen, *buckets]


# ---- what is needed --------------------------------------------------------------------------------------------------------------------------------------


def _collect_referenced_names(ctx: TableContext) -> set[str]:
    """The names of all files that any root names. Raises `Conflict` where roots change faster than they can be read, and what reading raises."""
    names: set[str] = set()
    known: dict[str, Snapshot] = {}
    for _ in range(roots.ATTEMPTS + 2):
        now = roots.read_all_roots(ctx)
        fresh = [root for root in now if known.get(root.path) != root.snapshot]
        if known and not fresh:
            return names
        try:
            names |= _names(ctx, fresh, roots.oldest_snapshot_paths(now))
        except FileMissing as missing:
            if any(ctx.storage.stat(root.path) is None for root in fresh):
                continue  # expired while it was read: it is looked at again which roots there are
            msg = f"{missing.path} is missing, which a snapshot, tag or changelog of {ctx.name} needs: what else is lost cannot be told, and nothing is \
removed. t.check() says more"
            raise Corrupt(msg, path=missing.path) from missing
        known |= {root.path: root.snapshot for root in now}
        if not now:
            return names
    raise Conflict(f"snapshots of {ctx.name} come and go faster than they can be read; nothing was removed. Try again when fewer commit")


def _names(ctx: TableContext, some: Sequence[GcRoot], oldest: Collection[str]) -> set[str]:
    """Lists, manifests, data files with what lies beside them, index manifests, index files and statistics of some roots."""
    found: set[str] = set()
    index: dict[str, Snapshot] = {}
    for root in some:
        snapshot = root.snapshot
        lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list)
        found |= {name for name in (*lists, snapshot.statistics, snapshot.index_manifest) if name is not None}
        if snapshot.index_manifest is not None and root.kind != "changelog":
            index[snapshot.index_manifest] = snapshot
    deltas = [root.snapshot for root in some if root.kind == "changelog" and is_changelog(ctx, root)]
    pairs: list[tuple[Snapshot, Which]] = [(root.snapshot, which) for root in some for which in _kept_lists(ctx, root)]
    manifest_reader.read_lists(ctx, [*pairs, *((snapshot, "base") for snapshot in deltas)])
    for snapshot in deltas:  # the base stays as expiry lets it stay, manifests without their files
        with suppress(FileMissing):
            found |= {name for file in manifest_reader.manifest_files(ctx, snapshot, "base") for name in (file.name, *file.extra_files)}
    listed = {file.name: file for root in some for file in _kept_manifests(ctx, root, oldest)}
    entries = manifest_reader.read_entries(ctx, list(listed.values()), columns=("file_name", "extra_files"))
    found.update(name for file in listed.values() for name in file.extra_files)
    found.update(listed, entries.column("file_name").to_pylist(), entries.column("extra_files").flatten().to_pylist())  # scalar: one a file
    for snapshot in index.values():
        found |= {entry.file_name for entry in manifest_reader.index_entries(ctx, snapshot)}
    return found


def _kept_manifests(ctx: TableContext, root: GcRoot, oldest: Collection[str]) -> list[ManifestFileMeta]:
    """The manifests of the lists that a root keeps whole. The `oldest` snapshots may have lost their changelogs."""
    found: list[ManifestFileMeta] = []
    for which in _kept_lists(ctx, root):
        try:
            found += manifest_reader.manifest_files(ctx, root.snapshot, which)
        except FileMissing:
            if which != "delta" and not (which == "changelog" and root.path in oldest):
                raise
    return found


def _kept_lists(ctx: TableContext, root: GcRoot) -> tuple[Which, ...]:
    """The lists that a root keeps whole.

    A long-lived changelog without a list of its own is its delta, where that is still there; in tables that have a changelog producer it is nothing, and what
    lies there of its delta was left by an expiry that died.
    """
    if root.kind == "changelog":
        return ("delta",) if is_changelog(ctx, root) else () if root.snapshot.changelog_manifest_list is None else ("changelog",)
    return ("all", "changelog") if root.kind == "snapshot" else ("all",)
