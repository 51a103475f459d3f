"""Metadata of one data file, for files that are read, written or shown; and the four kinds of a row.

Plans keep whole columns of metadata (`model.manifest_entries`). Kinds are a byte `_VALUE_KIND` in files, `_row_kind` in
frames, `rowkind` in system tables.

Source: FORMAT.md 4.3 and 7.2, `DataFileMeta`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


EXTENSIONS = {
    "gzip": "gz",
    "bzip2": "bz2",
    "deflate": "deflate",
    "snappy": "snappy",
    "lz4": "lz4",
    "zstd": "zst",
    "none": "",
}
"""A compression -> its extension in the names of files that are compressed as a whole."""
COMPRESSION_EXTENSIONS = frozenset({"gz", "bz2", "deflate", "snappy", "lz4", "zst", "zstd", "xz", "br", "lzo"})
INDEX_SUFFIX = ".index"
"""How the name of a file index ends that lies beside its data file."""
APPEND_SOURCE = 0
COMPACT_SOURCE = 1
EMPTY_ROW = bytes(12)
"""The serialized row without columns: an arity of 0, and 8 bytes of header and null bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Smallest and greatest values, as serialized rows (FORMAT 5.6), and null counts of some columns."""

    min_values: bytes = EMPTY_ROW
    max_values: bytes = EMPTY_ROW
    null_counts: tuple[int | None, ...] | None = ()


NO_STATS = Stats()


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileMeta:
    """One data file: its name, size, rows, key range, level and statistics.

    `min_key` and `max_key` are serialized rows of the trimmed primary key. `value_stats_cols` names the columns that
    `value_stats` covers; None means all columns of schema `schema_id`. `source` is 0 for a flush and 1 for a
    compaction. `external_path` is the whole path of a file outside the table.
    """

    name: str
    size_bytes: int
    row_count: int
    min_key: bytes = EMPTY_ROW
    max_key: bytes = EMPTY_ROW
    key_stats: Stats = NO_STATS
    value_stats: Stats = NO_STATS
    min_sequence_number: int = 0
    max_sequence_number: int = 0
    schema_id: int = 0
    level: int = 0
    extra_files: tuple[str, ...] = ()
    creation_time_ms: int | None = None
    delete_row_count: int | None = None
    embedded_index: bytes | None = None
    source: int | None = None
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None

    @property
    def format_name(self) -> str:
        """The file format, from the name alone: `parquet`, `orc`, `avro`."""
        return format_of_name(self.name)

    @property
    def index_file(self) -> str | None:
        """The name of the file index beside the file, if it has one."""
        return index_file_of(self.extra_files)


def index_file_of(extra_files: Sequence[str]) -> str | None:
    """Return which of the files beside a data file is its file index; None if none is."""
    return next((name for name in extra_files if name.endswith(INDEX_SUFFIX)), None)


def format_of_name(name: str) -> str:
    """Return the format in a data file's name: its extension, or the one before a compression's extension."""
    stem, _, extension = name.rpartition(".")
    if extension in COMPRESSION_EXTENSIONS and "." in stem:
        extension = stem.rpartition(".")[2]
    return extension.lower() if stem else ""


# ---- row kind ------------------------------------------------------------


class RowKind(IntEnum):
    """The effect of a row on the state; the value is its byte in files, `text` its text elsewhere."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def text(self) -> str:
        """`+I`, `-U`, `+U` or `-D`."""
        return KIND_TEXTS[self]

    @property
    def is_retraction(self) -> bool:
        """Return whether it takes a row away."""
        return self in (RowKind.UPDATE_BEFORE, RowKind.DELETE)


KIND_TEXTS = ("+I", "-U", "+U", "-D")
"""The text of each kind, at its byte's place."""
KIND_BY_TEXT = {text: RowKind(byte) for byte, text in enumerate(KIND_TEXTS)}
"""The kind of each text."""
