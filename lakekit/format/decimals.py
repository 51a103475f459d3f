"""Decimals by column: operations on the unscaled integers, as in Java's BigDecimal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.types import Field

MOST_DIGITS = 38


def rescale(column: pl.Series, *, precision: int, scale: int) -> pl.Series:
    """Change precision and scale: round half up (away from zero); what does not fit is null."""
    assert isinstance(column.dtype, pl.Decimal)
    unscaled, shift = column.to_physical(), scale - column.dtype.scale
    frame = unscaled.alias("v").to_frame()
    if shift >= 0:
        room = _integer(10 ** (precision - shift) if shift <= precision else 1)
        value = pl.when(pl.col("v").abs() < room).then(pl.col("v")) * _integer(10 ** min(shift, MOST_DIGITS))
        value = value if shift <= precision else pl.when(pl.col("v") == 0).then(pl.col("v"))
    else:
        step = 10 ** min(-shift, MOST_DIGITS)
        value = (pl.col("v").abs() + _integer(step // 2)) // _integer(step) * pl.col("v").sign()
    return from_unscaled(frame.select(value).to_series(), precision=precision, scale=scale).alias(column.name)


def from_unscaled(values: pl.Series, *, precision: int, scale: int) -> pl.Series:
    """Return unscaled Int128 values as DECIMAL(precision, scale); null where they have more digits."""
    fits = values.alias("v").to_frame().select(pl.when(pl.col("v").abs() < _integer(10**precision)).then(pl.col("v")))
    return fits.to_series().reinterpret(dtype=pl.Decimal(precision, scale)).alias(values.name)


def null_overflows(frame: pl.DataFrame, fields: Sequence[Field]) -> pl.DataFrame:
    """Replace values of DECIMAL columns of `fields` that have more digits than their type by null.

    Sums may have more; the reference reads null for them in ORC and Avro files.
    """
    changed = []
    for field in fields:
        column, precision, scale = frame.get_column(field.name), field.type.precision or 10, field.type.scale or 0
        if (column.to_physical().abs() >= 10**precision).any():
            changed.append(from_unscaled(column.to_physical(), precision=precision, scale=scale))
    return frame.with_columns(changed) if changed else frame


def truncate(column: pl.Series, scale: int) -> pl.Series:
    """Return the integer part, cut off toward zero, as Int128."""
    frame = column.to_physical().alias("v").to_frame()
    return frame.select(pl.col("v").abs() // _integer(10**scale) * pl.col("v").sign()).to_series().alias(column.name)


def _integer(value: int) -> pl.Expr:
    return pl.lit(value, pl.Int128)
