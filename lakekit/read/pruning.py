"""Pruning of files by statistics (bounds, null counts), and of buckets by keys of a condition.

Works on columns: one numpy mask over all files at once. A file is dropped only if no row of it can satisfy the
condition; what is unknown keeps the file. Floating point columns are never dropped by their maximum: for Polars NaN is
the largest value, and statistics leave it out.

Statistics are decoded a column at a time, by the schema each file was written with. A column a file does not have is
null in all its rows. A column whose type changed keeps its bounds only if the change cannot alter a value: wider
integers, longer text. Everything else is unknown.

Only conditions that name every bucket-key column with `=` or `in` select buckets, by the bucket function or, if buckets
are dynamic, by the hash index.

Source: ENGINE 6.4, `BucketSelectConverter`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Context, Decimal, InvalidOperation
from functools import cached_property, lru_cache, partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.codec import binary_row, index_files
from lakekit.codec.binary_row import null_mask
from lakekit.codec.hashing import assign_buckets, hash_columns, supports_bucket_key, writer_bucket_functions
from lakekit.data_file.paths import partition_path
from lakekit.metadata import schemas
from lakekit.predicate import And, Leaf, Or, Predicate, conjuncts, iter_columns, to_internal_literal
from lakekit.read.bounds_cache import get_or_compute
from lakekit.types import BINARIES, INTEGERS, TIMESTAMPS, DataType, Instant, timestamp_unit
from lakekit.types.arrow import to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.index_manifest import IndexManifestEntry
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.manifests import ManifestFileMeta
    from lakekit.types import Field

    Mask = NDArray[np.bool_]


_UNIT_NS = {"ms": 1_000_000, "us": 1_000, "ns": 1}
_INT64_RANGE = range(-(2**63), 2**63)
_WIDE_CONTEXT = Context(prec=38)
"""Python's own context keeps 28 digits, DECIMAL 38."""


@dataclass(frozen=True, kw_only=True)
class PruningStatistics:
    """Statistics of one column over many files, one element for each file.

    `low` and `high` are Arrow arrays of the column's type, null where unknown; `nulls` counts null rows, -1 where
    unknown; `rows` counts all rows.
    """

    type: DataType
    low: pa.Array
    high: pa.Array
    nulls: NDArray[np.int64]
    rows: NDArray[np.int64]

    @cached_property
    def numbers(self) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Return `low` and `high` of an integer column as numpy arrays; None unless all are known.

        A step of numpy costs a tenth of Arrow's.
        """
        is_known = self.type.root in INTEGERS and not self.low.null_count and not self.high.null_count
        return (self.low.to_numpy(), self.high.to_numpy()) if is_known else None

    @cached_property
    def has_values(self) -> Mask:
        """Return which files have rows that are not null."""
        return np.asarray(self.nulls != self.rows)

    @property
    def nbytes(self) -> int:
        """Return the bytes that the statistics take."""
        return int(self.low.nbytes + self.high.nbytes + self.nulls.nbytes + self.rows.nbytes)


def may_match(predicate: Predicate, bounds: Callable[[str], PruningStatistics | None], count: int) -> Mask:
    """Return which files may hold a matching row. `bounds(column)` is None if nothing is known about a column."""
    match predicate:
        case And(parts):
            mask = np.ones(count, bool)
            for part in parts:
                mask &= may_match(part, bounds, count)
            return mask
        case Or(parts):
            mask = np.zeros(count, bool)
            for part in parts:
                mask |= may_match(part, bounds, count)
            return mask
        case Leaf(column):
            stats = bounds(column)
            return np.ones(count, bool) if stats is None else may_match_leaf(predicate, stats)
    return np.ones(count, bool)


def may_match_leaf(leaf: Leaf, stats: PruningStatistics) -> Mask:
    """Return which files may hold a row that matches one comparison."""
    match leaf.op:
        case "is null":
            return np.asarray(stats.nulls != 0)
        case "is not null":
            return stats.has_values.copy()
        case "starts with":
            return (
                _compare_prefix(str(leaf.literals[0]), stats) & stats.has_values
                if stats.type.root in ("CHAR", "VARCHAR")
                else np.ones(len(stats.nulls), bool)
            )
        case "in":
            mask = np.zeros(len(stats.nulls), bool)
            for value in leaf.literals:
                mask |= _may_compare("=", value, stats)
            return mask & stats.has_values
        case "not in":
            mask = np.ones(len(stats.nulls), bool)
            for value in leaf.literals:
                mask &= _may_compare("!=", value, stats)
            return mask & stats.has_values
    return _may_compare(leaf.op, leaf.literals[0], stats) & stats.has_values


def _may_compare(op: str, value: object, stats: PruningStatistics) -> Mask:
    """Return whether each file may hold a row with `row op value`, ignoring null rows."""
    count = len(stats.nulls)
    if stats.numbers is not None:
        return _compare_integers(op, to_internal_literal(value, stats.type), *stats.numbers)
    scalar = as_scalar(value, stats.type)
    floating = stats.type.root in ("FLOAT", "DOUBLE")
    if scalar is None or (floating and op in (">", ">=", "!=")):
        return np.ones(count, bool)
    low, high = stats.low, stats.high
    match op:
        case "=":
            verdict = pc.and_kleene(pc.less_equal(low, scalar), pc.greater_equal(high, scalar))
        case "!=":
            verdict = pc.invert(pc.and_kleene(pc.equal(low, scalar), pc.equal(high, scalar)))
        case "<":
            verdict = pc.less(low, scalar)
        case "<=":
            verdict = pc.less_equal(low, scalar)
        case ">":
            verdict = pc.greater(high, scalar)
        case ">=":
            verdict = pc.greater_equal(high, scalar)
        case _:
            return np.ones(count, bool)
    return to_mask(verdict)


def _compare_integers(op: str, value: Any, low: NDArray[Any], high: NDArray[Any]) -> Mask:
    """Do what `_may_compare` does, for bounds that are all known."""
    info = np.iinfo(low.dtype)
    verdict: Mask | None = None
    if value is not None and info.min <= value <= info.max:
        match op:
            case "=":
                verdict = (low <= value) & (high >= value)
            case "!=":
                verdict = (low != value) | (high != value)
            case "<":
                verdict = low < value
            case "<=":
                verdict = low <= value
            case ">":
                verdict = high > value
            case ">=":
                verdict = high >= value
    return np.ones(len(low), bool) if verdict is None else verdict


def _compare_prefix(prefix: str, stats: PruningStatistics) -> Mask:
    """Return which files may hold strings that start with `prefix`."""
    verdict = pc.greater_equal(stats.high, pa.scalar(prefix, stats.high.type))
    above = after_prefix(prefix)
    if above is not None:
        verdict = pc.and_kleene(verdict, pc.less(stats.low, pa.scalar(above, stats.low.type)))
    return to_mask(verdict)


def after_prefix(prefix: str) -> str | None:
    """Return the smallest string greater than every string with that prefix; None if there is none."""
    for at in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[at]) + 1
        code = 0xE000 if code == 0xD800 else code
        if code <= 0x10FFFF:
            return prefix[:at] + chr(code)
    return None


def to_mask(verdict: pa.Array) -> Mask:
    """Return Arrow's verdict as a mask; unknown keeps."""
    return np.asarray(pc.fill_null(verdict, True).to_numpy(zero_copy_only=False), dtype=bool)


def padded_spellings(text: str, length: int) -> list[str]:
    """Return the texts as which a CHAR of that length may have been hashed or indexed, if it is read as `text`.

    Rows of ORC files lose trailing blanks.
    """
    return [text + " " * more for more in range(max(0, length - len(text)) + 1)]


def as_scalar(value: object, t: DataType) -> pa.Scalar | None:
    """Return a literal as a scalar of the column's Arrow type; None if the column has no such value.

    Then nothing can be pruned.
    """
    internal = to_internal_literal(value, t)
    if internal is None:
        return None
    if t.root in TIMESTAMPS:
        return _timestamp_scalar(internal, t)
    if t.root == "DECIMAL":
        return _decimal_scalar(internal, t)
    if t.root in INTEGERS and internal not in _INT64_RANGE:
        return None
    if t.root == "FLOAT" and float(np.float32(internal)) != internal:
        return None  # it rounds one way or the other as the query goes on; both ways must survive
    try:
        return pa.scalar(internal, to_arrow(t))
    except (pa.ArrowException, OverflowError):
        return None


def _timestamp_scalar(value: Instant, t: DataType) -> pa.Scalar | None:
    unit = timestamp_unit(t.precision)
    ticks, remainder = divmod(value.millis * 1_000_000 + value.nanos, _UNIT_NS[unit])
    return None if remainder or ticks not in _INT64_RANGE else pa.scalar(ticks, pa.int64()).cast(to_arrow(t))


def _decimal_scalar(value: Any, t: DataType) -> pa.Scalar | None:
    try:
        exact = value.quantize(Decimal(1).scaleb(-(t.scale or 0)), context=_WIDE_CONTEXT)
    except InvalidOperation:
        return None
    if exact != value or len(exact.as_tuple().digits) > (t.precision or 10):
        return None
    return pa.scalar(exact, to_arrow(t))


# ---- bounds ------------------------------------------------------------


UNKNOWN_COUNT = -1


def keep_manifests(ctx: TableContext, manifests: Sequence[ManifestFileMeta], predicate: Predicate) -> Mask:
    """Return which manifests may hold a match of a predicate on partition columns, by partition statistics."""
    fields = [ctx.schema.field(name) for name in ctx.schema.partition_keys]
    low = pa.array([m.partition_stats.min_values for m in manifests], pa.binary())
    high = pa.array([m.partition_stats.max_values for m in manifests], pa.binary())
    counts = pa.array([m.partition_stats.null_counts for m in manifests], pa.list_(pa.int64()))
    rows = np.array([m.num_added_files + m.num_deleted_files for m in manifests], np.int64)
    wanted = set(iter_columns(predicate))
    statistics = _decode_bounds([f for f in fields if f.name in wanted], fields, (low, high, counts), rows)
    return may_match(predicate, statistics.get, len(manifests))


def may_match_files(ctx: TableContext, entries: ManifestEntries, predicate: Predicate, statistics_kind: str) -> Mask:
    """Return which files may hold a match, by the statistics of `statistics_kind` "key" or "value"."""
    wanted = set(iter_columns(predicate))
    fields = tuple(f for f in ctx.schema.fields if f.name in wanted)
    key = tuple(ctx.schema.trimmed_primary_keys) if statistics_kind == "key" else ()
    cached = get_or_compute(
        ctx.runtime,
        entries,
        ("bounds", statistics_kind, fields, key),
        partial(_collect_bounds, ctx, entries, fields, statistics_kind),
    )
    masks = [
        (rows, may_match(predicate, bounds.get, len(rows)))
        for rows, bounds in (_collect_bounds(ctx, entries, fields, statistics_kind) if cached is None else cached)
    ]
    if len(masks) == 1 and len(masks[0][0]) == len(entries):  # mostly all files are alike
        return masks[0][1]
    mask = np.ones(len(entries), bool)
    for rows, fit in masks:
        mask[rows] = fit
    return mask


def _collect_bounds(
    ctx: TableContext, entries: ManifestEntries, fields: Sequence[Field], statistics_kind: str
) -> list[tuple[NDArray[np.int64], dict[str, PruningStatistics]]]:
    """Return, for each group of files with the same statistics columns, their indices and the columns' bounds."""
    groups = []
    for rows, written, present in _group_by_stats_columns(ctx, entries, statistics_kind):
        subset = entries.take(rows) if len(rows) < len(entries) else entries
        count = subset.integers("row_count").copy()  # no buffer of the entries: it may be kept longer than they are
        stored = (
            subset.column(f"{statistics_kind}_min"),
            subset.column(f"{statistics_kind}_max"),
            subset.column(f"{statistics_kind}_null_counts"),
        )
        statistics = _decode_bounds(fields, written, stored, count)
        for field in fields:
            if field.name not in statistics and statistics_kind == "value" and field.id not in present:
                statistics[field.name] = _missing_column_statistics(field, count)
        groups.append((rows, statistics))
    return groups


def _group_by_stats_columns(
    ctx: TableContext, entries: ManifestEntries, statistics_kind: str
) -> list[tuple[NDArray[np.int64], list[Field], frozenset[int]]]:
    """Return groups of entries whose statistics cover the same columns.

    A group is the indices of its entries, those columns as written, and the ids of all columns of the files' schema.
    """
    if statistics_kind == "key":
        key = [ctx.schema.field(name) for name in ctx.schema.trimmed_primary_keys]
        return [(np.arange(len(entries)), key, frozenset())]
    names = entries.column("value_stats_cols")
    covered = _codes_of_lists(names)
    ids = entries.integers("schema_id")
    groups = []
    # mostly all are of one kind
    is_one = len(ids) > 0 and not np.count_nonzero(covered) and not np.count_nonzero(ids != ids[0])
    for code in (0,) if is_one else np.unique(covered):
        for schema_id in ids[:1] if is_one else np.unique(ids[covered == code]):
            rows = np.arange(len(ids)) if is_one else np.flatnonzero((covered == code) & (ids == schema_id))
            schema = schemas.read_schema(ctx, int(schema_id))
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
    written_fields: Sequence[Field],
    stored_bounds: tuple[pa.Array, pa.Array, pa.Array],
    rows: NDArray[np.int64],
) -> dict[str, PruningStatistics]:
    """Return the bounds of the fields that the statistics cover.

    They come from the minima, maxima and null counts of the columns as written.
    """
    at = {f.id: i for i, f in enumerate(written_fields)}
    covered = [(f, at[f.id]) for f in fields if f.id in at]
    if not covered:
        return {}
    lowest, highest, counts = stored_bounds
    types, only = [f.type for f in written_fields], [i for _, i in covered]
    lows, highs = (
        binary_row.decode_columns(lowest, types, only=only),
        binary_row.decode_columns(highest, types, only=only),
    )
    nulls = _null_counts(counts, len(written_fields), only)
    decoded = {}
    for (field, i), smallest, largest, absent in zip(covered, lows, highs, nulls, strict=True):
        low, high = _null_reversed_bounds(smallest, largest)
        statistics = PruningStatistics(type=written_fields[i].type, low=low, high=high, nulls=absent, rows=rows)
        if (lifted := _convert_to_current_type(statistics, field.type)) is not None:
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


def _null_counts(counts: pa.Array, width: int, column_indices: Sequence[int]) -> NDArray[np.int64]:
    """Return the null counts of the columns whose numbers are in `column_indices`, by file.

    They are unknown where a file does not list `width` columns.
    """
    if isinstance(counts, pa.ChunkedArray):
        counts = counts.combine_chunks()
    null_counts = np.full((len(column_indices), len(counts)), UNKNOWN_COUNT, np.int64)
    if not width or not len(counts):
        return null_counts
    offsets, flat = counts.offsets.to_numpy(), counts.values  # a step of Arrow costs more than all of numpy's
    complete = np.flatnonzero((np.diff(offsets) == width) & ~null_mask(counts))
    numbers = (flat.fill_null(UNKNOWN_COUNT) if flat.null_count else flat).to_numpy(zero_copy_only=False)
    null_counts[:, complete] = numbers[offsets[complete] + np.array(column_indices, np.int64)[:, None]]
    return null_counts


def _convert_to_current_type(statistics: PruningStatistics, t: DataType) -> PruningStatistics | None:
    """Return the bounds in the column's type of today, from the type the file was written with; None if unknown."""
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


# ---- select ------------------------------------------------------------


MAX_COMBINATIONS = 1000
"""More combinations of key values than this select nothing: testing them costs more than it saves."""


def _enumerate_keys(predicate: Predicate, key: Sequence[Field]) -> list[pa.Array] | None:
    """Return every key that `predicate` allows, an array a key column; None if it does not name all."""
    choices: list[list[pa.Scalar]] = []
    count = 1
    for field in key:
        values = _enumerate_values(predicate, field)
        if values is None or field.type.root in ("FLOAT", "DOUBLE"):  # 0.0 equals -0.0, their hashes differ
            return None
        if field.type.root == "CHAR":
            values = [
                pa.scalar(padded, pa.string())
                for text in values
                for padded in padded_spellings(text.as_py(), field.type.length or 1)
            ]  # scalar: literals of a filter
        count *= len(values)
        if count > MAX_COMBINATIONS:
            return None
        choices.append(values)
    if not key:
        return None
    combined = list(product(*choices))
    # scalar: literals of a filter
    return [pa.array([row[at] for row in combined], to_arrow(field.type)) for at, field in enumerate(key)]


def _enumerate_values(predicate: Predicate, field: Field) -> list[pa.Scalar] | None:
    """Return the values one column may have, from its shortest `=` or `in`.

    Returns None if there is none, or if a literal has no such value.
    """
    best: list[pa.Scalar] | None = None
    for part in conjuncts(predicate):
        if not isinstance(part, Leaf) or part.column != field.name or part.op not in ("=", "in"):
            continue
        scalars = [as_scalar(value, field.type) for value in part.literals]
        usable = [scalar for scalar in scalars if scalar is not None]
        if len(usable) == len(scalars) and (best is None or len(usable) < len(best)):
            best = usable
    return best


def mask_buckets(ctx: TableContext, entries: ManifestEntries, predicate: Predicate) -> NDArray[np.bool_] | None:
    """Return which entries are in buckets that can hold rows of a condition; None if it does not select buckets.

    That is if the condition does not name the whole bucket key, no bucket is fixed, or the bucket function takes no key
    of these types; or if a column of the bucket key had another type once, as rows are in the bucket of the hash of its
    old values. Each key selects the bucket of every function that writers use (`writer_bucket_functions`): an entry
    does not say which writer wrote it.
    """
    total = entries.integers("total_buckets")
    if not (total > 0).any() or not all(map(ctx.schema.has, ctx.schema.bucket_keys)):
        return None  # in a state of then a column of today's bucket key may not have been there
    fields = ctx.schema.fields_of(ctx.schema.bucket_keys)
    keys, types = _enumerate_keys(predicate, fields), [field.type for field in fields]
    if (
        keys is None
        or not supports_bucket_key(ctx.options.bucket_function_type, types)
        or not schemas.have_constant_types(ctx, fields)
    ):
        return None
    mask, bucket = np.ones(len(entries), bool), entries.integers("bucket")
    for count in np.unique(total):
        if count > 0:  # each entry by its own count; those without a fixed one stay
            functions = writer_bucket_functions(ctx.options.bucket_function_type)
            bucket_numbers = np.concatenate(
                [assign_buckets(function, keys, types, int(count)) for function in functions]
            )
            mask &= (total != count) | np.isin(bucket, bucket_numbers)
    return mask


def mask_hash_indexes(
    ctx: TableContext, entries: ManifestEntries, predicate: Predicate, indexes: Sequence[IndexManifestEntry]
) -> NDArray[np.bool_] | None:
    """Return which entries of dynamic buckets have a key of a condition in their hash index.

    Returns None if the condition does not name the whole key. Buckets without an index are kept. Only the indexes of
    the remaining buckets are read.
    """
    fields = ctx.schema.fields_of(ctx.schema.bucket_keys)
    keys = _enumerate_keys(predicate, fields)
    if keys is None:
        return None
    wanted = hash_columns(keys, [field.type for field in fields])
    bucket = entries.integers("bucket")
    encoded = entries.column("partition").dictionary_encode()
    code = encoded.indices.to_numpy()
    mask = np.ones(len(entries), bool)
    for at, partition in enumerate(encoded.dictionary.to_pylist()):  # scalar: the partitions still in question
        for index in indexes:
            inside = (code == at) & (bucket == index.bucket) if index.partition == partition else np.zeros(0, bool)
            if inside.any():
                path = ctx.paths.index(
                    index.file_name,
                    partition_path=partition_path(ctx, partition),
                    bucket=index.bucket,
                    external_path=index.external_path,
                )
                mask[inside] = bool(
                    np.isin(wanted, index_files.decode_hash_index(ctx.storage.read(path), path=path)).any()
                )
    return mask
