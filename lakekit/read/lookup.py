"""One value of one column, asked of files that all bring the same index of it: what was made of the indexes tells at once which files may have it.

    owners(handle, entries, condition)      True of each entry whose file may have such a row
                                            None: not a question of that kind, or nothing is remembered: bounds and indexes are asked as ever

    bitmap, range-bitmap    all their values in one array: where the value is there, and in no other file
    bloom-filter            the filters side by side, and the bounds and buckets of the files that they leave

Who asks the indexes of a state for the second time or later remembers it (`file_index_pruning.evaluate`); it is the same answer sooner, and no step is counted.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

import numpy as np

from lakekit.codec.binary_columns import binary_data
from lakekit.file_index import together, values
from lakekit.file_index.container import Payloads
from lakekit.file_index.together import Containers
from lakekit.predicate import Leaf
from lakekit.read import bounds, select
from lakekit.read.beside import EMBEDDED_BATCH, batch_cache_key, get_or_compute_for_batch
from lakekit.read.derived import get_computed, put_computed
from lakekit.types import TIMESTAMPS

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.read.beside import IndexBatch
    from lakekit.read.condition import ScanFilter
    from lakekit.types import DataType

    Mask = NDArray[np.bool_]

_UNSUPPORTED_ROOTS = {*TIMESTAMPS, "CHAR"}
"""What rows give back of those may be another value than was indexed (`file_index_pruning.as_read`)."""


class _CachedValues(NamedTuple):
    """All values of the indexes of the entries at those places are remembered, as `what`."""

    places: NDArray[np.int64]
    what: Hashable


class _FilterBatch(NamedTuple):
    """Filters of the entries at those places, in `data`, which is not kept by this, or in the entries; `shapes` are what `index` knows of them."""

    places: NDArray[np.int64]
    index: Any
    data: ref[NDArray[np.uint8]] | None
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    row_counts: NDArray[np.int64]
    shapes: Any


def files_containing(ctx: TableContext, entries: ManifestEntries, condition: ScanFilter) -> Mask | None:
    """The files that may have a row of a condition."""
    leaf = condition.predicate
    if not isinstance(leaf, Leaf) or leaf.op not in ("=", "in") or condition.on_partition or not ctx.options.file_index_read_enabled:
        return None
    t = ctx.schema.types.get(leaf.column)
    known: tuple[_CachedValues | _FilterBatch, ...] | None = get_computed(ctx.world, entries, _cache_key(ctx.schema.id, leaf.column))
    if t is None or known is None or values.few_keys(leaf, t) is None:
        return None
    there = np.zeros(len(entries), bool)
    for one in known:  # scalar: few stretches of bytes
        mine = _match_bloom_filters(entries, one, leaf, t) if isinstance(one, _FilterBatch) else _match_cached_values(ctx, entries, one, leaf, t)
        if mine is None:
            return None  # forgotten meanwhile
        there[one.places] = mine
    if any(isinstance(one, _FilterBatch) for one in known):
        there &= bounds.may_match_files(ctx, entries, leaf, "value")
        of_buckets = select.in_buckets(ctx, entries, leaf)  # filters of other buckets may seem to have it
        there = there if of_buckets is None else there & of_buckets
    return there


def _match_cached_values(ctx: TableContext, entries: ManifestEntries, known: _CachedValues, leaf: Leaf, t: DataType) -> Mask | None:
    listed: values.IndexValues | None = get_computed(ctx.world, entries, known.what)
    return None if listed is None else values.match_values(listed, t, leaf)[1]


def _match_bloom_filters(entries: ManifestEntries, known: _FilterBatch, leaf: Leaf, t: DataType) -> Mask | None:
    data = binary_data(entries.column("embedded_index")) if known.data is None else known.data()
    if data is None:
        return None
    absent, _ = known.index.asked(Payloads(data, known.begins, known.ends), t, leaf, known.row_counts, known.shapes)
    return np.logical_not(absent)


def remember(ctx: TableContext, entries: ManifestEntries, column: str, lots: Sequence[IndexBatch], row_counts: NDArray[np.int64]) -> None:
    """Keeps what tells of a column of all entries, whose indexes are those of the lots, and whose files have so many rows."""
    t = ctx.schema.types[column]
    if t.root in _UNSUPPORTED_ROOTS:
        return
    found = []
    for lot in lots:
        if (one := _summarize_batch(ctx, entries, column, t, lot, row_counts[lot.places])) is None:
            return
        found.append(one)
    put_computed(ctx.world, entries, _cache_key(ctx.schema.id, column), tuple(found))


def _summarize_batch(
    ctx: TableContext, entries: ManifestEntries, column: str, t: DataType, lot: IndexBatch, row_counts: NDArray[np.int64]
) -> _CachedValues | _FilterBatch | None:
    memory = partial(get_or_compute_for_batch, ctx, entries, lot, ctx.schema.id)
    many = Containers(lot.data, lot.begins, lot.ends, row_counts)
    if (listed := together.find_listed_key(many, column, t, memory)) is not None:
        return _CachedValues(lot.places, batch_cache_key(lot.number, ctx.schema.id, listed))
    if (filters := together.filters(many, column, t, memory)) is not None:
        index, payloads, shapes = filters
        return _FilterBatch(lot.places, index, None if lot.number == EMBEDDED_BATCH else ref(lot.data), payloads.begins, payloads.ends, row_counts, shapes)
    return None


def _cache_key(schema_id: int, column: str) -> Hashable:
    return "lookup", schema_id, column
