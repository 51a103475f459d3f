"""Definitions of tables and databases: CREATE, DROP and TRUNCATE in Spark's and Flink's syntax.

    CREATE TABLE shop.orders (id BIGINT NOT NULL, day STRING COMMENT 'of the order')
        PARTITIONED BY (day) TBLPROPERTIES ('primary-key' = 'id,day')
    CREATE TABLE shop.orders (id BIGINT PRIMARY KEY NOT ENFORCED, day STRING) WITH ('bucket' = '8')

A statement becomes one call of the catalog or the table, after all of it was parsed: it is executed as a whole, or not
at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from lakekit.errors import InvalidOption, SchemaMismatch, Unsupported
from lakekit.sql.backend import StatementResult, parse_properties
from lakekit.types import INTEGERS, STRINGS, Field

if TYPE_CHECKING:
    from lakekit.sql.backend import Statement
    from lakekit.sql.tokenizer import TokenStream
    from lakekit.types import DataType

_USING = ("paimon", "lakekit")
_TYPE_SUFFIXES = (("PRECISION",), ("WITH", "LOCAL", "TIME", "ZONE"), ("WITHOUT", "TIME", "ZONE"))
"""Words of a type behind its parentheses."""
_UNSUPPORTED_OBJECTS = ("FUNCTION", "CATALOG", "INDEX")
_OPEN, _CLOSE = ("(", "<", "["), (")", ">", "]")
_OTHER_CONSTRAINTS = ("CHECK", "UNIQUE", "FOREIGN")


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
    """Parse what follows the name in CREATE TABLE, to its end or to AS: columns in parentheses, and other clauses.

    Before AS the parentheses hold a primary key alone.
    """
    tokens = statement.tokens
    fields, keys = _fields(statement) if tokens.is_next("(") else ([], [])
    at = tokens.next
    partition_keys, comment, options = table_words(statement, fields or None)
    if tokens.is_next("AS"):
        if fields and at is not None:
            raise tokens.source.error(at.start, "CREATE TABLE … AS has the columns of its query: leave them out")
    else:
        tokens.end()
    return CreateTableClause(fields=fields, keys=keys, partition_keys=partition_keys, comment=comment, options=options)


def create_database(statement: Statement) -> StatementResult:
    """Execute CREATE DATABASE; the words up to DATABASE have been read."""
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
    unsupported = next(
        (
            keyword
            for keyword in (*_UNSUPPORTED_OBJECTS, *(["EXTERNAL"] if does == "CREATE" else []))
            if tokens.is_next(keyword)
        ),
        None,
    )
    if unsupported is not None and tokens.next is not None:
        problem = f"{does} {unsupported} is not done: a catalog has tables, views and databases"
        raise Unsupported(tokens.source.error(tokens.next.start, problem).message, feature="catalog.sql")


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
    """Parse the clauses after the columns of CREATE TABLE, up to AS.

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
                "CREATE TABLE … LOCATION: tables of a catalog lie in its warehouse; leave it out, or write "
                "WITH ('connector' = 'paimon', 'path' = …)",
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
            t, comment, default, position = parse_column(statement)
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
    """Parse the columns of CREATE TABLE, and return them and those of its primary key.

    Raises: `SqlError` for a second primary key.
    """
    tokens, fields = statement.tokens, list[Field]()
    keys: list[str] = []
    tokens.expect("(")
    while True:
        _skip_constraint_name(tokens)
        if tokens.is_next("PRIMARY", "KEY"):
            if keys:
                raise tokens.wrong("no second PRIMARY KEY: name its columns in one, as PRIMARY KEY (a, b)")
            tokens.accept("PRIMARY", "KEY")
            keys = names(tokens)
            tokens.accept("NOT", "ENFORCED")
        elif tokens.is_next("WATERMARK") and not tokens.is_after(","):
            raise Unsupported(
                "CREATE TABLE … WATERMARK FOR: watermarks are for streaming engines; leave it out",
                feature="catalog.sql",
            )
        else:
            name = tokens.name("a column")
            t, comment, default, position = parse_column(statement)
            if position.pop("key", False):
                if keys:
                    raise tokens.wrong("no second PRIMARY KEY: name its columns in one, as PRIMARY KEY (a, b)")
                keys.append(name)
            if position:
                raise tokens.wrong("no place: columns stand in the order of the statement")
            fields.append(Field(name, t, comment=comment, default=default))
        if not tokens.accept(","):
            break
    tokens.expect(")")
    return fields, keys


def _skip_constraint_name(tokens: TokenStream) -> None:
    """Take CONSTRAINT and the name before PRIMARY KEY: Paimon keeps no name. Raises `SqlError` before another one."""
    ahead = tokens.fork(2)
    if tokens.is_next("CONSTRAINT") and any(ahead.is_next(word) for word in _OTHER_CONSTRAINTS):
        raise ahead.wrong("PRIMARY KEY: tables have no other constraint")
    if tokens.is_next("CONSTRAINT") and ahead.is_next("PRIMARY", "KEY"):
        tokens.position += 2


def parse_column(statement: Statement) -> tuple[DataType, str | None, str | None, dict[str, Any]]:
    """Parse a column's type, comment, default and position, after its name.

    Where it is the primary key, `key` is in the position.
    """
    tokens = statement.tokens
    t = parse_type(statement)
    comment = default = None
    position: dict[str, Any] = {}
    while True:
        _skip_constraint_name(tokens)
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
        elif tokens.accept("LAST"):
            position = {"last": True}
        elif (side := tokens.accept_any("AFTER", "BEFORE")) is not None:
            position = {side.lower(): ".".join(tokens.names("a column"))}
        else:
            return t, comment, default, position


def _refuse_zone(tokens: TokenStream) -> None:
    """Raise `SqlError` for TIMESTAMP WITH TIME ZONE, which keeps a zone for each value; Paimon has no such type."""
    ahead = tokens.fork(1)
    if ahead.is_next("("):
        ahead.inside()
    word = ahead.next
    if word is not None and ahead.accept("WITH", "TIME", "ZONE"):
        raise tokens.source.error(
            word.start, "no type of Paimon keeps a zone: write TIMESTAMP WITH LOCAL TIME ZONE, a moment, or TIMESTAMP"
        )


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


def parse_type(statement: Statement) -> DataType:
    """Parse a type.

    Raises: `InvalidOption` for what the backend does not know, `SchemaMismatch` for what Paimon does not.
    """
    tokens, first, depth = statement.tokens, statement.tokens.next, 0
    if first is not None and first.text.upper() == "TIMESTAMP":
        _refuse_zone(tokens)
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
        problem = f"no Paimon type holds {text}; write a number of days or milliseconds"
        raise SchemaMismatch(tokens.source.error(first.start, problem).message)
    try:
        return statement.backend.type(text)
    except InvalidOption as wrong:
        problem = wrong.message
    raise tokens.source.error(first.start, problem)


def partition_value(tokens: TokenStream, field: Field) -> Any:
    """Parse the value of a partition column. Raises `SchemaMismatch` for a text that is none of its type."""
    tokens.accept("DATE")
    return typed_value(tokens.take("a literal", "text", "number").value, field)


def typed_value(text: str, field: Field) -> Any:
    """Return the value of a partition column whose text that is.

    Raises: `SchemaMismatch` for a text that is none of its type, `Unsupported` for a type whose texts are not read.
    """
    try:
        if field.type.root in INTEGERS:
            return int(text)
        if field.type.root == "DATE":
            return date.fromisoformat(text)
    except ValueError:
        raise SchemaMismatch(
            f"PARTITION ({field.name} = {text!r}): the column is {field.type}", column=field.name
        ) from None
    if field.type.root not in STRINGS:
        raise Unsupported(
            f"PARTITION ({field.name} = …): values of {field.type} are given by the query; leave the column out of "
            "PARTITION",
            feature="catalog.sql",
        )
    return text


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


# ---- TRUNCATE ------------------------------------------------------------------------------------


def truncate(statement: Statement) -> StatementResult:
    """Execute TRUNCATE TABLE, of the table or a partition of it."""
    tokens = statement.tokens
    tokens.accept("TABLE")
    statement, name = statement.take_name()
    table = statement.table(name)
    partition = partition_of(tokens) if tokens.accept("PARTITION") else None
    tokens.end()
    if partition is None:
        table.truncate()
    else:
        table.drop_partitions([partition])
    return StatementResult()
