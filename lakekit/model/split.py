"""A split: files of one bucket that one task reads together.

It refers to no table and holds no secret.

Source: ENGINE.md 6.5, FORMAT.md 12, `DataSplit`, `DeletionFile`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakekit.options.frozendict import EMPTY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.model.data_file import DataFileMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionFile:
    """The location of a data file's deletion vector: index file, offset, length, number of rows."""

    path: str
    offset: int
    length: int
    cardinality: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Files of one bucket to read together. `raw`: no key occurs twice in them, so rows need no merging.

    `partition` is a serialized row; `deletions` maps a data file's name to its deletion vector.
    """

    snapshot_id: int
    partition: bytes
    bucket: int
    total_buckets: int | None = None
    bucket_path: str = ""
    files: tuple[DataFileMeta, ...] = ()
    deletions: Mapping[str, DeletionFile] = EMPTY
    raw: bool = False
    streaming: bool = False

    @property
    def row_count(self) -> int:
        """Physical rows: every version of a key and every deleted row counts."""
        return sum(file.row_count for file in self.files)

    @property
    def size_bytes(self) -> int:
        """The size of its data files."""
        return sum(file.size_bytes for file in self.files)

    @property
    def merged_row_count(self) -> int | None:
        """Return the number of rows that reading returns; None if only reading can tell.

        That is so if rows are merged, or a deletion vector lacks its cardinality.
        """
        if not self.raw or any(deletion.cardinality is None for deletion in self.deletions.values()):
            return None
        return self.row_count - sum(deletion.cardinality or 0 for deletion in self.deletions.values())
