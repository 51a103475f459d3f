"""How big Spark takes the rows of a table for: by that it decides which side of a join goes to every executor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

import lakekit as lk
import lakekit.spark as ls
from lakekit.spark import session
from spec_tests.doors.spark.test_session import SCHEMA, told

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
_THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"


@pytest.fixture
def few_megabytes(spark: SparkSession) -> Iterator[None]:
    """Sides of up to 2 MiB go to every executor."""
    spark.conf.set(_THRESHOLD, str(2 << 20))
    yield
    spark.conf.unset(_THRESHOLD)


def joined(spark: SparkSession, found: DataFrame, capsys: pytest.CaptureFixture[str]) -> str:
    """How a big table would be joined with the rows."""
    other = spark.range(0, 1 << 30, 1, 2).withColumnRenamed("id", "k")
    capsys.readouterr()
    other.join(found, "k").explain()
    plan = capsys.readouterr().out
    return "broadcast" if "BroadcastHashJoin" in plan else "shuffled" if "SortMergeJoin" in plan else plan


def merged(path: Path | str, rows: int, text: str = "v") -> lk.Table:
    """A table every file of which must be merged: tasks read it."""
    table = lk.create(path, {"k": "BIGINT NOT NULL", "v": "STRING"}, primary_keys=["k"], options={"bucket": "2", "write-only": "true"})
    for _ in range(2):
        table.upsert(pl.DataFrame({"k": range(rows), "v": [text] * rows}))
    return table


def test_a_big_merge_is_not_sent_to_every_executor(spark, few_megabytes, capsys, tmp_path):
    """Spark knows nothing of what tasks yield but how many there are: it took tables of any size for 16 bytes."""
    big, small = merged(tmp_path / "big", 60_000), merged(tmp_path / "small", 60)
    assert joined(spark, ls.read(spark, big), capsys) == "shuffled"
    assert joined(spark, ls.read(spark, small), capsys) == "broadcast"
    assert joined(spark, ls.read(spark, big, where=pl.col("k") < 60), capsys) == "shuffled"  # manifests alone do not tell
    found = ls.read(spark, big)
    assert (found.count(), found.agg({"k": "sum"}).first()[0]) == (60_000, 60_000 * 59_999 // 2)


def test_statistics_say_how_big_rows_are(spark, few_megabytes, capsys, tmp_path):
    table = merged(tmp_path / "long", 15_000, "word " * 40)
    assert joined(spark, ls.read(spark, table), capsys) == "broadcast"  # texts whose length nobody knows, and which compress well
    table.analyze()
    assert joined(spark, ls.read(spark, table), capsys) == "shuffled"
    assert joined(spark, ls.read(spark, table, columns=["k"]), capsys) == "broadcast"
    assert joined(spark, ls.read(spark, table, where="k < 60"), capsys) == "broadcast"


def test_changes_have_sizes(spark, few_megabytes, capsys, tmp_path):
    table = merged(tmp_path / "big", 60_000)
    assert joined(spark, ls.changes(spark, table, 0, 2).drop("_row_kind"), capsys) == "shuffled"
    table.upsert(pl.DataFrame({"k": range(60), "v": ["w"] * 60}))
    assert joined(spark, ls.changes(spark, table, 2, 3).drop("_row_kind"), capsys) == "broadcast"


def test_every_task_runs_once_whatever_the_size(spark):
    for size_bytes in (0, session.SMALL_TASK_BYTES, session.SMALL_TASK_BYTES + 1, session.MAX_TASK_BYTES, 1 << 50):
        rows = session.run(spark, [b"a", b"b", b"c"], told, SCHEMA, size_bytes=size_bytes).collect()
        assert sorted((row.task, row.partition) for row in rows) == [("a", 0), ("b", 1), ("c", 2)]


def test_many_tasks_of_little(spark):
    one = StructType([StructField("task", IntegerType())])
    found = session.run(spark, [b"%d" % n for n in range(300)], _itself, one, size_bytes=2 << 20)
    assert sorted(row.task for row in found.collect()) == list(range(300))


def _itself(task: bytes) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pylist([{"task": int(task)}], pa.schema({"task": pa.int32()}))
