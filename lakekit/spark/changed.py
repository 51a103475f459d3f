"""Read what changed between two snapshots as a Spark DataFrame.

    ls.changes(spark, table, 3, 7)        the rows of (3, 7], their kind first

Written rows and changelogs are read file by file. The difference of two states is computed bucket by bucket, a task
each: a key never leaves its bucket, or the difference says where it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.errors import Unsupported
from lakekit.read import incremental as changing
from lakekit.spark import asked, batch_read, session
from lakekit.table.table import Table

if TYPE_CHECKING:
    from datetime import datetime
    from os import PathLike

    from pyspark.sql import DataFrame, SparkSession

KIND = "_row_kind"


def changes(
    spark: SparkSession,
    table_or_path: Table | str | PathLike[str],
    since: int | str | datetime,
    until: int | str | datetime | None = None,
    *,
    mode: str = "auto",
) -> DataFrame:
    """Return the rows that changed after `since` up to and including `until`, with `_row_kind` first.

    `until=None` is the newest snapshot. `Table.changes` says what `mode` means. The frame stays on the snapshots that
    were there when it was made.

    Raises: as `Table.changes`, and `Unsupported` for a Spark that is too old.
    """
    session.check(spark)
    table = asked.table_of(table_or_path)
    if not isinstance(table, Table):
        msg = f"{table!r} has no changes of its own: ask its table"
        raise Unsupported(msg, feature="spark.read")
    return batch_read.read_changes(
        spark, changing.changes(asked.handle_of(table, None, None), since, until, mode=mode, kind_column=KIND)
    )
