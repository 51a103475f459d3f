"""The winning row of each key: the newest of its versions, or the oldest.

A section comes oldest run first, so that the winner is nearly always the last row of its key. That is assumed, then
verified with the sequence numbers. If it is wrong, the versions of each key are compared: one round of versions after
another, all keys at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lakekit.lsm import age, key_codes as keyed
from lakekit.lsm.numpy_columns import put
from lakekit.lsm.row_versions import split_single_versions, version_rounds

if TYPE_CHECKING:
    import polars as pl

    from lakekit.lsm.key_codes import KeyCodes
    from lakekit.lsm.numpy_columns import Array, Bools, Ints
    from lakekit.lsm.row_versions import Versions
    from lakekit.lsm.rule import MergeSpec


def mask_newest(section: pl.DataFrame, rule: MergeSpec) -> Bools:
    """Return which rows are the newest version of their key."""
    return _mask_winners(section, rule, newest_wins=True)


def mask_oldest(section: pl.DataFrame, rule: MergeSpec) -> Bools:
    """Return which rows are the oldest version of their key."""
    return _mask_winners(section, rule, newest_wins=False)


def _mask_winners(section: pl.DataFrame, rule: MergeSpec, *, newest_wins: bool) -> Bools:
    if section.height == 0:
        return np.zeros(0, bool)
    keys = keyed.encode_keys(section, rule.key)
    ranks = age.ranks(section, rule)
    if not keys.is_dense:
        mask = np.zeros(section.height, bool)
        rows, starts = keyed.blocks(keys)
        if (
            not ranks
            or (len(ranks) == 1 and keyed.newer_runs(keys, ranks[0]))
            or keyed.is_age_ascending(rows, starts, ranks, age.adds(section))
        ):
            mask[rows[np.append(starts[1:] - 1, len(rows) - 1)] if newest_wins else rows[starts]] = True
        else:
            mask[_contest(section, version_rounds(rows, starts), ranks, newest_wins)] = True
        return mask
    backwards = None if newest_wins else np.arange(section.height - 1, -1, -1)
    winner = keyed.winners(keys, backwards)
    if not ranks or _has_no_ties(keys, ranks, winner, newest_wins):
        return winner == np.arange(len(winner), dtype=winner.dtype)
    mask, rows, starts = split_single_versions(keys)
    mask[_contest(section, version_rounds(rows, starts), ranks, newest_wins)] = True
    return mask


def _has_no_ties(keys: KeyCodes, ranks: list[Ints], winner: Array, newest_wins: bool) -> bool:
    """Return whether no other row of a key is as new (or as old) as its winner."""
    if len(ranks) == 1 and keyed.newer_runs(keys, ranks[0]):
        return True
    tied = winner != np.arange(len(winner), dtype=winner.dtype)
    for rank in ranks:
        best = rank[winner]
        if (tied & ((rank > best) if newest_wins else (rank < best))).any():
            return False
        tied = tied & (rank == best)
    return not tied.any()


def _contest(section: pl.DataFrame, versions: Versions, ranks: list[Ints], newest_wins: bool) -> Ints:
    """Return the newest, or the oldest, version of every key."""
    adds = age.adds(section)
    winning_rows = versions.rows[: versions.count].copy()
    for step in versions.steps():
        rivals, mine = versions.rows[step], winning_rows[: step.stop - step.start]
        newer = _is_newer(rivals, mine, ranks, adds)
        put(mine, rivals, newer if newest_wins else ~newer)
    return winning_rows


def _is_newer(rows: Ints, others: Ints, ranks: list[Ints], adds: Bools) -> Bools:
    """Return which rows are newer than `others`, which are before them in the section.

    In a tie the later row is newer, unless it retracts what the other adds.
    """
    newer, tied = np.zeros(len(rows), bool), np.ones(len(rows), bool)
    for rank in ranks:
        mine, theirs = rank[rows], rank[others]
        newer |= tied & (mine > theirs)
        tied &= mine == theirs
    return newer | (tied & (adds[rows] | ~adds[others]))


def mask_single_versions(section: pl.DataFrame, rule: MergeSpec) -> Bools:
    """Return which rows are the only version of their key."""
    return split_single_versions(keyed.encode_keys(section, rule.key))[0]
