"""Rows that a query gives: INSERT, and the CREATE of tables, CREATE TABLE … AS among them.

    CREATE    with AS: a table of the query's columns, and its rows
    INSERT    INTO shop.orders (id, day) VALUES (1, DEFAULT)                                    by order, or by name
              OVERWRITE shop.orders PARTITION (day = '2024-03-31') SELECT id, total FROM other

The backend computes the rows of a query.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakekit import runtime
from lakekit.errors import CommitStateUnknown, LakekitError, SchemaMismatch, TableAlreadyExists, Unsupported
from lakekit.sql import ddl, view_ddl
from lakekit.sql.backend import StatementResult
from lakekit.sql.ddl import names
from lakekit.sql.dml import COMMIT_COLUMNS, commit_result, schema_of
from lakekit.table.format_tables import FormatTable, ObjectTable
from lakekit.table.open_create import create as create_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.commit.changes import Commit
    from lakekit.sql.backend import Rows, Statement
    from lakekit.sql.tokenizer import TokenStream
    from lakekit.table.table import Table
    from lakekit.types import Field

# ---- CREATE TABLE … AS ---------------------------------------------------------------------------


def create(statement: Statement) -> StatementResult:
    """Execute CREATE.

    TABLE … AS a query makes a table of the query's columns, which is dropped again where its rows cannot be written.
    """
    tokens = statement.tokens
    is_replaced = tokens.accept("OR", "REPLACE")
    view = view_ddl.create_view(statement, or_replace=is_replaced)
    if view is not None:
        return view
    if not is_replaced and tokens.accept("MATERIALIZED", "TABLE"):
        return view_ddl.create_materialized_table(statement)
    if not is_replaced and tokens.accept_any("DATABASE", "SCHEMA", "NAMESPACE"):
        return ddl.create_database(statement)
    ddl.refuse_others(tokens, "CREATE")
    tokens.expect("TABLE")
    is_lenient = tokens.accept("IF", "NOT", "EXISTS")
    if is_replaced and is_lenient:
        raise tokens.wrong("a table: OR REPLACE and IF NOT EXISTS exclude each other, before it")
    own, name = statement.take_name()
    clause = ddl.parse_table_definition(statement)
    if tokens.next is None and not clause.fields and clause.options.get("type") not in view_ddl.TABLE_KINDS:
        raise tokens.wrong("the columns of the table in parentheses, or AS and a query")
    tokens.refuse_hints(range(tokens.position + 2, tokens.count + 1))
    if is_replaced and own.catalog.exists(name):
        return _replace_table(statement, own, name, clause)
    return _create_as_said(statement, own, name, clause, is_lenient=is_lenient)


def _create_as_said(
    statement: Statement, own: Statement, name: str, clause: ddl.CreateTableClause, *, is_lenient: bool
) -> StatementResult:
    """Create the table of a definition, with the rows of the query behind AS where there is one."""
    if not statement.tokens.accept("AS"):
        return _create_table(own, name, clause, is_lenient=is_lenient)
    if is_lenient and own.catalog.exists(name):
        return StatementResult(COMMIT_COLUMNS, [(None, 0)])
    if clause.options.get("type") in view_ddl.TABLE_KINDS or "path" in clause.options:
        raise Unsupported(
            f"CREATE TABLE {name} … AS is for tables in the catalog's own folder; create it first, and INSERT",
            feature="catalog.sql",
        )
    rows = statement.backend.query(statement, statement.tokens.remaining_text)
    fields = [replace(field, type=field.type.as_nullable()) for field in statement.backend.fields(rows)]
    own.create_default_database(name)
    table = own.catalog.create_table(
        name,
        fields,
        primary_keys=clause.keys,
        partition_keys=clause.partition_keys,
        options=clause.options,
        comment=clause.comment,
    )
    return commit_result(_append_or_drop(own, name, table, rows))


def _replace_table(statement: Statement, own: Statement, name: str, clause: ddl.CreateTableClause) -> StatementResult:
    """Create a table under another name, then drop the one that it replaces, and give it that name.

    The query may read the table that goes. Until the last step that table stays as it is.
    """
    if (
        isinstance(own.table(name), (FormatTable, ObjectTable))
        or clause.options.get("type") in view_ddl.TABLE_KINDS
        or "path" in clause.options
    ):
        raise Unsupported(
            f"CREATE OR REPLACE TABLE {name} is for tables in the catalog's own folder: DROP comes first",
            feature="catalog.sql",
        )
    made = f"{name}_{runtime.new_id()}"
    result = _create_as_said(statement, own, made, clause, is_lenient=False)
    try:
        own.catalog.drop_table(name)
    except BaseException:
        with suppress(LakekitError):
            own.catalog.drop_table(made)
        raise
    own.catalog.rename_table(made, name)
    return result


def _create_table(
    statement: Statement, name: str, clause: ddl.CreateTableClause, *, is_lenient: bool
) -> StatementResult:
    """Create a table of the columns of a statement.

    One with a `path` of its own is created there, and known by its name as long as the session lives.
    """
    how: dict[str, Any] = {"partition_keys": clause.partition_keys, "comment": clause.comment}
    is_elsewhere = "connector" in clause.options and "path" in clause.options
    if clause.options.get("type") in view_ddl.TABLE_KINDS:
        statement.create_default_database(name)
    if view_ddl.create_format_or_object_table(
        statement, name, clause.fields, clause.options, if_not_exists=is_lenient, **how
    ):
        return StatementResult()
    if is_elsewhere:
        _create_elsewhere(statement, name, clause, is_lenient=is_lenient)
        return StatementResult()
    statement.create_default_database(name)
    statement.catalog.create_table(
        name, clause.fields, primary_keys=clause.keys, options=clause.options, if_not_exists=is_lenient, **how
    )
    return StatementResult()


def _create_elsewhere(statement: Statement, name: str, clause: ddl.CreateTableClause, *, is_lenient: bool) -> None:
    """Create the table at a path, or find it there, and give it a name in the session.

    Raises: `TableAlreadyExists` for a name that is taken, `SchemaMismatch` where a table of other columns lies there.
    """
    tables, path = statement.backend.tables, clause.options.pop("path")
    if name in tables or statement.catalog.exists(name):
        if is_lenient:
            return
        raise TableAlreadyExists(
            f"{name} is a table already{f', at {tables[name].location}' if name in tables else ''}: DROP TABLE frees "
            "the name, IF NOT EXISTS leaves it",
            name=name,
        )
    table = create_table(
        path,
        clause.fields,
        primary_keys=clause.keys,
        partition_keys=clause.partition_keys,
        options=clause.options,
        comment=clause.comment,
        if_not_exists=True,
    )
    found = schema_of(table)
    wanted = [(field.name, str(field.type.as_nullable())) for field in clause.fields]
    have = [(field.name, str(field.type.as_nullable())) for field in found.fields]
    if wanted != have or list(found.primary_keys) != clause.keys or list(found.partition_keys) != clause.partition_keys:
        raise SchemaMismatch(
            f"CREATE TABLE {name}: another table lies at {table.location}, with the columns "
            f"{', '.join(map(' '.join, have))}, primary key ({', '.join(found.primary_keys)}), partitioned by "
            f"({', '.join(found.partition_keys)})"
        )
    changed = {key: value for key, value in clause.options.items() if found.options.get(key) != value}
    tables[name] = table.with_options(changed) if changed else table


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
    name, table = statement.target()
    partition = _partition(tokens, table) if tokens.accept("PARTITION") else {}
    by_name = tokens.accept("BY", "NAME")
    columns = None
    if (
        not by_name
        and tokens.is_next("(")
        and not any(tokens.is_next("(", word) for word in ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "("))
    ):
        columns = _column_names(tokens)
    schema = schema_of(table)
    wanted = [
        _find_field(schema.fields, column) for column in columns or [n for n in schema.names if n not in partition]
    ]
    if columns is not None and None in wanted:
        unknown = columns[wanted.index(None)]
        raise SchemaMismatch(
            f"INSERT INTO {name} names {unknown!r}; its columns are {', '.join(schema.names)}", column=unknown
        )
    rows = statement.backend.literal_rows(statement) if tokens.is_next("VALUES") else None
    if rows is None:
        text = _replace_default_with_null(tokens) if tokens.is_next("VALUES") else tokens.remaining_text
        rows = statement.backend.query(statement, text)
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


def _column_names(tokens: TokenStream) -> list[str]:
    """Parse the columns of INSERT in parentheses. Raises `SqlError` for one that is named twice."""
    probe, columns = tokens.fork(1), names(tokens)
    seen: set[str] = set()
    for column in columns:  # scalar: one a column of the statement
        if column.lower() in seen:
            raise probe.wrong(f"each column once: {column} is named twice. It wants another column")
        seen.add(column.lower())
        probe.position += 2
    return columns


def _find_field(fields: Sequence[Field], name: str) -> Field | None:
    """Return the column of a name, in whatever case it is written; None where there is none, or several."""
    matches = [field for field in fields if field.name == name] or [
        field for field in fields if field.name.lower() == name.lower()
    ]
    return matches[0] if len(matches) == 1 else None


def _replace_default_with_null(tokens: TokenStream) -> str:
    """Return VALUES, which comes, with NULL for DEFAULT: a row without a value gets the default when written.

    It is as long as before, so that errors know their places.
    """
    text, pieces, at = tokens.remaining_text, [], 0
    before, probe = "", tokens.fork()
    first = 0 if probe.next is None else probe.next.start
    while (word := probe.next) is not None:
        probe.position += 1
        if (
            word.kind == "word"
            and word.text.upper() == "DEFAULT"
            and before in ("(", ",")
            and (probe.is_next(",") or probe.is_next(")"))
        ):
            pieces += [text[at : word.start - first], "NULL   "]
            at = word.end - first
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
        values[key] = ddl.partition_value(tokens, own) if tokens.accept("=") else None
        if not tokens.accept(","):
            break
    tokens.expect(")")
    for key in [
        key for key, value in values.items() if value is None
    ]:  # scalar: one a column; where no value is told the query has the column
        del values[key]
    return values
