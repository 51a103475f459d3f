"""Check footer and page headers of a Parquet file before a library allocates by them.

    "PAR1" | page header, page … of every column chunk | … | footer | i32 LE length of the footer | "PAR1"

    PageHeader              1 type   2 uncompressed page size   3 compressed page size   4 CRC-32
                            5, 7 or 8 one of the structs below
      5 DataPageHeader      1 values   2 encoding   3, 4 encodings of definition and repetition levels   5 statistics
      7 DictionaryPageHeader  1 values   2 encoding   3 is sorted
      8 DataPageHeaderV2    1 values   2 nulls   3 rows   4 encoding   5, 6 bytes of definition and repetition levels
                            7 is compressed   8 statistics

The numbers are field ids of Thrift. Polars ends the process where a data page has a negative number of values, and
panics over other lengths and encodings. Arrow decodes the footer, in C++. A page header in the usual form, which nearly
every writer produces, is matched by one regular expression; any other is decoded field by field. The levels and values
inside pages are not checked.

Source: the Apache Parquet format, `parquet.thrift`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lakekit.codec.cursor import read_varint
from lakekit.errors import Corrupt, Unsupported
from lakekit.format import thrift
from lakekit.format.parquet_footer import list_head_end, read_row_count_and_end, skip_value
from lakekit.format.thrift import BINARY, I32, I64, LIST, STRUCT, Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lakekit.types import DataType

    Read = Callable[[int, int], bytes]

END_BYTES = 8
_TAIL_BYTES = 1 << 16
_FIRST_BYTE = 4
_HEADER_BYTES = 256
"""Bytes that nearly every page header fits into."""
_MAX_HEADER_BYTES = 1 << 20
_VARINT_PATTERN = rb"([\x80-\xff]{0,4}[\x00-\x7f])"
_USUAL_HEADER = re.compile(
    (
        rb"\x15([\x00\x04\x06])\x15V\x15V"
        rb"(?:\x15[\x80-\xff]{0,4}[\x00-\x7f](?:\x1c|\x3c|\x4c)|(?:\x2c|\x4c|\x5c))\x15V\x15"
    ).replace(b"V", _VARINT_PATTERN),
    re.DOTALL,
)
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
_MEMBER_OF_PAGE_TYPE = {_DATA_PAGE: 5, _DICTIONARY_PAGE: 7, _DATA_PAGE_V2: 8}
"""The member of a header that describes a page of that type."""
_LAST_ENCODING, _LAST_CODEC = 9, 7
_KNOWN_ENCODINGS, _LEVEL_ENCODINGS = frozenset(range(_LAST_ENCODING + 1)), (3, 4)
_FIXED_LEN_BYTE_ARRAY = 7
_PHYSICAL_TYPE_NAMES = {
    0: "BOOLEAN",
    1: "INT32",
    2: "INT64",
    3: "INT96",
    4: "FLOAT",
    5: "DOUBLE",
    6: "BYTE_ARRAY",
    7: "FIXED_LEN_BYTE_ARRAY",
}
_PHYSICAL_TYPE_IDS = {name: number for number, name in _PHYSICAL_TYPE_NAMES.items()}
_INTEGER_WIDTHS = {1: 4, 2: 8}
_INT32_ONLY, _INT32_OR_INT64 = frozenset({1}), frozenset({1, 2})
_INT64_OR_INT96, _BYTE_ARRAYS = frozenset({2, 3}), frozenset({6, 7})
_ALLOWED_PHYSICAL_TYPES = {
    "BOOLEAN": frozenset({0}),
    "FLOAT": frozenset({4}),
    "DOUBLE": frozenset({4, 5}),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "DATE"), _INT32_ONLY),
    **dict.fromkeys(("BIGINT", "TIME"), _INT32_OR_INT64),
    **dict.fromkeys(("CHAR", "VARCHAR", "BINARY", "VARBINARY"), _BYTE_ARRAYS),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_LTZ"), _INT64_OR_INT96),
    "DECIMAL": _BYTE_ARRAYS | _INT32_OR_INT64,
}
"""Physical types that files may use for a type, and that Polars converts to it."""
_NESTED_TYPES = frozenset({"ARRAY", "MAP", "MULTISET", "ROW", "VARIANT"})


class PageHeader(NamedTuple):
    """The header of a page; `levels_size` is 0 but for a data page of version 2, `header_size` its own length."""

    page_type: int
    uncompressed_size: int
    compressed_size: int
    value_count: int
    levels_size: int
    header_size: int


def read_checked_footer(path: str, read: Read, size_bytes: int) -> tuple[Struct, int]:
    """Return the footer of a file as a struct that has its fields from `num_rows` on, and the footer's offset.

    `read(offset, length)` returns bytes. Arrow decodes the footer too, and so finds missing members. The metadata of
    columns is not read through Arrow, which ends the process where a column's sizes are wrong. Raises `Corrupt`,
    `Unsupported` if the file is encrypted.
    """
    tail, length = _read_tail(path, read, size_bytes)
    try:
        schema = pq.read_metadata(pa.BufferReader(tail)).schema
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Corrupt(f"{path}: its Parquet footer cannot be read: {error}", path=path, field="footer") from error
    footer = tail[len(tail) - length : -END_BYTES]
    rows, offset = read_row_count_and_end(footer)
    footer_members = thrift.decode_struct(footer, offset, last_field_id=3)[0] | {3: (I64, rows)}
    _check_columns(footer_members, [schema.column(at) for at in range(len(schema))])
    return footer_members, size_bytes - length


def _check_columns(footer: Struct, leaves: Sequence[Any]) -> None:
    """Raise `Corrupt` if a row group does not fit the schema, or has an unknown codec or encoding.

    `leaves` are Arrow's columns of the schema.
    """
    expected = [(leaf.path.encode(), _PHYSICAL_TYPE_IDS[leaf.physical_type]) for leaf in leaves]
    for group in _struct_list(footer, 4):
        chunks = _struct_list(group, 1)
        if len(chunks) != len(expected):
            raise Corrupt(f"a row group has {len(chunks)} columns, the schema {len(expected)}", field="row_groups")
        for chunk, (path, kind) in zip(chunks, expected, strict=True):
            column_metadata = _read_member(chunk, 3, STRUCT)
            inner, parts = _read_member(column_metadata, 3, LIST)
            if inner != BINARY or b".".join(parts) != path or _read_member(column_metadata, 1) != kind:
                stored_type = _PHYSICAL_TYPE_NAMES.get(_read_member(column_metadata, 1), "no type")
                stored = f"{'.'.join(_column_path(column_metadata))} of {stored_type}"
                raise Corrupt(
                    f"a row group has a column {stored} in the place of {path.decode()} of "
                    f"{_PHYSICAL_TYPE_NAMES[kind]}",
                    field="row_groups",
                )
            if not 0 <= _read_member(column_metadata, 4) <= _LAST_CODEC:
                raise Corrupt(
                    f"column {path.decode()} is compressed by codec {_read_member(column_metadata, 4)}, which there "
                    "is not",
                    field="codec",
                )
            inner, encodings = _read_member(column_metadata, 2, LIST)
            if inner != I32 or not _KNOWN_ENCODINGS.issuperset(encodings):
                raise Corrupt(
                    f"column {path.decode()} has the encodings {encodings}, of which one is none", field="encodings"
                )


def _read_tail(path: str, read: Read, size_bytes: int) -> tuple[bytes, int]:
    """Return the end of a file, and footer, length and magic bytes in it. Raises `Corrupt`, `Unsupported`."""
    first = max(0, size_bytes - _TAIL_BYTES)
    tail = read(first, size_bytes - first)
    if tail[-4:] == b"PARE":
        raise Unsupported(
            f"{path} is encrypted Parquet, which lakekit does not read", feature="parquet.encryption", path=path
        )
    length = int.from_bytes(tail[-END_BYTES:-4], "little") + END_BYTES
    if len(tail) < min(size_bytes, 12) or tail[-4:] != b"PAR1" or length > size_bytes - _FIRST_BYTE:
        raise Corrupt(
            f"{path} is no whole Parquet file: it ends in {tail[-4:]!r}",
            path=path,
            offset=max(0, size_bytes - 4),
            field="magic",
        )
    return (tail if length <= len(tail) else read(size_bytes - length, length)), length


def integer_min_max(read: Read, size_bytes: int, column: str) -> tuple[int, int] | None:
    """Return the minimum and maximum of a top-level integer column by the footer's statistics.

    Returns None if a row group has none. The metadata of other columns is skipped; decoding ends once the column is
    found in the last row group. Raises `Corrupt`.
    """
    tail, length = _read_tail("the file", read, size_bytes)
    footer = tail[len(tail) - length : -END_BYTES]
    all_bounds: list[tuple[int, int]] = []
    try:
        _, groups, at = thrift.read_list_head(footer, list_head_end(footer, read_row_count_and_end(footer)[1]))
        for number in range(groups):
            _, columns, at = thrift.read_list_head(footer, list_head_end(footer, at))
            found_metadata = None
            for _ in range(columns):
                if found_metadata is None:
                    chunk, at = thrift.decode_struct(footer, at)
                    column_metadata = _read_member(chunk, 3, STRUCT)
                    found_metadata = column_metadata if _column_path(column_metadata) == [column] else None
                    if found_metadata is not None and number == groups - 1:
                        break
                else:
                    at = skip_value(footer, at, STRUCT, 0)
            group_bounds = None if found_metadata is None else _row_group_min_max(found_metadata)
            if group_bounds is None:
                return None
            all_bounds.append(group_bounds)
            if number < groups - 1:
                _, at = thrift.decode_struct(footer, at, last_field_id=1)
    except IndexError:
        raise Corrupt("the Parquet footer ends within its row groups", field="footer") from None
    return (min(low for low, _ in all_bounds), max(high for _, high in all_bounds)) if all_bounds else None


def _row_group_min_max(column_metadata: Struct) -> tuple[int, int] | None:
    """Return the bounds of an integer column without nulls in a row group; None without. Raises `Corrupt`."""
    size = _INTEGER_WIDTHS.get(_read_member(column_metadata, 1))
    statistics = _read_member(column_metadata, 12, STRUCT) if 12 in column_metadata else {}
    low, high = (
        next((statistics[member][1] for member in members if member in statistics), None)
        for members in ((6, 2), (5, 1))
    )
    if size is None or statistics.get(3, (I64, 0))[1] or not isinstance(low, bytes) or not isinstance(high, bytes):
        return None
    if len(low) != size or len(high) != size:
        stored_type = _PHYSICAL_TYPE_NAMES[_read_member(column_metadata, 1)]
        raise Corrupt(
            f"bounds of {len(low)} and {len(high)} bytes of a column of {stored_type}",
            field="statistics",
        )
    return int.from_bytes(low, "little", signed=True), int.from_bytes(high, "little", signed=True)


def check_footer_and_pages(
    path: str, read: Read, size_bytes: int, columns: Mapping[str, DataType | None] | None = None
) -> int:
    """Check the footer of a file and the page headers of some columns (None: all); return its row count.

    `read(offset, length)` returns bytes of the file. A column for which `columns` gives a type must have a physical
    type that such values are stored as.

    Raises:
        Corrupt: names path, offset and field.
        Unsupported: the file is encrypted.
    """
    try:
        footer, end = read_checked_footer(path, read, size_bytes)
        groups = [(_read_member(group, 3, I64), _struct_list(group, 1)) for group in _struct_list(footer, 4)]
        for number, (rows, chunks) in enumerate(groups):
            for chunk in chunks:
                column_metadata = _read_member(chunk, 3, STRUCT)
                names = _column_path(column_metadata)
                column, is_nested = names[0], len(names) > 1
                if columns is None or column in columns:
                    _check_column_chunk(
                        ColumnChunkMeta(".".join(names), column_metadata), rows, read, end, is_nested=is_nested
                    )
                    if columns and number == 0 and (t := columns[column]) is not None:
                        _check_physical_type(_read_member(column_metadata, 1, I32), column, t, is_nested=is_nested)
        footer_rows, group_rows = _read_member(footer, 3, I64), sum(rows for rows, _ in groups)
    except Corrupt as error:
        raise error.at(path) from None
    if group_rows != footer_rows or any(rows < 0 for rows, _ in groups):
        raise Corrupt(
            f"{path}: its row groups have {group_rows} rows, the footer says {footer_rows}", path=path, field="num_rows"
        )
    return int(footer_rows)


def fixed_len_columns_with_encoding(
    path: str, read: Read, size_bytes: int, encodings: frozenset[int]
) -> frozenset[str]:
    """Return the paths of fixed-length byte columns with pages in `encodings`. Raises as `check_footer_and_pages`."""
    try:
        footer, _ = read_checked_footer(path, read, size_bytes)
        all_facts = [
            _read_member(chunk, 3, STRUCT) for group in _struct_list(footer, 4) for chunk in _struct_list(group, 1)
        ]
        return frozenset(
            ".".join(_column_path(column_metadata))
            for column_metadata in all_facts
            if _read_member(column_metadata, 1) == _FIXED_LEN_BYTE_ARRAY
            and not encodings.isdisjoint(_read_member(column_metadata, 2, LIST)[1])
        )
    except Corrupt as error:
        raise error.at(path) from None


class ColumnChunkMeta(NamedTuple):
    """A column of a row group: its path in the schema, and its metadata in the footer."""

    column_path: str
    metadata: Struct

    def read_i64(self, field_id: int) -> int:
        """Return a member that is a number of 64 bits. Raises `Corrupt`."""
        return int(_read_member(self.metadata, field_id, I64))


def _column_path(column_metadata: Struct) -> list[str]:
    """Return the path of a column: names of its parents and its own, dots allowed. Raises `Corrupt`."""
    parts = _read_member(column_metadata, 3, LIST)[1]
    if not parts or not all(isinstance(part, bytes) for part in parts):
        raise Corrupt("a column without a path", field="path_in_schema")
    return [part.decode("utf-8", "replace") for part in parts]


def _struct_list(struct: Struct, field_id: int) -> list[Struct]:
    kind, elements = _read_member(struct, field_id, LIST)
    if elements and kind != STRUCT:
        raise Corrupt(f"elements of kind {kind} in member {field_id}, where structs are expected", field="footer")
    return list(elements)


def _check_physical_type(physical: int, column: str, t: DataType, *, is_nested: bool) -> None:
    allowed = _ALLOWED_PHYSICAL_TYPES.get(t.root)
    if (t.root in _NESTED_TYPES) != is_nested or (allowed is not None and physical not in allowed):
        stored = "a nested column" if is_nested else _PHYSICAL_TYPE_NAMES.get(physical, f"physical type {physical}")
        raise Corrupt(f"column {column} is {t}, the file holds {stored}", field=column)


def _check_column_chunk(
    chunk: ColumnChunkMeta, row_count: int, read: Read, footer_offset: int, *, is_nested: bool
) -> None:
    """Check a column of a row group and the headers of its pages."""
    values, stored_bytes, data_at = chunk.read_i64(5), chunk.read_i64(7), chunk.read_i64(9)
    begin = min(filter(None, (data_at, chunk.read_i64(11) if 11 in chunk.metadata else 0)), default=0)
    end = begin + stored_bytes
    if values < 0 or (values != row_count and not is_nested):
        raise _corrupt_column(chunk, f"{values} values of {row_count} rows", begin, "num_values")
    if not values and not stored_bytes:
        return
    if not _FIRST_BYTE <= begin <= end <= footer_offset:
        raise _corrupt_column(
            chunk,
            f"{stored_bytes} bytes from byte {begin} on, and the footer begins at byte {footer_offset}",
            begin,
            "total_compressed_size",
        )
    most_bytes = chunk.read_i64(6)
    at, left = begin, values
    while at < end:
        kind, size, stored, count, levels, length = read_page_header(read, at, end)
        if not 0 <= stored <= end - at - length:
            raise _corrupt_column(
                chunk,
                f"a page of {stored} bytes, and {end - at - length} are left of the column",
                at,
                "compressed_page_size",
            )
        if not 0 <= size <= most_bytes:
            raise _corrupt_column(
                chunk, f"a page of {size} bytes as it was, and all have {most_bytes}", at, "uncompressed_page_size"
            )
        if not 0 <= count <= (size if kind == _DICTIONARY_PAGE else left):
            raise _corrupt_column(
                chunk, f"a page of {count} values, and {left} are left of the column", at, "num_values"
            )
        if levels > min(stored, size):
            raise _corrupt_column(
                chunk, f"levels of {levels} bytes in a page of {stored}", at, "definition_levels_byte_length"
            )
        if kind != _DICTIONARY_PAGE:
            left -= count
        elif at != begin:
            raise _corrupt_column(chunk, "a dictionary page behind another page", at, "type")
        at += length + stored
    if left:
        raise _corrupt_column(
            chunk, f"its pages hold {values - left} values, where {values} are said", begin, "num_values"
        )


def read_page_header(read: Read, offset: int, end: int) -> PageHeader:
    """Return the header of the page at byte `offset` of a column that ends at byte `end`. Raises `Corrupt`."""
    data = read(offset, min(_HEADER_BYTES, end - offset))
    try:
        return _match_header(data) or _decode_header(data)
    except (IndexError, Corrupt) as error:
        if len(data) < _HEADER_BYTES or len(data) >= end - offset:
            raise Corrupt(f"no page header at byte {offset}: {error}", offset=offset, field="header") from None
        return _decode_long_header(read, offset, end)


def _decode_long_header(read: Read, offset: int, end: int) -> PageHeader:
    """Return a header that is longer than `_HEADER_BYTES`."""
    try:
        return _decode_header(read(offset, min(_MAX_HEADER_BYTES, end - offset)))
    except (IndexError, Corrupt) as error:
        raise Corrupt(f"no page header at byte {offset}: {error}", offset=offset, field="header") from None


def _match_header(data: bytes) -> PageHeader | None:
    """Return a header that has the usual form; None for another form.

    Raises: `Corrupt`; `IndexError` at the end of data.
    """
    match = _USUAL_HEADER.match(data)
    if match is None:
        return None
    kind, size, stored, count = match.groups()
    page_type = kind[0] >> 1
    part = data[match.start(4) - 2]
    if part & 15 != STRUCT or part != _USUAL_MEMBER_HEADERS[page_type][match.start(4) - 2 == match.end(3)]:
        return None
    at = match.end()
    if page_type == _DICTIONARY_PAGE:
        encoding, at = data[at], at + 1
        if data[at] in (0x11, 0x12):
            at += 1
    elif page_type == _DATA_PAGE:
        encoding, at = data[at], at + 1
        if (
            data[at] != 0x15
            or data[at + 2] != 0x15
            or data[at + 1] >> 1 not in _LEVEL_ENCODINGS
            or data[at + 3] >> 1 not in _LEVEL_ENCODINGS
        ):
            return None
        at += 4
        if data[at] == 0x1C:
            at = _skip_statistics(data, at + 1)
    else:
        return None
    if encoding & 1 or encoding >> 1 > _LAST_ENCODING:
        raise Corrupt(f"encoding {encoding >> 1}", field="encoding")
    if data[at] or data[at + 1]:
        return None
    return PageHeader(page_type, _read_i32(size), _read_i32(stored), _read_i32(count), 0, at + 2)


_USUAL_MEMBER_HEADERS = {_DATA_PAGE: (0x1C, 0x2C), _DICTIONARY_PAGE: (0x3C, 0x4C), _DATA_PAGE_V2: (0x4C, 0x5C)}
"""The first byte of the member that describes a page: behind a CRC-32, and without one."""


def _skip_statistics(data: bytes, offset: int) -> int:
    """Return the offset after statistics (bounds: bytes, counts: numbers). Raises `IndexError`."""
    while True:
        head = data[offset]
        offset += 1
        kind = head & 15
        if head == 0:
            return offset
        if kind == 8:
            length = data[offset]
            offset += 1
            if length > 0x7F:
                length, offset = read_varint(data, offset - 1)
            offset += length
        elif kind == 6:
            while data[offset] > 0x7F:
                offset += 1
            offset += 1
        elif kind not in (1, 2):
            raise Corrupt(f"a value of kind {kind} in the statistics of a page", field="statistics")


def _decode_header(data: bytes) -> PageHeader:
    """Return a header, decoded member by member."""
    header, end = thrift.decode_struct(data)
    kind, size, stored = (_read_member(header, number) for number in (1, 2, 3))
    if kind not in _MEMBER_OF_PAGE_TYPE:
        if kind != 1:
            raise Corrupt(f"a page of type {kind}", field="type")
        return PageHeader(kind, size, stored, 0, 0, end)
    part = header.get(_MEMBER_OF_PAGE_TYPE[kind])
    if part is None or part[0] != STRUCT:
        raise Corrupt(f"a page of type {kind} without member {_MEMBER_OF_PAGE_TYPE[kind]}", field="header")
    details = part[1]
    encoding = _read_member(details, 4 if kind == _DATA_PAGE_V2 else 2)
    if not 0 <= encoding <= _LAST_ENCODING:
        raise Corrupt(f"encoding {encoding}", field="encoding")
    count, levels = _read_member(details, 1), 0
    if kind == _DATA_PAGE and not {_read_member(details, 3), _read_member(details, 4)} <= set(_LEVEL_ENCODINGS):
        raise Corrupt("levels in an encoding that levels have not", field="encoding")
    if kind == _DATA_PAGE_V2:
        lengths = _read_member(details, 5), _read_member(details, 6)
        if min(lengths) < 0:
            raise Corrupt(f"levels of {lengths} bytes", field="definition_levels_byte_length")
        levels = sum(lengths)
        if not 0 <= _read_member(details, 2) <= max(count, 0) or not 0 <= _read_member(details, 3) <= max(count, 0):
            raise Corrupt(
                f"{_read_member(details, 2)} nulls and {_read_member(details, 3)} rows in a page of {count} values",
                field="num_nulls",
            )
    return PageHeader(kind, size, stored, count, levels, end)


def _read_member(struct: Struct, field_id: int, thrift_type: int = I32) -> Any:
    """Return a member's value. Raises `Corrupt` if it is missing, or of another kind."""
    member = struct.get(field_id)
    if member is None or member[0] != thrift_type:
        raise Corrupt(f"no member {field_id} of kind {thrift_type} in a Thrift struct", field="footer")
    return member[1]


def _read_i32(data: bytes) -> int:
    """Return a zig-zag varint of at most five bytes, as 32 bits hold it."""
    raw = data[0]
    if raw > 0x7F:
        raw, _ = read_varint(data, 0)
    return (raw >> 1) ^ -(raw & 1)


def _corrupt_column(chunk: ColumnChunkMeta, problem: str, offset: int, field: str) -> Corrupt:
    return Corrupt(f"column {chunk.column_path}: {problem}", offset=offset, field=field)
