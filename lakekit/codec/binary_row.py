"""BinaryRow: a row as comparable and hashable bytes (partitions, keys, statistics, bucket keys).

    [0]       row kind: 0 +I, 1 -U, 2 +U, 3 -D; always 0 in files
    [1 …      null bits: field i is bit i + 8 of the row, least significant first
    W …       a slot of 8 bytes a field, little endian;  W = (arity + 71) / 64 * 8
    …         variable part: each item padded with zeros to 8 bytes, in field order

    (7, "hello world")   0000000000000000 0700000000000000 0b00000018000000 68656c6c6f20776f 726c640000000000
                         kind, nulls      7                11 bytes at 24   text, zeros

With arity (manifests): i32 BE arity, then the row. Equal values give equal bytes, so padding is zero, text of up to 7
bytes is stored in its slot, and null decimals above 18 digits and null timestamps above 3 digits still reserve their
space (not in arrays). Sources: FORMAT.md 5; `BinaryRow`, `BinaryRowWriter`, `SerializationUtils`. Values are those of
`codec.arrow_values`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekit.codec import binary_value
from lakekit.codec.binary_columns import decode_columns, encode_columns
from lakekit.codec.binary_value import Space
from lakekit.codec.cursor import Cursor
from lakekit.codec.marks import PADDING_LABEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.codec.marks import SpanRecorder
    from lakekit.types import DataType

EMPTY = bytes(8)
"""The row without fields."""
EMPTY_WITH_ARITY = bytes(12)


def encode(values: Sequence[Any], types: Sequence[DataType]) -> bytes:
    """Return row bytes, without arity, of kind +I.

    Raises:
        ValueOutOfRange: a value is not of its type.
    """
    return binary_value.encode_row(values, types)


def decode(
    data: bytes,
    types: Sequence[DataType],
    *,
    path: str | None = None,
    names: Sequence[str] | None = None,
    marks: SpanRecorder | None = None,
) -> tuple[Any, ...]:
    """Return the values of row bytes without arity. `names` name the fields in marks. Raises `Corrupt`."""
    return binary_value.decode_row(Space(data, 0, len(data), path, marks), types, names)


def with_arity(row: bytes, arity: int) -> bytes:
    """Return row bytes as manifests store them."""
    return arity.to_bytes(4, "big") + row


def strip_arity(data: bytes, *, path: str | None = None, marks: SpanRecorder | None = None) -> tuple[int, bytes]:
    """Return (arity, row bytes) of a row stored in a manifest.

    Raises:
        Corrupt: the row is shorter than its slots.
    """
    cursor = Cursor(data, path=path, marks=marks)
    arity = cursor.i32be("arity")
    least = binary_value.header_width(arity) + 8 * arity
    if arity < 0 or cursor.left < least:
        raise cursor.wrong(f"{arity} fields in {cursor.left} bytes", "arity", at=0)
    return arity, data[4:]


def mark_untyped(row: bytes, arity: int, marks: SpanRecorder) -> None:
    """Record the spans of a row of unknown types.

    Row kind, null bits, slots as numbers, the rest as bytes.
    """
    width, nulls = binary_value.header_width(arity), (arity + 7) // 8
    marks.add(0, 1, "row kind", row[0], section=binary_value.ROWS)
    marks.add(
        1,
        nulls,
        "null bits",
        [i for i in range(arity) if row[(i + 8) >> 3] >> ((i + 8) & 7) & 1],
        section=binary_value.ROWS,
    )
    for i in range(arity):
        at = width + 8 * i
        marks.add(at, 8, f"slot {i}", row[at : at + 8], section=binary_value.SLOTS)
    end = width + 8 * arity
    marks.add(1 + nulls, width - 1 - nulls, PADDING_LABEL, None)
    marks.add(end, len(row) - end, "variable part", row[end:], section=binary_value.SLOTS)


def encode_array(values: Sequence[Any], element: DataType) -> bytes:
    """Return a bare BinaryArray of elements of that type."""
    return binary_value.encode_array(values, element)


def decode_array(
    data: bytes, element: DataType, *, path: str | None = None, marks: SpanRecorder | None = None
) -> list[Any]:
    """Return the elements of a bare BinaryArray. Raises `Corrupt`."""
    return binary_value.decode_array(Space(data, 0, len(data), path, marks), element)


def encode_map(items: Sequence[tuple[Any, Any]], t: DataType) -> bytes:
    """Return a bare BinaryMap of type MAP or MULTISET, in the order given."""
    return binary_value.encode_map(items, t)


def decode_map(
    data: bytes, t: DataType, *, path: str | None = None, marks: SpanRecorder | None = None
) -> list[tuple[Any, Any]]:
    """Return the entries of a bare BinaryMap. Raises `Corrupt`."""
    return binary_value.decode_map(Space(data, 0, len(data), path, marks), t)


__all__ = [
    "EMPTY",
    "EMPTY_WITH_ARITY",
    "decode",
    "decode_array",
    "decode_columns",
    "decode_map",
    "encode",
    "encode_array",
    "encode_columns",
    "encode_map",
    "mark_untyped",
    "strip_arity",
    "with_arity",
]
