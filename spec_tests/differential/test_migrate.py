"""Files that others wrote, taken over: the reference reads the table, prunes it by partition and by bounds, goes on writing and compacts it.

Each column is a type of a format as Arrow, Polars or an Avro writer spells it; what lakekit refuses is in `doors/test_migrate.py`.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import lakekit as lk
from lakekit.testing.expectations import describe_difference
from spec_tests.laws.test_unheld_partitions import taken

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore:.*lie as bytes in its Parquet files")]
TIMES = [dt.datetime.fromisoformat("2024-01-02T03:04:05.678901"), None, dt.datetime.fromisoformat("1999-12-31T23:59:59.123456")]
MILLIS = [time and time.replace(microsecond=time.microsecond // 1000 * 1000) for time in TIMES]
DECIMALS = [Decimal("1.25"), None, Decimal("-3.00")]
NUMBERS = [1, None, 3]
COMMON: dict[str, pa.Array] = {
    "tiny": pa.array(NUMBERS, pa.int8()), "small": pa.array(NUMBERS, pa.int16()), "whole": pa.array(NUMBERS, pa.int32()), "big": pa.array(NUMBERS, pa.int64()),
    "real": pa.array([1.5, None, -0.0], pa.float32()), "double": pa.array([float("nan"), None, 3.5], pa.float64()), "truth": pa.array([True, None, False]),
    "text": pa.array(["a", None, "é"]), "long text": pa.array(["a" * 100, None, "b" * 90], pa.large_string()), "bytes": pa.array([b"a", None, b"\xff"]),
    "day": pa.array([1, None, -3], pa.date32()), "millis": pa.array(MILLIS, pa.timestamp("ms")), "micros": pa.array(TIMES, pa.timestamp("us")),
    "instant": pa.array(TIMES, pa.timestamp("us", "Europe/Berlin")), "d5": pa.array(DECIMALS, pa.decimal128(5, 2)),
    "d15": pa.array(DECIMALS, pa.decimal128(15, 2)), "d30": pa.array(DECIMALS, pa.decimal128(30, 2)),
    "list": pa.array([[1, None], None, []], pa.list_(pa.int32())),
    "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int32())), "row": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
    "deep": pa.array([[[[("k", {"a": 1})]]], None, []], pa.list_(pa.list_(pa.map_(pa.string(), pa.struct([("a", pa.int32())]))))),
}  # fmt: skip
OF_PARQUET: dict[str, pa.Array] = {
    "u8": pa.array([1, None, 200], pa.uint8()), "u16": pa.array([1, None, 60000], pa.uint16()), "coded": pa.array(["a", None, "é"]).dictionary_encode(),
    "time": pa.array([1, None, 86_399_999], pa.time32("ms")), "fixed": pa.array([b"ab", None, b"cd"], pa.binary(2)),
    "s": pa.array([0, None, 3], pa.timestamp("s")),
    "codes": pa.array([["a", "b"], None, []], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
}  # fmt: skip
HOWS: dict[str, Mapping[str, Any]] = {
    "as it is": {}, "int96": {"use_deprecated_int96_timestamps": True}, "old names": {"use_compliant_nested_type": False}, "old pages": {"version": "1.0"},
    "new pages": {"data_page_version": "2.0", "compression": "zstd"}, "small groups": {"row_group_size": 1, "compression": "gzip", "use_dictionary": False},
    "whole decimals": {"store_decimal_as_integer": True}, "without statistics": {"write_statistics": False},
    "without arrow": {"store_schema": False, "compression": "lz4"},
}  # fmt: skip


@pytest.fixture
def cat(tmp_path):
    found = lk.connect(tmp_path / "house")
    found.create_database("db")
    return found


def agreed(judge, table: lk.Table) -> None:
    """Both engines read the same rows, and nothing that the table says of its files is wrong."""
    assert describe_difference(table.scan().collect(), judge.read(table.location)) is None
    assert sum(file.rows for file in judge.files(table.location)) == table.files()["row_count"].sum()
    assert judge.read(table.location, system="files").rows
    assert table.check(deep=True).ok


def goes_on(judge, table: lk.Table) -> None:
    """The reference writes rows of the table once more, and compacts; lakekit writes, deletes and compacts too."""
    expected = table.scan().collect()
    rows = judge.read(table.location).rows
    judge.write(table.location, rows)
    agreed(judge, table)
    judge.compact(table.location, full=True, options={"compaction.min.file-num": "2"})
    agreed(judge, table)
    assert table.scan().collect().height == 2 * expected.height
    table.append(expected)
    table.compact(full=True)
    agreed(judge, table)
    assert table.scan().collect().height == 3 * expected.height


@pytest.mark.parametrize("how", HOWS)
def test_every_type_of_parquet(judge, cat, tmp_path, how):
    (tmp_path / "in").mkdir()
    columns = {name: column for name, column in {**COMMON, **OF_PARQUET}.items() if how != "without arrow" or name != "codes"}
    pq.write_table(pa.table(columns), tmp_path / "in" / "part-0", **HOWS[how])
    table = cat.migrate(tmp_path / "in", "db.t")
    found = table.scan().collect()
    assert found["text"].to_list() == ["a", None, "é"]
    assert found["micros"].to_list() == TIMES
    assert found["u16"].to_list() == [1, None, 60000]
    agreed(judge, table)
    goes_on(judge, table)


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_every_type_of_orc(judge, cat, tmp_path, codec):
    (tmp_path / "in").mkdir()
    orc.write_table(pa.table(COMMON), tmp_path / "in" / "000000_0", compression=codec)
    table = cat.migrate(tmp_path / "in", "db.t")
    assert table.options["file.format"] == "orc"
    assert table.scan().collect()["micros"].to_list() == TIMES
    agreed(judge, table)
    goes_on(judge, table)


@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "deflate"])
def test_avro_of_polars(judge, cat, tmp_path, codec):
    (tmp_path / "in").mkdir()
    left_out = {"tiny", "small", "instant", "map", "deep", "long text"}  # Polars writes none of those, and Avro has no such name
    frame = pl.from_arrow(pa.table({name: column for name, column in COMMON.items() if name not in left_out}))
    frame.write_avro(tmp_path / "in" / "a.avro", compression=codec)
    table = cat.migrate(tmp_path / "in", "db.t")
    assert table.schema.to_polars()["micros"] == pl.Datetime("us")
    assert table.scan().collect()["micros"].to_list() == TIMES
    agreed(judge, table)
    goes_on(judge, table)


def test_partitions_mixed_formats_and_grown_columns(judge, cat, tmp_path):
    """Three formats, five schemas: columns come late, are missing, lie in another order, and grow; a partition is null, one is escaped."""
    inside = tmp_path / "in"
    files = {
        "day=2024-01-01/n=1/place=a%2Fb/part.parquet": {"k": pa.array([1, 2], pa.int32()), "f": pa.array([1.5, None], pa.float32())},
        "day=2024-01-01/n=1/place=a%2Fb/late.parquet": {"f": pa.array([2.5], pa.float64()), "k": pa.array([3], pa.int64()), "w": pa.array(["new"])},
        "day=2024-01-02/n=-7/place=%C3%A9/part.orc": {"w": pa.array(["orc", None]), "k": pa.array([4, 5], pa.int16())},
        "day=2024-01-02/n=-7/place=é/part.avro": {"k": pa.array([6], pa.int64()), "d": pa.array([Decimal("1.5")], pa.decimal128(12, 3))},
        "day=__HIVE_DEFAULT_PARTITION__/n=3000000000/place=01/x": {"k": pa.array([7], pa.int8()), "d": pa.array([Decimal("2.5")], pa.decimal128(5, 1))},
        "day=2024-01-03/n=0/place=none/x": {"t": pa.array([TIMES[0]], pa.timestamp("us")), "k": pa.array([8], pa.int8())},
        "day=2024-01-03/n=0/place=none/y": {"t": pa.array([MILLIS[0]], pa.timestamp("ms"))},
        "day=2024-01-03/n=0/place=none/empty": {"t": pa.array([], pa.timestamp("ms"))},
    }
    for name, columns in files.items():
        path = inside / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("orc"):
            orc.write_table(pa.table(columns), path)
        elif name.endswith("avro"):
            pl.DataFrame(columns).write_avro(path, name="r")
        else:
            pq.write_table(pa.table(columns), path)
    (inside / "_SUCCESS").write_bytes(b"")
    table = cat.migrate(inside, "db.t")
    assert {field.name: str(field.type) for field in table.schema.fields} == {
        "f": "DOUBLE", "k": "BIGINT", "w": "STRING", "d": "DECIMAL(12, 3)", "t": "TIMESTAMP(6)", "day": "DATE", "n": "BIGINT", "place": "STRING",
    }  # fmt: skip
    rows = table.scan().sort("k", "t").select("k", "f", "w", "day", "n", "place").collect().rows()
    days = [dt.date(2024, 1, day) for day in (1, 2, 3)]
    assert rows == [
        (None, None, None, days[2], 0, "none"), (1, 1.5, None, days[0], 1, "a/b"), (2, None, None, days[0], 1, "a/b"), (3, 2.5, "new", days[0], 1, "a/b"),
        (4, None, "orc", days[1], -7, "é"), (5, None, None, days[1], -7, "é"), (6, None, None, days[1], -7, "é"), (7, None, None, None, 3_000_000_000, "01"),
        (8, None, None, days[2], 0, "none"),
    ]  # fmt: skip
    assert table.files().height == 7
    assert set(table.files()["schema_id"]) == set(range(table.schemas().height))
    agreed(judge, table)
    at = table.schema.to_polars().names().index("k")
    for column, value in (("k", 3), ("k", 7), ("w", "orc"), ("f", 2.5), ("n", -7), ("n", 3_000_000_000), ("place", "a/b"), ("place", "01"), ("d", "2.500")):
        seen = judge.placed(table.location, where=(column, value))
        wanted = Decimal(value) if column == "d" else value
        rows = table.scan().filter(pl.col(column) == wanted).collect()["k"].to_list()
        assert set(rows) <= {row[2][at] for row in seen}, column
        assert 0 < len(rows) <= len(seen) < table.scan().collect().height, column
    goes_on(judge, table)


def test_what_spark_wrote(judge, cat, tmp_path):
    """INT96 of Spark is an instant: the key that Spark leaves in a footer says whose file it is."""
    (tmp_path / "in").mkdir()
    held = pa.table({"t": pa.array(TIMES, pa.timestamp("us"))}).replace_schema_metadata({"org.apache.spark.version": "3.5.1"})
    pq.write_table(held, tmp_path / "in" / "part-0.snappy.parquet", use_deprecated_int96_timestamps=True, store_schema=False)
    reader = pq.ParquetFile(tmp_path / "in" / "part-0.snappy.parquet")
    if b"org.apache.spark.version" not in (reader.metadata.metadata or {}):
        with pq.ParquetWriter(tmp_path / "in" / "part-0.snappy.parquet", held.schema, use_deprecated_int96_timestamps=True, store_schema=False) as writer:
            writer.write_table(held)
            writer.add_key_value_metadata({"org.apache.spark.version": "3.5.1"})
    table = cat.migrate(tmp_path / "in", "db.t")
    assert str(table.schema.fields[0].type) == "TIMESTAMP(6) WITH LOCAL TIME ZONE"
    assert table.scan().collect()["t"].dt.replace_time_zone(None).to_list() == TIMES
    agreed(judge, table)
    goes_on(judge, table)


@pytest.mark.parametrize("counted", [True, False], ids=["some statistics", "none"])
@pytest.mark.parametrize("format_name", ["parquet", "orc", "avro"])
def test_files_that_a_migration_of_the_reference_leaves(judge, tmp_path, format_name, counted):
    table = taken(tmp_path, format_name, counted=counted)
    agreed(judge, table)
    for column, value in (("p", "x=y"), ("day", 19723), ("k", 7)):
        seen = judge.placed(table.location, where=(column, value))
        wanted = dt.date(2024, 1, 1) if column == "day" else value
        assert len(seen) >= table.scan().filter(pl.col(column) == wanted).collect().height > 0, column
    goes_on(judge, table)


def test_format_tables(judge, cat, tmp_path):
    cat.create_format_table("db.f", {"k": "BIGINT", "v": "VARCHAR(5)", "p": "INT"}, format="parquet", partition_keys=["p"], location=str(tmp_path / "in"))
    cat["db.f"].append([{"k": k, "v": f"v{k}", "p": k % 2} for k in range(6)])
    (tmp_path / "in" / "p=7").mkdir()
    pq.write_table(pa.table({"v": pa.array(["late"]), "k": pa.array([9], pa.int32())}), tmp_path / "in" / "p=7" / "x.parquet")
    before = cat["db.f"].scan().sort("k").collect()
    table = cat.migrate("db.f", "db.t")
    assert table.scan().sort("k").collect().equals(before)
    assert {field.name: str(field.type) for field in table.schema.fields} == {"k": "BIGINT", "v": "VARCHAR(5)", "p": "INT"}
    agreed(judge, table)
    goes_on(judge, table)
