"""Views and materialized tables: queries under names in a catalog.

    cat["shop.recent"].scan()        a view; a metastore stores it as this text (JDBC: a row, on one line):
    {"fields": [{"id": 0, "name": "k", "type": "BIGINT"}], "query": "SELECT …",
     "dialects": {"spark": "SELECT …"}, "comment": "…", "options": {}}

    m = cat.create_materialized_table("shop.daily", "SELECT day, sum(total) AS total FROM shop.orders GROUP BY day",
                                      freshness="1 h")
    m.refresh()          nothing, while the newest snapshot is younger than an hour; else the query, in a new snapshot

A temporary view lives as long as its `Catalog` object; others live in the metastore. A table and a view do not share a
name. A query names tables with their database, or those of the view's own. A materialized table stores the rows of its
query, and every engine reads them as those of any table. Flink runs the query by itself; here a timer or job calls
`refresh`. The query, its freshness and state are options of the table as Flink writes them.

Source: ENGINE.md 9.3, 9.6; `ViewSchema`; "Materialized table" of Flink's documentation.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit import maintenance, plugins
from lakekit.catalog.metastore import SupportsViews, join_names, suggest_name
from lakekit.columns import col
from lakekit.commit.committer import commit_changes_once
from lakekit.ddl.schema_changes import set_option
from lakekit.errors import (
    CommitStateUnknown,
    Corrupt,
    InvalidOption,
    LakekitError,
    Unsupported,
    ViewAlreadyExists,
    ViewNotFound,
)
from lakekit.format.polars_types import paimon_type
from lakekit.metadata import snapshots
from lakekit.model import json_codec
from lakekit.options.option import FrozenDict
from lakekit.table import Table
from lakekit.table.format_tables import to_table_of_kind
from lakekit.table.schema import check_dialect
from lakekit.types import Field, field_from_json, field_to_json, first_duplicate, quote, quote_identifier, text_literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta

    from lakekit.catalog.identifier import Identifier
    from lakekit.catalog.metastore import Metastore, TableCatalog
    from lakekit.commit.changes import Commit


VIEWS_FEATURE = "catalog.views"
LISTING_COLUMNS = {
    "database": pl.String,
    "view": pl.String,
    "temporary": pl.Boolean,
    "query": pl.String,
    "comment": pl.String,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A query under the name "db.v": a name to scan.

    `dialects`: the query in the dialects of other engines, by their names.
    """

    catalog: TableCatalog
    name: str
    query: str
    fields: tuple[Field, ...]
    dialects: Mapping[str, str]
    comment: str | None = None
    temporary: bool = False

    def scan(self) -> pl.LazyFrame:
        """Return the rows of its query as of now, with the view's column names.

        Raises what the query raises, `InvalidOption` if its columns have changed.
        """
        frame = scan_query(self.catalog, self.name, self.query)
        query_columns = frame.collect_schema().names()
        names = [field.name for field in self.fields]
        if len(query_columns) != len(names):
            msg = (
                f"view {self.name} has the columns {', '.join(names)}, and its query now gives "
                f"{', '.join(query_columns)}: make it again"
            )
            raise InvalidOption(msg, key="query", value=self.query[:200])
        return frame.select(col(own).alias(name) for own, name in zip(query_columns, names, strict=True))

    def to_sql(self, *, dialect: str = "lakekit") -> str:
        """Return the CREATE VIEW statement that would make a view like this one.

        `dialect` is "lakekit" (`cat.sql`) or "spark" (`ls.sql`), whose query is that of `dialects` where there is one.
        """
        check_dialect(dialect)
        name = ".".join(map(quote, self.name.split(".", 1)))
        columns = ", ".join(quote_identifier(field.name) for field in self.fields)
        comment = "" if self.comment is None else f" COMMENT {text_literal(self.comment, dialect)}"
        query = self.dialects.get(dialect, self.query)
        return f"CREATE {'TEMPORARY ' if self.temporary else ''}VIEW {name} ({columns}){comment} AS {query}"

    def __repr__(self) -> str:
        return f"View {self.name} AS {self.query[:200]}"


def scan_query(catalog: TableCatalog, name: str, query: str) -> pl.LazyFrame:
    """Return the rows of a view's query. Raises `InvalidOption` for a text that is no query."""
    frame = plugins.load("sql", "duckdb-backend").query(catalog, query, name.partition(".")[0])
    assert isinstance(frame, pl.LazyFrame)
    return frame


def define_view(
    catalog: TableCatalog,
    name: str,
    query: str,
    *,
    columns: Sequence[str] | None,
    dialects: Mapping[str, str] | None,
    comment: str | None,
    temporary: bool,
) -> View:
    """Return a view of a query that can be executed now.

    Raises what the query raises, `InvalidOption` for names that are not one for each of its columns.
    """
    query_schema = scan_query(catalog, name, query).collect_schema()
    wanted = query_schema.names() if columns is None else list(columns)
    if len(wanted) != len(query_schema) or len(set(wanted)) != len(wanted):
        msg = (
            f"view {name}: {', '.join(wanted)} are to be the names of the columns {', '.join(query_schema)}; give "
            "each its own"
        )
        raise InvalidOption(msg, key="columns", value=None)
    fields = tuple(
        Field(column, paimon_type(dtype, column), id=at)
        for at, (column, dtype) in enumerate(zip(wanted, query_schema.dtypes(), strict=True))
    )
    return View(
        catalog=catalog,
        name=name,
        query=query,
        fields=fields,
        dialects=FrozenDict(dialects or {}),
        comment=comment,
        temporary=temporary,
    )


def find_view(
    catalog: TableCatalog, metastore: Metastore, name: Identifier, temporary: Mapping[str, View]
) -> View | None:
    """Return the view of a name, if there is one."""
    own = temporary.get(name.full)
    if own is not None:
        return own
    text = read_stored_views(metastore, name.database).get(name.table)
    return None if text is None else from_text(catalog, name.full, text, metastore.address)


def existing_view(view: View, *, if_not_exists: bool) -> View:
    """Return an existing view, where that is no error. Raises `ViewAlreadyExists`."""
    if if_not_exists:
        return view
    raise ViewAlreadyExists(
        f"{view.name} is a view already: cat.drop_view removes it, if_not_exists=True leaves it", name=view.name
    )


def list_views(views: Sequence[View]) -> pl.DataFrame:
    """Return a row for each view, by name."""
    rows = [
        (*view.name.split(".", 1), view.temporary, view.query, view.comment)
        for view in sorted(views, key=lambda view: view.name)
    ]
    return pl.DataFrame(rows, schema=LISTING_COLUMNS, orient="row")


def to_text(view: View) -> str:
    """Return the text of a view for a metastore."""
    members = {
        "fields": [field_to_json(field) for field in view.fields],
        "query": view.query,
        "dialects": dict(view.dialects),
    }
    return json.dumps(
        {**members, **({} if view.comment is None else {"comment": view.comment}), "options": {}}, ensure_ascii=False
    )


def from_text(catalog: TableCatalog, name: str, text: str, location: str) -> View:
    """Return the view of a metastore's text. Raises `Corrupt`."""
    try:
        read = json_codec.loads(text.encode("utf-8", "surrogatepass"))
        fields = tuple(field_from_json(member) for member in read["fields"])
        query, dialects, comment = read["query"], read.get("dialects") or {}, read.get("comment")
    except Corrupt as wrong:
        raise _corrupt_view(location, name, wrong.message) from None
    except LakekitError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as wrong:
        raise _corrupt_view(location, name, str(wrong)) from None
    if (twice := first_duplicate(field.name for field in fields)) is not None:
        raise _corrupt_view(location, name, f"two of its columns are called {twice}")
    if not isinstance(query, str) or not isinstance(dialects, dict) or not isinstance(comment, str | None):
        raise _corrupt_view(location, name, "its query, dialects or comment are no texts")
    return View(catalog=catalog, name=name, query=query, fields=fields, dialects=dialects, comment=comment)


def _corrupt_view(location: str, name: str, problem: str) -> Corrupt:
    return Corrupt(f"what {location} keeps of view {name} is none: {problem[:200]}", path=location, field="view_schema")


def missing_view(name: str, names: Sequence[str]) -> ViewNotFound:
    """Return the error for a missing view."""
    has = f"there are {join_names(names)}" if names else "there are none"
    return ViewNotFound(f"no view {name[:200]!a}: {has}{suggest_name(name.rpartition('.')[2], names)}", name=name)


def read_stored_views(metastore: Metastore, database: str) -> dict[str, str]:
    """Return the stored texts of the views of a database, by name."""
    return metastore.views(database) if isinstance(metastore, SupportsViews) else {}


def without_view(metastore: Metastore, name: Identifier) -> bool:
    """Remove a view of that name from a metastore; return whether there was one."""
    return isinstance(metastore, SupportsViews) and metastore.drop_view(name)


def require_view_store(metastore: Metastore) -> SupportsViews:
    """Return the metastore, if it stores views. Raises `Unsupported`."""
    if isinstance(metastore, SupportsViews):
        return metastore
    instead = "pass temporary=True for one that this catalog object knows, or connect with metastore='jdbc'"
    raise Unsupported(f'"{metastore.address}" keeps no views: {instead}', feature=VIEWS_FEATURE)


# ---- materialized tables -----------------------------------------------------


MATERIALIZED_TABLE = "materialized-table"
_MS_OF_UNIT = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000}
_SUSPENDED, _ACTIVATED = "SUSPENDED", "ACTIVATED"
_REFRESH_STATUS_OPTION = f"{MATERIALIZED_TABLE}.refresh-status"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MaterializedTable(Table):
    """A table that stores the rows of a query over the tables of `catalog`."""

    catalog: TableCatalog

    @property
    def query(self) -> str:
        """The query. Raises `InvalidOption` if the table names none."""
        text = self._context().options.materialized_table_definition_query
        if not text:
            raise InvalidOption(
                f"{self.name} has no query to refresh it by", key=f"{MATERIALIZED_TABLE}.definition-query"
            )
        return text

    def refresh(self, *, force: bool = False) -> Commit:
        """Replace all rows by those of the query as of now, in one commit, if they are too old or `force`.

        Raises: `InvalidOption` for a table that is suspended, unless `force`; what the query raises, `SchemaMismatch`
        if its columns have changed, and what a commit raises: the rows stay what they were.
        """
        ctx = self._context()
        if not force and ctx.options.materialized_table_refresh_status == _SUSPENDED:
            raise InvalidOption(
                f"{self.name} is suspended: t.resume(), or refresh(force=True) once",
                key=_REFRESH_STATUS_OPTION,
                value=_SUSPENDED,
            )
        newest = snapshots.latest(ctx)
        if newest is not None and not force and ctx.runtime.now_ms() - newest.time_millis < self.freshness_ms:
            return commit_changes_once(ctx, [], commit_user=ctx.new_commit_user())
        return self.with_options({"dynamic-partition-overwrite": "false"}).overwrite(
            scan_query(self.catalog, self.name, self.query)
        )

    @property
    def freshness_ms(self) -> int:
        """How old the newest snapshot may be."""
        options = self._context().options
        number, unit = (
            options.materialized_table_interval_freshness or "0",
            options.materialized_table_interval_freshness_time_unit or "SECOND",
        )
        if not number.isdecimal() or unit.upper() not in _MS_OF_UNIT:
            raise InvalidOption(
                f"{self.name} may be {number} {unit} old, which is no time",
                key=f"{MATERIALIZED_TABLE}.interval-freshness",
                value=number,
            )
        return int(number) * _MS_OF_UNIT[unit.upper()]

    @property
    def is_suspended(self) -> bool:
        """Whether `refresh` refuses, until `resume`."""
        return self._context().options.materialized_table_refresh_status == _SUSPENDED

    @property
    def is_stale(self) -> bool:
        """Whether its rows are older than they may be, so that `refresh` would compute them anew."""
        ctx = self._context()
        newest = snapshots.latest(ctx)
        return newest is None or ctx.runtime.now_ms() - newest.time_millis >= self.freshness_ms

    def suspend(self) -> None:
        """Let `refresh` refuse, until `resume`."""
        self.alter(set_option(_REFRESH_STATUS_OPTION, _SUSPENDED))

    def resume(self) -> None:
        """Let `refresh` work again."""
        self.alter(set_option(_REFRESH_STATUS_OPTION, _ACTIVATED))


def table_kinds(catalog: TableCatalog) -> Mapping[str, Callable[..., Table]]:
    """Return the constructor of a `MaterializedTable`, by its table type."""
    return {MATERIALIZED_TABLE: partial(MaterializedTable, catalog=catalog)}


def create(
    catalog: TableCatalog,
    name: str,
    query: str,
    *,
    freshness: str | timedelta,
    partition_keys: Sequence[str] | None,
    refresh_mode: str,
    options: Mapping[str, Any] | None,
    comment: str | None,
) -> MaterializedTable:
    """Create a materialized table, as `cat.create_materialized_table`."""
    settings = {**(options or {}), **options_of(query, freshness, refresh_mode)}
    query_schema = scan_query(catalog, name, query).collect_schema()
    fields = [Field(column, paimon_type(dtype, column)) for column, dtype in query_schema.items()]
    made = catalog.create_table(name, fields, partition_keys=partition_keys, options=settings, comment=comment)
    try:
        table = to_table_of_kind(made, table_kinds(catalog))
        assert isinstance(table, MaterializedTable)
        table.refresh(force=True)
    except CommitStateUnknown:
        raise
    except BaseException:
        with suppress(LakekitError):
            catalog.drop_table(name)
        raise
    return table


def options_of(query: str, freshness: str | timedelta, refresh_mode: str) -> Mapping[str, Any]:
    """Return the table options that define the query.

    Raises: `InvalidOption` for a freshness that is no whole number of seconds, `Unsupported` for another mode.
    """
    if refresh_mode.lower() != "full":
        raise Unsupported(
            f"refresh_mode={refresh_mode!r}: only a streaming engine keeps a table fresh row by row; there is 'full'",
            feature=MATERIALIZED_TABLE,
        )
    age_ms = maintenance.arguments.duration_ms(freshness, "freshness")
    unit = next((name for name, size in _MS_OF_UNIT.items() if age_ms and age_ms % size == 0), None)
    if unit is None:
        raise InvalidOption(
            f"freshness={freshness!r}: give one second or more, in whole seconds", key="freshness", value=str(freshness)
        )
    settings = {
        "definition-query": query,
        "interval-freshness": str(age_ms // _MS_OF_UNIT[unit]),
        "interval-freshness.time-unit": unit,
        "logical-refresh-mode": "FULL",
        "refresh-mode": "FULL",
        "refresh-status": _ACTIVATED,
    }
    return {"type": MATERIALIZED_TABLE, **{f"{MATERIALIZED_TABLE}.{key}": value for key, value in settings.items()}}
