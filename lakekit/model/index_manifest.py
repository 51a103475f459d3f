"""Index manifests: all live index files (hash indexes, deletion vectors) of a snapshot.

    02 02 18 00…00 00 20 44454c45… 12 696e6465… 3e 02 | 02 02 02 20 646174612d… 02 2c 02 02 00 | 00 00
    version 1, kind, partition, bucket, DELETION_VECTORS, index-a-0, size, rows
        | its ranges: data-a-0.parquet at 1, 22 bytes, 1 deleted | path, global index

Source: FORMAT.md 4.4, 4.7 and 8.2, `IndexFileMeta`, `IndexManifestEntry`, `IndexManifestEntrySerializer`,
`GlobalIndexMeta`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakekit.model import metadata_records
from lakekit.model.manifests import extra_fields
from lakekit.model.metadata_records import invalid_field, read_count, read_value
from lakekit.model.table_paths import checked_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.model.metadata_records import ExtraField


HASH_INDEX = "HASH"
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


# ---- index manifest ------------------------------------------------------------


INDEX_ENTRY_VERSION = 1
_KNOWN_FIELDS = frozenset(name for name, _ in metadata_records.index_entry_fields())


def decode_index_manifest(data: bytes, *, path: str | None = None) -> list[IndexManifestEntry]:
    """Return the index files that an index manifest lists, in order.

    Raises `Corrupt`, `LimitExceeded`, or `Unsupported` for another version.
    """
    file_records = metadata_records.read_records(data, path)
    metadata_records.check_version(
        file_records.convert(lambda row: read_value(row, "_VERSION", int, path)),
        INDEX_ENTRY_VERSION,
        "index manifest",
        path,
    )

    def fact(row: dict[str, Any]) -> IndexManifestEntry:
        return IndexManifestEntry(
            kind=_read_kind(row, path),
            partition=read_value(row, "_PARTITION", bytes, path),
            bucket=read_value(row, "_BUCKET", int, path),
            index_type=read_value(row, "_INDEX_TYPE", str, path),
            file_name=checked_name(read_value(row, "_FILE_NAME", str, path), path=path, field="_FILE_NAME"),
            file_size_bytes=read_count(row, "_FILE_SIZE", path),
            row_count=read_count(row, "_ROW_COUNT", path),
            ranges=tuple(
                _read_range(part, path)
                for part in read_value(row, "_DELETIONS_VECTORS_RANGES", list, path, default=())
                if part is not None
            ),
            external_path=read_value(row, "_EXTERNAL_PATH", str, path, default=None),
            global_index=_global_index(read_value(row, "_GLOBAL_INDEX", dict, path, default=None), path),
            extra=file_records.rewritable_unknown_fields(row, _KNOWN_FIELDS),
        )

    return file_records.convert(fact)


def _read_kind(row: dict[str, Any], path: str | None) -> int:
    kind: int = read_value(row, "_KIND", int, path)
    if kind not in {ADD, DELETE}:
        raise invalid_field(f"_KIND is {kind}", "_KIND", path)
    return kind


def _read_range(row: object, path: str | None) -> DeletionRange:
    if not isinstance(row, dict):
        raise invalid_field(
            "_DELETIONS_VECTORS_RANGES holds something else than records", "_DELETIONS_VECTORS_RANGES", path
        )
    return DeletionRange(
        file_name=read_value(row, "f0", str, path),
        offset=read_count(row, "f1", path),
        length=read_count(row, "f2", path),
        cardinality=read_value(row, "_CARDINALITY", int, path, default=None),
    )


def _global_index(row: dict[str, Any] | None, path: str | None) -> GlobalIndex | None:
    if row is None:
        return None
    extra = read_value(row, "_EXTRA_FIELD_IDS", list, path, default=None)
    if extra is not None and not all(isinstance(number, int) for number in extra):
        raise invalid_field("_EXTRA_FIELD_IDS holds something else than numbers", "_EXTRA_FIELD_IDS", path)
    return GlobalIndex(
        row_range_start=read_value(row, "_ROW_RANGE_START", int, path),
        row_range_end=read_value(row, "_ROW_RANGE_END", int, path),
        index_field_id=read_value(row, "_INDEX_FIELD_ID", int, path),
        extra_field_ids=None if extra is None else tuple(extra),
        index_meta=read_value(row, "_INDEX_META", bytes, path, default=None),
        source_meta=read_value(row, "_SOURCE_META", bytes, path, default=None),
    )


def encode_index_manifest(entries: Sequence[IndexManifestEntry], **write_options: Any) -> bytes:
    """Encode index entries as one file of the reference's schema.

    `write_options`: see `metadata_records.write`. Fields that engine 2.0 and newer ones add follow, if they have
    values.
    """
    added = extra_fields(entry.extra for entry in entries)
    source_meta = any(
        entry.global_index is not None and entry.global_index.source_meta is not None for entry in entries
    )
    extra = tuple((name, json.loads(declared)) for name, declared in added.items())
    rows = (
        dict.fromkeys(added)
        | to_record(entry)
        | {e.name: e.value for e in entry.extra if e.declaration == added[e.name]}
        for entry in entries
    )
    return metadata_records.write_records(
        metadata_records.index_entry_fields(extra, source_meta=source_meta), rows, **write_options
    )


def to_record(entry: IndexManifestEntry) -> dict[str, Any]:
    """Return the members of an entry, without those of newer writers.

    Ranges belong to deletion vectors: a list, maybe empty, for them, and null for every other type.
    """
    ranges = [{"f0": r.file_name, "f1": r.offset, "f2": r.length, "_CARDINALITY": r.cardinality} for r in entry.ranges]
    covers = entry.global_index
    return {
        "_VERSION": INDEX_ENTRY_VERSION,
        "_KIND": entry.kind,
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": entry.index_type,
        "_FILE_NAME": entry.file_name,
        "_FILE_SIZE": entry.file_size_bytes,
        "_ROW_COUNT": entry.row_count,
        "_DELETIONS_VECTORS_RANGES": ranges if ranges or entry.index_type == DELETION_VECTORS else None,
        "_EXTERNAL_PATH": entry.external_path,
        "_GLOBAL_INDEX": None
        if covers is None
        else {
            "_ROW_RANGE_START": covers.row_range_start,
            "_ROW_RANGE_END": covers.row_range_end,
            "_INDEX_FIELD_ID": covers.index_field_id,
            "_EXTRA_FIELD_IDS": None if covers.extra_field_ids is None else list(covers.extra_field_ids),
            "_INDEX_META": covers.index_meta,
            "_SOURCE_META": covers.source_meta,
        },
    }
