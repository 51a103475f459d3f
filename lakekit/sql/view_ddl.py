"""Statements on views, materialized tables, format tables and object tables.

CREATE VIEW shop.recent (id, total) AS SELECT id, total FROM shop.orders WHERE day > '2024-03-01'
CREATE MATERIALIZED TABLE shop.daily PARTITIONED BY (day) FRESHNESS = INTERVAL '30' SECOND AS SELECT …
CREATE TABLE shop.inbox (a INT, b STRING) WITH ('type' = 'format-table', 'file.format' = 'csv')
CREATE TABLE shop.pictures WITH ('type' = 'object-table', 'object-location' = 's3://lake/pictures')
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import polars as pl

from lakekit.catalog import views
from lakekit.catalog.views import MaterializedTable, View
from lakekit.columns import col
from lakekit.errors import ColumnNotFound, InvalidOption, NotFound, Unsupported, ViewNotFound
from lakekit.options.features import FORMAT_TABLE, OBJECT_TABLE
from lakekit.read.table_scan import context_of
from lakekit.sql import ddl, show
from lakekit.sql.backend import StatementResult, parse_properties

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakekit.commit.changes import Commit
    from lakekit.sql.backend import Statement
    from lakekit.types import Field

_VIEW_COLUMNS = "namespace string, viewName string, isTemporary boolean"
_UNITS = ("SECOND", "MINUTE", "HOUR", "DAY")
_CONNECTOR = "paimon"
TABLE_KINDS = (FORMAT_TABLE, OBJECT_TABLE)
"""Values of the property `type` for tables of other kinds."""


# ---- views ---------------------------------------------------------------------------------------


def create_view(statement: Statement, *, or_replace: bool = False) -> StatementResult | None:
    """Execute CREATE VIEW; return None if the statement creates something else."""
    tokens = statement.tokens
    is_temporary = tokens.accept_any("TEMPORARY", "TEMP") is not None
    if not tokens.accept("VIEW"):
        if is_temporary:
            raise tokens.wrong("VIEW: tables last")
        return None
    is_lenient = not or_replace and tokens.accept("IF", "NOT", "EXISTS")
    statement, name = statement.take_name()
    columns = ddl.names(tokens) if tokens.is_next("(") else None
    comment = tokens.string() if tokens.accept("COMMENT") else None
    tokens.expect("AS")
    tokens.refuse_hints(range(tokens.position + 1, tokens.count + 1))
    statement.create_default_database(name)
    if or_replace:
        _drop_replaced_view(statement, name, tokens.remaining_text, columns, is_temporary=is_temporary)
    statement.catalog.create_view(
        name, tokens.remaining_text, columns=columns, comment=comment, temporary=is_temporary, if_not_exists=is_lenient
    )
    return StatementResult()


def _drop_replaced_view(
    statement: Statement, name: str, query: str, columns: Sequence[str] | None, *, is_temporary: bool
) -> None:
    """Drop the old view that CREATE OR REPLACE replaces, once the new view's query has been run.

    Raises the errors of the query; the old view is then left in place.
    """
    old: object = None
    with suppress(NotFound):
        old = statement.catalog.table(name)
    if isinstance(old, View) and old.temporary == is_temporary:
        views.define_view(
            statement.catalog, name, query, columns=columns, dialects=None, comment=None, temporary=is_temporary
        )
        statement.catalog.drop_view(name)


def drop_view(statement: Statement) -> StatementResult | None:
    """Execute DROP VIEW; return None if the statement drops something else."""
    tokens = statement.tokens
    if not any(tokens.accept(*words) for words in (("VIEW",), ("TEMPORARY", "VIEW"), ("TEMP", "VIEW"))):
        return None
    is_lenient = tokens.accept("IF", "EXISTS")
    statement, name = statement.take_name()
    tokens.end()
    statement.catalog.drop_view(name, if_exists=is_lenient)
    return StatementResult()


def show_views(statement: Statement) -> StatementResult | None:
    """Execute SHOW VIEWS and SHOW CREATE VIEW; return None for another SHOW."""
    tokens = statement.tokens
    if tokens.accept("VIEWS"):
        statement, database = show.take_database(statement)
        is_wanted = show.like(statement)
        if show.is_missing_default(statement, database):
            return StatementResult(_VIEW_COLUMNS)
        rows = statement.catalog.views(database).select("database", "view", "temporary").rows()  # scalar: one a view
        rows = [row for row in rows if is_wanted(row[1])]
        return StatementResult(_VIEW_COLUMNS, rows)
    if not tokens.accept("CREATE", "VIEW"):
        return None
    statement, name = statement.take_name()
    tokens.end()
    view: object = statement.catalog.table(name)
    if not isinstance(view, View):
        raise ViewNotFound(f"{name} is a table: SHOW CREATE TABLE {name}", name=name)
    return StatementResult("createtab_stmt string", [(view.to_sql(dialect=statement.tokens.dialect),)])


# ---- materialized tables -------------------------------------------------------------------------


def create_materialized_table(statement: Statement) -> StatementResult:
    """Execute CREATE MATERIALIZED TABLE; the words up to TABLE have been read."""
    tokens = statement.tokens
    is_lenient = tokens.accept("IF", "NOT", "EXISTS")
    statement, name = statement.take_name()
    partitions, comment, options, mode = [], None, {}, "full"
    freshness: str | None = None
    while not tokens.accept("AS"):
        if tokens.accept("PARTITIONED", "BY"):
            partitions = ddl.names(tokens)
        elif tokens.accept("COMMENT"):
            comment = tokens.string()
        elif tokens.accept("WITH"):
            options = parse_properties(tokens)
        elif tokens.accept("REFRESH_MODE"):
            tokens.expect("=")
            mode = tokens.name("FULL")
        elif tokens.accept("FRESHNESS"):
            tokens.expect("=")
            tokens.expect("INTERVAL")
            number = tokens.take("a number", "text", "number").value
            unit = next(
                (unit_name for unit_name in _UNITS if tokens.accept(unit_name) or tokens.accept(f"{unit_name}S")), None
            )
            if unit is None:
                raise tokens.wrong(f"one of {', '.join(_UNITS)}")
            freshness = f"{number} {unit.lower()}"
        else:
            raise tokens.wrong("PARTITIONED BY, COMMENT, WITH, FRESHNESS, REFRESH_MODE, or AS and a query")
    if freshness is None:
        raise InvalidOption(
            f"CREATE MATERIALIZED TABLE {name}: say how old it may be, FRESHNESS = INTERVAL '1' HOUR", key="freshness"
        )
    if is_lenient and statement.catalog.exists(name):
        return StatementResult()
    tokens.refuse_hints(range(tokens.position + 1, tokens.count + 1))
    query = tokens.remaining_text
    statement.create_default_database(name)
    statement.catalog.create_materialized_table(
        name, query, freshness=freshness, partition_keys=partitions, refresh_mode=mode, options=options, comment=comment
    )
    return StatementResult()


def alter_materialized_table(statement: Statement) -> StatementResult:
    """Execute ALTER MATERIALIZED TABLE; the words up to TABLE have been read."""
    tokens, (own, name) = statement.tokens, statement.take_name()
    table = own.table(name)
    if not isinstance(table, MaterializedTable):
        raise NotFound(f"{name} is no materialized table: INSERT OVERWRITE fills others", name=name)
    if tokens.accept("REFRESH"):
        partition = ddl.partition_of(tokens) if tokens.accept("PARTITION") else None
        tokens.end()
        commit = table.refresh(force=True) if partition is None else _refresh_partition(table, partition)
        return StatementResult("snapshot_id long, row_count long", [(commit.snapshot_id, commit.row_count)])
    does = table.suspend if tokens.accept("SUSPEND") else table.resume if tokens.accept("RESUME") else None
    if does is None:
        raise tokens.wrong("REFRESH, SUSPEND or RESUME")
    tokens.end()
    does()
    return StatementResult()


def _refresh_partition(table: MaterializedTable, partition: Mapping[str, str]) -> Commit:
    """Replace the rows of one partition by those that the query gives for it.

    Raises: `ColumnNotFound` for a column that is not a partition column, and the errors of the query and the commit.
    """
    schema = context_of(table).schema
    fields = {field.name: field for field in schema.partition_fields}
    if unknown := [name for name in partition if name not in fields]:
        raise ColumnNotFound(
            f"{table.name} is partitioned by {', '.join(fields) or 'nothing'}, not by {unknown[0]}", name=unknown[0]
        )
    rows = views.scan_query(table.catalog, table.name, table.query)
    wanted = pl.all_horizontal(*(col(name).cast(pl.String) == value for name, value in partition.items()))
    values = {name: ddl.typed_value(value, fields[name]) for name, value in partition.items()}
    return table.overwrite(rows.filter(wanted), partition=values)


# ---- tables of other kinds -----------------------------------------------------------------------


def create_format_or_object_table(
    statement: Statement,
    name: str,
    fields: Sequence[Field],
    properties: dict[str, str],
    *,
    partition_keys: Sequence[str],
    comment: str | None,
    if_not_exists: bool,
) -> bool:
    """Create a format or object table if the properties ask for one, and return whether they do.

    Takes `connector` out of the properties.

    Raises: `Unsupported` for another connector, `InvalidOption` for missing properties.
    """
    connector = properties.pop("connector", _CONNECTOR)
    if connector != _CONNECTOR:
        raise Unsupported(
            f"connector {connector!r}: it makes Paimon tables; leave connector out", feature="catalog.sql"
        )
    kind = properties.get("type")
    if kind not in TABLE_KINDS:
        return False
    if if_not_exists and statement.catalog.exists(name):
        return True
    options = {key: value for key, value in properties.items() if key != "type"}
    needed = "file.format" if kind == FORMAT_TABLE else "object-location"
    if needed not in options:
        raise InvalidOption(f"CREATE TABLE {name}: a {kind} needs {needed!r}", key=needed)
    argument = options.pop(needed)
    if kind == OBJECT_TABLE:
        if fields or partition_keys or options:
            raise InvalidOption(
                f"CREATE TABLE {name}: an object table has columns of its own, and no other property than {needed!r}",
                key="type",
                value=kind,
            )
        statement.catalog.create_object_table(name, location=argument, comment=comment)
        return True
    if comment is not None:
        raise InvalidOption(
            f"CREATE TABLE {name}: a format table keeps no comment; leave COMMENT out", key="comment", value=comment
        )
    location = options.pop("path", None)
    statement.catalog.create_format_table(
        name, fields, format=argument, location=location, partition_keys=partition_keys, options=options
    )
    return True
