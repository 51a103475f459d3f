"""A table looked through: whether its snapshots are there, and everything that the newest one names, whole and as it is said to be.

    history    numbers of snapshots, hints         maintenance/check/history.py
    keeping    what keeps files can be read        maintenance/check/keeping.py
    metadata   lists, manifests, counts            maintenance/check/metadata.py
    files      presence, size, footers             maintenance/check/files.py
    levels     key ranges, overlap, buckets        maintenance/check/levels.py
    index      deletion vectors, hash indexes      maintenance/check/index.py
    rows       only when asked: the values          maintenance/check/rows.py, and apart.py: in a process of their own
    advice     what would be faster                maintenance/check/advice.py

Nothing is taken from what was decoded before: what is told is what the storage holds now. Source: RELIABILITY I3, I4, I5, I7, I9, I10.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakekit.errors import LakekitError
from lakekit.maintenance.check import advice, child_process, files, history, index, keeping, levels, metadata, rows
from lakekit.maintenance.check.findings import Findings
from lakekit.maintenance.check.report import Report
from lakekit.metadata import snapshots
from lakekit.world import LRUCache

if TYPE_CHECKING:
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot

_ATTEMPTS = 3


def check(ctx: TableContext, *, deep: bool = False) -> Report:
    """Looks through the newest snapshot; `deep`: through the rows of every data and changelog file too, one file at a time.

    What cannot be read is a problem of the report, and what lakekit cannot read is advice to let another engine check it; nothing is raised for either.
    """
    known = ctx.world
    ctx = replace(ctx, world=replace(known, decoded=LRUCache(known.decoded.budget_bytes), indexes=LRUCache(known.indexes.budget_bytes)))
    notes = Findings()
    snapshot: Snapshot | None = None
    with notes.reading("snapshot", ctx.layout.snapshot_dir):
        snapshot = snapshots.latest(ctx)
    notes.paths.discard(ctx.layout.snapshot_dir)
    history.check(ctx, notes)
    if snapshot is not None:
        snapshot, inside = _looked_through(ctx, snapshot, deep=deep)
        notes.add(inside)
    keeping.check(ctx, notes)
    return Report(
        table=ctx.name,
        snapshot_id=None if snapshot is None else snapshot.id,
        deep=deep,
        problems=tuple(sorted(notes.problems, key=lambda one: (one.path or "", one.field or ""))),
        advice=tuple(notes.advice),
        checked_file_count=len(notes.paths),
    )


def _looked_through(ctx: TableContext, snapshot: Snapshot, *, deep: bool) -> tuple[Snapshot, Findings]:
    """What is wrong in the newest snapshot; in the one after it, where it expired meanwhile: what is missing of such a one is not lost."""
    for _ in range(_ATTEMPTS):
        notes = Findings()
        _look(ctx, snapshot, notes, deep=deep)
        try:
            newer = snapshots.latest(ctx) if notes.problems and snapshots.has_expired(ctx, snapshot) else None
        except LakekitError:
            newer = None
        if newer is None:
            return snapshot, notes
        snapshot = newer
    message = f"{_ATTEMPTS} snapshots expired while they were looked through, the last one before {snapshot.id}"
    notes = Findings()
    notes.better("snapshot was not looked through", message, path=ctx.layout.snapshot_dir, remedy="keep snapshots longer: snapshot.time-retained")
    return snapshot, notes


def _look(ctx: TableContext, snapshot: Snapshot, notes: Findings, *, deep: bool) -> None:
    found = metadata.check(ctx, snapshot, notes)
    changelog = files.paths(ctx, found.changelog, notes)
    if changelog is not None:
        told = files.check(ctx, found.changelog, changelog, "changelog file", notes)
        if deep:
            rows.check(ctx, found.changelog, changelog, told, None, notes, apart=child_process.check)
    at = files.paths(ctx, found.live, notes)
    if at is None:
        return
    hashes = index.check(ctx, found.live, found.index, notes)
    whole = files.check(ctx, found.live, at, "data file", notes)
    levels.check(ctx, found.live, at, notes)
    if deep:
        rows.check(ctx, found.live, at, whole, hashes, notes, apart=child_process.check)
    with notes.told_of("advice", ctx.root):
        advice.check(ctx, found.live, notes)
