"""The origin of values, for error messages.

    ValueLocation(column="v", path="v.element", table="shop.orders", row_of=…)
        ->   row 7 of column v.element holds 300, which is no TINYINT

Rows are counted from 0 over the whole input of one call.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from lakekit.errors import SchemaMismatch, ValueOutOfRange

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.types import DataType

_MAX_SHOWN_CHARS = 60
_TICKS = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_FIRST_SECOND, _END_SECOND = -62_135_596_800, 253_402_300_800
"""From the year 1 to the year 10000."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorHints:
    """Advice in error messages about rows that do not fit, in the terms of the caller's API.

    `cast` follows "Cast it" and "Round it"; `cut` follows "Cut it with" for a time finer than `{unit}`; `grow` follows
    "Drop it" for a column that the table lacks.
    """

    cast: str = ", or write with cast=True"
    cut: str = ".dt.truncate('1{unit}')"
    grow: str = ", or add it to the table (merge_schema=True, or t.alter)"


_PARSERS = {
    "DATE": ".str.to_date()",
    "TIME": ".str.to_time()",
    "TIMESTAMP": ".str.to_datetime()",
    "TIMESTAMP_LTZ": ".str.to_datetime(time_zone='UTC')",
    "BOOLEAN": ".eq('true')",
}
"""How texts become values of types to which Polars casts none."""
DEFAULT_HINTS = ErrorHints()
"""Those of `t.append` and `t.upsert`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueLocation:
    """The location of values, for error messages.

    `path` leads to a part of the column; `row_of` maps an index to a row number. Rows are counted from 0 over the whole
    input.
    """

    column: str
    path: str
    table: str
    row_of: Callable[[int], int]
    remedies: ErrorHints = DEFAULT_HINTS

    def inner(self, name: str, row_of: Callable[[int], int] | None = None) -> ValueLocation:
        """Return the location of a part of these values.

        `row_of` maps an index of the part to an index of these values; None: they are the same.
        """
        own = self.row_of
        return replace(self, path=f"{self.path}.{name}", row_of=own if row_of is None else lambda i: own(row_of(i)))

    def bad_value(self, wrong: pl.Series, values: pl.Series, reason: str, advice: str) -> ValueOutOfRange:
        """Return the error about the first value where the mask `wrong` is true."""
        index = wrong.alias("").arg_true()[0]
        return ValueOutOfRange(
            f"row {self.row_of(index)}: column {self.path} of {self.table} holds {format_value_at(values, index)}, "
            f"{reason}. {advice}",
            column=self.column,
        )

    def bad_null(self, at: int) -> ValueOutOfRange:
        """Return the error about a null in a NOT NULL column."""
        return ValueOutOfRange(
            f"row {self.row_of(at)}: column {self.path} of {self.table} is NOT NULL and the row has no value there (a "
            "default does not stand in). Give it a value, or leave the row out",
            column=self.column,
        )

    def bad_type(self, dtype: object, expected: DataType, *, castable: bool = True) -> SchemaMismatch:
        """Return the error about values of a type that is not cast implicitly."""
        parse = _PARSERS.get(expected.root) if dtype == pl.String() else None
        if parse is not None:
            do = f"Parse the text first, in Polars by pl.col({self.column!r}){parse}"
        else:
            do = f"Cast it{self.remedies.cast}" if castable else "Make it of that type"
        return SchemaMismatch(
            f"column {self.path} of {self.table} is {expected}, the rows have {dtype}. {do}", column=self.column
        )


def format_value_at(values: pl.Series, at: int) -> str:
    """One of some values as messages show it: times that Python has no date for as their count."""
    return format_raw_count(values, at) or format_value(values[at])


def format_raw_count(values: pl.Series, at: int) -> str | None:
    """Return the raw count of a time that Python's datetime cannot hold; None for other values and null."""
    dtype = values.dtype
    if not dtype.is_temporal() or values.to_physical()[at] is None:
        return None
    if isinstance(dtype, (pl.Datetime, pl.Duration)):
        count, since = int(values.to_physical()[at]), " since 1970" if isinstance(dtype, pl.Datetime) else ""
        if since == "" or not _FIRST_SECOND <= count // _TICKS[dtype.time_unit] < _END_SECOND:
            return f"{count} {dtype.time_unit}{since}"
    elif isinstance(dtype, pl.Date) and not _FIRST_SECOND <= int(values.to_physical()[at]) * 86_400 < _END_SECOND:
        return f"day {int(values.to_physical()[at])} since 1970"
    return None


def format_value(value: object) -> str:
    """Format a value for error messages."""
    try:
        text = repr(value.to_list() if isinstance(value, pl.Series) else value)  # scalar: one value, of an error
    except (pl.exceptions.PanicException, OverflowError, ValueError):  # times that Python has no date for
        text = "parts that Python cannot show"
    return text if len(text) <= _MAX_SHOWN_CHARS else text[: _MAX_SHOWN_CHARS - 1] + "…"
