"""The statistics of many files as `pruning.PruningStatistics`, by the schema each file was written with.

They are decoded a column at a time. A column a file does not have is null in all its rows. A column whose type changed
keeps its bounds only if the change cannot alter a value: wider integers, longer text. Everything else is unknown, and
unknown keeps the file (ENGINE 6.4).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.codec import binary_row
from lakekit.codec.binary_columns import nulls_of
from lakekit.metadata import schemas
from lakekit.predicate import columns
from lakekit.read import pruning
from lakekit.read.derived import get_or_compute
from lakekit.read.pruning import PruningStatistics
from lakekit.types import BINARIES, INTEGERS
from lakekit.types.arrow import to_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.manifests import ManifestFileMeta
    from lakekit.predicate import Predicate
    from lakekit.types import DataType, Field

    Mask = NDArray[np.bool_]

UNKNOWN_COUNT = -1


def keep_manifests(ctx: TableContext, listed: Sequence[ManifestFileMeta], predicate: Predicate) -> Mask:
    """Return which manifests may hold a match of a predicate on partition columns, by partition statistics."""
    fields = [ctx.schema.field(name) for name in ctx.schema.partition_keys]
    low = pa.array([m.partition_stats.min_values for m in listed], pa.binary())
    high = pa.array([m.partition_stats.max_values for m in listed], pa.binary())
    counts = pa.array([m.partition_stats.null_counts for m in listed], pa.list_(pa.int64()))
    rows = np.array([m.num_added_files + m.num_deleted_files for m in listed], np.int64)
    wanted = set(columns(predicate))
    statistics = _decode_bounds([f for f in fields if f.name in wanted], fields, (low, high, counts), rows)
    return pruning.may_match(predicate, statistics.get, len(listed))


def may_match_files(ctx: TableContext, entries: ManifestEntries, predicate: Predicate, which: str) -> Mask:
    """Return which files may hold a match, by key (`which` "key") or value (`which` "value") statistics."""
    wanted = set(columns(predicate))
    fields = tuple(f for f in ctx.schema.fields if f.name in wanted)
    key = tuple(ctx.schema.trimmed_primary_keys) if which == "key" else ()
    cached = get_or_compute(
        ctx.world, entries, ("bounds", which, fields, key), partial(_collect_bounds, ctx, entries, fields, which)
    )
    masks = [
        (rows, pruning.may_match(predicate, bounds.get, len(rows)))
        for rows, bounds in (_collect_bounds(ctx, entries, fields, which) if cached is None else cached)
    ]
    if len(masks) == 1 and len(masks[0][0]) == len(entries):  # mostly all files are alike
        return masks[0][1]
    mask = np.ones(len(entries), bool)
    for rows, fit in masks:
        mask[rows] = fit
    return mask


def _collect_bounds(
    ctx: TableContext, entries: ManifestEntries, fields: Sequence[Field], which: str
) -> list[tuple[NDArray[np.int64], dict[str, PruningStatistics]]]:
    """Return, for each group of files with the same statistics columns, their indices and the columns' bounds."""
    groups = []
    for rows, written, present in _group_by_stats_columns(ctx, entries, which):
        subset = entries.take(rows) if len(rows) < len(entries) else entries
        count = subset.numbers("row_count").copy()  # no buffer of the entries: it may be kept longer than they are
        stored = subset.column(f"{which}_min"), subset.column(f"{which}_max"), subset.column(f"{which}_null_counts")
        statistics = _decode_bounds(fields, written, stored, count)
        for field in fields:
            if field.name not in statistics and which == "value" and field.id not in present:
                statistics[field.name] = _missing_column_statistics(field, count)
        groups.append((rows, statistics))
    return groups


def _group_by_stats_columns(
    ctx: TableContext, entries: ManifestEntries, which: str
) -> list[tuple[NDArray[np.int64], list[Field], frozenset[int]]]:
    """Return groups of entries whose statistics cover the same columns.

    A group is the indices of its entries, those columns as written, and the ids of all columns of the files' schema.
    """
    if which == "key":
        key = [ctx.schema.field(name) for name in ctx.schema.trimmed_primary_keys]
        return [(np.arange(len(entries)), key, frozenset())]
    names = entries.column("value_stats_cols")
    covered = _codes_of_lists(names)
    ids = entries.numbers("schema_id")
    groups = []
    # mostly all are of one kind
    is_one = len(ids) > 0 and not np.count_nonzero(covered) and not np.count_nonzero(ids != ids[0])
    for code in (0,) if is_one else np.unique(covered):
        for schema_id in ids[:1] if is_one else np.unique(ids[covered == code]):
            rows = np.arange(len(ids)) if is_one else np.flatnonzero((covered == code) & (ids == schema_id))
            schema = schemas.read(ctx, int(schema_id))
            listed = names[int(rows[0])].as_py()  # scalar: one of a group of files
            by_name = {f.name: f for f in schema.fields}
            written = list(schema.fields) if listed is None else [by_name[n] for n in listed if n in by_name]
            usable = listed is None or len(written) == len(listed)
            groups.append((rows, written if usable else [], frozenset(f.id for f in schema.fields)))
    return groups


def _codes_of_lists(lists: pa.ListArray) -> NDArray[np.int64]:
    """Return a number for each list of names, equal for equal lists; null is a list of its own."""
    if not len(lists) or lists.null_count == len(lists):
        return np.zeros(len(lists), np.int64)
    joined = pc.fill_null(pc.binary_join(lists, "\x00"), "\x01none")
    return pc.dictionary_encode(joined).indices.to_numpy()


def _decode_bounds(
    fields: Sequence[Field],
    written: Sequence[Field],
    stored: tuple[pa.Array, pa.Array, pa.Array],
    rows: NDArray[np.int64],
) -> dict[str, PruningStatistics]:
    """Return the bounds of the fields that the statistics cover.

    They come from the minima, maxima and null counts of the columns as written.
    """
    at = {f.id: i for i, f in enumerate(written)}
    covered = [(f, at[f.id]) for f in fields if f.id in at]
    if not covered:
        return {}
    lowest, highest, counts = stored
    types, only = [f.type for f in written], [i for _, i in covered]
    lows, highs = (
        binary_row.decode_columns(lowest, types, only=only),
        binary_row.decode_columns(highest, types, only=only),
    )
    nulls = _null_counts(counts, len(written), only)
    decoded = {}
    for (field, i), smallest, largest, absent in zip(covered, lows, highs, nulls, strict=True):
        low, high = _null_reversed_bounds(smallest, largest)
        statistics = PruningStatistics(type=written[i].type, low=low, high=high, nulls=absent, rows=rows)
        if (lifted := _lift(statistics, field.type)) is not None:
            decoded[field.name] = lifted
    return decoded


def _null_reversed_bounds(low: pa.Array, high: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the bounds, null where the smallest is greater than the greatest: such bounds would drop rows."""
    if low.null_count == len(low) or high.null_count == len(high) or pa.types.is_nested(low.type):
        return low, high
    turned = pc.greater(low, high)
    if not turned.true_count:
        return low, high
    nothing = pa.scalar(None, low.type)
    return pc.if_else(turned, nothing, low), pc.if_else(turned, nothing, high)


def _null_counts(counts: pa.Array, width: int, only: Sequence[int]) -> NDArray[np.int64]:
    """Return the null counts of the columns whose numbers are in `only`, by file.

    They are unknown where a file does not list `width` columns.
    """
    if isinstance(counts, pa.ChunkedArray):
        counts = counts.combine_chunks()
    null_counts = np.full((len(only), len(counts)), UNKNOWN_COUNT, np.int64)
    if not width or not len(counts):
        return null_counts
    offsets, flat = counts.offsets.to_numpy(), counts.values  # a step of Arrow costs more than all of numpy's
    complete = np.flatnonzero((np.diff(offsets) == width) & ~nulls_of(counts))
    numbers = (flat.fill_null(UNKNOWN_COUNT) if flat.null_count else flat).to_numpy(zero_copy_only=False)
    null_counts[:, complete] = numbers[offsets[complete] + np.array(only, np.int64)[:, None]]
    return null_counts


def _lift(statistics: PruningStatistics, t: DataType) -> PruningStatistics | None:
    """Return the bounds in the column's type of today, from the type the file was written with; None: unknown."""
    old = statistics.type
    if old.root in ("FLOAT", "DOUBLE"):
        statistics = replace(statistics, low=_without_nan(statistics.low), high=_without_nan(statistics.high))
    if t.root == "CHAR" and old.root == "CHAR":
        statistics = _trim_char_bounds(statistics)
    if old.as_nullable() == t.as_nullable():
        return statistics
    if old.root in INTEGERS and t.root in INTEGERS and INTEGERS.index(old.root) <= INTEGERS.index(t.root):
        return replace(statistics, type=t, low=statistics.low.cast(to_arrow(t)), high=statistics.high.cast(to_arrow(t)))
    longer = (old.length or 0) <= (t.length or 0)
    if longer and (
        (old.root in ("CHAR", "VARCHAR") and t.root == "VARCHAR") or (old.root in BINARIES and t.root == "VARBINARY")
    ):
        return replace(_trim_char_bounds(statistics) if old.root == "CHAR" else statistics, type=t)
    return None


def _without_nan(bound: pa.Array) -> pa.Array:
    """Return the bounds with null for NaN, which Parquet and Avro writers may record, and which bounds nothing."""
    return pc.if_else(pc.is_nan(bound), pa.scalar(None, bound.type), bound)


def _trim_char_bounds(statistics: PruningStatistics) -> PruningStatistics:
    """Return the bounds of CHAR without trailing blanks, as rows have none.

    ORC pads CHAR with blanks on disk and in its bounds. A lower bound with characters below the blank becomes unknown.
    """
    odd = pc.fill_null(pc.match_substring_regex(statistics.low, "[\\x00-\\x1f]"), False)
    return replace(
        statistics, low=pc.if_else(odd, pa.scalar(None, statistics.low.type), pc.utf8_rtrim(statistics.low, " "))
    )


@lru_cache(maxsize=64)
def _null_array(t: DataType, count: int) -> pa.Array:
    return pa.nulls(count, to_arrow(t))


def _missing_column_statistics(field: Field, rows: NDArray[np.int64]) -> PruningStatistics:
    """Return the statistics of a column that a file does not have: null in every row."""
    empty = _null_array(field.type, len(rows))
    return PruningStatistics(type=field.type, low=empty, high=empty, nulls=rows, rows=rows)
