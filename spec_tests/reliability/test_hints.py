"""The newest and oldest snapshot, and that of a time, whatever hints, listings, files of others and clocks say.

RELIABILITY check 26; F10-F12; D7; B24. Hints that do not change while they are read are in `laws/test_meta.py`, writers that meet them in `test_known_bugs.py`.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING

import pytest

import lakekit as lk
from lakekit.maintenance import orphan_files
from lakekit.metadata import refs, schemas, snapshots
from lakekit.metadata.table_context import open_context
from lakekit.model.snapshot import Snapshot
from lakekit.runtime import LRUCache, Runtime, now_ms
from lakekit.storage.memory import MemoryStorage
from lakekit.table.table import Table
from spec_tests.laws.test_meta import schema_bytes, snapshot_bytes
from spec_tests.longer import some
from spec_tests.reliability.commits import ROOT, commit, message, opened, schema
from spec_tests.reliability.faulty import FaultyStorage, copy
from spec_tests.reliability.s3_server import S3Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from lakekit.metadata.table_context import TableContext

DAY_MS = 86_400_000
LATEST, EARLIEST = f"{ROOT}/snapshot/LATEST", f"{ROOT}/snapshot/EARLIEST"


@cache
def built() -> MemoryStorage:
    """A table of nothing but metadata, with snapshots 3 to 8 of 8."""
    store = MemoryStorage()
    store.put(f"{ROOT}/schema/schema-0", schema())
    for turn in range(8):
        commit(opened(store), [message(new=[f"f{turn}"])], turn)
    table(store).expire_snapshots(retain_max=6, retain_min=1)
    return store


def table(store: MemoryStorage) -> Table:
    return Table(location=ROOT, name="t", storage=store)


# ---- hints that change between two calls -------------------------------------------------------------------------------------------------------------------

HINTS: list[bytes | None] = [None, b"", b"abc", b"-1", b"0", b"9" * 20, b"8\n", b"\xef\xbb\xbf8", b"1", b"2", b"3", b"7", b"8", b"9", b"99"]


def committed(store: MemoryStorage) -> None:
    commit(opened(store), [message(new=["g"])], 99, user="other")


def expired(store: MemoryStorage) -> None:
    table(store).expire_snapshots(retain_max=1, retain_min=1)


def rolled_back(store: MemoryStorage) -> None:
    table(store).rollback(5)


def late(store: MemoryStorage) -> None:
    """A writer that was slow says what was true long ago."""
    store.put(LATEST, b"3")
    store.put(EARLIEST, b"1")


MEANWHILE: dict[Callable[[MemoryStorage], None], tuple[int, int]] = {committed: (9, 3), expired: (8, 8), rolled_back: (5, 3), late: (8, 3)}
"""What others do, and the newest and oldest snapshot after it."""


@pytest.mark.long
@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_b24_hints_that_change_while_they_are_read(meanwhile: Callable[[MemoryStorage], None]):
    newest, oldest = MEANWHILE[meanwhile]
    for hint in HINTS:
        start = copy(built())
        start.delete([LATEST])
        if hint is not None:
            start.put(LATEST, hint)
        probe = FaultyStorage(start)
        begun = len(opened(probe).storage.trace)
        assert ends(opened(probe)) == (8, 3)
        for at in range(begun, len(probe.trace) - begun):
            store = copy(start)
            faulty = FaultyStorage(store, meanwhile={at: lambda store=store: meanwhile(store)})
            last, first = ends(opened(faulty))
            assert (last in (8, newest), first in (3, oldest)) == (True, True), (hint, at, last, first)
            assert ends(opened(store)) == (newest, oldest), (hint, at)


def ends(handle: TableContext) -> tuple[int | None, int | None]:
    """The newest and oldest snapshot, asked for by number and by what they say."""
    last, first = snapshots.latest(handle), snapshots.read_earliest(handle)
    return (None if last is None else last.id, None if first is None else first.id)


@pytest.mark.parametrize("hint", [LATEST, EARLIEST])
@pytest.mark.parametrize("how", ["unreadable", "a directory"])
def test_hints_that_cannot_be_read_are_none(hint: str, how: str):
    store = copy(built())
    probe = FaultyStorage(store)
    ends(opened(probe))
    reads = [at for at, (call, path) in enumerate(probe.trace) if (call, path) == ("read", hint)]
    assert reads or hint == EARLIEST, "it is not asked"
    if how == "a directory":
        store.delete([hint])
        store.put(f"{hint}/inside", b"?")
    assert ends(opened(FaultyStorage(store, dict.fromkeys(reads, "error") if how == "unreadable" else {}))) == (8, 3)
    commit(opened(store), [message(new=["g"])], 99, user="other")
    assert ends(opened(store)) == (9, 3)


# ---- listings, and times that are equal or wrong -----------------------------------------------------------------------------------------------------------


def clocks(count: int) -> dict[str, list[int]]:
    """Times of so many snapshots, by what is wrong with the clocks of those who made them."""
    start = 1_700_000_000_000
    skewed = [start + number * 1000 for number in range(count)]
    for at, days in ((count // 5, 1), (count // 2, -1), (3 * count // 4, 1)):
        skewed[at : at + count // 10] = [time + days * DAY_MS for time in skewed[at : at + count // 10]]
    return {"right": [start + number * 1000 for number in range(count)], "equal": [start + number // 7 * 1000 for number in range(count)], "skewed": skewed}


def check_times(handle: TableContext, times: Sequence[int], asked: int, *, rising: bool) -> None:
    """Snapshots 1 to n: which there are, and what is found of a time. Where times fall, any place where they pass the one asked for is right."""
    count = len(times)
    assert snapshots.ids(handle) == list(range(1, count + 1))
    assert ends(handle) == (count, 1)
    for at in range(0, count, max(1, count // asked)):
        for time in (times[at] - 1, times[at], times[at] + 1):
            found, since = snapshots.latest_at_or_before(handle, time), snapshots.first_at_or_after(handle, time)
            if rising:
                assert (0 if found is None else found.id) == bisect_right(times, time)
                assert (count + 1 if since is None else since.id) == bisect_left(times, time) + 1
                continue
            number = 0 if found is None else found.id
            assert number == 0 or times[number - 1] <= time
            assert number == count or times[number] > time
            number = count + 1 if since is None else since.id
            assert number == count + 1 or times[number - 1] >= time
            assert number == 1 or times[number - 2] < time


@pytest.mark.long
@pytest.mark.parametrize("clock", clocks(10))
@pytest.mark.parametrize("hint", some([None, b"1", b"2500", b"1200", b"2501", b"9" * 19], 3))
def test_2500_snapshots(clock: str, hint: bytes | None):
    store, times = MemoryStorage(), clocks(2500)[clock]
    store.put(f"{ROOT}/schema/schema-0", schema_bytes())
    for number, time in enumerate(times, 1):
        store.put(f"{ROOT}/snapshot/snapshot-{number}", snapshot_bytes(number, timeMillis=time))
    for path in (LATEST, EARLIEST) if hint is not None else ():
        store.put(path, hint or b"")
    check_times(opened(store), times, 8, rising=clock != "skewed")


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.mark.long
@pytest.mark.parametrize("case", some([(60, 1, "equal"), (2500, 1000, "right"), (60, 1, "skewed"), (2500, 1000, "equal")], 2))
def test_snapshots_over_pages_of_a_listing(case: tuple[int, int, str], server: S3Server):
    count, page_size, clock = case
    times, top = clocks(count)[clock], f"{count}-{page_size}-{clock}"
    server.page_size = page_size
    server.put(f"{top}/schema/schema-0", schema_bytes())
    server.put(f"{top}/snapshot/LATEST", b"7")  # stale, as a writer left it that died
    for number, time in enumerate(times, 1):
        server.put(f"{top}/snapshot/snapshot-{number}", snapshot_bytes(number, timeMillis=time))
    handle = open_context(server.url(top), storage_options=server.options, runtime=Runtime(metadata_cache=LRUCache(64 << 20)))
    check_times(handle, times, 3, rising=clock != "skewed")
    pages = [asked for asked in server.requests if "list-type" in asked.query]
    assert len(pages) > count // page_size


def test_snapshots_expire_in_their_order_whatever_their_clocks_said():
    """The first one that is young enough ends it, as in the reference: what comes after it stays, however old it says it is."""
    for days in (1, -1):
        store = copy(built())
        first = now_ms()
        for number in range(3, 9):
            path = f"{ROOT}/snapshot/snapshot-{number}"
            seen = Snapshot.from_json(store.read(path))
            store.put(path, replace(seen, time_millis=first + number * 1000 + (days * DAY_MS if number == 5 else 0)).to_json())
        done = table(store).expire_snapshots(retain_min=1, older_than=at(first + 6500))
        assert done.snapshot_ids == ((3, 4) if days > 0 else (3, 4, 5, 6))
        assert ends(opened(store)) == (8, done.snapshot_ids[-1] + 1)


def at(time_ms: int) -> str:
    return (datetime.fromtimestamp(time_ms / 1000, UTC)).isoformat()


@pytest.mark.parametrize("days", [-1, 0, 1])
def test_orphans_are_as_old_as_the_storage_says(days: int, tmp_path: Path):
    """A machine whose clock is wrong by a day removes nothing that is young, and everything that is old."""
    held = lk.create(tmp_path, {"k": "INT", "v": "STRING"})
    held.append([{"k": 1, "v": "a"}])
    young, old = tmp_path / "bucket-0" / "data-young-0.parquet", tmp_path / "bucket-0" / "data-old-0.parquet"
    for path in (young, old):
        path.write_bytes(b"lost")
    seconds = now_ms() / 1000 - 86_400
    os.utime(young, (seconds + 3600,) * 2)
    os.utime(old, (seconds - 3600,) * 2)
    handle = open_context(tmp_path, runtime=Runtime(now_ms=lambda: now_ms() + days * DAY_MS))
    gone = orphan_files.remove_orphans(handle, older_than=None, dry_run=False, force=False)
    assert gone["path"].to_list() == [str(old)]
    assert (young.exists(), old.exists()) == (True, False)
    assert held.scan().collect().height == 1


# ---- files of others ---------------------------------------------------------------------------------------------------------------------------------------

FOREIGN = (
    *(
        f"snapshot/{name}"
        for name in ("LATEST.bak", "snapshot-09", "snapshot-x", "snapshot-", "snapshot-٣", "snapshot-" + "9" * 25, "SNAPSHOT-9", "snapshot-9/a")
    ),
    *(f"schema/{name}" for name in ("schema-", "schema-x", "schema-01", "README.md", "schema-7/inside")),
    *(f"changelog/{name}" for name in ("changelog-x", "changelog-02", "notes.txt")),
    *(f"tag/{name}" for name in ("notes.txt", "TAG-v", "tag-dir/inside")),
    *(f"consumer/{name}" for name in ("notes.txt", "consumer-dir/inside")),
    *(f"branch/{name}" for name in ("notes.txt", "branch-file", "other/schema/schema-0")),
    *(f"manifest/{name}" for name in ("notes.txt",)),
    "_SUCCESS",
    "notes.txt",
    "other/deep/file",
)


def test_files_of_others_are_nothing_and_stay():
    store = copy(built())
    held = table(store)
    held.create_tag("v1", at=4)
    held.create_branch("b", tag="v1")
    held.reset_consumer("c", next_snapshot=6)
    before = facts(opened(store))
    for name in FOREIGN:
        store.put(f"{ROOT}/{name}", b"not lakekit's")
    assert facts(opened(store)) == before
    held.expire_snapshots(retain_max=1, retain_min=1)
    held.delete_tag("v1")
    held.delete_branch("b")
    held.reset_consumer("c")
    assert ends(opened(store)) == (8, 6)
    assert [name for name in FOREIGN if f"{ROOT}/{name}" not in store.files] == []


def facts(handle: TableContext) -> tuple[object, ...]:
    """Everything that is found by its name."""
    return (
        snapshots.ids(handle),
        ends(handle),
        snapshots.changelog_ids(handle),
        schemas.list_ids(handle),
        refs.list_tag_names(handle),
        refs.list_branch_names(handle),
        refs.list_consumer_ids(handle),
    )
