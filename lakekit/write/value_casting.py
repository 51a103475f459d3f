"""Casts of values to a type if none changes, else an error; schema changes for new columns.

    UInt8, Int64, Int128 → TINYINT … BIGINT, DECIMAL, FLOAT     by value: 127 is a TINYINT, 128 is refused
    Float64 → FLOAT · Decimal → another scale, an integer       by value: 1.50 is a DECIMAL(3, 1), 1.55 is refused
    Enum, Categorical → STRING · zones → LTZ · units            same text, same instant; 0.5 µs is no TIMESTAMP(6)
    Struct → ROW by name · Map → MAP · Array → ARRAY            part by part
    everything else                                             refused by type, or with `cast` Polars' strict cast

    ValueLocation(column="v", path="v.element", table="shop.orders", row_of=…)
        ->   row 7 of column v.element holds 300, which is no TINYINT

NOT NULL, lengths, precision and the keys of maps are checked too, at any depth. Rows are counted from 0 over the whole
input of one call.

Source: API.md "Types", ENGINE.md 1.1, 1.5; `SchemaMergingUtils`, `SchemaManager`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from lakekit.columns import instance, series_field
from lakekit.errors import SchemaMismatch, ValueOutOfRange
from lakekit.expressions.type_casts import to_decimal
from lakekit.expressions.typed_expression import typed_value
from lakekit.format import polars_types
from lakekit.format.polars_types import entries_type, polars_type
from lakekit.types import BINARIES, INTEGERS, MAX_LENGTH, STRINGS, TIMESTAMPS, DataType, Field, part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext

    Ends = NDArray[np.int64]


_MAX_SHOWN_CHARS = 60
_TICKS_PER_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_FIRST_SECOND, _END_SECOND = -62_135_596_800, 253_402_300_800
"""From the year 1 to the year 10000."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorHints:
    """Advice in error messages about rows that do not fit, in the terms of the caller's API.

    `cast` follows "Cast it" and "Round it"; `cut` follows "Cut it with" for a time finer than `{unit}`; `grow` follows
    "Drop it" for a column that the table lacks.
    """

    cast: str = ", or write with cast=True"
    cut: str = ".dt.truncate('1{unit}')"
    grow: str = ", or add it to the table (merge_schema=True, or t.alter)"


_PARSER_OF_ROOT = {
    "DATE": ".str.to_date()",
    "TIME": ".str.to_time()",
    "TIMESTAMP": ".str.to_datetime()",
    "TIMESTAMP_LTZ": ".str.to_datetime(time_zone='UTC')",
    "BOOLEAN": ".eq('true')",
}
"""How texts become values of types to which Polars casts none."""
DEFAULT_HINTS = ErrorHints()
"""Those of `t.append` and `t.upsert`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueLocation:
    """The location of values, for error messages.

    `path` leads to a part of the column; `row_of` maps an index to a row number. Rows are counted from 0 over the whole
    input.
    """

    column: str
    path: str
    table: str
    row_of: Callable[[int], int]
    error_hints: ErrorHints = DEFAULT_HINTS

    def inner(self, name: str, row_of: Callable[[int], int] | None = None) -> ValueLocation:
        """Return the location of a part of these values.

        `row_of` maps an index of the part to an index of these values; None: they are the same.
        """
        own = self.row_of
        return replace(self, path=f"{self.path}.{name}", row_of=own if row_of is None else lambda i: own(row_of(i)))

    def bad_value(self, is_wrong: pl.Series, values: pl.Series, reason: str, advice: str) -> ValueOutOfRange:
        """Return the error about the first value where the mask `is_wrong` is true."""
        index = is_wrong.alias("").arg_true()[0]
        return ValueOutOfRange(
            f"row {self.row_of(index)}: column {self.path} of {self.table} holds {format_value_at(values, index)}, "
            f"{reason}. {advice}",
            column=self.column,
        )

    def bad_null(self, index: int) -> ValueOutOfRange:
        """Return the error about a null in a NOT NULL column."""
        return ValueOutOfRange(
            f"row {self.row_of(index)}: column {self.path} of {self.table} is NOT NULL and the row has no value there "
            "(a "
            "default does not stand in). Give it a value, or leave the row out",
            column=self.column,
        )

    def bad_type(self, dtype: object, expected: DataType, *, castable: bool = True) -> SchemaMismatch:
        """Return the error about values of a type that is not cast implicitly."""
        parse = _PARSER_OF_ROOT.get(expected.root) if dtype == pl.String() else None
        if parse is not None:
            do = f"Parse the text first, in Polars by pl.col({self.column!r}){parse}"
        else:
            do = f"Cast it{self.error_hints.cast}" if castable else "Make it of that type"
        return SchemaMismatch(
            f"column {self.path} of {self.table} is {expected}, the rows have {dtype}. {do}", column=self.column
        )


def format_value_at(values: pl.Series, index: int) -> str:
    """One of some values as messages show it: times that Python has no date for as their count."""
    return format_raw_count(values, index) or format_value(values[index])


def format_raw_count(values: pl.Series, index: int) -> str | None:
    """Return the raw count of a time that Python's datetime cannot hold; None for other values and null."""
    dtype = values.dtype
    if not dtype.is_temporal() or values.to_physical()[index] is None:
        return None
    if isinstance(dtype, (pl.Datetime, pl.Duration)):
        count, since = int(values.to_physical()[index]), " since 1970" if isinstance(dtype, pl.Datetime) else ""
        if since == "" or not _FIRST_SECOND <= count // _TICKS_PER_SECOND[dtype.time_unit] < _END_SECOND:
            return f"{count} {dtype.time_unit}{since}"
    elif isinstance(dtype, pl.Date) and not _FIRST_SECOND <= int(values.to_physical()[index]) * 86_400 < _END_SECOND:
        return f"day {int(values.to_physical()[index])} since 1970"
    return None


def format_value(value: object) -> str:
    """Format a value for error messages."""
    try:
        text = repr(value.to_list() if isinstance(value, pl.Series) else value)  # scalar: one value, of an error
    except (pl.exceptions.PanicException, OverflowError, ValueError):  # times that Python has no date for
        text = "parts that Python cannot show"
    return text if len(text) <= _MAX_SHOWN_CHARS else text[: _MAX_SHOWN_CHARS - 1] + "…"


# ---- widening ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedColumn:
    """A column, or with a longer path a field of a ROW, that the table lacks."""

    path: tuple[str, ...]
    type: DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class WidenedColumn:
    """A column, or a part of one, whose type must grow from `current_type` to `type`.

    `element`, `key` and `value` in a path are parts of ARRAY and MAP.
    """

    path: tuple[str, ...]
    current_type: DataType
    type: DataType


ColumnChange = AddedColumn | WidenedColumn


def schema_changes(
    data_schema: Mapping[str, pl.DataType], ctx: TableContext, *, row_kind: str | None = None
) -> list[ColumnChange]:
    """Return the schema changes (`merge_schema=True`), in the order of the data's columns.

        data {"k": Int64, "v": Int64, "note": String}, table {k BIGINT (key), v INT}
            ->   WidenedColumn(("v",), INT, BIGINT), AddedColumn(("note",), STRING)

    Added columns are nullable and come last. A type grows only to one that holds every value of the old: integers,
    FLOAT to DOUBLE, decimals whose digits on both sides grow, finer timestamps. Texts keep their length (a frame does
    not say how long its texts are). Columns of keys and partitions never change. What cannot grow is left for `batches`
    to convert by value, or to refuse.

    Raises `SchemaMismatch` for an added column whose type Paimon lacks.
    """
    fixed = {*ctx.schema.primary_keys, *ctx.schema.partition_keys}
    fields = {field.name: field for field in ctx.schema.fields}
    changes: list[ColumnChange] = []
    for name, dtype in data_schema.items():
        if name in fields:
            changes += [] if name in fixed else _find_changes((name,), fields[name].type, dtype, ctx)
        elif name != row_kind:
            changes.append(AddedColumn(path=(name,), type=polars_types.paimon_type(dtype, name)))
    return changes


def _find_changes(
    path: tuple[str, ...], current: DataType, dtype: pl.DataType, ctx: TableContext
) -> Iterator[ColumnChange]:
    if current.root == "ROW" and isinstance(dtype, pl.Struct):
        fields = {field.name: field for field in current.fields}
        for field in dtype.fields:
            inner = (*path, field.name)
            if field.name in fields:
                yield from _find_changes(inner, fields[field.name].type, instance(field.dtype), ctx)
            else:
                yield AddedColumn(path=inner, type=polars_types.paimon_type(field.dtype, ".".join(inner)))
    elif current.root == "ARRAY" and isinstance(dtype, (pl.List, pl.Array)):
        yield from _find_changes((*path, "element"), part(current.element), instance(dtype.inner), ctx)
    elif current.root == "MAP" and isinstance(dtype, pl.Map):
        yield from _find_changes((*path, "value"), part(current.value), instance(dtype.value), ctx)
    elif not current.is_nested:
        wide = _widened_type(current, dtype)
        if wide is not None:
            yield WidenedColumn(path=path, current_type=current, type=wide)


def _widened_type(current: DataType, dtype: pl.DataType) -> DataType | None:
    """Return the type that holds the values of both; None if that is `current`, or none does."""
    if dtype.is_nested() or isinstance(dtype, (pl.Null, pl.Object)):
        return None
    own = polars_types.paimon_type(dtype)
    if current.root in INTEGERS and own.root in INTEGERS:
        return replace(current, root=own.root) if INTEGERS.index(own.root) > INTEGERS.index(current.root) else None
    if (current.root, own.root) == ("FLOAT", "DOUBLE"):
        return replace(current, root="DOUBLE")
    if current.root == own.root and current.root in TIMESTAMPS:
        precision = own.precision or 0
        return (
            replace(current, precision=precision)
            if precision > (6 if current.precision is None else current.precision)
            else None
        )
    if current.root == own.root == "DECIMAL":
        scale = max(current.scale or 0, own.scale or 0)
        integer_digits = max((current.precision or 10) - (current.scale or 0), (own.precision or 10) - (own.scale or 0))
        grown = replace(current, precision=integer_digits + scale, scale=scale)
        return grown if grown != current and integer_digits + scale <= 38 else None
    return None


# ---- value casting ------------------------------------------------------------


_MILLI_NS = 1_000_000
_INT64_BOUND = 2**63
_BYTES_TYPE = DataType(root="VARBINARY", length=MAX_LENGTH, nullable=False)
_VARIANT_FIELDS = (Field("value", _BYTES_TYPE), Field("metadata", _BYTES_TYPE))
_COUNT_TYPE = DataType(root="INT", nullable=False)


def fit_to_type(
    values: pl.Series, target: DataType, location: ValueLocation, *, cast: bool = False, null_keys: bool = False
) -> pl.Series:
    """Return the values as `polars_type(target)`. `null_keys`: maps may have a null key (not in Parquet).

    Raises:
        SchemaMismatch: a type that is not cast.
        ValueOutOfRange: a value that does not fit, with its row.
    """
    dtype = polars_type(target)
    if not target.nullable and values.null_count():
        raise location.bad_null(int(values.is_null().alias("").arg_true()[0]))
    if values.dtype == pl.Null():
        return values.cast(dtype)
    if values.dtype == dtype and not looks_inside(target):
        return values
    match target.root:
        case "ARRAY":
            return _fit_list(values, target, location, cast=cast, null_keys=null_keys)
        case "MAP" | "MULTISET":
            return _fit_entries(values, target, location, cast=cast, null_keys=null_keys)
        case "ROW" | "VARIANT":
            return _fit_struct(values, target, location, cast=cast, null_keys=null_keys)
    casted = values if values.dtype == dtype else _fit_leaf(values, target, dtype, location, cast=cast)
    return _check_constraints(casted, target, location, cast=cast)


@lru_cache(maxsize=4096)
def looks_inside(t: DataType) -> bool:
    """Return whether values of the right Polars type may still not fit `t`.

    Nulls at the top are checked elsewhere.
    """
    if t.root in ("MAP", "MULTISET", "DECIMAL", "TIME", "VARIANT"):
        return True
    if t.root in STRINGS or t.root in BINARIES:
        return (t.length or MAX_LENGTH) < MAX_LENGTH
    inner = [*(f.type for f in t.fields), *([] if t.element is None else [t.element])]
    return any(not u.nullable or looks_inside(u) for u in inner)


# ---- values with parts -----------------------------------------------------------------------------------------------


def _fit_list(
    values: pl.Series, target: DataType, location: ValueLocation, *, cast: bool, null_keys: bool
) -> pl.Series:
    if isinstance(values.dtype, pl.Array):
        values = values.cast(pl.List(values.dtype.inner))
    if not isinstance(values.dtype, pl.List):
        raise location.bad_type(values.dtype, target, castable=False)
    ends = _list_ends(values)
    flat = values.explode(empty_as_null=False, keep_nulls=False)
    fitted = fit_to_type(
        flat, part(target.element), location.inner("element", _make_row_locator(ends)), cast=cast, null_keys=null_keys
    )
    return values if fitted is flat else _build_lists(fitted, ends, values)


def _fit_entries(
    values: pl.Series, target: DataType, location: ValueLocation, *, cast: bool, null_keys: bool
) -> pl.Series:
    if isinstance(values.dtype, pl.Map):
        values = values.cast(entries_type(instance(values.dtype.key), instance(values.dtype.value)))
    inner = values.dtype.inner if isinstance(values.dtype, pl.List) else None
    if not isinstance(inner, pl.Struct) or [f.name for f in inner.fields] != ["key", "value"]:
        raise SchemaMismatch(
            f"column {location.path} of {location.table} is {target}, the rows have {values.dtype}. "
            "Make it a List(Struct{key, value}), an Arrow map, or give the rows as dicts",
            column=location.column,
        )
    key, value = (
        (part(target.element), _COUNT_TYPE) if target.root == "MULTISET" else (part(target.key), part(target.value))
    )
    ends = _list_ends(values)
    row_of = _make_row_locator(ends)
    flat = values.explode(empty_as_null=False, keep_nulls=False)
    if flat.null_count():
        raise location.bad_value(flat.is_null(), flat, "an entry without key and value", "Leave the entry out")
    keys = fit_to_type(flat.struct.field("key"), key, location.inner("key", row_of), cast=cast, null_keys=null_keys)
    counts = fit_to_type(
        flat.struct.field("value"), value, location.inner("value", row_of), cast=cast, null_keys=null_keys
    )
    _check_keys(keys, ends, values, location, null_keys=null_keys)
    entries = pl.DataFrame([keys.alias("key"), counts.alias("value")]).to_struct()
    return values if entries.dtype == inner else _build_lists(entries, ends, values)


def _check_keys(keys: pl.Series, ends: Ends, values: pl.Series, location: ValueLocation, *, null_keys: bool) -> None:
    """Check that keys are unique in their map, and not null if the file format has no null keys."""
    if keys.null_count() and not null_keys:
        row = _make_row_locator(ends)(int(keys.is_null().alias("").arg_true()[0]))
        raise ValueOutOfRange(
            f"row {location.row_of(row)}: the map in column {location.path} of {location.table} has a null key, which "
            f"this table's file format cannot hold: {format_value(values[row])}. Drop the entry or name its key",
            column=location.column,
        )
    lengths = np.diff(ends, prepend=0)
    if not len(lengths) or int(lengths.max()) < 2:
        return
    repeated = pl.DataFrame({"map": np.repeat(np.arange(len(lengths)), lengths), "key": keys}).is_duplicated()
    if repeated.any():
        first = int(repeated.alias("").arg_true()[0])
        row = _make_row_locator(ends)(first)
        raise ValueOutOfRange(
            f"row {location.row_of(row)}: the map in column {location.path} of {location.table} has the key "
            f"{format_value(keys[first])} twice: {format_value(values[row])}. Keep one entry a key",
            column=location.column,
        )


def _fit_struct(
    values: pl.Series, target: DataType, location: ValueLocation, *, cast: bool, null_keys: bool
) -> pl.Series:
    if not isinstance(values.dtype, pl.Struct):
        raise location.bad_type(values.dtype, target, castable=False)
    fields = _VARIANT_FIELDS if target.root == "VARIANT" else target.fields
    data_names, field_names = [f.name for f in values.dtype.fields], [f.name for f in fields]
    extra = [name for name in data_names if name not in field_names]
    if extra:
        raise SchemaMismatch(
            (
                f"column {location.path} of {location.table} is {target} and has no field {extra[0]!r}; its fields are "
                f"{', '.join(field_names)}. Drop it, or add it to the table"
            ),
            column=location.column,
        )
    is_present = None if not values.null_count() else values.is_not_null()
    rows = np.arange(len(values)) if is_present is None else np.flatnonzero(is_present.to_numpy())
    present = values if is_present is None else values.filter(is_present)
    fitted = []
    for field in fields:
        field_values = (
            series_field(present, field.name)
            if field.name in data_names
            else pl.Series(field.name, [None], pl.Null()).new_from_index(0, len(present))
        )
        inner = location.inner(field.name, lambda i: int(rows[i]))
        fitted.append(fit_to_type(field_values, field.type, inner, cast=cast, null_keys=null_keys).alias(field.name))
    structs = pl.DataFrame(fitted).to_struct(values.name) if fitted else present
    if is_present is None:
        return structs
    positions = np.full(len(values), -1)
    positions[rows] = np.arange(len(rows))
    spread = (
        structs.gather(pl.Series(positions).replace(-1, None))
        if len(rows)
        else pl.Series([None], dtype=structs.dtype).new_from_index(0, len(values))
    )
    return spread.alias(values.name)


def _list_ends(values: pl.Series) -> Ends:
    """Return where the elements of each list end among all elements; a null list has none."""
    return np.cumsum(values.list.len().fill_null(0).to_numpy().astype(np.int64))


def _make_row_locator(ends: Ends) -> Callable[[int], int]:
    return lambda i: int(np.searchsorted(ends, i, side="right"))


def _build_lists(flat: pl.Series, ends: Ends, template: pl.Series) -> pl.Series:
    """Return lists of the elements `flat` that end at `ends`, null where `template` is."""
    offsets = pa.array(np.append(0, ends), pa.int64())
    mask = template.is_null().to_arrow() if template.null_count() else None
    lists = pl.Series(pa.LargeListArray.from_arrays(offsets, flat.rechunk().to_arrow(), mask=mask))
    return lists.alias(template.name)


# ---- simple values ---------------------------------------------------------------------------------------------------


def _fit_leaf(
    values: pl.Series, target: DataType, dtype: pl.DataType, location: ValueLocation, *, cast: bool
) -> pl.Series:
    """Cast a simple type: the same values, or an error."""
    have = values.dtype
    if have.is_integer() and (target.root in INTEGERS or target.root == "DECIMAL"):
        return _check_cast(values.cast(dtype, strict=False), values, target, location)
    if (
        isinstance(have, pl.Datetime)
        and target.root in TIMESTAMPS
        and (target.root == "TIMESTAMP_LTZ") == (have.time_zone is not None)
    ):
        return _convert_time_unit(values, dtype, location, cast=cast)
    exact = (
        (have.is_numeric() and target.root in ("FLOAT", "DOUBLE") and not have.is_decimal())
        or (have.is_decimal() and (target.root == "DECIMAL" or target.root in INTEGERS))
        or (target.root in STRINGS and isinstance(have, (pl.Enum, pl.Categorical)))
    )
    if cast and not have.is_nested():
        return _cast_strictly(values, target, dtype, location)
    if not exact:
        raise location.bad_type(have, target, castable=not have.is_nested() and _is_castable(values, dtype))
    casted = values.cast(dtype, strict=False)
    _check_cast(casted, values, target, location)
    if target.root in STRINGS:
        return casted
    changed = ~casted.cast(have, strict=False).eq_missing(values)
    if changed.any():
        raise location.bad_value(
            changed, values, f"which {target} cannot hold without changing it", f"Round it{location.error_hints.cast}"
        )
    return casted


def _cast_strictly(values: pl.Series, target: DataType, dtype: pl.DataType, location: ValueLocation) -> pl.Series:
    # naive times are those of UTC, as Polars has it
    if isinstance(values.dtype, pl.Datetime) and isinstance(dtype, pl.Datetime):
        return _convert_time_unit(values, dtype, location, cast=True)
    try:
        if isinstance(dtype, pl.Decimal) and (values.dtype.is_decimal() or values.dtype.is_float()):
            number = typed_value(pl.col(""), values.dtype)  # half up, as CAST of SQL: Polars rounds half to even
            rounded = to_decimal(number, dtype, is_strict=False)
            casted = values.to_frame("").select(rounded.alias("")).to_series().alias(values.name)
        else:
            casted = values.cast(dtype, strict=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise location.bad_type(values.dtype, target, castable=False) from None
    return _check_cast(casted, values, target, location)


def _is_castable(values: pl.Series, dtype: pl.DataType) -> bool:
    """Return whether Polars can cast values of that type; tested on one value, as nulls cast to anything."""
    try:
        values.drop_nulls().head(1).cast(dtype, strict=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return False
    return True


def _check_cast(cast_column: pl.Series, values: pl.Series, target: DataType, location: ValueLocation) -> pl.Series:
    """Return the cast values; raise if a value became null."""
    if cast_column.null_count() != values.null_count():
        raise location.bad_value(
            cast_column.is_null() & values.is_not_null(),
            values,
            f"which is no {target.as_nullable()}",
            "Correct the value, or widen the column",
        )
    return cast_column


def _convert_time_unit(values: pl.Series, dtype: pl.DataType, location: ValueLocation, *, cast: bool) -> pl.Series:
    """Return the same instants, or wall clocks, in another unit."""
    assert isinstance(values.dtype, pl.Datetime)
    assert isinstance(dtype, pl.Datetime)
    ticks = values.to_physical()
    have, want = _TICKS_PER_SECOND[values.dtype.time_unit], _TICKS_PER_SECOND[dtype.time_unit]
    if want > have:
        limit = _INT64_BOUND // (want // have)
        outside = (ticks >= limit) | (ticks < -limit)
        if outside.any():
            raise location.bad_value(
                outside,
                ticks,
                f"a count of {values.dtype.time_unit} since 1970 that {dtype.time_unit} cannot hold",
                "Leave the row out",
            )
        ticks = ticks * (want // have)
    elif want < have:
        finer = ticks % (have // want) != 0
        if not cast and finer.any():
            do = f"Cut it with {location.error_hints.cut.format(unit=dtype.time_unit)}{location.error_hints.cast}"
            raise location.bad_value(finer, values, f"which is finer than the column's {dtype.time_unit}", do)
        ticks = ticks // (have // want)
    return ticks.cast(dtype)


def _check_constraints(values: pl.Series, target: DataType, location: ValueLocation, *, cast: bool) -> pl.Series:
    """Check length, precision and milliseconds of values that have the right Polars type."""
    if target.root == "DECIMAL":
        precision = target.precision or 10
        # bounds of the values, as `to_physical` is a query, which waits for the thread pool
        low, high, most = values.min(), values.max(), Decimal((0, (1,), precision - (target.scale or 0)))
        if isinstance(low, Decimal) and isinstance(high, Decimal) and (high >= most or low.copy_negate() >= most):
            units = values.to_physical()
            bound = pl.Series([10**precision], dtype=pl.Int128)
            wrong = ((units >= bound) | (units <= pl.Series([-(10**precision)], dtype=pl.Int128))).fill_null(
                value=False
            )
            raise location.bad_value(
                wrong, values, f"which has more than {precision} digits", "Correct the value, or widen the column"
            )
    elif target.root == "TIME":
        ticks = values.to_physical()
        finer = ticks % _MILLI_NS != 0
        if finer.any():
            if not cast:
                do = f"Cut it to milliseconds{location.error_hints.cast}"
                raise location.bad_value(finer, values, "which is finer than the milliseconds that TIME has", do)
            return (ticks // _MILLI_NS * _MILLI_NS).cast(pl.Time)
    elif (
        target.length is not None and target.length < MAX_LENGTH and (target.root in STRINGS or target.root in BINARIES)
    ):
        is_text = target.root in STRINGS
        lengths = values.str.len_chars() if is_text else values.bin.size()
        longest = lengths.max()
        if isinstance(longest, int) and longest > target.length:
            reason = (
                f"which has {longest} {'characters' if is_text else 'bytes'} at most, {target.as_nullable()} takes "
                f"{target.length}"
            )
            raise location.bad_value(lengths > target.length, values, reason, "Cut it, or widen the column")
    return values
