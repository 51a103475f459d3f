"""Making what writers did visible: one commit, at most two snapshots, exactly once for each commit user and identifier.

    publish(handle, messages, commit_user=user, identifier=7)                         APPEND, then COMPACT
    publish(handle, messages, …, overwrite=Overwrite.static({"dt": "2024-03-31"}))    OVERWRITE, then COMPACT
    publish(handle, (), …, overwrite=Overwrite.partitions([{"dt": "2024-03-31"}]))    drop partitions; `Overwrite.whole()`: truncate

A commit has three outcomes (RELIABILITY D2): it returns, and the commit is there; it raises `CommitStateUnknown`, and the same call again finds out; it
raises anything else, and nothing changed. Publishing what is there already returns the earlier commit. Source: ENGINE.md 5.1-5.8; `FileStoreCommitImpl`.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from lakekit.commit import abort, changes as gathered, commit_history, contention, facts, overwrite as overwrites, try_commit
from lakekit.commit.changes import EMPTY_DELTA, CommitChanges, Delta
from lakekit.commit.draft import UncommittedFiles
from lakekit.commit.result import Commit
from lakekit.commit.try_commit import CommitRequest, CommitStep, CommittedSnapshot
from lakekit.errors import LakekitError
from lakekit.metadata import feature_check, manifest_reader as meta, snapshots
from lakekit.model.manifest_entries import ADD, DELETE
from lakekit.model.snapshot import BATCH_IDENTIFIER
from lakekit.options.frozendict import FrozenDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakekit.commit.overwrite import Overwrite
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.commit_message import CommitMessage
    from lakekit.model.snapshot import Snapshot


def commit_changes(
    ctx: TableContext,
    messages: Sequence[CommitMessage],
    *,
    commit_user: str,
    identifier: int,
    watermark: int | None = None,
    properties: Mapping[str, str] | None = None,
    overwrite: Overwrite | None = None,
    check_append: bool = False,
    check_files: bool = False,
    check_new: bool = False,
    ignore_empty: bool | None = None,
    is_new_user: bool = False,
) -> Commit:
    """Commits messages of all writers of a job.

    `identifier`: never smaller than the user's last one; 2^63-1 for a user who commits once. `check_append`: files are checked against the newest
    snapshot though they are only added, and must be there, as after a recovery; `check_files`: they must be there, and no more; `check_new`: no commit
    since they were written may have added them. `ignore_empty`: whether nothing to do makes no snapshot; None: as the option
    `snapshot.ignore-empty-commit` says, else only for the batch identifier. `is_new_user`: the name was drawn for this commit, so that no earlier one is
    looked for.

    Raises `InvalidOption` for facts that no snapshot can hold; `Conflict` where others changed what this commit needs, `RetriesExhausted` after
    `commit.max-retries` lost races or `commit.timeout`: nothing changed, as after `StorageFailed`; `CommitStateUnknown` where nobody can tell: nothing is
    deleted. Where rows are committed and their compaction fails, by a conflict or otherwise, nothing is raised, or who writes the rows again would have them
    twice: `kinds` says what was made.
    """
    feature_check.check_writable(ctx)
    world = ctx.world
    job = CommitRequest(
        ctx=ctx,
        commit_user=facts.check_text("commit_user", commit_user),
        identifier=facts.check_integer("identifier", identifier),
        watermark=None if watermark is None else facts.check_integer("watermark", watermark),
        properties=None if properties is None else FrozenDict(facts.check_texts("properties", properties)) or None,
        started_ms=world.elapsed_ms(),
    )
    latest = _read_newest(ctx)
    steps = _steps(job, messages, overwrite, check_append=check_append, ignore_empty=ignore_empty)
    done = None if is_new_user or not steps else commit_history.find_commit_snapshots(ctx, commit_user, job.identifier, latest)
    if done is not None:
        return _resume_commit(job, steps, messages, done, latest)
    if check_append or check_files:
        abort.check_files_exist(ctx, messages)
    if check_new:
        abort.check_not_committed(ctx, messages, latest)
    made: list[CommittedSnapshot] = []
    for step in steps:
        try:
            made.append(_commit_step(job, step, messages, latest))
        except LakekitError:
            if not made or made[0].changes.is_empty:
                raise
            break
        latest = made[-1].snapshot
    if len(made) < len(steps) and is_new_user:
        with suppress(LakekitError):  # nobody will publish these again: what was compacted in vain goes
            abort.abort_compacted(ctx, messages)
    return outcome(job, made)


def _read_newest(ctx: TableContext) -> Snapshot | None:
    contention.leave_room(ctx)
    return snapshots.latest_from_known(ctx)


def find_commit(ctx: TableContext, *, commit_user: str, identifier: int) -> Commit | None:
    """The commit of a user and identifier that is there already, None where there is none.

    It is for callers that would have to write rows first. Raises as `commit_changes` does.
    """
    now_ms = ctx.world.elapsed_ms()
    identifier = facts.check_integer("identifier", identifier)
    job = CommitRequest(
        ctx=ctx, commit_user=facts.check_text("commit_user", commit_user), identifier=identifier, watermark=None, properties=None, started_ms=now_ms
    )
    done = commit_history.find_commit_snapshots(ctx, commit_user, identifier, snapshots.latest_from_known(ctx))
    if done is None:
        return None
    return outcome(job, _load_committed(ctx, done))


def _commit_step(job: CommitRequest, step: CommitStep, messages: Sequence[CommitMessage], latest: Snapshot | None) -> CommittedSnapshot:
    draft = UncommittedFiles(job.ctx)
    try:
        made = try_commit.try_commit(job, step, draft, latest)
    finally:
        if draft.in_doubt:
            abort.mark_outcome_unknown(job.ctx, messages)
    commit_history.remember(job.ctx, job.commit_user, made.snapshot, made.snapshot)
    return made


def commit_changes_once(ctx: TableContext, messages: Sequence[CommitMessage], *, commit_user: str, overwrite: Overwrite | None = None) -> Commit:
    """`commit_changes` by a user drawn for this commit.

    Where it fails, the files of the messages are deleted, but for those that a commit may have (`abort`).
    """
    try:
        return commit_changes(ctx, messages, commit_user=commit_user, identifier=BATCH_IDENTIFIER, overwrite=overwrite, is_new_user=True)
    except BaseException:
        with suppress(LakekitError):  # what cannot be deleted is left to the cleaning of orphans
            abort.abort(ctx, messages)
        raise


def _steps(
    job: CommitRequest, messages: Sequence[CommitMessage], overwrite: Overwrite | None, *, check_append: bool, ignore_empty: bool | None
) -> list[CommitStep]:
    ctx = job.ctx
    if ignore_empty is None:
        given = ctx.options.snapshot_ignore_empty_commit
        ignore_empty = job.identifier == BATCH_IDENTIFIER if given is None else given
    appended, compacted = gathered.collect_appended(ctx, messages), gathered.collect_compacted(ctx, messages)
    found: list[CommitStep] = []
    if overwrite is not None:
        if not overwrites.does_nothing(ctx, overwrite, appended):
            new = appended if len(compacted.delta) else overwrites.upgrade_levels(ctx, appended)
            found.append(CommitStep(changes=new, overwrite=overwrite, check=True))
        compacted = replace(compacted, changelog=EMPTY_DELTA)  # who replaces rows tells of nothing, whoever wrote the messages
    elif not (ignore_empty and appended.is_empty):
        found.append(CommitStep(changes=appended, check=check_append or appended.kind != "APPEND"))
    if not compacted.is_empty:
        found.append(CommitStep(changes=compacted, check=True))
    return found


def _resume_commit(
    job: CommitRequest, steps: Sequence[CommitStep], messages: Sequence[CommitMessage], done: Sequence[Snapshot], latest: Snapshot | None
) -> Commit:
    """A commit that is there: it is told again. A compaction that was cut off after its rows is done now, or left where it no longer fits (ENGINE 5.7)."""
    made = _load_committed(job.ctx, done)
    own = None if latest is None else commit_history.latest_of_user(job.ctx, job.commit_user, latest)
    is_last = bool(done) and own is not None and own.id == done[-1].id
    if is_last and done[-1].commit_kind != "COMPACT" and steps[-1].changes.kind == "COMPACT":
        with suppress(LakekitError) if len(steps) > 1 else nullcontext():
            abort.check_compacted(job.ctx, messages)
            made.append(_commit_step(job, steps[-1], messages, latest))
    return outcome(job, made)


def _load_committed(ctx: TableContext, done: Sequence[Snapshot]) -> list[CommittedSnapshot]:
    """Snapshots that an earlier commit made, as if they had been made now."""
    return [CommittedSnapshot(snapshot=snapshot, changes=_changes_of(ctx, snapshot), retry_count=0) for snapshot in done]


def _changes_of(ctx: TableContext, snapshot: Snapshot) -> CommitChanges:
    """The changes that a snapshot made, as its manifests tell them."""
    return CommitChanges(
        kind=snapshot.commit_kind,  # type: ignore[arg-type] # committed by a writer, so no ANALYZE
        delta=Delta(read=meta.read_entries(ctx, meta.manifest_files(ctx, snapshot, "delta"))),
        changelog=EMPTY_DELTA,
    )


def outcome(job: CommitRequest, made: Sequence[CommittedSnapshot]) -> Commit:
    """What a job tells of the snapshots it made."""
    deltas = [one.changes.delta for one in made]
    written = next((one.changes.delta for one in made if one.changes.kind != "COMPACT" and one.changes.delta.count(ADD)), deltas[-1] if deltas else EMPTY_DELTA)
    return Commit(
        table=job.ctx.name,
        snapshot_ids=tuple(one.snapshot.id for one in made),
        commit_user=job.commit_user,
        identifier=job.identifier,
        kinds=tuple(one.snapshot.commit_kind for one in made),
        added_file_count=sum(delta.count(ADD) for delta in deltas),
        removed_file_count=sum(delta.count(DELETE) for delta in deltas),
        row_count=written.row_count(ADD),
        size_bytes=sum(delta.size_bytes(ADD) for delta in deltas),
        duration_ms=job.ctx.world.elapsed_ms() - job.started_ms,
        retry_count=sum(one.retry_count for one in made),
    )
