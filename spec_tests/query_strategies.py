"""Drawn Polars queries over a frame's own values, and the law they hold: a query on a scan answers what it answers on the collected rows.

    full = table.scan().collect()
    query = data.draw(queries(full))
    assert difference(query, table.scan(), full) is None

A query is filters, a cut (head, slice, tail, or none), filters again, and what is asked of the rows that stay. Where no order is given rows have none, and
a cut may keep any of them: then counts are compared, and that the rows are among those it may keep.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import polars as pl
from hypothesis import strategies as st

from lakekit.columns import col, cols, series_field, struct_field

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypothesis.strategies import SearchStrategy

Engine = Literal["in-memory", "streaming"]
ENGINES: tuple[Engine, ...] = ("in-memory", "streaming")
_CLOSED_SIDES: tuple[Literal["both", "left", "right", "none"], ...] = ("both", "left", "right", "none")
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_MAX_SHOWN_ROWS = 3
_NAN, _INFINITY = float("nan"), float("inf")
_ZERO = re.compile(r"-0\.0(?!\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One drawn query.

    `order` are columns to sort by before the cut, `cut` is (kind, offset, length), `asks` what is made of the rows at last, with `over` where it takes one.
    """

    before: tuple[pl.Expr, ...] = ()
    order: tuple[str, ...] = ()
    cut: tuple[str, int, int] | None = None
    after: tuple[pl.Expr, ...] = ()
    columns: tuple[str, ...] | None = None
    early: bool = False
    asks: str = "rows"
    over: str = ""
    engine: Engine = "in-memory"

    def of(self, frame: pl.LazyFrame) -> pl.DataFrame:
        """The query's answer, `asks` aside."""
        for condition in self.before:
            frame = frame.filter(condition)
        if self.order:
            frame = frame.sort(cols(self.order), nulls_last=True, maintain_order=False)
        if self.early and self.columns is not None and not self.after:
            frame = frame.select(cols(self.columns))
        match self.cut:
            case "head", _, length:
                frame = frame.head(length)
            case "tail", _, length:
                frame = frame.tail(length)
            case "slice", offset, length:
                frame = frame.slice(offset, length)
        for condition in self.after:
            frame = frame.filter(condition)
        if self.columns is not None:
            frame = frame.select(cols(self.columns))
        match self.asks:
            case "count":
                frame = frame.select(pl.len())
            case "distinct":
                frame = frame.unique()
            case "numbers":  # Polars asks the source for no column at all
                frame = frame.with_row_index("_at").select("_at")
            case "windows":  # and here for few of those that there are
                frame = frame.select(pl.len().over(col(self.over)).alias("_many"), col(self.over))
            case "numbered":
                frame = frame.with_row_index("_at").select(col(self.over), pl.col("_at") >= 0)
        return frame.collect(engine=self.engine)


# ---- the law -----------------------------------------------------------------------------------------------------------------------------------


def difference(query: Query, lazy: pl.LazyFrame, full: pl.DataFrame) -> str | None:
    """None when the query says of `lazy` what it says of `full`, its collected rows; else what is different. The query is asked of `full` in memory.

    Of a single row whose DECIMAL outgrew its precision, as sums of the reference engine do, Polars 2.1 panics over some queries: they say nothing.
    """
    try:
        return _difference(query, lazy, full)
    except pl.exceptions.PanicException as panic:
        if "decimal precision" in str(panic) and any(_has_excess_digits(column) for column in full):
            return None
        raise


def _has_excess_digits(column: pl.Series) -> bool:
    """Whether a DECIMAL has more digits than its type."""
    dtype = column.dtype
    return isinstance(dtype, pl.Decimal) and bool((column.to_physical().abs() >= 10**dtype.precision).any())


def _difference(query: Query, lazy: pl.LazyFrame, full: pl.DataFrame) -> str | None:
    found = query.of(lazy)
    here = _in_memory(query)
    wanted = here.of(full.lazy())
    if found.schema != wanted.schema:
        return f"schema {found.schema}, wanted {wanted.schema}"
    if query.cut is None:
        return _diff_frames(found, wanted, zeros=query.asks != "distinct")
    if not query.after and found.height != wanted.height:
        return f"{found.height} rows, wanted {wanted.height}"
    if query.asks != "rows":
        return None
    if query.order and not query.after and (sorted_by := [name for name in query.order if name in found.columns]):
        one, other = rows(found.select(cols(sorted_by))), rows(wanted.select(cols(sorted_by)))
        if one != other:
            return f"in the order of {sorted_by}: {one[:_MAX_SHOWN_ROWS]}, wanted {other[:_MAX_SHOWN_ROWS]}"
    allowed = Counter(rows(_without_cut(here).of(full.lazy())))
    strange = Counter(rows(found)) - allowed
    if strange:
        return f"{strange.total()} rows that no cut leaves: {list(strange)[:_MAX_SHOWN_ROWS]}"
    if found.height > query.cut[2]:
        return f"{found.height} rows of a cut to {query.cut[2]}"
    return None


def _in_memory(query: Query) -> Query:
    return replace(query, engine="in-memory")


def _without_cut(query: Query) -> Query:
    return Query(before=query.before, after=query.after, columns=query.columns)


def _diff_frames(found: pl.DataFrame, wanted: pl.DataFrame, *, zeros: bool) -> str | None:
    """`zeros`: whether -0.0 and 0.0 are two; among distinct rows they are one, and either may stand for it."""
    some, other = (Counter(rows(frame) if zeros else [_ZERO.sub("0.0", row) for row in rows(frame)]) for frame in (found, wanted))
    more, less = some - other, other - some
    if not more and not less:
        return None
    return (
        f"{found.height} rows, wanted {wanted.height}; {more.total()} too many: {list(more.elements())[:_MAX_SHOWN_ROWS]}; "
        f"{less.total()} missing: {list(less.elements())[:_MAX_SHOWN_ROWS]}"
    )


def rows(frame: pl.DataFrame) -> list[str]:
    """The rows of a frame as texts: equal texts, equal rows (a NaN is one, -0.0 is not 0.0)."""
    return [repr(row) for row in frame.select(pl.all().to_physical()).iter_rows()] if frame.width else ["()"] * frame.height


# ---- conditions --------------------------------------------------------------------------------------------------------------------------------


def conditions(frame: pl.DataFrame, columns: Sequence[str] | None = None, *, whole: bool = False) -> SearchStrategy[pl.Expr]:
    """Conditions over columns of `frame`, about values they have: comparisons, sets, ranges, prefixes, null tests, functions; with `&`, `|`, `~`.

    `whole`: also such as look at all rows together.
    """
    names = [name for name in (frame.columns if columns is None else columns) if name in frame.columns]
    if not names:
        return st.just(pl.lit(value=True))
    leaf = st.sampled_from(names).flatmap(lambda name: _leaf(frame[name]))
    if whole and (plain := [name for name in names if not (frame[name].dtype.is_nested() or frame[name].dtype.is_decimal())]):
        leaf |= st.sampled_from(plain).map(lambda name: col(name) == col(name).max())
    return st.recursive(leaf, _combine_conditions, max_leaves=4)


def _combine_conditions(inner: SearchStrategy[pl.Expr]) -> SearchStrategy[pl.Expr]:
    pair = st.tuples(inner, inner)
    return st.one_of(pair.map(lambda two: two[0] & two[1]), pair.map(lambda two: two[0] | two[1]), inner.map(lambda one: ~one))


def _leaf(column: pl.Series) -> SearchStrategy[pl.Expr]:
    name, dtype = column.name, column.dtype
    of = col(name)
    nulls = st.sampled_from([of.is_null(), of.is_not_null(), ~of.is_null()])
    if isinstance(dtype, pl.Struct) and dtype.fields:
        inner = st.sampled_from(dtype.fields).flatmap(lambda f: _value_conditions(series_field(column, f.name), struct_field(of, f.name)))
        return st.one_of(nulls, inner)
    if isinstance(dtype, pl.List):
        return st.one_of(nulls, st.integers(0, 3).map(lambda n: of.list.len() > n))
    return st.one_of(nulls, _value_conditions(column, of), _value_conditions(column, of))


def _value_conditions(column: pl.Series, of: pl.Expr) -> SearchStrategy[pl.Expr]:
    """Conditions on a column (or a part of a struct) of plain values."""
    dtype = column.dtype
    if dtype.is_nested() or dtype == pl.Null:
        return st.just(of.is_null())
    if dtype == pl.Boolean:
        return st.sampled_from([of, ~of, of == True, of != True, of.is_in([True, None])])  # noqa: E712 - Polars' own comparison
    literal = _literals(column)
    found = [
        st.tuples(st.sampled_from(_COMPARISONS), literal).map(lambda drawn: _compare(of, drawn[0], drawn[1])),
        st.tuples(literal, literal, st.sampled_from(_CLOSED_SIDES)).map(lambda drawn: of.is_between(drawn[0], drawn[1], closed=drawn[2])),
        _sets(column, of),
        literal.map(of.eq_missing),
        literal.map(of.ne_missing),
        literal.map(lambda one: _by_function(of, one)),
        literal.map(lambda one: (of >= one).fill_null(value=True)),
    ]
    if dtype.is_float():
        found.append(st.sampled_from([of.is_nan(), ~of.is_nan(), of == 0.0, of == -0.0, of > _NAN, of == _NAN, of != _INFINITY]))
    if dtype.is_integer():
        found.append(st.sampled_from([of % 2 == 0, of.cast(pl.Float64) > 1.5, of > 0.5, of.cast(pl.String).str.starts_with("1")]))
    if dtype == pl.String:
        text = st.sampled_from(_texts(column))
        found.append(text.map(of.str.starts_with))
        found.append(text.map(of.str.ends_with))
        found.append(text.map(lambda one: ~of.str.starts_with(one)))
    return st.one_of(found)


def _compare(of: pl.Expr, operator: str, one: pl.Expr) -> pl.Expr:
    match operator:
        case "==":
            return of == one
        case "!=":
            return of != one
        case "<":
            return of < one
        case "<=":
            return of <= one
        case ">":
            return of > one
    return of >= one


def _literals(column: pl.Series) -> SearchStrategy[pl.Expr]:
    """Values of the column, and the ones beside whole numbers, as literals of its type."""
    dtype, some = column.dtype, column.drop_nulls().unique()
    if not len(some):
        return st.just(pl.lit(None, dtype=dtype))
    if isinstance(dtype, pl.Datetime):
        return st.sampled_from(_add_neighbours(some.to_physical().to_list())).map(lambda ticks: pl.lit(ticks, pl.Int64).cast(dtype))
    values = some.to_list()
    if dtype.is_integer():
        beside = pl.Series(_add_neighbours(values), dtype=pl.Int64)
        values = beside.cast(dtype, strict=False).drop_nulls().to_list()
    # a sum may outgrow its DECIMAL, as in the reference engine: such a value is no literal of the column's own type
    return st.sampled_from(values).map(lambda value: pl.lit(value, dtype=None if dtype.is_decimal() else dtype))


def _add_neighbours(values: list[int]) -> list[int]:
    return sorted({value + step for value in values for step in (-1, 0, 1) if abs(value + step) < 2**63})


def _sets(column: pl.Series, of: pl.Expr) -> SearchStrategy[pl.Expr]:
    some = column.drop_nulls().unique()
    chosen = st.lists(st.integers(0, len(some) - 1), max_size=4) if len(some) else st.just([])

    def asked(drawn: tuple[list[int], bool, bool]) -> pl.Expr:
        at, with_null, nulls_equal = drawn
        values = some.gather(at)
        if with_null:
            values = pl.concat([values, pl.Series(some.name, [None], dtype=some.dtype)])
        return of.is_in(values.implode(), nulls_equal=nulls_equal)

    return st.tuples(chosen, st.booleans(), st.booleans()).map(asked)


def _texts(column: pl.Series) -> list[str]:
    some = [value for value in column.drop_nulls().unique().to_list() if value]
    return sorted({"", "a", *(value[:length] for value in some for length in (1, 3, 100))})


def _by_function(of: pl.Expr, one: pl.Expr) -> pl.Expr:
    """A Python function as a condition: nothing that planning could understand."""
    return pl.struct(of.alias("value"), one.alias("one")).map_batches(_at_least, return_dtype=pl.Boolean, is_elementwise=True)


def _at_least(pair: pl.Series) -> pl.Series:
    value, one = pair.struct.field("value"), pair.struct.field("one")
    return value >= one


# ---- queries -----------------------------------------------------------------------------------------------------------------------------------


def queries(frame: pl.DataFrame) -> SearchStrategy[Query]:
    """Queries over the rows of `frame`."""
    return st.composite(_draw_query)(frame)


def _draw_query(draw: Callable[[SearchStrategy[Any]], Any], frame: pl.DataFrame) -> Query:
    names = frame.columns
    before = st.lists(conditions(frame, whole=True), max_size=2).map(tuple)
    after = st.lists(conditions(frame), max_size=2).map(tuple)
    plain = [name for name, dtype in frame.schema.items() if not dtype.is_nested()]
    length = st.one_of(st.integers(0, 3), st.integers(0, frame.height + 2))
    cut = st.one_of(st.none(), st.none(), st.tuples(st.sampled_from(["head", "slice", "tail"]), length, length))
    columns = st.one_of(st.none(), st.lists(st.sampled_from(names), unique=True, min_size=1, max_size=4).map(tuple)) if names else st.none()
    drawn_cut, chosen = draw(cut), draw(columns)
    whole = [name for name in plain if chosen is None or name in chosen]
    return Query(
        before=draw(before),
        order=tuple(draw(st.lists(st.sampled_from(plain), unique=True, max_size=2))) if plain and draw(st.booleans()) else (),
        cut=drawn_cut,
        after=draw(after) if drawn_cut is not None else (),
        columns=chosen,
        early=draw(st.booleans()),
        asks=draw(st.sampled_from(["rows", "rows", "rows", "count", "distinct", "numbers", *(["windows", "numbered"] if whole else [])])),
        over=draw(st.sampled_from(whole)) if whole else "",
        engine=draw(st.sampled_from(ENGINES)),
    )
