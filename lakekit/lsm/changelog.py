"""A changelog as the difference of what was and what is: of each key at most a row before and a row after.

    before          after           told
    – or retract    add             +I after
    – or retract    – or retract    nothing
    add             – or retract    -D before
    add             add             -U before, +U after; nothing where both are equal and equal rows are to be left out

Source: ENGINE.md 4.1, `FullChangelogMergeFunctionWrapper`, `LookupChangelogMergeFunctionWrapper`, `ValueEqualiserSupplier`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lakekit.columns import struct_field
from lakekit.lsm import age
from lakekit.model.row_kind import RowKind
from lakekit.types import MAPS, part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.lsm.numpy_columns import Bools, Ints
    from lakekit.types import DataType, Field


def changelog_between(before: pl.DataFrame, after: pl.DataFrame, numbers: tuple[Ints, Ints], count: int, compared: Sequence[Field] | None) -> pl.DataFrame:
    """The changelog between two states, each row with its own sequence number: all rows of `before` that are told, then all of `after`.

    Both frames have the same columns, `_VALUE_KIND` among them, and at most one row a key; `numbers` are the numbers, below `count`, of their keys.
    `select_compared_fields`: the columns that must differ for a change to be told; None: every change is.
    """
    was, now = _rows_by_key(before, numbers[0], count), _rows_by_key(after, numbers[1], count)
    gone, new, both = (was >= 0) & (now < 0), (was < 0) & (now >= 0), (was >= 0) & (now >= 0)
    keys = np.flatnonzero(both)
    if compared is not None and len(keys):
        keys = keys[_differ(before[was[keys]], after[now[keys]], compared)]
    old = [(was[gone], RowKind.DELETE), (was[keys], RowKind.UPDATE_BEFORE)]
    fresh = [(now[new], RowKind.INSERT), (now[keys], RowKind.UPDATE_AFTER)]
    return pl.concat([_assign_kinds(before, old), _assign_kinds(after, fresh)])


def _rows_by_key(rows: pl.DataFrame, numbers: Ints, count: int) -> Ints:
    """The row of each key; -1 where it has none, or one that takes something away."""
    found = np.full(count, -1, np.int64)
    found[numbers] = np.where(age.retracts(rows), -1, np.arange(rows.height))
    return found


def _assign_kinds(rows: pl.DataFrame, parts: Sequence[tuple[Ints, RowKind]]) -> pl.DataFrame:
    """Some rows, under the kinds that a changelog gives them, in their own order."""
    places = np.concatenate([places for places, _ in parts])
    kinds = np.concatenate([np.full(len(places), kind, np.int8) for places, kind in parts])
    order = np.argsort(places, kind="stable")
    return rows[places[order]].with_columns(pl.Series(age.KIND, kinds[order]))


def select_compared_fields(fields: Sequence[Field], *, deduplicated: bool, ignored: Sequence[str]) -> tuple[Field, ...] | None:
    """The columns to compare, from the options `changelog-producer.row-deduplicate` and `-ignore-fields`; None: nothing is compared."""
    return tuple(field for field in fields if field.name not in ignored) if deduplicated else None


def _differ(before: pl.DataFrame, after: pl.DataFrame, fields: Sequence[Field]) -> Bools:
    """Which rows differ in one of the columns. NaN differs from itself, as the reference compares numbers; 0.0 and -0.0 are equal."""
    found = np.zeros(before.height, bool)
    for field in fields:
        sides = pl.DataFrame({"before": before[field.name], "after": after[field.name]})
        unlike = sort_map_entries(pl.col("before"), field.type).ne_missing(sort_map_entries(pl.col("after"), field.type))
        if field.type.root in ("FLOAT", "DOUBLE"):
            unlike |= pl.col("before").is_nan().fill_null(value=False)
        found |= sides.select(unlike).to_series().to_numpy()
    return found


def sort_map_entries(column: pl.Expr, t: DataType) -> pl.Expr:
    """Values of which equal ones compare equal: the entries of a map have no order of their own."""
    if not t.holds(MAPS):
        return column
    match t.root:
        case "MAP" | "MULTISET":
            value = sort_map_entries(pl.element().struct.field("value"), t.value) if t.value is not None else pl.element().struct.field("value")
            entry = pl.struct(pl.element().struct.field("key"), value.alias("value"))
            return column.list.eval(entry.sort_by(pl.element().struct.field("key")))
        case "ARRAY":
            return column.list.eval(sort_map_entries(pl.element(), part(t.element)))
    parts = [sort_map_entries(struct_field(column, f.name), f.type).alias(f.name) for f in t.fields]
    return pl.when(column.is_not_null()).then(pl.struct(parts))
