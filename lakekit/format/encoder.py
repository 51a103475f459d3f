"""Writers of data files: frames go in, bytes of some format go to a sink, statistics come out.

    with storage.open_write(path) as sink:
        encoder = open_writer(sink, "parquet", fields, Encoding())
        encoder.write(frame)          many times
        encoder.size_bytes            how long the file would be about now
        encoder.close()               the sink stays open: its owner closes it

A format is a module of this folder with `open_writer(sink, fields, encoding)` and `check_types(fields)`. Frames have
exactly the columns of `fields`, in order, with the dtypes of `polars_types.polars_schema(fields)`. For the encoders of
Arrow `series_to_arrow` makes arrays of exactly a Paimon type's shape; no value is converted one by one: offsets,
validity and data are reused, or cast as a whole.

    List(Struct{key, value})   map<key: not null, value>          Time (ns)   time32[ms]
    large list, large text     list, text of 32 bit offsets       NOT NULL    fields that are not nullable

Null counts and bounds are `ColumnStats`, in Polars' physical values: an encoder that counts and bounds anyway saves a
second look at every row.

    stats.add(column, t)      counts rows
    stats.take(chunk, t)      adds a Parquet chunk's statistics, where they are complete:
                              3 null count · 5 max · 6 min        numbers little-endian, texts as UTF-8, cut at 64 bytes

Source: FORMAT.md 7.4-7.8; `FormatWriter`, `FileFormat`; the Apache Parquet format, `Statistics`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from decimal import Context, Decimal
from math import isnan
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakekit import plugins
from lakekit.errors import LimitExceeded, Unsupported, ValueOutOfRange
from lakekit.options.features import make_refusal
from lakekit.options.option import EMPTY
from lakekit.types import BINARIES, STRINGS, TIMESTAMPS, DataType, Field, part, timestamp_unit
from lakekit.types.arrow import to_arrow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakekit.format.thrift import Struct


_COUNT_TYPE = DataType(root="INT", nullable=False)
BLOCK_BYTES = 128 << 20
"""Bytes of a block where no option says another number; of an ORC stripe it is half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How a file is encoded.

    `table_options` are options of the table as text, for what only one format knows (`parquet.page.size`,
    `orc.stripe.size`). `compression` is named as `file.compression` names it. `block_bytes` is the size of a row group,
    a stripe or an Avro block; `file_bytes` the size at which the file will be ended, so that a format which knows its
    length only at a block's end has some ends before. `time_zone` is the zone of processes that take instants in ORC
    for wall clocks (FORMAT 7.5): true instants are written, which such a process reads right in UTC alone.
    """

    compression: str = "zstd"
    compression_level: int = 1
    block_bytes: int | None = None
    file_bytes: int | None = None
    batch_rows: int = 1024
    table_options: Mapping[str, str] = EMPTY
    time_zone: str = "UTC"


class Encoder(Protocol):
    """A file that is being written.

    `column_stats`: columns whose null counts and bounds the encoder knows once it is closed, so that they need not be
    counted elsewhere.
    """

    column_stats: Mapping[str, ColumnStats]

    @property
    def size_bytes(self) -> int:
        """Bytes written to the sink, and an estimate of what is buffered."""

    def can_add(self, frame: pl.DataFrame) -> bool:
        """Return whether this file may hold these rows; another file may."""

    def write(self, frame: pl.DataFrame) -> None:
        """Add rows. Raises `ValueOutOfRange` for what the format cannot hold."""

    def flush(self) -> None:
        """Write to the sink what may be written before the end.

        `size_bytes` is exact afterwards where the format allows.
        """

    def close(self) -> None:
        """Write what is buffered and the end of the file. Nothing can be written afterwards."""


def open_writer(sink: BinaryIO, format_name: str, fields: Sequence[Field], encoding: Encoding) -> Encoder:
    """Return a writer of one file.

    Raises:
        Unsupported: lakekit does not write the format, or the format does not have a type or the compression.
    """
    encoder: Encoder = _load_format(format_name).open_writer(sink, fields, encoding)
    return encoder


def check_types(format_name: str, fields: Sequence[Field]) -> None:
    """Raise `Unsupported` for columns that files of a format do not hold."""
    _load_format(format_name).check_types(fields)


def _load_format(name: str) -> Any:
    format_names = plugins.names("format")
    if name.lower() not in format_names:
        raise make_refusal(
            f"file.format.{name.lower()}",
            "the option file.format",
            alternative=f"Choose one of {', '.join(format_names)}",
        )
    return plugins.load("format", name.lower())


def refuse_type(t: DataType, format_name: str) -> Unsupported:
    """Return the error for a type that a format does not have."""
    return Unsupported(
        f"{format_name} files do not hold columns of type {t}; choose another file.format",
        feature=f"file-format.{format_name}.{t.root.lower()}",
    )


def refuse_name(name: str, format_name: str, problem: str) -> Unsupported:
    """Return the error for a name that a format lacks, or that the reference does not find in its files."""
    msg = f"{format_name} files do not hold a column or field called {name!r}, {problem}"
    return Unsupported(f"{msg}; rename it, or choose another file.format", feature=f"file-format.{format_name}.name")


def refuse_null(column: str, t: DataType) -> ValueOutOfRange:
    """Return the error for a null in a column, or a part of one, that is NOT NULL."""
    return ValueOutOfRange(f"column {column} is {t}, but holds null", column=column)


def refuse_null_key(column: str, format_name: str) -> ValueOutOfRange:
    """Return the error for a null key of a map.

    A file of a format table that began without one cannot take one.
    """
    why = (
        "which an orc file can have where its first rows have one: sort the rows so, or leave the entry out"
        if format_name == "orc"
        else f"which {format_name} files do not have"
    )
    return ValueOutOfRange(f"column {column} holds a map with a null key, {why}", column=column)


def map_types(t: DataType) -> tuple[DataType, DataType]:
    """Return the key and value types of a MAP; of a MULTISET its elements and their counts."""
    return (part(t.element), _COUNT_TYPE) if t.root == "MULTISET" else (part(t.key), part(t.value))


# ---- Arrow arrays -------------------------------------------------------


_INT64 = pa.int64()
_INT32_MAX = 2**31 - 1
_BYTES_TYPE = DataType(root="VARBINARY", nullable=False)
_VARIANT_TYPE = DataType(root="ROW", fields=(Field("value", _BYTES_TYPE), Field("metadata", _BYTES_TYPE)))
FIRST_DAY_NS = -106_751 * 86_400 * 10**9
"""Midnight of the first day that nanoseconds hold completely, 1677-09-22."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowTarget:
    """The Arrow form that one encoder takes.

    `maps_as_lists`: maps are lists of entries, which may have null keys, but for those whose keys are texts, unless
    `null_texts`. `count_times`, `count_timestamps`: TIME, and timestamps of up to 6 digits, are the integers that they
    are stored as.
    """

    format_name: str
    maps_as_lists: bool = False
    null_texts: bool = False
    count_times: bool = False
    count_timestamps: bool = False


def arrow_field(field: Field, arrow_target: ArrowTarget) -> pa.Field:
    """Return the Arrow field that a column is converted to."""
    return pa.field(field.name, arrow_type(field.type, arrow_target), field.nullable)


def arrow_type(t: DataType, arrow_target: ArrowTarget) -> pa.DataType:
    """Return the Arrow type of a Paimon type, with the nullability and the file names of its parts."""
    match t.root:
        case "TIME":
            return pa.int32() if arrow_target.count_times else pa.time32("ms")
        case "TIMESTAMP" | "TIMESTAMP_LTZ" if arrow_target.count_timestamps and timestamp_unit(t.precision) != "ns":
            return pa.int64()
        case "ARRAY":
            return pa.list_(pa.field("element", arrow_type(part(t.element), arrow_target), part(t.element).nullable))
        case "MAP" | "MULTISET":
            key, value = map_types(t)
            if arrow_target.maps_as_lists:
                entry = [
                    pa.field("key", arrow_type(key, arrow_target)),
                    pa.field("value", arrow_type(value, arrow_target), value.nullable),
                ]
                return pa.list_(pa.field("entries", pa.struct(entry), nullable=False))
            return pa.map_(
                pa.field("key", arrow_type(key, arrow_target), nullable=False),
                pa.field("value", arrow_type(value, arrow_target), value.nullable),
            )
        case "ROW":
            return pa.struct([arrow_field(field, arrow_target) for field in t.fields])
    return to_arrow(t)


def series_to_arrow(column: pl.Series, field: Field, arrow_target: ArrowTarget) -> pa.Array:
    """Return a column's values as one Arrow array of `arrow_type`.

    Raises:
        ValueOutOfRange: a value of a type NOT NULL is null, or a value cannot be stored.
        LimitExceeded: lists have too many values together.
    """
    array = column.to_arrow(compat_level=pl.CompatLevel.oldest())
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks != 1 else array.chunk(0)
    if not field.nullable and array.null_count:
        raise refuse_null(field.name, field.type)
    return _convert_array(array, field.type, field.name, arrow_target)


def _convert_array(array: pa.Array, t: DataType, name: str, arrow_target: ArrowTarget) -> pa.Array:
    match t.root:
        case "ARRAY":
            return _convert_list(array, t, name, arrow_target)
        case "MAP" | "MULTISET":
            return _convert_map(array, t, name, arrow_target)
        case "ROW":
            return _convert_struct(array, t, name, arrow_target)
        case "VARIANT":
            return _convert_struct(array, _VARIANT_TYPE, name, arrow_target)
        case "TIME":
            return pc.divide(array.cast(_INT64), 1_000_000).cast(pa.int32()).cast(arrow_type(t, arrow_target))
        case "TIMESTAMP" | "TIMESTAMP_LTZ" if arrow_target.count_timestamps and timestamp_unit(t.precision) == "ns":
            _refuse_first_day(array, t, name)
    target = arrow_type(t, arrow_target)
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


def validity_bits(array: pa.Array) -> pa.Buffer | None:
    """Return the validity of an array as bits from the first on; None if nothing is null."""
    return packed_bits(array.is_valid()) if array.null_count else None


def packed_bits(flags: pa.BooleanArray) -> pa.Buffer:
    """Return booleans as bits from the first on."""
    return (flags if not flags.offset else copy_array(flags)).buffers()[1]


def copy_array(array: pa.Array) -> pa.Array:
    """Return the same values in buffers of their own."""
    return pa.concat_arrays([array, array.slice(0, 0)])


def _list_offsets(array: pa.Array) -> tuple[pa.Array, pa.Array]:
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


def _convert_list(array: pa.Array, t: DataType, name: str, arrow_target: ArrowTarget) -> pa.Array:
    offsets, values = _list_offsets(array)
    element = part(t.element)
    if not element.nullable and values.null_count:
        raise refuse_null(name, t)
    inner = _convert_array(values, element, name, arrow_target)
    return pa.Array.from_buffers(
        arrow_type(t, arrow_target), len(array), [validity_bits(array), offsets.buffers()[1]], children=[inner]
    )


def _convert_map(array: pa.Array, t: DataType, name: str, arrow_target: ArrowTarget) -> pa.Array:
    offsets, entries = _list_offsets(array)
    key, value = map_types(t)
    keys, values = entries.field(0), entries.field(1)
    # texts are keys of an Avro map, without null
    if keys.null_count and not (
        arrow_target.maps_as_lists and key.nullable and (arrow_target.null_texts or key.root not in STRINGS)
    ):
        raise refuse_null_key(name, arrow_target.format_name)
    if entries.null_count or (not value.nullable and values.null_count):
        raise refuse_null(name, t)
    target = arrow_type(t, arrow_target)
    inner = [_convert_array(keys, key, name, arrow_target), _convert_array(values, value, name, arrow_target)]
    entry_fields = list(target.value_type) if arrow_target.maps_as_lists else [target.key_field, target.item_field]
    pairs = pa.StructArray.from_arrays(inner, fields=entry_fields)
    return pa.Array.from_buffers(target, len(array), [validity_bits(array), offsets.buffers()[1]], children=[pairs])


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


def _convert_struct(array: pa.Array, t: DataType, name: str, arrow_target: ArrowTarget) -> pa.Array:
    parts, is_present = [], array.is_valid() if array.null_count else None
    for i, field in enumerate(t.fields):
        inner = array.field(i)
        if (
            not field.nullable
            and inner.null_count
            and (is_present is None or pc.any(pc.and_(is_present, inner.is_null())).as_py())
        ):  # scalar: one answer
            raise refuse_null(f"{name}.{field.name}", field.type)
        child = _convert_array(inner, field.type, f"{name}.{field.name}", arrow_target)
        parts.append(child if field.nullable else _drop_validity(child))
    target = arrow_type(t, arrow_target)
    return (
        pa.Array.from_buffers(target, len(array), [validity_bits(array)], children=parts)
        if parts
        else array.cast(target)
    )


# ---- column statistics -----------------------------------------------


TIME_TYPES = TIMESTAMPS | {"DATE", "TIME"}
"""Types whose bounds are kept as physical numbers."""
FLOAT_TYPES = frozenset({"FLOAT", "DOUBLE"})
_BOUNDLESS_TYPES = frozenset({"ARRAY", "MAP", "MULTISET", "ROW", "VARIANT"}) | BINARIES
_ORDERED_BY_VALUE = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DATE"}) | FLOAT_TYPES
_BOUND_STRUCTS = {
    number: struct.Struct(form) for number, form in ((0, "<?"), (1, "<i"), (2, "<q"), (4, "<f"), (5, "<d"))
}
"""Formats of the bounds of physical types of fixed width."""
_BYTE_ARRAY = 6
_MAX_BOUND_BYTES = 64 - 3
"""Texts of at least so many bytes may have been cut to 64 bytes, between characters."""
_EXACT_CONTEXT = Context(prec=40)
_MAX_DIGITS = 18
"""The most digits of decimals that a file holds as numbers; others are bytes."""


def has_bounds(t: DataType) -> bool:
    """Return whether values of a type have an order that bounds can use."""
    return t.root not in _BOUNDLESS_TYPES


def has_exact_chunk_bounds(t: DataType) -> bool:
    """Return whether statistics of Parquet chunks hold bounds of a type as they are."""
    if t.root in TIMESTAMPS:
        return timestamp_unit(t.precision) != "ns"
    return (
        t.root in _ORDERED_BY_VALUE or t.root in STRINGS or (t.root == "DECIMAL" and (t.precision or 10) <= _MAX_DIGITS)
    )


def has_nan(column: pl.Series) -> bool:
    """Return whether a column of real numbers holds a NaN.

    The sum of a column with one is a NaN.
    """
    total = column.sum()
    return isnan(total) and bool(column.is_nan().any())  # infinities of both signs sum up to a NaN too


class ColumnStats:
    """Statistics of one column over all rows so far; `has_bounds` is False if a NaN makes bounds unknown."""

    __slots__ = ("has_bounds", "high", "low", "nulls")

    def __init__(self) -> None:
        self.low: Any = None
        self.high: Any = None
        self.nulls, self.has_bounds = 0, True

    def add(self, column: pl.Series, t: DataType) -> None:
        """Add the rows of a column, one column at a time: for few rows that costs least."""
        self.nulls += column.null_count()
        if not has_bounds(t) or not self.has_bounds:
            return
        if t.root in FLOAT_TYPES and has_nan(column):
            self.has_bounds = False
            return
        if t.root in TIME_TYPES:
            column = column.to_physical()
        elif t.root == "DECIMAL":
            # sums may outgrow their type's digits (case aggregate_sum_types)
            column = column.cast(pl.Decimal(38, t.scale or 0))
        self._widen(column.min(), column.max())

    def add_chunk_statistics(self, chunk: Struct, t: DataType) -> bool:
        """Add the statistics in a chunk's metadata, of a column without NaN.

        Returns False, and adds nothing, where they are incomplete.
        """
        statistics: Struct = chunk[12][1] if 12 in chunk else {}
        if 3 not in statistics:
            return False
        nulls = statistics[3][1]
        if 5 not in statistics or 6 not in statistics:
            if nulls != chunk[5][1]:  # the number of values
                return False
            self.nulls += nulls
            return True
        bounds = _decode_bounds(chunk[1][1], statistics[6][1], statistics[5][1])
        if bounds is None:
            return False
        self.nulls += nulls
        self._widen(
            *(
                Decimal(bound).scaleb(-(t.scale or 0), _EXACT_CONTEXT) if t.root == "DECIMAL" else bound
                for bound in bounds
            )
        )
        return True

    def add_rows_without_bounds(self, nulls: int) -> None:
        """Add rows of which only the nulls are known."""
        self.nulls += nulls
        self.has_bounds = False

    def _widen(self, low: Any, high: Any) -> None:
        if low is not None:
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)


def _decode_bounds(physical: int, low: bytes, high: bytes) -> tuple[Any, Any] | None:
    """Return the bounds of a chunk; None if a text was cut, or their form is unknown."""
    if physical == _BYTE_ARRAY:
        return (low.decode(), high.decode()) if max(len(low), len(high)) < _MAX_BOUND_BYTES else None
    form = _BOUND_STRUCTS.get(physical)
    if form is None or not len(low) == len(high) == form.size:
        return None
    return form.unpack(low)[0], form.unpack(high)[0]
