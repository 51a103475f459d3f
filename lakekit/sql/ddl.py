"""Definitions of tables and databases: CREATE, DROP, ALTER and TRUNCATE in Spark's syntax.

    CREATE TABLE shop.orders (id BIGINT NOT NULL, day STRING COMMENT 'of the order')
        PARTITIONED BY (day) TBLPROPERTIES ('primary-key' = 'id,day')
    ALTER TABLE shop.orders ADD COLUMN total DECIMAL(10, 2) AFTER id

A statement becomes one call of the catalog or the table, after all of it was parsed: it is executed as a whole, or not
at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakekit.ddl import schema_changes as changes
from lakekit.errors import InvalidOption, SchemaMismatch, Unsupported
from lakekit.read.table_scan import context_of
from lakekit.sql.backend import StatementResult, parse_key, parse_properties
from lakekit.types import Field

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.ddl.schema_changes import TableChange
    from lakekit.sql.backend import Statement
    from lakekit.sql.tokenizer import TokenStream
    from lakekit.table.table import Table
    from lakekit.types import DataType

_USING = ("paimon", "lakekit")
_TYPE_SUFFIXES = (("PRECISION",), ("WITH", "LOCAL", "TIME", "ZONE"), ("WITHOUT", "TIME", "ZONE"))
"""Words of a type behind its parentheses."""
_UNSUPPORTED_OBJECTS = ("FUNCTION", "CATALOG", "INDEX")
_OPEN, _CLOSE = ("(", "<"), (")", ">")


# ---- CREATE and DROP -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTableClause:
    """The definition of a table in CREATE TABLE, without its name."""

    fields: list[Field]
    keys: list[str]
    partition_keys: list[str]
    comment: str | None
    options: dict[str, str]


def parse_table_definition(statement: Statement) -> CreateTableClause:
    """Parse what follows the name in CREATE TABLE: columns in parentheses, if any, and other clauses."""
    fields, keys = _fields(statement) if statement.tokens.is_next("(") else ([], [])
    partition_keys, comment, options = table_words(statement, fields)
    statement.tokens.end()
    return CreateTableClause(fields=fields, keys=keys, partition_keys=partition_keys, comment=comment, options=options)


def create_database(statement: Statement) -> StatementResult:
    """Execute CREATE DATABASE, read as far as DATABASE."""
    tokens = statement.tokens
    is_lenient = tokens.accept("IF", "NOT", "EXISTS")
    own, name = statement.take_database()
    comment, database_properties = None, None
    while tokens.next is not None:
        if tokens.accept("COMMENT"):
            comment = tokens.string()
        elif tokens.accept("WITH", "DBPROPERTIES") or tokens.accept("WITH", "PROPERTIES"):
            database_properties = parse_properties(tokens)
        else:
            raise tokens.wrong("COMMENT or WITH DBPROPERTIES")
    tokens.end()
    own.catalog.create_database(name, if_not_exists=is_lenient, comment=comment, properties=database_properties)
    return StatementResult()


def refuse_others(tokens: TokenStream, does: str) -> None:
    """Raise `Unsupported` for objects that a catalog does not have, by their names."""
    is_replaced = tokens.accept("OR", "REPLACE")
    if is_replaced:
        what = next((keyword for keyword in ("TEMPORARY", "GLOBAL", "VIEW") if tokens.is_next(keyword)), "TABLE")
        msg = f"CREATE OR REPLACE {what} is not done: DROP comes first" + (
            ", or INSERT OVERWRITE keeps the table" if what == "TABLE" else ""
        )
        raise Unsupported(msg, feature="catalog.sql")
    unsupported = next(
        (
            keyword
            for keyword in (*_UNSUPPORTED_OBJECTS, *(["EXTERNAL"] if does == "CREATE" else []))
            if tokens.is_next(keyword)
        ),
        None,
    )
    if unsupported is not None:
        raise Unsupported(
            f"{does} {unsupported} is not done: a catalog has tables, views and databases", feature="catalog.sql"
        )


def drop(statement: Statement) -> StatementResult:
    """Execute DROP DATABASE and DROP TABLE."""
    tokens = statement.tokens
    if tokens.accept("DATABASE") or tokens.accept("SCHEMA") or tokens.accept("NAMESPACE"):
        is_lenient = tokens.accept("IF", "EXISTS")
        own, name = statement.take_database()
        cascade = tokens.accept("CASCADE")
        if not cascade:
            tokens.accept("RESTRICT")
        tokens.end()
        own.catalog.drop_database(name, cascade=cascade, if_exists=is_lenient)
        return StatementResult()
    tokens.accept("MATERIALIZED")
    refuse_others(tokens, "DROP")
    tokens.expect("TABLE")
    is_lenient = tokens.accept("IF", "EXISTS")
    own, name = statement.take_name()
    tokens.accept("PURGE")
    tokens.end()
    if statement.backend.tables.pop(name, None) is None:  # else its files lie outside of the catalog, and stay
        own.catalog.drop_table(name, if_exists=is_lenient)
    return StatementResult()


def table_words(
    statement: Statement, fields: list[Field] | None = None
) -> tuple[list[str], str | None, dict[str, str]]:
    """Parse what follows the columns of CREATE TABLE, as far as AS.

    Returns partition columns, comment and properties. Partition columns with a type are added to `fields`.
    """
    tokens = statement.tokens
    partitions: list[str] = []
    comment: str | None = None
    options: dict[str, str] = {}
    while tokens.next is not None and not tokens.is_next("AS"):
        if tokens.accept("USING"):
            source = tokens.name("paimon")
            if source.lower() not in _USING:
                raise Unsupported(
                    f"CREATE TABLE … USING {source}: it makes Paimon tables; leave USING out", feature="catalog.sql"
                )
        elif tokens.accept("PARTITIONED", "BY"):
            partitions = _partition_columns(statement, fields)
        elif tokens.accept("COMMENT"):
            comment = tokens.string()
        elif tokens.is_next("LOCATION"):
            raise Unsupported(
                "CREATE TABLE … LOCATION: tables of a catalog lie in its warehouse; leave it out, or lk.create(path, "
                "…)",
                feature="catalog.sql",
            )
        elif tokens.accept("TBLPROPERTIES") or tokens.accept("OPTIONS") or tokens.accept("WITH"):
            options |= parse_properties(tokens)
        else:
            raise tokens.wrong("USING, PARTITIONED BY, COMMENT or TBLPROPERTIES")
    return partitions, comment, options


def _partition_columns(statement: Statement, fields: list[Field] | None) -> list[str]:
    """Parse the columns of PARTITIONED BY: those of the table, or new ones with types, which come last."""
    tokens = statement.tokens
    tokens.expect("(")
    columns: list[str] = []
    while not columns or tokens.accept(","):
        name = tokens.name("a column")
        if tokens.is_next("("):
            raise Unsupported(
                f"PARTITIONED BY ({name}(…)): tables are partitioned by columns; make one of the value",
                feature="catalog.sql",
            )
        if fields is not None and not tokens.is_next(",") and not tokens.is_next(")"):
            t, comment, default, position = _column(statement)
            if position:
                raise tokens.wrong("no place and no PRIMARY KEY, but , or )")
            fields.append(Field(name, t, comment=comment, default=default))
        columns.append(name)
    tokens.expect(")")
    return columns


def names(tokens: TokenStream) -> list[str]:
    """Parse column names in parentheses."""
    tokens.expect("(")
    columns = [tokens.name("a column")]
    while tokens.accept(","):
        columns.append(tokens.name("a column"))
    tokens.expect(")")
    return columns


# ---- columns -------------------------------------------------------------------------------------


def _fields(statement: Statement) -> tuple[list[Field], list[str]]:
    """Parse the columns of CREATE TABLE, and return them and those of its primary key."""
    tokens, fields, keys = statement.tokens, [], []
    tokens.expect("(")
    while True:
        if tokens.accept("PRIMARY", "KEY"):
            keys = names(tokens)
            tokens.accept("NOT", "ENFORCED")
        else:
            name = tokens.name("a column")
            t, comment, default, position = _column(statement)
            if position.pop("key", False):
                keys.append(name)
            if position:
                raise tokens.wrong("no place: columns stand in the order of the statement")
            fields.append(Field(name, t, comment=comment, default=default))
        if not tokens.accept(","):
            break
    tokens.expect(")")
    return fields, keys


def _column(statement: Statement) -> tuple[DataType, str | None, str | None, dict[str, Any]]:
    """Parse a column's type, comment, default and position, after its name.

    Where it is the primary key, `key` is in the position.
    """
    tokens = statement.tokens
    t = _type(statement)
    comment = default = None
    position: dict[str, Any] = {}
    while True:
        if tokens.accept("NOT", "NULL"):
            t = t.not_null()
        elif tokens.accept("PRIMARY", "KEY"):
            tokens.accept("NOT", "ENFORCED")
            position["key"] = True
        elif tokens.accept("COMMENT"):
            comment = tokens.string()
        elif tokens.accept("DEFAULT"):
            default = default_of(tokens)
        elif tokens.accept("FIRST"):
            position = {"first": True}
        elif tokens.accept("AFTER"):
            position = {"after": ".".join(tokens.names("a column"))}
        else:
            return t, comment, default, position


def default_of(tokens: TokenStream) -> str | None:
    """Parse what stands after DEFAULT, and return the text that a table stores; None for NULL.

    It is a literal, a number below zero, or DATE or TIMESTAMP before a text.
    """
    if tokens.accept("NULL"):
        return None
    sign = "-" if tokens.accept("-") else ""
    if not sign and any(tokens.is_next(word) for word in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")):
        tokens.position += 1
        return tokens.string()
    if not sign and (tokens.accept("TRUE") or tokens.accept("FALSE")):
        return tokens.before.lower()
    word = tokens.take("a literal", *(("number",) if sign else ("text", "number")))
    return sign + (word.value.rstrip("lLsSyYdDfF") if word.kind == "number" else word.value)


def _type(statement: Statement) -> DataType:
    """Parse a type.

    Raises: `InvalidOption` for what the backend does not know, `SchemaMismatch` for what Paimon does not.
    """
    tokens, first, depth = statement.tokens, statement.tokens.next, 0
    if first is None or first.kind not in ("word", "quoted"):
        raise tokens.wrong("a type")
    end = first.end
    tokens.position += 1
    while (word := tokens.next) is not None and (depth or word.text in _OPEN):
        depth += (word.text in _OPEN) - (word.text in _CLOSE)
        end = word.end
        tokens.position += 1
    for more in _TYPE_SUFFIXES:
        if tokens.is_next(*more):
            end = tokens.end_of(len(more))
            tokens.accept(*more)
    text = tokens.text[first.start : end]
    if first.text.upper() == "INTERVAL":
        raise SchemaMismatch(f"no Paimon type holds {text}; write a number of days or milliseconds")
    return statement.backend.type(text)


# ---- ALTER ---------------------------------------------------------------------------------------


def alter(statement: Statement) -> StatementResult:
    """Execute ALTER TABLE and ALTER DATABASE."""
    tokens = statement.tokens
    if tokens.accept("DATABASE") or tokens.accept("SCHEMA") or tokens.accept("NAMESPACE"):
        return _alter_database(statement)
    tokens.expect("TABLE")
    statement, name = statement.take_name()
    if tokens.accept("RENAME", "TO"):
        parts = tokens.names("a name")
        tokens.end()
        if len(parts) > 2:
            raise InvalidOption(f"{'.'.join(parts)}: a table keeps its catalog; write database.table", key="sql")
        statement.catalog.rename_table(
            name, statement.full(parts) if len(parts) > 1 else f"{name.partition('.')[0]}.{parts[0]}"
        )
        return StatementResult()
    if tokens.accept("DROP", "PARTITION") or tokens.accept("DROP", "IF", "EXISTS", "PARTITION"):
        return _drop_partitions(statement, statement.table(name))
    table = statement.table(name)
    for start, reads in _ALTERS:
        if tokens.accept(*start):
            made = reads(statement, table)
            tokens.end()
            if made:
                table.alter(*made)
            return StatementResult()
    raise tokens.wrong(
        "ADD, DROP, RENAME or ALTER COLUMN, SET or UNSET TBLPROPERTIES, SET or RESET, RENAME TO, or DROP PARTITION"
    )


def _alter_database(statement: Statement) -> StatementResult:
    tokens, (statement, name) = statement.tokens, statement.take_database()
    tokens.expect("SET")
    if not (tokens.accept("DBPROPERTIES") or tokens.accept("PROPERTIES")):
        raise tokens.wrong("DBPROPERTIES")
    changed = parse_properties(tokens)
    tokens.end()
    statement.catalog.alter_database(name, set=changed)
    return StatementResult()


def _drop_partitions(statement: Statement, table: Table) -> StatementResult:
    tokens = statement.tokens
    partitions = [partition_of(tokens)]
    while tokens.accept(","):
        tokens.expect("PARTITION")
        partitions.append(partition_of(tokens))
    tokens.end()
    table.drop_partitions(partitions)
    return StatementResult()


def partition_of(tokens: TokenStream) -> dict[str, str]:
    """Parse partition columns and their values, as in (dt = '2024-03-31', hour = 7)."""
    values = {}
    tokens.expect("(")
    while True:
        key = tokens.name("a partition column")
        tokens.expect("=")
        values[key] = tokens.take("a literal", "text", "number").value
        if not tokens.accept(","):
            break
    tokens.expect(")")
    return values


def _path(tokens: TokenStream) -> str:
    return ".".join(tokens.names("a column"))


def _parse_add_columns(statement: Statement, table: Table) -> list[TableChange]:  # noqa: ARG001 - as its kind
    tokens = statement.tokens
    in_parentheses = tokens.accept("(")
    added = [_parse_added_column(statement)]
    while tokens.accept(","):
        added.append(_parse_added_column(statement))
    if in_parentheses:
        tokens.expect(")")
    return added


def _parse_added_column(statement: Statement) -> TableChange:
    name = _path(statement.tokens)
    t, comment, default, position = _column(statement)
    if position.pop("key", False):
        raise statement.tokens.wrong("no PRIMARY KEY: keys are for CREATE TABLE")
    if default is not None:
        raise statement.tokens.wrong("no DEFAULT: set it with ALTER COLUMN afterwards")
    return changes.add_column(name, t, comment=comment, **position)


def _parse_drop_columns(statement: Statement, table: Table) -> list[TableChange]:
    tokens = statement.tokens
    is_lenient, in_parentheses = tokens.accept("IF", "EXISTS"), tokens.accept("(")
    paths = [_path(tokens)]
    while tokens.accept(","):
        paths.append(_path(tokens))
    if in_parentheses:
        tokens.expect(")")
    schema = context_of(table).schema
    return [changes.drop_column(path) for path in paths if not is_lenient or "." in path or schema.has(path)]


def _parse_rename_column(statement: Statement, table: Table) -> list[TableChange]:  # noqa: ARG001 - as its kind
    old = _path(statement.tokens)
    statement.tokens.expect("TO")
    return [changes.rename_column(old, statement.tokens.name())]


def _parse_alter_columns(statement: Statement, table: Table) -> list[TableChange]:  # noqa: ARG001 - as its kind
    """Parse ALTER COLUMN, of several columns with commas between them.

    Each is c TYPE t, COMMENT 'x', FIRST, AFTER d, SET or DROP NOT NULL, SET or DROP DEFAULT.
    """
    altered = _parse_altered_column(statement)
    while statement.tokens.accept(","):
        altered += _parse_altered_column(statement)
    return altered


def _parse_altered_column(statement: Statement) -> list[TableChange]:
    tokens, name = statement.tokens, _path(statement.tokens)
    if tokens.accept("TYPE"):
        return [changes.update_type(name, _type(statement))]
    if tokens.accept("COMMENT"):
        return [changes.update_comment(name, tokens.string())]
    if tokens.accept("FIRST"):
        return [changes.move_column(name, first=True)]
    if tokens.accept("AFTER"):
        return [changes.move_column(name, after=tokens.name("a column"))]
    if tokens.accept("SET", "NOT", "NULL"):
        return [changes.update_nullability(name, nullable=False)]
    if tokens.accept("DROP", "NOT", "NULL"):
        return [changes.update_nullability(name, nullable=True)]
    if tokens.accept("SET", "DEFAULT"):
        return [changes.update_default(name, default_of(tokens))]
    if tokens.accept("DROP", "DEFAULT"):
        return [changes.update_default(name, None)]
    raise tokens.wrong("TYPE, COMMENT, FIRST, AFTER, SET or DROP NOT NULL, SET or DROP DEFAULT")


def _parse_set_properties(statement: Statement, table: Table) -> list[TableChange]:  # noqa: ARG001 - as its kind
    if not statement.tokens.is_next("("):
        raise statement.tokens.wrong("TBLPROPERTIES (…), or keys and values in parentheses")
    values = parse_properties(statement.tokens)
    return [
        changes.set_comment(value) if key == "comment" else changes.set_option(key, value)
        for key, value in values.items()
    ]


def _parse_unset_properties(statement: Statement, table: Table) -> list[TableChange]:
    tokens = statement.tokens
    is_lenient = tokens.accept("IF", "EXISTS")
    tokens.expect("(")
    keys = [parse_key(tokens)]
    while tokens.accept(","):
        keys.append(parse_key(tokens))
    tokens.expect(")")
    options = context_of(table).schema.options
    if not is_lenient and (unknown := [key for key in keys if key != "comment" and key not in options]):
        raise InvalidOption(
            f"{table.name} has no property {unknown[0]!r} to take away; UNSET TBLPROPERTIES IF EXISTS passes over it",
            key=unknown[0],
        )
    return [changes.set_comment(None) if key == "comment" else changes.reset_option(key) for key in keys]


_ALTERS: tuple[tuple[tuple[str, ...], Callable[[Statement, Table], list[TableChange]]], ...] = (
    (("ADD", "COLUMNS"), _parse_add_columns),
    (("ADD", "COLUMN"), _parse_add_columns),
    (("DROP", "COLUMNS"), _parse_drop_columns),
    (("DROP", "COLUMN"), _parse_drop_columns),
    (("RENAME", "COLUMN"), _parse_rename_column),
    (("ALTER", "COLUMN"), _parse_alter_columns),
    (("ALTER",), _parse_alter_columns),
    (("CHANGE", "COLUMN"), _parse_alter_columns),
    (("CHANGE",), _parse_alter_columns),
    (("SET", "TBLPROPERTIES"), _parse_set_properties),
    (("UNSET", "TBLPROPERTIES"), _parse_unset_properties),
    (("SET",), _parse_set_properties),
    (("RESET",), _parse_unset_properties),
)


# ---- TRUNCATE ------------------------------------------------------------------------------------


def truncate(statement: Statement) -> StatementResult:
    """Execute TRUNCATE TABLE, of the table or a partition of it."""
    tokens = statement.tokens
    tokens.expect("TABLE")
    statement, name = statement.take_name()
    table = statement.table(name)
    partition = partition_of(tokens) if tokens.accept("PARTITION") else None
    tokens.end()
    if partition is None:
        table.truncate()
    else:
        table.drop_partitions([partition])
    return StatementResult()
