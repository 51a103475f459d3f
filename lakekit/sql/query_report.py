"""What is told about a query, and what becomes of it outside: EXPLAIN, EXPLAIN ANALYZE, SUMMARIZE, COPY … TO.

    EXPLAIN SELECT day, count(*) FROM shop.orders WHERE id > 7 GROUP BY day
        ->   the plan of DuckDB, and for each table what the pruning of its scan leaves of its files (`t.explain`)

EXPLAIN reads no rows: DuckDB runs the query over tables without any, to learn which conditions it passes to each scan.
EXPLAIN ANALYZE runs it, and shows the times. COPY writes a file, which only a statement typed with `files=True` may.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.tokens import TokenType  # type: ignore[attr-defined] # sqlglot exports it without saying so

from lakekit.errors import Unsupported
from lakekit.expressions.parser import SqlText, parse_query
from lakekit.sql import query_frame
from lakekit.sql.backend import StatementResult
from lakekit.sql.query_text import QueryText
from lakekit.table.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl

    from lakekit.sql.cage import QueryLimit
    from lakekit.sql.query_scan import QueryScan
    from lakekit.sql.query_tree import QueryTree

    Resolve = Callable[[SqlText], QueryTree]
    """Returns the tree of a query with its names resolved."""


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
        refusal = "COPY writes a file, which only a statement may that is typed with files=True (in the shell --files)"
        raise Unsupported(source.error(_start_of_copy(source), refusal).message, feature="catalog.sql")
    tree, tokens, plain = parse_query(source)
    if not isinstance(tree, exp.Copy) or tree.args.get("kind"):
        refusal = "COPY (query) TO 'file' writes rows; to read a file, name read_csv('file') in the query of an INSERT"
        at = next((token.start for token in tokens if token.text.upper() == "FROM"), tokens[0].start)
        raise Unsupported(source.error(at, refusal).message, feature="catalog.sql")
    query = resolve(_copied_query(source, tokens))
    to = QueryText.of(source, tokens, plain)
    to.start = next(token.start for token in tokens[_end_of_query(tokens) :] if token.text.upper() == "TO")
    run = query_frame.connected(query, limit)
    try:
        _, sql = query.relation(run)
        [(count,)] = run.rows(f"COPY ({sql}) {to.write()}")
    finally:
        run.close()
    return StatementResult("row_count long", [(count,)])


def _start_of_copy(source: SqlText) -> int:
    return len(source.text) - len(source.text.lstrip())


def _copied_query(source: SqlText, tokens: Sequence[Any]) -> SqlText:
    """Return the query of COPY, or that of the table that it names, in its place in the text."""
    end = _end_of_query(tokens)
    is_query = tokens[1].token_type == TokenType.L_PAREN
    first, last = (tokens[2], tokens[end - 2]) if is_query else (tokens[1], tokens[end - 1])
    before = "".join(sign if sign == "\n" else " " for sign in source.text[: first.start])
    named = before if is_query else before[:-5] + "FROM "
    return replace(source, text=named + source.text[first.start : last.end + 1])


def _end_of_query(tokens: Sequence[Any]) -> int:
    """Return the index behind what COPY copies."""
    depth = 0
    for at, token in enumerate(tokens):  # scalar: one a word of the statement
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if at and not depth and (token.token_type == TokenType.R_PAREN or token.text.upper() == "TO"):
            return at + (token.token_type == TokenType.R_PAREN)
    return len(tokens)


def _format_funnel(scan: QueryScan) -> str:
    """Return the files that pruning leaves of a scan, by the conditions that DuckDB passed to it."""
    if not isinstance(scan.table, Table):
        return f"{scan.name}: made of what a table holds"
    condition = scan.conditions[-1] if scan.conditions else None
    return str(scan.table.explain(condition, at=scan.at))
