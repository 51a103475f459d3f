"""Every table the reference engine wrote, read as the engine itself read it.

Plain pytest holds the newest state of each table; `pytest -m reference` holds every recorded read and prints how many of how many are equal.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lakekit.testing.expectations import FIXTURES, load
from spec_tests.golden.reads import answer

CASES = sorted(path.stem for path in Path(FIXTURES, "tables").glob("*.json"))


@pytest.mark.parametrize("name", CASES)
def test_the_newest_state(name: str) -> None:
    case = load(name)
    wrong = {read.name: found for read in case.reads if read.name == "latest" and (found := answer(case, read)) is not None}
    assert not wrong


@pytest.mark.reference
@pytest.mark.parametrize("name", CASES)
def test_every_recorded_read(name: str, record_property: pytest.RecordProperty) -> None:
    case = load(name)
    wrong = {read.name: found for read in case.reads if (found := answer(case, read)) is not None}
    record_property("recorded_reads", len(case.reads))
    record_property("equal_reads", len(case.reads) - len(wrong))
    assert not wrong
