"""INSERT INTO and INSERT OVERWRITE: the rows of a query, with its columns by their order, or by name.

INSERT INTO shop.orders (id, day) VALUES (1, DEFAULT)
INSERT OVERWRITE shop.orders PARTITION (day = '2024-03-31') SELECT id, total FROM other
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

from lakekit.errors import SchemaMismatch, Unsupported
from lakekit.sql.ddl import names
from lakekit.sql.dml import commit_result
from lakekit.sql.tokenizer import TokenStream
from lakekit.table.format_tables import FormatTable
from lakekit.types import INTEGERS, STRINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.model.table_schema import TableSchema
    from lakekit.sql.backend import ResultRows, Statement
    from lakekit.table.table import Table
    from lakekit.types import Field


def insert(statement: Statement) -> ResultRows:
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
        statement, _replace_default_with_null(tokens.rest) if tokens.is_next("VALUES") else tokens.rest
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


def schema_of(table: Table) -> TableSchema:
    """Return the schema of a table, also of a format table."""
    return (table.facts() if isinstance(table, FormatTable) else table.handle()).schema


def _find_field(fields: Sequence[Field], name: str) -> Field | None:
    """Return the column of a name, in whatever case it is written; None where there is none, or several."""
    matches = [field for field in fields if field.name == name] or [
        field for field in fields if field.name.lower() == name.lower()
    ]
    return matches[0] if len(matches) == 1 else None


def _replace_default_with_null(text: str) -> str:
    """Return VALUES with NULL where DEFAULT stands for a column's value.

    A row without a value gets the default when it is written.
    """
    tokens, pieces, at = TokenStream.of(text), [], 0
    before = ""
    while (word := tokens.next) is not None:
        tokens.at += 1
        if (
            word.kind == "word"
            and word.said.upper() == "DEFAULT"
            and before in ("(", ",")
            and (tokens.is_next(",") or tokens.is_next(")"))
        ):
            pieces += [text[at : word.start], "NULL"]
            at = word.end
        before = word.said
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
