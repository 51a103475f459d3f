"""The interface of an aggregate function, and folds key by key for functions without a columnar version.

    @declare_aggregate("sum", refuses=require_type_roots("sum", "NumericType", *NUMBERS))
    def sum_(function, versions, column, ops): ...

`column` holds the section's rows, `versions` groups them by key, and `ops`, laid out like `versions.rows`, has the
operation of each version on its key's value (`row_versions.ADD`, …). None: all versions are added. The result has one
value for each key.

The folds key by key are used only for keys with several versions, and only for maps with times, nested tables, bitmaps,
and retractions from collections.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import polars as pl

from lakekit.lsm.row_versions import ADD, RETRACT, REVERSE, SET, SET_RETRACT, SKIP

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.lsm.merge_spec import FieldFunction
    from lakekit.lsm.numpy_columns import Array, Ints
    from lakekit.lsm.row_versions import Versions


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarFold:
    """A function on two values. If `reversed_agg` is None, `agg` is called with its arguments swapped instead."""

    agg: Callable[[Any, Any], Any]
    retract: Callable[[Any, Any], Any] | None = None
    reversed_agg: Callable[[Any, Any], Any] | None = None


def fold_by_key(versions: Versions, column: pl.Series, ops: Array | None, scalar: ScalarFold) -> pl.Series:
    """Return one value for each key, of a column whose values are plain: texts and bytes."""
    values = column.gather(versions.row_numbers).to_list()  # scalar: functions on whole values
    return pl.Series(column.name, fold_values(versions, values, ops, scalar), dtype=column.dtype)


def fold_values(versions: Versions, values: list[Any], ops: Array | None, scalar: ScalarFold) -> list[Any]:
    """Return one value for each key, from values laid out like `versions.rows`."""
    accumulators: list[Any] = [None] * versions.count
    op_list = None if ops is None else to_python_values(ops)
    for step in versions.iter_steps():
        for key, value in enumerate(values[step]):  # scalar: functions on whole values
            accumulators[key] = (
                scalar.agg(accumulators[key], value)
                if op_list is None
                else _apply_op(scalar, op_list[step.start + key], accumulators[key], value)
            )
    return accumulators


def to_python_values(array: Array) -> list[Any]:
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


# ---- contract ------------------------------------------------------------


class Fold(Protocol):
    """The code of an aggregate function."""

    def __call__(self, function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
        """Return one value for each key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """An aggregate function.

    `type_problem` returns a message on a column's type that the function does not take; None if it takes it.
    `can_retract`: the function supports retraction.
    """

    name: str
    fold: Fold
    type_problem: Callable[[FieldFunction], str | None]
    can_retract: bool


AGGREGATE_FUNCTIONS: dict[str, Aggregate] = {}
"""Every function that was declared, by name."""


def accept_any_type(function: FieldFunction) -> str | None:  # noqa: ARG001 - the signature of `type_problem`
    """Accept every type."""
    return None


def require_type_roots(function_name: str, expected_type: str, *allowed: str) -> Callable[[FieldFunction], str | None]:
    """Return a check that a column's type has one of those roots; the message is the reference's."""

    def refuses(function: FieldFunction) -> str | None:
        if function.type.root in allowed:
            return None
        return f"Data type for {function_name} column must be '{expected_type}' but was '{function.type}'."

    return refuses


def declare_aggregate(
    name: str, *, type_problem: Callable[[FieldFunction], str | None] = accept_any_type, can_retract: bool = False
) -> Callable[[Fold], Fold]:
    """Declare a function under its name in `fields.<column>.aggregate-function`. A name is declared once."""

    def declare(fold: Fold) -> Fold:
        if name in AGGREGATE_FUNCTIONS:
            msg = f"aggregate function {name!r} is declared twice"
            raise ValueError(msg)
        AGGREGATE_FUNCTIONS[name] = Aggregate(name=name, fold=fold, type_problem=type_problem, can_retract=can_retract)
        return fold

    return declare


@dataclass(frozen=True, slots=True, kw_only=True)
class Contributions:
    """The row versions that contribute to each key's value.

    They are grouped by key; within a key they have the order of their values in the result. `positions` are positions
    in `versions.rows`, `keys` the key number of each.
    """

    positions: Ints
    keys: Ints
    sets_whole_value: Array
    """A mask over the keys: those whose value one version sets, and no later version changes."""


def list_contributions(versions: Versions, ops: Array | None) -> Contributions:
    """Return the versions that contribute to each key's value, for functions that only collect.

    Versions that are skipped or replaced later are left out; versions with a reversed operation come first.
    """
    keys = versions.key_numbers()
    step = np.repeat(np.arange(len(versions.step_heights)), versions.step_heights)
    alone = np.zeros(versions.count, bool)
    if ops is None:
        return Contributions(positions=np.lexsort((step, keys)), keys=np.sort(keys), sets_whole_value=alone)
    replaces = (ops == SET) | (ops == SET_RETRACT)
    since = np.full(versions.count, -1)
    since[keys[replaces]] = step[replaces]
    used = np.flatnonzero((ops != SKIP) & (ops != RETRACT) & (step >= since[keys]))
    signed = np.where(ops[used] == REVERSE, -step[used] - 1, step[used])
    ordered = used[np.lexsort((signed, keys[used]))]
    alone[:] = (since >= 0) & (np.bincount(keys[used], minlength=versions.count) == 1)
    return Contributions(positions=ordered, keys=keys[ordered], sets_whole_value=alone)
