"""Casts of old values to a changed column type: Java's casts, by column.

    cast(pl.col("a"), INT, TINYINT, CastTarget(column="a"))        383 -> 127
    cast(pl.col("a"), DOUBLE, STRING, CastTarget(column="a"))      1e10 -> "1.0E10"

Integers wrap, floats saturate, decimals round half up and become null if they do not fit, times lose digits toward
zero, text is cut and padded. Text that is no number, date or time raises `ValueOutOfRange`, as does a result that
Polars cannot hold. A pair of types without a cast is refused by name.

Every pair was recorded from the reference (fixtures/formats/cast).

Source: FORMAT.md 2.5, ENGINE_1.4.2 A.6, `CastExecutors` and its rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from lakekit.columns import col, struct_field
from lakekit.errors import Unsupported, ValueOutOfRange
from lakekit.format import text_casts
from lakekit.format.polars_types import polars_type, unit_of
from lakekit.format.text_casts import format_floats
from lakekit.types import BINARIES, INTEGERS, MAX_LENGTH, STRINGS, TIMESTAMPS, DataType

if TYPE_CHECKING:
    from collections.abc import Callable

_DAY_MS = 86_400_000
_INT64_BOUND = 2**63
_FLOAT_ROOTS = ("FLOAT", "DOUBLE")


@dataclass(frozen=True, slots=True, kw_only=True)
class CastTarget:
    """The column a cast is for.

    Its name for errors, `lakekit.timestamp-unit`, and the zone of casts between TIMESTAMP and LTZ. `convert_error`
    converts an error to the one that is raised, which names the file.
    """

    column: str
    timestamp_unit: str | None = None
    zone: str = "UTC"
    convert_error: Callable[[ValueOutOfRange], ValueOutOfRange] | None = None


def cast(column: pl.Expr, source_type: DataType, result_type: DataType, target: CastTarget) -> pl.Expr:
    """Return `column`, of type `source_type`, as type `result_type`.

    Raises:
        Unsupported: Paimon has no cast between the two types.
    """
    expression = _polars_cast(column, source_type, result_type)
    if expression is None:
        change = _find_cast(source_type, result_type, target)
        if change is None:
            msg = (
                f"column {target.column} was changed from {source_type} to {result_type}, for which Paimon has no cast"
            )
            raise Unsupported(f"{msg}: select other columns, or change the type back", feature="schema.type-change")
        dtype = polars_type(result_type, timestamp_unit=target.timestamp_unit)
        expression = column.map_batches(
            partial(_run_cast, change, dtype, target.convert_error), return_dtype=dtype, is_elementwise=True
        )
    return expression


def _run_cast(
    change: Callable[[pl.Series], pl.Series],
    dtype: pl.DataType,
    convert_error: Callable[[ValueOutOfRange], ValueOutOfRange] | None,
    column: pl.Series,
) -> pl.Series:
    """Return the converted column, under its own name and of the promised type."""
    try:
        converted = change(column)
    except ValueOutOfRange as error:
        if convert_error is None:
            raise
        raise convert_error(error) from error
    return (converted if converted.dtype == dtype else converted.cast(dtype)).alias(column.name)


def _polars_cast(column: pl.Expr, source_type: DataType, result_type: DataType) -> pl.Expr | None:
    """Return the cast by one of Polars' own; None without one."""
    if source_type.root in INTEGERS and result_type.root in INTEGERS:
        return column.cast(polars_type(result_type), wrap_numerical=True)
    if source_type.root in (*INTEGERS, "BOOLEAN", *_FLOAT_ROOTS) and result_type.root in _FLOAT_ROOTS:
        return column.cast(polars_type(result_type), strict=False)
    if source_type.root in INTEGERS and result_type.root == "BOOLEAN":
        return column != 0
    if source_type.root == "BOOLEAN" and result_type.root in INTEGERS:
        return column.cast(polars_type(result_type))
    if source_type.root in STRINGS and result_type.root in STRINGS:
        return fit_text_length(column, result_type)
    return None


def _find_cast(
    source_type: DataType, result_type: DataType, target: CastTarget
) -> Callable[[pl.Series], pl.Series] | None:
    if result_type.root in STRINGS:
        return _to_text(source_type, result_type, target)
    if source_type.root in STRINGS:
        return text_casts.make_parser(
            result_type, column=target.column, timestamp_unit=target.timestamp_unit, zone=target.zone
        )
    if source_type.root in BINARIES and result_type.root in BINARIES:
        return partial(text_casts.fit_bytes_length, result_type=result_type)
    if result_type.root == "DECIMAL":
        return _to_decimal(source_type, result_type, target)
    if source_type.root == "DECIMAL":
        return _from_decimal(source_type, result_type)
    if source_type.root in _FLOAT_ROOTS and result_type.root in INTEGERS:
        return partial(_saturate_floats, dtype=polars_type(result_type))
    return _time_cast(source_type, result_type, target)


# ---- text ------------------------------------------------------------------------------------------------------------


def _to_text(
    source_type: DataType, result_type: DataType, target: CastTarget
) -> Callable[[pl.Series], pl.Series] | None:
    """Return the cast to text; None without one.

    Java prints dates and times only into STRING, and fits neither bytes nor nested values to a length.
    """
    if source_type.root in ("DATE", "TIME", *TIMESTAMPS) and result_type.length != MAX_LENGTH:
        return None
    if source_type.holds(("MULTISET", "VARIANT")):
        return None
    fits = result_type if source_type.root not in (*BINARIES, "ARRAY", "MAP", "ROW") else None
    return partial(_print_column, source_type=source_type, fits=fits, zone=target.zone)


def _print_column(column: pl.Series, *, source_type: DataType, fits: DataType | None, zone: str) -> pl.Series:
    text = to_java_text(col(column.name), source_type, zone)
    return column.to_frame().select(text if fits is None else fit_text_length(text, fits)).to_series()


def to_java_text(column: pl.Expr, t: DataType, zone: str = "UTC") -> pl.Expr:
    """Return values of type `t` as Java's text."""
    match t.root:
        case "CHAR" | "VARCHAR":
            return column
        case "BINARY" | "VARBINARY" | "BLOB":
            return column.map_batches(decode_utf8, return_dtype=pl.String, is_elementwise=True)
        case "FLOAT" | "DOUBLE":
            return column.map_batches(format_floats, return_dtype=pl.String, is_elementwise=True)
        case "DATE":
            return column.dt.strftime("%Y-%m-%d")
        case "TIME":
            return format_time_of_day(column, 0 if t.precision is None else t.precision)
        case "TIMESTAMP":
            return format_wall_clock(column, 6 if t.precision is None else t.precision)
        case "TIMESTAMP_LTZ":
            wall = column.dt.convert_time_zone(zone).dt.replace_time_zone(None)
            return format_wall_clock(wall, 6 if t.precision is None else t.precision)
        case "ARRAY" | "MAP" | "ROW":
            return _print_parts(column, t, zone)
    return column.cast(pl.String)


def _print_parts(column: pl.Expr, t: DataType, zone: str) -> pl.Expr:
    def inner(part: pl.Expr, u: DataType | None) -> pl.Expr:
        assert u is not None
        return to_java_text(part, u, zone).fill_null("null")

    if t.root == "ROW":
        parts = [inner(struct_field(column, f.name), f.type) for f in t.fields]
        text = pl.concat_str(pl.lit("{"), pl.concat_str(parts, separator=", ") if parts else pl.lit(""), pl.lit("}"))
        return pl.when(column.is_not_null()).then(text)
    if t.root == "MAP":
        pair = pl.concat_str(
            inner(pl.element().struct.field("key"), t.key),
            pl.lit(" -> "),
            inner(pl.element().struct.field("value"), t.value),
        )
        return pl.concat_str(pl.lit("{"), column.list.eval(pair).list.join(", "), pl.lit("}"))
    return pl.concat_str(pl.lit("["), column.list.eval(inner(pl.element(), t.element)).list.join(", "), pl.lit("]"))


# ---- numbers ---------------------------------------------------------------------------------------------------------


def _to_decimal(
    source_type: DataType, result_type: DataType, target: CastTarget
) -> Callable[[pl.Series], pl.Series] | None:
    precision, scale = result_type.precision or 10, result_type.scale or 0
    if source_type.root == "DECIMAL":
        return partial(text_casts.rescale_decimals, precision=precision, scale=scale)
    if source_type.root in (*INTEGERS, "BOOLEAN"):
        return lambda column: text_casts.rescale_decimals(
            column.cast(pl.Int64).cast(pl.Decimal(38, 0)), precision=precision, scale=scale
        )
    if source_type.root in _FLOAT_ROOTS:
        return lambda column: text_casts.parse_decimals(
            format_floats(column.cast(pl.Float64)), result_type=result_type, column=target.column
        )
    return None


def _from_decimal(source_type: DataType, result_type: DataType) -> Callable[[pl.Series], pl.Series] | None:
    # through text: the nearest float of the decimal, not of an integer divided by a power of ten
    if result_type.root in _FLOAT_ROOTS:
        return lambda column: column.cast(pl.String).cast(polars_type(result_type))
    if result_type.root in INTEGERS:
        return lambda column: (
            text_casts.truncate_to_integer(column, source_type.scale or 0)
            .cast(pl.Int64, wrap_numerical=True)
            .cast(polars_type(result_type), wrap_numerical=True)
        )
    return None


def _saturate_floats(column: pl.Series, *, dtype: pl.DataType) -> pl.Series:
    """Convert floats as Java does: (int) and (long) saturate; smaller types are cut out of an int."""
    wide, top = (pl.Int64, 2.0**63) if dtype == pl.Int64 else (pl.Int32, 2.0**31)
    last = int(top) - 1
    value = col(column.name).cast(pl.Float64)
    inside = pl.when((value < top) & (value >= -top)).then(value).cast(wide)
    ends = pl.when(value.is_nan()).then(0).when(value >= top).then(last).when(value < -top).then(-last - 1)
    return (
        column.to_frame()
        .select(pl.coalesce(inside, ends.cast(wide)).cast(dtype, wrap_numerical=True).alias(column.name))
        .to_series()
    )


# ---- dates and times -------------------------------------------------------------------------------------------------


def _time_cast(
    source_type: DataType, result_type: DataType, target: CastTarget
) -> Callable[[pl.Series], pl.Series] | None:
    """Return the cast between dates, times and seconds, by way of milliseconds; None without one."""
    pair, name = (source_type.root, result_type.root), target.column
    if source_type.root in TIMESTAMPS and result_type.root in TIMESTAMPS:
        return partial(_cast_timestamp, source_type=source_type, result_type=result_type, target=target)
    if source_type.root in ("INT", "BIGINT") and result_type.root in TIMESTAMPS:
        return lambda column: _from_seconds(column, result_type, target)
    if source_type.root in TIMESTAMPS and result_type.root in ("INT", "BIGINT"):
        return lambda column: _divide_toward_zero(_to_millis(column), 1000).cast(
            polars_type(result_type), wrap_numerical=True
        )
    if source_type.root == "TIME" and result_type.root in TIMESTAMPS:
        return lambda column: timestamps_from_millis(
            column.to_physical() // 1_000_000, _datetime_dtype(result_type, target), name
        )
    if source_type.root == "DATE" and result_type.root in TIMESTAMPS:
        return lambda column: _from_wall_clock(
            timestamps_from_millis(
                column.to_physical().cast(pl.Int64) * _DAY_MS, _wall_dtype(result_type, target), name
            ),
            result_type,
            target,
        )
    match pair:
        case "TIMESTAMP", "DATE":
            return lambda column: _divide_toward_zero(_to_millis(column), _DAY_MS).cast(pl.Int32).cast(pl.Date)
        case "TIMESTAMP_LTZ", "DATE":
            return lambda column: to_wall_clock(column, target.zone).dt.date()
        case "TIMESTAMP", "TIME":
            return lambda column: text_casts.times_from_millis(_remainder(_to_millis(column), _DAY_MS), name)
        case "TIMESTAMP_LTZ", "TIME":
            return lambda column: text_casts.times_from_millis(
                _to_millis(to_wall_clock(column, target.zone)) % _DAY_MS, name
            )
    return None


def _to_millis(column: pl.Series) -> pl.Series:
    return column.dt.epoch("ms") if column.dtype != pl.Datetime("ms") else column.to_physical()


def _divide_toward_zero(values: pl.Series, divisor: int) -> pl.Series:
    return values.abs() // divisor * values.sign()


def _remainder(values: pl.Series, divisor: int) -> pl.Series:
    return values.abs() % divisor * values.sign()


def _from_seconds(column: pl.Series, result_type: DataType, target: CastTarget) -> pl.Series:
    """Return timestamps of seconds since 1970; Java's LTZ is the wall clock of its zone, taken for UTC."""
    instants = timestamps_from_millis(column.cast(pl.Int64) * 1000, _datetime_dtype(result_type, target), target.column)
    return (
        to_wall_clock(instants, target.zone).dt.replace_time_zone("UTC")
        if result_type.root == "TIMESTAMP_LTZ"
        else instants
    )


def _datetime_dtype(result_type: DataType, target: CastTarget) -> pl.Datetime:
    return pl.Datetime(
        unit_of(result_type, target.timestamp_unit), "UTC" if result_type.root == "TIMESTAMP_LTZ" else None
    )


def _wall_dtype(result_type: DataType, target: CastTarget) -> pl.Datetime:
    return pl.Datetime(unit_of(result_type, target.timestamp_unit))


def _from_wall_clock(wall: pl.Series, result_type: DataType, target: CastTarget) -> pl.Series:
    """Return a wall clock as `result_type`: an instant is what that clock shows in the zone."""
    return text_casts.to_instant(wall, target.zone) if result_type.root == "TIMESTAMP_LTZ" else wall


def _cast_timestamp(
    column: pl.Series, *, source_type: DataType, result_type: DataType, target: CastTarget
) -> pl.Series:
    """Change precision and kind of timestamps.

    Digits are cut off toward zero down to milliseconds, toward the past below.
    """
    if source_type.root != result_type.root:
        column = (
            to_wall_clock(column, target.zone)
            if source_type.root == "TIMESTAMP_LTZ"
            else text_casts.to_instant(column, target.zone)
        )
    digits = 6 if result_type.precision is None else result_type.precision
    dtype = _datetime_dtype(result_type, target)
    if digits < (6 if source_type.precision is None else source_type.precision):
        if digits <= 3:
            step = 10 ** (3 - digits)
            return timestamps_from_millis(_divide_toward_zero(_to_millis(column), step) * step, dtype, target.column)
        unit = column.dtype.time_unit or "us"  # type: ignore[attr-defined]
        ticks = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[unit]
        step = max(1, ticks // 10**digits)
        column = (column.to_physical() // step * step).cast(column.dtype)
    return convert_time_unit(column, dtype, target.column)


# ---- lengths, and times as text ------------------------------------------------------------


def fit_text_length(text: pl.Expr, result_type: DataType) -> pl.Expr:
    """Cut text to the length of a CHAR or VARCHAR, counted in code points; pad CHAR with blanks."""
    if result_type.length is None or result_type.length == MAX_LENGTH:
        return text
    cut = text.str.slice(0, result_type.length)
    return cut.str.pad_end(result_type.length, " ") if result_type.root == "CHAR" else cut


_UTF8_CHARACTERS = (
    r"[0-7].",
    r"(?:c[2-9a-f]|d.)[89ab].",
    r"(?:e0[ab]|e[1-9a-cef][89ab]|ed[89]).[89ab].",
    r"(?:f0[9ab]|f[123][89ab]|f48).[89ab].[89ab].",
)
_UTF8_HEX_PATTERN = f"^(?:{'|'.join(_UTF8_CHARACTERS)})*$"
"""A pattern of the hexadecimal digits of valid UTF-8."""


def decode_utf8(values: pl.Series) -> pl.Series:
    """Decode bytes as UTF-8; invalid ones become U+FFFD."""
    is_text = values.bin.encode("hex").str.contains(_UTF8_HEX_PATTERN).fill_null(value=True)
    decoded = values.zip_with(is_text, pl.Series([b""])).cast(pl.String)
    if is_text.all():
        return decoded
    # no vectorized decoder replaces, so that only what is no text goes one by one
    broken = values.filter(~is_text).to_list()  # scalar: broken text alone
    replaced = [value.decode("utf-8", "replace") for value in broken]
    return decoded.scatter((~is_text).alias("").arg_true(), replaced)


def format_time_of_day(column: pl.Expr, precision: int) -> pl.Expr:
    """Print HH:MM:SS and, beyond precision 0, as many digits of the milliseconds as needed, one at least.

    Where a value has more digits than its type, all of the type's are printed, zeros too: Java stops at the last
    significant digit.
    """
    millis = column.to_physical() // 1_000_000 % 1000
    base = column.dt.strftime("%H:%M:%S")
    if precision == 0:
        return base
    needed = millis.cast(pl.String).str.zfill(3).str.strip_chars_end("0")
    digits = needed.str.slice(0, precision)
    return pl.concat_str(base, pl.lit("."), pl.when(needed == "").then(pl.lit("0")).otherwise(digits))


def format_wall_clock(column: pl.Expr, precision: int) -> pl.Expr:
    """Print yyyy-MM-dd HH:mm:ss and exactly `precision` digits."""
    base = column.dt.strftime("%Y-%m-%d %H:%M:%S")
    if precision == 0:
        return base
    nanos = column.dt.nanosecond().cast(pl.Int64).cast(pl.String).str.zfill(9)
    return pl.concat_str(base, pl.lit("."), nanos.str.slice(0, precision))


def to_wall_clock(instants: pl.Series, zone: str) -> pl.Series:
    """Return the times that clocks in `zone` show at some instants."""
    if zone != "UTC":
        text_casts.check_calendar(instants)
    return instants.dt.convert_time_zone(zone).dt.replace_time_zone(None)


def timestamps_from_millis(millis: pl.Series, dtype: pl.Datetime, column: str) -> pl.Series:
    """Return milliseconds since 1970 as timestamps of `dtype`.

    Raises `ValueOutOfRange` if they do not fit.
    """
    return convert_time_unit(millis.cast(pl.Datetime("ms")), pl.Datetime(dtype.time_unit), column).dt.replace_time_zone(
        dtype.time_zone
    )


def convert_time_unit(values: pl.Series, dtype: pl.Datetime, column: str) -> pl.Series:
    """Return the same times in another unit. Raises `ValueOutOfRange` if a finer one cannot hold them."""
    assert isinstance(values.dtype, pl.Datetime)
    old_ticks, new_ticks = (
        text_casts.TICKS_PER_SECOND[values.dtype.time_unit],
        text_casts.TICKS_PER_SECOND[dtype.time_unit],
    )
    if new_ticks > old_ticks:
        ticks, limit = values.to_physical(), _INT64_BOUND // (new_ticks // old_ticks)
        text_casts.refuse_outside((ticks > limit - 1) | (ticks < -limit), dtype, column)
    return values.dt.cast_time_unit(dtype.time_unit)
