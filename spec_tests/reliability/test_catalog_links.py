"""Links in warehouses, and what metastores say: what is listed, opened and dropped agree, and nothing goes but what a catalog's tables are. RELIABILITY 6."""

from __future__ import annotations

import os
import shutil
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

import lakekit as lk
from spec_tests.reliability.outside import COLUMNS, KEYED, filled, make_old, make_victim, names_and_bytes, rows

if TYPE_CHECKING:
    from pathlib import Path


# ---- B12, A2: linked tables and databases in a warehouse -------------------------------------------------------------------------------------


@pytest.fixture(params=["filesystem", "jdbc"])
def shop(request, tmp_path):
    """A catalog with a table that lies on another disk, and a link to it."""
    uri = f"jdbc:sqlite:{tmp_path}/catalog.sqlite" if request.param == "jdbc" else None
    cat = lk.connect(tmp_path / "lake", metastore=request.param, uri=uri)
    cat.create_database("shop")
    cat.create_table("shop.orders", COLUMNS, **KEYED).upsert([{"id": 1, "v": "a"}])
    (tmp_path / "disk").mkdir()
    (tmp_path / "lake" / "shop.db" / "orders").rename(tmp_path / "disk" / "orders")
    (tmp_path / "lake" / "shop.db" / "orders").symlink_to(tmp_path / "disk" / "orders")
    make_old(tmp_path / "disk")
    return cat


def test_a_linked_table_is_listed_opened_and_written(shop):
    assert "shop.orders" in shop
    assert shop.tables().rows() == [("shop", "orders", "table")]
    assert shop.sql("SHOW TABLES IN shop")["tableName" if "tableName" in shop.sql("SHOW TABLES IN shop").columns else "table"].to_list() == ["orders"]
    shop["shop.orders"].upsert([{"id": 2, "v": "b"}])
    assert rows(shop["shop.orders"]) == [(1, "a"), (2, "b")]
    with pytest.raises(lk.InvalidOption, match="is not empty"):
        shop.drop_database("shop")


def test_of_a_linked_table_only_the_link_is_dropped(shop, tmp_path):
    before = names_and_bytes(tmp_path / "disk")
    with pytest.warns(UserWarning, match=f'shop.orders was a link to "{tmp_path}/disk/orders": the link is gone'):
        shop.drop_table("shop.orders")
    assert names_and_bytes(tmp_path / "disk") == before
    assert (shop.tables().height, "shop.orders" in shop) == (0, False)
    shop.create_table("shop.orders", COLUMNS).append([{"id": 7, "v": "new"}])
    assert names_and_bytes(tmp_path / "disk") == before
    assert rows(shop["shop.orders"]) == [(7, "new")]


def test_of_a_database_with_a_linked_table_only_the_link_is_dropped(shop, tmp_path):
    before = names_and_bytes(tmp_path / "disk")
    with pytest.warns(UserWarning, match="was a link to"):
        shop.drop_database("shop", cascade=True)
    assert names_and_bytes(tmp_path / "disk") == before
    assert shop.databases() == []
    assert not os.path.lexists(tmp_path / "lake" / "shop.db")


def test_a_linked_table_gets_another_name(shop, tmp_path):
    before = names_and_bytes(tmp_path / "disk")
    shop.rename_table("shop.orders", "shop.sales")
    assert (rows(shop["shop.sales"]), names_and_bytes(tmp_path / "disk")) == ([(1, "a")], before)
    (tmp_path / "lake" / "shop.db" / "sales").unlink()
    (tmp_path / "lake" / "shop.db" / "sales").symlink_to("../../disk/orders")
    shop.create_database("web")
    with pytest.raises(lk.StorageFailed, match="make it a link to a whole path first"):
        shop.rename_table("shop.sales", "web.sales")
    assert rows(shop["shop.sales"]) == [(1, "a")]


def linked_database(cat: lk.Catalog, tmp_path: Path) -> dict[str, str]:
    if cat.metastore == "filesystem":
        (tmp_path / "lake" / "evil.db").symlink_to(tmp_path / "victim" / "shop.db")
    else:
        cat.create_database("evil")
        cat.create_table("evil.orders", COLUMNS)
        shutil.rmtree(tmp_path / "lake" / "evil.db")
        (tmp_path / "lake" / "evil.db").symlink_to(tmp_path / "victim" / "shop.db")
    return names_and_bytes(tmp_path / "victim")


@pytest.fixture
def evil(shop, tmp_path):
    filled(tmp_path / "victim" / "shop.db" / "orders")
    make_victim(tmp_path / "victim" / "shop.db")
    return shop, linked_database(shop, tmp_path)


def test_a_linked_database_is_listed_and_read_and_only_its_link_dropped(evil, tmp_path):
    cat, before = evil
    assert cat.databases() == ["evil", "shop"]
    assert cat.tables("evil")["table"].to_list() == ["orders"]
    assert len(rows(cat["evil.orders"])) == 3
    with pytest.raises(lk.InvalidOption, match="not empty"):
        cat.drop_database("evil")
    with pytest.warns(UserWarning, match='database evil was a link to ".*/victim/shop.db": the link is gone'):
        cat.drop_database("evil", cascade=True)
    assert (cat.databases(), names_and_bytes(tmp_path / "victim")) == (["shop"], before)
    assert not os.path.lexists(tmp_path / "lake" / "evil.db")


def test_nothing_is_made_moved_or_dropped_in_a_linked_database(evil, tmp_path):
    cat, before = evil
    for call in (
        lambda: cat.create_table("evil.new", COLUMNS),
        lambda: cat.rename_table("evil.orders", "evil.sales"),
        lambda: cat.rename_table("shop.orders", "evil.sales"),
        lambda: cat.clone("shop.orders", "evil.copy"),
    ):
        with pytest.raises(lk.StorageFailed, match=r'database evil is a link to ".*/victim/shop\.db"'):
            call()
    if cat.metastore == "filesystem":
        with pytest.raises(lk.StorageFailed, match="Connect to the folder above"):
            cat.drop_table("evil.orders")
    else:
        with pytest.warns(UserWarning, match="was left alone"):
            cat.drop_table("evil.orders")
    assert names_and_bytes(tmp_path / "victim") == before


def test_a_branch_folder_that_is_a_link_is_not_emptied_with_its_table(shop, tmp_path):
    shop.create_table("shop.o2", COLUMNS).append([{"id": 1, "v": "a"}])
    victim = make_victim(tmp_path / "victim" / "branch-x" / "snapshot").parent.parent
    (tmp_path / "lake" / "shop.db" / "o2" / "branch").symlink_to(victim)
    before = names_and_bytes(victim)
    shop.drop_table("shop.o2")
    assert names_and_bytes(victim) == before
    assert not os.path.lexists(tmp_path / "lake" / "shop.db" / "o2")


# ---- A4: names and places that a metastore says ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../../victim", "..", "../other.db/orders", "a/b", "x$y", "a.b", "", "bad\nname", "\\victim", "."])
def test_rows_that_are_no_names_lead_nowhere(tmp_path, name):
    cat = lk.connect(tmp_path / "lake", metastore="jdbc", uri=f"jdbc:sqlite:{tmp_path}/catalog.sqlite")
    for database in ("shop", "other"):
        cat.create_database(database)
    cat.create_table("other.orders", COLUMNS).append([{"id": 1, "v": "a"}])
    cat.create_table("shop.fine", COLUMNS)
    filled(tmp_path / "victim")
    before = names_and_bytes(tmp_path / "victim")
    with sqlite3.connect(tmp_path / "catalog.sqlite") as database:
        database.execute("INSERT INTO paimon_tables VALUES ('jdbc', 'shop', ?)", (name,))
        database.execute("INSERT INTO paimon_tables VALUES ('jdbc', '../victim', 't')")
    assert cat.tables("shop")["table"].to_list() == ["fine"]
    assert cat.databases() == ["other", "shop"]
    with pytest.warns(UserWarning, match="name no table, .*: the rows are gone, and no folder was touched"):
        cat.drop_database("shop", cascade=True)
    assert names_and_bytes(tmp_path / "victim") == before
    assert rows(cat["other.orders"]) == [(1, "a")]
    assert cat.databases() == ["other"]


def test_a_row_whose_folder_is_no_table_goes_alone(tmp_path):
    cat = lk.connect(tmp_path / "lake", metastore="jdbc", uri=f"jdbc:sqlite:{tmp_path}/catalog.sqlite")
    cat.create_database("shop")
    make_victim(tmp_path / "lake" / "shop.db" / "photos")
    with sqlite3.connect(tmp_path / "catalog.sqlite") as database:
        database.execute("INSERT INTO paimon_tables VALUES ('jdbc', 'shop', 'photos')")
    before = names_and_bytes(tmp_path / "lake")
    with pytest.warns(UserWarning, match='its folder ".*/shop.db/photos" was left alone: no table lies there'):
        cat.drop_table("shop.photos")
    assert names_and_bytes(tmp_path / "lake") == before
    assert cat.tables("shop").height == 0


@pytest.fixture
def hive(tmp_path):
    pytest.importorskip("thrift")
    from spec_tests.doors.hive_server import serve

    with serve(tmp_path / "default") as (uri, state):
        cat = lk.connect(tmp_path / "lake", metastore="hive", uri=uri)
        cat.create_database("shop")
        cat.create_table("shop.orders", COLUMNS, **KEYED).upsert([{"id": 1, "v": "a"}])
        yield cat, state


def lies_at(state: Any, place: Path) -> None:
    """Make the entry of a managed table say that it lies there."""
    entry = state.tables["shop", "orders"]
    stored = {**entry[7][1], 2: (entry[7][1][2][0], f"file:{place}")}
    state.tables["shop", "orders"] = {**entry, 7: (entry[7][0], stored)}


@pytest.mark.parametrize("what", ["no table", "a table", "a table below a link"])
def test_what_lies_where_an_entry_of_hive_says_stays(hive, tmp_path, what):
    cat, state = hive
    place = make_victim(tmp_path / "victim" / "t")
    if what != "no table":
        filled(place)
    if what == "a table below a link":
        (tmp_path / "lake" / "shop.db" / "link").symlink_to(tmp_path / "victim")
        place = tmp_path / "lake" / "shop.db" / "link" / "t"
    lies_at(state, place)
    before = names_and_bytes(tmp_path / "victim")
    with pytest.warns(UserWarning, match=f'its folder "{place}" was left alone: no table'):
        cat.drop_table("shop.orders")
    assert names_and_bytes(tmp_path / "victim") == before
    assert "shop.orders" not in cat


def test_a_table_elsewhere_keeps_its_place_when_hive_renames_it(hive, tmp_path):
    cat, state = hive
    filled(tmp_path / "victim")
    lies_at(state, tmp_path / "victim")
    before = names_and_bytes(tmp_path / "victim")
    state.alter_table_with_environment_context = lambda database, table, new, _: state.tables.update(
        {(new[2][1], new[1][1]): new}
    )  # one that moves no files, as for places that it did not choose
    cat.rename_table("shop.orders", "shop.sales")
    assert names_and_bytes(tmp_path / "victim") == before
