"""Types between Paimon and Spark, and rows as the Arrow that PySpark asks for."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from lakekit.errors import SchemaMismatch
from lakekit.format.polars_types import polars_schema
from lakekit.spark import types
from lakekit.types import Field, parse

pytestmark = pytest.mark.spark

PAIRS = {
    "BOOLEAN": "boolean",
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "INT": "int",
    "BIGINT": "bigint",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DECIMAL(10, 2)": "decimal(10,2)",
    "CHAR(3)": "string",
    "VARCHAR(7)": "string",
    "STRING": "string",
    "BINARY(3)": "binary",
    "BYTES": "binary",
    "BLOB": "binary",
    "DATE": "date",
    "TIME(3)": "int",
    "TIMESTAMP(3)": "timestamp_ntz",
    "TIMESTAMP(9)": "timestamp_ntz",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": "timestamp",
    "VARIANT": "variant",
    "ARRAY<INT NOT NULL>": "array<int>",
    "MAP<STRING, DATE>": "map<string,date>",
    "MULTISET<STRING>": "map<string,int>",
    "ROW<a INT, b ARRAY<TIMESTAMP(0)>>": "struct<a:int,b:array<timestamp_ntz>>",
}
BACK = {
    "CHAR(3)": "STRING",
    "VARCHAR(7)": "STRING",
    "BINARY(3)": "BYTES",
    "BLOB": "BYTES",
    "TIME(3)": "INT",
    "TIMESTAMP(3)": "TIMESTAMP(6)",
    "TIMESTAMP(9)": "TIMESTAMP(6)",
    "MAP<STRING, DATE>": "MAP<STRING NOT NULL, DATE>",
    "MULTISET<STRING>": "MAP<STRING NOT NULL, INT NOT NULL>",
    "ROW<a INT, b ARRAY<TIMESTAMP(0)>>": "ROW<`a` INT, `b` ARRAY<TIMESTAMP(6)>>",
}


@pytest.mark.parametrize("text", PAIRS)
def test_a_type_there_and_back(text: str) -> None:
    there = types.spark_type(parse(text))
    assert there.simpleString() == PAIRS[text]
    assert str(types.paimon_type(there)) == str(parse(BACK.get(text, text)))


def test_nullability_and_comments_go_along() -> None:
    fields = (Field("k", "BIGINT NOT NULL", comment="the key"), Field("l", "ARRAY<INT NOT NULL>"))
    schema = types.spark_schema(fields)
    assert (schema["k"].nullable, schema["k"].metadata, schema["l"].dataType.containsNull) == (False, {"comment": "the key"}, False)
    assert types.paimon_fields(schema) == fields


def test_lengths_that_spark_knows_are_kept() -> None:
    assert [str(types.paimon_type(t)) for t in (spark.VarcharType(7), spark.CharType(2))] == ["VARCHAR(7)", "CHAR(2)"]


def test_a_type_without_a_counterpart_names_its_column() -> None:
    with pytest.raises(SchemaMismatch, match="column d of Spark type interval day to second; cast it") as wrong:
        types.paimon_fields(spark.StructType([spark.StructField("d", spark.DayTimeIntervalType(0, 3))]))
    assert wrong.value.column == "d"


@pytest.mark.parametrize("nullable", [True, False])
def test_arrow_schemas_are_pysparks(nullable: bool) -> None:
    fields = tuple(Field(f"c{at}", parse(text) if nullable else parse(text).not_null()) for at, text in enumerate(PAIRS))
    for some in (fields, types.read_fields(fields)):
        schema = types.spark_schema(some)
        try:
            wanted = to_arrow_schema(schema, timezone="UTC")
        except TypeError:  # before 4.2
            wanted = to_arrow_schema(schema)
        assert types.arrow_schema(some).equals(wanted, check_metadata=True)


VALUES = {
    "BOOLEAN": True,
    "TINYINT": -1,
    "DECIMAL(10, 2)": Decimal("1.25"),
    "STRING": "é",
    "BYTES": b"\x00",
    "DATE": date(1500, 1, 1),
    "TIME(3)": time(0, 0, 1, 5000),
    "TIMESTAMP(3)": datetime(1969, 12, 31, 23, 59, 59, 999000),  # noqa: DTZ001 - a wall clock
    "TIMESTAMP(9)": datetime(2024, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001 - a wall clock
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": datetime(2024, 1, 1, tzinfo=UTC),
    "VARIANT": {"value": b"\x0c\x01", "metadata": b"\x01\x00\x00"},
    "ARRAY<INT NOT NULL>": [1, 2],
    "MAP<STRING, DATE>": [{"key": "a", "value": None}],
    "ROW<a INT, b ARRAY<TIMESTAMP(0)>>": {"a": None, "b": [datetime(2024, 1, 1)]},  # noqa: DTZ001
}
OTHERWISE = {"TIME(3)": 1005, "MAP<STRING, DATE>": [("a", None)]}


def test_rows_become_batches() -> None:
    fields = types.read_fields([Field(text, parse(text)) for text in VALUES])
    schema = polars_schema([Field(text, parse(text)) for text in VALUES], timestamp_unit="us")
    batch = types.to_batch(pl.DataFrame({name: [value, None] for name, value in VALUES.items()}, schema=schema), fields)
    assert batch.schema.equals(types.arrow_schema(fields), check_metadata=True)
    assert batch.to_pylist() == [VALUES | OTHERWISE, dict.fromkeys(VALUES)]


def test_rows_without_columns_are_counted() -> None:
    batch = types.to_batch(pl.DataFrame(height=3), ())
    assert (batch.num_rows, batch.schema) == (3, pa.schema([]))
