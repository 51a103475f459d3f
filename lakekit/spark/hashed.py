"""Compute the task of a row in Spark itself, without Python.

This covers tables of fixed buckets whose partitions and bucket keys are whole numbers, dates and texts.

    task     (|hash of the partition| + bucket) % tasks                     as `write.shares` has it
    bucket   |hash of the bucket key % buckets|, or of the function mod the number itself
    hash     Spark's `hash` of bytes, Murmur3 by words of four bytes from the seed 42: Paimon's, of its binary row
    bytes    row kind and null bits (8) | each field (8): a number little-endian, a short text and its length,
             or offset and length of a long text | long texts

The bytes are made as hexadecimal digits. All else goes to `write_task.compute_task_numbers`, in Python. Every task
checks that its rows belong to its own buckets, so a Spark with another hash function would cause an error, and no key
in two buckets. Source: FORMAT.md 2.2 (binary row); `Murmur3_x86_32`.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, functions as sql

from lakekit.codec import binary_row, hashing
from lakekit.spark.types import spark_type
from lakekit.write.bucket_assigners import bucket_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql.types import DataType as SparkType

    from lakekit.metadata.table_context import TableContext
    from lakekit.types import DataType, Field
    from lakekit.write.shares import WriteParallelism

    Typed = Mapping[str, tuple[Column, SparkType]]
    """Columns of a frame by the table's names for them, with their types in Spark."""

_MOST_FIELDS = 55
"""The most null bits that fit behind the row kind in the first 8 bytes, without the sign bit of the number."""
_WIDTHS = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "DATE": 4, "BIGINT": 8}
_INLINE_BYTES = 7
"""The most bytes of a text that stands in its field."""
_INLINE = 0x80
_ZERO_WORD = "0" * 16


def task(ctx: TableContext, cut: WriteParallelism, columns: Typed) -> Column | None:
    """Return the number of a row's task; None where Spark cannot compute it."""
    options, keys, partitions = ctx.options, bucket_fields(ctx), ctx.schema.partition_fields
    if (
        options.bucket <= 0
        or max(len(keys), len(partitions)) > _MOST_FIELDS
        or not all(_is_hashable(field, columns) for field in (*keys, *partitions))
    ):
        return None
    match options.bucket_function_type:
        case "default":
            bucket = sql.abs(row_hash(keys, columns) % options.bucket)
        case "mod":
            bucket = sql.pmod(
                sql.coalesce(_cast_to_bigint(keys[0].type, columns[keys[0].name][0]), sql.lit(0)),
                sql.lit(options.bucket),
            )
        case _:
            return None
    first = (
        sql.abs(row_hash(partitions, columns).cast("bigint"))
        if partitions
        else sql.lit(abs(hashing.hash_bytes(binary_row.EMPTY)))
    )
    return ((first + bucket) % cut.tasks).cast("int")


def _is_hashable(field: Field, columns: Typed) -> bool:
    """Return whether a column's values are written as they come, and their bytes made here."""
    is_alike = field.name in columns and columns[field.name][1] == spark_type(field.type)
    return is_alike and field.default is None and (field.type.root == "VARCHAR" or field.type.root in _WIDTHS)


def row_hash(fields: Sequence[Field], columns: Typed) -> Column:
    """Return the hash of the binary row of some columns."""
    heads: list[Column] = []
    tails: list[Column] = []
    end: Column = _bigint(8 + 8 * len(fields))
    nulls: list[Column] = []
    for at, field in enumerate(fields):
        column = columns[field.name][0]
        if field.type.nullable:  # a null where none may be is refused by the task that meets it
            nulls.append(sql.when(column.isNull(), _bigint(1 << (8 + at))).otherwise(_bigint(0)))
        if field.type.root == "VARCHAR":
            head, tail, end = _text(column, end)
            tails.append(tail)
        else:
            head = _number(field.type, column)
        heads.append(sql.coalesce(head, sql.lit(_ZERO_WORD)))
    first = _little_endian_hex(reduce(Column.bitwiseOR, nulls)) if nulls else sql.lit(_ZERO_WORD)
    return sql.hash(sql.unhex(sql.concat(first, *heads, *tails)))


def _bigint(value: int) -> Column:
    return sql.lit(value).cast("bigint")


def _number(t: DataType, column: Column) -> Column:
    """Return the 16 hexadecimal digits of a number's field."""
    width, number = _WIDTHS[t.root], _cast_to_bigint(t, column)
    return _little_endian_hex(number if width == 8 else number.bitwiseAND((1 << 8 * width) - 1))


def _cast_to_bigint(t: DataType, column: Column) -> Column:
    return (sql.unix_date(column) if t.root == "DATE" else column.cast("int") if t.root == "BOOLEAN" else column).cast(
        "bigint"
    )


def _text(column: Column, end: Column) -> tuple[Column, Column, Column]:
    """Return the 16 digits of a text's field, the digits behind all fields, and the end of those.

    The end is where the digits of the next text begin. A null has no digits.
    """
    digits, size = sql.hex(column), sql.octet_length(column).cast("bigint")
    is_inline = column.isNull() | (size <= _INLINE_BYTES)
    inline = sql.concat(sql.rpad(digits, 2 * _INLINE_BYTES, "0"), sql.lpad(sql.hex(size + _INLINE), 2, "0"))
    padded = sql.when(is_inline, _bigint(0)).otherwise(sql.shiftleft(sql.shiftright(size + 7, 3), 3))
    head = sql.when(is_inline, inline).otherwise(_little_endian_hex(sql.shiftleft(end, 32) + size))
    tail = sql.when(is_inline, sql.lit("")).otherwise(sql.rpad(digits, (padded * 2).cast("int"), sql.lit("0")))
    return head, tail, end + padded


def _little_endian_hex(number: Column) -> Column:
    """Return the 8 bytes of a BIGINT, the lowest first, as digits."""
    parts = [sql.shiftleft(sql.shiftright(number, 8 * at).bitwiseAND(0xFF), 56 - 8 * at) for at in range(8)]
    return sql.lpad(sql.hex(reduce(Column.bitwiseOR, parts)), 16, "0")
