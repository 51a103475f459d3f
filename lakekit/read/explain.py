"""What a scan would read and what planning dropped, with estimates: `t.explain()`.

    rows of the remaining files                              manifests count them, every version of a key
      and no more than rows × selectivity of the condition   if `t.analyze()`, or ANALYZE of an engine, left statistics
    × length of the columns                                  fixed, or from statistics, or a guess

    =, in                    share of non-nulls / distinct values, for each value between least and greatest
    <, <=, >, >=             as if values were evenly spread between least and greatest; texts: all, or none
    is null, is not null     counted
    and, or                  as if columns were independent; ranges of one column are one range

The planner itself counts what it drops. Estimates are also for the planner of Spark; no row is dropped for one.
Statistics that are missing or damaged are ignored here (`t.check()` reports them); rows written since are added.

Source: ENGINE.md 5.12, FORMAT.md 3.6; `PaimonScan.estimateStatistics`, `StatisticsHelper`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from lakekit.draw import cards
from lakekit.draw.humanize import format_size, plural
from lakekit.errors import LakekitError
from lakekit.metadata import refs, snapshots
from lakekit.model.snapshot import fixed_length_bytes
from lakekit.predicate import And, Leaf, Or, Predicate, describe, to_internal_literal
from lakekit.read import aggregate_pushdown, polars_pushdown, user_expressions
from lakekit.read.filter_pushdown import filter_to_pyarrow_text
from lakekit.read.planner import NO_FILTER, Step
from lakekit.read.polars_pushdown import parse_exact
from lakekit.read.user_expressions import check_temporal_comparisons
from lakekit.types import BINARIES, STRINGS, TIMESTAMPS, Instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import polars as pl
    from polars.lazyframe.resolver import FilterExpr

    from lakekit.model.index_manifest import DeletionRange
    from lakekit.model.snapshot import ColumnStatistics, Statistics
    from lakekit.read.planner import Plan
    from lakekit.read.table_scan import TableScan
    from lakekit.types import DataType, Field


_ROW_BYTES, _TEXT_BYTES = 8, 12
"""What Spark adds to a row, and to a text or bytes."""
_GUESSED_BYTES = 20
"""Of a text or bytes of which nothing is known."""
_RANGE_OPERATORS = ("<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The expected rows, and their bytes in Spark's memory.

    `analyzed_snapshot_id` is the snapshot of the statistics; None: there are none, and `rows` is an upper bound.
    """

    rows: int
    size_bytes: int
    analyzed_snapshot_id: int | None


@dataclass(frozen=True, slots=True)
class _Column:
    """The statistics of a column: shares of rows, and bounds as `_to_comparable` returns them."""

    type: DataType
    non_null_fraction: float
    distinct: int | None
    low: float | str | None
    high: float | str | None


def estimate_plan(plan: Plan, fields: Sequence[Field]) -> Estimate:
    """Return the estimate for the columns `fields` of a plan.

    Reads the file of the snapshot's statistics, if it has one.
    """
    files = plan.selected_indices
    stored, file_bytes = (int(plan.entries.integers(name)[files].sum()) for name in ("row_count", "file_size"))
    table_stats = _read_statistics(plan)
    column_stats = {} if table_stats is None else {column.column_id: column for column in table_stats.columns.values()}
    rows = stored if table_stats is None else min(stored, _estimate_rows(plan, table_stats, column_stats))
    full_row_bytes = sum(
        _estimate_value_bytes(field.type, column_stats.get(field.id)) for field in plan.ctx.schema.fields
    )
    row_bytes = sum(_estimate_value_bytes(field.type, column_stats.get(field.id)) for field in fields)
    # files are compressed: rows are no smaller than their share of them
    least = file_bytes * rows * min(row_bytes, full_row_bytes) // max(1, stored * full_row_bytes)
    return Estimate(
        rows=rows,
        size_bytes=max(rows * (row_bytes + _ROW_BYTES), least),
        analyzed_snapshot_id=None if table_stats is None else table_stats.snapshot_id,
    )


def _read_statistics(plan: Plan) -> Statistics | None:
    if plan.snapshot is None:
        return None
    try:
        table_stats = refs.read_statistics(plan.ctx, plan.snapshot)
    except LakekitError:
        return None
    return None if table_stats is None or table_stats.merged_record_count is None else table_stats


def _estimate_rows(plan: Plan, table_stats: Statistics, column_stats: Mapping[int, ColumnStatistics]) -> int:
    """Return how many rows of the table satisfy the condition; at least 1, unless statistics say none."""
    selectivity = _estimate_selectivity(
        plan.scan_filter.predicate, _column_statistics(plan, table_stats, column_stats).get
    )
    rows = (max(0, table_stats.merged_record_count or 0) + _count_rows_since(plan, table_stats)) * selectivity
    return max(1, round(rows)) if rows > 0 else 0


def _count_rows_since(plan: Plan, table_stats: Statistics) -> int:
    """Return how many more rows the table's files have than at analysis; 0 if that snapshot has expired."""
    assert plan.snapshot is not None
    try:
        then = snapshots.read_snapshot(plan.ctx, table_stats.snapshot_id).total_record_count
    except LakekitError:
        return 0
    return 0 if then is None else max(0, (plan.snapshot.total_record_count or 0) - then)


def _column_statistics(
    plan: Plan, table_stats: Statistics, column_stats: Mapping[int, ColumnStatistics]
) -> dict[str, _Column]:
    """Return the statistics of today's columns, by name."""
    rows, columns = max(1, table_stats.merged_record_count or 0), {}
    for field in plan.ctx.schema.fields:
        if (stats := column_stats.get(field.id)) is not None:
            nulls = min(1.0, max(0, stats.null_count or 0) / rows)
            columns[field.name] = _Column(
                field.type,
                1 - nulls,
                stats.distinct_count,
                _parse_bound(stats.min, field.type),
                _parse_bound(stats.max, field.type),
            )
    return columns


# ---- shares ----------------------------------------------------------------------------------------------------------


def _estimate_selectivity(predicate: Predicate, column_of: Callable[[str], _Column | None]) -> float:
    """Return which share of the rows satisfies a condition."""
    match predicate:
        case And(parts):
            ranges: dict[str, list[Leaf]] = {}
            selectivity = 1.0
            for part in parts:
                if isinstance(part, Leaf) and part.op in _RANGE_OPERATORS:
                    ranges.setdefault(part.column, []).append(part)
                else:
                    selectivity *= _estimate_selectivity(part, column_of)
            return selectivity * math.prod(
                _range_selectivity(column_of(name), leaves) for name, leaves in ranges.items()
            )
        case Or(parts):
            return 1 - math.prod(1 - _estimate_selectivity(part, column_of) for part in parts)
    return _leaf_selectivity(predicate, column_of(predicate.column))


def _leaf_selectivity(leaf: Leaf, column: _Column | None) -> float:
    """Return the share of one comparison; all rows for a column without statistics."""
    if column is None:
        return 1.0
    match leaf.op:
        case "=" | "in":
            return _equality_selectivity(leaf, column)
        case "!=" | "not in":
            return (
                column.non_null_fraction - _equality_selectivity(leaf, column)
                if column.distinct
                else column.non_null_fraction
            )
        case "is null":
            return 1 - column.non_null_fraction
        case "is not null" | "starts with":
            return column.non_null_fraction
    return _range_selectivity(column, [leaf])


def _equality_selectivity(leaf: Leaf, column: _Column) -> float:
    """Return the share of rows that have one of some values."""
    inside = sum(
        _is_inside(_to_comparable(to_internal_literal(value, column.type)), column) for value in set(leaf.literals)
    )
    return (
        column.non_null_fraction * min(1.0, inside / column.distinct)
        if column.distinct
        else column.non_null_fraction * min(1, inside)
    )


def _is_inside(value: float | str | None, column: _Column) -> bool:
    if value is None or column.low is None or column.high is None:
        return True
    return not _is_less(value, column.low) and not _is_less(column.high, value)


def _range_selectivity(column: _Column | None, leaves: Sequence[Leaf]) -> float:
    """Return the share of rows within all of some ranges of one column."""
    if column is None:
        return 1.0
    low, high = column.low, column.high
    if low is None or high is None:
        return column.non_null_fraction
    first, last = low, high
    for leaf in leaves:
        value = _to_comparable(to_internal_literal(leaf.literals[0], column.type))
        if value is None:
            continue
        if leaf.op in (">", ">="):
            first = value if _is_less(first, value) else first
        else:
            last = value if _is_less(value, last) else last
    if _is_less(last, first):
        return 0.0
    if isinstance(low, str) or isinstance(high, str) or isinstance(first, str) or isinstance(last, str) or low == high:
        return column.non_null_fraction
    least = 1 / max(1, column.distinct or 1) if first == last else 0.0
    return column.non_null_fraction * min(1.0, max(least, (last - first) / (high - low)))


def _is_less(left: float | str, right: float | str) -> bool:
    if isinstance(left, str) or isinstance(right, str):
        return isinstance(left, str) and isinstance(right, str) and left < right
    return left < right


def _to_comparable(value: object) -> float | str | None:
    """Return an internal value in a form that compares: texts as they are, all else as numbers."""
    if isinstance(value, Instant):
        return value.millis + value.nanos / 1e6
    if value is None or isinstance(value, (str, bytes)):
        return value if isinstance(value, str) else None
    number = float(value)  # type: ignore[arg-type] # whole numbers, reals, decimals and truths
    return number if math.isfinite(number) else None


def _parse_bound(text: str | None, t: DataType) -> float | str | None:
    """Return a bound of statistics in comparable form; None if it cannot be parsed."""
    if text is None or t.root in STRINGS:
        return text
    try:
        if t.root in TIMESTAMPS:
            return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000
        if t.root == "BOOLEAN":
            return float(("false", "true").index(text.lower()))
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


# ---- lengths ---------------------------------------------------------------------------------------------------------


def _estimate_value_bytes(t: DataType, stats: ColumnStatistics | None = None) -> int:
    """Return the bytes of a value of a type in Spark; of an array or a map those of one element."""
    if t.root in STRINGS or t.root in BINARIES:
        average = None if stats is None else stats.avg_length_bytes
        return _TEXT_BYTES + (_GUESSED_BYTES if average is None else max(0, average))
    if t.root == "VARIANT":
        return 2 * (_TEXT_BYTES + _GUESSED_BYTES)
    return sum(_estimate_value_bytes(part) for part in t.parts) if t.parts else fixed_length_bytes(t)


# ---- explain ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """The pruning funnel of a scan: `files_read` of `files_total` files, and why.

    Attributes:
        rows_total, rows_read: stored rows, every version of a key.
        bytes_total: None if manifests were never opened.
        merge: how rows of overlapping files are merged, in words.
        branches: if a scan reads two branches (`scan.fallback-branch`, `scan.primary-branch`), each with its snapshot,
            in the order in which partitions are looked up. The numbers are then sums, and each step names its branch.
        rows_expected: about how many rows the scan yields, by the statistics that `t.analyze()` left of
            `analyzed_snapshot_id`; None without.
    """

    table: str
    snapshot_id: int | None
    schema_id: int
    condition: str | None
    steps: tuple[Step, ...]
    files_total: int
    files_read: int
    rows_total: int
    rows_read: int
    bytes_total: int | None
    bytes_read: int
    vector_count: int
    deleted_row_count: int
    merge: str
    branches: tuple[tuple[str, int | None], ...] = ()
    rows_expected: int | None = None
    analyzed_snapshot_id: int | None = None

    @property
    def _title(self) -> str:
        at = _format_snapshot(self.snapshot_id) + ("" if self.snapshot_id is None else f" (schema {self.schema_id})")
        return f"{self.table} {at}" + ("" if self.condition is None else f"     filter  {self.condition}")

    @property
    def _last(self) -> list[str]:
        of_total = "" if self.bytes_total is None else f" of {format_size(self.bytes_total)}"
        lines = [
            (
                f"read     {self.files_read} of {plural(self.files_total, 'file')}, "
                f"{format_size(self.bytes_read)}{of_total}    merge: {self.merge}"
            )
        ]
        if self.rows_expected is not None:
            lines.append(
                f"expect   about {plural(self.rows_expected, 'row')}, by statistics of snapshot "
                f"{self.analyzed_snapshot_id}"
            )
        if self.vector_count:
            lines.insert(0, f"deletes  {plural(self.vector_count, 'vector')}, {plural(self.deleted_row_count, 'row')}")
        if self.branches:
            lines.insert(
                0,
                "branches "
                + ", then ".join(f"{name} {_format_snapshot(snapshot_id)}" for name, snapshot_id in self.branches),
            )
        return lines

    def __str__(self) -> str:
        steps = [(step.what, step.before, step.after, step.why) for step in self.steps]
        return "\n".join([cards.funnel_text(self._title, steps), *(f"  {line}" for line in self._last)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        steps = [(step.what, step.before, step.after, step.why) for step in self.steps]
        return cards.html_funnel(self._title, steps) + "".join(f"<p>{cards.escape(line)}</p>" for line in self._last)


def explain_scan(scan: TableScan, expr: pl.Expr | None, aggregates: Sequence[pl.Expr] = ()) -> Explain:
    """Return the funnel of a scan filtered by an expression.

    With `aggregates` file indexes are read, and the files that they answer are not counted.
    """
    if expr is not None:
        user_expressions.check_temporal_constants(expr, scan.ctx.name, "expr")
        check_temporal_comparisons(expr, scan.schema(), f"expr={expr} for {scan.ctx.name}")
    filters = () if expr is None else polars_pushdown.filters_of(expr, scan.schema())
    condition_text = None if expr is None else _format_filter(expr, filters)
    if aggregates:
        plans: Sequence[Plan] = aggregate_pushdown.answer_from_indexes(scan, aggregates, expr).plans
        return _build_explain(scan, plans, [_index_row_step(plan) for plan in plans], condition_text)
    scan_filter = NO_FILTER if expr is None else polars_pushdown.build_scan_filter(filters, scan.ctx.schema)[0]
    plans = scan.plans(scan_filter)
    rows = [_index_row_step(plan) for plan in plans]
    return _add_expected_rows(_build_explain(scan, plans, rows, condition_text), plans, rows, scan)


def _add_expected_rows(
    explain: Explain, plans: Sequence[Plan], rows: Sequence[Sequence[Step]], scan: TableScan
) -> Explain:
    """Return the funnel with the expected rows, if every snapshot has statistics.

    They are no more than the rows that file indexes select.
    """
    states = [(plan, steps) for plan, steps in zip(plans, rows, strict=True) if plan.snapshot is not None]
    estimates = [(estimate_plan(plan, scan.fields), steps) for plan, steps in states]
    if not estimates or any(estimated.analyzed_snapshot_id is None for estimated, _ in estimates):
        return explain
    expected = sum(min([estimated.rows, *(step.after for step in steps)]) for estimated, steps in estimates)
    return replace(explain, rows_expected=expected, analyzed_snapshot_id=estimates[0][0].analyzed_snapshot_id)


def _format_filter(expr: pl.Expr, filters: Sequence[FilterExpr]) -> str:
    """Return a filter as a person writes it, from its conjuncts as Polars hands them over."""
    predicates = [parse_exact(filter_to_pyarrow_text(filter_expr)) for filter_expr in filters]
    # Polars hands over the last conjunct first
    parts = [
        str(filter_expr.expr) if predicate is None else describe(predicate)
        for predicate, filter_expr in zip(predicates, filters, strict=True)
    ][::-1]
    if len(parts) < 2:
        return parts[0] if parts else str(expr)
    return " & ".join(f"({part})" for part in parts)


def _build_explain(
    scan: TableScan, plans: Sequence[Plan], rows: Sequence[Sequence[Step]], condition_text: str | None
) -> Explain:
    """Return the counts of the plans, branch after branch, with the `rows` that file indexes select in each."""
    own = next(plan for plan in plans if plan.ctx.branch == scan.ctx.branch)
    states = [plan for plan in plans if plan.snapshot is not None]
    sizes = [plan.bytes_total for plan in states if plan.bytes_total is not None]
    vectors = [vector for plan in plans for vector in _deletion_ranges(plan)]
    merges = [
        _describe_merge(plan) + (f" of {plan.ctx.branch}" if len(plans) > 1 else "")
        for plan in plans
        if plan.merged_buckets
    ]
    return Explain(
        table=own.ctx.name,
        snapshot_id=None if own.snapshot is None else own.snapshot.id,
        schema_id=own.ctx.schema.id,
        condition=condition_text,
        steps=tuple(
            _add_branch_name(step, plan.ctx.branch) if len(plans) > 1 else step
            for plan, named in zip(plans, rows, strict=True)
            for step in (*plan.steps, *named)
        ),
        files_total=sum(plan.files_total for plan in plans),
        files_read=sum(len(plan.selected_indices) for plan in plans),
        rows_total=sum(plan.snapshot.total_record_count or 0 for plan in plans if plan.snapshot is not None),
        rows_read=sum(_sum_column(plan, "row_count") for plan in plans),
        bytes_total=sum(sizes) if states and len(sizes) == len(states) else None,
        bytes_read=sum(_sum_column(plan, "file_size") for plan in plans),
        vector_count=len(vectors),
        deleted_row_count=sum(deletion.cardinality or 0 for deletion in vectors),
        merge=", ".join(merges) or "none",
        branches=tuple((plan.ctx.branch, None if plan.snapshot is None else plan.snapshot.id) for plan in plans)
        if len(plans) > 1
        else (),
    )


def _format_snapshot(snapshot_id: int | None) -> str:
    return "without snapshot" if snapshot_id is None else f"at snapshot {snapshot_id}"


def _add_branch_name(step: Step, branch: str) -> Step:
    return replace(step, what=f"{step.what} of {branch}")


def _index_row_step(plan: Plan) -> tuple[Step, ...]:
    """Return the step of rows that indexes select in the remaining files: the others satisfy no filter."""
    if not len(plan.raw_indices) or not plan.matching_positions:
        return ()
    names = plan.entries.column("file_name").take(pa.array(plan.raw_indices)).to_pylist()  # scalar: one a file
    counts = plan.entries.integers("row_count")[plan.raw_indices].tolist()  # scalar: one a file
    # scalar: one a file
    spared = sum(
        count - len(plan.matching_positions[name])
        for name, count in zip(names, counts, strict=True)
        if name in plan.matching_positions
    )
    before = _sum_column(plan, "row_count")
    return (Step("rows", before, before - spared, "named by file index"),) if spared else ()


def _sum_column(plan: Plan, column: str) -> int:
    return int(plan.entries.integers(column)[plan.selected_indices].sum())


def _deletion_ranges(plan: Plan) -> Iterable[DeletionRange]:
    """Return the deletion vectors of the files that will be read."""
    # scalar: one a file
    names = (
        set(plan.entries.column("file_name").take(plan.selected_indices).to_pylist()) if plan.vector_entries else set()
    )
    return {
        r.file_name: r for entry in plan.vector_entries.values() for r in entry.ranges or () if r.file_name in names
    }.values()


def _describe_merge(plan: Plan) -> str:
    files = sum(len(bucket.files) for bucket in plan.merged_buckets)
    engine = "" if plan.spec is None else f" by {plan.spec.engine}"
    return f"{plural(files, 'file')} whose keys overlap, in {plural(len(plan.merged_buckets), 'bucket')}{engine}"
