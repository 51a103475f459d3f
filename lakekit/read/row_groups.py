"""Conditions that Polars must not evaluate over the bounds of row groups, or over rows that are not the table's.

    pl.col("until") + 1 > 50        row group 100 … 2^63-1
        Polars: the greatest value is 2^63-1 + 1, which wraps to -2^63; no row of the group qualifies

Polars 2.1 runs the arithmetic of a filter over the least and greatest value of a row group and skips the group by the
result, which is wrong where a sum, difference, product or negation wraps. A condition that is null is no more true than
one that is false, and `fill_null` is evaluated over rows alone.

    pl.col("s").cast(pl.Int32) > 5        rows "7" of today and "x" of yesterday
        the version "x" is merged away, and must not fail the query

Files have rows that the table does not have: older versions of a key, deleted rows. A condition that may fail for a
value must not see them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">=", "==v", "!=v", "&", "|"})
_FUNCTIONS = frozenset(
    {"not", "is_null", "is_not_null", "is_in", "is_between", "cast", "strict_cast", "str.starts_with"}
)
_ARITHMETIC = frozenset({"+", "-", "*", "/", "//", "%"})
_SAFE_FUNCTIONS = (_FUNCTIONS - {"strict_cast"}) | {
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
_POINT = re.compile(r"\d\.\d")
_OPERATOR, _FUNCTION = re.compile(r"\) (\S+) \("), re.compile(r"(?:[\])]|^|\()\.([\w.]+)\(")
"""How Polars writes `[(a) + (b)]`, `col("a").negate()` and `.when(…)`; texts in a condition may look so too, and are
then taken for it.
"""
_MOST_LETTERS = 1 << 16


def is_plain(expr: pl.Expr) -> bool:
    """Return whether a condition only compares columns and constants, as they are or cast."""
    text = str(expr)
    if len(text) > _MOST_LETTERS:
        return False
    return _COMPARISONS.issuperset(_OPERATOR.findall(text)) and _FUNCTIONS.issuperset(_FUNCTION.findall(text))


def hide(expr: pl.Expr) -> pl.Expr:
    """Return an equivalent condition that is not evaluated over bounds."""
    return expr.fill_null(value=False)


def hide_calculated(expr: pl.Expr) -> pl.Expr:
    """Return an equivalent condition that is not evaluated over bounds unless it is plain."""
    return expr if is_plain(expr) else hide(expr)


def may_fail(expr: pl.Expr, schema: Mapping[str, pl.DataType]) -> bool:
    """Return whether a condition may raise an error because of a value in those columns.

    Examples are a text that is no number, and a sum that is too great.
    """
    text = str(expr)
    if len(text) > _MOST_LETTERS:
        return True
    operators = set(_OPERATOR.findall(text)) - _COMPARISONS - {"^"}
    if not _SAFE_FUNCTIONS.issuperset(_FUNCTION.findall(text)) or not _ARITHMETIC.issuperset(operators):
        return True
    types = [schema[name] for name in expr.meta.root_names() if name in schema]
    return bool(operators) and not _is_safe_arithmetic(types, text)


def _is_safe_arithmetic(types: Sequence[pl.DataType], text: str) -> bool:
    """Return whether sums and products of such values never fail.

    Integers wrap; decimals and times may overflow.
    """
    has_floats = any(dtype.is_float() for dtype in types) or "Float" in text
    return all(dtype.is_integer() or dtype.is_float() or isinstance(dtype, pl.String) for dtype in types) and (
        has_floats or not _POINT.search(text)
    )
