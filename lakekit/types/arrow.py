"""Conversion between Paimon's data types and Arrow's.

    DataType(root="ARRAY", element=…)               the record
    pa.list_(pa.int32())                            Arrow

Source: FORMAT.md 2.2-2.4.
"""

from __future__ import annotations

import pyarrow as pa

from lakekit.errors import Unsupported
from lakekit.types import MAX_LENGTH, DataType, Field, part

_ARROW: dict[str, pa.DataType] = {
    "CHAR": pa.string(),
    "VARCHAR": pa.string(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "BLOB": pa.binary(),
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIME": pa.time32("ms"),
}


def timestamp_unit(precision: int | None) -> str:
    """Return the Arrow unit of timestamps of that precision: ms up to 3, us up to 6, ns above."""
    digits = 6 if precision is None else precision
    return "ms" if digits <= 3 else "us" if digits <= 6 else "ns"


def to_arrow(t: DataType) -> pa.DataType:
    """Return the Arrow type of a Paimon type.

    Maps are `map_`, LTZ has zone UTC, VARIANT is a struct of two binaries.
    """
    match t.root:
        case "DECIMAL":
            return pa.decimal128(t.precision or 10, t.scale or 0)
        case "TIMESTAMP":
            return pa.timestamp(timestamp_unit(t.precision))
        case "TIMESTAMP_LTZ":
            return pa.timestamp(timestamp_unit(t.precision), "UTC")
        case "ARRAY":
            return pa.list_(pa.field("element", to_arrow(part(t.element)), part(t.element).nullable))
        case "MAP":
            return pa.map_(to_arrow(part(t.key)), pa.field("value", to_arrow(part(t.value)), part(t.value).nullable))
        case "MULTISET":
            return pa.map_(to_arrow(part(t.element)), pa.field("value", pa.int32(), nullable=False))
        case "ROW":
            return pa.struct([to_arrow_field(f) for f in t.fields])
        case "VARIANT":
            return pa.struct(
                [pa.field("value", pa.binary(), nullable=False), pa.field("metadata", pa.binary(), nullable=False)]
            )
        case root if root in _ARROW:
            return _ARROW[root]
    msg = f"type {t} is not supported by lakekit"
    raise Unsupported(msg, feature=f"type.{t.root.lower()}")


def to_arrow_field(field: Field) -> pa.Field:
    """Return a column as an Arrow field, with its comment as metadata."""
    metadata = None if field.comment is None else {"comment": field.comment}
    return pa.field(field.name, to_arrow(field.type), field.nullable, metadata)


def from_arrow(t: pa.DataType, *, nullable: bool = True) -> DataType:
    """Return the Paimon type that holds all values of an Arrow type unchanged.

    Raises:
        Unsupported: no Paimon type does.
    """
    data_type = _from_arrow(t)
    return data_type if nullable else data_type.not_null()


def _from_arrow(t: pa.DataType) -> DataType:
    checks = pa.types
    for root, arrow in _ARROW.items():
        if root not in ("CHAR", "BINARY", "BLOB") and t.equals(arrow):
            return DataType(
                root=root,
                length=MAX_LENGTH if root.startswith("VAR") else None,
                precision=3 if root == "TIME" else None,
            )
    if checks.is_large_string(t) or checks.is_string_view(t):
        return DataType(root="VARCHAR", length=MAX_LENGTH)
    if checks.is_large_binary(t) or checks.is_fixed_size_binary(t) or checks.is_binary_view(t):
        return DataType(root="VARBINARY", length=MAX_LENGTH)
    if checks.is_dictionary(t):
        return _from_arrow(t.value_type)
    if checks.is_unsigned_integer(t) and t.bit_width < 64:
        return DataType(root={8: "SMALLINT", 16: "INT", 32: "BIGINT"}[t.bit_width])
    if checks.is_decimal(t) and t.precision <= 38 and 0 <= t.scale <= t.precision:
        return DataType(root="DECIMAL", precision=t.precision, scale=t.scale)
    if checks.is_timestamp(t):
        root = "TIMESTAMP" if t.tz is None else "TIMESTAMP_LTZ"
        return DataType(root=root, precision={"s": 0, "ms": 3, "us": 6, "ns": 9}[t.unit])
    if checks.is_map(t):
        return DataType(root="MAP", key=_from_arrow(t.key_type), value=_from_arrow(t.item_type))
    if checks.is_list(t) or checks.is_large_list(t) or checks.is_fixed_size_list(t) or checks.is_list_view(t):
        return DataType(root="ARRAY", element=_from_arrow(t.value_type))
    if checks.is_struct(t):
        return DataType(root="ROW", fields=tuple(Field(f.name, from_arrow(f.type, nullable=f.nullable)) for f in t))
    msg = f"no Paimon type holds Arrow's {t}; cast the column"
    raise Unsupported(msg, feature=f"arrow.{t}")
