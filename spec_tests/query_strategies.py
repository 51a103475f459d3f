"""Drawn Polars queries over a frame's own values.

Their law: a query on a scan returns what it returns on the collected rows.

    full = table.scan().collect()
    query = data.draw(queries(full))
    assert difference(query, table.scan(), full) is None

A query is filters, a cut (head, slice, tail, or none), filters again, and a computation on the remaining rows. Where no
order is given rows have none, and a cut may keep any of them: then counts are compared, and that the rows are among
those it may keep.
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

    `order` are columns to sort by before the cut, `cut` is (kind, offset, length), `asks` what is made of the rows at
    last, with `over` where it takes one.
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
        """Return the query's result on a frame, without `asks`."""
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


# ---- the law ---------------------------------------------------------------------------------------------------------


def difference(query: Query, lazy: pl.LazyFrame, full: pl.DataFrame) -> str | None:
    """Return None when the query gives the same on `lazy` and on its collected rows, else the difference.

    `full` are the collected rows, on which the query runs in memory. Over a single row whose DECIMAL outgrew its
    precision, as sums of the reference engine do, Polars 2.1 panics for some queries: these count as equal.
    """
    try:
        return _difference(query, lazy, full)
    except pl.exceptions.PanicException as panic:
        if "decimal precision" in str(panic) and any(_has_excess_digits(column) for column in full):
            return None
        raise


def _has_excess_digits(column: pl.Series) -> bool:
    """Return whether a DECIMAL has more digits than its type."""
    dtype = column.dtype
    return isinstance(dtype, pl.Decimal) and bool((column.to_physical().abs() >= 10**dtype.precision).any())


def _difference(query: Query, lazy: pl.LazyFrame, full: pl.DataFrame) -> str | None:
    actual = query.of(lazy)
    in_memory = _in_memory(query)
    wanted = in_memory.of(full.lazy())
    if actual.schema != wanted.schema:
        return f"schema {actual.schema}, wanted {wanted.schema}"
    if query.cut is None:
        return _diff_frames(actual, wanted, zeros=query.asks != "distinct")
    if not query.after and actual.height != wanted.height:
        return f"{actual.height} rows, wanted {wanted.height}"
    if query.asks != "rows":
        return None
    if query.order and not query.after and (sorted_by := [name for name in query.order if name in actual.columns]):
        mine, theirs = rows(actual.select(cols(sorted_by))), rows(wanted.select(cols(sorted_by)))
        if mine != theirs:
            return f"in the order of {sorted_by}: {mine[:_MAX_SHOWN_ROWS]}, wanted {theirs[:_MAX_SHOWN_ROWS]}"
    allowed = Counter(rows(_without_cut(in_memory).of(full.lazy())))
    strange = Counter(rows(actual)) - allowed
    if strange:
        return f"{strange.total()} rows that no cut leaves: {list(strange)[:_MAX_SHOWN_ROWS]}"
    if actual.height > query.cut[2]:
        return f"{actual.height} rows of a cut to {query.cut[2]}"
    return None


def _in_memory(query: Query) -> Query:
    return replace(query, engine="in-memory")


def _without_cut(query: Query) -> Query:
    return Query(before=query.before, after=query.after, columns=query.columns)


def _diff_frames(actual: pl.DataFrame, wanted: pl.DataFrame, *, zeros: bool) -> str | None:
    """Return the difference of two frames. `zeros`: whether -0.0 and 0.0 are two values.

    Among distinct rows they are one, and either may stand for it.
    """
    mine, theirs = (Counter(rows(frame) if zeros else [_ZERO.sub("0.0", row) for row in rows(frame)]) for frame in (actual, wanted))
    more, less = mine - theirs, theirs - mine
    if not more and not less:
        return None
    return (
        f"{actual.height} rows, wanted {wanted.height}; "
        f"{more.total()} too many: {list(more.elements())[:_MAX_SHOWN_ROWS]}; "
        f"{less.total()} missing: {list(less.elements())[:_MAX_SHOWN_ROWS]}"
    )


def rows(frame: pl.DataFrame) -> list[str]:
    """Return the rows of a frame as texts: equal texts, equal rows (a NaN is one, -0.0 is not 0.0)."""
    return [repr(row) for row in frame.select(pl.all().to_physical()).iter_rows()] if frame.width else ["()"] * frame.height


# ---- conditions ------------------------------------------------------------------------------------------------------


def conditions(frame: pl.DataFrame, columns: Sequence[str] | None = None, *, across_rows: bool = False) -> SearchStrategy[pl.Expr]:
    """Draw conditions over columns of `frame`, about values they have.

    They are comparisons, sets, ranges, prefixes, null tests, functions; with `&`, `|`, `~`. `across_rows`: also such as
    look at all rows together.
    """
    names = [name for name in (frame.columns if columns is None else columns) if name in frame.columns]
    if not names:
        return st.just(pl.lit(value=True))
    leaf = st.sampled_from(names).flatmap(lambda name: _leaf(frame[name]))
    if across_rows and (plain := [name for name in names if not (frame[name].dtype.is_nested() or frame[name].dtype.is_decimal())]):
        leaf |= st.sampled_from(plain).map(lambda name: col(name) == col(name).max())
    return st.recursive(leaf, _combine_conditions, max_leaves=4)


def _combine_conditions(inner: SearchStrategy[pl.Expr]) -> SearchStrategy[pl.Expr]:
    pair = st.tuples(inner, inner)
    return st.one_of(pair.map(lambda two: two[0] & two[1]), pair.map(lambda two: two[0] | two[1]), inner.map(lambda one: ~one))


def _leaf(column: pl.Series) -> SearchStrategy[pl.Expr]:
    name, dtype = column.name, column.dtype
    operand = col(name)
    nulls = st.sampled_from([operand.is_null(), operand.is_not_null(), ~operand.is_null()])
    if isinstance(dtype, pl.Struct) and dtype.fields:
        inner = st.sampled_from(dtype.fields).flatmap(lambda f: _value_conditions(series_field(column, f.name), struct_field(operand, f.name)))
        return st.one_of(nulls, inner)
    if isinstance(dtype, pl.List):
        return st.one_of(nulls, st.integers(0, 3).map(lambda n: operand.list.len() > n))
    return st.one_of(nulls, _value_conditions(column, operand), _value_conditions(column, operand))


def _value_conditions(column: pl.Series, operand: pl.Expr) -> SearchStrategy[pl.Expr]:
    """Draw conditions on a column (or a part of a struct) of plain values."""
    dtype = column.dtype
    if dtype.is_nested() or dtype == pl.Null:
        return st.just(operand.is_null())
    if dtype == pl.Boolean:
        return st.sampled_from([operand, ~operand, operand == True, operand != True, operand.is_in([True, None])])  # noqa: E712 - Polars' own comparison
    literal = _literals(column)
    strategies = [
        st.tuples(st.sampled_from(_COMPARISONS), literal).map(lambda drawn: _compare(operand, drawn[0], drawn[1])),
        st.tuples(literal, literal, st.sampled_from(_CLOSED_SIDES)).map(lambda drawn: operand.is_between(drawn[0], drawn[1], closed=drawn[2])),
        _sets(column, operand),
        literal.map(operand.eq_missing),
        literal.map(operand.ne_missing),
        literal.map(lambda bound: _by_function(operand, bound)),
        literal.map(lambda bound: (operand >= bound).fill_null(value=True)),
    ]
    if dtype.is_float():
        strategies.append(
            st.sampled_from([operand.is_nan(), ~operand.is_nan(), operand == 0.0, operand == -0.0, operand > _NAN, operand == _NAN, operand != _INFINITY])
        )
    if dtype.is_integer():
        strategies.append(st.sampled_from([operand % 2 == 0, operand.cast(pl.Float64) > 1.5, operand > 0.5, operand.cast(pl.String).str.starts_with("1")]))
    if dtype == pl.String:
        text = st.sampled_from(_texts(column))
        strategies.append(text.map(operand.str.starts_with))
        strategies.append(text.map(operand.str.ends_with))
        strategies.append(text.map(lambda bound: ~operand.str.starts_with(bound)))
    return st.one_of(strategies)


def _compare(operand: pl.Expr, operator: str, bound: pl.Expr) -> pl.Expr:
    match operator:
        case "==":
            return operand == bound
        case "!=":
            return operand != bound
        case "<":
            return operand < bound
        case "<=":
            return operand <= bound
        case ">":
            return operand > bound
    return operand >= bound


def _literals(column: pl.Series) -> SearchStrategy[pl.Expr]:
    """Draw values of the column, and the neighbours of whole numbers, as literals of its type."""
    dtype, distinct = column.dtype, column.drop_nulls().unique()
    if not len(distinct):
        return st.just(pl.lit(None, dtype=dtype))
    if isinstance(dtype, pl.Datetime):
        return st.sampled_from(_add_neighbours(distinct.to_physical().to_list())).map(lambda ticks: pl.lit(ticks, pl.Int64).cast(dtype))
    values = distinct.to_list()
    if dtype.is_integer():
        neighbours = pl.Series(_add_neighbours(values), dtype=pl.Int64)
        values = neighbours.cast(dtype, strict=False).drop_nulls().to_list()
    # a sum may outgrow its DECIMAL, as in the reference engine: such a value is no literal of the column's own type
    return st.sampled_from(values).map(lambda value: pl.lit(value, dtype=None if dtype.is_decimal() else dtype))


def _add_neighbours(values: list[int]) -> list[int]:
    return sorted({value + step for value in values for step in (-1, 0, 1) if abs(value + step) < 2**63})


def _sets(column: pl.Series, operand: pl.Expr) -> SearchStrategy[pl.Expr]:
    distinct = column.drop_nulls().unique()
    indices = st.lists(st.integers(0, len(distinct) - 1), max_size=4) if len(distinct) else st.just([])

    def asked(drawn: tuple[list[int], bool, bool]) -> pl.Expr:
        at, with_null, nulls_equal = drawn
        values = distinct.gather(at)
        if with_null:
            values = pl.concat([values, pl.Series(distinct.name, [None], dtype=distinct.dtype)])
        return operand.is_in(values.implode(), nulls_equal=nulls_equal)

    return st.tuples(indices, st.booleans(), st.booleans()).map(asked)


def _texts(column: pl.Series) -> list[str]:
    distinct = [value for value in column.drop_nulls().unique().to_list() if value]
    return sorted({"", "a", *(value[:length] for value in distinct for length in (1, 3, 100))})


def _by_function(operand: pl.Expr, bound: pl.Expr) -> pl.Expr:
    """Return a Python function as a condition, which planning cannot understand."""
    return pl.struct(operand.alias("value"), bound.alias("one")).map_batches(_at_least, return_dtype=pl.Boolean, is_elementwise=True)


def _at_least(pair: pl.Series) -> pl.Series:
    value, bound = pair.struct.field("value"), pair.struct.field("one")
    return value >= bound


# ---- queries ---------------------------------------------------------------------------------------------------------


def queries(frame: pl.DataFrame) -> SearchStrategy[Query]:
    """Draw queries over the rows of `frame`."""
    return st.composite(_draw_query)(frame)


def _draw_query(draw: Callable[[SearchStrategy[Any]], Any], frame: pl.DataFrame) -> Query:
    names = frame.columns
    before = st.lists(conditions(frame, across_rows=True), max_size=2).map(tuple)
    after = st.lists(conditions(frame), max_size=2).map(tuple)
    plain = [name for name, dtype in frame.schema.items() if not dtype.is_nested()]
    length = st.one_of(st.integers(0, 3), st.integers(0, frame.height + 2))
    cut = st.one_of(st.none(), st.none(), st.tuples(st.sampled_from(["head", "slice", "tail"]), length, length))
    columns = st.one_of(st.none(), st.lists(st.sampled_from(names), unique=True, min_size=1, max_size=4).map(tuple)) if names else st.none()
    drawn_cut, selected = draw(cut), draw(columns)
    usable = [name for name in plain if selected is None or name in selected]
    return Query(
        before=draw(before),
        order=tuple(draw(st.lists(st.sampled_from(plain), unique=True, max_size=2))) if plain and draw(st.booleans()) else (),
        cut=drawn_cut,
        after=draw(after) if drawn_cut is not None else (),
        columns=selected,
        early=draw(st.booleans()),
        asks=draw(st.sampled_from(["rows", "rows", "rows", "count", "distinct", "numbers", *(["windows", "numbered"] if usable else [])])),
        over=draw(st.sampled_from(usable)) if usable else "",
        engine=draw(st.sampled_from(ENGINES)),
    )
