"""Branches created, renamed and deleted, and main fast-forwarded to a branch.

    create(ctx, "dev")               branch/branch-dev/schema/…                 every schema, no rows
    create(ctx, "dev", tag="v1")     and snapshot/snapshot-3, tag/tag-v1        the rows of the tag
    fast_forward(ctx, "dev")         main from the branch's first snapshot on is what the branch is

A branch is metadata of its own over shared data files: deleting it leaves its data files to the removal of orphan
files. A branch exists once it has a schema, which is therefore written last and deleted first.
Source: ENGINE.md 5.11, FORMAT.md 3.5; `FileSystemBranchManager`, `BranchManager`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lakekit.errors import BranchAlreadyExists, BranchNotFound, Conflict, InvalidOption, LakekitError, SnapshotNotFound
from lakekit.maintenance import roots
from lakekit.maintenance.result import Expired
from lakekit.maintenance.rollback import check_whole
from lakekit.metadata import schemas, snapshots, tags
from lakekit.model import hint
from lakekit.model.table_paths import MAIN, flaw
from lakekit.storage import folders

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot
    from lakekit.storage.protocol import Stat

_SCHEMA_FOLDER = "schema"
_MAX_DEPTH = 4
_BRANCH_OPTIONS = ("scan.fallback-branch", "scan.primary-branch")
"""The options by which a branch is read along with another one."""


def create(ctx: TableContext, name: str, *, tag: str | None = None) -> None:
    """Create a branch: empty with all schemas, or with the snapshot of a tag and the schemas up to it.

    Raises: `InvalidOption` for a name that no branch can have, `BranchAlreadyExists`, `TagNotFound`.
    """
    _check_name(ctx, name)
    branch_layout = ctx.layout.on_branch(name)
    if ctx.storage.list(branch_layout.branch_root):
        msg = f"{ctx.name} has a branch {name!r}, or what is left of one: t.delete_branch({name!r}) removes it"
        raise BranchAlreadyExists(msg, name=name)
    last = schemas.latest(ctx).id
    if tag is not None:
        source_tag = tags.read(ctx, tag)
        last = source_tag.snapshot.schema_id
        _claim(ctx, name, branch_layout.tag(tag), ctx.storage.read(ctx.layout.tag(tag)))
        _claim(ctx, name, branch_layout.snapshot(source_tag.snapshot.id), source_tag.snapshot.to_json())
    for number in (schema_id for schema_id in schemas.ids(ctx) if schema_id <= last):
        _claim(ctx, name, branch_layout.schema(number), ctx.storage.read(ctx.layout.schema(number)))
    if tag is not None and not ctx.storage.exists(ctx.layout.tag(tag)):
        delete(ctx, name)
        raise Conflict(
            f"tag {tag!r} of {ctx.name} was deleted while branch {name!r} was made of it. There is no such branch now"
        )


def delete(ctx: TableContext, name: str, *, dry_run: bool = False) -> Expired:
    """Remove a branch with its snapshots and tags.

    Raises: `BranchNotFound`, and `InvalidOption` where options of the table or of another branch read it.
    """
    roots.check_removable(ctx)
    _check_other(ctx, name)
    _check_unread(ctx, name, "")
    branch_ctx = roots.on_branch(ctx, name)
    ids, tag_names = tuple(snapshots.ids(branch_ctx)), tuple(tags.names(branch_ctx))
    if not dry_run:
        drop(ctx, name)
    return Expired(table=ctx.name, branches=(name,), snapshot_ids=ids, tags=tag_names, dry_run=dry_run)


def rename(ctx: TableContext, name: str, new: str) -> None:
    """Rename a branch. Raises `BranchNotFound`, `BranchAlreadyExists`, `InvalidOption`.

    Its files are copied before the old ones are deleted, so that the branch keeps its data files all the time; writers
    to it should pause. After an interruption the same call finishes the work.
    """
    _check_other(ctx, name)
    _check_name(ctx, new)
    _check_unread(ctx, name, ", and set it again afterwards")
    old, target = ctx.layout.branch_dir(name), ctx.layout.branch_dir(new)
    mine, others = (_contents(ctx, directory) for directory in (old, target))
    is_schema = f"{_SCHEMA_FOLDER}/"
    shared = others.keys() & mine.keys()
    agree = all(mine[file] == others[file] for file in shared)
    was_copying = agree and others.keys() < mine.keys() and not any(file.startswith(is_schema) for file in others)
    was_removing = agree and mine.keys() < others.keys()
    if others and not (was_copying or was_removing):
        msg = f"{ctx.name} has a branch {new!r}, or what is left of one: t.delete_branch({new!r}) removes it"
        raise BranchAlreadyExists(msg, name=new)
    for file in sorted(mine, key=lambda file: file.startswith(is_schema)):
        _claim(ctx, new, f"{target}/{file}", mine[file])
    drop(ctx, name)


def fast_forward(ctx: TableContext, name: str, *, dry_run: bool = False) -> Expired:
    """Replace the current branch's history from the first snapshot of branch `name` on by that of `name`.

    Snapshots, schemas and tags are replaced; what was committed here since that snapshot is lost. The other branch
    stays as it is. Interrupted halfway, the table is in a consistent state between the two, and the same call finishes
    the work.

    Raises: `BranchNotFound`, `SnapshotNotFound` for a branch without snapshots, `InvalidOption`, and `Corrupt` for a
    branch whose files cannot be read (nothing is replaced then).
    """
    roots.check_removable(ctx)
    if name == ctx.layout.branch:
        raise InvalidOption(f"{name!r} is the branch itself; name the one to go forward to", key="branch", value=name)
    _check_other(ctx, name)
    branch_ctx = roots.on_branch(ctx, name)
    numbers = snapshots.ids(branch_ctx)
    if not numbers:
        raise SnapshotNotFound(
            f"branch {name!r} of {ctx.name} has no snapshots, so there is nothing to go forward to", name=name
        )
    storage, own, other = ctx.storage, ctx.layout, branch_ctx.layout
    first, tag_names = _read_first_snapshot(branch_ctx, numbers), tags.names(branch_ctx)
    same = snapshots.find(ctx, first.id) == first
    going = [
        number
        for number in sorted(snapshots.ids(ctx), reverse=True)
        if number > first.id or (number == first.id and not same)
    ]
    lost = [tag.name for tag in tags.all(ctx) if tag.snapshot.id >= first.id and tag.name not in tag_names]
    done = Expired(table=ctx.name, snapshot_ids=tuple(reversed(going)), tags=tuple(lost), dry_run=dry_run)
    if dry_run:
        return done
    with suppress(LakekitError):  # a hint is advice
        storage.delete([own.latest_hint])
    storage.delete([own.snapshot(number) for number in going])
    _schemas(ctx, branch_ctx, first.schema_id)
    for number in numbers:
        roots.write(ctx, own.snapshot(number), storage.read(other.snapshot(number)))
    for tag in tag_names:
        roots.write(ctx, own.tag(tag), storage.read(other.tag(tag)))
    storage.delete([own.tag(tag) for tag in lost])
    storage.delete(
        [own.changelog(number) for number in snapshots.changelog_ids(ctx) if number >= first.id]
    )  # of the line that is given up
    with suppress(LakekitError):
        storage.put(own.latest_hint, hint.encode(numbers[-1]))
        storage.put(own.earliest_hint, hint.encode(snapshots.ids(ctx)[0]))
    return done


def _read_first_snapshot(branch_ctx: TableContext, numbers: Sequence[int]) -> Snapshot:
    """Return the first snapshot of a branch, after reading all of its metadata.

    That is all snapshots, schemas and tags, and the manifests of the newest snapshot.

    Raises: `Corrupt`, `FileMissing`.
    """
    schemas.all(branch_ctx)
    tags.all(branch_ctx)
    read = [snapshots.read(branch_ctx, number) for number in numbers]
    check_whole(branch_ctx, read[-1])
    return read[0]


def _schemas(ctx: TableContext, branch_ctx: TableContext, first: int) -> None:
    """Replace the own schemas from an id on by those of the other branch; equal ones stay."""
    storage, own, other = ctx.storage, ctx.layout, branch_ctx.layout
    theirs = {number: storage.read(other.schema(number)) for number in schemas.ids(branch_ctx)}
    mine = [number for number in schemas.ids(ctx) if number >= first]
    stale = [number for number in mine if number not in theirs or storage.read(own.schema(number)) != theirs[number]]
    keep = theirs.get(first)
    storage.delete([own.schema(number) for number in sorted(stale, reverse=True) if number != first or keep is None])
    for number, data in sorted(theirs.items()):
        if number >= first or not storage.exists(own.schema(number)):
            roots.write(ctx, own.schema(number), data)


# ---- names and files -----------------------------------------------------------------------------


def _check_name(ctx: TableContext, name: str) -> None:
    if not isinstance(name, str):
        msg = f"a branch's name is a text, not {type(name).__name__}"
        raise TypeError(msg)
    why = flaw(name, roots.PREFIX)
    if name == MAIN:
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


def _check_other(ctx: TableContext, name: str) -> None:
    """Raise where no such branch exists, not even what is left of one."""
    if name == MAIN:
        raise InvalidOption(
            f"{MAIN!r} is the branch that every table begins with; it cannot be deleted, renamed or gone forward to",
            key="branch",
            value=name,
        )
    if name not in roots.branches(ctx):
        existing = ", ".join(roots.branches(ctx)[1:])
        raise BranchNotFound(
            f"{ctx.name} has no branch {name!r}; "
            f"{f'its branches are {existing}' if existing else 'it has no branches'}",
            name=name,
        )


def find_unfinished(ctx: TableContext, name: str, before_ms: int) -> list[Stat] | None:
    """Return the files of a branch that `create` began and never finished; None where it may be another.

    Such a branch has no schema. It holds temporary files, and a tag and its snapshot that the current branch has too,
    so that nothing is lost with it. All of it is older than `before_ms`.
    """
    branch_ctx = roots.on_branch(ctx, name)
    entries = _entries(ctx, branch_ctx.layout.branch_root)
    top = ctx.storage.stat(branch_ctx.layout.branch_root)
    if schemas.ids(branch_ctx) or any(
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
    """Return what `create` would write into a branch of each tag of the current branch, by path."""
    copies = {}
    for tag in tags.all(ctx):
        copies[branch_ctx.layout.tag(tag.name)] = ctx.storage.read(ctx.layout.tag(tag.name))
        copies[branch_ctx.layout.snapshot(tag.snapshot.id)] = tag.snapshot.to_json()
    return copies


def _entries(ctx: TableContext, directory: str, depth: int = 0) -> list[Stat]:
    """Return the files and directories of a branch, in all of its directories."""
    entries = []
    for entry in ctx.storage.list(directory):
        entries.append(entry)
        if entry.is_dir and depth < _MAX_DEPTH:
            entries += _entries(ctx, entry.path, depth + 1)
    return entries


def _check_unread(ctx: TableContext, name: str, afterwards: str) -> None:
    """Raise `InvalidOption` where another branch reads this one through its options.

    Reads of that other branch would silently lack partitions.
    """
    branch_options: list[tuple[str, Mapping[str, str]]] = [(ctx.layout.branch, ctx.options.given)]
    for branch in roots.branches(ctx):
        with suppress(LakekitError):  # one that is half there reads nothing
            branch_options.append((branch, schemas.latest(roots.on_branch(ctx, branch)).options))
    for branch, options in branch_options:
        for key in _BRANCH_OPTIONS:
            if branch != name and options.get(key) == name:
                table = "t" if branch == ctx.layout.branch else f"t.branch({branch!r})"
                whose = ctx.name if branch == MAIN else f"branch {branch!r} of {ctx.name}"
                raise InvalidOption(
                    f"branch {name!r} is {key} of {whose}: {table}.alter(lk.reset_option({key!r})) first{afterwards}",
                    key=key,
                    value=name,
                )


def _claim(ctx: TableContext, name: str, path: str, data: bytes) -> None:
    if not ctx.storage.put_if_absent(path, data):
        raise BranchAlreadyExists(f"{ctx.name} has a branch {name!r} by now: another process made it", name=name)


def _files(ctx: TableContext, directory: str) -> list[str]:
    """Return the files of a branch, in all of its directories, and its links to files elsewhere."""
    inside = list(_entries(ctx, directory))
    above = [directory, *(entry.path for entry in inside if entry.is_dir)]
    links = [f"{folder}/{name}" for folder in above for name in folders.link_names(ctx.storage, folder)]
    return [*(entry.path for entry in inside if not entry.is_dir), *links]


def _contents(ctx: TableContext, directory: str) -> dict[str, bytes]:
    """Return the files of a branch by their path inside it."""
    return {path.removeprefix(f"{directory}/"): ctx.storage.read(path) for path in _files(ctx, directory)}


def drop(ctx: TableContext, name: str) -> None:
    """Delete the files of a branch: the schemas first, then everything, then the directories."""
    directory = ctx.layout.branch_dir(name)
    files = _files(ctx, directory)
    ctx.storage.delete(sorted(files, key=lambda path: not path.startswith(f"{directory}/{_SCHEMA_FOLDER}/")))
    inside = (
        {path.rpartition("/")[0] for path in files}
        | {entry.path for entry in ctx.storage.list(directory) if entry.is_dir}
        | {directory}
    )
    ctx.storage.remove_directories(sorted(inside, key=lambda path: (-path.count("/"), path)))
