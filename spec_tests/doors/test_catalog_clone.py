"""Tables copied by name: what comes along, what stays behind, and what is refused before anything is made."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakekit as lk
from lakekit.catalog.metastores.jdbc import JdbcMetastore
from lakekit.errors import StorageFailed
from lakekit.maintenance import atomic_create as cloning
from lakekit.metadata import manifest_reader, snapshots
from lakekit.metadata.table_context import TableLocation
from lakekit.model.table_paths import TablePaths
from lakekit.storage.memory import MemoryStorage
from spec_tests.doors.hive_server import serve

COLUMNS = {"k": "INT NOT NULL", "p": "INT NOT NULL", "v": "STRING"}
KINDS = {
    "key": {"bucket": "2"},
    "vectors": {"bucket": "2", "deletion-vectors.enabled": "true"},
    "vectors beside": {"bucket": "1", "deletion-vectors.enabled": "true", "index-file-in-data-file-dir": "true", "data-file.path-directory": "rows"},
    "dynamic": {"bucket": "-1"},
    "postpone": {"bucket": "-2"},
    "changelog": {"bucket": "1", "changelog-producer": "lookup"},
    "indexed": {"bucket": "2", "file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1 b"},
}


@pytest.fixture
def cat(tmp_path):
    found = lk.connect(tmp_path / "house")
    for name in ("shop", "copies"):
        found.create_database(name)
    return found


def made(cat, options, name="shop.orders", keys=("k", "p")):
    """Four commits, a compaction, a tag of the second, a column added late."""
    table = cat.create_table(name, COLUMNS, primary_keys=keys, partition_keys=["p"], options={**options, "write-only": "true"})
    write = table.upsert if keys else table.append
    for turn in range(3):
        write([{"k": k, "p": k % 2, "v": f"{turn}-{k}"} for k in range(turn, 6)])
        if turn == 1:
            table.create_tag("early")
    table.compact(full=True)
    table.alter(lk.add_column("w", "INT"))
    write([{"k": 1, "p": 1, "v": None, "w": 5}])
    if keys and "deletion-vectors.enabled" in options:
        table.compact(full=False)
    return table


def rows(table, at=None):
    return sorted(table.scan(at=at).collect().rows(), key=repr)


def inside(table):
    return {str(path.relative_to(table.location)) for path in Path(table.location).rglob("*") if path.is_file()}


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_the_copy_is_whole_and_stands_alone(cat, kind):
    source = made(cat, KINDS[kind])
    expected, early = rows(source), rows(source, "early")
    copy, old = cat.clone("shop.orders", "copies.new"), cat.clone("shop.orders", "copies.old", at="early")
    assert copy.name == "copies.new"
    assert copy.schema == source.schema
    assert list(old.schema.to_polars()) == ["k", "p", "v"]
    assert dict(copy.options) == dict(source.options)
    of_files = ("partition", "bucket", "level", "row_count", "file_name", "min_sequence_number", "max_sequence_number")
    if kind != "postpone":
        assert copy.files().select(of_files).sort("file_name").equals(source.files().select(of_files).sort("file_name"))
    assert copy.snapshots().select("snapshot_id", "kind").rows() == [(1, "APPEND")]
    cat.drop_table("shop.orders")
    assert (rows(copy), rows(old)) == (expected, early)
    assert copy.check(deep=True).ok
    copy.upsert([{"k": 1, "p": 1, "v": "again", "w": 1}])
    copy.compact(full=True)
    if kind != "postpone":
        assert [row for row in rows(copy) if row[0] == 1] == [(1, 1, "again", 1)]
    assert copy.check(deep=True).ok
    assert sorted(path.name for path in Path(copy.location).parent.iterdir()) == ["new", "old"], "nothing is left beside it"


def test_append_tables_and_what_lies_beside_files(cat):
    source = made(cat, {"bucket": "-1", "file-index.bitmap.columns": "k", "file-index.in-manifest-threshold": "1 b"}, keys=())
    copy = cat.clone("shop.orders", "copies.new")
    live = {f"{row[0]}/bucket-0/{row[1]}" for row in source.files().select("partition", "file_name").rows()}
    assert {name for name in inside(copy) if "/bucket-0/" in name} == live | {f"{name}.index" for name in live}
    assert rows(copy) == rows(source)
    cat.drop_table("shop.orders")
    assert copy.check(deep=True).ok


def test_statistics_and_watermarks_come_along_and_history_stays(cat):
    source = cat.create_table("shop.orders", COLUMNS, primary_keys=["k", "p"], options={"bucket": "1", "changelog-producer": "input"})
    with source.writer() as writer:
        writer.write([{"k": 1, "p": 1, "v": "a"}])
        messages = writer.prepare()
    source.commit(messages, commit_user="job", identifier=1, watermark=77)
    source.analyze()
    source.create_tag("a")
    source.create_branch("b", tag="a")
    source.reset_consumer("c", next_snapshot=1)
    copy = cat.clone("shop.orders", "copies.new")
    assert copy.system("statistics").collect().drop("snapshot_id").equals(source.system("statistics").collect().drop("snapshot_id"))
    told = snapshots.latest(copy._context())
    assert (told.watermark, told.changelog_manifest_list, told.total_record_count) == (77, None, 1)
    assert (copy.tags().height, copy.branches().height, copy.consumers().height) == (0, 0, 0)
    assert {name.partition("/")[0] for name in inside(copy)} == {"schema", "snapshot", "manifest", "statistics", "bucket-0"}
    assert not [name for name in inside(copy) if "changelog-" in name]
    source.alter(lk.add_column("w", "INT"))
    assert cat.clone("shop.orders", "copies.later").system("statistics").collect().height == 0, "they are of another schema"


def test_files_at_external_paths_come_home(cat, tmp_path):
    outside = {"data-file.external-paths": f"file://{tmp_path}/out", "data-file.external-paths.strategy": "round-robin"}
    source = made(cat, {"bucket": "1", **outside})
    assert list((tmp_path / "out").rglob("*.parquet"))
    expected, copy = rows(source), cat.clone("shop.orders", "copies.new")
    assert not [key for key in copy.options if "external" in key]
    assert manifest_reader.read_live_entries(copy._context(), snapshots.latest(copy._context())).column("external_path").null_count == len(copy.files())
    for path in (tmp_path / "out").rglob("*.parquet"):
        path.unlink()
    assert rows(copy) == expected
    assert copy.check(deep=True).ok


def test_branches_and_empty_tables(cat):
    source = made(cat, {"bucket": "1"})
    source.create_branch("dev", tag="early")
    source.branch("dev").upsert([{"k": 99, "p": 1, "v": "dev"}])
    assert rows(cat.clone("shop.orders$branch_dev", "copies.dev")) == rows(source.branch("dev"))
    cat.create_table("shop.empty", COLUMNS)
    copy = cat.clone("shop.empty", "copies.empty")
    assert copy.snapshots().height == 0
    copy.append([{"k": 1, "p": 1, "v": None}])
    assert rows(copy) == [(1, 1, None)]


@pytest.mark.long
@pytest.mark.parametrize("metastore", ["filesystem", "jdbc", "hive"])
def test_from_one_catalog_to_another_and_back(cat, tmp_path, metastore):
    source = made(cat, {"bucket": "1"})
    with serve(tmp_path / "default") as (hive, *_):
        uri = {"filesystem": None, "jdbc": f"sqlite:///{tmp_path}/names.db", "hive": hive}[metastore]
        other = lk.connect(tmp_path / "other", metastore=metastore, uri=uri)
        other.create_database("shop")
        copy = cat.clone("shop.orders", "shop.orders", into=other)
        assert copy.location == f"{tmp_path}/other/shop.db/orders"
        assert rows(other["shop.orders"]) == rows(source)
        assert other.tables("shop").rows() == [("shop", "orders", "table")]
        copy.alter(lk.set_option("snapshot.time-retained", "2 h"))
        assert cat.tables().height == 1
        assert other.clone("shop.orders", "copies.back", into=cat).options["snapshot.time-retained"] == "2 h"
        with pytest.raises(lk.TableAlreadyExists):
            cat.clone("shop.orders", "shop.orders", into=other)
    assert rows(cat["copies.back"]) == rows(source)


def test_what_is_refused_before_anything_is_made(cat, tmp_path):
    source = made(cat, {"bucket": "1"})
    (tmp_path / "things").mkdir()
    cat.create_object_table("shop.things", location=str(tmp_path / "things"))
    cat.create_format_table("shop.lines", {"a": "STRING"}, format="csv")
    for given, kind, why in (
        (("shop.none", "copies.x"), lk.TableNotFound, "no table 'none'"),
        (("shop.orders", "none.x"), lk.DatabaseNotFound, "no database 'none'"),
        (("shop.orders", "shop.orders"), lk.TableAlreadyExists, "was not copied; choose another name"),
        (("shop.orders", "copies.x$files"), lk.InvalidOption, "system table"),
        (("shop.orders", "x"), lk.InvalidOption, "no name of a table"),
        (("shop.orders$files", "copies.x"), lk.InvalidOption, "is a system table, which has no files"),
        (("sys.tables", "copies.x"), lk.InvalidOption, "is a system table, which has no files"),
        (("shop.things", "copies.x"), lk.Unsupported, "cat.create_object_table makes another one of the same location"),
        (("shop.lines", "copies.x"), lk.Unsupported, "is a format table"),
    ):
        with pytest.raises(kind, match=why):
            cat.clone(*given)
    with pytest.raises(lk.SnapshotNotFound):
        cat.clone("shop.orders", "copies.x", at=99)
    with pytest.raises(lk.TagNotFound):
        cat.clone("shop.orders", "copies.x", at="none")
    source.create_branch("back")
    source.alter(lk.set_option("scan.fallback-branch", "back"))
    with pytest.raises(lk.InvalidOption, match="is read together with its branch 'back'"):
        cat.clone("shop.orders", "copies.x")
    source.alter(lk.reset_option("scan.fallback-branch"))
    assert list((tmp_path / "house" / "copies.db").iterdir()) == []
    left = tmp_path / "house" / "copies.db" / "x" / "bucket-0"
    left.mkdir(parents=True)
    with pytest.raises(StorageFailed, match="holds bucket-0 already, though no table is known there"):
        cat.clone("shop.orders", "copies.x")
    left.rmdir()
    assert rows(cat.clone("shop.orders", "copies.x")) == rows(source), "an empty folder is in nobody's way"


def test_a_snapshot_that_expires_meanwhile_is_told(cat, monkeypatch):
    source = made(cat, {"bucket": "1"})
    live = manifest_reader.read_live_entries

    def expired(handle, snapshot):
        found = live(handle, snapshot)
        monkeypatch.undo()
        source.overwrite([{"k": 1, "p": 1, "v": "x", "w": 1}, {"k": 2, "p": 0, "v": "x", "w": 1}])
        source.expire_snapshots(retain_max=1, retain_min=1, older_than="9999-01-01")
        return found

    monkeypatch.setattr(cloning.manifest_reader, "read_live_entries", expired)
    with pytest.raises(lk.SnapshotNotFound, match=r"expired while it was copied\. Nothing was made; clone a tag"):
        cat.clone("shop.orders", "copies.x", at=5)
    assert list(Path(cat.warehouse, "copies.db").iterdir()) == []


def test_a_name_that_cannot_be_kept_leaves_no_files(cat, tmp_path, monkeypatch):
    source = made(cat, {"bucket": "1"})
    other = lk.connect(tmp_path / "other", metastore="jdbc", uri=f"sqlite:///{tmp_path}/names.db")
    other.create_database("shop")

    def refused(*_):
        raise StorageFailed("no room for names", path="names")

    monkeypatch.setattr(JdbcMetastore, "_insert_table", refused)
    with pytest.raises(StorageFailed, match="no room for names"):
        cat.clone("shop.orders", "shop.orders", into=other)
    assert list((tmp_path / "other").rglob("*orders*")) == []
    monkeypatch.undo()
    assert rows(cat.clone("shop.orders", "shop.orders", into=other)) == rows(source)


def test_from_a_disk_into_a_store_without_folders(cat):
    source = made(cat, {"bucket": "1", "deletion-vectors.enabled": "true"})
    store = MemoryStorage()
    ground = TableLocation(name="u", storage=store, paths=TablePaths(root="bucket/u"))
    assert cloning.clone_table_files(source._context(), ground).id == 1
    copy = lk.Table(location="bucket/u", name="u", storage=store)
    assert rows(copy) == rows(source)
    assert copy.check(deep=True).ok
    with pytest.raises(StorageFailed, match=r"holds schema-0, schema-1, .*snapshot-1 already"):
        cloning.clone_table_files(source._context(), ground)
