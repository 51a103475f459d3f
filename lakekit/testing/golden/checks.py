"""The checks of the golden files of each format, as functions `(facts, data)` that raise `Mismatch`.

check(path)          the golden file whose JSON is at `path`
CHECKS["bucket"]     the check of a format; `UNSUPPORTED_FORMATS` are the formats that lakekit refuses by name
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekit.testing.golden import indexes, metadata, rows
from lakekit.testing.golden.comparison import load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


CHECKS: dict[str, Callable[[dict[str, Any], bytes], None]] = {
    "binary_array": rows.arrays_and_maps,
    "binary_map": rows.arrays_and_maps,
    "binary_row": rows.rows,
    "bucket": rows.buckets,
    "cast": rows.casts,
    "changelog": metadata.snapshots,
    "commit_message": metadata.commit_messages,
    "consumer": metadata.consumers,
    "data_split": metadata.splits,
    "deletion_vectors": indexes.deletion_vectors,
    "file_index_container": indexes.containers,
    "hash_index": indexes.hash_indexes,
    "hint": metadata.hints,
    "index_manifest": metadata.index_entries,
    "manifest": metadata.entries,
    "manifest_committable": metadata.committables,
    "manifest_list": metadata.lists,
    "schema": metadata.schemas,
    "serialized_row": rows.rows,
    "simple_stats": rows.stats,
    "snapshot": metadata.snapshots,
    "statistics": metadata.statistics,
    "tag": metadata.tags,
    **dict.fromkeys(("data_file_avro", "data_file_orc", "data_file_parquet"), rows.files),
    **dict.fromkeys(
        ("file_index_bitmap", "file_index_bloom_filter", "file_index_bsi", "file_index_range_bitmap"), indexes.indexes
    ),
}
UNSUPPORTED_FORMATS = {"blob_file": "blob files are refused by name: `lakekit features blob`"}
"""Formats with golden files that lakekit does not read, and why."""


def check(path: Path) -> None:
    """Check that a golden file is understood, and written again where it is canonical.

    Raises: `Mismatch`, or what a decoder raised.
    """
    facts, data = load(path)
    CHECKS[facts["format"]](facts, data)
