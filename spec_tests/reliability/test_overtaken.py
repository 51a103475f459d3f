"""Others make two snapshots and all before the newest expire, between any two calls of a commit: it is in the newest snapshot, or nobody was told that it is.

RELIABILITY I1; found by game 276 of "append marked" in `test_care_turns.py`.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from lakekit import parallel
from lakekit.errors import CommitStateUnknown, Conflict
from lakekit.metadata import snapshots
from lakekit.model import snapshot
from lakekit.storage.protocol import FileMissing
from spec_tests.longer import some
from spec_tests.reliability.faulty import FaultyStorage, copy
from spec_tests.reliability.kept import needed_of
from spec_tests.reliability.rows import SCRIPTS, before, opened, seen
from spec_tests.reliability.test_care_turns import FAR, dealt, fair

OTHERS = [{"p": "z", "k": key, "v": "theirs"} for key in (91, 92)]
ADDS = ("append: stream", "key: stream", "key: upsert", "dynamic: upsert")
"""What comes to the same whenever it is done."""
CHANGES = (*ADDS, "key: delete", "append: delete", "append marked: delete", "append: compact", "append: drop", "key: truncate")


@pytest.fixture(autouse=True)
def one_after_another(monkeypatch):
    monkeypatch.setattr(parallel, "is_pool_thread", lambda: True)


def others(store) -> None:
    for row in OTHERS:
        opened(store).append([row])
    opened(store).expire_snapshots(retain_max=1, retain_min=1, older_than=FAR)


def claims(name: str) -> list[int]:
    """The calls that claim a snapshot, those after them until the hint is written, and the first one of all."""
    store = FaultyStorage(before(name))
    SCRIPTS[name].change(opened(store))
    found = [at for at, (call, path) in enumerate(store.trace) if call == "put_if_absent" and "/snapshot-" in path]
    assert found
    return [0, *(at + step for at in found for step in range(5) if at + step < len(store.trace))]


@pytest.mark.long
@pytest.mark.parametrize("name", some(CHANGES, 4))
def test_a_commit_that_others_and_an_expiry_overtake(name):
    was = set(seen(opened(before(name)))[1])
    done = before(name)
    SCRIPTS[name].change(opened(done))
    alone = set(seen(opened(done))[1])
    theirs = {(row["p"], row["k"], row["v"]) for row in OTHERS}
    told = 0
    for at in claims(name):
        store = before(name)
        try:
            SCRIPTS[name].change(opened(FaultyStorage(store, meanwhile={at: lambda store=store: others(store)})))
            told += 1
            left = (alone - was) if name not in {"key: truncate", "append: drop"} else set()
            found = set(seen(opened(store))[1])
            assert left <= found, at
            assert not (was - alone) & found, at
        except (Conflict, FileMissing, CommitStateUnknown) as refused:
            assert name not in ADDS, (at, refused)
            found = set(seen(opened(store))[1])
        assert found - was - alone == theirs or name == "key: truncate", at
        assert len(seen(opened(store))[1]) == len(found), at
        handle = opened(store)._context()
        assert needed_of(handle) <= store.files.keys(), at
        numbers = snapshots.ids(handle)
        assert numbers == list(range(numbers[0], numbers[-1] + 1)), at
        assert snapshot.decode_hint(store.read(handle.paths.latest_hint)) in numbers, at
    assert told


@pytest.mark.parametrize("name", ADDS)
def test_what_only_adds_goes_on_from_the_newest_snapshot(name):
    """Whatever expires between two of its calls, nobody who adds rows has to write them again."""
    was = set(seen(opened(before(name)))[1])
    spied = FaultyStorage(before(name))
    SCRIPTS[name].change(opened(spied))
    mine = set(seen(opened(spied))[1]) - was
    for at, call in enumerate(spied.trace):
        store = before(name)
        SCRIPTS[name].change(opened(FaultyStorage(store, meanwhile={at: lambda store=store: others(store)})))
        found = seen(opened(store))[1]
        assert mine <= set(found), call
        assert len(found) == len(set(found)), call
        assert opened(store).check(deep=True).ok, call


def at_every_call(does) -> None:
    spied = FaultyStorage(before("key: stream"))
    does(opened(spied))
    for at in range(len(spied.trace)):
        store = before("key: stream")
        does(opened(FaultyStorage(store, meanwhile={at: lambda store=store: others(store)})))


def test_a_tag_of_the_newest_snapshot_names_the_one_after_it():
    def tags(table):
        table.create_tag("v")
        assert table.scan("v").collect().height

    at_every_call(tags)


@pytest.mark.parametrize("deep", [False, True])
def test_a_check_of_what_expires_meanwhile_finds_nothing_wrong(deep):
    def checks(table):
        report = table.check(deep=deep)
        assert report.ok, report.problems
        assert not [one for one in report.advice if "expired" in one.problem]

    at_every_call(checks)


def test_a_check_that_never_comes_to_an_end_says_so():
    store = before("key: stream")
    meanwhile = {at: lambda: others(store) for at in range(6, 400, 9)}
    report = opened(FaultyStorage(store, meanwhile=meanwhile)).check()
    assert report.ok
    assert [one.check for one in report.advice] == ["snapshot was not looked through"]
    assert opened(store).check(deep=True).ok


def test_a_manifest_that_is_lost_is_no_reason_to_try_again():
    store = before("append: stream")
    store.delete([path for path in store.files if "/manifest/manifest-list-" in path])
    spied = FaultyStorage(store)
    with pytest.raises(FileMissing, match="manifest-list-"):
        SCRIPTS["append: stream"].change(opened(spied))
    assert [call for call, path in spied.trace if call == "put_if_absent" and "/snapshot-" in path] == []


def test_the_game_that_found_it():
    game = dealt("append marked", 276)
    game.play()
    fair("append marked", 276, game)
    assert not game.refused


@pytest.mark.parametrize("name", ["append: stream", "key: stream"])
def test_an_abort_of_what_is_committed_that_others_and_an_expiry_overtake(name):
    """Of the snapshots that it listed none may be left when it reads them: that is no reason to delete what the newest names."""
    store = before(name)
    table = opened(store)
    with table.writer() as writer:
        writer.write([{"p": "a", "k": 81, "v": "ours"}])
        messages = writer.prepare()
    table.commit(messages, commit_user="job", identifier=81)
    opened(store).expire_snapshots(retain_max=1, retain_min=1, older_than=FAR)
    spied = FaultyStorage(copy(store))
    opened(spied).abort(messages)
    for at in range(len(spied.trace)):
        mine = copy(store)
        with suppress(FileMissing):
            opened(FaultyStorage(mine, meanwhile={at: lambda mine=mine: others(mine)})).abort(messages)
        assert 81 in {row[1] for row in seen(opened(mine))[1]}, spied.trace[at]
