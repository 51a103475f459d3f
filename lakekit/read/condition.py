"""Parser of the text in which Polars hands a filter to a reader, to a `Predicate`.

    "((pa.compute.field('k') >= 5) & (pa.compute.field('s')).isin(["a","b"]))"
        ->   And((Leaf("k", ">=", (5,)), Leaf("s", "in", ("a", "b"))))

`FilterExpr.pyarrow_str` is public and covers comparisons, ranges, sets, prefixes and null tests. What is not understood
becomes `TRUE`: the file is kept, and Polars filters its rows. The text is parsed with `ast` and never evaluated.
"""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from lakekit.predicate import FALSE, TRUE, Leaf, Predicate, conjunction, disjunction, negate, operators, restrict
from lakekit.types import Instant

if TYPE_CHECKING:
    import polars as pl

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "=",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_UNIT_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000}
_MAX_TEXT = 1 << 20
"""A longer filter (a set of very many literals) is not worth parsing: it prunes little and costs much."""


@dataclass(frozen=True, slots=True)
class ScanFilter:
    """A filter as planning uses it.

    `predicate` is a necessary condition; `on_partition` and `on_key` are the conjuncts that use partition columns, or
    key columns, alone.
    """

    predicate: Predicate = TRUE
    on_partition: tuple[pl.Expr, ...] = ()
    on_key: tuple[pl.Expr, ...] = ()


class _NotUnderstood(Exception):
    pass


def predicate_of(text: str | None) -> Predicate:
    """Return the predicate of a filter's pyarrow text, with `TRUE` for what was not understood."""
    try:
        node = _parse_expression(text)
        return TRUE if node is None else _condition(node)
    except RecursionError:
        return TRUE


def parse_exact(text: str | None) -> Predicate | None:
    """Return the predicate that is equivalent to a filter's text; None if some of it was not understood."""
    try:
        node = _parse_expression(text)
        predicate = (
            _condition(node)
            if node is not None and _is_fully_understood(node) and not _has_inexact_negation(node)
            else None
        )
    except RecursionError:
        return None
    return None if predicate is None or "not in" in operators(predicate) else predicate


def _has_inexact_negation(node: ast.expr) -> bool:
    """Return whether an expression negates what has no exact negation.

    That is a prefix test; and a set without values, which is written as false and is null for a null.
    """
    for part in ast.walk(node):
        if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Invert):
            is_false = any(isinstance(inner, ast.Constant) and inner.value is False for inner in ast.walk(part.operand))
            if is_false or "starts with" in operators(_condition(part.operand)):
                return True
    return False


def _parse_expression(text: str | None) -> ast.expr | None:
    if text is None or len(text) > _MAX_TEXT:
        return None
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _condition(node: ast.expr) -> Predicate:
    match node:
        case ast.BinOp(left, ast.BitAnd(), right):
            return conjunction([_condition(left), _condition(right)])
        case ast.BinOp(left, ast.BitOr(), right):
            return disjunction([_condition(left), _condition(right)])
        case ast.UnaryOp(ast.Invert(), operand):
            return restrict(negate(_condition(operand)), _or_null) if _is_fully_understood(operand) else TRUE
    try:
        return _leaf(node)
    except _NotUnderstood:
        return TRUE


def _or_null(leaf: Leaf) -> Predicate:
    """Return the leaf, or true for nulls if it is a "not in".

    `isin` of a null is false and not null if the set is tested with `nulls_equal`, which the text does not show: its
    negation may be true for nulls.
    """
    return disjunction([leaf, Leaf(leaf.column, "is null")]) if leaf.op == "not in" else leaf


def _is_fully_understood(node: ast.expr) -> bool:
    """Return whether every part of a condition was understood: only then does its negation follow."""
    match node:
        case ast.BinOp(left, ast.BitAnd() | ast.BitOr(), right):
            return _is_fully_understood(left) and _is_fully_understood(right)
        case ast.UnaryOp(ast.Invert(), operand):
            return _is_fully_understood(operand)
    try:
        _leaf(node)
    except _NotUnderstood:
        return False
    return True


def _leaf(node: ast.expr) -> Predicate:
    match node:
        case ast.Compare(left, [op], [right]) if type(op) in _COMPARISONS:
            word = _COMPARISONS[type(op)]
            if (column := _column(left)) is not None:
                return Leaf(column, word, (_value(right),))
            if (column := _column(right)) is not None:
                return Leaf(column, _MIRRORED[word], (_value(left),))
        case ast.Call(ast.Attribute(target, "isin"), [ast.List(items)]) if (column := _column(target)) is not None:
            return Leaf(column, "in", tuple(_value(item) for item in items))
        case ast.Call(ast.Attribute(target, "is_null"), []) if (column := _column(target)) is not None:
            return Leaf(column, "is null")
        case ast.Call(func, [target], [ast.keyword("pattern", pattern)]) if (
            _dotted_name(func) == "pa.compute.starts_with"
        ):
            prefix = _value(pattern)
            if (column := _column(target)) is not None and isinstance(prefix, str):
                return Leaf(column, "starts with", (prefix,))
        case ast.Call(func, [ast.Constant(bool(value))]) if _dotted_name(func) == "pa.compute.scalar":
            return TRUE if value else FALSE
    if (column := _column(node)) is not None:
        return Leaf(column, "=", (True,))
    raise _NotUnderstood


def _column(node: ast.expr) -> str | None:
    """Return the name in `pa.compute.field('name')`; a path into a struct is no column."""
    match node:
        case ast.Call(func, [ast.Constant(str(name))], []) if _dotted_name(func) == "pa.compute.field":
            return name
    return None


def _dotted_name(node: ast.expr) -> str:
    match node:
        case ast.Name(name):
            return name
        case ast.Attribute(target, name):
            return f"{_dotted_name(target)}.{name}"
    return ""


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(bool() | int() | str() | bytes() as value):
            return value
        case ast.Constant(float(value)) if math.isfinite(value):
            return value
        case ast.UnaryOp(ast.USub(), operand):
            value = _value(operand)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return -value
        case ast.Call(ast.Name("to_py_date"), [days]):
            return _date(_parse_integer(days))
        case ast.Call(ast.Name("to_py_datetime"), [ticks, ast.Constant(str(unit)), *_zone]) if unit in _UNIT_NS:
            millis, nanos = divmod(_parse_integer(ticks) * _UNIT_NS[unit], 1_000_000)
            return Instant(millis, nanos)
    raise _NotUnderstood


def _date(days: int) -> date:
    try:
        return date(1970, 1, 1) + timedelta(days=days)
    except OverflowError:
        raise _NotUnderstood from None


def _parse_integer(node: ast.expr) -> int:
    value = _value(node)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 2**63:
        raise _NotUnderstood
    return value
