"""The one row that stands for each key: the newest of its versions, or the oldest.

A section comes oldest run first, so the winner is nearly always the last row of its key; that is taken for granted, then proved with the sequence
numbers, and only where the proof fails are rows put in order of age first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lakekit.lsm import age, keys as keyed

if TYPE_CHECKING:
    import polars as pl

    from lakekit.lsm.arrays import Array, Bools, Ints
    from lakekit.lsm.keys import Keys
    from lakekit.lsm.rule import MergeRule


def newest(section: pl.DataFrame, rule: MergeRule) -> Bools:
    """Which rows are the newest version of their key."""
    return _chosen(section, rule, newest_wins=True)


def oldest(section: pl.DataFrame, rule: MergeRule) -> Bools:
    """Which rows are the oldest version of their key."""
    return _chosen(section, rule, newest_wins=False)


def _chosen(section: pl.DataFrame, rule: MergeRule, *, newest_wins: bool) -> Bools:
    mask = np.zeros(section.height, bool)
    if section.height == 0:
        return mask
    keys = keyed.of(section, rule.key)
    ranks = age.ranks(section, rule)
    if keys.is_dense:
        mask[_dense(section, rule, keys, ranks, newest_wins)] = True
        return mask
    rows, starts = keyed.blocks(keys)
    if ranks:
        rows = keyed.ordered_blocks(rows, starts, ranks, _adds(section))
    mask[rows[np.append(starts[1:] - 1, len(rows) - 1)] if newest_wins else rows[starts]] = True
    return mask


def _adds(section: pl.DataFrame) -> Bools:
    return ~age.retracts(section) if age.KIND in section.columns else np.zeros(section.height, bool)


def _dense(section: pl.DataFrame, rule: MergeRule, keys: Keys, ranks: list[Ints], newest_wins: bool) -> Array:
    backwards = None if newest_wins else np.arange(section.height - 1, -1, -1)
    at, last = keyed.slots(keys, backwards)
    if ranks and not _proved(ranks, at, last, newest_wins):
        order = age.order(section, rule)
        _, last = keyed.slots(keys, order if newest_wins else order[::-1])
    return last[last >= 0]


def _proved(ranks: list[Ints], at: Array, last: Array, newest_wins: bool) -> bool:
    """Whether no other row of a key is as new (or as old) as its winner."""
    winner = last[at]
    others = winner != np.arange(len(at), dtype=winner.dtype)
    tied = others
    for rank in ranks:
        best = rank[winner]
        if (tied & ((rank > best) if newest_wins else (rank < best))).any():
            return False
        tied = tied & (rank == best)
    return not tied.any()


def lone(section: pl.DataFrame, rule: MergeRule) -> Bools:
    """Which rows are the only version of their key."""
    keys = keyed.of(section, rule.key)
    twice = keyed.repeated(keys)
    if twice is not None:
        return ~twice
    rows, starts = keyed.blocks(keys)
    mask = np.zeros(section.height, bool)
    mask[rows[starts[np.diff(starts, append=len(rows)) == 1]]] = True
    return mask
