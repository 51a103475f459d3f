"""The rows that a write buffer flushes: one row for each key, sorted by key, deletes kept.

rows as they came       k=2 v=a #0 | k=1 v=b #1 | k=2 v=c #2 | k=3 -D #3
flushed                 k=1 v=b #1 | k=2 v=c #2 | k=3 -D #3
changelog (`input`)     k=1 v=b #1 | k=2 v=a #0 | k=2 v=c #2 | k=3 -D #3

A delete must reach level 0, as older files may hold its key. Keys are in the order of the reference's key comparator:
column by column, nulls first, texts and bytes by unsigned bytes, floats in the order of Java's `Double.compare`.

Source: ENGINE.md 1.2, 3.1; `SortBufferWriteBuffer`, `MergeTreeWriter`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lakekit.columns import KIND, cols
from lakekit.lsm import age, key_codes as keyed, merge
from lakekit.lsm.numpy_columns import is_whole, values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.lsm.rule import MergeSpec


def flush(section: pl.DataFrame, rule: MergeSpec) -> pl.DataFrame:
    """Return one row for each key, in key order, deletes included.

    `section` holds rows of a bucket in the order of their sequence numbers, and all rows of its keys. A row that is the
    only one of its key stays as it is. Raises what `lsm.merge.merge` raises.
    """
    rule = _with_ascending_sequence(rule)
    if not merge.selects_rows(rule):
        return by_key(merge.merge(section, rule, keep_deletes=True).select(cols(section.columns)), rule.key)
    # sorted first, so that equal keys are neighbours; rows of one key keep their order, the newest last
    placed = by_key(section, rule.key)
    if not rule.merges_lone and _keys_are_distinct(placed, rule.key):
        return placed
    mask = merge.winner_mask(
        placed[list(dict.fromkeys((*rule.key, *rule.sequence_fields, KIND)))], rule, keep_deletes=True
    )
    return placed if mask.all() else placed.filter(pl.Series(mask))


def _keys_are_distinct(placed: pl.DataFrame, key: Sequence[str]) -> bool:
    """Return whether the integer columns of the key alone show that all keys of a sorted section are distinct.

    False means that they do not show it; equal keys are not searched for.
    """
    if placed.height < 2:
        return True
    columns = [placed.get_column(name) for name in key]
    differ = np.zeros(placed.height - 1, bool)
    for numbers in (values(column) for column in columns if is_whole(column.dtype) and not column.null_count()):
        differ |= numbers[1:] != numbers[:-1]
    return bool(differ.all())


def sort_versions(section: pl.DataFrame, rule: MergeSpec) -> pl.DataFrame:
    """Return every row, by key, sequence fields and sequence number: the `changelog-producer=input` changelog."""
    rule = _with_ascending_sequence(rule)
    return by_key(section[np.lexsort(age.ranks(section, rule)[::-1])] if rule.sequence_fields else section, rule.key)


def _with_ascending_sequence(rule: MergeSpec) -> MergeSpec:
    """Return the rule with ascending sequence fields.

    The reference sorts its write buffer so: `sequence.field.sort-order` applies from level 0 on.
    """
    return replace(rule, descending=False) if rule.descending else rule


def by_key(frame: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """Return the rows in the order of their keys; rows of one key stay in their order."""
    # of one row Polars makes a scalar, and refuses sums of the reference that exceed the precision of their DECIMAL;
    # in one chunk first, as Polars gathers from several chunks five times as slowly
    return frame if frame.height < 2 else frame.rechunk()[keyed.order(frame, key)]
