"""Somebody else does a whole change before each call of a change: what comes of both came of one after the other, or the slower one was refused.

RELIABILITY 5.2, check 9; F8, F9; I1, I6, I13; B8, B9, D8.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from lakekit import parallel
from lakekit.errors import Conflict, InvalidOption
from spec_tests.conftest import DEEP
from spec_tests.longer import some
from spec_tests.reliability.faulty import FaultyStorage, copy
from spec_tests.reliability.rows import SCRIPTS, filled, merged, opened, seen

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.table.table import Table

    Change = Callable[[Table], object]

OTHERS = [{"p": "a", "k": 7, "v": "7"}, {"p": "c", "k": 8, "v": "8"}]
CHANGES: dict[str, Change] = {
    "add": lambda t: t.append(OTHERS),
    "write": lambda t: t.append([{"p": "a", "k": 10, "v": "10"}, {"p": "a", "k": 11, "v": "11"}]),
    "overwrite": lambda t: t.overwrite([{"p": "a", "k": 9, "v": "9"}]),
    "update": lambda t: t.update({"v": "'new'"}, where="k < 3"),
    "delete": lambda t: t.delete("k = 2"),
    "merge": merged,
    "drop": lambda t: t.drop_partitions([{"p": "a"}]),
    "truncate": lambda t: t.truncate(),
    "compact": lambda t: t.compact(full=True),
    "sort": lambda t: t.compact(order_by="k"),
    "rescale": lambda t: t.rescale(2),
    "move elsewhere": lambda t: t.append([{"p": "y", "k": 1, "v": "too"}]),
    "move": lambda t: t.append([{"p": "z", "k": 1, "v": "moved"}]),
}
PAIRS = [
    ("append", "write", "add"),
    ("append", "write", "overwrite"),
    ("append", "overwrite", "add"),
    ("append", "overwrite", "overwrite"),
    ("append", "compact", "add"),
    ("append", "compact", "compact"),
    ("append", "compact", "delete"),
    ("append", "compact", "overwrite"),
    ("append", "delete", "compact"),
    ("append", "delete", "update"),
    ("append", "merge", "update"),
    ("append", "sort", "add"),
    ("append", "sort", "delete"),
    ("append", "drop", "add"),
    ("append", "truncate", "write"),
    ("append marked", "delete", "update"),
    ("append marked", "delete", "compact"),
    ("append marked", "compact", "delete"),
    ("append marked", "compact", "compact"),
    ("append marked", "update", "overwrite"),
    ("bucketed", "compact", "write"),
    ("bucketed", "write", "write"),
    ("key", "write", "add"),
    ("key", "write", "compact"),
    ("key", "write", "overwrite"),
    ("key", "compact", "add"),
    ("key", "overwrite", "write"),
    ("key", "rescale", "write"),
    ("key", "write", "rescale"),
    ("waiting", "compact", "write"),
    ("waiting", "compact", "compact"),
    ("waiting", "compact", "overwrite"),
    ("waiting", "write", "compact"),
    ("lookup", "write", "add"),
    ("lookup", "write", "compact"),
    ("marked", "write", "add"),
    ("marked", "write", "compact"),
    ("marked", "compact", "write"),
    ("marked waiting", "compact", "write"),
    ("marked waiting", "compact", "compact"),
    ("dynamic", "write", "add"),
    ("dynamic", "write", "write"),
    ("dynamic", "write", "compact"),
    ("dynamic", "compact", "write"),
    ("dynamic", "write", "overwrite"),
    ("dynamic", "overwrite", "write"),
    ("moving", "move", "add"),
    ("moving", "move", "move elsewhere"),
    ("moving", "move", "compact"),
    ("moving", "compact", "move"),
    ("postponed", "write", "compact"),
    ("postponed", "compact", "write"),
    ("postponed", "compact", "compact"),
    ("first", "write", "add"),
    ("first", "delete", "write"),
]
"""A table, a change, and what somebody else does meanwhile."""
REFUSED = (Conflict, InvalidOption)
"""Another number of buckets, found when rows come, is an option's error; found by the commit, a conflict."""


@pytest.fixture(autouse=True)
def one_after_another(monkeypatch):
    monkeypatch.setattr(parallel, "is_pool_thread", lambda: True)


@pytest.mark.long
@pytest.mark.parametrize("pair", PAIRS[::14], ids="-".join)
def test_somebody_else_is_faster_at_some_calls(pair: tuple[str, str, str]):
    calls = calls_of(*pair[:2])
    for at in (calls // 2, calls - 6):
        meeting(*pair, at)


@pytest.mark.long
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_somebody_else_is_faster_at_any_call(pair: tuple[str, str, str]):
    """At the first and every eighth call; at every one with LAKEKIT_DEEP."""
    calls = {0, *range(sum(map(len, pair)) % 8, calls_of(*pair[:2]), 1 if DEEP else 8)}
    assert "both" in {meeting(*pair, at) for at in sorted(calls)}, "before the first call nothing was looked at: whoever comes last fits behind the other"


@cache
def calls_of(kind: str, name: str) -> int:
    """How many calls a change takes that nothing disturbs."""
    probe = FaultyStorage(copy(filled(kind)))
    CHANGES[name](opened(probe))
    return len(probe.trace)


@cache
def after(kind: str, *names: str) -> Any:
    """What a reader sees after some changes, one after the other."""
    store = copy(filled(kind))
    for name in names:
        CHANGES[name](opened(store))
    return seen(opened(store))


def meeting(kind: str, slower: str, faster: str, at: int) -> str:
    """A change in which another one comes first; who was committed."""
    store, where = copy(filled(kind)), (kind, slower, faster, at)
    made = []
    storage = FaultyStorage(store, meanwhile={at: lambda: made.extend(tried(CHANGES[faster], faster, opened(store)))})
    made += tried(CHANGES[slower], slower, opened(storage))
    now = seen(opened(store))
    serial = [after(kind, *made), after(kind, *made[::-1])]
    assert made, where
    assert now in serial, (where, storage.trace[at], now, serial)
    found = opened(store).check(deep=True)
    assert found.ok, (where, storage.trace[at], str(found))
    return "both" if len(made) > 1 else made[0]


def tried(change: Change, name: str, table: Table) -> list[str]:
    """The name of a change that was made; nothing where it was refused."""
    try:
        change(table)
    except REFUSED:
        return []
    return [name]


# ---- readers -----------------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("name", some(SCRIPTS, 17))
def test_a_pinned_reader_sees_the_same_rows_before_during_and_after(name: str):
    script = SCRIPTS[name]
    store = copy(filled(script.table))
    newest = opened(store).snapshots()["snapshot_id"].max()
    want = seen(opened(store))
    pinned = opened(store).scan(at=newest)

    def look() -> None:
        rows = pinned.collect()
        assert (tuple(rows.columns), tuple(sorted(rows.rows(), key=repr))) == want

    probe = FaultyStorage(copy(store))
    script.change(opened(probe))
    script.change(opened(FaultyStorage(store, meanwhile=dict.fromkeys(range(0, len(probe.trace), 5), look))))
    look()
