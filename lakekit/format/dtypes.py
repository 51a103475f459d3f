"""Paimon's types as Polars holds them.

    BOOLEAN Boolean · TINYINT…BIGINT Int8…Int64 · FLOAT, DOUBLE Float32, Float64 · DECIMAL(p,s) Decimal(p,s) · CHAR, VARCHAR String ·
    BINARY, VARBINARY Binary · DATE Date · TIME Time · TIMESTAMP(p) Datetime in ms (p ≤ 3), us (p ≤ 6), ns (p ≤ 9), LTZ the same in UTC ·
    ARRAY List · MAP List(Struct{key, value}) · MULTISET List(Struct{key, value: Int32}) · ROW Struct · VARIANT Struct{value, metadata: Binary}

With the option `lakekit.timestamp-unit=us` timestamps of precision 7 to 9 are held in microseconds, which reach from year -290307 to 294246; nanoseconds
reach from 1677-09-21 to 2262-04-11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import polars as pl

from lakekit.options.features import refuse
from lakekit.types import DataType, part, timestamp_unit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakekit.types import Field

Unit = Literal["ms", "us", "ns"]
VARIANT = pl.Struct({"value": pl.Binary(), "metadata": pl.Binary()})
_SIMPLE: dict[str, pl.DataType] = {
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
    "VARIANT": VARIANT,
}


def unit_of(t: DataType, finest: str | None = None) -> Unit:
    """The unit that timestamps of type `t` are held in; never finer than `finest`, the option `lakekit.timestamp-unit`."""
    match timestamp_unit(t.precision):
        case "ms":
            return "ms"
        case "ns" if finest != "us":
            return "ns"
    return "us"


def polars_type(t: DataType, *, timestamp_unit: str | None = None) -> pl.DataType:
    """The Polars type of a column of type `t`; `timestamp_unit` "us" keeps nanoseconds out. Raises `Unsupported` for a type that lakekit refuses."""
    if t.root in _SIMPLE:
        return _SIMPLE[t.root]
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
            return entries_type(polars_type(part(t.key), timestamp_unit=timestamp_unit), polars_type(part(t.value), timestamp_unit=timestamp_unit))
        case "MULTISET":
            return entries_type(polars_type(part(t.element), timestamp_unit=timestamp_unit), pl.Int32())
        case "ROW":
            return pl.Struct({f.name: polars_type(f.type, timestamp_unit=timestamp_unit) for f in t.fields})
    raise refuse(f"type.{t.root.lower()}", f"a column of type {t}")


def entries_type(key: pl.DataType, value: pl.DataType) -> pl.DataType:
    """How the entries of a MAP or MULTISET are held."""
    return pl.List(pl.Struct({"key": key, "value": value}))


def polars_schema(fields: Iterable[Field], *, timestamp_unit: str | None = None) -> pl.Schema:
    """Names and Polars types of columns, in order."""
    return pl.Schema({f.name: polars_type(f.type, timestamp_unit=timestamp_unit) for f in fields})


def has_nanoseconds(t: DataType) -> bool:
    """Whether values of `t` hold, at any depth, timestamps finer than microseconds."""
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return timestamp_unit(t.precision) == "ns"
    inner = [u for u in (t.element, t.key, t.value) if u is not None]
    return any(has_nanoseconds(u) for u in (*inner, *(f.type for f in t.fields)))
