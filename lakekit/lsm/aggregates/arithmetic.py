"""Arithmetic: sum, product, count, and the two of truth values.

Integers wrap at the width of their column. Sums of floats run from the oldest version to the newest, one addition a version: the bits are the reference's.

Source: ENGINE.md 3.4, ENGINE_1.4.2 A 2 and B; `Field{Sum,Product,BoolAnd,BoolOr}Agg` of 1.4.2 and `FieldCountAgg` of 0.8.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lakekit.errors import ValueOutOfRange
from lakekit.lsm.aggregates import decimals
from lakekit.lsm.aggregates.contract import aggregate, roots
from lakekit.lsm.numpy_columns import not_null_mask, put, series, values
from lakekit.lsm.row_versions import ADD, RETRACT, REVERSE, SET, SET_RETRACT
from lakekit.types import INTEGERS

if TYPE_CHECKING:
    import polars as pl

    from lakekit.lsm.aggregates.contract import FieldFunction
    from lakekit.lsm.numpy_columns import Array, Bools
    from lakekit.lsm.row_versions import Versions

NUMBERS = ("DECIMAL", *INTEGERS, "FLOAT", "DOUBLE")


def arrange_values(versions: Versions, column: pl.Series, neutral: object) -> tuple[Array, Bools | None]:
    """The numbers of a column in the order of the versions, `neutral` where null, and which are there."""
    there = not_null_mask(column)
    numbers = values(column)[versions.rows]
    if there is None:
        return numbers, None
    some = there[versions.rows]
    put(numbers, np.full(len(numbers), neutral, numbers.dtype), ~some)
    return numbers, some


@aggregate("sum", refuses=roots("sum", "NumericType", *NUMBERS), retracts=True)
def sum_(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """All values added, nulls left out; a retracted value is subtracted, also from nothing."""
    if function.type.root == "DECIMAL":
        return decimals.total(function, versions, column, ops)
    # -0.0 + x is x for every x, 0.0 is not: 0.0 + -0.0 loses the sign
    neutral = -0.0 if column.dtype.is_float() else 0
    numbers, there = arrange_values(versions, column, neutral)
    total = np.full(versions.count, neutral, numbers.dtype)
    seen = np.zeros(versions.count, bool)
    with np.errstate(all="ignore"):
        for step in versions.steps():
            mine, met, here = total[: step.stop - step.start], seen[: step.stop - step.start], numbers[step]
            some = True if there is None else there[step]
            if ops is None:
                mine += here
                met |= some
                continue
            op = ops[step]
            counts = some & ((op == ADD) | (op == REVERSE) | (op == RETRACT))
            mine += np.where(counts, np.where(op == RETRACT, -here, here), np.asarray(neutral, here.dtype))
            met |= counts
            replaced = (op == SET) | (op == SET_RETRACT)
            np.copyto(mine, here, where=op == SET)
            np.copyto(mine, here - here, where=op == SET_RETRACT)
            np.copyto(met, some, where=replaced)
    return series(column, total, seen)


@aggregate("product", refuses=roots("product", "NumericType", *NUMBERS), retracts=True)
def product(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """All values multiplied, nulls left out; a retracted value divides (integers toward zero), but not nothing."""
    if function.type.root == "DECIMAL":
        return decimals.product(function, versions, column, ops)
    numbers, there = arrange_values(versions, column, 1)
    result = np.ones(versions.count, numbers.dtype)
    seen = np.zeros(versions.count, bool)
    with np.errstate(all="ignore"):
        for step in versions.steps():
            mine, met, here = result[: step.stop - step.start], seen[: step.stop - step.start], numbers[step]
            some = np.ones(len(here), bool) if there is None else there[step]
            op = np.full(len(here), ADD, np.int8) if ops is None else ops[step]
            added = some & ((op == ADD) | (op == REVERSE))
            np.copyto(mine, mine * here, where=added)
            replaced = (op == SET) | (op == SET_RETRACT)
            np.copyto(mine, here, where=replaced)
            np.copyto(met, some, where=replaced)
            met |= added
            divided = some & met & ((op == RETRACT) | (op == SET_RETRACT))
            if divided.any():
                np.copyto(mine, _quotient(function, mine, here, divided), where=divided)
    return series(column, result, seen)


def _quotient(function: FieldFunction, upper: Array, lower: Array, where: Bools) -> Array:
    if upper.dtype.kind == "f":
        return upper / lower
    if (lower[where] == 0).any():
        raise ValueOutOfRange(f"/ by zero: aggregate function 'product' of column {function.column} retracts a 0", column=function.column)
    safe = np.where(where, lower, 1).astype(lower.dtype)
    down = upper // safe
    return down + ((upper % safe != 0) & ((upper < 0) != (safe < 0))).astype(upper.dtype)


@aggregate("count", refuses=roots("count", "INT or BIGINT", "INT", "BIGINT"), retracts=True)
def count(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:  # noqa: ARG001
    """How many values were added less those retracted; never null. Engine 0.8.2 has it, later ones refuse it."""
    numbers, there = arrange_values(versions, column, 0)
    found = np.zeros(versions.count, numbers.dtype)
    seen = np.ones(versions.count, bool)
    for step in versions.steps():
        mine, met = found[: step.stop - step.start], seen[: step.stop - step.start]
        some = np.ones(len(mine), bool) if there is None else there[step]
        op = np.full(len(mine), ADD, np.int8) if ops is None else ops[step]
        adds, takes = (op == ADD) | (op == REVERSE), op == RETRACT
        mine += (some & adds).astype(mine.dtype) - (some & takes).astype(mine.dtype)
        met |= adds | takes
        replaced = (op == SET) | (op == SET_RETRACT)
        np.copyto(mine, numbers[step], where=replaced)
        np.copyto(met, some | (op == SET_RETRACT), where=replaced)
        mine -= (some & (op == SET_RETRACT)).astype(mine.dtype)
    return series(column, found, seen)


@aggregate("bool_and", refuses=roots("bool and", "BooleanType", "BOOLEAN"))
def bool_and(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:  # noqa: ARG001
    """Whether all values that are there are true."""
    return _truth(versions, column, ops, neutral=1)


@aggregate("bool_or", refuses=roots("bool or", "BooleanType", "BOOLEAN"))
def bool_or(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:  # noqa: ARG001
    """Whether any value is true."""
    return _truth(versions, column, ops, neutral=0)


def _truth(versions: Versions, column: pl.Series, ops: Array | None, *, neutral: int) -> pl.Series:
    numbers, there = arrange_values(versions, column, neutral)
    result = np.full(versions.count, neutral, numbers.dtype)
    seen = np.zeros(versions.count, bool)
    for step in versions.steps():
        mine, met, here = result[: step.stop - step.start], seen[: step.stop - step.start], numbers[step]
        some = np.ones(len(here), bool) if there is None else there[step]
        op = np.full(len(here), ADD, np.int8) if ops is None else ops[step]
        adds = (op == ADD) | (op == REVERSE)
        np.copyto(mine, (mine & here) if neutral else (mine | here), where=adds)
        met |= adds & some
        np.copyto(mine, here, where=op == SET)
        np.copyto(met, some, where=op == SET)
    return series(column, result, seen)
