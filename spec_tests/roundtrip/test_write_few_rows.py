"""Files of few rows: both readers see what was written, the footer tells of it truly, and manifests say what rows say."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from io import BytesIO

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from polars.testing import assert_frame_equal

from lakekit.errors import ValueOutOfRange
from lakekit.format.encoder import ColumnStats, Encoding, open_writer
from lakekit.format.polars_types import polars_schema
from lakekit.types import Field, parse

TYPES = {
    "flag": "BOOLEAN",
    "tiny": "TINYINT",
    "small": "SMALLINT",
    "whole": "INT",
    "big": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "day": "DATE",
    "milli": "TIMESTAMP(3)",
    "micro": "TIMESTAMP_LTZ(6)",
    "cents": "DECIMAL(8, 2)",
    "money": "DECIMAL(18, 3)",
    "text": "STRING",
    "fixed": "CHAR(9)",
    "bytes": "BYTES",
}
FIELDS = [Field(name, parse(text), id=i) for i, (name, text) in enumerate(TYPES.items())]
WHOLE = {"tiny": 8, "small": 16, "whole": 32, "big": 64, "day": 23, "milli": 45, "micro": 55, "cents": 26, "money": 59}
"""Columns that are whole numbers, and of how many bits."""


def values(name: str) -> st.SearchStrategy:
    if name in WHOLE:
        return st.integers(-(2 ** (WHOLE[name] - 1)), 2 ** (WHOLE[name] - 1) - 1)
    if name == "flag":
        return st.booleans()
    if name in ("float", "double"):
        return st.floats(width=32 if name == "float" else 64)
    return st.binary(max_size=90) if name == "bytes" else st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def column(name: str, given: list) -> pl.Series:
    dtype = polars_schema(FIELDS)[name]
    if isinstance(dtype, pl.Decimal):
        return pl.Series(name, [None if one is None else Decimal(one).scaleb(-dtype.scale) for one in given], dtype)
    return pl.Series(name, given, pl.Int64).cast(dtype) if name in WHOLE else pl.Series(name, given, dtype)


frames = st.sampled_from([1, 2, 9, 32]).flatmap(
    lambda rows: st.tuples(*(st.lists(st.none() | values(name), min_size=rows, max_size=rows) for name in TYPES)).map(
        lambda columns: pl.DataFrame([column(name, given) for name, given in zip(TYPES, columns, strict=True)])
    )
)


def written(frame: pl.DataFrame, fields: list[Field], **how: object) -> tuple[bytes, dict[str, ColumnStats]]:
    made = BytesIO()
    encoder = open_writer(made, "parquet", fields, Encoding(**how))
    encoder.write(frame)
    encoder.close()
    assert encoder.size_bytes == len(made.getvalue())
    return made.getvalue(), dict(encoder.column_stats)


@pytest.mark.long
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(frames, st.integers(0, 3), st.booleans())
def test_rows_come_back_and_everything_told_is_true(frame, skipped, required):
    fields = [replace(field, type=field.type.not_null()) if required else field for field in FIELDS]
    frame = frame.drop_nulls() if required else frame
    frame = frame.slice(min(skipped, frame.height - 1)) if frame.height else full()
    data, told = written(frame, fields)
    assert_frame_equal(pl.read_parquet(BytesIO(data)), frame)
    assert pq.read_table(BytesIO(data), page_checksum_verification=True).num_rows == frame.height
    for field in fields:
        if field.name in told:
            asked = ColumnStats()
            asked.add(frame[field.name], field.type)
            found = told[field.name]
            assert (found.nulls, found.has_bounds) == (asked.nulls, asked.has_bounds)
            assert not asked.has_bounds or (found.low, found.high) == (asked.low, asked.high)
    group = pq.ParquetFile(BytesIO(data)).metadata.row_group(0)
    for i, field in enumerate(fields):
        held, counted = frame[field.name], group.column(i).statistics
        assert counted.null_count == held.null_count()
        reals = field.type.root in ("FLOAT", "DOUBLE")
        unbounded = held.null_count() == len(held) or (reals and held.is_nan().any())
        assert not (counted.has_min_max and unbounded)
        if counted.has_min_max and reals:
            assert (counted.min, counted.max) == (held.min(), held.max())
            assert counted.min or math.copysign(1, counted.min) < 0
            assert counted.max or math.copysign(1, counted.max) > 0


def full() -> pl.DataFrame:
    given = {"flag": True, "float": 0.0, "double": -0.0, "text": "é" * 70, "fixed": "f", "bytes": b""}
    return pl.DataFrame([column(name, [given.get(name, -1)] * 3) for name in TYPES])


@pytest.mark.parametrize("compression", ["none", "zstd", "snappy", "gzip", "lz4", "brotli"])
def test_few_rows_come_back_from_every_compression(compression):
    frame = pl.DataFrame([column(name, [{"text": "again " * 6}.get(name)] * 20) for name in TYPES])
    data, _ = written(frame, FIELDS, compression=compression)
    assert_frame_equal(pl.read_parquet(BytesIO(data)), frame)
    found = pq.ParquetFile(BytesIO(data))
    assert found.read().num_rows == 20
    text = found.metadata.row_group(0).column(list(TYPES).index("text"))
    assert (text.compression == "UNCOMPRESSED") == (compression == "none")


def test_a_null_where_there_is_none_is_refused():
    field = Field("n", parse("INT NOT NULL"), id=0)
    with pytest.raises(ValueOutOfRange, match="column n"):
        written(pl.DataFrame({"n": pl.Series([1, None], dtype=pl.Int32)}), [field])
