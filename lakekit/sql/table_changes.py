"""ALTER: columns and options of tables in Spark's and in Flink's words, partitions, tags, databases.

    ALTER TABLE shop.orders ADD COLUMN total DECIMAL(10, 2) AFTER id     ALTER TABLE shop.orders ADD (a INT, b INT)
    ALTER TABLE shop.orders ALTER COLUMN total TYPE DOUBLE               ALTER TABLE shop.orders MODIFY total DOUBLE
    ALTER TABLE shop.orders SET ('bucket' = '4')                         ALTER TABLE shop.orders RESET ('bucket')
    ALTER TABLE shop.orders DROP PARTITION (day = '2024-03-31')          ALTER TABLE shop.orders CREATE TAG v1

A statement becomes one call of the catalog or the table, after all of it was parsed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekit.ddl import schema_changes as changes
from lakekit.errors import InvalidOption, Unsupported
from lakekit.read.table_scan import context_of
from lakekit.sql.backend import StatementResult, parse_key, parse_properties
from lakekit.sql.ddl import default_of, parse_column, parse_type, partition_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.ddl.schema_changes import TableChange
    from lakekit.model.table_schema import TableSchema
    from lakekit.sql.backend import Statement
    from lakekit.sql.tokenizer import TokenStream
    from lakekit.table.table import Table
    from lakekit.types import Field

_DATABASE_WORDS = ("DATABASE", "SCHEMA", "NAMESPACE")
_AGES = {"DAYS": "d", "HOURS": "h", "MINUTES": "min", "DAY": "d", "HOUR": "h", "MINUTE": "min"}
"""Units behind RETAIN."""


def alter(statement: Statement) -> StatementResult:
    """Execute ALTER TABLE and ALTER DATABASE."""
    tokens = statement.tokens
    if tokens.accept_any(*_DATABASE_WORDS):
        return _alter_database(statement)
    tokens.expect("TABLE")
    is_lenient = tokens.accept("IF", "EXISTS")
    statement, name = statement.take_name()
    if is_lenient and not statement.catalog.exists(name):
        return StatementResult()
    if tokens.accept("RENAME", "TO"):
        return _rename_table(statement, name)
    table = statement.table(name)
    for start, run in _ACTIONS:
        if tokens.accept(*start):
            run(statement, table)
            return StatementResult()
    for start, reads in _ALTERS:
        if tokens.accept(*start):
            made = reads(statement, table)
            tokens.end()
            if made:
                table.alter(*made)
            return StatementResult()
    raise tokens.wrong(
        "ADD, DROP, RENAME, ALTER or MODIFY and columns, SET or UNSET TBLPROPERTIES, SET or RESET, RENAME TO, DROP "
        "PARTITION, or CREATE, REPLACE, RENAME or DELETE TAG"
    )


def comment_on(statement: Statement) -> StatementResult:
    """Execute COMMENT ON TABLE and COMMENT ON COLUMN."""
    tokens = statement.tokens
    tokens.expect("ON")
    kind = tokens.accept_any("TABLE", "COLUMN")
    if kind is None:
        raise tokens.wrong("TABLE or COLUMN")
    parts = tokens.names("a table, as database.table")
    column = parts.pop() if kind == "COLUMN" else None
    if not parts:
        raise tokens.wrong("a column, as database.table.column, before it")
    tokens.expect("IS")
    comment = None if tokens.accept("NULL") else tokens.string()
    tokens.end()
    own, name = statement.locate(parts)
    change = changes.set_comment(comment) if column is None else changes.update_comment(column, comment)
    own.table(name).alter(change)
    return StatementResult()


def _alter_database(statement: Statement) -> StatementResult:
    tokens, (statement, name) = statement.tokens, statement.take_database()
    tokens.expect("SET")
    if not (tokens.accept("DBPROPERTIES") or tokens.accept("PROPERTIES") or tokens.is_next("(")):
        raise tokens.wrong("DBPROPERTIES")
    changed = parse_properties(tokens)
    tokens.end()
    statement.catalog.alter_database(name, set=changed)
    return StatementResult()


def _rename_table(statement: Statement, name: str) -> StatementResult:
    parts = statement.tokens.names("a name")
    statement.tokens.end()
    if len(parts) > 2:
        raise InvalidOption(f"{'.'.join(parts)}: a table keeps its catalog; write database.table", key="sql")
    new = statement.full(parts) if len(parts) > 1 else f"{name.partition('.')[0]}.{parts[0]}"
    statement.catalog.rename_table(name, new)
    return StatementResult()


# ---- partitions and tags -------------------------------------------------------------------------


def _drop_partitions(statement: Statement, table: Table) -> None:
    tokens = statement.tokens
    partitions = [partition_of(tokens)]
    while tokens.accept(","):
        tokens.expect("PARTITION")
        partitions.append(partition_of(tokens))
    tokens.end()
    table.drop_partitions(partitions)


def _refuse_added_partition(statement: Statement, table: Table) -> None:  # noqa: ARG001 - as its kind
    raise Unsupported(
        f"{table.name}: ADD PARTITION is not done; a partition is made by its first rows", feature="catalog.sql"
    )


def _create_tag(statement: Statement, table: Table) -> None:
    tokens = statement.tokens
    is_lenient, tag = tokens.accept("IF", "NOT", "EXISTS"), _tag(tokens)
    snapshot, retain = _tag_options(tokens)
    if is_lenient and tag in set(table.tags()["tag"]):
        return
    table.create_tag(tag, at=snapshot, retain=retain)


def _put_tag(statement: Statement, table: Table) -> None:
    """Execute CREATE OR REPLACE TAG: the tag is moved where it is, else made."""
    tag = _tag(statement.tokens)
    snapshot, retain = _tag_options(statement.tokens)
    put = table.replace_tag if tag in set(table.tags()["tag"]) else table.create_tag
    put(tag, at=snapshot, retain=retain)


def _replace_tag(statement: Statement, table: Table) -> None:
    tag = _tag(statement.tokens)
    snapshot, retain = _tag_options(statement.tokens)
    table.replace_tag(tag, at=snapshot, retain=retain)


def _rename_tag(statement: Statement, table: Table) -> None:
    old = _tag(statement.tokens)
    statement.tokens.expect("TO")
    new = _tag(statement.tokens)
    statement.tokens.end()
    table.rename_tag(old, new)


def _delete_tag(statement: Statement, table: Table) -> None:
    tokens = statement.tokens
    is_lenient, tag = tokens.accept("IF", "EXISTS"), _tag(tokens)
    tokens.end()
    if is_lenient and tag not in set(table.tags()["tag"]):
        return
    table.delete_tag(tag)


def _tag(tokens: TokenStream) -> str:
    return tokens.take("the name of a tag", "word", "quoted", "text").value


def _tag_options(tokens: TokenStream) -> tuple[int | None, str | None]:
    """Parse AS OF VERSION 3 RETAIN 24 HOURS, to the end."""
    snapshot = retain = None
    if tokens.accept("AS", "OF"):
        tokens.accept("VERSION")
        snapshot = _whole_number(tokens, "the number of a snapshot")
    if tokens.accept("RETAIN"):
        number, unit = _whole_number(tokens, "a number"), tokens.accept_any(*_AGES)
        if unit is None:
            raise tokens.wrong("DAYS, HOURS or MINUTES")
        retain = f"{number} {_AGES[unit]}"
    tokens.end()
    return snapshot, retain


def _whole_number(tokens: TokenStream, what: str) -> int:
    word = tokens.next
    if word is None or word.kind not in ("number", "text") or not word.value.isdecimal():
        raise tokens.wrong(what)
    return int(tokens.take(what, "number", "text").value)


_ACTIONS: tuple[tuple[tuple[str, ...], Callable[[Statement, Table], None]], ...] = (
    (("DROP", "PARTITION"), _drop_partitions),
    (("DROP", "IF", "EXISTS", "PARTITION"), _drop_partitions),
    (("ADD", "PARTITION"), _refuse_added_partition),
    (("ADD", "IF", "NOT", "EXISTS", "PARTITION"), _refuse_added_partition),
    (("CREATE", "OR", "REPLACE", "TAG"), _put_tag),
    (("CREATE", "TAG"), _create_tag),
    (("REPLACE", "TAG"), _replace_tag),
    (("RENAME", "TAG"), _rename_tag),
    (("DELETE", "TAG"), _delete_tag),
    (("DROP", "TAG"), _delete_tag),
)
"""What follows the table's name, and the function that does it."""


# ---- columns -------------------------------------------------------------------------------------


def _path(tokens: TokenStream) -> str:
    return ".".join(tokens.names("a column"))


def _listed(statement: Statement, parse: Callable[[Statement], list[TableChange]]) -> list[TableChange]:
    """Parse changes with commas between them, in parentheses or without."""
    tokens = statement.tokens
    in_parentheses = tokens.accept("(")
    made = parse(statement)
    while tokens.accept(","):
        made += parse(statement)
    if in_parentheses:
        tokens.expect(")")
    return made


def _parse_add_columns(statement: Statement, table: Table) -> list[TableChange]:
    schema = context_of(table).schema
    return _listed(statement, lambda one: _parse_added_column(one, schema))


def _parse_added_column(statement: Statement, schema: TableSchema) -> list[TableChange]:
    """Parse a column to add; with IF NOT EXISTS before it none where it is there."""
    tokens = statement.tokens
    is_lenient = tokens.accept("IF", "NOT", "EXISTS")
    if tokens.is_next("WATERMARK") or tokens.is_next("PRIMARY", "KEY") or tokens.is_next("CONSTRAINT"):
        raise tokens.wrong("a column: keys are for CREATE TABLE, and watermarks for streaming engines")
    name = _path(tokens)
    t, comment, default, position = parse_column(statement)
    if position.pop("key", False):
        raise tokens.wrong("no PRIMARY KEY: keys are for CREATE TABLE")
    if is_lenient and schema.has(name):
        return []
    return [changes.add_column(name, t, comment=comment, default=default, **position)]


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
    if tokens.accept("TYPE") or tokens.accept("SET", "DATA", "TYPE"):
        return [changes.update_type(name, parse_type(statement))]
    if tokens.accept("COMMENT"):
        return [changes.update_comment(name, None if tokens.accept("NULL") else tokens.string())]
    if tokens.accept("DROP", "COMMENT"):
        return [changes.update_comment(name, None)]
    position = _position(tokens)
    if position:
        return [changes.move_column(name, **position)]
    if tokens.accept("SET", "NOT", "NULL"):
        return [changes.update_nullability(name, nullable=False)]
    if tokens.accept("DROP", "NOT", "NULL"):
        return [changes.update_nullability(name, nullable=True)]
    if tokens.accept("SET", "DEFAULT"):
        return [changes.update_default(name, default_of(tokens))]
    if tokens.accept("DROP", "DEFAULT"):
        return [changes.update_default(name, None)]
    raise tokens.wrong("TYPE, COMMENT, FIRST, LAST, AFTER, BEFORE, SET or DROP NOT NULL, SET or DROP DEFAULT")


def _position(tokens: TokenStream) -> dict[str, Any]:
    if tokens.accept("FIRST"):
        return {"first": True}
    if tokens.accept("LAST"):
        return {"last": True}
    if tokens.accept("AFTER"):
        return {"after": _path(tokens)}
    return {"before": _path(tokens)} if tokens.accept("BEFORE") else {}


def _parse_modify_columns(statement: Statement, table: Table) -> list[TableChange]:
    """Parse MODIFY, of one column or several in parentheses: what differs from the column that is there."""
    fields = context_of(table).schema.fields
    return _listed(statement, lambda one: _parse_modified_column(one, fields))


def _parse_modified_column(statement: Statement, fields: tuple[Field, ...]) -> list[TableChange]:
    name = _path(statement.tokens)
    t, comment, default, position = parse_column(statement)
    if position.pop("key", False):
        raise statement.tokens.wrong("no PRIMARY KEY: keys are for CREATE TABLE")
    made: list[TableChange] = []
    own = next((field for field in fields if field.name == name), None)
    if own is None or str(own.type.as_nullable()) != str(t.as_nullable()):
        made.append(changes.update_type(name, t.as_nullable()))
    if own is not None and own.type.nullable != t.nullable:
        made.append(changes.update_nullability(name, nullable=t.nullable))
    if comment is not None:
        made.append(changes.update_comment(name, comment))
    if default is not None:
        made.append(changes.update_default(name, default))
    if position:
        made.append(changes.move_column(name, **position))
    return made


# ---- options -------------------------------------------------------------------------------------


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
    (("ADD",), _parse_add_columns),
    (("DROP", "COLUMNS"), _parse_drop_columns),
    (("DROP", "COLUMN"), _parse_drop_columns),
    (("DROP",), _parse_drop_columns),
    (("RENAME", "COLUMN"), _parse_rename_column),
    (("RENAME",), _parse_rename_column),
    (("ALTER", "COLUMN"), _parse_alter_columns),
    (("ALTER",), _parse_alter_columns),
    (("CHANGE", "COLUMN"), _parse_alter_columns),
    (("CHANGE",), _parse_alter_columns),
    (("MODIFY", "COLUMN"), _parse_modify_columns),
    (("MODIFY",), _parse_modify_columns),
    (("SET", "TBLPROPERTIES"), _parse_set_properties),
    (("UNSET", "TBLPROPERTIES"), _parse_unset_properties),
    (("SET",), _parse_set_properties),
    (("RESET",), _parse_unset_properties),
)
"""What follows the table's name, and the function that reads the changes."""
