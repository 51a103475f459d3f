"""Convert Polars columns to Arrow arrays of exactly a Paimon type's shape, for the encoders of Arrow.

    List(Struct{key, value})   map<key: not null, value>          Time (ns)   time32[ms]
    large list, large text     list, text of 32 bit offsets       NOT NULL    fields that are not nullable

No value is converted one by one: offsets, validity and data are reused, or cast as a whole. Source: FORMAT.md 7.4-7.6.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.errors import LimitExceeded, ValueOutOfRange
from lakekit.format.encoder import map_types, refuse_null, refuse_null_key
from lakekit.types import STRINGS, DataType, Field, part
from lakekit.types.arrow import timestamp_unit, to_arrow

_INT64 = pa.int64()
_INT32_MAX = 2**31 - 1
_BYTES = DataType(root="VARBINARY", nullable=False)
_VARIANT = DataType(root="ROW", fields=(Field("value", _BYTES), Field("metadata", _BYTES)))
FIRST_DAY_NS = -106_751 * 86_400 * 10**9
"""Midnight of the first day that nanoseconds hold completely, 1677-09-22."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowTarget:
    """The Arrow form that one encoder takes.

    `pairs`: maps are lists of entries, which may have null keys, but for those whose keys are texts, unless
    `null_texts`. `count_times`, `count_timestamps`: TIME, and timestamps of up to 6 digits, are the integers that they
    are stored as.
    """

    format_name: str
    pairs: bool = False
    null_texts: bool = False
    count_times: bool = False
    count_timestamps: bool = False


def arrow_field(field: Field, form: ArrowTarget) -> pa.Field:
    """Return the Arrow field that a column is converted to."""
    return pa.field(field.name, arrow_type(field.type, form), field.nullable)


def arrow_type(t: DataType, form: ArrowTarget) -> pa.DataType:
    """Return the Arrow type of a Paimon type, with the nullability and the file names of its parts."""
    match t.root:
        case "TIME":
            return pa.int32() if form.count_times else pa.time32("ms")
        case "TIMESTAMP" | "TIMESTAMP_LTZ" if form.count_timestamps and timestamp_unit(t.precision) != "ns":
            return pa.int64()
        case "ARRAY":
            return pa.list_(pa.field("element", arrow_type(part(t.element), form), part(t.element).nullable))
        case "MAP" | "MULTISET":
            key, value = map_types(t)
            if form.pairs:
                entry = [
                    pa.field("key", arrow_type(key, form)),
                    pa.field("value", arrow_type(value, form), value.nullable),
                ]
                return pa.list_(pa.field("entries", pa.struct(entry), nullable=False))
            return pa.map_(
                pa.field("key", arrow_type(key, form), nullable=False),
                pa.field("value", arrow_type(value, form), value.nullable),
            )
        case "ROW":
            return pa.struct([arrow_field(field, form) for field in t.fields])
    return to_arrow(t)


def series_to_arrow(column: pl.Series, field: Field, form: ArrowTarget) -> pa.Array:
    """Return a column's values as one Arrow array of `arrow_type`.

    Raises:
        ValueOutOfRange: a value is null where the type is NOT NULL, or cannot be stored.
        LimitExceeded: lists have too many values together.
    """
    array = column.to_arrow(compat_level=pl.CompatLevel.oldest())
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks != 1 else array.chunk(0)
    if not field.nullable and array.null_count:
        raise refuse_null(field.name, field.type)
    return _convert_array(array, field.type, field.name, form)


def _convert_array(array: pa.Array, t: DataType, name: str, form: ArrowTarget) -> pa.Array:
    match t.root:
        case "ARRAY":
            return _list(array, t, name, form)
        case "MAP" | "MULTISET":
            return _map(array, t, name, form)
        case "ROW":
            return _struct(array, t, name, form)
        case "VARIANT":
            return _struct(array, _VARIANT, name, form)
        case "TIME":
            return pc.divide(array.cast(_INT64), 1_000_000).cast(pa.int32()).cast(arrow_type(t, form))
        case "TIMESTAMP" | "TIMESTAMP_LTZ" if form.count_timestamps and timestamp_unit(t.precision) == "ns":
            _refuse_first_day(array, t, name)
    target = arrow_type(t, form)
    return array if array.type.equals(target) else array.cast(target)


def _refuse_first_day(times: pa.Array, t: DataType, name: str) -> None:
    """Raise `ValueOutOfRange` for a time on the partial first day of nanoseconds.

    INT96 stores times of that day, but they cannot be read back in nanoseconds: they count from its midnight, which is
    too early.
    """
    first = pc.min(times.cast(pa.int64())).as_py()  # scalar: one of a column
    if first is not None and first < FIRST_DAY_NS:
        msg = f"column {name} ({t}) holds a time before 1677-09-22, which Parquet files give back in microseconds alone"
        raise ValueOutOfRange(f"{msg}: leave it out, or make the column {t.root}(6)", column=name)


def validity(array: pa.Array) -> pa.Buffer | None:
    """Return the validity of an array as bits from the first on; None where nothing is null."""
    return bits(array.is_valid()) if array.null_count else None


def bits(flags: pa.BooleanArray) -> pa.Buffer:
    """Return booleans as bits from the first on."""
    return (flags if not flags.offset else copy_array(flags)).buffers()[1]


def copy_array(array: pa.Array) -> pa.Array:
    """Return the same values in buffers of their own."""
    return pa.concat_arrays([array, array.slice(0, 0)])


def _offsets(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the 32 bit offsets of a list array from 0 on, and its values; lists that are null are empty."""
    if array.null_count:
        lengths = pc.fill_null(pc.list_value_length(array), 0).cast(_INT64)
        offsets = pa.concat_arrays([pa.array([0], _INT64), pc.cumulative_sum(lengths)])
        values = array.flatten()
    else:
        raw = array.offsets.cast(_INT64)
        first, last = raw[0].as_py(), raw[-1].as_py()  # scalar: two ends
        offsets = pc.subtract(raw, first)
        values = array.values.slice(first, last - first)
    if len(values) > _INT32_MAX:
        raise LimitExceeded(
            f"{len(values)} values of lists in one block: give file.block-size a smaller number",
            field="file.block-size",
        )
    return offsets.cast(pa.int32()), values


def _list(array: pa.Array, t: DataType, name: str, form: ArrowTarget) -> pa.Array:
    offsets, values = _offsets(array)
    element = part(t.element)
    if not element.nullable and values.null_count:
        raise refuse_null(name, t)
    inner = _convert_array(values, element, name, form)
    return pa.Array.from_buffers(
        arrow_type(t, form), len(array), [validity(array), offsets.buffers()[1]], children=[inner]
    )


def _map(array: pa.Array, t: DataType, name: str, form: ArrowTarget) -> pa.Array:
    offsets, entries = _offsets(array)
    key, value = map_types(t)
    keys, values = entries.field(0), entries.field(1)
    # texts are keys of an Avro map, without null
    if keys.null_count and not (form.pairs and key.nullable and (form.null_texts or key.root not in STRINGS)):
        raise refuse_null_key(name, form.format_name)
    if entries.null_count or (not value.nullable and values.null_count):
        raise refuse_null(name, t)
    target = arrow_type(t, form)
    inner = [_convert_array(keys, key, name, form), _convert_array(values, value, name, form)]
    entry_fields = list(target.value_type) if form.pairs else [target.key_field, target.item_field]
    pairs = pa.StructArray.from_arrays(inner, fields=entry_fields)
    return pa.Array.from_buffers(target, len(array), [validity(array), offsets.buffers()[1]], children=[pairs])


def _drop_validity(array: pa.Array) -> pa.Array:
    """Return the same values without a validity.

    A part that is NOT NULL is null below a null of its parent too, which Arrow would take for a null of the part.
    """
    if not array.null_count:
        return array
    kind = array.type
    if pa.types.is_struct(kind):
        parts = [array.field(i) for i in range(kind.num_fields)]
        return pa.Array.from_buffers(kind, len(array), [None], children=parts)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        inner = (
            array.values
            if pa.types.is_list(kind)
            else pa.StructArray.from_arrays([array.keys, array.items], fields=[kind.key_field, kind.item_field])
        )
        return pa.Array.from_buffers(
            kind, len(array), [None, array.buffers()[1]], children=[inner], offset=array.offset
        )
    return pa.Array.from_buffers(kind, len(array), [None, *array.buffers()[1:]], offset=array.offset)


def _struct(array: pa.Array, t: DataType, name: str, form: ArrowTarget) -> pa.Array:
    parts, is_present = [], array.is_valid() if array.null_count else None
    for i, field in enumerate(t.fields):
        inner = array.field(i)
        if (
            not field.nullable
            and inner.null_count
            and (is_present is None or pc.any(pc.and_(is_present, inner.is_null())).as_py())
        ):  # scalar: one answer
            raise refuse_null(f"{name}.{field.name}", field.type)
        child = _convert_array(inner, field.type, f"{name}.{field.name}", form)
        parts.append(child if field.nullable else _drop_validity(child))
    target = arrow_type(t, form)
    return pa.Array.from_buffers(target, len(array), [validity(array)], children=parts) if parts else array.cast(target)
