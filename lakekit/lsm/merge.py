"""The merge of a section's rows by the rule of its table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from lakekit import plugins
from lakekit.columns import KIND, LEVEL
from lakekit.lsm import age, aggregates

if TYPE_CHECKING:
    from lakekit.lsm.numpy_columns import Bools
    from lakekit.lsm.rule import MergeSpec


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
    return mask if keep_deletes else mask & ~age.retracts(section)
