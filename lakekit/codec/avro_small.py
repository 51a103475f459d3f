"""Many small Avro containers opened together: what a table's history is made of, lists and manifests of some hundred bytes.

    [(path, bytes), …] ──▶ one header for all that begin alike ──▶ one stream inflates all blocks ──▶ [Container, …]

A machine that inflates zstandard costs ten times what a block of some hundred bytes takes it, so one does all of them, frame after frame. Which frame is which
is read from the frames themselves, each of which must fill its block to the last byte and say how much it inflates to (RFC 8878, 3.1.1):

    28 b5 2f fd | 20: one segment, the size in 1 byte (60: 2, a0: 4) | size | blocks: 3 bytes `last, kind, size`, content

Everything else (other codecs, several blocks, big ones, whatever looks wrong) is for `avro.open_container`, which also says what is wrong with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from lakekit.codec import avro_container
from lakekit.codec.avro_container import SYNC_BYTES, Block, Container
from lakekit.errors import LakekitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakekit.codec.avro_schema import AvroNode

    File = tuple[str | None, bytes]

SMALL_BYTES = 64 << 10
"""A block of more bytes is worth a machine of its own."""
TOGETHER_BYTES = 16 << 20
"""So many inflated bytes are made at once."""
_FEW = 4
_FRAME = b"\x28\xb5\x2f\xfd"
_SIZES = {0x20: (1, 0), 0x60: (2, 256), 0xA0: (4, 0)}
"""By the byte after the magic: how many bytes the size takes, and what is added to it."""
_RAW_BLOCK, _RLE_BLOCK, _COMPRESSED_BLOCK = 0, 1, 2


class _FileHead(NamedTuple):
    """The beginning of a file up to its sync marker, and what it says."""

    text: bytes
    metadata: Mapping[str, bytes]
    schema: AvroNode


class _Packed(NamedTuple):
    """The only block of a file, still packed: its place among the files, its frame, and what it inflates to."""

    place: int
    head: _FileHead
    frame: bytes
    size: int
    records: int
    offset: int


def open_containers(files: Sequence[File]) -> list[Container]:
    """Each file, given with its path, as `avro.open_container` opens it. Raises what that raises, of the first file that is not as it should be."""
    found: list[Container | None] = [None] * len(files)
    if len(files) >= _FEW:
        for some in _groups(_find_small_blocks(files)):
            for one, data in zip(some, _inflate(some), strict=False):  # none, where one of them cannot be inflated
                block = Block(data=data, count=one.records, offset=one.offset)
                found[one.place] = Container(schema=one.head.schema, codec="zstandard", blocks=(block,), metadata=one.head.metadata, path=files[one.place][0])
    return [avro_container.open_container(data, path=path) if one is None else one for one, (path, data) in zip(found, files, strict=True)]


def _find_small_blocks(files: Sequence[File]) -> Iterator[_Packed]:
    """Those of the files that are one small block of zstandard each."""
    heads: list[_FileHead] = []
    for place, (_, data) in enumerate(files):
        head = next((one for one in heads if data.startswith(one.text)), None)
        if head is None:
            try:
                head = _head(data)
            except LakekitError:  # for `open_container` to say
                continue
            heads = [head, *heads[: _FEW - 1]]
        if head.metadata.get("avro.codec") == b"zstandard" and (one := _block(place, head, data)) is not None:
            yield one


def _head(data: bytes) -> _FileHead:
    metadata, at = avro_container.read_header(data)
    return _FileHead(data[: at - SYNC_BYTES], metadata, avro_container.schema_of(metadata))


def _block(place: int, head: _FileHead, data: bytes) -> _Packed | None:
    """The block of a file that has one, as its frame and all limits allow it; else None."""
    at = len(head.text) + SYNC_BYTES
    try:
        count, at = avro_container.read_long(data, at, "block count")
        length, at = avro_container.read_long(data, at, "block size")
    except LakekitError:
        return None
    if length < 0 or at + length + SYNC_BYTES != len(data) or data[-SYNC_BYTES:] != data[len(head.text) : len(head.text) + SYNC_BYTES]:
        return None
    frame = data[at : at + length]
    size = _inflated_size(frame)
    if not 0 < size <= SMALL_BYTES or not 0 < count * max(1, head.schema.min_bytes) <= size:
        return None
    if size > avro_container.METADATA.inflated_bytes(len(data)) or count > avro_container.METADATA.values(len(data)):
        return None
    return _Packed(place, head, frame, size, count, at)


def _inflated_size(frame: bytes) -> int:
    """What one whole frame says it inflates to; 0: it does not say, or is not one whole frame."""
    width, more = _SIZES.get(frame[4], (0, 0)) if frame.startswith(_FRAME) and len(frame) > len(_FRAME) else (0, 0)
    at = len(_FRAME) + 1 + width
    last = not width
    while not last and at + 3 <= len(frame):
        head = int.from_bytes(frame[at : at + 3], "little")
        last, kind = bool(head & 1), head >> 1 & 3
        if kind not in {_RAW_BLOCK, _RLE_BLOCK, _COMPRESSED_BLOCK}:
            return 0
        at += 3 + (1 if kind == _RLE_BLOCK else head >> 3)
    return int.from_bytes(frame[5 : 5 + width], "little") + more if width and last and at == len(frame) else 0


def _groups(packed: Iterator[_Packed]) -> Iterator[list[_Packed]]:
    some: list[_Packed] = []
    size = 0
    for one in packed:
        some.append(one)
        size += one.size
        if size >= TOGETHER_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _inflate(some: Sequence[_Packed]) -> list[bytes]:
    """The blocks inflated; none, where one of them is broken."""
    total = sum(one.size for one in some)
    try:
        with pa.CompressedInputStream(pa.BufferReader(b"".join([one.frame for one in some])), "zstd") as stream:
            whole: bytes = stream.read(total + 1)
    except (OSError, ValueError):
        return []
    if len(whole) != total:
        return []
    found, at = [], 0
    for one in some:
        found.append(whole[at : at + one.size])
        at += one.size
    return found
