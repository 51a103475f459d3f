"""No commit waits much longer than others: many writers of one table in a store that knows no turns, in simulated time.

an attempt     reads the newest snapshot ─▶ four requests, some of which fail and are made again ─▶ claims: lost if there is a newer one
"""

from __future__ import annotations

import heapq
import random
from statistics import mean, median

import pytest

from lakekit.commit import contention
from lakekit.commit.contention import NO_CONTENTION, Contention

ROUND_TRIP_MS = 50
OLD_JITTER = 0.2


def grows_for_ever(lost, shortest, longest, drawn):
    """The waits of before, and of the reference: twice as long after each race, and as long before the first attempt as ever."""
    return min(shortest * 2 ** min(lost, 40), longest) * (1 + OLD_JITTER * drawn.random())


def shrinks(lost, shortest, longest, drawn):
    return contention.max_retry_wait_ms(lost, shortest, longest) * drawn.random()


def attempt_ms(drawn):
    """How long the requests of an attempt take: one of ten fails, and is made again after a while."""
    took = 0.0
    for _ in range(4):
        took += ROUND_TRIP_MS * drawn.uniform(0.8, 1.2)
        while drawn.random() < 0.1:
            took += ROUND_TRIP_MS + drawn.uniform(50, 300)
    return took


def simulate(seed, *, writers, commits, shortest, longest, wait, leaves_room):
    """Return how long each commit took, in milliseconds, and how many races each lost."""
    drawn, newest, taken, races = random.Random(seed), 0, [], []
    left, lost, known = [commits] * writers, [0] * writers, [NO_CONTENTION] * writers
    begun, read = [0.0] * writers, [(0, 0.0)] * writers
    events = [(drawn.random(), number, "read") for number in range(writers)]
    heapq.heapify(events)
    while events:
        now, number, what = heapq.heappop(events)
        if what == "read":
            read[number] = newest, now
            heapq.heappush(events, (now + attempt_ms(drawn), number, "claim"))
        elif read[number][0] < newest:
            lost[number] += 1
            heapq.heappush(events, (now + wait(lost[number] - 1, shortest, longest, drawn), number, "read"))
        else:
            newest += 1
            taken.append(now - begun[number])
            races.append(lost[number])
            known[number] = known[number].with_commit(lost[number], now - read[number][1])
            left[number], lost[number], begun[number] = left[number] - 1, 0, now + ROUND_TRIP_MS
            room = contention.max_wait_before_commit_ms(known[number], longest) * drawn.random() if leaves_room else 0
            if left[number]:
                heapq.heappush(events, (begun[number] + room, number, "read"))
    return taken, races


@pytest.mark.parametrize(("shortest", "longest"), [(1, 200), (10, 10_000)])
@pytest.mark.parametrize("writers", [4, 8])
def test_the_slowest_commit_takes_less_than_ten_times_the_median(writers, shortest, longest):
    given = {"writers": writers, "commits": 125, "shortest": shortest, "longest": longest}
    now, before = [], []
    for seed in range(8):
        for found, wait, leaves_room in ((now, shrinks, True), (before, grows_for_ever, False)):
            taken, _ = simulate(seed, **given, wait=wait, leaves_room=leaves_room)
            found.append(max(taken) / median(taken))
    assert mean(now) < 10
    assert mean(now) < mean(before) / 2


def test_no_more_commits_give_up_than_before():
    """Of those of four writers that may lose ten races, as the option says by default."""
    given = {"writers": 4, "commits": 125, "shortest": 10, "longest": 10_000}
    now, before = (
        sum(lost > 10 for seed in range(8) for lost in simulate(seed, **given, wait=wait, leaves_room=leaves_room)[1])
        for wait, leaves_room in ((shrinks, True), (grows_for_ever, False))
    )
    assert now <= before


def test_waits_grow_and_shrink_again():
    found = [contention.max_retry_wait_ms(lost, 10, 100) for lost in range(9)]
    assert found == [10, 20, 40, 80, 100, 50, 25, 12.5, 6.25]


def test_who_lost_no_race_leaves_no_room():
    assert contention.max_wait_before_commit_ms(NO_CONTENTION.with_commit(0, 400), 10_000) == 0
    assert contention.max_wait_before_commit_ms(Contention(1, 400), 10_000) == 800
    assert contention.max_wait_before_commit_ms(Contention(1, 400), 100) == 100
    assert contention.max_wait_before_commit_ms(Contention(9, 4000), 10_000) == 2000
