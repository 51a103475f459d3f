"""The SQL backend of Spark: rows are Spark's, and `lakekit.spark` changes tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions, types as spark_types

from lakekit.errors import InvalidOption
from lakekit.spark import batch_write, compaction, dml, maintenance, merging, queries, session, types
from lakekit.sql.tokenizer import quote_identifier

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import polars as pl
    from pyspark.sql import DataFrame, SparkSession

    from lakekit.commit.result import Commit
    from lakekit.dml.merge_clauses import Clause
    from lakekit.maintenance.result import Expired
    from lakekit.sql.backend import ResultRows, Statement
    from lakekit.table.format_tables import ObjectTable
    from lakekit.table.table import Table
    from lakekit.types import DataType, Field

_RESULT_TYPES = {
    "string": spark_types.StringType(),
    "long": spark_types.LongType(),
    "int": spark_types.IntegerType(),
    "boolean": spark_types.BooleanType(),
}


@dataclass(frozen=True, slots=True)
class SparkBackend:
    """A session that computes rows and runs tasks: a `lakekit.sql.backend.SqlBackend`."""

    spark: SparkSession
    tables: dict[str, Table] = field(default_factory=dict)

    @property
    def database(self) -> str:
        """The session's current database."""
        return self.spark.catalog.currentDatabase()

    @property
    def zone(self) -> str:
        """The session's time zone."""
        return self.spark.conf.get("spark.sql.session.timeZone") or "UTC"

    def query(self, statement: Statement, text: str) -> DataFrame:
        return queries.query(self.spark, statement, text)

    def values(self, statement: Statement, text: str, most: int) -> pl.Series:
        return queries.values(self.spark, statement, text, most)

    def names(self, rows: DataFrame) -> list[str]:
        return list(rows.columns)

    def fields(self, rows: DataFrame) -> tuple[Field, ...]:
        return types.paimon_fields(rows.schema)

    def renamed(self, rows: DataFrame, names: Sequence[str]) -> DataFrame:
        return rows.toDF(*names)

    def stored(self, rows: DataFrame, wanted: Sequence[Field | None], constants: Mapping[Field, Any]) -> DataFrame:
        columns = [source.name if to is None else to.name for source, to in zip(rows.schema, wanted, strict=True)]
        rows = rows.toDF(*columns)
        rows = rows.select(*(_store_column(column, to) for column, to in zip(rows.schema, wanted, strict=True)))
        for key, value in constants.items():
            rows = rows.withColumn(key.name, functions.lit(value).cast(types.spark_type(key.type)))
        return rows

    def type(self, text: str) -> DataType:
        try:
            return types.paimon_type(spark_types.DataType.fromDDL(text))
        except PySparkException as wrong:
            raise InvalidOption(
                f"{text} is no type that Spark knows: {str(wrong).splitlines()[0]}", key="sql", value=text
            ) from None

    def type_text(self, t: DataType) -> str:
        return types.spark_type(t).simpleString()

    def write(self, rows: DataFrame, table: Table, *, mode: str, partition: Mapping[str, Any] | None) -> Commit:
        if mode == "overwrite" and partition is None:
            table = table.with_options(
                {batch_write.DYNAMIC: batch_write.is_dynamic(self.spark.conf.get(batch_write.OVERWRITE_MODE, None))}
            )
        return batch_write.write(rows, table, mode=mode, partition=partition)

    def delete(self, table: Table, where: pl.Expr | str) -> Commit:
        return dml.delete(self.spark, table, where)

    def update(self, table: Table, values: Mapping[str, Any], *, where: pl.Expr | str) -> Commit:
        return dml.update(self.spark, table, values, where=where)

    def merge(self, table: Table, source: DataFrame, *clauses: Clause, on: pl.Expr) -> Commit:
        return merging.merge(self.spark, table, source, *clauses, on=on)

    def analyze(self, table: Table, *, columns: Sequence[str] | None) -> Commit:
        return maintenance.analyze(self.spark, table, columns=columns)

    def compact(self, table: Table, **how: Any) -> Commit:
        return compaction.compact(self.spark, table, **how)

    def rewrite_file_index(self, table: Table, *, where: pl.Expr | None) -> Commit:
        return maintenance.rewrite_file_index(self.spark, table, where=where)

    def remove_orphans(self, table: Table, *, older_than: datetime | None, dry_run: bool) -> pl.DataFrame:
        return maintenance.remove_orphans(self.spark, table, older_than=older_than, dry_run=dry_run)

    def refresh(self, table: ObjectTable) -> Commit:
        return maintenance.refresh(self.spark, table)

    def expire_snapshots(self, table: Table, **how: Any) -> Expired:
        return maintenance.expire_snapshots(self.spark, table, **how)

    def told(self, answer: ResultRows) -> DataFrame:
        """Return an answer of few rows as a DataFrame that needs no job."""
        schema = spark_types.StructType(
            [spark_types.StructField(name, _RESULT_TYPES[kind]) for name, kind in answer.kinds.items()]
        )
        if not schema.fields:
            return session.empty_frame(self.spark, schema)
        columns = list(zip(*answer.rows, strict=True)) or [()] * len(schema.fields)
        wanted = types.arrow_schema(types.paimon_fields(schema))
        arrays = [pa.array(column, field.type) for column, field in zip(columns, wanted, strict=True)]
        return self.spark.createDataFrame(pa.Table.from_arrays(arrays, names=schema.names), schema)


def _store_column(column: spark_types.StructField, wanted: Field | None) -> Any:
    """Return a column as the table takes it, where SQL gives written values a type of its own.

    These are decimals for numbers with a point, and dates for timestamps. Fields of a ROW without names of their own
    are `col1`, `col2`, … to SQL. All else stays as it is: `ls.write` casts where no value changes, and reports what
    does not fit.
    """
    column_value = functions.col(quote_identifier(column.name))
    if wanted is None:
        return column_value
    to, source = types.spark_type(wanted.type), column.dataType
    moments = (spark_types.DateType, spark_types.TimestampType, spark_types.TimestampNTZType)
    is_fraction = isinstance(source, spark_types.DecimalType) and isinstance(
        to, (spark_types.DoubleType, spark_types.FloatType)
    )
    is_moment = isinstance(source, moments) and isinstance(to, moments[1:]) and type(source) is not type(to)
    is_text = isinstance(to, spark_types.StringType) and isinstance(
        source, (spark_types.NumericType, spark_types.BooleanType, *moments)
    )
    typed = to if is_fraction or is_moment or is_text or _is_unnamed(source, to) else _fill_void_types(source, to)
    return column_value if typed == source else column_value.cast(typed).alias(column.name)


def _fill_void_types(source: spark_types.DataType, to: spark_types.DataType) -> spark_types.DataType:
    """Return the type with the table's types in place of void.

    `array()` and `named_struct('a', NULL)` have parts without a type.
    """
    match source, to:
        case spark_types.ArrayType(), spark_types.ArrayType():
            return spark_types.ArrayType(_part(source.elementType, to.elementType), source.containsNull)
        case spark_types.MapType(), spark_types.MapType():
            return spark_types.MapType(
                _part(source.keyType, to.keyType), _part(source.valueType, to.valueType), source.valueContainsNull
            )
        case spark_types.StructType(), spark_types.StructType():
            types_by_name = {field.name: field.dataType for field in to}
            parts = [_part(field.dataType, types_by_name.get(field.name, field.dataType)) for field in source]
            return spark_types.StructType(
                [
                    spark_types.StructField(field.name, part, field.nullable)
                    for field, part in zip(source, parts, strict=True)
                ]
            )
    return source


def _part(source: spark_types.DataType, to: spark_types.DataType) -> spark_types.DataType:
    return to if isinstance(source, spark_types.NullType) else _fill_void_types(source, to)


def _is_unnamed(source: spark_types.DataType, to: spark_types.DataType) -> bool:
    """Return whether a ROW is one of `struct(1, 'a')`, whose fields have no names and count by order."""
    if (
        not isinstance(source, spark_types.StructType)
        or not isinstance(to, spark_types.StructType)
        or len(source) != len(to)
    ):
        return False
    return source.names == [f"col{at}" for at in range(1, len(to) + 1)]
