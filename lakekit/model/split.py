"""A split, files of one bucket that one task reads together; its bytes as engines exchange them.

    dec3d2302c19ec66 | i32 version       from version 2 on (engine 0.9); version 1 begins with the snapshot
    i64 snapshot | i32 4 + size | i32 arity | partition row | i32 bucket | J-UTF path of the bucket
    u8 has total buckets | [i32]         from version 6 on
    i32 0 | u8 0                         files before the change, of engines that had them
    i32 count | files                    as in `model.commit_message`
    u8 has deletions | [i32 count
        | count × (u8 has | [J-UTF path | i64 offset | i64 length | i64 cardinality, -1: unknown])]
    u8 streaming | u8 raw

Big endian; no cardinality before version 4. Engine 1.4 writes version 8. A split refers to no table, holds no secret,
and is never stored in a table.

Source: ENGINE.md 6.5, FORMAT.md 12, `DataSplit`, `DeletionFile`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakekit.codec.cursor import Cursor, encode_java_utf
from lakekit.errors import Unsupported
from lakekit.model.commit_message import (
    MessageVersion,
    encode_data_file,
    encode_list,
    encode_partition,
    read_data_file,
    read_list,
    read_partition,
)
from lakekit.options.option import EMPTY, FrozenDict

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


# ---- split bytes ------------------------------------------------------------


SPLIT_MAGIC = -2394839472490812314
SPLIT_VERSION = 8
_MESSAGE_VERSIONS = {
    1: MessageVersion(15),
    2: MessageVersion(16),
    3: MessageVersion(17),
    4: MessageVersion(17),
    5: MessageVersion(18),
    6: MessageVersion(18),
    7: MessageVersion(19),
    8: MessageVersion(20),
}


def encode_split(split: Split) -> bytes:
    """Return the bytes of a split, version 8."""
    total = b"\0" if split.total_buckets is None else b"\1" + _encode_i32(split.total_buckets)
    out = [
        _encode_i64(SPLIT_MAGIC),
        _encode_i32(SPLIT_VERSION),
        _encode_i64(split.snapshot_id),
        encode_partition(split.partition),
        _encode_i32(split.bucket),
        encode_java_utf(split.bucket_path),
        total,
    ]
    out += [_encode_i32(0), b"\0", encode_list(split.files, encode_data_file)]
    if split.deletions:
        out += [b"\1", encode_list([split.deletions.get(file.name) for file in split.files], _write_deletion)]
    else:
        out.append(b"\0")
    return b"".join([*out, bytes([split.streaming, split.raw])])


def _encode_i32(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)


def _encode_i64(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


def _write_deletion(deletion: DeletionFile | None) -> bytes:
    if deletion is None:
        return b"\0"
    count = -1 if deletion.cardinality is None else deletion.cardinality
    return b"".join(
        [
            b"\1",
            encode_java_utf(deletion.path),
            _encode_i64(deletion.offset),
            _encode_i64(deletion.length),
            _encode_i64(count),
        ]
    )


def decode_split(data: bytes, *, path: str | None = None) -> Split:
    """Decode a split of version 1 to 8.

    Raises `Corrupt`; `Unsupported` for a later version and for changes as pairs of splits.
    """
    cursor = Cursor(data, path=path)
    split = read_split(cursor)
    cursor.expect_end("split")
    return split


def read_split(cursor: Cursor) -> Split:
    """Read the split at the cursor. Raises as `decode_split`."""
    first = cursor.i64be("magic or snapshot")
    version = cursor.i32be("version") if first == SPLIT_MAGIC else 1
    shape = _MESSAGE_VERSIONS.get(version)
    if shape is None or (version == 1 and first == SPLIT_MAGIC):
        msg = f"a split of version {version}: lakekit reads versions 1 to {SPLIT_VERSION}"
        raise Unsupported(msg, feature="file.split", path=cursor.path)
    snapshot = first if version == 1 else cursor.i64be("snapshot")
    partition, bucket, bucket_path = read_partition(cursor), cursor.i32be("bucket"), cursor.java_utf("bucket path")
    total = cursor.i32be("total buckets") if version >= 6 and cursor.flag("has total buckets") else None
    if cursor.i32be("files before") or cursor.flag("has deletions before"):
        msg = "a split that holds the files before a change and those after it: engines stopped writing them with 1.4"
        raise Unsupported(msg, feature="file.split", path=cursor.path)
    with cursor.within("files"):
        files = read_list(cursor, read_data_file, shape)
    deletions = _read_deletions(cursor, files, version) if cursor.flag("has deletions") else {}
    streaming, raw = cursor.flag("streaming"), cursor.flag("raw")
    return Split(
        snapshot_id=snapshot,
        partition=partition,
        bucket=bucket,
        total_buckets=total,
        bucket_path=bucket_path,
        files=files,
        deletions=FrozenDict(deletions),
        raw=raw,
        streaming=streaming,
    )


def _read_deletions(cursor: Cursor, files: tuple[DataFileMeta, ...], version: int) -> dict[str, DeletionFile]:
    offset_of_count = cursor.tell
    count = cursor.count("deletions", each=1)
    if count != len(files):
        raise cursor.make_error(f"{count} deletion vectors for {len(files)} files", "deletions", at=offset_of_count)
    deletions = {}
    for file in files:
        if cursor.flag("has deletion"):
            path, offset, length = cursor.java_utf("path"), cursor.i64be("offset"), cursor.i64be("length")
            cardinality = cursor.i64be("cardinality") if version >= 4 else -1
            deletions[file.name] = DeletionFile(
                path=path, offset=offset, length=length, cardinality=None if cardinality == -1 else cardinality
            )
    return deletions
