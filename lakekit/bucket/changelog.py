"""The merged rows of a section, and its changelog, as a compaction writes them.

    by_full_compaction(section, …)   before: the row of the last level
    by_lookup(section, …)            before: the row of the lowest level above 0, or found in higher levels (ENGINE 2.7)
    by_first_row(section, …)         keys that are in no level above 0

A section holds all versions of its keys among the compacted files, oldest run first: the table's columns,
`_SEQUENCE_NUMBER`, `_VALUE_KIND` and, except for the plain merge, `_level`. Every function returns the merged rows,
deletes included, and the changelog: frames of the table's columns, `_SEQUENCE_NUMBER` and `_VALUE_KIND`, the changelog
with the row before in front of the row after; neither is in key order.

Source: ENGINE.md 2.7, 3.1 and 4.1; `FullChangelogMergeFunctionWrapper`, `LookupChangelogMergeFunctionWrapper`,
`FirstRowMergeFunctionWrapper`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import polars as pl

from lakekit.columns import KEY, LEVEL, cols
from lakekit.lsm import key_codes as keyed, merge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.lsm.merge_spec import MergeSpec
    from lakekit.lsm.numpy_columns import Array, Bools, Ints
    from lakekit.types import Field


_FOUND_LEVEL = np.iinfo(np.int32).max
"""The level given to looked-up rows in a merge: above all others."""


class PreviousRows(Protocol):
    """The hook of lookup compaction: finds the rows that keys have in the levels above the output level.

    A compaction calls it once for each section, or slice of one, with the distinct keys that are in level 0 and in no
    compacted file above level 0: a frame of the key columns, by name, in no order. It returns at most one row for each
    key, from the lowest level that has the key, in any order: the table's columns, `_SEQUENCE_NUMBER`, `_VALUE_KIND`;
    for first-row the key columns are enough. Keys that no level has are left out.

    With deletion vectors it also records the position of every row it found, which is deleted from its file, as the
    compacted files take its place. Where only positions matter (deduplicate without sequence fields and without a
    changelog) it may return no rows.
    """

    def __call__(self, keys: pl.DataFrame) -> pl.DataFrame: ...


def no_previous_rows(keys: pl.DataFrame) -> pl.DataFrame:
    """Return no rows: the hook of a compaction into the last level, above which there is nothing."""
    return keys.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGroups:
    """The distinct keys of a section, numbered.

    `number` is the key number of every row. `rows` are all row indices, grouped by key; the group of each key begins at
    `starts`.
    """

    number: Ints
    rows: Ints
    starts: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def any(self, mask: Bools) -> Bools:
        """Return which keys have a row that is set in the mask."""
        keys_in_mask = np.zeros(len(self), bool)
        keys_in_mask[self.number[mask]] = True
        return keys_in_mask


def by_full_compaction(
    section: pl.DataFrame, rule: MergeSpec, max_level: int, compared: Sequence[Field] | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the merged rows, and the changelog against the last level.

    A key that is in the last level only has no row in the changelog.
    """
    groups = _groups(section, rule)
    below = section[LEVEL].to_numpy() != max_level
    touched = groups.any(below)
    result = _merge_with_key_numbers(section, groups, rule)
    before = np.flatnonzero(~below & touched[groups.number])
    return result.drop(KEY), _build_changelog(
        section[before].drop(LEVEL), groups.number[before], result, touched, compared
    )


def by_lookup(
    section: pl.DataFrame, rule: MergeSpec, previous: PreviousRows, *, compared: Sequence[Field] | None, tells: bool
) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Return level 0 merged with the previous row of each key, and, if `tells`, the changelog.

    Of the rows above level 0 only that of the lowest level takes part, or, where there is none, the one that `previous`
    finds. Rows that are the only one of their key are merged too.
    """
    rule = replace(rule, lookup=True, merges_lone=True)
    groups = _groups(section, rule)
    levels = section[LEVEL].to_numpy()
    high = _lowest_level_rows(levels, groups)
    previous_rows, number = _look_up_previous(section, rule, groups, high < 0, previous)
    touched = groups.any(levels == 0)
    older = previous_rows.with_columns(pl.lit(_FOUND_LEVEL, pl.Int32).alias(LEVEL)).select(cols(section.columns))
    versions = pl.concat([older, section])
    numbers = np.concatenate([number, groups.number])
    result = merge.merge(versions.with_columns(pl.Series(KEY, numbers)), rule, keep_deletes=True)
    if not tells:
        return result.drop(KEY), None
    inside = high[touched & (high >= 0)]
    before = pl.concat([older, section[inside]]).drop(LEVEL)
    return result.drop(KEY), _build_changelog(
        before, np.concatenate([number, groups.number[inside]]), result, touched, compared
    )


def by_first_row(
    section: pl.DataFrame, rule: MergeSpec, previous: PreviousRows, *, tells: bool
) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Return the first row of each key that no level above has, and, if `tells`, the changelog.

    The changelog holds the rows that are new to the table, as they are stored.
    """
    rule = replace(rule, merges_lone=True)
    groups = _groups(section, rule)
    above_level_0 = groups.any(section[LEVEL].to_numpy() > 0)
    _, number = _look_up_previous(section, rule, groups, ~above_level_0, previous)
    elsewhere = np.zeros(len(groups), bool)
    elsewhere[number] = True
    result = _merge_with_key_numbers(section, groups, rule)
    mine = result[KEY].to_numpy()
    new_rows = result.drop(KEY).filter(pl.Series(~elsewhere[mine]))
    return new_rows, result.drop(KEY).filter(pl.Series(~(elsewhere | above_level_0)[mine])) if tells else None


# ---- keys of a section -----------------------------------------------------------------------------------------------


def _groups(section: pl.DataFrame, rule: MergeSpec) -> KeyGroups:
    rows, starts = keyed.blocks(keyed.encode_keys(section, rule.key))
    number = np.empty(section.height, np.int64)
    number[rows] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(rows)))
    return KeyGroups(number=number, rows=rows, starts=starts)


def _merge_with_key_numbers(section: pl.DataFrame, groups: KeyGroups, rule: MergeSpec) -> pl.DataFrame:
    """Return the merged rows with their key numbers: a column that is in no rule comes from the newest row."""
    return merge.merge(section.with_columns(pl.Series(KEY, groups.number)), rule, keep_deletes=True)


def _lowest_level_rows(levels: Array, groups: KeyGroups) -> Ints:
    """Return for each key the row of its lowest level above 0; -1 where it has none."""
    placed = levels[groups.rows].astype(np.int64)
    ranked = np.where(placed > 0, placed, np.iinfo(np.int64).max)
    row_of_key = np.full(len(groups), -1, np.int64)
    if len(groups):
        lowest = np.repeat(np.minimum.reduceat(ranked, groups.starts), np.diff(groups.starts, append=len(groups.rows)))
        lowest_rows = groups.rows[(placed > 0) & (placed == lowest)]
        row_of_key[groups.number[lowest_rows]] = lowest_rows
    return row_of_key


def _look_up_previous(
    section: pl.DataFrame, rule: MergeSpec, groups: KeyGroups, wanted: Bools, previous: PreviousRows
) -> tuple[pl.DataFrame, Ints]:
    """Return the previous rows of the wanted keys, and the key number of each of those rows."""
    numbers = np.flatnonzero(wanted)
    if not len(numbers):
        return section.drop(LEVEL).clear(), np.zeros(0, np.int64)
    keys = section[groups.rows[groups.starts[numbers]]].select(cols(rule.key))
    previous_rows = previous(keys)
    if not previous_rows.height:
        return section.drop(LEVEL).clear(), np.zeros(0, np.int64)
    # keys and previous rows together, sorted by key: a previous row comes right after the key looked up
    both = pl.concat([keys, previous_rows.select(cols(rule.key))])
    rows, starts = keyed.blocks(keyed.encode_keys(both, rule.key))
    first = np.empty(len(rows), np.int64)
    first[rows] = np.repeat(rows[starts], np.diff(starts, append=len(rows)))
    return previous_rows, numbers[first[keys.height :]]


def _build_changelog(
    before: pl.DataFrame, numbers: Ints, result: pl.DataFrame, touched: Bools, compared: Sequence[Field] | None
) -> pl.DataFrame:
    """Return the changelog of the keys that are set in `touched`."""
    after = result if touched.all() else result.filter(pl.Series(touched[result[KEY].to_numpy()]))
    states = numbers, after[KEY].to_numpy()
    return merge.changelog_between(before, after.drop(KEY), states, len(touched), compared)
