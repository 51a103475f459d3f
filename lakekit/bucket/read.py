"""The rows of sections whose runs overlap, merged: what a merge engine leaves of all versions of each key.

Engines that choose rows (deduplicate, first-row) read the key columns first, compute one mask of winners, and filter the payload inside its own scan:
the user's filter first, so that row groups are skipped, the mask second. The mask is positional, so any filter may stand below it. Engines that build
rows (partial-update, aggregation) read what the fold needs and fold. Only conditions on key columns may go below a fold, and below the scan of the keys:
they keep or drop all versions of a key alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from lakekit.errors import Corrupt
from lakekit.files.read import scan_files
from lakekit.format.dtypes import polars_schema
from lakekit.lsm import merge, rule as rules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from lakekit.lsm.rule import MergeRule
    from lakekit.meta.handle import Handle
    from lakekit.model.data_file import DataFile
    from lakekit.types import Field

ROW = "_lakekit_row"
"""The position of a row among all rows of a section's files; never reaches a caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Files of one bucket to be merged together, oldest versions first, and how.

    `in_order`: sequence numbers never fall from one file to the next, so that file order is version order. `bounds`: a condition on key columns that
    cuts a slice out of the files; `on_key`: the caller's conditions on key columns. `deletions`: positions by file name.
    """

    handle: Handle
    partition: str
    bucket: int
    files: tuple[DataFile, ...]
    rule: MergeRule
    in_order: bool
    bounds: pl.Expr | None = None
    on_key: tuple[pl.Expr, ...] = ()
    deletions: Mapping[str, NDArray[np.uint32]] | None = None
    keeps_deletes: bool = False
