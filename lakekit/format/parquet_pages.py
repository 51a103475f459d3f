"""Verify the checksums of the pages of a Parquet file: headers may hold a CRC-32 of their page.

    page header   1 type · 2 3 bytes of the page, uncompressed and compressed · 4 CRC-32 · …
    page          as many bytes as member 3 says, levels and values as they are compressed: the CRC is of these

Java engines write one into every page, Polars into none, and decoders check it only on request: without that, a flipped
bit is a value. Source: the Apache Parquet format, `parquet.thrift` and "Checksumming".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from lakekit.errors import Corrupt
from lakekit.format import thrift
from lakekit.format.parquet_held import footer_of
from lakekit.format.thrift import BINARY, I32, I64, LIST, STRUCT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakekit.format.thrift import Struct

    Read = Callable[[int, int | None], bytes]

_GROUPS, _CHUNKS, _FACTS = 4, 1, 3
_PATH, _SIZE_BYTES, _DATA_AT, _DICTIONARY_AT = 3, 7, 9, 11
_PAGE_BYTES, _CRC = 3, 4
_FIRST_BYTE, _END_BYTES = 4, 8


class DamagedPage(NamedTuple):
    """A page whose bytes, from `offset` of the file on, do not have the CRC-32 `stored` in its header.

    `column`: names, with dots between.
    """

    column: str
    offset: int
    stored: int
    computed: int


class _PageRange(NamedTuple):
    """The range of the file that holds the pages of a column of a row group."""

    column: str
    begin: int
    end: int


def find_damaged_pages(
    path: str, read: Read, size_bytes: int, unsummed: list[str] | None = None
) -> Iterator[DamagedPage]:
    """Yield the damaged pages of a file, of which `read(offset, length)` returns bytes.

    One row group is in memory at a time. `unsummed` gets the column of each page that has no CRC-32. Raises `Corrupt`,
    `Unsupported`.
    """
    try:
        for group in _list(footer_of(path, read, size_bytes), _GROUPS, STRUCT):
            chunks = [_chunk(_member(chunk, _FACTS, STRUCT), size_bytes) for chunk in _list(group, _CHUNKS, STRUCT)]
            first, end = (
                min((chunk.begin for chunk in chunks), default=0),
                max((chunk.end for chunk in chunks), default=0),
            )
            data = read(first, end - first) if chunks else b""
            for chunk in chunks:
                yield from _pages(chunk, data, first, unsummed)
    except Corrupt as error:
        raise error.at(path) from None


def _chunk(facts: Struct, size_bytes: int) -> _PageRange:
    column = ".".join(part.decode("utf-8", "replace") for part in _list(facts, _PATH, BINARY))
    begin, length = _member(facts, _DATA_AT, I64), _member(facts, _SIZE_BYTES, I64)
    dictionary_at = _member(facts, _DICTIONARY_AT, I64) if _DICTIONARY_AT in facts else 0
    # a column without values may have a dictionary, or nothing
    begin = min(filter(None, (begin, dictionary_at)), default=_FIRST_BYTE)
    if not _FIRST_BYTE <= begin <= begin + length <= size_bytes - _END_BYTES:
        raise Corrupt(
            f"column {column} has {length} bytes from byte {begin} on, in a file of {size_bytes}",
            field="total_compressed_size",
        )
    return _PageRange(column, begin, begin + length)


def _pages(chunk: _PageRange, data: bytes, first: int, unsummed: list[str] | None) -> Iterator[DamagedPage]:
    """Yield the damaged pages of a column; `data` begins at byte `first` of the file."""
    view, at, end = memoryview(data), chunk.begin - first, chunk.end - first
    while at < end:
        try:
            header, body = thrift.decode(data, at)
            length = _member(header, _PAGE_BYTES, I32)
            stored = _member(header, _CRC, I32) & 0xFFFFFFFF if _CRC in header else None
        except Corrupt as error:
            raise Corrupt(
                f"column {chunk.column}: no head of a page: {error.message}", offset=first + at, field="header"
            ) from None
        if not 0 <= length <= end - body:
            msg = f"column {chunk.column}: a page of {length} bytes, and {end - body} are left of the column"
            raise Corrupt(msg, offset=first + at, field="compressed_page_size")
        computed = crc32(view[body : body + length])
        if stored is None and unsummed is not None:
            unsummed.append(chunk.column)
        if stored is not None and stored != computed:
            yield DamagedPage(chunk.column, first + body, stored, computed)
        at = body + length


def _list(struct: Struct, number: int, kind: int) -> list[Any]:
    """Return the elements of a member that is a list of that kind. Raises `Corrupt`."""
    element_kind, elements = _member(struct, number, LIST)
    if elements and element_kind != kind:
        raise Corrupt(f"elements of kind {element_kind} in member {number}, where {kind} was expected", field="footer")
    return list(elements)


def _member(struct: Struct, number: int, kind: int) -> Any:
    """Return a member's value. Raises `Corrupt` where it is missing, or of another kind."""
    member = struct.get(number)
    if member is None or member[0] != kind:
        raise Corrupt(f"no member {number} of kind {kind} in a Thrift struct", field="footer")
    return member[1]
