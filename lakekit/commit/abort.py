"""Deletion of the files of messages that will not be committed, and checks of the files of messages before a commit.

A file that a snapshot, tag or long-lived changelog refers to was committed and stays, even if its writer saw the commit
fail (RELIABILITY D3). The files of a commit whose outcome is unknown stay too.

Source: ENGINE.md 5.7, `FileStoreCommitImpl.abort`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from lakekit.commit.commit_history import iter_backwards
from lakekit.data_file import paths
from lakekit.errors import Conflict, StorageFailed
from lakekit.metadata import manifest_reader, refs, snapshots
from lakekit.model.manifest_entries import ADD
from lakekit.model.table_paths import MAIN_BRANCH
from lakekit.runtime import instant_ms
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakekit.metadata.manifest_reader import ManifestListKind
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.commit_message import CommitMessage
    from lakekit.model.manifests import ManifestFileMeta
    from lakekit.model.snapshot import Snapshot


_MAX_ATTEMPTS = 3


def mark_outcome_unknown(ctx: TableContext, messages: Sequence[CommitMessage]) -> None:
    """Keep this process from deleting the files of the messages, because they may have been committed."""
    ctx.runtime.uncertain_files.update(name for message in messages for name in _created_file_names(message))


def abort(ctx: TableContext, messages: Sequence[CommitMessage]) -> None:
    """Delete the files of messages that were never committed.

    Deleted are new files, changelog files, compaction outputs and new index files. A file stays if a snapshot, tag or
    changelog of any branch refers to it, or if its commit ended in `CommitStateUnknown`.
    """
    if not any(True for message in messages for _ in _created_file_names(message)):
        return
    referenced = ctx.runtime.uncertain_files | _read_referenced_names(ctx)
    paths_to_delete = [
        path for message in messages for name, path in _created_files(ctx, message) if name not in referenced
    ]
    ctx.storage.delete(dict.fromkeys(paths_to_delete))


def check_files_exist(ctx: TableContext, messages: Sequence[CommitMessage]) -> None:
    """Raise `StorageFailed` if a file of the messages is missing.

    The files of messages that were prepared long ago may have been removed as orphan files.
    """
    missing = [path for message in messages for _, path in _created_files(ctx, message) if not ctx.storage.exists(path)]
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
        added = set(entries.filter(entries.integers("kind") == ADD).column("file_name").to_pylist())
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


def _created_file_names(message: CommitMessage) -> Iterator[str]:
    for files in (message.new_files, message.changelog_files, message.compact_after, message.compact_changelog):
        yield from (name for file in files for name in (file.name, *file.extra_files))
    for indexes in (message.new_index_files, message.compact_new_index_files):
        yield from (index.file_name for index in indexes)


def _created_files(ctx: TableContext, message: CommitMessage) -> Iterator[tuple[str, str]]:
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
    for _ in range(_MAX_ATTEMPTS - 1):
        with suppress(FileMissing):
            return _collect_referenced_names(ctx)
    return _collect_referenced_names(ctx)


def _collect_referenced_names(ctx: TableContext) -> set[str]:
    names: set[str] = set()
    manifests: dict[str, ManifestFileMeta] = {}
    for snapshot, lists in _iter_roots(ctx):
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


def _iter_roots(ctx: TableContext) -> Iterator[tuple[Snapshot, tuple[ManifestListKind, ...]]]:
    """Yield the snapshots, tags and long-lived changelogs of every branch, each with the manifest lists to read.

    The newest snapshot of a branch comes first, with all its lists. An older snapshot needs its delta list alone: a
    file of it is still in the newest snapshot, or the delta list of a later snapshot deletes it. A tag needs all its
    lists, since its snapshot may have expired. A long-lived changelog has one list left, the changelog list or the
    delta list.
    """
    for branch in (MAIN_BRANCH, *refs.list_branch_names(ctx)):
        branch_ctx = ctx if branch == ctx.branch else ctx.on_branch(branch)
        # the newest first, by itself: every listed one may have expired before it is read
        newest = snapshots.latest(branch_ctx)
        if newest is not None:
            yield newest, ("all", "changelog")
        for snapshot in snapshots.read_all(branch_ctx):
            if newest is None or snapshot.id != newest.id:
                yield snapshot, ("delta", "changelog")
        for tag in refs.list_tags(branch_ctx):
            yield tag.snapshot, ("all", "changelog")
        for snapshot_id in snapshots.changelog_ids(branch_ctx):
            changelog = snapshots.find_changelog(branch_ctx, snapshot_id)
            if changelog is not None:
                yield changelog, ("delta" if changelog.changelog_manifest_list is None else "changelog",)
