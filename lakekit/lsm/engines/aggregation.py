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


def assemble_rows(section: pl.DataFrame, lone: Bools, columns: Mapping[str, pl.Series]) -> pl.DataFrame:
    """Return the rows that are the only one of their key, and the merged ones after them."""
    merged = pl.DataFrame([column.alias(name) for name, column in columns.items()], schema=section.schema)
    return pl.concat([section.filter(pl.Series(lone)), merged]) if lone.any() else merged


def check_not_null(section: pl.DataFrame, spec: MergeSpec, rows: Ints) -> None:
    """Raise `SchemaMismatch` if one of those rows has a null in a NOT NULL column.

    The reference copies such rows as a whole.
    """
    for number, part in enumerate(spec.fields):
        if part.name not in spec.not_null or part.name not in section.columns:
            continue
        column = section[part.name]
        if column.null_count() and bool(np.any(column.is_null().to_numpy()[rows])):
            raise SchemaMismatch(
                f"Field {number} can not be null: column {part.name} of {spec.table_name} is {part.type}, and a row "
                "to be "
                "merged has a null there",
                column=part.name,
            )


# ---- aggregation ------------------------------------------------------------


CHOOSES = False


def fold(section: pl.DataFrame, spec: MergeSpec) -> pl.DataFrame:
    """Return one row for each key, deletes included; a row that is the only one of its key stays unchanged."""
    lone, versions = split_versions(section, spec)
    if versions.count == 0:
        return section
    ops, removed = _version_operations(section, spec, versions)
    last = versions.rows[versions.last_positions()]
    columns = {}
    for name in section.columns:
        column = section[name]
        if name == KIND:
            columns[name] = pl.Series(name, np.where(removed, RowKind.DELETE, RowKind.INSERT).astype(np.int8))
        elif name in spec.functions and name not in spec.key_columns:
            columns[name] = aggregates.fold_column(spec.functions[name], spec, versions, column, ops)
        else:
            columns[name] = take_rows(column, last)
    return assemble_rows(section, lone, columns)


def _version_operations(section: pl.DataFrame, spec: MergeSpec, versions: Versions) -> tuple[Array | None, Bools]:
    """Return the operation of each version (None: all add), and which keys end as deleted."""
    kinds = section[KIND].to_numpy()[versions.rows]
    takes = (kinds & 1).astype(bool)
    removed = np.zeros(versions.count, bool)
    if not takes.any():
        return None, removed
    ops = np.where(takes, RETRACT, ADD).astype(np.int8)
    if spec.removes_on_delete:
        ops[kinds == RowKind.DELETE] = SET
        check_not_null(section, spec, versions.rows[ops == SET])
        removed = ops[versions.last_positions()] == SET
    return ops, removed
