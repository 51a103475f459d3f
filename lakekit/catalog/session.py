"""What statements of SQL leave behind for those that follow: the database of USE, catalogs, tables by path.

cat.sql("USE shop")                 the session of `cat`, which all its statements share
own = cat.session()                 another one, with a database, catalogs and temporary views of its own
own.sql("USE lab")
own.sql("SELECT * FROM inbox").collect()
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit import plugins
from lakekit.catalog.catalog_core import CatalogCache
from lakekit.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakekit.table import Table

    Catalog = Any
    """A `lakekit.catalog.catalog.Catalog`, whose module imports this one."""


DEFAULT_DATABASE = "default"
"""The database in which a session begins, as in Flink and Spark."""
_FIRST_CATALOG = "default_catalog"
"""What Flink calls the catalog that a session begins with."""


class ResultFrame(pl.DataFrame):
    """The rows of a statement that is no query, or the last of several: a DataFrame, with `collect` as a query has."""

    def collect(self) -> pl.DataFrame:
        """Return itself: these rows are there."""
        return self


@dataclass(slots=True, kw_only=True)
class Session:
    """The catalog and the database in which names are looked for, and what statements defined for those after them.

    A session is used by one thread at a time; `cat.session()` gives each its own.
    """

    catalog: Catalog
    database: str = DEFAULT_DATABASE
    """Where names of one part are looked for. That of the beginning is made with its first table."""
    catalogs: dict[str, Catalog] = field(default_factory=dict)
    """The catalogs of CREATE CATALOG, by name, and the first one as `default_catalog`."""
    tables: dict[str, Table] = field(default_factory=dict)
    """Tables that lie outside of the catalog, by the names that CREATE TABLE … WITH ('path' = …) gave them."""

    settings: dict[str, str] = field(default_factory=dict)
    """The values of SET: dynamic options of tables, by `paimon.<catalog>.<database>.<table>.<option>`."""

    def sql(
        self,
        text: str,
        parameters: Sequence[Any] | Mapping[str, Any] | None = None,
        /,
        *,
        files: bool = False,
        dialect: str = "lakekit",
        **frames: Any,
    ) -> pl.LazyFrame | ResultFrame:
        """Execute SQL statements separated by semicolons, and return the result of the last one.

        One query gives a LazyFrame, everything else a frame; `.collect()` gives the rows of either. `parameters` are
        the values of `?` and `$1` in order, or of `:name` by name; `frames` of Polars, pandas or Arrow are read by
        their names. `files`: functions such as read_csv may open files. `dialect="spark"` reads Spark's texts.

        SELECT (also `VERSION AS OF`, `TIMESTAMP AS OF`, branches and system tables as `db.t$files`); INSERT INTO and
        OVERWRITE, DELETE, UPDATE, MERGE INTO; CREATE, DROP and ALTER of tables and databases, CREATE TABLE … AS;
        TRUNCATE, SHOW, DESCRIBE; CALL sys.<procedure>; USE, for names without a database, in this text and those after
        it. A text stands in single quotes, in which a quote is doubled; names in double or back quotes; types are
        Paimon's. Changes of rows return `snapshot_id` and `row_count`. Each statement is a commit of its own:
        statements before one that fails stay done, and its message says which.

        Needs `pip install 'lakekit[sql]'`.

        Raises: `InvalidOption` with the position in the text for an invalid statement, before any is executed;
        `Unsupported` for one that lakekit does not execute; `ColumnNotFound`, `SchemaMismatch`; and what the methods
        raise that statements stand for.
        """
        result: pl.LazyFrame | ResultFrame = plugins.load("sql", "session").sql(
            self, text, parameters, files=files, dialect=dialect, frames=frames
        )
        return result

    def answers(
        self, text: str, *, files: bool = False, dialect: str = "lakekit", limit: int | None = None, **frames: Any
    ) -> Iterator[pl.LazyFrame | ResultFrame]:
        """Execute SQL statements, as `sql`, and yield the answer of each before the next one is executed.

        `limit`: the most rows of a query that are computed, where there are several statements.
        """
        run = plugins.load("sql", "session").run
        yield from run(self, text, files=files, dialect=dialect, frames=frames, limit=limit)

    def named(self, name: str) -> Catalog:
        """Return the catalog of a name. Raises `InvalidOption`."""
        return find_catalog(self.catalogs, name)

    def __repr__(self) -> str:
        return f"Session of {self.catalog.warehouse or self.catalog.metastore}, in database {self.database}"


def find_catalog(catalogs: Mapping[str, Catalog], name: str) -> Catalog:
    """Return the catalog of a name among those that CREATE CATALOG made. Raises `InvalidOption`."""
    if name not in catalogs:
        names = ", ".join(catalogs) or "none"
        raise InvalidOption(
            f"no catalog {name[:200]!a} here; CREATE CATALOG in this session named {names}", key="sql", value=name
        )
    return catalogs[name]


def create(catalog: Catalog) -> Session:
    """Return a session that shares nothing with that of the catalog but its tables."""
    return _new(replace(catalog, _cache=CatalogCache()))


def shared(catalog: Catalog) -> Session:
    """Return the session of a catalog object, which all its statements share."""
    cache = catalog._cache  # noqa: SLF001 - the state of the catalog that this module is a part of
    if cache.session is None:
        cache.session = _new(catalog)
    return cache.session


def _new(catalog: Catalog) -> Session:
    return Session(catalog=catalog, catalogs={_FIRST_CATALOG: catalog})
