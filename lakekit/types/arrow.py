"""Conversion between Paimon's data types and values and Arrow's, with the internal form of each type.

    DataType(root="ARRAY", element=…)          pa.list_(pa.int32())

    DECIMAL(5, 2)   Decimal("1.50")            decimal128(5, 2)
    DATE            19723 (days)               date32
    TIME            3723004 (ms of the day)    time32[ms]
    TIMESTAMP       Instant(millis, nanos)     timestamp[ms | us | ns]
    ARRAY           list                       list
    MAP, MULTISET   list of (key, value)       map
    ROW             tuple                      struct
    VARIANT         (value, metadata)          struct<value, metadata>

Other values are None, bool, int, float, str and bytes.

Source: FORMAT.md 0.2, 2.2-2.4.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakekit.errors import Unsupported, ValueOutOfRange
from lakekit.types import MAX_LENGTH, TIMESTAMPS, DataType, Field, Instant, part, timestamp_unit

if TYPE_CHECKING:
    from collections.abc import Sequence


_ARROW_TYPES: dict[str, pa.DataType] = {
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
        case root if root in _ARROW_TYPES:
            return _ARROW_TYPES[root]
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
    for root, arrow in _ARROW_TYPES.items():
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


# ---- arrow values ------------------------------------------------------------


_UNITS_PER_MILLI = {"s": 0, "ms": 1, "us": 1000, "ns": 1_000_000}
_INT64 = pa.int64()


def to_unscaled(value: Decimal, scale: int) -> int:
    """Return the integer of a decimal at a scale: 1.5 at scale 2 is 150.

    Raises:
        ValueOutOfRange: digits would be lost.
    """
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        msg = f"{value} is not a DECIMAL value"
        raise ValueOutOfRange(msg)
    number = int("".join(map(str, digits)) or "0")
    shift = exponent + scale
    if shift >= 0:
        if shift > 100 and number:
            msg = f"{value} has more than 38 digits"
            raise ValueOutOfRange(msg)
        number *= 10 ** min(shift, 100)
    else:
        number, lost = divmod(number, 10 ** min(-shift, 100))
        if lost:
            msg = f"{value} has more than {scale} digits after the point"
            raise ValueOutOfRange(msg)
    return -number if sign else number


def from_unscaled(number: int, scale: int) -> Decimal:
    """Return the decimal of an unscaled integer, exact at any precision."""
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def instant_to_count(value: Instant, unit: str) -> int:
    """Return a timestamp as a count of Arrow units since 1970, rounded down."""
    per = _UNITS_PER_MILLI[unit]
    return value.millis * per + value.nanos * per // 1_000_000


def instant_from_count(count: int, unit: str) -> Instant:
    """Return the timestamp of a count of Arrow units."""
    if unit == "s":
        return Instant(count * 1000, 0)
    per = _UNITS_PER_MILLI[unit]
    millis, remainder = divmod(count, per)
    return Instant(millis, remainder * (1_000_000 // per))


def to_arrow_array(values: Sequence[Any], t: DataType) -> pa.Array:
    """Return internal values as an Arrow array of `to_arrow(t)`.

    A ns timestamp outside int64 nanoseconds becomes null.
    """
    return pa.array([_arrow_value(value, t) for value in values], to_arrow(t))


def _arrow_value(value: Any, t: DataType) -> Any:
    if value is None:
        return None
    if t.root in TIMESTAMPS:
        count = instant_to_count(value, timestamp_unit(t.precision))
        return count if -(2**63) <= count < 2**63 else None
    match t.root:
        case "ARRAY":
            return [_arrow_value(item, part(t.element)) for item in value]
        case "MULTISET":
            return [(_arrow_value(item, part(t.element)), count) for item, count in value]
        case "MAP":
            return [(_arrow_value(k, part(t.key)), _arrow_value(v, part(t.value))) for k, v in value]
        case "ROW":
            return {f.name: _arrow_value(item, f.type) for f, item in zip(t.fields, value, strict=True)}
        case "VARIANT":
            return {"value": value[0], "metadata": value[1]}
    return value


def to_internal_values(column: pa.Array, t: DataType) -> list[Any]:
    """Return the values of an Arrow array as internal values.

    For keys, partitions, statistics and nested cells, never for whole columns of user rows.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if t.root in TIMESTAMPS:
        unit = column.type.unit
        counts = column.cast(_INT64).to_pylist()
        return [None if count is None else instant_from_count(count, unit) for count in counts]
    match t.root:
        case "DATE" | "TIME":
            return list(column.cast(pa.int32()).to_pylist())
        case "ARRAY" | "MULTISET" | "MAP":
            return _list_values(column, t)
        case "ROW":
            parts = [to_internal_values(column.field(i), f.type) for i, f in enumerate(t.fields)]
            return _struct_values(column, parts)
        case "VARIANT":
            return _struct_values(column, [column.field(0).to_pylist(), column.field(1).to_pylist()])
    return list(column.to_pylist())


def _struct_values(column: pa.Array, parts: list[list[Any]]) -> list[Any]:
    start, valid = column.offset, column.is_valid().to_pylist()
    if parts and len(parts[0]) != len(column):  # the children of a slice are not sliced
        parts = [values[start : start + len(column)] for values in parts]
    return [tuple(values[i] for values in parts) if ok else None for i, ok in enumerate(valid)]


def _list_values(column: pa.Array, t: DataType) -> list[Any]:
    starts = column.offsets.to_pylist()
    valid = column.is_valid().to_pylist()
    if t.root == "ARRAY":
        items = to_internal_values(column.values, part(t.element))
    else:
        key, value = (t.element, None) if t.root == "MULTISET" else (t.key, t.value)
        keys = to_internal_values(column.keys, part(key))
        counts = column.items.to_pylist() if value is None else to_internal_values(column.items, value)
        items = list(zip(keys, counts, strict=True))
    return [items[starts[i] : starts[i + 1]] if ok else None for i, ok in enumerate(valid)]


def to_plain_array(column: pa.Array | pa.ChunkedArray, t: DataType) -> pa.Array:
    """Return a column as one array of exactly `to_arrow(t)`.

    Its layout may be any: chunked, dictionary, large, view.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    target = to_arrow(t)
    if column.type.equals(target):
        return column
    try:
        return pc.cast(column, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        msg = f"a column of Arrow type {column.type} does not fit {t}: {error}"
        raise ValueOutOfRange(msg) from None
