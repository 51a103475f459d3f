"""A claim that came too late: its number was another's, whose snapshot expired before this commit created the file.

    5 ─┬─ ours is prepared on 5 ─────────────────────────────────────▶ put_if_absent(snapshot-6): true
       └─ theirs: 6 ── 7 ── all up to 6 expire ──────┘                 snapshot 7 does not know it, and 7 is what is read

Where the newest snapshot alone is kept that takes two commits and an expiry between two calls of this one. What newer snapshots name tells it from a
snapshot that they were made on. Source: RELIABILITY.md I1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.metadata import manifest_reader, snapshots
from lakekit.model.index_file import DELETE as INDEX_DELETE
from lakekit.model.manifest_entries import ADD, DELETE

if TYPE_CHECKING:
    from lakekit.commit.changes import CommitChanges
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.snapshot import Snapshot


def is_superseded(ctx: TableContext, own: Snapshot, changes: CommitChanges) -> bool | None:
    """Whether newer snapshots were made without `own`, which was just claimed with these changes; None: nobody can tell. Raises as reading manifests does."""
    if own.id > 1 and ctx.storage.exists(ctx.layout.snapshot(own.id - 1)):  # the oldest goes first: nothing of our number has expired
        return False
    later = [number for number in snapshots.ids(ctx) if number > own.id]
    if not later:
        return False
    after = snapshots.find(ctx, later[0])
    if later[0] > own.id + 1 or after is None:  # what lies between has expired, and before that all that is older
        return ctx.storage.exists(ctx.layout.snapshot(own.id))
    return _is_unknown_to(ctx, after, own, changes)


def _is_unknown_to(ctx: TableContext, after: Snapshot, own: Snapshot, changes: CommitChanges) -> bool | None:
    """Whether the snapshot after `own` was made without it."""
    named = manifest_reader.manifest_files(ctx, after)
    if {file.name for file in manifest_reader.manifest_files(ctx, own, "delta")} & {file.name for file in named}:
        return False
    delta = changes.delta.entries
    made, gone = (set(delta.filter(delta.numbers("kind") == kind).column("file_name").to_pylist()) for kind in (ADD, DELETE))
    if made:  # deleted again, they are named all the same
        return not made & _names(manifest_reader.read_entries(ctx, named))
    if gone:  # what is deleted never lives again
        return bool(gone & _names(manifest_reader.read_live_entries(ctx, after)))
    there = {entry.file_name for entry in manifest_reader.index_entries(ctx, after)}
    if there & {entry.file_name for entry in changes.index if entry.kind == INDEX_DELETE}:
        return True
    return False if there & {entry.file_name for entry in changes.index} else None


def _names(entries: ManifestEntries) -> set[str]:
    return set(entries.column("file_name").to_pylist())
