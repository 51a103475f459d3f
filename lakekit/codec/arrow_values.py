"""Conversion between internal values and Arrow arrays, with the internal form of each Paimon type.

    DECIMAL(5, 2)   Decimal("1.50")            decimal128(5, 2)
    DATE            19723 (days)               date32
    TIME            3723004 (ms of the day)    time32[ms]
    TIMESTAMP       Instant(millis, nanos)     timestamp[ms | us | ns]
    ARRAY           list                       list
    MAP, MULTISET   list of (key, value)       map
    ROW             tuple                      struct
    VARIANT         (value, metadata)          struct<value, metadata>

Other types are None, bool, int, float, str and bytes. Source: FORMAT.md 0.2.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakekit.errors import ValueOutOfRange
from lakekit.types import TIMESTAMPS, Instant, part
from lakekit.types.arrow import timestamp_unit, to_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.types import DataType

_PER_MILLI = {"s": 0, "ms": 1, "us": 1000, "ns": 1_000_000}
_INT = pa.int64()


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


def instant_count(value: Instant, unit: str) -> int:
    """Return a timestamp as a count of Arrow units since 1970, rounded down."""
    per = _PER_MILLI[unit]
    return value.millis * per + value.nanos * per // 1_000_000


def instant(count: int, unit: str) -> Instant:
    """Return the timestamp of a count of Arrow units."""
    if unit == "s":
        return Instant(count * 1000, 0)
    per = _PER_MILLI[unit]
    millis, remainder = divmod(count, per)
    return Instant(millis, remainder * (1_000_000 // per))


def array_of(values: Sequence[Any], t: DataType) -> pa.Array:
    """Return internal values as an Arrow array of `to_arrow(t)`.

    A ns timestamp outside int64 nanoseconds becomes null.
    """
    return pa.array([_arrow_value(value, t) for value in values], to_arrow(t))


def _arrow_value(value: Any, t: DataType) -> Any:
    if value is None:
        return None
    if t.root in TIMESTAMPS:
        count = instant_count(value, timestamp_unit(t.precision))
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


def values_of(column: pa.Array, t: DataType) -> list[Any]:
    """Return the values of an Arrow array as internal values.

    For keys, partitions, statistics and nested cells, never for whole columns of user rows.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if t.root in TIMESTAMPS:
        unit = column.type.unit
        counts = column.cast(_INT).to_pylist()
        return [None if count is None else instant(count, unit) for count in counts]
    match t.root:
        case "DATE" | "TIME":
            return list(column.cast(pa.int32()).to_pylist())
        case "ARRAY" | "MULTISET" | "MAP":
            return _lists(column, t)
        case "ROW":
            parts = [values_of(column.field(i), f.type) for i, f in enumerate(t.fields)]
            return _rows(column, parts)
        case "VARIANT":
            return _rows(column, [column.field(0).to_pylist(), column.field(1).to_pylist()])
    return list(column.to_pylist())


def _rows(column: pa.Array, parts: list[list[Any]]) -> list[Any]:
    start, valid = column.offset, column.is_valid().to_pylist()
    if parts and len(parts[0]) != len(column):  # the children of a slice are not sliced
        parts = [values[start : start + len(column)] for values in parts]
    return [tuple(values[i] for values in parts) if ok else None for i, ok in enumerate(valid)]


def _lists(column: pa.Array, t: DataType) -> list[Any]:
    starts = column.offsets.to_pylist()
    valid = column.is_valid().to_pylist()
    if t.root == "ARRAY":
        items = values_of(column.values, part(t.element))
    else:
        key, value = (t.element, None) if t.root == "MULTISET" else (t.key, t.value)
        keys = values_of(column.keys, part(key))
        counts = column.items.to_pylist() if value is None else values_of(column.items, value)
        items = list(zip(keys, counts, strict=True))
    return [items[starts[i] : starts[i + 1]] if ok else None for i, ok in enumerate(valid)]


def to_contiguous(column: pa.Array | pa.ChunkedArray, t: DataType) -> pa.Array:
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
