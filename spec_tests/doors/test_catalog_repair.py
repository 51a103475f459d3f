"""Names that a metastore lost, or never had: tables that lie in its warehouse are made known, and what it knows stays as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lakekit as lk
from spec_tests.doors.hive_server import serve

COLUMNS = {"k": "BIGINT NOT NULL", "v": "STRING"}
ROWS = [{"k": 1, "v": "a"}]
DONE = ("database", "table", "done")


@pytest.fixture
def house(tmp_path):
    """A warehouse of folders: shop.orders, shop.items, web.clicks, what is no table, and an empty database."""
    cat = lk.connect(tmp_path / "house")
    for name in ("shop", "web", "empty"):
        cat.create_database(name)
    for name in ("shop.orders", "shop.items", "web.clicks"):
        cat.create_table(name, COLUMNS, primary_keys=["k"], options={"bucket": "1"}).upsert(ROWS)
    (tmp_path / "house" / "shop.db" / "notes").mkdir()
    (tmp_path / "house" / "shop.db" / ".clone-1" / "x" / "schema").mkdir(parents=True)
    (tmp_path / "house" / "shop.db" / ".clone-1" / "x" / "schema" / "schema-0").write_text("{}")
    return tmp_path / "house"


@pytest.fixture(params=["jdbc", "hive"])
def cat(request, house, tmp_path):
    if request.param == "jdbc":
        yield lk.connect(house, metastore="jdbc", uri=f"sqlite:///{tmp_path}/names.db")
        return
    with serve(tmp_path / "default") as (uri, *_):
        yield lk.connect(house, metastore="hive", uri=uri)


def done(frame):
    return frame.select(DONE).rows()


@pytest.mark.long
def test_everything_that_lies_there_is_known_afterwards(cat):
    before = set(cat.databases())
    told = cat.repair()
    assert done(told) == [("shop", "items", "registered"), ("shop", "orders", "registered"), ("web", "clicks", "registered")]
    assert told["error"].null_count() == 3
    assert set(cat.databases()) - before == {"shop", "web", "empty"}
    assert [row[:2] for row in cat.tables().rows()] == [("shop", "items"), ("shop", "orders"), ("web", "clicks")]
    assert cat["shop.orders"].scan().collect().to_dicts() == ROWS
    cat["shop.orders"].upsert([{"k": 2, "v": "b"}])
    assert set(cat.repair()["done"]) == {"there"}
    assert cat["shop.orders"].scan().collect().height == 2


def test_a_database_or_a_table(cat):
    assert done(cat.repair("web")) == [("web", "clicks", "registered")]
    assert done(cat.repair("shop.orders")) == [("shop", "orders", "registered")]
    assert [row[:2] for row in cat.tables().rows()] == [("shop", "orders"), ("web", "clicks")]
    assert cat.repair("empty").height == 0
    assert "empty" in cat
    for name, kind, why in (
        ("none", lk.DatabaseNotFound, "no database 'none' in .*: its databases are empty, shop, web"),
        ("shop.none", lk.TableNotFound, "no table 'none' in database shop: its tables are items, orders"),
        ("shop.notes", lk.TableNotFound, "no table 'notes'"),
        ("shop.orders$files", lk.InvalidOption, "Cannot 'repairTable' for system table"),
        ("shop.orders$branch_b", lk.InvalidOption, "Cannot 'repairTable' for branch table"),
        ("sys", lk.InvalidOption, "system database"),
    ):
        with pytest.raises(kind, match=why):
            cat.repair(name)


@pytest.mark.long
def test_a_table_that_cannot_be_read_does_not_stop_the_others(cat, house):
    (house / "shop.db" / "items" / "schema" / "schema-0").write_text("{")
    told = cat.repair()
    assert done(told) == [("shop", "items", "failed"), ("shop", "orders", "registered"), ("web", "clicks", "registered")]
    assert "schema-0" in told["error"][0]
    assert "shop.items" not in cat


def test_what_is_kept_of_a_table_is_renewed(cat, house, tmp_path):
    cat.repair()
    lk.connect(house)["shop.orders"].alter(lk.set_option("snapshot.time-retained", "9 h"), lk.set_comment("ours"))
    assert done(cat.repair("shop.orders")) == [("shop", "orders", "there")]
    if cat.metastore == "hive":
        parameters = cat._names().find_entry("shop", "orders")["parameters"]
        assert (parameters["snapshot.time-retained"], parameters["comment"]) == ("9 h", "ours")
    else:
        with cat._names()._open_session() as session:
            assert ("9 h",) in session.query("SELECT property_value FROM paimon_table_properties WHERE property_key = ?", "snapshot.time-retained")


def test_a_table_that_was_copied_there_is_one_of_them(cat, house):
    cat.repair()
    shutil.copytree(house / "web.db" / "clicks", house / "shop.db" / "copied")
    assert ("shop", "copied", "registered") in done(cat.repair("shop"))
    assert cat["shop.copied"].scan().collect().to_dicts() == ROWS


def test_hive_knows_lower_case_only(house, tmp_path):
    shutil.copytree(house / "web.db", house / "Upper.db")
    shutil.copytree(house / "web.db" / "clicks", house / "web.db" / "Clicks")
    with serve(tmp_path / "default") as (uri, *_):
        told = lk.connect(house, metastore="hive", uri=uri).repair()
    failed = {row[:2]: row[3] for row in told.rows() if row[2] == "failed"}
    assert failed.keys() == {("Upper", "clicks"), ("web", "Clicks")}
    assert all("has capitals" in why for why in failed.values())
    assert {"registered", "failed"} == set(told["done"])


def test_folders_have_nothing_to_register(house):
    cat = lk.connect(house)
    for name in (None, "shop", "shop.orders"):
        with pytest.raises(lk.Unsupported, match=r"has nothing to register: without a metastore each folder with a schema is a table already"):
            cat.repair(name)
    assert Path(house).exists()
