"""Integers as bitmaps, one a bit: slice i holds the rows whose value has bit i. Two file indexes are built of it.

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
    """Slices in order, each perhaps made when it is asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, i: int, /) -> BitMap: ...


def encode_slices(rows: NDArray[np.int64], values: NDArray[np.uint64], count: int) -> list[bytes]:
    """The bytes of `count` slices of the values ≥ 0 that ascending rows have."""
    return [roaring.encode(rows[(values >> np.uint64(i) & np.uint64(1)) == 1]) for i in range(count)]


def equal(existence: BitMap, slices: Slices, value: int) -> BitMap:
    """The rows whose value is `value`. From the highest bit, which most rows differ in: once none is left, no other slice is asked for."""
    if value < 0 or value >> len(slices):
        return type(existence)()
    found = existence
    for i in range(len(slices) - 1, -1, -1):
        if not found:
            break
        found = found & slices[i] if value >> i & 1 else found - slices[i]
    return found if found is not existence else existence.copy()


def greater_than(existence: BitMap, slices: Slices, value: int) -> BitMap:
    """The rows whose value is greater than `value`. From the highest bit: `alike` are those that have the same bits so far."""
    if value < 0:
        return existence.copy()
    found = type(existence)()
    if value >> len(slices):
        return found
    alike = existence
    for i in range(len(slices) - 1, -1, -1):
        if not alike:
            break
        having = alike & slices[i]
        if value >> i & 1:
            alike = having
        else:
            found |= having
            alike = alike - having
    return found


def between(existence: BitMap, slices: Slices, low: int, high: int) -> BitMap:
    """The rows whose value is at least `low` and at most `high`."""
    return greater_than(existence, slices, low - 1) - greater_than(existence, slices, high)
