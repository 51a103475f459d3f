"""Format tables and object tables by name, and what an object table lists."""

from __future__ import annotations

import datetime as dt
import os
import pickle
import shutil

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import DatabaseNotFound, InvalidOption, NotFound, SnapshotNotFound, StorageFailed, TableAlreadyExists, TableNotFound, Unsupported


@pytest.fixture
def cat(tmp_path):
    (tmp_path / "warehouse" / "db.db").mkdir(parents=True)
    return lk.connect(tmp_path / "warehouse")


@pytest.fixture
def objects(tmp_path):
    """Two files, one in a folder."""
    (tmp_path / "objects" / "sub").mkdir(parents=True)
    (tmp_path / "objects" / "a.txt").write_bytes(b"hello")
    (tmp_path / "objects" / "sub" / "b.bin").write_bytes(bytes(range(200)))
    os.utime(tmp_path / "objects" / "a.txt", ns=(0, 1_700_000_000_123_000_000))
    return str(tmp_path / "objects")


def names(table, at=None):
    return sorted(table.scan(at).collect()["name"])


def test_a_format_table_by_name(cat, tmp_path):
    f = cat.create_format_table("db.f", {"k": "INT", "dt": "STRING"}, format="CSV", partition_keys=["dt"], options={"field-delimiter": ";"})
    f.append([{"k": 1, "dt": "a"}])
    assert cat["db.f"].scan().collect().rows() == lk.open(f.location).scan().collect().rows() == [(1, "a")]
    assert cat.tables().rows() == [("db", "f", "format-table")]
    assert cat["sys.tables"].scan().select("table_name", "table_type").collect().rows() == [("f", "format-table")]
    assert cat.tables(details=True).drop("size_bytes").rows() == [("db", "f", "format-table", None, None, 1, None)]
    assert "db.f" in cat
    assert f.options["type"] == "format-table"
    assert (f.schema.to_polars().names(), f.partition_keys, f.primary_keys, f.comment, f.name) == (["k", "dt"], ("dt",), (), None, "db.f")
    assert "'file.format' = 'csv'" in f.to_sql()
    assert f.uuid == cat["db.f"].uuid
    assert "partitioned by  dt" in repr(f)
    with pytest.raises(TableAlreadyExists):
        cat.create_format_table("db.f", {"k": "INT"}, format="csv")
    with pytest.raises(DatabaseNotFound):
        cat.create_format_table("no.f", {"k": "INT"}, format="csv")
    with pytest.raises(Unsupported, match="format table"):
        cat["db.f$files"].scan()
    cat.rename_table("db.f", "db.g")
    assert cat["db.g"].scan().collect().height == 1
    cat.drop_table("db.g")
    assert not list((tmp_path / "warehouse" / "db.db").iterdir())
    with pytest.raises(TableNotFound):
        cat.table("db.g")


@pytest.mark.filterwarnings("error")
def test_options_of_text_formats_are_known(cat):
    f = cat.create_format_table("db.f", {"k": "INT", "s": "STRING"}, format="csv", options={"csv.field-delimiter": "|", "csv.include-header": True})
    assert (f.options["csv.field-delimiter"], f.options["csv.include-header"]) == ("|", "true")
    f.append([{"k": 1, "s": "a|b"}])
    assert f.scan().collect().rows() == [(1, "a|b")]


def test_a_format_table_of_a_folder_that_is_there(cat, tmp_path):
    (tmp_path / "lake").mkdir()
    pl.DataFrame({"s": ["x"], "k": [1]}, schema_overrides={"k": pl.Int32}).write_parquet(tmp_path / "lake" / "part-0.parquet")
    f = cat.create_format_table("db.f", {"k": "INT", "s": "STRING"}, format="parquet", location=str(tmp_path / "lake"))
    f.append([{"k": 2, "s": "y"}])
    assert sorted(f.scan().collect().rows()) == [(1, "x"), (2, "y")]
    assert len(list((tmp_path / "lake").iterdir())) == 2
    cat.drop_table("db.f")
    assert len(list((tmp_path / "lake").iterdir())) == 2


def test_an_object_table_is_what_was_listed(cat, objects):
    o = cat.create_object_table("db.o", location=objects, comment="pictures")
    assert (o.comment, o.options["object-location"], o.scan().collect().height) == ("pictures", objects, 0)
    told = o.refresh()
    assert (told.snapshot_id, told.row_count) == (1, 2)
    first = o.scan().filter(pl.col("name") == "a.txt").collect().row(0, named=True)
    assert (first["path"], first["parent_path"], first["length"]) == (f"{objects}/a.txt", objects, 5)
    assert (first["mtime"], first["atime"].timestamp()) == (dt.datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=dt.UTC), 0)
    assert first["owner"] is first["metadata"] is first["content_type"] is None
    os.remove(f"{objects}/a.txt")  # noqa: PTH107
    assert names(o) == ["a.txt", "b.bin"]
    o.refresh()
    assert names(o) == names(cat["db.o"]) == ["b.bin"]
    assert names(o, 1) == ["a.txt", "b.bin"]
    shutil.rmtree(f"{objects}/sub")
    o.refresh()
    assert names(o) == []
    assert o.snapshots()["snapshot_id"].to_list() == [1, 2, 3]
    assert cat.tables().rows() == [("db", "o", "object-table")]
    with pytest.raises(SnapshotNotFound):
        o.scan(9)


def test_objects_are_opened(cat, objects):
    o = cat.create_object_table("db.o", location=objects)
    o.refresh()
    [path] = o.scan().filter(pl.col("name") == "b.bin").collect()["path"]
    with o.open(path) as file, o.open("sub/b.bin") as same:
        assert file.read() == same.read() == bytes(range(200))
        assert (file.seek(-2, os.SEEK_END), file.read(), file.read()) == (198, b"\xc6\xc7", b"")
        assert (file.seek(10), file.read(2), file.tell()) == (10, b"\x0a\x0b", 12)
    for outside in ("../x", "/etc/passwd", "", "sub/../../x", "sub//b.bin"):
        with pytest.raises(InvalidOption, match="is no path below"):
            o.open(outside)
    with pytest.raises(NotFound, match=r"no object 'gone.txt'"):
        o.open("gone.txt")
    with pytest.raises(NotFound):
        o.open("sub")
    assert pickle.loads(pickle.dumps(o)).open("a.txt").read() == b"hello"


def test_nothing_else_writes_an_object_table(cat, objects):
    o = cat.create_object_table("db.o", location=objects)
    for write in (o.append, o.upsert, o.overwrite, o.writer, o.delete, o.truncate):
        with pytest.raises(Unsupported, match=r"t.refresh\(\) lists it"):
            write([])
    shutil.rmtree(objects)
    with pytest.raises(StorageFailed, match="there is nothing at"):
        o.refresh()
    assert o.snapshots().height == 0


def test_object_tables_of_older_engines_are_refreshed(tables_path, tmp_path, objects):
    """Engine 1.2 kept the same columns and options in a table of its own; the location of the fixture is elsewhere."""
    shutil.copytree(tables_path / "old_1_2_0_object", tmp_path / "o")
    o = lk.open(tmp_path / "o", options={"object-location": objects})
    assert names(o) == ["b.bin", "c.txt"]
    o.refresh()
    assert (names(o), names(o, 2)) == (["a.txt", "b.bin"], ["b.bin", "c.txt"])


def test_a_catalog_may_be_told_to_make_no_format_tables(cat):
    without = lk.connect(cat.warehouse, options={"format-table.enabled": "false"})
    with pytest.raises(InvalidOption, match=r"format-table.enabled=false"):
        without.create_format_table("db.f", {"k": "INT"}, format="csv")
    assert not without.exists("db.f")
    assert lk.connect(cat.warehouse, options={"format-table.enabled": "true"}).create_format_table("db.f", {"k": "INT"}, format="csv").name == "db.f"
