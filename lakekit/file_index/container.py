"""The container of a data file's indexes: every column and index type in one file or manifest field.

    00054e4ed01a35ae | i32 version 1 | i32 head length | i32 columns
    a column   J-UTF name | i32 indexes | indexes × (J-UTF type | i32 start | i32 length)
    i32 redundant length | so many ignored bytes
    payloads

All big endian. `start` counts from the beginning of the container; -1 means an index that is known to be empty (no row
was given to it), which is `None` here.

    {"a": {"bloom-filter": 010203}}
    00054e4ed01a35ae 00000001 00000033 00000001
    0001 61 00000001  000c 626c6f6f6d2d66696c746572 00000033 00000003  00000000  010203

Sources: FORMAT.md 9.2; `FileIndexFormat`.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from lakekit.codec.cursor import Cursor, jutf
from lakekit.errors import Corrupt, Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from lakekit.codec.marks import SpanRecorder

MAGIC = 1493475289347502
VERSION = 1
HEAD = 16
"""The bytes of magic, version and head length."""


class PayloadRange(NamedTuple):
    """The start and length of one payload."""

    start: int
    length: int


class Payloads(NamedTuple):
    """Payloads of many containers that lie in one stretch of bytes: payload i is `data[begins[i]:ends[i]]`."""

    data: NDArray[np.uint8]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.begins)


def head_length(data: bytes | memoryview, *, path: str | None = None, marks: SpanRecorder | None = None) -> int:
    """Return how many bytes of a container come before its payloads, from its first 16 bytes.

    Raises `Corrupt`, `Unsupported`.
    """
    cursor = Cursor(data, path=path, marks=marks)
    if cursor.i64be("magic") != MAGIC:
        raise cursor.wrong("no file index: 00054e4ed01a35ae wanted", "magic", at=0)
    version = cursor.i32be("version")
    if version != VERSION:
        where = "" if path is None else f"{path}: "
        msg = f"{where}file indexes of version {version} are newer than lakekit; version 1 is known"
        raise Unsupported(msg, feature="file-index.embedded", path=path)
    length = cursor.i32be("head length")
    if length < HEAD + 8:
        raise cursor.wrong(f"a head of {length} bytes", "head length", at=12)
    return length


def contents(
    data: bytes | memoryview, *, path: str | None = None, marks: SpanRecorder | None = None
) -> Mapping[str, Mapping[str, PayloadRange | None]]:
    """Return column -> index type -> range of its payload (None: known to be empty).

    Only the head is needed. Raises `Corrupt`, `Unsupported`.
    """
    length = int.from_bytes(data[HEAD - 4 : HEAD], "big")
    if marks is None and HEAD < length <= len(data):
        with suppress(Corrupt, Unsupported):  # raised below, with the path and the marks
            return _read_cached(bytes(data[:length]))
    return _read(data, path, marks)


@lru_cache(256)
def _read_cached(head: bytes) -> Mapping[str, Mapping[str, PayloadRange | None]]:
    """Return the contents of a head; files of one table often have heads of the same bytes."""
    return _read(head, None, None)


def _read(
    data: bytes | memoryview, path: str | None, marks: SpanRecorder | None
) -> dict[str, dict[str, PayloadRange | None]]:
    length = head_length(data[:HEAD], path=path, marks=marks)
    if length > len(data):
        raise Cursor(data, path=path).wrong(f"a head of {length} bytes, {len(data)} there", "head length", at=12)
    cursor = Cursor(data, path=path, at=HEAD, end=length, marks=marks)
    ranges: dict[str, dict[str, PayloadRange | None]] = {}
    for number in range(cursor.count("columns", each=6)):
        with cursor.within(f"column {number}"):
            column = cursor.jutf("column")
            indexes = ranges.setdefault(column, {})
            for _ in range(cursor.count("indexes", each=10)):
                kind = cursor.jutf("type")
                at = cursor.tell
                start, size = cursor.i32be("start"), cursor.i32be("length")
                if start != -1 and (start < length or size < 0):
                    raise cursor.wrong(
                        f"{kind} of {column!r} at {start}, {size} bytes, inside the head of {length}", "start", at=at
                    )
                indexes[kind] = None if start == -1 else PayloadRange(start, size)
    cursor.raw(cursor.i32be("redundant length"), "redundant")
    cursor.finish("head")
    return ranges


def payload(data: bytes, payload_range: PayloadRange, *, path: str | None = None) -> bytes:
    """Return a copy of one payload of a container. Raises `Corrupt`."""
    return bytes(payload_view(data, payload_range, path=path))


def payload_view(data: bytes | memoryview, payload_range: PayloadRange, *, path: str | None = None) -> memoryview:
    """Return a view of one payload of a container. Raises `Corrupt`."""
    end = payload_range.start + payload_range.length
    if not payload_range.start <= end <= len(data):
        # raises what is wrong
        Cursor(data, path=path, at=min(payload_range.start, len(data))).skip(payload_range.length, "payload")
    return memoryview(data)[payload_range.start : end]


def decode(data: bytes, *, path: str | None = None) -> dict[str, dict[str, bytes | None]]:
    """Return column -> index type -> payload (None: known to be empty). Raises `Corrupt`, `Unsupported`."""
    return {
        column: {
            kind: None if payload_range is None else payload(data, payload_range, path=path)
            for kind, payload_range in indexes.items()
        }
        for column, indexes in contents(data, path=path).items()
    }


def encode(indexes: Mapping[str, Mapping[str, bytes | None]]) -> bytes:
    """Return the container of some payloads, in the given order (Java's is that of a hash map, so any will do)."""
    names = {name: jutf(name) for columns in (indexes, *indexes.values()) for name in columns}
    length = (
        HEAD
        + 4
        + sum(len(names[column]) + 4 + sum(len(names[kind]) + 8 for kind in kinds) for column, kinds in indexes.items())
        + 4
    )
    head, body = bytearray(), bytearray()
    head += (
        MAGIC.to_bytes(8, "big")
        + VERSION.to_bytes(4, "big")
        + length.to_bytes(4, "big")
        + len(indexes).to_bytes(4, "big")
    )
    for column, kinds in indexes.items():
        head += names[column] + len(kinds).to_bytes(4, "big")
        for kind, data in kinds.items():
            start, size = (-1, 0) if data is None else (length + len(body), len(data))
            head += names[kind] + start.to_bytes(4, "big", signed=True) + size.to_bytes(4, "big")
            body += data or b""
    return bytes(head) + bytes(4) + bytes(body)
