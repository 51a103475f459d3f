"""Statistics of one column of a file: null count, minimum and maximum, in Polars' physical values.

    stats.add(column, t)      counts rows
    stats.take(chunk, t)      adds a Parquet chunk's statistics, where they are complete

    chunk statistics    3 null count · 5 max · 6 min             numbers little-endian, texts as UTF-8, cut at 64 bytes

An encoder that counts nulls and bounds anyway saves a second look at every row. Source: FORMAT.md 7.7; the Apache
Parquet format, `Statistics`.
"""

from __future__ import annotations

import struct
from decimal import Context, Decimal
from math import isnan
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit.types import BINARIES, STRINGS, TIMESTAMPS
from lakekit.types.arrow import timestamp_unit

if TYPE_CHECKING:
    from lakekit.format.thrift import Struct
    from lakekit.types import DataType

TIMES = TIMESTAMPS | {"DATE", "TIME"}
"""Types whose bounds are kept as physical numbers."""
REALS = frozenset({"FLOAT", "DOUBLE"})
_BOUNDLESS_TYPES = frozenset({"ARRAY", "MAP", "MULTISET", "ROW", "VARIANT"}) | BINARIES
_NUMBERS = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DATE"}) | REALS
_FORMS = {number: struct.Struct(form) for number, form in ((0, "<?"), (1, "<i"), (2, "<q"), (4, "<f"), (5, "<d"))}
"""Formats of the bounds of physical types of fixed width."""
_TEXT = 6
_CUT_BYTES = 64 - 3
"""Texts of at least so many bytes may have been cut to 64 bytes, between characters."""
_EXACT_CONTEXT = Context(prec=40)
_MOST_DIGITS = 18
"""The most digits of decimals that a file holds as numbers; others are bytes."""


def has_bounds(t: DataType) -> bool:
    """Return whether values of a type have an order that bounds can use."""
    return t.root not in _BOUNDLESS_TYPES


def chunks_tell(t: DataType) -> bool:
    """Return whether statistics of Parquet chunks hold bounds of a type as they are."""
    if t.root in TIMESTAMPS:
        return timestamp_unit(t.precision) != "ns"
    return t.root in _NUMBERS or t.root in STRINGS or (t.root == "DECIMAL" and (t.precision or 10) <= _MOST_DIGITS)


def has_nan(column: pl.Series) -> bool:
    """Return whether a column of real numbers holds a NaN.

    The sum of a column with one is a NaN.
    """
    total = column.sum()
    return isnan(total) and bool(column.is_nan().any())  # infinities of both signs sum up to a NaN too


class ColumnStats:
    """Statistics of one column over all rows so far; `known` is False where a NaN makes bounds unknown."""

    __slots__ = ("high", "known", "low", "nulls")

    def __init__(self) -> None:
        self.low: Any = None
        self.high: Any = None
        self.nulls, self.known = 0, True

    def add(self, column: pl.Series, t: DataType) -> None:
        """Add the rows of a column, one column at a time: for few rows that costs least."""
        self.nulls += column.null_count()
        if not has_bounds(t) or not self.known:
            return
        if t.root in REALS and has_nan(column):
            self.known = False
            return
        if t.root in TIMES:
            column = column.to_physical()
        elif t.root == "DECIMAL":
            # sums may outgrow their type's digits (case aggregate_sum_types)
            column = column.cast(pl.Decimal(38, t.scale or 0))
        self._widen(column.min(), column.max())

    def take(self, chunk: Struct, t: DataType) -> bool:
        """Add the statistics in a chunk's metadata, of a column without NaN.

        Returns False, and adds nothing, where they are incomplete.
        """
        statistics: Struct = chunk[12][1] if 12 in chunk else {}
        if 3 not in statistics:
            return False
        nulls = statistics[3][1]
        if 5 not in statistics or 6 not in statistics:
            if nulls != chunk[5][1]:  # the number of values
                return False
            self.nulls += nulls
            return True
        bounds = _decode_bounds(chunk[1][1], statistics[6][1], statistics[5][1])
        if bounds is None:
            return False
        self.nulls += nulls
        self._widen(
            *(
                Decimal(bound).scaleb(-(t.scale or 0), _EXACT_CONTEXT) if t.root == "DECIMAL" else bound
                for bound in bounds
            )
        )
        return True

    def forget(self, nulls: int) -> None:
        """Add rows of which only the nulls are known."""
        self.nulls += nulls
        self.known = False

    def _widen(self, low: Any, high: Any) -> None:
        if low is not None:
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)


def _decode_bounds(physical: int, low: bytes, high: bytes) -> tuple[Any, Any] | None:
    """Return the bounds of a chunk; None where a text was cut, or their form is unknown."""
    if physical == _TEXT:
        return (low.decode(), high.decode()) if max(len(low), len(high)) < _CUT_BYTES else None
    form = _FORMS.get(physical)
    if form is None or not len(low) == len(high) == form.size:
        return None
    return form.unpack(low)[0], form.unpack(high)[0]
