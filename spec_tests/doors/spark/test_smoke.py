"""Ten things that users do, short: what every version of PySpark must pass, classic and Connect (`versions.py` runs these in environments of each)."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING

import pyspark
import pytest
from pyspark.sql.functions import col

import lakekit as lk
import lakekit.spark as ls
from lakekit.errors import SchemaMismatch, ValueOutOfRange

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
STREAMS = tuple(int(part) for part in pyspark.__version__.split(".")[:2]) >= (4, 2)


def keyed(path: Path | str, options: dict[str, str] | None = None) -> lk.Table:
    return lk.create(path, {"k": "BIGINT NOT NULL", "v": "STRING"}, primary_keys=["k"], options={"bucket": "2", **(options or {})})


def frame(spark: SparkSession, first: int, end: int, text: str = "v", kind: str | None = None) -> DataFrame:
    more = [] if kind is None else [f"'{kind}' AS op"]
    return spark.range(first, end, 1, 2).selectExpr("id AS k", f"concat('{text}', id) AS v", *more)


def rows(found: DataFrame) -> list[tuple]:
    return sorted(tuple(row) for row in found.collect())


def held(table: lk.Table, at: int | None = None) -> list[tuple]:
    return sorted(table.scan(at).collect().rows())


def test_plain_files(spark: SparkSession, tmp_path: Path) -> None:
    table = lk.create(tmp_path / "t", {"p": "STRING", "k": "BIGINT", "v": "STRING"}, partition_keys=["p"])
    ls.write(frame(spark, 0, 100).selectExpr("IF(k % 2 = 0, 'a', 'b/c') AS p", "k", "v"), table)
    ls.write(frame(spark, 100, 110).selectExpr("'a' AS p", "k", "v"), table)
    for native in ("on", "off"):
        found = ls.read(spark, table, options={"spark.read.native": native})
        assert rows(found) == held(table)
        assert found.where("p = 'b/c'").count() == 50
    assert rows(ls.read(spark, table, columns=["v"], where="p = 'a' AND k < 4")) == [("v0",), ("v2",)]
    assert ls.read(spark, table, at=1).count() == 100
    assert rows(ls.changes(spark, table, since=1).select("_row_kind", "k")) == [("+I", k) for k in range(100, 110)]


def test_buckets_that_are_merged(spark: SparkSession, tmp_path: Path) -> None:
    table = keyed(tmp_path / "t", {"write-only": "true"})
    ls.write(frame(spark, 0, 100), table)
    ls.write(frame(spark, 50, 60, kind="-D").unionAll(frame(spark, 90, 120, "w", kind="+U")), table, mode="upsert", row_kind="op")
    found = ls.read(spark, table)
    assert rows(found) == held(table) == sorted((k, f"{'w' if k >= 90 else 'v'}{k}") for k in range(120) if not 50 <= k < 60)
    assert found.where("k < 10").unionAll(found.where("k >= 115")).count() == 15
    assert found.alias("a").join(found.alias("b"), col("a.k") == col("b.k")).count() == 110


def test_keys_that_look_for_their_bucket(spark: SparkSession, tmp_path: Path) -> None:
    table = keyed(tmp_path / "t", {"bucket": "-1", "dynamic-bucket.target-row-num": "40"})
    ls.write(frame(spark, 0, 100), table)
    ls.write(frame(spark, 50, 150, "w"), table)
    assert rows(ls.read(spark, table)) == held(table) == sorted((k, f"{'w' if k >= 50 else 'v'}{k}") for k in range(150))
    assert table.check(deep=True).ok


def test_overwrites(spark: SparkSession, tmp_path: Path) -> None:
    table = lk.create(tmp_path / "t", {"p": "INT", "k": "BIGINT"}, partition_keys=["p"])
    ls.write(spark.range(10).selectExpr("CAST(id % 2 AS INT) AS p", "id AS k"), table)
    ls.write(spark.range(10, 12).selectExpr("1 AS p", "id AS k"), table, mode="overwrite", partition={"p": 1})
    assert rows(ls.read(spark, table)) == held(table) == [*((0, k) for k in range(0, 10, 2)), (1, 10), (1, 11)]
    ls.write(spark.range(0).selectExpr("1 AS p", "id AS k"), table, mode="overwrite", partition={"p": 0})
    assert rows(ls.read(spark, table)) == [(1, 10), (1, 11)]


def test_types_there_and_back(spark: SparkSession, tmp_path: Path) -> None:
    columns = {
        "b": "BOOLEAN", "i": "TINYINT", "f": "FLOAT", "d": "DECIMAL(20, 3)", "s": "STRING", "x": "BYTES", "day": "DATE", "at": "TIME(3)", "n": "TIMESTAMP(6)",
        "z": "TIMESTAMP_LTZ(6)", "l": "ARRAY<INT>", "m": "MAP<STRING, BIGINT>", "r": "ROW<a INT, b STRING>",
    }  # fmt: skip
    zoned = datetime(2024, 3, 31, 1, 2, 3, 456789, tzinfo=UTC)
    moment = zoned.replace(tzinfo=None)
    values = (True, 1, 0.5, Decimal("1.250"), "é", b"\x00\xff", date(2024, 3, 31), time(1, 2, 3), moment, zoned, [1, None], {"a": 1}, {"a": 1, "b": None})
    table, copy = (lk.create(tmp_path / name, columns, primary_keys=["s"], options={"bucket": "1"}) for name in "tu")
    table.upsert([dict(zip(columns, values, strict=True)), {"s": "nothing else"}])
    for native in ("on", "off"):
        ls.write(ls.read(spark, table, options={"spark.read.native": native}), copy)
        assert copy.scan().sort("s").collect().rows() == table.scan().sort("s").collect().rows()


def test_care_and_statements(spark: SparkSession, tmp_path: Path) -> None:
    table = keyed(tmp_path / "t", {"write-only": "true"})
    for first in (0, 50):
        ls.write(frame(spark, first, first + 100), table)
    assert ls.compact(spark, table, full=True).kinds == ("COMPACT",)
    ls.delete(spark, table, "k % 3 = 0")
    ls.update(spark, table, {"v": "concat('u', v)"}, where="k = 1")
    ls.compact(spark, table)
    assert rows(ls.read(spark, table)) == held(table) == sorted((k, f"{'u' if k == 1 else ''}v{k}") for k in range(150) if k % 3)


def test_what_does_not_fit_is_told_and_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = keyed(tmp_path / "t")
    with pytest.raises(SchemaMismatch, match="more"):
        ls.write(frame(spark, 0, 4).selectExpr("*", "1 AS more"), table)
    with pytest.raises(ValueOutOfRange, match="column k of t is NOT NULL"):
        ls.write(frame(spark, 0, 4).selectExpr("nullif(k, 3) AS k", "v"), table)
    assert not list(tmp_path.rglob("data-*"))


def test_a_source_of_sparks_own(spark: SparkSession, tmp_path: Path) -> None:
    ls.register(spark)
    table = keyed(tmp_path / "t")
    frame(spark, 0, 100).write.format("lakekit").mode("append").save(table.location)
    frame(spark, 90, 110, "w").write.format("lakekit").mode("append").save(table.location)
    source = spark.read.format("lakekit")
    assert rows(source.load(table.location)) == held(table)
    assert rows(source.option("filter", "k < 2").schema("v STRING").load(table.location)) == [("v0",), ("v1",)]
    frame(spark, 0, 2).write.format("lakekit").mode("overwrite").save(table.location)
    assert held(table) == [(0, "v0"), (1, "v1")]


def test_names_in_sql(spark: SparkSession, tmp_path: Path) -> None:
    cat = lk.connect(tmp_path)
    cat.create_database("smoke")
    table = cat.create_table("smoke.t", {"k": "BIGINT NOT NULL", "v": "STRING"}, primary_keys=["k"], options={"bucket": "1"})
    assert ls.attach(spark, cat) == ["smoke.t"]
    try:
        spark.sql("INSERT INTO smoke.t VALUES (1, 'a'), (2, 'b')")
        spark.sql("INSERT OVERWRITE smoke.t VALUES (3, 'c')")
        assert rows(spark.sql("SELECT * FROM smoke.t")) == held(table) == [(3, "c")]
        assert ls.attach(spark, cat, versions=["smoke.t@1"]) == ["smoke.t", "smoke.t_at_1"]
        assert spark.sql("SELECT * FROM smoke.t_at_1").count() == 2
    finally:
        spark.sql("DROP DATABASE smoke CASCADE")
    assert held(table) == [(3, "c")]


def test_streams(spark: SparkSession, tmp_path: Path) -> None:
    """`foreachBatch` goes with all; the source's own streams need PySpark 4.2, and older ones are told."""
    ls.register(spark)
    table, copy = keyed(tmp_path / "t"), keyed(tmp_path / "u")
    location = table.location

    def put(batch: DataFrame, number: int) -> None:
        ls.write(batch, location, commit_user="copy", identifier=number)

    def ended(writing, checkpoint: str):
        return writing.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True)

    frame(spark, 0, 20).write.parquet(str(tmp_path / "files"))
    files = spark.readStream.schema("k LONG, v STRING").parquet(str(tmp_path / "files"))
    ended(files.writeStream.foreachBatch(put), "1").start().awaitTermination()
    assert held(table) == [(k, f"v{k}") for k in range(20)]
    query = ended(spark.readStream.format("lakekit").load(table.location).writeStream.format("lakekit"), "2")
    if STREAMS:
        query.start(copy.location).awaitTermination()
        assert held(copy) == held(table)
    else:
        with pytest.raises(Exception, match=r"streams of format\('lakekit'\) need PySpark 4.2 or newer; foreachBatch"):
            query.start(copy.location).awaitTermination()
