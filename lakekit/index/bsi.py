"""Bit-sliced index of one column of integers (deprecated by the reference, still written and read): answers every comparison with row positions.

    u8 1 | i32 rows | u8 has positive | [part] | u8 has negative | [part]
    part   u8 1 | i64 min (0) | i64 max | roaring existence | i32 n | n × roaring slice, least significant bit first

Values ≥ 0 are in the positive part, the others in the negative part as their absolute value; nulls in neither. n is the bit length of max.

    INT null, -1    01 00000002 00 01  01 0000000000000000 0000000000000001 3a30…(row 1) 00000001 3a30…(row 1)

No options. Sources: FORMAT.md 9.6; `BitSliceIndexBitmapFileIndex`, `BitSliceIndexRoaringBitmap`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pyroaring import BitMap

from lakekit.codec import bit_slices, bitmap, index_keys
from lakekit.codec.cursor import Cursor
from lakekit.errors import Unsupported, ValueOutOfRange

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from lakekit.codec.index_keys import Question
    from lakekit.predicate import Leaf
    from lakekit.types import DataType

NAME = "bsi"
TYPES = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "DECIMAL"})


def build(column: pa.Array | pa.ChunkedArray, t: DataType, options: Mapping[str, str]) -> bytes:  # noqa: ARG001 - it has none
    """The payload for a column. Raises `ValueOutOfRange` for -2^63, which it cannot hold."""
    found = index_keys.keys_of(column, t)
    assert isinstance(found.values, np.ndarray)
    rows = np.flatnonzero(~found.nulls)
    values = found.values[rows]
    if len(values) and values.min() == -(2**63):
        msg = f"a bsi index cannot hold {-(2**63)}"
        raise ValueOutOfRange(msg)
    return b"\1" + len(found.nulls).to_bytes(4, "big") + _part(rows, values, values >= 0) + _part(rows, -values, values < 0)


def _part(rows: NDArray[np.int64], values: NDArray[np.int64], mine: NDArray[np.bool_]) -> bytes:
    rows, values = rows[mine], values[mine]
    if not len(rows):
        return b"\0"
    most = int(values.max())
    slices = bit_slices.encode_slices(rows, values.view(np.uint64), most.bit_length())
    head = b"\1\1" + bytes(8) + most.to_bytes(8, "big") + bitmap.encode(rows)
    return b"".join([head, len(slices).to_bytes(4, "big"), *slices])


class _Part(NamedTuple):
    least: int
    existence: BitMap
    slices: list[BitMap]


_NOTHING = _Part(0, BitMap(), [])


def probe(payload: bytes, t: DataType, leaf: Leaf, row_count: int) -> bool | BitMap:
    """The rows that match, False for none, True where it cannot tell. Raises `Corrupt`, `Unsupported`."""
    asked = index_keys.question(leaf, t)
    if asked is None:
        return True
    cursor = Cursor(payload)
    _known(cursor)
    if cursor.i32be("rows") != row_count:
        raise cursor.wrong(f"an index of another file: {row_count} rows wanted", "rows", at=1)
    positive = _read_part(cursor, row_count) if cursor.flag("has positive") else _NOTHING
    negative = _read_part(cursor, row_count) if cursor.flag("has negative") else _NOTHING
    return index_keys.verdict(_answer(asked, positive, negative, row_count), row_count)


def _known(cursor: Cursor) -> None:
    version = cursor.u8("version")
    if version != 1:
        msg = f"bsi indexes of version {version} are newer than lakekit; version 1 is known"
        raise Unsupported(msg, feature="file-index.bsi")


def _read_part(cursor: Cursor, row_count: int) -> _Part:
    _known(cursor)
    least = cursor.i64be("min")
    cursor.i64be("max")
    existence = bitmap.read_roaring(cursor, "existence")
    if existence and existence.max() >= row_count:
        raise cursor.wrong(f"row {existence.max()} of {row_count}", "existence")
    count = cursor.count("slices", each=8)
    if count > 64:
        raise cursor.wrong(f"{count} slices: a value has 64 bits", "slices")
    slices = []
    for number in range(count):
        with cursor.within(f"slice {number}"):
            slices.append(bitmap.read_roaring(cursor, "slice"))
    return _Part(least, existence, slices)


def walk(cursor: Cursor, t: DataType | None) -> None:  # noqa: ARG001 - whatever the type, values are integers here
    """Reads all there is, for the marks. Raises `Corrupt`, `Unsupported`."""
    _known(cursor)
    rows = cursor.i32be("rows")
    for part in ("positive", "negative"):
        if cursor.flag(f"has {part}"):
            with cursor.within(part):
                _read_part(cursor, rows)
    cursor.finish("bsi index")


def _answer(asked: Question, positive: _Part, negative: _Part, row_count: int) -> BitMap:
    there = positive.existence | negative.existence
    match asked.kind:
        case "null":
            return bitmap.rows(row_count) - there
        case "not null":
            return there
        case "range":
            return _range(asked, positive, negative)
    found = BitMap()
    for key in asked.keys:
        assert isinstance(key, int)
        part, value = (positive, key) if key >= 0 else (negative, -key)
        found |= bit_slices.equal(part.existence, part.slices, value - part.least)
    return found if asked.kind == "equal" else there - found


def _range(asked: Question, positive: _Part, negative: _Part) -> BitMap:
    low = -(2**64) if asked.low is None else int(asked.low) + asked.low_open
    high = 2**64 if asked.high is None else int(asked.high) - asked.high_open
    found = BitMap()
    if high >= 0:
        found |= bit_slices.between(positive.existence, positive.slices, low - positive.least, high - positive.least)
    if low < 0:
        found |= bit_slices.between(negative.existence, negative.slices, max(1, -high) - negative.least, -low - negative.least)
    return found
