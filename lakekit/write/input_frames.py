"""A caller's input as Polars frames, one after the other; dicts by the table's types.

    pl.DataFrame · pl.LazyFrame (streamed) · Arrow streams and arrays (pyarrow, pandas, DuckDB, …)
    an iterator of those · a list of dicts
    [{"k": 1, "m": {"a": 1}, "at": datetime(2024, 1, 1)}]   ->   k Int64 · m List(Struct{key, value}) · at Datetime

`open_input` reads the columns and consumes no rows that `pieces` does not yield.

Python's own types stand for Paimon's: int, float, Decimal, str, bytes, bool, date, time, datetime (with a zone for LTZ,
without for TIMESTAMP), list, dict or pairs for MAP and MULTISET, dict for ROW. Each column is converted at once by
Arrow.

Source: API.md "Frames in".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.columns import collect_batches, pass_interrupt
from lakekit.errors import SchemaMismatch, ValueOutOfRange
from lakekit.format.polars_types import polars_schema
from lakekit.storage.object_store_requests import typed_refusals
from lakekit.types import BINARIES, INTEGERS, MAX_LENGTH, STRINGS, TIMESTAMPS, DataType, Field, first_duplicate, part
from lakekit.write.value_casting import ValueLocation, format_value

if TYPE_CHECKING:
    from lakekit.metadata.table_context import TableContext
    from lakekit.write.value_casting import ErrorHints


_BYTES_TYPE = DataType(root="VARBINARY", length=MAX_LENGTH)
_VARIANT_FIELDS = (Field("value", _BYTES_TYPE), Field("metadata", _BYTES_TYPE))
_MAX_DIGITS = 38


def column_names_of_rows(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return every key of any row, in order of first appearance."""
    return list(dict.fromkeys(chain.from_iterable(rows)))


def dicts_to_frame(rows: Sequence[Mapping[str, Any]], ctx: TableContext) -> pl.DataFrame:
    """Return the rows as a frame; a key that a row lacks is null.

    Columns that the table lacks get the type Polars infers; the caller refuses or adds them.

    Raises:
        SchemaMismatch, ValueOutOfRange: a value of another type, or out of range, with column and row.
    """
    fields = {field.name: field for field in ctx.schema.fields}
    columns = []
    for name in column_names_of_rows(rows):
        values = [row.get(name) for row in rows]
        if name in fields:
            location = ValueLocation(column=name, path=name, table=ctx.name, row_of=lambda i: i)
            columns.append(pl.Series(to_lossless_arrow(values, fields[name].type, location)).alias(name))
        else:
            columns.append(pl.Series(name, values, strict=False))
    return pl.DataFrame(columns, height=len(rows))


def to_lossless_arrow(values: Sequence[Any], t: DataType, location: ValueLocation) -> pa.Array:
    """Convert Python values to an Arrow array without loss.

    Times in ns or µs, decimals with the scale of the values; `value_casting.fit` then checks them against the type.
    """
    match t.root:
        case "ARRAY":
            _check_python_types(values, t, location, (list, tuple, np.ndarray, pl.Series), "a list")
            return _list_array(
                values, lambda flat, row_of: to_lossless_arrow(flat, part(t.element), location.inner("element", row_of))
            )
        case "MAP" | "MULTISET":
            return _map_array(values, t, location)
        case "ROW" | "VARIANT":
            return _struct_array(values, _VARIANT_FIELDS if t.root == "VARIANT" else t.fields, t, location)
    return _scalar_array(values, t, location)


def _scalar_array(values: Sequence[Any], t: DataType, location: ValueLocation) -> pa.Array:
    match t.root:
        case "BOOLEAN":
            _check_python_types(values, t, location, (bool, np.bool_), "a bool")
            arrow = pa.bool_()
        case root if root in INTEGERS:
            _check_python_types(values, t, location, Integral, "an int", (bool,))
            arrow = pa.int64()
        case "FLOAT" | "DOUBLE":
            _check_python_types(values, t, location, Real, "a number", (bool,))
            arrow = pa.float32() if t.root == "FLOAT" else pa.float64()
        case "DECIMAL":
            _check_python_types(values, t, location, (Decimal, Integral), "a Decimal or an int", (bool,))
            values = [
                None if value is None else value if isinstance(value, Decimal) else Decimal(int(value))
                for value in values
            ]
            scales = {value.as_tuple().exponent for value in values if value is not None}
            arrow = pa.decimal128(
                _MAX_DIGITS,
                min(_MAX_DIGITS, max([t.scale or 0, *(-scale for scale in scales if isinstance(scale, int))])),
            )
        case root if root in STRINGS:
            _check_python_types(values, t, location, str, "a str")
            arrow = pa.large_string()
        case root if root in BINARIES:
            _check_python_types(values, t, location, (bytes, bytearray, memoryview), "bytes")
            arrow = pa.large_binary()
        case "DATE":
            _check_python_types(values, t, location, date, "a date", (datetime,))
            arrow = pa.date32()
        case "TIME":
            _check_python_types(values, t, location, time, "a time")
            arrow = pa.time64("ns")
        case _:
            assert t.root in TIMESTAMPS
            return _instants_to_arrow(values, t, location)
    return _build_array(values, arrow, t, location)


def _instants_to_arrow(values: Sequence[Any], t: DataType, location: ValueLocation) -> pa.Array:
    """Convert datetimes: with a zone for LTZ, without one for TIMESTAMP; the other kind is refused."""
    zoned = t.root == "TIMESTAMP_LTZ"
    _check_python_types(values, t, location, datetime, "a datetime")
    for i, value in enumerate(values):
        if value is not None and (value.tzinfo is not None) != zoned:
            expected = (
                "a datetime with a zone (tzinfo), which says what instant it is"
                if zoned
                else "a datetime without a zone"
            )
            raise _make_mismatch(values, i, t, location, expected)
    fine = any(getattr(value, "nanosecond", 0) for value in values if value is not None)
    return _build_array(values, pa.timestamp("ns" if fine else "us", "UTC" if zoned else None), t, location)


def _check_python_types(
    values: Sequence[Any],
    t: DataType,
    location: ValueLocation,
    accepted_types: Any,
    expected: str,
    refused_types: tuple[type, ...] = (),
) -> None:
    """Check that the class of every value but None is accepted; values themselves are not looked at."""
    wrong = {
        kind
        for kind in set(map(type, values)) - {type(None)}
        if not issubclass(kind, accepted_types) or issubclass(kind, refused_types or ())
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


def _build_array(values: Sequence[Any], arrow: pa.DataType, t: DataType, location: ValueLocation) -> pa.Array:
    try:
        return pa.array(values, arrow)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError) as wrong:
        index = next((i for i, value in enumerate(values) if _fails_conversion(value, arrow)), 0)
        raise ValueOutOfRange(
            f"row {location.row_of(index)}: column {location.path} of {location.table} holds "
            f"{format_value(values[index])}, which is no {t.as_nullable()}: {wrong}. Correct the value",
            column=location.column,
        ) from None


def _fails_conversion(value: Any, arrow: pa.DataType) -> bool:
    try:
        pa.scalar(value, arrow)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError):
        return True
    return False


# ---- values with parts -----------------------------------------------------------------------------------------------


def _list_array(values: Sequence[Any], make_elements: Any) -> pa.Array:
    lengths = np.array([0 if value is None else len(value) for value in values], np.int64)
    ends = np.cumsum(lengths)
    flat = list(chain.from_iterable(value for value in values if value is not None))
    elements = make_elements(flat, lambda i: int(np.searchsorted(ends, i, side="right")))
    return pa.LargeListArray.from_arrays(pa.array(np.append(0, ends), pa.int64()), elements, mask=_null_mask(values))


def _map_array(values: Sequence[Any], t: DataType, location: ValueLocation) -> pa.Array:
    """Convert dicts, pairs, or {"key": …, "value": …} items as Polars gives them."""
    _check_python_types(values, t, location, (Mapping, list, tuple), "a dict, or a list of pairs")
    pairs = [None if value is None else _map_pairs(value) for value in values]
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
        keys = to_lossless_arrow([pair[0] for pair in flat], key, location.inner("key", row_of))
        value_array = to_lossless_arrow([pair[1] for pair in flat], value, location.inner("value", row_of))
        return pa.StructArray.from_arrays([keys, value_array], ["key", "value"])

    return _list_array(pairs, entries)


def _map_pairs(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.items())
    return [
        (item["key"], item["value"]) if isinstance(item, Mapping) and item.keys() == {"key", "value"} else item
        for item in value
    ]


def _struct_array(values: Sequence[Any], fields: Sequence[Field], t: DataType, location: ValueLocation) -> pa.Array:
    _check_python_types(values, t, location, Mapping, "a dict")
    field_names = {field.name for field in fields}
    bad_index = next(
        (i for i, value in enumerate(values) if value is not None and not field_names.issuperset(value)), None
    )
    if bad_index is not None:
        raise _make_mismatch(values, bad_index, t, location, f"a dict of {', '.join(field.name for field in fields)}")
    columns = [
        to_lossless_arrow(
            [None if value is None else value.get(field.name) for value in values],
            field.type,
            location.inner(field.name),
        )
        for field in fields
    ]
    return pa.StructArray.from_arrays(columns, [field.name for field in fields], mask=_null_mask(values))


def _null_mask(values: Sequence[Any]) -> pa.Array | None:
    nulls = np.array([value is None for value in values], np.bool_)
    return pa.array(nulls) if nulls.any() else None


# ---- input frames ------------------------------------------------------------


BATCH_ROWS = 131_072
_UNITS_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
"""How long a day is, in each unit of Arrow's times."""
_ACCEPTED_INPUTS = (
    "lakekit takes a Polars DataFrame or LazyFrame, anything with an Arrow stream (pyarrow, pandas, DuckDB), an "
    "iterator of those, or a list of dicts"
)

_EXHAUSTED = object()
"""What an iterator gives that is at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFrames:
    """Input rows that can be read once.

    Attributes:
        schema: the columns; None if there is no row to infer them from.
        iter_frames: yields the rows, once, for a table.
        is_single_frame: whether all rows are in memory.
        error_hints: advice of error messages; None: the default of `row_conversion.batches`.
    """

    schema: pl.Schema | None
    iter_frames: Callable[[TableContext], Iterator[pl.DataFrame]]
    is_single_frame: bool = False
    error_hints: ErrorHints | None = None


def open_input(data: object, ctx: TableContext, *, batch_rows: int = BATCH_ROWS) -> InputFrames:
    """Return the input, ready to be read once. Raises `SchemaMismatch` for unsupported input."""
    match data:
        case InputFrames():
            return data
        case pl.DataFrame():
            return InputFrames(schema=data.schema, iter_frames=lambda _: iter([data]), is_single_frame=True)
        case pl.LazyFrame():
            return open_lazy_frame(data, batch_rows)
        case Mapping() | str() | bytes() | pl.Series():
            raise _make_unsupported_input_error(data, ctx)
    if isinstance(data, Sequence) and all(isinstance(item, Mapping) for item in data):
        return _open_dicts(list(data), ctx)
    if hasattr(data, "__arrow_c_stream__"):
        return _open_stream(data, ctx)
    if hasattr(data, "__arrow_c_array__"):
        return _open_stream(_import_batch(data, ctx), ctx)
    if isinstance(data, Iterable):
        return _open_iterator(iter(data), ctx, batch_rows)
    raise _make_unsupported_input_error(data, ctx)


def open_lazy_frame(
    data: pl.LazyFrame, batch_rows: int = BATCH_ROWS, *, error_hints: ErrorHints | None = None
) -> InputFrames:
    """Return the rows of a query, to be streamed in batches; `error_hints` are what errors about them advise."""
    return InputFrames(
        schema=data.collect_schema(), iter_frames=lambda _: _collect_batches(data, batch_rows), error_hints=error_hints
    )


def _make_unsupported_input_error(data: object, ctx: TableContext) -> SchemaMismatch:
    hint = ""
    if isinstance(data, Mapping):
        hint = " A dict of one row goes into a list, a dict of columns into pl.DataFrame(…)."
    elif isinstance(data, (str, bytes)):
        hint = " A file is read with pl.scan_parquet(…) and its like."
    elif isinstance(data, pl.Series):
        hint = " A column becomes a frame with .to_frame()."
    return SchemaMismatch(f"{type(data).__name__} holds no rows for {ctx.name}: {_ACCEPTED_INPUTS}.{hint}")


# ---- frames ----------------------------------------------------------------------------------------------------------


def _collect_batches(frame: pl.LazyFrame, batch_rows: int) -> Iterator[pl.DataFrame]:
    try:
        with typed_refusals():  # the frame may read another table
            yield from collect_batches(frame, chunk_size=batch_rows)
    except pl.exceptions.PanicException as panic:
        pass_interrupt(panic)
        raise SchemaMismatch(
            f"Polars panicked over the query whose rows are to be written: {str(panic)[:300]}. Nothing was written. "
            f"That is a fault of Polars {pl.__version__}, or of a file that the query reads; frame.collect() shows it"
        ) from None


def _open_dicts(rows: list[Mapping[str, Any]], ctx: TableContext) -> InputFrames:
    names = column_names_of_rows(rows)
    table_types = dict(polars_schema(ctx.schema.fields))
    schema = pl.Schema(
        {name: table_types.get(name) or _infer_type([row.get(name) for row in rows], name, ctx) for name in names}
    )
    return InputFrames(
        schema=schema if rows else None,
        iter_frames=lambda table_ctx: iter([dicts_to_frame(rows, table_ctx)] if rows else []),
        is_single_frame=True,
    )


def _infer_type(values: list[Any], name: object, ctx: TableContext) -> pl.DataType:
    """Infer the type of a column that the table lacks."""
    try:
        if isinstance(name, str):
            return pl.Series(name, values).dtype
        reason = "names are texts"
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError) as mixed:
        reason = f"its values are not of one type: {str(mixed).splitlines()[0]}"
    raise SchemaMismatch(
        f"{ctx.name} has no column {name!r}, and none can be made of it: {reason}. Drop it from the rows",
        column=str(name),
    )


def _open_iterator(items: Iterator[object], ctx: TableContext, batch_rows: int) -> InputFrames:
    """Open an iterator of frames. The first frame is opened to read its columns, and yielded first."""
    first = next(items, _EXHAUSTED)
    if first is _EXHAUSTED:
        return InputFrames(schema=None, iter_frames=lambda _: iter(()), is_single_frame=True)
    if isinstance(first, Mapping):
        raise SchemaMismatch(
            f"an iterator of dicts holds no frames for {ctx.name}: give list(…) of it, or frames of many rows"
        )
    if isinstance(first, Sequence) and not isinstance(first, str | bytes) and not hasattr(first, "__arrow_c_stream__"):
        raise SchemaMismatch(
            f"rows for {ctx.name} come as {type(first).__name__}s, which do not name their columns "
            f"({format_value(first)}). Give dicts, or pl.DataFrame(rows, schema=[…], orient='row')"
        )
    head = open_input(first, ctx, batch_rows=batch_rows)

    def pieces(table_ctx: TableContext) -> Iterator[pl.DataFrame]:
        for item in chain([head], items):
            yield from open_input(item, table_ctx, batch_rows=batch_rows).iter_frames(table_ctx)

    return InputFrames(schema=head.schema, iter_frames=pieces)


# ---- Arrow -----------------------------------------------------------------------------------------------------------


def _import_batch(data: object, ctx: TableContext) -> pa.RecordBatch:
    try:
        return pa.record_batch(data)
    except (pa.ArrowInvalid, TypeError, ValueError) as wrong:
        raise SchemaMismatch(
            f"{type(data).__name__} is no Arrow record batch ({wrong}); {ctx.name} takes columns with names. "
            f"{_ACCEPTED_INPUTS}"
        ) from None


def _open_stream(data: Any, ctx: TableContext) -> InputFrames:
    try:
        is_in_memory = isinstance(data, (pa.Table, pa.RecordBatch))
        reader = (
            data.to_reader()
            if isinstance(data, pa.Table)
            else None
            if is_in_memory
            else pa.RecordBatchReader.from_stream(data)
        )
    except (pa.ArrowException, TypeError, ValueError) as wrong:
        # pandas raises these too for frames that it cannot convert to columns
        raise _make_no_columns_error(data, ctx, wrong) from None
    arrow = data.schema if reader is None else reader.schema
    schema = _import_columns(pa.RecordBatch.from_pylist([], arrow), ctx).schema
    if is_in_memory:
        table = pa.table(data)
        return InputFrames(
            schema=schema, iter_frames=lambda _: iter([_import_columns(table, ctx)]), is_single_frame=True
        )
    return InputFrames(schema=schema, iter_frames=lambda _: (_import_columns(batch, ctx) for batch in reader or ()))


def _make_no_columns_error(data: Any, ctx: TableContext, error: Exception) -> SchemaMismatch:
    """Return the error for a frame without Arrow columns; it names the offending column if there is one."""
    kind = f"the {type(data).__module__.partition('.')[0]} {type(data).__name__} for {ctx.name}"
    names = [str(name) for name in getattr(data, "columns", ())]
    if (repeated := first_duplicate(names)) is not None:
        return SchemaMismatch(
            f"two columns of {kind} are called {repeated}. Rename one, or leave it out", column=repeated
        )
    for name in names:
        try:
            pa.array(data[name])
        except (pa.ArrowException, TypeError, ValueError) as mixed:
            return SchemaMismatch(
                f"column {name} of {kind} holds values of more than one type: {mixed}. Make them one type", column=name
            )
    return SchemaMismatch(f"{kind} gives no Arrow columns with names: {error}. {_ACCEPTED_INPUTS}")


def _import_columns(batch: pa.RecordBatch | pa.Table, ctx: TableContext) -> pl.DataFrame:
    """Convert Arrow columns to Polars, after casting those that Polars would refuse or change."""
    names = batch.schema.names
    if (repeated := first_duplicate(names)) is not None:
        raise SchemaMismatch(
            f"two columns of the rows for {ctx.name} are called {repeated!r}. Rename one, or leave it out",
            column=repeated,
        )
    columns = {name: _cast_for_polars(column, name, ctx) for name, column in zip(names, batch.columns, strict=True)}
    try:
        return pl.DataFrame({name: pl.Series(column) for name, column in columns.items()}, height=batch.num_rows)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as refused:
        types_text = ", ".join(f"{name} {column.type}" for name, column in columns.items())
        raise SchemaMismatch(
            f"Polars does not read the rows for {ctx.name} ({types_text}): {refused}. Cast the column to a type that "
            "it has"
        ) from None


def _cast_for_polars(column: Any, name: str, ctx: TableContext) -> Any:
    t = column.type
    want = None
    _check_times_and_texts(column, name, ctx)
    if pa.types.is_timestamp(t) and t.unit == "s":
        want = pa.timestamp("ms", t.tz)  # Polars multiplies without looking
    elif pa.types.is_date64(t):
        want = pa.date32()
    elif pa.types.is_decimal256(t) and t.precision <= 38:
        want = pa.decimal128(t.precision, t.scale)
    elif pa.types.is_decimal256(t) or pa.types.is_run_end_encoded(t) or pa.types.is_union(t) or pa.types.is_interval(t):
        raise SchemaMismatch(
            f"column {name!r} of the rows for {ctx.name} is Arrow's {t}, which lakekit does not read. Cast it first",
            column=name,
        )
    if want is None:
        return column
    try:
        return pc.cast(column, want)
    except pa.ArrowInvalid as wrong:
        raise ValueOutOfRange(
            f"column {name!r} of the rows for {ctx.name} is Arrow's {t}: {wrong}. Correct the value", column=name
        ) from None


def _check_times_and_texts(column: Any, name: str, ctx: TableContext) -> None:
    """Raise `ValueOutOfRange` for values, at any depth, that Polars would silently change.

    It reads a time outside of a day as null, and any bytes as text.
    """
    t = column.type
    if pa.types.is_time(t):
        bounds = pc.min_max(column.cast(pa.int32() if t.bit_width == 32 else pa.int64()))
        least, most, day = bounds["min"].as_py(), bounds["max"].as_py(), _UNITS_PER_DAY[t.unit]  # scalar: one a column
        if least is not None and (least < 0 or most >= day):
            wrong = least if least < 0 else most
            msg = (
                f"column {name!r} of the rows for {ctx.name} holds {wrong} {t.unit} of a day, which has {day}. "
                "Correct the value"
            )
            raise ValueOutOfRange(msg, column=name)
    elif _is_text(t):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as wrong:
            msg = (
                f"column {name!r} of the rows for {ctx.name} holds a text that is no UTF-8: {wrong}. Make it a column "
                "of bytes, or correct the value"
            )
            raise ValueOutOfRange(msg, column=name) from None
    elif t.num_fields and _needs_value_check(t):
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else (column,):
            for inside in _child_arrays(chunk):
                _check_times_and_texts(inside, name, ctx)


def _is_text(t: pa.DataType) -> bool:
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t))


@lru_cache(maxsize=1024)
def _needs_value_check(t: pa.DataType) -> bool:
    """Return whether times of a day, or texts, are among the parts of a type that `_child_arrays` opens."""
    if (
        pa.types.is_struct(t)
        or pa.types.is_list(t)
        or pa.types.is_large_list(t)
        or pa.types.is_fixed_size_list(t)
        or pa.types.is_map(t)
    ):
        parts = [t.field(at).type for at in range(t.num_fields)]
        return any(pa.types.is_time(part) or _is_text(part) or _needs_value_check(part) for part in parts)
    return False


def _child_arrays(array: pa.Array) -> list[pa.Array]:
    """Return the values inside a nested array, without those that belong to no row."""
    if pa.types.is_struct(array.type):
        return list(array.flatten())
    if pa.types.is_map(array.type):
        first, end = array.offsets[0].as_py(), array.offsets[-1].as_py()  # scalar: one an array
        return [array.keys.slice(first, end - first), array.items.slice(first, end - first)]
    return [array.flatten()]
