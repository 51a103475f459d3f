"""Conditions that calculate, in a form that Polars does not evaluate over the bounds of row groups.

    pl.col("until") + 1 > 50        row group 100 … 2^63-1        Polars: the greatest value is 2^63-1 + 1, which wraps to -2^63; no row of the group qualifies

Polars 2.1 runs the arithmetic of a filter over the least and greatest value of a row group and skips the group by the result, which is wrong where a sum,
difference, product or negation wraps. A condition that is null is no more true than one that is false, and `fill_null` is evaluated over rows alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">=", "==v", "!=v", "&", "|"})
_FUNCTIONS = frozenset({"not", "is_null", "is_not_null", "is_in", "is_between", "cast", "strict_cast", "str.starts_with"})
_OPERATOR, _FUNCTION = re.compile(r"\) (\S+) \("), re.compile(r"(?:[\])]|^|\()\.([\w.]+)\(")
"""How Polars writes `[(a) + (b)]`, `col("a").negate()` and `.when(…)`; texts in a condition may look so too, and are then taken for it."""
_MOST_LETTERS = 1 << 16


def is_plain(expr: pl.Expr) -> bool:
    """Return whether a condition compares columns and constants, as they are or cast, and does nothing else with them."""
    said = str(expr)
    if len(said) > _MOST_LETTERS:
        return False
    return _COMPARISONS.issuperset(_OPERATOR.findall(said)) and _FUNCTIONS.issuperset(_FUNCTION.findall(said))


def hide(expr: pl.Expr) -> pl.Expr:
    """Return a condition of the same rows that is not evaluated over bounds."""
    return expr.fill_null(value=False)


def hide_calculated(expr: pl.Expr) -> pl.Expr:
    """Return a condition of the same rows: as it is where it is plain, else not evaluated over bounds."""
    return expr if is_plain(expr) else hide(expr)
