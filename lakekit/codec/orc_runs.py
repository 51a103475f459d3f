"""Check that stripes, streams and lengths of an ORC file are within bounds before Arrow uses them.

    footer            rows are those of the stripes · decimals have 1 to 38 digits
                      · parts of types are as many as their kind has
    stripe footer     streams lie inside the stripe and belong to columns
                      · a dictionary has no more values than the stripe has rows
    stream            its compressed chunks are no longer than a block, and end where it ends
    LENGTH streams    no length of a text, a list or a map is below zero, no column has more values
                      than its streams can hold: Arrow would read beyond its buffers
    SECONDARY         decimals have scales of 0 to 38: Arrow would multiply by ten without end

    runs of a stream, the first version, then the second:
                     00 05 02    count - 3 · delta, signed · base, varint   |  ff 07     256 - count · values, varints
    00 repeat        2 bits kind · 3 bits bytes - 1 · 3 bits count - 3 | value, big-endian
    01 direct        2 kind · 5 width · 9 count - 1 | values
    10 patched       2 kind · 5 width · 9 count - 1 · 3 bytes of the base - 1 · 5 patch width · 3 gap width - 1
                     · 5 patches | base | values | patches
    11 delta         2 kind · 5 width · 9 count - 1 | base, varint | delta, zig-zag varint | deltas

Of runs the sum of lengths and the range of scales are computed, as columns of bits. Lengths are checked where a stripe
has few of them: there may be a run for every ten, which takes longer than Arrow takes to decode them. What is wrong
with others is found by a check of all rows in a process of its own (`maintenance/check/child_process.py`).

Source: the ORC specification v1, "Stripes" and "Run Length Encoding".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from lakekit.codec import orc_tail
from lakekit.codec.cursor import read_varint, read_zigzag
from lakekit.errors import Corrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from numpy.typing import NDArray

    from lakekit.codec.orc_tail import Column, Stripe, Tail

    Bits = NDArray[np.uint8]


T = TypeVar("T")

_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
_MOST_LENGTH, _MOST_BITS = 2**63 - 1, 2**64 - 1


def sum_lengths(data: bytes, *, second: bool) -> int:
    """Return the sum of all lengths of a stream.

    Of a stream that ends too early, which is left to Arrow, only the runs before the end are counted.

    Raises:
        Corrupt: a length is below zero.
    """
    return sum(_read_runs(data, _run if second else _first_run))


def signed_range(data: bytes, *, second: bool) -> tuple[int, int] | None:
    """Return the least and the greatest of the signed numbers of a stream; None without any.

    A run that ends too early is left to Arrow.

    Raises:
        Corrupt: a number has more than 64 bits.
    """
    bounds = [
        bound for run_bounds in _read_runs(data, _signed_run if second else _first_signed_run) for bound in run_bounds
    ]
    return (min(bounds), max(bounds)) if bounds else None


def _read_runs(data: bytes, read: Callable[[bytes, int], tuple[T, int]]) -> Iterator[T]:
    """Yield the result of `read` for each complete run; it returns the offset after the run, too."""
    at = 0
    try:
        while at < len(data):
            result, at = read(data, at)
            yield result
    except IndexError:
        return


def _first_signed_run(data: bytes, at: int) -> tuple[list[int], int]:
    """Return bounds of the numbers of a run of the first version, and where the next run begins."""
    head = data[at]
    if head < 0x80:
        delta = data[at + 1] - ((data[at + 1] & 0x80) << 1)
        base, at = read_zigzag(data, at + 2)
        return [base, base + delta * (head + 2)], at
    values, at = [], at + 1
    for _ in range(256 - head):
        value, at = read_zigzag(data, at)
        values.append(value)
    return values, at


def _signed_run(data: bytes, at: int) -> tuple[list[int], int]:
    """Return bounds of the numbers of a run of the second version, and where the next run begins."""
    head = data[at]
    kind = head >> 6
    if kind == 0:
        end = at + 2 + (head >> 3 & 7)
        raw = _number(data, at + 1, end)
        return [(raw >> 1) ^ -(raw & 1)], end
    width, count = _WIDTHS[head >> 1 & 31], ((head & 1) << 8 | data[at + 1]) + 1
    at += 2
    if kind == 1:
        bits, end = _bits(data, at, width, count)
        raws = _bits_to_numbers(bits)
        values = (raws >> np.uint64(1)).astype(np.int64) ^ -(raws & np.uint64(1)).astype(np.int64)
        return [int(values.min()), int(values.max())], end
    if kind == 2:
        return _patched_ends(data, at, width, count)
    base, at = read_zigzag(data, at)
    delta, at = read_zigzag(data, at)
    if not head >> 1 & 31:
        return [base, base + delta * (count - 1)], at
    bits, end = _bits(data, at, width, max(0, count - 2))
    grown = _sum(bits)
    return [base, base + delta, base + delta + (grown if delta >= 0 else -grown)], end


def _patched_ends(data: bytes, at: int, width: int, count: int) -> tuple[list[int], int]:
    size, patch_width = (data[at] >> 5) + 1, _WIDTHS[data[at] & 31]
    gap_width, patches = (data[at + 1] >> 5) + 1, data[at + 1] & 31
    raw, sign = _number(data, at + 2, at + 2 + size), 1 << (8 * size - 1)
    base = -(raw & (sign - 1)) if raw & sign else raw
    bits, at = _bits(data, at + 2 + size, width, count)
    values = _bits_to_numbers(bits)
    patch_bits = next(candidate for candidate in _WIDTHS if candidate >= min(gap_width + patch_width, _WIDTHS[-1]))
    bits, end = _bits(data, at, patch_bits, patches)
    position = 0
    for patch in _bits_to_numbers(bits).tolist():  # scalar: at most 31 patches
        position += patch >> patch_width
        if position < count:
            values[position] |= np.uint64((patch & ((1 << patch_width) - 1)) << width & _MOST_BITS)
    return [base + int(values.min()), base + int(values.max())], end


def _bits_to_numbers(bits: Bits) -> NDArray[np.uint64]:
    padded = np.zeros((len(bits), 64), np.uint8)
    padded[:, 64 - bits.shape[1] :] = bits
    return np.packbits(padded, axis=1).view(">u8").reshape(-1).astype(np.uint64)


def _first_run(data: bytes, at: int) -> tuple[int, int]:
    """Return the sum of a run of the first version, and where the next run begins."""
    head = data[at]
    if head < 0x80:
        count, delta = head + 3, data[at + 1] - ((data[at + 1] & 0x80) << 1)
        base, at = read_varint(data, at + 2)
        return _sum_fixed_delta(base, delta, count), at
    length_sum, at = 0, at + 1
    for _ in range(256 - head):
        value, at = read_varint(data, at)
        length_sum += _check_length(value)
    return length_sum, at


def _run(data: bytes, at: int) -> tuple[int, int]:
    """Return the sum of a run of the second version, and where the next run begins."""
    head = data[at]
    kind = head >> 6
    if kind == 0:
        end = at + 2 + (head >> 3 & 7)
        return ((head & 7) + 3) * _check_length(_number(data, at + 1, end)), end
    width, count = _WIDTHS[head >> 1 & 31], ((head & 1) << 8 | data[at + 1]) + 1
    at += 2
    if kind == 1:
        return _sum_direct(data, at, width, count)
    if kind == 2:
        return _sum_patched_base(data, at, width, count)
    base, at = read_varint(data, at)
    delta, at = read_zigzag(data, at)
    if not head >> 1 & 31:
        return _sum_fixed_delta(base, delta, count), at
    return _sum_variable_delta(data, at, width, (base, delta, count))


def _sum_fixed_delta(base: int, delta: int, count: int) -> int:
    """Return the sum of lengths that grow by the same each time."""
    last = base + delta * (count - 1)
    return count * (_check_length(base) + _check_length(last)) // 2


def _sum_variable_delta(data: bytes, at: int, width: int, run: tuple[int, int, int]) -> tuple[int, int]:
    """Return the sum of the lengths of a delta run.

    The first two follow from base and delta, each other one is stored as its difference; all have the same sign.
    """
    base, delta, count = run
    steps = max(0, count - 2)
    bits, end = _bits(data, at, width, steps)
    sign = 1 if delta >= 0 else -1
    grown, weighed = 0, 0  # all steps together, and each as often as lengths have it
    for at_bit, ones in enumerate(bits.T.astype(np.int64)):
        grown += int(ones.sum()) << (width - 1 - at_bit)
        weighed += int(ones @ np.arange(steps, 0, -1)) << (width - 1 - at_bit)
    _check_length(base)
    if count > 1:
        _check_length(base + delta)
        _check_length(base + delta + sign * grown)
    return count * base + (count - 1) * delta + sign * weighed, end


def _sum_direct(data: bytes, at: int, width: int, count: int) -> tuple[int, int]:
    """Return the sum of `count` numbers of `width` bits, and where the next run begins."""
    bits, end = _bits(data, at, width, count)
    if width == _WIDTHS[-1] and bits[:, 0].any():
        raise Corrupt("a length below zero", field="length")
    return _sum(bits), end


def _sum_patched_base(data: bytes, at: int, width: int, count: int) -> tuple[int, int]:
    size, patch_width = (data[at] >> 5) + 1, _WIDTHS[data[at] & 31]
    gap_width, patches = (data[at + 1] >> 5) + 1, data[at + 1] & 31
    at += 2
    base = _number(data, at, at + size)
    if base >> (8 * size - 1):
        raise Corrupt("a length below zero", field="length")
    unpatched, at = _sum_direct(data, at + size, width, count)
    patch_bits = next(candidate for candidate in _WIDTHS if candidate >= min(gap_width + patch_width, _WIDTHS[-1]))
    bits, end = _bits(data, at, patch_bits, patches)
    return count * base + unpatched + (_sum(bits[:, max(0, patch_bits - patch_width) :]) << width), end


def _bits(data: bytes, at: int, width: int, count: int) -> tuple[Bits, int]:
    """Return a row of bits, highest first, a number, and the offset after them. Raises `IndexError`."""
    end = at + (count * width + 7) // 8
    if end > len(data):
        raise IndexError
    return np.unpackbits(np.frombuffer(data[at:end], np.uint8))[: count * width].reshape(count, width), end


def _sum(bits: Bits) -> int:
    width = bits.shape[1]
    return sum(int(ones) << (width - 1 - at) for at, ones in enumerate(bits.sum(0, dtype=np.int64)))


def _number(data: bytes, at: int, end: int) -> int:
    """Return a big-endian number. Raises `IndexError` where the data ends."""
    if end > len(data):
        raise IndexError
    return int.from_bytes(data[at:end], "big")


def _check_length(length: int) -> int:
    if not 0 <= length <= _MOST_LENGTH:
        raise Corrupt(f"a length of {length}", field="length")
    return length


# ---- orc bounds ------------------------------------------------------------


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
            total = sum_lengths(data, second=kind in _SECOND)
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
    """Raise `Corrupt` for a decimal's scale out of range: Arrow would multiply by ten as often."""
    data = orc_tail.inflate(
        bytes(tail.data[stream.begin : stream.begin + stream.length]), tail.codec, tail.block_bytes
    )[:_MOST_INFLATED_BYTES]
    scale_range = signed_range(data, second=second)
    if scale_range is not None and not 0 <= scale_range[0] <= scale_range[1] <= _MOST_DIGITS:
        raise Corrupt(
            f"column {stream.column} has decimals of scales {scale_range[0]} to {scale_range[1]}",
            offset=stream.begin,
            field="scale",
        )


def _check_values(tail: Tail, column: Column, streams: Sequence[_Stream], total: int) -> None:
    """Raise `Corrupt` where lists or maps have more values than their columns: Arrow would read beyond."""
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
    """Return an upper bound of a column's values by its streams, of a STRUCT without any by its parts."""
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
