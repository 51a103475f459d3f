"""Databases and tables made, renamed and dropped by name, in a warehouse that is a folder and in one whose names are in a database."""

from __future__ import annotations

import pickle
import time

import pytest

import lakekit as lk

COLUMNS = {"k": "BIGINT NOT NULL", "v": "STRING"}
ROWS = [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}]


@pytest.fixture(params=["filesystem", "jdbc"])
def cat(request, tmp_path):
    uri = f"sqlite:///{tmp_path}/catalog.db" if request.param == "jdbc" else None
    return lk.connect(tmp_path / "house", metastore=request.param, uri=uri)


@pytest.fixture
def shop(cat):
    cat.create_database("shop")
    cat.create_table("shop.orders", COLUMNS, primary_keys=["k"], options={"bucket": 1}).upsert(ROWS)
    return cat


def rows(cat, name):
    return cat[name].scan().collect().sort("k").to_dicts()


def test_a_database_comes_and_goes(cat):
    cat.create_database("shop")
    assert cat.databases() == ["shop"]
    assert cat.exists("shop") and "shop" in cat
    with pytest.raises(lk.DatabaseAlreadyExists, match="if_not_exists=True"):
        cat.create_database("shop")
    cat.create_database("shop", if_not_exists=True)
    cat.drop_database("shop")
    assert cat.databases() == [] and "shop" not in cat
    with pytest.raises(lk.DatabaseNotFound, match="no database 'shop'"):
        cat.drop_database("shop")
    cat.drop_database("shop", if_exists=True)


@pytest.mark.parametrize("name", ["", "a.b", "a$b", "a/b", "..", " a", "a\0", "sys", "a\\b"])
def test_databases_have_names_that_a_table_can_be_asked_for_by(cat, name):
    cat.create_database("there")
    for change in (cat.create_database, cat.drop_database, cat.alter_database):
        with pytest.raises(lk.InvalidOption):
            change(name)
    assert cat.databases() == ["there"]


def test_a_database_with_tables_is_dropped_with_them_or_not_at_all(shop, tmp_path):
    with pytest.raises(lk.InvalidOption, match=r"Database shop is not empty\. It holds orders; cascade=True"):
        shop.drop_database("shop")
    assert rows(shop, "shop.orders") == ROWS
    shop.drop_database("shop", cascade=True)
    assert shop.databases() == []
    assert not (tmp_path / "house" / "shop.db").exists()
    shop.create_database("shop")
    assert shop.tables("shop").height == 0


def test_a_table_is_made_once(shop):
    with pytest.raises(lk.TableAlreadyExists, match="if_not_exists=True"):
        shop.create_table("shop.orders", COLUMNS)
    assert rows(shop, "shop.orders") == ROWS
    again = shop.create_table("shop.orders", {"other": "INT"}, if_not_exists=True)
    assert [field.name for field in again.schema.fields] == ["k", "v"]
    with pytest.raises(lk.DatabaseNotFound, match="did you mean shop"):
        shop.create_table("shp.orders", COLUMNS)


@pytest.mark.long
@pytest.mark.parametrize("name", ["shop.t$branch_dev", "shop.t$files", "sys.tables", "shop", "shop.", "shop.a.b", "shop. t", "shop.a/b"])
def test_no_table_is_made_under_a_name_that_means_something_else(shop, name):
    for change in (lambda: shop.create_table(name, COLUMNS), lambda: shop.rename_table("shop.orders", name)):
        with pytest.raises(lk.InvalidOption):
            change()
    assert shop.tables()["table"].to_list() == ["orders"]


def test_only_data_tables_are_dropped(shop):
    for name in ("shop.orders$files", "shop.orders$branch_dev", "sys.tables"):
        with pytest.raises(lk.InvalidOption, match="Cannot 'dropTable' for"):
            shop.drop_table(name)
    assert rows(shop, "shop.orders") == ROWS


def test_a_path_is_not_the_users_to_choose(shop, tmp_path):
    with pytest.raises(lk.InvalidOption, match="does not support specifying the table path"):
        shop.create_table("shop.t", COLUMNS, options={"path": str(tmp_path / "t")})


def test_a_table_is_dropped_with_its_files(shop, tmp_path):
    shop.drop_table("shop.orders")
    assert not (tmp_path / "house" / "shop.db" / "orders").exists()
    with pytest.raises(lk.TableNotFound, match="it has no tables yet"):
        shop.drop_table("shop.orders")
    shop.drop_table("shop.orders", if_exists=True)
    shop.drop_table("nope.orders", if_exists=True)
    assert shop.create_table("shop.orders", COLUMNS).scan().collect().height == 0


def test_a_drop_that_was_cut_off_left_an_empty_table_and_can_be_done_again(shop, tmp_path, monkeypatch):
    from lakekit.storage.local import LocalStorage

    real = LocalStorage.delete

    def torn(self, paths):
        for path in paths:
            if "/schema/" in path:
                raise lk.StorageFailed("the power is gone")
            real(self, [path])

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "delete", torn)
        with pytest.raises(lk.StorageFailed):
            shop.drop_table("shop.orders")
    left = tmp_path / "house" / "shop.db" / "orders"
    assert [path.name for path in left.rglob("*") if path.is_file()] == ["schema-0"]
    if shop.metastore == "filesystem":
        assert shop["shop.orders"].scan().collect().height == 0
        shop.drop_table("shop.orders")
        assert not left.exists()
    else:  # its row went first: the name is free, and the folder says why it cannot be used yet
        with pytest.raises(lk.TableAlreadyExists, match="holds a table"):
            shop.create_table("shop.orders", COLUMNS)


@pytest.mark.parametrize("name", ["link", "snapshot", "tag", "branch", "schema"])
def test_links_are_not_followed_when_a_table_is_dropped(shop, tmp_path, name):
    lies = tmp_path / "house" / "shop.db" / "orders"
    (tmp_path / "mine").mkdir()
    if (lies / name).exists():
        (lies / name).rename(tmp_path / "mine")
    (tmp_path / "mine" / "thing").write_text("mine")
    (lies / name).symlink_to(tmp_path / "mine")
    there = sorted((tmp_path / "mine").iterdir())
    if name != "schema":
        shop.drop_table("shop.orders")
    elif shop.metastore == "filesystem":  # a table's schemas lie in its own folder
        with pytest.raises(lk.TableNotFound):
            shop.drop_table("shop.orders")
    else:
        with pytest.warns(UserWarning, match="was left alone: no table lies there"):
            shop.drop_table("shop.orders")
    assert sorted((tmp_path / "mine").iterdir()) == there
    assert "shop.orders" not in shop


def test_files_at_external_paths_stay_and_are_named(shop, tmp_path):
    place = f"file://{tmp_path}/elsewhere"
    table = shop.create_table("shop.far", COLUMNS, options={"data-file.external-paths": place, "data-file.external-paths.strategy": "round-robin"})
    table.append(ROWS)
    assert [path for path in (tmp_path / "elsewhere").rglob("*") if path.is_file()]
    with pytest.warns(UserWarning, match="kept data files outside its folder, which were not deleted: file://.*/elsewhere"):
        shop.drop_table("shop.far")
    assert [path for path in (tmp_path / "elsewhere").rglob("*") if path.is_file()]
    assert "shop.far" not in shop


def test_a_table_gets_another_name(shop, tmp_path):
    shop.create_database("web")
    shop.rename_table("shop.orders", "web.sales")
    assert shop.tables().rows() == [("web", "sales", "table")]
    assert rows(shop, "web.sales") == ROWS
    shop["web.sales"].upsert([{"k": 3, "v": "c"}])
    assert len(rows(shop, "web.sales")) == 3
    assert (tmp_path / "house" / "web.db" / "sales" / "schema" / "schema-0").exists()
    assert not (tmp_path / "house" / "shop.db" / "orders").exists()
    shop.rename_table("shop.orders", "shop.x", if_exists=True)


def test_no_rename_loses_a_table(shop, tmp_path):
    shop.create_table("shop.users", COLUMNS).append(ROWS[:1])
    with pytest.raises(lk.TableAlreadyExists, match=r"shop\.users is a table already: shop\.orders keeps its name"):
        shop.rename_table("shop.orders", "shop.users")
    with pytest.raises(lk.TableNotFound, match="no table 'nope'"):
        shop.rename_table("shop.nope", "shop.other")
    with pytest.raises(lk.DatabaseNotFound, match="no database 'web'"):
        shop.rename_table("shop.orders", "web.orders")
    (tmp_path / "house" / "shop.db" / "taken").mkdir()
    with pytest.raises(lk.StorageFailed, match="is there already, though no table is"):
        shop.rename_table("shop.orders", "shop.taken")
    assert rows(shop, "shop.orders") == ROWS and rows(shop, "shop.users") == ROWS[:1]


def test_options_that_a_catalog_gives_to_new_tables(tmp_path):
    cat = lk.connect(tmp_path, options={"table-default.bucket": 3, "table-default.snapshot.num-retained.max": "70"})
    cat.create_database("shop")
    made = cat.create_table("shop.orders", COLUMNS, primary_keys=["k"], options={"bucket": 2})
    assert (made.options["bucket"], made.options["snapshot.num-retained.max"]) == ("2", "70")
    assert cat.create_table("shop.users", COLUMNS, primary_keys=["k"]).options["bucket"] == "3"


def test_a_folder_keeps_no_properties(tmp_path):
    cat = lk.connect(tmp_path)
    with pytest.warns(UserWarning, match="a folder keeps no properties: comment, owner of database shop are dropped"):
        cat.create_database("shop", comment="ours", properties={"owner": "me"})
    with pytest.raises(lk.InvalidOption, match="Cannot specify location for a database"):
        cat.create_database("web", properties={"location": "/elsewhere"})
    with pytest.raises(lk.Unsupported, match="Alter database is not supported"):
        cat.alter_database("shop", set={"owner": "you"})
    with pytest.raises(lk.DatabaseNotFound):
        cat.alter_database("nope", set={"owner": "you"})
    cat.alter_database("shop")
    assert cat.databases() == ["shop"]


def test_a_folder_that_holds_something_else_is_not_dropped_unasked(tmp_path):
    cat = lk.connect(tmp_path)
    cat.create_database("shop")
    (tmp_path / "shop.db" / "notes.txt").write_text("mine")
    with pytest.raises(lk.InvalidOption, match=r"has no tables, but its folder holds notes\.txt"):
        cat.drop_database("shop")
    cat.drop_database("shop", cascade=True)
    assert not (tmp_path / "shop.db").exists()


def test_locks_need_somebody_to_keep_them(tmp_path):
    with pytest.raises(lk.Unsupported, match=r"lock\.type='jdbc' needs a metastore"):
        lk.connect(tmp_path, options={"lock.enabled": True, "lock.type": "jdbc"}).databases()
    cat = lk.connect(tmp_path, options={"lock.enabled": True})
    cat.create_database("shop")
    cat.create_table("shop.t", COLUMNS).append(ROWS)
    with pytest.raises(lk.InvalidOption, match=r"'lock.enabled' is 'maybe'; allowed: true, false"):
        lk.connect(tmp_path, options={"lock.enabled": "maybe"})


def test_everything_can_be_said_among_the_options(tmp_path):
    said = lk.connect(options={"warehouse": str(tmp_path), "metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/c.db", "catalog-key": "mine"})
    assert said == lk.connect(tmp_path, metastore="jdbc", uri=f"jdbc:sqlite:{tmp_path}/c.db", options={"catalog-key": "mine"})
    with pytest.raises(lk.InvalidOption, match="uri is given twice"):
        lk.connect(tmp_path, metastore="jdbc", uri="sqlite:///a", options={"uri": "sqlite:///b"})
    with pytest.raises(lk.InvalidOption, match="metastore is 'jdbc', and 'hive' in options"):
        lk.connect(tmp_path, metastore="jdbc", uri="sqlite:///a", options={"metastore": "hive"})


# ---- the catalog's own tables


def test_the_tables_of_sys(shop):
    shop.create_table("shop.days", {"dt": "STRING NOT NULL", "n": "INT"}, partition_keys=["dt"], options={"owner": "me", "createdAt": "17"}).append(
        [{"dt": "2024-01-01", "n": 1}, {"dt": "2024-01-02", "n": 2}, {"dt": "2024-01-02", "n": 3}]
    )
    assert shop.exists("sys") and "sys.tables" in shop and "sys.nope" not in shop
    assert shop.tables("sys")["table"].to_list() == ["all_table_options", "catalog_options", "partitions", "tables"]
    assert "sys" not in shop.databases()
    found = shop["sys.tables"].scan().collect()
    assert found.select("database_name", "table_name", "table_type", "partitioned", "primary_key", "owner", "created_at").rows() == [
        ("shop", "days", "table", True, False, "me", 17),
        ("shop", "orders", "table", False, True, None, None),
    ]
    parts = shop["sys.PARTITIONS"].scan().drop("file_size_in_bytes", "last_file_creation_time").collect()
    assert parts.rows() == [("shop", "days", "dt=2024-01-01", 1, 1, False), ("shop", "days", "dt=2024-01-02", 2, 1, False)]
    created = shop["sys.partitions"].scan().collect()["last_file_creation_time"]
    now = time.time_ns() // 1_000_000
    assert ((now - 600_000 < created) & (created <= now + 1000)).all()
    options = shop["sys.all_table_options"].scan().collect()
    assert ("shop", "orders", "bucket", "1") in options.rows()
    assert ("shop", "days", "path", shop["shop.days"].location) in options.rows()
    with pytest.raises(lk.TableNotFound, match="the database sys has no table 'table'; did you mean 'tables'"):
        shop["sys.table"]
    assert repr(shop["sys.tables"]) == "GlobalTable sys.tables"
    assert pickle.loads(pickle.dumps(shop["sys.tables"])) == shop["sys.tables"]


def test_a_damaged_table_is_left_out_of_sys(shop, tmp_path):
    (tmp_path / "house" / "shop.db" / "orders" / "schema" / "schema-0").write_text("{}")
    assert shop["sys.tables"].scan().collect().height == 0
    assert shop["sys.all_table_options"].scan().collect().height == 0


def test_options_of_the_catalog_are_shown_without_secrets(tmp_path):
    options = {"jdbc.password": "hunter2", "s3.secret-key": "hunter2", "fs.oss.accessKeySecret": "hunter2", "table-default.bucket": 2}
    cat = lk.connect(tmp_path, options=options)
    found = dict(cat["sys.catalog_options"].scan().collect().rows())
    assert found["table-default.bucket"] == "2"
    assert (found["warehouse"], found["metastore"]) == (str(tmp_path), "filesystem")
    assert found["jdbc.password"] == found["s3.secret-key"] == found["fs.oss.accessKeySecret"] == "******"
