"""Encode a task of a read as bytes: which splits to read, and which slice of a big merge.

    4c 4b 52 54 | u8 version 1                             "LKRT"
    i32 slice | i32 slices                                 0 of 1: all of it; else its index among that many slices
    i32 count | count × (u8 flags | i32 size | split)      splits as `model.split_bytes` draws them
    u32 CRC32 of everything before

Big endian. Flags: 1 the order of the files is the order of versions, 2 of two states the earlier one. Only a task of
one split has slices. A task names files by partition, bucket and name: how to reach them is in the context, which
travels beside it, once a job, so no secret is in these bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

from lakekit.codec.cursor import Cursor
from lakekit.errors import Corrupt, Unsupported
from lakekit.model import split_bytes

if TYPE_CHECKING:
    from lakekit.model.split import Split

MAGIC = b"LKRT"
VERSION = 1
_IN_ORDER, _BEFORE = 1, 2
_LEAST_BYTES = 5
"""The least bytes of a split with its flags and size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPiece:
    """A split and the order of its files.

    `in_order`: sequence numbers rise from file to file; `before`: of two states that are compared, the earlier one.
    """

    split: Split
    in_order: bool = False
    before: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """The splits that one Spark task reads.

    Or, of one split whose files are merged, the slice of number `slice` of `slices`.
    """

    pieces: tuple[SplitPiece, ...]
    slice: int = 0
    slices: int = 1


def encode(task: ReadTask) -> bytes:
    """Return the bytes of a task."""
    out = [MAGIC, bytes([VERSION]), _i32(task.slice), _i32(task.slices), _i32(len(task.pieces))]
    for piece in task.pieces:
        data = split_bytes.encode(piece.split)
        out += [bytes([_IN_ORDER * piece.in_order | _BEFORE * piece.before]), _i32(len(data)), data]
    body = b"".join(out)
    return body + crc32(body).to_bytes(4, "big")


def _i32(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)


def decode(data: bytes) -> ReadTask:
    """Return the task of some bytes.

    Raises: `Corrupt`; `Unsupported` for a later version.
    """
    if data[:4] != MAGIC:
        raise Corrupt(f"a task of a read begins with {MAGIC!r}, found {data[:4]!r}", offset=0, field="magic")
    cursor = Cursor(data, at=4, end=max(4, len(data) - 4))
    version = cursor.u8("version")
    if version != VERSION:
        msg = (
            f"a task of version {version}: this lakekit reads version {VERSION}. Install the same lakekit on the "
            "driver and the executors"
        )
        raise Unsupported(msg, feature="spark.read")
    if crc32(data[:-4]) != int.from_bytes(data[-4:], "big"):
        raise Corrupt("a task of a read does not fit its checksum", offset=len(data) - 4, field="crc")
    number, slices = cursor.i32be("slice"), cursor.i32be("slices")
    count = cursor.count("splits", each=_LEAST_BYTES)
    if not 0 <= number < slices or (slices > 1 and count != 1):
        raise cursor.wrong(f"slice {number} of {slices} of {count} splits", "slice")
    pieces = tuple(_piece(cursor) for _ in range(count))
    cursor.finish("task")
    return ReadTask(pieces=pieces, slice=number, slices=slices)


def _piece(cursor: Cursor) -> SplitPiece:
    flags = cursor.u8("flags")
    if flags & ~(_IN_ORDER | _BEFORE):
        raise cursor.wrong(f"flags {flags}", "flags")
    split = split_bytes.decode(cursor.raw(cursor.count("size", each=1), "split"))
    return SplitPiece(split=split, in_order=bool(flags & _IN_ORDER), before=bool(flags & _BEFORE))
