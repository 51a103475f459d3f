"""Rows as dicts, read with the table's types, never guessed.

    [{"k": 1, "m": {"a": 1}, "at": datetime(2024, 1, 1)}]   ->   k Int64 · m List(Struct{key, value}) · at Datetime

Python's own types are taken for Paimon's: int, float, Decimal, str, bytes, bool, date, time, datetime (with a zone for LTZ, without for TIMESTAMP), list, dict
or pairs for MAP and MULTISET, dict for ROW. The columns of a call are made one after the other, each of all its values: Arrow does the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

from lakekit.errors import SchemaMismatch, ValueOutOfRange
from lakekit.types import BINARIES, INTEGERS, MAX_LENGTH, STRINGS, TIMESTAMPS, DataType, Field, part
from lakekit.write.spot import ValueLocation, format_value

if TYPE_CHECKING:
    from lakekit.metadata.table_context import TableContext

_BYTES = DataType(root="VARBINARY", length=MAX_LENGTH)
_VARIANT = (Field("value", _BYTES), Field("metadata", _BYTES))
_DIGITS = 38


def names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Every key of any row, in the order they first come."""
    return list(dict.fromkeys(chain.from_iterable(rows)))


def frame(rows: Sequence[Mapping[str, Any]], ctx: TableContext) -> pl.DataFrame:
    """The rows as a frame. Columns that the table has not are Polars' guess, for whoever refuses or adds them; a key that a row lacks is null.

    Raises `SchemaMismatch` and `ValueOutOfRange` naming column, row and value where a value is of another type, or of none.
    """
    fields = {field.name: field for field in ctx.schema.fields}
    columns = []
    for name in names(rows):
        values = [row.get(name) for row in rows]
        if name in fields:
            spot = ValueLocation(column=name, path=name, table=ctx.name, row_of=lambda i: i)
            columns.append(pl.Series(array(values, fields[name].type, spot)).alias(name))
        else:
            columns.append(pl.Series(name, values, strict=False))
    return pl.DataFrame(columns, height=len(rows))


def array(values: Sequence[Any], t: DataType, spot: ValueLocation) -> pa.Array:
    """Python values as an Arrow array that loses nothing of them: times in ns or µs, decimals as wide as they come; `fitting` holds them to the type."""
    match t.root:
        case "ARRAY":
            _check(values, t, spot, (list, tuple, np.ndarray, pl.Series), "a list")
            return _list_array(values, lambda flat, place: array(flat, part(t.element), spot.inner("element", place)))
        case "MAP" | "MULTISET":
            return _map_array(values, t, spot)
        case "ROW" | "VARIANT":
            return _structs(values, _VARIANT if t.root == "VARIANT" else t.fields, t, spot)
    return _scalar_array(values, t, spot)


def _scalar_array(values: Sequence[Any], t: DataType, spot: ValueLocation) -> pa.Array:
    match t.root:
        case "BOOLEAN":
            _check(values, t, spot, (bool, np.bool_), "a bool")
            arrow = pa.bool_()
        case root if root in INTEGERS:
            _check(values, t, spot, Integral, "an int", (bool,))
            arrow = pa.int64()
        case "FLOAT" | "DOUBLE":
            _check(values, t, spot, Real, "a number", (bool,))
            arrow = pa.float32() if t.root == "FLOAT" else pa.float64()
        case "DECIMAL":
            _check(values, t, spot, (Decimal, Integral), "a Decimal or an int", (bool,))
            values = [None if value is None else value if isinstance(value, Decimal) else Decimal(int(value)) for value in values]
            scales = {value.as_tuple().exponent for value in values if value is not None}
            arrow = pa.decimal128(_DIGITS, min(_DIGITS, max([t.scale or 0, *(-scale for scale in scales if isinstance(scale, int))])))
        case root if root in STRINGS:
            _check(values, t, spot, str, "a str")
            arrow = pa.large_string()
        case root if root in BINARIES:
            _check(values, t, spot, (bytes, bytearray, memoryview), "bytes")
            arrow = pa.large_binary()
        case "DATE":
            _check(values, t, spot, date, "a date", (datetime,))
            arrow = pa.date32()
        case "TIME":
            _check(values, t, spot, time, "a time")
            arrow = pa.time64("ns")
        case _:
            assert t.root in TIMESTAMPS
            return _instants(values, t, spot)
    return _arrow(values, arrow, t, spot)


def _instants(values: Sequence[Any], t: DataType, spot: ValueLocation) -> pa.Array:
    """Times with a zone for LTZ, without one for TIMESTAMP: neither says what the other means."""
    zoned = t.root == "TIMESTAMP_LTZ"
    _check(values, t, spot, datetime, "a datetime")
    for i, value in enumerate(values):
        if value is not None and (value.tzinfo is not None) != zoned:
            asks = "a datetime with a zone (tzinfo), which says what instant it is" if zoned else "a datetime without a zone"
            raise _make_mismatch(values, i, t, spot, asks)
    fine = any(getattr(value, "nanosecond", 0) for value in values if value is not None)
    return _arrow(values, pa.timestamp("ns" if fine else "us", "UTC" if zoned else None), t, spot)


def _check(values: Sequence[Any], t: DataType, spot: ValueLocation, takes: Any, asks: str, refuses: tuple[type, ...] = ()) -> None:
    """Every value but None is of a class that the type takes: looked at by class, not by value."""
    wrong = {kind for kind in set(map(type, values)) - {type(None)} if not issubclass(kind, takes) or issubclass(kind, refuses or ())}
    if wrong:
        raise _make_mismatch(values, next(i for i, value in enumerate(values) if type(value) in wrong), t, spot, asks)


def _make_mismatch(values: Sequence[Any], at: int, t: DataType, spot: ValueLocation, asks: str) -> SchemaMismatch:
    found = values[at]
    return SchemaMismatch(
        f"row {spot.row_of(at)}: column {spot.path} of {spot.table} holds {format_value(found)}, a {type(found).__name__}; {t.as_nullable()} takes {asks}",
        column=spot.column,
    )


def _arrow(values: Sequence[Any], arrow: pa.DataType, t: DataType, spot: ValueLocation) -> pa.Array:
    try:
        return pa.array(values, arrow)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError) as wrong:
        at = next((i for i, value in enumerate(values) if _fails(value, arrow)), 0)
        raise ValueOutOfRange(
            f"row {spot.row_of(at)}: column {spot.path} of {spot.table} holds {format_value(values[at])}, which is no "
            f"{t.as_nullable()}: {wrong}. Correct the value",
            column=spot.column,
        ) from None


def _fails(value: Any, arrow: pa.DataType) -> bool:
    try:
        pa.scalar(value, arrow)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError):
        return True
    return False


# ---- values with parts -----------------------------------------------------------------------------------------------------------------------


def _list_array(values: Sequence[Any], inner: Any) -> pa.Array:
    lengths = np.array([0 if value is None else len(value) for value in values], np.int64)
    ends = np.cumsum(lengths)
    flat = list(chain.from_iterable(value for value in values if value is not None))
    made = inner(flat, lambda i: int(np.searchsorted(ends, i, side="right")))
    return pa.LargeListArray.from_arrays(pa.array(np.append(0, ends), pa.int64()), made, mask=_mask(values))


def _map_array(values: Sequence[Any], t: DataType, spot: ValueLocation) -> pa.Array:
    """A dict, or pairs; of pairs as {"key": …, "value": …} too, which is how Polars gives them."""
    _check(values, t, spot, (Mapping, list, tuple), "a dict, or a list of pairs")
    pairs = [None if value is None else _pairs(value) for value in values]
    bad = next((i for i, value in enumerate(pairs) if value is not None and not all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)), None)
    if bad is not None:
        raise _make_mismatch(values, bad, t, spot, "a dict, or a list of pairs")
    key, value = (part(t.element), DataType(root="INT")) if t.root == "MULTISET" else (part(t.key), part(t.value))

    def entries(flat: list[tuple[Any, Any]], place: Any) -> pa.Array:
        keys = array([pair[0] for pair in flat], key, spot.inner("key", place))
        rest = array([pair[1] for pair in flat], value, spot.inner("value", place))
        return pa.StructArray.from_arrays([keys, rest], ["key", "value"])

    return _list_array(pairs, entries)


def _pairs(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.items())
    return [(item["key"], item["value"]) if isinstance(item, Mapping) and item.keys() == {"key", "value"} else item for item in value]


def _structs(values: Sequence[Any], fields: Sequence[Field], t: DataType, spot: ValueLocation) -> pa.Array:
    _check(values, t, spot, Mapping, "a dict")
    known = {field.name for field in fields}
    bad = next((i for i, value in enumerate(values) if value is not None and not known.issuperset(value)), None)
    if bad is not None:
        raise _make_mismatch(values, bad, t, spot, f"a dict of {', '.join(field.name for field in fields)}")
    columns = [array([None if value is None else value.get(field.name) for value in values], field.type, spot.inner(field.name)) for field in fields]
    return pa.StructArray.from_arrays(columns, [field.name for field in fields], mask=_mask(values))


def _mask(values: Sequence[Any]) -> pa.Array | None:
    nulls = np.array([value is None for value in values], np.bool_)
    return pa.array(nulls) if nulls.any() else None
