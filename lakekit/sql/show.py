"""What a catalog and its tables say of themselves, by statement: SHOW and DESCRIBE in Spark's words.

SHOW TABLES IN shop LIKE 'ord*'        SHOW PARTITIONS shop.orders        SHOW TBLPROPERTIES shop.orders
DESCRIBE EXTENDED shop.orders          DESCRIBE shop.orders id            DESCRIBE QUERY SELECT 1
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lakekit.catalog.views import View
from lakekit.errors import ColumnNotFound, InvalidOption, Unsupported
from lakekit.sql.backend import ResultRows
from lakekit.sql.ddl import partition_of
from lakekit.sql.inserts import schema_of
from lakekit.sql.tokenizer import quote_identifier
from lakekit.table.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lakekit.sql.backend import Statement
    from lakekit.types import Field

_DESCRIBE_COLUMNS = "col_name string, data_type string, comment string"


def show(asked: Statement) -> ResultRows:
    """SHOW, of what `_SHOW_STATEMENTS` has. Raises `Unsupported` for what it has not."""
    words = asked.words
    for said, gives in _SHOW_STATEMENTS.items():
        if words.accept(*said.split()):
            return gives(asked)
    first = "" if words.next is None else words.next.said
    msg = (
        f"SHOW {first}: there are SHOW {', '.join((*_SHOW_STATEMENTS, 'VIEWS', 'CREATE VIEW'))}; there are "
        f"db.`t$tags`, db.`t$branches` and more tables like these"
    )
    raise Unsupported(msg, feature="catalog.sql")


def _databases(asked: Statement) -> ResultRows:
    is_wanted = _like(asked)
    return ResultRows("namespace string", [(name,) for name in asked.catalog.databases() if is_wanted(name)])


def _tables(asked: Statement) -> ResultRows:
    database = _database(asked)
    is_wanted = _like(asked)
    rows = asked.catalog.tables(database).select("database", "table").rows()  # scalar: one a table
    return ResultRows("namespace string, tableName string, isTemporary boolean", [(*row, False) for row in rows if is_wanted(row[1])])


def _create_table(asked: Statement) -> ResultRows:
    return ResultRows("createtab_stmt string", [(_table(asked).to_sql(),)])


def _columns(asked: Statement) -> ResultRows:
    asked.words.expect("IN" if asked.words.is_next("IN") else "FROM")
    parts = asked.words.names("a table, as database.table")
    if asked.words.accept("IN") or asked.words.accept("FROM"):
        parts = [asked.words.name("a database"), *parts[-1:]]
    asked.words.end()
    name = asked.full(parts)
    if not isinstance(asked.found(name), Table):
        return ResultRows("col_name string", [(field.name,) for field in _fields_of_query(asked, name)])
    return ResultRows("col_name string", [(column,) for column in schema_of(asked.table(name)).names])


def _properties(asked: Statement) -> ResultRows:
    """All properties, or the one that is named; a table's keys and comment are among them, as Spark has it."""
    words = asked.words
    table = asked.table(asked.name())
    key = None
    if words.accept("("):
        key = words.string() if words.next is not None and words.next.kind == "text" else ".".join(words.names("a key"))
        words.expect(")")
    words.end()
    found = _table_properties(table)
    if key is not None:
        missing = f"Table {table.name} does not have property: {key}"
        found = {key: found.get(key, missing)}
    return ResultRows("key string, value string", sorted(found.items()))


def _table_properties(table: Table) -> dict[str, str]:
    """The properties of a table as CREATE TABLE takes them."""
    schema = schema_of(table)
    keys = {"primary-key": ",".join(schema.primary_keys)} if schema.primary_keys else {}
    return {**schema.options, **keys, **({"comment": schema.comment} if schema.comment else {})}


def _partitions(asked: Statement) -> ResultRows:
    words = asked.words
    table = asked.table(asked.name())
    wanted = partition_of(words) if words.accept("PARTITION") else {}
    words.end()
    if not table.partition_keys:
        raise InvalidOption(f"{table.name} is not partitioned: there are no partitions to show", key="sql", value=table.name)
    if unknown := [key for key in wanted if key not in table.partition_keys]:
        raise ColumnNotFound(f"{table.name} is partitioned by {', '.join(table.partition_keys) or 'nothing'}, not by {unknown[0]}", name=unknown[0])
    values = table.partitions()["values"].to_list()  # scalar: one a partition
    told_as = [{key: "null" if value is None else str(value) for key, value in row.items()} for row in values]
    paths = ["/".join(f"{key}={value}" for key, value in row.items()) for row in told_as if wanted.items() <= row.items()]
    return ResultRows("partition string", [(path,) for path in paths])


_SHOW_STATEMENTS: Mapping[str, Callable[[Statement], ResultRows]] = {
    "DATABASES": _databases,
    "SCHEMAS": _databases,
    "NAMESPACES": _databases,
    "TABLES": _tables,
    "CREATE TABLE": _create_table,
    "COLUMNS": _columns,
    "TBLPROPERTIES": _properties,
    "PARTITIONS": _partitions,
}
"""By the words after SHOW, what gives it."""


def _database(asked: Statement) -> str | None:
    """The database after IN or FROM, else the door's; None: all."""
    if asked.words.accept("IN") or asked.words.accept("FROM"):
        return asked.words.name("a database")
    return asked.door.database


def _like(asked: Statement) -> Callable[[str], bool]:
    """Whether a name fits the pattern that ends the statement: * for any signs, | between several, in any case."""
    words = asked.words
    is_said = words.accept("LIKE") or (words.next is not None and words.next.kind == "text")
    said = words.string("a pattern, as 'ord*'") if is_said else "*"
    words.end()
    pattern = "|".join(".*".join(map(re.escape, one.strip().split("*"))) for one in said.split("|"))
    return lambda name: re.fullmatch(pattern, name, re.IGNORECASE | re.DOTALL) is not None


def _table(asked: Statement) -> Table:
    table = asked.table(asked.name())
    asked.words.end()
    return table


# ---- DESCRIBE ------------------------------------------------------------------------------------


def describe(asked: Statement) -> ResultRows:
    """DESCRIBE: a table's columns, with EXTENDED also where it lies and its properties; one column; a query's columns."""
    words = asked.words
    if words.accept("QUERY") or words.is_next("SELECT") or words.is_next("WITH"):
        fields = asked.door.fields(asked.door.query(asked, words.rest))
        return ResultRows(_DESCRIBE_COLUMNS, [(one.name, asked.door.type_text(one.type), None) for one in fields])
    for other in ("DATABASE", "SCHEMA", "NAMESPACE", "FUNCTION"):
        if words.is_next(other) and not words.is_after("."):
            msg = f"DESCRIBE {other}: tables and queries are described; SHOW DATABASES lists databases"
            raise Unsupported(msg, feature="catalog.sql")
    words.accept("TABLE")
    is_more = not words.is_after(".") and (words.accept("EXTENDED") or words.accept("FORMATTED"))
    name = asked.name()
    if not isinstance(asked.found(name), Table):
        if words.next is not None:
            raise InvalidOption(f"{name} is no table with rows of its own: DESCRIBE {name} gives its columns, all of them", key="sql", value=name)
        return _described_query(asked, name, is_more=is_more)
    table = asked.table(name)
    if words.next is not None:
        return _one_column(asked, table)
    schema = schema_of(table)
    rows: list[tuple[Any, ...]] = [(field.name, asked.door.type_text(field.type), field.comment) for field in schema.fields]
    if is_more:
        if schema.partition_keys:
            keys = [row for row in rows if row[0] in schema.partition_keys]
            rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment"), *keys]
        properties = ",".join(f"{key}={value}" for key, value in sorted(_table_properties(table).items()) if key != "comment")
        rows += [("", "", ""), ("# Detailed Table Information", "", ""), ("Name", table.name, "")]
        rows += [("Comment", schema.comment, "")] if schema.comment else []
        rows += [("Location", table.location, ""), ("Provider", "paimon", ""), ("Table Properties", f"[{properties}]", "")]
    return ResultRows(_DESCRIBE_COLUMNS, rows)


def _described_query(asked: Statement, name: str, *, is_more: bool) -> ResultRows:
    """The columns of a view, or of a system table."""
    rows: list[tuple[Any, ...]] = [(field.name, asked.door.type_text(field.type), None) for field in _fields_of_query(asked, name)]
    view = asked.found(name)
    if is_more and isinstance(view, View):
        rows += [("", "", ""), ("# Detailed Table Information", "", ""), ("Name", view.name, ""), ("Type", "VIEW", ""), ("View Text", view.query, "")]
    return ResultRows(_DESCRIBE_COLUMNS, rows)


def _fields_of_query(asked: Statement, name: str) -> Sequence[Field]:
    view = asked.found(name)
    if isinstance(view, View):
        return view.fields
    quoted_name = ".".join(map(quote_identifier, name.split(".", 1)))
    return asked.door.fields(asked.door.query(asked, f"SELECT * FROM {quoted_name}"))  # noqa: S608 - a name in backquotes


def _one_column(asked: Statement, table: Table) -> ResultRows:
    path = asked.words.names("a column")
    asked.words.end()
    if len(path) > 1:
        raise InvalidOption(f"DESCRIBE {table.name} {'.'.join(path)}: a column of the table is described, with all its parts", key="sql")
    schema = schema_of(table)
    if not schema.has(path[0]):
        raise ColumnNotFound(f"{table.name} has no column {path[0]}; it has {', '.join(schema.names)}", name=path[0])
    field = schema.field(path[0])
    rows = [("col_name", field.name), ("data_type", asked.door.type_text(field.type)), ("comment", field.comment or "NULL")]
    return ResultRows("info_name string, info_value string", rows)
