"""The Polars types of Paimon's types, and the range of times that Polars can print.

    BOOLEAN Boolean · TINYINT…BIGINT Int8…Int64 · FLOAT, DOUBLE Float32, Float64 · DECIMAL(p,s) Decimal(p,s) ·
    CHAR, VARCHAR String · BINARY, VARBINARY Binary · DATE Date · TIME Time ·
    TIMESTAMP(p) Datetime in ms (p ≤ 3), us (p ≤ 6), ns (p ≤ 9), LTZ the same in UTC ·
    ARRAY List · MAP List(Struct{key, value}) · MULTISET List(Struct{key, value: Int32}) · ROW Struct ·
    VARIANT Struct{value, metadata: Binary}

With the option `lakekit.timestamp-unit=us` timestamps of precision 7 to 9 are held in microseconds, which reach from
year -290307 to 294246; nanoseconds reach from 1677-09-21 to 2262-04-11. Polars panics when it prints a DATE or
TIMESTAMP beyond the years -262143 to 262142 (`is_printable`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import polars as pl

from lakekit.columns import prepare_series
from lakekit.errors import SchemaMismatch
from lakekit.options.features import make_refusal
from lakekit.types import MAX_LENGTH, DataType, Field, part, timestamp_unit

if TYPE_CHECKING:
    from collections.abc import Iterable


Unit = Literal["ms", "us", "ns"]
VARIANT_DTYPE = pl.Struct({"value": pl.Binary(), "metadata": pl.Binary()})
_PLAIN_TYPES: dict[str, pl.DataType] = {
    "BOOLEAN": pl.Boolean(),
    "TINYINT": pl.Int8(),
    "SMALLINT": pl.Int16(),
    "INT": pl.Int32(),
    "BIGINT": pl.Int64(),
    "FLOAT": pl.Float32(),
    "DOUBLE": pl.Float64(),
    "CHAR": pl.String(),
    "VARCHAR": pl.String(),
    "BINARY": pl.Binary(),
    "VARBINARY": pl.Binary(),
    "DATE": pl.Date(),
    "TIME": pl.Time(),
    "VARIANT": VARIANT_DTYPE,
}


def unit_of(t: DataType, finest: str | None = None) -> Unit:
    """Return the unit of timestamps of type `t`.

    It is never finer than `finest`, the option `lakekit.timestamp-unit`.
    """
    match timestamp_unit(t.precision):
        case "ms":
            return "ms"
        case "ns" if finest != "us":
            return "ns"
    return "us"


def polars_type(t: DataType, *, timestamp_unit: str | None = None) -> pl.DataType:
    """Return the Polars type of a column of type `t`; `timestamp_unit` "us" avoids nanoseconds.

    Raises:
        Unsupported: lakekit refuses the type.
    """
    if t.root in _PLAIN_TYPES:
        return _PLAIN_TYPES[t.root]
    match t.root:
        case "DECIMAL":
            return pl.Decimal(t.precision or 10, t.scale or 0)
        case "TIMESTAMP":
            return pl.Datetime(unit_of(t, timestamp_unit))
        case "TIMESTAMP_LTZ":
            return pl.Datetime(unit_of(t, timestamp_unit), "UTC")
        case "ARRAY":
            return pl.List(polars_type(part(t.element), timestamp_unit=timestamp_unit))
        case "MAP":
            return entries_type(
                polars_type(part(t.key), timestamp_unit=timestamp_unit),
                polars_type(part(t.value), timestamp_unit=timestamp_unit),
            )
        case "MULTISET":
            return entries_type(polars_type(part(t.element), timestamp_unit=timestamp_unit), pl.Int32())
        case "ROW":
            prepare_series(f.name for f in t.fields)
            return pl.Struct({f.name: polars_type(f.type, timestamp_unit=timestamp_unit) for f in t.fields})
    raise make_refusal(f"type.{t.root.lower()}", f"a column of type {t}")


def entries_type(key: pl.DataType, value: pl.DataType) -> pl.DataType:
    """Return the Polars type of the entries of a MAP or MULTISET."""
    return pl.List(pl.Struct({"key": key, "value": value}))


def polars_schema(fields: Iterable[Field], *, timestamp_unit: str | None = None) -> pl.Schema:
    """Return names and Polars types of columns, in order."""
    schema = pl.Schema({f.name: polars_type(f.type, timestamp_unit=timestamp_unit) for f in fields})
    prepare_series(schema)
    return schema


@lru_cache(maxsize=256)
def cached_schema(fields: tuple[Field, ...], timestamp_unit: str | None = None) -> pl.Schema:
    """Return `polars_schema` from a cache. The caller must not change it."""
    return polars_schema(fields, timestamp_unit=timestamp_unit)


def has_nanoseconds(t: DataType) -> bool:
    """Return whether values of `t` hold, at any depth, timestamps finer than microseconds."""
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return timestamp_unit(t.precision) == "ns"
    inner = [u for u in (t.element, t.key, t.value) if u is not None]
    return any(has_nanoseconds(u) for u in (*inner, *(f.type for f in t.fields)))


# ---- from Polars -----------------------------------------------------------------------------------------------------

_FROM_PLAIN: dict[type[pl.DataType], str] = {
    pl.Boolean: "BOOLEAN",
    pl.Int8: "TINYINT",
    pl.Int16: "SMALLINT",
    pl.Int32: "INT",
    pl.Int64: "BIGINT",
    pl.UInt8: "SMALLINT",
    pl.UInt16: "INT",
    pl.UInt32: "BIGINT",
    pl.Float32: "FLOAT",
    pl.Float64: "DOUBLE",
    pl.Date: "DATE",
}
_UNIT_DIGITS = {"ms": 3, "us": 6, "ns": 9}


def paimon_type(dtype: pl.DataType | pl.datatypes.DataTypeClass, column: str = "") -> DataType:
    """Return the Paimon type that holds the values of a Polars type.

    Times of day keep milliseconds, which is all that Paimon stores of them. A List of Structs is an ARRAY of ROW.

    Raises:
        SchemaMismatch: no Paimon type holds the values.
    """
    base = dtype if isinstance(dtype, type) else type(dtype)
    instance = dtype() if isinstance(dtype, type) else dtype
    if base in _FROM_PLAIN:
        return DataType(root=_FROM_PLAIN[base])
    match instance:
        case pl.String() | pl.Categorical() | pl.Enum():
            return DataType(root="VARCHAR", length=MAX_LENGTH)
        case pl.Binary():
            return DataType(root="VARBINARY", length=MAX_LENGTH)
        case pl.UInt64():
            return DataType(root="DECIMAL", precision=20, scale=0)
        case pl.Int128() | pl.UInt128():
            return DataType(root="DECIMAL", precision=38, scale=0)
        case pl.Decimal():
            return DataType(root="DECIMAL", precision=instance.precision or 38, scale=instance.scale or 0)
        case pl.Time():
            return DataType(root="TIME", precision=3)
        case pl.Datetime():
            return DataType(
                root="TIMESTAMP" if instance.time_zone is None else "TIMESTAMP_LTZ",
                precision=_UNIT_DIGITS[instance.time_unit],
            )
        case pl.List() | pl.Array():
            return DataType(root="ARRAY", element=paimon_type(instance.inner, column))
        case pl.Map():
            return DataType(
                root="MAP", key=paimon_type(instance.key, column), value=paimon_type(instance.value, column)
            )
        case pl.Struct():
            return DataType(
                root="ROW",
                fields=tuple(Field(field.name, paimon_type(field.dtype, column)) for field in instance.fields),
            )
    subject = f"column {column} of" if column else "a column of"
    raise SchemaMismatch(
        f"no Paimon type holds {subject} Polars type {instance}; cast it, or name a Paimon type for it",
        column=column or None,
    )


# ---- printable times -----------------------------------------------------


_DAY_MS = 86_400_000
_FIRST_MS, _END_MS = -96_465_292 * _DAY_MS, 95_026_237 * _DAY_MS


def is_printable(values: pl.Expr) -> pl.Expr:
    """Return whether Polars can print each date or timestamp; null for null."""
    return values.cast(pl.Datetime("ms")).to_physical().is_between(_FIRST_MS, _END_MS, closed="left")
