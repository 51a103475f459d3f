"""Every call of what catalogs do fails once in every way: the other tables are as they were, no table is seen half there, and what is done again is done.

RELIABILITY check 3; F1-F5, F18; I4. A table that is being dropped is whole, or empty, until it is gone.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

import lakekit as lk
from lakekit import parallel
from lakekit.catalog.catalog import Catalog
from lakekit.errors import AlreadyExists, LakekitError, NotFound
from lakekit.storage.memory import MemoryStorage
from spec_tests.reliability.faulty import DEATHS, INTERRUPTS, KINDS, Crash, FolderStorage, copy
from spec_tests.reliability.kept import needed_of
from spec_tests.reliability.rows import COLUMNS, FIRST, KEY, SECOND
from spec_tests.reliability.test_care_crashes import BACK, EACH, cases as cases_of_chores

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.storage.protocol import Storage

READS = {"read", "list", "stat", "exists", "size"}
CHANGES: dict[str, Callable[[Catalog], object]] = {
    "a database is made": lambda cat: cat.create_database("new"),
    "a database is dropped": lambda cat: cat.drop_database("d", cascade=True),
    "a table is made": lambda cat: cat.create_table("d.new", COLUMNS, **KEY, options={"bucket": "1"}),
    "a table is altered": lambda cat: cat.table("d.t").alter(lk.add_column("w", "INT")),
    "a table is dropped": lambda cat: cat.drop_table("d.t"),
    "a table is renamed": lambda cat: cat.rename_table("d.t", "e.u"),
}


class Disk(FolderStorage):
    """A storage with folders: one that is made holds a file that nobody sees, and one is moved in one step."""

    def make_directory(self, path: str) -> None:
        self._call("make_directory", path, lambda: self.store.put(f"{path}/.folder", b""))

    def move_directory(self, source: str, target: str) -> None:
        def do() -> None:
            for path in [path for path in self.store.files if path.startswith(f"{source}/")]:
                self.store.files[target + path.removeprefix(source)] = self.store.files.pop(path)

        self._call("move_directory", source, do)


@pytest.fixture(autouse=True)
def one_after_another(monkeypatch):
    monkeypatch.setattr(parallel, "is_pool_thread", lambda: True)


def catalog(storage: Storage) -> Catalog:
    return Catalog(warehouse="/w", storage=storage)


@cache
def built() -> MemoryStorage:
    """Two databases; in one of them two tables, of which the first has a branch, and tags of a snapshot that expired."""
    store = MemoryStorage()
    cat = catalog(Disk(store))
    for name in ("d", "e"):
        cat.create_database(name)
    for name in ("d.t", "d.other"):
        t = cat.create_table(name, COLUMNS, **KEY, options={"bucket": "1", "changelog-producer": "input"})
        for rows in (FIRST, SECOND):
            t.upsert(rows)
    t = cat.table("d.t")
    t.create_tag("v1", at=1)
    t.create_branch("b", tag="v1")
    t.branch("b").upsert(SECOND)
    t.expire_snapshots(retain_min=1, retain_max=1, older_than="9999-01-01")
    return store


def seen(cat: Catalog, name: str) -> list[Any]:
    return sorted(cat.table(name).scan().collect().rows())


@cache
def probed(name: str) -> Disk:
    probe = Disk(copy(built()))
    CHANGES[name](catalog(probe))
    return probe


def cases(name: str) -> list[tuple[int, str]]:
    """The calls that fail, and how; reads in two ways."""
    ways = (*KINDS, *INTERRUPTS)
    return [(at, kind) for at, (call, _) in enumerate(probed(name).trace) for kind in (("error", "interrupt") if call in READS else ways)]


def failing(name: str, at: int, kind: str, judged: set[frozenset[tuple[str, bytes]]]) -> None:
    """A change in which one call fails, looked at, and done again. `judged`: what was seen to be right already."""
    change, store = CHANGES[name], copy(built())
    storage = Disk(store, {at: kind})
    try:
        change(catalog(storage))
    except Crash:
        assert kind in DEATHS
    except KeyboardInterrupt:
        assert kind in INTERRUPTS
    except LakekitError:
        assert kind not in DEATHS
    if kind == "power":
        storage.power_loss()
    found = frozenset((path, data) for path, (data, _) in store.files.items())
    if found in judged:
        return
    judged.add(found)
    where = (name, at, kind, probed(name).trace[at])
    check(store, where)
    with suppress(AlreadyExists, NotFound):  # it is there, or gone, already
        change(catalog(Disk(store)))
    check(store, where)
    left = {path for path in store.files if not path.endswith(".tmp")}
    assert left == set(probed(name).store.files), where


def check(store: MemoryStorage, where: object) -> None:
    cat = catalog(Disk(store))
    for database in cat.databases():
        for table in cat.tables(database)["table"].to_list():
            t = cat.table(f"{database}.{table}")
            assert set(needed_of(t._context())) <= store.files.keys(), (table, where)
            rows = [row[:3] for row in seen(cat, f"{database}.{table}")]
            assert rows in ([], old()), (table, where)
            assert rows or table == "new" or "dropped" in str(where), (table, where)
    if "a database is dropped" not in str(where):
        assert seen(cat, "d.other") == old(), where


@cache
def old() -> list[Any]:
    return seen(catalog(Disk(built())), "d.t")


@pytest.mark.long
@pytest.mark.parametrize("name", CHANGES)
def test_some_calls_of_catalogs_fail(name):
    judged: set[frozenset[tuple[str, bytes]]] = set()
    for at, kind in cases(name)[:: 1 + len(cases(name)) // 12]:
        failing(name, at, kind, judged)
    assert judged


@pytest.mark.long
@pytest.mark.parametrize("name", CHANGES)
def test_what_catalogs_do_is_done_or_not(name):
    judged: set[frozenset[tuple[str, bytes]]] = set()
    for at, kind in cases(name):
        failing(name, at, kind, judged)
    assert len(judged) > 1


@pytest.mark.long
def test_the_cases_of_check_3_are_as_many_as_were_promised():
    """Overwrites and drops of partitions, which `test_row_crashes.py` has, are not even counted."""
    assert sum(map(len, map(cases, CHANGES))) + sum(len(cases_of_chores(*one)) for one in EACH if one[0] in BACK) >= 1200
