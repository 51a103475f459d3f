"""Materialized tables: tables that store the rows of a query, and are refreshed when the rows are too old.

    m = cat.create_materialized_table("shop.daily", "SELECT day, sum(total) AS total FROM shop.orders GROUP BY day",
                                      freshness="1 h")
    m.refresh()          nothing, while the newest snapshot is younger than an hour; else the query, in a new snapshot

Every engine reads the rows as those of any table. Flink runs the query by itself; here a timer or job calls `refresh`.
The query, its freshness and state are options of the table as Flink writes them. Source: ENGINE.md 9.6; "Materialized
table" of Flink's documentation.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from lakekit import maintenance
from lakekit.catalog.views import scan_query
from lakekit.commit.committer import commit_changes_once
from lakekit.ddl.schema_changes import set_option
from lakekit.errors import CommitStateUnknown, InvalidOption, LakekitError, Unsupported
from lakekit.format.polars_types import paimon_type
from lakekit.metadata import snapshots
from lakekit.table import Table
from lakekit.table.format_tables import to_table_of_kind
from lakekit.types import Field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta

    from lakekit.catalog.catalog import Catalog
    from lakekit.commit.result import Commit

KIND = "materialized-table"
_UNITS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000}
_SUSPENDED, _ACTIVATED = "SUSPENDED", "ACTIVATED"
_STATUS = f"{KIND}.refresh-status"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MaterializedTable(Table):
    """A table that stores the rows of a query over the tables of `catalog`."""

    catalog: Catalog

    @property
    def query(self) -> str:
        """The query. Raises `InvalidOption` where the table names none."""
        text = self.handle().options.materialized_table_definition_query
        if not text:
            raise InvalidOption(f"{self.name} has no query to refresh it by", key=f"{KIND}.definition-query")
        return text

    def refresh(self, *, force: bool = False) -> Commit:
        """Replace all rows by those of the query as of now, in one commit, if they are too old or `force`.

        Raises: `InvalidOption` for a table that is suspended, unless `force`; what the query raises, `SchemaMismatch`
        where its columns have changed, and what a commit raises: the rows stay what they were.
        """
        ctx = self.handle()
        if not force and ctx.options.materialized_table_refresh_status == _SUSPENDED:
            raise InvalidOption(
                f"{self.name} is suspended: t.resume(), or refresh(force=True) once", key=_STATUS, value=_SUSPENDED
            )
        newest = snapshots.latest(ctx)
        if newest is not None and not force and ctx.world.now_ms() - newest.time_millis < self.freshness_ms:
            return commit_changes_once(ctx, [], commit_user=ctx.new_commit_user())
        return self.with_options({"dynamic-partition-overwrite": "false"}).overwrite(
            scan_query(self.catalog, self.name, self.query)
        )

    @property
    def freshness_ms(self) -> int:
        """How old the newest snapshot may be."""
        options = self.handle().options
        number, unit = (
            options.materialized_table_interval_freshness or "0",
            options.materialized_table_interval_freshness_time_unit or "SECOND",
        )
        if not number.isdecimal() or unit.upper() not in _UNITS:
            raise InvalidOption(
                f"{self.name} may be {number} {unit} old, which is no time",
                key=f"{KIND}.interval-freshness",
                value=number,
            )
        return int(number) * _UNITS[unit.upper()]

    def suspend(self) -> None:
        """Has `refresh` refuse, until `resume`."""
        self.alter(set_option(_STATUS, _SUSPENDED))

    def resume(self) -> None:
        """Lets `refresh` work again."""
        self.alter(set_option(_STATUS, _ACTIVATED))


def kinds(catalog: Catalog) -> Mapping[str, Callable[..., Table]]:
    """Return the constructor of a `MaterializedTable`, by its table type."""
    return {KIND: partial(MaterializedTable, catalog=catalog)}


def create(
    catalog: Catalog,
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
        table = to_table_of_kind(made, kinds(catalog))
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
            feature=KIND,
        )
    age_ms = maintenance.arguments.duration_ms(freshness, "freshness")
    unit = next((name for name, size in _UNITS.items() if age_ms and age_ms % size == 0), None)
    if unit is None:
        raise InvalidOption(
            f"freshness={freshness!r}: give one second or more, in whole seconds", key="freshness", value=str(freshness)
        )
    settings = {
        "definition-query": query,
        "interval-freshness": str(age_ms // _UNITS[unit]),
        "interval-freshness.time-unit": unit,
        "logical-refresh-mode": "FULL",
        "refresh-mode": "FULL",
        "refresh-status": _ACTIVATED,
    }
    return {"type": KIND, **{f"{KIND}.{key}": value for key, value in settings.items()}}
