"""Every call of every chore fails once in every way: no root is left without its files, each is as it was or as it is to be, and the chore done again is done.

RELIABILITY checks 2 and 3; F1-F5, F18; I3, I4, I8; B3, B4, B24. Drops of tables are in `test_catalog_crashes.py`, overwrites in `test_row_crashes.py`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import pytest

import lakekit as lk
from lakekit.errors import AlreadyExists, LakekitError, NotFound
from lakekit.maintenance import reachability
from lakekit.metadata import schemas, snapshots
from lakekit.storage.memory import MemoryStorage
from lakekit.table.table import Table
from spec_tests.longer import some
from spec_tests.reliability.commits import ROOT, schema
from spec_tests.reliability.faulty import DEATHS, INTERRUPTS, KINDS, Crash, FaultyStorage, copy
from spec_tests.reliability.kept import named, of_root

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.storage.protocol import Storage

NEEDED: dict[tuple[str, bytes], frozenset[str]] = {}
NAMED: dict[bytes, frozenset[str]] = {}
READS = {"read", "list", "stat", "exists", "size"}
FAR = {"retain_min": 1, "retain_max": 1, "older_than": "9999-01-01"}
CHORES: dict[str, Callable[[Table], object]] = {
    "a tag is made": lambda t: t.create_tag("new", at=6),
    "a tag is moved": lambda t: t.replace_tag("old"),
    "a tag is renamed": lambda t: t.rename_tag("old", "older"),
    "a tag is deleted": lambda t: t.delete_tag("old"),
    "a branch is made": lambda t: t.create_branch("c", tag="old"),
    "an empty branch is made": lambda t: t.create_branch("c"),
    "a branch is renamed": lambda t: t.rename_branch("b", "c"),
    "a branch is deleted": lambda t: t.delete_branch("b"),
    "main goes forward": lambda t: t.fast_forward("b"),
    "back to a snapshot": lambda t: t.rollback(6),
    "back to a tag of an expired snapshot": lambda t: t.rollback("old"),
    "snapshots expire": lambda t: t.expire_snapshots(**FAR),
    "snapshots of a branch expire": lambda t: t.branch("b").expire_snapshots(**FAR),
    "changelogs expire": lambda t: t.expire_changelogs(retain_min=1, older_than="9999-01-01"),
    "all changelogs go": lambda t: t.expire_changelogs(delete_all=True),
    "tags expire": lambda t: t.expire_tags(older_than="9999-01-01"),
    "a consumer goes back": lambda t: t.reset_consumer("c", next_snapshot=5),
    "a consumer begins": lambda t: t.reset_consumer("d", next_snapshot=7),
    "a consumer is forgotten": lambda t: t.reset_consumer("c"),
    "consumers expire": lambda t: t.expire_consumers(including=".*"),
    "orphans go": lambda t: t.remove_orphans(dry_run=False, older_than=timedelta(0)),
    "back in a branch": lambda t: t.branch("b").rollback(5),
}
BACK = frozenset(name for name in CHORES if name.startswith("back") or "forward" in name)
"""Chores of check 3; the others are those of check 2."""
TWICE = frozenset({"snapshots expire", "snapshots of a branch expire", "a tag is deleted", "a tag is moved", "tags expire", "orphans go"})
"""Chores that delete what snapshots alone need: a table without changelogs of its own is another case for them."""
EACH = [(name, producer) for name in CHORES for producer in (("input", "none") if name in TWICE else ("input",))]


def table(storage: Storage) -> Table:
    return Table(location=ROOT, name="t", storage=storage)


@cache
def built(producer: str) -> MemoryStorage:
    """A table with snapshots 5 to 8, a tag of snapshot 2 that expired, long-lived changelogs, a branch of its own way, a consumer, and orphans."""
    store = MemoryStorage()
    options = {"changelog-producer": producer, "changelog.num-retained.min": "20", "write-only": "true", "bucket": "1"}
    store.put(f"{ROOT}/schema/schema-0", schema(options=options))
    t = table(store)

    def write(of: Table, *keys: int) -> None:
        of.upsert([{"k": key, "p": "a", "v": 1} for key in keys])

    for key in (1, 2):
        write(t, key)
    t.create_tag("old", at=2)
    t.create_tag("twin", at=2)
    t.delete_tag("twin")
    t.compact(full=True)
    write(t, 3)
    t.create_tag("base", at=4)
    t.create_branch("b", tag="base")
    write(t.branch("b"), 4)
    t.branch("b").compact(full=True)
    t.delete_tag("base")
    write(t, 5)
    t.expire_snapshots(**FAR, max_deletes=4)
    t.compact(full=True)
    write(t, 6)
    t.alter(lk.add_column("extra", "INT"))
    write(t, 7)
    t.reset_consumer("c", next_snapshot=6)
    for lost in ("manifest/manifest-lost-0", "p=a/bucket-0/data-lost-0.parquet", "snapshot/.snapshot-9.tmp", "statistics/stat-lost-0"):
        store.put(f"{ROOT}/{lost}", b"left by a writer that died")
    return store


def state(store: MemoryStorage) -> dict[str, bytes]:
    """The roots, schemas and consumers."""
    parts = ("/snapshot/snapshot-", "/tag/tag-", "/changelog/changelog-", "/schema/schema-", "/consumer/consumer-")
    return {path: data for path, (data, _) in store.files.items() if any(part in path for part in parts)}


def files_of(store: MemoryStorage) -> frozenset[tuple[str, bytes]]:
    return frozenset((path, data) for path, (data, _) in store.files.items())


def check_roots(store: MemoryStorage) -> set[str]:
    """No root lacks a file; the files that roots need. A snapshot that a tag brought back, by a rollback or a branch, may have lost its changelog."""
    handle = table(store)._context()
    wanted: set[str] = set()
    every = reachability.read_all_roots(handle)
    oldest, tagged = reachability.oldest_snapshot_paths(every), [root.snapshot for root in every if root.kind == "tag"]
    for found in every:
        root = replace(found, kind="tag") if found.path in oldest and found.snapshot in tagged else found
        key = root.kind, root.snapshot.to_json()
        if key not in NEEDED:  # files never change, so it is the same in every copy
            NEEDED[key] = frozenset(of_root(handle, root))
        assert NEEDED[key] <= store.files.keys(), root.path
        wanted |= NEEDED[key]
    return wanted


def check(store: MemoryStorage, allowed: dict[str, set[bytes | None]], *, gap: bool) -> None:
    check_roots(store)
    handle = table(store)._context()
    for path, data in state(store).items():
        assert data in allowed[path], path
    for branch in reachability.list_branch_names(handle):
        of = reachability.on_branch(handle, branch)
        numbers = snapshots.ids(of)
        assert gap or numbers == list(range(numbers[0], numbers[-1] + 1)) if numbers else True, (branch, numbers)
        latest = snapshots.latest(of)
        assert (latest is None) == (not numbers)
        if latest is not None and schemas.list_ids(of):
            assert latest.schema_id in schemas.list_ids(of) or branch != "main"
            assert gap or latest.id == numbers[-1]


def check_clean(store: MemoryStorage) -> None:
    """Whatever died has left nothing that cleaning does not find: what is there then is what roots need, or name at least (I8)."""
    table(store).remove_orphans(dry_run=False, older_than=timedelta(0), force=True)
    kept = {path for path in store.files if not re.search(r"/(snapshot|tag|changelog|schema|consumer)/[^.]", path)}
    wanted, handle = check_roots(store), table(store)._context()
    assert wanted <= kept
    beside = {path.rpartition("/")[2] for path in kept - wanted}
    every = reachability.read_all_roots(handle) if beside else []
    for root in every:
        beside -= NAMED.get(root.snapshot.to_json(), frozenset())
    for root in every if beside else ():  # what a list names that had gone when it was asked before, or had not come back yet
        NAMED[root.snapshot.to_json()] = frozenset(named(handle, root))
        beside -= NAMED[root.snapshot.to_json()]
    assert not beside


# ---- one that fails ----------------------------------------------------------------------------------------------------------------------------------------


class Probed(NamedTuple):
    """A chore that nothing disturbs: its calls, the files it leaves, and what each root and schema may be on the way."""

    trace: list[tuple[str, str]]
    done: MemoryStorage
    allowed: dict[str, set[bytes | None]]


@cache
def probed(name: str, producer: str) -> Probed:
    before = built(producer)
    done = copy(before)
    counted = FaultyStorage(done)
    CHORES[name](table(counted))
    first, last = state(before), state(done)
    allowed: dict[str, set[bytes | None]] = {path: {first.get(path), last.get(path)} for path in first.keys() | last.keys()}
    if "forward" in name or "renamed" in name:  # on the way a file may be the other branch's, or its tag may have both names
        allowed = {path: known | set(first.values()) for path, known in allowed.items()}
    return Probed(counted.trace, done, allowed)


def cases(name: str, producer: str) -> list[tuple[int, str]]:
    """The calls that fail, and how."""
    return [(at, kind) for at, (call, _) in enumerate(probed(name, producer).trace) for kind in (*KINDS, *INTERRUPTS) if tells(call, kind)]


def tells(call: str, kind: str) -> bool:
    """Whether a fault of that kind is not the same as another one: a death before a call is one after the call before."""
    if call in READS:
        return kind in {"error", "interrupt"}
    if kind.startswith("unknown"):
        return call == "put_if_absent"
    return kind != "crash" and (kind != "torn" or call != "delete")


def failing(name: str, producer: str, at: int, kind: str, judged: set[frozenset[tuple[str, bytes]]]) -> None:
    """A chore in which one call fails, looked at, and done again by a fresh process. `judged`: what was seen to be right already."""
    chore, (trace, done, allowed) = CHORES[name], probed(name, producer)
    gap = name == "back to a tag of an expired snapshot"
    store = copy(built(producer))
    faulty = FaultyStorage(store, {at: kind})
    try:
        chore(table(faulty))
    except Crash:
        assert kind in DEATHS
    except KeyboardInterrupt:
        assert kind in INTERRUPTS
    except LakekitError:
        assert kind not in DEATHS
    if kind == "power":
        faulty.power_loss()
    found = files_of(store)
    if found in judged:
        return
    judged.add(found)
    check(store, allowed, gap=gap)
    for _ in range(2):
        try:
            chore(table(store))
            break
        except AlreadyExists:  # half of it is there
            again(name, store)
        except NotFound:
            break
    check(store, allowed, gap=False)
    assert state(store) == state(done), (name, at, kind, trace[at])
    check_clean(store)


@pytest.mark.long
@pytest.mark.parametrize("name", list(CHORES)[::4])
def test_some_calls_of_chores_fail(name):
    judged: set[frozenset[tuple[str, bytes]]] = set()
    for at, kind in cases(name, "input")[:: 3 if len(cases(name, "input")) < 60 else 23]:
        failing(name, "input", at, kind, judged)
    assert judged


@pytest.mark.long
@pytest.mark.parametrize(("name", "producer"), EACH)
def test_chores_that_are_stopped_lose_nothing(name, producer):
    judged: set[frozenset[tuple[str, bytes]]] = set()
    for at, kind in cases(name, producer):
        failing(name, producer, at, kind, judged)
    assert len(judged) > 1 or len(cases(name, producer)) < 12


@pytest.mark.long
def test_the_cases_of_check_2_are_as_many_as_were_promised():
    assert sum(len(cases(*one)) for one in EACH if one[0] not in BACK) >= 1200


def again(name: str, store: MemoryStorage) -> None:
    """What the error says to do."""
    t = table(store)
    if "branch" in name:
        t.delete_branch("c")
    else:
        t.delete_tag("older" if "renamed" in name else "new")


# ---- two at once -----------------------------------------------------------------------------------------------------------------------------------------

PAIRS = (
    ("a tag is made", "snapshots expire"),
    ("a tag is moved", "snapshots expire"),
    ("a branch is made", "a tag is deleted"),
    ("a tag is renamed", "snapshots expire"),
    ("a branch is renamed", "snapshots expire"),
    ("a branch is renamed", "a tag is deleted"),
    ("snapshots expire", "snapshots of a branch expire"),
    ("snapshots expire", "snapshots expire"),
    ("a tag is deleted", "a tag is deleted"),
    ("back to a tag of an expired snapshot", "a tag is deleted"),
)


@pytest.mark.long
@pytest.mark.parametrize("pair", some([*PAIRS, *((second, first) for first, second in PAIRS)], 9))
def test_two_chores_at_once_leave_every_root_its_files(pair):
    """The second chore is done as a whole before each call of the first one."""
    first, second = (CHORES[name] for name in pair)
    counted = FaultyStorage(copy(built("input")))
    first(table(counted))
    changing = {at for at, (call, _) in enumerate(counted.trace) if call not in READS}
    for at in range(len(counted.trace)):
        if not (at in changing or at - 1 in changing or at % 25 == 0):
            continue
        store = copy(built("input"))

        def meanwhile(store: MemoryStorage = store) -> None:
            with suppress(LakekitError):
                second(table(store))

        with suppress(LakekitError):
            first(table(FaultyStorage(store, meanwhile={at: meanwhile})))
        check_roots(store)
