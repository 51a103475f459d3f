"""Expansion of callers' expressions to the columns of a table: selectors, positions and patterns become names.

    expand(pl.first() > 6, {"k": Int32, "g": Int32})       ->   pl.col("k") > 6
    expand(pl.any_horizontal(cs.numeric() == 0), …)        ->   pl.any_horizontal(pl.col("k") == 0, pl.col("g") == 0)

Polars expands an expression against the frame that it runs over, and lakekit runs expressions over frames with other
columns: row numbers, kinds, the source of a merge, a part of the columns. So each is expanded once, against the schema
of the table. An expanded expression names every column exactly, so that `meta.root_names()` returns all columns that it
needs. Polars itself expands: `pipe_with_dtype` is called with the expanded expression.
"""

from __future__ import annotations

import inspect
import io
import json
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit.columns import col, is_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Schema = Mapping[str, pl.DataType]
    Pipe = Callable[[list[pl.Expr], Callable[[list[tuple[pl.Expr, pl.DataType]]], pl.Expr]], pl.Expr]

_PIPE: Pipe = inspect.unwrap(pl.pipe_with_dtype)
"""`pl.pipe_with_dtype` without the warning that Polars can give for functions that may change."""


def expand(expr: pl.Expr, schema: Schema) -> list[pl.Expr]:
    """Return one expression for each column that an expression yields on a frame with such columns.

    Raises Polars' own errors.
    """
    expanded: list[pl.Expr] = []

    def keep(inputs: list[tuple[pl.Expr, pl.DataType]]) -> pl.Expr:
        expanded.append(inputs[0][0])
        return inputs[0][0]

    count = len(pl.LazyFrame(schema=schema).select(_PIPE([expr], keep)).collect_schema())
    return expanded[:count]  # Polars may ask more than once, each time for all in order


def used_columns(expr: pl.Expr, known: Iterable[str]) -> list[str]:
    """Return the names of the columns that an expression reads, with repeats, `known` or not.

    The elements of a list are no column: in `list.filter` Polars gives them the empty name, which counts if a column
    has it.
    """
    return [name for name in expr.meta.root_names() if name or name in known]


def is_picklable(expr: pl.Expr) -> bool:
    """Return whether an expression has no Python function that does not pickle.

    An expression with such a function has no bytes, and Polars cannot take it apart.
    """
    if "python_udf" not in str(expr):
        return True
    try:
        expr.meta.serialize()
    except Exception:  # noqa: BLE001 - pickling raises what it likes
        return False
    return True


def choose_among(expr: pl.Expr, schema: Schema) -> pl.Expr:
    """Return the expression with each selector replaced by the names that it selects among such columns.

    Other columns may be named in it too. Raises Polars' own errors, and what serializing raises: an expression with a
    Python function cannot be taken apart.
    """
    if not expr.meta.has_multiple_outputs():
        return expr

    def choose(selector: dict[str, Any]) -> dict[str, Any]:
        names = pl.LazyFrame(schema=schema).select(_deserialize(selector)).collect_schema().names()
        return {"Selector": {"ByName": {"names": names, "strict": True}}}

    return _with_selectors(expr, choose)


def name_exactly(expr: pl.Expr, names: Iterable[str]) -> pl.Expr:
    """Return the expression of an SQL text with quoted names as exact names.

    Polars treats `"*"` and `"^a$"` as patterns, but in SQL names are data.
    """
    patterns = [name for name in names if is_pattern(name)]
    if not patterns or not expr.meta.has_multiple_outputs():
        return expr

    def name(selector: dict[str, Any]) -> dict[str, Any]:
        selection = selector["Selector"]
        pattern = "*" if selection == "Wildcard" else selection.get("Matches") if isinstance(selection, dict) else None
        return json.loads(col(pattern).meta.serialize(format="json")) if pattern in patterns else selector

    return _with_selectors(expr, name)


def _with_selectors(expr: pl.Expr, replace: Callable[[dict[str, Any]], dict[str, Any]]) -> pl.Expr:
    """Return the expression with each selector replaced."""

    def walk(node: Any) -> Any:
        if isinstance(node, dict):
            return replace(node) if node.keys() == {"Selector"} else {key: walk(value) for key, value in node.items()}
        return [walk(part) for part in node] if isinstance(node, list) else node

    return _deserialize(walk(json.loads(expr.meta.serialize(format="json"))))


def _deserialize(node: Any) -> pl.Expr:
    return pl.Expr.deserialize(io.BytesIO(json.dumps(node).encode()), format="json")
