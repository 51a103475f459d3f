"""Index files of a bucket: deletion vectors, and the hashes of its keys (HASH, dynamic buckets).

    file       01 | entry | entry …
    entry      i32 BE length | data | i32 BE CRC-32 of data            length: bytes of data
    32 bit     5e43f2d0 | roaring bitmap
    64 bit     d1d33964 | i64 LE n | n × (i32 LE high half, ascending | roaring bitmap of the low halves)

    {2, 3}     00000018  5e43f2d0 3a300000 01000000 0000 0100 10000000 0200 0300  c898f63d

A vector holds the positions of deleted rows of one data file, counted from 0 before any filter. Index manifests name an
entry by (offset, length): the length is that of the data in the 32 bit form, of the data + 8 in the 64 bit form.

    HASH       i32 BE | i32 BE | …           a hash a key: no header, no order, no duplicates
               5759f99e ee18d2a5 4fe4bbf0    the keys 1, 0, 2 of an INT key (1465514398 is the hash of 1)

Source: FORMAT.md 6.4, 8; `BitmapDeletionVector`, `Bitmap64DeletionVector`, `DeletionVectorsIndexFile`, `HashIndexFile`.
"""

from __future__ import annotations

import zlib
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lakekit.codec import roaring
from lakekit.codec.cursor import Cursor
from lakekit.errors import Corrupt, Unsupported, ValueOutOfRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


INDEX_FILE_VERSION, VERSION_BYTES = 1, 1
"""The version of a file of deletion vectors, and the length of what says it."""
MAGIC_32 = bytes.fromhex("5e43f2d0")
MAGIC_64 = bytes.fromhex("d1d33964")
ENTRY_OVERHEAD_BYTES = 8
"""Bytes of an entry besides its data: length and checksum."""


class DeletionVectorRange(NamedTuple):
    """One entry of a file as the index manifest lists it."""

    offset: int
    length: int
    cardinality: int


def decode_deletion_vector(
    data: bytes, *, max_positions: int | None = None, path: str | None = None
) -> NDArray[np.uint32] | NDArray[np.uint64]:
    """Return the ascending positions of an entry's data, magic included.

    Raises `LimitExceeded` for more than `max_positions` positions (None: the bound of `roaring.layout_positions`),
    `Corrupt`.
    """
    return _read_positions(Cursor(data, path=path), max_positions)


def _read_positions(cursor: Cursor, max_positions: int | None) -> NDArray[np.uint32] | NDArray[np.uint64]:
    magic = cursor.raw(4, "magic")
    if magic == MAGIC_32:
        with cursor.within(section="FORMAT 0.2"):
            layout = roaring.read_layout(cursor, "positions")
        cursor.expect_end("deletion vector")
        return roaring.layout_positions(layout, max_positions=max_positions)
    if magic != MAGIC_64:
        raise cursor.make_error(f"5e43f2d0 (32 bit) or d1d33964 (64 bit) wanted, {magic.hex()} found", "magic", at=0)
    count = cursor.i64le("bitmaps")
    if not 0 <= count * 12 <= cursor.remaining:
        raise cursor.make_error(f"{count} bitmaps in {cursor.remaining} bytes", "bitmaps", at=4)
    layouts: list[tuple[int, roaring.RoaringLayout]] = []
    for _ in range(count):
        at = cursor.tell
        high = cursor.i32le("key")
        if (layouts and high <= layouts[-1][0]) or high < 0:
            raise cursor.make_error(f"key {high} out of order", "key", at=at)
        with cursor.within(f"bitmap {len(layouts)}", section="FORMAT 0.2"):
            layouts.append((high, roaring.read_layout(cursor, "positions", base_position=high << 32)))
    cursor.expect_end("deletion vector")
    sizes = [sum(layout.cardinalities) for _, layout in layouts]
    roaring.check_position_count(sum(sizes), len(cursor.data), max_positions, width=8, path=cursor.path)
    out, at = np.empty(sum(sizes), np.uint64), 0
    for (high, layout), size in zip(layouts, sizes, strict=True):
        out[at : at + size] = roaring.layout_positions(layout, max_positions=size)
        out[at : at + size] |= np.uint64(high << 32)
        at += size
    return out


def encode_deletion_vector(positions: NDArray[np.unsignedinteger], bits: int = 32) -> bytes:
    """Return the data of an entry of ascending positions, magic included.

    `bits` is 32 or 64 (`deletion-vectors.bitmap64`).
    """
    top = int(positions[-1]) if len(positions) else -1
    if bits == 32:
        if top >= 2**32:
            msg = f"row position {top} needs deletion-vectors.bitmap64"
            raise ValueOutOfRange(msg)
        return MAGIC_32 + roaring.encode_positions(positions)
    out = [MAGIC_64, ((top >> 32) + 1).to_bytes(8, "little")]
    wide = positions.astype(np.uint64)
    for high in range((top >> 32) + 1):  # every key up to the last, as Java writes: gaps are empty bitmaps
        begin, end = np.searchsorted(wide, np.array([high << 32, high + 1 << 32], np.uint64))
        out += [high.to_bytes(4, "little"), roaring.encode_positions(wide[begin:end] & np.uint64(0xFFFFFFFF))]
    return b"".join(out)


def read_vector_entry(cursor: Cursor, *, max_positions: int | None = None) -> NDArray[np.uint32] | NDArray[np.uint64]:
    """Return the positions of the entry at the cursor."""
    start = cursor.tell
    length = cursor.i32be("length")
    data = cursor.raw(length, "data")
    stored = cursor.i32be("crc") & 0xFFFFFFFF
    cursor.set_meaning(f"{stored:08x}")
    computed = zlib.crc32(data)
    if stored != computed:
        raise cursor.make_error(
            f"checksum {stored:08x} stored, {computed:08x} computed: the vector is damaged",
            "crc",
            at=start + 4 + length,
        )
    with cursor.within(at=start + 4):
        return _read_positions(cursor.nested(data), max_positions)


def decode_vector_entry(
    data: bytes, *, max_positions: int | None = None, path: str | None = None
) -> NDArray[np.uint32] | NDArray[np.uint64]:
    """Return the positions of an entry `length | data | crc`; bytes after it are ignored.

    Raises `Corrupt`.
    """
    return read_vector_entry(Cursor(data, path=path), max_positions=max_positions)


def encode_deletion_vectors(vectors: Sequence[NDArray[np.unsignedinteger]], bits: int = 32) -> list[bytes]:
    """Return `encode_deletion_vector` of each vector.

    Vectors of files with fewer than 2^32 rows are encoded at once, which costs about as much as one.
    """
    if not vectors or any(len(positions) and int(positions[-1]) >= 2**32 for positions in vectors):
        return [encode_deletion_vector(positions, bits) for positions in vectors]
    encoded, ends = roaring.encode_bitmaps(np.concatenate(vectors), np.cumsum([0, *map(len, vectors)]))
    heads = [
        MAGIC_32 if bits == 32 else _ONE_BITMAP_HEAD_64 if len(positions) else _EMPTY_VECTOR_64 for positions in vectors
    ]
    bodies = [encoded[start:end].tobytes() for start, end in pairwise(ends.tolist())]
    return [head if head is _EMPTY_VECTOR_64 else head + body for head, body in zip(heads, bodies, strict=True)]


_EMPTY_VECTOR_64 = MAGIC_64 + bytes(8)
_ONE_BITMAP_HEAD_64 = MAGIC_64 + (1).to_bytes(8, "little") + bytes(4)
"""The first bytes of a 64 bit vector whose positions all fit into 32 bits: the number of bitmaps, and the first key."""


def encode_vector_entry(positions: NDArray[np.unsignedinteger], bits: int = 32) -> bytes:
    """Return `length | data | crc`."""
    return _add_length_and_crc(encode_deletion_vector(positions, bits))


def _add_length_and_crc(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data + zlib.crc32(data).to_bytes(4, "big")


def decode_vector_file(data: bytes, *, path: str | None = None) -> list[NDArray[np.uint32] | NDArray[np.uint64]]:
    """Return every vector of an index file, as `read_vectors`."""
    return read_vectors(Cursor(data, path=path))


def read_vectors(cursor: Cursor) -> list[NDArray[np.uint32] | NDArray[np.uint64]]:
    """Return every vector of the index file at the cursor, in file order.

    Raises:
        Corrupt: the file is damaged.
        Unsupported: the file is of a later version.
    """
    version = cursor.u8("version")
    if version != INDEX_FILE_VERSION:
        where = "" if cursor.path is None else f"{cursor.path}: "
        msg = f"{where}deletion vector files of version {version} are newer than lakekit; version 1 is known"
        raise Unsupported(msg, feature="file.deletion-vectors", path=cursor.path)
    vectors: list[NDArray[np.uint32] | NDArray[np.uint64]] = []
    while cursor.remaining:
        with cursor.within(f"vector {len(vectors)}"):
            vectors.append(read_vector_entry(cursor))
    return vectors


def encode_vector_file(
    vectors: Sequence[NDArray[np.unsignedinteger]], bits: int = 32
) -> tuple[bytes, list[DeletionVectorRange]]:
    """Return an index file and the range of each vector, as `_DELETIONS_VECTORS_RANGES` lists it.

    The length in a range differs between 32 and 64 bit.
    """
    out, ranges = bytearray([INDEX_FILE_VERSION]), []
    for positions, data in zip(vectors, encode_deletion_vectors(vectors, bits), strict=True):
        entry = _add_length_and_crc(data)
        ranges.append(
            DeletionVectorRange(
                len(out), len(entry) - ENTRY_OVERHEAD_BYTES if bits == 32 else len(entry), len(positions)
            )
        )
        out += entry
    return bytes(out), ranges


# ---- hash index ------------------------------------------------------------


def decode_hash_index(data: bytes, *, path: str | None = None) -> NDArray[np.int32]:
    """Return the hashes in file order.

    Raises:
        Corrupt: the file is no whole number of hashes.
    """
    hashes = np.frombuffer(data[: len(data) & ~3], ">i4").astype(np.int32)
    if len(data) % 4:
        where = "" if path is None else f"{path}: "
        msg = f"{where}a HASH index of {len(data)} bytes: hashes have 4 bytes each, the last one is cut"
        raise Corrupt(msg, path=path, offset=len(data) & ~3, field="hash")
    return hashes


def encode_hash_index(hashes: NDArray[np.int32]) -> bytes:
    """Return the file of some hashes, in their order."""
    return hashes.astype(">i4").tobytes()
