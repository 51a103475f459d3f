"""Arithmetic: sum, product, count, bool_and and bool_or.

Integers wrap at the width of their column. Sums of floats run from the oldest version to the newest, one addition for
each version: the bits are the reference's.

Source: ENGINE.md 3.4, ENGINE_1.4.2 A 2 and B; `Field{Sum,Product,BoolAnd,BoolOr}Agg` of 1.4.2 and `FieldCountAgg` of
0.8.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lakekit.errors import ValueOutOfRange
from lakekit.lsm.aggregates import decimals
from lakekit.lsm.aggregates.function import declare_aggregate, require_type_roots
from lakekit.lsm.numpy_columns import assign_where, from_physical, not_null_mask, physical_values
from lakekit.lsm.row_versions import ADD, RETRACT, REVERSE, SET, SET_RETRACT
from lakekit.types import INTEGERS

if TYPE_CHECKING:
    import polars as pl

    from lakekit.lsm.merge_spec import FieldFunction
    from lakekit.lsm.numpy_columns import Array, Bools
    from lakekit.lsm.row_versions import Versions

NUMERIC_ROOTS = ("DECIMAL", *INTEGERS, "FLOAT", "DOUBLE")


def arrange_values(versions: Versions, column: pl.Series, neutral: object) -> tuple[Array, Bools | None]:
    """Return the numbers of a column in the order of the versions, `neutral` where null, and which are not null."""
    not_null = not_null_mask(column)
    numbers = physical_values(column)[versions.row_numbers]
    if not_null is None:
        return numbers, None
    present = not_null[versions.row_numbers]
    assign_where(numbers, np.full(len(numbers), neutral, numbers.dtype), ~present)
    return numbers, present


@declare_aggregate("sum", type_problem=require_type_roots("sum", "NumericType", *NUMERIC_ROOTS), can_retract=True)
def fold_sum(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """Add all values, ignoring nulls; a retracted value is subtracted, also from nothing."""
    if function.type.root == "DECIMAL":
        return decimals.sum_decimals(function, versions, column, ops)
    # -0.0 + x is x for every x, 0.0 is not: 0.0 + -0.0 loses the sign
    neutral = -0.0 if column.dtype.is_float() else 0
    numbers, present = arrange_values(versions, column, neutral)
    total = np.full(versions.count, neutral, numbers.dtype)
    seen = np.zeros(versions.count, bool)
    with np.errstate(all="ignore"):
        for step in versions.iter_steps():
            mine, met, addends = total[: step.stop - step.start], seen[: step.stop - step.start], numbers[step]
            is_present = True if present is None else present[step]
            if ops is None:
                mine += addends
                met |= is_present
                continue
            op = ops[step]
            counts = is_present & ((op == ADD) | (op == REVERSE) | (op == RETRACT))
            mine += np.where(counts, np.where(op == RETRACT, -addends, addends), np.asarray(neutral, addends.dtype))
            met |= counts
            replaced = (op == SET) | (op == SET_RETRACT)
            np.copyto(mine, addends, where=op == SET)
            np.copyto(mine, addends - addends, where=op == SET_RETRACT)
            np.copyto(met, is_present, where=replaced)
    return from_physical(column, total, seen)


@declare_aggregate(
    "product", type_problem=require_type_roots("product", "NumericType", *NUMERIC_ROOTS), can_retract=True
)
def fold_product(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """Multiply all values, ignoring nulls; a retracted value divides (integers toward zero), but not nothing."""
    if function.type.root == "DECIMAL":
        return decimals.multiply_decimals(function, versions, column, ops)
    numbers, present = arrange_values(versions, column, 1)
    result = np.ones(versions.count, numbers.dtype)
    seen = np.zeros(versions.count, bool)
    with np.errstate(all="ignore"):
        for step in versions.iter_steps():
            mine, met, factors = result[: step.stop - step.start], seen[: step.stop - step.start], numbers[step]
            is_present = np.ones(len(factors), bool) if present is None else present[step]
            op = np.full(len(factors), ADD, np.int8) if ops is None else ops[step]
            added = is_present & ((op == ADD) | (op == REVERSE))
            np.copyto(mine, mine * factors, where=added)
            replaced = (op == SET) | (op == SET_RETRACT)
            np.copyto(mine, factors, where=replaced)
            np.copyto(met, is_present, where=replaced)
            met |= added
            divided = is_present & met & ((op == RETRACT) | (op == SET_RETRACT))
            if divided.any():
                np.copyto(mine, _divide_retracted(function, mine, factors, divided), where=divided)
    return from_physical(column, result, seen)


def _divide_retracted(function: FieldFunction, upper: Array, lower: Array, mask: Bools) -> Array:
    if upper.dtype.kind == "f":
        return upper / lower
    if (lower[mask] == 0).any():
        raise ValueOutOfRange(
            f"/ by zero: aggregate function 'product' of column {function.column} retracts a 0", column=function.column
        )
    safe = np.where(mask, lower, 1).astype(lower.dtype)
    down = upper // safe
    return down + ((upper % safe != 0) & ((upper < 0) != (safe < 0))).astype(upper.dtype)


@declare_aggregate(
    "count", type_problem=require_type_roots("count", "INT or BIGINT", "INT", "BIGINT"), can_retract=True
)
def fold_count(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:  # noqa: ARG001
    """Count the values added less those retracted; never null. Engine 0.8.2 has it, later ones refuse it."""
    numbers, present = arrange_values(versions, column, 0)
    counts = np.zeros(versions.count, numbers.dtype)
    seen = np.ones(versions.count, bool)
    for step in versions.iter_steps():
        mine, met = counts[: step.stop - step.start], seen[: step.stop - step.start]
        is_present = np.ones(len(mine), bool) if present is None else present[step]
        op = np.full(len(mine), ADD, np.int8) if ops is None else ops[step]
        adds, takes = (op == ADD) | (op == REVERSE), op == RETRACT
        mine += (is_present & adds).astype(mine.dtype) - (is_present & takes).astype(mine.dtype)
        met |= adds | takes
        replaced = (op == SET) | (op == SET_RETRACT)
        np.copyto(mine, numbers[step], where=replaced)
        np.copyto(met, is_present | (op == SET_RETRACT), where=replaced)
        mine -= (is_present & (op == SET_RETRACT)).astype(mine.dtype)
    return from_physical(column, counts, seen)


@declare_aggregate("bool_and", type_problem=require_type_roots("bool and", "BooleanType", "BOOLEAN"))
def fold_bool_and(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:  # noqa: ARG001
    """Return whether all values that are not null are true."""
    return _fold_booleans(versions, column, ops, neutral=1)


@declare_aggregate("bool_or", type_problem=require_type_roots("bool or", "BooleanType", "BOOLEAN"))
def fold_bool_or(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:  # noqa: ARG001
    """Return whether any value is true."""
    return _fold_booleans(versions, column, ops, neutral=0)


def _fold_booleans(versions: Versions, column: pl.Series, ops: Array | None, *, neutral: int) -> pl.Series:
    numbers, present = arrange_values(versions, column, neutral)
    result = np.full(versions.count, neutral, numbers.dtype)
    seen = np.zeros(versions.count, bool)
    for step in versions.iter_steps():
        mine, met, operands = result[: step.stop - step.start], seen[: step.stop - step.start], numbers[step]
        is_present = np.ones(len(operands), bool) if present is None else present[step]
        op = np.full(len(operands), ADD, np.int8) if ops is None else ops[step]
        adds = (op == ADD) | (op == REVERSE)
        np.copyto(mine, (mine & operands) if neutral else (mine | operands), where=adds)
        met |= adds & is_present
        np.copyto(mine, operands, where=op == SET)
        np.copyto(met, is_present, where=op == SET)
    return from_physical(column, result, seen)
