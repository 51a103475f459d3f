"""Tables by name in Spark's SQL: `ls.attach(spark, cat)` puts those of a catalog into the session.

    ls.attach(spark, cat)                                     every table as `db.table`
    spark.sql("SELECT … FROM shop.orders o JOIN …")           INSERT INTO, INSERT OVERWRITE; `WITH (`scan.snapshot-id`='3')` for one version

Spark has no way to bring a catalog in Python. What it does have is a source by name: each table becomes a class of its own, which knows where the table is,
and an entry in the session's own catalog that names it. The entries live as long as the session's catalog does, and hold today's columns: attach again after
a change of them. Nothing of the lake changes; an entry of that name which is not lakekit's is left alone.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from lakekit.errors import LakekitError, TableAlreadyExists
from lakekit.spark import session
from lakekit.spark.source import Source, given
from lakekit.sql.words import quoted
from lakekit.table.folder_tables import FormatTable
from lakekit.world import caution

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakekit.catalog.catalog import Catalog
    from lakekit.table.table import Table

PREFIX, _SETTING = "lakekit__", "lakekit.attached."


def attach(spark: SparkSession, catalog: Catalog, *, database: str | None = None) -> list[str]:
    """Puts the tables of a catalog, or of one of its databases, under their names into the session. Gives the names.

    Databases are made where the session lacks them. Tables that Spark's own catalog cannot show are left out, with a warning that names them: those whose names
    have other signs than letters, digits and _, format tables, types that Spark lacks. Raises `TableAlreadyExists` where the session has something else of a
    name, `DatabaseNotFound`, `Unsupported`.
    """
    session.check(spark)
    attached = []
    for row in catalog.tables(database).select("database", "table").iter_rows():  # scalar: one a table
        name = ".".join(row)
        if not all(re.fullmatch(r"\w+", part, flags=re.ASCII) for part in row):
            caution(f"{name} is not attached: names in Spark's own catalog are of letters, digits and _")
            continue
        try:
            table = catalog.table(name)
            _attach(spark, table, *row)
        except TableAlreadyExists:
            raise
        except LakekitError as wrong:
            caution(f"{name} is not attached: {wrong}")
        else:
            attached.append(name)
    return attached


def _attach(spark: SparkSession, table: Table, database: str, name: str) -> None:
    if isinstance(table, FormatTable):
        caution(f"{table.name} is a format table and not attached: Spark reads such folders itself, and ls.read too")
        return
    source = source_of(table)
    where = f"{quoted(database)}.{quoted(name)}"
    source({}).schema()  # what cannot be shown is told before the session's entry goes
    spark.dataSource.register(source)
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {quoted(database)}")
    _free(spark, where, f"{database}.{name}")
    spark.sql(f"CREATE TABLE {where} USING {source.name()}")
    spark.conf.set(f"{_SETTING}{database}.{name}", source.name())


def source_of(table: Table) -> type[Source]:
    """The class of a table, under a name of its own: Spark keeps a class for each, and options of a query are put over the table's."""
    plain = re.sub(r"\W", "_", table.name, flags=re.ASCII).lower()
    called = f"{PREFIX}{plain}_{sha256(f'{table.name} {table.location}'.encode()).hexdigest()[:12]}"

    class TableSource(Source):
        @classmethod
        def name(cls) -> str:
            return called

        def table(self) -> Table:
            options = given(dict(self.options))
            branch = self.options.get("branch")
            found = table.with_options(options) if options else table
            return found.branch(branch) if branch else found

    return TableSource


def _free(spark: SparkSession, where: str, name: str) -> None:
    """Takes an entry of an earlier call away. Raises `TableAlreadyExists` for one that is somebody else's.

    Spark does not tell the source of an entry: the session's settings remember those made here, and of one that an earlier session left in a lasting catalog
    Spark says that it does not know its source, by name.
    """
    if not spark.catalog.tableExists(where):
        return
    if spark.conf.get(_SETTING + name, None) is None:
        try:
            spark.sql(f"DESCRIBE TABLE {where}")
        except AnalysisException as told:
            is_ours = PREFIX in str(told)
        else:
            is_ours = False
        if not is_ours:
            msg = f"the session's own catalog has a table {name}, which is not lakekit's: drop it there, or attach another database"
            raise TableAlreadyExists(msg, name=name)
    spark.sql(f"DROP TABLE {where}")
