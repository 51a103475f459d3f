"""Functions that choose one of the values: last and first, with and without nulls, largest and smallest, and the key itself.

The state of a key is the row whose value it has, so that any type takes one gather in the end, and columns that move together share it.

Source: ENGINE.md 3.4, `Field{LastValue,LastNonNullValue,FirstValue,FirstNonNullValue,Max,Min,PrimaryKey}Agg`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lakekit.errors import Unsupported
from lakekit.lsm.aggregates.contract import aggregate
from lakekit.lsm.numpy_columns import gather_with_nulls, is_whole, not_null_mask, put, series, take, to_comparable, values as numbers_of
from lakekit.lsm.row_versions import ADD, RETRACT, REVERSE, SET, SET_RETRACT
from lakekit.types import NESTED_TYPES

if TYPE_CHECKING:
    import polars as pl

    from lakekit.lsm.aggregates.contract import FieldFunction
    from lakekit.lsm.numpy_columns import Array, Bools, Ints
    from lakekit.lsm.row_versions import Versions

NO_ROW = -1
"""No row: the value is null."""


def last_rows(versions: Versions, ops: Array | None) -> Ints:
    """The row whose value each key has when every version replaces the one before."""
    held = np.full(versions.count, NO_ROW, np.int64)
    for step in versions.steps():
        rows, mine = versions.rows[step], held[: step.stop - step.start]
        if ops is None:
            mine[:] = rows
            continue
        op = ops[step]
        put(mine, rows, (op == ADD) | (op == SET))
        mine[(op == RETRACT) | (op == SET_RETRACT)] = NO_ROW
    return held


@aggregate("last_value", retracts=True)
def last_value(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:  # noqa: ARG001
    """The newest value, null or not; retracting anything leaves null."""
    return take(column, last_rows(versions, ops))


@aggregate("primary-key", retracts=True)
def primary_key(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:  # noqa: ARG001
    """The key: every version has it."""
    return take(column, versions.rows[versions.last()])


@aggregate("last_non_null_value", retracts=True)
def last_non_null_value(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:  # noqa: ARG001
    """The newest value that is there; retracting a value, whichever, leaves null."""
    there = not_null_mask(column)
    if ops is None:
        return gather_with_nulls(column, last_rows(versions, None) if there is None else _select_last_present(versions, there), there)
    held = np.full(versions.count, NO_ROW, np.int64)
    for step in versions.steps():
        rows, mine, op = versions.rows[step], held[: step.stop - step.start], ops[step]
        some = np.ones(len(rows), bool) if there is None else there[rows]
        put(mine, rows, ((op == ADD) & some) | ((op == REVERSE) & (mine == NO_ROW) & some) | (op == SET))
        mine[((op == RETRACT) | (op == SET_RETRACT)) & some] = NO_ROW
        mine[(op == SET) & ~some] = NO_ROW
    return take(column, held)


def _select_last_present(versions: Versions, there: Bools) -> Ints:
    """The row of each key's newest value that is there; of a key that has none, some row that has none."""
    held = versions.rows[: versions.count].copy()
    for step in versions.steps():
        if step.start:
            rows = versions.rows[step]
            put(held[: len(rows)], rows, there.take(rows))
    return held


@aggregate("first_value")
def first_value(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:  # noqa: ARG001
    """The oldest value, null or not. Whether a first value was seen outlives a replaced row, as in the reference."""
    return take(column, _first_rows(versions, ops, None))


@aggregate("first_non_null_value")
def first_non_null_value(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:  # noqa: ARG001
    """The oldest value that is there."""
    there = not_null_mask(column)
    return take(column, _first_rows(versions, ops, np.ones(len(column), bool) if there is None else there))


def _first_rows(versions: Versions, ops: Array | None, there: Bools | None) -> Ints:
    """`there` None: nulls count as values. A version in reverse is the accumulator, and what was held is its input."""
    held = np.full(versions.count, NO_ROW, np.int64)
    seen = np.zeros(versions.count, bool)
    for step in versions.steps():
        rows = versions.rows[step]
        mine, met = held[: len(rows)], seen[: len(rows)]
        op = np.full(len(rows), ADD, np.int8) if ops is None else ops[step]
        adds, back = op == ADD, op == REVERSE
        counts = np.ones(len(rows), bool) if there is None else there[rows]
        held_counts = np.ones(len(rows), bool) if there is None else (mine != NO_ROW) & there[np.maximum(mine, 0)]
        first = adds & ~met & counts
        older = back & (met | ~held_counts)
        kept = back & ~met & held_counts
        put(mine, rows, first | older | (op == SET))
        met |= first | kept
    return held


def _refuse_incomparable(function: FieldFunction) -> str | None:
    if function.type.root not in NESTED_TYPES and function.type.root not in ("VARIANT", "BLOB"):
        return None
    return f"Data type for {function.name} column must be comparable but was '{function.type}'."


@aggregate("max", refuses=_refuse_incomparable)
def max_(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """The largest value."""
    return _select_best(function, versions, column, ops, largest=True)


@aggregate("min", refuses=_refuse_incomparable)
def min_(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """The smallest value."""
    return _select_best(function, versions, column, ops, largest=False)


def _select_best(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None, *, largest: bool) -> pl.Series:
    if ops is None and is_whole(column.dtype) and function.type.root != "BOOLEAN" and not column.null_count():
        return _select_best_integers(versions, column, largest=largest)
    values = column.gather(versions.rows)
    order = to_comparable(values)
    there = not_null_mask(values)
    held = np.full(versions.count, NO_ROW, np.int64)
    best = np.zeros(versions.count, np.int64)
    for step in versions.steps():
        places, numbers = np.arange(step.start, step.stop), order[step]
        mine, peak = held[: len(places)], best[: len(places)]
        _refuse_booleans(function, (mine != NO_ROW) if there is None else (mine != NO_ROW) & there[step], ops, step)
        better = (mine == NO_ROW) | ((numbers > peak) if largest else (numbers < peak))
        if there is not None:
            better &= there[step]
        if ops is not None:
            op = ops[step]
            better = (better & ((op == ADD) | (op == REVERSE))) | (op == SET)
        put(mine, places, better)
        put(peak, numbers, better)
        if ops is not None and there is not None:
            mine[(ops[step] == SET) & ~there[step]] = NO_ROW
    return take(values, held)


def _refuse_booleans(function: FieldFunction, meets: Bools, ops: Array | None, step: slice) -> None:
    """Truth values have no order in 1.4.2: two that meet are refused. Case `aggregate_max_boolean_refused`."""
    if function.type.root == "BOOLEAN" and (meets if ops is None else meets & ((ops[step] == ADD) | (ops[step] == REVERSE))).any():
        raise Unsupported(
            f"Incomparable type: BOOLEAN: aggregate function {function.name!r} of column {function.column} compares no truth values; bool_or, bool_and do",
            feature=f"aggregate.{function.name}.boolean",
        )


def _select_best_integers(versions: Versions, column: pl.Series, *, largest: bool) -> pl.Series:
    """The same for whole numbers without nulls, which need no row to be remembered."""
    numbers = numbers_of(column)[versions.rows]
    best = numbers[: versions.count].copy()
    for step in versions.steps():
        mine = best[: step.stop - step.start]
        (np.maximum if largest else np.minimum)(mine, numbers[step], out=mine)
    return series(column, best, None)
