"""Detect a lost commit: snapshot N was created after another writer had committed and expired N.

    5 ─┬─ ours is prepared on 5 ─────────────────────────────▶ put_if_absent(snapshot-6): true
       └─ theirs: 6 ── 7 ── all up to 6 expire ──────┘         snapshot 7 does not contain it, and 7 is what is read

This needs two commits and an expiry of the other writer between two calls of this one. The files of newer snapshots are
compared with ours: a snapshot built on ours contains our changes. Source: RELIABILITY.md I1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.metadata import manifest_reader, snapshots
from lakekit.model.index_manifest import DELETE as INDEX_DELETE
from lakekit.model.manifest_entries import ADD, DELETE

if TYPE_CHECKING:
    from lakekit.commit.changes import CommitChanges
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.snapshot import Snapshot


def is_superseded(ctx: TableContext, own: Snapshot, changes: CommitChanges) -> bool | None:
    """Return True if newer snapshots do not contain `own`, which was just created with `changes`.

    None: it cannot be decided. Raises what reading manifests raises.
    """
    # the oldest goes first: nothing of our number has expired
    if own.id > 1 and ctx.storage.exists(ctx.layout.snapshot(own.id - 1)):
        return False
    later_ids = [number for number in snapshots.ids(ctx) if number > own.id]
    if not later_ids:
        return False
    after = snapshots.find(ctx, later_ids[0])
    if later_ids[0] > own.id + 1 or after is None:  # what lies between has expired, and before that all that is older
        return ctx.storage.exists(ctx.layout.snapshot(own.id))
    return _is_unknown_to(ctx, after, own, changes)


def _is_unknown_to(ctx: TableContext, after: Snapshot, own: Snapshot, changes: CommitChanges) -> bool | None:
    """Return whether snapshot `after`, the next one, was made without `own`; None: it cannot be decided."""
    manifests = manifest_reader.manifest_files(ctx, after)
    if {file.name for file in manifest_reader.manifest_files(ctx, own, "delta")} & {file.name for file in manifests}:
        return False
    delta = changes.delta.entries
    added, deleted = (
        set(delta.filter(delta.numbers("kind") == kind).column("file_name").to_pylist()) for kind in (ADD, DELETE)
    )
    if added:  # deleted again, they are named all the same
        return not added & _names(manifest_reader.read_entries(ctx, manifests))
    if deleted:  # what is deleted never lives again
        return bool(deleted & _names(manifest_reader.read_live_entries(ctx, after)))
    index_names = {entry.file_name for entry in manifest_reader.index_entries(ctx, after)}
    if index_names & {entry.file_name for entry in changes.index if entry.kind == INDEX_DELETE}:
        return True
    return False if index_names & {entry.file_name for entry in changes.index} else None


def _names(entries: ManifestEntries) -> set[str]:
    return set(entries.column("file_name").to_pylist())
