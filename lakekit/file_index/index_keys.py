"""What file indexes store of a value: its key. The same for columns being indexed and for literals being looked up.

    type                      key                                       stored, big endian
    BOOLEAN, TINYINT          0 / 1, the value                          1 byte
    SMALLINT                  the value                                 2 bytes
    INT, DATE, TIME           the value                                 4 bytes
    BIGINT                    the value                                 8 bytes
    FLOAT, DOUBLE             IEEE bits (one NaN), ordered as Java      4, 8 bytes: the bits
    TIMESTAMP, LTZ            millis if the precision is ≤ 3, else micros   8 bytes
    DECIMAL                   the unscaled integer                      8 bytes
    CHAR, VARCHAR, BINARY…    the bytes                                 i32 length, bytes

Keys are integers or bytes, and order as their values do. Source: FORMAT.md 9.3-9.7.
"""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.codec.arrow_values import to_contiguous, to_unscaled
from lakekit.codec.binary_columns import binary_buffers, fixed_values, nulls_of, spans
from lakekit.codec.hashing import float_bits
from lakekit.errors import InvalidOption, ValueOutOfRange
from lakekit.predicate import Leaf, literal
from lakekit.types import BINARIES, STRINGS, TIMESTAMPS, Instant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from pyroaring import BitMap

    from lakekit.codec.cursor import Cursor
    from lakekit.predicate import Predicate
    from lakekit.types import DataType

Key: TypeAlias = Any
"""An integer or bytes; those of one column are of one kind."""
WIDTHS = {
    **dict.fromkeys(("BOOLEAN", "TINYINT"), 1),
    "SMALLINT": 2,
    **dict.fromkeys(("INT", "DATE", "TIME", "FLOAT"), 4),
    **dict.fromkeys(("BIGINT", "DOUBLE", "DECIMAL", "TIMESTAMP", "TIMESTAMP_LTZ"), 8),
}
_SIZE = re.compile(r"(\d{1,18}) *(|b|bytes|k|kb|kibibytes|m|mb|mebibytes|g|gb|gibibytes|t|tb|tebibytes)")
_SHIFTS = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}


# ---- columns ------------------------------------------------------------------------------------------------------------------------------------


class ColumnKeys(NamedTuple):
    """A column as an index sees it: `values` are int64 keys or a binary array, one a row; rows in `nulls` have none."""

    values: NDArray[np.int64] | pa.BinaryArray
    nulls: NDArray[np.bool_]


class DistinctKeys(NamedTuple):
    """The distinct keys of a column, ascending, and which of them each row has (-1 for a null)."""

    keys: NDArray[np.int64] | pa.BinaryArray
    codes: NDArray[np.int64]


def order_float_bits(bits: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """IEEE bits (sign extended) as integers in the order of their numbers; its own inverse."""
    return np.where(bits < 0, bits ^ ((1 << 8 * width - 1) - 1), bits)


def keys_of(column: pa.Array | pa.ChunkedArray, t: DataType) -> ColumnKeys:
    """A column's keys. Raises `ValueOutOfRange` for a column that does not fit its type or a decimal beyond 64 bits."""
    array = to_contiguous(column, t)
    nulls = nulls_of(array)
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
        width = WIDTHS[t.root]
        bits = float_bits(fixed_values(array, f"<f{width}"))
        values = order_float_bits(bits.view(f"<i{width}").astype(np.int64), width)
    else:
        values = fixed_values(array, f"<i{WIDTHS[t.root]}").astype(np.int64)
        if t.root in TIMESTAMPS and array.type.unit == "ns":
            values = values // 1000
    return ColumnKeys(np.where(nulls, 0, values), nulls)


def distinct_keys(column: pa.Array | pa.ChunkedArray, t: DataType) -> DistinctKeys:
    """The distinct keys of a column, sorted, and each row's code."""
    found = keys_of(column, t)
    codes = np.full(len(found.nulls), -1, np.int64)
    there = np.flatnonzero(~found.nulls)
    if isinstance(found.values, np.ndarray):
        keys, codes[there] = np.unique(found.values[there], return_inverse=True)
        return DistinctKeys(keys, codes)
    words = pc.dictionary_encode(found.values)
    order = pc.sort_indices(words.dictionary)
    ranks = np.empty(len(order), np.int64)
    ranks[order.to_numpy()] = np.arange(len(order))
    codes[there] = ranks[words.indices.drop_null().to_numpy()]
    return DistinctKeys(words.dictionary.take(order), codes)


def raw_bits(keys: NDArray[np.int64], t: DataType) -> NDArray[np.int64]:
    """What is stored of integer keys: the bits of floats, else the key."""
    return order_float_bits(keys, WIDTHS[t.root]) if t.root in ("FLOAT", "DOUBLE") else keys


# ---- stored bytes -------------------------------------------------------------------------------------------------------------------------------

RaggedBytes = tuple["NDArray[np.uint8]", "NDArray[np.int64]"]
"""Many byte strings in one: `data[offsets[i]:offsets[i+1]]`."""


def encode_stored(keys: NDArray[np.int64] | pa.BinaryArray, t: DataType) -> RaggedBytes:
    """Keys as an index writes them."""
    if isinstance(keys, np.ndarray):
        width = WIDTHS[t.root]
        data = np.frombuffer(raw_bits(keys, t).astype(f">i{width}").tobytes(), np.uint8)
        return data, np.arange(len(keys) + 1) * width
    starts, lengths, data = binary_buffers(keys)
    text = data[spans(starts, lengths)], np.concatenate([[0], np.cumsum(lengths)])
    return weave(integers(lengths), text)


def integers(*columns: NDArray[np.int64]) -> RaggedBytes:
    """Rows of big endian i32."""
    table = np.stack(columns, axis=1).astype(">i4")
    return np.frombuffer(table.tobytes(), np.uint8), np.arange(len(table) + 1) * table.shape[1] * 4


def weave(*pieces: RaggedBytes) -> RaggedBytes:
    """Row by row, the first piece's bytes, then the second's and so on."""
    lengths = [np.diff(offsets) for _, offsets in pieces]
    ends = np.concatenate([[0], np.cumsum(np.sum(lengths, axis=0))]).astype(np.int64)
    out = np.empty(int(ends[-1]), np.uint8)
    at = ends[:-1]
    for (data, _), length in zip(pieces, lengths, strict=True):
        out[spans(at, length)] = data
        at = at + length
    return out, ends


def read_key(cursor: Cursor, t: DataType, field: str) -> Key:
    """The stored key at the cursor."""
    width = WIDTHS.get(t.root)
    if width is None:
        return cursor.raw(cursor.i32be(field, "length"), field)
    key = int.from_bytes(cursor.raw(width, field), "big", signed=True)
    key = to_stored_bits(key, t)
    cursor.means(key)
    return key


def to_stored_bits(key: int, t: DataType) -> int:
    """A number as it is stored; and back again."""
    return order_one_float(key, WIDTHS[t.root]) if t.root in ("FLOAT", "DOUBLE") else key


def order_one_float(bits: int, width: int) -> int:
    """As `order_float_bits`, of one number; and back again."""
    return bits ^ ((1 << 8 * width - 1) - 1) if bits < 0 else bits


# ---- literals -----------------------------------------------------------------------------------------------------------------------------------


class KeyQuery(NamedTuple):
    """A condition on a column in keys: `kind` is "equal" (any of `keys`), "unequal" (none of them), "range", "null" or "not null".

    A range is `low ≤ key ≤ high` with open ends None; where `low_open` / `high_open`, the bound itself is out.
    """

    kind: str
    keys: tuple[Key, ...] = ()
    low: Key | None = None
    high: Key | None = None
    low_open: bool = False
    high_open: bool = False


def question(leaf: Leaf, t: DataType) -> KeyQuery | None:
    """What a leaf asks of an index on a column of type `t`. None: an index cannot tell (a literal of another type, a text operator)."""
    return _question(leaf, tuple(map(type, leaf.literals)), t)


@lru_cache(64)
def _question(leaf: Leaf, kinds: tuple[type, ...], t: DataType) -> KeyQuery | None:  # noqa: ARG001 - 1 and True are equal, and not the same question
    if leaf.op in ("is null", "is not null"):
        return KeyQuery("null" if leaf.op == "is null" else "not null")
    if leaf.op == "starts with":
        return None
    found = [literal_keys(value, t) for value in leaf.literals]
    if any(keys is None for keys in found):
        return None
    keys = tuple(key for some in found if some is not None for key in some)
    lossy = t.root in TIMESTAMPS and (6 if t.precision is None else t.precision) > 6
    if leaf.op in ("=", "in"):
        return KeyQuery("equal", keys)
    if leaf.op in ("!=", "not in"):
        return None if lossy else KeyQuery("unequal", keys)
    low, high = min(keys), max(keys)  # two where 0.0 and -0.0 are one number
    match leaf.op:
        case "<":
            return KeyQuery("range", high=low, high_open=not lossy)
        case "<=":
            return KeyQuery("range", high=high)
        case ">":
            return KeyQuery("range", low=high, low_open=not lossy)
        case ">=":
            return KeyQuery("range", low=low)
    return None


_RANGES = ("<", "<=", ">", ">=")


def group_by_column(parts: tuple[Predicate, ...]) -> list[Predicate | tuple[Leaf, ...]]:
    """Conditions that must all hold, those that bound one column as one: an index is asked for both bounds at once."""
    found: dict[object, Predicate | tuple[Leaf, ...]] = {}
    for at, part in enumerate(parts):
        if isinstance(part, Leaf) and part.op in _RANGES:
            before = found.get(part.column, ())
            assert isinstance(before, tuple)
            found[part.column] = (*before, part)
        else:
            found[at] = part
    return list(found.values())


def all_of(leaves: tuple[Leaf, ...], t: DataType) -> KeyQuery | None:
    """What leaves ask of an index together: of one what `question` says, of several the range between their bounds. None: an index cannot tell."""
    asked = [question(leaf, t) for leaf in leaves]
    if len(asked) < 2 or None in asked:
        return asked[0] if len(asked) == 1 else None
    lows = [(one.low, one.low_open) for one in asked if one is not None and one.low is not None]
    highs = [(one.high, not one.high_open) for one in asked if one is not None and one.high is not None]
    (low, low_open), (high, high_shut) = max(lows, default=(None, False)), min(highs, default=(None, True))
    return KeyQuery("range", low=low, high=high, low_open=low_open, high_open=not high_shut)


def literal_keys(value: object, t: DataType) -> tuple[Key, ...] | None:
    """The keys of the values of type `t` that equal a literal; None where they cannot be said: the caller keeps the file."""
    found: Any = literal(value, t)
    if found is None:
        return None
    if isinstance(found, str):
        try:
            return (found.encode(),)
        except UnicodeEncodeError:
            return None
    if isinstance(found, bytes):
        return (found,)
    if isinstance(found, Instant):
        precision = 6 if t.precision is None else t.precision
        if precision <= 3:
            return None if found.nanos else (found.millis,)
        return None if found.nanos % 1000 and precision <= 6 else (found.millis * 1000 + found.nanos // 1000,)
    if isinstance(found, Decimal):
        try:
            return (to_unscaled(found, t.scale or 0),)
        except ValueOutOfRange:
            return None
    if isinstance(found, float):
        return _float_keys(found, t)
    return (int(found),)


def _float_keys(value: float, t: DataType) -> tuple[Key, ...] | None:
    width = WIDTHS[t.root]
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


def bisect(values: Any, key: Key, *, right: bool) -> int:
    """How many of ascending `values` are before `key` (with `right`: or equal to it)."""
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        if values[middle] < key or (right and values[middle] == key):
            low = middle + 1
        else:
            high = middle
    return low


# ---- options and answers ------------------------------------------------------------------------------------------------------------------------


def size_option(options: Mapping[str, str], key: str, default: int, name: str) -> int:
    """A memory size of an index's options, in bytes: `16kb`. Raises `InvalidOption`."""
    text = options.get(key)
    if text is None:
        return default
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None:
        msg = f"{name} takes {key} as a size such as 16kb, found {text!r}"
        raise InvalidOption(msg, key=f"file-index.{name}.{key}", value=text)
    return int(found[1]) << _SHIFTS[found[2][:1]]


def row_selection(found: BitMap, row_count: int) -> bool | BitMap:
    """What a probe answers: False for no row, True for every row, else the rows."""
    if not found:
        return False
    return True if len(found) == row_count else found
