"""Frames of Spark held against what lakekit reads without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.types import VariantVal

from lakekit.format.polars_types import paimon_type
from lakekit.spark import types
from lakekit.spark.batch_read import MICROSECOND_OPTIONS
from lakekit.types import Field

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame

    import lakekit as lk

MICROSECONDS = dict(MICROSECOND_OPTIONS)


def frame_rows(frame: DataFrame) -> list[tuple]:
    """The rows of a frame of Spark, in the order of their texts."""
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def table_rows(table: lk.Table, at: int | None = None) -> list[tuple]:
    """The rows of a table as lakekit reads it, or of one of its snapshots, in the order of their texts."""
    return sorted(table.scan(at).collect().rows(), key=repr)


def told(table: pa.Table | pa.RecordBatch) -> list[str]:
    """Rows as texts, sorted."""
    return sorted(repr(tuple(row.values())) for row in table.to_pylist())


def as_spark(frame: pl.DataFrame, fields: Sequence[Field] | None = None) -> list[str]:
    """The rows of a Polars frame as Spark has them."""
    of = fields or [Field(name, paimon_type(dtype)) for name, dtype in frame.schema.items()]
    return told(types.to_batch(frame, types.read_fields(of)))


def rows(frame: DataFrame) -> list[str]:
    """The rows of a frame of Spark."""
    if "variant" in dict(frame.dtypes).values():  # PySpark's toArrow takes no null variant
        return sorted(repr(tuple(_parts(value) for value in row)) for row in frame.collect())
    return told(frame.toArrow())


def _parts(value: Any) -> Any:
    return {"value": bytes(value.value), "metadata": bytes(value.metadata)} if isinstance(value, VariantVal) else value


def expected(table: lk.Table, **asked: Any) -> list[str]:
    """What `scan` gives."""
    options = {**asked.pop("options", {}), **MICROSECOND_OPTIONS}
    frame = table.scan(asked.get("at"), options=options)
    known = {field.name: field for field in table.schema.fields}
    names = frame.collect_schema().names()
    return as_spark(frame.collect(), [known[name] for name in names] if set(names) <= known.keys() else None)


def reads_natively(frame: DataFrame) -> bool:
    """Whether some of the frame's files go to Spark's own reader."""
    return bool(frame.inputFiles())
