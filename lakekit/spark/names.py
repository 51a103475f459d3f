"""Register the tables of a catalog by name in Spark's SQL: `ls.attach(spark, cat)`.

    ls.attach(spark, cat)                                     every table as `db.table`
    spark.sql("SELECT … FROM shop.orders o JOIN …")           INSERT INTO, INSERT OVERWRITE;
                                                              `WITH (`scan.snapshot-id`='3')` for one version

Spark has no way to add a catalog in Python. It does have a source by name: each table becomes a class of its own, which
knows where the table is, and an entry in the session's own catalog that names it. The entries live as long as the
session's catalog does, and hold today's columns: attach again after a change of them, or of the tables that there are.
Nothing of the lake changes; an entry of that name which is not lakekit's is left alone.

Spark gives each entry a folder below that of its database, which is deleted with the entry. So a database that the
session keeps where the lake lies is refused.
"""

from __future__ import annotations

import os
import re
from hashlib import sha256
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from lakekit import storage
from lakekit.errors import InvalidOption, LakekitError, TableAlreadyExists
from lakekit.model.locations import check_not_in_hint
from lakekit.spark import session
from lakekit.spark.data_source import PaimonDataSource, table_options
from lakekit.sql.tokenizer import quote_identifier
from lakekit.table.format_tables import FormatTable
from lakekit.world import warn_user

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakekit.catalog.catalog import Catalog
    from lakekit.table.table import Table

PREFIX, _SETTING = "lakekit__", "lakekit.attached."


def attach(spark: SparkSession, catalog: Catalog, *, database: str | None = None) -> list[str]:
    """Register the tables of a catalog, or of one of its databases, in the session; return their names.

    Databases are made where the session lacks them. Tables that Spark's own catalog cannot show are left out, with a
    warning that names them: those whose names have other signs than letters, digits and _, or differ from another's in
    case alone, format tables, types that Spark lacks. Entries of tables that the catalog no longer has are dropped.

    Raises: `TableAlreadyExists` where the session has something else of a name, `InvalidOption` where it keeps the
    database in the lake, `DatabaseNotFound`, `Unsupported`, `TypeError` for what is no catalog.
    """
    session.check(spark)
    _check_asked(catalog, database)
    names = [
        row for row in catalog.tables(database).select("database", "table").iter_rows() if _can_be_named(row)
    ]  # scalar: one a table
    _forget(spark, catalog, database, {".".join(row).lower() for row in names})
    attached: dict[str, str] = {}
    for row in names:
        name = ".".join(row)
        if (other := attached.get(name.lower())) is not None:
            warn_user(f"{name} is not attached: Spark does not tell it from {other}, whose name differs in case alone")
            continue
        try:
            table = catalog.table(name)
            if isinstance(table, FormatTable):
                warn_user(
                    f"{table.name} is a format table and not attached: Spark reads such folders itself, and ls.read too"
                )
                continue
            source = source_of(table)
            source({}).schema()  # what cannot be shown is told before the session's entry goes
        except LakekitError as wrong:
            warn_user(f"{name} is not attached: {wrong}")
            continue
        _check_outside_database(spark, table, row[0])
        _attach(spark, source, catalog, *row)
        attached[name.lower()] = name
    return list(attached.values())


def _check_asked(catalog: object, database: object) -> None:
    """Raise `TypeError` for what is no catalog, or no name of a database."""
    if not hasattr(catalog, "tables"):
        msg = f"ls.attach takes a catalog, not {type(catalog).__name__}: lk.connect('warehouse') gives one"
        raise TypeError(msg)
    if database is not None and not isinstance(database, str):
        msg = f"database= is a name, not {type(database).__name__}; without it all databases are attached"
        raise TypeError(msg)


def _can_be_named(row: tuple[str, str]) -> bool:
    if all(re.fullmatch(r"\w+", part, flags=re.ASCII) for part in row):
        return True
    warn_user(f"{'.'.join(row)} is not attached: names in Spark's own catalog are of letters, digits and _")
    return False


def _forget(spark: SparkSession, catalog: Catalog, database: str | None, existing: set[str]) -> None:
    """Drop the entries that earlier calls made of tables which the catalog no longer has."""
    for key, warehouse in spark.conf.getAll.items():
        name = key.removeprefix(_SETTING)
        if (
            name == key
            or name in existing
            or warehouse != _place(catalog)
            or database not in (None, name.partition(".")[0])
        ):
            continue
        spark.sql(f"DROP TABLE IF EXISTS {'.'.join(map(quote_identifier, name.split('.')))}")
        spark.conf.unset(key)


def _place(catalog: Catalog) -> str:
    return f"{catalog.metastore} {catalog.warehouse}"


def _check_outside_database(spark: SparkSession, table: Table, database: str) -> None:
    """Raise `InvalidOption` where the session's database directory contains the table.

    Spark deletes the folder of a database, and that of an entry, with all that is in it.
    """
    if spark.catalog.databaseExists(database):
        location = spark.catalog.getDatabase(database).locationUri
    else:
        location = f"{spark.conf.get('spark.sql.warehouse.dir')}/{database}.db"
    if f"{_normalize_location(table.location)}/".lower().startswith(f"{_normalize_location(location)}/".lower()):
        raise InvalidOption(
            f"the session keeps database {database} in {location}, where {table.name} lies: "
            "a database, or an entry of it, that is dropped would take along the lake's files. "
            "Make the session with another spark.sql.warehouse.dir",
            key="spark.sql.warehouse.dir",
            value=location,
        )


def _normalize_location(location: str) -> str:
    """Return a location as one text, however it is written."""
    if location.startswith("file:") or ":/" not in location:
        return os.path.realpath(storage.open(location)[1])
    return re.sub(r"^s3[an]?://", "s3://", location.rstrip("/"))


def _attach(spark: SparkSession, source: type[PaimonDataSource], catalog: Catalog, database: str, name: str) -> None:
    where = f"{quote_identifier(database)}.{quote_identifier(name)}"
    spark.dataSource.register(source)
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {quote_identifier(database)}")
    _drop_own_entry(spark, where, f"{database}.{name}")
    spark.sql(f"CREATE TABLE {where} USING {source.name()}")
    spark.conf.set(f"{_SETTING}{database}.{name}".lower(), _place(catalog))


def source_of(table: Table) -> type[PaimonDataSource]:
    """Return the data source class of a table, under a name of its own.

    Spark keeps a class for each name, and options of a query override the table's.
    """
    plain = re.sub(r"\W", "_", table.name, flags=re.ASCII).lower()
    called = f"{PREFIX}{plain}_{sha256(f'{table.name} {table.location}'.encode()).hexdigest()[:12]}"

    class TableSource(PaimonDataSource):
        @classmethod
        def name(cls) -> str:
            return called

        def table(self) -> Table:
            options = table_options(dict(self.options))
            check_not_in_hint(options, "the query, by WITH,")
            branch = self.options.get("branch")
            selected = table.with_options(options) if options else table
            return selected.branch(branch) if branch else selected

    return TableSource


def _drop_own_entry(spark: SparkSession, where: str, name: str) -> None:
    """Drop an entry that an earlier call made.

    Spark does not report the source of an entry: the session's settings record those made here, and for one that an
    earlier session left in a lasting catalog Spark reports that it does not know its source, by name.

    Raises: `TableAlreadyExists` for an entry of another origin.
    """
    if not spark.catalog.tableExists(where):
        return
    if spark.conf.get(f"{_SETTING}{name}".lower(), None) is None:
        try:
            spark.sql(f"DESCRIBE TABLE {where}")
        except AnalysisException as told:
            is_ours = PREFIX in str(told)
        else:
            is_ours = False
        if not is_ours:
            msg = (
                f"the session's own catalog has a table {name}, which is not lakekit's: drop it there, or attach "
                "another database"
            )
            raise TableAlreadyExists(msg, name=name)
    spark.sql(f"DROP TABLE {where}")
