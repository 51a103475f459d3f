"""Manifests merged as far as they go: a COMPACT snapshot whose rows are those of the one before, and whose plans open fewer files.

    base + delta of the newest snapshot   m1 m2 m3 … m40   ->   base of the next one   m41        delta: nothing

Every commit merges small manifests once there are many; this does it now, and forgets the entries of files that are gone.

Source: ENGINE.md 5.3; `FileStoreCommitImpl.compactManifest`, `ManifestFileMerger`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.commit import attempt, manifests, publish
from lakekit.commit.attempt import Merged, Step
from lakekit.commit.changes import NOTHING, Changes
from lakekit.commit.draft import Draft
from lakekit.meta import gate, manifests as meta, snapshots

if TYPE_CHECKING:
    from lakekit.commit.outcome import Commit
    from lakekit.meta.handle import Handle

_ALL = {"manifest.full-compaction-threshold-size": "1 b", "manifest.merge-min-count": "1"}
"""Options under which every small manifest, and every one with a deletion, is merged."""


def compact(handle: Handle) -> Commit:
    """Merges the manifests of the newest snapshot; without a snapshot that are fewer already, none is made.

    Raises `RetriesExhausted` where others are always faster, `CommitStateUnknown` where nobody can tell, and what reading manifests raises.
    """
    gate.check_writable(handle)
    handle = handle.with_options(_ALL)
    latest = snapshots.latest(handle)
    job = attempt.job_alone(handle, latest)
    if latest is None:
        return publish.outcome(job, [])
    draft, before = Draft(handle), meta.manifest_files(handle, latest)
    try:
        after = manifests.merged(draft, before)
    except BaseException:
        draft.discard()
        raise
    if after == before:
        draft.discard()
        return publish.outcome(job, [])
    step = Step(changes=Changes(kind="COMPACT", delta=NOTHING, changelog=NOTHING))
    return publish.outcome(job, [attempt.run(job, step, draft, latest, Merged(before, after))])
