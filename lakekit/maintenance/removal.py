"""Removal of roots, together with the files that nothing else needs.

    read all roots ─▶ what only removed ones need ─▶ root files go ─▶ all roots again ─▶ files go
                      fails: nothing was deleted                      fails: they are orphans

Root files go first (RELIABILITY D4): a process that dies leaves files that nothing refers to, never a snapshot without
its files. Roots are read again after that, because a tag or a branch may have been created meanwhile: its creator
checks afterwards that the source still exists, so that one of the two sees the other.
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
    removed: Sequence[GcRoot],
    everything: Sequence[GcRoot],
    drop: Callable[[], None] | None,
    *,
    stays: Sequence[GcRoot] = (),
    deletes: Callable[[Sequence[str]], None] | None = None,
) -> UnreachableFiles:
    """Delete some of all roots with the files that only they need, and return these files.

    `drop` deletes the files of the roots themselves; None: nothing is deleted at all. `stays`: roots that `drop` makes.
    `deletes`: deletes the other files, once the roots are deleted; None: the storage does, in this process.
    Raises what reading the roots raises: if that was before `drop`, nothing changed.
    """
    paths = {root.path for root in removed}
    retained = [root for root in everything if root.path not in paths]
    unreachable = _find_unreachable(ctx, removed, retained, stays)
    if drop is None:
        return unreachable
    drop()
    if not unreachable.paths:
        return unreachable
    seen = {root.path: root.snapshot for root in (*retained, *stays)}
    came = [root for root in roots.read_all_roots(ctx) if seen.get(root.path) != root.snapshot]
    if came:
        unreachable = _find_unreachable(ctx, removed, [*retained, *came], stays)
    (deletes or ctx.storage.delete)(unreachable.paths)
    _clean(ctx, unreachable)
    return unreachable


def _find_unreachable(
    ctx: TableContext, removed: Sequence[GcRoot], retained: Sequence[GcRoot], stays: Sequence[GcRoot]
) -> UnreachableFiles:
    """Return the files that only removed roots need.

    Raises: `Conflict` where another process deletes meanwhile, `Corrupt` where a file is lost that a retained root
    needs.
    """
    try:
        return reachable_only_from(ctx, removed, [*retained, *stays])
    except FileMissing as missing:
        if any(ctx.storage.stat(root.path) is None for root in retained):
            msg = (
                f"{missing.path} vanished while it was looked at: another process deletes in {ctx.name} too. Do it "
                "again when that is done"
            )
            raise Conflict(msg) from missing
        lost = missing.message.partition(". ")[0]
        remedy = "put it back from a copy, or give up what needs it (t.delete_tag, t.delete_branch, t.rollback)"
        raise Corrupt(
            f"{lost}: what else is needed cannot be told, so no file is deleted. Remedy: {remedy}", path=missing.path
        ) from missing


def _clean(ctx: TableContext, unreachable: UnreachableFiles) -> None:
    """Remove the empty directories: buckets, then partitions from the deepest up.

    Only with the option `snapshot.clean-empty-directories`.
    """
    if not ctx.options.snapshot_clean_empty_directories:
        return
    root = ctx.root.rstrip("/")
    emptied = {path.rpartition("/")[0] for path in unreachable.data}
    above = set(emptied)
    for directory in emptied:
        parent = directory.rpartition("/")[0]
        while parent.startswith(f"{root}/") and parent != root:
            above.add(parent)
            parent = parent.rpartition("/")[0]
    ctx.storage.remove_directories(sorted(above, key=lambda path: (-path.count("/"), path)))
