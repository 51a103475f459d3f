"""Rows by statement: CREATE TABLE … AS, DELETE, UPDATE and MERGE INTO over the tables of a catalog.

    CREATE    with AS: a table of the query's columns, and its rows
    others    conditions and values as Polars expressions (`expressions`), through the door's `delete`, `update`, `merge`

The rows of a query are the door's.
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
    """What a commit did, as one row."""
    return ResultRows(_COMMIT_COLUMNS, [(commit.snapshot_id, commit.row_count)])


def analyze(asked: Statement) -> ResultRows:
    """ANALYZE TABLE … COMPUTE STATISTICS, of the rows alone, or FOR ALL COLUMNS, or FOR COLUMNS a, b; by the door's `analyze`."""
    words = asked.words
    words.expect("TABLE")
    table = asked.table(asked.name())
    words.expect("COMPUTE", "STATISTICS")
    columns: list[str] | None = []
    if words.accept("FOR", "ALL", "COLUMNS"):
        columns = None
    elif words.accept("FOR", "COLUMNS"):
        columns = [words.name("a column")]
        while words.accept(","):
            columns.append(words.name("a column"))
    words.end()
    return commit_result(asked.door.analyze(table, columns=columns))


# ---- CREATE TABLE … AS ---------------------------------------------------------------------------


def create(asked: Statement) -> ResultRows:
    """CREATE; TABLE … AS a query makes a table of the query's columns, which is gone again where its rows cannot be written."""
    words = asked.words
    view = view_ddl.create_view(asked)
    if view is not None:
        return view
    if words.accept("MATERIALIZED", "TABLE"):
        return view_ddl.create_materialized(asked)
    if words.accept("DATABASE") or words.accept("SCHEMA") or words.accept("NAMESPACE"):
        return ddl.create_database(asked)
    ddl.refuse_others(words, "CREATE")
    words.expect("TABLE")
    is_lenient, name = words.accept("IF", "NOT", "EXISTS"), asked.name()
    if words.is_next("("):
        return _create_table(asked, name, ddl.parse_table_definition(asked), is_lenient=is_lenient)
    partitions, comment, properties = ddl.table_words(asked)
    if words.next is None and "type" in properties:
        said = ddl.CreateTableClause(fields=[], keys=[], partition_keys=partitions, comment=comment, options=properties)
        return _create_table(asked, name, said, is_lenient=is_lenient)
    if not words.accept("AS"):
        raise words.wrong("the columns of the table in parentheses, or AS and a query")
    if is_lenient and asked.catalog.exists(name):
        return ResultRows(_COMMIT_COLUMNS, [(None, 0)])
    rows = asked.door.query(asked, words.rest)
    fields = [replace(field, type=field.type.as_nullable()) for field in asked.door.fields(rows)]
    table = asked.catalog.create_table(name, fields, partition_keys=partitions, options=properties, comment=comment)
    return commit_result(_append_or_drop(asked, name, table, rows))


def _create_table(asked: Statement, name: str, said: ddl.CreateTableClause, *, is_lenient: bool) -> ResultRows:
    """A table of the columns that a statement says; one with a `path` of its own lies there, and is known by its name as long as the door is open."""
    how: dict[str, Any] = {"partition_keys": said.partition_keys, "comment": said.comment}
    is_elsewhere = "connector" in said.options and "path" in said.options
    if view_ddl.create_format_or_object_table(asked, name, said.fields, said.options, is_lenient=is_lenient, **how):
        return ResultRows()
    if is_elsewhere:
        path = said.options.pop("path")
        asked.door.tables[name] = create_table(path, said.fields, primary_keys=said.keys, options=said.options, if_not_exists=True, **how)
        return ResultRows()
    asked.catalog.create_table(name, said.fields, primary_keys=said.keys, options=said.options, if_not_exists=is_lenient, **how)
    return ResultRows()


def _append_or_drop(asked: Statement, name: str, table: Table, rows: Rows) -> Commit:
    try:
        return asked.door.write(rows, table, mode="append", partition=None)
    except CommitStateUnknown:
        raise
    except BaseException:
        with suppress(LakekitError):
            asked.catalog.drop_table(name)
        raise


# ---- DELETE, UPDATE, MERGE -----------------------------------------------------------------------


def delete(asked: Statement) -> ResultRows:
    """DELETE FROM, by the door's `delete`."""
    asked.words.expect("FROM")
    name = asked.name()
    table, side = asked.table(name), _side(asked, name)
    if not asked.words.accept("WHERE"):
        asked.words.end()
        return commit_result(asked.door.delete(table, "true"))
    node = expressions.parse_tree(asked.words.rest, "condition")
    return commit_result(asked.door.delete(table, expressions.expression(node, _scope(asked, side))))


def update(asked: Statement) -> ResultRows:
    """UPDATE, by its `update`."""
    name = asked.name()
    table, side = asked.table(name), _side(asked, name)
    asked.words.expect("SET")
    tree = expressions.parse_tree(f"UPDATE t SET {asked.words.rest}", "UPDATE")
    _refuse_other_clauses(tree, "this", "expressions", "where")
    scope, where = _scope(asked, side), tree.args.get("where")
    values = _parse_assignments(tree.expressions, scope, side)
    condition = "true" if where is None else expressions.expression(where.this, scope)
    return commit_result(asked.door.update(table, values, where=condition))


def merge(asked: Statement) -> ResultRows:
    """MERGE INTO, by its `merge`."""
    words = asked.words
    words.expect("INTO")
    name = asked.name()
    table, target = asked.table(name), _side(asked, name)
    words.expect("USING")
    if words.is_next("("):
        source, parts = asked.door.query(asked, words.inside()), ["s"]
    else:
        parts = words.names("the source of the merge")
        source = asked.door.query(asked, f"SELECT * FROM {'.'.join(map(quote_identifier, parts))}")
    alias = _alias(words)
    if alias is not None and words.is_next("("):
        source = asked.door.renamed(source, names(words))
    called = (parts[-1].lower(), ".".join(parts).lower())
    columns = dict(polars_schema(asked.door.fields(source), timestamp_unit="us"))
    theirs = Side(called=called if alias is None else (alias.lower(),), columns=columns, prefix=SOURCE)
    words.expect("ON")
    tree = expressions.parse_tree(f"MERGE INTO t USING s ON {words.rest}", "MERGE")
    _refuse_other_clauses(tree, "this", "using", "on", "whens")
    scope = _scope(asked, target, theirs)
    found = [_clause(one, scope) for one in tree.args["whens"].expressions]
    return commit_result(asked.door.merge(table, source, *found, on=expressions.expression(tree.args["on"], scope)))


def _scope(asked: Statement, *sides: Side) -> Scope:
    """What names mean; what names no column the door is asked, each question once."""
    known: dict[str, pl.Series] = {}

    def ask(text: str) -> pl.Series:
        if text not in known:
            known[text] = asked.door.values(asked, text, _MOST_VALUES)
        return known[text]

    return Scope(sides=sides, zone=asked.zone, ask=ask)


def _clause(node: Node, both: Scope) -> Clause:
    """One WHEN of a MERGE."""
    _refuse_other_clauses(node, "matched", "source", "condition", "then")
    target, theirs = both.sides
    is_matched, by_source = bool(node.args.get("matched")), bool(node.args.get("source"))
    sides = both.sides if is_matched else (target,) if by_source else (theirs,)
    scope = replace(both, sides=sides)
    said = node.args.get("condition")
    where = None if said is None else expressions.expression(said, scope)
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
    if not isinstance(then.this, exp.Tuple) or not isinstance(then.expression, exp.Tuple) or len(then.this.expressions) != len(then.expression.expressions):
        raise InvalidOption(f"{then.sql('spark')}: write INSERT *, or INSERT (columns) VALUES (as many values)", key="sql")
    pairs = zip(then.this.expressions, then.expression.expressions, strict=True)
    named = [(_target(name, target), value) for name, value in pairs]
    return {name: build_assigned_value(value, scope, target.columns[name]) for name, value in named}


def _parse_assignments(pairs: Sequence[Node], scope: Scope, target: Side) -> Mapping[str, pl.Expr]:
    """The new value of each column; of a column of which fields are named, with those."""
    found: dict[str, dict[tuple[str, ...], pl.Expr]] = {}
    for pair in pairs:
        if not isinstance(pair, exp.EQ) or not isinstance(pair.this, exp.Column):
            raise InvalidOption(f"{pair.sql('spark')} is no new value of a column, such as v = v + 1", key="sql")
        name, path = resolve_column_path(pair.this, target)
        values = found.setdefault(name, {})
        if any(path[: len(one)] == one or one[: len(path)] == path for one in values):
            raise InvalidOption(f"{'.'.join((name, *path))} gets two new values", key="sql", value=name)
        values[path] = build_assigned_value(pair.expression, scope, field_type(target.columns[name], path))
    return {name: new_value(name, target.columns[name], values) for name, values in found.items()}


def _target(node: Node, target: Side) -> str:
    return Scope(sides=(target,)).column(node)


def _side(asked: Statement, name: str) -> Side:
    """The target of a statement, under its alias if it has one."""
    alias = _alias(asked.words)
    own = asked.table(name).handle().schema
    called = (name.lower().partition(".")[2], name.lower()) if alias is None else (alias.lower(),)
    return Side(called=called, columns=dict(polars_schema(own.fields)))


def _alias(words: TokenStream) -> str | None:
    if words.accept("AS"):
        return words.name("an alias")
    return None if words.next is None or words.next.said.upper() in _NOT_ALIASES else words.name("an alias")


def _refuse_other_clauses(node: Node, *names: str) -> None:
    """Raises `Unsupported` where a statement says more than is done."""
    more = [name for name, value in node.args.items() if value and name not in names]
    if more:
        raise Unsupported(f"{more[0].strip('_').upper()} of {node.sql('spark')} is not done; say it without", feature="catalog.sql")
