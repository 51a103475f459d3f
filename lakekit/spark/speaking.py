"""`ls.sql`: Spark's SQL over the tables of a catalog, without a connector in Java.

    ls.sql(spark, "SELECT day, sum(total) FROM shop.orders WHERE id > 7 GROUP BY day", catalog=cat).show()
    ls.sql(
        spark,
        "MERGE INTO shop.orders t USING new s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        catalog=cat,
    )
    ls.sql(spark, "CALL sys.compact(table => 'shop.orders')", catalog=cat)

Spark computes queries and the rows of INSERT, with its functions and its optimizer. `lakekit.sql` parses the
statements. Nothing is registered in the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.spark import session
from lakekit.spark.sql import SparkBackend
from lakekit.sql import dispatch
from lakekit.sql.backend import ResultRows, Statement
from lakekit.sql.tokenizer import TokenStream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakekit.catalog.catalog import Catalog


def sql(spark: SparkSession, text: str, *, catalog: Catalog) -> DataFrame:
    """Execute one statement over the tables of a catalog, named "database.table", and return its rows.

    SELECT (also `VERSION AS OF`, `TIMESTAMP AS OF`, branches and system tables as ``db.`t$files` ``, and changes as the
    connector names them, `paimon_incremental_query('db.t', 3, 7)`); INSERT INTO and OVERWRITE, which replaces its
    PARTITION, else the whole table, or what it has rows of where spark.sql.sources.partitionOverwriteMode is dynamic;
    DELETE FROM, UPDATE (of fields of a ROW too), MERGE INTO, whose conditions and values are columns, literals and
    plain functions, and whatever names no column, subqueries too, which Spark computes once, before; CREATE, DROP and
    ALTER of tables and databases, CREATE TABLE … AS a query; TRUNCATE and ANALYZE TABLE, SHOW, DESCRIBE; CALL
    sys.<procedure>. A statement that changes rows returns one row, `snapshot_id` (null: nothing was to be done) and
    `row_count`; definitions return none. A name of one part is a view of the session where there is one, else of the
    session's current database.

    Raises: `InvalidOption` with the place in the text for what is no statement, `Unsupported` for one that is not done
    here: nothing has changed then; and what the catalog, `ls.write`, `ls.delete`, `ls.update`, `ls.merge`, the methods
    of tables and Spark raise.
    """
    session.check(spark)
    backend = SparkBackend(spark)
    answer = dispatch.execute(Statement(backend=backend, catalog=catalog, tokens=TokenStream.of(text)))
    return backend.told(answer) if isinstance(answer, ResultRows) else answer
