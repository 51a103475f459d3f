"""What is known of one column of a file: null count, smallest and greatest value, in the numbers that Polars holds.

    told.add(column, t)            asks the rows                 told.take(chunk, t)     takes a Parquet chunk's statistics, where they tell all

    chunk statistics    3 null count · 5 max · 6 min             numbers little-endian, texts as UTF-8, cut at 64 bytes

An encoder that counts nulls and bounds anyway saves a second look at every row. Source: FORMAT.md 7.7; the Apache Parquet format, `Statistics`.
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
"""Types whose values are asked for as numbers."""
REALS = frozenset({"FLOAT", "DOUBLE"})
_BOUNDLESS_TYPES = frozenset({"ARRAY", "MAP", "MULTISET", "ROW", "VARIANT"}) | BINARIES
_NUMBERS = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DATE"}) | REALS
_FORMS = {number: struct.Struct(form) for number, form in ((0, "<?"), (1, "<i"), (2, "<q"), (4, "<f"), (5, "<d"))}
"""Physical types of a fixed width, and how their bounds are packed."""
_TEXT = 6
_CUT_BYTES = 64 - 3
"""Texts that may have been cut to 64 bytes, between characters."""
_EXACT_CONTEXT = Context(prec=40)
_MOST_DIGITS = 18
"""Decimals of more digits are bytes in a file."""


def has_bounds(t: DataType) -> bool:
    """Whether values of a type have an order that bounds can use."""
    return t.root not in _BOUNDLESS_TYPES


def chunks_tell(t: DataType) -> bool:
    """Whether statistics of Parquet chunks hold bounds of a type as they are."""
    if t.root in TIMESTAMPS:
        return timestamp_unit(t.precision) != "ns"
    return t.root in _NUMBERS or t.root in STRINGS or (t.root == "DECIMAL" and (t.precision or 10) <= _MOST_DIGITS)


def has_nan(column: pl.Series) -> bool:
    """Whether a column of real numbers holds a NaN: no sum hides one."""
    total = column.sum()
    return isnan(total) and bool(column.is_nan().any())  # infinities of both signs sum up to a NaN too


class ColumnStats:
    """What all rows so far told of one column; `known` is False where a NaN leaves nothing to say of bounds."""

    __slots__ = ("high", "known", "low", "nulls")

    def __init__(self) -> None:
        self.low: Any = None
        self.high: Any = None
        self.nulls, self.known = 0, True

    def add(self, column: pl.Series, t: DataType) -> None:
        """Asks rows. A column at a time: for few rows that costs least."""
        self.nulls += column.null_count()
        if not has_bounds(t) or not self.known:
            return
        if t.root in REALS and has_nan(column):
            self.known = False
            return
        if t.root in TIMES:
            column = column.to_physical()
        elif t.root == "DECIMAL":
            column = column.cast(pl.Decimal(38, t.scale or 0))  # sums may outgrow their type's digits (case aggregate_sum_types)
        self._widen(column.min(), column.max())

    def take(self, chunk: Struct, t: DataType) -> bool:
        """Takes a chunk's metadata, of a column without NaN; False, and nothing is taken, where its statistics do not tell all."""
        found: Struct = chunk[12][1] if 12 in chunk else {}
        if 3 not in found:
            return False
        nulls = found[3][1]
        if 5 not in found or 6 not in found:
            if nulls != chunk[5][1]:  # the number of values
                return False
            self.nulls += nulls
            return True
        bounds = _decode_bounds(chunk[1][1], found[6][1], found[5][1])
        if bounds is None:
            return False
        self.nulls += nulls
        self._widen(*(Decimal(one).scaleb(-(t.scale or 0), _EXACT_CONTEXT) if t.root == "DECIMAL" else one for one in bounds))
        return True

    def forget(self, nulls: int) -> None:
        """Rows of which only the nulls can be told."""
        self.nulls += nulls
        self.known = False

    def _widen(self, low: Any, high: Any) -> None:
        if low is not None:
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)


def _decode_bounds(physical: int, low: bytes, high: bytes) -> tuple[Any, Any] | None:
    """The bounds of a chunk; None where a text was cut, or nothing is known of their form."""
    if physical == _TEXT:
        return (low.decode(), high.decode()) if max(len(low), len(high)) < _CUT_BYTES else None
    form = _FORMS.get(physical)
    if form is None or not len(low) == len(high) == form.size:
        return None
    return form.unpack(low)[0], form.unpack(high)[0]
