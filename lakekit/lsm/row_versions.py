"""All versions of many keys, laid out for a fold that loops over versions, not keys; their order.

    keys with three versions first, then those with two …        rows (row numbers of the section)
      first versions      a0 b0 c0 d0                            heights = (4, 4, 2)
      second versions     a1 b1 c1 d1
      third versions      a2 b2

One step of a fold is one operation on arrays: the state of the first `height` keys and the next version of each. Keys
without a further version are not touched any more.

Versions are ordered by sequence fields, sequence number, retract before add; equal ones keep their order in the
section. Nulls of a sequence field lose in both directions of `sequence.field.sort-order`: descending reverses the
comparison of two values, not of a value and a null.

A section comes oldest run first, so that the newest version is nearly always the last row of its key. `mask_newest`
assumes that and verifies it with the sequence numbers; if it is wrong, one round of versions after another is compared,
all keys at once.

Source: ENGINE.md 0.1, 1.3 and 6.6; `UserDefinedSeqComparator`, `SortMergeReaderWithLoserTree`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lakekit.columns import KIND, LEVEL, SEQUENCE
from lakekit.lsm import numpy_columns as keyed
from lakekit.lsm.numpy_columns import RETRACT_BIT, assign_where, to_comparable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from lakekit.lsm.merge_spec import MergeSpec
    from lakekit.lsm.numpy_columns import Array, Bools, Ints, KeyCodes


def version_ranks(section: pl.DataFrame, spec: MergeSpec) -> list[Ints]:
    """Return the arrays that versions of a key are compared by, most significant first.

    They sort from the oldest version to the newest, but for ties.
    """
    comparables = [
        to_comparable(section[name], descending=spec.is_descending, as_sequence=True) for name in spec.sequence_fields
    ]
    if SEQUENCE in section.columns:
        comparables.append(section[SEQUENCE].to_numpy())
    return comparables


def retraction_mask(section: pl.DataFrame) -> Bools:
    """Return which rows retract (kinds -U and -D); none in a section without kinds."""
    if KIND not in section.columns:
        return np.zeros(section.height, bool)
    return (section[KIND].to_numpy() & RETRACT_BIT).astype(bool)


def tie_winner_mask(section: pl.DataFrame) -> Bools:
    """Return which rows win a tie.

    Without sequence numbers the position in the section stands for them, and there are no ties.
    """
    if SEQUENCE in section.columns:
        return ~retraction_mask(section)
    return np.zeros(section.height, bool)


# ---- row versions ------------------------------------------------------------


SKIP, ADD, REVERSE, RETRACT, SET, SET_RETRACT = range(6)
"""The operations of a version on a column of its key.

In order: nothing; aggregate; aggregate as if it had come before; retract; replace; replace, then retract itself.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Row numbers of all versions, step by step; key number i is the i-th of every step.

    See the drawing in the module.
    """

    row_numbers: Ints
    step_heights: tuple[int, ...]

    @property
    def count(self) -> int:
        """Return how many keys there are."""
        return self.step_heights[0] if self.step_heights else 0

    def iter_steps(self) -> Iterator[slice]:
        """Yield the slice of each step in `row_numbers`, and in any array laid out like it."""
        at = 0
        for height in self.step_heights:
            yield slice(at, at + height)
            at += height

    def key_numbers(self) -> Ints:
        """Return the key number of every version."""
        return (
            np.concatenate([np.arange(height) for height in self.step_heights])
            if self.step_heights
            else np.zeros(0, np.int64)
        )

    def last_positions(self) -> Ints:
        """Return the position in `row_numbers` of each key's last version."""
        positions = np.zeros(self.count, np.int64)
        for step in self.iter_steps():
            positions[: step.stop - step.start] = np.arange(step.start, step.stop)
        return positions

    def has_one_version(self) -> Bools:
        """Return which keys have one version only."""
        is_single = np.ones(self.count, bool)
        if len(self.step_heights) > 1:
            is_single[: self.step_heights[1]] = False
        return is_single


def version_rounds(row_numbers: Ints, starts: Ints) -> Versions:
    """Return the layout of blocks of row numbers."""
    if len(row_numbers) == 0:
        return Versions(row_numbers=row_numbers, step_heights=())
    sizes = np.diff(starts, append=len(row_numbers))
    most = int(sizes.max())
    upside_down = most - sizes
    # small integers sort in linear time; keys with equally many versions stay in order, by key in the oldest run
    by_size = np.argsort(upside_down.astype(np.uint16) if most < 2**16 else upside_down, kind="stable")
    heads = starts[by_size]
    falls = np.bincount(upside_down, minlength=most)
    heights = np.cumsum(falls[:most])[::-1]
    parts = [row_numbers[heads[:height] + step] for step, height in enumerate(heights)]
    return Versions(row_numbers=np.concatenate(parts), step_heights=tuple(int(height) for height in heights))


def split_versions(section: pl.DataFrame, spec: MergeSpec) -> tuple[Bools, Versions]:
    """Return which rows are the only one of their key, and the versions of all other keys in order of age.

    The level rule of lookup tables (ENGINE 2.7, 6.6) is applied to the versions: of those above level 0 only the one of
    the lowest level takes part. A key of which only one row remains by it still counts as merged.
    """
    keys = keyed.encode_keys(section, spec.key_columns)
    lone, rows, starts = (
        (np.zeros(len(keys), bool), *keyed.key_blocks(keys))
        if spec.merges_single_versions
        else split_single_versions(keys)
    )
    if len(rows):
        ranks = version_ranks(section, spec)
        if not (len(ranks) == 1 and keyed.has_few_ascending_runs(keys, ranks[0])):
            rows = keyed.sort_blocks_by_age(rows, starts, ranks, tie_winner_mask(section))
        if spec.needs_lookup and LEVEL in section.columns:
            rows, starts = _lowest_levels(rows, starts, section[LEVEL].to_numpy())
    return lone, version_rounds(rows, starts)


def split_single_versions(keys: KeyCodes) -> tuple[Bools, Ints, Ints]:
    """Return which rows are the only one of their key, and the others in blocks by key, in section order."""
    twice = keyed.mask_repeated(keys)
    if twice is not None:
        rows, starts = keyed.key_blocks(keyed.select_keys(keys, twice))
        return ~twice, np.flatnonzero(twice)[rows], starts
    rows, starts = keyed.key_blocks(keys)
    single = np.diff(starts, append=len(rows)) == 1
    lone = np.zeros(len(rows), bool)
    lone[rows[starts[single]]] = True
    return lone, *_without_single_versions(rows, starts, single)


def _without_single_versions(row_numbers: Ints, starts: Ints, is_single_version: Bools) -> tuple[Ints, Ints]:
    """Return the blocks of several rows only, in the order of their first rows."""
    sizes = np.diff(starts, append=len(row_numbers))
    many = np.flatnonzero(~is_single_version)
    many = many[np.argsort(row_numbers[starts[many]])]
    sizes, heads = sizes[many], starts[many]
    fresh = np.cumsum(sizes) - sizes
    where = np.arange(int(sizes.sum())) - np.repeat(fresh, sizes) + np.repeat(heads, sizes)
    return row_numbers[where], fresh


def _lowest_levels(row_numbers: Ints, starts: Ints, levels: Array) -> tuple[Ints, Ints]:
    """Return the blocks with only one of the rows above level 0, that of the lowest level."""
    placed = levels[row_numbers].astype(np.int64)
    ranked = np.where(placed > 0, placed, np.iinfo(np.int64).max)
    lowest = np.minimum.reduceat(ranked, starts)
    sizes = np.diff(starts, append=len(row_numbers))
    keep = (placed <= 0) | (placed == np.repeat(lowest, sizes))
    counts = np.add.reduceat(keep.astype(np.int64), starts)
    return row_numbers[keep], np.cumsum(counts) - counts


def visible_mask(section: pl.DataFrame, spec: MergeSpec) -> Bools | None:
    """Return which rows take part by the level rule; None if all do."""
    if not spec.needs_lookup or LEVEL not in section.columns:
        return None
    levels = section[LEVEL].to_numpy()
    above = levels > 0
    if not above.any() or (levels[above] == levels[above][0]).all():
        return None
    keys = keyed.select_keys(keyed.encode_keys(section, spec.key_columns), above)
    rows, starts = keyed.key_blocks(keys)
    lowest_rows, _ = _lowest_levels(rows, starts, levels[above])
    mask = ~above
    mask[np.flatnonzero(above)[lowest_rows]] = True
    return mask


# ---- winners ------------------------------------------------------------


def mask_newest(section: pl.DataFrame, spec: MergeSpec) -> Bools:
    """Return which rows are the newest version of their key."""
    return _mask_winners(section, spec, newest_wins=True)


def mask_oldest(section: pl.DataFrame, spec: MergeSpec) -> Bools:
    """Return which rows are the oldest version of their key."""
    return _mask_winners(section, spec, newest_wins=False)


def _mask_winners(section: pl.DataFrame, spec: MergeSpec, *, newest_wins: bool) -> Bools:
    if section.height == 0:
        return np.zeros(0, bool)
    keys = keyed.encode_keys(section, spec.key_columns)
    ranks = version_ranks(section, spec)
    if not keys.is_dense:
        mask = np.zeros(section.height, bool)
        rows, starts = keyed.key_blocks(keys)
        if (
            not ranks
            or (len(ranks) == 1 and keyed.has_few_ascending_runs(keys, ranks[0]))
            or keyed.is_age_ascending(rows, starts, ranks, tie_winner_mask(section))
        ):
            mask[rows[np.append(starts[1:] - 1, len(rows) - 1)] if newest_wins else rows[starts]] = True
        else:
            mask[_select_winners(section, version_rounds(rows, starts), ranks, newest_wins)] = True
        return mask
    backwards = None if newest_wins else np.arange(section.height - 1, -1, -1)
    winner = keyed.last_rows_by_key(keys, backwards)
    if not ranks or _has_no_ties(keys, ranks, winner, newest_wins):
        return winner == np.arange(len(winner), dtype=winner.dtype)
    mask, rows, starts = split_single_versions(keys)
    mask[_select_winners(section, version_rounds(rows, starts), ranks, newest_wins)] = True
    return mask


def _has_no_ties(keys: KeyCodes, ranks: list[Ints], winner: Array, newest_wins: bool) -> bool:
    """Return whether no other row of a key is as new (or as old) as its winner."""
    if len(ranks) == 1 and keyed.has_few_ascending_runs(keys, ranks[0]):
        return True
    tied = winner != np.arange(len(winner), dtype=winner.dtype)
    for rank in ranks:
        best = rank[winner]
        if (tied & ((rank > best) if newest_wins else (rank < best))).any():
            return False
        tied = tied & (rank == best)
    return not tied.any()


def _select_winners(section: pl.DataFrame, versions: Versions, ranks: list[Ints], newest_wins: bool) -> Ints:
    """Return the newest, or the oldest, version of every key."""
    adds = tie_winner_mask(section)
    winning_rows = versions.row_numbers[: versions.count].copy()
    for step in versions.iter_steps():
        rivals, mine = versions.row_numbers[step], winning_rows[: step.stop - step.start]
        newer = _is_newer(rivals, mine, ranks, adds)
        assign_where(mine, rivals, newer if newest_wins else ~newer)
    return winning_rows


def _is_newer(row_numbers: Ints, other_row_numbers: Ints, ranks: list[Ints], is_adding: Bools) -> Bools:
    """Return which rows are newer than `other_row_numbers`, which are before them in the section.

    In a tie the later row is newer, unless it retracts what the other adds.
    """
    newer, tied = np.zeros(len(row_numbers), bool), np.ones(len(row_numbers), bool)
    for rank in ranks:
        mine, theirs = rank[row_numbers], rank[other_row_numbers]
        newer |= tied & (mine > theirs)
        tied &= mine == theirs
    return newer | (tied & (is_adding[row_numbers] | ~is_adding[other_row_numbers]))


def mask_single_versions(section: pl.DataFrame, spec: MergeSpec) -> Bools:
    """Return which rows are the only version of their key."""
    return split_single_versions(keyed.encode_keys(section, spec.key_columns))[0]
