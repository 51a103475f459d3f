"""A change of rows in progress, committed as a whole or not at all.

    with RowChange.of(ctx) as change:
        change.write(frame)                       rows, by a table writer
        delete_files(change, stored, touched)     files, with their deletion vectors
        return change.commit()

    copy on write   DELETE data-1  ADD data-7 (what stays of data-1)          nothing added where nothing stays
    vectors         data-1 stays   index-3 { data-1: 2 } → index-8 { data-1: 2 5 7 }

Leaving the block without a commit deletes every file that was made. Rows are removed by rewriting their files without
them, or by deletion vectors. An index file belongs to a bucket, and holds all vectors of it; in an append table without
buckets it belongs to a partition, where only index files that hold a changed vector are rewritten, rolled at
`deletion-vector.index-file.target-size`.

Source: ENGINE.md 2.8, 7.4, 8.3, FORMAT.md 8.3; `PaimonSparkWriter`, `PaimonRowLevelCommand`,
`BaseAppendDeleteFileMaintainer`, `DeletionVectorIndexFileWriter`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from lakekit.bucket.deletion_vector_writer import BucketDeletionVectors
from lakekit.columns import KIND, SEQUENCE
from lakekit.commit import abort
from lakekit.commit.committer import commit_changes_once
from lakekit.data_file.paths import make_file_names
from lakekit.data_file.rolling_writer import WriteTarget, write_run
from lakekit.errors import LakekitError
from lakekit.metadata import manifest_reader
from lakekit.model.commit_message import CommitMessage
from lakekit.model.data_file import APPEND_SOURCE
from lakekit.model.index_manifest import DELETION_VECTORS
from lakekit.write.table_writers import BucketWriters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    import polars as pl
    from pyroaring import BitMap

    from lakekit.bucket.deletion_vector_writer import Positions
    from lakekit.commit.changes import Commit
    from lakekit.commit.overwrite import Overwrite
    from lakekit.dml.matching_rows import FileRows, TargetRows
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.index_manifest import IndexManifestEntry
    from lakekit.write.bucket_assigners import WriteShard


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChangeResult:
    """The commit of a change, and the committed messages, whose partitions may be complete now."""

    commit: Commit
    messages: tuple[CommitMessage, ...] = ()


@dataclass(slots=True, kw_only=True, eq=False)
class RowChange:
    """A change of one table, by a new commit user.

    `messages`: what was done besides writing rows. `affected_row_count`: the rows removed, changed and inserted so far.
    """

    ctx: TableContext
    user: str
    messages: list[CommitMessage] = field(default_factory=list)
    affected_row_count: int = 0
    _writers: BucketWriters

    @staticmethod
    def of(ctx: TableContext, *, only_adds: bool = False, shard: WriteShard | None = None) -> RowChange:
        """Return a new change of a table.

        `only_adds`: its writers do not compact, since files to remove must stay as they were found. `shard`: the rows
        to write here, of a change divided into tasks.
        """
        user = ctx.new_commit_user()
        writing = ctx.with_options({"write-only": "true"}) if only_adds else ctx
        return RowChange(ctx=ctx, user=user, _writers=BucketWriters(writing, commit_user=user, shard=shard))

    def write(self, frame: pl.DataFrame) -> None:
        """Write rows as `row_conversion.batches` gives them."""
        self._writers.write(frame)

    def prepare(self) -> list[CommitMessage]:
        """Return the changes as messages for a commit. From here on the caller owns the files."""
        self.messages += self._writers.prepare()
        done, self.messages = self.messages, []
        return done

    def commit(self) -> RowChangeResult:
        """Commit the change.

        Raises what a commit raises; nothing has changed then, but after `CommitStateUnknown` the outcome is unknown.
        """
        messages = self.prepare()
        commit = commit_changes_once(self.ctx, messages, commit_user=self.user)
        return RowChangeResult(
            commit=replace(commit, affected_row_count=self.affected_row_count), messages=tuple(messages)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writers.abort()
        abort.abort(self.ctx, self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChangeSpec:
    """What a statement does to the rows that satisfy its condition, in some buckets as in all.

    `fill` writes the change of the found rows. `only_adds` is that of `RowChange.of`. `by_bucket`: what happens in one
    bucket, (partition, bucket), does not depend on the others. `replaces`: nothing is read, these partitions are
    dropped.
    """

    ctx: TableContext
    target: TargetRows
    where: pl.Expr
    only_adds: bool
    fill: Callable[[RowChange, TargetRows], None]
    by_bucket: bool
    replaces: Overwrite | None = None

    def commit(self) -> RowChangeResult:
        """Commit all of it at once; nothing where there are no such rows."""
        if self.replaces is not None:
            row_count = None
            with suppress(LakekitError):  # what cannot be counted can be deleted
                row_count = self.target.row_count_from_metadata(self.replaces.serialized_partitions)
            commit = delete_partitions(self.ctx, self.replaces)
            is_known = not commit.retry_count  # else other rows may have come between
            return RowChangeResult(commit=replace(commit, affected_row_count=row_count if is_known else None))
        with RowChange.of(self.ctx, only_adds=self.only_adds) as change:
            self.fill(change, self.target)
            return change.commit()


def delete_partitions(ctx: TableContext, overwrite: Overwrite) -> Commit:
    """Commit the removal of partitions, or of everything: only metadata is read."""
    return commit_changes_once(ctx, (), commit_user=ctx.new_commit_user(), overwrite=overwrite)


# ---- removal of rows ------------------------------------------------------


def delete_rows(change: RowChange, file_rows: FileRows, marked: BitMap) -> None:
    """Remove the marked rows from their files, in the way of the table."""
    if not marked:
        return
    if change.ctx.options.deletion_vectors_enabled:
        write_deletion_vectors(change, file_rows, marked)
    elif change.ctx.kind == "append":
        rewrite_append_files(change, file_rows, marked)
    else:
        rewrite_key_files(change, file_rows, marked)


# ---- copy on write -------------------------------------------------------------------------------


def rewrite_append_files(change: RowChange, file_rows: FileRows, marked: BitMap) -> None:
    """Append tables: what stays of the touched files is written by the table's writer, in order."""
    touched = file_rows.files_with_marks(marked)
    for at in touched:
        if not _is_fully_marked(file_rows, at, marked):
            for batch in file_rows.batches(file_rows.unmarked_rows(at, marked)):
                change.write(batch)
    delete_files(change, file_rows, touched)


def rewrite_key_files(change: RowChange, file_rows: FileRows, marked: BitMap) -> None:
    """Rewrite files of a key table without the marked rows, in their level, with their sequence numbers."""
    ctx = file_rows.plan.ctx
    touched = file_rows.files_with_marks(marked)
    names = {bucket_key[:2]: make_file_names(ctx) for bucket_key in {file_rows.file_buckets[at] for at in touched}}
    for at in touched:
        (partition, bucket, total), file = file_rows.file_buckets[at], file_rows.files[at]
        source = APPEND_SOURCE if file.source is None else file.source
        target = WriteTarget(
            ctx=ctx,
            partition=partition,
            bucket=bucket,
            level=file.level,
            source=source,
            file_names=names[partition, bucket],
            is_keyed=True,
        )
        new = (
            ()
            if _is_fully_marked(file_rows, at, marked)
            else write_run(target, file_rows.batches(file_rows.unmarked_rows(at, marked, (SEQUENCE, KIND))))
        )
        change.messages.append(
            CommitMessage(partition=partition, bucket=bucket, total_buckets=total, new_files=tuple(new))
        )
    delete_files(change, file_rows, touched)


def delete_files(change: RowChange, file_rows: FileRows, touched_indices: Sequence[int]) -> None:
    """Delete files, and with them their deletion vectors."""
    for bucket_key, indices in _files_by_bucket(file_rows, touched_indices):
        partition, bucket, total = bucket_key
        files = tuple(file_rows.files[at] for at in indices)
        change.messages.append(
            CommitMessage(partition=partition, bucket=bucket, total_buckets=total, deleted_files=files)
        )
    _write_vectors(change, file_rows, touched_indices, {}, {file_rows.files[at].name for at in touched_indices})


def _is_fully_marked(file_rows: FileRows, index: int, marked: BitMap) -> bool:
    """Return whether nothing of a file stays."""
    return len(file_rows.positions(index, marked, also_deleted=True)) == file_rows.files[index].row_count


# ---- deletion vectors ----------------------------------------------------------------------------


def write_deletion_vectors(change: RowChange, file_rows: FileRows, marked: BitMap) -> None:
    """Write new deletion vectors, merged with the existing ones, to new index files."""
    touched = file_rows.files_with_marks(marked)
    _write_vectors(
        change, file_rows, touched, {file_rows.files[at].name: file_rows.positions(at, marked) for at in touched}, set()
    )


def _write_vectors(
    change: RowChange,
    file_rows: FileRows,
    touched_indices: Sequence[int],
    marked: Mapping[str, Positions],
    removed_names: set[str],
) -> None:
    """Write index files with more rows marked, and without the vectors of removed files."""
    ctx, live = file_rows.plan.ctx, _vector_entries(file_rows)
    for (partition, bucket, total), indices in _files_by_bucket(file_rows, touched_indices):
        own = {file_rows.files[at].name for at in indices}
        entries = [entry for entry in live if (entry.partition, entry.bucket) == (partition, bucket)]
        if not ctx.has_buckets:
            entries = [entry for entry in entries if any(part.file_name in own for part in entry.ranges)]
        vectors = BucketDeletionVectors.restore(ctx, partition, bucket, entries)
        vectors.add_positions({name: marked[name].astype(np.int64) for name in own & marked.keys()})
        vectors.remove_files(removed_names & own)
        if vectors.is_changed:
            new, old = vectors.write_if_changed() if ctx.has_buckets else vectors.write_rolling()
            change.messages.append(
                CommitMessage(
                    partition=partition,
                    bucket=bucket,
                    total_buckets=total,
                    new_index_files=new,
                    deleted_index_files=old,
                )
            )


def _vector_entries(file_rows: FileRows) -> list[IndexManifestEntry]:
    snapshot = file_rows.plan.snapshot
    entries = [] if snapshot is None else manifest_reader.index_entries(file_rows.plan.ctx, snapshot)
    return [entry for entry in entries if entry.index_type == DELETION_VECTORS]


def _files_by_bucket(
    file_rows: FileRows, touched_indices: Sequence[int]
) -> Iterator[tuple[tuple[bytes, int, int], list[int]]]:
    """Yield the indices of files by partition, bucket and number of buckets."""
    groups: dict[tuple[bytes, int, int], list[int]] = {}
    for at in touched_indices:
        groups.setdefault(file_rows.file_buckets[at], []).append(at)
    yield from groups.items()
