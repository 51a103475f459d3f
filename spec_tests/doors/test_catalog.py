"""`lk.connect`: tables by name, and what a name that is none gets told."""

from __future__ import annotations

import pickle
import shutil

import pytest

import lakekit as lk
from lakekit.storage.memory import MemoryStorage
from spec_tests.doors.views import TABLES, copied

ORDERS, USERS, BRANCHED, OLD = "dedup_levels", "append_plain", "history_branches", "empty_keyed"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    root = tmp_path_factory.mktemp("house")
    for name, case in (("shop.db/orders", ORDERS), ("shop.db/users", USERS), ("web.db/clicks", BRANCHED), ("web.db/empty", OLD)):
        shutil.copytree(TABLES / case, root / name)
    (root / "shop.db" / "not_a_table").mkdir()
    (root / "shop.db" / "notes.txt").write_text("mine")
    (root / "elsewhere").mkdir()
    return root


@pytest.fixture
def cat(warehouse):
    return lk.connect(warehouse)


def test_databases_and_tables_are_listed_by_name(cat):
    assert cat.databases() == ["shop", "web"]
    found = cat.tables()
    assert found.columns == ["database", "table", "kind"]
    assert found.rows() == [("shop", "orders", "table"), ("shop", "users", "table"), ("web", "clicks", "table"), ("web", "empty", "table")]
    assert cat.tables("web")["table"].to_list() == ["clicks", "empty"]


def test_details_open_each_table(cat):
    found = cat.tables(details=True).rows(named=True)
    orders = lk.open(TABLES / ORDERS)
    assert found[0] == {
        "database": "shop",
        "table": "orders",
        "kind": "table",
        "snapshot_id": orders.snapshots()["snapshot_id"][-1],
        "row_count": orders.snapshots()["total_record_count"][-1],
        "file_count": orders.files().height,
        "size_bytes": orders.files()["size_bytes"].sum(),
        "error": None,
    }
    assert (found[3]["snapshot_id"], found[3]["row_count"], found[3]["file_count"]) == (None, 0, 0)


def test_a_broken_table_does_not_hide_the_others(warehouse, tmp_path):
    shutil.copytree(warehouse, tmp_path / "house")
    (tmp_path / "house" / "shop.db" / "orders" / "schema" / "schema-0").write_text("{}")
    cat = lk.connect(tmp_path / "house")
    found = cat.tables("shop", details=True).rows(named=True)
    assert [one["kind"] for one in found] == [None, "table"]
    assert "schema-0" in found[0]["error"]
    assert cat.exists("shop.orders")
    with pytest.raises(lk.Corrupt):
        cat["shop.orders"]


def test_a_table_by_name_is_the_table_by_path(cat, warehouse):
    found = cat["shop.orders"]
    assert found == cat.table("shop.orders")
    assert found.name == "shop.orders"
    assert found == lk.open(warehouse / "shop.db" / "orders")
    assert found.scan().collect().sort("k").equals(lk.open(TABLES / ORDERS).scan().collect().sort("k"))
    assert cat.table("shop.orders", options={"scan.snapshot-id": "1"}).options["scan.snapshot-id"] == "1"
    with pytest.raises(lk.InvalidOption):
        cat.table("shop.orders", options={"scan.snapshot-id": "x"})


def test_system_tables_and_branches_by_name(cat):
    files = cat["shop.orders$files"]
    assert files.scan().collect().equals(cat["shop.orders"].system("files").collect())
    assert files.scan(at=1).collect().equals(cat["shop.orders"].system("files", at=1).collect())
    assert repr(files) == "SystemTable shop.orders$files"
    branch = lk.open(TABLES / BRANCHED).branches()["branch"][0]
    of_branch = cat[f"web.clicks$branch_{branch}"]
    assert of_branch.branch_name == branch
    assert of_branch.scan().collect().height == lk.open(TABLES / BRANCHED, branch=branch).scan().collect().height
    assert cat[f"web.clicks$branch_{branch}$snapshots"].scan().collect().equals(of_branch.system("snapshots").collect())


def test_existence(cat):
    branch = lk.open(TABLES / BRANCHED).branches()["branch"][0]
    there = ["shop.orders", "shop.orders$files", "web.clicks", f"web.clicks$branch_{branch}", f"web.clicks$branch_{branch}$files", "shop"]
    assert all(cat.exists(name) and name in cat for name in there)
    absent = [
        "shop.order",
        "shop.not_a_table",
        "nope.orders",
        "shop.orders$nope",
        "web.clicks$branch_nope",
        "shop.orders$files$x",
        "nope",
        "shop.",
        ".orders",
        "",
        ".",
    ]
    assert not any(cat.exists(name) or name in cat for name in absent)
    assert 3 not in cat
    assert "shop.orders$row_tracking" in cat  # there is such a table; lakekit refuses to read it


@pytest.mark.parametrize(
    "name, error, text",
    [
        ("nope.orders", lk.DatabaseNotFound, "no database 'nope' in \"{root}\": its databases are shop, web"),
        ("shp.orders", lk.DatabaseNotFound, "no database 'shp' in \"{root}\": its databases are shop, web; did you mean shop?"),
        ("shop.order", lk.TableNotFound, "no table 'order' in database shop: its tables are orders, users; did you mean orders?"),
        ("shop.zzz$files", lk.TableNotFound, "no table 'zzz' in database shop: its tables are orders, users"),
        ("orders", lk.TableNotFound, '\'orders\' is no name of a table: a catalog calls them "database.table", such as "shop.orders"'),
        ("shop.orders$file", lk.TableNotFound, "shop.orders has no system table 'file'; did you mean 'files'? There are aggregation_fields, "),
        ("shop.orders$files$branch_a", lk.TableNotFound, "a branch comes before a system table"),
        ("shop.orders$branch_nope", lk.BranchNotFound, "shop.orders has no branch 'nope'; it has no branches"),
        ("shop.orders$row_tracking", lk.Unsupported, "row_tracking"),
    ],
)
def test_what_is_told_of_names_that_are_none(cat, warehouse, name, error, text):
    with pytest.raises(error) as told:
        cat.table(name)
    assert text.format(root=warehouse) in str(told.value)


@pytest.mark.parametrize(
    "name", ["../etc.passwd", "shop.../orders", "shop.orders/../users", "shop.a\0b", "..orders", "shop.orders$", "shop.a.b", "shop.a\\b", "shop.\ud800"]
)
def test_no_name_leaves_the_warehouse(cat, name):
    with pytest.raises(lk.NotFound):
        cat.table(name)
    assert name not in cat


def test_what_is_told_of_places_that_are_no_warehouse(warehouse, tmp_path):
    def told(path):
        with pytest.raises(lk.DatabaseNotFound) as found:
            lk.connect(path).databases()
        return str(found.value)

    assert told(tmp_path / "nothing").endswith('nothing": there is no such folder')
    assert "it is a table; open it with lk.open(" in told(warehouse / "shop.db" / "orders")
    assert "it looks like a database; its warehouse would be" in told(warehouse / "shop.db")
    assert "it is a file; a warehouse is a folder" in told(warehouse / "shop.db" / "notes.txt")
    assert lk.connect(tmp_path).databases() == []
    assert lk.connect(tmp_path).tables().height == 0
    with pytest.raises(lk.DatabaseNotFound, match="it has no databases yet"):
        lk.connect(tmp_path)["a.b"]


def test_other_metastores_are_refused_by_name(warehouse):
    for kind in ("rest",):
        with pytest.raises(lk.Unsupported, match=rf"this catalog uses catalog\.{kind}.*which lakekit does not support"):
            lk.connect(warehouse, metastore=kind, uri="x")
    with pytest.raises(lk.InvalidOption, match="no metastore is called 'oracle'; lakekit knows filesystem, hive, jdbc"):
        lk.connect(warehouse, metastore="oracle")
    with pytest.raises(lk.InvalidOption, match="needs a warehouse"):
        lk.connect()
    with pytest.raises(lk.InvalidOption, match="has no uri"):
        lk.connect(warehouse, uri="thrift://x")
    with pytest.raises(lk.Unsupported, match="no storage is called 's4'"):
        lk.connect("s4://bucket/wh")


def test_connecting_and_showing_read_nothing(warehouse):
    storage = MemoryStorage()
    for one in (copied(TABLES / ORDERS, "wh/shop.db/orders"),):
        storage.files |= one.files
    cat = lk.Catalog(warehouse="wh", storage=storage)
    assert "wh" in repr(cat)
    assert "<table>" in cat._repr_html_()
    assert storage.trace == []
    assert cat.databases() == ["shop"]
    storage.trace.clear()
    assert "shop" in repr(cat)
    assert storage.trace == []
    assert cat["shop.orders"].scan().collect().height == lk.open(TABLES / ORDERS).scan().collect().height
    assert lk.connect(warehouse / "not" / "there")  # asks nothing yet


def test_secrets_are_not_shown(warehouse):
    cat = lk.connect(warehouse, storage_options={"aws_secret_access_key": "hunter2"}, options={"jdbc.password": "hunter2"})
    assert "hunter2" not in repr(cat) + cat._repr_html_() + str(cat["shop.orders"])


def test_a_catalog_closes_pickles_and_is_a_value(cat, warehouse):
    with lk.connect(warehouse) as other:
        assert other.databases() == ["shop", "web"]
    other.close()
    assert pickle.loads(pickle.dumps(cat)) == cat == lk.connect(warehouse)
    assert pickle.loads(pickle.dumps(cat["shop.orders$files"])) == cat["shop.orders$files"]
