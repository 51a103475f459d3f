"""`if_not_exists=True` from many at once: whoever loses waits for the winner and has what it made. Folders, databases of three kinds, a Hive metastore."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

import lakekit as lk
from lakekit.catalog.metastores.jdbc import JdbcMetastore
from spec_tests.differential.databases import missing, mysql, postgresql
from spec_tests.doors.hive_server import serve
from spec_tests.longer import some

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

COLUMNS = {"k": "BIGINT NOT NULL", "v": "STRING"}
WRITERS = 8
KINDS = [
    "filesystem",
    "sqlite",
    "hive",
    pytest.param("postgresql", marks=pytest.mark.long),
    pytest.param("mysql", marks=pytest.mark.long),
]


@pytest.fixture(params=KINDS)
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], lk.Catalog]]:
    kind, house = request.param, tmp_path / "house"
    house.mkdir()
    if kind == "filesystem":
        yield lambda: lk.connect(house)
    elif kind == "sqlite":
        yield lambda: lk.connect(house, metastore="jdbc", uri=f"sqlite:///{tmp_path}/catalog.db")
    elif kind == "hive":
        with serve(tmp_path / "default") as (uri, _):
            yield lambda: lk.connect(house, metastore="hive", uri=uri)
    else:
        if why := missing("postgres" if kind == "postgresql" else "mariadbd"):
            pytest.skip(why)
        with (postgresql if kind == "postgresql" else mysql)() as served:
            yield lambda: lk.connect(house, metastore="jdbc", uri=served.uri)


def at_once(connect: Callable[[], lk.Catalog], work: Callable[[lk.Catalog], object]) -> list[object]:
    """What each of the writers got, all beginning together; what it raised, where it raised."""
    start, catalogs = threading.Barrier(WRITERS), [connect() for _ in range(WRITERS)]

    def one(catalog: lk.Catalog) -> object:
        start.wait(30)
        try:
            return work(catalog)
        except Exception as wrong:  # noqa: BLE001 - what came is what the test is about
            return wrong

    with ThreadPoolExecutor(WRITERS) as pool:
        return list(pool.map(one, catalogs))


def failures(found: list[object]) -> list[object]:
    return [one for one in found if isinstance(one, BaseException)]


@pytest.mark.parametrize("rounds", some([3, 20], 1))
def test_all_have_the_database_and_the_table(rounds: int, connect: Callable[[], lk.Catalog]) -> None:
    connect().databases()
    for number in range(rounds):
        database, table = f"d{number}", f"d{number}.t"
        assert failures(at_once(connect, lambda cat, name=database: cat.create_database(name, if_not_exists=True))) == []
        found = at_once(connect, lambda cat, name=table: cat.create_table(name, COLUMNS, primary_keys=["k"], options={"bucket": 1}, if_not_exists=True))
        assert failures(found) == []
        assert len({one.location for one in found}) == 1
        found[0].upsert([{"k": 1, "v": "a"}])
        assert [one.scan().collect().height for one in found] == [1] * WRITERS


def test_without_it_one_wins(connect: Callable[[], lk.Catalog]) -> None:
    connect().create_database("d")
    found = at_once(connect, lambda cat: cat.create_table("d.t", COLUMNS, comment=str(id(cat))))  # tables of the same bytes are the same table
    assert len(failures(found)) == WRITERS - 1
    assert all(isinstance(one, lk.TableAlreadyExists) for one in failures(found))


@pytest.fixture
def sqlite(tmp_path: Path) -> Callable[[], lk.Catalog]:
    return lambda: lk.connect(tmp_path / "house", metastore="jdbc", uri=f"sqlite:///{tmp_path}/catalog.db")


def test_a_winner_that_is_slow_is_waited_for(sqlite: Callable[[], lk.Catalog], monkeypatch: pytest.MonkeyPatch) -> None:
    """The schema is there long before the row."""
    sqlite().create_database("d")
    insert, holds, never = JdbcMetastore._insert_table, threading.Event(), threading.Event()

    def slow(self: JdbcMetastore, name: object) -> None:
        holds.set()
        never.wait(0.5)
        insert(self, name)

    monkeypatch.setattr(JdbcMetastore, "_insert_table", slow)
    with ThreadPoolExecutor(1) as pool:
        winner = pool.submit(lambda: sqlite().create_table("d.t", COLUMNS))
        assert holds.wait(10)
        late = sqlite().create_table("d.t", COLUMNS, if_not_exists=True)
        assert late.location == winner.result().location
    assert sqlite().tables("d")["table"].to_list() == ["t"]


def test_a_winner_that_fails_is_followed(sqlite: Callable[[], lk.Catalog], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its schema goes again, and whoever waits makes the table."""
    sqlite().create_database("d")
    insert, holds, never = JdbcMetastore._insert_table, threading.Event(), threading.Event()

    def failing(self: JdbcMetastore, name: object) -> None:
        if not holds.is_set():
            holds.set()
            never.wait(0.3)
            raise lk.StorageFailed("the database is gone", path=None)
        insert(self, name)

    monkeypatch.setattr(JdbcMetastore, "_insert_table", failing)
    with ThreadPoolExecutor(1) as pool:
        winner = pool.submit(lambda: sqlite().create_table("d.t", COLUMNS))
        assert holds.wait(10)
        assert sqlite().create_table("d.t", COLUMNS, if_not_exists=True).schema.fields
        assert isinstance(winner.exception(), lk.StorageFailed)


def test_files_that_nobody_registers_are_told_at_once(sqlite: Callable[[], lk.Catalog], tmp_path: Path) -> None:
    cat = sqlite()
    cat.create_database("d")
    t = lk.create(tmp_path / "house/d.db/t", COLUMNS)
    os.utime(f"{t.location}/schema/schema-0", (1, 1))
    began = time.monotonic()
    with pytest.raises(lk.TableAlreadyExists):
        cat.create_table("d.t", COLUMNS, if_not_exists=True)
    assert time.monotonic() - began < 5


def test_a_view_is_made_once(sqlite: Callable[[], lk.Catalog]) -> None:
    cat = sqlite()
    cat.create_database("d")
    cat.create_table("d.t", COLUMNS)
    found = at_once(sqlite, lambda one: one.create_view("d.v", "SELECT k FROM d.t", if_not_exists=True))
    assert failures(found) == []
