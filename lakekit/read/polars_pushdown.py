"""The interface to Polars: a LazyFrame that calls lakekit while Polars optimises; its filters.

    "((pa.compute.field('k') >= 5) & (pa.compute.field('s')).isin(["a","b"]))"
        ->   And((Leaf("k", ">=", (5,)), Leaf("s", "in", ("a", "b"))))

This is the only module that imports Polars' resolver, which is marked unstable. Polars passes filters, projection and
limit; lakekit returns a native plan over the files that remain. Only filters that partition columns decide are reported
as applied; Polars applies every other again, so that a condition that was not understood costs time, but never gives
wrong rows.

`FilterExpr.pyarrow_str` is public and covers comparisons, ranges, sets, prefixes and null tests. What is not understood
becomes `TRUE`: the file is kept, and Polars filters its rows. The text is parsed with `ast` and never evaluated.
"""

from __future__ import annotations

import ast
import math
from contextvars import copy_context
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import polars as pl
from polars.lazyframe.resolver import FilterExpr, LazyFrameResolver, ResolvedLazyFrameProps

from lakekit import runtime
from lakekit.predicate import (
    FALSE,
    TRUE,
    Leaf,
    Predicate,
    conjunction,
    disjunction,
    leaves,
    negate,
    operators,
    restrict,
)
from lakekit.read import filter_pushdown, temporal
from lakekit.read.filter_pushdown import filter_to_pyarrow_text
from lakekit.types import TIMESTAMPS, Instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lakekit.model.table_schema import TableSchema
    from lakekit.types import Field


_OPERATOR_OF_AST: dict[type[ast.cmpop], str] = {
    ast.Eq: "=",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_MIRRORED_OPERATOR = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_UNIT_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000}
_MAX_TEXT = 1 << 20
"""A longer filter (a set of very many literals) is not worth parsing: it prunes little and costs much."""


@dataclass(frozen=True, slots=True)
class ScanFilter:
    """A filter as planning uses it.

    `predicate` is a necessary condition; `partition_conditions` and `key_conditions` are the conjuncts that use
    partition columns, or key columns, alone.
    """

    predicate: Predicate = TRUE
    partition_conditions: tuple[pl.Expr, ...] = ()
    key_conditions: tuple[pl.Expr, ...] = ()


class _UnknownExpression(Exception):
    pass


def predicate_of(text: str | None) -> Predicate:
    """Return the predicate of a filter's pyarrow text, with `TRUE` for what was not understood."""
    try:
        node = _parse_expression(text)
        return TRUE if node is None else _parse_condition(node)
    except RecursionError:
        return TRUE


def parse_exact(text: str | None) -> Predicate | None:
    """Return the predicate that is equivalent to a filter's text; None if some of it was not understood."""
    try:
        node = _parse_expression(text)
        predicate = (
            _parse_condition(node)
            if node is not None and _is_fully_understood(node) and not _has_inexact_negation(node)
            else None
        )
    except RecursionError:
        return None
    return None if predicate is None or "not in" in operators(predicate) else predicate


def _has_inexact_negation(node: ast.expr) -> bool:
    """Return whether an expression negates what has no exact negation.

    That is a prefix test; and a set without values, which is written as false and is null for a null.
    """
    for part in ast.walk(node):
        if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Invert):
            is_false = any(isinstance(inner, ast.Constant) and inner.value is False for inner in ast.walk(part.operand))
            if is_false or "starts with" in operators(_parse_condition(part.operand)):
                return True
    return False


def _parse_expression(text: str | None) -> ast.expr | None:
    if text is None or len(text) > _MAX_TEXT:
        return None
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _parse_condition(node: ast.expr) -> Predicate:
    match node:
        case ast.BinOp(left, ast.BitAnd(), right):
            return conjunction([_parse_condition(left), _parse_condition(right)])
        case ast.BinOp(left, ast.BitOr(), right):
            return disjunction([_parse_condition(left), _parse_condition(right)])
        case ast.UnaryOp(ast.Invert(), operand):
            return restrict(negate(_parse_condition(operand)), _or_null) if _is_fully_understood(operand) else TRUE
    try:
        return _parse_leaf(node)
    except _UnknownExpression:
        return TRUE


def _or_null(leaf: Leaf) -> Predicate:
    """Return the leaf, or true for nulls if it is a "not in".

    `isin` of a null is false and not null if the set is tested with `nulls_equal`, which the text does not show: its
    negation may be true for nulls.
    """
    return disjunction([leaf, Leaf(leaf.column, "is null")]) if leaf.op == "not in" else leaf


def _is_fully_understood(node: ast.expr) -> bool:
    """Return whether every part of a condition was understood: only then does its negation follow."""
    match node:
        case ast.BinOp(left, ast.BitAnd() | ast.BitOr(), right):
            return _is_fully_understood(left) and _is_fully_understood(right)
        case ast.UnaryOp(ast.Invert(), operand):
            return _is_fully_understood(operand)
    try:
        _parse_leaf(node)
    except _UnknownExpression:
        return False
    return True


def _parse_leaf(node: ast.expr) -> Predicate:
    match node:
        case ast.Compare(left, [op], [right]) if type(op) in _OPERATOR_OF_AST:
            word = _OPERATOR_OF_AST[type(op)]
            if (column := _parse_column(left)) is not None:
                return Leaf(column, word, (_parse_value(right),))
            if (column := _parse_column(right)) is not None:
                return Leaf(column, _MIRRORED_OPERATOR[word], (_parse_value(left),))
        case ast.Call(ast.Attribute(target, "isin"), [ast.List(items)]) if (
            column := _parse_column(target)
        ) is not None:
            return Leaf(column, "in", tuple(_parse_value(item) for item in items))
        case ast.Call(ast.Attribute(target, "is_null"), []) if (column := _parse_column(target)) is not None:
            return Leaf(column, "is null")
        case ast.Call(func, [target], [ast.keyword("pattern", pattern)]) if (
            _dotted_name(func) == "pa.compute.starts_with"
        ):
            prefix = _parse_value(pattern)
            if (column := _parse_column(target)) is not None and isinstance(prefix, str):
                return Leaf(column, "starts with", (prefix,))
        case ast.Call(func, [ast.Constant(bool(value))]) if _dotted_name(func) == "pa.compute.scalar":
            return TRUE if value else FALSE
    if (column := _parse_column(node)) is not None:
        return Leaf(column, "=", (True,))
    raise _UnknownExpression


def _parse_column(node: ast.expr) -> str | None:
    """Return the name in `pa.compute.field('name')`; a path into a struct is no column."""
    match node:
        case ast.Call(func, [ast.Constant(str(name))], []) if _dotted_name(func) == "pa.compute.field":
            return name
    return None


def _dotted_name(node: ast.expr) -> str:
    match node:
        case ast.Name(name):
            return name
        case ast.Attribute(target, name):
            return f"{_dotted_name(target)}.{name}"
    return ""


def _parse_value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(bool() | int() | str() | bytes() as value):
            return value
        case ast.Constant(float(value)) if math.isfinite(value):
            return value
        case ast.UnaryOp(ast.USub(), operand):
            value = _parse_value(operand)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return -value
        case ast.Call(ast.Name("to_py_date"), [days]):
            return _date_of_days(_parse_integer(days))
        case ast.Call(ast.Name("to_py_datetime"), [ticks, ast.Constant(str(unit)), *_zone]) if unit in _UNIT_NS:
            millis, nanos = divmod(_parse_integer(ticks) * _UNIT_NS[unit], 1_000_000)
            return Instant(millis, nanos)
    raise _UnknownExpression


def _date_of_days(days: int) -> date:
    try:
        return date(1970, 1, 1) + timedelta(days=days)
    except OverflowError:
        raise _UnknownExpression from None


def _parse_integer(node: ast.expr) -> int:
    value = _parse_value(node)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 2**63:
        raise _UnknownExpression
    return value


# ---- lazy ------------------------------------------------------------


_MAX_CACHED_PLANS = 64
"""Plans kept by a scan: a self join or `collect_all` asks the same question many times."""
_INEXACT_ROOTS = ("CHAR", "FLOAT", "DOUBLE", *TIMESTAMPS)
"""Types of which a manifest may hold other values than the rows come with: blanks at the end, zeros of another sign,
other units.
"""


class ResolvedSource(NamedTuple):
    """A source as it is at the time of a query.

    `version` is a text that changes when what would be read changes. `frame` reads what that text stands for: all
    columns of the rows that may satisfy a condition. `schema` says which columns are partition columns and key columns.
    """

    version: str
    frame: Callable[[ScanFilter, int | None], pl.LazyFrame]
    schema: TableSchema


class ScanSource(Protocol):
    """What a scan reads. It returns its version first, so that an unchanged table is not planned twice."""

    def schema(self) -> Mapping[str, pl.DataType]:
        """Return columns and types of the frame, fixed when the scan was made."""

    def resolve(self) -> ResolvedSource:
        """Return the version, frame and schema that would be read now; called once for each query."""


class PaimonScan(LazyFrameResolver):
    """Polars' resolver of a `ScanSource`; its class name appears in `explain()`.

    A `is_shared` one plans every time: the caller called `scan()` again, and must see the files as they are now.
    """

    def __init__(self, source: ScanSource, *, is_shared: bool = False) -> None:
        self.source, self.is_shared = source, is_shared
        self.plans: dict[tuple[str, tuple[object, ...], int | None], pl.LazyFrame] = {}
        self.times = count()

    def schema(self) -> dict[str, pl.DataType]:
        return dict(self.source.schema())

    @property
    def resolve_lazyframe(self) -> Callable[..., tuple[pl.LazyFrame | None, ResolvedLazyFrameProps]]:
        """Return `resolve` in the context of the caller.

        Polars fetches it in the thread that collects, and calls it in one of its own.
        """
        context = copy_context()
        return lambda **question: context.copy().run(self.resolve, **question)

    def resolve(
        self,
        *,
        projection: list[str] | None,  # noqa: ARG002 - native scans and sources drop columns themselves
        limit: int | None,
        filters: list[FilterExpr],
        filter_columns: list[str],  # noqa: ARG002
        filter_drop_columns_idx: int | None,  # noqa: ARG002
        existing_resolved_version_key: str | None,
    ) -> tuple[pl.LazyFrame | None, ResolvedLazyFrameProps]:
        """Return the frame that Polars reads instead of this one, and the filters that it applies."""
        runtime.refuse_fork()
        _refuse_numbers(filters, self.schema())
        version, frame, schema = self.source.resolve()
        scan_filter, decided = build_scan_filter(filters, schema)
        hidden = [
            at
            for at, filter_expr in enumerate(filters)
            if at not in decided and not filter_pushdown.is_plain_comparison(filter_expr.expr)
        ]
        applied = [*decided, *hidden]
        above, used = [filter_pushdown.block_statistics_pruning(filters[at].expr) for at in hidden], applied
        if any(
            filter_pushdown.may_raise(hidden_condition, self.schema()) for hidden_condition in above
        ):  # of rows that what Polars applies would leave out too, and that planning counts on
            above, used = (
                [*(filter_expr.expr for at, filter_expr in enumerate(filters) if at not in applied), *above],
                list(range(len(filters))),
            )
        if self.is_shared:
            key = f"{version}#{next(self.times)}"
            return _apply_filters(frame(scan_filter, limit), above, self.schema()), ResolvedLazyFrameProps(
                version_key=key, applied_filters=applied
            )
        props = ResolvedLazyFrameProps(version_key=version, applied_filters=applied)
        if version == existing_resolved_version_key:
            return None, props
        question = (version, _filters_text(filters, used), limit)
        planned = self.plans.get(question)
        if planned is None:
            planned = _apply_filters(frame(scan_filter, limit), above, self.schema())
            if len(self.plans) >= _MAX_CACHED_PLANS:
                self.plans.clear()
            self.plans[question] = planned  # not read again: another thread may clear them
        return planned, props

    def __reduce__(self) -> tuple[type[PaimonScan], tuple[ScanSource]]:
        return PaimonScan, (self.source,)


class _FilterProbe(LazyFrameResolver):
    """A table without rows that records the filters it is given, and reports them all as applied."""

    def __init__(self, schema: Mapping[str, pl.DataType]) -> None:
        self.columns, self.filters = dict(schema), list[FilterExpr]()

    def schema(self) -> dict[str, pl.DataType]:
        return self.columns

    def resolve_lazyframe(self, **question: object) -> tuple[pl.LazyFrame, ResolvedLazyFrameProps]:
        self.filters = list(question["filters"])  # type: ignore[call-overload]
        return pl.LazyFrame(schema=self.columns), ResolvedLazyFrameProps(
            version_key="", applied_filters=list(range(len(self.filters)))
        )


def scan_lazily(source: ScanSource, *, is_shared: bool = False) -> pl.LazyFrame:
    """Return the LazyFrame of a source. It pickles; every `collect()` looks for the version again.

    `is_shared`: the frame is given to many callers, each for the state at its time.

    No column of it is unnested: of a resolver alone Polars 2.1 assumes that it yields all columns, even if a query
    needs few, and panics over windows and row numbers (`select(pl.col("v").max().over("g"))`); of what a function
    returns, it does not. Raises `Unsupported` for a column of a type that is refused.
    """
    runtime.refuse_fork()
    resolver = PaimonScan(source, is_shared=is_shared)
    resolver.schema()  # Polars asks for it once the frame runs: what is refused is refused here
    return resolver.lazy().unnest([])


def _refuse_numbers(filters: Sequence[FilterExpr], schema: Mapping[str, pl.DataType]) -> None:
    """Raise `SchemaMismatch` for a filter that compares a date or a time with a number.

    A comparison of two columns is not seen: Polars has cast one of them by then.
    """
    for filter_expr in filters:
        text = filter_expr.pyarrow_str
        if (
            text is not None
            and "to_py_" not in text
            and not any(schema[name].is_temporal() for name in filter_expr.expr.meta.root_names())
        ):
            continue  # columns and constants of other kinds
        predicate = parse_exact(text)
        if predicate is None:
            temporal.refuse_numbers(filter_expr.expr, schema, "a filter of a scan")
            continue
        for leaf in leaves(predicate):
            temporal.refuse_leaf(leaf, schema, "a filter of a scan")


def filters_of(expr: pl.Expr, schema: Mapping[str, pl.DataType]) -> Sequence[FilterExpr]:
    """Return the conjuncts of an expression that Polars passes to a table with those columns.

    Raises Polars' own error for a column that does not exist.
    """
    return all_filters_of(expr, schema)[0]


def all_filters_of(expr: pl.Expr, schema: Mapping[str, pl.DataType]) -> tuple[Sequence[FilterExpr], bool]:
    """Return the conjuncts of `filters_of`, and whether they are the whole expression.

    Polars does not pass on what it cannot, such as a Python function or a function of all rows. Nothing is passed on of
    an expression with a constant that cannot be computed: it fails where rows are read.
    """
    probe = _FilterProbe(schema)
    try:
        plan = probe.lazy().filter(expr).explain()
    except pl.exceptions.InvalidOperationError:
        return [], False
    return probe.filters, plan.startswith("RESOLVER")


def filter_rows(frame: pl.LazyFrame, expr: pl.Expr, schema: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """Return the rows that satisfy a condition on columns of a schema.

    Conjuncts that calculate are hidden from the bounds of row groups.
    """
    return _apply_filters(frame, _split_condition(expr, schema), schema)


def hide_from_pushdown(
    frame: pl.LazyFrame, conditions: Iterable[pl.Expr], schema: Mapping[str, pl.DataType]
) -> pl.LazyFrame:
    """Return the frame, such that Polars pushes no condition below it if one may fail for a value.

    Files hold rows that are not the table's, older versions and deleted ones, which must fail no condition. And Python
    sources, such as buckets that are merged, are given conditions as bytes: Polars raises if one has a Python function
    that does not pickle.
    """
    if not any(filter_pushdown.may_raise(condition, schema) for condition in conditions):
        return frame
    return frame.map_batches(_pass_through, predicate_pushdown=False, slice_pushdown=False, streamable=True)


def _pass_through(rows: pl.DataFrame) -> pl.DataFrame:
    return rows


def _apply_filters(
    frame: pl.LazyFrame, conditions: Sequence[pl.Expr], schema: Mapping[str, pl.DataType]
) -> pl.LazyFrame:
    """Return the rows that satisfy all conditions; those that may fail are applied last, above all sources."""
    safe, others = list[pl.Expr](), list[pl.Expr]()
    for condition in conditions:
        (others if filter_pushdown.may_raise(condition, schema) else safe).append(condition)
    below = frame.filter(*safe)
    return hide_from_pushdown(below, others, schema).filter(*others) if others else below


def _split_condition(expr: pl.Expr, schema: Mapping[str, pl.DataType]) -> list[pl.Expr]:
    """Return conditions that together are equivalent to one.

    Of its conjuncts those that calculate are hidden from bounds of row groups; all others are unchanged.
    """
    if filter_pushdown.is_plain_comparison(expr):
        return [expr]
    filters, is_whole = all_filters_of(expr, schema)
    plain = [filter_expr.expr for filter_expr in filters if filter_pushdown.is_plain_comparison(filter_expr.expr)]
    if len(plain) == len(filters):
        return [expr]  # what Polars keeps to itself never reaches a scan
    return (
        [
            *plain,
            *(
                filter_pushdown.block_statistics_pruning(filter_expr.expr)
                for filter_expr in filters
                if not filter_pushdown.is_plain_comparison(filter_expr.expr)
            ),
        ]
        if is_whole
        else [*plain, filter_pushdown.block_statistics_pruning(expr)]
    )


def build_scan_filter(filters: Sequence[FilterExpr], schema: TableSchema) -> tuple[ScanFilter, list[int]]:
    """Return the filter of Polars' conjuncts, and the indices of those that partition columns decide exactly."""
    partition_conditions, key_conditions, decided, predicates = [], [], [], []
    partition_keys, keys = set(schema.partition_keys), set(schema.trimmed_primary_keys)
    for at, filter_expr in enumerate(filters):
        text = filter_to_pyarrow_text(filter_expr)
        used = set(filter_expr.expr.meta.root_names()) if partition_keys or keys else set[str]()
        if (
            used
            and used <= partition_keys
            and (text is not None or _is_decided_by_partition(filter_expr.expr, schema.fields_of(used)))
        ):
            partition_conditions.append(filter_expr.expr)
            decided.append(at)
        elif used and used <= keys and text is not None:
            key_conditions.append(filter_pushdown.block_pruning_unless_plain(filter_expr.expr))
        predicates.append(predicate_of(text))
    return ScanFilter(conjunction(predicates), tuple(partition_conditions), tuple(key_conditions)), decided


def _is_decided_by_partition(expr: pl.Expr, fields: Sequence[Field]) -> bool:
    """Return whether each value depends on its row alone, and on partition columns with exact manifest values."""
    try:
        is_alone = expr.meta.is_row_separable()
    except pl.exceptions.PolarsError:
        return False  # Polars cannot tell without the columns: a Python function, `list.eval`, `struct.with_fields`
    return is_alone and all(field.type.root not in _INEXACT_ROOTS for field in fields)


def _filters_text(filters: Sequence[FilterExpr], applied_indices: Sequence[int]) -> tuple[object, ...]:
    """Return a cache key of the filters: their pyarrow text, and the whole expression if applied here."""
    return tuple(
        _literal_bytes(f.expr) if at in applied_indices else filter_to_pyarrow_text(f) for at, f in enumerate(filters)
    )


def _literal_bytes(expr: pl.Expr) -> object:
    """Return an expression as bytes; if a Python function in it does not pickle, an object equal to no other."""
    try:
        return expr.meta.serialize()
    except Exception:  # noqa: BLE001 - pickling raises what it likes
        return object()
