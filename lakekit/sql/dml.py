"""Changes of rows by condition: DELETE, UPDATE, MERGE INTO; and ANALYZE.

    DELETE FROM shop.orders WHERE day < '2024-01-01'
    MERGE INTO shop.orders t USING lab.changes s ON t.id = s.id WHEN MATCHED THEN UPDATE SET total = s.total

Conditions and values become Polars expressions (`expressions.translation`), for the backend's `delete`, `update` and
`merge`; the parts of the text before them are blanked, so that errors have the lines and columns of the caller's text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl
from sqlglot import exp

from lakekit.columns import col, instance, struct_field
from lakekit.dml import merge_plan
from lakekit.errors import InvalidOption
from lakekit.expressions.nodes import column_not_found, start_of
from lakekit.expressions.parser import SqlText, parse_statement, parse_text
from lakekit.expressions.scope import Scope, TableScope
from lakekit.expressions.translation import condition_of, value_of
from lakekit.format.polars_types import polars_schema
from lakekit.read.table_scan import context_of
from lakekit.read.user_expressions import MERGE_SOURCE_PREFIX
from lakekit.sql.backend import StatementResult
from lakekit.sql.ddl import names
from lakekit.table.format_tables import context_of_any_kind
from lakekit.types import quote_identifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lakekit.commit.changes import Commit
    from lakekit.dml.merge_plan import Clause
    from lakekit.model.table_schema import TableSchema
    from lakekit.sql.backend import Statement
    from lakekit.sql.tokenizer import TokenStream
    from lakekit.table.table import Table

    Path = tuple[str, ...]
    """The names of a field from its column on."""
    Node = Any
    """A node of sqlglot's tree."""


def resolve_column_path(source: SqlText, node: Node, target: TableScope) -> tuple[str, Path]:
    """Return the column that is named, and the path of the field within it. Raises `ColumnNotFound`."""
    scope, parts = Scope(sides=(target,)), [part.name for part in node.parts]
    found = scope.find(parts)
    if found is not None:
        return found, ()
    own = next((count for count in (2, 1) if ".".join(parts[:count]).lower() in target.names and len(parts) > count), 0)
    path, dtype = _path(parts[own:], pl.Struct(target.columns))
    if dtype is None or len(path) < 2:
        raise column_not_found(source, node, scope, parts)
    return path[0], path[1:]


def _path(names: Iterable[str], dtype: pl.DataType | None) -> tuple[Path, pl.DataType | None]:
    """Return the names as the types spell them, and the type of the last one; None if there is none."""
    path: list[str] = []
    for name in names:
        fields = {field.name: field.dtype for field in dtype.fields} if isinstance(dtype, pl.Struct) else {}
        own = name if name in fields else next((field for field in fields if field.lower() == name.lower()), None)
        dtype = None if own is None else instance(fields[own])
        path.append(own or name)
    return tuple(path), dtype


def field_type(dtype: pl.DataType, path: Path) -> pl.DataType:
    """Return the type of a field within a column."""
    inner = _path(path, dtype)[1]
    assert inner is not None
    return inner


def new_value(name: str, dtype: pl.DataType, values: Mapping[Path, pl.Expr]) -> pl.Expr:
    """Return a column with new values of some fields, or of itself, whose path is empty."""
    return _with_fields(col(name), dtype, values)


def _with_fields(column: pl.Expr, dtype: pl.DataType, values: Mapping[Path, pl.Expr]) -> pl.Expr:
    """Return a column with new values of some fields.

    Where the column is null the other fields are null: Spark makes a row of it (`AssignmentUtils`).
    """
    if () in values:
        return values[()]
    assert isinstance(dtype, pl.Struct)
    fields = []
    for field in dtype.fields:
        own, inside = (
            struct_field(column, field.name),
            {path[1:]: value for path, value in values.items() if path[0] == field.name},
        )
        fields.append((_with_fields(own, instance(field.dtype), inside) if inside else own).alias(field.name))
    return pl.struct(fields)


# ---- dml ------------------------------------------------------------


COMMIT_COLUMNS = "snapshot_id long, row_count long"
_MOST_VALUES = 100_000
"""As many values of a subquery are held beside a condition."""
_NOT_ALIASES = ("SET", "USING", "WHERE", "ON")


def commit_result(commit: Commit) -> StatementResult:
    """Return the result of a commit, as one row."""
    return StatementResult(COMMIT_COLUMNS, [(commit.snapshot_id, commit.row_count)])


def change_result(commit: Commit, table: Table) -> StatementResult:
    """Return the result of a change of rows, with the rows that it affected; NULL where that is not known.

    Tasks of Spark do not count them, but a key table writes a row for each of them.
    """
    count = commit.affected_row_count
    if count is None and table.primary_keys and (commit.row_count or commit.snapshot_id is None):
        count = commit.row_count
    return StatementResult(COMMIT_COLUMNS, [(commit.snapshot_id, count)])


def analyze(statement: Statement) -> StatementResult:
    """Execute ANALYZE TABLE … COMPUTE STATISTICS by the backend's `analyze`.

    Of the rows alone, or FOR ALL COLUMNS, or FOR COLUMNS a, b.
    """
    tokens = statement.tokens
    tokens.expect("TABLE")
    own, name = statement.take_name()
    table = own.table(name)
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


# ---- DELETE, UPDATE, MERGE -----------------------------------------------------------------------


def delete(statement: Statement) -> StatementResult:
    """Execute DELETE FROM by the backend's own SQL, or by its `delete`."""
    done = statement.backend.change_rows(statement)
    if done is not None:
        return done
    statement.tokens.expect("FROM")
    name, table = statement.target()
    side = target_side(statement, name, table)
    if not statement.tokens.accept("WHERE"):
        statement.tokens.end()
        return change_result(statement.backend.delete(table, "true"), table)
    source = _masked(statement.tokens)
    where = condition_of(source, statement.bind(parse_text(source)), _scope(statement, side))
    return change_result(statement.backend.delete(table, where), table)


def update(statement: Statement) -> StatementResult:
    """Execute UPDATE by the backend's own SQL, or by its `update`."""
    done = statement.backend.change_rows(statement)
    if done is not None:
        return done
    tokens = statement.tokens
    start = _next_start(tokens)
    name, table = statement.target()
    side = target_side(statement, name, table)
    source = _masked(tokens, (tokens.first, "UPDATE"), (start, "t"))
    tokens.expect("SET")
    tree = statement.bind(_parse(source))
    _refuse_other_clauses(source, tree, "this", "expressions", "where")
    change = _Change(source, _scope(statement, side))
    where = tree.args.get("where")
    values = change.assignments(tree.expressions, side)
    condition = "true" if where is None else condition_of(source, where.this, change.scope)
    return change_result(statement.backend.update(table, values, where=condition), table)


def merge(statement: Statement) -> StatementResult:
    """Execute MERGE INTO by the backend's own SQL, or by its `merge`."""
    done = statement.backend.change_rows(statement)
    if done is not None:
        return done
    tokens = statement.tokens
    words = [(tokens.first, "MERGE"), (_next_start(tokens), "INTO")]
    tokens.expect("INTO")
    words.append((_next_start(tokens), "t"))
    name, table = statement.target()
    target = target_side(statement, name, table)
    words.append((_next_start(tokens), "USING"))
    tokens.expect("USING")
    words.append((_next_start(tokens), "s"))
    if tokens.is_next("("):
        rows, parts = statement.backend.query(statement, tokens.inside()), ["s"]
    else:
        parts = tokens.names("the source of the merge")
        rows = statement.backend.query(statement, f"SELECT * FROM {'.'.join(map(quote_identifier, parts))}")
    alias = take_alias(tokens)
    if alias is not None and tokens.is_next("("):
        rows = statement.backend.renamed(rows, names(tokens))
    called = (parts[-1].lower(), ".".join(parts).lower())
    columns = dict(polars_schema(statement.backend.fields(rows), timestamp_unit="us"))
    theirs = TableScope(
        names=called if alias is None else (alias.lower(),), columns=columns, prefix=MERGE_SOURCE_PREFIX
    )
    source = _masked(tokens, *words)
    tokens.expect("ON")
    tree = statement.bind(_parse(source))
    _refuse_other_clauses(source, tree, "this", "using", "on", "whens")
    change = _Change(source, _scope(statement, target, theirs))
    clauses = [change.clause(node) for node in tree.args["whens"].expressions]
    matches = condition_of(source, tree.args["on"], change.scope)
    return change_result(statement.backend.merge(table, rows, *clauses, on=matches), table)


def _next_start(tokens: TokenStream) -> int:
    """Return where the next token begins in the text."""
    return len(tokens.text) if tokens.next is None else tokens.next.start


def _masked(tokens: TokenStream, *words: tuple[int, str]) -> SqlText:
    """Return the remaining text at its offset: before it are blanks, and `words` at their offsets."""
    return tokens.masked(_next_start(tokens), tokens.remaining_text, tokens.source.name, *words)


def _parse(source: SqlText) -> Node:
    return parse_statement(source.text, source.name, dialect=source.dialect)


def _scope(statement: Statement, *sides: TableScope) -> Scope:
    """Return the scope of names; the backend computes subqueries, each query once."""
    answers: dict[str, pl.Series] = {}

    def compute_once(text: str) -> pl.Series:
        if text not in answers:
            answers[text] = statement.backend.values(statement, text, _MOST_VALUES)
        return answers[text]

    return Scope(sides=sides, zone=statement.zone, run_query=compute_once)


@dataclass(frozen=True, slots=True)
class _Change:
    """The text of an UPDATE or a MERGE, and the meaning of names in it."""

    source: SqlText
    scope: Scope

    def clause(self, node: Node) -> Clause:
        """Return the clause of one WHEN of a MERGE."""
        _refuse_other_clauses(self.source, node, "matched", "source", "condition", "then")
        target, theirs = self.scope.sides
        is_matched, by_source = bool(node.args.get("matched")), bool(node.args.get("source"))
        sides = self.scope.sides if is_matched else (target,) if by_source else (theirs,)
        own = _Change(self.source, replace(self.scope, sides=sides))
        condition = node.args.get("condition")
        where = None if condition is None else condition_of(self.source, condition, own.scope)
        then = node.args["then"]
        if not is_matched and not by_source:
            _refuse_other_clauses(self.source, then, "this", "expression")
            return merge_plan.when_not_matched(insert=own.insert_action(then, target), where=where)
        make: Callable[..., Clause] = merge_plan.when_matched if is_matched else merge_plan.when_not_matched_by_source
        if isinstance(then, exp.Var) and then.name.upper() == "DELETE":
            return make(delete=True, where=where)
        if isinstance(then, exp.Update):
            _refuse_other_clauses(self.source, then, "expressions")
            is_all = len(then.expressions) == 1 and isinstance(then.expressions[0], exp.Star)
            return make(update="all" if is_all else own.assignments(then.expressions, target), where=where)
        raise self.source.error(start_of(node), "WHEN … THEN takes UPDATE SET, DELETE or INSERT")

    def insert_action(self, then: Node, target: TableScope) -> Any:
        """Return the values of an INSERT by column; "all" for a star."""
        if isinstance(then.this, exp.Star):
            return "all"
        if (
            not isinstance(then.this, exp.Tuple)
            or not isinstance(then.expression, exp.Tuple)
            or len(then.this.expressions) != len(then.expression.expressions)
        ):
            raise self.source.error(start_of(then), "write INSERT *, or INSERT (columns) VALUES (as many values)")
        pairs = zip(then.this.expressions, then.expression.expressions, strict=True)
        own = Scope(sides=(target,))
        columns = [(self._insert_column(name, own), value) for name, value in pairs]
        return {name: value_of(self.source, value, self.scope, target.columns[name]) for name, value in columns}

    def _insert_column(self, node: Node, scope: Scope) -> str:
        """Return the column that INSERT names. Raises `ColumnNotFound`."""
        parts = [part.name for part in node.parts]
        found = scope.find(parts)
        if found is None:
            raise column_not_found(self.source, node, scope, parts)
        return found

    def assignments(self, pairs: Sequence[Node], target: TableScope) -> Mapping[str, pl.Expr]:
        """Return the new value of each column, with new fields where fields of it are named."""
        if not pairs:
            raise InvalidOption("SET gives a new value to no column; write SET v = v + 1", key="sql", value="SET")
        by_column: dict[str, dict[tuple[str, ...], pl.Expr]] = {}
        for pair in pairs:
            if not isinstance(pair, exp.EQ) or not isinstance(pair.this, exp.Column):
                raise self.source.error(start_of(pair), "SET takes new values of columns, such as v = v + 1")
            end = pair.this.parts[-1].meta.get("end")
            if end is not None and self.source.text[end + 1 :].lstrip().startswith("=="):
                raise self.source.error(end + 1, "SET takes one equals sign, such as v = v + 1; == compares")
            name, path = resolve_column_path(self.source, pair.this, target)
            values = by_column.setdefault(name, {})
            if any(path[: len(other)] == other or other[: len(path)] == path for other in values):
                raise self.source.error(start_of(pair), f"{'.'.join((name, *path))} gets two new values")
            dtype = field_type(target.columns[name], path)
            values[path] = value_of(self.source, pair.expression, self.scope, dtype)
        return {name: new_value(name, target.columns[name], values) for name, values in by_column.items()}


def target_side(statement: Statement, name: str, table: Table) -> TableScope:
    """Return the target of a statement, under its alias if it has one."""
    alias = take_alias(statement.tokens)
    own = context_of(table).schema
    called = (name.lower().partition(".")[2], name.lower()) if alias is None else (alias.lower(),)
    return TableScope(names=called, columns=dict(polars_schema(own.fields)))


def take_alias(tokens: TokenStream) -> str | None:
    """Take the alias behind the name of a table, and return it; None: there is none."""
    if tokens.accept("AS"):
        return tokens.name("an alias")
    return None if tokens.next is None or tokens.next.text.upper() in _NOT_ALIASES else tokens.name("an alias")


def _refuse_other_clauses(source: SqlText, node: Node, *names: str) -> None:
    """Raise `SqlError` where a statement has clauses that are not supported."""
    more = [name for name, value in node.args.items() if value and name not in names]
    if more:
        raise source.error(start_of(node), f"{more[0].strip('_').upper()} is not supported here; leave it out")


def schema_of(table: Table) -> TableSchema:
    """Return the schema of a table, also of a format table."""
    return context_of_any_kind(table).schema
