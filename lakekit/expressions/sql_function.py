"""A line of the table of functions: names, arguments, result and meaning, and how it is applied.

    plain("upper, ucase", "Upper: this", "STRING -> STRING", lambda s: s.str.to_uppercase(), "…")
        a function of Polars expressions          typed(…)   of typed expressions and the session's zone

Argument types: NUMBER any number, INTEGER a whole one, COUNT a whole one made BIGINT, DOUBLE a number made DOUBLE,
MOMENT a DATE or TIMESTAMP, TIMES also a TIME, ANY anything; `?` may be left out, `*` any count.

`DIFFERENCES` says of names, and of forms, where Spark differs; a test holds each against a Spark, on drawn values.
Everywhere a sum beyond the type of its operands, and every division by zero, is an error in Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from lakekit.expressions.numeric_promotion import as_float, cast_to_bigint
from lakekit.expressions.typed_expression import TypedExpression, mismatch, null_literal, typed_value

TypedMeaning = Callable[[Sequence[TypedExpression], str], TypedExpression]

RESULTS: Mapping[str, pl.DataType] = {
    "STRING": pl.String(),
    "BOOLEAN": pl.Boolean(),
    "BIGINT": pl.Int64(),
    "DOUBLE": pl.Float64(),
    "DATE": pl.Date(),
}
_EXAMPLES: Mapping[str, pl.DataType] = {"INTEGER": pl.Int64(), "NUMBER": pl.Float64(), "MOMENT": pl.Datetime("us")}


@dataclass(frozen=True, slots=True)
class SqlFunction:
    """A line of the table.

    `node`: the class of sqlglot's tree and its arguments in order; empty for functions that sqlglot knows by name
    only. `result`: the type, or a word for it. `note`: how nulls, widths, overflow, rounding and NaN behave.
    """

    names: tuple[str, ...]
    node: str
    parts: tuple[str, ...]
    arguments: tuple[str, ...]
    result: str
    meaning: TypedMeaning
    note: str
    keeps_null: bool = False

    def apply(self, values: Sequence[TypedExpression], zone: str) -> TypedExpression:
        """Return the value of the function. Raises `TranslationRefusal` for arguments of other types or count."""
        checked = [self._check(at, value) for at, value in enumerate(values)]
        if len(values) < len([word for word in self.arguments if word[-1] not in "?*"]):
            raise mismatch(f"{self.names[0]} takes {', '.join(self.arguments)}; {len(values)} are given")
        if not self.keeps_null and any(value.literal is None for value in checked):
            return null_literal(RESULTS.get(self.result))
        return self.meaning(checked, zone)

    def _check(self, at: int, value: TypedExpression) -> TypedExpression:
        if at >= len(self.arguments) and (not self.arguments or self.arguments[-1][-1] != "*"):
            raise mismatch(f"{self.names[0]} takes {', '.join(self.arguments) or 'nothing'}; more are given")
        word = self.arguments[min(at, len(self.arguments) - 1)]
        kind = word.rstrip("?*")
        if value.is_null or kind == "ANY" or _is_of_kind(value, kind):
            return _prepared(value, kind)
        if kind in ("MOMENT", "TIMES") and isinstance(value.literal, str):
            raise mismatch(f"{self.names[0]} takes a date or time: write DATE '2024-03-31' or TIMESTAMP '…'")
        raise mismatch(f"{self.names[0]} takes {kind}, and {value.description}: CAST it")


def _prepared(value: TypedExpression, kind: str) -> TypedExpression:
    """Return an argument in the type that meanings take: DOUBLE, and BIGINT for counts."""
    if value.is_null or kind not in ("DOUBLE", "COUNT"):
        return value
    return as_float(value, pl.Float64()) if kind == "DOUBLE" else cast_to_bigint(value).to(pl.Int64())


def _is_of_kind(value: TypedExpression, kind: str) -> bool:
    match kind:
        case "STRING":
            return value.is_text
        case "INTEGER" | "COUNT":
            return value.is_integer
        case "NUMBER" | "DOUBLE":
            return value.is_number
        case "MOMENT":
            return value.is_moment
        case "TIMES":
            return value.is_moment or isinstance(value.dtype, pl.Time)
    return isinstance(value.dtype, pl.List if kind in ("ARRAY", "MAP") else pl.Struct)


def typed(
    names: str, node: str, signature: str, meaning: TypedMeaning, note: str, *, keeps_null: bool = False
) -> SqlFunction:
    """Return a line whose meaning takes typed expressions and the session's zone."""
    arguments, _, result = signature.partition("->")
    kind, _, parts = node.partition(":")
    return SqlFunction(
        names=tuple(name.strip() for name in names.split(", ")),
        node=kind.strip(),
        parts=tuple(part.strip() for part in parts.split(",") if part.strip()),
        arguments=tuple(word.strip() for word in arguments.split(",") if word.strip()),
        result=result.strip(),
        meaning=meaning,
        note=note,
        keeps_null=keeps_null,
    )


def plain(names: str, node: str, signature: str, meaning: Callable[..., pl.Expr], note: str) -> SqlFunction:
    """Return a line whose meaning takes Polars expressions."""
    dtype = RESULTS[signature.rpartition("->")[2].strip()]

    def apply(values: Sequence[TypedExpression], zone: str) -> TypedExpression:  # noqa: ARG001
        return typed_value(meaning(*(value.expr for value in values)), dtype, *values)

    return typed(names, node, signature, apply, note)


# ---- Spark ----

_FLOATS = "FLOAT meets INT and DECIMAL as DOUBLE"
_LOGARITHM = "NULL of 0 and of negative numbers"

DIFFERENCES: Mapping[str, str] = {
    "+": _FLOATS,
    "-": f"{_FLOATS}; DATE - DATE is an INTERVAL",
    "*": _FLOATS,
    "/": f"of DECIMAL a DECIMAL; {_FLOATS}; by zero an error",
    "//": "none: DIV",
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"), _FLOATS),
    "xor": "none: a ^ b",
    "~": "of whole numbers alone; s ~ p is s RLIKE p",
    "^": "the exclusive or of whole numbers",
    "**": "none: power",
    **dict.fromkeys(("upper", "ucase"), "several letters for one: ß is SS"),
    **dict.fromkeys(("lower", "lcase"), "ς at the end of a word"),
    **dict.fromkeys(("length", "len"), "of texts alone: size(list)"),
    "strlen": "none: octet_length",
    **dict.fromkeys(("substring", "substr"), "from 0 as from 1; '' for a negative length"),
    **dict.fromkeys(("left", "right"), "'' for a negative count"),
    **dict.fromkeys(("starts_with", "prefix", "^@"), "none: startswith"),
    **dict.fromkeys(("ends_with", "suffix"), "none: endswith"),
    "strpos": "none: instr",
    "split_part": "part 0 is an error",
    "concat": "NULL of NULL",
    **dict.fromkeys(("regexp_matches", "regexp_full_match", "SIMILAR TO"), "none: RLIKE, with Java's patterns"),
    "regexp_replace": "all matches; Java's patterns, $1 for a group",
    "regexp_extract": "group 1, if none is named; Java's patterns",
    **dict.fromkeys(("ceil", "ceiling", "floor"), "of DOUBLE a BIGINT"),
    "trunc": "cuts a DATE, as trunc(d, 'month'); of numbers none",
    "sign": "NaN of NaN",
    **dict.fromkeys(("ln", "log10", "log2"), _LOGARITHM),
    "log": f"log(x) is ln(x); {_LOGARITHM}",
    "bit_count": "of a negative number in 64 bits",
    "isnan": "false of NULL",
    **dict.fromkeys(("isinf", "isfinite"), "none"),
    "dayofweek": "1 for Sunday",
    "weekday": "0 for Monday",
    "week": "none: weekofyear",
    "isodow": "none: weekday(d) + 1",
    "isoyear": "none: extract(yearofweek FROM d)",
    **dict.fromkeys(("millisecond", "microsecond", "decade", "century", "millennium", "yearweek"), "none"),
    **dict.fromkeys(("date_part", "datepart"), "dow is 1 for Sunday; no isodow and no epoch; seconds have a fraction"),
    "date_trunc": "NULL for decade, century and millennium",
    **dict.fromkeys(("date_diff", "datediff"), "date_diff(end, start) in days; datediff(HOUR, a, b) in whole units"),
    "date_sub": "date_sub(d, days)",
    "datesub": "none: datediff(HOUR, a, b)",
    "date_add": "date_add(d, days)",
    "epoch": "none: unix_timestamp",
    "epoch_ms": "none: unix_millis",
    "epoch_us": "none: unix_micros",
    "strptime": "none: to_timestamp, with Java's letters",
    "try_strptime": "none: try_to_timestamp, with Java's letters",
    "strftime": "none: date_format, with Java's letters",
    "struct_extract": "none: r.a",
    "list_contains": "none: array_contains",
    "array_contains": "NULL where no element equals and one is NULL",
    "array_length": "none: array_size",
    **dict.fromkeys(
        ("list_extract", "list_element"), "none: element_at; list[0] is the first, a place beyond an error"
    ),
    "[NOT] IN (…)": "a row with NULL is unknown; lists: array_contains",
    "[NOT] LIKE, ILIKE … ESCAPE": "a backslash escapes",
    "CAST, TRY_CAST, ::": "to whole numbers cut; '1.5' is none; infinite beyond FLOAT; STRING for VARCHAR",
    "trim, ltrim, rtrim": "one kind of blank; the characters come first",
    "extract(part FROM …)": "dow is 1 for Sunday; no isodow, epoch, decade, century; seconds have a fraction",
    "DATE, TIME, TIMESTAMP '…', INTERVAL '…' unit": "no TIME, no TIMESTAMPTZ; a backslash escapes",
    "r.field, list[1], map['key']": "list[0] is the first, a place beyond an error",
}
"""By the name of the function, or of the form; what is not there is the same in Spark. "none: …": Spark writes this."""


def spark_difference(name: str) -> str:
    """Return how Spark differs at a name of the table, or a form; the empty text where it does not."""
    return DIFFERENCES.get(name, "")
