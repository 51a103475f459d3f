"""Which places outside its folder a table may use travels with the job; a query of Spark's says nothing of it."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

import lakekit as lk
import lakekit.spark as ls
from lakekit.spark import data_source, register
from lakekit.spark.types import spark_schema

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ALLOWED, EXTERNAL = "lakekit.allowed-locations", "data-file.external-paths"


def made(top: Path) -> lk.Table:
    options = {EXTERNAL: f"file:{top}/far", f"{EXTERNAL}.strategy": "round-robin", "spark.read.native": "off"}
    table = lk.create(top / "t", {"k": "INT"}, options=options)
    table.append([{"k": 1}])
    return table


def test_tasks_read_and_write_where_the_driver_may(spark: SparkSession, tmp_path: Path) -> None:
    made(tmp_path)
    with pytest.raises(lk.LocationNotAllowed):
        ls.read(spark, lk.open(tmp_path / "t")).collect()
    with pytest.raises(lk.LocationNotAllowed):
        ls.write(spark.createDataFrame([(2,)], "k int"), lk.open(tmp_path / "t"))
    allowed = lk.open(tmp_path / "t", options={ALLOWED: str(tmp_path / "far")})
    ls.write(spark.createDataFrame([(2,)], "k int"), allowed)
    assert sorted(row.k for row in ls.read(spark, allowed).collect()) == [1, 2]
    assert sorted(row.k for row in ls.read(spark, allowed.with_options({"spark.read.native": "on"})).collect()) == [1, 2]
    register(spark)
    load = spark.read.format("lakekit").option(ALLOWED, str(tmp_path / "far")).load(allowed.location)
    assert sorted(row.k for row in load.collect()) == [1, 2]
    lost = tmp_path / "far" / "bucket-0" / "data-lost.parquet"
    lost.write_bytes(b"lost")
    with pytest.warns(UserWarning, match="was not looked at"):
        assert ls.remove_orphans(spark, allowed, older_than="1 ms", force=True).is_empty()
    assert ls.remove_orphans(spark, allowed, older_than="1 ms", force=True, external=True)["path"].to_list() == [str(lost)]


def test_a_source_says_it_by_an_option_and_a_query_does_not(tmp_path: Path) -> None:
    own = made(tmp_path)
    schema = spark_schema(own.schema.fields)
    asked = {"path": own.location}
    with pytest.raises(lk.LocationNotAllowed):
        data_source.PaimonDataSource(asked).reader(schema)
    reader = pickle.loads(pickle.dumps(data_source.PaimonDataSource({**asked, ALLOWED: str(tmp_path)}).reader(schema)))
    assert reader.jobs[0].ctx.paths.locations.option_locations == (str(tmp_path),)
    of_table = data_source.make_source_class(lk.open(own.location))
    for key in (ALLOWED, EXTERNAL, "object-location", ALLOWED.upper()):
        with pytest.raises(lk.InvalidOption, match="which names a place: a query may not"):
            of_table({key: str(tmp_path)}).table()
