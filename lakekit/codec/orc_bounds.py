"""Check that stripes, streams and lengths of an ORC file are within bounds before Arrow uses them.

    footer            rows are those of the stripes · decimals have 1 to 38 digits
                      · parts of types are as many as their kind has
    stripe footer     streams lie inside the stripe and belong to columns
                      · a dictionary has no more values than the stripe has rows
    stream            its compressed chunks are no longer than a block, and end where it ends
    LENGTH streams    no length of a text, a list or a map is below zero, no column has more values
                      than its streams can hold: Arrow would read beyond its buffers
    SECONDARY         decimals have scales of 0 to 38: Arrow would multiply by ten without end

Lengths are checked (`orc_runs`) where a stripe has few of them: there may be a run for every ten, which takes longer
than Arrow takes to decode them. What is wrong with others is found by a check of all rows in a process of its own
(`maintenance/check/child_process.py`).

Source: the ORC specification v1, "Stripes".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lakekit.codec import orc_runs, orc_tail
from lakekit.errors import Corrupt

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from lakekit.codec.orc_tail import Column, Stripe, Tail

_MAGIC_BYTES = 3
_LONGEST_BLOCK = 1 << 23
_DATA, _LENGTH, _DICTIONARY, _SECONDARY = 1, 2, 3, 5
_LAST_DATA_KIND = 5
_DICTIONARIES, _SECOND = (1, 3), (2, 3)
_LIST, _MAP, _STRUCT, _DECIMAL = 10, 11, 12, 14
_MOST_DIGITS = 38
_FEW_BYTES = 2048
"""Stored lengths of more bytes are not checked."""
_FEW_SCALES_BYTES = 1 << 16
"""Stored scales of more bytes are not checked; mostly all are the same, in four bytes for 512."""
_MOST_INFLATED_BYTES = 1 << 17
"""The most inflated bytes that are checked: a few stored bytes may inflate to many, as runs can be of three bytes."""
_SLACK_BYTES = 64 << 20
"""The most bytes that a wrong length may make Arrow allocate in vain."""
_FEW_VALUES = 1 << 16
"""Lists of no more values together are left to Arrow, which finds out that their values are missing."""
_VALUES_OF_BYTE = 520
"""The most values that one byte encodes: 130 bytes of eight bits each in two bytes, as nulls and booleans are stored.
"""


class _Stream(NamedTuple):
    """A stream of a stripe: its kind, its column, and its range of bytes."""

    kind: int
    column: int
    begin: int
    length: int


def check(path: str, data: bytes | memoryview, columns: Container[str] | None = None) -> None:
    """Check the tail of a whole file and the streams of some columns; None for all.

    Of `data` no more is read than these. Raises `Corrupt`, `LimitExceeded` or `Unsupported`, with the path.
    """
    try:
        tail = orc_tail.parse(data)
        _check_tail(tail)
        columns_by_number = {
            column.number: column for child in _children(tail.root, columns) for column in child.walk()
        }
        for stripe in tail.stripes:
            _check_stripe(tail, stripe, columns_by_number)
    except Corrupt as error:
        raise error.at(path) from None


def _children(root: Column, columns: Container[str] | None) -> Iterator[Column]:
    for name, child in zip(root.names, root.children, strict=False):
        if columns is None or name.decode("utf-8", "replace") in columns:
            yield child


def _check_tail(tail: Tail) -> None:
    if tail.codec != "none" and not 0 < tail.block_bytes <= _LONGEST_BLOCK:
        raise Corrupt(
            f"blocks of {tail.block_bytes} bytes, where {_LONGEST_BLOCK} are the most", field="compression block size"
        )
    rows = sum(stripe.row_count for stripe in tail.stripes)
    if rows != orc_tail.integer_member(tail.footer, 6):
        raise Corrupt(
            f"its stripes have {rows} rows, the footer says {orc_tail.integer_member(tail.footer, 6)}", field="rows"
        )
    for column in tail.root.walk():
        count = len(column.children)
        if count != {_LIST: 1, _MAP: 2}.get(column.kind, count) or (
            column.kind == _STRUCT and count != len(column.names)
        ):
            raise Corrupt(
                f"column {column.number} of kind {column.kind} has {count} parts and {len(column.names)} names",
                field="types",
            )
        if column.kind == _DECIMAL:
            digits, scale = orc_tail.integer_member(column.parts, 5), orc_tail.integer_member(column.parts, 6)
            if not 0 < digits <= _MOST_DIGITS or not 0 <= scale <= digits:
                raise Corrupt(
                    f"column {column.number} is a decimal of {digits} digits, {scale} of them after the point",
                    field="types",
                )


def _check_stripe(tail: Tail, stripe: Stripe, columns_by_number: dict[int, Column]) -> None:
    end = stripe.offset + stripe.index_bytes + stripe.data_bytes
    if stripe.offset < _MAGIC_BYTES:
        raise Corrupt(f"a stripe at byte {stripe.offset}", offset=stripe.offset, field="stripe")
    footer = orc_tail.footer_of(tail, stripe)
    encodings = [orc_tail.parse_members(stream) for stream in orc_tail.bytes_members(footer, 2)]
    plain = _outside_lists(tail.root)
    streams = list(_streams(footer, stripe.offset, end))
    checks_lengths = (
        sum(stream.length for stream in streams if stream.kind == _LENGTH and stream.column in columns_by_number)
        <= _FEW_BYTES
    )
    sizes = {stream.column: stream.length for stream in streams if stream.kind in (_DATA, _DICTIONARY)}
    for stream in streams:
        if stream.column not in columns_by_number or stream.kind > _LAST_DATA_KIND:
            continue
        encoding = encodings[stream.column] if stream.column < len(encodings) else []
        kind, count = orc_tail.integer_member(encoding, 1), orc_tail.integer_member(encoding, 2)
        if kind in _DICTIONARIES and stream.column in plain and count > stripe.row_count:
            raise Corrupt(
                f"a dictionary of {count} values in a stripe of {stripe.row_count} rows",
                offset=stream.begin,
                field="dictionary size",
            )
        blocks = _check_chunks(tail, stream) if tail.codec != "none" else 1
        if (
            stream.kind == _SECONDARY
            and columns_by_number[stream.column].kind == _DECIMAL
            and stream.length <= _FEW_SCALES_BYTES
        ):
            _check_scales(tail, stream, second=kind in _SECOND)
        if stream.kind == _LENGTH and checks_lengths:
            packed = bytes(tail.data[stream.begin : stream.begin + stream.length])
            data = orc_tail.inflate(packed, tail.codec, tail.block_bytes)[:_MOST_INFLATED_BYTES]
            total = orc_runs.total(data, second=kind in _SECOND)
            most = max(sizes.get(stream.column, 0), tail.block_bytes * blocks) * 256
            if columns_by_number[stream.column].kind in (_LIST, _MAP):
                _check_values(tail, columns_by_number[stream.column], streams, total)
            elif total > most + _SLACK_BYTES:
                raise Corrupt(
                    f"texts of {total} bytes in a stream of {sizes.get(stream.column, 0)}",
                    offset=stream.begin,
                    field="length",
                )


def _check_scales(tail: Tail, stream: _Stream, *, second: bool) -> None:
    """Raise `Corrupt` where a decimal has a scale out of range.

    Arrow would multiply by ten as often, without end.
    """
    data = orc_tail.inflate(
        bytes(tail.data[stream.begin : stream.begin + stream.length]), tail.codec, tail.block_bytes
    )[:_MOST_INFLATED_BYTES]
    scale_range = orc_runs.signed_range(data, second=second)
    if scale_range is not None and not 0 <= scale_range[0] <= scale_range[1] <= _MOST_DIGITS:
        raise Corrupt(
            f"column {stream.column} has decimals of scales {scale_range[0]} to {scale_range[1]}",
            offset=stream.begin,
            field="scale",
        )


def _check_values(tail: Tail, column: Column, streams: Sequence[_Stream], total: int) -> None:
    """Raise `Corrupt` where lists or maps have more values together than their columns can hold.

    Arrow would read beyond its buffers.
    """
    if total <= _FEW_VALUES:
        return
    for child in column.children:
        most = _most_values(tail, child, streams)
        if total > most:
            raise Corrupt(
                f"column {column.number} has lists of {total} values, and column {child.number} at most {most}",
                field="length",
            )


def _most_values(tail: Tail, column: Column, streams: Sequence[_Stream]) -> int:
    """Return an upper bound of a column's values, by the bytes of its streams.

    A STRUCT without a stream has as many as its parts.
    """
    own = [
        stream
        for stream in streams
        if stream.column == column.number and stream.kind <= _LAST_DATA_KIND and stream.length
    ]
    if not own and column.kind == _STRUCT:
        return max((_most_values(tail, child, streams) for child in column.children), default=0)
    return max((_inflated_bytes(tail, stream) for stream in own), default=0) * _VALUES_OF_BYTE


def _inflated_bytes(tail: Tail, stream: _Stream) -> int:
    """Return an upper bound of the inflated bytes of a stream."""
    if tail.codec == "none":
        return stream.length
    if stream.length <= _FEW_BYTES:
        return len(
            orc_tail.inflate(
                bytes(tail.data[stream.begin : stream.begin + stream.length]), tail.codec, tail.block_bytes
            )
        )
    return _check_chunks(tail, stream) * tail.block_bytes


def _streams(footer: list[orc_tail.Part], begin: int, end: int) -> Iterator[_Stream]:
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


def _outside_lists(column: Column) -> set[int]:
    """Return the columns that have no more values than there are rows."""
    if column.kind in (_LIST, _MAP):
        return {column.number}
    return {column.number}.union(*map(_outside_lists, column.children))


def _check_chunks(tail: Tail, stream: _Stream) -> int:
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
