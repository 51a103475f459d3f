"""Functions of dates, times of day and timestamps; intervals; a timestamp with a zone is a clock in the session's.

DATE + 3                      DATE                 DATE - DATE                 BIGINT, days
DATE + INTERVAL 1 MONTH       TIMESTAMP            TIMESTAMP - TIMESTAMP       INTERVAL
date_diff('month', a, b)      borders crossed      date_sub('day', a, b)       whole days between
extract(dow FROM d)           Sunday is 0          extract(isodow FROM d)      Monday is 1, Sunday 7
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import polars as pl
from sqlglot import exp

from lakekit.expressions.numeric_promotion import cast_to_bigint, repeat_float_constant
from lakekit.expressions.time_literals import DAY_NS, NS_OF_UNIT, as_timestamp, moment_literal, round_time, utc_to_local
from lakekit.expressions.typed_expression import (
    TranslationRefusal,
    TypedExpression,
    mismatch,
    null_literal,
    typed_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Node = Any
    """A node of sqlglot's tree."""
    Translation = Any
    """A `lakekit.expressions.translation.Translation`, whose module imports this one."""

_MICROS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 7 * 86_400_000_000,
}
_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200, "millennium": 12000}
_PART_NAMES = {
    **{f"{name}s": name for name in (*_MICROS, *_MONTHS)},
    "y": "year",
    "yr": "year",
    "mon": "month",
    "mons": "month",
    "d": "day",
    "h": "hour",
    "hr": "hour",
    "m": "minute",
    "min": "minute",
    "mins": "minute",
    "s": "second",
    "sec": "second",
    "secs": "second",
    "w": "week",
    "us": "microsecond",
    "ms": "millisecond",
    "msec": "millisecond",
    "usec": "microsecond",
    "centuries": "century",
    "dd": "day",
    "dayofweek": "dow",
    "weekday": "dow",
    "dayofyear": "doy",
    "weekofyear": "week",
    "dayofmonth": "day",
    "millennia": "millennium",
    "milliseconds": "millisecond",
}
_EVERY = {
    "microsecond": "1us",
    "millisecond": "1ms",
    "second": "1s",
    "minute": "1m",
    "hour": "1h",
    "day": "1d",
    "week": "1w",
    "month": "1mo",
    "quarter": "1q",
    "year": "1y",
}
_FORMAT_LETTERS = frozenset("YmdHMSyjB%")
_PARSED_LETTERS = frozenset("YmdHMS%")
_MAX_INTERVAL = 10_000 * 12


def _date_parts() -> Mapping[str, Callable[[pl.Expr], pl.Expr]]:
    return {
        "year": lambda d: d.dt.year(),
        "quarter": lambda d: d.dt.quarter(),
        "month": lambda d: d.dt.month(),
        "week": lambda d: d.dt.week(),
        "isoyear": lambda d: d.dt.iso_year(),
        "day": lambda d: d.dt.day(),
        "doy": lambda d: d.dt.ordinal_day(),
        "dow": lambda d: d.dt.weekday() % 7,
        "isodow": lambda d: d.dt.weekday(),
        "decade": lambda d: d.dt.year() // 10,
        "century": lambda d: (d.dt.year() - 1) // 100 + 1,
        "millennium": lambda d: (d.dt.year() - 1) // 1000 + 1,
        "yearweek": lambda d: _year_and_week(d.dt.iso_year().cast(pl.Int64()), d.dt.week().cast(pl.Int64())),
    }


def _year_and_week(year: pl.Expr, week: pl.Expr) -> pl.Expr:
    return year * 100 + pl.when(year > 0).then(week).otherwise(-week)


def _clock_parts() -> Mapping[str, Callable[[pl.Expr], pl.Expr]]:
    return {
        "hour": lambda t: t.dt.hour(),
        "minute": lambda t: t.dt.minute(),
        "second": lambda t: t.dt.second(),
        "millisecond": lambda t: t.dt.second().cast(pl.Int64()) * 1_000 + t.dt.millisecond(),
        "microsecond": lambda t: t.dt.second().cast(pl.Int64()) * 1_000_000 + t.dt.microsecond(),
    }


@dataclass(frozen=True, slots=True)
class IntervalLiteral:
    """A time span as SQL writes it: months, days and microseconds are added one after the other."""

    months: int = 0
    days: int = 0
    micros: int = 0

    @property
    def negated(self) -> IntervalLiteral:
        """The same span back."""
        return IntervalLiteral(-self.months, -self.days, -self.micros)

    def __add__(self, other: IntervalLiteral) -> IntervalLiteral:
        """Return the two spans, one after the other."""
        return IntervalLiteral(self.months + other.months, self.days + other.days, self.micros + other.micros)


def interval_literal(amount: str, unit: str) -> TypedExpression:
    """Return the literal of a count of units, as in INTERVAL '5' DAY.

    Raises: `TranslationRefusal` for another unit, and a count that is no whole number.
    """
    name = part_name(unit)
    try:
        count = int(amount.strip())
    except ValueError:
        raise mismatch(f"INTERVAL counts whole units, as INTERVAL '5' DAY; {amount[:40]!r} is no number") from None
    if name in _MONTHS:
        span = IntervalLiteral(months=count * _MONTHS[name])
    elif name in ("day", "week"):
        span = IntervalLiteral(days=count * (7 if name == "week" else 1))
    elif name in _MICROS:
        span = IntervalLiteral(micros=count * _MICROS[name])
    else:
        raise mismatch(f"{unit} is no unit of an INTERVAL")
    return _span_literal(span, f"INTERVAL of {amount[:40]} {unit}")


def _span_literal(span: IntervalLiteral, what: str) -> TypedExpression:
    if abs(span.months) > _MAX_INTERVAL or abs(span.days) > _MAX_INTERVAL * 31 or abs(span.micros) >= 1 << 62:
        raise mismatch(f"{what} is longer than ten thousand years")
    if span.months:  # a span of months has no length of its own, and is compared with nothing
        return TypedExpression(pl.lit(None, pl.Duration("ns")), pl.Duration("ns"), span, is_constant=True)
    length = timedelta(days=span.days, microseconds=span.micros)
    return TypedExpression(pl.lit(length, pl.Duration("us")), pl.Duration("us"), span, is_constant=True)


def part_name(text: str) -> str:
    """Return the name of a part of a date, as `day` for `DAYS`."""
    name = text.strip().lower()
    return _PART_NAMES.get(name, name)


def literal_part(value: TypedExpression) -> str:
    """Return the part that a text literal names. Raises `TranslationRefusal` for another value."""
    if not isinstance(value.literal, str):
        raise mismatch("the part of a date is a literal text, as 'day'")
    return part_name(value.literal)


def clock(value: TypedExpression, zone: str) -> pl.Expr:
    """Return a DATE or TIMESTAMP as a timestamp without a zone, which a clock in the session's zone shows.

    Raises: `TranslationRefusal` for another type.
    """
    if not value.is_moment:
        raise mismatch(f"a DATE or TIMESTAMP is wanted, and {value.description}")
    unit = value.dtype.time_unit if isinstance(value.dtype, pl.Datetime) else "us"
    return as_timestamp(value, pl.Datetime(unit), zone).expr


def _micros_clock(value: TypedExpression, zone: str) -> pl.Expr:
    """Return the clock of a moment rounded to microseconds, which differences of times count."""
    return clock(round_time(value, NS_OF_UNIT["us"]), zone).cast(pl.Datetime("us"))


# ---- sums ----


def add_time(sign: str, left: TypedExpression, right: TypedExpression, zone: str) -> TypedExpression | None:
    """Return a sum or difference with a time or an interval in it; None where there is none in it.

    Raises: `TranslationRefusal` for what has no sum.
    """
    if (sign == "+" and isinstance(left.literal, IntervalLiteral)) or (left.is_integer and right.is_moment):
        left, right = (right, left) if sign == "+" else (left, right)
    if isinstance(right.literal, IntervalLiteral):
        if left.is_null:
            return None
        span = right.literal if sign == "+" else right.literal.negated
        if isinstance(left.literal, IntervalLiteral):
            return _span_literal(left.literal + span, "a sum of INTERVALs")
        return _add_interval(left, span, zone)
    if not (left.is_moment or right.is_moment or isinstance(left.dtype, pl.Time) or isinstance(right.dtype, pl.Time)):
        return None
    if isinstance(left.dtype, pl.Date) and right.is_integer and sign in ("+", "-"):
        days = cast_to_bigint(right).expr.cast(pl.Int64())
        first = left.expr.to_physical().cast(pl.Int64())
        total = first + days if sign == "+" else first - days
        return typed_value(total.cast(pl.Int32()).cast(pl.Date()), pl.Date(), left, right)
    if sign == "-" and left.is_moment and right.is_moment:
        if isinstance(left.dtype, pl.Date) and isinstance(right.dtype, pl.Date):
            days = left.expr.to_physical().cast(pl.Int64()) - right.expr.to_physical().cast(pl.Int64())
            return typed_value(days, pl.Int64(), left, right)
        length = (_micros_clock(left, zone) - _micros_clock(right, zone)).cast(pl.Duration("us"))
        return typed_value(length, pl.Duration("us"), left, right)
    if sign == "+" and {type(left.dtype), type(right.dtype)} == {pl.Date, pl.Time}:
        day, time = (left, right) if isinstance(left.dtype, pl.Date) else (right, left)
        micros = pl.Duration("us")
        moment = day.expr.cast(pl.Datetime("us")) + (time.expr.to_physical() // 1_000).cast(micros)
        return typed_value(moment, pl.Datetime("us"), left, right)
    raise mismatch(f"{left.description}, and {right.description}: {sign} takes a time and an INTERVAL, or two times")


def _add_interval(value: TypedExpression, span: IntervalLiteral, zone: str) -> TypedExpression:
    if isinstance(value.dtype, pl.Time):
        total = (value.expr.to_physical() + span.micros * 1_000) % DAY_NS
        return typed_value(total.cast(pl.Time()), pl.Time(), value)
    if isinstance(value.dtype, pl.Duration) and not span.months:
        length = pl.lit(timedelta(days=span.days, microseconds=span.micros), pl.Duration("us"))
        return typed_value(value.expr + length, pl.Duration("us"), value)
    if not value.is_moment:
        raise mismatch(f"an INTERVAL is added to a DATE, TIME or TIMESTAMP, and {value.description}")
    is_zoned = getattr(value.dtype, "time_zone", None) is not None
    dtype = pl.Datetime("us") if isinstance(value.dtype, pl.Date) else value.dtype
    assert isinstance(dtype, pl.Datetime)
    if dtype.time_unit == "ms" and span.micros % 1_000:
        dtype = pl.Datetime("us", dtype.time_zone)
    expr = value.expr.cast(dtype)
    if is_zoned and zone != "UTC":
        expr = expr.dt.convert_time_zone(zone)
    if span.months:
        expr = expr.dt.offset_by(f"{span.months}mo")
    if span.days:
        expr = expr.dt.offset_by(f"{span.days}d")
    if span.micros:
        expr = expr + pl.lit(timedelta(microseconds=span.micros), pl.Duration("us"))
    if is_zoned and zone != "UTC":
        expr = expr.dt.convert_time_zone("UTC")
    return typed_value(expr.cast(dtype), dtype, value)


# ---- parts ----


def extract(name: str, value: TypedExpression, zone: str) -> TypedExpression:
    """Return a part of a date or a time as a whole number; the epoch as DOUBLE.

    Raises: `TranslationRefusal` for a part that the type has not.
    """
    clock_parts = _clock_parts()
    if isinstance(value.dtype, pl.Time):
        if name not in clock_parts:
            raise mismatch(f"a TIME has no {name}")
        return typed_value(clock_parts[name](value.expr).cast(pl.Int64()), pl.Int64(), value)
    if name == "epoch" and isinstance(value.dtype, pl.Duration):
        micros = value.expr.cast(pl.Duration("us")).to_physical().cast(pl.Float64())
        return typed_value(micros / repeat_float_constant(pl.lit(1e6), micros, pl.Float64()), pl.Float64(), value)
    if name == "epoch" and value.is_moment:
        zoned = as_timestamp(value, pl.Datetime("us", getattr(value.dtype, "time_zone", None)), zone)
        micros = zoned.expr.to_physical().cast(pl.Float64())
        return typed_value(micros / repeat_float_constant(pl.lit(1e6), micros, pl.Float64()), pl.Float64(), value)
    parts = {**_date_parts(), **clock_parts}
    if name not in parts:
        raise mismatch(f"{name} is no part of a date: {', '.join(parts)} and epoch are")
    return typed_value(parts[name](clock(value, zone)).cast(pl.Int64()), pl.Int64(), value)


def date_part(values: Sequence[TypedExpression], zone: str) -> TypedExpression:
    """Return the part of a date that a literal names."""
    return extract(literal_part(values[0]), values[1], zone)


def epoch_count(values: Sequence[TypedExpression], micros: int) -> TypedExpression:
    """Return the time since 1970 as a count of so many microseconds each, rounded."""
    value = values[0]
    expr = value.expr.cast(pl.Datetime("us", getattr(value.dtype, "time_zone", None))).to_physical()
    half = micros // 2
    return typed_value(_divided(expr + pl.when(expr < 0).then(-half).otherwise(half), micros), pl.Int64(), value)


def truncate_time(name: str, value: TypedExpression, zone: str) -> TypedExpression:
    """Return the beginning of the part of time that a moment lies in, as TIMESTAMP."""
    own = clock(round_time(value, NS_OF_UNIT["us"]), zone)
    if name in _EVERY:
        result = own.dt.truncate(_EVERY[name])
    elif name in ("decade", "century", "millennium"):
        years = {"decade": 10, "century": 100, "millennium": 1000}[name]
        first = (own.dt.year().cast(pl.Int32()) // years) * years
        result = pl.when(own.is_not_null()).then(pl.datetime(first, 1, 1))
    else:
        raise mismatch(f"{name} is no part that a time is cut to: {', '.join(_EVERY)}, decade and century are")
    own_unit = value.dtype.time_unit if isinstance(value.dtype, pl.Datetime) else "us"
    unit: Literal["ms", "us"] = "ms" if own_unit == "ms" else "us"  # what is cut has no nanoseconds
    local = typed_value(result.cast(pl.Datetime(unit)), pl.Datetime(unit), value)
    target_zone = getattr(value.dtype, "time_zone", None)
    return local if target_zone is None else as_timestamp(local, pl.Datetime(unit, target_zone), zone)


def difference(name: str, start: TypedExpression, end: TypedExpression, zone: str) -> TypedExpression:
    """Return how many borders of a part of time lie between two moments; of weeks, the days by seven."""
    first, last = _micros_clock(start, zone), _micros_clock(end, zone)
    if name in _MONTHS:
        months = _MONTHS[name]
        count = [(part.dt.year().cast(pl.Int64()) * 12 + part.dt.month() - 1) // months for part in (first, last)]
    elif name == "week":
        days = last.cast(pl.Date()).to_physical().cast(pl.Int64()) - first.cast(pl.Date()).to_physical()
        return typed_value(_divided(days, 7), pl.Int64(), start, end)
    elif name in _MICROS:
        units = [part.dt.truncate(_EVERY[name]).cast(pl.Datetime("us")).to_physical() for part in (first, last)]
        count = [unit // _MICROS[name] for unit in units]
    else:
        raise mismatch(f"{name} is no unit of a difference of dates")
    return typed_value(count[1] - count[0], pl.Int64(), start, end)


def whole_difference(name: str, start: TypedExpression, end: TypedExpression, zone: str) -> TypedExpression:
    """Return how many whole units of time lie between two moments, cut towards zero."""
    if name not in _MICROS:
        raise mismatch(f"date_sub counts {', '.join(_MICROS)}; date_diff counts {name}")
    first, last = (_micros_clock(part, zone).to_physical() for part in (start, end))
    length, unit = last - first, _MICROS[name]
    return typed_value(_divided(length, unit), pl.Int64(), start, end)


def _divided(count: pl.Expr, unit: int) -> pl.Expr:
    """Return whole units, cut towards zero."""
    return pl.when(count < 0).then(-(-count // unit)).otherwise(count // unit)


def last_day(values: Sequence[TypedExpression], zone: str) -> TypedExpression:
    """Return the last day of a month."""
    return typed_value(clock(values[0], zone).dt.month_end().cast(pl.Date()), pl.Date(), values[0])


def make_date(year: pl.Expr, month: pl.Expr, day: pl.Expr) -> pl.Expr:
    """Return a date of its numbers; one that does not exist fails."""
    return pl.date(year, month, day)


def current_time(*, is_date: bool, zone: str) -> TypedExpression:
    """Return the moment of the call, as TIMESTAMP_LTZ, or its day in the session's zone."""
    length = datetime.now(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    count = (length.days * 86_400_000_000 + length.seconds * 1_000_000 + length.microseconds) * NS_OF_UNIT["us"]
    if is_date:
        return moment_literal(utc_to_local(count, zone), pl.Date())
    return moment_literal(count, pl.Datetime("us", "UTC"))


# ---- formats ----


def parse_time(values: Sequence[TypedExpression], zone: str, *, is_strict: bool = True) -> TypedExpression:  # noqa: ARG001
    """Return a text, read by a format, as TIMESTAMP."""
    form = _format(values[1], _PARSED_LETTERS)
    has_clock = any(part in form for part in ("%H", "%M", "%S"))
    text = values[0].expr.str
    parsed = (
        text.to_datetime(form, strict=is_strict, time_unit="us")
        if has_clock
        else text.to_date(form, strict=is_strict).cast(pl.Datetime("us"))
    )
    return typed_value(parsed, pl.Datetime("us"), values[0])


def format_time(values: Sequence[TypedExpression], zone: str) -> TypedExpression:
    """Return a DATE or TIMESTAMP as a text of a format."""
    value, form = (values[0], values[1]) if values[0].is_moment else (values[1], values[0])
    text = clock(value, zone).dt.to_string(_format(form, _FORMAT_LETTERS))
    return typed_value(text, pl.String(), value)


def _format(value: TypedExpression, letters: frozenset[str]) -> str:
    form = value.literal
    if not isinstance(form, str):
        raise mismatch("the format of a time is a literal text")
    parts = form.split("%")
    rest = form.replace("%%", "").split("%")[1:]
    if any(not part or part[0] not in letters for part in rest) or len(parts) < 2:
        raise mismatch(f"{form[:40]!r} is no format that is read: %Y %m %d %H %M %S are")
    return form


# ---- forms with a grammar of their own ----


def translate_extract(translation: Translation, node: Node) -> TypedExpression:
    """Return a part of a moment: EXTRACT(part FROM x)."""
    name = part_name(node.this.name)
    return extract(name, translation.translate(node.expression), translation.scope.zone)


def translate_truncate(translation: Translation, node: Node) -> TypedExpression:
    """Return the beginning of a part of time: date_trunc('part', x)."""
    value, name = translation.translate(node.this), part_name(node.args["unit"].name)
    if value.is_null:
        return null_literal(pl.Datetime("us"))
    return truncate_time(name, value, translation.scope.zone)


def translate_date_diff(translation: Translation, node: Node) -> TypedExpression:
    """Return how many borders of a part of time lie between two moments."""
    unit = node.args.get("unit")
    name = "day" if unit is None else part_name(unit.name)
    end, start = translation.translate(node.this), translation.translate(node.expression)
    if end.is_null or start.is_null:
        return null_literal(pl.Int64())
    return difference(name, start, end, translation.scope.zone)


def translate_interval(_translation: Translation, node: Node) -> TypedExpression:
    """Return an INTERVAL of a literal and one unit."""
    amount, unit = node.this, node.args.get("unit")
    while isinstance(amount, exp.Paren):
        amount = amount.this
    is_negative = isinstance(amount, exp.Neg)
    amount = amount.this if is_negative else amount
    if not isinstance(amount, exp.Literal) or unit is None:
        raise TranslationRefusal("INTERVAL takes a literal and one unit, as INTERVAL '5' DAY")
    return interval_literal(("-" if is_negative else "") + str(amount.this), unit.name)


def translate_current_time(translation: Translation, node: Node) -> TypedExpression:
    """Return the moment, or the day, at which a text is computed."""
    return current_time(is_date=isinstance(node, exp.CurrentDate), zone=translation.scope.zone)


def translate_epoch_count(translation: Translation, node: Node) -> TypedExpression:
    """Return epoch_ms of a time, which sqlglot takes for a time made of a number."""
    value, scale = translation.translate(node.this), node.args.get("scale")
    if not value.is_moment or scale is None or str(scale.this) != "3":
        raise TranslationRefusal("a time made of a number is not computed here")
    return epoch_count([value], 1_000)
