"""A check of constants in conditions and values for times that Polars cannot print.

    pl.col("d") < pl.lit(2_147_483_647).cast(pl.Date)      the year 5,881,580

Polars panics when it reports an error about such an expression, or explains it. Only casts and arithmetic of Polars
make such a time; Python has none of them.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import polars as pl

from lakekit.columns import series_field
from lakekit.errors import ValueOutOfRange
from lakekit.format.calendar import is_printable

if TYPE_CHECKING:
    from collections.abc import Iterator

_MADE_BY = (b"Date", b"date", b"TemporalExpr")
"""What the bytes of an expression have in them that has times in it; values of a `pl.Series` are never printed."""


def check_printable_times(expr: pl.Expr, table: str, argument: str) -> None:
    """Raise `ValueOutOfRange` for an expression with a constant date or timestamp beyond Polars' calendar."""
    if not _may_have_times(expr):
        return
    for part in _constants(expr):
        values = pl.Series()
        with suppress(Exception):  # raised again when it is computed; a Python function may raise anything
            values = pl.select(part).to_series()
        for times in _times(values):
            unprintable = times.to_frame("").select((~is_printable(pl.col(""))).arg_true()).to_series()
            if unprintable.len():
                count = int(times.to_physical()[int(unprintable[0])])
                unit = times.dtype.time_unit if isinstance(times.dtype, pl.Datetime) else "days"
                msg = (
                    f"{argument} for {table} has a time beyond the years -262143 to 262142, {count} {unit} since "
                    "1970: give one within them"
                )
                raise ValueOutOfRange(msg)


def _may_have_times(expr: pl.Expr) -> bool:
    try:
        serialized = expr.meta.serialize(format="binary")
    except Exception:  # noqa: BLE001 - a function of Python that does not pickle raises what it likes
        return True
    return any(word in serialized for word in _MADE_BY)


def _constants(expr: pl.Expr) -> Iterator[pl.Expr]:
    """Yield the largest parts of an expression that name no column."""
    waiting = [expr]
    while waiting:
        part = waiting.pop()
        if part.meta.root_names():
            waiting += part.meta.pop()
        elif not part.meta.has_multiple_outputs():
            yield part


def _times(values: pl.Series) -> Iterator[pl.Series]:
    """Yield the dates and timestamps of some values, those inside lists and structs too."""
    dtype = values.dtype
    if isinstance(dtype, pl.List | pl.Array):
        yield from _times(values.explode())
    elif isinstance(dtype, pl.Struct):
        for field in dtype.fields:
            yield from _times(series_field(values, field.name))
    elif isinstance(dtype, pl.Date | pl.Datetime):
        yield values
