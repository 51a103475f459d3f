"""One snapshot: prepared on the newest one, claimed by creating its file, and prepared anew when somebody else was faster.

    newest snapshot ─▶ checks ─▶ merged base, delta, changelog, index ─▶ put_if_absent(snapshot-N) ─┬▶ true:   committed
          ▲                                                                                          ├▶ false:  taken: look who, wait, again
          └──────────────────────────────────────────────────────────────────────────────────────────┘  nobody can tell: nothing is deleted

Source: ENGINE.md 5.2, 5.4, 5.8, RELIABILITY.md D1, D2, D7, D8; `FileStoreCommitImpl.tryCommitOnce`, `StrictModeChecker`, `RetryWaiter`.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lakekit.commit import (
    bucket_counts,
    commit_history,
    conflict_detection,
    contention,
    expired,
    index as indexes,
    known_keys,
    manifest_writer,
    overtaken,
    overwrite as overwrites,
    partition_ranges,
)
from lakekit.commit.changes import Delta
from lakekit.commit.conflict_detection import ConflictParties
from lakekit.errors import CommitStateUnknown, Conflict, LakekitError, LimitExceeded, RetriesExhausted
from lakekit.metadata import keeper, manifest_reader as meta, schemas, snapshots
from lakekit.model import hint, index_manifest, manifest_entries as columns_of
from lakekit.model.manifest_entries import ADD, DELETE
from lakekit.model.snapshot import BATCH_IDENTIFIER, CURRENT_VERSION, Snapshot
from lakekit.storage import turns
from lakekit.storage.atomic_write import create_exclusive
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lakekit.commit.changes import CommitChanges
    from lakekit.commit.draft import UncommittedFiles
    from lakekit.commit.overwrite import Overwrite
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.index_file import IndexManifestEntry
    from lakekit.model.manifests import ManifestFileMeta

_PATIENCE_MS = 1000
"""Who holds a turn for longer may be asleep; the others go on without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """One commit: whose it is, and what its snapshots carry besides files."""

    ctx: TableContext
    commit_user: str
    identifier: int
    watermark: int | None
    properties: Mapping[str, str] | None
    started_ms: float

    def parties(self, latest: Snapshot | None) -> ConflictParties:
        """Who meets at a snapshot."""
        user, number = (None, None) if latest is None else (latest.commit_user, latest.id)
        gone = partial(expired.is_expired, self.ctx)
        return ConflictParties(table=self.ctx.name, user=self.commit_user, base_user=user or "nobody", snapshot_id=number, is_expired=gone)


def request_with_new_user(ctx: TableContext, latest: Snapshot | None) -> CommitRequest:
    """A commit by a user drawn for it, which carries on what the newest snapshot says."""
    return CommitRequest(
        ctx=ctx,
        commit_user=ctx.new_commit_user(),
        identifier=BATCH_IDENTIFIER,
        watermark=None,
        properties=None if latest is None else latest.properties,
        started_ms=ctx.world.elapsed_ms(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitStep:
    """What one snapshot is to change. `check`: even though it is an APPEND."""

    changes: CommitChanges
    overwrite: Overwrite | None = None
    check: bool = False

    @property
    def kind(self) -> str:
        """What its snapshot is called."""
        return self.changes.kind if self.overwrite is None else "OVERWRITE"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedSnapshot:
    """A snapshot that is there, and what it changed."""

    snapshot: Snapshot
    changes: CommitChanges
    retry_count: int


class MergedManifests(NamedTuple):
    """Manifests, and what they were merged into."""

    before: list[ManifestFileMeta]
    after: list[ManifestFileMeta]


@dataclass(slots=True)
class _ReusedManifests:
    """What an attempt leaves for the next one: manifests of the same entries, and what was merged already."""

    entries: object = None
    delta: tuple[tuple[str, int], list[ManifestFileMeta]] | None = None
    changelog: tuple[str, int] | None = None
    merged_from: list[ManifestFileMeta] = field(default_factory=list)
    merged: list[ManifestFileMeta] = field(default_factory=list)


def try_commit(
    job: CommitRequest, step: CommitStep, draft: UncommittedFiles, latest: Snapshot | None, merged: MergedManifests | None = None
) -> CommittedSnapshot:
    """Makes the snapshot of a step. `merged`: manifests that were merged before, which a base that still begins with them takes over.

    Raises `Conflict`, `RetriesExhausted`, `CommitStateUnknown`; whatever it raises, files stay only where a snapshot may refer to them.
    """
    carried, retries = _ReusedManifests() if merged is None else _ReusedManifests(merged_from=merged.before, merged=merged.after), 0
    world = job.ctx.world
    with ExitStack() as turn:
        has_turn = _yield_turn(job, turn)
        if has_turn:
            latest = snapshots.latest_from_known(job.ctx)
        while True:
            started_ms = world.elapsed_ms()
            prepared = _try_prepare(job, step, draft, carried, latest)
            if (
                prepared is not None
                and _create_snapshot_file(job, draft, prepared.snapshot)
                and not _is_overtaken(job, draft, prepared.snapshot, prepared.changes)
            ):
                break
            retries += 1
            try:
                _raise_retries_exhausted(job, retries)
                has_turn = has_turn or _wait_for_retry(job, retries - 1, turn)
                seen = 0 if latest is None else latest.id
                latest = snapshots.latest_from_known(job.ctx, seen)
                mine = _find_own_snapshot(job, step.kind, seen, latest)
            except BaseException:
                draft.discard()
                contention.remember(job.ctx, retries, world.elapsed_ms() - started_ms)
                raise
            if mine is not None:  # the same commit, made by somebody who repeats it at the same time
                draft.discard()
                return CommittedSnapshot(snapshot=mine, changes=step.changes if prepared is None else prepared.changes, retry_count=retries)
        changes, snapshot = prepared
    contention.remember(job.ctx, retries, world.elapsed_ms() - started_ms)
    _write_hints(job.ctx, snapshot)
    if latest is not None:
        bucket_counts.remember(job.ctx, latest, snapshot, changes.delta)
    if retries:
        with suppress(LakekitError):
            draft.discard(keep=_referenced_files(job.ctx, snapshot))
    return CommittedSnapshot(snapshot=snapshot, changes=changes, retry_count=retries)


# ---- prepared ----------------------------------------------------------------------------------------------------------------------------------------


class _PreparedSnapshot(NamedTuple):
    """What a snapshot changes by now, and the snapshot."""

    changes: CommitChanges
    snapshot: Snapshot


def _try_prepare(job: CommitRequest, step: CommitStep, draft: UncommittedFiles, carried: _ReusedManifests, latest: Snapshot | None) -> _PreparedSnapshot | None:
    """What is to be claimed; None where the newest snapshot expired while it was read: somebody was faster."""
    try:
        try:
            return _prepare(job, step, draft, carried, latest)
        except FileMissing:
            if not snapshots.has_expired(job.ctx, latest):
                raise
            return None
    except BaseException:
        draft.discard()
        raise


def _prepare(job: CommitRequest, step: CommitStep, draft: UncommittedFiles, carried: _ReusedManifests, latest: Snapshot | None) -> _PreparedSnapshot:
    ctx = job.ctx
    changes = step.changes if step.overwrite is None else overwrites.changes_at(ctx, step.overwrite, step.changes, latest)
    live_index = [] if latest is None else _index_of(ctx, latest, changes)
    changes = _check_changes(job, step, changes, latest, live_index)
    base = [] if latest is None else _base(draft, carried, meta.manifest_files(ctx, latest))
    index_name = _index_name(draft, latest, live_index, changes)
    base_list = manifest_writer.write_list(draft, base)
    if carried.entries is not changes.delta or carried.delta is None:
        files = manifest_writer.write_delta(draft, changes.delta)
        changelog = manifest_writer.write_delta(draft, changes.changelog)
        carried.entries = changes.delta
        carried.delta = manifest_writer.write_list(draft, files), files
        carried.changelog = manifest_writer.write_list(draft, changelog) if changelog else None
    draft.finish()
    return _PreparedSnapshot(changes, _snapshot(job, latest, changes, base_list, carried, index_name))


def _base(draft: UncommittedFiles, carried: _ReusedManifests, files: list[ManifestFileMeta]) -> list[ManifestFileMeta]:
    """The merged manifests of the snapshot before; what an earlier attempt merged is not merged again."""
    count = len(carried.merged_from)
    if count and files[:count] == carried.merged_from:
        return carried.merged + files[count:]
    carried.merged_from, carried.merged = files, manifest_writer.merge_manifests(draft, files)
    return carried.merged


def _index_of(ctx: TableContext, latest: Snapshot, changes: CommitChanges) -> list[IndexManifestEntry]:
    """The index files of the newest snapshot, where they matter."""
    matters = changes.index or changes.hash_bases or (ctx.options.deletion_vectors_enabled and changes.kind != "APPEND")
    return meta.index_entries(ctx, latest) if matters else []


def _index_name(draft: UncommittedFiles, latest: Snapshot | None, live: Sequence[IndexManifestEntry], changes: CommitChanges) -> str | None:
    before = None if latest is None else latest.index_manifest
    if not changes.index:
        return before
    after = indexes.combine(live, changes.index, by_bucket=draft.ctx.has_buckets)
    if after == list(live):
        return before
    name = draft.write("index-manifest", index_manifest.encode(after, **draft.how))
    meta.remember_index(draft.ctx, name, after)
    return name


def _snapshot(
    job: CommitRequest, latest: Snapshot | None, changes: CommitChanges, base: tuple[str, int], carried: _ReusedManifests, index_name: str | None
) -> Snapshot:
    ctx = job.ctx
    schema_id = schemas.ids(ctx)[-1]
    delta = changes.delta.row_count(ADD) - changes.delta.row_count(DELETE)
    watermarks = [mark for mark in (job.watermark, None if latest is None else latest.watermark_or_none) if mark is not None]
    changelog = carried.changelog
    (delta_name, delta_size), _ = carried.delta or (("", 0), [])
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
        commit_user=job.commit_user,
        commit_identifier=job.identifier,
        commit_kind=changes.kind,
        time_millis=max(ctx.world.now_ms(), -(2**63) if latest is None else latest.time_millis),
        total_record_count=(0 if latest is None else latest.total_record_count or 0) + delta,
        delta_record_count=delta,
        changelog_record_count=changes.changelog.row_count(ADD) if changelog is not None else None,
        watermark=max(watermarks) if watermarks else None,
        statistics=changes.statistics or (latest.statistics if latest is not None and latest.schema_id == schema_id else None),
        properties=job.properties or None,
        next_row_id=0 if latest is None else latest.next_row_id or 0,
    )


def _next_id(ctx: TableContext, latest: Snapshot | None) -> int:
    """Return the number of the snapshot to be made. Raises `LimitExceeded` behind the greatest one that a file name can say."""
    if latest is None:
        return 1
    if latest.id >= hint.MAX_ID:
        path = ctx.layout.snapshot(latest.id)
        raise LimitExceeded(
            f"{ctx.name} has no number left behind snapshot {latest.id}. A stray file is called so: look at {path}, "
            "move it out of the folder, then commit again. Nothing was committed",
            path=path,
            field="id",
        )
    return latest.id + 1


# ---- checked -----------------------------------------------------------------------------------------------------------------------------------------


def _check_changes(
    job: CommitRequest, step: CommitStep, changes: CommitChanges, latest: Snapshot | None, live_index: Sequence[IndexManifestEntry]
) -> CommitChanges:
    """The changes, where they fit the table as it is now. Raises `Conflict`."""
    ctx, parties = job.ctx, job.parties(latest)
    indexes.check_hash_bases(live_index, changes.hash_bases)
    overwrites_all = step.overwrite is not None
    discards = changes.kind == "APPEND" and ctx.options.commit_discard_duplicate_files
    if latest is None:
        conflict_detection.check(columns_of.empty(), changes.delta.entries, parties, key_types=(), overwrites=overwrites_all)
        return changes
    _check_strict_mode(job, changes, latest)
    known_keys.check(ctx, job.commit_user, changes.keys_known_at, latest)
    if changes.kind == "APPEND" and not (step.check or discards):
        bucket_counts.check(ctx, latest, changes.delta, parties)
        return changes
    base = _read_touched_entries(ctx, latest, changes)
    if discards:
        changes = _drop_live_files(changes, base)
    if ctx.options.deletion_vectors_enabled and not overwrites_all:
        conflict_detection.check_vectors(base, changes.delta.entries, live_index, changes.index, parties)
    key_types = [one.type for one in ctx.schema.key_fields] if ctx.kind == "key" else ()
    conflict_detection.check(base, changes.delta.entries, parties, key_types=key_types, overwrites=overwrites_all)
    return changes


def _read_touched_entries(ctx: TableContext, latest: Snapshot, changes: CommitChanges) -> columns_of.ManifestEntries:
    """The live files of the partitions that change, as far as checks look at them."""
    touched = {*changes.delta.partitions, *(entry.partition for entry in changes.index)}
    fields = ctx.schema.partition_fields
    if not fields:
        return meta.read_live_entries(ctx, latest, columns=conflict_detection.CHECKED_COLUMNS)
    values = partition_ranges.values_of(touched, fields)
    return meta.read_live_entries(
        ctx,
        latest,
        keep_manifest=lambda file: partition_ranges.may_hold(file, values, fields),
        keep_partitions=lambda column: bucket_counts.mask_partitions(column, touched),
        columns=conflict_detection.CHECKED_COLUMNS,
    )


def _drop_live_files(changes: CommitChanges, base: columns_of.ManifestEntries) -> CommitChanges:
    """The changes without files that are live already."""
    both = columns_of.identities(columns_of.concat([base, changes.delta.entries.select(conflict_detection.CHECKED_COLUMNS)]))
    fresh = ~np.isin(both[len(base) :], both[: len(base)])
    return changes if fresh.all() else replace(changes, delta=Delta(rows=tuple(row for row, keep in zip(changes.delta.rows, fresh, strict=True) if keep)))


def _check_strict_mode(job: CommitRequest, changes: CommitChanges, latest: Snapshot) -> None:
    """Refuses a commit beside which others overwrote, or compacted, the same partitions (`commit.strict-mode.last-safe-snapshot`)."""
    safe = job.ctx.options.commit_strict_mode_last_safe_snapshot
    if safe is None:
        return
    own = commit_history.latest_of_user(job.ctx, job.commit_user, latest)
    for number, other in commit_history.iter_since(job.ctx, max(safe, 0 if own is None else own.id, 0), latest):
        if other is None or other.commit_user == job.commit_user or (other.commit_kind == "APPEND" and changes.kind != "OVERWRITE"):
            continue
        entries = meta.read_entries(job.ctx, meta.manifest_files(job.ctx, other, "delta"))
        if other.commit_kind == "APPEND":
            entries = entries.filter(entries.numbers("bucket") >= 0)
        elif other.commit_kind not in {"COMPACT", "OVERWRITE"}:
            continue
        shared = {*entries.column("partition").unique().to_pylist()} & changes.delta.partitions
        if shared:
            raise Conflict(
                f"Strict mode: snapshot {number} of {other.commit_user} is {other.commit_kind} and touched a partition of this commit. Nothing was committed. "
                "Look at that snapshot, then write again from a writer opened since",
                snapshot_id=number,
            )


# ---- claimed -----------------------------------------------------------------------------------------------------------------------------------------


def _create_snapshot_file(job: CommitRequest, draft: UncommittedFiles, snapshot: Snapshot) -> bool:
    """Whether the snapshot's file is ours: claimed under the catalog's lock, where it has one."""
    with ExitStack() as stack:
        try:
            claim = stack.enter_context(keeper.catalog_lock(job.ctx))
            claim.check()
        except BaseException:
            draft.discard()
            raise
        return _claim_alone(job, draft, snapshot, keeper.lock_check(claim))


def _claim_alone(job: CommitRequest, draft: UncommittedFiles, snapshot: Snapshot, held: Callable[[], None] | None) -> bool:
    """What fails in between is looked at: only what is sure is acted on (D2)."""
    draft.in_doubt = True
    try:
        found = create_exclusive(job.ctx.storage, job.ctx.layout.snapshot(snapshot.id), snapshot.to_json(), held=held)
    except CommitStateUnknown as failed:
        raise _make_state_unknown(job, snapshot, failed) from failed
    except LakekitError:
        draft.in_doubt = False  # the storage says no, and nothing is there
        draft.discard()
        raise
    draft.in_doubt = False
    return found


def _is_overtaken(job: CommitRequest, draft: UncommittedFiles, snapshot: Snapshot, changes: CommitChanges) -> bool:
    """Whether newer snapshots do not know the one that was just claimed; its file is taken back then, and the commit goes on as after a lost race."""
    draft.in_doubt = True
    try:
        try:
            found = overtaken.is_superseded(job.ctx, snapshot, changes)
        except LakekitError:  # one that fails in passing is no reason to know nothing
            found = overtaken.is_superseded(job.ctx, snapshot, changes)
        if found:
            job.ctx.storage.delete([job.ctx.layout.snapshot(snapshot.id)])
    except LakekitError as failed:
        raise _make_state_unknown(job, snapshot, failed) from failed
    if found is None:
        raise _make_state_unknown(job, snapshot, Conflict("newer snapshots were made meanwhile, and all before them expired", snapshot_id=snapshot.id))
    draft.in_doubt = False
    return found


def _make_state_unknown(job: CommitRequest, snapshot: Snapshot, why: LakekitError) -> CommitStateUnknown:
    return CommitStateUnknown(
        f"Nobody can tell whether snapshot {snapshot.id} of {job.ctx.name} was made ({why.message}). Nothing was deleted. Commit the same messages again as "
        f"{job.commit_user} with identifier {job.identifier}: what is there is not done twice",
        snapshot_id=snapshot.id,
        commit_user=job.commit_user,
        identifier=job.identifier,
    )


def _find_own_snapshot(job: CommitRequest, kind: str, seen: int, latest: Snapshot | None) -> Snapshot | None:
    """The snapshot above `seen` that this very commit made."""
    for _, found in () if latest is None else commit_history.iter_since(job.ctx, seen, latest):
        if found is not None and (found.commit_user, found.commit_identifier, found.commit_kind) == (job.commit_user, job.identifier, kind):
            return found
    return None


def _raise_retries_exhausted(job: CommitRequest, retries: int) -> None:
    options, took = job.ctx.options, job.ctx.world.elapsed_ms() - job.started_ms
    late = options.commit_timeout_ms is not None and took >= options.commit_timeout_ms
    if late or retries > options.commit_max_retries:
        raise RetriesExhausted(
            f"Commit of {job.ctx.name} failed after {took:.0f} millis with {retries - 1} retries, there maybe exist commit conflicts between multiple jobs. "
            "Nothing was committed. Commit the same messages again, or raise commit.max-retries"
        )


def _yield_turn(job: CommitRequest, turn: ExitStack) -> bool:
    """Queues behind those who lost a race already, if there are any: or who needs longer than others, as a compactor does, would lose to them for ever."""
    storage, directory = job.ctx.storage, job.ctx.layout.snapshot_dir
    with turns.commit_queue(storage, directory, 0) as is_free:
        if is_free or not isinstance(storage, turns.SupportsCommitQueue):
            return False
    return turn.enter_context(turns.commit_queue(storage, directory, min(_PATIENCE_MS, job.ctx.options.commit_max_retry_wait_ms)))


def _wait_for_retry(job: CommitRequest, lost: int, turn: ExitStack) -> bool:
    """Waits until it is worth trying again. True: for a turn, which is had until all is done.

    False: where none came, as long as `contention` says.
    """
    ctx, options = job.ctx, job.ctx.options
    if turn.enter_context(turns.commit_queue(ctx.storage, ctx.layout.snapshot_dir, min(_PATIENCE_MS, options.commit_max_retry_wait_ms))):
        return True
    contention.wait_after_race(ctx, lost)
    return False


def _write_hints(ctx: TableContext, snapshot: Snapshot) -> None:
    """The hints, which may fail: they are advice, and do not go back (D7)."""
    layout = ctx.layout
    with suppress(LakekitError):
        there = _read_latest_hint(ctx)
        if there is None or there < snapshot.id or not ctx.storage.exists(layout.snapshot(there)):
            ctx.storage.put(layout.latest_hint, hint.encode(snapshot.id))
        if snapshot.id == 1:
            ctx.storage.put(layout.earliest_hint, hint.encode(1))
        if not snapshots.remember_newest(ctx, snapshot):  # it expired between those calls: the hint may name it
            newest = snapshots.latest_id(ctx)
            if newest is not None:
                ctx.storage.put(layout.latest_hint, hint.encode(newest))


def _read_latest_hint(ctx: TableContext) -> int | None:
    try:
        return hint.decode(ctx.storage.read(ctx.layout.latest_hint, 0, 32))
    except LakekitError:
        return None


def _referenced_files(ctx: TableContext, snapshot: Snapshot) -> set[str]:
    """The metadata files that a snapshot refers to."""
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list, snapshot.index_manifest)
    files = meta.manifest_files(ctx, snapshot) + meta.manifest_files(ctx, snapshot, "changelog")
    return {name for name in lists if name is not None} | {file.name for file in files}
