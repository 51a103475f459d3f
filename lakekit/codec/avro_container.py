"""Avro object container files: the frame around manifests and around Avro data files.

    4f 62 6a 01                                  "Obj", 1
    map of bytes                                 metadata: avro.schema, avro.codec (absent: null)
    16 bytes                                     sync marker
    repeat: long count | long size | size bytes | sync marker      a block of `count` values, compressed together

A long is a zig-zag varint: 7 bits a byte, low bits first, high bit set on all bytes but the last; n is stored as 2n or -2n-1. A map is blocks of
`count | (bytes of the block, if the count is negative) | key, value ...` up to a count of 0.

`open_container` cuts a file into inflated blocks, `open_blocks` leaves them compressed; `avro_columns.decode` turns those of one
or many files into Arrow columns at once; `write` frames encoded values. Source: the Avro specification 1.11, "Object Container
Files"; FORMAT.md 4.1.
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
from lakekit.errors import Corrupt, LakekitError, LimitExceeded, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from lakekit.codec.avro_schema import AvroNode
    from lakekit.codec.marks import SpanRecorder

try:
    from compression import zstd  # type: ignore[import-not-found, unused-ignore] # Python 3.14
except ImportError:
    try:
        from backports import zstd  # what fastavro brings along before Python 3.14
    except ImportError:
        zstd = None

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
SYNC_INTERVAL_BYTES = 64_000
"""A writer closes a block once it holds so many bytes, as the reference does."""
ZSTD_LEVEL = 1
MAX_SCHEMA_BYTES = 16 << 20
"""A schema of 100,000 columns."""
_MAX_METADATA = 1_000
_ZSTD_WINDOW_LOG = 25
_XZ_MEMORY_BYTES = 40 << 20
_MAX_SHOWN = 60
_FALLBACK_CODEC = "snappy"
"""The codec of what another one packs more tightly than a reader may believe: a block is never less than a twentieth of what it inflates to."""


class Limits(NamedTuple):
    """How much a file may hold, by its own size.

    Inflated bytes: `floor_bytes`, and 1024 times its size but at most `burst_bytes`, and `ratio` times its size. Values: `floor_values`, and `values_ratio`
    times its size. So a file of some kilobytes may be packed tightly, and still never asks for much memory.
    """

    floor_bytes: int
    burst_bytes: int
    ratio: int
    floor_values: int
    values_ratio: int

    def inflated_bytes(self, size_bytes: int) -> int:
        """The most that all blocks of a file of that size may inflate to."""
        return self.floor_bytes + min(1024 * size_bytes, self.burst_bytes) + self.ratio * size_bytes

    def values(self, size_bytes: int) -> int:
        """The most values that a file of that size may hold."""
        return self.floor_values + self.values_ratio * size_bytes


METADATA = Limits(floor_bytes=4 << 20, burst_bytes=16 << 20, ratio=128, floor_values=1 << 16, values_ratio=16)
"""Manifests: an entry has a random name, and takes some 50 bytes however well the rest of it shrinks. Long keys and embedded indexes may shrink to nothing."""
DATA = Limits(floor_bytes=8 << 20, burst_bytes=16 << 20, ratio=4096, floor_values=1 << 18, values_ratio=4096)
"""Data files: a block of 64,000 bytes of equal rows shrinks to about 30 bytes with its frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One inflated block: its bytes, how many values they hold, and where the compressed bytes start in the file."""

    data: bytes
    count: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container file cut into blocks. `schema` is the parsed type of its values, `metadata` the header's map, `path` the file's name for errors."""

    schema: AvroNode
    codec: str
    blocks: tuple[Block, ...]
    metadata: Mapping[str, bytes]
    path: str | None = None

    @property
    def count(self) -> int:
        """How many values the file holds."""
        return sum(block.count for block in self.blocks)

    @property
    def size(self) -> int:
        """How many inflated bytes they take."""
        return sum(len(block.data) for block in self.blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The place of a block in a file: its first byte, its compressed bytes, and how many values they hold."""

    offset: int
    start: int
    end: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedBlocks:
    """The blocks of a data file, still compressed: a file of a megabyte may inflate to gigabytes."""

    schema: AvroNode
    codec: str
    frames: tuple[Frame, ...]
    file: bytes
    limits: Limits = DATA
    path: str | None = None

    @property
    def count(self) -> int:
        """The number of values in all blocks."""
        return sum(frame.count for frame in self.frames)

    def inflate(self, frames: Iterable[Frame] | None = None) -> Iterator[tuple[Frame, Block]]:
        """Yield the blocks that hold values, or those of some `frames`, each inflated when it is reached.

        Raises `Corrupt`, and `LimitExceeded` where they inflate beyond what a file of this size may.
        """
        with _name_file_in_failures(self.path):
            chosen = self.frames if frames is None else frames
            yield from _inflate(self.file, chosen, self.codec, self.schema, self.limits.inflated_bytes(len(self.file)))


def is_avro(data: bytes) -> bool:
    """Whether the bytes begin as an Avro container does."""
    return data[:4] == MAGIC


def open_blocks(data: bytes, *, path: str | None = None, limits: Limits = DATA, marks: SpanRecorder | None = None) -> PackedBlocks:
    """Return the schema of an Avro data file and its blocks, none of them inflated yet. `marks` gets the frame.

    Raises `Corrupt` where the frame breaks, `LimitExceeded` for more values than a file of this size may hold,
    `Unsupported` for an unknown codec.
    """
    with _name_file_in_failures(path):
        metadata, at = read_header(data, marks)
        codec = _codec_of(metadata)
        schema = schema_of(metadata)
        frames = tuple(_frames(data, at, limits, marks, codec))
        return PackedBlocks(schema=schema, codec=codec, frames=frames, file=data, limits=limits, path=path)


def open_container(data: bytes, *, path: str | None = None, limits: Limits = METADATA, marks: SpanRecorder | None = None) -> Container:
    """A container's header and inflated blocks. `marks` gets the frame; the bytes of a block are one mark.

    Raises `Corrupt` where the frame breaks, `LimitExceeded` where it would inflate beyond `limits`, `Unsupported` for a codec that Avro does not know.
    """
    with _name_file_in_failures(path):
        metadata, at = read_header(data, marks)
        schema = schema_of(metadata)
        codec = _codec_of(metadata)
        frames = _frames(data, at, limits, marks, codec)
        inflated = _inflate(data, frames, codec, schema, limits.inflated_bytes(len(data)))
        found = tuple(block for _, block in inflated)
    return Container(schema=schema, codec=codec, blocks=found, metadata=metadata, path=path)


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


def read_long(data: bytes, at: int, field: str) -> tuple[int, int]:
    """A zig-zag varint at `at`, and the offset after it."""
    raw = shift = 0
    start = at
    while True:
        if at >= len(data):
            raise Corrupt(f"{field} at offset {start}: the bytes end inside a number", offset=start, field=field)
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise Corrupt(f"{field} at offset {start}: a number of more than 10 bytes", offset=start, field=field)
    if raw >= 1 << 64:
        raise Corrupt(f"{field} at offset {start}: a number of more than 64 bits", offset=start, field=field)
    return (raw >> 1) ^ -(raw & 1), at


def put_long(out: bytearray, value: int) -> None:
    """Appends a zig-zag varint."""
    raw = (value << 1) ^ (value >> 63)
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)


def _read_long(data: bytes, at: int, field: str, marks: SpanRecorder | None) -> tuple[int, int]:
    """`read_long` for the frame's own numbers, which are few: marked where somebody looks."""
    value, after = read_long(data, at, field)
    if marks is not None:
        marks.add(at, after - at, field, value)
    return value, after


def _read_bytes(data: bytes, at: int, field: str, marks: SpanRecorder | None) -> tuple[bytes, int]:
    length, start = read_long(data, at, field)
    if not 0 <= length <= len(data) - start:
        raise Corrupt(f"{field} at offset {at}: a length of {length}, {len(data) - start} bytes left", offset=at, field=field)
    found = data[start : start + length]
    if marks is not None:
        marks.add(at, start - at, f"{field} length", length)
        marks.add(start, length, field, found)
    return found, start + length


def read_header(data: bytes, marks: SpanRecorder | None = None) -> tuple[dict[str, bytes], int]:
    """The metadata of a container, and the offset after its sync marker. Raises `Corrupt`, `LimitExceeded`."""
    if data[:4] != MAGIC:
        raise Corrupt(f"not an Avro file: it begins with {data[:4].hex(' ') or 'nothing'}", offset=0, field="magic")
    metadata: dict[str, bytes] = {}
    at = 4
    if marks is not None:
        marks.add(0, 4, "magic", MAGIC)
    while True:
        count, at = _read_long(data, at, "metadata count", marks)
        if count < 0:
            count = -count
            _, at = _read_long(data, at, "metadata size", marks)
        if count == 0:
            break
        if count + len(metadata) > _MAX_METADATA:
            raise LimitExceeded(f"more than {_MAX_METADATA} metadata entries at offset {at}", offset=at, field="metadata count")
        for _ in range(count):
            key, at = _read_bytes(data, at, "metadata key", marks)
            name = key.decode("utf-8", "replace")
            if marks is not None:
                marks.means(name)
            value, at = _read_bytes(data, at, "metadata value" if marks is None else name, marks)
            if marks is not None:
                marks.means(value.decode("utf-8", "replace"))
            metadata[name] = value
    if len(data) - at < SYNC_BYTES:
        raise Corrupt(f"the header ends inside its sync marker at offset {at}", offset=at, field="sync")
    if marks is not None:
        marks.add(at, SYNC_BYTES, "sync", data[at : at + SYNC_BYTES])
    return metadata, at + SYNC_BYTES


def schema_of(metadata: Mapping[str, bytes]) -> AvroNode:
    """The type of the values that a container's metadata declare. Raises `Corrupt`, `LimitExceeded`, `Unsupported`."""
    text = metadata.get("avro.schema")
    if text is None:
        raise Corrupt("the header has no avro.schema", offset=4, field="avro.schema")
    if len(text) > MAX_SCHEMA_BYTES:
        raise LimitExceeded(f"avro.schema is {len(text)} bytes long, {MAX_SCHEMA_BYTES} are allowed", offset=4, field="avro.schema")
    try:
        return avro_schema.parse(text)
    except Corrupt as error:
        raise type(error)(error.message, offset=len(MAGIC), field=error.field) from None


def _frames(data: bytes, at: int, limits: Limits, marks: SpanRecorder | None, codec: str) -> Iterator[Frame]:
    """Yield the place of each block behind the header; nothing is inflated. `codec` is the name that marks show."""
    sync = data[at - SYNC_BYTES : at]
    values = limits.values(len(data))
    while at < len(data):
        start = at
        count, at = _read_long(data, at, "block count", marks)
        size, at = _read_long(data, at, "block size", marks)
        left = max(0, len(data) - at - SYNC_BYTES)
        if count < 0 or not 0 <= size <= len(data) - at - SYNC_BYTES:
            what = f"{count} values in {size} bytes, {left} bytes left"
            raise Corrupt(f"block at offset {start}: {what}", offset=start, field="block size")
        if data[at + size : at + size + SYNC_BYTES] != sync:
            what = f"no sync marker after its {size} bytes"
            raise Corrupt(f"block at offset {start}: {what}", offset=start, field="sync")
        if marks is not None:
            marks.add(at, size, "block", f"{count} values by {codec}")
            marks.add(at + size, SYNC_BYTES, "sync", sync)
        values -= count
        if values < 0:
            what = f"more than {limits.values(len(data))} values in a file of {len(data)} bytes"
            raise LimitExceeded(f"block at offset {start}: {what}", offset=start, field="block count")
        yield Frame(offset=start, start=at, end=at + size, count=count)
        at += size + SYNC_BYTES


def _inflate(data: bytes, frames: Iterable[Frame], codec: str, schema: AvroNode, budget: int) -> Iterator[tuple[Frame, Block]]:
    """Yield the blocks that hold values, inflated one at a time; together they take at most `budget` bytes."""
    inflate = _CODECS.get(codec)
    if inflate is None:
        raise Unsupported(f"Avro codec {codec[:_MAX_SHOWN]!r}; known are {', '.join(_CODECS)}", feature=f"avro.codec.{codec[:_MAX_SHOWN]}")
    for frame in frames:
        where = f"block at offset {frame.offset}"
        try:
            body = inflate(data[frame.start : frame.end], budget)
        except LakekitError as error:
            raise type(error)(f"{where}: {error.args[0]}", offset=frame.offset, field="block") from None
        budget -= len(body)
        if frame.count * schema.min_bytes > len(body):
            what = f"{frame.count} values do not fit into {len(body)} bytes"
            raise Corrupt(f"{where}: {what}", offset=frame.offset, field="block count")
        if body and not frame.count:
            raise Corrupt(f"{where}: no values in {len(body)} bytes", offset=frame.offset, field="block count")
        if frame.count:
            yield frame, Block(data=body, count=frame.count, offset=frame.start)


# ---- codecs: (compressed bytes, most bytes allowed) -> inflated bytes --------------------------------------------------------------------------


def _too_long(limit: int) -> LimitExceeded:
    return LimitExceeded(f"it inflates to more than the {limit} bytes that a file of this size may", field="block")


def _null(data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        raise _too_long(limit)
    return data


def _zlib(data: bytes, limit: int) -> bytes:
    machine = zlib.decompressobj(-15)
    try:
        found = machine.decompress(data, limit + 1)
    except zlib.error as error:
        raise Corrupt(f"deflate: {error}", field="block") from None
    return _check_inflated(found, limit, done=machine.eof, codec="deflate")


def _bzip2(data: bytes, limit: int) -> bytes:
    machine = bz2.BZ2Decompressor()
    try:
        found = machine.decompress(data, limit + 1)
    except (OSError, ValueError) as error:
        raise Corrupt(f"bzip2: {error}", field="block") from None
    return _check_inflated(found, limit, done=machine.eof, codec="bzip2")


def _xz(data: bytes, limit: int) -> bytes:
    machine = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)
    try:
        found = machine.decompress(data, limit + 1)
    except lzma.LZMAError as error:
        if "limit" in str(error).lower():
            raise LimitExceeded(f"xz: {error}", field="block") from None
        raise Corrupt(f"xz: {error}", field="block") from None
    return _check_inflated(found, limit, done=machine.eof, codec="xz")


def _snappy(data: bytes, limit: int) -> bytes:
    if len(data) < 5:
        raise Corrupt("snappy: fewer than 5 bytes", field="block")
    length = shift = 0
    for byte in data[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if length > limit:
        raise _too_long(limit)
    try:
        found: bytes = pa.Codec("snappy").decompress(data[:-4], length, asbytes=True)
    except (OSError, ValueError) as error:
        raise Corrupt(f"snappy: {error}", field="block") from None
    if zlib.crc32(found) != int.from_bytes(data[-4:], "big"):
        raise Corrupt("snappy: the checksum of the inflated bytes differs", field="block")
    return found


def _zstandard(data: bytes, limit: int) -> bytes:
    if zstd is None:
        return _zstandard_by_arrow(data, limit)
    machine = zstd.ZstdDecompressor(options=_ZSTD_OPTIONS)
    try:
        found = machine.decompress(data, limit + 1)
    except zstd.ZstdError as error:
        if "memory" in str(error) or "window" in str(error).lower():
            raise LimitExceeded(f"zstandard: {error}", field="block") from None
        raise Corrupt(f"zstandard: {error}", field="block") from None
    return _check_inflated(found, limit, done=machine.eof, codec="zstandard")


def _zstandard_by_arrow(data: bytes, limit: int) -> bytes:
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            found: bytes = stream.read(limit + 1)
    except (OSError, ValueError) as error:
        raise Corrupt(f"zstandard: {error}", field="block") from None
    return _check_inflated(found, limit, done=True, codec="zstandard")


def _check_inflated(found: bytes, limit: int, *, done: bool, codec: str) -> bytes:
    if len(found) > limit:
        raise _too_long(limit)
    if not done:
        raise Corrupt(f"{codec}: the compressed bytes end too early", field="block")
    return found


_ZSTD_OPTIONS: Any = None if zstd is None else {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
_CODECS: dict[str, Callable[[bytes, int], bytes]] = {
    "null": _null,
    "deflate": _zlib,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}


# ---- writing ---------------------------------------------------------------------------------------------------------------------------------------


def codec_named(compression: str) -> str:
    """The Avro codec of a compression option's value: `zstd` is `zstandard`, the others are Avro's own names. Raises `Unsupported`."""
    name = compression.lower()
    name = "zstandard" if name == "zstd" else name
    if name not in _CODECS:
        raise Unsupported(f"Avro files cannot be compressed by {compression!r}; known are {', '.join(_CODECS)}", feature=f"avro.codec.{name}")
    return name


@lru_cache(maxsize=32)
def _zstd(level: int) -> Callable[[bytes], bytes]:
    """What compresses at a level: one machine, which locks itself, for all blocks. Making one takes longer than a small block does."""
    if zstd is not None:
        with suppress(ValueError):  # a level that it has not
            return partial(zstd.ZstdCompressor(level=level).compress, mode=zstd.ZstdCompressor.FLUSH_FRAME)
    return partial(pa.Codec("zstd", compression_level=level).compress, asbytes=True)


def compress_block(data: bytes, codec: str, level: int = ZSTD_LEVEL) -> bytes:
    """A block's bytes compressed by an Avro codec; `level` is zstandard's."""
    match codec:
        case "null":
            return data
        case "deflate":
            machine = zlib.compressobj(wbits=-15)
            return machine.compress(data) + machine.flush()
        case "snappy":
            found: bytes = pa.Codec("snappy").compress(data, asbytes=True)
            return found + zlib.crc32(data).to_bytes(4, "big")
        case "zstandard":
            return _zstd(level)(data)
        case "bzip2":
            return bz2.compress(data)
        case "xz":
            return lzma.compress(data, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64)
    raise Unsupported(f"Avro codec {codec!r}; known are {', '.join(_CODECS)}", feature=f"avro.codec.{codec}")


def write(
    schema: bytes, values: Iterable[bytes], *, codec: str = "zstandard", level: int = ZSTD_LEVEL, sync: bytes | None = None, interval: int = SYNC_INTERVAL_BYTES
) -> bytes:
    """A container of encoded values. The sync marker, unless given, is drawn from the content, so that equal content makes equal bytes.

    What would inflate beyond the limits of metadata is packed less tightly, whatever `codec` says: who writes it must be able to read it.
    """
    return _encode_file(schema, _bodies(((1, value) for value in values), interval), codec, level, sync)


def join(containers: Sequence[Container], *, codec: str = "zstandard", level: int = ZSTD_LEVEL) -> bytes:
    """One container of the values of several, which have one schema text, one after the other; they are not decoded."""
    values = ((block.count, block.data) for container in containers for block in container.blocks)
    return _encode_file(containers[0].metadata["avro.schema"], _bodies(values, SYNC_INTERVAL_BYTES), codec, level, None)


def _bodies(values: Iterable[tuple[int, bytes]], interval: int) -> list[tuple[int, bytes]]:
    """Runs of encoded values, each with their number, as the bodies of blocks."""
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
    """A header up to its sync marker."""
    out = bytearray(MAGIC)
    metadata = {b"avro.schema": schema, b"avro.codec": codec.encode()}
    put_long(out, len(metadata))
    for key, text in metadata.items():
        for part in (key, text):
            put_long(out, len(part))
            out += part
    return bytes(out + b"\0")


def _encode_file(schema: bytes, bodies: Sequence[tuple[int, bytes]], codec: str, level: int, sync: bytes | None) -> bytes:
    """The file: its header, and each body compressed."""
    if sync is None:
        digest = hashlib.blake2b(schema, digest_size=SYNC_BYTES)
        for _, part in bodies:
            digest.update(part)
        sync = digest.digest()
    out = bytearray(_header_bytes(schema, codec))
    out += sync
    for number, part in bodies:
        packed = compress_block(part, codec, level)
        put_long(out, number)
        put_long(out, len(packed))
        out += packed + sync
    if codec != _FALLBACK_CODEC and sum(len(part) for _, part in bodies) > METADATA.inflated_bytes(len(out)):
        return _encode_file(schema, bodies, _FALLBACK_CODEC, level, sync)
    return bytes(out)
