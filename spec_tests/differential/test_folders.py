"""Format tables and object tables before the reference: each reads what the other wrote, and what was overwritten is gone for both."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from decimal import Decimal

import polars as pl
import pytest

import lakekit as lk
from lakekit.metadata.table_context import TableLocation
from lakekit.model.table_paths import TablePaths
from lakekit.storage.local import LocalStorage
from lakekit.table.format_tables import define_object_table
from lakekit.testing.expectations import canonical_value, encode_rows
from lakekit.types import parse
from spec_tests.differential.judge import Folder, Refused
from spec_tests.laws.folders import made

pytestmark = pytest.mark.reference
SCALARS = {
    "k": "INT",
    "flag": "BOOLEAN",
    "tiny": "TINYINT",
    "big": "BIGINT",
    "f": "FLOAT",
    "x": "DOUBLE",
    "n": "DECIMAL(10, 2)",
    "s": "STRING",
    "b": "BYTES",
    "d": "DATE",
    "t": "TIME(3)",
    "ts": "TIMESTAMP(3)",
    "tz": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "dt": "STRING",
    "hr": "INT",
}
ROWS = [
    {
        "k": 1,
        "flag": True,
        "tiny": -128,
        "big": 2**62,
        "f": 1.5,
        "x": 1e10,
        "n": Decimal("12345678.90"),
        "s": 'say "hi", now',
        "b": b"\x00\xff",
        "d": dt.date(2024, 2, 29),
        "t": dt.time(1, 2, 3, 4000),
        "ts": dt.datetime(2024, 1, 2, 3, 4, 5, 678000),  # noqa: DTZ001 - a wall clock
        "tz": dt.datetime(2024, 1, 2, 3, 4, 5, 678000, tzinfo=dt.UTC),
        "dt": "2024-01-01",
        "hr": 8,
    },
    dict.fromkeys(SCALARS) | {"k": 2, "dt": "a=b", "hr": None},
    dict.fromkeys(SCALARS) | {"k": 3, "s": "back\\slash, ends in \\", "x": 0.1, "f": 1e-5, "flag": False, "dt": "2024-01-01", "hr": 9},
    dict.fromkeys(SCALARS) | {"k": 4, "s": " blanks ", "x": -0.0, "n": Decimal("-0.05"), "dt": None, "hr": 9},
]
NESTED = {"k": "INT", "a": "ARRAY<INT>", "m": "MAP<STRING, DOUBLE>", "r": "ROW<x INT, y ARRAY<STRING>>"}
NESTED_ROWS = [
    {"k": 1, "a": [1, None, 3], "m": [{"key": 'q"', "value": 1.0}, {"key": "z", "value": None}], "r": {"x": 1, "y": ["a", None]}},
    {"k": 2, "a": [], "m": [], "r": {"x": None, "y": None}},
    {"k": 3, "a": None, "m": None, "r": None},
]


PARTITIONED = ("dt", "hr")
FORMATS = ("csv", "json", "parquet", "orc")


def types(schema):
    return [parse(text) for text in schema.values()]


def told(rows, schema):
    """Rows without what has no meaning."""
    return Counter(str([canonical_value(value, t) for value, t in zip(row, types(schema), strict=True)]) for row in rows)


def spelt(table, rows):
    """Rows as the judge takes them."""
    frame = pl.DataFrame(rows, schema=table.schema.to_polars())
    return [values for _, values in encode_rows(frame, [field.type for field in table.schema.fields])]


def both(judge, table):
    """The rows that both see in a table."""
    schema = {field.name: str(field.type) for field in table.schema.fields}
    mine = told([values for _, values in encode_rows(table.scan().collect(), types(schema))], schema)
    assert told(judge.folder_read(folder(table)), schema) == mine
    return mine


def folder(table):
    schema = {field.name: str(field.type) for field in table.schema.fields}
    return Folder(path=table.location, schema=schema, partition_keys=table.partition_keys, options=table.options)


@pytest.mark.parametrize("format_name", FORMATS)
def test_each_reads_what_the_other_wrote(judge, tmp_path, format_name):
    table = made(tmp_path / "t", SCALARS, format_name, partition_keys=PARTITIONED)
    table.append(ROWS)
    mine = both(judge, table)
    judge.folder_write(folder(table), spelt(table, [row | {"s": None if row["s"] is None else row["s"].replace("\\", "")} for row in ROWS]))
    everything = both(judge, table)
    assert sum(mine.values()) == len(ROWS)
    assert sum(everything.values()) == 2 * len(ROWS)
    assert len({path.rpartition("/")[0] for path in table.files()["path"]}) == 4  # both name partitions alike


@pytest.mark.parametrize("format_name", FORMATS)
def test_overwrites(judge, tmp_path, format_name):
    table = made(tmp_path / "t", {"k": "INT", "dt": "DATE", "hr": "INT"}, format_name, partition_keys=PARTITIONED)
    day = [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]
    judge.folder_write(folder(table), spelt(table, [{"k": k, "dt": day[k % 2], "hr": k % 3} for k in range(6)]))
    table.overwrite([{"k": 10, "dt": day[0], "hr": 0}])
    assert sum(both(judge, table).values()) == 6
    judge.folder_write(folder(table), spelt(table, [{"k": 11, "dt": day[0], "hr": 0}]), overwrite={})
    assert sum(both(judge, table).values()) == 6
    table.overwrite([{"k": 12, "dt": day[1], "hr": 5}], partition={"dt": day[1]})
    assert sum(both(judge, table).values()) == 4
    judge.folder_write(folder(table), spelt(table, [{"k": 13, "dt": day[0], "hr": 5}]), overwrite={"dt": "19723"})
    assert sum(both(judge, table).values()) == 2
    asked = told(judge.folder_read(folder(table), where=("hr", 5)), {"k": "INT", "dt": "DATE", "hr": "INT"})
    assert sum(asked.values()) == table.scan().filter(pl.col("hr") == 5).collect().height == 2
    table.truncate()
    assert not both(judge, table)


@pytest.mark.parametrize("format_name", ["json", "parquet", "orc"])
def test_nested_values(judge, tmp_path, format_name):
    table = made(tmp_path / "t", NESTED, format_name)
    table.append(pl.DataFrame(NESTED_ROWS, schema=table.schema.to_polars()))
    both(judge, table)
    judge.folder_write(folder(table), spelt(table, NESTED_ROWS))
    assert set(both(judge, table).values()) == {2}


@pytest.mark.parametrize("compression", ["gzip", "bzip2", "deflate"])
@pytest.mark.parametrize("format_name", ["csv", "json", "text"])
def test_compressed_text(judge, tmp_path, format_name, compression):
    table = made(tmp_path / "t", {"s": "STRING"}, format_name, format_table__file__compression=compression)
    rows = [{"s": f"line {number}"} for number in range(3000)]
    table.append(rows)
    both(judge, table)
    if format_name == "text":
        return  # the reference compresses such files, and gives them a name that says nothing of it: it cannot read them itself
    judge.folder_write(folder(table), spelt(table, rows))
    assert set(both(judge, table).values()) == {2}
    assert len({path.partition(".")[2] for path in table.files()["path"]}) == 1


@pytest.mark.parametrize("options", [{"csv__include_header": "true"}, {"field_delimiter": ";"}, {"csv__null_literal": "NULL"}, {"csv__quote_character": "'"}])
def test_dialects_of_csv(judge, tmp_path, options):
    table = made(tmp_path / "t", {"k": "INT", "s": "STRING", "n": "DOUBLE"}, "csv", **options)
    rows = [{"k": 1, "s": "a;b,c", "n": None}, {"k": None, "s": None, "n": 1.5}, {"k": 2, "s": 'it\'s "so"', "n": 0.0}]
    table.append(rows)
    both(judge, table)
    judge.folder_write(folder(table), spelt(table, rows))
    assert set(both(judge, table).values()) == {2}


ODD_LINES = (
    '1,"a""b",2\n', "x,y,3\n", "\n", "  \n", "1\n", '2,q"r"s,4,too,many\n', "3,\\\\a\\b,5\r\n", '4,"never ends,6\n', "5,c,nan\r6,d,1e3\n",
    '7," b"c ,8\n', '8, "e" ,9\n', '"9","f",+1\n', "10,g, 1.5 \n", '11,"h\\"",\n', "300000000000,i,1", "",
)  # fmt: skip


@pytest.mark.parametrize("mode", ["permissive", "dropmalformed"])
def test_lines_that_somebody_else_wrote(judge, tmp_path, mode):
    table = made(tmp_path / "t", {"k": "INT", "s": "STRING", "n": "DOUBLE"}, "csv", csv__mode=mode)
    (tmp_path / "t" / "part-0.csv").write_text("".join(ODD_LINES), encoding="utf-8", newline="")
    (tmp_path / "t" / "_SUCCESS").write_text("")
    (tmp_path / "t" / ".part-1.csv.crc").write_text("nothing")
    assert both(judge, table)


TEXTS = (
    "1", "+1", "-1", "1.0", "1e3", "NaN", "Infinity", "-Infinity", "1f", "0x10", "1d", "1_0", "127", "128", "-129", "32768", "2147483648",
    "9223372036854775808", "1.5E-5", ".5", "5.", "-0", "true", "TRUE", "yes", "2024-01-02", "2024-1-2", "2024-02-30", "20240102", "10:11",
    "10:11:12.5", "2024-01-02T03:04:05", "YWI=", "YWI", "YW==", "!!", "null", "99999999.994", "99999999.995", "123456789.12", "1.005", "-1.005",
    " 1", "1 ", "", "2024-01-02 03:04:05", "2024-01-02 03:04:05.123456789", "2024-01-02 03",
)  # fmt: skip
KINDS = (
    "TINYINT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(10, 2)",
    "BOOLEAN",
    "DATE",
    "TIMESTAMP(3)",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "BYTES",
    "VARCHAR(3)",
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("format_name", ["csv", "json"])
def test_texts_as_values(judge, tmp_path, format_name, kind):
    table = made(
        tmp_path / "t", {"i": "STRING", "v": kind, "w": "STRING"}, format_name, **({"json__ignore_parse_errors": "true"} if format_name == "json" else {})
    )
    lines = [f"{at},{text},w" if format_name == "csv" else json.dumps({"i": str(at), "v": text, "w": "w"}) for at, text in enumerate(TEXTS)]
    (tmp_path / "t" / "part-0").write_text("\n".join(lines), encoding="utf-8")
    assert sum(both(judge, table).values()) == len(TEXTS)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("options", [{}, {"csv__quote_character": "a"}, {"csv__escape_character": "b"}, {"field_delimiter": " "}])
def test_lines_of_chance(judge, tmp_path, options, seed):
    drawn = random.Random(seed)
    table = made(tmp_path / "t", {"a": "STRING", "k": "INT", "b": "STRING", "c": "STRING"}, "csv", **options)
    lines = ["".join(drawn.choices('ab ,"\\1\t', k=drawn.randrange(14))) for _ in range(1000)]
    (tmp_path / "t" / "part-0").write_text("\n".join(lines), encoding="utf-8", newline="")
    assert both(judge, table)


def test_json_that_somebody_else_wrote(judge, tmp_path):
    table = made(tmp_path / "t", {"k": "INT", "s": "STRING", "x": "DOUBLE", "d": "DATE", "b": "BOOLEAN"}, "json")
    lines = ['{"k":1,"s":"a","x":1.5,"d":"2024-01-02","b":true,"more":[1]}', '{"x":"1e3","k":"2"}', "null", '{"s":null,"b":"no"}', '{"s":"\\u00e9\\n"}']
    (tmp_path / "t" / "part-0.json").write_text("\n".join(lines), encoding="utf-8")
    assert sum(both(judge, table).values()) == 4


def test_columns_of_another_writer_are_found_by_name(judge, tmp_path):
    table = made(tmp_path / "t", {"k": "INT", "s": "STRING", "dt": "STRING"}, "parquet", partition_keys=("dt",))
    (tmp_path / "t" / "dt=x").mkdir()
    pl.DataFrame({"more": [1.0], "s": ["a"], "k": [1]}, schema_overrides={"k": pl.Int32}).write_parquet(tmp_path / "t" / "dt=x" / "part-0.parquet")
    assert both(judge, table)


def test_what_both_refuse(judge, tmp_path):
    table = made(tmp_path / "t", {"k": "INT NOT NULL"}, "json")
    with pytest.raises(lk.errors.LakekitError):
        table.append([{"k": None}])
    with pytest.raises(Refused, match="Cannot write null to non-null column"):
        judge.folder_write(folder(table), [[None]])
    (tmp_path / "t" / "part-0.json").write_text("{broken", encoding="utf-8")
    with pytest.raises(lk.errors.Corrupt, match="Failed to parse JSON line"):
        table.scan().collect()
    with pytest.raises(Refused):
        judge.folder_read(folder(table))


def test_objects(judge, tmp_path):
    (tmp_path / "objects" / "sub").mkdir(parents=True)
    (tmp_path / "objects" / "a.txt").write_bytes(b"hello")
    (tmp_path / "objects" / "sub" / "b.bin").write_bytes(bytes(1000))
    ground = TableLocation(name="o", storage=LocalStorage(), paths=TablePaths(root=str(tmp_path / "o")))
    define_object_table(ground, location=str(tmp_path / "objects"))
    table = lk.open(tmp_path / "o", options={"lakekit.allowed-locations": str(tmp_path / "objects")})
    table.refresh()
    mine = table.scan().select("name", "length", pl.col("mtime").dt.epoch("ms"), pl.col("atime").dt.epoch("ms"), "owner").collect().rows()
    assert sorted(mine) == sorted(row[1:] for row in judge.objects(tmp_path / "objects"))


def test_the_references_catalog_takes_them_for_nothing(judge, tmp_path):
    """Its catalog of folders refuses both kinds, and would be wrong about the rows of what it took for them."""
    (tmp_path / "db.db").mkdir()
    (tmp_path / "objects").mkdir()
    cat = lk.connect(tmp_path)
    cat.create_table("db.t", {"k": "INT"})
    cat.create_format_table("db.f", {"k": "INT"}, format="csv").append([{"k": 1}])
    cat.create_object_table("db.o", location=str(tmp_path / "objects")).refresh()
    [there] = judge.ask("catalog", tmp_path, options={}, steps=[["tables", "db"]])["answers"]
    assert there["value"] == ["t"]
    assert cat.tables()["table"].to_list() == ["f", "o", "t"]
