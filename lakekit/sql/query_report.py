"""What is told about a query, and what becomes of it outside: EXPLAIN, EXPLAIN ANALYZE, SUMMARIZE, COPY … TO.

    EXPLAIN SELECT day, count(*) FROM shop.orders WHERE id > 7 GROUP BY day
        ->   the plan of DuckDB, and for each table what the pruning of its scan leaves of its files (`t.explain`)

EXPLAIN reads no rows: DuckDB runs the query over tables without any, to learn which conditions it passes to each scan.
EXPLAIN ANALYZE runs it, and shows the times. COPY writes a file, which only a statement typed with `files=True` may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from lakekit.errors import Unsupported
from lakekit.expressions.parser import SqlText, parse_statement
from lakekit.sql import query_frame
from lakekit.sql.backend import StatementResult
from lakekit.table.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from lakekit.sql.cage import QueryLimit
    from lakekit.sql.query_scan import QueryScan
    from lakekit.sql.query_tree import QueryTree

    Resolve = Callable[[SqlText, Any], QueryTree]
    """Returns the tree of a query, read from its text or given as a tree, with its names resolved."""


def explain(query: QueryTree, limit: QueryLimit, *, analyze: bool) -> StatementResult:
    """Return DuckDB's plan of a query, and the funnel of files at each scan.

    Raises what the query raises.
    """
    run = query_frame.connected(query, limit, empty=not analyze)
    try:
        _, sql = query.relation(run)
        if not analyze:
            run.rows(sql)
        [(_, plan), *_] = run.rows(f"EXPLAIN {'ANALYZE ' if analyze else ''}{sql}")
    finally:
        run.close()
    funnels = [_format_funnel(scan) for scan in query.scans.values()]
    return StatementResult("plan string", [("\n\n".join([plan.rstrip(), *funnels]),)])


def summarize(query: QueryTree, limit: QueryLimit) -> pl.LazyFrame:
    """Return a row for each column of a query: type, least, greatest, distinct values, quartiles, share of nulls."""
    return query_frame.lazy_frame(query_frame.bind(query, limit, prefix="SUMMARIZE "))


def copy(source: SqlText, limit: QueryLimit, resolve: Resolve) -> StatementResult:
    """Write the rows of COPY (query) TO 'file' (options), and return their number.

    Raises: `Unsupported` without `files`, and for COPY … FROM; what the query raises, and `StorageFailed`.
    """
    if not limit.files:
        raise Unsupported(
            f"{source.name}: COPY writes a file, which only a statement may that is typed with files=True (in the "
            "shell --files)",
            feature="catalog.sql",
        )
    tree = parse_statement(source.text, source.name, dialect=source.dialect)
    if not isinstance(tree, exp.Copy) or tree.args.get("kind"):
        raise Unsupported(
            f"{source.name}: COPY (query) TO 'file' writes rows; to read a file, name read_csv('file') in the query of "
            "an INSERT",
            feature="catalog.sql",
        )
    rows = tree.this
    asked = exp.select("*").from_(rows) if isinstance(rows, exp.Table) else rows.unnest()
    query = resolve(source, asked)
    run = query_frame.connected(query, limit)
    try:
        query.relation(run)
        tree.set("this", exp.Subquery(this=query.tree))
        query.tree = tree
        [(count,)] = run.rows(query.sql())
    finally:
        run.close()
    return StatementResult("row_count long", [(count,)])


def _format_funnel(scan: QueryScan) -> str:
    """Return what the pruning of a scan leaves of its files, by the conditions that DuckDB passed to it."""
    if not isinstance(scan.table, Table):
        return f"{scan.name}: made of what a table holds"
    condition = scan.conditions[-1] if scan.conditions else None
    return str(scan.table.explain(condition, at=scan.at))
