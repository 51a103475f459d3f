"""What tables and databases are, by statement: CREATE, DROP, ALTER and TRUNCATE in Spark's words.

    CREATE TABLE shop.orders (id BIGINT NOT NULL, day STRING COMMENT 'of the order') PARTITIONED BY (day) TBLPROPERTIES ('primary-key' = 'id,day')
    ALTER TABLE shop.orders ADD COLUMN total DECIMAL(10, 2) AFTER id

A statement becomes one call of the catalog or the table, after all of it was understood: it is done whole, or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakekit.ddl import schema_changes as changes
from lakekit.errors import InvalidOption, SchemaMismatch, Unsupported
from lakekit.sql.backend import ResultRows
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
    """What CREATE TABLE says of a table, but for its name."""

    fields: list[Field]
    keys: list[str]
    partition_keys: list[str]
    comment: str | None
    options: dict[str, str]


def parse_table_definition(asked: Statement) -> CreateTableClause:
    """What follows the name in CREATE TABLE: columns in parentheses, where there are some, and more."""
    fields, keys = _fields(asked) if asked.words.is_next("(") else ([], [])
    partition_keys, comment, options = table_words(asked, fields)
    asked.words.end()
    return CreateTableClause(fields=fields, keys=keys, partition_keys=partition_keys, comment=comment, options=options)


def create_database(asked: Statement) -> ResultRows:
    """What follows DATABASE in CREATE DATABASE."""
    words = asked.words
    is_lenient, name = words.accept("IF", "NOT", "EXISTS"), words.name("a database")
    comment, given = None, None
    while words.next is not None:
        if words.accept("COMMENT"):
            comment = words.string()
        elif words.accept("WITH", "DBPROPERTIES") or words.accept("WITH", "PROPERTIES"):
            given = properties(words)
        else:
            raise words.wrong("COMMENT or WITH DBPROPERTIES")
    asked.catalog.create_database(name, if_not_exists=is_lenient, comment=comment, properties=given)
    return ResultRows()


def refuse_others(words: TokenStream, does: str) -> None:
    """Raises `Unsupported` for what a catalog has not, by its name."""
    is_replaced = words.accept("OR", "REPLACE")
    if is_replaced:
        what = next((one for one in ("TEMPORARY", "GLOBAL", "VIEW") if words.is_next(one)), "TABLE")
        msg = f"CREATE OR REPLACE {what} is not done: DROP comes first" + (", or INSERT OVERWRITE keeps the table" if what == "TABLE" else "")
        raise Unsupported(msg, feature="catalog.sql")
    found = next((one for one in (*_UNSUPPORTED_OBJECTS, *(["EXTERNAL"] if does == "CREATE" else [])) if words.is_next(one)), None)
    if found is not None:
        raise Unsupported(f"{does} {found} is not done: a catalog has tables, views and databases", feature="catalog.sql")


def drop(asked: Statement) -> ResultRows:
    """DROP DATABASE and DROP TABLE."""
    words = asked.words
    if words.accept("DATABASE") or words.accept("SCHEMA") or words.accept("NAMESPACE"):
        is_lenient, name = words.accept("IF", "EXISTS"), words.name("a database")
        cascade = words.accept("CASCADE")
        if not cascade:
            words.accept("RESTRICT")
        words.end()
        asked.catalog.drop_database(name, cascade=cascade, if_exists=is_lenient)
        return ResultRows()
    words.accept("MATERIALIZED")
    refuse_others(words, "DROP")
    words.expect("TABLE")
    is_lenient, name = words.accept("IF", "EXISTS"), asked.name()
    words.accept("PURGE")
    words.end()
    asked.catalog.drop_table(name, if_exists=is_lenient)
    return ResultRows()


def table_words(asked: Statement, fields: list[Field] | None = None) -> tuple[list[str], str | None, dict[str, str]]:
    """What follows the columns of CREATE TABLE, as far as AS: partition columns, comment, properties. Partition columns with a type join `fields`."""
    words = asked.words
    partitions: list[str] = []
    comment: str | None = None
    options: dict[str, str] = {}
    while words.next is not None and not words.is_next("AS"):
        if words.accept("USING"):
            source = words.name("paimon")
            if source.lower() not in _USING:
                raise Unsupported(f"CREATE TABLE … USING {source}: it makes Paimon tables; leave USING out", feature="catalog.sql")
        elif words.accept("PARTITIONED", "BY"):
            partitions = _partition_columns(asked, fields)
        elif words.accept("COMMENT"):
            comment = words.string()
        elif words.is_next("LOCATION"):
            raise Unsupported("CREATE TABLE … LOCATION: tables of a catalog lie in its warehouse; leave it out, or lk.create(path, …)", feature="catalog.sql")
        elif words.accept("TBLPROPERTIES") or words.accept("OPTIONS") or words.accept("WITH"):
            options |= properties(words)
        else:
            raise words.wrong("USING, PARTITIONED BY, COMMENT or TBLPROPERTIES")
    return partitions, comment, options


def _partition_columns(asked: Statement, fields: list[Field] | None) -> list[str]:
    """The columns of PARTITIONED BY: those of the table, or new ones with their types, which become the last."""
    words = asked.words
    words.expect("(")
    found: list[str] = []
    while not found or words.accept(","):
        name = words.name("a column")
        if words.is_next("("):
            raise Unsupported(f"PARTITIONED BY ({name}(…)): tables are partitioned by columns; make one of the value", feature="catalog.sql")
        if fields is not None and not words.is_next(",") and not words.is_next(")"):
            t, comment, default, place = _column(asked)
            if place:
                raise words.wrong("no place and no PRIMARY KEY, but , or )")
            fields.append(Field(name, t, comment=comment, default=default))
        found.append(name)
    words.expect(")")
    return found


def names(words: TokenStream) -> list[str]:
    """Columns in parentheses."""
    words.expect("(")
    found = [words.name("a column")]
    while words.accept(","):
        found.append(words.name("a column"))
    words.expect(")")
    return found


def properties(words: TokenStream) -> dict[str, str]:
    """Keys and values, as in ('key' = 'value', …)."""
    found: dict[str, str] = {}
    words.expect("(")
    while not words.accept(")"):
        if found:
            words.expect(",")
        key = _key(words)
        words.accept("=")
        found[key] = words.take("a value", "text", "number", "word").value
    return found


def _key(words: TokenStream) -> str:
    word = words.next
    return words.string() if word is not None and word.kind == "text" else ".".join(words.names("a key"))


# ---- columns -------------------------------------------------------------------------------------


def _fields(asked: Statement) -> tuple[list[Field], list[str]]:
    """The columns of CREATE TABLE, and those of its primary key."""
    words, found, keys = asked.words, [], []
    words.expect("(")
    while True:
        if words.accept("PRIMARY", "KEY"):
            keys = names(words)
            words.accept("NOT", "ENFORCED")
        else:
            name = words.name("a column")
            t, comment, default, place = _column(asked)
            if place.pop("key", False):
                keys.append(name)
            if place:
                raise words.wrong("no place: columns stand in the order of the statement")
            found.append(Field(name, t, comment=comment, default=default))
        if not words.accept(","):
            break
    words.expect(")")
    return found, keys


def _column(asked: Statement) -> tuple[DataType, str | None, str | None, dict[str, Any]]:
    """A column's type, comment, default and place, after its name; where it is the primary key, `key` is among the latter."""
    words = asked.words
    t = _type(asked)
    comment = default = None
    place: dict[str, Any] = {}
    while True:
        if words.accept("NOT", "NULL"):
            t = t.not_null()
        elif words.accept("PRIMARY", "KEY"):
            words.accept("NOT", "ENFORCED")
            place["key"] = True
        elif words.accept("COMMENT"):
            comment = words.string()
        elif words.accept("DEFAULT"):
            default = default_of(words)
        elif words.accept("FIRST"):
            place = {"first": True}
        elif words.accept("AFTER"):
            place = {"after": ".".join(words.names("a column"))}
        else:
            return t, comment, default, place


def default_of(words: TokenStream) -> str | None:
    """What stands after DEFAULT, as the text that a table keeps: a literal, a number below zero, DATE or TIMESTAMP before a text; None for NULL."""
    if words.accept("NULL"):
        return None
    sign = "-" if words.accept("-") else ""
    if not sign and any(words.is_next(word) for word in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")):
        words.at += 1
        return words.string()
    if not sign and (words.accept("TRUE") or words.accept("FALSE")):
        return words.before.lower()
    word = words.take("a literal", *(("number",) if sign else ("text", "number")))
    return sign + (word.value.rstrip("lLsSyYdDfF") if word.kind == "number" else word.value)


def _type(asked: Statement) -> DataType:
    """A type. Raises `InvalidOption` for what the door does not know, `SchemaMismatch` for what Paimon does not."""
    words, first, depth = asked.words, asked.words.next, 0
    if first is None or first.kind not in ("word", "quoted"):
        raise words.wrong("a type")
    end = first.end
    words.at += 1
    while (word := words.next) is not None and (depth or word.said in _OPEN):
        depth += (word.said in _OPEN) - (word.said in _CLOSE)
        end = word.end
        words.at += 1
    for more in _TYPE_SUFFIXES:
        if words.is_next(*more):
            end = words.end_of(len(more))
            words.accept(*more)
    text = words.text[first.start : end]
    if first.said.upper() == "INTERVAL":
        raise SchemaMismatch(f"no Paimon type holds {text}; write a number of days or milliseconds")
    return asked.door.type(text)


# ---- ALTER ---------------------------------------------------------------------------------------


def alter(asked: Statement) -> ResultRows:
    """ALTER TABLE and ALTER DATABASE."""
    words = asked.words
    if words.accept("DATABASE") or words.accept("SCHEMA") or words.accept("NAMESPACE"):
        return _alter_database(asked)
    words.expect("TABLE")
    name = asked.name()
    if words.accept("RENAME", "TO"):
        parts = words.names("a name")
        words.end()
        asked.catalog.rename_table(name, asked.full(parts) if len(parts) > 1 else f"{name.partition('.')[0]}.{parts[0]}")
        return ResultRows()
    if words.accept("DROP", "PARTITION") or words.accept("DROP", "IF", "EXISTS", "PARTITION"):
        return _drop_partitions(asked, asked.table(name))
    table = asked.table(name)
    for start, reads in _ALTERS:
        if words.accept(*start):
            made = reads(asked, table)
            words.end()
            if made:
                table.alter(*made)
            return ResultRows()
    raise words.wrong("ADD, DROP, RENAME or ALTER COLUMN, SET or UNSET TBLPROPERTIES, SET or RESET, RENAME TO, or DROP PARTITION")


def _alter_database(asked: Statement) -> ResultRows:
    words, name = asked.words, asked.words.name("a database")
    words.expect("SET")
    if not (words.accept("DBPROPERTIES") or words.accept("PROPERTIES")):
        raise words.wrong("DBPROPERTIES")
    found = properties(words)
    words.end()
    asked.catalog.alter_database(name, set=found)
    return ResultRows()


def _drop_partitions(asked: Statement, table: Table) -> ResultRows:
    words = asked.words
    found = [partition_of(words)]
    while words.accept(","):
        words.expect("PARTITION")
        found.append(partition_of(words))
    words.end()
    table.drop_partitions(found)
    return ResultRows()


def partition_of(words: TokenStream) -> dict[str, str]:
    """Partition columns and their values, as in (dt = '2024-03-31', hour = 7)."""
    found = {}
    words.expect("(")
    while True:
        key = words.name("a partition column")
        words.expect("=")
        found[key] = words.take("a literal", "text", "number").value
        if not words.accept(","):
            break
    words.expect(")")
    return found


def _path(words: TokenStream) -> str:
    return ".".join(words.names("a column"))


def _parse_add_columns(asked: Statement, table: Table) -> list[TableChange]:  # noqa: ARG001 - as its kind
    words = asked.words
    in_parentheses = words.accept("(")
    found = [_parse_added_column(asked)]
    while words.accept(","):
        found.append(_parse_added_column(asked))
    if in_parentheses:
        words.expect(")")
    return found


def _parse_added_column(asked: Statement) -> TableChange:
    name = _path(asked.words)
    t, comment, default, place = _column(asked)
    if place.pop("key", False):
        raise asked.words.wrong("no PRIMARY KEY: keys are for CREATE TABLE")
    if default is not None:
        raise asked.words.wrong("no DEFAULT: set it with ALTER COLUMN afterwards")
    return changes.add_column(name, t, comment=comment, **place)


def _parse_drop_columns(asked: Statement, table: Table) -> list[TableChange]:
    words = asked.words
    is_lenient, in_parentheses = words.accept("IF", "EXISTS"), words.accept("(")
    paths = [_path(words)]
    while words.accept(","):
        paths.append(_path(words))
    if in_parentheses:
        words.expect(")")
    there = table.handle().schema
    return [changes.drop_column(path) for path in paths if not is_lenient or "." in path or there.has(path)]


def _parse_rename_column(asked: Statement, table: Table) -> list[TableChange]:  # noqa: ARG001 - as its kind
    old = _path(asked.words)
    asked.words.expect("TO")
    return [changes.rename_column(old, asked.words.name())]


def _parse_alter_columns(asked: Statement, table: Table) -> list[TableChange]:  # noqa: ARG001 - as its kind
    """ALTER COLUMN c TYPE t, COMMENT 'x', FIRST, AFTER d, SET or DROP NOT NULL, SET or DROP DEFAULT; of several columns with commas between them."""
    found = _parse_altered_column(asked)
    while asked.words.accept(","):
        found += _parse_altered_column(asked)
    return found


def _parse_altered_column(asked: Statement) -> list[TableChange]:
    words, name = asked.words, _path(asked.words)
    if words.accept("TYPE"):
        return [changes.update_type(name, _type(asked))]
    if words.accept("COMMENT"):
        return [changes.update_comment(name, words.string())]
    if words.accept("FIRST"):
        return [changes.move_column(name, first=True)]
    if words.accept("AFTER"):
        return [changes.move_column(name, after=words.name("a column"))]
    if words.accept("SET", "NOT", "NULL"):
        return [changes.update_nullability(name, nullable=False)]
    if words.accept("DROP", "NOT", "NULL"):
        return [changes.update_nullability(name, nullable=True)]
    if words.accept("SET", "DEFAULT"):
        return [changes.update_default(name, default_of(words))]
    if words.accept("DROP", "DEFAULT"):
        return [changes.update_default(name, None)]
    raise words.wrong("TYPE, COMMENT, FIRST, AFTER, SET or DROP NOT NULL, SET or DROP DEFAULT")


def _parse_set_properties(asked: Statement, table: Table) -> list[TableChange]:  # noqa: ARG001 - as its kind
    if not asked.words.is_next("("):
        raise asked.words.wrong("TBLPROPERTIES (…), or keys and values in parentheses")
    found = properties(asked.words)
    return [changes.set_comment(value) if key == "comment" else changes.set_option(key, value) for key, value in found.items()]


def _parse_unset_properties(asked: Statement, table: Table) -> list[TableChange]:
    words = asked.words
    is_lenient = words.accept("IF", "EXISTS")
    words.expect("(")
    keys = [_key(words)]
    while words.accept(","):
        keys.append(_key(words))
    words.expect(")")
    there = table.handle().schema.options
    if not is_lenient and (unknown := [key for key in keys if key != "comment" and key not in there]):
        raise InvalidOption(f"{table.name} has no property {unknown[0]!r} to take away; UNSET TBLPROPERTIES IF EXISTS passes over it", key=unknown[0])
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


def truncate(asked: Statement) -> ResultRows:
    """TRUNCATE TABLE, whole or a partition of it."""
    words = asked.words
    words.expect("TABLE")
    table = asked.table(asked.name())
    partition = partition_of(words) if words.accept("PARTITION") else None
    words.end()
    if partition is None:
        table.truncate()
    else:
        table.drop_partitions([partition])
    return ResultRows()
