"""Few rows are laid out without an encoder: both encoders' readers see what was written, the footer tells of it truly, and manifests say what rows say."""

from __future__ import annotations

import math
import zlib
from dataclasses import replace
from decimal import Decimal
from io import BytesIO

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from polars.testing import assert_frame_equal

from lakekit.errors import ValueOutOfRange
from lakekit.format import parquet_chunks, parquet_few, parquet_writer, thrift
from lakekit.format.encoder import Encoding, open_writer
from lakekit.format.polars_types import polars_schema
from lakekit.format.told import ColumnStats, has_bounds
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


frames = st.sampled_from([1, 2, 9, parquet_few.ROWS]).flatmap(
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
    return made.getvalue(), dict(encoder.told)


@pytest.fixture
def alone(monkeypatch):
    """Polars must not be asked to encode."""

    def refuse(*_: object) -> None:
        raise AssertionError("an encoder was asked")

    monkeypatch.setattr(parquet_writer.ParquetEncoder, "_by_polars", refuse)


@pytest.mark.long
@pytest.mark.usefixtures("alone")
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
            assert (found.nulls, found.known) == (asked.nulls, asked.known)
            assert not asked.known or (found.low, found.high) == (asked.low, asked.high)
    group = pq.ParquetFile(BytesIO(data)).metadata.row_group(0)
    for i, field in enumerate(fields):
        held, counted = frame[field.name], group.column(i).statistics
        assert counted.null_count == held.null_count()
        reals = field.type.root in ("FLOAT", "DOUBLE")
        unbounded = not has_bounds(field.type) or held.null_count() == len(held) or (reals and held.is_nan().any())
        assert not (counted.has_min_max and unbounded)
        if counted.has_min_max and reals:
            assert (counted.min, counted.max) == (held.min(), held.max())
            assert counted.min or math.copysign(1, counted.min) < 0
            assert counted.max or math.copysign(1, counted.max) > 0


def full() -> pl.DataFrame:
    given = {"flag": True, "float": 0.0, "double": -0.0, "text": "é" * 70, "fixed": "f", "bytes": b""}
    return pl.DataFrame([column(name, [given.get(name, -1)] * 3) for name in TYPES])


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("compression", ["none", "zstd", "snappy", "gzip", "lz4", "brotli"])
def test_every_compression_has_a_page_that_it_makes_smaller(compression):
    frame = pl.DataFrame([column(name, [{"text": "again " * 6}.get(name)] * 20) for name in TYPES])
    data, _ = written(frame, FIELDS, compression=compression)
    assert_frame_equal(pl.read_parquet(BytesIO(data)), frame)
    found = pq.ParquetFile(BytesIO(data))
    assert found.read().num_rows == 20
    text = found.metadata.row_group(0).column(list(TYPES).index("text"))
    assert (text.compression == "UNCOMPRESSED") == (compression == "none")
    assert (text.total_compressed_size < text.total_uncompressed_size) == (compression != "none")


def test_a_description_is_what_a_footer_decodes():
    made, group = parquet_few.group(full(), parquet_few.leaves(FIELDS), "zstd", 1, 4)
    for chunk in group.chunks:
        assert thrift.decode(chunk.bytes) == ({2: (thrift.I64, 0), 3: (thrift.STRUCT, chunk.facts)}, len(chunk.bytes))
        at = chunk.facts[9][1] - 4
        page, end = thrift.decode(made, at)
        assert page[3][1] == chunk.facts[7][1] - (end - at)
        assert zlib.crc32(made[end : end + page[3][1]]) == page[4][1] % 2**32
    assert isinstance(group, parquet_chunks.RowGroup)
    assert sum(chunk.facts[7][1] for chunk in group.chunks) == len(made)


def test_a_null_where_there_is_none_is_refused():
    field = Field("n", parse("INT NOT NULL"), id=0)
    with pytest.raises(ValueOutOfRange, match="column n"):
        written(pl.DataFrame({"n": pl.Series([1, None], dtype=pl.Int32)}), [field])


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("DECIMAL(8, 0)", pl.Series([Decimal(2**31)], dtype=pl.Decimal(38, 0))),
        ("DECIMAL(18, 0)", pl.Series([Decimal(-(2**63)) - 1], dtype=pl.Decimal(38, 0))),
    ],
)
def test_numbers_that_do_not_fit_are_left_to_an_encoder(text, values):
    assert parquet_few.group(values.to_frame("n"), parquet_few.leaves([Field("n", parse(text), id=0)]), "zstd", 1, 4) is None


@pytest.mark.parametrize("text", ["DECIMAL(19, 0)", "TIMESTAMP(9)", "ARRAY<INT>", "TIME(3)", "ROW<a INT>", "MAP<INT, INT>"])
def test_other_types_are_an_encoders(text):
    assert parquet_few.leaves([Field("n", parse(text), id=0), FIELDS[0]]) is None


@pytest.mark.parametrize(("rows", "text"), [(parquet_few.ROWS + 1, "x"), (1, "x" * parquet_few.SIZE_BYTES)])
def test_many_rows_and_big_ones_are_an_encoders(rows, text):
    field = Field("text", parse("STRING"), id=0)
    data, _ = written(pl.DataFrame({"text": [text] * rows}), [field])
    assert pq.ParquetFile(BytesIO(data)).metadata.row_group(0).column(0).compression == "ZSTD"
    assert pl.read_parquet(BytesIO(data)).height == rows
