"""One table of a query: its scan, and what DuckDB asked of it.

    scan = QueryScan("shop.orders", cat["shop.orders"], source)
    scan.registered()      the LazyFrame that DuckDB gets: it asks for columns and rows of it, `t.scan()` plans them

DuckDB hands on the columns that the query needs and the conditions that compare a column with constants (=, <>, <, <=,
>, >=, IN, IS NULL, BETWEEN, and AND and OR of them; not those of FLOAT and DOUBLE that a NaN could satisfy). What else
a query says, DuckDB computes itself from the rows. MAP and VARIANT columns, which are lists and structs of binaries in
Polars, go in as DuckDB's own types.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl
from polars.io.plugins import register_io_source

from lakekit.columns import cast_columns, col, cols, instance
from lakekit.errors import Unsupported
from lakekit.format.polars_types import VARIANT_DTYPE
from lakekit.options.redaction import excerpt
from lakekit.read.user_expressions import translate_panics
from lakekit.storage.object_store_requests import typed_refusals
from lakekit.types import part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakekit.expressions.parser import SqlText
    from lakekit.types import DataType, Field


_DUCKDB_VARIANT = pl.Extension("arrow.parquet.variant", VARIANT_DTYPE, "")
"""The type of Arrow that DuckDB reads as its VARIANT: values are reached by path, `v.a.b`, and cast."""
_MIN_CHUNK_ROWS = 10_000
"""Chunks with fewer rows are joined: DuckDB hands on a batch for each."""


@dataclass(slots=True)
class QueryScan:
    """A table in a query. `table` has a method `scan`; `at` is the version that the query asks for."""

    name: str
    table: Any
    source: SqlText
    at: Any = None
    limit: int | None = None
    """The first rows that suffice, where the query asks for no more."""
    conditions: list[pl.Expr | None] = field(default_factory=list)
    """What DuckDB asked for, once for each time that it read the table."""

    def rows(self) -> pl.LazyFrame:
        """Return the rows as the table has them. Raises what `scan` raises."""
        rows: pl.LazyFrame = self.table.scan() if self.at is None else self.table.scan(self.at)
        return rows

    def frame(self) -> pl.LazyFrame:
        """Return the rows, with the types that DuckDB is to see. Raises what `scan` raises."""
        rows = self.rows()
        schema = rows.collect_schema()
        _check_names(self.name, schema.names())
        fields = {field.name: field for field in self.fields()}
        types = {name: _duckdb_dtype(fields[name].type, dtype) for name, dtype in schema.items() if name in fields}
        rows = cast_columns(rows, {name: dtype for name, dtype in types.items() if dtype != schema[name]})
        variants = [name for name in types if schema[name] == VARIANT_DTYPE and fields[name].type.root == "VARIANT"]
        rows = rows.with_columns(col(name).ext.to(_DUCKDB_VARIANT) for name in variants) if variants else rows
        return rows if self.limit is None else rows.head(self.limit)

    def registered(self, failures: list[BaseException], *, empty: bool = False) -> pl.LazyFrame:
        """Return the rows as a source that records what is asked of it, and in `failures` what it raises.

        `empty`: a source without rows, which records all the same.
        """
        frame = self.frame()
        schema = frame.collect_schema()

        def read(
            with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _batch_size: int | None
        ) -> Iterator[pl.DataFrame]:
            if n_rows == 0:  # DuckDB asks so for the schema
                yield pl.DataFrame(schema=schema)
                return
            predicate = None if predicate is None else _without_null_cases(predicate)
            self.conditions.append(predicate)
            rows = frame if predicate is None else frame.filter(predicate)
            rows = pl.LazyFrame(schema=schema) if empty else rows
            rows = rows if with_columns is None else rows.select(cols(with_columns))
            rows = rows if n_rows is None else rows.head(n_rows)
            yield self._collect(rows, failures)

        return register_io_source(read, schema=schema, is_pure=True)

    def _collect(self, rows: pl.LazyFrame, failures: list[BaseException]) -> pl.DataFrame:
        """Return the rows; what goes wrong is kept, since DuckDB keeps its text alone."""
        try:
            with typed_refusals(), translate_panics("the query", sql=partial(excerpt, self.source.text)):
                frame = rows.collect()
        except BaseException as wrong:
            failures.append(wrong)
            raise
        return frame.rechunk() if frame.height < _MIN_CHUNK_ROWS * frame.n_chunks() else frame

    def fields(self) -> tuple[Field, ...]:
        """Return the columns of the table, where it has a schema of Paimon's."""
        schema = getattr(self.table, "schema", None)
        return getattr(schema, "fields", ()) or ()


def _without_null_cases(predicate: pl.Expr) -> pl.Expr:
    """Return a condition in which `k IN (…)` is `is_in` alone, as planning knows it.

    DuckDB writes `when(k.is_null()).then(None).otherwise(k.is_in(…))`, for versions of Polars in which it is not null
    for a null.
    """
    if ".when(" not in str(predicate):
        return predicate
    tree = json.loads(predicate.meta.serialize(format="json"), object_hook=_set_of)
    return pl.Expr.deserialize(io.BytesIO(json.dumps(tree).encode()), format="json")


def _set_of(node: dict[str, Any]) -> dict[str, Any]:
    match node:
        case {
            "Ternary": {
                "predicate": {"Function": {"function": {"Boolean": "IsNull"}, "input": [tested]}},
                "truthy": {"Literal": {"Scalar": {"Null": _}}},
                "falsy": {"Function": {"function": {"Boolean": {"IsIn": _}}, "input": [column, _]}} as found,
            }
        } if tested == column:
            return found
    return node


def _check_names(table: str, names: list[str]) -> None:
    """Refuse columns that only case tells apart, which SQL does not."""
    lowered: dict[str, str] = {}
    for name in names:  # scalar: one a column
        other = lowered.setdefault(name.lower(), name)
        if other != name:
            raise Unsupported(
                f"{table} has the columns {other} and {name}, which SQL does not tell apart: rename one",
                feature="catalog.sql",
            )


def _duckdb_dtype(t: DataType, dtype: pl.DataType) -> pl.DataType:
    """Return the type in which DuckDB is to see a column: MAP is a type of its own."""
    match t.root, dtype:
        case "MAP", pl.List(inner=pl.Struct() as entry):
            key, value = (instance(inner.dtype) for inner in entry.fields)
            return pl.Map(_duckdb_dtype(part(t.key), key), _duckdb_dtype(part(t.value), value))
        case "ARRAY", pl.List():
            return pl.List(_duckdb_dtype(part(t.element), instance(dtype.inner)))
        case "ROW", pl.Struct():
            types = {inner.name: inner.type for inner in t.fields}
            return pl.Struct(
                {inner.name: _duckdb_dtype(types[inner.name], instance(inner.dtype)) for inner in dtype.fields}
            )
    return dtype
