"""What keeps files: every snapshot, tag and long-lived changelog of every branch. A file that none of them needs may go.

    branch main    snapshot 4, snapshot 5, tag v1, changelog 3
    branch dev     snapshot 4, tag v1

A branch is any directory that could be one, whether or not it is whole. Whoever deletes reads all roots first, and one that cannot be read, or that vanished
since it was listed, stops the deletion (RELIABILITY D5). Source: FORMAT.md 3, `OrphanFilesClean.validBranches`.
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
    """One of them. `name` is the tag's, else the snapshot's number; `path` is its file."""

    kind: Kind
    branch: str
    name: str
    path: str
    snapshot: Snapshot


def branches(ctx: TableContext) -> list[str]:
    """The names of all branches, main first, those that are only half there too."""
    listed = ctx.storage.list(ctx.layout.branches_dir)
    return [MAIN, *(one.name.removeprefix(PREFIX) for one in listed if one.is_dir and one.name.startswith(PREFIX) and one.name != PREFIX)]


def check_removable(ctx: TableContext) -> None:
    """Raise the refusal of the first feature, of any branch, that says that lakekit may not know all files of the table.

    Raises: `Unsupported`, naming the feature.
    """
    feature_check.check_removable(ctx)
    for branch in branches(ctx):
        there = on_branch(ctx, branch)
        if branch != ctx.layout.branch and schemas.ids(there):
            feature_check.check_removable(replace(there, schema=schemas.latest(there)))


def read_all_roots(ctx: TableContext) -> list[GcRoot]:
    """The roots of all branches. Raises what reading them raises, and `Conflict` where one vanished meanwhile, again and again."""
    for attempt in range(ATTEMPTS):
        try:
            return [root for branch in branches(ctx) for root in read_branch_roots(on_branch(ctx, branch))]
        except Conflict:
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError


def on_branch(ctx: TableContext, branch: str) -> TableContext:
    """The handle with the paths of another branch: enough for its metadata."""
    return ctx if ctx.layout.branch == branch else replace(ctx, layout=ctx.layout.on_branch(branch))


def read_branch_roots(ctx: TableContext) -> list[GcRoot]:
    """The roots of the handle's own branch: snapshots, tags, long-lived changelogs, each by number or name."""
    return map_io(lambda one: _read(ctx, *one), list_roots(ctx), is_remote=ctx.storage.is_remote)


def list_roots(ctx: TableContext) -> list[tuple[Kind, str, Stat]]:
    """The files of those roots: of what kind each is, by number or name, and what the listing says of it."""
    layout = ctx.layout
    return [
        *(("snapshot", str(number), seen) for number, seen in metadata_io.list_numbered(ctx, layout.snapshot_dir, "snapshot-")),
        *(("tag", one.name.removeprefix(_TAG), one) for one in ctx.storage.list(layout.tag_dir) if one.name.startswith(_TAG) and not one.is_dir),
        *(("changelog", str(number), seen) for number, seen in metadata_io.list_numbered(ctx, layout.changelog_dir, "changelog-")),
    ]


def _read(ctx: TableContext, kind: Kind, name: str, seen: Stat) -> GcRoot:
    try:
        return read(ctx, kind, name, seen)
    except Corrupt as damaged:
        raise unreadable_root(
            damaged, f"a {kind}", seen.path, "put it back from a copy, or delete it: the files that only it needed are orphans then"
        ) from damaged
    except FileMissing:
        msg = f"{seen.path} vanished while it was looked at: another process deletes in {ctx.name} too. Do it again when that is done"
        raise Conflict(msg) from None


def read(ctx: TableContext, kind: Kind, name: str, seen: Stat) -> GcRoot:
    """One of the files that `list_roots` gives. Raises `Corrupt`, `Unsupported`, and `FileMissing` where it vanished since."""
    if kind == "tag":
        snapshot = metadata_io.read_listed(ctx, seen, lambda data, path: Tag.from_json(data, name, path)).snapshot
    else:
        snapshot = metadata_io.read_listed(ctx, seen, Snapshot.from_json)
    if kind != "tag" and snapshot.id != int(name):
        raise Corrupt(f"{seen.path} says it is snapshot {snapshot.id}", path=seen.path, field="id")
    return GcRoot(kind=kind, branch=ctx.layout.branch, name=name, path=seen.path, snapshot=snapshot)


def unreadable_root(damaged: Corrupt, what: str, path: str, remedy: str) -> Corrupt:
    """The error of a file that keeps others and says nothing: nobody may delete what it may need."""
    text = f"{damaged.message}. It is {what}: which files it needs cannot be told, so none is deleted. Remedy: {remedy}"
    return Corrupt(text, path=damaged.path or path, offset=damaged.offset, field=damaged.field)


def oldest_snapshot_paths(some: Iterable[GcRoot]) -> set[str]:
    """The paths of the oldest snapshots, one a branch. Such a one may be a tag's, made a snapshot again by a rollback or a branch: its changelog is gone."""
    found: dict[str, GcRoot] = {}
    for root in some:
        if root.kind == "snapshot" and (root.branch not in found or root.snapshot.id < found[root.branch].snapshot.id):
            found[root.branch] = root
    return {root.path for root in found.values()}


def write(ctx: TableContext, path: str, data: bytes) -> None:
    """Writes the file of a root, in the place of one that is there, safe from power loss: what it replaces may be deleted next."""
    with ctx.storage.open_write(path) as file:
        file.write(data)
