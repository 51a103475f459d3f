"""Partition directories as the reference writes them, both ways; and where every file of a table lives."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from lakekit.errors import Corrupt, LocationNotAllowed, Unsupported
from lakekit.model import partition
from lakekit.model.data_file import DataFileMeta, format_of_name
from lakekit.model.table_paths import Locations, TablePaths, checked_name, is_plain_name
from lakekit.model.table_schema import TableSchema
from lakekit.testing.fixtures import fixtures
from lakekit.types import Instant, parse

if TYPE_CHECKING:
    from pathlib import Path

TIME = Instant(1_700_000_000_123, 0)
TEXTS: list[tuple[str, Any, str, str]] = [  # type, value, legacy text, SQL text
    ("BOOLEAN", True, "true", "true"),
    ("TINYINT", -128, "-128", "-128"),
    ("BIGINT", 2**63 - 1, "9223372036854775807", "9223372036854775807"),
    ("STRING", "a b", "a b", "a b"),
    ("STRING", "\u00a0", "\u00a0", "\u00a0"),
    ("DATE", 19723, "19723", "2024-01-01"),
    ("DATE", -719529, "-719529", "-0001-12-31"),
    ("DATE", 2932897, "2932897", "+10000-01-01"),
    ("TIME(3)", 3723004, "3723004", "01:02:03.004"),
    ("TIME(3)", 0, "0", "00:00:00.0"),
    ("TIME(0)", 3723000, "3723000", "01:02:03"),
    ("TIME(2)", 3723100, "3723100", "01:02:03.1"),
    ("TIMESTAMP(3)", TIME, "2023-11-14T22:13:20.123", "2023-11-14 22:13:20.123"),
    ("TIMESTAMP(6)", TIME, "2023-11-14T22:13:20.123", "2023-11-14 22:13:20.123000"),
    ("TIMESTAMP(9)", Instant(0, 1), "1970-01-01T00:00:00.000000001", "1970-01-01 00:00:00.000000001"),
    ("TIMESTAMP(6)", Instant(-1, 999000), "1969-12-31T23:59:59.999999", "1969-12-31 23:59:59.999999"),
    ("TIMESTAMP(0)", Instant(1_699_920_000_000, 0), "2023-11-14T00:00", "2023-11-14 00:00:00"),
    ("TIMESTAMP(0)", Instant(1_699_920_005_000, 0), "2023-11-14T00:00:05", "2023-11-14 00:00:05"),
    ("DECIMAL(10, 2)", Decimal("-1.50"), "-1.50", "-1.50"),
    ("DECIMAL(10, 2)", Decimal("1.5"), "1.50", "1.50"),
    ("DECIMAL(38, 0)", Decimal(10) ** 37, "1" + "0" * 37, "1" + "0" * 37),
    ("DOUBLE", 1e10, "1.0E10", "1.0E10"),
    ("DOUBLE", 100.0, "100.0", "100.0"),
    ("DOUBLE", 0.001, "0.001", "0.001"),
    ("DOUBLE", 9.99e-4, "9.99E-4", "9.99E-4"),
    ("DOUBLE", 1e7, "1.0E7", "1.0E7"),
    ("DOUBLE", 1234567.5, "1234567.5", "1234567.5"),
    ("DOUBLE", -0.0, "-0.0", "-0.0"),
    ("DOUBLE", 5e-324, "4.9E-324", "4.9E-324"),
    ("DOUBLE", math.inf, "Infinity", "Infinity"),
    ("FLOAT", 0.10000000149011612, "0.1", "0.1"),
    ("FLOAT", 3.4028234663852886e38, "3.4028235E38", "3.4028235E38"),
    ("FLOAT", 1.401298464324817e-45, "1.4E-45", "1.4E-45"),
]


@pytest.mark.parametrize(("type_text", "value", "legacy", "sql"), TEXTS, ids=[f"{t}-{legacy}" for t, _, legacy, _ in TEXTS])
def test_texts(type_text: str, value: Any, legacy: str, sql: str) -> None:
    t = parse(type_text)
    assert partition.partition_texts([value], [t]) == (legacy,)
    assert partition.partition_texts([value], [t], legacy_form=False) == (sql,)
    for text in (legacy, sql):
        (found,) = partition.parse_partition([text], [t])
        assert found == value
        assert math.copysign(1, found) == math.copysign(1, value) if isinstance(value, float) else True


def test_a_time_finer_than_its_type_shows_all_digits_of_the_type() -> None:
    assert partition.partition_texts([3723001], [parse("TIME(2)")], legacy_form=False) == ("01:02:03.00",)


def test_bytes_have_a_text_only_in_sql() -> None:
    assert partition.partition_texts(["é".encode()], [parse("BYTES")], legacy_form=False) == ("é",)
    with pytest.raises(Unsupported, match="legacy-name=false"):
        partition.partition_texts([b"a"], [parse("BYTES")])
    with pytest.raises(Unsupported):
        partition.partition_texts([[1]], [parse("ARRAY<INT>")])


@pytest.mark.parametrize("value", [None, "", " ", "\t\n", "\u3000"])
def test_null_and_blank_are_the_default_partition(value: str | None) -> None:
    string = parse("STRING")
    assert partition.partition_texts([value], [string]) == ("__DEFAULT_PARTITION__",)
    assert partition.partition_texts([value], [string], default_name="none") == ("none",)
    assert partition.parse_partition(["none"], [string], default_name="none") == (None,)


@pytest.mark.parametrize(
    ("name", "text", "directory"),
    [
        ("p", "a/b=c d:é%中", "p=a%2Fb%3Dc d%3Aé%25中/"),
        ("p", "2023-11-14T22:13:20.123", "p=2023-11-14T22%3A13%3A20.123/"),
        ("dt", "2024-01-01", "dt=2024-01-01/"),
        ("a=b", "x\x7f\n~!@$&(),;+|<>", "a%3Db=x%7F%0A~!@$&(),;+|<>/"),
        ("p", "\"#'*?\\{}[]^", "p=%22%23%27%2A%3F%5C%7B%7D%5B%5D%5E/"),
        ("p", "..", "p=../"),
    ],
)
def test_directories(name: str, text: str, directory: str) -> None:
    assert partition.partition_path([name], [text]) == directory
    assert partition.parse_partition_path(directory) == ((name, text),)


def test_percent_signs_that_escape_nothing_are_themselves() -> None:
    assert partition.unescape_name("%zz%4%41%") == "%zz%4A%"
    assert partition.partition_path([], []) == ""
    assert partition.parse_partition_path("") == ()
    with pytest.raises(Corrupt):
        partition.parse_partition_path("dt=1/loose/")


@pytest.mark.parametrize(
    ("type_text", "text"),
    [
        ("TINYINT", "128"),
        ("INT", "1.0"),
        ("INT", "１"),
        ("BOOLEAN", "yes"),
        ("DATE", "2023-02-29"),
        ("DATE", "2024-1-1"),
        ("DATE", "9999999999"),
        ("TIME(3)", "24:00:00"),
        ("TIMESTAMP(3)", "2024-01-01T25:00"),
        ("TIMESTAMP(3)", "now"),
        ("DECIMAL(3, 2)", "10.00"),
        ("DECIMAL(3, 2)", "1.001"),
        ("DECIMAL(3, 2)", "1e99999"),
        ("DECIMAL(3, 2)", "NaN"),
        ("DOUBLE", "1_0"),
        ("DOUBLE", "nan"),
        ("FLOAT", "1e300"),
    ],
)
def test_texts_that_are_no_values(type_text: str, text: str) -> None:
    with pytest.raises(Corrupt, match="is no "):
        partition.parse_partition([text], [parse(type_text)])


PARTITIONED = [
    path.parent.parent for path in sorted((fixtures() / "tables").glob("*/schema/schema-0")) if TableSchema.from_json(path.read_bytes()).partition_keys
]


@pytest.mark.parametrize("table", PARTITIONED, ids=lambda path: path.name)
def test_directories_of_golden_tables(table: Path) -> None:
    schema = TableSchema.from_json((table / "schema" / "schema-0").read_bytes())
    types = [field.type for field in schema.partition_fields]
    legacy = schema.options.get("partition.legacy-name", "true") == "true"
    default = schema.options.get("partition.default-name", partition.DEFAULT_NAME)
    start = table / schema.options.get("data-file.path-directory", "")
    found = {str(bucket.parent.relative_to(start)) for bucket in start.rglob("bucket-*")}
    assert found
    for directory in found:
        said = partition.parse_partition_path(directory)
        assert tuple(name for name, _ in said) == schema.partition_keys
        values = partition.parse_partition([text for _, text in said], types, default_name=default)
        assert (
            partition.partition_path(schema.partition_keys, partition.partition_texts(values, types, default_name=default, legacy_form=legacy))
            == directory + "/"
        )


# ---- layout ------------------------------------------------------------------------------------------------------------------------------------


def test_where_files_live() -> None:
    main = TablePaths(root="/w/s.db/t")
    assert main.schema(0) == "/w/s.db/t/schema/schema-0"
    assert main.snapshot(7) == "/w/s.db/t/snapshot/snapshot-7"
    assert (main.latest_hint, main.earliest_hint) == ("/w/s.db/t/snapshot/LATEST", "/w/s.db/t/snapshot/EARLIEST")
    assert main.changelog(1) == "/w/s.db/t/changelog/changelog-1"
    assert (main.changelog_latest_hint, main.changelog_earliest_hint) == ("/w/s.db/t/changelog/LATEST", "/w/s.db/t/changelog/EARLIEST")
    assert main.tag("v 1") == "/w/s.db/t/tag/tag-v 1"
    assert main.consumer("c") == "/w/s.db/t/consumer/consumer-c"
    assert main.manifest("manifest-a-0") == "/w/s.db/t/manifest/manifest-a-0"
    assert main.statistics("stat-a-0") == "/w/s.db/t/statistics/stat-a-0"
    assert main.index("index-a-0") == "/w/s.db/t/index/index-a-0"
    assert main.data_file("dt=1/", 3, "data-a-0.orc") == "/w/s.db/t/dt=1/bucket-3/data-a-0.orc"
    assert main.data_file("", -2, "data-a-0.orc") == "/w/s.db/t/bucket-postpone/data-a-0.orc"
    assert main.extra_file("/w/s.db/t/bucket-0/data", "data.index") == "/w/s.db/t/bucket-0/data.index"


def test_a_branch_has_metadata_of_its_own_and_shares_the_rest() -> None:
    branch = TablePaths(root="/t", directory="data").on_branch("dev")
    assert branch.schema(0) == "/t/branch/branch-dev/schema/schema-0"
    assert branch.snapshot(1) == "/t/branch/branch-dev/snapshot/snapshot-1"
    assert branch.tag("v") == "/t/branch/branch-dev/tag/tag-v"
    assert branch.manifest("m") == "/t/manifest/m"
    assert branch.data_file("", 0, "f") == "/t/data/bucket-0/f"
    assert branch.on_branch("main").schema(0) == "/t/schema/schema-0"


def test_options_move_files() -> None:
    layout = TablePaths(root="/t/", directory="a/b", index_beside_data=True)
    assert layout.bucket_dir("dt=1/", 0) == "/t/a/b/dt=1/bucket-0"
    assert layout.bucket_dir("dt=1/", 0, directory="") == "/t/dt=1/bucket-0"
    assert layout.index("index-a-0", partition_path="dt=1/", bucket=0) == "/t/a/b/dt=1/bucket-0/index-a-0"


HOSTILE = ["", ".", "..", "../../etc/passwd", "/etc/passwd", "a/b", "a\\b", "a\0b", "a\nb", "\x7f", "\ud800", "x" * 256, "é" * 128]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_hostile_names_open_nothing(name: str) -> None:
    layout = TablePaths(root="/t")
    assert not is_plain_name(name)
    for ask in (layout.manifest, layout.statistics, layout.index, layout.tag, layout.branch_dir, lambda name: layout.data_file("", 0, name)):
        with pytest.raises(Corrupt, match="is not a plain file name") as raised:
            ask(name)
        assert str(raised.value).isprintable()
    with pytest.raises(Corrupt) as raised:
        checked_name(name, path="t/manifest/m", field="_FILE_NAME")
    assert (raised.value.path, raised.value.field) == ("t/manifest/m", "_FILE_NAME")


@pytest.mark.parametrize("name", ["data--u-a-s-1-w-b-0.parquet", "a b", "湖", "%2e%2e%2f", "file:x", "...", "~", "x" * 255])
def test_odd_names_are_names(name: str) -> None:
    assert checked_name(name) == name


def test_external_paths_lie_below_the_roots_that_the_table_names() -> None:
    roots = ("file:/far", "oss://bucket/root")
    named = TablePaths(root="/w/t", external_roots=roots)
    layout = replace(named, locations=Locations().with_named({"lakekit.allowed-locations": ",".join(roots)}))
    for path in ("/far/dt=1/bucket-0/f", "file:///far/f", "oss://bucket/root/f", "/w/t/bucket-0/f"):
        assert layout.data_file("", 0, "f", path) == path.removeprefix("file://")
    for path in ("/far/dt=1/bucket-0/f", "file:///far/f", "oss://bucket/root/f"):
        with pytest.raises(LocationNotAllowed, match=r"lakekit\.allowed-locations"):
            named.data_file("", 0, "f", path)
    for path in ("/etc/passwd", "/far/../etc/passwd", "/farther/f", "oss://other/root/f", "http://far/f", "/far//f", ""):
        with pytest.raises(Corrupt, match=r"data-file\.external-paths"):
            layout.data_file("", 0, "f", path)


@pytest.mark.parametrize(
    ("name", "format_name"),
    [
        ("data-a-0.parquet", "parquet"),
        ("data-a-0.zstd.parquet", "parquet"),
        ("data-a-0.csv.gz", "csv"),
        ("a.json.zst", "json"),
        ("a.b.orc", "orc"),
        ("avro", ""),
    ],
)
def test_formats_of_names(name: str, format_name: str) -> None:
    assert format_of_name(name) == DataFileMeta(name=name, size_bytes=0, row_count=0).format_name == format_name
