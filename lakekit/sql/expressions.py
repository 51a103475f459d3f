"""Conditions and values of Spark's SQL, as Polars expressions with the same meaning.

    t.v + s.v * 2 > 7 AND d = '2024-03-31'
        ->   pl.col("v").cast(Int64) + lk.source("v")… > 7  &  pl.col("d") == date(2024, 3, 31)

A literal is a value and never text again. Numbers are widened as Spark widens them (`numeric_promotion`). What names no
column, as `current_date() - INTERVAL 3 DAYS` or a subquery, the backend computes once, before. What is not supported is
refused by its name: Spark computes it in the source of a MERGE, or in a SELECT.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import polars as pl

from lakekit.columns import col, struct_field
from lakekit.errors import ColumnNotFound, InvalidOption, SchemaMismatch, Unsupported
from lakekit.options.redaction import excerpt, without_secrets
from lakekit.sql import numeric_promotion
from lakekit.sql.numeric_promotion import TypedNumber
from lakekit.sql.tokenizer import TokenStream

try:
    import sqlglot
    from sqlglot import exp as exp  # noqa: PLC0414 - for those who walk along a tree
    from sqlglot.errors import SqlglotError
except ModuleNotFoundError as missing:
    message = "statements of SQL need sqlglot: pip install 'lakekit[sql]'"
    raise Unsupported(message, feature="catalog.sql") from missing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Node = Any
    """A node of sqlglot's tree."""

_COMPARISONS: Mapping[Any, Callable[[Any, Any], Any]] = {
    exp.EQ: eq,
    exp.NEQ: ne,
    exp.GT: gt,
    exp.GTE: ge,
    exp.LT: lt,
    exp.LTE: le,
}
_ARITHMETIC_SIGNS: Mapping[Any, str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "DIV",
}
_DIVISIONS = frozenset({"/", "%", "DIV"})
_CAST: Mapping[str, pl.DataType] = {
    "BIGINT": pl.Int64(),
    "INT": pl.Int32(),
    "SMALLINT": pl.Int16(),
    "TINYINT": pl.Int8(),
    "DOUBLE": pl.Float64(),
    "FLOAT": pl.Float32(),
    "TEXT": pl.String(),
}
_PARTS = 3
"""Of the name of a column: database, table, column."""
_IGNORED_ARGS = frozenset({"safe", "typed", "coalesce", "_type", "quoted", "is_string", "include", "nested"})
"""What sqlglot notes of a node that says nothing about its meaning here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementTableScope:
    """The columns of one table of a statement, under the names it may be called by.

    `prefix`: begins the names of its columns in the frame.
    """

    names: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    prefix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementScope:
    """The meaning of names in an expression.

    `zone`: the session's, in which texts are moments. `run_query`: returns the values of a query's only column,
    computed by the backend.
    """

    sides: tuple[StatementTableScope, ...]
    zone: str = "UTC"
    run_query: Callable[[str], pl.Series] | None = None
    """Returns the values of the only column of a query, computed by the backend."""

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """All columns, as the frame has them."""
        return {side.prefix + name: dtype for side in self.sides for name, dtype in side.columns.items()}

    def column(self, node: Node) -> str:
        """Return the frame's column that a name means.

        Raises: `ColumnNotFound`, `SchemaMismatch` where two tables have it.
        """
        name, table, database = (node.text(part) for part in ("this", "table", "db"))
        called = ".".join(part for part in (database, table) if part).lower()
        matches = [
            side.prefix + own
            for side in self.sides
            if not called or called in side.names
            for own in side.columns
            if own == name or (own.lower() == name.lower() and name not in side.columns)
        ]
        if len(matches) > 1:
            raise SchemaMismatch(
                f"{node.sql('spark')} is a column of both tables: write "
                f"{' or '.join(f'{side.names[-1]}.{name}' for side in self.sides)}"
            )
        if not matches:
            available = ", ".join(f"{side.names[-1]}.{own}" for side in self.sides for own in side.columns)
            raise ColumnNotFound(f"{node.sql('spark')} is no column here; there are {available}", name=name)
        return matches[0]


def parse_tree(text: str, what: str, *, reads_texts: bool = True) -> Node:
    """Return the tree of a statement or an expression.

    sqlglot takes a doubled quote for the end of a text and the beginning of another, as Spark did before version 4.

    Raises: `InvalidOption` for an invalid text, and for a backslash in a text literal, where `reads_texts`.
    """
    tokens = TokenStream.of(text, "spark")
    if reads_texts and (escaped := next((word for word in tokens.texts if "\\" in word.text), None)):
        msg = (
            f"{escaped.text}: texts have no backslashes in DELETE, UPDATE and MERGE; a quote is doubled, other signs "
            "are written as they are"
        )
        raise InvalidOption(msg, key="sql", value=escaped.text)
    failure: str | None = None
    try:
        tree = sqlglot.parse_one(tokens.escaped, read="spark", error_level=sqlglot.ErrorLevel.RAISE)
    except SqlglotError as wrong:
        failure = _failure_of(wrong)
    if failure is not None:  # outside of the block: sqlglot's error quotes the statement
        raise InvalidOption(f"no {what} that lakekit understands: {failure} In: {excerpt(text)}", key="sql")
    if isinstance(tree, exp.Command):
        raise InvalidOption(f"no {what} that lakekit understands: {excerpt(text)}", key="sql")
    return tree


def _failure_of(wrong: SqlglotError) -> str:
    """Return sqlglot's message on a statement, without the part of it that it quotes."""
    errors = getattr(wrong, "errors", None)
    if not errors:
        return "a word of it cannot be read."
    first = errors[0]
    return f"{without_secrets(str(first['description']))}. Line {first['line']}, Col: {first['col']}."


def expression(node: Node, scope: StatementScope) -> pl.Expr:
    """Return the Polars expression of a tree.

    Raises: `Unsupported` for what is not computed here, `ColumnNotFound`, `SchemaMismatch`.
    """
    try:
        return _build_expression(node, scope)
    except (Unsupported, SchemaMismatch, ColumnNotFound) as wrong:
        if scope.run_query is None or not _is_constant(node):
            raise
        refusal = wrong
    try:
        values = scope.run_query(f"SELECT {node.sql('spark')} AS value")
    except InvalidOption:  # the backend cannot compute it either
        raise refusal from None
    if values.dtype.is_nested():  # a literal of a list would be its elements, one a row
        return pl.lit([values.to_list()[0]], pl.List(values.dtype)).list.first()  # scalar: one value
    return pl.lit(values[0], values.dtype)


def _is_constant(node: Node) -> bool:
    """Return whether the backend can compute the value without a row, and the same every time.

    It has no column outside of subqueries, and no zero to divide by.
    """
    if any(part.find_ancestor(exp.Query) is None for part in node.find_all(exp.Column, exp.Div, exp.Mod, exp.IntDiv)):
        return False
    return next(node.find_all(*_NOT_CONSTANT), None) is None


def _build_expression(node: Node, scope: StatementScope) -> pl.Expr:
    kind = type(node)
    if kind in _COMPARISONS:
        left, right = _comparable_pair(node.this, node.expression, scope)
        return _COMPARISONS[kind](left, right)
    if kind in _ARITHMETIC_SIGNS:
        return _build_arithmetic(node, scope)
    if kind not in _NODE_BUILDERS:
        raise unsupported_node(node)
    reads, takes = _NODE_BUILDERS[kind]
    if any(value for key, value in node.args.items() if key not in takes and key not in _IGNORED_ARGS):
        raise unsupported_node(node)
    return reads(node, scope)


def unsupported_node(node: Node) -> Unsupported:
    """Return the error for what is not computed here."""
    msg = (
        f"{node.sql('spark')} is not computed in DELETE, UPDATE and MERGE: columns, literals, + - * / % DIV, "
        "comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, "
        "IS, CASE, IF, COALESCE, NULLIF, CAST, CONCAT, UPPER, LOWER, LENGTH, ABS and what names no column are. "
        "Compute it in the source of a MERGE, or "
        "give `update` a Polars expression"
    )
    return Unsupported(msg, feature="catalog.sql")


# ---- literals ------------------------------------------------------------------------------------


def _literal(node: Node, scope: StatementScope) -> pl.Expr:  # noqa: ARG001 - as its kind
    value = _value(node)
    return numeric_promotion.decimal_literal(value).expr if isinstance(value, Decimal) else pl.lit(value)


def _value(node: Node) -> str | int | float | Decimal:
    """Return a literal's value: with a point it is a DECIMAL, with an exponent a DOUBLE."""
    text = str(node.this)
    if node.is_string:
        return text
    if text.isdecimal():
        return int(text)
    if "e" in text.lower():
        return float(text)
    value = Decimal(text)
    if len(value.as_tuple().digits) > numeric_promotion.MAX_PRECISION:
        raise SchemaMismatch(f"{text} has more digits than a DECIMAL holds")
    return value


def _comparable_pair(left: Node, right: Node, scope: StatementScope) -> tuple[pl.Expr, pl.Expr]:
    """Return two values to compare: a literal is read as the other's type.

    Spark does so with texts that are days or moments.
    """
    first, second = _build_operand(left, right, scope), _build_operand(right, left, scope)
    dtypes = _dtype(first, left, scope), _dtype(second, right, scope)
    if all(dtype.is_numeric() for dtype in dtypes):
        pair = numeric_promotion.promote_for_comparison(
            TypedNumber(expr=first, dtype=dtypes[0]), TypedNumber(expr=second, dtype=dtypes[1])
        )
        return pair[0].expr, pair[1].expr
    if all(isinstance(dtype, (pl.Date, pl.Datetime)) for dtype in dtypes):
        return _align_datetime(left, first, dtypes, scope), _align_datetime(right, second, dtypes[::-1], scope)
    return first, second


def _align_datetime(node: Node, expr: pl.Expr, dtypes: Sequence[pl.DataType], scope: StatementScope) -> pl.Expr:
    """Return a day or a moment of the first type, comparable with one of the second.

    A day begins in the session's zone, where a moment without a zone is one too.
    """
    own, other = dtypes
    if isinstance(own, pl.Date) and isinstance(other, pl.Datetime):
        expr, own = expr.cast(pl.Datetime("us")), pl.Datetime("us")
    zones = [getattr(dtype, "time_zone", None) for dtype in (own, other)]
    if zones[0] == zones[1] or isinstance(other, pl.Date) or not _is_constant(node):
        return expr
    if zones[1] is not None:
        return expr.dt.replace_time_zone(scope.zone, ambiguous="earliest").dt.convert_time_zone(zones[1])
    return expr.dt.convert_time_zone(scope.zone).dt.replace_time_zone(None)


def _build_operand(node: Node, other: Node, scope: StatementScope) -> pl.Expr:
    plain = (
        node.this
        if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and type_of(node) in ("DATE", "TIMESTAMP")
        else node
    )
    if not isinstance(plain, exp.Literal) or isinstance(other, exp.Literal):
        return expression(node, scope)
    dtype = dtype_of(other, scope)
    if plain.is_string and isinstance(dtype, (pl.Date, pl.Datetime)):
        return pl.lit(moment(str(plain.this), dtype, scope), dtype)
    if plain.is_string != isinstance(dtype, pl.String) and not isinstance(dtype, pl.Null) and plain is node:
        raise SchemaMismatch(
            f"{node.sql('spark')} is compared with {other.sql('spark')}, which is {dtype}: write it as that type, or "
            "CAST it"
        )
    return expression(node, scope)


def moment(text: str, dtype: pl.DataType, scope: StatementScope) -> date | datetime:
    """Return a text as a value of a column of days or moments. Raises `SchemaMismatch` if it is none."""
    try:
        value = datetime.fromisoformat(text.strip())
    except ValueError:
        raise SchemaMismatch(f"{text!r} is no day or moment; write '2024-03-31' or '2024-03-31 12:00:00'") from None
    if isinstance(dtype, pl.Date):
        if (value.hour, value.minute, value.second, value.microsecond) != (0, 0, 0, 0):
            raise SchemaMismatch(f"{text!r} is compared with a day, and is a moment")
        return value.date()
    zone = getattr(dtype, "time_zone", None)
    if zone is None:
        if value.tzinfo is not None:
            raise SchemaMismatch(f"{text!r} is compared with a moment without a zone, and has one: leave the zone out")
        return value
    return (value if value.tzinfo is not None else value.replace(tzinfo=ZoneInfo(scope.zone))).astimezone(
        ZoneInfo(zone)
    )


def dtype_of(node: Node, scope: StatementScope) -> pl.DataType:
    """Return the type of a tree's expression.

    Raises what `expression` raises, `SchemaMismatch` where it does not fit its columns.
    """
    return _dtype(expression(node, scope), node, scope)


def _dtype(expr: pl.Expr, node: Node, scope: StatementScope) -> pl.DataType:
    try:
        return pl.LazyFrame(schema=scope.schema).select(expr.alias("")).collect_schema().dtypes()[0]
    except pl.exceptions.PolarsError as wrong:
        raise SchemaMismatch(f"{node.sql('spark')} does not fit its columns: {wrong}") from None


# ---- what there is -------------------------------------------------------------------------------


def _column(node: Node, scope: StatementScope) -> pl.Expr:
    """Return a column, or a part of one: `r.a.b`, also with its table before it."""
    path = [part for part in node.parts if isinstance(part, exp.Identifier)]
    wrong = ColumnNotFound(f"{node.sql('spark')} is no column here", name=node.name)
    for end in range(len(path), 0, -1):
        column = exp.Column(
            **dict(zip(("this", "table", "db"), [part.copy() for part in path[end - 1 :: -1]], strict=False))
        )
        try:
            name = scope.column(column) if end <= _PARTS else None
        except ColumnNotFound as missing:
            wrong = missing if end == len(path) else wrong
            continue
        expr = None if name is None else _part(name, [identifier.name for identifier in path[end:]], scope)
        if expr is not None:
            return expr
    raise wrong


def _part(name: str, fields: list[str], scope: StatementScope) -> pl.Expr | None:
    """Return the part of a column that names lead to; None where it has none of that name."""
    expr, dtype = col(name), scope.schema[name]
    for field in fields:
        parts: dict[str, Any] = (
            {member.name: member.dtype for member in dtype.fields} if isinstance(dtype, pl.Struct) else {}
        )
        if field not in parts:
            return None
        expr, dtype = struct_field(expr, field), parts[field]
    return expr


def _build_arithmetic(node: Node, scope: StatementScope) -> pl.Expr:
    sides = [node.this, node.expression]
    dtypes = [dtype_of(side, scope) for side in sides]
    for side, dtype in zip(sides, dtypes, strict=True):
        if not dtype.is_numeric() and not isinstance(dtype, pl.Null):
            raise SchemaMismatch(
                f"{node.sql('spark')} computes with {side.sql('spark')}, which is {dtype} and no number"
            )
    if any(isinstance(dtype, pl.Null) for dtype in dtypes):
        return pl.lit(None, next((dtype for dtype in dtypes if not isinstance(dtype, pl.Null)), pl.Null()))
    sign = _ARITHMETIC_SIGNS[type(node)]
    if sign in _DIVISIONS and not _is_nonzero_constant(node.expression):
        divisor = node.expression.sql("spark")
        msg = (
            f"{node.sql('spark')}: Spark fails where {divisor} is zero; divide by a number, or by NULLIF({divisor}, 0)"
        )
        raise Unsupported(msg, feature="catalog.sql")
    number = numeric_promotion.compute_arithmetic(
        sign, *(_number(side, dtype, scope) for side, dtype in zip(sides, dtypes, strict=True))
    )
    if number is None:
        raise unsupported_node(node)
    return number.expr


def _number(node: Node, dtype: pl.DataType, scope: StatementScope) -> TypedNumber:
    expr = expression(node, scope)
    if (
        isinstance(node, exp.Literal) and dtype.is_integer()
    ):  # of as many digits as it is written with, beside a DECIMAL
        small = next(small for small, digits in _INTEGER_DIGITS if len(str(node.this)) <= digits)
        return TypedNumber(expr=expr.cast(small), dtype=small)
    return TypedNumber(expr=expr, dtype=dtype)


def _is_nonzero_constant(node: Node) -> bool:
    """Return True if a divisor is a number other than zero, or is NULL in place of zero."""
    least = 0.0
    while isinstance(node, (exp.Paren, exp.Neg, exp.Cast)):
        least = 1.0 if isinstance(node, exp.Cast) else least  # a value below 1 may be cut to zero
        node = node.this
    if isinstance(node, exp.Nullif):
        zero = node.expression
        return isinstance(zero, exp.Literal) and not zero.is_string and not float(str(zero.this))
    if not isinstance(node, exp.Literal) or node.is_string:
        return False
    value = float(str(node.this))
    return value > 0 and value >= least


def _widen_integer(node: Node, scope: StatementScope) -> pl.Expr:
    expr = expression(node, scope)
    return expr.cast(pl.Int64) if dtype_of(node, scope).is_integer() else expr


def _neg(node: Node, scope: StatementScope) -> pl.Expr:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        value = _value(node.this)
        assert not isinstance(value, str)
        return numeric_promotion.decimal_literal(-value).expr if isinstance(value, Decimal) else pl.lit(-value)
    return -_widen_integer(node.this, scope)


def _is(node: Node, scope: StatementScope) -> pl.Expr:
    expr = expression(node.this, scope)
    if isinstance(node.expression, exp.Null):
        return expr.is_null()
    if isinstance(node.expression, exp.Boolean):
        return expr.eq_missing(pl.lit(bool(node.expression.this)))
    raise unsupported_node(node)


def _in(node: Node, scope: StatementScope) -> pl.Expr:
    if node.args.get("query") is not None:
        return _build_in_subquery(node, scope)
    if not node.expressions:
        raise unsupported_node(node)
    return reduce(or_, [eq(*_comparable_pair(node.this, item, scope)) for item in node.expressions])


def _build_in_subquery(node: Node, scope: StatementScope) -> pl.Expr:
    """Return whether a value is among those of a subquery; a null among them may leave it unknown."""
    if scope.run_query is None:
        raise unsupported_node(node)
    values, dtype = scope.run_query(node.args["query"].this.sql("spark")), dtype_of(node.this, scope)
    expr, choices = expression(node.this, scope), values.drop_nulls().unique()
    if dtype.is_integer() and choices.dtype.is_integer():
        expr, choices = expr.cast(pl.Int64), choices.cast(pl.Int64)
    elif isinstance(dtype, pl.Decimal) and isinstance(choices.dtype, pl.Decimal):
        both = pl.Decimal(numeric_promotion.MAX_PRECISION, max(dtype.scale, choices.dtype.scale))
        expr, choices = expr.cast(both), choices.cast(both)
    elif (
        isinstance(dtype, pl.Datetime)
        and isinstance(choices.dtype, pl.Datetime)
        and dtype.time_zone == choices.dtype.time_zone
    ):
        choices = choices.cast(dtype)
    elif dtype != choices.dtype and len(choices):
        raise SchemaMismatch(
            f"{node.this.sql('spark')} is {dtype}, and the query gives {choices.dtype}: CAST one of them"
        )
    if not len(values):
        return pl.lit(False)
    is_in = expr.is_in(choices.implode()) if len(choices) else pl.when(expr.is_not_null()).then(None).cast(pl.Boolean)
    return is_in if len(choices) and not values.null_count() else pl.when(is_in).then(True).otherwise(None)


def _between(node: Node, scope: StatementScope) -> pl.Expr:
    low = _comparable_pair(node.this, node.args["low"], scope)
    high = _comparable_pair(node.this, node.args["high"], scope)
    return ge(*low) & le(*high)


def _like(node: Node, scope: StatementScope) -> pl.Expr:
    if not isinstance(node.expression, exp.Literal) or "\\" in node.expression.this:
        raise unsupported_node(node)
    pattern = "".join({"%": ".*", "_": "."}.get(sign, re.escape(sign)) for sign in str(node.expression.this))
    return _text(node.this, scope).str.contains(f"(?s)^{pattern}$")


def _text(node: Node, scope: StatementScope) -> pl.Expr:
    dtype = dtype_of(node, scope)
    if not isinstance(dtype, (pl.String, pl.Null)):
        raise SchemaMismatch(f"{node.sql('spark')} is {dtype} and no text: CAST it to STRING")
    return expression(node, scope)


def _case(node: Node, scope: StatementScope) -> pl.Expr:
    default, subject = node.args.get("default"), node.args.get("this")
    result = pl.lit(None) if default is None else expression(default, scope)
    for branch in reversed(node.args["ifs"]):
        is_so = (
            expression(branch.this, scope) if subject is None else eq(*_comparable_pair(subject, branch.this, scope))
        )
        result = pl.when(is_so).then(expression(branch.args["true"], scope)).otherwise(result)
    return result


def _if(node: Node, scope: StatementScope) -> pl.Expr:
    other = node.args.get("false")
    then = expression(node.args["true"], scope)
    otherwise = pl.lit(None) if other is None else expression(other, scope)
    return pl.when(expression(node.this, scope)).then(then).otherwise(otherwise)


def type_of(node: Node) -> str:
    """Return the name of the type that a CAST names; TIMESTAMP for each kind of it."""
    name = str(node.args["to"].this.name)
    return "TIMESTAMP" if name.startswith("TIMESTAMP") else name


def _cast(node: Node, scope: StatementScope) -> pl.Expr:
    to, literal = type_of(node), node.this
    if isinstance(literal, exp.Literal) and literal.is_string and to in ("DATE", "TIMESTAMP"):
        kind: pl.DataType = pl.Date() if to == "DATE" else pl.Datetime("us")
        return pl.lit(moment(str(literal.this), kind, scope), kind)
    expr, dtype, wanted = expression(node.this, scope), dtype_of(node.this, scope), _cast_target(node.args["to"], to)
    if wanted is None or not (
        isinstance(dtype, pl.Null) or dtype == wanted or numeric_promotion.cast_agrees_with_spark(dtype, wanted)
    ):
        raise unsupported_node(node)
    return expr.cast(wanted, strict=True)


def _cast_target(to: Node, name: str) -> pl.DataType | None:
    """Return the type that a CAST names; None for one that is not supported."""
    sizes = [int(str(size.this.this)) for size in to.expressions]
    if name == "DECIMAL":
        digits, scale = (*sizes, *(10, 0)[len(sizes) :])
        return pl.Decimal(digits, scale)
    return None if sizes else _CAST.get(name)


def _concat(node: Node, scope: StatementScope) -> pl.Expr:
    parts = node.expressions or [node.this, node.expression]
    return pl.concat_str([_text(part, scope) for part in parts], ignore_nulls=False)


def _coalesce(node: Node, scope: StatementScope) -> pl.Expr:
    return pl.coalesce(expression(part, scope) for part in (node.this, *node.expressions))


def _nullif(node: Node, scope: StatementScope) -> pl.Expr:
    is_equal = eq(*_comparable_pair(node.this, node.expression, scope))
    return pl.when(is_equal).then(None).otherwise(expression(node.this, scope))


_INTEGER_DIGITS: Sequence[tuple[pl.DataType, int]] = (
    (pl.Int8(), 2),
    (pl.Int16(), 4),
    (pl.Int32(), 9),
    (pl.Int64(), 99),
)
"""Types of whole numbers, each with the digits that always fit."""
_NOT_CONSTANT = (exp.Rand, exp.Randn, exp.Uuid, exp.Anonymous, exp.Star)
"""What is another value each time, or may be, as a function that is not known may."""
_UNARY_ARGS = frozenset({"this"})
_BINARY_ARGS = frozenset({"this", "expression"})
_NODE_BUILDERS: dict[Any, tuple[Callable[[Any, StatementScope], pl.Expr], frozenset[str]]] = {
    exp.Column: (_column, frozenset({"this", "table", "db", "catalog"})),
    exp.Literal: (_literal, _UNARY_ARGS),
    exp.Boolean: (lambda node, _: pl.lit(bool(node.this)), _UNARY_ARGS),
    exp.Null: (lambda _, __: pl.lit(None), frozenset()),
    exp.Paren: (lambda node, scope: expression(node.this, scope), _UNARY_ARGS),
    exp.Neg: (_neg, _UNARY_ARGS),
    exp.Not: (lambda node, scope: ~expression(node.this, scope), _UNARY_ARGS),
    exp.And: (lambda node, scope: and_(expression(node.this, scope), expression(node.expression, scope)), _BINARY_ARGS),
    exp.Or: (lambda node, scope: or_(expression(node.this, scope), expression(node.expression, scope)), _BINARY_ARGS),
    exp.NullSafeEQ: (
        lambda node, scope: pl.Expr.eq_missing(*_comparable_pair(node.this, node.expression, scope)),
        _BINARY_ARGS,
    ),
    exp.Is: (_is, _BINARY_ARGS),
    exp.In: (_in, frozenset({"this", "expressions", "query"})),
    exp.Between: (_between, frozenset({"this", "low", "high"})),
    exp.Like: (_like, _BINARY_ARGS),
    exp.Case: (_case, frozenset({"this", "ifs", "default"})),
    exp.If: (_if, frozenset({"this", "true", "false"})),
    exp.Cast: (_cast, frozenset({"this", "to"})),
    exp.TryCast: (_cast, frozenset({"this", "to"})),
    exp.Nullif: (_nullif, _BINARY_ARGS),
    exp.Coalesce: (_coalesce, frozenset({"this", "expressions"})),
    exp.Concat: (_concat, frozenset({"expressions"})),
    exp.DPipe: (_concat, _BINARY_ARGS),
    exp.Upper: (lambda node, scope: _text(node.this, scope).str.to_uppercase(), _UNARY_ARGS),
    exp.Lower: (lambda node, scope: _text(node.this, scope).str.to_lowercase(), _UNARY_ARGS),
    exp.Length: (lambda node, scope: _text(node.this, scope).str.len_chars().cast(pl.Int32), _UNARY_ARGS),
    exp.Abs: (lambda node, scope: _widen_integer(node.this, scope).abs(), _UNARY_ARGS),
}
"""By kind of node: what reads it, and which parts of it that takes; others are refused."""
