"""Folds that no column operation expresses, one key after another.

They are for maps with times, nested tables, bitmaps, and for retractions from collections: only for such functions, and
only for keys with several versions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit.lsm.row_versions import ADD, RETRACT, REVERSE, SET, SET_RETRACT

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.lsm.numpy_columns import Array
    from lakekit.lsm.row_versions import Versions


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarFold:
    """A function on two values. `reversed_agg` None: the arguments of `agg` are swapped."""

    agg: Callable[[Any, Any], Any]
    retract: Callable[[Any, Any], Any] | None = None
    reversed_agg: Callable[[Any, Any], Any] | None = None


def fold(versions: Versions, column: pl.Series, ops: Array | None, scalar: ScalarFold) -> pl.Series:
    """Return one value for each key, of a column whose values are plain: texts and bytes."""
    values = column.gather(versions.rows).to_list()  # scalar: functions on whole values
    return pl.Series(column.name, fold_values(versions, values, ops, scalar), dtype=column.dtype)


def fold_values(versions: Versions, values: list[Any], ops: Array | None, scalar: ScalarFold) -> list[Any]:
    """Return one value for each key, from values laid out like `versions.rows`."""
    accumulators: list[Any] = [None] * versions.count
    op_list = None if ops is None else scalars(ops)
    for step in versions.steps():
        for key, value in enumerate(values[step]):  # scalar: functions on whole values
            accumulators[key] = (
                scalar.agg(accumulators[key], value)
                if op_list is None
                else _apply_op(scalar, op_list[step.start + key], accumulators[key], value)
            )
    return accumulators


def scalars(array: Array) -> list[Any]:
    """Return an array's values as a list, for a fold by key."""
    return array.tolist()  # scalar: functions on whole values


def _apply_op(scalar: ScalarFold, op: int, accumulator: Any, value: Any) -> Any:
    if op == ADD:
        return scalar.agg(accumulator, value)
    if op == REVERSE:
        return (
            scalar.agg(value, accumulator) if scalar.reversed_agg is None else scalar.reversed_agg(accumulator, value)
        )
    if op in (RETRACT, SET_RETRACT) and scalar.retract is not None:
        return scalar.retract(value if op == SET_RETRACT else accumulator, value)
    return value if op in (SET, SET_RETRACT) else accumulator
