"""Functions that select a value (last, first, with and without nulls, max, min, the key); listagg.

    listagg    'a,b' + 'b,c'  ->  'a,b,b,c'        distinct: 'a,b,c'

The state of a key is the row whose value it has, so that any type takes one gather at the end, and columns of one
sequence group share it.

listagg joins texts with a delimiter; nulls and empty texts add nothing. With `distinct` the first text stays as it is,
and of a later text the parts are appended that are not empty and not in it already.

Source: ENGINE.md 3.4; `Field{LastValue,LastNonNullValue,FirstValue,FirstNonNullValue,Max,Min,PrimaryKey,Listagg}Agg`,
`BinaryStringUtils.splitByWholeSeparatorPreserveAllTokens`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lakekit.errors import Unsupported
from lakekit.lsm.aggregates import function as by_key
from lakekit.lsm.aggregates.function import declare_aggregate, list_contributions
from lakekit.lsm.numpy_columns import (
    assign_where,
    from_physical,
    gather_with_nulls,
    is_whole,
    not_null_mask,
    physical_values as numbers_of,
    take_rows,
    to_comparable,
)
from lakekit.lsm.row_versions import ADD, RETRACT, REVERSE, SET, SET_RETRACT
from lakekit.types import MAX_LENGTH, NESTED_TYPES

if TYPE_CHECKING:
    from lakekit.lsm.merge_spec import FieldFunction
    from lakekit.lsm.numpy_columns import Array, Bools, Ints
    from lakekit.lsm.row_versions import Versions


NO_ROW = -1
"""No row: the value is null."""


def last_rows(versions: Versions, ops: Array | None) -> Ints:
    """Return the row of each key's value if every version replaces the one before."""
    chosen_rows = np.full(versions.count, NO_ROW, np.int64)
    for step in versions.iter_steps():
        rows, mine = versions.row_numbers[step], chosen_rows[: step.stop - step.start]
        if ops is None:
            mine[:] = rows
            continue
        op = ops[step]
        assign_where(mine, rows, (op == ADD) | (op == SET))
        mine[(op == RETRACT) | (op == SET_RETRACT)] = NO_ROW
    return chosen_rows


@declare_aggregate("last_value", can_retract=True)
def last_value(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:  # noqa: ARG001
    """Return the newest value, null or not; any retraction leaves null."""
    return take_rows(column, last_rows(versions, ops))


@declare_aggregate("primary-key", can_retract=True)
def primary_key(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:  # noqa: ARG001
    """Return the key, which all versions have."""
    return take_rows(column, versions.row_numbers[versions.last_positions()])


@declare_aggregate("last_non_null_value", can_retract=True)
def last_non_null_value(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:  # noqa: ARG001
    """Return the newest value that is not null; retracting any value leaves null."""
    not_null = not_null_mask(column)
    if ops is None:
        return gather_with_nulls(
            column,
            last_rows(versions, None) if not_null is None else _select_last_present(versions, not_null),
            not_null,
        )
    chosen_rows = np.full(versions.count, NO_ROW, np.int64)
    for step in versions.iter_steps():
        rows, mine, op = versions.row_numbers[step], chosen_rows[: step.stop - step.start], ops[step]
        is_present = np.ones(len(rows), bool) if not_null is None else not_null[rows]
        assign_where(
            mine, rows, ((op == ADD) & is_present) | ((op == REVERSE) & (mine == NO_ROW) & is_present) | (op == SET)
        )
        mine[((op == RETRACT) | (op == SET_RETRACT)) & is_present] = NO_ROW
        mine[(op == SET) & ~is_present] = NO_ROW
    return take_rows(column, chosen_rows)


def _select_last_present(versions: Versions, not_null: Bools) -> Ints:
    """Return the row of each key's newest value that is not null; of a key without one, a row with null."""
    chosen_rows = versions.row_numbers[: versions.count].copy()
    for step in versions.iter_steps():
        if step.start:
            rows = versions.row_numbers[step]
            assign_where(chosen_rows[: len(rows)], rows, not_null.take(rows))
    return chosen_rows


@declare_aggregate("first_value")
def first_value(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:  # noqa: ARG001
    """Return the oldest value, null or not.

    That a first value was seen is remembered after the row is replaced, as in the reference.
    """
    return take_rows(column, _first_rows(versions, ops, None))


@declare_aggregate("first_non_null_value")
def first_non_null_value(
    function: FieldFunction,  # noqa: ARG001
    versions: Versions,
    column: pl.Series,
    ops: Array | None,
) -> pl.Series:
    """Return the oldest value that is not null."""
    not_null = not_null_mask(column)
    return take_rows(column, _first_rows(versions, ops, np.ones(len(column), bool) if not_null is None else not_null))


def _first_rows(versions: Versions, ops: Array | None, not_null: Bools | None) -> Ints:
    """Return the row of each key's first value; `not_null` None: nulls count as values.

    In a reversed operation the version is the accumulator, and the accumulator its input.
    """
    chosen_rows = np.full(versions.count, NO_ROW, np.int64)
    seen = np.zeros(versions.count, bool)
    for step in versions.iter_steps():
        rows = versions.row_numbers[step]
        mine, met = chosen_rows[: len(rows)], seen[: len(rows)]
        op = np.full(len(rows), ADD, np.int8) if ops is None else ops[step]
        adds, back = op == ADD, op == REVERSE
        counts = np.ones(len(rows), bool) if not_null is None else not_null[rows]
        chosen_counts = (
            np.ones(len(rows), bool) if not_null is None else (mine != NO_ROW) & not_null[np.maximum(mine, 0)]
        )
        first = adds & ~met & counts
        older = back & (met | ~chosen_counts)
        stays = back & ~met & chosen_counts
        assign_where(mine, rows, first | older | (op == SET))
        met |= first | stays
    return chosen_rows


def _refuse_incomparable(function: FieldFunction) -> str | None:
    if function.type.root not in NESTED_TYPES and function.type.root not in ("VARIANT", "BLOB"):
        return None
    return f"Data type for {function.name} column must be comparable but was '{function.type}'."


@declare_aggregate("max", type_problem=_refuse_incomparable)
def fold_max(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """Return the greatest value."""
    return _select_best(function, versions, column, ops, selects_largest=True)


@declare_aggregate("min", type_problem=_refuse_incomparable)
def fold_min(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """Return the smallest value."""
    return _select_best(function, versions, column, ops, selects_largest=False)


def _select_best(
    function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None, *, selects_largest: bool
) -> pl.Series:
    if ops is None and is_whole(column.dtype) and function.type.root != "BOOLEAN" and not column.null_count():
        return _select_best_integers(versions, column, selects_largest=selects_largest)
    values = column.gather(versions.row_numbers)
    order = to_comparable(values)
    not_null = not_null_mask(values)
    chosen_rows = np.full(versions.count, NO_ROW, np.int64)
    best = np.zeros(versions.count, np.int64)
    for step in versions.iter_steps():
        places, numbers = np.arange(step.start, step.stop), order[step]
        mine, peak = chosen_rows[: len(places)], best[: len(places)]
        _refuse_booleans(
            function, (mine != NO_ROW) if not_null is None else (mine != NO_ROW) & not_null[step], ops, step
        )
        better = (mine == NO_ROW) | ((numbers > peak) if selects_largest else (numbers < peak))
        if not_null is not None:
            better &= not_null[step]
        if ops is not None:
            op = ops[step]
            better = (better & ((op == ADD) | (op == REVERSE))) | (op == SET)
        assign_where(mine, places, better)
        assign_where(peak, numbers, better)
        if ops is not None and not_null is not None:
            mine[(ops[step] == SET) & ~not_null[step]] = NO_ROW
    return take_rows(values, chosen_rows)


def _refuse_booleans(function: FieldFunction, meets: Bools, ops: Array | None, step: slice) -> None:
    """Raise `Unsupported` to compare booleans, unordered in 1.4.2 (case `aggregate_max_boolean_refused`)."""
    if (
        function.type.root == "BOOLEAN"
        and (meets if ops is None else meets & ((ops[step] == ADD) | (ops[step] == REVERSE))).any()
    ):
        raise Unsupported(
            f"Incomparable type: BOOLEAN: aggregate function {function.name!r} of column {function.column} compares "
            "no truth values; bool_or, bool_and do",
            feature=f"aggregate.{function.name}.boolean",
        )


def _select_best_integers(versions: Versions, column: pl.Series, *, selects_largest: bool) -> pl.Series:
    """Return the greatest or smallest of integers without nulls, for which no row must be recorded."""
    numbers = numbers_of(column)[versions.row_numbers]
    best = numbers[: versions.count].copy()
    for step in versions.iter_steps():
        mine = best[: step.stop - step.start]
        (np.maximum if selects_largest else np.minimum)(mine, numbers[step], out=mine)
    return from_physical(column, best, None)


# ---- texts ------------------------------------------------------------


def _listagg_problem(function: FieldFunction) -> str | None:
    if function.type.root != "VARCHAR":
        return f"Data type for list agg column must be 'VarCharType' but was '{function.type}'."
    if function.type.length != MAX_LENGTH:
        return (
            "Data type for list agg column must be STRING (unbounded VARCHAR), but was "
            f"VARCHAR({function.type.length})."
        )
    return None


@declare_aggregate("listagg", type_problem=_listagg_problem)
def fold_listagg(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """Return the texts of each key, joined."""
    if function.distinct and ops is not None and (ops == REVERSE).any():
        return by_key.fold_by_key(
            versions,
            column,
            ops,
            by_key.ScalarFold(agg=lambda accumulator, text: _append_text(accumulator, text, function.delimiter)),
        )
    used = list_contributions(versions, ops)
    parts = pl.DataFrame({"key": used.keys, "text": column.gather(versions.row_numbers[used.positions])}).filter(
        pl.col("text").is_not_null()
    )
    filled = parts.filter(pl.col("text").str.len_bytes() > 0)
    if function.distinct:
        filled = _drop_repeated_parts(filled, function.delimiter or " ")
    joined = filled.group_by("key", maintain_order=True).agg(pl.col("text").str.join(function.delimiter))
    numbers = pl.DataFrame({"key": np.arange(versions.count)})
    empty = parts.select(pl.col("key").unique(), pl.lit("").alias("empty"))
    return (
        numbers.join(joined, on="key", how="left", maintain_order="left")
        .join(empty, on="key", how="left", maintain_order="left")
        .select(pl.coalesce("text", "empty").alias(column.name))
        .to_series()
    )


def _drop_repeated_parts(filled: pl.DataFrame, delimiter: str) -> pl.DataFrame:
    """Return the first text of each key, and of the other texts the parts that are new."""
    first = pl.col("key").is_first_distinct()
    tokens = (
        filled.with_columns(whole=first)
        .with_columns(part=pl.col("text").str.split(delimiter))
        .explode("part")
        .with_columns(fresh=pl.struct("key", "part").is_first_distinct())
        .filter(pl.col("fresh") & ~pl.col("whole") & (pl.col("part") != ""))
        .select("key", pl.col("part").alias("text"))
    )
    return pl.concat([filled.filter(first), tokens]).sort("key", maintain_order=True)


def _append_text(accumulator: str | None, text: str | None, delimiter: str) -> str | None:
    if accumulator is None or text is None:
        return text if accumulator is None else accumulator
    if not text or not accumulator:
        return accumulator or text
    existing = set(accumulator.split(delimiter or " "))
    fresh = [part for part in dict.fromkeys(text.split(delimiter or " ")) if part and part not in existing]
    return delimiter.join([accumulator, *fresh])
