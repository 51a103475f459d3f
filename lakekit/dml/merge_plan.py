"""A merge before it runs: the source in memory, the match as one condition over both sides, clauses as expressions, all held against the columns.

    on=["k"]  →  k = source k              target k v | source's k, op, under longer names | row of the source
    update="all"  →  v := source v

The source is read once, and held: it is joined, looked at again for rows that match nothing, and its keys say which files of the target can match at all.
Source: ENGINE.md 8.3; `PaimonMergeIntoBase`, `MergeIntoPaimonTable`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Literal

import polars as pl

from lakekit.columns import col, internal
from lakekit.dml.assignments import assignments
from lakekit.dml.merge_clauses import Clause, WhenMatched, WhenNotMatched, WhenNotMatchedBySource
from lakekit.dml.merge_sql import flatten_qualified_names
from lakekit.errors import ColumnNotFound, SchemaMismatch
from lakekit.format.polars_types import polars_schema
from lakekit.lsm.numpy_columns import min_max_literals
from lakekit.read.expand import choose_among, expand, is_picklable, name_exactly, used_columns
from lakekit.read.lazy import filters_of
from lakekit.read.user_expressions import SOURCE, check_condition, format_expression, make_column_not_found, non_elementwise_reason, parse_expression
from lakekit.write import input_frames

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakekit.metadata.table_context import TableContext

    Schema = Mapping[str, pl.DataType]

SOURCE_ROW = internal("source_row")
"""The number of a source row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeAction:
    """One clause: where `condition` is true, and no clause before it was, a row goes, or gets `columns`."""

    does: Literal["update", "delete", "insert"]
    condition: pl.Expr
    columns: tuple[pl.Expr, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """What a merge does. `source` has its columns under their long names and `SOURCE_ROW`; `on` is the match."""

    source: pl.DataFrame
    on: pl.Expr
    near: pl.Expr | None
    matched: tuple[MergeAction, ...]
    not_matched: tuple[MergeAction, ...]
    not_matched_by_source: tuple[MergeAction, ...]

    @property
    def deletes(self) -> bool:
        """Whether any clause deletes."""
        return any(one.does == "delete" for one in (*self.matched, *self.not_matched_by_source))


def merge_plan(ctx: TableContext, source: object, clauses: Sequence[Clause], on: Sequence[str] | pl.Expr | str) -> MergePlan:
    """Reads the source and makes the plan. `near` is what target rows must satisfy to match anything; None: nothing is known of them.

    Raises `TypeError` for no clauses or other things, `ColumnNotFound`, `SchemaMismatch`, and what reading a source raises.
    """
    if not clauses or not all(isinstance(one, (WhenMatched, WhenNotMatched, WhenNotMatchedBySource)) for one in clauses):
        msg = "t.merge takes one clause or more, of lk.when_matched, lk.when_not_matched and lk.when_not_matched_by_source"
        raise TypeError(msg)
    rows = _source(source, ctx)
    target = polars_schema(ctx.schema.fields)
    sides = _Sides(ctx, target, _columns(rows))
    match = sides.match(on)
    return MergePlan(
        source=rows,
        on=match,
        near=_target_filter(match, target, rows),
        matched=tuple(sides.action(one) for one in clauses if isinstance(one, WhenMatched)),
        not_matched=tuple(sides.action(one) for one in clauses if isinstance(one, WhenNotMatched)),
        not_matched_by_source=tuple(sides.action(one) for one in clauses if isinstance(one, WhenNotMatchedBySource)),
    )


def source_frame(plan: MergePlan, ctx: TableContext, rows: pl.DataFrame) -> MergePlan:
    """The same merge of other rows of the source, which have its columns under their long names."""
    source = rows.with_row_index(SOURCE_ROW)
    return replace(plan, source=source, near=_target_filter(plan.on, polars_schema(ctx.schema.fields), source))


def target_columns_used(plan: MergePlan, ctx: TableContext) -> pl.Expr | None:
    """What the match says of target rows alone, whatever the source holds; None: nothing."""
    return _target_filter(plan.on, polars_schema(ctx.schema.fields), None, theirs=_columns(plan.source))


def equal_columns(plan: MergePlan, ctx: TableContext) -> dict[str, str]:
    """The columns of the target that must equal one of the source for two rows to match, and that one under its long name."""
    target = polars_schema(ctx.schema.fields)
    both = {**target, **plan.source.schema}
    parts = [found.expr for found in filters_of(plan.on, both)]
    return dict(pair for expr in parts if (pair := _equal_pair(expr, set(expr.meta.root_names()), both, target)) is not None)


def _columns(rows: pl.DataFrame) -> Schema:
    return {name: rows.schema[name] for name in rows.columns if name != SOURCE_ROW}


def _source(source: object, ctx: TableContext) -> pl.DataFrame:
    """All rows of the source. One without rows and columns has the table's."""
    found = input_frames.open_input(source, ctx)
    pieces = list(found.pieces(ctx))
    schema = polars_schema(ctx.schema.fields) if found.schema is None else found.schema
    frame = pl.concat(pieces) if pieces else pl.DataFrame(schema=schema)
    zoned = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.Datetime) and dtype.time_zone not in (None, "UTC")]
    frame = frame.with_columns(col(name).dt.convert_time_zone("UTC") for name in zoned)  # the moments of the table are of UTC
    return frame.rename(lambda name: f"{SOURCE}{name}").with_row_index(SOURCE_ROW)


@dataclass(frozen=True, slots=True)
class _Sides:
    """The columns of both sides; `theirs` are the source's."""

    ctx: TableContext
    target: Schema
    theirs: Schema

    @property
    def both(self) -> Schema:
        return {**self.target, **self.theirs}

    def match(self, on: Sequence[str] | pl.Expr | str) -> pl.Expr:
        """When two rows match: equal columns, or a condition."""
        if isinstance(on, str) and on in self.target and SOURCE + on in self.theirs:
            on = [on]
        if isinstance(on, (str, pl.Expr)):
            return self._joinable(self.condition(on, self.both, "on"))
        given: object = on
        names = list(given) if isinstance(given, Iterable) else []  # an iterator gives them once
        if not names or not all(isinstance(name, str) for name in names):
            msg = f"on= takes columns that both sides have, or a condition such as 't.k = s.k', not {on!r}"
            raise TypeError(msg)
        equal = []
        for name in names:
            if name not in self.target:
                raise make_column_not_found(name, list(self.target), self.ctx.name, "on")
            if SOURCE + name not in self.theirs:
                raise self._no_source_column(name, "on")
            equal.append(self._equal(name))
        return self._joinable(self.condition(reduce(and_, equal), self.both, "on"))

    def _joinable(self, expr: pl.Expr) -> pl.Expr:
        """Polars compares columns of two sides only where it would lose nothing of either."""
        try:
            pl.LazyFrame(schema=self.target).join_where(pl.LazyFrame(schema=self.theirs), expr).collect_schema()
        except pl.exceptions.PolarsError as wrong:
            what = str(wrong).replace(SOURCE, "s.")
            raise SchemaMismatch(f"on={format_expression(expr)} for {self.ctx.name}: {what}. Cast the source's column to the type of the target's") from None
        return expr

    def _equal(self, name: str) -> pl.Expr:
        """Times of two units are compared in the finer one: Polars takes the coarser."""
        mine, theirs = col(name), col(SOURCE + name)
        left, right = self.target[name], self.theirs[SOURCE + name]
        if isinstance(left, pl.Datetime) and isinstance(right, pl.Datetime) and left.time_unit != right.time_unit:
            unit = max(left.time_unit, right.time_unit, key=("ms", "us", "ns").index)
            mine, theirs = mine.dt.cast_time_unit(unit), theirs.dt.cast_time_unit(unit)
        return mine == theirs

    def condition(self, given: pl.Expr | str, schema: Schema, said: str) -> pl.Expr:
        expr = (
            parse_expression(flatten_qualified_names(given), self.ctx.name, said, schema)
            if isinstance(given, str)
            else self._chosen(parse_expression(given, self.ctx.name, said), said)
        )
        self._look(expr, schema, said)
        expr = check_condition(expr, schema, self.ctx.name, said)
        if (beyond := non_elementwise_reason(expr, schema)) is not None:
            raise SchemaMismatch(f"{said}={format_expression(expr)} {beyond}. What is done to a row depends on it alone")
        return expr

    def action(self, clause: Clause) -> MergeAction:
        name = {WhenMatched: "when_matched", WhenNotMatched: "when_not_matched", WhenNotMatchedBySource: "when_not_matched_by_source"}[type(clause)]
        schema = {WhenMatched: self.both, WhenNotMatched: self.theirs, WhenNotMatchedBySource: self.target}[type(clause)]
        condition = pl.lit(value=True) if clause.where is None else self.condition(clause.where, schema, f"{name}(where)").fill_null(value=False)
        if not isinstance(clause, WhenNotMatched) and clause.delete:
            return MergeAction(does="delete", condition=condition)
        given = clause.insert if isinstance(clause, WhenNotMatched) else clause.update
        does: Literal["update", "insert"] = "insert" if isinstance(clause, WhenNotMatched) else "update"
        return MergeAction(does=does, condition=condition, columns=self._values(given, schema, f"{name}({does})"))

    def _values(self, given: object, schema: Schema, said: str) -> tuple[pl.Expr, ...]:
        if given == "all":
            shared = [name for name in self.target if SOURCE + name in self.theirs]
            if not shared:
                raise SchemaMismatch(f"{said}='all': the source has no column of {self.ctx.name}; it has {self._source_names()}")
            return tuple(col(SOURCE + name).alias(name) for name in shared)
        made = given
        if hasattr(given, "items"):
            made = {name: self._value(value, schema, f"{said}[{name!r}]") if isinstance(value, (pl.Expr, str)) else value for name, value in given.items()}
        return tuple(assignments(made, self.ctx, schema, said=said).values())  # type: ignore[arg-type] # it refuses what is no mapping

    def _value(self, value: pl.Expr | str, schema: Schema, said: str) -> pl.Expr:
        given = parse_expression(flatten_qualified_names(value) if isinstance(value, str) else value, self.ctx.name, said)
        expr = name_exactly(given, schema) if isinstance(value, str) else self._chosen(given, said)
        self._look(expr, schema, said)
        return expr

    def _chosen(self, expr: pl.Expr, said: str) -> pl.Expr:
        """An expression whose selectors choose among the columns of the target, which `pl.col` names in a merge."""
        if not expr.meta.has_multiple_outputs():
            return expr
        try:
            if not set(used_columns(expr, self.both)) <= self.target.keys():
                if not is_picklable(expr):
                    why = "has a selector, a column of the source and a function of Python that does not pickle: write the names of the columns it chooses"
                    raise SchemaMismatch(f"{said}={format_expression(expr)} for {self.ctx.name} {why}")
                return choose_among(expr, self.target)
            found = expand(expr, self.target)
        except pl.exceptions.PolarsError as wrong:
            what = str(wrong).split("\n", 1)[0].replace(SOURCE, "s.")
            raise SchemaMismatch(
                f"{said}={format_expression(expr)} for {self.ctx.name}: {what}. Selectors choose among its columns; name those of the source"
            ) from None
        if len(found) != 1:
            raise SchemaMismatch(f"{said}={format_expression(expr)} for {self.ctx.name} gives {len(found)} columns, and one is wanted")
        return found[0]

    def _look(self, expr: pl.Expr, schema: Schema, said: str) -> None:
        """Raises `ColumnNotFound` for a column of a side that has no row there, or that is not there at all."""
        for name in used_columns(expr, schema):
            if name in schema:
                continue
            own = name.removeprefix(SOURCE)
            if name.startswith(SOURCE):
                if name in self.theirs:
                    raise ColumnNotFound(
                        f"{said} looks at source column {own!r}, and there is no source row: it is about target rows that none matches", name=own
                    )
                raise self._no_source_column(own, said)
            if name in self.target:
                hint = f"; lk.source({name!r}), or s.{name} in SQL, is the source's" if SOURCE + name in self.theirs else ""
                raise ColumnNotFound(f"{said} looks at target column {name!r}, and there is no target row: it is about rows that match none{hint}", name=name)
            raise make_column_not_found(name, list(self.target), self.ctx.name, said)

    def _no_source_column(self, name: str, said: str) -> ColumnNotFound:
        return ColumnNotFound(f"{said} names column {name!r} of the source, which has not; its columns are {self._source_names()}", name=name)

    def _source_names(self) -> str:
        return ", ".join(name.removeprefix(SOURCE) for name in self.theirs) or "none"


# ---- which target rows can match -----------------------------------------------------------------

_SIGNED_INTEGERS: list[pl.DataType] = [pl.Int8(), pl.Int16(), pl.Int32(), pl.Int64()]
_RANGE_TYPES = (pl.Date, pl.Datetime, pl.String, pl.Decimal, pl.Time)


def _target_filter(match: pl.Expr, target: Schema, source: pl.DataFrame | None, *, theirs: Schema | None = None) -> pl.Expr | None:
    """What conjuncts say of the target alone, and the range of source values where a target column must equal a source column.

    `source` None: its rows are not known, but for their columns `theirs`.
    """
    parts = []
    both = {**target, **(theirs or {} if source is None else source.schema)}
    for found in filters_of(match, both):
        names = set(found.expr.meta.root_names())
        if names and names <= set(target):
            parts.append(found.expr)
        elif source is not None and (pair := _equal_pair(found.expr, names, both, target)) is not None:
            parts += _range_conditions(*pair, target, source)
    return reduce(and_, parts) if parts else None


def _equal_pair(expr: pl.Expr, names: set[str], both: Schema, target: Schema) -> tuple[str, str] | None:
    """The target and the source column that a conjunct says are equal; Polars may have widened one of them to the type of the other."""
    mine, other = [name for name in names if name in target], [name for name in names if name not in target]
    if len(mine) != 1 or len(other) != 1:
        return None
    left, right = col(mine[0]), col(other[0])
    sides = expr.meta.pop()
    if len(sides) != 2 or not expr.meta.eq(sides[1] == sides[0]):
        return None
    wide = max(both[mine[0]], both[other[0]], key=lambda dtype: _SIGNED_INTEGERS.index(dtype) if dtype in _SIGNED_INTEGERS else -1)
    plain = {str(column) for column in (left, right)} | {f"{column}.cast({wide})" for column in (left, right) if wide in _SIGNED_INTEGERS}
    return (mine[0], other[0]) if {str(side) for side in sides} <= plain else None


def _range_conditions(mine: str, other: str, target: Schema, source: pl.DataFrame) -> list[pl.Expr]:
    """The range of a source column, as one of the target's: of whole numbers, and of other values where both have one type."""
    values, dtype = source.get_column(other), target[mine]
    is_whole = values.dtype in _SIGNED_INTEGERS and dtype in _SIGNED_INTEGERS
    if not is_whole and (values.dtype != dtype or not isinstance(dtype, _RANGE_TYPES)):
        return []
    if values.null_count() == len(values):
        return [pl.lit(value=False)]
    return [col(mine).is_between(*min_max_literals(values))]
