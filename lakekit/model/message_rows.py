"""Data files and index files as binary rows, as splits and commit messages carry them.

    file    i32 BE length | binary row of the fields of `_FILE` (FORMAT 4.3), in their order
    index   i32 BE length | binary row of _INDEX_TYPE, _FILE_NAME, _FILE_SIZE, _ROW_COUNT, ranges ARRAY<ROW>,
                            _EXTERNAL_PATH, _GLOBAL_INDEX ROW
    list    i32 BE count | items

An engine writes the fields it knows: each version of a message fixes how many. Keys and statistics are rows with arity
within a field of type BYTES.
Sources: FORMAT.md 12; `DataFileMetaSerializer`, `DataFileMeta08Serializer` and its successors,
`IndexFileMetaSerializer`, `IndexFileMetaV1Deserializer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lakekit.codec import binary_row
from lakekit.model.data_file import DataFileMeta, Stats
from lakekit.model.index_file import DELETION_VECTORS, DeletionRange, GlobalIndex, IndexFileMeta
from lakekit.model.record_schemas import FILE
from lakekit.types import Instant, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from lakekit.codec.cursor import Cursor

    T = TypeVar("T")

_STATS = "ROW<_MIN_VALUES BYTES, _MAX_VALUES BYTES, _NULL_COUNTS ARRAY<BIGINT>>"
FILE_TYPES = tuple(
    parse(text)
    for text in (
        *("STRING", "BIGINT", "BIGINT", "BYTES", "BYTES", _STATS, _STATS, "BIGINT", "BIGINT", "BIGINT", "INT"),
        *(
            "ARRAY<STRING>",
            "TIMESTAMP(3)",
            "BIGINT",
            "BYTES",
            "TINYINT",
            "ARRAY<STRING>",
            "STRING",
            "BIGINT",
            "ARRAY<STRING>",
        ),
    )
)
FILE_NAMES = tuple(name for name, _ in FILE)
INDEX_NAMES = (
    "_INDEX_TYPE",
    "_FILE_NAME",
    "_FILE_SIZE",
    "_ROW_COUNT",
    "_DELETIONS_VECTORS_RANGES",
    "_EXTERNAL_PATH",
    "_GLOBAL_INDEX",
)
_RANGE_3 = "ROW<f0 STRING, f1 INT, f2 INT>"
_RANGE_4 = "ROW<f0 STRING, f1 INT, f2 INT, c BIGINT>"
_GLOBAL = "ROW<s BIGINT, e BIGINT, f INT, x ARRAY<INT>, m BYTES>"
_INDEX_HEAD = ("STRING", "STRING", "BIGINT", "BIGINT")
INDEX_TYPES = {
    1: tuple(parse(text) for text in (*_INDEX_HEAD, f"ARRAY<{_RANGE_3}>")),
    2: tuple(parse(text) for text in (*_INDEX_HEAD, f"ARRAY<{_RANGE_4}>")),
    3: tuple(parse(text) for text in (*_INDEX_HEAD, f"ARRAY<{_RANGE_4}>", "STRING")),
    4: tuple(parse(text) for text in (*_INDEX_HEAD, f"ARRAY<{_RANGE_4}>", "STRING", _GLOBAL)),
}
"""The fields of an index file by its own version: 2 counts deleted rows, 3 has paths outside the table, 4 global
indexes.
"""


class MessageVersion(NamedTuple):
    """The layout of a message version: number of fields of a data file, version of index files."""

    file_fields: int
    index_version: int = 4


# ---- data files ------------------------------------------------------------------------------------------------------


def write_file(file: DataFileMeta) -> bytes:
    """Encode a data file in the newest version."""
    values: list[Any] = [
        file.name,
        file.size_bytes,
        file.row_count,
        file.min_key,
        file.max_key,
        _stats_row(file.key_stats),
        _stats_row(file.value_stats),
    ]
    values += [file.min_sequence_number, file.max_sequence_number, file.schema_id, file.level, file.extra_files]
    values += [
        None if file.creation_time_ms is None else Instant(file.creation_time_ms, 0),
        file.delete_row_count,
        file.embedded_index,
        file.source,
    ]
    values += [file.value_stats_cols, file.external_path, file.first_row_id, file.write_cols]
    return _with_length(binary_row.encode(values, FILE_TYPES))


def read_file(cursor: Cursor, shape: MessageVersion) -> DataFileMeta:
    """Read the data file at the cursor. Raises `Corrupt`."""
    offset = cursor.tell + 4
    row = cursor.raw(cursor.i32be("file length"), "file")
    values = [*_decode_row(cursor, offset, row, FILE_TYPES[: shape.file_fields], FILE_NAMES), *[None] * 8]
    needed = [values[i] for i in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)]
    if (
        any(value is None for value in needed)
        or None in values[11]
        or None in (values[16] or [])
        or None in (values[19] or [])
    ):
        raise cursor.wrong("a required field is null", "file", at=offset)
    created: Instant | None = values[12]
    return DataFileMeta(
        name=values[0],
        size_bytes=values[1],
        row_count=values[2],
        min_key=values[3],
        max_key=values[4],
        key_stats=_stats(cursor, offset, values[5]),
        value_stats=_stats(cursor, offset, values[6]),
        min_sequence_number=values[7],
        max_sequence_number=values[8],
        schema_id=values[9],
        level=values[10],
        extra_files=tuple(values[11]),
        creation_time_ms=None if created is None else created.millis,
        delete_row_count=values[13],
        embedded_index=values[14],
        source=values[15],
        value_stats_cols=_texts(values[16]),
        external_path=values[17],
        first_row_id=values[18],
        write_cols=_texts(values[19]),
    )


def _decode_row(cursor: Cursor, at: int, row: bytes, types: Sequence[Any], names: Sequence[str]) -> tuple[Any, ...]:
    try:
        if cursor.marks is None:
            return binary_row.decode(row, types)
        with cursor.marks.within(at=at):
            return binary_row.decode(row, types, names=names, marks=cursor.marks)
    except ValueError as error:
        raise cursor.wrong(str(error), "row", at=at) from None


def _texts(texts: list[str] | None) -> tuple[str, ...] | None:
    return None if texts is None else tuple(texts)


def _stats_row(stats: Stats) -> tuple[Any, ...]:
    return stats.min_values, stats.max_values, None if stats.null_counts is None else list(stats.null_counts)


def _stats(cursor: Cursor, offset: int, values: tuple[Any, ...]) -> Stats:
    low, high, nulls = values
    if low is None or high is None:
        raise cursor.wrong("statistics without a row", "file", at=offset)
    return Stats(min_values=low, max_values=high, null_counts=None if nulls is None else tuple(nulls))


# ---- index files -----------------------------------------------------------------------------------------------------


def write_index(index: IndexFileMeta) -> bytes:
    """Encode an index file in the newest version."""
    ranges = [(r.file_name, r.offset, r.length, r.cardinality) for r in index.ranges]
    covers = index.global_index
    rows: Any = None
    if covers is not None:
        extra = None if covers.extra_field_ids is None else list(covers.extra_field_ids)
        rows = (covers.row_range_start, covers.row_range_end, covers.index_field_id, extra, covers.index_meta)
    listed = ranges if ranges or index.index_type == DELETION_VECTORS else None
    values = (
        index.index_type,
        index.file_name,
        index.file_size_bytes,
        index.row_count,
        listed,
        index.external_path,
        rows,
    )
    return _with_length(binary_row.encode(values, INDEX_TYPES[4]))


def read_index(cursor: Cursor, shape: MessageVersion) -> IndexFileMeta:
    """Read the index file at the cursor. Raises `Corrupt`."""
    offset = cursor.tell + 4
    row = cursor.raw(cursor.i32be("index length"), "index")
    values = [*_decode_row(cursor, offset, row, INDEX_TYPES[shape.index_version], INDEX_NAMES), None, None]
    covers = values[6]
    ranges = [(*item, None)[:4] if item is not None else (None,) for item in values[4] or []]
    required = [
        *values[:4],
        *(value for item in ranges for value in item[:3]),
        *(covers[:3] if covers is not None else ()),
    ]
    if any(value is None for value in required) or (covers is not None and None in (covers[3] or [])):
        raise cursor.wrong("a required field is null", "index", at=offset)
    return IndexFileMeta(
        index_type=values[0],
        file_name=values[1],
        file_size_bytes=values[2],
        row_count=values[3],
        ranges=tuple(DeletionRange(file_name=r[0], offset=r[1], length=r[2], cardinality=r[3]) for r in ranges),
        external_path=values[5],
        global_index=None if covers is None else _global_index(covers),
    )


def _global_index(values: tuple[Any, ...]) -> GlobalIndex:
    start, end, field, extra, meta = values
    return GlobalIndex(
        row_range_start=start,
        row_range_end=end,
        index_field_id=field,
        extra_field_ids=None if extra is None else tuple(extra),
        index_meta=meta,
    )


# ---- lists and partitions --------------------------------------------------------------------------------------------


def _with_length(row: bytes) -> bytes:
    return len(row).to_bytes(4, "big") + row


def write_list(items: Sequence[T], write: Callable[[T], bytes]) -> bytes:
    """Encode a count and its items."""
    return b"".join([len(items).to_bytes(4, "big"), *map(write, items)])


def read_list(cursor: Cursor, read: Callable[[Cursor, MessageVersion], T], shape: MessageVersion) -> tuple[T, ...]:
    """Read the list at the cursor. Raises `Corrupt`."""
    items: list[T] = []
    for _ in range(cursor.count("count", each=12)):
        with cursor.within(f"[{len(items)}]"):
            items.append(read(cursor, shape))
    return tuple(items)


def write_partition(partition: bytes) -> bytes:
    """Encode a serialized row (with arity), preceded by its length."""
    return _with_length(partition)


def read_partition(cursor: Cursor) -> bytes:
    """Read the serialized row at the cursor. Raises `Corrupt`."""
    offset = cursor.tell + 4
    partition = cursor.raw(cursor.i32be("partition length"), "partition")
    try:
        binary_row.strip_arity(partition)
    except ValueError as error:
        raise cursor.wrong(str(error), "partition", at=offset) from None
    return partition
