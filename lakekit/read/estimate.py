"""How many rows a plan will give, and how big they are together: what `t.explain()` expects, and what the planner of Spark is told.

    rows of the files that are left                          manifests count them, every version of a key
      and no more than rows × share of the condition         where `t.analyze()`, or ANALYZE of an engine, left statistics
    × length of the columns                                  fixed, or as statistics say, or a guess

    =, in                    what is no null / distinct values, for each value that lies within least and greatest
    <, <=, >, >=             as if values lay evenly between least and greatest; texts: all, or none
    is null, is not null     counted
    and, or                  as if columns had nothing to do with each other; ranges of one column are one range

An estimate answers nothing: no row is left out for it. Statistics that are gone or damaged are none here (`t.check()` names them), and rows that were
written since count on top. Source: ENGINE.md 5.12, FORMAT.md 3.6; `PaimonScan.estimateStatistics`, `StatisticsHelper`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakekit.errors import LakekitError
from lakekit.metadata import snapshots, statistics
from lakekit.model.statistics import fixed_length_bytes
from lakekit.predicate import And, Leaf, Or, Predicate, literal
from lakekit.types import BINARIES, STRINGS, TIMESTAMPS, Instant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lakekit.model.statistics import ColumnStatistics, Statistics
    from lakekit.read.planner import Plan
    from lakekit.types import DataType, Field

_ROW_BYTES, _TEXT_BYTES = 8, 12
"""What Spark adds to a row, and to a text or bytes."""
_GUESSED_BYTES = 20
"""Of a text or bytes of which nothing is known."""
_RANGES = ("<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Rows to expect, and their bytes as Spark holds them. `analyzed_snapshot_id` is what statistics are of; None: there are none, and `rows` is a bound."""

    rows: int
    size_bytes: int
    analyzed_snapshot_id: int | None


@dataclass(frozen=True, slots=True)
class _Column:
    """A column as statistics say it is: shares of rows, and bounds as `_to_comparable` gives them."""

    type: DataType
    present: float
    distinct: int | None
    low: float | str | None
    high: float | str | None


def estimate_plan(plan: Plan, fields: Sequence[Field]) -> Estimate:
    """What the columns `fields` of a plan will be. Reads the file of the snapshot's statistics, where it has one."""
    chosen = plan.chosen
    stored, file_bytes = (int(plan.entries.numbers(name)[chosen].sum()) for name in ("row_count", "file_size"))
    found = _statistics(plan)
    said = {} if found is None else {column.column_id: column for column in found.columns.values()}
    rows = stored if found is None else min(stored, _estimate_rows(plan, found, said))
    every = sum(_length(field.type, said.get(field.id)) for field in plan.ctx.schema.fields)
    some = sum(_length(field.type, said.get(field.id)) for field in fields)
    # files are compressed: rows are no smaller than their share of them
    least = file_bytes * rows * min(some, every) // max(1, stored * every)
    return Estimate(rows=rows, size_bytes=max(rows * (some + _ROW_BYTES), least), analyzed_snapshot_id=None if found is None else found.snapshot_id)


def _statistics(plan: Plan) -> Statistics | None:
    if plan.snapshot is None:
        return None
    try:
        found = statistics.read_statistics(plan.ctx, plan.snapshot)
    except LakekitError:
        return None
    return None if found is None or found.merged_record_count is None else found


def _estimate_rows(plan: Plan, found: Statistics, said: Mapping[int, ColumnStatistics]) -> int:
    """Rows of the whole table that satisfy the condition; one at least where statistics do not say that there is none."""
    share = _estimate_selectivity(plan.condition.predicate, _columns(plan, found, said).get)
    rows = (max(0, found.merged_record_count or 0) + _count_rows_since(plan, found)) * share
    return max(1, round(rows)) if rows > 0 else 0


def _count_rows_since(plan: Plan, found: Statistics) -> int:
    """Rows that the table's files have more than they had then; none where that snapshot is gone."""
    assert plan.snapshot is not None
    try:
        then = snapshots.read(plan.ctx, found.snapshot_id).total_record_count
    except LakekitError:
        return 0
    return 0 if then is None else max(0, (plan.snapshot.total_record_count or 0) - then)


def _columns(plan: Plan, found: Statistics, said: Mapping[int, ColumnStatistics]) -> dict[str, _Column]:
    """What statistics say of today's columns, by name."""
    rows, known = max(1, found.merged_record_count or 0), {}
    for field in plan.ctx.schema.fields:
        if (one := said.get(field.id)) is not None:
            nulls = min(1.0, max(0, one.null_count or 0) / rows)
            known[field.name] = _Column(field.type, 1 - nulls, one.distinct_count, _parse_bound(one.min, field.type), _parse_bound(one.max, field.type))
    return known


# ---- shares --------------------------------------------------------------------------------------------------------------------------------


def _estimate_selectivity(predicate: Predicate, known: Callable[[str], _Column | None]) -> float:
    """Which share of the rows satisfies a condition."""
    match predicate:
        case And(parts):
            ranges: dict[str, list[Leaf]] = {}
            share = 1.0
            for part in parts:
                if isinstance(part, Leaf) and part.op in _RANGES:
                    ranges.setdefault(part.column, []).append(part)
                else:
                    share *= _estimate_selectivity(part, known)
            return share * math.prod(_range_selectivity(known(name), leaves) for name, leaves in ranges.items())
        case Or(parts):
            return 1 - math.prod(1 - _estimate_selectivity(part, known) for part in parts)
    return _leaf_selectivity(predicate, known(predicate.column))


def _leaf_selectivity(leaf: Leaf, column: _Column | None) -> float:
    """The share of one comparison; all rows of a column of which nothing is known."""
    if column is None:
        return 1.0
    match leaf.op:
        case "=" | "in":
            return _equality_selectivity(leaf, column)
        case "!=" | "not in":
            return column.present - _equality_selectivity(leaf, column) if column.distinct else column.present
        case "is null":
            return 1 - column.present
        case "is not null" | "starts with":
            return column.present
    return _range_selectivity(column, [leaf])


def _equality_selectivity(leaf: Leaf, column: _Column) -> float:
    """The share of rows that are one of some values."""
    inside = sum(_is_inside(_to_comparable(literal(value, column.type)), column) for value in set(leaf.literals))
    return column.present * min(1.0, inside / column.distinct) if column.distinct else column.present * min(1, inside)


def _is_inside(place: float | str | None, column: _Column) -> bool:
    if place is None or column.low is None or column.high is None:
        return True
    return not _is_less(place, column.low) and not _is_less(column.high, place)


def _range_selectivity(column: _Column | None, leaves: Sequence[Leaf]) -> float:
    """The share of rows within all of some ranges of one column."""
    if column is None:
        return 1.0
    low, high = column.low, column.high
    if low is None or high is None:
        return column.present
    first, last = low, high
    for leaf in leaves:
        place = _to_comparable(literal(leaf.literals[0], column.type))
        if place is None:
            continue
        if leaf.op in (">", ">="):
            first = place if _is_less(first, place) else first
        else:
            last = place if _is_less(place, last) else last
    if _is_less(last, first):
        return 0.0
    if isinstance(low, str) or isinstance(high, str) or isinstance(first, str) or isinstance(last, str) or low == high:
        return column.present
    least = 1 / max(1, column.distinct or 1) if first == last else 0.0
    return column.present * min(1.0, max(least, (last - first) / (high - low)))


def _is_less(one: float | str, other: float | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and isinstance(other, str) and one < other
    return one < other


def _to_comparable(value: object) -> float | str | None:
    """An internal value on the line of its type: texts as they are, all else as numbers."""
    if isinstance(value, Instant):
        return value.millis + value.nanos / 1e6
    if value is None or isinstance(value, (str, bytes)):
        return value if isinstance(value, str) else None
    found = float(value)  # type: ignore[arg-type] # whole numbers, reals, decimals and truths
    return found if math.isfinite(found) else None


def _parse_bound(text: str | None, t: DataType) -> float | str | None:
    """A bound of statistics on the line of its type; None where it says nothing there."""
    if text is None or t.root in STRINGS:
        return text
    try:
        if t.root in TIMESTAMPS:
            return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000
        if t.root == "BOOLEAN":
            return float(("false", "true").index(text.lower()))
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


# ---- lengths -------------------------------------------------------------------------------------------------------------------------------


def _length(t: DataType, said: ColumnStatistics | None = None) -> int:
    """Bytes of a value of a type as Spark holds it; of an array or a map those of one element."""
    if t.root in STRINGS or t.root in BINARIES:
        known = None if said is None else said.avg_length_bytes
        return _TEXT_BYTES + (_GUESSED_BYTES if known is None else max(0, known))
    if t.root == "VARIANT":
        return 2 * (_TEXT_BYTES + _GUESSED_BYTES)
    return sum(_length(part) for part in t.parts) if t.parts else fixed_length_bytes(t)
