"""Statements over the tables of a catalog, executed by the public methods of catalogs and tables.

    session       the statements of a text         tokenizer     the tokens of a statement
    expressions   conditions, values               parameters    values and frames of the caller
    dispatch      statements by their first word   insert, dml   rows: INSERT, DELETE, …
    ddl, show     CREATE, ALTER, DROP, SHOW, …     calls         CALL sys.…, the procedures of `procedures`

A `SqlBackend` computes the rows of a query: DuckDB in this process (`duckdb_backend`, for `cat.sql`), or a session of
Spark (`lakekit.spark.sql`, for `ls.sql`). Modules of statements are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit import plugins

if TYPE_CHECKING:
    from lakekit.sql import (
        calls,
        change_text,
        column_type,
        ddl,
        dml,
        insert,
        procedures,
        query_report,
        show,
        store_assignment,
        table_changes,
        values_literal,
        view_ddl,
    )

__all__ = [
    "calls",
    "change_text",
    "column_type",
    "ddl",
    "dml",
    "insert",
    "procedures",
    "query_report",
    "show",
    "store_assignment",
    "table_changes",
    "values_literal",
    "view_ddl",
]
__getattr__ = plugins.late(__name__, __all__)
