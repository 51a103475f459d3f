"""The container of a data file's indexes, and the keys under which indexes store values.

    00054e4ed01a35ae | i32 version 1 | i32 head length | i32 columns
    a column   J-UTF name | i32 indexes | indexes × (J-UTF type | i32 start | i32 length)
    i32 redundant length | so many ignored bytes
    payloads

All big endian. `start` counts from the beginning of the container; -1 means an index that is known to be empty (no row
was given to it), which is `None` here.

    {"a": {"bloom-filter": 010203}}
    00054e4ed01a35ae 00000001 00000033 00000001
    0001 61 00000001  000c 626c6f6f6d2d66696c746572 00000033 00000003  00000000  010203

    type                      key                                       stored, big endian
    BOOLEAN, TINYINT          0 / 1, the value                          1 byte
    SMALLINT                  the value                                 2 bytes
    INT, DATE, TIME           the value                                 4 bytes
    BIGINT                    the value                                 8 bytes
    FLOAT, DOUBLE             IEEE bits (one NaN), ordered as Java      4, 8 bytes: the bits
    TIMESTAMP, LTZ            millis if the precision is ≤ 3, else micros   8 bytes
    DECIMAL                   the unscaled integer                      8 bytes
    CHAR, VARCHAR, BINARY…    the bytes                                 i32 length, bytes

Keys are the same for indexed columns and for literals: integers or bytes, which order as their values do.

Source: FORMAT.md 9.2-9.7; `FileIndexFormat`.
"""

from __future__ import annotations

import math
import re
import struct
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.codec.binary_row import binary_buffers, expand_ranges, fixed_values, null_mask
from lakekit.codec.cursor import Cursor, encode_java_utf
from lakekit.codec.hashing import float_bits
from lakekit.errors import Corrupt, InvalidOption, Unsupported, ValueOutOfRange
from lakekit.predicate import Leaf, to_internal_literal
from lakekit.types import BINARIES, STRINGS, TIMESTAMPS, Instant
from lakekit.types.arrow import to_plain_array, to_unscaled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from pyroaring import BitMap

    from lakekit.predicate import Predicate
    from lakekit.types import DataType


MAGIC = 1493475289347502
"""The first 8 bytes of a container, as an integer."""
VERSION = 1
"""The version of containers that lakekit reads and writes."""
FIXED_HEAD_BYTES = 16
"""The number of bytes of magic, version and head length."""


class PayloadRange(NamedTuple):
    """The start and length of one payload."""

    start: int
    length: int


class Payloads(NamedTuple):
    """Payloads of many containers in one byte array: payload i is `data[begins[i]:ends[i]]`."""

    data: NDArray[np.uint8]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.begins)


def head_length(data: bytes | memoryview, *, path: str | None = None) -> int:
    """Return the number of bytes before the payloads, magic and version included.

    `data`: at least the first 16 bytes of a container. Raises `Corrupt`, `Unsupported`.
    """
    return _read_head_length(Cursor(data, path=path))


def _read_head_length(cursor: Cursor) -> int:
    if cursor.i64be("magic") != MAGIC:
        raise cursor.make_error("no file index: 00054e4ed01a35ae wanted", "magic", at=0)
    version = cursor.i32be("version")
    if version != VERSION:
        where = "" if cursor.path is None else f"{cursor.path}: "
        msg = f"{where}file indexes of version {version} are newer than lakekit; version 1 is known"
        raise Unsupported(msg, feature="file-index.embedded", path=cursor.path)
    length = cursor.i32be("head length")
    if length < FIXED_HEAD_BYTES + 8:
        raise cursor.make_error(f"a head of {length} bytes", "head length", at=12)
    return length


def read_toc(data: bytes | memoryview, *, path: str | None = None) -> Mapping[str, Mapping[str, PayloadRange | None]]:
    """Return column -> index type -> range of the payload (None: the index is known to be empty).

    `data`: a container, or its head alone. Raises `Corrupt`, `Unsupported`.
    """
    length = int.from_bytes(data[FIXED_HEAD_BYTES - 4 : FIXED_HEAD_BYTES], "big")
    if FIXED_HEAD_BYTES < length <= len(data):
        with suppress(Corrupt, Unsupported):  # raised below, with the path
            return _read_cached(bytes(data[:length]))
    return read_toc_at(Cursor(data, path=path))


@lru_cache(256)
def _read_cached(head: bytes) -> Mapping[str, Mapping[str, PayloadRange | None]]:
    """Return the contents of a head; the heads of a table's files often have the same bytes."""
    return read_toc_at(Cursor(head))


def read_toc_at(container: Cursor) -> dict[str, dict[str, PayloadRange | None]]:
    """Return the `read_toc` of the container that a cursor points to, without a cache."""
    size = len(container.data)
    length = _read_head_length(container.region(0, min(FIXED_HEAD_BYTES, size)))
    if length > size:
        raise container.make_error(f"a head of {length} bytes, {size} there", "head length", at=12)
    cursor = container.region(FIXED_HEAD_BYTES, length)
    ranges: dict[str, dict[str, PayloadRange | None]] = {}
    for number in range(cursor.count("columns", each=6)):
        with cursor.within(f"column {number}"):
            column = cursor.java_utf("column")
            indexes = ranges.setdefault(column, {})
            for _ in range(cursor.count("indexes", each=10)):
                kind = cursor.java_utf("type")
                at = cursor.tell
                start, size = cursor.i32be("start"), cursor.i32be("length")
                if start != -1 and (start < length or size < 0):
                    raise cursor.make_error(
                        f"{kind} of {column!r} at {start}, {size} bytes, inside the head of {length}", "start", at=at
                    )
                indexes[kind] = None if start == -1 else PayloadRange(start, size)
    cursor.raw(cursor.i32be("redundant length"), "redundant")
    cursor.expect_end("head")
    return ranges


def read_payload(data: bytes, payload_range: PayloadRange, *, path: str | None = None) -> bytes:
    """Return a copy of one payload of a container. Raises `Corrupt`."""
    return bytes(payload_view(data, payload_range, path=path))


def payload_view(data: bytes | memoryview, payload_range: PayloadRange, *, path: str | None = None) -> memoryview:
    """Return a view of one payload of a container. Raises `Corrupt`."""
    end = payload_range.start + payload_range.length
    if not payload_range.start <= end <= len(data):
        # raises what is wrong
        Cursor(data, path=path, offset=min(payload_range.start, len(data))).skip(payload_range.length, "payload")
    return memoryview(data)[payload_range.start : end]


def decode_container(data: bytes, *, path: str | None = None) -> dict[str, dict[str, bytes | None]]:
    """Return column -> index type -> payload (None: known to be empty). Raises `Corrupt`, `Unsupported`."""
    return {
        column: {
            kind: None if payload_range is None else read_payload(data, payload_range, path=path)
            for kind, payload_range in indexes.items()
        }
        for column, indexes in read_toc(data, path=path).items()
    }


def encode_container(indexes: Mapping[str, Mapping[str, bytes | None]]) -> bytes:
    """Return the container of some payloads, in the given order.

    The order is free: Java writes columns in the order of a hash map.
    """
    names = {name: encode_java_utf(name) for columns in (indexes, *indexes.values()) for name in columns}
    length = (
        FIXED_HEAD_BYTES
        + 4
        + sum(len(names[column]) + 4 + sum(len(names[kind]) + 8 for kind in kinds) for column, kinds in indexes.items())
        + 4
    )
    head, body = bytearray(), bytearray()
    head += (
        MAGIC.to_bytes(8, "big")
        + VERSION.to_bytes(4, "big")
        + length.to_bytes(4, "big")
        + len(indexes).to_bytes(4, "big")
    )
    for column, kinds in indexes.items():
        head += names[column] + len(kinds).to_bytes(4, "big")
        for kind, data in kinds.items():
            start, size = (-1, 0) if data is None else (length + len(body), len(data))
            head += names[kind] + start.to_bytes(4, "big", signed=True) + size.to_bytes(4, "big")
            body += data or b""
    return bytes(head) + bytes(4) + bytes(body)


# ---- index keys ------------------------------------------------------------


Key: TypeAlias = Any
"""An integer or bytes; all keys of a column have the same Python type."""
STORED_WIDTHS = {
    **dict.fromkeys(("BOOLEAN", "TINYINT"), 1),
    "SMALLINT": 2,
    **dict.fromkeys(("INT", "DATE", "TIME", "FLOAT"), 4),
    **dict.fromkeys(("BIGINT", "DOUBLE", "DECIMAL", "TIMESTAMP", "TIMESTAMP_LTZ"), 8),
}
"""The number of bytes of a stored key by type root; texts and bytes have no fixed width."""
_MEMORY_SIZE = re.compile(r"(\d{1,18}) *(|b|bytes|k|kb|kibibytes|m|mb|mebibytes|g|gb|gibibytes|t|tb|tebibytes)")
_SHIFT_OF_UNIT = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}


# ---- columns ---------------------------------------------------------------------------------------------------------


class ColumnKeys(NamedTuple):
    """The keys of a column: `values` has an int64 or binary key for each row, `nulls` marks rows without a key."""

    values: NDArray[np.int64] | pa.BinaryArray
    nulls: NDArray[np.bool_]


class DistinctKeys(NamedTuple):
    """The distinct keys of a column, ascending, and the index of each row's key (-1 for a null)."""

    keys: NDArray[np.int64] | pa.BinaryArray
    codes: NDArray[np.int64]


def order_float_bits(bits: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Return IEEE bits (sign extended) as integers that order as the floats do; the function is its own inverse."""
    return np.where(bits < 0, bits ^ ((1 << 8 * width - 1) - 1), bits)


def keys_of(column: pa.Array | pa.ChunkedArray, t: DataType) -> ColumnKeys:
    """Return a column's keys.

    Raises:
        ValueOutOfRange: the column does not fit its type, or a decimal exceeds 64 bits.
    """
    array = to_plain_array(column, t)
    nulls = null_mask(array)
    if t.root in STRINGS or t.root in BINARIES:
        return ColumnKeys(array.cast(pa.binary()), nulls)
    if t.root == "BOOLEAN":
        values = array.fill_null(False).cast(pa.int8()).to_numpy().astype(np.int64)
    elif t.root == "DECIMAL":
        limbs = fixed_values(array, "<i8", 2).reshape(-1, 2)
        values = limbs[:, 0]
        if ((limbs[:, 1] != values >> 63) & ~nulls).any():
            msg = f"a value of {t} beyond 64 bits cannot be indexed"
            raise ValueOutOfRange(msg)
    elif t.root in ("FLOAT", "DOUBLE"):
        width = STORED_WIDTHS[t.root]
        bits = float_bits(fixed_values(array, f"<f{width}"))
        values = order_float_bits(bits.view(f"<i{width}").astype(np.int64), width)
    else:
        values = fixed_values(array, f"<i{STORED_WIDTHS[t.root]}").astype(np.int64)
        if t.root in TIMESTAMPS and array.type.unit == "ns":
            values = values // 1000
    return ColumnKeys(np.where(nulls, 0, values), nulls)


def distinct_keys(column: pa.Array | pa.ChunkedArray, t: DataType) -> DistinctKeys:
    """Return the distinct keys of a column, sorted, and each row's code."""
    column_keys = keys_of(column, t)
    codes = np.full(len(column_keys.nulls), -1, np.int64)
    valued = np.flatnonzero(~column_keys.nulls)
    if isinstance(column_keys.values, np.ndarray):
        keys, codes[valued] = np.unique(column_keys.values[valued], return_inverse=True)
        return DistinctKeys(keys, codes)
    encoded = pc.dictionary_encode(column_keys.values)
    order = pc.sort_indices(encoded.dictionary)
    ranks = np.empty(len(order), np.int64)
    ranks[order.to_numpy()] = np.arange(len(order))
    codes[valued] = ranks[encoded.indices.drop_null().to_numpy()]
    return DistinctKeys(encoded.dictionary.take(order), codes)


def stored_bits(keys: NDArray[np.int64], t: DataType) -> NDArray[np.int64]:
    """Return the stored form of integer keys, which is the key itself except for floats, stored as their bits."""
    return order_float_bits(keys, STORED_WIDTHS[t.root]) if t.root in ("FLOAT", "DOUBLE") else keys


# ---- stored bytes ----------------------------------------------------------------------------------------------------

RaggedBytes = tuple["NDArray[np.uint8]", "NDArray[np.int64]"]
"""Many byte strings in one array: string i is `data[offsets[i]:offsets[i+1]]`."""


def encode_stored(keys: NDArray[np.int64] | pa.BinaryArray, t: DataType) -> RaggedBytes:
    """Return the keys in the form in which an index stores them."""
    if isinstance(keys, np.ndarray):
        width = STORED_WIDTHS[t.root]
        data = np.frombuffer(stored_bits(keys, t).astype(f">i{width}").tobytes(), np.uint8)
        return data, np.arange(len(keys) + 1) * width
    starts, lengths, data = binary_buffers(keys)
    text = data[expand_ranges(starts, lengths)], np.concatenate([[0], np.cumsum(lengths)])
    return concat_rowwise(encode_i32_rows(lengths), text)


def encode_i32_rows(*columns: NDArray[np.int64]) -> RaggedBytes:
    """Return the columns as big-endian i32, interleaved: one byte string for each row."""
    table = np.stack(columns, axis=1).astype(">i4")
    return np.frombuffer(table.tobytes(), np.uint8), np.arange(len(table) + 1) * table.shape[1] * 4


def concat_rowwise(*pieces: RaggedBytes) -> RaggedBytes:
    """Return for each row the concatenation of the row's bytes in all pieces."""
    lengths = [np.diff(offsets) for _, offsets in pieces]
    ends = np.concatenate([[0], np.cumsum(np.sum(lengths, axis=0))]).astype(np.int64)
    out = np.empty(int(ends[-1]), np.uint8)
    at = ends[:-1]
    for (data, _), length in zip(pieces, lengths, strict=True):
        out[expand_ranges(at, length)] = data
        at = at + length
    return out, ends


def read_key(cursor: Cursor, t: DataType, field: str) -> Key:
    """Return the stored key at the cursor."""
    width = STORED_WIDTHS.get(t.root)
    if width is None:
        return cursor.raw(cursor.i32be(field, "length"), field)
    key = int.from_bytes(cursor.raw(width, field), "big", signed=True)
    key = convert_stored_bits(key, t)
    cursor.set_meaning(key)
    return key


def convert_stored_bits(key: int, t: DataType) -> int:
    """Convert an integer key to its stored form, or a stored form to its key; the conversion is its own inverse."""
    return order_one_float(key, STORED_WIDTHS[t.root]) if t.root in ("FLOAT", "DOUBLE") else key


def order_one_float(bits: int, width: int) -> int:
    """Return `order_float_bits` of one number; the function is its own inverse."""
    return bits ^ ((1 << 8 * width - 1) - 1) if bits < 0 else bits


# ---- literals --------------------------------------------------------------------------------------------------------


class KeyQuery(NamedTuple):
    """A condition on a column, expressed in keys.

    `kind` is "equal" (any of `keys`), "unequal" (none of `keys`), "range", "null" or "not null". A range is `low ≤ key
    ≤ high`; None: there is no bound. With `is_low_open` or `is_high_open` the bound itself is excluded.
    """

    kind: str
    keys: tuple[Key, ...] = ()
    low: Key | None = None
    high: Key | None = None
    is_low_open: bool = False
    is_high_open: bool = False


def key_query_of(leaf: Leaf, t: DataType) -> KeyQuery | None:
    """Return the query of a leaf for an index on a column of type `t`; None if an index cannot evaluate it.

    An index cannot evaluate literals of another type, and text operators.
    """
    return _key_query(leaf, tuple(map(type, leaf.literals)), t)


@lru_cache(64)
def _key_query(leaf: Leaf, kinds: tuple[type, ...], t: DataType) -> KeyQuery | None:  # noqa: ARG001
    # `kinds` is part of the cache key, as the literals 1 and True are equal but have different keys
    if leaf.op in ("is null", "is not null"):
        return KeyQuery("null" if leaf.op == "is null" else "not null")
    if leaf.op == "starts with":
        return None
    keys_of_literals = [equal_keys(value, t) for value in leaf.literals]
    if any(keys is None for keys in keys_of_literals):
        return None
    keys = tuple(key for keys_of_literal in keys_of_literals if keys_of_literal is not None for key in keys_of_literal)
    lossy = t.root in TIMESTAMPS and (6 if t.precision is None else t.precision) > 6
    if leaf.op in ("=", "in"):
        return KeyQuery("equal", keys)
    if leaf.op in ("!=", "not in"):
        return None if lossy else KeyQuery("unequal", keys)
    low, high = min(keys), max(keys)  # of two keys where 0.0 and -0.0 are equal
    match leaf.op:
        case "<":
            return KeyQuery("range", high=low, is_high_open=not lossy)
        case "<=":
            return KeyQuery("range", high=high)
        case ">":
            return KeyQuery("range", low=high, is_low_open=not lossy)
        case ">=":
            return KeyQuery("range", low=low)
    return None


_RANGE_OPERATORS = ("<", "<=", ">", ">=")


def group_ranges_by_column(parts: tuple[Predicate, ...]) -> list[Predicate | tuple[Leaf, ...]]:
    """Return conditions that must all hold, with the range conditions of each column as one group.

    An index then evaluates both bounds at once. Other conditions are not grouped.
    """
    grouped: dict[object, Predicate | tuple[Leaf, ...]] = {}
    for at, part in enumerate(parts):
        if isinstance(part, Leaf) and part.op in _RANGE_OPERATORS:
            before = grouped.get(part.column, ())
            assert isinstance(before, tuple)
            grouped[part.column] = (*before, part)
        else:
            grouped[at] = part
    return list(grouped.values())


def key_query_of_all(leaves: tuple[Leaf, ...], t: DataType) -> KeyQuery | None:
    """Return the query of leaves that must all hold; None if an index cannot evaluate it.

    One leaf has the query of `key_query_of`; several range leaves of a column have the range between their bounds.
    """
    queries = [key_query_of(leaf, t) for leaf in leaves]
    if len(queries) < 2 or None in queries:
        return queries[0] if len(queries) == 1 else None
    lows = [(query.low, query.is_low_open) for query in queries if query is not None and query.low is not None]
    highs = [(query.high, not query.is_high_open) for query in queries if query is not None and query.high is not None]
    (low, low_open), (high, high_shut) = max(lows, default=(None, False)), min(highs, default=(None, True))
    return KeyQuery("range", low=low, high=high, is_low_open=low_open, is_high_open=not high_shut)


def equal_keys(value: object, t: DataType) -> tuple[Key, ...] | None:
    """Return the keys of the values of type `t` that equal a literal.

    Returns None if the keys are unknown: the caller must then read the file.
    """
    converted: Any = to_internal_literal(value, t)
    if converted is None:
        return None
    if isinstance(converted, str):
        try:
            return (converted.encode(),)
        except UnicodeEncodeError:
            return None
    if isinstance(converted, bytes):
        return (converted,)
    if isinstance(converted, Instant):
        precision = 6 if t.precision is None else t.precision
        if precision <= 3:
            return None if converted.nanos else (converted.millis,)
        return (
            None if converted.nanos % 1000 and precision <= 6 else (converted.millis * 1000 + converted.nanos // 1000,)
        )
    if isinstance(converted, Decimal):
        try:
            return (to_unscaled(converted, t.scale or 0),)
        except ValueOutOfRange:
            return None
    if isinstance(converted, float):
        return _float_keys(converted, t)
    return (int(converted),)


def _float_keys(value: float, t: DataType) -> tuple[Key, ...] | None:
    width = STORED_WIDTHS[t.root]
    if value == 0:
        return (0, -1)  # the ordered bits of 0.0 and -0.0
    if width == 4 and not math.isinf(value):
        try:
            exact = struct.unpack("<f", struct.pack("<f", value))[0] == value
        except OverflowError:
            exact = False
        if not exact:
            return None
    form = "<f" if width == 4 else "<d"
    return (order_one_float(int.from_bytes(struct.pack(form, value), "little", signed=True), width),)


def count_before(values: Any, key: Key, *, includes_equal: bool) -> int:
    """Return how many of ascending `values` are before `key` (with `includes_equal`: or equal to it)."""
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        if values[middle] < key or (includes_equal and values[middle] == key):
            low = middle + 1
        else:
            high = middle
    return low


# ---- options and answers ---------------------------------------------------------------------------------------------


def parse_size_option(options: Mapping[str, str], key: str, default: int, name: str) -> int:
    """Return a memory size among an index's options (`16kb`) in bytes. Raises `InvalidOption`.

    `name`: the index type, for the message.
    """
    text = options.get(key)
    if text is None:
        return default
    match = _MEMORY_SIZE.fullmatch(text.strip().lower())
    if match is None:
        msg = f"{name} takes {key} as a size such as 16kb, found {text!r}"
        raise InvalidOption(msg, key=f"file-index.{name}.{key}", value=text)
    return int(match[1]) << _SHIFT_OF_UNIT[match[2][:1]]


def to_probe_result(rows: BitMap, row_count: int) -> bool | BitMap:
    """Return the rows as a probe answers: False for no row, True for every row, or the set of rows."""
    if not rows:
        return False
    return True if len(rows) == row_count else rows


def may_contain_length_prefixed(data: memoryview, text: bytes) -> bool:
    """Return whether `data` contains a text with its length before it; other bytes may match by chance."""
    return len(text).to_bytes(4, "big") + text in bytes(data)
