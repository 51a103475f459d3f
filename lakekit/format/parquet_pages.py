"""The pages of Parquet files: checksums verified, checksums added, and spans for hex views.

    "PAR1" | page header, page … of every column chunk | column and offset indexes
           | footer | i32 LE length of the footer | "PAR1"

    page header   1 type · 2 3 bytes of the page, uncompressed and compressed · 4 CRC-32 · …
    page          as many bytes as member 3 says, levels and values as they are compressed: the CRC is of these

Java engines write a CRC into every page, Polars into none, and decoders check it only on request: without that, a
flipped bit is a value (`find_damaged_pages`). `RowGroupStream` copies the row groups of an encoder's small file into a
bigger file, and adds checksums:

    encoder writes    "PAR1" | header, page | header, page | … | column metadata | … | page indexes
                      | footer | i32 LE length | "PAR1"
    sink receives              header with CRC-32, page | …                      | … | page indexes, updated

    page header       15 kind · 15 uncompressed size · 15 compressed size ·             2c data page · 00
    and with a CRC    15 kind · 15 uncompressed size · 15 compressed size · 15 CRC-32 · 1c data page · 00
                      of a dictionary page 4c and 3c

Headers grow by a few bytes, so every stored offset of a page is updated. Metadata of a column between the pages, which
the footer has too, is dropped; it begins otherwise than headers do (15 type · 19 a list of numbers), and so do page
indexes, which follow all pages. Encoders write from threads of their own, and wrap what a sink raises: `failed` keeps
the original error. Polars and Arrow decode without reporting offsets, so `record_footer` reads the headers a second
time for hex views; tests compare its values with Arrow's metadata. `parquet_footer` draws the encoding.

Source: the Apache Parquet format, `parquet.thrift`, "Checksumming".
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from lakekit.codec.cursor import Cursor, read_varint
from lakekit.errors import Corrupt, Unsupported
from lakekit.format import parquet_footer, thrift
from lakekit.format.parquet_footer import read_footer, skip_value
from lakekit.format.thrift import BINARY, I32, I64, LIST, STRUCT
from lakekit.types import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakekit.format.parquet_footer import ColumnChunk, RowGroup
    from lakekit.format.thrift import Struct

    Read = Callable[[int, int | None], bytes]


_ROW_GROUPS_FIELD, _COLUMNS_FIELD, _META_DATA_FIELD = 4, 1, 3
_PATH_FIELD, _SIZE_BYTES, _DATA_AT, _DICTIONARY_AT = 3, 7, 9, 11
_PAGE_BYTES, _CRC_FIELD = 3, 4
_FIRST_BYTE, _END_BYTES = 4, 8


class DamagedPage(NamedTuple):
    """A page whose bytes, from `offset` of the file on, do not have the CRC-32 `stored_crc` in its header.

    `column`: names, with dots between.
    """

    column: str
    offset: int
    stored_crc: int
    computed_crc: int


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
        for group in _list_elements(read_footer(path, read, size_bytes), _ROW_GROUPS_FIELD, STRUCT):
            chunks = [
                _page_range(_read_member(chunk, _META_DATA_FIELD, STRUCT), size_bytes)
                for chunk in _list_elements(group, _COLUMNS_FIELD, STRUCT)
            ]
            first, end = (
                min((chunk.begin for chunk in chunks), default=0),
                max((chunk.end for chunk in chunks), default=0),
            )
            data = read(first, end - first) if chunks else b""
            for chunk in chunks:
                yield from _check_pages(chunk, data, first, unsummed)
    except Corrupt as error:
        raise error.at(path) from None


def _page_range(column_metadata: Struct, size_bytes: int) -> _PageRange:
    column = ".".join(part.decode("utf-8", "replace") for part in _list_elements(column_metadata, _PATH_FIELD, BINARY))
    begin, length = _read_member(column_metadata, _DATA_AT, I64), _read_member(column_metadata, _SIZE_BYTES, I64)
    dictionary_at = _read_member(column_metadata, _DICTIONARY_AT, I64) if _DICTIONARY_AT in column_metadata else 0
    # a column without values may have a dictionary, or nothing
    begin = min(filter(None, (begin, dictionary_at)), default=_FIRST_BYTE)
    if not _FIRST_BYTE <= begin <= begin + length <= size_bytes - _END_BYTES:
        raise Corrupt(
            f"column {column} has {length} bytes from byte {begin} on, in a file of {size_bytes}",
            field="total_compressed_size",
        )
    return _PageRange(column, begin, begin + length)


def _check_pages(chunk: _PageRange, data: bytes, first: int, unsummed: list[str] | None) -> Iterator[DamagedPage]:
    """Yield the damaged pages of a column; `data` begins at byte `first` of the file."""
    view, at, end = memoryview(data), chunk.begin - first, chunk.end - first
    while at < end:
        try:
            header, body = thrift.decode_struct(data, at)
            length = _read_member(header, _PAGE_BYTES, I32)
            stored = _read_member(header, _CRC_FIELD, I32) & 0xFFFFFFFF if _CRC_FIELD in header else None
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


def _list_elements(struct: Struct, field_id: int, kind: int) -> list[Any]:
    """Return the elements of a member that is a list of that kind. Raises `Corrupt`."""
    element_kind, elements = _read_member(struct, field_id, LIST)
    if elements and element_kind != kind:
        raise Corrupt(
            f"elements of kind {element_kind} in member {field_id}, where {kind} was expected", field="footer"
        )
    return list(elements)


def _read_member(struct: Struct, field_id: int, kind: int) -> Any:
    """Return a member's value. Raises `Corrupt` if it is missing, or of another kind."""
    member = struct.get(field_id)
    if member is None or member[0] != kind:
        raise Corrupt(f"no member {field_id} of kind {kind} in a Thrift struct", field="footer")
    return member[1]


# ---- row groups in passing ---------------------------------------------------


MAGIC = b"PAR1"
_MEMBER_HEADERS, _MEMBER_LIST = 0x15, 0x19
"""The heads of members that are a number of 32 bits, or a list, and directly follow the last one."""
_JOINED_BYTES = 1 << 16
"""A page of no more bytes is joined with its header, which costs less than a second call."""
_SIGNATURE_BYTES = 4
"""So many bytes show what begins with them."""
_COLUMN_INDEX, _OFFSET_INDEX = (6, 7), (4, 5)


class _PageHead(NamedTuple):
    """The header of a page of `page_bytes` bytes: a checksum is inserted at `checksum_offset`, and it ends at `end`."""

    data: bytes
    page_bytes: int
    checksum_offset: int
    end: int


class RowGroupStream:
    """The file object that an encoder writes to.

    `put` takes the bytes for the bigger file, from its byte `start` on.
    """

    def __init__(self, put: Callable[[bytes | memoryview], object], start: int) -> None:
        self._put, self._start = put, start
        self._source_offset = 0
        self._partial_head = b""
        """The beginning of an incomplete page header."""
        self._head = _PageHead(b"", 0, 0, 0)
        """The header of the current page; `_missing` bytes of its body have not arrived."""
        self._missing_bytes = 0
        self._body: list[memoryview] = []
        self._footer_parts: list[bytes] | None = None
        """The bytes after the last page."""
        self._pages, self._growth = list[int](), list[int]()
        """The encoder's offsets of page headers and column metadata, and by how many bytes each has grown."""
        self.failed: BaseException | None = None

    def write(self, data: bytes | memoryview) -> int:
        """Take the next bytes of the small file, which must not change any more."""
        view = memoryview(data)
        skipped = min(max(0, len(MAGIC) - self._source_offset), len(view))
        self._source_offset += skipped
        view = view[skipped:]
        try:
            while len(view):
                view = self._process(view)
        except BaseException as failed:
            self.failed = failed
            raise
        return len(data)

    def flush(self) -> None:
        """Do nothing: the sink is flushed by its owner."""

    def _process(self, view: memoryview) -> memoryview:
        """Process the beginning of some bytes, and return what is left of them."""
        if self._missing_bytes:
            self._body.append(view[: self._missing_bytes])
            taken = len(self._body[-1])
            self._missing_bytes -= taken
        elif self._footer_parts is not None:
            self._footer_parts.append(bytes(view))
            taken = len(view)
        else:
            return self._begin_item(view)
        self._source_offset += taken
        if self._footer_parts is None and not self._missing_bytes:
            self._write_page()
        return view[taken:]

    def _begin_item(self, view: memoryview) -> memoryview:
        """Process the header of a page or the metadata of a column, or find that all pages were processed."""
        data = memoryview(self._partial_head + bytes(view)) if self._partial_head else view
        self._partial_head = b""
        is_page, is_fact = _classify_bytes(data)
        if len(data) >= _SIGNATURE_BYTES and not is_page and not is_fact:
            self._footer_parts = []
            return data
        try:
            head = _parse_page_head(data) if is_page else None
            end = head.end if head is not None else skip_value(data, 0, STRUCT, 0) if is_fact else 0
        except IndexError:
            end = 0
        if not end:  # it ends too early
            self._partial_head = bytes(data)
            return view[:0]
        self._pages.append(self._source_offset)
        self._source_offset += end
        if head is None:
            self._growth.append(-end)
        else:
            self._head = head
            self._missing_bytes = head.page_bytes
            if not self._missing_bytes:
                self._write_page()
        return data[end:]

    def _write_page(self) -> None:
        """Write a page that is complete to the sink."""
        head, checksum = self._head, 0
        for part in self._body:
            checksum = crc32(part, checksum)
        checksum_member = thrift.encode_members({4: (I32, checksum - (checksum >> 31 << 32))}, 3)
        grown = b"".join(
            [
                head.data[: head.checksum_offset],
                checksum_member,
                bytes([head.data[head.checksum_offset] - 0x10]),
                head.data[head.checksum_offset + 1 : head.end],
            ]
        )
        self._growth.append(len(grown) - head.end)
        if sum(map(len, self._body)) <= _JOINED_BYTES:
            self._put(b"".join([grown, *self._body]))
        else:
            self._put(grown)
            for part in self._body:
                self._put(part)
        self._body = []

    def finish_row_groups(self) -> list[RowGroup]:
        """Write the page indexes to the sink, once everything else is written, and return the row groups.

        Raises `Corrupt`.
        """
        ending = b"".join(self._footer_parts or [])
        length = int.from_bytes(ending[-8:-4], "little") + 8
        if ending[-4:] != MAGIC or length > len(ending):
            raise Corrupt("an encoder's file that does not end as Parquet does", field="footer")
        indexes, begin = ending[:-length], self._source_offset - len(ending)
        row_groups, offsets = (
            parquet_footer.read_row_groups(ending[-length:-8], 0),
            _Offsets(self._pages, self._growth, self._start - len(MAGIC)),
        )
        chunks = [chunk for group in row_groups for chunk in group.chunks]
        new_offset, new_indexes = self._start - len(MAGIC) + begin + sum(self._growth), []
        for members, update in ((_COLUMN_INDEX, offsets.unchanged), (_OFFSET_INDEX, offsets.shift_offset_index)):
            for chunk in chunks:
                if (index := chunk.page_index_range(members)) is not None:
                    new_indexes.append(update(indexes[index[0] - begin : index[0] - begin + index[1]]))
                    chunk.set_page_index_range(members, new_offset, len(new_indexes[-1]))
                    new_offset += len(new_indexes[-1])
        self._put(b"".join(new_indexes))
        return [
            group._replace(size_bytes=group.size_bytes + sum([offsets.shift_chunk(chunk) for chunk in group.chunks]))
            for group in row_groups
        ]


def _classify_bytes(data: memoryview) -> tuple[bool, bool]:
    """Return whether a page header begins here, and whether metadata of a column does."""
    if len(data) < _SIGNATURE_BYTES or data[0] != _MEMBER_HEADERS:
        return False, False
    return data[2] == _MEMBER_HEADERS, data[2] == _MEMBER_LIST and data[3] & 15 == I32


def _parse_page_head(data: memoryview) -> _PageHead:
    """Return the page header that begins here. Raises `IndexError` if it ends too early."""
    at = number = 0
    for _ in range(3):
        number, at = read_varint(data, at + 1)
    end = skip_value(data, at, STRUCT, 0)
    return _PageHead(bytes(data[:end]), number >> 1, at, end)


class _Offsets:
    """Offsets in the bigger file, where headers have grown and the small file begins elsewhere."""

    def __init__(self, pages: list[int], growth: list[int], shift: int) -> None:
        self._pages, self._growth = pages, growth
        self._shifts = [shift, *accumulate(growth, initial=shift)][1:]

    def new_offset(self, offset: int) -> int:
        return offset + self._shifts[bisect_left(self._pages, offset)]

    def shift_chunk(self, chunk: ColumnChunk) -> int:
        """Update the offsets of a chunk, and return by how many bytes it has grown."""
        begin, end = chunk.byte_range
        growth = self.new_offset(end) - self.new_offset(begin) - (end - begin)
        chunk.remap_offsets(self.new_offset, growth)
        return growth

    @staticmethod
    def unchanged(data: bytes) -> bytes:
        """Return an index without offsets as it is."""
        return data

    def shift_offset_index(self, data: bytes) -> bytes:
        """Return an offset index with updated offsets.

        It is 1 a list of structs of 1 the offset of a page · 2 its bytes, with its header · 3 its first row.
        """
        _, count, at = thrift.read_list_head(data, 1)
        encoded = [data[:at]]
        for _ in range(count):
            members = []
            for _ in range(3):
                number, at = read_varint(data, at + 1)
                members.append(number >> 1)
            at += 1
            offset, size_bytes, first_row = members
            size_bytes += self._growth[bisect_left(self._pages, offset)]
            encoded.append(
                thrift.encode_struct({1: (I64, self.new_offset(offset)), 2: (I32, size_bytes), 3: (I64, first_row)})
            )
        return b"".join([*encoded, data[at:]])


# ---- spans --------------------------------------------------------------------


ENCRYPTED_MAGIC = b"PARE"
_STATISTICS_MEMBERS = "max min null_count distinct_count max_value min_value is_max_value_exact is_min_value_exact"
_STRUCT_MEMBERS = {
    "footer": "version schema num_rows row_groups key_value_metadata created_by column_orders",
    "schema": "type type_length repetition_type name num_children converted_type scale precision field_id logicalType",
    "row_groups": "columns total_byte_size num_rows sorting_columns file_offset total_compressed_size ordinal",
    "columns": """file_path file_offset meta_data offset_index_offset offset_index_length column_index_offset
        column_index_length""",
    "meta_data": """type encodings path_in_schema codec num_values total_uncompressed_size total_compressed_size
        key_value_metadata data_page_offset index_page_offset dictionary_page_offset statistics encoding_stats
        bloom_filter_offset bloom_filter_length size_statistics""",
    "key_value_metadata": "key value",
    "encoding_stats": "page_type encoding count",
    "statistics": _STATISTICS_MEMBERS,
    "header": """type uncompressed_page_size compressed_page_size crc data_page_header index_page_header
        dictionary_page_header data_page_header_v2""",
    "data_page_header": "num_values encoding definition_level_encoding repetition_level_encoding statistics",
    "dictionary_page_header": "num_values encoding is_sorted",
    "data_page_header_v2": """num_values num_nulls num_rows encoding definition_levels_byte_length
        repetition_levels_byte_length is_compressed statistics""",
}
_MEMBER_NAMES = {shape: names.split() for shape, names in _STRUCT_MEMBERS.items()}
_VARINT_KINDS = frozenset({4, 5, 6})
_LIST_KINDS = frozenset({9, 10})


def record_footer(cursor: Cursor) -> dict[str, Any]:
    """Return the footer's members of the file that is the cursor's data, as nested dicts; its spans are recorded.

    Raises `Corrupt`, and `Unsupported` for an encrypted footer.
    """
    data, path = cursor.data, cursor.path
    if cursor.raw(4, "magic") != MAGIC:
        cursor.at = 0
        if data[:4] == ENCRYPTED_MAGIC:
            raise Unsupported("a Parquet file with an encrypted footer", feature="parquet.encryption", path=path)
        raise cursor.make_error(f"50415231 (PAR1) wanted, {data[:4].hex()} found", "magic")
    tail = cursor.region(max(4, len(data) - 8))
    length = tail.i32le("footer length")
    if tail.raw(4, "magic") != MAGIC:
        raise tail.make_error("no PAR1 at the end", "magic", at=len(data) - 4)
    if not 0 <= length <= len(data) - 12:
        raise tail.make_error(f"a footer of {length} bytes in a file of {len(data)}", "footer length", at=len(data) - 8)
    inside = cursor.region(len(data) - 8 - length, len(data) - 8)
    with inside.within("footer"):
        footer = _record_struct(inside, "footer", 0)
        inside.expect_end("footer")
    for number, group in enumerate(_list_members(footer, "row_groups")):
        for column in _list_members(group, "columns"):
            with cursor.within(f"row group {number}"):
                _walk_chunk(cursor, column)
    return footer


def _list_members(members: dict[str, Any], name: str) -> list[dict[str, Any]]:
    value = members.get(name)
    return [element for element in value if isinstance(element, dict)] if isinstance(value, list) else []


def _integer_member(members: dict[str, Any], name: str) -> int:
    value = members.get(name)
    return value if isinstance(value, int) else 0


def _walk_chunk(file: Cursor, column: dict[str, Any]) -> None:
    """Record the pages of one column in one row group, and its indexes."""
    facts = column.get("meta_data")
    if not isinstance(facts, dict):
        raise Corrupt("a column chunk without metadata", path=file.path, field="meta_data")
    named = ".".join(
        part.decode("utf-8", "replace") for part in facts.get("path_in_schema", ()) if isinstance(part, bytes)
    )
    begin = min(
        filter(None, (_integer_member(facts, "dictionary_page_offset"), _integer_member(facts, "data_page_offset"))),
        default=0,
    )
    size = _integer_member(facts, "total_compressed_size")
    data = file.data
    with file.within(f"column {named}"):
        cursor = file.region(_clamp_offset(begin, data), _clamp_offset(begin + size, data))
        number = 0
        while cursor.remaining:
            with cursor.within(f"page {number}"):
                with cursor.within("header"):
                    header = _record_struct(cursor, "header", 0)
                kind = {0: "data", 2: "dictionary", 3: "data"}.get(_integer_member(header, "type"), "bytes")
                cursor.skip(_integer_member(header, "compressed_page_size"), kind)
            number += 1
        for name in ("column_index", "offset_index"):
            at, length = _integer_member(column, f"{name}_offset"), _integer_member(column, f"{name}_length")
            if at:
                file.region(_clamp_offset(at, data)).skip(length, name)
        if at := _integer_member(facts, "bloom_filter_offset"):
            file.region(_clamp_offset(at, data)).skip(_integer_member(facts, "bloom_filter_length"), "bloom_filter")


def _clamp_offset(offset: int, data: bytes | memoryview) -> int:
    return min(max(offset, 0), len(data))


# ---- Thrift's compact protocol ---------------------------------------------------------------------------------------


def _read_varint(cursor: Cursor, field: str) -> int:
    value = shift = 0
    while True:
        byte = int.from_bytes(_take_bytes(cursor, 1, field), "little")
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
        if shift > 63:
            raise cursor.make_error("a number of more than 64 bits", field)


def _take_bytes(cursor: Cursor, length: int, field: str) -> bytes:
    """Return the next bytes, without recording a span."""
    if not 0 <= length <= cursor.remaining:
        raise cursor.make_error(f"{length} bytes wanted, {cursor.remaining} left", field)
    start = cursor.at
    cursor.at += length
    return bytes(cursor.data[start : cursor.at])


def _record_span(cursor: Cursor, start: int, field: str, value: object) -> None:
    cursor.record(start, cursor.at - start, field, value)


def _record_struct(cursor: Cursor, shape: str, depth: int) -> dict[str, Any]:
    """Return a struct's members by name, or by number where `_MEMBER_NAMES` has none."""
    if depth > MAX_DEPTH:
        raise cursor.make_error(f"nested deeper than {MAX_DEPTH} levels", shape)
    members: dict[str, Any] = {}
    names, number = _MEMBER_NAMES.get(shape, ()), 0
    while True:
        start = cursor.at
        head = _take_bytes(cursor, 1, shape)[0]
        if head == 0:
            _record_span(cursor, start, "end", None)
            return members
        if head >> 4:
            number += head >> 4
        else:
            raw = _read_varint(cursor, shape)
            number = (raw >> 1) ^ -(raw & 1)
        name = names[number - 1] if 0 < number <= len(names) else f"member {number}"
        members[name] = _record_value(cursor, head & 15, name, start, depth)


def _record_value(cursor: Cursor, kind: int, name: str, start: int, depth: int) -> Any:
    """Return a value and record its span from `start` on, where its head is."""
    value: Any
    if kind in _VARINT_KINDS:
        raw = _read_varint(cursor, name)
        value = (raw >> 1) ^ -(raw & 1)
    elif kind in (1, 2):
        value = kind == 1
    elif kind == 3:
        value = int.from_bytes(_take_bytes(cursor, 1, name), "big", signed=True)
    elif kind == 7:
        value = _take_bytes(cursor, 8, name)
    elif kind == 8:
        length = _read_varint(cursor, name)
        _record_span(cursor, start, f"{name} length", length)
        start = cursor.at
        value = _take_bytes(cursor, length, name)
    elif kind in _LIST_KINDS:
        return _record_items(cursor, name, start, depth)
    elif kind == 12:
        _record_span(cursor, start, f"{name} begin", None)
        with cursor.within(name):
            return _record_struct(cursor, name, depth + 1)
    else:
        raise cursor.make_error(f"a value of unknown kind {kind}", name, at=start)
    _record_span(cursor, start, name, value)
    return value


def _record_items(cursor: Cursor, name: str, start: int, depth: int) -> list[Any]:
    head = _take_bytes(cursor, 1, name)[0]
    count = head >> 4
    if count == 15:
        count = _read_varint(cursor, name)
    if count > cursor.remaining:
        raise cursor.make_error(f"a list of {count} elements, {cursor.remaining} bytes left", name, at=start)
    _record_span(cursor, start, f"{name} count", count)
    items: list[Any] = []
    for number in range(count):
        begin = cursor.at
        if head & 15 == 12:
            with cursor.within(f"{name}[{number}]"):
                items.append(_record_struct(cursor, name, depth + 1))
        elif head & 15 in (1, 2):
            value = _take_bytes(cursor, 1, name)[0] == 1
            _record_span(cursor, begin, f"{name}[{number}]", value)
            items.append(value)
        else:
            items.append(_record_value(cursor, head & 15, f"{name}[{number}]", begin, depth + 1))
    return items
