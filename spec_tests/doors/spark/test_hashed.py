"""Spark's own hash of a row's bytes, made by its functions, is the reference's: the same task for each row as lakekit computes from its columns."""

from __future__ import annotations

from datetime import date
from random import Random
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pytest

import lakekit as lk
from lakekit.errors import Unsupported
from lakekit.write import row_conversion
from lakekit.write.bucket_assigners import WriteParallelism, WriteShard
from lakekit.write.router import TaskRouter
from lakekit.write.table_writers import BucketWriters

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

ls = pytest.importorskip("lakekit.spark", exc_type=Unsupported)
hashed = pytest.importorskip("lakekit.spark.batch_write", exc_type=Unsupported)
types = pytest.importorskip("lakekit.spark.types", exc_type=Unsupported)
pytestmark = pytest.mark.spark

TEXTS = ["", " ", "a", "seven77", "eight888", "nine99999", "é" * 3, "é" * 4, "x" * 15, "x" * 16, "x" * 300, "日本語🙂", "\0", "0", "__DEFAULT_PARTITION__"]
VALUES = {
    "BOOLEAN": [True, False],
    "TINYINT": [0, 1, -1, 127, -128],
    "SMALLINT": [0, 1, -1, 255, 32767, -32768],
    "INT": [0, 1, -1, 65536, 2**31 - 1, -(2**31)],
    "BIGINT": [0, 1, -1, 2**32, 2**63 - 1, -(2**63), 0x0123456789ABCDEF],
    "DATE": [date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29), date(1969, 12, 31)],
    "STRING": TEXTS,
    "VARCHAR(300)": TEXTS,
}
TABLES = {
    "each kind of key": ({name: name for name in VALUES if name != "STRING"}, [], {"bucket": "7"}),
    "a number": ({"k": "BIGINT"}, [], {"bucket": "5"}),
    "a text": ({"k": "STRING"}, [], {"bucket": "16"}),
    "texts and numbers": ({"a": "STRING", "b": "INT", "c": "STRING", "d": "STRING"}, [], {"bucket": "9"}),
    "partitions": ({"p": "STRING", "q": "DATE", "k": "INT"}, ["p", "q"], {"bucket": "3"}),
    "a bucket in each partition": ({"p": "INT", "k": "STRING"}, ["p"], {"bucket": "1"}),
    "the number itself": ({"k": "INT"}, [], {"bucket": "4", "bucket-function.type": "mod"}),
    "the number itself, wide": ({"k": "BIGINT"}, [], {"bucket": "4", "bucket-function.type": "mod"}),
}


def drawn(columns: dict[str, str], seed: int, count: int = 400, nulls: float = 0.1) -> dict[str, list]:
    luck = Random(seed)
    return {name: [None if luck.random() < nulls else luck.choice(VALUES[text]) for _ in range(count)] for name, text in columns.items()}


def sent(spark, table: lk.Table, rows: dict[str, list]) -> DataFrame:
    fields = types.read_fields(table.schema.fields)
    return spark.createDataFrame(pa.Table.from_pydict(rows, types.arrow_schema(fields)), types.spark_schema(fields))


def told(spark, table: lk.Table, rows: dict[str, list], cut: WriteParallelism) -> list[int] | None:
    frame = sent(spark, table, rows)
    known = {field.name: (frame[f"`{field.name}`"], field.dataType) for field in frame.schema}
    column = hashed.spark_task_number(table._context(), cut, known)
    return None if column is None else [row[0] for row in frame.select(column).collect()]


@pytest.mark.parametrize("name", TABLES)
def test_spark_tells_the_task_of_each_row(spark, tmp_path, name):
    columns, partitions, options = TABLES[name]
    keys = ",".join(one for one in columns if one not in partitions)
    table = lk.create(tmp_path, columns, partition_keys=partitions, options={**options, "bucket-key": keys})
    handle, rows = table._context(), drawn(columns, len(name))
    for tasks in (2, 7):
        cut = WriteParallelism(tasks=tasks, assigners=tasks)
        assert told(spark, table, rows, cut) == [
            number
            for frame in row_conversion.convert_batches(pa.Table.from_pydict(rows, types.arrow_schema(types.read_fields(table.schema.fields))), handle)
            for number in TaskRouter.of(handle, cut, replaces=False, batch=True).task_numbers(frame).tolist()
        ]


@pytest.mark.parametrize(
    "columns",
    [{"k": "DOUBLE"}, {"k": "TIMESTAMP(3)"}, {"k": "DECIMAL(9, 2)"}, {"k": "CHAR(3)"}, {"k": "BYTES"}],
    ids=lambda columns: columns["k"],
)
def test_what_spark_cannot_tell_goes_another_way(spark, tmp_path, columns):
    table = lk.create(tmp_path, columns, options={"bucket": "2", "bucket-key": "k"})
    assert told(spark, table, {"k": []}, WriteParallelism(tasks=2, assigners=2)) is None


def test_a_column_of_another_type_goes_another_way(spark, tmp_path):
    table = lk.create(tmp_path / "t", {"k": "BIGINT NOT NULL", "v": "INT"}, primary_keys=["k"], options={"bucket": "4"})
    ls.write(spark.range(100).selectExpr("CAST(id AS INT) AS k", "1 AS v"), table)
    ls.write(spark.range(50, 150).selectExpr("id AS k", "2 AS v"), table)
    assert table.scan().group_by("v").len().sort("v").collect().rows() == [(1, 50), (2, 100)]
    assert table.check(deep=True).ok


def test_a_row_that_comes_to_the_wrong_task_is_an_error_and_never_a_key_in_two_places(tmp_path: Path):
    table = lk.create(tmp_path / "t", {"k": "BIGINT NOT NULL"}, primary_keys=["k"], options={"bucket": "4"})
    writers = BucketWriters(table._context(), commit_user="me", shard=WriteShard(parallelism=WriteParallelism(tasks=2, assigners=2), task=1))
    with pytest.raises(Unsupported, match="belongs to another"):
        writers.write(next(row_conversion.convert_batches(pl.DataFrame({"k": range(8)}), table._context())))
    writers.abort()
    assert not list(tmp_path.rglob("data-*"))
