"""Every call of every commit fails once in every way: the table opens, has the old or the new state, and a repeated commit commits exactly once.

RELIABILITY checks 1 and 4; F1-F5, F13, F15; I1-I5, I7, I18.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

import pytest

from lakekit.commit.overwrite import Overwrite
from lakekit.errors import CommitStateUnknown, LakekitError
from lakekit.model.index_manifest import HASH_INDEX, IndexFileMeta
from lakekit.storage.memory import MemoryStorage
from spec_tests.conftest import DEEP
from spec_tests.reliability.commits import ROOT, check_table, commit, file, live, message, opened, schema, unreferenced
from spec_tests.reliability.faulty import DEATHS, KINDS, Crash, FaultyStorage, copy

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.commit.changes import Commit
    from lakekit.metadata.table_context import TableContext

    Step = Callable[[TableContext], Commit]

HASHES = IndexFileMeta(index_type=HASH_INDEX, file_name="index-0", file_size_bytes=4, row_count=1)
STEPS: dict[str, Step] = {
    "the first append": lambda h: commit(h, [message(new=["f1"]), message("b", new=["g1"])], 1),
    "an append with a changelog": lambda h: commit(h, [message(new=["f2"], changelog=["c2"])], 2, watermark=5),
    "an append with a hash index": lambda h: commit(h, [message(new=["f3"], new_index_files=(HASHES,))], 3),
    "rows and a compaction": lambda h: commit(
        h, [message(new=["f4"], before=["f1", "f2", "f3", "f4"], after=[file("m1", level=5)]), message("b", new=["g2"])], 4, properties={"k": "v"}
    ),
    "manifests are merged": lambda h: commit(h, [message("b", 1, new=["g3"])], 5),
    "a compaction alone": lambda h: commit(h, [message("b", before=["g1", "g2"], after=[file("m2", level=5)])], 6, ignore_empty=True),
    "a dynamic overwrite": lambda h: commit(h, [message(new=["o1"])], 7, overwrite=Overwrite.dynamic()),
    "partitions are dropped": lambda h: commit(h, [], 8, overwrite=Overwrite.partitions([{"p": "b"}])),
    "nothing, by a stream": lambda h: commit(h, [], 9, ignore_empty=False),
    "truncated": lambda h: commit(h, [], 10, overwrite=Overwrite.entire_table()),
}


def states() -> dict[str, MemoryStorage]:
    """The table before each step."""
    store = MemoryStorage()
    store.put(f"{ROOT}/schema/schema-0", schema(options={"manifest.merge-min-count": "3"}))
    store.put(f"{ROOT}/p=a/bucket-0/m1", b"a compaction is made again only where its files are")
    found = {}
    for name, step in STEPS.items():
        found[name] = copy(store)
        step(opened(store))
    check_table(store)
    return found


BEFORE = states()


@pytest.mark.long
@pytest.mark.parametrize("name", STEPS)
def test_some_calls_fail(name: str):
    probe, _ = probed(name)
    for at in range(hash_of(name) % 5, len(probe.trace), 5):
        failing(name, at, KINDS[(at + hash_of(name)) % len(KINDS)])


@pytest.mark.long
@pytest.mark.parametrize("name", STEPS)
def test_calls_fail_in_every_way(name: str):
    """Every second one, and each that makes a snapshot; each with LAKEKIT_DEEP."""
    probe, told = probed(name)
    calls = [at for at, call in enumerate(probe.trace) if DEEP or at % 2 == hash_of(name) % 2 or "put_if_absent" in call]
    cases = Counter(failing(name, at, kind) for at in calls for kind in KINDS)
    assert cases["dead"] == len(DEATHS) * len(calls)
    assert cases["unknown"] == 1, "one lost answer, which nobody can know of; that of a compaction after its rows is no matter"
    assert len(told.kinds) <= 2


def hash_of(name: str) -> int:
    return sum(name.encode())


@cache
def probed(name: str) -> tuple[FaultyStorage, Commit]:
    """The calls of a step that nothing disturbs, and what it tells."""
    probe = FaultyStorage(copy(BEFORE[name]))
    return probe, STEPS[name](opened(probe))


def failing(name: str, at: int, kind: str) -> str:
    """A step in which one call fails, looked at before and after it is repeated by a fresh process; how it ended."""
    step, (probe, told) = STEPS[name], probed(name)
    old, new = live(opened(BEFORE[name])), live(opened(probe.store))
    where = (at, kind, probe.trace[at])
    store = copy(BEFORE[name])
    storage = FaultyStorage(store, {at: kind})
    outcome = "committed"
    try:
        step(opened(storage))
    except Crash:
        outcome = "dead"
    except CommitStateUnknown:
        outcome = "unknown"
    except LakekitError:
        outcome = "refused"
    if kind == "power":
        storage.power_loss()
    assert (outcome == "dead") == (kind in DEATHS), where
    check_table(store)
    now = live(opened(store))
    half = len(told.kinds) == 2 and now not in (old, new)  # rows without their compaction
    assert now in (old, new) or half, where
    if outcome == "committed":
        assert now == new or half, where
    elif outcome == "refused":
        assert now == old, where
        assert not unreferenced(store), where
    again = step(opened(store))
    check_table(store)
    assert live(opened(store)) == new, where
    assert (again.snapshot_ids, again.kinds) == (told.snapshot_ids, told.kinds), where
    return outcome


@pytest.mark.parametrize("name", ["an append with a changelog", "a dynamic overwrite"])
def test_a_storage_that_creates_by_looking_first_is_found_out(name: str):
    """The harness tells a broken protocol: a plant that lets a second snapshot of the same number replace the first."""
    start = BEFORE[name]
    store = copy(start)
    STEPS[name](opened(store))
    number = max(int(path.rpartition("-")[2]) for path in store.files if "/snapshot/snapshot-" in path)
    other = copy(start)
    commit(opened(other), [message("c", new=["lost"])], 99, user="other")
    store.files[f"{ROOT}/snapshot/snapshot-{number}"] = other.files[f"{ROOT}/snapshot/snapshot-{number}"]
    with pytest.raises((AssertionError, LakekitError)):
        check_table(store)
