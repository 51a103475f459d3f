"""The interface to Polars: a LazyFrame that calls lakekit while Polars optimises the query.

This is the only module that imports Polars' resolver, which is marked unstable. Polars passes filters, projection and
limit; lakekit returns a native plan over the files that remain. Only filters that partition columns decide are reported
as applied; Polars applies every other again, so that a condition that was not understood costs time, but never gives
wrong rows.
"""

from __future__ import annotations

from contextvars import copy_context
from functools import reduce
from itertools import count
from operator import and_
from typing import TYPE_CHECKING, NamedTuple, Protocol

import polars as pl
from polars.lazyframe.resolver import FilterExpr, LazyFrameResolver, ResolvedLazyFrameProps

from lakekit import world
from lakekit.predicate import conjunction, leaves
from lakekit.read import row_groups, temporal
from lakekit.read.condition import ScanFilter, parse_exact, predicate_of
from lakekit.read.spelled import pyarrow_text
from lakekit.types import TIMESTAMPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lakekit.model.table_schema import TableSchema
    from lakekit.types import Field

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

    def now(self) -> ResolvedSource:
        """Return what would be read now; called once for each query."""


class PaimonScan(LazyFrameResolver):
    """Polars' resolver of a `ScanSource`; its class name appears in `explain()`.

    A `shared` one plans every time: the caller called `scan()` again, and must see the files as they are now.
    """

    def __init__(self, source: ScanSource, *, shared: bool = False) -> None:
        self.source, self.shared = source, shared
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
        """Return what Polars is to read instead of this frame, and which filters that applies."""
        world.refuse_fork()
        _refuse_numbers(filters, self.schema())
        version, frame, schema = self.source.now()
        condition, decided = condition_of(filters, schema)
        hidden = [
            at
            for at, filter_expr in enumerate(filters)
            if at not in decided and not row_groups.is_plain(filter_expr.expr)
        ]
        applied = [*decided, *hidden]
        above, used = [row_groups.hide(filters[at].expr) for at in hidden], applied
        if any(
            row_groups.may_fail(hidden_condition, self.schema()) for hidden_condition in above
        ):  # of rows that what Polars applies would leave out too, and that planning counts on
            above, used = (
                [*(filter_expr.expr for at, filter_expr in enumerate(filters) if at not in applied), *above],
                list(range(len(filters))),
            )
        if self.shared:
            key = f"{version}#{next(self.times)}"
            return _apply_filters(frame(condition, limit), above, self.schema()), ResolvedLazyFrameProps(
                version_key=key, applied_filters=applied
            )
        props = ResolvedLazyFrameProps(version_key=version, applied_filters=applied)
        if version == existing_resolved_version_key:
            return None, props
        question = (version, _text(filters, used), limit)
        planned = self.plans.get(question)
        if planned is None:
            planned = _apply_filters(frame(condition, limit), above, self.schema())
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


def scan_lazily(source: ScanSource, *, shared: bool = False) -> pl.LazyFrame:
    """Return the LazyFrame of a source. It pickles; every `collect()` looks for the version again.

    `shared`: the frame is given to many callers, each for the state at its time.

    No column of it is unnested: of a resolver alone Polars 2.1 assumes that it yields all columns, even if a query
    needs few, and panics over windows and row numbers (`select(pl.col("v").max().over("g"))`); of what a function
    returns, it does not. Raises `Unsupported` for a column of a type that is refused.
    """
    world.refuse_fork()
    resolver = PaimonScan(source, shared=shared)
    resolver.schema()  # Polars asks for it once the frame runs: what is refused is refused here
    return resolver.lazy().unnest([])


def _refuse_numbers(filters: Sequence[FilterExpr], schema: Mapping[str, pl.DataType]) -> None:
    """Raise `SchemaMismatch` for a filter that compares a date or a time with a number.

    That is as far as Polars shows it: two columns of a filter it has cast by then.
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

    Polars does not pass on what it cannot, such as a Python function or a function of all rows.
    """
    probe = _FilterProbe(schema)
    plan = probe.lazy().filter(expr).explain()
    return probe.filters, plan.startswith("RESOLVER")


def filter_of_sql(text: str, schema: Mapping[str, pl.DataType]) -> pl.Expr | None:
    """Return the condition of an SQL text on a table with those columns, as Polars' SQL understands it.

    `d = '2024-03-31'` on a DATE compares dates. None if Polars cannot pass on all of it. Raises Polars' own errors.
    """
    probe = _FilterProbe(schema)
    # the caller's own condition, over a table without rows
    plan = probe.lazy().sql(f"SELECT * FROM self WHERE {text}").explain()  # noqa: S608
    if not plan.startswith("RESOLVER") or not probe.filters:
        return None
    return reduce(and_, [filter_expr.expr for filter_expr in probe.filters])


def filter_rows(frame: pl.LazyFrame, expr: pl.Expr, schema: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """Return the rows that satisfy a condition on columns of a schema.

    Conjuncts that calculate are hidden from the bounds of row groups.
    """
    return _apply_filters(frame, _split_condition(expr, schema), schema)


def shield(frame: pl.LazyFrame, conditions: Iterable[pl.Expr], schema: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """Return the frame, such that Polars pushes no condition below it if one may fail for a value.

    Files hold rows that are not the table's, older versions and deleted ones, which must fail no condition. And Python
    sources, such as buckets that are merged, are given conditions as bytes: Polars raises if one has a Python function
    that does not pickle.
    """
    if not any(row_groups.may_fail(condition, schema) for condition in conditions):
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
        (others if row_groups.may_fail(condition, schema) else safe).append(condition)
    below = frame.filter(*safe)
    return shield(below, others, schema).filter(*others) if others else below


def _split_condition(expr: pl.Expr, schema: Mapping[str, pl.DataType]) -> list[pl.Expr]:
    """Return conditions that together are equivalent to one.

    Of its conjuncts those that calculate are hidden from bounds of row groups; all others are unchanged.
    """
    if row_groups.is_plain(expr):
        return [expr]
    filters, is_whole = all_filters_of(expr, schema)
    plain = [filter_expr.expr for filter_expr in filters if row_groups.is_plain(filter_expr.expr)]
    if len(plain) == len(filters):
        return [expr]  # what Polars keeps to itself never reaches a scan
    return (
        [
            *plain,
            *(
                row_groups.hide(filter_expr.expr)
                for filter_expr in filters
                if not row_groups.is_plain(filter_expr.expr)
            ),
        ]
        if is_whole
        else [*plain, row_groups.hide(expr)]
    )


def condition_of(filters: Sequence[FilterExpr], schema: TableSchema) -> tuple[ScanFilter, list[int]]:
    """Return the filter of Polars' conjuncts, and the indices of those that partition columns decide exactly."""
    on_partition, on_key, decided, predicates = [], [], [], []
    partition_keys, keys = set(schema.partition_keys), set(schema.trimmed_primary_keys)
    for at, filter_expr in enumerate(filters):
        text = pyarrow_text(filter_expr)
        used = set(filter_expr.expr.meta.root_names()) if partition_keys or keys else set[str]()
        if (
            used
            and used <= partition_keys
            and (text is not None or _is_decided_by_partition(filter_expr.expr, schema.fields_of(used)))
        ):
            on_partition.append(filter_expr.expr)
            decided.append(at)
        elif used and used <= keys and text is not None:
            on_key.append(row_groups.hide_calculated(filter_expr.expr))
        predicates.append(predicate_of(text))
    return ScanFilter(conjunction(predicates), tuple(on_partition), tuple(on_key)), decided


def _is_decided_by_partition(expr: pl.Expr, fields: Sequence[Field]) -> bool:
    """Return whether each value depends on its row alone, and on partition columns with exact manifest values."""
    try:
        is_alone = expr.meta.is_row_separable()
    except pl.exceptions.PolarsError:
        return False  # Polars cannot tell without the columns: a Python function, `list.eval`, `struct.with_fields`
    return is_alone and all(field.type.root not in _INEXACT_ROOTS for field in fields)


def _text(filters: Sequence[FilterExpr], applied: Sequence[int]) -> tuple[object, ...]:
    """Return a cache key of the filters: everything that a frame depends on.

    That is the pyarrow text, and the whole expression where it is applied here.
    """
    return tuple(_bytes(f.expr) if at in applied else pyarrow_text(f) for at, f in enumerate(filters))


def _bytes(expr: pl.Expr) -> object:
    """Return an expression as bytes; if a Python function in it does not pickle, an object equal to no other."""
    try:
        return expr.meta.serialize()
    except Exception:  # noqa: BLE001 - pickling raises what it likes
        return object()
