"""The end of an ORC file: its types, its stripes, and the messages and chunks that they are stored as.

    stripe: index streams | data streams | stripe footer        repeated
    metadata | footer | postscript | one byte: length of the postscript

    postscript  1 footer length · 2 compression · 3 block size · 5 metadata length
    footer      3 stripes · 4 types · 6 rows · 7 column statistics (1: values)
    stripe      1 offset · 2 index length · 3 data length · 4 footer length · 5 rows
    type        1 kind · 2 subtypes (column numbers, preorder) · 3 field names
    stripe footer  1 streams (1 kind · 2 column · 3 length, in the order of their bytes)
                   · 2 encodings, one a column · 3 time zone of the writer

All are protobuf messages; everything but the postscript is cut into chunks of `3 bytes LE: length * 2 + stored-as-is |
bytes`.

Source: the ORC specification v1, "File Tail" and "Stripes".
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from lakekit.codec.cursor import PADDING_LABEL, append_varint, read_varint
from lakekit.errors import Corrupt, LimitExceeded, Unsupported
from lakekit.types import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lakekit.codec.cursor import Cursor

LONG, TIMESTAMP, LIST, MAP, STRUCT, TIMESTAMP_INSTANT = 4, 9, 10, 11, 12, 18
PRESENT_STREAM, DATA_STREAM, SECONDARY_STREAM = 0, 1, 5
_COMPRESSION_NAMES = {0: "none", 1: "zlib", 2: "snappy", 3: "lzo", 4: "lz4", 5: "zstd", 6: "brotli"}
_MAX_TAIL_BYTES = 64 << 20
_TAIL_BYTES = 1 << 16
_MAX_CHUNK = (1 << 23) - 1
_ZSTD_MAGIC = bytes.fromhex("28b52ffd")
_LZ4_HEAD = bytes.fromhex("04224d18 6070 73")
"""A frame of LZ4 with blocks of up to 4 MiB: chunks are such blocks without a frame, and Arrow inflates frames."""
_MAX_LZ4_BYTES = 4 << 20


class ProtobufField(NamedTuple):
    """A member of a protobuf message: its number, and an integer or bytes."""

    field_number: int
    value: int | bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeRange:
    """The location of a stripe."""

    offset: int
    index_bytes: int
    data_bytes: int
    footer_bytes: int
    row_count: int


@dataclass(slots=True)
class OrcColumn:
    """A node of the type tree.

    `members` is its message, `column_id` the column number it had (-1: new), `adopted_streams` the streams it takes
    from another column, `children` its subtypes.
    """

    kind: int
    column_id: int
    members: list[ProtobufField]
    children: list[OrcColumn] = field(default_factory=list)
    names: list[bytes] = field(default_factory=list)
    adopted_streams: dict[tuple[int, int], int] = field(default_factory=dict)
    adds_zero_stream: bool = False

    def preorder(self) -> Iterator[OrcColumn]:
        """Yield this column and all below it, in preorder."""
        yield self
        for child in self.children:
            yield from child.preorder()


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcTail:
    """A file's tail: `root` is the type tree, `counts[i]` the number of non-null values of column i."""

    data: bytes | memoryview
    codec: str
    block_bytes: int
    footer: tuple[ProtobufField, ...]
    postscript: tuple[ProtobufField, ...]
    stripes: tuple[StripeRange, ...]
    root: OrcColumn
    counts: tuple[int, ...]


# ---- protobuf --------------------------------------------------------------------------------------------------------


def _read_number(data: bytes, offset: int) -> tuple[int, int]:
    """Return a number of the tail and the offset after it. Raises `Corrupt`."""
    try:
        return read_varint(data, offset)
    except IndexError:
        raise Corrupt("a number in the file's tail does not end", field="tail") from None


def parse_members(data: bytes) -> list[ProtobufField]:
    """Return the members of a message, in order, except members of a fixed width: a tail has none."""
    members: list[ProtobufField] = []
    at = 0
    while at < len(data):
        part, at, has_fixed_width = _read_member(data, at)
        if not has_fixed_width:
            members.append(part)
    return members


def _read_member(data: bytes, offset: int) -> tuple[ProtobufField, int, bool]:
    """Return the member at an offset, the offset after it, and whether its value has a fixed width."""
    tag, offset = _read_number(data, offset)
    wire = tag & 7
    if wire == 0:
        value, offset = _read_number(data, offset)
        return ProtobufField(tag >> 3, value), offset, False
    length, offset = _read_number(data, offset) if wire == 2 else ({1: 8, 5: 4}.get(wire, -1), offset)
    if not 0 <= length <= len(data) - offset:
        raise Corrupt(f"member {tag >> 3} of the file's tail does not fit", field="tail")
    return ProtobufField(tag >> 3, data[offset : offset + length]), offset + length, wire != 2


def _record_members(cursor: Cursor, names: Mapping[int, str]) -> None:
    """Read the members of the message that is the cursor's data; `names` are theirs in spans."""
    data = bytes(cursor.data)
    while cursor.remaining:
        part, after, _ = _read_member(data, cursor.at)
        cursor.advance(after, names.get(part.field_number, f"member {part.field_number}"), part.value)


def build_message(members: list[ProtobufField]) -> bytes:
    """Return the bytes of a message of these members."""
    out = bytearray()
    for number, value in members:
        append_varint(out, number << 3 | (0 if isinstance(value, int) else 2))
        if isinstance(value, int):
            append_varint(out, value)
        else:
            append_varint(out, len(value))
            out += value
    return bytes(out)


def integer_member(
    members: list[ProtobufField] | tuple[ProtobufField, ...], field_number: int, default: int = 0
) -> int:
    """Return the first member of that number that is an integer."""
    for part in members:
        if part.field_number == field_number and isinstance(part.value, int):
            return part.value
    return default


def bytes_members(members: list[ProtobufField] | tuple[ProtobufField, ...], field_number: int) -> list[bytes]:
    """Return the members of that number that are bytes."""
    return [part.value for part in members if part.field_number == field_number and isinstance(part.value, bytes)]


# ---- chunks ----------------------------------------------------------------------------------------------------------


def inflate_all(data: bytes, codec: str, block_bytes: int) -> bytes:
    """Return the inflated content of chunks. Raises `Corrupt`, `LimitExceeded`, `Unsupported`."""
    if codec == "none":
        return data
    out = bytearray()
    for part in inflate_chunks(data, codec, block_bytes):
        out += part
        if len(out) > _MAX_TAIL_BYTES:
            raise LimitExceeded(f"a stream or the tail inflates to more than {_MAX_TAIL_BYTES} bytes", field="tail")
    return bytes(out)


def inflate_chunks(data: bytes, codec: str, block_bytes: int) -> Iterator[bytes]:
    """Yield the inflated content of each chunk. Raises `Corrupt`, `LimitExceeded`, `Unsupported`."""
    at, block_bytes = 0, min(block_bytes, _MAX_TAIL_BYTES)
    while at < len(data):
        header = int.from_bytes(data[at : at + 3], "little")
        length, at = header >> 1, at + 3
        if length > len(data) - at:
            raise Corrupt("a chunk does not fit into its stream, or into the file's tail", field="chunk length")
        chunk = data[at : at + length]
        inflated = chunk if header & 1 else _inflate_chunk(chunk, codec, block_bytes)
        if len(inflated) > block_bytes:
            raise Corrupt(f"a chunk inflates to more than a block of {block_bytes} bytes", offset=at, field="chunk")
        yield inflated
        at += length


def _inflate_chunk(chunk: bytes, codec: str, block_bytes: int) -> bytes:
    """Return the inflated content of a chunk, or a few bytes more than a block of it."""
    try:
        match codec:
            case "zlib":
                return zlib.decompressobj(-15).decompress(chunk, block_bytes + 1)
            case "zstd":
                length = _zstd_length(chunk)
                if length is not None and length <= block_bytes:
                    return bytes(pa.Codec("zstd").decompress(chunk, length, asbytes=True))
                with pa.CompressedInputStream(pa.BufferReader(chunk), "zstd") as stream:
                    return bytes(stream.read(block_bytes + 1))
            case "snappy":
                length, _ = _read_number(chunk, 0)
                if length > block_bytes:
                    raise Corrupt("a chunk is longer than a block", field="chunk")
                return bytes(pa.Codec("snappy").decompress(chunk, length, asbytes=True))
            case "lz4":
                if block_bytes > _MAX_LZ4_BYTES or len(chunk) > _MAX_LZ4_BYTES:
                    return _inflate_lz4(chunk, block_bytes)
                frame = _LZ4_HEAD + len(chunk).to_bytes(4, "little") + chunk + bytes(4)
                with pa.CompressedInputStream(pa.BufferReader(frame), "lz4") as stream:
                    return bytes(stream.read(block_bytes + 1))
    except (zlib.error, pa.ArrowException, OSError) as error:
        raise Corrupt(f"a chunk cannot be inflated: {error}", field="chunk") from error
    raise Unsupported(f"ORC compression {codec} is not supported by lakekit", feature=f"orc.compression.{codec}")


def _zstd_length(chunk: bytes) -> int | None:
    """Return the inflated length that the head of a zstd frame tells; None if it tells none.

    Where the frame holds another length, Arrow raises. Source: RFC 8878, 3.1.1.1.
    """
    if len(chunk) < 18 or chunk[:4] != _ZSTD_MAGIC:
        return None
    size_flag, is_single, dictionary_flag = chunk[4] >> 6, chunk[4] >> 5 & 1, chunk[4] & 3
    size = (is_single, 2, 4, 8)[size_flag]
    at = 5 + (1 - is_single) + (0, 1, 2, 4)[dictionary_flag]
    return int.from_bytes(chunk[at : at + size], "little") + (256 if size == 2 else 0) if size else None


def _inflate_lz4(chunk: bytes, max_bytes: int) -> bytes:
    """Inflate an LZ4 block: token | literal length | literals | 2 bytes LE distance | match length.

    Its inflated length is not stored.
    """
    out, at = bytearray(), 0
    while at < len(chunk):
        token = chunk[at]
        at += 1
        literals, at = _lz4_length(chunk, at, token >> 4)
        out += chunk[at : at + literals]
        at += literals
        if at >= len(chunk):
            break
        distance = int.from_bytes(chunk[at : at + 2], "little")
        length, at = _lz4_length(chunk, at + 2, token & 15)
        if not 0 < distance <= len(out) or len(out) + length > max_bytes:
            raise Corrupt("lz4: a match outside of the block", field="tail")
        for _ in range(length + 4):
            out.append(out[-distance])
    return bytes(out)


def _lz4_length(chunk: bytes, offset: int, length: int) -> tuple[int, int]:
    more = 255 if length == 15 else 0
    while more == 255:
        if offset >= len(chunk):
            raise Corrupt("lz4: the block ends inside a length", field="tail")
        more = chunk[offset]
        length += more
        offset += 1
    return length, offset


def store_chunks(data: bytes, tail: OrcTail) -> bytes:
    """Return the same bytes as uncompressed chunks."""
    if tail.codec == "none":
        return data
    step = max(1, min(_MAX_CHUNK, tail.block_bytes))
    cut = [data[at : at + step] for at in range(0, len(data), step)]
    return b"".join((len(part) << 1 | 1).to_bytes(3, "little") + part for part in cut)


# ---- the tail --------------------------------------------------------------------------------------------------------


def parse_tail(data: bytes | memoryview) -> OrcTail:
    """Parse the tail of a whole file, of which only the end is read.

    Raises `Corrupt`, `LimitExceeded` or `Unsupported`.
    """
    length = data[-1] if data else 0
    if length + 1 > len(data) or not length > 0:
        raise Corrupt("it has no ORC postscript", field="postscript")
    postscript = parse_members(bytes(data[-1 - length : -1]))
    codec, block = (
        _COMPRESSION_NAMES.get(integer_member(postscript, 2), "unknown"),
        integer_member(postscript, 3, 262144),
    )
    size, end = integer_member(postscript, 1), len(data) - 1 - length
    if size > end:
        raise Corrupt(f"a footer of {size} bytes in a file of {len(data)}", field="footer")
    footer = parse_members(inflate_all(bytes(data[end - size : end]), codec, min(block, _MAX_TAIL_BYTES)))
    types = [parse_members(t) for t in bytes_members(footer, 4)]
    stripes = []
    for stripe in bytes_members(footer, 3):
        members = parse_members(stripe)
        parsed = StripeRange(
            offset=integer_member(members, 1),
            index_bytes=integer_member(members, 2),
            data_bytes=integer_member(members, 3),
            footer_bytes=integer_member(members, 4),
            row_count=integer_member(members, 5),
        )
        if parsed.offset + parsed.index_bytes + parsed.data_bytes + parsed.footer_bytes > end:
            raise Corrupt("a stripe lies outside of the file", field="stripe")
        stripes.append(parsed)
    statistics = [parse_members(s) for s in bytes_members(footer, 7)]
    return OrcTail(
        data=data,
        codec=codec,
        block_bytes=block,
        footer=tuple(footer),
        postscript=tuple(postscript),
        stripes=tuple(stripes),
        root=_build_type_tree(types, 0, 0),
        counts=tuple(integer_member(s, 1) for s in statistics) + (0,) * max(0, len(types) - len(statistics)),
    )


def row_count(read_range: Callable[[int, int], bytes], size_bytes: int) -> int:
    """Return the row count in the footer of a file, of which `read_range(offset, length)` returns bytes.

    Raises `Corrupt`, `LimitExceeded` or `Unsupported`.
    """
    first = max(0, size_bytes - _TAIL_BYTES)
    data = read_range(first, size_bytes - first)
    length = data[-1] if data else 0
    if length + 1 > len(data) or not length > 0:
        raise Corrupt("it has no ORC postscript", field="postscript")
    postscript = parse_members(data[-1 - length : -1])
    codec, block, size = (
        _COMPRESSION_NAMES.get(integer_member(postscript, 2), "unknown"),
        integer_member(postscript, 3, 262144),
        integer_member(postscript, 1),
    )
    end = size_bytes - 1 - length
    if size > end:
        raise Corrupt(f"a footer of {size} bytes in a file of {size_bytes}", field="footer")
    footer = data[end - size - first : end - first] if end - size >= first else read_range(end - size, size)
    return integer_member(parse_members(inflate_all(footer, codec, min(block, _MAX_TAIL_BYTES))), 6)


def _build_type_tree(types: list[list[ProtobufField]], number: int, depth: int) -> OrcColumn:
    if not 0 <= number < len(types) or depth > MAX_DEPTH:
        raise Corrupt(f"column {number} of {len(types)} in the type tree", field="types")
    parts = types[number]
    below: list[int] = []
    for part in parts:
        if part.field_number == 2:
            at = 0
            while isinstance(part.value, bytes) and at < len(part.value):
                child, at = _read_number(part.value, at)
                below.append(child)
            below += [part.value] if isinstance(part.value, int) else []
    if any(child <= number for child in below):
        raise Corrupt(f"column {number} holds a column before it", field="types")
    children = [_build_type_tree(types, child, depth + 1) for child in below]
    return OrcColumn(integer_member(parts, 1), number, parts, children, bytes_members(parts, 3))


def has_null_keys(tail: OrcTail) -> bool:
    """Return whether some map may have a null key.

    The streams of the file decide, not its statistics: in a damaged file these may be wrong.
    """
    keys = {column.children[0].column_id for column in tail.root.preorder() if column.kind == MAP and column.children}
    return bool(keys) and any(keys & _columns_with_nulls(tail, stripe) for stripe in tail.stripes)


def _columns_with_nulls(tail: OrcTail, stripe: StripeRange) -> set[int]:
    """Return the columns with a stream that says which values are null."""
    streams = [parse_members(stream) for stream in bytes_members(read_stripe_footer(tail, stripe), 1)]
    return {integer_member(members, 2) for members in streams if integer_member(members, 1) == PRESENT_STREAM}


def read_stripe_footer(tail: OrcTail, stripe: StripeRange) -> list[ProtobufField]:
    """Return the members of a stripe's footer. Raises as `inflate_all`."""
    begin = stripe.offset + stripe.index_bytes + stripe.data_bytes
    return parse_members(
        inflate_all(bytes(tail.data[begin : begin + stripe.footer_bytes]), tail.codec, tail.block_bytes)
    )


def writer_zone(tail: OrcTail, number: int) -> str:
    """Return the time zone of a stripe's writer, as its footer names it; empty if it does not."""
    footer = read_stripe_footer(tail, tail.stripes[number])
    return next(iter(bytes_members(footer, 3)), b"").decode("utf-8", "replace")


def type_messages(root: OrcColumn) -> Iterator[bytes]:
    """Yield the message of each type of a tree, in preorder."""
    numbers = {id(column): at for at, column in enumerate(root.preorder())}
    for column in root.preorder():
        below = bytearray()
        for child in column.children:
            append_varint(below, numbers[id(child)])
        own = [part for part in column.members if part.field_number not in (1, 2, 3)]
        yield build_message(
            [
                ProtobufField(1, column.kind),
                ProtobufField(2, bytes(below)),
                *(ProtobufField(3, name) for name in column.names),
                *own,
            ]
        )


_POSTSCRIPT_FIELDS = {
    1: "footer length",
    2: "compression",
    3: "block size",
    4: "version",
    5: "metadata length",
    6: "writer version",
    7: "stripe statistics length",
}
_POSTSCRIPT_FIELDS |= {8000: "magic"}
_FOOTER_FIELDS = {
    1: "header length",
    2: "content length",
    3: "stripe",
    4: "type",
    5: "user metadata",
    6: "rows",
    7: "statistics",
    8: "row index stride",
}
_FOOTER_FIELDS |= {9: "writer", 10: "encryption", 11: "calendar", 12: "software version"}
_STREAM_NAMES = (
    "present",
    "data",
    "length",
    "dictionary data",
    "dictionary count",
    "secondary",
    "row index",
    "bloom filter",
    "bloom filter utf8",
)


def record_tail(cursor: Cursor) -> OrcTail:
    """Parse the tail of the file that is the cursor's data, which records streams of stripes, and the tail.

    Raises as `parse_tail`.
    """
    data = bytes(cursor.data)
    size = len(data)
    if data[-1:] and size > data[-1]:
        cursor.record(size - 1, 1, "postscript length", data[-1])
        with cursor.within("postscript", at=size - 1 - data[-1]):
            _record_members(cursor.nested(data[size - 1 - data[-1] : -1]), _POSTSCRIPT_FIELDS)
    tail = parse_tail(data)
    end = size - 1 - data[-1]
    length, metadata = integer_member(tail.postscript, 1), integer_member(tail.postscript, 5)
    cursor.record(end - length, length, "footer", f"{len(tail.stripes)} stripes, {integer_member(tail.footer, 6)} rows")
    if tail.codec == "none":
        with cursor.within("footer", at=end - length):
            _record_members(cursor.nested(data[end - length : end]), _FOOTER_FIELDS)
    if 0 < metadata <= end - length:
        cursor.record(end - length - metadata, metadata, "metadata", None)
    cursor.record(0, 3, "magic", data[:3])
    for number, stripe in enumerate(tail.stripes):
        with cursor.within(f"stripe {number}"):
            _record_stripe(cursor, tail, stripe)
    return tail


def _record_stripe(cursor: Cursor, tail: OrcTail, stripe: StripeRange) -> None:
    begin, end = stripe.offset, stripe.offset + stripe.index_bytes + stripe.data_bytes
    cursor.record(end, stripe.footer_bytes, "footer", f"{stripe.row_count} rows")
    at = begin
    for stream in bytes_members(read_stripe_footer(tail, stripe), 1):
        members = parse_members(stream)
        kind, column, length = integer_member(members, 1), integer_member(members, 2), integer_member(members, 3)
        if at + length > end:
            raise Corrupt(f"a stream of {length} bytes at {at} reaches beyond its stripe", offset=at, field="stream")
        stream_name = _STREAM_NAMES[kind] if kind < len(_STREAM_NAMES) else f"stream {kind}"
        cursor.record(at, length, f"column {column} {stream_name}", None)
        at += length
    cursor.record(at, end - at, PADDING_LABEL, None)
