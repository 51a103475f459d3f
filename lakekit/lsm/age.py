"""Which version of a key is newer: sequence fields, sequence number, retract before add.

Nulls of a sequence field lose, in both directions of `sequence.field.sort-order`: descending turns round the comparison of two values, not of a value
and a null. Rows that are equal in all of this keep the order they have in the section.

Source: ENGINE.md 0.1, 1.3 and 6.6; `UserDefinedSeqComparator`, `SortMergeReaderWithLoserTree`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import polars as pl

    from lakekit.lsm.numpy_columns import Bools, Ints
    from lakekit.lsm.rule import MergeSpec

from lakekit.lsm.numpy_columns import RETRACT_BIT, to_comparable

SEQUENCE: Final = "_SEQUENCE_NUMBER"
KIND: Final = "_VALUE_KIND"


def ranks(section: pl.DataFrame, rule: MergeSpec) -> list[Ints]:
    """What versions of a key are compared by, most significant first: arrays whose order is the order of age, without the last word on ties."""
    found = [to_comparable(section[name], descending=rule.descending, as_sequence=True) for name in rule.sequence_fields]
    if SEQUENCE in section.columns:
        found.append(section[SEQUENCE].to_numpy())
    return found


def retracts(section: pl.DataFrame) -> Bools:
    """Which rows take something away: kinds -U and -D. None does in a section without kinds."""
    if KIND not in section.columns:
        return np.zeros(section.height, bool)
    return (section[KIND].to_numpy() & RETRACT_BIT).astype(bool)


def adds(section: pl.DataFrame) -> Bools:
    """Which rows win a tie. Without sequence numbers the place in the section stands for them, and there are no ties."""
    if SEQUENCE in section.columns:
        return ~retracts(section)
    return np.zeros(section.height, bool)
