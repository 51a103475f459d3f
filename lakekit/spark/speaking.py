"""`ls.sql`: Spark's SQL over the tables of a catalog, with all that Spark asks a connector in Java for.

    ls.sql(spark, "SELECT day, sum(total) FROM shop.orders WHERE id > 7 GROUP BY day", catalog=cat).show()
    ls.sql(spark, "MERGE INTO shop.orders t USING new s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *", catalog=cat)
    ls.sql(spark, "CALL sys.compact(table => 'shop.orders')", catalog=cat)

Queries and the rows of INSERT are Spark's: its functions, its optimizer. What changes tables is lakekit's: `dml`, `definitions`, `procedures`. Nothing is
registered in the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.errors import Unsupported
from lakekit.spark import calls, definitions, dml, procedures as procedures, session  # noqa: PLC0414 - imported for what it enters
from lakekit.spark.dml import Asked
from lakekit.spark.words import Words

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from lakekit.catalog.catalog import Catalog

_QUERIES = ("SELECT", "WITH", "VALUES", "(", "FROM")


def sql(spark: SparkSession, text: str, *, catalog: Catalog) -> DataFrame:
    """Does one statement over the tables of a catalog, which it names "database.table", and gives its rows.

    SELECT (also `VERSION AS OF`, `TIMESTAMP AS OF`, branches and system tables as ``db.`t$files` ``); INSERT INTO and OVERWRITE, which replaces what
    `t.overwrite` replaces; DELETE FROM, UPDATE, MERGE INTO, whose conditions and values are columns, literals and plain functions; CREATE, DROP and ALTER of
    tables and databases, CREATE TABLE … AS a query; TRUNCATE TABLE, SHOW, DESCRIBE; CALL sys.<procedure>. What changes rows gives one row, `snapshot_id`
    (null: nothing was to be done) and `row_count`; definitions give none. A name of one part is a view of the session where there is one, else of the
    session's current database.

    Raises `InvalidOption` with the place in the text for what is no statement, `Unsupported` for one that is not done here: nothing has changed then; and what
    the catalog, `ls.write`, `ls.delete`, `ls.update`, `ls.merge`, the methods of tables and Spark raise.
    """
    session.check(spark)
    words = Words.of(text)
    asked = Asked(spark=spark, catalog=catalog, words=words)
    if any(words.is_next(word) for word in _QUERIES):
        return dml.query(asked, words.rest)
    if words.accept("CALL"):
        call = calls.Call(spark=spark, catalog=catalog, database=spark.catalog.currentDatabase(), zone=asked.zone)
        rows, columns = calls.called(call, words)
        return definitions.told(asked, definitions.columns_of(columns), rows)
    for word, does in _STATEMENTS.items():
        if words.accept(word):
            return does(asked)
    first = "" if words.next is None else words.next.said
    known = ", ".join(("SELECT", "CALL", *_STATEMENTS))
    msg = f"{first}: ls.sql does {known}. Spark's own statements go to spark.sql. In: {text.strip()[:200]}"
    raise Unsupported(msg, feature="spark.sql")


_STATEMENTS: dict[str, Callable[[Asked], DataFrame]] = {
    "INSERT": dml.insert,
    "DELETE": dml.delete,
    "UPDATE": dml.update,
    "MERGE": dml.merge,
    "CREATE": dml.create,
    "DROP": definitions.drop,
    "ALTER": definitions.alter,
    "TRUNCATE": definitions.truncate,
    "SHOW": definitions.show,
    "DESCRIBE": definitions.describe,
    "DESC": definitions.describe,
}
"""By its first word, what does a statement."""
