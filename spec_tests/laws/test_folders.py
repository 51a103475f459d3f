"""Format tables: what is appended is read, what is overwritten is gone, and what fails leaves nothing."""

from __future__ import annotations

import pickle
from pathlib import Path

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import ColumnNotFound, Corrupt, InvalidOption, SchemaMismatch, StorageFailed, TableAlreadyExists, Unsupported, ValueOutOfRange
from lakekit.format_table import writer
from lakekit.metadata.table_context import TableLocation
from lakekit.model.table_paths import TablePaths
from lakekit.storage.memory import MemoryStorage
from lakekit.table.format_tables import FormatTable, define_format_table
from spec_tests.laws.folders import made
from spec_tests.longer import some
from spec_tests.reliability.faulty import FaultyStorage

COLUMNS = {"k": "INT", "s": "STRING", "dt": "DATE", "hr": "INT"}
KEYS = ("dt", "hr")
FORMATS = ("csv", "json", "parquet", "orc")


def rows(*numbers, hr=0):
    return [{"k": k, "s": f"s{k}", "dt": None if k % 4 == 3 else f"2024-01-0{k % 4 + 1}", "hr": hr} for k in numbers]


def frame(*numbers, hr=0):
    return pl.DataFrame(rows(*numbers, hr=hr), schema_overrides={"dt": pl.String}).with_columns(pl.col("dt").str.to_date(), pl.col("k", "hr").cast(pl.Int32))


def numbers(table):
    return sorted(table.scan().collect()["k"].to_list())


@pytest.mark.long
@pytest.mark.parametrize("only_value", ["false", "true"])
@pytest.mark.parametrize("format_name", some(FORMATS, 3))
def test_what_is_written_is_read(tmp_path, format_name, only_value):
    t = made(tmp_path / "t", COLUMNS, format_name, partition_keys=KEYS, format_table__partition_path_only_value=only_value)
    told = t.append(frame(*range(8)))
    assert (told.added_file_count, told.row_count, told.snapshot_ids) == (4, 8, ())
    assert t.scan().collect().sort("k").equals(frame(*range(8)))
    assert sorted(t.scan().filter(pl.col("dt").is_null()).collect()["k"]) == [3, 7]
    t.append(frame(10))
    assert numbers(t) == [*range(8), 10]
    assert {path.rpartition("/")[2].partition(".")[2] for path in t.files()["path"]} == {format_name}
    folders = {path.removeprefix(t.location).split("/")[1] for path in t.files()["path"]}
    assert folders == (
        {"19723", "19724", "19725", "__DEFAULT_PARTITION__"} if only_value == "true" else {f"dt={d}" for d in (19723, 19724, 19725, "__DEFAULT_PARTITION__")}
    )


def test_conditions_on_partitions_leave_folders_unlisted(tmp_path):
    t = made(tmp_path / "t", COLUMNS, "json", partition_keys=KEYS)
    t.append(frame(*range(8)))
    (tmp_path / "t" / "dt=19724" / "hr=0" / "broken.json").write_text("{")
    first = t.scan().filter(pl.col("dt") == pl.date(2024, 1, 1))
    assert sorted(first.collect()["k"]) == [0, 4]
    assert first.select("hr", "k").filter(pl.col("k") > 0).collect().rows() == [(0, 4)]
    with pytest.raises(Corrupt, match=r"broken\.json"):
        t.scan().collect()


@pytest.mark.parametrize("format_name", some(FORMATS, 4))
def test_overwrites(tmp_path, format_name):
    t = made(tmp_path / "t", COLUMNS, format_name, partition_keys=KEYS)
    t.append(frame(*range(8)))
    t.append(frame(*range(8), hr=1))
    t.overwrite(frame(0))  # the partitions that are written
    assert numbers(t) == sorted([0, 1, 2, 3, 5, 6, 7, *range(8)])
    told = t.overwrite(frame(4, hr=5), partition={"dt": "2024-01-01"})  # all that begin so
    assert (told.added_file_count, told.removed_file_count) == (1, 2)
    assert numbers(t) == [1, 1, 2, 2, 3, 3, 4, 5, 5, 6, 6, 7, 7]
    with pytest.raises(ValueOutOfRange, match="another partition"):
        t.overwrite(frame(1), partition={"dt": "2024-01-01"})
    with pytest.raises(InvalidOption, match="without its leading partition"):
        t.overwrite(frame(1), partition={"hr": 0})
    with pytest.raises(ColumnNotFound):
        t.overwrite(frame(1), partition={"no": 0})
    t.drop_partitions([{"hr": 1}])
    assert numbers(t) == [1, 2, 3, 4, 5, 6, 7]
    t.with_options({"dynamic-partition-overwrite": "false"}).overwrite(frame(2))
    assert numbers(t) == [2]
    t.truncate()
    assert numbers(t) == []
    assert not t.files().height


def test_a_table_without_partitions(tmp_path):
    t = made(tmp_path / "t", {"k": "INT"}, "csv")
    t.append([{"k": 1}])
    (tmp_path / "t" / "deeper").mkdir()
    (tmp_path / "t" / "deeper" / "part-0").write_text("2\n")
    for hidden in ("_SUCCESS", ".part-1.crc", "_temporary/0/part-2", ".hive-staging/part-3"):
        (tmp_path / "t" / hidden).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "t" / hidden).write_text("3\n")
    assert numbers(t) == [1, 2]
    with pytest.raises(InvalidOption, match="not partitioned"):
        t.overwrite([{"k": 1}], partition={"dt": "x"})
    t.overwrite([{"k": 4}])
    assert numbers(t) == [4]
    t.overwrite([])
    assert numbers(t) == []


def test_files_elsewhere(tmp_path):
    (tmp_path / "lake" / "dt=a").mkdir(parents=True)
    (tmp_path / "lake" / "dt=a" / "part-0.csv").write_text("1;x\n2;\n")
    (tmp_path / "lake" / "unknown").mkdir()
    t = made(tmp_path / "t", {"k": "INT", "s": "STRING", "dt": "STRING"}, "csv", partition_keys=("dt",), location=str(tmp_path / "lake"), field_delimiter=";")
    assert t.scan().collect().rows() == [(1, "x", "a"), (2, None, "a")]
    t.append([{"k": 3, "s": "y;z", "dt": "b/c"}])
    assert (tmp_path / "lake" / "dt=b%2Fc").is_dir()
    assert t.scan().filter(pl.col("dt") == "b/c").collect().rows() == [(3, "y;z", "b/c")]
    assert t.partitions()["partition"].to_list() == ["dt=a", "dt=b%2Fc"]


def test_text_has_one_column(tmp_path):
    t = made(tmp_path / "t", {"line": "STRING"}, "text", format_table__file__compression="gzip")
    t.append([{"line": "a, b"}, {"line": None}])
    assert t.scan().collect()["line"].to_list() == ["a, b", ""]
    assert t.files()["path"][0].endswith(".text.gz")
    with pytest.raises(Unsupported, match="single string column"):
        made(tmp_path / "u", {"a": "STRING", "b": "STRING"}, "text")


def test_headers_are_written_and_passed_over(tmp_path):
    t = made(tmp_path / "t", {"k": "INT", "s": "STRING"}, "csv", csv__include_header="true")
    t.append([{"k": 1, "s": None}])
    assert Path(t.files()["path"][0]).read_text(encoding="utf-8") == "k,s\n1,\n"
    assert t.scan().collect().rows() == [(1, None)]


def test_files_roll(tmp_path):
    t = made(tmp_path / "t", {"k": "INT"}, "csv", target_file_size="4 kb")
    assert t.append(pl.DataFrame({"k": range(5000)})).added_file_count > 2
    assert numbers(t) == list(range(5000))


def test_more_files_than_are_held_open(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "_MAX_OPEN_FILES", 3)
    t = made(tmp_path / "t", {"k": "INT", "p": "INT"}, "parquet", partition_keys=("p",))
    assert t.append(pl.DataFrame({"k": range(12), "p": range(12)}, schema={"k": pl.Int32, "p": pl.Int32})).added_file_count == 12
    assert t.scan().filter(pl.col("p") == 11).collect()["k"].to_list() == [11]


def test_frames_and_tables_travel(tmp_path):
    t = made(tmp_path / "t", COLUMNS, "csv", partition_keys=KEYS)
    t.append(frame(1, 2))
    assert numbers(pickle.loads(pickle.dumps(t))) == [1, 2]
    assert isinstance(pickle.loads(pickle.dumps(t)), FormatTable)
    assert sorted(pickle.loads(pickle.dumps(t.scan())).collect()["k"]) == [1, 2]
    lazy = t.scan()
    t.append(frame(3))
    assert lazy.collect().height == 3  # a scan sees what is there when it runs
    assert lazy.join(lazy, on="k").collect().height == 3


def test_what_needs_snapshots_is_refused_by_name(tmp_path):
    t = made(tmp_path / "t", {"k": "INT"}, "csv")
    for ask in (
        t.snapshots,
        t.compact,
        t.check,
        t.writer,
        t.tags,
        lambda: t.delete("k = 1"),
        lambda: t.upsert([]),
        lambda: t.changes(0),
        lambda: t.system("files"),
    ):
        with pytest.raises(Unsupported, match="t is a format table: a folder of files, without snapshots"):
            ask()
    for asked in ({"at": 1}, {"raw": True}):
        with pytest.raises(InvalidOption, match="no snapshots"):
            t.scan(**asked)
    with pytest.raises(Unsupported, match="merge_schema"):
        t.append([], merge_schema=True)
    with pytest.raises(SchemaMismatch, match=r"has no column 'extra'.* Drop it$"):
        t.append([{"extra": 1}])


def test_definitions_that_make_no_sense(tmp_path):
    with pytest.raises(Unsupported, match="Format table unsupported file format: avro"):
        made(tmp_path / "t", {"k": "INT"}, "avro")
    with pytest.raises(Unsupported, match="csv files do not hold columns of type ARRAY"):
        made(tmp_path / "t", {"k": "ARRAY<INT>"}, "csv")
    with pytest.raises(InvalidOption, match="one character"):
        made(tmp_path / "t", {"k": "INT"}, "csv", field_delimiter="||")
    with pytest.raises(SchemaMismatch, match="every column is a partition column"):
        made(tmp_path / "t", {"k": "INT"}, "csv", partition_keys=("k",))
    with pytest.raises(InvalidOption, match="Cannot define primary-key"):
        made(tmp_path / "t", {"k": "INT"}, "csv", primary_key="k")
    assert not (tmp_path / "t").exists()
    made(tmp_path / "t", {"k": "INT"}, "csv")
    with pytest.raises(TableAlreadyExists):
        made(tmp_path / "t", {"k": "INT"}, "csv")
    assert not (tmp_path / "t" / "schema").exists()  # Java's catalog would take it for a table of its own


def test_partitions_that_say_no_value(tmp_path):
    t = made(tmp_path / "t", COLUMNS, "csv", partition_keys=KEYS)
    (tmp_path / "t" / "dt=yesterday" / "hr=1").mkdir(parents=True)
    with pytest.raises(Corrupt, match="dt=yesterday: partition column dt is DATE"):
        t.scan().collect()


def test_damaged_files_are_named(tmp_path):
    t = made(tmp_path / "t", {"k": "INT"}, "parquet")
    (tmp_path / "t" / "part-0.parquet").write_bytes(b"nothing of the kind")
    with pytest.raises(Corrupt, match=r"part-0\.parquet is no Parquet file"):
        t.scan().collect()


def test_definitions_of_other_engines_lie_where_tables_have_theirs(tmp_path):
    t = made(tmp_path / "t", {"k": "INT"}, "csv")
    t.append([{"k": 1}])
    (tmp_path / "t" / "_schema" / "_schema-0").rename(tmp_path / "schema-0")
    (tmp_path / "t" / "schema").mkdir()
    (tmp_path / "schema-0").rename(tmp_path / "t" / "schema" / "schema-0")
    assert numbers(lk.open(tmp_path / "t")) == [1]


@pytest.mark.long
@pytest.mark.parametrize("step, kind", some([pytest.param(step, kind) for step in ("overwrite", "append") for kind in ("error", "ambiguous")], 4))
def test_what_fails_leaves_nothing(kind, step):
    """Each call to the storage fails once: either all is there, or the rows are what they were; no row is lost, and no temporary file is left."""
    store = MemoryStorage()
    define_format_table(
        TableLocation(name="t", storage=store, paths=TablePaths(root="/t")), COLUMNS, format_name="csv", location=None, partition_keys=KEYS, options={}
    )
    FormatTable(location="/t", name="t", storage=store).append(frame(*range(4)))
    at, failed = 0, 0
    while True:
        copy = MemoryStorage()
        copy.files.update(store.files)
        faulty = FaultyStorage(copy, {at: kind})
        try:
            getattr(FormatTable(location="/t", name="t", storage=faulty), step)(frame(*range(4)))
        except StorageFailed:
            failed += 1
        if len(faulty.trace) <= at:
            break
        seen = numbers(FormatTable(location="/t", name="t", storage=copy))
        twice = sorted([*range(4)] * 2)
        deleting = any(name == "delete" for name, _ in faulty.trace[: at + 1])
        assert set(seen) == {*range(4)}, faulty.trace[at]
        assert seen in ([*range(4)], twice) or (step == "overwrite" and deleting), faulty.trace[at]  # both states, until the old files are gone
        assert not [path for path in copy.files if path.endswith(".tmp")]
        at += 1
    assert failed > 5
