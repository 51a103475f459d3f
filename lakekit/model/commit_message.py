"""A commit message: what one writer did to one bucket, for a commit to make visible. It holds no secret.

Source: FORMAT.md 12, `CommitMessageImpl`, `DataIncrement`, `CompactIncrement`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakekit.model.data_file import DataFile
    from lakekit.model.index_file import IndexFile


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMessage:
    """New, changed and compacted files of one bucket. `partition` is a serialized row; `total_buckets` None: the table's own number."""

    partition: bytes
    bucket: int
    total_buckets: int | None = None
    new_files: tuple[DataFile, ...] = ()
    deleted_files: tuple[DataFile, ...] = ()
    changelog_files: tuple[DataFile, ...] = ()
    new_index_files: tuple[IndexFile, ...] = ()
    deleted_index_files: tuple[IndexFile, ...] = ()
    compact_before: tuple[DataFile, ...] = ()
    compact_after: tuple[DataFile, ...] = ()
    compact_changelog: tuple[DataFile, ...] = ()
    compact_new_index_files: tuple[IndexFile, ...] = ()
    compact_deleted_index_files: tuple[IndexFile, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return not (self.has_new or self.has_compaction)

    @property
    def has_new(self) -> bool:
        """Whether rows were written, deleted, or indexed."""
        return bool(self.new_files or self.deleted_files or self.changelog_files or self.new_index_files or self.deleted_index_files)

    @property
    def has_compaction(self) -> bool:
        """Whether files were compacted."""
        after = self.compact_after or self.compact_changelog or self.compact_new_index_files or self.compact_deleted_index_files
        return bool(self.compact_before or after)
