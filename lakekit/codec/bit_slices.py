"""Integers as bitmaps, one a bit: slice i holds the rows whose value has bit i. Two file indexes are built of it.

    values 2, 0, 1, -, 0     existence {0, 1, 2, 4}    slice 0 {2}    slice 1 {0}

Comparison walks the slices (O'Neil and Quass, "Improved query performance with variant indexes").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lakekit.codec import bitmap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from pyroaring import BitMap


def encode_slices(rows: NDArray[np.int64], values: NDArray[np.uint64], count: int) -> list[bytes]:
    """The bytes of `count` slices of the values ≥ 0 that ascending rows have."""
    return [bitmap.encode(rows[(values >> np.uint64(i) & np.uint64(1)) == 1]) for i in range(count)]


def equal(existence: BitMap, slices: Sequence[BitMap], value: int) -> BitMap:
    """The rows whose value is `value`."""
    if value < 0 or value >> len(slices):
        return type(existence)()
    found = existence.copy()
    for i, piece in enumerate(slices):
        if value >> i & 1:
            found &= piece
        else:
            found -= piece
    return found


def above(existence: BitMap, slices: Sequence[BitMap], value: int) -> BitMap:
    """The rows whose value is greater than `value`."""
    if value < 0:
        return existence.copy()
    found = type(existence)()
    if value >> len(slices):
        return found
    for i, piece in enumerate(slices):
        if value >> i & 1:
            found &= piece
        else:
            found |= piece
    return found & existence


def between(existence: BitMap, slices: Sequence[BitMap], low: int, high: int) -> BitMap:
    """The rows whose value is at least `low` and at most `high`."""
    return above(existence, slices, low - 1) - above(existence, slices, high)
