"""A clone whose every call fails once in every way: there is a whole table or none, and the source is untouched. In a store without folders, a process that
dies or is interrupted may leave an empty table, and never rows that are not all of them.

RELIABILITY F1-F5, F18; I3.
"""

from __future__ import annotations

from functools import cache

import pytest

import lakekit as lk
from lakekit.errors import CommitStateUnknown, LakekitError, StorageFailed
from lakekit.maintenance import atomic_create as cloning
from lakekit.metadata import schemas, snapshots
from lakekit.metadata.table_context import TableLocation
from lakekit.model.table_paths import TablePaths
from lakekit.parallel import map_sequentially
from lakekit.storage.memory import MemoryStorage
from lakekit.table.table import Table
from spec_tests.reliability.commits import ROOT, schema
from spec_tests.reliability.faulty import DEATHS, INTERRUPTS, KINDS, Crash, FaultyStorage, FolderStorage, copy

TARGET = "house/db/u"
READS = {"read", "list", "stat", "exists", "size"}


class Foldered(FolderStorage):
    """A store whose folders move in one step."""

    def make_directory(self, path: str) -> None:
        """Folders need no making."""

    def move_directory(self, source: str, target: str) -> None:
        def do() -> None:
            if any(path.startswith(f"{target}/") for path in self.store.files):
                raise StorageFailed("directory not empty", path=target)
            for path in [path for path in self.store.files if path.startswith(f"{source}/")]:
                self.store.files[target + path.removeprefix(source)] = self.store.files.pop(path)

        self._call("move_directory", source, do)


@pytest.fixture(autouse=True)
def in_turn(monkeypatch):
    """One file after another, so that the n-th call is always the same."""
    monkeypatch.setattr(cloning, "parallel_map", lambda function, inputs, waiting: map_sequentially(function, list(inputs)))


@cache
def built() -> MemoryStorage:
    """Two schemas, vectors, statistics."""
    store = MemoryStorage()
    store.put(f"{ROOT}/schema/schema-0", schema(options={"deletion-vectors.enabled": "true", "write-only": "true", "bucket": "1"}))
    table = Table(location=ROOT, name="t", storage=store)
    table.upsert([{"k": key, "p": "a", "v": 1} for key in range(4)])
    table.compact(full=True)
    table.alter(lk.add_column("w", "INT"))
    table.upsert([{"k": 1, "p": "a", "v": 2}])
    table.compact(full=True)
    table.analyze()
    return store


def run(storage: FaultyStorage) -> None:
    ground = TableLocation(name="u", storage=storage, paths=TablePaths(root=TARGET))
    cloning.clone_table_files(Table(location=ROOT, name="t", storage=storage)._context(), ground)


@cache
def cases(kind_of_store: type[FaultyStorage]) -> list[tuple[int, str]]:
    counted = kind_of_store(copy(built()))
    run(counted)
    calls = [call for call, _ in counted.trace]
    return [(at, kind) for at, call in enumerate(calls) for kind in (*KINDS, *INTERRUPTS) if call not in READS or kind in {"error", "interrupt"}]


def rows(store: MemoryStorage, root: str) -> list[tuple]:
    return sorted(Table(location=root, name="t", storage=store).scan().collect().rows(), key=repr)


@pytest.mark.long
@pytest.mark.parametrize("store_of", [Foldered, FaultyStorage], ids=["folders", "store"])
def test_a_table_or_none(store_of):
    before = built()
    expected, seen = rows(before, ROOT), set()
    for at, kind in cases(store_of):
        store = copy(before)
        faulty = store_of(store, {at: kind})
        unknown = False
        try:
            run(faulty)
        except (Crash, KeyboardInterrupt, LakekitError) as wrong:
            unknown = isinstance(wrong, CommitStateUnknown)
        if kind == "power":
            faulty.power_loss()
        case = (at, kind, faulty.trace[at])
        assert {path: data for path, data in store.files.items() if path.startswith(f"{ROOT}/")} == before.files, case
        there = TableLocation(name="u", storage=store, paths=TablePaths(root=TARGET))
        found = "none"
        if schemas.list_ids(there):
            found = "empty" if snapshots.latest(there) is None else "whole"
        if found == "whole":
            assert rows(store, TARGET) == expected, case
            assert Table(location=TARGET, name="u", storage=store).check(deep=True).ok, case
        elif found == "none":
            assert not any(path.startswith(f"{TARGET}/snapshot/") for path in store.files), case
            run(store_of(store))
            assert rows(store, TARGET) == expected, case
        else:
            assert store_of is FaultyStorage, case
            assert kind in {*DEATHS, *INTERRUPTS} or unknown, case
        seen.add(found)
    assert seen == ({"none", "whole"} if store_of is Foldered else {"none", "whole", "empty"})


@pytest.mark.long
@pytest.mark.parametrize("store_of", [Foldered, FaultyStorage], ids=["folders", "store"])
def test_whoever_is_first_at_a_place_has_it(store_of):
    """Another clone of the same files comes to the same place between any two calls: one of them is there, whole."""
    counted = store_of(copy(built()))
    run(counted)
    expected = rows(built(), ROOT)
    late = 0
    for at in range(len(counted.trace)):
        store, refused = copy(built()), []

        def clone(storage: FaultyStorage, refused: list[str] = refused) -> None:
            try:
                run(storage)
            except StorageFailed as why:
                refused.append(why.message)

        clone(store_of(store, meanwhile={at: lambda store=store, clone=clone: clone(store_of(store))}))
        assert len(refused) == 1, "one of the two"
        assert any(word in refused[0] for word in ("at this moment", "already", "not empty"))
        late += "already" not in refused[0]
        assert rows(store, TARGET) == expected, counted.trace[at]
        assert Table(location=TARGET, name="u", storage=store).check(deep=True).ok
    assert late > len(counted.trace) / 2, "most come in while files are copied"
