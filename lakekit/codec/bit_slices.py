"""Bit-sliced integers: bitmap i holds the rows whose value has bit i.

Two file indexes are built on it.

    values 2, 0, 1, -, 0     existence {0, 1, 2, 4}    slice 0 {2}    slice 1 {0}

Comparison walks the slices (O'Neil and Quass, "Improved query performance with variant indexes").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from lakekit.codec import roaring

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyroaring import BitMap


class Slices(Protocol):
    """The slices in order, each possibly decoded on access."""

    def __len__(self) -> int: ...

    def __getitem__(self, i: int, /) -> BitMap: ...


def encode_slices(rows: NDArray[np.int64], values: NDArray[np.uint64], count: int) -> list[bytes]:
    """Return the bytes of `count` slices of the values ≥ 0 that ascending rows have."""
    return [roaring.encode(rows[(values >> np.uint64(i) & np.uint64(1)) == 1]) for i in range(count)]


def equal(existence: BitMap, slices: Slices, value: int) -> BitMap:
    """Return the rows whose value is `value`.

    Begins at the highest bit, which most rows differ in: once no row is left, no other slice is accessed.
    """
    if value < 0 or value >> len(slices):
        return type(existence)()
    rows = existence
    for i in range(len(slices) - 1, -1, -1):
        if not rows:
            break
        rows = rows & slices[i] if value >> i & 1 else rows - slices[i]
    return rows if rows is not existence else existence.copy()


def greater_than(existence: BitMap, slices: Slices, value: int) -> BitMap:
    """Return the rows whose value is greater than `value`.

    Begins at the highest bit: `alike` are the rows that have the same bits so far.
    """
    if value < 0:
        return existence.copy()
    rows = type(existence)()
    if value >> len(slices):
        return rows
    alike = existence
    for i in range(len(slices) - 1, -1, -1):
        if not alike:
            break
        having = alike & slices[i]
        if value >> i & 1:
            alike = having
        else:
            rows |= having
            alike = alike - having
    return rows


def between(existence: BitMap, slices: Slices, low: int, high: int) -> BitMap:
    """Return the rows whose value is at least `low` and at most `high`."""
    return greater_than(existence, slices, low - 1) - greater_than(existence, slices, high)
