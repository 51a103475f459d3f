"""Ways out of a warehouse or a table that need a second look: a link in the place of a new table, a link that appears during the call, a link in the warehouse
to another table, an entry of a metastore below a link, a message that names metadata, a partition value that names another folder. RELIABILITY 6."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import lakekit as lk
from lakekit.catalog import metastore
from lakekit.storage import protocol
from lakekit.storage.protocol import OutsideRoot
from spec_tests.reliability.located import ALLOWED, EXTERNAL, set_external_paths, set_options
from spec_tests.reliability.outside import COLUMNS, KEYED, filled, make_old, make_victim, names_and_bytes, rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def victim(tmp_path):
    """A folder of somebody, with a table and an empty folder in it."""
    folder = make_victim(tmp_path / "victim")
    filled(folder / "t")
    (folder / "empty").mkdir()
    make_old(folder)
    return folder


@pytest.fixture(params=["filesystem", "jdbc"])
def cat(request, tmp_path):
    """A catalog with two databases and a table."""
    uri = f"jdbc:sqlite:{tmp_path}/catalog.sqlite" if request.param == "jdbc" else None
    found = lk.connect(tmp_path / "lake", metastore=request.param, uri=uri)
    for database in ("shop", "web"):
        found.create_database(database)
    found.create_table("shop.orders", COLUMNS, **KEYED).upsert([{"id": 1, "v": "a"}])
    return found


@pytest.fixture
def hive(tmp_path):
    pytest.importorskip("thrift")
    from spec_tests.doors.hive_server import serve

    with serve(tmp_path / "default") as (uri, state):
        found = lk.connect(tmp_path / "lake", metastore="hive", uri=uri)
        for database in ("shop", "web"):
            found.create_database(database)
        found.create_table("shop.orders", COLUMNS, **KEYED).upsert([{"id": 1, "v": "a"}])
        yield found, state


def taken_over(cat: lk.Catalog, tmp_path: Path, name: str) -> None:
    (tmp_path / "source").mkdir(exist_ok=True)
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "source" / "a.parquet")
    cat.migrate(tmp_path / "source", name)


MAKERS: dict[str, Callable[[lk.Catalog, Path, str], object]] = {
    "create": lambda cat, _, name: cat.create_table(name, COLUMNS),
    "format table": lambda cat, _, name: cat.create_format_table(name, COLUMNS, format="csv"),
    "clone": lambda cat, _, name: cat.clone("shop.orders", name),
    "migrate": taken_over,
    "rename": lambda cat, _, name: cat.rename_table("shop.orders", name),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("to", ["empty", "nothing"])
def test_no_table_is_made_where_a_link_stands(tmp_path, victim, cat, maker, to):
    (tmp_path / "lake" / "web.db").mkdir(parents=True, exist_ok=True)
    (tmp_path / "lake" / "web.db" / "new").symlink_to(victim / to)
    before = names_and_bytes(victim)
    with pytest.raises(lk.LakekitError):
        MAKERS[maker](cat, tmp_path, "web.new")
    assert names_and_bytes(victim) == before
    assert rows(cat["shop.orders"]) == [(1, "a")]


@pytest.mark.parametrize("maker", MAKERS)
def test_no_table_is_made_in_a_database_that_becomes_a_link_meanwhile(tmp_path, victim, cat, maker, monkeypatch):
    before, real, place = names_and_bytes(victim), metastore.check_own_folder, tmp_path / "lake" / "web.db"

    def swapped(storage: Any, root: str, database: str) -> None:
        real(storage, root, database)
        if database == "web" and not place.is_symlink():
            shutil.rmtree(place, ignore_errors=True)
            place.symlink_to(victim)

    monkeypatch.setattr(metastore, "check_own_folder", swapped)
    has_no_such_tables = (cat.metastore, maker) == ("jdbc", "format table")
    with pytest.raises(lk.Unsupported if has_no_such_tables else OutsideRoot, match="format" if has_no_such_tables else r'web\.db" is a link'):
        MAKERS[maker](cat, tmp_path, "web.new")
    assert names_and_bytes(victim) == before
    assert rows(cat["shop.orders"]) == [(1, "a")]


def test_a_table_that_becomes_a_link_while_it_is_dropped_leads_nowhere(tmp_path, victim, cat, monkeypatch):
    before, real, place = names_and_bytes(victim), protocol._deepest_first, tmp_path / "lake" / "shop.db" / "orders"

    def swapped(storage: Any, folder: str, without: Any) -> Any:
        if not place.is_symlink():
            place.rename(tmp_path / "was")
            place.symlink_to(victim / "t")
        return real(storage, folder, without)

    monkeypatch.setattr(protocol, "_deepest_first", swapped)
    with suppress(lk.LakekitError):
        cat.drop_table("shop.orders")
    assert place.is_symlink() or not os.path.lexists(place)  # it was swapped
    assert (tmp_path / "was").exists()
    assert names_and_bytes(victim) == before


# ---- Hive ------------------------------------------------------------------------------------------------------------------------------------


def test_hive_makes_no_table_where_a_link_stands(tmp_path, victim, hive):
    cat, _ = hive
    (tmp_path / "lake" / "web.db" / "new").symlink_to(victim / "empty")
    before = names_and_bytes(victim)
    for maker in ("create", "clone", "migrate"):
        with pytest.raises(lk.LakekitError):
            MAKERS[maker](cat, tmp_path, "web.new")
        assert names_and_bytes(victim) == before
    (tmp_path / "lake" / "web.db" / "new").unlink()
    MAKERS["clone"](cat, tmp_path, "web.new")
    assert rows(cat["web.new"]) == [(1, "a")]


def test_hive_moves_no_table_that_lies_below_a_link(tmp_path, victim, hive):
    cat, state = hive
    (tmp_path / "lake" / "shop.db" / "link").symlink_to(victim)
    entry = state.tables["shop", "orders"]
    stored = {**entry[7][1], 2: (entry[7][1][2][0], f"file:{tmp_path}/lake/shop.db/link/t")}
    state.tables["shop", "orders"] = {**entry, 7: (entry[7][0], stored)}
    state.alter_table_with_environment_context = lambda database, table, new, _: state.tables.update({(new[2][1], new[1][1]): new})
    before = names_and_bytes(victim)
    with pytest.raises(OutsideRoot, match=r'shop\.db/link" is a link'):
        cat.rename_table("shop.orders", "shop.sales")
    assert names_and_bytes(victim) == before


# ---- the warehouse beside its databases ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["file", "folder", "folder below"])
@pytest.mark.parametrize("is_allowed", [False, True])
def test_a_link_in_the_warehouse_leads_a_format_table_to_no_other_table(tmp_path, shape, is_allowed):
    cat = lk.connect(tmp_path / "lake")
    for database in ("shop", "other"):
        cat.create_database(database)
    cat.create_table("other.secret", {"line": "STRING"}, options={"file.format": "parquet"}).append([{"line": "secret"}])
    file = next((tmp_path / "lake" / "other.db" / "secret").rglob("*.parquet"))
    inbox = tmp_path / "lake" / "inbox"
    place = inbox / "sub" if shape == "folder below" else inbox
    inbox.parent.mkdir(exist_ok=True)
    if shape == "folder":
        inbox.symlink_to(file.parent)
    else:
        inbox.mkdir()
        (inbox / ("x.parquet" if shape == "file" else "sub")).symlink_to(file if shape == "file" else file.parent)
    cat.create_format_table("shop.f", {"line": "STRING"}, format="parquet")
    set_options(tmp_path / "lake" / "shop.db" / "f", {"path": str(place)})
    if is_allowed:  # the caller's word holds for all of it
        cat = lk.connect(tmp_path / "lake", options={ALLOWED: f"{tmp_path}/lake"})
        assert cat["shop.f"].scan().collect().rows() == [("secret",)]
    else:
        with pytest.raises(OutsideRoot, match="is a link"):
            cat["shop.f"].scan().collect()


def test_a_link_in_the_warehouse_leads_a_manifest_to_no_other_table(tmp_path):
    cat = lk.connect(tmp_path / "lake")
    for database in ("shop", "other"):
        cat.create_database(database)
    cat.create_table("other.secret", COLUMNS, options={"bucket": "-1"}).append([{"id": 1, "v": "sec"}])
    file = next((tmp_path / "lake" / "other.db" / "secret").rglob("*.parquet"))
    made = tmp_path / "made"
    lk.create(made, COLUMNS, options={"bucket": "-1"}).append([{"id": 2, "v": "own"}])
    own = next(made.rglob("*.parquet"))
    shutil.copy(file, file.parent / own.name)
    own.unlink()
    (tmp_path / "lake" / "ext").symlink_to(file.parent)
    set_options(made, {EXTERNAL: "file:///"})
    set_external_paths(made, lambda name: f"{tmp_path}/lake/ext/{name}")
    made.rename(tmp_path / "lake" / "shop.db" / "t")
    with pytest.raises(OutsideRoot, match='lake/ext" is a link'):
        cat["shop.t"].scan().collect()


# ---- messages --------------------------------------------------------------------------------------------------------------------------------


def message_of(table: lk.Table, **changes: Any) -> Any:
    """A message of a writer whose first new file says something else of itself."""
    with table.writer() as writer:
        writer.write([{"id": 100, "v": "new"}])
        [message] = writer.prepare()
    return replace(message, new_files=(replace(message.new_files[0], **changes), *message.new_files[1:]))


@pytest.mark.parametrize("name", ["snapshot/snapshot-3", "schema/schema-0", "snapshot/LATEST", "tag/tag-x", "branch/branch-b/schema/schema-0", "manifest/*"])
def test_metadata_that_a_message_names_as_a_file_elsewhere_stays(tmp_path, name):
    table = filled(tmp_path / "t")
    table.create_tag("x")
    table.create_branch("b")
    path = next((tmp_path / "t").glob(name))
    message = message_of(table, name=path.name, external_path=str(path))
    before = names_and_bytes(tmp_path / "t")
    with pytest.raises(lk.Corrupt, match="_EXTERNAL_PATH"):
        lk.open(tmp_path / "t").abort([message])
    assert names_and_bytes(tmp_path / "t") == before


def test_a_place_that_is_allowed_is_no_file_itself(tmp_path, victim):
    (tmp_path / "ext").symlink_to(victim)
    message = message_of(filled(tmp_path / "t"), name="ext", external_path=str(tmp_path / "ext"))
    with pytest.raises(lk.Corrupt, match="_EXTERNAL_PATH"):
        lk.open(tmp_path / "t", options={ALLOWED: str(tmp_path / "ext")}).abort([message])
    assert os.path.lexists(tmp_path / "ext")


# ---- partitions whose folders are values alone -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["..", ".", ".x", "_x", "_schema", "...", "_"])
@pytest.mark.parametrize("verb", ["append", "overwrite"])
def test_a_value_that_is_no_folder_of_its_own_is_refused(tmp_path, value, verb):
    cat = lk.connect(tmp_path / "lake")
    cat.create_database("db")
    table = cat.create_format_table(
        "db.f", {"k": "STRING", "p": "STRING"}, format="csv", partition_keys=["p"], options={"format-table.partition-path-only-value": "true"}
    )
    before = names_and_bytes(tmp_path)
    with pytest.raises(lk.ValueOutOfRange, match="partition-path-only-value") as refused:
        getattr(table, verb)([{"k": "0", "p": "fine"}, {"k": "1", "p": value}])
    assert refused.value.column == "p"
    assert {name: told for name, told in names_and_bytes(tmp_path).items() if told != "folder"} == {n: t for n, t in before.items() if t != "folder"}
    table.append([{"k": "2", "p": None}, {"k": "3", "p": "a_."}])
    assert sorted(table.scan().collect().rows()) == [("2", None), ("3", "a_.")]


@pytest.mark.parametrize("name", ["..", "."])
def test_a_name_of_nulls_that_is_no_folder_is_refused(tmp_path, name):
    cat = lk.connect(tmp_path / "lake")
    cat.create_database("db")
    options = {"format-table.partition-path-only-value": "true", "partition.default-name": name}
    table = cat.create_format_table("db.f", {"k": "STRING", "p": "STRING"}, format="csv", partition_keys=["p"], options=options)
    with pytest.raises(lk.ValueOutOfRange, match="partition-path-only-value"):
        table.append([{"k": "1", "p": None}])
