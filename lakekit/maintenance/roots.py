"""The roots of garbage collection: every snapshot, tag and long-lived changelog of every branch.

A file that no root needs may be deleted.

    branch main    snapshot 4, snapshot 5, tag v1, changelog 3
    branch dev     snapshot 4, tag v1

A branch is any directory that could be one, complete or not. Code that deletes reads all roots first; a root that
cannot be read, or that vanished since it was listed, stops the deletion (RELIABILITY D5). Source: FORMAT.md 3,
`OrphanFilesClean.validBranches`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from lakekit.errors import Conflict, Corrupt
from lakekit.metadata import feature_check, metadata_io, schemas
from lakekit.model.snapshot import Snapshot
from lakekit.model.table_paths import MAIN
from lakekit.model.tag import Tag
from lakekit.storage.protocol import FileMissing
from lakekit.world import map_io

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakekit.metadata.table_context import TableContext
    from lakekit.storage.protocol import Stat

    Kind = Literal["snapshot", "tag", "changelog"]

PREFIX = "branch-"
_TAG = "tag-"
ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class GcRoot:
    """One root. `name` is the tag's, else the snapshot's id; `path` is its file."""

    kind: Kind
    branch: str
    name: str
    path: str
    snapshot: Snapshot


def branches(ctx: TableContext) -> list[str]:
    """Return the names of all branches, main first, also those that are incomplete."""
    listed = ctx.storage.list(ctx.layout.branches_dir)
    return [
        MAIN,
        *(
            entry.name.removeprefix(PREFIX)
            for entry in listed
            if entry.is_dir and entry.name.startswith(PREFIX) and entry.name != PREFIX
        ),
    ]


def check_removable(ctx: TableContext) -> None:
    """Raise `Unsupported` for the first feature of any branch that may hide files of the table.

    The error names the feature: lakekit may not know all files then.
    """
    feature_check.check_removable(ctx)
    for branch in branches(ctx):
        branch_ctx = on_branch(ctx, branch)
        if branch != ctx.layout.branch and schemas.ids(branch_ctx):
            feature_check.check_removable(replace(branch_ctx, schema=schemas.latest(branch_ctx)))


def read_all_roots(ctx: TableContext) -> list[GcRoot]:
    """Return the roots of all branches.

    Raises what reading them raises, and `Conflict` where one vanished meanwhile, again and again.
    """
    for attempt in range(ATTEMPTS):
        try:
            return [root for branch in branches(ctx) for root in read_branch_roots(on_branch(ctx, branch))]
        except Conflict:
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError


def on_branch(ctx: TableContext, branch: str) -> TableContext:
    """Return the context with the paths of another branch: enough for its metadata."""
    return ctx if ctx.layout.branch == branch else replace(ctx, layout=ctx.layout.on_branch(branch))


def read_branch_roots(ctx: TableContext) -> list[GcRoot]:
    """Return the roots of the context's own branch: snapshots, tags, changelogs, each by number or name."""
    return map_io(lambda listed: _read(ctx, *listed), list_roots(ctx), is_remote=ctx.storage.is_remote)


def list_roots(ctx: TableContext) -> list[tuple[Kind, str, Stat]]:
    """Return the files of the branch's roots: kind, number or name, and what the listing says of each."""
    layout = ctx.layout
    return [
        *(
            ("snapshot", str(number), seen)
            for number, seen in metadata_io.list_numbered(ctx, layout.snapshot_dir, "snapshot-")
        ),
        *(
            ("tag", entry.name.removeprefix(_TAG), entry)
            for entry in ctx.storage.list(layout.tag_dir)
            if entry.name.startswith(_TAG) and not entry.is_dir
        ),
        *(
            ("changelog", str(number), seen)
            for number, seen in metadata_io.list_numbered(ctx, layout.changelog_dir, "changelog-")
        ),
    ]


def _read(ctx: TableContext, kind: Kind, name: str, seen: Stat) -> GcRoot:
    try:
        return read(ctx, kind, name, seen)
    except Corrupt as damaged:
        raise unreadable_root(
            damaged,
            f"a {kind}",
            seen.path,
            "put it back from a copy, or delete it: the files that only it needed are orphans then",
        ) from damaged
    except FileMissing:
        msg = (
            f"{seen.path} vanished while it was looked at: another process deletes in {ctx.name} too. Do it again "
            "when that is done"
        )
        raise Conflict(msg) from None


def read(ctx: TableContext, kind: Kind, name: str, seen: Stat) -> GcRoot:
    """Return the root of one of the files that `list_roots` gives.

    Raises: `Corrupt`, `Unsupported`, and `FileMissing` where it vanished since.
    """
    if kind == "tag":
        snapshot = metadata_io.read_listed(ctx, seen, lambda data, path: Tag.from_json(data, name, path)).snapshot
    else:
        snapshot = metadata_io.read_listed(ctx, seen, Snapshot.from_json)
    if kind != "tag" and snapshot.id != int(name):
        raise Corrupt(f"{seen.path} says it is snapshot {snapshot.id}", path=seen.path, field="id")
    return GcRoot(kind=kind, branch=ctx.layout.branch, name=name, path=seen.path, snapshot=snapshot)


def unreadable_root(damaged: Corrupt, what: str, path: str, remedy: str) -> Corrupt:
    """Return the error for an unreadable root: which files it needs is unknown, so none may be deleted."""
    text = f"{damaged.message}. It is {what}: which files it needs cannot be told, so none is deleted. Remedy: {remedy}"
    return Corrupt(text, path=damaged.path or path, offset=damaged.offset, field=damaged.field)


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


def write(ctx: TableContext, path: str, data: bytes) -> None:
    """Write the file of a root, replacing an existing one, safe from power loss.

    What it replaces may be deleted next.
    """
    with ctx.storage.open_write(path) as file:
        file.write(data)
