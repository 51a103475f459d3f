"""Pyarrow texts for conditions that Polars does not convert.

Polars gives no pyarrow text for a filter with a text in it that has a dot, a quote or a backslash, as hosts, mail
addresses and file names have:

    col("host") == "a.example"      ->      (pa.compute.field('host') == 'a.example')

An expression is taken apart with `meta.pop()`; its operator is found by combining the parts again with each operator
and comparing. If none matches, there is no text.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from polars.lazyframe.resolver import FilterExpr


_OPERATORS: Mapping[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "&": operator.and_,
    "|": operator.or_,
}
_MAX_DEPTH = 64


def pyarrow_text(filter_expr: FilterExpr) -> str | None:
    """Return the pyarrow text of a filter; None if there is none."""
    return filter_expr.pyarrow_str if filter_expr.pyarrow_str is not None else pyarrow_text_of_expr(filter_expr.expr)


def pyarrow_text_of_expr(expr: pl.Expr, depth: int = 0) -> str | None:
    """Return the pyarrow text of an expression of columns, texts, integers and booleans; None for any other."""
    if depth > _MAX_DEPTH:
        return None
    if expr.meta.is_literal():
        return _literal(expr)
    if expr.meta.is_column():
        return f"pa.compute.field({expr.meta.output_name()!r})"
    parts = expr.meta.pop()
    texts = [pyarrow_text_of_expr(part, depth + 1) for part in parts]
    if len(parts) == 1 and texts[0] is not None:
        return _format_unary(expr, parts[0], texts[0])
    if len(parts) == 2 and texts[0] is not None and texts[1] is not None:
        return _format_binary(expr, parts[1], parts[0], texts[1], texts[0])  # the last one comes first
    return None


def _format_unary(expr: pl.Expr, part: pl.Expr, text: str) -> str | None:
    if _is_same(expr, lambda: ~part):
        return f"~({text})"
    if _is_same(expr, part.is_null):
        return f"({text}).is_null()"
    return f"~(({text}).is_null())" if _is_same(expr, part.is_not_null) else None


def _format_binary(expr: pl.Expr, left: pl.Expr, right: pl.Expr, left_text: str, right_text: str) -> str | None:
    for sign, combine in _OPERATORS.items():
        if _is_same(expr, lambda combine=combine: combine(left, right)):  # type: ignore[misc] # bound now
            return f"({left_text} {sign} {right_text})"
    if right_text.startswith("[") and _is_same(expr, lambda: left.is_in(right)):
        return f"({left_text}).isin({right_text})"
    if _is_same(expr, lambda: left.str.starts_with(right)):
        return f"pa.compute.starts_with({left_text}, pattern={right_text})"
    return None


def _is_same(expr: pl.Expr, other: Callable[[], pl.Expr]) -> bool:
    try:
        return expr.meta.eq(other())
    except (TypeError, pl.exceptions.PolarsError):
        return False


def _literal(expr: pl.Expr) -> str | None:
    try:
        value = pl.select(expr).to_series()
    except pl.exceptions.PolarsError:
        return None
    if value.len() != 1 or not (
        value.dtype.is_integer() or value.dtype in (pl.String(), pl.Boolean(), pl.List(pl.String()))
    ):
        return None  # of others Python may have no value at all: a time in the year 10000
    item = value.item()
    if isinstance(item, pl.Series):
        items = item.to_list()  # scalar: the values of a filter
        return None if None in items else repr(items)
    return None if item is None else repr(item)
