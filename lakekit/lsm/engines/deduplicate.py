"""Deduplicate: of all versions of a key, the newest is the row; a newest delete means there is none.

With `ignore-delete` retracting versions are passed over (files of old engines may hold them); a key of nothing else has no row, but a retracting row
that is its key's only one stays what it is: nothing was merged.

Source: ENGINE.md 3.1 and 3.2, `DeduplicateMergeFunction`, `LookupMergeFunction`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lakekit.lsm import age, row_versions
from lakekit.lsm.winners import lone, newest

if TYPE_CHECKING:
    from lakekit.lsm.numpy_columns import Bools
    from lakekit.lsm.rule import MergeSpec

CHOOSES = True


def winners(section: pl.DataFrame, rule: MergeSpec) -> Bools:
    """Which rows stand for their key, deletes included."""
    part = row_versions.visible(section, rule)
    passed = age.retracts(section) if rule.ignore_delete else None
    if passed is not None and passed.any():
        mask = within(section, rule, ~passed if part is None else part & ~passed)
        return mask if rule.merges_lone else mask | (lone(section, rule) & passed)
    return newest(section, rule) if part is None else within(section, rule, part)


def within(section: pl.DataFrame, rule: MergeSpec, part: Bools) -> Bools:
    """The newest versions among some of the rows."""
    mask = np.zeros(section.height, bool)
    mask[np.flatnonzero(part)] = newest(section.filter(pl.Series(part)), rule)
    return mask
