"""A snapshot and a condition become what has to be read: raw files, and sections that must be merged.

Everything here works on the columns of manifest entries; a `DataFile` is made only for a file that survives. Each step counts what it drops, and
`t.explain()` prints those counts. Rules: ENGINE 2.10 (what is visible), 6.4 (what may be skipped), 2.5 (sections).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.codec import binary_row
from lakekit.files import deletions
from lakekit.format.dtypes import polars_schema
from lakekit.lsm import rule as rules
from lakekit.lsm import runs
from lakekit.meta import manifests
from lakekit.model import stats
from lakekit.predicate import TRUE, And, Predicate, columns, conjuncts
from lakekit.read import file_index, prune, select

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from lakekit.lsm.rule import MergeRule
    from lakekit.meta.handle import Handle
    from lakekit.model.entries import Entries
    from lakekit.model.manifest import ManifestFile
    from lakekit.model.snapshot import Snapshot

    Mask = NDArray[np.bool_]

POSTPONE_BUCKET = -2


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter as planning sees it: the necessary predicate, and the conjuncts that partition columns alone decide."""

    predicate: Predicate = TRUE
    on_partition: tuple[pl.Expr, ...] = ()
    on_key: tuple[pl.Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the funnel: of `before` things of a kind, `after` stayed, because of `why`."""

    what: str
    before: int
    after: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Runs of one bucket whose keys overlap: indices into the plan's entries, oldest run first."""

    runs: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a read has to do. `raw` and the sections' runs are indices into `entries`.

    Raw files need no merge; where `drops_deletes` says so, rows of kind -U and -D are left out. `masks` holds, for a file name, the row positions its
    file index leaves; `deletions` where its deletion vector lies.
    """

    handle: Handle
    snapshot: Snapshot | None
    entries: Entries
    raw: NDArray[np.int64]
    merged: Mapping[tuple[bytes, int], tuple[Section, ...]]
    rule: MergeRule | None
    deletions: Mapping[str, deletions.Located] = field(default_factory=dict)
    masks: Mapping[str, object] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    files_total: int = 0
    bytes_total: int | None = None
