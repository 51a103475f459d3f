"""Callers' conditions and values, as expressions or SQL text, checked against the table's columns.

    condition_on_table("v > 1 AND dt = '2024-03-31'", ctx)      ->   pl.Expr
        raises if a column does not exist, or the text is no condition
    expand_to_columns(pl.first() > 6, {"k": Int32, …})          ->   pl.col("k") > 6
    expand_to_columns(pl.any_horizontal(cs.numeric() == 0), …)
                                                        ->   pl.any_horizontal(pl.col("k") == 0, pl.col("g") == 0)

They are checked before anything is read. A row is selected if its condition is true; false and null do not select it,
as in SQL.

Polars expands an expression against the frame that it runs over, and lakekit runs expressions over frames with other
columns: row numbers, kinds, the source of a merge, a part of the columns. So selectors, positions and patterns are
expanded once, against the schema of the table, to exact names: `meta.root_names()` returns all columns that the
expression needs. Polars itself expands: `pipe_with_dtype` is called with the expanded expression.

Dates beyond Polars' calendar, as `pl.lit(2_147_483_647).cast(pl.Date)` in the year 5,881,580, are refused: Polars
panics when it reports an error about such an expression, or explains it. Only casts and arithmetic of Polars make such
a time; Python has none of them.
"""

from __future__ import annotations

import inspect
import io
import json
import re
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit.columns import internal, is_of_machine, pass_interrupt, series_field
from lakekit.errors import ColumnNotFound, LakekitError, SchemaMismatch, StorageFailed, ValueOutOfRange
from lakekit.expressions.scope import Scope, TableScope
from lakekit.expressions.typed_expression import failure_of
from lakekit.format.polars_types import is_printable, polars_schema
from lakekit.read import temporal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from polars._typing import PolarsDataType

    from lakekit.metadata.table_context import TableContext

    MissingColumn = Callable[[Sequence[str]], ColumnNotFound]
    Schema = Mapping[str, pl.DataType]
    Pipe = Callable[[list[pl.Expr], Callable[[list[tuple[pl.Expr, pl.DataType]]], pl.Expr]], pl.Expr]


_PIPE_WITH_DTYPE: Pipe = inspect.unwrap(pl.pipe_with_dtype)
"""`pl.pipe_with_dtype` without the warning that Polars can give for functions that may change."""


def expand_to_columns(expr: pl.Expr, schema: Schema) -> list[pl.Expr]:
    """Return one expression for each column that an expression yields on a frame with such columns.

    Raises Polars' own errors.
    """
    expanded: list[pl.Expr] = []

    def keep(inputs: list[tuple[pl.Expr, pl.DataType]]) -> pl.Expr:
        expanded.append(inputs[0][0])
        return inputs[0][0]

    count = len(pl.LazyFrame(schema=schema).select(_PIPE_WITH_DTYPE([expr], keep)).collect_schema())
    return expanded[:count]  # Polars may ask more than once, each time for all in order


def used_columns(expr: pl.Expr, column_names: Iterable[str]) -> list[str]:
    """Return the names of all columns that an expression reads, with repeats.

    The list also has names that are not in `column_names`. The empty name is the exception: Polars uses it for the
    elements of a list in `list.filter`, so it is returned only if `column_names` has a column with that name.
    """
    return [name for name in expr.meta.root_names() if name or name in column_names]


def is_picklable(expr: pl.Expr) -> bool:
    """Return whether all Python functions in an expression can be pickled.

    Polars cannot serialize an expression with another function, and lakekit cannot replace selectors in it.
    """
    if "python_udf" not in str(expr):
        return True
    try:
        expr.meta.serialize()
    except Exception:  # noqa: BLE001 - pickling raises what it likes
        return False
    return True


def resolve_selectors(expr: pl.Expr, schema: Schema) -> pl.Expr:
    """Return the expression with each selector replaced by the names that it selects among the columns of `schema`.

    The expression may also name other columns. Raises Polars' own errors, and the error of serializing if the
    expression has a Python function that cannot be pickled.
    """
    if not expr.meta.has_multiple_outputs():
        return expr

    def choose(selector: dict[str, Any]) -> dict[str, Any]:
        names = pl.LazyFrame(schema=schema).select(_deserialize(selector)).collect_schema().names()
        return {"Selector": {"ByName": {"names": names, "strict": True}}}

    return _with_selectors(expr, choose)


def _with_selectors(expr: pl.Expr, replace: Callable[[dict[str, Any]], dict[str, Any]]) -> pl.Expr:

    def walk(node: Any) -> Any:
        if isinstance(node, dict):
            return replace(node) if node.keys() == {"Selector"} else {key: walk(value) for key, value in node.items()}
        return [walk(part) for part in node] if isinstance(node, list) else node

    return _deserialize(walk(json.loads(expr.meta.serialize(format="json"))))


def _deserialize(node: Any) -> pl.Expr:
    return pl.Expr.deserialize(io.BytesIO(json.dumps(node).encode()), format="json")


# ---- far ------------------------------------------------------------


_MADE_BY = (b"Date", b"date", b"TemporalExpr")
"""Byte strings of which a serialized expression with times has one; values of a `pl.Series` are never printed."""


def check_temporal_constants(expr: pl.Expr, table: str, argument: str) -> None:
    """Raise `ValueOutOfRange` for an expression with a constant date or timestamp beyond Polars' calendar."""
    if not _may_have_times(expr):
        return
    for part in _fold_constants(expr):
        values = pl.Series()
        with suppress(Exception):  # raised again when it is computed; a Python function may raise anything
            values = pl.select(part).to_series()
        for times in _times(values):
            unprintable = times.to_frame("").select((~is_printable(pl.col(""))).arg_true()).to_series()
            if unprintable.len():
                count = int(times.to_physical()[int(unprintable[0])])
                unit = times.dtype.time_unit if isinstance(times.dtype, pl.Datetime) else "days"
                msg = (
                    f"{argument} for {table} has a time beyond the years -262143 to 262142, {count} {unit} since "
                    "1970: give one within them"
                )
                raise ValueOutOfRange(msg)


def _may_have_times(expr: pl.Expr) -> bool:
    try:
        serialized = expr.meta.serialize(format="binary")
    except Exception:  # noqa: BLE001 - a function of Python that does not pickle raises what it likes
        return True
    return any(word in serialized for word in _MADE_BY)


def _fold_constants(expr: pl.Expr) -> Iterator[pl.Expr]:
    """Yield the largest parts of an expression that name no column."""
    waiting = [expr]
    while waiting:
        part = waiting.pop()
        if part.meta.root_names():
            waiting += part.meta.pop()
        elif not part.meta.has_multiple_outputs():
            yield part


def _times(values: pl.Series) -> Iterator[pl.Series]:
    """Yield the dates and timestamps of a series, including dates and timestamps inside lists and structs."""
    dtype = values.dtype
    if isinstance(dtype, pl.List | pl.Array):
        yield from _times(values.explode())
    elif isinstance(dtype, pl.Struct):
        for field in dtype.fields:
            yield from _times(series_field(values, field.name))
    elif isinstance(dtype, pl.Date | pl.Datetime):
        yield values


# ---- user expressions ------------------------------------------------------------


MERGE_SOURCE_PREFIX = f"{internal('source')}."
"""The prefix of a merge's source columns, which lets one frame hold the columns of both sides."""
_ZONE_IN_DTYPE = re.compile(r"Datetime\('[^']*', '([^']+)'\)")
_MAX_QUOTED = 1000
"""How much of the expressions an error about a panic shows."""
NOT_ROW_WISE_MESSAGE = "looks at more than one row"
"""The reason that `non_elementwise_reason` gives for an expression that needs other rows."""


def condition_on_table(
    where: pl.Expr | str, ctx: TableContext, *, argument: str = "where", dialect: str = "lakekit"
) -> pl.Expr:
    """Return a condition on the rows of a table, over its columns by name; `dialect` is that of a text.

    Raises `SqlError`, `ColumnNotFound`, `SchemaMismatch`, and `TypeError` for a value that is neither expression nor
    text.
    """
    return parse_condition(where, polars_schema(ctx.schema.fields), ctx.name, argument, dialect=dialect)


def parse_condition(
    where: pl.Expr | str, schema: Schema, table: str, argument: str, *, dialect: str = "lakekit"
) -> pl.Expr:
    """Return a condition over columns of a schema. Raises the errors of `condition_on_table`."""
    if not isinstance(where, str):
        return resolve_condition(check_expression(where, argument), schema, table, argument)
    return translate_condition(where, schema, table, argument, dialect=dialect)


def translate_condition(
    text: str,
    schema: Schema,
    table: str,
    argument: str,
    *,
    missing: MissingColumn | None = None,
    dialect: str = "lakekit",
) -> pl.Expr:
    """Return the condition of an SQL text; `missing` makes the error about a name that is no column.

    Raises `SqlError`, `ColumnNotFound`, `SchemaMismatch`.
    """
    from lakekit.expressions import parser, translation  # noqa: PLC0415 - they import sqlglot

    source = parser.SqlText(text, f"{argument}= for {table}", dialect)
    expr = translation.translate_condition(source, _text_scope(schema, table, missing))
    check_temporal_constants(expr, table, argument)
    return expr


def translate_value(
    text: str, dtype: pl.DataType, schema: Schema, table: str, argument: str, *, missing: MissingColumn | None = None
) -> pl.Expr:
    """Return the value of an SQL text for a column of a type. Raises the errors of `translate_condition`."""
    from lakekit.expressions import parser, translation  # noqa: PLC0415 - they import sqlglot

    source = parser.SqlText(text, f"{argument} for {table}")
    expr = translation.translate_value(source, _text_scope(schema, table, missing), dtype)
    check_temporal_constants(expr, table, argument)
    return expr


def _text_scope(schema: Schema, table: str, missing: MissingColumn | None) -> Scope:
    """Return the meaning of names in a text: `x` and `t.x` of the table, `s.x` of the source of a merge."""

    def not_found(parts: Sequence[str]) -> ColumnNotFound:
        return make_column_not_found(".".join(parts), list(schema), table, "it")

    own = {name: dtype for name, dtype in schema.items() if not name.startswith(MERGE_SOURCE_PREFIX)}
    others = {name.removeprefix(MERGE_SOURCE_PREFIX): schema[name] for name in schema if name not in own}
    sides = [TableScope(names=("t", "self", table.lower(), table.lower().rpartition(".")[2]), columns=own)]
    if others:
        sides.append(TableScope(names=("s",), columns=others, prefix=MERGE_SOURCE_PREFIX, needs_name=True))
    return Scope(sides=tuple(sides), missing=not_found if missing is None else missing)


def check_expression(source: pl.Expr, argument: str) -> pl.Expr:
    """Return a Polars expression as it is, a truth value as one.

    Raises `TypeError` for another value.
    """
    if isinstance(source, pl.Expr):
        return source
    if isinstance(source, bool):
        return pl.lit(source)
    msg = (
        f"{argument}= takes a Polars expression or SQL text, not {type(source).__name__}: pl.lit(True) and 'true' "
        "mean every row"
    )
    raise TypeError(msg)


def resolve_condition(expr: pl.Expr, schema: Mapping[str, pl.DataType], table: str, argument: str) -> pl.Expr:
    """Return the condition with exact column names; raise `SchemaMismatch` if it is not boolean.

    A bare NULL has the type Null in Polars, which does not filter by it: it is cast to BOOLEAN, and selects no row.
    """
    expr, dtype = resolve_expression(expr, schema, table, argument)
    if dtype not in (pl.Boolean(), pl.Null()):
        raise SchemaMismatch(
            f"{argument}={format_expression(expr)} for {table} is {dtype}, and a condition is true or false. Compare "
            "it with something"
        )
    try:
        pl.LazyFrame(schema=schema).filter(expr).explain()  # which asks for each part of a conjunction
    except pl.exceptions.PolarsError as wrong:
        if "got `Null`" in str(wrong):
            return expr.cast(pl.Boolean)
    return expr


def resolve_expression(
    expr: pl.Expr, schema: Mapping[str, pl.DataType], table: str, argument: str
) -> tuple[pl.Expr, pl.DataType]:
    """Return an expression with its selectors replaced by column names, and the type of its result.

    Raises `ColumnNotFound`, `SchemaMismatch`; `ValueOutOfRange` for constants that `check_temporal_constants` refuses.
    """
    check_temporal_constants(expr, table, argument)
    for name in used_columns(expr, schema):
        if name not in schema:
            raise make_column_not_found(name, list(schema), table, argument)
    try:
        expanded = expand_to_columns(expr, schema)
    # Polars panics for `struct.field("*")` inside an expression
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as wrong:
        what = str(wrong).split("\n", 1)[0].replace(MERGE_SOURCE_PREFIX, "s.")  # the plan that follows is Polars' own
        raise SchemaMismatch(
            f"{argument}={format_expression(expr)} does not fit the columns of {table}: {what}{_naming_hint(what)}"
        ) from None
    if len(expanded) != 1:
        raise SchemaMismatch(
            f"{argument}={format_expression(expr)} for {table} gives {len(expanded)} columns, and one is wanted. Join "
            "conditions with & or |"
        )
    [plain] = expanded
    temporal.refuse_numbers(plain, schema, f"{argument}={format_expression(expr)} for {table}")
    dtype = pl.LazyFrame(schema=schema).select(plain).collect_schema().dtypes()[0]
    if (why := _cannot_compare(plain, schema)) is not None:
        types = ", ".join(
            f"{name.replace(MERGE_SOURCE_PREFIX, 's.')} is {schema[name]}"
            for name in dict.fromkeys(used_columns(plain, schema))
        )
        raise SchemaMismatch(
            f"{argument}={format_expression(expr)} does not fit the columns of {table}: {why.format(types=types)}"
        )
    return plain, dtype


def format_expression(expr: pl.Expr) -> str:
    """Return an expression as text, with the columns of a merge's source named as in SQL, `s.column`."""
    return str(expr).replace(MERGE_SOURCE_PREFIX, "s.")


def _naming_hint(message: str) -> str:
    """Return advice on a Polars error about a comparison with times; empty if there is none."""
    if "'date/datetime/time'" in message:
        return ". In SQL a date is written DATE '2024-03-31', a timestamp TIMESTAMP '2024-03-31 12:00:00'"
    if "'is_in' cannot check for" in message and any(word in message for word in ("Date", "Time")):
        return (
            ". A number is no day and no time of one: write DATE '2024-01-03' in SQL, quotes and all, date(2024, 1, "
            "3) in Python"
        )
    return ""


def _cannot_compare(expr: pl.Expr, schema: Mapping[str, pl.DataType]) -> str | None:
    """Return why a comparison in the expression is impossible, and what to do; None if all are possible.

    Polars reports such a comparison only when it computes. It does not report a comparison of decimals with texts at
    all: it compares them as texts, where 10.50 is less than '9.6'.
    """
    try:
        pl.DataFrame(schema={name: _with_floats(dtype) for name, dtype in schema.items()}).select(expr)
    except pl.exceptions.PolarsError as wrong:
        text = str(wrong)
        if "cannot compare string with numeric type" in text:
            return "it compares a number with a text ({types}). Write numbers without quotes, or cast one"
        if "Datetime(" in text and (
            "time-zone-aware" in text or ("could not evaluate" in text and "comparison" in text)
        ):
            if len(zones := set(_ZONE_IN_DTYPE.findall(text.split("\n", 1)[0]))) > 1:
                return (
                    f"it compares moments of the zones {' and '.join(sorted(zones))} ({{types}}). Bring both to one: "
                    "in Python datetime(…).astimezone(UTC), "
                    "of a column .dt.convert_time_zone('UTC')"
                )
            return (
                "it compares a moment that has a zone with one that has none ({types}). Write it as a text in SQL, "
                "'2024-03-31 12:00:00', which is one of UTC, "
                "or '2024-03-31T12:00:00+02:00'; in Python as datetime(…, tzinfo=…)"
            )
    except Exception:  # noqa: BLE001 - a Python function may raise anything without rows
        return None
    return None


def _with_floats(dtype: PolarsDataType) -> PolarsDataType:
    """Return the type with floats in place of decimals."""
    if isinstance(dtype, pl.Decimal):
        return pl.Float64()
    if isinstance(dtype, pl.List):
        return pl.List(_with_floats(dtype.inner))
    if isinstance(dtype, pl.Struct):
        return pl.Struct({field.name: _with_floats(field.dtype) for field in dtype.fields})
    return dtype


def check_aggregate_temporals(aggregates: Iterable[pl.Expr], schema: Mapping[str, pl.DataType], table: str) -> None:
    """Raise `SchemaMismatch` if an aggregate compares a date or a time with a number.

    Raise `ValueOutOfRange` for constants that `check_temporal_constants` refuses.
    """
    for aggregate in aggregates:
        check_temporal_constants(aggregate, table, "an aggregate")
        check_temporal_comparisons(aggregate, schema, f"an aggregate of {table}")


def check_temporal_comparisons(expr: pl.Expr, schema: Mapping[str, pl.DataType], subject: str) -> None:
    """Raise `SchemaMismatch` if an expression compares a date or a time with a number.

    Other errors of the expression are ignored.
    """
    try:
        for expanded in expand_to_columns(expr, schema):
            temporal.refuse_numbers(expanded, schema, subject)
    except pl.exceptions.PolarsError as wrong:
        if hint := _naming_hint(what := str(wrong).split("\n", 1)[0]):
            raise SchemaMismatch(f"{subject}: {what}{hint}") from None


def is_row_wise(expr: pl.Expr, schema: Mapping[str, pl.DataType]) -> bool:
    """Return whether Polars computes each value from its own row alone; see `non_elementwise_reason`.

    Then, and only then, Polars limits rows before it computes.
    """
    return non_elementwise_reason(expr, schema) is None


def non_elementwise_reason(expr: pl.Expr, schema: Mapping[str, pl.DataType]) -> str | None:
    """Return why Polars does not compute an expression row by row, in words; None if it does.

    The reason is that the expression needs other rows, or that it compares with a bare NULL. The result of such a
    comparison is NULL for every row, but Polars has no row-wise plan for it.
    """
    only = pl.QueryOptFlags.none(slice_pushdown=True)
    planned = pl.DataFrame(schema=schema).lazy().with_columns(expr.alias("")).head(1).explain(optimizations=only)
    if planned.lstrip().startswith("WITH_COLUMNS"):
        return None
    if "null.repeat(" in planned:
        return (
            "compares with NULL, which nothing equals and nothing differs from: ask with IS NULL, is_null() or "
            "is_in() instead"
        )
    return NOT_ROW_WISE_MESSAGE


def make_column_not_found(name: str, columns: list[str], table: str, argument: str) -> ColumnNotFound:
    """Return the error for a column that does not exist."""
    near = get_close_matches(name, columns, 1, 0.6)
    hint = (
        f" Did you mean {near[0]!r}?"
        if near
        else f" A text is written {chr(39)}{name}{chr(39)} in SQL, or pl.lit({name!r})"
    )
    return ColumnNotFound(
        f"{argument} names column {name!r}, which {table} has not; its columns are {', '.join(columns)}.{hint}",
        name=name,
    )


@contextmanager
def translate_compute_errors(table: str, subject: str = "the change") -> Iterator[None]:
    """Translate Polars' error about a value that a caller's expression cannot compute to `SchemaMismatch`."""
    try:
        yield
    except LakekitError:
        raise
    except pl.exceptions.PolarsError as wrong:
        if (problem := failure_of(str(wrong))) is not None:  # of a CAST of SQL, a division by zero, 128 bits
            raise ValueOutOfRange(f"{subject} of {table}: {problem}") from None
        raise SchemaMismatch(
            f"Polars could not compute {subject} of {table}: {str(wrong).replace(MERGE_SOURCE_PREFIX, 's.')}"
        ) from None


@contextmanager
def translate_panics(subject: str, **arguments: object) -> Iterator[None]:
    """Translate a panic of Polars to `SchemaMismatch` that names the caller's expressions, `where=…`.

    `arguments`: the expressions by name. If all are None, the panic is raised unchanged. Polars' `PanicException` is
    not an `Exception`. Panics over damaged files have been translated by the reader before they get here.

    Raises:
        StorageFailed: the operating system refused a resource.
        KeyboardInterrupt: Polars panicked because of an interrupt.
    """
    try:
        yield
    except pl.exceptions.PanicException as panic:
        pass_interrupt(panic)
        what = str(panic).strip().split("\n", 1)[0][:300].replace(MERGE_SOURCE_PREFIX, "s.")
        if is_of_machine(panic):
            raise StorageFailed(f"{subject} could not be computed: {what}") from None
        shown = ", ".join(f"{name}={_format_argument(value)}" for name, value in arguments.items() if value is not None)
        if not shown:
            raise
        raise SchemaMismatch(
            f"Polars panicked over {shown[:_MAX_QUOTED]} of {subject}: {what}. Nothing was changed. That is a fault of "
            f"Polars {pl.__version__}, not of the table: write the expression another way"
        ) from None


def _format_argument(value: object) -> str:
    """Return an argument of a call as text for messages, with its expressions as texts.

    A function is called without arguments, and the text shows its result.
    """
    if callable(value):
        return repr(value())
    if isinstance(value, pl.Expr):
        try:
            return format_expression(value)
        except pl.exceptions.PanicException:  # over a time beyond its calendar
            return "an expression that Polars cannot print"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_format_argument(part)}" for name, part in value.items()).join("{}")
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_format_argument, value)).join("[]")
    if is_dataclass(value):
        parts = {part.name: getattr(value, part.name) for part in fields(value)}
        named = [
            f"{name}={_format_argument(part)}" for name, part in parts.items() if part is not None and part is not False
        ]
        return f"{type(value).__name__}({', '.join(named)})"
    return repr(value)
