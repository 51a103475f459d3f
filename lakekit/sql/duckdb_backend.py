"""Statements executed in this process: queries by DuckDB over the tables' scans, changes by the methods of tables.

    cat.sql("SELECT day, sum(total) AS total FROM shop.orders WHERE id > 7 GROUP BY day").collect()
    cat.sql("INSERT INTO shop.orders VALUES (1, 'a'); CALL sys.compact('shop.orders')")

A query is parsed once; each table in its tree becomes a scan, each view its query (`query_tree`), and DuckDB runs it in
a cage (`cage`) when its LazyFrame is collected (`query_frame`). Types are Paimon's own, as `t.to_sql()` writes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import polars as pl

from lakekit import sql, write as writing
from lakekit.catalog.session import find_catalog
from lakekit.columns import col
from lakekit.errors import InvalidOption, SchemaMismatch
from lakekit.expressions.parser import SqlText
from lakekit.format.polars_types import paimon_type, polars_type
from lakekit.options.redaction import excerpt, without_secrets
from lakekit.read.user_expressions import translate_panics
from lakekit.sql import cage, dispatch, query_frame
from lakekit.sql.backend import Statement, StatementResult, single_column
from lakekit.sql.parameters import NamedFrame
from lakekit.sql.query_tree import QueryTree, check_length
from lakekit.sql.tokenizer import TokenStream
from lakekit.storage.object_store_requests import typed_refusals
from lakekit.types import DataType, Field, parse, quote_identifier

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from lakekit.catalog.catalog import Catalog
    from lakekit.catalog.views import View
    from lakekit.commit.changes import Commit
    from lakekit.dml.merge_plan import Clause
    from lakekit.maintenance.result import DeletionResult
    from lakekit.sql.cage import QueryLimit
    from lakekit.table.format_tables import ObjectTable
    from lakekit.table.table import Table

_HINTS = {
    "cast": " with CAST(… AS …) in the statement",
    "cut": "date_trunc('{unit}', …)",
    "grow": ", or add it with ALTER TABLE … ADD COLUMN",
}
"""What errors about rows of a statement advise."""
_TEXTS = "lakekit_texts"
"""The name in a statement of the texts of its literals."""


def query(catalog: Catalog, text: str, database: str) -> pl.LazyFrame:
    """Return the rows of one query, whose names of one part are tables of `database`.

    Raises: `SqlError` for a text that is no query, `LimitExceeded` for one that is too long for a view.
    """
    check_length(text)
    statement = Statement(backend=DuckDBBackend(database), catalog=catalog, tokens=TokenStream.of(text))
    if not dispatch.is_query(statement):
        raise statement.tokens.error_at(0, "a view is a query, SELECT …")
    return statement.backend.query(statement, statement.tokens.remaining_text)


@dataclass(frozen=True, slots=True)
class DuckDBBackend:
    """The `lakekit.sql.backend.SqlBackend` of this process.

    `database`: where names of one part are looked for.
    """

    database: str | None = None
    tables: dict[str, Table] = field(default_factory=dict)
    catalogs: dict[str, Catalog] = field(default_factory=dict)
    """The catalogs of CREATE CATALOG, by name."""
    zone: str | None = None
    """None: a time without a zone is one of this process, as in `t.scan(at=…)`."""
    files: bool = False
    """Whether a query may open files, as one that the caller typed with `files=True`."""

    def named(self, name: str) -> Catalog:
        """Return the catalog of a name. Raises `InvalidOption`."""
        return find_catalog(self.catalogs, name)

    # ---- queries ---------------------------------------------------------------------------------

    def query(self, statement: Statement, text: str) -> pl.LazyFrame:
        """Return the rows of a query, which DuckDB computes when they are collected.

        Raises what the catalog raises, `SqlError` for what is no query, `Unsupported` for what a query may not ask for,
        `ColumnNotFound`, `SchemaMismatch`.
        """
        query = self.tree(statement, statement.tokens.query_source(text))
        for answer in (query_frame.plain_frame, query_frame.row_count):
            rows = answer(query)
            if rows is not None:
                return rows
        return query_frame.lazy_frame(query_frame.bind(query, self.limit(statement)))

    def literal_rows(self, statement: Statement) -> pl.LazyFrame | None:
        """Return the rows of a long VALUES that comes, cast by DuckDB to the types that it gives a sample of them."""
        found = sql.values_literal.read(statement.tokens)
        if found is None:
            return None
        limit, source = self.limit(statement), SqlText(statement.tokens.remaining_text, "query")
        with cage.opened(limit, source) as run:
            relation, _ = self.tree(statement, SqlText(found.sample, "query")).relation(run)
            types = dict(zip(relation.columns, relation.types, strict=True))
        casts = ", ".join(
            f"CAST({texts} AS {t}) AS {quote_identifier(name)}"
            for texts, (name, t) in zip(found.frame.columns, types.items(), strict=True)
        )
        known = replace(statement, frames={**statement.frames, _TEXTS: NamedFrame(_TEXTS, found.frame.lazy())})
        query = self.tree(known, SqlText(f"SELECT {casts} FROM {_TEXTS}", "query"))  # noqa: S608 - names are quoted
        query.source = source
        return query_frame.lazy_frame(query_frame.bind(query, limit))

    def explain(self, statement: Statement) -> StatementResult:
        analyze = statement.tokens.accept("ANALYZE") or statement.tokens.accept("(", "ANALYZE", ")")
        query = self.tree(statement, statement.tokens.query_source(statement.tokens.remaining_text))
        return sql.query_report.explain(query, self.limit(statement), analyze=analyze)

    def summarize(self, statement: Statement) -> pl.LazyFrame:
        tokens = statement.tokens
        source = tokens.query_source(tokens.remaining_text)
        if tokens.next is not None and not dispatch.is_query(statement):  # SUMMARIZE t
            source = tokens.masked(tokens.next.start, tokens.remaining_text, "query", (tokens.first_position, "FROM"))
        return sql.query_report.summarize(self.tree(statement, source), self.limit(statement))

    def copy(self, statement: Statement) -> StatementResult:
        tokens = statement.tokens
        start = tokens.first_position
        source = tokens.masked(start, tokens.text[start : tokens.stop].rstrip(), "statement")
        return sql.query_report.copy(source, self.limit(statement), partial(self.tree, statement))

    def tree(self, statement: Statement, source: SqlText) -> QueryTree:
        """Return the tree of a query whose names are resolved. Raises as `query`."""
        return QueryTree.of(statement, source, statement_of=partial(self._statement_of, statement), files=self.files)

    def limit(self, statement: Statement) -> QueryLimit:
        """Return the bounds of a query. Raises `InvalidOption`."""
        return cage.limits(statement.catalog, files=self.files)

    def _statement_of(self, statement: Statement, view: View) -> Statement:
        """Return the statement in which the query of a view is read: names of one part are of the view's database."""
        backend = DuckDBBackend(database=view.name.partition(".")[0])
        return replace(statement, backend=backend, catalog=cast("Catalog", view.catalog), is_foreign=False, frames={})

    def values(self, statement: Statement, text: str, most: int) -> pl.Series:
        with typed_refusals(), translate_panics("the query", sql=partial(excerpt, text)):
            frame = self.query(statement, text).head(most + 1).collect()
        return single_column(frame, text, most)

    def names(self, rows: pl.LazyFrame) -> list[str]:
        return rows.collect_schema().names()

    def fields(self, rows: pl.LazyFrame) -> tuple[Field, ...]:
        """Their columns, which may be null."""
        return tuple(Field(name, paimon_type(dtype, name)) for name, dtype in rows.collect_schema().items())

    def renamed(self, rows: pl.LazyFrame, names: Sequence[str]) -> pl.LazyFrame:
        """Return the columns by other names. Raises `SchemaMismatch` where there are not as many."""
        own = self.names(rows)
        if len(own) != len(names):
            raise SchemaMismatch(f"{len(names)} names ({', '.join(names)}) for {len(own)} columns ({', '.join(own)})")
        return rows.select(col(name).alias(to) for name, to in zip(own, names, strict=True))

    def stored(
        self, rows: pl.LazyFrame, wanted: Sequence[Field | None], constants: Mapping[Field, Any]
    ) -> pl.LazyFrame:
        """Return columns as the table takes them, where SQL casts what is written.

        `t.append` casts where no value changes.
        """
        schema = rows.collect_schema()
        stored = [
            sql.store_assignment.store_column(name, dtype, field, self.zone or "UTC")
            for (name, dtype), field in zip(schema.items(), wanted, strict=True)
        ]
        return rows.select(
            *stored,
            *(pl.lit(value).cast(polars_type(field.type)).alias(field.name) for field, value in constants.items()),
        )

    def type(self, text: str) -> DataType:
        """Return the type of Paimon's type text, or of one of DuckDB's or Spark's: INT[], STRUCT<a: INT>, TIMESTAMPTZ.

        Raises: `InvalidOption` for an invalid text, `Unsupported` for a type that lakekit refuses.
        """
        try:
            return parse(text)
        except ValueError as wrong:
            failure = without_secrets(f"{text} is no type: {wrong}")
        found = sql.column_type.read(text)
        if isinstance(found, DataType):
            return found
        failure = f"{text} is no type of Paimon: write {found}" if found else failure
        raise InvalidOption(failure, key="sql", value=without_secrets(text))

    def type_text(self, t: DataType) -> str:
        """As `t.to_sql()` writes it."""
        return str(t)

    # ---- changes: the methods of tables ----------------------------------------------------------

    def write(self, rows: pl.LazyFrame, table: Table, *, mode: str, partition: Mapping[str, Any] | None) -> Commit:
        error_hints = writing.value_casting.ErrorHints(**_HINTS)
        selected = writing.input_frames.open_lazy_frame(rows, error_hints=error_hints)
        return table.append(selected) if mode == "append" else table.overwrite(selected, partition=partition)

    def change_rows(self, statement: Statement) -> StatementResult | None:  # noqa: ARG002 - it is translated
        return None

    def delete(self, table: Table, where: pl.Expr | str) -> Commit:
        return table.delete(where)

    def update(self, table: Table, values: Mapping[str, Any], *, where: pl.Expr | str) -> Commit:
        return table.update(values, where=where)

    def merge(self, table: Table, source: pl.LazyFrame, *clauses: Clause, on: pl.Expr) -> Commit:
        return table.merge(source, *clauses, on=on)

    def analyze(self, table: Table, *, columns: Sequence[str] | None) -> Commit:
        return table.analyze(columns=columns)

    def compact(self, table: Table, **how: Any) -> Commit:
        return table.compact(**how)

    def rewrite_file_index(self, table: Table, *, where: pl.Expr | None) -> Commit:
        return table.rewrite_file_index(where=where)

    def remove_orphans(self, table: Table, *, older_than: datetime | None, dry_run: bool) -> pl.DataFrame:
        return table.remove_orphans(older_than=older_than, dry_run=dry_run)

    def refresh(self, table: ObjectTable) -> Commit:
        return table.refresh()

    def expire_snapshots(self, table: Table, **how: Any) -> DeletionResult:
        return table.expire_snapshots(**how)
