"""A migration whose every call fails once in every way: there is a whole table or none, and no row is lost. With `move` a file leaves its source only when the
table is there, whole; what dies between leaves rows at both places. In a store without folders a process that dies may leave an empty table.

RELIABILITY F1-F5, F18; I3.
"""

from __future__ import annotations

import io
from functools import cache

import polars as pl
import pytest

from lakekit.catalog import migrate
from lakekit.catalog.catalog import Catalog
from lakekit.errors import CommitStateUnknown, LakekitError
from lakekit.format_table import foreign_files
from lakekit.maintenance import migrate as migration
from lakekit.metadata import schemas, snapshots
from lakekit.metadata.table_context import TableLocation
from lakekit.model.table_paths import TablePaths
from lakekit.parallel import map_sequentially
from lakekit.storage.memory import MemoryStorage
from lakekit.table.table import Table
from spec_tests.reliability.faulty import DEATHS, INTERRUPTS, KINDS, Crash, FaultyStorage, copy
from spec_tests.reliability.test_clone_crashes import Foldered

SOURCE, TARGET = "in", "house/db.db/t"
READS = {"read", "list", "stat", "exists", "size"}
FILES = {"in/p=1/a.parquet": [1, 2], "in/p=2/b.parquet": [3], "in/p=2/c.avro": [4, 5]}


class Linking(Foldered):
    """A disk: a file may have two names, of which one goes when the other has a table."""

    def hard_link(self, path: str, to: Linking, target: str) -> bool:
        def do() -> bool:
            to.store.files[target] = self.store.files[path]
            return True

        done: bool = self._call("link", path, do)
        return done


@pytest.fixture(autouse=True)
def in_turn(monkeypatch):
    """One file after another, so that the n-th call is always the same."""
    for module in (migration, migrate, foreign_files):
        monkeypatch.setattr(module, "parallel_map", lambda function, inputs, waiting=False: map_sequentially(function, list(inputs)))


@cache
def built() -> MemoryStorage:
    store = MemoryStorage()
    store.put("house/db.db/.folder", b"")
    for path, keys in FILES.items():
        sink = io.BytesIO()
        frame = pl.DataFrame({"k": keys})
        frame.write_avro(sink) if path.endswith("avro") else frame.write_parquet(sink)
        store.put(path, sink.getvalue())
    store.put("in/_SUCCESS", b"")
    return store


def run(storage: FaultyStorage, *, move: bool) -> None:
    Catalog(warehouse="house", storage=storage).migrate(SOURCE, "db.t", move=move)


@cache
def cases(kind_of_store: type[FaultyStorage], *, move: bool) -> list[tuple[int, str]]:
    counted = kind_of_store(copy(built()))
    run(counted, move=move)
    calls = [call for call, _ in counted.trace]
    return [(at, kind) for at, call in enumerate(calls) for kind in (*KINDS, *INTERRUPTS) if call not in READS or kind in {"error", "interrupt"}]


def rows(store: MemoryStorage) -> list[tuple]:
    return sorted(Table(location=TARGET, name="t", storage=store).scan().collect().rows())


def source_of(store: MemoryStorage) -> dict[str, object]:
    return {path: data for path, data in store.files.items() if path.startswith("in/")}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:db.t has all rows")
@pytest.mark.parametrize("move", [False, True], ids=["copied", "moved"])
@pytest.mark.parametrize("store_of", [Foldered, FaultyStorage, Linking], ids=["folders", "store", "links"])
def test_a_table_or_none_and_no_row_lost(store_of, move):
    before = built()
    expected = sorted((key, int(path[5])) for path, keys in FILES.items() for key in keys)
    seen, halves = set(), 0
    for at, kind in cases(store_of, move=move):
        store = copy(before)
        faulty = store_of(store, {at: kind})
        unknown = failed = False
        try:
            run(faulty, move=move)
        except (Crash, KeyboardInterrupt, LakekitError) as wrong:
            unknown, failed = isinstance(wrong, CommitStateUnknown), True
        if kind == "power":
            faulty.power_loss()
        case = (at, kind, faulty.trace[at])
        there = TableLocation(name="t", storage=store, paths=TablePaths(root=TARGET))
        found = "none"
        if schemas.list_ids(there):
            found = "empty" if snapshots.latest(there) is None else "whole"
        left = source_of(store)
        assert left.items() <= source_of(before).items(), case
        if found == "whole":
            assert rows(store) == expected, case
            assert Table(location=TARGET, name="t", storage=store).check(deep=True).ok, case
            assert move or left == source_of(before), case
            assert failed or not move or left == {} or kind in {"error", "ambiguous", "unknown", "unknown_done"}, case
            halves += 0 < len(left) < len(source_of(before))
        else:
            assert left == source_of(before), case
            assert failed, case
        if found == "none":
            assert kind in DEATHS or not [path for path in store.files if path.startswith(f"{TARGET}/") and "/bucket-" in path] or unknown, case
            run(store_of(store), move=move)
            assert rows(store) == expected, case
        elif found == "empty":
            assert store_of is FaultyStorage, case
            assert kind in {*DEATHS, *INTERRUPTS} or unknown, case
        seen.add(found)
    assert seen == ({"none", "whole", "empty"} if store_of is FaultyStorage else {"none", "whole"})
    assert bool(halves) == move, "some died between two files"


@pytest.mark.long
@pytest.mark.parametrize("move", [False, True])
def test_whoever_is_first_at_a_place_has_it(move):
    """Another migration to the same name comes between any two calls: one of them is there, whole, and the other one took nothing away."""
    counted = Foldered(copy(built()))
    run(counted, move=move)
    for at in range(len(counted.trace)):
        store, refused = copy(built()), []

        def take(storage: FaultyStorage, refused: list[Exception] = refused) -> None:
            try:
                run(storage, move=move)
            except LakekitError as why:
                refused.append(why)

        take(Foldered(store, meanwhile={at: lambda store=store, take=take: take(Foldered(store))}))
        assert len(refused) <= 1
        assert len(rows(store)) == 5, counted.trace[at]
        assert Table(location=TARGET, name="t", storage=store).check(deep=True).ok
