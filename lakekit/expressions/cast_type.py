"""The types that a CAST names, as those of Polars.

DECIMAL(10, 2)   Decimal(10, 2)      TIMESTAMP(3)   Datetime("ms")      TIMESTAMP_LTZ   Datetime("us", "UTC")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import polars as pl
from sqlglot import exp

from lakekit.expressions.typed_expression import MAX_PRECISION, TranslationRefusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    Node = Any
    """A node of sqlglot's tree."""

_TYPES: Mapping[str, pl.DataType] = {
    **dict.fromkeys(("BOOLEAN",), pl.Boolean()),
    "TINYINT": pl.Int8(),
    "SMALLINT": pl.Int16(),
    "INT": pl.Int32(),
    "BIGINT": pl.Int64(),
    "INT128": pl.Int128(),
    "FLOAT": pl.Float32(),
    "DOUBLE": pl.Float64(),
    "DATE": pl.Date(),
    "TIME": pl.Time(),
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR"), pl.String()),
    **dict.fromkeys(("VARBINARY", "BINARY", "BLOB"), pl.Binary()),
}
_TIMESTAMP_TYPES = ("TIMESTAMP", "TIMESTAMPNTZ", "DATETIME")
_ZONED_TYPES = ("TIMESTAMPTZ", "TIMESTAMPLTZ")
_MAX_SIZE_DIGITS = 10


def cast_type(to: Node) -> pl.DataType:
    """Return the type that a CAST names. Raises `TranslationRefusal` for one that is not supported."""
    name = str(getattr(to.this, "name", to.this))
    arguments = [str(size.this.this) for size in to.expressions if isinstance(size, exp.DataTypeParam)]
    if not all(argument.isdecimal() and len(argument) < _MAX_SIZE_DIGITS for argument in arguments):
        raise TranslationRefusal("a type takes whole numbers in its brackets, as DECIMAL(10, 2)")
    sizes = [int(argument) for argument in arguments]
    if name == "DECIMAL":
        digits, scale = (*sizes, *(18, 0 if sizes else 3)[len(sizes) :])
        if not 0 <= scale <= digits <= MAX_PRECISION or digits < 1:
            raise TranslationRefusal(f"DECIMAL({digits}, {scale}) has 1 to 38 digits, and not more after the point")
        return pl.Decimal(digits, scale)
    if name in _TIMESTAMP_TYPES or name in _ZONED_TYPES:
        precision = sizes[0] if sizes else 6
        unit: Literal["ms", "us", "ns"] = "ms" if precision <= 3 else "us" if precision <= 6 else "ns"
        return pl.Datetime(unit, "UTC" if name in _ZONED_TYPES else None)
    if name not in _TYPES:
        raise TranslationRefusal(f"CAST to {to.sql(dialect='duckdb')} is not supported")
    return _TYPES[name]


def has_whole_seconds(to: Node) -> bool:
    """Return whether a CAST names TIMESTAMP(0), whose values have no fraction of a second."""
    return any(isinstance(size, exp.DataTypeParam) and str(size.this.this) == "0" for size in to.expressions)
