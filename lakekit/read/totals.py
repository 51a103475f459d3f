"""What indexes said of whole files before: how many values a column has there, their sum and bounds. Files do not change: only new ones are asked again.

    remember(handle, {"v": False}, ["…/data-1.parquet"], {"…/data-1.parquet": {"v": Figures(3, 24, None, None)}})
    recalled(handle, {"v": False}, ["…/data-1.parquet", "…/data-2.parquet"], [True, True])     ->   [True, False], {"v": Figures(3, 24, None, None)}

Of a column it is one object on the shelf of decoded metadata, whatever the number of files. It is known by the id and the type of the column, as files name
theirs by the schema they were written with, and by whole paths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.file_index.bsi import ColumnTotals

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext

    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]

_MAX_PATHS = 1 << 16
"""Of so many files of a column is remembered what was not asked for last."""
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1
_HALF_BITS = 32
_MARK_BYTES = 400
"""About what the object takes beside what it holds."""


class _CachedTotals(NamedTuple):
    """What is known of a column: of the file `paths[i]`, the numbers `numbers[:, i]`. Its bounds only where `bounded`, and those of no value say nothing."""

    paths: pa.Array
    numbers: Ints
    bounded: Mask


def get_cached_totals(ctx: TableContext, wanted: Mapping[str, bool], paths: Sequence[str], whole: Mask) -> tuple[Mask, dict[str, ColumnTotals]]:
    """Of which of the `whole` files all of those columns are known, and what the columns come to there. `wanted`: columns, and whether their bounds are."""
    there = whole.copy()
    found: dict[str, tuple[_CachedTotals, Ints]] = {}
    asked = pa.array(paths, pa.string())
    for name, bounded in wanted.items():
        known: _CachedTotals | None = ctx.world.decoded.get(_key(ctx, name))
        if known is None:
            return np.zeros(len(paths), bool), {}
        at = pc.fill_null(pc.index_in(asked, known.paths), -1).to_numpy().astype(np.int64)
        there &= (at >= 0) & (known.bounded[at] | (not bounded))
        found[name] = known, at
    return there, {name: _sum_totals(known, at[there], bounded=wanted[name]) for name, (known, at) in found.items()}


def _sum_totals(known: _CachedTotals, at: Ints, *, bounded: bool) -> ColumnTotals:
    counts, totals, leasts, greatests = known.numbers[:, at]
    total = (int((totals >> _HALF_BITS).sum()) << _HALF_BITS) + int((totals & ((1 << _HALF_BITS) - 1)).sum())  # in halves: the sum may be beyond 64 bits
    some = counts > 0
    if not bounded or not some.any():
        return ColumnTotals(int(counts.sum()), total, None, None)
    return ColumnTotals(int(counts.sum()), total, int(leasts[some].min()), int(greatests[some].max()))


def remember(ctx: TableContext, wanted: Mapping[str, bool], paths: Sequence[str], said: Mapping[str, Mapping[str, ColumnTotals]]) -> None:
    """Keeps what was said of whole files, by path, of the columns `wanted`; `paths` are all that were asked for, and stay where there are too many."""
    for name, bounded in wanted.items():
        figures = {path: of[name] for path, of in said.items() if _LEAST <= of[name].total <= _GREATEST}
        if not figures:
            continue
        rows = [(one.count, one.total, one.least or 0, one.greatest or 0) for one in figures.values()]
        more = _CachedTotals(pa.array(figures, pa.string()), np.array(rows, np.int64).T, np.full(len(rows), bounded))
        before: _CachedTotals | None = ctx.world.decoded.get(_key(ctx, name))
        if before is not None:
            more = _merge_totals(before, more, paths)
        weight = more.paths.nbytes + more.numbers.nbytes + more.bounded.nbytes + _MARK_BYTES
        ctx.world.decoded.put({_key(ctx, name): more}, weight)


def mask_unindexed(ctx: TableContext, wanted: Mapping[str, bool], paths: Sequence[str]) -> Mask:
    """Which of the files are known to have no index that could say what those columns come to."""
    known: frozenset[str] = ctx.world.decoded.get(_unindexed_key(ctx, wanted)) or frozenset()
    return np.array([path in known for path in paths], bool)  # scalar: one a file


def remember_unindexed(ctx: TableContext, wanted: Mapping[str, bool], paths: Sequence[str]) -> None:
    """Keeps that those files have none."""
    if not paths:
        return
    known: frozenset[str] = ctx.world.decoded.get(_unindexed_key(ctx, wanted)) or frozenset()
    more = known.union(paths) if len(known) + len(paths) <= _MAX_PATHS else frozenset(paths)
    ctx.world.decoded.put({_unindexed_key(ctx, wanted): more}, _MARK_BYTES + sum(map(len, more)) + _MARK_BYTES // 4 * len(more))


def _unindexed_key(ctx: TableContext, wanted: Mapping[str, bool]) -> Hashable:
    return "unable", *(_key(ctx, name) for name in sorted(wanted))


def _merge_totals(before: _CachedTotals, more: _CachedTotals, paths: Sequence[str]) -> _CachedTotals:
    stays = pc.invert(pc.is_in(before.paths, more.paths))
    if len(before.paths) + len(more.paths) > _MAX_PATHS:
        stays = pc.and_(stays, pc.is_in(before.paths, pa.array(paths, pa.string())))
    kept = stays.to_numpy(zero_copy_only=False)
    numbers = np.concatenate([before.numbers[:, kept], more.numbers], axis=1)
    return _CachedTotals(pa.concat_arrays([before.paths.filter(stays), more.paths]), numbers, np.concatenate([before.bounded[kept], more.bounded]))


def _key(ctx: TableContext, column: str) -> Hashable:
    field = ctx.schema.field(column)
    return "totals", ctx.storage, ctx.root, field.id, field.type.as_nullable()
