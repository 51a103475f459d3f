"""What lakekit sees of the machine: a pool that keeps order and does not lock itself, forks refused."""

from __future__ import annotations

import pickle
import threading
import time
import uuid
from datetime import UTC, datetime

import pytest

from lakekit import parallel, runtime
from lakekit.errors import ForkedProcess


@pytest.mark.parametrize("duration_ms", [1e15, 1e300, 10**400])
def test_waits_that_no_clock_holds(monkeypatch: pytest.MonkeyPatch, duration_ms: float) -> None:
    """A stream that polls every million years ended in OverflowError as soon as it would wait."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    runtime.wait_ms(duration_ms)
    runtime.wait_ms(5)
    assert 24 * 3600 <= slept[0] < 2**31
    assert slept[1] == 0.005


def test_each_keeps_order() -> None:
    assert parallel.parallel_map(lambda number: number * 2, range(100)) == list(range(0, 200, 2))
    assert parallel.parallel_map(str, []) == []


def test_each_runs_side_by_side() -> None:
    barrier = threading.Barrier(2, timeout=30)
    assert parallel.parallel_map(lambda _: barrier.wait() >= 0, range(2)) == [True, True]


def test_each_inside_each_does_not_wait_for_itself() -> None:
    assert parallel.parallel_map(lambda i: sum(parallel.parallel_map(lambda j: i * j, range(20))), range(40)) == [190 * i for i in range(40)]


def test_each_raises_the_first_failure_and_begins_no_more() -> None:
    begun: list[int] = []

    def work(number: int) -> None:
        begun.append(number)
        time.sleep(0.001)
        if number == 0:
            raise ValueError(number)

    with pytest.raises(ValueError, match="0"):
        parallel.parallel_map(work, range(5000))
    assert len(begun) < 5000


def test_ahead_keeps_order_and_begins_no_more_than_it_may() -> None:
    begun = []
    found = parallel.map_prefetch(lambda number: begun.append(number) or number, range(20), 2)
    assert next(found) == 0
    for _ in range(600):
        if len(begun) == 2:
            break
        time.sleep(0.05)
    time.sleep(0.05)
    assert len(begun) == 2
    assert list(found) == list(range(1, 20))


def test_after_a_failure_nothing_is_under_way() -> None:
    begun, ended = threading.Event(), []

    def work(number: int) -> int:
        if number == 0:
            begun.wait(30)
            raise ValueError
        begun.set()
        time.sleep(0.1)
        ended.append(number)
        return number

    with pytest.raises(ValueError):
        list(parallel.map_prefetch(work, range(9), 2))
    assert ended == [1]
    time.sleep(0.15)
    assert ended == [1]


def test_after_a_failure_of_each_nothing_is_under_way() -> None:
    begun, ended = threading.Event(), []

    def work(number: int) -> None:
        if number == 0:
            begun.wait(5)
            raise ValueError
        begun.set()
        time.sleep(0.05)
        ended.append(number)

    with pytest.raises(ValueError):
        parallel.parallel_map(work, [0, 1])
    assert ended == [1]


def test_work_that_drops_its_own_iterator_does_not_wait_for_itself() -> None:
    may_drop, dropped, begun = threading.Event(), threading.Event(), []

    def work(number: int) -> int:
        begun.append(number)
        if number == 1:
            may_drop.wait(10)
            iterator.close()
            dropped.set()
        return number

    iterator = parallel.map_prefetch(work, range(9), 2)
    assert next(iterator) == 0
    may_drop.set()
    assert dropped.wait(10)
    assert begun == [0, 1]


def test_each_says_what_is_done_in_order_and_in_the_thread_that_asked() -> None:
    said: list[tuple[int, int]] = []
    assert parallel.parallel_map(lambda n: n * n, range(9), on_done=lambda n: said.append((n, threading.get_ident()))) == [n * n for n in range(9)]
    assert said == [(n, threading.get_ident()) for n in range(9)]


def test_a_forked_child_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime.refuse_fork()
    monkeypatch.setattr(runtime._ProcessIdentity, "process", -1)
    with pytest.raises(ForkedProcess, match="spawn"):
        runtime.refuse_fork()


def test_a_wall_clock_shows_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    instant = int(datetime(2024, 7, 1, 12, tzinfo=UTC).timestamp() * 1000)
    try:
        for zone, hours in (("UTC", 0), ("Asia/Shanghai", 8), ("America/New_York", -4)):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            assert runtime.wall_clock_ms(instant + 123) == instant + 123 + hours * 3_600_000
    finally:
        monkeypatch.undo()
        time.tzset()
    assert runtime.wall_clock_ms(10**18) == 10**18


def test_the_real_world_goes_on_and_pickles() -> None:
    before_ms = runtime.elapsed_ms()
    before, ids = runtime.REAL_RUNTIME.now_ms(), {runtime.REAL_RUNTIME.new_id() for _ in range(100)}
    runtime.REAL_RUNTIME.wait_ms(1)
    assert runtime.REAL_RUNTIME.now_ms() >= before > 1_600_000_000_000
    assert len(ids) == 100
    assert {(one.version, one.variant) for one in map(uuid.UUID, ids)} == {(4, uuid.RFC_4122)}
    assert pickle.loads(pickle.dumps(runtime.REAL_RUNTIME)) == runtime.REAL_RUNTIME
    assert before_ms <= runtime.elapsed_ms()
    assert parallel.core_count() >= 1
