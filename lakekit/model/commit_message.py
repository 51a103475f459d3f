"""A commit message: the changes of one writer to one bucket, for a commit to publish.

It holds no secret.

message        i32 4 + size | i32 arity | partition row | i32 bucket
               u8 has total buckets | [i32]                          from version 7 on
               new, deleted, changelog files | new, deleted index files     index files: from version 10 on
               compacted before, after, changelog files | new, deleted index files
               new | deleted index files                             up to version 9; no deleted ones before version 3
to_bytes       "LKCM" | u8 1 | i32 message version | i32 length | message | u8 has base | [i32 count | J-UTF names]
               | u8 has keys known at | [i64] | u32 CRC-32 of all before

Every list begins with its count; items as in `model.message_rows`; big endian. The version of a message travels beside
its bytes; engine 1.4 writes version 11. Index files of versions up to 9 belong to the compaction, if there is one.
Sources: FORMAT.md 12; `CommitMessageImpl`, `CommitMessageSerializer`, `DataIncrement`, `CompactIncrement`. `to_bytes`
is lakekit's own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from zlib import crc32

from lakekit.codec.cursor import Cursor, jutf
from lakekit.errors import Unsupported
from lakekit.model.message_rows import (
    MessageVersion,
    read_file,
    read_index,
    read_list,
    read_partition,
    write_file,
    write_index,
    write_list,
    write_partition,
)

if TYPE_CHECKING:
    from lakekit.codec.marks import SpanRecorder
    from lakekit.model.data_file import DataFileMeta
    from lakekit.model.index_file import IndexFileMeta

MESSAGE_VERSION = 11
_MAGIC = b"LKCM"
_OWN_VERSION = 1
_CRC_BYTES = 4
_SHAPES = {
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
    of them since, as a key could be in two buckets. Empty: the writer knew of none. None: buckets do not depend on an
    index, and nothing is checked.

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
        known_state = b"\0" if self.hash_index_base is None else b"\1" + write_list(self.hash_index_base, jutf)
        known_state += (
            b"\0" if self.keys_known_at is None else b"\1" + self.keys_known_at.to_bytes(8, "big", signed=True)
        )
        data = _MAGIC + bytes([_OWN_VERSION]) + _i32(MESSAGE_VERSION) + _i32(len(body)) + body + known_state
        return data + crc32(data).to_bytes(4, "big")

    @staticmethod
    def from_bytes(data: bytes) -> CommitMessage:
        """Decode the bytes of `to_bytes`. Raises `Corrupt`, or `Unsupported` for those of a newer lakekit."""
        cursor = Cursor(data)
        if cursor.raw(len(_MAGIC), "magic") != _MAGIC:
            raise cursor.wrong("these bytes are no commit message of lakekit", "magic", at=0)
        version = cursor.raw(1, "version")[0]
        if version != _OWN_VERSION:
            msg = f"a commit message in form {version}; lakekit knows {_OWN_VERSION}. A newer lakekit wrote it"
            raise Unsupported(msg, feature="file.commit-message")
        stored, computed = data[-_CRC_BYTES:], crc32(data[:-_CRC_BYTES]).to_bytes(_CRC_BYTES, "big")
        if stored != computed:
            raise cursor.wrong(
                f"checksum {stored.hex()} stored, {computed.hex()} computed: the message is damaged",
                "checksum",
                at=len(data) - _CRC_BYTES,
            )
        form = cursor.i32be("message version")
        message = decode_message(cursor.raw(cursor.i32be("message length"), "message"), form)
        base = (
            tuple(cursor.jutf("hash index") for _ in range(cursor.count("hash indexes", each=2)))
            if cursor.flag("has hash indexes")
            else None
        )
        known_at = cursor.i64be("keys known at") if cursor.flag("has keys known at") else None
        cursor.raw(_CRC_BYTES, "checksum")
        cursor.finish("commit message")
        return replace(message, hash_index_base=base, keys_known_at=known_at)


# ---- as engines write them -------------------------------------------------------------------------------------------


def encode_message(message: CommitMessage) -> bytes:
    """Return the bytes of a message, version 11."""
    total = b"\0" if message.total_buckets is None else b"\1" + _i32(message.total_buckets)
    out = [write_partition(message.partition), _i32(message.bucket), total]
    out += [
        write_list(files, write_file) for files in (message.new_files, message.deleted_files, message.changelog_files)
    ]
    out += [write_list(files, write_index) for files in (message.new_index_files, message.deleted_index_files)]
    out += [
        write_list(files, write_file)
        for files in (message.compact_before, message.compact_after, message.compact_changelog)
    ]
    out += [
        write_list(files, write_index)
        for files in (message.compact_new_index_files, message.compact_deleted_index_files)
    ]
    return b"".join(out)


def _i32(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)


def decode_message(
    data: bytes, version: int = MESSAGE_VERSION, *, path: str | None = None, marks: SpanRecorder | None = None
) -> CommitMessage:
    """Decode a message of version 1 to 11. Raises `Corrupt`, `Unsupported`."""
    cursor = Cursor(data, path=path, marks=marks)
    message = read_message(cursor, version)
    cursor.finish("commit message")
    return message


def read_message(cursor: Cursor, version: int) -> CommitMessage:
    """Read the message at the cursor. Raises `Corrupt`, `Unsupported`."""
    shape = _SHAPES.get(version)
    if shape is None:
        msg = f"a commit message of version {version}: lakekit reads versions 1 to {MESSAGE_VERSION}"
        raise Unsupported(msg, feature="file.commit-message", path=cursor.path)

    def files(name: str) -> tuple[DataFileMeta, ...]:
        with cursor.within(name):
            return read_list(cursor, read_file, shape)

    def indexes(name: str) -> tuple[IndexFileMeta, ...]:
        with cursor.within(name):
            return read_list(cursor, read_index, shape)

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
