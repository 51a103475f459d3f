"""Search for the commits of a user, and deletion of the files of messages that will not be committed.

The identifiers of one user never decrease, so in most cases the user's newest snapshot decides whether a commit exists
already. The result of the scan is cached: the user's next commit reads only the snapshots made since. A file that a
snapshot, tag or long-lived changelog refers to was committed and stays, even if its writer saw the commit fail
(RELIABILITY D3). The files of a commit whose outcome is unknown stay too.

Source: ENGINE.md 5.7, `FileStoreCommitImpl.abort`, `FileStoreCommitImpl.filterCommitted`,
`SnapshotManager.latestSnapshotOfUser`.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from lakekit.data_file import paths
from lakekit.errors import Conflict, StorageFailed
from lakekit.metadata import manifest_reader, refs, snapshots
from lakekit.model.manifest_entries import ADD
from lakekit.model.table_paths import MAIN
from lakekit.runtime import instant_ms
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakekit.metadata.manifest_reader import Which
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.commit_message import CommitMessage
    from lakekit.model.manifests import ManifestFileMeta
    from lakekit.model.snapshot import Snapshot


_KNOWN_BYTES = 2_000


class _CachedHistory(NamedTuple):
    """The newest snapshot of a user (`latest_of_user`; None: there is none) among all snapshots up to `end`."""

    latest_of_user: Snapshot | None
    end: Snapshot


def latest_of_user(ctx: TableContext, user: str, latest: Snapshot) -> Snapshot | None:
    """Return the newest snapshot of a user up to `latest`; None if there is none."""
    key = ("commits", ctx.storage, ctx.paths.snapshot_dir, user)
    cached: _CachedHistory | None = ctx.runtime.metadata_cache.get(key)
    if cached is not None and not _is_still_valid(ctx, cached.end, latest):
        cached = None
    newest = None if cached is None else cached.latest_of_user
    for snapshot in iter_backwards(ctx, latest, 0 if cached is None else cached.end.id):
        if snapshot.commit_user == user:
            newest = snapshot
            break
    cache_latest(ctx, user, newest, latest)
    return newest


def cache_latest(ctx: TableContext, user: str, own: Snapshot | None, latest: Snapshot) -> None:
    """Cache the newest snapshot of a user up to `latest`."""
    key = ("commits", ctx.storage, ctx.paths.snapshot_dir, user)
    ctx.runtime.metadata_cache.put({key: _CachedHistory(own, latest)}, _KNOWN_BYTES)


def _is_still_valid(ctx: TableContext, end: Snapshot, latest: Snapshot) -> bool:
    """Return whether the history up to `end` is unchanged, that is, no rollback happened."""
    return end == latest if end.id >= latest.id else snapshots.find(ctx, end.id) in (end, None)


def iter_backwards(ctx: TableContext, latest: Snapshot, stop: int) -> Iterator[Snapshot]:
    """Yield the snapshots from `latest` down to id `stop` + 1; end at the first missing snapshot."""
    yield latest
    for snapshot_id in range(latest.id - 1, max(stop, 0), -1):
        snapshot = snapshots.find(ctx, snapshot_id)
        if snapshot is None:
            return
        yield snapshot


def iter_since(ctx: TableContext, after: int, latest: Snapshot) -> Iterator[tuple[int, Snapshot | None]]:
    """Yield (id, snapshot) for the snapshots with ids above `after` up to `latest`, in ascending order.

    A run of missing snapshots is yielded as one pair: its first id, and None. A stray file may leave a gap of any
    width.
    """
    snapshot_id = after + 1
    existing: list[int] | None = None
    prefetched: dict[int, Snapshot | None] = {}
    while snapshot_id <= latest.id:
        if snapshot_id == latest.id:
            prefetched = {snapshot_id: latest}
        elif snapshot_id not in prefetched:
            batch_ids = range(
                snapshot_id, min(snapshot_id + (snapshots.MAX_CONCURRENT if ctx.storage.is_remote else 1), latest.id)
            )
            prefetched = dict(zip(batch_ids, snapshots.find_all(ctx, batch_ids), strict=True))
        snapshot = prefetched[snapshot_id]
        yield snapshot_id, snapshot
        snapshot_id += 1
        if snapshot is None:
            existing = snapshots.ids(ctx) if existing is None else existing
            position = bisect_left(existing, snapshot_id)
            snapshot_id = existing[position] if position < len(existing) else latest.id


def find_commit_snapshots(
    ctx: TableContext, user: str, identifier: int, latest: Snapshot | None
) -> list[Snapshot] | None:
    """Return the snapshots of a commit that exists already, oldest first; None if it does not exist.

    The result is the oldest snapshot with the user and identifier, and the next one if it is the COMPACT snapshot of
    the same commit. A later OVERWRITE with the same user and identifier is not part of the commit: it drops partitions
    that expired after the commit. If the commit's first snapshot has expired, the oldest existing snapshot with the
    identifier takes its place. An empty list means: the user has committed greater identifiers, and the snapshots that
    would show whether the commit exists have expired.

    Raises:
        Conflict: the user has committed greater identifiers, no snapshot of the commit was found, and no snapshot of
            the search has expired: the commit was never made.
    """
    own = None if latest is None else latest_of_user(ctx, user, latest)
    if own is None or own.commit_identifier < identifier:
        return None
    matching: list[Snapshot] = []
    reached_id = own.id
    for snapshot in iter_backwards(ctx, own, 0):
        reached_id = snapshot.id
        if snapshot.commit_user != user:
            continue
        if snapshot.commit_identifier < identifier:
            reached_id = 1
            break
        if snapshot.commit_identifier == identifier:
            matching.append(snapshot)
            if snapshot.commit_kind not in {"COMPACT", "OVERWRITE"}:
                break
    if not matching and reached_id == 1:
        raise Conflict(
            f"{user} has committed identifier {own.commit_identifier} in snapshot {own.id} of {ctx.name}, and never "
            f"{identifier}: identifiers of one commit user must not fall. Nothing was committed. Give greater "
            "identifiers, or another commit user",
            snapshot_id=own.id,
        )
    matching.reverse()
    return matching[: 2 if [later.commit_kind for later in matching[1:2]] == ["COMPACT"] else 1]


# ---- abort ------------------------------------------------------------


_ATTEMPTS = 3


def mark_outcome_unknown(ctx: TableContext, messages: Sequence[CommitMessage]) -> None:
    """Keep this process from deleting the files of the messages, because they may have been committed."""
    ctx.runtime.uncertain_files.update(name for message in messages for name in _names(message))


def abort(ctx: TableContext, messages: Sequence[CommitMessage]) -> None:
    """Delete the files of messages that were never committed.

    Deleted are new files, changelog files, compaction outputs and new index files. A file stays if a snapshot, tag or
    changelog of any branch refers to it, or if its commit ended in `CommitStateUnknown`.
    """
    if not any(True for message in messages for _ in _names(message)):
        return
    referenced = ctx.runtime.uncertain_files | _read_referenced_names(ctx)
    paths_to_delete = [path for message in messages for name, path in _files(ctx, message) if name not in referenced]
    ctx.storage.delete(dict.fromkeys(paths_to_delete))


def check_files_exist(ctx: TableContext, messages: Sequence[CommitMessage]) -> None:
    """Raise `StorageFailed` if a file of the messages is missing.

    The files of messages that were prepared long ago may have been removed as orphan files.
    """
    missing = [path for message in messages for _, path in _files(ctx, message) if not ctx.storage.exists(path)]
    if missing:
        more = f", and {len(missing) - 1} more files" if len(missing) > 1 else ""
        raise StorageFailed(
            f"{missing[0]} is gone{more}: what was prepared for {ctx.name} cannot be committed any more. Nothing was "
            "committed. Write the rows again",
            path=missing[0],
        )


def check_not_committed(ctx: TableContext, messages: Sequence[CommitMessage], latest: Snapshot | None) -> None:
    """Raise `Conflict` if a snapshot that is newer than the files has added one of them.

    A table that lists a file twice cannot be read any more. The search ends at the first snapshot that is older than
    the files, by the clocks of writers and committers: a longer search would slow down every commit.
    """
    creation_times = {
        file.name: file.creation_time_ms
        for message in messages
        for file in message.new_files
        if file.creation_time_ms is not None
    }
    oldest_ms = min(map(instant_ms, creation_times.values()), default=None)
    if latest is None or oldest_ms is None:
        return
    for snapshot in iter_backwards(ctx, latest, 0):
        if snapshot.time_millis < oldest_ms:
            return
        if snapshot.commit_kind not in {"APPEND", "OVERWRITE"}:
            continue
        entries = manifest_reader.read_entries(ctx, manifest_reader.manifest_files(ctx, snapshot, "delta"))
        added = set(entries.filter(entries.numbers("kind") == ADD).column("file_name").to_pylist())
        if repeated := sorted(added & creation_times.keys()):
            raise Conflict(
                f"{repeated[0]} is in {ctx.name} already: snapshot {snapshot.id}, commit {snapshot.commit_identifier} "
                f"of {snapshot.commit_user}, added it. Nothing was committed. Messages are committed once; to be sure "
                "that they are, commit them again by the same commit user and identifier",
                snapshot_id=snapshot.id,
                files=tuple(repeated),
            )


def check_compaction_outputs(ctx: TableContext, messages: Sequence[CommitMessage]) -> None:
    """Raise `StorageFailed` if a compaction output of the messages is missing."""
    check_files_exist(ctx, _strip_new_files(messages))


def abort_compaction_outputs(ctx: TableContext, messages: Sequence[CommitMessage]) -> None:
    """Delete the compaction outputs of messages whose new files were committed."""
    abort(ctx, _strip_new_files(messages))


def _strip_new_files(messages: Sequence[CommitMessage]) -> list[CommitMessage]:
    return [replace(message, new_files=(), changelog_files=(), new_index_files=()) for message in messages]


def _names(message: CommitMessage) -> Iterator[str]:
    for files in (message.new_files, message.changelog_files, message.compact_after, message.compact_changelog):
        yield from (name for file in files for name in (file.name, *file.extra_files))
    for indexes in (message.new_index_files, message.compact_new_index_files):
        yield from (index.file_name for index in indexes)


def _files(ctx: TableContext, message: CommitMessage) -> Iterator[tuple[str, str]]:
    """Yield the names and paths of the files that a message created; files that it only moved are left out."""
    input_names = {file.name for file in message.compact_before}
    outputs = tuple(file for file in message.compact_after if file.name not in input_names)
    for file in (*message.new_files, *message.changelog_files, *outputs, *message.compact_changelog):
        path = paths.data_file_path(ctx, message.partition, message.bucket, file)
        yield file.name, path
        yield from ((extra, ctx.paths.extra_file(path, extra)) for extra in file.extra_files)
    directory = paths.partition_path(ctx, message.partition)
    for index in (*message.new_index_files, *message.compact_new_index_files):
        path = ctx.paths.index(
            index.file_name, partition_path=directory, bucket=message.bucket, external_path=index.external_path
        )
        yield index.file_name, path


def _read_referenced_names(ctx: TableContext) -> set[str]:
    """Return the names of all referenced data and index files.

    Retry if snapshots expire while they are read. Raises `FileMissing` after the last attempt.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(FileMissing):
            return _collect_referenced_names(ctx)
    return _collect_referenced_names(ctx)


def _collect_referenced_names(ctx: TableContext) -> set[str]:
    names: set[str] = set()
    manifests: dict[str, ManifestFileMeta] = {}
    for snapshot, lists in _roots(ctx):
        manifests |= {
            file.name: file for which in lists for file in manifest_reader.manifest_files(ctx, snapshot, which)
        }
        names |= (
            {entry.file_name for entry in manifest_reader.index_entries(ctx, snapshot)} if len(lists) > 1 else set()
        )
    if manifests:
        entries = manifest_reader.read_entries(ctx, list(manifests.values()), columns=("file_name", "extra_files"))
        names.update(
            entries.column("file_name").to_pylist(), entries.column("extra_files").flatten().to_pylist()
        )  # scalar: one a file
    return names


def _roots(ctx: TableContext) -> Iterator[tuple[Snapshot, tuple[Which, ...]]]:
    """Yield the snapshots, tags and long-lived changelogs of every branch, each with the manifest lists to read.

    The newest snapshot of a branch comes first, with all its lists. An older snapshot needs its delta list alone: a
    file of it is still in the newest snapshot, or the delta list of a later snapshot deletes it. A tag needs all its
    lists, since its snapshot may have expired. A long-lived changelog has one list left, the changelog list or the
    delta list.
    """
    for branch in (MAIN, *refs.list_branch_names(ctx)):
        branch_ctx = ctx if branch == ctx.branch else ctx.on_branch(branch)
        # the newest first, by itself: every listed one may have expired before it is read
        newest = snapshots.latest(branch_ctx)
        if newest is not None:
            yield newest, ("all", "changelog")
        for snapshot in snapshots.all(branch_ctx):
            if newest is None or snapshot.id != newest.id:
                yield snapshot, ("delta", "changelog")
        for tag in refs.list_tags(branch_ctx):
            yield tag.snapshot, ("all", "changelog")
        for snapshot_id in snapshots.changelog_ids(branch_ctx):
            changelog = snapshots.find_changelog(branch_ctx, snapshot_id)
            if changelog is not None:
                yield changelog, ("delta" if changelog.changelog_manifest_list is None else "changelog",)
