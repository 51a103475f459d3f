"""Commit one snapshot: prepare it on the newest one, create its file, retry after a lost race.

    newest snapshot ─▶ checks ─▶ base, delta, changelog, index ─▶ put_if_absent(snapshot-N) ─┬▶ true:    committed
          ▲                                                                                   ├▶ false:   wait, retry
          └───────────────────────────────────────────────────────────────────────────────────┘  unknown: delete nothing

Source: ENGINE.md 5.2, 5.4, 5.8, RELIABILITY.md D1, D2, D7, D8; `FileStoreCommitImpl.tryCommitOnce`,
`StrictModeChecker`, `RetryWaiter`.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lakekit.commit import commit_history, conflict_detection, contention, manifest_writer, overwrite as overwrites
from lakekit.commit.changes import Delta
from lakekit.commit.conflict_detection import ConflictUsers
from lakekit.errors import CommitStateUnknown, Conflict, LakekitError, LimitExceeded, RetriesExhausted
from lakekit.metadata import manifest_reader as meta, schemas, snapshots, table_context
from lakekit.model import index_manifest, manifest_entries as columns_of, snapshot as hint
from lakekit.model.manifest_entries import ADD, DELETE
from lakekit.model.snapshot import BATCH_IDENTIFIER, CURRENT_VERSION, Snapshot
from lakekit.storage import protocol
from lakekit.storage.atomic_write import create_exclusive
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lakekit.commit.changes import CommitChanges
    from lakekit.commit.manifest_writer import UncommittedFiles
    from lakekit.commit.overwrite import Overwrite
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.index_manifest import IndexManifestEntry
    from lakekit.model.manifests import ManifestFileMeta

_MAX_QUEUE_WAIT_MS = 1000
"""A commit that holds a turn for longer may be asleep; the others go on without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """One commit: its user and identifier, and what its snapshots carry besides files."""

    ctx: TableContext
    commit_user: str
    identifier: int
    watermark: int | None
    properties: Mapping[str, str] | None
    started_ms: float

    def conflict_users(self, latest: Snapshot | None) -> ConflictUsers:
        """Return the two sides of a conflict with snapshot `latest`, for error messages."""
        user, snapshot_id = (None, None) if latest is None else (latest.commit_user, latest.id)
        is_expired = partial(manifest_writer.is_partition_expired, self.ctx)
        return ConflictUsers(
            table=self.ctx.name,
            user=self.commit_user,
            base_user=user or "nobody",
            snapshot_id=snapshot_id,
            is_expired=is_expired,
        )


def request_with_new_user(ctx: TableContext, latest: Snapshot | None) -> CommitRequest:
    """Return a commit request with a newly drawn user and the properties of the newest snapshot."""
    return CommitRequest(
        ctx=ctx,
        commit_user=ctx.new_commit_user(),
        identifier=BATCH_IDENTIFIER,
        watermark=None,
        properties=None if latest is None else latest.properties,
        started_ms=ctx.runtime.elapsed_ms(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitStep:
    """The changes of one snapshot.

    `checks_live_files`: check them against live files even though they are an APPEND.
    """

    changes: CommitChanges
    overwrite: Overwrite | None = None
    checks_live_files: bool = False

    @property
    def kind(self) -> str:
        """Return the commit kind of the snapshot."""
        return self.changes.kind if self.overwrite is None else "OVERWRITE"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedSnapshot:
    """A snapshot that was committed, with its changes."""

    snapshot: Snapshot
    changes: CommitChanges
    retry_count: int


class MergedManifests(NamedTuple):
    """Manifests, and the manifests that they were merged into."""

    old_manifests: list[ManifestFileMeta]
    new_manifests: list[ManifestFileMeta]


@dataclass(slots=True)
class _ReusedManifests:
    """What the next attempt reuses of a failed one: manifests of the same entries, merged base manifests."""

    entries: object = None
    delta: tuple[tuple[str, int], list[ManifestFileMeta]] | None = None
    changelog: tuple[str, int] | None = None
    merged_from: list[ManifestFileMeta] = field(default_factory=list)
    merged_manifests: list[ManifestFileMeta] = field(default_factory=list)

    @classmethod
    def of_merged(cls, merged: MergedManifests | None) -> _ReusedManifests:
        """Return the manifests that the first attempt reuses: those that were merged before, if any."""
        return cls() if merged is None else cls(merged_from=merged.old_manifests, merged_manifests=merged.new_manifests)


def try_commit(
    request: CommitRequest,
    commit_step: CommitStep,
    draft: UncommittedFiles,
    latest: Snapshot | None,
    merged_manifests: MergedManifests | None = None,
) -> CommittedSnapshot:
    """Commit the snapshot of a step, and retry after lost races.

    `merged_manifests`: manifests that were merged before; a base list that still begins with them takes the result
    over. Whatever is raised, files stay only where a snapshot may refer to them.

    Raises:
        Conflict: the changes do not fit the newest snapshot.
        RetriesExhausted: after `commit.max-retries` lost races or `commit.timeout`.
        CommitStateUnknown: it cannot be determined whether the snapshot was committed.
    """
    reused = _ReusedManifests.of_merged(merged_manifests)
    retries = 0
    runtime = request.ctx.runtime
    with ExitStack() as turn:
        has_turn = _yield_turn(request, turn)
        if has_turn:
            latest = snapshots.search_latest(request.ctx)
        while True:
            started_ms = runtime.elapsed_ms()
            prepared = _try_prepare(request, commit_step, draft, reused, latest)
            if (
                prepared is not None
                and _create_snapshot_file(request, draft, prepared.snapshot)
                and not _is_overtaken(request, draft, prepared.snapshot, prepared.changes)
            ):
                break
            retries += 1
            try:
                _raise_retries_exhausted(request, retries)
                has_turn = has_turn or _wait_for_retry(request, retries - 1, turn)
                seen_id = 0 if latest is None else latest.id
                latest = snapshots.search_latest(request.ctx, seen_id)
                own = (request.commit_user, request.identifier, commit_step.kind)
                own_snapshot = commit_history.find_snapshot(request.ctx, own, seen_id, latest)
            except BaseException:
                draft.discard()
                contention.record_commit(request.ctx, retries, runtime.elapsed_ms() - started_ms)
                raise
            if own_snapshot is not None:  # another writer repeated this commit at the same time
                draft.discard()
                own_changes = commit_step.changes if prepared is None else prepared.changes
                return CommittedSnapshot(snapshot=own_snapshot, changes=own_changes, retry_count=retries)
    contention.record_commit(request.ctx, retries, runtime.elapsed_ms() - started_ms)
    _record_snapshot(request.ctx, draft, latest, prepared, is_retried=retries > 0)
    return CommittedSnapshot(snapshot=prepared.snapshot, changes=prepared.changes, retry_count=retries)


def _record_snapshot(
    ctx: TableContext,
    draft: UncommittedFiles,
    latest: Snapshot | None,
    prepared_snapshot: _PreparedSnapshot,
    *,
    is_retried: bool,
) -> None:
    """Write the hints of a snapshot that was committed, advance the cached counts, discard files of lost attempts."""
    _write_hints(ctx, prepared_snapshot.snapshot)
    if latest is not None:
        conflict_detection.advance_cached_counts(
            ctx, latest, prepared_snapshot.snapshot, prepared_snapshot.changes.delta
        )
    if is_retried:
        with suppress(LakekitError):
            draft.discard(keep=_referenced_files(ctx, prepared_snapshot.snapshot))


# ---- preparing -------------------------------------------------------------------------------------------------------


class _PreparedSnapshot(NamedTuple):
    """A snapshot ready to be created, and its changes against the newest one."""

    changes: CommitChanges
    snapshot: Snapshot


def _try_prepare(
    request: CommitRequest,
    commit_step: CommitStep,
    draft: UncommittedFiles,
    reused: _ReusedManifests,
    latest: Snapshot | None,
) -> _PreparedSnapshot | None:
    """Prepare the snapshot; return None if the newest snapshot expired while it was read (a lost race)."""
    try:
        try:
            return _prepare_snapshot(request, commit_step, draft, reused, latest)
        except FileMissing:
            if not snapshots.has_expired(request.ctx, latest):
                raise
            return None
    except BaseException:
        draft.discard()
        raise


def _prepare_snapshot(
    request: CommitRequest,
    commit_step: CommitStep,
    draft: UncommittedFiles,
    reused: _ReusedManifests,
    latest: Snapshot | None,
) -> _PreparedSnapshot:
    ctx = request.ctx
    changes = (
        commit_step.changes
        if commit_step.overwrite is None
        else overwrites.resolve_overwrite(ctx, commit_step.overwrite, commit_step.changes, latest)
    )
    live_index = [] if latest is None else _live_index_entries(ctx, latest, changes)
    changes = _check_changes(request, commit_step, changes, latest, live_index)
    base = [] if latest is None else _merge_base_manifests(draft, reused, meta.manifest_files(ctx, latest))
    index_name = _write_index_manifest(draft, latest, live_index, changes)
    base_list = manifest_writer.write_manifest_list(draft, base)
    if reused.entries is not changes.delta or reused.delta is None:
        files = manifest_writer.write_delta_manifests(draft, changes.delta)
        changelog = manifest_writer.write_delta_manifests(draft, changes.changelog)
        reused.entries = changes.delta
        reused.delta = manifest_writer.write_manifest_list(draft, files), files
        reused.changelog = manifest_writer.write_manifest_list(draft, changelog) if changelog else None
    draft.write_pending()
    return _PreparedSnapshot(changes, _build_snapshot(request, latest, changes, base_list, reused, index_name))


def _merge_base_manifests(
    draft: UncommittedFiles, reused: _ReusedManifests, files: list[ManifestFileMeta]
) -> list[ManifestFileMeta]:
    """Return the base manifests of the new snapshot, merged; earlier merges are reused."""
    count = len(reused.merged_from)
    if count and files[:count] == reused.merged_from:
        return reused.merged_manifests + files[count:]
    reused.merged_from, reused.merged_manifests = files, manifest_writer.merge_manifests(draft, files)
    return reused.merged_manifests


def _live_index_entries(ctx: TableContext, latest: Snapshot, changes: CommitChanges) -> list[IndexManifestEntry]:
    """Return the index files of the newest snapshot, or nothing if the changes do not depend on them."""
    matters = changes.index or changes.hash_bases or (ctx.options.deletion_vectors_enabled and changes.kind != "APPEND")
    return meta.index_entries(ctx, latest) if matters else []


def _write_index_manifest(
    draft: UncommittedFiles, latest: Snapshot | None, live_entries: Sequence[IndexManifestEntry], changes: CommitChanges
) -> str | None:
    before = None if latest is None else latest.index_manifest
    if not changes.index:
        return before
    after = manifest_writer.combine_index_entries(live_entries, changes.index, by_bucket=draft.ctx.has_buckets)
    if after == list(live_entries):
        return before
    name = draft.add_file("index-manifest", index_manifest.encode_index_manifest(after, **draft.encode_options))
    meta.cache_index(draft.ctx, name, after)
    return name


def _build_snapshot(
    request: CommitRequest,
    latest: Snapshot | None,
    changes: CommitChanges,
    base: tuple[str, int],
    reused: _ReusedManifests,
    index_name: str | None,
) -> Snapshot:
    ctx = request.ctx
    schema_id = schemas.list_ids(ctx)[-1]
    row_delta = changes.delta.row_count(ADD) - changes.delta.row_count(DELETE)
    watermarks = [
        watermark
        for watermark in (request.watermark, None if latest is None else latest.watermark_or_none)
        if watermark is not None
    ]
    changelog = reused.changelog
    (delta_name, delta_size), _ = reused.delta or (("", 0), [])
    return Snapshot(
        version=CURRENT_VERSION,
        id=_next_id(ctx, latest),
        schema_id=schema_id,
        base_manifest_list=base[0],
        base_manifest_list_size=base[1],
        delta_manifest_list=delta_name,
        delta_manifest_list_size=delta_size,
        changelog_manifest_list=None if changelog is None else changelog[0],
        changelog_manifest_list_size=None if changelog is None else changelog[1],
        index_manifest=index_name,
        commit_user=request.commit_user,
        commit_identifier=request.identifier,
        commit_kind=changes.kind,
        time_millis=max(ctx.runtime.now_ms(), -(2**63) if latest is None else latest.time_millis),
        total_record_count=(0 if latest is None else latest.total_record_count or 0) + row_delta,
        delta_record_count=row_delta,
        changelog_record_count=changes.changelog.row_count(ADD) if changelog is not None else None,
        watermark=max(watermarks) if watermarks else None,
        statistics=changes.statistics
        or (latest.statistics if latest is not None and latest.schema_id == schema_id else None),
        properties=request.properties or None,
        next_row_id=0 if latest is None else latest.next_row_id or 0,
    )


def _next_id(ctx: TableContext, latest: Snapshot | None) -> int:
    """Return the id of the new snapshot. Raises `LimitExceeded` past the greatest that a file name holds."""
    if latest is None:
        return 1
    if latest.id >= hint.MAX_ID:
        path = ctx.paths.snapshot(latest.id)
        raise LimitExceeded(
            f"{ctx.name} has no number left behind snapshot {latest.id}. A stray file is called so: look at {path}, "
            "move it out of the folder, then commit again. Nothing was committed",
            path=path,
            field="id",
        )
    return latest.id + 1


# ---- checking --------------------------------------------------------------------------------------------------------


def _check_changes(
    request: CommitRequest,
    commit_step: CommitStep,
    changes: CommitChanges,
    latest: Snapshot | None,
    live_index: Sequence[IndexManifestEntry],
) -> CommitChanges:
    """Check the changes (raises `Conflict`); return them without files to be discarded as duplicates."""
    ctx, parties = request.ctx, request.conflict_users(latest)
    manifest_writer.check_hash_bases(live_index, changes.hash_bases)
    overwrites_all = commit_step.overwrite is not None
    discards_duplicates = changes.kind == "APPEND" and ctx.options.commit_discard_duplicate_files
    if latest is None:
        conflict_detection.check_conflicts(
            columns_of.empty_entries(), changes.delta.entries, parties, key_types=(), overwrites=overwrites_all
        )
        return changes
    _check_strict_mode(request, changes, latest)
    conflict_detection.check_known_keys(ctx, request.commit_user, changes.known_keys_snapshot_id, latest)
    if changes.kind == "APPEND" and not (commit_step.checks_live_files or discards_duplicates):
        conflict_detection.check_partition_bucket_counts(ctx, latest, changes.delta, parties)
        return changes
    base = _read_touched_entries(ctx, latest, changes)
    if discards_duplicates:
        changes = _drop_live_files(changes, base)
    if ctx.options.deletion_vectors_enabled and not overwrites_all:
        conflict_detection.check_deletion_vectors(base, changes.delta.entries, live_index, changes.index, parties)
    key_types = [field.type for field in ctx.schema.key_fields] if ctx.kind == "key" else ()
    conflict_detection.check_conflicts(
        base, changes.delta.entries, parties, key_types=key_types, overwrites=overwrites_all
    )
    return changes


def _read_touched_entries(ctx: TableContext, latest: Snapshot, changes: CommitChanges) -> columns_of.ManifestEntries:
    """Read the live files of the partitions that change, with the columns that the checks use."""
    touched = {*changes.delta.partitions, *(entry.partition for entry in changes.index)}
    fields = ctx.schema.partition_fields
    if not fields:
        return meta.read_live_entries(ctx, latest, columns=conflict_detection.CHECKED_COLUMNS)
    values = manifest_writer.partition_values_of(touched, fields)
    return meta.read_live_entries(
        ctx,
        latest,
        keep_manifest=lambda file: manifest_writer.may_contain_partition(file, values, fields),
        keep_partitions=lambda column: conflict_detection.mask_partitions(column, touched),
        columns=conflict_detection.CHECKED_COLUMNS,
    )


def _drop_live_files(changes: CommitChanges, base: columns_of.ManifestEntries) -> CommitChanges:
    both = columns_of.identity_codes(
        columns_of.concat_entries([base, changes.delta.entries.select(conflict_detection.CHECKED_COLUMNS)])
    )
    fresh = ~np.isin(both[len(base) :], both[: len(base)])
    return (
        changes
        if fresh.all()
        else replace(
            changes,
            delta=Delta(
                message_rows=tuple(row for row, keep in zip(changes.delta.message_rows, fresh, strict=True) if keep)
            ),
        )
    )


def _check_strict_mode(request: CommitRequest, changes: CommitChanges, latest: Snapshot) -> None:
    """Refuse the commit if others overwrote or compacted its partitions since the safe snapshot.

    Option `commit.strict-mode.last-safe-snapshot`; appends of others count too where this commit is an overwrite.
    """
    safe_id = request.ctx.options.commit_strict_mode_last_safe_snapshot
    if safe_id is None:
        return
    own = commit_history.latest_of_user(request.ctx, request.commit_user, latest)
    for snapshot_id, other in commit_history.iter_since(
        request.ctx, max(safe_id, 0 if own is None else own.id, 0), latest
    ):
        if (
            other is None
            or other.commit_user == request.commit_user
            or (other.commit_kind == "APPEND" and changes.kind != "OVERWRITE")
        ):
            continue
        entries = meta.read_entries(request.ctx, meta.manifest_files(request.ctx, other, "delta"))
        if other.commit_kind == "APPEND":
            entries = entries.filter(entries.integers("bucket") >= 0)
        elif other.commit_kind not in {"COMPACT", "OVERWRITE"}:
            continue
        shared = {*entries.column("partition").unique().to_pylist()} & changes.delta.partitions
        if shared:
            raise Conflict(
                f"Strict mode: snapshot {snapshot_id} of {other.commit_user} is {other.commit_kind} and touched a "
                "partition of this commit. Nothing was committed. Look at that snapshot, then write again from a "
                "writer opened since",
                snapshot_id=snapshot_id,
            )


# ---- creating the snapshot file --------------------------------------------------------------------------------------


def _create_snapshot_file(request: CommitRequest, draft: UncommittedFiles, snapshot: Snapshot) -> bool:
    """Create the snapshot file, under the catalog's lock if it has one; return False if the id is taken."""
    with ExitStack() as stack:
        try:
            lock = stack.enter_context(table_context.catalog_lock(request.ctx))
            lock.check_held()
        except BaseException:
            draft.discard()
            raise
        return _create_exclusively(request, draft, snapshot, table_context.lock_check(lock))


def _create_exclusively(
    request: CommitRequest, draft: UncommittedFiles, snapshot: Snapshot, check_lock: Callable[[], None] | None
) -> bool:
    """Create the snapshot file; act on a failure only where its outcome is certain (D2)."""
    draft.is_outcome_unknown = True
    try:
        is_created = create_exclusive(
            request.ctx.storage, request.ctx.paths.snapshot(snapshot.id), snapshot.to_json(), check_lock=check_lock
        )
    except CommitStateUnknown as failed:
        raise _make_state_unknown(request, snapshot, failed) from failed
    except LakekitError:
        draft.is_outcome_unknown = False  # the storage says no, and nothing is there
        draft.discard()
        raise
    draft.is_outcome_unknown = False
    return is_created


def _is_overtaken(request: CommitRequest, draft: UncommittedFiles, snapshot: Snapshot, changes: CommitChanges) -> bool:
    """Return True if newer snapshots lack the one just created; its file is deleted, as after a lost race."""
    draft.is_outcome_unknown = True
    try:
        try:
            superseded = contention.is_superseded(request.ctx, snapshot, changes)
        except LakekitError:  # one that fails in passing is no reason to know nothing
            superseded = contention.is_superseded(request.ctx, snapshot, changes)
        if superseded:
            request.ctx.storage.delete([request.ctx.paths.snapshot(snapshot.id)])
    except LakekitError as failed:
        raise _make_state_unknown(request, snapshot, failed) from failed
    if superseded is None:
        raise _make_state_unknown(
            request,
            snapshot,
            Conflict("newer snapshots were made meanwhile, and all before them expired", snapshot_id=snapshot.id),
        )
    draft.is_outcome_unknown = False
    return superseded


def _make_state_unknown(request: CommitRequest, snapshot: Snapshot, cause: LakekitError) -> CommitStateUnknown:
    return CommitStateUnknown(
        f"Nobody can tell whether snapshot {snapshot.id} of {request.ctx.name} was made ({cause.message}). Nothing "
        f"was deleted. Commit the same messages again as {request.commit_user} with identifier {request.identifier}: "
        "what is there is not done twice",
        snapshot_id=snapshot.id,
        commit_user=request.commit_user,
        identifier=request.identifier,
    )


def _raise_retries_exhausted(request: CommitRequest, retries: int) -> None:
    options, took_ms = request.ctx.options, request.ctx.runtime.elapsed_ms() - request.started_ms
    is_timed_out = options.commit_timeout_ms is not None and took_ms >= options.commit_timeout_ms
    if is_timed_out or retries > options.commit_max_retries:
        raise RetriesExhausted(
            f"Commit of {request.ctx.name} failed after {took_ms:.0f} millis with {retries - 1} retries, there maybe "
            "exist commit conflicts between multiple jobs. Nothing was committed. Commit the same messages again, or "
            "raise commit.max-retries"
        )


def _yield_turn(request: CommitRequest, turn_stack: ExitStack) -> bool:
    """Queue behind commits that have lost a race already; return whether a turn was granted.

    Without it a commit that needs longer than others, such as a compaction, would lose to them forever.
    """
    storage, directory = request.ctx.storage, request.ctx.paths.snapshot_dir
    with protocol.commit_queue(storage, directory, 0) as is_free:
        if is_free or not isinstance(storage, protocol.SupportsCommitQueue):
            return False
    return turn_stack.enter_context(
        protocol.commit_queue(storage, directory, min(_MAX_QUEUE_WAIT_MS, request.ctx.options.commit_max_retry_wait_ms))
    )


def _wait_for_retry(request: CommitRequest, lost: int, turn_stack: ExitStack) -> bool:
    """Wait until a retry is worthwhile.

    Return True if a turn was granted, which is held until the commit ends. False: no turn was granted, and this call
    waited as long as `contention` says.
    """
    ctx, options = request.ctx, request.ctx.options
    if turn_stack.enter_context(
        protocol.commit_queue(
            ctx.storage, ctx.paths.snapshot_dir, min(_MAX_QUEUE_WAIT_MS, options.commit_max_retry_wait_ms)
        )
    ):
        return True
    contention.wait_after_race(ctx, lost)
    return False


def _write_hints(ctx: TableContext, snapshot: Snapshot) -> None:
    """Write the hint files; failures are ignored: hints are advice, and never go back (D7)."""
    layout = ctx.paths
    with suppress(LakekitError):
        hinted_id = _read_latest_hint(ctx)
        if hinted_id is None or hinted_id < snapshot.id or not ctx.storage.exists(layout.snapshot(hinted_id)):
            ctx.storage.put(layout.latest_hint, hint.encode_hint(snapshot.id))
        if snapshot.id == 1:
            ctx.storage.put(layout.earliest_hint, hint.encode_hint(1))
        if not snapshots.cache_newest(ctx, snapshot):  # it expired between those calls: the hint may name it
            newest_id = snapshots.latest_id(ctx)
            if newest_id is not None:
                ctx.storage.put(layout.latest_hint, hint.encode_hint(newest_id))


def _read_latest_hint(ctx: TableContext) -> int | None:
    try:
        return hint.decode_hint(ctx.storage.read(ctx.paths.latest_hint, 0, 32))
    except LakekitError:
        return None


def _referenced_files(ctx: TableContext, snapshot: Snapshot) -> set[str]:
    """Return the names of the metadata files that a snapshot refers to."""
    lists = (
        snapshot.base_manifest_list,
        snapshot.delta_manifest_list,
        snapshot.changelog_manifest_list,
        snapshot.index_manifest,
    )
    files = meta.manifest_files(ctx, snapshot) + meta.manifest_files(ctx, snapshot, "changelog")
    return {name for name in lists if name is not None} | {file.name for file in files}
