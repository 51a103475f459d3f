"""Deduplicate: the newest version of a key is its row; if that is a delete there is none.

With `ignore-delete` retracting versions are skipped (files of old engines may hold them); a key with no other versions
has no row, except that a retracting row that is the only one of its key stays: nothing was merged.

Source: ENGINE.md 3.1 and 3.2, `DeduplicateMergeFunction`, `LookupMergeFunction`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lakekit.lsm import row_versions
from lakekit.lsm.row_versions import mask_newest, mask_single_versions

if TYPE_CHECKING:
    from lakekit.lsm.merge_spec import MergeSpec
    from lakekit.lsm.numpy_columns import Bools

SELECTS_ROWS = True
"""The engine selects one version of each key."""


def winners(section: pl.DataFrame, spec: MergeSpec) -> Bools:
    """Return which rows win their key, deletes included."""
    part = row_versions.visible_mask(section, spec)
    passed = row_versions.retraction_mask(section) if spec.ignores_deletes else None
    if passed is not None and passed.any():
        mask = newest_within(section, spec, ~passed if part is None else part & ~passed)
        return mask if spec.merges_single_versions else mask | (mask_single_versions(section, spec) & passed)
    return mask_newest(section, spec) if part is None else newest_within(section, spec, part)


def newest_within(section: pl.DataFrame, spec: MergeSpec, group_mask: Bools) -> Bools:
    """Return the newest versions among the rows that are set in `group_mask`."""
    mask = np.zeros(section.height, bool)
    mask[np.flatnonzero(group_mask)] = mask_newest(section.filter(pl.Series(group_mask)), spec)
    return mask
