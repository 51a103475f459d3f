"""The order of versions of a key: sequence fields, sequence number, retract before add.

Nulls of a sequence field lose, in both directions of `sequence.field.sort-order`: descending reverses the comparison of
two values, not of a value and a null. Rows that are equal in all of this keep the order they have in the section.

Source: ENGINE.md 0.1, 1.3 and 6.6; `UserDefinedSeqComparator`, `SortMergeReaderWithLoserTree`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import polars as pl

    from lakekit.lsm.numpy_columns import Bools, Ints
    from lakekit.lsm.rule import MergeSpec

from lakekit.columns import KIND, SEQUENCE
from lakekit.lsm.numpy_columns import RETRACT_BIT, to_comparable


def ranks(section: pl.DataFrame, rule: MergeSpec) -> list[Ints]:
    """Return the arrays that versions of a key are compared by, most significant first.

    They sort from the oldest version to the newest, but for ties.
    """
    comparables = [
        to_comparable(section[name], descending=rule.descending, as_sequence=True) for name in rule.sequence_fields
    ]
    if SEQUENCE in section.columns:
        comparables.append(section[SEQUENCE].to_numpy())
    return comparables


def retracts(section: pl.DataFrame) -> Bools:
    """Return which rows retract (kinds -U and -D); none in a section without kinds."""
    if KIND not in section.columns:
        return np.zeros(section.height, bool)
    return (section[KIND].to_numpy() & RETRACT_BIT).astype(bool)


def adds(section: pl.DataFrame) -> Bools:
    """Return which rows win a tie.

    Without sequence numbers the position in the section stands for them, and there are no ties.
    """
    if SEQUENCE in section.columns:
        return ~retracts(section)
    return np.zeros(section.height, bool)
