"""Folder tables in an object store: the same as on disk, also where the catalog is elsewhere than the files."""

from __future__ import annotations

from decimal import Decimal

import pytest

import lakekit as lk
from lakekit.errors import StorageFailed
from spec_tests.reliability.s3_server import S3Server

pytestmark = pytest.mark.long
COLUMNS = {"k": "INT", "n": "DECIMAL(20, 2)", "dt": "STRING"}
ROWS = [{"k": k, "n": Decimal(f"{k}.50"), "dt": "ab"[k % 2]} for k in range(6)]


@pytest.fixture(scope="module")
def server():
    with S3Server() as server:
        yield server


@pytest.mark.parametrize("format_name", ["csv", "parquet"])
def test_a_format_table_in_a_store(server, format_name):
    cat = lk.connect(server.url(f"warehouse-{format_name}"), storage_options=server.options)
    cat.create_database("db", if_not_exists=True)
    f = cat.create_format_table("db.f", COLUMNS, format=format_name, partition_keys=["dt"])
    f.append(ROWS)
    assert sorted(cat["db.f"].scan().select("k", "dt").collect().rows()) == [(row["k"], row["dt"]) for row in ROWS]
    f.overwrite(ROWS[:1])
    assert f.scan().collect().height == 4
    f.drop_partitions([{"dt": "a"}])
    assert sorted(f.scan().collect()["k"]) == [1, 3, 5]
    assert cat.tables()["kind"].to_list() == ["format-table"]
    cat.drop_table("db.f")
    assert not server.keys(f"warehouse-{format_name}/db.db/f/")


def test_objects_in_a_store(server):
    cat = lk.connect(server.url("warehouse-objects"), storage_options=server.options)
    cat.create_database("db")
    made = cat.create_table("db.t", {"k": "INT"})
    made.append([{"k": 1}])
    o = cat.create_object_table("db.o", location=f"{made.location}/snapshot")
    o.refresh()
    assert sorted(o.scan().collect()["name"]) == ["EARLIEST", "LATEST", "snapshot-1"]
    with o.open("LATEST") as file:
        assert file.read() == b"1"
    assert all(path.startswith(f"{made.location}/snapshot/") for path in o.scan().collect()["path"])


def test_local_files_of_a_table_in_a_store(server, tmp_path):
    cat = lk.connect(server.url("warehouse-local"), storage_options=server.options)
    cat.create_database("db")
    f = cat.create_format_table("db.f", {"k": "INT"}, format="csv", location=str(tmp_path))
    f.append([{"k": 1}])
    assert len(list(tmp_path.iterdir())) == 1
    assert cat["db.f"].scan().collect().rows() == [(1,)]
    with pytest.raises(StorageFailed):
        cat.create_object_table("db.o", location=str(tmp_path / "none")).refresh()
