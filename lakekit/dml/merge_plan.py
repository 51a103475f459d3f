"""The plan of a merge, `t.merge(source, *clauses, on=["k"])`: clauses, and the match as a condition.

    lk.when_matched(delete=True, where=lk.source("op") == "D")                 a target row that a source row matches
    lk.when_matched(update={"v": pl.col("v") + lk.source("v")})
    lk.when_not_matched(insert="all")                                          a source row that matches no target row
    lk.when_not_matched_by_source(delete=True, where="t.dt = '2024-03-31'")    a target row that no source row matches

    on=["k"]      means  target k = source k
    update="all"  means  set v to source v
    joined row    target columns k, v │ source columns <prefix>k, <prefix>v, <prefix>op │ number of the source row

For each row, the clauses of its kind (matched, not matched, not matched by source) are tried in the given order, and
the first one whose condition is true acts. If none is true, a target row stays and a source row is not inserted.
`pl.col("v")` is the target's column, `lk.source("v")` the source's; in SQL text they are `t.v` and `s.v`, and a bare
name is the target's. Everything is checked against the columns of both sides. The source is read once into memory: it
is joined, searched again for rows that match nothing, and its keys determine which files of the target can match at
all.

Source: ENGINE.md 8.3; `PaimonMergeIntoBase`, `MergeIntoPaimonTable`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

from lakekit.columns import col, internal, without_empty_chunks
from lakekit.dml.delete_update import resolve_assignments
from lakekit.errors import ColumnNotFound, SchemaMismatch
from lakekit.format.polars_types import polars_schema
from lakekit.lsm.numpy_columns import min_max_literals
from lakekit.read.polars_pushdown import filters_of
from lakekit.read.user_expressions import (
    MERGE_SOURCE_PREFIX,
    check_expression,
    expand_to_columns,
    format_expression,
    is_picklable,
    make_column_not_found,
    non_elementwise_reason,
    resolve_condition,
    resolve_selectors,
    translate_condition,
    translate_value,
    used_columns,
)
from lakekit.write import input_frames

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakekit.metadata.table_context import TableContext

    Schema = Mapping[str, pl.DataType]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WhenMatched:
    """A clause that updates or deletes matched target rows; exactly one of `update` and `delete` is given."""

    update: Literal["all"] | Mapping[str, Any] | None = None
    delete: bool = False
    where: pl.Expr | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WhenNotMatched:
    """A clause that inserts source rows without a match."""

    insert: Literal["all"] | Mapping[str, Any] = "all"
    where: pl.Expr | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WhenNotMatchedBySource:
    """A clause that updates or deletes target rows that no source row matches.

    Exactly one of `update` and `delete` is given.
    """

    update: Mapping[str, Any] | None = None
    delete: bool = False
    where: pl.Expr | str | None = None


Clause: TypeAlias = WhenMatched | WhenNotMatched | WhenNotMatchedBySource


def source(name: str) -> pl.Expr:
    """Return a column of the source, for an expression of a merge: `pl.col("v") + lk.source("v")`."""
    return pl.col(f"{MERGE_SOURCE_PREFIX}{name}")


def when_matched(
    *,
    update: Literal["all"] | Mapping[str, Any] | None = None,
    delete: bool = False,
    where: pl.Expr | str | None = None,
) -> WhenMatched:
    """Return the clause for matching source and target rows: `update` or `delete` the target row.

    `update`: new values by column; "all": every column that the source has too. Values are Polars expressions, SQL
    text, or any other value, as in `t.update`.

    Raises: `TypeError` unless exactly one of `update` and `delete` is given.
    """
    _check_one_action("when_matched", update, delete=delete)
    if isinstance(update, str) and update != "all":
        raise _not_all("update", update)
    return WhenMatched(update=update, delete=delete, where=where)


def when_not_matched(
    *, insert: Literal["all"] | Mapping[str, Any] = "all", where: pl.Expr | str | None = None
) -> WhenNotMatched:
    """Return the clause for a source row that matches no target row: `insert` it.

    `insert`: "all", every column that the table has too, or the values of the new row by column. Columns without a
    value are null, or their default.

    Raises: `TypeError` for other words.
    """
    if isinstance(insert, str) and insert != "all":
        raise _not_all("insert", insert)
    return WhenNotMatched(insert=insert, where=where)


def when_not_matched_by_source(
    *, update: Mapping[str, Any] | None = None, delete: bool = False, where: pl.Expr | str | None = None
) -> WhenNotMatchedBySource:
    """Return the clause for a target row that no source row matches: `update` or `delete` it.

    `update`: new values by column, computed from the row itself.

    Raises: `TypeError` unless exactly one of `update` and `delete` is given.
    """
    _check_one_action("when_not_matched_by_source", update, delete=delete)
    if isinstance(update, str):
        msg = (
            f"when_not_matched_by_source(update={update!r}): there is no source row to take values from; give them by "
            "column"
        )
        raise TypeError(msg)
    return WhenNotMatchedBySource(update=update, delete=delete, where=where)


def _check_one_action(name: str, update: object, *, delete: bool) -> None:
    if (update is not None) == bool(delete):
        msg = f"{name} takes update= or delete=True, and exactly one of them"
        raise TypeError(msg)


def _not_all(what: str, text: str) -> TypeError:
    return TypeError(f"{what}={text!r}: the word is 'all'; values are given by column, {what}={{'v': …}}")


# ---- merge plan ------------------------------------------------------------


SOURCE_ROW = internal("source_row")
"""The column with the number of a source row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeAction:
    """One clause: it deletes a row, or sets `columns`, if `condition` is true and no earlier clause took the row."""

    action: Literal["update", "delete", "insert"]
    condition: pl.Expr
    columns: tuple[pl.Expr, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """The plan of a merge.

    `source` are the source rows, with the column `SOURCE_ROW` and with the prefix `MERGE_SOURCE_PREFIX` before each
    column name. `match` is the condition under which two rows match. `target_filter` is a necessary condition on target
    rows that match any source row; None: no such condition is known.
    """

    source: pl.DataFrame
    match: pl.Expr
    target_filter: pl.Expr | None
    matched: tuple[MergeAction, ...]
    not_matched: tuple[MergeAction, ...]
    not_matched_by_source: tuple[MergeAction, ...]
    is_update: bool = False
    """Whether it stands for an UPDATE, which refuses a new value that merging would lose."""

    @property
    def deletes(self) -> bool:
        """Whether any clause deletes rows."""
        return any(action.action == "delete" for action in (*self.matched, *self.not_matched_by_source))


def build_merge_plan(
    ctx: TableContext, source: object, clauses: Sequence[Clause], on: Sequence[str] | pl.Expr | str | None
) -> MergePlan:
    """Read the whole source into memory, and return the plan of the merge.

    `on`: None where the source has the numbers of the rows that it matches.

    Raises: `TypeError` for no clauses or other objects, `ColumnNotFound`, `SchemaMismatch`, and the errors of reading
    the source.
    """
    if not clauses or not all(
        isinstance(clause, (WhenMatched, WhenNotMatched, WhenNotMatchedBySource)) for clause in clauses
    ):
        msg = (
            "t.merge takes one clause or more, of lk.when_matched, lk.when_not_matched and "
            "lk.when_not_matched_by_source"
        )
        raise TypeError(msg)
    rows = _read_source(source, ctx)
    target = polars_schema(ctx.schema.fields)
    sides = _MergeColumns(ctx, target, _source_schema(rows))
    match = pl.lit(value=True) if on is None else sides.match_condition(on)
    return MergePlan(
        source=rows,
        match=match,
        target_filter=None if on is None else _target_filter(match, target, rows),
        matched=tuple(sides.resolve_clause(clause) for clause in clauses if isinstance(clause, WhenMatched)),
        not_matched=tuple(sides.resolve_clause(clause) for clause in clauses if isinstance(clause, WhenNotMatched)),
        not_matched_by_source=tuple(
            sides.resolve_clause(clause) for clause in clauses if isinstance(clause, WhenNotMatchedBySource)
        ),
    )


def source_frame(plan: MergePlan, ctx: TableContext, rows: pl.DataFrame) -> MergePlan:
    """Return the same plan with other source rows, whose column names have the prefix `MERGE_SOURCE_PREFIX` already."""
    source = rows.with_row_index(SOURCE_ROW)
    return replace(
        plan,
        source=source,
        target_filter=_target_filter(plan.match, polars_schema(ctx.schema.fields), source),
    )


def target_only_condition(plan: MergePlan, ctx: TableContext) -> pl.Expr | None:
    """Return the part of the match condition that reads target columns only; None if there is no such part.

    It does not depend on the rows of the source.
    """
    return _target_filter(plan.match, polars_schema(ctx.schema.fields), None, theirs=_source_schema(plan.source))


def equi_join_columns(plan: MergePlan, ctx: TableContext) -> dict[str, str]:
    """Return target column -> source column for each pair that the match condition compares for equality.

    Names of source columns have the prefix `MERGE_SOURCE_PREFIX`.
    """
    target = polars_schema(ctx.schema.fields)
    both = {**target, **plan.source.schema}
    parts = [conjunct.expr for conjunct in filters_of(plan.match, both)]
    return dict(
        pair for expr in parts if (pair := _equal_pair(expr, set(expr.meta.root_names()), both, target)) is not None
    )


def _source_schema(rows: pl.DataFrame) -> Schema:
    return {name: rows.schema[name] for name in rows.columns if name != SOURCE_ROW}


def _read_source(source: object, ctx: TableContext) -> pl.DataFrame:
    """Return all rows of the source; a source without rows and columns gets the table's columns."""
    frames = input_frames.open_input(source, ctx)
    pieces = list(frames.iter_frames(ctx))
    schema = polars_schema(ctx.schema.fields) if frames.schema is None else frames.schema
    frame = without_empty_chunks(pl.concat(pieces)) if pieces else pl.DataFrame(schema=schema)
    zoned = [
        name
        for name, dtype in frame.schema.items()
        if isinstance(dtype, pl.Datetime) and dtype.time_zone not in (None, "UTC")
    ]
    # instants of the table are in UTC
    frame = frame.with_columns(col(name).dt.convert_time_zone("UTC") for name in zoned)
    return frame.rename(lambda name: f"{MERGE_SOURCE_PREFIX}{name}").with_row_index(SOURCE_ROW)


@dataclass(frozen=True, slots=True)
class _MergeColumns:
    """The columns of both sides: `target` of the table, `source` of the source."""

    ctx: TableContext
    target: Schema
    source: Schema

    @property
    def combined_schema(self) -> Schema:
        return {**self.target, **self.source}

    def match_condition(self, on: Sequence[str] | pl.Expr | str) -> pl.Expr:
        """Return the condition under which two rows match: equal columns `on`, or the condition `on`."""
        if isinstance(on, str) and on in self.target and MERGE_SOURCE_PREFIX + on in self.source:
            on = [on]
        if isinstance(on, (str, pl.Expr)):
            return self._check_joinable(self.resolve_condition(on, self.combined_schema, "on"))
        columns: object = on
        names = list(columns) if isinstance(columns, Iterable) else []  # an iterator gives them once
        if not names or not all(isinstance(name, str) for name in names):
            msg = f"on= takes columns that both sides have, or a condition such as 't.k = s.k', not {on!r}"
            raise TypeError(msg)
        equal = []
        for name in names:
            if name not in self.target:
                raise make_column_not_found(name, list(self.target), self.ctx.name, "on")
            if MERGE_SOURCE_PREFIX + name not in self.source:
                raise self._no_source_column(name, "on")
            equal.append(self._column_equality(name))
        return self._check_joinable(self.resolve_condition(reduce(and_, equal), self.combined_schema, "on"))

    def _check_joinable(self, expr: pl.Expr) -> pl.Expr:
        """Return the expression, if Polars compares its columns without loss. Raises `SchemaMismatch`."""
        try:
            pl.LazyFrame(schema=self.target).join_where(pl.LazyFrame(schema=self.source), expr).collect_schema()
        except pl.exceptions.PolarsError as wrong:
            what = str(wrong).replace(MERGE_SOURCE_PREFIX, "s.")
            raise SchemaMismatch(
                f"on={format_expression(expr)} for {self.ctx.name}: {what}. Cast the source's column to the type of "
                "the target's"
            ) from None
        return expr

    def _column_equality(self, name: str) -> pl.Expr:
        """Return the equality of a column on both sides; times are compared in the finer of both units.

        Polars would compare them in the coarser unit.
        """
        mine, theirs = col(name), col(MERGE_SOURCE_PREFIX + name)
        left, right = self.target[name], self.source[MERGE_SOURCE_PREFIX + name]
        if isinstance(left, pl.Datetime) and isinstance(right, pl.Datetime) and left.time_unit != right.time_unit:
            unit = max(left.time_unit, right.time_unit, key=("ms", "us", "ns").index)
            mine, theirs = mine.dt.cast_time_unit(unit), theirs.dt.cast_time_unit(unit)
        return mine == theirs

    def resolve_condition(self, value: pl.Expr | str, schema: Schema, argument: str) -> pl.Expr:
        if isinstance(value, str):
            expr = translate_condition(value, schema, self.ctx.name, argument, missing=self._missing)
        else:
            expr = self._expand_selectors(check_expression(value, argument), argument)
            self._check_columns(expr, schema, argument)
            expr = resolve_condition(expr, schema, self.ctx.name, argument)
        if (beyond := non_elementwise_reason(expr, schema)) is not None:
            raise SchemaMismatch(
                f"{argument}={format_expression(expr)} {beyond}. What is done to a row depends on it alone"
            )
        return expr

    def resolve_clause(self, clause: Clause) -> MergeAction:
        name = {
            WhenMatched: "when_matched",
            WhenNotMatched: "when_not_matched",
            WhenNotMatchedBySource: "when_not_matched_by_source",
        }[type(clause)]
        schema = {WhenMatched: self.combined_schema, WhenNotMatched: self.source, WhenNotMatchedBySource: self.target}[
            type(clause)
        ]
        condition = (
            pl.lit(value=True)
            if clause.where is None
            else self.resolve_condition(clause.where, schema, f"{name}(where)").fill_null(value=False)
        )
        if not isinstance(clause, WhenNotMatched) and clause.delete:
            return MergeAction(action="delete", condition=condition)
        values = clause.insert if isinstance(clause, WhenNotMatched) else clause.update
        does: Literal["update", "insert"] = "insert" if isinstance(clause, WhenNotMatched) else "update"
        return MergeAction(
            action=does, condition=condition, columns=self._resolve_assignments(values, schema, f"{name}({does})")
        )

    def _resolve_assignments(self, values: object, schema: Schema, argument: str) -> tuple[pl.Expr, ...]:
        if values == "all":
            shared = [name for name in self.target if MERGE_SOURCE_PREFIX + name in self.source]
            if not shared:
                raise SchemaMismatch(
                    f"{argument}='all': the source has no column of {self.ctx.name}; it has {self._source_names()}"
                )
            return tuple(col(MERGE_SOURCE_PREFIX + name).alias(name) for name in shared)
        expressions = values
        if hasattr(values, "items"):
            expressions = {
                name: self._resolve_assignment(name, value, schema, f"{argument}[{name!r}]")
                if isinstance(value, (pl.Expr, str))
                else value
                for name, value in values.items()
            }
        return tuple(resolve_assignments(expressions, self.ctx, schema, argument=argument).values())  # type: ignore[arg-type] # it refuses what is no mapping

    def _resolve_assignment(self, name: str, value: pl.Expr | str, schema: Schema, argument: str) -> pl.Expr:
        if isinstance(value, str):
            dtype = self.target.get(name, pl.Null())
            return translate_value(value, dtype, schema, self.ctx.name, argument, missing=self._missing)
        expr = self._expand_selectors(value, argument)
        self._check_columns(expr, schema, argument)
        return expr

    def _missing(self, parts: Sequence[str]) -> ColumnNotFound:
        """Return the error about a name of an SQL text that is no column: `x`, `t.x` or `s.x`."""
        is_source = len(parts) > 1 and parts[0].lower() == "s"
        name = MERGE_SOURCE_PREFIX + parts[1] if is_source else parts[parts[0].lower() == "t" and len(parts) > 1]
        return self._not_found(name, "it")

    def _expand_selectors(self, expr: pl.Expr, argument: str) -> pl.Expr:
        """Return an expression whose selectors are expanded to columns of the target."""
        if not expr.meta.has_multiple_outputs():
            return expr
        try:
            if not set(used_columns(expr, self.combined_schema)) <= self.target.keys():
                if not is_picklable(expr):
                    why = (
                        "has a selector, a column of the source and a function of Python that does not pickle: write "
                        "the names of the columns it chooses"
                    )
                    raise SchemaMismatch(f"{argument}={format_expression(expr)} for {self.ctx.name} {why}")
                return resolve_selectors(expr, self.target)
            expanded = expand_to_columns(expr, self.target)
        except pl.exceptions.PolarsError as wrong:
            what = str(wrong).split("\n", 1)[0].replace(MERGE_SOURCE_PREFIX, "s.")
            raise SchemaMismatch(
                f"{argument}={format_expression(expr)} for {self.ctx.name}: {what}. Selectors choose among its "
                "columns; name those of the source"
            ) from None
        if len(expanded) != 1:
            raise SchemaMismatch(
                f"{argument}={format_expression(expr)} for {self.ctx.name} gives {len(expanded)} columns, and one is "
                "wanted"
            )
        return expanded[0]

    def _check_columns(self, expr: pl.Expr, schema: Schema, argument: str) -> None:
        """Raise `ColumnNotFound` for an unknown column, or a column of a side that has no row in this clause."""
        for name in used_columns(expr, schema):
            if name not in schema:
                raise self._not_found(name, argument)

    def _not_found(self, name: str, argument: str) -> ColumnNotFound:
        """Return the error about a column that is unknown, or of a side that has no row in a clause."""
        own = name.removeprefix(MERGE_SOURCE_PREFIX)
        if name.startswith(MERGE_SOURCE_PREFIX):
            if name in self.source:
                return ColumnNotFound(
                    f"{argument} looks at source column {own!r}, and there is no source row: it is about target "
                    "rows that none matches",
                    name=own,
                )
            return self._no_source_column(own, argument)
        if name in self.target:
            hint = (
                f"; lk.source({name!r}), or s.{name} in SQL, is the source's"
                if MERGE_SOURCE_PREFIX + name in self.source
                else ""
            )
            return ColumnNotFound(
                f"{argument} looks at target column {name!r}, and there is no target row: it is about rows that "
                f"match none{hint}",
                name=name,
            )
        return make_column_not_found(name, list(self.target), self.ctx.name, argument)

    def _no_source_column(self, name: str, argument: str) -> ColumnNotFound:
        return ColumnNotFound(
            f"{argument} names column {name!r} of the source, which has not; its columns are {self._source_names()}",
            name=name,
        )

    def _source_names(self) -> str:
        return ", ".join(name.removeprefix(MERGE_SOURCE_PREFIX) for name in self.source) or "none"


# ---- which target rows can match -----------------------------------------------------------------

_SIGNED_INTEGERS: list[pl.DataType] = [pl.Int8(), pl.Int16(), pl.Int32(), pl.Int64()]
_RANGE_TYPES = (pl.Date, pl.Datetime, pl.String, pl.Decimal, pl.Time)


def _target_filter(
    match: pl.Expr, target: Schema, source: pl.DataFrame | None, *, theirs: Schema | None = None
) -> pl.Expr | None:
    """Return a necessary condition on target rows that match any source row; None if none is known.

    It consists of the conjuncts of `match` that read target columns only, and of the range of source values for each
    target column that must equal a source column. `source` None: the rows are not known, only the columns `theirs`.
    """
    parts = []
    both = {**target, **(theirs or {} if source is None else source.schema)}
    for conjunct in filters_of(match, both):
        names = set(conjunct.expr.meta.root_names())
        if names and names <= set(target):
            parts.append(conjunct.expr)
        elif source is not None and (pair := _equal_pair(conjunct.expr, names, both, target)) is not None:
            parts += _range_conditions(*pair, target, source)
    return reduce(and_, parts) if parts else None


def _equal_pair(expr: pl.Expr, names: set[str], both: Schema, target: Schema) -> tuple[str, str] | None:
    """Return the (target column, source column) that a conjunct compares for equality; None for another conjunct.

    Polars may have cast one of the columns to the wider type.
    """
    mine, other = [name for name in names if name in target], [name for name in names if name not in target]
    if len(mine) != 1 or len(other) != 1:
        return None
    left, right = col(mine[0]), col(other[0])
    sides = expr.meta.pop()
    if len(sides) != 2 or not expr.meta.eq(sides[1] == sides[0]):
        return None
    wide = max(
        both[mine[0]],
        both[other[0]],
        key=lambda dtype: _SIGNED_INTEGERS.index(dtype) if dtype in _SIGNED_INTEGERS else -1,
    )
    plain = {str(column) for column in (left, right)} | {
        f"{column}.cast({wide})" for column in (left, right) if wide in _SIGNED_INTEGERS
    }
    return (mine[0], other[0]) if {str(side) for side in sides} <= plain else None


def _range_conditions(mine: str, other: str, target: Schema, source: pl.DataFrame) -> list[pl.Expr]:
    """Return the range of a source column's values as conditions on the target column.

    There are none unless both types are integers, or are equal and have an order. A source column without values gives
    a condition that is false.
    """
    values, dtype = source.get_column(other), target[mine]
    is_whole = values.dtype in _SIGNED_INTEGERS and dtype in _SIGNED_INTEGERS
    if not is_whole and (values.dtype != dtype or not isinstance(dtype, _RANGE_TYPES)):
        return []
    if values.null_count() == len(values):
        return [pl.lit(value=False)]
    return [col(mine).is_between(*min_max_literals(values))]
