"""Lists as numbers: all elements of a column's lists in one series, and each list a range of it.

    values  [a, b]  null  [c]          elements  a b c
                                       sizes     2 0 1      there  yes no yes

A function on lists works on row numbers of elements, whatever the elements are, and one gather makes lists of them
again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from lakekit.columns import CODE, ROW, cols
from lakekit.lsm.numpy_columns import float_bits, not_null_mask

if TYPE_CHECKING:
    from lakekit.lsm.numpy_columns import Array, Bools, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class FlattenedLists:
    """The lists of a column, flattened. See the drawing in the module."""

    elements: pl.Series
    starts: Ints
    sizes: Ints
    there: Bools

    def spread(self, places: Ints, keys: Ints) -> tuple[Ints, Ints]:
        """Return the elements of the lists at `places`, one list after another, and the key of each element."""
        sizes = self.sizes[places]
        ends = np.cumsum(sizes)
        inside = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - sizes, sizes)
        return inside + np.repeat(self.starts[places], sizes), np.repeat(keys, sizes)

    def built(self, column: pl.Series, elements: Ints, keys: Ints, not_null: Bools) -> pl.Series:
        """Return lists like `column`'s, one for each key, null where not `not_null`.

        `elements` are grouped by key.
        """
        return rebuild_lists(column, self.elements.gather(pl.Series(elements)), keys, not_null)


def flatten_lists(lists: pl.Series) -> FlattenedLists:
    """Flatten a column of lists."""
    not_null = not_null_mask(lists)
    sizes = lists.list.len().fill_null(0).to_numpy().astype(np.int64)
    elements = lists.explode(empty_as_null=False, keep_nulls=False)
    return FlattenedLists(
        elements=elements,
        starts=np.cumsum(sizes) - sizes,
        sizes=sizes,
        there=np.ones(len(lists), bool) if not_null is None else not_null,
    )


def rebuild_lists(column: pl.Series, elements: pl.Series, keys: Ints, not_null: Bools) -> pl.Series:
    """Return lists like `column`'s from elements that are grouped by key."""
    offsets = np.zeros(len(not_null) + 1, np.int64)
    np.cumsum(np.bincount(keys, minlength=len(not_null)), out=offsets[1:])
    mask = None if not_null.all() else pa.array(~not_null)
    array = pa.LargeListArray.from_arrays(pa.array(offsets), elements.to_arrow(), mask=mask)
    result = pl.from_arrow(array)
    assert isinstance(result, pl.Series)
    return result.cast(column.dtype).alias(column.name)


def codes(elements: pl.DataFrame) -> Array:
    """Return a number for each element: equal rows of the frame have equal numbers.

    Floats are compared as Java's boxed ones: -0.0 is not 0.0, NaN equals NaN.
    """
    floats = [name for name, dtype in elements.schema.items() if dtype.is_float()]
    bits = [float_bits(elements[name]) for name in floats]
    named = elements.with_columns(bits)
    code_of_row = np.zeros(elements.height, np.int64)
    groups = (
        named.with_row_index(ROW)
        .group_by(cols(named.columns), maintain_order=True)
        .agg(pl.col(ROW))
        .select(ROW)
        .with_row_index(CODE)
        .explode(ROW)
    )
    code_of_row[groups[ROW].to_numpy()] = groups[CODE].to_numpy()
    return code_of_row


def firsts(keys: Ints, element_codes: Array) -> Bools:
    """Return which elements are the first of their value within their key."""
    return (
        pl.DataFrame({"key": keys, "code": element_codes})
        .select(pl.struct("key", "code").is_first_distinct())
        .to_series()
        .to_numpy()
    )


def select_latest(keys: Ints, element_codes: Array, elements: Ints) -> tuple[Ints, Ints]:
    """Return for each value within a key its last element, in the order in which values came first; and the keys."""
    latest = (
        pl.DataFrame({"key": keys, "code": element_codes, "element": elements})
        .group_by("key", "code", maintain_order=True)
        .agg(pl.col("element").last())
    )
    return latest["element"].to_numpy(), latest["key"].to_numpy()


def hash_order_by_key(keys: Ints, hashes: Array) -> Ints:
    """Return the iteration order of Java's hash tables, one for each key: by bucket, then by insertion.

    `keys` are ascending.
    """
    count = np.bincount(keys) if len(keys) else np.zeros(0, np.int64)
    # a table doubles when more than three quarters of its buckets are taken
    capacity = np.maximum(16, 2 ** np.ceil(np.log2(np.maximum(count, 1) / 0.75)).astype(np.int64))
    spread = hashes.astype(np.int32).view(np.uint32)
    bucket = (spread ^ (spread >> np.uint32(16))).astype(np.int64) & (capacity[keys] - 1)
    return np.lexsort((bucket, keys))


def hash_order(hashes: list[int]) -> list[int]:
    """Return the iteration order of one Java hash table."""
    return [
        int(at)
        for at in hash_order_by_key(np.zeros(len(hashes), np.int64), np.array(hashes, np.int64).astype(np.int32))
    ]
