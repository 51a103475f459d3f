"""Roots removed, and with them the files that nobody else needs.

    read all roots ─▶ what only those that go need ─▶ root files go ─▶ all roots again ─▶ files go
                      fails: nothing was deleted                       fails: they are orphans

Root files go first (RELIABILITY D4): a process that dies leaves files that nothing refers to, never a snapshot without its files. Roots are read again
after that, because a tag or a branch may have come meanwhile: whoever makes one looks afterwards whether its source is still there, so that one of both
sees the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.errors import Conflict, Corrupt
from lakekit.maintenance import roots
from lakekit.maintenance.reachability import UnreachableFiles, reachable_only_from
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakekit.maintenance.roots import GcRoot
    from lakekit.metadata.table_context import TableContext


def remove(
    ctx: TableContext,
    gone: Sequence[GcRoot],
    everything: Sequence[GcRoot],
    drop: Callable[[], None] | None,
    *,
    stays: Sequence[GcRoot] = (),
    deletes: Callable[[Sequence[str]], None] | None = None,
) -> UnreachableFiles:
    """What goes with some of all roots; `drop` removes the files of the roots themselves, None: nothing is deleted at all.

    `stays`: roots that `drop` makes. `deletes`: who deletes the other files, once the roots are gone; None: the storage, from here.
    Raises what reading the roots raises: if that was before `drop`, nothing changed.
    """
    paths = {root.path for root in gone}
    kept = [root for root in everything if root.path not in paths]
    found = _find_unreachable(ctx, gone, kept, stays)
    if drop is None:
        return found
    drop()
    if not found.paths:
        return found
    known = {root.path: root.snapshot for root in (*kept, *stays)}
    came = [root for root in roots.read_all_roots(ctx) if known.get(root.path) != root.snapshot]
    if came:
        found = _find_unreachable(ctx, gone, [*kept, *came], stays)
    (deletes or ctx.storage.delete)(found.paths)
    _clean(ctx, found)
    return found


def _find_unreachable(ctx: TableContext, gone: Sequence[GcRoot], kept: Sequence[GcRoot], stays: Sequence[GcRoot]) -> UnreachableFiles:
    """What only those that go need. Raises `Conflict` where another process deletes meanwhile, `Corrupt` where a file is lost that one that stays needs."""
    try:
        return reachable_only_from(ctx, gone, [*kept, *stays])
    except FileMissing as missing:
        if any(ctx.storage.stat(root.path) is None for root in kept):
            msg = f"{missing.path} vanished while it was looked at: another process deletes in {ctx.name} too. Do it again when that is done"
            raise Conflict(msg) from missing
        lost = missing.message.partition(". ")[0]
        remedy = "put it back from a copy, or give up what needs it (t.delete_tag, t.delete_branch, t.rollback)"
        raise Corrupt(f"{lost}: what else is needed cannot be told, so no file is deleted. Remedy: {remedy}", path=missing.path) from missing


def _clean(ctx: TableContext, found: UnreachableFiles) -> None:
    """The directories that were left empty: buckets, then partitions from the deepest up (`snapshot.clean-empty-directories`)."""
    if not ctx.options.snapshot_clean_empty_directories:
        return
    root = ctx.root.rstrip("/")
    emptied = {path.rpartition("/")[0] for path in found.data}
    above = set(emptied)
    for directory in emptied:
        parent = directory.rpartition("/")[0]
        while parent.startswith(f"{root}/") and parent != root:
            above.add(parent)
            parent = parent.rpartition("/")[0]
    ctx.storage.remove_directories(sorted(above, key=lambda path: (-path.count("/"), path)))
