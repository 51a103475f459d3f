"""Index files of buckets (hash indexes, deletion vectors), as in messages and index manifests.

Source: FORMAT.md 4.4 and 8.2, `IndexFileMeta`, `IndexManifestEntry`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakekit.model.metadata_records import ExtraField

HASH = "HASH"
DELETION_VECTORS = "DELETION_VECTORS"
ADD = 0
DELETE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionRange:
    """The location of one data file's deletion vector in an index file.

    `file_name` is the data file; `offset` in bytes points at the vector's length field, `length` counts what follows
    that field up to the checksum; `cardinality` is the number of deleted rows, None if an old writer left it out.
    """

    file_name: str
    offset: int
    length: int
    cardinality: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalIndex:
    """The coverage of an index over row ids; lakekit carries it along and never reads such indexes."""

    row_range_start: int
    row_range_end: int
    index_field_id: int
    extra_field_ids: tuple[int, ...] | None = None
    index_meta: bytes | None = None
    source_meta: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFileMeta:
    """One index file.

    `row_count` is the number of hashes, or of deletion vectors; `ranges` is empty for indexes without deletion vectors.
    """

    index_type: str
    file_name: str
    file_size_bytes: int
    row_count: int
    ranges: tuple[DeletionRange, ...] = ()
    external_path: str | None = None
    global_index: GlobalIndex | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexManifestEntry(IndexFileMeta):
    """An index file and the bucket it belongs to: one row of an index manifest.

    `partition` is a serialized row. `extra` are fields of newer writers, kept for the next index manifest.
    """

    partition: bytes
    bucket: int
    kind: int = ADD
    extra: tuple[ExtraField, ...] = ()
