"""The merge of a section's rows by the rule of its table.

A changelog as the difference of two states: for each key at most a row before and a row after.

    before          after           changelog
    – or retract    add             +I after
    – or retract    – or retract    nothing
    add             – or retract    -D before
    add             add             -U before, +U after; nothing if both are equal and equal rows are to be left out

Source: ENGINE.md 4.1, `FullChangelogMergeFunctionWrapper`, `LookupChangelogMergeFunctionWrapper`,
`ValueEqualiserSupplier`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lakekit import plugins
from lakekit.columns import KIND, LEVEL, struct_field
from lakekit.lsm import aggregates, row_versions
from lakekit.model.data_file import RowKind
from lakekit.types import MAPS, part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.lsm.merge_spec import MergeSpec
    from lakekit.lsm.numpy_columns import Bools, Ints
    from lakekit.types import DataType, Field


def selects_rows(rule: MergeSpec) -> bool:
    """Return whether the engine selects rows, with `winner_mask` from the key columns alone, or computes them."""
    return bool(plugins.load("lsm/engines", rule.engine).CHOOSES)


def merge(section: pl.DataFrame, rule: MergeSpec, *, keep_deletes: bool = False) -> pl.DataFrame:
    """Return one row for each key, in no particular order, with the section's columns except `columns.LEVEL`.

    `section`: the rows of overlapping runs, oldest run first: the key columns under their table names,
    `_SEQUENCE_NUMBER`, `_VALUE_KIND`, the level where the rule needs it, and the columns that `rule.required_columns`
    names. Without `_SEQUENCE_NUMBER` the order of rows is the order of versions, as far as sequence fields do not
    decide otherwise. Raises what `aggregates.find` raises, and the reference's refusals: `Unsupported`,
    `InvalidOption`, `SchemaMismatch`.
    """
    if selects_rows(rule):
        merged = section.filter(pl.Series(winner_mask(section, rule, keep_deletes=keep_deletes)))
    else:
        aggregates.check(rule, section.columns)
        merged = plugins.load("lsm/engines", rule.engine).fold(section, rule)
        if not keep_deletes:
            merged = merged.filter(pl.col(KIND) & 1 == 0)
    return merged.drop(LEVEL, strict=False)


def winner_mask(section: pl.DataFrame, rule: MergeSpec, *, keep_deletes: bool = False) -> Bools:
    """Return which rows win their key, for engines that select rows.

    `section` needs only the key, the sequence fields and the system columns.
    """
    mask: Bools = plugins.load("lsm/engines", rule.engine).winners(section, rule)
    return mask if keep_deletes else mask & ~row_versions.retractions(section)


# ---- changelog ------------------------------------------------------------


def changelog_between(
    before: pl.DataFrame, after: pl.DataFrame, numbers: tuple[Ints, Ints], count: int, compared: Sequence[Field] | None
) -> pl.DataFrame:
    """Return the changelog between two states, each row with its own sequence number.

    The changed rows of `before` come first, then those of `after`. Both frames have the same columns, `_VALUE_KIND`
    among them, and at most one row for each key; `numbers` are the numbers, below `count`, of their keys. `compared`
    are the columns of which one must differ for a row to count as changed (see `select_compared_fields`); None: every
    row of both states does.
    """
    row_before, row_after = _rows_by_key(before, numbers[0], count), _rows_by_key(after, numbers[1], count)
    is_deleted, is_inserted, in_both = (
        (row_before >= 0) & (row_after < 0),
        (row_before < 0) & (row_after >= 0),
        (row_before >= 0) & (row_after >= 0),
    )
    keys = np.flatnonzero(in_both)
    if compared is not None and len(keys):
        keys = keys[_differ(before[row_before[keys]], after[row_after[keys]], compared)]
    old = [(row_before[is_deleted], RowKind.DELETE), (row_before[keys], RowKind.UPDATE_BEFORE)]
    fresh = [(row_after[is_inserted], RowKind.INSERT), (row_after[keys], RowKind.UPDATE_AFTER)]
    return pl.concat([_assign_kinds(before, old), _assign_kinds(after, fresh)])


def _rows_by_key(rows: pl.DataFrame, numbers: Ints, count: int) -> Ints:
    """Return the row of each key; -1 where it has none, or a retracting one."""
    row_of_key = np.full(count, -1, np.int64)
    row_of_key[numbers] = np.where(row_versions.retractions(rows), -1, np.arange(rows.height))
    return row_of_key


def _assign_kinds(rows: pl.DataFrame, parts: Sequence[tuple[Ints, RowKind]]) -> pl.DataFrame:
    """Return the rows of all parts, in their own order, with the row kind of their part."""
    places = np.concatenate([places for places, _ in parts])
    kinds = np.concatenate([np.full(len(places), kind, np.int8) for places, kind in parts])
    order = np.argsort(places, kind="stable")
    return rows[places[order]].with_columns(pl.Series(KIND, kinds[order]))


def select_compared_fields(
    fields: Sequence[Field], *, deduplicated: bool, ignored: Sequence[str]
) -> tuple[Field, ...] | None:
    """Return the columns to compare, or None if rows are not compared.

    The options `changelog-producer.row-deduplicate` and `-ignore-fields` decide.
    """
    return tuple(field for field in fields if field.name not in ignored) if deduplicated else None


def _differ(before: pl.DataFrame, after: pl.DataFrame, fields: Sequence[Field]) -> Bools:
    """Return which rows differ in one of the columns.

    NaN differs from itself, as the reference compares floats; 0.0 and -0.0 are equal.
    """
    differs = np.zeros(before.height, bool)
    for field in fields:
        sides = pl.DataFrame({"before": before[field.name], "after": after[field.name]})
        is_unequal = sort_map_entries(pl.col("before"), field.type).ne_missing(
            sort_map_entries(pl.col("after"), field.type)
        )
        if field.type.root in ("FLOAT", "DOUBLE"):
            is_unequal |= pl.col("before").is_nan().fill_null(value=False)
        differs |= sides.select(is_unequal).to_series().to_numpy()
    return differs


def sort_map_entries(column: pl.Expr, t: DataType) -> pl.Expr:
    """Return the column with map entries sorted by key, so that equal maps compare equal."""
    if not t.holds(MAPS):
        return column
    match t.root:
        case "MAP" | "MULTISET":
            value = (
                sort_map_entries(pl.element().struct.field("value"), t.value)
                if t.value is not None
                else pl.element().struct.field("value")
            )
            entry = pl.struct(pl.element().struct.field("key"), value.alias("value"))
            return column.list.eval(entry.sort_by(pl.element().struct.field("key")))
        case "ARRAY":
            return column.list.eval(sort_map_entries(pl.element(), part(t.element)))
    parts = [sort_map_entries(struct_field(column, f.name), f.type).alias(f.name) for f in t.fields]
    return pl.when(column.is_not_null()).then(pl.struct(parts))
