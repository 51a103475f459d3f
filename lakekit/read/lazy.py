"""The door to Polars: a LazyFrame that asks lakekit what to read while Polars optimises the query.

The only module that imports Polars' resolver, which is marked unstable there. Polars hands over filters, projection and limit; what goes back is a native
plan over the files that survive. Only filters that partition columns decide are claimed as done; Polars applies every other again, so that a condition
that was not understood costs time and never truth.
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
"""Types of which a manifest may hold other values than the rows come with: blanks at the end, zeros of another sign, other units."""


class ResolvedSource(NamedTuple):
    """What a source is when it is asked: `version`, a text that changes when what would be read changes, and `frame`, which reads what that text stands for.

    `frame` gives all columns of the rows that may satisfy a condition. `schema` says what the columns are to the table: partition columns, key columns.
    """

    version: str
    frame: Callable[[ScanFilter, int | None], pl.LazyFrame]
    schema: TableSchema


class ScanSource(Protocol):
    """What a scan reads: asked for its version first, so that an unchanged table is not planned twice."""

    def schema(self) -> Mapping[str, pl.DataType]:
        """Columns and types of the frame, fixed when the scan was made."""

    def now(self) -> ResolvedSource:
        """What would be read now: looked for once a question."""


class PaimonScan(LazyFrameResolver):
    """Polars' view of a `ScanSource`; its name is what `explain()` shows of it.

    One that is `shared` plans every time: who asks again has called `scan()` again, and is told what has become of the files since.
    """

    def __init__(self, source: ScanSource, *, shared: bool = False) -> None:
        self.source, self.shared = source, shared
        self.plans: dict[tuple[str, tuple[object, ...], int | None], pl.LazyFrame] = {}
        self.times = count()

    def schema(self) -> dict[str, pl.DataType]:
        return dict(self.source.schema())

    @property
    def resolve_lazyframe(self) -> Callable[..., tuple[pl.LazyFrame | None, ResolvedLazyFrameProps]]:
        """`resolve` in the context of whoever asks for it: Polars fetches it in the thread that collects, and calls it in one of its own."""
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
        """What Polars asks of a resolver: what to read instead of it, and which filters that makes needless."""
        world.refuse_fork()
        _refuse_numbers(filters, self.schema())
        version, frame, schema = self.source.now()
        condition, decided = condition_of(filters, schema)
        hidden = [at for at, found in enumerate(filters) if at not in decided and not row_groups.is_plain(found.expr)]
        applied = [*decided, *hidden]
        above, used = [row_groups.hide(filters[at].expr) for at in hidden], applied
        if any(row_groups.may_fail(one, self.schema()) for one in above):  # of rows that what Polars applies would leave out too, and that planning counts on
            above, used = [*(found.expr for at, found in enumerate(filters) if at not in applied), *above], list(range(len(filters)))
        if self.shared:
            key = f"{version}#{next(self.times)}"
            return _apply_filters(frame(condition, limit), above, self.schema()), ResolvedLazyFrameProps(version_key=key, applied_filters=applied)
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
    """A table without rows that writes down the filters it is asked, and takes them all on itself."""

    def __init__(self, schema: Mapping[str, pl.DataType]) -> None:
        self.columns, self.filters = dict(schema), list[FilterExpr]()

    def schema(self) -> dict[str, pl.DataType]:
        return self.columns

    def resolve_lazyframe(self, **question: object) -> tuple[pl.LazyFrame, ResolvedLazyFrameProps]:
        self.filters = list(question["filters"])  # type: ignore[call-overload]
        return pl.LazyFrame(schema=self.columns), ResolvedLazyFrameProps(version_key="", applied_filters=list(range(len(self.filters))))


def scan_lazily(source: ScanSource, *, shared: bool = False) -> pl.LazyFrame:
    """The LazyFrame of a source. It pickles; every `collect()` asks for the version again. Raises `Unsupported` for a column of a type that is refused.

    `shared`: it is given to many who ask, each for the state as it is by then.

    No column of it is unnested: of a resolver alone Polars 2.1 takes all columns for those that come of it, though a query asks for few, and panics over
    windows and row numbers (`select(pl.col("v").max().over("g"))`); of what a function makes of it, it goes by that.
    """
    world.refuse_fork()
    found = PaimonScan(source, shared=shared)
    found.schema()  # Polars asks for it once the frame runs: what is refused is refused here
    return found.lazy().unnest([])


def _refuse_numbers(filters: Sequence[FilterExpr], schema: Mapping[str, pl.DataType]) -> None:
    """Raises `SchemaMismatch` for a filter that compares a date or a time with a number, as far as Polars tells: two columns of a filter it has cast by now."""
    for found in filters:
        text = found.pyarrow_str
        if text is not None and "to_py_" not in text and not any(schema[name].is_temporal() for name in found.expr.meta.root_names()):
            continue  # columns and constants of other kinds
        said = parse_exact(text)
        if said is None:
            temporal.refuse_numbers(found.expr, schema, "a filter of a scan")
            continue
        for leaf in leaves(said):
            temporal.refuse_leaf(leaf, schema, "a filter of a scan")


def filters_of(expr: pl.Expr, schema: Mapping[str, pl.DataType]) -> Sequence[FilterExpr]:
    """The conjuncts that Polars asks a table of those columns for. Polars' own error for a column that does not exist."""
    return all_filters_of(expr, schema)[0]


def all_filters_of(expr: pl.Expr, schema: Mapping[str, pl.DataType]) -> tuple[Sequence[FilterExpr], bool]:
    """The same, and whether they are the whole expression: Polars keeps to itself what it cannot hand over, as a function of Python or of all rows."""
    asked = _FilterProbe(schema)
    plan = asked.lazy().filter(expr).explain()
    return asked.filters, plan.startswith("RESOLVER")


def filter_of_sql(text: str, schema: Mapping[str, pl.DataType]) -> pl.Expr | None:
    """The condition that an SQL text is of a table of those columns, as Polars' SQL understands it: `d = '2024-03-31'` of a DATE compares dates.

    None where Polars cannot hand all of it over. Polars' own errors.
    """
    asked = _FilterProbe(schema)
    plan = asked.lazy().sql(f"SELECT * FROM self WHERE {text}").explain()  # noqa: S608 - the caller's own condition, over a table without rows
    if not plan.startswith("RESOLVER") or not asked.filters:
        return None
    return reduce(and_, [found.expr for found in asked.filters])


def filter_rows(frame: pl.LazyFrame, expr: pl.Expr, schema: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """Return the rows that satisfy a condition on columns of a schema: what of it calculates is hidden from bounds of row groups."""
    return _apply_filters(frame, _split_condition(expr, schema), schema)


def shield(frame: pl.LazyFrame, conditions: Iterable[pl.Expr], schema: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """Return the frame; where a condition may fail of a value, such that Polars pushes none below it.

    Files hold rows that are none of the table, older versions and deleted ones, which fail no condition of its rows. And sources in Python, as buckets that
    are merged, are given conditions as bytes: Polars raises where one has a function of Python that does not pickle.
    """
    if not any(row_groups.may_fail(one, schema) for one in conditions):
        return frame
    return frame.map_batches(_pass_through, predicate_pushdown=False, slice_pushdown=False, streamable=True)


def _pass_through(rows: pl.DataFrame) -> pl.DataFrame:
    return rows


def _apply_filters(frame: pl.LazyFrame, conditions: Sequence[pl.Expr], schema: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """The rows that satisfy all conditions; those that may fail are applied last, above all sources."""
    safe, others = list[pl.Expr](), list[pl.Expr]()
    for one in conditions:
        (others if row_groups.may_fail(one, schema) else safe).append(one)
    below = frame.filter(*safe)
    return shield(below, others, schema).filter(*others) if others else below


def _split_condition(expr: pl.Expr, schema: Mapping[str, pl.DataType]) -> list[pl.Expr]:
    """Conditions that together say what one says: of its conjuncts those that calculate are hidden from bounds of row groups, all others are as they were."""
    if row_groups.is_plain(expr):
        return [expr]
    filters, is_whole = all_filters_of(expr, schema)
    plain = [found.expr for found in filters if row_groups.is_plain(found.expr)]
    if len(plain) == len(filters):
        return [expr]  # what Polars keeps to itself never reaches a scan
    return [*plain, *(row_groups.hide(found.expr) for found in filters if not row_groups.is_plain(found.expr))] if is_whole else [*plain, row_groups.hide(expr)]


def condition_of(filters: Sequence[FilterExpr], schema: TableSchema) -> tuple[ScanFilter, list[int]]:
    """The condition of Polars' conjuncts, and the indices of those that partition columns decide exactly."""
    on_partition, on_key, decided, predicates = [], [], [], []
    partition_keys, keys = set(schema.partition_keys), set(schema.trimmed_primary_keys)
    for at, found in enumerate(filters):
        said = pyarrow_text(found)
        used = set(found.expr.meta.root_names()) if partition_keys or keys else set[str]()
        if used and used <= partition_keys and (said is not None or _is_decided_by_partition(found.expr, schema.fields_of(used))):
            on_partition.append(found.expr)
            decided.append(at)
        elif used and used <= keys and said is not None:
            on_key.append(row_groups.hide_calculated(found.expr))
        predicates.append(predicate_of(said))
    return ScanFilter(conjunction(predicates), tuple(on_partition), tuple(on_key)), decided


def _is_decided_by_partition(expr: pl.Expr, fields: Sequence[Field]) -> bool:
    """Whether each value is made of its own row alone, by partition columns with the same values in the manifest and in the rows."""
    try:
        is_alone = expr.meta.is_row_separable()
    except pl.exceptions.PolarsError:
        return False  # Polars cannot tell without the columns: a Python function, `list.eval`, `struct.with_fields`
    return is_alone and all(field.type.root not in _INEXACT_ROOTS for field in fields)


def _text(filters: Sequence[FilterExpr], applied: Sequence[int]) -> tuple[object, ...]:
    """Everything of the filters that a frame depends on: what pyarrow says, and the whole expression where it is applied here."""
    return tuple(_bytes(f.expr) if at in applied else pyarrow_text(f) for at, f in enumerate(filters))


def _bytes(expr: pl.Expr) -> object:
    """An expression as bytes; where it has a function of Python that does not pickle, something that nothing else equals."""
    try:
        return expr.meta.serialize()
    except Exception:  # noqa: BLE001 - pickling raises what it likes
        return object()
