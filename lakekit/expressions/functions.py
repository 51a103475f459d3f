"""The table of SQL's operators and functions: one line each says name, types, meaning and what is special.

    plain("upper, ucase", "Upper: this", "STRING -> STRING", lambda s: s.str.to_uppercase(), "…")
        upper(s)   ->   the node Upper of sqlglot's tree, whose argument `this` is a text, and whose result is one

Argument types: NUMBER any number, INTEGER a whole one, DOUBLE a number made DOUBLE, MOMENT a DATE or TIMESTAMP, TIMES
also a TIME, ANY anything; `?` may be left out, `*` any count. NULL for any argument gives NULL, unless the line says
otherwise. A meaning takes Polars expressions (`_plain`) or typed expressions and the session's zone (`_typed`).

Forms with a grammar of their own (AND, CASE, CAST, IN, LIKE, …) are `FORMS` here and translated by `translation`.
Aggregates, window functions and subqueries are not in the table: they are refused by name.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache, partial
from typing import TYPE_CHECKING

import polars as pl

from lakekit.expressions import (
    nested_functions,
    number_functions,
    numeric_promotion,
    text_functions,
    time_functions,
    type_casts,
)
from lakekit.expressions.comparison import compare, unify
from lakekit.expressions.sql_function import SqlFunction, plain, typed
from lakekit.expressions.typed_expression import TypedExpression, null_literal, typed_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def _operator(sign: str, node: str, note: str) -> SqlFunction:
    """Return the line of an operator of arithmetic, which also adds times."""
    return typed(sign, f"{node}: this, expression", "ANY, ANY -> ANY", partial(_compute, sign), note, keeps_null=True)


def _compute(sign: str, values: Sequence[TypedExpression], zone: str) -> TypedExpression:
    left, right = values
    if sign in ("+", "-") and (result := time_functions.add_time(sign, left, right, zone)) is not None:
        return result
    return numeric_promotion.compute_arithmetic(sign, left, right)


def _comparison(sign: str, node: str, note: str) -> SqlFunction:
    def apply(values: Sequence[TypedExpression], zone: str) -> TypedExpression:
        return compare(sign, values[0], values[1], zone)

    return typed(sign, f"{node}: this, expression", "ANY, ANY -> BOOLEAN", apply, note, keeps_null=True)


def _part(name: str, node: str = "") -> SqlFunction:
    """Return the line of a function that gives a part of a time, as year(d)."""

    def apply(values: Sequence[TypedExpression], zone: str) -> TypedExpression:
        return time_functions.extract(time_functions.part_name(name), values[0], zone)

    return typed(name, f"{node}: this" if node else "", "TIMES -> BIGINT", apply, f"extract({name} FROM …)")


def _extremum(values: Sequence[TypedExpression], zone: str, *, sign: str) -> TypedExpression:
    both, dtype = unify(values, zone)
    result = both[0].expr
    for value in both[1:]:
        is_kept = result >= value.expr if sign == ">" else result <= value.expr
        result = pl.when(value.expr.is_null() | is_kept).then(result).otherwise(value.expr)
    return typed_value(result, dtype, *values)


def _coalesce(values: Sequence[TypedExpression], zone: str) -> TypedExpression:
    both, dtype = unify(values, zone)
    if isinstance(dtype, pl.Null):
        return null_literal()
    return typed_value(pl.coalesce(value.expr for value in both), dtype, *values)


def _nullif(values: Sequence[TypedExpression], zone: str) -> TypedExpression:
    if values[0].is_null:
        return null_literal()
    is_equal = compare("=", values[0], values[1], zone)
    value = pl.when(is_equal.expr).then(None).otherwise(values[0].expr)
    return typed_value(value, values[0].dtype, *values)


def _bits(sign: str, values: Sequence[TypedExpression], zone: str) -> TypedExpression:  # noqa: ARG001
    return numeric_promotion.apply_bitwise_operator(sign, values[0], values[1])


def _shift(sign: str, values: Sequence[TypedExpression], zone: str) -> TypedExpression:  # noqa: ARG001
    return numeric_promotion.shift_bits(sign, values[0], values[1])


def _epoch(micros: int, values: Sequence[TypedExpression], zone: str) -> TypedExpression:  # noqa: ARG001
    return time_functions.epoch_count(values, micros)


def _difference(values: Sequence[TypedExpression], zone: str) -> TypedExpression:
    return time_functions.difference(time_functions.literal_part(values[0]), values[1], values[2], zone)


def _whole_difference(values: Sequence[TypedExpression], zone: str) -> TypedExpression:
    return time_functions.whole_difference(time_functions.literal_part(values[0]), values[1], values[2], zone)


def _truncate_time(values: Sequence[TypedExpression], zone: str) -> TypedExpression:
    return time_functions.truncate_time(time_functions.literal_part(values[0]), values[1], zone)


def _add_days(sign: str, values: Sequence[TypedExpression], zone: str) -> TypedExpression:
    return _compute(sign, values, zone)


OPERATORS: tuple[SqlFunction, ...] = (
    _operator(
        "+",
        "Add",
        "whole numbers: BIGINT, or 128 bits, never wraps; DECIMAL: all digits; FLOAT stays FLOAT; DATE + TIME",
    ),
    _operator("-", "Sub", "as +; DATE - DATE are days, TIMESTAMP - TIMESTAMP an INTERVAL"),
    _operator("*", "Mul", "as +; a product of DECIMAL has the digits after the point of both"),
    _operator("/", "Div", "DOUBLE, of FLOAT FLOAT; by zero it is Infinity or NaN"),
    _operator("//", "IntDiv", "whole numbers, cut towards zero; by zero it fails"),
    _operator("%", "Mod", "the sign of the left side; by zero it fails, of FLOAT and DOUBLE it is NaN"),
    _comparison("=", "EQ", "NULL of NULL; NaN equals NaN, -0.0 equals 0.0; a text meets a time as one"),
    _comparison("<>", "NEQ", "as ="),
    _comparison("<", "LT", "as =; NaN is the greatest number"),
    _comparison("<=", "LTE", "as <"),
    _comparison(">", "GT", "as <"),
    _comparison(">=", "GTE", "as <"),
    _comparison("IS DISTINCT FROM", "NullSafeNEQ", "never NULL"),
    _comparison("IS NOT DISTINCT FROM", "NullSafeEQ", "never NULL; <=> is the same"),
    typed("&", "BitwiseAnd: this, expression", "INTEGER, INTEGER -> INTEGER", partial(_bits, "&"), "the wider type"),
    typed("|", "BitwiseOr: this, expression", "INTEGER, INTEGER -> INTEGER", partial(_bits, "|"), "the wider type"),
    typed("xor", "BitwiseXor: this, expression", "INTEGER, INTEGER -> INTEGER", partial(_bits, "^"), "the wider type"),
    typed("~", "BitwiseNot: this", "INTEGER -> INTEGER", lambda v, _: numeric_promotion.invert_bits(v[0]), "-1 - n"),
    typed(
        "<<",
        "BitwiseLeftShift: this, expression",
        "INTEGER, INTEGER -> INTEGER",
        partial(_shift, "<<"),
        "by a literal; widens",
    ),
    typed(
        ">>",
        "BitwiseRightShift: this, expression",
        "INTEGER, INTEGER -> INTEGER",
        partial(_shift, ">>"),
        "by a literal; floors",
    ),
    typed(
        "^, **, pow, power",
        "Pow: this, expression",
        "DOUBLE, DOUBLE -> DOUBLE",
        number_functions.power,
        "always DOUBLE",
    ),
)
"""Operators; those of times are in + and -."""

TEXT_FUNCTIONS: tuple[SqlFunction, ...] = (
    plain(
        "upper, ucase",
        "Upper: this",
        "STRING -> STRING",
        text_functions.upper,
        "Unicode, a letter for a letter: ß is ẞ",
    ),
    plain("lower, lcase", "Lower: this", "STRING -> STRING", text_functions.lower, "Unicode, a letter for a letter"),
    typed(
        "length, len, char_length",
        "Length: this",
        "ANY -> BIGINT",
        nested_functions.list_length,
        "characters, elements of ARRAY, entries of MAP",
    ),
    plain(
        "bit_length",
        "BitLength: this",
        "STRING -> BIGINT",
        lambda s: s.str.len_bytes().cast(pl.Int64()) * 8,
        "of UTF-8",
    ),
    plain("strlen", "", "STRING -> BIGINT", lambda s: s.str.len_bytes().cast(pl.Int64()), "bytes of UTF-8"),
    plain("reverse", "Reverse: this", "STRING -> STRING", lambda s: s.str.reverse(), "by signs as they are seen"),
    plain(
        "substring, substr",
        "Substring: this, start, length",
        "STRING, COUNT, COUNT? -> STRING",
        text_functions.substring,
        "from 1; negative counts from the end",
    ),
    plain(
        "left",
        "Left: this, expression",
        "STRING, COUNT -> STRING",
        lambda s, n: s.str.head(n),
        "negative: all but so many",
    ),
    plain(
        "right",
        "Right: this, expression",
        "STRING, COUNT -> STRING",
        lambda s, n: s.str.tail(n),
        "negative: all but so many",
    ),
    plain(
        "starts_with, prefix, ^@",
        "StartsWith: this, expression",
        "STRING, STRING -> BOOLEAN",
        lambda s, p: s.str.starts_with(p),
        "",
    ),
    plain(
        "ends_with, suffix",
        "EndsWith: this, expression",
        "STRING, STRING -> BOOLEAN",
        lambda s, p: s.str.ends_with(p),
        "",
    ),
    plain(
        "contains",
        "Contains: this, expression",
        "STRING, STRING -> BOOLEAN",
        lambda s, p: s.str.contains(p, literal=True),
        "a text, no pattern",
    ),
    plain(
        "strpos, instr, position, locate",
        "StrPosition: this, substr",
        "STRING, STRING -> BIGINT",
        text_functions.position,
        "from 1; 0 where there is none",
    ),
    typed(
        "replace",
        "Replace: this, expression, replacement",
        "STRING, STRING, STRING -> STRING",
        text_functions.replace,
        "the part is a literal",
    ),
    typed("repeat", "Repeat: this, times", "STRING, COUNT -> STRING", text_functions.repeat, "the times are a literal"),
    typed(
        "lpad",
        "",
        "STRING, COUNT, STRING? -> STRING",
        partial(_pad := lambda v, _, left: text_functions.pad(v, is_left=left), left=True),
        "length and filling are literals",
    ),
    typed("rpad", "", "STRING, COUNT, STRING? -> STRING", partial(_pad, left=False), "length and filling are literals"),
    typed(
        "split_part",
        "SplitPart: this, delimiter, part_index",
        "STRING, STRING, COUNT -> STRING",
        text_functions.split_part,
        "'' where there is no such part",
    ),
    typed(
        "concat",
        "",
        "ANY* -> STRING",
        partial(text_functions.concatenate, skips_null=True),
        "NULLs are left out",
        keeps_null=True,
    ),
    typed(
        "||",
        "DPipe: this, expression",
        "ANY, ANY -> STRING",
        partial(text_functions.concatenate, skips_null=False),
        "NULL of NULL",
        keeps_null=True,
    ),
    typed(
        "concat_ws",
        "ConcatWs: expressions",
        "ANY, ANY* -> STRING",
        text_functions.concatenate_with,
        "NULLs are left out; NULL of a NULL separator",
        keeps_null=True,
    ),
    typed(
        "regexp_matches, ~",
        "RegexpLike: this, expression, flag",
        "STRING, STRING, STRING? -> BOOLEAN",
        lambda v, _: text_functions.regex_matches(v, is_whole=False),
        "RE2's patterns, a literal",
    ),
    typed(
        "regexp_full_match",
        "RegexpFullMatch: this, expression, options",
        "STRING, STRING, STRING? -> BOOLEAN",
        lambda v, _: text_functions.regex_matches(v, is_whole=True),
        "the whole text",
    ),
    typed(
        "SIMILAR TO",
        "SimilarTo: this, expression",
        "STRING, STRING -> BOOLEAN",
        lambda v, _: text_functions.regex_matches(v, is_whole=True),
        "the whole text, a regular expression",
    ),
    typed(
        "regexp_replace",
        "RegexpReplace: this, expression, replacement, modifiers",
        "STRING, STRING, STRING, STRING? -> STRING",
        text_functions.regex_replace,
        "the first match; all with 'g'",
    ),
    typed(
        "regexp_extract",
        "RegexpExtract: this, expression, group",
        "STRING, STRING, COUNT? -> STRING",
        text_functions.regex_extract,
        "'' where nothing matches",
    ),
)

NUMBER_FUNCTIONS: tuple[SqlFunction, ...] = (
    typed("abs", "Abs: this", "NUMBER -> NUMBER", number_functions.absolute, "widens: abs(-128) of TINYINT is 128"),
    typed("ceil, ceiling", "Ceil: this", "NUMBER -> NUMBER", number_functions.ceiling, "of DECIMAL DECIMAL"),
    typed("floor", "Floor: this", "NUMBER -> NUMBER", number_functions.floor, "of DECIMAL DECIMAL"),
    typed(
        "round",
        "Round: this, decimals",
        "NUMBER, COUNT? -> NUMBER",
        number_functions.round_number,
        "half up, away from zero; the digits are a literal",
    ),
    typed("trunc", "Trunc: this", "NUMBER -> NUMBER", number_functions.truncate, "towards zero"),
    typed("sign", "Sign: this", "NUMBER -> TINYINT", number_functions.sign_of, "0 of NaN"),
    plain("sqrt", "Sqrt: this", "DOUBLE -> DOUBLE", lambda x: x.sqrt(), "NaN of a negative number"),
    plain("cbrt", "Cbrt: this", "DOUBLE -> DOUBLE", lambda x: x.cbrt(), ""),
    plain("exp", "Exp: this", "DOUBLE -> DOUBLE", lambda x: x.exp(), ""),
    plain("ln", "Ln: this", "DOUBLE -> DOUBLE", lambda x: x.log(), "-Infinity of 0, NaN of a negative number"),
    typed(
        "log, log10, log2",
        "Log: this, expression",
        "DOUBLE, DOUBLE? -> DOUBLE",
        number_functions.log_to_base,
        "log(x) is to base 10, log(b, x) to base b",
    ),
    typed("mod", "", "ANY, ANY -> ANY", partial(_compute, "%"), "%", keeps_null=True),
    typed("bit_count", "", "INTEGER -> TINYINT", number_functions.count_bits, "in the width of the type"),
    plain("isnan", "IsNan: this", "DOUBLE -> BOOLEAN", lambda x: x.is_nan(), ""),
    plain("isinf", "IsInf: this", "DOUBLE -> BOOLEAN", lambda x: x.is_infinite(), ""),
    plain("isfinite", "", "DOUBLE -> BOOLEAN", lambda x: x.is_finite(), ""),
    plain("sin", "Sin: this", "DOUBLE -> DOUBLE", lambda x: x.sin(), ""),
    plain("cos", "Cos: this", "DOUBLE -> DOUBLE", lambda x: x.cos(), ""),
    plain("tan", "Tan: this", "DOUBLE -> DOUBLE", lambda x: x.tan(), ""),
    typed(
        "greatest",
        "Greatest: this, expressions",
        "ANY* -> ANY",
        partial(_extremum, sign=">"),
        "NULLs are left out; NaN is the greatest",
        keeps_null=True,
    ),
    typed(
        "least",
        "Least: this, expressions",
        "ANY* -> ANY",
        partial(_extremum, sign="<"),
        "NULLs are left out",
        keeps_null=True,
    ),
    typed(
        "coalesce, ifnull, nvl",
        "Coalesce: this, expressions",
        "ANY* -> ANY",
        _coalesce,
        "the first that is not NULL",
        keeps_null=True,
    ),
    typed(
        "nullif", "Nullif: this, expression", "ANY, ANY -> ANY", _nullif, "NULL where both are equal", keeps_null=True
    ),
)

TIME_FUNCTIONS: tuple[SqlFunction, ...] = (
    *(
        _part(name, node)
        for name, node in (("year", "Year"), ("quarter", "Quarter"), ("month", "Month"), ("day", "Day"))
    ),
    *(
        _part(name, node)
        for name, node in (("dayofmonth", "DayOfMonth"), ("dayofweek", "DayOfWeek"), ("dayofyear", "DayOfYear"))
    ),
    *(
        _part(name, node)
        for name, node in (("week", "Week"), ("weekofyear", "WeekOfYear"), ("isodow", "DayOfWeekIso"), ("weekday", ""))
    ),
    *(
        _part(name, node)
        for name, node in (("hour", "Hour"), ("minute", "Minute"), ("second", "Second"), ("millisecond", ""))
    ),
    *(_part(name) for name in ("microsecond", "decade", "century", "millennium", "isoyear", "yearweek")),
    typed("date_part, datepart", "", "STRING, TIMES -> BIGINT", time_functions.date_part, "as extract"),
    typed("date_trunc", "", "STRING, MOMENT -> TIMESTAMP", _truncate_time, "TIMESTAMP, of DATE too"),
    typed(
        "date_diff, datediff",
        "",
        "STRING, MOMENT, MOMENT -> BIGINT",
        _difference,
        "borders between the second and the third",
    ),
    typed("date_sub, datesub", "", "STRING, MOMENT, MOMENT -> BIGINT", _whole_difference, "whole units, up to weeks"),
    typed("date_add", "", "ANY, ANY -> ANY", partial(_add_days, "+"), "d + INTERVAL, or d + days"),
    typed("last_day", "LastDay: this", "MOMENT -> DATE", time_functions.last_day, ""),
    plain(
        "make_date",
        "DateFromParts: year, month, day",
        "COUNT, COUNT, COUNT -> DATE",
        time_functions.make_date,
        "fails for a day that does not exist",
    ),
    typed(
        "epoch",
        "TimeToUnix: this",
        "MOMENT -> DOUBLE",
        lambda v, zone: time_functions.extract("epoch", v[0], zone),
        "seconds since 1970",
    ),
    typed("epoch_ms", "", "MOMENT -> BIGINT", partial(_epoch, 1_000), "milliseconds since 1970"),
    typed("epoch_us", "", "MOMENT -> BIGINT", partial(_epoch, 1), "microseconds since 1970"),
    typed(
        "now",
        "",
        " -> TIMESTAMP_LTZ",
        lambda _, zone: time_functions.current_time(is_date=False, zone=zone),
        "of the call",
    ),
    typed(
        "to_date, date",
        "Date: this",
        "ANY -> DATE",
        lambda v, zone: type_casts.cast(v[0], pl.Date(), zone),
        "CAST AS DATE",
    ),
    typed(
        "strptime",
        "StrToTime: this, format",
        "STRING, STRING -> TIMESTAMP",
        time_functions.parse_time,
        "%Y %m %d %H %M %S; fails for another text",
    ),
    typed(
        "try_strptime",
        "",
        "STRING, STRING -> TIMESTAMP",
        partial(time_functions.parse_time, is_strict=False),
        "NULL for another text",
    ),
    typed(
        "strftime",
        "TimeToStr: this, format",
        "ANY, ANY -> STRING",
        time_functions.format_time,
        "%Y %m %d %H %M %S %y %j %B",
    ),
)

NESTED_FUNCTIONS: tuple[SqlFunction, ...] = (
    typed(
        "struct_extract",
        "StructExtract: this, expression",
        "ROW, STRING -> ANY",
        nested_functions.extract_field,
        "also r.a",
    ),
    typed(
        "list_contains, array_contains",
        "ArrayContains: this, expression",
        "ARRAY, ANY -> BOOLEAN",
        nested_functions.list_contains,
        "false where only others are there",
        keeps_null=True,
    ),
    typed("array_length, array_size", "ArraySize: this", "ARRAY -> BIGINT", nested_functions.list_length, ""),
    typed("cardinality, size", "", "ARRAY -> BIGINT", nested_functions.list_length, "of ARRAY and MAP; NULL of NULL"),
    typed("map_keys", "MapKeys: this", "MAP -> ARRAY", lambda v, _: nested_functions.map_part(v, "key"), ""),
    typed("map_values", "MapValues: this", "MAP -> ARRAY", lambda v, _: nested_functions.map_part(v, "value"), ""),
    typed(
        "list_extract, list_element",
        "",
        "ANY, ANY -> ANY",
        lambda v, zone: nested_functions.element_of(v[0], v[1], zone),
        "also l[1]; NULL where there is none",
    ),
)

FORMS: Mapping[str, str] = {
    "AND, OR, NOT": "three values: NULL AND FALSE is FALSE",
    "IS [NOT] NULL, TRUE, FALSE, UNKNOWN": "never NULL",
    "[NOT] IN (…)": "NULL where no value equals and one is NULL",
    "[NOT] BETWEEN": ">= AND <=",
    "[NOT] LIKE, ILIKE … ESCAPE": "% and _; no ESCAPE but the one that is given",
    "CASE, IF, IIF": "all branches in one type; NULL is not true",
    "CAST, TRY_CAST, ::": "what does not fit fails, or is NULL; DECIMAL is rounded half up",
    "trim, ltrim, rtrim": "blanks, or the given characters",
    "extract(part FROM …)": "whole numbers, the epoch DOUBLE",
    "date_trunc, date_diff": "parts from microsecond to millennium",
    "DATE, TIME, TIMESTAMP '…', INTERVAL '…' unit": "literals",
    "current_date, current_timestamp, now(), today()": "of the call",
    "r.field, list[1], map['key']": "NULL where there is none",
}
"""What has a grammar of its own, with what is special."""


@cache
def all_functions() -> tuple[SqlFunction, ...]:
    """Return all lines of the table."""
    return (*OPERATORS, *TEXT_FUNCTIONS, *NUMBER_FUNCTIONS, *TIME_FUNCTIONS, *NESTED_FUNCTIONS)


@cache
def by_node() -> Mapping[str, SqlFunction]:
    """Return the lines by the class of sqlglot's tree."""
    return {function.node: function for function in all_functions() if function.node}


@cache
def by_name() -> Mapping[str, SqlFunction]:
    """Return the lines by each of their names."""
    return {name: function for function in all_functions() for name in function.names}


def nearest(name: str) -> str | None:
    """Return the function whose name is most like another; None where none is."""
    near = get_close_matches(name.lower(), [known for known in by_name() if known.isidentifier()], 1, 0.7)
    return near[0] if near else None
