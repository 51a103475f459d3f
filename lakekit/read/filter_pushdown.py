"""Which conditions Polars and pyarrow may evaluate over the statistics of row groups; their pyarrow texts.

    pl.col("until") + 1 > 50        row group 100 … 2^63-1
        Polars: the greatest value is 2^63-1 + 1, which wraps to -2^63; no row of the group qualifies
    pl.col("s").cast(pl.Int32) > 5        rows "7" of today and "x" of yesterday
        the version "x" is merged away, and must not fail the query
    col("host") == "a.example"      ->      (pa.compute.field('host') == 'a.example')

Polars 2.1 evaluates the arithmetic of a filter over the least and greatest value of a row group and skips the group by
the result, which is wrong where a sum, difference, product or negation wraps. `block_statistics_pruning` adds a
`fill_null` of False to a condition: it selects the same rows, as a null condition selects none, and Polars evaluates a
`fill_null` over rows only.

Files have rows that the table does not have: older versions of a key, deleted rows. A condition that may raise for a
value must not be evaluated over them (`may_raise`).

Polars gives no pyarrow text for a filter with a text in it that has a dot, a quote or a backslash, as hosts, mail
addresses and file names have. Here an expression is taken apart with `meta.pop()`; its operator is found by combining
the parts again with each operator and comparing. If none matches, there is no text.
"""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from polars.lazyframe.resolver import FilterExpr


_COMPARISON_SIGNS = frozenset({"==", "!=", "<", "<=", ">", ">=", "==v", "!=v", "&", "|"})
_PLAIN_FUNCTIONS = frozenset(
    {"not", "is_null", "is_not_null", "is_in", "is_between", "cast", "strict_cast", "str.starts_with"}
)
_ARITHMETIC_SIGNS = frozenset({"+", "-", "*", "/", "//", "%"})
_SAFE_FUNCTIONS = (_PLAIN_FUNCTIONS - {"strict_cast"}) | {
    *(
        "when",
        "then",
        "otherwise",
        "coalesce",
        "fill_null",
        "fill_nan",
        "any_horizontal",
        "all_horizontal",
        "min_horizontal",
        "max_horizontal",
    ),
    *(
        "abs",
        "negate",
        "is_nan",
        "is_not_nan",
        "is_finite",
        "is_infinite",
        "struct.field_by_name",
        "list.length",
        "list.contains",
    ),
    *(
        "str.ends_with",
        "str.contains",
        "str.len_chars",
        "str.len_bytes",
        "str.to_lowercase",
        "str.to_uppercase",
        "str.strip_chars",
        "str.slice",
    ),
    *("dt.year", "dt.month", "dt.day", "dt.weekday", "dt.hour", "dt.minute", "dt.second", "dt.date"),
}
"""Functions, as Polars writes them, that give a value or null of every value of their types."""
_DECIMAL_POINT = re.compile(r"\d\.\d")
_OPERATOR_PATTERN, _FUNCTION_PATTERN = re.compile(r"\) (\S+) \("), re.compile(r"(?:[\])]|^|\()\.([\w.]+)\(")
"""How Polars writes `[(a) + (b)]`, `col("a").negate()` and `.when(…)`; texts in a condition may look so too, and are
then taken for it.
"""
_MAX_EXPR_CHARS = 1 << 16


def is_plain_comparison(expr: pl.Expr) -> bool:
    """Return whether a condition only compares columns and constants, as they are or cast."""
    text = str(expr)
    if len(text) > _MAX_EXPR_CHARS:
        return False
    return _COMPARISON_SIGNS.issuperset(_OPERATOR_PATTERN.findall(text)) and _PLAIN_FUNCTIONS.issuperset(
        _FUNCTION_PATTERN.findall(text)
    )


def block_statistics_pruning(expr: pl.Expr) -> pl.Expr:
    """Return an equivalent condition that is not evaluated over bounds."""
    return expr.fill_null(value=False)


def block_pruning_unless_plain(expr: pl.Expr) -> pl.Expr:
    """Return an equivalent condition that is not evaluated over bounds unless it is plain."""
    return expr if is_plain_comparison(expr) else block_statistics_pruning(expr)


def may_raise(expr: pl.Expr, schema: Mapping[str, pl.DataType]) -> bool:
    """Return whether a condition may raise an error because of a value in those columns.

    Examples are a text that is no number, and a sum that is too great.
    """
    text = str(expr)
    if len(text) > _MAX_EXPR_CHARS:
        return True
    operators = set(_OPERATOR_PATTERN.findall(text)) - _COMPARISON_SIGNS - {"^"}
    if not _SAFE_FUNCTIONS.issuperset(_FUNCTION_PATTERN.findall(text)) or not _ARITHMETIC_SIGNS.issuperset(operators):
        return True
    types = [schema[name] for name in expr.meta.root_names() if name in schema]
    return bool(operators) and not _is_safe_arithmetic(types, text)


def _is_safe_arithmetic(types: Sequence[pl.DataType], text: str) -> bool:
    """Return whether sums and products never fail: integers wrap; decimals and times may overflow."""
    has_floats = any(dtype.is_float() for dtype in types) or "Float" in text
    return all(dtype.is_integer() or dtype.is_float() or isinstance(dtype, pl.String) for dtype in types) and (
        has_floats or not _DECIMAL_POINT.search(text)
    )


# ---- filter text ------------------------------------------------------------


_FUNCTION_OF_SIGN: Mapping[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
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


def filter_to_pyarrow_text(filter_expr: FilterExpr) -> str | None:
    """Return the pyarrow text of a filter; None if there is none."""
    return filter_expr.pyarrow_str if filter_expr.pyarrow_str is not None else expr_to_pyarrow_text(filter_expr.expr)


def expr_to_pyarrow_text(expr: pl.Expr, depth: int = 0) -> str | None:
    """Return the pyarrow text of an expression of columns, texts, integers and booleans; None for any other."""
    if depth > _MAX_DEPTH:
        return None
    if expr.meta.is_literal():
        return _literal_text(expr)
    if expr.meta.is_column():
        return f"pa.compute.field({expr.meta.output_name()!r})"
    parts = expr.meta.pop()
    texts = [expr_to_pyarrow_text(part, depth + 1) for part in parts]
    if len(parts) == 1 and texts[0] is not None:
        return _format_unary(expr, parts[0], texts[0])
    if len(parts) == 2 and texts[0] is not None and texts[1] is not None:
        return _format_binary(expr, parts[1], parts[0], texts[1], texts[0])  # the last one comes first
    return None


def _format_unary(expr: pl.Expr, part: pl.Expr, text: str) -> str | None:
    if _equals_rebuilt(expr, lambda: ~part):
        return f"~({text})"
    if _equals_rebuilt(expr, part.is_null):
        return f"({text}).is_null()"
    return f"~(({text}).is_null())" if _equals_rebuilt(expr, part.is_not_null) else None


def _format_binary(expr: pl.Expr, left: pl.Expr, right: pl.Expr, left_text: str, right_text: str) -> str | None:
    for sign, combine in _FUNCTION_OF_SIGN.items():
        if _equals_rebuilt(expr, lambda combine=combine: combine(left, right)):  # type: ignore[misc] # bound now
            return f"({left_text} {sign} {right_text})"
    if right_text.startswith("[") and _equals_rebuilt(expr, lambda: left.is_in(right)):
        return f"({left_text}).isin({right_text})"
    if _equals_rebuilt(expr, lambda: left.str.starts_with(right)):
        return f"pa.compute.starts_with({left_text}, pattern={right_text})"
    return None


def _equals_rebuilt(expr: pl.Expr, rebuild: Callable[[], pl.Expr]) -> bool:
    try:
        return expr.meta.eq(rebuild())
    except (TypeError, pl.exceptions.PolarsError):
        return False


def _literal_text(expr: pl.Expr) -> str | None:
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
