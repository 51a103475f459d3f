"""What callers say of rows: conditions and values, as Polars expressions or SQL text, held against the table's columns before anything is read.

    condition("v > 1 AND dt = '2024-03-31'", handle)   ->   pl.Expr        raises where a column is not there, or the text is no condition

A row goes where its condition is true; false and null leave it alone, as in SQL.
"""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING

import polars as pl

from lakekit.columns import internal
from lakekit.errors import ColumnNotFound, LakekitError, SchemaMismatch
from lakekit.format.polars_types import polars_schema
from lakekit.read import expand, far, lazy, temporal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from polars._typing import PolarsDataType

    from lakekit.metadata.table_context import TableContext


SOURCE = f"{internal('source')}."
"""What the names of a merge's source columns begin with, so that both sides' columns are in one frame."""
_ZONE = re.compile(r"Datetime\('[^']*', '([^']+)'\)")
MANY_ROWS = "looks at more than one row"


def condition(where: pl.Expr | str, ctx: TableContext, *, said: str = "where") -> pl.Expr:
    """A condition on the rows of a table, over its columns by their names, whatever chose them.

    Raises `ColumnNotFound`, `SchemaMismatch`, and `TypeError` for what is neither expression nor text.
    """
    schema = polars_schema(ctx.schema.fields)
    return check_condition(parse_expression(where, ctx.name, said, schema), schema, ctx.name, said)


def fit_condition(expr: pl.Expr, said: object, schema: Mapping[str, pl.DataType]) -> pl.Expr:
    """A condition; where an SQL text said it that compares dates and times with texts, it compares them with what the texts say, as SQL does."""
    if isinstance(said, str):
        with suppress(pl.exceptions.PolarsError):
            if not _fits(expr, schema) and (found := lazy.filter_of_sql(said, schema)) is not None:
                pl.DataFrame(schema=schema).select(found)  # a text that says no date is found out
                return found
    return expr


def _fits(expr: pl.Expr, schema: Mapping[str, pl.DataType]) -> bool:
    try:
        pl.LazyFrame(schema=schema).select(expr).collect_schema()
    except pl.exceptions.ColumnNotFoundError:
        return True  # whoever checks the columns says it better
    except pl.exceptions.PolarsError:
        return False
    return True


def parse_expression(given: pl.Expr | str, table: str, said: str, schema: Mapping[str, pl.DataType] | None = None) -> pl.Expr:
    """An expression, or what a SQL text means; a condition on columns of a `schema` as `fit_condition` has it. Raises `SchemaMismatch`, `TypeError`."""
    if isinstance(given, pl.Expr):
        return given
    if isinstance(given, bool):
        return pl.lit(given)
    if not isinstance(given, str):
        msg = f"{said}= takes a Polars expression or SQL text, not {type(given).__name__}: pl.lit(True) and 'true' mean every row"
        raise TypeError(msg)
    try:
        expr = pl.sql_expr(given)
    except (pl.exceptions.PolarsError, UnicodeEncodeError) as wrong:  # half a surrogate pair is no text to Polars
        raise SchemaMismatch(f"{said}={given!r} for {table} is no SQL: {wrong}") from None
    return expr if schema is None else fit_condition(expand.name_exactly(expr, schema), given, schema)


def check_condition(expr: pl.Expr, schema: Mapping[str, pl.DataType], table: str, said: str) -> pl.Expr:
    """An expression over the columns of a schema by their names that is a condition. Raises where it is none.

    A bare NULL never holds, and to Polars is no condition: it becomes one.
    """
    expr, found = resolve_expression(expr, schema, table, said)
    if found not in (pl.Boolean(), pl.Null()):
        raise SchemaMismatch(f"{said}={format_expression(expr)} for {table} is {found}, and a condition is true or false. Compare it with something")
    try:
        pl.LazyFrame(schema=schema).filter(expr).explain()  # which asks for each part of a conjunction
    except pl.exceptions.PolarsError as wrong:
        if "got `Null`" in str(wrong):
            return expr.cast(pl.Boolean)
    return expr


def resolve_expression(expr: pl.Expr, schema: Mapping[str, pl.DataType], table: str, said: str) -> tuple[pl.Expr, pl.DataType]:
    """An expression with the columns of a schema that it chooses by their names, and its type.

    Raises `ColumnNotFound`, `SchemaMismatch`; `ValueOutOfRange` for constants as `far` has them.
    """
    far.check_printable_times(expr, table, said)
    for name in expand.used_columns(expr, schema):
        if name not in schema:
            raise make_column_not_found(name, list(schema), table, said)
    try:
        found = expand.expand(expr, schema)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as wrong:  # of `struct.field("*")` in a part Polars panics
        what = str(wrong).split("\n", 1)[0].replace(SOURCE, "s.")  # the plan that follows is Polars' own
        raise SchemaMismatch(f"{said}={format_expression(expr)} does not fit the columns of {table}: {what}{_hint(what)}") from None
    if len(found) != 1:
        raise SchemaMismatch(f"{said}={format_expression(expr)} for {table} gives {len(found)} columns, and one is wanted. Join conditions with & or |")
    [plain] = found
    temporal.refuse_numbers(plain, schema, f"{said}={format_expression(expr)} for {table}")
    dtype = pl.LazyFrame(schema=schema).select(plain).collect_schema().dtypes()[0]
    if (why := _cannot_compare(plain, schema)) is not None:
        types = ", ".join(f"{name.replace(SOURCE, 's.')} is {schema[name]}" for name in dict.fromkeys(expand.used_columns(plain, schema)))
        raise SchemaMismatch(f"{said}={format_expression(expr)} does not fit the columns of {table}: {why.format(types=types)}")
    return plain, dtype


def format_expression(expr: pl.Expr) -> str:
    """Return an expression as text, the columns of a merge's source called as SQL calls them there, `s.column`."""
    return str(expr).replace(SOURCE, "s.")


def _hint(what: str) -> str:
    """What to write instead of what Polars cannot compare with times."""
    if "'date/datetime/time'" in what:
        return ". In SQL a date is written DATE '2024-03-31', a timestamp TIMESTAMP '2024-03-31 12:00:00'"
    if "'is_in' cannot check for" in what and any(word in what for word in ("Date", "Time")):
        return ". A number is no day and no time of one: write DATE '2024-01-03' in SQL, quotes and all, date(2024, 1, 3) in Python"
    return ""


def _cannot_compare(expr: pl.Expr, schema: Mapping[str, pl.DataType]) -> str | None:
    """Which comparison cannot be made, and what to do. Polars says so when it computes, and not of decimals: it compares those as texts, 10.50 below '9.6'."""
    try:
        pl.DataFrame(schema={name: _with_floats(dtype) for name, dtype in schema.items()}).select(expr)
    except pl.exceptions.PolarsError as wrong:
        text = str(wrong)
        if "cannot compare string with numeric type" in text:
            return "it compares a number with a text ({types}). Write numbers without quotes, or cast one"
        if "Datetime(" in text and ("time-zone-aware" in text or ("could not evaluate" in text and "comparison" in text)):
            if len(zones := set(_ZONE.findall(text.split("\n", 1)[0]))) > 1:
                return (
                    f"it compares moments of the zones {' and '.join(sorted(zones))} ({{types}}). Bring both to one: in Python datetime(…).astimezone(UTC), "
                    "of a column .dt.convert_time_zone('UTC')"
                )
            return (
                "it compares a moment that has a zone with one that has none ({types}). Write it as a text in SQL, '2024-03-31 12:00:00', which is one of UTC, "
                "or '2024-03-31T12:00:00+02:00'; in Python as datetime(…, tzinfo=…)"
            )
    except Exception:  # noqa: BLE001 - a function of Python raises what it likes of no rows, and of those that are there may not
        return None
    return None


def _with_floats(dtype: PolarsDataType) -> PolarsDataType:
    """The type with floats in place of decimals."""
    if isinstance(dtype, pl.Decimal):
        return pl.Float64()
    if isinstance(dtype, pl.List):
        return pl.List(_with_floats(dtype.inner))
    if isinstance(dtype, pl.Struct):
        return pl.Struct({field.name: _with_floats(field.dtype) for field in dtype.fields})
    return dtype


def check_aggregates(aggregates: Iterable[pl.Expr], schema: Mapping[str, pl.DataType], table: str) -> None:
    """Raises `ValueOutOfRange` for constants as `far` has them, `SchemaMismatch` where an aggregate compares a date or a time with a number."""
    for one in aggregates:
        far.check_printable_times(one, table, "an aggregate")
        check_times(one, schema, f"an aggregate of {table}")


def check_times(expr: pl.Expr, schema: Mapping[str, pl.DataType], said: str) -> None:
    """Raises `SchemaMismatch` where an expression compares a date or a time with a number, whatever else is wrong with it."""
    try:
        for one in expand.expand(expr, schema):
            temporal.refuse_numbers(one, schema, said)
    except pl.exceptions.PolarsError as wrong:
        if hint := _hint(what := str(wrong).split("\n", 1)[0]):
            raise SchemaMismatch(f"{said}: {what}{hint}") from None


def is_row_wise(expr: pl.Expr, schema: Mapping[str, pl.DataType]) -> bool:
    """Whether each value is made of its own row alone: then, and only then, Polars takes the first rows before it computes."""
    return non_elementwise_reason(expr, schema) is None


def non_elementwise_reason(expr: pl.Expr, schema: Mapping[str, pl.DataType]) -> str | None:
    """What an expression does that is not told by one row, in words; None where each value is made of its own row alone.

    Polars has no plan by rows for a comparison with a bare NULL, which is NULL of every row.
    """
    only = pl.QueryOptFlags.none(slice_pushdown=True)
    planned = pl.DataFrame(schema=schema).lazy().with_columns(expr.alias("")).head(1).explain(optimizations=only)
    if planned.lstrip().startswith("WITH_COLUMNS"):
        return None
    if "null.repeat(" in planned:
        return "compares with NULL, which nothing equals and nothing differs from: ask with IS NULL, is_null() or is_in() instead"
    return MANY_ROWS


def make_column_not_found(name: str, known: list[str], table: str, said: str) -> ColumnNotFound:
    """The error for a column that is not there."""
    near = get_close_matches(name, known, 1, 0.6)
    hint = f" Did you mean {near[0]!r}?" if near else f" A text is written {chr(39)}{name}{chr(39)} in SQL, or pl.lit({name!r})"
    return ColumnNotFound(f"{said} names column {name!r}, which {table} has not; its columns are {', '.join(known)}.{hint}", name=name)


@contextmanager
def translate_compute_errors(table: str, said: str = "the change") -> Iterator[None]:
    """Around the running of a caller's expressions: what Polars says of a value that it cannot compute becomes `SchemaMismatch`."""
    try:
        yield
    except LakekitError:
        raise
    except pl.exceptions.PolarsError as wrong:
        raise SchemaMismatch(f"Polars could not compute {said} of {table}: {str(wrong).replace(SOURCE, 's.')}") from None
