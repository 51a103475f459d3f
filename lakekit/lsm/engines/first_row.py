"""First row: the oldest version of a key is its row.

A retracting row is refused if its key has another row, unless `ignore-delete` skips it.

Source: ENGINE.md 3.1 and 3.5, `FirstRowMergeFunction`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lakekit.errors import InvalidOption
from lakekit.lsm import row_versions
from lakekit.lsm.row_versions import mask_oldest, mask_single_versions

if TYPE_CHECKING:
    from lakekit.lsm.merge_spec import MergeSpec
    from lakekit.lsm.numpy_columns import Bools

SELECTS_ROWS = True
"""The engine selects one version of each key."""


def winners(section: pl.DataFrame, spec: MergeSpec) -> Bools:
    """Return which rows win their key. Raises `InvalidOption` for a retracting row of a key with several."""
    passed = row_versions.retraction_mask(section)
    if not passed.any():
        return mask_oldest(section, spec)
    alone = (
        np.zeros(section.height, bool) if spec.merges_single_versions else mask_single_versions(section, spec) & passed
    )
    if not spec.ignores_deletes and (passed & ~alone).any():
        raise InvalidOption(
            "By default, First row merge engine can not accept DELETE/UPDATE_BEFORE records: "
            f"{spec.table_name} holds some. Configure 'ignore-delete' to ignore them; t.scan(raw=True) reads the rows "
            "unmerged",
            key="ignore-delete",
        )
    mask = np.zeros(section.height, bool)
    mask[np.flatnonzero(~passed)] = mask_oldest(section.filter(pl.Series(~passed)), spec)
    return mask | alone
