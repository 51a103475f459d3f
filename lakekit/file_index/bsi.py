"""Bit-sliced index of one column of integers: answers every comparison with row positions.

    u8 1 | i32 rows | u8 has positive | [part] | u8 has negative | [part]
    part   u8 1 | i64 min (0) | i64 max | roaring existence | i32 n | n × roaring slice, least significant bit first

Values ≥ 0 are in the positive part, values < 0 are in the negative part as their absolute values, nulls are in neither.
n is the bit length of max. The reference deprecates this index, but still writes and reads it.

It also holds the column itself, bit by bit: `compute_totals` counts, adds up and bounds the values of some rows without
their file. The sum of the values is the sum over i of 2^i times the number of rows in slice i. If all rows are
selected, the roaring headers of the slices hold these numbers, and the slices need not be decoded.

    INT null, -1    01 00000002 00 01  01 0000000000000000 0000000000000001 3a30…(row 1) 00000001 3a30…(row 1)

No options.

Source: FORMAT.md 9.6; `BitSliceIndexBitmapFileIndex`, `BitSliceIndexRoaringBitmap`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pyroaring import BitMap

from lakekit.codec import roaring
from lakekit.codec.cursor import Cursor
from lakekit.errors import Unsupported, ValueOutOfRange
from lakekit.file_index import container

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from lakekit.file_index.container import KeyQuery
    from lakekit.predicate import Leaf
    from lakekit.types import DataType

NAME = "bsi"
"""The name of the index type in options and files."""
OPTIONS: tuple[str, ...] = ()
"""The options of the index type."""
TYPES = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "DECIMAL"})
"""The column types that can be indexed."""


def build(column: pa.Array | pa.ChunkedArray, t: DataType, options: Mapping[str, str]) -> bytes:  # noqa: ARG001
    """Return the payload for a column. Raises `ValueOutOfRange` for -2^63, which the index cannot hold."""
    keys = container.keys_of(column, t)
    assert isinstance(keys.values, np.ndarray)
    rows = np.flatnonzero(~keys.nulls)
    values = keys.values[rows]
    if len(values) and values.min() == -(2**63):
        msg = f"a bsi index cannot hold {-(2**63)}"
        raise ValueOutOfRange(msg)
    return (
        b"\1"
        + len(keys.nulls).to_bytes(4, "big")
        + _encode_part(rows, values, values >= 0)
        + _encode_part(rows, -values, values < 0)
    )


def _encode_part(rows: NDArray[np.int64], values: NDArray[np.int64], mask: NDArray[np.bool_]) -> bytes:
    rows, values = rows[mask], values[mask]
    if not len(rows):
        return b"\0"
    most = int(values.max())
    slices = roaring.encode_slices(rows, values.view(np.uint64), most.bit_length())
    head = b"\1\1" + bytes(8) + most.to_bytes(8, "big") + roaring.encode_positions(rows)
    return b"".join([head, len(slices).to_bytes(4, "big"), *slices])


class _BsiSlices:
    """The slices at `places[i]` to `places[i + 1]` of a payload, checked; each is decoded when first needed."""

    def __init__(self, payload: bytes | memoryview, offsets: Sequence[int]) -> None:
        self._payload, self._offsets = payload, offsets
        self._bitmaps: list[BitMap | None] = [None] * (len(offsets) - 1)

    def __len__(self) -> int:
        return len(self._bitmaps)

    def __getitem__(self, i: int) -> BitMap:
        bitmap = self._bitmaps[i]
        if bitmap is None:
            bitmap = self._bitmaps[i] = roaring.layout_to_bitmap(
                bytes(self._payload[self._offsets[i] : self._offsets[i + 1]])
            )
        return bitmap


class _BsiPart(NamedTuple):
    """One part of the index: the least value, the rows with a value, the slices, and the row count of each slice."""

    minimum: int
    existence: BitMap
    slices: _BsiSlices
    counts: list[int]


_EMPTY_PART = _BsiPart(minimum=0, existence=BitMap(), slices=_BsiSlices(b"", [0]), counts=[])


def probe(payload: bytes | memoryview, t: DataType, leaf: Leaf, row_count: int) -> bool | BitMap:
    """Return the rows that match, False for none, True if the index cannot tell. Raises `Corrupt`, `Unsupported`."""
    query = container.key_query_of(leaf, t)
    return True if query is None else container.to_probe_result(rows(payload, t, query, row_count), row_count)


def rows(payload: bytes | memoryview, t: DataType, query: KeyQuery, row_count: int) -> BitMap:  # noqa: ARG001
    """Return the rows for which a query is true. Raises `Corrupt`, `Unsupported`."""
    return _query_rows(query, *_read_parts(payload, row_count), row_count)


@dataclass(frozen=True, slots=True)
class ColumnTotals:
    """The count, sum, least and greatest of the values of some rows.

    `minimum` and `maximum` are None if they were not computed, or there is no value.
    """

    count: int
    value_sum: int
    minimum: int | None
    maximum: int | None


def compute_totals(
    payload: bytes | memoryview, row_count: int, selected: BitMap | None = None, *, with_bounds: bool = True
) -> ColumnTotals:
    """Return the totals over the selected rows (None: all rows).

    Without `with_bounds` the least and greatest value are not computed. Raises `Corrupt`, `Unsupported`.
    """
    positive, negative = _read_parts(payload, row_count)
    both = positive.existence.intersection_cardinality(negative.existence)
    if both:
        raise Cursor(payload).make_error(f"{both} rows have a value ≥ 0 and one below", "existence")
    above, below = (part.existence if selected is None else part.existence & selected for part in (positive, negative))
    total = _sum_values(positive, None if selected is None else above) - _sum_values(
        negative, None if selected is None else below
    )
    if not with_bounds or not (above or below):
        return ColumnTotals(len(above) + len(below), total, None, None)
    least = (
        -_find_extreme(negative, below, is_maximum=True) if below else _find_extreme(positive, above, is_maximum=False)
    )
    greatest = (
        _find_extreme(positive, above, is_maximum=True) if above else -_find_extreme(negative, below, is_maximum=False)
    )
    return ColumnTotals(len(above) + len(below), total, least, greatest)


def _sum_values(bsi_part: _BsiPart, selected: BitMap | None) -> int:
    if selected is None:
        return bsi_part.minimum * len(bsi_part.existence) + sum(count << i for i, count in enumerate(bsi_part.counts))
    return bsi_part.minimum * len(selected) + sum(
        bsi_part.slices[i].intersection_cardinality(selected) << i for i in range(len(bsi_part.slices))
    )


def _find_extreme(bsi_part: _BsiPart, candidates: BitMap, *, is_maximum: bool) -> int:
    """Return the greatest (`is_maximum`) or least value among the candidate rows, found bit by bit from the highest."""
    value = 0
    for i in range(len(bsi_part.slices) - 1, -1, -1):
        better = candidates & bsi_part.slices[i] if is_maximum else candidates - bsi_part.slices[i]
        if better:
            candidates = better
        value |= int(bool(better) == is_maximum) << i
    return bsi_part.minimum + value


def _read_parts(payload: bytes | memoryview, row_count: int) -> tuple[_BsiPart, _BsiPart]:
    """Return the part of the values ≥ 0, and the part of the values < 0."""
    cursor = Cursor(payload)
    _check_version(cursor)
    if cursor.i32be("rows") != row_count:
        raise cursor.make_error(f"an index of another file: {row_count} rows wanted", "rows", at=1)
    positive = _read_part(cursor, row_count) if cursor.flag("has positive") else _EMPTY_PART
    negative = _read_part(cursor, row_count) if cursor.flag("has negative") else _EMPTY_PART
    return positive, negative


def _check_version(cursor: Cursor) -> None:
    version = cursor.u8("version")
    if version != 1:
        msg = f"bsi indexes of version {version} are newer than lakekit; version 1 is known"
        raise Unsupported(msg, feature="file-index.bsi")


def _read_part(cursor: Cursor, row_count: int) -> _BsiPart:
    _check_version(cursor)
    least = cursor.i64be("min")
    cursor.i64be("max")
    existence = roaring.read_full_bitmap(cursor, row_count) or roaring.read_bitmap(cursor, "existence")
    if existence and existence.max() >= row_count:
        raise cursor.make_error(f"row {existence.max()} of {row_count}", "existence")
    count = cursor.count("slices", each=8)
    if count > 64:
        raise cursor.make_error(f"{count} slices: a value has 64 bits", "slices")
    places, counts = roaring.read_bitmap_ends(cursor, count, "slice")
    if counts and max(counts) > len(existence):
        raise cursor.make_error(
            f"{max(counts)} rows of {len(existence)}", "slice", at=places[counts.index(max(counts))]
        )
    return _BsiPart(minimum=least, existence=existence, slices=_BsiSlices(cursor.data, places), counts=counts)


def walk(cursor: Cursor, t: DataType | None) -> None:  # noqa: ARG001
    """Read the whole payload, to record its spans. Raises `Corrupt`, `Unsupported`."""
    _check_version(cursor)
    rows = cursor.i32be("rows")
    for part in ("positive", "negative"):
        if cursor.flag(f"has {part}"):
            with cursor.within(part):
                _read_part(cursor, rows)
    cursor.expect_end("bsi index")


def _query_rows(query: KeyQuery, positive: _BsiPart, negative: _BsiPart, row_count: int) -> BitMap:
    valued = positive.existence | negative.existence
    match query.kind:
        case "null":
            return roaring.full_bitmap(row_count) - valued
        case "not null":
            return valued
        case "range":
            return _range_rows(query, positive, negative)
    matching = BitMap()
    for key in query.keys:
        assert isinstance(key, int)
        part, value = (positive, key) if key >= 0 else (negative, -key)
        matching |= roaring.rows_equal(part.existence, part.slices, value - part.minimum)
    return matching if query.kind == "equal" else valued - matching


def _range_rows(query: KeyQuery, positive: _BsiPart, negative: _BsiPart) -> BitMap:
    low = -(2**64) if query.low is None else int(query.low) + query.is_low_open
    high = 2**64 if query.high is None else int(query.high) - query.is_high_open
    matching = BitMap()
    if high >= 0:
        matching |= roaring.rows_between(
            positive.existence, positive.slices, low - positive.minimum, high - positive.minimum
        )
    if low < 0:
        matching |= roaring.rows_between(
            negative.existence, negative.slices, max(1, -high) - negative.minimum, -low - negative.minimum
        )
    return matching
