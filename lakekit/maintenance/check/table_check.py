"""The check of a table: what its newest snapshot names is intact and as described.

    history    numbers of snapshots, hints         maintenance/check/metadata.py
    keeping    what keeps files can be read        maintenance/check/metadata.py
    metadata   lists, manifests, counts            maintenance/check/metadata.py
    files      presence, size, footers             maintenance/check/files.py
    levels     key ranges, overlap, buckets        maintenance/check/levels.py
    index      deletion vectors, hash indexes      maintenance/check/files.py
    rows       the values, only if `deep`          maintenance/check/rows.py, and child_process.py: in a child process
    advice     what would be faster                maintenance/check/levels.py

No cached metadata is used: the report says what the storage holds now. Source: RELIABILITY I3, I4, I5, I7, I9, I10.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakekit.errors import LakekitError
from lakekit.maintenance.check import child_process, files, levels, metadata, rows
from lakekit.maintenance.check.findings import Findings, Report
from lakekit.metadata import snapshots
from lakekit.runtime import LRUCache

if TYPE_CHECKING:
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot

_MAX_ATTEMPTS = 3


def check_table(ctx: TableContext, *, deep: bool = False) -> Report:
    """Check the newest snapshot; `deep`: also the rows of every data and changelog file, one at a time.

    What cannot be read is a problem of the report, and what lakekit does not support is advice to let another engine
    check it; nothing is raised for either.
    """
    runtime = ctx.runtime
    ctx = replace(
        ctx,
        runtime=replace(
            runtime,
            metadata_cache=LRUCache(runtime.metadata_cache.budget_bytes),
            index_cache=LRUCache(runtime.index_cache.budget_bytes),
        ),
    )
    findings = Findings()
    snapshot: Snapshot | None = None
    with findings.reading_file("snapshot", ctx.paths.snapshot_dir):
        snapshot = snapshots.latest(ctx)
    findings.paths.discard(ctx.paths.snapshot_dir)
    metadata.check_history(ctx, findings)
    if snapshot is not None:
        snapshot, inside = _check_with_retries(ctx, snapshot, deep=deep)
        findings.merge(inside)
    metadata.check_gc_roots_and_schemas(ctx, findings)
    return Report(
        table=ctx.name,
        snapshot_id=None if snapshot is None else snapshot.id,
        deep=deep,
        problems=tuple(sorted(findings.problems, key=lambda finding: (finding.path or "", finding.field or ""))),
        advice=tuple(findings.advice),
        checked_file_count=len(findings.paths),
    )


def _check_with_retries(ctx: TableContext, snapshot: Snapshot, *, deep: bool) -> tuple[Snapshot, Findings]:
    """Check a snapshot, or a newer one where it expires meanwhile; return that snapshot and its findings.

    Files that an expired snapshot lacks are not lost.
    """
    for _ in range(_MAX_ATTEMPTS):
        findings = Findings()
        _check_newest(ctx, snapshot, findings, deep=deep)
        try:
            newer = snapshots.latest(ctx) if findings.problems and snapshots.has_expired(ctx, snapshot) else None
        except LakekitError:
            newer = None
        if newer is None:
            return snapshot, findings
        snapshot = newer
    message = f"{_MAX_ATTEMPTS} snapshots expired while they were looked through, the last one before {snapshot.id}"
    findings = Findings()
    findings.add_advice(
        "snapshot was not looked through",
        message,
        path=ctx.paths.snapshot_dir,
        remedy="keep snapshots longer: snapshot.time-retained",
    )
    return snapshot, findings


def _check_newest(ctx: TableContext, snapshot: Snapshot, findings: Findings, *, deep: bool) -> None:
    contents = metadata.check_snapshot(ctx, snapshot, findings)
    changelog = files.resolve_data_paths(ctx, contents.changelog_entries, findings)
    if changelog is not None:
        intact_changelogs = files.check_files(ctx, contents.changelog_entries, changelog, "changelog file", findings)
        if deep:
            rows.check_rows(
                ctx,
                contents.changelog_entries,
                changelog,
                intact_changelogs,
                None,
                findings,
                isolated_check=child_process.check_in_child,
            )
    at = files.resolve_data_paths(ctx, contents.live_entries, findings)
    if at is None:
        return
    hashes = files.check_index_files(ctx, contents.live_entries, contents.index_entries, findings)
    intact = files.check_files(ctx, contents.live_entries, at, "data file", findings)
    levels.check_entries(ctx, contents.live_entries, at, findings)
    if deep:
        rows.check_rows(
            ctx, contents.live_entries, at, intact, hashes, findings, isolated_check=child_process.check_in_child
        )
    with findings.as_findings("advice", ctx.root):
        levels.add_advice_on_files(ctx, contents.live_entries, findings)
