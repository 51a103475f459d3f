"""Care keeps its bounds: ratios inside one run, at small size, with room for a busy machine. `python -m spec_tests.bench.care` measures against the bounds."""

from __future__ import annotations

import pytest

from spec_tests.bench.care import Bench, Count

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]
ROOM = 4
"""How many times its bound a ratio may take here: at this size what a call costs once weighs as much as its files."""
AGAIN = 3
"""Runs before it counts as a miss: what else runs on the machine passes."""


@pytest.mark.parametrize("name", ["expiry", "orphans"])
def test_time(name, tmp_path):
    for attempt in range(AGAIN):
        (tmp_path / str(attempt)).mkdir()
        lines = getattr(Bench(tmp_path / str(attempt), 1_000, rounds=3), name)()
        assert lines
        if all(line.least <= ROOM * line.most for line in lines):
            break
    else:
        pytest.fail("\n".join(map(str, lines)))


def test_a_follower_polls_once(tmp_path):
    (line,) = Bench(tmp_path, 10, rounds=1).follower()
    assert isinstance(line, Count)
    assert line.found == line.most == 1
