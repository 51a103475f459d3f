"""Reading keeps its place between the limit and the rival: ratios inside one run, at small size, with room for a busy machine.

At this size what a read costs once weighs as much as its rows; `python -m spec_tests.bench` measures a million rows against the bounds themselves.
"""

from __future__ import annotations

import pytest

from spec_tests.bench import lines
from spec_tests.bench.bench import Bench
from spec_tests.conftest import DEEP

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]
ROWS, ROUNDS = 100_000, 2
ALIKE = frozenset(
    {
        ("partial-update", "string key"),
        ("aggregation", "string key"),
        ("deletion vectors, 10 %", "append"),
        ("200 small files", "all rows"),
        ("merged table", "projection + key filter, 1 %"),
        ("peak memory of a merge read", "string key"),
        ("peak memory of a merge read", "aggregation"),
    }
)
"""Lines whose like is among the others: their tables take longest to make, and only `--deep` does."""
ROOM = 4
"""How many times its bound a line may take here."""
AGAIN = 3
"""Runs of a line before it counts as a miss: what else runs on the machine passes."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    made = Bench(tmp_path_factory.mktemp("bench"), ROWS, rounds=ROUNDS)
    yield made
    made.close()


def of(*how):
    """Lines measured in those ways; those whose tables the reference engine has a part in carry its mark."""
    found = [line for line in lines.LINES if line.how in how and (DEEP or (line.group, line.what) not in ALIKE)]
    return [pytest.param(line, id=line.name, marks=[pytest.mark.reference] if line.needs_reference else []) for line in found]


@pytest.mark.parametrize("line", of("turns", "warm", "again"))
def test_time(bench, line):
    """Both bounds with room, by the best rounds; and every answer was right."""
    for _ in range(AGAIN):
        result = bench.run(line)
        assert not result.left_out, result.left_out
        assert not result.wrong()
        over = {
            other: ratio for other, most in (("limit", line.limit), ("rival", line.rival)) if most and (ratio := result.ratio(other, least=True)) > most * ROOM
        }
        if not over:
            return
    pytest.fail(f"{over}, {ROOM} × the bounds {line.limit} and {line.rival}")


@pytest.mark.parametrize("line", of("memory"))
def test_memory(bench, line):
    """Whole processes, so that the room of times is not needed."""
    result = bench.run(line)
    assert not result.wrong()
    assert result.value <= line.most


@pytest.mark.parametrize("line", of("slope"))
def test_a_row_costs_no_python(bench, line):
    """Between 10,000 and 100,000 rows; a loop over rows in Python costs thousands of nanoseconds each."""
    values = []
    for _ in range(AGAIN):
        result = bench.run(line)
        assert not result.wrong()
        values.append(result.value)
        if values[-1] <= line.most * ROOM:
            return
    pytest.fail(f"{values} ns a row")
