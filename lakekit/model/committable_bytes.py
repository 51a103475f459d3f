"""Commit messages, and what a committer receives, as bytes: they travel between the processes of a job and wait in its savepoints.

message        i32 4 + size | i32 arity | partition row | i32 bucket
               u8 has total buckets | [i32]                                      from version 7 on
               new, deleted, changelog files | new, deleted index files          index files: from version 10 on
               compacted before, after, changelog files | new, deleted index files
               new | deleted index files                                         up to version 9; no deleted ones before version 3
committable    i64 identifier | u8 no watermark | [i64 watermark]
               i32 count | count × (i32, i64)                                    offsets of a log system, up to version 4
               i32 count | count × (J-UTF key | J-UTF value)                     from version 4 on
               i32 message version | i32 count | messages

Every list begins with its count; items as `model.message_rows` draws them; big endian. The version of a message or committable travels beside its bytes.
Engine 1.4 writes messages of version 11 and committables of version 5. Index files of versions up to 9 belong to the compaction where there is one.
Sources: FORMAT.md 12; `CommitMessageSerializer`, `ManifestCommittableSerializer`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakekit.codec.cursor import Cursor, jutf
from lakekit.errors import Unsupported
from lakekit.model.commit_message import CommitMessage
from lakekit.model.message_rows import Shape, read_file, read_index, read_list, read_partition, write_file, write_index, write_list, write_partition
from lakekit.options.frozen import EMPTY, Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.codec.marks import Marks
    from lakekit.model.data_file import DataFile
    from lakekit.model.index_file import IndexFile

MESSAGE_VERSION = 11
COMMITTABLE_VERSION = 5
_SHAPES = {
    1: Shape(15, 1),
    2: Shape(15, 1),
    3: Shape(16, 1),
    4: Shape(17, 1),
    5: Shape(17, 2),
    6: Shape(18, 2),
    7: Shape(18, 2),
    8: Shape(19, 2),
    9: Shape(20, 3),
    10: Shape(20, 3),
    11: Shape(20, 4),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Committable:
    """Everything one commit publishes: the messages of all writers, under an identifier that makes a second attempt harmless."""

    identifier: int
    watermark: int | None = None
    properties: Mapping[str, str] = EMPTY
    messages: tuple[CommitMessage, ...] = ()


def encode_message(message: CommitMessage) -> bytes:
    """The bytes of a message, version 11."""
    total = b"\0" if message.total_buckets is None else b"\1" + _i32(message.total_buckets)
    out = [write_partition(message.partition), _i32(message.bucket), total]
    out += [write_list(files, write_file) for files in (message.new_files, message.deleted_files, message.changelog_files)]
    out += [write_list(files, write_index) for files in (message.new_index_files, message.deleted_index_files)]
    out += [write_list(files, write_file) for files in (message.compact_before, message.compact_after, message.compact_changelog)]
    out += [write_list(files, write_index) for files in (message.compact_new_index_files, message.compact_deleted_index_files)]
    return b"".join(out)


def _i32(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)


def _i64(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


def decode_message(data: bytes, version: int = MESSAGE_VERSION, *, path: str | None = None, marks: Marks | None = None) -> CommitMessage:
    """The message of some bytes, of versions 1 to 11. Raises `Corrupt`, `Unsupported`."""
    cursor = Cursor(data, path=path, marks=marks)
    found = _read_message(cursor, version)
    cursor.finish("commit message")
    return found


def _read_message(cursor: Cursor, version: int) -> CommitMessage:
    shape = _SHAPES.get(version)
    if shape is None:
        msg = f"a commit message of version {version}: lakekit reads versions 1 to {MESSAGE_VERSION}"
        raise Unsupported(msg, feature="file.commit-message", path=cursor.path)

    def files(name: str) -> tuple[DataFile, ...]:
        with cursor.within(name):
            return read_list(cursor, read_file, shape)

    def indexes(name: str) -> tuple[IndexFile, ...]:
        with cursor.within(name):
            return read_list(cursor, read_index, shape)

    partition, bucket = read_partition(cursor), cursor.i32be("bucket")
    total = cursor.i32be("total buckets") if version >= 7 and cursor.flag("has total buckets") else None
    late = version < 10
    new, deleted, changelog = files("new files"), files("deleted files"), files("changelog files")
    new_index, deleted_index = ((), ()) if late else (indexes("new index files"), indexes("deleted index files"))
    before, after, compact_changelog = files("compacted before"), files("compacted after"), files("compacted changelog")
    compact_new, compact_deleted = indexes("compacted new index files"), indexes("compacted deleted index files") if version > 2 else ()
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


def encode(committable: Committable) -> bytes:
    """The bytes of a committable, version 5."""
    out = [_i64(committable.identifier), b"\1" if committable.watermark is None else b"\0" + _i64(committable.watermark)]
    out.append(write_list(list(committable.properties.items()), lambda item: jutf(item[0]) + jutf(item[1])))
    return b"".join([*out, _i32(MESSAGE_VERSION), write_list(committable.messages, encode_message)])


def decode(data: bytes, version: int = COMMITTABLE_VERSION, *, path: str | None = None, marks: Marks | None = None) -> Committable:
    """The committable of some bytes, of versions 1 to 5. Raises `Corrupt`, `Unsupported`."""
    if not 1 <= version <= COMMITTABLE_VERSION:
        msg = f"a committable of version {version}: lakekit reads versions 1 to {COMMITTABLE_VERSION}"
        raise Unsupported(msg, feature="file.commit-message", path=path)
    cursor = Cursor(data, path=path, marks=marks)
    identifier = cursor.i64be("identifier")
    watermark = None if cursor.flag("no watermark") else cursor.i64be("watermark")
    if version <= 4:
        for _ in range(cursor.count("log offsets", each=12)):
            cursor.raw(12, "log offset")
    properties = {cursor.jutf("key"): cursor.jutf("value") for _ in range(cursor.count("properties", each=4))} if version >= 4 else {}
    message_version = cursor.i32be("message version")
    messages = tuple(_read_message(cursor, message_version) for _ in range(cursor.count("messages", each=36)))
    cursor.finish("committable")
    return Committable(identifier=identifier, watermark=watermark, properties=Frozen(properties), messages=messages)
