"""Paimon's types as Spark has them, and rows as the Arrow that Spark's Python functions take and give.

    CHAR, VARCHAR        string                        BLOB, BINARY, VARBINARY   binary
    TIMESTAMP(p)         timestamp_ntz                 TIMESTAMP_LTZ(p)          timestamp
    TIME(p)              int: milliseconds of the day  MULTISET<e>               map<e, int>
    VARIANT              variant                       all others                the type of the same name

Spark holds microseconds: of TIMESTAMP(7) to TIMESTAMP(9) the finer digits are cut. Back from Spark a string is STRING,
a binary BYTES, timestamps have six digits. So does Paimon's own connector.

CHAR(n) is text as it is stored, in frames and in conditions. The connector gives Spark a type that it pads with blanks
to n characters wherever it reads or compares; here `rtrim(c)` compares what both of them wrote.

Arrow has to come as PySpark names it: text and lists of 32 bit offsets, timestamps in microseconds, the elements of a
list called "element".

Source: `SparkTypeUtils`, engine 1.4.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as spark

from lakekit.errors import SchemaMismatch, Unsupported
from lakekit.format.encoder import ArrowTarget, series_to_arrow
from lakekit.types import MAX_LENGTH, TIMESTAMPS, DataType, Field, part, quote_identifier
from lakekit.types.arrow import to_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

TIMESTAMP_DIGITS = 6
"""The digits of a second in Spark's timestamps."""
_SPARK_TYPES: dict[str, spark.DataType] = {
    "BOOLEAN": spark.BooleanType(),
    "TINYINT": spark.ByteType(),
    "SMALLINT": spark.ShortType(),
    "INT": spark.IntegerType(),
    "BIGINT": spark.LongType(),
    "FLOAT": spark.FloatType(),
    "DOUBLE": spark.DoubleType(),
    "CHAR": spark.StringType(),
    "VARCHAR": spark.StringType(),
    "BINARY": spark.BinaryType(),
    "VARBINARY": spark.BinaryType(),
    "BLOB": spark.BinaryType(),
    "DATE": spark.DateType(),
    "TIME": spark.IntegerType(),
    "TIMESTAMP": spark.TimestampNTZType(),
    "TIMESTAMP_LTZ": spark.TimestampType(),
    "VARIANT": spark.VariantType(),
}
_PAIMON_TYPES: dict[type[spark.DataType], DataType] = {
    spark.BooleanType: DataType(root="BOOLEAN"),
    spark.ByteType: DataType(root="TINYINT"),
    spark.ShortType: DataType(root="SMALLINT"),
    spark.IntegerType: DataType(root="INT"),
    spark.LongType: DataType(root="BIGINT"),
    spark.FloatType: DataType(root="FLOAT"),
    spark.DoubleType: DataType(root="DOUBLE"),
    spark.StringType: DataType(root="VARCHAR", length=MAX_LENGTH),
    spark.BinaryType: DataType(root="VARBINARY", length=MAX_LENGTH),
    spark.DateType: DataType(root="DATE"),
    spark.TimestampNTZType: DataType(root="TIMESTAMP", precision=TIMESTAMP_DIGITS),
    spark.TimestampType: DataType(root="TIMESTAMP_LTZ", precision=TIMESTAMP_DIGITS),
    spark.VariantType: DataType(root="VARIANT"),
}
_ARROW_TARGET = ArrowTarget(format_name="Spark", count_times=True)
_DAYS_AND_MOMENTS = (spark.DateType, spark.TimestampType, spark.TimestampNTZType)
_VARIANT_TYPE = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
    ]
)
"""The Arrow type of a variant, which PySpark recognizes by its metadata."""


# ---- Paimon -> Spark -------------------------------------------------------------------------------------------------


def spark_type(t: DataType) -> spark.DataType:
    """Return Spark's type of a Paimon type.

    Raises: `Unsupported` for a type that lakekit refuses.
    """
    match t.root:
        case "DECIMAL":
            return spark.DecimalType(t.precision or 10, t.scale or 0)
        case "ARRAY":
            return spark.ArrayType(spark_type(part(t.element)), part(t.element).nullable)
        case "MAP":
            return spark.MapType(spark_type(part(t.key)), spark_type(part(t.value)), part(t.value).nullable)
        case "MULTISET":
            return spark.MapType(spark_type(part(t.element)), spark.IntegerType(), valueContainsNull=False)
        case "ROW":
            return spark_schema(t.fields)
        case root if root in _SPARK_TYPES:
            return _SPARK_TYPES[root]
    msg = f"type {t} is not supported by lakekit"
    raise Unsupported(msg, feature=f"type.{t.root.lower()}")


def spark_schema(fields: Sequence[Field]) -> spark.StructType:
    """Return columns as Spark's schema: names, types, nullability, comments."""
    return spark.StructType([_spark_field(field) for field in fields])


def _spark_field(field: Field) -> spark.StructField:
    about = None if field.comment is None else {"comment": field.comment}
    return spark.StructField(field.name, spark_type(field.type), field.nullable, about)


# ---- Spark -> Paimon -------------------------------------------------------------------------------------------------


def paimon_type(t: spark.DataType, column: str = "") -> DataType:
    """Return the Paimon type that holds the values of a Spark type.

    Raises: `SchemaMismatch` where none does.
    """
    match t:
        case spark.VarcharType():
            return DataType(root="VARCHAR", length=t.length)
        case spark.CharType():
            return DataType(root="CHAR", length=t.length)
        case spark.DecimalType():
            return DataType(root="DECIMAL", precision=t.precision, scale=t.scale)
        case spark.ArrayType():
            return DataType(
                root="ARRAY", element=_with_null(paimon_type(t.elementType, column), nullable=t.containsNull)
            )
        case spark.MapType():
            value = _with_null(paimon_type(t.valueType, column), nullable=t.valueContainsNull)
            return DataType(root="MAP", key=paimon_type(t.keyType, column).not_null(), value=value)
        case spark.StructType():
            return DataType(root="ROW", fields=paimon_fields(t))
    if type(t) in _PAIMON_TYPES:
        return _PAIMON_TYPES[type(t)]
    subject = f"column {column}" if column else "a column"
    raise SchemaMismatch(
        f"no Paimon type holds {subject} of Spark type {t.simpleString()}; cast it", column=column or None
    )


def paimon_fields(schema: spark.StructType) -> tuple[Field, ...]:
    """Return Spark's columns as fields without ids: names, types, nullability, comments."""
    return tuple(
        Field(
            field.name,
            _with_null(paimon_type(field.dataType, field.name), nullable=field.nullable),
            comment=(field.metadata or {}).get("comment"),
        )
        for field in schema
    )


def _with_null(t: DataType, *, nullable: bool) -> DataType:
    return replace(t, nullable=nullable)


# ---- rows as Arrow ---------------------------------------------------------------------------------------------------


def read_fields(fields: Sequence[Field]) -> tuple[Field, ...]:
    """Return the columns as a DataFrame that was read has them: every one may hold nulls.

    That is so for any file that Spark reads.
    """
    return tuple(replace_type(field, _with_nulls(field.type)) for field in fields)


def replace_type(field: Field, t: DataType) -> Field:
    """Return the same column with another type."""
    return Field(field.name, t, id=field.id, comment=field.comment, default=field.default)


@lru_cache(maxsize=1024)
def _with_nulls(t: DataType) -> DataType:
    """Return the type with nulls at every depth, but for the keys of maps."""
    if t.root in ("MAP", "MULTISET"):
        key, value = (part(t.key), part(t.value)) if t.root == "MAP" else (part(t.element), DataType(root="INT"))
        return DataType(root="MAP", key=_with_nulls(key).not_null(), value=_with_nulls(value))
    inside = None if t.element is None else _with_nulls(t.element)
    return replace(
        t,
        nullable=True,
        element=inside,
        fields=tuple(replace_type(field, _with_nulls(field.type)) for field in t.fields),
    )


def arrow_schema(fields: Sequence[Field]) -> pa.Schema:
    """Return the Arrow schema that PySpark makes of `spark_schema(fields)`."""
    return pa.schema([pa.field(field.name, arrow_type(field.type), field.nullable) for field in fields])


def arrow_type(t: DataType) -> pa.DataType:
    """Return the Arrow type that PySpark makes of `spark_type(t)`."""
    match t.root:
        case "TIME":
            return pa.int32()
        case "TIMESTAMP":
            return pa.timestamp("us")
        case "TIMESTAMP_LTZ":
            return pa.timestamp("us", "UTC")
        case "VARIANT":
            return _VARIANT_TYPE
        case "ARRAY":
            return pa.list_(pa.field("element", arrow_type(part(t.element)), part(t.element).nullable))
        case "MAP":
            key = pa.field("key", arrow_type(part(t.key)), nullable=False)
            return pa.map_(key, pa.field("value", arrow_type(part(t.value)), part(t.value).nullable))
        case "MULTISET":
            return pa.map_(
                pa.field("key", arrow_type(part(t.element)), nullable=False),
                pa.field("value", pa.int32(), nullable=False),
            )
        case "ROW":
            return pa.struct([pa.field(field.name, arrow_type(field.type), field.nullable) for field in t.fields])
    return to_arrow(t)


def to_batch(frame: pl.DataFrame, fields: Sequence[Field]) -> pa.RecordBatch:
    """Return rows as one batch of `arrow_schema(fields)`, timestamps to microseconds at most.

    Raises: `ValueOutOfRange` for a null where a field has none, and for a null key of a map.
    """
    schema = arrow_schema(fields)
    columns = [
        _relabel_type(
            series_to_arrow(column, replace_type(field, _with_spark_precision(field.type)), _ARROW_TARGET), wanted.type
        )
        for column, field, wanted in zip(frame.iter_columns(), fields, schema, strict=True)
    ]
    if not columns:
        return pa.record_batch([pa.nulls(frame.height)], names=[""]).select([])
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _relabel_type(array: pa.Array, target_type: pa.DataType) -> pa.Array:
    """Return the same buffers under a type that differs in metadata alone, as that of a variant does."""
    return array if array.type.equals(target_type, check_metadata=True) else array.cast(target_type)


@lru_cache(maxsize=1024)
def _with_spark_precision(t: DataType) -> DataType:
    """Return the type with timestamps of Spark's precision, at every depth."""
    if t.root in TIMESTAMPS:
        return replace(t, precision=TIMESTAMP_DIGITS)
    element, key, value = (
        None if inside is None else _with_spark_precision(inside) for inside in (t.element, t.key, t.value)
    )
    return replace(
        t,
        element=element,
        key=key,
        value=value,
        fields=tuple(replace_type(field, _with_spark_precision(field.type)) for field in t.fields),
    )


# ---- what Spark stores -----------------------------------------------------------------------------------------------


def can_store(source: spark.DataType, to: spark.DataType) -> bool:
    """Return whether Spark's assignment (ANSI) takes values of a type for a column of another."""
    match source, to:
        case spark.NullType(), _:
            return True
        case spark.NumericType(), spark.NumericType():
            return True
        case spark.ArrayType(), spark.ArrayType():
            return can_store(source.elementType, to.elementType)
        case spark.MapType(), spark.MapType():
            return can_store(source.keyType, to.keyType) and can_store(source.valueType, to.valueType)
        case spark.StructType(), spark.StructType():
            names = [[one.name.lower() for one in each] for each in (source, to)]
            is_named = names[0] == names[1] or names[0] == [f"col{at}" for at in range(1, len(to) + 1)]
            return is_named and all(
                can_store(own.dataType, other.dataType) for own, other in zip(source, to, strict=True)
            )
    if isinstance(to, spark.StringType):
        return isinstance(source, spark.AtomicType)
    return source == to or (isinstance(source, _DAYS_AND_MOMENTS) and isinstance(to, _DAYS_AND_MOMENTS))


def type_text(t: spark.DataType) -> str:
    """Return a type as Spark's CAST takes it, names of fields in quotes."""
    match t:
        case spark.ArrayType():
            return f"ARRAY<{type_text(t.elementType)}>"
        case spark.MapType():
            return f"MAP<{type_text(t.keyType)}, {type_text(t.valueType)}>"
        case spark.StructType():
            return f"STRUCT<{', '.join(f'{quote_identifier(one.name)}: {type_text(one.dataType)}' for one in t)}>"
    return t.simpleString()
