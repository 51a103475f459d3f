"""Commit messages of writers: at most two snapshots, exactly once for each user and identifier.

    commit_changes(ctx, messages, commit_user=user, identifier=7)                         APPEND, then COMPACT
    commit_changes(ctx, messages, …, overwrite=Overwrite.static({"dt": "2024-03-31"}))    OVERWRITE, then COMPACT
    commit_changes(ctx, (), …, overwrite=Overwrite.partitions([{"dt": "2024-03-31"}]))    drop partitions
    commit_changes(ctx, (), …, overwrite=Overwrite.whole())                               truncate

A commit has three outcomes (RELIABILITY D2): it returns, and the commit exists; it raises `CommitStateUnknown`, and the
same call again finds out; it raises anything else, and nothing changed. Committing again what is committed already
returns the earlier commit. User, identifier, watermark and properties must be values that a snapshot file can hold: a
snapshot with other values could be written but not read, and no snapshot after it either.

Source: FORMAT.md 3.1, ENGINE.md 5.1-5.8; `FileStoreCommitImpl`, `Snapshot`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from operator import index
from typing import TYPE_CHECKING, Any

from lakekit.commit import abort, changes as gathered, commit_history, contention, overwrite as overwrites, try_commit
from lakekit.commit.changes import EMPTY_DELTA, Commit, CommitChanges, Delta
from lakekit.commit.manifest_writer import UncommittedFiles
from lakekit.commit.try_commit import CommitRequest, CommitStep, CommittedSnapshot
from lakekit.errors import InvalidOption, LakekitError
from lakekit.metadata import manifest_reader as meta, snapshots, table_context
from lakekit.model.manifest_entries import ADD, DELETE
from lakekit.model.snapshot import BATCH_IDENTIFIER
from lakekit.options.option import FrozenDict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.commit.overwrite import Overwrite
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.commit_message import CommitMessage
    from lakekit.model.snapshot import Snapshot


_MAX_INT64 = 2**63 - 1


def check_integer(name: str, value: Any) -> int:
    """Return a 64-bit integer (numpy integers too). Raises `InvalidOption` with its name."""
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None or not -_MAX_INT64 - 1 <= number <= _MAX_INT64:
        raise InvalidOption(
            f"{name} is {_describe_value(value)}; a commit has a whole number from -2^63 to 2^63-1 there. Give such a "
            "number",
            key=name,
        )
    return number


def check_text(name: str, value: Any) -> str:
    """Return a text that UTF-8 can encode. Raises `InvalidOption` with its name."""
    if not isinstance(value, str):
        raise InvalidOption(f"{name} is {_describe_value(value)}; a commit has a text there. Give a text", key=name)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidOption(
            f"{name} is {_describe_value(value)}, which holds half of a surrogate pair. Give a text of whole "
            "characters",
            key=name,
        ) from None
    return value


def check_texts(name: str, value: Any) -> dict[str, str]:
    """Return texts by name. Raises `InvalidOption` with the name of the mapping or of the bad entry."""
    if not isinstance(value, Mapping):
        raise InvalidOption(
            f"{name} is {_describe_value(value)}; a commit has texts by name there. Give a dict of texts", key=name
        )
    return {check_text(f"a name in {name}", key): check_text(f"{name}[{key!a}]", text) for key, text in value.items()}


def _describe_value(value: object) -> str:
    return f"{ascii(value)[:100]}, a {type(value).__name__}"


# ---- committer ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitValidation:
    """What a commit verifies of its messages before it makes a snapshot.

    `append_conflicts`: that added files fit the newest snapshot, and that they exist, as after a recovery.
    `missing_files`: that they exist. `committed_files`: that no commit since they were written has added them.
    """

    append_conflicts: bool = False
    missing_files: bool = False
    committed_files: bool = False


NO_VALIDATION = CommitValidation()
"""For a writer that commits the files it has just written itself."""


def commit_changes(
    ctx: TableContext,
    messages: Sequence[CommitMessage],
    *,
    commit_user: str,
    identifier: int,
    watermark: int | None = None,
    properties: Mapping[str, str] | None = None,
    overwrite: Overwrite | None = None,
    validation: CommitValidation = NO_VALIDATION,
    ignore_empty: bool | None = None,
    is_new_user: bool = False,
) -> Commit:
    """Commit the messages of all writers of a job.

    `identifier`: never below the user's last one; 2^63-1 for a user with one commit. `ignore_empty`: make no snapshot
    without changes; None: as the option `snapshot.ignore-empty-commit` says, else only for the batch identifier.
    `is_new_user`: skip the search for earlier commits of the user.

    If only the compaction of committed rows fails, nothing is raised: writing the rows again would duplicate them.

    Raises `InvalidOption` for values that no snapshot can hold; `Conflict`, `RetriesExhausted` (after
    `commit.max-retries` or `commit.timeout`) and `StorageFailed`: nothing changed; `CommitStateUnknown`: unknown
    outcome, nothing is deleted.
    """
    table_context.check_writable(ctx)
    request = _make_request(ctx, commit_user, identifier, watermark, properties)
    latest = _read_newest(ctx)
    check_append = validation.append_conflicts
    steps = _plan_steps(request, messages, overwrite, check_append=check_append, ignore_empty=ignore_empty)
    earlier = (
        None
        if is_new_user or not steps
        else commit_history.find_earlier_commit(ctx, commit_user, request.identifier, latest)
    )
    if earlier is not None:
        return _resume_commit(request, steps, messages, earlier.snapshots, latest)
    if check_append or validation.missing_files:
        abort.check_files_exist(ctx, messages)
    if validation.committed_files:
        abort.check_not_committed(ctx, messages, latest)
    committed: list[CommittedSnapshot] = []
    for step in steps:
        try:
            committed.append(_commit_step(request, step, messages, latest))
        except LakekitError:
            if not committed or committed[0].changes.is_empty:
                raise
            break
        latest = committed[-1].snapshot
    if len(committed) < len(steps) and is_new_user:
        with suppress(LakekitError):  # never committed again: the compacted files are deleted
            abort.abort_compaction_outputs(ctx, messages)
    return build_result(request, committed)


def _make_request(
    ctx: TableContext,
    commit_user: str,
    identifier: int,
    watermark: int | None = None,
    properties: Mapping[str, str] | None = None,
) -> CommitRequest:
    return CommitRequest(
        ctx=ctx,
        commit_user=check_text("commit_user", commit_user),
        identifier=check_integer("identifier", identifier),
        watermark=None if watermark is None else check_integer("watermark", watermark),
        properties=None if properties is None else FrozenDict(check_texts("properties", properties)) or None,
        started_ms=ctx.runtime.elapsed_ms(),
    )


def _read_newest(ctx: TableContext) -> Snapshot | None:
    contention.wait_before_commit(ctx)
    return snapshots.search_latest(ctx)


def find_commit(ctx: TableContext, *, commit_user: str, identifier: int) -> Commit | None:
    """Return the commit of a user and identifier; None if it does not exist."""
    request = _make_request(ctx, commit_user, identifier)
    earlier = commit_history.find_earlier_commit(ctx, commit_user, request.identifier, snapshots.search_latest(ctx))
    if earlier is None:
        return None
    return build_result(request, _load_committed(ctx, earlier.snapshots))


def _commit_step(
    request: CommitRequest, commit_step: CommitStep, messages: Sequence[CommitMessage], latest: Snapshot | None
) -> CommittedSnapshot:
    draft = UncommittedFiles(request.ctx)
    try:
        committed = try_commit.try_commit(request, commit_step, draft, latest)
    finally:
        if draft.is_outcome_unknown:
            abort.mark_outcome_unknown(request.ctx, messages)
    commit_history.cache_latest(request.ctx, request.commit_user, committed.snapshot, committed.snapshot)
    return committed


def commit_changes_once(
    ctx: TableContext, messages: Sequence[CommitMessage], *, commit_user: str, overwrite: Overwrite | None = None
) -> Commit:
    """Commit with a user drawn for this commit; on failure delete the files of the messages.

    Files that a commit may refer to are kept (`abort`).
    """
    try:
        return commit_changes(
            ctx, messages, commit_user=commit_user, identifier=BATCH_IDENTIFIER, overwrite=overwrite, is_new_user=True
        )
    except BaseException:
        with suppress(LakekitError):  # what cannot be deleted is left to the cleaning of orphans
            abort.abort(ctx, messages)
        raise


def _plan_steps(
    request: CommitRequest,
    messages: Sequence[CommitMessage],
    overwrite: Overwrite | None,
    *,
    check_append: bool,
    ignore_empty: bool | None,
) -> list[CommitStep]:
    ctx = request.ctx
    if ignore_empty is None:
        option = ctx.options.snapshot_ignore_empty_commit
        ignore_empty = request.identifier == BATCH_IDENTIFIER if option is None else option
    appended, compacted = gathered.collect_appended(ctx, messages), gathered.collect_compacted(ctx, messages)
    steps: list[CommitStep] = []
    if overwrite is not None:
        if not overwrites.replaces_nothing(ctx, overwrite, appended):
            changes = appended if len(compacted.delta) else overwrites.upgrade_levels(ctx, appended)
            steps.append(CommitStep(changes=changes, overwrite=overwrite, checks_live_files=True))
        # an overwrite has no changelog, whatever the messages hold
        compacted = replace(compacted, changelog=EMPTY_DELTA)
    elif not (ignore_empty and appended.is_empty):
        steps.append(CommitStep(changes=appended, checks_live_files=check_append or appended.kind != "APPEND"))
    if not compacted.is_empty:
        steps.append(CommitStep(changes=compacted, checks_live_files=True))
    return steps


def _resume_commit(
    request: CommitRequest,
    steps: Sequence[CommitStep],
    messages: Sequence[CommitMessage],
    earlier_snapshots: Sequence[Snapshot],
    latest: Snapshot | None,
) -> Commit:
    """Return an existing commit; commit its compaction now if cut off and if it still fits (ENGINE 5.7)."""
    committed = _load_committed(request.ctx, earlier_snapshots)
    own = None if latest is None else commit_history.latest_of_user(request.ctx, request.commit_user, latest)
    is_last = bool(earlier_snapshots) and own is not None and own.id == earlier_snapshots[-1].id
    if is_last and earlier_snapshots[-1].commit_kind != "COMPACT" and steps[-1].changes.kind == "COMPACT":
        with suppress(LakekitError) if len(steps) > 1 else nullcontext():
            abort.check_compaction_outputs(request.ctx, messages)
            committed.append(_commit_step(request, steps[-1], messages, latest))
    return build_result(request, committed)


def _load_committed(ctx: TableContext, earlier_snapshots: Sequence[Snapshot]) -> list[CommittedSnapshot]:
    """Return the snapshots of an earlier commit as if they had just been committed."""
    return [
        CommittedSnapshot(snapshot=snapshot, changes=_read_changes(ctx, snapshot), retry_count=0)
        for snapshot in earlier_snapshots
    ]


def _read_changes(ctx: TableContext, snapshot: Snapshot) -> CommitChanges:
    return CommitChanges(
        kind=snapshot.commit_kind,  # type: ignore[arg-type] # committed by a writer, so no ANALYZE
        delta=Delta(stored_entries=meta.read_entries(ctx, meta.manifest_files(ctx, snapshot, "delta"))),
        changelog=EMPTY_DELTA,
    )


def build_result(request: CommitRequest, committed: Sequence[CommittedSnapshot]) -> Commit:
    """Return the result of a commit request from its snapshots."""
    deltas = [step.changes.delta for step in committed]
    written = next(
        (
            step.changes.delta
            for step in committed
            if step.changes.kind != "COMPACT" and step.changes.delta.entry_count(ADD)
        ),
        deltas[-1] if deltas else EMPTY_DELTA,
    )
    return Commit(
        table=request.ctx.name,
        snapshot_ids=tuple(step.snapshot.id for step in committed),
        commit_user=request.commit_user,
        identifier=request.identifier,
        kinds=tuple(step.snapshot.commit_kind for step in committed),
        added_file_count=sum(delta.entry_count(ADD) for delta in deltas),
        removed_file_count=sum(delta.entry_count(DELETE) for delta in deltas),
        row_count=written.row_count(ADD),
        size_bytes=sum(delta.size_bytes(ADD) for delta in deltas),
        duration_ms=request.ctx.runtime.elapsed_ms() - request.started_ms,
        retry_count=sum(step.retry_count for step in committed),
    )
