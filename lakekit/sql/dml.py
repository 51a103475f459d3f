"""Changes of rows by statement: CREATE TABLE … AS, DELETE, UPDATE and MERGE INTO over the tables of a catalog.

    CREATE    with AS: a table of the query's columns, and its rows
    others    conditions and values as Polars expressions (`expressions`), for the backend's `delete`, `update`, `merge`

The backend computes the rows of a query.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakekit.dml import merge_clauses
from lakekit.errors import CommitStateUnknown, InvalidOption, LakekitError, Unsupported
from lakekit.format.polars_types import polars_schema
from lakekit.read.user_expressions import SOURCE
from lakekit.sql import ddl, expressions, view_ddl
from lakekit.sql.assigned import build_assigned_value, field_type, new_value, resolve_column_path
from lakekit.sql.backend import ResultRows
from lakekit.sql.ddl import names
from lakekit.sql.expressions import Scope, Side, exp
from lakekit.sql.tokenizer import quote_identifier
from lakekit.table.creating import create as create_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import polars as pl

    from lakekit.commit.result import Commit
    from lakekit.dml.merge_clauses import Clause
    from lakekit.sql.backend import Rows, Statement
    from lakekit.sql.tokenizer import TokenStream
    from lakekit.table.table import Table

    Node = Any
    """A node of sqlglot's tree."""

_COMMIT_COLUMNS = "snapshot_id long, row_count long"
_MOST_VALUES = 100_000
"""As many values of a subquery are held beside a condition."""
_NOT_ALIASES = ("SET", "USING", "WHERE", "ON")


def commit_result(commit: Commit) -> ResultRows:
    """Return the result of a commit, as one row."""
    return ResultRows(_COMMIT_COLUMNS, [(commit.snapshot_id, commit.row_count)])


def analyze(statement: Statement) -> ResultRows:
    """Execute ANALYZE TABLE … COMPUTE STATISTICS by the backend's `analyze`.

    Of the rows alone, or FOR ALL COLUMNS, or FOR COLUMNS a, b.
    """
    tokens = statement.tokens
    tokens.expect("TABLE")
    table = statement.table(statement.name())
    tokens.expect("COMPUTE", "STATISTICS")
    columns: list[str] | None = []
    if tokens.accept("FOR", "ALL", "COLUMNS"):
        columns = None
    elif tokens.accept("FOR", "COLUMNS"):
        columns = [tokens.name("a column")]
        while tokens.accept(","):
            columns.append(tokens.name("a column"))
    tokens.end()
    return commit_result(statement.backend.analyze(table, columns=columns))


# ---- CREATE TABLE … AS ---------------------------------------------------------------------------


def create(statement: Statement) -> ResultRows:
    """Execute CREATE.

    TABLE … AS a query makes a table of the query's columns, which is dropped again where its rows cannot be written.
    """
    tokens = statement.tokens
    view = view_ddl.create_view(statement)
    if view is not None:
        return view
    if tokens.accept("MATERIALIZED", "TABLE"):
        return view_ddl.create_materialized(statement)
    if tokens.accept("DATABASE") or tokens.accept("SCHEMA") or tokens.accept("NAMESPACE"):
        return ddl.create_database(statement)
    ddl.refuse_others(tokens, "CREATE")
    tokens.expect("TABLE")
    is_lenient, name = tokens.accept("IF", "NOT", "EXISTS"), statement.name()
    if tokens.is_next("("):
        return _create_table(statement, name, ddl.parse_table_definition(statement), is_lenient=is_lenient)
    partitions, comment, properties = ddl.table_words(statement)
    if tokens.next is None and "type" in properties:
        clause = ddl.CreateTableClause(
            fields=[], keys=[], partition_keys=partitions, comment=comment, options=properties
        )
        return _create_table(statement, name, clause, is_lenient=is_lenient)
    if not tokens.accept("AS"):
        raise tokens.wrong("the columns of the table in parentheses, or AS and a query")
    if is_lenient and statement.catalog.exists(name):
        return ResultRows(_COMMIT_COLUMNS, [(None, 0)])
    rows = statement.backend.query(statement, tokens.rest)
    fields = [replace(field, type=field.type.as_nullable()) for field in statement.backend.fields(rows)]
    table = statement.catalog.create_table(name, fields, partition_keys=partitions, options=properties, comment=comment)
    return commit_result(_append_or_drop(statement, name, table, rows))


def _create_table(statement: Statement, name: str, clause: ddl.CreateTableClause, *, is_lenient: bool) -> ResultRows:
    """Create a table of the columns of a statement.

    One with a `path` of its own is created there, and known by its name as long as the backend lives.
    """
    how: dict[str, Any] = {"partition_keys": clause.partition_keys, "comment": clause.comment}
    is_elsewhere = "connector" in clause.options and "path" in clause.options
    if view_ddl.create_format_or_object_table(
        statement, name, clause.fields, clause.options, is_lenient=is_lenient, **how
    ):
        return ResultRows()
    if is_elsewhere:
        path = clause.options.pop("path")
        statement.backend.tables[name] = create_table(
            path, clause.fields, primary_keys=clause.keys, options=clause.options, if_not_exists=True, **how
        )
        return ResultRows()
    statement.catalog.create_table(
        name, clause.fields, primary_keys=clause.keys, options=clause.options, if_not_exists=is_lenient, **how
    )
    return ResultRows()


def _append_or_drop(statement: Statement, name: str, table: Table, rows: Rows) -> Commit:
    try:
        return statement.backend.write(rows, table, mode="append", partition=None)
    except CommitStateUnknown:
        raise
    except BaseException:
        with suppress(LakekitError):
            statement.catalog.drop_table(name)
        raise


# ---- DELETE, UPDATE, MERGE -----------------------------------------------------------------------


def delete(statement: Statement) -> ResultRows:
    """Execute DELETE FROM by the backend's `delete`."""
    statement.tokens.expect("FROM")
    name = statement.name()
    table, side = statement.table(name), _side(statement, name)
    if not statement.tokens.accept("WHERE"):
        statement.tokens.end()
        return commit_result(statement.backend.delete(table, "true"))
    node = expressions.parse_tree(statement.tokens.rest, "condition")
    return commit_result(statement.backend.delete(table, expressions.expression(node, _scope(statement, side))))


def update(statement: Statement) -> ResultRows:
    """Execute UPDATE by the backend's `update`."""
    name = statement.name()
    table, side = statement.table(name), _side(statement, name)
    statement.tokens.expect("SET")
    tree = expressions.parse_tree(f"UPDATE t SET {statement.tokens.rest}", "UPDATE")
    _refuse_other_clauses(tree, "this", "expressions", "where")
    scope, where = _scope(statement, side), tree.args.get("where")
    values = _parse_assignments(tree.expressions, scope, side)
    condition = "true" if where is None else expressions.expression(where.this, scope)
    return commit_result(statement.backend.update(table, values, where=condition))


def merge(statement: Statement) -> ResultRows:
    """Execute MERGE INTO by the backend's `merge`."""
    tokens = statement.tokens
    tokens.expect("INTO")
    name = statement.name()
    table, target = statement.table(name), _side(statement, name)
    tokens.expect("USING")
    if tokens.is_next("("):
        source, parts = statement.backend.query(statement, tokens.inside()), ["s"]
    else:
        parts = tokens.names("the source of the merge")
        source = statement.backend.query(statement, f"SELECT * FROM {'.'.join(map(quote_identifier, parts))}")
    alias = _alias(tokens)
    if alias is not None and tokens.is_next("("):
        source = statement.backend.renamed(source, names(tokens))
    called = (parts[-1].lower(), ".".join(parts).lower())
    columns = dict(polars_schema(statement.backend.fields(source), timestamp_unit="us"))
    theirs = Side(called=called if alias is None else (alias.lower(),), columns=columns, prefix=SOURCE)
    tokens.expect("ON")
    tree = expressions.parse_tree(f"MERGE INTO t USING s ON {tokens.rest}", "MERGE")
    _refuse_other_clauses(tree, "this", "using", "on", "whens")
    scope = _scope(statement, target, theirs)
    clauses = [_clause(node, scope) for node in tree.args["whens"].expressions]
    return commit_result(
        statement.backend.merge(table, source, *clauses, on=expressions.expression(tree.args["on"], scope))
    )


def _scope(statement: Statement, *sides: Side) -> Scope:
    """Return what names mean; the backend computes what names no column, each query once."""
    answers: dict[str, pl.Series] = {}

    def ask(text: str) -> pl.Series:
        if text not in answers:
            answers[text] = statement.backend.values(statement, text, _MOST_VALUES)
        return answers[text]

    return Scope(sides=sides, zone=statement.zone, ask=ask)


def _clause(node: Node, both: Scope) -> Clause:
    """Return the clause of one WHEN of a MERGE."""
    _refuse_other_clauses(node, "matched", "source", "condition", "then")
    target, theirs = both.sides
    is_matched, by_source = bool(node.args.get("matched")), bool(node.args.get("source"))
    sides = both.sides if is_matched else (target,) if by_source else (theirs,)
    scope = replace(both, sides=sides)
    condition = node.args.get("condition")
    where = None if condition is None else expressions.expression(condition, scope)
    then = node.args["then"]
    if not is_matched and not by_source:
        _refuse_other_clauses(then, "this", "expression")
        return merge_clauses.when_not_matched(insert=_parse_insert_action(then, scope, target), where=where)
    make: Callable[..., Clause] = merge_clauses.when_matched if is_matched else merge_clauses.when_not_matched_by_source
    if isinstance(then, exp.Var) and then.name.upper() == "DELETE":
        return make(delete=True, where=where)
    if isinstance(then, exp.Update):
        _refuse_other_clauses(then, "expressions")
        is_all = len(then.expressions) == 1 and isinstance(then.expressions[0], exp.Star)
        return make(update="all" if is_all else _parse_assignments(then.expressions, scope, target), where=where)
    raise expressions.unsupported_node(then)


def _parse_insert_action(then: Node, scope: Scope, target: Side) -> Any:
    if isinstance(then.this, exp.Star):
        return "all"
    if (
        not isinstance(then.this, exp.Tuple)
        or not isinstance(then.expression, exp.Tuple)
        or len(then.this.expressions) != len(then.expression.expressions)
    ):
        raise InvalidOption(
            f"{then.sql('spark')}: write INSERT *, or INSERT (columns) VALUES (as many values)", key="sql"
        )
    pairs = zip(then.this.expressions, then.expression.expressions, strict=True)
    named = [(_target(name, target), value) for name, value in pairs]
    return {name: build_assigned_value(value, scope, target.columns[name]) for name, value in named}


def _parse_assignments(pairs: Sequence[Node], scope: Scope, target: Side) -> Mapping[str, pl.Expr]:
    """Return the new value of each column, with new fields where fields of it are named."""
    by_column: dict[str, dict[tuple[str, ...], pl.Expr]] = {}
    for pair in pairs:
        if not isinstance(pair, exp.EQ) or not isinstance(pair.this, exp.Column):
            raise InvalidOption(f"{pair.sql('spark')} is no new value of a column, such as v = v + 1", key="sql")
        name, path = resolve_column_path(pair.this, target)
        values = by_column.setdefault(name, {})
        if any(path[: len(other)] == other or other[: len(path)] == path for other in values):
            raise InvalidOption(f"{'.'.join((name, *path))} gets two new values", key="sql", value=name)
        values[path] = build_assigned_value(pair.expression, scope, field_type(target.columns[name], path))
    return {name: new_value(name, target.columns[name], values) for name, values in by_column.items()}


def _target(node: Node, target: Side) -> str:
    return Scope(sides=(target,)).column(node)


def _side(statement: Statement, name: str) -> Side:
    """Return the target of a statement, under its alias if it has one."""
    alias = _alias(statement.tokens)
    own = statement.table(name).handle().schema
    called = (name.lower().partition(".")[2], name.lower()) if alias is None else (alias.lower(),)
    return Side(called=called, columns=dict(polars_schema(own.fields)))


def _alias(tokens: TokenStream) -> str | None:
    if tokens.accept("AS"):
        return tokens.name("an alias")
    return None if tokens.next is None or tokens.next.said.upper() in _NOT_ALIASES else tokens.name("an alias")


def _refuse_other_clauses(node: Node, *names: str) -> None:
    """Raise `Unsupported` where a statement has clauses that are not supported."""
    more = [name for name, value in node.args.items() if value and name not in names]
    if more:
        raise Unsupported(
            f"{more[0].strip('_').upper()} of {node.sql('spark')} is not done; say it without", feature="catalog.sql"
        )
