"""Comparisons of times with numbers, which Polars makes by the count of days, or of other units, since 1970.

    day > 2024-01-03        without quotes: the number 2020        refused: write DATE '2024-01-03'
    pl.col("day") > 2020                                           refused: write date(2020, 1, 1)
    pl.col("day").cast(pl.Int32) > 5                               days since 1970: said by a cast

An expression is taken apart with `meta.pop()`. What two parts of different kinds come to is found by putting them together again and comparing.
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
_OPERATORS: tuple[Callable[[pl.Expr, pl.Expr], pl.Expr], ...] = (
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
"""Functions that do so with the inputs at those places, whatever the others are: values that `replace_strict` gives may be of another type."""
_WORDS: Mapping[type[pl.DataType], str] = {pl.Date: "DATE", pl.Time: "TIME", pl.Datetime: "TIMESTAMP", pl.Duration: "an interval"}
_WRITE: Mapping[type[pl.DataType], str] = {
    pl.Date: "DATE '2024-01-03' in SQL, quotes and all, date(2024, 1, 3) in Python",
    pl.Time: "TIME '12:30:00' in SQL, quotes and all, time(12, 30) in Python",
    pl.Datetime: "TIMESTAMP '2024-01-03 12:30:00' in SQL, quotes and all, datetime(2024, 1, 3, 12, 30) in Python",
    pl.Duration: "INTERVAL '5 days' in SQL, quotes and all, timedelta(days=5) in Python",
}


def refuse_numbers(expr: pl.Expr, schema: Schema, said: str) -> None:
    """Raise `SchemaMismatch` where an expression over such columns compares a date, time, timestamp or interval with a number, or makes one type of both."""
    if not _may_have_times(expr, schema):
        return
    for part, parts, types in _pairs(expr, schema):
        if (found := _compared_time_kind(part, parts, types)) is not None:
            raise make_time_mismatch(said, found, str(part))


def refuse_leaf(leaf: Leaf, schema: Schema, said: str) -> None:
    """Raise `SchemaMismatch` where a comparison of a column with constants compares a date, time, timestamp or interval with a number."""
    dtype = schema.get(leaf.column)
    for value in leaf.literals:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        kind = type(dtype) if dtype is not None and dtype.is_temporal() else pl.Date if isinstance(value, date) else pl.Datetime
        if dtype is not None and ((is_number and dtype.is_temporal()) or (isinstance(value, (date, Instant)) and dtype.is_numeric())):
            raise make_time_mismatch(said, kind, f"{leaf.column} {leaf.op} {value}")


def make_time_mismatch(said: str, kind: type[pl.DataType], what: str) -> SchemaMismatch:
    """Return the error for a comparison of a kind of time with a number."""
    return SchemaMismatch(
        f"{said} compares {_WORDS[kind]} with a number: {_shorten(what)}. A number is no day and no time of one: write {_WRITE[kind]}; "
        "a cast, as in pl.col(…).cast(pl.Int64), says the count of units since 1970"
    )


def _shorten(text: str) -> str:
    return text if len(text) < 200 else f"{text[:200]}…"


def _may_have_times(expr: pl.Expr, schema: Schema) -> bool:
    if any(_has_times(schema[name]) for name in expr.meta.root_names() if name in schema):
        return True
    try:
        said = expr.meta.serialize(format="binary")
    except Exception:  # noqa: BLE001 - a function of Python that does not pickle raises what it likes
        return True
    return any(word in said for word in _TIME_MARKERS)


def _has_times(dtype: pl.DataType) -> bool:
    if isinstance(dtype, pl.List | pl.Array):
        return _has_times(dtype.inner)  # type: ignore[arg-type] # a type, not a class
    if isinstance(dtype, pl.Struct):
        return any(_has_times(field.dtype) for field in dtype.fields)  # type: ignore[arg-type]
    return dtype.is_temporal()


# ---- the parts of an expression -------------------------------------------------------------------------------------------------------------------------


def _pairs(expr: pl.Expr, schema: Schema) -> Iterator[tuple[pl.Expr, list[pl.Expr], list[pl.DataType | None]]]:
    """Each part of an expression that is made of two parts or more, with those and their types. None: a type that Polars does not tell."""
    has_places = _has_element_reference(expr)
    wholes = list[tuple[pl.Expr, list[pl.Expr], tuple[pl.Expr, ...]]]()
    waiting: list[tuple[pl.Expr, tuple[pl.Expr, ...]]] = [(expr, ())]
    while waiting:
        part, around = waiting.pop()
        parts = part.meta.pop()
        if len(parts) > 1 and not _is_junction(part, parts):
            wholes.append((part, parts, around))
        for one in parts:
            beside = tuple(other for other in parts if other is not one) if has_places and _has_element_reference(one) else ()
            waiting.append((one, (*beside, *around)))
    types = iter(_types([one for _, parts, _ in wholes for one in parts], schema))
    for part, parts, around in wholes:
        told = [next(types) for _ in parts]
        yield part, parts, [_type_among(one, around, schema) if dtype is None else dtype for one, dtype in zip(parts, told, strict=True)]


def _is_junction(part: pl.Expr, parts: list[pl.Expr]) -> bool:
    """Whether it is an AND or OR, which may stand in chains: what its parts are is seen when their turn comes."""
    return len(parts) == 2 and any(part.meta.eq(of(parts[1], parts[0])) for of in (operator.and_, operator.or_))


def _has_element_reference(expr: pl.Expr) -> bool:
    """Whether it is about the elements of a list, or the parts of a struct, that another expression gives."""
    text = str(expr)
    return "element()" in text or "field([" in text


def _types(parts: list[pl.Expr], schema: Schema) -> list[pl.DataType | None]:
    """The types of some expressions, asked for at once."""
    with suppress(pl.exceptions.PolarsError):
        return list(pl.LazyFrame(schema=schema).select(one.alias(str(at)) for at, one in enumerate(parts)).collect_schema().dtypes())
    return [_type(one, schema) for one in parts]


def _type(part: pl.Expr, schema: Schema) -> pl.DataType | None:
    with suppress(pl.exceptions.PolarsError):
        return pl.LazyFrame(schema=schema).select(part.alias("")).collect_schema().dtypes()[0]
    return None


def _type_among(part: pl.Expr, around: tuple[pl.Expr, ...], schema: Schema) -> pl.DataType | None:
    """The type of a part that is computed over the elements or parts of something around it."""
    for base in around:
        for inner in (base.list.eval(part), base.arr.eval(part)):
            if isinstance(found := _type(inner, schema), pl.List | pl.Array):
                return found.inner  # type: ignore[return-value] # a type, not a class
        if (found := _type(base.struct.with_fields(part.alias("")).struct.field(""), schema)) is not None:
            return found
    return None


# ---- what meets -----------------------------------------------------------------------------------------------------------------------------------------


def _compared_time_kind(part: pl.Expr, parts: list[pl.Expr], types: list[pl.DataType | None]) -> type[pl.DataType] | None:
    """The kind of time that meets a number in a part; None where none does."""
    mixed = {(at, to): found for at, to in combinations(range(len(types)), 2) if (found := _mixed_time_kind(types[-1 - at], types[-1 - to])) is not None}
    if not mixed:
        return None
    name = _function(part, parts[-1])
    if name is not None and name in _COMPARED_ARGUMENTS:
        return next((mixed[pair] for pair in _COMPARED_ARGUMENTS[name] if pair in mixed), None)
    is_met = name in _COMPARING_FUNCTIONS or _is_operator(part, parts[::-1]) or _is_of_sql(part)
    return next(iter(mixed.values())) if is_met else None


def _function(part: pl.Expr, first: pl.Expr) -> str | None:
    """The name of the function that a part is of its first input and others, as Polars writes it; None for what is no function."""
    said, of = str(part), f"{first}."
    return said.removeprefix(of).split("(", 1)[0] if said.startswith(of) else None


def _is_operator(part: pl.Expr, inputs: list[pl.Expr]) -> bool:
    """Whether a part compares its two inputs, or chooses between two of three: Polars takes the condition of `when` for the last."""
    if len(inputs) == 2:
        return any(part.meta.eq(way(*inputs)) for way in _OPERATORS)
    if len(inputs) != 3:
        return False
    then, other, condition = inputs
    with suppress(TypeError, pl.exceptions.PolarsError):
        return part.meta.eq(pl.when(condition).then(then).otherwise(other))
    return False


def _is_of_sql(part: pl.Expr) -> bool:
    """Whether it is an operator of Polars' SQL with a meaning of its own, as `day >= 3.5`, which no method of an expression makes."""
    with suppress(pl.exceptions.PolarsError, ValueError):
        said = json.loads(part.meta.serialize(format="json"))
        function = said.get("Function", {}).get("function") if isinstance(said, dict) else None
        return isinstance(function, dict) and "Sql" in function
    return False


def _mixed_time_kind(one: pl.DataType | None, other: pl.DataType | None) -> type[pl.DataType] | None:
    """A kind of time in one type where the other has a number, inside lists and structs too."""
    while isinstance(one, pl.List | pl.Array) or isinstance(other, pl.List | pl.Array):
        one = one.inner if isinstance(one, pl.List | pl.Array) else one  # type: ignore[assignment]
        other = other.inner if isinstance(other, pl.List | pl.Array) else other  # type: ignore[assignment]
    if one is None or other is None:
        return None
    if isinstance(one, pl.Struct) and isinstance(other, pl.Struct):
        both = zip(one.fields, other.fields, strict=False)
        return next((found for mine, theirs in both if (found := _mixed_time_kind(mine.dtype, theirs.dtype)) is not None), None)  # type: ignore[arg-type]
    if one.is_numeric() and other.is_temporal():
        one, other = other, one
    return type(one) if one.is_temporal() and other.is_numeric() else None
