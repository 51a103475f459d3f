"""The rows of a query as a LazyFrame: DuckDB runs when it is collected, and not before.

    frame = lazy_frame(query)                    bound: names and types are known, nothing was read
    frame.select("v").filter(pl.col("v") > 5)    DuckDB is asked for v alone
    frame.collect()

Batches come while DuckDB computes, and leaving early ends it. Between batches the frame gives Polars one without rows
now and then, so that an interrupt, which Polars notices there, ends the query. Types are those that Paimon has: sums of
integers, HUGEINT in DuckDB, are BIGINT or `ValueOutOfRange`; what no type of Paimon holds is refused by name.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING, Any

import polars as pl
from polars.io.plugins import register_io_source
from sqlglot import exp

from lakekit import table
from lakekit.columns import col, cols, instance, struct_field
from lakekit.errors import SchemaMismatch, ValueOutOfRange
from lakekit.format.polars_types import VARIANT_DTYPE, entries_type, is_printable
from lakekit.sql import cage
from lakekit.sql.query_tree import first_rows, is_plain, plain_scan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakekit.sql.cage import QueryLimit, QueryRun
    from lakekit.sql.query_scan import QueryScan
    from lakekit.sql.query_tree import QueryTree

UNNAMED = "element"
"""How the names of fields begin that ROW(…) gives no names: element1, element2, …"""
_BATCH_ROWS, _BATCH_VALUES = 122_880, 1 << 21
"""Rows of a batch, a row group of DuckDB; fewer where there are many columns, since DuckDB makes room for all."""
_MAX_TYPE_DEPTH = 100
_MAX_PRUNING_CONDITIONS = 64
"""How many comparisons joined by AND the scan looks at one by one; Polars' time grows with their square."""
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    exp.EQ: eq,
    exp.NEQ: ne,
    exp.LT: lt,
    exp.LTE: le,
    exp.GT: gt,
    exp.GTE: ge,
}
_INTEGER_BITS: dict[pl.DataType, int] = {pl.Int8(): 8, pl.Int16(): 16, pl.Int32(): 32, pl.Int64(): 64}
_TYPES: dict[str, pl.DataType] = {
    "boolean": pl.Boolean(),
    "tinyint": pl.Int8(),
    "smallint": pl.Int16(),
    "integer": pl.Int32(),
    "bigint": pl.Int64(),
    "hugeint": pl.Int64(),
    "utinyint": pl.Int16(),
    "usmallint": pl.Int32(),
    "uinteger": pl.Int64(),
    "ubigint": pl.Decimal(20, 0),
    "float": pl.Float32(),
    "double": pl.Float64(),
    "varchar": pl.String(),
    "uuid": pl.String(),
    "enum": pl.String(),
    "blob": pl.Binary(),
    "date": pl.Date(),
    "time": pl.Time(),
    "time_ns": pl.Time(),
    "timestamp": pl.Datetime("us"),
    "timestamp_s": pl.Datetime("ms"),
    "timestamp_ms": pl.Datetime("ms"),
    "timestamp_ns": pl.Datetime("ns"),
    "timestamp with time zone": pl.Datetime("us", "UTC"),
    "timestamptz_ns": pl.Datetime("ns", "UTC"),
    "null": pl.Null(),
    "variant": VARIANT_DTYPE,
}
"""The Polars type of DuckDB's types, by their ids."""


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A query whose names and types DuckDB knows."""

    query: QueryTree
    limit: QueryLimit
    sql: str
    schema: pl.Schema
    spare: list[QueryRun] = field(default_factory=list)
    """Connections that know the tables of the query and run nothing."""

    @contextmanager
    def run(self) -> Iterator[QueryRun]:
        """Lend a connection in which the tables of the query are known; one that failed is not lent again."""
        run = self.spare.pop() if self.spare else connected(self.query, self.limit)
        try:
            yield run
        except BaseException:
            run.close()
            raise
        self.spare.append(run)

    def select(self, columns: list[str] | None, rows: int | None) -> str:
        """Return the statement that computes some columns, and no more rows than asked for."""
        if columns is None and rows is None:
            return self.sql
        places = {name: f"c{at}" for at, name in enumerate(self.schema)}
        outputs = ", ".join(places[name] for name in (places if columns is None else columns))
        limit = "" if rows is None else f" LIMIT {rows}"
        return f"SELECT {outputs} FROM ({self.sql}) AS rows({', '.join(places.values())}){limit}"  # noqa: S608 - a query in a query


def connected(query: QueryTree, limit: QueryLimit, *, empty: bool = False) -> QueryRun:
    """Open a connection in which the tables of a query are known by their names in its tree, `empty` without rows."""
    run = cage.QueryRun(limit, query.source, duckdb_sql=query.duckdb_sql).open()
    for name, scan in query.scans.items():
        run.register(name, scan.registered(run.failures, empty=empty))
    for definition in query.definitions:
        run.define(definition)
    return run


def bind(query: QueryTree, limit: QueryLimit, prefix: str = "") -> BoundQuery:
    """Return a query with the names and types of its columns, which DuckDB gives without computing it.

    `prefix`: a word before it, which makes other rows of it, as SUMMARIZE.

    Raises: `SqlError`, `ColumnNotFound`, `SchemaMismatch` for a query that cannot be computed, and for a column of a
    type that Paimon has not.
    """
    run = connected(query, limit)
    relation, sql = query.relation(run, prefix)
    columns, types = list(relation.columns), list(relation.types)
    schema = pl.Schema({name: polars_dtype(t, name) for name, t in zip(_unique(columns), types, strict=True)})
    return BoundQuery(query, limit, sql, schema, [run])


def lazy_frame(bound: BoundQuery) -> pl.LazyFrame:
    """Return the rows of a query, computed when they are collected."""

    def read(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        needed = None if with_columns is None else _needed(with_columns, predicate, bound.schema)
        first = n_rows if predicate is None else None
        schema = bound.schema if needed is None else pl.Schema({name: bound.schema[name] for name in needed})
        left = n_rows
        for batch in _batches(bound, needed, first, schema):
            rows = batch if predicate is None else batch.filter(predicate)
            rows = rows if with_columns is None else rows.select(cols(with_columns))
            rows = rows if left is None else rows.head(left)
            left = None if left is None else left - rows.height
            yield rows
            if left is not None and left <= 0:
                return

    return register_io_source(read, schema=bound.schema)


def plain_frame(query: QueryTree) -> pl.LazyFrame | None:
    """Return the rows of `SELECT a, b FROM t`, for which there is nothing to compute; None for any other query.

    WHERE may compare columns with constants, where no two engines differ (`_plain_condition`). Later filters reach the
    table's own planning, and rows are streamed as those of `t.scan()`.
    """
    scan = plain_scan(query, "where")
    first = None if scan is None or not is_plain(query.tree) else first_rows(query.tree)
    if scan is None or first is None:
        return None
    rows = scan.rows()
    schema, alias = rows.collect_schema(), (query.tree.args["from_"].alias_or_name or "").lower()
    if (where := query.tree.args.get("where")) is not None:
        condition = _plain_condition(where.this, schema, alias)
        if condition is None:
            return None
        rows = rows.filter(condition)
    columns: list[tuple[str, str]] = []
    for output in query.tree.expressions:  # scalar: one a column
        column = output.unalias()
        if column.is_star:
            is_of_table = column.text("table").lower() in ("", alias)
            if not is_of_table or any(isinstance(part, exp.Star) and any(part.args.values()) for part in column.walk()):
                return None
            columns += [(name, name) for name in schema]
            continue
        name = _own_column(column, schema, alias)
        if name is None:
            return None
        columns.append((name, output.alias or name))
    names = _unique([name for _, name in columns])
    if columns != [(name, name) for name in schema]:
        rows = rows.select(col(name).alias(to) for (name, _), to in zip(columns, names, strict=True))
    return rows if first == (0, None) else rows.slice(*first)  # a slice keeps later filters from the scan


def _own_column(column: Any, schema: pl.Schema, alias: str) -> str | None:
    """Return the name of the column of a table that a node stands for; None where it stands for anything else."""
    is_own = isinstance(column, exp.Column) and len(column.parts) <= 2
    if not is_own or (column.args.get("table") is not None and column.text("table").lower() != alias):
        return None
    matches = [name for name in schema if name == column.name] or [
        name for name in schema if name.lower() == column.name.lower()
    ]
    return matches[0] if len(matches) == 1 else None


def _plain_condition(node: Any, schema: pl.Schema, alias: str) -> pl.Expr | None:
    """Return comparisons joined by AND, of integers with integers of their type, and whether texts are equal.

    None for anything else: DuckDB computes it.
    """
    if isinstance(node, exp.Paren):
        return _plain_condition(node.this, schema, alias)
    if isinstance(node, exp.And):
        conditions = [_plain_condition(part, schema, alias) for part in node.flatten()]
        known = [condition for condition in conditions if condition is not None]
        if len(known) < len(conditions):
            return None
        return reduce(and_, known) if len(known) <= _MAX_PRUNING_CONDITIONS else pl.all_horizontal(known)
    name = _own_column(node.this, schema, alias) if type(node) in _COMPARISONS else None
    value = None if name is None else _plain_value(node.expression, schema[name])
    if name is None or value is None or (isinstance(value, str) and type(node) is not exp.EQ):
        return None
    return _COMPARISONS[type(node)](col(name), value)


def _plain_value(node: Any, dtype: pl.DataType) -> int | str | None:
    """Return a literal that is a value of a type of integers or texts; None for anything else."""
    sign, node = (-1, node.this) if isinstance(node, exp.Neg) else (1, node)
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return node.name if sign == 1 and dtype == pl.String() else None
    bits = _INTEGER_BITS.get(dtype)
    if bits is None or not (node.name.isascii() and node.name.isdecimal()):
        return None
    value = sign * int(node.name)
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def row_count(query: QueryTree) -> pl.LazyFrame | None:
    """Return the number of rows of a table, where a query asks for nothing else; None for any other query.

    `t.aggregate` gives it, from metadata where no rows have to be merged.
    """
    scan = _counted_scan(query)
    if scan is None:
        return None
    name = query.tree.expressions[0].alias_or_name

    def read(
        with_columns: list[str] | None,  # noqa: ARG001 - there is one column
        predicate: pl.Expr | None,
        n_rows: int | None,
        _batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        rows = scan.table.aggregate(pl.len(), at=scan.at).select(pl.all().cast(pl.Int64))
        rows.columns = [name]
        rows = rows if predicate is None else rows.filter(predicate)
        yield rows if n_rows is None else rows.head(n_rows)

    return register_io_source(read, schema={name: pl.Int64()})


def _counted_scan(query: QueryTree) -> QueryScan | None:
    scan, outputs = plain_scan(query), query.tree.expressions
    if scan is None or len(outputs) != 1 or not isinstance(scan.table, table.Table):
        return None
    output = outputs[0].unalias()
    is_count = isinstance(output, exp.Count) and isinstance(output.this, (exp.Star, exp.Literal))
    has_limit = query.tree.args.get("limit") or query.tree.args.get("offset")
    return scan if is_count and not output.expressions and not has_limit else None


def _needed(columns: list[str], predicate: pl.Expr | None, schema: pl.Schema) -> list[str]:
    """Return the columns that the answer and the condition name, in the order of the query's; one where none is."""
    wanted = {*columns, *(() if predicate is None else predicate.meta.root_names())}
    return [name for name in schema if name in wanted] or schema.names()[:1]


def _batches(
    bound: BoundQuery, columns: list[str] | None, first: int | None, schema: pl.Schema
) -> Iterator[pl.DataFrame]:
    """Yield the first rows of a query, and frames without rows while DuckDB computes.

    A query without tables needs no pyarrow, unless it has so many columns that batches are made small, or a TIME, of
    which Polars reads 24:00:00 as null: Arrow says how many are.
    """
    empty = pl.DataFrame(schema=schema)
    batch_rows = max(2048, min(_BATCH_ROWS, _BATCH_VALUES // len(schema)))
    is_small = not bound.query.scans and batch_rows == _BATCH_ROWS and not any(map(_has_times, schema.values()))
    with bound.run() as run:

        def push(put: Callable[[Any], bool]) -> None:
            if is_small:
                run.push_frames(bound.select(list(schema), first), put)
                return
            sql = bound.select(columns, first)
            for batch in run.reader(sql, batch_rows):
                if put(batch):
                    return

        for batch in run.iterate(push):
            yield empty if batch is None else typed(batch, schema)


def _has_times(dtype: pl.DataType) -> bool:
    """Return whether a type is TIME or has one in it."""
    if isinstance(dtype, pl.List):
        return _has_times(instance(dtype.inner))
    if isinstance(dtype, pl.Struct):
        return any(_has_times(instance(own.dtype)) for own in dtype.fields)
    return isinstance(dtype, pl.Time)


def typed(batch: Any, schema: pl.Schema) -> pl.DataFrame:
    """Return a batch of DuckDB, of Arrow or a frame, as a frame of these columns. Raises `ValueOutOfRange`."""
    frame = batch
    if not isinstance(frame, pl.DataFrame):
        frame = pl.DataFrame(pl.from_arrow(batch.rename_columns([f"c{at}" for at in range(len(schema))])))
    frame.columns = schema.names()
    _check_times(batch, frame)
    own = frame.schema
    changed = {name: dtype for name, dtype in schema.items() if own[name] != dtype}
    if not changed:
        return frame
    failure = None
    try:
        return frame.with_columns(_converted(name, own[name], dtype) for name, dtype in changed.items())
    except pl.exceptions.PolarsError as wrong:
        failure = str(wrong).partition("\n")[0]
    raise ValueOutOfRange(
        f"a value of {', '.join(changed)} is beyond {', '.join(map(str, changed.values()))}: {failure[:200]}; CAST it "
        "to DECIMAL(38, 0) or DOUBLE in the query"
    )


def _check_times(batch: Any, frame: pl.DataFrame) -> None:
    """Raise `ValueOutOfRange` for a day or a moment that Polars cannot print, and for 24:00:00, at any depth."""
    conditions = {name: _has_far_time(col(name), dtype) for name, dtype in frame.schema.items()}
    far = [condition.any().alias(name) for name, condition in conditions.items() if condition is not None]
    found = frame.select(far).row(0, named=True) if far else {}
    name = next((name for name, is_far in found.items() if is_far), None)
    if name is not None:
        raise ValueOutOfRange(
            f"column {name!r} of the query has a time beyond the years -262143 to 262142: CAST it to VARCHAR in the "
            "query"
        )
    for at, name in enumerate(frame.schema):
        if batch is not frame and _has_full_day(batch.column(at)):
            raise ValueOutOfRange(
                f"column {name!r} of the query has the time 24:00:00, and a TIME is before it: CAST it to VARCHAR in "
                "the query"
            )


def _has_far_time(values: pl.Expr, dtype: pl.DataType) -> pl.Expr | None:
    """Return whether values have a day or a moment in them that Polars cannot print; None for a type without any."""
    match dtype:
        case pl.Date() | pl.Datetime():
            return ~is_printable(values)
        case pl.List() | pl.Array():
            inner = _has_far_time(pl.element(), instance(dtype.inner))
            values = values.arr.to_list() if isinstance(dtype, pl.Array) else values
            return None if inner is None else values.list.eval(inner).list.any()
        case pl.Map():
            entries = entries_type(instance(dtype.key), instance(dtype.value))
            return _has_far_time(values.cast(entries), entries)
        case pl.Struct():
            fields = [_has_far_time(struct_field(values, own.name), instance(own.dtype)) for own in dtype.fields]
            known = [condition for condition in fields if condition is not None]
            return pl.any_horizontal(known) if known else None
    return None


def _has_full_day(values: Any) -> bool:
    """Return whether an array of Arrow has the time 24:00:00 in it, which Polars reads as null."""
    kind = type(values.type).__name__
    if kind in ("Time32Type", "Time64Type"):
        return pl.Series(pl.from_arrow(values)).null_count() != values.null_count
    if kind == "MapType":
        return _has_full_day(values.keys) or _has_full_day(values.items)
    if kind in ("ListType", "LargeListType", "FixedSizeListType", "StructType"):
        inner = values.flatten()
        return any(map(_has_full_day, inner if kind == "StructType" else [inner]))
    return False


def _converted(name: str, own: pl.DataType, dtype: pl.DataType) -> pl.Expr:
    column = col(name)
    if dtype == VARIANT_DTYPE and own != VARIANT_DTYPE:
        column = column.ext.storage() if isinstance(own, pl.BaseExtension) else column
        parts = pl.struct(
            column.struct.field("value").alias("value"), column.struct.field("metadata").alias("metadata")
        )
        return pl.when(col(name).is_not_null()).then(parts).alias(name)
    return column.cast(dtype)


def polars_dtype(t: Any, name: str, depth: int = 0) -> pl.DataType:
    """Return the Polars type of a type of DuckDB, which is so many types deep in the column's.

    Raises: `SchemaMismatch` for one that Paimon has not, and one that is nested too deeply.
    """
    if depth > _MAX_TYPE_DEPTH:
        raise SchemaMismatch(
            f"column {name!r} of the query has a type in which more than {_MAX_TYPE_DEPTH} are nested: CAST it to "
            "VARCHAR in the query",
            column=name,
        )
    kind = str(t.id)
    if kind in _TYPES:
        return _TYPES[kind]
    parts = dict(t.children) if kind in ("decimal", "list", "array", "map") else {}
    match kind:
        case "decimal":
            return pl.Decimal(parts["precision"], parts["scale"])
        case "list" | "array":
            return pl.List(polars_dtype(parts["child"], name, depth + 1))
        case "map":
            return entries_type(
                polars_dtype(parts["key"], name, depth + 1), polars_dtype(parts["value"], name, depth + 1)
            )
        case "struct":
            return pl.Struct({field: polars_dtype(inner, name, depth + 1) for field, inner in t.children})
        case "tuple":
            types = [polars_dtype(inner, name, depth + 1) for _, inner in t.children]
            return pl.Struct({f"{UNNAMED}{at}": dtype for at, dtype in enumerate(types, 1)})
    raise SchemaMismatch(
        f"column {name!r} of the query is {str(t)[:100]}, which no type of Paimon holds: CAST it to another type in "
        "the query",
        column=name,
    )


def _unique(names: list[str]) -> list[str]:
    """Return names of which none occurs twice: a frame has one column of a name."""
    unique = dict.fromkeys(names, 0)
    if len(unique) == len(names):
        return names
    seen: set[str] = set()
    result = []
    for name in names:  # scalar: one a column
        free = name
        while free in seen or (free != name and free in unique):
            unique[name] += 1
            free = f"{name}_{unique[name]}"
        seen.add(free)
        result.append(free)
    return result
