"""What a compaction makes of the rows it reads, and what of that it tells: the merged rows of a section, and its changelog.

    by_full_compaction(section, …)     what was: the row of the last level
    by_lookup(section, …)              what was: the row of the lowest level above 0, or what is found in higher levels (ENGINE 2.7)
    of_first_rows(section, …)          keys that no level above 0 knows

A section holds all versions of its keys among the compacted files, oldest run first: the table's columns, `_SEQUENCE_NUMBER`, `_VALUE_KIND` and, but for
the plain merge, `_level`. Every function gives the merged rows, deletes included, and the changelog: frames of the table's columns, `_SEQUENCE_NUMBER` and
`_VALUE_KIND`, the changelog with what was before what is; neither is in key order.

Source: ENGINE.md 2.7, 3.1 and 4.1; `FullChangelogMergeFunctionWrapper`, `LookupChangelogMergeFunctionWrapper`, `FirstRowMergeFunctionWrapper`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import polars as pl

from lakekit.columns import KEY, LEVEL, cols
from lakekit.lsm import changelog, key_codes as keyed, merge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.lsm.numpy_columns import Array, Bools, Ints
    from lakekit.lsm.rule import MergeSpec
    from lakekit.types import Field


"""The number of a row's key among those of its section."""
_FOUND_LEVEL = np.iinfo(np.int32).max
"""The level that looked up rows take part with: above all others."""


class PreviousRows(Protocol):
    """The rows that keys have in the levels above the compaction's output level: the hook of lookup compaction.

    A compaction calls it once a section, or slice of one, with the distinct keys that level 0 brings and no compacted file above level 0 holds: a frame of the
    key columns, by name, in no order. It answers with at most one row a key, that of the lowest level that has the key, in any order: the table's columns,
    `_SEQUENCE_NUMBER`, `_VALUE_KIND`; for first-row the key columns are enough. Keys that no level has are left out.

    With deletion vectors it also writes down the position of every row it found: that row's file loses it (the compacted files take its place). Where only
    positions matter (deduplicate without sequence fields and without a changelog) it may answer with no rows at all.
    """

    def __call__(self, keys: pl.DataFrame) -> pl.DataFrame: ...


def no_previous_rows(keys: pl.DataFrame) -> pl.DataFrame:
    """The hook of a compaction into the last level: nothing lies above it."""
    return keys.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGroups:
    """The keys of a section, numbered: the `number` of every row's key, and of every key its rows, in blocks that begin at `starts`."""

    number: Ints
    rows: Ints
    starts: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def any(self, mask: Bools) -> Bools:
        """Which keys have a row that the mask holds."""
        found = np.zeros(len(self), bool)
        found[self.number[mask]] = True
        return found


def by_full_compaction(section: pl.DataFrame, rule: MergeSpec, max_level: int, compared: Sequence[Field] | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The merged rows, and what they change of the last level. A key that only the last level has is told nothing of."""
    groups = _groups(section, rule)
    below = section[LEVEL].to_numpy() != max_level
    touched = groups.any(below)
    result = _merge_with_key_numbers(section, groups, rule)
    before = np.flatnonzero(~below & touched[groups.number])
    return result.drop(KEY), _build_changelog(section[before].drop(LEVEL), groups.number[before], result, touched, compared)


def by_lookup(
    section: pl.DataFrame, rule: MergeSpec, previous: PreviousRows, *, compared: Sequence[Field] | None, tells: bool
) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """The merged rows of level 0 on top of what each key was, and, where `tells`, what they change of it.

    Of the rows above level 0 only that of the lowest level takes part, or, where there is none, the one that `previous` finds. Rows alone with their key
    are merged too.
    """
    rule = replace(rule, lookup=True, merges_lone=True)
    groups = _groups(section, rule)
    levels = section[LEVEL].to_numpy()
    high = _lowest_level_rows(levels, groups)
    found, number = _look_up_previous(section, rule, groups, high < 0, previous)
    touched = groups.any(levels == 0)
    older = found.with_columns(pl.lit(_FOUND_LEVEL, pl.Int32).alias(LEVEL)).select(cols(section.columns))
    together = pl.concat([older, section])
    numbers = np.concatenate([number, groups.number])
    result = merge.merge(together.with_columns(pl.Series(KEY, numbers)), rule, keep_deletes=True)
    if not tells:
        return result.drop(KEY), None
    inside = high[touched & (high >= 0)]
    before = pl.concat([older, section[inside]]).drop(LEVEL)
    return result.drop(KEY), _build_changelog(before, np.concatenate([number, groups.number[inside]]), result, touched, compared)


def by_first_row(section: pl.DataFrame, rule: MergeSpec, previous: PreviousRows, *, tells: bool) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """The first row of each key, unless a level above has it already; and, where `tells`, those that are new to the table, as they are stored."""
    rule = replace(rule, merges_lone=True)
    groups = _groups(section, rule)
    known = groups.any(section[LEVEL].to_numpy() > 0)
    _, number = _look_up_previous(section, rule, groups, ~known, previous)
    elsewhere = np.zeros(len(groups), bool)
    elsewhere[number] = True
    result = _merge_with_key_numbers(section, groups, rule)
    mine = result[KEY].to_numpy()
    kept = result.drop(KEY).filter(pl.Series(~elsewhere[mine]))
    return kept, result.drop(KEY).filter(pl.Series(~(elsewhere | known)[mine])) if tells else None


# ---- keys of a section -------------------------------------------------------------------------------------------------------------------------------


def _groups(section: pl.DataFrame, rule: MergeSpec) -> KeyGroups:
    rows, starts = keyed.blocks(keyed.encode_keys(section, rule.key))
    number = np.empty(section.height, np.int64)
    number[rows] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(rows)))
    return KeyGroups(number=number, rows=rows, starts=starts)


def _merge_with_key_numbers(section: pl.DataFrame, groups: KeyGroups, rule: MergeSpec) -> pl.DataFrame:
    """The merged rows with the numbers of their keys: a column that no rule knows is that of the newest row."""
    return merge.merge(section.with_columns(pl.Series(KEY, groups.number)), rule, keep_deletes=True)


def _lowest_level_rows(levels: Array, groups: KeyGroups) -> Ints:
    """Of every key the row of its lowest level above 0; -1 where it has none."""
    placed = levels[groups.rows].astype(np.int64)
    ranked = np.where(placed > 0, placed, np.iinfo(np.int64).max)
    found = np.full(len(groups), -1, np.int64)
    if len(groups):
        lowest = np.repeat(np.minimum.reduceat(ranked, groups.starts), np.diff(groups.starts, append=len(groups.rows)))
        chosen = groups.rows[(placed > 0) & (placed == lowest)]
        found[groups.number[chosen]] = chosen
    return found


def _look_up_previous(section: pl.DataFrame, rule: MergeSpec, groups: KeyGroups, wanted: Bools, previous: PreviousRows) -> tuple[pl.DataFrame, Ints]:
    """What the hook finds of some keys, and the number of each found row's key."""
    numbers = np.flatnonzero(wanted)
    if not len(numbers):
        return section.drop(LEVEL).clear(), np.zeros(0, np.int64)
    asked = section[groups.rows[groups.starts[numbers]]].select(cols(rule.key))
    found = previous(asked)
    if not found.height:
        return section.drop(LEVEL).clear(), np.zeros(0, np.int64)
    # what was asked and what was found, by key: a found row stands right behind its question
    both = pl.concat([asked, found.select(cols(rule.key))])
    rows, starts = keyed.blocks(keyed.encode_keys(both, rule.key))
    first = np.empty(len(rows), np.int64)
    first[rows] = np.repeat(rows[starts], np.diff(starts, append=len(rows)))
    return found, numbers[first[asked.height :]]


def _build_changelog(before: pl.DataFrame, numbers: Ints, result: pl.DataFrame, touched: Bools, compared: Sequence[Field] | None) -> pl.DataFrame:
    """The changelog of the keys that were touched."""
    after = result if touched.all() else result.filter(pl.Series(touched[result[KEY].to_numpy()]))
    states = numbers, after[KEY].to_numpy()
    return changelog.changelog_between(before, after.drop(KEY), states, len(touched), compared)
