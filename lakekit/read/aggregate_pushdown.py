"""Sums, counts and bounds of a table, from the indexes of its files if possible, else from its rows.

    t.aggregate(pl.col("v").sum(), pl.col("v").max(), where=pl.col("w") > 3)

    files read unmerged, with a bsi index of v        ->  totals of the index, without deleted rows
      and indexes that decide w > 3
    all other files                                   ->  decoded, as `scan` reads them

    one frame of both, combined by Polars: the result of `t.scan().filter(…).select(…)`, wrapping and errors too

Each file is either answered by its index or decoded, all of one snapshot. If indexes cannot answer the aggregates or
the condition, all files are decoded. Files that may hold delete rows, and files that need a merge, are decoded. If the
read ignores lost files, all files are decoded: an index would count the rows of a file that is lost.

Source: FORMAT.md 9.3, 9.6; `BitSliceIndexRoaringBitmap`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakekit import parallel, runtime
from lakekit.codec import roaring
from lakekit.data_file import deletion_vector_reader, row_kinds
from lakekit.data_file.paths import data_file_paths
from lakekit.errors import Corrupt
from lakekit.file_index import bsi, evaluator
from lakekit.file_index.bsi import ColumnTotals
from lakekit.file_index.evaluator import IndexedFile
from lakekit.metadata import schemas
from lakekit.model.data_file import format_of_name
from lakekit.predicate import TRUE, Leaf, conjunction, iter_columns, restrict
from lakekit.progress import begin_work
from lakekit.read import bounds_cache, file_index_pruning, lazy_frames, polars_pushdown, table_scan
from lakekit.read.filter_pushdown import filter_to_pyarrow_text
from lakekit.read.planner import NO_FILTER, Step
from lakekit.read.polars_pushdown import parse_exact
from lakekit.read.user_expressions import check_aggregate_temporals, translate_compute_errors
from lakekit.types import INTEGERS, TIMESTAMPS
from lakekit.types.arrow import from_unscaled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray
    from pyroaring import BitMap

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.table_schema import TableSchema
    from lakekit.predicate import Predicate
    from lakekit.read.planner import Plan
    from lakekit.read.table_scan import TableScan
    from lakekit.types import DataType

    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]

_NO_TOTALS = ColumnTotals(0, 0, None, None)
_AGGREGATE_KINDS = ("sum", "min", "max", "count", "null_count", "len")
_SUMMABLE_ROOTS = (*INTEGERS, "DECIMAL")
_MS_NS = 1_000_000
_BSI_COLUMNS_OPTION = f"file-index.{bsi.NAME}.columns"
_MAX_ROWS = 2**63 - 1
_MAX_COUNT = (1 << 32) - 1
"""The greatest count that Polars' own type of counts holds, unless it was built for more."""
_FEW_ROWS, _FEW_FILES = 8192, 32
"""Rows of smaller files are decoded about as fast as an index answers for them, which matters where there are more
files.
"""
_PATH_COLUMNS = ("partition", "bucket", "file_name", "external_path")
"""Columns that say where a file lies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateRequest:
    """One aggregate: a `kind` of all values of a column (None: of rows), and its name in the result."""

    name: str
    kind: str
    column: str | None

    def to_expr(self, name: str) -> pl.Expr:
        """Return it as an expression, under another name."""
        return (pl.len() if self.column is None else _apply_aggregate(pl.col(self.column), self.kind)).alias(name)


class FileAggregate(NamedTuple):
    """The answer of one file's indexes: the number of rows that satisfy the condition, and each column's totals."""

    matching_rows: int
    totals: Mapping[str, ColumnTotals]


class AggregateResult(NamedTuple):
    """The answers of indexes, and the plans of the files that they did not answer.

    `schema` has the types of the results. `aggregates` lists the aggregates in order; it is None if no index was read.
    """

    aggregates: tuple[AggregateRequest, ...] | None
    schema: pl.Schema
    answers: tuple[FileAggregate, ...]
    plans: tuple[Plan, ...]


def aggregate_scan(scan: TableScan, aggregates: Sequence[pl.Expr], where: pl.Expr | None) -> pl.DataFrame:
    """Return the aggregates of the rows that satisfy a condition, as Polars computes them.

    Raises `Corrupt`, and what reading raises.
    """
    runtime.refuse_fork()
    result = answer_from_indexes(scan, aggregates, where)
    if result.aggregates is None or not result.answers:
        return _compute_aggregates(scan, result, where, aggregates)
    answered = pl.DataFrame(
        [
            _to_series(str(at), result.schema[request.name], _combine_answers(request, result.answers))
            for at, request in enumerate(result.aggregates)
        ]
    )
    if any(len(plan.selected_indices) for plan in result.plans):
        read = _compute_aggregates(
            scan, result, where, [request.to_expr(str(at)) for at, request in enumerate(result.aggregates)]
        )
        answered = pl.concat([answered, read.cast({pl.get_index_type(): pl.UInt64})])
    totals = answered.select(
        _combine_partials(pl.col(str(at)), request.kind).alias(request.name)
        for at, request in enumerate(result.aggregates)
    )
    return totals.select(_narrow_count(column) for column in totals.get_columns())


def _compute_aggregates(
    scan: TableScan, result: AggregateResult, where: pl.Expr | None, aggregates: Sequence[pl.Expr]
) -> pl.DataFrame:
    """Return the aggregates of the rows that no index answered.

    Raises:
        SchemaMismatch: Polars cannot compute the condition.
    """
    try:
        with table_scan.translate_read_errors(lambda: result.plans):
            return _unanswered_rows(scan, result, where).select(aggregates).collect()
    except pl.exceptions.PolarsError:
        if where is not None:
            with translate_compute_errors(scan.ctx.name, "the condition where="):
                _unanswered_rows(scan, result, where).select(pl.len()).collect()
        raise


def _narrow_count(column: pl.Series) -> pl.Series:
    """Return a count in the type that Polars gives counts, if it fits; sums of counts are added as UINT64."""
    is_count = column.dtype == pl.UInt64()
    return column.cast(pl.get_index_type(), strict=False) if is_count and column[0] <= _MAX_COUNT else column


def _unanswered_rows(scan: TableScan, result: AggregateResult, where: pl.Expr | None) -> pl.LazyFrame:
    """Return the rows that no index answered."""
    rows = lazy_frames.scan_merged(result.plans, scan.fields)
    return rows if where is None else polars_pushdown.filter_rows(rows, where, scan.schema())


def answer_from_indexes(scan: TableScan, aggregates: Sequence[pl.Expr], where: pl.Expr | None) -> AggregateResult:
    """Return the aggregates of the files that indexes answer, and the plans without those files.

    The plans' funnels show how many files were answered.
    """
    check_aggregate_temporals(aggregates, scan.schema(), scan.ctx.name)
    filters, is_whole = ([], True) if where is None else polars_pushdown.all_filters_of(where, scan.schema())
    scan_filter, decided = (
        (NO_FILTER, list[int]()) if where is None else polars_pushdown.build_scan_filter(filters, scan.ctx.schema)
    )
    plans = scan.plans(scan_filter)
    schema, understood = _parse_aggregates(scan, aggregates)
    predicates = [
        parse_exact(filter_to_pyarrow_text(filter_expr)) for at, filter_expr in enumerate(filters) if at not in decided
    ]
    certain = [predicate for predicate in predicates if predicate is not None]
    if understood is None or not is_whole or len(certain) < len(predicates) or not _can_use_indexes(scan.ctx):
        return AggregateResult(None, schema, (), tuple(plans))
    wanted = {request.column: False for request in understood if request.column is not None}
    wanted |= {
        request.column: True for request in understood if request.column is not None and request.kind in ("min", "max")
    }
    parts: list[FileAggregate] = []
    with table_scan.translate_read_errors(lambda: plans):
        left = [_remove_answered_files(plan, wanted, conjunction(certain), parts) for plan in plans]
    return AggregateResult(understood, schema, tuple(parts), tuple(left))


def _can_use_indexes(ctx: TableContext) -> bool:
    options = ctx.options
    return (
        options.file_index_read_enabled and not options.scan_ignore_lost_files and not options.scan_ignore_corrupt_files
    )


# ---- requests --------------------------------------------------------------------------------------------------------


def _parse_aggregates(
    scan: TableScan, aggregates: Sequence[pl.Expr]
) -> tuple[pl.Schema, tuple[AggregateRequest, ...] | None]:
    """Return the types of the aggregates, and each aggregate; None if indexes may not answer one of them.

    Raises Polars' own error for a column that does not exist.
    """
    empty = pl.LazyFrame(schema=scan.schema())
    wanted = empty.select(aggregates).collect_schema()  # two of one name raise here
    names = wanted.names()
    requests: list[AggregateRequest] = []
    for expr in aggregates:
        plain = expr.meta.undo_aliases()
        if plain.meta.eq(pl.len()):
            requests.append(AggregateRequest(name=names[len(requests)], kind="len", column=None))
            continue
        parts = plain.meta.pop()
        if len(parts) != 1 or not parts[0].meta.is_column_selection():
            return wanted, None
        kind = next((kind for kind in _AGGREGATE_KINDS if plain.meta.eq(_apply_aggregate(parts[0], kind))), None)
        if kind is None:
            return wanted, None
        for column in empty.select(parts[0]).collect_schema().names():
            t = scan.ctx.schema.field(column).type
            if t.root not in (_SUMMABLE_ROOTS if kind == "sum" else bsi.TYPES) or not evaluator.is_exact_type(t):
                return wanted, None
            requests.append(AggregateRequest(name=names[len(requests)], kind=kind, column=column))
    return wanted, tuple(requests)


def _apply_aggregate(column: pl.Expr, kind: str) -> pl.Expr:
    match kind:
        case "sum":
            return column.sum()
        case "min":
            return column.min()
        case "max":
            return column.max()
        case "count":
            return column.count()
        case "null_count":
            return column.null_count()
    return column.len()


# ---- what indexes say ------------------------------------------------------------------------------------------------


def _remove_answered_files(
    plan: Plan, requested_columns: Mapping[str, bool], condition: Predicate, file_aggregates: list[FileAggregate]
) -> Plan:
    """Return the plan without the files whose indexes answer everything; their answers are added to `file_aggregates`.

    `requested_columns` are columns, and whether their bounds are needed.
    """
    entries, alone = plan.entries, plan.raw_indices
    if plan.spec is not None:
        alone = alone[~row_kinds.may_retract(plan.ctx, entries, alone, reads_remote=True)]
    is_asked = bool(requested_columns) or condition != TRUE
    candidates = file_index_pruning.select_indexed(entries, alone) if is_asked else alone
    candidates = candidates if condition == TRUE else _select_worth_probing(plan, candidates)
    if not len(candidates):
        return plan
    answered = (
        _answer_by_index(plan, candidates, requested_columns, condition, file_aggregates)
        if is_asked
        else _answer_by_row_count(plan, candidates, file_aggregates)
    )
    is_answered = np.zeros(len(entries), bool)
    is_answered[answered] = True
    left = plan.raw_indices[~is_answered[plan.raw_indices]]
    count = len(plan.selected_indices)
    source = "their index" if condition != TRUE else "their row counts"
    if requested_columns:
        source = f"bsi {', '.join(sorted(requested_columns))}"
    named = f"answered by {source}"
    return replace(plan, raw_indices=left, steps=(*plan.steps, Step("files", count, count - len(answered), named)))


def _select_worth_probing(plan: Plan, candidates: Ints) -> Ints:
    """Return the files whose indexes decide a condition faster than their rows.

    On a local disk, if there are many small files, these are left out: reading them takes less time than their indexes.
    Answers for whole files are cached.
    """
    small = plan.entries.integers("row_count")[candidates] < _FEW_ROWS
    return candidates if plan.ctx.storage.is_remote or np.count_nonzero(small) <= _FEW_FILES else candidates[~small]


def _answer_by_row_count(plan: Plan, candidates: Ints, file_aggregates: list[FileAggregate]) -> Ints:
    """Count the rows of files that need no merge."""
    counts, have = plan.entries.integers("row_count")[candidates], _has_deletion_vector(plan, candidates)
    rows = sum(counts[~have].tolist())  # scalar: one a file; as Python numbers, which do not wrap
    if rows > _MAX_ROWS:
        raise Corrupt(
            f"the row counts of {plan.ctx.name} add up to {rows}, more than any table holds", field="_ROW_COUNT"
        )
    for count, deleted in zip(
        counts[have].tolist(), _deleted_rows_by_file(plan, candidates[have]), strict=True
    ):  # scalar: one a file
        rows += count if deleted is None else len(roaring.full_bitmap(count) - deleted)  # scalar: a set
    file_aggregates.append(FileAggregate(rows, {}))
    return candidates


def _answer_by_index(
    plan: Plan,
    candidates: Ints,
    requested_columns: Mapping[str, bool],
    condition: Predicate,
    file_aggregates: list[FileAggregate],
) -> Ints:
    """Read the indexes without a cached answer; return the positions of the files that were answered."""
    ctx, entries = plan.ctx, plan.entries
    paths = data_file_paths(ctx, entries.select(_PATH_COLUMNS).take(candidates))
    candidates, paths = _select_possibly_indexed(plan, candidates, paths, requested_columns)
    full_files = ~_has_deletion_vector(plan, candidates) if condition == TRUE else np.zeros(len(candidates), bool)
    is_cached, figures = bounds_cache.get_cached_totals(ctx, requested_columns, paths, full_files)
    if is_cached.any():
        # scalar: one a file
        file_aggregates.append(
            FileAggregate(sum(entries.integers("row_count")[candidates[is_cached]].tolist()), figures)
        )
    missing = np.flatnonzero(~is_cached)
    if not len(missing):
        return candidates
    with begin_work(ctx.runtime, "reading", "file indexes", len(missing)) as under_way:
        read_index = _make_index_reader(
            plan,
            candidates[missing],
            [paths[nth] for nth in missing],
            requested_columns,
            condition,
            caches_indexes=not full_files[missing].all(),
        )
        aggregates = parallel.map_io(
            read_index, range(len(missing)), is_remote=ctx.storage.is_remote, on_done=lambda _: under_way.advance()
        )
    file_aggregates += [part for part in aggregates if part is not None]
    answered = np.array([part is not None for part in aggregates])
    fresh = {
        paths[nth]: part.totals
        for nth, part in zip(missing.tolist(), aggregates, strict=True)
        if part is not None and full_files[nth]
    }  # scalar: one a file
    bounds_cache.cache_totals(ctx, requested_columns, paths, fresh)
    return np.concatenate([candidates[is_cached], candidates[missing[answered]]])


def _select_possibly_indexed(
    plan: Plan, candidates: Ints, paths: list[str], requested_columns: Mapping[str, bool]
) -> tuple[Ints, list[str]]:
    """Return the files, and their paths, that may have an index for all columns.

    If no option says so, the heads of their indexes are read, once.
    """
    ctx, entries = plan.ctx, plan.entries
    if not requested_columns:
        return candidates, paths
    lacks = bounds_cache.mask_unindexed(ctx, requested_columns, paths)
    ids = entries.integers("schema_id")[candidates]
    # scalar: few schemas
    file_schemas = {number: _resolve_file_schema(ctx, number) for number in np.unique(ids).tolist()}
    promised = [
        number
        for number, file_schema in file_schemas.items()
        if _BSI_COLUMNS_OPTION in file_schema.schema.options or _BSI_COLUMNS_OPTION in ctx.all_options
    ]
    doubtful = np.flatnonzero(~lacks & ~np.isin(ids, promised))
    # scalar: one a file
    files = dict(zip(doubtful.tolist(), entries.files(candidates[doubtful]), strict=True)) if len(doubtful) else {}

    def has(nth: int) -> bool:
        names = file_schemas[files[nth].schema_id].names
        contents = file_index_pruning.read_index_contents(ctx, paths[nth], files[nth])
        return all(name in names and evaluator.has_totals_index(contents, names[name]) for name in requested_columns)

    has_index = np.array(parallel.map_io(has, files, is_remote=ctx.storage.is_remote), bool)
    lacking = doubtful[~has_index]
    bounds_cache.cache_unindexed(ctx, requested_columns, [paths[nth] for nth in lacking.tolist()])  # scalar: one a file
    lacks[lacking] = True
    # scalar: one a file
    return candidates[~lacks], [path for path, without in zip(paths, lacks.tolist(), strict=True) if not without]


def _has_deletion_vector(plan: Plan, indices: Ints) -> Mask:
    """Return which files have a deletion vector."""
    if not plan.vector_entries:
        return np.zeros(len(indices), bool)
    names = plan.entries.column("file_name").take(pa.array(indices))
    has_vector: Mask = pc.is_in(names, pa.array(plan.vector_entries, pa.string())).to_numpy(zero_copy_only=False)
    return has_vector


def _deleted_rows_by_file(plan: Plan, indices: Ints) -> list[BitMap | None]:
    """Return the deleted rows of some files, as sets. Raises `Corrupt`, `FileMissing`."""
    names = plan.entries.column("file_name").take(pa.array(indices)).to_pylist()  # scalar: one a file
    positions = deletion_vector_reader.load_positions(
        plan.ctx, {name: plan.vector_entries[name] for name in names if name in plan.vector_entries}
    )
    return [roaring.bitmap_of(positions[name]) if name in positions else None for name in names]


class _FileIndexes(NamedTuple):
    """What is needed of a file to read its index."""

    name: str
    path: str
    schema_id: int
    row_count: int
    deleted_rows: BitMap | None


class _FileSchema(NamedTuple):
    """A schema that files were written with: its column types, and its names for today's columns."""

    schema: TableSchema
    types: Mapping[str, DataType]
    names: Mapping[str, str]


def _make_index_reader(
    plan: Plan,
    indices: Ints,
    paths: Sequence[str],
    requested_columns: Mapping[str, bool],
    condition: Predicate,
    *,
    caches_indexes: bool,
) -> Callable[[int], FileAggregate | None]:
    """Return a function from n to the answer of the indexes of the file at `indices[n]`.

    It returns None if the indexes do not answer everything. `caches_indexes` caches the indexes for later queries.
    """
    ctx, entries = plan.ctx, plan.entries
    # scalar: one a file
    names, ids, counts = (
        entries.column(name).take(pa.array(indices)).to_pylist() for name in ("file_name", "schema_id", "row_count")
    )
    files = [
        _FileIndexes(*facts)
        for facts in zip(names, paths, ids, counts, _deleted_rows_by_file(plan, indices), strict=True)
    ]
    file_schemas = {number: _resolve_file_schema(ctx, number) for number in set(ids)}
    cached = _find_cached_indexes(plan, indices) if caches_indexes else {}
    unread = [nth for nth in range(len(indices)) if nth not in cached]
    alone = dict(zip(unread, entries.files(indices[unread]), strict=True)) if unread else {}

    def read_index(nth: int) -> FileAggregate | None:
        file = files[nth]
        written = file_schemas[file.schema_id]
        if not all(
            name in written.names and _has_exact_index_values(file.name, ctx, name)
            for name in {*requested_columns, *iter_columns(condition)}
        ):
            return None
        if nth in cached:
            with suppress(Corrupt):  # it is read again, and said where it is
                return _aggregate_from_indexes(
                    IndexedFile(cached[nth], written.types, file.row_count, None),
                    written.names,
                    requested_columns,
                    condition,
                    file.deleted_rows,
                )
        own = alone[nth] if nth in alone else entries.file(int(indices[nth]))
        try:
            index = file_index_pruning.open_indexes(ctx, file.path, own, written.schema)
            return (
                None
                if index is None
                else _aggregate_from_indexes(index, written.names, requested_columns, condition, file.deleted_rows)
            )
        except Corrupt as damaged:
            raise file_index_pruning.add_advice(damaged) from None

    return read_index


def _find_cached_indexes(plan: Plan, indices: Ints) -> dict[int, memoryview]:
    """Return the bytes of the indexes that are in memory, by position in `indices`."""
    cached = {}
    order = np.argsort(indices)
    for batch in file_index_pruning.load_index_batches(plan.ctx, plan.entries, indices[order]):
        at = np.searchsorted(batch.positions, indices)
        mine = np.flatnonzero(
            (at < len(batch.positions)) & (batch.positions[np.minimum(at, len(batch.positions) - 1)] == indices)
        )
        # scalar: one a file
        for nth, begin, end in zip(
            mine.tolist(), batch.begins[at[mine]].tolist(), batch.ends[at[mine]].tolist(), strict=True
        ):
            cached[nth] = batch.data.data[begin:end]
    return cached


def _resolve_file_schema(ctx: TableContext, schema_id: int) -> _FileSchema:
    written = schemas.schema_of_file(ctx, schema_id)
    return _FileSchema(written, written.types, file_index_pruning.map_column_names(ctx.schema, written))


def _aggregate_from_indexes(
    index: IndexedFile,
    file_columns: Mapping[str, str],
    requested_columns: Mapping[str, bool],
    condition: Predicate,
    deleted_rows: BitMap | None,
) -> FileAggregate | None:
    """Return the answer of one file's indexes; None if they do not answer everything."""
    if not all(evaluator.has_totals_index(index.contents, file_columns[name]) for name in requested_columns):
        return None  # before rows are looked for in vain
    left = None if deleted_rows is None else roaring.full_bitmap(index.row_count) - deleted_rows  # scalar: a set
    if condition != TRUE:
        matching = evaluator.select_rows(
            index, restrict(condition, lambda leaf: Leaf(file_columns[leaf.column], leaf.op, leaf.literals))
        )
        if matching is None:
            return None
        left = matching if left is None else left & matching
    return _read_column_totals(index, {name: file_columns[name] for name in requested_columns}, requested_columns, left)


def _has_exact_index_values(file_name: str, ctx: TableContext, column: str) -> bool:
    """Return whether reading the file gives the values from which its index was built.

    Timestamps before 1970 or the calendar's reform are read from ORC as other values.
    """
    return format_of_name(file_name) != "orc" or ctx.schema.field(column).type.root not in TIMESTAMPS


def _read_column_totals(
    index: IndexedFile, file_columns: Mapping[str, str], requested_columns: Mapping[str, bool], rows: BitMap | None
) -> FileAggregate | None:
    figures: dict[str, ColumnTotals] = {}
    for name, bounded in requested_columns.items():
        column_totals = (
            _NO_TOTALS
            if rows is not None and not rows
            else evaluator.column_totals(index, file_columns[name], rows, with_bounds=bounded)
        )
        if column_totals is None:
            return None
        figures[name] = column_totals
    return FileAggregate(index.row_count if rows is None else len(rows), figures)


# ---- one answer of both ----------------------------------------------------------------------------------------------


def _combine_answers(request: AggregateRequest, file_aggregates: Sequence[FileAggregate]) -> int | None:
    """Return one aggregate over the answers of all indexes, as an integer.

    The integer is the key of a column value (min, max), a number of rows, or a sum of any size.
    """
    if request.column is None or request.kind == "len":
        return sum(part.matching_rows for part in file_aggregates)
    figures = [part.totals[request.column] for part in file_aggregates]
    match request.kind:
        case "sum":
            return sum(column_totals.value_sum for column_totals in figures)
        case "count":
            return sum(column_totals.count for column_totals in figures)
        case "null_count":
            return sum(
                part.matching_rows - column_totals.count
                for part, column_totals in zip(file_aggregates, figures, strict=True)
            )
        case "min":
            return min(
                (column_totals.minimum for column_totals in figures if column_totals.minimum is not None), default=None
            )
    return max((column_totals.maximum for column_totals in figures if column_totals.maximum is not None), default=None)


def _to_series(name: str, dtype: pl.DataType, value: int | None) -> pl.Series:
    """Return a key as a value of its column's type; a sum that does not fit wraps, as Polars' does."""
    if isinstance(dtype, pl.Decimal):
        return pl.Series(name, [None if value is None else from_unscaled(value, dtype.scale)], dtype)
    if dtype == pl.get_index_type():
        return pl.Series(name, [value], pl.UInt64)
    if dtype == pl.Time():
        return (pl.Series(name, [value], pl.Int64) * _MS_NS).cast(dtype)
    bits = 32 if dtype in (pl.Int32(), pl.Date()) else 64
    if value is not None:
        value = (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
    return pl.Series(name, [value], pl.Int32 if bits == 32 else pl.Int64).cast(dtype)


def _combine_partials(column: pl.Expr, kind: str) -> pl.Expr:
    return _apply_aggregate(column, kind if kind in ("min", "max") else "sum")
