"""Full merge of manifests: a COMPACT snapshot with the same rows whose plans open fewer files.

    base + delta of the newest snapshot   m1 m2 m3 … m40   ->   base of the next one   m41        delta: nothing

Every commit merges small manifests once there are many; this does it now, and drops the entries of deleted files.

Source: ENGINE.md 5.3; `FileStoreCommitImpl.compactManifest`, `ManifestFileMerger`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.commit import committer, manifest_writer, try_commit
from lakekit.commit.changes import EMPTY_DELTA, CommitChanges
from lakekit.commit.draft import UncommittedFiles
from lakekit.commit.try_commit import CommitStep, MergedManifests
from lakekit.metadata import feature_check, manifest_reader as meta, snapshots

if TYPE_CHECKING:
    from lakekit.commit.result import Commit
    from lakekit.metadata.table_context import TableContext

_FULL_MERGE_OPTIONS = {"manifest.full-compaction-threshold-size": "1 b", "manifest.merge-min-count": "1"}
"""Options under which every small manifest, and every one with a deletion, is merged."""


def compact(ctx: TableContext) -> Commit:
    """Merge the manifests of the newest snapshot, and commit; no snapshot is made where nothing changes.

    Raises: `RetriesExhausted` where other commits are always faster, `CommitStateUnknown` where the outcome cannot be
    determined, and what reading manifests raises.
    """
    feature_check.check_writable(ctx)
    ctx = ctx.with_options(_FULL_MERGE_OPTIONS)
    latest = snapshots.latest(ctx)
    job = try_commit.request_with_new_user(ctx, latest)
    if latest is None:
        return committer.outcome(job, [])
    draft, before = UncommittedFiles(ctx), meta.manifest_files(ctx, latest)
    try:
        after = manifest_writer.merge_manifests(draft, before)
    except BaseException:
        draft.discard()
        raise
    if after == before:
        draft.discard()
        return committer.outcome(job, [])
    step = CommitStep(changes=CommitChanges(kind="COMPACT", delta=EMPTY_DELTA, changelog=EMPTY_DELTA))
    return committer.outcome(job, [try_commit.try_commit(job, step, draft, latest, MergedManifests(before, after))])
