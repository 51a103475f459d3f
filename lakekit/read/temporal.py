"""Refusal of comparisons of times with numbers, which Polars makes by a count of units since 1970.

    day > 2024-01-03        without quotes: the number 2020        refused: write DATE '2024-01-03'
    pl.col("day") > 2020                                           refused: write date(2020, 1, 1)
    pl.col("day").cast(pl.Int32) > 5                               days since 1970: explicit by a cast

An expression is taken apart with `meta.pop()`. The operator of two parts of different kinds is found by combining them
again and comparing.
"""

from __future__ import annotations

import json
import operator
from contextlib import suppress
from datetime import date
from itertools import combinations
from typing import TYPE_CHECKING

import polars as pl

from lakekit.errors import SchemaMismatch
from lakekit.types import Instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lakekit.predicate import Leaf

    Schema = Mapping[str, pl.DataType]

_TIME_MARKERS = (b"Date", b"date", b"Time", b"Duration", b"duration", b"Temporal", b"Strptime")
"""What the bytes of an expression have in them that makes times of other values, or has times as constants."""
_COMPARISON_OPERATORS: tuple[Callable[[pl.Expr, pl.Expr], pl.Expr], ...] = (
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    pl.Expr.eq_missing,
    pl.Expr.ne_missing,
)
_COMPARING_FUNCTIONS = frozenset(
    {
        "is_in",
        "is_between",
        "is_close",
        "fill_null",
        "clip",
        "clip_min",
        "clip_max",
        "replace",
        "coalesce",
        "index_of",
        "search_sorted",
        "upcast",
        "max_horizontal",
        "min_horizontal",
        "sum_horizontal",
        "mean_horizontal",
        "list.concat",
        "list.contains",
        "list.count_matches",
        "list.intersection",
        "list.union",
        "list.difference",
        "list.symmetric_difference",
        "arr.concat",
        "arr.contains",
        "arr.count_matches",
    }
)
"""Functions, as Polars writes them, that compare their inputs or bring them to one type."""
_COMPARED_ARGUMENTS: Mapping[str, tuple[tuple[int, int], ...]] = {
    "replace_strict": ((0, 1), (2, 3)),
    "shift_and_fill": ((0, 2),),
    "extend_constant": ((0, 1),),
}
"""Functions that do so with the inputs at those places, whatever the others are: values that `replace_strict` gives may
be of another type.
"""
_SQL_NAMES: Mapping[type[pl.DataType], str] = {
    pl.Date: "DATE",
    pl.Time: "TIME",
    pl.Datetime: "TIMESTAMP",
    pl.Duration: "an interval",
}
_SPELLING_HINTS: Mapping[type[pl.DataType], str] = {
    pl.Date: "DATE '2024-01-03' in SQL, quotes and all, date(2024, 1, 3) in Python",
    pl.Time: "TIME '12:30:00' in SQL, quotes and all, time(12, 30) in Python",
    pl.Datetime: "TIMESTAMP '2024-01-03 12:30:00' in SQL, quotes and all, datetime(2024, 1, 3, 12, 30) in Python",
    pl.Duration: "INTERVAL '5 days' in SQL, quotes and all, timedelta(days=5) in Python",
}


def refuse_numbers(expr: pl.Expr, schema: Schema, subject: str) -> None:
    """Raise `SchemaMismatch` if an expression over such columns mixes a time with a number.

    It mixes them if it compares a date, time, timestamp or interval with a number, or makes one type of both.
    """
    if not _may_have_times(expr, schema):
        return
    for part, parts, types in _iter_operands(expr, schema):
        if (kind := _compared_time_kind(part, parts, types)) is not None:
            raise make_time_mismatch(subject, kind, str(part))


def refuse_leaf(leaf: Leaf, schema: Schema, subject: str) -> None:
    """Raise `SchemaMismatch` if a column is compared with constants, a time with a number.

    A time is a date, time, timestamp or interval.
    """
    dtype = schema.get(leaf.column)
    for value in leaf.literals:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        kind = (
            type(dtype)
            if dtype is not None and dtype.is_temporal()
            else pl.Date
            if isinstance(value, date)
            else pl.Datetime
        )
        if dtype is not None and (
            (is_number and dtype.is_temporal()) or (isinstance(value, (date, Instant)) and dtype.is_numeric())
        ):
            raise make_time_mismatch(subject, kind, f"{leaf.column} {leaf.op} {value}")


def make_time_mismatch(subject: str, kind: type[pl.DataType], what: str) -> SchemaMismatch:
    """Return the error for a comparison of a kind of time with a number."""
    return SchemaMismatch(
        f"{subject} compares {_SQL_NAMES[kind]} with a number: {_shorten_text(what)}. A number is no day and no time "
        f"of "
        f"one: "
        f"write {_SPELLING_HINTS[kind]}; "
        "a cast, as in pl.col(…).cast(pl.Int64), says the count of units since 1970"
    )


def _shorten_text(text: str) -> str:
    return text if len(text) < 200 else f"{text[:200]}…"


def _may_have_times(expr: pl.Expr, schema: Schema) -> bool:
    if any(_has_times(schema[name]) for name in expr.meta.root_names() if name in schema):
        return True
    try:
        serialized = expr.meta.serialize(format="binary")
    except Exception:  # noqa: BLE001 - a function of Python that does not pickle raises what it likes
        return True
    return any(word in serialized for word in _TIME_MARKERS)


def _has_times(dtype: pl.DataType) -> bool:
    if isinstance(dtype, pl.List | pl.Array):
        return _has_times(dtype.inner)  # type: ignore[arg-type] # a type, not a class
    if isinstance(dtype, pl.Struct):
        return any(_has_times(field.dtype) for field in dtype.fields)  # type: ignore[arg-type]
    return dtype.is_temporal()


# ---- the parts of an expression --------------------------------------------------------------------------------------


def _iter_operands(expr: pl.Expr, schema: Schema) -> Iterator[tuple[pl.Expr, list[pl.Expr], list[pl.DataType | None]]]:
    """Yield each part of an expression with several parts, those and their types (None if unknown)."""
    has_places = _has_element_reference(expr)
    wholes = list[tuple[pl.Expr, list[pl.Expr], tuple[pl.Expr, ...]]]()
    waiting: list[tuple[pl.Expr, tuple[pl.Expr, ...]]] = [(expr, ())]
    while waiting:
        part, around = waiting.pop()
        parts = part.meta.pop()
        if len(parts) > 1 and not _is_junction(part, parts):
            wholes.append((part, parts, around))
        for child in parts:
            siblings = (
                tuple(other for other in parts if other is not child)
                if has_places and _has_element_reference(child)
                else ()
            )
            waiting.append((child, (*siblings, *around)))
    frame = pl.LazyFrame(schema=schema)
    types = iter(_types_of([child for _, parts, _ in wholes for child in parts], frame))
    for part, parts, around in wholes:
        dtypes = [next(types) for _ in parts]
        yield (
            part,
            parts,
            [
                _type_among(child, around, frame) if dtype is None else dtype
                for child, dtype in zip(parts, dtypes, strict=True)
            ],
        )


def _is_junction(expr: pl.Expr, operands: list[pl.Expr]) -> bool:
    """Return whether it is an AND or OR, which may form long chains: their parts are visited by themselves."""
    return len(operands) == 2 and any(
        expr.meta.eq(combine(operands[1], operands[0])) for combine in (operator.and_, operator.or_)
    )


def _has_element_reference(expr: pl.Expr) -> bool:
    """Return whether it refers to the elements of a list, or the fields of a struct, of another expression."""
    text = str(expr)
    return "element()" in text or "field([" in text


def _types_of(operands: list[pl.Expr], frame: pl.LazyFrame) -> list[pl.DataType | None]:
    """Return the types of some expressions over the columns of a frame, computed at once."""
    with suppress(pl.exceptions.PolarsError):
        return list(frame.select(part.alias(str(at)) for at, part in enumerate(operands)).collect_schema().dtypes())
    return [_type_of(part, frame) for part in operands]


def _type_of(expr: pl.Expr, frame: pl.LazyFrame) -> pl.DataType | None:
    with suppress(pl.exceptions.PolarsError):
        return frame.select(expr.alias("")).collect_schema().dtypes()[0]
    return None


def _type_among(expr: pl.Expr, around: tuple[pl.Expr, ...], frame: pl.LazyFrame) -> pl.DataType | None:
    """Return the type of a part that is computed over the elements or fields of something around it."""
    for base in around:
        for inner in (base.list.eval(expr), base.arr.eval(expr)):
            if isinstance(dtype := _type_of(inner, frame), pl.List | pl.Array):
                return dtype.inner  # type: ignore[return-value] # a type, not a class
        if (dtype := _type_of(base.struct.with_fields(expr.alias("")).struct.field(""), frame)) is not None:
            return dtype
    return None


# ---- what meets ------------------------------------------------------------------------------------------------------


def _compared_time_kind(
    expr: pl.Expr, operands: list[pl.Expr], types: list[pl.DataType | None]
) -> type[pl.DataType] | None:
    """Return the kind of time that is compared with a number in a part; None if none is."""
    mixed = {
        (at, to): kind
        for at, to in combinations(range(len(types)), 2)
        if (kind := _mixed_time_kind(types[-1 - at], types[-1 - to])) is not None
    }
    if not mixed:
        return None
    name = _function_name(expr, operands[-1])
    if name is not None and name in _COMPARED_ARGUMENTS:
        return next((mixed[pair] for pair in _COMPARED_ARGUMENTS[name] if pair in mixed), None)
    is_met = name in _COMPARING_FUNCTIONS or _is_operator(expr, operands[::-1]) or _is_of_sql(expr)
    return next(iter(mixed.values())) if is_met else None


def _function_name(expr: pl.Expr, first: pl.Expr) -> str | None:
    """Return the name of the function that a part calls on its first input, as Polars writes it, or None."""
    text, prefix = str(expr), f"{first}."
    return text.removeprefix(prefix).split("(", 1)[0] if text.startswith(prefix) else None


def _is_operator(expr: pl.Expr, inputs: list[pl.Expr]) -> bool:
    """Return whether a part compares its two inputs, or selects between two of three.

    Polars treats the condition of `when` as the last input.
    """
    if len(inputs) == 2:
        return any(expr.meta.eq(compare(*inputs)) for compare in _COMPARISON_OPERATORS)
    if len(inputs) != 3:
        return False
    then, other, condition = inputs
    with suppress(TypeError, pl.exceptions.PolarsError):
        return expr.meta.eq(pl.when(condition).then(then).otherwise(other))
    return False


def _is_of_sql(expr: pl.Expr) -> bool:
    """Return whether it is an operator of Polars' SQL that no method of an expression makes, as `day >= 3.5`."""
    with suppress(pl.exceptions.PolarsError, ValueError):
        node = json.loads(expr.meta.serialize(format="json"))
        function = node.get("Function", {}).get("function") if isinstance(node, dict) else None
        return isinstance(function, dict) and "Sql" in function
    return False


def _mixed_time_kind(left: pl.DataType | None, right: pl.DataType | None) -> type[pl.DataType] | None:
    """Return a kind of time in one type where the other has a number, inside lists and structs too."""
    while isinstance(left, pl.List | pl.Array) or isinstance(right, pl.List | pl.Array):
        left = left.inner if isinstance(left, pl.List | pl.Array) else left  # type: ignore[assignment]
        right = right.inner if isinstance(right, pl.List | pl.Array) else right  # type: ignore[assignment]
    if left is None or right is None:
        return None
    if isinstance(left, pl.Struct) and isinstance(right, pl.Struct):
        both = zip(left.fields, right.fields, strict=False)
        kinds = (_mixed_time_kind(mine.dtype, theirs.dtype) for mine, theirs in both)  # type: ignore[arg-type]
        return next((kind for kind in kinds if kind is not None), None)
    if left.is_numeric() and right.is_temporal():
        left, right = right, left
    return type(left) if left.is_temporal() and right.is_numeric() else None
