"""Bugs that other lakes had, as RELIABILITY section 4 counts them, where deleting could have them: none here.

B6 is in `test_outcomes.py`, B24 in `test_hints.py`, and what writing and compaction could have is in `test_known_bugs.py`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import timedelta
from functools import cache
from itertools import permutations, product
from typing import TYPE_CHECKING

import pytest

import lakekit as lk
from lakekit import parallel
from lakekit.errors import LakekitError
from lakekit.maintenance import reachability
from lakekit.metadata import metadata_io
from spec_tests.conftest import DEEP
from spec_tests.longer import some
from spec_tests.reliability.faulty import FaultyStorage, copy
from spec_tests.reliability.kept import needed_of
from spec_tests.reliability.rows import FIRST, SECOND, THIRD, made, opened, seen
from spec_tests.reliability.test_care_crashes import check_roots

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.storage.memory import MemoryStorage
    from lakekit.table.table import Table

FAR = {"retain_min": 1, "retain_max": 1, "older_than": "9999-01-01"}
BRANCHES, TAGS = ("main", "b", "c"), ("t1", "t2", "t3")


@pytest.fixture(autouse=True)
def one_after_another(monkeypatch):
    monkeypatch.setattr(parallel, "is_pool_thread", lambda: True)
    monkeypatch.setattr(metadata_io, "WAIT_MS", 0)


@cache
def built() -> MemoryStorage:
    """Snapshots 1 to 5 on main, tags t1 to t3 of the first three, and branches b and c of t1 and t3 with snapshots, and tags of these names, of their own."""
    store = made("input")
    for turn, rows in enumerate((FIRST, SECOND, THIRD, FIRST, SECOND), 1):
        opened(store).upsert(rows)
        if turn <= len(TAGS):
            opened(store).create_tag(TAGS[turn - 1])
    for branch, base in (("b", "t1"), ("c", "t3")):
        opened(store).create_branch(branch, tag=base)
        of = opened(store).branch(branch)
        of.delete_tag(base)
        for tag, rows in zip(TAGS, (SECOND, THIRD, FIRST), strict=True):
            of.upsert(rows)
            of.create_tag(tag)
        of.compact(full=True)
    return store


@cache
def rows_of(branch: str, name: str | int) -> object:
    return on(built(), branch).scan(at=name).collect().rows()


def on(store: MemoryStorage, branch: str) -> Table:
    return opened(store) if branch == "main" else opened(store).branch(branch)


def check_whole(store: MemoryStorage, where: object) -> None:
    """Every root has its files, and every tag the rows it had."""
    check_roots(store)
    for root in reachability.read_all_roots(opened(store)._context()):
        if root.kind == "tag" and root.branch in BRANCHES and root.name in TAGS:
            assert on(store, root.branch).scan(at=root.name).collect().rows() == rows_of(root.branch, root.name), (root.path, where)


def aged(store: MemoryStorage, before: set[str]) -> None:
    """What came since looks as old as everything else."""
    for path in store.files.keys() - before:
        store.files[path] = (store.files[path][0], 0)


# ---- B1: the live set is empty since a snapshot expired meanwhile; B2: it is older than the list of files --------------------------------------------------


def cleaned(meanwhile: Callable[[MemoryStorage], object]) -> None:
    """Orphans are removed, and before each call of that something else happens."""
    probe = FaultyStorage(copy(built()))
    clean(opened(probe))
    for at in [at for at, (call, _) in enumerate(probe.trace) if DEEP or (call != "read" and at % 4 == 1) or at % 29 == 0]:
        store = copy(built())
        before = set(store.files)

        def happens(store: MemoryStorage = store, before: set[str] = before) -> None:
            meanwhile(store)
            aged(store, before)

        with suppress(LakekitError):
            clean(opened(FaultyStorage(store, meanwhile={at: happens})))
        check_roots(store)
        assert opened(store).scan().collect().height


def clean(table: Table) -> object:
    return table.remove_orphans(dry_run=False, older_than=timedelta(0), force=True)


@pytest.mark.long
@pytest.mark.parametrize("branch", ["main", "b"])
def test_b1_what_expires_while_orphans_are_looked_for_costs_nothing(branch: str):
    cleaned(lambda store: on(store, branch).expire_snapshots(**FAR))


@pytest.mark.long
@pytest.mark.parametrize("change", some(["commit", "tag", "branch", "compact"], 4))
def test_b2_what_is_committed_while_orphans_are_looked_for_is_none(change: str):
    changes: dict[str, Callable[[Table], object]] = {
        "commit": lambda t: t.upsert(THIRD),
        "compact": lambda t: t.compact(full=True),
        "tag": lambda t: t.create_tag("new"),
        "branch": lambda t: t.create_branch("new", tag="t2"),
    }
    cleaned(lambda store: changes[change](opened(store)))


# ---- B3: a tag that cannot be read, tags of branches, what a branch began with ----------------------------------------------------------------------------

DELETING: dict[str, Callable[[MemoryStorage], object]] = {
    "snapshots": lambda store: opened(store).expire_snapshots(**FAR),
    "snapshots of a branch": lambda store: on(store, "b").expire_snapshots(**FAR),
    "a tag": lambda store: opened(store).delete_tag("t3"),
    "tags": lambda store: opened(store).expire_tags(older_than="9999-01-01"),
    "a branch": lambda store: opened(store).delete_branch("c"),
    "orphans": lambda store: clean(opened(store)),
    "changelogs": lambda store: opened(store).expire_changelogs(delete_all=True),
}


@pytest.mark.long
@pytest.mark.parametrize("broken", some(product(BRANCHES, TAGS), 4))
def test_b3_a_tag_that_cannot_be_read_stops_every_deletion_of_files(broken: tuple[str, str]):
    branch, tag = broken
    path = on(built(), branch)._context().paths.tag(tag)
    for name, deletes in DELETING.items():
        for data in (b"{", b"", b'{"version" : 3}', b"\x00" * 400):
            store = copy(built())
            opened(store).expire_snapshots(retain_max=4, retain_min=1)  # so that some tag alone keeps a snapshot
            store.put(path, data)
            before = {file for file in store.files if "/bucket-" in file or "/manifest/" in file}
            with suppress(LakekitError):
                deletes(store)
                alone = name == "a tag" and broken == ("main", "t3") and path not in store.files  # it went, and nothing with it
                assert alone or name in {"a branch", "changelogs"}, (name, data)
            if name != "changelogs":
                assert before <= store.files.keys(), (name, data)


@pytest.mark.long
def test_b3_tags_and_branches_keep_what_they_began_with():
    """Everything that main has is gone but its newest snapshot; then each branch goes on, and so do its tags."""
    store = copy(built())
    for tag in TAGS:
        opened(store).delete_tag(tag)
        check_whole(store, tag)
    opened(store).expire_snapshots(**FAR)
    check_whole(store, "expired")
    clean(opened(store))
    check_whole(store, "cleaned")
    for branch, first in (("b", 1), ("c", 3)):
        assert on(store, branch).scan(at=first).collect().rows() == rows_of(branch, first)
        on(store, branch).upsert(FIRST)
    assert opened(store).check(deep=True).ok


# ---- B4: deleting tags, going back, expiring: in every order ----------------------------------------------------------------------------------------------

STEPS: dict[str, Callable[[Table], object]] = {
    "tag": lambda t: t.delete_tag("t1"),
    "other tag": lambda t: t.delete_tag("t3"),
    "back": lambda t: t.rollback(4),
    "back to a tag": lambda t: t.rollback("t2"),
    "expire": lambda t: t.expire_snapshots(**FAR),
    "branch": lambda t: t.delete_branch("c"),
}


@pytest.mark.long
@pytest.mark.parametrize("order", some(list(permutations(STEPS, 3))[::2], 9), ids=",".join)
def test_b4_tags_go_and_tables_go_back_in_every_order(order: tuple[str, ...]):
    store = copy(built())
    for step in order:
        with suppress(LakekitError):  # a tag or a snapshot that an earlier step removed
            STEPS[step](opened(store))
        check_whole(store, step)
    clean(opened(store))
    check_whole(store, "cleaned")
    for branch in reachability.list_branch_names(opened(store)._context()):
        report = on(store, branch).check()
        assert report.ok, str(report)
    opened(store).upsert(THIRD)
    assert seen(opened(store))


@pytest.mark.long
def test_b4_files_of_a_tag_go_with_the_last_root_that_needs_them():
    """And not before: each file is held against what roots need, after each deletion."""
    store = copy(built())
    for branch, tag in product(BRANCHES, TAGS):
        on(store, branch).delete_tag(tag)
        check_whole(store, (branch, tag))
    for branch in BRANCHES:
        on(store, branch).expire_snapshots(**FAR)
        check_whole(store, branch)
    assert {path for path in store.files if "/bucket-" in path or "/manifest/" in path} == needed_of(opened(store)._context())


def test_b3_a_tag_made_while_its_snapshot_expires_keeps_its_files(tmp_path, monkeypatch):
    """It comes after the roots were read, and before the snapshot is gone."""
    table = lk.create(tmp_path, {"k": "INT"}, options={"bucket": "-1"})
    table.append([{"k": 1}])
    table.overwrite([{"k": 2}])
    every, late = reachability.read_all_roots, ["late"]

    def read(handle):
        found = every(handle)
        if late:
            lk.open(tmp_path).create_tag(late.pop(), at=1)
        return found

    monkeypatch.setattr(reachability, "read_all_roots", read)
    assert table.expire_snapshots(retain_max=1, retain_min=1).snapshot_ids == (1,)
    assert table.scan(at="late").collect().rows() == [(1,)]
    assert lk.open(tmp_path).check().ok


def test_what_is_committed_while_orphans_are_looked_for_stays(tmp_path, monkeypatch):
    """Its files were there when files were listed, and no root named them when the roots were read first."""
    table = lk.create(tmp_path, {"k": "INT"}, options={"bucket": "-1"})
    table.append([{"k": 1}])
    writer = table.writer(commit_user="late")
    writer.write([{"k": 2}])
    waiting, every = [writer.prepare()], reachability.read_all_roots
    for file in tmp_path.glob("bucket-0/*"):
        os.utime(file, (0, 0))  # a disk's clock may not tell what was made just before

    def read(handle):
        found = every(handle)
        if waiting:
            lk.open(tmp_path).commit(waiting.pop(), commit_user="late", identifier=1)
        return found

    monkeypatch.setattr(reachability, "read_all_roots", read)
    assert table.remove_orphans(older_than=timedelta(0), dry_run=False, force=True).height == 0
    assert sorted(table.scan().collect()["k"]) == [1, 2]
    assert lk.open(tmp_path).check(deep=True).ok
