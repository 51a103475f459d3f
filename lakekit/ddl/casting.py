"""The types that a column may change to: Paimon's table of casts.

                to     TINYINT  SMALLINT  INT  BIGINT  FLOAT  DOUBLE  DECIMAL  STRING  …
    from INT              e        e       i     i       i      i       i        e           i implicit: values keep
        their kind
                                                                                             e explicit: values may
                                                                                                 change

A pair must be in the table and have an implemented cast. Source: `DataTypeCasts`, `CastExecutors`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from lakekit.errors import SchemaMismatch, Unsupported
from lakekit.format import casts
from lakekit.types import INTEGERS, NESTED_TYPES, STRINGS, TIMESTAMPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.types import DataType

_BYTES = frozenset({"BINARY", "VARBINARY"})
_NUMBERS = frozenset({*INTEGERS, "FLOAT", "DOUBLE", "DECIMAL"})
_DAYTIMES = frozenset({"DATE", "TIME", *TIMESTAMPS})
_ALL_TYPES = frozenset({*STRINGS, *_BYTES, *_NUMBERS, *_DAYTIMES, *NESTED_TYPES, "BOOLEAN", "VARIANT", "BLOB"})
_NON_NUMERIC_TYPES = frozenset({"BOOLEAN", *TIMESTAMPS, *STRINGS})
_IMPLICIT: Mapping[str, frozenset[str]] = {
    "VARCHAR": STRINGS,
    "VARBINARY": _BYTES,
    "DECIMAL": _NUMBERS,
    "SMALLINT": frozenset(INTEGERS[:2]),
    "INT": frozenset(INTEGERS[:3]),
    "BIGINT": frozenset(INTEGERS),
    "FLOAT": frozenset({*INTEGERS, "FLOAT", "DECIMAL"}),
    "DOUBLE": _NUMBERS,
    "DATE": frozenset({"DATE", "TIMESTAMP"}),
    "TIME": frozenset({"TIME", "TIMESTAMP"}),
    "TIMESTAMP": TIMESTAMPS,
    "TIMESTAMP_LTZ": TIMESTAMPS,
}
"""By the new type: what may become it at all times, besides itself."""
_EXPLICIT: Mapping[str, frozenset[str]] = {
    "CHAR": _ALL_TYPES,
    "VARCHAR": _ALL_TYPES,
    "BOOLEAN": frozenset({*STRINGS, *INTEGERS}),
    "BINARY": frozenset({*STRINGS, "VARBINARY"}),
    "VARBINARY": frozenset({*STRINGS, "BINARY"}),
    "DECIMAL": _NON_NUMERIC_TYPES,
    **dict.fromkeys((*INTEGERS, "FLOAT"), _NUMBERS | _NON_NUMERIC_TYPES),
    "DOUBLE": _NON_NUMERIC_TYPES,
    "DATE": frozenset({*TIMESTAMPS, *STRINGS}),
    "TIME": frozenset({"TIME", *TIMESTAMPS, *STRINGS}),
    "TIMESTAMP": _DAYTIMES | STRINGS | _NUMBERS,
    "TIMESTAMP_LTZ": _DAYTIMES | STRINGS | _NUMBERS,
}
"""By the new type: what may become it too, unless `disable-explicit-type-casting` is on."""


def is_allowed(current: DataType, want: DataType, *, explicit: bool) -> bool:
    """Return whether Paimon casts the one type to the other, whatever their nullability."""
    if not (
        current.root == want.root
        or current.root in _IMPLICIT.get(want.root, ())
        or (explicit and current.root in _EXPLICIT.get(want.root, ()))
    ):
        return False
    return is_supported(current, want)


def is_supported(current: DataType, want: DataType) -> bool:
    """Return whether the cast is implemented."""
    try:
        casts.cast(pl.col("a"), current, want, casts.CastTarget(column="a"))
    except Unsupported:
        return False
    return True


def lossy_refused(current: DataType, want: DataType, column: str, *, explicit: bool) -> SchemaMismatch:
    """Return the error for a type that values cannot be cast to."""
    how = "" if explicit else "; disable-explicit-type-casting allows only types that hold every value"
    return SchemaMismatch(
        f"Column type {column}[{current}] cannot be converted to {want} without losing information{how}. Add a column "
        "of the new type instead",
        column=column,
    )


def not_null_refused(column: str) -> SchemaMismatch:
    """Return the error for a nullable column that cannot become NOT NULL."""
    return SchemaMismatch(
        f"Cannot update column type from nullable to non nullable for {column}. You can set table configuration option "  # noqa: S608 - no SQL
        "'alter-column-null-to-not-null.disabled' = 'false' to allow converting null columns to not null",
        column=column,
    )
