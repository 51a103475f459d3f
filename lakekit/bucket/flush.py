"""What a write buffer leaves of its rows: one row a key, sorted by key, deletes kept.

rows as they came       k=2 v=a #0 | k=1 v=b #1 | k=2 v=c #2 | k=3 -D #3
flushed                 k=1 v=b #1 | k=2 v=c #2 | k=3 -D #3
changelog (`input`)     k=1 v=b #1 | k=2 v=a #0 | k=2 v=c #2 | k=3 -D #3

A delete must reach level 0, as older files may hold its key. Keys are in the order of the reference's key comparator: column by column, nulls first, texts
and bytes by unsigned bytes, floats as Java's `Double.compare` has them.

Source: ENGINE.md 1.2, 3.1; `SortBufferWriteBuffer`, `MergeTreeWriter`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lakekit.bucket.merge_read import KIND
from lakekit.columns import cols
from lakekit.lsm import age, key_codes as keyed, merge
from lakekit.lsm.numpy_columns import is_whole, values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.lsm.rule import MergeSpec


def flush(section: pl.DataFrame, rule: MergeSpec) -> pl.DataFrame:
    """One row a key, in key order, deletes included. `section`: rows of a bucket in the order of their sequence numbers, in key ranges as a whole.

    A row alone with its key passes as it is. Raises what `lsm.merge.merge` raises.
    """
    rule = _with_ascending_sequence(rule)
    if not merge.selects_rows(rule):
        return by_key(merge.merge(section, rule, keep_deletes=True).select(cols(section.columns)), rule.key)
    # sorted first, equal keys are neighbours; rows of one key keep their order, so that their places say which is newer
    placed = by_key(section, rule.key)
    if not rule.merges_lone and _keys_are_distinct(placed, rule.key):
        return placed
    mask = merge.winner_mask(placed[list(dict.fromkeys((*rule.key, *rule.sequence_fields, KIND)))], rule, keep_deletes=True)
    return placed if mask.all() else placed.filter(pl.Series(mask))


def _keys_are_distinct(placed: pl.DataFrame, key: Sequence[str]) -> bool:
    """Whether whole numbers of the key alone tell that no two rows of a section in order have the same: seen without looking for equal ones."""
    if placed.height < 2:
        return True
    columns = [placed.get_column(name) for name in key]
    differ = np.zeros(placed.height - 1, bool)
    for numbers in (values(column) for column in columns if is_whole(column.dtype) and not column.null_count()):
        differ |= numbers[1:] != numbers[:-1]
    return bool(differ.all())


def sort_versions(section: pl.DataFrame, rule: MergeSpec) -> pl.DataFrame:
    """Every row, by key, sequence fields and sequence number: what `changelog-producer=input` keeps."""
    rule = _with_ascending_sequence(rule)
    return by_key(section[np.lexsort(age.ranks(section, rule)[::-1])] if rule.sequence_fields else section, rule.key)


def _with_ascending_sequence(rule: MergeSpec) -> MergeSpec:
    """A buffer is sorted by its sequence fields upward: the reference's does not know `sequence.field.sort-order`, which holds from level 0 on."""
    return replace(rule, descending=False) if rule.descending else rule


def by_key(frame: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """The rows in the order of their keys; rows of one key stay in theirs."""
    # of one row Polars would make a scalar, and refuse the sums of the reference that have outgrown their DECIMAL
    # in one piece first: Polars gathers from several five times as slowly
    return frame if frame.height < 2 else frame.rechunk()[keyed.order(frame, key)]
