"""Refuse, at write time, rows of kind -U and -D that the table's merge engine cannot process.

The reference engine commits such rows; from then on reads of their keys fail, in both engines, until options change.
Refused are rows whose merge with any other row of their key fails, by options and kind alone, and by no value but a
null of a sequence group. A sequence group that may remove the row (`partial-update.remove-record-on-sequence-group`)
decides by the row's age, so its deletes are not judged here.

Source: ENGINE.md 3.2 to 3.4; `PartialUpdateMergeFunction`, `AggregateMergeFunction`, `FieldAggregator.retract`.

Check that values are sketches in columns with the functions hll_sketch and theta_sketch.

A merge passes these values to a C++ library; it checks them again (`lsm.sketch_bytes`), and every read of the key would
fail.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from lakekit.errors import Corrupt, InvalidOption, LakekitError, ValueOutOfRange
from lakekit.lsm import aggregates, merge_spec_options
from lakekit.lsm.sketch_bytes import CHECKS
from lakekit.model.data_file import KIND_TEXTS, RowKind
from lakekit.types import BINARIES
from lakekit.write.value_casting import format_value_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from lakekit.lsm.merge_spec import FieldFunction, MergeSpec
    from lakekit.lsm.numpy_columns import Array, Bools
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.table_schema import TableSchema
    from lakekit.options.option import FrozenDict


ENGINES = ("first-row", "partial-update", "aggregation")


def check_retractions(rows: pl.DataFrame, kinds: pl.Series, ctx: TableContext, first_row: int = 0) -> None:
    """Raise for the first row whose retraction the table's merge engine cannot process.

    `kinds` holds the byte of each row's kind.

    Raises:
        InvalidOption: with the row, the function if there is one, and the options that accept such rows.
    """
    if ctx.options.merge_engine not in ENGINES:
        return
    kind_bytes = kinds.to_numpy()
    retracts = (kind_bytes == RowKind.UPDATE_BEFORE) | (kind_bytes == RowKind.DELETE)
    if not retracts.any():
        return
    merge_rule = _merge_rule(ctx.schema, ctx.all_options, ctx.name)
    if merge_rule.engine == "first-row":
        if merge_rule.ignore_delete:
            return
        row = int(np.flatnonzero(retracts)[0])
        raise InvalidOption(
            f"row {first_row + row} is {KIND_TEXTS[kind_bytes[row]]}: by default, First row merge engine can not "
            f"accept DELETE/UPDATE_BEFORE records, and every read of its key in {merge_rule.table_name} would fail. "
            "You "
            "can configure 'ignore-delete' to ignore such records",
            key="ignore-delete",
        )
    if merge_rule.engine == "partial-update":
        _check_partial_update(rows, kind_bytes, retracts, merge_rule, first_row)
        return
    judged = kind_bytes == RowKind.UPDATE_BEFORE if merge_rule.remove_on_delete else retracts
    for function in merge_rule.functions.values():
        if judged.any() and not _takes_retractions(function, merge_rule):
            raise _refuse_function(function, kind_bytes, judged, merge_rule, first_row)


@lru_cache(maxsize=64)
def _merge_rule(schema: TableSchema, options: FrozenDict[str, str], table: str) -> MergeSpec:
    return merge_spec_options.merge_spec_from_options(schema, options, table=table)


def _check_partial_update(rows: pl.DataFrame, kinds: Array, retracts: Bools, rule: MergeSpec, first_row: int) -> None:
    if rule.ignore_delete or rule.remove_on_delete:
        return
    if not rule.groups:
        row = int(np.flatnonzero(retracts)[0])
        raise InvalidOption(
            f"row {first_row + row} is {KIND_TEXTS[kinds[row]]}: by default, Partial update can not accept delete "
            f"records, and every read of its key in {rule.table_name} would fail. Choose one of: 1. configure "
            "'ignore-delete' to ignore delete records; 2. configure 'partial-update.remove-record-on-delete' to "
            "remove the whole row when receiving delete records; 3. configure 'sequence-group's to retract partial "
            "columns",
            key="ignore-delete",
        )
    removes = any(group.removes for group in rule.groups)
    checked = kinds == RowKind.UPDATE_BEFORE if removes else retracts
    for group in rule.groups:
        has_value = np.zeros(len(kinds), bool)
        for column in group.columns:
            has_value |= rows[column].is_not_null().to_numpy()
        for function in (rule.functions[name] for name in group.protected if name in rule.functions):
            if (checked & has_value).any() and not _takes_retractions(function, rule):
                raise _refuse_function(function, kinds, checked & has_value, rule, first_row)


def _takes_retractions(function: FieldFunction, rule: MergeSpec) -> bool:
    return function.ignore_retract or aggregates.find(function, rule).retracts


def _refuse_function(
    function: FieldFunction, kinds: Array, judged: Bools, rule: MergeSpec, first_row: int
) -> InvalidOption:
    row = int(np.flatnonzero(judged)[0])
    key = f"fields.{function.column}.ignore-retract"
    return InvalidOption(
        f"row {first_row + row} is {KIND_TEXTS[kinds[row]]}: aggregate function {function.name!r} of column "
        f"{function.column} does not support retraction, and every read of its key in {rule.table_name} would fail. "
        "If you "
        f"allow this function to ignore retraction messages, you can configure '{key}'='true'",
        key=key,
    )


# ---- sketches ------------------------------------------------------------


def check(frame: pl.DataFrame, ctx: TableContext, first_row: int) -> None:
    """Raise `ValueOutOfRange` for the first value that is not a sketch.

    `first_row` is the frame's first row number.
    """
    if ctx.kind != "key" or ctx.options.merge_engine not in ("aggregation", "partial-update"):
        return
    for column, function in _sketch_columns(ctx.schema, ctx.all_options).items():
        values = frame.get_column(column)
        for row, value in enumerate(values.to_list()):  # scalar: sketches are whole values
            try:
                if value is not None:
                    CHECKS[function](value)
            except Corrupt as wrong:
                message = (
                    f"row {first_row + row}: column {column} of {ctx.name} holds {format_value_at(values, row)}, "
                    f"which {function} cannot unite: {wrong.message}"
                )
                raise ValueOutOfRange(f"{message}. Write the bytes of a serialized sketch", column=column) from None


@lru_cache(maxsize=256)
def _sketch_columns(schema: TableSchema, options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the function name of each column whose function unites sketches."""
    try:
        functions = merge_spec_options.merge_spec_from_options(schema, options).functions
    except LakekitError:  # refused where rows are merged
        return {}
    return {
        name: function.name
        for name, function in functions.items()
        if function.name in CHECKS and function.type.root in BINARIES
    }
