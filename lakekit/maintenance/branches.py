"""Branches created, renamed, deleted and fast-forwarded to; rollback; repair of the hints of a table.

    create_branch(ctx, "dev")            branch/branch-dev/schema/…                 every schema, no rows
    create_branch(ctx, "dev", tag="v1")  and snapshot/snapshot-3, tag/tag-v1        the rows of the tag
    fast_forward(ctx, "dev")             main from the branch's first snapshot on is what the branch is

A branch is metadata of its own over shared data files: deleting it leaves its data files to the removal of orphan
files, and so does a rollback. A branch exists once it has a schema, which is therefore written last and deleted first.

Source: ENGINE.md 5.11, 5.13, 11, FORMAT.md 1.6, 3.5; `FileSystemBranchManager`, `BranchManager`, `RollbackHelper`,
`RollbackToWatermarkProcedure`, `RepairEarliestSnapshotProcedure`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from lakekit.errors import (
    BranchAlreadyExists,
    BranchNotFound,
    Conflict,
    Corrupt,
    InvalidOption,
    LakekitError,
    SnapshotNotFound,
)
from lakekit.maintenance import reachability, tags as tagging
from lakekit.maintenance.result import DeletionResult
from lakekit.metadata import manifest_reader, refs, schemas, snapshots
from lakekit.model import snapshot
from lakekit.model.table_paths import MAIN_BRANCH, name_problem
from lakekit.parallel import parallel_map
from lakekit.storage import protocol
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot
    from lakekit.storage.protocol import Stat


def rollback_to(
    ctx: TableContext, to: int | str | datetime | None = None, *, watermark: int | None = None, dry_run: bool = False
) -> DeletionResult:
    """Make an older snapshot the newest one again: by its id, a tag, a time, or a watermark.

        LATEST = 5 ─▶ snapshot 9 … 6, newest first ─▶ changelogs after 5 ─▶ tags after 5

    Each step leaves a consistent table in a state between: the hint is not believed while snapshot 6 exists. A snapshot
    that only a tag keeps is written again first; a gap follows it then, so that the hint is written at the end. A tag
    replaces another snapshot of its id, as after a fast-forward of main.

    A time or watermark means the newest snapshot at or before it. If every watermark is greater, nothing is changed:
    the engine's releases up to 1.4.2 rolled back to the first snapshot then, although it is later than the given
    watermark.

    Raises: `SnapshotNotFound`, `TagNotFound`; `Corrupt` if the schema, a list or a manifest of the snapshot is lost
    or damaged; `InvalidOption` unless one of `to` and `watermark` is given; `Conflict` if a writer committed
    meanwhile, whose snapshot then stands.
    """
    reachability.check_removable(ctx)
    if (to is None) == (watermark is None):
        raise InvalidOption(
            f"{ctx.name} goes back to one state: give a snapshot, a tag or a time, or else a watermark",
            key="to",
            value=str(to),
        )
    target = (
        tagging.resolve_tag_snapshot(ctx, to) if watermark is None else snapshots.last_before_watermark(ctx, watermark)
    )
    check_readable_in_full(ctx, target)
    every = reachability.read_branch_roots(ctx)
    later = [root for root in every if root.snapshot.id > target.id]
    ids = sorted((root.snapshot.id for root in later if root.kind == "snapshot"), reverse=True)
    names = tuple(root.name for root in later if root.kind == "tag")
    done = DeletionResult(table=ctx.name, snapshot_ids=tuple(reversed(ids)), tags=names, dry_run=dry_run)
    if dry_run:
        return done
    storage, layout = ctx.storage, ctx.paths
    existing = next((root for root in every if root.kind == "snapshot" and root.snapshot.id == target.id), None)
    if existing is None:
        _restore_snapshot_file(ctx, target)
        storage.put(layout.earliest_hint, snapshot.encode_hint(target.id))
    elif existing.snapshot != target:
        reachability.write_root_file(ctx, existing.path, _without_lost_changelog(ctx, target).to_json())
    with suppress(LakekitError):  # a hint is advice
        if ids and ids[-1] != target.id + 1:
            storage.delete([layout.latest_hint])
        else:
            storage.put(layout.latest_hint, snapshot.encode_hint(target.id))
    storage.delete([layout.snapshot(number) for number in ids])
    _delete_later_changelogs(ctx, later, target.id)
    storage.delete([root.path for root in later if root.kind == "tag"])
    if ctx.options.tag_create_success_file:
        storage.delete([tagging.success_path(ctx, name) for name in names])
    _check_no_newer_snapshot(ctx, target.id)
    with suppress(LakekitError):
        storage.put(layout.latest_hint, snapshot.encode_hint(target.id))
    return done


def _check_no_newer_snapshot(ctx: TableContext, snapshot_id: int) -> None:
    """Raise `Conflict` if a writer committed a snapshot while the table was rolled back."""
    newer = [number for number in snapshots.ids(ctx) if number > snapshot_id]
    if newer:
        raise Conflict(
            f"a writer committed snapshot {newer[-1]} of {ctx.name} meanwhile, which stands. Stop writers, and roll "
            "back again"
        )


def check_readable_in_full(ctx: TableContext, target: Snapshot) -> None:
    """Raise `Corrupt` if no read of the snapshot could be planned, so that newer ones must be kept."""
    schemas.read_schema(ctx, target.schema_id)
    storage, layout = ctx.storage, ctx.paths
    lists = [
        name
        for name in (target.base_manifest_list, target.delta_manifest_list, target.index_manifest)
        if name is not None
    ]
    lost = [name for name in lists if not storage.exists(layout.manifest(name))]
    if not lost:
        names = [file.name for file in manifest_reader.manifest_files(ctx, target)]
        presence = parallel_map(lambda name: storage.exists(layout.manifest(name)), names, waiting=storage.is_remote)
        lost = [name for name, is_present in zip(names, presence, strict=True) if not is_present]
    if lost:
        msg = (
            f"snapshot {target.id} of {ctx.name} needs {lost[0]}, which is not there: nobody could read it, and "
            "nothing was changed. Go back to another snapshot or tag, or put the file back from a copy"
        )
        raise Corrupt(msg, path=layout.manifest(lost[0]))
    manifest_reader.read_live_entries(ctx, target)
    manifest_reader.index_entries(ctx, target)


def _restore_snapshot_file(ctx: TableContext, target: Snapshot) -> None:
    """Write the file of a snapshot again that only tags keep.

    Raises: `Conflict` if the tags are deleted meanwhile; the file is deleted again then.
    """
    keep = [ctx.paths.tag(tag.name) for tag in refs.list_tags(ctx) if tag.snapshot == target]
    path = ctx.paths.snapshot(target.id)
    ctx.storage.put_if_absent(path, target.to_json())
    if not any(map(ctx.storage.exists, keep)):
        ctx.storage.delete([path])
        raise Conflict(
            f"the tag that kept snapshot {target.id} of {ctx.name} was deleted meanwhile. Nothing was changed"
        )


def _without_lost_changelog(ctx: TableContext, target: Snapshot) -> Snapshot:
    """Return a tag's snapshot without its changelog, if that was deleted when the snapshot expired.

    A missing changelog is expected of the oldest snapshot, but not of one between others.
    """
    name = target.changelog_manifest_list
    if name is None or ctx.storage.exists(ctx.paths.manifest(name)):
        return target
    return replace(target, changelog_manifest_list=None, changelog_manifest_list_size=None, changelog_record_count=None)


def _delete_later_changelogs(ctx: TableContext, later: list[reachability.GcRoot], target: int) -> None:
    removed = sorted((root.snapshot.id for root in later if root.kind == "changelog"), reverse=True)
    if not removed:
        return
    left = [number for number in snapshots.changelog_ids(ctx) if number <= target]
    with suppress(LakekitError):
        if left:
            ctx.storage.put(ctx.paths.changelog_latest_hint, snapshot.encode_hint(left[-1]))
        else:
            ctx.storage.delete([ctx.paths.changelog_latest_hint])
    ctx.storage.delete([ctx.paths.changelog(number) for number in removed])


# ---- branches ------------------------------------------------------------


_SCHEMA_FOLDER = "schema"
_MAX_DEPTH = 4
_BRANCH_OPTIONS = ("scan.fallback-branch", "scan.primary-branch")
"""The options by which a branch is read along with another one."""


def create_branch(ctx: TableContext, name: str, *, tag: str | None = None) -> None:
    """Create a branch: empty with all schemas, or with the snapshot of a tag and the schemas up to it.

    Raises: `InvalidOption` for a name that no branch can have, `BranchAlreadyExists`, `TagNotFound`.
    """
    _check_name(ctx, name)
    branch_layout = ctx.paths.on_branch(name)
    if ctx.storage.list(branch_layout.branch_root):
        msg = f"{ctx.name} has a branch {name!r}, or what is left of one: t.delete_branch({name!r}) removes it"
        raise BranchAlreadyExists(msg, name=name)
    last = schemas.read_latest(ctx).id
    if tag is not None:
        source_tag = refs.read_tag(ctx, tag)
        last = source_tag.snapshot.schema_id
        _write_new_file(ctx, name, branch_layout.tag(tag), ctx.storage.read(ctx.paths.tag(tag)))
        _write_new_file(ctx, name, branch_layout.snapshot(source_tag.snapshot.id), source_tag.snapshot.to_json())
    for number in (schema_id for schema_id in schemas.list_ids(ctx) if schema_id <= last):
        _write_new_file(ctx, name, branch_layout.schema(number), ctx.storage.read(ctx.paths.schema(number)))
    if tag is not None and not ctx.storage.exists(ctx.paths.tag(tag)):
        delete_branch(ctx, name)
        raise Conflict(
            f"tag {tag!r} of {ctx.name} was deleted while branch {name!r} was made of it. There is no such branch now"
        )


def delete_branch(ctx: TableContext, name: str, *, dry_run: bool = False) -> DeletionResult:
    """Remove a branch with its snapshots and tags.

    Raises: `BranchNotFound`, and `InvalidOption` where options of the table or of another branch read it.
    """
    reachability.check_removable(ctx)
    _check_branch_exists(ctx, name)
    _check_not_fallback(ctx, name, "")
    branch_ctx = reachability.on_branch(ctx, name)
    ids, tag_names = tuple(snapshots.ids(branch_ctx)), tuple(refs.list_tag_names(branch_ctx))
    if not dry_run:
        delete_branch_files(ctx, name)
    return DeletionResult(table=ctx.name, branches=(name,), snapshot_ids=ids, tags=tag_names, dry_run=dry_run)


def rename_branch(ctx: TableContext, name: str, new: str) -> None:
    """Rename a branch. Raises `BranchNotFound`, `BranchAlreadyExists`, `InvalidOption`.

    Its files are copied before the old ones are deleted, so that the branch keeps its data files all the time; writers
    to it should pause. After an interruption the same call finishes the work.
    """
    _check_branch_exists(ctx, name)
    _check_name(ctx, new)
    _check_not_fallback(ctx, name, ", and set it again afterwards")
    old, target = ctx.paths.branch_dir(name), ctx.paths.branch_dir(new)
    mine, others = (_read_branch_files(ctx, directory) for directory in (old, target))
    is_schema = f"{_SCHEMA_FOLDER}/"
    shared = others.keys() & mine.keys()
    agree = all(mine[file] == others[file] for file in shared)
    was_copying = agree and others.keys() < mine.keys() and not any(file.startswith(is_schema) for file in others)
    was_removing = agree and mine.keys() < others.keys()
    if others and not (was_copying or was_removing):
        msg = f"{ctx.name} has a branch {new!r}, or what is left of one: t.delete_branch({new!r}) removes it"
        raise BranchAlreadyExists(msg, name=new)
    for file in sorted(mine, key=lambda file: file.startswith(is_schema)):
        _write_new_file(ctx, new, f"{target}/{file}", mine[file])
    delete_branch_files(ctx, name)


def fast_forward(ctx: TableContext, name: str, *, dry_run: bool = False) -> DeletionResult:
    """Replace the current branch's history from the first snapshot of branch `name` on by that of `name`.

    Snapshots, schemas and tags are replaced; what was committed here since that snapshot is lost. The other branch
    stays as it is. Interrupted halfway, the table is in a consistent state between the two, and the same call finishes
    the work.

    Raises: `BranchNotFound`, `SnapshotNotFound` for a branch without snapshots, `InvalidOption`, and `Corrupt` for a
    branch whose files cannot be read (nothing is replaced then).
    """
    reachability.check_removable(ctx)
    if name == ctx.paths.branch:
        raise InvalidOption(f"{name!r} is the branch itself; name the one to go forward to", key="branch", value=name)
    _check_branch_exists(ctx, name)
    branch_ctx = reachability.on_branch(ctx, name)
    numbers = snapshots.ids(branch_ctx)
    if not numbers:
        raise SnapshotNotFound(
            f"branch {name!r} of {ctx.name} has no snapshots, so there is nothing to go forward to", name=name
        )
    storage, own, other = ctx.storage, ctx.paths, branch_ctx.paths
    first, tag_names = _read_first_snapshot(branch_ctx, numbers), refs.list_tag_names(branch_ctx)
    same = snapshots.find(ctx, first.id) == first
    going = [
        number
        for number in sorted(snapshots.ids(ctx), reverse=True)
        if number > first.id or (number == first.id and not same)
    ]
    lost = [tag.name for tag in refs.list_tags(ctx) if tag.snapshot.id >= first.id and tag.name not in tag_names]
    done = DeletionResult(table=ctx.name, snapshot_ids=tuple(reversed(going)), tags=tuple(lost), dry_run=dry_run)
    if dry_run:
        return done
    with suppress(LakekitError):  # a hint is advice
        storage.delete([own.latest_hint])
    storage.delete([own.snapshot(number) for number in going])
    _replace_schemas(ctx, branch_ctx, first.schema_id)
    for number in numbers:
        reachability.write_root_file(ctx, own.snapshot(number), storage.read(other.snapshot(number)))
    for tag in tag_names:
        reachability.write_root_file(ctx, own.tag(tag), storage.read(other.tag(tag)))
    storage.delete([own.tag(tag) for tag in lost])
    storage.delete(
        [own.changelog(number) for number in snapshots.changelog_ids(ctx) if number >= first.id]
    )  # of the line that is given up
    with suppress(LakekitError):
        storage.put(own.latest_hint, snapshot.encode_hint(numbers[-1]))
        storage.put(own.earliest_hint, snapshot.encode_hint(snapshots.ids(ctx)[0]))
    return done


def _read_first_snapshot(branch_ctx: TableContext, snapshot_ids: Sequence[int]) -> Snapshot:
    """Return the first snapshot of a branch, after reading all of its metadata.

    That is all snapshots, schemas and tags, and the manifests of the newest snapshot.

    Raises: `Corrupt`, `FileMissing`.
    """
    schemas.read_all(branch_ctx)
    refs.list_tags(branch_ctx)
    read = [snapshots.read_snapshot(branch_ctx, number) for number in snapshot_ids]
    check_readable_in_full(branch_ctx, read[-1])
    return read[0]


def _replace_schemas(ctx: TableContext, branch_ctx: TableContext, first: int) -> None:
    """Replace the own schemas from an id on by those of the other branch; equal ones stay."""
    storage, own, other = ctx.storage, ctx.paths, branch_ctx.paths
    theirs = {number: storage.read(other.schema(number)) for number in schemas.list_ids(branch_ctx)}
    mine = [number for number in schemas.list_ids(ctx) if number >= first]
    stale = [number for number in mine if number not in theirs or storage.read(own.schema(number)) != theirs[number]]
    keep = theirs.get(first)
    storage.delete([own.schema(number) for number in sorted(stale, reverse=True) if number != first or keep is None])
    for number, data in sorted(theirs.items()):
        if number >= first or not storage.exists(own.schema(number)):
            reachability.write_root_file(ctx, own.schema(number), data)


# ---- names and files -----------------------------------------------------------------------------


def _check_name(ctx: TableContext, name: str) -> None:
    if not isinstance(name, str):
        msg = f"a branch's name is a text, not {type(name).__name__}"
        raise TypeError(msg)
    why = name_problem(name, reachability.BRANCH_PREFIX)
    if name == MAIN_BRANCH:
        why = "it is the branch that every table begins with"
    elif not name.strip():
        why = "it is blank"
    elif name.isdigit():
        why = "it is a number, and would be taken for a snapshot"
    elif why is None and name != name.strip():
        why = "it has blanks at its ends"
    if why is not None:
        raise InvalidOption(
            f"{name[:80]!a} cannot be the name of a branch of {ctx.name}: {why}", key="branch", value=name
        )


def _check_branch_exists(ctx: TableContext, name: str) -> None:
    """Raise where no such branch exists, not even what is left of one."""
    if name == MAIN_BRANCH:
        raise InvalidOption(
            f"{MAIN_BRANCH!r} is the branch that every table begins with; it cannot be deleted, renamed or gone "
            f"forward to",
            key="branch",
            value=name,
        )
    if name not in reachability.list_branch_names(ctx):
        existing = ", ".join(reachability.list_branch_names(ctx)[1:])
        raise BranchNotFound(
            f"{ctx.name} has no branch {name!r}; "
            f"{f'its branches are {existing}' if existing else 'it has no branches'}",
            name=name,
        )


def find_unfinished(ctx: TableContext, name: str, before_ms: int) -> list[Stat] | None:
    """Return the files of a branch that `create_branch` began and never finished; None if it may be another.

    Such a branch has no schema. It holds temporary files, and a tag and its snapshot that the current branch has too,
    so that nothing is lost with it. All of it is older than `before_ms`.
    """
    branch_ctx = reachability.on_branch(ctx, name)
    entries = _list_branch_entries(ctx, branch_ctx.paths.branch_root)
    top = ctx.storage.stat(branch_ctx.paths.branch_root)
    if schemas.list_ids(branch_ctx) or any(
        entry.modified_ms >= before_ms for entry in (*entries, *([] if top is None else [top]))
    ):
        return None
    files = [entry for entry in entries if not entry.is_dir]
    lasting = [entry for entry in files if not (entry.name.startswith(".") and entry.name.endswith(".tmp"))]
    copies = _copies_of_tags(ctx, branch_ctx)
    with suppress(LakekitError):
        if all(ctx.storage.read(entry.path) == copies.get(entry.path) for entry in lasting):
            return files
    return None


def _copies_of_tags(ctx: TableContext, branch_ctx: TableContext) -> dict[str, bytes]:
    """Return the files that `create_branch` would write for the tags of the current branch: bytes by path."""
    copies = {}
    for tag in refs.list_tags(ctx):
        copies[branch_ctx.paths.tag(tag.name)] = ctx.storage.read(ctx.paths.tag(tag.name))
        copies[branch_ctx.paths.snapshot(tag.snapshot.id)] = tag.snapshot.to_json()
    return copies


def _list_branch_entries(ctx: TableContext, directory: str, depth: int = 0) -> list[Stat]:
    """Return the files and directories of a branch, in all of its directories."""
    entries = []
    for entry in ctx.storage.list(directory):
        entries.append(entry)
        if entry.is_dir and depth < _MAX_DEPTH:
            entries += _list_branch_entries(ctx, entry.path, depth + 1)
    return entries


def _check_not_fallback(ctx: TableContext, name: str, afterwards: str) -> None:
    """Raise `InvalidOption` if another branch reads this one through its options.

    Reads of that other branch would silently lack partitions.
    """
    branch_options: list[tuple[str, Mapping[str, str]]] = [(ctx.paths.branch, ctx.options.texts)]
    for branch in reachability.list_branch_names(ctx):
        with suppress(LakekitError):  # one that is half there reads nothing
            branch_options.append((branch, schemas.read_latest(reachability.on_branch(ctx, branch)).options))
    for branch, options in branch_options:
        for key in _BRANCH_OPTIONS:
            if branch != name and options.get(key) == name:
                table = "t" if branch == ctx.paths.branch else f"t.branch({branch!r})"
                whose = ctx.name if branch == MAIN_BRANCH else f"branch {branch!r} of {ctx.name}"
                raise InvalidOption(
                    f"branch {name!r} is {key} of {whose}: {table}.alter(lk.reset_option({key!r})) first{afterwards}",
                    key=key,
                    value=name,
                )


def _write_new_file(ctx: TableContext, name: str, path: str, data: bytes) -> None:
    if not ctx.storage.put_if_absent(path, data):
        raise BranchAlreadyExists(f"{ctx.name} has a branch {name!r} by now: another process made it", name=name)


def _list_branch_files(ctx: TableContext, directory: str) -> list[str]:
    """Return the files of a branch, in all of its directories, and its links to files elsewhere."""
    inside = list(_list_branch_entries(ctx, directory))
    above = [directory, *(entry.path for entry in inside if entry.is_dir)]
    links = [f"{folder}/{name}" for folder in above for name in protocol.link_names(ctx.storage, folder)]
    return [*(entry.path for entry in inside if not entry.is_dir), *links]


def _read_branch_files(ctx: TableContext, directory: str) -> dict[str, bytes]:
    """Return the files of a branch by their path inside it."""
    return {path.removeprefix(f"{directory}/"): ctx.storage.read(path) for path in _list_branch_files(ctx, directory)}


def delete_branch_files(ctx: TableContext, name: str) -> None:
    """Delete the files of a branch: the schemas first, then everything, then the directories."""
    directory = ctx.paths.branch_dir(name)
    files = _list_branch_files(ctx, directory)
    ctx.storage.delete(sorted(files, key=lambda path: not path.startswith(f"{directory}/{_SCHEMA_FOLDER}/")))
    inside = (
        {path.rpartition("/")[0] for path in files}
        | {entry.path for entry in ctx.storage.list(directory) if entry.is_dir}
        | {directory}
    )
    ctx.storage.remove_directories(sorted(inside, key=lambda path: (-path.count("/"), path)))


# ---- repair ------------------------------------------------------------


_REPAIR_SCHEMA = {"file": pl.String(), "was": pl.Int64(), "is": pl.Int64()}


def repair_hints(ctx: TableContext) -> pl.DataFrame:
    """Repair the hints of the current branch; return a row for each that was wrong, missing or useless.

        snapshot-3  snapshot-5  snapshot-6   LATEST 4  EARLIEST –      ->      LATEST 6  EARLIEST 5

    Readers of lakekit verify hints; other engines believe EARLIEST, so that after a gap (a snapshot that was lost, or
    removed by hand) it must name the first of the unbroken sequence that ends with the newest. `was` is null for a
    missing hint.

    Raises: `StorageFailed`.
    """
    layout = ctx.paths
    mended: list[tuple[str, int | None, int | None]] = []
    for ids, latest, earliest in (
        (snapshots.ids(ctx), layout.latest_hint, layout.earliest_hint),
        (snapshots.changelog_ids(ctx), layout.changelog_latest_hint, layout.changelog_earliest_hint),
    ):
        for path, wanted in ((latest, ids[-1] if ids else None), (earliest, _first_of_last_run(ids))):
            exists, was = _read_hint(ctx, path)
            if was == wanted and exists == (wanted is not None):
                continue
            if wanted is None:
                ctx.storage.delete([path])
            else:
                ctx.storage.put(path, snapshot.encode_hint(wanted))
            mended.append((path, was, wanted))
    return pl.DataFrame(mended, schema=_REPAIR_SCHEMA, orient="row")


def _first_of_last_run(ids: Sequence[int]) -> int | None:
    """Return the first number of the gapless sequence that ends with the last."""
    first = ids[-1] if ids else None
    for number in reversed(ids[:-1]):
        if first is None or number != first - 1:
            break
        first = number
    return first


def _read_hint(ctx: TableContext, path: str) -> tuple[bool, int | None]:
    """Return whether a hint file exists, and the id in it."""
    try:
        return True, snapshot.decode_hint(ctx.storage.read(path, 0, 32))
    except FileMissing:
        return False, None
