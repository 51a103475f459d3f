"""What a catalog holds besides tables of rows, by statement: views, materialized tables, folders and listings as tables.

CREATE VIEW shop.recent (id, total) AS SELECT id, total FROM shop.orders WHERE day > '2024-03-01'
CREATE MATERIALIZED TABLE shop.daily PARTITIONED BY (day) FRESHNESS = INTERVAL '30' SECOND AS SELECT …
CREATE TABLE shop.inbox (a INT, b STRING) WITH ('type' = 'format-table', 'file.format' = 'csv')
CREATE TABLE shop.pictures WITH ('type' = 'object-table', 'object-location' = 's3://lake/pictures')
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.catalog.materialized import MaterializedTable
from lakekit.catalog.views import View
from lakekit.errors import InvalidOption, NotFound, Unsupported, ViewNotFound
from lakekit.format_table.kinds import FORMAT_TABLE
from lakekit.options.features import OBJECTS
from lakekit.sql import ddl
from lakekit.sql.backend import ResultRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.sql.backend import Statement
    from lakekit.types import Field

_UNITS = ("SECOND", "MINUTE", "HOUR", "DAY")
_CONNECTOR = "paimon"


# ---- views ---------------------------------------------------------------------------------------


def create_view(asked: Statement) -> ResultRows | None:
    """What follows CREATE, where a view does; else None."""
    words = asked.words
    is_temporary = words.accept("TEMPORARY")
    if not words.accept("VIEW"):
        if is_temporary:
            raise words.wrong("VIEW: tables last")
        return None
    is_lenient, name = words.accept("IF", "NOT", "EXISTS"), asked.name()
    columns = ddl.names(words) if words.is_next("(") else None
    comment = words.string() if words.accept("COMMENT") else None
    words.expect("AS")
    asked.catalog.create_view(name, words.rest, columns=columns, comment=comment, temporary=is_temporary, if_not_exists=is_lenient)
    return ResultRows()


def drop_view(asked: Statement) -> ResultRows | None:
    """What follows DROP, where a view does; else None."""
    words = asked.words
    if not words.accept("VIEW") and not words.accept("TEMPORARY", "VIEW"):
        return None
    is_lenient, name = words.accept("IF", "EXISTS"), asked.name()
    words.end()
    asked.catalog.drop_view(name, if_exists=is_lenient)
    return ResultRows()


def show_view(asked: Statement) -> ResultRows | None:
    """What follows SHOW, where views do; else None."""
    words = asked.words
    if words.accept("VIEWS"):
        database = words.name("a database") if words.accept("IN") or words.accept("FROM") else asked.door.database
        words.end()
        rows = asked.catalog.views(database).select("database", "view", "temporary").rows()  # scalar: one a view
        return ResultRows("namespace string, viewName string, isTemporary boolean", rows)
    if not words.accept("CREATE", "VIEW"):
        return None
    name = asked.name()
    words.end()
    found: object = asked.catalog.table(name)
    if not isinstance(found, View):
        raise ViewNotFound(f"{name} is a table: SHOW CREATE TABLE {name}", name=name)
    return ResultRows("createtab_stmt string", [(found.to_sql(),)])


# ---- materialized tables -------------------------------------------------------------------------


def create_materialized(asked: Statement) -> ResultRows:
    """What follows MATERIALIZED TABLE in CREATE."""
    words = asked.words
    is_lenient, name = words.accept("IF", "NOT", "EXISTS"), asked.name()
    partitions, comment, options, mode = [], None, {}, "full"
    freshness: str | None = None
    while not words.accept("AS"):
        if words.accept("PARTITIONED", "BY"):
            partitions = ddl.names(words)
        elif words.accept("COMMENT"):
            comment = words.string()
        elif words.accept("WITH"):
            options = ddl.properties(words)
        elif words.accept("REFRESH_MODE"):
            words.expect("=")
            mode = words.name("FULL")
        elif words.accept("FRESHNESS"):
            words.expect("=")
            words.expect("INTERVAL")
            number = words.take("a number", "text", "number").value
            unit = next((one for one in _UNITS if words.accept(one) or words.accept(f"{one}S")), None)
            if unit is None:
                raise words.wrong(f"one of {', '.join(_UNITS)}")
            freshness = f"{number} {unit.lower()}"
        else:
            raise words.wrong("PARTITIONED BY, COMMENT, WITH, FRESHNESS, REFRESH_MODE, or AS and a query")
    if freshness is None:
        raise InvalidOption(f"CREATE MATERIALIZED TABLE {name}: say how old it may be, FRESHNESS = INTERVAL '1' HOUR", key="freshness")
    if is_lenient and asked.catalog.exists(name):
        return ResultRows()
    query = words.rest
    asked.catalog.create_materialized_table(name, query, freshness=freshness, partition_keys=partitions, refresh_mode=mode, options=options, comment=comment)
    return ResultRows()


def alter_materialized(asked: Statement) -> ResultRows:
    """What follows MATERIALIZED TABLE in ALTER."""
    words, name = asked.words, asked.name()
    found = asked.table(name)
    if not isinstance(found, MaterializedTable):
        raise NotFound(f"{name} is no materialized table: INSERT OVERWRITE fills others", name=name)
    if words.accept("REFRESH"):
        words.end()
        commit = found.refresh(force=True)
        return ResultRows("snapshot_id long, row_count long", [(commit.snapshot_id, commit.row_count)])
    does = found.suspend if words.accept("SUSPEND") else found.resume if words.accept("RESUME") else None
    if does is None:
        raise words.wrong("REFRESH, SUSPEND or RESUME")
    words.end()
    does()
    return ResultRows()


# ---- tables of other kinds -----------------------------------------------------------------------


def create_format_or_object_table(
    asked: Statement, name: str, fields: Sequence[Field], properties: dict[str, str], *, partition_keys: Sequence[str], comment: str | None, is_lenient: bool
) -> bool:
    """Whether the properties of CREATE TABLE ask for a folder or a listing as a table, which is made then.

    Takes `connector` out of them. Raises `Unsupported` for another connector, `InvalidOption` for properties that are missing.
    """
    connector = properties.pop("connector", _CONNECTOR)
    if connector != _CONNECTOR:
        raise Unsupported(f"connector {connector!r}: it makes Paimon tables; leave connector out", feature="catalog.sql")
    kind = properties.get("type")
    if kind not in (FORMAT_TABLE, OBJECTS):
        return False
    if is_lenient and asked.catalog.exists(name):
        return True
    given = {key: value for key, value in properties.items() if key != "type"}
    needed = "file.format" if kind == FORMAT_TABLE else "object-location"
    if needed not in given:
        raise InvalidOption(f"CREATE TABLE {name}: a {kind} needs {needed!r}", key=needed)
    said = given.pop(needed)
    if kind == OBJECTS:
        if fields or partition_keys or given:
            raise InvalidOption(f"CREATE TABLE {name}: an object table has columns of its own, and no other property than {needed!r}", key="type", value=kind)
        asked.catalog.create_object_table(name, location=said, comment=comment)
        return True
    if comment is not None:
        raise InvalidOption(f"CREATE TABLE {name}: a format table keeps no comment; leave COMMENT out", key="comment", value=comment)
    location = given.pop("path", None)
    asked.catalog.create_format_table(name, fields, format=said, location=location, partition_keys=partition_keys, options=given)
    return True
