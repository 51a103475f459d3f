"""Aggregate functions: a fold of all versions of a column at once, to one value for each key.

The functions are in `select_value`, `arithmetic`, `collections` and `roaring`, and with the extra `sketches` in
`lakekit.lsm.aggregates.sketches`; `function` has their contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lakekit import plugins
from lakekit.errors import ExtraMissing, InvalidOption, Unsupported

# imported because each declares its functions
from lakekit.lsm.aggregates import arithmetic, collections, roaring, select_value  # noqa: F401
from lakekit.lsm.aggregates.function import AGGREGATE_FUNCTIONS, Aggregate
from lakekit.lsm.row_versions import RETRACT, SET, SET_RETRACT, SKIP

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl

    from lakekit.lsm.merge_spec import FieldFunction, MergeSpec
    from lakekit.lsm.numpy_columns import Array
    from lakekit.lsm.row_versions import Versions

SKETCH_FUNCTIONS = frozenset({"hll_sketch", "theta_sketch"})


def function_names() -> tuple[str, ...]:
    """Return the names of all functions, those of extras included."""
    return tuple(sorted({*AGGREGATE_FUNCTIONS, *SKETCH_FUNCTIONS} - {"primary-key"}))


def find_aggregate(function: FieldFunction, spec: MergeSpec) -> Aggregate:
    """Return the aggregate of a function.

    Raises:
        Unsupported: the name is unknown, or its extra is not installed.
        InvalidOption: the function does not take the column's type.
    """
    if function.name in SKETCH_FUNCTIONS and function.name not in AGGREGATE_FUNCTIONS:
        try:
            plugins.load("lsm/aggregates", "sketches")
        except ExtraMissing as missing:
            raise ExtraMissing(
                f"column {function.column} of {spec.table_name} uses aggregate function {function.name}: pip install "
                "'lakekit[sketches]' brings what reads it",
                feature=f"aggregate.{function.name}",
                extra=missing.extra,
            ) from missing
    aggregate = AGGREGATE_FUNCTIONS.get(function.name)
    if aggregate is None:
        raise Unsupported(
            f"{spec.table_name} uses merge-engine {spec.engine!r} with function {function.name!r} on column "
            f"{function.column}; lakekit merges "
            f"{', '.join(function_names())}. Read other columns, or t.scan(raw=True) for unmerged rows",
            feature=f"aggregate.{function.name}",
        )
    wrong = aggregate.type_problem(function)
    if wrong is not None:
        key = f"fields.{function.column}.aggregate-function"
        raise InvalidOption(
            f"{wrong} ({spec.table_name}, column {function.column}, option {key!r})", key=key, value=function.name
        )
    return aggregate


def check_functions(spec: MergeSpec, columns: Iterable[str]) -> None:
    """Raise, as `find_aggregate` does, if a function of those columns is unknown or does not take the column's type.

    This is called before any row is read.
    """
    for name in columns:
        function = spec.functions.get(name)
        if function is not None:
            find_aggregate(function, spec)


def fold_column(
    function: FieldFunction, spec: MergeSpec, versions: Versions, column: pl.Series, ops: Array | None
) -> pl.Series:
    """Return one value for each key. Raises `Unsupported` if rows retract from a function that cannot."""
    aggregate = find_aggregate(function, spec)
    return aggregate.fold(function, versions, column, apply_ignored_retractions(function, spec, aggregate, ops))


def apply_ignored_retractions(
    function: FieldFunction, spec: MergeSpec, aggregate: Aggregate, ops: Array | None
) -> Array | None:
    """Return the operations of versions on a column, with retractions removed if the table ignores them.

    Raises:
        Unsupported: a version retracts, and the function cannot.
    """
    if ops is None:
        return None
    takes = (ops == RETRACT) | (ops == SET_RETRACT)
    if not takes.any():
        return ops
    if function.ignore_retract:
        return np.where(ops == RETRACT, SKIP, np.where(ops == SET_RETRACT, SET, ops))
    if not aggregate.can_retract:
        key = f"fields.{function.column}.ignore-retract"
        raise Unsupported(
            f"Aggregate function '{function.name}' does not support retraction: {spec.table_name} holds -U or -D rows "
            "of a "
            "key whose column "
            f"{function.column} uses it. If you allow this function to ignore retraction messages, you can configure "
            f"'{key}'='true'. t.scan(raw=True) reads the rows unmerged",
            feature=f"aggregate.{function.name}.retract",
        )
    return ops
