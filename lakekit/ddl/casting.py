"""Which types a column may change to: Paimon's table of casts.

                to     TINYINT  SMALLINT  INT  BIGINT  FLOAT  DOUBLE  DECIMAL  STRING  …
    from INT              e        e       i     i       i      i       i        e           i: no value changes in kind, e: values may change

A pair must stand in the table and have a cast that runs. Source: `DataTypeCasts`, `CastExecutors`.
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


def is_allowed(held: DataType, want: DataType, *, explicit: bool) -> bool:
    """Whether Paimon casts the one type to the other; nullability is no matter of it."""
    if not (held.root == want.root or held.root in _IMPLICIT.get(want.root, ()) or (explicit and held.root in _EXPLICIT.get(want.root, ()))):
        return False
    return is_supported(held, want)


def is_supported(held: DataType, want: DataType) -> bool:
    """Whether there is code for the cast."""
    try:
        casts.cast(pl.col("a"), held, want, casts.CastTarget(column="a"))
    except Unsupported:
        return False
    return True


def lossy_refused(held: DataType, want: DataType, column: str, *, explicit: bool) -> SchemaMismatch:
    """The error of a type that values cannot become."""
    how = "" if explicit else "; disable-explicit-type-casting allows only types that hold every value"
    return SchemaMismatch(
        f"Column type {column}[{held}] cannot be converted to {want} without losing information{how}. Add a column of the new type instead", column=column
    )


def not_null_refused(column: str) -> SchemaMismatch:
    """The error of a column that must not refuse nulls now."""
    return SchemaMismatch(
        f"Cannot update column type from nullable to non nullable for {column}. You can set table configuration option "  # noqa: S608 - no SQL
        "'alter-column-null-to-not-null.disabled' = 'false' to allow converting null columns to not null",
        column=column,
    )
