"""A commit message, which holds the changes of one writer to one bucket; committables.

    message      i32 4 + size | i32 arity | partition row | i32 bucket
                 u8 has total buckets | [i32]                          from version 7 on
                 new, deleted, changelog files | new, deleted index files     index files: from version 10 on
                 compacted before, after, changelog files | new, deleted index files
                 new | deleted index files                             up to version 9; no deleted ones before version 3
    to_bytes     "LKCM" | u8 1 | i32 message version | i32 length | message | u8 has base | [i32 count | J-UTF names]
                 | u8 has keys known at | [i64] | u32 CRC-32 of all before
    committable  i64 identifier | u8 no watermark | [i64 watermark]
                 i32 count | count × (i32, i64)                    offsets of a log system, up to version 4
                 i32 count | count × (J-UTF key | J-UTF value)     from version 4 on
                 i32 message version | i32 count | messages
    list         i32 BE count | items
    file         i32 BE length | binary row of the fields of `_FILE` (FORMAT 4.3), in their order
    index        i32 BE length | binary row of _INDEX_TYPE, _FILE_NAME, _FILE_SIZE, _ROW_COUNT, ranges ARRAY<ROW>,
                                 _EXTERNAL_PATH, _GLOBAL_INDEX ROW

All is big endian, and files and messages are lists. The version of a message, or of a committable, travels beside its
bytes; engine 1.4 writes messages of version 11 and committables of version 5. An engine writes the fields it knows:
each version of a message fixes how many fields a file has. Keys and statistics are rows with arity within a field of
type BYTES. Index files of versions up to 9 belong to the compaction, if there is one.

A message holds no secret. A committable passes between the processes of a job, and is stored in its savepoints.
`to_bytes` is lakekit's own.

Source: FORMAT.md 12; `CommitMessageImpl`, `CommitMessageSerializer`, `DataIncrement`, `CompactIncrement`,
`DataFileMetaSerializer`, `DataFileMeta08Serializer` and its successors, `IndexFileMetaSerializer`,
`IndexFileMetaV1Deserializer`, `ManifestCommittableSerializer`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from lakekit.codec import binary_row, binary_value
from lakekit.codec.cursor import Cursor, encode_java_utf
from lakekit.errors import Unsupported
from lakekit.model.data_file import DataFileMeta, Stats
from lakekit.model.index_manifest import DELETION_VECTORS, DeletionRange, GlobalIndex, IndexFileMeta
from lakekit.model.metadata_records import FILE_FIELDS
from lakekit.options.option import EMPTY, FrozenDict
from lakekit.types import Instant, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeVar

    T = TypeVar("T")


_STATS_TYPE = "ROW<_MIN_VALUES BYTES, _MAX_VALUES BYTES, _NULL_COUNTS ARRAY<BIGINT>>"
FILE_FIELD_TYPES = tuple(
    parse(text)
    for text in (
        *(
            "STRING",
            "BIGINT",
            "BIGINT",
            "BYTES",
            "BYTES",
            _STATS_TYPE,
            _STATS_TYPE,
            "BIGINT",
            "BIGINT",
            "BIGINT",
            "INT",
        ),
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
FILE_FIELD_NAMES = tuple(name for name, _ in FILE_FIELDS)
INDEX_FIELD_NAMES = (
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
_GLOBAL_INDEX_TYPE = "ROW<s BIGINT, e BIGINT, f INT, x ARRAY<INT>, m BYTES>"
_INDEX_HEAD = ("STRING", "STRING", "BIGINT", "BIGINT")
INDEX_FIELD_TYPES = {
    1: tuple(parse(text) for text in (*_INDEX_HEAD, f"ARRAY<{_RANGE_3}>")),
    2: tuple(parse(text) for text in (*_INDEX_HEAD, f"ARRAY<{_RANGE_4}>")),
    3: tuple(parse(text) for text in (*_INDEX_HEAD, f"ARRAY<{_RANGE_4}>", "STRING")),
    4: tuple(parse(text) for text in (*_INDEX_HEAD, f"ARRAY<{_RANGE_4}>", "STRING", _GLOBAL_INDEX_TYPE)),
}
"""The fields of an index file by its own version: 2 counts deleted rows, 3 has paths outside the table, 4 global
indexes.
"""


class MessageVersion(NamedTuple):
    """The layout of a message version: number of fields of a data file, version of index files."""

    file_fields: int
    index_version: int = 4


# ---- data files ------------------------------------------------------------------------------------------------------


def encode_data_file(file: DataFileMeta) -> bytes:
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
    return _with_length(binary_row.encode_row(values, FILE_FIELD_TYPES))


def read_data_file(cursor: Cursor, version: MessageVersion) -> DataFileMeta:
    """Read the data file at the cursor. Raises `Corrupt`."""
    offset = cursor.tell + 4
    row = cursor.raw(cursor.i32be("file length"), "file")
    values = [*_decode_row(cursor, offset, row, FILE_FIELD_TYPES[: version.file_fields], FILE_FIELD_NAMES), *[None] * 8]
    needed = [values[i] for i in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)]
    if (
        any(value is None for value in needed)
        or None in values[11]
        or None in (values[16] or [])
        or None in (values[19] or [])
    ):
        raise cursor.make_error("a required field is null", "file", at=offset)
    created: Instant | None = values[12]
    return DataFileMeta(
        name=values[0],
        size_bytes=values[1],
        row_count=values[2],
        min_key=values[3],
        max_key=values[4],
        key_stats=_decode_stats(cursor, offset, values[5]),
        value_stats=_decode_stats(cursor, offset, values[6]),
        min_sequence_number=values[7],
        max_sequence_number=values[8],
        schema_id=values[9],
        level=values[10],
        extra_files=tuple(values[11]),
        creation_time_ms=None if created is None else created.millis,
        delete_row_count=values[13],
        embedded_index=values[14],
        source=values[15],
        value_stats_cols=_texts_or_none(values[16]),
        external_path=values[17],
        first_row_id=values[18],
        write_cols=_texts_or_none(values[19]),
    )


def _decode_row(cursor: Cursor, at: int, row: bytes, types: Sequence[Any], names: Sequence[str]) -> tuple[Any, ...]:
    try:
        if cursor.spans is None:
            return binary_row.decode_row(row, types)
        with cursor.within(at=at):
            return binary_value.decode_row(binary_value.BoundedSlice.read_remaining(cursor.nested(row)), types, names)
    except ValueError as error:
        raise cursor.make_error(str(error), "row", at=at) from None


def _texts_or_none(texts: list[str] | None) -> tuple[str, ...] | None:
    return None if texts is None else tuple(texts)


def _stats_row(stats: Stats) -> tuple[Any, ...]:
    return stats.min_values, stats.max_values, None if stats.null_counts is None else list(stats.null_counts)


def _decode_stats(cursor: Cursor, offset: int, values: tuple[Any, ...]) -> Stats:
    low, high, nulls = values
    if low is None or high is None:
        raise cursor.make_error("statistics without a row", "file", at=offset)
    return Stats(min_values=low, max_values=high, null_counts=None if nulls is None else tuple(nulls))


# ---- index files -----------------------------------------------------------------------------------------------------


def encode_index_file(index: IndexFileMeta) -> bytes:
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
    return _with_length(binary_row.encode_row(values, INDEX_FIELD_TYPES[4]))


def read_index_file(cursor: Cursor, version: MessageVersion) -> IndexFileMeta:
    """Read the index file at the cursor. Raises `Corrupt`."""
    offset = cursor.tell + 4
    row = cursor.raw(cursor.i32be("index length"), "index")
    values = [
        *_decode_row(cursor, offset, row, INDEX_FIELD_TYPES[version.index_version], INDEX_FIELD_NAMES),
        None,
        None,
    ]
    covers = values[6]
    ranges = [(*item, None)[:4] if item is not None else (None,) for item in values[4] or []]
    required = [
        *values[:4],
        *(value for item in ranges for value in item[:3]),
        *(covers[:3] if covers is not None else ()),
    ]
    if any(value is None for value in required) or (covers is not None and None in (covers[3] or [])):
        raise cursor.make_error("a required field is null", "index", at=offset)
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


def encode_list(items: Sequence[T], write: Callable[[T], bytes]) -> bytes:
    """Encode a count and its items."""
    return b"".join([len(items).to_bytes(4, "big"), *map(write, items)])


def read_list(cursor: Cursor, read: Callable[[Cursor, MessageVersion], T], version: MessageVersion) -> tuple[T, ...]:
    """Read the list at the cursor. Raises `Corrupt`."""
    items: list[T] = []
    for _ in range(cursor.count("count", each=12)):
        with cursor.within(f"[{len(items)}]"):
            items.append(read(cursor, version))
    return tuple(items)


def encode_partition(partition: bytes) -> bytes:
    """Encode a serialized row (with arity), preceded by its length."""
    return _with_length(partition)


def read_partition(cursor: Cursor) -> bytes:
    """Read the serialized row at the cursor. Raises `Corrupt`."""
    offset = cursor.tell + 4
    partition = cursor.raw(cursor.i32be("partition length"), "partition")
    try:
        binary_row.strip_arity(partition)
    except ValueError as error:
        raise cursor.make_error(str(error), "partition", at=offset) from None
    return partition


# ---- commit message ------------------------------------------------------------


MESSAGE_VERSION = 11
_MAGIC = b"LKCM"
_OWN_VERSION = 1
_CRC_BYTES = 4
_MESSAGE_VERSIONS = {
    1: MessageVersion(15, 1),
    2: MessageVersion(15, 1),
    3: MessageVersion(16, 1),
    4: MessageVersion(17, 1),
    5: MessageVersion(17, 2),
    6: MessageVersion(18, 2),
    7: MessageVersion(18, 2),
    8: MessageVersion(19, 2),
    9: MessageVersion(20, 3),
    10: MessageVersion(20, 3),
    11: MessageVersion(20, 4),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMessage:
    """New, deleted and compacted files of one bucket.

    `partition` is a serialized row; `total_buckets` None: the table's own number.

    Dynamic buckets: `hash_index_base` lists the hash index files of the whole partition that the writer knew when it
    chose buckets, those of its own earlier messages too; a commit refuses the message if another writer has changed one
    of them since, as a key could be in two buckets. Empty: the writer knew of none. If it is None, buckets do not
    depend on an index, and nothing is checked.

    Keys that may move between partitions: `keys_known_at` is the newest snapshot whose keys the writer knew, 0 if there
    was none; a commit refuses the message if another user has written since. None: nothing is checked.

    Deletion vectors of buckets: a new index file replaces the one listed in `deleted_index_files` or
    `compact_deleted_index_files`.
    """

    partition: bytes
    bucket: int
    total_buckets: int | None = None
    new_files: tuple[DataFileMeta, ...] = ()
    deleted_files: tuple[DataFileMeta, ...] = ()
    changelog_files: tuple[DataFileMeta, ...] = ()
    new_index_files: tuple[IndexFileMeta, ...] = ()
    deleted_index_files: tuple[IndexFileMeta, ...] = ()
    compact_before: tuple[DataFileMeta, ...] = ()
    compact_after: tuple[DataFileMeta, ...] = ()
    compact_changelog: tuple[DataFileMeta, ...] = ()
    compact_new_index_files: tuple[IndexFileMeta, ...] = ()
    compact_deleted_index_files: tuple[IndexFileMeta, ...] = ()
    hash_index_base: tuple[str, ...] | None = None
    keys_known_at: int | None = None

    def __repr__(self) -> str:
        removed, indexes = (
            (*self.deleted_files, *self.compact_before),
            (*self.new_index_files, *self.compact_new_index_files),
        )
        parts = {
            "added": (*self.new_files, *self.compact_after),
            "removed": removed,
            "changelog": (*self.changelog_files, *self.compact_changelog),
            "index": indexes,
        }
        return (
            "CommitMessage(bucket "
            f"{self.bucket}{''.join(f', {len(files)} {label}' for label, files in parts.items() if files)})"
        )

    @property
    def is_empty(self) -> bool:
        """Return whether it changes nothing."""
        return not (self.has_new or self.has_compaction)

    @property
    def has_new(self) -> bool:
        """Return whether rows were written, deleted, or indexed."""
        return bool(
            self.new_files
            or self.deleted_files
            or self.changelog_files
            or self.new_index_files
            or self.deleted_index_files
        )

    @property
    def has_compaction(self) -> bool:
        """Return whether files were compacted."""
        after = (
            self.compact_after
            or self.compact_changelog
            or self.compact_new_index_files
            or self.compact_deleted_index_files
        )
        return bool(self.compact_before or after)

    def to_bytes(self) -> bytes:
        """Return the message as bytes, with a checksum, for another process or machine."""
        body = encode_message(self)
        known_state = (
            b"\0" if self.hash_index_base is None else b"\1" + encode_list(self.hash_index_base, encode_java_utf)
        )
        known_state += (
            b"\0" if self.keys_known_at is None else b"\1" + self.keys_known_at.to_bytes(8, "big", signed=True)
        )
        data = (
            _MAGIC + bytes([_OWN_VERSION]) + _encode_i32(MESSAGE_VERSION) + _encode_i32(len(body)) + body + known_state
        )
        return data + crc32(data).to_bytes(4, "big")

    @staticmethod
    def from_bytes(data: bytes) -> CommitMessage:
        """Decode the bytes of `to_bytes`. Raises `Corrupt`, or `Unsupported` for those of a newer lakekit."""
        cursor = Cursor(data)
        if cursor.raw(len(_MAGIC), "magic") != _MAGIC:
            raise cursor.make_error("these bytes are no commit message of lakekit", "magic", at=0)
        version = cursor.raw(1, "version")[0]
        if version != _OWN_VERSION:
            msg = f"a commit message in form {version}; lakekit knows {_OWN_VERSION}. A newer lakekit wrote it"
            raise Unsupported(msg, feature="file.commit-message")
        stored, computed = data[-_CRC_BYTES:], crc32(data[:-_CRC_BYTES]).to_bytes(_CRC_BYTES, "big")
        if stored != computed:
            raise cursor.make_error(
                f"checksum {stored.hex()} stored, {computed.hex()} computed: the message is damaged",
                "checksum",
                at=len(data) - _CRC_BYTES,
            )
        form = cursor.i32be("message version")
        message = decode_message(cursor.raw(cursor.i32be("message length"), "message"), form)
        base = (
            tuple(cursor.java_utf("hash index") for _ in range(cursor.count("hash indexes", each=2)))
            if cursor.flag("has hash indexes")
            else None
        )
        known_at = cursor.i64be("keys known at") if cursor.flag("has keys known at") else None
        cursor.raw(_CRC_BYTES, "checksum")
        cursor.expect_end("commit message")
        return replace(message, hash_index_base=base, keys_known_at=known_at)


# ---- as engines write them -------------------------------------------------------------------------------------------


def encode_message(message: CommitMessage) -> bytes:
    """Return the bytes of a message, version 11."""
    total = b"\0" if message.total_buckets is None else b"\1" + _encode_i32(message.total_buckets)
    out = [encode_partition(message.partition), _encode_i32(message.bucket), total]
    out += [
        encode_list(files, encode_data_file)
        for files in (message.new_files, message.deleted_files, message.changelog_files)
    ]
    out += [encode_list(files, encode_index_file) for files in (message.new_index_files, message.deleted_index_files)]
    out += [
        encode_list(files, encode_data_file)
        for files in (message.compact_before, message.compact_after, message.compact_changelog)
    ]
    out += [
        encode_list(files, encode_index_file)
        for files in (message.compact_new_index_files, message.compact_deleted_index_files)
    ]
    return b"".join(out)


def _encode_i32(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)


def decode_message(data: bytes, version: int = MESSAGE_VERSION, *, path: str | None = None) -> CommitMessage:
    """Decode a message of version 1 to 11. Raises `Corrupt`, `Unsupported`."""
    cursor = Cursor(data, path=path)
    message = read_message(cursor, version)
    cursor.expect_end("commit message")
    return message


def read_message(cursor: Cursor, version: int) -> CommitMessage:
    """Read the message at the cursor. Raises `Corrupt`, `Unsupported`."""
    shape = _MESSAGE_VERSIONS.get(version)
    if shape is None:
        msg = f"a commit message of version {version}: lakekit reads versions 1 to {MESSAGE_VERSION}"
        raise Unsupported(msg, feature="file.commit-message", path=cursor.path)

    def files(name: str) -> tuple[DataFileMeta, ...]:
        with cursor.within(name):
            return read_list(cursor, read_data_file, shape)

    def indexes(name: str) -> tuple[IndexFileMeta, ...]:
        with cursor.within(name):
            return read_list(cursor, read_index_file, shape)

    partition, bucket = read_partition(cursor), cursor.i32be("bucket")
    total = cursor.i32be("total buckets") if version >= 7 and cursor.flag("has total buckets") else None
    late = version < 10
    new, deleted, changelog = files("new files"), files("deleted files"), files("changelog files")
    new_index, deleted_index = ((), ()) if late else (indexes("new index files"), indexes("deleted index files"))
    before, after, compact_changelog = files("compacted before"), files("compacted after"), files("compacted changelog")
    compact_new, compact_deleted = (
        indexes("compacted new index files"),
        indexes("compacted deleted index files") if version > 2 else (),
    )
    if late and not (before or after or compact_changelog):
        new_index, deleted_index, compact_new, compact_deleted = compact_new, compact_deleted, (), ()
    return CommitMessage(
        partition=partition,
        bucket=bucket,
        total_buckets=total,
        new_files=new,
        deleted_files=deleted,
        changelog_files=changelog,
        new_index_files=new_index,
        deleted_index_files=deleted_index,
        compact_before=before,
        compact_after=after,
        compact_changelog=compact_changelog,
        compact_new_index_files=compact_new,
        compact_deleted_index_files=compact_deleted,
    )


# ---- committable bytes ------------------------------------------------------------


COMMITTABLE_VERSION = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Committable:
    """Everything one commit publishes: the messages of all writers, with an identifier for safe retries."""

    identifier: int
    watermark: int | None = None
    properties: Mapping[str, str] = EMPTY
    messages: tuple[CommitMessage, ...] = ()


def _encode_i64(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


def encode_committable(committable: Committable) -> bytes:
    """Return the bytes of a committable, version 5."""
    out = [
        _encode_i64(committable.identifier),
        b"\1" if committable.watermark is None else b"\0" + _encode_i64(committable.watermark),
    ]
    out.append(
        encode_list(
            list(committable.properties.items()), lambda item: encode_java_utf(item[0]) + encode_java_utf(item[1])
        )
    )
    return b"".join([*out, _encode_i32(MESSAGE_VERSION), encode_list(committable.messages, encode_message)])


def decode_committable(data: bytes, version: int = COMMITTABLE_VERSION, *, path: str | None = None) -> Committable:
    """Decode a committable of version 1 to 5. Raises `Corrupt`, `Unsupported`."""
    cursor = Cursor(data, path=path)
    committable = read_committable(cursor, version)
    cursor.expect_end("committable")
    return committable


def read_committable(cursor: Cursor, version: int) -> Committable:
    """Read the committable at the cursor. Raises `Corrupt`, `Unsupported`."""
    if not 1 <= version <= COMMITTABLE_VERSION:
        msg = f"a committable of version {version}: lakekit reads versions 1 to {COMMITTABLE_VERSION}"
        raise Unsupported(msg, feature="file.commit-message", path=cursor.path)
    identifier = cursor.i64be("identifier")
    watermark = None if cursor.flag("no watermark") else cursor.i64be("watermark")
    if version <= 4:
        for _ in range(cursor.count("log offsets", each=12)):
            cursor.raw(12, "log offset")
    properties = (
        {cursor.java_utf("key"): cursor.java_utf("value") for _ in range(cursor.count("properties", each=4))}
        if version >= 4
        else {}
    )
    message_version = cursor.i32be("message version")
    messages = tuple(read_message(cursor, message_version) for _ in range(cursor.count("messages", each=36)))
    return Committable(identifier=identifier, watermark=watermark, properties=FrozenDict(properties), messages=messages)
