"""What a scan would read and what planning dropped, counted by the planner itself: `t.explain()`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lakekit.draw import cards, html
from lakekit.draw.humanize import format_size, plural
from lakekit.predicate import describe
from lakekit.read import aggregate_pushdown, estimate, far, lazy
from lakekit.read.condition import parse_exact
from lakekit.read.planner import NO_FILTER, Step
from lakekit.read.spelled import pyarrow_text
from lakekit.read.user_expressions import check_times

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import polars as pl
    from polars.lazyframe.resolver import FilterExpr

    from lakekit.model.index_file import DeletionRange
    from lakekit.read.planner import Plan
    from lakekit.read.table_scan import TableScan


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
        return "\n".join([cards.funnel(self._title, steps), *(f"  {line}" for line in self._last)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        steps = [(step.what, step.before, step.after, step.why) for step in self.steps]
        return html.funnel(self._title, steps) + "".join(f"<p>{html.escape(line)}</p>" for line in self._last)


def explain(scan: TableScan, expr: pl.Expr | None, aggregates: Sequence[pl.Expr] = ()) -> Explain:
    """Return the funnel of a scan filtered by an expression.

    With `aggregates` file indexes are read, and the files that they answer are not counted.
    """
    if expr is not None:
        far.check_printable_times(expr, scan.ctx.name, "expr")
        check_times(expr, scan.schema(), f"expr={expr} for {scan.ctx.name}")
    filters = () if expr is None else lazy.filters_of(expr, scan.schema())
    condition_text = None if expr is None else _format_filter(expr, filters)
    if aggregates:
        plans: Sequence[Plan] = aggregate_pushdown.answer_from_indexes(scan, aggregates, expr).plans
        return _build_explain(scan, plans, [_rows(plan) for plan in plans], condition_text)
    condition = NO_FILTER if expr is None else lazy.condition_of(filters, scan.ctx.schema)[0]
    plans = scan.plans(condition)
    rows = [_rows(plan) for plan in plans]
    return _add_expected_rows(_build_explain(scan, plans, rows, condition_text), plans, rows, scan)


def _add_expected_rows(
    explained: Explain, plans: Sequence[Plan], rows: Sequence[Sequence[Step]], scan: TableScan
) -> Explain:
    """Return the funnel with the expected rows, if every snapshot has statistics.

    They are no more than the rows that file indexes select.
    """
    states = [(plan, steps) for plan, steps in zip(plans, rows, strict=True) if plan.snapshot is not None]
    estimates = [(estimate.estimate_plan(plan, scan.fields), steps) for plan, steps in states]
    if not estimates or any(estimated.analyzed_snapshot_id is None for estimated, _ in estimates):
        return explained
    expected = sum(min([estimated.rows, *(step.after for step in steps)]) for estimated, steps in estimates)
    return replace(explained, rows_expected=expected, analyzed_snapshot_id=estimates[0][0].analyzed_snapshot_id)


def _format_filter(expr: pl.Expr, filters: Sequence[FilterExpr]) -> str:
    """Return a filter as a person writes it, from its conjuncts as Polars hands them over."""
    predicates = [parse_exact(pyarrow_text(filter_expr)) for filter_expr in filters]
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
    vectors = [vector for plan in plans for vector in _vectors(plan)]
    merges = [_merge(plan) + (f" of {plan.ctx.branch}" if len(plans) > 1 else "") for plan in plans if plan.merged]
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
        files_read=sum(len(plan.chosen) for plan in plans),
        rows_total=sum(plan.snapshot.total_record_count or 0 for plan in plans if plan.snapshot is not None),
        rows_read=sum(_sum(plan, "row_count") for plan in plans),
        bytes_total=sum(sizes) if states and len(sizes) == len(states) else None,
        bytes_read=sum(_sum(plan, "file_size") for plan in plans),
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


def _rows(plan: Plan) -> tuple[Step, ...]:
    """Return the step of rows that indexes select in the remaining files: the others satisfy no filter."""
    if not len(plan.raw) or not plan.hits:
        return ()
    names = plan.entries.column("file_name").take(pa.array(plan.raw)).to_pylist()  # scalar: one a file
    counts = plan.entries.numbers("row_count")[plan.raw].tolist()  # scalar: one a file
    # scalar: one a file
    spared = sum(count - len(plan.hits[name]) for name, count in zip(names, counts, strict=True) if name in plan.hits)
    before = _sum(plan, "row_count")
    return (Step("rows", before, before - spared, "named by file index"),) if spared else ()


def _sum(plan: Plan, column: str) -> int:
    return int(plan.entries.numbers(column)[plan.chosen].sum())


def _vectors(plan: Plan) -> Iterable[DeletionRange]:
    """Return the deletion vectors of the files that will be read."""
    # scalar: one a file
    names = set(plan.entries.column("file_name").take(plan.chosen).to_pylist()) if plan.vectors else set()
    return {
        r.file_name: r for entry in plan.vectors.values() for r in entry.ranges or () if r.file_name in names
    }.values()


def _merge(plan: Plan) -> str:
    files = sum(len(bucket.files) for bucket in plan.merged)
    engine = "" if plan.rule is None else f" by {plan.rule.engine}"
    return f"{plural(files, 'file')} whose keys overlap, in {plural(len(plan.merged), 'bucket')}{engine}"
