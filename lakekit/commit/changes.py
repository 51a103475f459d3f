"""The changes of one snapshot, collected from messages, and `Commit`, the result of every write.

    messages ─▶ appended: ADD new files, DELETE deleted files, changelog, index   ─▶ APPEND; OVERWRITE if rows go
             └▶ compacted: DELETE compacted files, ADD their outputs, changelog   ─▶ COMPACT

Source: ENGINE.md 5.1, `ManifestEntryChanges`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from lakekit.draw import cards
from lakekit.draw.humanize import format_count, format_size, plural
from lakekit.model import manifest_entries as columns_of
from lakekit.model.index_manifest import DELETION_VECTORS, IndexFileMeta, IndexManifestEntry
from lakekit.model.manifest_entries import ADD, DELETE
from lakekit.model.table_paths import POSTPONE_BUCKET

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.commit_message import CommitMessage
    from lakekit.model.data_file import DataFileMeta
    from lakekit.model.manifest_entries import ManifestEntries, Row

    Kind = Literal["APPEND", "COMPACT", "OVERWRITE", "ANALYZE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownHashIndexes:
    """The hash index files of a partition that a writer started from."""

    partition: bytes
    file_names: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Delta:
    """Entries of one snapshot: entries that were read, as columns, then those of messages, as rows.

    Most commits add a few files to a table of many, and need no columns.
    """

    stored_entries: ManifestEntries | None = None
    message_rows: tuple[Row, ...] = ()

    def __len__(self) -> int:
        return len(self.message_rows) + (0 if self.stored_entries is None else len(self.stored_entries))

    @cached_property
    def entries(self) -> ManifestEntries:
        """Return all entries as columns."""
        rows = columns_of.entries_of_rows(self.message_rows) if self.message_rows else columns_of.empty_entries()
        return rows if self.stored_entries is None else columns_of.concat_entries([self.stored_entries, rows])

    @cached_property
    def partitions(self) -> frozenset[bytes]:
        """Return the serialized partitions of the entries."""
        read = () if self.stored_entries is None else self.stored_entries.column("partition").unique().to_pylist()
        return frozenset([*(row[1] for row in self.message_rows), *read])

    def entry_count(self, kind: int) -> int:
        """Return how many entries are of the kind, ADD or DELETE."""
        return self._sum_column(kind, None)

    def row_count(self, kind: int) -> int:
        """Return the number of rows in the files that are added, or deleted."""
        return self._sum_column(kind, "row_count")

    def size_bytes(self, kind: int) -> int:
        """Return the bytes of the files that are added, or deleted."""
        return self._sum_column(kind, "file_size")

    def _sum_column(self, kind: int, column: str | None) -> int:
        def amount(file: DataFileMeta) -> int:
            return 1 if column is None else file.row_count if column == "row_count" else file.size_bytes

        total = sum(amount(row[4]) for row in self.message_rows if row[0] == kind)
        if self.stored_entries is not None:
            mask = self.stored_entries.integers("kind") == kind
            total += int(mask.sum() if column is None else self.stored_entries.integers(column)[mask].sum())
        return total


EMPTY_DELTA = Delta()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitChanges:
    """The entries, changelog entries and index entries (ADD and DELETE) of one snapshot.

    Attributes:
        hash_bases: the hash index files that the writers of dynamic buckets started from.
        known_keys_snapshot_id: the oldest snapshot by which a writer knows in which partition each key is.
        statistics: name of a new statistics file.
    """

    kind: Kind
    delta: Delta
    changelog: Delta
    index: tuple[IndexManifestEntry, ...] = ()
    hash_bases: tuple[KnownHashIndexes, ...] = ()
    known_keys_snapshot_id: int | None = None
    statistics: str | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether nothing changes."""
        return not (len(self.delta) or len(self.changelog) or self.index)


def collect_appended(ctx: TableContext, messages: Sequence[CommitMessage]) -> CommitChanges:
    """Collect what was written; the kind is OVERWRITE if files, or rows by deletion vectors, are removed."""
    entries, changelog = _EntryCollector(ctx), _EntryCollector(ctx)
    index: list[IndexManifestEntry] = []
    for message in messages:
        entries.add_files(message, ADD, message.new_files)
        entries.add_files(message, DELETE, message.deleted_files)
        changelog.add_files(message, ADD, message.changelog_files)
        index += _index_entries(message, message.deleted_index_files, DELETE)
        index += _index_entries(message, message.new_index_files, ADD)
    removes_rows = any(message.deleted_files for message in messages) or any(
        entry.index_type == DELETION_VECTORS for entry in index
    )
    new_index_names = {file.file_name for message in messages for file in message.new_index_files}
    bases = tuple(
        KnownHashIndexes(partition=message.partition, file_names=frozenset(message.hash_index_base))
        for message in messages
        # else its base is a new file of these messages
        if message.hash_index_base is not None
        and message.has_new
        and new_index_names.isdisjoint(message.hash_index_base)
    )
    return CommitChanges(
        kind="OVERWRITE" if removes_rows else "APPEND",
        delta=entries.to_delta(),
        changelog=changelog.to_delta(),
        index=tuple(index),
        hash_bases=tuple(dict.fromkeys(bases)),
        known_keys_snapshot_id=min(
            (message.keys_known_at for message in messages if message.keys_known_at is not None), default=None
        ),
    )


def collect_compacted(ctx: TableContext, messages: Sequence[CommitMessage]) -> CommitChanges:
    """Collect the changes of compactions."""
    entries, changelog = _EntryCollector(ctx), _EntryCollector(ctx)
    index: list[IndexManifestEntry] = []
    for message in messages:
        entries.add_files(message, DELETE, message.compact_before)
        entries.add_files(message, ADD, message.compact_after)
        changelog.add_files(message, ADD, message.compact_changelog)
        index += _index_entries(message, message.compact_deleted_index_files, DELETE)
        index += _index_entries(message, message.compact_new_index_files, ADD)
    return CommitChanges(kind="COMPACT", delta=entries.to_delta(), changelog=changelog.to_delta(), index=tuple(index))


class _EntryCollector:
    """Collects the entries of messages in order."""

    def __init__(self, ctx: TableContext) -> None:
        self.ctx = ctx
        self.rows: list[Row] = []

    def add_files(self, message: CommitMessage, kind: int, files: Sequence[DataFileMeta]) -> None:
        if not files:
            return
        total = total_buckets(self.ctx, message)
        self.rows += [(kind, message.partition, message.bucket, total, file) for file in files]

    def to_delta(self) -> Delta:
        return Delta(message_rows=tuple(self.rows))


def total_buckets(ctx: TableContext, message: CommitMessage) -> int:
    """Return the number of buckets of the message's partition, by default the table's number."""
    if message.total_buckets is not None:
        return message.total_buckets
    return POSTPONE_BUCKET if message.bucket == POSTPONE_BUCKET else ctx.options.bucket


_INDEX_FIELDS = tuple(field.name for field in fields(IndexFileMeta))


def _index_entries(message: CommitMessage, files: Iterable[IndexFileMeta], kind: int) -> list[IndexManifestEntry]:
    return [
        IndexManifestEntry(
            kind=kind,
            partition=message.partition,
            bucket=message.bucket,
            **{name: getattr(file, name) for name in _INDEX_FIELDS},
        )
        for file in files
    ]


# ---- result ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One finished commit.

    `snapshot_ids` are the snapshots it made, one for each of `kinds`; none if there was nothing to do. Rows and the
    compaction that follows them are two kinds, and only the rows are guaranteed: a compaction that lost a race or
    failed is left out, and a later one does the work.

    Files are data files: those added, and those no longer live. `row_count` counts the rows of the files that were
    written (of a compaction alone: of the files it made), `size_bytes` the bytes of all files added. `retry_count` is
    the number of lost races. `affected_row_count`: how many rows DELETE, UPDATE and MERGE removed, changed and
    inserted; None for other commits, and where it is not known without reading rows.
    """

    table: str
    snapshot_ids: tuple[int, ...]
    commit_user: str
    identifier: int
    kinds: tuple[str, ...]
    added_file_count: int
    removed_file_count: int
    row_count: int
    size_bytes: int
    duration_ms: float
    retry_count: int
    affected_row_count: int | None = None

    @property
    def snapshot_id(self) -> int | None:
        """Return the id of the last snapshot of the commit; None if it made none."""
        return self.snapshot_ids[-1] if self.snapshot_ids else None

    @property
    def _title(self) -> str:
        if not self.snapshot_ids:
            return f"{self.table} · nothing to commit"
        snapshots = " · ".join(
            f"snapshot {snapshot_id} {kind}" for snapshot_id, kind in zip(self.snapshot_ids, self.kinds, strict=True)
        )
        return f"{self.table} · {snapshots}"

    @property
    def _facts(self) -> list[tuple[str, object]]:
        facts: list[tuple[str, object]] = [
            (
                "added",
                (
                    f"{plural(self.added_file_count, 'file')}, {plural(self.row_count, 'row')}, "
                    f"{format_size(self.size_bytes)}"
                ),
            ),
            ("removed", plural(self.removed_file_count, "file")),
            *([] if self.affected_row_count is None else [("affected", plural(self.affected_row_count, "row"))]),
            ("user", self.commit_user),
            (
                "took",
                f"{format_count(round(self.duration_ms))} ms"
                + (f", {plural(self.retry_count, 'retry', 'retries')}" if self.retry_count else ""),
            ),
        ]
        return facts if self.snapshot_ids else facts[-2:]

    def __str__(self) -> str:
        return cards.card_text(self._title, self._facts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return cards.html_card(self._title, self._facts)
