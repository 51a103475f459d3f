"""Bad texts of SQL end in an answer or a `LakekitError`: mutated ones, long and deep ones, and those that try to get out of a warehouse.

`LAKEKIT_FUZZ_INPUTS` is how many mutated texts each door gets, `LAKEKIT_FUZZ_SEED` where the draws begin.
"""

from __future__ import annotations

import json
import os
from itertools import islice
from random import Random
from typing import TYPE_CHECKING

import pytest

from spec_tests.longer import some
from spec_tests.reliability.children import Child
from spec_tests.reliability.sql_cage import conditions, escapes, statements
from spec_tests.reliability.sql_heavy import PEAK_BYTES, cases
from spec_tests.reliability.sql_mutants import CONDITIONS, DOORS, STATEMENTS, MutantCounts, mutants, tried

if TYPE_CHECKING:
    from pathlib import Path

INPUTS = int(os.environ.get("LAKEKIT_FUZZ_INPUTS", "60"))
SEED = int(os.environ.get("LAKEKIT_FUZZ_SEED", "1"))
NO_PORT = 9
"""Nothing listens there."""


@pytest.mark.parametrize("door", DOORS)
def test_mutated_texts_are_answered_or_refused(tmp_path: Path, door: str) -> None:
    drawn = mutants(STATEMENTS if door == "sql" else CONDITIONS, SEED)
    texts = Random(SEED).sample(list(islice(drawn, max(INPUTS, 3000))), INPUTS)  # cut ones and mutated ones
    counts = MutantCounts()
    tried(door, texts, tmp_path, counts)
    assert counts.wrong == []
    assert counts.tried == counts.counts.total() == INPUTS


def test_a_process_that_dies_has_told_how_the_texts_before_ended(tmp_path: Path) -> None:
    counts = MutantCounts()
    tried("death", ["k = 1", "k =", "die", "k = 2"], tmp_path, counts)
    assert counts.counts == {"answered": 2, "refused": 1, "died": 1}
    assert [text for _, text in counts.wrong] == ["die"]


@pytest.mark.parametrize("door", ["sql", "view", "materialized", "where", "delete"])
def test_no_text_gets_out_of_the_warehouse(tmp_path: Path, door: str) -> None:
    texts = conditions(tmp_path, NO_PORT) if door in ("where", "delete") else statements(tmp_path, NO_PORT)
    if door in ("view", "materialized"):
        texts = [text for text in texts if text.startswith(("SELECT", "WITH"))]
    counts = MutantCounts()
    tried(door, Random(SEED).sample(texts, INPUTS), tmp_path, counts)
    assert counts.wrong == []


def test_what_to_sql_says_is_read_back(tmp_path: Path) -> None:
    ends, wrong = escapes(tmp_path, 30, SEED)
    assert wrong == []
    assert ends["read back"] == 30


HEAVY = [case for case in cases() if case[0] in ("where", "view")]


@pytest.mark.parametrize("door, name", some([pytest.param(*case) for case in HEAVY], 12))
def test_a_long_or_deep_text_ends_in_bounded_time(tmp_path: Path, door: str, name: str) -> None:
    with Child(seconds=120) as child:
        answer = child.ask("spec_tests.reliability.sql_heavy:ask", json.dumps([door, name, str(tmp_path)]).encode())
    assert answer.end in ("value", "error"), answer
    assert answer.peak_bytes < PEAK_BYTES
