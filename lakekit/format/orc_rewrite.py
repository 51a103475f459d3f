"""Rewrite ORC files of Arrow's writer into what it cannot write: maps with null keys, times before 1970.

    LIST<STRUCT<key, value>>, the STRUCT marked   ->   MAP<key, value>                    `with_maps`
    -1.0005 s  seconds -1, nanos -500 000         ->   seconds -1, nanos 999 500 000      `with_fractions`
    -1.9995 s  seconds -1, nanos -999 500 000     ->   seconds -2, nanos 500 000

Arrow's writer ends the process over null keys, so such files are written as lists first. The streams of the STRUCT are
dropped, its number too: every column behind it moves up by one, in types, streams, encodings and statistics. All other
bytes of a stripe stay as they are. `orc_tail.rewrite_types` goes the other way, for Arrow's reader.

Arrow cuts times toward zero and stores negative nanoseconds, which the reference reads where they are whole
milliseconds and fails for otherwise. The two streams of such columns are replaced by those of the reference. Row
indexes and the bounds of these columns are dropped: they would give other places and other times. A time in the last
second before 1970 keeps Arrow's form: the reference reads its own a second late.

Source: the ORC specification v1, "File Tail", "Stripes", "Map Columns" (a present stream of the key column is all that
a null key needs), "Timestamp Columns", "Run Length Encoding" (direct); ORC's `TimestampTreeWriter`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lakekit.codec import orc_tail
from lakekit.codec.orc_tail import DATA, LIST, MAP, SECONDARY, STRUCT, TIMESTAMP, TIMESTAMP_INSTANT, Column, Part
from lakekit.format.orc_times import EPOCH_2015

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from numpy.typing import NDArray

    from lakekit.codec.orc_tail import Stripe, Tail

    Ticks = NDArray[np.int64]

MARK = "lakekit.map"
"""The attribute of a STRUCT that is an entry of a map."""
INDEX_STREAMS = frozenset({6, 7, 8})
"""Row indexes and bloom filters, which precede the data of a stripe."""
_ATTRIBUTES = 7
_STRIPES, _TYPES, _STATISTICS, _INDEX_ROWS = 3, 4, 7, 8
_TIMESTAMPS = frozenset({TIMESTAMP, TIMESTAMP_INSTANT})
_BOUNDS = 9
"""The member of a column's statistics that holds its least and greatest time."""
_WIDTHS = np.array([*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64])
_RUN = 512


class StripePieces(NamedTuple):
    """One stripe: its index streams, its data streams, the message that is its footer, its number of rows."""

    indexes: bytes
    body: bytes
    footer: bytes
    row_count: int


def file_statistics(tail: Tail) -> list[bytes]:
    """Return the statistics of the whole file, a message for each column."""
    return [bytes(part.value) for part in tail.footer if part.number == _STATISTICS and isinstance(part.value, bytes)]


def stripe_statistics(tail: Tail) -> list[list[bytes]]:
    """Return the statistics of every stripe, a message for each column; nothing of a file that has none."""
    size, length = orc_tail.integer_member(tail.postscript, 5), orc_tail.integer_member(tail.postscript, 1)
    if not size:
        return []
    end = len(tail.data) - 1 - tail.data[-1] - length
    metadata = orc_tail.inflate(bytes(tail.data[end - size : end]), tail.codec, tail.block_bytes)
    stripes = orc_tail.bytes_members(orc_tail.parse_members(metadata), 1)
    return [orc_tail.bytes_members(orc_tail.parse_members(text), 1) for text in stripes]


def build_file(
    tail: Tail,
    stripes: Iterable[StripePieces],
    root: Column,
    statistics: Sequence[bytes],
    by_stripe: Sequence[Sequence[bytes]],
) -> bytes:
    """Return a file of those stripes, types and statistics; where no stripe has an index, the tail says so."""
    out = bytearray(b"ORC")
    told, has_index = [], False
    for stripe in stripes:
        packed = orc_tail.store_chunks(stripe.footer, tail)
        sizes = (len(out), len(stripe.indexes), len(stripe.body), len(packed), stripe.row_count)
        told.append(orc_tail.build_message([Part(member, size) for member, size in enumerate(sizes, start=1)]))
        has_index = has_index or bool(stripe.indexes)
        for piece in (stripe.indexes, stripe.body, packed):
            out += piece
    content_bytes = len(out)
    metadata = _metadata(tail, by_stripe)
    replaced = {2, _STRIPES, _TYPES, _STATISTICS} | (set() if has_index else {_INDEX_ROWS})
    members = [
        Part(2, content_bytes),
        *(Part(_STRIPES, message) for message in told),
        *(Part(_TYPES, message) for message in orc_tail.type_messages(root)),
        *(Part(_STATISTICS, message) for message in statistics),
        *([] if has_index else [Part(_INDEX_ROWS, 0)]),
        *(part for part in tail.footer if part.number not in replaced),
    ]
    footer = orc_tail.store_chunks(orc_tail.build_message(members), tail)
    sizes_of = {1: len(footer), 5: len(metadata)}
    postscript = orc_tail.build_message(
        [Part(part.number, sizes_of.get(part.number, part.value)) for part in tail.postscript]
    )
    return bytes(out) + metadata + footer + postscript + bytes([len(postscript)])


def _metadata(tail: Tail, by_stripe: Sequence[Sequence[bytes]]) -> bytes:
    messages = [orc_tail.build_message([Part(1, message) for message in columns]) for columns in by_stripe]
    return orc_tail.store_chunks(orc_tail.build_message([Part(1, message) for message in messages]), tail)


# ---- maps ------------------------------------------------------------


def with_maps(data: bytes | bytearray) -> bytes:
    """Return the file with its marked lists as maps. Raises what `orc_tail.parse` raises."""
    tail = orc_tail.parse(bytes(data))
    columns = list(_as_map(tail.root).walk())
    numbers = {column.number: number for number, column in enumerate(columns)}
    stripes = (_map_stripe(tail, stripe, columns, numbers) for stripe in tail.stripes)
    by_stripe = [_reorder_columns(messages, columns) for messages in stripe_statistics(tail)]
    statistics = _reorder_columns(file_statistics(tail), columns)
    return build_file(tail, stripes, columns[0], statistics, by_stripe)


def _as_map(column: Column) -> Column:
    """Return the type tree with maps in place of marked lists."""
    children = column.children
    if column.kind == LIST and children and _is_marked(children[0]):
        return Column(MAP, column.number, column.parts, [_as_map(child) for child in children[0].children])
    return Column(column.kind, column.number, column.parts, [_as_map(child) for child in children], column.names)


def _is_marked(column: Column) -> bool:
    texts = [part.value for part in column.parts if part.number == _ATTRIBUTES]
    return column.kind == STRUCT and any(isinstance(text, bytes) and MARK.encode() in text for text in texts)


def _map_stripe(tail: Tail, stripe: Stripe, columns: Sequence[Column], numbers: dict[int, int]) -> StripePieces:
    """Return a stripe without what belongs to dropped columns."""
    footer = orc_tail.footer_of(tail, stripe)
    index, body = bytearray(), bytearray()
    streams: list[Part] = []
    start = stripe.offset
    for text in orc_tail.bytes_members(footer, 1):
        parts = orc_tail.parse_members(text)
        kind, number, length = (orc_tail.integer_member(parts, member) for member in (1, 2, 3))
        if number in numbers:
            into = index if kind in INDEX_STREAMS else body
            into += tail.data[start : start + length]
            streams.append(Part(1, orc_tail.build_message([Part(1, kind), Part(2, numbers[number]), Part(3, length)])))
        start += length
    encodings = [Part(2, encoding) for encoding in _reorder_columns(orc_tail.bytes_members(footer, 2), columns)]
    other_members = [part for part in footer if part.number not in (1, 2)]
    message = orc_tail.build_message([*streams, *encodings, *other_members])
    return StripePieces(bytes(index), bytes(body), message, stripe.row_count)


def _reorder_columns(texts: Sequence[bytes], columns: Sequence[Column]) -> list[bytes]:
    """Return the texts of the columns that are left, in their order; `texts` has one for each old column."""
    return [texts[column.number] for column in columns if column.number < len(texts)]


# ---- times ------------------------------------------------------------


class Times(NamedTuple):
    """The values of one column of a file that are not null, in their order: ticks, of which a millisecond has some."""

    ticks: Ticks
    per_milli: int


def is_old_fraction(ticks: Ticks, per_milli: int) -> NDArray[np.bool_]:
    """Return which times are before 1970 and no whole milliseconds."""
    return (ticks < 0) & (ticks % per_milli != 0)


def is_last_second(ticks: Ticks, per_milli: int) -> NDArray[np.bool_]:
    """Return which times are stored with zero seconds, although before 1970."""
    return (ticks < 0) & (ticks >= -999 * per_milli)


def with_fractions(data: bytes | bytearray, times: Sequence[Times | None]) -> bytes:
    """Return the file with other streams for its timestamps. Raises what `orc_tail.parse` raises.

    Args:
        data: the file.
        times: the values of each timestamp column in the order of the columns; None: it stays as it is.
    """
    tail = orc_tail.parse(bytes(data))
    numbers = [column.number for column in tail.root.walk() if column.kind in _TIMESTAMPS]
    changed = {number: one for number, one in zip(numbers, times, strict=True) if one is not None}
    by_stripe = stripe_statistics(tail)
    stripes = []
    ends = dict.fromkeys(changed, 0)
    for stripe, statistics in zip(tail.stripes, by_stripe, strict=True):
        streams = {}
        for number, one in changed.items():
            count = orc_tail.integer_member(orc_tail.parse_members(statistics[number]), 1)
            part = one.ticks[ends[number] : ends[number] + count]
            ends[number] += count
            streams[number, DATA], streams[number, SECONDARY] = encode(part, one.per_milli)
        stripes.append(_times_stripe(tail, stripe, streams))
    return build_file(
        tail,
        stripes,
        tail.root,
        _without_bounds(file_statistics(tail), changed),
        [_without_bounds(statistics, changed) for statistics in by_stripe],
    )


def _without_bounds(statistics: Sequence[bytes], changed: Container[int]) -> list[bytes]:
    return [
        orc_tail.build_message([part for part in orc_tail.parse_members(message) if part.number != _BOUNDS])
        if number in changed
        else message
        for number, message in enumerate(statistics)
    ]


def _times_stripe(tail: Tail, stripe: Stripe, changed: dict[tuple[int, int], bytes]) -> StripePieces:
    """Return a stripe with the changed streams (by column and kind) and without its indexes."""
    footer = orc_tail.footer_of(tail, stripe)
    body = bytearray()
    streams: list[Part] = []
    start = stripe.offset
    for text in orc_tail.bytes_members(footer, 1):
        parts = orc_tail.parse_members(text)
        kind, number, length = (orc_tail.integer_member(parts, member) for member in (1, 2, 3))
        stream = bytes(tail.data[start : start + length])
        start += length
        if kind in INDEX_STREAMS:
            continue
        if (number, kind) in changed:
            stream = orc_tail.store_chunks(changed[number, kind], tail)
        body += stream
        streams.append(Part(1, orc_tail.build_message([Part(1, kind), Part(2, number), Part(3, len(stream))])))
    message = orc_tail.build_message([*streams, *(part for part in footer if part.number != 1)])
    return StripePieces(b"", bytes(body), message, stripe.row_count)


def encode(ticks: Ticks, per_milli: int) -> tuple[bytes, bytes]:
    """Return the stream of seconds and the stream of nanoseconds of times."""
    millis, rest = np.divmod(ticks, per_milli)
    seconds = np.where(millis < 0, -(-millis // 1000), millis // 1000)
    nanos = millis % 1000 * 1_000_000 + rest * (1_000_000 // per_milli)
    nanos = np.where(is_last_second(ticks, per_milli), nanos - 1_000_000_000, nanos)
    from_2015 = seconds - EPOCH_2015
    return _direct(((from_2015 << 1) ^ (from_2015 >> 63)).view(np.uint64)), _direct(_without_zeros(nanos))


def _without_zeros(nanos: Ticks) -> NDArray[np.uint64]:
    """Return numbers of nanoseconds as ORC stores them: without two to eight zeros at their end, which it counts."""
    stored = nanos << 3
    for zeros in range(2, 9):
        stored = np.where(nanos % 10**zeros == 0, nanos // 10**zeros << 3 | zeros - 1, stored)
    return np.where(nanos == 0, 0, stored).view(np.uint64)


def _direct(values: NDArray[np.uint64]) -> bytes:
    """Return unsigned numbers in direct runs, each as wide as its greatest number."""
    return b"".join(_run(values[start : start + _RUN]) for start in range(0, len(values), _RUN))


def _run(values: NDArray[np.uint64]) -> bytes:
    code = int(np.searchsorted(_WIDTHS, max(1, int(values.max()).bit_length())))
    bits = np.unpackbits(values.astype(">u8").view(np.uint8)).reshape(-1, 64)[:, 64 - int(_WIDTHS[code]) :]
    head = 1 << 14 | code << 9 | len(values) - 1
    return head.to_bytes(2, "big") + np.packbits(bits.ravel()).tobytes()
