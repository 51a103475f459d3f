"""Print numbers as Java does: Float.toString and Double.toString of Java 8 to 18, by column.

    10000000000.0 -> "1.0E10"     0.001 -> "0.001"     1e-4 -> "1.0E-4"     1e7 -> "1.0E7"
    -0.0 -> "-0.0"     NaN, Infinity, -Infinity

The digits are the shortest that identify the value, as everywhere; but these Java versions print more of them for whole
numbers beyond the mantissa (2^25 as a float is 3.3554432E7) and for powers of two (Float.MIN_NORMAL is 1.17549435E-38),
and never fewer than two beside an exponent (4.9E-324). Not followed: a decimal exactly between two values, such as
1e23, which Java prints as 9.999999999999999E22 up to version 18 and as 1.0E23 since.

Source: the Java language's description of `Double.toString`; casts recorded from the reference (fixtures/formats/cast).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MANTISSA: dict[type[pl.DataType], int] = {pl.Float32: 24, pl.Float64: 53}
_MIN_EXPONENT: dict[type[pl.DataType], int] = {pl.Float32: -149, pl.Float64: -1074}
"""The exponent of the smallest positive value."""
_MAX_EXPONENT: dict[type[pl.DataType], int] = {pl.Float32: 127, pl.Float64: 1023}
_SUBNORMAL_STEPS = 256
"""Subnormal values up to so many times the smallest are printed by digits of their own."""


def float_text(column: pl.Series) -> pl.Series:
    """Return FLOAT or DOUBLE values as Java's text."""
    kind = type(column.dtype)
    parts = column.cast(pl.String).str.extract_groups(r"^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$").struct.unnest()
    parts.columns = ["sign", "whole", "fraction", "exponent"]
    digits = pl.concat_str("whole", pl.col("fraction").fill_null(""))
    significant = digits.str.strip_chars_start("0")
    exponent = pl.col("whole").str.len_bytes().cast(pl.Int64) - 1 + pl.col("exponent").cast(pl.Int64).fill_null(0)
    shortest = parts.select(
        "sign",
        digits=significant.str.strip_chars_end("0"),
        exponent=exponent - (digits.str.len_bytes().cast(pl.Int64) - significant.str.len_bytes().cast(pl.Int64)),
    )
    frame = _as_java(shortest, column, kind).with_columns(value=column)
    text = (
        pl.when(pl.col("digits") == "")
        .then(pl.lit("0.0"))
        .when(pl.col("exponent").is_between(-3, 6))
        .then(_plain_notation())
        .otherwise(_scientific_notation())
    )
    special = (
        pl.when(pl.col("value").is_nan())
        .then(pl.lit("NaN"))
        .when(pl.col("value") > 0)
        .then(pl.lit("Infinity"))
        .otherwise(pl.lit("-Infinity"))
    )
    finite = pl.when(pl.col("value").is_finite()).then(pl.concat_str("sign", text)).otherwise(special)
    return frame.select(pl.when(pl.col("value").is_not_null()).then(finite).alias(column.name)).to_series()


def _plain_notation() -> pl.Expr:
    digits, exponent = pl.col("digits"), pl.col("exponent")
    head = digits.str.slice(0, exponent + 1).str.pad_end(exponent.clip(0, 6) + 1, "0")
    tail = digits.str.slice(exponent + 1)
    small = pl.concat_str(pl.lit("0."), pl.lit("000").str.slice(0, -exponent - 1), digits)
    return pl.when(exponent >= 0).then(pl.concat_str(head, pl.lit("."), _or_zero(tail))).otherwise(small)


def _scientific_notation() -> pl.Expr:
    digits = pl.col("digits")
    return pl.concat_str(
        digits.str.slice(0, 1),
        pl.lit("."),
        _or_zero(digits.str.slice(1)),
        pl.lit("E"),
        pl.col("exponent").cast(pl.String),
    )


def _or_zero(text: pl.Expr) -> pl.Expr:
    return pl.when(text == "").then(pl.lit("0")).otherwise(text)


# ---- where Java prints other digits ----------------------------------------------------------------------------------


def _as_java(frame: pl.DataFrame, column: pl.Series, kind: type[pl.DataType]) -> pl.DataFrame:
    values = np.abs(column.fill_null(0).fill_nan(0).to_numpy())
    bits = _MANTISSA[kind]
    is_whole = (values >= 2.0**bits) & (values < 2.0**63)
    if is_whole.any():
        frame = frame.with_columns(_whole_numbers(values, is_whole, bits))
    mantissa, _ = np.frexp(values)
    odd = (
        (((mantissa == 0.5) & ~is_whole) | (values < _SUBNORMAL_STEPS * 2.0 ** _MIN_EXPONENT[kind]))
        & (values > 0)
        & np.isfinite(values)
    )
    if not odd.any():
        return frame
    table = _table(kind).lazy()
    keyed = frame.lazy().with_columns(key=pl.Series(np.where(odd, values.astype(np.float64), 0.0)))
    joined = keyed.join(table, on="key", how="left", maintain_order="left")
    return joined.select(
        "sign", digits=pl.coalesce("java_digits", "digits"), exponent=pl.coalesce("java_exponent", "exponent")
    ).collect()


def _whole_numbers(values: NDArray[np.floating], mask: NDArray[np.bool_], bits: int) -> list[pl.Expr]:
    """Return digits and exponents of whole numbers that need more bits than the mantissa has.

    These are all their digits but the last few, which are rounded away.
    """
    integers = np.where(mask, values, 1).astype(np.int64)
    beyond = np.frexp(values)[1] - 1 - bits - 1
    cut = np.where(beyond > 1, np.floor(beyond * np.log10(2.0)), 0).clip(0, 18).astype(np.int64)
    power = 10**cut
    rounded = integers // power + (integers % power >= power // 2) * (cut > 0)
    text = pl.Series(rounded).cast(pl.String)
    last = text.str.len_bytes().cast(pl.Int64) - 1 + pl.Series(cut)
    is_selected = pl.lit(pl.Series(mask))
    return [
        pl.when(is_selected).then(pl.lit(text.str.strip_chars_end("0"))).otherwise(pl.col("digits")).alias("digits"),
        pl.when(is_selected).then(pl.lit(last)).otherwise(pl.col("exponent")).alias("exponent"),
    ]


@lru_cache(maxsize=2)
def _table(kind: type[pl.DataType]) -> pl.DataFrame:
    """Return digits and exponents of powers of two and of the smallest values."""
    least, bits = _MIN_EXPONENT[kind], _MANTISSA[kind]
    digits_by_value: dict[float, tuple[str, int]] = {}
    for count in range(1, _SUBNORMAL_STEPS):
        digits_by_value[count * 2.0**least] = _digits(count, least, count.bit_length())
    for power in range(least, _MAX_EXPONENT[kind] + 1):
        digits_by_value[2.0**power] = _digits(1, power, min(bits, power - least + 1))
    rows = [(key, digits, exponent) for key, (digits, exponent) in digits_by_value.items()]
    return pl.DataFrame(
        rows, schema={"key": pl.Float64, "java_digits": pl.String, "java_exponent": pl.Int64}, orient="row"
    )


def _digits(mantissa: int, power: int, significant: int) -> tuple[str, int]:
    """Return the digits and the exponent that Java prints for `mantissa * 2**power`.

    `significant` bits of it count; digits are generated one after the other until the remainder is below half a step.
    """
    top = mantissa.bit_length() - 1 + power
    lone = mantissa & (mantissa - 1) == 0
    below = max(0, -(top - significant - lone), -power) + 1
    value, margin = mantissa << (power + below), 1 << (top - significant - lone + below)
    exponent = _estimate(mantissa, top)
    unit = (10 ** max(exponent, 0)) << below
    value, margin = value * 10 ** max(-exponent, 0), margin * 10 ** max(-exponent, 0)
    if value < unit and value + margin <= unit:  # estimated one too high, and the value does not round up to it
        value, margin, exponent = value * 10, margin * 10, exponent - 1
    digits = ""
    while True:
        digit, remainder = divmod(value, unit)
        digits += str(digit)
        low, high = remainder < margin, remainder + margin > unit
        if (low or high) and (len(digits) > 1 or -3 <= exponent < 8):
            break
        value, margin = remainder * 10, margin * 10
    if high and (not low or remainder * 2 > unit or (remainder * 2 == unit and digit & 1)):
        rounded = str(int(digits) + 1).zfill(len(digits))
        exponent += len(rounded) - len(digits)
        digits = rounded
    return digits.rstrip("0") or "0", exponent


def _estimate(mantissa: int, top: int) -> int:
    """Return Java's estimate of the decimal exponent: right, or one too high."""
    leading = mantissa / 2 ** (mantissa.bit_length() - 1)
    return int(np.floor((leading - 1.5) * 0.289529654 + 0.176091259 + top * 0.301029995663981))
