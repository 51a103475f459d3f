"""Conditions and values of DELETE, UPDATE and MERGE in Spark's SQL, as Polars expressions: only what means the same in both.

    t.v + s.v * 2 > 7 AND d = '2024-03-31'   ->   pl.col("v").cast(Int64) + lk.source("v")… > 7  &  pl.col("d") == date(2024, 3, 31)

A literal is a value and never text again. Whole numbers are added and multiplied as BIGINT, so that nothing wraps unseen. What is not here is refused by its
name: Spark computes it in the source of a MERGE, or in a SELECT.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from operator import add, and_, eq, ge, gt, le, lt, mul, ne, or_, sub
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import polars as pl

from lakekit.errors import ColumnNotFound, InvalidOption, SchemaMismatch, Unsupported
from lakekit.sql.words import Words

try:
    import sqlglot
    from sqlglot import exp as exp  # noqa: PLC0414 - for those who walk along a tree
    from sqlglot.errors import SqlglotError
except ModuleNotFoundError as missing:
    message = "statements of SQL need sqlglot: pip install 'lakekit[sql]'"
    raise Unsupported(message, feature="catalog.sql") from missing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Node = Any
    """A node of sqlglot's tree."""

_COMPARED: Mapping[Any, Callable[[Any, Any], Any]] = {exp.EQ: eq, exp.NEQ: ne, exp.GT: gt, exp.GTE: ge, exp.LT: lt, exp.LTE: le}
_COMPUTED: Mapping[Any, Callable[[Any, Any], Any]] = {exp.Add: add, exp.Sub: sub, exp.Mul: mul}
_CAST = {
    "BIGINT": pl.Int64(),
    "INT": pl.Int32(),
    "SMALLINT": pl.Int16(),
    "TINYINT": pl.Int8(),
    "DOUBLE": pl.Float64(),
    "FLOAT": pl.Float32(),
    "TEXT": pl.String(),
}
_HIDDEN = frozenset({"safe", "coalesce", "_type", "quoted", "is_string", "include", "nested"})
"""What sqlglot notes of a node that says nothing about its meaning here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The columns of one table of a statement, under the names it may be called by: in the frame a column's name begins with `prefix`."""

    called: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    prefix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What names mean in an expression. `zone`: the session's, in which texts are moments."""

    sides: tuple[Side, ...]
    zone: str = "UTC"

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """All columns, as the frame has them."""
        return {side.prefix + name: dtype for side in self.sides for name, dtype in side.columns.items()}

    def column(self, node: Node) -> str:
        """The frame's column that a name means. Raises `ColumnNotFound`, `SchemaMismatch` where two tables have it."""
        name, table, database = (node.text(part) for part in ("this", "table", "db"))
        called = ".".join(part for part in (database, table) if part).lower()
        found = [
            side.prefix + own
            for side in self.sides
            if not called or called in side.called
            for own in side.columns
            if own == name or (own.lower() == name.lower() and name not in side.columns)
        ]
        if len(found) > 1:
            raise SchemaMismatch(f"{node.sql('spark')} is a column of both tables: write {' or '.join(f'{side.called[-1]}.{name}' for side in self.sides)}")
        if not found:
            known = ", ".join(f"{side.called[-1]}.{own}" for side in self.sides for own in side.columns)
            raise ColumnNotFound(f"{node.sql('spark')} is no column here; there are {known}", name=name)
        return found[0]


def parsed(text: str, what: str, *, reads_texts: bool = True) -> Node:
    """The tree of a statement or an expression. Raises `InvalidOption` for what is none, and for a backslash in a text, where `reads_texts`.

    sqlglot takes a doubled quote for the end of a text and the beginning of another, as Spark did before version 4.
    """
    words = Words.of(text)
    if reads_texts and (escaped := next((word for word in words.texts if "\\" in word.said), None)):
        msg = f"{escaped.said}: texts have no backslashes in DELETE, UPDATE and MERGE; a quote is doubled, other signs are written as they are"
        raise InvalidOption(msg, key="sql", value=escaped.said)
    try:
        found = sqlglot.parse_one(words.escaped, read="spark", error_level=sqlglot.ErrorLevel.RAISE)
    except SqlglotError as wrong:
        first = re.sub(r"\x1b\[\d+m", "", str(wrong)).strip()
        raise InvalidOption(f"no {what} that lakekit understands: {first}", key="sql") from None
    if isinstance(found, exp.Command):
        raise InvalidOption(f"no {what} that lakekit understands: {text[:200]}", key="sql")
    return found


def expression(node: Node, scope: Scope) -> pl.Expr:
    """The Polars expression of a tree. Raises `Unsupported` for what is not computed here, `ColumnNotFound`, `SchemaMismatch`."""
    kind = type(node)
    if kind in _COMPARED:
        left, right = _two(node.this, node.expression, scope)
        return _COMPARED[kind](left, right)
    if kind in _COMPUTED:
        return _computed(node, scope)
    if kind not in _KNOWN:
        raise refused(node)
    reads, takes = _KNOWN[kind]
    if any(value for key, value in node.args.items() if key not in takes and key not in _HIDDEN):
        raise refused(node)
    return reads(node, scope)


def refused(node: Node) -> Unsupported:
    """The error for what is not computed here."""
    return Unsupported(
        f"{node.sql('spark')} is not computed in DELETE, UPDATE and MERGE: columns, literals, + - *, comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, "
        "IS, CASE, IF, COALESCE, CAST, CONCAT, UPPER, LOWER, LENGTH and ABS are. Compute it in the source of a MERGE, or give `update` a Polars expression",
        feature="catalog.sql",
    )


# ---- literals ---------------------------------------------------------------------------------------------------------------------------------


def _literal(node: Node, scope: Scope) -> pl.Expr:  # noqa: ARG001 - as its kind
    return pl.lit(_value(node))


def _value(node: Node) -> str | int | float:
    if node.is_string:
        return str(node.this)
    said = str(node.this)
    return int(said) if said.isdecimal() else float(said)


def _two(left: Node, right: Node, scope: Scope) -> tuple[pl.Expr, pl.Expr]:
    """Two values to compare: a literal is read as the other's type, as Spark does with texts that are days or moments."""
    return _beside(left, right, scope), _beside(right, left, scope)


def _beside(node: Node, other: Node, scope: Scope) -> pl.Expr:
    plain = node.this if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and _type(node) in ("DATE", "TIMESTAMP") else node
    if not isinstance(plain, exp.Literal) or isinstance(other, exp.Literal):
        return expression(node, scope)
    dtype = _dtype(other, scope)
    if plain.is_string and isinstance(dtype, (pl.Date, pl.Datetime)):
        return pl.lit(_moment(str(plain.this), dtype, scope), dtype)
    if not plain.is_string and isinstance(dtype, pl.Decimal):
        return pl.lit(Decimal(str(plain.this)))
    if plain.is_string != isinstance(dtype, pl.String) and not isinstance(dtype, pl.Null) and plain is node:
        raise SchemaMismatch(f"{node.sql('spark')} is compared with {other.sql('spark')}, which is {dtype}: write it as that type, or CAST it")
    return expression(node, scope)


def _moment(text: str, dtype: pl.DataType, scope: Scope) -> date | datetime:
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise SchemaMismatch(f"{text!r} is no day or moment; write '2024-03-31' or '2024-03-31 12:00:00'") from None
    if isinstance(dtype, pl.Date):
        if (found.hour, found.minute, found.second, found.microsecond) != (0, 0, 0, 0):
            raise SchemaMismatch(f"{text!r} is compared with a day, and is a moment")
        return found.date()
    zone = getattr(dtype, "time_zone", None)
    if zone is None:
        if found.tzinfo is not None:
            raise SchemaMismatch(f"{text!r} is compared with a moment without a zone, and has one: leave the zone out")
        return found
    return (found if found.tzinfo is not None else found.replace(tzinfo=ZoneInfo(scope.zone))).astimezone(ZoneInfo(zone))


def _dtype(node: Node, scope: Scope) -> pl.DataType:
    try:
        return pl.LazyFrame(schema=scope.schema).select(expression(node, scope).alias("")).collect_schema().dtypes()[0]
    except pl.exceptions.PolarsError as wrong:
        raise SchemaMismatch(f"{node.sql('spark')} does not fit its columns: {wrong}") from None


# ---- what there is ---------------------------------------------------------------------------------------------------------------------------


def _column(node: Node, scope: Scope) -> pl.Expr:
    return pl.col(scope.column(node))


def _computed(node: Node, scope: Scope) -> pl.Expr:
    sides = [node.this, node.expression]
    for side in sides:
        dtype = _dtype(side, scope)
        if not dtype.is_numeric() and not isinstance(dtype, pl.Null):
            raise SchemaMismatch(f"{node.sql('spark')} computes with {side.sql('spark')}, which is {dtype} and no number")
    left, right = (_wide(side, other, scope) for side, other in (sides, sides[::-1]))
    return _COMPUTED[type(node)](left, right)


def _wide(node: Node, other: Node, scope: Scope) -> pl.Expr:
    found = _beside(node, other, scope)
    return found.cast(pl.Int64) if _dtype(node, scope).is_integer() else found


def _neg(node: Node, scope: Scope) -> pl.Expr:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        value = _value(node.this)
        assert not isinstance(value, str)
        return pl.lit(-value)
    return -_wide(node.this, node.this, scope)


def _is(node: Node, scope: Scope) -> pl.Expr:
    found = expression(node.this, scope)
    if isinstance(node.expression, exp.Null):
        return found.is_null()
    if isinstance(node.expression, exp.Boolean):
        return found.eq_missing(pl.lit(bool(node.expression.this)))
    raise refused(node)


def _in(node: Node, scope: Scope) -> pl.Expr:
    if not node.expressions:
        raise refused(node)
    return reduce(or_, [eq(*_two(node.this, one, scope)) for one in node.expressions])


def _between(node: Node, scope: Scope) -> pl.Expr:
    low, high = _two(node.this, node.args["low"], scope), _two(node.this, node.args["high"], scope)
    return ge(*low) & le(*high)


def _like(node: Node, scope: Scope) -> pl.Expr:
    if not isinstance(node.expression, exp.Literal) or "\\" in node.expression.this:
        raise refused(node)
    pattern = "".join({"%": ".*", "_": "."}.get(sign, re.escape(sign)) for sign in str(node.expression.this))
    return _text(node.this, scope).str.contains(f"(?s)^{pattern}$")


def _text(node: Node, scope: Scope) -> pl.Expr:
    dtype = _dtype(node, scope)
    if not isinstance(dtype, (pl.String, pl.Null)):
        raise SchemaMismatch(f"{node.sql('spark')} is {dtype} and no text: CAST it to STRING")
    return expression(node, scope)


def _case(node: Node, scope: Scope) -> pl.Expr:
    default = node.args.get("default")
    found = pl.lit(None) if default is None else expression(default, scope)
    for one in reversed(node.args["ifs"]):
        found = pl.when(expression(one.this, scope)).then(expression(one.args["true"], scope)).otherwise(found)
    return found


def _if(node: Node, scope: Scope) -> pl.Expr:
    other = node.args.get("false")
    then = expression(node.args["true"], scope)
    return pl.when(expression(node.this, scope)).then(then).otherwise(pl.lit(None) if other is None else expression(other, scope))


def _type(node: Node) -> str:
    name = str(node.args["to"].this.name)
    return "TIMESTAMP" if name.startswith("TIMESTAMP") else name


def _cast(node: Node, scope: Scope) -> pl.Expr:
    to, literal = _type(node), node.this
    if isinstance(literal, exp.Literal) and literal.is_string and to in ("DATE", "TIMESTAMP"):
        moment: pl.DataType = pl.Date() if to == "DATE" else pl.Datetime("us")
        return pl.lit(_moment(str(literal.this), moment, scope), moment)
    dtype, found = _dtype(node.this, scope), expression(node.this, scope)
    whole, same = dtype.is_integer(), to == "TEXT" and isinstance(dtype, pl.String)
    if to not in _CAST or node.args["to"].expressions or not (whole or same or isinstance(dtype, pl.Null)):
        raise refused(node)
    return found.cast(_CAST[to], strict=True)


def _concat(node: Node, scope: Scope) -> pl.Expr:
    parts = node.expressions or [node.this, node.expression]
    return pl.concat_str([_text(one, scope) for one in parts], ignore_nulls=False)


def _coalesce(node: Node, scope: Scope) -> pl.Expr:
    return pl.coalesce(expression(one, scope) for one in (node.this, *node.expressions))


_ONE = frozenset({"this"})
_BOTH = frozenset({"this", "expression"})
_KNOWN: dict[Any, tuple[Callable[[Any, Scope], pl.Expr], frozenset[str]]] = {
    exp.Column: (_column, frozenset({"this", "table", "db"})),
    exp.Literal: (_literal, _ONE),
    exp.Boolean: (lambda node, _: pl.lit(bool(node.this)), _ONE),
    exp.Null: (lambda _, __: pl.lit(None), frozenset()),
    exp.Paren: (lambda node, scope: expression(node.this, scope), _ONE),
    exp.Neg: (_neg, _ONE),
    exp.Not: (lambda node, scope: ~expression(node.this, scope), _ONE),
    exp.And: (lambda node, scope: and_(expression(node.this, scope), expression(node.expression, scope)), _BOTH),
    exp.Or: (lambda node, scope: or_(expression(node.this, scope), expression(node.expression, scope)), _BOTH),
    exp.NullSafeEQ: (lambda node, scope: pl.Expr.eq_missing(*_two(node.this, node.expression, scope)), _BOTH),
    exp.Is: (_is, _BOTH),
    exp.In: (_in, frozenset({"this", "expressions"})),
    exp.Between: (_between, frozenset({"this", "low", "high"})),
    exp.Like: (_like, _BOTH),
    exp.Case: (_case, frozenset({"ifs", "default"})),
    exp.If: (_if, frozenset({"this", "true", "false"})),
    exp.Cast: (_cast, frozenset({"this", "to"})),
    exp.TryCast: (_cast, frozenset({"this", "to"})),
    exp.Coalesce: (_coalesce, frozenset({"this", "expressions"})),
    exp.Concat: (_concat, frozenset({"expressions"})),
    exp.DPipe: (_concat, _BOTH),
    exp.Upper: (lambda node, scope: _text(node.this, scope).str.to_uppercase(), _ONE),
    exp.Lower: (lambda node, scope: _text(node.this, scope).str.to_lowercase(), _ONE),
    exp.Length: (lambda node, scope: _text(node.this, scope).str.len_chars().cast(pl.Int32), _ONE),
    exp.Abs: (lambda node, scope: _wide(node.this, node.this, scope).abs(), _ONE),
}
"""By kind of node: what reads it, and which parts of it that takes; others are refused."""
