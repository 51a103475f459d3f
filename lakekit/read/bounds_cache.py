"""Caches of values computed from manifest entries, and of totals that file indexes give.

    get_or_compute(runtime, entries, ("bounds", "v"), make)     1st call: None, the caller computes it itself
                                                                2nd call: computed and cached; then from the cache
    cache_totals(ctx, {"v": False}, ["…/data-1.parquet"], {"…/data-1.parquet": {"v": ColumnTotals(3, 24, None, None)}})
    get_cached_totals(ctx, {"v": False}, ["…/data-1.parquet", "…/data-2.parquet"], [True, True])
        ->   [True, False], {"v": ColumnTotals(3, 24, None, None)}

The entries of a snapshot are one object from read to read (`metadata.manifest_reader`). Entries that a filter made are
used once, so that nothing is cached for them. The values are in the cache of decoded metadata, within its budget, and
keep no entries alive.

Totals are count, sum and bounds of the values. Files do not change: only the indexes of new files are read again. A
column is one object in the cache, whatever the number of files. Its key is the id and the type of the column, as each
file names it by the schema it was written with; files are full paths.
"""

from __future__ import annotations

from sys import getsizeof
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import ref

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.file_index.bsi import ColumnTotals

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.runtime import Runtime

    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]


T = TypeVar("T")

_CACHE_ENTRY_BYTES = 400
"""About how many bytes a cache entry takes besides its value."""


def get_or_compute(runtime: Runtime, entries: ManifestEntries, cache_key: Hashable, make: Callable[[], T]) -> T | None:
    """Return the cached value of those entries, or compute and cache it; None the first time.

    What `make` returns must be the same every time, and hold no buffer of the entries.
    """
    key = (get_or_compute, id(entries.table), cache_key)
    cached = runtime.metadata_cache.get(key)
    # compared by weak reference, as another table may have the id of one that is gone
    if cached is None or cached[0]() is not entries.table:
        runtime.metadata_cache.put({key: (ref(entries.table), ())}, _CACHE_ENTRY_BYTES)
        return None
    if not cached[1]:
        cached = (cached[0], (make(),))
        runtime.metadata_cache.put({key: cached}, _CACHE_ENTRY_BYTES + _estimate_bytes(cached[1]))
    value: T = cached[1][0]
    return value


def _estimate_bytes(value: Any) -> int:
    """Return about how many bytes a value takes."""
    if isinstance(value, (tuple, list)):
        return _CACHE_ENTRY_BYTES + sum(map(_estimate_bytes, value))
    if isinstance(value, dict):
        return _CACHE_ENTRY_BYTES + sum(map(_estimate_bytes, value.values()))
    return int(value.nbytes) if hasattr(value, "nbytes") else getsizeof(value)


# ---- totals ------------------------------------------------------------


_MAX_PATHS = 1 << 16
"""The most files of a column in the cache, beyond those of the last query."""
_MIN_INT64, _MAX_INT64 = -(1 << 63), (1 << 63) - 1
_HALF_BITS = 32
_CACHED_TOTALS_BYTES = 400
"""About what the object takes beside what it holds."""


class _CachedTotals(NamedTuple):
    """The totals of a column: `totals_by_file[:, i]` for the file `paths[i]`.

    Its bounds are valid only where `has_bounds`; those of a file without values mean nothing.
    """

    paths: pa.Array
    totals_by_file: Ints
    has_bounds: Mask


def get_cached_totals(
    ctx: TableContext, requested_columns: Mapping[str, bool], paths: Sequence[str], full_files: Mask
) -> tuple[Mask, dict[str, ColumnTotals]]:
    """Return which of the `full_files` have totals of all those columns cached, and the totals over them.

    `requested_columns` are columns, and whether their bounds are needed.
    """
    is_cached = full_files.copy()
    cached: dict[str, tuple[_CachedTotals, Ints]] = {}
    requested = pa.array(paths, pa.string())
    for name, bounded in requested_columns.items():
        column_totals: _CachedTotals | None = ctx.runtime.metadata_cache.get(_cache_key(ctx, name))
        if column_totals is None:
            return np.zeros(len(paths), bool), {}
        at = pc.fill_null(pc.index_in(requested, column_totals.paths), -1).to_numpy().astype(np.int64)
        is_cached &= (at >= 0) & (column_totals.has_bounds[at] | (not bounded))
        cached[name] = column_totals, at
    return is_cached, {
        name: _sum_totals(column_totals, at[is_cached], with_bounds=requested_columns[name])
        for name, (column_totals, at) in cached.items()
    }


def _sum_totals(cached_totals: _CachedTotals, indices: Ints, *, with_bounds: bool) -> ColumnTotals:
    counts, totals, leasts, greatests = cached_totals.totals_by_file[:, indices]
    # in halves: the sum may be beyond 64 bits
    total = (int((totals >> _HALF_BITS).sum()) << _HALF_BITS) + int((totals & ((1 << _HALF_BITS) - 1)).sum())
    has_values = counts > 0
    if not with_bounds or not has_values.any():
        return ColumnTotals(int(counts.sum()), total, None, None)
    return ColumnTotals(int(counts.sum()), total, int(leasts[has_values].min()), int(greatests[has_values].max()))


def cache_totals(
    ctx: TableContext,
    requested_columns: Mapping[str, bool],
    paths: Sequence[str],
    totals_by_path: Mapping[str, Mapping[str, ColumnTotals]],
) -> None:
    """Cache the totals of files by path, of the columns `requested_columns`.

    `paths` are all files of the query: those stay in the cache if it becomes too big.
    """
    for name, bounded in requested_columns.items():
        figures = {
            path: column_totals[name]
            for path, column_totals in totals_by_path.items()
            if _MIN_INT64 <= column_totals[name].value_sum <= _MAX_INT64
        }
        if not figures:
            continue
        rows = [
            (totals.count, totals.value_sum, totals.minimum or 0, totals.maximum or 0) for totals in figures.values()
        ]
        updated = _CachedTotals(pa.array(figures, pa.string()), np.array(rows, np.int64).T, np.full(len(rows), bounded))
        before: _CachedTotals | None = ctx.runtime.metadata_cache.get(_cache_key(ctx, name))
        if before is not None:
            updated = _merge_totals(before, updated, paths)
        weight = updated.paths.nbytes + updated.totals_by_file.nbytes + updated.has_bounds.nbytes + _CACHED_TOTALS_BYTES
        ctx.runtime.metadata_cache.put({_cache_key(ctx, name): updated}, weight)


def mask_unindexed(ctx: TableContext, requested_columns: Mapping[str, bool], paths: Sequence[str]) -> Mask:
    """Return which of the files are known to have no index that could give totals of those columns."""
    unindexed: frozenset[str] = ctx.runtime.metadata_cache.get(_unindexed_key(ctx, requested_columns)) or frozenset()
    return np.array([path in unindexed for path in paths], bool)  # scalar: one a file


def cache_unindexed(ctx: TableContext, requested_columns: Mapping[str, bool], paths: Sequence[str]) -> None:
    """Cache that those files have no such index."""
    if not paths:
        return
    unindexed: frozenset[str] = ctx.runtime.metadata_cache.get(_unindexed_key(ctx, requested_columns)) or frozenset()
    updated = unindexed.union(paths) if len(unindexed) + len(paths) <= _MAX_PATHS else frozenset(paths)
    ctx.runtime.metadata_cache.put(
        {_unindexed_key(ctx, requested_columns): updated},
        _CACHED_TOTALS_BYTES + sum(map(len, updated)) + _CACHED_TOTALS_BYTES // 4 * len(updated),
    )


def _unindexed_key(ctx: TableContext, requested_columns: Mapping[str, bool]) -> Hashable:
    return "unable", *(_cache_key(ctx, name) for name in sorted(requested_columns))


def _merge_totals(cached_totals: _CachedTotals, added_totals: _CachedTotals, paths: Sequence[str]) -> _CachedTotals:
    stays = pc.invert(pc.is_in(cached_totals.paths, added_totals.paths))
    if len(cached_totals.paths) + len(added_totals.paths) > _MAX_PATHS:
        stays = pc.and_(stays, pc.is_in(cached_totals.paths, pa.array(paths, pa.string())))
    mask = stays.to_numpy(zero_copy_only=False)
    numbers = np.concatenate([cached_totals.totals_by_file[:, mask], added_totals.totals_by_file], axis=1)
    return _CachedTotals(
        pa.concat_arrays([cached_totals.paths.filter(stays), added_totals.paths]),
        numbers,
        np.concatenate([cached_totals.has_bounds[mask], added_totals.has_bounds]),
    )


def _cache_key(ctx: TableContext, column: str) -> Hashable:
    field = ctx.schema.field(column)
    return "totals", ctx.storage, ctx.root, field.id, field.type.as_nullable()
