"""The statistics of many files as `pruning.PruningStatistics`: decoded a column at a time, and seen through the schema each file was written with.

A column a file does not have is null in all its rows. A column whose type changed keeps its bounds only where the change cannot move a value: wider
integers, longer text. Everything else is unknown, and unknown keeps the file (ENGINE 6.4).
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
    """Manifests whose partition statistics may hold a match of a predicate on partition columns."""
    fields = [ctx.schema.field(name) for name in ctx.schema.partition_keys]
    low = pa.array([m.partition_stats.min_values for m in listed], pa.binary())
    high = pa.array([m.partition_stats.max_values for m in listed], pa.binary())
    counts = pa.array([m.partition_stats.null_counts for m in listed], pa.list_(pa.int64()))
    rows = np.array([m.num_added_files + m.num_deleted_files for m in listed], np.int64)
    wanted = set(columns(predicate))
    known = _decode_bounds([f for f in fields if f.name in wanted], fields, (low, high, counts), rows)
    return pruning.may_match(predicate, known.get, len(listed))


def may_match_files(ctx: TableContext, entries: ManifestEntries, predicate: Predicate, which: str) -> Mask:
    """Files whose key (`which` "key") or value (`which` "value") statistics may hold a match."""
    wanted = set(columns(predicate))
    fields = tuple(f for f in ctx.schema.fields if f.name in wanted)
    key = tuple(ctx.schema.trimmed_primary_keys) if which == "key" else ()
    known = get_or_compute(ctx.world, entries, ("bounds", which, fields, key), partial(_collect_bounds, ctx, entries, fields, which))
    found = [
        (rows, pruning.may_match(predicate, bounds.get, len(rows)))
        for rows, bounds in (_collect_bounds(ctx, entries, fields, which) if known is None else known)
    ]
    if len(found) == 1 and len(found[0][0]) == len(entries):  # mostly all files are alike
        return found[0][1]
    mask = np.ones(len(entries), bool)
    for rows, fit in found:
        mask[rows] = fit
    return mask


def _collect_bounds(
    ctx: TableContext, entries: ManifestEntries, fields: Sequence[Field], which: str
) -> list[tuple[NDArray[np.int64], dict[str, PruningStatistics]]]:
    """The bounds of some columns, of files that are alike and their indices."""
    found = []
    for rows, written, present in _group_by_stats_columns(ctx, entries, which):
        some = entries.take(rows) if len(rows) < len(entries) else entries
        count = some.numbers("row_count").copy()  # no buffer of the entries: it may be kept longer than they are
        stored = some.column(f"{which}_min"), some.column(f"{which}_max"), some.column(f"{which}_null_counts")
        known = _decode_bounds(fields, written, stored, count)
        for field in fields:
            if field.name not in known and which == "value" and field.id not in present:
                known[field.name] = _missing_column_statistics(field, count)
        found.append((rows, known))
    return found


def _group_by_stats_columns(ctx: TableContext, entries: ManifestEntries, which: str) -> list[tuple[NDArray[np.int64], list[Field], frozenset[int]]]:
    """Entries whose statistics cover the same columns: (their indices, those columns as written, ids of all columns of the file's schema)."""
    if which == "key":
        key = [ctx.schema.field(name) for name in ctx.schema.trimmed_primary_keys]
        return [(np.arange(len(entries)), key, frozenset())]
    names = entries.column("value_stats_cols")
    covered = _codes_of_lists(names)
    ids = entries.numbers("schema_id")
    found = []
    is_one = len(ids) > 0 and not np.count_nonzero(covered) and not np.count_nonzero(ids != ids[0])  # mostly all are of one kind
    for code in (0,) if is_one else np.unique(covered):
        for schema_id in ids[:1] if is_one else np.unique(ids[covered == code]):
            rows = np.arange(len(ids)) if is_one else np.flatnonzero((covered == code) & (ids == schema_id))
            schema = schemas.read(ctx, int(schema_id))
            listed = names[int(rows[0])].as_py()  # scalar: one of a group of files
            by_name = {f.name: f for f in schema.fields}
            written = list(schema.fields) if listed is None else [by_name[n] for n in listed if n in by_name]
            usable = listed is None or len(written) == len(listed)
            found.append((rows, written if usable else [], frozenset(f.id for f in schema.fields)))
    return found


def _codes_of_lists(lists: pa.ListArray) -> NDArray[np.int64]:
    """A number for each list of names, equal for equal lists; null is a list of its own."""
    if not len(lists) or lists.null_count == len(lists):
        return np.zeros(len(lists), np.int64)
    joined = pc.fill_null(pc.binary_join(lists, "\x00"), "\x01none")
    return pc.dictionary_encode(joined).indices.to_numpy()


def _decode_bounds(
    fields: Sequence[Field], written: Sequence[Field], stored: tuple[pa.Array, pa.Array, pa.Array], rows: NDArray[np.int64]
) -> dict[str, PruningStatistics]:
    """Bounds of the fields that the statistics cover, from the minima, maxima and null counts of the columns as written."""
    at = {f.id: i for i, f in enumerate(written)}
    chosen = [(f, at[f.id]) for f in fields if f.id in at]
    if not chosen:
        return {}
    lowest, highest, counts = stored
    types, only = [f.type for f in written], [i for _, i in chosen]
    lows, highs = binary_row.decode_columns(lowest, types, only=only), binary_row.decode_columns(highest, types, only=only)
    nulls = _null_counts(counts, len(written), only)
    found = {}
    for (field, i), smallest, largest, absent in zip(chosen, lows, highs, nulls, strict=True):
        low, high = _null_reversed_bounds(smallest, largest)
        known = PruningStatistics(type=written[i].type, low=low, high=high, nulls=absent, rows=rows)
        if (lifted := _lift(known, field.type)) is not None:
            found[field.name] = lifted
    return found


def _null_reversed_bounds(low: pa.Array, high: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The bounds, null where the smallest comes behind the greatest: they are none, and would leave out rows."""
    if low.null_count == len(low) or high.null_count == len(high) or pa.types.is_nested(low.type):
        return low, high
    turned = pc.greater(low, high)
    if not turned.true_count:
        return low, high
    nothing = pa.scalar(None, low.type)
    return pc.if_else(turned, nothing, low), pc.if_else(turned, nothing, high)


def _null_counts(counts: pa.Array, width: int, only: Sequence[int]) -> NDArray[np.int64]:
    """Null counts of the columns whose numbers `only` names, by file; unknown where a file does not list `width` columns."""
    if isinstance(counts, pa.ChunkedArray):
        counts = counts.combine_chunks()
    found = np.full((len(only), len(counts)), UNKNOWN_COUNT, np.int64)
    if not width or not len(counts):
        return found
    offsets, flat = counts.offsets.to_numpy(), counts.values  # a step of Arrow costs more than all of numpy's
    whole = np.flatnonzero((np.diff(offsets) == width) & ~nulls_of(counts))
    numbers = (flat.fill_null(UNKNOWN_COUNT) if flat.null_count else flat).to_numpy(zero_copy_only=False)
    found[:, whole] = numbers[offsets[whole] + np.array(only, np.int64)[:, None]]
    return found


def _lift(known: PruningStatistics, t: DataType) -> PruningStatistics | None:
    """Bounds of the type a file was written with as bounds of the column's type today; None: unknown."""
    old = known.type
    if old.root in ("FLOAT", "DOUBLE"):
        known = replace(known, low=_without_nan(known.low), high=_without_nan(known.high))
    if t.root == "CHAR" and old.root == "CHAR":
        known = _trim_char_bounds(known)
    if old.as_nullable() == t.as_nullable():
        return known
    if old.root in INTEGERS and t.root in INTEGERS and INTEGERS.index(old.root) <= INTEGERS.index(t.root):
        return replace(known, type=t, low=known.low.cast(to_arrow(t)), high=known.high.cast(to_arrow(t)))
    longer = (old.length or 0) <= (t.length or 0)
    if longer and ((old.root in ("CHAR", "VARCHAR") and t.root == "VARCHAR") or (old.root in BINARIES and t.root == "VARBINARY")):
        return replace(_trim_char_bounds(known) if old.root == "CHAR" else known, type=t)
    return None


def _without_nan(bound: pa.Array) -> pa.Array:
    """Parquet and Avro writers may record NaN, which bounds nothing."""
    return pc.if_else(pc.is_nan(bound), pa.scalar(None, bound.type), bound)


def _trim_char_bounds(known: PruningStatistics) -> PruningStatistics:
    """ORC pads CHAR with blanks on disk and in its bounds; rows come trimmed. A lower bound with characters below the blank is no bound then."""
    odd = pc.fill_null(pc.match_substring_regex(known.low, "[\\x00-\\x1f]"), False)
    return replace(known, low=pc.if_else(odd, pa.scalar(None, known.low.type), pc.utf8_rtrim(known.low, " ")))


@lru_cache(maxsize=64)
def _null_array(t: DataType, count: int) -> pa.Array:
    return pa.nulls(count, to_arrow(t))


def _missing_column_statistics(field: Field, rows: NDArray[np.int64]) -> PruningStatistics:
    """A column that a file does not have: null in every row."""
    empty = _null_array(field.type, len(rows))
    return PruningStatistics(type=field.type, low=empty, high=empty, nulls=rows, rows=rows)
