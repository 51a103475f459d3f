"""Record the spans of a Parquet file: pages by their headers, indexes, and the footer by member.

    "PAR1" | page header, page … of every column chunk | column and offset indexes
           | footer | i32 LE length of the footer | "PAR1"

Polars and Arrow decode these files, in Rust and C++, without reporting offsets; this module reads the same headers a
second time for hex views. Tests compare its values with Arrow's metadata. `parquet_footer` draws the encoding. Source:
the Apache Parquet format, `parquet.thrift`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekit.codec.cursor import Cursor
from lakekit.errors import Corrupt, Unsupported
from lakekit.types import MAX_DEPTH

if TYPE_CHECKING:
    from lakekit.codec.cursor import SpanRecorder

MAGIC, ENCRYPTED_MAGIC = b"PAR1", b"PARE"
_STATISTICS = "max min null_count distinct_count max_value min_value is_max_value_exact is_min_value_exact"
_SHAPES = {
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
    "statistics": _STATISTICS,
    "header": """type uncompressed_page_size compressed_page_size crc data_page_header index_page_header
        dictionary_page_header data_page_header_v2""",
    "data_page_header": "num_values encoding definition_level_encoding repetition_level_encoding statistics",
    "dictionary_page_header": "num_values encoding is_sorted",
    "data_page_header_v2": """num_values num_nulls num_rows encoding definition_levels_byte_length
        repetition_levels_byte_length is_compressed statistics""",
}
_NAMES = {shape: names.split() for shape, names in _SHAPES.items()}
_VARINTS = frozenset({4, 5, 6})
_LISTS = frozenset({9, 10})


def walk(data: bytes, marks: SpanRecorder, *, path: str | None = None) -> dict[str, Any]:
    """Return the footer's members as nested dicts, and record the spans of the file.

    Raises `Corrupt`, and `Unsupported` for an encrypted footer.
    """
    cursor = Cursor(data, path=path, marks=marks)
    if cursor.raw(4, "magic") != MAGIC:
        cursor.at = 0
        if data[:4] == ENCRYPTED_MAGIC:
            raise Unsupported("a Parquet file with an encrypted footer", feature="parquet.encryption", path=path)
        raise cursor.wrong(f"50415231 (PAR1) wanted, {data[:4].hex()} found", "magic")
    tail = Cursor(data, path=path, at=max(4, len(data) - 8), marks=marks)
    length = tail.i32le("footer length")
    if tail.raw(4, "magic") != MAGIC:
        raise tail.wrong("no PAR1 at the end", "magic", at=len(data) - 4)
    if not 0 <= length <= len(data) - 12:
        raise tail.wrong(f"a footer of {length} bytes in a file of {len(data)}", "footer length", at=len(data) - 8)
    inside = Cursor(data, path=path, at=len(data) - 8 - length, end=len(data) - 8, marks=marks)
    with inside.within("footer"):
        footer = _struct(inside, "footer", 0)
        inside.finish("footer")
    for number, group in enumerate(_list(footer, "row_groups")):
        for column in _list(group, "columns"):
            with marks.within(f"row group {number}"):
                _chunk(data, column, marks, path)
    return footer


def _list(members: dict[str, Any], name: str) -> list[dict[str, Any]]:
    value = members.get(name)
    return [element for element in value if isinstance(element, dict)] if isinstance(value, list) else []


def _integer_member(members: dict[str, Any], name: str) -> int:
    value = members.get(name)
    return value if isinstance(value, int) else 0


def _chunk(data: bytes, column: dict[str, Any], marks: SpanRecorder, path: str | None) -> None:
    """Record the pages of one column in one row group, and its indexes."""
    facts = column.get("meta_data")
    if not isinstance(facts, dict):
        raise Corrupt("a column chunk without metadata", path=path, field="meta_data")
    named = ".".join(
        part.decode("utf-8", "replace") for part in facts.get("path_in_schema", ()) if isinstance(part, bytes)
    )
    begin = min(
        filter(None, (_integer_member(facts, "dictionary_page_offset"), _integer_member(facts, "data_page_offset"))),
        default=0,
    )
    size = _integer_member(facts, "total_compressed_size")
    with marks.within(f"column {named}"):
        cursor = Cursor(data, path=path, at=_clamp(begin, data), end=_clamp(begin + size, data), marks=marks)
        number = 0
        while cursor.left:
            with cursor.within(f"page {number}"):
                with cursor.within("header"):
                    header = _struct(cursor, "header", 0)
                kind = {0: "data", 2: "dictionary", 3: "data"}.get(_integer_member(header, "type"), "bytes")
                cursor.skip(_integer_member(header, "compressed_page_size"), kind)
            number += 1
        for name in ("column_index", "offset_index"):
            at, length = _integer_member(column, f"{name}_offset"), _integer_member(column, f"{name}_length")
            if at:
                Cursor(data, path=path, at=_clamp(at, data), marks=marks).skip(length, name)
        if at := _integer_member(facts, "bloom_filter_offset"):
            Cursor(data, path=path, at=_clamp(at, data), marks=marks).skip(
                _integer_member(facts, "bloom_filter_length"), "bloom_filter"
            )


def _clamp(at: int, data: bytes) -> int:
    return min(max(at, 0), len(data))


# ---- Thrift's compact protocol ---------------------------------------------------------------------------------------


def _varint(cursor: Cursor, field: str) -> int:
    value = shift = 0
    while True:
        byte = int.from_bytes(_take(cursor, 1, field), "little")
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
        if shift > 63:
            raise cursor.wrong("a number of more than 64 bits", field)


def _take(cursor: Cursor, length: int, field: str) -> bytes:
    """Return the next bytes, without recording a span."""
    if not 0 <= length <= cursor.left:
        raise cursor.wrong(f"{length} bytes wanted, {cursor.left} left", field)
    start = cursor.at
    cursor.at += length
    return bytes(cursor.data[start : cursor.at])


def _mark(cursor: Cursor, start: int, field: str, value: object) -> None:
    if cursor.marks is not None:
        cursor.marks.add(start, cursor.at - start, field, value)


def _struct(cursor: Cursor, shape: str, depth: int) -> dict[str, Any]:
    """Return a struct's members by name, or by number where `_NAMES` has none."""
    if depth > MAX_DEPTH:
        raise cursor.wrong(f"nested deeper than {MAX_DEPTH} levels", shape)
    members: dict[str, Any] = {}
    names, number = _NAMES.get(shape, ()), 0
    while True:
        start = cursor.at
        head = _take(cursor, 1, shape)[0]
        if head == 0:
            _mark(cursor, start, "end", None)
            return members
        if head >> 4:
            number += head >> 4
        else:
            raw = _varint(cursor, shape)
            number = (raw >> 1) ^ -(raw & 1)
        name = names[number - 1] if 0 < number <= len(names) else f"member {number}"
        members[name] = _value(cursor, head & 15, name, start, depth)


def _value(cursor: Cursor, kind: int, name: str, start: int, depth: int) -> Any:
    """Return a value and record its span from `start` on, where its head is."""
    value: Any
    if kind in _VARINTS:
        raw = _varint(cursor, name)
        value = (raw >> 1) ^ -(raw & 1)
    elif kind in (1, 2):
        value = kind == 1
    elif kind == 3:
        value = int.from_bytes(_take(cursor, 1, name), "big", signed=True)
    elif kind == 7:
        value = _take(cursor, 8, name)
    elif kind == 8:
        length = _varint(cursor, name)
        _mark(cursor, start, f"{name} length", length)
        start = cursor.at
        value = _take(cursor, length, name)
    elif kind in _LISTS:
        return _items(cursor, name, start, depth)
    elif kind == 12:
        _mark(cursor, start, f"{name} begin", None)
        with cursor.within(name):
            return _struct(cursor, name, depth + 1)
    else:
        raise cursor.wrong(f"a value of unknown kind {kind}", name, at=start)
    _mark(cursor, start, name, value)
    return value


def _items(cursor: Cursor, name: str, start: int, depth: int) -> list[Any]:
    head = _take(cursor, 1, name)[0]
    count = head >> 4
    if count == 15:
        count = _varint(cursor, name)
    if count > cursor.left:
        raise cursor.wrong(f"a list of {count} elements, {cursor.left} bytes left", name, at=start)
    _mark(cursor, start, f"{name} count", count)
    items: list[Any] = []
    for number in range(count):
        begin = cursor.at
        if head & 15 == 12:
            with cursor.within(f"{name}[{number}]"):
                items.append(_struct(cursor, name, depth + 1))
        elif head & 15 in (1, 2):
            value = _take(cursor, 1, name)[0] == 1
            _mark(cursor, begin, f"{name}[{number}]", value)
            items.append(value)
        else:
            items.append(_value(cursor, head & 15, f"{name}[{number}]", begin, depth + 1))
    return items
