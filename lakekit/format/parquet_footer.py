"""The footer of a Parquet file: row count, row groups to move into a bigger file, schema elements.

    … | footer | i32 LE length of the footer | "PAR1"

    footer (Thrift, compact)   1 version · 2 list of schema elements · 3 zig-zag row count · 4 row groups · 5 …
    member                     byte: (number - last number) << 4 | type; a 0 byte ends a struct
    types                      1 2 booleans · 3 byte · 4 5 6 zig-zag varints · 7 double · 8 varint length, bytes
                               · 9 10 list: count << 4 | type · 12 struct
    row group     1 chunks, one a column · 2 bytes · 3 row count · …
    chunk         2 its own offset · 3 metadata · 4 6 offsets of its page indexes · …
    metadata      1 physical type · 5 values · 7 compressed bytes · 9 10 11 offsets of its pages · 12 statistics
                  · 14 offset of its bloom filter · …

`read_footer` reads the whole footer of a file as one struct. `read_row_count` skips only names and types of columns,
which is several times faster than opening the file. `read_row_groups` returns the row groups of an encoder's small
file; a chunk that keeps its offset and its bounds, as most do, is written as the bytes it was read from.
`schema_elements` makes the schema as Paimon writes it, with ids, physical and logical types:

    optional group field_id=1 tags (List) {
        repeated group list { optional binary field_id=536871936 element (String) } }
    optional group field_id=2 attrs (Map) {
        repeated group key_value (Map) { required binary field_id=536868862 key (String); … } }

Source: FORMAT.md 7.4; `ParquetSchemaConverter`, `SpecialFields`; the Apache Parquet format, `parquet.thrift`; the
Thrift compact protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lakekit.codec.cursor import read_varint, read_zigzag
from lakekit.errors import Corrupt, Unsupported
from lakekit.format import thrift
from lakekit.format.encoder import map_types, refuse_type
from lakekit.format.thrift import BINARY, BOOL, BYTE, I32, I64, STRUCT, Struct, read_list_head
from lakekit.types import MAX_DEPTH, part, timestamp_unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lakekit.types import DataType, Field


_TAIL_BYTES = 1 << 16
_MIN_BYTES = 12
_VARINT_KINDS = frozenset({4, 5, 6})
_LIST_KINDS = frozenset({9, 10})


def read_row_count(footer: bytes) -> int:
    """Return the row count of a footer, or of a beginning of it that holds the schema. Raises `Corrupt`."""
    return read_row_count_and_end(footer)[0]


def read_row_count_and_end(footer: bytes) -> tuple[int, int]:
    """Return the row count, and where the members after it begin. Raises `Corrupt`."""
    try:
        at, number = 0, 0
        while True:
            head = footer[at]
            at += 1
            number += head >> 4
            if head == 0 or head >> 4 == 0:
                break
            if number == 3:
                return read_zigzag(footer, at)
            at = skip_value(footer, at, head & 15, 0)
    except IndexError:
        pass
    raise Corrupt("the Parquet footer ends before its row count", field="num_rows")


def read_footer(path: str, read_range: Callable[[int, int | None], bytes], size_bytes: int) -> Struct:
    """Return the footer of a file, of which `read_range(offset, length)` returns bytes.

    Raises `Corrupt`, `Unsupported` if it is encrypted.
    """
    data = _read_tail(path, read_range, size_bytes)
    return thrift.decode_struct(data[len(data) - 8 - int.from_bytes(data[-8:-4], "little") : -8])[0]


def _read_tail(path: str, read_range: Callable[[int, int | None], bytes], size_bytes: int) -> bytes:
    """Return the end of a file, with its complete footer."""
    data = read_range(max(0, size_bytes - _TAIL_BYTES), None)
    if data[-4:] == b"PARE":
        raise Unsupported(
            f"{path} is encrypted Parquet, which lakekit does not read", feature="parquet.encryption", path=path
        )
    length = int.from_bytes(data[-8:-4], "little") + 8
    if size_bytes < _MIN_BYTES or data[-4:] != b"PAR1" or length > size_bytes - 4:
        raise Corrupt(
            f"{path} is no whole Parquet file: it ends in {data[-4:]!r}",
            path=path,
            offset=max(0, size_bytes - 4),
            field="magic",
        )
    return data if length <= len(data) else read_range(size_bytes - length, None)


def list_head_end(footer: bytes, offset: int) -> int:
    """Return the offset behind the head at `offset` of a list that is the next member.

    Raises `Corrupt`, `IndexError`.
    """
    if footer[offset] != 0x19:
        raise Corrupt(f"no list at byte {offset} of the Parquet footer", field="footer")
    return offset + 1


def skip_value(data: bytes | memoryview, offset: int, kind: int, depth: int) -> int:
    """Return the offset after a value, of a struct from its first member on.

    An offset beyond the end is found out by the next read. Raises `Corrupt`, `IndexError`.
    """
    if depth > MAX_DEPTH:
        raise Corrupt(f"the Parquet footer is nested deeper than {MAX_DEPTH} levels", field="footer")
    if kind in _VARINT_KINDS:
        return read_varint(data, offset)[1]
    if kind == 8:
        length, offset = read_varint(data, offset)
        return offset + length
    if kind == 12:
        while True:
            head = data[offset]
            offset += 1
            if head == 0:
                return offset
            if head >> 4 == 0:
                _, offset = read_varint(data, offset)
            if head & 15 in _VARINT_KINDS and data[offset] < 0x80:
                offset += 1
            else:
                offset = skip_value(data, offset, head & 15, depth + 1)
    if kind in _LIST_KINDS:
        element, count, offset = read_list_head(data, offset)
        for _ in range(count):
            offset = offset + 1 if element in (1, 2) else skip_value(data, offset, element, depth + 1)
        return offset
    if kind in (1, 2, 3, 7):
        return offset + {3: 1, 7: 8}.get(kind, 0)
    raise Corrupt(f"a value of unknown kind {kind} in the Parquet footer", field="footer")


# ---- row groups ----------------------------------------------------------------


FLOAT, DOUBLE = 4, 5
"""Physical types of real numbers."""


class ColumnChunk:
    """A column of a row group. `facts` is its metadata, read only: changes go through the methods."""

    __slots__ = ("_chunk", "bytes", "facts")

    def __init__(self, chunk: Struct, data: bytes) -> None:
        self._chunk, self.facts = chunk, chunk[3][1]
        self.bytes: bytes | None = data

    @property
    def byte_range(self) -> tuple[int, int]:
        """Where its pages begin, and where they end."""
        begin = min(self.facts[number][1] for number in (9, 11) if number in self.facts and self.facts[number][1])
        return begin, begin + self.facts[7][1]

    def shift_offsets(self, delta: int) -> None:
        """Move every offset by so many bytes."""
        if delta:
            self.bytes = None
            _change_offsets(self._chunk, (2, 4, 6), delta.__add__)
            _change_offsets(self.facts, (9, 10, 11, 14), delta.__add__)

    def remap_offsets(self, new_offset: Callable[[int], int], growth: int) -> None:
        """Map offsets of pages by `new_offset`, and grow the chunk by `growth` bytes.

        Its metadata is in the footer alone afterwards.
        """
        self.bytes = None
        self._chunk[2] = (I64, 0)
        _change_offsets(self.facts, (9, 10, 11), new_offset)
        _change_offsets(self.facts, (6, 7), growth.__add__)

    def page_index_range(self, members: tuple[int, int]) -> tuple[int, int] | None:
        """Return offset and length of the page index in these two members; None without one."""
        return (self._chunk[members[0]][1], self._chunk[members[1]][1]) if members[0] in self._chunk else None

    def set_page_index_range(self, members: tuple[int, int], offset: int, length: int) -> None:
        """Set offset and length of a page index."""
        self.bytes = None
        self._chunk[members[0]], self._chunk[members[1]] = (I64, offset), (I32, length)

    def drop_float_bounds(self) -> None:
        """Drop bounds of real numbers: both encoders leave NaN out of them."""
        if self.facts[1][1] not in (FLOAT, DOUBLE):
            return
        self.bytes = None
        self._chunk.pop(6, None)  # the column index: bounds of pages
        self._chunk.pop(7, None)
        if 12 in self.facts:
            # null and distinct counts
            self.facts[12] = (
                STRUCT,
                {number: member for number, member in self.facts[12][1].items() if number in (3, 4)},
            )

    @property
    def encoded(self) -> bytes | Struct:
        """The chunk as a footer takes it: its bytes, or its struct."""
        return self._chunk if self.bytes is None else self.bytes


class RowGroup(NamedTuple):
    """A row group."""

    chunks: Sequence[ColumnChunk]
    size_bytes: int
    row_count: int


def read_row_groups(footer: bytes, shift: int) -> list[RowGroup]:
    """Return the row groups of a footer, moved by `shift` bytes. Raises `Corrupt`."""
    groups = []
    try:
        _, count, at = thrift.read_list_head(footer, list_head_end(footer, read_row_count_and_end(footer)[1]))
        for _ in range(count):
            _, columns, at = thrift.read_list_head(footer, list_head_end(footer, at))
            chunks = []
            for _ in range(columns):
                start = at
                chunk, at = thrift.decode_struct(footer, at)
                chunks.append(ColumnChunk(chunk, footer[start:at]))
                chunks[-1].shift_offsets(shift)
            group_members, at = thrift.decode_struct(footer, at, last_field_id=1)
            groups.append(RowGroup(chunks, group_members[2][1], group_members[3][1]))
    except IndexError:
        raise Corrupt("the Parquet footer ends within its row groups", field="footer") from None
    return groups


def _change_offsets(members: Struct, numbers: Sequence[int], new_offset: Callable[[int], int]) -> None:
    for number in numbers:
        if number in members and members[number][1]:
            members[number] = (members[number][0], new_offset(members[number][1]))


# ---- schema elements -----------------------------------------------------------


ROOT_NAME = b"paimon_schema"
INT32, INT64, INT96, BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY = 1, 2, 3, 6, 7
REQUIRED, OPTIONAL, REPEATED = 0, 1, 2
_TIME_UNIT_FIELDS = {"ms": 1, "us": 2, "ns": 3}
_NESTED_ID_BASE, _NESTED_ID_STEP = 536870911, 1024
(
    _CONVERTED_UTF8,
    _CONVERTED_MAP,
    _MAP_KEY_VALUE,
    _CONVERTED_LIST,
    _CONVERTED_DECIMAL,
    _CONVERTED_DATE,
    _TIME_MILLIS,
    _TIMESTAMP_MILLIS,
    _TIMESTAMP_MICROS,
    _INT_8,
    _INT_16,
) = 0, 1, 2, 3, 5, 6, 7, 9, 10, 15, 16
_CONVERTED_TIMESTAMPS = {"ms": _TIMESTAMP_MILLIS, "us": _TIMESTAMP_MICROS}
_PHYSICAL_TYPES = {
    "BOOLEAN": 0,
    "INT": INT32,
    "BIGINT": INT64,
    "FLOAT": 4,
    "DOUBLE": 5,
    "BINARY": BYTE_ARRAY,
    "VARBINARY": BYTE_ARRAY,
    "BLOB": BYTE_ARRAY,
}


def schema_elements(fields: Sequence[Field]) -> list[Struct]:
    """Return the elements of a complete schema, the root first, depth first. Raises `Unsupported`."""
    schema: list[Struct] = [{3: (I32, REQUIRED), 4: (BINARY, ROOT_NAME), 5: (I32, len(fields))}]
    for field in fields:
        schema += _type_elements(field.name, field.type, field.id, (field.id, 1))
    return schema


def leaf_count(schema: Sequence[Struct]) -> int:
    """Return how many column chunks a row group of that schema has."""
    return sum(5 not in element for element in schema)


def nested_id(field_id: int, depth: int, *, key: bool = False) -> int:
    """Return the id of an array's element, a map's value or (`key`) a map's key.

    It is `depth` levels below the column or ROW field of id `field_id`.
    """
    offset = _NESTED_ID_STEP * field_id + depth
    return _NESTED_ID_BASE - offset if key else _NESTED_ID_BASE + offset


def _type_elements(name: str, t: DataType, field_id: int, parent: tuple[int, int]) -> Iterator[Struct]:
    """Yield the elements of one type.

    `parent` is the id of the field that contains it, and its depth below that.
    """
    own: Struct = {
        3: (I32, OPTIONAL if t.nullable else REQUIRED),
        4: (BINARY, name.encode()),
        5: (I32, 1),
        9: (I32, field_id),
    }
    owner, depth = parent
    match t.root:
        case "ARRAY":
            yield _sort_members(own | {6: (I32, _CONVERTED_LIST), 10: _converted_type(3)})
            yield {3: (I32, REPEATED), 4: (BINARY, b"list"), 5: (I32, 1)}
            yield from _type_elements("element", part(t.element), nested_id(owner, depth), (owner, depth + 1))
        case "MAP" | "MULTISET":
            key, value = map_types(t)
            yield _sort_members(own | {6: (I32, _CONVERTED_MAP), 10: _converted_type(2)})
            yield {3: (I32, REPEATED), 4: (BINARY, b"key_value"), 5: (I32, 2), 6: (I32, _MAP_KEY_VALUE)}
            yield from _type_elements("key", key.not_null(), nested_id(owner, depth, key=True), (owner, depth + 1))
            yield from _type_elements("value", value, nested_id(owner, depth), (owner, depth + 1))
        case "ROW" if not t.fields:
            raise refuse_type(t, "parquet")
        case "ROW":
            yield _sort_members(own | {5: (I32, len(t.fields))})
            for field in t.fields:
                yield from _type_elements(field.name, field.type, field.id, (field.id, 1))
        case "VARIANT":
            yield _sort_members(own | {5: (I32, 2)})
            for number, inner in enumerate((b"value", b"metadata")):
                yield {1: (I32, BYTE_ARRAY), 3: (I32, REQUIRED), 4: (BINARY, inner), 9: (I32, number)}
        case _:
            del own[5]
            yield _sort_members(own | _leaf_element(t))


def _sort_members(element: Struct) -> Struct:
    return dict(sorted(element.items()))


def _converted_type(kind: int, members: Struct | None = None) -> tuple[int, Struct]:
    return (STRUCT, {kind: (STRUCT, members or {})})


def _leaf_element(t: DataType) -> Struct:
    if t.root in _PHYSICAL_TYPES:
        return {1: (I32, _PHYSICAL_TYPES[t.root])}
    match t.root:
        case "CHAR" | "VARCHAR":
            return {1: (I32, BYTE_ARRAY), 6: (I32, _CONVERTED_UTF8), 10: _converted_type(1)}
        case "TINYINT":
            return {1: (I32, INT32), 6: (I32, _INT_8), 10: _converted_type(10, {1: (BYTE, 8), 2: (BOOL, True)})}
        case "SMALLINT":
            return {1: (I32, INT32), 6: (I32, _INT_16), 10: _converted_type(10, {1: (BYTE, 16), 2: (BOOL, True)})}
        case "DATE":
            return {1: (I32, INT32), 6: (I32, _CONVERTED_DATE), 10: _converted_type(6)}
        case "TIME":
            unit: Struct = {_TIME_UNIT_FIELDS["ms"]: (STRUCT, {})}
            return {
                1: (I32, INT32),
                6: (I32, _TIME_MILLIS),
                10: _converted_type(7, {1: (BOOL, True), 2: (STRUCT, unit)}),
            }
        case "DECIMAL":
            return _decimal_element(t.precision or 10, t.scale or 0)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return _timestamp_element(timestamp_unit(t.precision), is_zoned=t.root == "TIMESTAMP_LTZ")
    raise refuse_type(t, "parquet")


def decimal_width(precision: int) -> int:
    """Return the bytes of the shortest two's complement that holds every number of so many digits."""
    return (10**precision).bit_length() // 8 + 1


def _decimal_element(precision: int, scale: int) -> Struct:
    annotated: Struct = {
        6: (I32, _CONVERTED_DECIMAL),
        7: (I32, scale),
        8: (I32, precision),
        10: _converted_type(5, {1: (I32, scale), 2: (I32, precision)}),
    }
    if precision <= 18:
        return {1: (I32, INT32 if precision <= 9 else INT64)} | annotated
    return {1: (I32, FIXED_LEN_BYTE_ARRAY), 2: (I32, decimal_width(precision))} | annotated


def _timestamp_element(unit: str, *, is_zoned: bool) -> Struct:
    if unit == "ns":
        return {1: (I32, INT96)}
    converted: Struct = {6: (I32, _CONVERTED_TIMESTAMPS[unit])} if is_zoned else {}
    return (
        {1: (I32, INT64)}
        | converted
        | {10: _converted_type(8, {1: (BOOL, is_zoned), 2: (STRUCT, {_TIME_UNIT_FIELDS[unit]: (STRUCT, {})})})}
    )
