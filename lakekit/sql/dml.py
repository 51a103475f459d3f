"""Changes of rows by condition: DELETE, UPDATE, MERGE INTO; and ANALYZE.

    DELETE FROM shop.orders WHERE day < '2024-01-01'
    MERGE INTO shop.orders t USING lab.changes s ON t.id = s.id WHEN MATCHED THEN UPDATE SET total = s.total

Conditions and values become Polars expressions (`expressions`), for the backend's `delete`, `update`, `merge`. New
values are converted as Spark stores an expression in a column of another type.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit.columns import col, struct_field
from lakekit.dml import merge_plan
from lakekit.errors import ColumnNotFound, InvalidOption, Unsupported
from lakekit.format.polars_types import polars_schema
from lakekit.read.table_scan import context_of
from lakekit.read.user_expressions import MERGE_SOURCE_PREFIX
from lakekit.sql import expressions, numeric_promotion
from lakekit.sql.backend import StatementResult
from lakekit.sql.ddl import names
from lakekit.sql.expressions import StatementScope, StatementTableScope, exp
from lakekit.table.format_tables import context_of_any_kind
from lakekit.types import quote_identifier
from lakekit.write.value_casting import instance

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


def build_assigned_value(node: Node, scope: StatementScope, dtype: pl.DataType) -> pl.Expr:
    """Return the value of a tree for a column of a type, as Spark stores it.

    A moment becomes of the column's kind, a DECIMAL is rounded half up, a number becomes text.
    """
    plain = (
        node.this
        if isinstance(node, exp.Cast)
        and isinstance(node.this, exp.Literal)
        and expressions.type_of(node) in ("DATE", "TIMESTAMP")
        else None
    )
    if plain is not None and plain.is_string and isinstance(dtype, pl.Datetime):
        return pl.lit(expressions.moment(str(plain.this), dtype, scope), dtype)
    expr, have = expressions.expression(node, scope), expressions.dtype_of(node, scope)
    if isinstance(dtype, pl.Decimal) and (isinstance(have, pl.Decimal) or have.is_integer()):
        return expr.cast(
            pl.Decimal(numeric_promotion.MAX_PRECISION, dtype.scale)
        )  # digits before the point are looked at when it is written
    if dtype.is_float() and isinstance(have, pl.Decimal):
        return expr.cast(pl.Float64).cast(dtype)
    return expr.cast(pl.String) if isinstance(dtype, pl.String) and have.is_integer() else expr


def resolve_column_path(node: Node, target: StatementTableScope) -> tuple[str, Path]:
    """Return the column that is named, and the path of the field within it. Raises `ColumnNotFound`."""
    try:
        return StatementScope(sides=(target,)).column(node), ()
    except ColumnNotFound:
        names = [part.name for part in node.parts]
        own = next(
            (count for count in (2, 1) if ".".join(names[:count]).lower() in target.names and len(names) > count), 0
        )
        path, dtype = _path(names[own:], pl.Struct(target.columns))
        if dtype is None or len(path) < 2:
            raise
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
    """Execute DELETE FROM by the backend's `delete`."""
    statement.tokens.expect("FROM")
    name, table = statement.target()
    side = _side(statement, name, table)
    if not statement.tokens.accept("WHERE"):
        statement.tokens.end()
        return commit_result(statement.backend.delete(table, "true"))
    node = statement.bind(expressions.parse_tree(statement.tokens.remaining_text, "condition"))
    return commit_result(statement.backend.delete(table, expressions.expression(node, _scope(statement, side))))


def update(statement: Statement) -> StatementResult:
    """Execute UPDATE by the backend's `update`."""
    name, table = statement.target()
    side = _side(statement, name, table)
    statement.tokens.expect("SET")
    tree = statement.bind(expressions.parse_tree(f"UPDATE t SET {statement.tokens.remaining_text}", "UPDATE"))
    _refuse_other_clauses(tree, "this", "expressions", "where")
    scope, where = _scope(statement, side), tree.args.get("where")
    values = _parse_assignments(tree.expressions, scope, side)
    condition = "true" if where is None else expressions.expression(where.this, scope)
    return commit_result(statement.backend.update(table, values, where=condition))


def merge(statement: Statement) -> StatementResult:
    """Execute MERGE INTO by the backend's `merge`."""
    tokens = statement.tokens
    tokens.expect("INTO")
    name, table = statement.target()
    target = _side(statement, name, table)
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
    theirs = StatementTableScope(
        names=called if alias is None else (alias.lower(),), columns=columns, prefix=MERGE_SOURCE_PREFIX
    )
    tokens.expect("ON")
    if tokens.next is None:
        raise tokens.wrong("a condition")
    tree = statement.bind(expressions.parse_tree(f"MERGE INTO t USING s ON {tokens.remaining_text}", "MERGE"))
    _refuse_other_clauses(tree, "this", "using", "on", "whens")
    scope = _scope(statement, target, theirs)
    clauses = [_clause(node, scope) for node in tree.args["whens"].expressions]
    return commit_result(
        statement.backend.merge(table, source, *clauses, on=expressions.expression(tree.args["on"], scope))
    )


def _scope(statement: Statement, *sides: StatementTableScope) -> StatementScope:
    """Return what names mean; the backend computes what names no column, each query once."""
    answers: dict[str, pl.Series] = {}

    def ask(text: str) -> pl.Series:
        if text not in answers:
            answers[text] = statement.backend.values(statement, text, _MOST_VALUES)
        return answers[text]

    return StatementScope(sides=sides, zone=statement.zone, run_query=ask)


def _clause(node: Node, both: StatementScope) -> Clause:
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
        return merge_plan.when_not_matched(insert=_parse_insert_action(then, scope, target), where=where)
    make: Callable[..., Clause] = merge_plan.when_matched if is_matched else merge_plan.when_not_matched_by_source
    if isinstance(then, exp.Var) and then.name.upper() == "DELETE":
        return make(delete=True, where=where)
    if isinstance(then, exp.Update):
        _refuse_other_clauses(then, "expressions")
        is_all = len(then.expressions) == 1 and isinstance(then.expressions[0], exp.Star)
        return make(update="all" if is_all else _parse_assignments(then.expressions, scope, target), where=where)
    raise expressions.unsupported_node(then)


def _parse_insert_action(then: Node, scope: StatementScope, target: StatementTableScope) -> Any:
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


def _parse_assignments(
    pairs: Sequence[Node], scope: StatementScope, target: StatementTableScope
) -> Mapping[str, pl.Expr]:
    """Return the new value of each column, with new fields where fields of it are named."""
    if not pairs:
        raise InvalidOption("SET gives a new value to no column; write SET v = v + 1", key="sql", value="SET")
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


def _target(node: Node, target: StatementTableScope) -> str:
    return StatementScope(sides=(target,)).column(node)


def _side(statement: Statement, name: str, table: Table) -> StatementTableScope:
    """Return the target of a statement, under its alias if it has one."""
    alias = _alias(statement.tokens)
    own = context_of(table).schema
    called = (name.lower().partition(".")[2], name.lower()) if alias is None else (alias.lower(),)
    return StatementTableScope(names=called, columns=dict(polars_schema(own.fields)))


def _alias(tokens: TokenStream) -> str | None:
    if tokens.accept("AS"):
        return tokens.name("an alias")
    return None if tokens.next is None or tokens.next.text.upper() in _NOT_ALIASES else tokens.name("an alias")


def _refuse_other_clauses(node: Node, *names: str) -> None:
    """Raise `Unsupported` where a statement has clauses that are not supported."""
    more = [name for name, value in node.args.items() if value and name not in names]
    if more:
        raise Unsupported(
            f"{more[0].strip('_').upper()} of {node.sql('spark')} is not done; say it without", feature="catalog.sql"
        )


def schema_of(table: Table) -> TableSchema:
    """Return the schema of a table, also of a format table."""
    return context_of_any_kind(table).schema
