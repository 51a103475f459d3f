"""Data files whose bytes their usual readers cannot take as they are: ORC under other types, Avro under a plainer schema, Parquet row counts."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from io import BytesIO
from pathlib import Path

import fastavro
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st
from pyarrow import orc as arrow_orc

import lakekit as lk
from lakekit.codec import avro_container as container, orc_tail
from lakekit.errors import Corrupt, LakekitError, Unsupported, ValueOutOfRange
from lakekit.format import avro, orc, parquet, parquet_footer
from lakekit.format.encoder import Encoding
from lakekit.format.polars_types import polars_type
from lakekit.testing.expectations import canonical_value, decode_series, encode_values
from lakekit.types import Field, parse

MICROS = st.none() | st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999).filter(lambda v: not -1_000_000 < v < 0)
"""All microseconds from year 1 to 9999 but those of the second before 1970, which ORC does not hold (ENGINE_1.4.2 A.5)."""
ROWS = st.lists(st.tuples(MICROS, st.none() | st.lists(MICROS, max_size=3), st.dictionaries(st.integers(0, 9), MICROS, max_size=3)), max_size=20)


@pytest.mark.long
@given(ROWS, st.sampled_from(["uncompressed", "zlib", "snappy", "lz4", "zstd"]))
def test_orc_timestamps_reach_beyond_nanoseconds(rows, compression):
    micros = pa.timestamp("us")
    table = pa.table(
        {
            "ts": pa.array([row[0] for row in rows], micros),
            "ltz": pa.array([row[0] for row in rows], pa.timestamp("us", "UTC")),
            "l": pa.array([row[1] for row in rows], pa.list_(micros)),
            "m": pa.array([list(row[2].items()) for row in rows], pa.map_(pa.int32(), micros)),
        }
    )
    buffer = BytesIO()
    arrow_orc.write_table(table, buffer, compression=compression)
    kinds = ("TIMESTAMP(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE", "ARRAY<TIMESTAMP(6)>", "MAP<INT, TIMESTAMP(6)>")
    fields = [Field(name, parse(kind), id=i) for i, (name, kind) in enumerate(zip(table.column_names, kinds, strict=True))]
    found = orc.scan(["f"], fields, read=lambda _: buffer.getvalue()).collect()
    wanted = pl.from_arrow(table)
    assert found.equals(wanted.with_columns(pl.col("m").cast(found.schema["m"])))


def test_orc_refuses_what_nanoseconds_cannot_hold_only_where_they_are_asked_for():
    table = pa.table({"ts": pa.array([253_402_300_799_999_999, None], pa.timestamp("us")), "n": [1, 2]})
    buffer = BytesIO()
    arrow_orc.write_table(table, buffer)
    fields = [Field("ts", parse("TIMESTAMP(9)"), id=0), Field("n", parse("BIGINT"), id=1)]
    frame = orc.scan(["f"], fields, read=lambda _: buffer.getvalue())
    with pytest.raises(ValueOutOfRange) as refusal:
        frame.collect()
    assert (refusal.value.column, refusal.value.path) == ("ts", "f")
    assert frame.select("n").collect()["n"].to_list() == [1, 2]
    coarse = orc.scan(["f"], fields, read=lambda _: buffer.getvalue(), timestamp_unit="us").collect()
    assert coarse["ts"].to_physical().to_list() == [253_402_300_799_999_999, None]


def test_parquet_refuses_the_day_in_which_nanoseconds_begin():
    """Polars reads INT96 of that day, which nanoseconds reach in part, as the greatest nanosecond there is."""
    day, first = 86_400 * 10**9, -106_751 * 86_400 * 10**9
    fields = [Field("ts", parse("TIMESTAMP(9)"), id=0)]

    def file(*ticks: int) -> bytes:
        buffer = BytesIO()
        pq.write_table(pa.table({"ts": pa.array(ticks, pa.timestamp("ns"))}), buffer, use_deprecated_int96_timestamps=True, store_schema=False)
        return buffer.getvalue()

    for held in (first, first + 1000, 2**63 - 1):
        assert parquet.scan([file(held)], fields, paths=["f"]).collect()["ts"].to_physical().to_list() == [held]
    for early in (first - 1, first - day // 2):
        data = file(0, early)
        with pytest.raises(ValueOutOfRange, match="1677-09-22"):
            parquet.scan([data], fields, paths=["f"]).collect()
        coarse = parquet.scan([data], fields, paths=["f"], timestamp_unit="us").collect()
        assert coarse["ts"].dt.year().to_list() == [1970, 1677]


@pytest.mark.parametrize("text", ["TIMESTAMP(9)", "TIMESTAMP(7) WITH LOCAL TIME ZONE", "ARRAY<ROW<at TIMESTAMP(8)>>"])
def test_parquet_does_not_write_the_day_in_which_nanoseconds_begin(text):
    first = -106_751 * 86_400 * 10**9
    t = parse(text)
    field = Field("ts", t, id=0)

    def write(ticks: int) -> bytes:
        whole = pl.Series([ticks], dtype=pl.Int64)
        held = whole.cast(polars_type(t)) if t.root != "ARRAY" else whole.cast(pl.Datetime("ns")).alias("at").to_frame().to_struct().implode()
        buffer = BytesIO()
        writer = parquet.open_writer(buffer, [field], Encoding())
        writer.write(held.alias("ts").to_frame())
        writer.close()
        return buffer.getvalue()

    assert parquet.scan([write(first)], [field], paths=["f"]).collect().height == 1
    with pytest.raises(ValueOutOfRange, match=r"column ts.* holds a time before 1677-09-22"):
        write(first - 1)


def test_orc_instants_of_a_legacy_writer_come_back_by_its_zone():
    """22:13:20Z written in Asia/Shanghai is stored as 14:13:20Z (FORMAT 7.5)."""
    table = pa.table({"ltz": pa.array([1_699_971_200_000], pa.timestamp("ms", "UTC"))})
    buffer = BytesIO()
    arrow_orc.write_table(table, buffer)
    fields = [Field("ltz", parse("TIMESTAMP(3) WITH LOCAL TIME ZONE"), id=0)]
    frame = orc.scan(["f"], fields, read=lambda _: buffer.getvalue(), ltz_zone="Asia/Shanghai").collect()
    assert frame["ltz"].to_physical().to_list() == [1_700_000_000_000]


def test_orc_tails_are_written_anew_without_a_change_of_values():
    table = pa.table({"m": pa.array([[(1, "a"), (2, None)], None, []], pa.map_(pa.int32(), pa.string())), "s": ["x", None, "y"]})
    for compression in ("uncompressed", "zlib", "snappy", "lz4", "zstd"):
        buffer = BytesIO()
        arrow_orc.write_table(table, buffer, compression=compression)
        tail = orc_tail.parse_tail(buffer.getvalue())
        assert not orc_tail.has_null_keys(tail)
        again = arrow_orc.ORCFile(BytesIO(orc.rewrite_types(tail))).read()
        assert again["m"].to_pylist() == [[{"key": 1, "value": "a"}, {"key": 2, "value": None}], None, []]
        assert again["s"].to_pylist() == ["x", None, "y"]
        with pytest.raises(LakekitError):
            orc_tail.parse_tail(buffer.getvalue()[:-5])


# ---- Avro ----------------------------------------------------------------------------------------------------------------------------------------

ROOT = {
    "type": "record",
    "name": "record",
    "fields": [
        {"name": "n", "type": ["null", "int"]},
        {"name": "m", "type": ["null", {"type": "map", "values": ["null", "long"]}]},
        {"name": "l", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "r", "type": ["null", {"type": "record", "name": "record_r", "fields": [{"name": "d", "type": ["null", "double"]}]}]},
    ],
}
KINDS = {"n": "INT", "m": "MAP<STRING, BIGINT>", "l": "ARRAY<STRING>", "r": "ROW<d DOUBLE>"}
FIELDS = [Field(name, parse(kind), id=i) for i, (name, kind) in enumerate(KINDS.items())]
RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "n": st.none() | st.integers(-(2**31), 2**31 - 1),
            "m": st.none() | st.dictionaries(st.text("aé", max_size=2), st.none() | st.integers(-(2**63), 2**63 - 1), max_size=3),
            "l": st.lists(st.none() | st.text(max_size=3), max_size=3),
            "r": st.none() | st.fixed_dictionaries({"d": st.none() | st.floats(allow_nan=False)}),
        }
    ),
    max_size=12,
)


@given(RECORDS, st.booleans(), st.sampled_from(["null", "deflate", "snappy", "zstandard"]))
def test_avro_rows_come_as_any_reader_reads_them(records, in_union, codec):
    """With the record at the top, and with the union around it that releases up to 1.0 wrote."""
    buffer = BytesIO()
    fastavro.writer(buffer, ["null", ROOT] if in_union else ROOT, records, codec=codec, sync_interval=64)
    found = avro.scan(["f"], FIELDS, read=lambda _: buffer.getvalue()).collect().to_dicts()
    for record in found:
        record["m"] = None if record["m"] is None else {entry["key"]: entry["value"] for entry in record["m"]}
    assert found == records


def test_avro_arrays_may_come_in_blocks_with_their_sizes():
    """A negative count is followed by the bytes of the block; Java's blocking encoder writes those."""
    body = b"".join((b"\x03\x08\x02\x02a\x00", b"\x02\x02\x02b", b"\x00"))  # -2, 4 bytes: ["a", null]; 1: ["b"]; 0
    text = json.dumps({"type": "record", "name": "record", "fields": [ROOT["fields"][2]]}).encode()
    data = container.write_container(text, [body, body])
    assert avro.scan(["f"], [FIELDS[2]], read=lambda _: data).collect()["l"].to_list() == [["a", None, "b"]] * 2


@given(st.lists(st.none() | st.integers(-(10**38) + 1, 10**38 - 1), max_size=20), st.sampled_from([(38, 0), (38, 38), (38, 10)]))
def test_avro_decimals_are_two_s_complement_of_any_length(unscaled, shape):
    precision, scale = shape
    kind = parse(f"DECIMAL({precision}, {scale})")
    schema = {"type": "record", "name": "record", "fields": [{"name": "d", "type": ["null", "bytes"]}]}
    rows = [{"d": None if v is None else v.to_bytes((v + (v < 0)).bit_length() // 8 + 1, "big", signed=True)} for v in unscaled]
    buffer = BytesIO()
    fastavro.writer(buffer, schema, rows)
    found = avro.scan(["f"], [Field("d", kind, id=0)], read=lambda _: buffer.getvalue()).collect()["d"]
    wanted = decode_series([None if v is None else format(Decimal((v < 0, tuple(map(int, str(abs(v)))), -scale)), "f") for v in unscaled], kind, "d")
    values = [[canonical_value(v, kind) for v in encode_values(column.to_arrow(), kind)] for column in (found, wanted)]
    assert values[0] == values[1]


def test_an_avro_decimal_of_too_many_bytes_is_corrupt():
    schema = {"type": "record", "name": "record", "fields": [{"name": "d", "type": "bytes"}]}
    buffer = BytesIO()
    fastavro.writer(buffer, schema, [{"d": bytes(17)}])
    with pytest.raises(Corrupt, match="more than 16 bytes") as refusal:
        avro.scan(["f"], [Field("d", parse("DECIMAL(10, 2)"), id=0)], read=lambda _: buffer.getvalue()).collect()
    assert refusal.value.path == "f"


# ---- Parquet --------------------------------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 300), st.integers(1, 30))
def test_row_counts_come_from_the_head_of_a_footer(rows, columns):
    buffer = BytesIO()
    pq.write_table(pa.table({f"column {i}": [i] * rows for i in range(columns)}), buffer)
    data = buffer.getvalue()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    assert parquet_footer.read_row_count(footer) == rows
    with pytest.raises(Corrupt):
        parquet_footer.read_row_count(footer[:8])


@given(st.binary(max_size=60))
def test_any_footer_gives_a_number_or_corrupt(data):
    with suppress(Corrupt):
        assert isinstance(parquet_footer.read_row_count(data), int)


@pytest.mark.parametrize("kind", ["VARIANT", "ARRAY<VARIANT>", "MAP<STRING, VARIANT>", "ROW<v VARIANT>"])
def test_a_shredded_variant_is_refused_by_name_wherever_it_is(kind, tmp_path):
    plain = {"metadata": pa.binary(), "value": pa.binary()}

    def nested(members):
        inner = pa.struct(list(members.items()))
        shapes = {"V": inner, "A": pa.list_(inner), "M": pa.map_(pa.string(), inner), "R": pa.struct([("v", inner)])}
        return shapes[kind[0]]

    for members, refused in ((plain, False), (plain | {"typed_value": pa.int64()}, True)):
        path = str(tmp_path / f"{refused}.parquet")
        pq.write_table(pa.table({"v": pa.nulls(3, nested(members)), "n": [1, 2, 3]}), path)
        fields = [Field("v", parse(kind), id=0), Field("n", parse("BIGINT"), id=1)]
        if not refused:
            assert parquet.find_shredded(path, fields, path) == {}
            assert parquet.scan([path], fields, paths=[path]).collect()["v"].null_count() == 3
            continue
        refusals = parquet.find_shredded(path, fields, path)
        assert list(refusals) == ["v"]
        assert (refusals["v"].feature, refusals["v"].path) == ("type.variant.shredded", path)
        frame = parquet.scan_bytes([path], fields, read=lambda one: Path(one).read_bytes())
        with pytest.raises(Unsupported, match="shredded"):
            frame.collect()
        assert frame.select("n").collect()["n"].to_list() == [1, 2, 3]


@pytest.mark.parametrize("is_told", [False, True])
def test_a_map_whose_keys_share_columns_is_refused_by_name_where_it_is_read(is_told, tmp_path):
    table = lk.create(tmp_path / "t", {"k": "INT", "m": "MAP<STRING, BIGINT>"})
    writer = table.writer()
    writer.write([{"k": 1, "m": {"a": 1}}])
    [message] = writer.prepare()
    [path] = (tmp_path / "t").rglob("data-*.parquet")
    shared = pa.struct([("__field_mapping", pa.list_(pa.int32())), ("__col_0", pa.int64()), ("__overflow", pa.map_(pa.int32(), pa.int64()))])
    pq.write_table(pa.table({"k": pa.array([1], pa.int32()), "m": pa.array([{"__field_mapping": [0], "__col_0": 1, "__overflow": []}], shared)}), path)
    table.commit([replace(message, new_files=(replace(message.new_files[0], size_bytes=path.stat().st_size),))], commit_user="u")
    if is_told:
        schema = json.loads((tmp_path / "t" / "schema" / "schema-0").read_text())
        told = schema | {"options": schema["options"] | {"fields.m.map.storage-layout": "shared-shredding"}}
        (tmp_path / "t" / "schema" / "schema-0").write_text(json.dumps(told))
    table = lk.open(tmp_path / "t")
    assert table.scan().select("k").collect().rows() == [(1,)]
    for read in (lambda: table.scan().collect(), lambda: table.scan().select("m").collect(), lambda: table.compact(full=True, order_by=["k"])):
        with pytest.raises(Unsupported) as refusal:
            read()
        assert refusal.value.feature == "type.map.shared-shredding"
    if not is_told:
        table.append([{"k": 2, "m": {"b": 2}}])
        assert sorted(table.scan().select("k").collect()["k"]) == [1, 2]
