"""A line of the table of functions: names, arguments, result and meaning, and how it is applied.

    plain("upper, ucase", "Upper: this", "STRING -> STRING", lambda s: s.str.to_uppercase(), "…")
        a function of Polars expressions          typed(…)   of typed expressions and the session's zone

Argument types: NUMBER any number, INTEGER a whole one, COUNT a whole one made BIGINT, DOUBLE a number made DOUBLE,
MOMENT a DATE or TIMESTAMP, TIMES also a TIME, ANY anything; `?` may be left out, `*` any count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from lakekit.expressions.numeric_promotion import as_float, narrow
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
        word = self.arguments[-1] if at >= len(self.arguments) else self.arguments[at]
        if at >= len(self.arguments) and word[-1] != "*":
            raise mismatch(f"{self.names[0]} takes {', '.join(self.arguments) or 'nothing'}; more are given")
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
    return as_float(value, pl.Float64()) if kind == "DOUBLE" else narrow(value).to(pl.Int64())


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
