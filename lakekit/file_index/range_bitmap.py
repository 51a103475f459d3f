"""Range bitmap of one column: a dictionary of sorted keys, and a bit-sliced index of each row's code.

    i32 head length | u8 1 | i32 rows | i32 distinct values | [min | max] | i32 dictionary length
    dictionary   i32 13 | u8 1 | i32 chunks | i32 offsets length | i32 heads length | i32 offset × chunks | heads | keys
      head       u8 1 | first key | i32 its code | i32 offset of the other keys | i32 how many
                      | i32 keys length | i32 key width             text: | i32 offsets length | i32 keys length
      keys       the other keys as stored                           text: i32 offset × how many, then the keys
    slices       i32 10 + 8 n | u8 1 | u8 n | i32 existence length | i32 8 n | n × (i32 offset, i32 length)
                      | existence | slices

It answers every comparison. Big endian; bitmaps are roaring. A chunk is full when its other keys (or, for text, their
offsets) would exceed `chunk-size`. n is the bit length of the highest code, at least 1; an index of no values has 64
empty slices. Option `chunk-size` (16kb; one key a chunk for BOOLEAN, TINYINT and SMALLINT).

    INT 5, 5    00000015 01 00000002 00000001 00000005 00000005 0000002e | 0000000d 01 00000001 … | 00000012 01 01 …

Source: FORMAT.md 9.7; `RangeBitmap`, `ChunkedDictionary`, `BitSliceIndexBitmap`.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pyroaring import BitMap

from lakekit.codec import roaring
from lakekit.codec.cursor import Cursor
from lakekit.errors import Corrupt, Unsupported
from lakekit.file_index import container
from lakekit.file_index.container import STORED_WIDTHS, Key, may_contain_length_prefixed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from lakekit.file_index.container import KeyQuery
    from lakekit.predicate import Leaf
    from lakekit.types import DataType

NAME = "range-bitmap"
OPTIONS = ("chunk-size",)
NEEDS_VALUES = True
"""Whether the index of a column without values has no payload, but is marked as known to be empty.

With a payload, engine 1.4.2 finds at most two rows when it looks for nulls.
"""
TYPES = frozenset(
    {
        *("CHAR", "VARCHAR", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT"),
        *("FLOAT", "DOUBLE", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "DECIMAL"),
    }
)
_NO_CHUNKS = frozenset({"BOOLEAN", "TINYINT", "SMALLINT"})
_MAX_PRECISION = {"DECIMAL": 18, "TIMESTAMP": 6, "TIMESTAMP_LTZ": 6}


def supports_type(t: DataType) -> bool:
    """Return whether the index takes a type of `TYPES`.

    As in the reference, it takes no timestamps above 6 digits and no decimals above 18.
    """
    return (t.precision or 0) <= _MAX_PRECISION.get(t.root, 99)


# ---- building --------------------------------------------------------------------------------------------------------


def build(column: pa.Array | pa.ChunkedArray, t: DataType, options: Mapping[str, str]) -> bytes:
    """Return the payload for a column.

    Raises:
        Unsupported: the type is a timestamp above 6 digits or a decimal above 18, as in the reference.
    """
    if not supports_type(t):
        msg = f"a range-bitmap index does not take {t}"
        raise Unsupported(msg, feature="file-index.range-bitmap")
    distinct = container.distinct_keys(column, t)
    data, offsets = container.encode_stored(distinct.keys, t)
    count = len(offsets) - 1
    size = container.parse_size_option(options, "chunk-size", 0 if t.root in _NO_CHUNKS else 16384, NAME)
    dictionary = _encode_dictionary(data, offsets, size, STORED_WIDTHS.get(t.root))
    ends = data[: offsets[1]].tobytes() + data[offsets[count - 1] :].tobytes() if count else b""
    head = b"\1" + _i32(len(distinct.codes), count) + ends + _i32(len(dictionary))
    return _i32(len(head)) + head + dictionary + _encode_slices(distinct.codes, count)


def _i32(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(4, "big") for number in numbers)


def _encode_dictionary(data: NDArray[np.uint8], offsets: NDArray[np.int64], size: int, width: int | None) -> bytes:
    heads, bodies, places = bytearray(), bytearray(), bytearray()
    count, first, chunks = len(offsets) - 1, 0, 0
    while first < count:  # scalar: a chunk of many keys a step
        limit = int(offsets[first + 1]) + size
        end = int(np.searchsorted(offsets, limit, side="right")) - 1
        end = max(first + 1, min(end, count) if width else min(end, count, first + 1 + size // 4))
        keys = data[offsets[first + 1] : offsets[end]].tobytes()
        others = end - first - 1
        places += _i32(len(heads))
        heads += b"\1" + data[offsets[first] : offsets[first + 1]].tobytes() + _i32(first, len(bodies), others)
        heads += _i32(len(keys), width) if width else _i32(4 * others, len(keys))
        if not width:
            bodies += (offsets[first + 1 : end] - offsets[first + 1]).astype(">i4").tobytes()
        bodies += keys
        first, chunks = end, chunks + 1
    return _i32(13) + b"\1" + _i32(chunks, len(places), len(heads)) + places + heads + bodies


def _encode_slices(codes: NDArray[np.int64], count: int) -> bytes:
    rows = np.flatnonzero(codes >= 0)
    n = max(1, (count - 1).bit_length()) if count else 64
    existence = roaring.encode_positions(rows)
    slices = roaring.encode_slices(rows, codes[rows].view(np.uint64), n)
    places, at = bytearray(), 0
    for piece in slices:
        places += _i32(at, len(piece))
        at += len(piece)
    return b"".join(
        [_i32(10 + 8 * n), b"\1", bytes([n]), _i32(len(existence), 8 * n), bytes(places), existence, *slices]
    )


# ---- probing ---------------------------------------------------------------------------------------------------------


class _RangeBitmapHeader(NamedTuple):
    rows: int
    distinct: int
    low: Key
    high: Key
    dictionary: int
    slices: int


def probe(payload: bytes | memoryview, t: DataType, leaf: Leaf, row_count: int) -> bool | BitMap:
    """Return the rows that match, False for none, True if the index cannot tell.

    It reads one chunk of the dictionary for each bound. Raises `Corrupt`, `Unsupported`.
    """
    query = container.key_query_of(leaf, t)
    matching = None if query is None else rows(payload, t, query, row_count)
    return True if matching is None else container.to_probe_result(matching, row_count)


def rows(payload: bytes | memoryview, t: DataType, query: KeyQuery, row_count: int) -> BitMap | None:
    """Return the rows for which a query is true; None for a type that the index does not take.

    Raises `Corrupt`, `Unsupported`.
    """
    if not supports_type(t):
        return None
    head = _read_head(Cursor(payload), t, row_count)
    if head.distinct == 0:
        return roaring.full_bitmap(row_count) if query.kind == "null" else BitMap()
    if query.kind == "equal":
        return _equal_rows(payload, t, head, query, row_count)
    slices = _BitSlices(Cursor(payload), head.slices, row_count)
    match query.kind:
        case "null":
            return roaring.full_bitmap(row_count) - slices.rows_with_value()
        case "not null":
            return slices.rows_with_value()
        case "range":
            return _range_rows(payload, t, head, query, slices)
    return slices.rows_with_value() - _equal_rows(payload, t, head, query, row_count)


def walk(cursor: Cursor, t: DataType | None) -> None:
    """Read the whole payload, to record its spans; only the head if the column's type is unknown.

    Raises `Corrupt`, `Unsupported`.
    """
    if t is None:
        cursor.i32be("head length")
        _check_version(cursor)
        cursor.i32be("rows")
        cursor.i32be("distinct values")
        cursor.raw(cursor.remaining, "bounds, dictionary and slices")
        return
    size = len(cursor.data)
    head = _read_head(cursor, t, None)
    with cursor.within("dictionary"):
        inside = cursor.region(min(head.dictionary, size), min(head.slices, size))
        chunks, heads, body = _read_dictionary(inside, head)
        following = cursor.region(min(heads, size))
        for number in range(chunks):
            with cursor.within(f"chunk {number}"):
                chunk = _read_chunk(following, t)
                _read_chunk_keys(cursor.region(min(body + chunk.offset, size)), t, chunk)
    with cursor.within("slices"):
        slices = _BitSlices(cursor, head.slices, head.rows)
        slices.rows_with_value()
        slices.all_slices()


def _read_head(cursor: Cursor, t: DataType, row_count: int | None) -> _RangeBitmapHeader:
    length = cursor.i32be("head length")
    _check_version(cursor)
    rows = cursor.i32be("rows")
    if row_count is not None and rows != row_count:
        raise cursor.make_error(f"an index of another file: {row_count} rows wanted", "rows", at=5)
    count = cursor.i32be("distinct values")
    if not 0 <= count <= rows:
        raise cursor.make_error(f"{count} distinct values in {rows} rows", "distinct values", at=9)
    low, high = (container.read_key(cursor, t, "min"), container.read_key(cursor, t, "max")) if count else (0, 0)
    dictionary_length = cursor.i32be("dictionary length")
    if cursor.tell != 4 + length or dictionary_length < 0:
        raise cursor.make_error(f"a head of {length} bytes, a dictionary of {dictionary_length}", "head length", at=0)
    return _RangeBitmapHeader(rows, count, low, high, cursor.tell, cursor.tell + dictionary_length)


def _check_version(cursor: Cursor) -> None:
    version = cursor.u8("version")
    if version != 1:
        msg = f"range-bitmap indexes of version {version} are newer than lakekit; version 1 is known"
        raise Unsupported(msg, feature="file-index.range-bitmap")


class _BitSlices:
    """The bit-sliced half of the index, of which a query reads only the slices it needs."""

    def __init__(self, payload: Cursor, offset: int, row_count: int) -> None:
        cursor = payload.region(min(offset, len(payload.data)))
        length = cursor.i32be("slices head length")
        _check_version(cursor)
        self.n = cursor.u8("slices")
        self.existence_length = cursor.i32be("existence length")
        if cursor.i32be("indexes length") != 8 * self.n or length != 10 + 8 * self.n or self.existence_length < 0:
            raise cursor.make_error(f"a head of {length} bytes for {self.n} slices", "slices", at=offset)
        self.slice_ranges = [(cursor.i32be("slice offset"), cursor.i32be("slice length")) for _ in range(self.n)]
        self.cursor, self.payload, self.body, self.row_count = payload, payload.data, cursor.tell, row_count
        self.cached_slices: roaring.Slices | None = None

    def _read_bitmap(self, offset: int, length: int, field: str, *, is_sound: bool = False) -> BitMap:
        cursor = self.cursor.region(min(max(self.body + offset, 0), len(self.payload)))
        start = cursor.tell
        data = cursor.raw(length, field)
        bitmap = roaring.layout_to_bitmap(data) if is_sound else roaring.decode_bitmap(data)
        if cursor.spans is not None:
            roaring.read_layout(cursor.region(start, cursor.tell), field)
        if bitmap and bitmap.max() >= self.row_count:
            raise cursor.make_error(f"row {bitmap.max()} of {self.row_count}", field)
        return bitmap

    def rows_with_value(self) -> BitMap:
        return self._read_bitmap(0, self.existence_length, "existence")

    def all_slices(self) -> roaring.Slices:
        if self.cached_slices is None:
            self.cached_slices = _SliceGroup(self) if self._are_sound() else self._one_by_one()
        return self.cached_slices

    def _are_sound(self) -> bool:
        """Return whether all slices are sound and lie in order; if not, `_one_by_one` raises what is wrong."""
        begin = self.body + self.existence_length
        ends = [begin + offset + length for offset, length in self.slice_ranges]
        if (
            self.cursor.spans is not None
            or not ends
            or [begin + offset for offset, _ in self.slice_ranges] != [begin, *ends[:-1]]
            or not begin <= ends[-1] <= len(self.payload)
        ):
            return False
        with suppress(Corrupt):
            return (
                roaring.read_bitmap_ends(Cursor(self.payload, offset=begin, end=ends[-1]), self.n, "slice")[0][1:]
                == ends
            )
        return False

    def _one_by_one(self) -> list[BitMap]:
        bitmaps = []
        for number in range(self.n):
            with self.cursor.within(f"slice {number}"):
                bitmaps.append(self.read_slice(number))
        return bitmaps

    def read_slice(self, slice_index: int, *, is_sound: bool = False) -> BitMap:
        offset, length = self.slice_ranges[slice_index]
        return self._read_bitmap(self.existence_length + offset, length, "slice", is_sound=is_sound)


class _SliceGroup:
    """Slices that were checked together; each is decoded when first needed."""

    def __init__(self, slices: _BitSlices) -> None:
        self._slices = slices
        self._bitmaps: list[BitMap | None] = [None] * slices.n

    def __len__(self) -> int:
        return len(self._bitmaps)

    def __getitem__(self, i: int) -> BitMap:
        bitmap = self._bitmaps[i]
        if bitmap is None:
            bitmap = self._bitmaps[i] = self._slices.read_slice(i, is_sound=True)
        return bitmap


def _equal_rows(
    payload: bytes | memoryview, t: DataType, header: _RangeBitmapHeader, query: KeyQuery, row_count: int
) -> BitMap:
    """Return the rows with one of the keys; slices are read only if a key is in the dictionary."""
    inside = (
        _find_key(payload, t, header, key, ranked=False) for key in query.keys if header.low <= key <= header.high
    )
    codes = [code for code, is_present in inside if is_present]
    if not codes:
        return BitMap()
    slices = _BitSlices(Cursor(payload), header.slices, row_count)
    existence = slices.rows_with_value()
    return BitMap.union(*(roaring.rows_equal(existence, slices.all_slices(), key_code) for key_code in codes))


def _range_rows(
    payload: bytes | memoryview, t: DataType, header: _RangeBitmapHeader, query: KeyQuery, slices: _BitSlices
) -> BitMap:
    """Return the rows in a range; codes are ranks, so that a bound becomes the number of keys before it."""
    low, high = 0, header.distinct - 1
    if query.low is not None and not query.low < header.low:
        code, is_present = _find_key(payload, t, header, query.low)
        low = code + (is_present and query.is_low_open)
    if query.high is not None and not query.high > header.high:
        code, is_present = _find_key(payload, t, header, query.high)
        high = code - (not is_present or query.is_high_open)
    existence = slices.rows_with_value()
    if low == 0 and high == header.distinct - 1:
        return existence
    return roaring.rows_between(existence, slices.all_slices(), low, high) if low <= high else BitMap()


class _DictionaryChunk(NamedTuple):
    first_key: Key
    code: int
    offset: int
    key_count: int
    lengths: tuple[int, int]


def _find_key(
    payload: bytes | memoryview, t: DataType, header: _RangeBitmapHeader, key: Key, *, ranked: bool = True
) -> tuple[int, bool]:
    """Return how many keys are before `key`, and whether `key` is one of them.

    The chunks are searched, then one chunk. If not `ranked`, a text that is not in the bytes of its chunk has the
    number 0.
    """
    cursor = Cursor(payload, offset=min(header.dictionary, len(payload)), end=min(header.slices, len(payload)))
    chunks, heads, body = _read_dictionary(cursor, header)
    offsets = heads - 4 * chunks
    low, high = 0, chunks
    candidate: _DictionaryChunk | None = None
    while low < high:
        middle = (low + high) // 2
        at = int.from_bytes(payload[offsets + 4 * middle : offsets + 4 * middle + 4], "big")
        chunk = _read_chunk(Cursor(payload, offset=min(heads + at, len(payload))), t)
        if chunk.first_key <= key:
            low, candidate = middle + 1, chunk
        else:
            high = middle
    if candidate is None:
        return 0, False
    if candidate.first_key == key:
        return candidate.code, True
    begin = min(body + candidate.offset, len(payload))
    if (
        not ranked
        and t.root not in STORED_WIDTHS
        and not may_contain_length_prefixed(memoryview(payload)[slice(*_text_range(payload, candidate, begin))], key)
    ):
        return 0, False
    read = _number_reader(payload, t, begin, candidate.key_count) or partial(
        _read_other_key, payload, t, candidate, begin
    )
    chunk_number = bisect_left(range(candidate.key_count), key, key=read)
    return candidate.code + 1 + chunk_number, chunk_number < candidate.key_count and read(chunk_number) == key


_INTEGER_STRUCTS = {width: Struct(f">{letter}") for width, letter in ((1, "b"), (2, "h"), (4, "i"), (8, "q"))}


def _number_reader(payload: bytes | memoryview, t: DataType, begin: int, count: int) -> Callable[[int], Key] | None:
    """Return a reader of `count` stored numbers from `begin` on; None for texts and short payloads."""
    width = STORED_WIDTHS.get(t.root)
    if width is None or begin + width * count > len(payload):
        return None
    unpack = _INTEGER_STRUCTS[width].unpack_from
    if _is_float_type(t):
        return lambda number: container.order_one_float(unpack(payload, begin + width * number)[0], width)
    return lambda number: unpack(payload, begin + width * number)[0]


def _read_other_key(payload: bytes | memoryview, t: DataType, chunk: _DictionaryChunk, begin: int, number: int) -> Key:
    width = STORED_WIDTHS.get(t.root)
    if width is not None:
        return container.read_key(Cursor(payload, offset=min(begin + width * number, len(payload))), t, "key")
    keys, end = _text_range(payload, chunk, begin)
    offset = Cursor(payload, offset=min(begin + 4 * number, keys), end=keys).i32be("key offset")
    return container.read_key(Cursor(payload, offset=min(keys + max(0, offset), end), end=end), t, "key")


def _text_range(payload: bytes | memoryview, chunk: _DictionaryChunk, begin: int) -> tuple[int, int]:
    """Return where the other texts of a chunk begin and end; their offsets lie before them."""
    keys = min(begin + 4 * chunk.key_count, len(payload))
    return keys, min(keys + max(0, chunk.lengths[1]), len(payload))


def _read_dictionary(cursor: Cursor, header: _RangeBitmapHeader) -> tuple[int, int, int]:
    """Return how many chunks there are, where their heads begin, and where their keys begin."""
    if cursor.i32be("dictionary head length") != 13:
        raise cursor.make_error("a head of 13 bytes wanted", "dictionary head length", at=header.dictionary)
    _check_version(cursor)
    chunks, offsets_length, heads_length = (
        cursor.i32be("chunks"),
        cursor.i32be("offsets length"),
        cursor.i32be("heads length"),
    )
    if offsets_length != 4 * chunks or chunks < (header.distinct > 0) or heads_length < 0:
        raise cursor.make_error(f"{chunks} chunks with {offsets_length} bytes of offsets", "chunks")
    offsets = cursor.tell
    if cursor.spans is not None:
        for number in range(chunks):
            cursor.i32be(f"chunk {number} offset")
    heads = offsets + offsets_length
    return chunks, heads, heads + heads_length


def _read_chunk(cursor: Cursor, t: DataType) -> _DictionaryChunk:
    _check_version(cursor)
    first = container.read_key(cursor, t, "first key")
    code, offset, others = cursor.i32be("code"), cursor.i32be("keys offset"), cursor.i32be("keys")
    lengths = cursor.i32be("first length"), cursor.i32be("second length")
    if code < 0 or offset < 0 or others < 0:
        raise cursor.make_error(f"code {code}, offset {offset}, {others} keys", "chunk")
    return _DictionaryChunk(first, code, offset, others, lengths)


def _read_chunk_keys(cursor: Cursor, t: DataType, chunk: _DictionaryChunk) -> list[Key]:
    """Return the keys of a chunk besides its first."""
    width = STORED_WIDTHS.get(t.root)
    if width is not None:
        begin = cursor.tell
        data = cursor.raw(width * chunk.key_count, "keys")
        keys = (
            container.order_float_bits(np.frombuffer(data, f">i{width}").astype(np.int64), width).tolist()
            if _is_float_type(t)
            else _read_integers(data, width)
        )
        if cursor.spans is not None:
            for number, key in enumerate(keys):
                cursor.record(begin + width * number, width, "key", key)
        return keys
    cursor.raw(4 * chunk.key_count, "key offsets")
    return [container.read_key(cursor, t, "key") for _ in range(chunk.key_count)]


def _is_float_type(t: DataType) -> bool:
    return t.root in ("FLOAT", "DOUBLE")


def _read_integers(data: bytes, width: int) -> list[Key]:
    return np.frombuffer(data, f">i{width}").tolist()
