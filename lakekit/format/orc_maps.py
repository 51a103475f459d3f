"""Rewrite ORC files whose maps have null keys from lists of entries to maps.

    LIST<STRUCT<key, value>>, the STRUCT marked   ->   MAP<key, value>

Arrow's writer ends the process over null keys, so such files are written as lists first. The streams of the STRUCT are
dropped, its number too: every column behind it moves up by one, in types, streams, encodings and statistics. All other
bytes of a stripe stay as they are. Start from `with_maps`; `orc_tail.rewrite_types` goes the other way, for Arrow's
reader.

Source: the ORC specification v1, "File Tail", "Stripes", "Map Columns" (a present stream of the key column is all that
a null key needs).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.codec import orc_tail
from lakekit.codec.orc_tail import LIST, MAP, STRUCT, Column, Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.codec.orc_tail import Stripe, Tail

MARK = "lakekit.map"
"""The attribute of a STRUCT that is an entry of a map."""
_ATTRIBUTES, _STATISTICS = 7, 7
_INDEX_STREAMS = frozenset({6, 7, 8})
"""Row indexes and bloom filters, which precede the data of a stripe."""


def with_maps(data: bytes | bytearray) -> bytes:
    """Return the file with its marked lists as maps. Raises what `orc_tail.parse` raises."""
    tail = orc_tail.parse(bytes(data))
    columns = list(_as_map(tail.root).walk())
    numbers = {column.number: number for number, column in enumerate(columns)}
    out = bytearray(b"ORC")
    stripes = []
    for stripe in tail.stripes:
        index, body, footer = _stripe(tail, stripe, columns, numbers)
        packed = orc_tail.store_chunks(footer, tail)
        sizes = (len(out), len(index), len(body), len(packed), stripe.row_count)
        stripes.append(orc_tail.build_message([Part(member, size) for member, size in enumerate(sizes, start=1)]))
        for piece in (index, body, packed):
            out += piece
    content_bytes = len(out)
    metadata = _stripe_statistics(tail, columns)
    statistics = _reorder_columns([part.value for part in tail.footer if part.number == _STATISTICS], columns)
    unchanged = [part for part in tail.footer if part.number not in (2, 3, 4, _STATISTICS)]
    types = [Part(4, message) for message in orc_tail.type_messages(columns[0])]
    added = [
        Part(2, content_bytes),
        *(Part(3, message) for message in stripes),
        *types,
        *(Part(_STATISTICS, message) for message in statistics),
    ]
    footer = orc_tail.store_chunks(orc_tail.build_message([*added, *unchanged]), tail)
    replaced = {1: len(footer), 5: len(metadata)}
    postscript = orc_tail.build_message(
        [Part(part.number, replaced.get(part.number, part.value)) for part in tail.postscript]
    )
    return bytes(out) + metadata + footer + postscript + bytes([len(postscript)])


def _as_map(column: Column) -> Column:
    """Return the type tree with maps in place of marked lists."""
    children = column.children
    if column.kind == LIST and children and _is_marked(children[0]):
        return Column(MAP, column.number, column.parts, [_as_map(child) for child in children[0].children])
    return Column(column.kind, column.number, column.parts, [_as_map(child) for child in children], column.names)


def _is_marked(column: Column) -> bool:
    texts = [part.value for part in column.parts if part.number == _ATTRIBUTES]
    return column.kind == STRUCT and any(isinstance(text, bytes) and MARK.encode() in text for text in texts)


def _stripe(
    tail: Tail, stripe: Stripe, columns: Sequence[Column], numbers: dict[int, int]
) -> tuple[bytes, bytes, bytes]:
    """Return index streams, data streams and footer of a stripe, without those of dropped columns."""
    footer = orc_tail.footer_of(tail, stripe)
    index, body = bytearray(), bytearray()
    streams: list[Part] = []
    start = stripe.offset
    for text in orc_tail.bytes_members(footer, 1):
        parts = orc_tail.parse_members(text)
        kind, number, length = (orc_tail.integer_member(parts, member) for member in (1, 2, 3))
        if number in numbers:
            into = index if kind in _INDEX_STREAMS else body
            into += tail.data[start : start + length]
            streams.append(Part(1, orc_tail.build_message([Part(1, kind), Part(2, numbers[number]), Part(3, length)])))
        start += length
    encodings = [Part(2, encoding) for encoding in _reorder_columns(orc_tail.bytes_members(footer, 2), columns)]
    other_members = [part for part in footer if part.number not in (1, 2)]
    return bytes(index), bytes(body), orc_tail.build_message([*streams, *encodings, *other_members])


def _stripe_statistics(tail: Tail, columns: Sequence[Column]) -> bytes:
    """Return the metadata of the file, which precedes its footer: statistics of every stripe."""
    size, length = orc_tail.integer_member(tail.postscript, 5), orc_tail.integer_member(tail.postscript, 1)
    if not size:
        return b""
    end = len(tail.data) - 1 - tail.data[-1] - length
    stripes = orc_tail.bytes_members(
        orc_tail.parse_members(orc_tail.inflate(bytes(tail.data[end - size : end]), tail.codec, tail.block_bytes)), 1
    )
    messages = [
        orc_tail.build_message(
            [
                Part(1, message)
                for message in _reorder_columns(orc_tail.bytes_members(orc_tail.parse_members(text), 1), columns)
            ]
        )
        for text in stripes
    ]
    return orc_tail.store_chunks(orc_tail.build_message([Part(1, message) for message in messages]), tail)


def _reorder_columns(texts: Sequence[int | bytes], columns: Sequence[Column]) -> list[bytes]:
    """Return the texts of the columns that are left, in their order; `texts` has one for each old column."""
    return [bytes(texts[column.number]) for column in columns if column.number < len(texts)]
