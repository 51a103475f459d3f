"""Descriptions of a catalog and its tables: SHOW and DESCRIBE in Spark's syntax.

SHOW TABLES IN shop LIKE 'ord*'        SHOW PARTITIONS shop.orders        SHOW TBLPROPERTIES shop.orders
DESCRIBE EXTENDED shop.orders          DESCRIBE shop.orders id            DESCRIBE QUERY SELECT 1
SHOW FUNCTIONS LIKE 'date*'            what conditions of DELETE, UPDATE and MERGE and `where=` compute
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lakekit.catalog.session import DEFAULT_DATABASE
from lakekit.catalog.views import MATERIALIZED_TABLE as MATERIALIZED, MaterializedTable, View
from lakekit.errors import ColumnNotFound, InvalidOption, Unsupported
from lakekit.expressions.functions import FORMS, all_functions
from lakekit.expressions.sql_function import spark_difference
from lakekit.options.option import hide_secrets
from lakekit.sql.backend import StatementResult
from lakekit.sql.ddl import partition_of
from lakekit.sql.dml import schema_of
from lakekit.table.table import Table
from lakekit.types import quote_identifier, text_literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lakekit.catalog.catalog import Catalog
    from lakekit.sql.backend import Statement
    from lakekit.types import Field

_WILDCARDS = {"%": ".*", "*": ".*", "_": "."}
"""Regular expressions of the signs of a pattern."""
_DESCRIBE_COLUMNS = "col_name string, data_type string, comment string"


def show(statement: Statement) -> StatementResult:
    """Execute SHOW, of what `_SHOW_STATEMENTS` has. Raises `Unsupported` for others."""
    tokens = statement.tokens
    for phrase, gives in _SHOW_STATEMENTS.items():
        if tokens.accept(*phrase.split()):
            return gives(statement)
    known = (*_SHOW_STATEMENTS, "VIEWS", "CREATE VIEW")
    wrong = tokens.wrong(
        f"one of {', '.join(known)} behind SHOW (db.`t$tags`, db.`t$branches` and more are tables like these)"
    )
    if tokens.next is None:
        raise wrong
    raise Unsupported(wrong.message, feature="catalog.sql")


def _databases(statement: Statement) -> StatementResult:
    """Return the databases of the catalog, `default` among them, which its first table makes."""
    tokens = statement.tokens
    own = statement.in_catalog(tokens.name("a catalog")) if tokens.accept_any("IN", "FROM") else statement
    is_wanted = like(statement)
    names = sorted({*own.catalog.databases(), DEFAULT_DATABASE})
    return StatementResult("namespace string", [(name,) for name in names if is_wanted(name)])


def _tables(statement: Statement) -> StatementResult:
    """Return the tables of a database, and those that lie elsewhere as temporary ones."""
    own, database = take_database(statement)
    is_wanted = like(statement)
    rows = (
        [] if is_missing_default(own, database) else own.catalog.tables(database).select("database", "table").rows()
    )  # scalar: one a table
    found = [(*row, False) for row in rows]
    if not own.is_foreign:
        elsewhere = [name.partition(".")[::2] for name in statement.backend.tables]
        found += [(at, name, True) for at, name in elsewhere if database in (None, at)]
    return StatementResult(
        "namespace string, tableName string, isTemporary boolean", [row for row in sorted(found) if is_wanted(row[1])]
    )


def is_missing_default(statement: Statement, database: str | None) -> bool:
    """Return whether that is the database `default`, and the catalog has none yet."""
    return database == DEFAULT_DATABASE and DEFAULT_DATABASE not in statement.catalog.databases()


def _create_table(statement: Statement) -> StatementResult:
    """Return the CREATE TABLE statement of a table, with stars for its secret options."""
    table, dialect = _table(statement), statement.tokens.dialect
    text, options = table.to_sql(dialect=dialect), schema_of(table).options
    for key, shown in hide_secrets(options).items():
        if shown != options[key]:
            name, value, stars = (text_literal(part, dialect=dialect) for part in (key, options[key], shown))
            text = text.replace(f"{name} = {value}", f"{name} = {stars}")
    return StatementResult("createtab_stmt string", [(text,)])


def _columns(statement: Statement) -> StatementResult:
    statement.tokens.expect("IN" if statement.tokens.is_next("IN") else "FROM")
    parts = statement.tokens.names("a table, as database.table")
    if statement.tokens.accept("IN") or statement.tokens.accept("FROM"):
        parts = [*statement.tokens.names("a database"), *parts[-1:]]
    statement.tokens.end()
    statement, name = statement.locate(parts)
    if not isinstance(statement.resolve_name(name), Table):
        return StatementResult("col_name string", [(field.name,) for field in _fields_of_query(statement, name)])
    return StatementResult("col_name string", [(column,) for column in schema_of(statement.table(name)).names])


def _properties(statement: Statement) -> StatementResult:
    """Return all properties, or the one named; a table's keys and comment are among them, as in Spark."""
    tokens = statement.tokens
    table = _take_table(statement)
    key = None
    if tokens.accept("("):
        key = (
            tokens.string()
            if tokens.next is not None and tokens.next.kind == "text"
            else ".".join(tokens.names("a key"))
        )
        tokens.expect(")")
    tokens.end()
    values = _table_properties(table)
    if key is not None:
        missing = f"Table {table.name} does not have property: {key}"
        values = {key: values.get(key, missing)}
    return StatementResult("key string, value string", sorted(values.items()))


def _table_properties(table: Table) -> dict[str, str]:
    """Return the properties of a table as CREATE TABLE takes them, with stars for secrets."""
    schema = schema_of(table)
    keys = {"primary-key": ",".join(schema.primary_keys)} if schema.primary_keys else {}
    return {**hide_secrets(schema.options), **keys, **({"comment": schema.comment} if schema.comment else {})}


def _partitions(statement: Statement) -> StatementResult:
    tokens = statement.tokens
    table = _take_table(statement)
    wanted = partition_of(tokens) if tokens.accept("PARTITION") else {}
    tokens.end()
    if not table.partition_keys:
        raise InvalidOption(
            f"{table.name} is not partitioned: there are no partitions to show", key="sql", value=table.name
        )
    if unknown := [key for key in wanted if key not in table.partition_keys]:
        raise ColumnNotFound(
            f"{table.name} is partitioned by {', '.join(table.partition_keys) or 'nothing'}, not by {unknown[0]}",
            name=unknown[0],
        )
    told_as = _partition_texts(table)
    paths = [
        "/".join(f"{key}={value}" for key, value in row.items()) for row in told_as if wanted.items() <= row.items()
    ]
    return StatementResult("partition string", [(path,) for path in paths])


def _partition_texts(table: Table) -> list[dict[str, str]]:
    """Return the values of each partition as texts, by column."""
    listed = table.partitions()
    if "values" in listed.columns:
        values = listed["values"].to_list()  # scalar: one a partition
        return [{key: "null" if value is None else str(value) for key, value in row.items()} for row in values]
    texts = listed["partition"].to_list()  # scalar: one a partition, of a format table
    return [dict(part.split("=", 1) for part in text.split("/")) for text in texts]


def _tags(statement: Statement) -> StatementResult:
    return StatementResult("tag string", [(tag,) for tag in _table(statement).tags()["tag"]])


def _branches(statement: Statement) -> StatementResult:
    return StatementResult("branch string", [(branch,) for branch in _table(statement).branches()["branch"]])


def _catalogs(statement: Statement) -> StatementResult:
    """Return the catalogs that CREATE CATALOG made in the session, and the one that it begins with."""
    is_wanted = like(statement)
    return StatementResult("catalog string", [(name,) for name in statement.backend.catalogs if is_wanted(name)])


def _current_database(statement: Statement) -> StatementResult:
    statement.tokens.end()
    return StatementResult("namespace string", [(statement.backend.database,)])


def _materialized_tables(statement: Statement) -> StatementResult:
    """Return the materialized tables, how old each may be and whether its rows are older."""
    own, database = take_database(statement)
    is_wanted = like(statement)
    found = [] if is_missing_default(own, database) else materialized_tables(own.catalog, database)
    rows = [
        (*table.name.split(".", 1), table.freshness_ms // 1000, table.is_suspended, table.is_stale)
        for table in found
        if is_wanted(table.name.partition(".")[2])
    ]
    return StatementResult(
        "namespace string, tableName string, freshness_seconds long, isSuspended boolean, isStale boolean", rows
    )


def materialized_tables(catalog: Catalog, database: str | None) -> list[MaterializedTable]:
    """Return the materialized tables of a database; without one, of all databases."""
    names = catalog.tables(database).select("database", "table", "kind").rows()  # scalar: one a table
    opened = [catalog.table(f"{at}.{name}") for at, name, kind in names if kind == MATERIALIZED]
    return [table for table in opened if isinstance(table, MaterializedTable)]


def _functions(statement: Statement) -> StatementResult:
    """Return the functions of conditions and values, a row for each name; `in_spark`: where Spark differs."""
    is_wanted = like(statement)
    rows = [
        (name, ", ".join(function.arguments), function.result, function.note, spark_difference(name))
        for function in all_functions()
        for name in function.names
        if is_wanted(name)
    ]
    forms = [(name, "", "", note, spark_difference(name)) for name, note in FORMS.items() if is_wanted(name)]
    columns = "function string, arguments string, result string, note string, in_spark string"
    return StatementResult(columns, [*rows, *forms])


_SHOW_STATEMENTS: Mapping[str, Callable[[Statement], StatementResult]] = {
    "DATABASES": _databases,
    "SCHEMAS": _databases,
    "NAMESPACES": _databases,
    "TABLES": _tables,
    "CREATE TABLE": _create_table,
    "COLUMNS": _columns,
    "TBLPROPERTIES": _properties,
    "PARTITIONS": _partitions,
    "MATERIALIZED TABLES": _materialized_tables,
    "TAGS": _tags,
    "BRANCHES": _branches,
    "CATALOGS": _catalogs,
    "CURRENT DATABASE": _current_database,
    "FUNCTIONS": _functions,
}
"""The function for the words after SHOW."""


def take_database(statement: Statement) -> tuple[Statement, str | None]:
    """Return the statement in the catalog of the database that it names, and this database; None for all databases.

    The database follows IN or FROM; without these words it is that of the backend.
    """
    if statement.tokens.accept("IN") or statement.tokens.accept("FROM"):
        return statement.take_database()
    return statement, statement.backend.database


def like(statement: Statement) -> Callable[[str], bool]:
    """Return a predicate: whether a name fits the pattern that ends the statement, in any case.

    In a pattern % and * stand for any characters, _ for one, | separates several.
    """
    tokens = statement.tokens
    is_said = tokens.accept("LIKE") or (tokens.next is not None and tokens.next.kind == "text")
    text = tokens.string("a pattern, as 'ord%'") if is_said else "%"
    tokens.end()
    pattern = "|".join(
        "".join(_WILDCARDS.get(sign) or re.escape(sign) for sign in part.strip()) for part in text.split("|")
    )
    return lambda name: re.fullmatch(pattern, name, re.IGNORECASE | re.DOTALL) is not None


def _table(statement: Statement) -> Table:
    table = _take_table(statement)
    statement.tokens.end()
    return table


def _take_table(statement: Statement) -> Table:
    own, name = statement.take_name()
    return own.table(name)


# ---- DESCRIBE ------------------------------------------------------------------------------------


def describe(statement: Statement) -> StatementResult:
    """Execute DESCRIBE: a table's columns, one column, or a query's columns.

    With EXTENDED also the table's location and its properties.
    """
    tokens = statement.tokens
    if tokens.accept("QUERY") or tokens.is_next("SELECT") or tokens.is_next("WITH"):
        fields = statement.backend.fields(statement.backend.query(statement, tokens.remaining_text))
        return StatementResult(
            _DESCRIBE_COLUMNS, [(column.name, statement.backend.type_text(column.type), None) for column in fields]
        )
    for other in ("DATABASE", "SCHEMA", "NAMESPACE", "FUNCTION"):
        if tokens.is_next(other) and not tokens.is_after("."):
            msg = f"DESCRIBE {other}: tables and queries are described; SHOW DATABASES lists databases"
            raise Unsupported(msg, feature="catalog.sql")
    if tokens.is_next("HISTORY") and not tokens.is_after(".") and len(tokens.remaining_text.split()) > 1:
        msg = "DESCRIBE HISTORY: SELECT * FROM shop.orders$snapshots gives the commits of a table, one a row"
        raise Unsupported(msg, feature="catalog.sql")
    tokens.accept("TABLE")
    is_more = not tokens.is_after(".") and (tokens.accept("EXTENDED") or tokens.accept("FORMATTED"))
    statement, name = statement.take_name()
    if not isinstance(statement.resolve_name(name), Table):
        if tokens.next is not None:
            raise InvalidOption(
                f"{name} is no table with rows of its own: DESCRIBE {name} gives its columns, all of them",
                key="sql",
                value=name,
            )
        return _described_query(statement, name, is_more=is_more)
    table = statement.table(name)
    if tokens.next is not None:
        return _one_column(statement, table)
    schema = schema_of(table)
    rows: list[tuple[Any, ...]] = [
        (field.name, statement.backend.type_text(field.type), field.comment) for field in schema.fields
    ]
    if is_more:
        if schema.partition_keys:
            keys = [row for row in rows if row[0] in schema.partition_keys]
            rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment"), *keys]
        properties = ",".join(
            f"{key}={value}" for key, value in sorted(_table_properties(table).items()) if key != "comment"
        )
        rows += [("", "", ""), ("# Detailed Table Information", "", ""), ("Name", table.name, "")]
        rows += [("Comment", schema.comment, "")] if schema.comment else []
        rows += [
            ("Location", table.location, ""),
            ("Provider", "paimon", ""),
            ("Table Properties", f"[{properties}]", ""),
        ]
    return StatementResult(_DESCRIBE_COLUMNS, rows)


def _described_query(statement: Statement, name: str, *, is_more: bool) -> StatementResult:
    """Return the columns of a view, or of a system table."""
    rows: list[tuple[Any, ...]] = [
        (field.name, statement.backend.type_text(field.type), None) for field in _fields_of_query(statement, name)
    ]
    view = statement.resolve_name(name)
    if is_more and isinstance(view, View):
        rows += [
            ("", "", ""),
            ("# Detailed Table Information", "", ""),
            ("Name", view.name, ""),
            ("Type", "VIEW", ""),
            ("View Text", view.query, ""),
        ]
    return StatementResult(_DESCRIBE_COLUMNS, rows)


def _fields_of_query(statement: Statement, name: str) -> Sequence[Field]:
    view = statement.resolve_name(name)
    if isinstance(view, View):
        return view.fields
    quoted_name = ".".join(map(quote_identifier, name.split(".", 1)))
    return statement.backend.fields(statement.backend.query(statement, f"SELECT * FROM {quoted_name}"))  # noqa: S608 - a name in backquotes


def _one_column(statement: Statement, table: Table) -> StatementResult:
    path = statement.tokens.names("a column")
    statement.tokens.end()
    if len(path) > 1:
        raise InvalidOption(
            f"DESCRIBE {table.name} {'.'.join(path)}: a column of the table is described, with all its parts", key="sql"
        )
    schema = schema_of(table)
    if not schema.has(path[0]):
        raise ColumnNotFound(f"{table.name} has no column {path[0]}; it has {', '.join(schema.names)}", name=path[0])
    field = schema.field(path[0])
    rows = [
        ("col_name", field.name),
        ("data_type", statement.backend.type_text(field.type)),
        ("comment", field.comment or "NULL"),
    ]
    return StatementResult("info_name string, info_value string", rows)
