"""Aggregation: every column of a key is folded by its own function; code that folding engines share.

A retracting row retracts its values, column by column, and leaves the row; with `aggregation.remove-record-on-delete` a
-D removes the row instead, and versions after it build on the deleted values (unless a compaction dropped them in
between), as in the reference.

Source: ENGINE.md 3.1 and 3.4, `AggregateMergeFunction`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lakekit.columns import KIND
from lakekit.errors import SchemaMismatch
from lakekit.lsm import aggregates
from lakekit.lsm.numpy_columns import take_rows
from lakekit.lsm.row_versions import ADD, RETRACT, SET, split_versions
from lakekit.model.data_file import RowKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.lsm.merge_spec import MergeSpec
    from lakekit.lsm.numpy_columns import Array, Bools, Ints
    from lakekit.lsm.row_versions import Versions


def assemble_rows(section: pl.DataFrame, is_single_version: Bools, columns: Mapping[str, pl.Series]) -> pl.DataFrame:
    """Return the rows that are the only one of their key, and the merged ones after them."""
    merged = pl.DataFrame([column.alias(name) for name, column in columns.items()], schema=section.schema)
    return pl.concat([section.filter(pl.Series(is_single_version)), merged]) if is_single_version.any() else merged


def check_not_null(section: pl.DataFrame, spec: MergeSpec, row_numbers: Ints) -> None:
    """Raise `SchemaMismatch` if one of those rows has a null in a NOT NULL column.

    The reference copies such rows as a whole.
    """
    for number, part in enumerate(spec.fields):
        if part.name not in spec.not_null or part.name not in section.columns:
            continue
        column = section[part.name]
        if column.null_count() and bool(np.any(column.is_null().to_numpy()[row_numbers])):
            raise SchemaMismatch(
                f"Field {number} can not be null: column {part.name} of {spec.table_name} is {part.type}, and a row "
                "to be "
                "merged has a null there",
                column=part.name,
            )


# ---- aggregation ------------------------------------------------------------


SELECTS_ROWS = False
"""The engine computes a row of each key from its versions, and selects none of them."""


def fold(section: pl.DataFrame, spec: MergeSpec) -> pl.DataFrame:
    """Return one row for each key, deletes included; a row that is the only one of its key stays unchanged."""
    is_single_version, versions = split_versions(section, spec)
    if versions.count == 0:
        return section
    ops, deleted_keys = _version_operations(section, spec, versions)
    last = versions.row_numbers[versions.last_positions()]
    columns = {}
    for name in section.columns:
        column = section[name]
        if name == KIND:
            columns[name] = pl.Series(name, np.where(deleted_keys, RowKind.DELETE, RowKind.INSERT).astype(np.int8))
        elif name in spec.functions and name not in spec.key_columns:
            columns[name] = aggregates.fold_column(spec.functions[name], spec, versions, column, ops)
        else:
            columns[name] = take_rows(column, last)
    return assemble_rows(section, is_single_version, columns)


def _version_operations(section: pl.DataFrame, spec: MergeSpec, versions: Versions) -> tuple[Array | None, Bools]:
    """Return the operation of each version (None: all add), and which keys end as deleted."""
    kinds = section[KIND].to_numpy()[versions.row_numbers]
    retracting = (kinds & 1).astype(bool)
    deleted_keys = np.zeros(versions.count, bool)
    if not retracting.any():
        return None, deleted_keys
    ops = np.where(retracting, RETRACT, ADD).astype(np.int8)
    if spec.removes_on_delete:
        ops[kinds == RowKind.DELETE] = SET
        check_not_null(section, spec, versions.row_numbers[ops == SET])
        deleted_keys = ops[versions.last_positions()] == SET
    return ops, deleted_keys
