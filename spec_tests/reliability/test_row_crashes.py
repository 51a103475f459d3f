"""Every call of every change that users make fails once in every way: rows are as before or after it, the table is whole, and the change made again is made.

RELIABILITY checks 1, 3 and 4; F1-F5, F13; I1, I2, I4, I5, I18. Nothing runs side by side here, so that the n-th call is the same one each time.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from lakekit import parallel
from lakekit.errors import CommitStateUnknown, LakekitError
from spec_tests.conftest import DEEP
from spec_tests.reliability.faulty import DEATHS, INTERRUPTS, KINDS, Crash, FaultyStorage
from spec_tests.reliability.rows import SCRIPTS, before, opened, seen

if TYPE_CHECKING:
    from lakekit.storage.memory import MemoryStorage

pytestmark = pytest.mark.filterwarnings("ignore:the commit to t is done")
"""What is looked after at the end of a commit fails too: that is told, and the commit stands."""
WAYS = (*KINDS, *INTERRUPTS)
REL_SEED = os.environ.get("REL_SEED", "1")
FEW = 23
"""Plain pytest fails one call in so many, and only of some scripts."""


@pytest.fixture(autouse=True)
def one_after_another(monkeypatch):
    monkeypatch.setattr(parallel, "is_pool_thread", lambda: True)


@pytest.mark.long
@pytest.mark.parametrize("name", list(SCRIPTS)[::7])
def test_some_calls_fail(name: str):
    turn = sum(name.encode())
    for at in range(turn % FEW, len(probed(name).trace), FEW):
        failing(name, at, WAYS[(at + turn) % len(WAYS)])


@pytest.mark.long
@pytest.mark.parametrize("name", SCRIPTS)
def test_every_call_fails(name: str):
    """Every second one in one way; each in every way with LAKEKIT_DEEP, and where there are few."""
    calls, turn = len(probed(name).trace), sum(name.encode())
    whole = DEEP or calls < len(WAYS)
    cases = Counter(
        failing(name, at, way)
        for at in range(0 if whole else turn % 2, calls, 1 if whole else 2)
        for way in (WAYS if whole else [WAYS[(at // 2 + turn) % len(WAYS)]])
    )
    assert cases["dead"]
    assert cases["refused"]


@pytest.mark.long
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_second_failure_while_recovering(name: str):
    """A change fails, fails in another way when it is made again, and is made (RELIABILITY check 5)."""
    chance, calls = Random(f"{REL_SEED} {name}"), len(probed(name).trace)
    for _ in range(60 if DEEP else 2):
        plans = [{chance.randrange(calls): chance.choice(WAYS)} for _ in range(2)]
        store, (old, new) = before(name), states(name)
        for plan in plans:
            storage = FaultyStorage(store, plan)
            with suppress(LakekitError, KeyboardInterrupt, Crash):
                SCRIPTS[name].change(opened(storage))
            if "power" in plan.values():
                storage.power_loss()
            assert seen(opened(store)) in (old, new), (name, plans)
            assert opened(store).check().ok, (name, plans)
        SCRIPTS[name].change(opened(store))
        assert seen(opened(store)) == new, (name, plans)


@cache
def probed(name: str) -> FaultyStorage:
    """A change that nothing disturbs."""
    probe = FaultyStorage(before(name))
    SCRIPTS[name].change(opened(probe))
    return probe


@cache
def states(name: str) -> tuple[Any, Any]:
    """What a reader sees before a change and after it."""
    return seen(opened(before(name))), seen(opened(probed(name).store))


def added(store: MemoryStorage, there: set[str], name: str) -> set[str]:
    """Files that came or went, but the option that a rescale sets before it writes rows."""
    return {path for path in set(store.files) ^ there if not (name == "key: rescale" and "/schema/" in path)}


def hides(name: str) -> bool:
    """Whether rows are read only once they are compacted: committed they may be, and unseen, until somebody does."""
    return SCRIPTS[name].table in {"marked", "first"}


def failing(name: str, at: int, kind: str) -> str:
    """A change in which one call fails, looked at before and after it is made again by a fresh process; how it ended."""
    change, call = SCRIPTS[name].change, probed(name).trace[at][0]
    where = (name, at, kind, probed(name).trace[at])
    old, new = states(name)
    store = before(name)
    there = set(store.files)
    storage = FaultyStorage(store, {at: kind})
    outcome = "made"
    try:
        change(opened(storage))
    except BaseException as error:
        if storage.dead:
            outcome = "dead"
        elif isinstance(error, CommitStateUnknown):
            outcome = "unknown"
        elif isinstance(error, LakekitError):
            outcome = "refused"
        elif kind in INTERRUPTS:
            outcome = "interrupted"
        else:
            raise
    if kind == "power":
        storage.power_loss()
    assert (outcome == "dead") == (kind in DEATHS), where
    assert (outcome == "interrupted") == (kind in INTERRUPTS), where
    now = seen(opened(store))
    assert now in (old, new), where
    assert opened(store).check().ok, (where, str(opened(store).check()))
    made = any("/snapshot/snapshot-" in path for path in store.files.keys() - there)
    if outcome == "made":
        assert now == new or (made and hides(name)), where
    elif outcome == "refused" and call != "delete":
        assert now == old, where
        assert added(store, there, name) == set(), (where, set(store.files) ^ there)
    elif outcome == "interrupted" and call not in {"delete", "put_if_absent"} and now == old and not made:
        assert added(store, there, name) == set(), (where, set(store.files) ^ there)
    change(opened(store))
    assert seen(opened(store)) == new, where
    assert opened(store).check().ok, (where, str(opened(store).check()))
    return outcome
