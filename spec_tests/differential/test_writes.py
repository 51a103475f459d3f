"""Scripts of drawn steps, taken by lakekit and by the reference: the same rows, places, snapshots and changes after every step, whoever takes it.

    LAKEKIT_WRITES_SEEDS=200-400 pytest -m reference spec_tests/differential/test_writes.py          other scripts; from 10000 on they draw rarer things

A failure tells the table, the step, what differs and the steps until then; `scripts.script(seed)` is the whole.
"""

from __future__ import annotations

import os
from functools import cache

import pytest

from spec_tests.conftest import DEEP
from spec_tests.differential import wider
from spec_tests.differential.players import ByLakekit, ByReference
from spec_tests.differential.scripts import script
from spec_tests.differential.trails import apart, play

ASKED = os.environ.get("LAKEKIT_WRITES_SEEDS")
FIRST, _, LAST = (ASKED or "0-100").partition("-")
SEEDS = (*range(int(FIRST), int(LAST)), *(() if ASKED else range(wider.SEEDS, wider.SEEDS + 10)))
ALONE, IN_TURNS = (SEEDS, SEEDS) if ASKED or DEEP else (SEEDS[::2], SEEDS[1::2])
"""Every script is taken in one of the two ways; those that are asked for, and all in long searches, in both."""
pytestmark = [pytest.mark.reference, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def expected(judge, tmp_path_factory):
    """The trail of the reference alone, by seed."""
    here = tmp_path_factory.mktemp("reference")
    return cache(lambda seed: play(script(seed), judge, [ByReference(judge)], str(here / "db.db" / f"t{seed}"), measures=True))


@pytest.mark.parametrize("seed", ALONE)
def test_lakekit_alone(judge, expected, tmp_path, seed):
    wanted = expected(seed)
    found = play(script(seed), judge, [ByLakekit()], str(tmp_path / "db.db" / "t"))
    assert (words := apart(script(seed), wanted, found)) is None, words


@pytest.mark.parametrize("seed", IN_TURNS)
def test_turn_by_turn(judge, expected, tmp_path, seed):
    wanted = expected(seed)
    players = [ByLakekit(), ByReference(judge)]
    found = play(script(seed), judge, players if seed % 4 < 2 else players[::-1], str(tmp_path / "db.db" / "t"))
    assert (words := apart(script(seed), wanted, found)) is None, words


def test_the_reference_itself(judge, expected, tmp_path):
    refused = 0
    for seed in SEEDS[:: max(1, len(SEEDS) // 10)]:
        wanted = expected(seed)
        refused += sum(one.refused is not None for one in wanted)
        found = play(script(seed), judge, [ByReference(judge)], str(tmp_path / "db.db" / f"t{seed}"))
        assert (words := apart(script(seed), wanted, found)) is None, words
    assert refused <= len(SEEDS) // 10
