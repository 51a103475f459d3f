"""Files of an LSM tree by key range: sections, their runs, and slices of big sections.

    L5   |----a----|   |----b----|            section 1: a, c, d     (three runs: a is oldest)
    L0       |--c--|                          section 2: b           (one file: its rows need no merge)
    L0     |d|

The key ranges of two sections do not overlap. All buckets of a plan are partitioned in one pass. A run is a level above
0, or one file of level 0; inside a run keys never repeat.

Source: ENGINE.md 2.1 and 2.5, `IntervalPartition`. Sections are the reference's; runs are those of the tree, not the
smallest number possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lakekit.columns import col, cols
from lakekit.lsm.numpy_columns import is_whole, physical_values, to_literals

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from lakekit.lsm.numpy_columns import Array, Bools, Ints

SPLIT_WINDOW = 8
"""How many bytes of text after the common prefix determine where to cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sections:
    """File numbers, section after section; in each section oldest run first, in a run by key.

    `starts`: where each section begins in `files`. `runs`: how many runs a section has. `is_in_sequence`: whether
    sequence numbers of a section only grow from run to run, so that the order of its rows is the order of their
    versions.
    """

    files: Ints
    starts: Ints
    runs: Ints
    is_in_sequence: Bools

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[Ints]:
        ends = np.append(self.starts[1:], len(self.files))
        for start, end in zip(self.starts, ends, strict=True):
            yield self.files[start:end]

    @property
    def sizes(self) -> Ints:
        """Return how many files each section has."""
        return np.diff(self.starts, append=len(self.files))

    @property
    def files_without_overlap(self) -> Ints:
        """Return the files that share no key range with another."""
        return self.files[self.starts[self.sizes == 1]]


def build_sections(
    min_keys: Sequence[pa.Array | pl.Series],
    max_keys: Sequence[pa.Array | pl.Series],
    *,
    levels: Array,
    min_sequence: Array,
    max_sequence: Array,
    buckets: Array | None = None,
) -> Sections:
    """Return the sections of files by their smallest and largest keys, one array for each key column.

    `buckets` are a number for each file; files of different buckets are never in one section. A file whose bound could
    not be decoded (a null), or whose largest key is less than its smallest, may hold any key of its bucket.
    """
    count = len(levels)
    empty = np.zeros(0, np.int64)
    if count == 0:
        return Sections(files=empty, starts=empty, runs=empty, is_in_sequence=np.zeros(0, bool))
    low, high = _key_ranks(_key_frame(min_keys), _key_frame(max_keys))
    group = np.zeros(count, np.int64) if buckets is None else np.unique(buckets, return_inverse=True)[1].reshape(-1)
    width = int(high.max()) + 2
    low, high = low + group * width, high + group * width
    by_key = np.lexsort((high, low))
    reached = np.maximum.accumulate(high[by_key])
    fresh = np.append(True, low[by_key][1:] > reached[:-1])
    section = np.empty(count, np.int64)
    section[by_key] = np.cumsum(fresh) - 1
    return _order_by_age(
        section,
        low,
        np.asarray(levels, np.int64),
        np.asarray(min_sequence, np.int64),
        np.asarray(max_sequence, np.int64),
    )


def _key_frame(columns: Sequence[pa.Array | pl.Series]) -> pl.DataFrame:
    return pl.DataFrame({str(number): column for number, column in enumerate(columns)})


def _key_ranks(min_keys: pl.DataFrame, max_keys: pl.DataFrame) -> tuple[Ints, Ints]:
    """Return integers from 0 on that compare as the keys do; a bound with a null is the least, or the greatest."""
    is_integer = min_keys.width == 1 and is_whole(min_keys.dtypes[0])
    # without Polars, whose calls would take most of the time of a small plan
    if is_integer and not min_keys.to_series().null_count() + max_keys.to_series().null_count():
        numbers = np.concatenate([physical_values(min_keys.to_series()), physical_values(max_keys.to_series())])
        ranked = np.unique(numbers, return_inverse=True)[1].reshape(-1).astype(np.int64)
        return _repair_reversed_bounds(ranked[: min_keys.height], ranked[min_keys.height :])
    both = pl.concat([min_keys, max_keys])
    if is_integer:
        ranked = np.unique(physical_values(both.to_series()), return_inverse=True)[1].reshape(-1).astype(np.int64)
    else:
        order = both.select(pl.arg_sort_by(cols(both.columns))).to_series()
        placed = both[order]
        changed = placed.select(pl.any_horizontal(pl.all().ne_missing(pl.all().shift(1)))).to_series().to_numpy().copy()
        changed[:1] = False
        ranked = np.empty(both.height, np.int64)
        ranked[order.to_numpy()] = np.cumsum(changed)
    unknown = both.select(pl.any_horizontal(pl.all().is_null())).to_series().to_numpy()
    smallest, largest = ranked[: min_keys.height].copy(), ranked[min_keys.height :].copy()
    top = int(ranked.max())
    smallest[unknown[: min_keys.height]] = 0
    largest[unknown[min_keys.height :]] = top
    return _repair_reversed_bounds(smallest, largest)


def _repair_reversed_bounds(smallest: Ints, largest: Ints) -> tuple[Ints, Ints]:
    """Return the bounds with reversed ranges as full ones: such a file may hold any key."""
    turned = largest < smallest
    if turned.any():
        smallest = np.where(turned, 0, smallest)
        largest = np.where(turned, max(int(largest.max()), int(smallest.max())), largest)
    return smallest, largest


def _order_by_age(section: Ints, min_keys: Ints, levels: Ints, min_sequence: Ints, max_sequence: Ints) -> Sections:
    """Return the files ordered by section, run and key.

    A run's age is its largest sequence number, then its smallest.
    """
    count = len(section)
    # a file of level 0 is a run of its own, the files of a higher level in a section are one run
    own = np.where(levels > 0, count + levels, np.arange(count))
    run = np.unique(section * (count + int(levels.max()) + 1) + own, return_inverse=True)[1].reshape(-1)
    runs = int(run.max()) + 1
    newest, oldest = np.full(runs, np.iinfo(np.int64).min), np.full(runs, np.iinfo(np.int64).max)
    np.maximum.at(newest, run, max_sequence)
    np.minimum.at(oldest, run, min_sequence)
    files = np.lexsort((min_keys, run, oldest[run], newest[run], section))
    placed = section[files]
    starts = np.flatnonzero(np.append(True, placed[1:] != placed[:-1]))
    placed_run = run[files]
    next_run = np.append(True, placed_run[1:] != placed_run[:-1])
    falls = np.append(
        False, (placed[1:] == placed[:-1]) & next_run[1:] & (oldest[placed_run][1:] <= newest[placed_run][:-1])
    )
    return Sections(
        files=files,
        starts=starts,
        runs=np.add.reduceat(next_run.astype(np.int64), starts),
        is_in_sequence=~np.logical_or.reduceat(falls, starts),
    )


# ---- slices ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """Keys from `min_key` on and below `end_key`, literals, by one column; None: no bound on that side."""

    column: str
    min_key: pl.Expr | None = None
    end_key: pl.Expr | None = None

    def expr(self) -> pl.Expr | None:
        """Return the range as a Polars condition; None if it holds every key."""
        key = col(self.column)
        above = None if self.min_key is None else key >= self.min_key
        below = None if self.end_key is None else key < self.end_key
        return above if below is None else below if above is None else above & below


def split_key_ranges(min_keys: pl.DataFrame, max_keys: pl.DataFrame, rows: Array, max_rows: int) -> list[KeyRange]:
    """Return key ranges that together hold every key, of about `max_rows` rows each.

    The bounds are those of sorted pieces of rows (files, or row groups); their keys are assumed to be spread evenly
    between the bounds. Ranges split the first key column that varies; rows with the same value of it stay together.
    """
    column = next(
        (name for name in min_keys.columns if _has_several_values(min_keys[name], max_keys[name])), min_keys.columns[0]
    )
    low, high = min_keys[column], max_keys[column]
    pieces = -(-int(np.sum(rows)) // max(max_rows, 1))
    if pieces <= 1 or low.null_count() or high.null_count():
        return [KeyRange(column=column)]
    bounds = [None, *to_literals(_even_cuts(low, high, np.asarray(rows, np.float64), pieces)), None]
    return [KeyRange(column=column, min_key=start, end_key=end) for start, end in pairwise(bounds)]


def _has_several_values(min_keys: pl.Series, max_keys: pl.Series) -> bool:
    return pl.concat([min_keys, max_keys]).n_unique() > 1


def _even_cuts(min_keys: pl.Series, max_keys: pl.Series, rows: Array, slice_count: int) -> pl.Series:
    """Return the values of the column that split the rows into `slice_count` equal parts, ascending and distinct."""
    dtype = min_keys.dtype
    if is_whole(dtype) and dtype != pl.Boolean:
        positions = _interpolate_cuts(
            physical_values(min_keys).astype(np.float64),
            physical_values(max_keys).astype(np.float64),
            rows,
            slice_count,
        )
        limits = np.iinfo(physical_values(min_keys).dtype)
        cuts = np.unique(
            np.clip(np.floor(positions), float(limits.min), float(limits.max)).astype(object).astype(np.int64)
        )
        return pl.Series(cuts).cast(min_keys.to_physical().dtype).cast(dtype)
    if dtype in (pl.String, pl.Binary):
        return _text_cuts(min_keys, max_keys, rows, slice_count)
    both = pl.concat([min_keys, max_keys]).rank("dense").to_numpy().astype(np.float64)
    positions = np.unique(
        np.ceil(_interpolate_cuts(both[: len(min_keys)], both[len(min_keys) :], rows, slice_count))
    ).astype(np.int64)
    distinct = pl.concat([min_keys, max_keys]).unique().sort()
    return distinct.gather(pl.Series(positions[(positions > 1) & (positions <= len(distinct))] - 1))


def _interpolate_cuts(min_keys: Array, max_keys: Array, rows: Array, slice_count: int) -> Array:
    """Return where evenly spread rows over [low, high] reach 1/pieces, 2/pieces … of all rows."""
    ends = max_keys + 1
    slope = rows / np.maximum(ends - min_keys, 1)
    edges = np.concatenate([min_keys, ends])
    order = np.argsort(edges, kind="stable")
    edges, rises = edges[order], np.cumsum(np.concatenate([slope, -slope])[order])
    reached = np.append(0.0, np.cumsum(np.maximum(rises[:-1], 0) * np.diff(edges)))
    return np.asarray(np.interp(np.arange(1, slice_count) * reached[-1] / slice_count, reached, edges))


def _text_cuts(min_keys: pl.Series, max_keys: pl.Series, rows: Array, slice_count: int) -> pl.Series:
    """Return values that split texts, by the bytes after their common prefix, read as a number."""
    bounds = (*min_keys.to_list(), *max_keys.to_list())  # scalar: two a file
    texts = [value if isinstance(value, bytes) else value.encode() for value in bounds]
    first, last = min(texts), max(texts)
    shared = next(
        (at for at, (first_byte, last_byte) in enumerate(zip(first, last, strict=False)) if first_byte != last_byte),
        min(len(first), len(last)),
    )
    numbers = np.array(
        [
            float(int.from_bytes(text[shared : shared + SPLIT_WINDOW].ljust(SPLIT_WINDOW, b"\0"), "big"))
            for text in texts
        ]
    )
    positions = _interpolate_cuts(numbers[: len(min_keys)], numbers[len(min_keys) :], rows, slice_count)
    cuts = sorted(
        {
            first[:shared] + min(int(position), 2 ** (8 * SPLIT_WINDOW) - 1).to_bytes(SPLIT_WINDOW, "big").rstrip(b"\0")
            for position in positions
        }
    )
    inside = [cut for cut in cuts if first < cut <= last]
    if min_keys.dtype == pl.Binary:
        return pl.Series(inside, dtype=pl.Binary)
    readable = sorted({cut.decode("utf-8", "ignore").encode() for cut in inside})
    return pl.Series([cut.decode() for cut in readable if first < cut <= last], dtype=pl.String)
