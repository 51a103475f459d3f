"""Avro object container files: the framing of manifests and of Avro data files.

    4f 62 6a 01                                  "Obj", 1
    map of bytes                                 metadata: avro.schema, avro.codec (absent: null)
    16 bytes                                     sync marker
    repeat: long count | long size | size bytes | sync marker      a block of `count` values, compressed together

A long is a zig-zag varint: 7 bits a byte, low bits first, high bit set on all bytes but the last; n is stored as 2n or
-2n-1. A map is blocks of `count | (bytes of the block, if the count is negative) | key, value ...` up to a count of 0.

`open_container` splits a file into inflated blocks, `open_blocks` leaves them compressed; `avro_columns.decode` turns
those of one or many files into Arrow columns at once; `write_container` frames encoded values.

Source: the Avro specification 1.11, "Object Container Files"; FORMAT.md 4.1.
"""

from __future__ import annotations

import bz2
import hashlib
import lzma
import zlib
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from lakekit.codec import avro_schema
from lakekit.codec.cursor import Cursor
from lakekit.errors import Corrupt, LakekitError, LimitExceeded, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from lakekit.codec.avro_schema import AvroNode

try:
    from compression import zstd  # type: ignore[import-not-found, unused-ignore] # Python 3.14
except ImportError:
    try:
        from backports import zstd  # required below Python 3.14
    except ImportError:
        zstd = None

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
SYNC_INTERVAL_BYTES = 64_000
"""A writer closes a block once it holds so many bytes, as the reference does."""
ZSTD_LEVEL = 1
MAX_SCHEMA_BYTES = 16 << 20
"""The size of a schema of 100,000 columns."""
_MAX_METADATA = 1_000
_ZSTD_WINDOW_LOG = 25
_XZ_MEMORY_BYTES = 40 << 20
_MAX_SHOWN = 60
_FALLBACK_CODEC = "snappy"
"""The codec used where another one compresses more tightly than `METADATA_LIMITS` allows a reader to accept.

It never compresses a block to less than a twentieth.
"""


class Limits(NamedTuple):
    """How much a file may hold, by its own size.

    Inflated bytes: `floor_bytes`, and 1024 times its size but at most `burst_bytes`, and `ratio` times its size.
    Values: `floor_values`, and `values_ratio` times its size. So a file of some kilobytes may be packed tightly, and
    still never asks for much memory.
    """

    floor_bytes: int
    burst_bytes: int
    ratio: int
    floor_values: int
    values_ratio: int

    def max_inflated_bytes(self, size_bytes: int) -> int:
        """Return the most that all blocks of a file of that size may inflate to."""
        return self.floor_bytes + min(1024 * size_bytes, self.burst_bytes) + self.ratio * size_bytes

    def max_values(self, size_bytes: int) -> int:
        """Return the most values that a file of that size may hold."""
        return self.floor_values + self.values_ratio * size_bytes


METADATA_LIMITS = Limits(floor_bytes=4 << 20, burst_bytes=16 << 20, ratio=128, floor_values=1 << 16, values_ratio=16)
"""Limits of manifests.

An entry has a random name, and takes some 50 bytes however well its other fields compress. Long keys and embedded
indexes may compress to nothing.
"""
DATA_LIMITS = Limits(floor_bytes=8 << 20, burst_bytes=16 << 20, ratio=4096, floor_values=1 << 18, values_ratio=4096)
"""Limits of data files: a block of 64,000 bytes of equal rows compresses to about 30 bytes with its frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One inflated block: its bytes, its number of values, and the file offset of its compressed bytes."""

    data: bytes
    count: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container file of inflated blocks. `schema` is the type of its values, `path` is for errors."""

    schema: AvroNode
    codec: str
    blocks: tuple[Block, ...]
    metadata: Mapping[str, bytes]
    path: str | None = None

    @property
    def count(self) -> int:
        """The number of values in the file."""
        return sum(block.count for block in self.blocks)

    @property
    def size(self) -> int:
        """The number of inflated bytes of all blocks."""
        return sum(len(block.data) for block in self.blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRange:
    """The position of a block: its first byte, its compressed bytes, and the number of its values."""

    offset: int
    start: int
    end: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedBlocks:
    """The blocks of a data file, still compressed: a file of a megabyte may inflate to gigabytes."""

    schema: AvroNode
    codec: str
    block_ranges: tuple[BlockRange, ...]
    file_data: bytes
    limits: Limits = DATA_LIMITS
    path: str | None = None

    @property
    def count(self) -> int:
        """The number of values in all blocks."""
        return sum(frame.count for frame in self.block_ranges)

    def inflate(self, frames: Iterable[BlockRange] | None = None) -> Iterator[tuple[BlockRange, Block]]:
        """Yield the blocks that hold values, or those of some `block_ranges`, each inflated when it is reached.

        Raises `Corrupt`, and `LimitExceeded` if they inflate beyond what a file of this size may.
        """
        with _name_file_in_failures(self.path):
            selected = self.block_ranges if frames is None else frames
            yield from _inflate_blocks(
                self.file_data, selected, self.codec, self.schema, self.limits.max_inflated_bytes(len(self.file_data))
            )


def is_avro(data: bytes) -> bool:
    """Return whether the bytes begin as an Avro container does."""
    return data[:4] == MAGIC


def open_blocks(data: bytes, *, path: str | None = None, limits: Limits = DATA_LIMITS) -> PackedBlocks:
    """Return schema and compressed blocks of an Avro data file.

    Raises `Corrupt` if the framing is broken, `LimitExceeded` for more values than a file of this size may hold,
    `Unsupported` for an unknown codec.
    """
    with _name_file_in_failures(path):
        return read_blocks(Cursor(data, path=path), limits)


def read_blocks(cursor: Cursor, limits: Limits) -> PackedBlocks:
    """Return the result of `open_blocks` for the file at the cursor; each block is one read."""
    metadata = _read_header(cursor)
    codec = _codec_of(metadata)
    schema = parse_header_schema(metadata)
    frames = tuple(_read_block_ranges(cursor, limits, codec))
    data = bytes(cursor.data)
    return PackedBlocks(
        schema=schema, codec=codec, block_ranges=frames, file_data=data, limits=limits, path=cursor.path
    )


def open_container(data: bytes, *, path: str | None = None, limits: Limits = METADATA_LIMITS) -> Container:
    """Return a container's header and inflated blocks.

    Raises `Corrupt` if the framing is broken, `LimitExceeded` if the file would inflate beyond `limits`,
    `Unsupported` for a codec unknown to Avro.
    """
    with _name_file_in_failures(path):
        cursor = Cursor(data)
        metadata = _read_header(cursor)
        schema = parse_header_schema(metadata)
        codec = _codec_of(metadata)
        frames = _read_block_ranges(cursor, limits, codec)
        inflated = _inflate_blocks(data, frames, codec, schema, limits.max_inflated_bytes(len(data)))
        blocks = tuple(block for _, block in inflated)
    return Container(schema=schema, codec=codec, blocks=blocks, metadata=metadata, path=path)


@contextmanager
def _name_file_in_failures(path: str | None) -> Iterator[None]:
    """Add the path of the file to the errors of a block of code."""
    try:
        yield
    except Corrupt as error:
        raise (error if path is None else error.at(path)) from None
    except Unsupported as error:
        where = "" if path is None else f"{path}: "
        raise Unsupported(f"{where}{error.message}", feature=error.feature, path=path) from None


def _codec_of(metadata: Mapping[str, bytes]) -> str:
    return metadata.get("avro.codec", b"null").decode("utf-8", "replace")


def read_long(data: bytes | memoryview, offset: int, field: str) -> tuple[int, int]:
    """Return the zig-zag varint at `offset`, and the offset after it."""
    raw = shift = 0
    start = offset
    while True:
        if offset >= len(data):
            raise Corrupt(f"{field} at offset {start}: the bytes end inside a number", offset=start, field=field)
        byte = data[offset]
        offset += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise Corrupt(f"{field} at offset {start}: a number of more than 10 bytes", offset=start, field=field)
    if raw >= 1 << 64:
        raise Corrupt(f"{field} at offset {start}: a number of more than 64 bits", offset=start, field=field)
    return (raw >> 1) ^ -(raw & 1), offset


def append_long(out: bytearray, value: int) -> None:
    """Append a zig-zag varint."""
    raw = (value << 1) ^ (value >> 63)
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)


def _read_long(cursor: Cursor, field: str) -> int:
    """Read one of the few numbers of the framing."""
    value, after = read_long(cursor.data, cursor.at, field)
    cursor.advance(after, field, value)
    return value


def _read_bytes(cursor: Cursor, field: str) -> bytes:
    data, at = cursor.data, cursor.at
    length, start = read_long(data, at, field)
    if not 0 <= length <= len(data) - start:
        raise Corrupt(
            f"{field} at offset {at}: a length of {length}, {len(data) - start} bytes left", offset=at, field=field
        )
    value = bytes(data[start : start + length])
    if cursor.spans is not None:
        cursor.advance(start, f"{field} length", length)
    cursor.advance(start + length, field, value)
    return value


def read_header(data: bytes) -> tuple[dict[str, bytes], int]:
    """Return the metadata, and the offset after the sync marker. Raises `Corrupt`, `LimitExceeded`."""
    cursor = Cursor(data)
    return _read_header(cursor), cursor.tell


def _read_header(cursor: Cursor) -> dict[str, bytes]:
    data = cursor.data
    if data[:4] != MAGIC:
        raise Corrupt(f"not an Avro file: it begins with {data[:4].hex(' ') or 'nothing'}", offset=0, field="magic")
    metadata: dict[str, bytes] = {}
    cursor.advance(4, "magic", MAGIC)
    while True:
        count = _read_long(cursor, "metadata count")
        if count < 0:
            count = -count
            _read_long(cursor, "metadata size")
        if count == 0:
            break
        if count + len(metadata) > _MAX_METADATA:
            raise LimitExceeded(
                f"more than {_MAX_METADATA} metadata entries at offset {cursor.at}",
                offset=cursor.at,
                field="metadata count",
            )
        for _ in range(count):
            name = _read_bytes(cursor, "metadata key").decode("utf-8", "replace")
            cursor.set_meaning(name)
            metadata[name] = value = _read_bytes(cursor, "metadata value" if cursor.spans is None else name)
            if cursor.spans is not None:
                cursor.set_meaning(value.decode("utf-8", "replace"))
    if cursor.remaining < SYNC_BYTES:
        raise Corrupt(f"the header ends inside its sync marker at offset {cursor.at}", offset=cursor.at, field="sync")
    cursor.raw(SYNC_BYTES, "sync")
    return metadata


def parse_header_schema(metadata: Mapping[str, bytes]) -> AvroNode:
    """Return the type of a container's values. Raises `Corrupt`, `LimitExceeded`, `Unsupported`."""
    text = metadata.get("avro.schema")
    if text is None:
        raise Corrupt("the header has no avro.schema", offset=4, field="avro.schema")
    if len(text) > MAX_SCHEMA_BYTES:
        raise LimitExceeded(
            f"avro.schema is {len(text)} bytes long, {MAX_SCHEMA_BYTES} are allowed", offset=4, field="avro.schema"
        )
    try:
        return avro_schema.parse_schema(text)
    except Corrupt as error:
        raise type(error)(error.message, offset=len(MAGIC), field=error.field) from None


def _read_block_ranges(cursor: Cursor, limits: Limits, codec: str) -> Iterator[BlockRange]:
    """Yield the frame of each block after the header; nothing is inflated. `codec` is its name in spans."""
    data = cursor.data
    sync = data[cursor.at - SYNC_BYTES : cursor.at]
    values = limits.max_values(len(data))
    while cursor.remaining:
        start = cursor.at
        count = _read_long(cursor, "block count")
        size = _read_long(cursor, "block size")
        at = cursor.at
        left = max(0, len(data) - at - SYNC_BYTES)
        if count < 0 or not 0 <= size <= len(data) - at - SYNC_BYTES:
            problem = f"{count} values in {size} bytes, {left} bytes left"
            raise Corrupt(f"block at offset {start}: {problem}", offset=start, field="block size")
        if data[at + size : at + size + SYNC_BYTES] != sync:
            problem = f"no sync marker after its {size} bytes"
            raise Corrupt(f"block at offset {start}: {problem}", offset=start, field="sync")
        if cursor.spans is not None:
            cursor.record(at, size, "block", f"{count} values by {codec}")
        cursor.at = at + size
        cursor.advance(at + size + SYNC_BYTES, "sync", sync)
        values -= count
        if values < 0:
            problem = f"more than {limits.max_values(len(data))} values in a file of {len(data)} bytes"
            raise LimitExceeded(f"block at offset {start}: {problem}", offset=start, field="block count")
        yield BlockRange(offset=start, start=at, end=at + size, count=count)


def _inflate_blocks(
    data: bytes, frames: Iterable[BlockRange], codec: str, schema: AvroNode, budget: int
) -> Iterator[tuple[BlockRange, Block]]:
    """Yield the blocks that hold values, inflated one at a time, `budget` bytes together at most."""
    inflate = _INFLATE_OF_CODEC.get(codec)
    if inflate is None:
        raise Unsupported(
            f"Avro codec {codec[:_MAX_SHOWN]!r}; known are {', '.join(_INFLATE_OF_CODEC)}",
            feature=f"avro.codec.{codec[:_MAX_SHOWN]}",
        )
    for frame in frames:
        where = f"block at offset {frame.offset}"
        try:
            body = inflate(data[frame.start : frame.end], budget)
        except LakekitError as error:
            raise type(error)(f"{where}: {error.args[0]}", offset=frame.offset, field="block") from None
        budget -= len(body)
        if frame.count * schema.min_bytes > len(body):
            problem = f"{frame.count} values do not fit into {len(body)} bytes"
            raise Corrupt(f"{where}: {problem}", offset=frame.offset, field="block count")
        if body and not frame.count:
            raise Corrupt(f"{where}: no values in {len(body)} bytes", offset=frame.offset, field="block count")
        if frame.count:
            yield frame, Block(data=body, count=frame.count, offset=frame.start)


# ---- codecs: (compressed bytes, most bytes allowed) -> inflated bytes ------------------------------------------------


def _make_limit_error(max_bytes: int) -> LimitExceeded:
    return LimitExceeded(f"it inflates to more than the {max_bytes} bytes that a file of this size may", field="block")


def _inflate_null(data: bytes, max_bytes: int) -> bytes:
    if len(data) > max_bytes:
        raise _make_limit_error(max_bytes)
    return data


def _inflate_zlib(data: bytes, max_bytes: int) -> bytes:
    decompressor = zlib.decompressobj(-15)
    try:
        inflated = decompressor.decompress(data, max_bytes + 1)
    except zlib.error as error:
        raise Corrupt(f"deflate: {error}", field="block") from None
    return _check_inflated(inflated, max_bytes, is_complete=decompressor.eof, codec="deflate")


def _inflate_bzip2(data: bytes, max_bytes: int) -> bytes:
    decompressor = bz2.BZ2Decompressor()
    try:
        inflated = decompressor.decompress(data, max_bytes + 1)
    except (OSError, ValueError) as error:
        raise Corrupt(f"bzip2: {error}", field="block") from None
    return _check_inflated(inflated, max_bytes, is_complete=decompressor.eof, codec="bzip2")


def _inflate_xz(data: bytes, max_bytes: int) -> bytes:
    decompressor = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)
    try:
        inflated = decompressor.decompress(data, max_bytes + 1)
    except lzma.LZMAError as error:
        if "limit" in str(error).lower():
            raise LimitExceeded(f"xz: {error}", field="block") from None
        raise Corrupt(f"xz: {error}", field="block") from None
    return _check_inflated(inflated, max_bytes, is_complete=decompressor.eof, codec="xz")


def _inflate_snappy(data: bytes, max_bytes: int) -> bytes:
    if len(data) < 5:
        raise Corrupt("snappy: fewer than 5 bytes", field="block")
    length = shift = 0
    for byte in data[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if length > max_bytes:
        raise _make_limit_error(max_bytes)
    try:
        inflated: bytes = pa.Codec("snappy").decompress(data[:-4], length, asbytes=True)
    except (OSError, ValueError) as error:
        raise Corrupt(f"snappy: {error}", field="block") from None
    if zlib.crc32(inflated) != int.from_bytes(data[-4:], "big"):
        raise Corrupt("snappy: the checksum of the inflated bytes differs", field="block")
    return inflated


def _inflate_zstandard(data: bytes, max_bytes: int) -> bytes:
    if zstd is None:
        return _inflate_zstandard_by_arrow(data, max_bytes)
    decompressor = zstd.ZstdDecompressor(options=_ZSTD_OPTIONS)
    try:
        inflated = decompressor.decompress(data, max_bytes + 1)
    except zstd.ZstdError as error:
        if "memory" in str(error) or "window" in str(error).lower():
            raise LimitExceeded(f"zstandard: {error}", field="block") from None
        raise Corrupt(f"zstandard: {error}", field="block") from None
    return _check_inflated(inflated, max_bytes, is_complete=decompressor.eof, codec="zstandard")


def _inflate_zstandard_by_arrow(data: bytes, max_bytes: int) -> bytes:
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            inflated: bytes = stream.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        raise Corrupt(f"zstandard: {error}", field="block") from None
    return _check_inflated(inflated, max_bytes, is_complete=True, codec="zstandard")


def _check_inflated(inflated: bytes, max_bytes: int, *, is_complete: bool, codec: str) -> bytes:
    if len(inflated) > max_bytes:
        raise _make_limit_error(max_bytes)
    if not is_complete:
        raise Corrupt(f"{codec}: the compressed bytes end too early", field="block")
    return inflated


_ZSTD_OPTIONS: Any = None if zstd is None else {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
_INFLATE_OF_CODEC: dict[str, Callable[[bytes, int], bytes]] = {
    "null": _inflate_null,
    "deflate": _inflate_zlib,
    "snappy": _inflate_snappy,
    "zstandard": _inflate_zstandard,
    "bzip2": _inflate_bzip2,
    "xz": _inflate_xz,
}


# ---- writing ---------------------------------------------------------------------------------------------------------


def to_avro_codec(compression: str) -> str:
    """Return the Avro codec of a compression option: `zstd` is `zstandard`. Raises `Unsupported`."""
    name = compression.lower()
    name = "zstandard" if name == "zstd" else name
    if name not in _INFLATE_OF_CODEC:
        raise Unsupported(
            f"Avro files cannot be compressed by {compression!r}; known are {', '.join(_INFLATE_OF_CODEC)}",
            feature=f"avro.codec.{name}",
        )
    return name


@lru_cache(maxsize=32)
def _zstd_compressor(level: int) -> Callable[[bytes], bytes]:
    """Return a compressor of a level: one for all blocks, as creating it takes longer than a small block."""
    if zstd is not None:
        with suppress(ValueError):  # a level that it has not
            return partial(zstd.ZstdCompressor(level=level).compress, mode=zstd.ZstdCompressor.FLUSH_FRAME)
    return partial(pa.Codec("zstd", compression_level=level).compress, asbytes=True)


def compress_block(data: bytes, codec: str, level: int = ZSTD_LEVEL) -> bytes:
    """Return a block's bytes compressed by an Avro codec; `level` is that of zstandard."""
    match codec:
        case "null":
            return data
        case "deflate":
            compressor = zlib.compressobj(wbits=-15)
            return compressor.compress(data) + compressor.flush()
        case "snappy":
            packed: bytes = pa.Codec("snappy").compress(data, asbytes=True)
            return packed + zlib.crc32(data).to_bytes(4, "big")
        case "zstandard":
            return _zstd_compressor(level)(data)
        case "bzip2":
            return bz2.compress(data)
        case "xz":
            return lzma.compress(data, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64)
    raise Unsupported(f"Avro codec {codec!r}; known are {', '.join(_INFLATE_OF_CODEC)}", feature=f"avro.codec.{codec}")


def write_container(
    schema: bytes,
    values: Iterable[bytes],
    *,
    codec: str = "zstandard",
    level: int = ZSTD_LEVEL,
    sync: bytes | None = None,
    interval: int = SYNC_INTERVAL_BYTES,
) -> bytes:
    """Return a container of encoded values.

    The sync marker, unless given, is derived from the content, so that equal content makes equal bytes. What would
    inflate beyond the limits of metadata is packed less tightly, whatever `codec` says: a writer must be able to read
    its own files.
    """
    return _encode_file(schema, _group_into_bodies(((1, value) for value in values), interval), codec, level, sync)


def join_containers(containers: Sequence[Container], *, codec: str = "zstandard", level: int = ZSTD_LEVEL) -> bytes:
    """Return one container of the values of several containers with one schema text, without decoding them."""
    values = ((block.count, block.data) for container in containers for block in container.blocks)
    bodies = _group_into_bodies(values, SYNC_INTERVAL_BYTES)
    return _encode_file(containers[0].metadata["avro.schema"], bodies, codec, level, None)


def _group_into_bodies(values: Iterable[tuple[int, bytes]], interval: int) -> list[tuple[int, bytes]]:
    """Group encoded values, each with a count, into the bodies of blocks."""
    bodies: list[tuple[int, bytes]] = []
    body, count = bytearray(), 0
    for number, value in values:
        body += value
        count += number
        if len(body) >= interval:
            bodies.append((count, bytes(body)))
            body, count = bytearray(), 0
    if count:
        bodies.append((count, bytes(body)))
    return bodies


@lru_cache(maxsize=32)
def _header_bytes(schema: bytes, codec: str) -> bytes:
    """Return a header up to its sync marker."""
    out = bytearray(MAGIC)
    metadata = {b"avro.schema": schema, b"avro.codec": codec.encode()}
    append_long(out, len(metadata))
    for key, text in metadata.items():
        for part in (key, text):
            append_long(out, len(part))
            out += part
    return bytes(out + b"\0")


def _encode_file(
    schema: bytes, bodies: Sequence[tuple[int, bytes]], codec: str, level: int, sync: bytes | None
) -> bytes:
    """Return the bytes of a file: its header, and each body compressed."""
    if sync is None:
        digest = hashlib.blake2b(schema, digest_size=SYNC_BYTES)
        for _, part in bodies:
            digest.update(part)
        sync = digest.digest()
    out = bytearray(_header_bytes(schema, codec))
    out += sync
    for number, part in bodies:
        packed = compress_block(part, codec, level)
        append_long(out, number)
        append_long(out, len(packed))
        out += packed + sync
    if codec != _FALLBACK_CODEC and sum(len(part) for _, part in bodies) > METADATA_LIMITS.max_inflated_bytes(len(out)):
        return _encode_file(schema, bodies, _FALLBACK_CODEC, level, sync)
    return bytes(out)
