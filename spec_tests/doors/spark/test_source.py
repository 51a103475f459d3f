"""`format("lakekit")` and names in SQL: what Spark reads and writes by its own words is what lakekit reads and writes."""

from __future__ import annotations

import pickle
import shutil
import sys
from typing import TYPE_CHECKING

import polars as pl
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import InputPartition

import lakekit as lk
from lakekit.errors import ColumnNotFound, InvalidOption, SchemaMismatch, TableAlreadyExists, Unsupported
from lakekit.spark import attach, batch_write, data_source, register, write_task
from lakekit.spark.types import spark_schema
from spec_tests.doors.spark.equal import frame_rows, table_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
COLUMNS = {"p": "STRING", "k": "BIGINT", "v": "STRING"}
ROWS = [("a", 1, "x"), ("a", 2, None), ("b/c", 3, "z"), (None, 4, "é")]


@pytest.fixture(scope="module")
def known(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


def made(path: Path | str, rows: list[tuple] | None = None, **options: str) -> lk.Table:
    keys = {"primary_keys": ["p", "k"]} if options.pop("keyed", None) else {}
    columns = {**COLUMNS, "p": "STRING NOT NULL"} if keys else COLUMNS
    table = lk.create(path, columns, partition_keys=["p"], options={key.replace("_", "-"): value for key, value in options.items()}, **keys)
    if rows is not None:
        table.append(pl.DataFrame(rows, schema=list(COLUMNS), orient="row"))
    return table


def load(spark: SparkSession, table: lk.Table, **options: str):
    return spark.read.format("lakekit").options(**options).load(table.location)


def test_a_table_is_read_as_the_scan_reads_it(known, tmp_path):
    table = made(tmp_path / "t [1]{a}", ROWS)
    found = load(known, table)
    assert frame_rows(found) == table_rows(table)
    assert found.count() == 4
    assert frame_rows(known.read.format("lakekit").schema("v string, k long").load(table.location)) == sorted([(v, k) for _, k, v in ROWS], key=repr)
    assert frame_rows(load(known, table, filter="k > 2 and p is not null")) == [("b/c", 3, "z")]


def test_two_scans_of_one_frame_are_two(known, tmp_path):
    found = load(known, made(tmp_path / "t", ROWS))
    assert found.where("k > 2").union(found).count() == 6
    assert found.where("k > 2").count() == 2
    assert found.count() == 4
    assert found.join(found.where("v = 'x'"), "k").count() == 1


def test_two_versions_and_a_branch_in_one_program(known, tmp_path):
    table = made(tmp_path / "t", ROWS[:2])
    table.create_tag("early")
    table.create_branch("side", tag="early")
    table.append(pl.DataFrame(ROWS[2:], schema=list(COLUMNS), orient="row"))
    before, now = load(known, table, **{"scan.snapshot-id": "1"}), load(known, table)
    assert (before.count(), now.count(), before.union(now).count(), load(known, table, branch="side").count()) == (2, 4, 6, 2)
    table.append(pl.DataFrame(ROWS[:1], schema=list(COLUMNS), orient="row"))
    assert (now.count(), load(known, table).count()) == (4, 5), "a frame stays on its snapshot"


def test_of_an_empty_table_there_is_nothing(known, tmp_path):
    assert frame_rows(load(known, made(tmp_path / "t"))) == []


def test_rows_are_appended_and_replaced(known, tmp_path):
    table = made(tmp_path / "t")
    frame = known.createDataFrame(ROWS, "p string, k long, v string")
    frame.write.format("lakekit").mode("append").save(table.location)
    assert table_rows(table) == sorted(ROWS, key=repr)
    frame.where("k = 1").write.format("lakekit").mode("overwrite").option("partitionOverwriteMode", "DYNAMIC").save(table.location)
    assert table_rows(table) == sorted([ROWS[0], *ROWS[2:]], key=repr), "the partition that it has rows of"
    frame.limit(0).write.format("lakekit").mode("overwrite").option("partition", "p=b%2Fc").save(table.location)
    assert [row[1] for row in table_rows(table)] == [1, 4]
    frame.where("k < 3").write.format("lakekit").mode("overwrite").option("dynamic-partition-overwrite", "true").save(table.location)
    assert [row[1] for row in table_rows(table)] == [1, 2, 4]
    frame.where("k < 3").write.format("lakekit").mode("overwrite").save(table.location)
    assert table_rows(table) == sorted(ROWS[:2], key=repr), "all of it, as Spark means it"
    assert table.check(deep=True).ok


def test_keys_are_upserted_and_not_compacted(known, tmp_path):
    table = made(tmp_path / "t", keyed="yes", bucket="2")
    frame = known.createDataFrame([("a", k, f"{k}") for k in range(40)], "p string, k long, v string").repartition(3)
    for _ in range(3):
        frame.write.format("lakekit").mode("append").save(table.location)
    changes = known.createDataFrame([("a", 1, "new", "+U"), ("a", 2, None, "-D")], "p string, k long, v string, op string")
    changes.write.format("lakekit").mode("append").option("row_kind", "op").save(table.location)
    assert table_rows(table) == sorted([("a", 1, "new"), *(("a", k, f"{k}") for k in range(40) if k not in (1, 2))], key=repr)
    assert table.files()["level"].unique().to_list() == [0]
    assert table.check(deep=True).ok
    table.compact(full=True)
    assert len(table_rows(table)) == 39


def test_what_does_not_fit_is_told_and_leaves_nothing(known, tmp_path):
    table = lk.create(tmp_path / "t", {"p": "STRING", "k": "BIGINT NOT NULL", "v": "STRING"}, partition_keys=["p"])
    before = sorted(tmp_path.rglob("*"))
    for frame, word in (
        (known.createDataFrame([("a", 1, "x", 2)], "p string, k long, v string, w int"), "w"),
        (known.createDataFrame([("a", "one", "x")], "p string, k string, v string"), "SchemaMismatch"),
        (known.createDataFrame([("a", 1, "x"), ("b", None, "y")], "p string, k long, v string").repartition(1), "ValueOutOfRange"),
    ):
        with pytest.raises(PySparkException, match=word):
            frame.write.format("lakekit").mode("append").save(table.location)
    assert sorted(path for path in tmp_path.rglob("*") if "bucket-" not in path.name and not path.name.startswith("p=")) == before
    assert not list(tmp_path.rglob("data-*"))


def test_what_this_way_cannot_do_is_refused_by_name(tmp_path):
    schema = spark_schema(made(tmp_path / "o", bucket="2", keyed="yes").schema.fields)
    dynamic = made(tmp_path / "d", keyed="yes")._context()
    with pytest.raises(Unsupported, match=r"ls\.write"):
        batch_write.write_job(dynamic, schema, mode="append")
    with pytest.raises(InvalidOption, match="no kinds"):
        batch_write.write_job(made(tmp_path / "a")._context(), schema, mode="append", row_kind="op")
    with pytest.raises(InvalidOption, match="no path"):
        data_source.PaimonDataSource({}).table()
    with pytest.raises(InvalidOption, match="dt=2024-03-31"):
        write_task.parse_partition("p")
    table = made(tmp_path / "t")
    with pytest.raises(InvalidOption, match="appended"):
        data_source.PaimonDataSource({"path": table.location, "partition": "p=a"}).writer(schema, overwrite=False)
    with pytest.raises(InvalidOption, match="partitionOverwriteMode is 'some'; there are static and dynamic"):
        data_source.PaimonDataSource({"path": table.location, "partitionoverwritemode": "some"}).writer(schema, overwrite=True)
    with pytest.raises(ColumnNotFound, match="nobody"):
        data_source.BatchReader(table, spark_schema(table.schema.fields).add("nobody", "string"), None)


@pytest.mark.parametrize("lacks", ["pyspark.sql.streaming.datasource", "pyspark.sql.datasource"])
def test_a_pyspark_without_streams_is_told(tmp_path, monkeypatch, lacks):
    """4.1 lacks a module, 4.0 one of its names."""
    monkeypatch.delitem(sys.modules, "lakekit.spark.streaming", raising=False)
    if lacks.endswith("streaming.datasource"):
        monkeypatch.setitem(sys.modules, lacks, None)
    else:
        monkeypatch.delattr(f"{lacks}.DataSourceStreamArrowWriter")
    table = made(tmp_path / "t")
    with pytest.raises(Unsupported, match=r"streams of format\('lakekit'\) need PySpark 4.2 or newer; foreachBatch"):
        data_source.PaimonDataSource({"path": table.location}).streamReader(spark_schema(table.schema.fields))


def test_another_type_is_not_read(known, tmp_path):
    table = made(tmp_path / "t", ROWS)
    with pytest.raises(PySparkException, match=SchemaMismatch.__name__):
        known.read.format("lakekit").schema("k string").load(table.location).collect()


def test_an_executor_gets_no_list_of_tasks(tmp_path):
    table = made(tmp_path / "t", ROWS)
    reader = data_source.BatchReader(table, spark_schema(table.schema.fields), None)
    sent = pickle.loads(pickle.dumps(reader))
    assert reader.tasks
    assert not sent.tasks
    rows = [row for task in reader.partitions() for batch in sent.read(task) for row in batch.to_pylist()]
    assert len(rows) == 4
    assert list(sent.read(InputPartition(None))) == []


def test_a_commit_that_fails_leaves_no_file_and_one_that_was_made_stays(known, tmp_path):
    table = made(tmp_path / "t")
    batch = pl.DataFrame(ROWS, schema=list(COLUMNS), orient="row").to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()
    schema = spark_schema(table.schema.fields)
    written = data_source.PaimonDataSource({"path": table.location}).writer(schema, overwrite=False)
    answers = [written.write(iter(batch)), None]
    written.abort(answers)
    assert not list(tmp_path.rglob("data-*"))
    written = data_source.PaimonDataSource({"path": table.location}).writer(schema, overwrite=False)
    answers = [written.write(iter(batch))]
    written.commit(answers)
    written.abort(answers)  # Spark does that too where what comes after a commit fails
    assert table_rows(table) == sorted(ROWS, key=repr)


# ---- names ----------------------------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop(known, tmp_path_factory) -> Iterator[tuple[lk.Catalog, SparkSession]]:
    catalog = lk.connect(str(tmp_path_factory.mktemp("warehouse")))
    catalog.create_database("lake_shop")
    for name, keys in (("orders", ["k"]), ("Plain", []), ("odd name", [])):
        table = catalog.create_table(f"lake_shop.{name}", {"k": "BIGINT", "v": "STRING"}, primary_keys=keys, options={"bucket": "1"} if keys else None)
        table.append([{"k": 1, "v": "a"}, {"k": 2, "v": None}])
    with pytest.warns(UserWarning, match=r"lake_shop\.odd name is not attached: names in Spark"):
        assert attach(known, catalog) == ["lake_shop.Plain", "lake_shop.orders"]
    catalog.drop_table("lake_shop.odd name")
    yield catalog, known
    known.sql("DROP DATABASE lake_shop CASCADE")


def test_tables_have_names_in_sql(shop):
    catalog, spark = shop
    assert frame_rows(spark.sql("SELECT o.k, n.v FROM lake_shop.orders o JOIN lake_shop.plain n USING (k) WHERE o.k = 1")) == [(1, "a")]
    spark.sql("INSERT INTO lake_shop.orders VALUES (2, 'b'), (3, 'c')")
    spark.sql("INSERT INTO lake_shop.orders BY NAME SELECT 'd' AS v, 4L AS k")
    assert table_rows(catalog["lake_shop.orders"]) == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    assert spark.table("lake_shop.orders").count() == 4
    assert attach(spark, catalog, versions=["lake_shop.orders@1"]) == ["lake_shop.Plain", "lake_shop.orders", "lake_shop.orders_at_1"]
    assert frame_rows(spark.sql("SELECT count(*) FROM lake_shop.orders_at_1")) == [(2,)]
    spark.sql("INSERT OVERWRITE lake_shop.plain VALUES (9, 'z')")
    assert table_rows(catalog["lake_shop.Plain"]) == [(9, "z")]


def test_what_changed_is_seen_after_attaching_again(shop):
    catalog, spark = shop
    catalog["lake_shop.Plain"].alter(lk.add_column("w", "INT"))
    assert attach(spark, catalog, database="lake_shop") == ["lake_shop.Plain", "lake_shop.orders"]
    assert spark.table("lake_shop.plain").columns == ["k", "v", "w"]


def test_names_that_differ_in_case_alone_and_tables_that_are_gone(known, tmp_path):
    catalog = lk.connect(tmp_path)
    catalog.create_database("lake_case")
    for number, name in enumerate(("T", "gone", "t")):
        catalog.create_table(f"lake_case.{name}", {"k": "BIGINT"}).append([{"k": number}])
    with pytest.warns(UserWarning, match=r"lake_case\.t is not attached: Spark does not tell it from lake_case\.T"):
        assert attach(known, catalog) == ["lake_case.T", "lake_case.gone"]
    assert frame_rows(known.table("lake_case.t")) == [(0,)]
    catalog.drop_table("lake_case.T")
    catalog.drop_table("lake_case.gone")
    assert attach(known, catalog) == ["lake_case.t"]
    assert frame_rows(known.table("lake_case.t")) == [(2,)]
    assert [row.tableName for row in known.sql("SHOW TABLES IN lake_case").collect()] == ["t"]
    known.sql("DROP DATABASE lake_case CASCADE")
    assert catalog["lake_case.t"].scan().collect().rows() == [(2,)]


def test_a_session_that_keeps_its_tables_in_the_lake(known, tmp_path):
    """Spark deletes the folder of a database that is dropped, and would take the tables of the lake along."""
    place = known.conf.get("spark.sql.warehouse.dir").removeprefix("file:")
    for warehouse, is_there in ((str(tmp_path), True), (place, False)):
        catalog = lk.connect(warehouse)
        catalog.create_database("lake_inside", if_not_exists=True)
        try:
            table = catalog.create_table("lake_inside.t", {"k": "BIGINT"})
            if is_there:
                known.sql(f"CREATE DATABASE lake_inside LOCATION '{tmp_path}/lake_inside.db'")
            with pytest.raises(InvalidOption, match=r"the session keeps database lake_inside in .*lake_inside\.db, where lake_inside\.t lies"):
                attach(known, catalog, database="lake_inside")
            assert known.catalog.databaseExists("lake_inside") == is_there
            assert table.scan().collect().is_empty()
        finally:
            known.sql("DROP DATABASE IF EXISTS lake_inside CASCADE")
            shutil.rmtree(f"{warehouse}/lake_inside.db", ignore_errors=True)


def test_what_is_no_catalog(known, tmp_path):
    with pytest.raises(TypeError, match=r"takes a catalog, not str: lk\.connect"):
        attach(known, str(tmp_path))
    with pytest.raises(TypeError, match="database= is a name, not list"):
        attach(known, lk.connect(tmp_path), database=["shop"])


def test_somebody_elses_table_is_left_alone(shop):
    catalog, spark = shop
    catalog.create_table("lake_shop.other", {"k": "BIGINT"})
    spark.sql("CREATE VIEW lake_shop.other AS SELECT 1 AS one")
    with pytest.raises(TableAlreadyExists, match="not lakekit's"):
        attach(spark, catalog)
    assert frame_rows(spark.table("lake_shop.other")) == [(1,)]
