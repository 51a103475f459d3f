"""Pruning by statistics: which files may hold rows that satisfy a condition, by minima, maxima and null counts.

Works on columns: one numpy mask over all files at once. A file is dropped only if no row of it can satisfy the
condition (ENGINE 6.4); what is unknown keeps the file. Floating point columns are never dropped by their maximum: for
Polars NaN is the largest value, and statistics leave it out.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.predicate import And, Leaf, Or, Predicate, literal
from lakekit.types import INTEGERS, TIMESTAMPS, DataType, Instant
from lakekit.types.arrow import timestamp_unit, to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]

_UNIT_NS = {"ms": 1_000_000, "us": 1_000, "ns": 1}
_INT64 = range(-(2**63), 2**63)
_WIDE = Context(prec=38)
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
    def some(self) -> Mask:
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
            return stats.some.copy()
        case "starts with":
            return (
                _prefix(str(leaf.literals[0]), stats) & stats.some
                if stats.type.root in ("CHAR", "VARCHAR")
                else np.ones(len(stats.nulls), bool)
            )
        case "in":
            mask = np.zeros(len(stats.nulls), bool)
            for value in leaf.literals:
                mask |= _compare("=", value, stats)
            return mask & stats.some
        case "not in":
            mask = np.ones(len(stats.nulls), bool)
            for value in leaf.literals:
                mask &= _compare("!=", value, stats)
            return mask & stats.some
    return _compare(leaf.op, leaf.literals[0], stats) & stats.some


def _compare(op: str, value: object, stats: PruningStatistics) -> Mask:
    """Return whether each file may hold a row with `row op value`, ignoring null rows."""
    count = len(stats.nulls)
    if stats.numbers is not None:
        return _compare_integers(op, literal(value, stats.type), *stats.numbers)
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
    return as_mask(verdict)


def _compare_integers(op: str, value: Any, low: NDArray[Any], high: NDArray[Any]) -> Mask:
    """Do what `_compare` does, for bounds that are all known."""
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


def _prefix(prefix: str, stats: PruningStatistics) -> Mask:
    """Return which files may hold strings that start with `prefix`."""
    verdict = pc.greater_equal(stats.high, pa.scalar(prefix, stats.high.type))
    above = after_prefix(prefix)
    if above is not None:
        verdict = pc.and_kleene(verdict, pc.less(stats.low, pa.scalar(above, stats.low.type)))
    return as_mask(verdict)


def after_prefix(prefix: str) -> str | None:
    """Return the smallest string greater than every string with that prefix; None if there is none."""
    for at in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[at]) + 1
        code = 0xE000 if code == 0xD800 else code
        if code <= 0x10FFFF:
            return prefix[:at] + chr(code)
    return None


def as_mask(verdict: pa.Array) -> Mask:
    """Return Arrow's verdict as a mask; unknown keeps."""
    return np.asarray(pc.fill_null(verdict, True).to_numpy(zero_copy_only=False), dtype=bool)


def list_padded(text: str, length: int) -> list[str]:
    """Return the texts as which a CHAR of that length may have been hashed or indexed, if it is read as `text`.

    Rows of ORC files lose trailing blanks.
    """
    return [text + " " * more for more in range(max(0, length - len(text)) + 1)]


def as_scalar(value: object, t: DataType) -> pa.Scalar | None:
    """Return a literal as a scalar of the column's Arrow type; None if the column has no such value.

    Then nothing can be pruned.
    """
    internal = literal(value, t)
    if internal is None:
        return None
    if t.root in TIMESTAMPS:
        return _timestamp_scalar(internal, t)
    if t.root == "DECIMAL":
        return _decimal_scalar(internal, t)
    if t.root in INTEGERS and internal not in _INT64:
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
    return None if remainder or ticks not in _INT64 else pa.scalar(ticks, pa.int64()).cast(to_arrow(t))


def _decimal_scalar(value: Any, t: DataType) -> pa.Scalar | None:
    try:
        exact = value.quantize(Decimal(1).scaleb(-(t.scale or 0)), context=_WIDE)
    except InvalidOperation:
        return None
    if exact != value or len(exact.as_tuple().digits) > (t.precision or 10):
        return None
    return pa.scalar(exact, to_arrow(t))
