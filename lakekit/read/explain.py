"""What a scan would read and what planning left out, told by the code that plans: `t.explain()`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakekit.draw import html, text
from lakekit.draw.words import plural, size
from lakekit.predicate import words
from lakekit.read import lazy
from lakekit.read.condition import exactly
from lakekit.read.plan import ANYWHERE, Step

if TYPE_CHECKING:
    import polars as pl

    from lakekit.read.plan import Plan
    from lakekit.read.scan import Scan


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """The funnel of a scan: `files_read` of `files_total` files, and why. Rows are stored rows; `bytes_total` is None where manifests were never opened.

    `merge` says how rows of overlapping files become one, in words.
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

    @property
    def _title(self) -> str:
        at = "without snapshot" if self.snapshot_id is None else f"at snapshot {self.snapshot_id} (schema {self.schema_id})"
        return f"{self.table} {at}" + ("" if self.condition is None else f"     filter  {self.condition}")

    @property
    def _last(self) -> list[str]:
        of = "" if self.bytes_total is None else f" of {size(self.bytes_total)}"
        found = [f"read     {self.files_read} of {plural(self.files_total, 'file')}, {size(self.bytes_read)}{of}    merge: {self.merge}"]
        if self.vector_count:
            found.insert(0, f"deletes  {plural(self.vector_count, 'vector')}, {plural(self.deleted_row_count, 'row')}")
        return found

    def __str__(self) -> str:
        steps = [(step.what, step.before, step.after, step.why) for step in self.steps]
        return "\n".join([text.funnel(self._title, steps), *(f"  {line}" for line in self._last)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        steps = [(step.what, step.before, step.after, step.why) for step in self.steps]
        return html.funnel(self._title, steps) + "".join(f"<p>{html.escape(line)}</p>" for line in self._last)


def explain(scan: Scan, expr: pl.Expr | None) -> Explain:
    """The funnel of a scan filtered by an expression."""
    if expr is None:
        return of_plan(scan.plan(ANYWHERE), None)
    filters = lazy.filters_of(expr, scan.schema())
    condition, _ = lazy.condition_of(filters, scan.partition_keys, scan.keys)
    said = [exactly(found.pyarrow_str) for found in filters]
    # Polars hands over the last conjunct first
    parts = [str(found.expr) if one is None else words(one) for one, found in zip(said, filters, strict=True)][::-1]
    if len(parts) < 2:
        return of_plan(scan.plan(condition), parts[0] if parts else str(expr))
    return of_plan(scan.plan(condition), " & ".join(f"({part})" for part in parts))


def of_plan(plan: Plan, condition: str | None) -> Explain:
    """The funnel that a plan counted."""
    chosen = plan.chosen
    rows, sizes = plan.entries.numbers("row_count")[chosen], plan.entries.numbers("file_size")[chosen]
    names = set(plan.entries.column("file_name").take(chosen).to_pylist()) if plan.vectors else set()  # scalar: one a file
    ranges = {r.file_name: r for entry in plan.vectors.values() for r in entry.ranges if r.file_name in names}
    snapshot = plan.snapshot
    return Explain(
        table=plan.handle.name,
        snapshot_id=None if snapshot is None else snapshot.id,
        schema_id=plan.handle.schema.id,
        condition=condition,
        steps=plan.steps,
        files_total=plan.files_total,
        files_read=len(chosen),
        rows_total=0 if snapshot is None else snapshot.total_record_count or 0,
        rows_read=int(rows.sum()),
        bytes_total=plan.bytes_total,
        bytes_read=int(sizes.sum()),
        vector_count=len(ranges),
        deleted_row_count=sum(r.cardinality or 0 for r in ranges.values()),
        merge=_merge(plan),
    )


def _merge(plan: Plan) -> str:
    if not plan.merged:
        return "none"
    files = sum(len(bucket.files) for bucket in plan.merged)
    engine = "" if plan.rule is None else f" by {plan.rule.engine}"
    return f"{plural(files, 'file')} whose keys overlap, in {plural(len(plan.merged), 'bucket')}{engine}"
