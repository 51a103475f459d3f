"""Rows that a query gives: INSERT, and the CREATE of tables, CREATE TABLE … AS among them.

    CREATE    with AS: a table of the query's columns, and its rows
    INSERT    INTO shop.orders (id, day) VALUES (1, DEFAULT)                                    by order, or by name
              OVERWRITE shop.orders PARTITION (day = '2024-03-31') SELECT id, total FROM other

The backend computes the rows of a query.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

from lakekit.errors import CommitStateUnknown, LakekitError, SchemaMismatch, Unsupported
from lakekit.sql import ddl, view_ddl
from lakekit.sql.backend import StatementResult
from lakekit.sql.ddl import names
from lakekit.sql.dml import COMMIT_COLUMNS, commit_result, schema_of
from lakekit.sql.tokenizer import TokenStream
from lakekit.table.open_create import create as create_table
from lakekit.types import INTEGERS, STRINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.commit.changes import Commit
    from lakekit.sql.backend import Rows, Statement
    from lakekit.table.table import Table
    from lakekit.types import Field

# ---- CREATE TABLE … AS ---------------------------------------------------------------------------


def create(statement: Statement) -> StatementResult:
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
        return StatementResult(COMMIT_COLUMNS, [(None, 0)])
    rows = statement.backend.query(statement, tokens.remaining_text)
    fields = [replace(field, type=field.type.as_nullable()) for field in statement.backend.fields(rows)]
    table = statement.catalog.create_table(name, fields, partition_keys=partitions, options=properties, comment=comment)
    return commit_result(_append_or_drop(statement, name, table, rows))


def _create_table(
    statement: Statement, name: str, clause: ddl.CreateTableClause, *, is_lenient: bool
) -> StatementResult:
    """Create a table of the columns of a statement.

    One with a `path` of its own is created there, and known by its name as long as the backend lives.
    """
    how: dict[str, Any] = {"partition_keys": clause.partition_keys, "comment": clause.comment}
    is_elsewhere = "connector" in clause.options and "path" in clause.options
    if view_ddl.create_format_or_object_table(
        statement, name, clause.fields, clause.options, is_lenient=is_lenient, **how
    ):
        return StatementResult()
    if is_elsewhere:
        path = clause.options.pop("path")
        statement.backend.tables[name] = create_table(
            path, clause.fields, primary_keys=clause.keys, options=clause.options, if_not_exists=True, **how
        )
        return StatementResult()
    statement.catalog.create_table(
        name, clause.fields, primary_keys=clause.keys, options=clause.options, if_not_exists=is_lenient, **how
    )
    return StatementResult()


def _append_or_drop(statement: Statement, name: str, table: Table, rows: Rows) -> Commit:
    try:
        return statement.backend.write(rows, table, mode="append", partition=None)
    except CommitStateUnknown:
        raise
    except BaseException:
        with suppress(LakekitError):
            statement.catalog.drop_table(name)
        raise


# ---- inserts ------------------------------------------------------------


def insert(statement: Statement) -> StatementResult:
    """Execute INSERT INTO and INSERT OVERWRITE."""
    tokens = statement.tokens
    mode = "overwrite" if tokens.accept("OVERWRITE") else "append"
    if mode == "append":
        tokens.expect("INTO")
    tokens.accept("TABLE")
    name = statement.name()
    table = statement.table(name)
    partition = _partition(tokens, table) if tokens.accept("PARTITION") else {}
    by_name = tokens.accept("BY", "NAME")
    columns = None
    if (
        not by_name
        and tokens.is_next("(")
        and not any(tokens.is_next("(", word) for word in ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "("))
    ):
        columns = names(tokens)
    schema = schema_of(table)
    wanted = [
        _find_field(schema.fields, column) for column in columns or [n for n in schema.names if n not in partition]
    ]
    if columns is not None and None in wanted:
        raise SchemaMismatch(
            f"INSERT INTO {name} names {columns[wanted.index(None)]!r}; its columns are {', '.join(schema.names)}"
        )
    rows = statement.backend.query(
        statement,
        _replace_default_with_null(tokens.remaining_text, tokens.dialect)
        if tokens.is_next("VALUES")
        else tokens.remaining_text,
    )
    query_names = statement.backend.names(rows)
    if by_name:
        wanted = [_find_field(schema.fields, column) for column in query_names]
    elif len(query_names) != len(wanted):
        into = ", ".join(column.name for column in wanted if column is not None)
        raise SchemaMismatch(
            f"INSERT INTO {name} takes {len(wanted)} columns ({into}), and the query gives {len(query_names)} "
            f"({', '.join(query_names)})"
        )
    constants = {schema.field(key): value for key, value in partition.items()}
    stored = statement.backend.stored(rows, wanted, constants)
    return commit_result(
        statement.backend.write(stored, table, mode=mode, partition=partition or None if mode == "overwrite" else None)
    )


def _find_field(fields: Sequence[Field], name: str) -> Field | None:
    """Return the column of a name, in whatever case it is written; None where there is none, or several."""
    matches = [field for field in fields if field.name == name] or [
        field for field in fields if field.name.lower() == name.lower()
    ]
    return matches[0] if len(matches) == 1 else None


def _replace_default_with_null(text: str, dialect: str) -> str:
    """Return VALUES with NULL for DEFAULT: a row without a value gets the default when written."""
    tokens, pieces, at = TokenStream.of(text, dialect), [], 0
    before = ""
    while (word := tokens.next) is not None:
        tokens.position += 1
        if (
            word.kind == "word"
            and word.text.upper() == "DEFAULT"
            and before in ("(", ",")
            and (tokens.is_next(",") or tokens.is_next(")"))
        ):
            pieces += [text[at : word.start], "NULL"]
            at = word.end
        before = word.text
    return "".join([*pieces, text[at:]])


def _partition(tokens: TokenStream, table: Table) -> dict[str, Any]:
    """Parse PARTITION (dt = '2024-03-31', hour), and return the given values."""
    values: dict[str, Any] = {}
    tokens.expect("(")
    while True:
        column_name = tokens.name("a partition column")
        own = _find_field(schema_of(table).partition_fields, column_name)
        if own is None:
            raise SchemaMismatch(
                f"PARTITION ({column_name}): {table.name} is partitioned by "
                f"{', '.join(table.partition_keys) or 'nothing'}",
                column=column_name,
            )
        key = own.name
        values[key] = _literal(tokens, table, key) if tokens.accept("=") else None
        if not tokens.accept(","):
            break
    tokens.expect(")")
    for key in [
        key for key, value in values.items() if value is None
    ]:  # scalar: one a column; where no value is told the query has the column
        del values[key]
    return values


def _literal(tokens: TokenStream, table: Table, key: str) -> Any:
    """Return the value of a partition column. Raises `SchemaMismatch` for a text that is none of its type."""
    t = schema_of(table).field(key).type
    tokens.accept("DATE")
    text = tokens.take("a literal", "text", "number").value
    try:
        if t.root in INTEGERS:
            return int(text)
        if t.root == "DATE":
            return date.fromisoformat(text)
    except ValueError:
        raise SchemaMismatch(f"PARTITION ({key} = {text!r}): the column is {t}", column=key) from None
    if t.root not in STRINGS:
        raise Unsupported(
            f"PARTITION ({key} = …): values of {t} are given by the query; leave the column out of PARTITION",
            feature="catalog.sql",
        )
    return text
