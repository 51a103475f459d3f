"""Files of an LSM tree by the keys they may hold: sections whose key ranges overlap no other, their runs oldest first, and slices of big sections.

    L5   |----a----|   |----b----|            section 1: a, c, d     (three runs: a is oldest)
    L0       |--c--|                          section 2: b           (one file: its rows are the answer, nothing is merged)
    L0     |d|

All buckets of a plan are partitioned in one pass. A run is a level above 0, or one file of level 0; inside a run keys never repeat.

Source: ENGINE.md 2.1 and 2.5, `IntervalPartition`. Sections are the reference's; runs are those of the tree, not the smallest number that would do.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lakekit.columns import col, cols
from lakekit.lsm.numpy_columns import is_whole, literals, values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from lakekit.lsm.numpy_columns import Array, Bools, Ints

WINDOW = 8
"""How many bytes of text after the common beginning are looked at to place a cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sections:
    """File numbers, section after section; in each oldest run first, in a run by key.

    `starts`: where each section begins in `files`. `runs`: how many runs a section has. `in_order`: whether sequence numbers of a section only grow from
    run to run, so that the order of its rows is the order of their versions.
    """

    files: Ints
    starts: Ints
    runs: Ints
    in_order: Bools

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[Ints]:
        ends = np.append(self.starts[1:], len(self.files))
        for start, end in zip(self.starts, ends, strict=True):
            yield self.files[start:end]

    @property
    def sizes(self) -> Ints:
        """How many files each section has."""
        return np.diff(self.starts, append=len(self.files))

    @property
    def alone(self) -> Ints:
        """The files that share no key range with another."""
        return self.files[self.starts[self.sizes == 1]]


def sections(
    min_keys: Sequence[pa.Array | pl.Series],
    max_keys: Sequence[pa.Array | pl.Series],
    *,
    levels: Array,
    min_sequence: Array,
    max_sequence: Array,
    buckets: Array | None = None,
) -> Sections:
    """The sections of files by their smallest and largest keys, one column a key column. `buckets`: a number a file; files of different ones never meet.

    A file whose bound could not be decoded (a null), or whose greatest key comes before its smallest, may hold any key of its bucket.
    """
    count = len(levels)
    empty = np.zeros(0, np.int64)
    if count == 0:
        return Sections(files=empty, starts=empty, runs=empty, in_order=np.zeros(0, bool))
    low, high = _ranks(_frame(min_keys), _frame(max_keys))
    group = np.zeros(count, np.int64) if buckets is None else np.unique(buckets, return_inverse=True)[1].reshape(-1)
    width = int(high.max()) + 2
    low, high = low + group * width, high + group * width
    by_key = np.lexsort((high, low))
    reached = np.maximum.accumulate(high[by_key])
    fresh = np.append(True, low[by_key][1:] > reached[:-1])
    section = np.empty(count, np.int64)
    section[by_key] = np.cumsum(fresh) - 1
    return _order_by_age(section, low, np.asarray(levels, np.int64), np.asarray(min_sequence, np.int64), np.asarray(max_sequence, np.int64))


def _frame(columns: Sequence[pa.Array | pl.Series]) -> pl.DataFrame:
    return pl.DataFrame({str(number): column for number, column in enumerate(columns)})


def _ranks(low: pl.DataFrame, high: pl.DataFrame) -> tuple[Ints, Ints]:
    """Numbers that compare as the keys do, from 0; a bound with a null is the smallest, or the largest, of all."""
    whole = low.width == 1 and is_whole(low.dtypes[0])
    if whole and not low.to_series().null_count() + high.to_series().null_count():  # of a small plan, Polars' calls would be the most
        numbers = np.concatenate([values(low.to_series()), values(high.to_series())])
        ranked = np.unique(numbers, return_inverse=True)[1].reshape(-1).astype(np.int64)
        return _repair_reversed_bounds(ranked[: low.height], ranked[low.height :])
    both = pl.concat([low, high])
    if whole:
        ranked = np.unique(values(both.to_series()), return_inverse=True)[1].reshape(-1).astype(np.int64)
    else:
        order = both.select(pl.arg_sort_by(cols(both.columns))).to_series()
        placed = both[order]
        changed = placed.select(pl.any_horizontal(pl.all().ne_missing(pl.all().shift(1)))).to_series().to_numpy().copy()
        changed[:1] = False
        ranked = np.empty(both.height, np.int64)
        ranked[order.to_numpy()] = np.cumsum(changed)
    unknown = both.select(pl.any_horizontal(pl.all().is_null())).to_series().to_numpy()
    smallest, largest = ranked[: low.height].copy(), ranked[low.height :].copy()
    top = int(ranked.max())
    smallest[unknown[: low.height]] = 0
    largest[unknown[low.height :]] = top
    return _repair_reversed_bounds(smallest, largest)


def _repair_reversed_bounds(smallest: Ints, largest: Ints) -> tuple[Ints, Ints]:
    """The bounds, where none ends before it begins: of one that does nothing is known, and its file may hold any key."""
    turned = largest < smallest
    if turned.any():
        smallest = np.where(turned, 0, smallest)
        largest = np.where(turned, max(int(largest.max()), int(smallest.max())), largest)
    return smallest, largest


def _order_by_age(section: Ints, low: Ints, levels: Ints, min_sequence: Ints, max_sequence: Ints) -> Sections:
    """Files ordered by section, run and key. A run's age is its largest sequence number, then its smallest."""
    count = len(section)
    # a file of level 0 is a run of its own, the files of a higher level in a section are one
    own = np.where(levels > 0, count + levels, np.arange(count))
    run = np.unique(section * (count + int(levels.max()) + 1) + own, return_inverse=True)[1].reshape(-1)
    runs = int(run.max()) + 1
    newest, oldest = np.full(runs, np.iinfo(np.int64).min), np.full(runs, np.iinfo(np.int64).max)
    np.maximum.at(newest, run, max_sequence)
    np.minimum.at(oldest, run, min_sequence)
    files = np.lexsort((low, run, oldest[run], newest[run], section))
    placed = section[files]
    starts = np.flatnonzero(np.append(True, placed[1:] != placed[:-1]))
    placed_run = run[files]
    next_run = np.append(True, placed_run[1:] != placed_run[:-1])
    falls = np.append(False, (placed[1:] == placed[:-1]) & next_run[1:] & (oldest[placed_run][1:] <= newest[placed_run][:-1]))
    return Sections(
        files=files,
        starts=starts,
        runs=np.add.reduceat(next_run.astype(np.int64), starts),
        in_order=~np.logical_or.reduceat(falls, starts),
    )


# ---- slices --------------------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """Keys from `low` on and below `high`, literals, by one column; None: no bound on that side."""

    column: str
    low: pl.Expr | None = None
    high: pl.Expr | None = None

    def expr(self) -> pl.Expr | None:
        """The range as a Polars condition; None when it holds every key."""
        key = col(self.column)
        above = None if self.low is None else key >= self.low
        below = None if self.high is None else key < self.high
        return above if below is None else below if above is None else above & below


def split_key_ranges(min_keys: pl.DataFrame, max_keys: pl.DataFrame, rows: Array, max_rows: int) -> list[KeyRange]:
    """Key ranges that together hold every key, of about `max_rows` rows each, over stretches of sorted rows (files, or row groups) with their bounds.

    Keys are taken to be spread evenly between a stretch's bounds. The cut runs along the first key column that varies; rows that share one value of it
    cannot be parted.
    """
    column = next((name for name in min_keys.columns if _varies(min_keys[name], max_keys[name])), min_keys.columns[0])
    low, high = min_keys[column], max_keys[column]
    pieces = -(-int(np.sum(rows)) // max(max_rows, 1))
    if pieces <= 1 or low.null_count() or high.null_count():
        return [KeyRange(column=column)]
    bounds = [None, *literals(_cuts(low, high, np.asarray(rows, np.float64), pieces)), None]
    return [KeyRange(column=column, low=start, high=end) for start, end in pairwise(bounds)]


def _varies(low: pl.Series, high: pl.Series) -> bool:
    return pl.concat([low, high]).n_unique() > 1


def _cuts(low: pl.Series, high: pl.Series, rows: Array, pieces: int) -> pl.Series:
    """Values of the column between which rows fall in `pieces` equal parts: ascending, without repeats."""
    dtype = low.dtype
    if is_whole(dtype) and dtype != pl.Boolean:
        spots = _interpolate_cuts(values(low).astype(np.float64), values(high).astype(np.float64), rows, pieces)
        limits = np.iinfo(values(low).dtype)
        whole = np.unique(np.clip(np.floor(spots), float(limits.min), float(limits.max)).astype(object).astype(np.int64))
        return pl.Series(whole).cast(low.to_physical().dtype).cast(dtype)
    if dtype in (pl.String, pl.Binary):
        return _text_cuts(low, high, rows, pieces)
    both = pl.concat([low, high]).rank("dense").to_numpy().astype(np.float64)
    spots = np.unique(np.ceil(_interpolate_cuts(both[: len(low)], both[len(low) :], rows, pieces))).astype(np.int64)
    distinct = pl.concat([low, high]).unique().sort()
    return distinct.gather(pl.Series(spots[(spots > 1) & (spots <= len(distinct))] - 1))


def _interpolate_cuts(low: Array, high: Array, rows: Array, pieces: int) -> Array:
    """Where an even spread of each stretch's rows over [low, high] reaches 1/pieces, 2/pieces … of all rows."""
    ends = high + 1
    slope = rows / np.maximum(ends - low, 1)
    edges = np.concatenate([low, ends])
    order = np.argsort(edges, kind="stable")
    edges, rises = edges[order], np.cumsum(np.concatenate([slope, -slope])[order])
    reached = np.append(0.0, np.cumsum(np.maximum(rises[:-1], 0) * np.diff(edges)))
    return np.asarray(np.interp(np.arange(1, pieces) * reached[-1] / pieces, reached, edges))


def _text_cuts(low: pl.Series, high: pl.Series, rows: Array, pieces: int) -> pl.Series:
    """Cuts between texts: the bytes after what all bounds begin with, read as a number."""
    texts = [value if isinstance(value, bytes) else value.encode() for value in (*low.to_list(), *high.to_list())]  # scalar: two a file
    first, last = min(texts), max(texts)
    shared = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), min(len(first), len(last)))
    numbers = np.array([float(int.from_bytes(text[shared : shared + WINDOW].ljust(WINDOW, b"\0"), "big")) for text in texts])
    spots = _interpolate_cuts(numbers[: len(low)], numbers[len(low) :], rows, pieces)
    cuts = sorted({first[:shared] + min(int(spot), 2 ** (8 * WINDOW) - 1).to_bytes(WINDOW, "big").rstrip(b"\0") for spot in spots})
    inside = [cut for cut in cuts if first < cut <= last]
    if low.dtype == pl.Binary:
        return pl.Series(inside, dtype=pl.Binary)
    readable = sorted({cut.decode("utf-8", "ignore").encode() for cut in inside})
    return pl.Series([cut.decode() for cut in readable if first < cut <= last], dtype=pl.String)
