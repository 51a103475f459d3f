"""Conversion between texts and values as the engine's text formats spell them, by column.

    parse_values(texts, type, options, column)   ->  values, and a mask of the texts that are none
    print_values(column, type, options)          ->  texts; null stays null

Numbers, dates and times are spelt as casts to STRING spell them, bytes in base64. Read back, `true` in any case is true
and every other text false; a whole number takes no point and no exponent. Source: `CsvParser`, `CsvFormatWriter`,
`JsonFileReader`, `JsonFormatWriter`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from lakekit.format import casts, text_casts
from lakekit.format.polars_types import polars_type
from lakekit.types import BINARIES, INTEGERS, STRINGS, TIMESTAMPS

if TYPE_CHECKING:
    from lakekit.text_format.options import TextOptions
    from lakekit.types import DataType

PLAIN_TYPES = frozenset(
    {*STRINGS, *INTEGERS, "BOOLEAN", "FLOAT", "DOUBLE", "DECIMAL", "DATE", "TIME", *TIMESTAMPS, "BINARY", "VARBINARY"}
)
"""Types of which one text is one value."""
_PLAIN_NUMBER = r"^-?[0-9]+(?:\.[0-9]+)?(?:E-?[0-9]+)?$"
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


def parse_values(texts: pl.Series, t: DataType, options: TextOptions, column: str) -> tuple[pl.Series, pl.Series]:
    """Return the values of some texts, and a mask of the texts that are no value; those become null.

    A DECIMAL that does not fit its type becomes null, but is not in the mask.
    """
    dtype = polars_type(t, timestamp_unit=options.timestamp_unit)
    if t.root in STRINGS:
        return texts, _false_mask(texts)
    if t.root in INTEGERS:
        limit = 1 << (_BITS[t.root] - 1)
        integers = texts.str.extract(r"^\+?(-?\d+)$", 1).cast(pl.Int64, strict=False)
        parsed = (
            integers.to_frame("n")
            .select(pl.when(pl.col("n").is_between(-limit, limit - 1)).then(pl.col("n")))
            .to_series()
            .cast(dtype)
        )
    elif t.root == "BOOLEAN":
        return texts.str.to_lowercase() == "true", _false_mask(texts)
    elif t.root in ("FLOAT", "DOUBLE"):
        plain = texts.str.contains(_PLAIN_NUMBER).all()  # most files hold nothing else, and need no closer look
        parsed = texts.cast(dtype, strict=False) if plain else text_casts.floats(texts, result_type=t)
    elif t.root in BINARIES:
        parsed = _bytes(texts)
    elif t.root == "DECIMAL":
        parsed = text_casts.tolerant_parser(t, column=column)(texts)
        return parsed.cast(dtype), (~text_casts.is_decimal(texts)).fill_null(value=False)
    else:
        parsed = text_casts.tolerant_parser(t, column=column, timestamp_unit=options.timestamp_unit, zone=options.zone)(
            texts
        )
    return parsed.cast(dtype), parsed.is_null() & texts.is_not_null()


def _bytes(texts: pl.Series) -> pl.Series:
    """Decode base64 as Java does: padding may be missing, and surplus bits at the end are ignored."""
    filled = pl.col("t").str.contains(r"^[A-Za-z0-9+/]*={1,2}$") & (pl.col("t").str.len_bytes() % 4 == 0)
    bare = pl.when(filled).then(pl.col("t").str.strip_chars_end("=")).otherwise(pl.col("t"))
    frame = (
        texts.to_frame("t")
        .select(t=bare)
        .with_columns(left=pl.col("t").str.len_bytes() % 4, size=pl.col("t").str.len_bytes() * 3 // 4)
    )
    padded = pl.concat_str("t", pl.lit("AA").str.slice(0, (4 - pl.col("left")) % 4))
    decoded = frame.select(
        pl.when(pl.col("left") != 1).then(padded).str.decode("base64", strict=False).bin.slice(0, pl.col("size"))
    )
    return decoded.to_series().alias(texts.name)


def _false_mask(texts: pl.Series) -> pl.Series:
    return pl.repeat(value=False, n=len(texts), eager=True)


def print_values(column: pl.Expr, t: DataType, options: TextOptions) -> pl.Expr:
    """Print values as texts."""
    if t.root in BINARIES:
        return column.bin.encode("base64")
    return casts.to_java_text(column, t, options.zone)
