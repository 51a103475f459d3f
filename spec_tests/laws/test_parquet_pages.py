"""Parquet pages that Polars cannot decode come all the same."""

from __future__ import annotations

from decimal import Context, Decimal
from io import BytesIO

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st
from polars.testing import assert_frame_equal

from lakekit.errors import Corrupt
from lakekit.format import parquet
from lakekit.format.polars_types import polars_schema
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


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT"])
def test_polars_cannot_decode_them(encoding):
    # the reason for all this: when this fails, Arrow is no longer needed
    with pytest.raises(pl.exceptions.ComputeError, match="Not yet supported"):
        pl.read_parquet(BytesIO(pages(encoding)), columns=["wide"])


@pytest.mark.parametrize("wanted", [["wide", "nested", "n"], ["n"], ["nested"], ["n", "wide"], []])
@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT", "PLAIN"])
def test_fixed_length_bytes_in_delta_pages(encoding, wanted):
    data = pages(encoding)
    frame = parquet.scan_bytes(["a.parquet"], FIELDS, read=lambda path: data).select(wanted or pl.len()).collect()
    expected = pl.DataFrame({"wide": WIDE, "nested": NESTED, "n": [1, 2, 3, 4]}, schema={f.name: d for f, d in zip(FIELDS, frame_types(), strict=True)})
    assert frame.equals(expected.select(wanted or pl.len()))


def frame_types():
    return [pl.Decimal(30, 1), pl.List(pl.Decimal(30, 1)), pl.Int32()]


def test_which_columns_those_are():
    for encoding in ("DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT"):
        assert parquet.undecodable_columns(pages(encoding), "a.parquet") == {"wide", "nested.list.element"}
    assert not parquet.undecodable_columns(pages("PLAIN"), "a.parquet")
    with pytest.raises(Corrupt, match=r"a\.parquet is no whole Parquet file: it ends in b'hing'"):
        parquet.undecodable_columns(b"PAR1 and nothing", "a.parquet")


# ---- every encoding of the format's second version -----------------------------------------------------------------------------------------------

NUMBERS = ("PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT")
TEXTS = ("PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY")
FIXED = ("PLAIN", "DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT")
WORDS = st.text("ab\x00é\U0001f600", max_size=12)
KINDS = {
    "INT": (pa.int32(), st.integers(-(2**31), 2**31 - 1), NUMBERS),
    "BIGINT": (pa.int64(), st.integers(-(2**63), 2**63 - 1), NUMBERS),
    "DATE": (pa.date32(), st.integers(-100_000, 100_000), NUMBERS),
    "TIMESTAMP(6)": (pa.timestamp("us"), st.integers(-(2**50), 2**50), NUMBERS),
    "DOUBLE": (pa.float64(), st.floats(allow_nan=False), ("PLAIN", "BYTE_STREAM_SPLIT")),
    "FLOAT": (pa.float32(), st.floats(allow_nan=False, width=32), ("PLAIN", "BYTE_STREAM_SPLIT")),
    "BOOLEAN": (pa.bool_(), st.booleans(), ("PLAIN", "RLE")),
    "STRING": (pa.string(), WORDS, TEXTS),
    "BYTES": (pa.binary(), st.binary(max_size=12), TEXTS),
    "DECIMAL(30, 1)": (pa.decimal128(30, 1), st.integers(-(10**30) + 1, 10**30 - 1).map(lambda n: Decimal(n).scaleb(-1, WIDEST)), FIXED),
}
WIDEST = Context(prec=60)


@st.composite
def columns(draw):
    """A field, its rows, and what its pages are encoded by: any rows, or the runs that encodings are made for."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    arrow, value, able = KINDS[kind]
    some = draw(st.lists(value | st.none(), min_size=1, max_size=5))
    picked = draw(st.lists(st.integers(0, len(some) - 1), max_size=40))
    rows = [some[at] for at in picked]
    if draw(st.booleans()):
        kind, arrow = f"ARRAY<{kind}>", pa.list_(arrow)
        rows = [None if at == 4 else (rows + some)[row : row + at] for row, at in enumerate(picked)]
    return parse(kind), pa.array(rows, arrow), draw(st.sampled_from(able))


@pytest.mark.long
@given(
    columns(),
    st.fixed_dictionaries(
        {
            "data_page_size": st.sampled_from([100, 1 << 20]),  # below that pyarrow writes pages without values, and reads nothing back
            "write_batch_size": st.sampled_from([1, 3, 1024]),
            "row_group_size": st.sampled_from([1, 7, 1024]),
            "compression": st.sampled_from(["none", "snappy", "zstd"]),
        }
    ),
)
def test_all_pages_come_as_they_were_written(column, how):
    """By pyarrow, which reads them back alike; natively, as most files are read, where Polars can."""
    kind, rows, encoding = column
    table, made, fields = pa.table({"c": rows, "n": pa.array(range(len(rows)), pa.int32())}), BytesIO(), (Field("c", kind), Field("n", parse("INT")))
    encodings = {"c.list.element" if pa.types.is_list(rows.type) else "c": encoding, "n": "DELTA_BINARY_PACKED"}
    pq.write_table(table, made, use_dictionary=False, column_encoding=encodings, data_page_version="2.0", **how)
    data, expected = made.getvalue(), pl.from_arrow(table, schema=polars_schema(fields))
    assert pq.read_table(BytesIO(data)).equals(table)
    frames = [parquet.scan_bytes(["a.parquet"], fields, read=lambda path: data, counts={"a.parquet": len(rows)})]
    if not parquet.undecodable_columns(data, "a.parquet"):
        frames.append(parquet.scan([data], fields, paths=["a.parquet"]))
    for frame in frames:
        assert_frame_equal(frame.collect(), expected)
        assert_frame_equal(frame.filter(pl.col("n") > 3, pl.col("c").is_not_null()).collect(), expected.filter(pl.col("n") > 3, pl.col("c").is_not_null()))
