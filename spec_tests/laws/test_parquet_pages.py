"""Parquet pages that Polars cannot decode come all the same."""

from __future__ import annotations

from decimal import Decimal
from io import BytesIO

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakekit.errors import Corrupt
from lakekit.format import parquet
from lakekit.types import Field, parse

WIDE = [Decimal("12345678901234567890.5"), None, Decimal("-0.5"), Decimal("12345678901234567891.5")]
NESTED = [[Decimal("1.5"), None], None, [], [Decimal("-99999999999999999999.5")]]
FIELDS = (Field("wide", parse("DECIMAL(30, 1)")), Field("nested", parse("ARRAY<DECIMAL(30, 1)>")), Field("n", parse("INT")))


def pages(encoding: str) -> bytes:
    made = BytesIO()
    columns = {
        "wide": pa.array(WIDE, pa.decimal128(30, 1)),
        "nested": pa.array(NESTED, pa.list_(pa.decimal128(30, 1))),
        "n": pa.array([1, 2, 3, 4], pa.int32()),
    }
    column_encoding = {"wide": encoding, "nested.list.element": encoding, "n": "PLAIN"}
    pq.write_table(pa.table(columns), made, use_dictionary=False, column_encoding=column_encoding, data_page_version="2.0")
    return made.getvalue()


def test_polars_cannot_decode_them():
    # the reason for all this: when this fails, Arrow is no longer needed
    with pytest.raises(pl.exceptions.ComputeError, match="Not yet supported"):
        pl.read_parquet(BytesIO(pages("DELTA_BYTE_ARRAY")), columns=["wide"])


@pytest.mark.parametrize("wanted", [["wide", "nested", "n"], ["n"], ["nested"], ["n", "wide"], []])
@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "PLAIN"])
def test_fixed_length_bytes_in_delta_pages(encoding, wanted):
    data = pages(encoding)
    frame = parquet.scan_bytes(["a.parquet"], FIELDS, read=lambda path: data).select(wanted or pl.len()).collect()
    expected = pl.DataFrame({"wide": WIDE, "nested": NESTED, "n": [1, 2, 3, 4]}, schema={f.name: d for f, d in zip(FIELDS, frame_types(), strict=True)})
    assert frame.equals(expected.select(wanted or pl.len()))


def frame_types():
    return [pl.Decimal(30, 1), pl.List(pl.Decimal(30, 1)), pl.Int32()]


def test_which_columns_those_are():
    assert parquet.undecodable(pages("DELTA_BYTE_ARRAY"), "a.parquet") == {"wide", "nested.list.element"}
    assert not parquet.undecodable(pages("PLAIN"), "a.parquet")
    with pytest.raises(Corrupt, match=r"a\.parquet: its Parquet footer cannot be read"):
        parquet.undecodable(b"PAR1 and nothing", "a.parquet")
