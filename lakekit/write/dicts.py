"""Convert rows given as dicts by the table's types, without guessing.

    [{"k": 1, "m": {"a": 1}, "at": datetime(2024, 1, 1)}]   ->   k Int64 · m List(Struct{key, value}) · at Datetime

Python's own types stand for Paimon's: int, float, Decimal, str, bytes, bool, date, time, datetime (with a zone for LTZ,
without for TIMESTAMP), list, dict or pairs for MAP and MULTISET, dict for ROW. Each column is converted at once by
Arrow.
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
    """Return every key of any row, in order of first appearance."""
    return list(dict.fromkeys(chain.from_iterable(rows)))


def frame(rows: Sequence[Mapping[str, Any]], ctx: TableContext) -> pl.DataFrame:
    """Return the rows as a frame; a key that a row lacks is null.

    Columns that the table lacks get the type Polars infers; the caller refuses or adds them.

    Raises:
        SchemaMismatch, ValueOutOfRange: a value of another type, or out of range, with column and row.
    """
    fields = {field.name: field for field in ctx.schema.fields}
    columns = []
    for name in names(rows):
        values = [row.get(name) for row in rows]
        if name in fields:
            location = ValueLocation(column=name, path=name, table=ctx.name, row_of=lambda i: i)
            columns.append(pl.Series(array(values, fields[name].type, location)).alias(name))
        else:
            columns.append(pl.Series(name, values, strict=False))
    return pl.DataFrame(columns, height=len(rows))


def array(values: Sequence[Any], t: DataType, location: ValueLocation) -> pa.Array:
    """Convert Python values to an Arrow array without loss.

    Times in ns or µs, decimals with the scale of the values; `value_casting.fit` then checks them against the type.
    """
    match t.root:
        case "ARRAY":
            _check(values, t, location, (list, tuple, np.ndarray, pl.Series), "a list")
            return _list_array(
                values, lambda flat, row_of: array(flat, part(t.element), location.inner("element", row_of))
            )
        case "MAP" | "MULTISET":
            return _map_array(values, t, location)
        case "ROW" | "VARIANT":
            return _structs(values, _VARIANT if t.root == "VARIANT" else t.fields, t, location)
    return _scalar_array(values, t, location)


def _scalar_array(values: Sequence[Any], t: DataType, location: ValueLocation) -> pa.Array:
    match t.root:
        case "BOOLEAN":
            _check(values, t, location, (bool, np.bool_), "a bool")
            arrow = pa.bool_()
        case root if root in INTEGERS:
            _check(values, t, location, Integral, "an int", (bool,))
            arrow = pa.int64()
        case "FLOAT" | "DOUBLE":
            _check(values, t, location, Real, "a number", (bool,))
            arrow = pa.float32() if t.root == "FLOAT" else pa.float64()
        case "DECIMAL":
            _check(values, t, location, (Decimal, Integral), "a Decimal or an int", (bool,))
            values = [
                None if value is None else value if isinstance(value, Decimal) else Decimal(int(value))
                for value in values
            ]
            scales = {value.as_tuple().exponent for value in values if value is not None}
            arrow = pa.decimal128(
                _DIGITS, min(_DIGITS, max([t.scale or 0, *(-scale for scale in scales if isinstance(scale, int))]))
            )
        case root if root in STRINGS:
            _check(values, t, location, str, "a str")
            arrow = pa.large_string()
        case root if root in BINARIES:
            _check(values, t, location, (bytes, bytearray, memoryview), "bytes")
            arrow = pa.large_binary()
        case "DATE":
            _check(values, t, location, date, "a date", (datetime,))
            arrow = pa.date32()
        case "TIME":
            _check(values, t, location, time, "a time")
            arrow = pa.time64("ns")
        case _:
            assert t.root in TIMESTAMPS
            return _instants(values, t, location)
    return _arrow(values, arrow, t, location)


def _instants(values: Sequence[Any], t: DataType, location: ValueLocation) -> pa.Array:
    """Convert datetimes: with a zone for LTZ, without one for TIMESTAMP; the other kind is refused."""
    zoned = t.root == "TIMESTAMP_LTZ"
    _check(values, t, location, datetime, "a datetime")
    for i, value in enumerate(values):
        if value is not None and (value.tzinfo is not None) != zoned:
            expected = (
                "a datetime with a zone (tzinfo), which says what instant it is"
                if zoned
                else "a datetime without a zone"
            )
            raise _make_mismatch(values, i, t, location, expected)
    fine = any(getattr(value, "nanosecond", 0) for value in values if value is not None)
    return _arrow(values, pa.timestamp("ns" if fine else "us", "UTC" if zoned else None), t, location)


def _check(
    values: Sequence[Any],
    t: DataType,
    location: ValueLocation,
    accepted: Any,
    expected: str,
    refused: tuple[type, ...] = (),
) -> None:
    """Check that the class of every value but None is accepted; values themselves are not looked at."""
    wrong = {
        kind
        for kind in set(map(type, values)) - {type(None)}
        if not issubclass(kind, accepted) or issubclass(kind, refused or ())
    }
    if wrong:
        raise _make_mismatch(
            values, next(i for i, value in enumerate(values) if type(value) in wrong), t, location, expected
        )


def _make_mismatch(
    values: Sequence[Any], index: int, t: DataType, location: ValueLocation, expected: str
) -> SchemaMismatch:
    value = values[index]
    return SchemaMismatch(
        (
            f"row {location.row_of(index)}: column {location.path} of {location.table} holds {format_value(value)}, a "
            f"{type(value).__name__}; {t.as_nullable()} takes {expected}"
        ),
        column=location.column,
    )


def _arrow(values: Sequence[Any], arrow: pa.DataType, t: DataType, location: ValueLocation) -> pa.Array:
    try:
        return pa.array(values, arrow)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError) as wrong:
        index = next((i for i, value in enumerate(values) if _fails(value, arrow)), 0)
        raise ValueOutOfRange(
            f"row {location.row_of(index)}: column {location.path} of {location.table} holds "
            f"{format_value(values[index])}, which is no {t.as_nullable()}: {wrong}. Correct the value",
            column=location.column,
        ) from None


def _fails(value: Any, arrow: pa.DataType) -> bool:
    try:
        pa.scalar(value, arrow)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError):
        return True
    return False


# ---- values with parts -----------------------------------------------------------------------------------------------


def _list_array(values: Sequence[Any], inner: Any) -> pa.Array:
    lengths = np.array([0 if value is None else len(value) for value in values], np.int64)
    ends = np.cumsum(lengths)
    flat = list(chain.from_iterable(value for value in values if value is not None))
    elements = inner(flat, lambda i: int(np.searchsorted(ends, i, side="right")))
    return pa.LargeListArray.from_arrays(pa.array(np.append(0, ends), pa.int64()), elements, mask=_mask(values))


def _map_array(values: Sequence[Any], t: DataType, location: ValueLocation) -> pa.Array:
    """Convert dicts, pairs, or {"key": …, "value": …} items as Polars gives them."""
    _check(values, t, location, (Mapping, list, tuple), "a dict, or a list of pairs")
    pairs = [None if value is None else _pairs(value) for value in values]
    bad_index = next(
        (
            i
            for i, value in enumerate(pairs)
            if value is not None and not all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)
        ),
        None,
    )
    if bad_index is not None:
        raise _make_mismatch(values, bad_index, t, location, "a dict, or a list of pairs")
    key, value = (part(t.element), DataType(root="INT")) if t.root == "MULTISET" else (part(t.key), part(t.value))

    def entries(flat: list[tuple[Any, Any]], row_of: Any) -> pa.Array:
        keys = array([pair[0] for pair in flat], key, location.inner("key", row_of))
        value_array = array([pair[1] for pair in flat], value, location.inner("value", row_of))
        return pa.StructArray.from_arrays([keys, value_array], ["key", "value"])

    return _list_array(pairs, entries)


def _pairs(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.items())
    return [
        (item["key"], item["value"]) if isinstance(item, Mapping) and item.keys() == {"key", "value"} else item
        for item in value
    ]


def _structs(values: Sequence[Any], fields: Sequence[Field], t: DataType, location: ValueLocation) -> pa.Array:
    _check(values, t, location, Mapping, "a dict")
    field_names = {field.name for field in fields}
    bad_index = next(
        (i for i, value in enumerate(values) if value is not None and not field_names.issuperset(value)), None
    )
    if bad_index is not None:
        raise _make_mismatch(values, bad_index, t, location, f"a dict of {', '.join(field.name for field in fields)}")
    columns = [
        array(
            [None if value is None else value.get(field.name) for value in values],
            field.type,
            location.inner(field.name),
        )
        for field in fields
    ]
    return pa.StructArray.from_arrays(columns, [field.name for field in fields], mask=_mask(values))


def _mask(values: Sequence[Any]) -> pa.Array | None:
    nulls = np.array([value is None for value in values], np.bool_)
    return pa.array(nulls) if nulls.any() else None
