"""Values onto a type: cast where none changes, refused where one would.

    UInt8, Int64, Int128 → TINYINT … BIGINT, DECIMAL, FLOAT     by value: 127 is a TINYINT, 128 is refused
    Float64 → FLOAT · Decimal → another scale, an integer       by value: 1.50 is a DECIMAL(3, 1), 1.55 is refused
    Enum, Categorical → STRING · zones → LTZ · units            the same text, the same instant; 0.5 µs is refused by TIMESTAMP(6)
    Struct → ROW by name · Map → MAP · Array → ARRAY            part by part
    everything else                                             refused by type, or with `cast` as Polars' strict cast does it

NOT NULL, lengths, precision and the keys of maps are held too, at any depth. Sources: API.md "Types", ENGINE.md 1.1.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from lakekit.columns import series_field
from lakekit.errors import SchemaMismatch, ValueOutOfRange
from lakekit.format.polars_types import entries_type, polars_type
from lakekit.types import BINARIES, INTEGERS, MAX_LENGTH, STRINGS, TIMESTAMPS, DataType, Field, part
from lakekit.write.spot import ValueLocation, format_value
from lakekit.write.widening import instance

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Ends = NDArray[np.int64]

_TICKS = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_MILLI_NS = 1_000_000
_I64 = 2**63
_BYTES = DataType(root="VARBINARY", length=MAX_LENGTH, nullable=False)
_VARIANT = (Field("value", _BYTES), Field("metadata", _BYTES))
_COUNT = DataType(root="INT", nullable=False)


def fit(values: pl.Series, want: DataType, spot: ValueLocation, *, cast: bool = False, null_keys: bool = False) -> pl.Series:
    """The values as `format.polars_types.polars_type(want)`. `null_keys`: a map may have a null key (Parquet cannot write one).

    Raises `SchemaMismatch` for a type and `ValueOutOfRange` for a value that does not fit, with its row.
    """
    dtype = polars_type(want)
    if not want.nullable and values.null_count():
        raise spot.bad_null(int(values.is_null().alias("").arg_true()[0]))
    if values.dtype == pl.Null():
        return values.cast(dtype)
    if values.dtype == dtype and not looks_inside(want):
        return values
    match want.root:
        case "ARRAY":
            return _list(values, want, spot, cast=cast, null_keys=null_keys)
        case "MAP" | "MULTISET":
            return _entries(values, want, spot, cast=cast, null_keys=null_keys)
        case "ROW" | "VARIANT":
            return _struct(values, want, spot, cast=cast, null_keys=null_keys)
    made = values if values.dtype == dtype else _leaf(values, want, dtype, spot, cast=cast)
    return _check_constraints(made, want, spot, cast=cast)


@lru_cache(maxsize=4096)
def looks_inside(t: DataType) -> bool:
    """Whether values of the right Polars type may still be none of type `t`; nulls at the top are looked for elsewhere."""
    if t.root in ("MAP", "MULTISET", "DECIMAL", "TIME", "VARIANT"):
        return True
    if t.root in STRINGS or t.root in BINARIES:
        return (t.length or MAX_LENGTH) < MAX_LENGTH
    inner = [*(f.type for f in t.fields), *([] if t.element is None else [t.element])]
    return any(not u.nullable or looks_inside(u) for u in inner)


# ---- values with parts -----------------------------------------------------------------------------------------------------------------------


def _list(values: pl.Series, want: DataType, spot: ValueLocation, *, cast: bool, null_keys: bool) -> pl.Series:
    if isinstance(values.dtype, pl.Array):
        values = values.cast(pl.List(values.dtype.inner))
    if not isinstance(values.dtype, pl.List):
        raise spot.bad_type(values.dtype, want, castable=False)
    ends = _ends(values)
    flat = values.explode(empty_as_null=False, keep_nulls=False)
    fitted = fit(flat, part(want.element), spot.inner("element", _make_row_locator(ends)), cast=cast, null_keys=null_keys)
    return values if fitted is flat else _lists(fitted, ends, values)


def _entries(values: pl.Series, want: DataType, spot: ValueLocation, *, cast: bool, null_keys: bool) -> pl.Series:
    if isinstance(values.dtype, pl.Map):
        values = values.cast(entries_type(instance(values.dtype.key), instance(values.dtype.value)))
    inner = values.dtype.inner if isinstance(values.dtype, pl.List) else None
    if not isinstance(inner, pl.Struct) or [f.name for f in inner.fields] != ["key", "value"]:
        raise SchemaMismatch(
            f"column {spot.path} of {spot.table} is {want}, the rows have {values.dtype}. "
            "Make it a List(Struct{key, value}), an Arrow map, or give the rows as dicts",
            column=spot.column,
        )
    key, value = (part(want.element), _COUNT) if want.root == "MULTISET" else (part(want.key), part(want.value))
    ends = _ends(values)
    place = _make_row_locator(ends)
    flat = values.explode(empty_as_null=False, keep_nulls=False)
    if flat.null_count():
        raise spot.bad_value(flat.is_null(), flat, "an entry without key and value", "Leave the entry out")
    keys = fit(flat.struct.field("key"), key, spot.inner("key", place), cast=cast, null_keys=null_keys)
    counts = fit(flat.struct.field("value"), value, spot.inner("value", place), cast=cast, null_keys=null_keys)
    _check_keys(keys, ends, values, spot, null_keys=null_keys)
    entries = pl.DataFrame([keys.alias("key"), counts.alias("value")]).to_struct()
    return values if entries.dtype == inner else _lists(entries, ends, values)


def _check_keys(keys: pl.Series, ends: Ends, values: pl.Series, spot: ValueLocation, *, null_keys: bool) -> None:
    """A key stands once in its map, and is null nowhere that the file format has no null keys."""
    if keys.null_count() and not null_keys:
        at = _make_row_locator(ends)(int(keys.is_null().alias("").arg_true()[0]))
        raise ValueOutOfRange(
            f"row {spot.row_of(at)}: the map in column {spot.path} of {spot.table} has a null key, which this table's file format cannot hold: "
            f"{format_value(values[at])}. Drop the entry or name its key",
            column=spot.column,
        )
    lengths = np.diff(ends, prepend=0)
    if not len(lengths) or int(lengths.max()) < 2:
        return
    again = pl.DataFrame({"map": np.repeat(np.arange(len(lengths)), lengths), "key": keys}).is_duplicated()
    if again.any():
        first = int(again.alias("").arg_true()[0])
        at = _make_row_locator(ends)(first)
        raise ValueOutOfRange(
            f"row {spot.row_of(at)}: the map in column {spot.path} of {spot.table} has the key {format_value(keys[first])} twice: {format_value(values[at])}. "
            "Keep one entry a key",
            column=spot.column,
        )


def _struct(values: pl.Series, want: DataType, spot: ValueLocation, *, cast: bool, null_keys: bool) -> pl.Series:
    if not isinstance(values.dtype, pl.Struct):
        raise spot.bad_type(values.dtype, want, castable=False)
    fields = _VARIANT if want.root == "VARIANT" else want.fields
    have, wanted = [f.name for f in values.dtype.fields], [f.name for f in fields]
    extra = [name for name in have if name not in wanted]
    if extra:
        raise SchemaMismatch(
            f"column {spot.path} of {spot.table} is {want} and has no field {extra[0]!r}; its fields are {', '.join(wanted)}. Drop it, or add it to the table",
            column=spot.column,
        )
    there = None if not values.null_count() else values.is_not_null()
    rows = np.arange(len(values)) if there is None else np.flatnonzero(there.to_numpy())
    present = values if there is None else values.filter(there)
    fitted = []
    for field in fields:
        given = series_field(present, field.name) if field.name in have else pl.Series(field.name, [None], pl.Null()).new_from_index(0, len(present))
        inner = spot.inner(field.name, lambda i: int(rows[i]))
        fitted.append(fit(given, field.type, inner, cast=cast, null_keys=null_keys).alias(field.name))
    made = pl.DataFrame(fitted).to_struct(values.name) if fitted else present
    if there is None:
        return made
    at = np.full(len(values), -1)
    at[rows] = np.arange(len(rows))
    spread = made.gather(pl.Series(at).replace(-1, None)) if len(rows) else pl.Series([None], dtype=made.dtype).new_from_index(0, len(values))
    return spread.alias(values.name)


def _ends(values: pl.Series) -> Ends:
    """Where the parts of each list end among the parts of all; a null has none."""
    return np.cumsum(values.list.len().fill_null(0).to_numpy().astype(np.int64))


def _make_row_locator(ends: Ends) -> Callable[[int], int]:
    return lambda i: int(np.searchsorted(ends, i, side="right"))


def _lists(flat: pl.Series, ends: Ends, like: pl.Series) -> pl.Series:
    """Lists of the parts `flat` that end at `ends`, null where `like` is."""
    offsets = pa.array(np.append(0, ends), pa.int64())
    mask = like.is_null().to_arrow() if like.null_count() else None
    made = pl.Series(pa.LargeListArray.from_arrays(offsets, flat.rechunk().to_arrow(), mask=mask))
    return made.alias(like.name)


# ---- simple values ---------------------------------------------------------------------------------------------------------------------------


def _leaf(values: pl.Series, want: DataType, dtype: pl.DataType, spot: ValueLocation, *, cast: bool) -> pl.Series:
    """Another Polars type: the same values, or an error."""
    have = values.dtype
    if have.is_integer() and (want.root in INTEGERS or want.root == "DECIMAL"):
        return _check_cast(values.cast(dtype, strict=False), values, want, spot)
    if isinstance(have, pl.Datetime) and want.root in TIMESTAMPS and (want.root == "TIMESTAMP_LTZ") == (have.time_zone is not None):
        return _convert_time_unit(values, dtype, spot, cast=cast)
    exact = (
        (have.is_numeric() and want.root in ("FLOAT", "DOUBLE") and not have.is_decimal())
        or (have.is_decimal() and (want.root == "DECIMAL" or want.root in INTEGERS))
        or (want.root in STRINGS and isinstance(have, (pl.Enum, pl.Categorical)))
    )
    if cast and not have.is_nested():
        return _cast_strictly(values, want, dtype, spot)
    if not exact:
        raise spot.bad_type(have, want, castable=not have.is_nested() and _is_castable(values, dtype))
    made = values.cast(dtype, strict=False)
    _check_cast(made, values, want, spot)
    if want.root in STRINGS:
        return made
    changed = ~made.cast(have, strict=False).eq_missing(values)
    if changed.any():
        raise spot.bad_value(changed, values, f"which {want} cannot hold without changing it", f"Round it{spot.remedies.cast}")
    return made


def _cast_strictly(values: pl.Series, want: DataType, dtype: pl.DataType, spot: ValueLocation) -> pl.Series:
    """What Polars' strict cast makes of the values."""
    if isinstance(values.dtype, pl.Datetime) and isinstance(dtype, pl.Datetime):  # naive times are those of UTC, as Polars has it
        return _convert_time_unit(values, dtype, spot, cast=True)
    try:
        made = values.cast(dtype, strict=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise spot.bad_type(values.dtype, want, castable=False) from None
    return _check_cast(made, values, want, spot)


def _is_castable(values: pl.Series, dtype: pl.DataType) -> bool:
    """Return whether Polars casts values of that type at all; it says so of a value, and casts nulls to anything."""
    try:
        values.drop_nulls().head(1).cast(dtype, strict=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return False
    return True


def _check_cast(made: pl.Series, values: pl.Series, want: DataType, spot: ValueLocation) -> pl.Series:
    """What a cast made, unless it made null of a value."""
    if made.null_count() != values.null_count():
        raise spot.bad_value(made.is_null() & values.is_not_null(), values, f"which is no {want.as_nullable()}", "Correct the value, or widen the column")
    return made


def _convert_time_unit(values: pl.Series, dtype: pl.DataType, spot: ValueLocation, *, cast: bool) -> pl.Series:
    """The same instants, or wall clocks, in another unit."""
    assert isinstance(values.dtype, pl.Datetime)
    assert isinstance(dtype, pl.Datetime)
    ticks = values.to_physical()
    have, want = _TICKS[values.dtype.time_unit], _TICKS[dtype.time_unit]
    if want > have:
        limit = _I64 // (want // have)
        outside = (ticks >= limit) | (ticks < -limit)
        if outside.any():
            raise spot.bad_value(outside, ticks, f"a count of {values.dtype.time_unit} since 1970 that {dtype.time_unit} cannot hold", "Leave the row out")
        ticks = ticks * (want // have)
    elif want < have:
        finer = ticks % (have // want) != 0
        if not cast and finer.any():
            do = f"Cut it with {spot.remedies.cut.format(unit=dtype.time_unit)}{spot.remedies.cast}"
            raise spot.bad_value(finer, values, f"which is finer than the column's {dtype.time_unit}", do)
        ticks = ticks // (have // want)
    return ticks.cast(dtype)


def _check_constraints(values: pl.Series, want: DataType, spot: ValueLocation, *, cast: bool) -> pl.Series:
    """Values of the right Polars type, held to what the type says besides: length, precision, milliseconds."""
    if want.root == "DECIMAL":
        precision = want.precision or 10
        # of the values themselves: `to_physical` is a query, which waits for the threads of others
        low, high, most = values.min(), values.max(), Decimal((0, (1,), precision - (want.scale or 0)))
        if isinstance(low, Decimal) and isinstance(high, Decimal) and (high >= most or low.copy_negate() >= most):
            units = values.to_physical()
            bound = pl.Series([10**precision], dtype=pl.Int128)
            wrong = ((units >= bound) | (units <= pl.Series([-(10**precision)], dtype=pl.Int128))).fill_null(value=False)
            raise spot.bad_value(wrong, values, f"which has more than {precision} digits", "Correct the value, or widen the column")
    elif want.root == "TIME":
        ticks = values.to_physical()
        finer = ticks % _MILLI_NS != 0
        if finer.any():
            if not cast:
                do = f"Cut it to milliseconds{spot.remedies.cast}"
                raise spot.bad_value(finer, values, "which is finer than the milliseconds that TIME has", do)
            return (ticks // _MILLI_NS * _MILLI_NS).cast(pl.Time)
    elif want.length is not None and want.length < MAX_LENGTH and (want.root in STRINGS or want.root in BINARIES):
        is_text = want.root in STRINGS
        lengths = values.str.len_chars() if is_text else values.bin.size()
        longest = lengths.max()
        if isinstance(longest, int) and longest > want.length:
            does = f"which has {longest} {'characters' if is_text else 'bytes'} at most, {want.as_nullable()} takes {want.length}"
            raise spot.bad_value(lengths > want.length, values, does, "Cut it, or widen the column")
    return values
