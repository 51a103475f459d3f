"""Whether what an ORC file says of its stripes, streams and lengths is within bounds, before Arrow allocates and reads by it.

    footer            rows are those of the stripes · decimals have 1 to 38 digits · parts of types are as many as their kind has
    stripe footer     streams lie inside the stripe and belong to columns · a dictionary has no more values than the stripe has rows
    stream            its compressed chunks are no longer than a block, and end where it ends
    LENGTH streams    no length of a text, a list or a map is below zero: Arrow would read where nothing is

Lengths are looked at where a stripe has few of them: there may be a run for every ten, which takes longer than Arrow takes to decode them. Of others
a check of all rows in a process of its own finds what is wrong (`care/checks/apart.py`). Only the heads of runs are looked at, and the values that no
head bounds:

    00 repeat    2 bits kind · 3 bits bytes - 1 · 3 bits count - 3 | value, big-endian
    01 direct    2 kind · 5 width · 9 count - 1 | values
    10 patched   2 kind · 5 width · 9 count - 1 · 3 bytes of the base - 1 · 5 patch width · 3 gap width - 1 · 5 patches | base | values | patches
    11 delta     2 kind · 5 width · 9 count - 1 | base, varint | delta, zig-zag varint | deltas

Source: the ORC specification v1, "Run Length Encoding", "Stripes".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lakekit.errors import Corrupt
from lakekit.format import orc_tail
from lakekit.format.varints import read_varint, read_zigzag

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from lakekit.format.orc_tail import Column, Stripe, Tail

_MAGIC_BYTES = 3
_LONGEST_BLOCK = 1 << 23
_PRESENT, _DATA, _LENGTH, _DICTIONARY = 0, 1, 2, 3
_LAST_DATA_KIND = 5
_DICTIONARIES, _SECOND = (1, 3), (2, 3)
_LIST, _MAP, _STRUCT, _DECIMAL = 10, 11, 12, 14
_MOST_DIGITS = 38
_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
_FEW_BYTES = 2048
"""Lengths of more bytes, as they are stored, are not looked at."""
_SLACK_BYTES = 64 << 20
"""What a wrong length may make Arrow allocate in vain."""
_MOST_LENGTH = 2**63 - 1


class _Stream(NamedTuple):
    """A stream of a stripe: its kind, its column, and where it lies."""

    kind: int
    column: int
    begin: int
    length: int


def check(path: str, data: bytes | memoryview, columns: Container[str] | None = None) -> None:
    """Looks at the tail of a whole file and at the streams of some columns, None: of all; of `data` no more is read than these.

    Raises `Corrupt`, `LimitExceeded` or `Unsupported`, with the path.
    """
    try:
        tail = orc_tail.parse(data)
        _check_tail(tail)
        wanted = {column.number: column for child in _children(tail.root, columns) for column in child.walk()}
        for stripe in tail.stripes:
            _check_stripe(tail, stripe, wanted)
    except Corrupt as wrong:
        raise wrong.at(path) from None


def _children(root: Column, columns: Container[str] | None) -> Iterator[Column]:
    for name, child in zip(root.names, root.children, strict=False):
        if columns is None or name.decode("utf-8", "replace") in columns:
            yield child


def _check_tail(tail: Tail) -> None:
    if tail.codec != "none" and not 0 < tail.block_bytes <= _LONGEST_BLOCK:
        raise Corrupt(f"blocks of {tail.block_bytes} bytes, where {_LONGEST_BLOCK} are the most", field="compression block size")
    rows = sum(stripe.row_count for stripe in tail.stripes)
    if rows != orc_tail.whole_of(tail.footer, 6):
        raise Corrupt(f"its stripes have {rows} rows, the footer says {orc_tail.whole_of(tail.footer, 6)}", field="rows")
    for column in tail.root.walk():
        count = len(column.children)
        if count != {_LIST: 1, _MAP: 2}.get(column.kind, count) or (column.kind == _STRUCT and count != len(column.names)):
            raise Corrupt(f"column {column.number} of kind {column.kind} has {count} parts and {len(column.names)} names", field="types")
        if column.kind == _DECIMAL:
            digits, scale = orc_tail.whole_of(column.parts, 5), orc_tail.whole_of(column.parts, 6)
            if not 0 < digits <= _MOST_DIGITS or not 0 <= scale <= digits:
                raise Corrupt(f"column {column.number} is a decimal of {digits} digits, {scale} of them after the point", field="types")


def _check_stripe(tail: Tail, stripe: Stripe, wanted: dict[int, Column]) -> None:
    end = stripe.offset + stripe.index_bytes + stripe.data_bytes
    if stripe.offset < _MAGIC_BYTES:
        raise Corrupt(f"a stripe at byte {stripe.offset}", offset=stripe.offset, field="stripe")
    footer = orc_tail.footer_of(tail, stripe)
    encodings = [orc_tail.parse_members(one) for one in orc_tail.all_of(footer, 2)]
    plain = _outside_lists(tail.root)
    streams = list(_streams(footer, stripe.offset, end))
    few = sum(one.length for one in streams if one.kind == _LENGTH and one.column in wanted) <= _FEW_BYTES
    sizes = {one.column: one.length for one in streams if one.kind in (_DATA, _DICTIONARY)}
    for one in streams:
        if one.column not in wanted or one.kind > _LAST_DATA_KIND:
            continue
        encoding = encodings[one.column] if one.column < len(encodings) else []
        kind, count = orc_tail.whole_of(encoding, 1), orc_tail.whole_of(encoding, 2)
        if kind in _DICTIONARIES and one.column in plain and count > stripe.row_count:
            raise Corrupt(f"a dictionary of {count} values in a stripe of {stripe.row_count} rows", offset=one.begin, field="dictionary size")
        blocks = _check_chunks(tail, one) if tail.codec != "none" else 1
        if one.kind == _LENGTH and few:
            packed = bytes(tail.data[one.begin : one.begin + one.length])
            data = orc_tail.inflate(packed, tail.codec, tail.block_bytes)
            total = total_bound(data, second=kind in _SECOND)
            most = max(sizes.get(one.column, 0), tail.block_bytes * blocks) * 256
            if wanted[one.column].kind not in (_LIST, _MAP) and total > most + _SLACK_BYTES:
                raise Corrupt(f"texts of {total} bytes in a stream of {sizes.get(one.column, 0)}", offset=one.begin, field="length")


def _streams(footer: list[orc_tail.Part], begin: int, end: int) -> Iterator[_Stream]:
    """The streams of a stripe, in the order of their bytes."""
    for stream in orc_tail.all_of(footer, 1):
        members = orc_tail.parse_members(stream)
        kind, column, length = (orc_tail.whole_of(members, number) for number in (1, 2, 3))
        if length > end - begin:
            raise Corrupt(f"a stream of {length} bytes, and {end - begin} are left of its stripe", offset=begin, field="stream")
        yield _Stream(kind, column, begin, length)
        begin += length


def _outside_lists(column: Column) -> set[int]:
    """The columns that have no more values than there are rows."""
    if column.kind in (_LIST, _MAP):
        return {column.number}
    return {column.number}.union(*map(_outside_lists, column.children))


def _check_chunks(tail: Tail, stream: _Stream) -> int:
    """Looks at the heads of a stream's chunks; gives how many there are."""
    at, end, count = stream.begin, stream.begin + stream.length, 0
    while at < end:
        head = int.from_bytes(tail.data[at : at + 3], "little")
        length = head >> 1
        if at + 3 + length > end or length > tail.block_bytes:
            raise Corrupt(f"a chunk of {length} bytes in a stream that ends at byte {end}", offset=at, field="chunk length")
        at += 3 + length
        count += 1
    return count


# ---- lengths -----------------------------------------------------------------------------------------------------------------------------------


def total_bound(data: bytes, *, second: bool) -> int:
    """At most so many are all lengths of a stream together. Raises `Corrupt` where one is below zero; what ends too early is left to Arrow."""
    total, at = 0, 0
    try:
        while at < len(data):
            bound, at = _run(data, at) if second else _first_run(data, at)
            total += bound
    except IndexError:
        pass
    return total


def _first_run(data: bytes, at: int) -> tuple[int, int]:
    """The bound of a run of the first version, and where the next begins: count - 3, delta, base; or 256 - count, values."""
    head = data[at]
    if head < 0x80:
        count, delta = head + 3, data[at + 1] - ((data[at + 1] & 0x80) << 1)
        base, at = read_varint(data, at + 2)
        return count * _greater(base, base + delta * (count - 1)), at
    total, at = 0, at + 1
    for _ in range(256 - head):
        value, at = read_varint(data, at)
        total += _greater(value, value)
    return total, at


def _run(data: bytes, at: int) -> tuple[int, int]:
    """The bound of a run of the second version, and where the next begins."""
    head = data[at]
    kind = head >> 6
    if kind == 0:
        size = (head >> 3 & 7) + 1
        value = int.from_bytes(data[at + 1 : at + 1 + size], "big")
        return ((head & 7) + 3) * _greater(value, value), at + 1 + size
    width, count = _WIDTHS[head >> 1 & 31], ((head & 1) << 8 | data[at + 1]) + 1
    at += 2
    if kind == 1:
        end = at + (count * width + 7) // 8
        if width < 63:
            return count * ((1 << width) - 1), end
        if end > len(data):
            raise IndexError
        values = np.frombuffer(data[at : at + count * 8], ">i8")
        return count * _greater(int(values.min(initial=0)), int(values.max(initial=0))), end
    if kind == 2:
        return _patched(data, at, width, count)
    base, at = read_varint(data, at)
    delta, at = read_zigzag(data, at)
    if not head >> 1 & 31:
        return count * _greater(base, base + delta * (count - 1)), at
    end = at + ((count - 2) * width + 7) // 8
    steps = _sum(data[at:end], width, max(0, count - 2))
    return count * _greater(base, base + delta + (steps if delta >= 0 else -steps)), end


def _patched(data: bytes, at: int, width: int, count: int) -> tuple[int, int]:
    size, patch_width = (data[at] >> 5) + 1, _WIDTHS[data[at] & 31]
    gap_width, patches = (data[at + 1] >> 5) + 1, data[at + 1] & 31
    at += 2
    base = int.from_bytes(data[at : at + size], "big")
    if base >> (8 * size - 1):
        raise Corrupt("a length below zero", field="length")
    each = next(one for one in _WIDTHS if one >= min(gap_width + patch_width, 64))
    end = at + size + (count * width + 7) // 8 + (patches * each + 7) // 8
    return count * (base + (1 << width)) + (patches << min(width + patch_width, 62)), end


def _sum(data: bytes, width: int, count: int) -> int:
    """The sum of `count` numbers of so many bits each, the highest first. Raises `IndexError` where the data ends."""
    if not count:
        return 0
    if len(data) * 8 < count * width:
        raise IndexError
    bits = np.unpackbits(np.frombuffer(data, np.uint8))[: count * width].reshape(-1, width)
    return sum(int(ones) << (width - 1 - at) for at, ones in enumerate(bits.sum(0, dtype=np.int64)))


def _greater(one: int, other: int) -> int:
    """The greater of two lengths. Raises `Corrupt` where one of them is none."""
    if one < 0 or other < 0 or one > _MOST_LENGTH or other > _MOST_LENGTH:
        raise Corrupt(f"a length of {min(one, other)}", field="length")
    return max(one, other)
