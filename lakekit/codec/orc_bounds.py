"""Check that stripes, streams and lengths of an ORC file are within bounds before Arrow uses them.

    footer            rows are those of the stripes · decimals have 1 to 38 digits
                      · parts of types are as many as their kind has
    stripe footer     streams lie inside the stripe and belong to columns
                      · a dictionary has no more values than its column
    stream            its compressed chunks are no longer than a block, stored and inflated, and end where it ends
    LENGTH streams    no length of a text, a list or a map is below zero, and all together are no more than what they
                      are lengths of: Arrow would read beyond its buffers, or allocate by them
    SECONDARY         decimals have scales of 0 to 38: Arrow would multiply by ten without end

Arrow allocates before it reads what a length is the length of. Columns are looked at in the order of the type tree, as
the lists of a column tell how many values the columns below it have. How much a stream can hold follows from its
chunks; only where that is too little for the lengths is it inflated and counted.

Source: the ORC specification v1, "Stripes".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from lakekit.codec import orc_runs, orc_tail
from lakekit.errors import Corrupt

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from lakekit.codec.orc_tail import OrcColumn, OrcTail, ProtobufField, StripeRange


_MAGIC_BYTES = 3
_MAX_BLOCK_BYTES = 1 << 23
_PRESENT_STREAM, _DATA_STREAM, _LENGTH_STREAM, _DICTIONARY_STREAM, _SECONDARY_STREAM = 0, 1, 2, 3, 5
_LAST_DATA_KIND = 5
_DICTIONARY_ENCODINGS, _VERSION_2_ENCODINGS = (1, 3), (2, 3)
_BOOLEAN, _BYTE, _FLOAT, _DOUBLE, _LIST, _MAP, _STRUCT, _DECIMAL = 0, 1, 5, 6, 10, 11, 12, 14
_LENGTH_PREFIXED_TYPES = (7, 8, 16, 17)
"""STRING, BINARY, VARCHAR, CHAR."""
_MAX_DIGITS = 38
_FEW_BYTES = 2048
"""Streams of no more stored bytes are inflated to learn how much they hold."""
_FEW_CHUNK_BYTES = 64
"""Streams whose chunks have no more stored bytes, on average, are inflated too: blocks may be anything but full."""
_EXACT_SCALES_BYTES = 1 << 17
"""So many bytes of scales are decoded; behind them, scales of eight bits are taken for right: they do little harm."""
_SLACK_BYTES = 64 << 20
_DATA_FACTOR = 4
"""Texts may be as long together as four times their stream, and so much more: the heads of runs tell no better."""
_FEW_VALUES = 1 << 16
"""Lists of no more values together are left to Arrow, which finds out that their values are missing."""
_SLACK_VALUES = 1 << 24
_VALUES_FACTOR = 8
"""Lists may have as many values as eight times the bytes of a column below, and so many more; others are counted."""
_VALUES_OF_BYTE = 520
"""The most values that one byte encodes: 130 bytes of eight bits each in two bytes, as nulls and booleans are stored.
"""


class _Stream(NamedTuple):
    """A stream of a stripe: its kind, its column, and its range of bytes."""

    kind: int
    column: int
    begin: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _StripeStreams:
    """The streams of a stripe, and the encodings of its columns."""

    tail: OrcTail
    streams: tuple[_Stream, ...]
    encodings: tuple[list[ProtobufField], ...]

    def streams_of(self, column: int) -> list[_Stream]:
        """Return the streams of a column that hold something."""
        return [stream for stream in self.streams if stream.column == column and stream.length]

    def find_stream(self, column: int, kind: int) -> _Stream | None:
        """Return the stream of a kind of a column; None if there is none."""
        return next((stream for stream in self.streams_of(column) if stream.kind == kind), None)

    def encoding_of(self, column: int) -> tuple[int, int]:
        """Return the encoding of a column, and the size of its dictionary."""
        parts = self.encodings[column] if column < len(self.encodings) else []
        return orc_tail.integer_member(parts, 1), orc_tail.integer_member(parts, 2)

    def inflate(self, stream: _Stream) -> bytes:
        """Return the inflated bytes of a stream."""
        data = bytes(self.tail.data[stream.begin : stream.begin + stream.length])
        return orc_tail.inflate_all(data, self.tail.codec, self.tail.block_bytes)


def check_tail_and_streams(path: str, data: bytes | memoryview, columns: Container[str] | None = None) -> OrcTail:
    """Check the tail of a whole file and the streams of some columns, None for all; return the tail.

    Of `data` no more is read than these. Raises `Corrupt`, `LimitExceeded` or `Unsupported`, with the path.
    """
    try:
        tail = orc_tail.parse_tail(data)
        _check_tail(tail)
        columns_by_number = {
            column.column_id: column for child in _selected_columns(tail.root, columns) for column in child.preorder()
        }
        for stripe in tail.stripes:
            _check_stripe(tail, stripe, columns_by_number)
    except Corrupt as error:
        raise error.at(path) from None
    return tail


def _selected_columns(root: OrcColumn, columns: Container[str] | None) -> Iterator[OrcColumn]:
    for name, child in zip(root.names, root.children, strict=False):
        if columns is None or name.decode("utf-8", "replace") in columns:
            yield child


def _check_tail(tail: OrcTail) -> None:
    if tail.codec != "none" and not 0 < tail.block_bytes <= _MAX_BLOCK_BYTES:
        raise Corrupt(
            f"blocks of {tail.block_bytes} bytes, where {_MAX_BLOCK_BYTES} are the most", field="compression block size"
        )
    rows = sum(stripe.row_count for stripe in tail.stripes)
    if rows != orc_tail.integer_member(tail.footer, 6):
        raise Corrupt(
            f"its stripes have {rows} rows, the footer says {orc_tail.integer_member(tail.footer, 6)}", field="rows"
        )
    for column in tail.root.preorder():
        count = len(column.children)
        if count != {_LIST: 1, _MAP: 2}.get(column.kind, count) or (
            column.kind == _STRUCT and count != len(column.names)
        ):
            raise Corrupt(
                f"column {column.column_id} of kind {column.kind} has {count} parts and {len(column.names)} names",
                field="types",
            )
        if column.kind == _DECIMAL:
            digits, scale = orc_tail.integer_member(column.members, 5), orc_tail.integer_member(column.members, 6)
            if not 0 < digits <= _MAX_DIGITS or not 0 <= scale <= digits:
                raise Corrupt(
                    f"column {column.column_id} is a decimal of {digits} digits, {scale} of them after the point",
                    field="types",
                )


def _check_stripe(tail: OrcTail, stripe: StripeRange, columns_by_number: dict[int, OrcColumn]) -> None:
    end = stripe.offset + stripe.index_bytes + stripe.data_bytes
    if stripe.offset < _MAGIC_BYTES:
        raise Corrupt(f"a stripe at byte {stripe.offset}", offset=stripe.offset, field="stripe")
    footer = orc_tail.read_stripe_footer(tail, stripe)
    encodings = tuple(orc_tail.parse_members(stream) for stream in orc_tail.bytes_members(footer, 2))
    streams = [
        stream
        for stream in _iter_streams(footer, stripe.offset, end)
        if stream.column in columns_by_number and stream.kind <= _LAST_DATA_KIND
    ]
    if tail.codec != "none":
        for stream in streams:
            _check_chunks(tail, stream)
    contents = _StripeStreams(tail=tail, streams=tuple(streams), encodings=encodings)
    for child in tail.root.children:
        if child.column_id in columns_by_number:
            _check_column(contents, child, stripe.row_count)


def _check_column(contents: _StripeStreams, column: OrcColumn, count: int) -> None:
    """Check the streams of a column, which has at most `count` values, and of all below it."""
    kind, size = contents.encoding_of(column.column_id)
    if kind in _DICTIONARY_ENCODINGS and size > count:
        raise Corrupt(
            f"a dictionary of {size} values in column {column.column_id}, which has at most {count}",
            offset=next((stream.begin for stream in contents.streams_of(column.column_id)), None),
            field="dictionary size",
        )
    scales = contents.find_stream(column.column_id, _SECONDARY_STREAM) if column.kind == _DECIMAL else None
    if scales is not None:
        _check_scales(contents, scales, second=kind in _VERSION_2_ENCODINGS)
    lengths = contents.find_stream(column.column_id, _LENGTH_STREAM)
    if column.kind in (_LIST, _MAP):
        count = 0 if lengths is None else _check_values(contents, column, lengths)
    elif lengths is not None:
        _check_texts(contents, lengths)
    for child in column.children:
        _check_column(contents, child, count)


def _check_scales(contents: _StripeStreams, stream: _Stream, *, second: bool) -> None:
    """Raise `Corrupt` if a decimal has a scale out of range.

    Arrow would multiply by ten as often, without end.
    """
    data = contents.inflate(stream)
    scale_range = orc_runs.signed_range(data[:_EXACT_SCALES_BYTES], second=second)
    if scale_range is not None and not 0 <= scale_range[0] <= scale_range[1] <= _MAX_DIGITS:
        raise Corrupt(
            f"column {stream.column} has decimals of scales {scale_range[0]} to {scale_range[1]}",
            offset=stream.begin,
            field="scale",
        )
    if len(data) > _EXACT_SCALES_BYTES:
        try:
            orc_runs.check_signed(data, second=second, low=0, high=_MAX_DIGITS)
        except Corrupt as error:
            raise Corrupt(
                f"column {stream.column} has decimals of scales that are {error.message}",
                offset=stream.begin,
                field="scale",
            ) from None


def _check_texts(contents: _StripeStreams, lengths: _Stream) -> None:
    """Check the lengths of texts, which Arrow adds up and allocates by before it reads the texts."""
    kind, _ = contents.encoding_of(lengths.column)
    data = contents.find_stream(lengths.column, _DICTIONARY_STREAM if kind in _DICTIONARY_ENCODINGS else _DATA_STREAM)
    held = 0 if data is None else _inflated_bytes(contents, data)
    most = held * _DATA_FACTOR + _SLACK_BYTES
    total = orc_runs.bound_sum(contents.inflate(lengths), second=kind in _VERSION_2_ENCODINGS, maximum=most)
    if total > most:
        raise Corrupt(
            f"column {lengths.column} has texts of {total} bytes in a stream of at most {held}",
            offset=lengths.begin,
            field="length",
        )


def _check_values(contents: _StripeStreams, column: OrcColumn, lengths: _Stream) -> int:
    """Check the lengths of lists or maps, and return how many values they have at most together.

    Arrow would allocate by them, and read beyond its buffers.
    """
    held = [_bound_values(contents, child) for child in column.children]
    likely = [most // _VALUES_OF_BYTE * _VALUES_FACTOR + _SLACK_VALUES for most in held]
    enough = max(_FEW_VALUES, min([*held, *likely], default=0))
    kind, _ = contents.encoding_of(column.column_id)
    total = orc_runs.bound_sum(contents.inflate(lengths), second=kind in _VERSION_2_ENCODINGS, maximum=enough)
    if total <= enough:
        return total
    for child, most, few in zip(column.children, held, likely, strict=True):
        counted = min(most, _count_values(contents, child)) if few < total <= most else most
        if total > counted:
            raise Corrupt(
                f"column {column.column_id} has lists of {total} values, and column {child.column_id} at most "
                f"{counted}",
                offset=lengths.begin,
                field="length",
            )
    return total


def _bound_values(contents: _StripeStreams, column: OrcColumn) -> int:
    """Return an upper bound of a column's values, by the bytes of its streams.

    A STRUCT without a stream has as many as its parts.
    """
    own = contents.streams_of(column.column_id)
    if not own and column.kind == _STRUCT:
        return max((_bound_values(contents, child) for child in column.children), default=0)
    return max((_inflated_bytes(contents, stream) for stream in own), default=0) * _VALUES_OF_BYTE


def _count_values(contents: _StripeStreams, column: OrcColumn) -> int:
    """Return how many values a column has at most, by the runs of its streams: up to seven more than it has."""
    present = contents.find_stream(column.column_id, _PRESENT_STREAM)
    if present is not None:
        return orc_runs.count_bytes(contents.inflate(present)) * 8
    if column.kind == _STRUCT:
        return max((_count_values(contents, child) for child in column.children), default=0)
    kind, _ = contents.encoding_of(column.column_id)
    of_lengths = column.kind in (_LIST, _MAP) or (
        column.kind in _LENGTH_PREFIXED_TYPES and kind not in _DICTIONARY_ENCODINGS
    )
    stream = contents.find_stream(column.column_id, _LENGTH_STREAM if of_lengths else _DATA_STREAM)
    data = b"" if stream is None else contents.inflate(stream)
    match column.kind:
        case 0 | 1:
            return orc_runs.count_bytes(data) * (8 if column.kind == _BOOLEAN else 1)
        case 5 | 6:
            return len(data) // (4 if column.kind == _FLOAT else 8)
        case 14:
            return len(data)
        case _:
            return orc_runs.count_numbers(data, second=kind in _VERSION_2_ENCODINGS)


def _inflated_bytes(contents: _StripeStreams, stream: _Stream) -> int:
    """Return an upper bound of the inflated bytes of a stream."""
    tail = contents.tail
    if tail.codec == "none":
        return stream.length
    chunk_count = _check_chunks(tail, stream)
    if stream.length <= max(_FEW_BYTES, chunk_count * _FEW_CHUNK_BYTES):
        data = bytes(tail.data[stream.begin : stream.begin + stream.length])
        return sum(map(len, orc_tail.inflate_chunks(data, tail.codec, tail.block_bytes)))
    return chunk_count * tail.block_bytes


def _iter_streams(footer: list[ProtobufField], begin: int, end: int) -> Iterator[_Stream]:
    """Yield the streams of a stripe, in the order of their bytes."""
    for stream in orc_tail.bytes_members(footer, 1):
        members = orc_tail.parse_members(stream)
        kind, column, length = (orc_tail.integer_member(members, number) for number in (1, 2, 3))
        if length > end - begin:
            raise Corrupt(
                f"a stream of {length} bytes, and {end - begin} are left of its stripe", offset=begin, field="stream"
            )
        yield _Stream(kind, column, begin, length)
        begin += length


def _check_chunks(tail: OrcTail, stream: _Stream) -> int:
    """Check the headers of a stream's chunks and return how many there are."""
    at, end, count = stream.begin, stream.begin + stream.length, 0
    while at < end:
        head = int.from_bytes(tail.data[at : at + 3], "little")
        length = head >> 1
        if at + 3 + length > end or length > tail.block_bytes:
            raise Corrupt(
                f"a chunk of {length} bytes in a stream that ends at byte {end}", offset=at, field="chunk length"
            )
        at += 3 + length
        count += 1
    return count
