"""INSERT INTO and INSERT OVERWRITE: the rows of a query the query's columns by their order, or by name.

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


def insert(asked: Statement) -> ResultRows:
    """INSERT INTO and INSERT OVERWRITE: the rows of a query."""
    words = asked.words
    mode = "overwrite" if words.accept("OVERWRITE") else "append"
    if mode == "append":
        words.expect("INTO")
    words.accept("TABLE")
    name = asked.name()
    table = asked.table(name)
    partition = _partition(words, table) if words.accept("PARTITION") else {}
    by_name = words.accept("BY", "NAME")
    columns = None
    if not by_name and words.is_next("(") and not any(words.is_next("(", word) for word in ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "(")):
        columns = names(words)
    schema = schema_of(table)
    wanted = [_find_field(schema.fields, one) for one in columns or [n for n in schema.names if n not in partition]]
    if columns is not None and None in wanted:
        raise SchemaMismatch(f"INSERT INTO {name} names {columns[wanted.index(None)]!r}; its columns are {', '.join(schema.names)}")
    rows = asked.door.query(asked, _replace_default_with_null(words.rest) if words.is_next("VALUES") else words.rest)
    given = asked.door.names(rows)
    if by_name:
        wanted = [_find_field(schema.fields, one) for one in given]
    elif len(given) != len(wanted):
        into = ", ".join(one.name for one in wanted if one is not None)
        raise SchemaMismatch(f"INSERT INTO {name} takes {len(wanted)} columns ({into}), and the query gives {len(given)} ({', '.join(given)})")
    constants = {schema.field(key): value for key, value in partition.items()}
    stored = asked.door.stored(rows, wanted, constants)
    return commit_result(asked.door.write(stored, table, mode=mode, partition=partition or None if mode == "overwrite" else None))


def schema_of(table: Table) -> TableSchema:
    """The columns of a table with snapshots, or of a folder that is one."""
    return (table.facts() if isinstance(table, FormatTable) else table.handle()).schema


def _find_field(fields: Sequence[Field], said: str) -> Field | None:
    """The column of a name, in whatever case it is written, as Spark takes names; None where there is none, or several."""
    found = [one for one in fields if one.name == said] or [one for one in fields if one.name.lower() == said.lower()]
    return found[0] if len(found) == 1 else None


def _replace_default_with_null(text: str) -> str:
    """VALUES with NULL where DEFAULT stands for a column's value: a row without a value gets the default when it is written."""
    words, pieces, at = TokenStream.of(text), [], 0
    before = ""
    while (word := words.next) is not None:
        words.at += 1
        if word.kind == "word" and word.said.upper() == "DEFAULT" and before in ("(", ",") and (words.is_next(",") or words.is_next(")")):
            pieces += [text[at : word.start], "NULL"]
            at = word.end
        before = word.said
    return "".join([*pieces, text[at:]])


def _partition(words: TokenStream, table: Table) -> dict[str, Any]:
    """PARTITION (dt = '2024-03-31', hour): the values that are told."""
    found: dict[str, Any] = {}
    words.expect("(")
    while True:
        said = words.name("a partition column")
        own = _find_field(schema_of(table).partition_fields, said)
        if own is None:
            raise SchemaMismatch(f"PARTITION ({said}): {table.name} is partitioned by {', '.join(table.partition_keys) or 'nothing'}", column=said)
        key = own.name
        found[key] = _literal(words, table, key) if words.accept("=") else None
        if not words.accept(","):
            break
    words.expect(")")
    for key in [key for key, value in found.items() if value is None]:  # scalar: one a column; where no value is told the query has the column
        del found[key]
    return found


def _literal(words: TokenStream, table: Table, key: str) -> Any:
    """The value of a partition column. Raises `SchemaMismatch` for a text that is none of its type."""
    t = schema_of(table).field(key).type
    words.accept("DATE")
    said = words.take("a literal", "text", "number").value
    try:
        if t.root in INTEGERS:
            return int(said)
        if t.root == "DATE":
            return date.fromisoformat(said)
    except ValueError:
        raise SchemaMismatch(f"PARTITION ({key} = {said!r}): the column is {t}", column=key) from None
    if t.root not in STRINGS:
        raise Unsupported(f"PARTITION ({key} = …): values of {t} are given by the query; leave the column out of PARTITION", feature="catalog.sql")
    return said
