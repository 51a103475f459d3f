"""Files of messages: those that nobody will commit are deleted, except what a snapshot may name; those to be committed late must be there, and be new.

A file that some snapshot, tag or long-lived changelog names was committed, whatever its writer believes, and stays (RELIABILITY D3). So does everything
of a commit whose outcome nobody knows. Source: ENGINE.md 5.7, `FileStoreCommitImpl.abort`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from lakekit.commit import commit_history
from lakekit.data_file import paths
from lakekit.errors import Conflict, StorageFailed
from lakekit.metadata import branches, manifest_reader, snapshots, tags
from lakekit.model.manifest_entries import ADD
from lakekit.model.table_paths import MAIN
from lakekit.storage.protocol import FileMissing
from lakekit.world import instant_ms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakekit.metadata.manifest_reader import Which
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.commit_message import CommitMessage
    from lakekit.model.manifests import ManifestFileMeta
    from lakekit.model.snapshot import Snapshot


_ATTEMPTS = 3


def mark_outcome_unknown(ctx: TableContext, messages: Sequence[CommitMessage]) -> None:
    """Keeps the files of some messages from being deleted by this process."""
    ctx.world.doubtful.update(name for message in messages for name in _names(message))


def abort(ctx: TableContext, messages: Sequence[CommitMessage]) -> None:
    """Deletes the files of messages that were never handed to a commit: new files, changelogs, what compactions made, new index files.

    Files that a snapshot, tag or changelog of any branch names, and those of a commit that ended in `CommitStateUnknown`, are left alone.
    """
    if not any(True for message in messages for _ in _names(message)):
        return
    kept = ctx.world.doubtful | _read_referenced_names(ctx)
    gone = [path for message in messages for name, path in _files(ctx, message) if name not in kept]
    ctx.storage.delete(dict.fromkeys(gone))


def check_files_exist(ctx: TableContext, messages: Sequence[CommitMessage]) -> None:
    """Raises `StorageFailed` where a file of some messages is gone: they were prepared long ago, and cleaning may have taken them for orphans."""
    gone = [path for message in messages for _, path in _files(ctx, message) if not ctx.storage.exists(path)]
    if gone:
        more = f", and {len(gone) - 1} more files" if len(gone) > 1 else ""
        raise StorageFailed(
            f"{gone[0]} is gone{more}: what was prepared for {ctx.name} cannot be committed any more. Nothing was committed. Write the rows again",
            path=gone[0],
        )


def check_not_committed(ctx: TableContext, messages: Sequence[CommitMessage], latest: Snapshot | None) -> None:
    """Raises `Conflict` where a snapshot made since some files were written has added one of them: a table that has a file twice cannot be read any more.

    As far as the clocks of those who write and those who commit agree: looking further back would cost every commit what it almost never finds.
    """
    wanted = {file.name: file.creation_time_ms for message in messages for file in message.new_files if file.creation_time_ms is not None}
    oldest_ms = min(map(instant_ms, wanted.values()), default=None)
    if latest is None or oldest_ms is None:
        return
    for snapshot in commit_history.iter_backwards(ctx, latest, 0):
        if snapshot.time_millis < oldest_ms:
            return
        if snapshot.commit_kind not in {"APPEND", "OVERWRITE"}:
            continue
        entries = manifest_reader.read_entries(ctx, manifest_reader.manifest_files(ctx, snapshot, "delta"))
        added = set(entries.filter(entries.numbers("kind") == ADD).column("file_name").to_pylist())
        if twice := sorted(added & wanted.keys()):
            raise Conflict(
                f"{twice[0]} is in {ctx.name} already: snapshot {snapshot.id}, commit {snapshot.commit_identifier} of {snapshot.commit_user}, added it. "
                "Nothing was committed. Messages are committed once; to be sure that they are, commit them again by the same commit user and identifier",
                snapshot_id=snapshot.id,
                files=tuple(twice),
            )


def check_compacted(ctx: TableContext, messages: Sequence[CommitMessage]) -> None:
    """`check_files_exist` for what compactions made."""
    check_files_exist(ctx, _strip_new_files(messages))


def abort_compacted(ctx: TableContext, messages: Sequence[CommitMessage]) -> None:
    """`abort` for what compactions made, where the rows of the messages were committed: those nobody has to look for."""
    abort(ctx, _strip_new_files(messages))


def _strip_new_files(messages: Sequence[CommitMessage]) -> list[CommitMessage]:
    return [replace(message, new_files=(), changelog_files=(), new_index_files=()) for message in messages]


def _names(message: CommitMessage) -> Iterator[str]:
    for files in (message.new_files, message.changelog_files, message.compact_after, message.compact_changelog):
        yield from (name for file in files for name in (file.name, *file.extra_files))
    for indexes in (message.new_index_files, message.compact_new_index_files):
        yield from (index.file_name for index in indexes)


def _files(ctx: TableContext, message: CommitMessage) -> Iterator[tuple[str, str]]:
    """Names and paths. A compaction that only moved a file to another level made no file; the file may be one of the new ones."""
    old = {file.name for file in message.compact_before}
    made = tuple(file for file in message.compact_after if file.name not in old)
    for file in (*message.new_files, *message.changelog_files, *made, *message.compact_changelog):
        path = paths.data_file_path(ctx, message.partition, message.bucket, file)
        yield file.name, path
        yield from ((extra, ctx.layout.extra_file(path, extra)) for extra in file.extra_files)
    directory = paths.partition_path(ctx, message.partition)
    for index in (*message.new_index_files, *message.compact_new_index_files):
        path = ctx.layout.index(index.file_name, partition_path=directory, bucket=message.bucket, external_path=index.external_path)
        yield index.file_name, path


def _read_referenced_names(ctx: TableContext) -> set[str]:
    """The names of all files that anything visible refers to. Raises `FileMissing` where what is read expires meanwhile, again and again."""
    for _ in range(_ATTEMPTS - 1):
        with suppress(FileMissing):
            return _collect_referenced_names(ctx)
    return _collect_referenced_names(ctx)


def _collect_referenced_names(ctx: TableContext) -> set[str]:
    found: set[str] = set()
    listed: dict[str, ManifestFileMeta] = {}
    for snapshot, lists in _roots(ctx):
        listed |= {file.name: file for which in lists for file in manifest_reader.manifest_files(ctx, snapshot, which)}
        found |= {entry.file_name for entry in manifest_reader.index_entries(ctx, snapshot)} if len(lists) > 1 else set()
    if listed:
        entries = manifest_reader.read_entries(ctx, list(listed.values()), columns=("file_name", "extra_files"))
        found.update(entries.column("file_name").to_pylist(), entries.column("extra_files").flatten().to_pylist())  # scalar: one a file
    return found


def _roots(ctx: TableContext) -> Iterator[tuple[Snapshot, tuple[Which, ...]]]:
    """What every branch holds by snapshots, the newest first, tags and long-lived changelogs, and which of its lists have to be looked at.

    What one of a row of snapshots names came or goes by the delta of one of them, or is in the newest; a tag stands alone. Of an expired snapshot only the
    list that tells the changes is left.
    """
    for branch in (MAIN, *branches.names(ctx)):
        own = ctx if branch == ctx.branch else ctx.on_branch(branch)
        # the newest is asked for by itself: of those that are listed every one may have expired before it is read
        newest = snapshots.latest(own)
        if newest is not None:
            yield newest, ("all", "changelog")
        for snapshot in snapshots.all(own):
            if newest is None or snapshot.id != newest.id:
                yield snapshot, ("delta", "changelog")
        for tag in tags.all(own):
            yield tag.snapshot, ("all", "changelog")
        for number in snapshots.changelog_ids(own):
            changelog = snapshots.find_changelog(own, number)
            if changelog is not None:
                yield changelog, ("delta" if changelog.changelog_manifest_list is None else "changelog",)
