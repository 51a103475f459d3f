"""Whether the footer and the page headers of a Parquet file are within bounds, before a library allocates by what they say.

    "PAR1" | page header, page … of every column chunk | … | footer | i32 LE length of the footer | "PAR1"

    page header   1 type · 2 3 bytes of the page, as it was and as it is · 4 CRC-32 · 5 data page · 7 dictionary page · 8 data page of version 2
      5           1 values · 2 encoding · 3 4 encodings of its levels · 5 statistics
      7           1 values · 2 encoding · 3 sorted
      8           1 values · 2 nulls · 3 rows · 4 encoding · 5 6 bytes of its levels · 7 is compressed · 8 statistics

Polars ends the process where a data page says that it has fewer than no values, and panics over other lengths and encodings. Arrow decodes the footer, in C++;
headers are matched as bytes in the form in which every writer has them, and decoded member by member where one has another form.
The levels and values inside pages are not looked at. Source: the Apache Parquet format, `parquet.thrift`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from lakekit.errors import Corrupt, Unsupported
from lakekit.format import thrift
from lakekit.format.thrift import I32, STRUCT, varint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakekit.types import DataType

    Read = Callable[[int, int], bytes]

END_BYTES = 8
_FIRST_BYTE = 4
_HEADER_BYTES = 256
"""Bytes that nearly every page header fits into."""
_MOST_HEADER_BYTES = 1 << 20
_VARINT = rb"([\x80-\xff]{0,4}[\x00-\x7f])"
_HEADER = re.compile(
    rb"\x15([\x00\x04\x06])\x15V\x15V(?:\x15[\x80-\xff]{0,4}[\x00-\x7f](?:\x1c|\x3c|\x4c)|(?:\x2c|\x4c|\x5c))\x15V\x15".replace(b"V", _VARINT), re.DOTALL
)
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_PARTS = {_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}
"""The member of a header that says more of a page of that type."""
_LAST_ENCODING = 9
_LEVEL_ENCODINGS = (3, 4)
_BYTES = frozenset({"BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"})
_INTS, _INT = frozenset({"INT32", "INT64"}), frozenset({"INT32"})
_PHYSICAL: dict[str, frozenset[str]] = {
    "BOOLEAN": frozenset({"BOOLEAN"}), "TINYINT": _INT, "SMALLINT": _INT, "INT": _INT, "BIGINT": _INTS, "DATE": _INT, "TIME": _INTS,
    "FLOAT": frozenset({"FLOAT"}), "DOUBLE": frozenset({"FLOAT", "DOUBLE"}), "CHAR": _BYTES, "VARCHAR": _BYTES, "BINARY": _BYTES, "VARBINARY": _BYTES,
    "DECIMAL": _BYTES | _INTS, "TIMESTAMP": frozenset({"INT64", "INT96"}), "TIMESTAMP_LTZ": frozenset({"INT64", "INT96"}),
}  # fmt: skip
"""How files may store the values of a type, where Polars makes them values of that type."""
_NESTED = frozenset({"ARRAY", "MAP", "MULTISET", "ROW", "VARIANT"})


Page: TypeAlias = tuple[int, int, int, int, int, int]
"""What the header of a page says: type, bytes as they were, bytes as they are, values, bytes of the levels (version 2 alone), and how long the header is."""


def footer_of(path: str, read: Read, size_bytes: int, tail_bytes: int = 1 << 16) -> pq.FileMetaData:
    """The footer of a file, of which `read(offset, length)` gives bytes. Raises `Corrupt`, `Unsupported` where it is encrypted."""
    first = max(0, size_bytes - tail_bytes)
    tail = read(first, size_bytes - first)
    if tail[-4:] == b"PARE":
        raise Unsupported(f"{path} is encrypted Parquet, which lakekit does not read", feature="parquet.encryption", path=path)
    length = int.from_bytes(tail[-END_BYTES:-4], "little") + END_BYTES
    if len(tail) < min(size_bytes, 12) or tail[-4:] != b"PAR1" or length > size_bytes - _FIRST_BYTE:
        raise Corrupt(f"{path} is no whole Parquet file: it ends in {tail[-4:]!r}", path=path, offset=max(0, size_bytes - 4), field="magic")
    if length > len(tail):
        tail = read(size_bytes - length, length)
    try:
        return pq.read_metadata(pa.BufferReader(tail))
    except (pa.ArrowException, OSError, ValueError) as wrong:
        raise Corrupt(f"{path}: its Parquet footer cannot be read: {wrong}", path=path, field="footer") from wrong


def check(path: str, read: Read, size_bytes: int, columns: Mapping[str, DataType | None] | None = None) -> pq.FileMetaData:
    """Looks at the footer of a file and at the header of every page of some of its columns (None: of all); gives the footer.

    `read(offset, length)` gives bytes of the file. A column that has a type in `columns` must be stored as values of it are. Raises `Corrupt` naming path,
    offset and field, `Unsupported` where the file is encrypted.
    """
    footer = footer_of(path, read, size_bytes)
    end = size_bytes - END_BYTES - footer.serialized_size
    rows = 0
    try:
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            rows += _row_count(group.num_rows)
            for at in range(group.num_columns):
                chunk = group.column(at)
                column = _owner(footer, at, chunk.path_in_schema, columns)
                if column is not None:
                    is_nested = column != chunk.path_in_schema
                    _check_chunk(chunk, group.num_rows, read, end, is_nested=is_nested)
                    if columns and number == 0 and (t := columns[column]) is not None:
                        _check_type(chunk, column, t, is_nested=is_nested)
    except Corrupt as wrong:
        raise wrong.at(path) from None
    except (pa.ArrowException, OSError, ValueError) as wrong:
        raise Corrupt(f"{path}: its Parquet footer cannot be read: {wrong}", path=path, field="footer") from wrong
    if rows != footer.num_rows:
        raise Corrupt(f"{path}: its row groups have {rows} rows, the footer says {footer.num_rows}", path=path, field="num_rows")
    return footer


def _column_of(path: str, columns: Mapping[str, DataType | None] | None) -> str | None:
    """The column that a path of the file's schema belongs to, whose name may have dots; None where it is none of `columns`."""
    if columns is not None and path in columns:
        return path
    first = path.partition(".")[0]
    if columns is None or first in columns:
        return first
    return next((name for name in columns if "." in name and path.startswith(f"{name}.")), None)


def _owner(footer: pq.FileMetaData, at: int, path: str, columns: Mapping[str, DataType | None] | None) -> str | None:
    """Return the column that leaf `at` belongs to, None where it is none of `columns`.

    A path with dots may be a part of a column, or a column of that name. Where it seems to belong to a column without parts, the schema says which it is.
    """
    column = _column_of(path, columns)
    t = None if column is None or columns is None else columns[column]
    if t is None or t.root in _NESTED or "." not in path:
        return column
    leaves = [field.name for field in footer.schema.to_arrow_schema() for _ in range(_leaf_count(field.type))]
    if len(leaves) != footer.num_columns:
        return column
    return leaves[at] if columns is None or leaves[at] in columns else None


def _leaf_count(arrow: pa.DataType) -> int:
    """Return how many columns of a Parquet file hold values of a type."""
    return sum(_leaf_count(arrow.field(i).type) for i in range(arrow.num_fields)) if arrow.num_fields else 1


def _check_type(chunk: pq.ColumnChunkMetaData, column: str, t: DataType, *, is_nested: bool) -> None:
    allowed = _PHYSICAL.get(t.root)
    if (t.root in _NESTED) != is_nested or (allowed is not None and chunk.physical_type not in allowed):
        found = "a nested column" if is_nested else chunk.physical_type
        raise Corrupt(f"column {column} is {t}, the file holds {found}", field=column)


def _row_count(rows: int) -> int:
    if rows < 0:
        raise Corrupt(f"a row group of {rows} rows", field="num_rows")
    return rows


def _check_chunk(chunk: pq.ColumnChunkMetaData, rows: int, read: Read, footer_at: int, *, is_nested: bool) -> None:
    """Looks at a column of a row group and at its pages."""
    values, stored_bytes, data_at = chunk.num_values, chunk.total_compressed_size, chunk.data_page_offset
    begin = min(data_at, chunk.dictionary_page_offset or data_at)
    end = begin + stored_bytes
    if values < 0 or (values != rows and not is_nested):
        raise _wrong(chunk, f"{values} values of {rows} rows", begin, "num_values")
    if not values and not stored_bytes:
        return
    if not _FIRST_BYTE <= begin <= end <= footer_at:
        raise _wrong(chunk, f"{stored_bytes} bytes from byte {begin} on, and the footer begins at byte {footer_at}", begin, "total_compressed_size")
    most_bytes = chunk.total_uncompressed_size
    at, left = begin, values
    while at < end:
        kind, size, stored, count, levels, length = header_of(read, at, end)
        if not 0 <= stored <= end - at - length:
            raise _wrong(chunk, f"a page of {stored} bytes, and {end - at - length} are left of the column", at, "compressed_page_size")
        if not 0 <= size <= most_bytes:
            raise _wrong(chunk, f"a page of {size} bytes as it was, and all have {most_bytes}", at, "uncompressed_page_size")
        if not 0 <= count <= (size if kind == _DICTIONARY else left):
            raise _wrong(chunk, f"a page of {count} values, and {left} are left of the column", at, "num_values")
        if levels > min(stored, size):
            raise _wrong(chunk, f"levels of {levels} bytes in a page of {stored}", at, "definition_levels_byte_length")
        if kind != _DICTIONARY:
            left -= count
        elif at != begin:
            raise _wrong(chunk, "a dictionary page behind another page", at, "type")
        at += length + stored
    if left:
        raise _wrong(chunk, f"its pages hold {values - left} values, where {values} are said", begin, "num_values")


def header_of(read: Read, at: int, end: int) -> Page:
    """The header of the page that begins at byte `at` of a column that ends at byte `end`. Raises `Corrupt`."""
    data = read(at, min(_HEADER_BYTES, end - at))
    try:
        return _matched(data) or _decoded(data)
    except (IndexError, Corrupt) as wrong:
        if len(data) < _HEADER_BYTES or len(data) >= end - at:
            raise Corrupt(f"no page header at byte {at}: {wrong}", offset=at, field="header") from None
        return _decoded_anew(read, at, end)


def _decoded_anew(read: Read, at: int, end: int) -> Page:
    """A header that is longer than others."""
    try:
        return _decoded(read(at, min(_MOST_HEADER_BYTES, end - at)))
    except (IndexError, Corrupt) as wrong:
        raise Corrupt(f"no page header at byte {at}: {wrong}", offset=at, field="header") from None


def _matched(data: bytes) -> Page | None:
    """A header in its usual form; None where it has another. Raises `Corrupt`, and `IndexError` where the data ends."""
    found = _HEADER.match(data)
    if found is None:
        return None
    kind, size, stored, count = found.groups()
    page_type = kind[0] >> 1
    part = data[found.start(4) - 2]
    if part & 15 != STRUCT or part != _USUAL[page_type][found.start(4) - 2 == found.end(3)]:
        return None
    at = found.end()
    if page_type == _DICTIONARY:
        encoding, at = data[at], at + 1
        if data[at] in (0x11, 0x12):
            at += 1
    elif page_type == _DATA:
        encoding, at = data[at], at + 1
        if data[at] != 0x15 or data[at + 2] != 0x15 or data[at + 1] >> 1 not in _LEVEL_ENCODINGS or data[at + 3] >> 1 not in _LEVEL_ENCODINGS:
            return None
        at += 4
        if data[at] == 0x1C:
            at = _behind_statistics(data, at + 1)
    else:
        return None
    if encoding & 1 or encoding >> 1 > _LAST_ENCODING:
        raise Corrupt(f"encoding {encoding >> 1}", field="encoding")
    if data[at] or data[at + 1]:
        return None
    return page_type, _number(size), _number(stored), _number(count), 0, at + 2


_USUAL = {_DATA: (0x1C, 0x2C), _DICTIONARY: (0x3C, 0x4C), _DATA_V2: (0x4C, 0x5C)}
"""The head of the member that says more of a page: behind a CRC-32, and without one."""


def _behind_statistics(data: bytes, at: int) -> int:
    """The offset after a struct of statistics: bounds are bytes, counts numbers. Raises `IndexError` where the data ends."""
    while True:
        head = data[at]
        at += 1
        kind = head & 15
        if head == 0:
            return at
        if kind == 8:
            length = data[at]
            at += 1
            if length > 0x7F:
                length, at = varint(data, at - 1)
            at += length
        elif kind == 6:
            while data[at] > 0x7F:
                at += 1
            at += 1
        elif kind not in (1, 2):
            raise Corrupt(f"a value of kind {kind} in the statistics of a page", field="statistics")


def _decoded(data: bytes) -> Page:
    """A header, decoded member by member."""
    header, end = thrift.decode(data)
    kind, size, stored = (_member(header, number) for number in (1, 2, 3))
    if kind not in _PARTS:
        if kind != 1:
            raise Corrupt(f"a page of type {kind}", field="type")
        return kind, size, stored, 0, 0, end
    part = header.get(_PARTS[kind])
    if part is None or part[0] != STRUCT:
        raise Corrupt(f"a page of type {kind} without member {_PARTS[kind]}", field="header")
    said = part[1]
    encoding = _member(said, 4 if kind == _DATA_V2 else 2)
    if not 0 <= encoding <= _LAST_ENCODING:
        raise Corrupt(f"encoding {encoding}", field="encoding")
    count, levels = _member(said, 1), 0
    if kind == _DATA and not {_member(said, 3), _member(said, 4)} <= set(_LEVEL_ENCODINGS):
        raise Corrupt("levels in an encoding that levels have not", field="encoding")
    if kind == _DATA_V2:
        lengths = _member(said, 5), _member(said, 6)
        if min(lengths) < 0:
            raise Corrupt(f"levels of {lengths} bytes", field="definition_levels_byte_length")
        levels = sum(lengths)
        if not 0 <= _member(said, 2) <= max(count, 0) or not 0 <= _member(said, 3) <= max(count, 0):
            raise Corrupt(f"{_member(said, 2)} nulls and {_member(said, 3)} rows in a page of {count} values", field="num_nulls")
    return kind, size, stored, count, levels, end


def _member(struct: thrift.Struct, number: int) -> int:
    found = struct.get(number)
    if found is None or found[0] != I32:
        raise Corrupt(f"no member {number} of kind {I32} in the header of a page", field="header")
    return int(found[1])


def _number(data: bytes) -> int:
    """A zig-zag varint of at most five bytes, as 32 bits hold it."""
    raw = data[0]
    if raw > 0x7F:
        raw, _ = varint(data, 0)
    return (raw >> 1) ^ -(raw & 1)


def _wrong(chunk: pq.ColumnChunkMetaData, found: str, offset: int, field: str) -> Corrupt:
    return Corrupt(f"column {chunk.path_in_schema}: {found}", offset=offset, field=field)
